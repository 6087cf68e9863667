"""The sample of rows that statistics keep, the copies among them, and quantiles of values.

Which rows are kept depends only on the source and number of each row: not on batches, their order or their reader, and
not on what a row contains, so equal rows do not stay or go together. Samples of several lots can be joined.

Bootstrap resamples, oversampled classes and joins repeat whole rows. A copy is not new evidence: it agrees with its
original whatever the density. Rows of discrete features repeat too, but there each row is evidence. If rows are copies,
most rows that agree in one half of the features also agree in the other half, even in sparse regions; if features are
discrete, the other half mostly differs. So equal rows count as copies if this holds, beyond chance, for every way of
halving the features that is tried. `python -m benchmarks copies` set the numbers of this rule.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.density import costs

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


def sample_size(n_features: int) -> int:
    return int(min(costs.MAX_SAMPLE_ROWS, costs.MAX_SAMPLE_BYTES // (8 * max(n_features, 1))))


def hashes_of(source: int, rows: Ints) -> Hashes:
    with np.errstate(over="ignore"):
        of_source = _mixed(np.array([source], dtype=np.int64).astype(np.uint64) + _STEP)
        return _mixed(rows.astype(np.uint64) * _STEP + of_source)


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
    canonical = np.where(np.isnan(column), np.nan, column) if column.dtype.kind == "f" else column
    return np.ascontiguousarray(canonical).view(as_type)


def column_sums_of_hashes(values: Floats, chosen: Bools) -> list[Hashes]:
    """Return, for each choice of columns, a hash of each row: the sum of the hashes of its entries."""
    sums = [np.zeros(len(values), dtype=np.uint64) for _ in chosen]
    numbers = _mixed(np.arange(1, values.shape[1] + 1).astype(np.uint64))
    for column, number, are_added in zip(values.T, numbers, chosen.T, strict=True):
        hashes = _mixed(_bits(column + 0.0, np.uint64) * _STEP + number)  # -0.0 is 0.0
        for place in np.flatnonzero(are_added):
            sums[place] += hashes
    return sums


def _mixed(numbers: Hashes) -> Hashes:
    """Map each number to one that looks random; different numbers stay different."""
    numbers = (numbers ^ (numbers >> np.uint64(30))) * _MULTIPLIERS[0]
    numbers = (numbers ^ (numbers >> np.uint64(27))) * _MULTIPLIERS[1]
    return numbers ^ (numbers >> np.uint64(31))


def enough_hashes(size: int, n_rows: int) -> np.uint64:
    """Return a hash that at least `size` rows fall below, except with a chance of one in a billion.

    The number of rows below a share p of all hashes is binomial, so six standard deviations are added.
    """
    share = (size + 6 * size**0.5 + 6) / max(n_rows, 1)
    return LARGEST_HASH if share >= 1 else np.uint64(int(share * 2**64))


@dataclasses.dataclass(frozen=True, eq=False)
class Sample:
    """Encoded rows, sorted by source and row number.

    `values` has shape (n_rows, n_features), column by column in memory; `weights` is None if all rows weigh the same.
    Rows with the smallest `hashes` stay in a smaller sample.
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
        n_rows = len(self)
        return np.full(n_rows, 1 / max(n_rows, 1)) if self.weights is None else self.weights / self.weights.sum()

    @functools.cached_property
    def distinct(self) -> tuple[Ints, Floats]:
        """Places of one row of each set of copies (a single row is a set), and the share of each set."""
        return without_copies(self.values, self.shares)

    @functools.cached_property
    def copied_excess(self) -> float:
        """Σ share_i · share_j over all ordered pairs of copies.

        The effective number of rows is 1 / (Σ share² + excess); a random sample of the rows has the same excess, up to
        chance.
        """
        places, masses = self.distinct
        return 0.0 if len(places) == len(self) else float(np.square(masses).sum() - np.square(self.shares).sum())

    def smallest(self, size: int) -> Sample:
        if len(self) <= size:
            return self
        is_selected = np.zeros(len(self), dtype=bool)
        is_selected[np.argpartition(self.hashes, size - 1)[:size] if size else slice(0)] = True
        return self.take(is_selected)

    def take(self, chosen: Bools) -> Sample:
        values = np.asfortranarray(self.values[chosen])
        weights = None if self.weights is None else self.weights[chosen]
        return Sample(values, weights, self.hashes[chosen], self.sources[chosen], self.rows[chosen])

    def after(self, other: Sample) -> Sample:
        """Number the sources after those of another sample."""
        first = int(other.sources.max(initial=-1)) + 1 - int(self.sources.min(initial=0))
        return dataclasses.replace(self, sources=self.sources + first)


def sample_of(values: Floats, weights: Floats | None, source: int, rows: Ints) -> Sample:
    return Sample(values, weights, hashes_of(source, rows), np.full(len(rows), source), rows)


def joined(samples: Sequence[Sample], size: int) -> Sample:
    if len(samples) == 1:
        return samples[0].smallest(size)
    hashes = np.concatenate([sample.hashes for sample in samples])
    limit = np.partition(hashes, size - 1)[size - 1] if len(hashes) > size else np.uint64(2**64 - 1)
    subsamples = [sample if len(hashes) <= size else sample.take(sample.hashes <= limit) for sample in samples]
    weights = [sample.weights for sample in subsamples if sample.weights is not None]
    whole = Sample(
        np.concatenate([sample.values for sample in subsamples]),
        np.concatenate(weights) if len(weights) == len(subsamples) else None,
        *(np.concatenate([getattr(sample, name) for sample in subsamples]) for name in ("hashes", "sources", "rows")),
    )
    return _in_order(whole).smallest(size)


def _in_order(sample: Sample) -> Sample:
    order = np.lexsort((sample.rows, sample.sources))
    weights = None if sample.weights is None else sample.weights[order]
    row_ids = (getattr(sample, name)[order] for name in ("hashes", "sources", "rows"))
    return Sample(np.asfortranarray(sample.values[order]), weights, *row_ids)


def without_copies(values: Floats, shares: Floats) -> tuple[Ints, Floats]:
    """Return one row of each set of copies and the sets' shares; all rows if equal rows are not copies.

    The answer does not depend on the order and weights of rows.
    """
    if min(values.shape) < 2:
        return np.arange(len(shares)), shares
    whole, *halves = column_sums_of_hashes(values, _halves(values.shape[1]))
    numbers, sizes = _groups(whole)
    are_repeats = ~_are_values(sizes)[numbers]
    if not _are_copies([hashes[are_repeats] for hashes in (whole, *halves)]):
        return np.arange(len(shares)), shares
    alone = len(sizes) + np.arange(len(numbers))
    _, places, sets = np.unique(np.where(are_repeats, numbers, alone), return_index=True, return_inverse=True)
    return places, np.bincount(sets, shares).astype(np.float64)


def _halves(n_features: int) -> Bools:
    """Return masks of features: all, then halves such that any two features are separated at least once."""
    bits = np.arange((n_features - 1).bit_length())[:, None]
    return np.vstack([np.ones((1, n_features), dtype=bool), (np.arange(n_features) >> bits) & 1 == 0])


def _groups(hashes: Hashes) -> tuple[Ints, Ints]:
    _, numbers, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    return numbers, sizes


def _are_values(sizes: Ints) -> Bools:
    """Return which groups of equal rows are values: the largest ones, each a large part of all repeated rows."""
    order = np.argsort(-sizes, kind="stable")
    repeated = np.where(sizes[order] > 1, sizes[order], 0)
    tail_sums = np.cumsum(repeated[::-1])[::-1]
    are_values = np.empty(len(sizes), dtype=bool)
    are_values[order] = np.logical_and.accumulate(repeated > _LARGEST_SHARE * tail_sums)
    return are_values


def _are_copies(hashes: Sequence[Hashes]) -> bool:
    """Decide from hashes of all features, then of one half for each way of halving."""
    whole, *halves = hashes
    numbers, sizes = _groups(whole)
    n_rows, n_distinct = len(numbers), len(sizes)
    if n_rows - n_distinct <= _FEWEST_COPIES * n_rows or n_rows > _MOST_REPEATS * n_distinct:
        return False
    return all(_agree_like_copies(numbers, sizes, (_groups(half), _groups(whole - half))) for half in halves)


def _agree_like_copies(numbers: Ints, sizes: Ints, halves: Sequence[tuple[Ints, Ints]]) -> bool:
    (rows, n_alike), (_, n_others) = sorted(halves, key=lambda groups: float(_n_pairs(groups[1]).sum()))
    sets = np.empty(len(sizes), dtype=np.int64)  # rows that agree in a half, for each group of equal rows
    sets[numbers] = rows
    if _share_of_copies(sets, sizes) < _LEAST_SHARE:
        return False
    n_pairs, n_equal = _n_pairs(n_alike), np.bincount(sets, _n_pairs(sizes), minlength=len(n_alike))
    n_different = len(numbers) * (len(numbers) - 1) / 2 - n_pairs.sum()
    by_chance = float((_n_pairs(n_others).sum() - n_equal.sum()) / max(n_different, 1.0))
    if _beyond(float(n_equal.sum() / n_pairs.sum()), by_chance) >= _LEAST_AGREEMENT:
        return True
    are_sparse = (n_alike > 1) & (n_alike <= np.quantile(n_alike[n_alike > 1], _SPARSE, method="higher"))
    shares = n_equal[are_sparse] / n_pairs[are_sparse]
    return len(shares) >= _FEWEST_SPARSE and _beyond(float(shares.mean()), by_chance) >= _LEAST_SPARSE_AGREEMENT


def _share_of_copies(sets: Ints, sizes: Ints) -> float:
    """Return the share of copies among pairs of equal rows, if all rows have as many copies as rows alone in a set."""
    are_alone = np.bincount(sets)[sets] == 1
    n_copies = 2 * _n_pairs(sizes[are_alone]).sum() / max(sizes[are_alone].sum(), 1)
    return float(n_copies * sizes.sum() / (2 * _n_pairs(sizes).sum()))


def _n_pairs(sizes: Ints) -> Floats:
    counts = sizes.astype(np.float64)
    return counts * (counts - 1) / 2


def _beyond(share: float, by_chance: float) -> float:
    """Return Cohen's kappa: the share of agreements beyond chance, 1 if all agree."""
    return (share - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


@dataclasses.dataclass(frozen=True, eq=False)
class Quantiles:
    """Quantiles of the finite values of a feature at equal steps from 0 to 1.

    `plain` ignores weights and is empty without finite values. `finite_weight` and `weight` are the weights of the rows
    with a finite value and of all rows.
    """

    plain: Floats
    by_weight: Floats
    n_finite: float
    finite_weight: float
    weight: float

    @classmethod
    def of(cls, column: Floats, weights: Floats | None) -> Quantiles:
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
        quantiles: Floats = np.interp(probabilities, np.linspace(0, 1, len(self.plain)), self.plain)
        return quantiles

    def histogram(self, low: float, high: float, n_bins: int) -> Floats:
        mass = self.finite_weight / self.weight / max(len(self.by_weight), 1)
        return shares_in_intervals(self.by_weight, np.full(len(self.by_weight), mass), low, high, n_bins)

    def scaled(self, factor: float) -> Quantiles:
        return dataclasses.replace(self, finite_weight=self.finite_weight * factor, weight=self.weight * factor)

    def merged(self, other: Quantiles) -> Quantiles:
        return Quantiles(
            _mixture((self.plain, other.plain), (self.n_finite, other.n_finite)),
            _mixture((self.by_weight, other.by_weight), (self.finite_weight, other.finite_weight)),
            self.n_finite + other.n_finite,
            self.finite_weight + other.finite_weight,
            self.weight + other.weight,
        )


def shares_in_intervals(values: Floats, shares: Floats, low: float, high: float, n_bins: int) -> Floats:
    """Return sums of shares in intervals of equal length, the last one with its end.

    numpy's histogram computes the ends of the intervals, and refuses ranges of so few floats that some are equal.
    """
    inside = (values >= low) & (values <= high)
    exponent = -np.frexp(max(abs(low), abs(high)))[1]  # powers of two: nothing is rounded, and no width is infinite
    start, end = np.ldexp([low, high], exponent)
    places = (np.ldexp(values[inside], exponent) - start) * n_bins / ((end - start) or 1.0)
    sums = np.bincount(np.minimum(places, n_bins - 1).astype(int), shares[inside], n_bins)
    return sums.astype(np.float64)


def _mixture(quantiles: tuple[Floats, Floats], masses: tuple[float, float]) -> Floats:
    pairs = [(values, mass) for values, mass in zip(quantiles, masses, strict=True) if len(values)]
    if len(pairs) < 2:
        return pairs[0][0] if pairs else np.empty(0)
    weights = [np.full(len(values), mass / len(values)) for values, mass in pairs]
    return _weighted_quantiles(np.concatenate(quantiles), np.concatenate(weights), max(map(len, quantiles)))


def _weighted_quantiles(values: Floats, weights: Floats, n_quantiles: int) -> Floats:
    """Return quantiles: half of a value's weight lies below it; the smallest and largest value are the ends.

    numpy's weighted quantiles (`method="inverted_cdf"`) are steps and do not interpolate.
    """
    order = np.argsort(values, kind="stable")
    masses = weights[order]
    middles = (np.cumsum(masses) - masses / 2) / masses.sum()
    quantiles: Floats = np.interp(np.linspace(0, 1, n_quantiles), middles, values[order])
    return quantiles
