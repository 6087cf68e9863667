"""Terms of all orders together: what is taken out of one goes to the terms below, also onto finer axes."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.oracles import brute_force
from treeanova import purify
from treeanova.anova.cascade import cascade, cut_weights
from treeanova.anova.solvers.base import Options
from treeanova.anova.support import marginal
from treeanova.errors import NotPureError
from treeanova.testing import correlated_weights

SIZES = (6, 4)  # bins of the main effects
COARSE = (3, 2)  # bins of their pair: every two bins are one


def coarse_pair_and_fine_mains():
    """A pair on coarse bins, main effects on fine ones, and weights that are even within coarse bins."""
    rng = np.random.default_rng(0)
    pair, mains = rng.normal(size=COARSE), [rng.normal(size=size) for size in SIZES]
    coarse_weights = rng.random(COARSE)
    coarse_weights /= coarse_weights.sum()
    shares = [rng.random(size) for size in SIZES]
    for share in shares:
        share /= np.repeat(share.reshape(-1, 2).sum(axis=1), 2)
    weights = on_fine_bins(coarse_weights) * np.multiply.outer(*shares)
    return pair, mains, coarse_weights, weights


def on_fine_bins(pair):
    return np.repeat(np.repeat(pair, 2, axis=0), 2, axis=1)


def test_projections_widen_onto_the_axes_of_the_terms_below():
    pair, mains, coarse_weights, weights = coarse_pair_and_fine_mains()
    tables = {(0, 1): coarse_weights, (0,): marginal(weights, [0]), (1,): marginal(weights, [1])}
    raw = {(0, 1): pair[None], (0,): mains[0][None], (1,): mains[1][None]}
    calls = []

    def widen(above, below, projection):
        calls.append((above, below, projection.shape))
        return np.repeat(projection, 2, axis=1)

    result = cascade(raw, tables.__getitem__, Options(), widen=widen)
    whole = purify(on_fine_bins(pair) + mains[0][:, None] + mains[1], weights)
    np.testing.assert_allclose(on_fine_bins(result.terms[0, 1][0]), whole.terms[0, 1], atol=1e-13)
    for axis in range(2):
        np.testing.assert_allclose(result.terms[axis,][0], whole.terms[axis,], atol=1e-13)
    np.testing.assert_allclose(result.intercept, whole.intercept, atol=1e-13)
    assert sorted(calls) == [((0, 1), (0,), (1, 3)), ((0, 1), (1,), (1, 2))]


def test_a_term_below_that_has_no_scores_takes_the_widened_projection():
    pair, _, coarse_weights, weights = coarse_pair_and_fine_mains()
    tables = {(0, 1): coarse_weights, (0,): marginal(weights, [0]), (1,): marginal(weights, [1])}
    result = cascade(
        {(0, 1): pair[None]},
        tables.__getitem__,
        Options(),
        widen=lambda above, below, projection: np.repeat(projection, 2, axis=1),
    )
    whole = purify(on_fine_bins(pair), weights)
    for axis in range(2):
        np.testing.assert_allclose(result.terms[axis,][0], whole.terms[axis,], atol=1e-13)


def three_terms():
    """Raw terms of three features of which only some have scores, their joint weights, and their sum."""
    rng = np.random.default_rng(1)
    weights = correlated_weights((4, 3, 5), 0.5)
    raw = {(0, 1): rng.normal(size=(4, 3)), (1, 2): rng.normal(size=(3, 5)), (2,): rng.normal(size=5)}
    total = raw[0, 1][:, :, None] + raw[1, 2] + raw[2,]
    return {axes: values[None] for axes, values in raw.items()}, weights, total


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_terms_of_a_sum_are_pure_and_add_up(n_jobs):
    raw, weights, total = three_terms()
    result = cascade(raw, lambda axes: marginal(weights, axes), Options(), n_jobs)
    assert list(result.terms) == list(result.measured) == [(0, 1), (1, 2), (0,), (1,), (2,)]
    pure = {axes: values[0] for axes, values in result.terms.items()}
    mains = pure[0,][:, None, None] + pure[1,][:, None] + pure[2,]
    np.testing.assert_allclose(result.intercept[0] + mains + pure[0, 1][:, :, None] + pure[1, 2], total, atol=1e-13)
    for axes in ((0, 1), (1, 2)):
        expected = brute_force(raw[axes][0], marginal(weights, axes))[0, 1]
        np.testing.assert_allclose(pure[axes], expected, atol=1e-12)
    for axis in range(3):
        assert marginal(weights, [axis]) @ pure[axis,] == pytest.approx(0, abs=1e-14)


def test_progress_counts_within_each_order():
    raw, weights, _ = three_terms()
    steps = []
    cascade(raw, lambda axes: marginal(weights, axes), Options(), progress=lambda *step: steps.append(step))
    second = [("purifying order 2", done, 2) for done in (0, 1, 2)]
    assert steps == [*second, *(("purifying order 1", done, 3) for done in (0, 1, 2, 3))]


def test_errors_of_lower_orders_include_those_above():
    raw, weights, _ = three_terms()
    options = Options("mass-moving", 1e-3)
    result = cascade(raw, lambda axes: marginal(weights, axes), options)
    errors = {axes: certificate.error for axes, certificate in result.measured.items()}
    for axes, above in {(0,): [(0, 1)], (1,): [(0, 1), (1, 2)], (2,): [(1, 2)]}.items():
        assert sum(errors[other] for other in above) < errors[axes] <= sum(errors[other] for other in above) + 1e-13


def test_extreme_scores_are_scaled_for_each_output():
    rng = np.random.default_rng(0)
    weights, scores = rng.random((3, 4)), rng.normal(size=(3, 3, 4))
    weights /= weights.sum()
    factors = np.array([1e-250, 1.0, 1e250])[:, None, None]
    plain = cascade({(0, 1): scores}, lambda axes: marginal(weights, axes), Options())
    extreme = cascade({(0, 1): scores * factors}, lambda axes: marginal(weights, axes), Options())
    np.testing.assert_allclose(extreme.terms[0, 1] / factors, plain.terms[0, 1], atol=1e-14)
    np.testing.assert_allclose(extreme.terms[0,] / factors[:, 0], plain.terms[0,], atol=1e-14)
    np.testing.assert_allclose(extreme.intercept / factors[:, 0, 0], plain.intercept, atol=1e-14)


def test_weights_that_would_vanish_count_as_zero():
    weights = np.array([0.5, 0.5, 1e-300, 1e-292, 0.0])
    assert cut_weights(weights).tolist() == [0.5, 0.5, 0.0, 1e-292, 0.0]
    usual = np.array([0.25, 0.75])
    assert cut_weights(usual) is usual


def test_no_term_that_is_not_finite_leaves():
    with pytest.raises(NotPureError, match=r"got NaN or infinity in term \(0,\)"):
        cascade({(0,): np.array([[1.0, np.nan]])}, lambda axes: np.array([0.5, 0.5]), Options())
