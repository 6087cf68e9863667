"""Pairs of features: likelihoods and tables."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.dependence import listed, pair_of, pair_of_codes, related_codes
from treeanova.density.smooth.choice import all_candidates, full_table, make_candidates
from treeanova.density.smooth.margins import Margin


def test_log_likelihood_is_the_mean_over_rows():
    first, second = related_codes(seed=3)
    pair = pair_of_codes(first, second, (7, 5))
    for candidate in listed(all_candidates(pair.alone)):
        expected = np.mean(np.log(candidate.left_out[first, second]))
        assert candidate.likelihood == pytest.approx(expected)


def test_a_pair_of_bins_is_pooled_into_groups():
    shares = np.random.default_rng(0).dirichlet(np.ones(60)).reshape(10, 6)
    first, second = (Margin(shares.sum(axis=1 - i), shares.shape[i], 50.0, max_groups=4) for i in range(2))
    pair = pair_of(first, second, shares)
    expected = np.zeros((first.n_ordered_groups, second.n_ordered_groups))
    for i, j in np.ndindex(10, 6):
        expected[first.groups[i], second.groups[j]] += shares[i, j]
    np.testing.assert_allclose(pair.shares, expected, rtol=1e-12)
    np.testing.assert_allclose(pair.product, np.outer(expected.sum(axis=1), expected.sum(axis=0)), rtol=1e-12)


@pytest.mark.parametrize(("ordered", "expected"), [((7, 5), 2), ((7, 0), 1), ((0, 4), 1), ((0, 0), 0)])
def test_the_number_of_features_with_ordered_bins(ordered, expected):
    assert pair_of_codes(*related_codes(), (7, 5), ordered).alone.n_ordered == expected


def test_a_row_left_out_is_compared_with_some_independence_at_least():
    pairs = pair_of_codes(np.array([0, 0]), np.array([0, 1]), (1, 2)).alone
    mixed = make_candidates(pairs, "any", np.array([[[0.0, 2.0]]]), np.array([[[0.0, 1.0]]]), 0.25)
    np.testing.assert_allclose(mixed.ratio, [[[0.25, 1.75]]])
    np.testing.assert_allclose(mixed.left_out, [[[0.25, 1.0]]])
    plain = make_candidates(pairs, "any", np.array([[[0.0, 2.0]]]), np.array([[[0.0, 1.0]]]))
    np.testing.assert_allclose(plain.ratio, [[[0.0, 2.0]]])
    np.testing.assert_allclose(plain.left_out, [[[0.01, 1.0]]])
    np.testing.assert_allclose(plain.likelihoods, [np.log(0.01) / 2])


def test_a_full_table_has_the_marginals_of_the_bins_and_the_ratio_of_the_groups():
    shares = np.random.default_rng(0).dirichlet(np.ones(60)).reshape(10, 6)
    first, second = (Margin(shares.sum(axis=1 - i), shares.shape[i], 50.0, max_groups=4) for i in range(2))
    pair = pair_of(first, second, shares)
    table = full_table(pair.first, pair.second, pair.shares / pair.product)
    np.testing.assert_allclose(table.sum(axis=1), shares.sum(axis=1), atol=1e-12)
    np.testing.assert_allclose(table.sum(axis=0), shares.sum(axis=0), atol=1e-12)
    ratio = table / np.outer(shares.sum(axis=1), shares.sum(axis=0))
    expected = (pair.shares / pair.product)[np.ix_(first.groups, second.groups)]
    np.testing.assert_allclose(ratio, expected, rtol=1e-10)
