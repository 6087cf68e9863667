"""CatBoost's binary model files, decoded into a model's content.

A .cbm file is "CBM1", the size of a FlatBuffers table, the table, and then one such table for each CTR table. Trees are
symmetric, or nodes with steps (left, right) to the next node, where 0 means "stop here", so that a node can be a split
and a leaf at once.
"""

from __future__ import annotations

import dataclasses
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.catboost.model import (
    COUNTERS,
    CTR_KINDS,
    EMPTY_KEY,
    MEANS,
    CategoricalFeature,
    Counts,
    Ctr,
    Model,
    Nodes,
    NumericFeature,
    check_symmetric,
    loss_and_classes,
    symmetric_nodes,
    text_error,
)
from treeanova.readers.checks import check_values

_FORMAT = "FlabuffersModel_v1"  # as CatBoost spells it


class _Budget:
    """Bytes that may still be read: a sound file holds everything once, a hostile one may refer to it many times."""

    def __init__(self, data: bytes) -> None:
        self.left = 2 * len(data)

    def spend(self, size: int) -> None:
        """Subtract a size from the bytes left."""
        self.left -= size
        if self.left < 0:
            raise ModelFileError(
                f"the model's arrays must fit into its file, got {-self.left} bytes too many; file damaged?"
            )


@dataclasses.dataclass(frozen=True)
class _Table:
    """A FlatBuffers table: fields by number, each absent, a scalar in place, or the distance to its content."""

    data: bytes
    at: int
    budget: _Budget

    def _unpack(self, code: str, at: int) -> int:
        if at < 0:
            raise ModelFileError(f"the model's offsets must lie within its file, got {at}; file damaged?")
        result: int = struct.unpack_from(code, self.data, at)[0]
        return result

    def _place(self, field: int) -> int | None:
        layout = self.at - self._unpack("<i", self.at)
        if 4 + 2 * field >= self._unpack("<H", layout):
            return None
        return self.at + offset if (offset := self._unpack("<H", layout + 4 + 2 * field)) else None

    def _follow(self, field: int) -> int | None:
        place = self._place(field)
        return None if place is None else place + self._unpack("<I", place)

    def scalar(self, field: int, code: str, default: float) -> float:
        """A number."""
        place = self._place(field)
        return default if place is None else self._unpack("<" + code, place)

    def array(self, field: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """An array of numbers or structures; empty if absent."""
        at = self._follow(field)
        if at is None:
            return np.empty(0, dtype)
        size = self._unpack("<I", at)
        self.budget.spend(size * np.dtype(dtype).itemsize)
        return np.frombuffer(self.data, dtype, size, at + 4)

    def text(self, field: int) -> str:
        """A string; empty if absent."""
        return self.array(field, np.uint8).tobytes().decode()

    def table(self, field: int) -> _Table:
        """A table that must be there."""
        at = self._follow(field)
        if at is None:
            raise ModelFileError(f"the model's tables must all be there, got none for field {field}; file damaged?")
        return _Table(self.data, at, self.budget)

    def tables(self, field: int) -> list[_Table]:
        """A list of tables."""
        start = self._follow(field)
        steps = self.array(field, "<u4").tolist()
        return [_Table(self.data, (start or 0) + 4 + 4 * i + step, self.budget) for i, step in enumerate(steps)]


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0], _Budget(data))


def from_cbm(data: bytes) -> Model:
    """The content of a model from the bytes of its file."""
    if data[:4] != b"CBM1":
        raise ModelFileError(f"a .cbm file must begin with b'CBM1', got {data[:4]!r}; file damaged?")
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    core = _root(data[8:end])
    if (kind := core.text(0)) not in {"", _FORMAT}:
        raise UnsupportedModelError(
            f"a .cbm file must be of format {_FORMAT}, got {kind[:40]!r}; save the model as .json, or update treeanova."
        )
    trees = core.table(1)
    if trees.tables(12) or trees.tables(18):
        raise text_error()
    info = {key: note for table in core.tables(2) if (key := table.text(0)) and (note := table.text(1))}
    ctrs = trees.tables(7)
    tables = _tables(data[end:]) if ctrs else {}
    bias = trees.array(16, "<f8")
    nodes, values = _trees(trees)
    return Model(
        numeric=[_numeric(feature) for feature in trees.tables(5)],
        categorical=[
            CategoricalFeature(int(f.scalar(1, "i", -1)), f.text(2), int(f.scalar(0, "i", -1))) for f in trees.tables(4)
        ],
        one_hot=[(int(f.scalar(0, "i", -1)), f.array(1, "<i4").astype(np.int64)) for f in trees.tables(6)],
        ctrs=[_ctr(ctr, tables) for ctr in ctrs],
        nodes=nodes,
        values=values,
        scale=trees.scalar(14, "d", 1.0),
        bias=bias if len(bias) else np.array([trees.scalar(15, "d", 0.0)]),
        category_names={},
        **loss_and_classes(info),
    )


def _numeric(feature: _Table) -> NumericFeature:
    missing_right = bool(feature.scalar(0, "b", 0)) and feature.scalar(5, "b", 0) == 2
    return NumericFeature(
        flat=int(feature.scalar(2, "i", -1)),
        name=feature.text(4),
        index=int(feature.scalar(1, "i", -1)),
        borders=feature.array(3, "<f4"),
        missing_right=missing_right,
    )


_CtrKey = tuple[str, tuple[int, ...], tuple[tuple[int, float], ...], tuple[tuple[int, int], ...], int]


def _ctr_key(base: _Table) -> _CtrKey:
    """Kind; elements that the CTR combines: categorical features, borders of numbers, categories; division of a target.

    Each of several targets is divided into classes in its own way, and one target may be divided in several ways.
    """
    combination = base.table(0)
    above = combination.array(1, np.dtype([("feature", "<i4"), ("border", "<f4")]))
    equal = combination.array(2, np.dtype([("feature", "<i4"), ("value", "<i4")]))
    kind = CTR_KINDS[int(base.scalar(1, "B", 0))]
    categories = tuple(combination.array(0, "<i4").tolist())
    return kind, categories, tuple(above.tolist()), tuple(equal.tolist()), int(base.scalar(2, "i", 0))


def _ctr(feature: _Table, tables: Mapping[_CtrKey, Counts]) -> Ctr:
    ctr = feature.table(0)
    kind, categories, above, equal, _ = key = _ctr_key(ctr.table(0))
    return Ctr(
        categories=categories,
        above=above,
        equal=equal,
        kind=kind,
        target_border=int(ctr.scalar(1, "i", 0)),
        prior=(ctr.scalar(2, "f", 0.0), ctr.scalar(3, "f", 1.0)),
        shift=ctr.scalar(4, "f", 0.0),
        scale=ctr.scalar(5, "f", 1.0),
        borders=feature.array(1, "<f4"),
        counts=tables.get(key),
    )


def _tables(data: bytes) -> dict[_CtrKey, Counts]:
    """The CTR tables: their number, then each with its size before it."""
    if not data:
        return {}
    result, at = {}, 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        size = struct.unpack_from("<I", data, at)[0]
        table = _root(data[at + 4 : at + 4 + size])
        key = _ctr_key(table.table(0))
        result[key] = _counts(table, key[0])
        at += 4 + size
    return result


def _counts(table: _Table, kind: str) -> Counts:
    """The counts; the keys are in a hash table of pairs (key, row) with empty places."""
    buckets = table.array(1, np.uint8).view(np.dtype([("key", "<u8"), ("row", "<u4")]))
    buckets = buckets[buckets["key"] != EMPTY_KEY]
    blob = table.array(2, np.uint8)
    if kind in MEANS:
        rows = np.stack([blob.view("<f4")[::2].astype(np.float64), blob.view("<i4")[1::2]], axis=1)
    else:
        n_columns = 1 if kind in COUNTERS else int(table.scalar(4, "i", 0))
        rows = blob.view("<i4").reshape(-1, n_columns).astype(np.float64)
    return Counts(buckets["key"], rows[buckets["row"]], table.scalar(3, "i", 0))


def _trees(trees: _Table) -> tuple[Nodes, Floats]:
    n_outputs, values = int(trees.scalar(0, "i", 1)), trees.array(8, "<f8")
    sizes, splits = trees.array(2, "<i4").astype(np.int64), trees.array(1, "<i4").astype(np.int64)
    steps = trees.array(10, "<u4")
    if len(steps):
        leaf_at = trees.array(11, "<u4").astype(np.int64)
        return _step_nodes(sizes, splits, steps, leaf_at, n_outputs), values.reshape(-1, n_outputs)
    check_symmetric(sizes, splits, len(values), n_outputs)
    return symmetric_nodes(sizes, splits), values.reshape(-1, n_outputs)


def _step_nodes(sizes: Ints, splits: Ints, steps: npt.NDArray[np.uint32], leaf_at: Ints, n_outputs: int) -> Nodes:
    """Nodes from steps; a node that is both a split and a leaf gets an additional node for its leaf."""
    n_nodes, n_trees = len(steps), len(sizes)
    if not (n_nodes == len(splits) == len(leaf_at) == sizes.sum() and n_trees and (sizes > 0).all() and n_outputs > 0):
        raise ModelFileError(
            f"the model's trees must have a split and a leaf number for each of {n_nodes} nodes, got {len(splits)} and "
            f"{len(leaf_at)} for {n_trees} trees; file damaged?"
        )
    step = np.stack([steps & 0xFFFF, steps >> 16]).astype(np.int64)
    tree = np.repeat(np.arange(n_trees), sizes)
    ends = np.cumsum(sizes)
    child = np.arange(n_nodes) + step
    last = child.max(axis=0)
    check_values("the model's trees must step to their own nodes", last, last < ends[tree])
    stops = (step == 0).sum(axis=0)
    half = np.flatnonzero(stops == 1)
    child[np.where(step[0, half] == 0, 0, 1), half] = n_nodes + np.arange(len(half))
    child[:, stops == 2] = -1
    roots, leaf = ends - sizes, leaf_at // n_outputs
    first = np.minimum.reduceat(np.where(stops > 0, leaf, np.iinfo(np.int64).max), roots)
    label = leaf - first[tree]
    left, right = np.concatenate([child, np.full((2, len(half)), -1)], axis=1)
    split, leaf, label = (np.concatenate([array, array[half]]) for array in (splits, leaf, label))
    return Nodes(roots, split, left, right, leaf, label)
