"""Pairs of a category and a numeric feature: one line per category."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.decomposition.term import Term
from treeanova.model.axes import Axis
from treeanova.plot import scales, style
from treeanova.plot.axis_drawing import AxisChoice, AxisDrawing, Extras, draw_axis
from treeanova.plot.heatmaps import has_rare_data
from treeanova.plot.text import font_size, shortened
from treeanova.views import look


@dataclasses.dataclass(frozen=True, eq=False)
class _Line:
    """The steps of one category: all of them, those with data, and its position among coloured lines (None: grey).

    `sure` are those with data whose sign is certain.
    """

    category: int
    values: Floats
    seen: Floats
    sure: Floats
    colour_position: int | None


def draw_lines(
    term: Term,
    values: Floats,
    ax: Any,
    *,
    choice: AxisChoice,
    extras: Extras,
    words: str,
    unsure: Bools | None = None,
) -> Any:
    """Axes with a line per category over the numeric feature: those with most data in colour, others thin and grey."""
    ax = style.checked_axes(ax, 7.2, 4.2)
    is_number_first = term.axes[0].is_ordered
    table, weights = (values, term.weights) if is_number_first else (values.T, term.weights.T)
    number, category = term.axes if is_number_first else term.axes[::-1]
    masses = weights.sum(axis=1)
    across = choice.draw(number, masses, extras)
    categories = draw_axis(category, weights.sum(axis=0), extras=extras, order=choice.order)
    doubts = np.zeros(table.shape, dtype=bool) if unsure is None else unsure if is_number_first else unsure.T
    lines = _lines(across, categories.cells[categories.filled], table, weights, doubts)
    style.zero_line(ax, "y")
    handles = [_draw_line(ax, across, line) for line in lines]
    scales.draw_interval_strip(ax, across, masses)
    scales.set_scale(ax, across, "x", across.masses(masses))
    spans = [line.seen if np.isfinite(line.seen).any() else line.values for line in lines]
    scales.set_value_limits(ax, "y", float(np.nanmin(spans)), float(np.nanmax(spans)), strip=True)
    scales.name_feature(ax, across, "x")
    scales.name_effect(ax, words, "y")
    style.tidy(ax)
    _name_lines(ax, category, lines, handles, is_outside=bool(words))
    return ax


def _lines(across: AxisDrawing, categories: Ints, table: Floats, weights: Floats, unsure: Bools) -> list[_Line]:
    coloured = _coloured(categories, weights.sum(axis=0))
    rare = has_rare_data(weights)
    lines = []
    for category in map(int, categories):
        values = across.values(table[:, category], weights[:, category])
        is_rare = across.values(rare[:, category].astype(np.float64), weights[:, category]) > 0
        is_unsure = across.values(unsure[:, category].astype(np.float64), weights[:, category]) > 0
        position = coloured.index(category) if category in coloured else None
        seen = np.where(is_rare, np.nan, values)
        lines.append(_Line(category, values, seen, np.where(is_unsure, np.nan, seen), position))
    return lines


def _coloured(categories: Ints, masses: Floats) -> list[int]:
    """The categories that have a colour, in the order in which they are drawn: all, or those with most data."""
    if len(categories) <= len(look.SERIES):
        return [int(category) for category in categories]
    kept = set(sorted(categories, key=lambda category: -masses[category])[: len(look.SERIES) - 1])
    return [int(category) for category in categories if category in kept]


def _draw_line(ax: Any, drawing: AxisDrawing, line: _Line) -> Any:
    """Draw the steps of one category; dotted where it has no data, thin where its sign is uncertain."""
    is_grey = line.colour_position is None
    colour = style.tone(look.RAW) if line.colour_position is None else style.series_colour(line.colour_position)
    if np.isnan(line.seen[drawing.filled]).any():
        dotted = {"linestyle": ":", "linewidth": 0.8, "alpha": 0.6, "label": "_rare"}
        ax.stairs(line.values, drawing.edges, baseline=None, color=colour, **dotted)
    strength = {"zorder": 2, "linewidth": 0.7} if is_grey else {"zorder": 3, "linewidth": 1.8}
    if np.isnan(line.sure[~np.isnan(line.seen)]).any():
        ax.stairs(line.seen, drawing.edges, baseline=None, color=colour, linewidth=0.8, alpha=0.6, label="_unsure")
    return ax.stairs(line.sure, drawing.edges, baseline=None, color=colour, **strength)


def _name_lines(ax: Any, category: Axis, lines: Sequence[_Line], handles: Sequence[Any], *, is_outside: bool) -> None:
    """Name the coloured lines, and the number of grey ones, in a legend."""
    pairs = list(zip(handles, lines, strict=True))
    shown = [(handle, category.labels[line.category]) for handle, line in pairs if line.colour_position is not None]
    others = [handle for handle, line in pairs if line.colour_position is None]
    if others:
        shown.append((others[0], f"{len(others)} others"))
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if is_outside else {"loc": "best"}
    box = style.legend(ax, *zip(*shown, strict=True), title=shortened(category.name, 32), **place)
    box.get_title().set(fontsize=font_size(mpl.rcParams["legend.fontsize"]) * 0.9)
