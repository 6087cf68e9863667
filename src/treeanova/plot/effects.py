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
from treeanova.plot import choices, scales, style
from treeanova.plot.axes import AxisDrawing, Ends, Extras, draw_axis, extras_with_weight, scale_and_ends
from treeanova.plot.choices import Band, Errors, KeyLike
from treeanova.plot.scales import Distribution
from treeanova.plot.style import documented

_BAR_HEIGHT = 0.26  # in inches
_MOST_BARS = 60  # unless a number is asked for
_BARS_PER_CATEGORY = 0.8  # height of all bars of a category, relative to its room


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    name: str
    axis: Axis
    values: Floats
    weights: Floats
    colour: Any
    band: Band | None = None
    ends: Ends | None = None

    def shown(self, drawing: AxisDrawing) -> tuple[Floats, Floats, Floats]:
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

    def spread_of(self, first: Series) -> tuple[Distribution, ...]:
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
        Name of the feature.
    output
        Name or position of a class or target; by default all of them, in one frame.
    scale
        "score", on which terms add up. "response" is for display only, for models with the link "logit", "log" or
        "softmax": what this term alone changes in the response if all other terms are zero, their average. The axis
        label says the response at that point. Such changes do not add up. "probability" is the same for classifiers.
    errors
        A `Bag`, its ``standard_errors()``, or those of ``fx.standard_errors()``, which are due to the density alone;
        drawn as a band of two standard errors on either side.
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
    """
    series = main_series(choices.checked_decomposition(fx), key, output, errors, scale)
    words = choices.value_words(fx, fx.outputs.index(series[0].name) if len(series) == 1 else None, scale)
    options = MainOptions(limits, extras, order, max_bars, data, x_scale, in_percent=choices.is_probability(fx, scale))
    return draw_mains(series, words, options, ax)


def main_series(
    fx: Decomposition,
    key: KeyLike,
    output: str | int | None,
    errors: Errors | None,
    scale: str = "score",
) -> list[Series]:
    choices.check_order(key, 1, "use pair() for two features; terms of more features have no plot, see fx.importance()")
    term = choices.term_of(fx, key, scale)
    band = choices.band_of(errors, fx, choices.term_of(fx, key), scale)
    outputs = range(len(fx.outputs)) if output is None else [choices.output_position(fx, output)]
    return [
        Series(
            name=fx.outputs[k],
            axis=term.axes[0],
            values=choices.of_output(fx, term.values, k),
            weights=term.weights,
            colour=style.tone(views.MAIN) if len(outputs) == 1 else style.series_colour(position),
            band=None if band is None else (choices.of_output(fx, band[0], k), choices.of_output(fx, band[1], k)),
            ends=choices.data_ends(fx, term.features[0]),
        )
        for position, k in enumerate(outputs)
    ]


def draw_mains(series: Sequence[Series], words: str, options: MainOptions, ax: Any) -> Any:
    is_ordered = series[0].axis.is_ordered
    ax, handles = (_draw_steps if is_ordered else _draw_bars)(series, options, ax)
    which = "y" if is_ordered else "x"
    scales.name_effect(ax, words, which)
    if options.in_percent:
        getattr(ax, f"{which}axis").set_major_formatter(style.percent_tick)
    style.tidy(ax)
    names = [*(one.name for one in series), *(one.name for one in options.distributions)]
    if options.legend and len(names) > 1:
        above: dict[str, Any] = {"loc": "lower right", "bbox_to_anchor": (1.0, 1.0), "ncols": min(len(names), 4)}
        is_inside = is_ordered and not options.distributions
        style.legend(ax, handles[: len(names)], names, **({"loc": "best"} if is_inside else above))
    return ax


def _common_extras(series: Sequence[Series], options: MainOptions) -> Extras:
    if options.extras is not None:
        return options.extras
    return frozenset[str]().union(*(extras_with_weight(one.axis, one.weights) for one in series))


def _set_value_limits(
    ax: Any, which: str, series: Sequence[Series], drawings: Sequence[AxisDrawing], *, strip: bool
) -> None:
    shown = [end for one, drawing in zip(series, drawings, strict=True) for end in one.shown(drawing)[1:]]
    low, high = min(map(np.nanmin, shown)), max(map(np.nanmax, shown))
    scales.set_value_limits(ax, which, float(low), float(high), strip=strip)


# Numbers: steps.


def _draw_steps(series: Sequence[Series], options: MainOptions, ax: Any) -> tuple[Any, list[Any]]:
    ax = style.checked_axes(ax, 6.4, 4.0)
    entries = [(one.axis, one.weights, one.ends) for one in series]
    scale, limits = scale_and_ends(options.x_scale, entries, options.limits, "x_scale")
    extras = _common_extras(series, options)
    drawings = [draw_axis(one.axis, one.weights, limits=limits, scale=scale, extras=extras) for one in series]
    style.zero_line(ax, "y")
    handles = [_draw_curve(ax, one, drawing) for one, drawing in zip(series, drawings, strict=True)]
    if spread := options.spread_of(series[0]):
        handles += scales.draw_interval_distributions(ax, spread, limits=limits, scale=scale, extras=extras)
    scales.set_scale(ax, drawings[0], "x", drawings[0].masses(series[0].weights))
    _set_value_limits(ax, "y", series, drawings, strip=options.data)
    scales.name_feature(ax, drawings[0], "x")
    return ax, handles


def _draw_curve(ax: Any, one: Series, drawing: AxisDrawing) -> Any:
    values, low, high = one.shown(drawing)
    if one.band is not None:
        ax.stairs(high, drawing.edges, baseline=low, fill=True, color=one.colour, alpha=0.22, zorder=2)
    extra = drawing.extra
    ax.plot(drawing.centres[extra], values[extra], "o", color=one.colour, markersize=5, zorder=3, label="_extra")
    return ax.stairs(values, drawing.edges, baseline=None, color=one.colour, linewidth=1.8, zorder=3)


# Categories: bars.


def _draw_bars(series: Sequence[Series], options: MainOptions, ax: Any) -> tuple[Any, list[Any]]:
    if options.x_scale != "linear":
        scale_and_ends(options.x_scale, [(series[0].axis, series[0].weights, None)], None, "x_scale")  # raises
    drawing = _drawing_of_bars(series, options)
    n_bars = int(drawing.filled.sum()) * (1 if len(series) == 1 else 0.45 * len(series) + 0.55)
    ax = style.checked_axes(ax, 6.4, max(2.6, 1.1 + _BAR_HEIGHT * n_bars))
    style.zero_line(ax, "x")
    handles = [_draw_series_bars(ax, series, i, drawing) for i in range(len(series))]
    if spread := options.spread_of(series[0]):
        handles += scales.draw_category_distributions(ax, spread, drawing)
    scales.set_scale(ax, drawing, "y")
    ax.invert_yaxis()
    _set_value_limits(ax, "x", series, [drawing] * len(series), strip=options.data)
    scales.name_feature(ax, drawing, "y")
    return ax, handles


def _drawing_of_bars(series: Sequence[Series], options: MainOptions) -> AxisDrawing:
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
    one, cells = series[position], drawing.filled
    values, low, high = one.shown(drawing)
    height = _BARS_PER_CATEGORY / len(series)
    bars = ax.barh(
        drawing.centres[cells] + (position - (len(series) - 1) / 2) * height,
        values[cells],
        height * (1 if len(series) == 1 else 0.92),
        color=one.colour,
        xerr=None if one.band is None else np.stack([values - low, high - values])[:, cells],
        ecolor=style.tone(views.RAW),
        zorder=3,
    )
    for bar, mass in zip(bars, drawing.masses(one.weights)[cells], strict=True):
        if mass == 0:
            bar.set(alpha=0.4, hatch="////", linewidth=0)
    return bars
