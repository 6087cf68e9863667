"""Axes on the page: fewer bins where a table would be too large, windows that show the data, histograms of rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.density import Statistics
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis

Groups = npt.NDArray[np.int64]
_BARS = 48
_CENTRE = (0.005, 0.995)
_SKEW = 3.0


@dataclasses.dataclass(frozen=True, eq=False)
class PageAxis:
    """An axis as drawn: the group of each bin, how values are averaged within groups, and a plain description."""

    groups: Groups
    means: Floats
    plain: dict[str, Any]

    @property
    def size(self) -> int:
        """Number of groups."""
        return len(self.means)

    @property
    def is_merged(self) -> bool:
        """Whether some bins have become one."""
        return self.size < len(self.groups)

    @property
    def sums(self) -> Floats:
        """Matrix of 0 and 1 that adds up the bins of each group."""
        return np.equal.outer(np.arange(self.size), self.groups).astype(np.float64)


def page_axis(axis: Axis, feature: int, masses: Floats, most: int) -> PageAxis:
    """An axis with at most so many groups of bins besides those of missing and unseen values."""
    if isinstance(axis, IntervalAxis):
        groups = _interval_groups(axis, masses, most)
        plain: dict[str, Any] = _plain_intervals(axis, groups)
    else:
        groups = _category_groups(axis, masses, most)
        plain = _plain_categories(axis, groups)
    plain = {"feature": feature, **plain, "bins": axis.size}
    return PageAxis(groups, _group_means(groups, masses), plain)


def _group_means(groups: Groups, masses: Floats) -> Floats:
    """Matrix of weighted means within groups; equal weights in a group without mass."""
    members = np.equal.outer(np.arange(groups.max() + 1), groups)
    weights = members * masses
    empty = weights.sum(axis=1) <= 0
    weights[empty] = members[empty]
    means: Floats = weights / weights.sum(axis=1, keepdims=True)
    return means


def _interval_groups(axis: IntervalAxis, masses: Floats, most: int) -> Groups:
    """Neighbouring intervals of about equal mass; a bin of missing values stays alone."""
    n_intervals = axis.n_regular
    groups = np.arange(axis.size)
    if n_intervals <= most:
        return groups
    own = masses[:n_intervals]
    spread = 0.7 * own / own.sum() if own.sum() > 0 else np.zeros(n_intervals)
    spread = spread + (1 - spread.sum()) / n_intervals  # bins without rows get some room too
    middles = np.cumsum(spread) - spread / 2
    merged = np.minimum((middles * most).astype(np.int64), most - 1)
    groups[:n_intervals] = np.unique(merged, return_inverse=True)[1]
    groups[n_intervals:] = groups[n_intervals - 1] + 1
    return groups


def _category_groups(axis: Axis, masses: Floats, most: int) -> Groups:
    """The most frequent categories, all others as one; bins of unseen and missing values stay alone."""
    n_categories = len(axis.categories) if isinstance(axis, CategoryAxis) else axis.size
    groups = np.arange(axis.size)
    if n_categories <= most:
        return groups
    kept = np.sort(np.argsort(-masses[:n_categories], kind="stable")[: most - 1])
    groups[:n_categories] = most - 1
    groups[kept] = np.arange(most - 1)
    groups[n_categories:] = most + np.arange(axis.size - n_categories)
    return groups


def _plain_intervals(axis: IntervalAxis, groups: Groups) -> dict[str, Any]:
    starts = np.flatnonzero(np.diff(groups[: axis.n_regular])) + 1
    missing = int(groups[axis.missing_bin]) if axis.missing_bin >= 0 else -1
    return {"kind": "interval", "bounds": distinct_numbers(axis.bounds[starts - 1]), "missing": missing}


def _plain_categories(axis: Axis, groups: Groups) -> dict[str, Any]:
    labels = ["" for _ in range(int(groups.max()) + 1)]
    for label, group in zip(axis.labels, groups, strict=True):
        members = int((groups == group).sum())
        labels[group] = label if members == 1 else f"{members} other categories"
    extra = axis.size - len(axis.categories) if isinstance(axis, CategoryAxis) else 0
    return {"kind": "category", "labels": labels, "extra": extra}


def distinct_numbers(numbers: Floats) -> list[float]:
    """Numbers of as few digits as tell them apart, at least six."""
    for digits in range(6, 17):
        short = [float(f"{number:.{digits}g}") for number in numbers]
        if len(set(short)) == len(set(numbers.tolist())):
            return short
    return [float(number) for number in numbers]


def window(axis: IntervalAxis, j: int, statistics: Statistics | None) -> dict[str, Any]:
    """Ends of the drawn axis: bounds of the model and most of the rows; only these where bounds lie far out."""
    bounds = axis.bounds
    centre = None if statistics is None else statistics.quantiles(j, _CENTRE)
    values = None if statistics is None else statistics.value_range(j)
    known = bounds if centre is None else np.concatenate([bounds, centre])
    known = known if len(known) else np.array([0.0, 1.0])
    low, high, cut = float(known.min()), float(known.max()), False
    if centre is not None and centre[1] > centre[0] and high - low > _SKEW * (centre[1] - centre[0]):
        low, high, cut = float(centre[0]), float(centre[1]), True
    room = 0.03 * (high - low) or 0.5 * max(abs(low), 1.0)
    ends = (low - room, high + room)
    if values is not None and high > low:  # not past the data
        ends = max(ends[0], min(values[0], low)), min(ends[1], max(values[1], high))
    return {"low": float(f"{ends[0]:.6g}"), "high": float(f"{ends[1]:.6g}"), "cut": cut}


def histogram(statistics: Statistics, j: int, low: float, high: float) -> list[int]:
    """Shares of the rows in equal steps of a window, in millionths."""
    return millionths(statistics.histogram(j, low, high, _BARS))


def millionths(shares: Floats | Sequence[float]) -> list[int]:
    """Shares as whole millionths; what is not zero stays so."""
    parts = np.rint(np.asarray(shares, dtype=np.float64).ravel() * 1e6)
    parts[(parts == 0) & (np.ravel(shares) > 0)] = 1
    return [int(part) for part in parts]
