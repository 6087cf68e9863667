"""PMML: TreeModel, and MiningModel that adds up or averages TreeModels, as a Forest.

Facts (PMML 4.x):

- Children of a node are tried in their order, and the first whose predicate is true is taken. If none is true, the
  prediction is that of the node for noTrueChildStrategy="returnLastPrediction", else there is none.
- A comparison with a missing value is unknown. What happens then is missingValueStrategy: "none" takes it as false,
  "defaultChild" goes to the node's default child, "lastPrediction" stops there, "nullPrediction" predicts nothing.
- Predicates may be True, False, comparisons, sets, isMissing and isNotMissing, and combinations of these on one field.
- Fields of the type float are compared in float32, all other numbers in float64. Categories are compared as text.
- A field may declare values that are valid, in intervals or one by one, invalid or missing. Of a field that lists valid
  ones, all others are invalid. Invalid values are errors here, or missing if invalidValueTreatment is "asMissing".
  "asIs" uses numbers as they are; a category is an error then too, because scorers differ in what they do.
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
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, Labels, Numeric, Schema, as_float32
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, TreeBuilder, bound_below, bound_up_to
from treeanova.readers.checks import DECIMAL, check_size, damage_reported, decimal_number
from treeanova.readers.outputs import class_outputs, without_first_of_two
from treeanova.readers.pmml.document import Element, parse

_NUMBERS = {"double", "float", "integer"}
PREDICATES = ("SimplePredicate", "SimpleSetPredicate", "CompoundPredicate", "True", "False")
# In this order, "and" is the minimum and "or" the maximum; a missing value leaves a comparison unknown.
FALSE, UNKNOWN, TRUE = range(3)
Truths = npt.NDArray[np.int8]
_CLOSED = {"lessOrEqual": True, "greaterThan": True, "lessThan": False, "greaterOrEqual": False}
_VOTES = {"majorityVote", "weightedMajorityVote"}
_METHODS = {"sum", "average", "weightedAverage", "weightedSum"} | _VOTES
_Member = tuple[Element, float, bool]  # a TreeModel, its factor, and whether its scores are votes


def refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"the PMML document cannot be read: {reason}.")


@dataclasses.dataclass(frozen=True)
class Field:
    """A field of the document: its place among the features, and how predicates compare it."""

    position: int
    is_single: bool = False  # whether it is compared in float32
    categories: tuple[str, ...] | None = None  # None for numbers
    unseen_is_missing: bool = False

    @functools.cached_property
    def codes(self) -> dict[str, int]:
        """Positions of categories by their texts."""
        return {text: code for code, text in enumerate(self.categories or ())}

    def bound(self, value: str, *, is_closed: bool) -> float:
        """Return the closed bound of a comparison with `value`: the number, or the next one below it if not closed."""
        number = decimal_number(value)
        if np.isnan(number):
            raise refusal("predicates must compare with numbers, got NaN")
        if np.isneginf(number) and not is_closed:
            raise refusal("predicates must not ask what is below -inf, which nothing is")
        if self.is_single:
            single = np.float32(number)
            return float(bound_up_to(single) if is_closed else bound_below(single))
        return number if is_closed else float(np.nextafter(number, -np.inf))


Fields = dict[str, Field]


@dataclasses.dataclass(frozen=True, eq=False)
class DeclaredNumber(Encoder):
    """A number, some values of which are declared to be valid, invalid or missing."""

    valid: tuple[tuple[float, float], ...]  # closed intervals; none if all numbers are valid
    invalid: tuple[float, ...]  # these and numbers that are not valid are refused, or missing
    missing: tuple[float, ...]
    invalid_is_missing: bool
    number: Numeric

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Return numbers, NaN for those that are missing or count as missing; ValueError for invalid ones."""
        numbers = self.number.encode(column, name)
        values = as_float32(numbers).astype(np.float64) if self.number.cast == "float32" else numbers
        is_missing = np.isnan(values) | np.isin(values, self.missing)
        low, high = np.array(sorted(self.valid) or [(-np.inf, np.inf)]).T
        # The highest end of the intervals that begin at or below each value.
        highest = np.maximum.accumulate(np.append(-np.inf, high))[np.searchsorted(low, values, side="right")]
        is_refused = ~is_missing & ((values > highest) | (values < low[0]) | np.isin(values, self.invalid))
        if is_refused.any() and not self.invalid_is_missing:
            raise ValueError(
                f"column {name!r} must hold values that the model declares to be valid, got {values[is_refused][0]}; "
                "make it missing, or declare it in DataDictionary."
            )
        return np.where(is_missing | is_refused, np.nan, numbers)


def _field_named(fields: Fields, name: str) -> Field:  # UnsupportedModelError if predicates may not use it
    if name not in fields:
        raise refusal(
            f"a predicate uses {name!r}, which is neither an active field nor a copy of one; write the model without "
            "transformations"
        )
    return fields[name]


def read_fields(document: Element, model: Element) -> tuple[Fields, tuple[Feature, ...]]:
    """Return the fields that predicates may use, by name, and the features of the model."""
    dictionary, schema = document.first("DataDictionary"), model.first("MiningSchema")
    listed = dictionary.all("DataField") if dictionary else []
    declared = {field.get("name"): field for field in listed}
    if len(declared) < len(listed):
        raise refusal("fields of DataDictionary must have names of their own, got one twice")
    active = [field for field in (schema.children if schema else ()) if field.get("usageType", "active") == "active"]
    treatments: dict[str, set[str]] = {}
    for mining in document.below("MiningField"):
        treatments.setdefault(mining.get("name"), set()).add(mining.get("invalidValueTreatment", "returnInvalid"))
        if "missingValueReplacement" in mining.attributes or mining.get("outliers", "asIs") != "asIs":
            raise refusal(
                f"values of field {mining.get('name')!r} are replaced before the trees; remove this from MiningSchema, "
                "and replace them in the data"
            )
    used = _categories_in_predicates(document)
    fields: Fields = {}
    features: list[Feature] = []
    for position, mining in enumerate(active):
        name = mining.get("name")
        if name not in declared:
            raise refusal(f"field {name!r} is not in DataDictionary")
        # Scorers differ in whether models in models take values as they are if only the outer model does.
        treatment = mining.get("invalidValueTreatment", "returnInvalid")
        if treatment == "asIs" and treatments[name] != {"asIs"}:
            treatment = "returnInvalid"
        feature, fields[name] = _feature_and_field(declared[name], treatment, position, used.get(name, []))
        features.append(feature)
    _add_copies(document, fields)
    return fields, tuple(features)


def _add_copies(document: Element, fields: Fields) -> None:
    """Add each DerivedField that copies another field to `fields`; predicates may not use other ones."""
    derived: dict[str, Field | None] = {}
    for element in document.below("DerivedField"):
        name, source, kind = element.get("name"), element.first("FieldRef"), element.get("dataType")
        field = fields.get(source.get("field")) if source and not source.get("mapMissingTo") else None
        copy = None
        if field is not None and len(element.children) == 1:
            if field.categories is None and kind in {"float", "double"}:
                copy = dataclasses.replace(field, is_single=field.is_single or kind == "float")
            elif field.categories is not None and kind == "string":
                copy = field
        if derived.get(name, copy) != copy or (name in fields and name not in derived):
            raise refusal(f"derived fields must have names of their own, got {name!r:.60} for another field too")
        derived[name] = copy
        if copy is not None:
            fields[name] = copy


def _feature_and_field(declared: Element, treatment: str, position: int, used: list[str]) -> tuple[Feature, Field]:
    """Return a DataField as a feature and as a field; `used` are the texts that predicates compare it with."""
    # `treatment` is its invalidValueTreatment, `position` its place among the features.
    name, kind = declared.get("name"), declared.get("dataType")
    values: dict[str, list[str]] = {"valid": [], "invalid": [], "missing": []}
    for value in declared.all("Value"):
        if value.get("property", "valid") not in values:
            raise refusal(
                f"values of field {name!r} must be valid, invalid or missing, got {value.get('property')!r:.40}"
            )
        values[value.get("property", "valid")].append(value.get("value"))
    is_number = declared.get("optype") == "continuous" and kind in _NUMBERS
    if treatment not in {"returnInvalid", "asIs", "asMissing"} or not (is_number or all(values["valid"] + used)):
        raise refusal(
            f"field {name!r} must list its values, and refuse others or take them as missing, got {treatment}"
        )
    if is_number:
        return Feature(name, _number_encoder(declared, values, treatment)), Field(position, kind == "float")
    if kind not in {"string", "boolean"}:
        raise refusal(f"field {name!r} must hold numbers or texts, got {declared.get('optype')} {kind}")
    if values["invalid"] and not values["valid"] and treatment != "asMissing":
        raise refusal(f"field {name!r} must list its valid values, got the invalid value {values['invalid'][0]!r:.40}")
    missing = values["missing"] + (values["invalid"] if treatment == "asMissing" else [])
    names = tuple(dict.fromkeys(values["valid"] or [text for text in used if text not in missing]))
    unseen_is_missing = treatment == "asMissing" and bool(values["valid"])
    accepts_unseen = unseen_is_missing or not values["valid"]
    feature = Feature(name, Labels(names, "text", missing=tuple(missing)), accepts_unseen=accepts_unseen)
    return feature, Field(position, False, names, unseen_is_missing=unseen_is_missing)


def _number_encoder(declared: Element, values: dict[str, list[str]], treatment: str) -> Encoder:
    """Return the encoder of a numeric field; `values` has its valid, invalid and missing values as texts."""
    # `treatment` is its invalidValueTreatment: of numbers that are listed as invalid, or not as valid.
    is_single = declared.get("dataType") == "float"
    kind, plain = (np.float32, Numeric(cast="float32")) if is_single else (np.float64, Numeric())

    def number(text: str) -> float:
        return float(kind(decimal_number(text)))

    valid = [(number(text), number(text)) for text in values["valid"]]
    for interval in declared.all("Interval"):
        closure = re.fullmatch("(open|closed)(Open|Closed)", interval.get("closure"))
        low, high = number(interval.get("leftMargin", "-inf")), number(interval.get("rightMargin", "inf"))
        if closure is None or np.isnan(low + high):
            raise refusal(f"intervals of field {declared.get('name')!r} must have two ends, open or closed")
        low = low if closure[1] == "closed" else float(np.nextafter(kind(low), kind(np.inf)))
        high = high if closure[2] == "Closed" else float(np.nextafter(kind(high), kind(-np.inf)))
        valid.append((low, high))
    # Words may be listed too; columns that hold some are refused, whatever these mean.
    invalid, missing = (
        tuple(number(text) for text in values[use] if DECIMAL.fullmatch(text.strip())) for use in ("invalid", "missing")
    )
    if treatment == "asIs":
        valid, invalid = [], ()
    if not (valid or invalid or missing):
        return plain
    return DeclaredNumber(tuple(valid), invalid, missing, treatment == "asMissing", plain)


def _categories_in_predicates(document: Element) -> dict[str, list[str]]:
    """Return the texts with which predicates compare each field, by its name."""
    listed_values: dict[str, list[str]] = {}
    for predicate in document.below("SimplePredicate"):
        if "value" in predicate.attributes:
            listed_values.setdefault(predicate.get("field"), []).append(predicate.get("value"))
    for predicate in document.below("SimpleSetPredicate"):
        listed_values.setdefault(predicate.get("field"), []).extend(predicate.members)
    return listed_values


@dataclasses.dataclass(frozen=True)
class Values:
    """Values of a field at which predicates are tried: numbers (NaN: missing), or positions of categories."""

    field: Field
    numbers: Floats  # of categories, the two positions after the last are one that no predicate names, and missing

    @functools.cached_property
    def is_missing(self) -> Bools:
        categories = self.field.categories
        return np.isnan(self.numbers) if categories is None else np.asarray(self.numbers == len(categories) + 1)

    def is_in(self, texts: Sequence[str]) -> Bools:
        """Whether each value equals one of the texts, which are categories or numbers of the document."""
        # A number equals an interval of float64, if it is compared in float32; these intervals do not overlap.
        if self.field.categories is not None:
            return np.isin(self.numbers, [self.field.codes.get(text, -1) for text in texts])
        bound = self.field.bound
        ends = sorted((bound(text, is_closed=False), bound(text, is_closed=True)) for text in texts)
        low, high = np.array([(np.inf, np.inf), *ends]).T
        before = np.searchsorted(low[1:], self.numbers, side="left")  # intervals that begin below each number
        return np.asarray((before > 0) & (self.numbers <= high[before]), dtype=bool)


def only_predicate(element: Element) -> Element:
    """Return the predicate of a Node, which must be one."""
    predicates = element.all(*PREDICATES)
    if len(predicates) != 1:
        raise refusal(f"a {element.name} must have one predicate that is known, got {len(predicates)}")
    return predicates[0]


def field_names(predicate: Element) -> set[str]:
    """Return the names of the fields that a predicate uses, also in predicates within it."""
    if predicate.name == "CompoundPredicate":
        return set().union(*(field_names(inner) for inner in predicate.all(*PREDICATES)))
    return {predicate.get("field")} if predicate.name.startswith("Simple") else set()


def bounds_of(predicate: Element, fields: Fields) -> set[float]:
    """Return the closed bounds at which a predicate on one numeric field can change its truth."""
    if predicate.name == "CompoundPredicate":
        return set().union(*(bounds_of(inner, fields) for inner in predicate.all(*PREDICATES)))
    if predicate.name not in {"SimplePredicate", "SimpleSetPredicate"}:
        return set()
    field, operator = _field_named(fields, predicate.get("field")), predicate.get("operator")
    if operator in _CLOSED:
        return {field.bound(predicate.get("value"), is_closed=_CLOSED[operator])}
    values = predicate.members if predicate.name == "SimpleSetPredicate" else [predicate.get("value")]
    if operator in {"isMissing", "isNotMissing"}:
        values = []
    return {field.bound(value, is_closed=is_closed) for value in values for is_closed in (False, True)}


def truth_of(predicate: Element, values: Values) -> Truths:
    """Return FALSE, UNKNOWN or TRUE of a predicate for each of the values."""
    is_missing = values.is_missing
    if predicate.name in {"True", "False"}:
        return np.full(len(is_missing), TRUE if predicate.name == "True" else FALSE, dtype=np.int8)
    if predicate.name == "CompoundPredicate":
        truths = [truth_of(inner, values) for inner in predicate.all(*PREDICATES)]
        return _combined_truth(predicate.get("booleanOperator"), truths)
    operator = predicate.get("operator", predicate.get("booleanOperator"))
    if operator in {"isMissing", "isNotMissing"}:
        return np.where(is_missing == (operator == "isMissing"), TRUE, FALSE).astype(np.int8)
    truth = np.where(_comparison_holds(predicate, operator, values), TRUE, FALSE)
    return np.where(is_missing, UNKNOWN, truth).astype(np.int8)


def _comparison_holds(predicate: Element, operator: str, values: Values) -> Bools:
    """Whether a comparison holds for each value; what it says of missing ones does not matter."""
    if predicate.name == "SimpleSetPredicate":
        is_in = _checked_operator(operator, {"isIn", "isNotIn"}) == "isIn"
        return values.is_in(predicate.members) ^ (not is_in)
    if operator in {"equal", "notEqual"}:
        return values.is_in([predicate.get("value")]) ^ (operator == "notEqual")
    is_closed, text = _CLOSED[_checked_operator(operator, set(_CLOSED))], predicate.get("value")
    if values.field.categories is not None:  # scorers disagree on the order of texts
        raise refusal(f"texts must be compared by equal or notEqual, got {operator} {text!r:.40}")
    return (values.numbers <= values.field.bound(text, is_closed=is_closed)) ^ operator.startswith("greater")


def _checked_operator(operator: str, names: set[str]) -> str:  # UnsupportedModelError unless it is one of them
    if operator not in names:
        raise refusal(f"the operator {operator!r} is not known")
    return operator


def _combined_truth(operator: str, truths: list[Truths]) -> Truths:
    """Return the truth of a CompoundPredicate from those of its predicates; a surrogate replaces unknown ones."""
    if not truths:
        raise refusal("a CompoundPredicate must have predicates, got none")
    if operator == "surrogate":
        return functools.reduce(lambda first, other: np.where(first == UNKNOWN, other, first), truths)
    if operator in {"and", "or"}:
        return functools.reduce(np.minimum if operator == "and" else np.maximum, truths)
    _checked_operator(operator, {"xor"})
    is_odd = functools.reduce(np.not_equal, [truth == TRUE for truth in truths])
    is_unknown = functools.reduce(np.logical_or, [truth == UNKNOWN for truth in truths])
    return np.where(is_unknown, UNKNOWN, np.where(is_odd, TRUE, FALSE)).astype(np.int8)


_LATER_CHILDREN, _HERE, _NO_PREDICTION = -1, -2, -3
# Children on several fields in turn are copied; documents of a few kilobytes could ask for billions.
_MAX_COPIES, _FREE_NODES = 10, 100_000
_MAX_COMPARISONS = 1 << 30
_MAX_ENTRIES = 1 << 27
# How the children of a node from a start on are chosen: the end of those that one field chooses (None: no field), the
# upper ends of its intervals, and the outcome of each of its values. Outcomes are positions of children, or
# _LATER_CHILDREN (from the end on), _HERE (the prediction of the node itself) or _NO_PREDICTION.
_Choice = tuple[int, Field | None, Floats, Ints]


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
        if root is None or only_predicate(root).name != "True":
            raise refusal("each TreeModel must have a root whose predicate is True")
        otherwise = model.get("noTrueChildStrategy", "returnNullPrediction")
        if otherwise not in {"returnNullPrediction", "returnLastPrediction"}:
            raise refusal(f"noTrueChildStrategy must be that of PMML, got {otherwise!r:.40}")
        self.stays, self.leaf_values = otherwise == "returnLastPrediction", leaf_values
        self.choices: dict[tuple[int, int], _Choice] = {}
        return self.add_node(root)

    def append(self, **node: Any) -> int:
        """Append a node to the builder and return its position, within limits of size."""
        self.n_entries += len(node.get("categories", ()))
        check_size("trees on one field at a time", len(self.builder), self.max_nodes)
        check_size("category tables", self.n_entries, _MAX_ENTRIES)
        return self.builder.append(**node)

    def add_node(self, element: Element) -> int:
        """Append what is below a Node, and return its position."""
        return self.add_choice(element, 0) if element.all("Node") else self.append(values=self.leaf_values(element))

    def add_choice(self, element: Element, start: int) -> int:
        """Append splits that choose among the children of a Node from `start` on, and return the first."""
        # One field chooses among children up to `end`; where none of these is chosen, later ones follow.
        self.n_choices += 1
        check_size("trees on one field at a time", self.n_choices, self.max_nodes)
        if (id(element), start) not in self.choices:
            self.choices[id(element), start] = self.find_choice(element, start)
        end, field, edges, outcomes = self.choices[id(element), start]

        def follow(outcome: int) -> int:
            """Append what an outcome leads to, and return its position."""
            if outcome >= 0:
                return self.add_node(element.all("Node")[outcome])
            is_leaf = outcome == _HERE
            return self.append(values=self.leaf_values(element)) if is_leaf else self.add_choice(element, end)

        if field is None:
            _check_certain(outcomes)
            return follow(int(outcomes[0]))
        if field.categories is not None:
            return self.split_categories(field, outcomes, follow)
        return self.split_numbers(field.position, edges, outcomes, follow)

    def find_choice(self, element: Element, start: int) -> _Choice:
        """Find which children of a Node, from `start` on, one field alone chooses, and which of them for each value."""
        # Tried are values between all bounds of predicates, or all categories and an unseen one; and a missing one.
        children = element.all("Node")
        names, end = set[str](), start
        while end < len(children):
            names_with_next = names | field_names(only_predicate(children[end]))
            if len({_field_named(self.fields, name).position for name in names_with_next}) > 1:
                break
            names, end = names_with_next, end + 1
        if end == start:
            raise refusal("a predicate combines several fields; use nested nodes instead")
        tested = [only_predicate(child) for child in children[start:end]]
        field = self.fields[min(names)] if names else None
        edges = np.empty(0)
        if field is not None and field.categories is not None:
            values = Values(field, np.arange(len(field.categories) + 2.0))
        else:
            ends = set[float]().union({np.inf}, *(bounds_of(predicate, self.fields) for predicate in tested))
            edges = np.array(sorted(ends))
            values = Values(field or Field(0), np.append(edges, np.nan))
        check_size("comparisons of one node", len(tested) * len(values.is_missing), _MAX_COMPARISONS)
        return end, field, edges, self.outcomes_of(element, tested, start, values)

    def outcomes_of(self, element: Element, tested: Sequence[Element], start: int, values: Values) -> Ints:
        """Return for each value the first child (position) whose predicate in `tested` is true, or another outcome."""
        has_later_children = start + len(tested) < len(element.all("Node"))
        at_end = _HERE if self.stays and _predicts(element) else _NO_PREDICTION
        result = np.full(len(values.is_missing), _LATER_CHILDREN if has_later_children else at_end, dtype=np.int64)
        waiting = np.arange(len(result))  # values for which no predicate so far is true
        for position, predicate in enumerate(tested, start):
            truth = truth_of(predicate, Values(values.field, values.numbers[waiting]))
            result[waiting[truth == TRUE]] = position
            if self.strategy != "none" and (truth == UNKNOWN).any():
                result[waiting[truth == UNKNOWN]] = self.outcome_of_unknown(element)
                truth[truth == UNKNOWN] = TRUE
            waiting = waiting[truth != TRUE]
        return result

    def outcome_of_unknown(self, element: Element) -> int:
        """Return the outcome of a value for which a predicate is unknown, by the strategy for missing values."""
        if self.strategy == "lastPrediction" and _predicts(element):
            return _HERE
        ids = [child.get("id") for child in element.all("Node")]
        if self.strategy == "defaultChild" and ids.count(element.get("defaultChild")) > 1:
            raise refusal(f"a default child must have an id of its own, got {element.get('defaultChild')!r:.40} twice")
        if self.strategy == "defaultChild" and element.get("defaultChild") in ids and element.get("defaultChild"):
            return ids.index(element.get("defaultChild"))
        return _NO_PREDICTION

    def split_numbers(self, feature: int, edges: Floats, outcomes: Ints, follow: Callable[[int], int]) -> int:
        """Append splits that lead intervals up to `edges`, and missing (last), to what `follow` appends for them."""
        *number_outcomes, missing = outcomes.tolist()
        _check_certain(outcomes[:-1])
        pairs = zip(edges.tolist(), number_outcomes, strict=True)
        # Neighbouring intervals with one outcome are one, up to the end of the last.
        groups = [list(group)[-1] for _, group in itertools.groupby(pairs, key=lambda pair: pair[1])]
        if missing == _NO_PREDICTION:
            self.without_missing.add(feature)
        return self.split_intervals(feature, groups, None if missing == _NO_PREDICTION else missing, follow)

    def split_intervals(
        self, feature: int, groups: list[tuple[float, int]], missing: int | None, follow: Callable[[int], int]
    ) -> int:
        """Append splits into intervals, given by their upper ends; `missing` is None if no missing value gets here."""
        # `groups` has upper ends and outcomes, `missing` is an outcome, and `follow` appends what an outcome leads to.
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
        left = self.split_intervals(feature, lower, missing if missing_left else None, follow)
        self.builder.link(
            position, left, self.split_intervals(feature, upper, None if missing_left else missing, follow)
        )
        return position

    def split_categories(self, field: Field, outcomes: Ints, follow: Callable[[int], int]) -> int:
        """Append splits that lead categories, unseen and missing (last) to what `follow` appends for their outcomes."""
        category_outcomes, (unseen, missing) = outcomes[:-2], outcomes[-2:].tolist()
        _check_certain(category_outcomes)
        unseen = missing if field.unseen_is_missing else unseen
        if unseen == _NO_PREDICTION:
            self.without_unseen.add(field.position)
        if missing == _NO_PREDICTION:
            self.without_missing.add(field.position)
        possible = dict.fromkeys([*category_outcomes.tolist(), unseen, missing])
        distinct_outcomes = [outcome for outcome in possible if outcome != _NO_PREDICTION]
        if not distinct_outcomes:
            raise refusal("a row may have no prediction")
        split_nodes: list[int] = []
        for outcome in distinct_outcomes[:-1]:
            table = np.append(category_outcomes == outcome, unseen == outcome)
            split_nodes.append(self.append(feature=field.position, missing_left=missing == outcome, categories=table))
            self.builder.left[split_nodes[-1]] = follow(outcome)
        last = follow(distinct_outcomes[-1])
        for position, next_position in zip(split_nodes, [*split_nodes, last][1:], strict=True):
            self.builder.right[position] = next_position
        return split_nodes[0] if split_nodes else last


def _predicts(element: Element) -> bool:  # whether a Node has a prediction of its own
    return "score" in element.attributes or bool(element.all("ScoreDistribution"))


def _check_certain(outcomes: Ints) -> None:
    """Refuse outcomes without a prediction."""
    if (outcomes == _NO_PREDICTION).any():
        raise refusal('a row may have no prediction; write the model with noTrueChildStrategy="returnLastPrediction"')


def read(model: Any) -> Forest:
    """Refuse models in memory of other classes: PMML is a file format."""
    raise UnsupportedModelError(f"PMML must be given as the path of a file, got {type(model).__name__}; save it first.")


def read_file(path: pathlib.Path) -> Forest:
    """Read a PMML document."""
    with damage_reported("a PMML document", path):
        try:
            return _read(parse(path.read_bytes()))
        except RecursionError as error:
            raise refusal("its trees are too deep; train it with a lower depth") from error


def _read(document: Element) -> Forest:
    """Read the one model of a document: its fields, then the trees of its TreeModel or MiningModel."""
    models = [child for child in document.children if child.name.endswith(("Model", "Network", "Scorecard"))]
    if document.name != "PMML" or len(models) != 1:
        raise refusal(f"it must have one model, got {len(models)}")
    model = models[0]
    fields, features = read_fields(document, model)
    function = model.get("functionName")
    if function not in {"regression", "classification"}:
        raise refusal(f"its functionName must be regression or classification, got {function!r:.40}")
    is_classifier = function == "classification"
    classes = _classes(document, model) if is_classifier else ()
    trees = _Trees(fields, sum(1 for _ in document.below("Node")))
    members, constant = _trees_of(model, is_classifier=is_classifier)
    is_single = _has_single_scores(document, [tree for tree, _, _ in members], is_classifier=is_classifier)
    roots = [
        trees.add(
            tree, functools.partial(_leaf_values, factor=factor, is_vote=is_vote, classes=classes, is_single=is_single)
        )
        for tree, factor, is_vote in members
    ]
    accepting = [
        dataclasses.replace(
            feature,
            accepts_missing=feature.accepts_missing and j not in trees.without_missing,
            accepts_unseen=feature.accepts_unseen and j not in trees.without_unseen,
        )
        for j, feature in enumerate(features)
    ]
    schema = Schema(tuple(accepting), named=True)
    if is_classifier:
        outputs = class_outputs(classes)
        schema = dataclasses.replace(schema, outputs=outputs, link="probability", classes=classes, objective="brier")
    return trees.builder.forest(schema, np.full(len(schema.outputs), constant), roots)


def _trees_of(model: Element, *, is_classifier: bool) -> tuple[list[_Member], float]:
    """Return the TreeModels of a model and its segments, each with its factor and whether it votes, and a constant."""
    slope, constant = _slope_and_constant(model)
    if model.name == "TreeModel":
        return [(model, slope, False)], constant
    segmentation = model.first("Segmentation") if model.name == "MiningModel" else None
    if segmentation is None:
        raise refusal(f"models must be TreeModel or MiningModel with segments, got {model.name}")
    method = segmentation.get("multipleModelMethod")
    if method not in _METHODS or (is_classifier and method in {"sum", "weightedSum"}):
        raise refusal(f"segments must be added up or averaged, got multipleModelMethod={method!r}")
    segments = segmentation.all("Segment")
    members: list[_Member] = []
    weights = np.array([decimal_number(segment.get("weight", "1")) for segment in segments])
    factors = weights if method.startswith("weighted") else np.ones(len(segments))
    if method not in {"sum", "weightedSum"}:
        factors = factors / factors.sum()
    for segment, factor in zip(segments, factors, strict=True):
        if only_predicate(segment).name != "True":
            raise refusal("segments must be for all rows, got a predicate")
        inner = [child for child in segment.children if child.name.endswith("Model")]
        if len(inner) != 1:
            raise refusal(f"segments must have one model each, got {len(inner)}")
        nested, shift = _trees_of(inner[0], is_classifier=is_classifier)
        if method in _VOTES and inner[0].name != "TreeModel":
            raise refusal("votes must be those of trees, got votes of ensembles")
        members += [
            (tree, slope * factor * inner_factor, is_vote or method in _VOTES) for tree, inner_factor, is_vote in nested
        ]
        constant += slope * factor * shift
    return members, constant


def _has_single_scores(document: Element, trees: list[Element], *, is_classifier: bool) -> bool:
    """Whether scores are numbers of float32 (an extension of JPMML); their sums are exact here."""
    models = [*trees, *document.below("MiningModel")]
    contexts = {model.get("x-mathContext", "double") for model in models}
    tree_contexts = {tree.get("x-mathContext", "double") for tree in trees}
    if not contexts <= {"double", "float"} or ("float" in contexts and (tree_contexts != {"float"} or is_classifier)):
        raise refusal("x-mathContext must be double, or float for all trees of a regression")
    return "float" in contexts


def _slope_and_constant(model: Element) -> tuple[float, float]:
    """Return rescaleFactor and rescaleConstant, by which the element Targets changes a prediction."""
    targets = model.first("Targets")
    listed = targets.all("Target") if targets else []
    for target in listed:
        if {"min", "max", "castInteger"} & set(target.attributes):
            raise refusal("Targets must rescale only, got bounds or a cast to integers")
    first = listed[0].attributes if listed else {}
    return decimal_number(first.get("rescaleFactor", "1")), decimal_number(first.get("rescaleConstant", "0"))


def _classes(document: Element, model: Element) -> tuple[str, ...]:
    """Return the classes of the target in the order of its declaration, else those of leaves, sorted."""
    schema = model.first("MiningSchema")
    usages = {"predicted", "target"}
    targets = [field.get("name") for field in (schema.children if schema else ()) if field.get("usageType") in usages]
    listed = [
        value.get("value")
        for field in document.below("DataField")
        if field.get("name") in targets
        for value in field.all("Value")
        if value.get("property", "valid") == "valid"
    ]
    named = [distribution.get("value") for distribution in model.below("ScoreDistribution")]
    classes = tuple(dict.fromkeys(listed or sorted(named)))
    if len(classes) < 2:
        raise refusal("a classifier must have two or more classes")
    return classes


def _leaf_values(node: Element, *, factor: float, is_vote: bool, classes: tuple[str, ...], is_single: bool) -> Floats:
    """Return what a leaf adds to the outputs: its score, its vote or its shares of classes, times a factor."""
    # Without `classes`, it is a regression, whose scores are float32 if `is_single`.
    if (is_vote or not classes) and "score" not in node.attributes:
        raise refusal("each leaf must have a score, got a Node without")
    if not classes:
        score = decimal_number(node.attributes["score"])
        return np.array([factor * (float(np.float32(score)) if is_single else score)])
    if is_vote:
        return without_first_of_two(factor * np.array([float(label == node.attributes["score"]) for label in classes]))
    entries = node.all("ScoreDistribution")
    stated = [entry.get("probability") or entry.get("recordCount") for entry in entries]
    if not all(stated):
        raise refusal("each ScoreDistribution must have a probability or a recordCount")
    shares = {entry.get("value"): decimal_number(share) for entry, share in zip(entries, stated, strict=True)}
    is_whole = len(shares) == len(entries) and all(share >= 0 for share in shares.values())
    if not shares or not set(shares) <= set(classes) or not is_whole:
        raise refusal("leaves of a classifier must have a ScoreDistribution of its classes")
    counts = np.array([shares.get(label, 0.0) for label in classes])
    return without_first_of_two(factor * counts / counts.sum())
