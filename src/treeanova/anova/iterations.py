"""Iterative methods that several solvers share: conjugate gradients, and sweeps of slice means."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy.linalg

from treeanova.anova.slices import largest, spread
from treeanova.core.arrays import Faces, Floats, Ints

MeansAlong = Callable[..., Floats]
"""Means of all slices of values along the axis given as `axis`."""

PURE_ENOUGH = 1e-13  # slice means relative to the largest score
_POLISHING_SWEEPS = 50
_SLOW = 0.7  # a sweep that leaves more than this share of the slice means is the last one


def conjugate_gradients(
    apply: Callable[[Floats], Floats], rhs: Floats, tolerance: float, max_iterations: int
) -> tuple[Floats, int, float]:
    """Solution of a singular but consistent system, steps taken, and the smallest Ritz value (of the Lanczos process).

    Written here because `scipy.sparse.linalg.cg` does not return its coefficients, from which the smallest relevant
    eigenvalue follows at no cost.
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
    return solution, len(steps), _smallest_ritz_value(steps)


def conjugate_gradients_of_blocks(
    apply: Callable[[Floats], Floats], rhs: Floats, lengths: Ints, tolerances: Floats, max_iterations: int
) -> Floats:
    """Solutions of systems that do not touch each other, whose unknowns follow one another; shape (n, n_outputs).

    Each block and output stops when its residual is its tolerance times what it was at the start.
    """
    starts = np.cumsum([0, *lengths[:-1]])
    solution, residual, direction = np.zeros_like(rhs), rhs.copy(), rhs.copy()
    square = np.add.reduceat(residual * residual, starts)
    goal = square * tolerances[:, None] ** 2
    goes_on = square > goal
    for _ in range(max_iterations):
        if not goes_on.any():
            break
        image = apply(direction)
        curvature = np.add.reduceat(direction * image, starts)
        goes_on &= curvature > 0
        alpha = np.repeat(np.divide(square, curvature, out=np.zeros_like(square), where=goes_on), lengths, axis=0)
        solution += alpha * direction
        residual -= alpha * image
        before, square = square, np.add.reduceat(residual * residual, starts)
        direction *= np.repeat(np.divide(square, before, out=np.zeros_like(square), where=goes_on), lengths, axis=0)
        direction += residual
        goes_on &= square > goal
    return solution


def _dot(first: Floats, second: Floats) -> float:
    """Inner product without BLAS, whose threads cost more than they save on vectors of this length."""
    return float(np.einsum("i,i->", first, second))


def _smallest_ritz_value(steps: list[tuple[float, float]]) -> float:
    if not steps:
        return 1.0
    alpha, beta = np.array(steps).T
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    value = scipy.linalg.eigvalsh_tridiagonal(
        diagonal, np.sqrt(beta[:-1]) / alpha[:-1], select="i", select_range=(0, 0)
    )
    return float(np.clip(value[0], 0.0, 1.0))


def sweep(values: Floats, faces: Faces, means_along: MeansAlong) -> float:
    """Move the means of all slices to the faces, axis by axis, in place; returns the largest absolute mean."""
    moved = 0.0
    for axis, face in enumerate(faces):
        means = means_along(values, axis=axis)
        face += means
        values -= spread(means, axis)
        moved = max(moved, float(largest(means).max()))
    return moved


def polish(values: Floats, faces: Faces, means_along: MeansAlong, scale: float) -> None:
    """Sweep until slice means are at rounding level, or shrink no further; in place."""
    before = np.inf
    for _ in range(_POLISHING_SWEEPS):
        moved = sweep(values, faces, means_along)
        if moved <= PURE_ENOUGH * scale or moved > _SLOW * before:
            return
        before = moved
