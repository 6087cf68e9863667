"""PMML documents: elements read with limits, fields as features of a Schema, predicates of nodes."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import xml.parsers.expat
from collections.abc import Iterator, Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Labels, Numeric
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import bound_below, bound_up_to
from treeanova.readers.checks import damaged, decimal_number, whole_number

_MAX_DEPTH = 300
# Others have several bytes per letter, which the parser would misread, or are unknown to it.
_ENCODINGS = {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", *(f"iso8859-{k}" for k in range(1, 17))}
_ENCODINGS |= {f"cp125{k}" for k in range(9)}
_PREDICATES = "SimplePredicate SimpleSetPredicate CompoundPredicate True False"
# Attributes and children that PMML 4.4 knows, of elements on which predictions depend: others would be misspelled.
_KNOWN = {
    "Node": (
        "id score recordCount defaultChild",
        f"{_PREDICATES} Node ScoreDistribution Partition EmbeddedModel Regression DecisionTree",
    ),
    "ScoreDistribution": ("value recordCount confidence probability", ""),
    "SimplePredicate": ("field operator value", ""),
    "SimpleSetPredicate": ("field booleanOperator", "Array"),
    "CompoundPredicate": ("booleanOperator", _PREDICATES),
    "Array": ("n type", ""),
    "Value": ("value displayValue property", ""),
    "MiningField": (
        (
            "name usageType optype importance outliers lowValue highValue invalidValueTreatment "
            "invalidValueReplacement missingValueReplacement missingValueTreatment"
        ),
        "",
    ),
    "TreeModel": (
        (
            "modelName functionName algorithmName missingValueStrategy missingValuePenalty noTrueChildStrategy "
            "splitCharacteristic isScorable"
        ),
        "MiningSchema Output ModelStats ModelExplanation Targets LocalTransformations Node ModelVerification",
    ),
    "Segmentation": ("multipleModelMethod missingPredictionTreatment missingThreshold x-missingThreshold", "Segment"),
    "Target": ("field optype castInteger min max rescaleConstant rescaleFactor", "TargetValue"),
}
_ALLOWED = {name: (set(attributes.split()), set(below.split())) for name, (attributes, below) in _KNOWN.items()}


@dataclasses.dataclass
class Element:
    name: str
    attributes: dict[str, str]
    children: list[Element] = dataclasses.field(default_factory=list)
    pieces: list[str] = dataclasses.field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    def all(self, *names: str) -> list[Element]:
        return [child for child in self.children if child.name in names]

    def first(self, *names: str) -> Element | None:
        return next(iter(self.all(*names)), None)

    def below(self, name: str) -> Iterator[Element]:
        waiting = self.children[::-1]
        while waiting:
            element = waiting.pop()
            if element.name == name:
                yield element
            waiting += element.children[::-1]

    @functools.cached_property
    def members(self) -> list[str]:
        array = self.first("Array")
        if array is None:
            return []
        entries = words("".join(array.pieces))
        if "n" in array.attributes and whole_number(array.get("n")) != len(entries):
            raise damaged(f"an Array must have {array.get('n')} entries, got {len(entries)}")
        return entries

    def check_names(self) -> None:
        attributes, names = _ALLOWED.get(self.name, (set(self.attributes), {child.name for child in self.children}))
        below = [child.name for child in self.children]
        unknown = {name for name in self.attributes if not name.startswith("x-")} - attributes
        unknown |= {name for name in below if not name.startswith(("x-", "Extension"))} - names
        if unknown:
            raise damaged(f"the element {self.name} must have what PMML knows, got {min(unknown)!r:.60}")


def parse(data: bytes) -> Element:
    top = Element("", {})
    path = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(path) > _MAX_DEPTH:
            raise UnsupportedModelError(f"the document must have trees of at most {_MAX_DEPTH} levels, got more.")
        element = Element(tag.rpartition(" ")[2], {key.rpartition(" ")[2]: value for key, value in attributes.items()})
        path[-1].children.append(element)
        path.append(element)

    def end(_tag: str) -> None:
        path.pop().check_names()

    def add_text(text: str) -> None:
        if path[-1].name == "Array":
            path[-1].pieces.append(text)

    def refuse(*_: object) -> None:
        raise UnsupportedModelError(
            "the document must have no document type declaration (DTD), got one, which could define entities; "
            "remove it."
        )

    parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
    parser.XmlDeclHandler = _check_encoding
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as error:
        raise damaged(f"the file must be XML, got a text that is not ({error})") from error
    return top.children[0]


def _check_encoding(_version: str, encoding: str | None, _standalone: int) -> None:
    """Raise UnsupportedModelError for an encoding that the parser does not read letter by letter."""
    try:
        name = codecs.lookup(encoding or "utf-8").name
    except (LookupError, ValueError):
        name = ""
    if name not in _ENCODINGS:
        raise UnsupportedModelError(
            f"the document must be in UTF-8, UTF-16, ISO-8859 or Windows-125x, got {encoding!r:.40}; save it as UTF-8."
        )


def words(text: str) -> list[str]:
    """Split an array at spaces; entries that contain some are in quotes.

    >>> words('red "light blue" 3')
    ['red', 'light blue', '3']
    """
    entries: list[str] = []
    position, text = 0, text.strip()
    while position < len(text):
        if text[position].isspace():
            position += 1
        elif text[position] == '"':
            word, position = _quoted(text, position + 1)
            entries.append(word)
        else:
            start = position
            position = next((k for k in range(start, len(text)) if text[k].isspace()), len(text))
            entries.append(text[start:position])
    return entries


def _quoted(text: str, position: int) -> tuple[str, int]:
    letters = []
    while position < len(text) and text[position] != '"':
        position += text.startswith('\\"', position)
        letters.append(text[position])
        position += 1
    return "".join(letters), position + 1


_NUMBERS = {"double", "float", "integer"}


def refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"the PMML document cannot be read: {reason}.")


@dataclasses.dataclass(frozen=True)
class Field:
    position: int
    is_single: bool = False
    categories: tuple[str, ...] | None = None
    unseen_is_missing: bool = False

    @functools.cached_property
    def codes(self) -> dict[str, int]:
        return {text: code for code, text in enumerate(self.categories or ())}

    def bound(self, value: str, *, is_closed: bool) -> float:
        number = decimal_number(value)
        if np.isnan(number):
            raise refusal("predicates must compare with numbers, got NaN")
        if self.is_single:
            single = np.float32(number)
            return float(bound_up_to(single) if is_closed else bound_below(single))
        return number if is_closed else float(np.nextafter(number, -np.inf))


@dataclasses.dataclass(frozen=True)
class Fields:
    by_name: dict[str, Field]
    features: tuple[Feature, ...]

    def get(self, name: str) -> Field:
        if name not in self.by_name:
            raise refusal(
                f"a predicate uses {name!r}, which is neither an active field nor a copy of one; write the model "
                "without transformations"
            )
        return self.by_name[name]


def read_fields(document: Element, model: Element) -> Fields:
    dictionary, schema = document.first("DataDictionary"), model.first("MiningSchema")
    listed = dictionary.all("DataField") if dictionary else []
    declared = {field.get("name"): field for field in listed}
    if len(declared) < len(listed):
        raise refusal("fields of DataDictionary must have names of their own, got one twice")
    active = [field for field in (schema.children if schema else ()) if field.get("usageType", "active") == "active"]
    for mining in document.below("MiningField"):
        if "missingValueReplacement" in mining.attributes or mining.get("outliers", "asIs") != "asIs":
            raise refusal(
                f"values of field {mining.get('name')!r} are replaced before the trees; remove this from MiningSchema, "
                "and replace them in the data"
            )
    used = _used_categories(document)
    by_name: dict[str, Field] = {}
    features: list[Feature] = []
    for position, mining in enumerate(active):
        name = mining.get("name")
        if name not in declared:
            raise refusal(f"field {name!r} is not in DataDictionary")
        feature, by_name[name] = _field(declared[name], mining, position, used.get(name, []))
        features.append(feature)
    for element in document.below("DerivedField"):
        _add_copy(by_name, element)
    return Fields(by_name, tuple(features))


def _add_copy(by_name: dict[str, Field], element: Element) -> None:
    source = element.first("FieldRef")
    if source is None or len(element.children) > 1 or source.get("field") not in by_name or source.get("mapMissingTo"):
        return
    field, kind = by_name[source.get("field")], element.get("dataType")
    if field.categories is None and kind in {"float", "double"}:
        by_name[element.get("name")] = dataclasses.replace(field, is_single=field.is_single or kind == "float")
    elif field.categories is not None and kind == "string":
        by_name[element.get("name")] = field


def _field(declared: Element, mining: Element, position: int, used: list[str]) -> tuple[Feature, Field]:
    name, kind = declared.get("name"), declared.get("dataType")
    if declared.get("optype") == "continuous" and kind in _NUMBERS:
        is_single = kind == "float"
        return Feature(name, Numeric(cast="float32" if is_single else "float64")), Field(position, is_single)
    if kind not in {"string", "boolean"}:
        raise refusal(f"field {name!r} must hold numbers or texts, got {declared.get('optype')} {kind}")
    listed = [value.get("value") for value in declared.all("Value") if value.get("property", "valid") == "valid"]
    names = tuple(dict.fromkeys([*listed, *used]))
    treatment = mining.get("invalidValueTreatment", "returnInvalid")
    if treatment not in {"returnInvalid", "asIs", "asMissing"} or not all(names):
        raise refusal(
            f"field {name!r} must list its values, and refuse others or take them as missing, got {treatment}"
        )
    # "asIs" is missing in some scorers, and a text like others in others.
    accepts_unseen = treatment == "asMissing" or not listed
    feature = Feature(name, Labels(names, "text"), accepts_unseen=accepts_unseen)
    return feature, Field(position, False, names, unseen_is_missing=treatment == "asMissing" and bool(listed))


def _used_categories(document: Element) -> dict[str, list[str]]:
    listed_values: dict[str, list[str]] = {}
    for predicate in document.below("SimplePredicate"):
        if "value" in predicate.attributes:
            listed_values.setdefault(predicate.get("field"), []).append(predicate.get("value"))
    for predicate in document.below("SimpleSetPredicate"):
        listed_values.setdefault(predicate.get("field"), []).extend(predicate.members)
    return listed_values


NAMES = ("SimplePredicate", "SimpleSetPredicate", "CompoundPredicate", "True", "False")
# In this order, "and" is the minimum and "or" the maximum; a missing value leaves a comparison unknown.
FALSE, UNKNOWN, TRUE = range(3)
Truths = npt.NDArray[np.int8]
_CLOSED = {"lessOrEqual": True, "greaterThan": True, "lessThan": False, "greaterOrEqual": False}


@dataclasses.dataclass(frozen=True)
class Values:
    """Numbers (NaN: missing), or positions of categories; the last two are one that no predicate names and missing."""

    field: Field
    numbers: Floats

    @functools.cached_property
    def is_missing(self) -> Bools:
        categories = self.field.categories
        return np.isnan(self.numbers) if categories is None else np.asarray(self.numbers == len(categories) + 1)

    def is_in(self, texts: Sequence[str]) -> Bools:
        """Where values equal one of some texts of the document; a number is an interval, and these do not overlap."""
        if self.field.categories is not None:
            return np.isin(self.numbers, [self.field.codes.get(text, -1) for text in texts])
        ends = sorted(
            tuple(self.field.bound(text, is_closed=is_closed) for is_closed in (False, True)) for text in texts
        )
        low, high = np.array([(np.inf, np.inf), *ends]).T
        before = np.searchsorted(low[1:], self.numbers, side="left")
        return np.asarray((before > 0) & (self.numbers <= high[before]), dtype=bool)

    def is_up_to(self, text: str, operator: str) -> Bools:
        """Where numbers are below a bound of the document; scorers disagree on the order of texts."""
        if self.field.categories is not None:
            raise refusal(f"texts must be compared by equal or notEqual, got {operator} {text!r:.40}")
        return self.numbers <= self.field.bound(text, is_closed=_CLOSED[operator])

    def at(self, places: Ints) -> Values:
        return Values(self.field, self.numbers[places])


def predicate_of(element: Element) -> Element:
    predicates = element.all(*NAMES)
    if len(predicates) != 1:
        raise refusal(f"a {element.name} must have one predicate that is known, got {len(predicates)}")
    return predicates[0]


def field_names(predicate: Element) -> set[str]:
    if predicate.name == "CompoundPredicate":
        return set().union(*(field_names(inner) for inner in predicate.all(*NAMES)))
    return {predicate.get("field")} if predicate.name.startswith("Simple") else set()


def bounds(predicate: Element, fields: Fields) -> set[float]:
    if predicate.name == "CompoundPredicate":
        return set().union(*(bounds(inner, fields) for inner in predicate.all(*NAMES)))
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
    is_missing = values.is_missing
    if predicate.name in {"True", "False"}:
        return np.full(len(is_missing), TRUE if predicate.name == "True" else FALSE, dtype=np.int8)
    if predicate.name == "CompoundPredicate":
        return _combined(predicate.get("booleanOperator"), [evaluate(inner, values) for inner in predicate.all(*NAMES)])
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
