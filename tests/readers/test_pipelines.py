"""Pipelines: the final step is read; decompose refuses those that mix columns before it."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn")
import pandas as pd
import polars as pl
from sklearn.compose import make_column_transformer
from sklearn.decomposition import PCA
from sklearn.ensemble import GradientBoostingRegressor, RandomForestRegressor
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler
from sklearn.tree import DecisionTreeRegressor

import treeanova
from tests.support.training import fit
from treeanova.errors import UnsupportedModelError
from treeanova.readers import read_model
from treeanova.readers.pipelines import final_step

X = np.random.default_rng(0).normal(size=(300, 4))
Y = np.sin(2 * X[:, 0]) * X[:, 2] + 3 * X[:, 1] + X[:, 3] * (X[:, 0] > 0)


def test_pipeline_is_read_by_its_last_step_with_names_from_the_steps_before():
    frame = pd.DataFrame(X, columns=list("abcd"))
    scale = make_column_transformer((StandardScaler(), ["c", "a"]), remainder="passthrough")
    pipeline = fit(make_pipeline(scale, GradientBoostingRegressor(n_estimators=5)), frame, Y)
    forest = read_model(pipeline)
    assert forest.schema.named
    assert forest.schema.names == ("standardscaler__c", "standardscaler__a", "remainder__b", "remainder__d")
    transformed = pipeline[:-1].transform(frame)
    np.testing.assert_allclose(forest.score(transformed)[:, 0], pipeline.predict(frame), rtol=1e-12, atol=1e-12)
    table = pl.DataFrame(dict(zip(forest.schema.names, transformed.T, strict=True)))
    np.testing.assert_array_equal(forest.score(table[sorted(table.columns)]), forest.score(transformed))


@pytest.mark.parametrize(
    ("steps", "names"),
    [
        ([PCA(2)], ("pca0", "pca1")),
        ([FunctionTransformer(np.tanh)], ("x0", "x1", "x2", "x3")),
        (["passthrough"], ("x0", "x1", "x2", "x3")),
        ([], ("x0", "x1", "x2", "x3")),
    ],
)
def test_pipeline_of_a_matrix_is_matched_by_position(steps, names):
    pipeline = fit(make_pipeline(*steps, RandomForestRegressor(3)), X, Y)
    forest = read_model(pipeline)
    assert (forest.schema.names, forest.schema.named) == (names, False)
    rows = pipeline[:-1].transform(X) if steps else X
    np.testing.assert_allclose(forest.score(rows)[:, 0], pipeline.predict(X), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("library", ["xgboost", "lightgbm"])
def test_pipeline_may_end_in_a_model_of_another_library(library):
    module = pytest.importorskip(library)
    pytest.importorskip(f"treeanova.readers.{library}")
    model = {
        "xgboost": lambda: module.XGBRegressor(n_estimators=5, n_jobs=1),
        "lightgbm": lambda: module.LGBMRegressor(n_estimators=5, n_jobs=1, verbose=-1),
    }[library]()
    frame = pd.DataFrame(X, columns=list("abcd"))
    steps = make_pipeline(StandardScaler().set_output(transform="pandas"), model)
    pipeline = fit(steps, frame, Y)
    forest = read_model(pipeline)
    assert forest.schema.names == tuple("abcd")
    np.testing.assert_allclose(
        forest.score(pipeline[:-1].transform(frame))[:, 0], pipeline.predict(frame), rtol=1e-5, atol=1e-5
    )


def test_pipeline_may_end_in_an_ebm():
    glassbox = pytest.importorskip("interpret.glassbox")
    pytest.importorskip("treeanova.readers.ebm")
    model = glassbox.ExplainableBoostingRegressor(max_rounds=20, outer_bags=1, interactions=1, n_jobs=1)
    frame = pd.DataFrame(X, columns=list("abcd"))
    pipeline = fit(make_pipeline(StandardScaler(), model), frame, Y)
    effects = read_model(pipeline)
    assert effects.grid.schema.names == tuple(axis.name for axis in effects.grid.axes) == tuple("abcd")
    scores = effects.score(pipeline[:-1].transform(frame))[:, 0]
    np.testing.assert_allclose(scores, pipeline.predict(frame), rtol=1e-10, atol=1e-12)


def test_pipeline_without_a_model_is_refused():
    pipeline = fit(Pipeline([("scale", StandardScaler()), ("nothing", "passthrough")]), X)
    with pytest.raises(UnsupportedModelError, match="must end in a model, got 'passthrough'"):
        read_model(pipeline)


def test_final_step_of_a_pipeline_that_leaves_its_columns():
    tree = fit(DecisionTreeRegressor(max_depth=2), X, Y)
    inner = Pipeline([("nothing", "passthrough"), ("tree", tree)])
    assert final_step(tree) is tree
    assert final_step(inner) is tree
    assert final_step(Pipeline([("none", None), ("inner", inner)])) is tree
    fx = treeanova.decompose(inner, X, density="empirical")
    np.testing.assert_allclose(fx.decision_function(X), tree.predict(X), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("nested", [False, True])
def test_a_pipeline_that_changes_its_columns_is_decomposed_in_those_that_enter_it(nested, tmp_path):
    model = make_pipeline(StandardScaler(), DecisionTreeRegressor(max_depth=2))
    model = fit((make_pipeline(model) if nested else model), X, Y)
    (tmp_path / "p.pkl").write_bytes(pickle.dumps(model))
    for given in (model, tmp_path / "p.pkl"):
        fx = treeanova.decompose(given, X, trusted=True, density="empirical")
        np.testing.assert_allclose(fx.decision_function(X), model.predict(X), atol=1e-12)


def test_a_pipeline_that_mixes_its_columns_is_refused_by_decompose():
    model = fit(make_pipeline(make_pipeline(PCA(2), DecisionTreeRegressor(max_depth=2))), X, Y)
    with pytest.raises(UnsupportedModelError, match="PCA, which combines columns; decompose the final step"):
        treeanova.decompose(model, X)
    with pytest.raises(UnsupportedModelError, match="must end in a model, got 'passthrough'"):
        treeanova.decompose(fit(Pipeline([("scale", StandardScaler()), ("nothing", "passthrough")]), X), X)
