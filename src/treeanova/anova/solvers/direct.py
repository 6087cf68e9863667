"""Direct solvers: elimination for small tensors of any order; Cholesky factors and star-mesh elimination for pairs.

**Elimination over the heaviest cells.** Let L be the functions of fewer axes, r its dimension. Go through the cells
from the heaviest to the lightest and keep each cell whose value the cells kept before do not yet determine for
functions of L. These r basis cells B determine all of L, and the value at another cell n is F(n) = Σ_b M(n, b) F(b). M
holds small rational numbers that depend only on the order of the cells. As in a heaviest spanning tree, M(n, b) ≠ 0
only if w(b) ≥ w(n).

With e = F - T on the basis cells and H(n) = T(n) - Σ_b M(n, b) T(b), least squares asks for

    e(b) + Σ_n M(n, b) w(n)/w(b) Σ_c M(n, c) e(c) = Σ_n M(n, b) w(n)/w(b) H(n).

Only ratios w(n)/w(b) ≤ 1 enter, so no weight is too small to keep its digits; taken from the heaviest cell down, the
pivots of this system are at least 1. By the convention (`support`), cells without mass have weights of lower rank: ε^k
times products of marginals, and a ratio between ranks is zero. So one system also determines what the weights leave
undetermined.

**Pairs.** With row masses r and column masses c, eliminating the rows leaves the graph Laplacian
L = diag(c) - Wᵀ diag(1/r) W over the columns; L b = column sums of W∘(T - row means) gives the column projection b.

Purifying a pair is a potential problem on the graph that joins every bin of one axis to every bin of the other: the
weight w_ij is the conductance of the edge between bins i and j, the score T_ij its voltage, and the potentials x_i, y_j
satisfy Σ_j w_ij (T_ij - x_i - y_j) = Σ_i w_ij (T_ij - x_i - y_j) = 0. Eliminating a bin joins all its neighbours by new
edges, of conductance c_i c_k / Σ c and with the difference of the two eliminated voltages; parallel edges are merged by
adding conductances and averaging voltages by conductance. Conductances are sums of products of positive numbers, and
voltages are weighted averages, so nothing cancels: a tie of 1e-290 keeps as many digits as a tie of 1. Cholesky factors
lose ties below about 1e-14.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import scipy.linalg
import scipy.sparse

from treeanova.anova import support
from treeanova.anova.solvers.base import EPSILON, Options, SeenBinsSolver, Solution, Solver, with_probe, without_probe
from treeanova.core.arrays import Floats, Ints, Projections

FEW_CELLS = 256  # always eliminated: as fast as conjugate gradients
_MAX_STEPS = 5e8  # about a second
_ZERO = 1e-9  # entries of M are fractions with small denominators


class Elimination(Solver):
    """Small tensors of any order, by elimination over the heaviest cells."""

    method = "direct"
    name = "elimination"

    def can_solve(self, weights: Floats) -> bool:
        return weights.ndim > 2 and is_affordable(weights.shape)

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:  # noqa: ARG002 - for "auto", by size
        if len(sizes) > 2 and math.prod(sizes) <= FEW_CELLS:
            return f"order {len(sizes)} with at most {FEW_CELLS} cells"
        return None

    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:  # noqa: ARG002 - needs none
        projections, residual = without_probe(eliminated_projections(with_probe(term), weights), weights.shape)
        error = max(residual, 8 * weights.size * EPSILON)
        return Solution(projections, self.name, 1, support.projection_correlation(weights), error=error)


def is_affordable(shape: tuple[int, ...]) -> bool:
    """Whether elimination of a tensor of this shape takes about a second at most."""
    return _n_basis_cells(shape) ** 2 * math.prod(shape) <= _MAX_STEPS


def _n_basis_cells(shape: tuple[int, ...]) -> int:
    """Return the number of basis cells: the dimension of the sums of functions of fewer axes."""
    return math.prod(shape) - math.prod(size - 1 for size in shape)


def eliminated_projections(values: Floats, weights: Floats) -> Projections:
    """Return projections that make values (outputs first) pure, by the convention for cells without mass."""
    # Fit the nearest sum of functions of fewer axes (module's docstring), then split it into one projection per axis:
    # one sweep under uniform weights takes all of it out.
    ranks, logs = graded_weights(weights)
    heaviest_first = np.lexsort((-logs, ranks))
    cells = values.reshape(len(values), -1)[:, heaviest_first]
    fitted = np.empty_like(cells)
    fitted[:, heaviest_first] = _nearest_sum(cells, weights.shape, heaviest_first, ranks, logs)
    uniform = [np.ones(size) for size in weights.shape]
    return support.sweep_product(fitted.reshape(values.shape), uniform)


def graded_weights(weights: Floats) -> tuple[Ints, Floats]:
    """Return ranks and log weights of the flat cells: a cell weighs nothing against cells of lower rank."""
    # The rank is 0 with mass, else 1 plus the number of the cell's bins without mass.
    ranks, logs = np.zeros(weights.shape, dtype=np.int64), np.zeros(weights.shape)
    for axis, masses in enumerate(support.marginals(weights)):
        along = [-1 if i == axis else 1 for i in range(weights.ndim)]
        seen = masses > 0
        ranks += (~seen).astype(np.int64).reshape(along)
        logs += np.log(masses, out=np.full(len(masses), -math.log(len(masses))), where=seen).reshape(along)
    has_mass = weights > 0
    np.log(weights, out=logs, where=has_mass)
    return np.where(has_mass, 0, 1 + ranks).ravel(), logs.ravel()


def _nearest_sum(cells: Floats, shape: tuple[int, ...], heaviest_first: Ints, ranks: Ints, logs: Floats) -> Floats:
    """Return the sum of functions of fewer axes nearest to values (n_outputs, n_cells), both heaviest cells first."""
    # `ranks` and `logs` are the graded weights; the module's docstring derives this system of the basis cells.
    basis, matrix = _basis_cells(shape, heaviest_first)
    outside = np.setdiff1d(np.arange(cells.shape[1]), basis)
    ranks, logs = ranks[heaviest_first], logs[heaviest_first]
    # Ratios w(n) / w(b) of other cells n and basis cells b: zero between ranks.
    is_comparable = (ranks[outside][:, None] == ranks[basis]) & (matrix != 0)
    ratios = np.exp(logs[outside][:, None] - logs[basis], out=np.zeros_like(matrix), where=is_comparable)
    weighted = matrix * ratios
    unexplained = cells[:, outside] - cells[:, basis] @ matrix.T
    system = weighted.T @ matrix
    system[np.diag_indices_from(system)] += 1.0
    change = _solve_downwards(system, (unexplained @ weighted).T).T
    fitted = np.empty_like(cells)
    fitted[:, basis] = cells[:, basis] + change
    fitted[:, outside] = fitted[:, basis] @ matrix.T
    return fitted


def _basis_cells(shape: tuple[int, ...], heaviest_first: Ints) -> tuple[Ints, Floats]:
    """Return places of cells that determine all functions of fewer axes, and the matrix M from these to the others."""
    # Of cells from the heaviest down, each is taken whose value those before it do not determine (Gauss and Jordan).
    table = support.slice_indicators(shape)[:, heaviest_first]  # row operations bring it to the form (1 | Mᵀ)
    basis: list[int] = []
    place = -1
    while len(basis) < _n_basis_cells(shape):
        place += 1
        row = len(basis)
        pivot = row + int(np.abs(table[row:, place]).argmax())
        if abs(table[pivot, place]) <= _ZERO:
            continue
        table[[row, pivot]] = table[[pivot, row]]
        table[row] /= table[row, place]
        factors = table[:, place].copy()
        factors[row] = 0.0
        changed = np.flatnonzero(np.abs(factors) > _ZERO)
        table[changed] -= np.multiply.outer(factors[changed], table[row])
        basis.append(place)
    outside = np.setdiff1d(np.arange(table.shape[1]), basis)
    matrix = np.ascontiguousarray(table[: len(basis), outside].T)
    matrix[np.abs(matrix) <= _ZERO] = 0.0
    return np.array(basis, dtype=np.int64), matrix


def _solve_downwards(system: Floats, right: Floats) -> Floats:
    """Solve system @ x = right in place without pivoting; heaviest cells first, that is accurate."""
    n_unknowns = len(system)
    for k in range(n_unknowns - 1):
        factors = system[k + 1 :, k] / system[k, k]
        system[k + 1 :, k + 1 :] -= np.multiply.outer(factors, system[k, k + 1 :])
        right[k + 1 :] -= np.multiply.outer(factors, right[k])
    for k in range(n_unknowns - 1, -1, -1):
        right[k] -= system[k, k + 1 :] @ right[k + 1 :]
        right[k] /= system[k, k]
    return right


_MAX_STAR_BINS = 1_500  # of the shorter axis: star-mesh elimination takes about 10 s there


def star_mesh_projections(values: Floats, weights: Floats) -> Projections:
    """Return projections that make a pair (outputs first) pure if every bin has mass, by star-mesh elimination."""
    # One bin of each component stays at zero. The shorter axis is that of the rows. Projection 0 is taken along the
    # rows' axis, so it has a number per column.
    if weights.shape[0] > weights.shape[1]:
        rows, columns = _potentials(values.swapaxes(1, 2), weights.T)
        return [rows, columns]
    rows, columns = _potentials(values, weights)
    return [columns, rows]


def _potentials(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return potentials of rows and columns, (n_outputs, n_bins) each, that purify a pair with few rows."""
    # Potentials are numbers per bin to be taken out; the module's docstring has the graph of which they are potentials.
    shares = weights / weights.sum(axis=0)  # of a column's mass in its rows
    conductances = shares @ weights.T  # between rows, after eliminating all columns
    np.fill_diagonal(conductances, 0.0)
    flows = (shares * values) @ weights.T  # conductance times voltage
    flows = flows - flows.swapaxes(1, 2)
    voltages = np.divide(flows, conductances, out=np.zeros_like(flows), where=conductances > 0)
    rows = _row_potentials(conductances, voltages)
    columns = np.einsum("ij,kij->kj", shares, values - rows[:, :, None])  # means over rows, per output and column
    return rows, columns


def _row_potentials(conductances: Floats, voltages: Floats) -> Floats:
    """Return potentials x, (n_outputs, n_rows), such that x_i - x_j are near voltages[k, i, j], by conductance."""
    # Star-mesh elimination in place, from the last row to the first; the module's docstring explains it.
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
_ACCURATE = 1e-12  # error relative to the largest score


class Cholesky(SeenBinsSolver):
    """Pairs by a Cholesky factor; where uneven weights cost it digits, by star-mesh elimination or `iterative`."""

    method = name = "direct"

    def __init__(self, *, iterative: SeenBinsSolver) -> None:
        self._iterative = iterative

    def can_solve(self, weights: Floats) -> bool:
        return weights.ndim == 2

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:  # noqa: ARG002 - for "auto", by size
        if len(sizes) == 2 and min(sizes) <= MAX_BINS:
            return f"a pair whose shorter axis has {min(sizes):,} bins, at most {MAX_BINS:,}"
        return None

    def solve_seen(self, term: Floats, weights: Floats, options: Options) -> Solution:  # of a pair; all bins have mass
        if weights.shape[0] < weights.shape[1]:
            return self.solve_seen(term.swapaxes(1, 2), weights.T, options).flipped()
        correlation = support.maximal_correlation(weights)
        error = EPSILON / max(1.0 - correlation**2, EPSILON)
        is_short = min(weights.shape) <= _MAX_STAR_BINS
        if error <= _ACCURATE or not is_short:
            projections, change = _cholesky_projections(term, weights)
            error = max(error, change)
            if error <= _ACCURATE or (error < 1.0 and not is_short):
                return Solution(projections, self.name, 1, correlation, error=error)
            del projections
        if is_short:
            projections, error = star_mesh_projections(term, weights), sum(weights.shape) * EPSILON
            return Solution(projections, "star-mesh", 1, correlation, error=error)
        return self._iterative.solve_seen(term, weights, options)


def _cholesky_projections(term: Floats, weights: Floats) -> tuple[Projections, float]:
    """Return the projections of a pair with at least as many rows as columns, and their error; 1 if that fails."""
    values, projections = term.copy(), support.zero_projections(term)
    n_components, (_, labels) = support.bin_components(weights)
    by_mass = np.lexsort((weights.sum(axis=0), labels))  # anchors: the heaviest column of each component
    anchors = by_mass[np.searchsorted(labels[by_mass], np.arange(n_components), side="right") - 1]
    try:
        factor, root = _laplacian_factor(weights, anchors)
    except scipy.linalg.LinAlgError:
        return projections, 1.0
    inverse_scales = support.safe_inverse(support.largest(values))
    change = np.zeros(len(values))
    for _ in range(2):  # the second pass refines: purification is linear and idempotent
        support.move_means(values, weights, 1, projections)
        sums = support.slice_sums(values, weights, 0) / root
        sums[:, anchors] = 0.0
        column = scipy.linalg.cho_solve((factor, True), sums.T, check_finite=False).T / root
        projections[0] += column
        values -= support.spread(column, 0)
        change = support.largest(column) * inverse_scales
    support.move_means(values, weights, 1, projections)
    return projections, float(change.max(initial=0.0))


def _laplacian_factor(weights: Floats, anchors: Ints) -> tuple[Floats, Floats]:
    """Return the Cholesky factor of a pair's scaled Laplacian over its columns, and the roots of column masses."""
    # The matrix is diag(c)^(-1/2) L diag(c)^(-1/2) = 1 - NᵀN with the columns `anchors` fixed at zero.
    # The diagonal is summed from the other entries, which have one sign: no cancellation, so weak ties between parts of
    # the support keep their digits. One anchor per component removes the null space, one constant per component.
    matrix, _, root = support.normalise(weights)
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
