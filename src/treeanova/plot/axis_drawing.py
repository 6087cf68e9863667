"""Where the bins of an axis are drawn: true thresholds in a finite range, categories in order, extra bins apart.

Extra bins are those that hold nothing but missing or unseen values.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Collection

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.model.axes import Axis
from treeanova.model.binning import Binning, binning_by, unmerged
from treeanova.plot.axis_scales import LINEAR, AxisScale
from treeanova.plot.category_order import category_order
from treeanova.plot.ranges import Ends, range_of

GAP = -1
Extras = bool | Collection[str] | None


@dataclasses.dataclass(frozen=True, eq=False)
class AxisDrawing:
    """Bins of one axis side by side.

    Attributes
    ----------
    name
        Name of the feature.
    binning
        Bins as they are drawn: rare categories may be merged to one.
    edges
        Ends of the drawn cells, one more than cells.
    cells
        The bin of `binning` in each cell; GAP for the space before extra bins.
    n_regular
        Number of cells before the gap.
    labels
        A label per cell of categories; of intervals, which have a scale of numbers, labels of the extra cells only.
    is_numeric
        Whether the axis has a scale of numbers.
    beyond
        Weight of the intervals that end outside the range: at most this share of the data lies there.
    scale
        Where numbers lie along the axis.
    date_unit
        The unit of time that numbers count, where they are dates; else empty.
    """

    name: str
    binning: Binning
    edges: Floats
    cells: Ints
    n_regular: int
    labels: tuple[str, ...]
    is_numeric: bool
    beyond: float = 0.0
    scale: AxisScale = LINEAR
    date_unit: str = ""

    @property
    def low(self) -> float:
        """The lower end of the numbers or categories."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """The upper end of the numbers or categories; extra cells come after it."""
        return float(self.edges[self.n_regular])

    @functools.cached_property
    def centres(self) -> Floats:
        """Middles of the cells."""
        places = self.scale.forward(self.edges)
        middles: Floats = self.scale.inverse((places[1:] + places[:-1]) / 2)
        return middles

    @property
    def widths(self) -> Floats:
        """Widths of the cells as they are drawn."""
        drawn: Floats = np.diff(self.scale.forward(self.edges))
        return drawn

    def evenly(self, n_parts: int) -> Floats:
        """Numbers that cut the drawn range into parts of equal width."""
        low, high = self.scale.forward(np.array([self.low, self.high]))
        points: Floats = self.scale.inverse(np.linspace(low, high, n_parts + 1))
        return points

    @property
    def filled(self) -> Bools:
        """Cells that show a bin."""
        is_bin: Bools = self.cells != GAP
        return is_bin

    @property
    def extra(self) -> Ints:
        """Positions of the cells of extra bins."""
        return np.arange(self.n_regular + 1, len(self.cells))

    def values(self, values: Floats, weights: Floats) -> Floats:
        """One number per cell from one per bin: the weighted mean of merged bins, NaN in gaps."""
        pooled = values if self.binning.is_identity else binning_by(self.binning.bins, weights).average(values)
        drawn: Floats = np.where(self.filled, pooled[self.cells], np.nan)
        return drawn

    def masses(self, weights: Floats) -> Floats:
        """Weight of each cell: the sum over merged bins, 0 in gaps."""
        drawn: Floats = np.where(self.filled, self.binning.pool(weights)[self.cells], 0.0)
        return drawn

    def spread(self, weights: Floats, points: Floats) -> Floats:
        """Weight between ascending points; that of an interval is spread evenly over its drawn width."""
        below = np.concatenate([[0.0], np.cumsum(self.masses(weights)[: self.n_regular])])
        places = self.scale.forward(self.edges[: self.n_regular + 1])
        between: Floats = np.diff(np.interp(self.scale.forward(points), places, below))
        return between

    def plane(self, table: Floats, other: AxisDrawing, fill: float) -> Floats:
        """A table over the bins of this axis and another, neither of them merged, as an array over their cells."""
        both = self.filled[:, None] & other.filled[None]
        drawn: Floats = np.where(both, table[np.ix_(self.cells, other.cells)], fill)
        return drawn


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
    """Where the bins of an axis are drawn.

    Parameters
    ----------
    axis, weights, values
        The bins, their weights, and the values that categories may be sorted by.
    limits
        Ends of a numeric range; by default those of `range_of`.
    scale
        Where numbers lie along the axis.
    extras
        Whether extra bins are drawn, or the labels of those that are; by default those that have weight.
    order
        Order of categories; see `category_order`.
    max_bars
        Number of bars for categories; those with the least weight share the last.
    """
    shown = extras_with_weight(axis, weights) if extras is None else extras
    extra = [b for b in extra_bins(axis) if (shown if isinstance(shown, bool) else axis.labels[b] in shown)]
    if axis.is_ordered:
        return _draw_intervals(axis, weights, limits or range_of(axis, weights), scale, extra)
    binning = _merged_categories(axis, weights, max_bars)
    alone = np.flatnonzero(np.bincount(binning.bins)[binning.bins[: axis.n_regular]] == 1)  # with a bar each
    sorted_by = None if values is None else values[alone]
    position = category_order([axis.labels[b] for b in alone], order, weights[alone], sorted_by)
    return _draw_categories(axis, binning, alone[position], extra)


@dataclasses.dataclass(frozen=True)
class AxisChoice:
    """How one axis of a pair is drawn: its ends and scale, or the order of its categories."""

    limits: Ends | None = None
    scale: AxisScale = LINEAR
    order: str = "auto"

    def draw(self, axis: Axis, weights: Floats, extras: Extras) -> AxisDrawing:
        """Where the bins of the axis are drawn."""
        return draw_axis(axis, weights, limits=self.limits, scale=self.scale, extras=extras, order=self.order)


def extra_bins(axis: Axis) -> range:
    """Bins that hold nothing but missing or unseen values."""
    return range(axis.n_regular, axis.size)


def extras_with_weight(axis: Axis, weights: Floats) -> frozenset[str]:
    """Labels of the extra bins that have weight."""
    return frozenset(axis.labels[b] for b in extra_bins(axis) if weights[b] > 0)


def _draw_intervals(axis: Axis, weights: Floats, limits: Ends, scale: AxisScale, extra: list[int]) -> AxisDrawing:
    low, high = limits
    thresholds = axis.thresholds
    inner = thresholds[(thresholds > low) & (thresholds < high)]
    first = int(np.searchsorted(thresholds, low, side="right"))
    cells = np.arange(first, first + len(inner) + 1)
    places = scale.forward(np.array([low, high]))
    span = places[1] - places[0]
    further, all_cells = _with_extra_cells(places[1:], cells, extra, gap=0.04 * span, width=0.07 * span)
    edges = np.concatenate([[low], inner, [high], scale.inverse(further[1:])])
    return AxisDrawing(
        name=axis.name,
        binning=unmerged(axis.size),
        edges=edges,
        cells=all_cells,
        n_regular=len(cells),
        labels=tuple(axis.labels[b] for b in extra),
        is_numeric=True,
        beyond=_weight_beyond(axis, weights, cells, limits),
        scale=scale,
        date_unit=axis.date_unit,
    )


def _weight_beyond(axis: Axis, weights: Floats, cells: Ints, limits: Ends) -> float:
    """Weight of the intervals that are not drawn whole; infinite ones count as whole."""
    starts, ends = axis.edges[cells], axis.edges[cells + 1]
    whole = ((starts >= limits[0]) | np.isinf(starts)) & ((ends <= limits[1]) | np.isinf(ends))
    beyond = float(weights[: axis.n_regular].sum() - weights[cells[whole]].sum())
    return beyond if beyond > 1e-9 else 0.0


def _with_extra_cells(
    edges: Floats, cells: Ints, extra: list[int] | Ints, *, gap: float, width: float
) -> tuple[Floats, Ints]:
    """Edges and cells with a gap and the extra bins after it."""
    if not len(extra):
        return edges, cells
    further = edges[-1] + gap + width * np.arange(len(extra) + 1)
    return np.concatenate([edges, further]), np.concatenate([cells, [GAP], extra]).astype(np.int64)


def _merged_categories(axis: Axis, weights: Floats, max_bars: int | None) -> Binning:
    """Categories with those of the least weight merged to one, where there are more than `max_bars`."""
    if max_bars is None or axis.n_regular <= max_bars:
        return unmerged(axis.size)
    bins = np.arange(axis.size)
    by_weight = np.argsort(-weights[: axis.n_regular], kind="stable")
    bins[by_weight[max_bars - 1 :]] = axis.size  # one number for all, after the others
    return binning_by(bins)


def _draw_categories(axis: Axis, binning: Binning, alone: Ints, extra: list[int]) -> AxisDrawing:
    """Categories with a bar each, in this order, then the bar of merged categories, then the extra bins."""
    members = np.bincount(binning.bins)
    merged = np.flatnonzero(members > 1)
    cells = np.concatenate([binning.bins[alone], merged])
    edges, all_cells = _with_extra_cells(np.arange(len(cells) + 1.0), cells, binning.bins[extra], gap=0.5, width=1.0)
    names = {int(binning.bins[b]): axis.labels[b] for b in range(axis.size)}
    names |= {GAP: ""} | {int(b): f"{members[b]} others, mean" for b in merged}
    return AxisDrawing(
        name=axis.name,
        binning=binning,
        edges=edges,
        cells=all_cells,
        n_regular=len(cells),
        labels=tuple(names[int(cell)] for cell in all_cells),
        is_numeric=False,
    )
