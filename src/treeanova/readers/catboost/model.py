"""The content of a CatBoost model, the same from .cbm and .json, and the hash by which it stores categories.

Splits have one global order: the borders of all numeric features, then the one-hot values of all categorical features,
then the borders of all CTRs. A tree holds positions in this order. The hash is Pike's and Alakuijala's (Google, 2011).
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.readers.checks import damaged

CTR_KINDS = ("Borders", "Buckets", "BinarizedTargetMeanValue", "FloatTargetMeanValue", "Counter", "FeatureFreq")
MEANS, COUNTERS = CTR_KINDS[2:4], CTR_KINDS[4:]
EMPTY_KEY = np.uint64((1 << 64) - 1)  # marks an empty place in a CTR table
MAX_DEPTH = 30
Singles = npt.NDArray[np.float32]


@dataclasses.dataclass(frozen=True)
class NumericFeature:
    flat: int
    name: str
    index: int
    borders: Singles
    missing_right: bool


@dataclasses.dataclass(frozen=True)
class CategoricalFeature:
    flat: int
    name: str
    index: int


AnyFeature = NumericFeature | CategoricalFeature


@dataclasses.dataclass(frozen=True)
class Counts:
    """Counts of the training data, one row per combination, by the CTR table's key; `total` is for counters."""

    keys: npt.NDArray[np.uint64]
    rows: Floats
    total: float


@dataclasses.dataclass(frozen=True)
class Ctr:
    """A number per category, or per combination of several elements, and the borders that trees compare it to.

    Elements are categories of features, whether numeric features are above a border, and whether categorical features
    have a certain category, given by its hash. Features are given by their numbers among those of their kind.
    """

    categories: Sequence[int]
    above: Sequence[tuple[int, float]]
    equal: Sequence[tuple[int, int]]
    kind: str
    target_border: int
    prior: tuple[float, float]
    shift: float
    scale: float
    borders: Singles
    counts: Counts | None

    @property
    def is_simple(self) -> bool:
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
    numeric: Sequence[NumericFeature]
    categorical: Sequence[CategoricalFeature]
    one_hot: Sequence[tuple[int, Ints]]
    ctrs: Sequence[Ctr]
    nodes: Nodes
    values: Floats
    scale: float
    bias: Floats
    loss: Mapping[str, Any]
    class_names: Sequence[Any]
    category_names: Mapping[int, str]


def symmetric_nodes(sizes: Ints, splits: Ints) -> Nodes:
    """Make full binary trees: level d has split d, and a node's place in its level is the leaf number so far."""
    n_nodes, n_leaves = (2 << sizes) - 1, 1 << sizes
    roots, first_leaf, first_split = (np.cumsum(n) - n for n in (n_nodes, n_leaves, sizes))
    split, left, right = (np.full(n_nodes.sum(), -1, dtype=np.int64) for _ in range(3))
    leaf, label = (np.zeros(n_nodes.sum(), dtype=np.int64) for _ in range(2))
    for size in np.unique(sizes):
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


def check_symmetric(sizes: Ints, splits: Ints, n_values: int, n_outputs: int) -> None:
    """Raise ModelFileError unless sizes match the numbers of splits and values, before anything is allocated."""
    fits = n_outputs > 0 and (sizes >= 0).all() and (sizes <= MAX_DEPTH).all() and sizes.sum() == len(splits)
    if not fits or int((1 << sizes).sum()) * n_outputs != n_values:
        raise damaged(
            f"the model's symmetric trees must have a value per leaf, got {n_values} values for trees of "
            f"{str(sizes.tolist())[:40]} splits"
        )


def training_note(info: Mapping[str, Any], key: str) -> Mapping[str, Any]:
    note = info.get(key) or {}
    result: Mapping[str, Any] = json.loads(note) if isinstance(note, str) else note
    return result


def loss_and_classes(info: Mapping[str, Any]) -> dict[str, Any]:
    params, classes = training_note(info, "params"), training_note(info, "class_params")
    return {"loss": dict(params.get("loss_function") or {}), "class_names": list(classes.get("class_names") or ())}


def text_error() -> UnsupportedModelError:
    return UnsupportedModelError(
        "`model` must have numeric and categorical features, got text or embedding features, whose splits are not on "
        "columns; train without them."
    )


_MASK = (1 << 64) - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_PAIR = 0x9DDFEA08EB382D69


def category_hash(text: bytes) -> int:
    """Return the low half of CityHash64, by which CatBoost identifies a category."""
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
    end = start + second + third
    return end + last, _turn(start + last, 52) + _turn(end, 31) + _turn(start, 37) + _turn(start + second, 7)


def _hash_to_64(words: list[int], tail: list[int], size: int) -> int:
    front, front_mix = _half(words[0] + (size + tail[-2]) * _K0, words[1], words[2], words[3])
    back, back_mix = _half(words[2] + tail[-4], tail[-3], tail[-2], tail[-1])
    rest = _fold((front + back_mix) * _K2 + (back + front_mix) * _K0)
    return _fold(rest * _K0 + front_mix) * _K2 & _MASK


def _quarter(words: list[int], a: int, b: int) -> tuple[int, int]:
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
