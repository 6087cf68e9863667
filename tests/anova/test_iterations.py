"""Iterative methods against dense linear algebra."""

from __future__ import annotations

import functools

import numpy as np
import pytest
import scipy.linalg

from treeanova.anova.support import (
    conjugate_gradients,
    polish,
    slice_means,
    smallest_ritz_value,
    sweep,
    take_out,
    zero_projections,
)
from treeanova.testing import correlated_weights


def symmetric(eigenvalues, seed=0):
    vectors = np.linalg.qr(np.random.default_rng(seed).normal(size=(len(eigenvalues),) * 2))[0]
    return vectors * eigenvalues @ vectors.T


def solved(apply, right, tolerance, max_iterations):
    """Solution, number of steps and smallest Ritz value."""
    solution, steps = conjugate_gradients(apply, right, tolerance**2, max_iterations)
    return solution, len(steps), smallest_ritz_value(steps)


def test_a_regular_system_is_solved():
    matrix = symmetric(np.linspace(0.2, 1.0, 8))
    right = np.random.default_rng(1).normal(size=8)
    solution, n_steps, ritz_value = solved(lambda v: matrix @ v, right, 1e-13, 100)
    np.testing.assert_allclose(solution, np.linalg.solve(matrix, right), atol=1e-11)
    assert n_steps <= 9
    assert ritz_value == pytest.approx(0.2, abs=1e-9)


def test_of_a_singular_system_the_shortest_solution_is_found():
    matrix = symmetric(np.array([0.0, 0.0, 0.3, 0.5, 0.9, 1.0]))
    right = matrix @ np.random.default_rng(1).normal(size=6)
    solution, _, ritz_value = solved(lambda v: matrix @ v, right, 1e-14, 100)
    np.testing.assert_allclose(solution, np.linalg.pinv(matrix, rcond=1e-10) @ right, atol=1e-11)
    assert ritz_value == pytest.approx(0.3, abs=1e-9)


def test_steps_end_at_the_tolerance_or_the_limit():
    matrix = symmetric(np.geomspace(1e-4, 1.0, 50))
    right = np.random.default_rng(1).normal(size=50)
    solution, n_steps, _ = solved(lambda v: matrix @ v, right, 1e-2, 10_000)
    assert np.linalg.norm(matrix @ solution - right) <= 1e-2 * (1 + 1e-9)
    assert solved(lambda v: matrix @ v, right, 1e-2, n_steps - 1)[1] == n_steps - 1
    assert np.linalg.norm(matrix @ solved(lambda v: matrix @ v, right, 1e-2, n_steps - 1)[0] - right) > 1e-2


def test_systems_side_by_side_are_solved_as_each_alone():
    matrices = [symmetric(np.linspace(0.2, 1.0, 8)), symmetric(np.array([0.3, 0.7, 1.0]))]
    right = np.random.default_rng(1).normal(size=(11, 2))
    goals = np.array([[1e-22, 1e-22], [1e-2, 1e-22]])
    both = scipy.linalg.block_diag(*matrices)
    together, _ = conjugate_gradients(lambda v: both @ v, right, goals, 100, np.array([8, 3]))
    for rows, matrix, goal in zip((slice(8), slice(8, 11)), matrices, goals, strict=True):
        for output in range(2):
            alone, _ = conjugate_gradients(matrix.__matmul__, right[rows, output], goal[output], 100)
            np.testing.assert_allclose(together[rows, output], alone, rtol=0, atol=1e-12)


def test_a_zero_right_hand_side_needs_no_step():
    solution, n_steps, ritz_value = solved(lambda v: v, np.zeros(3), 0.0, 10)
    assert (solution.tolist(), n_steps, ritz_value) == ([0.0, 0.0, 0.0], 0, 1.0)


def test_a_sweep_moves_slice_means_to_the_projections():
    rng = np.random.default_rng(0)
    scores, weights = rng.normal(size=(2, 3, 4)), rng.random((3, 4))
    values, projections = scores.copy(), zero_projections(scores)
    moved = sweep(values, projections, functools.partial(slice_means, weights=weights))
    first = np.einsum("kij,ij->kj", scores, weights) / weights.sum(axis=0)
    rest = scores - first[:, None, :]
    second = np.einsum("kij,ij->ki", rest, weights) / weights.sum(axis=1)
    np.testing.assert_allclose(projections[0], first)
    np.testing.assert_allclose(projections[1], second)
    np.testing.assert_allclose(values, rest - second[:, :, None])
    assert moved == pytest.approx(max(np.abs(first).max(), np.abs(second).max()))


def test_polishing_makes_values_pure_and_keeps_the_sum():
    weights = correlated_weights((6, 5), 0.3)
    scores = np.random.default_rng(0).normal(size=(1, 6, 5))
    values, projections = scores.copy(), zero_projections(scores)
    polish(values, projections, functools.partial(slice_means, weights=weights), 1.0)
    assert np.abs((values[0] * weights).sum(axis=0) / weights.sum(axis=0)).max() < 1e-12
    take_out(scores, projections)
    np.testing.assert_allclose(scores, values, atol=1e-14)


def test_polishing_ends_where_it_no_longer_helps():
    calls = []

    def stubborn(values, axis):
        calls.append(axis)
        return np.ones(values.shape[: axis + 1] + values.shape[axis + 2 :])

    polish(np.zeros((1, 2, 2)), zero_projections(np.zeros((1, 2, 2))), stubborn, 1.0)
    assert len(calls) == 4  # two sweeps: the second moved as much as the first
