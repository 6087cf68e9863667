"""Many small pairs under products of marginals against each of them alone."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.anova import cascade as module
from treeanova.anova.cascade import cascade, purify_product_pairs
from treeanova.anova.solvers.base import Options
from treeanova.anova.support import marginal
from treeanova.testing import correlated_weights

N_FEATURES, N_OUTPUTS = 9, 2


def pairs_and_weights():
    """Pairs of features with 3 to 5 bins, two of them with an empty bin; every fourth pair has dependent weights."""
    rng = np.random.default_rng(0)
    masses = [rng.dirichlet(np.ones(3 + j % 3)) for j in range(N_FEATURES)]
    for j in (2, 4):
        masses[j][1] = 0.0
        masses[j] /= masses[j].sum()
    keys = [(i, j) for i in range(N_FEATURES) for j in range(i + 1, N_FEATURES)]
    terms = {(i, j): rng.normal(size=(N_OUTPUTS, len(masses[i]), len(masses[j]))) for i, j in keys}
    weights = {(j,): masses[j] for j in range(N_FEATURES)}
    for number, (i, j) in enumerate(keys):
        weights[i, j] = np.multiply.outer(masses[i], masses[j])
        if number % 4 == 0:
            weights[i, j] = correlated_weights(weights[i, j].shape, 0.5)
    return terms, weights


@pytest.mark.parametrize("method", ["auto", "direct"])
def test_pairs_at_once_are_those_alone(method, monkeypatch):
    terms, weights = pairs_and_weights()
    alone = cascade(terms, weights.__getitem__, Options(method))
    asked = []
    monkeypatch.setattr(module, "_MANY_PAIRS", 2)
    at_once = cascade(terms, lambda key: asked.append(key) or weights[key], Options(method))
    assert len(asked) == len(set(asked)) == len(weights)
    np.testing.assert_allclose(at_once.intercept, alone.intercept, atol=1e-14)
    for key, values in alone.terms.items():
        np.testing.assert_allclose(at_once.terms[key], values, atol=1e-14)
        found, expected = at_once.measured[key], alone.measured[key]
        assert (found.method, found.n_components, found.iterations) == (
            expected.method,
            expected.n_components,
            expected.iterations,
        )
        assert found.empty_share == expected.empty_share
        assert found.impurity == pytest.approx(expected.impurity, abs=1e-15)
        assert found.error == pytest.approx(expected.error, abs=1e-14)


def test_pairs_are_pure_and_what_was_taken_out_is_in_their_projections():
    terms, weights = pairs_and_weights()
    scales = np.full(N_OUTPUTS, 3.0)
    pure = purify_product_pairs(terms, weights.__getitem__, scales, 1e-293)
    dependent = [key for number, key in enumerate(terms) if number % 4 == 0]
    assert set(pure) == set(terms) - set(dependent)
    for key, (values, certificate, projections, _) in pure.items():
        np.testing.assert_allclose(
            values + projections[0][:, None, :] + projections[1][:, :, None], terms[key], atol=1e-14
        )
        for axis in range(2):
            other = marginal(weights[key], [axis])
            np.testing.assert_allclose(np.tensordot(values, other, axes=(axis + 1, 0)), 0.0, atol=1e-14)
        assert certificate.impurity <= 1e-14
        assert certificate.empty_share == pytest.approx(np.mean(weights[key] == 0))


def test_the_impurity_is_the_largest_mean_of_a_slice_relative_to_its_output():
    rng = np.random.default_rng(1)
    weights = np.multiply.outer(rng.dirichlet(np.ones(4)), rng.dirichlet(np.ones(3)))
    values = rng.normal(size=(2, 4, 3)) * 1e8
    [(pure, certificate, *_)] = purify_product_pairs(
        {(0, 1): values}, lambda key: weights, np.array([2.0, 5.0]), 0.0
    ).values()
    means = [np.abs((pure * weights).sum(axis=axis) / weights.sum(axis=axis - 1)).max(axis=1) for axis in (1, 2)]
    assert certificate.impurity == pytest.approx(float((np.max(means, axis=0) / [2.0, 5.0]).max()), abs=1e-9)


def test_pairs_with_weights_that_nearly_vanish_are_left_to_others():
    weights = np.multiply.outer([1 - 1e-200, 1e-200], [1 - 1e-100, 1e-100])
    terms = {(0, 1): np.ones((1, 2, 2))}
    assert purify_product_pairs(terms, lambda key: weights, np.ones(1), 1e-293) == {}
    assert list(purify_product_pairs(terms, lambda key: weights, np.ones(1), 0.0)) == [(0, 1)]
