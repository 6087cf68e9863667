"""Where the bins of an axis are drawn: true bounds in a finite range, categories in order, missing and unseen apart."""

from __future__ import annotations

import dataclasses
import functools
import re
from collections.abc import Collection, Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis

GAP, OTHERS = -1, -2
Extras = bool | Collection[str] | None
Ends = tuple[float, float] | None
ORDERS = ("auto", "given", "value", "weight")
_TAIL = 0.01  # of the weight on each side may lie outside, where that makes the rest much wider
_STRETCH = 0.5  # of the range: the longest tail that is kept
_FIRST_NUMBER = re.compile(r"^\s*([<>≤≥]?)[\s=(\[$€£~]*(-?\d+(?:\.\d+)?)")
_NEXT = {"<": -np.inf, "≤": -np.inf, ">": np.inf, "≥": np.inf}


@dataclasses.dataclass(frozen=True, eq=False)
class Layout:
    """Bins of one axis side by side.

    Attributes
    ----------
    name
        Name of the feature.
    edges
        Ends of the drawn cells, one more than cells.
    cells
        The bin in each cell; GAP for the room before missing and unseen, OTHERS for all bins in `others` together.
    n_regular
        Number of cells before the gap.
    labels
        A label per cell; empty for intervals, which have a scale of numbers.
    others
        Bins that share the cell OTHERS.
    beyond
        Weight of intervals that end outside the range: at most this share lies there.
    """

    name: str
    edges: Floats
    cells: Ints
    n_regular: int
    labels: tuple[str, ...]
    is_numeric: bool
    others: Ints = dataclasses.field(default_factory=lambda: np.empty(0, dtype=np.int64))
    beyond: float = 0.0

    @property
    def low(self) -> float:
        """The lower end of the numbers or categories."""
        return float(self.edges[0])

    @property
    def high(self) -> float:
        """Their upper end; missing and unseen come after it."""
        return float(self.edges[self.n_regular])

    @functools.cached_property
    def centres(self) -> Floats:
        """Middles of the cells."""
        middles: Floats = (self.edges[1:] + self.edges[:-1]) / 2
        return middles

    @property
    def filled(self) -> npt.NDArray[np.bool_]:
        """Cells that are no gap."""
        is_bin: npt.NDArray[np.bool_] = self.cells != GAP
        return is_bin

    @property
    def extra(self) -> Ints:
        """Cells of missing and unseen values."""
        return np.arange(self.n_regular + 1, len(self.cells))

    def values(self, values: Floats, weights: Floats) -> Floats:
        """One number per cell from one per bin: NaN in gaps, the weighted mean for OTHERS."""
        drawn: Floats = np.where(self.filled, values[self.cells], np.nan)
        if len(self.others):
            drawn[self.cells == OTHERS] = _mean(values[self.others], weights[self.others])
        return drawn

    def masses(self, weights: Floats) -> Floats:
        """Weight of each cell: that of its bin, the sum for OTHERS, 0 in gaps."""
        drawn: Floats = np.where(self.filled, weights[self.cells], 0.0)
        drawn[self.cells == OTHERS] = weights[self.others].sum()
        return drawn

    def spread(self, weights: Floats, points: Floats) -> Floats:
        """Weight between ascending points, that of each interval (infinite ones end with the range) spread evenly."""
        below = np.concatenate([[0.0], np.cumsum(weights[self.cells[: self.n_regular]])])
        between: Floats = np.diff(np.interp(points, self.edges[: self.n_regular + 1], below))
        return between

    def plane(self, table: Floats, other: Layout, fill: float) -> Floats:
        """A table over the bins of this axis and another as an array over their cells."""
        both = self.filled[:, None] & other.filled[None]
        drawn: Floats = np.where(both, table[np.ix_(self.cells, other.cells)], fill)
        return drawn


def _mean(values: Floats, weights: Floats) -> float:
    return float(np.average(values, weights=weights) if weights.sum() > 0 else values.mean())


def layout_of(
    axis: Axis,
    weights: Floats,
    *,
    values: Floats | None = None,
    ends: Ends = None,
    limits: Ends = None,
    extras: Extras = None,
    order: str = "auto",
    max_bars: int | None = None,
) -> Layout:
    """The layout of an axis.

    Parameters
    ----------
    axis, weights, values
        The bins, their weights, and what nominal categories are sorted by.
    ends
        Ends of (nearly all) numbers in the data, where known.
    limits
        Ends of a numeric range; by default those that `range_of` finds.
    extras
        Whether bins of missing and unseen values are drawn, or the labels of those that are; by default those that
        have weight.
    order
        Of categories: one of ORDERS.
    max_bars
        Number of categories drawn one by one.
    """
    shown = with_weight(axis, weights) if extras is None else extras
    extra = [b for b in extra_bins(axis) if (shown if isinstance(shown, bool) else axis.labels[b] in shown)]
    if isinstance(axis, IntervalAxis):
        return _interval_layout(axis, weights, limits or range_of(axis, weights, ends), extra)
    assert isinstance(axis, CategoryAxis)  # noqa: S101  there is no third kind
    bins, others = _ordered(axis, weights, values, order, max_bars)
    return _category_layout(axis, bins, others, extra)


def with_weight(axis: Axis, weights: Floats) -> frozenset[str]:
    """Labels of the bins of missing and unseen values that have weight."""
    return frozenset(axis.labels[b] for b in extra_bins(axis) if weights[b] > 0)


def extra_bins(axis: Axis) -> list[int]:
    """Bins that hold nothing but missing or unseen values."""
    n_regular = axis.n_regular if isinstance(axis, IntervalAxis) else len(getattr(axis, "categories", ()))
    return list(range(n_regular, axis.size))


def _interval_layout(axis: IntervalAxis, weights: Floats, limits: tuple[float, float], extra: list[int]) -> Layout:
    low, high = limits
    bounds = axis.bounds
    inner = bounds[(bounds > low) & (bounds < high)]
    first = int(np.searchsorted(bounds, low, side="right"))
    cells = np.arange(first, first + len(inner) + 1)
    starts, ends = axis.edges[cells], axis.edges[cells + 1]
    whole = ((starts >= low) | np.isinf(starts)) & ((ends <= high) | np.isinf(ends))
    beyond = float(weights[: axis.n_regular].sum() - weights[cells[whole]].sum())
    edges, cells = _with_extra_cells(
        np.concatenate([[low], inner, [high]]), cells, extra, gap=0.04 * (high - low), width=0.07 * (high - low)
    )
    names = tuple(axis.labels[b] for b in extra)
    beyond = beyond if beyond > 1e-9 else 0.0
    return Layout(axis.name, edges, cells, len(inner) + 1, names, is_numeric=True, beyond=beyond)


def _with_extra_cells(edges: Floats, cells: Ints, extra: list[int], *, gap: float, width: float) -> tuple[Floats, Ints]:
    if not extra:
        return edges, cells
    further = edges[-1] + gap + width * np.arange(len(extra) + 1)
    return np.concatenate([edges, further]), np.concatenate([cells, [GAP], extra]).astype(np.int64)


def range_of(axis: IntervalAxis, weights: Floats, ends: Ends = None) -> tuple[float, float]:
    """Ends of a numeric range: a little beyond the outermost bounds, or the ends of the data where these are near.

    Long tails that hold next to no weight are left out.
    """
    bounds = axis.bounds
    if not len(bounds):
        return ends if ends is not None and ends[0] < ends[1] else (0.0, 1.0)
    low, high = _core(bounds, weights[: axis.n_regular], ends)
    first, last = ends or (low, high)
    least = 0.04 * ((high - low) or (last - first)) or max(abs(high) * 0.1, 0.5)
    most = _STRETCH * (high - low) or np.inf
    below = np.clip(low - first, least, most) if low == bounds[0] else least
    above = np.clip(last - high, least, most) if high == bounds[-1] else least
    return float(low - below), float(high + above)


def _core(bounds: Floats, masses: Floats, ends: Ends) -> tuple[float, float]:
    """The outermost bounds, without long tails."""
    start, end = ends or _bulk(bounds, masses)
    tail = _STRETCH * (end - start)
    low = start if 0 < tail < start - bounds[0] else bounds[0]
    high = end if 0 < tail < bounds[-1] - end else bounds[-1]
    return float(low), float(high)


def _bulk(bounds: Floats, masses: Floats) -> tuple[float, float]:
    """Bounds with next to no weight beyond."""
    below = np.cumsum(masses)[:-1] / masses.sum() if masses.sum() > 0 else np.linspace(0, 1, len(bounds))
    start = max(int(np.searchsorted(below, _TAIL, side="right")) - 1, 0)
    end = min(int(np.searchsorted(below, 1 - _TAIL)), len(bounds) - 1)
    return float(bounds[start]), float(bounds[end])


def _category_layout(axis: CategoryAxis, bins: Ints, others: Ints, extra: list[int]) -> Layout:
    cells = np.concatenate([bins, [OTHERS]]).astype(np.int64) if len(others) else bins
    edges, all_cells = _with_extra_cells(np.arange(len(cells) + 1.0), cells, extra, gap=0.5, width=1.0)
    names = {**dict(enumerate(axis.labels)), GAP: "", OTHERS: f"{len(others)} others, mean"}
    labels = tuple(names[int(cell)] for cell in all_cells)
    return Layout(axis.name, edges, all_cells, len(cells), labels, is_numeric=False, others=others)


def _ordered(
    axis: CategoryAxis, weights: Floats, values: Floats | None, order: str, max_bars: int | None
) -> tuple[Ints, Ints]:
    """Categories as they are drawn, and those that are drawn as one."""
    if order not in ORDERS:
        raise ValueError(f"`order` must be one of {', '.join(map(repr, ORDERS))}, got {order!r}; leave it out.")
    bins = np.arange(len(axis.categories))
    others = bins[:0]
    if max_bars is not None and len(bins) > max_bars:
        by_weight = np.argsort(-weights[bins], kind="stable")
        bins, others = np.sort(by_weight[: max_bars - 1]), np.sort(by_weight[max_bars - 1 :])
    keys = _sort_keys([axis.labels[b] for b in bins], order, weights[bins], None if values is None else values[bins])
    return bins[np.argsort(keys, kind="stable")], others


def _sort_keys(labels: Sequence[str], order: str, weights: Floats, values: Floats | None) -> Floats:
    numbers = numbers_in(labels)
    if order == "weight":
        return -weights
    if order == "given" or (order == "auto" and numbers is None and values is None):
        return np.arange(float(len(labels)))
    if order == "auto" and numbers is not None:
        return numbers
    return np.arange(float(len(labels))) if values is None else -values


def numbers_in(labels: Sequence[str]) -> Floats | None:
    """The number that each label begins with ("10", "< 5", "20-29"); None unless all do."""
    found = [_FIRST_NUMBER.match(label) for label in labels]
    if not found or not all(found):
        return None
    numbers = ((match[1], float(match[2])) for match in found if match)
    return np.array([np.nextafter(number, _NEXT.get(sign, number)) for sign, number in numbers])
