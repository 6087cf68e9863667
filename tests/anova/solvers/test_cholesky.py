"""Pairs by a Cholesky factor, and who takes over where it loses digits."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.linalg
import scipy.sparse

from tests.support.oracles import brute_force, exact_pair
from treeanova import purify
from treeanova.anova.solvers import SOLVERS, direct
from treeanova.anova.solvers.base import Options
from treeanova.anova.support import take_out
from treeanova.testing import correlated_weights

SOLVER = next(solver for solver in SOLVERS if isinstance(solver, direct.Cholesky))


def left_of(term, weights, solution):
    left = term.copy()
    take_out(left, solution.projections)
    return left


@pytest.mark.parametrize("shape", [(9, 6), (6, 9), (1, 5), (5, 1)])
def test_what_is_left_is_the_interaction_of_least_squares(shape):
    weights = correlated_weights(shape, 0.7)
    term = np.random.default_rng(0).normal(size=(2, *shape))
    solution = SOLVER.solve(term, weights, Options())
    assert (solution.method, solution.iterations) == ("direct", 1)
    assert solution.error < 1e-12
    for output, left in enumerate(left_of(term, weights, solution)):
        np.testing.assert_allclose(left, brute_force(term[output], weights)[0, 1], atol=1e-12)


def test_sparse_weights_go_the_same_way():
    weights = scipy.sparse.random_array((40, 30), density=0.06, rng=np.random.default_rng(0)).toarray()
    scores = np.random.default_rng(1).normal(size=(40, 30))
    pure = purify(scores, weights)
    assert pure.certificate.terms[0, 1].method == "direct"
    share = weights / weights.sum()
    np.testing.assert_allclose((share * pure.terms[0, 1]).sum(axis=0), 0, atol=1e-15)
    np.testing.assert_allclose((share * pure.terms[0, 1]).sum(axis=1), 0, atol=1e-15)


@pytest.mark.parametrize("tie", [1e-14, 1e-30])
def test_star_mesh_elimination_takes_over_where_ties_are_weak(tie):
    weights = np.array([[1, tie, 2 * tie], [tie, 1, tie]])
    weights /= weights.sum()
    term = np.array([[[1.0, 2.0, -1.0], [0.5, 3.0, 2.0]]])
    solution = SOLVER.solve(term, weights, Options())
    assert solution.method == "star-mesh"
    np.testing.assert_allclose(left_of(term, weights, solution)[0], exact_pair(term[0], weights), atol=1e-14)


@pytest.fixture
def no_star_mesh(monkeypatch):
    """Axes too long for star-mesh elimination, without the time that such axes take."""
    monkeypatch.setattr(direct, "_MAX_STAR_BINS", 1)


def test_a_pair_too_long_for_elimination_keeps_an_imperfect_factor(no_star_mesh):
    weights = np.array([[1, 1e-13, 1e-13], [1e-13, 1, 1e-13]])
    solution = SOLVER.solve(np.ones((1, 2, 3)), weights / weights.sum(), Options())
    assert solution.method == "direct"
    assert 1e-12 < solution.error < 1


def test_conjugate_gradients_take_over_where_there_is_no_factor(no_star_mesh, monkeypatch):
    def fail(*_, **__):
        raise scipy.linalg.LinAlgError

    monkeypatch.setattr(scipy.linalg, "cholesky", fail)
    weights = correlated_weights((6, 8), 0.5)
    term = np.random.default_rng(0).normal(size=(1, 6, 8))
    solution = SOLVER.solve(term, weights, Options())
    assert solution.method == "cg"
    np.testing.assert_allclose(left_of(term, weights, solution)[0], brute_force(term[0], weights)[0, 1], atol=1e-10)
