"""Recalibration of a bag: smooth main effects and strengths of terms, by rows that members were not trained on.

Trees make steps, and of few rows these are mostly noise. A local line (LOESS) replaces each value of a main effect by
that of a weighted regression on the values near it. The width counts ranks, so that a line spans as many rows in the
tails as in the middle. Each main effect has its own width, or none: the one with the smallest loss, where each row is
scored by the member of the bag that was not trained on it.

Strengths are those of `strengths.py` for all terms at once: factors near 1, fitted to the outcome by ridge regression.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import cast

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.decomposition.simplify import HeldRows, Members
from treeanova.decomposition.steps import Tables
from treeanova.decomposition.strengths import Problem, fit_strengths
from treeanova.model.effects import Effects
from treeanova.terms.terms import TermSet

WIDTHS = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 1.0)  # standard deviations of the kernel, in shares of the rows
_MOST_TERMS = 128  # with strengths of their own
_FEWEST_BINS = 8  # of a main effect that is smoothed


def local_lines(places: Floats, masses: Floats, width: float) -> Floats:
    """Return the matrix that takes values at places, in rising order, to those of local lines.

    >>> line = np.array([0.0, 2.0, 4.0, 6.0])
    >>> (local_lines(np.arange(4.0), np.ones(4), 0.5) @ line).round(9).tolist()
    [0.0, 2.0, 4.0, 6.0]
    """
    ranks = (np.cumsum(masses) - masses / 2) / masses.sum()
    kernel = masses * np.exp(-0.5 * ((ranks[:, None] - ranks) / width) ** 2)
    kernel /= kernel.sum(axis=1, keepdims=True)
    means = kernel @ places
    distances = places - means[:, None]
    spread = (kernel * distances**2).sum(axis=1)
    is_line = spread > np.finfo(np.float64).eps * np.ptp(places) ** 2
    leverage = np.divide(places - means, spread, out=np.zeros_like(spread), where=is_line)
    return np.asarray(kernel * (1 + leverage[:, None] * distances))


@dataclasses.dataclass
class BagTables:
    """Tables of the mean and of the members of a bag, and rows that members were not trained on.

    `rows` knows the tables of members, `score` is that of each row by the member that was not trained on it.
    """

    tables: Tables
    rows: HeldRows
    intercept: Floats
    score: Floats

    @classmethod
    def of(cls, terms: TermSet, weights: Mapping[Key, Floats], rows: HeldRows) -> BagTables:
        """Return the tables of pure terms with weights, and the score of each row by its member of the bag."""
        tables = Tables(terms.effects, weights, dict(terms.effects.terms), {})
        score = np.tile(terms.intercept, (len(rows.weights), 1))
        for key in tables.values:
            score += rows.terms_at(tables, [key])[:, 0]
        return cls(tables, rows, terms.intercept, score)

    def problem(self, values: Floats) -> Problem:
        """Return the problem of fitting strengths of terms, with values (n_rows, n_terms, n_outputs)."""
        rows = self.rows
        return Problem(rows.question, rows.outcome, rows.weights, rows.group, self.intercept, values)

    def loss(self, score: Floats) -> float:
        """Return the mean loss of a score at the rows."""
        return self.problem(score[:, None]).held_out(score).mean_loss(score)

    def smooth(self) -> BagTables:
        """Return the bag with smooth main effects."""
        bag, mains = self, [key for key in self.tables.values if len(key) == 1]
        values = {key: self.rows.terms_at(self.tables, [key])[:, 0] for key in mains}
        for key in sorted(mains, key=lambda key: -float(values[key].var(axis=0).sum())):
            matrices = _smoothers(self.rows, self.tables, key)
            smoother_bags = [bag._with_smoothed(key, matrix, values[key]) for matrix in matrices]
            bag = min([bag, *smoother_bags], key=lambda candidate: candidate.loss(candidate.score))
        return bag

    def _with_smoothed(self, key: Key, matrix: Floats, values: Floats) -> BagTables:
        """Return the bag with a main effect, whose values at the rows are given, multiplied by a matrix."""
        members = cast("Members", self.rows.members)
        member_tables = {**members.tables, key: np.matmul(matrix, members.tables[key])}
        mean = {**self.tables.values, key: matrix @ self.tables.values[key]}
        rows = self.rows._replace(members=members._replace(tables=member_tables))
        tables = dataclasses.replace(self.tables, values=mean)
        after = rows.terms_at(tables, [key])[:, 0]
        return BagTables(tables, rows, self.intercept, self.score - values + after)

    def strengthen(self) -> BagTables:
        """Return the bag with terms times their strengths; weak terms, if there are many, have one in common."""
        keys, values = self._strong_terms()
        strengths, constant, _ = fit_strengths(self.problem(values))
        strength_of = dict(zip(keys, strengths, strict=False))
        mean = {key: strength_of.get(key, strengths[-1]) * table for key, table in self.tables.values.items()}
        score = self.intercept + constant + np.tensordot(values, strengths, axes=(1, 0))
        tables = dataclasses.replace(self.tables, values=mean)
        return BagTables(tables, self.rows, self.intercept + constant, score)

    def _strong_terms(self) -> tuple[list[Key], Floats]:
        """Return the terms of largest variance with their values at the rows, and the sum of all others at last."""
        sizes = {key: float(self.rows.terms_at(self.tables, [key]).var(axis=0).sum()) for key in self.tables.values}
        keys = sorted(sizes, key=lambda key: -sizes[key])[:_MOST_TERMS]
        values = self.rows.terms_at(self.tables, keys)
        if len(keys) < len(sizes):
            sum_of_weak = self.score - self.intercept - values.sum(axis=1)
            values = np.concatenate([values, sum_of_weak[:, None]], axis=1)
        return keys, values

    def terms(self) -> TermSet:
        """Return the mean of the bag."""
        effects = self.tables.effects
        values = {key: table for key, table in self.tables.values.items() if table.any()}
        binnings = {key: binning for key, binning in effects.binnings.items() if key in values}
        return TermSet(Effects(effects.grid, self.intercept, values, binnings), self.tables.weights)


def _smoothers(held: HeldRows, tables: Tables, key: Key) -> list[Floats]:
    """Return matrices of all widths that smooth a main effect and leave its weighted mean at zero."""
    [axis], [binning], [j] = tables.effects.axes_of(key), tables.effects.binnings_of(key), key
    n, weights = axis.n_regular, tables.weights[key]
    if not axis.is_ordered or n < _FEWEST_BINS:
        return []
    bins = binning.bins[held.rows.bins(tables.effects.grid)[:, j]]
    places, masses = _means_of_bins(held.rows.values[:, j], bins, held.weights, n)
    matrices = []
    for width in WIDTHS:
        matrix = np.eye(axis.size)
        matrix[:n, :n] = local_lines(places, masses, width)
        matrices.append(matrix - weights @ matrix / weights.sum())
    return matrices


def _means_of_bins(x: Floats, bins: Ints, weights: Floats, n_bins: int) -> tuple[Floats, Floats]:
    """Return the mean of x in each bin, between its neighbours for a bin without rows, and masses above zero."""
    inside = (bins < n_bins) & np.isfinite(x)
    masses = np.bincount(bins[inside], weights[inside], n_bins)
    sums = np.bincount(bins[inside], weights[inside] * x[inside], n_bins)
    has_rows = np.flatnonzero(masses > 0)
    if not len(has_rows):
        return np.arange(float(n_bins)), np.ones(n_bins)
    places = np.interp(np.arange(n_bins), has_rows, sums[has_rows] / masses[has_rows])
    return places, masses + 1e-6 * masses.sum()
