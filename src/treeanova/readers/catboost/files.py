"""CatBoost's model files, .cbm and .json, decoded into a model's content.

A .cbm file is "CBM1", the size of a FlatBuffers table, the table, and then one such table for each CTR table. Trees are
symmetric, or nodes with steps (left, right) to the next node, where 0 means "stop here", so a node can be a split and
a leaf at once.
"""

from __future__ import annotations

import dataclasses
import itertools
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.readers.catboost.model import (
    COUNTERS,
    CTR_KINDS,
    EMPTY_KEY,
    MAX_DEPTH,
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
    training_note,
)
from treeanova.readers.checks import check_values, damaged, decimal_number, whole_number

_FORMAT = "FlabuffersModel_v1"  # as CatBoost spells it


class _Budget:
    """Bytes that may still be read: a sound file holds everything once, a hostile one may refer to it many times."""

    def __init__(self, data: bytes) -> None:
        self.left = 2 * len(data)

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise damaged(f"the model's arrays must fit into its file, got {-self.left} bytes too many")


@dataclasses.dataclass(frozen=True)
class _Table:
    """A FlatBuffers table: fields by number, each absent, a scalar in place, or the distance to its content."""

    data: bytes
    at: int
    budget: _Budget

    def _unpack(self, code: str, at: int) -> int:
        if at < 0:
            raise damaged(f"the model's offsets must lie within its file, got {at}")
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
        place = self._place(field)
        return default if place is None else self._unpack("<" + code, place)

    def array(self, field: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        at = self._follow(field)
        if at is None:
            return np.empty(0, dtype)
        size = self._unpack("<I", at)
        self.budget.spend(size * np.dtype(dtype).itemsize)
        return np.frombuffer(self.data, dtype, size, at + 4)

    def text(self, field: int) -> str:
        return self.array(field, np.uint8).tobytes().decode()

    def table(self, field: int) -> _Table:
        at = self._follow(field)
        if at is None:
            raise damaged(f"the model's tables must all be there, got none for field {field}")
        return _Table(self.data, at, self.budget)

    def tables(self, field: int) -> list[_Table]:
        start = self._follow(field)
        steps = self.array(field, "<u4").tolist()
        return [_Table(self.data, (start or 0) + 4 + 4 * i + step, self.budget) for i, step in enumerate(steps)]


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0], _Budget(data))


def from_cbm(data: bytes) -> Model:
    if data[:4] != b"CBM1":
        raise damaged(f"a .cbm file must begin with b'CBM1', got {data[:4]!r}")
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
        numeric=[_numeric_feature(feature) for feature in trees.tables(5)],
        categorical=[
            CategoricalFeature(int(f.scalar(1, "i", -1)), f.text(2), int(f.scalar(0, "i", -1))) for f in trees.tables(4)
        ],
        one_hot=[(int(f.scalar(0, "i", -1)), f.array(1, "<i4").astype(np.int64)) for f in trees.tables(6)],
        ctrs=[_ctr_table(ctr, tables) for ctr in ctrs],
        nodes=nodes,
        values=values,
        scale=trees.scalar(14, "d", 1.0),
        bias=bias if len(bias) else np.array([trees.scalar(15, "d", 0.0)]),
        category_names={},
        **loss_and_classes(info),
    )


def _numeric_feature(feature: _Table) -> NumericFeature:
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
    """Return kind, combined elements (categorical features, borders, categories), and division of a target.

    Each of several targets is divided into classes in its own way, and one target may be divided in several ways.
    """
    combination = base.table(0)
    above = combination.array(1, np.dtype([("feature", "<i4"), ("border", "<f4")]))
    equal = combination.array(2, np.dtype([("feature", "<i4"), ("value", "<i4")]))
    kind = CTR_KINDS[int(base.scalar(1, "B", 0))]
    categories = tuple(combination.array(0, "<i4").tolist())
    return kind, categories, tuple(above.tolist()), tuple(equal.tolist()), int(base.scalar(2, "i", 0))


def _ctr_table(feature: _Table, tables: Mapping[_CtrKey, Counts]) -> Ctr:
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
    if not data:
        return {}
    result, at = {}, 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        size = struct.unpack_from("<I", data, at)[0]
        table = _root(data[at + 4 : at + 4 + size])
        key = _ctr_key(table.table(0))
        result[key] = _ctr_counts(table, key[0])
        at += 4 + size
    return result


def _ctr_counts(table: _Table, kind: str) -> Counts:
    """Return the counts; the keys are in a hash table of pairs (key, row) with empty places."""
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
    """Make nodes from steps; a node that is both a split and a leaf gets an additional node for its leaf."""
    n_nodes, n_trees = len(steps), len(sizes)
    if not (n_nodes == len(splits) == len(leaf_at) == sizes.sum() and n_trees and (sizes > 0).all() and n_outputs > 0):
        raise damaged(
            f"the model's trees must have a split and a leaf number for each of {n_nodes} nodes, got {len(splits)} and "
            f"{len(leaf_at)} for {n_trees} trees"
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


_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_ELEMENTS = ("cat_feature_value", "float_feature", "cat_feature_exact_value")
_ONE_TARGET = ("MultiClass", "MultiClassOneVsAll", "MultiQuantile", "RMSEWithUncertainty")  # losses of several outputs


def from_json(top: Any) -> Model:
    features, info = top["features_info"], top["model_info"]
    if features.get("text_features") or features.get("embedding_features"):
        raise text_error()
    scale, bias = top.get("scale_and_bias") or (1.0, 0.0)
    bias = _numbers(bias if isinstance(bias, list) else [bias])
    symmetric = "oblivious_trees" in top
    nodes, values = _symmetric_trees(top["oblivious_trees"], len(bias)) if symmetric else _nested_trees(top["trees"])
    categorical = features.get("categorical_features") or ()
    ctrs = [_ctr(ctr, top.get("ctr_data") or {}) for ctr in features.get("ctrs") or ()]
    _check_tables(ctrs, training_note(info, "params"), values.shape[1])
    return Model(
        numeric=[_numeric(feature) for feature in features.get("float_features") or ()],
        categorical=[CategoricalFeature(*_identity(feature)) for feature in categorical],
        one_hot=[(whole_number(f["feature_index"]), _whole_numbers(f["values"])) for f in categorical if "values" in f],
        ctrs=ctrs,
        nodes=nodes,
        values=values,
        scale=decimal_number(scale),
        bias=bias,
        category_names={whole_number(c["hash"]): str(c["value"]) for c in features.get("cat_features_hash") or ()},
        **loss_and_classes(info),
    )


def _identity(feature: Mapping[str, Any]) -> tuple[int, str, int]:
    name = feature.get("feature_id") or feature.get("feature_name") or ""
    if not isinstance(name, str):
        raise damaged(f"the model's features must have texts as names, got {name!r:.40}")
    return whole_number(feature["flat_feature_index"]), name, whole_number(feature["feature_index"])


def _numeric(feature: Mapping[str, Any]) -> NumericFeature:
    flat, name, index = _identity(feature)
    borders, treatment = _numbers(feature.get("borders") or ()), feature.get("nan_value_treatment", "AsIs")
    if not isinstance(feature["has_nans"], bool) or treatment not in _TREATMENTS:
        raise damaged(f"missing values must be {', '.join(_TREATMENTS)}, got {treatment!r:.40}")
    missing_right = feature["has_nans"] and treatment == "AsTrue"
    return NumericFeature(flat, name, index, borders.astype(np.float32), missing_right)


def _ctr(ctr: Mapping[str, Any], tables: Mapping[str, Any]) -> Ctr:
    table = tables.get(ctr["identifier"])
    by_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _ELEMENTS}
    for element in ctr["elements"]:
        by_kind[element["combination_element"]].append(element)
    values, above, equal = by_kind.values()
    return Ctr(
        categories=[whole_number(e["cat_feature_index"]) for e in values],
        above=[(whole_number(e["float_feature_index"]), float(np.float32(decimal_number(e["border"])))) for e in above],
        equal=[(whole_number(e["cat_feature_index"]), whole_number(e["value"])) for e in equal],
        kind=str(ctr["ctr_type"]),
        target_border=whole_number(ctr["target_border_idx"]),
        prior=(decimal_number(ctr["prior_numerator"]), decimal_number(ctr["prior_denomerator"])),
        shift=decimal_number(ctr["shift"]),
        scale=decimal_number(ctr["scale"]),
        borders=_numbers(ctr["borders"] or ()).astype(np.float32),
        counts=None if table is None else _counts(table),
    )


def _check_tables(ctrs: Sequence[Ctr], params: Mapping[str, Any], n_outputs: int) -> None:
    """Raise UnsupportedModelError unless all CTRs of a kind count the classes of one target, divided in one way.

    CatBoost writes a single table per kind and combination into .json, whatever its target.
    """
    if all(ctr.kind in COUNTERS for ctr in ctrs):
        return
    loss = (params.get("loss_function") or {}).get("type")
    if n_outputs == 1 or loss in _ONE_TARGET:
        notes = params.get("cat_feature_params") or {}
        groups = (
            notes.get("simple_ctrs"),
            notes.get("combinations_ctrs"),
            *(notes.get("per_feature_ctrs") or {}).values(),
        )
        if groups[0] and all(_divides_in_one_way(group or ()) for group in groups):
            return
    raise UnsupportedModelError(
        "`model` must have CTRs of one target that is divided in one way, got others, or no note of it, in a .json "
        "file, into which CatBoost writes one table for all of them; save the model as .cbm."
    )


def _divides_in_one_way(group: Sequence[Mapping[str, Any]]) -> bool:
    divisions = {(ctr["ctr_type"], str(ctr.get("target_binarization"))) for ctr in group}
    return len(divisions) == len({kind for kind, _ in divisions})


def _counts(table: Mapping[str, Any]) -> Counts:
    entries, stride = list(table["hash_map"] or ()), whole_number(table["hash_stride"])
    keys = np.array([whole_number(key) for key in entries[::stride]], dtype=np.uint64)
    columns = [_numbers(entries[column::stride]) for column in range(1, min(stride, len(entries)))]
    return Counts(keys, np.stack(columns, axis=1), decimal_number(table["counter_denominator"]))


def _whole_numbers(values: Sequence[Any]) -> Ints:
    """Refuse fractions, booleans and text, which numpy would convert."""
    if not {int}.issuperset(map(type, values)):
        raise damaged(f"the model's lists must hold whole numbers, got {str(values)[:60]}")
    return np.array(values, dtype=np.int64)


def _numbers(values: Sequence[Any]) -> Floats:
    """Refuse booleans and text, which numpy would convert."""
    if not {int, float}.issuperset(map(type, values)):
        raise damaged(f"the model's lists must hold numbers, got {str(values)[:60]}")
    return np.array(values, dtype=np.float64)


def _symmetric_trees(trees: Sequence[Mapping[str, Any]] | None, n_bias: int) -> tuple[Nodes, Floats]:
    if not isinstance(trees, list | None):
        raise damaged(f"the model's trees must be a list, got {trees!r:.40}")
    trees = trees or ()
    splits_by_tree = [[split["split_index"] for split in tree.get("splits") or ()] for tree in trees]
    sizes = np.array([len(splits) for splits in splits_by_tree], dtype=np.int64)
    splits = _whole_numbers(list(itertools.chain.from_iterable(splits_by_tree)))
    leaves = [tree["leaf_values"] for tree in trees]
    values = _numbers(list(itertools.chain.from_iterable(leaves)))
    n_outputs = len(leaves[0]) >> min(len(splits_by_tree[0]), MAX_DEPTH) if leaves else n_bias
    check_symmetric(sizes, splits, len(values), n_outputs)
    for tree, (tree_leaves, tree_splits) in enumerate(zip(leaves, splits_by_tree, strict=True)):
        if len(tree_leaves) != n_outputs << len(tree_splits):
            raise damaged(
                f"the model's symmetric trees must have a value per leaf, got {len(tree_leaves)} for tree {tree} of "
                f"{len(tree_splits)} splits"
            )
    return symmetric_nodes(sizes, splits), values.reshape(-1, n_outputs)


def _nested_trees(trees: Sequence[Mapping[str, Any]]) -> tuple[Nodes, Floats]:
    split, left, right = list[Any](), list[int](), list[int]()
    roots, leaves, n_leaves = list[int](), list[Any](), [0]
    for tree in trees:
        roots.append(len(split))
        waiting: list[tuple[Mapping[str, Any], int]] = [(tree, -1)]
        while waiting:
            node, parent = waiting.pop()
            if parent >= 0:
                right[parent] = len(split)
            is_inner = "split" in node
            split.append(node["split"]["split_index"] if is_inner else -1)
            left.append(len(split) if is_inner else -1)
            right.append(-1)
            if is_inner:
                waiting += [(node["right"], len(split) - 1), (node["left"], -1)]
            else:
                leaves.append(node["value"])
        n_leaves.append(len(leaves))
    rows = [value if isinstance(value, list) else [value] for value in leaves]
    values = _numbers(list(itertools.chain.from_iterable(rows))).reshape(len(rows), -1)
    if any(len(row) != values.shape[1] for row in rows):
        raise damaged("the model's leaves must have a value per output each, got others")
    leaf = np.cumsum(np.array(left) < 0) - 1
    label = leaf - np.repeat(n_leaves[:-1], np.diff([*roots, len(split)]))
    return Nodes(np.array(roots), _whole_numbers(split), np.array(left), np.array(right), leaf, label), values
