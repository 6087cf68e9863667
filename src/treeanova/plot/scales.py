"""Scales: limits, ticks and names of a feature's axis, and the strip that shows the distribution of the data."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator, NullLocator

from treeanova.core.arrays import Floats
from treeanova.plot import style
from treeanova.plot.axis_drawing import AxisDrawing
from treeanova.plot.date_ticks import date_labels, date_ticks
from treeanova.plot.spread_ticks import short_number, spread_ticks
from treeanova.plot.text import (
    CHARACTER_WIDTH,
    bin_names,
    font_size,
    n_characters_along,
    number_labels,
    percent,
    plain,
    wrapped,
)
from treeanova.views import look

STRIP = 0.13  # height of the strip of data, relative to the axes
_STRIP_BARS = 48
_SMALLEST_FONT = 5.0
_LONGEST_LABEL = 28
_LABEL_SHARE = 0.36  # of the width of the axes
_TICK_STEPS = (1, 2, 2.5, 5, 10)


# Names.


def name_feature(ax: Any, drawing: AxisDrawing, which: str) -> None:
    """Write the feature along an axis, with the share of the data beyond its ends."""
    words = wrapped(drawing.name, n_characters_along(ax, which))
    notes = [drawing.scale.words]
    if drawing.beyond > 0 and drawing.is_numeric:
        notes.append(f"at most {percent(drawing.beyond)} of the data beyond")
    if any(notes):
        words += "\n" + wrapped(f"({'; '.join(filter(None, notes))})", n_characters_along(ax, which))
    getattr(ax, f"set_{which}label")(words)


def name_effect(ax: Any, words: str, which: str) -> None:
    """Write along an axis what its values mean; below bars to the right, since names to their left take room."""
    label = wrapped(words, n_characters_along(ax, which), n_lines=4)
    getattr(ax, f"set_{which}label")(label, **({"loc": "right"} if which == "x" else {}))
    if which == "x":
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=_TICK_STEPS))


# Limits and ticks.


def set_scale(ax: Any, drawing: AxisDrawing, which: str, masses: Floats | None = None) -> None:
    """Limits and ticks of a feature's axis; `masses` are written under the extra cells."""
    if not drawing.scale.is_linear:
        getattr(ax, f"set_{which}scale")("function", functions=(drawing.scale.forward, drawing.scale.inverse))
    pad = 0.0 if drawing.is_numeric else 0.1
    getattr(ax, f"set_{which}lim")(drawing.edges[0] - pad, drawing.edges[-1] + pad)
    if drawing.is_numeric:
        _set_numeric_ticks(ax, drawing, which, masses)
    else:
        _set_category_ticks(ax, drawing, which)


def _set_numeric_ticks(ax: Any, drawing: AxisDrawing, which: str, masses: Floats | None) -> None:
    if not len(drawing.extra) and drawing.scale.is_linear and not drawing.date_unit:
        axis = getattr(ax, f"{which}axis")
        axis.set_major_locator(MaxNLocator(nbins="auto", steps=_TICK_STEPS))
        return
    ticks = _ticks_before_extra(ax, drawing, which)
    shares = ["" if masses is None else f"\n{percent(masses[cell])}" for cell in drawing.extra]
    words = [f"{name}{share}" for name, share in zip(drawing.labels, shares, strict=True)]
    getattr(ax, f"set_{which}ticks")(
        [*ticks, *drawing.centres[drawing.extra]], labels=[*_labels(drawing, ticks), *map(plain, words)]
    )
    getattr(ax, f"{which}axis").set_minor_locator(NullLocator())


def _labels(drawing: AxisDrawing, ticks: list[float]) -> list[str]:
    if drawing.date_unit:
        return date_labels(ticks, drawing.date_unit)
    return number_labels(ticks) if drawing.scale.is_linear else [short_number(tick) for tick in ticks]


def _ticks_before_extra(ax: Any, drawing: AxisDrawing, which: str) -> list[float]:
    """Round numbers that leave room for the labels of extra cells."""
    extent = ax.get_window_extent()
    inches = (extent.width if which == "x" else 6 * extent.height) / ax.figure.dpi
    places = drawing.scale.forward(drawing.edges)
    last = places[-1]
    if len(drawing.extra):
        last = drawing.scale.forward(drawing.centres[drawing.extra[0]]) - 0.75 * (last - places[0]) / inches
    last, inch = min(last, places[drawing.n_regular]), (places[-1] - places[0]) / inches
    if drawing.date_unit:
        return date_ticks(drawing, last, inch)
    if not drawing.scale.is_linear:
        return spread_ticks(drawing, last, room=0.6 * inch)
    candidates = MaxNLocator(nbins=5, steps=_TICK_STEPS).tick_values(drawing.low, drawing.high)
    return [tick for tick in candidates if drawing.low <= tick <= min(last, drawing.high)]


def _set_category_ticks(ax: Any, drawing: AxisDrawing, which: str) -> None:
    shown = np.flatnonzero(drawing.filled)
    extent = ax.get_window_extent()
    points = (extent.height if which == "y" else extent.width) / ax.figure.dpi * 72
    size = font_size(mpl.rcParams[f"{which}tick.labelsize"])
    size = max(_SMALLEST_FONT, min(size, 0.8 * points / max(len(shown), 1)))
    shown = shown[:: max(1, math.ceil(1.15 * size * len(shown) / points))]
    longest = int(min(_LONGEST_LABEL, _LABEL_SHARE * extent.width / ax.figure.dpi * 72 / (CHARACTER_WIDTH * size)))
    n_characters = sum(min(len(drawing.labels[i]), longest) for i in shown)
    is_upright = which == "y" or n_characters * 0.6 * size < points
    options: dict[str, Any] = {} if is_upright else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    labels = bin_names([drawing.labels[i] for i in shown], longest)
    getattr(ax, f"set_{which}ticks")(drawing.centres[shown], labels=labels, fontsize=size, **options)
    ax.tick_params(axis=which, length=0)


def set_value_limits(ax: Any, which: str, low: float, high: float, *, strip: bool) -> None:
    """Limits of the axis of values: they contain zero, a margin, and room for the strip of data."""
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0
    below = (STRIP + 0.03) / (1 - STRIP - 0.03) * 1.1 if strip else 0.05
    getattr(ax, f"set_{which}lim")(low - below * span, high + 0.06 * span)


# The distribution of the data.


def draw_interval_strip(ax: Any, drawing: AxisDrawing, weights: Floats) -> None:
    """Draw how the weight is spread over a numeric axis along the foot of the plot."""
    points = drawing.evenly(_STRIP_BARS)
    heights = drawing.spread(weights, points)
    if not heights.max(initial=0.0) > 0:
        return
    foot = ax.get_xaxis_transform()
    _name_data(ax, 0.008, 0.01)
    ax.stairs(STRIP * heights / heights.max(), points, fill=True, transform=foot, **_strip_look())
    extra = drawing.extra
    if len(extra):
        widths = np.diff(drawing.edges)[extra]
        drawn = drawing.widths
        bar = drawn[: drawing.n_regular].sum() / _STRIP_BARS
        tall = STRIP * np.minimum(drawing.masses(weights)[extra] * bar / drawn[extra] / heights.max(), 1)
        ax.bar(drawing.centres[extra], tall, 0.7 * widths, transform=foot, **_strip_look())


def draw_category_strip(ax: Any, drawing: AxisDrawing, weights: Floats) -> None:
    """Draw the weight of each category along the left side of the plot."""
    masses = drawing.masses(weights)
    if not masses.max(initial=0.0) > 0:
        return
    _name_data(ax, 0.008, 1.0)
    shown = drawing.filled
    lengths = STRIP * masses[shown] / masses.max()
    ax.barh(drawing.centres[shown], lengths, 0.8, transform=ax.get_yaxis_transform(), **_strip_look())


def _strip_look() -> dict[str, Any]:
    return {"color": style.faint(look.DATA), "alpha": 0.6, "zorder": 0, "linewidth": 0, "label": "_data"}


def _name_data(ax: Any, x: float, y: float) -> None:
    """Name the grey area where there is room for it."""
    if ax.get_window_extent().width / ax.figure.dpi > 4:
        ink = mpl.rcParams["text.color"]
        ax.text(x, y, "data", transform=ax.transAxes, va="bottom", fontsize="x-small", color=ink, alpha=0.7, zorder=1)
