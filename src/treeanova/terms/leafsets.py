"""Leaf sets: for each leaf of a forest and each feature on its path, the bins that reach it.

Bins may be merged: a leaf then holds a share of each merged bin, the mass of its own bins in it over the mass of all.
Intervals of bins are kept by their ends, so that forests with a million leaves on thousands of bins fit; sets of
categories, and the odd ones of nodes that take zero for missing, are kept bin by bin.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.special

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key
from treeanova.model.axes import Axis
from treeanova.model.binning import Binning
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid
from treeanova.model.splits import goes_left
from treeanova.terms.node_bins import LeafBins, leaf_bins

_MAX_PLACES = 1 << 25  # leaves times features: 256 MB

Paths = list[tuple[Ints, Ints, Bools]]


class BinSets(abc.ABC):
    """The bins of one feature that reach the leaves that have it on their path."""

    leaves: Ints

    @abc.abstractmethod
    def contain(self, which: Ints, codes: BinIndices) -> Bools:
        """Whether rows with these bins are in the sets of some of the leaves, shape (n_leaves, n_rows)."""

    @abc.abstractmethod
    def mass(self, masses: Floats) -> Floats:
        """Mass of each set."""

    @abc.abstractmethod
    def changes(self) -> Bools:
        """Whether the set of each leaf differs from that of the leaf before it."""

    @abc.abstractmethod
    def onto(self, binning: Binning, which: Ints | slice = slice(None)) -> Floats:
        """Share of each merged bin that is in the sets, shape (n_leaves, n_merged_bins)."""

    @abc.abstractmethod
    def steps(self, binning: Binning) -> scipy.sparse.csr_array:
        """Differences of `onto` along the merged bins: its running sums are `onto`, and few are not zero."""


@dataclasses.dataclass(frozen=True, eq=False)
class Intervals(BinSets):
    """Bins low <= bin < high, and the bin of missing values where it is apart and `missing` says so."""

    leaves: Ints
    low: BinIndices
    high: BinIndices
    missing: Bools
    n_intervals: int

    def contain(self, which: Ints, codes: BinIndices) -> Bools:
        """Whether rows are in the sets."""
        inside = codes >= self.low[which, None]
        inside &= codes < self.high[which, None]
        missing = np.flatnonzero(codes >= self.n_intervals)
        if len(missing):
            inside[:, missing] = self.missing[which, None]
        return inside

    def mass(self, masses: Floats) -> Floats:
        """Mass of each set."""
        cumulative = np.concatenate([[0.0], np.cumsum(masses[: self.n_intervals])])
        apart = float(masses[self.n_intervals :].sum())
        inside: Floats = np.where(self.high > self.low, cumulative[self.high] - cumulative[self.low], 0.0)
        return inside + self.missing * apart

    def changes(self) -> Bools:
        """Whether neighbours differ."""
        columns = (self.low, self.high, self.missing)
        differ: Bools = np.any([np.diff(column, prepend=column[:1]) != 0 for column in columns], axis=0)
        return differ

    def onto(self, binning: Binning, which: Ints | slice = slice(None)) -> Floats:
        """Shares of merged bins."""
        ends = self.ends(binning)
        bins = np.arange(binning.size)
        shares: Floats = np.clip(ends[np.maximum(self.high, self.low)[which], None] - bins, 0.0, 1.0)
        shares -= np.clip(ends[self.low[which], None] - bins, 0.0, 1.0)
        if len(binning.bins) > self.n_intervals:
            shares[:, binning.bins[-1]] += self.missing[which] * binning.shares[-1]
        return shares

    def ends(self, binning: Binning) -> Floats:
        """Ends of the bins in units of merged bins: shares add up to 1 in each."""
        ends = np.concatenate([[0.0], np.cumsum(binning.shares[: self.n_intervals])])
        whole = np.flatnonzero(np.diff(binning.bins[: self.n_intervals]))
        ends[whole + 1] = binning.bins[whole + 1]  # exact where a merged bin begins
        return ends

    def steps(self, binning: Binning) -> scipy.sparse.csr_array:
        """Differences: where a set begins and ends, two each where this lies within a merged bin."""
        ends = self.ends(binning)
        rows, columns, values = [], [], []
        everyone = np.arange(len(self.leaves))
        for position, sign in ((ends[self.low], 1.0), (ends[np.maximum(self.high, self.low)], -1.0)):
            whole = np.floor(position)
            part = position - whole
            for shift, value in ((0, 1 - part), (1, part)):
                rows.append(everyone)
                columns.append(whole.astype(np.int64) + shift)
                values.append(sign * value)
        if len(binning.bins) > self.n_intervals:
            for shift, sign in ((0, 1.0), (1, -1.0)):
                rows.append(everyone)
                columns.append(np.full(len(everyone), binning.bins[-1] + shift))
                values.append(sign * binning.shares[-1] * self.missing)
        entries = np.concatenate(values), (np.concatenate(rows), np.concatenate(columns))
        inside = (entries[1][1] < binning.size) & (entries[0] != 0)
        placed = entries[0][inside], (entries[1][0][inside], entries[1][1][inside])
        return scipy.sparse.csr_array(placed, shape=(len(everyone), binning.size))


@dataclasses.dataclass(frozen=True, eq=False)
class AnySets(BinSets):
    """Sets bin by bin, shape (n_leaves, n_bins)."""

    leaves: Ints
    sets: Bools

    def contain(self, which: Ints, codes: BinIndices) -> Bools:
        """Whether rows are in the sets."""
        inside: Bools = self.sets[which][:, codes]
        return inside

    def mass(self, masses: Floats) -> Floats:
        """Mass of each set."""
        mass: Floats = self.sets @ masses
        return mass

    def changes(self) -> Bools:
        """Whether neighbours differ."""
        differ: Bools = np.any(np.diff(self.sets, axis=0, prepend=self.sets[:1]), axis=1)
        return differ

    def onto(self, binning: Binning, which: Ints | slice = slice(None)) -> Floats:
        """Shares of merged bins."""
        if binning.is_identity:
            return self.sets[which].astype(np.float64)
        spread = np.zeros((len(binning.bins), binning.size))
        spread[np.arange(len(binning.bins)), binning.bins] = binning.shares
        shares: Floats = self.sets[which] @ spread
        return shares

    def steps(self, binning: Binning) -> scipy.sparse.csr_array:
        """Differences of the shares."""
        return scipy.sparse.csr_array(np.diff(self.onto(binning), axis=1, prepend=0.0))


class _Built(NamedTuple):
    """What leaf sets are made of: distinct sets of features, those of each leaf, and sets of bins by feature."""

    keys: tuple[Key, ...]
    group: Ints
    sets: tuple[BinSets, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class LeafSets:
    """All leaves of a forest: their features, sets of bins, and values; built when they are first asked for.

    Attributes
    ----------
    forest
        The forest.
    grid
        Its grid.
    """

    forest: Forest
    grid: Grid

    @functools.cached_property
    def _built(self) -> _Built:
        return _build(self.forest, self.grid)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Distinct sets of features on paths to leaves."""
        return self._built.keys

    @property
    def group(self) -> Ints:
        """Position of each leaf's set of features in `keys`."""
        return self._built.group

    @property
    def sets(self) -> tuple[BinSets, ...]:
        """Sets of bins, feature by feature."""
        return self._built.sets

    @property
    def values(self) -> Floats:
        """Values of the leaves, shape (n_leaves, n_outputs)."""
        return self.forest.values

    @property
    def intercept(self) -> Floats:
        """Intercept of the forest."""
        return self.forest.intercept

    @functools.cached_property
    def members(self) -> tuple[Ints, ...]:
        """Leaves of each key."""
        order = np.argsort(self.group, kind="stable")
        ends = np.cumsum(np.bincount(self.group, minlength=len(self.keys)))
        return tuple(order[start:end] for start, end in itertools.pairwise([0, *ends.tolist()]))

    def positions(self, feature: int, leaves: Ints) -> Ints:
        """Positions of leaves among those that have a feature on their path."""
        having = self.sets[feature].leaves
        if len(having) == len(self.group):
            return leaves
        if len(self.group) * len(self.sets) > _MAX_PLACES:
            return np.searchsorted(having, leaves)
        return self._places(feature)[leaves]

    def _places(self, feature: int) -> Ints:
        """Position of every leaf among those that have a feature, kept for the next time."""
        if feature not in self._known_places:
            having = self.sets[feature].leaves
            places = np.zeros(len(self.group), dtype=np.int64)
            places[having] = np.arange(len(having))
            self._known_places[feature] = places
        return self._known_places[feature]

    @functools.cached_property
    def _known_places(self) -> dict[int, Ints]:
        return {}

    def pooled(self, key: Key, leaves: Ints, coefficients: Floats) -> tuple[Ints, Floats]:
        """Some leaves, one of each run of neighbours that have the same sets of a key, and sums of coefficients.

        Neighbours in a tree often differ by a split on another feature.
        """
        if not len(leaves):
            return leaves, coefficients
        is_first = np.zeros(len(leaves), dtype=bool)
        is_first[0] = True
        for j in key:
            numbers = self._run_numbers(j)[self.positions(j, leaves)]
            is_first[1:] |= numbers[1:] != numbers[:-1]
        starts = np.flatnonzero(is_first)
        return leaves[starts], np.add.reduceat(coefficients, starts, axis=0)

    def _run_numbers(self, feature: int) -> Ints:
        """Numbers of the sets of a feature, equal for neighbours with the same set; kept for the next time."""
        if feature not in self._known_numbers:
            self._known_numbers[feature] = np.cumsum(self.sets[feature].changes())
        return self._known_numbers[feature]

    @functools.cached_property
    def _known_numbers(self) -> dict[int, Ints]:
        return {}

    @functools.cached_property
    def _with_feature(self) -> Bools:
        """Whether each set of features contains each feature, shape (n_features, n_keys)."""
        table = np.zeros((len(self.sets), len(self.keys)), dtype=bool)
        places = np.repeat(np.arange(len(self.keys)), [len(key) for key in self.keys])
        table[np.fromiter(itertools.chain.from_iterable(self.keys), np.int64, len(places)), places] = True
        return table

    @functools.cached_property
    def _group_sizes(self) -> Ints:
        """Number of leaves with each set of features."""
        return np.bincount(self.group, minlength=len(self.keys))

    def _groups_with(self, key: Sequence[int]) -> Bools:
        """Whether each set of features contains all of some features."""
        having: Bools = np.logical_and.reduce(self._with_feature[list(key)], axis=0)
        return having

    def _groups_with_some(self, features: Sequence[int], n_features: int) -> Bools:
        """Whether each set of features contains at least `n_features` of some features."""
        counts = np.add.reduce(self._with_feature[list(features)], axis=0, dtype=np.int32)
        having: Bools = counts >= n_features
        return having

    def leaves_with(self, key: Sequence[int]) -> Ints:
        """Leaves that have all of some features on their path."""
        return np.flatnonzero(self._groups_with(key)[self.group])

    def leaves_with_some(self, features: Sequence[int], n_features: int) -> Ints:
        """Leaves that have at least `n_features` of some features on their path."""
        return np.flatnonzero(self._groups_with_some(features, n_features)[self.group])

    def n_leaves_with_some(self, features: Sequence[int], n_features: int) -> int:
        """Number of leaves that have at least `n_features` of some features on their path."""
        return int(self._group_sizes[self._groups_with_some(features, n_features)].sum())

    def have(self, feature: int, leaves: Ints) -> Bools:
        """Whether leaves have a feature on their path."""
        having: Bools = self._with_feature[feature][self.group[leaves]]
        return having

    def n_leaves_with(self, key: Sequence[int]) -> int:
        """Number of leaves that have all of some features on their path."""
        return int(self._group_sizes[self._groups_with(key)].sum())

    def n_subsets_with(self, key: Sequence[int], order: int) -> Floats:
        """For each feature, the number of pairs of a leaf and a set of `order` features on its path.

        Only sets that contain both the key and the feature count.
        """
        having = self._groups_with(key)
        used, n_leaves = self._with_feature[:, having], self._group_sizes[having]
        n_others, n_free = used.sum(axis=0) - len(key), order - len(key)
        counts: Floats = used @ (n_leaves * scipy.special.comb(n_others - 1, n_free - 1))
        counts[list(key)] = (n_leaves * scipy.special.comb(n_others, n_free)).sum()
        return counts

    def n_groups_with(self, keys: Sequence[Key]) -> int:
        """Number of pairs of a key and a set of features of leaves that contains it."""
        return sum(int(np.count_nonzero(self._groups_with(key))) for key in keys)

    @functools.cached_property
    def used_features(self) -> Ints:
        """Features that some leaf has on its path."""
        return np.flatnonzero(self._with_feature.any(axis=1))

    @functools.cached_property
    def outputs_per_leaf(self) -> float:
        """Mean number of outputs that a leaf has a value for, at least 1."""
        return max(np.count_nonzero(self.values) / max(len(self.values), 1), 1.0)

    @functools.cached_property
    def n_features_of_leaves(self) -> Ints:
        """Number of features on the path to each leaf."""
        return np.array([len(key) for key in self.keys], dtype=np.int64)[self.group]

    def n_subsets(self, order: int) -> int:
        """An upper bound on the number of sets of `order` features that some leaf has on its path."""
        of_keys = sum(math.comb(len(key), order) for key in self.keys)
        return min(of_keys, math.comb(len(self.used_features), order))

    def has_more_subsets(self, order: int, limit: int) -> bool:
        """Whether there are more sets of `order` features than a limit, without listing them all."""
        found: set[Key] = set()
        for key in self.keys:
            found.update(itertools.islice(itertools.combinations(key, order), limit + 1))
            if len(found) > limit:
                return True
        return False

    def subsets(self, orders: Iterable[int]) -> list[Key]:
        """All sets of features of given orders that some leaf has on its path, sorted."""
        return [key for order in sorted(set(orders)) for key in self._subsets_of(order)]

    def _subsets_of(self, order: int) -> list[Key]:
        """Sets of one order, sorted; kept, since they are asked for several times."""
        if order not in self._known_subsets:
            self._known_subsets[order] = sorted(self._find_subsets(order))
        return self._known_subsets[order]

    @functools.cached_property
    def _known_subsets(self) -> dict[int, list[Key]]:
        return {}

    def _find_subsets(self, order: int) -> Iterable[Key]:
        """From the keys, or by trying all where these are fewer."""
        used = self.used_features.tolist()
        if sum(math.comb(len(key), order) for key in self.keys) <= math.comb(len(used), order):
            return {subset for key in self.keys for subset in itertools.combinations(key, order)}
        columns = np.packbits(self._with_feature, axis=1)
        tried = itertools.combinations(used, order)
        return [key for key in tried if np.bitwise_and.reduce(columns[list(key)]).any()]


def leaf_keys(used: Bools) -> tuple[list[Key], Ints]:
    """Distinct sets of features of leaves, and the position of each leaf's set among them.

    `used` tells whether each leaf has each feature on its path, shape (n_leaves, n_features).
    """
    packed = np.packbits(used, axis=1)
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    numbers = words.view(">u8").astype(np.uint64)
    if numbers.shape[1] == 1:
        _, first, positions = np.unique(numbers[:, 0], return_index=True, return_inverse=True)
    else:
        _, first, positions = np.unique(numbers, axis=0, return_index=True, return_inverse=True)
    return [tuple(np.flatnonzero(used[leaf]).tolist()) for leaf in first], positions.ravel()


def paths_of(forest: Forest) -> Paths:
    """Steps up from all leaves at a time: leaves with such an ancestor, the ancestor, whether they lie to its left."""
    inner = np.flatnonzero(forest.feature >= 0)
    parent = np.full(len(forest.feature), -1, dtype=np.int64)
    parent[forest.left[inner]] = inner
    parent[forest.right[inner]] = inner
    is_left = np.zeros(len(parent), dtype=bool)
    is_left[forest.left[inner]] = True
    steps: Paths = []
    node = np.flatnonzero(forest.feature < 0)
    leaves = np.arange(len(node))
    while True:
        has_parent = parent[node] >= 0
        if not has_parent.any():
            return steps
        leaves, node = leaves[has_parent], node[has_parent]
        steps.append((leaves, parent[node], is_left[node]))
        node = parent[node]


def memberships(forest: Forest, grid: Grid, paths: Paths, feature: int) -> tuple[Ints, Bools]:
    """Leaves that have a feature on their path, and the bins of it that reach each, shape (n_such_leaves, n_bins)."""
    reached = np.zeros(forest.n_leaves, dtype=bool)
    for leaves, nodes, _ in paths:
        reached[leaves[forest.feature[nodes] == feature]] = True
    with_feature = np.flatnonzero(reached)
    sets = np.ones((len(with_feature), grid.axes[feature].size), dtype=bool)
    for step_leaves, step_nodes, step_left in paths:
        own = forest.feature[step_nodes] == feature
        leaves, nodes, left = step_leaves[own], step_nodes[own], step_left[own]
        here = goes_left(forest, grid.axes[feature], nodes)
        sets[np.searchsorted(with_feature, leaves)] &= here == left[:, None]
    return with_feature, sets


def _build(forest: Forest, grid: Grid) -> _Built:
    used = np.zeros((forest.n_leaves, len(grid.axes)), dtype=bool)
    sets: list[BinSets] = []
    paths = functools.cache(lambda: paths_of(forest))
    for bins in leaf_bins(forest, grid):
        used[:, bins.features.start : bins.features.stop] = bins.used.T
        for place, j in enumerate(bins.features):
            if not grid.axes[j].is_ordered or forest.zero_missing[forest.feature == j].any():
                sets.append(AnySets(*memberships(forest, grid, paths(), j)))
            else:
                sets.append(_intervals(bins, place, grid.axes[j]))
    keys, group = leaf_keys(used)
    return _Built(tuple(keys), group, tuple(sets))


def _intervals(bins: LeafBins, place: int, axis: Axis) -> Intervals:
    leaves = np.flatnonzero(bins.used[place])
    missing = bins.missing[place, leaves] & (axis.n_extra > 0)
    return Intervals(leaves, bins.low[place, leaves], bins.high[place, leaves], missing, axis.n_regular)
