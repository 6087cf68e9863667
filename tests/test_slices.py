from __future__ import annotations

import numpy as np
import pytest

from treeanova.anova.certificate import impurity
from treeanova.anova.slices import axis_means, settled_means, slice_means, sweep_product

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
    found = settled_means(VALUES, WEIGHTS, 2)
    marginal = WEIGHTS.sum(axis=(0, 1))
    np.testing.assert_allclose(found[:, 0, 1], VALUES[:, 0, 1] @ marginal)
    others = np.ones((3, 4), dtype=bool)
    others[0, 1] = False
    np.testing.assert_allclose(found[:, others], slice_means(VALUES, WEIGHTS, 2)[:, others])


def test_impurity_sees_slices_without_mass():
    values = np.zeros((1, 3, 4, 5))
    values[0, 0, 1] = 1.0  # all along the slice without mass
    assert impurity(values, WEIGHTS, np.ones(1)) == pytest.approx(1.0)


@pytest.mark.parametrize("axis", [0, 1, 2])
def test_axis_means_use_one_weight_vector(axis):
    masses = RNG.random(VALUES.shape[axis + 1])
    expected = np.average(VALUES, axis=axis + 1, weights=masses)
    np.testing.assert_allclose(axis_means(VALUES, masses, axis), expected)


def test_one_sweep_under_a_product_is_exact():
    values = VALUES.copy()
    masses = [RNG.random(size) for size in VALUES.shape[1:]]
    sweep_product(values, masses)
    for axis, own in enumerate(masses):
        np.testing.assert_allclose(np.average(values, axis=axis + 1, weights=own), 0, atol=1e-14)
