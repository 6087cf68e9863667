"""Statistics of the rows that define a density: all that a decomposition asks of its rows.

Nothing else reads the rows. A `Statistics` holds what an accumulator has counted: tables of cells, totals of rows and
of features, and a sample of rows.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.data.features import Schema, have_same_categories, recoded_column
from treeanova.density.counting import (
    NEGLIGIBLE_WEIGHT,
    Accumulator,
    Counting,
    FeatureTotals,
    Request,
    RowSource,
    feature_totals,
    joined,
    order_of_contents,
    sample_of,
    sample_size,
    totals_of,
)
from treeanova.density.counts import CountedTable, Counts, Spread, are_same, counted_tables
from treeanova.model.grid import Binning, Grid, first_unresolved


class NoRowsError(ValueError):
    """An answer needs rows of the density, which are not known."""


class Points(NamedTuple):
    """Rows that represent a density.

    Attributes
    ----------
    codes
        Bins, shape (n_rows, n_features).
    weights
        Weights of the rows, of sum 1.
    """

    codes: BinIndices
    weights: Floats


class EncodedRows(NamedTuple):
    """Rows with their values.

    Attributes
    ----------
    values
        Encoded values, shape (n_rows, n_features).
    weights
        Weights of the rows, of sum 1.
    """

    values: Floats
    weights: Floats


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Statistics(Counts):
    """Statistics of weighted rows on a grid.

    Weights of rows have sum 1 in all answers; without weights all rows weigh the same. Features are given by position,
    cells by the bins of the grid or by coarser bins. `a + b` are the statistics of the rows of both.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> fx.statistics.n_rows, fx.statistics.has_weights
    (4, False)
    """

    def __repr__(self) -> str:
        weighted = "weighted " if self.has_weights else ""
        sampled = "" if self.is_complete else f", {len(self.sample):,} of them sampled"
        return f"Statistics of {self.n_rows:,} {weighted}rows of {len(self.grid.axes)} features{sampled}"

    # Values

    def bin_means(self, j: int, binning: Binning | None = None) -> Floats:
        """Mean of the finite values in each bin of a feature.

        Parameters
        ----------
        j
            Position of the feature.
        binning
            A binning of its bins, for means in coarse bins.

        Returns
        -------
        numpy.ndarray
            One mean per bin, NaN where there are no finite values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.bin_means(0).tolist()
        [0.0, 1.0]
        """
        return self._feature(j).means(binning)

    def _feature(self, j: int) -> FeatureTotals:
        if j not in self._features:
            if self.sample_grid is not None:
                raise NoRowsError(f"values of {self.grid.axes[j].name!r} {_GONE}")
            if self.is_complete or self.source is None:
                values, codes = self.sample.values[:, j], self.bins[:, j]
                self._features[j] = feature_totals(values, codes, self.sample.weights, self.grid.sizes[j])
            else:
                self._features.update(self.source.count(Counting(self.grid)).features)
        return self._features[j]

    @functools.cached_property
    def _features(self) -> dict[int, FeatureTotals]:
        return dict(self.features)

    def value_range(self, j: int) -> tuple[float, float] | None:
        """Smallest and largest finite value of a feature.

        Parameters
        ----------
        j
            Position of the feature.

        Returns
        -------
        tuple or None
            None where there are no finite values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.value_range(0)
        (0.0, 1.0)
        """
        known = self._feature(j)
        return (known.low, known.high) if known.low <= known.high else None

    def quantiles(self, j: int, probabilities: Sequence[float]) -> Floats | None:
        """Quantiles of the finite values of a feature, weights ignored.

        Parameters
        ----------
        j
            Position of the feature.
        probabilities
            Shares of the values that lie below the quantiles, from 0 to 1.

        Returns
        -------
        numpy.ndarray or None
            None where there are no finite values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.quantiles(0, [0.0, 0.5, 1.0]).tolist()
        [0.0, 0.5, 1.0]
        """
        if j in self.spreads:
            return self.spreads[j].quantiles(probabilities)
        column = self.sample.values[:, j]
        finite = column[np.isfinite(column)]
        return np.quantile(finite, probabilities) if len(finite) else None

    def histogram(self, j: int, low: float, high: float, n_bins: int) -> Floats:
        """Share of the rows in each of some intervals of equal length.

        Parameters
        ----------
        j
            Position of the feature.
        low
            Lower end of the first interval.
        high
            Upper end of the last interval, which includes it.
        n_bins
            Number of intervals.

        Returns
        -------
        numpy.ndarray
            One share per interval.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.histogram(0, 0.0, 1.5, 3).tolist()
        [0.5, 0.0, 0.5]
        """
        if j in self.spreads:
            return self.spreads[j].histogram(low, high, n_bins)
        column, shares = self.sample.values[:, j], self.sample.shares
        found, _ = np.histogram(column, bins=n_bins, range=(low, high), weights=shares)
        return found

    # Rows

    def rows(self, n_rows: int) -> EncodedRows:
        """Some of the rows, whichever order they came in.

        Parameters
        ----------
        n_rows
            Number of rows wanted.

        Returns
        -------
        EncodedRows
            `n_rows` or more, fewer than twice as many; all rows where there are no more, copies as one row.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> len(fx.density.statistics.rows(2).values)
        2
        """
        self._check_sample()
        places, shares = self._by_content
        step = max(1, len(places) // n_rows)
        weights = shares[::step]
        return EncodedRows(self.sample.values[places[::step]], weights / weights.sum())

    @functools.cached_property
    def _by_content(self) -> tuple[Ints, Floats]:
        """Positions and shares of the rows of the sample without copies, in an order that their contents give."""
        places, shares, excess = self.distinct
        if not excess:
            order = order_of_contents(self.bins, self.sample.values, self.sample.weights)
            return order, shares[order]
        order = order_of_contents(self.bins[places], self.sample.values[places], shares)
        return places[order], shares[order]

    def points(self) -> Points:
        """Bins and weights of all rows, in an order that does not depend on the one in which they came.

        Copies of a row are one row with the weight of all.

        Returns
        -------
        Points
            Bins of shape (n_rows, n_features), and weights of sum 1.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> sorted(fx.density.statistics.points().codes.tolist())
        [[0, 0], [0, 1], [1, 0], [1, 1]]
        """
        self._check_sample()
        return self._points

    @functools.cached_property
    def _points(self) -> Points:
        places, shares = self._by_content
        return Points(self.bins[places], shares)

    def _check_sample(self) -> None:
        if not len(self.sample):
            raise NoRowsError(f"rows {_GONE}")

    def thinned(self, n_rows: int) -> Statistics:
        """Statistics of some of the rows.

        Parameters
        ----------
        n_rows
            Number of rows wanted.

        Returns
        -------
        Statistics
            Of `n_rows` or more, fewer than twice as many; of all rows where there are no more.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.thinned(2).n_rows
        2
        """
        values, weights = self.rows(n_rows)
        are_weighted = self.has_weights or self.distinct.excess > 0
        thinned = rows_as_statistics(self.grid, values, weights if are_weighted else None)
        return dataclasses.replace(thinned, known_excess=self.known_excess or 0.0)

    def on(self, grid: Grid) -> Statistics:
        """Statistics of the same rows on another grid.

        Parameters
        ----------
        grid
            Bins of the same features.

        Returns
        -------
        Statistics
            Statistics on that grid.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.on(fx.grid).n_rows
        4
        """
        if grid is self.grid:
            return self
        if not have_same_categories(self.grid.schema, grid.schema):
            return _recoded(self, grid)
        if self.sample_grid is not None and not self.sample_grid.has_bins_of(grid):
            _check_bins(self.sample_grid, grid)
        if self.grid.has_bins_of(grid):
            return dataclasses.replace(self, grid=grid)
        features = {} if self.sample_grid is None else _features_on(self, grid)
        other = dataclasses.replace(self, grid=grid, required=(), tables={}, features=features)
        other.__dict__.update(
            {name: self.__dict__[name] for name in ("_estimated", "distinct") if name in self.__dict__}
        )
        return other

    def resampled(self, rng: np.random.Generator) -> Statistics:
        """Statistics of as many rows, drawn with replacement (bootstrap): copies of a row together, with its weight.

        Parameters
        ----------
        rng
            Generator of the draws.

        Returns
        -------
        Statistics
            Statistics of the rows drawn.

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.density.statistics.resampled(np.random.default_rng(0)).has_weights
        True
        """
        self._check_sample()
        places, shares = self._by_content
        drawn = rng.multinomial(len(places), np.full(len(places), 1 / len(places))) * shares
        weights = np.zeros(len(self.sample))
        weights[places] = drawn / drawn.sum()
        sample = dataclasses.replace(self.sample, weights=weights)
        totals = totals_of(len(self.sample), weights)
        other = Statistics(self.grid, totals, has_weights=True, sample=sample, known_excess=self.known_excess or 0.0)
        other.__dict__.update(bins=self.bins, _by_content=(places, weights[places]))  # known already
        return other

    @property
    def resampling_factor(self) -> float:
        """Standard errors of all rows over those of the rows that `resampled` draws from: √(m / n)."""
        if self.is_complete and not self.known_excess:
            return 1.0
        n_drawn = 1 / np.square(self._by_content[1]).sum()
        return float(np.sqrt(n_drawn / self.effective_rows))

    @property
    def caveat(self) -> str:
        """That copies of rows count as one row, if there are copies; otherwise empty.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.caveat
        ''
        """
        if not self.copied_excess:
            return ""
        return (
            f"rows repeat: copies of a row count as one, so that {self.n_rows:,} are worth {self.effective_rows:,.0f}"
        )

    # Others made from it

    def merge(self, other: Statistics) -> Statistics:
        """Statistics of the rows of both, such as those of two months.

        Parameters
        ----------
        other
            Statistics of other rows on the same bins.

        Returns
        -------
        Statistics
            As if all rows had been counted together with the weights that were given, those of `other` last.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> (fx.statistics + fx.statistics).n_rows
        8
        """
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
        merged = _merged(_in_unit(self, unit, required), _in_unit(other, unit, required))
        if merged.totals.needs_cut:
            raise ValueError(
                f"statistics must have weights of similar size to be merged, got some below {NEGLIGIBLE_WEIGHT:g} of "
                "the largest; leave the statistics with the small weights out."
            )
        return merged

    def __add__(self, other: Statistics) -> Statistics:
        return self.merge(other) if isinstance(other, Statistics) else NotImplemented

    def described(self) -> dict[int, FeatureTotals]:
        """Means and ranges of the values of all features.

        Returns
        -------
        dict
            Positions of features to what is known of their values.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.described()[0].high
        1.0
        """
        return {j: self._feature(j) for j in range(len(self.grid.axes))}

    def spread(self, j: int) -> Spread:
        """Quantiles of the values of a feature, for a file.

        Parameters
        ----------
        j
            Position of the feature.

        Returns
        -------
        Spread

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.statistics.spread(0).plain.tolist()
        [0.0, 1.0]
        """
        return self.spreads[j] if j in self.spreads else Spread.of(self.sample.values[:, j], self.sample.weights)


_GONE = (
    "must be known for this, got none: a file keeps bins of rows only, and none at all with save(path, rows=False); "
    "use with_density(density, X) first."
)


def _check_bins(known: Grid, required: Grid) -> None:
    """Raise NoRowsError where rows that are known by their bins on one grid have no certain bins on another."""
    name = first_unresolved(known, required)
    if name is not None:
        raise NoRowsError(
            f"rows must be known by their values for other bins of {name!r}, got their bins only, which is all that a "
            "file keeps; use with_density(density, X) first."
        )


def _recoded(statistics: Statistics, grid: Grid) -> Statistics:
    """Statistics on a grid whose features number their categories differently."""
    if statistics.sample_grid is not None:
        raise NoRowsError(
            "rows must be known by their values where categories are numbered differently, got their bins only, which "
            "is all that a file keeps; use with_density(density, X) first."
        )
    recode = functools.partial(_recoded_values, old=statistics.grid.schema, new=grid.schema)
    sample = dataclasses.replace(statistics.sample, values=recode(statistics.sample.values))
    source = None if statistics.source is None else statistics.source.recoded(recode)
    return Statistics(grid, statistics.totals, statistics.has_weights, sample, source=source)


def _recoded_values(values: Floats, old: Schema, new: Schema) -> Floats:
    """Encoded rows of one schema as another encodes them; NoRowsError where that is not certain."""
    recoded = np.empty_like(values, order="F")
    for j, (ours, theirs) in enumerate(zip(old.features, new.features, strict=True)):
        column = recoded_column(values[:, j], ours, theirs)
        if column is None:
            raise NoRowsError(
                f"rows must have categories of {ours.name!r} that the model knows, got some that only another model "
                "knows; use with_density(density, X) first."
            )
        recoded[:, j] = column
    return recoded


def _features_on(statistics: Statistics, grid: Grid) -> dict[int, FeatureTotals]:
    """What is known of values on a grid of coarser bins; nothing on another."""
    if first_unresolved(statistics.grid, grid) is not None:
        return {}
    pairs = enumerate(zip(statistics.grid.axes, grid.axes, strict=True))
    bins = {j: theirs.index(ours.examples()) for j, (ours, theirs) in pairs}
    return {j: totals.onto(bins[j], grid.sizes[j]) for j, totals in statistics.described().items()}


def _in_unit(statistics: Statistics, unit: float, required: Sequence[Request]) -> Statistics:
    """The same statistics with weights as multiples of another unit, and with some tables."""
    totals, sample = statistics.totals, statistics.sample
    factor = totals.unit / unit
    if factor == 1 or sample.weights is None:
        return statistics
    tables = {key: table.scaled(factor) for key, table in statistics.counted(required).items()}
    return dataclasses.replace(
        statistics,
        totals=totals.in_unit(unit),
        sample=dataclasses.replace(sample, weights=sample.weights * factor),
        tables=tables,
        features={j: feature.scaled(factor) for j, feature in statistics.described().items()},
        source=None,
        spreads={j: spread.scaled(factor) for j, spread in statistics.spreads.items()},
    )


def _merged(first: Statistics, second: Statistics) -> Statistics:
    last = second.sample.after(first.sample)
    n_features = len(first.grid.axes)
    sample = joined([first.sample, last], sample_size(n_features))
    totals = first.totals.merged(second.totals)
    merged = Statistics(first.grid, totals, first.has_weights, sample, first.required or second.required)
    grids = [known for known in (first.sample_grid, second.sample_grid) if known is not None]
    changes: dict[str, object] = {"sample_grid": grids[0] if grids else None}
    if grids or not merged.is_complete:
        ours, theirs = first.described(), second.described()
        changes["features"] = {j: ours[j].merged(theirs[j]) for j in ours}
    if first.known_excess is not None or second.known_excess is not None:
        shares = first.totals.weight / totals.weight, second.totals.weight / totals.weight
        changes["known_excess"] = shares[0] ** 2 * first.copied_excess + shares[1] ** 2 * second.copied_excess
    if grids:
        changes["spreads"] = {j: first.spread(j).merged(second.spread(j)) for j in range(n_features)}
    if not merged.is_complete:
        changes["tables"] = _sums_of_both(first.counted(merged.required), second.counted(merged.required))
    return dataclasses.replace(merged, **changes)  # type: ignore[arg-type]


def _sums_of_both(first: Mapping[Key, CountedTable], second: Mapping[Key, CountedTable]) -> dict[Key, CountedTable]:
    """Sums of the tables that both have on the same bins."""
    found: dict[Key, CountedTable] = {}
    for key in first.keys() & second.keys():
        ours, theirs = first[key], second[key]
        if are_same(ours.binnings, theirs.binnings):
            scores = None if ours.scores is None or theirs.scores is None else ours.scores + theirs.scores
            found[key] = CountedTable(ours.binnings, ours.sums + theirs.sums, scores)
    return found


def rows_as_statistics(grid: Grid, values: Floats, weights: Floats | None) -> Statistics:
    """Statistics of encoded rows that are all kept."""
    sample = sample_of(values, weights, 0, np.arange(len(values)))
    return Statistics(grid, totals_of(len(values), weights), weights is not None, sample)


def frozen(accumulator: Accumulator, required: Sequence[Request], source: RowSource | None) -> Statistics:
    """The statistics that an accumulator has counted; `source` for what is asked beyond that."""
    counting = accumulator.counting
    return Statistics(
        counting.grid,
        accumulator.totals,
        counting.has_weights,
        accumulator.sampled.sample(),
        tuple(required),
        counted_tables(accumulator),
        dict(accumulator.features),
        source,
    )
