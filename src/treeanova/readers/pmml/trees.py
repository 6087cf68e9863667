"""TreeModels as nodes of a Forest: children that are tried one after the other become splits on one feature each."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.readers.checks import check_size
from treeanova.readers.pmml.document import Element
from treeanova.readers.pmml.fields import Field, Fields, refusal
from treeanova.readers.pmml.predicates import Value, bounds, evaluate, field_names, predicate_of

_MAX_NODES = 2_000_000
_UNSEEN = "\0 a category that no predicate names"


class Outcome(NamedTuple):
    """Where a value leads: "child" or "rest" with a position among the children, "stay" at the node, or "null"."""

    kind: str
    position: int = 0


class TreeBuilder:
    """Nodes of all trees, appended one by one; `leaf_values` takes a Node element to the values of its score."""

    def __init__(self, fields: Fields) -> None:
        self.fields = fields
        self.nodes: list[tuple[int, float, bool, tuple[bool, ...]]] = []  # feature, bound, missing_left, categories
        self.left: list[int] = []
        self.right: list[int] = []
        self.values: list[Floats | None] = []
        self.without_missing: set[int] = set()
        self.without_unseen: set[int] = set()

    def add(self, model: Element, leaf_values: Callable[[Element], Floats]) -> int:
        """Append the tree of a TreeModel, and give the position of its root."""
        strategy = model.get("missingValueStrategy", "none")
        if strategy not in {"none", "defaultChild", "lastPrediction", "nullPrediction"}:
            raise refusal(f"missingValueStrategy must be none, defaultChild or a prediction, got {strategy}")
        root = model.first("Node")
        if root is None or predicate_of(root).name != "True":
            raise refusal("each TreeModel must have a root whose predicate is True")
        stays = model.get("noTrueChildStrategy") == "returnLastPrediction"
        return _Tree(self, strategy, stays, leaf_values).node(root)

    def append(self, split: tuple[int, float, bool, tuple[bool, ...]], values: Floats | None = None) -> int:
        """Append a node without children."""
        check_size("trees", len(self.nodes), _MAX_NODES)
        self.nodes.append(split)
        self.left.append(-1)
        self.right.append(-1)
        self.values.append(values)
        return len(self.nodes) - 1

    def arrays(self, n_outputs: int) -> dict[str, Any]:
        """Arguments of `assemble`."""
        sizes = np.array([len(node[3]) for node in self.nodes], dtype=np.int64)
        zero = np.zeros(n_outputs)
        return {
            "feature": [node[0] for node in self.nodes],
            "bound": [node[1] for node in self.nodes],
            "missing_left": [node[2] for node in self.nodes],
            "left": self.left,
            "right": self.right,
            "values": np.array([zero if values is None else values for values in self.values]),
            "leaf_label": np.arange(len(self.nodes)),
            "category_start": np.where(sizes > 0, np.cumsum(sizes) - sizes, -1),
            "category_left": [entry for node in self.nodes for entry in node[3]],
        }


class _Tree:
    """One TreeModel."""

    def __init__(
        self, builder: TreeBuilder, strategy: str, stays: bool, leaf_values: Callable[[Element], Floats]
    ) -> None:
        self.builder, self.fields = builder, builder.fields
        self.strategy, self.stays, self.leaf_values = strategy, stays, leaf_values

    def node(self, element: Element) -> int:
        """Append a node and all that follows it."""
        return self.choose(element, 0) if element.all("Node") else self.leaf(element)

    def leaf(self, element: Element) -> int:
        return self.builder.append((-1, 0.0, False, ()), self.leaf_values(element))

    def choose(self, element: Element, start: int) -> int:
        """Append the splits by which the children from `start` on are chosen."""
        children = element.all("Node")
        names, end = set[str](), start
        while end < len(children):
            more = names | field_names(predicate_of(children[end]))
            if len({self.fields.get(name).position for name in more}) > 1:
                break
            names, end = more, end + 1
        if end == start:
            raise refusal("a predicate combines several fields; use nested nodes instead")
        tested = [predicate_of(child) for child in children[start:end]]

        def outcome(value: Value) -> Outcome:
            return self.outcome(element, tested, start, value)

        def follow(chosen: Outcome) -> int:
            if chosen.kind == "child":
                return self.node(children[chosen.position])
            return self.leaf(element) if chosen.kind == "stay" else self.choose(element, chosen.position)

        if not names:
            return follow(_certain(outcome(None)))
        field = self.fields.get(min(names))
        if field.categories is not None:
            return self.categories(field, outcome, follow)
        edges = sorted(set().union(*(bounds(predicate, self.fields) for predicate in tested)))
        return self.numbers(field, edges, outcome, follow)

    def outcome(self, element: Element, tested: Sequence[Element], start: int, value: Value) -> Outcome:
        """Where a value of the tested field leads."""
        children = element.all("Node")
        for position, predicate in enumerate(tested, start):
            truth = evaluate(predicate, value, self.fields)
            if truth:
                return Outcome("child", position)
            if truth is None and self.strategy != "none":
                return self.unknown(element, children)
        if start + len(tested) < len(children):
            return Outcome("rest", start + len(tested))
        return Outcome("stay" if self.stays and _has_score(element) else "null")

    def unknown(self, element: Element, children: Sequence[Element]) -> Outcome:
        """Where a row goes if a predicate is unknown."""
        if self.strategy == "lastPrediction" and _has_score(element):
            return Outcome("stay")
        ids = [child.get("id") for child in children]
        if self.strategy == "defaultChild" and element.get("defaultChild") in ids and element.get("defaultChild"):
            return Outcome("child", ids.index(element.get("defaultChild")))
        return Outcome("null")

    def numbers(
        self, field: Field, edges: list[float], outcome: Callable[[Value], Outcome], follow: Callable[[Outcome], int]
    ) -> int:
        """Append splits of a number: intervals with the same outcome are joined."""
        found = [(edge, _certain(outcome(edge))) for edge in [*edges, np.inf]]
        groups = [list(group)[-1] for _, group in itertools.groupby(found, key=lambda pair: pair[1])]
        missing: Outcome | None = outcome(None)
        if missing == Outcome("null"):
            self.builder.without_missing.add(field.position)
            missing = None
        return self.intervals(field.position, groups, missing, follow)

    def intervals(
        self,
        feature: int,
        groups: list[tuple[float, Outcome]],
        missing: Outcome | None,
        follow: Callable[[Outcome], int],
    ) -> int:
        """Append splits into intervals, given by their upper ends; `missing` is None if no missing value gets here."""
        if len(groups) == 1 and missing in {None, groups[0][1]}:
            return follow(groups[0][1])
        if len(groups) == 1:
            assert missing is not None  # noqa: S101  asked before
            position = self.builder.append((feature, np.inf, False, ()))
            self.builder.left[position] = follow(groups[0][1])
            self.builder.right[position] = follow(missing)
            return position
        half = len(groups) // 2
        lower, upper = groups[:half], groups[half:]
        missing_left = missing in [outcome for _, outcome in lower]
        position = self.builder.append((feature, lower[-1][0], missing_left, ()))
        self.builder.left[position] = self.intervals(feature, lower, missing if missing_left else None, follow)
        self.builder.right[position] = self.intervals(feature, upper, None if missing_left else missing, follow)
        return position

    def categories(self, field: Field, outcome: Callable[[Value], Outcome], follow: Callable[[Outcome], int]) -> int:
        """Append splits of a category: one set for each outcome but the last."""
        known = [_certain(outcome(text)) for text in field.categories or ()]
        missing = outcome(None)
        unseen = missing if field.unseen_is_missing else outcome(_UNSEEN)
        if unseen == Outcome("null"):
            self.builder.without_unseen.add(field.position)
        if missing == Outcome("null"):
            self.builder.without_missing.add(field.position)
        every = [chosen for chosen in dict.fromkeys([*known, unseen, missing]) if chosen.kind != "null"]
        if not every:
            raise refusal("a row may have no prediction")
        starts: list[int] = []
        for chosen in every[:-1]:
            table = tuple(other == chosen for other in [*known, unseen])
            position = self.builder.append((field.position, 0.0, missing == chosen, table))
            self.builder.left[position] = follow(chosen)
            starts.append(position)
        last = follow(every[-1])
        for position, after in zip(starts, [*starts[1:], last], strict=True):
            self.builder.right[position] = after
        return starts[0] if starts else last


def _has_score(element: Element) -> bool:
    return "score" in element.attributes or bool(element.all("ScoreDistribution"))


def _certain(outcome: Outcome) -> Outcome:
    """The outcome, unless there is no prediction."""
    if outcome.kind == "null":
        raise refusal('a row may have no prediction; write the model with noTrueChildStrategy="returnLastPrediction"')
    return outcome
