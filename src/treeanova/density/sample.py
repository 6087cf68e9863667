"""Rows that define a density: their values, their bins on a grid, their weights."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.data.columns import encode
from treeanova.density.pooling import Binnings, merging
from treeanova.model.binning import Binning
from treeanova.model.grid import Grid

_NO_WEIGHT = 1e-12


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Rows that define a density: their encoded values, bins on a grid, and weights (of sum 1)."""

    grid: Grid
    encoded: Floats
    weights: Floats | None = None

    @functools.cached_property
    def codes(self) -> BinIndices:
        """Bins of the rows."""
        return self.grid.index_encoded(self.encoded)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.encoded)

    @property
    def row_weights(self) -> Floats:
        """Weights of the rows, of sum 1."""
        return np.full(self.n_rows, 1 / self.n_rows) if self.weights is None else self.weights

    @property
    def effective_rows(self) -> float:
        """Kish's effective number of rows: 1 / Σ w²."""
        return float(1 / (self.row_weights**2).sum())

    def counts(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Share of the rows in each cell of some features; of coarse bins where binnings are given, one per feature."""
        binnings = merging(binnings)
        sizes = tuple(self.grid.sizes[j] for j in key) if binnings is None else tuple(b.size for b in binnings)
        flat = np.zeros(self.n_rows, dtype=np.int64)
        for position, (j, size) in enumerate(zip(key, sizes, strict=True)):
            flat *= size
            flat += self._bins(j, None if binnings is None else binnings[position])
        n_cells = int(np.prod(sizes, dtype=np.int64))
        totals = np.bincount(flat, weights=self.weights, minlength=n_cells)
        shares: Floats = totals.astype(np.float64).reshape(sizes)
        return shares / self.n_rows if self.weights is None else shares

    def _bins(self, j: int, binning: Binning | None) -> Ints | BinIndices:
        """Bin of each row in a feature, coarse where a binning merges bins."""
        fine = self.codes[:, j]
        return fine if binning is None or binning.is_identity else binning.bins[fine]

    def mean_values(self, j: int, binning: Binning | None = None) -> Floats:
        """Mean of the finite values in each bin of a feature, or in each coarse bin; NaN where there are none."""
        column = self.encoded[:, j]
        finite = np.isfinite(column)
        bins, weights = self._bins(j, binning)[finite], self.row_weights[finite]
        n_bins = self.grid.sizes[j] if binning is None else binning.size
        masses = np.bincount(bins, weights, minlength=n_bins)
        sums = np.bincount(bins, weights * column[finite], minlength=n_bins)
        means: Floats = np.divide(sums, masses, out=np.full(n_bins, np.nan), where=masses > 0)
        return means

    def on(self, grid: Grid) -> Sample:
        """The same rows on another grid."""
        return Sample(grid, self.encoded, self.weights)

    def reweighted(self, weights: Floats) -> Sample:
        """The same rows with other weights, of sum 1."""
        other = Sample(self.grid, self.encoded, weights)
        other.__dict__["codes"] = self.codes  # known already
        return other


def check_weighted_rows(data: Any, sample_weight: Any) -> None:
    """Raise when weights come without the rows that they weigh."""
    if data is None and sample_weight is not None:
        raise ValueError("`sample_weight` must come with the rows that it weighs, got none; pass `X` too.")


def sample_of(data: Any, grid: Grid, sample_weight: npt.ArrayLike | None = None) -> Sample:
    """Rows of user data as a sample; rows of no weight, below 1e-12 of the largest, are left out."""
    encoded = encode(data, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got none; pass the rows that define the density.")
    if sample_weight is None:
        return Sample(grid, encoded)
    weights = np.asarray(sample_weight, dtype=np.float64)
    if weights.shape != (len(encoded),):
        raise ValueError(f"`sample_weight` must have one entry per row, {len(encoded)}, got shape {weights.shape}.")
    if not np.isfinite(weights).all() or (weights < 0).any() or not weights.any():
        raise ValueError("`sample_weight` must be finite, not negative and not all zero; mend or drop these rows.")
    weights = weights / weights.max()  # sums of huge weights would overflow
    kept = weights > _NO_WEIGHT
    return Sample(grid, np.asfortranarray(encoded[kept]), weights[kept] / weights[kept].sum())
