"""Pages without scripts: one file of text, tables and pictures drawn as SVG, light and dark."""

from __future__ import annotations

import base64
import dataclasses
import hashlib
import html
import importlib.resources
import math
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova import __version__, views
from treeanova.core.arrays import Floats
from treeanova.data.features import date_text
from treeanova.density.statistics import Statistics
from treeanova.model.axes import Axis
from treeanova.report.tables import window
from treeanova.views import as_lists


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


def asset(name: str) -> str:
    """The text of a file of styles or scripts."""
    return (importlib.resources.files("treeanova.report") / "assets" / name).read_text(encoding="utf-8")


def colours() -> str:
    """Colours of the shared look as variables of the style sheet."""
    named = {"main": views.MAIN, "raw": views.RAW, "negative": views.NEGATIVE, "positive": views.POSITIVE}
    named |= {"no-data": views.NO_DATA, "data": views.DATA}
    named |= {f"series-{i}": colour for i, colour in enumerate(views.SERIES)}
    named |= {f"diverging-{i}": colour for i, colour in enumerate(views.DIVERGING)}
    return f":root{{{''.join(f'--{name}:{colour};' for name, colour in named.items())}}}\n"


def digest(text: str) -> str:
    """The hash by which a content-security policy allows a style or a script."""
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


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


_WIDTH, _HEIGHT = 460, 260
_LEFT, _RIGHT, _TOP, _FOOT, _STRIP = 52, 10, 8, 22, 44
_BARS = 48
_MOST_CATEGORIES = 12


@dataclasses.dataclass(frozen=True)
class Span:
    """A range of numbers that a picture shows from its left to its right end."""

    low: float
    high: float

    def place(self, value: float, width: float) -> float:
        """Where a number lies, in units of the picture; at its ends for numbers beyond."""
        share = (value - self.low) / (self.high - self.low)
        return round(width * min(max(share, 0.0), 1.0), 2)


def bar(
    span: Span, pieces: Sequence[tuple[str, float, float]], marks: Sequence[float] = (), breaks: Sequence[float] = ()
) -> Markup:
    """A bar of pieces (a class, a start and an end) with a line at zero, and a thin line between two marks.

    A slanted gap shows where a bar is broken, because it would leave the range.
    """
    rects = [
        element("rect", class_=kind, x=x, y=3, width=round(span.place(max(start, end), 1000) - x, 2), height=14)
        for kind, start, end in pieces
        for x in [span.place(min(start, end), 1000)]
    ]
    zero = span.place(0.0, 1000)
    lines = [element("line", class_="zero", x1=zero, x2=zero, y1=0, y2=20)]
    if len(marks) == 2:
        left, right = (span.place(mark, 1000) for mark in marks)
        lines.append(element("line", class_="mark", x1=left, x2=right, y1=10, y2=10))
    gaps = [
        element("path", class_="break", d=f"M{x} 20L{x + 9} 0H{x + 18}L{x + 9} 20Z")
        for x in (round(span.place(place, 1000) - 9, 2) for place in breaks)
    ]
    return element("svg", *rects, *lines, *gaps, viewBox="0 0 1000 20", preserveAspectRatio="none", aria_hidden="true")


@dataclasses.dataclass(frozen=True, eq=False)
class Curve:
    """A main effect to draw: a class, its name, its bins and its values."""

    kind: str
    name: str
    axis: Axis
    values: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class RowsOf:
    """Rows whose distribution is drawn: a class, a name, their statistics, and their shares in the bins of an axis."""

    kind: str
    name: str
    statistics: Statistics
    axis: Axis
    shares: Floats

    @property
    def missing(self) -> float:
        """Share of the rows in bins that hold missing values only."""
        return float(self.shares[self.axis.n_regular :].sum())

    def share(self, label: str) -> float:
        """Share of the rows in a category; zero where it is not known."""
        return float(self.shares[self.axis.labels.index(label)]) if label in self.axis.labels else 0.0


def effect_picture(curves: Sequence[Curve], rows: Sequence[RowsOf], feature: int) -> Markup:
    """Main effects of one feature over the distributions of rows: steps for numbers, a table of bars for categories."""
    draw = _numbers if curves[0].axis.is_ordered else _categories
    return draw(curves, rows, feature)


# Numbers.


def _numbers(curves: Sequence[Curve], rows: Sequence[RowsOf], feature: int) -> Markup:
    windows = [window(curve.axis, feature, one.statistics) for curve in curves for one in rows]
    across = Span(min(each["low"] for each in windows), max(each["high"] for each in windows))
    values = np.concatenate([_shown(curve, across) for curve in curves])
    up = _widened(min(float(values.min()), 0.0), max(float(values.max()), 0.0))
    parts = [*_frame(across, up, curves[0].axis.date_unit), *_areas(rows, feature, across)]
    parts += [element("path", class_=f"curve {curve.kind}", d=_steps(curve, across, up)) for curve in curves]
    label = "; ".join(f"{curve.name}: {curve.values.min():.3g} to {curve.values.max():.3g}" for curve in curves)
    svg = element("svg", *parts, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img", aria_label=label, class_="picture")
    return together(svg, *_missing_words(curves, rows))


def _shown(curve: Curve, across: Span) -> Floats:
    """Values of the intervals that the picture shows."""
    low, high = (int(np.searchsorted(curve.axis.thresholds, end)) for end in (across.low, across.high))
    return curve.values[low : high + 1]


def _widened(low: float, high: float) -> Span:
    margin = 0.05 * (high - low) or 0.5
    return Span(low - margin, high + margin)


def _x(across: Span, value: float) -> float:
    return round(_LEFT + across.place(value, _WIDTH - _LEFT - _RIGHT), 2)


def _y(up: Span, value: float) -> float:
    height = _HEIGHT - _TOP - _FOOT - _STRIP
    return round(_TOP + height - up.place(value, height), 2)


def _steps(curve: Curve, across: Span, up: Span) -> str:
    """A path along the steps of a curve at its true thresholds."""
    inner = [t for t in curve.axis.thresholds.tolist() if across.low < t < across.high]
    ends = [across.low, *inner, across.high]
    heights = [_y(up, float(value)) for value in _shown(curve, across)]
    pieces = zip(ends[:-1], ends[1:], heights, strict=False)
    path = "".join(f"L{_x(across, left)} {height}H{_x(across, right)}" for left, right, height in pieces)
    return f"M{path[1:]}"


def _frame(across: Span, up: Span, date_unit: str) -> list[Markup]:
    """Lines and numbers of both axes."""
    floor = _HEIGHT - _FOOT
    lines = [element("line", class_="frame", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=floor, y2=floor)]
    for tick in ticks(up, 5):
        y = _y(up, tick)
        kind = "grid" if tick else "zero"
        lines.append(element("line", class_=kind, x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y))
        lines.append(element("text", _number(tick), x=_LEFT - 6, y=y + 4, text_anchor="end"))
    for tick in ticks(across, 6):
        text = (date_text(tick, date_unit) if date_unit else None) or _number(tick)
        lines.append(element("text", text, x=_x(across, tick), y=floor + 16, text_anchor="middle"))
    return lines


def ticks(span: Span, most: int) -> list[float]:
    """At most about so many round numbers within a range."""
    rough = (span.high - span.low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough)
    first, last = math.ceil(span.low / step), math.floor(span.high / step)
    return [float(f"{i * step:.12g}") for i in range(first, last + 1)]


def _number(value: float) -> str:
    return f"{value:,.6g}".replace("-", "−")


def _areas(rows: Sequence[RowsOf], feature: int, across: Span) -> list[Markup]:
    """Histograms of rows along the foot of the picture, all on one scale."""
    heights = [one.statistics.histogram(feature, across.low, across.high, _BARS) for one in rows]
    tallest = max(float(height.max(initial=0.0)) for height in heights) or 1.0
    return [
        element("path", class_=f"area {one.kind}", d=_area(height / tallest))
        for one, height in zip(rows, heights, strict=True)
    ]


def _area(heights: Floats) -> str:
    floor, width = _HEIGHT - _FOOT, (_WIDTH - _LEFT - _RIGHT) / _BARS
    tops = [f"V{floor - (_STRIP - 6) * height:.1f}H{_LEFT + width * (i + 1):.1f}" for i, height in enumerate(heights)]
    return f"M{_LEFT} {floor}{''.join(tops)}V{floor}Z"


def _missing_words(curves: Sequence[Curve], rows: Sequence[RowsOf]) -> list[Markup]:
    """What happens to missing values, where some rows have them."""
    if any(curve.axis.n_regular == curve.axis.size for curve in curves) or not any(one.missing for one in rows):
        return []
    effects = ", ".join(f"{curve.name} {_number(float(f'{curve.values[-1]:.3g}'))}" for curve in curves)
    shares = ", ".join(f"{one.name} {one.missing:.1%}" for one in rows)
    return [element("p", f"Missing values: effect {effects}; share of the rows {shares}.", class_="caption")]


# Categories.


def _categories(curves: Sequence[Curve], rows: Sequence[RowsOf], feature: int) -> Markup:
    """A table of categories, those with most rows first: bars of the effects, and shares of the rows."""
    del feature
    labels = list(dict.fromkeys(label for curve in curves for label in curve.axis.labels))
    mass = {label: sum(one.share(label) for one in rows) for label in labels}
    shown = sorted((label for label in labels if mass[label] > 0), key=lambda label: -mass[label])
    span = _widened(min(0.0, *(c.values.min() for c in curves)), max(0.0, *(c.values.max() for c in curves)))
    head = element("tr", element("th", "category"), element("th", "effect"), *(element("th", r.name) for r in rows))
    body = [
        element(
            "tr",
            element("td", label),
            element("td", *(_category_bar(curve, label, span) for curve in curves), class_="track"),
            *(element("td", f"{one.share(label):.1%}", class_="number") for one in rows),
        )
        for label in shown[:_MOST_CATEGORIES]
    ]
    rest = len(shown) - _MOST_CATEGORIES
    more = [element("p", f"{rest} more categories with fewer rows.", class_="caption")] if rest > 0 else []
    return together(element("table", head, *body, class_="categories"), *more)


def _category_bar(curve: Curve, label: str, span: Span) -> Markup:
    labels = curve.axis.labels
    value = float(curve.values[labels.index(label)]) if label in labels else 0.0
    return bar(span, [(curve.kind, 0.0, value)])


_SHOWN = 20
_LISTED = 1000
_LONGEST_HEAD = 4.0  # of sums, relative to the range of terms
_BREAK = 0.9  # of the length of a bar that would leave the range

Row = dict[str, Any]
Extent = Callable[[Row], tuple[float, float]]
Draw = Callable[[Span, Row], Markup]


def rows_of_output(table: Any, outputs: Sequence[str], position: int) -> list[Row]:
    """Rows of a table that belong to one output."""
    columns = as_lists(table)
    rows = [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
    return rows if len(outputs) == 1 else [row for row in rows if row["output"] == outputs[position]]


def signed(value: float, decimals: int) -> str:
    """A number with its sign and so many digits after the point; zero has no sign."""
    text = f"{value:+,.{decimals}f}".replace("-", "−")
    return text if any(digit in "123456789" for digit in text) else text[1:]


def decimals_of(values: Sequence[float]) -> int:
    """Digits after the point with which the largest of some numbers has four."""
    largest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    return min(max(3 - math.floor(math.log10(largest)), 0), 9) if largest > 0 else 1


def contributions(
    rows: Sequence[Row], columns: Mapping[str, str], extent: Extent, draw: Draw, *, n_heads: int, by: str = "term"
) -> Markup:
    """A table with a bar for each of the first terms and one for all others, and a list of all terms.

    The first `n_heads` rows are sums and the intercept. Where they are far longer than all terms, their bars are cut.
    """
    shown = _with_rest(rows, columns, n_heads + _SHOWN)
    decimals = decimals_of([row[name] for row in shown for name in columns])
    span, is_cut = _span([extent(row) for row in shown], n_heads)
    lines = [[row["term"], draw(span, row), *_texts(row, columns, decimals)] for row in shown]
    table = rows_of_table([by, "", *columns.values()], lines, "contributions")
    notes = ["Bars with a gap are cut: they are longer than the column. The numbers are whole."] if is_cut else []
    more = []
    if len(shown) < len(rows):
        every = [[row["term"], *_texts(row, columns, decimals + 2)] for row in rows[:_LISTED]]
        title = f"All {len(rows) - n_heads:,} terms" if len(rows) <= _LISTED else f"The first {_LISTED:,} rows"
        whole = element("div", rows_of_table(["term", *columns.values()], every), class_="scroll")
        more = [element("details", element("summary", title), whole)]
    return together(table, *(element("p", note, class_="caption") for note in notes), *more)


def _texts(row: Row, columns: Mapping[str, str], decimals: int) -> list[str]:
    return [_text(row[name], decimals, has_sign=name != "error") for name in columns]


def _text(value: float, decimals: int, *, has_sign: bool) -> str:
    if not math.isfinite(value):
        return "–"
    return signed(value, decimals) if has_sign else f"{value:,.{decimals}f}"


def _with_rest(rows: Sequence[Row], columns: Mapping[str, str], most: int) -> list[Row]:
    """The first rows and the sum of all others; errors do not add up."""
    if len(rows) <= most:
        return list(rows)
    others = rows[most - 1 :]
    sums = {name: math.nan if name == "error" else sum(row[name] for row in others) for name in columns}
    return [*rows[: most - 1], {"term": f"{len(others)} other terms", **sums}]


def _span(extents: Sequence[tuple[float, float]], n_heads: int) -> tuple[Span, bool]:
    """The range of the bars, and whether those of the first rows leave it."""
    whole, terms = _hull(extents), _hull(extents[n_heads:])
    is_cut = 0 < _LONGEST_HEAD * (terms[1] - terms[0]) < whole[1] - whole[0]
    low, high = terms if is_cut else whole
    margin = 0.04 * (high - low) or 0.5
    return Span(low - margin, high + margin), is_cut


def _hull(extents: Sequence[tuple[float, float]]) -> tuple[float, float]:
    return min((*(low for low, _ in extents), 0.0)), max((*(high for _, high in extents), 0.0))


def stacked(span: Span, row: Row) -> Markup:
    """Population and model on one line, on the sides of their signs; in proportion where they would leave the range."""
    low, high = extent_of_stack(row)
    shrunk = min([1.0, *(end / own for end, own in ((span.low, low), (span.high, high)) if own)])
    population, model = row["population"] * shrunk, row["model"] * shrunk
    start = population if population * model > 0 else 0.0
    pieces = [("first", 0.0, population), ("second", start, start + model)]
    return bar(span, pieces, breaks=[_BREAK * shrunk * end for end in (low, high) if end and shrunk < 1])


def extent_of_stack(row: Row) -> tuple[float, float]:
    """Ends of a stacked bar."""
    corners = [0.0, row["population"], row["model"]]
    corners += [row["population"] + row["model"]] if row["population"] * row["model"] > 0 else []
    return min(corners), max(corners)


def with_error(span: Span, row: Row) -> Markup:
    """A gap with two standard errors to either side."""
    low, high = row["gap"] - 2 * row["error"], row["gap"] + 2 * row["error"]
    marks = (low, high) if math.isfinite(low) else ()
    piece = ("above" if row["gap"] >= 0 else "below", 0.0, row["gap"])
    end = min(max(row["gap"], span.low), span.high)
    return bar(span, [piece], marks, breaks=[] if end == row["gap"] else [_BREAK * end])


def extent_with_error(row: Row) -> tuple[float, float]:
    """Ends of a gap and its error."""
    reach = 2 * row["error"] if math.isfinite(row["error"]) else 0.0
    return min(0.0, row["gap"] - reach), max(0.0, row["gap"] + reach)
