"""Sources of rows: in memory, and in batches that are read one after the other or by workers.

Rows in memory are kept and counted again when asked. Batches are read in one pass that counts all tables the
decomposition will need.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, memo_of
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
    """Encoded rows in memory; `numbers` are those of the rows in their table, weights are multiples of `unit`."""

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
        last = memo_of(self, "codes")
        if last.get("grid") is not grid:
            last.update(grid=grid, codes=grid.index(Rows(self.values)))
        codes: BinIndices = last["codes"]
        return codes

    def statistics(self, grid: Grid, required: Sequence[Request]) -> Statistics:
        size = sample_size(len(grid.axes))
        counted = self.count(Counting(grid, n_sampled=size, describes_features=False))
        return statistics_from(counted, required, None if len(self.values) <= size else self)


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInBatches(RowSource):
    """Rows that are read in batches, here or by workers; those of `least_weight` or less are left out."""

    batches: Batches
    has_weights: bool = False
    least_weight: float = 0.0

    def statistics(self, grid: Grid, required: Sequence[Request], score: RowScore | None = None) -> Statistics:
        """Return statistics with all required tables; negligible weights take a second pass."""
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
    with one_step(listener(), _READING):
        payloads = batches.reduced(functools.partial(counted_parts, counting=counting), merge_parts)
    return Accumulator.of_parts(counting, payloads)


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
    if X is None and sample_weight is not None:
        raise ValueError(
            f"`sample_weight` must come with the rows that it weighs, got {shown_weights(sample_weight)} and X=None; "
            "pass `X` too."
        )


def statistics_of(
    X: Any, grid: Grid, sample_weight: Any = None, required: Sequence[Request] = (), score: RowScore | None = None
) -> Statistics:
    """Count user data on a grid, without rows whose weight is at most 1e-12 of the largest.

    `X` may be an array, a data frame, what `batches_of` takes, or statistics; `sample_weight` may name a column.
    `required` are tables that will be asked for; `score` is added up in their cells if rows are not held in memory.
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
    """Return a divisor of weights such that sums of their squares neither overflow nor vanish: mostly 1."""
    exponent = int(np.frexp(largest)[1]) - 1
    return 1.0 if abs(exponent) <= _LARGEST_EXPONENT else float(np.ldexp(1.0, exponent))


def checked_weights(sample_weight: npt.ArrayLike, n_rows: int) -> Floats:
    """Return weights as given; raise ValueError unless there is one number of at least zero for each row."""
    raw_weights = np.asarray(sample_weight)
    try:
        weights = raw_weights.astype(np.float64, casting="unsafe" if raw_weights.dtype.kind == "O" else "same_kind")
    except (TypeError, ValueError) as error:
        got = f"{raw_weights.dtype}: {raw_weights.ravel()[:3].tolist()}"
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
    shape = np.shape(sample_weight)
    return f"weights of shape {shape}" if shape else repr(sample_weight)
