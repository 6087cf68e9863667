"""The certificate's error is a bound: against exact rational arithmetic, under weights of up to 600 decades."""

from __future__ import annotations

import os
import warnings

import numpy as np
import pytest

from tests.support.oracles import exact_interaction, exact_pair, exact_terms
from treeanova import purify

N_CASES = int(os.environ.get("TREEANOVA_FUZZ_CASES", "600")) // 4
SHAPES = [(2, 2), (3, 2), (4, 3), (2, 2, 2), (3, 2, 2), (2, 2, 2, 2)]
SPANS = (1, 4, 8, 12, 16, 30, 60, 150, 300)  # decades above and below one
NEGLIGIBLE = 1e-290  # documented: weights below this share of the largest count as zero


def wild_weights(shape, rng):
    """Weights over many decades, some of them in blocks, with holes, or with one bin never seen."""
    span = SPANS[rng.integers(len(SPANS))]
    logs = rng.uniform(-span, span, size=shape)
    kind = rng.integers(4)
    if kind == 1:  # two levels only: strong cells and weak ties
        logs = np.where(rng.random(shape) < 0.5, -span, 0) + rng.uniform(-0.3, 0.3, size=shape)
    weights = 10.0**logs
    if kind >= 2:
        weights *= rng.random(shape) < 0.7
    if kind == 3:
        weights[rng.integers(shape[0])] = 0.0
    if not weights.any():
        weights[(0,) * len(shape)] = 1.0
    return weights


def interaction_error(pure, scores, weights):
    """Largest true error of the term of all axes, relative to the largest score."""
    decades = np.log10(weights.max()) - np.log10(weights[weights > 0].min())
    exact = exact_interaction(scores, weights, digits=30 + int(decades))  # ε is far below the smallest share
    return np.abs(pure.terms[tuple(range(exact.ndim))] - exact).max() / np.abs(scores).max()


@pytest.mark.parametrize("part", range(8))
def test_no_true_error_is_above_ten_times_the_certificates(part):
    for seed in range(part, N_CASES, 8):
        rng = np.random.default_rng([seed, 7])
        shape = SHAPES[rng.integers(len(SHAPES))]
        weights, scores = wild_weights(shape, rng), rng.normal(size=shape)
        counted = np.where(weights < NEGLIGIBLE * weights.max(), 0.0, weights)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pure = purify(scores, weights)
        error = interaction_error(pure, scores, counted)
        assert error <= 10 * pure.certificate.error, (seed, shape, error, pure.certificate.error)
        assert error <= 1e-11, (seed, shape, error)
        assert pure.certificate.is_pure


@pytest.mark.parametrize("correlation", [0.9, 0.99, 0.999, 0.9999, 0.99999])
@pytest.mark.parametrize("size", [6, 8])
def test_gaussian_weights_with_floors_of_nothing(size, correlation):
    z = np.linspace(-3, 3, size)
    logs = -(z[:, None] ** 2 + z**2 - 2 * correlation * np.outer(z, z)) / (2 * (1 - correlation**2))
    weights = np.maximum(np.exp(logs - logs.max()), 1e-290)
    scores = np.random.default_rng(size).normal(size=(size, size))
    pure = purify(scores, weights, strict=True)
    error = np.abs(pure.terms[0, 1] - exact_pair(scores, weights)).max()
    assert error <= 1e-12
    assert error <= 10 * pure.certificate.error


def test_weak_ties_of_three_axes_are_not_overlooked():
    weights = np.full((2, 2, 2), 1e-12)
    weights[0, 0], weights[1, 1] = 1.0, [0.7, 1.2]
    scores = np.array([[[4, -3], [-4, -2]], [[-1, 3], [-1, -4]]])
    pure = purify(scores, weights, strict=True)
    exact = exact_terms(scores, weights)
    for axes, values in pure.terms.items():
        np.testing.assert_allclose(values, exact[axes], atol=4e-14)


@pytest.mark.parametrize("scale", [1e-307, 1e-300, 1e-200, 1e-160, 1e160, 1e200, 9e299])
@pytest.mark.parametrize("shape", [(3, 4), (3, 2, 2), (7, 7, 7)])
def test_scores_of_any_size_are_purified_alike(shape, scale):
    rng = np.random.default_rng(0)
    scores, weights = rng.uniform(-1, 1, size=shape), rng.random(shape)
    plain, scaled = purify(scores, weights, strict=True), purify(scores * scale, weights, strict=True)
    for axes, values in plain.terms.items():
        np.testing.assert_allclose(scaled.terms[axes] / scale, values, atol=1e-13)
    assert scaled.certificate.error == pytest.approx(plain.certificate.error, rel=0.5, abs=1e-14)


def test_errors_of_lower_orders_hold_those_of_higher_ones():
    scores = np.random.default_rng(0).normal(size=(2, 2))
    with pytest.warns(UserWarning, match="an error of up to"):
        slow = purify(scores, [[1, 1e-6], [1e-6, 1]], method="mass-moving", max_iterations=50)
    exact = exact_terms(scores, [[1, 1e-6], [1e-6, 1]])
    for axes in ((0,), (1,)):
        error = np.abs(slow.terms[axes] - exact[axes]).max() / np.abs(scores).max()
        assert 0.05 < error <= 10 * slow.certificate.terms[axes].error


@pytest.mark.parametrize("method", ["cg", "mass-moving"])
def test_iterations_state_their_true_error(method):
    for seed in range(24):
        rng = np.random.default_rng([seed, 3])
        span = (3, 10, 24, 40)[seed % 4]
        shape = tuple(rng.integers(2, 5, size=2))
        weights, scores = 10.0 ** rng.uniform(-span, span, shape), rng.normal(size=shape)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            pure = purify(scores, weights, method=method, max_iterations=30)
        error = interaction_error(pure, scores, weights)
        assert error <= 1.01 * pure.certificate.error + 1e-14, (seed, error, pure.certificate.error)


def test_conjugate_gradients_do_not_claim_what_weak_ties_hide():
    with pytest.warns(UserWarning, match="an error of up to"):
        pure = purify([[0, -3], [3, -1]], [[1e-24, 1e24], [1e6, 1e-20]], method="cg")
    assert not pure.certificate.is_pure


def test_errors_of_all_orders_are_bounds():
    for seed in range(60):
        rng = np.random.default_rng(seed)
        weights, scores = 10 ** rng.uniform(-20, 0, (2, 2)), rng.normal(size=(2, 2))
        pure, exact = purify(scores, weights), exact_terms(scores, weights)
        for axes, values in pure.terms.items():
            error = np.abs(values - exact[axes]).max() / np.abs(scores).max()
            assert error <= 10 * pure.certificate.terms[axes].error
