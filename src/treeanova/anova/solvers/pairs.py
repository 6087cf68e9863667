"""Solvers of pairs: a Cholesky factor over the bins of the shorter axis; star-mesh elimination for any weights.

With row masses r and column masses c, eliminating the rows leaves the graph Laplacian
L = diag(c) - Wᵀ diag(1/r) W over the columns; L b = column sums of W∘(T - row means) gives the column face b.

Purifying a pair is a potential problem on the graph that joins every bin of one axis to every bin of the other: the
weight w_ij is the conductance of the edge between bins i and j, the score T_ij its voltage, and the potentials x_i, y_j
satisfy Σ_j w_ij (T_ij - x_i - y_j) = Σ_i w_ij (T_ij - x_i - y_j) = 0. Eliminating a bin joins all its neighbours by new
edges, of conductance c_i c_k / Σ c and with the difference of the two eliminated voltages; parallel edges are merged by
adding conductances and averaging voltages by conductance. Conductances are sums of products of positive numbers, and
voltages are weighted averages, so nothing cancels: a tie of 1e-290 keeps as many digits as a tie of 1. Cholesky factors
lose ties below about 1e-14.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse

from treeanova.anova.solvers.base import EPSILON, Options, SeenBinsSolver, Solution
from treeanova.anova.support import (
    bin_components,
    largest,
    maximal_correlation,
    move_means,
    normalise,
    safe_inverse,
    slice_sums,
    spread,
    zero_faces,
)
from treeanova.core.arrays import Faces, Floats, Ints

_MAX_BINS = 1_500  # of the shorter axis: elimination takes about 10 s there


class StarMesh(SeenBinsSolver):
    """Pairs by star-mesh elimination, where the faster `Cholesky` is not accurate."""

    method = "direct"
    name = "star-mesh"

    def can_solve(self, weights: Floats) -> bool:
        return weights.ndim == 2 and min(weights.shape) <= _MAX_BINS

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:  # noqa: ARG002 - needs none
        return self.solution(term, weights, maximal_correlation(weights))

    def solution(self, term: Floats, weights: Floats, correlation: float) -> Solution:
        faces = star_mesh_faces(term, weights)
        return Solution(faces, self.name, 1, correlation, error=sum(weights.shape) * EPSILON)


def star_mesh_faces(values: Floats, weights: Floats) -> Faces:
    """Return faces that make a pair pure if every bin has mass; one bin of each component stays at zero."""
    if weights.shape[0] > weights.shape[1]:
        rows, columns = _potentials(values.swapaxes(1, 2), weights.T)
        return [rows, columns]
    rows, columns = _potentials(values, weights)
    return [columns, rows]


def _potentials(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    shares = weights / weights.sum(axis=0)
    rows = _row_potentials(*_row_network(values, weights, shares))
    columns = np.einsum("ij,kij->kj", shares, values - rows[:, :, None])
    return rows, columns


def _row_network(values: Floats, weights: Floats, shares: Floats) -> tuple[Floats, Floats]:
    """Return conductances and voltages between rows after eliminating all columns."""
    conductances = shares @ weights.T
    np.fill_diagonal(conductances, 0.0)
    flows = (shares * values) @ weights.T
    flows = flows - flows.swapaxes(1, 2)
    return conductances, np.divide(flows, conductances, out=np.zeros_like(flows), where=conductances > 0)


def _row_potentials(conductances: Floats, voltages: Floats) -> Floats:
    """Eliminate rows from the last to the first, in place; voltages[k, i, j] are to be x_i - x_j."""
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
        remaining = voltages[:, :last, :last]
        remaining += share_of_new * (targets[:, None, :] - targets[:, :, None] - remaining)
    potentials = np.zeros((n_outputs, n_rows))
    for row in range(1, n_rows):
        potentials[:, row] = (potentials[:, :row] + voltages[:, row, :row]) @ shares[row, :row]
    return potentials


MAX_BINS = 3_000  # of the shorter axis
_ACCURATE = 1e-12


class Cholesky(SeenBinsSolver):
    """Pairs by a Cholesky factor; by another solver if the weights are so uneven that the factor loses digits."""

    method = name = "direct"

    def __init__(self, *, exact: StarMesh, iterative: SeenBinsSolver) -> None:
        self._exact = exact
        self._iterative = iterative

    def can_solve(self, weights: Floats) -> bool:
        return weights.ndim == 2

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:  # noqa: ARG002 - any weights will do
        if len(sizes) == 2 and min(sizes) <= MAX_BINS:
            return f"a pair whose shorter axis has {min(sizes):,} bins, at most {MAX_BINS:,}"
        return None

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:
        if weights.shape[0] < weights.shape[1]:
            return self.solve_seen(term.swapaxes(1, 2), weights.T, options).flipped()
        correlation = maximal_correlation(weights)
        error = EPSILON / max(1.0 - correlation**2, EPSILON)
        has_exact = self._exact.can_solve(weights)
        if error <= _ACCURATE or not has_exact:
            faces, change = _eliminate(term, weights)
            error = max(error, change)
            if error <= _ACCURATE or (error < 1.0 and not has_exact):
                return Solution(faces, self.name, 1, correlation, error=error)
            del faces
        if has_exact:
            return self._exact.solution(term, weights, correlation)
        return self._iterative.solve_seen(term, weights, options)


def _eliminate(term: Floats, weights: Floats) -> tuple[Faces, float]:
    """Return the faces of a pair with at least as many rows as columns, and their error.

    The error is the largest change of the second pass relative to the largest score; 1 without a factor.
    """
    values, faces = term.copy(), zero_faces(term)
    anchors = _heaviest_columns(weights)
    try:
        factor, root = _laplacian_factor(weights, anchors)
    except scipy.linalg.LinAlgError:
        return faces, 1.0
    inverse_scales = safe_inverse(largest(values))
    change = np.zeros(len(values))
    for _ in range(2):  # the second pass refines: purification is linear and idempotent
        move_means(values, weights, 1, faces)
        sums = slice_sums(values, weights, 0) / root
        sums[:, anchors] = 0.0
        column = scipy.linalg.cho_solve((factor, True), sums.T, check_finite=False).T / root
        faces[0] += column
        values -= spread(column, 0)
        change = largest(column) * inverse_scales
    move_means(values, weights, 1, faces)
    return faces, float(change.max(initial=0.0))


def _heaviest_columns(weights: Floats) -> Ints:
    n_components, (_, labels) = bin_components(weights)
    by_mass = np.lexsort((weights.sum(axis=0), labels))
    return by_mass[np.searchsorted(labels[by_mass], np.arange(n_components), side="right") - 1]


def _laplacian_factor(weights: Floats, anchors: Ints) -> tuple[Floats, Floats]:
    """Factorise diag(c)^(-1/2) L diag(c)^(-1/2) = 1 - NᵀN with the anchors fixed at zero; also return √c.

    The diagonal is summed from the other entries, which have one sign: no cancellation, so weak ties between parts of
    the support keep their digits. One anchor per component removes the null space, one constant per component.
    """
    matrix, _, root = normalise(weights)
    laplacian = matrix.T @ matrix
    if scipy.sparse.issparse(laplacian):
        laplacian = laplacian.toarray()
    np.fill_diagonal(laplacian, 0.0)
    diagonal = (laplacian @ root) / root
    np.negative(laplacian, out=laplacian)
    np.fill_diagonal(laplacian, diagonal)
    laplacian[anchors] = 0.0
    laplacian[:, anchors] = 0.0
    laplacian[anchors, anchors] = 1.0
    del matrix
    # The transpose is the same matrix in the memory order that LAPACK overwrites without a copy.
    factor: Floats = scipy.linalg.cholesky(laplacian.T, lower=True, overwrite_a=True, check_finite=False)
    return factor, root
