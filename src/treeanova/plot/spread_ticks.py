"""Ticks of axes that are not linear: round numbers, spread so that their labels have room."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator

import numpy as np
from matplotlib.ticker import MaxNLocator

from treeanova.plot.axis_drawing import AxisDrawing

_PARTS = 6  # of the axis, each with round numbers of its own
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
