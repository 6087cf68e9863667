"""Tables of pairs from the corners of leaves: sums of outer products of sets that are given by their differences.

A set of bins begins and ends at few places, so that the differences of a ⊗ b along both axes are zero but for a few
corners. They are added up cell by cell, and running sums of the result give the table.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.sparse

from treeanova.core.arrays import BinIndices, Floats, Ints
from treeanova.core.compiled import Kernel, is_worthwhile

_MAX_CORNERS = 8
_BLOCK_LEAVES = 1 << 18
_SECONDS_PER_CORNER = 2e-7  # of one pair 5e-8: large forests have many


class Corners(NamedTuple):
    """Differences of the sets of leaves along the bins of a feature, with equally many entries for each leaf.

    Attributes
    ----------
    bins
        Where the entries are, shape (n_leaves, n_entries).
    values
        The entries; 0 where a leaf has fewer.
    n_bins
        Number of bins.
    """

    bins: BinIndices
    values: Floats
    n_bins: int

    @classmethod
    def of(cls, steps: scipy.sparse.csr_array) -> Corners | None:
        """The same as arrays; None where a set has too many entries, as one of many categories may."""
        counts = np.diff(steps.indptr)
        n_entries = int(counts.max(initial=0))
        if n_entries > _MAX_CORNERS:
            return None
        bins = np.zeros((len(counts), n_entries), dtype=np.int32)
        values = np.zeros((len(counts), n_entries))
        places = np.arange(n_entries) < counts[:, None]
        bins[places], values[places] = steps.indices, steps.data
        return cls(bins, values, steps.shape[1])

    def take(self, leaves: Ints) -> Corners:
        """Those of some leaves."""
        return Corners(self.bins[leaves], self.values[leaves], self.n_bins)

    def sum(self, weights: Floats) -> Floats:
        """Σ over leaves of weights times their sets."""
        entries = (self.values * weights[:, None]).ravel()
        return np.cumsum(np.bincount(self.bins.ravel(), entries, self.n_bins))


Sums = tuple[Floats, Floats, Floats]


class Leaves(NamedTuple):
    """Some leaves: their positions among the corners of two features, weights, and masses of their two sets."""

    first: Ints
    second: Ints
    weights: Floats
    first_masses: Floats
    second_masses: Floats


def centred_products(first: Corners, second: Corners, leaves: Leaves) -> Floats:
    """Σ over leaves of weights times (a - p) ⊗ (b - q), for sets a and b of masses p and q; shape (n_bins, n_bins)."""
    n_corners = len(leaves.weights) * first.values.shape[1] * second.values.shape[1]
    add = add_corners if is_worthwhile(n_corners * _SECONDS_PER_CORNER) else add_corners_by_numpy
    sums: Sums = add(first, second, leaves)
    total, rows, columns = sums
    np.cumsum(total, axis=0, out=total)
    np.cumsum(total, axis=1, out=total)
    total -= np.cumsum(rows)[:, None]
    total -= np.cumsum(columns)
    total += (leaves.weights * leaves.first_masses * leaves.second_masses).sum()
    return total


def add_corners_by_numpy(first: Corners, second: Corners, leaves: Leaves) -> Sums:
    """Corners of all leaves added up cell by cell; of one feature alone times the masses of the other, bin by bin."""
    total = np.zeros(first.n_bins * second.n_bins)
    rows, columns = np.zeros(first.n_bins), np.zeros(second.n_bins)
    for start in range(0, len(leaves.weights), _BLOCK_LEAVES):
        part = slice(start, start + _BLOCK_LEAVES)
        one, other = first.take(leaves.first[part]), second.take(leaves.second[part])
        weights, p, q = leaves.weights[part], leaves.first_masses[part], leaves.second_masses[part]
        scaled = one.values * weights[:, None]
        cells = one.bins[:, :, None].astype(np.int64) * second.n_bins + other.bins[:, None, :]
        total += np.bincount(cells.ravel(), (scaled[:, :, None] * other.values[:, None, :]).ravel(), len(total))
        rows += np.bincount(one.bins.ravel(), (scaled * q[:, None]).ravel(), len(rows))
        columns += np.bincount(other.bins.ravel(), (other.values * (weights * p)[:, None]).ravel(), len(columns))
    return total.reshape(first.n_bins, second.n_bins), rows, columns


@Kernel
def add_corners(first: Corners, second: Corners, leaves: Leaves) -> Sums:
    """The same, compiled."""
    row_bins, row_values, n_rows = first
    column_bins, column_values, n_columns = second
    first_at, second_at, weights, p, q = leaves
    total, rows, columns = np.zeros((n_rows, n_columns)), np.zeros(n_rows), np.zeros(n_columns)
    for leaf in range(len(weights)):
        at, to = first_at[leaf], second_at[leaf]
        for i in range(row_bins.shape[1]):
            scaled = weights[leaf] * row_values[at, i]
            if scaled != 0.0:
                rows[row_bins[at, i]] += scaled * q[leaf]
                for j in range(column_bins.shape[1]):
                    total[row_bins[at, i], column_bins[to, j]] += scaled * column_values[to, j]
        for j in range(column_bins.shape[1]):
            columns[column_bins[to, j]] += weights[leaf] * p[leaf] * column_values[to, j]
    return total, rows, columns
