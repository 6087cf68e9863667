"""Correction of terms of high order for the dependence of features, on coarse cells.

Terms that are pure under independent features have only smooth impurity left under the real density. So the terms of
orders above those kept as tensors are brought to coarse bins (means over the merged bins, under independence within
them), weighted by the rows, and purified there from the highest order down. What is taken out of a term is added to
those of one feature fewer, coarse cell by coarse cell, whether it has rows or not: sums stay exact for every input.

Rule for the bins of an order: up to 16 per feature, of about equal mass, merged two by two (16, 8, 4, 2) until a term
has at most 65,536 cells and no more slices with rows than there are rows (a quarter of them where bins are merged and
rows are drawn from a smooth density); fewer where sums over leaves would take more than 2^33 steps or tables more than
2^26 cells; never more than the order below has. Too few bins leave mass in high orders under strong dependence, too
many fit the noise of the rows; strong dependence leaves few slices with rows, so that the rule then takes more bins.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.anova.descent import Received, descend, keys_below
from treeanova.anova.observed_cells import ObservedCells, faces_of_all
from treeanova.anova.slices import safe_inverse, take_out
from treeanova.core.arrays import BinIndices, Faces, Floats, Ints, Key
from treeanova.core.cells import count_cells
from treeanova.density.accumulator import Request
from treeanova.density.joint import Points
from treeanova.model.binning import Binning, binning_by
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse_means import COARSE_BINS, CoarseMeans, coarse_binnings

_MAX_CELLS = 1 << 16
_CELLS_AT_ONCE = 1 << 14  # more do not stay in the cache
_MAX_TABLE_CELLS = 1 << 26
_KEYS_TO_TRY = 3
_MAX_STEPS = 2.0**33
_DRAWS_PER_SLICE = 4
_TOLERANCE = 1e-2  # of what is to be taken out: halving the bins changes more
_TOLERANCE_OF_ALL_BINS = 1e-4

Advance = Callable[[int, int], None]
Unsampled = Callable[[Sequence[Request]], Mapping[Key, Floats]]
"""What all rows add to the shares of a sample of them, in the cells of some tables."""


def no_others(requests: Sequence[Request]) -> Mapping[Key, Floats]:
    """Nothing, where the rows are all."""
    del requests
    return {}


class Solved(NamedTuple):
    """A term of high order on coarse cells: what is added to it, and the impurity that is left."""

    table: Floats
    impurity: float


@dataclasses.dataclass(frozen=True, eq=False)
class Correction:
    """What dependence adds to terms of high order, and what it moves to the tensors below.

    Attributes
    ----------
    binnings
        Coarse bins of each feature.
    bins
        Limit of bins per feature for terms of each order; coarse bins are merged two by two to meet it.
    tables
        What is added to each term of high order, over its coarse cells; outputs last.
    moved
        What goes to each term of the order below, over coarse cells; outputs last.
    impurity
        Root mean square of the means of a term's slices over the rows, relative to the term's own before it was made
        pure; the largest of all terms.
    """

    binnings: tuple[Binning, ...]
    bins: Mapping[int, int]
    tables: Mapping[Key, Floats]
    moved: Mapping[Key, Floats]
    impurity: float

    def at_rows(self, codes: BinIndices, key: Key) -> Floats | float:
        """What is added to a term at rows given by their bins, shape (n_rows, n_outputs)."""
        if key not in self.tables:
            return 0.0
        limit = self.bins[len(key)]
        values: Floats = self.tables[key][tuple(self.binnings[j].coarser(limit)[codes[:, j]] for j in key)]
        return values

    def spread(self, key: Key, bins: Sequence[Ints]) -> Floats | float:
        """What goes to a term below, over given representatives of its bins."""
        if key not in self.moved:
            return 0.0
        values: Floats = self.moved[key][np.ix_(*(self.binnings[j].bins[b] for j, b in zip(key, bins, strict=True)))]
        return values


def no_correction() -> Correction:
    """An empty correction, for independent features."""
    return Correction((), {}, {}, {}, 0.0)


def correct(
    means: CoarseMeans,
    keys: Sequence[Key],
    rows: Points,
    bins: Mapping[int, int],
    *,
    advance: Advance,
    unsampled: Unsampled = no_others,
) -> Correction:
    """The correction of terms of high order for the dependence that weighted rows show.

    `keys` are sets of features whose subsets are keys too, down to the lowest order among them; `bins` are limits of
    bins per feature for each order, at most that of the order below and that of the means. `unsampled` is what all rows
    add to the shares of a sample of them.
    """
    requests = coarse_requests(means.binnings, keys, bins)
    coarse = _CoarseTerms(means, _cells(means.binnings, rows), bins, rows.weights, unsampled(requests))
    tables: dict[Key, Floats] = {}
    received: dict[Key, Floats] = {}
    impurity = 0.0

    advance(0, len(keys))
    for key, solved in descend(keys, coarse.solve, received):
        tables[key], impurity = solved.table, max(impurity, solved.impurity)
        advance(len(tables), len(keys))
    moved = {key: np.moveaxis(coarse.spread(values, key, COARSE_BINS), 0, -1) for key, values in received.items()}
    return Correction(means.binnings, bins, tables, moved, impurity)


def coarse_requests(binnings: Sequence[Binning], keys: Sequence[Key], bins: Mapping[int, int]) -> list[Request]:
    """The tables of rows that terms are corrected by."""
    merged = {(j, n): binning_by(binnings[j].coarser(n)) for n in set(bins.values()) for j in range(len(binnings))}
    return [Request(key, [merged[j, bins[len(key)]] for j in key]) for key in keys]


def choose_bins(
    form: ClosedForm, keys: Sequence[Key], rows: Points, *, are_cells: bool = False, are_drawn: bool = False
) -> dict[int, int]:
    """Limit of bins per feature for terms of each order, by the rule above; each cell of a table counts as a row."""
    binnings = coarse_binnings(form)
    coarse = _CoarseTerms(CoarseMeans(form, binnings, {}, {}), _cells(binnings, rows), {}, rows.weights)
    n_leaves = sum(form.leaf_sets.n_leaves_with(key) for key in keys)
    n_tables = max(len(keys) * form.leaf_sets.values.shape[1], 1)
    max_cells = min(_MAX_CELLS, _MAX_STEPS / max(n_leaves, 1), _MAX_TABLE_CELLS / n_tables)
    n_rows = len(rows.codes) if are_cells else float(1 / np.square(rows.weights).sum())

    def is_too_fine(key: Key, bins: int) -> bool:
        """Whether a term has more slices with rows than the rows allow."""
        rows_per_slice = _DRAWS_PER_SLICE if are_drawn and coarse.is_merged(key, bins) else 1
        return coarse.n_slices(key, bins) * rows_per_slice > n_rows

    limits: dict[int, int] = {}
    for order in sorted({len(key) for key in keys}):
        some = [key for key in keys if len(key) == order][:_KEYS_TO_TRY]
        bins = limits.get(order - 1, COARSE_BINS)
        while bins > 2 and (bins**order > max_cells or any(is_too_fine(key, bins) for key in some)):
            bins //= 2
        limits[order] = bins
    return limits


def _cells(binnings: Sequence[Binning], rows: Points) -> list[Ints]:
    """Coarse bins of rows, feature by feature."""
    return [binning.bins[rows.codes[:, j]] for j, binning in enumerate(binnings)]


@dataclasses.dataclass(frozen=True, eq=False)
class _CoarseTerms:
    """What all terms share while they are solved; tensors have the outputs first."""

    means: CoarseMeans
    cells: Sequence[Ints]
    bins: Mapping[int, int]
    weights: Floats
    unsampled: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)

    @property
    def binnings(self) -> tuple[Binning, ...]:
        """Coarse bins of each feature."""
        return self.means.binnings

    def solve(self, keys: Sequence[Key], received: Received) -> Iterator[tuple[Solved, Faces]]:
        """Terms of one order made pure on their coarse cells, with their faces; small ones are solved together.

        What terms received is on the bins of the order above. Threads would wait for each other more than they gain.
        """
        limit = self.bins[len(keys[0])]
        at_once = max(_CELLS_AT_ONCE // limit ** len(keys[0]), 1)
        for start in range(0, len(keys), at_once):
            yield from self._solve_batch(keys[start : start + at_once], received)

    def _solve_batch(self, keys: Sequence[Key], received: Received) -> list[tuple[Solved, Faces]]:
        limit = self.bins[len(keys[0])]
        closed = [np.moveaxis(self.means.term(key, limit), -1, 0) for key in keys]
        values = [self._with_received(key, term, received(key)) for key, term in zip(keys, closed, strict=True)]
        cells = [ObservedCells.of(self._weights(key, limit) + self.unsampled.get(key, 0.0)) for key in keys]
        all_faces = faces_of_all(cells, values, [self._tolerance(key, limit) for key in keys])
        solved = []
        for term, whole, own, faces in zip(closed, values, cells, all_faces, strict=True):
            before = own.mean_squares(whole)
            take_out(whole, faces)
            impurity = np.sqrt(own.mean_squares_of_slices(whole) * safe_inverse(before)).max()
            solved.append((Solved(np.moveaxis(whole - term, 0, -1), float(impurity)), faces))
        return solved

    def _with_received(self, key: Key, term: Floats, received: Floats | None) -> Floats:
        """A term with what it received; a new array."""
        limit = self.bins[len(key)]
        return np.array(term if received is None else term + self.spread(received, key, limit), order="C")

    def _tolerance(self, key: Key, limit: int) -> float:
        """Tight where no bins are merged, so that cells are those of exact purification."""
        return _TOLERANCE if self.is_merged(key, limit) else _TOLERANCE_OF_ALL_BINS

    def is_merged(self, key: Key, limit: int) -> bool:
        """Whether a limit of bins merges those of some feature of a key."""
        grid = self.means.form.leaf_sets.grid
        return any(self.binnings[j].coarser_size(limit) < grid.sizes[j] for j in key)

    def _weights(self, key: Key, limit: int) -> Floats:
        sizes = tuple(self.binnings[j].coarser_size(limit) for j in key)
        columns = [self._merged_cells(j, limit) for j in key]
        return count_cells(columns, sizes, self.weights, len(self.weights))

    def _merged_cells(self, feature: int, limit: int) -> Ints:
        """Coarse bins of rows with at most `limit` bins, kept for the next term."""
        if (feature, limit) not in self._known_cells:
            self._known_cells[feature, limit] = self.cells[feature] >> self.binnings[feature].shift(limit)
        return self._known_cells[feature, limit]

    @functools.cached_property
    def _known_cells(self) -> dict[tuple[int, int], Ints]:
        return {}

    def n_slices(self, key: Key, limit: int) -> int:
        """Number of slices of a term along all its axes that have rows."""
        return sum(int(np.count_nonzero(self._weights(below, limit))) for below in keys_below(key))

    def spread(self, values: Floats, key: Key, finer: int) -> Floats:
        """Values of a key on the merged bins of the order above, on bins that are merged less."""
        limit = self.bins[len(key) + 1]
        places = (_finer(self.binnings[j], limit, finer) for j in key)
        spread: Floats = values[np.ix_(np.arange(len(values)), *places)]
        return spread


def _finer(binning: Binning, limit: int, finer: int) -> Ints:
    """Merged bin that contains each bin of a finer merging."""
    return np.arange(binning.coarser_size(finer)) >> (binning.shift(limit) - binning.shift(finer))
