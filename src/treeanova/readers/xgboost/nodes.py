"""The nodes of XGBoost's trees as flat arrays, with their leaf values and lists of categories."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Ints
from treeanova.data.features import Feature
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import block_starts, check_size, check_values
from treeanova.readers.xgboost.columns import Singles, singles
from treeanova.readers.xgboost.document import Document, count_of, tree_model

_MAX_ENTRIES = 1 << 27
_OTHER_TYPES: dict[str, set[type]] = {"iu": {bool}, "biu": set(), "fiu": {bool, int}}


@dataclasses.dataclass(frozen=True, eq=False)
class Nodes:
    """Nodes of all trees, tree after tree; children are positions among them, -1 at leaves.

    `slot` is the stored right child: at a leaf with a vector, the vector's number. `listed` are the nodes with a list
    of categories, `listed_sizes` the lists' lengths, `categories` the lists one after the other.
    """

    starts: Ints
    sizes: Ints
    label: Ints
    left: Ints
    right: Ints
    slot: Ints
    feature: Ints
    condition: Singles
    default_left: Bools
    listed: Ints
    listed_sizes: Ints
    categories: Ints

    @property
    def is_inner(self) -> Bools:
        """Nodes that are not leaves."""
        return self.left >= 0

    @property
    def is_category(self) -> Bools:
        """Nodes with a list of categories."""
        result = np.zeros(len(self.left), dtype=bool)
        result[self.listed] = True
        return result


def read_nodes(trees: Sequence[Document]) -> Nodes:
    """The nodes of some trees; each must link nodes of its own tree."""
    left, sizes = _joined(trees, "left_children")
    slot = _aligned(trees, "right_children", sizes)
    _check_children(left, slot, sizes)
    starts = block_starts(sizes)
    shift = np.repeat(starts, sizes)
    listed, listed_sizes, categories = _lists(trees, starts, sizes)
    return Nodes(
        starts=starts,
        sizes=sizes,
        label=np.arange(len(left)) - shift,
        left=np.where(left < 0, -1, left + shift),
        right=np.where(left < 0, -1, slot + shift),
        slot=slot,
        feature=_aligned(trees, "split_indices", sizes),
        condition=_aligned(trees, "split_conditions", sizes, "fiu"),
        default_left=_flags(trees, "default_left", sizes),
        listed=listed,
        listed_sizes=listed_sizes,
        categories=categories,
    )


def _joined(trees: Sequence[Document], key: str, kinds: str = "iu") -> tuple[npt.NDArray[Any], Ints]:
    """The arrays of all trees in one, as int64 or, where `kinds` has f, as float32; and the length of each."""
    noun = "numbers" if "f" in kinds else "integers"
    for tree in trees:
        # XGBoost writes 2 as 2E0 where it wants a number, and reads nothing else.
        others = set(map(type, tree[key])) & _OTHER_TYPES[kinds] if isinstance(tree[key], list) else set()
        if others:
            raise ModelFileError(f"{key} must be a list of {noun}, got {others.pop().__name__}; file damaged?")
    arrays = [np.asarray(tree[key]) for tree in trees]
    for array in arrays:
        if array.ndim != 1 or (array.dtype.kind not in kinds and len(array)):
            raise ModelFileError(f"{key} must be a list of {noun}, got {array.dtype}, {array.shape}; file damaged?")
    joined = np.concatenate([np.zeros(0, dtype=np.int8), *arrays])
    lengths = np.array([len(array) for array in arrays], dtype=np.int64)
    return singles(joined) if "f" in kinds else joined.astype(np.int64), lengths


def _aligned(trees: Sequence[Document], key: str, expected: Ints, kinds: str = "iu") -> npt.NDArray[Any]:
    """The arrays of all trees in one; they must have the lengths expected."""
    joined, lengths = _joined(trees, key, kinds)
    check_values(f"{key} must have an entry per node or list of its tree", lengths, lengths == expected)
    return joined


def _flags(trees: Sequence[Document], key: str, sizes: Ints) -> Bools:
    """A boolean per node, which may be 0 or 1."""
    numbers = _aligned(trees, key, sizes, "biu")
    check_values(f"{key} must be 0 or 1", numbers, (numbers == 0) | (numbers == 1))
    return np.asarray(numbers == 1)


def _check_children(left: Ints, right: Ints, sizes: Ints) -> None:
    size = np.repeat(sizes, sizes)
    check_values("trees must have nodes", sizes, sizes > 0)
    check_values("left_children must be nodes of their tree", left, (left >= -1) & (left < size))
    check_values("right_children must be nodes of their tree", right, (left < 0) | ((right >= 0) & (right < size)))


# --- leaf values


def leaf_values(learner: Document, trees: Sequence[Document], nodes: Nodes, n_outputs: int) -> Singles:
    """Leaf values times weights of trees, in float32 as XGBoost multiplies; shape (n_nodes, n_outputs)."""
    check_size("leaf values", len(nodes.left) * n_outputs, _MAX_ENTRIES)
    weight = np.repeat(_tree_weights(learner, len(trees)), nodes.sizes)
    with np.errstate(all="ignore"):
        if any(count_of(tree["tree_param"], "size_leaf_vector") > 1 for tree in trees):
            return _vectors(trees, nodes, n_outputs) * weight[:, None]
        return _scattered(nodes.condition * weight, learner, nodes, n_outputs)


def _tree_weights(learner: Document, n_trees: int) -> Singles:
    """Weights of the trees after dropout, wherever a version of XGBoost stores them; 1 without dropout."""
    booster, model = learner["gradient_booster"], tree_model(learner)
    stored = [place["weight_drop"] for place in (booster, model) if "weight_drop" in place]
    if not stored and booster["name"] != "dart":
        return np.ones(n_trees, dtype=np.float32)
    if len(stored) != 1 or len(stored[0]) < len(model["trees"]):
        raise ModelFileError(
            f"weight_drop must be one list of {len(model['trees'])} weights, one per tree, got lists of "
            f"{[len(weights) for weights in stored]}; file damaged?"
        )
    return singles(stored[0][:n_trees])


def _scattered(leaf: Singles, learner: Document, nodes: Nodes, n_outputs: int) -> Singles:
    """Values of the nodes at the output of their tree, zero at the other outputs."""
    n_trees = len(nodes.sizes)
    model = tree_model(learner)
    output = np.asarray(model["tree_info"])
    is_whole = output.dtype.kind in "iu" and len(output) == len(model["trees"])
    output = output[:n_trees]
    if n_trees and not (is_whole and n_outputs <= n_trees and output.min() >= 0 and output.max() < n_outputs):
        raise ModelFileError(
            f"tree_info must name one of {n_outputs} outputs for each of {n_trees} trees, got {str(output)[:40]}; "
            "file damaged?"
        )
    values = np.zeros((len(leaf), n_outputs), dtype=np.float32)
    values[np.arange(len(leaf)), np.repeat(output, nodes.sizes).astype(np.int64)] = leaf
    return values


def _vectors(trees: Sequence[Document], nodes: Nodes, n_outputs: int) -> Singles:
    """Vectors of outputs of the nodes, zero at inner ones."""
    if not all("leaf_weights" in tree for tree in trees):
        raise UnsupportedModelError(
            "an XGBoost model with vector leaves must be of version 3.2 or later, got trees without `leaf_weights`; "
            "XGBoost 3.2 crashes on such a model, so that no oracle tells what it means; train it again."
        )
    joined, lengths = _joined(trees, "leaf_weights", "fiu")
    check_values(f"leaf_weights must have {n_outputs} entries per leaf", lengths, lengths % n_outputs == 0)
    n_vectors = lengths // n_outputs
    has_vector = (nodes.slot >= 0) & (nodes.slot < np.repeat(n_vectors, nodes.sizes))
    check_values(f"leaf_weights must have {n_outputs} entries per leaf", nodes.slot, nodes.is_inner | has_vector)
    first = np.repeat(block_starts(n_vectors), nodes.sizes)
    vectors = joined.reshape(-1, n_outputs)
    return np.where(nodes.is_inner[:, None], np.float32(0), vectors[np.where(nodes.is_inner, 0, first + nodes.slot)])


# --- categories


def _lists(trees: Sequence[Document], starts: Ints, sizes: Ints) -> tuple[Ints, Ints, Ints]:
    """Nodes with a list of categories, the lists' lengths, and the lists one after the other."""
    if trees and "split_type" not in trees[0]:  # a file from before there were categories
        empty = np.zeros(0, dtype=np.int64)
        return empty, empty, empty
    node, n_lists = _joined(trees, "categories_nodes")
    lengths = _aligned(trees, "categories_sizes", n_lists)
    segments = _aligned(trees, "categories_segments", n_lists)
    categories, n_listed = _joined(trees, "categories")
    first = segments + np.repeat(block_starts(n_listed), n_lists)
    if (lengths < 0).any() or lengths.sum() != len(categories) or (first != block_starts(lengths)).any():
        raise ModelFileError(
            f"categories must be one list after the other, got lists at {str(segments)[:40]}; file damaged?"
        )
    check_values("categories_nodes must be nodes of their tree", node, (node >= 0) & (node < np.repeat(sizes, n_lists)))
    listed = node + np.repeat(starts, n_lists)
    if not np.array_equal(listed, np.flatnonzero(_flags(trees, "split_type", sizes))):
        raise ModelFileError(
            f"categories must belong to the nodes that split on categories, got lists of nodes {str(node)[:40]}; "
            "file damaged?"
        )
    return listed, lengths, categories


def category_sets(nodes: Nodes, features: tuple[Feature, ...]) -> tuple[Ints, Bools]:
    """Where each node's set of categories starts (-1: none), and the sets of those that go left, one after another."""
    n_categories = np.array([feature.n_categories for feature in features], dtype=np.int64)
    kept = nodes.is_inner[nodes.listed]
    node = nodes.listed[kept]
    size = n_categories[nodes.feature[node]] + 1
    check_size("category sets", int(size.sum()), _MAX_ENTRIES)
    start = block_starts(size)
    goes_left = np.ones(size.sum(), dtype=bool)
    codes = nodes.categories[np.repeat(kept, nodes.listed_sizes)]
    goes_left[np.repeat(start, nodes.listed_sizes[kept]) + codes] = False
    starts = np.full(len(nodes.left), -1, dtype=np.int64)
    starts[node] = start
    return starts, goes_left
