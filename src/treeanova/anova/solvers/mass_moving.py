"""Any order by the paper's Algorithm 1: sweeps over the axes, each moving all slice means of one."""

from __future__ import annotations

import numpy as np

from treeanova.anova.slices import largest, move_means, slice_sums, zero_faces
from treeanova.anova.solvers.base import Options, SeenBinsSolver, Solution
from treeanova.anova.support import maximal_correlation
from treeanova.core.arrays import Floats

_LEAST_OF_TRACE = 1e-12  # of its start: below, rounding decides


class MassMoving(SeenBinsSolver):
    """Sweeps until none moves more than the tolerance times the largest score; never chosen by "auto".

    The trace holds M^t, the unpurified mass sum over slices |sum w T|, before the first pass and after each pass over
    an axis; shape (n_passes + 1, n_outputs).
    """

    method = name = "mass-moving"
    remedy = 'a sweep removes little at such a correlation: use method="auto", or raise max_iterations'

    def can_solve(self, weights: Floats) -> bool:
        """Any weights."""
        del weights
        return True

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:
        """The sum of all slice means that were moved."""
        values, faces, scales = term.copy(), zero_faces(term), largest(term)
        masses = [unpurified_mass(values, weights)]
        for _ in range(options.max_iterations):
            moved = np.zeros(len(values))
            for axis in range(weights.ndim):
                moved = np.maximum(moved, largest(move_means(values, weights, axis, faces)))
                masses.append(unpurified_mass(values, weights))
            if (moved <= options.tol * scales).all():
                break
        n_sweeps, trace = (len(masses) - 1) // weights.ndim, np.array(masses)
        return Solution(faces, self.name, n_sweeps, _correlation(weights, trace), trace=trace)


def unpurified_mass(values: Floats, weights: Floats) -> Floats:
    """M of the paper: sum over all slices of all axes of |sum w T|, per output."""
    sums = [
        np.abs(slice_sums(values, weights, axis)).reshape(len(values), -1).sum(axis=1) for axis in range(weights.ndim)
    ]
    total: Floats = np.sum(sums, axis=0)
    return total


def _correlation(weights: Floats, trace: Floats) -> float:
    """Maximal correlation: exact for pairs, from the decay per sweep above."""
    order = weights.ndim
    if order <= 2:
        return maximal_correlation(weights) if order == 2 else 0.0
    ends = trace[::order].max(axis=1)
    usable = ends[ends > _LEAST_OF_TRACE * ends[0]]
    return float(np.sqrt(min(usable[-1] / usable[-2], 1.0))) if len(usable) > 1 else 0.0
