"""Compact forms of tables: pairs minus their closed form, weights as ratios, corrections as faces.

Purification under dependent features adds to the closed form of a pair a table over coarse cells (the correction of
high orders) and a leftover in high orders, which is saved with these; it subtracts one number per bin of each feature.
So the table minus closed form and leftover is M(A(i), B(j)) + a(i) + b(j) with coarse bins A and B; a and b are zero at
the first bin of each coarse one.

The weights of a pair are w(i, j) = m(i) n(j) r(i, j), where the marginals m and n are the weights of its features. The
ratio r is 1 for independent features, and smooth estimates have the same r for all bins of a group.

The correction moves faces of a term to the terms below, so its table is what it receives from above minus functions of
all its features but one. Such a sum is determined by its cells in which some feature has its first bin: n^k - (n - 1)^k
of n^k cells. They are saved as faces, one per feature, slices along the first bins. Other faces with the same
sum differ by functions of fewer features, which the terms below absorb in their faces.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treeanova.anova.cascade import keys_below
from treeanova.core.arrays import Bools, Floats, Ints, Key, Projections
from treeanova.model.grid import Binning
from treeanova.terms.terms import LeafTerms, PureLeafTerms

_LEAST_CELLS = 1 << 17  # fewer are kept as they are, to the last bit
_LEAST_CELLS_OF_TABLE = 1 << 13  # the closed form of a smaller table takes longer than reading it
_LEAST_PER_NODE = 20  # cells of tables per node of the trees; otherwise the closed form takes more than the tables
_TOLERANCE = 1e-14  # of the largest entry of the table


def pack_pairs(
    tables: Mapping[Key, Floats], leaf_terms: LeafTerms | None
) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Return flat residuals of the tables that follow from the trees, and all others; `unpack_pairs` reverses this."""
    n_cells = sum(table.size for table in tables.values())
    if not isinstance(leaf_terms, PureLeafTerms):
        return {}, dict(tables)
    if n_cells < max(_LEAST_CELLS, _LEAST_PER_NODE * len(leaf_terms.trees.forest.feature)):
        return {}, dict(tables)
    pairs = {key: table for key, table in tables.items() if len(key) == 2 and table.size >= _LEAST_CELLS_OF_TABLE}
    residuals = {key: _rest_of(key, table, leaf_terms) for key, table in pairs.items()}
    packed: dict[Key, Floats] = {key: residual for key, residual in residuals.items() if residual is not None}
    return packed, {key: table for key, table in tables.items() if key not in packed}


def unpack_pairs(packed: Mapping[Key, Floats], leaf_terms: LeafTerms | None) -> dict[Key, Floats]:
    if not packed:
        return {}
    if not isinstance(leaf_terms, PureLeafTerms):
        raise TypeError("tables that follow from trees must have them")
    return {key: _table_of(key, residual, leaf_terms) for key, residual in packed.items()}


def _rest_of(key: Key, table: Floats, terms: PureLeafTerms) -> Floats | None:
    residual = table - terms.form.tensor(key) - terms.leftover.spread(key, terms.trees.first_bins(key))
    coarse_bins = [_coarse_bins(j, terms) for j in key]
    firsts = [np.unique(bins, return_index=True)[1] for bins in coarse_bins]
    moved = residual[np.ix_(*firsts)]
    first = residual[:, 0] - moved[coarse_bins[0], 0]
    second = residual[0] - moved[0, coarse_bins[1]]
    residual -= _sum_of_closed_form([moved, first, second], coarse_bins)
    if np.abs(residual).max() > _TOLERANCE * np.abs(table).max():
        return None
    return np.concatenate([array.ravel() for array in (moved, first, second)])


def _coarse_bins(feature: int, terms: PureLeafTerms) -> Ints:
    """Return the coarse bin of each bin, numbered without gaps; a single one without a correction."""
    merging = terms.trees.binnings[feature]
    if not terms.correction.binnings:
        return np.zeros(merging.size, dtype=np.int64)
    some_bins = np.unique(merging.bins, return_index=True)[1]
    coarse = np.unique(terms.correction.binnings[feature].bins[some_bins], return_inverse=True)[1]
    return coarse.astype(np.int64).ravel()


def _sum_of_closed_form(tables: Sequence[Floats], coarse_bins: Sequence[Ints]) -> Floats:
    moved, first, second = tables
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
    tables = [array.reshape(shape) for array, shape in zip(np.split(flat, ends[:-1]), shapes, strict=True)]
    table: Floats = terms.form.tensor(key)
    table += terms.leftover.spread(key, terms.trees.first_bins(key))
    table += _sum_of_closed_form(tables, coarse_bins)
    return table


_MAX_SHARE = 0.75  # of the table's size, for ratios to be worth their while
_TOLERANCE_OF_WEIGHT = 1e-13  # of each weight
_TOLERANCE_OF_PRODUCT = 1e-15  # of the product of the marginals: exact marginals round what is far below it
_THREADS = 2  # more take more memory
_PAIRS_PER_TASK = 64
_INDEPENDENT = np.array([1.0, 1.0, 0.0, 0.0, 1.0])  # one group of each feature, from the first bin on, of ratio 1


def pack_weights(weights: Mapping[Key, Floats]) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Return flat ratios of the tables that follow from them, and all other tables; `unpack_weights` reverses this."""
    if sum(table.size for table in weights.values()) < _LEAST_CELLS:
        return {}, dict(weights)
    pairs: list[Key] = [key for key in weights if len(key) == 2]
    n_pairs = min(len(pairs) // (8 * _THREADS) + 1, _PAIRS_PER_TASK)

    def pack_some(start: int) -> list[Floats | None]:
        # A task for each pair would take longer than small tables do.
        some = pairs[start : start + n_pairs]
        return [_pack(weights[key], *(weights.get((j,)) for j in key)) for key in some]

    with ThreadPoolExecutor(_THREADS) as pool:
        parts = pool.map(pack_some, range(0, len(pairs), n_pairs))
        flat = itertools.chain.from_iterable(parts)
        packed = {key: ratios for key, ratios in zip(pairs, flat, strict=True) if ratios is not None}
    return packed, {key: table for key, table in weights.items() if key not in packed}


def unpack_weights(packed: Mapping[Key, Floats], whole: Mapping[Key, Floats]) -> dict[Key, Floats]:
    return {key: _unpack(flat, *(whole[j,] for j in key)) for key, flat in packed.items()} | dict(whole)


def n_cells_of_ratios(packed: Mapping[Key, Floats], whole: Mapping[Key, Floats]) -> int:
    return sum(math.prod(len(whole[j,]) for j in key) for key in packed)


def _pack(table: Floats, first: Floats | None = None, second: Floats | None = None) -> Floats | None:
    """Return first bins of groups and their ratios, flat; None if that saves nothing."""
    if first is None or second is None or table.shape != (len(first), len(second)):
        return None
    product = np.multiply.outer(first, second)
    if (np.abs(table - product) <= _TOLERANCE_OF_WEIGHT * product).all():
        return _INDEPENDENT
    has_mass = np.ix_(first > 0, second > 0)
    ratio = np.ones_like(table)
    ratio[has_mass] = table[has_mass] / product[has_mass]
    starts = _starts(ratio, first > 0), _starts(ratio.T, second > 0)
    flat = np.concatenate([list(map(len, starts)), *starts, ratio[np.ix_(*starts)].ravel()]).astype(np.float64)
    if flat.size > _MAX_SHARE * table.size or not _are_same(_unpack(flat, first, second), table, product):
        return None
    return flat


def _are_same(unpacked: Floats, table: Floats, product: Floats) -> bool:
    tolerance = 4 * (_TOLERANCE_OF_WEIGHT * table + _TOLERANCE_OF_PRODUCT * product)  # rows, columns and their rounding
    return np.array_equal(unpacked > 0, table > 0) and bool((np.abs(unpacked - table) <= tolerance).all())


def _starts(ratio: Floats, has_mass: Bools) -> Ints:
    rows = np.flatnonzero(has_mass)
    before, after = ratio[rows[:-1]], ratio[rows[1:]]
    differ = (np.abs(after - before) > _TOLERANCE_OF_WEIGHT * before + _TOLERANCE_OF_PRODUCT).any(axis=1)
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
    """Return the group of each bin; bins before the first group have no mass and belong to it."""
    return np.maximum(np.searchsorted(starts, np.arange(n_bins), side="right") - 1, 0)


CoarseCells = tuple[Sequence[Binning], Mapping[int, int]]
"""The coarse bins of a correction: binnings of features, and the maximal bins of terms of each order."""


def coarse_shape(cells: CoarseCells, key: Key) -> tuple[int, ...]:
    binnings, limits = cells
    return tuple(binnings[j].coarser_size(limits[len(key)]) for j in key)


def n_cells_of_faces(cells: CoarseCells, packed: Mapping[Key, Floats], n_outputs: int) -> int:
    return sum(math.prod(coarse_shape(cells, key)) for key in packed) * n_outputs


def pack_tables(cells: CoarseCells, tables: Mapping[Key, Floats]) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Return flat faces of the tables that follow from them, and all other tables; `unpack_tables` reverses this."""
    if sum(table.size for table in tables.values()) < _LEAST_CELLS:
        return {}, dict(tables)
    largest = max((float(np.abs(table).max()) for table in tables.values()), default=0.0)
    received: dict[Key, Floats] = {}
    packed: dict[Key, Floats] = {}
    whole: dict[Key, Floats] = {}
    for key in _highest_first(tables):
        faces, residual = _faces_of(tables[key] - _take(key, received, cells))
        if np.abs(residual).max() <= _TOLERANCE * largest:
            _pass_down(key, faces, received)
            packed[key] = np.concatenate([_without_zeros(face, axis).ravel() for axis, face in enumerate(faces)])
        else:
            whole[key] = tables[key]
    return packed, whole


def unpack_tables(
    cells: CoarseCells, packed: Mapping[Key, Floats], whole: Mapping[Key, Floats], n_outputs: int
) -> dict[Key, Floats]:
    received: dict[Key, Floats] = {}
    tables = dict(whole)
    for key in _highest_first(packed):
        faces = _unpack_faces(packed[key], (*coarse_shape(cells, key), n_outputs))
        sum_of_faces = functools.reduce(np.add, (np.expand_dims(face, axis) for axis, face in enumerate(faces)))
        tables[key] = sum_of_faces + _take(key, received, cells)
        _pass_down(key, faces, received)
    return tables


def _take(key: Key, received: dict[Key, Floats], cells: CoarseCells) -> Floats | float:
    """Return what a term has received from those above, spread from the bins of the order above to its own."""
    if key not in received:
        return 0.0
    binnings, limits = cells
    values, above, limit = received.pop(key), limits[len(key) + 1], limits[len(key)]
    if above == limit:
        return values
    pairs = ((np.arange(binnings[j].coarser_size(limit)), binnings[j]) for j in key)
    spread: Floats = values[np.ix_(*(bins >> (binning.shift(above) - binning.shift(limit)) for bins, binning in pairs))]
    return spread


def _pass_down(key: Key, faces: Projections, received: dict[Key, Floats]) -> None:
    for below, face in zip(keys_below(key), faces, strict=True):
        received[below] = received[below] - face if below in received else -face


def _highest_first(keys: Mapping[Key, Floats]) -> list[Key]:
    return sorted(keys, key=lambda key: (-len(key), key))


def _faces_of(values: Floats) -> tuple[Projections, Floats]:
    """Return slices along the first bins, each taken after the slices before it, and what remains."""
    residual = np.array(values)
    faces: Projections = []
    for axis in range(values.ndim - 1):
        faces.append(np.take(residual, [0], axis=axis).squeeze(axis))
        residual -= np.expand_dims(faces[-1], axis)
    return faces, residual


def _without_zeros(face: Floats, axis: int) -> Floats:
    """Drop the cells in the first bins of earlier features, which earlier slices took."""
    inner: Floats = face[(slice(1, None),) * axis]
    return inner


def _unpack_faces(flat: Floats, shape: tuple[int, ...]) -> Projections:
    shapes = [shape[:axis] + shape[axis + 1 :] for axis in range(len(shape) - 1)]
    faces = [np.zeros(some) for some in shapes]
    ends = np.cumsum([_without_zeros(face, axis).size for axis, face in enumerate(faces)])
    if flat.shape != (ends[-1],):
        raise ValueError("faces must fit the coarse bins")
    for axis, (face, part) in enumerate(zip(faces, np.split(flat, ends[:-1]), strict=True)):
        inner = _without_zeros(face, axis)
        inner[...] = part.reshape(inner.shape)
    return faces
