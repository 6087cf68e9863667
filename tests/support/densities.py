"""Rows with known cells for tests of densities, and plain counts of them as an oracle."""

from __future__ import annotations

import functools
import importlib
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.support.training import fit
from treeanova.core.arrays import Floats, Key
from treeanova.data.features import Feature, Labels, Schema
from treeanova.density import (
    Density,
    Empirical,
    Independent,
    Laplace,
    Shrinkage,
    Table,
    Uniform,
    density_of,
)
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid

# Three features of 4 bins (the last for missing), 2 (missing with the first) and 3 (unseen and missing with "w").
MIXED_GRID = Grid(
    Schema((Feature("a"), Feature("b"), Feature("k", Labels(("u", "v", "w"))))),
    (
        IntervalAxis("a", 3, np.array([0.0, 1.0])),
        IntervalAxis("b", 0, np.array([0.5])),
        CategoryAxis("k", 2, ("u", "v", "w"), 2),
    ),
)
MIXED_SIZES = (4, 2, 3)
MIXED_KEYS: list[Key] = [key for order in (1, 2, 3) for key in itertools.combinations(range(3), order)]


# Rows on MIXED_GRID


def mixed_rows(seed: int = 0, n_rows: int = 40) -> Any:
    """Rows of two dependent numbers and a category, all with missing values."""
    rng = np.random.default_rng(seed)
    table = np.empty((n_rows, 3), dtype=object)
    common = rng.normal(size=n_rows)
    table[:, 0] = np.where(rng.random(n_rows) < 0.2, np.nan, common.round(1))
    table[:, 1] = np.where(rng.random(n_rows) < 0.1, np.nan, common + 0.5 * rng.normal(size=n_rows))
    table[:, 2] = rng.choice(np.array(["u", "v", "w", "new", None], dtype=object), n_rows)
    return table


def mixed_cell(row: Sequence[Any]) -> tuple[int, int, int]:
    """Bins of a row, written by hand."""
    a, b, k = row
    return (
        3 if math.isnan(a) else int(a > 0) + int(a > 1),
        0 if math.isnan(b) else int(b > 0.5),
        {"u": 0, "v": 1}.get(k, 2),
    )


def mixed_shares(table: Any, weights: Any = None) -> Floats:
    """The joint table of all three features, of sum 1, counted row by row."""
    joint = np.zeros(MIXED_SIZES)
    for row, weight in zip(table, np.ones(len(table)) if weights is None else weights, strict=True):
        joint[mixed_cell(row)] += weight
    shares: Floats = joint / joint.sum()
    return shares


def bind_mixed(density: Any, table: Any, weights: Any = None) -> Any:
    """A density bound to rows on MIXED_GRID."""
    return density_of(density).bind(MIXED_GRID, statistics_of(table, MIXED_GRID, weights))


def mixed_kinds(seed: int) -> list[Density]:
    """Densities of all kinds that follow from one joint density, tables on MIXED_GRID among them."""
    joint = np.random.default_rng(seed).random(MIXED_SIZES)

    def weights(names: Sequence[str], axes: Sequence[Axis]) -> Floats:
        """Weights of the cells."""
        del axes
        return marginal(joint, tuple("abk".index(name) for name in names))

    tables = [Table({("k", "a", "b"): joint.transpose(2, 0, 1)}), Table(weights)]
    shares = [Empirical(), Empirical(mixed_rows(seed + 1)), Laplace(mix=0.2), Shrinkage(), Shrinkage(intensity=0.4)]
    return [Uniform(), Uniform(measure="length"), Independent(), *shares, *tables]


def assert_mixed_tables(density: Density, expected: Any) -> None:
    """Tables of all sets of features are those that a function returns for them."""
    for key in MIXED_KEYS:
        np.testing.assert_allclose(density.table(key), expected(key), rtol=1e-12, atol=1e-15)


def marginal(joint: Floats, key: Key) -> Floats:
    """Sums of a table over all axes that are not in the key."""
    summed: Floats = joint.sum(axis=tuple(set(range(joint.ndim)) - set(key)))
    return summed


def product_of_marginals(joint: Floats, key: Key) -> Floats:
    """Product of the marginals of one feature each, cell by cell."""
    singles = [marginal(joint, (j,)) for j in key]
    table = np.empty([len(single) for single in singles])
    for bins in np.ndindex(table.shape):
        table[bins] = math.prod(single[b] for single, b in zip(singles, bins, strict=True))
    return table


# A model of dependent features


@functools.cache
def boosted(n_rows: int = 300, noise: float = 0.4) -> tuple[Any, Floats]:
    """A gradient boosting model with interactions of up to three features, two of them dependent; and its rows."""
    rng = np.random.default_rng(0)
    x = np.round(rng.normal(size=(n_rows, 3)), 1)
    x[:, 1] = np.round(x[:, 0] + noise * x[:, 1], 1)
    y = x[:, 0] * x[:, 1] + np.sin(2 * x[:, 2]) + x.prod(axis=1)
    ensemble = importlib.import_module("sklearn.ensemble")
    return fit(ensemble.GradientBoostingRegressor(n_estimators=8, max_depth=3, random_state=0), x, y), x


# Columns on axes at their quantiles


def quantile_axes(columns: Sequence[Floats], n_bins: Sequence[int], missing: Sequence[int] = ()) -> list[Axis]:
    """Interval axes at quantiles of columns; those at some positions have a last bin of missing values."""
    axes: list[Axis] = []
    for j, column in enumerate(columns):
        bounds = np.unique(np.nanquantile(column, np.arange(1, n_bins[j]) / n_bins[j]))
        axes.append(IntervalAxis("abcdefghi"[j], len(bounds) + 1 if j in missing else -1, bounds))
    return axes


def grid_of_axes(axes: Sequence[Axis]) -> Grid:
    """A grid of features with the names of some axes."""
    features = [
        Feature(axis.name, accepts_missing=axis.missing_bin >= 0)
        if axis.is_ordered
        else Feature(axis.name, Labels(axis.labels))
        for axis in axes
    ]
    return Grid(Schema(tuple(features)), tuple(axes))


def bind_columns(
    density: Any,
    columns: Sequence[Any],
    n_bins: Sequence[int] = (12, 9, 5),
    *,
    missing: Sequence[int] = (),
    weights: Any = None,
    axes: Sequence[Axis] | None = None,
) -> Any:
    """A density bound to columns, on axes at their quantiles or on given ones."""
    grid = grid_of_axes(quantile_axes(columns, n_bins, missing) if axes is None else axes)
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column
    X = table.astype(float) if all(axis.is_ordered for axis in grid.axes) else table
    return density_of(density).bind(grid, statistics_of(X, grid, weights))


def assert_marginals_of_rows(density: Any, key: Key, atol: float = 1e-10) -> None:
    """Marginals of a table are the shares of the rows in each bin."""
    table = density.table(key)
    codes, weights = density.statistics.points()
    np.testing.assert_array_less(-1e-300, table)
    for position, j in enumerate(key):
        shares = np.zeros(table.shape[position])
        np.add.at(shares, codes[:, j], weights)
        others = tuple(i for i in range(len(key)) if i != position)
        np.testing.assert_allclose(table.sum(axis=others), shares, rtol=0, atol=atol)


def normals(correlation: float, n_rows: int = 500, seed: int = 0, order: int = 3) -> list[Floats]:
    """Columns of normal values with equal correlations."""
    covariance = np.full((order, order), float(correlation))
    np.fill_diagonal(covariance, 1.0)
    rng = np.random.default_rng(seed)
    return list(rng.multivariate_normal(np.zeros(order), covariance, n_rows, method="cholesky").T)


def near_copy(n_rows: int = 1000, seed: int = 0, noise: float = 0.01) -> list[Floats]:
    """A column, and the same with a little noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    return [x, x + noise * rng.normal(size=n_rows)]
