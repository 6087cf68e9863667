"""How numbers are spread along an axis: evenly, by their logarithm, or by the share of the data.

Plots keep the numbers themselves as coordinates; a scale says where on the axis each number lies.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.model.axes import Axis, IntervalAxis
from treeanova.plot.ranges import Ends, checked_limits, common_range, range_of

X_SCALES = ("linear", "log", "quantile")
_EMPTY_SHARE = 0.05  # of the axis, shared equally by all bins, so that those without data can be seen
_MARGIN = 0.04
_SMALLEST = 1e-6  # threshold, relative to the largest; libraries write "above zero" as a tiny one
_WORDS = {"linear": "", "log": "log scale", "quantile": "widths are shares of the data"}
Entry = tuple[Axis, Floats, Ends | None]


def _same(numbers: Any) -> Any:
    return numbers


@dataclasses.dataclass(frozen=True, eq=False)
class AxisScale:
    """Where numbers lie on an axis: `forward` takes numbers to positions, `inverse` takes positions to numbers."""

    kind: str = "linear"
    forward: Callable[[Any], Any] = _same
    inverse: Callable[[Any], Any] = _same

    @property
    def is_linear(self) -> bool:
        """Whether positions are the numbers themselves."""
        return self.kind == "linear"

    @property
    def words(self) -> str:
        """What to write at the axis; empty for a linear one."""
        return _WORDS[self.kind]


LINEAR = AxisScale()


def scale_and_ends(kind: str, entries: Sequence[Entry], limits: Any, name: str) -> tuple[AxisScale, Ends | None]:
    """The scale of an axis that several drawings share, and its ends; None for categories.

    Parameters
    ----------
    kind
        One of X_SCALES.
    entries
        Axes of one feature with the weights of their bins, and the ends of nearly all data where they are known.
    limits
        Ends that were asked for, or None.
    name
        Name of the argument that gave `kind`, for errors.
    """
    if kind not in X_SCALES:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, X_SCALES))}, got {kind!r}; leave it out.")
    given = None if limits is None else checked_limits(limits)
    if kind == "linear":
        return LINEAR, given or common_range(entries)
    axis = entries[0][0]
    if not axis.is_ordered:
        raise ValueError(f"`{name}` must be 'linear' for the categories of {axis.name!r}, got {kind!r}; leave it out.")
    if axis.date_unit and kind == "log":
        raise ValueError(f"`{name}` must be 'linear' or 'quantile' for the dates of {axis.name!r}, got 'log'.")
    return _log_scale(entries, given) if kind == "log" else _quantile_scale(entries, given)


# Logarithms.


def _log_scale(entries: Sequence[Entry], limits: Ends | None) -> tuple[AxisScale, Ends]:
    """Logarithms where all is above zero; else of 1 + |x| / c, with the sign of x and the smallest threshold as c."""
    lowest = [min([*axis.thresholds, *(ends or ())], default=1.0) for axis, _, ends in entries]
    if min(*lowest, limits[0] if limits else np.inf, np.inf) > 0:
        scale = AxisScale("log", _log, np.exp)
    else:
        sizes = np.concatenate([np.abs(axis.thresholds) for axis, _, _ in entries])
        smallest = float(min(sizes[sizes > _SMALLEST * sizes.max(initial=0.0)], default=1.0))
        scale = AxisScale(
            "log",
            lambda numbers: np.sign(numbers) * np.log1p(np.abs(numbers) / smallest),
            lambda places: np.sign(places) * np.expm1(np.abs(places)) * smallest,
        )
    return scale, limits or _range_on(scale, entries)


def _log(numbers: Any) -> Any:
    return np.log(np.maximum(numbers, np.finfo(float).tiny))


def _range_on(scale: AxisScale, entries: Sequence[Entry]) -> Ends:
    """Ends that look on a scale as those of `range_of` look on a linear one."""
    found = [
        range_of(IntervalAxis(axis.name, -1, scale.forward(axis.thresholds)), weights, _ends_on(scale, ends))
        for axis, weights, ends in entries
    ]
    low, high = scale.inverse(np.array([min(low for low, _ in found), max(high for _, high in found)]))
    return float(low), float(high)


def _ends_on(scale: AxisScale, ends: Ends | None) -> Ends | None:
    return None if ends is None else (float(scale.forward(ends[0])), float(scale.forward(ends[1])))


# Shares of the data.


def _quantile_scale(entries: Sequence[Entry], limits: Ends | None) -> tuple[AxisScale, Ends]:
    """Each bin of the first axis as wide as its share of the weight; no tail is cut."""
    low, high = limits or _whole_range(entries)
    axis, weights, _ = entries[0]
    inside = (axis.thresholds > low) & (axis.thresholds < high)
    first = int(np.searchsorted(axis.thresholds, low, side="right"))
    masses = weights[first : first + int(inside.sum()) + 1]
    shares = masses / masses.sum() if masses.sum() > 0 else np.full(len(masses), 1 / len(masses))
    widths = (1 - _EMPTY_SHARE) * shares + _EMPTY_SHARE / len(shares)
    knots = np.concatenate([[low], axis.thresholds[inside], [high]])
    places = np.concatenate([[0.0], np.cumsum(widths)])
    return (
        AxisScale("quantile", functools.partial(_between, knots, places), functools.partial(_between, places, knots)),
        (low, high),
    )


def _whole_range(entries: Sequence[Entry]) -> Ends:
    numbers = np.concatenate([[*axis.thresholds, *(ends or ())] for axis, _, ends in entries])
    if not len(numbers):
        return 0.0, 1.0
    margin = _MARGIN * (numbers.max() - numbers.min()) or max(abs(numbers.max()) * 0.1, 0.5)
    starts = [ends[0] for axis, _, ends in entries if ends is not None]
    low = numbers.min() if starts and min(starts) < _first(entries) else numbers.min() - margin
    return float(low), float(numbers.max() + margin)


def _first(entries: Sequence[Entry]) -> float:
    return min(min(axis.thresholds, default=np.inf) for axis, _, _ in entries)


def _between(knots: Floats, places: Floats, numbers: Any) -> Any:
    """Linear interpolation between knots, and beyond them with the mean slope."""
    slope = (places[-1] - places[0]) / (knots[-1] - knots[0])
    numbers = np.asarray(numbers, dtype=np.float64)
    inner = np.interp(numbers, knots, places)
    return inner + slope * (np.minimum(numbers - knots[0], 0) + np.maximum(numbers - knots[-1], 0))
