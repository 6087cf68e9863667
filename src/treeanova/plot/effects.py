"""effect(): a main effect as steps or bars over the distribution of the data; grid(): the strongest terms on a page."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from treeanova import views
from treeanova.core.arrays import Floats, Names
from treeanova.decomposition.answers import ranking_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.importance import Standing
from treeanova.decomposition.predictions import function_of, tables_of
from treeanova.model.axes import Axis
from treeanova.plot import choices, scales, style
from treeanova.plot.axes import AxisDrawing, Ends, Extras, draw_axis, extra_labels_with_weight, scale_and_ends
from treeanova.plot.choices import Band, Errors, KeyLike
from treeanova.plot.pairs import PairOptions, draw_pair
from treeanova.plot.scales import Distribution
from treeanova.plot.style import documented, short_feature_names, shortened, term_name

_BAR_HEIGHT = 0.26  # in inches
_MOST_BARS = 60  # unless a number is asked for
_BARS_PER_CATEGORY = 0.8  # height of all bars of a category, relative to its room


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """A main effect of one output to draw, with the weights of its bins; `ends` are those of nearly all data."""

    name: str
    axis: Axis
    values: Floats
    weights: Floats
    colour: Any
    band: Band | None = None
    ends: Ends | None = None

    def shown(self, drawing: AxisDrawing) -> tuple[Floats, Floats, Floats]:
        """Return values, lower ends and upper ends of the band, or the values without one, in the drawn cells."""
        low, high = self.band or (self.values, self.values)
        values, below, above = (drawing.values(end, self.weights) for end in (self.values, low, high))
        return values, below, above


@dataclasses.dataclass(frozen=True)
class MainOptions:
    """How main effects are drawn; see `effect`. `distributions` replace that of the data."""

    limits: Ends | None = None
    extras: bool | None = None
    order: str = "auto"
    max_bars: int | None = None
    data: bool = True
    x_scale: str = "linear"
    legend: bool = True
    in_percent: bool = False
    distributions: tuple[Distribution, ...] = ()

    def distributions_below(self, first: Series) -> tuple[Distribution, ...]:
        """Return the distributions to draw below effects: by default that of the data, from the first effect."""
        if self.distributions or not self.data:
            return self.distributions
        return (Distribution("", first.axis, first.weights),)


@documented
def effect(
    fx: Decomposition,
    key: KeyLike,
    *,
    output: str | int | None = None,
    scale: str = "score",
    errors: Errors | None = None,
    limits: tuple[float, float] | None = None,
    x_scale: str = "linear",
    extras: bool | None = None,
    order: str = "auto",
    max_bars: int | None = None,
    data: bool = True,
    ax: Any = None,
) -> Any:
    """Draw one main effect: steps at the model's own thresholds, or bars for categories.

    A grey area shows how the data (the weights of the density) are spread along the same axis.

    Parameters
    ----------
    {fx}
    key
        Name of a feature with a main effect, otherwise ValueError.
    output
        Name or position of a class or target; by default all of them, in one frame.
    scale
        "score", on which terms add up. "response" is for display only, for models with the link "logit", "log" or
        "softmax" (otherwise ValueError): what this term alone changes in the response if all other terms are zero,
        their average. The axis label says the response at that point. Such changes do not add up. "probability" is the
        same for classifiers.
    errors
        A `Bag` with its own `fx`, its ``standard_errors()``, or those of ``fx.standard_errors()``, which are due to the
        density alone; drawn as a band of two standard errors on either side.
    {limits}
    {x_scale}
    {extras}
    {order}
    {max_bars}
    data
        Whether to show how the data are spread.
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    The main effect is -0.25 at 0 and 0.25 at 1:

    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.effect(fx, "x0", limits=(-1, 2), data=False)
    >>> steps = ax.patches[0].get_data()
    >>> steps.values.tolist(), steps.edges.round(6).tolist()
    ([-0.25, 0.25], [-1.0, 0.5, 2.0])
    """
    series = main_series(choices.checked_decomposition(fx), key, output, errors, scale)
    words = choices.value_words(fx, fx.outputs.index(series[0].name) if len(series) == 1 else None, scale)
    options = MainOptions(limits, extras, order, max_bars, data, x_scale, in_percent=choices.is_probability(fx, scale))
    return draw_mains(series, words, options, ax)


def main_series(
    fx: Decomposition, key: KeyLike, output: str | int | None, errors: Errors | None, scale: str = "score"
) -> list[Series]:
    """Return a main effect on a scale, with a band of two errors, for one output or, if it is None, for each."""
    key = choices.without_label(fx, key)
    choices.check_order(key, 1, "use pair() for two features; terms of more features have no plot, see fx.importance()")
    term = choices.term_of(fx, key, scale)
    band = choices.band_of(errors, fx, choices.term_of(fx, key), scale)
    outputs = range(len(fx.outputs)) if output is None else [choices.output_position(fx, output)]
    return [
        Series(
            name=fx.outputs[k],
            axis=term.axes[0],
            values=choices.at_output(fx, term.values, k),
            weights=term.weights,
            colour=style.tone(views.MAIN) if len(outputs) == 1 else style.series_colour(i),
            band=None if band is None else (choices.at_output(fx, band[0], k), choices.at_output(fx, band[1], k)),
            ends=choices.data_ends(fx, term.features[0]),
        )
        for i, k in enumerate(outputs)
    ]


def draw_mains(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    """Draw main effects of one feature in one frame, and return axes; `words` say what their values mean."""
    is_ordered = series[0].axis.is_ordered
    ax, handles = (_draw_steps if is_ordered else _draw_bars)(series, options, ax)
    x_or_y = "y" if is_ordered else "x"
    scales.name_effect(ax, words, x_or_y)
    if options.in_percent:
        getattr(ax, f"{x_or_y}axis").set_major_formatter(style.percent_tick)
    style.tidy(ax)
    names = [*(one.name for one in series), *(one.name for one in options.distributions)]
    if options.legend and len(names) > 1:
        above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": min(len(names), 4)}
        is_inside = is_ordered and not options.distributions
        style.legend(ax, handles[: len(names)], names, **({"loc": "best"} if is_inside else above))
    return ax


def _common_extras(series: Sequence[Series], options: MainOptions) -> Extras:
    """Return which extra bins to draw: by default the labels of those with weight in any series."""
    if options.extras is not None:
        return options.extras
    return frozenset[str]().union(*(extra_labels_with_weight(one.axis, one.weights) for one in series))


def _set_value_limits(
    ax: Any, x_or_y: str, series: Sequence[Series], drawings: Sequence[AxisDrawing], *, has_strip: bool
) -> None:
    """Set limits of the axis of values that show all drawn cells with their bands; a strip is that of the data."""
    bands = [end for one, drawing in zip(series, drawings, strict=True) for end in one.shown(drawing)[1:]]
    low, high = min(map(np.nanmin, bands)), max(map(np.nanmax, bands))
    scales.set_value_limits(ax, x_or_y, float(low), float(high), has_strip=has_strip)


def _draw_steps(series: Sequence[Series], options: MainOptions, ax: Any) -> tuple[Any, list[Any]]:
    """Draw numbers as steps; return the axes and entries of the legend."""
    ax = style.checked_axes(ax, 6.4, 4.0)
    entries = [(one.axis, one.weights, one.ends) for one in series]
    scale, limits = scale_and_ends(options.x_scale, entries, options.limits, "x_scale")
    extras = _common_extras(series, options)
    drawings = [draw_axis(one.axis, one.weights, limits=limits, scale=scale, extras=extras) for one in series]
    style.zero_line(ax, "y")
    handles = [_draw_curve(ax, one, drawing) for one, drawing in zip(series, drawings, strict=True)]
    if distributions := options.distributions_below(series[0]):
        handles += scales.draw_interval_distributions(ax, distributions, limits=limits, scale=scale, extras=extras)
    scales.set_scale(ax, drawings[0], "x", drawings[0].masses(series[0].weights))
    _set_value_limits(ax, "y", series, drawings, has_strip=options.data)
    scales.name_feature(ax, drawings[0], "x")
    return ax, handles


def _draw_curve(ax: Any, curve: Series, drawing: AxisDrawing) -> Any:
    """Draw an effect of numbers as steps, with its band, extra bins as dots; return the steps for a legend."""
    values, low, high = curve.shown(drawing)
    if curve.band is not None:
        ax.stairs(high, drawing.edges, baseline=low, fill=True, color=curve.colour, alpha=0.22, zorder=2)
    extra = drawing.extra_cells
    ax.plot(drawing.centres[extra], values[extra], "o", color=curve.colour, markersize=5, zorder=3, label="_extra")
    return ax.stairs(values, drawing.edges, baseline=None, color=curve.colour, linewidth=1.8, zorder=3)


def _draw_bars(series: Sequence[Series], options: MainOptions, ax: Any) -> tuple[Any, list[Any]]:
    """Draw categories as bars; return the axes and entries of the legend."""
    if options.x_scale != "linear":
        scale_and_ends(options.x_scale, [(series[0].axis, series[0].weights, None)], None, "x_scale")  # raises
    drawing = _drawing_of_bars(series, options)
    n_bars = int(drawing.is_filled.sum()) * (1 if len(series) == 1 else 0.45 * len(series) + 0.55)
    ax = style.checked_axes(ax, 6.4, max(2.6, 1.1 + _BAR_HEIGHT * n_bars))
    style.zero_line(ax, "x")
    handles = [_draw_series_bars(ax, series, i, drawing) for i in range(len(series))]
    if distributions := options.distributions_below(series[0]):
        handles += scales.draw_category_distributions(ax, distributions, drawing)
    scales.set_scale(ax, drawing, "y")
    ax.invert_yaxis()
    _set_value_limits(ax, "x", series, [drawing] * len(series), has_strip=options.data)
    scales.name_feature(ax, drawing, "y")
    return ax, handles


def _drawing_of_bars(series: Sequence[Series], options: MainOptions) -> AxisDrawing:
    """Lay out the categories that all series share; raise ValueError if these differ."""
    first = series[0]
    for one in series:
        if one.axis.labels != first.axis.labels:
            raise ValueError(
                f"`decompositions` must have the same categories of {first.axis.name!r}, got "
                f"{views.first_texts(first.axis.labels)} and {views.first_texts(one.axis.labels)}; "
                "plot each with effect()."
            )
    return draw_axis(
        first.axis,
        first.weights,
        values=series[-1].values,
        extras=_common_extras(series, options),
        order=options.order,
        max_bars=options.max_bars or _MOST_BARS,
    )


def _draw_series_bars(ax: Any, series: Sequence[Series], series_index: int, drawing: AxisDrawing) -> Any:
    """Draw one of several effects of categories as bars, hatched without data; return these for a legend."""
    one, cells = series[series_index], drawing.is_filled
    values, low, high = one.shown(drawing)
    height = _BARS_PER_CATEGORY / len(series)
    bars = ax.barh(
        drawing.centres[cells] + (series_index - (len(series) - 1) / 2) * height,
        values[cells],
        height * (1 if len(series) == 1 else 0.92),
        color=one.colour,
        xerr=None if one.band is None else np.stack([values - low, high - values])[:, cells],
        ecolor=style.tone(views.RAW),
        zorder=3,
    )
    for bar, mass in zip(bars, drawing.masses(one.weights)[cells], strict=True):
        if mass == 0:
            bar.set(alpha=0.4, hatch="////", linewidth=0)  # no data
    return bars


_PANEL = (4.2, 3.1)  # in inches
_PANEL_BARS = 12
_TITLE = 23  # characters of a term's name
_AXIS_NAME = 22
_LISTED_TERMS = 4
# Fonts of new figures, which leave most of a panel to its picture.
_SMALL = {"xtick.labelsize": "small", "ytick.labelsize": "small", "axes.labelsize": "small"}


@dataclasses.dataclass(frozen=True, eq=False)
class _Page:
    """What the panels of a page share; without words, values are named once for all panels, and axes in short."""

    output: str | int | None
    output_index: int
    errors: Errors | None
    limit: float | None
    words: str
    short: Mapping[str, str]
    max_bars: int = _PANEL_BARS


@documented
def grid(
    fx: Decomposition,
    *,
    k: int = 12,
    keys: Sequence[KeyLike] | None = None,
    output: str | int | None = None,
    errors: Errors | None = None,
    same_scale: bool = False,
    n_columns: int | None = None,
    ax: Any = None,
) -> Any:
    """Draw the strongest main effects and pairs of a decomposition on a page, one panel per term.

    The title of a panel has the term's rank and its variance, relative to that of the score. Terms of more than two
    features have no plot; the foot of a new figure names them with their ranks.

    Parameters
    ----------
    {fx}
    k
        Number of terms, the strongest first.
    keys
        Terms to draw instead of the strongest; of two numbers or categories, the one named first goes across.
    output
        Name or position of a class or target; by default all of them in main effects, and the first in pairs and ranks.
    errors
        A `Bag`, or standard errors, as for `effect` and `pair`: bands around main effects, pale cells in pairs.
    same_scale
        Whether all panels have one range of values; by default each has its own.
    n_columns
        Panels in a row; by default three or four.
    ax
        Axes to draw on, one for each term; by default those of a new figure.

    Returns
    -------
    array of matplotlib.axes.Axes

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> panels = treeanova.plot.grid(fx, k=2)
    >>> [panel.get_title("left").split() for panel in panels]
    [['1.', 'x0', '33', '%'], ['2.', 'x1', '33', '%']]
    """
    output_index = choices.output_position(choices.checked_decomposition(fx), output)
    ranking = ranking_of(fx).standings_of(fx.outputs[output_index])
    terms, left_out = _strongest_and_omitted(fx, ranking, k) if keys is None else (_checked_keys(fx, keys), [])
    name = None if output is None else fx.outputs[output_index]
    words = "" if ax is None else views.effect_words(fx.schema, name, fx.density.baseline)
    limit = _largest_value(fx, terms, output) if same_scale else None
    page = _Page(output, output_index, errors, limit, words, short_feature_names(fx.schema.names, _AXIS_NAME))
    panels = _panels(ax, len(terms), n_columns)
    titles = _titles(fx, ranking)
    with mpl.rc_context(_SMALL if ax is None else {}):
        for names, panel in zip(terms, panels, strict=True):
            _draw_panel(fx, names, panel, page)
            panel.set_title(titles[fx.terms[names].features], fontsize="small", fontweight="bold", loc="left")
    if ax is None:
        _name_values_once(fx, panels, page)
        panels[0].figure.supxlabel(_footnote(fx, left_out), fontsize="small")
    return np.array(panels, dtype=object)


def _checked_keys(fx: Decomposition, keys: Sequence[KeyLike]) -> list[Names]:
    """Return the names of features of the terms that a user lists, in the user's order if a key has one."""
    if isinstance(keys, str) or not keys:
        raise ValueError(f"`keys` must be a list of terms, got {keys!r}; pass ['a', ('a', 'b')] or leave it out.")
    keys = [choices.without_label(fx, key) for key in keys]
    for key in keys:
        if len(choices.names_of(key)) > 2:
            choices.check_order(key, 2, "terms of more features have no plot, see fx.importance()")
    terms = [choices.term_of(fx, key).features for key in keys]
    orders = map(choices.names_of, keys)  # the user's: the feature named first goes across
    return [order if len(order) == len(term) else term for order, term in zip(orders, terms, strict=True)]


def _strongest_and_omitted(
    fx: Decomposition, ranking: Sequence[Standing], k: int
) -> tuple[list[Names], list[tuple[int, Standing]]]:
    """Return the k strongest terms that can be drawn, and stronger ones that cannot, each with its rank."""
    drawable = {names for names in tables_of(fx) if len(names) <= 2}
    terms = [term.features for term in ranking if term.features in drawable][: choices.checked_count(k)]
    if not terms:
        raise ValueError(
            f"`fx` must have tables of main effects or pairs to be drawn, got {len(ranking)} terms without; see "
            "fx.importance()."
        )
    last = next(i for i, term in enumerate(ranking) if term.features == terms[-1])
    return terms, [ranked for ranked in enumerate(ranking[:last], start=1) if ranked[1].features not in drawable]


def _footnote(fx: Decomposition, left_out: Sequence[tuple[int, Standing]]) -> str:
    """Say what the titles of panels mean, and which terms, with their ranks, are not drawn."""
    words = f"Titles: rank and {views.variance_words(fx.schema, is_part=function_of(fx).scope.is_part)}."
    if not left_out:
        return words
    first = left_out[:_LISTED_TERMS]
    shown = [f"{rank}. {shortened(term.label, 60)} ({views.percent(term.variance)})" for rank, term in first]
    more = f" and {len(left_out) - _LISTED_TERMS} more" if len(left_out) > _LISTED_TERMS else ""
    return f"{words}\nNot drawn, because terms of more than two features have no plot: {', '.join(shown)}{more}."


def _titles(fx: Decomposition, ranking: Sequence[Standing]) -> dict[Names, str]:
    """Return a title for each main effect and pair by its features: rank, short name and share of variance."""
    short = functools.cache(lambda n_characters: short_feature_names(fx.schema.names, n_characters))
    titles = {}
    for rank, term in enumerate(ranking, start=1):
        if term.features and term.order <= 2:
            room = _TITLE  # characters of each name: a short name leaves its room to the other
            if term.order == 2:
                room = max(_TITLE // 2, _TITLE - min(map(len, term.features)))
            titles[term.features] = f"{rank}. {term_name(term.features, short(room))}   {views.percent(term.variance)}"
    return titles


def _largest_value(fx: Decomposition, terms: Sequence[Names], output: str | int | None) -> float:
    """Return the largest absolute value of some terms, of one output or of all; 1 if all are zero."""
    tables = [fx.terms[names].values for names in terms]
    if output is not None:
        tables = [choices.at_output(fx, table, choices.output_position(fx, output)) for table in tables]
    return max(float(np.abs(table).max()) for table in tables) or 1.0


def _panels(ax: Any, n_panels: int, n_columns: int | None) -> list[Any]:
    """Return the user's axes, or those of a new figure, one per panel, row by row."""
    if ax is not None:
        return style.axes_row(ax, n_panels, *_PANEL)
    width = checked_columns(n_columns, n_panels)
    height = math.ceil(n_panels / width)
    size = (_PANEL[0] * width, _PANEL[1] * height)
    _, panels = plt.subplots(height, width, figsize=size, layout="constrained", squeeze=False)
    for unused in panels.flat[n_panels:]:
        unused.remove()
    panels[0, 0].figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return list(panels.flat[:n_panels])


def checked_columns(n_columns: int | None, n_panels: int) -> int:
    """Return the number of columns; by default 4 or 3, whichever leaves fewer places empty."""
    if n_columns is None:
        return min(n_panels, min((4, 3), key=lambda width: -n_panels % width))
    if n_columns < 1:
        raise ValueError(f"`n_columns` must be at least 1, got {n_columns!r}; leave it out for the default.")
    return min(n_columns, n_panels)


def _draw_panel(fx: Decomposition, names: Names, panel: Any, page: _Page) -> None:
    """Draw a main effect or a pair, given by the names of its features, on the axes of a panel."""
    if len(names) == 2:
        _draw_pair_panel(fx, names, panel, page)
        return
    options = MainOptions(max_bars=page.max_bars, legend=bool(page.words))
    draw_mains(main_series(fx, names, page.output, page.errors), page.words, options, panel)
    if page.limit is not None:
        x_or_y = "x" if panel.yaxis_inverted() else "y"
        scales.set_value_limits(panel, x_or_y, -page.limit, page.limit, has_strip=True)
    if not page.words:
        _rename_axis(panel, "y" if panel.yaxis_inverted() else "x", "")  # the title names the feature


def draw_small(fx: Decomposition, names: Names, output_index: int, max_bars: int, ax: Any) -> None:
    """Draw a main effect of all outputs, or a pair of one, without words on values, for pages that name them once."""
    page = _Page(None, output_index, None, None, "", short_feature_names(fx.schema.names, _AXIS_NAME), max_bars)
    _draw_panel(fx, names, ax, page)
    for mesh in ax.collections:  # small cells would show seams
        mesh.set(edgecolor="face", linewidth=0.3)


def _rename_axis(panel: Any, x_or_y: str, name: str) -> None:
    """Replace the name in an axis label, and keep the note in parentheses below it."""
    _, *notes = getattr(panel, f"get_{x_or_y}label")().split("\n(", 1)
    lines = [name, *(f"({note}" for note in notes)]
    getattr(panel, f"set_{x_or_y}label")("\n".join(filter(None, lines)))


def _draw_pair_panel(fx: Decomposition, names: Names, panel: Any, page: _Page) -> None:
    """Draw a pair as a heat map on the axes of a panel, with numbers across if the other feature has categories."""
    words = page.words and views.effect_words(fx.schema, fx.outputs[page.output_index], fx.density.baseline)
    term = fx.terms[names]
    if [term.axes[term.features.index(name)].is_ordered for name in names] == [False, True]:
        names = names[::-1]  # numbers across, categories up where their names have room
    options = PairOptions(kind="heatmap", limit=page.limit, words=words, errors=page.errors)
    draw_pair(fx, names, page.output_index, options, panel)
    if not page.words:
        for x_or_y, name in zip("xy", names, strict=True):
            _rename_axis(panel, x_or_y, page.short[name])


def _name_values_once(fx: Decomposition, panels: Sequence[Any], page: _Page) -> None:
    """Say at the side of a figure what the values of all panels mean, and name the lines of several outputs."""
    figure, outputs = panels[0].figure, fx.outputs
    is_single = len(outputs) == 1 or page.output is not None
    words = views.effect_words(fx.schema, outputs[page.output_index] if is_single else None, fx.density.baseline)
    figure.supylabel(words, fontsize="medium")
    if not is_single:
        lines = [Line2D([], [], color=style.series_colour(i), linewidth=2) for i in range(len(outputs))]
        title = f"pairs and ranks: {shortened(outputs[0], 24)}"
        style.legend(figure, lines, outputs, loc="outside upper right", ncols=6, title=title)
