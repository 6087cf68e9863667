"""Main effects along the sides of a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.responses import on_scale
from treeanova.plot import style
from treeanova.plot.axis_drawing import AxisDrawing, draw_axis
from treeanova.plot.choices import find_term, of_output
from treeanova.plot.heatmaps import Plane
from treeanova.views import look

_SIZE = 0.2  # relative to the heat map


def draw_marginals(fx: Decomposition, plane: Plane, position: int, scale: str, ax: Any) -> None:
    """Draw the main effects of a pair's features above and right of its heat map."""
    top = ax.inset_axes([0.0, 1.04, 1.0, _SIZE], sharex=ax)
    side = ax.inset_axes([1.04, 0.0, _SIZE, 1.0], sharey=ax)
    for drawing, inset, orientation in ((plane.across, top, "vertical"), (plane.up, side, "horizontal")):
        _draw_marginal(inset, orientation, *_main_effect(fx, drawing, position, scale))
    top.tick_params(axis="x", labelbottom=False, length=0)
    side.tick_params(axis="y", labelleft=False, length=0)


def _draw_marginal(inset: Any, orientation: str, edges: Floats, values: Floats) -> None:
    value_axis = "y" if orientation == "vertical" else "x"
    colour = style.tone(look.MAIN)
    inset.stairs(values, edges, baseline=0, fill=True, orientation=orientation, color=colour, alpha=0.25)
    inset.stairs(values, edges, baseline=None, orientation=orientation, color=colour, linewidth=1.3)
    style.zero_line(inset, value_axis)
    style.tidy(inset)
    inset.tick_params(labelsize="x-small")
    inset.locator_params(axis=value_axis, nbins=3)


def _main_effect(fx: Decomposition, drawing: AxisDrawing, position: int, scale: str) -> tuple[Floats, Floats]:
    """Edges and values of a main effect on the range of a heat map's axis; zero where there is no such effect."""
    term = find_term(fx, drawing.name)
    if term is None:
        return drawing.edges, np.where(drawing.filled, 0.0, np.nan)
    if drawing.is_numeric:  # its thresholds may be finer than the pair's
        limits, extras = (drawing.low, drawing.high), frozenset(drawing.labels)
        drawing = draw_axis(term.axes[0], term.weights, limits=limits, scale=drawing.scale, extras=extras)
    term = on_scale(term, fx.intercept, scale)
    return drawing.edges, drawing.values(of_output(fx, term.values, position), term.weights)
