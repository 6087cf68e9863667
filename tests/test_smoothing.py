"""Smooth densities against plain loops over rows, scipy.stats, refits without a row, and the laws they must keep."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
import scipy.optimize
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

from treeanova import decompose, density_sensitivity
from treeanova.data.features import Feature, Labels, Schema
from treeanova.density import candidates as estimates
from treeanova.density import copulas
from treeanova.density.choice import BANDWIDTHS, all_candidates, kernel_candidates
from treeanova.density.kinds import Auto, Independent, Kernel, density_of, statistics_of
from treeanova.density.margins import Margin
from treeanova.density.pairs import full_table, log_likelihood, pair_of
from treeanova.density.raking import rake_to_marginals
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid

FLOOR = 0.01  # a row left out is judged by at least this share of independence


# Oracles: everything from the rows, one at a time


def normal_scores(codes, n_ordered, n_bins):
    """Normal score of the mid-rank of each ordered bin among the rows in ordered bins."""
    ordered = codes[codes < n_ordered]
    ranks = np.array([((ordered < b).sum() + (ordered == b).sum() / 2) / max(len(ordered), 1) for b in range(n_bins)])
    edge = 0.25 / max(len(ordered), 1)
    return scipy.stats.norm.ppf(np.clip(ranks, edge, 1 - edge))


def influence(codes, n_ordered, n_bins, width, at=None):
    """Symmetric kernel of bins b and c whose mean over all rows is 1 in every bin b; own bins see themselves."""
    at = normal_scores(codes, n_ordered, n_bins) if at is None else at
    table = np.zeros((n_bins, n_bins))
    for b, c in itertools.product(range(n_bins), repeat=2):
        if b < n_ordered and c < n_ordered:
            table[b, c] = scipy.stats.t.pdf((at[b] - at[c]) / width, df=5)
        elif b == c:
            table[b, c] = 1.0

    def excess(logs):
        factors = np.exp(logs)
        return [np.mean([factors[b] * table[b, code] * factors[code] for code in codes]) - 1 for b in range(n_bins)]

    factors = np.exp(scipy.optimize.root(excess, np.zeros(n_bins), tol=1e-13).x)
    return table * np.outer(factors, factors)


def kernel_ratio(first, second, of_first, of_second, rows):
    """Mean over some rows of the product of their kernels, at every cell."""
    return np.mean([np.outer(of_first[:, first[i]], of_second[:, second[i]]) for i in rows], axis=0)


def related_codes(n_rows=60, sizes=(7, 5), seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    columns = [x, 0.7 * x + 0.7 * rng.normal(size=n_rows)]
    return [
        np.digitize(column, np.quantile(column, np.arange(1, size) / size) + 0.1)
        for column, size in zip(columns, sizes, strict=True)
    ]


def pair_of_codes(first, second, sizes, ordered=None, *, values=(None, None)):
    n_first, n_second = ordered or sizes
    shares = np.zeros(sizes)
    np.add.at(shares, (first, second), 1 / len(first))
    margins = [
        Margin(shares.sum(axis=1), n_first, len(first), values[0]),
        Margin(shares.sum(axis=0), n_second, len(first), values[1]),
    ]
    return pair_of(*margins, shares)


@pytest.mark.parametrize("ordered", [(7, 5), (6, 5), (7, 4), (0, 5), (7, 0)])
@pytest.mark.parametrize("bandwidth", [0.2, 1.0])
def test_the_kernel_ratio_is_a_plain_double_loop(ordered, bandwidth):
    first, second = related_codes()
    width = bandwidth * 60 ** (-1 / 6)
    of_first, of_second = influence(first, ordered[0], 7, width), influence(second, ordered[1], 5, width)
    expected = kernel_ratio(first, second, of_first, of_second, range(60))
    found = estimates.kernel(pair_of_codes(first, second, (7, 5), ordered), bandwidth, 0.0)
    np.testing.assert_allclose(found.ratio, expected, rtol=1e-10, atol=1e-14)
    shrunk = estimates.kernel(pair_of_codes(first, second, (7, 5), ordered), bandwidth, 0.3)
    np.testing.assert_allclose(shrunk.ratio, 0.7 * expected + 0.3, rtol=1e-10)


@pytest.mark.parametrize("ordered", [(7, 5), (6, 5), (0, 5)])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
def test_left_out_ratios_of_a_kernel_are_those_of_a_fit_without_the_row(ordered, shrinkage):
    first, second = related_codes(seed=1)
    width = 0.4 * 60 ** (-1 / 6)
    of_first, of_second = influence(first, ordered[0], 7, width), influence(second, ordered[1], 5, width)
    found = estimates.kernel(pair_of_codes(first, second, (7, 5), ordered), 0.4, shrinkage)
    share = max(shrinkage, FLOOR)
    for row in range(60):
        cell = first[row], second[row]
        without = kernel_ratio(first, second, of_first, of_second, [i for i in range(60) if i != row])[cell]
        assert found.left_out[cell] == pytest.approx((1 - share) * without + share, rel=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.05, 0.5])
def test_left_out_ratios_of_shares_are_those_without_the_row(shrinkage):
    first, second = related_codes(seed=2)
    found = estimates.empirical(pair_of_codes(first, second, (7, 5)), shrinkage)
    share = max(shrinkage, FLOOR)
    for row in range(60):
        same = [i for i in range(60) if i != row and first[i] == first[row] and second[i] == second[row]]
        product = np.mean(first == first[row]) * np.mean(second == second[row])
        expected = (1 - share) * len(same) / 59 / product + share
        assert found.left_out[first[row], second[row]] == pytest.approx(expected, rel=1e-12)


def test_log_likelihood_is_the_mean_over_rows():
    first, second = related_codes(seed=3)
    pair = pair_of_codes(first, second, (7, 5))
    for candidate in all_candidates(pair):
        expected = np.mean(np.log(candidate.left_out[first, second]))
        assert log_likelihood(pair, candidate) == pytest.approx(expected)


def normal_cells(correlation, first, second):
    """Probabilities of the cells of two normals, their bins given by cumulative shares."""
    edges = [scipy.stats.norm.ppf(np.concatenate([[1e-12], shares, [1 - 1e-12]])) for shares in (first, second)]
    grid = np.stack(np.meshgrid(*edges, indexing="ij"), axis=-1)
    below = scipy.stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf(grid)
    cells = np.diff(np.diff(below, axis=0), axis=1)
    return cells / cells.sum()


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.3, 0.7, 0.9])
@pytest.mark.parametrize(
    ("first", "second"),
    [([0.5], [0.3]), ([0.2, 0.7], [0.1, 0.4, 0.5, 0.8]), (np.arange(1, 30) / 30, np.arange(1, 20) / 20)],
)
def test_the_gaussian_copula_gives_normal_cells_back(correlation, first, second):
    shares = normal_cells(correlation, first, second)
    margins = [Margin(shares.sum(axis=1 - i), shares.shape[i], 1e6) for i in range(2)]
    pair = pair_of(*margins, shares)
    table = full_table(pair, estimates.gaussian(pair).ratio)
    assert np.abs(table - shares).sum() < 0.035


def test_gaussian_leaves_unordered_bins_nearly_independent():
    first, second = related_codes()
    ratio = estimates.gaussian(pair_of_codes(first, second, (7, 5), (6, 3))).ratio
    np.testing.assert_allclose(ratio[6], 1, atol=0.01)
    np.testing.assert_allclose(ratio[:, 3:], 1, atol=0.01)
    assert np.abs(np.log(ratio[:6, :3])).max() > 0.3


@pytest.mark.parametrize("bandwidth", [0.5, 1.4])
def test_a_corrected_start_is_a_loop_over_rows_each_weighed_by_the_start(bandwidth, monkeypatch):
    monkeypatch.setattr(estimates, "_RAKING_TOLERANCE", 1e-12)
    first, second = related_codes(seed=7)
    pair = pair_of_codes(first, second, (7, 5))
    start = estimates.gaussian(pair)
    floored = np.maximum(start.ratio, 0.05)
    width = bandwidth * 60 ** (-1 / 6)
    of_first, of_second = influence(first, 7, 7, width), influence(second, 5, 5, width)

    def fit(rows):
        parts = [np.outer(of_first[:, first[i]], of_second[:, second[i]]) / floored[first[i], second[i]] for i in rows]
        return floored * sum(parts) / len(rows)

    found = estimates.corrected(pair, start, bandwidth)
    masses = np.bincount(first, minlength=7) / 60, np.bincount(second, minlength=5) / 60
    table = fit(range(60)) * np.outer(*masses)
    for _ in range(500):
        table *= (masses[0] / table.sum(axis=1))[:, None]
        table *= masses[1] / table.sum(axis=0)
    np.testing.assert_allclose(found.ratio, table / np.outer(*masses), rtol=1e-8)
    scaling = found.ratio / fit(range(60))
    for row in range(0, 60, 7):
        cell = first[row], second[row]
        without = fit([i for i in range(60) if i != row])[cell] * scaling[cell]
        assert found.left_out[cell] == pytest.approx((1 - FLOOR) * without + FLOOR, rel=1e-8)


def test_kernels_of_values_measure_distance_in_values():
    first, second = related_codes(seed=8)
    values = np.array([0.0, 0.1, 0.3, 4.0, 4.2, 9.0, 10.0]), np.array([-1.0, 0.0, 5.0, 5.5, 6.0])
    shares = np.zeros((7, 5))
    np.add.at(shares, (first, second), 1 / 60)
    margins = [Margin(shares.sum(axis=1 - i), (7, 5)[i], 60, values[i]) for i in range(2)]
    found = estimates.kernel(pair_of(*margins, shares), 0.5, 0.0, "values").ratio
    width, kernels = 0.5 * 60 ** (-1 / 6), []
    for codes, own, n_bins in ((first, values[0], 7), (second, values[1], 5)):
        masses = np.bincount(codes, minlength=n_bins) / 60
        low, high = np.interp([0.25, 0.75], np.cumsum(masses) - masses / 2, own)
        kernels.append(influence(codes, n_bins, n_bins, width, own / (high - low) * 1.349))
    np.testing.assert_allclose(found, kernel_ratio(first, second, *kernels, range(60)), rtol=1e-8)


# Families of copulas


def clayton(u, v, theta):
    return (u**-theta + v**-theta - 1) ** (-1 / theta)


def gumbel(u, v, theta):
    return np.exp(-(((-np.log(u)) ** theta + (-np.log(v)) ** theta) ** (1 / theta)))


def frank(u, v, theta):
    return -np.log1p(np.expm1(-theta * u) * np.expm1(-theta * v) / np.expm1(-theta)) / theta


LAWS = {"clayton": clayton, "gumbel": gumbel, "frank": frank}  # distribution functions


def copula_cells(law, theta, first, second):
    """Probabilities of cells from the distribution function; its limits are 0 and the other rank at the edges."""
    below = np.zeros((len(first) + 2, len(second) + 2))
    below[1:-1, 1:-1] = law(np.asarray(first)[:, None], np.asarray(second), theta)
    below[1:-1, -1], below[-1, 1:-1], below[-1, -1] = first, second, 1.0
    return np.diff(np.diff(below, axis=0), axis=1)


def pair_of_cells(cells, n_rows=1e5):
    margins = [Margin(cells.sum(axis=1 - i), cells.shape[i], n_rows) for i in range(2)]
    return pair_of(*margins, cells)


FINE = np.arange(1, 40) / 40


@pytest.mark.parametrize(("name", "tau", "theta"), [
    ("clayton", 0.5, 2.0), ("clayton", 0.2, 0.5), ("gumbel", 0.5, 2.0), ("gumbel", 0.2, 1.25), ("frank", 0.5, 5.7363),
    ("frank", 0.2, 1.8609),
])  # fmt: skip
def test_densities_of_families_are_derivatives_of_their_distribution_functions(name, tau, theta):
    u, v, h = np.linspace(0.05, 0.95, 7)[:, None], np.linspace(0.1, 0.9, 5), 1e-4
    corners = [s * t * LAWS[name](u + s * h, v + t * h, theta) for s in (-1, 1) for t in (-1, 1)]
    log_density = next(one.log_density for one in copulas.FAMILIES if one.name == name)
    np.testing.assert_allclose(np.exp(log_density(u, v, tau)), sum(corners) / (4 * h * h), rtol=2e-3)


@pytest.mark.parametrize("freedom", [2, 4, 8, 16])
@pytest.mark.parametrize("tau", [0.1, 0.5, 0.8])
def test_the_density_of_students_copula_is_that_of_scipys_law_over_its_marginals(freedom, tau):
    u, v = np.linspace(0.01, 0.99, 7), np.linspace(0.1, 0.9, 5)
    law, r = scipy.stats.t(freedom), np.sin(np.pi * tau / 2)
    x, y = np.meshgrid(law.ppf(u), law.ppf(v), indexing="ij")
    joint = scipy.stats.multivariate_t(shape=[[1, r], [r, 1]], df=freedom).pdf(np.stack([x, y], axis=-1))
    log_density = next(one.log_density for one in copulas.FAMILIES if one.name == f"student {freedom}")
    np.testing.assert_allclose(np.exp(log_density(u[:, None], v, tau)), joint / law.pdf(x) / law.pdf(y), rtol=1e-9)


@pytest.mark.parametrize("name", ["clayton", "gumbel", "frank"])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_the_family_of_cells_is_found_with_its_rotation(name, rotation):
    cells = copula_cells(LAWS[name], {"clayton": 2.0, "gumbel": 2.5, "frank": 8.0}[name], FINE, FINE)
    turned = {0: cells, 90: cells[::-1], 180: cells[::-1, ::-1], 270: cells[:, ::-1]}[rotation]
    pair = pair_of_cells(np.ascontiguousarray(turned))
    found = estimates.family(pair)
    assert found.name == (name if name == "frank" or rotation == 0 else f"{name} {rotation}")
    assert np.abs(full_table(pair, found.ratio) - turned).sum() < 0.02


@pytest.mark.parametrize(("cells", "start"), [
    (copula_cells(clayton, 2.0, FINE, FINE), "clayton"), (normal_cells(0.6, FINE, FINE), "gaussian"),
])  # fmt: skip
def test_kernels_correct_the_likelier_of_the_gaussian_copula_and_the_family(cells, start):
    names = [candidate.name for candidate in all_candidates(pair_of_cells(cells))]
    corrected = [name for name in names if " x kernel " in name]
    assert len(corrected) >= 3
    assert {name.partition(" x ")[0] for name in corrected} == {start}
    without = [candidate.name for candidate in all_candidates(pair_of_cells(cells), families=False)]
    assert {name.partition(" x ")[0] for name in without if " x kernel " in name} == {"gaussian"}
    assert start == "gaussian" or "clayton" not in without


def test_a_family_of_few_bins_is_found():
    cells = copula_cells(gumbel, 3.0, [0.2, 0.5, 0.7, 0.9], FINE)
    pair = pair_of_cells(cells)
    assert np.abs(full_table(pair, estimates.family(pair).ratio) - cells).sum() < 0.03


@pytest.mark.parametrize("seed", range(3))
def test_kendalls_tau_of_a_table_is_scipys_of_its_rows(seed):
    first, second = related_codes(seed=seed)
    shares = np.zeros((7, 5))
    np.add.at(shares, (first, second), 1 / 60)
    assert copulas.kendall_tau(shares) == pytest.approx(scipy.stats.kendalltau(first, second).statistic)
    assert copulas.kendall_tau(np.array([[0.0, 1.0], [0.0, 0.0]])) == 0.0


@pytest.mark.parametrize("sign", [-1, 1])
def test_families_of_features_in_perfect_order(sign):
    codes = np.arange(60) % 6
    pair = pair_of_codes(codes, codes if sign > 0 else 5 - codes, (6, 6))
    table = full_table(pair, estimates.family(pair).ratio)
    assert np.trace(table if sign > 0 else table[:, ::-1]) > 0.75


def test_auto_takes_the_family_that_rows_come_from():
    rng = np.random.default_rng(0)
    frailty = rng.gamma(0.5, size=3000)
    columns = [
        -((1 + rng.exponential(size=3000) / frailty) ** -0.5),
        (1 + rng.exponential(size=3000) / frailty) ** -0.5,
    ]
    density = bound("auto", columns, (40, 30))
    density.table((0, 1))
    assert density.choices["a", "b"].name == "clayton 90"  # the first feature is turned round


# Sharpened kernels


@pytest.mark.parametrize("scale", ["ranks", "values"])
@pytest.mark.parametrize("bandwidth", [0.7, 1.4])
def test_a_sharpened_kernel_is_a_loop_over_rows_each_weighed_by_the_plain_one(bandwidth, scale, monkeypatch):
    monkeypatch.setattr(estimates, "_RAKING_TOLERANCE", 1e-12)
    first, second = related_codes(seed=9)
    values = np.array([0.0, 0.3, 0.9, 2.0, 2.2, 3.5, 4.0]), np.array([-1.0, 0.0, 1.5, 2.5, 3.0])
    pair = pair_of_codes(first, second, (7, 5), values=values)
    width = bandwidth * 60 ** (-1 / 6)
    places = [None, None] if scale == "ranks" else [pair.first.positions, pair.second.positions]
    of_first, of_second = (
        influence(codes, size, size, width, at) for codes, size, at in ((first, 7, places[0]), (second, 5, places[1]))
    )

    def fit(rows):
        plain = kernel_ratio(first, second, of_first, of_second, rows)
        parts = [np.outer(of_first[:, first[i]], of_second[:, second[i]]) / plain[first[i], second[i]] for i in rows]
        return plain * sum(parts) / len(rows)

    found = estimates.sharpened(pair, bandwidth, scale)
    whole = fit(range(60))
    margins = rake_to_marginals(whole * pair.product, pair.first.masses, pair.second.masses)
    np.testing.assert_allclose(found.ratio * pair.product, margins, rtol=1e-7)
    for row in range(0, 60, 7):
        cell = first[row], second[row]
        without = fit([i for i in range(60) if i != row])[cell] * found.ratio[cell] / whole[cell]
        inside, exact = found.ratio[cell], (1 - FLOOR) * without + FLOOR
        assert abs(found.left_out[cell] - exact) < 0.2 * (inside - exact)


def test_sharpening_takes_bias_out():
    """Of a smooth dependence known exactly, a wide kernel loses much, and half of it or more comes back."""
    cells = normal_cells(0.7, FINE, FINE)
    pair = pair_of_cells(cells, 1e4)
    plain, sharp = (
        np.abs(full_table(pair, found.ratio) - cells).sum()
        for found in (estimates.kernel(pair, 2.0, 0.0), estimates.sharpened(pair, 2.0))
    )
    assert plain > 0.1
    assert sharp < 0.5 * plain


# Tables with exact marginals


def axes_of(columns, n_bins, missing=()):
    """Interval axes at quantiles of columns, some with a bin of missing values at the end."""
    axes = []
    for j, column in enumerate(columns):
        bounds = np.unique(np.nanquantile(column, np.arange(1, n_bins[j]) / n_bins[j]))
        axes.append(IntervalAxis("abcdef"[j], len(bounds) + 1 if j in missing else -1, bounds))
    return axes


def grid_of_axes(axes):
    features = [
        Feature(axis.name, Labels(axis.categories))
        if isinstance(axis, CategoryAxis)
        else Feature(axis.name, accepts_missing=axis.missing_bin >= 0)
        for axis in axes
    ]
    return Grid(Schema(tuple(features)), tuple(axes))


def bound(kind, columns, n_bins=(12, 9, 5), *, missing=(), weights=None, axes=None):
    grid = grid_of_axes(axes_of(columns, n_bins, missing) if axes is None else axes)
    table = np.empty((len(columns[0]), len(columns)), dtype=object)
    for j, column in enumerate(columns):
        table[:, j] = column
    if all(isinstance(axis, IntervalAxis) for axis in grid.axes):
        table = table.astype(float)
    return density_of(kind).bind(grid, statistics_of(table, grid, weights))


def assert_marginals(density, key, atol=1e-10):
    """Marginals of a table are the shares of the rows in each bin."""
    table = density.table(key)
    codes, weights = density.sample.codes, density.sample.row_weights
    assert table.min() >= 0
    for position, j in enumerate(key):
        shares = np.zeros(table.shape[position])
        np.add.at(shares, codes[:, j], weights)
        others = tuple(i for i in range(len(key)) if i != position)
        np.testing.assert_allclose(table.sum(axis=others), shares, rtol=0, atol=atol)


def normals(correlation, n_rows=500, seed=0, order=3):
    covariance = np.full((order, order), float(correlation))
    np.fill_diagonal(covariance, 1.0)
    return list(np.random.default_rng(seed).multivariate_normal(np.zeros(order), covariance, n_rows).T)


def near_copy(n_rows=1000, seed=0, noise=0.01):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    return [x, x + noise * rng.normal(size=n_rows)]


@given(st.integers(0, 2**16), st.integers(1, 80), st.floats(-0.99, 0.99), st.booleans())
@settings(max_examples=40)
def test_every_smooth_table_has_the_marginals_of_the_rows(seed, n_rows, correlation, weighted):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    columns = [x, (correlation * x + 0.3 * rng.normal(size=n_rows)).round(1), rng.integers(0, 3, n_rows).astype(float)]
    columns[1][rng.random(n_rows) < 0.2] = np.nan
    if np.isnan(columns[1]).all():
        columns[1][0] = 0.0
    weights = rng.exponential(size=n_rows) if weighted else None
    for kind in (Auto(), Kernel(), Kernel(bandwidth=0.3)):
        density = bound(kind, columns, missing=(1,), weights=weights)
        for key in [(0,), (0, 1), (0, 2), (1, 2)]:
            assert_marginals(density, key)


@pytest.mark.parametrize("noise", [0.3, 0.03, 0.003])
@pytest.mark.parametrize("bandwidth", [0.1, 0.3, 1.0])
def test_marginals_stay_exact_where_features_are_nearly_copies(noise, bandwidth):
    density = bound(Kernel(bandwidth=bandwidth), near_copy(noise=noise), (100, 80))
    assert_marginals(density, (0, 1))


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_axes_of_ten_thousand_bins_keep_their_marginals(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=20_000)
    columns = [x, 0.8 * x + 0.6 * rng.normal(size=20_000)]
    density = bound(kind, columns, (10_000, 300))
    assert density.grid.sizes == (10_000, 300)
    assert_marginals(density, (0, 1))
    table = density.table((0, 1))
    for a, b in ((2000, 60), (5000, 150), (8000, 240)):  # the dependence is there, at quantiles
        cut = scipy.stats.norm.ppf([a / 10_000, b / 300])
        expected = scipy.stats.multivariate_normal([0, 0], [[1, 0.8], [0.8, 1]]).cdf(cut)
        assert table[:a, :b].sum() == pytest.approx(expected, abs=0.01)


def test_tables_brought_to_margins():
    rng = np.random.default_rng(0)
    table, rows, columns = rng.random((6, 4)), rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(4))
    columns[2], rows[5] = 0.0, 0.0
    columns, rows = columns / columns.sum(), rows / rows.sum()
    start = table.copy()
    found = rake_to_marginals(table, rows, columns)
    np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-12)
    kept = np.ix_([0, 1, 2, 3, 4], [0, 1, 3])
    odds = np.log(found[kept] / start[kept])  # scaled rows and columns: an additive difference of logarithms
    np.testing.assert_allclose(odds, odds[:, :1] + odds[:1] - odds[0, 0], atol=1e-10)


# Three and more features


@pytest.mark.parametrize("kind", ["auto", "kernel"])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_tables_of_three_and_more_features_are_of_one_joint_density(kind, correlation):
    density = bound(kind, normals(correlation, 800, order=4), (4, 3, 5, 3))
    four = density.table((0, 1, 2, 3))
    assert four.sum() == pytest.approx(1.0, abs=1e-12)
    for axis, key in enumerate([(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]):
        np.testing.assert_allclose(four.sum(axis=axis), density.table(key), atol=1e-12)
    for j in range(4):
        others = tuple(axis for axis in range(4) if axis != j)
        np.testing.assert_allclose(four.sum(axis=others), density.table((j,)), atol=1e-10)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_the_gap_between_a_pair_and_the_joint_density_is_stated(kind):
    density = bound(kind, normals(0.7, 2000))
    triple = density.table((0, 1, 2))
    for i, j in itertools.combinations(range(3), 2):
        distance = np.abs(triple.sum(axis=3 - i - j) - density.table((i, j))).sum() / 2
        assert density.gap((i, j)) == pytest.approx(distance, abs=1e-12)
        assert 0 < distance < 0.08


def test_independent_features_have_an_independent_joint_density():
    density = bound("auto", normals(0.0, 2000))
    assert density.is_product
    masses = [density.table((j,)) for j in range(3)]
    np.testing.assert_allclose(density.table((0, 1, 2)), functools.reduce(np.multiply.outer, masses), rtol=1e-12)


def test_a_dependence_of_three_features_beyond_pairs_is_found():
    """Signs of two features are those of the third, multiplied: every pair is independent, the three are not."""
    rng = np.random.default_rng(0)
    signs = rng.choice([-1.0, 1.0], (4000, 2))
    columns = [*(signs * np.abs(rng.normal(size=(4000, 2))) ** 0.5).T, signs.prod(axis=1) * rng.exponential(size=4000)]
    density = bound("auto", columns, (8, 8, 8))
    table = density.table((0, 1, 2))
    halves = [np.add.reduceat(np.eye(8), [0, 4], axis=0)] * 3
    octants = np.einsum("abc,ia,jb,kc->ijk", table, *halves)
    odd = sum(octants[i, j, k] for i, j, k in np.ndindex(2, 2, 2) if (i + j + k) % 2 == 0)  # - x - = +, and so on
    assert odd < 0.1
    assert not density.is_product


def test_independent_features_stay_independent_in_threes():
    found = [bound("auto", normals(0.0, 1000, seed, order=5), (6, 6, 6, 6, 6)).is_product for seed in range(10)]
    assert sum(found) >= 8


def test_a_dependence_of_three_features_is_as_the_rows_have_it():
    """Two features follow a third; the joint density must give octants the shares that rows have."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    columns = [x, x**2 + 0.5 * rng.normal(size=4000), np.sign(x) * rng.exponential(size=4000)]
    density = bound("auto", columns, (8, 8, 8))
    halves = [np.add.reduceat(np.eye(8), [0, 4], axis=0)] * 3
    octants = np.einsum("abc,ia,jb,kc->ijk", density.table((0, 1, 2)), *halves)
    codes = density.grid.index(np.stack(columns, axis=1)) // 4
    rows = np.bincount(codes @ [4, 2, 1], minlength=8).reshape(2, 2, 2) / 4000
    np.testing.assert_allclose(octants, rows, atol=0.03)


# Choices


def test_auto_takes_independence_for_independent_features():
    for seed in range(3):
        density = bound("auto", normals(0.0, 3000, seed)[:2], (60, 60))
        table, (choice,) = density.table((0, 1)), density.choices.values()
        assert choice.name in {"independent", "gaussian"}
        np.testing.assert_allclose(table, 1 / 3600, rtol=0.35)
        assert choice.over_empirical > 0.5


@pytest.mark.parametrize("correlation", [-0.8, 0.5, 0.9])
def test_auto_takes_the_gaussian_copula_for_normal_features(correlation):
    density = bound("auto", normals(correlation, 3000, order=2), (40, 40))
    density.table((0, 1))
    choice = density.choices["a", "b"]
    assert choice.name == "gaussian"
    assert choice.likelihood == pytest.approx(-0.5 * np.log(1 - correlation**2), rel=0.1)  # mutual information
    assert choice.over_empirical > 0


def test_auto_stays_close_to_the_rows_of_a_near_copy():
    columns = near_copy(n_rows=3000, noise=0.02)
    density = bound("auto", columns, (60, 60))
    density.table((0, 1))
    name = density.choices["a", "b"].name
    assert name == "empirical" or float(name.split()[1]) <= 0.2


def test_auto_takes_a_kernel_for_a_bent_dependence():
    rng = np.random.default_rng(0)
    x = rng.normal(size=3000)
    columns = [x, x**2 + 0.3 * rng.normal(size=3000)]
    density = bound("auto", columns, (50, 50))
    table = density.table((0, 1))
    assert "kernel" in density.choices["a", "b"].name
    fresh = rng.normal(size=100_000)
    held_out = np.stack([fresh, fresh**2 + 0.3 * rng.normal(size=100_000)], axis=1)
    codes = density.grid.index(held_out)
    truth = np.bincount(codes[:, 0] * 50 + codes[:, 1], minlength=2500).reshape(50, 50) / 100_000
    distances = [
        np.abs(other.table((0, 1)) - truth).sum() for other in (bound("empirical", columns, (50, 50)), density)
    ]
    assert distances[1] < 0.6 * distances[0]
    assert table is density.table((0, 1))  # counted once


def simplest_within_a_standard_error(logs):
    """Independence, else the Gaussian copula, where the best beats it by at most one standard error; else the best."""
    best = max(logs, key=lambda name: np.mean(logs[name]))
    for simple in ("independent", "gaussian"):
        gaps = logs[best] - logs[simple]
        if np.mean(gaps) <= np.std(gaps) / np.sqrt(len(gaps)):
            return simple
    return best


@pytest.mark.parametrize("seed", range(5, 11))
@pytest.mark.parametrize("strength", [0.0, 0.1, 1.0])
def test_the_choice_is_the_likeliest_but_for_simple_candidates_within_a_standard_error(seed, strength):
    first, other = related_codes(400, seed=seed)
    shuffled = np.random.default_rng(seed).permutation(other)
    second = np.where(np.random.default_rng(1).random(400) < strength, other, shuffled)
    axes = [IntervalAxis("a", -1, np.arange(6) + 0.5), IntervalAxis("b", -1, np.arange(4) + 0.5)]
    density = bound("auto", [first.astype(float), second.astype(float)], axes=axes)
    table = density.table((0, 1))
    pair = pair_of_codes(first, second, (7, 5), values=(np.arange(7.0), np.arange(5.0)))
    candidates = {c.name: c for c in all_candidates(pair)}
    logs = {name: np.log(c.left_out[first, second]) for name, c in candidates.items()}
    expected = simplest_within_a_standard_error(logs)
    choice = density.choices["a", "b"]
    assert choice.name == expected
    assert choice.likelihood == pytest.approx(np.mean(logs[expected]), abs=1e-12)
    assert choice.over_empirical == pytest.approx(np.mean(logs[expected] - logs["empirical"]))
    ratio = table / np.outer(table.sum(axis=1), table.sum(axis=0))
    np.testing.assert_allclose(ratio, candidates[expected].ratio, rtol=1e-8)


def test_independent_features_are_seldom_tied():
    """A Gaussian copula is likelier by its own standard error when n r² / 2 > 3, nearly: two times of a hundred."""
    names = []
    for seed in range(60):
        columns = normals(0.0, 400, seed, order=2)
        density = bound("auto", columns, (12, 9))
        density.table((0, 1))
        names.append(density.choices["a", "b"].name)
    assert names.count("independent") >= 54


def test_the_search_finds_the_likeliest_of_all_bandwidths():
    for seed in range(5):
        pair = pair_of_codes(*related_codes(400, seed=seed), (7, 5))
        every = [log_likelihood(pair, estimates.kernel(pair, h, 0.0)) for h in BANDWIDTHS]
        candidates = [c for c in kernel_candidates(pair, scales=("ranks",)) if "twice" not in c.name]
        found = [log_likelihood(pair, c) for c in candidates]
        assert max(found) == pytest.approx(max(every), abs=1e-3)
        assert len(found) < len(every)


def test_clusters_that_lie_apart_do_not_leak_into_each_other():
    rng = np.random.default_rng(0)
    cluster = rng.integers(0, 2, 3000)
    x = 10.0 * cluster + rng.normal(size=3000)
    columns = [x, -10.0 * cluster + rng.normal(size=3000)]
    density = bound("auto", columns, (40, 40))
    table = density.table((0, 1))
    assert density.choices["a", "b"].name.endswith("of values")
    split = round(40 * np.mean(cluster == 0))
    wrong = table[: split - 1, : 40 - split - 1].sum() + table[split + 1 :, 40 - split + 1 :].sum()
    assert wrong < 0.002
    ranks = bound(Kernel(bandwidth=0.4), columns, (40, 40)).table((0, 1))
    assert wrong < 0.5 * (ranks[: split - 1, : 40 - split - 1].sum() + ranks[split + 1 :, 40 - split + 1 :].sum())


def test_auto_is_reproducible_and_indifferent_to_the_order_of_rows():
    columns = normals(0.6, 700, seed=4)
    order = np.random.default_rng(1).permutation(700)
    first, again, shuffled = (
        bound("auto", part, axes=axes_of(columns, (12, 9, 5)))
        for part in (columns, columns, [column[order] for column in columns])
    )
    for key in [(0, 1), (0, 2), (1, 2), (0, 1, 2)]:
        np.testing.assert_array_equal(first.table(key), again.table(key))
        np.testing.assert_allclose(shuffled.table(key), first.table(key), rtol=1e-9, atol=1e-14)
    assert first.choices == again.choices
    assert list(first.choices) == [("a", "b"), ("a", "c"), ("b", "c")]


def test_choices_tell_of_pairs_asked_for_only():
    density = bound("kernel", normals(0.6))
    assert density.choices == {}
    density.table((0, 2))
    assert list(density.choices) == [("a", "c")]
    assert density.choices["a", "c"].name.startswith("kernel")


def test_a_kernel_of_given_bandwidth():
    first, second = related_codes(seed=6)
    axes = [IntervalAxis("a", -1, np.arange(6) + 0.5), IntervalAxis("b", -1, np.arange(4) + 0.5)]
    density = bound(Kernel(bandwidth=0.6), [first.astype(float), second.astype(float)], axes=axes)
    width = 0.6 * 60 ** (-1 / 6)
    ratio = kernel_ratio(first, second, influence(first, 7, 7, width), influence(second, 5, 5, width), range(60))
    masses = np.bincount(first, minlength=7) / 60, np.bincount(second, minlength=5) / 60
    expected = ratio * np.outer(*masses)
    for _ in range(500):
        expected *= (masses[0] / expected.sum(axis=1))[:, None]
        expected *= masses[1] / expected.sum(axis=0)
    np.testing.assert_allclose(density.table((0, 1)), expected, rtol=1e-8)
    assert density.choices["a", "b"].name == "kernel 0.6"


@pytest.mark.parametrize("bandwidth", [0.0, -1.0, np.nan])
def test_bandwidths_must_be_positive(bandwidth):
    with pytest.raises(ValueError, match="`bandwidth` must be positive"):
        Kernel(bandwidth=bandwidth)


# Draws


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_draws_have_the_marginals_and_the_dependence(correlation):
    columns = normals(correlation, 4000, order=2)
    density = bound(Kernel(bandwidth=0.5), columns, (10, 10))
    codes = density.draw(200_000, random_state=1)
    for j in range(2):
        shares = np.bincount(codes[:, j], minlength=10) / 200_000
        np.testing.assert_allclose(shares, 0.1, atol=0.002)
    joint = np.bincount(codes[:, 0] * 10 + codes[:, 1], minlength=100).reshape(10, 10) / 200_000
    np.testing.assert_allclose(joint, density.table((0, 1)), atol=0.002)
    np.testing.assert_array_equal(codes, density.draw(200_000, random_state=1))
    assert (codes != density.draw(200_000, random_state=2)).any()


def test_draws_leave_bins_without_order_and_bins_without_rows_alone():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    category = np.where(x > 0, "u", "v").astype(object)
    holed = np.where(rng.random(2000) < 0.3, np.nan, np.where(np.abs(x) < 0.5, 2.0, x))
    axes = [CategoryAxis("k", -1, ("u", "v", "w"), -1), IntervalAxis("a", 5, np.array([-1.0, -0.5, 0.5, 1.9]))]
    density = bound(Kernel(bandwidth=0.1), [category, holed], axes=axes)
    codes = density.draw(50_000)
    assert np.bincount(codes[:, 1], minlength=6)[2] == 0  # |x| < 0.5 never occurs
    assert np.mean(codes[:, 1] == 5) == pytest.approx(np.isnan(holed).mean(), abs=0.01)
    assert np.mean(codes[:, 0] == 0) == pytest.approx((category == "u").mean(), abs=0.01)
    both = (codes[:, 0] == 0) & (codes[:, 1] == 0)  # u is x > 0; a narrow kernel seldom carries it below -1
    assert both.mean() < 0.02


# Categories and missing values


def categories_and_numbers(n_rows=3000, seed=0):
    rng = np.random.default_rng(seed)
    code = rng.integers(0, 4, n_rows)
    number = np.array([0.0, 3.0, -3.0, 0.5])[code] + rng.normal(size=n_rows)
    return np.array(["u", "v", "w", "z"], dtype=object)[code], number


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_the_dependence_of_a_category_and_a_number_is_kept(kind):
    category, number = categories_and_numbers()
    axes = [CategoryAxis("k", -1, ("u", "v", "w", "z"), -1), *axes_of([number], (40,))]
    density = bound(kind, [category, number], axes=axes)
    table = density.table((0, 1))
    assert_marginals(density, (0, 1))
    bounds = density.grid.axes[1].edges
    for row, centre in zip(table, [0.0, 3.0, -3.0, 0.5], strict=True):
        cumulative = scipy.stats.norm.cdf(bounds - centre)
        assert np.abs(row / row.sum() - np.diff(cumulative)).sum() < 0.25


def test_categories_do_not_borrow_from_their_neighbours():
    category, number = categories_and_numbers()
    axes = [CategoryAxis("k", -1, ("u", "v", "w", "z"), -1), *axes_of([number], (40,))]
    table = bound("auto", [category, number], axes=axes).table((0, 1))
    renamed = np.array([{"u": "w", "v": "z", "w": "v", "z": "u"}[label] for label in category], dtype=object)
    other = bound("auto", [renamed, number], axes=axes).table((0, 1))
    np.testing.assert_allclose(other, table[[3, 2, 0, 1]], rtol=1e-9, atol=1e-15)


def test_two_categories():
    rng = np.random.default_rng(0)
    first = rng.integers(0, 3, 5000)
    second = np.where(rng.random(5000) < 0.7, first, rng.integers(0, 3, 5000))
    labels = np.array(["u", "v", "w"], dtype=object)
    axes = [CategoryAxis(name, -1, ("u", "v", "w"), -1) for name in "ab"]
    density = bound("auto", [labels[first], labels[second]], axes=axes)
    expected = (0.7 * np.eye(3) + 0.1) / 3
    np.testing.assert_allclose(density.table((0, 1)), expected, atol=0.01)
    assert_marginals(density, (0, 1))


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_missing_values_keep_to_themselves(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    holed = x + 0.5 * rng.normal(size=4000)
    holed[(x > 1) & (rng.random(4000) < 0.9)] = np.nan  # missing where the other is large
    density = bound(kind, [x, holed], (30, 30), missing=(1,))
    table = density.table((0, 1))
    assert_marginals(density, (0, 1))
    assert table.shape == (30, 31)
    large = np.arange(30) >= 26
    assert table[large, 30].sum() / table[:, 30].sum() > 0.8
    assert table[:20, 30].sum() < 0.005


def test_own_bins_see_none_of_the_rows_in_others():
    first, second = related_codes()
    ratio = estimates.kernel(pair_of_codes(first, second, (7, 5), (6, 5)), 5.0, 0.0).ratio
    moved = first.copy()
    moved[first < 6] = 5 - first[first < 6]
    other = estimates.kernel(pair_of_codes(moved, second, (7, 5), (6, 5)), 5.0, 0.0).ratio
    np.testing.assert_allclose(other[6], ratio[6])  # where the ordered rows are does not matter


# Hard cases: right, or clearly refused


ALL = [(0,), (1,), (0, 1)]


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_one_row(kind):
    axes = [IntervalAxis("a", -1, np.array([0.0, 1.0])), IntervalAxis("b", -1, np.array([0.0]))]
    density = bound(kind, [np.array([0.5]), np.array([2.0])], axes=axes)
    expected = np.zeros((3, 2))
    expected[1, 1] = 1.0
    np.testing.assert_allclose(density.table((0, 1)), expected, atol=1e-15)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_constant_features(kind):
    x = np.random.default_rng(0).normal(size=200)
    axes = [*axes_of([x], (8,)), IntervalAxis("b", -1, np.array([])), IntervalAxis("c", -1, np.array([0.0, 1.0]))]
    density = bound(kind, [x, np.full(200, 7.0), np.full(200, 0.5)], axes=axes)
    np.testing.assert_allclose(density.table((0, 1)), np.full((8, 1), 1 / 8), atol=1e-12)
    np.testing.assert_allclose(density.table((0, 2)), np.outer(np.full(8, 1 / 8), [0, 1, 0]), atol=1e-12)
    np.testing.assert_allclose(density.table((1, 2)), [[0, 1, 0]], atol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_features_of_two_bins(kind):
    rng = np.random.default_rng(0)
    first = rng.random(4000) < 0.3
    second = np.where(rng.random(4000) < 0.8, first, ~first)
    axes = [IntervalAxis(name, -1, np.array([0.5])) for name in "ab"]
    density = bound(kind, [first.astype(float), second.astype(float)], axes=axes)
    assert_marginals(density, (0, 1))
    np.testing.assert_allclose(density.table((0, 1)), [[0.56, 0.14], [0.06, 0.24]], atol=0.03)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_ties_and_heavy_point_masses(kind):
    rng = np.random.default_rng(0)
    x = rng.normal(size=5000)
    amount = np.where(rng.random(5000) < 0.4, 0.0, np.exp(x)).round(1)
    bounds = np.concatenate([[0.0], np.quantile(amount[amount > 0], np.arange(1, 20) / 20)])
    density = bound(kind, [x, amount], axes=[*axes_of([x], (30,)), IntervalAxis("b", -1, np.unique(bounds))])
    table = density.table((0, 1))
    assert_marginals(density, (0, 1))
    zero = amount == 0  # independent of x but for exp(x) < 0.05
    assert table[:, 0].sum() == pytest.approx(zero.mean())
    np.testing.assert_allclose(table[5:25, 0], zero.mean() / 30, rtol=0.35)
    assert table[15:, 1:].sum() == pytest.approx(((x > np.median(x)) & ~zero).mean(), abs=0.03)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_two_features_that_are_all_missing(kind):
    missing = np.full(50, np.nan)
    axes = [IntervalAxis("a", 3, np.array([0.0, 1.0])), IntervalAxis("b", 2, np.array([0.0]))]
    table = bound(kind, [missing, missing], axes=axes).table((0, 1))
    expected = np.zeros((4, 3))
    expected[3, 2] = 1.0
    np.testing.assert_allclose(table, expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_bins_without_rows_have_no_mass(kind):
    x, y = normals(0.7, 300, order=2)
    axes = [IntervalAxis("a", -1, np.array([-50.0, -1, 0, 1, 40, 50])), IntervalAxis("b", -1, np.array([-9.0, 0, 9]))]
    density = bound(kind, [x, y], axes=axes)
    table = density.table((0, 1))
    assert (table[[0, 5, 6]] == 0).all()
    assert (table[:, [0, 3]] == 0).all()
    assert_marginals(density, (0, 1))


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_rows_of_weight_zero_do_not_count(kind):
    columns = normals(0.7, 400, order=2)
    weights = (np.arange(400) < 250).astype(float)
    axes = axes_of(columns, (12, 9))
    found = bound(kind, columns, axes=axes, weights=weights)
    expected = bound(kind, [column[:250] for column in columns], axes=axes)
    for key in ALL:
        np.testing.assert_allclose(found.table(key), expected.table(key), rtol=1e-9, atol=1e-15)
    assert found.choices["a", "b"].name == expected.choices["a", "b"].name


def test_weights_are_repeated_rows_but_for_what_the_rows_prove():
    columns = normals(0.7, 300, order=2)
    counts = np.random.default_rng(1).integers(1, 4, 300)
    axes = axes_of(columns, (12, 9))
    repeated = [np.repeat(column, counts) for column in columns]
    effective = counts.sum() ** 2 / (counts**2).sum()
    same = 0.5 * (effective / counts.sum()) ** (1 / 6)  # bandwidths are in units of n^(-1/6), n the effective rows
    found = bound(Kernel(bandwidth=same), columns, axes=axes, weights=counts)
    expected = bound(Kernel(bandwidth=0.5), repeated, axes=axes)
    for key in ALL:
        np.testing.assert_allclose(found.table(key), expected.table(key), rtol=1e-3, atol=1e-12)
    once = bound("auto", columns, axes=axes, weights=np.full(300, 5.0))
    plain = bound("auto", columns, axes=axes)
    np.testing.assert_allclose(once.table((0, 1)), plain.table((0, 1)), rtol=1e-9)


# Standard errors


@pytest.fixture(scope="module")
def boosted():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = np.stack(normals(0.6, 150), axis=1)
    target = data[:, 0] * data[:, 1] + np.sin(data[:, 2])
    return ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=2, random_state=0).fit(data, target), data


@pytest.mark.parametrize("density", ["empirical", "independent", "laplace", "auto", Kernel(bandwidth=0.5)])
@pytest.mark.parametrize("weighted", [False, True])
def test_standard_errors_are_those_of_whole_decompositions_of_resampled_rows(boosted, density, weighted):
    model, data = boosted
    weights = np.random.default_rng(2).exponential(size=len(data)) if weighted else None
    fx = decompose(model, data, density=density, sample_weight=weights, n_jobs=1)
    found = fx.standard_errors(n_resamples=6, random_state=3)
    rng = np.random.default_rng(3)
    shares = np.full(len(data), 1 / len(data)) if weights is None else weights / weights.sum()
    resampled = [
        decompose(model, data, density=density, sample_weight=rng.multinomial(len(data), shares), n_jobs=1)
        for _ in range(6)
    ]
    assert list(found) == list(fx.terms)
    for names, errors in found.items():
        expected = np.std([other.terms[names].values for other in resampled], axis=0, ddof=1)
        np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)
    assert max(errors.max() for errors in found.values()) > 1e-3


def test_standard_errors_shrink_with_the_root_of_the_rows(boosted):
    model, _ = boosted
    typical = []
    for n_rows in (500, 8000):
        fx = decompose(model, np.stack(normals(0.6, n_rows), axis=1), density="independent", n_jobs=1)
        typical.append(np.sqrt(np.mean(fx.standard_errors(40)["x0",] ** 2)))
    assert typical[0] / typical[1] == pytest.approx(4.0, rel=0.35)


def test_standard_errors_of_a_density_that_asks_no_rows_are_zero(boosted):
    model, data = boosted
    fx = decompose(model, data, density="uniform", n_jobs=1)
    for errors in fx.standard_errors(n_resamples=3).values():
        np.testing.assert_allclose(errors, 0.0, atol=1e-12)


def test_standard_errors_of_several_outputs():
    ensemble = pytest.importorskip("sklearn.ensemble")
    data = np.stack(normals(0.3, 120, order=2), axis=1)
    target = np.digitize(data[:, 0] + data[:, 1], [-0.7, 0.7])
    model = ensemble.GradientBoostingClassifier(n_estimators=4, max_depth=2, random_state=0).fit(data, target)
    fx = decompose(model, data, density="empirical", n_jobs=1)
    found = fx.standard_errors(n_resamples=4, random_state=0)
    rng = np.random.default_rng(0)
    draws = [rng.multinomial(120, np.full(120, 1 / 120)) for _ in range(4)]
    parts = [decompose(model, data, density="empirical", sample_weight=draw, n_jobs=1) for draw in draws]
    for names, errors in found.items():
        assert errors.shape == fx.terms[names].values.shape
        assert errors.shape[-1] == 3
        expected = np.std([part.terms[names].values for part in parts], axis=0, ddof=1)
        np.testing.assert_allclose(errors, expected, rtol=1e-6, atol=1e-9)


def test_standard_errors_need_rows_and_resamples(boosted):
    model, data = boosted
    with pytest.raises(ValueError, match="must have the rows of the density, got none"):
        decompose(model, density="uniform").standard_errors()
    with pytest.raises(ValueError, match="`n_resamples` must be at least 2, got 1"):
        decompose(model, data, density="empirical").standard_errors(n_resamples=1)


# Sensitivity to the density


AND_ROWS = np.array([[0, 0]] * 4 + [[0, 1]] * 1 + [[1, 0]] * 1 + [[1, 1]] * 4, dtype=float)


@pytest.fixture(scope="module")
def sensitivity():
    tree = pytest.importorskip("sklearn.tree")
    model = tree.DecisionTreeRegressor().fit(AND_ROWS, AND_ROWS.prod(axis=1))
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(AND_ROWS, columns=["p", "q"])
    return density_sensitivity(model, frame, ["uniform", "empirical"], feature_names=["p", "q"], n_jobs=1)


def test_sensitivity_of_and_by_hand(sensitivity):
    """Uniform: mains ∓1/4, interaction ±1/4. Rows .4, .1, .1, .4: the same mains by symmetry, centred alike."""
    # Empirical: f = c + a(p) + a(q) + i; pure i = (s, -4s, -4s, s) as its slices vanish: .4 i00 + .1 i01 = 0.
    # With a = ∓m: c - 2m + s = 0, c - 4s = 0, c + 2m + s = 1, so s = 0.1, c = 0.4, m = 0.25.
    table = sensitivity.table.set_index("term")
    pair_gap = np.sqrt(0.8 * (0.25 - 0.1) ** 2 + 0.2 * (-0.25 + 0.4) ** 2)
    spread = np.sqrt(0.4 * 0.6)
    assert table.loc["p", "distance"] == pytest.approx(0.0, abs=1e-9)
    assert table.loc["p × q", "distance"] == pytest.approx(pair_gap / spread)
    assert next(iter(sensitivity.table["term"])) == "p × q"
    assert table.loc["p", "share uniform"] == pytest.approx((1 / 16) / (3 / 16))
    assert table.loc["p × q", "share uniform"] == pytest.approx(1 / 3)
    main_covariance = 0.8 / 16 - 0.2 / 16  # of the two mains under the rows
    assert table.loc["p", "share empirical"] == pytest.approx((1 / 16 + main_covariance) / 0.24)
    assert table.loc["p × q", "share empirical"] == pytest.approx((0.8 * 0.01 + 0.2 * 0.16) / 0.24)
    assert table.loc["p × q", "sign differs"] == 0.0
    assert "p × q" in str(sensitivity)


def test_main_effects_of_a_sensitivity_by_hand(sensitivity):
    mains = sensitivity.mains
    assert list(mains.columns) == ["term", "bin", "label", "density", "output", "value", "weight"]
    assert len(mains) == 2 * 2 * 2
    np.testing.assert_allclose(mains["value"], np.where(mains["bin"] == 0, -0.25, 0.25))
    np.testing.assert_allclose(mains["weight"], 0.5)
    assert set(mains["density"]) == {"uniform", "empirical"}
    assert list(sensitivity.decompositions) == ["uniform", "empirical"]


def test_signs_that_differ_between_densities():
    tree = pytest.importorskip("sklearn.tree")
    rows = np.array([[0, 0]] * 45 + [[0, 1]] * 5 + [[1, 0]] * 5 + [[1, 1]] * 45, dtype=float)
    # T = (0, 1, 2, 1.5): under equal weights p rises by 1.25 and q by 0.25; under the diagonal they must share 1.5.
    model = tree.DecisionTreeRegressor().fit(rows, np.array([0, 1, 2, 1.5])[(2 * rows[:, 0] + rows[:, 1]).astype(int)])
    found = density_sensitivity(model, rows, {"flat": "uniform", "seen": "empirical"}, n_jobs=1)
    terms = {name: fx.terms for name, fx in found.decompositions.items()}
    table = dict(zip(found.table["term"], found.table["sign differs"], strict=True))
    for names in terms["seen"]:
        flat, seen = terms["flat"][names].values, terms["seen"][names].values
        weights = rows.shape[0] * terms["seen"][names].weights
        opposite = sum(w for w, a, b in zip(weights.flat, flat.flat, seen.flat, strict=True) if a * b < 0)
        assert table[" × ".join(names)] == pytest.approx(opposite / len(rows))


def test_sensitivity_of_several_densities_takes_the_two_furthest_apart(boosted):
    model, data = boosted
    found = density_sensitivity(model, data, ["uniform", "independent", "auto", "empirical"], n_jobs=1)
    parts = {name: decompose(model, data, density=name, n_jobs=1) for name in found.decompositions}
    spread = np.std(model.predict(data))
    distances = dict(zip(found.table["term"], found.table["distance"], strict=True))
    for names in parts["empirical"].terms:
        weights = parts["empirical"].terms[names].weights
        values = [part.terms[names].values for part in parts.values()]
        gaps = [np.sqrt((weights * (a - b) ** 2).sum()) for a, b in itertools.combinations(values, 2)]
        assert distances[" × ".join(names)] == pytest.approx(max(gaps) / spread, rel=1e-6)


def test_sensitivity_needs_two_densities(boosted):
    with pytest.raises(ValueError, match="`densities` must be at least two, got"):
        density_sensitivity(*boosted, ["auto"])


def test_auto_is_what_decompose_takes_unless_told(boosted):
    model, data = boosted
    fx = decompose(model, data, n_jobs=1)
    assert isinstance(fx.density, Auto)
    assert {names for names in fx.terms if len(names) == 2} <= set(fx.density.choices)
    independent = fx.with_density(Independent())
    assert np.abs(independent.terms["x0"].values - fx.terms["x0"].values).max() > 1e-3


def test_candidates_are_judged_near_enough_to_exact_marginals(monkeypatch):
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal([0, 0], [[1, 0.95], [0.95, 1]], size=4000)
    model = GradientBoostingRegressor(n_estimators=60, max_depth=2, random_state=0).fit(rows, rows[:, 0] * rows[:, 1])
    found = []
    for near in (estimates._RAKING_TOLERANCE, 1e-13):
        monkeypatch.setattr(estimates, "_RAKING_TOLERANCE", near)
        fx = decompose(model, rows, density="auto")
        found.append((fx.density.choices["x0", "x1"], fx.terms["x0", "x1"].weights))
    assert found[0][0].name == found[1][0].name
    assert found[0][0].likelihood == pytest.approx(found[1][0].likelihood, abs=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-8)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95, -0.96])
def test_margins_are_fitted_by_scales_of_rows_and_columns_also_under_strong_dependence(correlation):
    rng = np.random.default_rng(0)
    x = np.linspace(-2.4, 2.4, 60)
    table = np.exp(-(x[:, None] ** 2 + x**2 - 2 * correlation * np.outer(x, x)) / (2 * (1 - correlation**2)))
    rows, columns = rng.dirichlet(np.full(60, 20.0)), rng.dirichlet(np.full(60, 20.0))
    expected = table.copy()
    for _ in range(5000):  # Sinkhorn's steps as they are
        expected *= (rows / expected.sum(axis=1))[:, None]
        expected *= columns / expected.sum(axis=0)
    np.testing.assert_allclose(expected.sum(axis=1), rows, rtol=1e-9)
    found = rake_to_marginals(table.copy(), rows, columns)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12 * expected.max())


@given(st.integers(0, 2**31))
@settings(max_examples=200)
def test_marginals_are_exact_also_where_zeros_leave_no_way(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 7, size=2)
    table = rng.random(shape) ** rng.choice([1, 8, 60, 300]) * (rng.random(shape) < rng.choice([0.3, 0.7, 1.0]))
    rows, columns = (rng.random(n) * (rng.random(n) < 0.8) + 1e-300 * (np.arange(n) == 0) for n in shape)
    rows, columns = rows / rows.sum(), columns / columns.sum()
    found = rake_to_marginals(table, rows, columns)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-12)


@given(st.integers(0, 2**31))
@settings(max_examples=100)
def test_marginals_of_unequal_masses_are_fitted_as_by_plain_steps(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 30, size=2)
    rows, columns = (np.maximum(rng.dirichlet(np.full(n, 0.5)), 1e-6) for n in shape)
    rows, columns = rows / rows.sum(), columns / columns.sum()
    gap = (np.cumsum(rows) - rows / 2)[:, None] - (np.cumsum(columns) - columns / 2)
    table = np.outer(rows, columns) / (1 + (gap / rng.uniform(0.1, 1.0)) ** 2) ** 3
    expected = table.copy()
    for _ in range(400):
        expected *= (rows / expected.sum(axis=1))[:, None]
        expected *= columns / expected.sum(axis=0)
    if np.abs(expected.sum(axis=1) - rows).sum() < 1e-12:  # plain steps have arrived
        assert np.abs(rake_to_marginals(table, rows, columns) - expected).sum() < 1e-6
