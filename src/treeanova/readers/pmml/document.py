"""XML documents as plain elements; document type declarations, by which entities come in, are refused."""

from __future__ import annotations

import dataclasses
import xml.parsers.expat
from collections.abc import Iterator

from treeanova.errors import ModelFileError, UnsupportedModelError

_MAX_DEPTH = 300


@dataclasses.dataclass
class Element:
    """An element: its name without the namespace, attributes, children and text."""

    name: str
    attributes: dict[str, str]
    children: list[Element] = dataclasses.field(default_factory=list)
    text: str = ""

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
        """All elements of a name inside this one."""
        for child in self.children:
            if child.name == name:
                yield child
            yield from child.below(name)


def parse(data: bytes, name: str) -> Element:
    """The root element of a document; `name` is that of the file."""
    top = Element("", {})
    path = [top]

    def start(tag: str, attributes: dict[str, str]) -> None:
        if len(path) > _MAX_DEPTH:
            raise UnsupportedModelError(f"{name} must have trees of at most {_MAX_DEPTH} levels, got more.")
        element = Element(tag.rpartition(" ")[2], {key.rpartition(" ")[2]: value for key, value in attributes.items()})
        path[-1].children.append(element)
        path.append(element)

    def end(_tag: str) -> None:
        path.pop()

    def add_text(text: str) -> None:
        path[-1].text += text

    def refuse(*_: object) -> None:
        raise UnsupportedModelError(
            f"{name} must have no document type declaration (DTD), got one, which could define entities; remove it."
        )

    parser = xml.parsers.expat.ParserCreate(namespace_separator=" ")
    parser.StartElementHandler, parser.EndElementHandler = start, end
    parser.CharacterDataHandler = add_text
    parser.StartDoctypeDeclHandler = refuse
    parser.EntityDeclHandler = refuse
    try:
        parser.Parse(data, True)
    except xml.parsers.expat.ExpatError as error:
        raise ModelFileError(f"{name} must be XML, got a text that is not ({error}); file damaged?") from error
    return top.children[0]


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
