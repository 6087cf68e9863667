"""Trees with splits on combinations of features, unfolded into trees that split one feature at a time."""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.readers.catboost.combinations import Condition
from treeanova.readers.catboost.growth import Branch, Part, Table, grow, tabulate
from treeanova.readers.catboost.model import Nodes
from treeanova.readers.catboost.splits import Splits

_MAX_CELLS = 1 << 22  # of one tree; larger trees are unfolded split by split
_MAX_LEAVES = 1 << 21  # of all trees

_Classes = Mapping[int, Sequence[int]]
_Item = TypeVar("_Item", bound=np.generic)


def unfold(
    nodes: Nodes, splits: Splits, missing_left: Mapping[int, bool], n_bins: Mapping[int, int]
) -> tuple[Nodes, Splits]:
    """Nodes and splits of the same trees without splits on combinations of features.

    Nodes that no root reaches any more are left behind.

    Parameters
    ----------
    nodes, splits
        The trees as CatBoost has them.
    missing_left
        For each numeric feature, by position, whether missing values are below all borders.
    n_bins
        For each categorical feature the number of its known categories, plus one for all others.
    """
    if not splits.conditions:
        return nodes, splits
    builder = _Builder(nodes, splits, n_bins)
    roots = [builder.root(root) for root in nodes.roots.tolist()]
    return builder.nodes(roots), builder.splits(missing_left)


@dataclasses.dataclass(frozen=True)
class _Grown:
    """A table, what is grown from it, and the old nodes at its ends, by the numbers of outcomes."""

    table: Table
    part: Part
    ends: Sequence[int]


class _Builder:
    """Old nodes and splits, and new ones after them."""

    def __init__(self, nodes: Nodes, splits: Splits, n_bins: Mapping[int, int]) -> None:
        self._split, self._left, self._right = nodes.split.tolist(), nodes.left.tolist(), nodes.right.tolist()
        self._leaf, self._label = nodes.leaf.tolist(), nodes.label.tolist()
        self._splits = splits
        self._n_bins = n_bins
        self._new_splits: dict[tuple[int, float], int] = {}
        self._grown: dict[int, _Grown | None] = {}
        self._n_leaves = 0

    def nodes(self, roots: Sequence[int]) -> Nodes:
        """All nodes."""
        columns = (roots, self._split, self._left, self._right, self._leaf, self._label)
        return Nodes(*(np.array(column, dtype=np.int64) for column in columns))

    def splits(self, missing_left: Mapping[int, bool]) -> Splits:
        """All splits; the last entry is still "no split"."""
        old, new = self._splits, list(self._new_splits)
        features = np.array([feature for feature, _ in new], dtype=np.int64)
        bounds = [np.nan if feature in self._n_bins else value for feature, value in new]
        sets = [_is_in(int(mask), self._n_bins[feature]) for feature, mask in new if feature in self._n_bins]
        sizes = np.array([self._n_bins.get(feature, 0) for feature, _ in new], dtype=np.int64)
        starts = np.where(sizes > 0, len(old.category_left) + np.cumsum(sizes) - sizes, -1)
        return Splits(
            feature=_before_last(old.feature, features),
            bound=_before_last(old.bound, bounds),
            missing_left=_before_last(old.missing_left, [missing_left.get(feature, False) for feature, _ in new]),
            category_start=_before_last(old.category_start, starts),
            category_left=np.concatenate([old.category_left, *sets]),
            conditions={},
        )

    def root(self, node: int) -> int:
        """The root of the unfolded tree: the same where there is nothing to unfold."""
        root = self.unfolded(node) if self._combines(self._splits_below(node)) else node
        self._grown.clear()
        return root

    def _combines(self, splits: Sequence[int]) -> bool:
        return any(split in self._splits.conditions for split in splits)

    def _splits_below(self, node: int) -> list[int]:
        """Distinct splits of a subtree."""
        found: dict[int, None] = {}
        waiting = [node]
        while waiting:
            node = waiting.pop()
            if self._left[node] >= 0:
                found[self._split[node]] = None
                waiting += [self._right[node], self._left[node]]
        return list(found)

    def unfolded(self, node: int) -> int:
        """A new node for a subtree, which may be needed in several places."""
        split, left, right = self._split[node], self._left[node], self._right[node]
        if left < 0:
            self._reserve_leaves(1)
            self._n_leaves += 1
            return self._append(split, left, right, self._leaf[node], self._label[node])
        if node not in self._grown:
            self._grown[node] = self._grow(node)
        grown = self._grown[node]
        if grown is None:
            return self._append(split, self.unfolded(left), self.unfolded(right))
        self._reserve_leaves(grown.part.n_leaves)
        return _Emission(self, grown).node(grown.part, grown.table.classes)

    def _reserve_leaves(self, n_leaves: int) -> None:
        if self._n_leaves + n_leaves > _MAX_LEAVES:
            raise _size_error()

    def _grow(self, node: int) -> _Grown | None:
        """What replaces a subtree, or its first split if the subtree is large; None if that split can stay."""
        below = self._splits_below(node)
        if not self._combines(below):
            return None
        table = tabulate(self._conditions(below), functools.partial(self._leaf_in_cells, node), _MAX_CELLS)
        if table is None:
            split, left, right = self._split[node], self._left[node], self._right[node]
            if split not in self._splits.conditions:
                return None
            table = tabulate(self._conditions([split]), lambda goes: np.where(goes[split], right, left), _MAX_CELLS)
        if table is None:
            raise _size_error()
        ends, outcomes = np.unique(table.outcomes, return_inverse=True)
        smallest = np.min_scalar_type(len(ends))
        part = grow(table.with_outcomes(outcomes.reshape(table.outcomes.shape).astype(smallest)))
        return _Grown(table, part, ends.tolist())

    def _conditions(self, splits: Sequence[int]) -> dict[int, Condition]:
        return {split: self._splits.conditions.get(split) or self._condition(split) for split in splits}

    def _condition(self, split: int) -> Condition:
        """A split on one feature in the form of one on several."""
        old = self._splits
        feature, start = int(old.feature[split]), int(old.category_start[split])
        if start < 0:
            return Condition((feature,), (old.bound[split : split + 1],), np.array([False, True]))
        return Condition((feature,), (None,), ~old.category_left[start : start + self._n_bins[feature]])

    def _leaf_in_cells(self, node: int, goes_right: Mapping[int, Bools]) -> Ints:
        """The leaf node that each cell reaches from a node."""
        if self._left[node] < 0:
            return np.array(node)
        left, right = (self._leaf_in_cells(child, goes_right) for child in (self._left[node], self._right[node]))
        return np.where(goes_right[self._split[node]], right, left)

    def branch(self, feature: int, value: float, left: int, right: int) -> int:
        """A new node that splits a feature at a bound, or by a mask of categories that go left."""
        first = len(self._splits.feature) - 1
        split = self._new_splits.setdefault((feature, value), first + len(self._new_splits))
        return self._append(split, left, right, 0, 0)

    def _append(self, split: int, left: int, right: int, leaf: int = 0, label: int = 0) -> int:
        self._split.append(split)
        self._left.append(left)
        self._right.append(right)
        self._leaf.append(leaf)
        self._label.append(label)
        return len(self._split) - 1


class _Emission:
    """New nodes for what was grown from one table."""

    def __init__(self, builder: _Builder, grown: _Grown) -> None:
        self._builder, self._bounds, self._ends = builder, grown.table.bounds, grown.ends

    def node(self, part: Part, classes: _Classes) -> int:
        """A node for a part, whose classes of features are given by their values."""
        if isinstance(part.content, int):
            return self._builder.unfolded(self._ends[part.content])
        merged = {feature: self._merged(feature, classes[feature], new) for feature, new in part.merged.items()}
        own = merged.pop(part.content.feature)
        return self._halves(part.content, own, merged, 0, len(own))

    def _halves(self, branch: Branch, own: Sequence[int], classes: _Classes, low: int, high: int) -> int:
        """Nodes that halve the classes of a branch from `low` to `high` until one is left."""
        if high - low == 1:
            return self.node(branch.parts[low], classes)
        middle = (low + high) // 2
        left, right = (self._halves(branch, own, classes, *ends) for ends in ((low, middle), (middle, high)))
        bounds = self._bounds[branch.feature]
        value = functools.reduce(operator.or_, own[low:middle]) if bounds is None else float(bounds[own[middle] - 1])
        return self._builder.branch(branch.feature, value, left, right)

    def _merged(self, feature: int, old: Sequence[int], new: Sequence[int]) -> Sequence[int]:
        """Values of merged classes: the first interval, or all categories."""
        size = max(new) + 1
        if size == len(new):
            return old
        merged = [0] * size
        if self._bounds[feature] is None:
            for mask, number in zip(old, new, strict=True):
                merged[number] |= mask
        else:
            for first, number in zip(reversed(old), reversed(new), strict=True):
                merged[number] = first
        return merged


def _before_last(old: npt.NDArray[_Item], new: npt.ArrayLike) -> npt.NDArray[_Item]:
    return np.concatenate([old[:-1], np.asarray(new, dtype=old.dtype), old[-1:]])


def _is_in(mask: int, size: int) -> Bools:
    """Whether each category is in a mask."""
    data = np.frombuffer(mask.to_bytes(-(-size // 8), "little"), dtype=np.uint8)
    return np.unpackbits(data, count=size, bitorder="little").astype(bool)


def _size_error() -> UnsupportedModelError:
    return UnsupportedModelError(
        f"`model` must have at most {_MAX_LEAVES:,} leaves with splits on one feature at a time, got CTRs of "
        "combinations of features that need more; train with a smaller max_ctr_complexity, fewer trees or fewer "
        "categories."
    )
