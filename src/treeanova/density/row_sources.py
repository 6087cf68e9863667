"""Sources of rows: in memory, in batches that are read one after the other, and several sources in turn.

`statistics_of` counts the rows that a user gives. Rows in memory are one update of an accumulator, and are kept to be
counted again; batches are read in one pass, in which all tables are counted that the decomposition will need.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints
from treeanova.core.progress import listener
from treeanova.data.columns import encode
from treeanova.density.accumulator import (
    NEGLIGIBLE_WEIGHT,
    Accumulator,
    Counting,
    Request,
    Rows,
    RowSource,
    encoded_rows,
)
from treeanova.density.sample import sample_size
from treeanova.density.statistics import Statistics, frozen
from treeanova.model.grid import Grid


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInMemory(RowSource):
    """Encoded rows that are all held in memory.

    Attributes
    ----------
    values
        Encoded rows, shape (n_rows, n_features).
    weights
        Weights of the rows; None where all weigh the same.
    numbers
        Numbers of the rows in the table that they come from.
    """

    values: Floats
    weights: Floats | None
    numbers: Ints

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        """Whether rows came with weights."""
        return self.weights is not None

    def count(self, counting: Counting) -> Accumulator:
        """One update."""
        accumulator = Accumulator(dataclasses.replace(counting, has_weights=self.has_weights))
        codes = self._codes(counting.grid) if counting.needs_bins else None
        accumulator.update(Rows(self.values, self.weights, 0, self.numbers, codes))
        return accumulator

    def _codes(self, grid: Grid) -> BinIndices:
        """Bins on a grid; those of the last grid are kept."""
        known = self._last.get("grid")
        if known is None or known[0] is not grid:
            self._last["grid"] = known = grid, grid.index_encoded(self.values)
        return known[1]

    @functools.cached_property
    def _last(self) -> dict[str, tuple[Grid, BinIndices]]:
        return {}

    def statistics(self, grid: Grid, wanted: Sequence[Request]) -> Statistics:
        """Statistics on a grid; tables are counted when they are asked for."""
        size = sample_size(len(grid.axes))
        counted = self.count(Counting(grid, n_sampled=size, describes_features=False))
        return frozen(counted, wanted, None if len(self.values) <= size else self)


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInBatches(RowSource):
    """Rows that are read batch by batch, in each pass anew where that can be done.

    Attributes
    ----------
    batches
        The batches, of `treeanova.data.batch`.
    has_weights
        Whether batches come with weights.
    least_weight
        Rows of this weight or less are left out.
    """

    batches: Any
    has_weights: bool
    least_weight: float = 0.0

    def count(self, counting: Counting) -> Accumulator:
        """One pass over all batches."""
        accumulator = Accumulator(
            dataclasses.replace(counting, has_weights=self.has_weights, least_weight=self.least_weight)
        )
        report, n_rows, n_read = listener(), self.batches.n_rows, 0
        for batch in self.batches:
            rows = encoded_rows(batch, accumulator.counting)
            accumulator.update(rows)
            n_read += len(rows.values)
            if n_rows is not None:
                report("reading rows", n_read, n_rows)
        return accumulator

    def statistics(self, grid: Grid, wanted: Sequence[Request], score: Any = None) -> Statistics:
        """Statistics on a grid, with all tables that are wanted; a second pass where some weights are negligible."""
        counted = self.count(Counting(grid, wanted, sample_size(len(grid.axes)), score=score))
        _check_totals(counted, has_weights=self.has_weights)
        if counted.totals.needs_cut:
            return self._with_cut(counted).statistics(grid, wanted, score)
        return frozen(counted, wanted, self if self.batches.is_rereadable else None)

    def _with_cut(self, counted: Accumulator) -> RowsInBatches:
        totals = counted.totals
        if not self.batches.is_rereadable:
            raise ValueError(
                f"`sample_weight` must not have weights below {NEGLIGIBLE_WEIGHT:g} of the largest where rows are read "
                f"once, got {totals.smallest:g} and {totals.largest:g}; leave these rows out."
            )
        return dataclasses.replace(self, least_weight=NEGLIGIBLE_WEIGHT * totals.largest)


def _check_totals(counted: Accumulator, *, has_weights: bool) -> None:
    totals = counted.totals
    if not totals.n_rows:
        got = "rows of weight zero only" if has_weights else "0 rows"
        raise ValueError(f"`X` must have at least one row, got {got}; pass the rows that define the density.")
    if not np.isfinite(totals.squares):
        raise ValueError(
            f"`sample_weight` must have a finite sum of squares, got weights up to {totals.largest:g}; divide them by "
            "the largest."
        )


def check_weighted_rows(X: Any, sample_weight: Any) -> None:
    """Raise ValueError for weights without the rows that they weigh."""
    if X is None and sample_weight is not None:
        raise ValueError(
            f"`sample_weight` must come with the rows that it weighs, got {shown_weights(sample_weight)} and X=None; "
            "pass `X` too."
        )


def statistics_of(
    X: Any, grid: Grid, sample_weight: npt.ArrayLike | None = None, wanted: Sequence[Request] = ()
) -> Statistics:
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
    wanted
        Tables that will be asked for.
    """
    encoded = encode(X, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got 0 rows; pass the rows that define the density.")
    if sample_weight is None:
        return RowsInMemory(encoded, None, np.arange(len(encoded))).statistics(grid, wanted)
    weights = _checked_weights(sample_weight, len(encoded))
    weights = weights / weights.max()  # sums of huge weights would overflow
    kept = weights > NEGLIGIBLE_WEIGHT
    rows = RowsInMemory(np.asfortranarray(encoded[kept]), weights[kept], np.flatnonzero(kept))
    return rows.statistics(grid, wanted)


def _checked_weights(sample_weight: npt.ArrayLike, n_rows: int) -> Floats:
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
