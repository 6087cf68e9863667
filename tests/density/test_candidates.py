"""Estimates of a pair against plain loops over rows, refits without a row, and known laws."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

from tests.support.dependence import (
    FLOOR,
    LAWS,
    QUANTILES,
    copula_cells,
    gumbel,
    influence,
    kernel_ratio,
    normal_cells,
    of_one_pair,
    pair_of,
    pair_of_cells,
    pair_of_codes,
    related_codes,
)
from tests.support.training import fit
from treeanova import decompose
from treeanova.density.smooth import choice as estimates
from treeanova.density.smooth.choice import full_table
from treeanova.density.smooth.margins import Margin
from treeanova.density.table import rake_to_marginals


@pytest.mark.parametrize("ordered", [(7, 5), (6, 5), (7, 4), (0, 5), (7, 0)])
@pytest.mark.parametrize("bandwidth", [0.2, 1.0])
def test_the_kernel_ratio_is_a_plain_double_loop(ordered, bandwidth):
    first, second = related_codes()
    width = bandwidth * 60 ** (-1 / 6)
    of_first, of_second = influence(first, ordered[0], 7, width), influence(second, ordered[1], 5, width)
    expected = kernel_ratio(first, second, of_first, of_second, range(60))
    found = of_one_pair(estimates.kernel, pair_of_codes(first, second, (7, 5), ordered), bandwidth, 0.0)
    np.testing.assert_allclose(found.ratio, expected, rtol=1e-10, atol=1e-14)
    shrunk = of_one_pair(estimates.kernel, pair_of_codes(first, second, (7, 5), ordered), bandwidth, 0.3)
    np.testing.assert_allclose(shrunk.ratio, 0.7 * expected + 0.3, rtol=1e-10)


@pytest.mark.parametrize("ordered", [(7, 5), (6, 5), (0, 5)])
@pytest.mark.parametrize("shrinkage", [0.0, 0.2])
def test_left_out_ratios_of_a_kernel_are_those_of_a_fit_without_the_row(ordered, shrinkage):
    first, second = related_codes(seed=1)
    width = 0.4 * 60 ** (-1 / 6)
    of_first, of_second = influence(first, ordered[0], 7, width), influence(second, ordered[1], 5, width)
    found = of_one_pair(estimates.kernel, pair_of_codes(first, second, (7, 5), ordered), 0.4, shrinkage)
    share = max(shrinkage, FLOOR)
    for row in range(60):
        cell = first[row], second[row]
        without = kernel_ratio(first, second, of_first, of_second, [i for i in range(60) if i != row])[cell]
        assert found.left_out[cell] == pytest.approx((1 - share) * without + share, rel=1e-9)


@pytest.mark.parametrize("shrinkage", [0.0, 0.05, 0.5])
def test_left_out_ratios_of_shares_are_those_without_the_row(shrinkage):
    first, second = related_codes(seed=2)
    found = of_one_pair(estimates.empirical, pair_of_codes(first, second, (7, 5)), shrinkage)
    share = max(shrinkage, FLOOR)
    for row in range(60):
        same = [i for i in range(60) if i != row and first[i] == first[row] and second[i] == second[row]]
        product = np.mean(first == first[row]) * np.mean(second == second[row])
        expected = (1 - share) * len(same) / 59 / product + share
        assert found.left_out[first[row], second[row]] == pytest.approx(expected, rel=1e-12)


# Gaussian copula


@pytest.mark.parametrize("correlation", [-0.5, 0.0, 0.3, 0.7, 0.9])
@pytest.mark.parametrize(
    ("first", "second"),
    [([0.5], [0.3]), ([0.2, 0.7], [0.1, 0.4, 0.5, 0.8]), (np.arange(1, 30) / 30, np.arange(1, 20) / 20)],
)
def test_the_gaussian_copula_gives_normal_cells_back(correlation, first, second):
    shares = normal_cells(correlation, first, second)
    margins = [Margin(shares.sum(axis=1 - i), shares.shape[i], 1e6) for i in range(2)]
    pair = pair_of(*margins, shares)
    table = full_table(pair.first, pair.second, of_one_pair(estimates.gaussian, pair).ratio)
    assert np.abs(table - shares).sum() < 0.035


def test_gaussian_leaves_unordered_bins_nearly_independent():
    first, second = related_codes()
    ratio = of_one_pair(estimates.gaussian, pair_of_codes(first, second, (7, 5), (6, 3))).ratio
    np.testing.assert_allclose(ratio[6], 1, atol=0.01)
    np.testing.assert_allclose(ratio[:, 3:], 1, atol=0.01)
    assert np.abs(np.log(ratio[:6, :3])).max() > 0.3


# Families


@pytest.mark.parametrize("name", ["clayton", "gumbel", "frank"])
@pytest.mark.parametrize("rotation", [0, 90, 180, 270])
def test_the_family_of_cells_is_found_with_its_rotation(name, rotation):
    cells = copula_cells(LAWS[name], {"clayton": 2.0, "gumbel": 2.5, "frank": 8.0}[name], QUANTILES, QUANTILES)
    turned = {0: cells, 90: cells[::-1], 180: cells[::-1, ::-1], 270: cells[:, ::-1]}[rotation]
    pair = pair_of_cells(np.ascontiguousarray(turned))
    found = of_one_pair(estimates.family, pair)
    assert found.name == (name if name == "frank" or rotation == 0 else f"{name} {rotation}")
    assert np.abs(full_table(pair.first, pair.second, found.ratio) - turned).sum() < 0.02


def test_a_family_of_few_bins_is_found():
    cells = copula_cells(gumbel, 3.0, [0.2, 0.5, 0.7, 0.9], QUANTILES)
    pair = pair_of_cells(cells)
    assert np.abs(full_table(pair.first, pair.second, of_one_pair(estimates.family, pair).ratio) - cells).sum() < 0.03


@pytest.mark.parametrize("sign", [-1, 1])
def test_families_of_features_in_perfect_order(sign):
    codes = np.arange(60) % 6
    pair = pair_of_codes(codes, codes if sign > 0 else 5 - codes, (6, 6))
    table = full_table(pair.first, pair.second, of_one_pair(estimates.family, pair).ratio)
    assert np.trace(table if sign > 0 else table[:, ::-1]) > 0.75


# Corrected and sharpened estimates


@pytest.mark.parametrize("bandwidth", [0.5, 1.4])
def test_a_corrected_start_is_a_loop_over_rows_each_weighed_by_the_start(bandwidth, monkeypatch):
    monkeypatch.setattr(estimates, "_RAKING_TOLERANCE", 1e-12)
    first, second = related_codes(seed=7)
    pair = pair_of_codes(first, second, (7, 5))
    start = estimates.gaussian(pair.alone)
    floored = np.maximum(start.ratio[0], 0.05)
    width = bandwidth * 60 ** (-1 / 6)
    of_first, of_second = influence(first, 7, 7, width), influence(second, 5, 5, width)

    def fit(rows):
        parts = [np.outer(of_first[:, first[i]], of_second[:, second[i]]) / floored[first[i], second[i]] for i in rows]
        return floored * sum(parts) / len(rows)

    found = of_one_pair(estimates.corrected, pair, start, bandwidth)
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

    found = of_one_pair(estimates.sharpened, pair, bandwidth, scale)
    whole = fit(range(60))
    margins = rake_to_marginals(whole * pair.product, pair.first.masses, pair.second.masses)
    np.testing.assert_allclose(found.ratio * pair.product, margins, rtol=1e-7)
    for row in range(0, 60, 7):
        cell = first[row], second[row]
        without = fit([i for i in range(60) if i != row])[cell] * found.ratio[cell] / whole[cell]
        inside, exact = found.ratio[cell], (1 - FLOOR) * without + FLOOR
        assert abs(found.left_out[cell] - exact) < 0.2 * (inside - exact)


def test_sharpening_removes_bias():
    """Of a smooth dependence known exactly, a wide kernel loses much, and half of it or more comes back."""
    cells = normal_cells(0.7, QUANTILES, QUANTILES)
    pair = pair_of_cells(cells, 1e4)
    plain, sharp = (
        np.abs(full_table(pair.first, pair.second, found.ratio) - cells).sum()
        for found in (of_one_pair(estimates.kernel, pair, 2.0, 0.0), of_one_pair(estimates.sharpened, pair, 2.0))
    )
    assert plain > 0.1
    assert sharp < 0.5 * plain


def test_approximate_marginals_of_candidates_do_not_change_the_choice(monkeypatch):

    rng = np.random.default_rng(0)
    rows = rng.multivariate_normal([0, 0], [[1, 0.95], [0.95, 1]], size=4000, method="cholesky")
    model = fit(GradientBoostingRegressor(n_estimators=60, max_depth=2, random_state=0), rows, rows[:, 0] * rows[:, 1])
    found = []
    for near in (estimates._RAKING_TOLERANCE, 1e-13):
        monkeypatch.setattr(estimates, "_RAKING_TOLERANCE", near)
        fx = decompose(model, rows, density="auto")
        found.append((fx.density.choices["x0", "x1"], fx.terms["x0", "x1"].weights))
    assert found[0][0].name == found[1][0].name
    assert found[0][0].likelihood == pytest.approx(found[1][0].likelihood, abs=1e-5)
    np.testing.assert_allclose(found[0][1], found[1][1], atol=1e-8)
