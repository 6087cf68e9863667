"""Sources of rows: in memory, and in batches that are read one after the other or by workers.

`statistics_of` counts the rows that a user gives. Rows in memory are one update of an accumulator, and are kept to be
counted again; batches are read in one pass, in which all tables are counted that the decomposition will need.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints
from treeanova.core.memo import memo_of
from treeanova.core.progress import listener, one_step
from treeanova.data.columns import encode, without_column
from treeanova.data.sources import Batches, Distributed, batches_of
from treeanova.density.counting import (
    NEGLIGIBLE_WEIGHT,
    Accumulator,
    Counting,
    EncodedBatch,
    Request,
    RowScore,
    RowSource,
    counted_parts,
    encoded_rows,
    merge_parts,
)
from treeanova.density.sample import enough_hashes, sample_size
from treeanova.density.statistics import Statistics, statistics_from
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows

_READING = "reading rows"
_LARGEST_EXPONENT = 40  # weights from 2**-40 to 2**40 are kept as they are given


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
    unit
        What the weights are multiples of.
    """

    values: Floats
    weights: Floats | None
    numbers: Ints
    unit: float = 1.0

    @property
    def has_weights(self) -> bool:  # type: ignore[override]
        return self.weights is not None

    def count(self, counting: Counting) -> Accumulator:
        accumulator = Accumulator(dataclasses.replace(counting, has_weights=self.has_weights))
        codes = self._codes(counting.grid) if counting.needs_bins else None
        accumulator.update(EncodedBatch(self.values, self.weights, 0, self.numbers, codes))
        accumulator.totals = dataclasses.replace(accumulator.totals, unit=self.unit)
        return accumulator

    def recoded(self, recode: Callable[[Floats], Floats]) -> RowsInMemory:
        return dataclasses.replace(self, values=recode(self.values))

    def _codes(self, grid: Grid) -> BinIndices:
        """Return the bins on a grid; those of the last grid are remembered."""
        last = memo_of(self, "codes")
        if last.get("grid") is not grid:
            last.update(grid=grid, codes=grid.index(Rows(self.values)))
        codes: BinIndices = last["codes"]
        return codes

    def statistics(self, grid: Grid, required: Sequence[Request]) -> Statistics:
        """Return statistics on a grid; tables are counted when they are asked for."""
        size = sample_size(len(grid.axes))
        counted = self.count(Counting(grid, n_sampled=size, describes_features=False))
        return statistics_from(counted, required, None if len(self.values) <= size else self)


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInBatches(RowSource):
    """Rows that are read batch by batch on this machine, or by the workers that have them.

    Attributes
    ----------
    batches
        The batches, with the columns of the model.
    has_weights
        Whether rows come with weights.
    least_weight
        Rows of this weight or less are left out.
    """

    batches: Batches
    has_weights: bool = False
    least_weight: float = 0.0

    def statistics(self, grid: Grid, required: Sequence[Request], score: RowScore | None = None) -> Statistics:
        """Return statistics on a grid, with all required tables; a second pass where some weights are negligible."""
        counted = self.count(Counting(grid, required, sample_size(len(grid.axes)), score=score))
        totals = counted.totals
        _check_totals(counted, has_weights=self.has_weights)
        if not totals.needs_cut:
            return statistics_from(counted, required, self if self.batches.is_rereadable else None)
        if not self.batches.is_rereadable:
            raise ValueError(
                f"`sample_weight` must not have weights below {NEGLIGIBLE_WEIGHT:g} of the largest where rows are read "
                f"once, got {totals.smallest:g} and {totals.largest:g}; leave these rows out."
            )
        cut = dataclasses.replace(self, least_weight=NEGLIGIBLE_WEIGHT * totals.largest)
        return cut.statistics(grid, required, score)

    def count(self, counting: Counting) -> Accumulator:
        counting = dataclasses.replace(counting, has_weights=self.has_weights, least_weight=self.least_weight)
        if counting.n_sampled and not self.has_weights:  # weights may leave rows out
            limit = enough_hashes(counting.n_sampled, self.batches.n_rows or 0)
            counting = dataclasses.replace(counting, largest_hash=limit)
        if isinstance(self.batches, Distributed):
            return _count_on_workers(self.batches, counting)
        accumulator = Accumulator(counting)
        report, total, n_read = listener(), self.batches.n_rows or 1, 0
        report(_READING, 0, total)
        for batch in self.batches:
            accumulator.update(encoded_rows(batch, accumulator.counting))
            n_read += batch.n_rows
            if self.batches.n_rows:
                report(_READING, min(n_read, total - 1), total)
        report(_READING, total, total)
        return accumulator


def _count_on_workers(batches: Distributed, counting: Counting) -> Accumulator:
    """Count all partitions by the engine, which merges what each has counted."""
    with one_step(listener(), _READING):
        parts = batches.reduced(functools.partial(counted_parts, counting=counting), merge_parts)
    return Accumulator.of_parts(counting, parts)


def _check_totals(counted: Accumulator, *, has_weights: bool) -> None:
    totals = counted.totals
    if not totals.n_rows:
        got = "rows of weight zero only" if has_weights else "0 rows"
        raise ValueError(f"`X` must have at least one row, got {got}; pass the rows that define the density.")
    if not 0 < totals.squares < np.inf:
        raise ValueError(
            f"`sample_weight` must have a positive, finite sum of squares, got weights up to {totals.largest:g}; "
            "divide them by the largest."
        )


def check_weighted_rows(X: Any, sample_weight: Any) -> None:
    """Raise ValueError for weights without the rows that they weigh."""
    if X is None and sample_weight is not None:
        raise ValueError(
            f"`sample_weight` must come with the rows that it weighs, got {shown_weights(sample_weight)} and X=None; "
            "pass `X` too."
        )


def statistics_of(
    X: Any, grid: Grid, sample_weight: Any = None, required: Sequence[Request] = (), score: RowScore | None = None
) -> Statistics:
    """Count user data on a grid.

    Rows whose weight is at most 1e-12 of the largest are left out.

    Parameters
    ----------
    X
        Rows of data with the features of the grid: an array or a data frame, what `batches_of` takes, or statistics.
    grid
        The bins to count in.
    sample_weight
        Weights of the rows, or the name of the column that holds them; None where all weigh the same.
    required
        Tables that will be asked for.
    score
        Score of rows, to be added up in the cells of these tables where rows are not held in memory.
    """
    if isinstance(X, Statistics):
        return _given_statistics(X, grid, sample_weight, required)
    batches = batches_of(X)
    if batches is not None:
        columns = batches.for_model(grid.schema, _weight_column(sample_weight))
        return RowsInBatches(columns, sample_weight is not None).statistics(grid, required, score)
    with one_step(listener(), "bins of the rows"):
        return _rows_in_memory(X, grid, sample_weight).statistics(grid, required)


def _given_statistics(
    statistics: Statistics, grid: Grid, sample_weight: Any, required: Sequence[Request]
) -> Statistics:
    if sample_weight is not None:
        raise ValueError(
            f"`sample_weight` must weigh rows, got {shown_weights(sample_weight)} and statistics, whose rows are "
            "counted already; leave it out."
        )
    return statistics.on(grid).with_required(required)


def _weight_column(sample_weight: Any) -> str | None:
    if sample_weight is None or isinstance(sample_weight, str):
        return sample_weight
    raise TypeError(
        f"`sample_weight` must be the name of a column where rows are read in batches, got "
        f"{shown_weights(sample_weight)}; add the weights to the rows as a column."
    )


def _rows_in_memory(X: Any, grid: Grid, sample_weight: Any) -> RowsInMemory:
    if isinstance(sample_weight, str):
        X, sample_weight = without_column(X, sample_weight, grid.schema)
    encoded = encode(X, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got 0 rows; pass the rows that define the density.")
    if sample_weight is None:
        return RowsInMemory(encoded, None, np.arange(len(encoded)))
    weights = checked_weights(sample_weight, len(encoded))
    unit = _unit_of(float(weights.max()))
    numbers = np.flatnonzero(weights > NEGLIGIBLE_WEIGHT * weights.max())
    return RowsInMemory(np.asfortranarray(encoded[numbers]), weights[numbers] / unit, numbers, unit)


def _unit_of(largest: float) -> float:
    """Return what to divide weights by, so that sums of their squares neither overflow nor vanish: mostly 1."""
    exponent = int(np.frexp(largest)[1]) - 1
    return 1.0 if abs(exponent) <= _LARGEST_EXPONENT else float(np.ldexp(1.0, exponent))


def checked_weights(sample_weight: npt.ArrayLike, n_rows: int) -> Floats:
    """Return weights of rows as given; ValueError where they are not one number from zero on for each row."""
    given = np.asarray(sample_weight)
    try:
        weights = given.astype(np.float64, casting="unsafe" if given.dtype.kind == "O" else "same_kind")
    except (TypeError, ValueError) as error:
        got = f"{given.dtype}: {given.ravel()[:3].tolist()}"
        raise TypeError(f"`sample_weight` must hold numbers, got {got}; convert them.") from error
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
    """Return weights for a message: their shape, or the value itself where it is none."""
    shape = np.shape(sample_weight)
    return f"weights of shape {shape}" if shape else repr(sample_weight)
