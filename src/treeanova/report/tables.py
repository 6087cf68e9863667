"""Tables of terms for the page: forms on common axes, bins for drawing, whole numbers of one unit."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key, Names, distinct
from treeanova.data.dates import date_texts, days_since_1970
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import Term, tables_of
from treeanova.density.statistics import Statistics
from treeanova.model.axes import Axis, short_ends
from treeanova.model.grid import Binning, binning_by, common_refinement, equal_mass_groups, unmerged

RAW = "raw"


@dataclasses.dataclass(frozen=True, eq=False)
class CommonTable:
    """A term in all forms that have its table, on axes at least as fine as those of each form.

    `binnings` lead from the bins of the grid to those of the common axes. `rows` are shares of the rows per cell, or
    weights under the main density if rows are not known. Values and errors have a last axis of outputs.
    """

    positions: Key
    axes: tuple[Axis, ...]
    binnings: tuple[Binning, ...]
    rows: Floats
    values: dict[str, Floats]
    weights: dict[str, Floats]
    errors: Floats | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Forms:
    """The same model in several forms: under each density, the main one first, then ``raw``.

    `errors` are standard errors of tables of the main form, with a last axis of outputs.
    """

    by_name: Mapping[str, Decomposition]
    errors: Mapping[Names, Floats] = dataclasses.field(default_factory=dict)

    @property
    def main(self) -> Decomposition:
        return next(iter(self.by_name.values()))

    @functools.cached_property
    def tables(self) -> dict[str, dict[Names, Term]]:
        """Terms with a table, by form and names of features."""
        return {name: tables_of(fx) for name, fx in self.by_name.items()}

    def terms_by_form(self, names: Names) -> dict[str, Term]:
        """Return a term in each form that has its table."""
        return {form: terms[names] for form, terms in self.tables.items() if names in terms}

    @functools.cached_property
    def _binnings(self) -> dict[Names, dict[str, tuple[Binning, ...]]]:
        """Bins of each table, as merged bins of the main form's grid, by names of features and form."""
        binnings: dict[Names, dict[str, tuple[Binning, ...]]] = {}
        for form, terms in self.tables.items():
            for names, term in terms.items():
                binnings.setdefault(names, {})[form] = binnings_of(self.main, term)
        return binnings

    def _common_binnings(self, names: Names) -> tuple[Binning, ...]:
        """Return, per feature of a term, the coarsest bins that divide no bin of any form's table in two."""
        return tuple(common_refinement(column) for column in zip(*self._binnings[names].values(), strict=True))

    def sizes(self, names: Names) -> tuple[int, ...]:
        """Return the number of common bins of each feature of a term."""
        return tuple(binning.size for binning in self._common_binnings(names))

    def common_table(self, names: Names) -> CommonTable:
        """Return a term in all forms on common bins."""
        main, terms = self.main, self.terms_by_form(names)
        positions, binnings = positions_of(main, names), self._common_binnings(names)
        axes = tuple(binning.axis(main.grid.axes[j]) for binning, j in zip(binnings, positions, strict=True))
        coarse_bins = {  # per form and feature, its bin for each common bin; None if they are the same
            form: [None if old.equals(fine) else old.within(fine) for old, fine in zip(coarse, binnings, strict=True)]
            for form, coarse in self._binnings[names].items()
        }
        weights = {form: _share_among_finer_cells(term.weights, coarse_bins[form]) for form, term in terms.items()}
        return CommonTable(
            positions,
            axes,
            binnings,
            self._rows(positions, binnings, weights),
            {form: _take_along_axes(outputs_last(term), coarse_bins[form]) for form, term in terms.items()},
            weights,
            _take_along_axes(self.errors[names], coarse_bins[next(iter(self.by_name))])
            if names in self.errors
            else None,
        )

    def _rows(self, positions: Key, binnings: tuple[Binning, ...], weights: Mapping[str, Floats]) -> Floats:
        """Return the share of rows per cell, or the weight under the main density if rows are not known."""
        density = self.main.density
        if density.statistics is not None:
            return density.statistics.counts(positions, binnings)
        main = weights.get(next(iter(self.by_name)))
        return density.table(positions, binnings) if main is None else main

    def masses(self, feature: int, binning: Binning) -> Floats:
        """Return the share of rows, or without rows the weight, of each bin of a feature."""
        density = self.main.density
        counts = density.table if density.statistics is None else density.statistics.counts
        return counts((feature,), (binning,))


def outputs_last(term: Term) -> Floats:
    """Return a term's values with a last axis of outputs, even for one output."""
    return term.values.reshape(*term.weights.shape, -1)


def positions_of(fx: Decomposition, names: Names) -> Key:
    return tuple(fx.schema.names.index(name) for name in names)


def binnings_of(fx: Decomposition, term: Term) -> tuple[Binning, ...]:
    """Return, per feature of a term, its bins as merged bins of the decomposition's grid."""
    binnings = []
    for j, axis in zip(positions_of(fx, term.features), term.axes, strict=True):
        fine = fx.grid.axes[j]
        is_same = fine is axis or fine.has_bins_of(axis)
        binnings.append(unmerged(fine.size) if is_same else binning_by(axis.index(fine.examples()).astype(np.int64)))
    return tuple(binnings)


def _take_along_axes(values: Floats, coarse_bins: Sequence[Ints | None]) -> Floats:
    """Return a table on finer bins, given the old bin of each per axis; None if they are the same."""
    for axis, bins in enumerate(coarse_bins):
        values = values if bins is None else values.take(bins, axis=axis)
    return values


def _share_among_finer_cells(weights: Floats, coarse_bins: Sequence[Ints | None]) -> Floats:
    """Share the weight of each cell equally among its finer cells, given as for `_take_along_axes`."""
    finer = _take_along_axes(weights, coarse_bins)
    for axis, bins in enumerate(coarse_bins):
        if bins is not None:
            n_finer = np.bincount(bins)[bins]
            finer = finer / n_finer.reshape([-1 if i == axis else 1 for i in range(finer.ndim)])
    return finer


_DIGITS = 6


def unit_of(largest: float) -> float:
    """Return the unit of all values on the page: the largest value has six digits."""
    return 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0 else 1.0


def whole_units(values: Floats, unit: float) -> list[list[int]]:
    """Return values as whole numbers of units, a list for each entry of the first axis."""
    return [[int(number) for number in row] for row in np.rint(values / unit).reshape(len(values), -1)]


def millionths(shares: Floats | Sequence[float]) -> list[int]:
    """Return whole millionths, at least one for a share that is not zero."""
    counts = np.rint(np.asarray(shares, dtype=np.float64).ravel() * 1e6)
    counts[(counts == 0) & (np.ravel(shares) > 0)] = 1
    return [int(count) for count in counts]


def plain_days(numbers: Floats, unit: str) -> list[float]:
    """Return days since 1970, to a millionth."""
    return [round(float(day), 6) for day in days_since_1970(numbers, unit)]


def six_digits(number: float) -> float:
    return float(f"{number:.{_DIGITS}g}")


_N_BARS = 48
_BULK = (0.005, 0.995)
_LONGEST_RANGE = 3.0  # of all thresholds, relative to that of the bulk of the rows
_MARGIN = 0.03
_NAMES = (25, 10)  # characters of names of main effects and interactions in the list of terms


def plain_features(fx: Decomposition) -> list[dict[str, Any]]:
    """Return each feature's name, and for numbers the drawn window with a histogram of the rows."""
    # Long names get short ones for the list of terms: one in main effects, one in interactions.
    names = [axis.name for axis in fx.grid.axes]
    short = [list(pair) for pair in zip(*(distinct(names, room) for room in _NAMES), strict=True)]
    return [
        {"name": axis.name}
        | ({"short": short[j]} if short[j][1] != axis.name else {})
        | (_plain_window(axis, j, fx.density.statistics) if axis.is_ordered else {})
        for j, axis in enumerate(fx.grid.axes)
    ]


def _plain_window(axis: Axis, j: int, statistics: Statistics | None) -> dict[str, Any]:
    """Return the drawn range of a feature, dates in days, and a histogram of its rows in millionths."""
    ends = window(axis, j, statistics)
    plain = ends if not axis.date_unit else ends | plain_dates(ends, axis.date_unit)
    if statistics is None:
        return plain
    return plain | {"histogram": millionths(statistics.histogram(j, ends["low"], ends["high"], _N_BARS))}


def plain_dates(ends: dict[str, Any], unit: str) -> dict[str, Any]:
    """Return the ends of a `window` in days since 1970, from numbers of a unit."""
    low, high = plain_days(np.array([ends["low"], ends["high"]]), unit)
    whole = {"whole": plain_days(np.array(ends["whole"]), unit)} if "whole" in ends else {}
    return {"low": low, "high": high, "date": True, **whole}


def window(axis: Axis, j: int, statistics: Statistics | None) -> dict[str, Any]:
    """Return the drawn range: all thresholds and the bulk of the rows, or only these rows if thresholds lie far out."""
    bulk = None if statistics is None else statistics.quantiles(j, _BULK)
    numbers = axis.thresholds if bulk is None else np.concatenate([axis.thresholds, bulk])
    numbers = numbers if len(numbers) else np.array([0.0, 1.0])
    first, last = low, high = float(numbers.min()), float(numbers.max())
    is_cut = bulk is not None and bulk[1] > bulk[0] and high - low > _LONGEST_RANGE * (bulk[1] - bulk[0])
    if bulk is not None and is_cut:
        low, high = float(bulk[0]), float(bulk[1])
    margin = _MARGIN * (high - low) or 0.5 * max(abs(low), 1.0)
    ends = low - margin, high + margin
    values = None if statistics is None else statistics.value_range(j)
    if values is not None and high > low:  # not beyond the data
        ends = max(ends[0], min(values[0], low)), min(ends[1], max(values[1], high))
    shorten = float if axis.date_unit else functools.partial(_digits_of_range, width=ends[1] - ends[0])
    # On an axis that is not linear no tail is cut.
    whole = {"whole": [shorten(first), shorten(last + _MARGIN * (last - first))]} if is_cut else {}
    return {"low": shorten(ends[0]), "high": shorten(ends[1]), "cut": bool(is_cut), **whole}


def _digits_of_range(end: float, width: float) -> float:
    """Round an end of a range to six digits of the range, which may be narrow and far from zero."""
    more = math.ceil(math.log10(max(abs(end) / width, 1.0))) if 0 < width < math.inf else 0
    return float(f"{end:.{min(_DIGITS + more, 17)}g}")


_BY_MASS = 0.7  # how far bins are merged by mass; the rest is by their number


class PageAxis(NamedTuple):
    """An axis as drawn: merged bins, with masses by which values are averaged, and the axis as plain data."""

    binning: Binning
    plain: dict[str, Any]


def page_axis(axis: Axis, feature: int, masses: Floats, max_bins: int) -> PageAxis:
    """Return the axis of a feature (its position) with at most `max_bins` bins, merged by the masses of its bins."""
    merge, describe = (_interval_bins, plain_intervals) if axis.is_ordered else (_category_bins, _plain_categories)
    bins = np.arange(axis.size) if axis.n_regular <= max_bins else merge(axis, masses, max_bins)
    binning = binning_by(bins, masses)
    return PageAxis(binning, {"feature": feature, **describe(axis, binning.bins), "bins": axis.size})


def _interval_bins(axis: Axis, masses: Floats, max_bins: int) -> Ints:
    """Return the merged bin of each bin: neighbours of about equal mass; bins without rows get some room too."""
    n_intervals = axis.n_regular
    regular = masses[:n_intervals]
    total = regular.sum()
    spread = _BY_MASS * regular / total if total > 0 else np.zeros(n_intervals)
    spread = spread + (1 - spread.sum()) / n_intervals
    return np.concatenate([equal_mass_groups(spread, max_bins), np.full(axis.n_extra, max_bins)])


def _category_bins(axis: Axis, masses: Floats, max_bins: int) -> Ints:
    """Return the merged bin of each bin: all but the most frequent categories share one."""
    n_categories = axis.n_regular
    bins = np.full(n_categories, max_bins - 1)
    frequent = np.sort(np.argsort(-masses[:n_categories], kind="stable")[: max_bins - 1])
    bins[frequent] = np.arange(max_bins - 1)
    return np.concatenate([bins, max_bins + np.arange(axis.n_extra)])


def plain_intervals(axis: Axis, bins: Ints) -> dict[str, Any]:
    """Return the bounds between merged bins (given per bin) as short numbers, or as days and texts of dates."""
    missing = int(bins[axis.missing_bin]) if axis.missing_bin >= 0 else -1
    bounds = axis.thresholds[np.flatnonzero(np.diff(bins[: axis.n_regular]))]
    if not axis.date_unit:
        ends = short_ends(bounds, _DIGITS)
        excluded = [i for i, end in enumerate(ends) if end.excluded]  # values are below these numbers
        numbers = [float(end.text) for end in ends]
        return {"kind": "interval", "bounds": numbers, "missing": missing} | (
            {"excluded": excluded} if excluded else {}
        )
    texts = date_texts(bounds, axis.date_unit)
    dates = {} if texts is None else {"texts": texts}
    return {"kind": "interval", "bounds": plain_days(bounds, axis.date_unit), "missing": missing, **dates}


def _plain_categories(axis: Axis, bins: Ints) -> dict[str, Any]:
    """Return the label of each merged bin (given per bin), and the number of extra bins."""
    n_members = np.bincount(bins)
    labels = [f"{n} other categories" for n in n_members]
    for label, page_bin in zip(axis.labels, bins, strict=True):
        if n_members[page_bin] == 1:
            labels[page_bin] = label
    return {"kind": "category", "labels": labels, "extra": axis.n_extra}


_STRONGEST_CELLS = 30


class TableMaker:
    """Makes the tables of terms, all in one unit; axes are stored once and referred to by position."""

    def __init__(self, forms: Forms, unit: float) -> None:
        self.forms = forms
        self.unit = unit
        self.axes: list[dict[str, Any]] = []
        self._placed: dict[tuple[int, bytes, int], tuple[int, PageAxis]] = {}

    def _placed_axis(self, table: CommonTable, i: int, max_bins: int) -> tuple[int, PageAxis]:
        """Return the position of an axis among `axes`, to which a new one is added, and the axis as drawn."""
        axis, feature, binning = table.axes[i], table.positions[i], table.binnings[i]
        key = feature, binning.bins.tobytes(), min(max_bins, axis.size)
        if key not in self._placed:
            drawn = page_axis(axis, feature, self.forms.masses(feature, binning), key[2])
            self._placed[key] = len(self.axes), drawn
            self.axes.append(drawn.plain)
        return self._placed[key]

    def table(self, names: Names, max_bins: int) -> dict[str, Any]:
        """Return a main effect or a pair in all forms as plain data, with at most `max_bins` bins per axis."""
        common = self.forms.common_table(names)
        placed = [self._placed_axis(common, i, max_bins) for i in range(len(common.axes))]
        binnings = [axis.binning for _, axis in placed]
        rows = common.rows
        for axis, binning in enumerate(binnings):
            rows = binning.pool(rows, axis)
        values = {form: _average_along_axes(tensor, binnings) for form, tensor in common.values.items()}
        errors = {}
        if common.errors is not None:  # merged bins get the mean, an upper bound
            merged = np.moveaxis(_average_along_axes(common.errors, binnings), -1, 0)
            errors = {"errors": whole_units(merged, self.unit)}
        is_merged = any(not binning.is_identity for binning in binnings)
        return {
            "axes": [position for position, _ in placed],
            "rows": millionths(rows),
            **({"merged": True} if is_merged else {}),
            "values": self._plain_values(values, len(names)),
            **errors,
            "moved": _change_by_purification(common),
        }

    def strongest_cells(self, names: Names) -> dict[str, Any]:
        """Return the cells of a term of order 3 or more with the largest value times root of the rows' share."""
        common = self.forms.common_table(names)
        rows, main = common.rows, next(iter(common.values.values()))
        sizes = np.abs(main).max(axis=-1) * np.sqrt(rows)
        cells = np.argsort(-sizes, axis=None, kind="stable")[:_STRONGEST_CELLS]
        bins = np.unravel_index(cells, rows.shape)
        return {
            "cells": [[axis.labels[i] for i in on_axis] for axis, on_axis in zip(common.axes, bins, strict=True)],
            "rows": millionths(rows[bins]),
            "values": {form: whole_units(tensor[bins].T, self.unit) for form, tensor in common.values.items()},
            "n_cells": int(rows.size),
            "moved": _change_by_purification(common),
        }

    def _plain_values(self, values: Mapping[str, Floats], order: int) -> dict[str, Any]:
        """Return values of all forms, outputs first; of a pair that differs from `base` by main effects, just these."""
        plain: dict[str, Any] = {}
        base: str | None = None
        for form, tensor in values.items():
            sides = None if base is None or order < 2 else self._rows_and_columns(values[base], tensor)
            if sides is None:
                plain[form] = whole_units(np.moveaxis(tensor, -1, 0), self.unit)
                base = base or form
            else:
                rows, columns = (whole_units(side, self.unit) for side in sides)
                plain[form] = {"base": base, "rows": rows, "columns": columns}
        return plain

    def _rows_and_columns(self, base: Floats, tensor: Floats) -> tuple[Floats, Floats] | None:
        """Return main effects (outputs first) whose sum turns one pair into another, if they exist."""
        gap = np.moveaxis(tensor - base, -1, 0)
        columns = gap.mean(axis=1)
        rows = (gap - columns[:, None, :]).mean(axis=2)
        residual = gap - rows[:, :, None] - columns[:, None, :]
        return (rows, columns) if np.abs(residual).max(initial=0.0) < self.unit / 4 else None


def _average_along_axes(values: Floats, binnings: list[Binning]) -> Floats:
    """Return a table on merged bins, with means of values."""
    for axis, binning in enumerate(binnings):
        values = binning.average(values, axis)
    return values


def _change_by_purification(table: CommonTable) -> dict[str, list[float]]:
    """Return the root mean square of purification's change of a term, per density and output."""
    before = table.values.get(RAW, 0.0)
    changes = {}
    for form, values in table.values.items():
        if form != RAW:
            squares = np.tensordot(table.weights[form], (values - before) ** 2, axes=len(table.axes))
            changes[form] = [six_digits(float(root)) for root in np.sqrt(squares)]
    return changes
