"""What weights leave undetermined, against the definition in exact arithmetic."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import assume, given, settings

from tests.support.oracles import brute_force, exact_terms, relative_gap
from tests.support.strategies import KINDS, problems, random_weights
from treeanova import purify


@functools.cache
def problem_and_exact_terms(kind, sizes):
    rng = np.random.default_rng([*sizes, KINDS.index(kind)])
    scores, weights = rng.normal(size=sizes), random_weights(kind, sizes, rng)
    return scores, weights, exact_terms(scores, weights)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [(3, 4), (5, 2), (2, 2, 3), (2, 3, 2)])
@pytest.mark.parametrize("method", ["auto", "cg"])
def test_convention_in_exact_arithmetic(kind, sizes, method):
    scores, weights, exact = problem_and_exact_terms(kind, sizes)
    assert relative_gap(purify(scores, weights, method=method), exact, scores) <= 1e-9


@settings(max_examples=25)
@given(problems(orders=(2, 3), max_bins=3, kinds=("sparse", "blocks", "unseen", "counts")))
def test_convention_in_exact_arithmetic_on_random_supports(problem):
    assume(np.prod(np.array(problem.scores.shape) + 1) <= 40)
    assert relative_gap(purify(*problem), exact_terms(*problem), problem.scores) <= 1e-8


def test_convention_of_order_four_in_exact_arithmetic():
    rng = np.random.default_rng(5)
    scores, weights = rng.normal(size=(2, 2, 2, 2)), random_weights("sparse", (2, 2, 2, 2), rng)
    assert relative_gap(purify(scores, weights), exact_terms(scores, weights), scores) <= 1e-9


@pytest.mark.parametrize("kind", ["sparse", "blocks", "unseen"])
def test_least_squares_with_a_little_mixed_in_tends_to_the_convention(kind):
    rng = np.random.default_rng(3)
    scores, weights = rng.normal(size=(4, 5)), random_weights(kind, (4, 5), rng)
    pure = purify(scores, weights)
    far, near = (relative_gap(pure, brute_force(scores, weights, epsilon), scores) for epsilon in (1e-3, 1e-5))
    assert near <= 1e-3
    assert near < far / 10
