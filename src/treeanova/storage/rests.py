"""Tables of pairs as rests: what a pure table has beyond the closed form, which follows from the trees.

Purification under dependent features adds to the closed form of a pair what the correction of high orders moves to it,
a table over coarse cells, and what is left of it in high orders, which is saved with these; it takes out one number per
bin of each feature. So the table minus closed form and leftover is a sum M(A(i), B(j)) + a(i) + b(j) with coarse bins A
and B; a and b are zero at the first bin of each coarse one.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.terms.leaf_terms import LeafTerms, PureLeafTerms

_LEAST_CELLS = 1 << 17  # fewer are kept as they are, to the last bit
_LEAST_CELLS_OF_TABLE = 1 << 13  # the closed form of a smaller table takes longer than reading it
_LEAST_PER_NODE = 20  # cells of tables per node of the trees; otherwise the closed form takes more than the tables
_TOLERANCE = 1e-14  # of the largest entry of the table


def pack_pairs(
    tables: Mapping[Key, Floats], leaf_terms: LeafTerms | None
) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Flat rests of the tables that follow from the trees, and all other tables; `unpack_pairs` reverses this."""
    n_cells = sum(table.size for table in tables.values())
    if not isinstance(leaf_terms, PureLeafTerms) or n_cells < _least_cells(leaf_terms):
        return {}, dict(tables)
    pairs = {key: table for key, table in tables.items() if len(key) == 2 and table.size >= _LEAST_CELLS_OF_TABLE}
    rests = {key: _rest_of(key, table, leaf_terms) for key, table in pairs.items()}
    packed: dict[Key, Floats] = {key: rest for key, rest in rests.items() if rest is not None}
    return packed, {key: table for key, table in tables.items() if key not in packed}


def _least_cells(leaf_terms: LeafTerms) -> int:
    return max(_LEAST_CELLS, _LEAST_PER_NODE * len(leaf_terms.trees.forest.feature))


def unpack_pairs(packed: Mapping[Key, Floats], leaf_terms: LeafTerms | None) -> dict[Key, Floats]:
    """The tables from their rests and the trees; ValueError where these do not fit each other."""
    if not packed:
        return {}
    if not isinstance(leaf_terms, PureLeafTerms):
        raise TypeError("tables that follow from trees must have them")
    return {key: _table_of(key, rest, leaf_terms) for key, rest in packed.items()}


def _rest_of(key: Key, table: Floats, terms: PureLeafTerms) -> Floats | None:
    """The rest of a table, flat; None where it is no such sum."""
    rest = table - terms.form.tensor(key) - terms.leftover.spread(key, terms.trees.first_bins(key))
    coarse_bins = [_coarse_bins(j, terms) for j in key]
    firsts = [np.unique(bins, return_index=True)[1] for bins in coarse_bins]
    moved = rest[np.ix_(*firsts)]
    first = rest[:, 0] - moved[coarse_bins[0], 0]
    second = rest[0] - moved[0, coarse_bins[1]]
    rest -= _sum_of([moved, first, second], coarse_bins)
    if np.abs(rest).max() > _TOLERANCE * np.abs(table).max():
        return None
    return np.concatenate([part.ravel() for part in (moved, first, second)])


def _coarse_bins(feature: int, terms: PureLeafTerms) -> Ints:
    """Coarse bin of each bin of a feature's tables, numbered without gaps; one for all where there is no correction."""
    merging = terms.trees.binnings[feature]
    if not terms.correction.binnings:
        return np.zeros(merging.size, dtype=np.int64)
    some_bins = np.unique(merging.bins, return_index=True)[1]
    coarse = np.unique(terms.correction.binnings[feature].bins[some_bins], return_inverse=True)[1]
    return coarse.astype(np.int64).ravel()


def _sum_of(parts: Sequence[Floats], coarse_bins: Sequence[Ints]) -> Floats:
    moved, first, second = parts
    total: Floats = moved[np.ix_(*coarse_bins)]
    total += first[:, None]
    total += second
    return total


def _table_of(key: Key, flat: Floats, terms: PureLeafTerms) -> Floats:
    coarse_bins = [_coarse_bins(j, terms) for j in key]
    n_outputs = terms.trees.forest.n_outputs
    n_coarse = tuple(int(bins.max()) + 1 for bins in coarse_bins)
    shapes = [(*n_coarse, n_outputs), *((len(bins), n_outputs) for bins in coarse_bins)]
    ends = np.cumsum([math.prod(shape) for shape in shapes])
    if flat.shape != (ends[-1],):
        raise ValueError("rests must fit the bins of the tables")
    parts = [part.reshape(shape) for part, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
    table: Floats = terms.form.tensor(key)
    table += terms.leftover.spread(key, terms.trees.first_bins(key))
    table += _sum_of(parts, coarse_bins)
    return table
