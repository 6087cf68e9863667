"""A forest with other splits: several thresholds at one node become several nodes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Schema
from treeanova.model.forest import Forest, assemble


@dataclasses.dataclass
class Cuts:
    """Numbers at which a node changes sides, left up to the first one, and the side of missing values."""

    ends: Floats
    missing_left: bool


Table = dict[str, list[Any]]


class Nodes:
    """The nodes of a forest that are being split anew; arrays have one entry per node."""

    def __init__(self, forest: Forest, source: Ints) -> None:
        self._forest = forest
        is_leaf = forest.feature < 0
        self.feature = np.where(is_leaf, -1, source[forest.feature]) if len(source) else forest.feature.copy()
        self.bound = forest.bound.copy()
        self.left, self.right = forest.left.copy(), forest.right.copy()
        self.missing_left = forest.missing_left.copy()
        self.start = np.full(len(is_leaf), -1, dtype=np.int64)
        self.sets: list[Bools] = []
        self._n_codes = 0
        self._several: dict[int, Cuts] = {}

    def split_categories(self, nodes: Ints, pattern: Ints, left: Bools, missing_left: Bools) -> None:
        """Give nodes sets of categories: `left` has one row per pattern, `pattern` the row of each node."""
        starts = self._n_codes + np.arange(len(left)) * left.shape[1]
        self.start[nodes] = starts[pattern]
        self.sets.append(left.ravel())
        self._n_codes += left.size
        self.bound[nodes] = 0.0
        self.missing_left[nodes] = missing_left[pattern]

    def split_numbers(self, nodes: Ints, pattern: Ints, left: Bools, missing_left: Bools, ends: Floats) -> None:
        """Give nodes thresholds: `left` tells for the intervals between `ends` which go left."""
        changes = left[:, 1:] != left[:, :-1]
        bound = np.where(changes.any(axis=1), np.append(ends, np.inf)[_first(changes)], np.inf)
        is_swapped = ~left[:, 0]
        self.bound[nodes] = bound[pattern]
        self.missing_left[nodes] = (missing_left != is_swapped)[pattern]
        swapped = nodes[is_swapped[pattern]]
        self.left[swapped], self.right[swapped] = self.right[swapped], self.left[swapped]
        several = changes.sum(axis=1) > 1
        for node, row in zip(nodes[several[pattern]], pattern[several[pattern]], strict=True):
            # Sides are those after the swap, by which the first interval goes left.
            missing = bool(missing_left[row] != is_swapped[row])
            self._several[int(node)] = Cuts(ends[changes[row]], missing)

    def forest(self, schema: Schema) -> Forest:
        """The forest of these nodes."""
        old = self._forest
        arrays = {
            "feature": self.feature,
            "bound": self.bound,
            "left": np.where(old.feature < 0, -1, self.left),
            "right": np.where(old.feature < 0, -1, self.right),
            "missing_left": self.missing_left,
            "category_start": self.start,
            "leaf": old.leaf,
        }
        if self._several:
            arrays = _with_chains(arrays, self._several, old.roots)
        leaf = arrays.pop("leaf")
        return assemble(
            schema,
            old.intercept,
            roots=old.roots,
            values=old.values[leaf],
            leaf_label=old.leaf_label[leaf],
            category_left=np.concatenate([np.empty(0, bool), *self.sets]),
            **arrays,
        )


def _first(changes: Bools) -> Ints:
    """Position of the first change of each row."""
    if not changes.shape[1]:
        return np.zeros(len(changes), dtype=np.int64)
    first: Ints = changes.argmax(axis=1)
    return first


def _with_chains(
    arrays: dict[str, npt.NDArray[Any]], several: dict[int, Cuts], roots: Ints
) -> dict[str, npt.NDArray[Any]]:
    """Nodes with one threshold each: a node with several is followed by others, over copies of its branches."""
    table = {name: array.tolist() for name, array in arrays.items()}
    for node in reversed(_from_the_roots(table, roots)):
        if node in several:
            _chain(table, node, several[node])
    return {name: np.array(column) for name, column in table.items()}


def _from_the_roots(table: Table, roots: Ints) -> list[int]:
    """Inner nodes and leaves, each after the node above it."""
    found: list[int] = roots.tolist()
    for node in found:
        found.extend(child for child in (table["left"][node], table["right"][node]) if child >= 0)
    return found


def _chain(table: Table, node: int, cuts: Cuts) -> None:
    """Turn a node into a chain of nodes, whose intervals go to its left and right branch in turn."""
    branches = table["left"][node], table["right"][node]
    for position, end in enumerate(cuts.ends.tolist()):
        if position:
            table["right"][node] = _copied(table, node, whole=False)
            node = table["right"][node]
            table["left"][node] = branches[1] if position == 1 else _copied(table, branches[position % 2])
        table["bound"][node] = end
        table["missing_left"][node] = cuts.missing_left or position > 0
    table["right"][node] = _copied(table, branches[len(cuts.ends) % 2])


def _copied(table: Table, node: int, *, whole: bool = True) -> int:
    """A copy of a node, with copies of all nodes below it if `whole`."""
    copy = len(table["left"])
    for column in table.values():
        column.append(column[node])
    if whole and table["left"][node] >= 0:
        table["left"][copy] = _copied(table, table["left"][node])
        table["right"][copy] = _copied(table, table["right"][node])
    return copy
