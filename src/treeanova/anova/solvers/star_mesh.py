"""Pairs under any weights: star-mesh elimination, accurate to rounding however small some weights are.

Purifying a pair is a potential problem on the graph that joins every bin of one axis to every bin of the other: read
the weight w_ij as the conductance of the edge between bins i and j and the score T_ij as its voltage, and look for the
potentials x_i, y_j with Σ_j w_ij (T_ij - x_i - y_j) = Σ_i w_ij (T_ij - x_i - y_j) = 0. Eliminating a bin joins all its
neighbours by new edges, of conductance c_i c_k / Σ c and a voltage that is the difference of the two eliminated ones;
parallel edges are merged, conductances adding up and voltages averaged by conductance. Conductances are sums of
products of positive numbers, voltages weighted averages: nothing is subtracted that is small against what it came
from, so a tie of 1e-290 keeps as many digits as a tie of 1. Cholesky factors lose ties below about 1e-14.
"""

from __future__ import annotations

import numpy as np

from treeanova.anova.solvers.base import EPSILON, Options, SeenBinsSolver, Solution
from treeanova.anova.support import maximal_correlation
from treeanova.core.arrays import Faces, Floats

_MAX_BINS = 1_500  # of the shorter axis: elimination takes about 10 s there


class StarMesh(SeenBinsSolver):
    """Pairs by star-mesh elimination; takes over from `Cholesky`, which is faster, where that is not accurate."""

    method = "direct"
    name = "star-mesh"

    def can_solve(self, weights: Floats) -> bool:
        """Whether the weights are those of a pair whose shorter axis is short enough."""
        return weights.ndim == 2 and min(weights.shape) <= _MAX_BINS

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:  # noqa: ARG002 - needs none
        """The potentials of rows and columns."""
        return self.solution(term, weights, maximal_correlation(weights))

    def solution(self, term: Floats, weights: Floats, correlation: float) -> Solution:
        """The same for callers who know the maximal correlation, which takes time."""
        faces = star_mesh_faces(term, weights)
        return Solution(faces, self.name, 1, correlation, error=sum(weights.shape) * EPSILON)


def star_mesh_faces(values: Floats, weights: Floats) -> Faces:
    """Faces that make a pair pure under weights whose every bin has mass; one bin of each component stays at zero."""
    if weights.shape[0] > weights.shape[1]:
        rows, columns = _potentials(values.swapaxes(1, 2), weights.T)
        return [rows, columns]
    rows, columns = _potentials(values, weights)
    return [columns, rows]


def _potentials(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Potentials of rows and columns, shapes (n_outputs, n_rows) and (n_outputs, n_columns)."""
    shares = weights / weights.sum(axis=0)
    rows = _row_potentials(*_row_network(values, weights, shares))
    columns = np.einsum("ij,kij->kj", shares, values - rows[:, :, None])
    return rows, columns


def _row_network(values: Floats, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Conductances and voltages between rows when all columns are eliminated at once."""
    conductances = shares @ weights.T
    np.fill_diagonal(conductances, 0.0)
    flows = (shares * values) @ weights.T
    flows = flows - flows.swapaxes(1, 2)
    return conductances, np.divide(flows, conductances, out=np.zeros_like(flows), where=conductances > 0)


def _row_potentials(conductances: Floats, voltages: Floats) -> Floats:
    """Potentials of rows, eliminated from the last to the first, in place; voltages[k, i, j] are to be x_i - x_j."""
    n_outputs, n_rows, _ = voltages.shape
    shares = np.zeros((n_rows, n_rows))
    for last in range(n_rows - 1, 0, -1):
        edges, targets = conductances[last, :last], voltages[:, last, :last]
        total = edges.sum()
        if total > 0:
            shares[last, :last] = edges / total
        through = np.multiply.outer(edges, shares[last, :last])
        np.fill_diagonal(through, 0.0)
        merged = conductances[:last, :last]
        merged += through
        share_of_new = np.divide(through, merged, out=through, where=merged > 0)
        rest = voltages[:, :last, :last]
        rest += share_of_new * (targets[:, None, :] - targets[:, :, None] - rest)
    potentials = np.zeros((n_outputs, n_rows))
    for row in range(1, n_rows):
        potentials[:, row] = (potentials[:, :row] + voltages[:, row, :row]) @ shares[row, :row]
    return potentials
