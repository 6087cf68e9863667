"""Predicates in three-valued logic: True, False, or None where a missing value leaves them unknown."""

from __future__ import annotations

import functools

from treeanova.readers.pmml.document import Element
from treeanova.readers.pmml.fields import Field, Fields, members, refusal

NAMES = ("SimplePredicate", "SimpleSetPredicate", "CompoundPredicate", "True", "False")
# A number, a text, or None for a missing value; an unseen category is a text that no predicate names.
Value = float | str | None
_CLOSED = {"lessOrEqual": True, "greaterThan": True, "lessThan": False, "greaterOrEqual": False}


def predicate_of(element: Element) -> Element:
    """The predicate of a node or of a segment."""
    found = element.first(*NAMES)
    if found is None:
        raise refusal(f"a {element.name} has no predicate that is known")
    return found


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
    values = members(predicate) if predicate.name == "SimpleSetPredicate" else [predicate.get("value")]
    if operator in {"isMissing", "isNotMissing"}:
        values = []
    return {field.bound(value, is_closed=is_closed) for value in values for is_closed in (False, True)}


def evaluate(predicate: Element, value: Value, fields: Fields) -> bool | None:
    """Whether a predicate on one field is true for a value of that field."""
    if predicate.name in {"True", "False"}:
        return predicate.name == "True"
    if predicate.name == "CompoundPredicate":
        truths = [evaluate(part, value, fields) for part in predicate.all(*NAMES)]
        return _combined(predicate.get("booleanOperator"), truths)
    operator = predicate.get("operator", predicate.get("booleanOperator"))
    if operator in {"isMissing", "isNotMissing"}:
        return (value is None) == (operator == "isMissing")
    return None if value is None else _compared(predicate, operator, value, fields.get(predicate.get("field")))


def _compared(predicate: Element, operator: str, value: float | str, field: Field) -> bool:
    if predicate.name == "SimpleSetPredicate":
        is_in = any(_equals(field, value, member) for member in members(predicate))
        return is_in == (_known(operator, {"isIn", "isNotIn"}) == "isIn")
    if operator in {"equal", "notEqual"}:
        return _equals(field, value, predicate.get("value")) == (operator == "equal")
    _known(operator, set(_CLOSED))
    if isinstance(value, str):
        raise refusal(f"texts must be compared by equal or notEqual, got {operator}")
    is_below = value <= field.bound(predicate.get("value"), is_closed=_CLOSED[operator])
    return is_below == operator.startswith("less")


def _known(operator: str, names: set[str]) -> str:
    if operator not in names:
        raise refusal(f"the operator {operator!r} is not known")
    return operator


def _equals(field: Field, value: float | str, text: str) -> bool:
    if isinstance(value, str):
        return value == text
    return field.bound(text, is_closed=False) < value <= field.bound(text, is_closed=True)


def _combined(operator: str, truths: list[bool | None]) -> bool | None:
    if operator == "surrogate":
        return next((truth for truth in truths if truth is not None), None)
    if operator in {"and", "or"}:
        decisive = operator == "or"
        if decisive in truths:
            return decisive
        return None if None in truths else not decisive
    _known(operator, {"xor"})
    return None if None in truths else functools.reduce(lambda a, b: a != b, truths)
