"""Pages without scripts: one file of text, tables, and SVG pictures of `treeanova.plot`, light and dark."""

from __future__ import annotations

import base64
import hashlib
import html
import importlib.resources
import io
import math
import re
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from treeanova import __version__, views

_SHOWN = 20  # terms of a table that are always in sight
_LISTED = 1000  # terms of the table of all
_DARK = re.compile(r':root\[data-theme="dark"\] (\{.*?\n\})', flags=re.DOTALL)
_DROPPED = re.compile(r"<metadata>.*?</metadata>|<style\b.*?</style>|<!--.*?-->", flags=re.DOTALL)


class Markup(str):
    """Text that is already markup; all other text is escaped."""

    __slots__ = ()


def element(tag: str, *children: str, **attributes: object) -> Markup:
    """Return an element; in names of attributes _ stands for -, and a final _ avoids keywords.

    >>> element("p", "a < b", class_="note")
    '<p class="note">a &lt; b</p>'
    """
    written = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{html.escape(str(value))}"'
        for name, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{tag}{written}>{join_markup(*children)}</{tag}>")


def join_markup(*children: str) -> Markup:
    """Join markup and text, which is escaped."""
    return Markup("".join(child if isinstance(child, Markup) else html.escape(child) for child in children))


def asset(name: str) -> str:
    """Return the text of a style sheet, script or page of the package."""
    return (importlib.resources.files("treeanova.report") / "assets" / name).read_text(encoding="utf-8")


def _named_colours() -> dict[str, str]:
    """Return the colours of plots by their names in the style sheet."""
    named = {"main": views.MAIN, "raw": views.RAW, "negative": views.NEGATIVE, "positive": views.POSITIVE}
    named |= {"no-data": views.NO_DATA, "data": views.DATA}
    named |= {f"series-{i}": colour for i, colour in enumerate(views.SERIES)}
    return named | {f"diverging-{i}": colour for i, colour in enumerate(views.DIVERGING)}


def colours() -> str:
    """Return CSS that defines the colours as variables."""
    return f":root{{{''.join(f'--{name}:{colour};' for name, colour in _named_colours().items())}}}\n"


def digest(text: str) -> str:
    """Return the hash by which a content-security policy allows a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def static_page(title: str, facts: str, sentence: str, sections: Sequence[Markup], *, more_style: str = "") -> str:
    """Return a whole page of a title, facts, a sentence and sections, which can run nothing and load nothing."""
    dark = _DARK.search(asset("page.css"))
    by_preference = f"@media screen and (prefers-color-scheme: dark) {{ :root {dark.group(1)} }}\n" if dark else ""
    style = colours() + asset("page.css") + by_preference + asset("static.css") + more_style
    policy = f"default-src 'none'; style-src {digest(style)}; img-src data:; base-uri 'none'; form-action 'none'"
    head = join_markup(
        Markup('<meta charset="utf-8">'),
        Markup(f'<meta http-equiv="Content-Security-Policy" content="{policy}">'),
        Markup('<meta name="viewport" content="width=device-width, initial-scale=1">'),
        Markup('<meta name="referrer" content="no-referrer"><meta name="color-scheme" content="light dark">'),
        element("title", title),
        Markup(f"<style>{style}</style>"),
    )
    first = (element("p", facts, class_="facts"), element("h1", title), element("p", sentence, class_="lead"))
    foot = f"Made with treeanova {__version__}. The page loads nothing and runs no script."
    body = element(
        "body",
        element("header", *first, class_="page"),
        element("main", *sections),
        element("footer", foot, class_="page"),
        class_="static",
    )
    return f'<!doctype html>\n<html lang="en">\n<head>{head}</head>\n{body}\n</html>\n'


def numbers(*entries: tuple[str, str, str]) -> Markup:
    """Return a list of entries: a name, a number and words about it."""
    cells = [
        element("div", element("dt", name), element("dd", number, element("small", words)))
        for name, number, words in entries
    ]
    return element("dl", *cells, class_="numbers")


def section(title: str, *children: str) -> Markup:
    return element("section", element("h2", title), *children, class_="guide")


def table_element(head: Sequence[str], rows: Sequence[Sequence[str]], class_: str | None = None) -> Markup:
    """Return an HTML table of texts; all columns but the first are numbers."""

    def line(tag: str, cells: Sequence[str]) -> Markup:
        return element("tr", *(element(tag, cell, class_="number" if i else None) for i, cell in enumerate(cells)))

    body = element("tbody", *(line("td", row) for row in rows))
    return element("table", element("thead", line("th", head)), body, class_=class_)


def signed(value: float, decimals: int) -> str:
    """Write a number with its sign and a true minus; rounded to zero, it has no sign."""
    text = f"{value:+,.{decimals}f}".replace("-", "−")
    return text if any(digit in "123456789" for digit in text) else text[1:]


def decimals_of(values: Sequence[float]) -> int:
    """Return the decimals that give the largest number four digits."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(max(3 - math.floor(math.log10(largest)), 0), 9) if largest > 0 else 1


def contributions(bars: Any, words: Mapping[str, str], *, n_heads: int, by: str = "term") -> Markup:
    """Return a table of the first bars (`plot.bars.Bars`) and the sum of all others, and a list of all."""
    # `words` are headings by column. The first `n_heads` rows are sums and the intercept.
    from treeanova.plot.bars import with_rest  # noqa: PLC0415  needs matplotlib

    def rows_in_words(bars: Any, decimals: int) -> list[list[str]]:
        numbers = zip(*(bars.columns[name] for name in words), strict=True)
        texts = ([_number_text(x, decimals, name) for x, name in zip(row, words, strict=True)] for row in numbers)
        return [[name, *text] for name, text in zip(bars.names, texts, strict=True)]

    shown = with_rest(bars, n_heads + _SHOWN)
    decimals = decimals_of([value for name in words for value in shown.columns[name]])
    head = [by, *words.values()]
    table = table_element(head, rows_in_words(shown, decimals), "contributions")
    n_rows = len(bars.names)
    if len(shown.names) == n_rows:
        return table
    title = f"All {n_rows - n_heads:,} terms" if n_rows <= _LISTED else f"The first {_LISTED:,} rows"
    whole = table_element(head, rows_in_words(bars, decimals + 2)[:_LISTED])
    return join_markup(table, element("details", element("summary", title), element("div", whole, class_="scroll")))


def _number_text(value: float, decimals: int, column: str) -> str:
    """Write a number of a column, with a sign unless it is an error; a dash for NaN."""
    if not math.isfinite(value):
        return "–"
    return f"{value:,.{decimals}f}" if column == "error" else signed(float(value), decimals)


def picture(
    draw: Callable[..., Any],
    label: str,
    size: tuple[float, float],
    class_: str = "picture",
    *,
    looks: Mapping[str, Any] = MappingProxyType({}),
    follows_page: bool = True,
) -> Markup:
    """Return a plot, drawn by `draw(ax=...)`, as SVG of a size in inches, in the style sheet's colours and font.

    `looks` are settings of matplotlib. Shades, as of heat maps, have no dark counterpart: without `follows_page`,
    colours are those of a light page.
    """
    # The content-security policy allows no style attributes, so they become separate attributes.
    from matplotlib import style  # noqa: PLC0415  slow to load, and an extra
    from matplotlib.figure import Figure  # noqa: PLC0415

    fixed = {"svg.fonttype": "none", "svg.hashsalt": f"{label} {size}", "svg.id": None}
    with style.context(["default", dict(looks), fixed]), io.StringIO() as file:
        figure = Figure(figsize=size, layout="constrained")
        draw(ax=figure.add_subplot())
        figure.savefig(file, format="svg", transparent=True)
        text = file.getvalue()
    inner = _DROPPED.sub("", text[text.index("<svg") :])
    variables = {"#000000": "currentColor"}
    if follows_page:
        variables["#ffffff"] = "var(--panel)"
        for name, colour in _named_colours().items():
            variables.setdefault(colour, f"var(--{name})")
    drawn = re.sub(r"<[a-zA-Z][^<>]*>", lambda match: _plain_tag(match.group(), variables), inner)
    _, _, content = drawn.partition(">")
    width, height = 72 * size[0], 72 * size[1]
    opening = (
        f'<svg class="{class_}" viewBox="0 0 {width:g} {height:g}" role="img" aria-label="{html.escape(label)}" '
        'fill="currentColor" stroke-linejoin="round">'
    )
    return Markup(f"{opening}{content}")


def _plain_tag(tag: str, variables: Mapping[str, str]) -> str:
    """Return a tag with separate attributes instead of a style, and variables instead of colours."""
    tag = re.sub(r'(?<=^<g) id="[^"]*"', "", tag)
    styles = re.search(r' style="([^"]*)"', tag)
    if styles is None:
        return tag
    pairs = (entry.partition(":")[::2] for entry in styles.group(1).split(";") if ":" in entry)
    attributes = {name.strip(): variables.get(value.strip(), value.strip()) for name, value in pairs}
    attributes.pop("font-family", None)
    size = re.search(r"[\d.]+px", attributes.pop("font", ""))  # older matplotlib
    attributes |= {"font-size": size.group()} if size else {}
    written = "".join(f' {name}="{value}"' for name, value in attributes.items())
    return tag.replace(styles.group(), written)
