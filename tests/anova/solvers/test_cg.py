"""Conjugate gradients: many bins, and an error that is measured."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from tests.support.oracles import brute_force, exact_interaction
from treeanova import purify
from treeanova.anova.solvers import solver_for
from treeanova.anova.solvers.base import Options
from treeanova.anova.support import take_out
from treeanova.testing import correlated_weights


@pytest.mark.parametrize("shape", [(7,), (9, 6), (6, 9), (5, 4, 6), (3, 4, 3, 2)])
@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.6])
def test_what_is_left_is_the_interaction_of_least_squares(shape, correlation):
    weights = correlated_weights(shape, correlation)
    scores = np.random.default_rng(0).normal(size=(2, *shape))
    solution = solver_for(weights, "cg").solve(scores, weights, Options("cg"))
    assert solution.method == "cg"
    left = scores.copy()
    take_out(left, solution.projections)
    for output in range(2):
        expected = brute_force(scores[output], weights)[tuple(range(len(shape)))]
        np.testing.assert_allclose(left[output], expected, atol=1e-9)


def weak_ties_of_three_axes():
    weights = np.full((2, 2, 2), 1e-12)
    weights[0, 0], weights[1, 1] = 1.0, [0.7, 1.2]
    return np.array([[[4.0, -3], [-4, -2]], [[-1, 3], [-1, -4]]]), weights / weights.sum()


def test_elimination_takes_over_where_the_method_is_auto():
    scores, weights = weak_ties_of_three_axes()
    solver = solver_for(weights, "cg")
    assert solver.solve(scores[None], weights, Options("auto")).method == "elimination"
    assert solver.solve(scores[None], weights, Options("cg")).method == "cg"


@pytest.mark.thorough
def test_many_bins_by_conjugate_gradients():
    rng = np.random.default_rng(0)
    weights = scipy.sparse.random_array((3200, 3100), density=0.002, rng=rng)
    scores = rng.normal(size=(3200, 3100))
    pure = purify(scores, weights, strict=True)
    assert pure.certificate.terms[0, 1].method == "cg"
    np.testing.assert_allclose(pure.reconstruct(), scores, atol=1e-11)


def test_conjugate_gradients_tell_that_they_overlook_weak_ties():
    scores, weights = weak_ties_of_three_axes()
    with pytest.warns(UserWarning, match="an error of up to"):
        pure = purify(scores, weights, method="cg")
    error = np.abs(pure.terms[0, 1, 2] - exact_interaction(scores, weights)).max() / 4
    assert not pure.certificate.is_pure
    assert 1e-6 < error <= 10 * pure.certificate.error
