"""Decompositions that several tests of plots draw; each is made once."""

from __future__ import annotations

import os

import numpy as np
import pytest

import treeanova
from tests.support.training import fit

os.environ.setdefault("MPLBACKEND", "Agg")  # before matplotlib is loaded
LONG = "the_median_income_of_all_households_in_the_block_group_$_and_year"
TREES = {"max_depth": 2, "n_jobs": 1}
CATEGORIES = {"enable_categorical": True, "max_cat_to_onehot": 1}


@pytest.fixture(autouse=True)
def closed_figures():
    """No figure stays open after a test."""
    yield
    pytest.importorskip("matplotlib.pyplot").close("all")


@pytest.fixture(scope="session")
def model():
    """A model of `mixed_table`."""
    xgboost = pytest.importorskip("xgboost")
    from tests.support.tables import mixed_response, mixed_table

    X = mixed_table()
    booster = xgboost.XGBRegressor(n_estimators=40, learning_rate=0.3, **TREES, **CATEGORIES)
    return fit(booster, X, mixed_response(X))


@pytest.fixture(scope="session")
def fx(model):
    """Numbers, categories and missing values; main effects and pairs."""
    from tests.support.tables import mixed_table

    return treeanova.decompose(model, mixed_table(), density="empirical", n_jobs=1)


@pytest.fixture(scope="session")
def deep():
    """Terms of three features without a table."""
    xgboost = pytest.importorskip("xgboost")
    from tests.support.tables import mixed_response, mixed_table

    X = mixed_table()
    booster = xgboost.XGBRegressor(n_estimators=10, max_depth=3, n_jobs=1, **CATEGORIES)
    target = mixed_response(X) + 15 * (X["age"] > 50) * (X["colour"] == "red") * (X["grade"] == "2")
    return treeanova.decompose(fit(booster, X, target), X, density="empirical", tensor_order=2, n_jobs=1)


@pytest.fixture(scope="session")
def three():
    """Three classes."""
    pd, ensemble = pytest.importorskip("pandas"), pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(1)
    data = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    classes = np.array(["low", "mid", "top"])[np.digitize(data["a"] * data["b"] + data["c"], [-0.5, 0.5])]
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0), data, classes)
    return treeanova.decompose(model, data, density="empirical", n_jobs=1)


@pytest.fixture(scope="session")
def tailed():
    """Rows of which a few lie far out, and their decomposition."""
    pd, xgboost = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"a": np.append(rng.normal(size=996), [50.0, 60.0, 70.0, 80.0]), "b": rng.normal(size=1000)})
    target = np.tanh(data["a"]) + (data["a"] > 65) * 3 + data["b"] * (data["a"] > 0)
    fitted = fit(xgboost.XGBRegressor(n_estimators=30, tree_method="exact", **TREES), data, target)
    return data, treeanova.decompose(fitted, data, density="empirical", n_jobs=1)


@pytest.fixture(scope="session")
def long_names():
    """Rows with long names of features and of sixty categories, and their decomposition."""
    pd, xgboost = pytest.importorskip("pandas"), pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    data = pd.DataFrame({LONG: rng.normal(size=300), f"{LONG} too": rng.normal(size=300)})
    labels = [f"category $ number {i} of a list that is long" for i in range(60)]
    data["_kind"] = pd.Categorical(rng.choice(labels, 300), categories=labels)
    target = data[LONG] * data[f"{LONG} too"] + data["_kind"].cat.codes.to_numpy() / 10
    fitted = xgboost.XGBRegressor(n_estimators=30, **TREES, **CATEGORIES)
    fit(fitted, data, target + (data["_kind"].cat.codes % 7) * data[LONG])
    return data, treeanova.decompose(fitted, data, density="empirical", n_jobs=1)
