"""TreeModels as nodes of a Forest: children that are tried one after the other become splits on one feature each."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.readers.checks import check_size
from treeanova.readers.pmml.document import Element
from treeanova.readers.pmml.fields import Field, Fields, refusal
from treeanova.readers.pmml.predicates import (
    TRUE,
    UNKNOWN,
    Numbers,
    Texts,
    Values,
    bounds,
    evaluate,
    field_names,
    predicate_of,
)

_REST, _STAY, _NULL = -1, -2, -3
# Children on several fields in turn are copied; documents of a few kilobytes could ask for billions.
_MAX_COPIES, _FREE_NODES = 10, 100_000
_MAX_COMPARISONS = 1 << 30
_MAX_ENTRIES = 1 << 27
_NO_TABLE: Bools = np.zeros(0, dtype=bool)


@dataclasses.dataclass(frozen=True)
class _Choice:
    """How the children of a node from `start` to `end` are chosen: the outcome of each value of one field, if any.

    Outcomes are positions of children, or _REST (the children from `end` on), _STAY (at the node) or _NULL.
    """

    end: int
    field: Field | None
    edges: Floats
    outcomes: Ints


class TreeBuilder:
    """Nodes of all trees, appended one by one; `leaf_values` takes a Node element to the values of its score."""

    def __init__(self, fields: Fields, n_elements: int) -> None:
        self.fields = fields
        self.max_nodes = _FREE_NODES + _MAX_COPIES * n_elements
        self.n_choices = self.n_entries = 0
        self.nodes: list[tuple[int, float, bool, Bools]] = []  # feature, bound, missing_left, categories
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
        otherwise = model.get("noTrueChildStrategy", "returnNullPrediction")
        if otherwise not in {"returnNullPrediction", "returnLastPrediction"}:
            raise refusal(f"noTrueChildStrategy must be that of PMML, got {otherwise!r:.40}")
        stays = otherwise == "returnLastPrediction"
        return _Tree(self, strategy, stays, leaf_values).node(root)

    def append(
        self, feature: int, bound: float, *, missing_left: bool, table: Bools = _NO_TABLE, values: Floats | None = None
    ) -> int:
        """Append a node without children."""
        self.n_entries += len(table)
        check_size("trees on one field at a time", len(self.nodes), self.max_nodes)
        check_size("category tables", self.n_entries, _MAX_ENTRIES)
        self.nodes.append((feature, bound, missing_left, table))
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
            "category_left": np.concatenate([_NO_TABLE, *(node[3] for node in self.nodes)]),
        }


class _Tree:
    """One TreeModel."""

    def __init__(
        self, builder: TreeBuilder, strategy: str, stays: bool, leaf_values: Callable[[Element], Floats]
    ) -> None:
        self.builder, self.fields = builder, builder.fields
        self.strategy, self.stays, self.leaf_values = strategy, stays, leaf_values
        self.choices: dict[tuple[int, int], _Choice] = {}

    def node(self, element: Element) -> int:
        """Append a node and all that follows it."""
        return self.choose(element, 0) if element.all("Node") else self.leaf(element)

    def leaf(self, element: Element) -> int:
        return self.builder.append(-1, 0.0, missing_left=False, values=self.leaf_values(element))

    def choose(self, element: Element, start: int) -> int:
        """Append the splits by which the children from `start` on are chosen."""
        self.builder.n_choices += 1
        check_size("trees on one field at a time", self.builder.n_choices, self.builder.max_nodes)
        if (id(element), start) not in self.choices:
            self.choices[id(element), start] = self.choice(element, start)
        choice = self.choices[id(element), start]

        def follow(outcome: int) -> int:
            if outcome >= 0:
                return self.node(element.all("Node")[outcome])
            return self.leaf(element) if outcome == _STAY else self.choose(element, choice.end)

        if choice.field is None:
            _check_certain(choice.outcomes)
            return follow(int(choice.outcomes[0]))
        if choice.field.categories is not None:
            return self.categories(choice.field, choice.outcomes, follow)
        return self.numbers(choice.field, choice, follow)

    def choice(self, element: Element, start: int) -> _Choice:
        """How children from `start` on are chosen, as far as their predicates are on one field."""
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
        field = self.fields.get(min(names)) if names else None
        values, edges = self.values(field, tested)
        check_size("comparisons of one node", len(tested) * len(values.is_missing), _MAX_COMPARISONS)
        return _Choice(end, field, edges, self.outcomes(element, tested, start, values))

    def values(self, field: Field | None, tested: Sequence[Element]) -> tuple[Values, Floats]:
        """All values of a field between which predicates differ, last a missing one, and the bounds of numbers."""
        if field is not None and field.categories is not None:
            position = {text: code for code, text in enumerate(field.categories)}
            return Texts(position, np.arange(len(position) + 2)), np.empty(0)
        edges = sorted(set().union({np.inf}, *(bounds(predicate, self.fields) for predicate in tested)))
        return Numbers(field or Field(0), np.array([*edges, np.nan])), np.array(edges)

    def outcomes(self, element: Element, tested: Sequence[Element], start: int, values: Values) -> Ints:
        """Where each value of the tested field leads."""
        has_rest = start + len(tested) < len(element.all("Node"))
        otherwise = _REST if has_rest else _STAY if self.stays and _has_score(element) else _NULL
        result = np.full(len(values.is_missing), otherwise, dtype=np.int64)
        waiting = np.arange(len(result))
        for position, predicate in enumerate(tested, start):
            truth = evaluate(predicate, values.at(waiting))
            result[waiting[truth == TRUE]] = position
            if self.strategy != "none" and (truth == UNKNOWN).any():
                result[waiting[truth == UNKNOWN]] = self.unknown(element)
                truth[truth == UNKNOWN] = TRUE
            waiting = waiting[truth != TRUE]
        return result

    def unknown(self, element: Element) -> int:
        """Where a row goes if a predicate is unknown."""
        if self.strategy == "lastPrediction" and _has_score(element):
            return _STAY
        ids = [child.get("id") for child in element.all("Node")]
        if self.strategy == "defaultChild" and element.get("defaultChild") in ids and element.get("defaultChild"):
            return ids.index(element.get("defaultChild"))
        return _NULL

    def numbers(self, field: Field, choice: _Choice, follow: Callable[[int], int]) -> int:
        """Append splits of a number: intervals with the same outcome are joined."""
        *known, last = choice.outcomes.tolist()
        _check_certain(choice.outcomes[:-1])
        pairs = zip(choice.edges.tolist(), known, strict=True)
        groups = [list(group)[-1] for _, group in itertools.groupby(pairs, key=lambda pair: pair[1])]
        if last == _NULL:
            self.builder.without_missing.add(field.position)
        return self.intervals(field.position, groups, None if last == _NULL else last, follow)

    def intervals(
        self, feature: int, groups: list[tuple[float, int]], missing: int | None, follow: Callable[[int], int]
    ) -> int:
        """Append splits into intervals, given by their upper ends; `missing` is None if no missing value gets here."""
        if len(groups) == 1 and missing in {None, groups[0][1]}:
            return follow(groups[0][1])
        if len(groups) == 1:
            assert missing is not None  # noqa: S101  asked before
            position = self.builder.append(feature, np.inf, missing_left=False)
            self.builder.left[position] = follow(groups[0][1])
            self.builder.right[position] = follow(missing)
            return position
        half = len(groups) // 2
        lower, upper = groups[:half], groups[half:]
        missing_left = missing in [outcome for _, outcome in lower]
        position = self.builder.append(feature, lower[-1][0], missing_left=missing_left)
        self.builder.left[position] = self.intervals(feature, lower, missing if missing_left else None, follow)
        self.builder.right[position] = self.intervals(feature, upper, None if missing_left else missing, follow)
        return position

    def categories(self, field: Field, outcomes: Ints, follow: Callable[[int], int]) -> int:
        """Append splits of a category: one set for each outcome but the last."""
        known, (unseen, missing) = outcomes[:-2], outcomes[-2:].tolist()
        _check_certain(known)
        unseen = missing if field.unseen_is_missing else unseen
        if unseen == _NULL:
            self.builder.without_unseen.add(field.position)
        if missing == _NULL:
            self.builder.without_missing.add(field.position)
        every = [chosen for chosen in dict.fromkeys([*known.tolist(), unseen, missing]) if chosen != _NULL]
        if not every:
            raise refusal("a row may have no prediction")
        starts: list[int] = []
        for chosen in every[:-1]:
            table = np.append(known == chosen, unseen == chosen)
            position = self.builder.append(field.position, 0.0, missing_left=missing == chosen, table=table)
            self.builder.left[position] = follow(chosen)
            starts.append(position)
        last = follow(every[-1])
        for position, after in zip(starts, [*starts[1:], last], strict=True):
            self.builder.right[position] = after
        return starts[0] if starts else last


def _has_score(element: Element) -> bool:
    return "score" in element.attributes or bool(element.all("ScoreDistribution"))


def _check_certain(outcomes: Ints) -> None:
    """Raise UnsupportedModelError where there is no prediction."""
    if (outcomes == _NULL).any():
        raise refusal('a row may have no prediction; write the model with noTrueChildStrategy="returnLastPrediction"')
