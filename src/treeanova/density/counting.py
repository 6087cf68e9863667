"""Accumulator: all that is counted from rows, batch by batch, on one machine or many.

An accumulator is a set of named parts (tables of cells, totals of rows and of features, a sample), each of which can be
merged on its own: `parts` returns them as bytes, for engines that reduce by key. Numbers of rows are integers, so the
result does not depend on the size or order of batches; sums of weights depend on them in their last digits.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, Key, number_cells
from treeanova.density.sample import LARGEST_HASH, Sample, hashes_of, joined
from treeanova.model.grid import Binning, Grid
from treeanova.model.rows import Rows

Binnings = Sequence[Binning]
NEGLIGIBLE_WEIGHT = 1e-12  # of the largest: rows of so small a weight are left out
_UNIT = 2.0**-64  # of sums of values: those of huge values would overflow
Sums = npt.NDArray[np.int64] | Floats
"""Numbers of rows, or sums of their weights."""
RowScore = Callable[[Rows], Floats]
"""Score of rows given by encoded values and bins, shape (n_rows, n_outputs)."""


def merging(binnings: Binnings | None) -> Binnings | None:
    return None if binnings is None or all(binning.is_identity for binning in binnings) else binnings


def pool_table(table: Floats, binnings: Binnings | None) -> Floats:
    """Sum a table over the fine bins of each coarse bin along every axis."""
    for axis, binning in enumerate(binnings or ()):
        table = binning.pool(table, axis)
    return table


def pool_masses(masses: Sequence[Floats], binnings: Binnings | None) -> list[Floats]:
    if binnings is None:
        return list(masses)
    return [binning.pool(fine) for binning, fine in zip(binnings, masses, strict=True)]


class Request(NamedTuple):
    """A table to count: positions of features, and their coarse bins; None for the bins of the grid."""

    key: Key
    binnings: Binnings | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Counting:
    """What to count in one pass over rows; it can be pickled, for workers.

    A sample of `n_sampled` rows is kept; rows with hashes above `largest_hash` cannot be in it. Rows of `least_weight`
    or less are left out. The `score` of rows is added up in each cell.
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
        return bool(self.tables) or self.describes_features


class EncodedBatch(NamedTuple):
    """Encoded rows of one source: values, weights, number of the source, numbers of the rows, and bins if known."""

    values: Floats
    weights: Floats | None
    source: int
    numbers: Ints
    codes: BinIndices | None = None

    def take(self, rows: Any) -> EncodedBatch:
        weights = None if self.weights is None else self.weights[rows]
        codes = None if self.codes is None else self.codes[rows]
        return EncodedBatch(self.values[rows], weights, self.source, self.numbers[rows], codes)


@dataclasses.dataclass(frozen=True)
class RowTotals:
    """Number of rows, sums of their weights and squared weights, smallest and largest weight.

    Weights are multiples of `unit`, a power of two: 1 unless squares of the weights could overflow or underflow.
    """

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    smallest: float = np.inf
    largest: float = 0.0
    unit: float = 1.0

    def merged(self, other: RowTotals) -> RowTotals:
        """Both must have the same unit."""
        return RowTotals(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.squares + other.squares,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            self.unit,
        )

    def in_unit(self, unit: float) -> RowTotals:
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
        low, high = min(self.low, other.low), max(self.high, other.high)
        return FeatureTotals(self.masses + other.masses, self.sums + other.sums, low, high)

    def scaled(self, factor: float) -> FeatureTotals:
        return FeatureTotals(self.masses * factor, self.sums * factor, self.low, self.high)

    def onto(self, bins: BinIndices, n_bins: int) -> FeatureTotals:
        """Return totals on coarser bins; `bins` has the coarse bin of each bin."""
        masses, sums = (
            np.bincount(bins, of_bins, minlength=n_bins).astype(np.float64) for of_bins in (self.masses, self.sums)
        )
        return FeatureTotals(masses, sums, self.low, self.high)

    def means(self, binning: Binning | None) -> Floats:
        masses, sums = (self.masses, self.sums) if binning is None else map(binning.pool, (self.masses, self.sums))
        means: Floats = np.divide(sums, masses, out=np.full(len(masses), np.nan), where=masses > 0)
        return means / _UNIT


def feature_totals(values: Floats, codes: BinIndices, weights: Floats | None, n_bins: int) -> FeatureTotals:
    finite = np.isfinite(values)
    if not finite.all():
        values, codes = values[finite], codes[finite]
        weights = None if weights is None else weights[finite]
    masses = np.bincount(codes, weights, minlength=n_bins).astype(np.float64)
    summands = values * _UNIT if weights is None else weights * (values * _UNIT)
    sums = np.bincount(codes, summands, minlength=n_bins).astype(np.float64)
    return FeatureTotals(masses, sums, float(values.min(initial=np.inf)), float(values.max(initial=-np.inf)))


@dataclasses.dataclass(frozen=True, eq=False)
class SampleLots:
    """Samples of several lots of rows; many are joined into one of at most `size` rows."""

    lots: tuple[Sample, ...]
    size: int

    def merged(self, other: SampleLots) -> SampleLots:
        return SampleLots((*self.lots, *other.lots), self.size).packed(2 * self.size)

    def packed(self, n_rows: int = 0) -> SampleLots:
        """Join to one lot if there are more than `n_rows` rows."""
        if len(self.lots) < 2 or sum(map(len, self.lots)) <= n_rows:
            return self
        return SampleLots((self.sample(),), self.size)

    def sample(self) -> Sample:
        return joined(self.lots, self.size)

    @functools.cached_property
    def limit(self) -> np.uint64:
        full = [lot.hashes for lot in self.lots if self.size and len(lot) >= self.size]
        return min((np.partition(hashes, self.size - 1)[self.size - 1] for hashes in full), default=LARGEST_HASH)


def table_of(
    codes: BinIndices, request: Request, sizes: Sequence[int], weights: Floats | None, scores: Floats | None = None
) -> tuple[Sums, Floats | None]:
    """Count rows in the cells of a table, or sum their weights; and sum weighted scores if given."""
    key, binnings = request
    if binnings is None:
        shape = tuple(sizes[j] for j in key)
        columns: Iterable[Any] = (codes[:, j] for j in key)
    else:
        shape = tuple(binning.size for binning in binnings)
        columns = (
            codes[:, j] if binning.is_identity else binning.bins[codes[:, j]]
            for j, binning in zip(key, binnings, strict=True)
        )
    cells = number_cells(columns, shape, len(codes))
    n_cells = int(np.prod(shape))
    sums = np.bincount(cells, weights, minlength=n_cells).reshape(shape)
    if scores is None:
        return sums, None
    by_output = [np.bincount(cells, column, minlength=n_cells).reshape(shape) for column in scores.T]
    return sums, np.stack(by_output, axis=-1)


class Accumulator:
    """What `counting` asks for, of the rows so far; tables and sums of scores have the numbers of its requests.

    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> accumulator = Accumulator(Counting(fx.grid, [Request((0, 1))]))
    >>> accumulator.update(EncodedBatch(X.astype(float), None, 0, np.arange(4)))
    >>> accumulator.tables[0].tolist()
    [[1, 1], [1, 1]]
    """

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.totals = RowTotals()
        self.tables: dict[int, Sums] = {}
        self.scores: dict[int, Floats] = {}
        self.features: dict[int, FeatureTotals] = {}
        self.sampled = SampleLots((), counting.n_sampled)

    def update(self, rows: EncodedBatch) -> None:
        """Add rows, except those of negligible weight."""
        counting = self.counting
        if rows.weights is not None and (rows.weights <= counting.least_weight).any():
            rows = rows.take(rows.weights > counting.least_weight)
        if not len(rows.values):
            return
        self.totals = self.totals.merged(totals_of(len(rows.values), rows.weights))
        if counting.needs_bins:
            codes = counting.grid.index(Rows(rows.values)) if rows.codes is None else rows.codes
            self._count(codes, rows)
            self._describe(codes, rows)
        if counting.n_sampled:
            self._sample(rows)

    def _count(self, codes: BinIndices, rows: EncodedBatch) -> None:
        counting, sizes = self.counting, self.counting.grid.sizes
        scores = None if counting.score is None else counting.score(Rows(rows.values, {counting.grid: codes}))
        if scores is not None and rows.weights is not None:
            scores = scores * rows.weights[:, None]
        for number, request in enumerate(counting.tables):
            sums, score_sums = table_of(codes, request, sizes, rows.weights, scores)
            _add(self.tables, number, sums)
            if score_sums is not None:
                _add(self.scores, number, score_sums)

    def _describe(self, codes: BinIndices, rows: EncodedBatch) -> None:
        for j, size in enumerate(self.counting.grid.sizes if self.counting.describes_features else ()):
            more = feature_totals(rows.values[:, j], codes[:, j], rows.weights, size)
            self.features[j] = self.features[j].merged(more) if j in self.features else more

    def _sample(self, rows: EncodedBatch) -> None:
        hashes = hashes_of(rows.source, rows.numbers)
        may_stay = hashes <= min(self.sampled.limit, self.counting.largest_hash)
        if not may_stay.all():
            rows, hashes = rows.take(may_stay), hashes[may_stay]
        sources = np.full(len(hashes), rows.source, dtype=np.int64)
        lot = Sample(rows.values, rows.weights, hashes, sources, rows.numbers)
        self.sampled = self.sampled.merged(SampleLots((lot.smallest(self.sampled.size),), self.sampled.size))

    def merge(self, other: Accumulator) -> None:
        by_name = self._by_name()
        for name, value in other._by_name().items():
            by_name[name] = _merged(by_name[name], value) if name in by_name else value
        self._set(by_name)

    def _by_name(self) -> dict[str, Any]:
        by_name: dict[str, Any] = {"rows": self.totals, "sample": self.sampled}
        for folder in _FOLDERS:
            by_name |= {f"{folder}/{number}": value for number, value in getattr(self, folder).items()}
        return by_name

    def _set(self, by_name: Mapping[str, Any]) -> None:
        self.totals, self.sampled = by_name["rows"], by_name["sample"]
        for folder in _FOLDERS:
            start = f"{folder}/"
            in_folder = {int(name.removeprefix(start)): by_name[name] for name in by_name if name.startswith(start)}
            setattr(self, folder, in_folder)

    def parts(self) -> dict[str, bytes]:
        """Return all parts as bytes, by name; `merge_parts` merges two of one name."""
        self.sampled = self.sampled.packed()
        return {name: pickle.dumps(value, protocol=5) for name, value in self._by_name().items()}

    @classmethod
    def of_parts(cls, counting: Counting, parts: Mapping[str, bytes]) -> Accumulator:
        """Unpickle `parts`, which must come from workers of one's own job."""
        accumulator = cls(counting)
        accumulator._set({name: pickle.loads(value) for name, value in parts.items()})  # noqa: S301  from own workers
        return accumulator


_FOLDERS = ("tables", "scores", "features")


def _add(sums: dict[int, Any], number: int, more: Any) -> None:
    if number in sums:
        sums[number] += more
    else:
        sums[number] = more


def _merged(first: Any, second: Any) -> Any:
    return first + second if isinstance(first, np.ndarray) else first.merged(second)


def merge_parts(first: bytes, second: bytes) -> bytes:
    """Merge two parts of one name, for engines that reduce by key."""
    merged = _merged(*(pickle.loads(payload) for payload in (first, second)))  # noqa: S301  from own workers
    return pickle.dumps(merged.packed() if isinstance(merged, SampleLots) else merged, protocol=5)


def merge(first: Accumulator, second: Accumulator) -> Accumulator:
    """Merge into the first, which may be changed."""
    first.merge(second)
    return first


class RowSource(abc.ABC):
    """Rows that can be counted again: in memory, in files, or on workers."""

    has_weights: bool

    @abc.abstractmethod
    def count(self, counting: Counting) -> Accumulator:
        """Count all rows in one pass; `has_weights` and `least_weight` are those of the source."""

    def recoded(self, recode: Callable[[Floats], Floats]) -> RowSource:  # noqa: ARG002
        """Renumber categories; only sources that hold encoded rows need to."""
        return self


def tables(batches: Iterable[Any], counting: Counting) -> Accumulator:
    """Count batches of `treeanova.data.streams`; errors name the source of the rows."""
    accumulator = Accumulator(counting)
    for batch in batches:
        accumulator.update(encoded_rows(batch, counting))
    return accumulator


def counted_parts(batches: Iterable[Any], counting: Counting) -> dict[str, bytes]:
    return tables(batches, counting).parts()


def encoded_rows(batch: Any, counting: Counting) -> EncodedBatch:
    """Encode the rows of a batch; raise ValueError for weights that are negative or not finite."""
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
