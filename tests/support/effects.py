"""Random additive models whose terms may lie on coarser axes of their own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, Grid, binning_by, unmerged


def grid_of_sizes(sizes: Sequence[int], *, start: float = 0.0, n_outputs: int = 1) -> Grid:
    """A grid of numbers x0, x1, … that refuse missing values, with thresholds a unit apart."""
    axes = tuple(IntervalAxis(f"x{j}", -1, start + np.arange(size - 1.0)) for j, size in enumerate(sizes))
    features = tuple(Feature(axis.name, accepts_missing=False) for axis in axes)
    outputs = ("score",) if n_outputs == 1 else tuple(f"y{k}" for k in range(n_outputs))
    return Grid(Schema(features, outputs), axes)


def random_binning(rng: np.random.Generator, n_bins: int) -> Binning:
    """Neighbouring bins merged at random."""
    steps = rng.random(n_bins - 1) < 0.5
    return binning_by(np.concatenate([[0], np.cumsum(steps)]).astype(np.int64))


def random_effects(
    rng: np.random.Generator,
    *,
    sizes: Sequence[int] | None = None,
    n_outputs: int | None = None,
    share_of_terms: float = 0.6,
    share_merged: float = 0.6,
) -> Effects:
    """An additive model of up to three features: some of all possible terms, some of them on coarser axes."""
    if sizes is None:
        sizes = [int(size) for size in rng.integers(1, 6, size=int(rng.integers(1, 4)))]
    n_outputs = int(rng.integers(1, 3)) if n_outputs is None else n_outputs
    grid = grid_of_sizes(sizes, n_outputs=n_outputs)
    orders = range(1, len(sizes) + 1)
    every: list[Key] = [key for order in orders for key in itertools.combinations(range(len(sizes)), order)]
    keys = [key for key in every if rng.random() < share_of_terms] or [every[-1]]
    merged = [key for key in keys if rng.random() < share_merged]
    binnings = {key: tuple(random_binning(rng, sizes[j]) for j in key) for key in merged}
    shapes = {key: [b.size for b in binnings[key]] if key in binnings else [sizes[j] for j in key] for key in keys}
    terms = {key: rng.normal(size=(*shape, n_outputs)) for key, shape in shapes.items()}
    return Effects(grid, rng.normal(size=n_outputs), terms, binnings)


def pair_on_few_bins(seed: int = 0) -> Effects:
    """Main effects of two features on all of their 6 and 5 bins, and their pair on 3 and 2 bins."""
    rng = np.random.default_rng(seed)
    thirds, halves = binning_by(np.array([0, 0, 1, 1, 1, 2])), binning_by(np.array([0, 0, 0, 1, 1]))
    terms = {(0,): rng.normal(size=(6, 1)), (1,): rng.normal(size=(5, 1)), (0, 1): 3 * rng.normal(size=(3, 2, 1))}
    return Effects(grid_of_sizes([6, 5]), np.array([0.5]), terms, {(0, 1): (thirds, halves)})


def on_full_bins(effects: Effects) -> Effects:
    """The same additive model with all terms on the bins of the grid."""
    full = {key: [unmerged(effects.grid.sizes[j]) for j in key] for key in effects.terms}
    return Effects(effects.grid, effects.intercept, {key: effects.on_binnings(key, full[key]) for key in full})


def rows_of_effects(effects: Effects, n_rows: int = 300, seed: int = 0) -> Floats:
    """Dependent rows over the bins of a grid with thresholds at whole numbers."""
    rng = np.random.default_rng(seed)
    sizes = np.array(effects.grid.sizes)
    common = rng.uniform(-1, 1, size=(n_rows, 1)) * sizes / 2 + sizes / 2 - 1
    rows: Floats = common + rng.normal(size=(n_rows, len(sizes)))
    return rows
