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
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
import scipy.sparse

from treeanova.anova.slices import safe_inverse, take_out
from treeanova.anova.solvers import conjugate_gradients
from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.density.joint import Points
from treeanova.model.binning import Binning, binning_by, equal_mass
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.expand import outer_sum

COARSE_BINS = 16
_MOST_CELLS = 1 << 16
_CELLS_FOR_THREADS = 1 << 14  # with fewer, threads wait for each other more than they gain
_MOST_TABLE_CELLS = 1 << 26
_MOST_FACTORS = 1 << 19  # to keep: up to 64 MB
_KEYS_TO_TRY = 3
_MOST_STEPS = 2.0**33
_MOST_SOLVES = 3000
_TOLERANCE = 1e-2  # of what is to be taken out: halving the bins changes more
_TOLERANCE_OF_ALL_BINS = 1e-4
_MAX_ITERATIONS = 300

Advance = Callable[[int, int], None]


class Solved(NamedTuple):
    """A term of high order on coarse cells: what is added to it, the faces taken out of it, its impurity."""

    table: Floats
    faces: list[Floats]
    impurity: float


@dataclasses.dataclass(frozen=True, eq=False)
class Correction:
    """What dependence adds to terms of high order, and what it moves to the tensors below.

    Attributes
    ----------
    binnings
        Coarse bins of each feature.
    bins
        Most bins per feature for terms of each order; coarse ones are joined two by two to so many.
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
        most = self.bins[len(key)]
        values: Floats = self.tables[key][tuple(self.binnings[j].coarser(most)[codes[:, j]] for j in key)]
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


def coarse_binnings(form: ClosedForm) -> tuple[Binning, ...]:
    """Up to 16 bins per feature."""
    pairs = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    return tuple(equal_mass(axis, masses, COARSE_BINS) for axis, masses in pairs)


def correct(
    form: ClosedForm, keys: Sequence[Key], rows: Points, bins: Mapping[int, int], *, n_jobs: int, advance: Advance
) -> Correction:
    """The correction of terms of high order for the dependence that weighted rows show.

    `keys` are sets of features whose subsets are keys too, down to the lowest order among them; `bins` are most bins
    per feature for each order, fewer or as many as for the order below.
    """
    binnings = coarse_binnings(form)
    cells = [binning.bins[rows.codes[:, j]] for j, binning in enumerate(binnings)]
    state = _State(form, binnings, bins, cells, rows.weights)
    tables: dict[Key, Floats] = {}
    pending: dict[Key, Floats] = {}
    impurity = 0.0
    with ThreadPoolExecutor(n_jobs) as pool:
        for order in sorted(bins, reverse=True):
            own = [key for key in keys if len(key) == order]
            in_turn = pool.map if bins[order] ** order >= _CELLS_FOR_THREADS else map
            for key, solved in zip(own, in_turn(lambda key: state.solve(key, pending.get(key)), own), strict=True):
                tables[key], impurity = solved.table, max(impurity, solved.impurity)
                _pass_on(solved.faces, key, pending)
                pending.pop(key, None)
                advance(len(tables), len(keys))
    moved = {key: np.moveaxis(state.spread(values, key, COARSE_BINS), 0, -1) for key, values in pending.items()}
    return Correction(binnings, bins, tables, moved, impurity)


def choose_bins(form: ClosedForm, keys: Sequence[Key], rows: Points, *, are_cells: bool = False) -> dict[int, int]:
    """Most bins per feature for terms of each order, by the rule above; of a table, each of its cells is a row."""
    binnings = coarse_binnings(form)
    cells = [binning.bins[rows.codes[:, j]] for j, binning in enumerate(binnings)]
    state = _State(form, binnings, {}, cells, rows.weights)
    n_leaves = sum(form.leaf_sets.n_leaves_with(key) for key in keys)
    n_tables = max(len(keys) * form.leaf_sets.values.shape[1], 1)
    most = min(_MOST_CELLS, _MOST_STEPS / max(n_leaves, 1), _MOST_TABLE_CELLS / n_tables)
    n_rows = len(rows.codes) if are_cells else float(1 / np.square(rows.weights).sum())
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
    binnings: tuple[Binning, ...]
    bins: Mapping[int, int]
    cells: Sequence[Ints]
    weights: Floats

    def solve(self, key: Key, received: Floats | None) -> Solved:
        """A term made pure on its coarse cells; what it received is on the bins of the order above."""
        most = self.bins[len(key)]
        own = np.moveaxis(self._closed_form(key, most), -1, 0)
        values = np.array(own if received is None else own + self.spread(received, key, most), order="C")
        cells = _CellsWithRows.of(self._weights(key, most))
        before = cells.mean_squares(values)
        faces = [cells.faces(output, self._tolerance(key, most)) for output in values]
        by_axis = [np.stack(parts) for parts in zip(*faces, strict=True)]
        take_out(values, by_axis)
        impurity = np.sqrt(cells.mean_squares_of_slices(values) * safe_inverse(before)).max()
        return Solved(np.moveaxis(values - own, 0, -1), by_axis, float(impurity))

    def _closed_form(self, key: Key, most: int) -> Floats:
        """A term for independent features on its coarse cells; outputs last."""
        sets = self.form.leaf_sets
        leaves = sets.leaves_with(key)
        if sum(len(own.leaves) for own in sets.sets) > _MOST_FACTORS:
            return self.form.outer(key, [self._joined[most][j] for j in key], leaves)
        factors = [self._factor(j, most)[sets.positions(j, leaves)] for j in key]
        return outer_sum(factors, self.form.coefficients(key, leaves))

    def _factor(self, feature: int, most: int) -> Floats:
        """What the sets of all leaves of a feature have of its joined bins, centred; kept for all terms."""
        if (feature, most) not in self._factors:
            leaves = self.form.leaf_sets.sets[feature].leaves
            self._factors[feature, most] = self.form.centred(feature, self._joined[most][feature], leaves)
        return self._factors[feature, most]

    @functools.cached_property
    def _factors(self) -> dict[tuple[int, int], Floats]:
        return {}

    def _tolerance(self, key: Key, most: int) -> float:
        """Tight where no bins are joined, so that cells are those of exact purification."""
        grid = self.form.leaf_sets.grid
        is_joined = any(self.binnings[j].coarser_size(most) < grid.sizes[j] for j in key)
        return _TOLERANCE if is_joined else _TOLERANCE_OF_ALL_BINS

    @functools.cached_property
    def _joined(self) -> dict[int, list[Binning]]:
        """Joined bins of all features, by most bins."""
        pairs = list(zip(self.binnings, self.form.masses, strict=True))
        return {most: [binning_by(own.coarser(most), masses) for own, masses in pairs] for most in self.bins.values()}

    def _weights(self, key: Key, most: int) -> Floats:
        sizes = tuple(self.binnings[j].coarser_size(most) for j in key)
        flat = np.zeros(len(self.weights), dtype=np.int64)
        for j, size in zip(key, sizes, strict=True):
            flat *= size
            flat += self.cells[j] >> self.binnings[j].shift(most)
        return np.bincount(flat, self.weights, minlength=math.prod(sizes)).astype(float).reshape(sizes)

    def n_slices(self, key: Key, most: int) -> int:
        """Number of slices of a term along all its axes that have rows."""
        return sum(int(np.count_nonzero(self._weights(key[:i] + key[i + 1 :], most))) for i in range(len(key)))

    def spread(self, values: Floats, key: Key, finer: int) -> Floats:
        """Values of a key on the joined bins of the order above, on bins that are joined less."""
        most = self.bins[len(key) + 1]
        places = (_finer(self.binnings[j], most, finer) for j in key)
        spread: Floats = values[np.ix_(np.arange(len(values)), *places)]
        return spread


def _finer(binning: Binning, most: int, finer: int) -> Ints:
    """Joined bin of each bin that is joined less."""
    return np.arange(binning.coarser_size(finer)) >> (binning.shift(most) - binning.shift(finer))


def _pass_on(faces: Sequence[Floats], key: Key, received: dict[Key, Floats]) -> None:
    """Add faces to what the terms of one feature fewer receive."""
    for i, face in enumerate(faces):
        below = key[:i] + key[i + 1 :]
        received[below] = received[below] + face if below in received else face


@dataclasses.dataclass(frozen=True, eq=False)
class _CellsWithRows:
    """The cells of a term that rows fall into, and their slices: a least-squares problem for faces.

    Its matrix has one row per cell and one column per slice that has rows, with as many entries in a row as the term
    has features, so that a product costs microseconds where the whole tensors of `solvers.solve_cg` cost half a
    millisecond: here there are hundreds of small problems. Rows and columns are scaled by the roots of masses.

    Attributes
    ----------
    places
        Positions of the cells in the flat tensor.
    roots
        Roots of the cells' masses.
    matrix
        The scaled matrix.
    seen
        Positions of the slices that have rows, among those along all axes one after another.
    scale
        One over the roots of their masses.
    shapes
        Shapes of the faces.
    """

    places: Ints
    roots: Floats
    matrix: scipy.sparse.csr_array
    seen: Ints
    scale: Floats
    shapes: Sequence[tuple[int, ...]]

    @classmethod
    def of(cls, weights: Floats) -> _CellsWithRows:
        """The cells where weights are positive."""
        places = np.flatnonzero(weights)
        masses = weights.ravel()[places]
        roots = np.sqrt(masses)
        shapes = [weights.shape[:axis] + weights.shape[axis + 1 :] for axis in range(weights.ndim)]
        slices = _slices(places, weights.shape)
        has_rows = np.zeros(sum(map(math.prod, shapes)), dtype=bool)
        has_rows[slices] = True
        columns = (np.cumsum(has_rows, dtype=np.int32) - 1)[slices].ravel()
        scale = 1 / np.sqrt(np.bincount(columns, np.repeat(masses, weights.ndim)))
        entries = np.repeat(roots, weights.ndim) * scale[columns]
        ends = np.arange(0, len(columns) + 1, weights.ndim, dtype=np.int32)
        matrix = scipy.sparse.csr_array((entries, columns, ends), shape=(len(places), len(scale)))
        return cls(places, roots, matrix, np.flatnonzero(has_rows), scale, shapes)

    def faces(self, values: Floats, tolerance: float) -> list[Floats]:
        """Faces that make values pure where there are rows: least squares by conjugate gradients."""
        matrix, back = self.matrix, self.matrix.T
        rhs = back @ (self.roots * values.ravel()[self.places])
        goal = tolerance * float(np.linalg.norm(rhs))
        solution = conjugate_gradients(lambda v: back @ (matrix @ v), rhs, goal, _MAX_ITERATIONS)[0]
        found = np.zeros(sum(map(math.prod, self.shapes)))
        found[self.seen] = self.scale * solution
        parts = np.split(found, np.cumsum([math.prod(shape) for shape in self.shapes])[:-1])
        return [part.reshape(shape) for part, shape in zip(parts, self.shapes, strict=True)]

    def mean_squares(self, values: Floats) -> Floats:
        """Mean square over the rows of each output."""
        squares: Floats = np.square(self._scaled(values)).sum(axis=1)
        return squares

    def mean_squares_of_slices(self, values: Floats) -> Floats:
        """Mean square over the rows, and over the axes, of the means of slices, for each output."""
        sums = self.matrix.T @ self._scaled(values).T
        squares: Floats = np.square(sums).sum(axis=0) / len(self.shapes)
        return squares

    def _scaled(self, values: Floats) -> Floats:
        scaled: Floats = self.roots * values.reshape(len(values), -1)[:, self.places]
        return scaled


def _slices(places: Ints, shape: tuple[int, ...]) -> Ints:
    """The slice of each flat place along each axis, numbered through all axes, shape (n_places, n_axes)."""
    found = np.empty((len(places), len(shape)), dtype=np.int64)
    start, stride = 0, math.prod(shape)
    for axis, size in enumerate(shape):
        outer, stride = stride, stride // size
        found[:, axis] = start + places // outer * stride + places % stride
        start += math.prod(shape) // size
    return found


def worth_correcting(
    form: ClosedForm, by_order: Mapping[int, Sequence[Key]], sizes_of: Callable[[Sequence[Key]], Floats]
) -> Iterator[Key]:
    """Keys to correct: whole orders from the lowest up while they are few, then the largest terms of the next."""
    left = _MOST_SOLVES // form.leaf_sets.values.shape[1]
    steps = 0.0
    for order in sorted(by_order):
        keys = by_order[order]
        steps += 2.0**order * sum(form.leaf_sets.n_leaves_with(key) for key in keys)
        if not left or steps > _MOST_STEPS:
            return
        if len(keys) > left:
            largest = np.argsort(-sizes_of(keys), kind="stable")[:left]
            yield from sorted(keys[i] for i in largest)
            return
        yield from keys
        left -= len(keys)
