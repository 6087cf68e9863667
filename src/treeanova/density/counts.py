"""Counts: how many rows fall in the cells of any features, from tables, from a sample, or by another pass over rows.

Where the sample is all rows, as it is up to 262,144 of them, every table is counted from it. Of more rows, tables that
were not counted take another pass; where rows cannot be read again, tables are estimated from the sample if that will
do (`is_estimated`), and refused otherwise.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density.accumulator import (
    Accumulator,
    Counting,
    FeatureTotals,
    Request,
    RowScore,
    RowSource,
    RowTotals,
    Sums,
    table_of,
    totals_of,
)
from treeanova.density.copies import Distinct, all_rows, without_copies
from treeanova.density.pooling import Binnings, merging, pool_table
from treeanova.density.sample import Sample
from treeanova.density.spreads import Spread
from treeanova.model.binning import Binning, binning_by, unmerged
from treeanova.model.grid import Grid


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
        wanted = [unmerged(size) for size in sizes] if binnings is None else binnings
        pairs = list(zip(self.binnings, wanted, strict=True))
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
    wanted
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
    wanted: tuple[Request, ...] = ()
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
            counting = Counting(self.grid, self.wanted, score=score, describes_features=False)
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
        >>> from treeanova.density.accumulator import Request
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
