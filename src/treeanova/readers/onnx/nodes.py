"""Nodes of ONNX's trees as nodes of a Forest, which go left up to a closed bound."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import bound_below, bound_up_to
from treeanova.readers.checks import check_size

# Conditions, by the names of the older operators and in the order of the numbers of the newer one.
MODES = ("BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ", "BRANCH_MEMBER")
LEQ, LT, GTE, GT, EQ, NEQ, MEMBER = range(7)
_MAX_NODES = 2_000_000  # after shared nodes are copied
Range = tuple[float, float]


@dataclasses.dataclass(frozen=True)
class Conditions:
    """Inner nodes and leaves as a file has them; a leaf has mode -1.

    `true` and `false` are the children; `tracks` tells whether NaN counts as true; `is_double` whether numbers are
    compared in float64.
    """

    feature: Ints
    threshold: Floats
    mode: Ints
    true: Ints
    false: Ints
    tracks: Bools
    is_double: bool


def with_chains(conditions: Conditions, sets: Sequence[Floats]) -> Conditions:
    """Conditions with a chain of equalities in place of each node that asks whether x is in a set."""
    asked = np.flatnonzero(conditions.mode == MEMBER)
    if len(asked) != len(sets) or any(not len(members) for members in sets):
        raise ModelFileError(f"ONNX trees must have a set for each of {len(asked)} nodes, got others; file damaged?")
    if any(not np.isin(members, np.arange(1, 31)).all() for members in sets):
        raise UnsupportedModelError(
            "sets of ONNX trees (BRANCH_MEMBER) must hold whole numbers from 1 to 30, got others, for which "
            "onnxruntime cuts off fractions of its input; convert the model with equalities."
        )
    columns = {field.name: list(getattr(conditions, field.name)) for field in dataclasses.fields(conditions)[:-1]}
    for node, members in zip(asked.tolist(), sets, strict=True):
        last = columns["false"][node]
        places = [node, *range(len(columns["mode"]), len(columns["mode"]) + len(members) - 1)]
        for place, following, member in zip(places, [*places[1:], last], members, strict=True):
            entry = (columns["feature"][node], member, EQ, columns["true"][node], following, columns["tracks"][node])
            for values, value in zip(columns.values(), entry, strict=True):
                values[place : place + 1] = [value]
    return Conditions(
        feature=np.array(columns["feature"], dtype=np.int64),
        threshold=np.array(columns["threshold"], dtype=np.float64),
        mode=np.array(columns["mode"], dtype=np.int64),
        true=np.array(columns["true"], dtype=np.int64),
        false=np.array(columns["false"], dtype=np.int64),
        tracks=np.array(columns["tracks"], dtype=bool),
        is_double=conditions.is_double,
    )


def left_and_right(conditions: Conditions, roots: Ints) -> tuple[dict[str, Ints | Floats | Bools], Ints]:
    """Arguments of `assemble` for the structure of trees, and the node of the file that each node comes from."""
    _check(conditions, roots)
    up_to, below = _bounds(conditions)
    is_equality = (conditions.mode == EQ) | (conditions.mode == NEQ)
    if is_equality.any() or _is_shared(conditions):
        return _expanded(conditions, roots, up_to, below)
    mode = conditions.mode
    swaps = (mode == GT) | (mode == GTE)
    is_leaf = mode < 0
    structure: dict[str, Ints | Floats | Bools] = {
        "roots": roots,
        "feature": np.where(is_leaf, -1, conditions.feature),
        "bound": np.where((mode == LEQ) | (mode == GT), up_to, below),
        "left": np.where(is_leaf, -1, np.where(swaps, conditions.false, conditions.true)),
        "right": np.where(is_leaf, -1, np.where(swaps, conditions.true, conditions.false)),
        "missing_left": conditions.tracks != swaps,
    }
    return structure, np.arange(len(mode))


def _check(conditions: Conditions, roots: Ints) -> None:
    mode, threshold = conditions.mode, conditions.threshold
    if not np.isfinite(threshold[mode >= 0]).all():
        raise UnsupportedModelError("thresholds of ONNX trees must be finite, got others; convert the model again.")
    children = np.concatenate([roots, conditions.true[mode >= 0], conditions.false[mode >= 0]])
    if len(children) and (children.min() < 0 or children.max() >= len(mode)):
        raise ModelFileError("ONNX trees must have roots and children that exist, got others; file damaged?")
    if not _is_acyclic(conditions):
        raise ModelFileError("ONNX trees must end in leaves, got a loop; file damaged?")
    if not len(roots):
        raise ModelFileError("an ONNX model must have trees, got none; file damaged?")


def _is_shared(conditions: Conditions) -> bool:
    """Whether a node has several parents, as where a set of categories is a chain of equalities with one outcome."""
    inner = conditions.mode >= 0
    children = np.concatenate([conditions.true[inner], conditions.false[inner]])
    return len(np.unique(children)) < len(children)


def _is_acyclic(conditions: Conditions) -> bool:
    """Whether no node comes after itself: nodes are taken away once all of their parents are."""
    inner = conditions.mode >= 0
    n_parents = np.bincount(
        np.concatenate([conditions.true[inner], conditions.false[inner]]), minlength=len(conditions.mode)
    )
    free, n_taken = np.flatnonzero(n_parents == 0), 0
    while len(free):
        n_taken += len(free)
        taken = free[inner[free]]
        children = np.concatenate([conditions.true[taken], conditions.false[taken]])
        np.subtract.at(n_parents, children, 1)
        free = np.unique(children[n_parents[children] == 0])
    return n_taken == len(inner)


def _bounds(conditions: Conditions) -> tuple[Floats, Floats]:
    """Closed bounds of x <= t and of x < t."""
    threshold = np.where(conditions.mode < 0, 0.0, conditions.threshold)
    if conditions.is_double:
        return threshold, np.nextafter(threshold, -np.inf)
    return bound_up_to(threshold), bound_below(threshold)


def _expanded(
    conditions: Conditions, roots: Ints, up_to: Floats, below: Floats
) -> tuple[dict[str, Ints | Floats | Bools], Ints]:
    """Trees with equalities or shared nodes: x == t is two nodes, after which the branch of x != t comes twice.

    Where the values that reach a node leave one answer only, the node is left out, so that chains of equalities of one
    feature stay small.
    """
    builder = _Builder(conditions, up_to, below)
    starts = [builder.tree(int(root)) for root in roots]
    structure: dict[str, Ints | Floats | Bools] = {
        "roots": np.array(starts, dtype=np.int64),
        "feature": np.array(builder.feature, dtype=np.int64),
        "bound": np.array(builder.bound, dtype=np.float64),
        "left": np.array(builder.left, dtype=np.int64),
        "right": np.array(builder.right, dtype=np.int64),
        "missing_left": np.array(builder.missing_left, dtype=bool),
    }
    return structure, np.array(builder.origin, dtype=np.int64)


class _Builder:
    """Nodes of a Forest, appended one by one."""

    def __init__(self, conditions: Conditions, up_to: Floats, below: Floats) -> None:
        self.conditions = conditions
        self.up_to, self.below = up_to.tolist(), below.tolist()
        self.feature: list[int] = []
        self.bound: list[float] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.missing_left: list[bool] = []
        self.origin: list[int] = []

    def tree(self, root: int) -> int:
        """Append a tree, and give the position of its root."""
        start = len(self.origin)
        # Node of the file, ranges of features so far, and where its position is to be written.
        waiting: list[tuple[int, dict[int, Range], list[int] | None, int]] = [(root, {}, None, 0)]
        while waiting:
            node, ranges, parent_side, parent = waiting.pop()
            node = self._undecided(node, ranges)
            check_size("trees with equalities", len(self.origin), _MAX_NODES)
            position = self._append(node)
            if parent_side is not None:
                parent_side[parent] = position
            if self.conditions.mode[node] >= 0:
                waiting += self._children(node, position, ranges)
        return start

    def _append(self, node: int) -> int:
        self.feature.append(-1)
        self.bound.append(0.0)
        self.left.append(-1)
        self.right.append(-1)
        self.missing_left.append(False)
        self.origin.append(node)
        return len(self.origin) - 1

    def _undecided(self, node: int, ranges: dict[int, Range]) -> int:
        """The first node from here on whose answer the ranges leave open."""
        conditions = self.conditions
        for _ in range(len(conditions.mode)):
            mode = conditions.mode[node]
            if mode not in {EQ, NEQ} or conditions.tracks[node]:
                return node
            low, high = ranges.get(int(conditions.feature[node]), (-np.inf, np.inf))
            if low < self.up_to[node] and self.below[node] < high:
                return node
            node = int(conditions.false[node] if mode == EQ else conditions.true[node])
        raise ModelFileError("the model's trees must reach each node once, got a loop; file damaged?")

    def _children(
        self, node: int, position: int, ranges: dict[int, Range]
    ) -> list[tuple[int, dict[int, Range], list[int] | None, int]]:
        """Fill in a node, and give what comes after it; an equality gets a second node on its left."""
        conditions, mode = self.conditions, int(self.conditions.mode[node])
        true, false, tracks = int(conditions.true[node]), int(conditions.false[node]), bool(conditions.tracks[node])
        feature = int(conditions.feature[node])
        self.feature[position] = feature
        if mode not in {EQ, NEQ}:
            swaps = mode in {GT, GTE}
            left, right = (false, true) if swaps else (true, false)
            self.bound[position] = self.up_to[node] if mode in {LEQ, GT} else self.below[node]
            self.missing_left[position] = tracks != swaps
            return [(left, ranges, self.left, position), (right, ranges, self.right, position)]
        equal, other = (true, false) if mode == EQ else (false, true)
        low, high = ranges.get(feature, (-np.inf, np.inf))
        up_to, below = self.up_to[node], self.below[node]
        # NaN is not equal to anything; where it counts as true at x == t, it goes with equal values.
        missing_is_equal = tracks and mode == EQ
        self.bound[position], self.missing_left[position] = up_to, missing_is_equal
        second = self._append(node)
        self.left[position] = second
        self.feature[second], self.bound[second], self.missing_left[second] = feature, below, False
        return [
            (other, ranges | {feature: (low, min(high, below))}, self.left, second),
            (equal, ranges | {feature: (max(low, below), min(high, up_to))}, self.right, second),
            (other, ranges | {feature: (max(low, up_to), high)}, self.right, position),
        ]
