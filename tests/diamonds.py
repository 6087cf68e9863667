"""Rows made like the well-known diamonds: sizes that are almost one feature, and two grades that oppose them.

Large stones have worse grades, so what a grade adds to the log price takes away from what size adds: the grade's share
of the variance is negative, though it matters.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

NAMES = ("carat", "x", "y", "z", "clarity", "color", "table")


def diamonds(n_rows=3000, seed=0):
    """Features and log price."""
    rng = np.random.default_rng(seed)
    size = rng.normal(size=n_rows)
    sides = [size + 0.15 * rng.normal(size=n_rows) for _ in range(4)]
    grades = [np.clip(np.round(3.5 - 1.2 * size + 1.2 * rng.normal(size=n_rows)), 0, 7) for _ in range(2)]
    rows = pd.DataFrame(dict(zip(NAMES, [*sides, *grades, rng.normal(size=n_rows)], strict=True)))
    price = 0.5 * rows["carat"] + 0.3 * rows["x"] + 0.2 * rows["y"] + 0.1 * rows["z"]
    price += 0.12 * rows["clarity"] + 0.07 * rows["color"] + 0.01 * rows["table"]
    return rows, price + 0.02 * rows["clarity"] * rows["color"] / 7 + 0.05 * rng.normal(size=n_rows)
