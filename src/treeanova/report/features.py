"""Features on the page: the part of a numeric axis that is drawn, and the histogram of the rows in it."""

from __future__ import annotations

from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.core.labels import distinct
from treeanova.decomposition.decomposition import Decomposition
from treeanova.density.statistics import Statistics
from treeanova.model.axes import Axis
from treeanova.report.numbers import millionths, plain_days, six_digits

_N_BARS = 48
_BULK = (0.005, 0.995)
_LONGEST_RANGE = 3.0  # of all thresholds, relative to that of the bulk of the rows
_MARGIN = 0.03
_NAMES = (25, 10)  # characters of names of main effects and interactions in the list of terms


def plain_features(fx: Decomposition) -> list[dict[str, Any]]:
    """Name of each feature, and for numbers the window that is drawn, with a histogram of the rows.

    Long names have short ones for the list of terms: those of main effects, and those of interactions.
    """
    names = [axis.name for axis in fx.grid.axes]
    short = [list(pair) for pair in zip(*(distinct(names, room) for room in _NAMES), strict=True)]
    return [
        {"name": axis.name}
        | ({"short": short[j]} if short[j][1] != axis.name else {})
        | (_plain_numbers(axis, j, fx.density.statistics) if axis.is_ordered else {})
        for j, axis in enumerate(fx.grid.axes)
    ]


def _plain_numbers(axis: Axis, j: int, statistics: Statistics | None) -> dict[str, Any]:
    ends = window(axis, j, statistics)
    plain = ends if not axis.date_unit else ends | plain_dates(ends, axis.date_unit)
    if statistics is None:
        return plain
    return plain | {"histogram": millionths(statistics.histogram(j, ends["low"], ends["high"], _N_BARS))}


def plain_dates(ends: dict[str, Any], unit: str) -> dict[str, Any]:
    """Ends of an axis of dates, as days since 1970."""
    low, high = plain_days(np.array([ends["low"], ends["high"]]), unit)
    whole = {"whole": plain_days(np.array(ends["whole"]), unit)} if "whole" in ends else {}
    return {"low": low, "high": high, "date": True, **whole}


def window(axis: Axis, j: int, statistics: Statistics | None) -> dict[str, Any]:
    """Ends of the drawn axis: all thresholds and the bulk of the rows, or only these rows if thresholds lie far out."""
    bulk = None if statistics is None else statistics.quantiles(j, _BULK)
    known = axis.thresholds if bulk is None else np.concatenate([axis.thresholds, bulk])
    known = known if len(known) else np.array([0.0, 1.0])
    low, high = float(known.min()), float(known.max())
    is_cut = bulk is not None and bulk[1] > bulk[0] and high - low > _LONGEST_RANGE * (bulk[1] - bulk[0])
    if bulk is not None and is_cut:
        low, high = float(bulk[0]), float(bulk[1])
    margin = _MARGIN * (high - low) or 0.5 * max(abs(low), 1.0)
    ends = low - margin, high + margin
    values = None if statistics is None else statistics.value_range(j)
    if values is not None and high > low:  # not beyond the data
        ends = max(ends[0], min(values[0], low)), min(ends[1], max(values[1], high))
    shorten = float if axis.date_unit else six_digits
    whole = {"whole": [shorten(end) for end in _whole(known)]} if is_cut else {}
    return {"low": shorten(ends[0]), "high": shorten(ends[1]), "cut": bool(is_cut), **whole}


def _whole(numbers: Floats) -> tuple[float, float]:
    """Ends of an axis that is not linear, on which no tail is cut: of all thresholds and the bulk of the rows."""
    low, high = float(numbers.min()), float(numbers.max())
    return low, high + _MARGIN * (high - low)
