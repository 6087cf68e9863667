"""Statistics of rows against plain loops over the rows."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.densities import (
    MIXED_GRID,
    MIXED_KEYS,
    assert_mixed_tables,
    bind_mixed,
    grid_of_axes,
    marginal,
    mixed_cell,
    mixed_rows,
    mixed_shares,
)
from treeanova.density import Uniform
from treeanova.density.statistics import check_weighted_rows, statistics_of
from treeanova.model.axes import IntervalAxis
from treeanova.model.grid import binning_by

GRID = grid_of_axes([IntervalAxis("a", 3, np.array([0.0, 1.0])), IntervalAxis("b", -1, np.array([5.0]))])
VALUES = np.array([[-2.0, 1], [0, 2], [0.5, 3], [np.inf, 4], [np.nan, 5], [3, 6], [-np.inf, 7], [1, 8]])
WEIGHTS = np.array([1.0, 2, 3, 4, 5, 6, 7, 8])


def weights_of(weighted, n_rows, seed=0):
    return np.random.default_rng(seed).exponential(size=n_rows) if weighted else None


@given(st.integers(0, 2**16), st.integers(1, 60), st.booleans())
def test_counts_are_shares_of_the_rows_in_each_cell(seed, n_rows, weighted):
    table, weights = mixed_rows(seed, n_rows), weights_of(weighted, n_rows, seed)
    statistics, joint = statistics_of(table, MIXED_GRID, weights), mixed_shares(table, weights)
    for key in MIXED_KEYS:
        np.testing.assert_allclose(statistics.counts(key), marginal(joint, key), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("weighted", [False, True])
def test_counts_in_coarse_bins_are_sums_of_those_in_fine_bins(weighted):
    table = mixed_rows(n_rows=200)
    statistics = statistics_of(table, MIXED_GRID, weights_of(weighted, 200))
    binnings = [binning_by(np.array([0, 0, 1, 2])), binning_by(np.array([0, 1])), binning_by(np.array([0, 1, 0]))]
    for key in MIXED_KEYS:
        chosen = [binnings[j] for j in key]
        expected = np.zeros([binning.size for binning in chosen])
        for cell in itertools.product(*(range(MIXED_GRID.sizes[j]) for j in key)):
            coarse = tuple(binning.bins[b] for binning, b in zip(chosen, cell, strict=True))
            expected[coarse] += statistics.counts(key)[cell]
        np.testing.assert_allclose(statistics.counts(key, chosen), expected, rtol=1e-12)


def test_counts_of_the_axes_in_another_order_are_transposed():
    statistics = statistics_of(mixed_rows(), MIXED_GRID)
    np.testing.assert_array_equal(statistics.counts((2, 0)), statistics.counts((0, 2)).T)


def test_means_of_bins_are_of_finite_values_only():
    means = statistics_of(VALUES, GRID, WEIGHTS).bin_means(0)
    np.testing.assert_allclose(means, [(1 * -2 + 2 * 0) / 3, (3 * 0.5 + 8 * 1) / 11, 3.0, np.nan])
    halves = binning_by(np.array([0, 0, 1, 1]))
    np.testing.assert_allclose(statistics_of(VALUES, GRID).bin_means(0, halves), [(-2 + 0 + 0.5 + 1) / 4, 3.0])


def test_range_and_quantiles_are_of_finite_values():
    statistics = statistics_of(VALUES, GRID, WEIGHTS)
    assert statistics.value_range(0) == (-2.0, 3.0)
    np.testing.assert_allclose(statistics.quantiles(0, [0.25, 0.5]), np.quantile([-2, 0, 0.5, 3, 1], [0.25, 0.5]))
    missing = statistics_of([[np.nan, 1.0], [np.inf, 2.0]], GRID)
    assert missing.value_range(0) is None
    assert missing.quantiles(0, [0.5]) is None


def test_histogram_is_the_share_of_rows_between_ends():
    shares = statistics_of(VALUES, GRID, WEIGHTS).histogram(1, 2.0, 6.0, 2)
    np.testing.assert_allclose(shares, [(2 + 3) / 36, (4 + 5 + 6) / 36])
    np.testing.assert_allclose(statistics_of(VALUES, GRID).histogram(0, -2.0, 3.0, 1), [5 / 8])


@pytest.mark.parametrize("start", [0.0, 2.0**53, -(2.0**53), 2.0**60, 2.0**1000])
def test_histogram_of_a_narrow_range_far_from_zero(start):
    """Intervals may be shorter than the distance between neighbouring floats: 20 steps in 8 intervals of 2.5."""
    steps = np.arange(21.0)
    values = start + steps * max(np.spacing(abs(start)), 1.0) * (2 if start < 0 else 1)
    table = np.stack([values, values], axis=1)
    expected = np.bincount(np.minimum(steps * 8 // 20, 7).astype(int)) / 21
    np.testing.assert_allclose(statistics_of(table, GRID).histogram(0, values[0], values[-1], 8), expected)


def test_histogram_of_the_widest_range():
    values = np.array([[-1.7e308, 0.0], [-1e307, 0.0], [1e307, 0.0], [1.7e308, 0.0]])
    np.testing.assert_allclose(statistics_of(values, GRID).histogram(0, -1.7e308, 1.7e308, 2), [0.5, 0.5])


@given(st.integers(1, 500), st.integers(1, 200), st.booleans())
def test_some_rows_are_distinct_and_fewer_than_twice_as_many(n_rows, wanted, weighted):
    column = np.arange(float(n_rows))
    grid = grid_of_axes([IntervalAxis("a", -1, np.array([0.5]))])
    weights = weights_of(weighted, n_rows)
    values, shares = statistics_of(column[:, None], grid, weights).rows(wanted)
    assert min(wanted, n_rows) <= len(values) < 2 * wanted or len(values) == n_rows
    assert len(set(values[:, 0])) == len(values)
    expected = np.ones(len(values)) if weights is None else weights[values[:, 0].astype(int)]
    np.testing.assert_allclose(shares, expected / expected.sum(), rtol=1e-12)


@pytest.mark.parametrize("weighted", [False, True])
def test_points_are_the_cells_of_all_rows(weighted):
    table, weights = mixed_rows(), weights_of(weighted, 40)
    codes, shares = statistics_of(table, MIXED_GRID, weights).points()
    of_rows = np.full(40, 1 / 40) if weights is None else weights / weights.sum()
    expected = sorted((*mixed_cell(row), share) for row, share in zip(table, of_rows, strict=True))
    found = sorted((*row, share) for row, share in zip(codes.tolist(), shares, strict=True))
    np.testing.assert_allclose(found, expected, rtol=1e-12)


@given(st.integers(0, 2**16), st.integers(1, 60), st.booleans(), st.randoms())
def test_what_is_taken_from_rows_does_not_depend_on_their_order(seed, n_rows, weighted, random):
    table, weights = mixed_rows(seed, n_rows), weights_of(weighted, n_rows, seed)
    order = random.sample(range(n_rows), n_rows)
    first = statistics_of(table, MIXED_GRID, weights)
    second = statistics_of([table[i] for i in order], MIXED_GRID, None if weights is None else weights[order])
    for one, other in zip(first.points(), second.points(), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    for one, other in zip(first.rows(7), second.rows(7), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)
    drawn = (statistics.resampled(np.random.default_rng(1)).points() for statistics in (first, second))
    for one, other in zip(*drawn, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-13)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_effective_number_of_rows_is_kishs(weighted):
    weights = weights_of(weighted, 40)
    statistics = statistics_of(mixed_rows(), MIXED_GRID, weights)
    expected = 40 if weights is None else weights.sum() ** 2 / (weights**2).sum()
    assert statistics.effective_rows == pytest.approx(expected, rel=1e-12)
    assert statistics.has_weights == weighted
    assert statistics.n_rows == 40


def test_the_same_rows_on_another_grid():
    other = grid_of_axes([IntervalAxis("a", 1, np.empty(0)), IntervalAxis("b", -1, np.array([2.0, 6.0]))])
    statistics = statistics_of(VALUES, GRID, WEIGHTS)
    moved = statistics.on(other)
    np.testing.assert_allclose(moved.counts((0,)), [31 / 36, 5 / 36])
    np.testing.assert_allclose(moved.counts((1,)), [3 / 36, 18 / 36, 15 / 36])
    assert statistics.on(GRID) is statistics


@pytest.mark.parametrize("weighted", [False, True])
def test_a_bootstrap_draws_rows_with_their_weights(weighted):
    weights = WEIGHTS if weighted else np.ones(8)
    statistics = statistics_of(VALUES, GRID, WEIGHTS if weighted else None)
    drawn = statistics.resampled(np.random.default_rng(3))
    times = drawn.sample.weights / weights
    times = np.round(8 * times / times.sum()).astype(int)
    repeated = statistics_of(VALUES, GRID, times * weights)
    assert times.sum() == 8
    for key in [(0,), (1,), (0, 1)]:
        np.testing.assert_allclose(drawn.counts(key), repeated.counts(key), rtol=1e-12)


def test_a_bootstrap_varies_as_means_of_weighted_rows_do():
    values, weights = np.arange(400.0)[:, None] % 2, np.random.default_rng(0).exponential(size=400)
    grid = grid_of_axes([IntervalAxis("a", -1, np.array([0.5]))])
    statistics = statistics_of(values, grid, weights)
    found = np.std([statistics.resampled(np.random.default_rng(seed)).counts((0,))[1] for seed in range(800)])
    shares = weights / weights.sum()
    mean = shares @ values[:, 0]
    assert found == pytest.approx(np.sqrt(shares**2 @ (values[:, 0] - mean) ** 2), rel=0.1)
    assert statistics.resampling_factor == 1.0


def test_rows_of_negligible_weight_are_left_out():
    table, weights = mixed_rows(), np.random.default_rng(2).integers(0, 2, 40)
    table[:, 0][weights == 0] = 1e6
    assert statistics_of(table, MIXED_GRID, weights).n_rows == weights.sum()
    tiny = np.where(weights == 0, 1e-13, 1.0)
    assert statistics_of(table, MIXED_GRID, tiny).n_rows == weights.sum()
    by_length = [bind_mixed(Uniform(measure="length"), *given) for given in ((table, weights), (table[weights > 0],))]
    assert_mixed_tables(by_length[0], by_length[1].table)


def test_weights_near_the_largest_number_do_not_overflow():
    table = mixed_rows()
    weights = np.linspace(0.5, 1, 40)
    small, huge = (statistics_of(table, MIXED_GRID, weights * factor) for factor in (1.0, 1.7e308))
    np.testing.assert_allclose(huge.counts((0, 1)), small.counts((0, 1)), rtol=1e-12)


def test_rows_and_their_weights_are_checked():
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        statistics_of(mixed_rows()[:0], MIXED_GRID)
    with pytest.raises(ValueError, match=r"`sample_weight` must have one entry per row, 40, got shape \(3,\)"):
        statistics_of(mixed_rows(), MIXED_GRID, [1, 2, 3])
    for bad in (-1.0, np.nan, np.inf):
        with pytest.raises(ValueError, match=rf"not negative and not all zero, got {bad:g} at row 1; correct"):
            statistics_of(mixed_rows(), MIXED_GRID, [1.0, bad, *[1.0] * 38])
    with pytest.raises(ValueError, match="must be finite, not negative and not all zero, got zeros only"):
        statistics_of(mixed_rows(), MIXED_GRID, np.zeros(40))


def test_weights_need_rows():
    check_weighted_rows([[1.0]], [1.0])
    check_weighted_rows(None, None)
    with pytest.raises(ValueError, match=r"come with the rows that it weighs, got weights of shape \(3,\) and X=None"):
        check_weighted_rows(None, [1, 2, 3])
    with pytest.raises(ValueError, match="got 'w' and X=None; pass `X` too"):
        check_weighted_rows(None, "w")


def test_equal_weights_are_no_different_from_none():
    table = mixed_rows()
    plain, weighted = statistics_of(table, MIXED_GRID), statistics_of(table, MIXED_GRID, np.full(40, 7.0))
    np.testing.assert_allclose(weighted.counts((0, 1, 2)), plain.counts((0, 1, 2)), rtol=1e-12)
    assert math.isclose(weighted.effective_rows, plain.effective_rows)
