"""Predicates in three-valued logic, for all values of a field at once."""

from __future__ import annotations

import abc
import functools
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.readers.pmml.document import Element
from treeanova.readers.pmml.fields import Field, Fields, refusal

NAMES = ("SimplePredicate", "SimpleSetPredicate", "CompoundPredicate", "True", "False")
# In this order, "and" is the minimum and "or" the maximum; a missing value leaves a comparison unknown.
FALSE, UNKNOWN, TRUE = range(3)
Truths = npt.NDArray[np.int8]
_CLOSED = {"lessOrEqual": True, "greaterThan": True, "lessThan": False, "greaterOrEqual": False}


class Values(abc.ABC):
    """Values of one field, among them a missing one."""

    @property
    @abc.abstractmethod
    def is_missing(self) -> Bools:
        """Where values are missing."""

    @abc.abstractmethod
    def is_in(self, texts: Sequence[str]) -> Bools:
        """Where values equal one of some texts of the document."""

    @abc.abstractmethod
    def is_up_to(self, text: str, operator: str) -> Bools:
        """Where values are below a bound of the document, which itself counts for some operators."""

    @abc.abstractmethod
    def at(self, places: Ints) -> Values:
        """The values at some places."""


class Numbers(Values):
    """Numbers of a field; NaN is missing."""

    def __init__(self, field: Field, numbers: Floats) -> None:
        self.field, self.numbers = field, numbers

    @property
    def is_missing(self) -> Bools:
        """Where numbers are NaN."""
        return np.isnan(self.numbers)

    def is_in(self, texts: Sequence[str]) -> Bools:
        """Where numbers are in the interval that stands for a text; such intervals do not overlap."""
        ends = sorted(
            (self.field.bound(text, is_closed=False), self.field.bound(text, is_closed=True)) for text in texts
        )
        low, high = np.array([(np.inf, np.inf), *ends]).T
        before = np.searchsorted(low[1:], self.numbers, side="left")
        return np.asarray((before > 0) & (self.numbers <= high[before]), dtype=bool)

    def is_up_to(self, text: str, operator: str) -> Bools:
        """Where numbers are below a bound."""
        return self.numbers <= self.field.bound(text, is_closed=_CLOSED[operator])

    def at(self, places: Ints) -> Numbers:
        """The numbers at some places."""
        return Numbers(self.field, self.numbers[places])


class Texts(Values):
    """Categories of a field by position: all of its own, then one that no predicate names, then a missing one."""

    def __init__(self, position: dict[str, int], codes: Ints) -> None:
        self.position, self.codes = position, codes

    @property
    def is_missing(self) -> Bools:
        """Where the code is the last one."""
        return np.asarray(self.codes == len(self.position) + 1, dtype=bool)

    def is_in(self, texts: Sequence[str]) -> Bools:
        """Where categories are among the texts."""
        return np.isin(self.codes, [self.position.get(text, -1) for text in texts])

    def is_up_to(self, text: str, operator: str) -> Bools:
        """Texts have no order that all scorers agree on."""
        raise refusal(f"texts must be compared by equal or notEqual, got {operator} {text!r:.40}")

    def at(self, places: Ints) -> Texts:
        """The categories at some places."""
        return Texts(self.position, self.codes[places])


def predicate_of(element: Element) -> Element:
    """The predicate of a node or of a segment."""
    found = element.all(*NAMES)
    if len(found) != 1:
        raise refusal(f"a {element.name} must have one predicate that is known, got {len(found)}")
    return found[0]


def field_names(predicate: Element) -> set[str]:
    """Names of the fields that a predicate uses."""
    if predicate.name == "CompoundPredicate":
        return set().union(*(field_names(part) for part in predicate.all(*NAMES)))
    return {predicate.get("field")} if predicate.name.startswith("Simple") else set()


def bounds(predicate: Element, fields: Fields) -> set[float]:
    """Closed bounds between which a predicate on a number does not change."""
    if predicate.name == "CompoundPredicate":
        return set().union(*(bounds(part, fields) for part in predicate.all(*NAMES)))
    if predicate.name not in {"SimplePredicate", "SimpleSetPredicate"}:
        return set()
    field, operator = fields.get(predicate.get("field")), predicate.get("operator")
    if operator in _CLOSED:
        return {field.bound(predicate.get("value"), is_closed=_CLOSED[operator])}
    values = predicate.members if predicate.name == "SimpleSetPredicate" else [predicate.get("value")]
    if operator in {"isMissing", "isNotMissing"}:
        values = []
    return {field.bound(value, is_closed=is_closed) for value in values for is_closed in (False, True)}


def evaluate(predicate: Element, values: Values) -> Truths:
    """Whether a predicate on one field is true for values of that field."""
    is_missing = values.is_missing
    if predicate.name in {"True", "False"}:
        return np.full(len(is_missing), TRUE if predicate.name == "True" else FALSE, dtype=np.int8)
    if predicate.name == "CompoundPredicate":
        return _combined(predicate.get("booleanOperator"), [evaluate(part, values) for part in predicate.all(*NAMES)])
    operator = predicate.get("operator", predicate.get("booleanOperator"))
    if operator in {"isMissing", "isNotMissing"}:
        return np.where(is_missing == (operator == "isMissing"), TRUE, FALSE).astype(np.int8)
    truth = np.where(_compared(predicate, operator, values), TRUE, FALSE)
    return np.where(is_missing, UNKNOWN, truth).astype(np.int8)


def _compared(predicate: Element, operator: str, values: Values) -> Bools:
    if predicate.name == "SimpleSetPredicate":
        is_wanted = _known(operator, {"isIn", "isNotIn"}) == "isIn"
        return values.is_in(predicate.members) ^ (not is_wanted)
    if operator in {"equal", "notEqual"}:
        return values.is_in([predicate.get("value")]) ^ (operator == "notEqual")
    _known(operator, set(_CLOSED))
    return values.is_up_to(predicate.get("value"), operator) ^ operator.startswith("greater")


def _known(operator: str, names: set[str]) -> str:
    if operator not in names:
        raise refusal(f"the operator {operator!r} is not known")
    return operator


def _combined(operator: str, truths: list[Truths]) -> Truths:
    if not truths:
        raise refusal("a CompoundPredicate must have predicates, got none")
    if operator == "surrogate":
        return functools.reduce(lambda first, other: np.where(first == UNKNOWN, other, first), truths)
    if operator in {"and", "or"}:
        return functools.reduce(np.minimum if operator == "and" else np.maximum, truths)
    _known(operator, {"xor"})
    is_odd = functools.reduce(np.not_equal, [truth == TRUE for truth in truths])
    is_unknown = functools.reduce(np.logical_or, [truth == UNKNOWN for truth in truths])
    return np.where(is_unknown, UNKNOWN, np.where(is_odd, TRUE, FALSE)).astype(np.int8)
