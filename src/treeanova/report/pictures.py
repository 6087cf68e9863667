"""Pictures of pages without scripts, as SVG: bars of contributions, effects as steps over distributions of rows."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.dates import date_text
from treeanova.density.statistics import Statistics
from treeanova.model.axes import Axis
from treeanova.report.features import window
from treeanova.report.markup import Markup, element, together

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
