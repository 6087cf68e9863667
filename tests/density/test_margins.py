"""Kernels over the bins of one feature against plain loops over rows."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st

from tests.support.dependence import influence, kernel_ratio, of_one_pair, pair_of, pair_of_codes, related_codes
from treeanova.density.smooth import choice as estimates
from treeanova.density.smooth.margins import Margin


def test_kernels_of_values_measure_distance_in_values():
    first, second = related_codes(seed=8)
    values = np.array([0.0, 0.1, 0.3, 4.0, 4.2, 9.0, 10.0]), np.array([-1.0, 0.0, 5.0, 5.5, 6.0])
    shares = np.zeros((7, 5))
    np.add.at(shares, (first, second), 1 / 60)
    margins = [Margin(shares.sum(axis=1 - i), (7, 5)[i], 60, values[i]) for i in range(2)]
    found = of_one_pair(estimates.kernel, pair_of(*margins, shares), 0.5, 0.0, "values").ratio
    width, kernels = 0.5 * 60 ** (-1 / 6), []
    for codes, own, n_bins in ((first, values[0], 7), (second, values[1], 5)):
        masses = np.bincount(codes, minlength=n_bins) / 60
        low, high = np.interp([0.25, 0.75], np.cumsum(masses) - masses / 2, own)
        kernels.append(influence(codes, n_bins, n_bins, width, own / (high - low) * 1.349))
    np.testing.assert_allclose(found, kernel_ratio(first, second, *kernels, range(60)), rtol=1e-8)


def test_bins_without_an_order_do_not_see_rows_of_other_bins():
    first, second = related_codes()
    ratio = of_one_pair(estimates.kernel, pair_of_codes(first, second, (7, 5), (6, 5)), 5.0, 0.0).ratio
    moved = first.copy()
    moved[first < 6] = 5 - first[first < 6]
    other = of_one_pair(estimates.kernel, pair_of_codes(moved, second, (7, 5), (6, 5)), 5.0, 0.0).ratio
    np.testing.assert_allclose(other[6], ratio[6])  # where the ordered rows are does not matter


@given(st.integers(0, 2**16), st.integers(1, 60), st.integers(0, 3), st.integers(1, 20))
def test_groups_are_neighbours_of_about_equal_mass(seed, n_ordered, n_extra, max_groups):
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.full(n_ordered + n_extra, 0.7))
    margin = Margin(masses, n_ordered, 100.0, max_groups=max_groups)
    ordered, extra = margin.groups[:n_ordered], margin.groups[n_ordered:]
    assert set(np.diff(ordered)) <= {0, 1}
    assert extra.tolist() == list(range(ordered[-1] + 1, ordered[-1] + 1 + n_extra))
    assert margin.n_ordered_groups == ordered[-1] + 1 <= max(n_ordered if n_ordered <= max_groups else 0, max_groups)
    if n_ordered <= max_groups:
        assert ordered.tolist() == list(range(n_ordered))
    for group, mass in enumerate(margin.group_masses):
        bins = masses[margin.groups == group]
        assert mass == pytest.approx(bins.sum())
        is_merged = n_ordered > max_groups and group < margin.n_ordered_groups
        # the middle of the first and of the last bin lie within one step
        if is_merged and len(bins) > 1:
            step = masses[:n_ordered].sum() / max_groups
            assert bins.sum() - bins[0] / 2 - bins[-1] / 2 <= step * (1 + 1e-9)


@pytest.mark.parametrize("scale", ["ranks", "values"])
@pytest.mark.parametrize("bandwidth", [0.05, 0.3, 2.0])
def test_kernels_keep_the_masses(scale, bandwidth):
    rng = np.random.default_rng(0)
    masses = rng.dirichlet(np.ones(12))
    masses[4] = 0.0
    masses /= masses.sum()
    margin = Margin(masses, 10, 200.0, np.sort(rng.exponential(size=10)))
    kernel = margin.kernel(bandwidth, scale).left(np.eye(12))
    np.testing.assert_allclose(kernel, kernel.T, rtol=1e-12)
    np.testing.assert_allclose(kernel @ masses, 1.0, atol=1e-11)
    assert kernel[10, :10].max() == kernel[11, 10] == 0.0  # bins without an order stay where they are


def test_shrinkage_keeps_the_masses_and_moves_a_share_of_the_rows():
    masses = np.array([0.5, 0.3, 0.2, 0.0])
    matrix = Margin(masses, 0, 10.0).shrinkage(0.2).left(np.eye(4))
    np.testing.assert_allclose((matrix @ masses)[:3], 1.0)
    moves = masses[:, None] * matrix  # from columns to rows
    np.testing.assert_allclose(moves[0, :3], [0.8 + 0.2 * 0.5, 0.2 * 0.5, 0.2 * 0.5])


def test_matrices_of_kernels_multiply_as_dense_ones_do():
    masses = np.random.default_rng(0).dirichlet(np.ones(12))
    margin = Margin(masses, 7, 200.0, np.arange(7.0))
    tables = np.random.default_rng(1).random((3, 12, 5))
    for kernel in (margin.kernel(0.5), margin.kernel(0.5).squares(), Margin(masses, 0, 200.0).shrinkage(0.3)):
        dense = np.stack([kernel.column(group) for group in range(12)], axis=1)
        np.testing.assert_allclose(kernel.left(tables), dense @ tables, rtol=1e-13)
        np.testing.assert_allclose(kernel.right(tables.swapaxes(1, 2)), tables.swapaxes(1, 2) @ dense.T, rtol=1e-13)
        np.testing.assert_allclose(kernel.diagonal, np.diag(dense), rtol=1e-15)
    np.testing.assert_allclose(margin.kernel(0.5).squares().column(2), margin.kernel(0.5).column(2) ** 2, rtol=1e-15)


def test_kernels_of_many_categories_take_little_memory():
    margin = Margin(np.full(100_000, 1e-5), 0, 1e6)  # a dense matrix would take 80 GB
    for kernel in (margin.kernel(0.5), margin.shrinkage(0.2)):
        assert sum(part.nbytes for part in (kernel.ordered, kernel.diagonals, kernel.constants)) < 1e6
        np.testing.assert_allclose(kernel.left(margin.masses[:, None]), 1.0, rtol=1e-12)


def test_scores_are_normal_quantiles_of_mid_ranks():
    margin = Margin(np.array([0.1, 0.4, 0.3, 0.2]), 3, 1000.0)
    np.testing.assert_allclose(margin.scores, scipy.stats.norm.ppf(np.array([0.05, 0.3, 0.65]) / 0.8), rtol=1e-12)
    assert margin.points.shape == (3, 16)
    np.testing.assert_allclose(scipy.stats.norm.cdf(margin.points[0]), (np.arange(16) + 0.5) / 16 / 8, rtol=1e-9)


def test_positions_fall_back_to_scores_where_values_do_not_vary():
    masses = np.array([0.25, 0.25, 0.5])
    for values in (None, np.full(3, np.nan), np.full(3, 7.0)):
        margin = Margin(masses, 3, 100.0, values)
        np.testing.assert_array_equal(margin.positions, margin.scores)


def test_positions_of_groups_without_values_lie_between_others():
    values = np.array([0.0, np.nan, 2.0, 3.0, 4.0])
    positions = Margin(np.full(5, 0.2), 5, 100.0, values).positions
    np.testing.assert_allclose(np.diff(positions), positions[1] - positions[0])
