"""Accumulator: all that is counted from rows, in memory or batch by batch, on one machine or many; the sample of rows.

An accumulator has named parts (tables of cells, totals of rows and of features, a sample), each of which can be merged
on its own. Numbers of rows are integers, so the result does not depend on the size or order of batches; sums of weights
depend on them in their last digits. Which rows are sampled depends only on the source and number of each row: not on
batches, and not on what a row contains, so equal rows do not stay or go together.

Bootstrap resamples, oversampled classes and joins repeat whole rows. A copy is not new evidence: it agrees with its
original whatever the density. Rows of discrete features repeat too, but there each row is evidence. If rows are copies,
most rows that agree in one half of the features also agree in the other half, even in sparse regions; if features are
discrete, the other half mostly differs. So equal rows count as copies if this holds, beyond chance, for every way of
halving the features that is tried. `python -m benchmarks copies` set the numbers of this rule.
"""

from __future__ import annotations

import dataclasses
import functools
import pickle
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key, memo_of, number_cells
from treeanova.core.progress import listener, one_step
from treeanova.data.sources import Batch, Batches, Distributed
from treeanova.density import costs
from treeanova.model.grid import Binning, Grid
from treeanova.model.rows import Rows

Hashes = npt.NDArray[np.uint64]
_MULTIPLIERS = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)  # of the finalizer of SplitMix64
LARGEST_HASH = np.uint64(2**64 - 1)
_STEP = np.uint64(0x9E3779B97F4A7C15)
_FEWEST_COPIES = 0.005  # of all rows: fewer change no choice
_LARGEST_SHARE = 0.2  # of all repeated rows: a row with more of them is a value, such as zero in all features
_MOST_REPEATS = 10  # on average: a table whose rows repeat more often is discrete
_LEAST_AGREEMENT = 0.25  # of pairs of rows that agree in half of the features, beyond chance
_LEAST_SPARSE_AGREEMENT = 0.5  # the same in sparse regions, where few rows agree by chance
_SPARSE = 0.1  # of all sets of rows that agree in half of the features: those of fewest rows
_FEWEST_SPARSE = 10
_LEAST_SHARE = 0.5  # of copies among pairs of equal rows: with fewer, chance outweighs copies, which do no harm
Binnings = Sequence[Binning]
NEGLIGIBLE_WEIGHT = 1e-12  # of the largest: rows of so small a weight are left out
_READING = "reading rows"
_UNIT = 2.0**-64  # of sums of values: those of huge values would overflow
Sums = npt.NDArray[np.int64] | Floats
"""Numbers of rows, or sums of their weights."""
RowScore = Callable[[Rows], Floats]
"""Score of rows given by encoded values and bins, shape (n_rows, n_outputs)."""


def sample_size(n_features: int) -> int:
    """Return how many rows of a table a sample may hold."""
    return int(min(costs.MAX_SAMPLE_ROWS, costs.MAX_SAMPLE_BYTES // (8 * max(n_features, 1))))


def hashes_of(source: int, rows: Ints) -> Hashes:
    """Return a hash of each row from its number and the number of its source: the smallest are sampled."""
    with np.errstate(over="ignore"):
        source_hash = _mixed(np.array([source], dtype=np.int64).astype(np.uint64) + _STEP)
        return _mixed(rows.astype(np.uint64) * _STEP + source_hash)


def order_of_contents(bins: BinIndices, values: Floats, weights: Floats | None) -> Ints:
    """Return positions in an order that looks random and depends only on contents; equal rows are adjacent."""
    keys: list[Any] = [_content_hashes(values + 0.0, np.uint64), _content_hashes(bins, np.uint32)]  # -0.0 is 0.0
    return np.lexsort(keys if weights is None else [weights, *keys])


def _content_hashes(table: npt.NDArray[Any], as_type: type[np.unsignedinteger[Any]]) -> Hashes:
    """Return a hash of each row from the bits of its entries; all missing values are equal."""
    hashes = np.zeros(len(table), dtype=np.uint64)
    with np.errstate(over="ignore"):
        for column in table.T:
            hashes = _mixed(hashes * _STEP + _bits(column, as_type) + np.uint64(1))
    return hashes


def _bits(column: npt.NDArray[Any], as_type: type[np.unsignedinteger[Any]]) -> npt.NDArray[Any]:
    """Return the bits of each number as an unsigned integer, the same for all missing values."""
    canonical = np.where(np.isnan(column), np.nan, column) if column.dtype.kind == "f" else column
    return np.ascontiguousarray(canonical).view(as_type)


def hashes_of_columns(values: Floats, masks: Bools) -> list[Hashes]:
    """Return, for each mask of columns, a hash of each row: the sum of the hashes of its entries there."""
    sums = [np.zeros(len(values), dtype=np.uint64) for _ in masks]
    numbers = _mixed(np.arange(1, values.shape[1] + 1).astype(np.uint64))
    for column, number, are_added in zip(values.T, numbers, masks.T, strict=True):
        hashes = _mixed(_bits(column + 0.0, np.uint64) * _STEP + number)  # -0.0 is 0.0
        for place in np.flatnonzero(are_added):
            sums[place] += hashes
    return sums


def _mixed(numbers: Hashes) -> Hashes:
    """Map each number to one that looks random; different numbers stay different."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MULTIPLIERS[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MULTIPLIERS[1]
    return numbers ^ (numbers >> np.uint64(31))


def hash_limit(size: int, n_rows: int) -> np.uint64:
    """Return a hash that at least `size` rows fall below, except with a chance of one in a billion."""
    share = (size + 6 * size**0.5 + 6) / max(n_rows, 1)  # numbers of rows are binomial: six standard deviations more
    return LARGEST_HASH if share >= 1 else np.uint64(int(share * 2**64))


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Encoded rows, sorted by source and row number."""

    values: Floats  # shape (n_rows, n_features), column by column in memory
    weights: Floats | None  # None if all rows weigh the same
    hashes: Hashes  # rows with the smallest ones stay in a smaller sample
    sources: Ints
    rows: Ints

    def __len__(self) -> int:
        return len(self.values)

    @functools.cached_property
    def shares(self) -> Floats:
        n_rows = len(self)
        return np.full(n_rows, 1 / max(n_rows, 1)) if self.weights is None else self.weights / self.weights.sum()

    @functools.cached_property
    def distinct(self) -> tuple[Ints, Floats]:
        """Places of one row of each set of copies (a single row is a set), and the share of each set."""
        return without_copies(self.values, self.shares)

    @functools.cached_property
    def copied_excess(self) -> float:
        """Σ share_i · share_j over all ordered pairs of copies; rows are worth 1 / (Σ share² + excess) rows."""
        places, masses = self.distinct
        return 0.0 if len(places) == len(self) else float(np.square(masses).sum() - np.square(self.shares).sum())

    def of_smallest_hashes(self, size: int) -> Sample:  # at most `size` rows, chosen as if at random
        if len(self) <= size:
            return self
        is_selected = np.zeros(len(self), dtype=bool)
        is_selected[np.argpartition(self.hashes, size - 1)[:size] if size else slice(0)] = True
        return self.take(is_selected)

    def take(self, places: Bools | Ints) -> Sample:
        values = np.asfortranarray(self.values[places])
        weights = None if self.weights is None else self.weights[places]
        return Sample(values, weights, self.hashes[places], self.sources[places], self.rows[places])


def sample_of(values: Floats, weights: Floats | None, source: int, rows: Ints) -> Sample:  # `rows` are numbers of rows
    return Sample(values, weights, hashes_of(source, rows), np.full(len(rows), source), rows)


def join_samples(samples: Sequence[Sample], size: int) -> Sample:
    """Return the rows of all samples, or the `size` ones of smallest hashes."""
    if len(samples) == 1:
        return samples[0].of_smallest_hashes(size)
    hashes = np.concatenate([sample.hashes for sample in samples])
    limit = np.partition(hashes, size - 1)[size - 1] if len(hashes) > size else np.uint64(2**64 - 1)
    subsamples = [sample if len(hashes) <= size else sample.take(sample.hashes <= limit) for sample in samples]
    weights = [sample.weights for sample in subsamples if sample.weights is not None]
    whole = Sample(
        np.concatenate([sample.values for sample in subsamples]),
        np.concatenate(weights) if len(weights) == len(subsamples) else None,
        *(np.concatenate([getattr(sample, name) for sample in subsamples]) for name in ("hashes", "sources", "rows")),
    )
    return whole.take(np.lexsort((whole.rows, whole.sources))).of_smallest_hashes(size)


def without_copies(values: Floats, shares: Floats) -> tuple[Ints, Floats]:
    """Return positions of one row per set of copies, and the sets' shares; all rows if equal rows are not copies."""
    if min(values.shape) < 2:
        return np.arange(len(shares)), shares
    n_features = values.shape[1]
    bits = np.arange((n_features - 1).bit_length())[:, None]
    # All features, then halves by each binary digit of their positions: any two features are separated at least once.
    masks = np.vstack([np.ones((1, n_features), dtype=bool), (np.arange(n_features) >> bits) & 1 == 0])
    whole, *halves = hashes_of_columns(values, masks)
    numbers, sizes = _groups_of_equal(whole)
    are_repeats = ~_are_frequent_values(sizes)[numbers]
    if not _are_copies(whole[are_repeats], [half[are_repeats] for half in halves]):
        return np.arange(len(shares)), shares
    alone = len(sizes) + np.arange(len(numbers))  # frequent values are sets of their own, row by row
    _, places, sets = np.unique(np.where(are_repeats, numbers, alone), return_index=True, return_inverse=True)
    return places, np.bincount(sets, shares).astype(np.float64)


def _groups_of_equal(hashes: Hashes) -> tuple[Ints, Ints]:
    """Return the group of equal hashes that each row is in, and the size of each group."""
    _, numbers, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    return numbers, sizes


def _are_frequent_values(sizes: Ints) -> Bools:
    """Return whether each group of equal rows is so large a part of all repeated rows that these are values."""
    # From the largest group down, each is compared with itself and all smaller ones, until one is not large.
    order = np.argsort(-sizes, kind="stable")
    repeated = np.where(sizes[order] > 1, sizes[order], 0)
    tail_sums = np.cumsum(repeated[::-1])[::-1]
    are_values = np.empty(len(sizes), dtype=bool)
    are_values[order] = np.logical_and.accumulate(repeated > _LARGEST_SHARE * tail_sums)
    return are_values


def _are_copies(whole: Hashes, halves: Sequence[Hashes]) -> bool:
    """Whether equal rows are copies: from hashes of rows by all features, and by one half of them for each halving."""
    numbers, sizes = _groups_of_equal(whole)
    n_rows, n_distinct = len(numbers), len(sizes)
    if n_rows - n_distinct <= _FEWEST_COPIES * n_rows or n_rows > _MOST_REPEATS * n_distinct:
        return False
    groups = [(_groups_of_equal(half), _groups_of_equal(whole - half)) for half in halves]
    return all(_agree_like_copies(numbers, sizes, both) for both in groups)


def _agree_like_copies(numbers: Ints, sizes: Ints, halves: Sequence[tuple[Ints, Ints]]) -> bool:
    """Whether rows that agree in one half of the features agree in the other far more often than by chance."""
    # `numbers` and `sizes`: each row's group of equal rows, and the sizes of groups; `halves`: the same for
    # rows that are equal in one half of the features, and in the other. The half that separates rows better is taken.
    (rows, n_alike), (_, n_others) = sorted(halves, key=lambda groups: float(_n_pairs(groups[1]).sum()))
    sets = np.empty(len(sizes), dtype=np.int64)  # rows that agree in a half, for each group of equal rows
    sets[numbers] = rows
    are_alone = np.bincount(sets)[sets] == 1
    n_copies = 2 * _n_pairs(sizes[are_alone]).sum() / max(sizes[are_alone].sum(), 1)
    # the share of copies among pairs of equal rows, if all rows have as many copies as rows alone in a set
    if n_copies * sizes.sum() / (2 * _n_pairs(sizes).sum()) < _LEAST_SHARE:
        return False
    n_pairs, n_equal = _n_pairs(n_alike), np.bincount(sets, _n_pairs(sizes), minlength=len(n_alike))
    n_different = len(numbers) * (len(numbers) - 1) / 2 - n_pairs.sum()
    by_chance = float((_n_pairs(n_others).sum() - n_equal.sum()) / max(n_different, 1.0))
    if _kappa(float(n_equal.sum() / n_pairs.sum()), by_chance) >= _LEAST_AGREEMENT:
        return True
    are_sparse = (n_alike > 1) & (n_alike <= np.quantile(n_alike[n_alike > 1], _SPARSE, method="higher"))
    shares = n_equal[are_sparse] / n_pairs[are_sparse]
    return len(shares) >= _FEWEST_SPARSE and _kappa(float(shares.mean()), by_chance) >= _LEAST_SPARSE_AGREEMENT


def _n_pairs(sizes: Ints) -> Floats:  # of rows within each group
    counts = sizes.astype(np.float64)
    return counts * (counts - 1) / 2


def _kappa(share: float, by_chance: float) -> float:
    """Return Cohen's kappa: the share of agreements beyond chance, 1 if all agree."""
    return (share - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Quantiles:
    """Quantiles of the finite values of a feature at equal steps from 0 to 1."""

    plain: Floats  # without weights; empty without finite values
    by_weight: Floats
    n_finite: float
    finite_weight: float  # of the rows with a finite value
    weight: float  # of all rows

    @classmethod
    def of(cls, column: Floats, weights: Floats | None) -> Quantiles:  # of a feature's values at weighted rows
        finite = np.isfinite(column)
        values, n_finite = column[finite], float(finite.sum())
        n_quantiles = min(costs.N_QUANTILES, 2 + len(values) // 10)  # one for ten values does not tell all of them
        plain = np.quantile(values, np.linspace(0, 1, n_quantiles)) if len(values) else np.empty(0)
        if weights is None:
            return cls(plain, plain, n_finite, n_finite, float(len(column)))
        by_weight = _weighted_quantiles(values, weights[finite], n_quantiles) if len(values) else plain
        return cls(plain, by_weight, n_finite, float(weights[finite].sum()), float(weights.sum()))

    def at(self, probabilities: Sequence[float]) -> Floats | None:
        """Return quantiles, ignoring weights; None without finite values."""
        if not len(self.plain):
            return None
        return np.interp(probabilities, np.linspace(0, 1, len(self.plain)), self.plain)

    def histogram(self, low: float, high: float, n_bins: int) -> Floats:  # shares of all rows in equal intervals
        mass = self.finite_weight / self.weight / max(len(self.by_weight), 1)
        return shares_in_intervals(self.by_weight, np.full(len(self.by_weight), mass), low, high, n_bins)

    def scaled(self, factor: float) -> Quantiles:  # weights of rows times a factor
        return dataclasses.replace(self, finite_weight=self.finite_weight * factor, weight=self.weight * factor)

    def merged(self, other: Quantiles) -> Quantiles:  # of the rows of both
        return Quantiles(
            _quantiles_of_both((self.plain, other.plain), (self.n_finite, other.n_finite)),
            _quantiles_of_both((self.by_weight, other.by_weight), (self.finite_weight, other.finite_weight)),
            self.n_finite + other.n_finite,
            self.finite_weight + other.finite_weight,
            self.weight + other.weight,
        )


def shares_in_intervals(values: Floats, shares: Floats, low: float, high: float, n_bins: int) -> Floats:
    """Return sums of rows' shares in `n_bins` intervals of equal length from low to high, the last with its end."""
    # numpy's histogram computes the ends of the intervals, and refuses ranges of so few floats that some are equal.
    inside = (values >= low) & (values <= high)
    exponent = -np.frexp(max(abs(low), abs(high)))[1]  # powers of two: nothing is rounded, and no width is infinite
    start, end = np.ldexp([low, high], exponent)
    places = (np.ldexp(values[inside], exponent) - start) * n_bins / ((end - start) or 1.0)
    sums = np.bincount(np.minimum(places, n_bins - 1).astype(int), shares[inside], n_bins)
    return sums.astype(np.float64)


def _quantiles_of_both(quantiles: tuple[Floats, Floats], masses: tuple[float, float]) -> Floats:
    """Return quantiles of two sets of values together, from those of each and their masses."""
    pairs = [(values, mass) for values, mass in zip(quantiles, masses, strict=True) if len(values)]
    if len(pairs) < 2:
        return pairs[0][0] if pairs else np.empty(0)
    weights = [np.full(len(values), mass / len(values)) for values, mass in pairs]
    return _weighted_quantiles(np.concatenate(quantiles), np.concatenate(weights), max(map(len, quantiles)))


def _weighted_quantiles(values: Floats, weights: Floats, n_quantiles: int) -> Floats:
    """Return quantiles at equal steps from 0 to 1; half of a value's weight lies below it."""
    order = np.argsort(values, kind="stable")  # numpy's weighted quantiles do not interpolate
    masses = weights[order]
    middles = (np.cumsum(masses) - masses / 2) / masses.sum()
    return np.interp(np.linspace(0, 1, n_quantiles), middles, values[order])


def none_if_unmerged(binnings: Binnings | None) -> Binnings | None:
    """Return the binnings, or None if they leave all bins as they are."""
    return None if binnings is None or all(binning.is_identity for binning in binnings) else binnings


def pool_table(table: Floats, binnings: Binnings | None) -> Floats:
    """Sum a table over the fine bins of each coarse bin along every axis."""
    for axis, binning in enumerate(binnings or ()):
        table = binning.pool(table, axis)
    return table


def pool_masses(masses: Sequence[Floats], binnings: Binnings | None) -> list[Floats]:  # of coarse bins, by feature
    if binnings is None:
        return list(masses)
    return [binning.pool(fine) for binning, fine in zip(binnings, masses, strict=True)]


class Request(NamedTuple):
    """A table to count: positions of features, and their coarse bins; None for the bins of the grid."""

    key: Key
    binnings: Binnings | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Counting:
    """What to count in one pass over rows; it can be pickled, for workers."""

    grid: Grid
    tables: Sequence[Request] = ()
    n_sampled: int = 0  # rows of the sample that is kept
    has_weights: bool = False
    least_weight: float = 0.0  # rows of this weight or less are left out
    score: RowScore | None = None  # added up in each cell
    describes_features: bool = True
    largest_hash: np.uint64 = LARGEST_HASH  # rows with hashes above cannot be in the sample


@dataclasses.dataclass(frozen=True)
class RowTotals:
    """Number of rows, sums of their weights and squared weights, smallest and largest weight."""

    n_rows: int = 0
    weight: float = 0.0
    squares: float = 0.0
    smallest: float = np.inf
    largest: float = 0.0
    unit: float = 1.0  # of all weights, a power of two: 1 unless squares of the weights could overflow or underflow

    def merged(self, other: RowTotals) -> RowTotals:
        """Return the totals of the rows of both, whose weights must have the same unit."""
        return RowTotals(
            self.n_rows + other.n_rows,
            self.weight + other.weight,
            self.squares + other.squares,
            min(self.smallest, other.smallest),
            max(self.largest, other.largest),
            self.unit,
        )

    def in_unit(self, unit: float) -> RowTotals:  # the same weights as multiples of another unit
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
    """Return number, sums and extremes of the weights of rows, which are 1 for None."""
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

    def merged(self, other: FeatureTotals) -> FeatureTotals:  # of the rows of both
        low, high = min(self.low, other.low), max(self.high, other.high)
        return FeatureTotals(self.masses + other.masses, self.sums + other.sums, low, high)

    def scaled(self, factor: float) -> FeatureTotals:  # as if all weights of rows were multiplied
        return FeatureTotals(self.masses * factor, self.sums * factor, self.low, self.high)

    def onto(self, bins: BinIndices, n_bins: int) -> FeatureTotals:
        """Return totals on coarser bins; `bins` has the coarse bin of each bin."""
        masses, sums = (np.bincount(bins, fine, minlength=n_bins) for fine in (self.masses, self.sums))
        return FeatureTotals(masses.astype(np.float64), sums.astype(np.float64), self.low, self.high)

    def means(self, binning: Binning | None) -> Floats:
        """Return the mean value in each bin, or merged bin; NaN without values."""
        masses, sums = (self.masses, self.sums) if binning is None else map(binning.pool, (self.masses, self.sums))
        means: Floats = np.divide(sums, masses, out=np.full(len(masses), np.nan), where=masses > 0)
        return means / _UNIT


def feature_totals(values: Floats, codes: BinIndices, weights: Floats | None, n_bins: int) -> FeatureTotals:
    """Return the totals of one feature's values at rows, whose bins are `codes`."""
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
    """Count rows, given by `codes`, in the cells of a requested table, or sum their weights; also sum any scores."""
    key, binnings = request
    if binnings is None:
        shape = tuple(sizes[j] for j in key)
        columns: Iterable[Any] = (codes[:, j] for j in key)
    else:
        shape = tuple(binning.size for binning in binnings)
        pairs = zip(key, binnings, strict=True)
        columns = (codes[:, j] if binning.is_identity else binning.bins[codes[:, j]] for j, binning in pairs)
    cells = number_cells(columns, shape, len(codes))
    n_cells = int(np.prod(shape))
    sums = np.bincount(cells, weights, minlength=n_cells).reshape(shape)
    if scores is None:
        return sums, None
    by_output = [np.bincount(cells, column, minlength=n_cells).reshape(shape) for column in scores.T]
    return sums, np.stack(by_output, axis=-1)


class Accumulator:
    """What `counting` asks for, of the rows so far; tables and sums of scores are by number of the request."""

    def __init__(self, counting: Counting) -> None:
        self.counting = counting
        self.totals: RowTotals = RowTotals()
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
            self._count_tables(values, weights, codes)
            for j, size in enumerate(counting.grid.sizes if counting.describes_features else ()):
                more = feature_totals(values[:, j], codes[:, j], weights, size)
                self.features[j] = self.features[j].merged(more) if j in self.features else more
        if counting.n_sampled:
            self._add_to_sample(values, weights, source, numbers)

    def _count_tables(self, values: Floats, weights: Floats | None, codes: BinIndices) -> None:
        """Add rows to the requested tables, and their scores to the sums of scores, if any are asked for."""
        counting, sizes = self.counting, self.counting.grid.sizes
        scores = None if counting.score is None else counting.score(Rows(values, {counting.grid: codes}))
        if scores is not None and weights is not None:
            scores = scores * weights[:, None]
        for number, request in enumerate(counting.tables):
            sums, score_sums = table_of(codes, request, sizes, weights, scores)
            self.tables[number] = self.tables[number] + sums if number in self.tables else sums
            if score_sums is not None:
                self.scores[number] = self.scores[number] + score_sums if number in self.scores else score_sums

    def _add_to_sample(self, values: Floats, weights: Floats | None, source: int, numbers: Ints) -> None:
        """Keep those of some rows that may be sampled, with small hashes, as another lot; many lots are joined."""
        size, hashes = self.counting.n_sampled, hashes_of(source, numbers)
        full = (lot.hashes for lot in self._lots if len(lot) >= size)
        limits = [self.counting.largest_hash, *(np.partition(lot_hashes, size - 1)[size - 1] for lot_hashes in full)]
        may_stay = hashes <= min(limits)
        if not may_stay.all():
            values, numbers, hashes = values[may_stay], numbers[may_stay], hashes[may_stay]
            weights = None if weights is None else weights[may_stay]
        sources = np.full(len(hashes), source, dtype=np.int64)
        self._lots.append(Sample(values, weights, hashes, sources, numbers).of_smallest_hashes(size))
        if len(self._lots) > 1 and sum(map(len, self._lots)) > 2 * size:
            self._lots = [self.sample()]

    def sample(self) -> Sample:
        return join_samples(self._lots, self.counting.n_sampled)

    def payloads(self) -> dict[str, bytes]:
        """Return all parts as pickles, by name such as "tables/0", for engines that merge them by name."""
        by_name: dict[str, Any] = {"totals": self.totals, **({"sample": self.sample()} if self._lots else {})}
        for folder in ("tables", "scores", "features"):
            by_name |= {f"{folder}/{number}": value for number, value in getattr(self, folder).items()}
        return {name: pickle.dumps(value, protocol=5) for name, value in by_name.items()}

    @classmethod
    def from_payloads(cls, counting: Counting, payloads: Mapping[str, bytes]) -> Accumulator:
        """Return the accumulator that `payloads` came from; unpickling is safe for workers of one's own job only."""
        accumulator = cls(counting)
        for name, payload in payloads.items():
            value = pickle.loads(payload)  # noqa: S301  from own workers
            folder, _, number = name.partition("/")
            if number:
                getattr(accumulator, folder)[int(number)] = value
            elif name == "sample":
                accumulator._lots = [value]
            else:
                accumulator.totals = value
        return accumulator


def merge_payloads(first: bytes, second: bytes, *, n_sampled: int) -> bytes:
    """Merge the pickles of one part from two accumulators, for engines that reduce by key."""
    ours, theirs = (pickle.loads(payload) for payload in (first, second))  # noqa: S301  from own workers
    if isinstance(ours, Sample):
        return pickle.dumps(join_samples([ours, theirs], n_sampled), protocol=5)
    return pickle.dumps(ours + theirs if isinstance(ours, np.ndarray) else ours.merged(theirs), protocol=5)


def payloads_of_batches(batches: Iterable[Batch], counting: Counting) -> dict[str, bytes]:  # the work of a worker
    accumulator = Accumulator(counting)
    for batch in batches:
        accumulator.add(batch)
    return accumulator.payloads()


@dataclasses.dataclass(frozen=True, eq=False)
class RowsInMemory:
    """Encoded rows in memory; `numbers` are those of the rows in their table, weights are multiples of `unit`."""

    values: Floats
    weights: Floats | None
    numbers: Ints
    unit: float = 1.0

    def count(self, counting: Counting) -> Accumulator:
        """Count what `counting` asks for in one pass over all rows; the rows decide whether there are weights."""
        accumulator = Accumulator(dataclasses.replace(counting, has_weights=self.weights is not None))
        latest = memo_of(self, "codes")  # the grid of the last call, and the bins of all rows on it
        if latest.get("grid") is not counting.grid and (counting.tables or counting.describes_features):
            latest.update(grid=counting.grid, codes=counting.grid.index(Rows(self.values)))
        codes = latest["codes"] if latest.get("grid") is counting.grid else None
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
        """Count what `counting` asks for in one pass over all rows; weights are those of the rows."""
        counting = dataclasses.replace(counting, has_weights=self.has_weights, least_weight=self.least_weight)
        if counting.n_sampled and not self.has_weights:  # weights may leave rows out
            limit = hash_limit(counting.n_sampled, self.batches.n_rows or 0)
            counting = dataclasses.replace(counting, largest_hash=limit)
        if isinstance(self.batches, Distributed):
            merge = functools.partial(merge_payloads, n_sampled=counting.n_sampled)
            with one_step(listener(), _READING):
                payloads = self.batches.reduced(functools.partial(payloads_of_batches, counting=counting), merge)
            return Accumulator.from_payloads(counting, payloads)
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
