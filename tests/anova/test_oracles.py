"""Purification against brute force and another tool."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.support.oracles import brute_force, relative_gap
from tests.support.strategies import problems
from treeanova import purify
from treeanova.testing import correlated_weights


@given(problems(orders=(2, 3), max_bins=5, kinds=("dense", "correlated")))
def test_brute_force_on_positive_weights(problem):
    assert relative_gap(purify(*problem), brute_force(*problem), problem.scores) <= 1e-9


@pytest.mark.parametrize(
    ("sizes", "correlation"), [((24, 20), 0.999), ((40, 30), 0.99), ((8, 7, 6), 0.9), ((6, 6, 6), 0.99)]
)
def test_brute_force_near_degeneracy(sizes, correlation):
    weights = correlated_weights(sizes, correlation)
    weights = weights + 1e-6 * correlated_weights(sizes, 0.0)
    scores = np.random.default_rng(0).normal(size=sizes)
    assert relative_gap(purify(scores, weights), brute_force(scores, weights), scores) <= 1e-9


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
