"""Heat maps of pairs: colours where there are data, hatched grey where there are none."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Rectangle

from treeanova.core.arrays import Bools, Floats
from treeanova.decomposition.term import Term
from treeanova.plot import scales, style
from treeanova.plot.axis_drawing import AxisChoice, AxisDrawing, Extras
from treeanova.plot.ranges import Ends
from treeanova.plot.text import n_characters_along, signed, wrapped
from treeanova.views import look

# A cell counts as one without data if it has less than this share of the weight it would have under independence.
RARE = 0.01
_SLANTED_HEIGHT = 0.045  # inches of a character of a slanted label
_LONGEST_SLANTED = 28
_MOST_NUMBERS = 60  # cells with their value written in
_BORDERS_PER_CELL = 1.5  # more borders between cells with and without data: scattered


@dataclasses.dataclass(frozen=True, eq=False)
class Plane:
    """A pair to draw: values and weights over the cells of two axes, and the value of the strongest colour.

    `unsure` are cells whose sign is uncertain, where that is known.
    """

    up: AxisDrawing
    across: AxisDrawing
    values: Floats
    weights: Floats
    without_data: Bools
    limit: float = 0.0
    unsure: Bools | None = None

    @property
    def absolute_values(self) -> Floats:
        """Absolute values of the cells with data."""
        return np.abs(self.values[~self.without_data])

    @property
    def is_scattered(self) -> bool:
        """Whether cells with data lie among many without: more than three borders for every two of them."""
        seen = ~self.without_data
        n_borders = (seen[1:] ^ seen[:-1]).sum() + (seen[:, 1:] ^ seen[:, :-1]).sum()
        return bool(seen.size > _MOST_NUMBERS and n_borders > _BORDERS_PER_CELL * seen.sum())

    @property
    def exceeds_limit(self) -> bool:
        """Whether values of cells with data lie beyond the strongest colour."""
        return bool(self.absolute_values.max(initial=0.0) > self.limit * (1 + 1e-9))


def plane_of(
    term: Term,
    values: Floats,
    across: str,
    choices: Sequence[AxisChoice],
    extras: Extras,
    *,
    unsure: Bools | None = None,
) -> Plane:
    """The cells of a pair as they are drawn, without a limit of colours; `choices` are those of the x and y axis."""
    x = term.features.index(across)
    table, weights = (values.T, term.weights.T) if x == 0 else (values, term.weights)
    right = choices[0].draw(term.axes[x], weights.sum(axis=0), extras)
    up = choices[1].draw(term.axes[1 - x], weights.sum(axis=1), extras)
    return Plane(
        up,
        right,
        up.plane(table, right, np.nan),
        up.plane(weights, right, 0.0),
        up.plane(has_rare_data(weights).astype(np.float64), right, 1.0) > 0,
        unsure=None if unsure is None else up.plane(_turned(unsure, x).astype(np.float64), right, 0.0) > 0,
    )


def _turned(cells: Bools, x: int) -> Bools:
    """Cells with the feature across last."""
    return cells.T if x == 0 else cells


def has_rare_data(weights: Floats) -> Bools:
    """Cells of a table of two features that hold next to no data."""
    rare: Bools = weights <= RARE * np.multiply.outer(weights.sum(axis=1), weights.sum(axis=0))
    return rare


def colour_limit(planes: Sequence[Plane]) -> float:
    """The value of the strongest colour: the largest with data, or less where few cells reach far beyond the others.

    Few cells: at most 2 % of the weight and 3 % of the area. Far: twice as far.
    """
    values = np.concatenate([plane.absolute_values for plane in planes])
    if not values.max(initial=0.0) > 0:
        return 1.0
    weights = np.concatenate([plane.weights[~plane.without_data] for plane in planes])
    areas = np.concatenate([_areas(plane)[~plane.without_data] for plane in planes])
    typical = max(_quantile(values, weights, 0.98), _quantile(values, areas, 0.97))
    return float(typical if values.max() > 2 * typical > 0 else values.max())


def _areas(plane: Plane) -> Floats:
    """Area of each cell, relative to that of all."""
    areas: Floats = np.multiply.outer(plane.up.widths, plane.across.widths)
    return areas / float(areas.sum())


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(below, share * below[-1])), len(values) - 1)])


def figure_size(plane: Plane, *, marginals: bool) -> tuple[float, float]:
    """Width and height of a new figure in inches."""
    width, height = (
        5.2 if drawing.is_numeric else min(max(4.0, 1.5 + 0.3 * len(drawing.cells)), 14)
        for drawing in (plane.across, plane.up)
    )
    longest = 0 if plane.across.is_numeric else min(max(map(len, plane.across.labels), default=0), _LONGEST_SLANTED)
    return width + 1.2 + 1.0 * marginals, height * 0.82 + 0.8 * marginals + _SLANTED_HEIGHT * longest


# Drawing.


def draw_plane(plane: Plane, ax: Any) -> Any:
    """The mesh of a heat map, with hatched grey where there are no data, ticks and names."""
    for low_x, high_x in _blocks(plane.across):
        for low_y, high_y in _blocks(plane.up):
            _draw_block(ax, (low_x, low_y), high_x - low_x, high_y - low_y)
    mesh = ax.pcolormesh(
        plane.across.edges,
        plane.up.edges,
        np.ma.masked_where(plane.without_data | np.isnan(plane.values), plane.values),
        cmap=style.DIVERGING,
        norm=Normalize(-plane.limit, plane.limit),
        rasterized=plane.values.size > 2000,
        zorder=2,
    )
    if plane.is_scattered:
        _draw_pale(plane, mesh, ax)
    if plane.unsure is not None:
        _draw_unsure(plane, plane.unsure, ax)
    for drawing, which in ((plane.across, "x"), (plane.up, "y")):
        scales.set_scale(ax, drawing, which)
        scales.name_feature(ax, drawing, which)
    _write_numbers(plane, ax)
    if not plane.up.is_numeric:
        ax.invert_yaxis()
    style.tidy(ax)
    return mesh


def _draw_pale(plane: Plane, mesh: Any, ax: Any) -> None:
    """Fill cells without data with pale colours: what the model says between those that have some."""
    hidden = np.ma.masked_where(~plane.without_data | np.isnan(plane.values), plane.values)
    options = {"cmap": mesh.cmap, "norm": mesh.norm, "rasterized": True, "alpha": 0.45, "zorder": 1.5}
    ax.pcolormesh(plane.across.edges, plane.up.edges, hidden, linewidth=0, antialiased=False, **options)


def _draw_unsure(plane: Plane, unsure: Bools, ax: Any) -> None:
    """Cover cells whose sign is uncertain with a veil in the colour of the background."""
    veil = np.ma.masked_where(~unsure | plane.without_data, np.ones(unsure.shape))
    colours = ListedColormap([mpl.rcParams["axes.facecolor"]])
    options = {"cmap": colours, "alpha": 0.72, "rasterized": plane.values.size > 2000, "zorder": 2.5}
    ax.pcolormesh(plane.across.edges, plane.up.edges, veil, linewidth=0, antialiased=False, label="_unsure", **options)


def _blocks(drawing: AxisDrawing) -> list[Ends]:
    """Ends of what is drawn: the numbers or categories, then the extra cells."""
    regular = [(drawing.low, drawing.high)]
    if not len(drawing.extra):
        return regular
    return [*regular, (float(drawing.edges[drawing.n_regular + 1]), float(drawing.edges[-1]))]


def _draw_block(ax: Any, corner: tuple[float, float], width: float, height: float) -> None:
    """Draw hatched grey behind the cells, and a thin frame around them."""
    lines = style.mix(look.NO_DATA, look.RAW, 0.5)
    back: dict[str, Any] = {"facecolor": style.faint(look.NO_DATA), "edgecolor": lines, "hatch": "////", "linewidth": 0}
    ax.add_patch(Rectangle(corner, width, height, zorder=1, **back))
    edge = mpl.rcParams["axes.edgecolor"]
    ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=edge, linewidth=0.5, alpha=0.6, zorder=4))


def _write_numbers(plane: Plane, ax: Any) -> None:
    """Write the value into each cell that has data, where there are few categories; say so where all are zero."""
    if not plane.absolute_values.max(initial=0.0) > 0:
        ax.text(0.5, 0.5, "zero everywhere", transform=ax.transAxes, ha="center", va="center", color="black", zorder=5)
    elif not (plane.across.is_numeric or plane.up.is_numeric) and plane.values.size <= _MOST_NUMBERS:
        digits = max(0, 1 - math.floor(math.log10(plane.limit)))
        for i, j in np.argwhere(~plane.without_data):
            value = float(plane.values[i, j])
            colour = "white" if abs(value) > 0.6 * plane.limit else "black"  # legible on the cell, whatever the style
            words = signed(round(value, digits) + 0.0, f".{digits}f")
            spot = plane.across.centres[j], plane.up.centres[i]
            ax.text(*spot, words, ha="center", va="center", fontsize="small", color=colour, zorder=3)


def draw_colorbar(mesh: Any, planes: Sequence[Plane], words: str, axes: Sequence[Any], *, pad: float = 0.02) -> Any:
    """A colour bar right of the axes, with its range written out; pointed ends where values go beyond."""
    extend = "both" if any(plane.exceeds_limit for plane in planes) else "neither"
    room = axes[0] if len(axes) == 1 else list(axes)  # beside one subplot, tight_layout() knows of the bar
    bar = axes[-1].figure.colorbar(mesh, ax=room, extend=extend, fraction=0.06, aspect=24, pad=pad)
    limit = planes[0].limit
    bar.set_ticks([-limit, 0, limit], labels=[signed(end, ".3g") for end in (-limit, 0.0, limit)])
    bar.set_ticks([-limit / 2, limit / 2], minor=True)
    bar.outline.set_visible(False)
    if words:
        if axes[-1].figure.get_layout_engine() is not None:
            axes[-1].figure.draw_without_rendering()  # labels of categories leave less height
        bar.set_label(wrapped(words, n_characters_along(axes[-1], "y"), n_lines=4))
    return bar
