"""Decompositions of small models for tests."""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.training import fit
from treeanova.core.arrays import Floats
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid, binning_by


def boosted_product(
    names: Sequence[str] = ("a", "b", "c"), density: str = "auto", n_rows: int = 4000
) -> tuple[Any, Floats]:
    """The decomposition of a boosted model of a b + c, with a and b dependent, and its rows; needs scikit-learn."""
    ensemble = importlib.import_module("sklearn.ensemble")
    decompose = importlib.import_module("treeanova").decompose
    rng = np.random.default_rng(0)
    covariance = np.array([[1, 0.6, 0], [0.6, 1, 0], [0, 0, 1]])
    X = rng.multivariate_normal(np.zeros(3), covariance, size=n_rows, method="cholesky")
    model = ensemble.GradientBoostingRegressor(max_depth=2, n_estimators=30, random_state=0)
    fit(model, X, X[:, 0] * X[:, 1] + X[:, 2])
    return decompose(model, X, feature_names=list(names), density=density), X


def terms_on_own_axes() -> tuple[Any, Floats]:
    """The decomposition of an additive model whose terms have axes of their own, and its rows.

    Features x and y have the thresholds 1, 2 and 3. The main effect of x splits at 1, that of y at all thresholds, and
    their interaction splits at x = 2 and y = 3.
    """
    decompose = importlib.import_module("treeanova").decompose
    axes = tuple(IntervalAxis(name, -1, np.array([1.0, 2.0, 3.0])) for name in ("x", "y"))
    grid = Grid(Schema(tuple(Feature(axis.name) for axis in axes)), axes)
    at_one, at_two, at_three = (binning_by((np.arange(4) >= first).astype(np.int64)) for first in (1, 2, 3))
    terms = {
        (0,): np.array([1.0, -1.0])[:, None],
        (1,): np.arange(4.0)[:, None],
        (0, 1): np.array([[0.0, 2.0], [5.0, 1.0]])[..., None],
    }
    effects = Effects(grid, np.zeros(1), terms, {(0,): (at_one,), (0, 1): (at_two, at_three)})
    rows = np.random.default_rng(0).uniform(0, 4, size=(500, 2))
    return decompose(effects, rows, density="empirical"), rows
