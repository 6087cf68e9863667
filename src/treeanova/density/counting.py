"""Accumulator: all that is counted from rows, batch by batch, on one machine or many; the sample of rows it keeps.

`tables(batches, counting)` reads batches into an `Accumulator`; `merge` adds up those of several workers. An
accumulator is a set of named parts (tables of cells, totals of rows, of features, a sample), each of which can be
merged on its own: `parts` has them as bytes, for engines that reduce by key. Numbers of rows are whole numbers, so that
the result does not depend on the size or order of the batches; sums of weights do in their last digits only.

Which rows these are depends on the source and number of each row alone: not on the size of batches, the order in which
they are read, or who reads them, and never on what a row contains, so that equal rows do not stay or go together. The
sample of two lots of rows follows from their samples.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key, number_cells
from treeanova.model.grid import Binning, Grid

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


Binnings = Sequence[Binning]


def merging(binnings: Binnings | None) -> Binnings | None:
    """The binnings, or None where they merge no bins."""
    return None if binnings is None or all(binning.is_identity for binning in binnings) else binnings


def pool_table(table: Floats, binnings: Binnings | None) -> Floats:
    """A table over fine bins, summed over the fine bins of each coarse bin along every axis."""
    for axis, binning in enumerate(binnings or ()):
        table = binning.pool(table, axis)
    return table


def pool_masses(masses: Sequence[Floats], binnings: Binnings | None) -> list[Floats]:
    """Masses of the bins of some features, summed over the fine bins of each coarse bin."""
    if binnings is None:
        return list(masses)
    return [binning.pool(fine) for binning, fine in zip(binnings, masses, strict=True)]


NEGLIGIBLE_WEIGHT = 1e-12  # of the largest: rows of so small a weight are left out
_UNIT = 2.0**-64  # of sums of values: those of huge values would overflow
Sums = npt.NDArray[np.int64] | Floats
"""Numbers of rows, or sums of their weights."""
RowScore = Callable[[Floats, BinIndices], Floats]
"""Score of rows given by encoded values and bins, shape (n_rows, n_outputs)."""


class Request(NamedTuple):
    """A table to count: positions of features, and their coarse bins; None for the bins of the grid."""

    key: Key
    binnings: Binnings | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Counting:
    """What to count in one pass over rows; it can be pickled, for workers.

    Attributes
    ----------
    grid
        The bins.
    tables
        Tables of cells.
    n_sampled
        Number of rows of the sample; 0 for none.
    has_weights
        Whether rows have weights.
    least_weight
        Rows of this weight or less are left out.
    score
        The score of rows, to be added up in each cell; None for none.
    describes_features
        Whether means and ranges of values are wanted.
    largest_hash
        Rows with larger hashes cannot be in the sample.
    """

    grid: Grid
    tables: Sequence[Request] = ()
    n_sampled: int = 0
    has_weights: bool = False
    least_weight: float = 0.0
    score: RowScore | None = None
    describes_features: bool = True
    largest_hash: np.uint64 = LARGEST_HASH

    @property
    def needs_bins(self) -> bool:
        """Whether the bins of the rows are needed."""
        return bool(self.tables) or self.describes_features


class EncodedBatch(NamedTuple):
    """Encoded rows of one source: values, weights, number of the source, numbers of the rows, and bins if known."""

    values: Floats
    weights: Floats | None
    source: int
    numbers: Ints
    codes: BinIndices | None = None

    def take(self, chosen: Any) -> EncodedBatch:
        """Some of the rows."""
        weights = None if self.weights is None else self.weights[chosen]
        codes = None if self.codes is None else self.codes[chosen]
        return EncodedBatch(self.values[chosen], weights, self.source, self.numbers[chosen], codes)


class Part(Protocol):
    """A part of an accumulator, which merges with the same part of another."""

    def merged(self, other: Self) -> Self:
        """The part of all rows of both."""
        ...


@dataclasses.dataclass
class CellSums:
    """A table: one number per cell, and per output where it adds up scores."""

    sums: Any

    def merged(self, other: CellSums) -> CellSums:
        """Sums of both."""
        return CellSums(self.sums + other.sums)


@dataclasses.dataclass(frozen=True)
class RowTotals:
    """Number of rows, sums of their weights and of the squares of these, smallest and largest weight.

    All weights are multiples of `unit`, a power of two: 1 unless the weights are so large or small that their squares
    might not be finite.
    """

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    smallest: float = np.inf
    largest: float = 0.0
    unit: float = 1.0

    def merged(self, other: RowTotals) -> RowTotals:
        """Totals of both, which must have the same unit."""
        return RowTotals(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.squares + other.squares,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            self.unit,
        )

    def in_unit(self, unit: float) -> RowTotals:
        """The same totals in another unit."""
        factor = self.unit / unit
        weight, squares = self.weight * factor, self.squares * factor * factor
        return RowTotals(self.n_rows, weight, squares, self.smallest * factor, self.largest * factor, unit)

    @property
    def needs_cut(self) -> bool:
        """Whether some weights are negligible against the largest."""
        return self.smallest <= NEGLIGIBLE_WEIGHT * self.largest

    @property
    def effective_rows(self) -> float:
        """Kish's effective number of rows, (Σ w)² / Σ w²."""
        return self.weight * (self.weight / self.squares)


def totals_of(n_rows: int, weights: Floats | None) -> RowTotals:
    """Totals of some rows."""
    if weights is None or not n_rows:
        return RowTotals(n_rows, float(n_rows), float(n_rows), 1.0 if n_rows else np.inf, 1.0 if n_rows else 0.0)
    with np.errstate(over="ignore"):  # sums that are not finite are refused in the end
        weight, squares = float(weights.sum()), float(np.square(weights).sum())
    return RowTotals(n_rows, weight, squares, float(weights.min()), float(weights.max()))


@dataclasses.dataclass(frozen=True, eq=False)
class FeatureTotals:
    """Finite values of a feature: their mass and scaled sum in each bin, and the smallest and largest of all."""

    masses: Floats
    sums: Floats
    low: float
    high: float

    def merged(self, other: FeatureTotals) -> FeatureTotals:
        """Totals of both."""
        low, high = min(self.low, other.low), max(self.high, other.high)
        return FeatureTotals(self.masses + other.masses, self.sums + other.sums, low, high)

    def scaled(self, factor: float) -> FeatureTotals:
        """The same with all weights multiplied by a factor."""
        return FeatureTotals(self.masses * factor, self.sums * factor, self.low, self.high)

    def onto(self, bins: BinIndices, n_bins: int) -> FeatureTotals:
        """The same on coarser bins, given for each bin."""
        masses, sums = (
            np.bincount(bins, of_bins, minlength=n_bins).astype(np.float64) for of_bins in (self.masses, self.sums)
        )
        return FeatureTotals(masses, sums, self.low, self.high)

    def means(self, binning: Binning | None) -> Floats:
        """Mean in each bin, or in each coarse bin; NaN where there are no finite values."""
        masses, sums = (self.masses, self.sums) if binning is None else map(binning.pool, (self.masses, self.sums))
        means: Floats = np.divide(sums, masses, out=np.full(len(masses), np.nan), where=masses > 0)
        return means / _UNIT


def feature_totals(values: Floats, codes: BinIndices, weights: Floats | None, n_bins: int) -> FeatureTotals:
    """Totals of one feature at some rows."""
    finite = np.isfinite(values)
    if not finite.all():
        values, codes = values[finite], codes[finite]
        weights = None if weights is None else weights[finite]
    masses = np.bincount(codes, weights, minlength=n_bins).astype(np.float64)
    parts = values * _UNIT if weights is None else weights * (values * _UNIT)
    sums = np.bincount(codes, parts, minlength=n_bins).astype(np.float64)
    return FeatureTotals(masses, sums, float(values.min(initial=np.inf)), float(values.max(initial=-np.inf)))


@dataclasses.dataclass(frozen=True, eq=False)
class SamplePart:
    """The sample of the rows, of at most so many."""

    lots: tuple[Sample, ...]
    size: int

    def merged(self, other: SamplePart) -> SamplePart:
        """The sample of all rows of both."""
        return SamplePart((*self.lots, *other.lots), self.size).packed(2 * self.size)

    def packed(self, n_rows: int = 0) -> SamplePart:
        """The same as one lot, if it has more than so many rows."""
        if len(self.lots) < 2 or sum(map(len, self.lots)) <= n_rows:
            return self
        return SamplePart((joined(self.lots, self.size),), self.size)

    def sample(self) -> Sample:
        """The sample."""
        return joined(self.lots, self.size)

    @functools.cached_property
    def limit(self) -> np.uint64:
        """The largest hash that a row of the sample may have."""
        known = [lot.hashes for lot in self.lots if len(lot) >= self.size]
        largest = [np.partition(hashes, self.size - 1)[self.size - 1] for hashes in known if self.size]
        return min(largest, default=np.uint64(2**64 - 1))


def table_of(
    codes: BinIndices, request: Request, sizes: Sequence[int], weights: Floats | None, scores: Floats | None = None
) -> tuple[Sums, Floats | None]:
    """Numbers of rows in the cells of a table, or sums of their weights; and sums of weighted scores if given."""
    key, binnings = request
    if binnings is None:
        shape = tuple(sizes[j] for j in key)
        columns: Iterable[Any] = (codes[:, j] for j in key)
    else:
        shape = tuple(binning.size for binning in binnings)
        columns = (_coarse(codes[:, j], binning) for j, binning in zip(key, binnings, strict=True))
    cells = number_cells(columns, shape, len(codes))
    n_cells = int(np.prod(shape))
    sums = np.bincount(cells, weights, minlength=n_cells).reshape(shape)
    if scores is None:
        return sums, None
    by_output = [np.bincount(cells, column, minlength=n_cells).reshape(shape) for column in scores.T]
    return sums, np.stack(by_output, axis=-1)


def _coarse(bins: BinIndices, binning: Binning) -> Any:
    return bins if binning.is_identity else binning.bins[bins]


class Accumulator:
    """What `counting` asks for, of the rows so far.

    Parameters
    ----------
    counting
        What to count.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.density.counting import Accumulator, Counting, Request, EncodedBatch
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> accumulator = Accumulator(Counting(fx.grid, [Request((0, 1))]))
    >>> accumulator.update(EncodedBatch(X.astype(float), None, 0, np.arange(4)))
    >>> accumulator.tables[0].sums.tolist()
    [[1, 1], [1, 1]]
    """

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.totals = RowTotals()
        self.tables: dict[int, CellSums] = {}
        self.scores: dict[int, CellSums] = {}
        self.features: dict[int, FeatureTotals] = {}
        self.sampled = SamplePart((), counting.n_sampled)

    def update(self, rows: EncodedBatch) -> None:
        """Add rows; those of negligible weight are left out.

        Parameters
        ----------
        rows
            Encoded rows.
        """
        counting = self.counting
        if rows.weights is not None and (rows.weights <= counting.least_weight).any():
            rows = rows.take(rows.weights > counting.least_weight)
        if not len(rows.values):
            return
        self.totals = self.totals.merged(totals_of(len(rows.values), rows.weights))
        if counting.needs_bins:
            codes = counting.grid.index_encoded(rows.values) if rows.codes is None else rows.codes
            self._count(codes, rows)
            self._describe(codes, rows)
        if counting.n_sampled:
            self._sample(rows)

    def _count(self, codes: BinIndices, rows: EncodedBatch) -> None:
        counting, sizes = self.counting, self.counting.grid.sizes
        scores = None if counting.score is None else counting.score(rows.values, codes)
        if scores is not None and rows.weights is not None:
            scores = scores * rows.weights[:, None]
        for number, request in enumerate(counting.tables):
            for kept, more in zip(
                (self.tables, self.scores), table_of(codes, request, sizes, rows.weights, scores), strict=True
            ):
                if more is not None and number in kept:
                    kept[number].sums += more
                elif more is not None:
                    kept[number] = CellSums(more)

    def _describe(self, codes: BinIndices, rows: EncodedBatch) -> None:
        for j, size in enumerate(self.counting.grid.sizes if self.counting.describes_features else ()):
            more = feature_totals(rows.values[:, j], codes[:, j], rows.weights, size)
            self.features[j] = self.features[j].merged(more) if j in self.features else more

    def _sample(self, rows: EncodedBatch) -> None:
        hashes = hashes_of(rows.source, rows.numbers)
        chosen = hashes <= min(self.sampled.limit, self.counting.largest_hash)
        if not chosen.all():
            rows, hashes = rows.take(chosen), hashes[chosen]
        sources = np.full(len(hashes), rows.source, dtype=np.int64)
        lot = Sample(rows.values, rows.weights, hashes, sources, rows.numbers)
        self.sampled = self.sampled.merged(SamplePart((lot.smallest(self.sampled.size),), self.sampled.size))

    def merge(self, other: Accumulator) -> None:
        """Add all that another accumulator has counted of other rows.

        Parameters
        ----------
        other
            An accumulator for the same counting.
        """
        parts = self._parts()
        for name, part in other._parts().items():
            parts[name] = parts[name].merged(part) if name in parts else part
        self._set(parts)

    def _parts(self) -> dict[str, Any]:
        parts: dict[str, Any] = {"rows": self.totals, "sample": self.sampled}
        for folder in _FOLDERS:
            parts |= {f"{folder}/{number}": part for number, part in getattr(self, folder).items()}
        return parts

    def _set(self, parts: Mapping[str, Any]) -> None:
        self.totals, self.sampled = parts["rows"], parts["sample"]
        for folder in _FOLDERS:
            start = f"{folder}/"
            found = {int(name.removeprefix(start)): part for name, part in parts.items() if name.startswith(start)}
            setattr(self, folder, found)

    def parts(self) -> dict[str, bytes]:
        """All parts as bytes, by name; `merge_parts` merges those of one name.

        Returns
        -------
        dict
            Names of parts to pickles of treeanova's own objects, for the workers of one job.
        """
        self.sampled = self.sampled.packed()
        return {name: pickle.dumps(part, protocol=5) for name, part in self._parts().items()}

    @classmethod
    def of_parts(cls, counting: Counting, parts: Mapping[str, bytes]) -> Accumulator:
        """The accumulator that `parts` were taken from.

        Parameters
        ----------
        counting
            What was counted.
        parts
            Bytes by name, from workers of one's own job.

        Returns
        -------
        Accumulator
        """
        accumulator = cls(counting)
        accumulator._set({name: pickle.loads(part) for name, part in parts.items()})  # noqa: S301  from own workers
        return accumulator


_FOLDERS = ("tables", "scores", "features")


def merge_parts(first: bytes, second: bytes) -> bytes:
    """Two parts of one name, merged: for engines that reduce by key."""
    one, two = (pickle.loads(part) for part in (first, second))  # noqa: S301  from own workers
    merged = one.merged(two)
    return pickle.dumps(merged.packed() if isinstance(merged, SamplePart) else merged, protocol=5)


def merge(first: Accumulator, second: Accumulator) -> Accumulator:
    """Both accumulators as one; the first may be changed."""
    first.merge(second)
    return first


class RowSource(abc.ABC):
    """Rows that can be counted again: in memory, in files, or on workers."""

    has_weights: bool

    @abc.abstractmethod
    def count(self, counting: Counting) -> Accumulator:
        """What one pass over all rows counts; `has_weights` and `least_weight` are those of the source."""

    def recoded(self, recode: Callable[[Floats], Floats]) -> RowSource:  # noqa: ARG002
        """The same rows with other numbers of categories: itself, unless it holds rows that are encoded already."""
        return self


def tables(batches: Iterable[Any], counting: Counting) -> Accumulator:
    """What is counted of batches of rows; errors name the source of the rows.

    Parameters
    ----------
    batches
        Batches of `treeanova.data.streams`.
    counting
        What to count.

    Returns
    -------
    Accumulator
    """
    accumulator = Accumulator(counting)
    for batch in batches:
        accumulator.update(encoded_rows(batch, counting))
    return accumulator


def counted_parts(batches: Iterable[Any], counting: Counting) -> dict[str, bytes]:
    """The parts of an accumulator of batches, for workers."""
    return tables(batches, counting).parts()


def encoded_rows(batch: Any, counting: Counting) -> EncodedBatch:
    """The rows of a batch, encoded; ValueError for weights that are negative or not finite."""
    values = batch.encoded(counting.grid.schema)
    numbers = batch.first_row + np.arange(len(values))
    if not counting.has_weights:
        return EncodedBatch(values, None, batch.number, numbers)
    is_bad = ~np.isfinite(batch.weights) | (batch.weights < 0)
    if is_bad.any():
        row = int(is_bad.argmax())
        raise ValueError(
            f"{batch.source}: `sample_weight` must be finite and not negative, got {batch.weights[row]:g} at row "
            f"{batch.first_row + row}; correct the weights or leave these rows out."
        )
    return EncodedBatch(values, batch.weights, batch.number, numbers)
