"""The probe: all of it is an error of the solver."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.oracles import brute_force
from treeanova.anova.solvers.base import with_probe, without_probe
from treeanova.anova.support import sweep_product, zero_projections

SHAPES = [(3, 4), (2, 3, 4), (2, 2, 3, 2)]


@pytest.mark.parametrize("shape", SHAPES)
def test_the_probe_is_a_sum_of_functions_of_fewer_axes(shape):
    term = np.random.default_rng(0).normal(size=(2, *shape))
    probed = with_probe(term)
    np.testing.assert_array_equal(probed[:2], term)
    assert np.abs(probed[2]).max() == 1.0
    pure = brute_force(probed[2], np.random.default_rng(1).random(shape))[tuple(range(len(shape)))]
    np.testing.assert_allclose(pure, 0, atol=1e-12)


@pytest.mark.parametrize("shape", SHAPES)
def test_an_exact_solver_leaves_nothing_of_it(shape):
    probed = with_probe(np.random.default_rng(0).normal(size=(2, *shape)))
    projections = sweep_product(probed.copy(), [np.ones(size) for size in shape])
    own_projections, error = without_probe(projections, shape)
    assert error < 1e-14
    for projection, whole in zip(own_projections, projections, strict=True):
        np.testing.assert_array_equal(projection, whole[:2])


@pytest.mark.parametrize("shape", SHAPES)
def test_a_solver_that_does_nothing_leaves_all_of_it(shape):
    probed = with_probe(np.zeros((1, *shape)))
    assert without_probe(zero_projections(probed), shape)[1] == 1.0
