"""Small models and their decompositions, which several files ask for."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.simulated import boosted_in_pairs, deep_decomposition, deep_model, dependent_rows, interacting
from tests.support.training import fit


@pytest.fixture(scope="package")
def model():
    """A regressor of three features, with all six terms of one and two."""
    pytest.importorskip("sklearn")
    rows = dependent_rows()
    return boosted_in_pairs(rows, interacting(rows))


@pytest.fixture(scope="package")
def other_model():
    """Another regressor of the same features, with other thresholds."""
    pytest.importorskip("sklearn")
    rows = dependent_rows()
    return boosted_in_pairs(rows, np.sin(interacting(rows)) + rows[:, 1] * rows[:, 2], n_trees=6)


@pytest.fixture(scope="package")
def fx(model):
    """The regressor, decomposed under the empirical density."""
    return treeanova.decompose(model, dependent_rows(), density="empirical", n_jobs=1)


@pytest.fixture(scope="package")
def classifier():
    """A classifier of three classes."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rows = dependent_rows()
    classes = np.array(list("uvw"))[np.digitize(interacting(rows), [-0.5, 0.5])]
    return fit(ensemble.GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0), rows, classes)


@pytest.fixture(scope="package")
def several(classifier):
    """The classifier, decomposed: three outputs."""
    return treeanova.decompose(classifier, dependent_rows(), density="empirical", n_jobs=1)


@pytest.fixture(scope="package")
def mixed():
    """A model of a number with missing values and a category, its data, and its decomposition."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=400), "kind": rng.choice(["u", "v", "w"], 400)})
    table["kind"] = table["kind"].astype("category")
    table.loc[::5, "age"] = np.nan
    response = table.age.fillna(0) * (table.kind == "u") + (table.kind == "v") - 9 * table.age.isna()
    model = fit(
        ensemble.HistGradientBoostingRegressor(
            max_iter=6, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
        ),
        table,
        response,
    )
    return model, table, treeanova.decompose(model, table, density="empirical", n_jobs=1)


@pytest.fixture(scope="package")
def deep():
    """An ensemble of depth 6 and its rows."""
    pytest.importorskip("xgboost")
    return deep_model()


@pytest.fixture(scope="package")
def deep_fx(deep):
    """The same, decomposed: tables up to order 2, terms of orders 3 to 6 at rows."""
    return deep_decomposition()


@pytest.fixture(scope="package")
def triple():
    """A model of three features with terms of all three orders, and its rows; a feature is called remainder."""
    xgboost = pytest.importorskip("xgboost")
    pd = pytest.importorskip("pandas")
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1500, 3)) + 0.7 * rng.normal(size=(1500, 1))
    rows = pd.DataFrame(values, columns=["a", "b", "remainder"])
    target = rows["a"] * rows["b"] + rows["remainder"] + (rows["a"] * rows["b"] * rows["remainder"] > 0)
    return fit(xgboost.XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1), rows, target), rows
