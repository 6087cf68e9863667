"""Axes of plots: where bins, categories and extra bins are drawn, in which range and order.

Extra bins hold only missing or unseen values. Plots keep the numbers as coordinates; a scale maps them to positions.
"""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.model.axes import Axis, IntervalAxis
from treeanova.model.grid import Binning, binning_by, unmerged

Ends = tuple[float, float]
AxisData = tuple[Axis, Floats, Ends | None]  # an axis, the weights of its bins, and the ends of nearly all data
Extras = bool | Collection[str] | None
X_SCALES = ("linear", "log", "quantile")
ORDERS = ("auto", "given", "name", "value", "weight")
GAP = -1
_TAIL = 0.01  # share of the weight that a tail may hold and still be cut
_STRETCH = 0.5  # length of the longest tail that is drawn, relative to the range without tails
_MARGIN = 0.04  # beyond the outermost thresholds, relative to the range between them
_EMPTY_SHARE = 0.05  # of an axis by quantile, shared equally by all bins: those without data can be seen
_SMALLEST = 1e-6  # threshold, relative to the largest; libraries write "above zero" as a tiny one
SCALE_WORDS = {"linear": "", "log": "log scale", "quantile": "widths are shares of the data"}
_FIRST_NUMBER = re.compile(r"^\s*([<>≤≥]?)[\s=(\[$€£~]*(-?\d+(?:\.\d+)?)")
_DIRECTIONS = {"<": -np.inf, "≤": -np.inf, ">": np.inf, "≥": np.inf}


def range_of(axis: Axis, weights: Floats, data_ends: Ends | None = None) -> Ends:
    """Return ends just beyond the outermost thresholds, or nearby ends of the data; cut long tails of little weight."""
    thresholds = axis.thresholds
    if not len(thresholds):
        return data_ends if data_ends is not None and data_ends[0] < data_ends[1] else (0.0, 1.0)
    start, end = data_ends or _ends_of_bulk(thresholds, weights[: axis.n_regular])
    longest_tail = _STRETCH * (end - start)
    low = start if 0 < longest_tail < start - thresholds[0] else thresholds[0]
    high = end if 0 < longest_tail < thresholds[-1] - end else thresholds[-1]
    first, last = data_ends or (low, high)
    shortest = _MARGIN * ((high - low) or (last - first)) or max(abs(high) * 0.1, 0.5)
    longest = _STRETCH * (high - low) or np.inf
    below = np.clip(low - first, shortest, longest) if low == thresholds[0] else shortest
    above = np.clip(last - high, shortest, longest) if high == thresholds[-1] else shortest
    return float(low - below), float(high + above)


def _ends_of_bulk(thresholds: Floats, masses: Floats) -> Ends:
    """Return the thresholds beyond which each tail holds at most 1 % of the masses of the bins."""
    below = np.cumsum(masses)[:-1] / masses.sum() if masses.sum() > 0 else np.linspace(0, 1, len(thresholds))
    start = max(int(np.searchsorted(below, _TAIL, side="right")) - 1, 0)
    end = min(int(np.searchsorted(below, 1 - _TAIL)), len(thresholds) - 1)
    return float(thresholds[start]), float(thresholds[end])


def common_range(entries: Sequence[AxisData]) -> Ends | None:
    """Return a range that shows all axes; None if they have categories."""
    ordered = [entry for entry in entries if entry[0].is_ordered]
    if not ordered:
        return None
    split = [entry for entry in ordered if len(entry[0].thresholds)]
    ranges = [range_of(*entry) for entry in split or ordered[:1]]
    return min(low for low, _ in ranges), max(high for _, high in ranges)


def checked_limits(limits: Any) -> Ends:
    """Return the ends that a user gives; raise ValueError unless they are two numbers in ascending order."""
    ends = tuple(float(end) for end in limits)
    if len(ends) != 2 or not np.isfinite(ends).all() or not ends[0] < ends[1]:
        raise ValueError(
            f"`limits` must be two numbers, the lower first, got {limits!r}; leave it out for a range that shows the "
            "data."
        )
    return ends[0], ends[1]


@dataclasses.dataclass(frozen=True, eq=False)
class AxisScale:
    """Where numbers lie on an axis: `forward` maps numbers to positions, `inverse` maps positions to numbers."""

    kind: str
    forward: Callable[[Any], Any]
    inverse: Callable[[Any], Any]

    @property
    def is_linear(self) -> bool:
        return self.kind == "linear"


LINEAR = AxisScale("linear", lambda numbers: numbers, lambda positions: positions)


def scale_and_ends(kind: str, entries: Sequence[AxisData], limits: Any, name: str) -> tuple[AxisScale, Ends | None]:
    """Return the scale and ends (None for categories) that several drawings share; `name` is the argument in errors."""
    if kind not in X_SCALES:
        raise ValueError(f"`{name}` must be one of {', '.join(map(repr, X_SCALES))}, got {kind!r}; leave it out.")
    ends = None if limits is None else checked_limits(limits)
    if kind == "linear":
        return LINEAR, ends or common_range(entries)
    axis = entries[0][0]
    if not axis.is_ordered:
        raise ValueError(f"`{name}` must be 'linear' for the categories of {axis.name!r}, got {kind!r}; leave it out.")
    if axis.date_unit and kind == "log":
        raise ValueError(f"`{name}` must be 'linear' or 'quantile' for the dates of {axis.name!r}, got 'log'.")
    return _log_scale(entries, ends) if kind == "log" else _quantile_scale(entries, ends)


def _log_scale(entries: Sequence[AxisData], limits: Ends | None) -> tuple[AxisScale, Ends]:
    """Take logarithms if all is above zero; else sign(x) log(1 + |x| / c), where c is the smallest threshold."""
    lowest = [min([*axis.thresholds, *(ends or ())], default=1.0) for axis, _, ends in entries]
    if min(*lowest, limits[0] if limits else np.inf, np.inf) > 0:
        scale = AxisScale("log", lambda numbers: np.log(np.maximum(numbers, np.finfo(float).tiny)), np.exp)
    else:
        sizes = np.concatenate([np.abs(axis.thresholds) for axis, _, _ in entries])
        smallest = float(min(sizes[sizes > _SMALLEST * sizes.max(initial=0.0)], default=1.0))
        scale = AxisScale(
            "log",
            lambda numbers: np.sign(numbers) * np.log1p(np.abs(numbers) / smallest),
            lambda positions: np.sign(positions) * np.expm1(np.abs(positions)) * smallest,
        )
    return scale, limits or _common_range_on(scale, entries)


def _common_range_on(scale: AxisScale, entries: Sequence[AxisData]) -> Ends:
    """Return a range for all axes, with tails cut by their length on the scale."""
    ranges = []
    for axis, weights, ends in entries:
        on_scale = None if ends is None else (float(scale.forward(ends[0])), float(scale.forward(ends[1])))
        ranges.append(range_of(IntervalAxis(axis.name, -1, scale.forward(axis.thresholds)), weights, on_scale))
    low, high = scale.inverse(np.array([min(low for low, _ in ranges), max(high for _, high in ranges)]))
    return float(low), float(high)


def _quantile_scale(entries: Sequence[AxisData], limits: Ends | None) -> tuple[AxisScale, Ends]:
    """Make each bin of the first axis as wide as its share of the weight; no tail is cut."""
    low, high = limits or _whole_range(entries)
    axis, weights, _ = entries[0]
    inside = (axis.thresholds > low) & (axis.thresholds < high)
    first = int(np.searchsorted(axis.thresholds, low, side="right"))
    masses = weights[first : first + int(inside.sum()) + 1]
    shares = masses / masses.sum() if masses.sum() > 0 else np.full(len(masses), 1 / len(masses))
    widths = (1 - _EMPTY_SHARE) * shares + _EMPTY_SHARE / len(shares)
    knots = np.concatenate([[low], axis.thresholds[inside], [high]])
    positions = np.concatenate([[0.0], np.cumsum(widths)])
    forward = functools.partial(_interpolate, knots, positions)
    return AxisScale("quantile", forward, functools.partial(_interpolate, positions, knots)), (low, high)


def _whole_range(entries: Sequence[AxisData]) -> Ends:
    """Return ends around all thresholds and nearly all data, with margins."""
    numbers = np.concatenate([[*axis.thresholds, *(ends or ())] for axis, _, ends in entries])
    if not len(numbers):
        return 0.0, 1.0
    margin = _MARGIN * (numbers.max() - numbers.min()) or max(abs(numbers.max()) * 0.1, 0.5)
    starts = [ends[0] for axis, _, ends in entries if ends is not None]
    first = min(min(axis.thresholds, default=np.inf) for axis, _, _ in entries)
    low = numbers.min() if starts and min(starts) < first else numbers.min() - margin  # data need no margin
    return float(low), float(numbers.max() + margin)


def _interpolate(knots: Floats, at_knots: Floats, numbers: Any) -> Any:
    """Interpolate linearly between values at knots, and extrapolate with the mean slope."""
    slope = (at_knots[-1] - at_knots[0]) / (knots[-1] - knots[0])
    numbers = np.asarray(numbers, dtype=np.float64)
    inner = np.interp(numbers, knots, at_knots)
    return inner + slope * (np.minimum(numbers - knots[0], 0) + np.maximum(numbers - knots[-1], 0))


def category_order(labels: Sequence[str], order: str, weights: Floats, values: Floats | None) -> Ints:
    """Return positions of categories in drawing order; "auto": by number if all begin with one, else by value."""
    if order not in ORDERS:
        raise ValueError(
            f"`order` must be one of {', '.join(map(repr, ORDERS))}, got {order!r}; leave it out for 'auto'."
        )
    return np.argsort(_numbers_to_sort_by(labels, order, weights, values), kind="stable")


def _numbers_to_sort_by(labels: Sequence[str], order: str, weights: Floats, values: Floats | None) -> Floats:
    """Return a number per category, smallest first: by the order asked for (see `category_order`)."""
    as_given = np.arange(float(len(labels)))
    if order == "weight":
        return -weights
    if order == "given":
        return as_given
    if order == "name":
        return np.argsort(sorted(range(len(labels)), key=lambda i: (labels[i].casefold(), labels[i]))).astype(float)
    numbers = numbers_in(labels) if order == "auto" else None
    if numbers is not None:
        return numbers
    return as_given if values is None else -values


def numbers_in(labels: Sequence[str]) -> Floats | None:
    """Return the number that each label begins with ("10", "< 5", "20-29"); None unless all begin with one."""
    matches = [_FIRST_NUMBER.match(label) for label in labels]
    if not matches or not all(matches):
        return None
    numbers = ((match[1], float(match[2])) for match in matches if match)  # "< 5" comes just before 5
    return np.array([np.nextafter(number, _DIRECTIONS.get(sign, number)) for sign, number in numbers])


@dataclasses.dataclass(frozen=True, eq=False)
class AxisDrawing:
    """Bins of one axis as cells side by side: those with values, then a gap and extra bins (missing, unseen)."""

    name: str
    binning: Binning  # as drawn: rare categories may be merged
    edges: Floats  # of the drawn cells
    cells: Ints  # the bin in each cell; GAP for the space before extra bins
    n_regular: int  # cells before the gap
    labels: tuple[str, ...]  # of all cells of categories; for numbers, of the extra cells only
    is_numeric: bool
    beyond: float = 0.0  # at most this share of the data lies outside the range
    scale: AxisScale = LINEAR
    date_unit: str = ""  # the unit of time that numbers count, if they are dates

    @property
    def low(self) -> float:
        """The lower end of the cells before the gap."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """The upper end of the cells before the gap."""
        return float(self.edges[self.n_regular])

    @functools.cached_property
    def centres(self) -> Floats:
        """The middle of each cell as drawn, in numbers of the axis."""
        positions = self.scale.forward(self.edges)
        return self.scale.inverse((positions[1:] + positions[:-1]) / 2)

    @property
    def widths(self) -> Floats:
        """The width of each cell as drawn, on the scale."""
        return np.diff(self.scale.forward(self.edges))

    def evenly(self, n_pieces: int) -> Floats:
        """Return the edges of pieces of the range that have equal lengths on the scale."""
        low, high = self.scale.forward(np.array([self.low, self.high]))
        return self.scale.inverse(np.linspace(low, high, n_pieces + 1))

    @property
    def is_filled(self) -> Bools:
        """Whether each cell has a bin: all but the gap."""
        return self.cells != GAP

    @property
    def extra_cells(self) -> Ints:
        """Positions of the cells of missing and unseen values."""
        return np.arange(self.n_regular + 1, len(self.cells))

    def values(self, values: Floats, weights: Floats) -> Floats:
        """Return the value of each cell, NaN in the gap; merged bins have their weighted mean."""
        pooled = values if self.binning.is_identity else binning_by(self.binning.bins, weights).average(values)
        return np.where(self.is_filled, pooled[self.cells], np.nan)

    def masses(self, weights: Floats) -> Floats:
        """Return the weight of each cell, zero in the gap."""
        return np.where(self.is_filled, self.binning.pool(weights)[self.cells], 0.0)

    def spread(self, weights: Floats, points: Floats) -> Floats:
        """Return the weight between ascending points; an interval's weight is spread evenly over its drawn width."""
        below = np.concatenate([[0.0], np.cumsum(self.masses(weights)[: self.n_regular])])
        positions = self.scale.forward(self.edges[: self.n_regular + 1])
        return np.diff(np.interp(self.scale.forward(points), positions, below))

    def plane(self, table: Floats, other: AxisDrawing, fill: float) -> Floats:
        """Return a table (bins of this axis, bins of another) over the drawn cells of both; `fill` in gaps."""
        both = self.is_filled[:, None] & other.is_filled[None]
        return np.where(both, table[np.ix_(self.cells, other.cells)], fill)


def draw_axis(
    axis: Axis,
    weights: Floats,
    *,
    values: Floats | None = None,
    limits: Ends | None = None,
    scale: AxisScale = LINEAR,
    extras: Extras = None,
    order: str = "auto",
    max_bars: int | None = None,
) -> AxisDrawing:
    """Lay out the bins of an axis, given their weights."""
    # Categories may be sorted by `values`. `extras`: whether to draw extra bins, or which (labels); by default those
    # with weight. Of more than `max_bars` categories, those with the least weight share the last bar.
    shown = extra_labels_with_weight(axis, weights) if extras is None else extras
    extra = [i for i in extra_bins(axis) if (shown if isinstance(shown, bool) else axis.labels[i] in shown)]
    if axis.is_ordered:
        return _draw_intervals(axis, weights, limits or range_of(axis, weights), scale, extra)
    binning = _merged_categories(axis, weights, max_bars)
    alone = np.flatnonzero(np.bincount(binning.bins)[binning.bins[: axis.n_regular]] == 1)  # with a bar each
    sorted_by = None if values is None else values[alone]
    drawing_order = category_order([axis.labels[i] for i in alone], order, weights[alone], sorted_by)
    return _draw_categories(axis, binning, alone[drawing_order], extra)


def extra_bins(axis: Axis) -> range:
    """Return the bins that hold only missing or unseen values."""
    return range(axis.n_regular, axis.size)


def extra_labels_with_weight(axis: Axis, weights: Floats) -> frozenset[str]:
    """Return the labels of bins of missing and unseen values that have weight."""
    return frozenset(axis.labels[i] for i in extra_bins(axis) if weights[i] > 0)


def _draw_intervals(axis: Axis, weights: Floats, limits: Ends, scale: AxisScale, extra: list[int]) -> AxisDrawing:
    """Lay out the intervals between limits, then a cell for each bin in `extra`."""
    low, high = limits
    thresholds = axis.thresholds
    inner = thresholds[(thresholds > low) & (thresholds < high)]
    first = int(np.searchsorted(thresholds, low, side="right"))
    cells = np.arange(first, first + len(inner) + 1)
    positions = scale.forward(np.array([low, high]))
    span = positions[1] - positions[0]
    beyond, all_cells = _with_extra_cells(positions[1:], cells, extra, gap=0.04 * span, width=0.07 * span)
    edges = np.concatenate([[low], inner, [high], scale.inverse(beyond[1:])])
    return AxisDrawing(
        name=axis.name,
        binning=unmerged(axis.size),
        edges=edges,
        cells=all_cells,
        n_regular=len(cells),
        labels=tuple(axis.labels[i] for i in extra),
        is_numeric=True,
        beyond=_weight_beyond(axis, weights, cells, limits),
        scale=scale,
        date_unit=axis.date_unit,
    )


def _weight_beyond(axis: Axis, weights: Floats, cells: Ints, limits: Ends) -> float:
    """Return the weight of the intervals that are not drawn whole; infinite ones count as whole."""
    starts, ends = axis.edges[cells], axis.edges[cells + 1]
    whole = ((starts >= limits[0]) | np.isinf(starts)) & ((ends <= limits[1]) | np.isinf(ends))
    beyond = float(weights[: axis.n_regular].sum() - weights[cells[whole]].sum())
    return beyond if beyond > 1e-9 else 0.0


def _with_extra_cells(
    edges: Floats, cells: Ints, extra: list[int] | Ints, *, gap: float, width: float
) -> tuple[Floats, Ints]:
    """Append a gap and a cell per extra bin to the edges, and to the bins, of cells."""
    if not len(extra):
        return edges, cells
    extra_edges = edges[-1] + gap + width * np.arange(len(extra) + 1)
    return np.concatenate([edges, extra_edges]), np.concatenate([cells, [GAP], extra]).astype(np.int64)


def _merged_categories(axis: Axis, weights: Floats, max_bars: int | None) -> Binning:
    """Return bins in which all categories but the heaviest `max_bars` - 1 share one, if there are more."""
    if max_bars is None or axis.n_regular <= max_bars:
        return unmerged(axis.size)
    bins = np.arange(axis.size)
    by_weight = np.argsort(-weights[: axis.n_regular], kind="stable")
    bins[by_weight[max_bars - 1 :]] = axis.size  # one number for all, after the others
    return binning_by(bins)


def _draw_categories(axis: Axis, binning: Binning, alone: Ints, extra: list[int]) -> AxisDrawing:
    """Lay out a bar for each category in `alone`, one for all that share a bin, and one per extra bin."""
    n_merged = np.bincount(binning.bins)
    merged = np.flatnonzero(n_merged > 1)
    cells = np.concatenate([binning.bins[alone], merged])
    edges, all_cells = _with_extra_cells(np.arange(len(cells) + 1.0), cells, binning.bins[extra], gap=0.5, width=1.0)
    names = {int(binning.bins[i]): axis.labels[i] for i in range(axis.size)}
    names |= {GAP: ""} | {int(i): f"{n_merged[i]} others, mean" for i in merged}
    return AxisDrawing(
        name=axis.name,
        binning=binning,
        edges=edges,
        cells=all_cells,
        n_regular=len(cells),
        labels=tuple(names[int(cell)] for cell in all_cells),
        is_numeric=False,
    )
