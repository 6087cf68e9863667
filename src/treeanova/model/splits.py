"""Splits on bins: which bins of a feature go left at the nodes of a forest."""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import Bools, Ints
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.forest import NEAR_ZERO, Forest


def goes_left(forest: Forest, axis: Axis, nodes: Ints) -> Bools:
    """Whether each bin of a feature goes left at nodes that split on it, shape (n_nodes, n_bins)."""
    if isinstance(axis, CategoryAxis):
        sets = _categories_left(forest, axis, nodes)
    else:
        assert isinstance(axis, IntervalAxis)  # noqa: S101  the two kinds of axes
        sets = _intervals_left(forest, axis, nodes)
    if axis.missing_bin >= 0:
        sets[:, axis.missing_bin] = forest.missing_left[nodes]
    return sets


def _categories_left(forest: Forest, axis: CategoryAxis, nodes: Ints) -> Bools:
    known = np.arange(len(axis.categories))
    sets = np.zeros((len(nodes), axis.size), dtype=bool)
    sets[:, known] = forest.category_left[forest.category_start[nodes][:, None] + known]
    if axis.unseen_bin >= 0:
        sets[:, axis.unseen_bin] = forest.category_left[forest.category_start[nodes] + len(known)]
    return sets


def _intervals_left(forest: Forest, axis: IntervalAxis, nodes: Ints) -> Bools:
    sets: Bools = np.arange(axis.size) <= np.searchsorted(axis.bounds, forest.bound[nodes], side="left")[:, None]
    zero = forest.zero_missing[nodes]
    if zero.any():
        # Bounds of other nodes may lie between ±NEAR_ZERO and split it into several bins.
        first, last = np.searchsorted(axis.bounds, [-NEAR_ZERO, NEAR_ZERO], side="left")
        sets[zero, first : last + 1] = forest.missing_left[nodes][zero][:, None]
    return sets
