"""Counts of rows in the cells of any features, quantiles of values, and which rows are copies of others.

Where the sample is all rows, as it is up to 262,144 of them, every table is counted from it. Of more rows, tables that
were not counted take another pass; where rows cannot be read again, tables are estimated from the sample if that will
do (`is_estimated`), and refused otherwise.

Bootstrap resamples, oversampled classes and joins repeat whole rows. A copy is no new evidence: it agrees with the row
that it was copied from, whatever the density. Rows of discrete features repeat too, and there each row is evidence of
its own. Where rows are copies, most rows that agree in one half of the features agree in the other half too, also rows
in sparse regions; where features are discrete, the other half mostly differs. So equal rows are copies if that is so,
beyond chance, for every way of halving the features that is tried. The numbers of this module were set by
`python -m benchmarks copies`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key
from treeanova.density.counting import (
    Accumulator,
    Binnings,
    Counting,
    FeatureTotals,
    Hashes,
    Request,
    RowScore,
    RowSource,
    RowTotals,
    Sample,
    Sums,
    column_sums_of_hashes,
    merging,
    pool_table,
    table_of,
    totals_of,
)
from treeanova.model.grid import Binning, Grid, binning_by, unmerged

_FEWEST_COPIES = 0.005  # of all rows: fewer change no choice
_LARGEST_SHARE = 0.2  # of all repeated rows: a row with more of them is a value, such as zero in all features
_MOST_REPEATS = 10  # on average: a table whose rows repeat more often is discrete
_LEAST_AGREEMENT = 0.25  # of pairs of rows that agree in half of the features, beyond chance
_LEAST_SPARSE_AGREEMENT = 0.5  # the same in sparse regions, where few rows agree by chance
_SPARSE = 0.1  # of all sets of rows that agree in half of the features: those of fewest rows
_FEWEST_SPARSE = 10
_LEAST_SHARE = 0.5  # of copies among pairs of equal rows: with fewer, chance outweighs copies, which do no harm


class Distinct(NamedTuple):
    """Rows without their copies.

    Attributes
    ----------
    places
        Position of one row of each set of copies; a row without copies is a set of its own.
    shares
        Weight of each set, of sum 1.
    excess
        Sum of the products of the shares of two rows over all pairs of copies, each pair twice. The effective number of
        rows is 1 / (Σ share² + excess); a random sample of the rows has the same excess, but for chance.
    """

    places: Ints
    shares: Floats
    excess: float


def all_rows(values: Floats, shares: Floats) -> Distinct:
    """All rows, given by encoded values and shares of the weight."""
    return Distinct(np.arange(len(values)), shares, 0.0)


def without_copies(values: Floats, shares: Floats) -> Distinct:
    """Rows without copies; all of them where equal rows are no copies, or hardly any.

    Of each set of copies, one row stays. What is a copy does not depend on the order of the rows or on their weights.
    """
    if min(values.shape) < 2:
        return all_rows(values, shares)
    whole, *halves = column_sums_of_hashes(values, _halves(values.shape[1]))
    numbers, sizes = _groups(whole)
    are_repeats = ~_are_values(sizes)[numbers]
    if not _are_copies([hashes[are_repeats] for hashes in (whole, *halves)]):
        return all_rows(values, shares)
    alone = len(sizes) + np.arange(len(numbers))
    _, places, sets = np.unique(np.where(are_repeats, numbers, alone), return_index=True, return_inverse=True)
    masses = np.bincount(sets, shares).astype(np.float64)
    return Distinct(places, masses, float(np.square(masses).sum() - np.square(shares).sum()))


def _halves(n_features: int) -> Bools:
    """Which features are summed up: all, then halves such that any two features are in different halves once."""
    bits = np.arange((n_features - 1).bit_length())[:, None]
    return np.vstack([np.ones((1, n_features), dtype=bool), (np.arange(n_features) >> bits) & 1 == 0])


def _groups(hashes: Hashes) -> tuple[Ints, Ints]:
    """Number of the group of equal rows that each row is in, and the size of each group."""
    _, numbers, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    return numbers, sizes


def _are_values(sizes: Ints) -> Bools:
    """Whether groups of equal rows are values: the largest, as long as each is a large part of the rows that repeat."""
    order = np.argsort(-sizes, kind="stable")
    repeated = np.where(sizes[order] > 1, sizes[order], 0)
    rest = np.cumsum(repeated[::-1])[::-1]
    are_values = np.empty(len(sizes), dtype=bool)
    are_values[order] = np.logical_and.accumulate(repeated > _LARGEST_SHARE * rest)
    return are_values


def _are_copies(hashes: Sequence[Hashes]) -> bool:
    """Whether equal rows are copies, from hashes of all features and of one half of them, for each way of halving."""
    whole, *halves = hashes
    numbers, sizes = _groups(whole)
    n_rows, n_distinct = len(numbers), len(sizes)
    if n_rows - n_distinct <= _FEWEST_COPIES * n_rows or n_rows > _MOST_REPEATS * n_distinct:
        return False
    return all(_agree_like_copies(numbers, sizes, (_groups(half), _groups(whole - half))) for half in halves)


def _agree_like_copies(numbers: Ints, sizes: Ints, halves: Sequence[tuple[Ints, Ints]]) -> bool:
    """Whether rows that agree in one half of the features agree in the other, and mostly as copies do."""
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
    """Share of copies among pairs of equal rows, if all rows have as many copies as rows that are alone in a set."""
    are_alone = np.bincount(sets)[sets] == 1
    n_copies = 2 * _n_pairs(sizes[are_alone]).sum() / max(sizes[are_alone].sum(), 1)
    return float(n_copies * sizes.sum() / (2 * _n_pairs(sizes).sum()))


def _n_pairs(sizes: Ints) -> Floats:
    """Number of pairs of rows in each group."""
    counts = sizes.astype(np.float64)
    return counts * (counts - 1) / 2


def _beyond(share: float, by_chance: float) -> float:
    """A share of agreements beyond chance, 1 for agreement of all (Cohen's kappa)."""
    return (share - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0


N_QUANTILES = 513


@dataclasses.dataclass(frozen=True, eq=False)
class Spread:
    """Quantiles of the finite values of a feature at equal distances from 0 to 1.

    Attributes
    ----------
    plain
        Quantiles with all rows weighing the same; empty where there are no finite values.
    by_weight
        Quantiles by weight.
    n_finite
        Number of finite values.
    finite_weight, weight
        Weight of the rows that have a finite value, and of all rows.
    """

    plain: Floats
    by_weight: Floats
    n_finite: float
    finite_weight: float
    weight: float

    @classmethod
    def of(cls, column: Floats, weights: Floats | None) -> Spread:
        """The spread of a column."""
        finite = np.isfinite(column)
        values, n_finite = column[finite], float(finite.sum())
        shares = np.linspace(0, 1, _n_quantiles(len(values)))
        plain = np.quantile(values, shares) if len(values) else np.empty(0)
        if weights is None:
            return cls(plain, plain, n_finite, n_finite, float(len(column)))
        by_weight = _quantiles(values, weights[finite], len(plain)) if len(values) else plain
        return cls(plain, by_weight, n_finite, float(weights[finite].sum()), float(weights.sum()))

    def quantiles(self, probabilities: Sequence[float]) -> Floats | None:
        """Quantiles, weights ignored; None where there are no finite values."""
        if not len(self.plain):
            return None
        found: Floats = np.interp(probabilities, np.linspace(0, 1, len(self.plain)), self.plain)
        return found

    def histogram(self, low: float, high: float, n_bins: int) -> Floats:
        """Share of the rows in each of some intervals of equal length; each quantile has the same mass."""
        n_quantiles = max(len(self.by_weight), 1)
        masses = np.full(len(self.by_weight), self.finite_weight / self.weight / n_quantiles)
        found, _ = np.histogram(self.by_weight, n_bins, (low, high), weights=masses)
        return found

    def scaled(self, factor: float) -> Spread:
        """The same with all weights multiplied by a factor."""
        return dataclasses.replace(self, finite_weight=self.finite_weight * factor, weight=self.weight * factor)

    def merged(self, other: Spread) -> Spread:
        """The spread of the values of both."""
        return Spread(
            _mixed((self.plain, other.plain), (self.n_finite, other.n_finite)),
            _mixed((self.by_weight, other.by_weight), (self.finite_weight, other.finite_weight)),
            self.n_finite + other.n_finite,
            self.finite_weight + other.finite_weight,
            self.weight + other.weight,
        )


def _mixed(quantiles: tuple[Floats, Floats], masses: tuple[float, float]) -> Floats:
    pairs = [(values, mass) for values, mass in zip(quantiles, masses, strict=True) if len(values)]
    if len(pairs) < 2:
        return pairs[0][0] if pairs else np.empty(0)
    weights = [np.full(len(values), mass / len(values)) for values, mass in pairs]
    return _quantiles(np.concatenate(quantiles), np.concatenate(weights), max(map(len, quantiles)))


def _n_quantiles(n_values: int) -> int:
    """One for ten values, so that they do not tell all of them."""
    return min(N_QUANTILES, 2 + n_values // 10)


def _quantiles(values: Floats, weights: Floats, n_quantiles: int) -> Floats:
    """Quantiles by weight: half of a value's weight lies below it; the smallest and largest value are the ends."""
    order = np.argsort(values, kind="stable")
    masses = weights[order]
    middles = (np.cumsum(masses) - masses / 2) / masses.sum()
    found: Floats = np.interp(np.linspace(0, 1, n_quantiles), middles, values[order])
    return found


class CountedTable(NamedTuple):
    """A table that was counted: its coarse bins (None for the bins of the grid), and sums over rows in each cell."""

    binnings: Binnings | None
    sums: Sums
    scores: Floats | None = None

    def scaled(self, factor: float) -> CountedTable:
        """The same with all weights multiplied by a factor."""
        sums: Floats = self.sums.astype(float) * factor
        return CountedTable(self.binnings, sums, None if self.scores is None else self.scores * factor)

    def onto(self, binnings: Binnings | None, sizes: Sequence[int]) -> Sums | None:
        """Sums over other bins; None where these are not unions of the bins of the table."""
        if self.binnings is None:
            return pool_table(self.sums, binnings)  # type: ignore[arg-type]
        required = [unmerged(size) for size in sizes] if binnings is None else binnings
        pairs = list(zip(self.binnings, required, strict=True))
        if not all(fine.refines(coarse) for fine, coarse in pairs):
            return None
        return pool_table(self.sums, [binning_by(coarse.within(fine)) for fine, coarse in pairs])  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Counts:
    """Tables of weighted rows on a grid, and what they are counted from.

    Attributes
    ----------
    grid
        The bins.
    totals
        Number of rows, and sums of their weights.
    has_weights
        Whether rows came with weights.
    sample
        Rows with the smallest hashes of their numbers: all rows where there are no more than 262,144.
    required
        Tables that a decomposition on this grid needs.
    tables
        Tables that were counted, by positions of features.
    features
        Means and ranges of values, by position of the feature, where they were counted.
    source
        The rows, to be counted again; None where they are all in the sample, or gone.
    spreads
        Quantiles of values, where the sample has bins only.
    sample_grid
        The grid on which the sample has bins only; None where it has values.
    known_excess
        What copies of rows add to the sum of squared shares (`Distinct.excess`); None to find it in the sample.
    """

    grid: Grid
    totals: RowTotals
    has_weights: bool
    sample: Sample
    required: tuple[Request, ...] = ()
    tables: Mapping[Key, CountedTable] = dataclasses.field(default_factory=dict)
    features: Mapping[int, FeatureTotals] = dataclasses.field(default_factory=dict)
    source: RowSource | None = None
    spreads: Mapping[int, Spread] = dataclasses.field(default_factory=dict)
    sample_grid: Grid | None = None
    known_excess: float | None = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self.totals.n_rows

    @property
    def effective_rows(self) -> float:
        """Kish's effective number of rows, 1 / Σ w², copies of a row counted as one row."""
        return self._without_excess(self.totals)

    def _without_excess(self, totals: RowTotals) -> float:
        excess = self.copied_excess
        return 1 / (1 / totals.effective_rows + excess) if excess else totals.effective_rows

    @property
    def copied_excess(self) -> float:
        """What copies of rows add to Σ w², the inverse of the effective number of rows."""
        return self.distinct.excess if self.known_excess is None else self.known_excess

    @functools.cached_property
    def distinct(self) -> Distinct:
        """The rows of the sample without copies, as far as these have to be found."""
        find = without_copies if self.known_excess is None else all_rows
        return find(self.sample.values, self.sample.shares)

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds all rows."""
        return len(self.sample) == self.n_rows

    @property
    def is_one_cell(self) -> bool:
        """Whether all rows are in one cell of the grid."""
        return self.is_complete and bool((self.bins == self.bins[:1]).all())

    @property
    def is_estimated(self) -> bool:
        """Whether something that needs all rows was estimated from the sample, because they cannot be read again."""
        return bool(self._estimated)

    @functools.cached_property
    def _estimated(self) -> set[Key]:
        return set()

    @functools.cached_property
    def bins(self) -> BinIndices:
        """Bins of the rows of the sample, shape (n_rows, n_features)."""
        return self.grid.index_encoded(self.sample.values)

    def counts(self, key: Key, binnings: Binnings | None = None, *, may_estimate: bool = False) -> Floats:
        """Share of the rows in each cell of some features.

        Parameters
        ----------
        key
            Positions of the features.
        binnings
            One binning per feature, to count in its coarse bins; None for the bins of the grid.
        may_estimate
            Whether the shares of the sample will do where rows cannot be counted again.

        Returns
        -------
        numpy.ndarray
            One axis per feature, in the order of the key; of sum 1.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.counts((0, 1)).tolist()
        [[0.25, 0.25], [0.25, 0.25]]
        """
        request = Request(key, merging(binnings))
        sums = self._known(request)
        if sums is None and not self.is_complete and self.source is not None:
            self.prepare([request])
            sums = self._known(request)
        if sums is not None:
            return sums / self.totals.weight
        if not self.is_complete:
            self._check_estimate(key, is_allowed=may_estimate and len(self.sample) > 0)
        return self.sampled_counts(key, binnings)

    def sampled_counts(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Share of the rows of the sample in each cell of some features.

        Parameters
        ----------
        key, binnings
            As for `counts`.

        Returns
        -------
        numpy.ndarray
            One axis per feature, of sum 1.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.sampled_counts((0,)).tolist()
        [0.5, 0.5]
        """
        sums, _ = table_of(self.bins, Request(key, merging(binnings)), self.grid.sizes, self.sample.weights)
        return sums / self._sampled_totals.weight

    def rows_counted(self, key: Key) -> float:
        """Effective number of the rows that `counts` counts: all, or those of the sample where it estimates.

        Parameters
        ----------
        key
            Positions of the features.

        Returns
        -------
        float

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.rows_counted((0, 1))
        4.0
        """
        return self._without_excess(self._sampled_totals) if key in self._estimated else self.effective_rows

    def _check_estimate(self, key: Key, *, is_allowed: bool) -> None:
        self._estimated.add(key)
        if not is_allowed:
            names = " and ".join(repr(self.grid.schema.names[j]) for j in key)
            raise ValueError(
                f"rows must be read again to count {names} together, got rows that are gone, of which the tables of "
                "the terms are known only; use with_density(density, X) first."
            )

    @functools.cached_property
    def _sampled_totals(self) -> RowTotals:
        return totals_of(len(self.sample), self.sample.weights)

    def _known(self, request: Request) -> Sums | None:
        """Sums over the cells of a table that were counted, or follow from such; None where there are none."""
        key, binnings = request
        if list(key) != sorted(key):
            return self._known_transposed(request)
        known = [*self._passed.get(key, ()), *([self.tables[key]] if key in self.tables else [])]
        found = (table.onto(binnings, [self.grid.sizes[j] for j in key]) for table in known)
        return next((sums for sums in found if sums is not None), None)

    def _known_transposed(self, request: Request) -> Sums | None:
        """The same for features that are not in their order."""
        key, binnings = request
        order = sorted(range(len(key)), key=key.__getitem__)
        ascending = Request(tuple(key[i] for i in order), None if binnings is None else [binnings[i] for i in order])
        sums = self._known(ascending)
        return None if sums is None else sums.transpose([order.index(i) for i in range(len(key))])

    @functools.cached_property
    def _passed(self) -> dict[Key, list[CountedTable]]:
        """Tables of later passes over the rows."""
        return {}

    def prepare(self, requests: Sequence[Request]) -> None:
        """Count tables in one pass over the rows, where they cannot be had otherwise.

        Parameters
        ----------
        requests
            The tables.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.prepare([])
        """
        if self.is_complete or self.source is None:
            return
        ascending = [Request(key, merging(binnings)) for key, binnings in requests if list(key) == sorted(key)]
        unknown = [request for request in ascending if self._known(request) is None]
        if unknown:
            counted = self.source.count(Counting(self.grid, unknown, describes_features=False))
            for request, table in zip(unknown, counted.tables.values(), strict=True):
                self._passed.setdefault(request.key, []).append(CountedTable(request.binnings, table.sums))

    def score_sums(self, key: Key, binnings: Binnings | None = None) -> Floats | None:
        """Sums of weight times score over the rows in each cell of a term, relative to the weight of all rows.

        Parameters
        ----------
        key
            Positions of the features.
        binnings
            The bins of the term, one binning per feature; None for the bins of the grid.

        Returns
        -------
        numpy.ndarray or None
            One axis per feature, outputs last; None where scores were not added up on these bins.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.score_sums((0, 1)) is None
        True
        """
        known = [table for table in (self._scored.get(key), self.tables.get(key)) if table is not None]
        fitting = (table.scores for table in known if are_same(merging(table.binnings), merging(binnings)))
        scores = next((scores for scores in fitting if scores is not None), None)
        return None if scores is None else scores / self.totals.weight

    @functools.cached_property
    def _scored(self) -> dict[Key, CountedTable]:
        """Tables with scores of a later pass over the rows."""
        return {}

    def add_scores(self, score: RowScore) -> None:
        """Add up scores in the cells of all tables that are wanted, where that takes another pass over the rows.

        Parameters
        ----------
        score
            Score of rows given by encoded values and bins.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.add_scores(fx.source.row_score)
        """
        if self.is_complete or self.source is None or any(table.scores is not None for table in self.tables.values()):
            return
        if not self._scored:
            counting = Counting(self.grid, self.required, score=score, describes_features=False)
            self._scored.update(counted_tables(self.source.count(counting)))

    def counted(self, requests: Sequence[Request]) -> dict[Key, CountedTable]:
        """Tables, counted as far as rows can be counted.

        Parameters
        ----------
        requests
            The tables wanted, one for a set of features.

        Returns
        -------
        dict
            Positions of features to their table.

        Examples
        --------
        >>> from treeanova.density.counting import Request
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.counted([Request((0, 1))])[0, 1].sums.tolist()
        [[1, 1], [1, 1]]
        """
        self.prepare(requests)
        found: dict[Key, CountedTable] = {}
        for request in requests:
            key, binnings = request
            scores = self.tables[key].scores if key in self.tables else None
            sums = self._known(Request(key, merging(binnings)))
            if sums is None and self.is_complete:
                sums, _ = table_of(self.bins, request, self.grid.sizes, self.sample.weights)
            if sums is not None:
                fits = scores is not None and scores.shape[:-1] == sums.shape
                found[key] = CountedTable(binnings, sums, scores if fits else None)
        return found


def are_same(first: Binnings | None, second: Binnings | None) -> bool:
    """Whether two tables have the same bins; None stands for those of the grid."""
    if first is None or second is None:
        return first is second
    return all(map(Binning.equals, first, second))


def counted_tables(accumulator: Accumulator) -> dict[Key, CountedTable]:
    """The tables of an accumulator, by positions of features."""
    found: dict[Key, CountedTable] = {}
    for number, table in accumulator.tables.items():
        request, scores = accumulator.counting.tables[number], accumulator.scores.get(number)
        found[request.key] = CountedTable(request.binnings, table.sums, None if scores is None else scores.sums)
    return found
