"""Terms on coarse cells: means of the forest given the coarse bins of some features, for independent features.

One table of means holds all terms of subsets of its features: averaging over the other axes and centring along its own
gives a term. So the leaves are read once per table, and cells can be merged further.

A leaf reaches few coarse bins of the features on its path, and all bins of the others. Each axis therefore has one
extra place for "all bins", which is added to the bins at the end, and a leaf adds to few cells.
"""

from __future__ import annotations

import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.anova.cascade import keys_below
from treeanova.core.arrays import Bools, Floats, Ints, Key, memo
from treeanova.core.compiled import Kernel
from treeanova.core.progress import Progress, quiet, steps
from treeanova.core.threads import thread_map
from treeanova.model.grid import Binning, binning_by, equal_mass
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm, outer_sum
from treeanova.terms.leaves import FlatLeaves, Intervals, LeafSets


class CoarseAxes(NamedTuple):  # of a table, as flat arrays for compiled code
    axis: Ints  # axis of each feature of the model; -1 for those that the table does not have
    size: Ints  # number of coarse bins of each axis
    first: Ints  # where each axis begins in the arrays below
    n_bins: Ints  # number of bins of each axis before they are merged
    ends: Floats  # ends of these bins in units of coarse bins, for features with intervals
    # bins, shares: coarse bin of each bin, and the share of the coarse bin that it holds
    bins: Ints
    shares: Floats


def coarse_axes(leaf_sets: LeafSets, features: Key, binnings: Sequence[Binning]) -> CoarseAxes:
    """Return the axes of a table over coarse bins of some features; `binnings` has one for each of these."""
    axis = np.full(len(leaf_sets.sets), -1, dtype=np.int64)
    axis[list(features)] = np.arange(len(features))
    n_bins = np.array([len(binning.bins) for binning in binnings], dtype=np.int64)
    ends = np.zeros(int((n_bins + 1).sum()))
    bins, shares = np.zeros(len(ends), dtype=np.int64), np.zeros(len(ends))
    first = np.cumsum([0, *(n_bins[:-1] + 1)])
    for j, start, binning in zip(features, first, binnings, strict=True):
        sets, end = leaf_sets.sets[j], start + len(binning.bins)
        bins[start:end], shares[start:end] = binning.bins, binning.shares
        if isinstance(sets, Intervals):
            ends[start : start + sets.n_intervals + 1] = sets.merged_ends(binning)
    size = np.array([binning.size for binning in binnings], dtype=np.int64)
    return CoarseAxes(axis, size, first, n_bins, ends, bins, shares)


def mean_on_cells(leaves: Ints, values: Floats, flat: FlatLeaves, axes: CoarseAxes) -> Floats:
    """Return the part of some leaves in the forest's mean given the coarse cell; one axis per feature, outputs last."""
    # A leaf adds its value times the share of the cell that it reaches times the masses of its sets without an axis.
    total = add_boxes(leaves, values, flat, axes).reshape(*(axes.size + 1), -1)
    for axis, size in enumerate(axes.size):
        bins, everywhere = np.split(total, [size], axis=axis)  # the last place of an axis counts for all bins
        total = bins + everywhere
    return np.asarray(total)


@Kernel
def fill_from_interval(reached: Ints, shares: Floats, ends: tuple[float, float], missing: tuple[int, float]) -> int:
    """Fill `reached` with the coarse bins that an interval reaches, `shares` with its shares of them; return n."""
    # `ends` are in units of coarse bins; `missing` is the coarse bin of missing values and its share, 0 if not in it.
    n_reached, coarse_bin = 0, int(ends[0])
    while coarse_bin < ends[1]:
        share = min(ends[1], coarse_bin + 1.0) - max(ends[0], float(coarse_bin))
        if share > 0.0:
            reached[n_reached], shares[n_reached] = coarse_bin, share
            n_reached += 1
        coarse_bin += 1
    if missing[1] > 0.0:
        if n_reached > 0 and reached[n_reached - 1] == missing[0]:
            n_reached -= 1
            shares[n_reached] += missing[1]
        else:
            reached[n_reached], shares[n_reached] = missing
        n_reached += 1
    return n_reached


@Kernel
def fill_from_table(reached: Ints, shares: Floats, is_inside: Bools, bins: Ints, bin_shares: Floats) -> int:
    """Fill `reached` with all coarse bins up to the last of a set, `shares` with the set's shares of them; return n."""
    # Per fine bin: whether it is in the set, its coarse bin, and its share of that.
    n_reached = 0
    for fine_bin in range(len(is_inside)):
        if is_inside[fine_bin]:
            while n_reached <= bins[fine_bin]:
                reached[n_reached], shares[n_reached] = n_reached, 0.0
                n_reached += 1
            shares[bins[fine_bin]] += bin_shares[fine_bin]
    return n_reached


@Kernel
def add_boxes(leaves: Ints, values: Floats, flat: FlatLeaves, axes: CoarseAxes) -> Floats:
    """Sum leaves' values times shares in coarse cells: (n_cells, n_outputs); the last place of axes is "all bins"."""
    # Per leaf, `places` are the flat cells that it reaches and `weights` its shares of them: each feature on its path
    # replaces "all bins" of its axis by the coarse bins that the leaf reaches; without an axis it gives a factor.
    starts, feature, low, high, missing_from, mass, has_table, table = flat
    axis_of, sizes, firsts, n_bins, ends, bins, bin_shares = axes
    n_outputs, most_bins = values.shape[1], sizes.max() + 1
    stride = np.ones(len(sizes), np.int64)
    for axis in range(len(sizes) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * (sizes[axis + 1] + 1)
    n_cells, everywhere = stride[0] * (sizes[0] + 1), (stride * sizes).sum()
    total = np.zeros((n_cells, n_outputs))
    reached, shares = np.empty(most_bins, np.int64), np.empty(most_bins)
    places, weights = np.empty(n_cells, np.int64), np.empty(n_cells)
    for leaf in leaves:
        places[0], weights[0], n_places, factor = everywhere, 1.0, 1, 1.0
        for entry in range(starts[leaf], starts[leaf + 1]):
            axis, begin = axis_of[feature[entry]], low[entry]
            if axis < 0:
                factor *= mass[entry]
                continue
            first, last = firsts[axis], firsts[axis] + n_bins[axis] - 1
            if has_table[feature[entry]]:
                is_inside = table[begin : begin + n_bins[axis]]
                axis_shares = bin_shares[first : last + 1]
                n_new = fill_from_table(reached, shares, is_inside, bins[first : last + 1], axis_shares)
            else:
                interval = ends[first + begin], ends[first + max(begin, high[entry])]
                missing = bins[last], bin_shares[last] if missing_from[entry] < n_bins[axis] else 0.0
                n_new = fill_from_interval(reached, shares, interval, missing)
            for old in range(n_places - 1, -1, -1):
                place, weight = places[old] - sizes[axis] * stride[axis], weights[old]
                for i in range(n_new):
                    places[old * n_new + i] = place + reached[i] * stride[axis]
                    weights[old * n_new + i] = weight * shares[i]
            n_places *= n_new
        for i in range(n_places):
            for output in range(n_outputs):
                total[places[i], output] += values[leaf, output] * factor * weights[i]
    return total


def coarse_binnings(form: ClosedForm) -> tuple[Binning, ...]:
    """Return, per feature, bins merged to a few of about equal mass."""
    pairs = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    return tuple(equal_mass(axis, masses, costs.COARSE_BINS) for axis, masses in pairs)


@dataclasses.dataclass(frozen=True, eq=False)
class CoarseMeans:
    """Means of the forest given the coarse bins of some features, from which terms on coarse cells follow."""

    form: ClosedForm  # the terms at full resolution
    binnings: tuple[Binning, ...]  # coarse bins of each feature, merged two by two for the limit of an order
    bins: Mapping[int, int]  # limit of bins per feature for terms of each order
    tables: Mapping[tuple[int, Key], Floats]  # means by the limit of bins and the features of a table; outputs last

    def term(self, key: Key, limit: int) -> Floats:
        """Return a term on cells with at most `limit` bins per feature (no finer than the tables); outputs last."""
        table_limit = self.bins[len(key)]
        values = self._finest_term(key, table_limit)
        for axis, j in enumerate(key):
            values = self._coarser_binning(j, table_limit, limit).average(values, axis)
        return values

    def _finest_term(self, key: Key, limit: int) -> Floats:
        """Return a term on cells with `limit` bins: a table averaged over other features, centred along its own."""
        features = self._smallest_table(limit, key)
        values = self.tables[limit, features]
        for axis in reversed(range(len(features))):
            masses, before, after = self._masses(features[axis], limit), values.shape[:axis], values.shape[axis + 1 :]
            flat = values.reshape(math.prod(before), len(masses), math.prod(after))
            mean = np.matmul(masses, flat).reshape(before + after)  # numpy.tensordot is slow on small arrays
            values = values - np.expand_dims(mean, axis) if features[axis] in key else mean
        return values

    @memo
    def _smallest_table(self, limit: int, key: Key) -> Key:
        """Return the features of the smallest table with a limit of bins that has all features of a key."""
        return min((table for bins, table in self.tables if bins == limit and set(key) <= set(table)), key=len)

    @memo
    def _masses(self, feature: int, limit: int) -> Floats:  # of a feature's bins, merged to at most `limit`
        masses = np.bincount(self.binnings[feature].coarser(limit), self.form.masses[feature])
        return masses.astype(np.float64)

    @memo
    def _coarser_binning(self, feature: int, limit: int, coarser: int) -> Binning:
        """Return the binning that merges a feature's at most `limit` coarse bins to at most `coarser`."""
        binning = self.binnings[feature]
        fine, coarse = binning.coarser(limit), binning.coarser(coarser)
        shares = np.bincount(fine, binning_by(coarse, self.form.masses[feature]).shares).astype(np.float64)
        n_halvings = binning.shift(coarser) - binning.shift(limit)  # bins are merged two by two
        inside = np.arange(len(shares)) >> n_halvings
        return Binning(inside, shares, int(inside[-1]) + 1)


def coarse_means(
    form: ClosedForm, keys: Sequence[Key], bins: Mapping[int, int], n_jobs: int = 1, progress: Progress = quiet
) -> CoarseMeans:
    """Return the forest's means on coarse cells, from which the terms `keys` follow; `bins` limits bins per order."""
    binnings = coarse_binnings(form)
    by_limit = {limit: [key for key in keys if bins[len(key)] == limit] for limit in sorted(set(bins.values()))}
    merged = {
        limit: {j: binning_by(binnings[j].coarser(limit), form.masses[j]) for j in sorted(set().union(*limit_keys))}
        for limit, limit_keys in by_limit.items()
    }
    sizes = {limit: {j: binning.size for j, binning in by_feature.items()} for limit, by_feature in merged.items()}
    dense = {limit: _dense_tables(form, limit_keys, sizes[limit]) for limit, limit_keys in by_limit.items()}
    n_steps = sum((_n_steps(form, tables, sizes[limit]) for limit, tables in dense.items()), collections.Counter[str]())
    is_compiled = costs.is_compiled(**n_steps)
    plans = {limit: _covering_tables(some, sizes[limit]) for limit, some in by_limit.items()} if is_compiled else dense
    n_leaves = (form.leaf_sets.n_leaves_with_some(*table) for tables in plans.values() for table in tables)
    block = costs.COMPILED_LEAVES if is_compiled else costs.COARSE_LEAVES
    advance = steps(progress, "high orders on coarse cells", sum(-(-n // block) for n in n_leaves))

    def table(limit: int, features: Key, lowest: int) -> Floats:
        leaves = form.leaf_sets.leaves_with_some(features, lowest)
        blocks = [leaves[start : start + block] for start in range(0, max(len(leaves), 1), block)]
        mean_of = _mean_of_leaves(form, features, [merged[limit][j] for j in features], is_compiled=is_compiled)
        total: Floats = np.zeros(())
        with thread_map(n_jobs if len(blocks) > 1 else 1) as run:
            for mean in run(mean_of, blocks):
                total = total + mean
                advance()
        return total

    planned = [(limit, *features_and_lowest) for limit, tables in plans.items() for features_and_lowest in tables]
    tables = {(limit, features): table(limit, features, lowest) for limit, features, lowest in planned}
    return CoarseMeans(form, binnings, bins, tables)


Tables = list[tuple[Key, int]]
"""Features of tables of means, and how many of these a leaf must have: others add nothing to terms of that order."""


def _dense_tables(form: ClosedForm, keys: Sequence[Key], sizes: Mapping[int, int]) -> Tables:
    """Return the cheapest tables for numpy that contain all keys: one per key, one per largest key, or one for all."""
    lowest = min(map(len, keys), default=0)
    below = {smaller for key in keys for smaller in keys_below(key)}
    options = [[(key, len(key)) for key in keys], [(key, lowest) for key in keys if key not in below]]
    if keys and math.prod(sizes.values()) <= costs.SHARED_CELLS:
        options.append([(tuple(sorted(sizes)), lowest)])
    return min(options, key=lambda tables: costs.numpy_seconds(**_n_steps(form, tables, sizes)))


def _n_steps(form: ClosedForm, tables: Tables, sizes: Mapping[int, int]) -> collections.Counter[str]:
    """Return the steps that numpy takes for some tables, by kind of step; `sizes` has the bins of each feature."""
    n_leaves = [form.leaf_sets.n_leaves_with_some(*table) for table in tables]
    cells = (math.prod(sizes[j] for j in features) for features, _ in tables)
    n_cells = sum(n * size for n, size in zip(n_leaves, cells, strict=True))
    return collections.Counter(coarse_leaves=sum(n_leaves), coarse_cells=n_cells)


def _covering_tables(keys: Sequence[Key], sizes: Mapping[int, int]) -> Tables:
    """Return few tables of limited size that contain all keys; each greedily adds features that complete most keys."""
    lowest = min(map(len, keys), default=0)
    uncovered = set(keys)
    tables: Tables = []
    while uncovered:
        features = set(next(key for key in sorted(uncovered) if len(key) == max(map(len, uncovered))))
        while True:
            most_bins = costs.COMPILED_CELLS // math.prod(sizes[j] + 1 for j in features)
            candidates = [j for j in sizes if j not in features and sizes[j] + 1 <= most_bins]
            if not candidates:
                break
            features.add(max(candidates, key=lambda j: _n_complete(features | {j}, uncovered)))
        tables.append((tuple(sorted(features)), lowest))
        uncovered = {key for key in uncovered if not features.issuperset(key)}
    return tables


def _n_complete(features: Collection[int], keys: Collection[Key]) -> tuple[int, int]:
    """Return the number of keys contained in the features, and of those that lack one feature."""
    missing = [len(set(key).difference(features)) for key in keys]
    return missing.count(0), missing.count(1)


def _mean_of_leaves(
    form: ClosedForm, features: Key, binnings: Sequence[Binning], *, is_compiled: bool
) -> Callable[[Ints], Floats]:
    """Return a function from leaves to their part in the forest's mean given the merged bins of some features."""
    if is_compiled:
        axes, flat = coarse_axes(form.leaf_sets, features, binnings), form.flat()
        return lambda leaves: mean_on_cells(leaves, form.leaf_sets.values, flat, axes)

    def mean_of(leaves: Ints) -> Floats:
        factors = [_shares(form, j, binning, leaves) for j, binning in zip(features, binnings, strict=True)]
        return outer_sum(factors, form.coefficients_without(features, leaves))

    return mean_of


def _shares(form: ClosedForm, feature: int, binning: Binning, leaves: Ints) -> Floats:
    """Return the share of each merged bin in leaves' sets, 1 without the feature on the path: (n_leaves, n_bins)."""
    sets = form.leaf_sets
    having = sets.has_feature(feature, leaves)
    shares = np.ones((len(leaves), binning.size))
    shares[having] = sets.sets[feature].merged_shares(binning, sets.set_indices(feature, leaves[having]))
    return shares
