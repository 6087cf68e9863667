"""ONNX: refused values, labels of several types, thresholds, large tables, names, and the file itself."""

from __future__ import annotations

import sys

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.model import Effects

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")


def run(model, **columns):
    """All outputs by name, at columns of values."""
    session = runtime.InferenceSession(bytes(model), providers=["CPUExecutionProvider"])
    inputs = {
        name: np.array(values, dtype=object if isinstance(values[0], str) else float)[:, None]
        for name, values in columns.items()
    }
    return dict(zip(model.columns, session.run(list(model.columns), inputs), strict=True))


def test_refused_values_have_no_score():
    tables = {"a": [0.0, 1.0], "g": [0.0, 2.0], "n": [0.0, 4.0]}
    effects = Effects.from_tables(
        tables, thresholds={"a": [0.5]}, categories={"g": ["x", "y"], "n": [1, 2.5]}, link="logit"
    )
    model = treeanova.export.onnx(treeanova.decompose(effects, density="uniform"), columns="terms")
    above = np.nextafter(2.5, 3)
    found = run(
        model,
        a=[0.5, np.nextafter(0.5, 1), np.nan, np.inf, 0.0, 0.0, 0.0, -np.inf],
        g=["x", "y", "y", "x", "z", "", "x", "x"],
        n=[1.0, 2.5, 1.0, 1.0, 1.0, 1.0, above, 2.5],
    )
    expected = [0.0, 7.0, np.nan, 1.0, np.nan, np.nan, np.nan, 4.0]
    np.testing.assert_allclose(found["score"][:, 0], expected)
    np.testing.assert_allclose(found["probability"].sum(axis=1), np.where(np.isnan(expected), np.nan, 1.0))
    assert found["label"].tolist() == [0, 1, -(2**63), 1, -(2**63), -(2**63), -(2**63), 1]
    assert np.isnan(found["a (term)"][2, 0])


def test_the_text_of_missing_categories_is_refused_where_they_are():
    """CatBoost's models take labels that they have not seen, but no missing ones."""
    catboost = pytest.importorskip("catboost")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": rng.choice(["x", "y"], 200), "a": rng.normal(size=200)})
    model = catboost.CatBoostRegressor(
        iterations=5, depth=2, one_hot_max_size=9, cat_features=["g"], verbose=0, allow_writing_files=False
    )
    fx = treeanova.decompose(fit(model, X, X["a"] * (X["g"] == "x") + (X["g"] == "x")), X, density="independent")
    found = run(treeanova.export.onnx(fx, missing_text="none"), g=["none", "unseen", "x"], a=[0.5, 0.5, 0.5])
    expected = fx.decision_function(pd.DataFrame({"g": ["unseen", "x"], "a": [0.5, 0.5]}))
    np.testing.assert_allclose(found["score"][:, 0], [np.nan, *expected], atol=1e-12)


@pytest.mark.parametrize("labels", [("", "no"), (-(2**63), 1)])
def test_a_class_is_not_the_label_of_refused_rows(labels):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.arange(40.0)[:, None]
    model = fit(ensemble.GradientBoostingClassifier(max_depth=1, n_estimators=2), X, np.array(labels)[[0, 1] * 20])
    with pytest.raises(ValueError, match="the label of refused rows in ONNX; rename it"):
        treeanova.export.onnx(treeanova.decompose(model, X))


def test_missing_categories_are_a_text_that_is_no_label():
    lightgbm = pytest.importorskip("lightgbm")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"g": pd.Categorical(rng.choice(["", "x", "y", None], 400)), "a": rng.normal(size=400)})
    y = X["a"] * (X["g"] == "x") + X["g"].isna() - (X["g"] == "")
    model = fit(
        lightgbm.LGBMRegressor(n_estimators=10, max_depth=2, min_child_samples=5, cat_smooth=1, verbose=-1), X, y
    )
    fx = treeanova.decompose(model, X, density="independent")
    with pytest.raises(ValueError, match="`missing_text` must be no category of 'g', got ''"):
        treeanova.export.onnx(fx)
    exported = treeanova.export.onnx(fx, missing_text="<missing>")
    found = run(exported, g=["<missing>", "", "unseen", "x"], a=[0.5, np.nan, 0.5, -np.inf])
    known = ["", "x", "y", "unseen"]
    rows = pd.DataFrame({"g": pd.Categorical([None, "", "unseen", "x"], known), "a": [0.5, np.nan, 0.5, -np.inf]})
    np.testing.assert_allclose(found["score"][:, 0], model.predict(rows), atol=1e-12)


@pytest.mark.parametrize("labels", [("no", "yes"), (3, 7), (False, True), ("a", "b", "c")])
def test_labels_are_those_of_the_library(labels):
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 2))
    codes = np.digitize(X[:, 0] + X[:, 1] * 0.5, [0.0, 1.0][: len(labels) - 1])
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=2), X, np.array(labels)[codes])
    fx = treeanova.decompose(model, X)
    found = run(treeanova.export.onnx(fx), x0=X[:, 0], x1=X[:, 1])
    probability = model.predict_proba(X)
    np.testing.assert_allclose(found["probability"], probability, atol=1e-12)
    is_clear = np.diff(np.sort(probability, axis=1)[:, -2:]).ravel() > 1e-12
    np.testing.assert_array_equal(found["label"][is_clear], model.predict(X)[is_clear])


def test_large_tables_are_sums_of_few_products():
    """A pair of many cells and one step, and a triple: as small as their coefficients, and exact."""
    size = 120
    pair, triple = np.zeros((size, size)), np.zeros((size, size, 3))
    pair[70:, 30:] = 2.0
    triple[50:, :90, 1] = -1.5
    names = {"a": size, "b": size}
    cuts = {name: np.arange(n - 1) + 0.5 for name, n in names.items()}
    tables = {"a": np.arange(size) % 7.0, "b": np.arange(size) % 5.0, ("a", "b"): pair, ("a", "b", "g"): triple}
    effects = Effects.from_tables(tables, thresholds=cuts, categories={"g": ["x", "y", "z"]})
    fx = treeanova.decompose(effects, density="uniform")
    for columns in ("score", "terms"):
        model = treeanova.export.onnx(fx, columns=columns)
        assert treeanova.export.verify(model).largest_difference < 1e-12
        assert len(bytes(model)) < 8 * size * size
    operators = {node.op_type for node in onnx.load_from_string(bytes(model)).graph.node}
    assert {"MatMul", "And", "GatherND"} <= operators


def test_the_file_says_what_it_is(tmp_path):
    effects = Effects.from_tables({"score": [0.0, 1.0]}, thresholds={"score": [0.5]}, link="log")
    fx = treeanova.decompose(effects, density="uniform")
    model = treeanova.export.onnx(fx, columns="terms")
    assert model.columns == ("score (result)", "response", "score (term)")
    model.save(tmp_path / "model.onnx")
    loaded = onnx.load(tmp_path / "model.onnx")
    facts = {fact.key: fact.value for fact in loaded.metadata_props}
    assert facts["fingerprint"] == model.fingerprint
    assert (loaded.producer_name, [entry.name for entry in loaded.graph.input]) == ("treeanova", ["score"])
    found = run(model, score=[0.0, 1.0])
    np.testing.assert_allclose(found["response"][:, 0], fx.predict([[0.0], [1.0]]))


def test_without_the_library_a_message_says_what_to_install(monkeypatch):
    fx = treeanova.decompose(Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]}), density="uniform")
    monkeypatch.setitem(sys.modules, "onnx", None)
    with pytest.raises(
        ImportError, match="writing ONNX needs the package onnx, which is not installed; pip install onnx"
    ):
        treeanova.export.onnx(fx)
    with pytest.raises(ValueError, match="`columns` must be one of 'score', 'terms', got 'points'"):
        treeanova.export.onnx(fx, columns="points")
