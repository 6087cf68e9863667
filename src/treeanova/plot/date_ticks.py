"""Ticks of axes of dates: round dates, written with as few parts as they need."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Iterator, Sequence

import numpy as np
from matplotlib.dates import AutoDateLocator, get_epoch, num2date

from treeanova.core.arrays import Floats
from treeanova.data.dates import days_of, numbers_of_days
from treeanova.plot.axis_drawing import AxisDrawing

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
