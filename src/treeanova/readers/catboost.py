"""CatBoost models as a Forest: from memory, from .cbm and from .json files, none of which needs CatBoost itself.

Facts relied on (measured with CatBoost 1.2.10):

- Splits have one global order: the borders of all numeric features, then the one-hot values of all categorical
  features, then the borders of all CTRs. A tree holds positions in this order.
- A numeric split is true when float32(x) > border. NaN is true only where the feature has ``has_nans`` and ``AsTrue``.
- Symmetric trees: leaf = sum of (split d is true) << d. Other trees in .cbm are nodes with steps (left, right) to the
  next node, where 0 means "stop here", so that a node can be a split and a leaf at once. Leaf numbers are those of
  ``calc_leaf_indexes``: in .cbm the stored ones, in .json (which holds none) leaves from left to right.
- The score is scale · (sum of leaves) + bias.
- A category is known by the low 32 bits of CityHash64 of its text; integers and booleans are texts such as "1" and "0";
  floats, None and NaN are refused. A CTR table knows the category by a second, invertible hash of this one.
- A CTR of one categorical feature gives each category a float32 number, so that a split on it is a set of categories.

A .cbm file is "CBM1", the size of a FlatBuffers table, the table, and then one such table for each CTR table.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import pathlib
import struct
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.features import Encoder, Feature, Floats, Numeric, Schema, distinct, is_missing
from treeanova.forest import Bools, Forest, Ints, assemble, bound_up_to

# The response is what the scikit-learn classes predict. Several outputs with "logit": each is its own log-odds, and the
# probabilities need not add up to one.
_LINKS = {
    "logit": "Logloss CrossEntropy Focal MultiClassOneVsAll MultiLogloss MultiCrossEntropy",
    "softmax": "MultiClass",
    "log": "Poisson Tweedie",
    "identity": "RMSE MAE Quantile MultiQuantile GroupQuantile Expectile Lq Huber MAPE RMSPE LogCosh MultiRMSE Cox "
    "SurvivalAft LogLinQuantile "
    "MultiRMSEWithMissingValues YetiRank YetiRankPairwise PairLogit PairLogitPairwise QueryRMSE QuerySoftMax "
    "QueryCrossEntropy StochasticFilter StochasticRank LambdaMart",
}
_CTR_KINDS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "FloatTargetMeanValue", "Counter", "FeatureFreq")
_MEANS, _COUNTERS = _CTR_KINDS[2:4], _CTR_KINDS[4:]
_MOST_SET_ENTRIES = 1 << 28
_DEEPEST = 30
_DAMAGE = (
    AttributeError, IndexError, KeyError, OverflowError, RecursionError, TypeError, ValueError, struct.error,
)  # fmt: skip
Singles = npt.NDArray[np.float32]


# ---------------------------------------------------------------------------------------------------------------------
# Categories


_MASK = (1 << 64) - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_PAIR = 0x9DDFEA08EB382D69
# A CTR table's key of category hash c is _CTR² · c modulo 2^64, with c sign-extended from 32 bits; _CTR is odd.
_CTR = 0x4906BA494954CB65
_CTR_INVERSE = pow(_CTR, -2, 1 << 64)
_EMPTY = np.uint64(_MASK)  # stands in a CTR table where there is no category


def category_hash(text: bytes) -> int:
    """The 32-bit number by which CatBoost knows a category.

    It is the low half of CityHash64, version 1.0 (Pike and Alakuijala, Google, 2011), written for Python's integers.
    """
    size = len(text)
    words = [int.from_bytes(text[i : i + 8], "little") for i in range(0, size - 7, 8)]
    if size <= 16:
        return _hash_to_16(text) & 0xFFFFFFFF
    tail = [int.from_bytes(text[i : i + 8], "little") for i in range(max(size - 64, size % 8), size, 8)]
    if size <= 32:
        return _hash_to_32(words, tail, size) & 0xFFFFFFFF
    if size <= 64:
        return _hash_to_64(words, tail, size) & 0xFFFFFFFF
    return _hash_long(words, tail, size) & 0xFFFFFFFF


def _turn(value: int, shift: int) -> int:
    value &= _MASK
    return (value >> shift | value << (64 - shift)) & _MASK


def _fold(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _mix(low: int, high: int) -> int:
    first = _fold(((low ^ high) & _MASK) * _PAIR)
    return _fold(((high & _MASK) ^ first) * _PAIR) * _PAIR & _MASK


def _hash_to_16(text: bytes) -> int:
    size = len(text)
    if size > 8:
        first, last = int.from_bytes(text[:8], "little"), int.from_bytes(text[-8:], "little")
        return _mix(first, _turn(last + size, size)) ^ last
    if size >= 4:
        return _mix(size + (int.from_bytes(text[:4], "little") << 3), int.from_bytes(text[-4:], "little"))
    if size:
        return _fold((text[0] + (text[size >> 1] << 8)) * _K2 ^ (size + (text[-1] << 2)) * _K3) * _K2 & _MASK
    return _K2


def _hash_to_32(words: list[int], tail: list[int], size: int) -> int:
    a, b, c, d = words[0] * _K1, words[1], tail[-1] * _K2, tail[-2] * _K0
    return _mix(_turn(a - b, 43) + _turn(c, 30) + d, a + _turn(b ^ _K3, 20) - c + size)


def _half(start: int, second: int, third: int, last: int) -> tuple[int, int]:
    """Two numbers from 32 bytes, given as words of which the first has been mixed already."""
    end = start + second + third
    return end + last, _turn(start + last, 52) + _turn(end, 31) + _turn(start, 37) + _turn(start + second, 7)


def _hash_to_64(words: list[int], tail: list[int], size: int) -> int:
    front, front_mix = _half(words[0] + (size + tail[-2]) * _K0, words[1], words[2], words[3])
    back, back_mix = _half(words[2] + tail[-4], tail[-3], tail[-2], tail[-1])
    rest = _fold((front + back_mix) * _K2 + (back + front_mix) * _K0)
    return _fold(rest * _K0 + front_mix) * _K2 & _MASK


def _quarter(words: list[int], a: int, b: int) -> tuple[int, int]:
    """Two numbers from 32 bytes, given as four words, and two seeds."""
    start = a + words[0]
    end = start + words[1] + words[2]
    return (end + words[3]) & _MASK, (_turn(b + start + words[3], 21) + _turn(end, 44) + start) & _MASK


def _hash_long(words: list[int], tail: list[int], size: int) -> int:
    y, z = tail[-2] ^ _K1, tail[-7] ^ _K0
    v, w = _quarter(tail[-8:-4], size, y), _quarter(tail[-4:], size * _K1, _K0)
    z += _fold(v[1]) * _K1
    x = _turn(z + words[0], 39) * _K1
    y = _turn(y, 33) * _K1
    for i in range(0, (size - 1) // 64 * 8, 8):
        x = (_turn(x + y + v[0] + words[i + 2], 37) * _K1 & _MASK) ^ w[1]
        y = (_turn(y + v[1] + words[i + 6], 42) * _K1 & _MASK) ^ v[0]
        z = _turn((z & _MASK) ^ w[0], 33)
        v = _quarter(words[i : i + 4], v[1] * _K1, x + w[0])
        w = _quarter(words[i + 4 : i + 8], z + w[1], y)
        z, x = x, z
    return _mix(_mix(v[0], w[0]) + _fold(y) * _K1 + z, _mix(v[1], w[1]) + x)


@dataclasses.dataclass(frozen=True)
class Hashed(Encoder):
    """A category given as text or as an integer, known by its hash; `names` label the hashes, where they are known."""

    hashes: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names, or the hashes as text: a model does not hold its categories' names."""
        return self.names or tuple(map(str, self.hashes))

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the hashes, n_categories where unseen, NaN for None and NaN."""
        values, inverse = distinct(column)
        positions = {number: float(code) for code, number in enumerate(self.hashes)}
        unseen = float(len(self.hashes))
        texts = (None if is_missing(value) else _as_text(value, column.dtype, name) for value in values)
        codes = [np.nan if text is None else positions.get(category_hash(text), unseen) for text in texts]
        return np.array(codes, dtype=np.float64)[inverse]

    def labelled(self, column: npt.NDArray[Any], name: str) -> Hashed:
        """The same encoder with the names of categories that a raw column holds."""
        known = dict(zip(self.hashes, self.labels, strict=True))
        for value in distinct(column)[0]:
            if not is_missing(value):
                text = _as_text(value, column.dtype, name)
                known[category_hash(text)] = text.decode(errors="replace")
        return Hashed(self.hashes, tuple(known[number] for number in self.hashes))


def _as_text(value: object, dtype: np.dtype[Any], name: str) -> bytes:
    """A category as CatBoost spells it; tables hand booleans on as floats 0 and 1, which it spells "0" and "1"."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, (int, np.integer, np.bool_)) or (dtype.kind == "f" and value in {0.0, 1.0}):
        return str(int(value)).encode()
    raise TypeError(
        f"column {name!r} must hold categories as text or integers, got {value!r}: CatBoost refuses it too; "
        "convert the column to text as for training."
    )


# ---------------------------------------------------------------------------------------------------------------------
# What both kinds of files hold


@dataclasses.dataclass(frozen=True)
class _NumericFeature:
    flat: int
    name: str
    borders: Singles
    missing_right: bool


@dataclasses.dataclass(frozen=True)
class _CategoricalFeature:
    flat: int
    name: str
    index: int


_AnyFeature = _NumericFeature | _CategoricalFeature


@dataclasses.dataclass(frozen=True)
class _Counts:
    """What training counted: one row per category, named by the CTR table's key; `total` is for counters."""

    keys: npt.NDArray[np.uint64]
    rows: Floats
    total: float


@dataclasses.dataclass(frozen=True)
class _Ctr:
    """A number per category, and the borders that trees compare it to."""

    categories: Sequence[int]
    is_simple: bool
    kind: str
    target_border: int
    prior: tuple[float, float]
    shift: float
    scale: float
    borders: Singles
    counts: _Counts | None


@dataclasses.dataclass(frozen=True)
class _Nodes:
    """Nodes of all trees: global position of the split, children (-1 at leaves), row of the leaf's values, label."""

    roots: Ints
    split: Ints
    left: Ints
    right: Ints
    leaf: Ints
    label: Ints


@dataclasses.dataclass(frozen=True)
class _Model:
    numeric: Sequence[_NumericFeature]
    categorical: Sequence[_CategoricalFeature]
    one_hot: Sequence[tuple[int, Ints]]
    ctrs: Sequence[_Ctr]
    nodes: _Nodes
    values: Floats
    scale: float
    bias: Floats
    loss: Mapping[str, Any]
    class_names: Sequence[Any]
    category_names: Mapping[int, str]


def _symmetric_nodes(sizes: Ints, splits: Ints) -> _Nodes:
    """Full binary trees: level d asks split d, and a node's place in its level is the leaf number so far."""
    n_nodes, n_leaves = (2 << sizes) - 1, 1 << sizes
    roots, first_leaf, first_split = (np.cumsum(n) - n for n in (n_nodes, n_leaves, sizes))
    split, left, right = (np.full(n_nodes.sum(), -1, dtype=np.int64) for _ in range(3))
    leaf, label = (np.zeros(n_nodes.sum(), dtype=np.int64) for _ in range(2))
    for size in np.unique(sizes):
        own = sizes == size
        root = roots[own][:, None]
        for level in range(size):
            place = np.arange(1 << level)
            node = root + (1 << level) - 1 + place
            split[node] = splits[first_split[own] + level][:, None]
            left[node] = root + (2 << level) - 1 + place
            right[node] = left[node] + (1 << level)
        place = np.arange(1 << size)
        node = root + (1 << size) - 1 + place
        leaf[node] = first_leaf[own][:, None] + place
        label[node] = place
    return _Nodes(roots, split, left, right, leaf, label)


def _check_symmetric(sizes: Ints, splits: Ints, n_values: int, n_outputs: int) -> None:
    """Sizes fit the numbers of splits and values, so that no more is allocated than the file is long."""
    fits = n_outputs > 0 and (sizes >= 0).all() and (sizes <= _DEEPEST).all() and sizes.sum() == len(splits)
    if not fits or int((1 << sizes).sum()) * n_outputs != n_values:
        raise ModelFileError("the model's symmetric trees must have a value per leaf, got others; file damaged?")


# ---------------------------------------------------------------------------------------------------------------------
# .json


def _from_json(top: Any) -> _Model:
    features, info = top["features_info"], top["model_info"]
    if features.get("text_features") or features.get("embedding_features"):
        raise _text_error()
    scale, bias = top.get("scale_and_bias") or (1.0, 0.0)
    bias = np.atleast_1d(np.asarray(bias, dtype=np.float64))
    symmetric = "oblivious_trees" in top
    nodes, values = _json_symmetric(top["oblivious_trees"], len(bias)) if symmetric else _json_steps(top["trees"])
    categorical = features.get("categorical_features") or ()
    return _Model(
        numeric=[_json_numeric(feature) for feature in features.get("float_features") or ()],
        categorical=[_CategoricalFeature(*_json_identity(feature)) for feature in categorical],
        one_hot=[
            (int(f["feature_index"]), np.array(f["values"], dtype=np.int64)) for f in categorical if "values" in f
        ],
        ctrs=[_json_ctr(ctr, top.get("ctr_data") or {}) for ctr in features.get("ctrs") or ()],
        nodes=nodes,
        values=values,
        scale=float(scale),
        bias=bias,
        category_names={int(c["hash"]): str(c["value"]) for c in features.get("cat_features_hash") or ()},
        **_loss_and_classes(info),
    )


def _loss_and_classes(info: Mapping[str, Any]) -> dict[str, Any]:
    """Loss and class names from the model's notes about its training, some of which are JSON as text."""
    notes = {key: info.get(key) or {} for key in ("params", "class_params")}
    params, classes = (json.loads(note) if isinstance(note, str) else note for note in notes.values())
    return {"loss": dict(params.get("loss_function") or {}), "class_names": list(classes.get("class_names") or ())}


def _json_identity(feature: Mapping[str, Any]) -> tuple[int, str, int]:
    name = feature.get("feature_id") or feature.get("feature_name") or ""
    return int(feature["flat_feature_index"]), str(name), int(feature["feature_index"])


def _json_numeric(feature: Mapping[str, Any]) -> _NumericFeature:
    flat, name, _ = _json_identity(feature)
    borders = np.array(feature.get("borders") or (), dtype=np.float32)
    missing_right = bool(feature["has_nans"]) and feature.get("nan_value_treatment") == "AsTrue"
    return _NumericFeature(flat, name, borders, missing_right)


def _json_ctr(ctr: Mapping[str, Any], tables: Mapping[str, Any]) -> _Ctr:
    elements, table = ctr["elements"], tables.get(ctr["identifier"])
    categories = [int(e["cat_feature_index"]) for e in elements if e["combination_element"] == "cat_feature_value"]
    return _Ctr(
        categories=categories,
        is_simple=len(elements) == len(categories) == 1,
        kind=str(ctr["ctr_type"]),
        target_border=int(ctr["target_border_idx"]),
        prior=(float(ctr["prior_numerator"]), float(ctr["prior_denomerator"])),
        shift=float(ctr["shift"]),
        scale=float(ctr["scale"]),
        borders=np.array(ctr["borders"] or (), dtype=np.float32),
        counts=None if table is None else _json_counts(table),
    )


def _json_counts(table: Mapping[str, Any]) -> _Counts:
    """The counts; they come as one list of keys (as text), each followed by its row."""
    entries, stride = list(table["hash_map"] or ()), int(table["hash_stride"])
    keys = np.array([int(key) for key in entries[::stride]], dtype=np.uint64)
    columns = [np.array(entries[column::stride], dtype=np.float64) for column in range(1, min(stride, len(entries)))]
    return _Counts(keys, np.stack(columns, axis=1), float(table["counter_denominator"]))


def _json_symmetric(trees: Sequence[Mapping[str, Any]] | None, n_bias: int) -> tuple[_Nodes, Floats]:
    trees = trees or ()
    asked = [[split["split_index"] for split in tree.get("splits") or ()] for tree in trees]
    sizes = np.array([len(splits) for splits in asked], dtype=np.int64)
    splits = np.array(list(itertools.chain.from_iterable(asked)), dtype=np.int64)
    leaves = [tree["leaf_values"] for tree in trees]
    values = np.array(list(itertools.chain.from_iterable(leaves)), dtype=np.float64)
    n_outputs = len(leaves[0]) >> min(len(asked[0]), _DEEPEST) if leaves else n_bias
    _check_symmetric(sizes, splits, len(values), n_outputs)
    if any(len(own) != n_outputs << len(splits) for own, splits in zip(leaves, asked, strict=True)):
        raise ModelFileError("the model's symmetric trees must have a value per leaf, got others; file damaged?")
    return _symmetric_nodes(sizes, splits), values.reshape(-1, n_outputs)


def _json_steps(trees: Sequence[Mapping[str, Any]]) -> tuple[_Nodes, Floats]:
    """Nested nodes, numbered in the order in which a walk that goes left first meets them."""
    split: list[int] = []
    left: list[int] = []
    right: list[int] = []
    values: list[Any] = []
    roots: list[int] = []
    n_leaves = [0]
    for tree in trees:
        roots.append(len(split))
        waiting: list[tuple[Mapping[str, Any], int]] = [(tree, -1)]
        while waiting:
            node, parent = waiting.pop()
            if parent >= 0:
                right[parent] = len(split)
            while "split" in node:
                waiting.append((node["right"], len(split)))
                split.append(node["split"]["split_index"])
                left.append(len(split))
                right.append(-1)
                node = node["left"]
            values.append(node["value"])
            split.append(-1)
            left.append(-1)
            right.append(-1)
        n_leaves.append(len(values))
    matrix = np.array(values, dtype=np.float64).reshape(len(values), -1)
    asked, is_leaf = np.array(split, dtype=np.int64), np.array(left) < 0
    leaf = np.cumsum(is_leaf) - 1
    label = leaf - np.repeat(n_leaves[:-1], np.diff([*roots, len(split)]))
    return _Nodes(np.array(roots), asked, np.array(left), np.array(right), leaf, label), matrix


# ---------------------------------------------------------------------------------------------------------------------
# .cbm


class _Budget:
    """Bytes that may still be read: an honest file holds its parts once, a hostile one may refer to one many times."""

    def __init__(self, data: bytes) -> None:
        self.left = 2 * len(data)

    def spend(self, size: int) -> None:
        self.left -= size
        if self.left < 0:
            raise ModelFileError("the model's parts must be as long as its file, got longer ones; file damaged?")


@dataclasses.dataclass(frozen=True)
class _Table:
    """A FlatBuffers table: fields by number, each absent, a scalar in place, or the distance to its content."""

    data: bytes
    at: int
    budget: _Budget

    def _unpack(self, code: str, at: int) -> int:
        if at < 0:
            raise ModelFileError("the model's parts must lie within its file, got others; file damaged?")
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
        """Numbers or structures in a row; empty when absent."""
        at = self._follow(field)
        if at is None:
            return np.empty(0, dtype)
        size = self._unpack("<I", at)
        self.budget.spend(size * np.dtype(dtype).itemsize)
        return np.frombuffer(self.data, dtype, size, at + 4)

    def text(self, field: int) -> str:
        """A string; empty when absent."""
        return self.array(field, np.uint8).tobytes().decode()

    def table(self, field: int) -> _Table:
        """A table that must be there."""
        at = self._follow(field)
        if at is None:
            raise ModelFileError("the model's parts must be there, got none; file damaged?")
        return _Table(self.data, at, self.budget)

    def tables(self, field: int) -> list[_Table]:
        """Tables in a row."""
        start = self._follow(field)
        steps = self.array(field, "<u4").tolist()
        return [_Table(self.data, (start or 0) + 4 + 4 * i + step, self.budget) for i, step in enumerate(steps)]


def _root(data: bytes) -> _Table:
    return _Table(data, struct.unpack_from("<I", data)[0], _Budget(data))


def _from_cbm(data: bytes) -> _Model:
    if data[:4] != b"CBM1":
        raise ModelFileError("a .cbm file must begin with CBM1, got something else; file damaged?")
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    core = _root(data[8:end])
    trees = core.table(1)
    if trees.tables(12) or trees.tables(18):
        raise _text_error()
    info = {key: note for table in core.tables(2) if (key := table.text(0)) and (note := table.text(1))}
    ctrs = trees.tables(7)
    tables = _cbm_tables(data[end:]) if ctrs else {}
    bias = trees.array(16, "<f8")
    nodes, values = _cbm_trees(trees)
    return _Model(
        numeric=[_cbm_numeric(feature) for feature in trees.tables(5)],
        categorical=[
            _CategoricalFeature(int(f.scalar(1, "i", -1)), f.text(2), int(f.scalar(0, "i", -1)))
            for f in trees.tables(4)
        ],
        one_hot=[(int(f.scalar(0, "i", -1)), f.array(1, "<i4").astype(np.int64)) for f in trees.tables(6)],
        ctrs=[_cbm_ctr(ctr, tables) for ctr in ctrs],
        nodes=nodes,
        values=values,
        scale=trees.scalar(14, "d", 1.0),
        bias=bias if len(bias) else np.array([trees.scalar(15, "d", 0.0)]),
        category_names={},
        **_loss_and_classes(info),
    )


def _cbm_numeric(feature: _Table) -> _NumericFeature:
    missing_right = bool(feature.scalar(0, "b", 0)) and feature.scalar(5, "b", 0) == 2
    return _NumericFeature(int(feature.scalar(2, "i", -1)), feature.text(4), feature.array(3, "<f4"), missing_right)


_CtrKey = tuple[str, tuple[int, ...], bytes]


def _cbm_ctr_key(base: _Table) -> _CtrKey:
    """Kind, categorical features, and what else the CTR combines."""
    combination = base.table(0)
    others = combination.array(1, "<u8").tobytes() + b"|" + combination.array(2, "<u8").tobytes()
    kind = _CTR_KINDS[int(base.scalar(1, "B", 0))]
    return kind, tuple(combination.array(0, "<i4").tolist()), others


def _cbm_ctr(feature: _Table, tables: Mapping[_CtrKey, _Counts]) -> _Ctr:
    ctr = feature.table(0)
    kind, categories, others = key = _cbm_ctr_key(ctr.table(0))
    return _Ctr(
        categories=categories,
        is_simple=len(categories) == 1 and others == b"|",
        kind=kind,
        target_border=int(ctr.scalar(1, "i", 0)),
        prior=(ctr.scalar(2, "f", 0.0), ctr.scalar(3, "f", 1.0)),
        shift=ctr.scalar(4, "f", 0.0),
        scale=ctr.scalar(5, "f", 1.0),
        borders=feature.array(1, "<f4"),
        counts=tables.get(key),
    )


def _cbm_tables(data: bytes) -> dict[_CtrKey, _Counts]:
    """The CTR tables: their number, then each with its size before it."""
    if not data:
        return {}
    result, at = {}, 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        size = struct.unpack_from("<I", data, at)[0]
        table = _root(data[at + 4 : at + 4 + size])
        key = _cbm_ctr_key(table.table(0))
        result[key] = _cbm_counts(table, key[0])
        at += 4 + size
    return result


def _cbm_counts(table: _Table, kind: str) -> _Counts:
    """The counts; the keys are in a hash table of pairs (key, row) with empty places."""
    buckets = table.array(1, np.uint8).view(np.dtype([("key", "<u8"), ("row", "<u4")]))
    buckets = buckets[buckets["key"] != _EMPTY]
    blob = table.array(2, np.uint8)
    if kind in _MEANS:
        rows = np.stack([blob.view("<f4")[::2].astype(np.float64), blob.view("<i4")[1::2]], axis=1)
    else:
        n_columns = 1 if kind in _COUNTERS else int(table.scalar(4, "i", 0))
        rows = blob.view("<i4").reshape(-1, n_columns).astype(np.float64)
    return _Counts(buckets["key"], rows[buckets["row"]], table.scalar(3, "i", 0))


def _cbm_trees(trees: _Table) -> tuple[_Nodes, Floats]:
    n_outputs, values = int(trees.scalar(0, "i", 1)), trees.array(8, "<f8")
    sizes, splits = trees.array(2, "<i4").astype(np.int64), trees.array(1, "<i4").astype(np.int64)
    steps = trees.array(10, "<u4")
    if len(steps):
        return _step_nodes(sizes, splits, steps, trees.array(11, "<u4"), n_outputs), values.reshape(-1, n_outputs)
    _check_symmetric(sizes, splits, len(values), n_outputs)
    return _symmetric_nodes(sizes, splits), values.reshape(-1, n_outputs)


def _step_nodes(sizes: Ints, splits: Ints, steps: npt.NDArray[np.uint32], leaf_at: Ints, n_outputs: int) -> _Nodes:
    """Nodes from steps; a node that is a split and a leaf gets a further node for its leaf."""
    n_nodes, n_trees = len(steps), len(sizes)
    if not (n_nodes == len(splits) == len(leaf_at) == sizes.sum() and n_trees and (sizes > 0).all() and n_outputs > 0):
        raise ModelFileError(
            "the model's trees must have a split and a leaf number per node, got others; file damaged?"
        )
    step = np.stack([steps & 0xFFFF, steps >> 16]).astype(np.int64)
    tree = np.repeat(np.arange(n_trees), sizes)
    ends = np.cumsum(sizes)
    child = np.arange(n_nodes) + step
    if (child >= ends[tree]).any():
        raise ModelFileError("the model's trees must step to their own nodes, got others; file damaged?")
    stops = (step == 0).sum(axis=0)
    half = np.flatnonzero(stops == 1)
    further = n_nodes + np.arange(len(half))
    child[np.where(step[0, half] == 0, 0, 1), half] = further
    child[:, stops == 2] = -1
    roots, leaf = ends - sizes, leaf_at // n_outputs
    first = np.minimum.reduceat(np.where(stops > 0, leaf, np.iinfo(np.int64).max), roots)
    label = leaf - first[tree]
    left, right = np.concatenate([child, np.full((2, len(half)), -1)], axis=1)
    split, leaf, label = (np.concatenate([array, array[half]]) for array in (splits, leaf, label))
    return _Nodes(roots, split, left, right, leaf, label)


# ---------------------------------------------------------------------------------------------------------------------
# Splits


@dataclasses.dataclass(frozen=True)
class _Splits:
    """The decision at each global split, and a last entry that stands for "none"."""

    feature: Ints
    bound: Floats
    missing_left: Bools
    category_start: Ints
    category_left: Bools


def _ctr_values(ctr: _Ctr, counts: _Counts) -> tuple[Singles, np.float32]:
    """The CTR's number for each row of counts, and for a category without one, in float32 as CatBoost reckons."""
    good, total, unseen_total = _good_and_total(ctr, counts)
    goods, totals = np.append(good, 0.0).astype(np.float32), np.append(total, unseen_total).astype(np.float32)
    numerator, denominator, shift, scale = (np.float32(number) for number in (*ctr.prior, ctr.shift, ctr.scale))
    values: Singles = ((goods + numerator) / (totals + denominator) + shift) * scale
    return values[:-1], values[-1]


def _good_and_total(ctr: _Ctr, counts: _Counts) -> tuple[Floats, Floats, float]:
    """Numerator and denominator for each row of counts, and the denominator for a category without one."""
    rows = counts.rows
    if ctr.kind in _MEANS:
        return rows[:, 0], rows[:, 1], 0.0
    if ctr.kind in _COUNTERS:
        return rows[:, 0], np.full(len(rows), counts.total), counts.total
    if ctr.kind in _CTR_KINDS:
        return _classes_above(ctr, rows), rows.sum(axis=1), 0.0
    raise UnsupportedModelError(f"CatBoost's CTR {ctr.kind!r} is unknown here; train with simple_ctr=['Borders'].")


def _classes_above(ctr: _Ctr, rows: Floats) -> Floats:
    """How many of a category's rows are in the classes that the CTR counts."""
    n_classes = rows.shape[1]
    if not 0 <= ctr.target_border < n_classes:
        raise ModelFileError(f"a CTR must count one of {n_classes} classes, got {ctr.target_border}; file damaged?")
    if ctr.kind == "Buckets":
        return rows[:, ctr.target_border]
    result: Floats = rows[:, 1 if n_classes <= 2 else ctr.target_border + 1 :].sum(axis=1)
    return result


def _category_hashes(counts: _Counts) -> tuple[npt.NDArray[np.int64], Bools]:
    """Hashes of the categories of a CTR table, and which rows can be met at all."""
    numbers = (counts.keys * np.uint64(_CTR_INVERSE)).astype(np.int64)
    return numbers & 0xFFFFFFFF, (counts.keys != _EMPTY) & (numbers >= -(1 << 31)) & (numbers < 1 << 31)


def _counts_of(ctr: _Ctr) -> _Counts:
    if not ctr.is_simple:
        raise UnsupportedModelError(
            "the model splits on a CTR of a combination of features, which is no set of categories of one feature; "
            "train with max_ctr_complexity=1 or a larger one_hot_max_size."
        )
    if ctr.counts is None:
        raise UnsupportedModelError(
            "the model's CTR tables are missing, so that it cannot predict; train with "
            "final_ctr_computation_mode='Default'."
        )
    return ctr.counts


def _known_categories(model: _Model, ctrs: Iterable[_Ctr]) -> dict[int, Ints]:
    """Sorted hashes of the categories that splits can tell apart, for each categorical feature."""
    found: dict[int, list[Ints]] = {feature.index: [np.empty(0, np.int64)] for feature in model.categorical}
    for index, values in model.one_hot:
        if len(np.unique(values & 0xFFFFFFFF)) < len(values):
            raise ModelFileError("the model's one-hot values must differ, got equal ones; file damaged?")
        found[index].append(values & 0xFFFFFFFF)
    for ctr in ctrs:
        hashes, met = _category_hashes(_counts_of(ctr))
        found[ctr.categories[0]].append(hashes[met])
    return {index: np.unique(np.concatenate(parts)) for index, parts in found.items()}


def _ctr_rights(ctr: _Ctr, known: Ints) -> Bools:
    """Whether each known category, and last an unseen one, is above each border."""
    counts = _counts_of(ctr)
    of_rows, of_unseen = _ctr_values(ctr, counts)
    hashes, met = _category_hashes(counts)
    values = np.full(len(known) + 1, of_unseen)
    values[np.searchsorted(known, hashes[met])] = of_rows[met]
    return values > ctr.borders[:, None]


def _one_hot_rights(values: Ints, known: Ints) -> Bools:
    """Whether each known category, and last an unseen one, is each value."""
    result: Bools = np.append(known, -1) == (values & 0xFFFFFFFF)[:, None]
    return result


def _check_borders(borders: Iterable[Singles]) -> None:
    for own in borders:
        if np.isnan(own).any() or (own[1:] < own[:-1]).any():
            raise ModelFileError("the model's borders must be sorted numbers, got others; file damaged?")


@dataclasses.dataclass(frozen=True)
class _Question:
    """Splits on one categorical feature; `rights` gives a row of answers per split from the known categories."""

    index: int
    n_splits: int
    rights: Callable[[Ints], Bools]
    used: bool


def _questions(model: _Model, used: Ints) -> list[_Question]:
    """One-hot features and CTRs in their global order; `used` are the global positions of splits in trees, sorted."""
    asked: list[tuple[int, int, Callable[[Ints], Bools]]] = [
        (index, len(values), functools.partial(_one_hot_rights, values)) for index, values in model.one_hot
    ]
    asked += [(next(iter(c.categories), -1), len(c.borders), functools.partial(_ctr_rights, c)) for c in model.ctrs]
    first = sum(len(feature.borders) for feature in model.numeric)
    ends = np.searchsorted(used, first + np.cumsum([0, *(n_splits for _, n_splits, _ in asked)]))
    return [_Question(*question, used=bool(n)) for question, n in zip(asked, np.diff(ends), strict=True)]


def _splits(model: _Model, position: Mapping[int, int], used: Ints) -> tuple[_Splits, dict[int, Ints]]:
    """All splits in their global order, and the known categories of each categorical feature."""
    _check_borders([feature.borders for feature in model.numeric] + [ctr.borders for ctr in model.ctrs])
    questions = _questions(model, used)
    ctrs = [ctr for ctr, question in zip(model.ctrs, questions[len(model.one_hot) :], strict=True) if question.used]
    known = _known_categories(model, ctrs)
    flat = {feature.index: feature.flat for feature in model.categorical}
    start, sets = _category_sets(questions, known)
    n_borders = [len(feature.borders) for feature in model.numeric]
    places = [position[f.flat] for f in model.numeric] + [position[flat[q.index]] if q.used else -1 for q in questions]
    n_others = len(start) + 1
    missing_left = np.repeat(np.array([not feature.missing_right for feature in model.numeric], dtype=bool), n_borders)
    borders = np.concatenate([np.empty(0), *(feature.borders for feature in model.numeric)])
    splits = _Splits(
        feature=np.repeat([*places, -1], [*n_borders, *(question.n_splits for question in questions), 1]),
        bound=np.append(bound_up_to(borders), np.full(n_others, np.nan)),
        missing_left=np.append(missing_left, np.zeros(n_others, dtype=bool)),
        category_start=np.concatenate([np.full(len(borders), -1), start, [-1]]),
        category_left=sets,
    )
    return splits, known


def _category_sets(questions: Sequence[_Question], known: Mapping[int, Ints]) -> tuple[Ints, Bools]:
    """Start of each split's set, -1 for those that no tree asks, and the sets one after the other."""
    widths = [len(known[question.index]) + 1 if question.used else 0 for question in questions]
    sizes = np.array([width * q.n_splits for width, q in zip(widths, questions, strict=True)], dtype=np.int64)
    if sizes.sum() > _MOST_SET_ENTRIES:
        raise UnsupportedModelError(
            f"the model's splits on categories must need at most {_MOST_SET_ENTRIES} entries, got {sizes.sum()}; "
            "train with fewer categories."
        )
    starts = [
        first + width * np.arange(question.n_splits) if width else np.full(question.n_splits, -1)
        for first, width, question in zip(np.cumsum(sizes) - sizes, widths, questions, strict=True)
    ]
    sets = [~question.rights(known[question.index]).ravel() for question in questions if question.used]
    empty = np.empty(0, dtype=np.int64)
    return np.concatenate([empty, *starts]), np.concatenate([empty.astype(bool), *sets])


# ---------------------------------------------------------------------------------------------------------------------
# The forest


def read(model: Any) -> Forest:
    """The Forest of a fitted CatBoostRegressor, CatBoostClassifier, CatBoostRanker or CatBoost."""
    if not model.is_fitted():
        raise UnsupportedModelError(f"`model` must be fitted, got an unfitted {type(model).__name__}; fit it first.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.cbm"
        model.save_model(str(path), format="cbm")
        return read_file(path)


def read_file(path: pathlib.Path) -> Forest:
    """The Forest of a model saved as .cbm or as .json."""
    path = pathlib.Path(path)
    data = path.read_bytes()
    is_json = path.suffix.lower() == ".json"
    try:
        with np.errstate(all="ignore"):
            return _forest(_from_json(json.loads(data)) if is_json else _from_cbm(data))
    except (ModelFileError, UnsupportedModelError):
        raise
    except _DAMAGE as error:
        cause = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise ModelFileError(
            f"{path.name} must hold a CatBoost model, got parts that do not fit ({cause}); file damaged?"
        ) from error


def _text_error() -> UnsupportedModelError:
    return UnsupportedModelError(
        "the model has text or embedding features, whose splits are no boxes; train without them."
    )


def _forest(model: _Model) -> Forest:
    unsorted: list[_AnyFeature] = [*model.numeric, *model.categorical]
    features = sorted(unsorted, key=lambda feature: feature.flat)
    position = {feature.flat: place for place, feature in enumerate(features)}
    nodes, inner = model.nodes, model.nodes.left >= 0
    used = np.unique(nodes.split[inner])
    splits, known = _splits(model, position, used)
    if len(used) and not (used[0] >= 0 and used[-1] < len(splits.feature) - 1):
        raise ModelFileError("the model's trees must ask splits that exist, got others; file damaged?")
    schema = _schema(model, features, known)
    asked, rows = np.where(inner, nodes.split, -1), np.where(inner, 0, nodes.leaf)
    if len(rows) and not (rows.min() >= 0 and rows.max() < len(model.values)):
        raise ModelFileError("the model's leaves must have values, got some without; file damaged?")
    return assemble(
        schema,
        _intercept(model),
        roots=nodes.roots,
        feature=splits.feature[asked],
        bound=splits.bound[asked],
        left=nodes.left,
        right=nodes.right,
        missing_left=splits.missing_left[asked],
        values=model.values[rows] * model.scale,
        leaf_label=nodes.label,
        category_start=splits.category_start[asked],
        category_left=splits.category_left,
    )


def _intercept(model: _Model) -> Floats:
    n_outputs = model.values.shape[1]
    if len(model.bias) == n_outputs:
        return model.bias
    if len(model.bias) != 1 or model.bias[0]:
        raise ModelFileError(
            f"the model must have a bias per output, got {len(model.bias)} for {n_outputs}; file damaged?"
        )
    return np.zeros(n_outputs)


def _schema(model: _Model, features: Sequence[_AnyFeature], known: dict[int, Ints]) -> Schema:
    names, flats = [feature.name for feature in features], [feature.flat for feature in features]
    named = all(names) and len(set(names)) == len(names) and names != [str(flat) for flat in flats]
    if len(set(flats)) != len(flats) or min(flats, default=0) < 0:
        raise ModelFileError("the model's features must be numbered from 0, each once, got others; file damaged?")
    if not named and flats != list(range(len(flats))):
        raise UnsupportedModelError(
            "the model has dropped unused features and has no names for the others, so that columns cannot be matched; "
            "read it before drop_unused_features()."
        )
    names = names if named else [f"x{flat}" for flat in flats]
    return Schema(
        features=tuple(_feature(name, feature, model, known) for name, feature in zip(names, features, strict=True)),
        outputs=_outputs(model),
        link=_link(str(model.loss.get("type"))),
        named=named,
    )


def _feature(name: str, feature: _AnyFeature, model: _Model, known: Mapping[int, Ints]) -> Feature:
    if isinstance(feature, _NumericFeature):
        return Feature(name, Numeric())
    hashes = tuple(known[feature.index].tolist())
    labels = tuple(model.category_names.get(number, str(number)) for number in hashes)
    return Feature(name, Hashed(hashes, labels), accepts_missing=False)


def _link(loss: str) -> str:
    return next((link for link, losses in _LINKS.items() if loss in losses.split()), "other")


def _outputs(model: _Model) -> tuple[str, ...]:
    """Names of classes, quantiles or targets."""
    n_outputs, loss = model.values.shape[1], model.loss.get("type")
    if n_outputs == 1:
        return ("score",)
    names = [f"y{output}" for output in range(n_outputs)]
    if loss == "RMSEWithUncertainty":
        names = ["mean", "log_std"]
    elif loss == "MultiQuantile":
        names = str(dict(model.loss.get("params") or {}).get("alpha")).split(",")
    elif len(model.class_names) == n_outputs:
        names = [str(name) for name in model.class_names]
    return tuple(names) if len(names) == n_outputs else tuple(f"y{output}" for output in range(n_outputs))
