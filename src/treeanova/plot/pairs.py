"""pair(): one interaction of two features as a heat map, or as a line per category."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
import numpy.typing as npt
from matplotlib.colors import Normalize
from matplotlib.patches import Rectangle

from treeanova.core.arrays import Floats
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.model.axes import Axis, IntervalAxis
from treeanova.plot import style
from treeanova.plot.choices import (
    Key,
    check_order,
    checked_decomposition,
    ends_of,
    find_term,
    output_of,
    term_of,
    values_of,
)
from treeanova.plot.layout import Layout, layout_of
from treeanova.plot.mains import checked_limits, common_range
from treeanova.views import look

KINDS = ("auto", "heatmap", "lines")
# Of the weight that independent features would have in a cell: with less, a cell counts as one without data.
RARE = 0.01
_MOST_NUMBERS = 60
_MARGIN = 0.2


@dataclasses.dataclass(frozen=True)
class PairOptions:
    """How a pair is drawn; see `pair`. Values are named along their scale unless `words` is empty."""

    kind: str = "auto"
    marginals: bool = False
    limit: float | None = None
    xlimits: tuple[float, float] | None = None
    ylimits: tuple[float, float] | None = None
    extras: bool | None = None
    colorbar: bool = True
    words: str = ""


@dataclasses.dataclass(frozen=True, eq=False)
class Plane:
    """A pair to draw: values and weights over the cells of two layouts, and the value of the strongest colour."""

    up: Layout
    across: Layout
    values: Floats
    weights: Floats
    without_data: npt.NDArray[np.bool_]
    limit: float = 0.0

    @property
    def seen(self) -> Floats:
        """Absolute values where there are data."""
        return np.abs(self.values[~self.without_data])

    @property
    def scattered(self) -> bool:
        """Whether cells with data lie among many without: more than three borders for every two of them."""
        seen = ~self.without_data
        borders = (seen[1:] ^ seen[:-1]).sum() + (seen[:, 1:] ^ seen[:, :-1]).sum()
        return bool(seen.size > _MOST_NUMBERS and borders > 1.5 * seen.sum())

    @property
    def cut(self) -> bool:
        """Whether values with data are beyond the limit of colours."""
        return bool(self.seen.max(initial=0.0) > self.limit * (1 + 1e-9))


def pair(
    fx: Decomposition,
    key: Key,
    *,
    output: str | int | None = None,
    kind: str = "auto",
    marginals: bool = False,
    limit: float | None = None,
    xlimits: tuple[float, float] | None = None,
    ylimits: tuple[float, float] | None = None,
    extras: bool | None = None,
    colorbar: bool = True,
    ax: Any = None,
) -> Any:
    """Axes with an interaction: a heat map on the model's own bins, or lines where one feature is a category.

    The feature named first goes across. White is zero; cells that hold (next to) no data, less than a hundredth of what
    they would if the features were independent, are hatched grey, with pale colours where cells with data lie scattered
    among them; lines are dotted there.

    Parameters
    ----------
    fx, key
        The decomposition, and the names of two features.
    output
        Name or position of a class or target; by default the first.
    kind
        "heatmap"; "lines", one per category over a numeric feature; "auto", lines where the two features are of these
        kinds, else a heat map.
    marginals
        Whether to draw the main effects beside a heat map.
    limit
        Value of the strongest colour. By default the largest value where there are data; where a few cells reach far
        beyond all others, less: the colour bar has pointed ends then.
    xlimits, ylimits
        Ends of the axes of numeric features, as `limits` of `effect`; of lines, only `xlimits` counts.
    extras
        Whether missing and unseen values are shown, apart from the others; by default where the data have some.
    colorbar
        Whether to draw the colour bar.
    ax
        Axes to draw on; by default those of a new figure.
    """
    position = output_of(checked_decomposition(fx), output)
    words = look.effect_words(fx.schema, fx.schema.outputs[position])
    options = PairOptions(kind, marginals, limit, xlimits, ylimits, extras, colorbar, words)
    return draw_pair(fx, key, position, options, ax)


def draw_pair(fx: Decomposition, key: Key, position: int, options: PairOptions, ax: Any) -> Any:
    """Axes with an interaction."""
    check_order(key, 2, "use effect() for one feature; terms of more have no plot, see fx.importance()")
    term = term_of(fx, key)
    values = values_of(fx, term.values, position)
    if draws_lines(term, options.kind):
        number = next(
            name for name, axis in zip(term.features, term.axes, strict=True) if isinstance(axis, IntervalAxis)
        )
        return _draw_lines(term, values, with_limits(options, [(fx, term)], number), ax)
    plane = plane_of(term, values, name_across(key, term), with_limits(options, [(fx, term)], name_across(key, term)))
    plane = dataclasses.replace(plane, limit=_checked_limit(options.limit) or strongest([plane]))
    ax = style.checked_axes(ax, *_figure_size(plane, marginals=options.marginals))
    mesh = draw_plane(plane, ax)
    if options.marginals:
        _draw_marginals(fx, plane, position, ax)
    if options.colorbar:
        draw_colorbar(mesh, [plane], options.words, [ax], pad=0.04 if options.marginals else 0.02)
    return ax


def _checked_limit(limit: float | None) -> float | None:
    if limit is not None and not (np.isfinite(limit) and limit > 0):
        raise ValueError(f"`limit` must be a number above zero, got {limit!r}; leave it out for the largest value.")
    return limit


def draws_lines(term: Term, kind: str) -> bool:
    """Whether a pair is drawn as lines."""
    mixed = len({isinstance(axis, IntervalAxis) for axis in term.axes}) == 2
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(map(repr, KINDS))}, got {kind!r}; leave it out for 'auto'.")
    if kind == "lines" and not mixed:
        raise ValueError("`kind` must be 'heatmap' for two features of one kind, got 'lines'; leave it out.")
    return mixed and kind != "heatmap"


def name_across(key: Key, term: Term) -> str:
    """The feature that goes across: the first one named, where the names have an order."""
    return str(next(iter(key))) if isinstance(key, list | tuple) else term.features[0]


def with_limits(options: PairOptions, parts: Sequence[tuple[Decomposition, Term]], across: str) -> PairOptions:
    """The options with ends of numeric axes that hold the ranges of all terms, where none are given."""
    for i, name in enumerate(parts[0][1].features):
        field = "xlimits" if name == across else "ylimits"
        given = getattr(options, field)
        axes = [(term.axes[i], term.weights.sum(axis=1 - i), ends_of(fx, name)) for fx, term in parts]
        ends = common_range(axes) if given is None else checked_limits(given)
        options = dataclasses.replace(options, **{field: ends})  # type: ignore[arg-type]
    return options


# Heat maps.


def plane_of(term: Term, values: Floats, across: str, options: PairOptions) -> Plane:
    """The cells of a pair as they are drawn; the value of the strongest colour is still open."""
    x = term.features.index(across)
    table, weights = (values.T, term.weights.T) if x == 0 else (values, term.weights)
    masses = weights.sum(axis=1), weights.sum(axis=0)
    up, right = (
        layout_of(axis, mass, limits=ends, extras=options.extras)
        for axis, mass, ends in zip(
            (term.axes[1 - x], term.axes[x]), masses, (options.ylimits, options.xlimits), strict=True
        )
    )
    return Plane(
        up,
        right,
        up.plane(table, right, np.nan),
        up.plane(weights, right, 0.0),
        up.plane(is_rare(weights).astype(np.float64), right, 1.0) > 0,
    )


def is_rare(weights: Floats) -> npt.NDArray[np.bool_]:
    """Cells of a table of two features that hold (next to) no data."""
    rare: npt.NDArray[np.bool_] = weights <= RARE * np.multiply.outer(weights.sum(axis=1), weights.sum(axis=0))
    return rare


def strongest(planes: Sequence[Plane]) -> float:
    """The value of the strongest colour: the largest with data, or less where few cells reach far beyond the others.

    Few: they hold 0.5 % of the weight and 3 % of the area.
    """
    values = np.concatenate([plane.seen for plane in planes])
    if not values.max(initial=0.0) > 0:
        return 1.0
    weights = np.concatenate([plane.weights[~plane.without_data] for plane in planes])
    areas = np.concatenate([_areas(plane)[~plane.without_data] for plane in planes])
    typical = max(_quantile(values, weights, 0.995), _quantile(values, areas, 0.97))
    return float(typical if values.max() > 1.5 * typical > 0 else values.max())


def _areas(plane: Plane) -> Floats:
    areas: Floats = np.multiply.outer(np.diff(plane.up.edges), np.diff(plane.across.edges))
    total: float = areas.sum()
    shares: Floats = areas / total
    return shares


def _quantile(values: Floats, weights: Floats, share: float) -> float:
    order = np.argsort(values)
    below = np.cumsum(weights[order])
    return float(values[order][min(int(np.searchsorted(below, share * below[-1])), len(values) - 1)])


def _figure_size(plane: Plane, *, marginals: bool) -> tuple[float, float]:
    width, height = (
        5.2 if layout.is_numeric else min(max(4.0, 1.5 + 0.3 * len(layout.cells)), 14)
        for layout in (plane.across, plane.up)
    )
    return width + 1.2 + 1.0 * marginals, height * 0.82 + 0.8 * marginals


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
    if plane.scattered:
        _draw_between(plane, mesh, ax)
    for layout, which in ((plane.across, "x"), (plane.up, "y")):
        style.set_scale(ax, layout, which)
        style.name_feature(ax, layout, which)
    _write_numbers(plane, ax)
    if not plane.up.is_numeric:
        ax.invert_yaxis()
    style.tidy(ax)
    return mesh


def _draw_between(plane: Plane, mesh: Any, ax: Any) -> None:
    """Pale colours in cells without data: what the model says between those that have some."""
    hidden = np.ma.masked_where(~plane.without_data | np.isnan(plane.values), plane.values)
    options = {"cmap": mesh.cmap, "norm": mesh.norm, "rasterized": True, "alpha": 0.45, "zorder": 1.5}
    ax.pcolormesh(plane.across.edges, plane.up.edges, hidden, linewidth=0, antialiased=False, **options)


def _blocks(layout: Layout) -> list[tuple[float, float]]:
    """Ends of what is drawn: the numbers or categories, then missing and unseen."""
    regular = [(layout.low, layout.high)]
    if not len(layout.extra):
        return regular
    return [*regular, (float(layout.edges[layout.n_regular + 1]), float(layout.edges[-1]))]


def _draw_block(ax: Any, corner: tuple[float, float], width: float, height: float) -> None:
    """Hatched grey below the cells, and a thin frame around them."""
    lines = style.mix(look.NO_DATA, look.RAW, 0.5)
    back: dict[str, Any] = {"facecolor": style.faint(look.NO_DATA), "edgecolor": lines, "hatch": "////", "linewidth": 0}
    ax.add_patch(Rectangle(corner, width, height, zorder=1, **back))
    edge = mpl.rcParams["axes.edgecolor"]
    ax.add_patch(Rectangle(corner, width, height, fill=False, edgecolor=edge, linewidth=0.5, alpha=0.6, zorder=4))


def _write_numbers(plane: Plane, ax: Any) -> None:
    """Write the value into each cell that has data, where there are few categories; say so where all are zero."""
    if not plane.seen.max(initial=0.0) > 0:
        ax.text(0.5, 0.5, "zero everywhere", transform=ax.transAxes, ha="center", va="center", color="black", zorder=5)
    elif not (plane.across.is_numeric or plane.up.is_numeric) and plane.values.size <= _MOST_NUMBERS:
        digits = max(0, 1 - math.floor(math.log10(plane.limit)))
        for i, j in np.argwhere(~plane.without_data):
            value = float(plane.values[i, j])
            colour = "white" if abs(value) > 0.6 * plane.limit else "black"  # on the cell's colour, not the page's
            words = signed(round(value, digits) + 0.0, f".{digits}f")
            spot = plane.across.centres[j], plane.up.centres[i]
            ax.text(*spot, words, ha="center", va="center", fontsize="small", color=colour, zorder=3)


def signed(value: float, form: str) -> str:
    """A number with its sign, as on the scales; zero has none."""
    return f"{value:+{form}}".replace("-", "−") if value else "0"


def draw_colorbar(mesh: Any, planes: Sequence[Plane], words: str, axes: Sequence[Any], *, pad: float = 0.02) -> Any:
    """A colour bar right of the axes, with its range written out; pointed ends where values go beyond."""
    cut = any(plane.cut for plane in planes)
    room = {"fraction": 0.06, "aspect": 24, "pad": pad}
    bar = axes[-1].figure.colorbar(mesh, ax=list(axes), extend="both" if cut else "neither", **room)
    limit = planes[0].limit
    bar.set_ticks([-limit, 0, limit], labels=[signed(end, ".3g") for end in (-limit, 0.0, limit)])
    bar.set_ticks([-limit / 2, limit / 2], minor=True)
    bar.outline.set_visible(False)
    if words:
        bar.set_label(style.wrapped(words, style.room(axes[-1], "y")))
    return bar


# Main effects beside a heat map.


def _draw_marginals(fx: Decomposition, plane: Plane, position: int, ax: Any) -> None:
    top = ax.inset_axes([0.0, 1.04, 1.0, _MARGIN], sharex=ax)
    side = ax.inset_axes([1.04, 0.0, _MARGIN, 1.0], sharey=ax)
    sides = (plane.across, top, "vertical", "y"), (plane.up, side, "horizontal", "x")
    for layout, room, orientation, which in sides:
        drawn = _main_effect(fx, layout, position)
        colour = style.tone(look.MAIN)
        room.stairs(drawn, layout.edges, baseline=0, fill=True, orientation=orientation, color=colour, alpha=0.25)
        room.stairs(drawn, layout.edges, baseline=None, orientation=orientation, color=colour, linewidth=1.3)
        style.zero_line(room, which)
        style.tidy(room)
        room.tick_params(labelsize="x-small")
        room.locator_params(axis=which, nbins=3)
    top.tick_params(axis="x", labelbottom=False, length=0)
    side.tick_params(axis="y", labelleft=False, length=0)


def _main_effect(fx: Decomposition, layout: Layout, position: int) -> Floats:
    """The main effect over the cells of a layout; zero where there is none."""
    term = find_term(fx, layout.name)
    if term is None:
        return np.where(layout.filled, 0.0, np.nan)
    return layout.values(values_of(fx, term.values, position), term.weights)


# Lines.


@dataclasses.dataclass(frozen=True, eq=False)
class _Line:
    """Steps of one category, what of them has data, and its rank among those in colour (None: grey)."""

    bin_: int
    values: Floats
    seen: Floats
    rank: int | None


def _draw_lines(term: Term, values: Floats, options: PairOptions, ax: Any) -> Any:
    """A line per category over the numeric feature: those with most data in colour, others thin and grey."""
    ax = style.checked_axes(ax, 7.2, 4.2)
    numeric_first = isinstance(term.axes[0], IntervalAxis)
    table, weights = (values, term.weights) if numeric_first else (values.T, term.weights.T)
    number, category = term.axes if numeric_first else term.axes[::-1]
    mass = weights.sum(axis=1)
    across = layout_of(number, mass, limits=options.xlimits, extras=options.extras)
    of_lines = layout_of(category, weights.sum(axis=0), extras=options.extras)
    lines = _lines(across, of_lines.cells[of_lines.filled], table, weights)
    style.zero_line(ax, "y")
    handles = [_draw_line(ax, across, line) for line in lines]
    style.interval_strip(ax, across, mass)
    style.set_scale(ax, across, "x", across.masses(mass))
    spans = [line.seen if np.isfinite(line.seen).any() else line.values for line in lines]
    style.make_room(ax, "y", float(np.nanmin(spans)), float(np.nanmax(spans)), strip=True)
    style.name_feature(ax, across, "x")
    style.name_effect(ax, options.words, "y")
    style.tidy(ax)
    _name_lines(ax, category, lines, handles, outside=bool(options.words))
    return ax


def _lines(across: Layout, bins: npt.NDArray[np.int64], table: Floats, weights: Floats) -> list[_Line]:
    coloured = _heaviest(bins, weights.sum(axis=0))
    rare = is_rare(weights)
    lines = []
    for bin_ in map(int, bins):
        values = across.values(table[:, bin_], weights[:, bin_])
        without = across.values(rare[:, bin_].astype(np.float64), weights[:, bin_]) > 0
        rank = coloured.index(bin_) if bin_ in coloured else None
        lines.append(_Line(bin_, values, np.where(without, np.nan, values), rank))
    return lines


def _heaviest(bins: npt.NDArray[np.int64], masses: Floats) -> list[int]:
    """The categories that get a colour, in the order in which they are drawn."""
    if len(bins) <= len(look.SERIES):
        return [int(bin_) for bin_ in bins]
    kept = set(sorted(bins, key=lambda bin_: -masses[bin_])[: len(look.SERIES) - 1])
    return [int(bin_) for bin_ in bins if bin_ in kept]


def _draw_line(ax: Any, layout: Layout, line: _Line) -> Any:
    """Steps of one category; dotted where it has no data."""
    colour = style.tone(look.RAW) if line.rank is None else style.series_colour(line.rank)
    front = {"zorder": 2, "linewidth": 0.7} if line.rank is None else {"zorder": 3, "linewidth": 1.8}
    if np.isnan(line.seen[layout.filled]).any():
        dotted = {"linestyle": ":", "linewidth": 0.8, "alpha": 0.6, "label": "_rare"}
        ax.stairs(line.values, layout.edges, baseline=None, color=colour, **dotted)
    return ax.stairs(line.seen, layout.edges, baseline=None, color=colour, **front)


def _name_lines(ax: Any, category: Axis, lines: Sequence[_Line], handles: Sequence[Any], *, outside: bool) -> None:
    shown = [
        (handle, category.labels[line.bin_])
        for handle, line in zip(handles, lines, strict=True)
        if line.rank is not None
    ]
    others = [handle for handle, line in zip(handles, lines, strict=True) if line.rank is None]
    if others:
        shown.append((others[0], f"{len(others)} others"))
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (1.0, 1.0)} if outside else {"loc": "best"}
    box = style.legend(ax, *zip(*shown, strict=True), title=style.shortened(category.name, 32), **place)
    box.get_title().set(fontsize=style.font_size(mpl.rcParams["legend.fontsize"]) * 0.9)
