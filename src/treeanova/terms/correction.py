"""Correction of terms of high order for dependence, on coarse cells; what is left of low orders.

Terms that are pure under independent features have only smooth impurity under the real density. So terms above the
tensors are averaged over coarse bins (under independence within them), weighted by the rows, and purified there from
the highest order down. What a term loses is added to those of one feature fewer in every coarse cell, with rows or
without: sums stay exact for every input.

Bins of an order: up to 16 per feature, of about equal mass, merged two by two until a term has at most 65,536 cells and
no more slices with rows than there are rows (a quarter of them if rows are drawn from a smooth density); fewer if sums
over leaves would take more than 2^33 steps or tables more than 2^26 cells; never more than the order below. Too few
bins leave mass in high orders under strong dependence; too many fit the noise of the rows.

Within a coarse bin, dependent features still vary together, so high orders retain parts of main effects and pairs. The
part of their sum at the rows that one or two features predict is moved to the tables: means over bins, one table after
the other on the residual, shrunk by the noise that the variance within cells implies. Each table has the bins that best
predict one half of the rows from the other. The mean of the sum goes to the intercept. Single terms give up fixed
shares of what is moved (`Allotment`), so the terms of an order add up to its total whichever of them are listed.
"""

from __future__ import annotations

import dataclasses
import itertools
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.anova.cascade import FromAbove, descend, keys_below
from treeanova.anova.support import ObservedCells, projections_of_all, safe_inverse, take_out
from treeanova.core.arrays import BinIndices, Floats, Ints, Key, Projections, count_cells, memo
from treeanova.density.base import Points
from treeanova.density.counting import Request
from treeanova.model.grid import Binning, binning_by, equal_mass
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse import CoarseMeans, coarse_binnings
from treeanova.terms.leaves import LeafSets

Advance = Callable[[int, int], None]  # reports how many of how many terms are done
Unsampled = Callable[[Sequence[Request]], Mapping[Key, Floats]]
"""What all rows add to the shares of a sample of them, in the cells of some tables."""
Solved = tuple[Floats, float]  # what is added to a term on coarse cells, and its remaining impurity


@dataclasses.dataclass(frozen=True, eq=False)
class Correction:
    """What dependence adds to terms of high order and moves to the tensors below."""

    binnings: tuple[Binning, ...] = ()  # coarse bins of each feature
    # limit of bins per feature for terms of each order; coarse bins are merged two by two to meet it
    bins: Mapping[int, int] = dataclasses.field(default_factory=dict)
    # over coarse cells, outputs last: what is added to each term of high order, what goes to terms of the order below
    tables: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)
    moved: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)
    # root mean square of a term's slice means over the rows, relative to that before purification; largest of all terms
    impurity: float = 0.0

    def at_rows(self, codes: BinIndices, key: Key) -> Floats | float:
        """Return what is added to a term at rows given by bins of the forest: (n_rows, n_outputs), or 0."""
        if key not in self.tables:
            return 0.0
        limit = self.bins[len(key)]
        return np.asarray(self.tables[key][tuple(self.binnings[j].coarser(limit)[codes[:, j]] for j in key)])

    def spread(self, key: Key, bins: Sequence[Ints]) -> Floats | float:
        """Return what moves to a term below, as a table, or 0; `bins` has the forest's bins along each of its axes."""
        if key not in self.moved:
            return 0.0
        coarse = (self.binnings[j].bins[fine] for j, fine in zip(key, bins, strict=True))
        return np.asarray(self.moved[key][np.ix_(*coarse)])


def correct(
    means: CoarseMeans,
    keys: Sequence[Key],
    rows: Points,
    bins: Mapping[int, int],
    *,
    advance: Advance,
    unsampled: Unsampled | None = None,
) -> Correction:
    """Return what makes terms of high order, given by their means on coarse cells, pure under weighted rows."""
    # `keys` contain their own subsets down to their lowest order. `bins` limits the bins per feature for each order.
    # `unsampled` returns what rows outside of a sample add to the shares of cells.
    merged = {(j, n): binning_by(b.coarser(n)) for n in set(bins.values()) for j, b in enumerate(means.binnings)}
    requests = [Request(key, [merged[j, bins[len(key)]] for j in key]) for key in keys]
    unsampled_shares = {} if unsampled is None else unsampled(requests)
    coarse = _CoarseTerms(means, _coarse_codes(means.binnings, rows), bins, rows.weights, unsampled_shares)
    tables: dict[Key, Floats] = {}
    passed: dict[Key, Floats] = {}
    impurity = 0.0

    advance(0, len(keys))
    for key, (table, impurity_of_term) in descend(keys, coarse.solve, passed):
        tables[key], impurity = table, max(impurity, impurity_of_term)
        advance(len(tables), len(keys))
    moved = {key: np.moveaxis(coarse.spread(values, key, costs.COARSE_BINS), 0, -1) for key, values in passed.items()}
    return Correction(means.binnings, bins, tables, moved, impurity)


def choose_bins(
    form: ClosedForm, keys: Sequence[Key], rows: Points, *, are_cells: bool = False, are_drawn: bool = False
) -> dict[int, int]:
    """Return the limit of bins per feature for each order: fewer for more leaves, cells, and slices than rows fill."""
    # The module's docstring has the rule. If rows are cells of a table (`are_cells`), each counts as a row.
    binnings = coarse_binnings(form)
    coarse = _CoarseTerms(CoarseMeans(form, binnings, {}, {}), _coarse_codes(binnings, rows), {}, rows.weights)
    n_leaves = max(sum(form.leaf_sets.n_leaves_with(key) for key in keys), 1)
    n_tables = max(len(keys) * form.leaf_sets.values.shape[1], 1)
    max_cells = min(costs.CORRECTED_CELLS, costs.CORRECTED_STEPS / n_leaves, costs.ALL_CORRECTED_CELLS / n_tables)
    n_rows = len(rows.codes) if are_cells else float(1 / np.square(rows.weights).sum())

    def is_too_fine(key: Key, bins: int) -> bool:
        rows_per_slice = costs.DRAWS_PER_SLICE if are_drawn and coarse.is_merged(key, bins) else 1
        return coarse.n_slices(key, bins) * rows_per_slice > n_rows

    limits: dict[int, int] = {}
    for order in sorted({len(key) for key in keys}):
        tried_keys = [key for key in keys if len(key) == order][: costs.KEYS_TO_TRY]
        bins = limits.get(order - 1, costs.COARSE_BINS)
        while bins > 2 and (bins**order > max_cells or any(is_too_fine(key, bins) for key in tried_keys)):
            bins //= 2
        limits[order] = bins
    return limits


def _coarse_codes(binnings: Sequence[Binning], rows: Points) -> list[Ints]:  # merged bins of the rows, by feature
    return [binning.bins[rows.codes[:, j]] for j, binning in enumerate(binnings)]


@dataclasses.dataclass(frozen=True, eq=False)
class _CoarseTerms:
    """Terms of high order on coarse cells, weighted by rows; tensors have the outputs first."""

    means: CoarseMeans
    codes: Sequence[Ints]  # coarse bins of the rows, by feature
    bins: Mapping[int, int]  # limit of bins per feature for terms of each order
    weights: Floats  # of the rows
    unsampled: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)  # what rows beyond a sample add to cells

    def solve(self, keys: Sequence[Key], from_above: FromAbove) -> Iterator[tuple[Solved, Projections]]:
        """Purify terms of one order on coarse cells; yield what this adds to each, and the projections taken out."""
        limit = self.bins[len(keys[0])]
        at_once = max(costs.CELLS_AT_ONCE // limit ** len(keys[0]), 1)
        for start in range(0, len(keys), at_once):
            yield from self._solve_batch(keys[start : start + at_once], from_above)

    def _solve_batch(self, keys: Sequence[Key], from_above: FromAbove) -> list[tuple[Solved, Projections]]:
        """Purify some terms of one order: return what that adds to each, its impurity, and what is taken out."""
        limit = self.bins[len(keys[0])]
        closed = [np.moveaxis(self.means.term(key, limit), -1, 0) for key in keys]
        values = []
        for key, term in zip(keys, closed, strict=True):
            addend = from_above(key)
            whole = term if addend is None else term + self.spread(addend, key, limit)
            values.append(np.array(whole, order="C"))
        cells = [ObservedCells.of(self._cell_weights(key, limit) + self.unsampled.get(key, 0.0)) for key in keys]
        tolerance_of = {True: costs.COARSE_TOLERANCE, False: costs.TOLERANCE_OF_ALL_BINS}
        tolerances = [tolerance_of[self.is_merged(key, limit)] for key in keys]
        all_projections = projections_of_all(cells, values, tolerances)
        solved = []
        for term, whole, cells_of_term, projections in zip(closed, values, cells, all_projections, strict=True):
            before = cells_of_term.mean_squares(whole)
            take_out(whole, projections)
            impurity = np.sqrt(cells_of_term.mean_squares_of_slices(whole) * safe_inverse(before)).max()
            solved.append(((np.moveaxis(whole - term, 0, -1), float(impurity)), projections))
        return solved

    def is_merged(self, key: Key, limit: int) -> bool:
        """Whether a limit of bins per feature merges any bins of the forest along a term's axes."""
        grid = self.means.form.leaf_sets.grid
        return any(self.means.binnings[j].coarser_size(limit) < grid.sizes[j] for j in key)

    def _cell_weights(self, key: Key, limit: int) -> Floats:
        """Return the weight of the rows in each cell with at most `limit` bins per feature."""
        sizes = tuple(self.means.binnings[j].coarser_size(limit) for j in key)
        columns = [self._merged_codes(j, limit) for j in key]
        return count_cells(columns, sizes, self.weights, len(self.weights))

    @memo
    def _merged_codes(self, feature: int, limit: int) -> Ints:  # bins of the rows, merged two by two to meet the limit
        return self.codes[feature] >> self.means.binnings[feature].shift(limit)

    def n_slices(self, key: Key, limit: int) -> int:
        """Return the number of slices with rows, along all axes of a term."""
        return sum(int(np.count_nonzero(self._cell_weights(below, limit))) for below in keys_below(key))

    def spread(self, values: Floats, key: Key, finer: int) -> Floats:
        """Spread values (outputs first) from the merged bins of the order above onto up to `finer` bins per feature."""
        limit = self.bins[len(key) + 1]
        binnings = [self.means.binnings[j] for j in key]
        # Bins are merged two by two: to halve their number n times is to divide a bin's position by 2^n.
        places = [np.arange(b.coarser_size(finer)) >> (b.shift(limit) - b.shift(finer)) for b in binnings]
        return np.asarray(values[np.ix_(np.arange(len(values)), *places)])


@dataclasses.dataclass(frozen=True, eq=False)
class Leftover:
    """Mean, main effects and pairs that move from high orders to intercept and tables."""

    binnings: tuple[Binning, ...] = ()  # bins of each feature, merged two by two for the terms that have fewer
    # by destination, outputs last; the key () is the intercept
    tables: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)

    def with_mean(self, mean: Floats) -> Leftover:  # with a mean, (n_outputs,), that moves to the intercept
        return Leftover(self.binnings, {**self.tables, (): mean})

    def at_rows(self, codes: BinIndices) -> Floats | float:
        """Return the sum of all that is moved, shape (n_rows, n_outputs)."""
        return sum((self.at(key, codes) for key in self.tables), start=0.0)

    def at(self, key: Key, codes: BinIndices) -> Floats:
        """Return what is moved to one term, at rows; for the intercept, one number per output."""
        return self._at(key, [codes[:, j] for j in key])

    def spread(self, key: Key, bins: Sequence[Ints]) -> Floats | float:
        """Return what is moved to one term, as a table over the forest's bins in `bins` along each axis, or 0."""
        return self._at(key, np.ix_(*bins)) if key in self.tables else 0.0

    def _at(self, key: Key, bins: Sequence[Ints | BinIndices]) -> Floats:
        """Return the entries of a term's table at the forest's bins, given per feature as numpy's index arrays."""
        table = self.tables[key]
        sizes = table.shape[: len(key)]
        cells = (self.binnings[j].coarser(size)[column] for j, size, column in zip(key, sizes, bins, strict=True))
        return np.asarray(table[tuple(cells)])


@dataclasses.dataclass(frozen=True, eq=False)
class Allotment:
    """How much each term of one order gives up of what moves to tables: in proportion to the leaves that have it."""

    leaf_sets: LeafSets
    order: int

    def shares_of_tables(self, term: Key, keys: Collection[Key]) -> list[tuple[Key, float]]:
        """Return those of some keys that a term contains, and the share of each key's table that the term gives up."""
        if len(term) != self.order:
            return []
        orders = range(min(self.order, max(costs.LEFTOVER_BINS)) + 1)
        below = [key for order in orders for key in itertools.combinations(term, order) if key in keys]
        return [(key, self._n_leaves_with(term) / self.n_pairs(key)) for key in below]

    def feature_shares(self, key: Key) -> Floats:
        """Return each feature's share in what moves to a key's table, (n_features,) of sum 1, by its terms' shares."""
        counts = self._pairs_by_feature(key)
        return np.asarray(counts / counts.sum())

    def n_pairs(self, key: Key) -> float:
        """Count, over all leaves, the terms of the order on the path to the leaf that contain the key."""
        return float(self._pairs_by_feature(key).sum()) / self.order  # each is counted once per feature of the term

    @memo
    def _pairs_by_feature(self, key: Key) -> Floats:
        """Return, by feature, as many of the pairs that `n_pairs` counts as have a term with the feature."""
        return self.leaf_sets.n_subsets_with(key, self.order)

    @memo
    def _n_leaves_with(self, term: Key) -> int:  # computed once per term
        return self.leaf_sets.n_leaves_with(term)


def find_leftover(form: ClosedForm, keys: Sequence[Key], rows: Points, values: Floats) -> Leftover:
    """Return tables of main effects and pairs that predict the sum of high orders at rows, (n_rows, n_outputs)."""
    # One table after the other, on the residual, with the bins that best predict one half of the rows from the other.
    axes = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    binnings = tuple(equal_mass(axis, masses, costs.LEFTOVER_BINS[1][0]) for axis, masses in axes)
    residual = _Residual(rows.weights, values - rows.weights @ values)
    tables: dict[Key, Floats] = {}
    mains = [key for key in keys if len(key) == 1]
    pairs = sorted((key for key in keys if len(key) == 2), key=form.leaf_sets.n_leaves_with, reverse=True)
    n_terms = min(int(costs.LEFTOVER_STEPS / max(values.size, 1)), costs.LEFTOVER_TERMS)
    for key in mains + pairs[: max(n_terms - len(mains), 1)]:
        limits = costs.LEFTOVER_BINS[len(key)]
        shape, cell_of_row = _cells_of_rows(binnings, key, rows, limits[0])
        options = [_merged_cells([binnings[j] for j in key], limits[0], limit) for limit in limits]
        finest = residual.sums(cell_of_row, math.prod(shape))
        sums = [finest.merged(cells) for _, cells in options]
        estimates = [residual.shrunk_means(sums_of_cells) for sums_of_cells in sums]
        tried = [(sums_of_cells, variance) for sums_of_cells, (_, variance) in zip(sums, estimates, strict=True)]
        gains = [residual.gain(sums_of_cells) if variance > 0 else 0.0 for sums_of_cells, variance in tried]
        best = int(np.argmax(gains))
        if gains[best] > 0:
            means, (shape, cells) = estimates[best][0], options[best]
            tables[key] = means.reshape(*shape, -1)
            residual.take_out(means[cells[cell_of_row]])
    return Leftover(binnings, tables)


@dataclasses.dataclass(frozen=True, eq=False)
class _Cells:
    """The cells of a table, numbered, with the rows in them."""

    shape: tuple[int, ...]
    numbers: Ints  # cell of each row
    masses: Floats  # weight of each cell
    n_rows: Floats  # effective number of rows in each cell

    def means(self, values: Floats, weights: Floats) -> Floats:
        """Return means of values at rows, (n_rows, n_outputs), over cells: (n_cells, n_outputs), 0 without rows."""
        sums = np.stack([np.bincount(self.numbers, weights * column, len(self.masses)) for column in values.T], axis=1)
        return np.divide(sums, self.masses[:, None], out=np.zeros_like(sums), where=self.masses[:, None] > 0)

    def shrunk_means(
        self, values: Floats, weights: Floats, threshold: float = costs.LEFTOVER_ERRORS
    ) -> tuple[Floats, float]:
        """Return means over cells (n_cells, n_outputs), shrunk by their noise, and the variance they should explain."""
        # Values (n_rows, n_outputs) have mean zero. An output gets zeros if the variance between cells exceeds that of
        # noise by less than `threshold` standard errors.
        columns = [np.bincount(self.numbers, weights * column, len(self.masses)) for column in values.T]
        sums = np.stack(columns, axis=1).astype(np.float64)
        n_all = float(1 / np.square(weights).sum())
        return _shrunk_means(sums, (self.masses, self.n_rows), weights @ values**2, n_all, threshold)


def _shrunk_means(
    sums: Floats, cells: tuple[Floats, Floats], squares: Floats, n_all: float, threshold: float
) -> tuple[Floats, float]:
    """Return means from sums over cells, (n_cells, n_outputs), shrunk by their noise; the variance they explain."""
    # `cells` are their weights and effective numbers of rows, `n_all` is that of all rows, `squares` are mean squares.
    masses, n_rows = cells
    used = n_rows > 0
    n_used, result, explained = int(used.sum()), np.zeros(sums.shape), 0.0
    if n_used < 2 or n_all <= n_used:
        return result, explained
    masses, n_rows = masses[used], n_rows[used]
    for output, means in enumerate((sums[used] / masses[:, None]).T):
        variance_between = float(masses @ means**2)
        variance_within = max(float(squares[output]) - variance_between, 0.0) * n_all / (n_all - n_used)
        noise = variance_within / n_rows
        from_noise = float(masses @ noise)
        signal = variance_between - from_noise
        if signal > threshold * from_noise * np.sqrt(2 / n_used):
            signal_share = signal / (signal + noise)
            result[used, output] = signal_share * means
            explained += signal * float(masses @ signal_share)
    return result, explained


class _HalfSums(NamedTuple):
    """Sums over the rows in each cell of a table, for both halves of the rows: shape (2, n_cells)."""

    masses: Floats
    squares: Floats  # of weights
    values: Floats  # weighted, shape (2, n_cells, n_outputs)

    def merged(self, cells: Ints) -> _HalfSums:
        """Return the sums over coarser cells, given the number of each cell's coarser cell."""
        n_cells = int(cells.max(initial=-1)) + 1
        if n_cells == len(cells):
            return self
        return _HalfSums(*(_sums_of_merged(array, cells, n_cells) for array in self))


def _sums_of_merged(array: Floats, cells: Ints, n_cells: int) -> Floats:
    """Sum the second axis of an array over the cells that have the same number."""
    sums = np.zeros((n_cells, len(array), *array.shape[2:]))
    np.add.at(sums, cells, array.swapaxes(0, 1))
    return sums.swapaxes(0, 1)


class _Residual:
    """What tables leave of values at weighted rows, in two halves: tables are judged by sums over cells alone."""

    def __init__(self, weights: Floats, values: Floats) -> None:
        self.weights, self.values = weights, values  # values are (n_rows, n_outputs), of mean zero
        self.half = (np.random.default_rng(0).random(len(values)) >= 0.5).astype(np.int64)
        self.n_rows = 1 / np.maximum(np.bincount(self.half, weights**2, 2), np.finfo(float).tiny)  # effective numbers
        self.n_all = float(1 / np.square(weights).sum())
        self._weigh()

    def _weigh(self) -> None:
        """Compute what all sums need: weighted values, and mean squares by half."""
        self.weighted = [self.weights * column for column in self.values.T]
        pairs = zip(self.weighted, self.values.T, strict=True)
        squares = [np.bincount(self.half, weighted * column, 2) for weighted, column in pairs]
        self.squares = np.stack(squares, axis=1)  # means, by half and output

    def take_out(self, predicted: Floats) -> None:  # (n_rows, n_outputs)
        self.values -= predicted
        self._weigh()

    def sums(self, cell_of_row: Ints, n_cells: int) -> _HalfSums:
        """Return sums over the cells of a table, by half, from the number of each row's cell."""
        places = cell_of_row + n_cells * self.half
        columns = (self.weights, self.weights**2, *self.weighted)
        by_cell = [np.bincount(places, of_row, 2 * n_cells).astype(np.float64).reshape(2, -1) for of_row in columns]
        masses, squares, *values = by_cell
        return _HalfSums(masses, squares, np.stack(values, axis=-1))

    def shrunk_means(self, sums: _HalfSums) -> tuple[Floats, float]:
        """Return shrunk means of all rows over cells, and the variance they should explain."""
        cells = _masses_and_effective_rows(sums.masses.sum(axis=0), sums.squares.sum(axis=0))
        threshold = costs.LEFTOVER_ERRORS
        return _shrunk_means(sums.values.sum(axis=0), cells, self.squares.sum(axis=0), self.n_all, threshold)

    def gain(self, sums: _HalfSums) -> float:
        """Return how much shrunk means over one half of the rows lower the mean square of values in the other half."""
        gain = 0.0
        for half, other in ((0, 1), (1, 0)):
            cells = _masses_and_effective_rows(sums.masses[half], sums.squares[half])
            guess, _ = _shrunk_means(sums.values[half], cells, self.squares[half], float(self.n_rows[half]), 0.0)
            # y² - (y - g)² = 2 g y - g², and g is the same for all rows of a cell
            gain += float((guess * (2 * sums.values[other] - guess * sums.masses[other][:, None])).sum())
        return gain


def _masses_and_effective_rows(masses: Floats, squares: Floats) -> tuple[Floats, Floats]:
    """Return the masses of cells, and the effective number of rows in each (Kish), from sums of squared weights."""
    return masses, np.divide(masses**2, squares, out=np.zeros(len(masses)), where=squares > 0)


def _cells_of_rows(binnings: Sequence[Binning], key: Key, rows: Points, limit: int) -> tuple[tuple[int, ...], Ints]:
    """Return the shape of a key's table with at most `limit` bins per feature, and the number of each row's cell."""
    shape = tuple(binnings[j].coarser_size(limit) for j in key)
    return shape, np.ravel_multi_index([binnings[j].coarser(limit)[rows.codes[:, j]] for j in key], shape)


def _merged_cells(binnings: Sequence[Binning], finer: int, limit: int) -> tuple[tuple[int, ...], Ints]:
    """Return the shape of a table with at most `limit` bins per feature, and its cell for each cell with `finer`."""
    shape = tuple(binning.coarser_size(limit) for binning in binnings)
    pairs = [np.arange(b.coarser_size(finer)) >> (b.shift(limit) - b.shift(finer)) for b in binnings]
    return shape, np.ravel_multi_index(np.ix_(*pairs), shape).ravel()


def cells_of_rows(binnings: Sequence[Binning], key: Key, rows: Points, limit: int) -> _Cells:
    """Return the cells of a key with at most `limit` bins per feature, and the rows in them."""
    shape, numbers = _cells_of_rows(binnings, key, rows, limit)
    n_cells = math.prod(shape)
    masses, squares = (np.bincount(numbers, w, n_cells).astype(np.float64) for w in (rows.weights, rows.weights**2))
    return _Cells(shape, numbers, *_masses_and_effective_rows(masses, squares))
