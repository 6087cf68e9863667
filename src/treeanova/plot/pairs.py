"""pair(): one interaction of two features as a heat map, or as a line per category."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import ListedColormap, Normalize
from matplotlib.patches import Rectangle

from treeanova import views
from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term, on_scale
from treeanova.model.axes import Axis
from treeanova.plot import scales, style
from treeanova.plot.axes import AxisChoice, AxisDrawing, Ends, Extras, draw_axis, scale_and_ends
from treeanova.plot.choices import (
    Errors,
    KeyLike,
    check_order,
    checked_decomposition,
    data_ends,
    find_term,
    of_output,
    output_position,
    term_of,
    uncertain_cells,
    value_words,
)
from treeanova.plot.style import font_size, n_characters_along, shortened, signed, wrapped

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
    lines = style.mix(views.NO_DATA, views.RAW, 0.5)
    back: dict[str, Any] = {
        "facecolor": style.faint(views.NO_DATA),
        "edgecolor": lines,
        "hatch": "////",
        "linewidth": 0,
    }
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
    if len(categories) <= len(views.SERIES):
        return [int(category) for category in categories]
    kept = set(sorted(categories, key=lambda category: -masses[category])[: len(views.SERIES) - 1])
    return [int(category) for category in categories if category in kept]


def _draw_line(ax: Any, drawing: AxisDrawing, line: _Line) -> Any:
    """Draw the steps of one category; dotted where it has no data, thin where its sign is uncertain."""
    is_grey = line.colour_position is None
    colour = style.tone(views.RAW) if line.colour_position is None else style.series_colour(line.colour_position)
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
    colour = style.tone(views.MAIN)
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


KINDS = ("auto", "heatmap", "lines")


@dataclasses.dataclass(frozen=True)
class PairOptions:
    """How a pair is drawn; see `pair`. Values are named along their scale unless `words` is empty."""

    kind: str = "auto"
    marginals: bool = False
    limit: float | None = None
    xlimits: Ends | None = None
    ylimits: Ends | None = None
    extras: bool | None = None
    colorbar: bool = True
    words: str = ""
    scale: str = "score"
    x_scale: str = "linear"
    y_scale: str = "linear"
    order: str = "auto"
    errors: Errors | None = None


def pair(
    fx: Decomposition,
    key: KeyLike,
    *,
    output: str | int | None = None,
    scale: str = "score",
    errors: Errors | None = None,
    kind: str = "auto",
    marginals: bool = False,
    limit: float | None = None,
    xlimits: tuple[float, float] | None = None,
    ylimits: tuple[float, float] | None = None,
    x_scale: str = "linear",
    y_scale: str = "linear",
    extras: bool | None = None,
    order: str = "auto",
    colorbar: bool = True,
    ax: Any = None,
) -> Any:
    """Axes with one interaction: a heat map on the term's own bins, or lines where one feature is a category.

    White is zero. Cells with next to no data are hatched grey, and lines are dotted there.

    Parameters
    ----------
    fx
        The decomposition.
    key
        Names of two features; the one named first goes across.
    output
        Name or position of a class or target; by default the first.
    scale
        "score", "response" or "probability", as in `effect`: on the last two, what the interaction alone changes, the
        main effects of its features being zero like all other terms.
    errors
        A `Bag`, its ``standard_errors()``, or those of ``fx.standard_errors()``, which are due to the density alone.
        Cells within two standard errors of zero, whose sign is uncertain, are then pale, and lines are thin there.
    kind
        "heatmap"; "lines", one per category over a numeric feature; or "auto", which draws lines for a category and a
        numeric feature, else a heat map.
    marginals
        Whether to draw the main effects along the sides of a heat map.
    limit
        Value of the strongest colour. By default the largest value where there are data, or less where a few cells
        reach far beyond all others: the colour bar then has pointed ends.
    xlimits, ylimits
        Ends of the axes of numeric features, as `limits` of `effect`. Lines use `xlimits` only.
    x_scale, y_scale
        How numbers are spread along the axes: "linear", "log" or "quantile", as in `effect`. Lines use `x_scale` only.
    extras
        Whether missing and unseen values are shown, apart from the others; by default where the data have some.
    order
        Order of categories: "auto" (by number where labels begin with one, else as given), "given", "name" or "weight".
    colorbar
        Whether to draw the colour bar.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the decomposition has no table of the two features.

    Notes
    -----
    A cell has next to no data where its weight is less than a hundredth of what it would be if the features were
    independent. Where cells with data lie scattered among such cells, the latter are filled with pale colours.

    Examples
    --------
    The interaction is 0.25 where the features are equal and -0.25 where they differ:

    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.pair(fx, ("x0", "x1"))
    >>> ax.collections[0].get_array().tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    position = output_position(checked_decomposition(fx), output)
    words = value_words(fx, position, scale)
    words += "" if errors is None else "; pale: within two standard errors of zero"
    looks = {"scale": scale, "x_scale": x_scale, "y_scale": y_scale, "order": order, "errors": errors}
    options = PairOptions(kind, marginals, limit, xlimits, ylimits, extras, colorbar, words, **looks)  # type: ignore[arg-type]
    return draw_pair(fx, key, position, options, ax)


def draw_pair(fx: Decomposition, key: KeyLike, position: int, options: PairOptions, ax: Any) -> Any:
    """Axes with one interaction of one output."""
    check_order(key, 2, "use effect() for one feature; terms of more features have no plot, see fx.importance()")
    term = term_of(fx, key, options.scale)
    if is_drawn_as_lines(term, options.kind):
        number = next(name for name, axis in zip(term.features, term.axes, strict=True) if axis.is_ordered)
        choice, _ = axis_choices(options, [(fx, term)], number)
        values = of_output(fx, term.values, position)
        unsure = _uncertain(fx, key, position, options)
        return draw_lines(term, values, ax, choice=choice, extras=options.extras, words=options.words, unsure=unsure)
    return _draw_heatmap(fx, key, position, options, ax)


def _draw_heatmap(fx: Decomposition, key: KeyLike, position: int, options: PairOptions, ax: Any) -> Any:
    term = term_of(fx, key, options.scale)
    across = name_across(key, term)
    values = of_output(fx, term.values, position)
    unsure = _uncertain(fx, key, position, options)
    plane = plane_of(term, values, across, axis_choices(options, [(fx, term)], across), options.extras, unsure=unsure)
    plane = dataclasses.replace(plane, limit=_checked_limit(options.limit) or colour_limit([plane]))
    ax = style.checked_axes(ax, *figure_size(plane, marginals=options.marginals))
    mesh = draw_plane(plane, ax)
    if options.marginals:
        draw_marginals(fx, plane, position, options.scale, ax)
    if options.colorbar:
        draw_colorbar(mesh, [plane], options.words, [ax], pad=0.04 if options.marginals else 0.02)
    return ax


def _uncertain(fx: Decomposition, key: KeyLike, position: int, options: PairOptions) -> Bools | None:
    """Cells whose sign is uncertain, in one output; None where no errors are given."""
    unsure = uncertain_cells(options.errors, term_of(fx, key))
    return None if unsure is None else unsure if len(fx.outputs) == 1 else unsure[..., position]


def _checked_limit(limit: float | None) -> float | None:
    if limit is not None and not (np.isfinite(limit) and limit > 0):
        raise ValueError(f"`limit` must be a number above zero, got {limit!r}; leave it out for the largest value.")
    return limit


def is_drawn_as_lines(term: Term, kind: str) -> bool:
    """Whether a pair is drawn as lines: one feature is a category, one is numeric, and no heat map was asked for."""
    is_mixed = len({axis.is_ordered for axis in term.axes}) == 2
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(map(repr, KINDS))}, got {kind!r}; leave it out for 'auto'.")
    if kind == "lines" and not is_mixed:
        raise ValueError("`kind` must be 'heatmap' for two features of one kind, got 'lines'; leave it out.")
    return is_mixed and kind != "heatmap"


def name_across(key: KeyLike, term: Term) -> str:
    """The feature that goes across: the first one named, where the names have an order."""
    return str(next(iter(key))) if isinstance(key, list | tuple) else term.features[0]


def axis_choices(
    options: PairOptions, parts: Sequence[tuple[Decomposition, Term]], across: str
) -> tuple[AxisChoice, AxisChoice]:
    """How the x and y axis are drawn: with ends that contain the ranges of all terms, where none are given."""
    given = {"x": (options.xlimits, options.x_scale), "y": (options.ylimits, options.y_scale)}
    choices = {}
    for i, name in enumerate(parts[0][1].features):
        which = "x" if name == across else "y"
        limits, kind = given[which]
        entries = [(term.axes[i], term.weights.sum(axis=1 - i), data_ends(fx, name)) for fx, term in parts]
        scale, ends = scale_and_ends(kind, entries, limits, f"{which}_scale")
        choices[which] = AxisChoice(ends, scale, options.order)
    return choices["x"], choices["y"]
