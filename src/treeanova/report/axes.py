"""Axes on the page: neighbouring bins or rare categories merged where a table would be too large."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.dates import date_texts
from treeanova.model.axes import Axis
from treeanova.model.binning import Binning, binning_by, equal_mass_groups
from treeanova.report.numbers import distinct_numbers, plain_days

_BY_MASS = 0.7  # how far bins are merged by mass; the rest is by their number


@dataclasses.dataclass(frozen=True, eq=False)
class PageAxis:
    """An axis as drawn on the page.

    Attributes
    ----------
    binning
        The bins of the page, with weights by which values are averaged within them.
    plain
        The axis as plain data.
    """

    binning: Binning
    plain: dict[str, Any]


def page_axis(axis: Axis, feature: int, masses: Floats, max_bins: int) -> PageAxis:
    """An axis with at most `max_bins` bins, besides those that hold only missing or unseen values."""
    merge, describe = (_interval_bins, _plain_intervals) if axis.is_ordered else (_category_bins, _plain_categories)
    bins = np.arange(axis.size) if axis.n_regular <= max_bins else merge(axis, masses, max_bins)
    binning = binning_by(bins, masses)
    return PageAxis(binning, {"feature": feature, **describe(axis, binning.bins), "bins": axis.size})


def _interval_bins(axis: Axis, masses: Floats, max_bins: int) -> Ints:
    """Neighbouring intervals of about equal mass; bins without rows get some room too."""
    n_intervals = axis.n_regular
    regular = masses[:n_intervals]
    total = regular.sum()
    spread = _BY_MASS * regular / total if total > 0 else np.zeros(n_intervals)
    spread = spread + (1 - spread.sum()) / n_intervals
    return np.concatenate([equal_mass_groups(spread, max_bins), np.full(axis.n_extra, max_bins)])


def _category_bins(axis: Axis, masses: Floats, max_bins: int) -> Ints:
    """The most frequent categories in their order, then all others as one."""
    n_categories = axis.n_regular
    bins = np.full(n_categories, max_bins - 1)
    kept = np.sort(np.argsort(-masses[:n_categories], kind="stable")[: max_bins - 1])
    bins[kept] = np.arange(max_bins - 1)
    return np.concatenate([bins, max_bins + np.arange(axis.n_extra)])


def _plain_intervals(axis: Axis, bins: Ints) -> dict[str, Any]:
    ends = np.flatnonzero(np.diff(bins[: axis.n_regular]))
    missing = int(bins[axis.missing_bin]) if axis.missing_bin >= 0 else -1
    bounds = axis.thresholds[ends]
    if not axis.date_unit:
        return {"kind": "interval", "bounds": distinct_numbers(bounds), "missing": missing}
    texts = date_texts(bounds, axis.date_unit)
    dates = {} if texts is None else {"texts": texts}
    return {"kind": "interval", "bounds": plain_days(bounds, axis.date_unit), "missing": missing, **dates}


def _plain_categories(axis: Axis, bins: Ints) -> dict[str, Any]:
    n_members = np.bincount(bins)
    labels = [f"{n} other categories" for n in n_members]
    for label, page_bin in zip(axis.labels, bins, strict=True):
        if n_members[page_bin] == 1:
            labels[page_bin] = label
    return {"kind": "category", "labels": labels, "extra": axis.n_extra}
