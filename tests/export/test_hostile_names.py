"""Names and categories that quoting, formats or files could change: every export is exact, or refused with a reason."""

from __future__ import annotations

import importlib.util
import re
import shutil
import warnings

import numpy as np
import pytest

import treeanova
from treeanova.model import Effects

TEXTS = [
    "it's", 'say "no"', '"""', "back\\slash", "two\nlines", "cr\r\n", "tab\t", "naïve × ∑ 🎈",
    "'); DROP TABLE rows; --",
    "select", "`tick`", "%s", "{x}", "$1", ":p", "?", "</script>", "\u2028", "__proto__", "constructor", "score",
    "label", "v0", "c0", "r0", "treeanova_1", "1", "1.0", "nan", "NULL", "None", "True", " lead ", "é", "e\u0301",
    "\ufeffbom", "\x1b[31m",
]  # fmt: skip
WITH_NUL = ["\0nul", "a\0b"]
WRITERS = {
    "python": treeanova.export.python,
    "javascript": treeanova.export.javascript,
    "sqlite": lambda fx: treeanova.export.sql(fx, dialect="sqlite", columns="terms"),
    "duckdb": lambda fx: treeanova.export.sql(fx, columns="terms"),
    "onnx": lambda fx: treeanova.export.onnx(fx, columns="terms", missing_text="<missing>"),
}
IS_HERE = {
    "javascript": shutil.which("node") is not None,
    "duckdb": importlib.util.find_spec("duckdb") is not None,
    "onnx": importlib.util.find_spec("onnxruntime") is not None and importlib.util.find_spec("onnx") is not None,
}
WRITERS_HERE = [
    pytest.param(name, marks=() if IS_HERE.get(name, True) else pytest.mark.skip(reason="its engine is not installed"))
    for name in WRITERS
]


def named(texts):
    """A decomposition with a number and a pair for each text as a name."""
    tables = {text: [0.0, 1.0 + i, 3.0] for i, text in enumerate(texts)}
    tables |= {(text, "g"): [[0.0, 1.0], [2.0, 5.0], [1.0, 1.0]] for text in texts}
    thresholds = {text: [0.5, 2.0] for text in texts}
    effects = Effects.from_tables(tables, thresholds=thresholds, categories={"g": ["x", "y"]})
    return treeanova.decompose(effects, density="uniform")


def labelled(texts):
    """A decomposition with a category for each text."""
    values = np.arange(len(texts)) ** 2.0
    return treeanova.decompose(Effects.from_tables({"g": values}, categories={"g": texts}), density="uniform")


@pytest.mark.parametrize("writer", WRITERS_HERE)
@pytest.mark.parametrize("kind", [named, labelled])
def test_texts_stay_data(kind, writer):
    fx = kind(TEXTS)
    proof = treeanova.export.verify(WRITERS[writer](fx))
    assert proof.largest_difference < 1e-12
    assert "terms" in proof.results


@pytest.mark.parametrize("writer", WRITERS_HERE)
@pytest.mark.parametrize("text", WITH_NUL)
def test_nul_is_exact_or_refused(text, writer):
    for kind in (named, labelled):
        fx = kind([text, "b"])
        if writer in {"python", "javascript"}:
            assert treeanova.export.verify(WRITERS[writer](fx)).largest_difference < 1e-12
        else:
            with pytest.raises(ValueError, match=r"^(names|labels) .* must|^names must|^labels must"):
                WRITERS[writer](fx)


@pytest.mark.parametrize("kind", [named, labelled])
def test_lone_surrogates_are_refused(kind):
    with pytest.raises(ValueError, match="must be text that UTF-8 can write"):
        treeanova.export.python(kind(["\udc80", "b"]))


def test_empty_names_and_labels():
    for writer in ("sqlite", "onnx"):
        if IS_HERE.get(writer, True):
            with pytest.raises(ValueError, match="names must be ones that"):
                WRITERS[writer](named([""]))
            assert treeanova.export.verify(WRITERS[writer](labelled(["", "b"]))).largest_difference < 1e-12


def test_names_that_differ_in_case_alone():
    fx = named(["a", "A"])
    for dialect in ("duckdb", "sqlite", "spark", "bigquery"):
        with pytest.raises(ValueError, match="names of columns must differ in more than the case of letters"):
            treeanova.export.sql(fx, dialect=dialect)
    for dialect in ("postgresql", "snowflake"):
        assert '"A"' in str(treeanova.export.sql(fx, dialect=dialect))


def test_results_have_plain_names_in_bigquery():
    fx = named(["a", "1 b", "a_x_g"])
    columns = treeanova.export.sql(fx, dialect="bigquery", columns="terms").columns
    assert columns[:2] == ("intercept", "a")
    assert all(re.fullmatch("[A-Za-z_][0-9A-Za-z_]*", name) for name in columns)
    assert len(set(columns)) == len(columns) == 2 + len(fx.terms)


def test_interprets_ebm_reads_hostile_categories():
    pandas = pytest.importorskip("pandas")
    pytest.importorskip("interpret.glassbox")
    fx = labelled(TEXTS)
    rows = pandas.DataFrame({"g": [*TEXTS, "b", "unseen"]}, dtype=object)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = treeanova.export.ebm(fx).predict(rows)
    np.testing.assert_allclose(found[: len(TEXTS)], fx.decision_function(rows[: len(TEXTS)]), atol=1e-9)
    with pytest.raises(ValueError, match=r"categories of 'g' must be texts or numbers that differ as texts"):
        treeanova.export.ebm(labelled([1, "1"]))
    with pytest.raises(ValueError, match=r"categories of 'g' must be texts or numbers that differ as texts"):
        treeanova.export.ebm(labelled(["a", "nul\0"]))
