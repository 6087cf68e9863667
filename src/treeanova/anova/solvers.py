"""Three ways to take out of a tensor all that fewer axes can say, for weights whose every bin has mass.

Each solver returns a `Solution` with the faces to take out, so that values are pure wherever there is mass:

- `solve_direct`: pairs, by elimination and a Cholesky factor, or by `star_mesh` where that is not accurate;
- `solve_cg`: any order, by preconditioned conjugate gradients, values being made pure in place;
- `move_mass`: any order, the paper's Algorithm 1, also in place.

All minimise sum(w (T - sum_i g_i)²) over faces g_i. What the weights leave open is settled in `convention`.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import scipy.linalg
import scipy.sparse

from treeanova.anova.slices import (
    add_faces,
    largest,
    safe_inverse,
    slice_means,
    slice_sums,
    spread,
    take_out,
    zero_faces,
)
from treeanova.anova.star_mesh import MOST_BINS, star_mesh_faces
from treeanova.anova.support import bin_components, maximal_correlation, normalise
from treeanova.core.arrays import Faces, Floats

CG_TOLERANCE = 1e-12
_CG_ROUNDS = 4
_WEAKEST = 1e-4
_POLISHING_SWEEPS = 50
_PURE_ENOUGH = 1e-13
_EPSILON = float(np.finfo(float).eps)
_ACCURATE = 1e-12


@dataclasses.dataclass(frozen=True)
class Solution:
    """Faces taken out, and how it went.

    `error` bounds the error of the values left, relative to the largest score, where the solver knows more than slice
    means and the correlation tell; `method` names the way taken where there are several.
    """

    faces: Faces
    iterations: int
    correlation: float
    trace: Floats | None = None
    error: float | None = None
    method: str | None = None


def solve_direct(scores: Floats, weights: Floats) -> Solution:
    """Faces that make pairs pure, by one linear system over the bins of the shorter axis.

    With row masses r and column masses c, eliminating the rows leaves the graph Laplacian
    L = diag(c) - Wᵀ diag(1/r) W over the columns; L b = column sums of W∘(T - row means) gives the column face b.
    Where weights are so uneven that the factor of L loses digits, star-mesh elimination takes over.
    """
    if weights.shape[0] < weights.shape[1]:
        return _flip(solve_direct(scores.swapaxes(1, 2), weights.T))
    correlation = maximal_correlation(weights)
    error = _EPSILON / max(1.0 - correlation**2, _EPSILON)
    has_few_bins = weights.shape[1] <= MOST_BINS
    if error <= _ACCURATE or not has_few_bins:
        values, faces = scores.copy(), zero_faces(scores)
        error = max(error, _eliminate(values, weights, faces))
        if error <= _ACCURATE or (error < 1.0 and not has_few_bins):
            return Solution(faces, 1, correlation, error=error)
        del values
    if not has_few_bins:
        return solve_cg(scores.copy(), weights)
    faces = star_mesh_faces(scores, weights)
    return Solution(faces, 1, correlation, error=sum(weights.shape) * _EPSILON, method="star-mesh")


def _eliminate(values: Floats, weights: Floats, faces: Faces) -> float:
    """Move row and column effects of a pair, which has at least as many rows as columns, to its faces; in place.

    Returns the largest change of the second pass, which is the error of the first, relative to the largest score; 1
    where there is no factor.
    """
    inverse_scales = safe_inverse(largest(values))
    tied = _heaviest_columns(weights)
    try:
        factor, root = _laplacian_factor(weights, tied)
    except scipy.linalg.LinAlgError:
        return 1.0
    change = np.zeros(len(values))
    for _ in range(2):  # the second pass refines: purification is linear and idempotent
        _move(values, weights, 1, faces)
        sums = slice_sums(values, weights, 0) / root
        sums[:, tied] = 0.0
        column = scipy.linalg.cho_solve((factor, True), sums.T, check_finite=False).T / root
        faces[0] += column
        values -= spread(column, 0)
        change = largest(column) * inverse_scales
    _move(values, weights, 1, faces)
    return float(change.max(initial=0.0))


def _flip(solution: Solution) -> Solution:
    return dataclasses.replace(solution, faces=solution.faces[::-1])


def _heaviest_columns(weights: Floats) -> npt.NDArray[np.int64]:
    """The heaviest column of each component of the support."""
    number, (_, labels) = bin_components(weights)
    by_mass = np.lexsort((weights.sum(axis=0), labels))
    return by_mass[np.searchsorted(labels[by_mass], np.arange(number), side="right") - 1]


def _laplacian_factor(weights: Floats, tied: npt.NDArray[np.int64]) -> tuple[Floats, Floats]:
    """Cholesky factor of diag(c)^(-1/2) L diag(c)^(-1/2) = 1 - NᵀN, with one bin of each component tied to zero; √c.

    The diagonal is summed from the other entries, which have one sign: no cancellation, so weak ties between parts of
    the support keep their digits. Tied bins remove the null space, one constant per component.
    """
    matrix, _, root = normalise(weights)
    laplacian = matrix.T @ matrix
    if scipy.sparse.issparse(laplacian):
        laplacian = laplacian.toarray()
    np.fill_diagonal(laplacian, 0.0)
    diagonal = (laplacian @ root) / root
    np.negative(laplacian, out=laplacian)
    np.fill_diagonal(laplacian, diagonal)
    laplacian[tied] = 0.0
    laplacian[:, tied] = 0.0
    laplacian[tied, tied] = 1.0
    del matrix
    # The transpose is the same matrix in the memory order that LAPACK overwrites without a copy.
    factor: Floats = scipy.linalg.cholesky(laplacian.T, lower=True, overwrite_a=True, check_finite=False)
    return factor, root


def _move(values: Floats, weights: Floats, axis: int, faces: Faces) -> Floats:
    """Move the means of all slices along an axis from values to its face; returns the means."""
    means = slice_means(values, weights, axis)
    faces[axis] += means
    values -= spread(means, axis)
    return means


def solve_cg(values: Floats, weights: Floats, max_iterations: int = 10_000) -> Solution:
    """Make values of any order pure by conjugate gradients on the normal equations.

    Pairs: on the Laplacian of `solve_direct`. Higher orders: on all faces, each scaled by the roots of its slices'
    masses. Sweeps of mass moving before each round carry the bulk, show how pure the values are, and serve slices of
    next to no mass, which the norm of conjugate gradients does not see.
    """
    if weights.ndim == 2 and weights.shape[0] < weights.shape[1]:
        return _flip(solve_cg(values.swapaxes(1, 2), weights.T, max_iterations))
    system = PairSystem(weights) if weights.ndim == 2 else FaceSystem(weights)
    means = functools.partial(slice_means, weights=weights)
    faces = zero_faces(values)
    iterations, smallest = 0, 1.0
    for output, scale in enumerate(largest(values)):
        part, taken = values[output : output + 1], [face[output : output + 1] for face in faces]
        steps, ritz = _rounds(part, taken, system, means, scale, max_iterations)
        iterations, smallest = max(iterations, steps), min(smallest, ritz)
    correlation = maximal_correlation(weights) if weights.ndim == 2 else 1.0 - smallest
    return Solution(faces, iterations, correlation)


def _rounds(  # noqa: PLR0917
    part: Floats, taken: Faces, system: System, means: MeansAlong, scale: float, max_iterations: int
) -> tuple[int, float]:
    """Conjugate gradients on one output, repeated on what rounding left; iterations and smallest Ritz value.

    The residual is driven down until the error in the weakest direction met is within the tolerance.
    """
    spent, smallest = 0, 1.0
    for _ in range(_CG_ROUNDS):
        moved = sweep(part, taken, means)
        rhs = system.gather(part)
        goal = CG_TOLERANCE * scale * max(smallest, _WEAKEST)
        if np.linalg.norm(rhs) <= goal or spent >= max_iterations:
            if moved > _PURE_ENOUGH * scale:
                polish(part, taken, means, scale)
            break
        solution, steps, ritz = conjugate_gradients(system.apply, rhs, goal, max_iterations - spent)
        spent, smallest = spent + steps, min(smallest, ritz)
        more = system.faces(solution)
        take_out(part, more)
        add_faces(taken, more)
    return spent, smallest


def sweep(values: Floats, faces: Faces, means_along: MeansAlong) -> float:
    """Move the means of all slices of all axes in turn to the faces, in place; the largest one moved."""
    moved = 0.0
    for axis, face in enumerate(faces):
        means = means_along(values, axis=axis)
        face += means
        values -= spread(means, axis)
        moved = max(moved, float(largest(means).max()))
    return moved


def polish(values: Floats, faces: Faces, means_along: MeansAlong, scale: float) -> None:
    """Sweeps until slice means are at rounding level or no longer shrink; in place."""
    before = np.inf
    for _ in range(_POLISHING_SWEEPS):
        moved = sweep(values, faces, means_along)
        if moved <= _PURE_ENOUGH * scale or moved > 0.7 * before:
            return
        before = moved


class PairSystem:
    """The scaled Laplacian 1 - NᵀN of a pair, W sparse or dense."""

    def __init__(self, weights: Floats) -> None:
        self._weights = weights
        self._matrix, self._row_root, self._root = normalise(weights)

    def gather(self, values: Floats) -> Floats:
        """Right-hand side: scaled column sums of values whose row means are zero."""
        rows = slice_means(values, self._weights, 1)
        sums: Floats = slice_sums(values - spread(rows, 1), self._weights, 0)[0] / self._root
        return sums

    def apply(self, vector: Floats) -> Floats:
        """The matrix times a vector."""
        image: Floats = vector - self._matrix.T @ (self._matrix @ vector)
        return image

    def faces(self, vector: Floats) -> Faces:
        """Faces of a solution: that of the columns, and what it leaves to the rows."""
        return [(vector / self._root)[None], -(self._matrix @ vector / self._row_root)[None]]


class FaceSystem:
    """All faces of a tensor in one vector, scaled by the roots of the slices' masses."""

    def __init__(self, weights: Floats) -> None:
        self._weights = weights
        self._shapes = [weights.shape[:axis] + weights.shape[axis + 1 :] for axis in range(weights.ndim)]
        self._ends = np.cumsum([np.prod(shape) for shape in self._shapes])[:-1]
        masses = np.concatenate([weights.sum(axis).ravel() for axis in range(weights.ndim)])
        self._inverse_root = np.sqrt(safe_inverse(masses))
        self._cells = np.empty((1, *weights.shape))

    def gather(self, values: Floats) -> Floats:
        """Right-hand side: scaled slice sums."""
        sums = [slice_sums(values, self._weights, axis).ravel() for axis in range(self._weights.ndim)]
        return np.concatenate(sums) * self._inverse_root

    def apply(self, vector: Floats) -> Floats:
        """The matrix times a vector."""
        faces = self.faces(vector)
        np.add(spread(faces[0], 0), spread(faces[1], 1), out=self._cells)
        for axis in range(2, len(faces)):
            self._cells += spread(faces[axis], axis)
        return self.gather(self._cells)

    def faces(self, vector: Floats) -> Faces:
        """Faces of a solution."""
        parts = np.split(vector * self._inverse_root, self._ends)
        return [part.reshape(1, *shape) for part, shape in zip(parts, self._shapes, strict=True)]


System = PairSystem | FaceSystem
MeansAlong = Callable[..., Floats]


def conjugate_gradients(
    apply: Callable[[Floats], Floats], rhs: Floats, tolerance: float, max_iterations: int
) -> tuple[Floats, int, float]:
    """Solution of a singular but consistent system, steps taken, and the smallest Ritz value (of the Lanczos process).

    Written here because `scipy.sparse.linalg.cg` keeps its coefficients to itself, and they give the smallest
    eigenvalue that matters for free.
    """
    solution, residual, direction = np.zeros_like(rhs), rhs.copy(), rhs.copy()
    square = _dot(residual, residual)
    steps: list[tuple[float, float]] = []
    while square > tolerance**2 and len(steps) < max_iterations:
        image = apply(direction)
        curvature = _dot(direction, image)
        if curvature <= 0.0:
            break
        alpha = square / curvature
        solution += alpha * direction
        residual -= alpha * image
        before, square = square, _dot(residual, residual)
        direction *= square / before
        direction += residual
        steps.append((alpha, square / before))
    return solution, len(steps), _smallest_ritz(steps)


def _dot(first: Floats, second: Floats) -> float:
    """Inner product without BLAS, whose threads cost more than they give on vectors of this length."""
    return float(np.einsum("i,i->", first, second))


def _smallest_ritz(steps: list[tuple[float, float]]) -> float:
    if not steps:
        return 1.0
    alpha, beta = np.array(steps).T
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    value = scipy.linalg.eigvalsh_tridiagonal(
        diagonal, np.sqrt(beta[:-1]) / alpha[:-1], select="i", select_range=(0, 0)
    )
    return float(np.clip(value[0], 0.0, 1.0))


def move_mass(values: Floats, weights: Floats, tol: float, max_sweeps: int) -> Solution:
    """Make values pure by the paper's Algorithm 1: sweeps over the axes, each moving all slice means of one.

    The trace holds M^t, the unpurified mass sum over slices |sum w T|, before the first pass and after each pass over
    an axis; shape (n_passes + 1, n_outputs). Sweeps end when none moved more than tol times the largest score.
    """
    faces, scales = zero_faces(values), largest(values)
    trace = [unpurified_mass(values, weights)]
    for _ in range(max_sweeps):
        moved = np.zeros(len(values))
        for axis in range(weights.ndim):
            moved = np.maximum(moved, largest(_move(values, weights, axis, faces)))
            trace.append(unpurified_mass(values, weights))
        if (moved <= tol * scales).all():
            break
    passes = np.array(trace)
    return Solution(faces, (len(trace) - 1) // weights.ndim, _rate(weights, passes), passes)


def unpurified_mass(values: Floats, weights: Floats) -> Floats:
    """M of the paper: sum over all slices of all axes of |sum w T|, per output."""
    sums = [
        np.abs(slice_sums(values, weights, axis)).reshape(len(values), -1).sum(axis=1) for axis in range(weights.ndim)
    ]
    total: Floats = np.sum(sums, axis=0)
    return total


def _rate(weights: Floats, trace: Floats) -> float:
    """Maximal correlation: exact for pairs, from the decay per sweep above."""
    order = weights.ndim
    if order <= 2:
        return maximal_correlation(weights) if order == 2 else 0.0
    ends = trace[::order].max(axis=1)
    usable = ends[ends > 1e-12 * ends[0]]
    return float(np.sqrt(min(usable[-1] / usable[-2], 1.0))) if len(usable) > 1 else 0.0
