"""Strengths of terms, fitted to an outcome, and the terms that fewer of them can replace; `simplify.py` says how.

Strengths have the prior mean 1. They are fitted by Newton's method on the model's loss; terms are then removed one at a
time, and models of all sizes are judged at rows that they were not fitted to.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Collection, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.core.progress import Progress, counted
from treeanova.decomposition.held_out import HeldOut, LossRows, Question, held_out

_DEVIATION = 0.15  # prior standard deviation of strengths around 1: the best of 0.05 to 1 on five data sets
_DENSE_SIZES = 40  # numbers of terms up to which all are tried
_SPARSE_SIZES = 25
_NEWTON_STEPS = 8
_CONVERGED = 1e-4
_RIDGE = 1e-9


class Fit(NamedTuple):
    """Models of several sizes: strengths (n_sizes, n_terms) and additions to the intercept (n_sizes, n_outputs)."""

    strengths: Floats
    constants: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class Problem:
    """Held-out rows, and the terms at these rows, shape (n_rows, n_terms, n_outputs)."""

    question: Question
    outcome: Any
    weights: Floats
    group: npt.NDArray[Any] | None
    intercept: Floats
    values: Floats
    must_stay: frozenset[int] = frozenset()

    @property
    def n_rows(self) -> int:
        return len(self.weights)

    @property
    def sizes(self) -> list[int]:
        """Numbers of terms of the models on the path."""
        least, most = len(self.must_stay), self.values.shape[1]
        dense = range(least, min(most, max(least, _DENSE_SIZES)) + 1)
        sparse = np.geomspace(max(_DENSE_SIZES, least, 1), max(most, 1), _SPARSE_SIZES).astype(int).tolist()
        return sorted({*dense, most, *(size for size in sparse if least <= size <= most)})

    def held_out(self, score: Floats) -> HeldOut:
        """Return the losses of a score at the rows, and their derivatives."""
        return held_out(self.question, score, self.outcome, self.weights, self.group)

    def at(self, rows: Any) -> Problem:
        """Return the problem at some of its rows."""
        group = None if self.group is None else self.group[rows]
        changes = {"outcome": self.outcome[rows], "weights": self.weights[rows], "values": self.values[rows]}
        return dataclasses.replace(self, group=group, **changes)

    def scores(self, fit: Fit) -> Floats:
        """Return the scores of all models, shape (n_sizes, n_rows, n_outputs)."""
        sums = np.tensordot(fit.strengths, self.values, axes=(1, 1))
        return np.asarray(self.intercept + fit.constants[:, None] + sums)


def fit_path(problem: Problem, sizes: Sequence[int]) -> Fit:
    """Return models of some sizes: all terms with fitted strengths, and projections of these on fewer terms."""
    strengths, constants, curvature = fit_strengths(problem)
    strengths_by_size = _projections(strengths, curvature, sizes, problem.must_stay)
    scores = problem.scores(Fit(strengths_by_size, np.tile(constants, (len(sizes), 1))))
    held = problem.held_out(scores[-1])
    return Fit(strengths_by_size, np.array([constants + _best_constant(held, score) for score in scores]))


def fit_strengths(problem: Problem) -> tuple[Floats, Floats, Floats]:
    """Return strengths of all terms, the change of the intercept, and the curvature of the loss by strengths."""
    n_outputs, n_terms = len(problem.intercept), problem.values.shape[1]
    columns = np.concatenate([_constant_columns(problem.n_rows, n_outputs), np.swapaxes(problem.values, 0, 1)])
    prior = np.concatenate([np.zeros(n_outputs), np.ones(n_terms)])
    theta, precision, hessian = prior, np.zeros(len(prior)), np.eye(len(prior))
    held = with_derivatives(problem.held_out(problem.intercept + problem.values.sum(axis=1)))
    least = held.mean_loss(held.score)
    for step in range(_NEWTON_STEPS):
        score = problem.intercept + np.tensordot(theta, columns, axes=1)
        slopes = np.tensordot(columns, held.gradient(score), axes=([1, 2], [0, 1]))
        hessian = np.tensordot(columns, held.second_derivative_times(score, columns), axes=([1, 2], [1, 2]))
        if step == 0:
            precision[n_outputs:] = _dispersion(held, columns[n_outputs:], hessian[n_outputs:, n_outputs:])
            precision[n_outputs:] /= _DEVIATION**2
        move = np.linalg.solve(_steady(hessian + np.diag(precision)), -(slopes + precision * (theta - prior)))
        while not held.mean_loss(score + np.tensordot(move, columns, axes=1)) <= least and np.abs(move).max() > _RIDGE:
            move = move / 2
        theta = theta + move
        if np.abs(move).max() < _CONVERGED:
            break
    return np.maximum(theta[n_outputs:], 0.0), theta[:n_outputs], _without_constants(hessian, n_outputs)


def with_derivatives(held: HeldOut) -> HeldOut:
    """Return losses with two derivatives, for Newton's method: that of a quantile is smoothed."""
    return held.smooth() if isinstance(held, LossRows) else held


def _constant_columns(n_rows: int, n_outputs: int) -> Floats:
    """Return changes of the score by 1 in each output: shape (n_outputs, n_rows, n_outputs)."""
    return np.repeat(np.eye(n_outputs)[:, None], n_rows, axis=1)


def _steady(matrix: Floats) -> Floats:
    """Return a matrix with a tiny multiple of the identity added, so that it has an inverse."""
    return matrix + _RIDGE * max(np.trace(matrix) / len(matrix), np.finfo(np.float64).tiny) * np.eye(len(matrix))


def _dispersion(held: HeldOut, columns: Floats, hessian: Floats) -> float:
    """Return the variance of the slopes by strengths, over the curvature: 1 for a likelihood that fits."""
    slopes = (held.gradient(held.score) * columns).sum(axis=2)
    curvature = float(np.trace(hessian))
    return float((slopes**2).sum()) / curvature if curvature > 0 else 1.0


def _without_constants(hessian: Floats, n_outputs: int) -> Floats:
    """Return the curvature by strengths where the intercept follows them."""
    across = hessian[:n_outputs, n_outputs:]
    shared = across.T @ np.linalg.pinv(hessian[:n_outputs, :n_outputs]) @ across
    return np.asarray(hessian[n_outputs:, n_outputs:] - shared)


def _projections(strengths: Floats, curvature: Floats, sizes: Sequence[int], must_stay: Collection[int]) -> Floats:
    """Remove terms one at a time, the one that the others replace best, and return strengths of the given sizes.

    With the inverse M of the curvature of the terms that are left, removing term t costs s_t² / M_tt and changes
    strengths by -M[:, t] s_t / M_tt.
    """
    n_terms = len(strengths)
    inverse, s = np.linalg.inv(_steady(curvature)) if n_terms else np.zeros((0, 0)), strengths.copy()
    is_left, path = np.ones(n_terms, dtype=bool), {n_terms: strengths}
    never = np.isin(np.arange(n_terms), list(must_stay))
    for size in range(n_terms - 1, min(sizes) - 1, -1):
        with np.errstate(divide="ignore", invalid="ignore"):
            cost = np.where(s > 0, s**2 / np.diag(inverse), -1.0)
        cost[~is_left | never] = np.inf
        term = int(cost.argmin())
        column = inverse[:, term] / inverse[term, term]
        s -= column * s[term]
        inverse -= np.outer(column, inverse[term])
        is_left[term] = False
        s[~is_left], inverse[term], inverse[:, term] = 0.0, 0.0, 0.0
        path[size] = np.maximum(s, 0.0)
    return np.array([path[size] for size in sizes]).reshape(len(sizes), n_terms)


def _best_constant(held: HeldOut, score: Floats) -> Floats:
    """Return what to add to all scores for the smallest loss, by Newton's method."""
    constant = np.zeros(score.shape[1])
    if not held.has_constant:
        return constant
    smoothed, columns = with_derivatives(held), _constant_columns(len(score), score.shape[1])
    for _ in range(_NEWTON_STEPS):
        slopes = smoothed.gradient(score + constant).sum(axis=0)
        hessian = smoothed.second_derivative_times(score + constant, columns).sum(axis=1)
        move = np.clip(-np.linalg.pinv(hessian) @ slopes, -1.0, 1.0) if hessian.any() else np.zeros_like(slopes)
        constant = constant + move
        if np.abs(move).max() < _CONVERGED:
            break
    return constant


# The path, judged on rows that no model of it was fitted to.


class Judgement(NamedTuple):
    """Losses of all sizes on held-out folds; differences to the smallest loss, and their standard errors.

    `is_good`: at most one standard error above the smallest loss of the sizes that may be chosen.
    """

    loss: Floats
    difference: Floats
    error: Floats
    is_good: Bools


def judge(problem: Problem, sizes: Sequence[int], folds: Ints, is_allowed: Bools, progress: Progress) -> Judgement:
    """Judge models of all sizes by cross-validation: each fold is scored by models that are fitted to the others."""
    scores = np.empty((len(sizes), problem.n_rows, len(problem.intercept)))
    numbers = np.unique(folds)
    for fold in counted(progress, "folds", numbers, len(numbers)):
        inside = folds == fold
        fit = fit_path(problem.at(~inside), sizes)
        scores[:, inside] = problem.at(inside).scores(fit)
    return _compared(problem, scores, is_allowed)


def _compared(problem: Problem, scores: Floats, is_allowed: Bools) -> Judgement:
    """Compare the scores of all sizes with the best of all, and with the best of those that may be chosen."""
    losses = np.array([problem.held_out(score).mean_loss(score) for score in scores])
    best, best_allowed = int(losses.argmin()), int(np.where(is_allowed, losses, np.inf).argmin())
    difference, error = _differences(problem, scores, best)
    excess, excess_error = (difference, error) if best == best_allowed else _differences(problem, scores, best_allowed)
    return Judgement(losses, difference, error, excess <= excess_error)


def _differences(problem: Problem, scores: Floats, place: int) -> Floats:
    """Return the losses of all scores minus that of one, given by its place, and the standard errors."""
    held = problem.held_out(scores[place])
    return np.array([held.loss_change(score) for score in scores]).T


def folds_of(n_rows: int, n_folds: int, group: npt.NDArray[Any] | None, seed: int) -> Ints:
    """Return a fold for each row; rows of a group share theirs."""
    places = np.arange(n_rows)
    if group is not None:
        places = np.unique(group.astype(str) if group.dtype == object else group, return_inverse=True)[1].ravel()
    n_units = int(places.max()) + 1
    if n_units < n_folds:
        raise ValueError(f"`cv` must be at most the number of groups, {n_units}, got {n_folds}; choose a lower one.")
    return np.asarray(np.random.default_rng(seed).permutation(n_units)[places] % n_folds)
