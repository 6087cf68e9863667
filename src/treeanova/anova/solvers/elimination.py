"""Small tensors of any order under any weights: exact elimination over the heaviest cells.

Let L be the functions of fewer axes, r its dimension. Go through the cells from the heaviest to the lightest and keep
each cell whose value the cells kept before do not yet determine for functions of L. These r basis cells B determine all
of L, and the value at another cell n is F(n) = Σ_b M(n, b) F(b). M holds small rational numbers that depend only on the
order of the cells. As in a heaviest spanning tree, M(n, b) ≠ 0 only if w(b) ≥ w(n).

With e = F - T on the basis cells and H(n) = T(n) - Σ_b M(n, b) T(b), least squares asks for

    e(b) + Σ_n M(n, b) w(n)/w(b) Σ_c M(n, c) e(c) = Σ_n M(n, b) w(n)/w(b) H(n).

Only ratios w(n)/w(b) ≤ 1 enter, so no weight is too small to keep its digits; taken from the heaviest cell down, the
pivots of this system are at least 1. By the convention (`support`), cells without mass have weights of lower rank: ε^k
times products of marginals, and a ratio between ranks is zero. So one system also determines what the weights leave
undetermined.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeanova.anova.solvers.base import EPSILON, Options, Solution, Solver, with_probe, without_probe
from treeanova.anova.support import face_correlation, marginals, slice_indicators, sweep_product
from treeanova.core.arrays import Faces, Floats, Ints

FEW_CELLS = 256  # always eliminated: as fast as conjugate gradients
_MAX_STEPS = 5e8  # about a second
_ZERO = 1e-9  # entries of M are fractions with small denominators


class Elimination(Solver):
    method = "direct"
    name = "elimination"

    def can_solve(self, weights: Floats) -> bool:
        return weights.ndim > 2 and is_affordable(weights.shape)

    def reason(self, sizes: Sequence[int], weights: Floats | None) -> str | None:  # noqa: ARG002 - any weights will do
        if len(sizes) > 2 and math.prod(sizes) <= FEW_CELLS:
            return f"order {len(sizes)} with at most {FEW_CELLS} cells"
        return None

    def solve(self, term: Floats, weights: Floats, options: Options) -> Solution:  # noqa: ARG002 - needs none
        faces, residual = without_probe(eliminated_faces(with_probe(term), weights), weights.shape)
        error = max(residual, 8 * weights.size * EPSILON)
        return Solution(faces, self.name, 1, face_correlation(weights), error=error)


def is_affordable(shape: tuple[int, ...]) -> bool:
    """Whether elimination takes about a second at most."""
    return _dimension(shape) ** 2 * math.prod(shape) <= _MAX_STEPS


def _dimension(shape: tuple[int, ...]) -> int:
    return math.prod(shape) - math.prod(size - 1 for size in shape)


def eliminated_faces(values: Floats, weights: Floats) -> Faces:
    """Return faces that make values pure, by the convention for cells without mass."""
    ranks, logs = graded_weights(weights)
    heaviest_first = np.lexsort((-logs, ranks))
    cells = values.reshape(len(values), -1)[:, heaviest_first]
    fitted = np.empty_like(cells)
    fitted[:, heaviest_first] = _fit(cells, weights.shape, heaviest_first, ranks, logs)
    uniform = [np.ones(size) for size in weights.shape]
    return sweep_product(fitted.reshape(values.shape), uniform)


def graded_weights(weights: Floats) -> tuple[Ints, Floats]:
    """Return ranks and log weights of the flat cells; rank 0 with mass, else 1 plus the number of unseen bins."""
    ranks, logs = np.zeros(weights.shape, dtype=np.int64), np.zeros(weights.shape)
    for axis, masses in enumerate(marginals(weights)):
        along = [-1 if i == axis else 1 for i in range(weights.ndim)]
        seen = masses > 0
        ranks += (~seen).astype(np.int64).reshape(along)
        logs += np.log(masses, out=np.full(len(masses), -math.log(len(masses))), where=seen).reshape(along)
    has_mass = weights > 0
    np.log(weights, out=logs, where=has_mass)
    return np.where(has_mass, 0, 1 + ranks).ravel(), logs.ravel()


def _fit(cells: Floats, shape: tuple[int, ...], heaviest_first: Ints, ranks: Ints, logs: Floats) -> Floats:
    """Return the function of fewer axes nearest to values of cells, all in the order of the cells."""
    basis, matrix = _basis_cells(shape, heaviest_first)
    outside = np.setdiff1d(np.arange(cells.shape[1]), basis)
    ranks, logs = ranks[heaviest_first], logs[heaviest_first]
    is_comparable = (ranks[outside][:, None] == ranks[basis]) & (matrix != 0)
    ratios = np.exp(logs[outside][:, None] - logs[basis], out=np.zeros_like(matrix), where=is_comparable)
    weighted = matrix * ratios
    left = cells[:, outside] - cells[:, basis] @ matrix.T
    system = weighted.T @ matrix
    system[np.diag_indices_from(system)] += 1.0
    change = _solve_downwards(system, (left @ weighted).T).T
    fitted = np.empty_like(cells)
    fitted[:, basis] = cells[:, basis] + change
    fitted[:, outside] = fitted[:, basis] @ matrix.T
    return fitted


def _basis_cells(shape: tuple[int, ...], heaviest_first: Ints) -> tuple[Ints, Floats]:
    """Return the places of the basis cells among the sorted ones, and M.

    Row operations bring the indicators of all slices, one row each, to the form (1 | Mᵀ) on basis and other cells.
    """
    table = slice_indicators(shape)[:, heaviest_first]
    basis: list[int] = []
    place = -1
    while len(basis) < _dimension(shape):
        place += 1
        done = len(basis)
        pivot = done + int(np.abs(table[done:, place]).argmax())
        if abs(table[pivot, place]) <= _ZERO:
            continue
        table[[done, pivot]] = table[[pivot, done]]
        table[done] /= table[done, place]
        factors = table[:, place].copy()
        factors[done] = 0.0
        touched = np.flatnonzero(np.abs(factors) > _ZERO)
        table[touched] -= np.multiply.outer(factors[touched], table[done])
        basis.append(place)
    outside = np.setdiff1d(np.arange(table.shape[1]), basis)
    matrix = np.ascontiguousarray(table[: len(basis), outside].T)
    matrix[np.abs(matrix) <= _ZERO] = 0.0
    return np.array(basis, dtype=np.int64), matrix


def _solve_downwards(system: Floats, right: Floats) -> Floats:
    """Solve in place without pivoting; the order of the unknowns keeps it accurate."""
    size = len(system)
    for k in range(size - 1):
        factors = system[k + 1 :, k] / system[k, k]
        system[k + 1 :, k + 1 :] -= np.multiply.outer(factors, system[k, k + 1 :])
        right[k + 1 :] -= np.multiply.outer(factors, right[k])
    for k in range(size - 1, -1, -1):
        right[k] -= system[k, k + 1 :] @ right[k + 1 :]
        right[k] /= system[k, k]
    return right
