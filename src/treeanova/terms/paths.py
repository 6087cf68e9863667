"""Leaves in the order of their trees: neighbours begin alike, so that sums over leaves are factored.

The set of bins of a feature is final at the highest node on a path below which no node splits the feature. Sorted by
the depth of these nodes, the sets of neighbouring leaves begin with the same ones, those that are final where their
paths part or above. A sum over leaves of products of factors, one per set, then is

    Σ = v + f_1 (v + f_2 (v + …) + f_3 (…)) + …

with one product per node where a set becomes final, not one per leaf and set; and most of these nodes are just above
leaves, where the sums in brackets have the fewest parts. Kernels add up from the leaves to the roots.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.model.forest import Forest
from treeanova.terms import costs
from treeanova.terms.leaves import FlatLeaves

IN_TABLE = -1
_BITS = 62  # features whose splits are looked up at once


class LeafPaths(NamedTuple):
    """Sets of bins of leaves in the order of the trees: of each leaf those only that it does not share."""

    leaves: Ints  # numbers of the leaves, in order
    n_shared: Ints  # how many sets each leaf shares with the one before it: the first of both; at starts of tasks none
    start: Ints  # the other sets of leaf i, in the order of its path, are start[i] to start[i + 1]
    # feature, low, high, missing_from as in `FlatLeaves`; for sets that are given bin by bin, high is IN_TABLE
    bounds: BinIndices
    mass: Floats
    table: Bools
    height: Ints  # of each set: most sets that follow it in a leaf


def paths_in_tree_order(forest: Forest, flat: FlatLeaves) -> LeafPaths:
    """Return the leaves of a forest, given by all their sets of bins, in the order of their trees."""
    parent, levels = _parents_and_levels(forest)
    n_sets = np.diff(flat.start)
    place = _places(forest, levels)
    leaves = np.argsort(place)
    leaf_of_set = np.repeat(np.arange(len(n_sets)), n_sets)
    nodes = _final_nodes(forest, parent, levels, flat.feature, leaf_of_set)
    depth = np.zeros(len(parent), dtype=np.int64)
    for number, level in enumerate(levels):
        depth[level] = number
    order = np.lexsort((depth[nodes], place[leaf_of_set]))  # features of one node stay sorted
    n_sets = n_sets[leaves]
    start = np.concatenate([[0], np.cumsum(n_sets)])
    n_shared = _count_shared((nodes * len(flat.has_table) + flat.feature)[order], start)
    n_shared[:: costs.LEAVES_OF_A_TASK] = 0
    slot = np.arange(len(order)) - np.repeat(start[:-1], n_sets)
    is_new = slot >= np.repeat(n_shared, n_sets)
    new = order[is_new]
    high = np.where(flat.has_table[flat.feature[new]], IN_TABLE, flat.high[new])
    bounds = np.stack([flat.feature[new], flat.low[new], high, flat.missing_from[new]], axis=1)
    new_start = np.concatenate([[0], np.cumsum(n_sets - n_shared)])
    height = _heights(n_sets, n_shared, start, len(order))[is_new]
    return LeafPaths(leaves, n_shared, new_start, bounds.astype(np.int32), flat.mass[new], flat.table, height)


def _parents_and_levels(forest: Forest) -> tuple[Ints, list[Ints]]:
    """Return the parent of each node, and the nodes by depth, the roots first."""
    parent = np.full(len(forest.feature), -1, dtype=np.int64)
    levels = [forest.roots]
    while len(inner := levels[-1][forest.feature[levels[-1]] >= 0]):
        left, right = forest.left[inner], forest.right[inner]
        parent[left] = parent[right] = inner
        levels.append(np.concatenate([left, right]))
    return parent, levels


def _places(forest: Forest, levels: Sequence[Ints]) -> Ints:
    """Return the place of each leaf among all, tree by tree and from left to right."""
    n_leaves = (forest.feature < 0).astype(np.int64)  # below each node
    inner = [nodes[forest.feature[nodes] >= 0] for nodes in levels]
    for nodes in reversed(inner):
        n_leaves[nodes] = n_leaves[forest.left[nodes]] + n_leaves[forest.right[nodes]]
    place = np.zeros(len(n_leaves), dtype=np.int64)
    place[forest.roots] = np.cumsum(n_leaves[forest.roots]) - n_leaves[forest.roots]
    for nodes in inner:
        left, right = forest.left[nodes], forest.right[nodes]
        place[left], place[right] = place[nodes], place[nodes] + n_leaves[left]
    return place[forest.feature < 0]


def _final_nodes(forest: Forest, parent: Ints, levels: Sequence[Ints], features: BinIndices, leaf_of_set: Ints) -> Ints:
    """Return, for each set of a leaf, the highest node on its path below which no node splits the set's feature."""
    node = np.flatnonzero(forest.feature < 0)[leaf_of_set]
    words = features // _BITS
    for word in np.unique(words):
        is_split = forest.feature // _BITS == word  # at leaves the feature is -1
        # Features that a node, or one below it, splits.
        splits = np.where(is_split, np.int64(1) << (forest.feature % _BITS), 0)
        for nodes in reversed(levels):
            inner = nodes[forest.feature[nodes] >= 0]
            splits[inner] |= splits[forest.left[inner]] | splits[forest.right[inner]]
        climbing = np.flatnonzero(words == word)
        bit = np.int64(1) << (features[climbing] % _BITS).astype(np.int64)
        while len(climbing):  # up to the first node that splits the feature, itself or below
            above = parent[node[climbing]]
            goes_on = splits[above] & bit == 0
            climbing, bit = climbing[goes_on], bit[goes_on]
            node[climbing] = above[goes_on]
    return node


def _count_shared(letters: Ints, start: Ints) -> Ints:
    """Return how many letters each word has in common with the one before, at their beginnings."""
    n_shared = np.zeros(len(start) - 1, dtype=np.int64)
    lengths = np.diff(start)
    words = np.flatnonzero((lengths[1:] > 0) & (lengths[:-1] > 0)) + 1
    while len(words):
        at = n_shared[words]
        words = words[letters[start[words] + at] == letters[start[words - 1] + at]]
        n_shared[words] += 1
        words = words[n_shared[words] < np.minimum(lengths[words], lengths[words - 1])]
    return n_shared


def _heights(n_sets: Ints, n_shared: Ints, start: Ints, n_all: int) -> Ints:
    """Return, for each set of each leaf, the most sets that follow it in leaves that share it."""
    heights = np.zeros(n_all, dtype=np.int64)
    for slot in range(int(n_sets.max(initial=0))):
        is_first = n_shared <= slot  # a leaf without this slot shares less, and so is a group of its own
        groups = np.flatnonzero(is_first)
        most = np.maximum.reduceat(n_sets, groups) - slot - 1
        has_slot = n_sets > slot
        heights[start[:-1][has_slot] + slot] = most[np.cumsum(is_first)[has_slot] - 1]
    return heights
