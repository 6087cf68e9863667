"""Sums over leaves on coarse cells, compiled: the mean of a forest given the coarse bins of some features.

A leaf reaches few coarse bins of the features on its path, and all bins of the others. Each axis therefore has one more
place, which stands for all its bins, so that a leaf adds to few cells; in the end this place is added to the bins.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.core.compiled import Kernel
from treeanova.model.binning import Binning
from treeanova.terms.flat_leaves import FlatLeaves
from treeanova.terms.leafsets import Intervals, LeafSets


class CoarseAxes(NamedTuple):
    """The axes of a table of coarse bins.

    Attributes
    ----------
    axis
        Axis of each feature of the model; -1 for those that the table does not have.
    size
        Number of coarse bins of each axis.
    first
        Where each axis begins in the arrays below.
    n_bins
        Number of bins of each axis before they are merged.
    ends
        Ends of these bins in units of coarse bins, for features with intervals.
    bins, shares
        Coarse bin of each bin, and the share of the coarse bin that it holds.
    """

    axis: Ints
    size: Ints
    first: Ints
    n_bins: Ints
    ends: Floats
    bins: Ints
    shares: Floats


def coarse_axes(leaf_sets: LeafSets, features: Key, binnings: Sequence[Binning]) -> CoarseAxes:
    """The axes of a table of some features, whose bins are merged."""
    axis = np.full(len(leaf_sets.sets), -1, dtype=np.int64)
    axis[list(features)] = np.arange(len(features))
    n_bins = np.array([len(binning.bins) for binning in binnings], dtype=np.int64)
    ends = np.zeros(int((n_bins + 1).sum()))
    bins, shares = np.zeros(len(ends), dtype=np.int64), np.zeros(len(ends))
    first = np.cumsum([0, *(n_bins[:-1] + 1)])
    for j, start, binning in zip(features, first, binnings, strict=True):
        sets, n = leaf_sets.sets[j], len(binning.bins)
        bins[start : start + n], shares[start : start + n] = binning.bins, binning.shares
        if isinstance(sets, Intervals):
            ends[start : start + sets.n_intervals + 1] = sets.ends(binning)
    size = np.array([binning.size for binning in binnings], dtype=np.int64)
    return CoarseAxes(axis, size, first, n_bins, ends, bins, shares)


def mean_on_cells(leaves: Ints, values: Floats, flat: FlatLeaves, axes: CoarseAxes) -> Floats:
    """Sum over some leaves of values, masses of features without axis, and shares of coarse cells; outputs last."""
    total = add_boxes(leaves, values, flat, axes).reshape(*(axes.size + 1), -1)
    for axis, size in enumerate(axes.size):
        bins, everywhere = np.split(total, [size], axis=axis)
        total = bins + everywhere
    return np.asarray(total)


@Kernel
def fill_from_interval(cells: Ints, shares: Floats, ends: tuple[float, float], missing: tuple[int, float]) -> int:
    """Put the coarse bins that an interval reaches, and its shares of them, into arrays; their number.

    The interval is given by its ends in units of coarse bins; the coarse bin of missing values and its share follow,
    which is 0 where missing values are not in the set.
    """
    n_cells, cell = 0, int(ends[0])
    while cell < ends[1]:
        share = min(ends[1], cell + 1.0) - max(ends[0], float(cell))
        if share > 0.0:
            cells[n_cells], shares[n_cells] = cell, share
            n_cells += 1
        cell += 1
    if missing[1] > 0.0:
        if n_cells > 0 and cells[n_cells - 1] == missing[0]:
            n_cells -= 1
            shares[n_cells] += missing[1]
        else:
            cells[n_cells], shares[n_cells] = missing
        n_cells += 1
    return n_cells


@Kernel
def fill_from_table(cells: Ints, shares: Floats, is_inside: Bools, bins: Ints, bin_shares: Floats) -> int:
    """Put all coarse bins up to the last that a set reaches, and its shares of them, into arrays; their number."""
    n_cells = 0
    for b in range(len(is_inside)):
        if is_inside[b]:
            while n_cells <= bins[b]:
                cells[n_cells], shares[n_cells] = n_cells, 0.0
                n_cells += 1
            shares[bins[b]] += bin_shares[b]
    return n_cells


@Kernel
def add_boxes(leaves: Ints, values: Floats, flat: FlatLeaves, axes: CoarseAxes) -> Floats:
    """The sum on flat cells, where the last place of each axis stands for all its bins: shape (n_cells, n_outputs)."""
    starts, feature, low, high, missing_from, mass, has_table, table = flat
    axis_of, sizes, firsts, n_bins, ends, bins, bin_shares = axes
    n_outputs, most = values.shape[1], sizes.max() + 1
    stride = np.ones(len(sizes), np.int64)
    for axis in range(len(sizes) - 2, -1, -1):
        stride[axis] = stride[axis + 1] * (sizes[axis + 1] + 1)
    n_cells, everywhere = stride[0] * (sizes[0] + 1), (stride * sizes).sum()
    total = np.zeros((n_cells, n_outputs))
    cells, shares = np.empty(most, np.int64), np.empty(most)
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
                n = fill_from_table(cells, shares, is_inside, bins[first : last + 1], bin_shares[first : last + 1])
            else:
                interval = ends[first + begin], ends[first + max(begin, high[entry])]
                missing = bins[last], bin_shares[last] if missing_from[entry] < n_bins[axis] else 0.0
                n = fill_from_interval(cells, shares, interval, missing)
            for old in range(n_places - 1, -1, -1):
                place, weight = places[old] - sizes[axis] * stride[axis], weights[old]
                for i in range(n):
                    places[old * n + i] = place + cells[i] * stride[axis]
                    weights[old * n + i] = weight * shares[i]
            n_places *= n
        for i in range(n_places):
            for output in range(n_outputs):
                total[places[i], output] += values[leaf, output] * factor * weights[i]
    return total
