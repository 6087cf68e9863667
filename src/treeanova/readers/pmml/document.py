"""PMML documents: their elements, read with limits and checked for names that PMML does not know."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import re
import xml.parsers.expat
from collections.abc import Iterator

from treeanova.errors import UnsupportedModelError
from treeanova.readers.checks import damaged, whole_number

_MAX_DEPTH = 300
# Others have several bytes per letter, which the parser would misread, or are unknown to it.
_ENCODINGS = {"utf-8", "utf-16", "utf-16-le", "utf-16-be", "ascii", *(f"iso8859-{k}" for k in range(1, 17))}
_ENCODINGS |= {f"cp125{k}" for k in range(9)}
_PREDICATES = "SimplePredicate SimpleSetPredicate CompoundPredicate True False"
_MINING_FIELD = """name usageType optype importance outliers lowValue highValue invalidValueTreatment
    invalidValueReplacement missingValueReplacement missingValueTreatment"""
_TREE_MODEL = """modelName functionName algorithmName missingValueStrategy missingValuePenalty noTrueChildStrategy
    splitCharacteristic isScorable"""
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
    "DataField": ("name displayName optype dataType taxonomy isCyclic", "Interval Value"),
    "Interval": ("closure leftMargin rightMargin", ""),
    "Value": ("value displayValue property", ""),
    "MiningField": (_MINING_FIELD, ""),
    "TreeModel": (
        _TREE_MODEL,
        "MiningSchema Output ModelStats ModelExplanation Targets LocalTransformations Node ModelVerification",
    ),
    "Segmentation": ("multipleModelMethod missingPredictionTreatment missingThreshold x-missingThreshold", "Segment"),
    "Target": ("field optype castInteger min max rescaleConstant rescaleFactor", "TargetValue"),
}
_ALLOWED = {name: (set(attributes.split()), set(below.split())) for name, (attributes, below) in _KNOWN.items()}


@dataclasses.dataclass
class Element:
    """An element of a document; `pieces` are the texts in an Array, none in other elements."""

    name: str
    attributes: dict[str, str]
    children: list[Element] = dataclasses.field(default_factory=list)
    pieces: list[str] = dataclasses.field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        return self.attributes.get(name, default)

    def all(self, *names: str) -> list[Element]:
        """Return the children that have one of the names."""
        return [child for child in self.children if child.name in names]

    def first(self, *names: str) -> Element | None:
        return next(iter(self.all(*names)), None)

    def below(self, name: str) -> Iterator[Element]:
        """Yield all elements of a name below this one, in the order of the document."""
        waiting = self.children[::-1]  # the last one is taken first
        while waiting:
            element = waiting.pop()
            if element.name == name:
                yield element
            waiting += element.children[::-1]

    @functools.cached_property
    def members(self) -> list[str]:
        """The entries of the Array in a predicate on a set."""
        array = self.first("Array")
        if array is None:
            return []
        entries = words("".join(array.pieces))
        if "n" in array.attributes and whole_number(array.get("n")) != len(entries):
            raise damaged(f"an Array must have {array.get('n')} entries, got {len(entries)}")
        return entries


def parse(data: bytes) -> Element:
    """Return the top element of a document; ModelFileError for names that PMML does not know."""
    top = Element("", {})
    path = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:  # names come with their namespace and a space before
        if len(path) > _MAX_DEPTH:
            raise UnsupportedModelError(f"the document must have trees of at most {_MAX_DEPTH} levels, got more.")
        element = Element(tag.rpartition(" ")[2], {key.rpartition(" ")[2]: value for key, value in attributes.items()})
        path[-1].children.append(element)
        path.append(element)

    def end(_tag: str) -> None:  # the element is complete and can be checked
        element = path.pop()
        if element.name not in _ALLOWED:
            return
        attributes, names = _ALLOWED[element.name]
        unknown = {name for name in element.attributes if not name.startswith("x-")} - attributes
        unknown |= {child.name for child in element.children if not child.name.startswith(("x-", "Extension"))} - names
        if unknown:
            raise damaged(f"the element {element.name} must have what PMML knows, got {min(unknown)!r:.60}")

    def add_text(text: str) -> None:  # the content of an Array; other elements have none that matters
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
    """Handle the XML declaration: UnsupportedModelError for an encoding that the parser may misread."""
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
    entries = re.finditer(r'"((?:\\"|[^"])*)"?|(\S+)', text.strip())
    return [entry[2] if entry[1] is None else entry[1].replace('\\"', '"') for entry in entries]
