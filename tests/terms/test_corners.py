"""Corners: sums over leaves of outer products of sets, against dense matrices of zeros and ones."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.sparse

from treeanova.core.compiled import has_numba
from treeanova.model.grid import binning_by, unmerged
from treeanova.terms import costs
from treeanova.terms import kernels as corners
from treeanova.terms.kernels import Corners, add_corners, add_corners_by_numpy, centred_products
from treeanova.terms.leaves import Intervals


def random_intervals(rng, n_leaves, n_intervals, *, has_missing):
    """Random intervals, empty ones among them, some with the bin of missing values; and the same bin by bin."""
    low, high = rng.integers(0, n_intervals + 1, size=(2, n_leaves))
    missing = (rng.random(n_leaves) < 0.5) & has_missing
    bins = np.arange(n_intervals)
    inside = (bins >= low[:, None]) & (bins < high[:, None])
    dense = np.column_stack([inside, missing]) if has_missing else inside
    sets = Intervals(np.arange(n_leaves), low.astype(np.int32), high.astype(np.int32), missing, n_intervals)
    return sets, dense.astype(float)


def merged(rng, n_intervals, *, has_missing):
    """Neighbours merged with random shares, the bin of missing values apart; and the same as a matrix."""
    groups = np.sort(rng.integers(0, 4, size=n_intervals))
    masses = rng.dirichlet(np.ones(n_intervals + has_missing))
    binning = binning_by(np.append(groups, 9) if has_missing else groups, masses)
    spread = np.zeros((len(masses), binning.size))
    for fine, coarse in enumerate(binning.bins):
        spread[fine, coarse] = masses[fine] / masses[binning.bins == coarse].sum()
    return binning, spread


def random_case(seed, *, is_merged=True, n_leaves=40):
    """Corners of two features, the sets that they stand for, and leaves that have both features in any order."""
    rng = np.random.default_rng(seed)
    both, dense = [], []
    for has_missing in (bool(seed % 2), bool(seed % 3)):
        n_intervals = int(rng.integers(1, 9))
        sets, inside = random_intervals(rng, 25, n_intervals, has_missing=has_missing)
        n_bins = n_intervals + has_missing
        binning, spread = merged(rng, n_intervals, has_missing=has_missing)
        if not is_merged:
            binning, spread = unmerged(n_bins), np.eye(n_bins)
        leaves = rng.integers(0, 25, size=n_leaves)
        both.append(Corners.of_sets(sets, binning, rng.random(25)).take(leaves))
        dense.append((inside @ spread)[leaves])
    weights = rng.normal(size=(n_leaves, 2))
    weights[rng.random(weights.shape) < 0.3] = 0.0  # a leaf need not have all outputs
    return both, dense, weights


def by_definition(both, dense, weights):
    """Σ c (A - p)ᵀ (B - q), leaf by leaf."""
    total = np.zeros((weights.shape[1], dense[0].shape[1], dense[1].shape[1]))
    for c, a, b, p, q in zip(weights, *dense, *(of_feature.masses for of_feature in both), strict=True):
        total += np.multiply.outer(c, np.outer(a - p, b - q))
    return total


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_products_are_those_of_dense_sets(seed, is_merged):
    both, dense, weights = random_case(seed, is_merged=is_merged)
    np.testing.assert_allclose(centred_products(*both, weights), by_definition(both, dense, weights), atol=1e-12)


@pytest.mark.parametrize("is_merged", [False, True])
@pytest.mark.parametrize("seed", range(12))
def test_sums_are_those_of_dense_sets(seed, is_merged):
    (first, _), (dense, _), weights = random_case(seed, is_merged=is_merged)
    np.testing.assert_allclose(first.weighted_sum(weights[:, 0]), weights[:, 0] @ dense, atol=1e-13)


def test_leaves_come_in_blocks(monkeypatch):
    monkeypatch.setattr(costs, "CORNER_LEAVES", 7)
    both, dense, weights = random_case(5)
    np.testing.assert_allclose(centred_products(*both, weights), by_definition(both, dense, weights), atol=1e-12)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
@pytest.mark.parametrize("seed", range(12))
def test_kernel_gives_the_numbers_of_numpy(seed):
    both, _, weights = random_case(seed, is_merged=seed > 5, n_leaves=40 * (seed > 0))
    for ours, numpys in zip(add_corners(*both, weights), add_corners_by_numpy(*both, weights), strict=True):
        np.testing.assert_allclose(ours, numpys, rtol=0, atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_kernel_in_plain_python_gives_the_products_of_dense_sets(seed, monkeypatch):
    both, dense, weights = random_case(seed)
    monkeypatch.setattr(costs, "is_compiled", lambda **_: True)
    monkeypatch.setattr(corners, "add_corners", add_corners.function)
    monkeypatch.setattr(corners, "gather", corners.gather.function)
    monkeypatch.setattr(corners, "add_corners_by_numpy", None)
    np.testing.assert_allclose(centred_products(*both, weights), by_definition(both, dense, weights), atol=1e-12)


def test_rows_of_a_sparse_matrix_become_arrays_of_equal_length():
    steps = np.array([[1.0, 0, -1, 0], [0, 0, 0, 0], [0, 0.5, 0.25, -0.75], [0, 0, 0, 1]])
    found = Corners.of_differences(scipy.sparse.csr_array(steps), np.zeros(4))
    assert found.bins.shape == found.values.shape == (4, 3)
    np.testing.assert_array_equal(found.rows, np.arange(4)[:, None])
    assert found.n_bins == 4
    again = np.zeros_like(steps)
    for leaf in range(4):
        for place in range(3):
            again[leaf, found.bins[leaf, place]] += found.values[leaf, place]
    np.testing.assert_array_equal(again, steps)


def test_sets_with_many_ends_have_no_corners(monkeypatch):
    steps = scipy.sparse.csr_array(np.eye(3, 9) + np.tile([0, 0, 0, 1, 1, 1, 1, 1, 1], (3, 1)))
    assert Corners.of_differences(steps, np.zeros(3)).values.shape == (3, 7)
    monkeypatch.setattr(costs, "MAX_CORNERS", 6)
    assert Corners.of_differences(steps, np.zeros(3)) is None


def test_sets_that_are_all_empty_leave_the_masses():
    masses = np.array([0.5, 0.25]), np.array([1.0, 2.0])
    first, second = (Corners.of_differences(scipy.sparse.csr_array((2, 3)), of_leaves) for of_leaves in masses)
    assert first.values.shape == (2, 0)
    weights = np.array([[1.0], [-3.0]])
    np.testing.assert_array_equal(centred_products(first, second, weights), np.full((1, 3, 3), 0.5 - 1.5))
    np.testing.assert_array_equal(first.weighted_sum(weights[:, 0]), np.zeros(3))
