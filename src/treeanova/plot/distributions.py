"""Distributions of several sets of rows along the foot, or the left side, of a main effect."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.model.axes import Axis
from treeanova.plot.axis_drawing import AxisDrawing, Extras, draw_axis
from treeanova.plot.axis_scales import AxisScale
from treeanova.plot.ranges import Ends
from treeanova.plot.scales import STRIP

_BARS = 48


@dataclasses.dataclass(frozen=True, eq=False)
class Distribution:
    """How some rows are spread over the bins of an axis: their share in each bin."""

    name: str
    axis: Axis
    weights: Floats
    colour: Any


def draw_interval_distributions(
    ax: Any, distributions: Sequence[Distribution], *, limits: Ends | None, scale: AxisScale, extras: Extras
) -> list[Any]:
    """Draw areas along the foot of the plot, all on one scale; returns them for a legend."""
    drawings = [draw_axis(one.axis, one.weights, limits=limits, scale=scale, extras=extras) for one in distributions]
    points = drawings[0].evenly(_BARS)
    heights = [drawing.spread(one.weights, points) for one, drawing in zip(distributions, drawings, strict=True)]
    tallest = max(float(height.max(initial=0.0)) for height in heights) or 1.0
    foot, areas = ax.get_xaxis_transform(), []
    for i, (one, drawing) in enumerate(zip(distributions, drawings, strict=True)):
        look = _area_look(one.colour)
        areas.append(ax.stairs(STRIP * heights[i] / tallest, points, fill=True, transform=foot, **look))
        ax.stairs(STRIP * heights[i] / tallest, points, transform=foot, color=one.colour, linewidth=0.9, zorder=1)
        if len(drawing.extra):
            _draw_extra_bars(ax, drawing, one, tallest, place=i - (len(distributions) - 1) / 2)
    return areas


def _draw_extra_bars(ax: Any, drawing: AxisDrawing, one: Distribution, tallest: float, *, place: float) -> None:
    """Draw the shares of missing and unseen values as bars, `place` widths right of the middle."""
    extra = drawing.extra
    width = 0.4 * np.diff(drawing.edges)[extra]
    part = drawing.widths[: drawing.n_regular].sum() / _BARS
    tall = STRIP * np.minimum(drawing.masses(one.weights)[extra] * part / drawing.widths[extra] / tallest, 1)
    centres = drawing.centres[extra] + width * place
    ax.bar(centres, tall, width, transform=ax.get_xaxis_transform(), **_area_look(one.colour))


def draw_category_distributions(ax: Any, distributions: Sequence[Distribution], drawing: AxisDrawing) -> list[Any]:
    """Draw bars along the left side of the plot, side by side in each category; returns them for a legend."""
    masses = [drawing.masses(one.weights) for one in distributions]
    tallest = max(float(mass.max(initial=0.0)) for mass in masses) or 1.0
    shown, height = drawing.filled, 0.8 / len(distributions)
    side, areas = ax.get_yaxis_transform(), []
    for i, (one, mass) in enumerate(zip(distributions, masses, strict=True)):
        centres = drawing.centres[shown] + height * (i - (len(masses) - 1) / 2)
        look = _area_look(one.colour)
        areas.append(ax.barh(centres, STRIP * mass[shown] / tallest, 0.92 * height, transform=side, **look))
    return areas


def _area_look(colour: Any) -> dict[str, Any]:
    return {"color": colour, "alpha": 0.4, "zorder": 0, "linewidth": 0, "label": "_data"}
