"""Tables of a correction as faces: of a term's table only what its features but one decide has to be kept.

The correction takes faces out of a term and adds them to the terms below, so its table is what it receives from above
minus functions of all its features but one. Such a sum is known from its cells in which some feature has its first bin:
n^k - (n - 1)^k of n^k cells. They are kept as faces, one per feature, of the slices along the first bins. Other faces
with the same sum differ from these by functions of fewer features, which the terms below take up in their own faces.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping

import numpy as np

from treeanova.anova.descent import keys_below
from treeanova.core.arrays import Faces, Floats, Ints, Key
from treeanova.model.binning import Binning

_LEAST_CELLS = 1 << 17  # smaller corrections are kept as they are, to the last bit
_TOLERANCE = 1e-14  # of the largest entry of all tables


@dataclasses.dataclass(frozen=True, eq=False)
class CoarseCells:
    """The coarse bins of a correction: bins of each feature, and the limit of bins for terms of each order."""

    binnings: tuple[Binning, ...]
    limits: Mapping[int, int]

    def shape(self, key: Key) -> tuple[int, ...]:
        """Number of coarse bins of each feature of a term."""
        limit = self.limits[len(key)]
        return tuple(self.binnings[j].coarser_size(limit) for j in key)

    def spread(self, values: Floats, key: Key) -> Floats:
        """What a term receives, on the bins of the order above, on its own bins; outputs last."""
        above, own = self.limits[len(key) + 1], self.limits[len(key)]
        if above == own:
            return values
        places = [_containing(self.binnings[j], above, own) for j in key]
        spread: Floats = values[np.ix_(*places)]
        return spread


def _containing(binning: Binning, coarser: int, finer: int) -> Ints:
    """Bin of a coarser limit that contains each bin of a finer one."""
    return np.arange(binning.coarser_size(finer)) >> (binning.shift(coarser) - binning.shift(finer))


def pack_tables(cells: CoarseCells, tables: Mapping[Key, Floats]) -> tuple[dict[Key, Floats], dict[Key, Floats]]:
    """Faces of the tables that follow from them, flat, and all other tables; `unpack_tables` reverses this."""
    if sum(table.size for table in tables.values()) < _LEAST_CELLS:
        return {}, dict(tables)
    largest = max((float(np.abs(table).max()) for table in tables.values()), default=0.0)
    received = _Received(cells)
    packed: dict[Key, Floats] = {}
    whole: dict[Key, Floats] = {}
    for key in _highest_first(tables):
        start = received.take(key)
        faces, rest = _faces_of(tables[key] - start)
        if np.abs(rest).max() <= _TOLERANCE * largest:
            received.pass_down(key, faces)
            packed[key] = np.concatenate([_without_zeros(face, axis).ravel() for axis, face in enumerate(faces)])
        else:
            whole[key] = tables[key]
    return packed, whole


def unpack_tables(
    cells: CoarseCells, packed: Mapping[Key, Floats], whole: Mapping[Key, Floats], n_outputs: int
) -> dict[Key, Floats]:
    """All tables from the faces of some; ValueError where faces do not fit the coarse bins."""
    received = _Received(cells)
    tables = dict(whole)
    for key in _highest_first(packed):
        faces = _unpack_faces(packed[key], (*cells.shape(key), n_outputs))
        tables[key] = _sum_of(faces) + received.take(key)
        received.pass_down(key, faces)
    return tables


def n_cells(cells: CoarseCells, packed: Mapping[Key, Floats], n_outputs: int) -> int:
    """Number of entries of the tables that follow from faces."""
    return sum(math.prod(cells.shape(key)) for key in packed) * n_outputs


class _Received:
    """What terms receive from those above, on the bins of the order above."""

    def __init__(self, cells: CoarseCells) -> None:
        self._cells = cells
        self._sums: dict[Key, Floats] = {}

    def take(self, key: Key) -> Floats | float:
        """What a term has received, on its own bins."""
        return self._cells.spread(self._sums.pop(key), key) if key in self._sums else 0.0

    def pass_down(self, key: Key, faces: Faces) -> None:
        """What is added to a term by faces is taken from the terms below."""
        for below, face in zip(keys_below(key), faces, strict=True):
            self._sums[below] = self._sums[below] - face if below in self._sums else -face


def _highest_first(keys: Mapping[Key, Floats]) -> list[Key]:
    return sorted(keys, key=lambda key: (-len(key), key))


def _faces_of(values: Floats) -> tuple[Faces, Floats]:
    """Slices along the first bins, each of what the slices before it leave; and what all of them leave."""
    rest = np.array(values)
    faces: Faces = []
    for axis in range(values.ndim - 1):
        faces.append(np.take(rest, [0], axis=axis).squeeze(axis))
        rest -= np.expand_dims(faces[-1], axis)
    return faces, rest


def _sum_of(faces: Faces) -> Floats:
    return functools.reduce(np.add, (np.expand_dims(face, axis) for axis, face in enumerate(faces)))


def _without_zeros(face: Floats, axis: int) -> Floats:
    """A face without its cells in the first bins of the features before its own: the slices before it took them."""
    kept: Floats = face[(slice(1, None),) * axis]
    return kept


def _unpack_faces(flat: Floats, shape: tuple[int, ...]) -> Faces:
    shapes = [shape[:axis] + shape[axis + 1 :] for axis in range(len(shape) - 1)]
    faces = [np.zeros(some) for some in shapes]
    ends = np.cumsum([_without_zeros(face, axis).size for axis, face in enumerate(faces)])
    if flat.shape != (ends[-1],):
        raise ValueError("faces must fit the coarse bins")
    for axis, (face, part) in enumerate(zip(faces, np.split(flat, ends[:-1]), strict=True)):
        kept = _without_zeros(face, axis)
        kept[...] = part.reshape(kept.shape)
    return faces
