"""Properties of weights against singular values and plain searches."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.strategies import random_weights
from treeanova import purify
from treeanova.anova.support import bin_components, is_product, maximal_correlation, normalise, projection_correlation
from treeanova.testing import correlated_weights


def second_singular_value(weights):
    scaled = weights / np.sqrt(np.outer(weights.sum(axis=1), weights.sum(axis=0)))
    return np.linalg.svd(scaled, compute_uv=False)[1]


@pytest.mark.parametrize("size", [5, 30, 120])
def test_maximal_correlation_is_the_second_singular_value(size):
    weights = correlated_weights((size, size + 3), 0.8)
    expected = second_singular_value(weights)
    assert maximal_correlation(weights) == pytest.approx(expected, rel=1e-6)
    assert maximal_correlation(weights.T) == pytest.approx(expected, rel=1e-6)
    assert purify(np.ones(weights.shape), weights).certificate.max_correlation == pytest.approx(expected, rel=1e-6)


def test_maximal_correlation_is_the_largest_within_a_component():
    parts = [correlated_weights((6, 5), 0.4), correlated_weights((40, 38), 0.9), np.ones((1, 1))]
    weights = np.zeros((47, 44))
    weights[:6, :5], weights[6:46, 5:43], weights[46:, 43:] = parts
    assert maximal_correlation(weights) == pytest.approx(second_singular_value(parts[1]), rel=1e-6)
    assert maximal_correlation(np.eye(4)) == 0.0


@pytest.mark.parametrize("correlation", [0.0, 0.3, 0.9])
def test_the_projection_correlation_of_a_pair_is_its_maximal_correlation(correlation):
    weights = correlated_weights((4, 6), correlation)
    assert projection_correlation(weights) == pytest.approx(second_singular_value(weights), abs=1e-10)


def test_the_projection_correlation_of_independent_axes_is_that_of_overlapping_projections():
    # Slices of two axes of a tensor share all functions of the third: on these the Gram matrix has eigenvalue 2.
    weights = np.einsum("i,j,k->ijk", [0.3, 0.7], [0.2, 0.8], [0.5, 0.5])
    columns = [np.delete(np.indices((2, 2, 2)).reshape(3, -1), axis, axis=0) for axis in range(3)]
    table = np.concatenate([np.eye(4)[:, 2 * bins[0] + bins[1]] for bins in columns]) * np.sqrt(weights.ravel())
    eigenvalues = np.linalg.eigvalsh((gram := table @ table.T) / np.sqrt(np.outer(np.diag(gram), np.diag(gram))))
    assert projection_correlation(weights) == pytest.approx(
        1 - min(eigenvalues[eigenvalues > 1e-9].min(), 1), abs=1e-10
    )


@pytest.mark.parametrize("sizes", [(4,), (3, 4), (2, 3, 4)])
def test_products_of_marginals_are_recognised(sizes):
    rng = np.random.default_rng(0)
    weights = np.ones(())
    for size in sizes:
        weights = np.multiply.outer(weights, rng.random(size))
    weights /= weights.sum()
    assert is_product(weights)
    weights[(0,) * len(sizes)] *= 1 + 1e-12
    assert is_product(weights / weights.sum()) == (len(sizes) == 1)


def components_by_search(weights):
    """Sets of bins, as pairs of axis and bin, that cells with mass connect."""
    groups = []
    for cell in zip(*np.nonzero(weights), strict=True):
        bins = {(axis, int(bin_)) for axis, bin_ in enumerate(cell)}
        touched = [group for group in groups if group & bins]
        groups = [group for group in groups if not group & bins] + [bins.union(*touched)]
    return groups


@given(
    st.lists(st.integers(1, 6), min_size=2, max_size=3),
    st.sampled_from(["sparse", "blocks", "counts", "dense"]),
    st.integers(0, 2**32 - 1),
)
def test_components_are_those_of_a_plain_search(sizes, kind, seed):
    weights = random_weights(kind, tuple(sizes), np.random.default_rng(seed))
    for axis in range(weights.ndim):  # every bin must have mass
        others = tuple(set(range(weights.ndim)) - {axis})
        weights = np.compress(weights.sum(axis=others) > 0, weights, axis=axis)
    n_components, labels = bin_components(weights)
    groups = components_by_search(weights)
    assert n_components == len(groups)
    for group in groups:
        assert len({int(labels[axis][bin_]) for axis, bin_ in group}) == 1


@pytest.mark.parametrize("density", [0.05, 0.6])
def test_normalised_weights_may_be_sparse(density):
    rng = np.random.default_rng(0)
    weights = rng.random((30, 20)) * (rng.random((30, 20)) < density) + np.eye(30, 20) + np.eye(30, 20, -20)
    matrix, rows, columns = normalise(weights)
    dense = matrix.toarray() if hasattr(matrix, "toarray") else matrix
    np.testing.assert_allclose(dense, weights / np.sqrt(np.outer(weights.sum(axis=1), weights.sum(axis=0))), rtol=1e-13)
    np.testing.assert_allclose(rows**2, weights.sum(axis=1))
    np.testing.assert_allclose(columns**2, weights.sum(axis=0))
