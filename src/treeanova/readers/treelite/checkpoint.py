"""The binary format of treelite's checkpoints, version 4: fields in a fixed order, little-endian."""

from __future__ import annotations

import dataclasses
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.errors import ModelFileError, UnsupportedModelError

_TYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<f4"), 3: np.dtype("<f8")}
_MAX_TREES = 10_000_000
_LAST_TASK = 4
# Fields of a tree that are arrays, in the order of the file; "value" is float32 or float64, by the model's type.
_TREE_FIELDS = (
    ("node_type", "<i1"),
    ("cleft", "<i4"),
    ("cright", "<i4"),
    ("split_index", "<i4"),
    ("default_left", "<u1"),
    ("leaf_value", "value"),
    ("threshold", "value"),
    ("cmp", "<i1"),
    ("category_list_right_child", "<u1"),
    ("leaf_vector", "value"),
    ("leaf_vector_begin", "<u8"),
    ("leaf_vector_end", "<u8"),
    ("category_list", "<u4"),
    ("category_list_begin", "<u8"),
    ("category_list_end", "<u8"),
    ("data_count", "<u8"),
    ("data_count_present", "<u1"),
    ("sum_hess", "<f8"),
    ("sum_hess_present", "<u1"),
    ("gain", "<f8"),
    ("gain_present", "<u1"),
)
_PER_NODE = (
    "node_type",
    "cleft",
    "cright",
    "split_index",
    "default_left",
    "leaf_value",
    "threshold",
    "cmp",
    "category_list_right_child",
)
_SEGMENTS = ("leaf_vector_begin", "leaf_vector_end", "category_list_begin", "category_list_end")
Tree = dict[str, npt.NDArray[Any]]


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The fields of a checkpoint under their names in treelite's documentation."""

    is_double: bool
    n_features: int
    task: int
    average: bool
    num_class: npt.NDArray[Any]
    leaf_vector_shape: npt.NDArray[Any]
    target_id: npt.NDArray[Any]
    class_id: npt.NDArray[Any]
    postprocessor: str
    sigmoid_alpha: float
    base_scores: npt.NDArray[Any]
    trees: list[Tree]


def parse(data: bytes) -> Checkpoint:
    """The fields of a checkpoint; ModelFileError if it is damaged."""
    stream = _Stream(data)
    version = [stream.number("<i") for _ in range(3)]
    if version[0] != 4:
        raise UnsupportedModelError(
            f"a treelite checkpoint must be of version 4, got {'.'.join(map(str, version))}; write it again with "
            "treelite 4, or read the library's own model."
        )
    types = (stream.number("<B"), stream.number("<B"))
    if types[0] not in _TYPES or types[0] != types[1]:
        raise ModelFileError(f"a treelite checkpoint must hold float32 or float64, got types {types}; file damaged?")
    n_trees = stream.number("<Q")
    n_features, task, average = stream.number("<i"), stream.number("<B"), stream.number("<B")
    n_targets = stream.number("<i")
    if not (0 <= n_trees <= _MAX_TREES and n_features >= 0 and n_targets >= 1):
        raise ModelFileError("a treelite checkpoint must have trees, features and targets, got none; file damaged?")
    if average > 1 or task > _LAST_TASK:
        raise ModelFileError(f"a treelite checkpoint must be of a known task, got {task}, {average}; file damaged?")
    header = {
        "num_class": stream.array("<i4", n_targets),
        "leaf_vector_shape": stream.array("<i4", 2),
        "target_id": stream.array("<i4", n_trees),
        "class_id": stream.array("<i4", n_trees),
        "postprocessor": stream.array("<u1").tobytes().decode(errors="replace"),
        "sigmoid_alpha": stream.number("<f"),
    }
    stream.number("<f")  # ratio_c, of isolation forests
    if min(header["num_class"]) < 1 or min(header["leaf_vector_shape"]) < 1:
        raise ModelFileError("a treelite checkpoint must have classes and leaf values, got none; file damaged?")
    base_scores = stream.array("<f8", n_targets * int(max(header["num_class"])))
    stream.array("<u1")  # attributes
    stream.no_optional_fields()
    trees = [_tree(stream, _TYPES[types[0]]) for _ in range(n_trees)]
    stream.check_end()
    return Checkpoint(
        is_double=types[0] == 3,
        n_features=n_features,
        task=task,
        average=bool(average),
        base_scores=base_scores,
        trees=trees,
        **header,
    )


def _tree(stream: _Stream, value_type: np.dtype[Any]) -> Tree:
    n_nodes, _ = stream.number("<i"), stream.number("<B")
    tree = {}
    for name, kind in _TREE_FIELDS:
        tree[name] = stream.array(value_type if kind == "value" else kind, n_nodes if name in _PER_NODE else None)
    stream.no_optional_fields()
    stream.no_optional_fields()
    for name in _SEGMENTS:
        content = tree[name.rpartition("_")[0]]
        if len(tree[name]) != n_nodes or (tree[name] > len(content)).any():
            raise ModelFileError(f"trees of a treelite checkpoint must have whole lists, got another {name}; damaged?")
    for name in ("leaf_vector", "category_list"):
        if (tree[f"{name}_begin"] > tree[f"{name}_end"]).any():
            raise ModelFileError(f"trees of a treelite checkpoint must have whole lists, got another {name}; damaged?")
    return tree


class _Stream:
    """Reads fields one after the other."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def _take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self.data):
            raise ModelFileError("a treelite checkpoint must hold whole fields, got one that ends early; file damaged?")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, code: str) -> Any:
        """A single number."""
        return struct.unpack(code, self._take(struct.calcsize(code)))[0]

    def array(self, kind: str | np.dtype[Any], size: int | None = None) -> npt.NDArray[Any]:
        """An array after its length, which must be `size` if that is given."""
        length, dtype = self.number("<Q"), np.dtype(kind)
        if size is not None and length != size:
            raise ModelFileError(f"a list of a treelite checkpoint must have {size} entries, got {length}; damaged?")
        return np.frombuffer(self._take(length * dtype.itemsize), dtype)

    def no_optional_fields(self) -> None:
        """Raise UnsupportedModelError where later versions have put fields."""
        if self.number("<i"):
            raise UnsupportedModelError(
                "a treelite checkpoint must have no optional fields, got some, which are not known; update treeanova."
            )

    def check_end(self) -> None:
        """Raise ModelFileError if something follows."""
        if self.position != len(self.data):
            raise ModelFileError("a treelite checkpoint must end after its trees, got more bytes; file damaged?")
