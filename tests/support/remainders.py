"""A model with interactions, one feature of which is called remainder, and its main effects."""

from __future__ import annotations

import functools
import importlib
from typing import Any

import numpy as np

from tests.support.training import fit


@functools.cache
def model_with_a_feature_called_remainder() -> tuple[Any, Any]:
    """An XGBoost model with terms of orders 1 to 3, and its rows as a pandas table."""
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1500, 3)) + 0.7 * rng.normal(size=(1500, 1))
    rows = importlib.import_module("pandas").DataFrame(values, columns=["a", "b", "remainder"])
    target = rows["a"] * rows["b"] + rows["remainder"] + (rows["a"] * rows["b"] * rows["remainder"] > 0)
    model = importlib.import_module("xgboost").XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1)
    return fit(model, rows, target), rows


@functools.cache
def main_effects_and_remainder() -> Any:
    """The model decomposed into main effects and a remainder, under the empirical density."""
    decompose = importlib.import_module("treeanova").decompose
    return decompose(*model_with_a_feature_called_remainder(), density="empirical", max_order=1)
