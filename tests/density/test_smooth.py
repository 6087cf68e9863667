"""Kernel and Auto: exact marginals, choices on known dependence, and hard cases."""

from __future__ import annotations

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.densities import assert_marginals_of_rows, bind_columns, near_copy, normals, quantile_axes
from tests.support.dependence import influence, kernel_ratio, related_codes
from treeanova.density import Auto, Kernel, Laplace
from treeanova.model.axes import CategoryAxis, IntervalAxis

# Exact marginals


@given(st.integers(0, 2**16), st.integers(1, 80), st.floats(-0.99, 0.99), st.booleans())
@settings(max_examples=15)
def test_every_smooth_table_has_the_marginals_of_the_rows(seed, n_rows, correlation, weighted):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    columns = [x, (correlation * x + 0.3 * rng.normal(size=n_rows)).round(1), rng.integers(0, 3, n_rows).astype(float)]
    columns[1][rng.random(n_rows) < 0.2] = np.nan
    if np.isnan(columns[1]).all():
        columns[1][0] = 0.0
    weights = rng.exponential(size=n_rows) if weighted else None
    for kind in (Auto(), Kernel(), Kernel(bandwidth=0.3)):
        density = bind_columns(kind, columns, missing=(1,), weights=weights)
        for key in [(0,), (0, 1), (0, 2), (1, 2)]:
            assert_marginals_of_rows(density, key)


@pytest.mark.parametrize("noise", [0.3, 0.03, 0.003])
@pytest.mark.parametrize("bandwidth", [0.1, 0.3, 1.0])
def test_marginals_stay_exact_where_features_are_nearly_copies(noise, bandwidth):
    density = bind_columns(Kernel(bandwidth=bandwidth), near_copy(noise=noise), (100, 80))
    assert_marginals_of_rows(density, (0, 1))


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_axes_of_ten_thousand_bins_keep_their_marginals(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    columns = [x, 0.8 * x + 0.6 * rng.normal(size=20_000)]
    density = bind_columns(kind, columns, (10_000, 300))
    assert density.grid.sizes == (10_000, 300)
    assert_marginals_of_rows(density, (0, 1))
    table = density.table((0, 1))
    for a, b in ((2000, 60), (5000, 150), (8000, 240)):  # the dependence is there, at quantiles
        cut = scipy.stats.norm.ppf([a / 10_000, b / 300])
        expected = scipy.stats.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]]).cdf(cut)
        assert table[:a, :b].sum() == pytest.approx(expected, abs=0.01)


# Choices


def test_auto_takes_independence_for_independent_features():
    for seed in range(3):
        density = bind_columns("auto", normals(0.0, 3000, seed)[:2], (60, 60))
        table, (choice,) = density.table((0, 1)), density.choices.values()
        assert choice.name in {"independent", "gaussian"}
        np.testing.assert_allclose(table, 1 / 3600, rtol=0.35)
        assert choice.over_empirical > 0.5


@pytest.mark.parametrize("correlation", [-0.8, 0.5, 0.9])
def test_auto_takes_the_gaussian_copula_for_normal_features(correlation):
    density = bind_columns("auto", normals(correlation, 3000, order=2), (40, 40))
    density.table((0, 1))
    choice = density.choices["a", "b"]
    assert choice.name == "gaussian"
    # The mutual information, up to three standard errors of its mean over 3,000 rows.
    assert choice.likelihood == pytest.approx(-0.5 * np.log(1 - correlation**2), abs=3 * abs(correlation) / 3000**0.5)
    assert choice.over_empirical > 0


def test_auto_takes_the_family_that_rows_come_from():
    rng = np.random.default_rng(0)
    frailty = rng.gamma(0.5, size=3000)
    columns = [
        -((1 + rng.exponential(size=3000) / frailty) ** -0.5),
        (1 + rng.exponential(size=3000) / frailty) ** -0.5,
    ]
    density = bind_columns("auto", columns, (40, 30))
    density.table((0, 1))
    assert density.choices["a", "b"].name == "clayton 90"  # the first feature is reversed


def test_auto_stays_close_to_the_rows_of_a_near_copy():
    columns = near_copy(n_rows=3000, noise=0.02)
    density = bind_columns("auto", columns, (60, 60))
    density.table((0, 1))
    name = density.choices["a", "b"].name
    assert name == "empirical" or float(name.split()[1]) <= 0.2


def test_auto_takes_a_kernel_for_a_bent_dependence():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    columns = [x, x**2 + 0.3 * rng.normal(size=3000)]
    density = bind_columns("auto", columns, (50, 50))
    table = density.table((0, 1))
    assert "kernel" in density.choices["a", "b"].name
    fresh = rng.normal(size=100_000)
    held_out = np.stack([fresh, fresh**2 + 0.3 * rng.normal(size=100_000)], axis=1)
    codes = density.grid.index(held_out)
    truth = np.bincount(codes[:, 0] * 50 + codes[:, 1], minlength=2500).reshape(50, 50) / 100_000
    distances = [
        np.abs(other.table((0, 1)) - truth).sum() for other in (bind_columns("empirical", columns, (50, 50)), density)
    ]
    assert distances[1] < 0.6 * distances[0]
    assert table is density.table((0, 1))  # counted once


def test_clusters_that_lie_apart_do_not_leak_into_each_other():
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, 3000)
    x = 10.0 * cluster + rng.normal(size=3000)
    columns = [x, -10.0 * cluster + rng.normal(size=3000)]
    density = bind_columns("auto", columns, (40, 40))
    table = density.table((0, 1))
    assert density.choices["a", "b"].name.endswith("of values")
    split = round(40 * np.mean(cluster == 0))
    wrong = table[: split - 1, : 40 - split - 1].sum() + table[split + 1 :, 40 - split + 1 :].sum()
    assert wrong < 0.002
    ranks = bind_columns(Kernel(bandwidth=0.4), columns, (40, 40)).table((0, 1))
    assert wrong < 0.5 * (ranks[: split - 1, : 40 - split - 1].sum() + ranks[split + 1 :, 40 - split + 1 :].sum())


def test_auto_is_reproducible_and_indifferent_to_the_order_of_rows():
    columns = normals(0.6, 700, seed=4)
    order = np.random.default_rng(1).permutation(700)
    first, again, shuffled = (
        bind_columns("auto", part, axes=quantile_axes(columns, (12, 9, 5)))
        for part in (columns, columns, [column[order] for column in columns])
    )
    for key in [(0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        np.testing.assert_array_equal(first.table(key), again.table(key))
        np.testing.assert_allclose(shuffled.table(key), first.table(key), rtol=1e-9, atol=1e-14)
    assert first.choices == again.choices
    assert list(first.choices) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_choices_are_of_the_pairs_asked_for():
    density = bind_columns("kernel", normals(0.6))
    assert density.choices == {}
    density.table((0, 2))
    assert list(density.choices) == [("a", "c")]
    assert density.choices["a", "c"].name.startswith("kernel")


def test_a_kernel_of_given_bandwidth():
    first, second = related_codes(seed=6)
    axes = [IntervalAxis("a", -1, np.arange(6) + 0.5), IntervalAxis("b", -1, np.arange(4) + 0.5)]
    density = bind_columns(Kernel(bandwidth=0.6), [first.astype(float), second.astype(float)], axes=axes)
    width = 0.6 * 60 ** (-1 / 6)
    ratio = kernel_ratio(first, second, influence(first, 7, 7, width), influence(second, 5, 5, width), range(60))
    masses = np.bincount(first, minlength=7) / 60, np.bincount(second, minlength=5) / 60
    expected = ratio * np.outer(*masses)
    for _ in range(500):
        expected *= (masses[0] / expected.sum(axis=1))[:, None]
        expected *= masses[1] / expected.sum(axis=0)
    np.testing.assert_allclose(density.table((0, 1)), expected, rtol=1e-8)
    assert density.choices["a", "b"].name == "kernel 0.6"


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan, "wide"])
def test_bandwidths_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="`bandwidth` must be positive"):
        Kernel(bandwidth=bandwidth)


# Categories and missing values


def categories_and_numbers(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 4, n_rows)
    number = np.array([0.0, 3.0, -3.0, 0.5])[code] + rng.normal(size=n_rows)
    return np.array(["u", "v", "w", "z"], dtype=object)[code], number


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_the_dependence_of_a_category_and_a_number_is_kept(kind):
    category, number = categories_and_numbers()
    axes = [CategoryAxis("k", -1, ("u", "v", "w", "z"), -1), *quantile_axes([number], (40,))]
    density = bind_columns(kind, [category, number], axes=axes)
    table = density.table((0, 1))
    assert_marginals_of_rows(density, (0, 1))
    bounds = density.grid.axes[1].edges
    for row, centre in zip(table, [0.0, 3.0, -3.0, 0.5], strict=True):
        cumulative = scipy.stats.norm.cdf(bounds - centre)
        assert np.abs(row / row.sum() - np.diff(cumulative)).sum() < 0.25


def test_categories_do_not_borrow_from_their_neighbours():
    category, number = categories_and_numbers()
    axes = [CategoryAxis("k", -1, ("u", "v", "w", "z"), -1), *quantile_axes([number], (40,))]
    table = bind_columns("auto", [category, number], axes=axes).table((0, 1))
    renamed = np.array([{"u": "w", "v": "z", "w": "v", "z": "u"}[label] for label in category], dtype=object)
    other = bind_columns("auto", [renamed, number], axes=axes).table((0, 1))
    np.testing.assert_allclose(other, table[[3, 2, 0, 1]], rtol=1e-9, atol=1e-15)


def test_two_categories():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 5000)
    second = np.where(rng.random(5000) < 0.7, first, rng.integers(0, 3, 5000))
    labels = np.array(["u", "v", "w"], dtype=object)
    axes = [CategoryAxis(name, -1, ("u", "v", "w"), -1) for name in "ab"]
    density = bind_columns("auto", [labels[first], labels[second]], axes=axes)
    expected = (0.7 * np.eye(3) + 0.1) / 3
    np.testing.assert_allclose(density.table((0, 1)), expected, atol=0.01)
    assert_marginals_of_rows(density, (0, 1))


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_missing_values_keep_to_themselves(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    holed = x + 0.5 * rng.normal(size=4000)
    holed[(x > 1) & (rng.random(4000) < 0.9)] = np.nan  # missing where the other is large
    density = bind_columns(kind, [x, holed], (30, 30), missing=(1,))
    table = density.table((0, 1))
    assert_marginals_of_rows(density, (0, 1))
    assert table.shape == (30, 31)
    large = np.arange(30) >= 26
    assert table[large, 30].sum() / table[:, 30].sum() > 0.8
    assert table[:20, 30].sum() < 0.005


# Hard cases: right, or clearly refused


ALL = [(0,), (1,), (0, 1)]


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_one_row(kind):
    axes = [IntervalAxis("a", -1, np.array([0.0, 1.0])), IntervalAxis("b", -1, np.array([0.0]))]
    density = bind_columns(kind, [np.array([0.5]), np.array([2.0])], axes=axes)
    expected = np.zeros((3, 2))
    expected[1, 1] = 1.0
    np.testing.assert_allclose(density.table((0, 1)), expected, atol=1e-15)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_constant_features(kind):
    x = np.random.default_rng(0).normal(size=200)
    axes = [*quantile_axes([x], (8,)), IntervalAxis("b", -1, np.array([])), IntervalAxis("c", -1, np.array([0.0, 1.0]))]
    density = bind_columns(kind, [x, np.full(200, 7.0), np.full(200, 0.5)], axes=axes)
    np.testing.assert_allclose(density.table((0, 1)), np.full((8, 1), 1 / 8), atol=1e-12)
    np.testing.assert_allclose(density.table((0, 2)), np.outer(np.full(8, 1 / 8), [0, 1, 0]), atol=1e-12)
    np.testing.assert_allclose(density.table((1, 2)), [[0, 1, 0]], atol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_features_of_two_bins(kind):
    rng = np.random.default_rng(0)
    first = rng.random(4000) < 0.3
    second = np.where(rng.random(4000) < 0.8, first, ~first)
    axes = [IntervalAxis(name, -1, np.array([0.5])) for name in "ab"]
    density = bind_columns(kind, [first.astype(float), second.astype(float)], axes=axes)
    assert_marginals_of_rows(density, (0, 1))
    np.testing.assert_allclose(density.table((0, 1)), [[0.56, 0.14], [0.06, 0.24]], atol=0.03)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_ties_and_heavy_point_masses(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    amount = np.where(rng.random(5000) < 0.4, 0.0, np.exp(x)).round(1)
    bounds = np.concatenate([[0.0], np.quantile(amount[amount > 0], np.arange(1, 20) / 20)])
    density = bind_columns(
        kind, [x, amount], axes=[*quantile_axes([x], (30,)), IntervalAxis("b", -1, np.unique(bounds))]
    )
    table = density.table((0, 1))
    assert_marginals_of_rows(density, (0, 1))
    zero = amount == 0  # independent of x except where exp(x) < 0.05
    assert table[:, 0].sum() == pytest.approx(zero.mean())
    np.testing.assert_allclose(table[5:25, 0], zero.mean() / 30, rtol=0.35)
    assert table[15:, 1:].sum() == pytest.approx(((x > np.median(x)) & ~zero).mean(), abs=0.03)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_two_features_that_are_all_missing(kind):
    missing = np.full(50, np.nan)
    axes = [IntervalAxis("a", 3, np.array([0.0, 1.0])), IntervalAxis("b", 2, np.array([0.0]))]
    table = bind_columns(kind, [missing, missing], axes=axes).table((0, 1))
    expected = np.zeros((4, 3))
    expected[3, 2] = 1.0
    np.testing.assert_allclose(table, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_bins_without_rows_have_no_mass(kind):
    x, y = normals(0.7, 300, order=2)
    axes = [IntervalAxis("a", -1, np.array([-50.0, -1, 0, 1, 40, 50])), IntervalAxis("b", -1, np.array([-9.0, 0, 9]))]
    density = bind_columns(kind, [x, y], axes=axes)
    table = density.table((0, 1))
    assert (table[[0, 5, 6]] == 0).all()
    assert (table[:, [0, 3]] == 0).all()
    assert_marginals_of_rows(density, (0, 1))


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_rows_of_weight_zero_do_not_count(kind):
    columns = normals(0.7, 400, order=2)
    weights = (np.arange(400) < 250).astype(float)
    axes = quantile_axes(columns, (12, 9))
    found = bind_columns(kind, columns, axes=axes, weights=weights)
    expected = bind_columns(kind, [column[:250] for column in columns], axes=axes)
    for key in ALL:
        np.testing.assert_allclose(found.table(key), expected.table(key), rtol=1e-9, atol=1e-15)
    assert found.choices["a", "b"].name == expected.choices["a", "b"].name


@pytest.mark.parametrize("kind", ["auto", "kernel", Kernel(bandwidth=0.5), "shrinkage", Laplace(counts=1)])
def test_weights_are_repeated_rows(kind):
    columns = normals(0.7, 300, order=2)
    counts = np.random.default_rng(1).integers(0, 4, 300)
    axes = quantile_axes(columns, (12, 9))
    found = bind_columns(kind, columns, axes=axes, weights=counts)
    expected = bind_columns(kind, [np.repeat(column, counts) for column in columns], axes=axes)
    for key in ALL:
        np.testing.assert_allclose(found.table(key), expected.table(key), rtol=1e-9, atol=1e-15)


def test_weights_that_are_all_the_same_are_none():
    columns = normals(0.7, 300, order=2)
    axes = quantile_axes(columns, (12, 9))
    once = bind_columns("auto", columns, axes=axes, weights=np.full(300, 5.0))
    plain = bind_columns("auto", columns, axes=axes)
    np.testing.assert_allclose(once.table((0, 1)), plain.table((0, 1)), rtol=1e-9)
