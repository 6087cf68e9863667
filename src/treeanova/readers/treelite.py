"""treelite: checkpoints of version 4, as files or in memory, as a Forest.

Facts, as treelite's own predictor (treelite.gtil) computes them:

- Rows are cast to the type of the model, float32 or float64, which is also that of thresholds. The left child is taken
  if x < t, x <= t, x > t or x >= t holds; x == t is refused. NaN goes to the default child.
- A category is an unsigned number, truncated; negative numbers and those beyond 2^24 (float32) or 2^32 - 1 are in no
  set. A set leads to the left child, or to the right one if the node says so.
- Absent entries of sparse matrices are missing.
- A tree adds its leaf to one target and one class, or a vector to all; sums or means over trees, then base scores.
- The score is the sum before the postprocessor, which is the link.

If treelite has misread the model of another library, so does this reader: prefer that library's own model. Files are
read here; treelite is not needed.
"""

from __future__ import annotations

import dataclasses
import pathlib
import struct
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, IntegerCategory, Numeric, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_below, bound_up_to
from treeanova.readers import checks
from treeanova.readers.checks import block_starts, check_size, check_values, damage_reported, damaged, stacked_trees
from treeanova.readers.outputs import are_shares, output_names, probability_objective, without_first_of_two

_TYPES: dict[int, np.dtype[Any]] = {2: np.dtype("<f4"), 3: np.dtype("<f8")}
_MAX_TREES = 10_000_000
_LAST_TASK = 4
# Fields of a tree that are arrays, in the order of the file; "value" is float32 or float64, by the model's type.
_TREE_FIELDS = (
    ("node_type", "<i1"), ("cleft", "<i4"), ("cright", "<i4"), ("split_index", "<i4"), ("default_left", "<u1"),
    ("leaf_value", "value"), ("threshold", "value"), ("cmp", "<i1"), ("category_list_right_child", "<u1"),
    ("leaf_vector", "value"), ("leaf_vector_begin", "<u8"), ("leaf_vector_end", "<u8"),
    ("category_list", "<u4"), ("category_list_begin", "<u8"), ("category_list_end", "<u8"),
    ("data_count", "<u8"), ("data_count_present", "<u1"), ("sum_hess", "<f8"), ("sum_hess_present", "<u1"),
    ("gain", "<f8"), ("gain_present", "<u1"),
)  # fmt: skip
_PER_NODE = tuple(name for name, _ in _TREE_FIELDS[:9])
Tree = dict[str, npt.NDArray[Any]]
_LEAF, _NUMERICAL, _CATEGORICAL = range(3)
_EQ, _LT, _LE, _GT, _GE = range(1, 6)
_MAX_VALUES, _MAX_COLUMNS = 200_000_000, 1_000_000
_LINKS = {
    "identity": "identity", "sigmoid": "logit", "multiclass_ova": "logit", "exponential": "log", "softmax": "softmax",
    "identity_multiclass": "probability",
}  # fmt: skip


@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """The fields of a treelite file that are used, by their names there."""

    is_double: bool
    n_features: int
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
    """Decode a checkpoint; ModelFileError if it is damaged, UnsupportedModelError for other versions than 4."""
    stream = _Bytes(data)
    version = [stream.number("<i") for _ in range(3)]
    if version[0] != 4:
        raise UnsupportedModelError(
            f"a treelite checkpoint must be of version 4, got {'.'.join(map(str, version))}; write it again with "
            "treelite 4, or read the library's own model."
        )
    types = (stream.number("<B"), stream.number("<B"))
    if types[0] not in _TYPES or types[0] != types[1]:
        raise damaged(f"a treelite checkpoint must hold float32 or float64, got types {types}")
    n_trees = stream.number("<Q")
    n_features, task, average = stream.number("<i"), stream.number("<B"), stream.number("<B")
    n_targets = stream.number("<i")
    if not (0 <= n_trees <= _MAX_TREES and n_features >= 0 and n_targets >= 1):
        raise damaged("a treelite checkpoint must have trees, features and targets, got none")
    if average > 1 or task > _LAST_TASK:
        raise damaged(f"a treelite checkpoint must be of a known task, got {task}, {average}")
    header: dict[str, Any] = {
        "is_double": types[0] == 3,
        "n_features": n_features,
        "average": bool(average),
        "num_class": stream.array("<i4", n_targets),
        "leaf_vector_shape": stream.array("<i4", 2),
        "target_id": stream.array("<i4", n_trees),
        "class_id": stream.array("<i4", n_trees),
        "postprocessor": stream.array("<u1").tobytes().decode(errors="replace"),
        "sigmoid_alpha": stream.number("<f"),
    }
    stream.number("<f")  # ratio_c, of isolation forests
    if min(header["num_class"]) < 1 or min(header["leaf_vector_shape"]) < 1:
        raise damaged("a treelite checkpoint must have classes and leaf values, got none")
    base_scores = stream.array("<f8", n_targets * int(max(header["num_class"])))
    stream.array("<u1")  # attributes
    stream.check_no_more_fields()
    trees = [_decoded_tree(stream, _TYPES[types[0]]) for _ in range(n_trees)]
    if stream.position != len(data):
        raise damaged("a treelite checkpoint must end after its trees, got more bytes")
    return Checkpoint(base_scores=base_scores, trees=trees, **header)


def _decoded_tree(stream: _Bytes, value_type: np.dtype[Any]) -> Tree:
    """Decode the arrays of a tree, by their names in treelite."""
    n_nodes, _ = stream.number("<i"), stream.number("<B")
    tree = {}
    for name, kind in _TREE_FIELDS:
        tree[name] = stream.array(value_type if kind == "value" else kind, n_nodes if name in _PER_NODE else None)
    stream.check_no_more_fields()  # of the tree
    stream.check_no_more_fields()  # of its nodes
    for name in ("leaf_vector", "category_list"):
        begin, end = tree[f"{name}_begin"], tree[f"{name}_end"]
        if not len(begin) == len(end) == n_nodes or (begin > end).any() or (end > len(tree[name])).any():
            raise ModelFileError(f"trees of a treelite checkpoint must have whole lists, got another {name}; damaged?")
    return tree


class _Bytes:
    """The bytes of a checkpoint, which are read from front to end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.position = data, 0

    def _take(self, size: int) -> bytes:
        """Return the next `size` bytes."""
        if size < 0 or self.position + size > len(self.data):
            raise damaged("a treelite checkpoint must hold whole fields, got one that ends early")
        self.position += size
        return self.data[self.position - size : self.position]

    def number(self, code: str) -> Any:
        """Return the next number, whose type is a code of `struct`."""
        return struct.unpack(code, self._take(struct.calcsize(code)))[0]

    def array(self, kind: str | np.dtype[Any], size: int | None = None) -> npt.NDArray[Any]:
        """Return the next array, before which its length is stored: `size`, if given."""
        length, dtype = self.number("<Q"), np.dtype(kind)
        if size is not None and length != size:
            raise ModelFileError(f"a list of a treelite checkpoint must have {size} entries, got {length}; damaged?")
        return np.frombuffer(self._take(length * dtype.itemsize), dtype)

    def check_no_more_fields(self) -> None:
        """Raise UnsupportedModelError unless the next number, that of optional fields, is 0."""
        if self.number("<i"):
            raise UnsupportedModelError(
                "a treelite checkpoint must have no optional fields, got some, which are not known; update treeanova."
            )


def forest_of(checkpoint: Checkpoint) -> Forest:
    """Build the forest; a split with > or >= has its children swapped, because forests go left up to a bound."""
    if not checkpoint.trees:
        raise UnsupportedModelError("a treelite model must have trees, got none; train it for longer.")
    check_size("columns", checkpoint.n_features, _MAX_COLUMNS)
    nodes = {name: np.concatenate([tree[name] for tree in checkpoint.trees]) for name in _PER_NODE}
    sizes = np.array([len(tree["node_type"]) for tree in checkpoint.trees], dtype=np.int64)
    kind = nodes["node_type"]
    check_values("trees of a treelite model must have nodes", sizes, sizes > 0)
    is_valid = np.isin(kind, (_LEAF, _NUMERICAL, _CATEGORICAL))
    check_values("nodes of a treelite model must be leaves or tests", kind, is_valid)
    for child in (nodes["cleft"], nodes["cright"]):
        is_valid = np.where(kind == _LEAF, child == -1, (child > 0) & (child < np.repeat(sizes, sizes)))
        check_values("nodes of a treelite model must have two children that exist, or none", child, is_valid)
    for name in ("default_left", "category_list_right_child"):
        check_values(f"{name} of a treelite model must be 0 or 1", nodes[name], nodes[name] <= 1)
    values, intercept = _values_and_base(checkpoint)
    features, category_start, category_left = _categories(checkpoint, nodes, sizes)
    is_swapped = np.isin(nodes["cmp"], (_GT, _GE)) & (kind == _NUMERICAL)
    left, right = (nodes[side].astype(np.int64) for side in ("cleft", "cright"))
    schema, values, intercept = _schema_and_values(checkpoint, features, values, intercept)
    forest = assemble(
        schema,
        intercept,
        feature=nodes["split_index"],
        bound=_bounds(nodes, is_double=checkpoint.is_double),
        missing_left=nodes["default_left"].astype(bool) != is_swapped,
        values=values,
        category_start=category_start,
        category_left=category_left,
        **stacked_trees(sizes, np.where(is_swapped, right, left), np.where(is_swapped, left, right)),
    )
    if len(forest.feature) < len(left):
        raise damaged("trees of a treelite model must reach all of their nodes, got one apart")
    return forest


def _bounds(nodes: Tree, *, is_double: bool) -> Floats:
    """Return closed bounds of nodes; x > t and x <= t have the same one, as have x >= t and x < t."""
    operator, is_numeric = nodes["cmp"], nodes["node_type"] == _NUMERICAL
    if (operator[is_numeric] == _EQ).any():
        raise UnsupportedModelError("a treelite model must compare by <, <=, > or >=, got ==; convert it again.")
    if not np.isin(operator[is_numeric], (_LT, _LE, _GT, _GE)).all():
        raise damaged("a treelite model must compare by known operators, got others")
    threshold = np.where(is_numeric, nodes["threshold"], 0).astype(np.float64)
    # Nothing is below -inf, which a closed bound cannot express.
    is_nowhere = np.isneginf(threshold) & np.isin(operator, (_LT, _GE))
    check_values("thresholds of < and >= in a treelite model must be above -inf", threshold, ~is_nowhere)
    below = np.nextafter(threshold, -np.inf) if is_double else bound_below(threshold)
    up_to = threshold if is_double else bound_up_to(threshold)
    return np.where(np.isin(operator, (_LE, _GT)), up_to, below)


def _categories(checkpoint: Checkpoint, nodes: Tree, sizes: Ints) -> tuple[tuple[Feature, ...], Ints, Bools]:
    """Return the features, and arguments `category_start` and `category_left` of `assemble`."""
    node, code = _category_members(checkpoint, sizes)  # code[i] is in the list of node[i]
    if not checkpoint.is_double:
        check_values("categories of a float32 model must be up to 2^24", code, code <= 1 << 24)
    feature, inner = nodes["split_index"].astype(np.int64), nodes["cleft"] >= 0
    is_category = nodes["node_type"] == _CATEGORICAL
    if not ((feature[inner] >= 0) & (feature[inner] < checkpoint.n_features)).all():
        raise damaged("a treelite model must split on its features, got others")
    cast = "float64" if checkpoint.is_double else "float32"
    features = [Feature(f"x{j}", Numeric(cast=cast)) for j in range(checkpoint.n_features)]
    n_entries, position = np.zeros(len(feature), dtype=np.int64), np.zeros(len(code), dtype=np.int64)
    for j in np.unique(feature[is_category]).tolist():
        if ((feature == j) & inner & ~is_category).any():
            raise UnsupportedModelError(
                f"a treelite model must read a column in one way, got x{j} as numbers and as categories; train it with "
                "one of both."
            )
        is_here = feature[node] == j
        codes, position[is_here] = np.unique(code[is_here], return_inverse=True)
        n_entries[is_category & (feature == j)] = len(codes) + 1
        encoder = IntegerCategory(tuple(codes.tolist()), cast=cast, cuts_negative=False, largest=2.0**32 - 1)
        features[j] = Feature(f"x{j}", encoder)
    start, is_member = checks.category_tables("category tables", n_entries, node, position, _MAX_VALUES)
    # Listed categories go left, all others right, or the other way round.
    leads_right = np.repeat(nodes["category_list_right_child"].astype(bool), n_entries)
    return tuple(features), start, is_member != leads_right


def _category_members(checkpoint: Checkpoint, sizes: Ints) -> tuple[Ints, Ints]:
    """Return the members of all category sets as two arrays, nodes (positions) and codes."""
    owners, lists = list[int](), [np.zeros(0, dtype=np.int64)]
    for tree, start in zip(checkpoint.trees, block_starts(sizes).tolist(), strict=True):
        for k in np.flatnonzero(tree["node_type"] == _CATEGORICAL).tolist():
            owners.append(start + k)
            lists.append(tree["category_list"][int(tree["category_list_begin"][k]) : int(tree["category_list_end"][k])])
    n_codes = np.array([len(codes) for codes in lists[1:]], dtype=np.int64)
    return np.repeat(np.array(owners, dtype=np.int64), n_codes), np.concatenate(lists).astype(np.int64)


def _values_and_base(checkpoint: Checkpoint) -> tuple[Floats, Floats]:
    """Return values of all nodes, shape (nodes, outputs), and base scores; outputs are classes of targets."""
    shape = (len(checkpoint.num_class), int(checkpoint.num_class.max()))  # targets, and classes of the largest one
    n_nodes = sum(len(tree["node_type"]) for tree in checkpoint.trees)
    check_size("leaf values", n_nodes * shape[0] * shape[1], _MAX_VALUES)
    n_trees = np.zeros(shape)
    tree_values = []
    for tree, target, label in zip(checkpoint.trees, checkpoint.target_id, checkpoint.class_id, strict=True):
        if not (-1 <= target < shape[0] and -1 <= label < shape[1]):
            raise damaged("trees of a treelite model must be for targets that exist, got others")
        # -1 stands for all targets, or all classes: the leaves are vectors.
        place = (slice(None) if target < 0 else slice(target, target + 1), slice(None) if label < 0 else [label])
        n_trees[place] += 1
        node_values = np.zeros((len(tree["node_type"]), *shape))
        node_values[:, place[0], place[1]] = _leaf_values(tree, checkpoint.leaf_vector_shape)
        tree_values.append(node_values)
    values = np.concatenate(tree_values)
    exists = (np.arange(shape[1]) < checkpoint.num_class[:, None]).ravel()  # targets may have fewer classes
    if checkpoint.average:
        if (n_trees.ravel()[exists] == 0).any():
            raise UnsupportedModelError(
                "a treelite model that averages its trees must have a tree for each class, got a class without, for "
                "which treelite predicts NaN; train it for longer."
            )
        values = values / np.maximum(n_trees, 1)
    return values.reshape(n_nodes, -1)[:, exists], checkpoint.base_scores.astype(np.float64)[exists]


def _leaf_values(tree: Tree, shape: npt.NDArray[Any]) -> Floats:
    """Return the values of a tree's nodes, (n_nodes, *shape): the field leaf_value, or leaf_vector for several."""
    n_values = int(shape[0]) * int(shape[1])
    begin, end = tree["leaf_vector_begin"].astype(np.int64), tree["leaf_vector_end"].astype(np.int64)
    has_vector = begin < end
    if (end - begin)[has_vector].size and ((end - begin)[has_vector] != n_values).any():
        raise damaged(f"leaves of a treelite model must have {n_values} values, got others")
    if n_values > 1 and (~has_vector & (tree["cleft"] < 0)).any():
        raise damaged(f"leaves of a treelite model must have {n_values} values, got one")
    values = np.zeros((len(begin), n_values))
    values[~has_vector] = tree["leaf_value"][~has_vector, None] if n_values == 1 else 0
    values[has_vector] = tree["leaf_vector"][begin[has_vector, None] + np.arange(n_values)]
    return values.reshape(-1, int(shape[0]), int(shape[1]))


def _schema_and_values(
    checkpoint: Checkpoint, features: tuple[Feature, ...], values: Floats, intercept: Floats
) -> tuple[Schema, Floats, Floats]:
    """Return the schema, and values and intercept of its outputs: of two probabilities, the second is kept."""
    n_targets, n_outputs = len(checkpoint.num_class), values.shape[1]
    link = _LINKS.get(checkpoint.postprocessor, "other")
    is_scaled = link == "logit" and checkpoint.sigmoid_alpha != 1
    if is_scaled or (n_targets > 1 and link in {"softmax", "probability"}):
        link = "other"
    if link == "probability":
        leaf_values = values[np.concatenate([tree["cleft"] < 0 for tree in checkpoint.trees])]
        has_shares = n_outputs > 1 and are_shares(leaf_values, 1 / len(checkpoint.trees), intercept)
        link = link if has_shares else "other"
    if link == "probability":
        values, intercept = without_first_of_two(values), without_first_of_two(intercept)
    prefix = "" if n_targets == 1 else "y"
    classes_of_targets = [f"y{t}:{k}" for t, n in enumerate(checkpoint.num_class) for k in range(n)]
    outputs = output_names(values.shape[1], () if n_targets in {1, n_outputs} else classes_of_targets, prefix)
    objective = probability_objective(link)
    single = not checkpoint.is_double
    schema = Schema(features, outputs, link, absent=np.nan, single_integers=single, objective=objective)
    return schema, values, intercept


def read(model: Any) -> Forest:
    """Read a model of treelite in memory, as its checkpoint."""
    if not hasattr(model, "serialize_bytes"):
        raise UnsupportedModelError(f"a treelite model must be a treelite.Model, got {type(model).__name__}.")
    with damage_reported("a treelite checkpoint"):
        return forest_of(parse(model.serialize_bytes()))


def read_file(path: pathlib.Path) -> Forest:
    with damage_reported("a treelite checkpoint", path):
        return forest_of(parse(path.read_bytes()))
