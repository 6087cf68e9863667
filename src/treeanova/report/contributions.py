"""Tables of contributions to a difference of mean scores on a page: a bar and numbers for each term."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from treeanova.report.markup import Markup, element, together
from treeanova.report.pictures import Span, bar
from treeanova.report.static import rows_of_table
from treeanova.views.standings import as_lists

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
