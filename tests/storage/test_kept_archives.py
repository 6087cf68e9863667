"""Files that earlier versions wrote are read, and say what they said then.

`tests/archives/schema-N.tav` holds `reference` of tests.support.archives in schema N, one small file per schema.
``python -m tests.storage.test_kept_archives`` writes the one of the present schema; those of older schemas are never
written again. `tests/make_archives.py` made the files in `tests/kept_archives`.
"""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import treeanova
from tests.make_archives import CASES, said, table
from tests.support.archives import reference
from treeanova.storage.archive import SCHEMA

TESTS = pathlib.Path(__file__).parents[1]
REFERENCES = TESTS / "archives"
ARCHIVES = sorted((TESTS / "kept_archives").glob("schema-*/*.tav"))


def kept(path):
    """The rows beside an archive as columns, and what its decomposition said of them."""
    with np.load(path.with_suffix(".npz")) as arrays:
        found = {name: arrays[name] for name in arrays.files}
    rows = {name.removeprefix("rows/"): found.pop(name) for name in list(found) if name.startswith("rows/")}
    return rows, found


@pytest.mark.parametrize("path", ARCHIVES, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_an_archive_says_what_it_said(path):
    pytest.importorskip("pandas")
    rows, expected = kept(path)
    found = said(treeanova.load(path), table(rows))
    assert found.keys() == expected.keys()
    largest = np.abs(expected["score"]).max()
    for name, values in expected.items():
        if values.dtype.kind == "U":
            assert found[name].tolist() == values.tolist()
        else:
            np.testing.assert_allclose(found[name], values, rtol=0, atol=1e-12 * largest, err_msg=name)


def test_every_kind_is_kept():
    kinds = {case.__name__.replace("_", "-") for case in CASES}
    assert {path.stem for path in ARCHIVES if path.parent.name == "schema-1"} == kinds


# Files of every schema


@pytest.mark.parametrize("schema", range(1, SCHEMA + 1))
def test_files_of_every_schema_are_read(schema):
    """Means 3/8; mains ±1/4 whatever the correlation; all by hand."""
    fx = treeanova.load(REFERENCES / f"schema-{schema}.tav")
    np.testing.assert_allclose(fx.intercept, [10.375, 20.75], atol=1e-14)
    for name in ("age", "kind"):
        np.testing.assert_allclose(fx.terms[name].values, [[0.25, 0.5], [-0.25, -0.5]], atol=1e-14)
    pair = np.array([[0.125, -0.375], [-0.375, 0.125]])
    np.testing.assert_allclose(fx.terms["age", "kind"].values, np.stack([pair, 2 * pair], axis=-1), atol=1e-14)
    np.testing.assert_allclose(fx.terms["age", "kind"].weights, np.array([[3, 1], [1, 3]]) / 8, atol=1e-15)
    rows = np.array([[0.5, "a"], [-999, "a"], [np.nan, "unheard of"], [-7, "zz"]], dtype=object)
    np.testing.assert_allclose(fx.decision_function(rows), [[11, 22], [10, 20], [10, 20], [11, 22]], atol=1e-13)
    np.testing.assert_allclose(fx.raw.decision_function(rows), [[11, 22], [10, 20], [10, 20], [11, 22]], atol=1e-13)
    # Variances 1/16, 1/16 and 3/64, the mains' covariance 1/32, of 15/64 in all.
    np.testing.assert_allclose(fx.moments.variance, np.array([[1, 4], [1, 4], [0.75, 3]]) / 16, atol=1e-14)
    np.testing.assert_allclose(fx.moments.covariance, np.array([[1, 4], [1, 4], [0, 0]]) / 32, atol=1e-14)
    assert fx.terms["age"].axes[0].labels == ("≤ 0.5", "> 0.5 or missing")
    assert fx.terms["kind"].axes[0].labels == ("a or unseen", "b")
    assert fx.schema.outputs == ("low", "high")
    assert (fx.density.name, fx.schema.link, fx.schema.named) == ("empirical", "identity", True)
    assert fx.certificate.terms["age", "kind"].max_correlation == pytest.approx(0.5, abs=1e-6)


def test_every_schema_has_its_file():
    assert {path.name for path in REFERENCES.iterdir()} == {f"schema-{n}.tav" for n in range(1, SCHEMA + 1)}


if __name__ == "__main__":
    reference().save(REFERENCES / f"schema-{SCHEMA}.tav")
