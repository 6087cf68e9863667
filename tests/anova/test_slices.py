"""Slices and projections against plain numpy."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.anova.support import (
    add_projections,
    axis_means,
    largest,
    marginal,
    marginals,
    means_of_all_slices,
    move_means,
    outer,
    safe_inverse,
    slice_indicators,
    slice_means,
    slice_sums,
    sweep_product,
    take_out,
    zero_projections,
)

RNG = np.random.default_rng(0)
VALUES = RNG.normal(size=(2, 3, 4, 5))
WEIGHTS = RNG.random((3, 4, 5))
WEIGHTS[0, 1] = 0.0  # a slice along the last axis without mass
WEIGHTS /= WEIGHTS.sum()


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slice_means_are_weighted_averages(axis):
    found = slice_means(VALUES, WEIGHTS, axis)
    masses = WEIGHTS.sum(axis=axis)
    for output in range(2):
        sums = (VALUES[output] * WEIGHTS).sum(axis=axis)
        np.testing.assert_allclose(found[output][masses > 0], (sums / np.where(masses > 0, masses, 1))[masses > 0])
        assert (found[output][masses == 0] == 0).all()


def test_slices_without_mass_are_weighted_by_the_marginal_of_their_axis():
    found = means_of_all_slices(VALUES, WEIGHTS, 2)
    marginal = WEIGHTS.sum(axis=(0, 1))
    np.testing.assert_allclose(found[:, 0, 1], VALUES[:, 0, 1] @ marginal)
    others = np.ones((3, 4), dtype=bool)
    others[0, 1] = False
    np.testing.assert_allclose(found[:, others], slice_means(VALUES, WEIGHTS, 2)[:, others])


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axis_means_use_one_weight_vector(axis):
    masses = RNG.random(VALUES.shape[axis + 1])
    expected = np.average(VALUES, axis=axis + 1, weights=masses)
    np.testing.assert_allclose(axis_means(VALUES, masses, axis), expected)


def test_one_sweep_under_a_product_is_exact():
    values = VALUES.copy()
    masses = [RNG.random(size) for size in VALUES.shape[1:]]
    sweep_product(values, masses)
    for axis, bin_masses in enumerate(masses):
        np.testing.assert_allclose(np.average(values, axis=axis + 1, weights=bin_masses), 0, atol=1e-14)


def test_marginals_are_sums_over_the_other_axes():
    assert marginal(WEIGHTS, (0, 1, 2)) is WEIGHTS
    np.testing.assert_allclose(marginal(WEIGHTS, (0, 2)), WEIGHTS.sum(axis=1))
    for axis, masses in enumerate(marginals(WEIGHTS)):
        np.testing.assert_allclose(masses, np.moveaxis(WEIGHTS, axis, 0).reshape(WEIGHTS.shape[axis], -1).sum(axis=1))


def test_outer_products_have_an_axis_per_vector():
    first, second, third = np.array([1.0, 2.0]), np.array([3.0, 5.0, 7.0]), np.array([10.0])
    assert outer([first, second, third]).tolist() == [[[30.0], [50.0], [70.0]], [[60.0], [100.0], [140.0]]]


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_slice_sums_are_products_with_indicators(axis):
    indicators = slice_indicators(WEIGHTS.shape)
    starts = np.cumsum([0, *(WEIGHTS.size // size for size in WEIGHTS.shape)])
    assert (indicators.sum(axis=0) == 3).all()
    sums = (VALUES * WEIGHTS).reshape(2, -1) @ indicators[starts[axis] : starts[axis + 1]].T
    np.testing.assert_allclose(slice_sums(VALUES, WEIGHTS, axis).reshape(2, -1), sums, atol=1e-16)


def test_projections_are_added_and_taken_out():
    projections = [RNG.normal(size=projection.shape) for projection in zero_projections(VALUES)]
    doubled = [projection.copy() for projection in projections]
    add_projections(doubled, projections)
    values = VALUES.copy()
    take_out(values, doubled)
    expected = VALUES - 2 * (projections[0][:, None] + projections[1][:, :, None] + projections[2][:, :, :, None])
    np.testing.assert_allclose(values, expected)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_moved_means_leave_slices_of_mean_zero(axis):
    values, projections = VALUES.copy(), zero_projections(VALUES)
    means = move_means(values, WEIGHTS, axis, projections)
    np.testing.assert_allclose((values * WEIGHTS).sum(axis=axis + 1), 0, atol=1e-15)
    np.testing.assert_array_equal(projections[axis], means)
    take_out(restored := values.copy(), [-projection for projection in projections])
    np.testing.assert_allclose(restored, VALUES, atol=1e-15)


def test_inverses_and_largest_values():
    assert safe_inverse(np.array([0.0, 0.5, 4.0])).tolist() == [0.0, 2.0, 0.25]
    assert largest(np.array([[[1.0, -3.0]], [[2.0, 0.0]]])).tolist() == [3.0, 2.0]
    assert np.isnan(largest(np.array([[1.0, np.nan]]))).all()
