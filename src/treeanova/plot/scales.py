"""Limits, ticks and names of a feature's axis, and the distributions of rows along it."""

from __future__ import annotations

import dataclasses
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
from treeanova.data.dates import days_since_1970, numbers_on_days
from treeanova.model.axes import Axis
from treeanova.plot import style
from treeanova.plot.axes import SCALE_WORDS, AxisDrawing, AxisScale, Ends, Extras, draw_axis
from treeanova.plot.style import n_characters_along, wrapped

STRIP = 0.13  # height of the distributions of rows, relative to the axes
_STRIP_BARS = 48
_SMALLEST_FONT = 5.0
_LONGEST_LABEL = 28
_LABEL_SHARE = 0.36  # of the width of the axes
_TICK_STEPS = (1, 2, 2.5, 5, 10)
_PIECES = 6  # of an axis that is not linear, each with round numbers of its own
_ENOUGH, _FEW_DIGITS = 4, 2  # with so many ticks, others have so many digits at most
_SMALLEST = 1e-6  # relative to the range; libraries write "above zero" as a tiny threshold
_WIDTH, _CHARACTER, _SPACE = 0.4, 0.085, 0.25  # of a short date, of a character and between labels, in inches
_LAST_DAY = 2_900_000  # within the calendar
_DATE_FORMS = (("%Y", "Y"), ("%Y-%m", "M"), ("%Y-%m-%d", "D"), ("%m-%d %H:%M", "m"), ("%H:%M:%S", "s"))


def name_feature(ax: Any, drawing: AxisDrawing, x_or_y: str) -> None:
    """Label an axis with its feature, its scale, and the share of the data beyond it."""
    words = wrapped(drawing.name, n_characters_along(ax, x_or_y))
    notes = [SCALE_WORDS[drawing.scale.kind]]
    if drawing.beyond > 0 and drawing.is_numeric:
        notes.append(f"at most {views.percent(drawing.beyond)} of the data beyond")
    if any(notes):
        words += "\n" + wrapped(f"({'; '.join(filter(None, notes))})", n_characters_along(ax, x_or_y))
    getattr(ax, f"set_{x_or_y}label")(words)


def name_effect(ax: Any, words: str, x_or_y: str) -> None:
    """Write along an axis what its values mean; below bars, on the right, because names take room on the left."""
    label = wrapped(words, n_characters_along(ax, x_or_y), n_lines=4)
    getattr(ax, f"set_{x_or_y}label")(label, **({"loc": "right"} if x_or_y == "x" else {}))
    if x_or_y == "x":
        ax.xaxis.set_major_locator(MaxNLocator(nbins=5, steps=_TICK_STEPS))


def set_scale(ax: Any, drawing: AxisDrawing, x_or_y: str, masses: Floats | None = None) -> None:
    """Set scale, limits and ticks of an axis; `masses` of cells are written below missing and unseen values."""
    if not drawing.scale.is_linear:
        getattr(ax, f"set_{x_or_y}scale")("function", functions=(drawing.scale.forward, drawing.scale.inverse))
    pad = 0.0 if drawing.is_numeric else 0.1
    getattr(ax, f"set_{x_or_y}lim")(drawing.edges[0] - pad, drawing.edges[-1] + pad)
    if drawing.is_numeric:
        _set_numeric_ticks(ax, drawing, x_or_y, masses)
    else:
        _set_category_ticks(ax, drawing, x_or_y)


def _set_numeric_ticks(ax: Any, drawing: AxisDrawing, x_or_y: str, masses: Floats | None) -> None:
    """Set ticks of numbers or dates, and of extra cells with their masses, in per cent, below their names."""
    if not len(drawing.extra_cells) and drawing.scale.is_linear and not drawing.date_unit:
        getattr(ax, f"{x_or_y}axis").set_major_locator(MaxNLocator(nbins="auto", steps=_TICK_STEPS))
        return
    ticks, labels = _ticks_before_extra(ax, drawing, x_or_y)
    shares = ["" if masses is None else f"\n{views.percent(masses[cell])}" for cell in drawing.extra_cells]
    words = [style.plain(f"{name}{share}") for name, share in zip(drawing.labels, shares, strict=True)]
    getattr(ax, f"set_{x_or_y}ticks")([*ticks, *drawing.centres[drawing.extra_cells]], labels=[*labels, *words])
    getattr(ax, f"{x_or_y}axis").set_minor_locator(NullLocator())


def _ticks_before_extra(ax: Any, drawing: AxisDrawing, x_or_y: str) -> tuple[list[float], list[str]]:
    """Return numbers and labels of ticks, with room before the first extra cell."""
    extent = ax.get_window_extent()
    inches = (extent.width if x_or_y == "x" else 6 * extent.height) / ax.figure.dpi
    positions = drawing.scale.forward(drawing.edges)
    inch = (positions[-1] - positions[0]) / inches  # on the scale
    last = positions[-1]
    if len(drawing.extra_cells):
        last = drawing.scale.forward(drawing.centres[drawing.extra_cells[0]]) - 0.75 * inch
    last = min(last, positions[drawing.n_regular])
    if drawing.date_unit:
        ticks = date_ticks(drawing, last, inch)
        return ticks, date_labels(ticks, drawing.date_unit)
    if not drawing.scale.is_linear:
        ticks = spread_ticks(drawing, last, room=0.6 * inch)
        return ticks, [short_number(tick) for tick in ticks]
    candidates = MaxNLocator(nbins=5, steps=_TICK_STEPS).tick_values(drawing.low, drawing.high)
    ticks = [tick for tick in candidates if drawing.low <= tick <= min(last, drawing.high)]
    return ticks, style.number_labels(ticks)


def _set_category_ticks(ax: Any, drawing: AxisDrawing, x_or_y: str) -> None:
    """Set labels of categories in a font that has room; only every n-th if it would be too small, slanted if long."""
    shown = np.flatnonzero(drawing.is_filled)
    extent = ax.get_window_extent()
    points = (extent.height if x_or_y == "y" else extent.width) / ax.figure.dpi * 72
    size = style.font_size(mpl.rcParams[f"{x_or_y}tick.labelsize"])
    size = max(_SMALLEST_FONT, min(size, 0.8 * points / max(len(shown), 1)))
    shown = shown[:: max(1, math.ceil(1.15 * size * len(shown) / points))]
    longest = int(
        min(_LONGEST_LABEL, _LABEL_SHARE * extent.width / ax.figure.dpi * 72 / (style.CHARACTER_WIDTH * size))
    )
    n_characters = sum(min(len(drawing.labels[i]), longest) for i in shown)
    is_upright = x_or_y == "y" or n_characters * 0.6 * size < points
    options: dict[str, Any] = {} if is_upright else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    labels = style.short_bin_names([drawing.labels[i] for i in shown], longest)
    getattr(ax, f"set_{x_or_y}ticks")(drawing.centres[shown], labels=labels, fontsize=size, **options)
    ax.tick_params(axis=x_or_y, length=0)


def set_value_limits(ax: Any, x_or_y: str, low: float, high: float, *, has_strip: bool) -> None:
    """Set limits that include zero and, with a strip, leave room for the distribution of the data."""
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0
    below = (STRIP + 0.03) / (1 - STRIP - 0.03) * 1.1 if has_strip else 0.05
    getattr(ax, f"set_{x_or_y}lim")(low - below * span, high + 0.06 * span)


def date_ticks(drawing: AxisDrawing, last: float, inch: float) -> list[float]:
    """Return round dates up to a position on the axis, with room for labels; `inch` is a length on the scale."""
    max_ticks = max(2, int((drawing.high - drawing.low) / (_WIDTH * inch))) if drawing.scale.is_linear else 4
    dates = [_round_dates(drawing, last, (drawing.low, drawing.high), n_ticks) for n_ticks in range(max_ticks, 1, -1)]
    if drawing.scale.is_linear:
        fewer = [dates[0][::step] for step in range(2, len(dates[0]))]
        return next((ticks for ticks in (*dates, *fewer) if _has_room(drawing, ticks, inch)), dates[0][:1])
    pieces = itertools.pairwise(drawing.evenly(_PIECES).tolist())
    ticks: list[float] = []
    for tick in itertools.chain(dates[0], *(_round_dates(drawing, last, ends, 2) for ends in pieces)):
        if tick not in ticks and _has_room(drawing, sorted([*ticks, tick]), inch):
            ticks = sorted([*ticks, tick])
    return ticks


def _has_room(drawing: AxisDrawing, ticks: Sequence[float], inch: float) -> bool:
    """Whether labels of ascending dates fit between them; `inch` is a length on the scale."""
    longest = max(map(len, date_labels(ticks, drawing.date_unit)), default=0)
    gaps = np.diff(drawing.scale.forward(np.array(ticks)))
    return bool(gaps.min(initial=np.inf) >= (_CHARACTER * longest + _SPACE) * inch)


def _round_dates(drawing: AxisDrawing, last: float, ends: Ends, n_ticks: int) -> list[float]:
    """Return about `n_ticks` round dates between two numbers, as numbers, up to a position on the axis."""
    low, high = np.clip(days_since_1970(ends, drawing.date_unit), -_LAST_DAY / 4, _LAST_DAY)
    if not high > low:
        return []
    shift = np.datetime64(get_epoch(), "D").astype(np.int64)  # matplotlib counts days from its own epoch
    locator = AutoDateLocator(minticks=max(2, n_ticks - 2), maxticks=n_ticks)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="AutoDateLocator was unable")  # too many ticks, which have no room
        days = np.asarray(locator.tick_values(num2date(low - shift), num2date(high - shift))) + shift
    numbers = [float(number) for number in numbers_on_days(days, drawing.date_unit)]
    return [n for n in numbers if drawing.low <= n <= drawing.high and drawing.scale.forward(n) <= last]


def date_labels(ticks: Sequence[float], unit: str) -> list[str]:
    """Write dates in the shortest form that shows all of each."""
    moments = np.rint(days_since_1970(ticks, unit) * 86_400).astype("datetime64[s]")
    form = next(
        form
        for form, resolution in _DATE_FORMS
        if (moments.astype(f"datetime64[{resolution}]").astype("datetime64[s]") == moments).all()
    )
    return [moment.item().strftime(form) for moment in moments]


def spread_ticks(drawing: AxisDrawing, last: float, room: float) -> list[float]:
    """Return round numbers up to a position, ascending, each with room; the roundest have priority."""
    # If widths follow the data, an interval has at most one tick: the model cannot distinguish numbers within it.
    positions: dict[float, float] = {}  # of ticks, on the scale
    intervals: set[int] = set()
    for tick in _tick_candidates(drawing):
        if len(positions) >= _ENOUGH and _n_digits(tick) > _FEW_DIGITS:
            break
        position = float(drawing.scale.forward(tick))
        interval = int(np.searchsorted(drawing.edges, tick)) if drawing.scale.kind == "quantile" else len(positions)
        is_inside = drawing.low <= tick <= drawing.high and position <= last and interval not in intervals
        if is_inside and all(abs(position - other) >= room for other in positions.values()):
            positions[tick] = position
            intervals.add(interval)
    return sorted(positions)


def _tick_candidates(drawing: AxisDrawing) -> Iterator[float]:
    """Yield zero, powers of ten, twice and five times these, then round numbers of the axis and of its pieces."""
    yield 0.0
    span = drawing.high - drawing.low
    sizes = [size for size in np.abs(drawing.edges[: drawing.n_regular + 1]) if size > _SMALLEST * span]
    powers = range(math.floor(math.log10(min(sizes))), math.ceil(math.log10(max(sizes))) + 1)
    for factor, power, sign in itertools.product((1.0, 2.0, 5.0), powers, (1, -1)):
        yield sign * float(f"{factor}e{power}")
    yield from map(float, MaxNLocator(nbins=5, steps=(1, 2, 5, 10)).tick_values(drawing.low, drawing.high))
    pieces = [ends for ends in itertools.pairwise(drawing.evenly(_PIECES)) if ends[1] - ends[0] > _SMALLEST * span]
    finer = (map(float, MaxNLocator(nbins=3, steps=(1, 2, 5, 10)).tick_values(*ends)) for ends in pieces)
    yield from sorted(itertools.chain.from_iterable(finer), key=lambda tick: (_n_digits(tick), tick))


def _n_digits(number: float) -> int:
    """Return how many digits a round number has, without zeros at either end."""
    return len(f"{abs(number):.12f}".replace(".", "").strip("0"))


def short_number(number: float) -> str:
    """Write a round number as people do: "0.05", "200", "50000", "2e6"."""
    if number and not 1e-4 <= abs(number) < 1e6:
        mantissa, _, power = f"{number:.9e}".partition("e")
        text = f"{mantissa.rstrip('0').rstrip('.')}e{int(power)}"
    else:
        text = f"{number:.10f}".rstrip("0").rstrip(".")
    return text.replace("-", "−")


@dataclasses.dataclass(frozen=True, eq=False)
class Distribution:
    """The share of some rows in each bin of an axis; grey if it has no name."""

    name: str
    axis: Axis
    weights: Floats
    colour: Any = None

    @property
    def artist_options(self) -> dict[str, Any]:
        """Colour and transparency for matplotlib; the label hides it from legends."""
        grey = {"color": style.faint(views.DATA), "alpha": 0.6}
        look = {"color": self.colour, "alpha": 0.4} if self.name else grey
        return {**look, "zorder": 0, "linewidth": 0, "label": "_data"}


def draw_interval_distributions(
    ax: Any, distributions: Sequence[Distribution], *, limits: Ends | None, scale: AxisScale, extras: Extras
) -> list[Any]:
    """Draw shares of rows as areas at the foot of the axes; return these for a legend."""
    drawings = [draw_axis(one.axis, one.weights, limits=limits, scale=scale, extras=extras) for one in distributions]
    points = drawings[0].evenly(_STRIP_BARS)
    heights = [drawing.spread(one.weights, points) for one, drawing in zip(distributions, drawings, strict=True)]
    tallest = max(float(height.max(initial=0.0)) for height in heights)
    if not tallest > 0:
        return []
    foot, areas = ax.get_xaxis_transform(), []
    for i, (one, drawing) in enumerate(zip(distributions, drawings, strict=True)):
        areas.append(ax.stairs(STRIP * heights[i] / tallest, points, fill=True, transform=foot, **one.artist_options))
        if one.name:
            ax.stairs(STRIP * heights[i] / tallest, points, transform=foot, color=one.colour, linewidth=0.9, zorder=1)
        if len(drawing.extra_cells):
            shift = i - (len(distributions) - 1) / 2
            _draw_extra_bars(ax, drawing, one, tallest, shift=shift, width=0.8 / max(len(distributions), 1.15))
    if not distributions[0].name:
        third = len(points) // 3
        is_left = heights[0][:third].max() <= heights[0][-third:].max()
        _write_data_label(ax, 0.008 if is_left or len(drawings[0].extra_cells) else 0.992, 0.01)
    return areas


def _draw_extra_bars(
    ax: Any, drawing: AxisDrawing, distribution: Distribution, tallest: float, *, shift: float, width: float
) -> None:
    """Draw shares of extra bins as bars, shifted by a number of widths, next to those of other distributions."""
    # A share has the area of one in the strip, where the highest of the bars is `tallest`.
    extra = drawing.extra_cells
    widths = width * np.diff(drawing.edges)[extra]
    strip_bar = drawing.widths[: drawing.n_regular].sum() / _STRIP_BARS
    heights = drawing.masses(distribution.weights)[extra] * strip_bar / drawing.widths[extra] / tallest
    centres = drawing.centres[extra] + widths * shift
    ax.bar(
        centres,
        STRIP * np.minimum(heights, 1),
        widths,
        transform=ax.get_xaxis_transform(),
        **distribution.artist_options,
    )


def draw_category_distributions(ax: Any, distributions: Sequence[Distribution], drawing: AxisDrawing) -> list[Any]:
    """Draw shares of rows as bars from the left edge; return these for a legend."""
    masses = [drawing.masses(one.weights) for one in distributions]
    tallest = max(float(mass.max(initial=0.0)) for mass in masses)
    if not tallest > 0:
        return []
    if not distributions[0].name:
        _write_data_label(ax, 0.008, 1.0)
    shown, height = drawing.is_filled, 0.8 / len(distributions)
    side, areas = ax.get_yaxis_transform(), []
    for i, (one, mass) in enumerate(zip(distributions, masses, strict=True)):
        centres = drawing.centres[shown] + height * (i - (len(masses) - 1) / 2)
        thick = height if len(distributions) == 1 else 0.92 * height
        areas.append(ax.barh(centres, STRIP * mass[shown] / tallest, thick, transform=side, **one.artist_options))
    return areas


def _write_data_label(ax: Any, x: float, y: float) -> None:
    """Write "data" at a position relative to the axes (0 to 1), unless these are narrow."""
    if ax.get_window_extent().width / ax.figure.dpi > 4:
        look = {"fontsize": "x-small", "color": mpl.rcParams["text.color"], "alpha": 0.7, "zorder": 1}
        ax.text(x, y, "data", transform=ax.transAxes, va="bottom", ha="left" if x < 0.5 else "right", **look)
