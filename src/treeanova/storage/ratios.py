"""Weights of pairs as ratios: what a table of weights has beyond its marginals, once for neighbours that share it.

The weights of a pair are w(i, j) = m(i) n(j) r(i, j) with the marginals m and n, which are the weights of its features.
The ratio r is 1 for independent features, and smooth estimates have the same r for all bins of a group.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints, Key

_LEAST_CELLS = 1 << 17  # fewer weights are kept as they are, to the last bit
_MAX_SHARE = 0.75  # of the table's size, for ratios to be worth their while
_TOLERANCE = 1e-13  # of each weight
_TOLERANCE_OF_PRODUCT = 1e-15  # of the product of the marginals: exact marginals round what is far below it
_THREADS = 2  # more take more memory
_PAIRS_PER_TASK = 64
_INDEPENDENT = np.array([1.0, 1.0, 0.0, 0.0, 1.0])  # one group of each feature, from the first bin on, of ratio 1


def pack_weights(weights: Mapping[Key, Floats]) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Flat ratios of the tables that follow from them, and all other tables; `unpack_weights` reverses this."""
    if sum(table.size for table in weights.values()) < _LEAST_CELLS:
        return {}, dict(weights)
    pairs: list[Key] = [key for key in weights if len(key) == 2]
    n_pairs = min(len(pairs) // (8 * _THREADS) + 1, _PAIRS_PER_TASK)

    def pack_some(start: int) -> list[Floats | None]:
        """Ratios of some pairs in turn: a task for each would take longer than small tables do."""
        some = pairs[start : start + n_pairs]
        return [_pack(weights[key], *(weights.get((j,)) for j in key)) for key in some]

    with ThreadPoolExecutor(_THREADS) as pool:
        parts = pool.map(pack_some, range(0, len(pairs), n_pairs))
        flat = itertools.chain.from_iterable(parts)
        packed = {key: ratios for key, ratios in zip(pairs, flat, strict=True) if ratios is not None}
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
    if (np.abs(table - product) <= _TOLERANCE * product).all():
        return _INDEPENDENT
    has_mass = np.ix_(first > 0, second > 0)
    ratio = np.ones_like(table)
    ratio[has_mass] = table[has_mass] / product[has_mass]
    starts = _starts(ratio, first > 0), _starts(ratio.T, second > 0)
    flat = np.concatenate([list(map(len, starts)), *starts, ratio[np.ix_(*starts)].ravel()]).astype(np.float64)
    if flat.size > _MAX_SHARE * table.size or not _are_same(_unpack(flat, first, second), table, product):
        return None
    return flat


def _are_same(found: Floats, table: Floats, product: Floats) -> bool:
    tolerance = 4 * (_TOLERANCE * table + _TOLERANCE_OF_PRODUCT * product)  # rows, columns and their rounding
    return np.array_equal(found > 0, table > 0) and bool((np.abs(found - table) <= tolerance).all())


def _starts(ratio: Floats, has_mass: Bools) -> Ints:
    """First bins of groups: rows whose ratios differ from those of the last row before that has mass."""
    rows = np.flatnonzero(has_mass)
    before, after = ratio[rows[:-1]], ratio[rows[1:]]
    differ = (np.abs(after - before) > _TOLERANCE * before + _TOLERANCE_OF_PRODUCT).any(axis=1)
    return np.concatenate([rows[:1], rows[1:][differ]]).astype(np.int64)


def _unpack(flat: Floats, first: Floats, second: Floats) -> Floats:
    if np.array_equal(flat, _INDEPENDENT):
        return np.multiply.outer(first, second)
    n_first, n_second = flat[:2].astype(np.int64)
    starts = np.split(flat[2 : 2 + n_first + n_second].astype(np.int64), [n_first])
    few = flat[2 + n_first + n_second :].reshape(n_first, n_second)
    table: Floats = few[np.ix_(_groups(starts[0], len(first)), _groups(starts[1], len(second)))]
    table *= np.multiply.outer(first, second)
    return table


def _groups(starts: Ints, n_bins: int) -> Ints:
    """Group of each bin; bins before the first group belong to it, because they have no mass."""
    return np.maximum(np.searchsorted(starts, np.arange(n_bins), side="right") - 1, 0)
