"""XML documents as plain elements; document type declarations, by which entities come in, are refused."""

from __future__ import annotations

import codecs
import dataclasses
import functools
import xml.parsers.expat
from collections.abc import Iterator

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import whole_number

_MAX_DEPTH = 300
# Others have several bytes per letter, which the parser would misread, or are not known to it.
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
    """An element: its name without the namespace, attributes, children, and the text of an Array."""

    name: str
    attributes: dict[str, str]
    children: list[Element] = dataclasses.field(default_factory=list)
    pieces: list[str] = dataclasses.field(default_factory=list)

    def get(self, name: str, default: str = "") -> str:
        """An attribute."""
        return self.attributes.get(name, default)

    def all(self, *names: str) -> list[Element]:
        """Children with one of these names."""
        return [child for child in self.children if child.name in names]

    def first(self, *names: str) -> Element | None:
        """The first child with one of these names."""
        return next(iter(self.all(*names)), None)

    def below(self, name: str) -> Iterator[Element]:
        """All elements of a name inside this one, in the order of the document."""
        waiting = self.children[::-1]
        while waiting:
            element = waiting.pop()
            if element.name == name:
                yield element
            waiting += element.children[::-1]

    @functools.cached_property
    def members(self) -> list[str]:
        """Entries of the Array in this element."""
        array = self.first("Array")
        if array is None:
            return []
        found = words("".join(array.pieces))
        if "n" in array.attributes and whole_number(array.get("n")) != len(found):
            raise ModelFileError(f"an Array must have {array.get('n')} entries, got {len(found)}; file damaged?")
        return found

    def check_names(self) -> None:
        """Raise ModelFileError for attributes and children that PMML does not know here."""
        attributes, names = _ALLOWED.get(self.name, (set(self.attributes), {child.name for child in self.children}))
        below = [child.name for child in self.children]
        unknown = {name for name in self.attributes if not name.startswith("x-")} - attributes
        unknown |= {name for name in below if not name.startswith(("x-", "Extension"))} - names
        if unknown:
            raise ModelFileError(
                f"the element {self.name} must have what PMML knows, got {min(unknown)!r:.60}; file damaged?"
            )


def parse(data: bytes) -> Element:
    """The root element of a document."""
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
        raise ModelFileError(f"the file must be XML, got a text that is not ({error}); file damaged?") from error
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
    """Entries of an array: separated by spaces, in quotes where they contain some.

    >>> words('red "light blue" 3')
    ['red', 'light blue', '3']
    """
    found: list[str] = []
    position, text = 0, text.strip()
    while position < len(text):
        if text[position].isspace():
            position += 1
            continue
        word, position = _quoted(text, position + 1) if text[position] == '"' else _plain(text, position)
        found.append(word)
    return found


def _plain(text: str, start: int) -> tuple[str, int]:
    end = next((k for k in range(start, len(text)) if text[k].isspace()), len(text))
    return text[start:end], end


def _quoted(text: str, position: int) -> tuple[str, int]:
    """The text up to the closing quote; a quote inside comes after a backslash."""
    letters = []
    while position < len(text) and text[position] != '"':
        position += text.startswith('\\"', position)
        letters.append(text[position])
        position += 1
    return "".join(letters), position + 1
