"""Statistics of user data, in memory or in batches that are read one after the other or by workers.

Rows in memory are kept and counted again when asked. Batches are read in one pass that counts all tables the
decomposition will need.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.core.progress import listener, one_step
from treeanova.data.columns import encode, without_column
from treeanova.data.sources import batches_of
from treeanova.density.counting import NEGLIGIBLE_WEIGHT, Counting, Request, RowScore, RowsInBatches, RowsInMemory
from treeanova.density.sample import sample_size
from treeanova.density.statistics import Statistics, statistics_from
from treeanova.model.grid import Grid

_LARGEST_EXPONENT = 40  # weights from 2**-40 to 2**40 are kept as they are given


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
        if sample_weight is not None:
            raise ValueError(
                f"`sample_weight` must weigh rows, got {shown_weights(sample_weight)} and statistics, whose rows are "
                "counted already; leave it out."
            )
        return X.on(grid).with_required(required)
    batches = batches_of(X)
    if batches is not None:
        if sample_weight is not None and not isinstance(sample_weight, str):
            raise TypeError(
                f"`sample_weight` must be the name of a column where rows are read in batches, got "
                f"{shown_weights(sample_weight)}; add the weights to the rows as a column."
            )
        columns = batches.for_model(grid.schema, sample_weight)
        return _count_in_batches(RowsInBatches(columns, sample_weight is not None), grid, required, score)
    with one_step(listener(), "bins of the rows"):
        rows, size = _rows_in_memory(X, grid, sample_weight), sample_size(len(grid.axes))
        counted = rows.count(Counting(grid, n_sampled=size, describes_features=False))
        return statistics_from(counted, required, None if len(rows.values) <= size else rows)


def _count_in_batches(
    rows: RowsInBatches, grid: Grid, required: Sequence[Request], score: RowScore | None
) -> Statistics:
    """Return statistics with all required tables; negligible weights take a second pass."""
    counted = rows.count(Counting(grid, required, sample_size(len(grid.axes)), score=score))
    totals = counted.totals
    if not totals.n_rows:
        got = "rows of weight zero only" if rows.has_weights else "0 rows"
        raise ValueError(f"`X` must have at least one row, got {got}; pass the rows that define the density.")
    if not 0 < totals.squares < np.inf:
        raise ValueError(
            f"`sample_weight` must have a positive, finite sum of squares, got weights up to {totals.largest:g}; "
            "divide them by the largest."
        )
    if not totals.needs_cut:
        return statistics_from(counted, required, rows if rows.batches.is_rereadable else None)
    if not rows.batches.is_rereadable:
        raise ValueError(
            f"`sample_weight` must not have weights below {NEGLIGIBLE_WEIGHT:g} of the largest where rows are read "
            f"once, got {totals.smallest:g} and {totals.largest:g}; leave these rows out."
        )
    cut = dataclasses.replace(rows, least_weight=NEGLIGIBLE_WEIGHT * totals.largest)
    return _count_in_batches(cut, grid, required, score)


def _rows_in_memory(X: Any, grid: Grid, sample_weight: Any) -> RowsInMemory:
    if isinstance(sample_weight, str):
        X, sample_weight = without_column(X, sample_weight, grid.schema)
    encoded = encode(X, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got 0 rows; pass the rows that define the density.")
    if sample_weight is None:
        return RowsInMemory(encoded, None, np.arange(len(encoded)))
    weights = checked_weights(sample_weight, len(encoded))
    exponent = int(np.frexp(weights.max())[1]) - 1  # without a unit, sums of squares could overflow or vanish
    unit = 1.0 if abs(exponent) <= _LARGEST_EXPONENT else float(np.ldexp(1.0, exponent))
    numbers = np.flatnonzero(weights > NEGLIGIBLE_WEIGHT * weights.max())
    return RowsInMemory(np.asfortranarray(encoded[numbers]), weights[numbers] / unit, numbers, unit)


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
