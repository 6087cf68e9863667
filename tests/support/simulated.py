"""Simulated rows with known dependence and interactions, and small models fitted to them (scikit-learn, XGBoost)."""

from __future__ import annotations

import functools
import importlib
import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tests.support.training import fit
from treeanova.core.arrays import Floats


def dependent_rows(n_rows: int = 300, seed: int = 0) -> Floats:
    """Rows of three normal features, of which the first two are correlated."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, 3))
    rows[:, 1] = 0.7 * rows[:, 0] + 0.5 * rows[:, 1]
    return rows


def interacting(rows: Floats) -> Floats:
    """A response to `dependent_rows` with interactions of two pairs."""
    response: Floats = rows[:, 0] * rows[:, 1] + rows[:, 2] * (rows[:, 0] > 0) + 0.5 * rows[:, 1]
    return response


def boosted(rows: Floats, response: Any, n_trees: int = 8) -> Any:
    """A small gradient boosting regressor of depth 2."""
    ensemble = importlib.import_module("sklearn.ensemble")
    return fit(ensemble.GradientBoostingRegressor(n_estimators=n_trees, max_depth=2, random_state=0), rows, response)


def boosted_in_pairs(rows: Any, response: Any, n_trees: int = 8) -> Any:
    """A gradient boosting regressor of depth 2 with an interaction of every two features: of more trees if needed."""
    every = set(itertools.combinations(range(rows.shape[1]), 2))
    models = (boosted(rows, response, n) for n in itertools.count(n_trees, 4))
    return next(model for model in models if every <= _pairs_of(model))


def _pairs_of(model: Any) -> set[tuple[int, ...]]:
    """The pairs of features that trees of depth 2 split on."""
    features = [tree.tree_.feature.tolist() for tree in model.estimators_[:, 0]]
    return {tuple(sorted((root, child))) for root, *children in features for child in children if child >= 0}


def high_order_rows(n_rows: int = 1500, n_features: int = 6, seed: int = 0) -> tuple[Floats, Floats]:
    """Correlated normal rows, and a response with a main effect, a pair and a triple."""
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(n_features), 0.5 + 0.5 * np.eye(n_features), size=n_rows, method="cholesky")
    return x, np.sin(3 * x[:, 0]) + x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] * (x[:, 4] > 0)


def boosted_on_few_bins(
    n_features: int = 3,
    n_rows: int = 3000,
    *,
    depth: int = 3,
    n_trees: int = 20,
    correlation: float = 0.6,
    steps: int = 4,
    seed: int = 0,
) -> tuple[Any, Floats]:
    """A gradient boosting model on few bins per feature, and correlated rows, at least one in every cell."""
    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    x = correlation**0.5 * common + (1 - correlation) ** 0.5 * rng.normal(size=(n_rows, n_features))
    x = np.clip(np.round(x * steps / 3), -steps / 2, steps / 2)
    x = np.vstack([x, list(itertools.product(np.unique(x), repeat=n_features))])
    y = x[:, 0] * x[:, 1] * x[:, 2] + x[:, 0] ** 2 + rng.normal(size=len(x)) * 0.1
    ensemble = importlib.import_module("sklearn.ensemble")
    model = ensemble.GradientBoostingRegressor(max_depth=depth, n_estimators=n_trees, random_state=0)
    return fit(model, x, y), x


@functools.cache
def deep_model() -> tuple[Any, Floats]:
    """An XGBoost model of depth 6 with terms of orders up to 6, and its rows.

    It is kept as a file, since tests know its layout: XGBRegressor(n_estimators=30, max_depth=6) of other such rows.
    """
    model = importlib.import_module("xgboost").XGBRegressor(n_jobs=1)
    model.load_model(Path(__file__).with_name("deep_model.ubj"))
    return model, high_order_rows()[0]


@functools.cache
def deep_decomposition() -> Any:
    """The decomposition of `deep_model` under the empirical density: tables up to order 2, the rest at rows."""
    return importlib.import_module("treeanova").decompose(*deep_model(), density="empirical")


def named_rows(n_rows: int = 300, names: Sequence[str] = ("a", "b", "c"), seed: int = 0) -> tuple[Any, Any]:
    """A pandas table of normal columns, and a response with an interaction of the first two."""
    pandas = importlib.import_module("pandas")
    x = pandas.DataFrame(np.random.default_rng(seed).normal(size=(n_rows, len(names))), columns=list(names))
    return x, x.iloc[:, 0] * x.iloc[:, 1] + x.iloc[:, -1]
