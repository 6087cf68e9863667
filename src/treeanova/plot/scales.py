"""Scales: limits, ticks and names of a feature's axis, and the strip that shows the distribution of the data."""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.dates import AutoDateLocator, get_epoch, num2date
from matplotlib.ticker import MaxNLocator, NullLocator

from treeanova import views
from treeanova.core.arrays import Floats
from treeanova.data.features import days_of, numbers_of_days
from treeanova.plot import style
from treeanova.plot.axes import AxisDrawing
from treeanova.plot.style import (
    CHARACTER_WIDTH,
    bin_names,
    font_size,
    n_characters_along,
    number_labels,
    percent,
    plain,
    wrapped,
)

_PARTS = 6
_WIDTH, _CHARACTER, _SPACE = 0.4, 0.085, 0.25  # of a short label, of a character and between labels, in inches
_LAST_DAY = 2_900_000  # within the calendar
_FORMS = (("%Y", "Y"), ("%Y-%m", "M"), ("%Y-%m-%d", "D"), ("%m-%d %H:%M", "m"), ("%H:%M:%S", "s"))


def date_ticks(drawing: AxisDrawing, last: float, inch: float) -> list[float]:
    """Numbers of round dates up to a position on the axis, with room for their labels, in ascending order."""
    if drawing.scale.is_linear:
        return next(ticks for ticks in _even_dates(drawing, last, inch) if _has_room(drawing, ticks, inch))
    taken: list[float] = []
    for tick in _dates_of_parts(drawing, last):
        together = sorted([*taken, tick])
        if tick not in taken and _has_room(drawing, together, inch):
            taken = together
    return taken


def _even_dates(drawing: AxisDrawing, last: float, inch: float) -> Iterator[list[float]]:
    """Round dates at equal distances, the closest ones first; then fewer of these, in the end a single one, or none."""
    most = max(2, int((drawing.high - drawing.low) / (_WIDTH * inch)))
    ends = drawing.low, drawing.high
    closest = _inside(drawing, last, _round_dates(drawing, ends, most))
    yield closest
    yield from (_inside(drawing, last, _round_dates(drawing, ends, n_ticks)) for n_ticks in range(most - 1, 1, -1))
    yield from (closest[::step] for step in range(2, len(closest)))
    yield closest[:1]


def _dates_of_parts(drawing: AxisDrawing, last: float) -> Iterator[float]:
    """Round dates of the whole axis, then those of its parts."""
    yield from _inside(drawing, last, _round_dates(drawing, (drawing.low, drawing.high), 4))
    for ends in itertools.pairwise(drawing.evenly(_PARTS).tolist()):
        yield from _inside(drawing, last, _round_dates(drawing, ends, 2))


def _inside(drawing: AxisDrawing, last: float, ticks: Sequence[float]) -> list[float]:
    return [tick for tick in ticks if drawing.low <= tick <= drawing.high and drawing.scale.forward(tick) <= last]


def _has_room(drawing: AxisDrawing, ticks: Sequence[float], inch: float) -> bool:
    """Whether the labels of ticks do not touch."""
    longest = max(map(len, date_labels(ticks, drawing.date_unit)), default=0)
    gaps = np.diff(drawing.scale.forward(np.array(ticks)))
    return bool(gaps.min(initial=np.inf) >= (_CHARACTER * longest + _SPACE) * inch)


def _round_dates(drawing: AxisDrawing, ends: tuple[float, float], n_ticks: int) -> list[float]:
    """Numbers of at most about `n_ticks` round dates between two numbers."""
    low, high = np.clip(days_of(ends, drawing.date_unit), -_LAST_DAY / 4, _LAST_DAY)
    if not high > low:
        return []
    shift = np.datetime64(get_epoch(), "D").astype(np.int64)  # matplotlib counts days from its own epoch
    locator = AutoDateLocator(minticks=max(2, n_ticks - 2), maxticks=n_ticks)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="AutoDateLocator was unable")  # too many ticks, which have no room
        days = np.asarray(locator.tick_values(num2date(low - shift), num2date(high - shift))) + shift
    return [float(number) for number in numbers_of_days(days, drawing.date_unit)]


def date_labels(ticks: Sequence[float], unit: str) -> list[str]:
    """Dates as text: years only where all begin a year, days only where none has a time of day."""
    days: Floats = days_of(ticks, unit)
    moments = np.rint(days * 86_400).astype("datetime64[s]")
    fitting = (
        form
        for form, resolution in _FORMS
        if (moments.astype(f"datetime64[{resolution}]").astype("datetime64[s]") == moments).all()
    )
    form = next(fitting)
    return [moment.item().strftime(form) for moment in moments]


_ENOUGH, _FEW_DIGITS = 4, 2  # with so many ticks, others have so many digits at most
_SMALLEST = 1e-6  # relative to the range; libraries write "above zero" as a tiny threshold


def spread_ticks(drawing: AxisDrawing, last: float, room: float) -> list[float]:
    """Round numbers up to a position, the roundest first, each with room to the others; in ascending order.

    The model cannot distinguish numbers within an interval: where widths follow the data, each has one tick at most.
    """
    taken: dict[float, float] = {}
    intervals: set[int] = set()
    for tick in _candidates(drawing):
        if len(taken) >= _ENOUGH and _n_digits(tick) > _FEW_DIGITS:
            break
        place = float(drawing.scale.forward(tick))
        interval = int(np.searchsorted(drawing.edges, tick)) if drawing.scale.kind == "quantile" else len(taken)
        is_inside = drawing.low <= tick <= drawing.high and place <= last and interval not in intervals
        if is_inside and all(abs(place - other) >= room for other in taken.values()):
            taken[tick] = place
            intervals.add(interval)
    return sorted(taken)


def _candidates(drawing: AxisDrawing) -> Iterator[float]:
    """Zero, powers of ten, twice and five times these, then round numbers of the axis and of its parts."""
    yield 0.0
    span = drawing.high - drawing.low
    sizes = [size for size in np.abs(drawing.edges[: drawing.n_regular + 1]) if size > _SMALLEST * span]
    powers = range(math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes))) + 1)
    for factor, power, sign in itertools.product((1.0, 2.0, 5.0), powers, (1, -1)):
        yield sign * float(f"{factor}e{power}")
    yield from map(float, MaxNLocator(nbins=5, steps=(1, 2, 5, 10)).tick_values(drawing.low, drawing.high))
    parts = [(low, high) for low, high in itertools.pairwise(drawing.evenly(_PARTS)) if high - low > _SMALLEST * span]
    finer = [map(float, MaxNLocator(nbins=3, steps=(1, 2, 5, 10)).tick_values(low, high)) for low, high in parts]
    yield from sorted(itertools.chain.from_iterable(finer), key=lambda tick: (_n_digits(tick), tick))


def _n_digits(number: float) -> int:
    return len(f"{abs(number):.12f}".replace(".", "").strip("0"))


def short_number(number: float) -> str:
    """A round number as people write it: "0.05", "200", "50000", "2e6"."""
    if number and not 1e-4 <= abs(number) < 1e6:
        mantissa, _, power = f"{number:.9e}".partition("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    else:
        text = f"{number:.10f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")


STRIP = 0.13  # height of the strip of data, relative to the axes
_STRIP_BARS = 48
_SMALLEST_FONT = 5.0
_LONGEST_LABEL = 28
_LABEL_SHARE = 0.36  # of the width of the axes
_TICK_STEPS = (1, 2, 2.5, 5, 10)


# Names.


def name_feature(ax: Any, drawing: AxisDrawing, which: str) -> None:
    """Write the feature along an axis, with the share of the data beyond its ends."""
    words = wrapped(drawing.name, n_characters_along(ax, which))
    notes = [drawing.scale.words]
    if drawing.beyond > 0 and drawing.is_numeric:
        notes.append(f"at most {percent(drawing.beyond)} of the data beyond")
    if any(notes):
        words += "\n" + wrapped(f"({'; '.join(filter(None, notes))})", n_characters_along(ax, which))
    getattr(ax, f"set_{which}label")(words)


def name_effect(ax: Any, words: str, which: str) -> None:
    """Write along an axis what its values mean; below bars to the right, since names to their left take room."""
    label = wrapped(words, n_characters_along(ax, which), n_lines=4)
    getattr(ax, f"set_{which}label")(label, **({"loc": "right"} if which == "x" else {}))
    if which == "x":
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=_TICK_STEPS))


# Limits and ticks.


def set_scale(ax: Any, drawing: AxisDrawing, which: str, masses: Floats | None = None) -> None:
    """Limits and ticks of a feature's axis; `masses` are written under the extra cells."""
    if not drawing.scale.is_linear:
        getattr(ax, f"set_{which}scale")("function", functions=(drawing.scale.forward, drawing.scale.inverse))
    pad = 0.0 if drawing.is_numeric else 0.1
    getattr(ax, f"set_{which}lim")(drawing.edges[0] - pad, drawing.edges[-1] + pad)
    if drawing.is_numeric:
        _set_numeric_ticks(ax, drawing, which, masses)
    else:
        _set_category_ticks(ax, drawing, which)


def _set_numeric_ticks(ax: Any, drawing: AxisDrawing, which: str, masses: Floats | None) -> None:
    if not len(drawing.extra) and drawing.scale.is_linear and not drawing.date_unit:
        axis = getattr(ax, f"{which}axis")
        axis.set_major_locator(MaxNLocator(nbins="auto", steps=_TICK_STEPS))
        return
    ticks = _ticks_before_extra(ax, drawing, which)
    shares = ["" if masses is None else f"\n{percent(masses[cell])}" for cell in drawing.extra]
    words = [f"{name}{share}" for name, share in zip(drawing.labels, shares, strict=True)]
    getattr(ax, f"set_{which}ticks")(
        [*ticks, *drawing.centres[drawing.extra]], labels=[*_labels(drawing, ticks), *map(plain, words)]
    )
    getattr(ax, f"{which}axis").set_minor_locator(NullLocator())


def _labels(drawing: AxisDrawing, ticks: list[float]) -> list[str]:
    if drawing.date_unit:
        return date_labels(ticks, drawing.date_unit)
    return number_labels(ticks) if drawing.scale.is_linear else [short_number(tick) for tick in ticks]


def _ticks_before_extra(ax: Any, drawing: AxisDrawing, which: str) -> list[float]:
    """Round numbers that leave room for the labels of extra cells."""
    extent = ax.get_window_extent()
    inches = (extent.width if which == "x" else 6 * extent.height) / ax.figure.dpi
    places = drawing.scale.forward(drawing.edges)
    last = places[-1]
    if len(drawing.extra):
        last = drawing.scale.forward(drawing.centres[drawing.extra[0]]) - 0.75 * (last - places[0]) / inches
    last, inch = min(last, places[drawing.n_regular]), (places[-1] - places[0]) / inches
    if drawing.date_unit:
        return date_ticks(drawing, last, inch)
    if not drawing.scale.is_linear:
        return spread_ticks(drawing, last, room=0.6 * inch)
    candidates = MaxNLocator(nbins=5, steps=_TICK_STEPS).tick_values(drawing.low, drawing.high)
    return [tick for tick in candidates if drawing.low <= tick <= min(last, drawing.high)]


def _set_category_ticks(ax: Any, drawing: AxisDrawing, which: str) -> None:
    shown = np.flatnonzero(drawing.filled)
    extent = ax.get_window_extent()
    points = (extent.height if which == "y" else extent.width) / ax.figure.dpi * 72
    size = font_size(mpl.rcParams[f"{which}tick.labelsize"])
    size = max(_SMALLEST_FONT, min(size, 0.8 * points / max(len(shown), 1)))
    shown = shown[:: max(1, math.ceil(1.15 * size * len(shown) / points))]
    longest = int(min(_LONGEST_LABEL, _LABEL_SHARE * extent.width / ax.figure.dpi * 72 / (CHARACTER_WIDTH * size)))
    n_characters = sum(min(len(drawing.labels[i]), longest) for i in shown)
    is_upright = which == "y" or n_characters * 0.6 * size < points
    options: dict[str, Any] = {} if is_upright else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    labels = bin_names([drawing.labels[i] for i in shown], longest)
    getattr(ax, f"set_{which}ticks")(drawing.centres[shown], labels=labels, fontsize=size, **options)
    ax.tick_params(axis=which, length=0)


def set_value_limits(ax: Any, which: str, low: float, high: float, *, strip: bool) -> None:
    """Limits of the axis of values: they contain zero, a margin, and room for the strip of data."""
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0
    below = (STRIP + 0.03) / (1 - STRIP - 0.03) * 1.1 if strip else 0.05
    getattr(ax, f"set_{which}lim")(low - below * span, high + 0.06 * span)


# The distribution of the data.


def draw_interval_strip(ax: Any, drawing: AxisDrawing, weights: Floats) -> None:
    """Draw how the weight is spread over a numeric axis along the foot of the plot."""
    points = drawing.evenly(_STRIP_BARS)
    heights = drawing.spread(weights, points)
    if not heights.max(initial=0.0) > 0:
        return
    foot = ax.get_xaxis_transform()
    _name_data(ax, 0.008, 0.01)
    ax.stairs(STRIP * heights / heights.max(), points, fill=True, transform=foot, **_strip_look())
    extra = drawing.extra
    if len(extra):
        widths = np.diff(drawing.edges)[extra]
        drawn = drawing.widths
        bar = drawn[: drawing.n_regular].sum() / _STRIP_BARS
        tall = STRIP * np.minimum(drawing.masses(weights)[extra] * bar / drawn[extra] / heights.max(), 1)
        ax.bar(drawing.centres[extra], tall, 0.7 * widths, transform=foot, **_strip_look())


def draw_category_strip(ax: Any, drawing: AxisDrawing, weights: Floats) -> None:
    """Draw the weight of each category along the left side of the plot."""
    masses = drawing.masses(weights)
    if not masses.max(initial=0.0) > 0:
        return
    _name_data(ax, 0.008, 1.0)
    shown = drawing.filled
    lengths = STRIP * masses[shown] / masses.max()
    ax.barh(drawing.centres[shown], lengths, 0.8, transform=ax.get_yaxis_transform(), **_strip_look())


def _strip_look() -> dict[str, Any]:
    return {"color": style.faint(views.DATA), "alpha": 0.6, "zorder": 0, "linewidth": 0, "label": "_data"}


def _name_data(ax: Any, x: float, y: float) -> None:
    """Name the grey area where there is room for it."""
    if ax.get_window_extent().width / ax.figure.dpi > 4:
        ink = mpl.rcParams["text.color"]
        ax.text(x, y, "data", transform=ax.transAxes, va="bottom", fontsize="x-small", color=ink, alpha=0.7, zorder=1)
