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
from treeanova.model.binning import Binning
from treeanova.terms.leafsets import BinSets, Intervals

_MAX_CORNERS = 8
_BLOCK_LEAVES = 1 << 18
_SECONDS_PER_CORNER = 5e-7  # of one pair 5e-8: large forests have many


class Corners(NamedTuple):
    """Differences of the sets of leaves along the bins of a feature, as few rows of a table for each leaf.

    Attributes
    ----------
    rows
        Rows of the table that belong to each leaf, shape (n_leaves, n_rows_of_leaf).
    bins
        Where the entries of a row are, shape (n_rows, n_entries).
    values
        The entries; 0 where a row has fewer.
    n_bins
        Number of bins.
    """

    rows: BinIndices
    bins: BinIndices
    values: Floats
    n_bins: int

    @classmethod
    def of_sets(cls, sets: BinSets, binning: Binning) -> Corners | None:
        """The corners of sets on merged bins; None where a set has too many entries."""
        return cls.of_intervals(sets, binning) if isinstance(sets, Intervals) else cls.of(sets.steps(binning))

    @classmethod
    def of_intervals(cls, sets: Intervals, binning: Binning) -> Corners:
        """One row for each bin at which a set begins, one for each at which it ends, and two for missing values.

        Rows have two entries, since the bin may begin within a merged bin.
        """
        ends = sets.ends(binning)
        whole = np.floor(ends).astype(np.int32)
        parts = np.stack([1 - (ends - whole), ends - whole], axis=1)
        bins, values = np.stack([whole, whole + 1], axis=1), parts
        rows = [sets.low, len(ends) + np.maximum(sets.low, sets.high)]
        bins, values = np.concatenate([bins, bins]), np.concatenate([parts, -parts])
        if len(binning.bins) > sets.n_intervals and sets.missing.any():
            rows.append(len(values) + sets.missing)
            apart, share = binning.bins[-1], binning.shares[-1]
            bins = np.concatenate([bins, [[0, 0], [apart, apart + 1]]])
            values = np.concatenate([values, [[0.0, 0.0], [share, -share]]])
        outside = bins >= binning.size
        bins[outside], values[outside] = 0, 0.0
        return cls(np.stack(rows, axis=1).astype(np.int32), bins.astype(np.int32), values, binning.size)

    @classmethod
    def of(cls, steps: scipy.sparse.csr_array) -> Corners | None:
        """One row for each leaf; None where a set has too many entries, as one of many categories may."""
        counts = np.diff(steps.indptr)
        n_entries = int(counts.max(initial=0))
        if n_entries > _MAX_CORNERS:
            return None
        bins = np.zeros((len(counts), n_entries), dtype=np.int32)
        values = np.zeros((len(counts), n_entries))
        places = np.arange(n_entries) < counts[:, None]
        bins[places], values[places] = steps.indices, steps.data
        return cls(np.arange(len(counts), dtype=np.int32)[:, None], bins, values, steps.shape[1])

    def take(self, leaves: Ints) -> Corners:
        """Those of some leaves."""
        return self._replace(rows=self.rows[leaves])

    @property
    def n_entries(self) -> int:
        """Number of entries of a leaf."""
        return int(self.rows.shape[1] * self.bins.shape[1])

    def of_leaves(self) -> tuple[BinIndices, Floats]:
        """Bins and values of all entries of each leaf, shape (n_leaves, n_entries)."""
        shape = len(self.rows), self.n_entries
        return self.bins[self.rows].reshape(shape), self.values[self.rows].reshape(shape)

    def sum(self, weights: Floats) -> Floats:
        """Σ over leaves of weights, one for each leaf, times their sets."""
        of_rows = np.zeros(len(self.bins))
        for rows in self.rows.T:
            of_rows += np.bincount(rows, weights, len(of_rows))
        return np.cumsum(np.bincount(self.bins.ravel(), (self.values * of_rows[:, None]).ravel(), self.n_bins))


Sums = tuple[Floats, Floats, Floats]


class Leaves(NamedTuple):
    """Some leaves: their positions among the corners of two features, weights, and masses of their two sets.

    Weights have one column for each output.
    """

    first: Ints
    second: Ints
    weights: Floats
    first_masses: Floats
    second_masses: Floats


def centred_products(first: Corners, second: Corners, leaves: Leaves) -> Floats:
    """Σ over leaves of weights times (a - p) ⊗ (b - q), for sets a and b of masses p and q.

    Shape (n_outputs, n_bins, n_bins).
    """
    n_corners = leaves.weights.size * first.n_entries * second.n_entries
    add = add_corners if is_worthwhile(n_corners * _SECONDS_PER_CORNER) else add_corners_by_numpy
    sums: Sums = add(first, second, leaves)
    totals, rows, columns = sums
    masses = leaves.first_masses * leaves.second_masses
    for output, total in enumerate(totals):
        np.cumsum(total, axis=0, out=total)
        np.cumsum(total, axis=1, out=total)
        total -= np.cumsum(rows[output])[:, None]
        total -= np.cumsum(columns[output])
        total += (leaves.weights[:, output] * masses).sum()
    return totals


def add_corners_by_numpy(first: Corners, second: Corners, leaves: Leaves) -> Sums:
    """Corners of all leaves added up cell by cell; of one feature alone times the masses of the other, bin by bin.

    Outputs come first.
    """
    n_outputs = leaves.weights.shape[1]
    total = np.zeros((n_outputs, first.n_bins * second.n_bins))
    rows, columns = np.zeros((n_outputs, first.n_bins)), np.zeros((n_outputs, second.n_bins))
    for start in range(0, len(leaves.weights), _BLOCK_LEAVES):
        part = slice(start, start + _BLOCK_LEAVES)
        row_bins, row_values = first.take(leaves.first[part]).of_leaves()
        column_bins, column_values = second.take(leaves.second[part]).of_leaves()
        p, q = leaves.first_masses[part], leaves.second_masses[part]
        cells = (row_bins[:, :, None].astype(np.int64) * second.n_bins + column_bins[:, None, :]).ravel()
        for output, weights in enumerate(leaves.weights[part].T):
            scaled = row_values * weights[:, None]
            corners = (scaled[:, :, None] * column_values[:, None, :]).ravel()
            total[output] += np.bincount(cells, corners, total.shape[1])
            rows[output] += np.bincount(row_bins.ravel(), (scaled * q[:, None]).ravel(), first.n_bins)
            of_columns = (column_values * (weights * p)[:, None]).ravel()
            columns[output] += np.bincount(column_bins.ravel(), of_columns, second.n_bins)
    return total.reshape(n_outputs, first.n_bins, second.n_bins), rows, columns


@Kernel
def gather(bins: BinIndices, values: Floats, rows: BinIndices, table: tuple[BinIndices, Floats]) -> int:
    """Put the entries of some rows of a table that are not zero into arrays; their number."""
    n = 0
    for row in rows:
        for i in range(table[0].shape[1]):
            if table[1][row, i] != 0.0:
                bins[n], values[n] = table[0][row, i], table[1][row, i]
                n += 1
    return n


@Kernel
def add_corners(first: Corners, second: Corners, leaves: Leaves) -> Sums:
    """The same, compiled."""
    first_rows, first_bins, first_values, n_rows = first
    second_rows, second_bins, second_values, n_columns = second
    first_at, second_at, weights, p, q = leaves
    n_outputs = weights.shape[1]
    total = np.zeros((n_outputs, n_rows, n_columns))
    rows, columns = np.zeros((n_outputs, n_rows)), np.zeros((n_outputs, n_columns))
    n_first, n_second = first_rows.shape[1] * first_bins.shape[1], second_rows.shape[1] * second_bins.shape[1]
    row_bins, row_values = np.empty(n_first, np.int32), np.empty(n_first)
    column_bins, column_values = np.empty(n_second, np.int32), np.empty(n_second)
    for leaf in range(len(weights)):
        n_ends = gather(row_bins, row_values, first_rows[first_at[leaf]], (first_bins, first_values))
        n_other_ends = gather(column_bins, column_values, second_rows[second_at[leaf]], (second_bins, second_values))
        for output in range(n_outputs):
            weight = weights[leaf, output]
            if weight == 0.0:
                continue
            for i in range(n_ends):
                scaled = weight * row_values[i]
                rows[output, row_bins[i]] += scaled * q[leaf]
                for j in range(n_other_ends):
                    total[output, row_bins[i], column_bins[j]] += scaled * column_values[j]
            for j in range(n_other_ends):
                columns[output, column_bins[j]] += weight * p[leaf] * column_values[j]
    return total, rows, columns
