"""Archives that earlier versions wrote are read, and say what they said then; `make_archives` made them."""

from __future__ import annotations

import pathlib

import numpy as np
import pytest

import treeanova
from tests.make_archives import CASES, said, table

ARCHIVES = sorted((pathlib.Path(__file__).parent / "kept_archives").glob("schema-*/*.tav"))


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
