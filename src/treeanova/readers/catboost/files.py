"""CatBoost's model files, .cbm and .json, decoded into a model's content, and the hash by which they store categories.

Splits have one global order: the borders of all numeric features, then the one-hot values of all categorical features,
then the borders of all CTRs. A tree holds positions in this order. The hash is Pike's and Alakuijala's (Google, 2011).

A .cbm file is "CBM1", the size of a FlatBuffers table, the table, and then one such table for each CTR table. Trees are
symmetric, or nodes with steps (left, right) to the next node, where 0 means "stop here": it can be split and leaf.
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import struct
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.readers.checks import check_values, damaged, decimal_number, whole_number

CTR_KINDS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "FloatTargetMeanValue", "Counter", "FeatureFreq")
MEANS, COUNTERS = CTR_KINDS[2:4], CTR_KINDS[4:]
EMPTY_KEY = np.uint64((1 << 64) - 1)  # marks an empty place in a CTR table
MAX_DEPTH = 30
Singles = npt.NDArray[np.float32]
_NO_BORDERS = np.empty(0, np.float32)
_MASK = (1 << 64) - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_PAIR = 0x9DDFEA08EB382D69
_FORMAT = "FlabuffersModel_v1"  # as CatBoost spells it
_CtrKey = tuple[str, tuple[int, ...], tuple[tuple[int, float], ...], tuple[tuple[int, int], ...], int]
_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_ELEMENTS = ("cat_feature_value", "float_feature", "cat_feature_exact_value")
_ONE_TARGET = ("MultiClass", "MultiClassOneVsAll", "MultiQuantile", "RMSEWithUncertainty")  # losses of several outputs


@dataclasses.dataclass(frozen=True)
class Column:
    """A feature; borders, and whether missing values are above all of them, are of numeric ones."""

    flat: int  # the number among all features
    name: str
    index: int  # the number among those of its kind
    borders: Singles
    missing_right: bool = False


@dataclasses.dataclass(frozen=True)
class Counts:
    """Counts of the training data, one row per combination, by the CTR table's key; `total` is for counters."""

    keys: npt.NDArray[np.uint64]
    rows: Floats
    total: float


@dataclasses.dataclass(frozen=True)
class Ctr:
    """A number per category, or per combination of several elements, and the borders that trees compare it to.

    Features are given by their numbers among those of their kind.
    """

    categories: Sequence[int]  # features whose categories are combined
    above: Sequence[tuple[int, float]]  # numeric features and borders: is the number above?
    equal: Sequence[tuple[int, int]]  # categorical features and hashes: is it this category?
    kind: str  # one of CTR_KINDS
    target_border: int  # the class of the target that is counted, or the border between classes
    prior: tuple[float, float]  # what is added to numerator and denominator
    shift: float
    scale: float
    borders: Singles
    counts: Counts | None

    @property
    def is_simple(self) -> bool:
        """Whether it is of a single categorical feature."""
        return len(self.categories) == 1 and not self.above and not self.equal


@dataclasses.dataclass(frozen=True)
class Nodes:
    """Nodes of all trees: global position of the split, children (-1 at leaves), row of the leaf's values, label."""

    roots: Ints
    split: Ints
    left: Ints
    right: Ints
    leaf: Ints
    label: Ints


@dataclasses.dataclass(frozen=True)
class Model:
    """A decoded model; features are given by their numbers among those of their kind."""

    numeric: Sequence[Column]
    categorical: Sequence[Column]
    one_hot: Sequence[tuple[int, Ints]]  # categorical features, and hashes that splits compare their categories to
    ctrs: Sequence[Ctr]
    nodes: Nodes
    values: Floats  # of leaves, shape (leaves, outputs)
    scale: float
    bias: Floats
    loss: Mapping[str, Any]
    class_names: Sequence[Any]  # of the outputs
    declared: Sequence[Any]  # all classes, if some had no rows in training and so have no output
    threshold: float
    category_names: Mapping[int, str]  # texts of categories by their hashes


def symmetric_nodes(sizes: Ints, splits: Ints, n_values: int, n_outputs: int) -> Nodes:
    """Make full binary trees of `sizes` levels; each level has one split, in the order of `splits`, tree by tree."""
    # Raises ModelFileError unless sizes match the numbers of splits and values, before anything is allocated.
    fits = n_outputs > 0 and (sizes >= 0).all() and (sizes <= MAX_DEPTH).all() and sizes.sum() == len(splits)
    if not fits or int((1 << sizes).sum()) * n_outputs != n_values:
        raise damaged(
            f"the model's symmetric trees must have a value per leaf, got {n_values} values for trees of "
            f"{str(sizes.tolist())[:40]} splits"
        )
    n_nodes, n_leaves = (2 << sizes) - 1, 1 << sizes
    roots, first_leaf, first_split = (np.cumsum(n) - n for n in (n_nodes, n_leaves, sizes))
    split, left, right = (np.full(n_nodes.sum(), -1, dtype=np.int64) for _ in range(3))
    leaf, label = (np.zeros(n_nodes.sum(), dtype=np.int64) for _ in range(2))
    for size in np.unique(sizes):  # trees of as many levels at once, level by level
        of_size = sizes == size
        root = roots[of_size][:, None]
        for level in range(size):
            place = np.arange(1 << level)
            node = root + (1 << level) - 1 + place
            split[node] = splits[first_split[of_size] + level][:, None]
            left[node] = root + (2 << level) - 1 + place
            right[node] = left[node] + (1 << level)
        place = np.arange(1 << size)
        node = root + (1 << size) - 1 + place
        leaf[node] = first_leaf[of_size][:, None] + place
        label[node] = place
    return Nodes(roots, split, left, right, leaf, label)


def training_note(info: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    """Return an entry of the model's field model_info, such as params of training; it may be a JSON text."""
    note = info.get(key) or {}
    return json.loads(note) if isinstance(note, str) else note


def loss_and_classes(info: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields `loss`, `class_names`, `declared` and `threshold` of `Model` from the field model_info."""
    params, classes = training_note(info, "params"), training_note(info, "class_params")
    declared = list(classes.get("class_names") or range(whole_number(classes.get("classes_count") or 0)))
    labels = [int(decimal_number(label)) for label in classes.get("class_to_label") or ()]
    if not labels or len(labels) >= len(declared):
        names, declared = declared, []
    else:
        check_values("classes must be declared", np.array(labels), np.isin(labels, np.arange(len(declared))))
        names = [declared[label] for label in labels]
    threshold = float(info.get("binclass_probability_threshold") or 0.5)
    if not 0 <= threshold <= 1:
        raise damaged(f"the probability threshold must be between 0 and 1, got {threshold}")
    loss = dict(params.get("loss_function") or {})
    return {"loss": loss, "class_names": names, "declared": declared, "threshold": threshold}


def text_features_error() -> UnsupportedModelError:  # for models with features that are texts or embeddings
    return UnsupportedModelError(
        "`model` must have numeric and categorical features, got text or embedding features, whose splits are not on "
        "columns; train without them."
    )


def category_hash(text: bytes) -> int:
    """Return the low half of CityHash64, by which CatBoost identifies a category."""
    size = len(text)
    words = [int.from_bytes(text[i : i + 8], "little") for i in range(0, size - 7, 8)]
    if size <= 16:
        return _hash_up_to_16(text) & 0xFFFFFFFF
    tail = [int.from_bytes(text[i : i + 8], "little") for i in range(max(size - 64, size % 8), size, 8)]
    if size <= 32:
        a, b, c, d = words[0] * _K1, words[1], tail[-1] * _K2, tail[-2] * _K0
        return (
            _mixed_pair(_rotate_right(a - b, 43) + _rotate_right(c, 30) + d, a + _rotate_right(b ^ _K3, 20) - c + size)
            & 0xFFFFFFFF
        )
    if size <= 64:
        return _hash_33_to_64(words, tail, size) & 0xFFFFFFFF
    return _hash_long(words, tail, size) & 0xFFFFFFFF


def _rotate_right(value: int, shift: int) -> int:
    """Rotate a 64-bit number to the right, a step of CityHash64."""
    value &= _MASK
    return (value >> shift | value << (64 - shift)) & _MASK


def _fold_high_bits(value: int) -> int:
    """Mix the high bits of a 64-bit number into the low ones, a step of CityHash64."""
    value &= _MASK
    return value ^ value >> 47


def _mixed_pair(low: int, high: int) -> int:
    """Return CityHash64's hash of 16 bytes, given as two numbers."""
    first = _fold_high_bits(((low ^ high) & _MASK) * _PAIR)
    return _fold_high_bits(((high & _MASK) ^ first) * _PAIR) * _PAIR & _MASK


def _hash_up_to_16(text: bytes) -> int:
    """Return CityHash64 of at most 16 bytes."""
    size = len(text)
    if size > 8:
        first, last = int.from_bytes(text[:8], "little"), int.from_bytes(text[-8:], "little")
        return _mixed_pair(first, _rotate_right(last + size, size)) ^ last
    if size >= 4:
        return _mixed_pair(size + (int.from_bytes(text[:4], "little") << 3), int.from_bytes(text[-4:], "little"))
    if size:
        return _fold_high_bits((text[0] + (text[size >> 1] << 8)) * _K2 ^ (size + (text[-1] << 2)) * _K3) * _K2 & _MASK
    return _K2


def _mixed_32_bytes(start: int, second: int, third: int, last: int) -> tuple[int, int]:
    """Return the two numbers that CityHash64 makes of 32 bytes; its formulas have no names."""
    end = start + second + third
    return end + last, _rotate_right(start + last, 52) + _rotate_right(end, 31) + _rotate_right(
        start, 37
    ) + _rotate_right(start + second, 7)


def _hash_33_to_64(words: list[int], tail: list[int], size: int) -> int:
    """Return CityHash64 of 33 to 64 bytes, given as words from the start and from the end."""
    front, front_mix = _mixed_32_bytes(words[0] + (size + tail[-2]) * _K0, words[1], words[2], words[3])
    back, back_mix = _mixed_32_bytes(words[2] + tail[-4], tail[-3], tail[-2], tail[-1])
    folded = _fold_high_bits((front + back_mix) * _K2 + (back + front_mix) * _K0)
    return _fold_high_bits(folded * _K0 + front_mix) * _K2 & _MASK


def _weak_hash(words: list[int], a: int, b: int) -> tuple[int, int]:
    """Return CityHash64's weak hash of 32 bytes, two numbers, with the seeds `a` and `b`."""
    start = a + words[0]
    end = start + words[1] + words[2]
    return (end + words[3]) & _MASK, (_rotate_right(b + start + words[3], 21) + _rotate_right(end, 44) + start) & _MASK


def _hash_long(words: list[int], tail: list[int], size: int) -> int:
    """Return CityHash64 of more than 64 bytes; its state are 56 bytes, v, w, x, y and z."""
    y, z = tail[-2] ^ _K1, tail[-7] ^ _K0
    v, w = _weak_hash(tail[-8:-4], size, y), _weak_hash(tail[-4:], size * _K1, _K0)
    z += _fold_high_bits(v[1]) * _K1
    x = _rotate_right(z + words[0], 39) * _K1
    y = _rotate_right(y, 33) * _K1
    for i in range(0, (size - 1) // 64 * 8, 8):
        x = (_rotate_right(x + y + v[0] + words[i + 2], 37) * _K1 & _MASK) ^ w[1]
        y = (_rotate_right(y + v[1] + words[i + 6], 42) * _K1 & _MASK) ^ v[0]
        z = _rotate_right((z & _MASK) ^ w[0], 33)
        v = _weak_hash(words[i : i + 4], v[1] * _K1, x + w[0])
        w = _weak_hash(words[i + 4 : i + 8], z + w[1], y)
        z, x = x, z
    return _mixed_pair(_mixed_pair(v[0], w[0]) + _fold_high_bits(y) * _K1 + z, _mixed_pair(v[1], w[1]) + x)


@dataclasses.dataclass(frozen=True)
class _Table:
    """A FlatBuffers table: fields by number, each absent, a scalar in place, or the distance to its content."""

    data: bytes
    at: int  # where the table begins
    n_read: list[int]  # bytes read so far, shared by all tables: a hostile file may refer to the same bytes many times

    def _number_at(self, code: str, at: int) -> int:
        """Read the number at a position of the data; `code` is its format, as in `struct`."""
        if at < 0:
            raise damaged(f"the model's offsets must lie within its file, got {at}")
        return struct.unpack_from(code, self.data, at)[0]

    def _place_of_field(self, field: int) -> int | None:
        """Return where a field is; None if it is absent."""
        layout = self.at - self._number_at("<i", self.at)
        if 4 + 2 * field >= self._number_at("<H", layout):
            return None
        return self.at + offset if (offset := self._number_at("<H", layout + 4 + 2 * field)) else None

    def _place_of_content(self, field: int) -> int | None:
        """Return where the content of a field begins, to which the field has the distance; None if absent."""
        place = self._place_of_field(field)
        return None if place is None else place + self._number_at("<I", place)

    def scalar(self, field: int, code: str, default: float) -> float:
        """Return a field that is a number; `code` is its format, as in `struct`."""
        place = self._place_of_field(field)
        return default if place is None else self._number_at("<" + code, place)

    def array(self, field: int, dtype: npt.DTypeLike) -> npt.NDArray[Any]:
        """Return a vector of numbers, empty if the field is absent; ModelFileError if files refer to too much."""
        at = self._place_of_content(field)
        if at is None:
            return np.empty(0, dtype)
        size = self._number_at("<I", at)
        self.n_read[0] += size * np.dtype(dtype).itemsize
        if self.n_read[0] > 2 * len(self.data):
            raise damaged(f"the model's arrays must fit into its {len(self.data)} bytes, got {self.n_read[0]} bytes")
        return np.frombuffer(self.data, dtype, size, at + 4)

    def text(self, field: int) -> str:
        return self.array(field, np.uint8).tobytes().decode()

    def table(self, field: int) -> _Table:
        """Return a field that is a table itself; ModelFileError if it is absent."""
        at = self._place_of_content(field)
        if at is None:
            raise damaged(f"the model's tables must all be there, got none for field {field}")
        return _Table(self.data, at, self.n_read)

    def tables(self, field: int) -> list[_Table]:
        """Return a field that is a vector of tables, each given by the distance from its place in the vector."""
        start = self._place_of_content(field)
        steps = self.array(field, "<u4").tolist()
        return [_Table(self.data, (start or 0) + 4 + 4 * i + step, self.n_read) for i, step in enumerate(steps)]


def _root_table(data: bytes) -> _Table:
    """Return the first table of FlatBuffers data, which begin with its position."""
    return _Table(data, struct.unpack_from("<I", data)[0], [0])


def from_cbm(data: bytes) -> Model:
    """Decode a .cbm file; ModelFileError if it is damaged, UnsupportedModelError for text features."""
    # Numbers of fields are those of CatBoost's model.fbs.
    if data[:4] != b"CBM1":
        raise damaged(f"a .cbm file must begin with b'CBM1', got {data[:4]!r}")
    end = 8 + struct.unpack_from("<I", data, 4)[0]
    core = _root_table(data[8:end])
    if (kind := core.text(0)) not in {"", _FORMAT}:
        raise UnsupportedModelError(
            f"a .cbm file must be of format {_FORMAT}, got {kind[:40]!r}; save the model as .json, or update treeanova."
        )
    trees = core.table(1)
    if trees.tables(12) or trees.tables(18):  # features that are texts or embeddings
        raise text_features_error()
    info = {key: note for table in core.tables(2) if (key := table.text(0)) and (note := table.text(1))}
    ctrs = trees.tables(7)
    tables = _ctr_tables(data[end:]) if ctrs else {}
    bias = trees.array(16, "<f8")
    nodes, values = _nodes_and_values(trees)
    return Model(
        numeric=[_numeric_column(feature) for feature in trees.tables(5)],
        categorical=[
            Column(int(f.scalar(1, "i", -1)), f.text(2), int(f.scalar(0, "i", -1)), _NO_BORDERS)
            for f in trees.tables(4)
        ],
        one_hot=[(int(f.scalar(0, "i", -1)), f.array(1, "<i4").astype(np.int64)) for f in trees.tables(6)],
        ctrs=[_ctr_of_table(ctr, tables) for ctr in ctrs],
        nodes=nodes,
        values=values,
        scale=trees.scalar(14, "d", 1.0),
        bias=bias if len(bias) else np.array([trees.scalar(15, "d", 0.0)]),
        category_names={},
        **loss_and_classes(info),
    )


def _numeric_column(feature: _Table) -> Column:
    """Decode a numeric feature of a .cbm file; missing values go right if it has some and treats them "AsTrue", 2."""
    flat, index = int(feature.scalar(2, "i", -1)), int(feature.scalar(1, "i", -1))
    missing_right = bool(feature.scalar(0, "b", 0)) and feature.scalar(5, "b", 0) == 2
    return Column(flat, feature.text(4), index, feature.array(3, "<f4"), missing_right)


def _ctr_key(base: _Table) -> _CtrKey:
    """Return what identifies a CTR's counts: kind, combined elements, and the number of the target's division."""
    # Each of several targets is divided into classes in its own way, and one target may be divided in several ways.
    combination = base.table(0)
    above = combination.array(1, np.dtype([("feature", "<i4"), ("border", "<f4")]))
    equal = combination.array(2, np.dtype([("feature", "<i4"), ("value", "<i4")]))
    kind = CTR_KINDS[int(base.scalar(1, "B", 0))]
    categories = tuple(combination.array(0, "<i4").tolist())
    return kind, categories, tuple(above.tolist()), tuple(equal.tolist()), int(base.scalar(2, "i", 0))


def _ctr_of_table(feature: _Table, tables: Mapping[_CtrKey, Counts]) -> Ctr:
    """Decode a CTR of a .cbm file; `tables` has the counts of all CTRs."""
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


def _ctr_tables(data: bytes) -> dict[_CtrKey, Counts]:
    """Decode the end of a .cbm file: the counts of CTRs, stored one after the other behind their sizes."""
    if not data:
        return {}
    result, at = {}, 4
    for _ in range(struct.unpack_from("<I", data)[0]):
        size = struct.unpack_from("<I", data, at)[0]
        table = _root_table(data[at + 4 : at + 4 + size])
        key = _ctr_key(table.table(0))
        result[key] = _ctr_counts(table, key[0])
        at += 4 + size
    return result


def _ctr_counts(table: _Table, kind: str) -> Counts:
    """Decode the counts of a CTR of a .cbm file, whose keys are in a hash table of pairs (key, row)."""
    buckets = table.array(1, np.uint8).view(np.dtype([("key", "<u8"), ("row", "<u4")]))
    buckets = buckets[buckets["key"] != EMPTY_KEY]
    blob = table.array(2, np.uint8)
    if kind in MEANS:
        rows = np.stack([blob.view("<f4")[::2].astype(np.float64), blob.view("<i4")[1::2]], axis=1)
    else:
        n_columns = 1 if kind in COUNTERS else int(table.scalar(4, "i", 0))
        rows = blob.view("<i4").reshape(-1, n_columns).astype(np.float64)
    return Counts(buckets["key"], rows[buckets["row"]], table.scalar(3, "i", 0))


def _nodes_and_values(trees: _Table) -> tuple[Nodes, Floats]:
    """Return the nodes of all trees, and the values of leaves, shape (leaves, outputs)."""
    # Numbers of fields are those of CatBoost's model.fbs: 0 outputs, 1 splits, 2 sizes, 8 values, 10 steps, 11 leaves.
    n_outputs, values = int(trees.scalar(0, "i", 1)), trees.array(8, "<f8")
    sizes, splits = trees.array(2, "<i4").astype(np.int64), trees.array(1, "<i4").astype(np.int64)
    if len(steps := trees.array(10, "<u4")):
        nodes = _step_nodes(sizes, splits, steps, trees.array(11, "<u4").astype(np.int64), n_outputs)
    else:
        nodes = symmetric_nodes(sizes, splits, len(values), n_outputs)
    return nodes, values.reshape(-1, n_outputs)


def _step_nodes(sizes: Ints, splits: Ints, steps: npt.NDArray[np.uint32], leaf_at: Ints, n_outputs: int) -> Nodes:
    """Make nodes of trees with `sizes` nodes; `steps` have the distances to the left and right child, 16 bits each."""
    # Distance 0 means "stop here": a node that stops on one side only gets another node for its leaf.
    n_nodes, n_trees = len(steps), len(sizes)
    if not (n_nodes == len(splits) == len(leaf_at) == sizes.sum() and n_trees and (sizes > 0).all() and n_outputs > 0):
        raise damaged(
            f"the model's trees must have a split and a leaf number for each of {n_nodes} nodes, got {len(splits)} and "
            f"{len(leaf_at)} for {n_trees} trees"
        )
    step = np.stack([steps & 0xFFFF, steps >> 16]).astype(np.int64)  # to the left and to the right child
    tree = np.repeat(np.arange(n_trees), sizes)
    ends = np.cumsum(sizes)
    child = np.arange(n_nodes) + step
    last = child.max(axis=0)
    check_values("the model's trees must step to their own nodes", last, last < ends[tree])
    stops = (step == 0).sum(axis=0)  # on how many sides: 2 at leaves, 1 at nodes that are split and leaf
    split_and_leaf = np.flatnonzero(stops == 1)
    stopping_side = np.where(step[0, split_and_leaf] == 0, 0, 1)
    child[stopping_side, split_and_leaf] = n_nodes + np.arange(len(split_and_leaf))  # nodes appended below
    child[:, stops == 2] = -1
    roots, leaf = ends - sizes, leaf_at // n_outputs
    first = np.minimum.reduceat(np.where(stops > 0, leaf, np.iinfo(np.int64).max), roots)  # leaf of each tree
    label = leaf - first[tree]
    left, right = np.concatenate([child, np.full((2, len(split_and_leaf)), -1)], axis=1)
    split, leaf, label = (np.concatenate([array, array[split_and_leaf]]) for array in (splits, leaf, label))
    return Nodes(roots, split, left, right, leaf, label)


def from_json(top: Any) -> Model:
    """Return the model of a parsed .json file; UnsupportedModelError for text features."""
    features, info = top["features_info"], top["model_info"]
    if features.get("text_features") or features.get("embedding_features"):
        raise text_features_error()
    scale, bias = top.get("scale_and_bias") or (1.0, 0.0)
    bias = _numbers(bias if isinstance(bias, list) else [bias])
    symmetric = "oblivious_trees" in top
    nodes, values = _symmetric_trees(top["oblivious_trees"], len(bias)) if symmetric else _nested_trees(top["trees"])
    categorical = features.get("categorical_features") or ()
    ctrs = [_ctr_json(ctr, top.get("ctr_data") or {}) for ctr in features.get("ctrs") or ()]
    _check_tables(ctrs, training_note(info, "params"), values.shape[1])
    return Model(
        numeric=[_numeric_json(feature) for feature in features.get("float_features") or ()],
        categorical=[Column(*_numbers_and_name(feature), _NO_BORDERS) for feature in categorical],
        one_hot=[
            (whole_number(f["feature_index"]), _numbers(f["values"], whole=True)) for f in categorical if "values" in f
        ],
        ctrs=ctrs,
        nodes=nodes,
        values=values,
        scale=decimal_number(scale),
        bias=bias,
        category_names={whole_number(c["hash"]): str(c["value"]) for c in features.get("cat_features_hash") or ()},
        **loss_and_classes(info),
    )


def _numbers_and_name(feature: Mapping[str, Any]) -> tuple[int, str, int]:
    """Return a feature's number among all, its name, and its number among those of its kind."""
    name = feature.get("feature_id") or feature.get("feature_name") or ""
    if not isinstance(name, str):
        raise damaged(f"the model's features must have texts as names, got {name!r:.40}")
    return whole_number(feature["flat_feature_index"]), name, whole_number(feature["feature_index"])


def _numeric_json(feature: Mapping[str, Any]) -> Column:
    """Return a numeric feature of a .json file, an entry of float_features."""
    flat, name, index = _numbers_and_name(feature)
    borders, treatment = _numbers(feature.get("borders") or ()), feature.get("nan_value_treatment", "AsIs")
    if not isinstance(feature["has_nans"], bool) or treatment not in _TREATMENTS:
        raise damaged(f"missing values must be {', '.join(_TREATMENTS)}, got {treatment!r:.40}")
    missing_right = feature["has_nans"] and treatment == "AsTrue"
    return Column(flat, name, index, borders.astype(np.float32), missing_right)


def _ctr_json(ctr: Mapping[str, Any], tables: Mapping[str, Any]) -> Ctr:
    """Return a CTR of a .json file; `tables` has counts by the CTR's identifier."""
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
        counts=None if table is None else _counts_json(table),
    )


def _check_tables(ctrs: Sequence[Ctr], params: Mapping[str, Any], n_outputs: int) -> None:
    """Raise UnsupportedModelError unless all CTRs of a kind count the classes of one target, divided in one way."""
    # CatBoost writes a single table per kind and combination into .json, whatever its target.
    if all(ctr.kind in COUNTERS for ctr in ctrs):
        return
    loss = (params.get("loss_function") or {}).get("type")
    if n_outputs == 1 or loss in _ONE_TARGET:
        notes = params.get("cat_feature_params") or {}
        simple, combined = notes.get("simple_ctrs") or (), notes.get("combinations_ctrs") or ()
        groups = (simple, combined, *(notes.get("per_feature_ctrs") or {}).values())
        kinds = [{ctr["ctr_type"] for ctr in group or ()} for group in groups]
        # Ways to divide the target into classes: one per kind is allowed.
        ways = [{(ctr["ctr_type"], str(ctr.get("target_binarization"))) for ctr in group or ()} for group in groups]
        if simple and all(len(of_group) == len(kind) for of_group, kind in zip(ways, kinds, strict=True)):
            return
    raise UnsupportedModelError(
        "`model` must have CTRs of one target that is divided in one way, got others, or no note of it, in a .json "
        "file, into which CatBoost writes one table for all of them; save the model as .cbm."
    )


def _counts_json(table: Mapping[str, Any]) -> Counts:
    """Return counts of a .json file, a flat list: a key and its counts, and so on, `hash_stride` entries each."""
    entries, stride = list(table["hash_map"] or ()), whole_number(table["hash_stride"])
    keys = np.array([whole_number(key) for key in entries[::stride]], dtype=np.uint64)
    columns = [_numbers(entries[column::stride]) for column in range(1, min(stride, len(entries)))]
    return Counts(keys, np.stack(columns, axis=1), decimal_number(table["counter_denominator"]))


def _numbers(values: Sequence[Any], *, whole: bool = False) -> npt.NDArray[Any]:
    """Return floats, or integers if `whole`; refuse booleans, text and other numbers, which numpy would convert."""
    if not ({int} if whole else {int, float}).issuperset(map(type, values)):
        raise damaged(f"the model's lists must hold {'whole numbers' if whole else 'numbers'}, got {str(values)[:60]}")
    return np.array(values, dtype=np.int64 if whole else np.float64)


def _symmetric_trees(trees: Sequence[Mapping[str, Any]] | None, n_outputs_without_trees: int) -> tuple[Nodes, Floats]:
    """Read the .json field oblivious_trees: return nodes, and the values of leaves, shape (leaves, outputs)."""
    if not isinstance(trees, list | None):
        raise damaged(f"the model's trees must be a list, got {trees!r:.40}")
    trees = trees or ()
    splits_by_tree = [[split["split_index"] for split in tree.get("splits") or ()] for tree in trees]
    sizes = np.array([len(splits) for splits in splits_by_tree], dtype=np.int64)
    splits = _numbers(list(itertools.chain.from_iterable(splits_by_tree)), whole=True)
    leaves = [tree["leaf_values"] for tree in trees]
    values = _numbers(list(itertools.chain.from_iterable(leaves)))
    # Values of the first tree over its 2^splits leaves.
    n_outputs = len(leaves[0]) >> min(len(splits_by_tree[0]), MAX_DEPTH) if leaves else n_outputs_without_trees
    nodes = symmetric_nodes(sizes, splits, len(values), n_outputs)
    for tree, (tree_leaves, tree_splits) in enumerate(zip(leaves, splits_by_tree, strict=True)):
        if len(tree_leaves) != n_outputs << len(tree_splits):
            raise damaged(
                f"the model's symmetric trees must have a value per leaf, got {len(tree_leaves)} for tree {tree} of "
                f"{len(tree_splits)} splits"
            )
    return nodes, values.reshape(-1, n_outputs)


def _nested_trees(trees: Sequence[Mapping[str, Any]]) -> tuple[Nodes, Floats]:
    """Read the .json field trees, nested nodes: return nodes, and the values of leaves, shape (leaves, outputs)."""
    split, left, right = list[Any](), list[int](), list[int]()
    roots, leaves, n_leaves = list[int](), list[Any](), [0]
    for tree in trees:
        roots.append(len(split))
        waiting: list[tuple[Mapping[str, Any], int]] = [(tree, -1)]  # with the parent of a right child, else -1
        while waiting:
            node, parent = waiting.pop()
            if parent >= 0:
                right[parent] = len(split)
            is_inner = "split" in node
            split.append(node["split"]["split_index"] if is_inner else -1)
            left.append(len(split) if is_inner else -1)  # the next node: it is popped next
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
    return Nodes(np.array(roots), _numbers(split, whole=True), np.array(left), np.array(right), leaf, label), values
