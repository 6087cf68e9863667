"""Accumulator: all that is counted from rows, in memory or batch by batch, on one machine or many.

An accumulator is a set of named parts (tables of cells, totals of rows and of features, a sample), each of which can be
merged on its own: `parts` returns them as bytes, for engines that reduce by key. Numbers of rows are integers, so the
result does not depend on the size or order of batches; sums of weights depend on them in their last digits.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, Key, memo_of, number_cells
from treeanova.core.progress import listener, one_step
from treeanova.data.sources import Batch, Batches, Distributed
from treeanova.density.sample import LARGEST_HASH, Sample, enough_hashes, hashes_of, joined
from treeanova.model.grid import Binning, Grid
from treeanova.model.rows import Rows

Binnings = Sequence[Binning]
NEGLIGIBLE_WEIGHT = 1e-12  # of the largest: rows of so small a weight are left out
_READING = "reading rows"
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
    >>> accumulator.update(X.astype(float), None, 0, np.arange(4))
    >>> accumulator.tables[0].tolist()
    [[1, 1], [1, 1]]
    """

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.totals = RowTotals()
        self.tables: dict[int, Sums] = {}
        self.scores: dict[int, Floats] = {}
        self.features: dict[int, FeatureTotals] = {}
        self._lots: list[Sample] = []

    def add(self, batch: Batch) -> None:
        """Encode and add the rows of a batch; raise ValueError for weights that are negative or not finite."""
        values = batch.encoded(self.counting.grid.schema)
        numbers = batch.first_row + np.arange(len(values))
        weights = batch.weights if self.counting.has_weights else None
        if weights is not None:
            is_bad = ~np.isfinite(weights) | (weights < 0)
            if is_bad.any():
                row = int(is_bad.argmax())
                raise ValueError(
                    f"{batch.source}: `sample_weight` must be finite and not negative, got {weights[row]:g} at row "
                    f"{batch.first_row + row}; correct the weights or leave these rows out."
                )
        self.update(values, weights, batch.number, numbers)

    def update(
        self, values: Floats, weights: Floats | None, source: int, numbers: Ints, codes: BinIndices | None = None
    ) -> None:
        """Add encoded rows of one source, except those of negligible weight; `codes` are their bins, if known."""
        counting = self.counting
        if weights is not None and (weights <= counting.least_weight).any():
            is_counted = weights > counting.least_weight
            values, weights, numbers = values[is_counted], weights[is_counted], numbers[is_counted]
            codes = None if codes is None else codes[is_counted]
        if not len(values):
            return
        self.totals = self.totals.merged(totals_of(len(values), weights))
        if counting.tables or counting.describes_features:
            codes = counting.grid.index(Rows(values)) if codes is None else codes
            self._count(values, weights, codes)
            for j, size in enumerate(counting.grid.sizes if counting.describes_features else ()):
                more = feature_totals(values[:, j], codes[:, j], weights, size)
                self.features[j] = self.features[j].merged(more) if j in self.features else more
        if counting.n_sampled:
            self._sample(values, weights, source, numbers)

    def _count(self, values: Floats, weights: Floats | None, codes: BinIndices) -> None:
        counting, sizes = self.counting, self.counting.grid.sizes
        scores = None if counting.score is None else counting.score(Rows(values, {counting.grid: codes}))
        if scores is not None and weights is not None:
            scores = scores * weights[:, None]
        for number, request in enumerate(counting.tables):
            sums, score_sums = table_of(codes, request, sizes, weights, scores)
            self.tables[number] = self.tables[number] + sums if number in self.tables else sums
            if score_sums is not None:
                self.scores[number] = self.scores[number] + score_sums if number in self.scores else score_sums

    def _sample(self, values: Floats, weights: Floats | None, source: int, numbers: Ints) -> None:
        """Keep the rows of smallest hashes as another lot; many lots are joined."""
        size, hashes = self.counting.n_sampled, hashes_of(source, numbers)
        full = (lot.hashes for lot in self._lots if len(lot) >= size)
        limits = [self.counting.largest_hash, *(np.partition(of_lot, size - 1)[size - 1] for of_lot in full)]
        may_stay = hashes <= min(limits)
        if not may_stay.all():
            values, numbers, hashes = values[may_stay], numbers[may_stay], hashes[may_stay]
            weights = None if weights is None else weights[may_stay]
        sources = np.full(len(hashes), source, dtype=np.int64)
        self._lots.append(Sample(values, weights, hashes, sources, numbers).smallest(size))
        if len(self._lots) > 1 and sum(map(len, self._lots)) > 2 * size:
            self._lots = [self.sample()]

    def sample(self) -> Sample:
        return joined(self._lots, self.counting.n_sampled)

    def parts(self) -> dict[str, bytes]:
        """Return all parts as bytes, by name; `merge_parts` merges two of one name."""
        by_name: dict[str, Any] = {"totals": self.totals, **({"sample": self.sample()} if self._lots else {})}
        for folder in ("tables", "scores", "features"):
            by_name |= {f"{folder}/{number}": value for number, value in getattr(self, folder).items()}
        return {name: pickle.dumps(value, protocol=5) for name, value in by_name.items()}

    @classmethod
    def of_parts(cls, counting: Counting, parts: Mapping[str, bytes]) -> Accumulator:
        """Unpickle `parts`, which must come from workers of one's own job."""
        accumulator = cls(counting)
        for name, payload in parts.items():
            value = pickle.loads(payload)  # noqa: S301  from own workers
            folder, _, number = name.partition("/")
            if number:
                getattr(accumulator, folder)[int(number)] = value
            elif name == "sample":
                accumulator._lots = [value]
            else:
                accumulator.totals = value
        return accumulator


def merge_parts(first: bytes, second: bytes, *, n_sampled: int) -> bytes:
    """Merge two parts of one name, for engines that reduce by key."""
    ours, theirs = (pickle.loads(payload) for payload in (first, second))  # noqa: S301  from own workers
    if isinstance(ours, Sample):
        return pickle.dumps(joined([ours, theirs], n_sampled), protocol=5)
    return pickle.dumps(ours + theirs if isinstance(ours, np.ndarray) else ours.merged(theirs), protocol=5)


def count_batches(batches: Iterable[Batch], counting: Counting) -> Accumulator:
    accumulator = Accumulator(counting)
    for batch in batches:
        accumulator.add(batch)
    return accumulator


def _counted_parts(batches: Iterable[Batch], counting: Counting) -> dict[str, bytes]:
    return count_batches(batches, counting).parts()


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Encoded rows in memory; `numbers` are those of the rows in their table, weights are multiples of `unit`."""

    values: Floats
    weights: Floats | None
    numbers: Ints
    unit: float = 1.0

    def count(self, counting: Counting) -> Accumulator:
        """Count all rows in one pass; whether they have weights is up to the source."""
        accumulator = Accumulator(dataclasses.replace(counting, has_weights=self.weights is not None))
        last = memo_of(self, "codes")
        if last.get("grid") is not counting.grid and (counting.tables or counting.describes_features):
            last.update(grid=counting.grid, codes=counting.grid.index(Rows(self.values)))
        codes = last["codes"] if last.get("grid") is counting.grid else None
        accumulator.update(self.values, self.weights, 0, self.numbers, codes)
        accumulator.totals = dataclasses.replace(accumulator.totals, unit=self.unit)
        return accumulator


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInBatches:
    """Rows that are read in batches, here or by workers; those of `least_weight` or less are left out."""

    batches: Batches
    has_weights: bool = False
    least_weight: float = 0.0

    def count(self, counting: Counting) -> Accumulator:
        """Count all rows in one pass; `has_weights` and `least_weight` are those of the source."""
        counting = dataclasses.replace(counting, has_weights=self.has_weights, least_weight=self.least_weight)
        if counting.n_sampled and not self.has_weights:  # weights may leave rows out
            limit = enough_hashes(counting.n_sampled, self.batches.n_rows or 0)
            counting = dataclasses.replace(counting, largest_hash=limit)
        if isinstance(self.batches, Distributed):
            work = functools.partial(_counted_parts, counting=counting)
            with one_step(listener(), _READING):
                payloads = self.batches.reduced(work, functools.partial(merge_parts, n_sampled=counting.n_sampled))
            return Accumulator.of_parts(counting, payloads)
        accumulator = Accumulator(counting)
        report, total, n_read = listener(), self.batches.n_rows or 1, 0
        report(_READING, 0, total)
        for batch in self.batches:
            accumulator.add(batch)
            n_read += batch.n_rows
            if self.batches.n_rows:
                report(_READING, min(n_read, total - 1), total)
        report(_READING, total, total)
        return accumulator


RowSource = RowsInMemory | RowsInBatches
"""Rows that can be counted again."""
