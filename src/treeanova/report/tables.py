"""Tables of terms for the page: whole numbers of one unit, on few bins."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.model.binning import Binning
from treeanova.report.axes import PageAxis, page_axis
from treeanova.report.forms import RAW, CommonTable, Forms
from treeanova.report.numbers import millionths, six_digits, whole_units

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
