"""Tables of terms for the page: forms on common axes, bins for drawing, whole numbers of one unit.

All that the report reads of a decomposition's density and grid, other than windows and histograms, is read here.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key, Names, distinct
from treeanova.data.dates import date_texts, days_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.density.statistics import Statistics
from treeanova.model.axes import Axis
from treeanova.model.grid import Binning, binning_by, common_refinement, equal_mass_groups, unmerged

RAW = "raw"


@dataclasses.dataclass(frozen=True, eq=False)
class CommonTable:
    """A term in all forms that have its table, on axes that are at least as fine as those of each form.

    Attributes
    ----------
    positions
        Positions of the features.
    axes
        The common axes.
    binnings
        One per feature, from the bins of the grid to those of the common axes.
    rows
        Share of the rows in each cell; weight under the main density where rows are not known.
    values
        Values by form, with a last axis of outputs.
    weights
        Weights of the cells by form.
    errors
        Standard errors of the values of the main form, with a last axis of outputs; None where they are not known.
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
    """The same model in several forms.

    Attributes
    ----------
    by_name
        Decompositions by the name of the form: those of the densities, the main one first, then ``raw``.
    errors
        Standard errors of tables of the main form, by names, with a last axis of outputs.
    """

    by_name: Mapping[str, Decomposition]
    errors: Mapping[Names, Floats] = dataclasses.field(default_factory=dict)

    @property
    def main(self) -> Decomposition:
        """The decomposition that the page is about."""
        return next(iter(self.by_name.values()))

    @functools.cached_property
    def tables(self) -> dict[str, dict[Names, Term]]:
        """Terms that have a table, by form and names."""
        return {name: tables_of(fx) for name, fx in self.by_name.items()}

    def terms(self, names: Names) -> dict[str, Term]:
        """A term in the forms that have its table."""
        return {form: terms[names] for form, terms in self.tables.items() if names in terms}

    @functools.cached_property
    def _binnings(self) -> dict[Names, dict[str, tuple[Binning, ...]]]:
        """From the bins of the grid to those of each term and form."""
        binnings: dict[Names, dict[str, tuple[Binning, ...]]] = {}
        for form, terms in self.tables.items():
            for names, term in terms.items():
                binnings.setdefault(names, {})[form] = binnings_of(self.main, term)
        return binnings

    def _common(self, names: Names) -> tuple[Binning, ...]:
        """From the bins of the grid to those of the common axes of a term."""
        return tuple(common_refinement(column) for column in zip(*self._binnings[names].values(), strict=True))

    def sizes(self, names: Names) -> tuple[int, ...]:
        """Number of bins of each common axis of a term."""
        return tuple(binning.size for binning in self._common(names))

    def table(self, names: Names) -> CommonTable:
        """A term in all forms that have its table, on common axes."""
        main, terms = self.main, self.terms(names)
        positions, binnings = positions_of(main, names), self._common(names)
        axes = tuple(binning.axis(main.grid.axes[j]) for binning, j in zip(binnings, positions, strict=True))
        places = {form: _bins_within(own, binnings) for form, own in self._binnings[names].items()}
        weights = {form: _shared(term.weights, places[form]) for form, term in terms.items()}
        return CommonTable(
            positions,
            axes,
            binnings,
            self._rows(positions, binnings, weights),
            {form: _taken(outputs_last(term), places[form]) for form, term in terms.items()},
            weights,
            _taken(self.errors[names], places[next(iter(self.by_name))]) if names in self.errors else None,
        )

    def _rows(self, positions: Key, binnings: tuple[Binning, ...], weights: Mapping[str, Floats]) -> Floats:
        """Share of the rows in each cell; weight under the main density where rows are not known."""
        density = self.main.density
        if density.statistics is not None:
            return density.statistics.counts(positions, binnings)
        known = weights.get(next(iter(self.by_name)))
        return density.table(positions, binnings) if known is None else known

    def masses(self, feature: int, binning: Binning) -> Floats:
        """Share of the rows in each bin of a feature; weight under the main density where rows are not known."""
        density = self.main.density
        counts = density.table if density.statistics is None else density.statistics.counts
        return counts((feature,), (binning,))


def tables_of(fx: Decomposition) -> dict[Names, Term]:
    """The terms that have a table."""
    return {names: term for names, term in fx.terms.items() if term.has_table}


def outputs_last(term: Term) -> Floats:
    """Values of a term with a last axis of outputs, also where there is one."""
    values: Floats = term.values.reshape(*term.weights.shape, -1)
    return values


def positions_of(fx: Decomposition, names: Names) -> Key:
    """Positions of features."""
    return tuple(fx.schema.names.index(name) for name in names)


def binnings_of(fx: Decomposition, term: Term) -> tuple[Binning, ...]:
    """From the bins of the grid to those of a term, one per feature."""
    positions = positions_of(fx, term.features)
    return tuple(_binning(fx.grid.axes[j], axis) for j, axis in zip(positions, term.axes, strict=True))


def _binning(fine: Axis, coarse: Axis) -> Binning:
    """From the bins of an axis to those of a coarser one."""
    if fine is coarse or fine.has_bins_of(coarse):
        return unmerged(fine.size)
    return binning_by(coarse.index(fine.examples()).astype(np.int64))


def _bins_within(coarse: Sequence[Binning], fine: Sequence[Binning]) -> list[Ints | None]:
    """Coarse bin that contains each fine bin, per feature; None where they are the same."""
    pairs = zip(coarse, fine, strict=True)
    return [None if outer.equals(inner) else outer.within(inner) for outer, inner in pairs]


def _taken(values: Floats, places: Sequence[Ints | None]) -> Floats:
    """A tensor at places along its first axes."""
    for axis, place in enumerate(places):
        values = values if place is None else values.take(place, axis=axis)
    return values


def _shared(weights: Floats, places: Sequence[Ints | None]) -> Floats:
    """Weights on finer axes: that of a cell is shared equally by the finer cells in it."""
    finer = _taken(weights, places)
    for axis, place in enumerate(places):
        if place is not None:
            n_parts = np.bincount(place)[place]
            finer = finer / n_parts.reshape([-1 if i == axis else 1 for i in range(finer.ndim)])
    return finer


_DIGITS = 6


def unit_of(largest: float) -> float:
    """The unit of all values on the page: the largest has six digits."""
    return 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0 else 1.0


def whole_units(values: Floats, unit: float) -> list[list[int]]:
    """Values as whole units, one list per output (outputs first)."""
    return [[int(v) for v in row] for row in np.rint(values / unit).reshape(len(values), -1)]


def millionths(shares: Floats | Sequence[float]) -> list[int]:
    """Shares as whole millionths, at least one for a share that is not zero."""
    parts = np.rint(np.asarray(shares, dtype=np.float64).ravel() * 1e6)
    parts[(parts == 0) & (np.ravel(shares) > 0)] = 1
    return [int(part) for part in parts]


def distinct_numbers(numbers: Floats) -> list[float]:
    """Numbers with as few digits as keep them distinct, at least six."""
    for digits in range(_DIGITS, 17):
        short = [float(f"{number:.{digits}g}") for number in numbers]
        if len(set(short)) == len(set(numbers.tolist())):
            return short
    return [float(number) for number in numbers]


def plain_days(numbers: Floats, unit: str) -> list[float]:
    """Dates, given as numbers of a unit, as days since 1970 to a millionth."""
    return [round(float(day), 6) for day in days_of(numbers, unit)]


def six_digits(number: float) -> float:
    """A number of six digits."""
    return float(f"{number:.{_DIGITS}g}")


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


_STRONGEST_CELLS = 30


class AxisPool:
    """Axes of the page, each kept once and named by its position."""

    def __init__(self, forms: Forms) -> None:
        self._forms = forms
        self._known: dict[tuple[int, bytes, int], tuple[int, PageAxis]] = {}
        self.plain: list[dict[str, Any]] = []

    def axes(self, table: CommonTable, max_bins: int) -> list[tuple[int, PageAxis]]:
        """Position and axis of each feature of a term, with at most `max_bins` bins."""
        return [self._axis(table, i, max_bins) for i in range(len(table.axes))]

    def _axis(self, table: CommonTable, i: int, max_bins: int) -> tuple[int, PageAxis]:
        axis, feature, binning = table.axes[i], table.positions[i], table.binnings[i]
        key = feature, binning.bins.tobytes(), min(max_bins, axis.size)
        if key not in self._known:
            made = page_axis(axis, feature, self._forms.masses(feature, binning), key[2])
            self._known[key] = len(self.plain), made
            self.plain.append(made.plain)
        return self._known[key]


class TableMaker:
    """Makes the tables of terms, all in one unit and on axes of one pool."""

    def __init__(self, forms: Forms, unit: float) -> None:
        self.forms = forms
        self.pool = AxisPool(forms)
        self.unit = unit

    def table(self, names: Names, max_bins: int) -> dict[str, Any]:
        """Axes, share of rows and values in all forms of a main effect or pair."""
        common = self.forms.table(names)
        placed = self.pool.axes(common, max_bins)
        binnings = [axis.binning for _, axis in placed]
        rows = _pooled(common.rows, binnings)
        values = {form: _averaged(tensor, binnings) for form, tensor in common.values.items()}
        is_merged = any(not binning.is_identity for binning in binnings)
        return {
            "axes": [position for position, _ in placed],
            "rows": millionths(rows),
            **({"merged": True} if is_merged else {}),
            "values": self._plain_values(values, len(names)),
            **self._plain_errors(common, binnings),
            "moved": _moved(common),
        }

    def _plain_errors(self, common: CommonTable, binnings: list[Binning]) -> dict[str, Any]:
        """Standard errors in whole units, outputs first; in merged bins their mean, which is no less than theirs."""
        if common.errors is None:
            return {}
        return {"errors": whole_units(np.moveaxis(_averaged(common.errors, binnings), -1, 0), self.unit)}

    def strongest_cells(self, names: Names) -> dict[str, Any]:
        """The cells of a term of three or more features that matter most: by value times root of the rows' share."""
        common = self.forms.table(names)
        rows, main = common.rows, next(iter(common.values.values()))
        sizes = np.abs(main).max(axis=-1) * np.sqrt(rows)
        cells = np.argsort(-sizes, axis=None, kind="stable")[:_STRONGEST_CELLS]
        bins = np.unravel_index(cells, rows.shape)
        return {
            "cells": [[axis.labels[b] for b in along] for axis, along in zip(common.axes, bins, strict=True)],
            "rows": millionths(rows[bins]),
            "values": {form: whole_units(tensor[bins].T, self.unit) for form, tensor in common.values.items()},
            "n_cells": int(rows.size),
            "moved": _moved(common),
        }

    def _plain_values(self, values: Mapping[str, Floats], order: int) -> dict[str, Any]:
        """Values of all forms, outputs first; pairs that differ by main effects only are held as those differences."""
        plain: dict[str, Any] = {}
        base: str | None = None
        for form, tensor in values.items():
            faces = None if base is None or order < 2 else self._faces(values[base], tensor)
            if faces is None:
                plain[form] = whole_units(np.moveaxis(tensor, -1, 0), self.unit)
                base = base or form
            else:
                rows, columns = (whole_units(face, self.unit) for face in faces)
                plain[form] = {"base": base, "rows": rows, "columns": columns}
        return plain

    def _faces(self, base: Floats, tensor: Floats) -> tuple[Floats, Floats] | None:
        """Rows and columns (outputs first) whose sum turns one pair into another, where such exist."""
        gap = np.moveaxis(tensor - base, -1, 0)
        columns = gap.mean(axis=1)
        rows = (gap - columns[:, None, :]).mean(axis=2)
        left = gap - rows[:, :, None] - columns[:, None, :]
        return (rows, columns) if np.abs(left).max(initial=0.0) < self.unit / 4 else None


def _pooled(masses: Floats, binnings: list[Binning]) -> Floats:
    for axis, binning in enumerate(binnings):
        masses = binning.pool(masses, axis)
    return masses


def _averaged(values: Floats, binnings: list[Binning]) -> Floats:
    for axis, binning in enumerate(binnings):
        values = binning.average(values, axis)
    return values


def _moved(table: CommonTable) -> dict[str, list[float]]:
    """Root mean square of what purification changed in a term, per density and output."""
    before = table.values.get(RAW, 0.0)
    moved = {}
    for form, values in table.values.items():
        if form != RAW:
            squares = np.tensordot(table.weights[form], (values - before) ** 2, axes=len(table.axes))
            moved[form] = [six_digits(float(root)) for root in np.sqrt(squares)]
    return moved
