"""Leaf sets: for each leaf of a forest and each feature on its path, the bins that reach it.

With merged bins, a leaf holds a share of each: the mass of its bins in it over the mass of all. Intervals are stored by
their ends, so forests with a million leaves on thousands of bins fit. Sets of categories, and of nodes that take zero
for missing, are stored bin by bin.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse
import scipy.special

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key, memo
from treeanova.core.compiled import Kernel
from treeanova.model.axes import Axis
from treeanova.model.forest import Forest, goes_left
from treeanova.model.grid import Binning, Grid
from treeanova.terms import costs


class LeafBins(NamedTuple):
    """Bins low <= bin < high that reach each leaf; all arrays are (n_features, n_leaves)."""

    features: range  # positions of the features
    # ends of the intervals, meaningful for ordered features only
    low: BinIndices
    high: BinIndices
    missing: Bools  # whether missing values reach the leaf
    used: Bools  # whether the feature is on the path to the leaf


def leaf_bins(forest: Forest, grid: Grid) -> Iterator[LeafBins]:
    """Yield the bins that reach all leaves, for some features at a time; paths are followed from the roots down."""
    n_features = len(grid.axes)
    ends = np.zeros(len(forest.feature), dtype=np.int32)  # first bin right of each split; 0 at leaves and categories
    for j, axis in enumerate(grid.axes):
        if axis.is_ordered:
            nodes = np.flatnonzero(forest.feature == j)
            ends[nodes] = np.searchsorted(axis.thresholds, forest.bound[nodes], side="left") + 1
    levels, nodes = [], forest.roots
    while len(nodes := nodes[forest.feature[nodes] >= 0]):
        levels.append(nodes)
        nodes = np.concatenate([forest.left[nodes], forest.right[nodes]])
    leaves = np.flatnonzero(forest.feature < 0)
    features_at_once = max(1, costs.NODE_CELLS // max(len(forest.feature), 1))
    for start in range(0, n_features, features_at_once):
        features = range(start, min(start + features_at_once, n_features))
        sizes = [grid.axes[j].n_regular if grid.axes[j].is_ordered else 0 for j in features]
        n_bins = np.array(sizes, dtype=np.int32)
        is_compiled = costs.is_compiled(node_cells=len(forest.feature) * len(features))
        walk = _walk_kernel if is_compiled else _walk_levels
        low, high, missing, used = walk(forest, ends, levels, features, n_bins)
        columns = [np.minimum(low[leaves], n_bins), np.minimum(high[leaves], n_bins), missing[leaves], used[leaves]]
        yield LeafBins(features, *(np.ascontiguousarray(column.T) for column in columns))


NodeBins = tuple[BinIndices, BinIndices, Bools, Bools]  # ends low and high, is missing inside, is feature on the path


def _walk_levels(forest: Forest, ends: BinIndices, levels: list[Ints], features: range, n_bins: BinIndices) -> NodeBins:
    """Return the bins low <= bin < high of some features that reach each node, as four arrays (n_nodes, n_features)."""
    # `levels` are inner nodes by depth, `ends` each node's first bin that goes right, `n_bins` the bins per feature.
    shape = len(forest.feature), len(features)
    low, missing, used = np.zeros(shape, dtype=np.int32), np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    high = np.empty(shape, dtype=np.int32)
    high[:] = n_bins
    for nodes in levels:
        # Children inherit all from their parent, except for the feature that splits it (`at`, if among `features`).
        split = np.flatnonzero((forest.feature[nodes] >= features.start) & (forest.feature[nodes] < features.stop))
        at = split, forest.feature[nodes[split]] - features.start
        end, to_left = ends[nodes[split]], forest.missing_left[nodes[split]]
        left, right = forest.left[nodes], forest.right[nodes]
        low[left], high[right] = (lows := low[nodes]), (highs := high[nodes])
        lows[at], highs[at] = np.maximum(lows[at], end), np.minimum(highs[at], end)
        low[right], high[left] = lows, highs
        on_path = used[nodes]
        on_path[at] = True
        used[left] = used[right] = on_path
        for children, stays in ((left, to_left), (right, ~to_left)):
            reached = missing[nodes]
            reached[at] &= stays
            missing[children] = reached
    return low, high, missing, used


def _walk_kernel(forest: Forest, ends: BinIndices, levels: list[Ints], features: range, n_bins: BinIndices) -> NodeBins:
    """Return what `_walk_levels` does, by compiled code: the bins of some features that reach each node."""
    nodes = np.concatenate([np.zeros(0, np.int64), *levels])
    places = forest.feature[nodes] - features.start
    columns = nodes, forest.left[nodes], forest.right[nodes], places, ends[nodes], forest.missing_left[nodes]
    return walk_down(np.stack(columns, axis=1).astype(np.int64), n_bins, len(ends))


@Kernel
def walk_down(splits: Ints, n_bins: BinIndices, n_nodes: int) -> NodeBins:
    """Return the bins low <= bin < high of some features that reach each node, as four arrays (n_nodes, n_features)."""
    # `splits` has, for each inner node, parents first: node, left and right child, column of its feature (outside the
    # columns, the split does not matter), first bin that goes right, whether missing values go left.
    n_features = len(n_bins)
    low, high = np.zeros((n_nodes, n_features), np.int32), np.empty((n_nodes, n_features), np.int32)
    missing, used = np.ones((n_nodes, n_features), np.bool_), np.zeros((n_nodes, n_features), np.bool_)
    for node in range(n_nodes):
        for j in range(n_features):
            high[node, j] = n_bins[j]
    for i in range(len(splits)):
        node, left, right = splits[i, 0], splits[i, 1], splits[i, 2]
        for j in range(n_features):
            low[left, j] = low[right, j] = low[node, j]
            high[left, j] = high[right, j] = high[node, j]
            missing[left, j] = missing[right, j] = missing[node, j]
            used[left, j] = used[right, j] = used[node, j]
        j, end, missing_left = splits[i, 3], splits[i, 4], splits[i, 5] == 1
        if 0 <= j < n_features:
            low[right, j] = max(low[node, j], end)
            high[left, j] = min(high[node, j], end)
            missing[left, j] = missing[node, j] and missing_left
            missing[right, j] = missing[node, j] and not missing_left
            used[left, j] = used[right, j] = True
    return low, high, missing, used


Paths = list[tuple[Ints, Ints, Bools]]  # steps up: leaves, their ancestors, whether the leaves lie to the left of them


@dataclasses.dataclass(frozen=True, eq=False)
class Intervals:
    """Sets of bins of a feature, for leaves with it on their path: low <= bin < high, and perhaps missing bins."""

    leaves: Ints
    low: BinIndices
    high: BinIndices
    missing: Bools  # whether the set has the bins from `n_intervals` on
    n_intervals: int

    def contain(self, set_indices: Ints, bins: BinIndices) -> Bools:
        """Return whether some of the sets contain the bins of rows, shape (n_sets, n_rows)."""
        inside = bins >= self.low[set_indices, None]
        inside &= bins < self.high[set_indices, None]
        missing = np.flatnonzero(bins >= self.n_intervals)
        if len(missing):
            inside[:, missing] = self.missing[set_indices, None]
        return inside

    def mass(self, bin_masses: Floats) -> Floats:
        """Return the mass of each set from the masses of all bins."""
        cumulative = np.concatenate([[0.0], np.cumsum(bin_masses[: self.n_intervals])])
        missing_mass = float(bin_masses[self.n_intervals :].sum())
        inside: Floats = np.where(self.high > self.low, cumulative[self.high] - cumulative[self.low], 0.0)
        return inside + self.missing * missing_mass

    def changes(self) -> Bools:
        """Whether the set of each leaf differs from that of the leaf before it."""
        columns = (self.low, self.high, self.missing)
        return np.asarray(np.any([np.diff(column, prepend=column[:1]) != 0 for column in columns], axis=0))

    def merged_shares(self, binning: Binning, set_indices: Ints | slice = slice(None)) -> Floats:
        """Return the share of each merged bin's mass that is in each set, shape (n_sets, n_merged_bins)."""
        ends = self.merged_ends(binning)
        bins = np.arange(binning.size)
        # An end of 2.5 covers the merged bins 0 and 1 wholly, half of bin 2, and nothing beyond.
        shares: Floats = np.clip(ends[np.maximum(self.high, self.low)[set_indices], None] - bins, 0.0, 1.0)
        shares -= np.clip(ends[self.low[set_indices], None] - bins, 0.0, 1.0)
        if len(binning.bins) > self.n_intervals:
            shares[:, binning.bins[-1]] += self.missing[set_indices] * binning.shares[-1]
        return shares

    def merged_ends(self, binning: Binning) -> Floats:
        """Return the ends of all bins on the scale of merged bins: 2.5 if a bin ends in the middle of merged bin 2."""
        ends = np.concatenate([[0.0], np.cumsum(binning.shares[: self.n_intervals])])
        last = np.flatnonzero(np.diff(binning.bins[: self.n_intervals]))  # last bin of each merged bin
        ends[last + 1] = binning.bins[last + 1]  # exact where a merged bin begins
        return ends

    def share_differences(self, binning: Binning) -> scipy.sparse.csr_array:
        """Return `merged_shares` as differences between neighbouring merged bins, of which few are not zero."""
        ends = self.merged_ends(binning)
        rows, columns, values = [], [], []
        set_numbers = np.arange(len(self.leaves))
        # An end within a merged bin changes the share of this bin and of the next; missing values change two more.
        for position, sign in ((ends[self.low], 1.0), (ends[np.maximum(self.high, self.low)], -1.0)):
            whole = np.floor(position)
            fraction = position - whole
            for shift, value in ((0, 1 - fraction), (1, fraction)):
                rows.append(set_numbers)
                columns.append(whole.astype(np.int64) + shift)
                values.append(sign * value)
        if len(binning.bins) > self.n_intervals:
            for shift, sign in ((0, 1.0), (1, -1.0)):
                rows.append(set_numbers)
                columns.append(np.full(len(set_numbers), binning.bins[-1] + shift))
                values.append(sign * binning.shares[-1] * self.missing)
        all_values, all_rows, all_columns = np.concatenate(values), np.concatenate(rows), np.concatenate(columns)
        is_entry = (all_columns < binning.size) & (all_values != 0)
        entries = all_values[is_entry], (all_rows[is_entry], all_columns[is_entry])
        return scipy.sparse.csr_array(entries, shape=(len(set_numbers), binning.size))


@dataclasses.dataclass(frozen=True, eq=False)
class AnySets:
    """Sets of bins of a feature, for leaves with it on their path, bin by bin; methods as those of `Intervals`."""

    leaves: Ints
    sets: Bools  # shape (n_leaves, n_bins)

    def contain(self, set_indices: Ints, bins: BinIndices) -> Bools:
        """Return whether some of the sets contain the bins of rows, shape (n_sets, n_rows)."""
        return self.sets[set_indices].take(bins, axis=1)  # rows next to each other in memory

    def mass(self, bin_masses: Floats) -> Floats:
        return np.asarray(self.sets @ bin_masses)

    def changes(self) -> Bools:
        """Whether the set of each leaf differs from that of the leaf before it."""
        return np.asarray(np.any(np.diff(self.sets, axis=0, prepend=self.sets[:1]), axis=1))

    def merged_shares(self, binning: Binning, set_indices: Ints | slice = slice(None)) -> Floats:
        """Return the share of each merged bin's mass that is in each set, shape (n_sets, n_merged_bins)."""
        if binning.is_identity:
            return self.sets[set_indices].astype(np.float64)
        shares_by_bin = np.zeros((len(binning.bins), binning.size))
        shares_by_bin[np.arange(len(binning.bins)), binning.bins] = binning.shares
        return np.asarray(self.sets[set_indices] @ shares_by_bin)

    def share_differences(self, binning: Binning) -> scipy.sparse.csr_array:
        return scipy.sparse.csr_array(np.diff(self.merged_shares(binning), axis=1, prepend=0.0))


BinSets = Intervals | AnySets


@dataclasses.dataclass(frozen=True, eq=False)
class LeafSets:
    """All leaves of a forest, computed on first use: a loaded decomposition that only scores rows never needs them."""

    forest: Forest
    grid: Grid

    @functools.cached_property
    def _keys_and_sets(self) -> tuple[tuple[Key, ...], Ints, tuple[BinSets, ...]]:
        """What `keys`, `key_indices` and `sets` return, read from the trees together."""
        forest, sets = self.forest, list[BinSets]()
        used = np.zeros((forest.n_leaves, len(self.grid.axes)), dtype=bool)
        paths = functools.cache(lambda: paths_of(forest))
        for bins in leaf_bins(forest, self.grid):
            used[:, bins.features.start : bins.features.stop] = bins.used.T
            for place, j in enumerate(bins.features):
                axis, leaves = self.grid.axes[j], np.flatnonzero(bins.used[place])
                if not axis.is_ordered or forest.zero_missing[forest.feature == j].any():
                    sets.append(AnySets(leaves, memberships(forest, axis, paths(), j, leaves)))
                else:
                    low, high, missing = (column[place, leaves] for column in (bins.low, bins.high, bins.missing))
                    sets.append(Intervals(leaves, low, high, missing & (axis.n_extra > 0), axis.n_regular))
        return *leaf_keys(used), tuple(sets)

    @property
    def keys(self) -> tuple[Key, ...]:
        """Distinct keys of leaves: the features on the paths to them."""
        return self._keys_and_sets[0]

    @property
    def key_indices(self) -> Ints:
        """Position of each leaf's key in `keys`, shape (n_leaves,)."""
        return self._keys_and_sets[1]

    @property
    def sets(self) -> tuple[BinSets, ...]:
        """Sets of bins of each feature, for the leaves that have it on their path."""
        return self._keys_and_sets[2]

    @property
    def values(self) -> Floats:
        return self.forest.values

    @functools.cached_property
    def leaves_by_key(self) -> tuple[Ints, ...]:
        """Leaves of each key in `keys`."""
        order = np.argsort(self.key_indices, kind="stable")
        ends = np.cumsum(np.bincount(self.key_indices, minlength=len(self.keys)))
        return tuple(order[start:end] for start, end in itertools.pairwise([0, *ends.tolist()]))

    def set_indices(self, feature: int, leaves: Ints) -> Ints:
        """Return the positions of leaves, and so of their sets of bins, among those with a feature on their path."""
        having = self.sets[feature].leaves
        if len(having) == len(self.key_indices):
            return leaves
        if len(self.key_indices) * len(self.sets) > costs.MAX_PLACES:
            return np.searchsorted(having, leaves)
        return self._remembered_set_indices(feature)[leaves]

    @memo
    def _remembered_set_indices(self, feature: int) -> Ints:
        """Return, for each leaf, its position among those that have the feature on their path; else 0."""
        having = self.sets[feature].leaves
        places = np.zeros(len(self.key_indices), dtype=np.int64)
        places[having] = np.arange(len(having))
        return places

    def pool_equal_sets(self, key: Key, leaves: Ints, coefficients: Floats) -> tuple[Ints, Floats]:
        """Pool neighbouring leaves with equal sets for a key: return one leaf of each run, and summed coefficients."""
        if not len(leaves):
            return leaves, coefficients
        is_first = np.zeros(len(leaves), dtype=bool)
        is_first[0] = True
        for j in key:
            numbers = self._run_numbers(j)[self.set_indices(j, leaves)]
            is_first[1:] |= numbers[1:] != numbers[:-1]
        starts = np.flatnonzero(is_first)
        return leaves[starts], np.add.reduceat(coefficients, starts, axis=0)

    @memo
    def _run_numbers(self, feature: int) -> Ints:
        """Return a number for each set of a feature; neighbouring leaves with equal sets have the same number."""
        return np.cumsum(self.sets[feature].changes())

    @functools.cached_property
    def _is_in_key(self) -> Bools:
        """Whether each feature is in each of `keys`, shape (n_features, n_keys)."""
        table = np.zeros((len(self.sets), len(self.keys)), dtype=bool)
        places = np.repeat(np.arange(len(self.keys)), [len(key) for key in self.keys])
        table[np.fromiter(itertools.chain.from_iterable(self.keys), np.int64, len(places)), places] = True
        return table

    @functools.cached_property
    def n_leaves_by_key(self) -> Ints:
        return np.bincount(self.key_indices, minlength=len(self.keys))

    def _keys_with(self, key: Sequence[int]) -> Bools:
        """Return whether each of `keys` contains all features of another key, shape (n_keys,)."""
        return np.asarray(np.logical_and.reduce(self._is_in_key[list(key)], axis=0))

    def _keys_with_some(self, features: Sequence[int], n_features: int) -> Bools:
        """Return whether each of `keys` contains at least `n_features` of some features, shape (n_keys,)."""
        counts = np.add.reduce(self._is_in_key[list(features)], axis=0, dtype=np.int32)
        return np.asarray(counts >= n_features)

    def leaves_with(self, key: Sequence[int]) -> Ints:  # those with all features of the key on their paths
        return np.flatnonzero(self._keys_with(key)[self.key_indices])

    def leaves_with_some(self, features: Sequence[int], n_features: int) -> Ints:  # with at least `n_features` of them
        return np.flatnonzero(self._keys_with_some(features, n_features)[self.key_indices])

    def n_leaves_with_some(self, features: Sequence[int], n_features: int) -> int:  # with at least `n_features` of them
        return int(self.n_leaves_by_key[self._keys_with_some(features, n_features)].sum())

    def has_feature(self, feature: int, leaves: Ints) -> Bools:
        """Whether each of some leaves has a feature on its path."""
        return np.asarray(self._is_in_key[feature][self.key_indices[leaves]])

    def n_leaves_with(self, key: Sequence[int]) -> int:  # those with all features of the key on their paths
        return int(self.n_leaves_by_key[self._keys_with(key)].sum())

    def cost_at_row(self, key: Sequence[int]) -> int:
        """Return the cost of a term at a row, in leaves with one output: a product costs as much as three outputs."""
        return int(self.n_leaves_with(key) * (3 + self.outputs_per_leaf) / 4)

    def n_subsets_with(self, key: Sequence[int], order: int) -> Floats:
        """Return, per feature j, the number of pairs (leaf, set of `order` features on its path with the key and j)."""
        with_key = self._keys_with(key)
        used, n_leaves = self._is_in_key[:, with_key], self.n_leaves_by_key[with_key]
        n_others, n_free = (
            used.sum(axis=0) - len(key),
            order - len(key),
        )  # features on a path, and places, besides the key
        counts: Floats = used @ (n_leaves * scipy.special.comb(n_others - 1, n_free - 1))
        counts[list(key)] = (n_leaves * scipy.special.comb(n_others, n_free)).sum()
        return counts

    def n_groups_with(self, keys: Sequence[Key]) -> int:
        """Count, for each of some keys, the distinct leaf keys that contain it; return the sum of these counts."""
        return sum(int(np.count_nonzero(self._keys_with(key))) for key in keys)

    @functools.cached_property
    def used_features(self) -> Ints:
        return np.flatnonzero(self._is_in_key.any(axis=1))

    @functools.cached_property
    def outputs_per_leaf(self) -> float:
        """Mean number of outputs with a value in a leaf, at least 1."""
        return max(np.count_nonzero(self.values) / max(len(self.values), 1), 1.0)

    @functools.cached_property
    def n_features_of_leaves(self) -> Ints:
        return np.array([len(key) for key in self.keys], dtype=np.int64)[self.key_indices]

    def n_subsets(self, order: int) -> int:
        """Return an upper bound on the number of sets of `order` features on a path."""
        of_keys = sum(math.comb(len(key), order) for key in self.keys)
        return min(of_keys, math.comb(len(self.used_features), order))

    def has_more_subsets(self, order: int, limit: int) -> bool:
        """Whether sets of `order` features exceed a limit, without listing them all."""
        subsets: set[Key] = set()
        for key in self.keys:
            subsets.update(itertools.islice(itertools.combinations(key, order), limit + 1))
            if len(subsets) > limit:
                return True
        return False

    def subsets(self, orders: Iterable[int]) -> list[Key]:
        """Return all keys of some orders whose features are together on a path, sorted by order."""
        return [key for order in sorted(set(orders)) for key in self._subsets_of(order)]

    @memo
    def _subsets_of(self, order: int) -> list[Key]:
        """Return all subsets of `keys` of one order, sorted; from the keys, or by trying all if these are fewer."""
        used = self.used_features.tolist()
        if sum(math.comb(len(key), order) for key in self.keys) <= math.comb(len(used), order):
            return sorted({subset for key in self.keys for subset in itertools.combinations(key, order)})
        packed = np.packbits(self._is_in_key, axis=1)  # eight keys per byte
        candidates = itertools.combinations(used, order)
        return [key for key in candidates if np.bitwise_and.reduce(packed[list(key)]).any()]


def leaf_keys(used: Bools) -> tuple[tuple[Key, ...], Ints]:
    """Return the distinct keys of leaves, and each leaf's position in them; `used` is (n_leaves, n_features)."""
    # Keys become numbers of 64 bits, one bit per feature, which sort quickly.
    packed = np.packbits(used, axis=1)
    words = np.zeros((len(packed), -(-packed.shape[1] // 8) * 8), dtype=np.uint8)
    words[:, : packed.shape[1]] = packed
    numbers = words.view(">u8").astype(np.uint64)
    if numbers.shape[1] == 1:
        _, first, positions = np.unique(numbers[:, 0], return_index=True, return_inverse=True)
    else:
        _, first, positions = np.unique(numbers, axis=0, return_index=True, return_inverse=True)
    return tuple(tuple(np.flatnonzero(used[leaf]).tolist()) for leaf in first), positions.ravel()


def paths_of(forest: Forest) -> Paths:
    """Return the steps up from all leaves at once: first to their parents, last to the roots."""
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


def memberships(forest: Forest, axis: Axis, paths: Paths, feature: int, leaves: Ints) -> Bools:
    """Return the bins of a feature that reach each of the leaves with it on their path, shape (n_leaves, n_bins)."""
    contains = np.ones((len(leaves), axis.size), dtype=bool)
    for leaves_below, nodes, is_left in paths:
        here = forest.feature[nodes] == feature
        reaches = goes_left(forest, axis, nodes[here]) == is_left[here, None]
        contains[np.searchsorted(leaves, leaves_below[here])] &= reaches
    return contains


_NO_BIN = 2**31 - 1  # above all bins


class FlatLeaves(NamedTuple):
    """Sets of bins of all leaves: entries of a leaf are contiguous, sorted by feature."""

    start: Ints  # entries of leaf i are start[i] to start[i + 1]
    feature: BinIndices  # feature of each entry
    # bins low <= bin < high, and those from `missing_from` on
    low: BinIndices
    high: BinIndices
    missing_from: BinIndices
    mass: Floats  # mass of the set of each entry
    has_table: Bools  # features whose sets are given bin by bin, in `table` from `low` of the entry on
    table: Bools  # whether the sets that are given bin by bin contain each bin


def flatten(leaf_sets: LeafSets, set_masses: Sequence[Floats] | None) -> FlatLeaves:
    """Return the sets of all leaves as flat arrays; `set_masses` are by feature, then by leaf, and default to zero."""
    sets = leaf_sets.sets
    sizes = [bin_sets.sets.size if isinstance(bin_sets, AnySets) else 0 for bin_sets in sets]
    ends = [_flat_ends(bin_sets, offset) for bin_sets, offset in zip(sets, np.cumsum([0, *sizes]), strict=False)]
    leaves = np.concatenate([bin_sets.leaves for bin_sets in sets])
    order = np.argsort(leaves, kind="stable")
    masses = np.zeros(len(leaves)) if set_masses is None else np.concatenate(set_masses)
    return FlatLeaves(
        start=np.searchsorted(leaves[order], np.arange(len(leaf_sets.values) + 1)),
        feature=np.repeat(np.arange(len(sets), dtype=np.int32), [len(bin_sets.leaves) for bin_sets in sets])[order],
        low=np.concatenate([low for low, _, _ in ends])[order],
        high=np.concatenate([high for _, high, _ in ends])[order],
        missing_from=np.concatenate([missing_from for _, _, missing_from in ends])[order],
        mass=masses[order],
        has_table=np.array([isinstance(bin_sets, AnySets) for bin_sets in sets], dtype=bool),
        table=np.concatenate([np.zeros(0, bool), *(some.sets.ravel() for some in sets if isinstance(some, AnySets))]),
    )


def _flat_ends(sets: BinSets, offset: int) -> tuple[BinIndices, BinIndices, BinIndices]:
    """Return, per leaf, its set: bins low <= bin < high, and those from `missing_from` on, as `FlatLeaves` has them."""
    # Sets that are given bin by bin lie in one table of all features, theirs from `offset` on: `low` is where.
    if isinstance(sets, Intervals):
        missing_from = np.where(sets.missing, sets.n_intervals, _NO_BIN).astype(np.int32)
        return sets.low.astype(np.int32), sets.high.astype(np.int32), missing_from
    n_leaves, n_bins = sets.sets.shape
    starts = (offset + n_bins * np.arange(n_leaves)).astype(np.int32)
    return starts, np.zeros(n_leaves, np.int32), np.full(n_leaves, _NO_BIN, dtype=np.int32)
