"""Weights of pairs as ratios: what a table of weights has beyond its marginals, once for neighbours that share it.

The weights of a pair are w(i, j) = m(i) n(j) r(i, j) with the marginals m and n, which are the weights of its features.
The ratio r is 1 for independent features, and smooth estimates have the same r for all bins of a group.
"""

from __future__ import annotations

import math
from collections.abc import Mapping

import numpy as np

from treeanova.core.arrays import Bools, Floats, Key

_LEAST_CELLS = 1 << 17  # fewer weights are kept as they are, to the last bit
_MAX_SHARE = 0.75  # of the table's size, for ratios to be worth their while
_TOLERANCE = 1e-13  # of each weight
_TOLERANCE_OF_PRODUCT = 1e-15  # of the product of the marginals: exact marginals round what is far below it


def pack_weights(weights: Mapping[Key, Floats]) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Flat ratios of the tables that follow from them, and all other tables; `unpack_weights` reverses this."""
    if sum(table.size for table in weights.values()) < _LEAST_CELLS:
        return {}, dict(weights)
    packed: dict[Key, Floats] = {}
    for key, table in weights.items():
        flat = _pack(table, *(weights.get((j,)) for j in key)) if len(key) == 2 else None
        if flat is not None:
            packed[key] = flat
    return packed, {key: table for key, table in weights.items() if key not in packed}


def unpack_weights(packed: Mapping[Key, Floats], whole: Mapping[Key, Floats]) -> dict[Key, Floats]:
    """All tables from the ratios of some and the marginals; ValueError where these do not fit each other."""
    return {key: _unpack(flat, *(whole[j,] for j in key)) for key, flat in packed.items()} | dict(whole)


def n_cells(packed: Mapping[Key, Floats], whole: Mapping[Key, Floats]) -> int:
    """Number of entries of the tables that follow from ratios."""
    return sum(math.prod(len(whole[j,]) for j in key) for key in packed)


def _pack(table: Floats, first: Floats | None = None, second: Floats | None = None) -> Floats | None:
    """First bins of groups and their ratios, flat; None where the table does not follow from fewer numbers."""
    if first is None or second is None or table.shape != (len(first), len(second)):
        return None
    product = np.multiply.outer(first, second)
    has_mass = np.ix_(first > 0, second > 0)
    ratio = np.ones_like(table)
    ratio[has_mass] = table[has_mass] / product[has_mass]
    starts = _starts(ratio, first > 0), _starts(ratio.T, second > 0)
    flat = np.concatenate([*map(np.float64, starts), ratio[np.ix_(*map(np.flatnonzero, starts))].ravel()])
    if flat.size > _MAX_SHARE * table.size or not _are_same(_unpack(flat, first, second), table, product):
        return None
    return flat


def _are_same(found: Floats, table: Floats, product: Floats) -> bool:
    tolerance = 4 * (_TOLERANCE * table + _TOLERANCE_OF_PRODUCT * product)  # rows, columns and their rounding
    return np.array_equal(found > 0, table > 0) and bool((np.abs(found - table) <= tolerance).all())


def _starts(ratio: Floats, has_mass: Bools) -> Bools:
    """Whether the ratios of a row differ from those of the last row before it that has mass."""
    rows = np.flatnonzero(has_mass)
    differ = np.ones(len(rows), dtype=bool)
    before, after = ratio[rows[:-1]], ratio[rows[1:]]
    differ[1:] = (np.abs(after - before) > _TOLERANCE * before + _TOLERANCE_OF_PRODUCT).any(axis=1)
    starts = np.zeros(len(has_mass), dtype=bool)
    starts[rows[differ]] = True
    starts[:1] = True
    return starts


def _unpack(flat: Floats, first: Floats, second: Floats) -> Floats:
    sizes = len(first), len(second)
    if len(flat) < sum(sizes):
        raise ValueError("ratios must fit the bins of their features")
    starts = [flat[: sizes[0]] == 1, flat[sizes[0] : sum(sizes)] == 1]
    few = flat[sum(sizes) :].reshape([int(np.count_nonzero(start)) for start in starts])
    if not all(start[:1].all() for start in starts):
        raise ValueError("ratios must fit the bins of their features")
    table: Floats = few[np.ix_(*(np.cumsum(start) - 1 for start in starts))]
    table *= np.multiply.outer(first, second)
    return table
