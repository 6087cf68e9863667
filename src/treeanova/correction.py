"""The dependence of features in terms of high order: what must move down, found on coarse cells.

Terms that are pure under independent features have only smooth impurity left under the real density. So the terms of
orders above those kept as tensors are taken to coarse bins (means over the bins merged, under independence within
them), weighted by the rows, and purified there from the highest order down. What is taken out of a term is added to
those of one feature fewer, cell by coarse cell, whether it has rows or not: sums stay exact for every input.

Rule for the bins of an order: up to 16 per feature, of about equal mass, joined two by two (16, 8, 4, 2) until a term
has at most 65,536 cells and no more slices with rows than there are rows; fewer where leaves or terms are so many that
sums would take over 2^33 steps or tables 2^26 cells; never more than the order below has. Too few bins leave mass in
high orders under strong dependence, too many let these fit the noise of the rows; strong dependence leaves few slices
with rows, so that the rule then takes more bins. Orders for which even 2 bins take too many steps stay as they are.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy.sparse

from treeanova.closed_form import ClosedForm
from treeanova.effects import Key
from treeanova.features import Floats
from treeanova.forest import Ints
from treeanova.grid import Codes
from treeanova.leafsets import Merging, merge, merging_by
from treeanova.slices import largest, safe_inverse, slice_means, take_out
from treeanova.solvers import conjugate_gradients

COARSE_BINS = 16
_MOST_CELLS = 1 << 16
_MOST_TABLE_CELLS = 1 << 26
_KEYS_TO_TRY = 3
_MOST_STEPS = 2.0**33
_MOST_SOLVES = 3000
_TOLERANCE = 1e-3
_MAX_ITERATIONS = 100

Advance = Callable[[int, int], None]


class Solved(NamedTuple):
    """A term of high order on coarse cells: what is added to it, the faces taken out of it, its largest slice mean."""

    table: Floats
    faces: list[Floats]
    impurity: float


@dataclasses.dataclass(frozen=True, eq=False)
class Correction:
    """What dependence adds to terms of high order, and what it moves to the tensors below.

    Attributes
    ----------
    mergings
        Coarse bins of each feature.
    bins
        Most bins per feature for terms of each order; coarse ones are joined two by two to so many.
    tables
        What is added to each term of high order, over its coarse cells; outputs last.
    moved
        What goes to each term of the order below, over coarse cells; outputs last.
    impurity
        Largest mean of a slice of coarse cells that has rows, relative to the term's largest value there.
    """

    mergings: tuple[Merging, ...]
    bins: Mapping[int, int]
    tables: Mapping[Key, Floats]
    moved: Mapping[Key, Floats]
    impurity: float

    def at_rows(self, codes: Codes, key: Key) -> Floats | float:
        """What is added to a term at rows given by their bins, shape (n_rows, n_outputs)."""
        if key not in self.tables:
            return 0.0
        most = self.bins[len(key)]
        values: Floats = self.tables[key][tuple(self.mergings[j].coarser(most)[codes[:, j]] for j in key)]
        return values

    def spread(self, key: Key, bins: Sequence[Ints]) -> Floats | float:
        """What goes to a term below, over given representatives of its bins."""
        if key not in self.moved:
            return 0.0
        values: Floats = self.moved[key][np.ix_(*(self.mergings[j].bins[b] for j, b in zip(key, bins, strict=True)))]
        return values


def no_correction() -> Correction:
    """None, for independent features."""
    return Correction((), {}, {}, {}, 0.0)


class Rows(NamedTuple):
    """Bins of rows on the forest's grid, and their weights, of sum 1."""

    codes: Codes
    weights: Floats


def coarse_mergings(form: ClosedForm) -> tuple[Merging, ...]:
    """Up to 16 bins per feature."""
    pairs = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    return tuple(merge(axis, masses, COARSE_BINS) for axis, masses in pairs)


def correct(
    form: ClosedForm, keys: Sequence[Key], rows: Rows, bins: Mapping[int, int], *, n_jobs: int, advance: Advance
) -> Correction:
    """The correction of terms of high order for the dependence that weighted rows show.

    `keys` are sets of features whose subsets are keys too, down to the lowest order among them; `bins` are most bins
    per feature for each order, fewer or as many as for the order below.
    """
    mergings = coarse_mergings(form)
    cells = [merging.bins[rows.codes[:, j]] for j, merging in enumerate(mergings)]
    state = _State(form, mergings, bins, cells, rows.weights)
    tables: dict[Key, Floats] = {}
    pending: dict[Key, Floats] = {}
    impurity = 0.0
    with ThreadPoolExecutor(n_jobs) as pool:
        for order in sorted(bins, reverse=True):
            own = [key for key in keys if len(key) == order]
            for key, solved in zip(own, pool.map(lambda key: state.solve(key, pending.get(key)), own), strict=True):
                tables[key], impurity = solved.table, max(impurity, solved.impurity)
                state.pass_on(solved.faces, key, pending)
                pending.pop(key, None)
                advance(len(tables), len(keys))
    moved = {key: np.moveaxis(values, 0, -1) for key, values in pending.items()}
    return Correction(mergings, bins, tables, moved, impurity)


def choose_bins(form: ClosedForm, keys: Sequence[Key], rows: Rows) -> dict[int, int]:
    """Most bins per feature for terms of each order, by the rule above."""
    mergings = coarse_mergings(form)
    cells = [merging.bins[rows.codes[:, j]] for j, merging in enumerate(mergings)]
    state = _State(form, mergings, {}, cells, rows.weights)
    n_leaves = sum(form.leaf_sets.n_leaves_with(key) for key in keys)
    n_tables = max(len(keys) * form.leaf_sets.values.shape[1], 1)
    most = min(_MOST_CELLS, _MOST_STEPS / max(n_leaves, 1), _MOST_TABLE_CELLS / n_tables)
    n_rows = float(1 / np.square(rows.weights).sum())
    found: dict[int, int] = {}
    for order in sorted({len(key) for key in keys}):
        some = [key for key in keys if len(key) == order][:_KEYS_TO_TRY]
        bins = found.get(order - 1, COARSE_BINS)
        while bins > 2 and (bins**order > most or max(state.n_slices(key, bins) for key in some) > n_rows):
            bins //= 2
        found[order] = bins
    return found


@dataclasses.dataclass(frozen=True, eq=False)
class _State:
    """What all terms share while they are solved; tensors have the outputs first."""

    form: ClosedForm
    mergings: tuple[Merging, ...]
    bins: Mapping[int, int]
    cells: Sequence[Ints]
    weights: Floats

    def solve(self, key: Key, received: Floats | None) -> Solved:
        """A term made pure on its coarse cells."""
        most = self.bins[len(key)]
        own = np.moveaxis(self.form.outer(key, self._joined(key, most), self.form.leaf_sets.leaves_with(key)), -1, 0)
        start = np.array(own if received is None else own + received, order="C")
        weights, scales = self._weights(key, most), largest(start)
        faces = _faces(start, weights)
        take_out(start, faces)
        return Solved(np.moveaxis(start - own, 0, -1), faces, _slice_means_left(start, weights, scales))

    def _joined(self, key: Key, most: int) -> list[Merging]:
        return [merging_by(self.mergings[j].coarser(most), self.form.masses[j]) for j in key]

    def _weights(self, key: Key, most: int) -> Floats:
        sizes = tuple(self.mergings[j].coarser_size(most) for j in key)
        flat = np.zeros(len(self.weights), dtype=np.int64)
        for j, size in zip(key, sizes, strict=True):
            flat *= size
            flat += self.cells[j] >> self.mergings[j].shift(most)
        return np.bincount(flat, self.weights, minlength=math.prod(sizes)).astype(float).reshape(sizes)

    def n_slices(self, key: Key, most: int) -> int:
        """Number of slices of a term along all its axes that have rows."""
        return sum(int(np.count_nonzero(self._weights(key[:i] + key[i + 1 :], most))) for i in range(len(key)))

    def pass_on(self, faces: Sequence[Floats], key: Key, received: dict[Key, Floats]) -> None:
        """Add faces to the terms of one feature fewer, on their coarse cells."""
        most, finer = self.bins[len(key)], self.bins.get(len(key) - 1, COARSE_BINS)
        for i, face in enumerate(faces):
            below = key[:i] + key[i + 1 :]
            spread = face[np.ix_(np.arange(len(face)), *(self._finer(self.mergings[j], most, finer) for j in below))]
            received[below] = received[below] + spread if below in received else spread

    def _finer(self, merging: Merging, most: int, finer: int) -> Ints:
        """Joined bin of each bin that is joined less."""
        return np.arange(merging.coarser_size(finer)) >> (merging.shift(most) - merging.shift(finer))


def _faces(values: Floats, weights: Floats) -> list[Floats]:
    """Faces that make values pure where there are rows: least squares by conjugate gradients.

    In the space of faces scaled by the roots of their masses; the matrix has one row per cell with mass and `order`
    entries in each, so that a product costs microseconds where the tensors of `solvers.solve_cg` cost half a
    millisecond: here there are hundreds of small problems.
    """
    cells = np.flatnonzero(weights)
    roots = np.sqrt(weights.ravel()[cells])
    columns, shapes, start = [], [], 0
    for axis in range(weights.ndim):
        shape = weights.shape[:axis] + weights.shape[axis + 1 :]
        places = np.delete(np.array(np.unravel_index(cells, weights.shape)), axis, axis=0)
        columns.append(start + np.ravel_multi_index(tuple(places), shape))
        shapes.append(shape)
        start += math.prod(shape)
    everything = np.stack(columns, axis=1)
    has_rows = np.zeros(start, dtype=bool)
    has_rows[everything] = True
    seen = np.flatnonzero(has_rows)
    column = (np.cumsum(has_rows) - 1)[everything]
    masses = np.bincount(column.ravel(), np.repeat(roots**2, weights.ndim)).astype(float)
    scale = 1 / np.sqrt(masses)
    entries = (roots[:, None] * scale[column]).ravel(), column.ravel(), np.arange(len(cells) + 1) * weights.ndim
    matrix = scipy.sparse.csr_array(entries, shape=(len(cells), len(seen)))
    back = matrix.T.tocsr()
    found = np.zeros((len(values), start))
    for output, flat in enumerate(values.reshape(len(values), -1)):
        rhs = back @ (roots * flat[cells])
        goal = _TOLERANCE * float(np.linalg.norm(rhs))
        solution = conjugate_gradients(lambda v: back @ (matrix @ v), rhs, goal, _MAX_ITERATIONS)[0]
        found[output, seen] = scale * solution
    ends = np.cumsum([math.prod(shape) for shape in shapes])[:-1]
    parts = np.split(found, ends, axis=1)
    return [part.reshape(len(values), *shape) for part, shape in zip(parts, shapes, strict=True)]


def _slice_means_left(values: Floats, weights: Floats, scales: Floats) -> float:
    """Largest mean of a slice that has rows, relative to scales."""
    means = [largest(slice_means(values, weights, axis)) for axis in range(weights.ndim)]
    return float((np.max(means, axis=0) * safe_inverse(scales)).max())


def worth_correcting(form: ClosedForm, by_order: Mapping[int, Sequence[Key]]) -> Iterator[Key]:
    """Keys to correct: whole orders from the lowest up while they are few, then the largest terms of the next."""
    left = _MOST_SOLVES // form.leaf_sets.values.shape[1]
    steps = 0.0
    for order in sorted(by_order):
        keys = by_order[order]
        steps += 2.0**order * sum(form.leaf_sets.n_leaves_with(key) for key in keys)
        if not left or steps > _MOST_STEPS:
            return
        if len(keys) > left:
            sizes = {key: form.size(key, form.leaf_sets.leaves_with(key)) for key in keys}
            yield from sorted(sorted(keys, key=lambda key: -sizes[key])[:left])
            return
        yield from keys
        left -= len(keys)
