"""Least squares on observed cells against a dense solver."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from treeanova import purify
from treeanova.anova.support import ObservedCells, projections_of_all, take_out
from treeanova.testing import correlated_weights

SHAPES = [(6,), (5, 4), (4, 3, 5), (3, 2, 3, 2)]


def projections_of(cells, values, tolerance, max_iterations=300):
    return projections_of_all([cells], [values], [tolerance], max_iterations)[0]


def problem(shape, share=0.6, n_outputs=2):
    rng = np.random.default_rng(len(shape))
    weights = rng.gamma(1.0, size=shape) * (rng.random(shape) < share)
    return rng.normal(size=(n_outputs, *shape)), weights / weights.sum()


def residual_by_least_squares(values, weights):
    """What is left of one output on the cells with mass when sums of functions of fewer axes are fitted."""
    cells = np.argwhere(weights > 0)
    slices = [(axis, *np.delete(cell, axis)) for cell in cells for axis in range(weights.ndim)]
    numbers = {slice_: number for number, slice_ in enumerate(sorted(set(slices)))}
    design = np.zeros((len(cells), len(numbers)))
    for row, cell in enumerate(cells):
        for axis in range(weights.ndim):
            design[row, numbers[axis, *np.delete(cell, axis)]] = 1.0
    roots, target = np.sqrt(weights[tuple(cells.T)]), values[tuple(cells.T)]
    fitted = np.linalg.lstsq(design * roots[:, None], target * roots, rcond=None)[0]
    return target - design @ fitted


@pytest.mark.parametrize("shape", SHAPES)
def test_projections_are_those_of_least_squares(shape):
    values, weights = problem(shape)
    left = values.copy()
    take_out(left, projections_of(ObservedCells.of(weights), values, 1e-13, 1000))
    for output in range(len(values)):
        expected = residual_by_least_squares(values[output], weights)
        np.testing.assert_allclose(left[output][weights > 0], expected, atol=1e-9)


def test_projections_are_those_of_purification_where_all_cells_have_mass():
    weights = correlated_weights((6, 5, 4), 0.5)
    values = np.random.default_rng(0).normal(size=(1, 6, 5, 4))
    pure = purify(values[0], weights).terms[0, 1, 2]
    take_out(values, projections_of(ObservedCells.of(weights), values, 1e-13, 1000))
    np.testing.assert_allclose(values[0], pure, atol=1e-9)


@pytest.mark.parametrize("shape", SHAPES)
def test_slices_without_mass_have_no_projection(shape):
    values, weights = problem(shape, share=0.3)
    projections = projections_of(ObservedCells.of(weights), values, 1e-10)
    for axis, projection in enumerate(projections):
        assert projection.shape == (2, *shape[:axis], *shape[axis + 1 :])
        masses = weights.sum(axis=axis)
        assert (projection[:, masses == 0] == 0).all()


def test_iterations_are_limited():
    values, weights = problem((4, 3, 5))
    cells = ObservedCells.of(weights)
    exact, early = projections_of(cells, values, 1e-13, 1000), projections_of(cells, values, 1e-13, 1)
    assert max(np.abs(a - b).max() for a, b in zip(exact, early, strict=True)) > 1e-3


@pytest.mark.parametrize("shape", SHAPES)
def test_mean_squares_of_values_and_of_slices(shape):
    values, weights = problem(shape)
    cells = ObservedCells.of(weights)
    np.testing.assert_allclose(cells.mean_squares(values), (values**2 * weights).reshape(2, -1).sum(axis=1))
    expected = np.zeros(2)
    for axis in range(len(shape)):
        rest = [size for i, size in enumerate(shape) if i != axis]
        for place in itertools.product(*map(range, rest)):
            index = (*place[:axis], slice(None), *place[axis:])
            mass = weights[index].sum()
            if mass:
                expected += mass * ((values[:, *index] * weights[index]).sum(axis=1) / mass) ** 2 / len(shape)
    np.testing.assert_allclose(cells.mean_squares_of_slices(values), expected)


def test_pure_values_have_slices_of_mean_zero():
    values, weights = problem((4, 3, 5))
    cells = ObservedCells.of(weights)
    take_out(values, projections_of(cells, values, 1e-13, 1000))
    assert (cells.mean_squares_of_slices(values) < 1e-24).all()


def test_problems_solved_together_have_the_projections_of_each_alone():
    problems = [problem(shape) for shape in SHAPES]
    cells = [ObservedCells.of(weights) for _, weights in problems]
    tolerances = [1e-13, 1e-2, 1e-13, 1e-4]
    together = projections_of_all(cells, [values for values, _ in problems], tolerances)
    for own, (values, _), tolerance, projections in zip(cells, problems, tolerances, together, strict=True):
        for projection, alone in zip(projections, projections_of(own, values, tolerance), strict=True):
            np.testing.assert_allclose(projection, alone, atol=1e-12)


@pytest.mark.parametrize("tolerance", [1e-1, 1e-3])
def test_each_output_stops_at_its_tolerance(tolerance):
    values, weights = problem((4, 3, 5))
    values[1] *= 1e6
    cells = ObservedCells.of(weights)
    before = cells.mean_squares_of_slices(values)
    take_out(values, projections_of(cells, values, tolerance))
    after = np.sqrt(cells.mean_squares_of_slices(values) / before)
    assert (after <= tolerance).all()
    assert (after > tolerance / 1e3).all()  # no further than asked
