"""Flat leaves: the sets of bins of all leaves, and sums over them, as plain arrays for compiled kernels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.terms.leafsets import AnySets, BinSets, Intervals, LeafSets

_NO_BIN = 2**31 - 1  # above all bins


class FlatLeaves(NamedTuple):
    """Sets of bins of all leaves: entries of a leaf are next to each other, sorted by feature.

    Attributes
    ----------
    start
        Entries of leaf i are start[i] to start[i + 1].
    feature
        Feature of each entry.
    low, high, missing_from
        Bins low <= bin < high, and those from `missing_from` on.
    mass
        Mass of the set of each entry.
    has_table
        Features whose sets are given bin by bin, in `table` from `low` of the entry on.
    table
        Whether the sets that are given bin by bin contain each bin.
    """

    start: Ints
    feature: BinIndices
    low: BinIndices
    high: BinIndices
    missing_from: BinIndices
    mass: Floats
    has_table: Bools
    table: Bools


class FlatParts(NamedTuple):
    """Parts as plain arrays, for the compiled kernel.

    Attributes
    ----------
    part_leaves, leaves
        Leaves of part i are those from part_leaves[i] to part_leaves[i + 1].
    part_keys, column, n_shared
        Keys of each part in lexical order: their columns, and how many features each begins with like the one before.
    key_start, key_features
        Features of each key.
    part_coefficients, coefficients
        Where coefficients of each part begin: leaf by leaf, in each key by key, shape (n_coefficients, n_outputs).
    """

    part_leaves: Ints
    leaves: Ints
    part_keys: Ints
    column: Ints
    n_shared: Ints
    key_start: Ints
    key_features: Ints
    part_coefficients: Ints
    coefficients: Floats


def flatten(leaf_sets: LeafSets, set_masses: Sequence[Floats] | None) -> FlatLeaves:
    """The sets of all leaves; masses are zero where none are given."""
    sets = leaf_sets.sets
    sizes = [one.sets.size if isinstance(one, AnySets) else 0 for one in sets]
    ends = [_ends(one, offset) for one, offset in zip(sets, np.cumsum([0, *sizes]), strict=False)]
    leaves = np.concatenate([one.leaves for one in sets])
    order = np.argsort(leaves, kind="stable")
    masses = np.zeros(len(leaves)) if set_masses is None else np.concatenate(set_masses)
    return FlatLeaves(
        start=np.searchsorted(leaves[order], np.arange(len(leaf_sets.values) + 1)),
        feature=np.repeat(np.arange(len(sets), dtype=np.int32), [len(one.leaves) for one in sets])[order],
        low=np.concatenate([low for low, _, _ in ends])[order],
        high=np.concatenate([high for _, high, _ in ends])[order],
        missing_from=np.concatenate([missing_from for _, _, missing_from in ends])[order],
        mass=masses[order],
        has_table=np.array([isinstance(one, AnySets) for one in sets], dtype=bool),
        table=np.concatenate([np.zeros(0, bool), *(one.sets.ravel() for one in sets if isinstance(one, AnySets))]),
    )


def _ends(sets: BinSets, offset: int) -> tuple[BinIndices, BinIndices, BinIndices]:
    """Ends of intervals and first bins of their missing values, or where the sets begin in the table."""
    n_leaves = len(sets.leaves)
    if isinstance(sets, Intervals):
        missing_from = np.where(sets.missing, sets.n_intervals, _NO_BIN).astype(np.int32)
        return sets.low.astype(np.int32), sets.high.astype(np.int32), missing_from
    n_bins = sets.sets.shape[1] if isinstance(sets, AnySets) else 0
    starts = (offset + n_bins * np.arange(n_leaves)).astype(np.int32)
    return starts, np.zeros(n_leaves, np.int32), np.full(n_leaves, _NO_BIN, dtype=np.int32)
