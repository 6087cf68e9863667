"""Programs refuse values of another kind, and return a term for each label, even where names look like pairs."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import json
import shutil
import subprocess

import numpy as np
import pytest

import treeanova
from treeanova.model import Effects

needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="Node.js is not installed")
CASES = [  # column, its value as JSON, and whether both programs take it
    *[("age", text, False) for text in ('"70 years"', '"20,5"', '"n/a"', '""', '"70"', "[]", "{}")],
    *[("age", text, True) for text in ("70", "-1.5", "true", "false")],
    *[("code", text, False) for text in ('"10"', '""', '"x"')],
    *[("code", text, True) for text in ("10", "20")],
    *[("city", text, False) for text in ("10", "0", "true")],
    *[("city", text, True) for text in ('"10"', '"x"')],
    *[("flag", text, True) for text in ("true", "false", "1", "0")],
    *[("flag", text, False) for text in ('"true"', '"1"')],
    *[("both", text, True) for text in ('"a"', "10")],
]


def decomposition():
    tables = {"age": [0.0, 1.0], "code": [1.0, 2.5], "city": [1.0, 3.0]}
    tables |= {"flag": [0.0, 4.0], "both": [0.0, 7.0]}
    labels = {"code": [10, 20], "city": ["10", "x"], "flag": [False, True], "both": ["a", 10]}
    effects = Effects.from_tables(tables, thresholds={"age": [20.0]}, categories=labels)
    return treeanova.decompose(effects, density="uniform")


def run_python(fx, row):
    module = {}
    exec(str(treeanova.export.python(fx)), module)
    return module["score"](row)


def run_node(fx, row, folder):
    script = folder / "model.js"
    treeanova.export.javascript(fx).save(script)
    code = f"console.log(require({json.dumps(str(script))}).score({json.dumps(row)}))"
    run = subprocess.run(["node", "-e", code], capture_output=True, text=True, check=False)
    if run.returncode:
        raise TypeError(run.stderr)
    return float(run.stdout)


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64, np.int64, int, decimal.Decimal])
def test_python_compares_all_numbers_as_float64(kind):
    cut = 0.1 if issubclass(kind, (np.floating, decimal.Decimal)) else 2.0**53
    value = kind(cut) if issubclass(kind, np.floating) else kind("0.1") if cut < 1 else kind(2**53 + 1)
    fx = treeanova.decompose(Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [cut]}), density="uniform")
    assert run_python(fx, {"a": value}) == fx.decision_function(np.array([[float(value)]]))[0]


@pytest.mark.parametrize("value", [dt.date(2020, 1, 1), [1.0], 1j, 10**400])
def test_python_refuses_what_is_no_number(value):
    with pytest.raises(TypeError, match="column 'age' must hold numbers"):
        run_python(decomposition(), {"age": value, "code": 10, "city": "x", "flag": True, "both": "a"})


@pytest.mark.parametrize("writer", ["duckdb", "sqlite", "python", pytest.param("javascript", marks=needs_node)])
def test_an_intercept_alone_is_verified(writer):
    """It has no columns, so that one row without values is the only one that can be made."""
    if writer == "duckdb":
        pytest.importorskip("duckdb")
    fx = decomposition().select(terms=[])
    is_program = writer in ("python", "javascript")
    export = getattr(treeanova.export, writer)(fx) if is_program else treeanova.export.sql(fx, dialect=writer)
    for rows, n_rows in ((None, 0), (np.array([[0, 10, "x", True, "a"]] * 3, dtype=object), 3)):
        proof = treeanova.export.verify(export, rows)
        assert (proof.largest_difference, proof.n_rows, proof.n_adversarial_rows) == (0, n_rows, 1)
    other = dataclasses.replace(export, source=decomposition().set("age", 100.0).select(terms=[]))
    assert treeanova.export.verify(other).largest_difference > 0.5
    assert treeanova.export.verify(other, rows).largest_difference > 0.5


def test_what_is_no_decomposition_is_named():
    fx, model = decomposition(), object()
    for writer in ("sql", "onnx", "python", "javascript", "ebm", "scorecard", "relativities"):
        with pytest.raises(TypeError, match="`fx` must be a decomposition, got object; make one with treeanova"):
            getattr(treeanova.export, writer)(model)
    with pytest.raises(TypeError, match="`export` must be what sql, onnx, python or javascript returned"):
        treeanova.export.verify(fx)
    with pytest.raises(TypeError, match="`effects` must be Effects, got Decomposition"):
        treeanova.model.StepForm.of(fx)


@pytest.mark.parametrize(("column", "text", "is_taken"), CASES)
def test_python_takes_values_of_its_columns_kind(column, text, is_taken):
    fx = decomposition()
    row = {"age": 1.0, "code": 10, "city": "x", "flag": True, "both": "a", column: json.loads(text)}
    if is_taken:
        assert run_python(fx, row) == pytest.approx(treeanova.model.StepForm.of(fx_effects(fx)).score(row)[0])
    else:
        with pytest.raises(TypeError):
            run_python(fx, row)


@needs_node
def test_javascript_takes_what_python_takes(tmp_path):
    fx = decomposition()
    base = {"age": 1.0, "code": 10, "city": "x", "flag": True, "both": "a"}
    for column, text, is_taken in CASES:
        row = base | {column: json.loads(text)}
        if is_taken:
            assert run_node(fx, row, tmp_path) == pytest.approx(run_python(fx, row)), (column, text)
        else:
            with pytest.raises(TypeError, match=f"column {column} must hold"):
                run_node(fx, row, tmp_path)


def fx_effects(fx):
    return treeanova.decomposition.predictions.function_of(fx).effects


@pytest.mark.parametrize("writer", ["python", "javascript", "onnx", "sql"])
def test_a_name_that_reads_like_a_pair_keeps_its_term(writer):
    if writer == "javascript" and shutil.which("node") is None:
        pytest.skip("Node.js is not installed")
    if writer == "onnx":
        pytest.importorskip("onnx")
        pytest.importorskip("onnxruntime")
    rng = np.random.default_rng(0)
    tables = {("a × b",): rng.normal(size=2), ("a", "b"): rng.normal(size=(2, 2)), ("a",): rng.normal(size=2)}
    thresholds = {name: [0.0] for name in ("a", "b", "a × b")}
    fx = treeanova.decompose(Effects.from_tables(tables, thresholds=thresholds), density="uniform")
    options = {"columns": "terms"} if writer in ("onnx", "sql") else {}
    if writer == "sql":
        options["dialect"] = "sqlite"
    export = getattr(treeanova.export, writer)(fx, **options)
    assert treeanova.export.verify(export).largest_difference < 1e-12
    if writer == "python":
        module = {}
        exec(str(export), module)
        row = {"a": 1.0, "b": -1.0, "a × b": 1.0}
        terms = module["terms"](row)
        shown = {'"a × b"', "a × b", "a"} | ({"b"} & set(terms))
        assert set(terms) == shown
        assert sum(terms.values()) + module["INTERCEPT"][0] == pytest.approx(module["score"](row))
