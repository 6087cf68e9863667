"""Statistics of the rows that define a density: nothing else in a decomposition reads these rows.

Rows in memory are kept and counted again when asked. Batches are read in one pass that counts all tables the
decomposition will need.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, Key, check_unmasked, memo, memo_of
from treeanova.core.progress import listener, one_step
from treeanova.data.columns import encode, without_column
from treeanova.data.dates import dates_of
from treeanova.data.features import Feature, Schema
from treeanova.data.recoding import (
    accept_the_same,
    have_same_categories,
    places_of_features,
    recoded_column,
    unlike_columns,
)
from treeanova.data.sources import batches_of
from treeanova.density import counting
from treeanova.model.grid import Binning, Grid, binning_by, first_unresolved, unmerged
from treeanova.model.rows import Rows

_LARGEST_EXPONENT = 40  # weights from 2**-40 to 2**40 are kept as they are given
_GONE = (
    "must be known for this, got none: a file keeps bins of rows only, and none at all with save(path, rows=False); "
    "use with_density(density, X) first."
)


class NoRowsError(ValueError):
    """An answer needs rows of the density, which are not available."""


class Points(NamedTuple):
    """Rows that represent a density: bins of shape (n_rows, n_features), and weights of sum 1."""

    codes: BinIndices
    weights: Floats


class CountedTable(NamedTuple):
    """A counted table: its coarse bins (None for the bins of the grid), and sums over the rows in each cell."""

    binnings: counting.Binnings | None
    sums: counting.Sums
    scores: Floats | None = None

    def plus(self, other: CountedTable) -> CountedTable:  # of the rows of both
        scores = None if self.scores is None or other.scores is None else self.scores + other.scores
        return CountedTable(self.binnings, self.sums + other.sums, scores)

    def scaled(self, factor: float) -> CountedTable:  # as if all weights of rows were multiplied
        sums: Floats = self.sums.astype(float) * factor
        return CountedTable(self.binnings, sums, None if self.scores is None else self.scores * factor)

    def onto(self, binnings: counting.Binnings | None, sizes: Sequence[int]) -> counting.Sums | None:
        """Return the table over other bins (None: those of the grid, `sizes`); None if its own are not fine enough."""
        if self.binnings is None:
            return counting.pool_table(self.sums, binnings)  # type: ignore[arg-type]
        coarser = [unmerged(size) for size in sizes] if binnings is None else binnings
        pairs = list(zip(self.binnings, coarser, strict=True))
        if not all(fine.refines(coarse) for fine, coarse in pairs):
            return None
        return counting.pool_table(self.sums, [binning_by(coarse.within(fine)) for fine, coarse in pairs])  # type: ignore[arg-type]


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Statistics:
    """Answer what a decomposition asks of weighted rows on a grid.

    Weights of rows have sum 1 in all answers; without weights all rows weigh the same. Features are given by position,
    cells by the bins of the grid or by coarser bins. `a + b` are the statistics of the rows of both.

    Rows are available in one of three ways. Up to 262,144 rows are all in the sample (`is_complete`), and every table
    is counted from it. With more rows, a table that was not counted takes another pass over the `source`; without a
    source it is estimated from the sample if the caller allows that (`is_estimated`), and refused otherwise. Statistics
    from a file (`binned`) have the bins of rows, and of values only what the file keeps.

    Attributes
    ----------
    grid
        The bins.
    totals, has_weights
        Number of rows and sums of their weights, and whether rows came with weights.
    sample
        Rows with the smallest hashes of their numbers: all rows if there are at most 262,144.
    required
        Tables that a decomposition on this grid needs.
    tables
        Tables that were counted, by positions of features.
    features
        Means and ranges of values, by position of the feature, if counted.
    source
        The rows, to be counted again; None if they are all in the sample, or gone.
    binned
        The grid whose bins the sample has, if it comes from a file and has no values; None if it has values.
    spreads
        Quantiles of values that a file keeps, by position of the feature.
    known_excess
        What copies of rows add to the sum of squared shares (`Sample.copied_excess`); None to find it in the sample.
    estimated
        Features of tables estimated from the sample so far, shared with the same rows on other grids.
    origin
        Statistics on the same grid whose rows these are with other weights; None if not a resample.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> statistics = fx.statistics
    >>> statistics.n_rows, statistics.has_weights, (statistics + statistics).n_rows
    (4, False, 8)
    >>> statistics.counts((0, 1)).tolist()
    [[0.25, 0.25], [0.25, 0.25]]
    >>> statistics.value_range(0), statistics.quantiles(0, [0.5]).tolist()
    ((0.0, 1.0), [0.5])
    """

    grid: Grid
    totals: counting.RowTotals
    has_weights: bool
    sample: counting.Sample
    required: tuple[counting.Request, ...] = ()
    tables: Mapping[Key, CountedTable] = dataclasses.field(default_factory=dict)
    features: Mapping[int, counting.FeatureTotals] = dataclasses.field(default_factory=dict)
    source: counting.RowSource | None = None
    binned: Grid | None = None
    spreads: Mapping[int, counting.Quantiles] = dataclasses.field(default_factory=dict)
    known_excess: float | None = None
    origin: Statistics | None = None
    estimated: set[Key] = dataclasses.field(default_factory=set)

    def __repr__(self) -> str:
        weighted = "weighted " if self.has_weights else ""
        sampled = "" if self.is_complete else f", {len(self.sample):,} of them sampled"
        return f"Statistics of {self.n_rows:,} {weighted}rows of {len(self.grid.axes)} features{sampled}"

    @property
    def n_rows(self) -> int:
        return self.totals.n_rows

    @property
    def effective_rows(self) -> float:
        """Kish's effective number of rows, 1 / Σ w², copies of a row counted as one row."""
        return self._effective_rows_of(self.totals)

    def _effective_rows_of(self, totals: counting.RowTotals) -> float:
        """Return Kish's effective number of rows with some totals, copies of a row counted as one row."""
        excess = self.copied_excess
        return 1 / (1 / totals.effective_rows + excess) if excess else totals.effective_rows

    @property
    def copied_excess(self) -> float:
        """What copies of rows add to Σ w², the inverse of the effective number of rows."""
        return self.sample.copied_excess if self.known_excess is None else self.known_excess

    @property
    def _has_copies(self) -> bool:
        """Whether the sample has copies of rows; rows with a known excess are taken as they are."""
        return self.known_excess is None and self.sample.copied_excess > 0

    @property
    def is_complete(self) -> bool:
        """Whether the sample holds all rows."""
        return len(self.sample) == self.n_rows

    @property
    def is_estimated(self) -> bool:
        """Whether something was estimated from the sample because the rows cannot be read again."""
        return bool(self.estimated)

    @functools.cached_property
    def bins(self) -> BinIndices:
        """Bins of the rows of the sample, shape (n_rows, n_features)."""
        return self.grid.index(Rows(self.sample.values)) if self.origin is None else self.origin.bins

    def counts(self, key: Key, binnings: counting.Binnings | None = None, *, may_estimate: bool = False) -> Floats:
        """Return the table of shares of rows, axes in the key's order; `may_estimate` allows those of the sample."""
        request = counting.Request(key, counting.none_if_unmerged(binnings))
        sums = self._counted_sums(request)
        if sums is None and not self.is_complete and self.source is not None:
            self.prepare_tables([request])
            sums = self._counted_sums(request)
        if sums is not None:
            return sums / self.totals.weight
        if not self.is_complete:
            self.estimated.add(key)
            if not may_estimate or not len(self.sample):
                names = " and ".join(repr(self.grid.schema.names[j]) for j in key)
                raise ValueError(
                    f"rows must be read again to count {names} together, got rows that are gone, of which the tables "
                    "of the terms are known only; use with_density(density, X) first."
                )
        return self.sampled_counts(key, binnings)

    def sampled_counts(self, key: Key, binnings: counting.Binnings | None = None) -> Floats:
        """Return the table of shares of the rows in the sample."""
        request = counting.Request(key, counting.none_if_unmerged(binnings))
        sums, _ = counting.table_of(self.bins, request, self.grid.sizes, self.sample.weights)
        return sums / self._sampled_totals.weight

    def n_rows_counted(self, key: Key) -> float:
        """Return the effective number of rows behind `counts` of a key: all, or the sample's if it was estimated."""
        return self._effective_rows_of(self._sampled_totals) if key in self.estimated else self.effective_rows

    @functools.cached_property
    def _sampled_totals(self) -> counting.RowTotals:
        return counting.totals_of(len(self.sample), self.sample.weights)

    def _counted_sums(self, request: counting.Request) -> counting.Sums | None:
        """Return sums of rows in cells from a table counted so far; None if none resolves the bins."""
        key, binnings = request
        order = sorted(range(len(key)), key=key.__getitem__)
        if order != list(range(len(key))):
            ascending = counting.Request(tuple(key[i] for i in order), binnings and [binnings[i] for i in order])
            sums = self._counted_sums(ascending)
            return None if sums is None else sums.transpose([order.index(i) for i in range(len(key))])
        counted_later: dict[Key, list[CountedTable]] = memo_of(self, "tables")
        tables = [*counted_later.get(key, ()), *([self.tables[key]] if key in self.tables else [])]
        on_bins = (table.onto(binnings, [self.grid.sizes[j] for j in key]) for table in tables)
        return next((sums for sums in on_bins if sums is not None), None)

    def prepare_tables(self, requests: Sequence[counting.Request]) -> None:
        """Count the requested tables that are not counted yet, in one pass over rows that are not all in the sample."""
        if self.is_complete or self.source is None:
            return
        ascending = (request for request in requests if list(request.key) == sorted(request.key))
        distinct = [counting.Request(key, counting.none_if_unmerged(binnings)) for key, binnings in ascending]
        uncounted = [request for request in distinct if self._counted_sums(request) is None]
        if uncounted:
            counted = self.source.count(counting.Counting(self.grid, uncounted, describes_features=False))
            for request, sums in zip(uncounted, counted.tables.values(), strict=True):
                memo_of(self, "tables").setdefault(request.key, []).append(CountedTable(request.binnings, sums))

    def score_sums(self, key: Key, binnings: counting.Binnings | None = None) -> Floats | None:
        """Return Σ weight · score in each cell over the weight of all rows, outputs last; None if not added up."""
        tables = [table for table in (memo_of(self, "scores").get(key), self.tables.get(key)) if table is not None]
        requested = counting.none_if_unmerged(binnings)
        binnings_and_scores = ((counting.none_if_unmerged(table.binnings), table.scores) for table in tables)
        fitting = (scores for counted, scores in binnings_and_scores if _are_same_binnings(counted, requested))
        scores = next((scores for scores in fitting if scores is not None), None)
        return None if scores is None else scores / self.totals.weight

    def add_scores(self, score: counting.RowScore) -> None:
        """Add up scores in the cells of all required tables, if that takes another pass over the rows."""
        if self.is_complete or self.source is None or any(table.scores is not None for table in self.tables.values()):
            return
        tables = memo_of(self, "scores")
        if not tables:
            to_count = counting.Counting(self.grid, self.required, score=score, describes_features=False)
            tables.update(_counted_tables(self.source.count(to_count)))

    def counted_tables(self, requests: Sequence[counting.Request]) -> dict[Key, CountedTable]:
        """Return those of some tables that can be counted exactly, by positions of features."""
        self.prepare_tables(requests)
        tables: dict[Key, CountedTable] = {}
        for request in requests:
            key, binnings = request
            scores = self.tables[key].scores if key in self.tables else None
            sums = self._counted_sums(counting.Request(key, counting.none_if_unmerged(binnings)))
            if sums is None and self.is_complete:
                sums, _ = counting.table_of(self.bins, request, self.grid.sizes, self.sample.weights)
            if sums is not None:
                fits = scores is not None and scores.shape[:-1] == sums.shape
                tables[key] = CountedTable(binnings, sums, scores if fits else None)
        return tables

    def bin_means(self, j: int, binning: Binning | None = None) -> Floats:
        """Return the mean of the finite values in each bin of a feature; NaN without any."""
        return self._feature_totals(j).means(binning)

    def _feature_totals(self, j: int) -> counting.FeatureTotals:
        """Return masses, sums and range of a feature's values; counted on first use, unless a file has only bins."""
        if j in self.features:
            return self.features[j]
        totals: dict[int, counting.FeatureTotals] = memo_of(self, "features")
        if j not in totals:
            if self.binned is not None:
                raise NoRowsError(f"values of {self.grid.axes[j].name!r} {_GONE}")
            if self.is_complete or self.source is None:
                values, codes = self.sample.values[:, j], self.bins[:, j]
                totals[j] = counting.feature_totals(values, codes, self.sample.weights, self.grid.sizes[j])
            else:
                totals.update(self.source.count(counting.Counting(self.grid)).features)
        return totals[j]

    def value_range(self, j: int) -> tuple[float, float] | None:  # smallest and largest finite value; None without any
        totals = self._feature_totals(j)
        return (totals.low, totals.high) if totals.low <= totals.high else None

    def quantiles(self, j: int, probabilities: Sequence[float]) -> Floats | None:
        """Return quantiles of the finite values of a feature, ignoring weights; None without any."""
        if self.binned is not None:
            return self.spreads[j].at(probabilities)
        column = self.sample.values[:, j]
        finite = column[np.isfinite(column)]
        return np.quantile(finite, probabilities) if len(finite) else None

    def histogram(self, j: int, low: float, high: float, n_bins: int) -> Floats:
        """Return the share of the rows in each of some intervals of equal length; the last includes `high`."""
        if self.binned is not None:
            return self.spreads[j].histogram(low, high, n_bins)
        return counting.shares_in_intervals(self.sample.values[:, j], self.sample.shares, low, high, n_bins)

    def all_feature_totals(self) -> dict[int, counting.FeatureTotals]:
        """Return means and ranges of the values of all features, by position."""
        return {j: self._feature_totals(j) for j in range(len(self.grid.axes))}

    def file_quantiles(self) -> dict[int, counting.Quantiles]:
        """Return the quantiles of each feature's values that a file keeps, by position."""
        if self.binned is not None:
            return dict(self.spreads)
        values, weights = self.sample.values, self.sample.weights
        return {j: counting.Quantiles.of(values[:, j], weights) for j in range(len(self.grid.axes))}

    def rows(self, n_rows: int) -> tuple[Floats, Floats]:
        """Return values and weights of `n_rows` to twice as many rows, or all; copies are one row."""
        self._require_rows()
        places, shares = self.by_content
        step = max(1, len(places) // n_rows)
        weights = shares[::step]
        return self.sample.values[places[::step]], weights / weights.sum()

    @functools.cached_property
    def by_content(self) -> tuple[Ints, Floats]:
        """Positions and shares of the sample's rows, copies as one row, in an order that only contents decide."""
        if self.origin is not None and self.sample.weights is not None:
            places, _ = self.origin.by_content
            return places, self.sample.weights[places]
        if not self._has_copies:
            order = counting.order_of_contents(self.bins, self.sample.values, self.sample.weights)
            return order, self.sample.shares[order]
        places, shares = self.sample.distinct
        order = counting.order_of_contents(self.bins[places], self.sample.values[places], shares)
        return places[order], shares[order]

    @memo
    def points(self) -> Points:
        """Return all rows, ordered by their contents, copies as one row."""
        self._require_rows()
        places, shares = self.by_content
        return Points(self.bins[places], shares)

    def _require_rows(self) -> None:
        if not len(self.sample):
            raise NoRowsError(f"rows {_GONE}")

    @property
    def resampling_factor(self) -> float:
        """Standard errors of all n rows over those of the m rows that `resampled` draws from: √(m / n)."""
        if self.is_complete and not self.known_excess:
            return 1.0
        n_drawn = 1 / np.square(self.by_content[1]).sum()
        return float(np.sqrt(n_drawn / self.effective_rows))

    @property
    def caveat(self) -> str:  # a sentence about copies of rows, or empty
        if not self.copied_excess:
            return ""
        n_rows, n_worth = f"{self.n_rows:,}", f"{self.effective_rows:,.0f}"
        return f"rows repeat: copies of a row count as one, so that {n_rows} are worth {n_worth}"

    def thinned(self, n_rows: int) -> Statistics:
        """Return statistics of at least `n_rows` of the rows, fewer than twice as many."""
        values, weights = self.rows(n_rows)
        are_weighted = self.has_weights or self._has_copies
        thinned = rows_as_statistics(self.grid, values, weights if are_weighted else None)
        return dataclasses.replace(thinned, known_excess=self.known_excess or 0.0)

    def resampled(self, rng: np.random.Generator) -> Statistics:
        """Return a bootstrap resample: as many rows drawn with replacement, copies of a row together, as weights."""
        self._require_rows()
        places, shares = self.by_content
        drawn = rng.multinomial(len(places), np.full(len(places), 1 / len(places))) * shares
        weights = np.zeros(len(self.sample))
        weights[places] = drawn / drawn.sum()
        sample = dataclasses.replace(self.sample, weights=weights)
        totals = counting.totals_of(len(self.sample), weights)
        excess = self.known_excess or 0.0
        return Statistics(self.grid, totals, has_weights=True, sample=sample, known_excess=excess, origin=self)

    def on(self, grid: Grid) -> Statistics:
        """Return statistics of the same rows on another grid; raise NoRowsError if only too coarse bins are known."""
        if grid is self.grid:
            return self
        if not have_same_categories(self.grid.schema, grid.schema):
            return _translated(self, grid, range(len(grid.axes)))
        if self.binned is not None and not self.binned.has_bins_of(grid):
            name = first_unresolved(self.binned, grid)
            if name is not None:
                raise NoRowsError(
                    f"rows must be known by their values for other bins of {name!r}, got their bins only, which is all "
                    "that a file keeps; use with_density(density, X) first."
                )
        if self.grid.has_bins_of(grid):
            return dataclasses.replace(self, grid=grid, origin=None)
        features: dict[int, counting.FeatureTotals] = {}  # of rows from a file, known on coarser bins only
        if self.binned is not None and first_unresolved(self.grid, grid) is None:
            for j, (ours, theirs) in enumerate(zip(self.grid.axes, grid.axes, strict=True)):
                features[j] = self._feature_totals(j).onto(theirs.index(ours.examples()), theirs.size)
        return dataclasses.replace(self, grid=grid, required=(), tables={}, features=features, origin=None)

    def read_by(self, grid: Grid) -> Statistics:
        """Return statistics of the same rows as another model reads them; raise ValueError if it cannot read them."""
        ours, theirs = self.grid.schema, grid.schema
        if ours.features == theirs.features:
            return self.on(grid)
        places = places_of_features(ours, theirs)
        unlike = unlike_columns(ours, theirs, places)
        if unlike:
            raise ValueError(
                f"`X` must be rows where two models read columns in different ways, as "
                f"{', '.join(map(repr, unlike[:5]))}, got statistics; pass the rows themselves."
            )
        is_in_order = places == list(range(len(places)))
        if is_in_order and accept_the_same(ours, theirs) and have_same_categories(ours, theirs):
            return self.on(grid)
        return _translated(self, grid, places)

    def date_columns(self, schema: Schema) -> list[npt.NDArray[np.datetime64] | None]:
        """Return the earliest and the latest date of each feature of a schema, None for columns without dates."""
        features, columns = self.grid.schema.features, []
        for place in places_of_features(self.grid.schema, schema):
            unit, ends = features[place].encoder.date_unit, None
            with contextlib.suppress(NoRowsError):
                ends = self.value_range(place) if unit else None
            columns.append(None if ends is None else dates_of(ends, unit))
        return columns

    def merge(self, other: Statistics) -> Statistics:
        """Return statistics as if the rows of both, those of `other` last, had been counted together."""
        if not self.grid.has_bins_of(other.grid):
            raise ValueError(
                "statistics must have the same bins to be merged, got those of different features or models; count "
                "the rows of both with one model."
            )
        if self.has_weights != other.has_weights:
            raise ValueError(
                "statistics must both have weights of rows to be merged, or none, got one of each; count one again."
            )
        unit = max(self.totals.unit, other.totals.unit)
        required = self.required or other.required
        merged = _merged(*(_with_weights_in_unit(one, unit, required) for one in (self, other)))
        if merged.totals.needs_cut:
            raise ValueError(
                "statistics must have weights of similar size to be merged, got some below "
                f"{counting.NEGLIGIBLE_WEIGHT:g} of the largest; leave the statistics with the small weights out."
            )
        return merged

    def __add__(self, other: Statistics) -> Statistics:
        return self.merge(other) if isinstance(other, Statistics) else NotImplemented


def _translated(statistics: Statistics, grid: Grid, places: Sequence[int]) -> Statistics:
    """Return statistics of the rows as a model with other columns or codes reads them; `places` are of its features."""
    if statistics.binned is not None:
        raise NoRowsError(
            "rows must be known by their values where models order columns or categories differently, or accept other "
            "values, got their bins only, which is all that a file keeps; use with_density(density, X) first."
        )
    olds, news = [statistics.grid.schema.features[place] for place in places], grid.schema.features

    def translated(values: Floats) -> Floats:
        columns = [values[:, place] for place in places]
        return np.stack(list(map(_as_read_by, columns, olds, news)), axis=1)

    sample = dataclasses.replace(statistics.sample, values=np.asfortranarray(translated(statistics.sample.values)))
    source = statistics.source
    if isinstance(source, counting.RowsInMemory):
        source = dataclasses.replace(source, values=np.asfortranarray(translated(source.values)))
    elif source is not None:  # batches are encoded when they are read
        batches = source.batches.for_model(grid.schema, source.batches.selection.weight)
        source = dataclasses.replace(source, batches=batches)
    return Statistics(grid, statistics.totals, statistics.has_weights, sample, source=source)


def _as_read_by(column: Floats, old: Feature, new: Feature) -> Floats:
    """Return encoded values as another model reads them; raise ValueError for those that it refuses or may know."""
    recoded = recoded_column(column, old, new)
    if recoded is None:
        raise NoRowsError(
            f"rows must have categories of {old.name!r} that the model knows, got some that only another model knows; "
            "use with_density(density, X) first."
        )
    labels = [*(old.encoder.labels or ()), "an unseen category"]
    new.check_accepted(recoded, lambda row: labels[int(column[row])])
    return recoded


def _with_weights_in_unit(statistics: Statistics, unit: float, required: Sequence[counting.Request]) -> Statistics:
    """Return statistics whose weights of rows, sums of them and required tables are multiples of another unit."""
    totals, sample = statistics.totals, statistics.sample
    factor = totals.unit / unit
    if factor == 1 or sample.weights is None:
        return statistics
    return dataclasses.replace(
        statistics,
        totals=totals.in_unit(unit),
        sample=dataclasses.replace(sample, weights=sample.weights * factor),
        tables={key: table.scaled(factor) for key, table in statistics.counted_tables(required).items()},
        features={j: feature.scaled(factor) for j, feature in statistics.all_feature_totals().items()},
        source=None,
        spreads={j: spread.scaled(factor) for j, spread in statistics.spreads.items()},
        origin=None,
    )


def _merged(first: Statistics, second: Statistics) -> Statistics:  # of the rows of both, whose weights have one unit
    next_source = int(first.sample.sources.max(initial=-1)) + 1 - int(second.sample.sources.min(initial=0))
    last = dataclasses.replace(second.sample, sources=second.sample.sources + next_source)
    sample = counting.join_samples([first.sample, last], counting.sample_size(len(first.grid.axes)))
    totals = first.totals.merged(second.totals)
    merged = Statistics(first.grid, totals, first.has_weights, sample, first.required or second.required)
    both = first, second
    binned = next((statistics.binned for statistics in both if statistics.binned is not None), None)
    changes: dict[str, Any] = {}  # fields of `merged` that do not follow from the joined sample
    if binned is not None or not merged.is_complete:
        ours, theirs = first.all_feature_totals(), second.all_feature_totals()
        changes["features"] = {j: ours[j].merged(theirs[j]) for j in ours}
    if first.known_excess is not None or second.known_excess is not None:
        shares = [statistics.totals.weight / totals.weight for statistics in both]
        changes["known_excess"] = shares[0] ** 2 * first.copied_excess + shares[1] ** 2 * second.copied_excess
    if binned is not None:
        one, other = (statistics.file_quantiles() for statistics in both)
        changes |= {"binned": binned, "spreads": {j: one[j].merged(other[j]) for j in one}}
    if not merged.is_complete:
        old, new = (statistics.counted_tables(merged.required) for statistics in both)
        same = [key for key in old.keys() & new.keys() if _are_same_binnings(old[key].binnings, new[key].binnings)]
        changes["tables"] = {key: old[key].plus(new[key]) for key in same}
    return dataclasses.replace(merged, **changes)


def _are_same_binnings(first: counting.Binnings | None, second: counting.Binnings | None) -> bool:
    """Whether both merge bins in the same way; None merges none."""
    if first is None or second is None:
        return first is second
    return all(map(Binning.equals, first, second))


def _counted_tables(accumulator: counting.Accumulator) -> dict[Key, CountedTable]:  # by positions of features
    requests = accumulator.counting.tables
    counted = ((requests[i], sums, accumulator.scores.get(i)) for i, sums in accumulator.tables.items())
    return {request.key: CountedTable(request.binnings, sums, scores) for request, sums, scores in counted}


def rows_as_statistics(grid: Grid, values: Floats, weights: Floats | None) -> Statistics:  # of encoded rows in memory
    sample = counting.sample_of(values, weights, 0, np.arange(len(values)))
    return Statistics(grid, counting.totals_of(len(values), weights), weights is not None, sample)


def statistics_from(
    accumulator: counting.Accumulator, required: Sequence[counting.Request], source: counting.RowSource | None
) -> Statistics:
    """Return statistics of the rows that an accumulator has counted; `source` can count them again, if any."""
    asked, totals, sample = accumulator.counting, accumulator.totals, accumulator.sample()
    tables, features = _counted_tables(accumulator), dict(accumulator.features)
    return Statistics(asked.grid, totals, asked.has_weights, sample, tuple(required), tables, features, source)


def check_weighted_rows(X: Any, sample_weight: Any) -> None:
    """Raise ValueError for weights without the rows that they weigh."""
    if X is None and sample_weight is not None:
        raise ValueError(
            f"`sample_weight` must come with the rows that it weighs, got {text_of_weights(sample_weight)} and X=None; "
            "pass `X` too."
        )


def statistics_of(
    X: Any,
    grid: Grid,
    sample_weight: Any = None,
    required: Sequence[counting.Request] = (),
    score: counting.RowScore | None = None,
) -> Statistics:
    """Count user data on a grid, without rows whose weight is at most 1e-12 of the largest."""
    # `X` may be an array, a data frame, what `batches_of` takes, or statistics; `sample_weight` may name a column.
    # `required` are tables that will be asked for; `score` is added up in their cells if rows are not held in memory.
    if isinstance(X, Statistics):
        if sample_weight is not None:
            raise ValueError(
                f"`sample_weight` must weigh rows, got {text_of_weights(sample_weight)} and statistics, whose rows are "
                "counted already; leave it out."
            )
        return dataclasses.replace(X.read_by(grid), required=tuple(required), origin=None, estimated=set())
    batches = batches_of(X)
    if batches is not None:
        if sample_weight is not None and not isinstance(sample_weight, str):
            raise TypeError(
                f"`sample_weight` must be the name of a column where rows are read in batches, got "
                f"{text_of_weights(sample_weight)}; add the weights to the rows as a column."
            )
        columns = batches.for_model(grid.schema, sample_weight)
        return _count_in_batches(counting.RowsInBatches(columns, sample_weight is not None), grid, required, score)
    with one_step(listener(), "bins of the rows"):
        rows, size = _rows_in_memory(X, grid, sample_weight), counting.sample_size(len(grid.axes))
        counted = rows.count(counting.Counting(grid, n_sampled=size, describes_features=False))
        return statistics_from(counted, required, None if len(rows.values) <= size else rows)


def _count_in_batches(
    rows: counting.RowsInBatches, grid: Grid, required: Sequence[counting.Request], score: counting.RowScore | None
) -> Statistics:
    """Return statistics of rows in batches, with all required tables; negligible weights take a second pass."""
    counted = rows.count(counting.Counting(grid, required, counting.sample_size(len(grid.axes)), score=score))
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
            f"`sample_weight` must not have weights below {counting.NEGLIGIBLE_WEIGHT:g} of the largest where rows are "
            f"read once, got {totals.smallest:g} and {totals.largest:g}; leave these rows out."
        )
    cut = dataclasses.replace(rows, least_weight=counting.NEGLIGIBLE_WEIGHT * totals.largest)
    return _count_in_batches(cut, grid, required, score)


def _rows_in_memory(X: Any, grid: Grid, sample_weight: Any) -> counting.RowsInMemory:
    """Return encoded rows with checked weights, without those of negligible weight."""
    if isinstance(sample_weight, str):
        X, sample_weight = without_column(X, sample_weight, grid.schema)
    encoded = encode(X, grid.schema)
    if len(encoded) == 0:
        raise ValueError("`X` must have at least one row, got 0 rows; pass the rows that define the density.")
    if sample_weight is None:
        return counting.RowsInMemory(encoded, None, np.arange(len(encoded)))
    weights = checked_weights(sample_weight, len(encoded))
    exponent = int(np.frexp(weights.max())[1]) - 1  # without a unit, sums of squares could overflow or vanish
    unit = 1.0 if abs(exponent) <= _LARGEST_EXPONENT else float(np.ldexp(1.0, exponent))
    numbers = np.flatnonzero(weights > counting.NEGLIGIBLE_WEIGHT * weights.max())
    return counting.RowsInMemory(np.asfortranarray(encoded[numbers]), weights[numbers] / unit, numbers, unit)


def checked_weights(sample_weight: npt.ArrayLike, n_rows: int) -> Floats:
    """Return weights as given; raise ValueError unless there is one number of at least zero for each row."""
    if isinstance(sample_weight, str):
        raise TypeError(f"`sample_weight` must hold numbers here, got {sample_weight!r}; pass the column itself.")
    check_unmasked("sample_weight", sample_weight)
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


def text_of_weights(sample_weight: Any) -> str:
    shape = np.shape(sample_weight)
    return f"weights of shape {shape}" if shape else repr(sample_weight)
