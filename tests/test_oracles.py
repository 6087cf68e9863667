"""treeanova against brute force, exact arithmetic, and other tools."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from treeanova import purify
from treeanova.testing import brute_force, correlated_weights, exact_terms
from treeanova.testing.strategies import KINDS, problems, random_weights


def distance(pure, terms, scores):
    largest = max(np.abs(pure.terms[axes] - terms[axes]).max() for axes in pure.terms)
    return max(largest, abs(pure.intercept - terms[()])) / np.abs(scores).max()


@given(problems(orders=(2, 3), max_bins=5, kinds=("dense", "correlated")))
def test_brute_force_on_positive_weights(problem):
    assert distance(purify(*problem), brute_force(*problem), problem.scores) <= 1e-9


@pytest.mark.parametrize(
    ("sizes", "correlation"), [((24, 20), 0.999), ((40, 30), 0.99), ((8, 7, 6), 0.9), ((6, 6, 6), 0.99)]
)
def test_brute_force_near_degeneracy(sizes, correlation):
    weights = correlated_weights(sizes, correlation)
    weights = weights + 1e-6 * correlated_weights(sizes, 0.0)
    scores = np.random.default_rng(0).normal(size=sizes)
    assert distance(purify(scores, weights), brute_force(scores, weights), scores) <= 1e-9


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(3, 4), (5, 2), (2, 2, 3), (2, 3, 2)])
@pytest.mark.parametrize("method", ["auto", "cg"])
def test_convention_in_exact_arithmetic(kind, sizes, method):
    rng = np.random.default_rng([*sizes, KINDS.index(kind)])
    scores, weights = rng.normal(size=sizes), random_weights(kind, sizes, rng)
    assert distance(purify(scores, weights, method=method), exact_terms(scores, weights), scores) <= 1e-9


@settings(max_examples=25)
@given(problems(orders=(2, 3), max_bins=3, kinds=("sparse", "blocks", "unseen", "counts")))
def test_convention_in_exact_arithmetic_on_random_supports(problem):
    if np.prod(np.array(problem.scores.shape) + 1) > 40:
        return
    assert distance(purify(*problem), exact_terms(*problem), problem.scores) <= 1e-8


def test_convention_of_order_four_in_exact_arithmetic():
    rng = np.random.default_rng(5)
    scores, weights = rng.normal(size=(2, 2, 2, 2)), random_weights("sparse", (2, 2, 2, 2), rng)
    assert distance(purify(scores, weights), exact_terms(scores, weights), scores) <= 1e-9


@pytest.mark.parametrize("kind", ["sparse", "blocks", "unseen"])
def test_least_squares_with_a_little_mixed_in_tends_to_the_convention(kind):
    rng = np.random.default_rng(3)
    scores, weights = rng.normal(size=(4, 5)), random_weights(kind, (4, 5), rng)
    pure = purify(scores, weights)
    far, near = (distance(pure, brute_force(scores, weights, epsilon), scores) for epsilon in (1e-3, 1e-5))
    assert near <= 1e-3
    assert near < far / 10


@pytest.mark.parametrize("sizes", [(12, 9), (6, 5, 4)])
def test_interpret_agrees_where_it_converges(sizes):
    interpret = pytest.importorskip("interpret.utils")
    weights = correlated_weights(sizes, 0.5)
    scores = np.random.default_rng(0).normal(size=sizes)
    peer, impurities, intercept = interpret.purify(scores, weights, is_randomized=False)
    pure = purify(scores, weights)
    np.testing.assert_allclose(pure.terms[tuple(range(len(sizes)))], peer, atol=1e-10)
    assert pure.intercept == pytest.approx(intercept, abs=1e-10)
    for axes, values in impurities if len(sizes) == 2 else []:  # of three, it leaves a pair with slices off zero
        np.testing.assert_allclose(pure.terms[tuple(axes)], values, atol=1e-9)
