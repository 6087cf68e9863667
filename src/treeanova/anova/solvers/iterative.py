"""Solvers that iterate: conjugate gradients for any order, and mass moving; and one sweep for product weights.

Conjugate gradients solve the normal equations of min Σ w (T - Σ_i g_i)² over projections g_i. Pairs: on the scaled
Laplacian of `direct`. Higher orders: on all projections, each scaled by the roots of its slices' masses. Sweeps of
slice means before each round move most of the mass, show how pure the values are, and serve slices of almost no mass,
to which the norm of conjugate gradients is blind.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence

import numpy as np

from treeanova.anova import support
from treeanova.anova.solvers.base import AUTO, Options, SeenBinsSolver, Solution, Solver, with_probe, without_probe
from treeanova.anova.solvers.direct import FEW_CELLS, MAX_BINS, Elimination
from treeanova.core.arrays import Floats, Projections

_TOLERANCE = 1e-12  # of the residual, relative to the largest score
_ROUNDS = 4
_WEAKEST = 1e-4  # eigenvalue that tightens the tolerance
_ACCURATE = 1e-11  # what is left of the probe
_SAFETY = 10.0  # between what is left of one random probe and the error of any other function


class ConjugateGradients(SeenBinsSolver):
    """Any order and number of bins; a probe measures the error. With "auto", elimination replaces it if inaccurate."""

    method = name = "cg"
    _exact = Elimination()

    def can_solve(self, weights: Floats) -> bool:
        del weights
        return True

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:  # noqa: ARG002 - for "auto", by size
        if len(sizes) == 2:
            return f"a pair whose shorter axis has {min(sizes):,} bins, over {MAX_BINS:,}"
        return f"order {len(sizes)} with over {FEW_CELLS} cells: a factor would be too large"

    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """Return what to take out of a term, with the error that a probe, solved along with it, shows."""
        if weights.ndim == 1:
            return super().solve(term, weights, options)
        solution = super().solve(with_probe(term), weights, options)
        projections, error = without_probe(solution.projections, weights.shape)
        if error > _ACCURATE and options.method == AUTO and self._exact.can_solve(weights):
            return self._exact.solve(term, weights, options)
        return dataclasses.replace(solution, projections=projections, error=_SAFETY * error)

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:
        return self._solve_in_place(term.copy(), weights, options)

    def _solve_in_place(self, values: Floats, weights: Floats, options: Options) -> Solution:
        """Make values pure in place and return what was taken out; a pair has at least as many rows as columns."""
        if weights.ndim == 2 and weights.shape[0] < weights.shape[1]:
            return self._solve_in_place(values.swapaxes(1, 2), weights.T, options).flipped()
        projections = support.zero_projections(values)
        system = _PairSystem(weights) if weights.ndim == 2 else _TensorSystem(weights)
        n_iterations, smallest = 0, 1.0  # the smallest eigenvalue met; above pairs, it estimates the correlation
        for output in range(len(values)):
            this_output = slice(output, output + 1)  # a view, which is purified in place
            of_output = [projection[this_output] for projection in projections]
            n_steps, eigenvalue = _purify_output(values[this_output], of_output, system, options.max_iterations)
            n_iterations, smallest = max(n_iterations, n_steps), min(smallest, eigenvalue)
        correlation = support.maximal_correlation(weights) if weights.ndim == 2 else 1.0 - smallest
        return Solution(projections, self.name, n_iterations, correlation)


def _purify_output(
    values: Floats, projections: Projections, system: _PairSystem | _TensorSystem, max_iterations: int
) -> tuple[int, float]:
    """Purify one output in place, in rounds for what rounding left; return the iterations and smallest eigenvalue."""
    means: support.MeansAlong = functools.partial(support.slice_means, weights=system.weights)
    scale = float(support.largest(values)[0])
    n_steps, smallest = 0, 1.0
    for _ in range(_ROUNDS):
        moved = support.sweep(values, projections, means)
        rhs = system.right_side(values)
        goal = _TOLERANCE * scale * max(smallest, _WEAKEST)  # bounds the error in the weakest direction found
        if np.linalg.norm(rhs) <= goal or n_steps >= max_iterations:
            if moved > support.PURE_ENOUGH * scale:
                support.polish(values, projections, means, scale)
            break
        solution, steps = support.conjugate_gradients(system.apply, rhs, goal**2, max_iterations - n_steps)
        n_steps, smallest = n_steps + len(steps), min(smallest, support.smallest_ritz_value(steps))
        removed = system.projections(solution)
        support.take_out(values, removed)
        support.add_projections(projections, removed)
    return n_steps, smallest


class _PairSystem:
    """Normal equations of a pair's column projection: the scaled Laplacian 1 - NᵀN, N = D_r^(-1/2) W D_c^(-1/2)."""

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self._matrix, self._row_root, self._root = support.normalise(weights)

    def right_side(self, values: Floats) -> Floats:  # of the system, for one output
        rows = support.slice_means(values, self.weights, 1)
        return np.asarray(support.slice_sums(values - support.spread(rows, 1), self.weights, 0)[0] / self._root)

    def apply(self, vector: Floats) -> Floats:  # the matrix of the system times a vector
        return np.asarray(vector - self._matrix.T @ (self._matrix @ vector))

    def projections(self, vector: Floats) -> Projections:
        """Return both projections of a solution of the system."""
        return [(vector / self._root)[None], -(self._matrix @ vector / self._row_root)[None]]


class _TensorSystem:
    """Normal equations of all projections of a tensor, in one vector, scaled by the roots of the slices' masses."""

    def __init__(self, weights: Floats) -> None:
        self.weights = weights
        self._shapes = [weights.shape[:axis] + weights.shape[axis + 1 :] for axis in range(weights.ndim)]
        self._ends = np.cumsum([np.prod(shape) for shape in self._shapes])[:-1]
        masses = np.concatenate([weights.sum(axis).ravel() for axis in range(weights.ndim)])
        self._inverse_root = np.sqrt(support.safe_inverse(masses))
        self._cells = np.empty((1, *weights.shape))

    def right_side(self, values: Floats) -> Floats:  # of the system, for one output: scaled sums of all slices
        sums = [support.slice_sums(values, self.weights, axis).ravel() for axis in range(self.weights.ndim)]
        return np.concatenate(sums) * self._inverse_root

    def apply(self, vector: Floats) -> Floats:  # the matrix of the system times a vector, through all cells
        projections = self.projections(vector)
        np.add(support.spread(projections[0], 0), support.spread(projections[1], 1), out=self._cells)
        for axis in range(2, len(projections)):
            self._cells += support.spread(projections[axis], axis)
        return self.right_side(self._cells)

    def projections(self, vector: Floats) -> Projections:
        """Return the projections of a solution of the system."""
        blocks = np.split(vector * self._inverse_root, self._ends)
        return [block.reshape(1, *shape) for block, shape in zip(blocks, self._shapes, strict=True)]


_LEAST_OF_TRACE = 1e-12  # of its start: below, rounding decides


class MassMoving(SeenBinsSolver):
    """Sweeps until none moves more than the tolerance times the largest score; never chosen by "auto"."""

    method = name = "mass-moving"
    remedy = 'a sweep removes little at such a correlation: use method="auto", or raise max_iterations'

    def can_solve(self, weights: Floats) -> bool:
        del weights
        return True

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """Sweep over the axes, moving slice means, until none is above the tolerance; all bins have mass."""
        values, projections, scales = term.copy(), support.zero_projections(term), support.largest(term)
        masses = [unpurified_mass(values, weights)]  # M^t before the first pass and after each pass over an axis
        for _ in range(options.max_iterations):
            moved = np.zeros(len(values))
            for axis in range(weights.ndim):
                moved = np.maximum(moved, support.largest(support.move_means(values, weights, axis, projections)))
                masses.append(unpurified_mass(values, weights))
            if (moved <= options.tol * scales).all():
                break
        n_sweeps, trace = (len(masses) - 1) // weights.ndim, np.array(masses)
        correlation = support.maximal_correlation(weights) if weights.ndim == 2 else 0.0
        ends = trace[:: weights.ndim].max(axis=1)  # above order 2, the decay per sweep tells the correlation
        usable = ends[ends > _LEAST_OF_TRACE * ends[0]]
        if weights.ndim > 2 and len(usable) > 1:
            correlation = float(np.sqrt(min(usable[-1] / usable[-2], 1.0)))
        return Solution(projections, self.name, n_sweeps, correlation, trace=trace)


def unpurified_mass(values: Floats, weights: Floats) -> Floats:
    """Return M of the paper, per output: Σ over the slices of all axes of the absolute weighted sum of values."""
    slices = (np.abs(support.slice_sums(values, weights, axis)) for axis in range(weights.ndim))
    return np.asarray(np.sum([sums.reshape(len(values), -1).sum(axis=1) for sums in slices], axis=0))


class Product(Solver):
    """Weights that are a product of marginals: one sweep of slice means is exact."""

    method = name = "direct"

    def can_solve(self, weights: Floats) -> bool:
        return support.is_product(weights)

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:  # why "auto" takes it, None if not
        if len(sizes) == 1:
            return "one axis: its mean is all there is to move"
        if weights is not None and support.is_product(weights):
            return "the weights are a product of marginals: one sweep of means is exact"
        return None

    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:  # noqa: ARG002 - needs none
        projections = support.sweep_product(term.copy(), support.marginals(weights))
        return Solution(projections, self.name, iterations=1, correlation=0.0, error=0.0)
