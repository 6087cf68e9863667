"""effect(): one main effect as steps or bars, over the distribution of the data."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.decomposition.decomposition import Decomposition
from treeanova.model.axes import Axis, IntervalAxis
from treeanova.plot import style
from treeanova.plot.choices import (
    Key,
    check_order,
    checked_decomposition,
    ends_of,
    errors_of,
    output_of,
    term_of,
    values_of,
)
from treeanova.plot.layout import Ends, Extras, Layout, layout_of, range_of, with_weight
from treeanova.views import look

_BAR_HEIGHT = 0.26
_BARS = 0.8  # of the room of a category


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """One main effect to draw: its bins, values, weights, standard errors and colour."""

    name: str
    axis: Axis
    values: Floats
    weights: Floats
    colour: Any
    errors: Floats | None = None
    ends: tuple[float, float] | None = None


@dataclasses.dataclass(frozen=True)
class MainOptions:
    """How main effects are drawn; see `effect`."""

    limits: tuple[float, float] | None = None
    extras: bool | None = None
    order: str = "auto"
    max_bars: int | None = None
    data: bool = True
    legend: bool = True


def effect(
    fx: Decomposition,
    key: Key,
    *,
    output: str | int | None = None,
    errors: Mapping[Any, Floats] | None = None,
    limits: tuple[float, float] | None = None,
    extras: bool | None = None,
    order: str = "auto",
    max_bars: int | None = None,
    data: bool = True,
    ax: Any = None,
) -> Any:
    """Axes with a main effect: steps at the model's own bounds, or bars of categories.

    The grey area tells how the data (the weights of the density) are spread along the same axis.

    Parameters
    ----------
    fx, key
        The decomposition, and the name of a feature.
    output
        Name or position of a class or target; by default all of them, in one frame.
    errors
        What ``fx.standard_errors()`` returned: drawn as a band of two standard errors on either side.
    limits
        Ends of a numeric axis. By default it reaches a little beyond the outermost bounds, except that long tails with
        next to no data are cut; the axis says then how much of the data may lie beyond.
    extras
        Whether missing and unseen values are shown, apart from the others; by default where the data have some.
    order
        Of categories: "auto" (by number where labels have one, else by value), "given", "value" or "weight".
    max_bars
        Number of bars for categories; those with the least data share the last. By default all have their own.
    data
        Whether to show how the data are spread.
    ax
        Axes to draw on; by default those of a new figure.
    """
    series = main_series(checked_decomposition(fx), key, output, errors)
    words = look.effect_words(fx.schema, series[0].name if len(series) == 1 else None)
    return draw_mains(series, words, MainOptions(limits, extras, order, max_bars, data), ax)


def main_series(
    fx: Decomposition, key: Key, output: str | int | None, errors: Mapping[Any, Floats] | None
) -> list[Series]:
    """A main effect of one output, or of all where none is given."""
    check_order(key, 1, "use pair() for two features; terms of more have no plot, see fx.importance()")
    term = term_of(fx, key)
    deviations = errors_of(errors, term)
    outputs = range(len(fx.schema.outputs)) if output is None else [output_of(fx, output)]
    return [
        Series(
            name=fx.schema.outputs[k],
            axis=term.axes[0],
            values=values_of(fx, term.values, k),
            weights=term.weights,
            colour=style.tone(look.MAIN) if len(outputs) == 1 else style.series_colour(position),
            errors=None if deviations is None else values_of(fx, deviations, k),
            ends=ends_of(fx, term.features[0]),
        )
        for position, k in enumerate(outputs)
    ]


def draw_mains(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    """Axes with main effects of one feature in one frame."""
    draw = _draw_steps if isinstance(series[0].axis, IntervalAxis) else _draw_bars
    return draw(series, words, options, ax)


# Numbers: steps.


def _draw_steps(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    ax = style.checked_axes(ax, 6.4, 4.0)
    limits, extras = _common_limits(series, options), _common_extras(series, options)
    layouts = [layout_of(one.axis, one.weights, limits=limits, extras=extras) for one in series]
    first, layout = series[0], layouts[0]
    style.zero_line(ax, "y")
    steps = [_steps(ax, one, own) for one, own in zip(series, layouts, strict=True)]
    if options.data:
        style.interval_strip(ax, layout, first.weights)
    style.set_scale(ax, layout, "x", layout.masses(first.weights))
    style.make_room(ax, "y", *_span(series, layouts), strip=options.data)
    style.name_feature(ax, layout, "x")
    return _finish(ax, words, "y", steps if options.legend else [], series)


def _common_limits(series: Sequence[Series], options: MainOptions) -> tuple[float, float] | None:
    """The limits asked for, or those that hold the ranges of all."""
    if options.limits is not None:
        return checked_limits(options.limits)
    return common_range([(one.axis, one.weights, one.ends) for one in series])


def common_range(axes: Sequence[tuple[Axis, Floats, Ends]]) -> Ends:
    """Ends that hold the ranges of several axes of a feature; None where it is a category."""
    intervals = [(axis, weights, ends) for axis, weights, ends in axes if isinstance(axis, IntervalAxis)]
    if not intervals:
        return None
    ranges = [range_of(axis, weights, ends) for axis, weights, ends in intervals if len(axis.bounds)]
    ranges = ranges or [range_of(*intervals[0])]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def checked_limits(limits: Any) -> tuple[float, float]:
    """Two finite numbers in ascending order."""
    ends = tuple(float(end) for end in limits)
    if len(ends) != 2 or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(f"`limits` must be two numbers, the lower first, got {limits!r}; leave them out for all data.")
    return ends[0], ends[1]


def _common_extras(series: Sequence[Series], options: MainOptions) -> Extras:
    """Which of missing and unseen are drawn: those where any of the series has weight."""
    if options.extras is not None:
        return options.extras
    return frozenset[str]().union(*(with_weight(one.axis, one.weights) for one in series))


def _steps(ax: Any, one: Series, layout: Layout) -> Any:
    values = layout.values(one.values, one.weights)
    if one.errors is not None:
        band = 2 * layout.values(one.errors, one.weights)
        ax.stairs(
            values + band, layout.edges, baseline=values - band, fill=True, color=one.colour, alpha=0.22, zorder=2
        )
    extra = layout.extra
    ax.plot(layout.centres[extra], values[extra], "o", color=one.colour, markersize=5, zorder=3, label="_extra")
    return ax.stairs(values, layout.edges, baseline=None, color=one.colour, linewidth=1.8, zorder=3)


def _span(series: Sequence[Series], layouts: Sequence[Layout]) -> tuple[float, float]:
    """Lowest and highest value that is drawn, bands included."""
    ends = []
    for one, layout in zip(series, layouts, strict=True):
        values = layout.values(one.values, one.weights)
        band = 0.0 if one.errors is None else 2 * layout.values(one.errors, one.weights)
        ends += [np.nanmin(values - band), np.nanmax(values + band)]
    return float(min(ends)), float(max(ends))


# Categories: bars.


def _draw_bars(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    layout = _bar_layout(series, options)
    n_bars = int(layout.filled.sum()) * (1 if len(series) == 1 else 0.45 * len(series) + 0.55)
    ax = style.checked_axes(ax, 6.4, max(2.6, 1.1 + _BAR_HEIGHT * n_bars))
    style.zero_line(ax, "x")
    height = _BARS / len(series)
    bars = [
        _bars(ax, one, layout, (i - (len(series) - 1) / 2) * height, height * (1 if len(series) == 1 else 0.92))
        for i, one in enumerate(series)
    ]
    if options.data:
        style.category_strip(ax, layout, series[0].weights)
    style.set_scale(ax, layout, "y")
    ax.invert_yaxis()
    style.make_room(ax, "x", *_span(series, [layout] * len(series)), strip=options.data)
    style.name_feature(ax, layout, "y")
    return _finish(ax, words, "x", bars if options.legend else [], series)


def _bar_layout(series: Sequence[Series], options: MainOptions) -> Layout:
    """One layout for all: categories sorted by the last series, which is the one that is argued for."""
    first = series[0]
    if any(one.axis.labels != first.axis.labels for one in series):
        name = first.axis.name
        raise ValueError(
            f"`decompositions` must have the same categories of {name!r}, got others; plot each with effect()."
        )
    return layout_of(
        first.axis,
        first.weights,
        values=series[-1].values,
        extras=_common_extras(series, options),
        order=options.order,
        max_bars=options.max_bars,
    )


def _bars(ax: Any, one: Series, layout: Layout, offset: float, height: float) -> Any:
    shown = layout.filled
    values = layout.values(one.values, one.weights)[shown]
    band = None if one.errors is None else 2 * layout.values(one.errors, one.weights)[shown]
    bars = ax.barh(
        layout.centres[shown] + offset,
        values,
        height,
        color=one.colour,
        xerr=band,
        ecolor=style.tone(look.RAW),
        zorder=3,
    )
    for bar, mass in zip(bars, layout.masses(one.weights)[shown], strict=True):
        if mass == 0:
            bar.set(alpha=0.4, hatch="////", linewidth=0)
    return bars


def _finish(ax: Any, words: str, which: str, drawn: Sequence[Any], series: Sequence[Series]) -> Any:
    """Name the values, take away the frame, and name the series where there are several."""
    style.name_effect(ax, words, which)
    style.tidy(ax)
    if len(series) > 1 and drawn:
        above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": min(len(series), 4)}
        style.legend(ax, drawn, [one.name for one in series], **(above if which == "x" else {"loc": "best"}))
    return ax
