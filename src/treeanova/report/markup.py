"""HTML and SVG as text: elements whose text and attributes are escaped, whatever they hold."""

from __future__ import annotations

import html


class Markup(str):
    """Text that is markup already; all other text is escaped where it becomes part of an element."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """An element with children, text or markup; in names of attributes _ stands for -, and ends keywords of Python.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    given = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{given}>{together(*children)}</{tag}>")


def together(*children: str) -> Markup:
    """Children one after the other: markup as it is, text escaped."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(child) for child in children))
