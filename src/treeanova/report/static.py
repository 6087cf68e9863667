"""Pages without scripts: one file of text, tables and pictures, in the colours of the report, light and dark."""

from __future__ import annotations

import re
from collections.abc import Sequence

from treeanova import __version__
from treeanova.report.markup import Markup, element, together
from treeanova.report.styles import asset, colours, digest

_DARK = re.compile(r':root\[data-theme="dark"\] (\{.*?\n\})', flags=re.DOTALL)


def static_page(title: str, facts: str, sentence: str, sections: Sequence[Markup]) -> str:
    """The text of a whole page; it can run nothing and load nothing."""
    style = _style()
    policy = f"default-src 'none'; style-src {digest(style)}; base-uri 'none'; form-action 'none'"
    head = together(
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    )
    top = element(
        "header",
        element("p", facts, class_="facts"),
        element("h1", title),
        element("p", sentence, class_="lead"),
        class_="page",
    )
    foot = element(
        "footer", f"Made with treeanova {__version__}. The page loads nothing and runs no script.", class_="page"
    )
    body = element("body", top, element("main", *sections), foot, class_="static")
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n{body}\n</html>\n'


def _style() -> str:
    """The style of the report with its dark colours for readers who prefer them, and that of pages without scripts."""
    common = asset("page.css")
    dark = _DARK.search(common)
    by_preference = f"@media (prefers-color-scheme: dark) {{ :root {dark.group(1)} }}\n" if dark else ""
    return colours() + common + by_preference + asset("static.css")


def numbers(*entries: tuple[str, str, str]) -> Markup:
    """The first numbers of a page: a heading, a number and words after it each."""
    cells = [
        element("div", element("dt", name), element("dd", number, element("small", words)))
        for name, number, words in entries
    ]
    return element("dl", *cells, class_="numbers")


def section(title: str, *children: str) -> Markup:
    """A part of the page with a heading."""
    return element("section", element("h2", title), *children, class_="guide")


def rows_of_table(head: Sequence[str], rows: Sequence[Sequence[str]], class_: str | None = None) -> Markup:
    """A table of text and markup; all columns but the first hold numbers, unless they hold markup."""
    tracks = {i for row in rows[:1] for i, cell in enumerate(row) if isinstance(cell, Markup)}
    kinds = ["track" if i in tracks else _kind(i, name) for i, name in enumerate(head)]
    top = element("tr", *(element("th", name, class_=kind) for name, kind in zip(head, kinds, strict=True)))
    lines = [element("tr", *(element("td", cell, class_=_kind(i, cell)) for i, cell in enumerate(row))) for row in rows]
    return element("table", element("thead", top), element("tbody", *lines), class_=class_)


def _kind(position: int, cell: str) -> str | None:
    if isinstance(cell, Markup):
        return "track"
    return "number" if position else None
