"""Rows that reveal how a reader decides: on every bound, next to it, rounding midpoints, zeros, missing, infinite."""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.model.forest import Forest

SPECIAL = np.array([0.0, -0.0, 1e-36, -1e-36, 1e-35, -1e-35, 1e-30, -1e-30, 1e-300, 1e10, -1e10, 1.0, -1.0])


def numeric_candidates(bounds: Floats, rng: np.random.Generator, max_bounds: int = 300) -> Floats:
    """Values on and around bounds: float64 and float32 neighbours, roundings, midpoints between float32 numbers."""
    bounds = np.unique(bounds[np.isfinite(bounds)])
    if len(bounds) > max_bounds:
        bounds = rng.choice(bounds, max_bounds, replace=False)
    with np.errstate(over="ignore"):
        single = bounds.astype(np.float32)
        up, down = np.nextafter(single, np.float32(np.inf)), np.nextafter(single, np.float32(-np.inf))
    near = np.concatenate([single, up, down]).astype(np.float64)
    middles = np.concatenate([(single.astype(float) + up) / 2, (single.astype(float) + down) / 2])
    every = np.concatenate([bounds, near, middles])
    with np.errstate(over="ignore"):
        every = np.concatenate([every, np.nextafter(every, np.inf), np.nextafter(every, -np.inf)])
    finite: Floats = every[np.isfinite(every)]
    return finite


def numeric_rows(
    forest: Forest,
    rng: np.random.Generator,
    n_rows: int = 2000,
    *,
    missing: bool = True,
    infinite: bool = True,
    base: Floats | None = None,
) -> Floats:
    """Random rows whose numeric columns hold values around bounds; `base` gives ordinary rows to start from.

    Columns of categories are as in `base`, random numbers without it.
    """
    n_features = len(forest.schema.features)
    rows = rng.normal(size=(n_rows, n_features)) if base is None else base[rng.integers(0, len(base), n_rows)].copy()
    for j, feature in enumerate(forest.schema.features):
        if feature.is_category:
            continue
        pool = np.concatenate([numeric_candidates(forest.bound[forest.feature == j], rng), SPECIAL])
        if infinite:
            pool = np.concatenate([pool, [np.inf, -np.inf, 1e39, -1e39]])
        take = rng.random(n_rows) < 0.7
        rows[take, j] = rng.choice(pool, take.sum())
        if missing:
            rows[rng.random(n_rows) < 0.15, j] = np.nan
    return rows
