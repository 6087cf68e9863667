"""PMML: TreeModel, and MiningModel that adds up or averages TreeModels, as a Forest.

Facts (PMML 4.x):

- Children of a node are tried in their order, and the first whose predicate is true is taken. If none is true, the
  prediction is that of the node for noTrueChildStrategy="returnLastPrediction", else there is none.
- A comparison with a missing value is unknown. What happens then is missingValueStrategy: "none" takes it as false,
  "defaultChild" goes to the node's default child, "lastPrediction" stops there, "nullPrediction" predicts nothing.
- Predicates may be True, False, comparisons, sets, isMissing and isNotMissing, and combinations of these on one field.
- Fields of the type float are compared in float32, all other numbers in float64. Categories are compared as text.
- A category that the field does not list is invalid: an error here, unless invalidValueTreatment is "asMissing". "asIs"
  is an error too, because scorers differ in what they do then.
- A MiningModel is the sum, the mean or the weighted mean or sum of its segments; majorityVote counts the scores of
  classes. Targets may rescale a number.

Documents with a DTD are refused, as are weightedConfidence and aggregateNodes, modelChain, derived fields other than
copies, replaced missing values, and predictions that may not exist.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import pathlib
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Feature, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, TreeBuilder
from treeanova.readers.checks import check_size, damage_reported, decimal_number
from treeanova.readers.outputs import class_outputs, without_first_of_two
from treeanova.readers.pmml.fields import (
    TRUE,
    UNKNOWN,
    Element,
    Field,
    Fields,
    Values,
    bounds,
    evaluate,
    field_names,
    parse,
    predicate_of,
    read_fields,
    refusal,
)

_REST, _STAY, _NULL = -1, -2, -3
# Children on several fields in turn are copied; documents of a few kilobytes could ask for billions.
_MAX_COPIES, _FREE_NODES = 10, 100_000
_MAX_COMPARISONS = 1 << 30
_MAX_ENTRIES = 1 << 27


@dataclasses.dataclass(frozen=True)
class _Choice:
    """How the children of a node from `start` to `end` are chosen: the outcome of each value of one field, if any.

    Outcomes are positions of children, or _REST (the children from `end` on), _STAY (at the node) or _NULL.
    """

    end: int
    field: Field | None
    edges: Floats
    outcomes: Ints


class _Trees:
    """Trees of TreeModels, on one field at a time; notes features for which a row may have no prediction."""

    def __init__(self, fields: Fields, n_elements: int) -> None:
        self.fields, self.builder = fields, TreeBuilder()
        self.max_nodes = _FREE_NODES + _MAX_COPIES * n_elements
        self.n_choices = self.n_entries = 0
        self.without_missing: set[int] = set()
        self.without_unseen: set[int] = set()

    def add(self, model: Element, leaf_values: Callable[[Element], Floats]) -> int:
        """Append the tree of a TreeModel and return its root; `leaf_values` takes a Node to the values of its score."""
        self.strategy = model.get("missingValueStrategy", "none")
        if self.strategy not in {"none", "defaultChild", "lastPrediction", "nullPrediction"}:
            raise refusal(f"missingValueStrategy must be none, defaultChild or a prediction, got {self.strategy}")
        root = model.first("Node")
        if root is None or predicate_of(root).name != "True":
            raise refusal("each TreeModel must have a root whose predicate is True")
        otherwise = model.get("noTrueChildStrategy", "returnNullPrediction")
        if otherwise not in {"returnNullPrediction", "returnLastPrediction"}:
            raise refusal(f"noTrueChildStrategy must be that of PMML, got {otherwise!r:.40}")
        self.stays, self.leaf_values = otherwise == "returnLastPrediction", leaf_values
        self.choices: dict[tuple[int, int], _Choice] = {}
        return self.node(root)

    def append(self, **node: Any) -> int:
        self.n_entries += len(node.get("categories", ()))
        check_size("trees on one field at a time", len(self.builder), self.max_nodes)
        check_size("category tables", self.n_entries, _MAX_ENTRIES)
        return self.builder.append(**node)

    def node(self, element: Element) -> int:
        return self.choose(element, 0) if element.all("Node") else self.leaf(element)

    def leaf(self, element: Element) -> int:
        return self.append(values=self.leaf_values(element))

    def choose(self, element: Element, start: int) -> int:
        self.n_choices += 1
        check_size("trees on one field at a time", self.n_choices, self.max_nodes)
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
        """Return how children from `start` on are chosen, as far as their predicates are on one field."""
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
        if field is not None and field.categories is not None:
            return Values(field, np.arange(len(field.categories) + 2.0)), np.empty(0)
        edges = sorted(set().union({np.inf}, *(bounds(predicate, self.fields) for predicate in tested)))
        return Values(field or Field(0), np.array([*edges, np.nan])), np.array(edges)

    def outcomes(self, element: Element, tested: Sequence[Element], start: int, values: Values) -> Ints:
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
        if self.strategy == "lastPrediction" and _has_score(element):
            return _STAY
        ids = [child.get("id") for child in element.all("Node")]
        if self.strategy == "defaultChild" and element.get("defaultChild") in ids and element.get("defaultChild"):
            return ids.index(element.get("defaultChild"))
        return _NULL

    def numbers(self, field: Field, choice: _Choice, follow: Callable[[int], int]) -> int:
        *known, last = choice.outcomes.tolist()
        _check_certain(choice.outcomes[:-1])
        pairs = zip(choice.edges.tolist(), known, strict=True)
        groups = [list(group)[-1] for _, group in itertools.groupby(pairs, key=lambda pair: pair[1])]
        if last == _NULL:
            self.without_missing.add(field.position)
        return self.intervals(field.position, groups, None if last == _NULL else last, follow)

    def intervals(
        self, feature: int, groups: list[tuple[float, int]], missing: int | None, follow: Callable[[int], int]
    ) -> int:
        """Append splits into intervals, given by their upper ends; `missing` is None if no missing value gets here."""
        if len(groups) == 1 and missing in {None, groups[0][1]}:
            return follow(groups[0][1])
        if len(groups) == 1:
            assert missing is not None  # noqa: S101  asked before
            position = self.append(feature=feature, bound=np.inf)
            self.builder.link(position, follow(groups[0][1]), follow(missing))
            return position
        half = len(groups) // 2
        lower, upper = groups[:half], groups[half:]
        missing_left = missing in [outcome for _, outcome in lower]
        position = self.append(feature=feature, bound=lower[-1][0], missing_left=missing_left)
        left = self.intervals(feature, lower, missing if missing_left else None, follow)
        self.builder.link(position, left, self.intervals(feature, upper, None if missing_left else missing, follow))
        return position

    def categories(self, field: Field, outcomes: Ints, follow: Callable[[int], int]) -> int:
        known, (unseen, missing) = outcomes[:-2], outcomes[-2:].tolist()
        _check_certain(known)
        unseen = missing if field.unseen_is_missing else unseen
        if unseen == _NULL:
            self.without_unseen.add(field.position)
        if missing == _NULL:
            self.without_missing.add(field.position)
        every = [outcome for outcome in dict.fromkeys([*known.tolist(), unseen, missing]) if outcome != _NULL]
        if not every:
            raise refusal("a row may have no prediction")
        starts: list[int] = []
        for outcome in every[:-1]:
            table = np.append(known == outcome, unseen == outcome)
            starts.append(self.append(feature=field.position, missing_left=missing == outcome, categories=table))
            self.builder.left[starts[-1]] = follow(outcome)
        last = follow(every[-1])
        for position, after in zip(starts, [*starts[1:], last], strict=True):
            self.builder.right[position] = after
        return starts[0] if starts else last


def _has_score(element: Element) -> bool:
    return "score" in element.attributes or bool(element.all("ScoreDistribution"))


def _check_certain(outcomes: Ints) -> None:
    if (outcomes == _NULL).any():
        raise refusal('a row may have no prediction; write the model with noTrueChildStrategy="returnLastPrediction"')


_VOTES = {"majorityVote", "weightedMajorityVote"}
_METHODS = {"sum", "average", "weightedAverage", "weightedSum"} | _VOTES


def read(model: Any) -> Forest:
    """Refuse models in memory of other classes: PMML is a file format."""
    raise UnsupportedModelError(f"PMML must be given as the path of a file, got {type(model).__name__}; save it first.")


def read_file(path: str | pathlib.Path) -> Forest:
    path = pathlib.Path(path)
    with damage_reported("a PMML document", path):
        try:
            return _read(parse(path.read_bytes()))
        except RecursionError as error:
            raise refusal("its trees are too deep; train it with a lower depth") from error


class _Member(NamedTuple):
    model: Element
    factor: float
    is_vote: bool


def _read(document: Element) -> Forest:
    models = [child for child in document.children if child.name.endswith(("Model", "Network", "Scorecard"))]
    if document.name != "PMML" or len(models) != 1:
        raise refusal(f"it must have one model, got {len(models)}")
    model = models[0]
    fields = read_fields(document, model)
    function = model.get("functionName")
    if function not in {"regression", "classification"}:
        raise refusal(f"its functionName must be regression or classification, got {function!r:.40}")
    is_classifier = function == "classification"
    classes = _classes(document, model) if is_classifier else ()
    trees = _Trees(fields, sum(1 for _ in document.below("Node")))
    members, constant = _members(model, is_classifier=is_classifier)
    roots = [trees.add(member.model, functools.partial(_values, member=member, classes=classes)) for member in members]
    schema = Schema(tuple(_accepting(trees, j, feature) for j, feature in enumerate(fields.features)), named=True)
    if is_classifier:
        outputs = class_outputs(classes)
        schema = dataclasses.replace(schema, outputs=outputs, link="probability", classes=classes, objective="brier")
    return trees.builder.forest(schema, np.full(len(schema.outputs), constant), roots)


def _accepting(trees: _Trees, j: int, feature: Feature) -> Feature:
    return dataclasses.replace(
        feature,
        accepts_missing=feature.accepts_missing and j not in trees.without_missing,
        accepts_unseen=feature.accepts_unseen and j not in trees.without_unseen,
    )


# Models in models


def _members(model: Element, *, is_classifier: bool) -> tuple[list[_Member], float]:
    slope, constant = _rescaling(model)
    if model.name == "TreeModel":
        return [_Member(model, slope, False)], constant
    segmentation = model.first("Segmentation") if model.name == "MiningModel" else None
    if segmentation is None:
        raise refusal(f"models must be TreeModel or MiningModel with segments, got {model.name}")
    method = segmentation.get("multipleModelMethod")
    if method not in _METHODS or (is_classifier and method in {"sum", "weightedSum"}):
        raise refusal(f"segments must be added up or averaged, got multipleModelMethod={method!r}")
    segments = segmentation.all("Segment")
    members = []
    for segment, factor in zip(segments, _factors(segments, method), strict=True):
        if predicate_of(segment).name != "True":
            raise refusal("segments must be for all rows, got a predicate")
        inner = [child for child in segment.children if child.name.endswith("Model")]
        if len(inner) != 1:
            raise refusal(f"segments must have one model each, got {len(inner)}")
        nested, shift = _members(inner[0], is_classifier=is_classifier)
        if method in _VOTES and inner[0].name != "TreeModel":
            raise refusal("votes must be those of trees, got votes of ensembles")
        members += [_Member(m, slope * factor * f, is_vote or method in _VOTES) for m, f, is_vote in nested]
        constant += slope * factor * shift
    return members, constant


def _factors(segments: list[Element], method: str) -> Floats:
    weights = np.array([decimal_number(segment.get("weight", "1")) for segment in segments])
    if not method.startswith("weighted"):
        weights = np.ones(len(segments))
    return weights if method in {"sum", "weightedSum"} else weights / weights.sum()


def _rescaling(model: Element) -> tuple[float, float]:
    targets = model.first("Targets")
    listed = targets.all("Target") if targets else []
    for target in listed:
        if {"min", "max", "castInteger"} & set(target.attributes):
            raise refusal("Targets must rescale only, got bounds or a cast to integers")
    if not listed:
        return 1.0, 0.0
    return decimal_number(listed[0].get("rescaleFactor", "1")), decimal_number(listed[0].get("rescaleConstant", "0"))


# Classes and leaves


def _classes(document: Element, model: Element) -> tuple[str, ...]:
    schema = model.first("MiningSchema")
    usages = {"predicted", "target"}
    targets = [field.get("name") for field in (schema.children if schema else ()) if field.get("usageType") in usages]
    listed = [
        value.get("value")
        for field in document.below("DataField")
        if field.get("name") in targets
        for value in field.all("Value")
    ]
    named = [distribution.get("value") for distribution in model.below("ScoreDistribution")]
    classes = tuple(dict.fromkeys(listed or sorted(named)))
    if len(classes) < 2:
        raise refusal("a classifier must have two or more classes")
    return classes


def _values(node: Element, member: _Member, classes: tuple[str, ...]) -> Floats:
    if not classes:
        return np.array([member.factor * decimal_number(node.attributes["score"])])
    if member.is_vote:
        return without_first_of_two(
            member.factor * np.array([float(label == node.attributes["score"]) for label in classes])
        )
    listed = node.all("ScoreDistribution")
    stated = [one.get("probability") or one.attributes["recordCount"] for one in listed]
    shares = {one.get("value"): decimal_number(share) for one, share in zip(listed, stated, strict=True)}
    is_whole = len(shares) == len(listed) and all(share >= 0 for share in shares.values())
    if not shares or not set(shares) <= set(classes) or not is_whole:
        raise refusal("leaves of a classifier must have a ScoreDistribution of its classes")
    counts = np.array([shares.get(label, 0.0) for label in classes])
    return without_first_of_two(member.factor * counts / counts.sum())


__all__ = ["read", "read_file"]
