"""Data frames for tests, with numbers, categories and missing values; they need pandas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from treeanova.core.arrays import Floats

COLOURS = ["red", "green", "blue", "grey"]
GRADES = ["1", "2", "10"]


def mixed_table(n_rows: int = 400, seed: int = 0) -> Any:
    """Two numbers, one of them missing in a fifth of the rows, and two categories."""
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.normal(size=n_rows), "age": rng.normal(50, 10, size=n_rows)})
    X["colour"] = pd.Categorical(rng.choice(COLOURS, n_rows, p=[0.5, 0.3, 0.15, 0.05]), categories=COLOURS)
    X["grade"] = pd.Categorical(rng.choice(GRADES, n_rows), categories=GRADES)
    X.loc[rng.random(n_rows) < 0.2, "size"] = np.nan
    return X


def mixed_response(X: Any) -> Floats:
    """A target of `mixed_table` with interactions of all kinds of pairs."""
    size, age = X["size"].fillna(2).to_numpy(), (X["age"].to_numpy() - 50) / 10
    warm, top = (X["colour"] == "red").to_numpy(), (X["grade"] == "10").to_numpy()
    codes = X["colour"].cat.codes.to_numpy()
    target: Floats = size * age + 2 * warm * age + 1.5 * (warm & top) + size * top + codes * 0.7
    return target
