"""Bins that reach the nodes of a forest, from the roots down: each node takes those of its parent and its own split."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Ints
from treeanova.core.compiled import Kernel, is_worthwhile
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid

_BLOCK_CELLS = 1 << 23  # nodes times features at a time: 80 MB
_NUMPY_SECONDS = 1e-7  # for a node and a feature


class LeafBins(NamedTuple):
    """For some features: the bins low <= bin < high that reach each leaf; all arrays are (n_features, n_leaves).

    Attributes
    ----------
    features
        Positions of the features.
    low, high
        Ends of the intervals; only those of ordered features mean something.
    missing
        Whether missing values reach the leaf.
    used
        Whether the feature is on the path to the leaf.
    """

    features: range
    low: BinIndices
    high: BinIndices
    missing: Bools
    used: Bools


def leaf_bins(forest: Forest, grid: Grid) -> Iterator[LeafBins]:
    """The bins that reach the leaves, some features at a time."""
    n_features = len(grid.axes)
    ends = _ends(forest, grid)
    levels = list(_levels(forest))
    size = max(1, _BLOCK_CELLS // max(len(forest.feature), 1))
    for start in range(0, n_features, size):
        yield _descend(forest, grid, ends, levels, range(start, min(start + size, n_features)))


def _ends(forest: Forest, grid: Grid) -> BinIndices:
    """Number of bins to the left of each node's bound, 0 at leaves and splits of categories."""
    ends = np.zeros(len(forest.feature), dtype=np.int32)
    for j, axis in enumerate(grid.axes):
        if axis.is_ordered:
            nodes = np.flatnonzero(forest.feature == j)
            ends[nodes] = np.searchsorted(axis.thresholds, forest.bound[nodes], side="left") + 1
    return ends


def _levels(forest: Forest) -> Iterator[Ints]:
    """Inner nodes of all trees, level by level from the roots."""
    nodes = forest.roots
    while len(nodes := nodes[forest.feature[nodes] >= 0]):
        yield nodes
        nodes = np.concatenate([forest.left[nodes], forest.right[nodes]])


def _descend(forest: Forest, grid: Grid, ends: BinIndices, levels: Sequence[Ints], features: range) -> LeafBins:
    sizes = [grid.axes[j].n_regular if grid.axes[j].is_ordered else 0 for j in features]
    limits = np.array(sizes, dtype=np.int32)
    n_cells = len(forest.feature) * len(features)
    walk = _walk_compiled if is_worthwhile(n_cells * _NUMPY_SECONDS) else _walk_levels
    low, high, missing, used = walk(forest, ends, levels, features, limits)
    leaves = np.flatnonzero(forest.feature < 0)
    columns = [np.minimum(low[leaves], limits), np.minimum(high[leaves], limits), missing[leaves], used[leaves]]
    return LeafBins(features, *(np.ascontiguousarray(column.T) for column in columns))


NodeBins = tuple[BinIndices, BinIndices, Bools, Bools]


def _walk_levels(
    forest: Forest, ends: BinIndices, levels: Sequence[Ints], features: range, limits: BinIndices
) -> NodeBins:
    """Low and high ends, whether missing values arrive and whether the path has the feature: (n_nodes, n_features)."""
    shape = len(forest.feature), len(features)
    low, missing, used = np.zeros(shape, dtype=np.int32), np.ones(shape, dtype=bool), np.zeros(shape, dtype=bool)
    high = np.empty(shape, dtype=np.int32)
    high[:] = limits
    for nodes in levels:
        split = np.flatnonzero((forest.feature[nodes] >= features.start) & (forest.feature[nodes] < features.stop))
        at = split, forest.feature[nodes[split]] - features.start
        end, to_left = ends[nodes[split]], forest.missing_left[nodes[split]]
        left, right = forest.left[nodes], forest.right[nodes]
        low[left], high[right] = (rows := low[nodes]), (tops := high[nodes])
        rows[at], tops[at] = np.maximum(rows[at], end), np.minimum(tops[at], end)
        low[right], high[left] = rows, tops
        on_path = used[nodes]
        on_path[at] = True
        used[left] = used[right] = on_path
        for children, stays in ((left, to_left), (right, ~to_left)):
            reached = missing[nodes]
            reached[at] &= stays
            missing[children] = reached
    return low, high, missing, used


def _walk_compiled(
    forest: Forest, ends: BinIndices, levels: Sequence[Ints], features: range, limits: BinIndices
) -> NodeBins:
    """The same, node by node."""
    nodes = np.concatenate([np.zeros(0, np.int64), *levels])
    places = forest.feature[nodes] - features.start
    splits = Splits(nodes, forest.left[nodes], forest.right[nodes], places, ends[nodes], forest.missing_left[nodes])
    made: NodeBins = walk_down(splits, limits, len(ends))
    return made


class Splits(NamedTuple):
    """Inner nodes in an order in which parents come before their children.

    Attributes
    ----------
    nodes, left, right
        Nodes and their children.
    place
        Column of the node's feature; outside the columns, the split does not matter.
    end
        First bin that goes right.
    missing_left
        Whether missing values go left.
    """

    nodes: Ints
    left: Ints
    right: Ints
    place: Ints
    end: BinIndices
    missing_left: Bools


@Kernel
def walk_down(splits: Splits, limits: BinIndices, n_nodes: int) -> NodeBins:
    """Bins that reach each of the nodes."""
    n_features = len(limits)
    low, high = np.zeros((n_nodes, n_features), np.int32), np.empty((n_nodes, n_features), np.int32)
    missing, used = np.ones((n_nodes, n_features), np.bool_), np.zeros((n_nodes, n_features), np.bool_)
    for node in range(n_nodes):
        for j in range(n_features):
            high[node, j] = limits[j]
    for i in range(len(splits.nodes)):
        node, a, b = splits.nodes[i], splits.left[i], splits.right[i]
        for j in range(n_features):
            low[a, j] = low[b, j] = low[node, j]
            high[a, j] = high[b, j] = high[node, j]
            missing[a, j] = missing[b, j] = missing[node, j]
            used[a, j] = used[b, j] = used[node, j]
        j = splits.place[i]
        if 0 <= j < n_features:
            low[b, j] = max(low[node, j], splits.end[i])
            high[a, j] = min(high[node, j], splits.end[i])
            missing[a, j] = missing[node, j] and splits.missing_left[i]
            missing[b, j] = missing[node, j] and not splits.missing_left[i]
            used[a, j] = used[b, j] = True
    return low, high, missing, used
