"""Tables of pairs from the corners of leaves: Σ over leaves of c a ⊗ b for sets a and b given by their differences.

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


def sum_of_products(first: Corners, second: Corners, weights: Floats) -> Floats:
    """Σ over leaves of weights times the outer products of their sets, shape (n_bins, n_bins)."""
    n_corners = first.values.size * second.values.shape[1]
    add = add_corners if is_worthwhile(n_corners * _SECONDS_PER_CORNER) else add_corners_by_numpy
    total: Floats = add(first, second, weights)
    np.cumsum(total, axis=0, out=total)
    np.cumsum(total, axis=1, out=total)
    return total


def add_corners_by_numpy(first: Corners, second: Corners, weights: Floats) -> Floats:
    """Sums of the corners of all leaves, cell by cell."""
    total = np.zeros(first.n_bins * second.n_bins)
    for start in range(0, len(weights), _BLOCK_LEAVES):
        part = slice(start, start + _BLOCK_LEAVES)
        cells = first.bins[part, :, None].astype(np.int64) * second.n_bins + second.bins[part, None, :]
        entries = (first.values[part] * weights[part, None])[:, :, None] * second.values[part, None, :]
        total += np.bincount(cells.ravel(), entries.ravel(), len(total))
    return total.reshape(first.n_bins, second.n_bins)


@Kernel
def add_corners(first: Corners, second: Corners, weights: Floats) -> Floats:
    """The same, compiled."""
    rows, row_values, n_rows = first
    columns, column_values, n_columns = second
    total = np.zeros((n_rows, n_columns))
    for leaf in range(len(weights)):
        for i in range(rows.shape[1]):
            scaled = weights[leaf] * row_values[leaf, i]
            if scaled != 0.0:
                for j in range(columns.shape[1]):
                    total[rows[leaf, i], columns[leaf, j]] += scaled * column_values[leaf, j]
    return total
