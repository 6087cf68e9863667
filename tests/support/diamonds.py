"""Rows made like the well-known diamonds: sizes that are almost one feature, and two grades that oppose them.

Large stones have worse grades, so what a grade adds to the log price takes away from what size adds: the grade's share
of the variance is negative, though it matters.
"""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from tests.support.training import fit

NAMES = ("carat", "x", "y", "z", "clarity", "color", "table")


def diamonds(n_rows: int = 3000, seed: int = 0) -> tuple[Any, Any]:
    """Features, as a pandas table, and log price."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n_rows)
    sides = [size + 0.15 * rng.normal(size=n_rows) for _ in range(4)]
    grades = [np.clip(np.round(3.5 - 1.2 * size + 1.2 * rng.normal(size=n_rows)), 0, 7) for _ in range(2)]
    columns = dict(zip(NAMES, [*sides, *grades, rng.normal(size=n_rows)], strict=True))
    rows = importlib.import_module("pandas").DataFrame(columns)
    price = 0.5 * rows["carat"] + 0.3 * rows["x"] + 0.2 * rows["y"] + 0.1 * rows["z"]
    price += 0.12 * rows["clarity"] + 0.07 * rows["color"] + 0.01 * rows["table"]
    return rows, price + 0.02 * rows["clarity"] * rows["color"] / 7 + 0.05 * rng.normal(size=n_rows)


@functools.cache
def diamonds_model() -> Any:
    """An XGBoost model of the log price with main effects and pairs."""
    xgboost = importlib.import_module("xgboost")
    return fit(xgboost.XGBRegressor(n_estimators=150, max_depth=2, learning_rate=0.2, n_jobs=1), *diamonds())


@functools.cache
def diamonds_decomposition() -> Any:
    """The decomposition of `diamonds_model` under the empirical density."""
    decompose = importlib.import_module("treeanova").decompose
    return decompose(diamonds_model(), diamonds()[0], density="empirical", n_jobs=1)


def labels_by_variance() -> list[str]:
    """Labels of the terms by the variance of what they add to the rows, largest first."""
    explained = diamonds_decomposition().explain(diamonds()[0])
    variances = {" × ".join(names): np.var(explained.values[:, i]) for i, names in enumerate(explained.terms)}
    return sorted(variances, key=lambda label: -variances[label])
