"""Reports as tests read them: the parts of an HTML page, and the numbers that it holds."""

from __future__ import annotations

import html.parser
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names

# Names that would be markup, if a page took them for it.
HOSTILE_NAMES = ["<script>alert(1)</script>", "</script><!--", "a & b \u2028 \u2029", "{{data}}"]


class ParsedPage(html.parser.HTMLParser):
    """Tags, scripts, style and title of a page, as a parser of HTML finds them.

    Attributes
    ----------
    tags
        Name and attributes of every element.
    scripts
        Attributes and text of every script.
    title, style
        Text of the title and of the style sheet.
    """

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.title, self.style = "", ""
        self._open: str | None = None
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Keep an element."""
        self.tags.append((tag, dict(attrs)))
        self._open = tag
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        """Keep the text of a script, of the title or of the style sheet."""
        if self._open == "script":
            attributes, text = self.scripts[-1]
            self.scripts[-1] = (attributes, text + data)
        elif self._open == "title":
            self.title += data
        elif self._open == "style":
            self.style += data

    def handle_endtag(self, tag: str) -> None:
        """Close an element."""
        self._open = None

    @property
    def data(self) -> Any:
        """The data of a report."""
        return json.loads(self.scripts[0][1])


def values_on_page(term: Mapping[str, Any], form: str, output: int = 0) -> Floats:
    """Values of a term in whole units: as the page holds them, or decoded from another form and two faces."""
    stored = term["values"][form]
    if isinstance(stored, list):
        return np.array(stored[output], dtype=np.float64)
    base = np.array(term["values"][stored["base"]][output], dtype=np.float64)
    faces: Floats = np.add.outer(np.array(stored["rows"][output]), np.array(stored["columns"][output])).ravel()
    return base + faces


def names_on_page(data: Mapping[str, Any], term: Mapping[str, Any]) -> Names:
    """Names of the features of a term; none for the remainder."""
    return tuple(data["features"][j]["name"] for j in term.get("features", ()))
