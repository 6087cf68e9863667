"""Ends of numeric axes: true thresholds with a margin, without long tails that hold next to no data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.model.axes import Axis

Ends = tuple[float, float]
_TAIL = 0.01  # share of the weight that a tail may hold and still be cut
_STRETCH = 0.5  # length of the longest tail that is kept, relative to the range without tails
_MARGIN = 0.04  # beyond the outermost thresholds, relative to the range between them


def range_of(axis: Axis, weights: Floats, data_ends: Ends | None = None) -> Ends:
    """Ends of a numeric range: a little beyond the outermost thresholds, or the ends of the data where these are near.

    Long tails that hold next to no weight are cut. `data_ends` are the ends of nearly all values of the data.
    """
    thresholds = axis.thresholds
    if not len(thresholds):
        return data_ends if data_ends is not None and data_ends[0] < data_ends[1] else (0.0, 1.0)
    low, high = _without_tails(thresholds, weights[: axis.n_regular], data_ends)
    first, last = data_ends or (low, high)
    shortest = _MARGIN * ((high - low) or (last - first)) or max(abs(high) * 0.1, 0.5)
    longest = _STRETCH * (high - low) or np.inf
    below = np.clip(low - first, shortest, longest) if low == thresholds[0] else shortest
    above = np.clip(last - high, shortest, longest) if high == thresholds[-1] else shortest
    return float(low - below), float(high + above)


def _without_tails(thresholds: Floats, masses: Floats, data_ends: Ends | None) -> Ends:
    """The outermost thresholds, or the ends of the data where thresholds lie far beyond them."""
    start, end = data_ends or _bulk(thresholds, masses)
    longest = _STRETCH * (end - start)
    low = start if 0 < longest < start - thresholds[0] else thresholds[0]
    high = end if 0 < longest < thresholds[-1] - end else thresholds[-1]
    return float(low), float(high)


def _bulk(thresholds: Floats, masses: Floats) -> Ends:
    """Thresholds with next to no weight beyond them."""
    below = np.cumsum(masses)[:-1] / masses.sum() if masses.sum() > 0 else np.linspace(0, 1, len(thresholds))
    start = max(int(np.searchsorted(below, _TAIL, side="right")) - 1, 0)
    end = min(int(np.searchsorted(below, 1 - _TAIL)), len(thresholds) - 1)
    return float(thresholds[start]), float(thresholds[end])


def common_range(axes: Sequence[tuple[Axis, Floats, Ends | None]]) -> Ends | None:
    """Ends that contain the ranges of several axes of a feature; None for categories.

    Each entry is an axis, the weights of its bins, and the ends of the data where they are known.
    """
    ordered = [entry for entry in axes if entry[0].is_ordered]
    if not ordered:
        return None
    split = [entry for entry in ordered if len(entry[0].thresholds)]
    ranges = [range_of(*entry) for entry in split or ordered[:1]]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def checked_limits(limits: Any) -> Ends:
    """Two finite numbers in ascending order."""
    ends = tuple(float(end) for end in limits)
    if len(ends) != 2 or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(
            f"`limits` must be two numbers, the lower first, got {limits!r}; leave it out for a range that shows the "
            "data."
        )
    return ends[0], ends[1]
