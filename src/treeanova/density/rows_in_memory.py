"""Rows in memory: statistics that are counted from all rows when they are asked for."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.cells import count_cells
from treeanova.data.columns import encode
from treeanova.density.pooling import Binnings, merging
from treeanova.density.statistics import EncodedRows, Points, Statistics
from treeanova.model.binning import Binning
from treeanova.model.grid import Grid

_NEGLIGIBLE_WEIGHT = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInMemory(Statistics):
    """Statistics of rows that are all held in memory.

    Attributes
    ----------
    grid
        The bins.
    values
        Encoded rows, shape (n_rows, n_features).
    weights
        Weights of the rows, of sum 1; None where all weigh the same.
    """

    grid: Grid
    values: Floats
    weights: Floats | None = None

    @functools.cached_property
    def bins(self) -> BinIndices:
        """Bins of the rows, shape (n_rows, n_features)."""
        return self.grid.index_encoded(self.values)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.values)

    @property
    def row_weights(self) -> Floats:
        """Weights of the rows, of sum 1."""
        return np.full(self.n_rows, 1 / self.n_rows) if self.weights is None else self.weights

    @functools.cached_property
    def effective_rows(self) -> float:
        """Kish's effective number of rows, 1 / Σ w²."""
        return float(1 / (self.row_weights**2).sum())

    @property
    def has_weights(self) -> bool:
        """Whether rows came with weights."""
        return self.weights is not None

    def counts(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Share of the rows in each cell of some features, or of their coarse bins."""
        binnings = merging(binnings)
        sizes = tuple(self.grid.sizes[j] for j in key) if binnings is None else tuple(b.size for b in binnings)
        columns = (self._bins(j, None if binnings is None else binnings[i]) for i, j in enumerate(key))
        totals = count_cells(columns, sizes, self.weights, self.n_rows)
        return totals / self.n_rows if self.weights is None else totals

    def _bins(self, j: int, binning: Binning | None) -> Ints | BinIndices:
        """Bin of each row in a feature, coarse where a binning merges bins."""
        fine = self.bins[:, j]
        return fine if binning is None or binning.is_identity else binning.bins[fine]

    def bin_means(self, j: int, binning: Binning | None = None) -> Floats:
        """Mean of the finite values in each bin of a feature, or in each coarse bin; NaN where there are none."""
        column = self.values[:, j]
        finite = np.isfinite(column)
        bins, weights = self._bins(j, binning)[finite], self.row_weights[finite]
        n_bins = self.grid.sizes[j] if binning is None else binning.size
        masses = np.bincount(bins, weights, minlength=n_bins)
        sums = np.bincount(bins, weights * column[finite], minlength=n_bins)
        means: Floats = np.divide(sums, masses, out=np.full(n_bins, np.nan), where=masses > 0)
        return means

    def _finite(self, j: int) -> Floats:
        column = self.values[:, j]
        return column[np.isfinite(column)]

    def value_range(self, j: int) -> tuple[float, float] | None:
        """Smallest and largest finite value of a feature."""
        finite = self._finite(j)
        return (float(finite.min()), float(finite.max())) if len(finite) else None

    def quantiles(self, j: int, probabilities: Sequence[float]) -> Floats | None:
        """Quantiles of the finite values of a feature, weights ignored."""
        finite = self._finite(j)
        return np.quantile(finite, probabilities) if len(finite) else None

    def histogram(self, j: int, low: float, high: float, n_bins: int) -> Floats:
        """Share of the rows in each of some intervals of equal length."""
        shares, _ = np.histogram(self.values[:, j], bins=n_bins, range=(low, high), weights=self.row_weights)
        return shares

    def rows(self, n_rows: int) -> EncodedRows:
        """Rows at equal distances."""
        step = max(1, self.n_rows // n_rows)
        weights = self.row_weights[::step]
        return EncodedRows(self.values[::step], weights / weights.sum())

    def points(self) -> Points:
        """Bins and weights of all rows."""
        return Points(self.bins, self.row_weights)

    def on(self, grid: Grid) -> RowsInMemory:
        """The same rows on another grid of the same features."""
        return self if grid is self.grid else RowsInMemory(grid, self.values, self.weights)

    def resampled(self, rng: np.random.Generator) -> RowsInMemory:
        """As many rows, drawn with replacement (bootstrap): each row weighs as often as it was drawn."""
        return self.reweighted(rng.multinomial(self.n_rows, self.row_weights) / self.n_rows)

    def reweighted(self, weights: Floats) -> Self:
        """The same rows with other weights, of sum 1."""
        other = dataclasses.replace(self, weights=weights)
        other.__dict__["bins"] = self.bins  # known already
        return other


def check_weighted_rows(X: Any, sample_weight: Any) -> None:
    """Raise ValueError for weights without the rows that they weigh."""
    if X is None and sample_weight is not None:
        raise ValueError(
            f"`sample_weight` must come with the rows that it weighs, got {shown_weights(sample_weight)} and X=None; "
            "pass `X` too."
        )


def statistics_of(X: Any, grid: Grid, sample_weight: npt.ArrayLike | None = None) -> Statistics:
    """Statistics of user data on a grid.

    Rows whose weight is at most 1e-12 of the largest are left out.

    Parameters
    ----------
    X
        Rows of data: an array or a data frame with the features of the grid.
    grid
        The bins to count in.
    sample_weight
        Weights of the rows; None where all weigh the same.
    """
    encoded = encode(X, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got 0 rows; pass the rows that define the density.")
    if sample_weight is None:
        return RowsInMemory(grid, encoded)
    weights = checked_weights(sample_weight, len(encoded))
    weights = weights / weights.max()  # sums of huge weights would overflow
    kept = weights > _NEGLIGIBLE_WEIGHT
    return RowsInMemory(grid, np.asfortranarray(encoded[kept]), weights[kept] / weights[kept].sum())


def checked_weights(sample_weight: npt.ArrayLike, n_rows: int) -> Floats:
    """Weights of rows as given; ValueError where they are not one number from zero on for each row."""
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (n_rows,):
        raise ValueError(f"`sample_weight` must have one entry per row, {n_rows}, got shape {weights.shape}.")
    is_bad = ~np.isfinite(weights) | (weights < 0)
    if is_bad.any() or not weights.any():
        row = int(is_bad.argmax())
        got = f"{weights[row]:g} at row {row}" if is_bad.any() else "zeros only"
        raise ValueError(
            f"`sample_weight` must be finite, not negative and not all zero, got {got}; correct the weights or leave "
            "these rows out."
        )
    return weights


def shown_weights(sample_weight: Any) -> str:
    """Weights in a message: their shape, or the value itself where it is none."""
    shape = np.shape(sample_weight)
    return f"weights of shape {shape}" if shape else repr(sample_weight)
