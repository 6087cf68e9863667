"""Steps: tables with few distinct values, as near as possible to a term in the norm of its density.

The bins of an ordered axis are divided into segments by dynamic programming, which is optimal for a main effect.
Categories of a main effect are ordered by their values first: optimal for one output. Missing and unseen values that
have bins of their own keep them. The two axes of a pair are divided one at a time, each by its rows of the table, and
then together; categories stay apart.

A segment's value is the weighted mean of its cells, a conditional mean. Terms therefore stay pure: the mean of a slice
of segments is a mean of means of slices.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from treeanova.anova.support import outer
from treeanova.core.arrays import Floats, Ints, Key
from treeanova.density.base import Density
from treeanova.model.axes import Axis, IntervalAxis
from treeanova.model.effects import Effects, take_bins
from treeanova.model.grid import Binning, Grid, binning_by, equal_mass_groups
from treeanova.terms.source import Settings, purify_tensors
from treeanova.terms.terms import TermSet

MOST_SEGMENTS = 64  # of an axis that is divided
_ROUNDING = 1e-12
_MOVED_SHARE = 0.1  # of the lighter of two steps that a rounded cut may move to the other
_MOST_BINS = 1024  # of a main effect: dynamic programming takes their square
_MOST_BINS_OF_PAIR = 256  # of an axis of an interaction
_MOST_COLUMNS = 32  # of its other axis, while it is divided
_SIZES_OF_PAIR = (1, 2, 3, 4, 5, 6, 8, 10, 12, 16, 20, 24, 32, 48, 64)


class Steps(NamedTuple):
    """A way to divide the cells of a term: the group of each bin of each axis, and the variance that is lost."""

    groups: tuple[Ints, ...]
    lost: float
    n_cells: int


def _steps(groups: Sequence[Ints], lost: float) -> Steps:
    """Return the way to divide cells into groups, given along each axis, with the number of cells that are left."""
    return Steps(tuple(groups), max(lost, 0.0), math.prod(int(group.max(initial=0)) + 1 for group in groups))


def steps_of(
    axes: Sequence[Axis], values: Floats, weights: Floats, *, most: int | None, least_share: float
) -> list[Steps]:
    """Return ways to divide a term, from one cell to all of them; all of them only if that breaks no limit.

    `values` are over the bins of the axes, outputs last; `most` limits the segments of each axis, `least_share` their
    shares of the mass.
    """
    n_most = MOST_SEGMENTS if most is None else most
    divisions = [
        _divisions(axis, np.moveaxis(values, i, 0), np.moveaxis(weights, i, 0), n_most, least_share)
        for i, axis in enumerate(axes)
    ]
    ways = _ways_with_losses(values, weights, divisions)
    if all(_may_stay(axis, _marginal(weights, i), most, least_share) for i, axis in enumerate(axes)):
        ways.append(_steps([np.arange(axis.size) for axis in axes], 0.0))
    return ways or [_one_cell(axes, values, weights)]  # categories stay apart, but the other axis may not be divided


def _one_cell(axes: Sequence[Axis], values: Floats, weights: Floats) -> Steps:
    """Return the way to give all cells of a term one value."""
    [way] = _ways_with_losses(values, weights, [[np.zeros(axis.size, dtype=np.int64)] for axis in axes])
    return way


def _may_stay(axis: Axis, marginal: Floats, most: int | None, least_share: float) -> bool:
    """Whether all bins of an axis may be segments."""
    is_few = most is None or axis.n_regular <= most
    return is_few and bool((marginal[: axis.n_regular] >= least_share).all())


def _marginal(weights: Floats, axis: int) -> Floats:
    """Return the weights of the bins of one axis."""
    return weights.sum(axis=tuple(i for i in range(weights.ndim) if i != axis))


def _ways_with_losses(values: Floats, weights: Floats, divisions: Sequence[Sequence[Ints]]) -> list[Steps]:
    """Combine divisions of all axes; the lost variance is that of the values less that of the cells' means.

    A pure term is zero if an axis has one segment: then the others have one too.
    """
    total = float((weights[..., None] * values**2).sum())
    partial: list[tuple[tuple[Ints, ...], Floats, Floats]] = [((), weights[..., None] * values, weights[..., None])]
    for i, divisions_of_axis in enumerate(divisions):
        partial = [
            ((*groups, group), _pooled(sums, group, i), _pooled(masses, group, i))
            for groups, sums, masses in partial
            for group in divisions_of_axis
            if i == 0 or _may_combine(groups[0], group)
        ]
    return [
        _steps(groups, total - float(np.divide(sums**2, masses, out=np.zeros_like(sums), where=masses > 0).sum()))
        for groups, sums, masses in partial
    ]


def _may_combine(first: Ints, second: Ints) -> bool:
    """Whether both axes of a pair have several segments, or both have one."""
    return bool(first.any()) == bool(second.any())


def best_steps(ways: Iterable[Steps], price: float) -> Steps:
    """Return the way with the smallest sum of lost variance and price of its cells."""
    return min(ways, key=lambda way: (way.lost + price * way.n_cells, way.n_cells))


def averaged(values: Floats, weights: Floats, groups: Sequence[Ints]) -> Floats:
    """Return the weighted mean of each group of cells in all of its cells.

    A group without mass has the mean under the product of marginals, as purification settles such cells.
    """
    sums, masses = _pooled_all(weights[..., None] * values, groups), _pooled_all(weights[..., None], groups)
    if (masses > 0).all():
        means = sums / masses
    else:
        product = outer([_settled_marginal(weights, axis, group) for axis, group in enumerate(groups)])[..., None]
        settled = _pooled_all(product * values, groups) / _pooled_all(product, groups)
        means = np.where(masses > 0, sums / np.where(masses > 0, masses, 1.0), settled)
    return np.ascontiguousarray(means[np.ix_(*groups)])


def _settled_marginal(weights: Floats, axis: int, group: Ints) -> Floats:
    """Return the marginal of an axis; bins of a group without mass count alike."""
    marginal = _marginal(weights, axis)
    return np.where(np.bincount(group, marginal)[group] > 0, marginal, 1.0)


def _pooled_all(values: Floats, groups: Sequence[Ints]) -> Floats:
    """Sum over the cells of each group, with the groups of the bins along each axis."""
    return functools.reduce(lambda sums, i: _pooled(sums, groups[i], i), range(len(groups)), values)


def _pooled(values: Floats, group: Ints, axis: int) -> Floats:
    """Sum over the bins of each group, along an axis; groups are numbered from 0 without gaps."""
    changes = np.diff(group)
    if (changes < 0).any():
        order = np.argsort(group, kind="stable")
        values, changes = values.take(order, axis=axis), np.diff(group[order])
    if changes.all():
        return values
    starts = np.concatenate([[0], np.flatnonzero(changes) + 1])
    return np.asarray(np.add.reduceat(values, starts, axis=axis))


def _divisions(axis: Axis, values: Floats, weights: Floats, most: int, least_share: float) -> list[Ints]:
    """Return groups of the bins of the first axis, by its rows of the table, from one segment of regular bins up."""
    rows, masses = values.reshape(axis.size, -1, values.shape[-1]), weights.reshape(axis.size, -1)
    n, is_pair = axis.n_regular, weights.ndim > 1
    if is_pair and not axis.is_ordered:
        return [np.arange(axis.size)]  # merged categories have no axis of their own, on which a pair would be pure
    order = np.arange(n) if axis.is_ordered else _order_of_categories(rows[:n], masses[:n])
    blocks = _blocks(masses[:n].sum(axis=1)[order], _MOST_BINS_OF_PAIR if is_pair else _MOST_BINS)
    columns = _blocks(masses.sum(axis=0), _MOST_COLUMNS)
    regular_share = float(masses[:n].sum()) / float(masses.sum())  # the rest is missing or unseen
    segments_of_blocks = segmentations(
        *_summed(rows[:n][order], masses[:n][order], blocks, columns),
        most=most,
        least_share=least_share / regular_share if regular_share > 0 else least_share,
    )
    divisions = []
    for segments in segments_of_blocks:
        if is_pair and int(segments.max()) + 1 not in _SIZES_OF_PAIR:
            continue
        groups = np.empty(axis.size, dtype=np.int64)
        groups[order] = segments[blocks]
        groups[n:] = int(segments.max()) + 1 + np.arange(axis.n_extra)
        divisions.append(_numbered(groups))
    return divisions


def _numbered(groups: Ints) -> Ints:
    """Number groups in the order in which they first appear, so that single bins keep their places."""
    _, first, places = np.unique(groups, return_index=True, return_inverse=True)
    return np.argsort(np.argsort(first))[places.ravel()]


def _order_of_categories(rows: Floats, masses: Floats) -> Ints:
    """Order categories by value; with several columns, by the direction in which they differ most."""
    flat = (rows * np.sqrt(masses)[..., None]).reshape(len(rows), -1)
    if flat.shape[1] == 1:
        return np.argsort(rows[:, 0, 0], kind="stable")
    direction = np.linalg.svd(flat - flat.mean(axis=0), full_matrices=False)[2][0]
    return np.argsort(rows.reshape(len(rows), -1) @ direction, kind="stable")


def _blocks(masses: Floats, most: int) -> Ints:
    """Return blocks of neighbouring bins that are not divided: the bins themselves, unless they are many."""
    if len(masses) <= most:
        return np.arange(len(masses))
    return np.asarray(np.unique(equal_mass_groups(masses, most), return_inverse=True)[1].ravel())


def _summed(rows: Floats, masses: Floats, blocks: Ints, columns: Ints) -> tuple[Floats, Floats, Floats]:
    """Return weights, weighted sums and weighted squares of the columns of each block."""
    weighted = masses[..., None] * rows
    numbers = masses, weighted, (weighted * rows).sum(axis=2)
    masses, sums, squares = (_pooled_all(column, (blocks, columns)) for column in numbers)
    return masses, sums, squares


def segmentations(masses: Floats, sums: Floats, squares: Floats, *, most: int, least_share: float) -> list[Ints]:
    """Return the best division of a row of blocks into 1, 2, … segments, at most `most`, each with a share of the mass.

    Weights and squares have shape (n_blocks, n_columns), sums one more axis of outputs. The loss is the weighted
    variance within segments, added up over columns.
    """
    cost, n = _costs(masses, sums, squares, least_share), len(masses)
    cost[0, n] = cost[0, n] if np.isfinite(cost[0, n]) else 0.0  # one segment is always allowed
    best = cost[0]
    origins: list[Ints] = []
    divisions = [np.zeros(n, dtype=np.int64)]
    for n_segments in range(2, min(most, n) + 1):
        totals = best[:, None] + cost
        origins.append(totals.argmin(axis=0))
        best = totals.min(axis=0)
        if not np.isfinite(best[n]):
            break
        divisions.append(_traced(origins, n_segments, n))
    return divisions


def _costs(masses: Floats, sums: Floats, squares: Floats, least_share: float) -> Floats:
    """Return the loss of each segment from a start to an end (exclusive), infinite if it must not be."""
    n, n_columns = masses.shape
    cost = np.zeros((n + 1, n + 1))
    for column in range(n_columns):
        mass, square = (_running(numbers[:, column]) for numbers in (masses, squares))
        running_sums = [_running(sums[:, column, k]) for k in range(sums.shape[2])]
        between = mass[None] - mass[:, None]
        explained = sum((running[None] - running[:, None]) ** 2 for running in running_sums)
        explained = np.divide(explained, between, out=np.zeros_like(between), where=between > 0)
        cost += np.maximum(square[None] - square[:, None] - explained, 0.0)
    mass = _running(masses.sum(axis=1))
    is_small = mass[None] - mass[:, None] < least_share * mass[-1] * (1 - 1e-9)
    cost[is_small | np.tri(n + 1, dtype=bool)] = np.inf
    return cost


def _running(numbers: Floats) -> Floats:
    """Return the sums of the first 0, 1, 2, … numbers."""
    return np.concatenate([[0.0], np.cumsum(numbers)])


def _traced(origins: Sequence[Ints], n_segments: int, n: int) -> Ints:
    """Return the segment of each block; `origins` has the best start of the last of 2, 3, … segments for each end."""
    labels, end = np.zeros(n, dtype=np.int64), n
    for segment in range(n_segments - 1, 0, -1):
        start = int(origins[segment - 1][end])
        labels[start:end] = segment
        end = start
    return labels


@dataclasses.dataclass(frozen=True, eq=False)
class Tables:
    """Tables of terms over the bins that they had, outputs last, and the groups of bins that share a value."""

    effects: Effects
    weights: Mapping[Key, Floats]
    values: Mapping[Key, Floats]
    steps: Mapping[Key, Steps]

    def varies(self, key: Key) -> bool:
        """Whether a table is more than rounding of what it was before."""
        before, now = (np.abs(values).max() for values in (self.effects.terms[key], self.values[key]))
        return bool(now > _ROUNDING * before)

    def at(self, codes: Any, keys: Sequence[Key]) -> Floats:
        """Return terms at rows given by their bins on the grid, (n_rows, n_keys, n_outputs)."""
        effects = Effects(self.effects.grid, self.effects.intercept, dict(self.values), self.effects.binnings)
        return TermSet(effects).at(codes, keys)

    def term_set(self, intercept: Floats, strengths: Mapping[Key, float]) -> TermSet:
        """Return terms times strengths on their groups of bins; categories keep their bins."""
        terms, weights, binnings = {}, {}, {}
        for key, strength in strengths.items():
            axes, before = self.effects.axes_of(key), self.effects.binnings_of(key)
            pairs = zip(axes, self.steps[key].groups, strict=True)
            groups = [group if axis.is_ordered else np.arange(axis.size) for axis, group in pairs]
            merged = [binning_by(group) for group in groups]
            binnings[key] = tuple(binning_by(group[old.bins]) for group, old in zip(groups, before, strict=True))
            first = [np.unique(group, return_index=True)[1] for group in groups]
            terms[key] = strength * take_bins(self.values[key], first)
            weights[key] = self.weights[key]
            for i, binning in enumerate(merged):
                weights[key] = binning.pool(weights[key], axis=i)
        return TermSet(Effects(self.effects.grid, intercept, terms, binnings), weights)


def divided(tables: Tables, steps: Mapping[Key, Steps]) -> Tables:
    """Return tables in which the cells of each group have their weighted mean."""
    values = {key: averaged(tables.values[key], tables.weights[key], way.groups) for key, way in steps.items()}
    return dataclasses.replace(tables, values=values, steps=steps)


def monotone_values(axis: Axis, values: Floats, weights: Floats, sign: int) -> Floats:
    """Return the nearest main effect that never falls (sign 1) or never rises (-1); missing values stay."""
    n = axis.n_regular
    monotone = np.array(values)
    masses = np.maximum(weights[:n], weights[:n].max() * 1e-12)
    for k in range(values.shape[-1]):
        fit = scipy.optimize.isotonic_regression(values[:n, k], weights=masses, increasing=sign > 0)
        monotone[:n, k] = fit.x
    return np.asarray(monotone - weights @ (monotone - values) / weights.sum())  # bins without mass moved the mean


# Rounded cuts.


def with_round_cuts(tables: Tables, density: Density, settings: Settings) -> tuple[Tables, Density]:
    """Return tables on a grid of their own cuts, rounded, purified under the same kind of density on that grid."""
    grid, effects = tables.effects.grid, tables.effects
    binnings = [_used_bins(tables, j) for j in range(len(grid.axes))]
    masses = [density.table((j,)) for j in range(len(grid.axes))]
    axes = map(_rounded_axis, grid.axes, binnings, masses)
    new_grid = Grid(grid.schema, tuple(axes))
    first_bins = [np.unique(binning.bins, return_index=True)[1] for binning in binnings]
    old_bins = {  # by axis of a term, the bin of its table from which each new bin takes its value
        key: [old.bins[first_bins[j]] for j, old in zip(key, effects.binnings_of(key), strict=True)]
        for key in tables.values
    }
    terms = {key: take_bins(values, old_bins[key]) for key, values in tables.values.items()}
    statistics = density.statistics
    bound = density.bind(new_grid, None if statistics is None else statistics.on(new_grid))
    pure = purify_tensors(Effects(new_grid, effects.intercept, terms), bound, settings).terms
    groups = {
        key: [group[bins] for group, bins in zip(tables.steps[key].groups, old_bins[key], strict=True)] for key in terms
    }
    values = {key: averaged(pure.effects.terms[key], pure.weights[key], groups[key]) for key in terms}
    steps = {key: _steps([_numbered(group) for group in groups[key]], tables.steps[key].lost) for key in terms}
    return Tables(pure.effects, pure.weights, values, steps), bound


def _used_bins(tables: Tables, feature: int) -> Binning:
    """Merge the bins of a feature that no table distinguishes; categories and missing values stay apart."""
    axis = tables.effects.grid.axes[feature]
    if not axis.is_ordered:
        return binning_by(np.arange(axis.size))
    is_cut = np.zeros(axis.size, dtype=bool)
    is_cut[axis.n_regular :] = True
    for key, way in tables.steps.items():
        if feature in key:
            i = key.index(feature)
            bins = way.groups[i][tables.effects.binnings_of(key)[i].bins]
            is_cut[1:] |= np.diff(bins) != 0
    return binning_by(np.cumsum(is_cut))


def _rounded_axis(axis: Axis, binning: Binning, masses: Floats) -> Axis:
    """Return an axis of merged bins with its cuts rounded as far as `_MOVED_SHARE` of the mass allows."""
    coarse = binning.axis(axis)
    if not isinstance(coarse, IntervalAxis) or coarse.date_unit or not len(coarse.bounds):
        return coarse
    below = np.cumsum(masses[: axis.n_regular])  # mass up to the upper end of each interval
    at_cuts = below[np.searchsorted(axis.thresholds, coarse.bounds)]
    shares = np.diff(np.concatenate([[0.0], at_cuts, below[-1:]]))
    moved = _MOVED_SHARE * np.minimum(shares[:-1], shares[1:])
    low, high = (np.interp(at_cuts + move, below[:-1], axis.thresholds) for move in (-moved, moved))
    bounds = np.array([round_number(*ends) for ends in zip(low, coarse.bounds, high, strict=True)])
    return dataclasses.replace(coarse, bounds=bounds if (np.diff(bounds) > 0).all() else coarse.bounds)


def round_number(low: float, number: float, high: float) -> float:
    """Return the number between two ends with the fewest digits, and of these the nearest.

    >>> round_number(37.2, 39.5, 41.0), round_number(0.0121, 0.01234, 0.0127), round_number(-1.0, 0.3, 2.0)
    (40.0, 0.0125, 0.0)
    """
    low, high = min(low, number), max(high, number)
    if low <= 0 <= high:
        return 0.0
    top = math.floor(math.log10(max(abs(low), abs(high))))
    for digit in range(top, top - 17, -1):
        for factor in (5, 2, 1):
            step = factor * 10.0**digit
            nearest = round(number / step)
            multiples = [round(k * step, max(-digit, 0)) for k in (nearest - 1, nearest, nearest + 1)]
            inside = [multiple for multiple in multiples if low <= multiple <= high]
            if inside:
                return float(min(inside, key=lambda multiple: abs(multiple - number)))
    return float(number)
