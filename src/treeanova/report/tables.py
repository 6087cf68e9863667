"""Tables of terms for the page: whole numbers of one unit, and fewer bins where they would be too large."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Names
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.model.axes import IntervalAxis
from treeanova.report.axes import PageAxis, distinct_numbers, histogram, millionths, page_axis, window

RAW = "raw"
# Numbers on the page, at about seven bytes each.
_MAIN_NUMBERS, _PAIR_NUMBERS = 110_000, 80_000
_MAIN_BINS = (256, 192, 128, 96, 64, 48, 32, 16)
_PAIR_BINS = (64, 48, 40, 32, 24, 16, 12)
_FEWEST_PAIR_BINS = 8
_ROWS_PER_CELL = 3
_STRONGEST_CELLS = 30
_DIGITS = 6


def outputs_last(term: Term) -> Floats:
    """Values of a term with a last axis of outputs, also where there is one."""
    values: Floats = term.values.reshape(*term.weights.shape, -1)
    return values


def unit_of(largest: float) -> float:
    """The unit of all numbers: six digits of the largest."""
    return 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0 else 1.0


@dataclasses.dataclass(frozen=True, eq=False)
class Forms:
    """The same model in several forms: pure under each density, and raw.

    Attributes
    ----------
    by_name
        Decompositions by the name of the form: those of the densities, the main one first, then ``raw``.
    """

    by_name: Mapping[str, Decomposition]

    @property
    def main(self) -> Decomposition:
        """The decomposition that the page is about."""
        return next(iter(self.by_name.values()))

    @functools.cached_property
    def tables(self) -> dict[str, dict[Names, Term]]:
        """All terms of each form."""
        return {name: dict(fx.terms) for name, fx in self.by_name.items()}

    def terms(self, key: Names) -> dict[str, Term]:
        """A term in the forms that have it."""
        return {name: terms[key] for name, terms in self.tables.items() if key in terms}


class AxisPool:
    """Axes of the page, each kept once and named by its position."""

    def __init__(self, fx: Decomposition) -> None:
        self._fx = fx
        self._found: dict[tuple[int, int], tuple[int, PageAxis]] = {}
        self.plain: list[dict[str, Any]] = []

    def masses(self, feature: int) -> Floats:
        """Weights of the bins of a feature: shares of the rows, or of the density where rows are not known."""
        statistics = self._fx.density.statistics
        return self._fx.density.table((feature,)) if statistics is None else statistics.counts((feature,))

    def axis(self, feature: int, most: int) -> tuple[int, PageAxis]:
        """Position and axis of a feature with at most so many groups of bins."""
        size = self._fx.grid.sizes[feature]
        room = min(most, size)
        if (feature, room) not in self._found:
            made = page_axis(self._fx.grid.axes[feature], feature, self.masses(feature), room)
            self._found[feature, room] = (len(self.plain), made)
            self.plain.append(made.plain)
        return self._found[feature, room]


def plain_features(fx: Decomposition) -> list[dict[str, Any]]:
    """Name of each feature, and for numbers the window that is drawn, with a histogram of the rows."""
    statistics = fx.density.statistics
    found: list[dict[str, Any]] = []
    for j, (name, axis) in enumerate(zip(fx.schema.names, fx.grid.axes, strict=True)):
        feature: dict[str, Any] = {"name": name}
        if isinstance(axis, IntervalAxis):
            feature |= window(axis, j, statistics)
            if statistics is not None:
                feature["histogram"] = histogram(statistics, j, feature["low"], feature["high"])
        found.append(feature)
    return found


def bins_of_mains(sizes: Iterable[int], numbers_per_bin: int) -> int:
    """Most bins of a main effect, such that all fit."""
    known = list(sizes)
    fitting = (most for most in _MAIN_BINS if sum(min(s, most) for s in known) * numbers_per_bin <= _MAIN_NUMBERS)
    return next(fitting, _MAIN_BINS[-1])


def bins_of_pairs(sizes: Sequence[tuple[int, int]], numbers_per_cell: int) -> list[int]:
    """Most bins on a side of each pair, strongest first, such that all fit: the strongest get most."""

    def cost(size: tuple[int, int], most: int) -> int:
        return min(size[0], most) * min(size[1], most) * numbers_per_cell

    least = [cost(size, _FEWEST_PAIR_BINS) for size in sizes]
    left = _PAIR_NUMBERS - sum(least)
    found = []
    for size, spent in zip(sizes, least, strict=True):
        most = next((most for most in _PAIR_BINS if cost(size, most) - spent <= left / 3), _FEWEST_PAIR_BINS)
        left -= cost(size, most) - spent
        found.append(most)
    return found


def most_pair_bins(n_rows: int | None) -> int:
    """Bins on a side of a pair beyond which cells would hold fewer than three rows on average."""
    return _PAIR_BINS[0] if n_rows is None else max(_PAIR_BINS[-1], math.isqrt(n_rows // _ROWS_PER_CELL))


class TableMaker:
    """Makes the tables of terms, all in one unit and on axes of one pool."""

    def __init__(self, forms: Forms, unit: float) -> None:
        self.forms = forms
        self.pool = AxisPool(forms.main)
        self.unit = unit

    def table(self, key: Names, most: int) -> dict[str, Any]:
        """Axes, share of rows and values in all forms of a main effect or pair."""
        found = [self.pool.axis(j, most) for j in self._positions(key)]
        axes = [axis for _, axis in found]
        rows = merged(self._rows(key), [axis.sums for axis in axes])
        values = {
            name: merged(outputs_last(term), [axis.means for axis in axes])
            for name, term in self.forms.terms(key).items()
        }
        plain: dict[str, Any] = {"axes": [position for position, _ in found], "rows": millionths(rows)}
        if any(axis.is_merged for axis in axes):
            plain["merged"] = True
        return plain | {"values": self._plain_values(values, len(key))}

    def strongest_cells(self, key: Names) -> dict[str, Any]:
        """The cells of a term of three or more features that matter most: by value times root of the rows' share."""
        terms = self.forms.terms(key)
        main = next(iter(terms.values()))
        rows = self._rows(key)
        sizes = np.abs(outputs_last(main)).max(axis=-1) * np.sqrt(rows)
        cells = np.argsort(-sizes, axis=None, kind="stable")[:_STRONGEST_CELLS]
        bins = np.unravel_index(cells, rows.shape)
        labels = [[axis.labels[b] for b in along] for axis, along in zip(main.axes, bins, strict=True)]
        values = {name: self._whole(outputs_last(term)[bins].T) for name, term in terms.items()}
        return {"cells": labels, "rows": millionths(rows[bins]), "values": values, "n_cells": int(rows.size)}

    def _positions(self, key: Names) -> tuple[int, ...]:
        return tuple(self.forms.main.schema.names.index(name) for name in key)

    def _rows(self, key: Names) -> Floats:
        """Share of the rows in each cell; of the density where rows are not known."""
        fx = self.forms.main
        statistics = fx.density.statistics
        if statistics is not None:
            return statistics.counts(self._positions(key))
        own = next(iter(self.forms.tables.values()))
        return own[key].weights if key in own else fx.density.table(self._positions(key))

    def _whole(self, values: Floats) -> list[list[int]]:
        """Values as whole units, a list per output (outputs first)."""
        return [[int(v) for v in row] for row in np.rint(values / self.unit).reshape(len(values), -1)]

    def _plain_values(self, values: Mapping[str, Floats], order: int) -> dict[str, Any]:
        """Values of all forms, outputs first; of a pair, forms that differ by a sum of two faces only as these."""
        plain: dict[str, Any] = {}
        base: str | None = None
        for name, tensor in values.items():
            outputs_first = np.moveaxis(tensor, -1, 0)
            faces = None if base is None or order < 2 else self._faces(values[base], tensor)
            if faces is None:
                plain[name] = self._whole(outputs_first)
                base = base or name
            else:
                plain[name] = {"base": base, "rows": self._whole(faces[0]), "columns": self._whole(faces[1])}
        return plain

    def _faces(self, base: Floats, tensor: Floats) -> tuple[Floats, Floats] | None:
        """Rows and columns (outputs first) that turn one pair into another, where such exist."""
        gap = np.moveaxis(tensor - base, -1, 0)
        columns = gap.mean(axis=1)
        rows = (gap - columns[:, None, :]).mean(axis=2)
        left = gap - rows[:, :, None] - columns[:, None, :]
        return (rows, columns) if np.abs(left).max(initial=0.0) < self.unit / 4 else None


def merged(tensor: Floats, matrices: Sequence[Floats]) -> Floats:
    """A tensor with each of its first axes multiplied by a matrix."""
    for axis, matrix in enumerate(matrices):
        tensor = np.moveaxis(np.tensordot(matrix, tensor, axes=(1, axis)), 0, axis)
    return tensor


def plain_number(number: float) -> float:
    """A number of six digits."""
    return distinct_numbers(np.array([number]))[0]
