"""pair(): one interaction as a heat map, or as a line per category."""

from __future__ import annotations

import dataclasses
import itertools
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
from treeanova.decomposition.predictions import Term, on_scale
from treeanova.model.axes import Axis
from treeanova.plot import choices, scales, style
from treeanova.plot.axes import AxisDrawing, Ends, Extras, draw_axis, scale_and_ends
from treeanova.plot.choices import Errors, KeyLike
from treeanova.plot.scales import Distribution
from treeanova.plot.style import documented, font_size, n_characters_along, shortened, signed, wrapped

KINDS = ("auto", "heatmap", "lines")
# A cell counts as empty if it has less than this share of the weight that it would have under independence.
RARE = 0.01
_MARGINAL_SIZE = 0.2  # relative to the heat map
_SLANTED_HEIGHT = 0.045  # inches of a character of a slanted label
_LONGEST_SLANTED = 28
_MOST_NUMBERS = 60  # cells with their value written in
_BORDERS_PER_CELL = 1.5  # more borders between cells with and without data: scattered


AxisChoice = dict[str, Any]  # how one axis is drawn: limits, scale and order


@dataclasses.dataclass(frozen=True, eq=False)
class Plane:
    """A pair to draw: arrays over cells (up, across), the value of the strongest colour, cells of uncertain sign."""

    up: AxisDrawing
    across: AxisDrawing
    values: Floats
    weights: Floats
    without_data: Bools
    limit: float = 0.0
    unsure: Bools | None = None

    @property
    def absolute_values(self) -> Floats:
        """Absolute values of the cells with data, flat."""
        return np.abs(self.values[~self.without_data])

    @property
    def areas(self) -> Floats:
        """Area of each cell, relative to that of all."""
        areas: Floats = np.multiply.outer(self.up.widths, self.across.widths)
        return areas / float(areas.sum())

    @property
    def is_scattered(self) -> bool:
        """Whether cells with data lie among many without."""
        seen = ~self.without_data
        n_borders = (seen[1:] ^ seen[:-1]).sum() + (seen[:, 1:] ^ seen[:, :-1]).sum()
        return bool(seen.size > _MOST_NUMBERS and n_borders > _BORDERS_PER_CELL * seen.sum())


def plane_of(
    term: Term, values: Floats, across: str, axes: Sequence[AxisChoice], extras: Extras, *, unsure: Bools | None = None
) -> Plane:
    """Return the cells of a pair as drawn, without a colour limit; `across` is the feature of x, `axes` are x and y."""
    across_axis = term.features.index(across)
    table, weights = (values.T, term.weights.T) if across_axis == 0 else (values, term.weights)
    right = draw_axis(term.axes[across_axis], weights.sum(axis=0), extras=extras, **axes[0])
    up = draw_axis(term.axes[1 - across_axis], weights.sum(axis=1), extras=extras, **axes[1])
    is_unsure = None if unsure is None else (unsure.T if across_axis == 0 else unsure).astype(np.float64)
    return Plane(
        up,
        right,
        up.plane(table, right, np.nan),
        up.plane(weights, right, 0.0),
        up.plane(has_rare_data(weights).astype(np.float64), right, 1.0) > 0,
        unsure=None if is_unsure is None else up.plane(is_unsure, right, 0.0) > 0,
    )


def has_rare_data(weights: Floats) -> Bools:
    """Return which cells have less than 1 % of the weight that they would have if the features were independent."""
    return weights <= RARE * np.multiply.outer(weights.sum(axis=1), weights.sum(axis=0))


def colour_limit(planes: Sequence[Plane]) -> float:
    """Return the largest value with data, or less if few cells (2 % of weight, 3 % of area) reach twice as far."""
    values = np.concatenate([plane.absolute_values for plane in planes])
    if not values.max(initial=0.0) > 0:
        return 1.0
    weights = np.concatenate([plane.weights[~plane.without_data] for plane in planes])
    areas = np.concatenate([plane.areas[~plane.without_data] for plane in planes])
    typical = max(_weighted_quantile(values, weights, 0.98), _weighted_quantile(values, areas, 0.97))
    return float(typical if values.max() > 2 * typical > 0 else values.max())


def _weighted_quantile(values: Floats, weights: Floats, share: float) -> float:
    """Return the smallest value with at least a share of the weights at or below it."""
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(below, share * below[-1])), len(values) - 1)])


def figure_size(plane: Plane, *, marginals: bool) -> tuple[float, float]:
    """Return width and height in inches, with room for categories, their slanted labels and marginals."""
    width, height = (
        5.2 if drawing.is_numeric else min(max(4.0, 1.5 + 0.3 * len(drawing.cells)), 14)
        for drawing in (plane.across, plane.up)
    )
    longest = 0 if plane.across.is_numeric else min(max(map(len, plane.across.labels), default=0), _LONGEST_SLANTED)
    return width + 1.2 + 1.0 * marginals, height * 0.82 + 0.8 * marginals + _SLANTED_HEIGHT * longest


def draw_plane(plane: Plane, ax: Any) -> Any:
    """Draw a heat map, with hatching where there are no data; return the mesh of coloured cells, for a colour bar."""
    for (low_x, high_x), (low_y, high_y) in itertools.product(_ends_of_blocks(plane.across), _ends_of_blocks(plane.up)):
        _draw_hatched_block(ax, (low_x, low_y), high_x - low_x, high_y - low_y)
    mesh = ax.pcolormesh(
        plane.across.edges,
        plane.up.edges,
        np.ma.masked_where(plane.without_data | np.isnan(plane.values), plane.values),
        cmap=style.DIVERGING,
        norm=Normalize(-plane.limit, plane.limit),
        rasterized=plane.values.size > 2000,
        zorder=2,
    )
    _draw_pale_cells(plane, mesh, ax)
    for drawing, x_or_y in ((plane.across, "x"), (plane.up, "y")):
        scales.set_scale(ax, drawing, x_or_y)
        scales.name_feature(ax, drawing, x_or_y)
    _write_numbers(plane, ax)
    if not plane.up.is_numeric:
        ax.invert_yaxis()
    style.tidy(ax)
    return mesh


def _draw_pale_cells(plane: Plane, mesh: Any, ax: Any) -> None:
    """Draw cells without data pale if they are scattered, and a veil over those of uncertain sign."""
    look = {"linewidth": 0, "antialiased": False, "rasterized": plane.values.size > 2000}
    edges = plane.across.edges, plane.up.edges
    if plane.is_scattered:
        hidden = np.ma.masked_where(~plane.without_data | np.isnan(plane.values), plane.values)
        ax.pcolormesh(*edges, hidden, cmap=mesh.cmap, norm=mesh.norm, alpha=0.45, zorder=1.5, **look)
    if plane.unsure is not None:
        veil = np.ma.masked_where(~plane.unsure | plane.without_data, np.ones(plane.unsure.shape))
        back = ListedColormap([mpl.rcParams["axes.facecolor"]])
        ax.pcolormesh(*edges, veil, cmap=back, alpha=0.72, zorder=2.5, label="_unsure", **look)


def _ends_of_blocks(drawing: AxisDrawing) -> list[Ends]:
    """Return the ends of the regular cells, and those of the extra cells if there are any."""
    has_extra = len(drawing.extra_cells) > 0
    extra = [(float(drawing.edges[drawing.n_regular + 1]), float(drawing.edges[-1]))] if has_extra else []
    return [(drawing.low, drawing.high), *extra]


def _draw_hatched_block(ax: Any, corner: tuple[float, float], width: float, height: float) -> None:
    """Draw a hatched rectangle with a frame behind cells; it shows where there are no data."""
    hatch: dict[str, Any] = {"edgecolor": style.mix(views.NO_DATA, views.RAW, 0.5), "hatch": "////", "linewidth": 0}
    ax.add_patch(Rectangle(corner, width, height, zorder=1, facecolor=style.faint(views.NO_DATA), **hatch))
    edge = mpl.rcParams["axes.edgecolor"]
    ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=edge, linewidth=0.5, alpha=0.6, zorder=4))


def _write_numbers(plane: Plane, ax: Any) -> None:
    """Write the value into each cell with data, if there are few categories; say so if all are zero."""
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


def draw_colorbar(
    mesh: Any, planes: Sequence[Plane], words: str, axes: Sequence[Any], *, pad: float = 0.02, in_percent: bool = False
) -> None:
    """Draw the scale of colours of a mesh next to axes, with `words` along it; arrows if values exceed the limit."""
    limit = planes[0].limit
    largest = max(plane.absolute_values.max(initial=0.0) for plane in planes)
    extend = "both" if largest > limit * (1 + 1e-9) else "neither"
    room = axes[0] if len(axes) == 1 else list(axes)  # beside one subplot, tight_layout() knows of the bar
    bar = axes[-1].figure.colorbar(mesh, ax=room, extend=extend, fraction=0.06, aspect=24, pad=pad)
    ticks = [-limit, -limit / 2, 0.0, limit / 2, limit]
    factor, unit = (100, " %") if in_percent else (1, "")
    bar.set_ticks(ticks, labels=[f"{signed(factor * tick, '.3g')}{unit}" for tick in ticks])
    bar.outline.set_visible(False)
    if words:
        if axes[-1].figure.get_layout_engine() is not None:
            axes[-1].figure.draw_without_rendering()  # labels of categories leave less height
        bar.set_label(wrapped(words, n_characters_along(axes[-1], "y"), n_lines=4))


@dataclasses.dataclass(frozen=True, eq=False)
class _Line:
    """The steps of one category; NaN in `seen` without data, in `sure` if the sign is uncertain. No position: grey."""

    category: int
    values: Floats
    seen: Floats
    sure: Floats
    colour_position: int | None


def draw_lines(
    term: Term, values: Floats, ax: Any, *, choice: AxisChoice, extras: Extras, words: str, unsure: Bools | None
) -> Any:
    """Draw a line per category over the numeric feature: those with most data in colour, others thin and grey."""
    ax = style.checked_axes(ax, 7.2, 4.2)
    is_number_first = term.axes[0].is_ordered
    table, weights = (values, term.weights) if is_number_first else (values.T, term.weights.T)
    number, category = term.axes if is_number_first else term.axes[::-1]
    masses = weights.sum(axis=1)
    across = draw_axis(number, masses, extras=extras, **choice)
    categories = draw_axis(category, weights.sum(axis=0), extras=extras, order=choice["order"])
    is_unsure = np.zeros(table.shape, dtype=bool) if unsure is None else unsure if is_number_first else unsure.T
    lines = _lines_of(across, categories.cells[categories.is_filled], table, weights, is_unsure)
    style.zero_line(ax, "y")
    handles = [_draw_line(ax, across, line) for line in lines]
    spread, ends = [Distribution("", number, masses)], (across.low, across.high)
    scales.draw_interval_distributions(ax, spread, limits=ends, scale=across.scale, extras=extras)
    scales.set_scale(ax, across, "x", across.masses(masses))
    spans = [line.seen if np.isfinite(line.seen).any() else line.values for line in lines]
    scales.set_value_limits(ax, "y", float(np.nanmin(spans)), float(np.nanmax(spans)), has_strip=True)
    scales.name_feature(ax, across, "x")
    scales.name_effect(ax, words, "y")
    style.tidy(ax)
    _name_lines(ax, category, lines, handles, is_outside=bool(words))
    return ax


def _lines_of(across: AxisDrawing, categories: Ints, table: Floats, weights: Floats, unsure: Bools) -> list[_Line]:
    """Return a line per category (its bin); tables are (bins of the numeric feature, categories)."""
    masses, n_colours = weights.sum(axis=0), len(views.SERIES)
    heaviest = set(sorted(categories, key=lambda category: -masses[category])[: n_colours - 1])
    in_colour = [int(one) for one in categories if len(categories) <= n_colours or one in heaviest]
    rare = has_rare_data(weights)
    lines = []
    for category in map(int, categories):
        values = across.values(table[:, category], weights[:, category])
        is_rare = across.values(rare[:, category].astype(np.float64), weights[:, category]) > 0
        is_unsure = across.values(unsure[:, category].astype(np.float64), weights[:, category]) > 0
        position = in_colour.index(category) if category in in_colour else None
        seen = np.where(is_rare, np.nan, values)
        lines.append(_Line(category, values, seen, np.where(is_unsure, np.nan, seen), position))
    return lines


def _draw_line(ax: Any, drawing: AxisDrawing, line: _Line) -> Any:
    """Draw a line: dotted without data, thin and pale if the sign is uncertain; return its artist for the legend."""
    is_grey = line.colour_position is None
    colour = style.tone(views.RAW) if line.colour_position is None else style.series_colour(line.colour_position)
    if np.isnan(line.seen[drawing.is_filled]).any():
        dotted = {"linestyle": ":", "linewidth": 0.8, "alpha": 0.6, "label": "_rare"}
        ax.stairs(line.values, drawing.edges, baseline=None, color=colour, **dotted)
    strength = {"zorder": 2, "linewidth": 0.7} if is_grey else {"zorder": 3, "linewidth": 1.8}
    if np.isnan(line.sure[~np.isnan(line.seen)]).any():
        ax.stairs(line.seen, drawing.edges, baseline=None, color=colour, linewidth=0.8, alpha=0.6, label="_unsure")
    return ax.stairs(line.sure, drawing.edges, baseline=None, color=colour, **strength)


def _name_lines(ax: Any, category: Axis, lines: Sequence[_Line], handles: Sequence[Any], *, is_outside: bool) -> None:
    """Add a legend of the categories in colour; all grey lines share an entry."""
    pairs = list(zip(handles, lines, strict=True))
    shown = [(handle, category.labels[line.category]) for handle, line in pairs if line.colour_position is not None]
    grey = [handle for handle, line in pairs if line.colour_position is None]
    if grey:
        shown.append((grey[0], f"{len(grey)} others"))
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if is_outside else {"loc": "best"}
    box = style.legend(ax, *zip(*shown, strict=True), title=shortened(category.name, 32), **place)
    box.get_title().set(fontsize=font_size(mpl.rcParams["legend.fontsize"]) * 0.9)


def draw_marginals(fx: Decomposition, plane: Plane, output_index: int, scale: str, ax: Any) -> None:
    """Draw the main effects of both features above and on the right of a heat map."""
    top = ax.inset_axes([0.0, 1.04, 1.0, _MARGINAL_SIZE], sharex=ax)
    side = ax.inset_axes([1.04, 0.0, _MARGINAL_SIZE, 1.0], sharey=ax)
    for drawing, inset, x_or_y in ((plane.across, top, "y"), (plane.up, side, "x")):
        edges, values = _main_effect(fx, drawing, output_index, scale)
        look = {"orientation": "vertical" if x_or_y == "y" else "horizontal", "color": style.tone(views.MAIN)}
        inset.stairs(values, edges, baseline=0, fill=True, alpha=0.25, **look)
        inset.stairs(values, edges, baseline=None, linewidth=1.3, **look)
        style.zero_line(inset, x_or_y)
        style.tidy(inset)
        inset.tick_params(labelsize="x-small")
        inset.locator_params(axis=x_or_y, nbins=3)
    top.tick_params(axis="x", labelbottom=False, length=0)
    side.tick_params(axis="y", labelleft=False, length=0)


def _main_effect(fx: Decomposition, drawing: AxisDrawing, output_index: int, scale: str) -> tuple[Floats, Floats]:
    """Return edges and values of a main effect over the range of a heat map's axis; zero if there is no such effect."""
    term = choices.find_term(fx, drawing.name)
    if term is None:
        return drawing.edges, np.where(drawing.is_filled, 0.0, np.nan)
    if drawing.is_numeric:  # its thresholds may be finer than the pair's
        limits, extras = (drawing.low, drawing.high), frozenset(drawing.labels)
        drawing = draw_axis(term.axes[0], term.weights, limits=limits, scale=drawing.scale, extras=extras)
    term = on_scale(term, fx.intercept, scale)
    return drawing.edges, drawing.values(choices.at_output(fx, term.values, output_index), term.weights)


@dataclasses.dataclass(frozen=True)
class PairOptions:
    """How a pair is drawn; see `pair`. Without `words`, values have no name along their scale."""

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


@documented
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
    """Draw one interaction: a heat map on the term's own bins, or a line for each of a few categories.

    White is zero. Cells with next to no data are hatched grey, and lines are dotted there.

    Parameters
    ----------
    {fx}
    key
        Names of two features with a table, otherwise ValueError; the one named first goes across.
    {output}
    scale
        "score", "response" or "probability", as in `effect`: on the last two, what the interaction alone changes, the
        main effects of its features being zero like all other terms.
    errors
        A `Bag` with its own `fx`, its ``standard_errors()``, or those of ``fx.standard_errors()``, which are due to the
        density alone.
        Cells within two standard errors of zero, whose sign is uncertain, are then pale, and lines are thin there.
    kind
        "heatmap"; "lines", one per category over a numeric feature; or "auto", which draws lines for a numeric feature
        and a category of at most seven values, else a heat map.
    marginals
        Whether to draw the main effects along the sides of a heat map.
    limit
        Value of the strongest colour. By default the largest value where there are data, or less where a few cells
        reach far beyond all others: the colour bar then has pointed ends.
    xlimits, ylimits
        Ends of the axes of numeric features, as `limits` of `effect`. Lines use `xlimits` only.
    x_scale, y_scale
        How numbers are spread along the axes: "linear", "log" or "quantile", as in `effect`. Lines use `x_scale` only.
    {extras}
    order
        Order of categories: "auto" (by number if all labels begin with one, else as given), "given", "name" or
        "weight".
    colorbar
        Whether to draw the colour bar.
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    A cell has next to no data where its weight is less than a hundredth of what it would be if the features were
    independent. Where cells with data lie scattered among such cells, the latter are filled with pale colours.

    Examples
    --------
    The interaction is 0.25 where the features are equal and -0.25 where they differ:

    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.pair(fx, ("x0", "x1"))
    >>> ax.collections[0].get_array().tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    """
    output_index = choices.output_position(choices.checked_decomposition(fx), output)
    words = choices.value_words(fx, output_index, scale)
    words += "" if errors is None else "; pale: within two standard errors of zero"
    limits = (limit, xlimits, ylimits)
    options = PairOptions(kind, marginals, *limits, extras, colorbar, words, scale, x_scale, y_scale, order, errors)
    return draw_pair(fx, key, output_index, options, ax)


def draw_pair(fx: Decomposition, key: KeyLike, output_index: int, options: PairOptions, ax: Any) -> Any:
    """Draw a pair as a heat map or as lines, and return axes."""
    key = choices.without_label(fx, key)
    remedy = "use effect() for one feature; terms of more features have no plot, see fx.importance()"
    choices.check_order(key, 2, remedy)
    term = choices.term_of(fx, key, options.scale)
    values = choices.at_output(fx, term.values, output_index)
    unsure = choices.uncertain_cells(options.errors, choices.term_of(fx, key))
    unsure = None if unsure is None else choices.at_output(fx, unsure, output_index)
    if is_drawn_as_lines(term, options.kind):
        number = next(name for name, axis in zip(term.features, term.axes, strict=True) if axis.is_ordered)
        choice, _ = axis_choices(options, [(fx, term)], number)
        return draw_lines(term, values, ax, choice=choice, extras=options.extras, words=options.words, unsure=unsure)
    across = name_across(key, term)
    plane = plane_of(term, values, across, axis_choices(options, [(fx, term)], across), options.extras, unsure=unsure)
    limit = colour_limit([plane]) if options.limit is None else options.limit
    if not (np.isfinite(limit) and limit > 0):
        raise ValueError(f"`limit` must be a number above zero, got {limit!r}; leave it out for the largest value.")
    plane = dataclasses.replace(plane, limit=limit)
    ax = style.checked_axes(ax, *figure_size(plane, marginals=options.marginals))
    mesh = draw_plane(plane, ax)
    if options.marginals:
        draw_marginals(fx, plane, output_index, options.scale, ax)
    if options.colorbar:
        pad, in_percent = 0.04 if options.marginals else 0.02, choices.is_probability(fx, options.scale)
        draw_colorbar(mesh, [plane], options.words, [ax], pad=pad, in_percent=in_percent)
    return ax


def is_drawn_as_lines(term: Term, kind: str) -> bool:
    """Whether a pair is drawn as a line per category, as `kind` asks, or by default if there are few categories."""
    is_mixed = len({axis.is_ordered for axis in term.axes}) == 2
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(map(repr, KINDS))}, got {kind!r}; leave it out for 'auto'.")
    if kind == "lines" and not is_mixed:
        raise ValueError("`kind` must be 'heatmap' for two features of one kind, got 'lines'; leave it out.")
    is_short = sum(axis.n_regular for axis in term.axes if not axis.is_ordered) <= len(views.SERIES)
    return is_mixed and (kind == "lines" or (kind == "auto" and is_short))


def name_across(key: KeyLike, term: Term) -> str:
    """Return the feature of the x axis: the first of an ordered key, or of the term."""
    return str(next(iter(key))) if isinstance(key, list | tuple) else term.features[0]


def axis_choices(
    options: PairOptions, terms: Sequence[tuple[Decomposition, Term]], across: str
) -> tuple[AxisChoice, AxisChoice]:
    """Return how the x and the y axis are drawn, the same for the terms of several decompositions."""
    asked = {"x": (options.xlimits, options.x_scale), "y": (options.ylimits, options.y_scale)}
    by_axis = {}
    for i, name in enumerate(terms[0][1].features):
        x_or_y = "x" if name == across else "y"
        limits, kind = asked[x_or_y]
        entries = [(term.axes[i], term.weights.sum(axis=1 - i), choices.data_ends(fx, name)) for fx, term in terms]
        scale, ends = scale_and_ends(kind, entries, limits, f"{x_or_y}_scale")
        by_axis[x_or_y] = {"limits": ends, "scale": scale, "order": options.order}
    return by_axis["x"], by_axis["y"]
