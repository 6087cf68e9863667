"""A sample of the rows: the k rows with the smallest hash of where they come from (bottom-k).

Which rows these are depends on the source and number of each row alone: not on the size of batches, the order in which
they are read, or who reads them, and never on what a row contains, so that equal rows do not stay or go together. The
sample of two lots of rows follows from their samples.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints

Hashes = npt.NDArray[np.uint64]
MAX_ROWS = 1 << 18
_MAX_BYTES = 1 << 28
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of the finalizer of SplitMix64
LARGEST_HASH = np.uint64(2**64 - 1)
_STEP = np.uint64(0x9E3779B97F4A7C15)


def sample_size(n_features: int) -> int:
    """Number of rows of a sample: 262,144, fewer where these would take more than 256 MB."""
    return int(min(MAX_ROWS, _MAX_BYTES // (8 * max(n_features, 1))))


def hashes_of(source: int, rows: Ints) -> Hashes:
    """Hashes of rows, given by the number of their source and by their numbers within it."""
    with np.errstate(over="ignore"):
        of_source = _mixed(np.array([source], dtype=np.int64).astype(np.uint64) + _STEP)
        return _mixed(rows.astype(np.uint64) * _STEP + of_source)


def order_of_contents(bins: BinIndices, values: Floats, weights: Floats | None) -> Ints:
    """Positions of rows in an order that looks random and depends on what the rows contain alone.

    By hashes of bins, then of values, then by weights: equal rows are next to each other. What is drawn from rows in
    this order, or taken at equal distances, does not depend on the order in which they came.
    """
    keys: list[Any] = [_content_hashes(values + 0.0, np.uint64), _content_hashes(bins, np.uint32)]  # -0.0 is 0.0
    return np.lexsort(keys if weights is None else [weights, *keys])


def _content_hashes(table: npt.NDArray[Any], as_type: type[np.unsignedinteger[Any]]) -> Hashes:
    """A hash of each row of a table, from the bits of its entries; all missing values are the same."""
    hashes = np.zeros(len(table), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in table.T:
            hashes = _mixed(hashes * _STEP + _bits(column, as_type) + np.uint64(1))
    return hashes


def _bits(column: npt.NDArray[Any], as_type: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """The bits of numbers; all missing values are the same."""
    known = np.where(np.isnan(column), np.nan, column) if column.dtype.kind == "f" else column
    return np.ascontiguousarray(known).view(as_type)


def column_sums_of_hashes(values: Floats, chosen: Bools) -> list[Hashes]:
    """For several choices of columns, a hash of each row: the sum of the hashes of its entries in these columns."""
    sums = [np.zeros(len(values), dtype=np.uint64) for _ in chosen]
    numbers = _mixed(np.arange(1, values.shape[1] + 1).astype(np.uint64))
    for column, number, are_added in zip(values.T, numbers, chosen.T, strict=True):
        hashes = _mixed(_bits(column + 0.0, np.uint64) * _STEP + number)  # -0.0 is 0.0
        for place in np.flatnonzero(are_added):
            sums[place] += hashes
    return sums


def _mixed(numbers: Hashes) -> Hashes:
    """Each number as one that looks random; different numbers stay different."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MULTIPLIERS[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MULTIPLIERS[1]
    return numbers ^ (numbers >> np.uint64(31))


def enough_hashes(size: int, n_rows: int) -> np.uint64:
    """A hash below which there are `size` of so many rows, but for a chance of one in a billion or less.

    The number of rows below a share p of all hashes is binomial, so that six standard deviations are added.
    """
    share = (size + 6 * size**0.5 + 6) / max(n_rows, 1)
    return LARGEST_HASH if share >= 1 else np.uint64(int(share * 2**64))


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Encoded rows with their weights, hashes and places, in the order of places.

    Attributes
    ----------
    values
        Encoded values, shape (n_rows, n_features), column by column in memory.
    weights
        Weights of the rows, as given; None where all weigh the same.
    hashes
        What decides which rows stay in a smaller sample: the smallest.
    sources, rows
        Number of the source of each row, and the row's number within it.
    """

    values: Floats
    weights: Floats | None
    hashes: Hashes
    sources: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.values)

    @functools.cached_property
    def shares(self) -> Floats:
        """Weights of sum 1."""
        n_rows = len(self)
        return np.full(n_rows, 1 / max(n_rows, 1)) if self.weights is None else self.weights / self.weights.sum()

    def smallest(self, size: int) -> Sample:
        """The rows with the smallest hashes, at most `size`."""
        if len(self) <= size:
            return self
        chosen = np.zeros(len(self), dtype=bool)
        chosen[np.argpartition(self.hashes, size - 1)[:size] if size else slice(0)] = True
        return self.take(chosen)

    def take(self, chosen: Bools) -> Sample:
        """Some of the rows."""
        values = np.asfortranarray(self.values[chosen])
        weights = None if self.weights is None else self.weights[chosen]
        return Sample(values, weights, self.hashes[chosen], self.sources[chosen], self.rows[chosen])

    def after(self, other: Sample) -> Sample:
        """The same rows from sources that come after those of another sample."""
        first = int(other.sources.max(initial=-1)) + 1 - int(self.sources.min(initial=0))
        return dataclasses.replace(self, sources=self.sources + first)


def sample_of(values: Floats, weights: Floats | None, source: int, rows: Ints) -> Sample:
    """All of some rows of one source."""
    return Sample(values, weights, hashes_of(source, rows), np.full(len(rows), source), rows)


def joined(samples: Sequence[Sample], size: int) -> Sample:
    """The sample of several lots of rows from their samples: the smallest hashes of all."""
    if len(samples) == 1:
        return samples[0].smallest(size)
    hashes = np.concatenate([sample.hashes for sample in samples])
    limit = np.partition(hashes, size - 1)[size - 1] if len(hashes) > size else np.uint64(2**64 - 1)
    kept = [sample if len(hashes) <= size else sample.take(sample.hashes <= limit) for sample in samples]
    weights = [sample.weights for sample in kept if sample.weights is not None]
    whole = Sample(
        np.concatenate([sample.values for sample in kept]),
        np.concatenate(weights) if len(weights) == len(kept) else None,
        *(np.concatenate([getattr(sample, name) for sample in kept]) for name in ("hashes", "sources", "rows")),
    )
    return _in_order(whole).smallest(size)


def _in_order(sample: Sample) -> Sample:
    order = np.lexsort((sample.rows, sample.sources))
    weights = None if sample.weights is None else sample.weights[order]
    others = (getattr(sample, name)[order] for name in ("hashes", "sources", "rows"))
    return Sample(np.asfortranarray(sample.values[order]), weights, *others)
