"""effect(): one main effect as steps or bars, over the distribution of the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova import views
from treeanova.core.arrays import Floats
from treeanova.decomposition.decomposition import Decomposition
from treeanova.model.axes import Axis
from treeanova.plot import scales, style
from treeanova.plot.axes import AxisDrawing, AxisScale, Ends, Extras, draw_axis, extras_with_weight, scale_and_ends
from treeanova.plot.choices import (
    Band,
    Errors,
    KeyLike,
    band_of,
    check_order,
    checked_decomposition,
    data_ends,
    of_output,
    output_position,
    term_of,
    value_words,
)
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


_BAR_HEIGHT = 0.26  # in inches
_MOST_BARS = 60  # unless a number is asked for
_BARS_PER_CATEGORY = 0.8  # height of all bars of a category, relative to its room


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """One main effect to draw: its bins, values, weights, band of errors and colour."""

    name: str
    axis: Axis
    values: Floats
    weights: Floats
    colour: Any
    band: Band | None = None
    ends: Ends | None = None


@dataclasses.dataclass(frozen=True)
class MainOptions:
    """How main effects are drawn; see `effect`. Where `distributions` are given, they replace that of the data."""

    limits: Ends | None = None
    extras: bool | None = None
    order: str = "auto"
    max_bars: int | None = None
    data: bool = True
    x_scale: str = "linear"
    legend: bool = True
    distributions: tuple[Distribution, ...] = ()


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
    """Axes with one main effect: steps at the model's own thresholds, or bars for categories.

    A grey area shows how the data (the weights of the density) are spread along the same axis.

    Parameters
    ----------
    fx
        The decomposition.
    key
        Name of the feature.
    output
        Name or position of a class or target; by default all of them, in one frame.
    scale
        "score", on which terms add up. "response" is an aid for reading, for models with the link "logit", "log" or
        "softmax": what this term alone changes in the response, all other terms being at zero, their average. The axis
        label says the response at that point. Such changes do not add up. "probability" is the same for classifiers.
    errors
        A `Bag`, its ``standard_errors()``, or those of ``fx.standard_errors()``, which are due to the density alone;
        drawn as a band of two standard errors on either side.
    limits
        Ends of a numeric axis. By default the axis reaches a little beyond the outermost thresholds. Long tails with
        next to no data are cut; the axis label then says how much of the data may lie beyond.
    x_scale
        How numbers are spread along the axis: "linear"; "log", which for numbers of both signs or with zeros is linear
        around zero; or "quantile", which makes every interval as wide as its share of the data. The last two show long
        tails without cutting them.
    extras
        Whether missing and unseen values are shown, apart from the others; by default where the data have some.
    order
        Order of categories: "auto" (by number where labels begin with one, else by value), "given", "name", "value" or
        "weight" (those with most data first).
    max_bars
        Number of bars for categories; those with the least data share the last, which says how many they are. At most
        60 by default.
    data
        Whether to show how the data are spread.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the decomposition has no main effect of that name, or the model no such scale.

    Examples
    --------
    The main effect is -0.25 at 0 and 0.25 at 1:

    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.effect(fx, "x0", limits=(-1, 2), data=False)
    >>> steps = ax.patches[0].get_data()
    >>> steps.values.tolist(), steps.edges.round(6).tolist()
    ([-0.25, 0.25], [-1.0, 0.5, 2.0])
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'change in prediction against the average')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    series = main_series(checked_decomposition(fx), key, output, errors, scale)
    words = value_words(fx, fx.outputs.index(series[0].name) if len(series) == 1 else None, scale)
    return draw_mains(series, words, MainOptions(limits, extras, order, max_bars, data, x_scale), ax)


def main_series(
    fx: Decomposition,
    key: KeyLike,
    output: str | int | None,
    errors: Errors | None,
    scale: str = "score",
) -> list[Series]:
    """A main effect of one output, or of all where none is given."""
    check_order(key, 1, "use pair() for two features; terms of more features have no plot, see fx.importance()")
    term = term_of(fx, key, scale)
    band = band_of(errors, fx, term_of(fx, key), scale)
    outputs = range(len(fx.outputs)) if output is None else [output_position(fx, output)]
    return [
        Series(
            name=fx.outputs[k],
            axis=term.axes[0],
            values=of_output(fx, term.values, k),
            weights=term.weights,
            colour=style.tone(views.MAIN) if len(outputs) == 1 else style.series_colour(position),
            band=None if band is None else (of_output(fx, band[0], k), of_output(fx, band[1], k)),
            ends=data_ends(fx, term.features[0]),
        )
        for position, k in enumerate(outputs)
    ]


def draw_mains(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    """Axes with main effects of one feature in one frame."""
    draw = _draw_steps if series[0].axis.is_ordered else _draw_bars
    return draw(series, words, options, ax)


def _common_extras(series: Sequence[Series], options: MainOptions) -> Extras:
    """Which extra bins are drawn: those to which any of the series gives weight."""
    if options.extras is not None:
        return options.extras
    return frozenset[str]().union(*(extras_with_weight(one.axis, one.weights) for one in series))


def _span(series: Sequence[Series], drawings: Sequence[AxisDrawing]) -> Ends:
    """Lowest and highest value that is drawn, bands included."""
    ends = []
    for one, drawing in zip(series, drawings, strict=True):
        low, high = (drawing.values(end, one.weights) for end in one.band or (one.values, one.values))
        ends += [np.nanmin(low), np.nanmax(high)]
    return float(min(ends)), float(max(ends))


# Numbers: steps.


def _draw_steps(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    ax = style.checked_axes(ax, 6.4, 4.0)
    entries = [(one.axis, one.weights, one.ends) for one in series]
    scale, limits = scale_and_ends(options.x_scale, entries, options.limits, "x_scale")
    extras = _common_extras(series, options)
    drawings = [draw_axis(one.axis, one.weights, limits=limits, scale=scale, extras=extras) for one in series]
    weights, drawing = series[0].weights, drawings[0]
    style.zero_line(ax, "y")
    handles = [_draw_curve(ax, *pair) for pair in zip(series, drawings, strict=True)]
    if options.distributions:
        handles += draw_interval_distributions(ax, options.distributions, limits=limits, scale=scale, extras=extras)
    elif options.data:
        scales.draw_interval_strip(ax, drawing, weights)
    scales.set_scale(ax, drawing, "x", drawing.masses(weights))
    scales.set_value_limits(ax, "y", *_span(series, drawings), strip=options.data)
    scales.name_feature(ax, drawing, "x")
    return _finish(ax, words, "y", handles if options.legend else [], _names(series, options))


def _draw_curve(ax: Any, one: Series, drawing: AxisDrawing) -> Any:
    """Draw the steps of one series, with its band and its extra cells."""
    values = drawing.values(one.values, one.weights)
    if one.band is not None:
        low, high = (drawing.values(end, one.weights) for end in one.band)
        filled = {"fill": True, "color": one.colour, "alpha": 0.22, "zorder": 2}
        ax.stairs(high, drawing.edges, baseline=low, **filled)
    extra = drawing.extra
    ax.plot(drawing.centres[extra], values[extra], "o", color=one.colour, markersize=5, zorder=3, label="_extra")
    return ax.stairs(values, drawing.edges, baseline=None, color=one.colour, linewidth=1.8, zorder=3)


# Categories: bars.


def _draw_bars(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    if options.x_scale != "linear":
        scale_and_ends(options.x_scale, [(series[0].axis, series[0].weights, None)], None, "x_scale")  # raises
    drawing = _drawing_of_bars(series, options)
    n_bars = int(drawing.filled.sum()) * (1 if len(series) == 1 else 0.45 * len(series) + 0.55)
    ax = style.checked_axes(ax, 6.4, max(2.6, 1.1 + _BAR_HEIGHT * n_bars))
    style.zero_line(ax, "x")
    handles = [_draw_series_bars(ax, series, i, drawing) for i in range(len(series))]
    if options.distributions:
        handles += draw_category_distributions(ax, options.distributions, drawing)
    elif options.data:
        scales.draw_category_strip(ax, drawing, series[0].weights)
    scales.set_scale(ax, drawing, "y")
    ax.invert_yaxis()
    scales.set_value_limits(ax, "x", *_span(series, [drawing] * len(series)), strip=options.data)
    scales.name_feature(ax, drawing, "y")
    return _finish(ax, words, "x", handles if options.legend else [], _names(series, options))


def _drawing_of_bars(series: Sequence[Series], options: MainOptions) -> AxisDrawing:
    """One drawing for all series, with categories sorted by the last of them."""
    first = series[0]
    for one in series:
        if one.axis.labels != first.axis.labels:
            raise ValueError(
                f"`decompositions` must have the same categories of {first.axis.name!r}, got {_listed(first.axis)} and "
                f"{_listed(one.axis)}; plot each with effect()."
            )
    return draw_axis(
        first.axis,
        first.weights,
        values=series[-1].values,
        extras=_common_extras(series, options),
        order=options.order,
        max_bars=options.max_bars or _MOST_BARS,
    )


def _listed(axis: Axis) -> str:
    return ", ".join(axis.labels[:6]) + (", …" if axis.size > 6 else "")


def _draw_series_bars(ax: Any, series: Sequence[Series], position: int, drawing: AxisDrawing) -> Any:
    """Draw the bars of one of several series; those of categories without weight are hatched."""
    one, shown = series[position], drawing.filled
    values = drawing.values(one.values, one.weights)
    height = _BARS_PER_CATEGORY / len(series)
    offset = (position - (len(series) - 1) / 2) * height
    bars = ax.barh(
        drawing.centres[shown] + offset,
        values[shown],
        height * (1 if len(series) == 1 else 0.92),
        color=one.colour,
        xerr=None if one.band is None else _lengths(one, drawing, values)[:, shown],
        ecolor=style.tone(views.RAW),
        zorder=3,
    )
    for bar, mass in zip(bars, drawing.masses(one.weights)[shown], strict=True):
        if mass == 0:
            bar.set(alpha=0.4, hatch="////", linewidth=0)
    return bars


def _lengths(one: Series, drawing: AxisDrawing, values: Floats) -> Floats:
    """How far the band of a series reaches below and above its values."""
    low, high = (drawing.values(end, one.weights) for end in one.band or (one.values, one.values))
    return np.stack([values - low, high - values])


def _names(series: Sequence[Series], options: MainOptions) -> list[str]:
    """Names of all that a legend explains, in the order in which it is drawn."""
    return [*(one.name for one in series), *(one.name for one in options.distributions)]


def _finish(ax: Any, words: str, which: str, handles: Sequence[Any], names: Sequence[str]) -> Any:
    """Name the values, tidy the frame, and name what is drawn where that is several things."""
    scales.name_effect(ax, words, which)
    style.tidy(ax)
    if len(names) > 1 and handles:
        above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": min(len(names), 4)}
        style.legend(ax, handles, names, **(above if which == "x" else {"loc": "best"}))
    return ax
