"""Means of scores under joint densities, against brute force over all cells and over the rows."""

from __future__ import annotations

import math

import numpy as np
import pytest

import treeanova
from tests.support.forests import all_cells, random_forest, rows_on_bounds
from tests.support.strategies import seeds
from treeanova.core.compiled import has_numba
from treeanova.density import costs as density_costs
from treeanova.model.rows import Rows
from treeanova.terms import costs, measuring

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
BOUNDS = (-1.5, -0.5, 0.0, 0.4, 1.1)


def dependent_case(seed, n_rows=60, n_outputs=2):
    """A deep forest of numbers, and weighted rows of features that depend on each other."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=6, max_trees=6, n_outputs=n_outputs, max_features=5, bounds=BOUNDS)
    n_features = len(forest.schema.features)
    rows = rng.normal(size=(n_rows, n_features)) + 1.5 * rng.normal(size=(n_rows, 1))
    for j, feature in enumerate(forest.schema.features):
        if feature.is_category:
            rows[:, j] = np.clip(np.floor(rows[:, j] + 1), 0, feature.n_categories - 1)
    return forest, rows, rng.random(n_rows) ** 3


SEEDS = seeds(5, quick=2)  # of deep forests: `certificate.higher` says so


def mean_and_spread(fx, forest):
    """Mean and standard deviation of the score over all cells of the joint density."""
    cells = all_cells(fx.grid)
    weights = fx.density.joint.table(tuple(range(len(fx.grid.sizes))))[tuple(cells.T)]
    score = forest.score(Rows.in_bins(fx.grid, cells))
    mean = weights @ score
    return mean, np.sqrt(weights @ (score - mean) ** 2)


@pytest.mark.parametrize("density", ["empirical", "laplace", "shrinkage"])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_intercept_is_the_mean_of_the_score_under_the_density(seed, density):
    forest, rows, weights = dependent_case(seed)
    fx = treeanova.decompose(forest, rows, density=density, sample_weight=weights, tensor_order=2)
    mean, spread = mean_and_spread(fx, forest)
    assert fx.certificate.higher.mean_error == 0
    assert np.all(np.abs(fx.intercept - mean) <= 1e-12 * spread)


@pytest.mark.parametrize("density", ["kernel", "auto"])
@pytest.mark.parametrize("seed", SEEDS)
def test_where_pairs_have_tables_of_their_own_each_part_has_mean_zero_under_its_density(seed, density):
    """High orders under the joint density; what the intercept differs from its mean is in the certificate."""
    forest, rows, weights = dependent_case(seed, n_rows=400)
    fx = treeanova.decompose(forest, rows, density=density, sample_weight=weights, tensor_order=2)
    mean, spread = mean_and_spread(fx, forest)
    tables = np.zeros_like(mean)
    for names, term in fx.terms.items():
        key = tuple(fx.schema.names.index(name) for name in names)
        if term.has_table:
            tables += np.tensordot(fx.density.joint.table(key), term.values, len(key))
            np.testing.assert_allclose(np.tensordot(term.weights, term.values, len(key)), 0, atol=1e-12)
    assert np.all(np.abs(mean - tables - fx.intercept) <= 1e-12 * spread)
    score = forest.score(rows)
    assert fx.certificate.mean_gap == pytest.approx((np.abs(tables) / score.std(axis=0)).max(), abs=1e-12)


def test_the_smooth_densities_above_are_not_all_independent():
    forest, rows, weights = dependent_case(3, n_rows=400)
    fx = treeanova.decompose(forest, rows, density="auto", sample_weight=weights, tensor_order=2)
    assert not fx.density.is_product
    assert fx.certificate.mean_gap > 1e-6


@pytest.mark.parametrize("max_order", [None, 1, 2, 3])
@pytest.mark.parametrize("seed", SEEDS)
def test_the_intercept_is_the_mean_prediction_of_the_rows_whatever_the_orders(seed, max_order):
    forest, rows, weights = dependent_case(seed, n_rows=30)
    fx = treeanova.decompose(
        forest, rows, density="empirical", sample_weight=weights, tensor_order=2, max_order=max_order
    )
    score = forest.score(rows)
    expected = weights @ score / weights.sum()
    assert np.all(np.abs(fx.intercept - expected) <= 1e-12 * score.std(axis=0))
    explained = fx.explain(rows)
    total = fx.intercept + explained.values.sum(axis=1) + (0 if explained.remainder is None else explained.remainder)
    np.testing.assert_allclose(total, score, atol=1e-10)


def test_given_tables_and_independent_blocks():
    forest, rows, _ = dependent_case(0)
    grid = treeanova.decompose(forest, rows, density="empirical", tensor_order=2).grid
    rng = np.random.default_rng(0)
    names = grid.schema.names
    tables = {(names[0], names[1]): rng.random(grid.sizes[:2]) ** 4}
    tables |= {(name,): rng.random(size) for name, size in zip(names[2:], grid.sizes[2:], strict=True)}
    fx = treeanova.decompose(
        forest, density={key: table / table.sum() for key, table in tables.items()}, tensor_order=2
    )
    mean, spread = mean_and_spread(fx, forest)
    assert np.all(np.abs(fx.intercept - mean) <= 1e-12 * spread)


@pytest.mark.parametrize("as_rows", [lambda rows: rows, lambda rows: [rows[:700], rows[700:]]])
def test_all_rows_count_where_the_sample_is_smaller(as_rows, monkeypatch):
    monkeypatch.setattr(density_costs, "MAX_SAMPLE_ROWS", 500)
    forest, rows, _ = dependent_case(0, n_rows=2000)
    frame = pytest.importorskip("pandas").DataFrame(rows, columns=forest.schema.names)
    fx = treeanova.decompose(forest, as_rows(frame), density="empirical", tensor_order=2)
    assert not fx.density.statistics.is_complete
    score = forest.score(rows)
    assert np.all(np.abs(fx.intercept - score.mean(axis=0)) <= 1e-12 * score.std(axis=0))


def test_rows_that_are_read_once_give_an_estimate_with_its_error(monkeypatch):
    monkeypatch.setattr(density_costs, "MAX_SAMPLE_ROWS", 500)
    forest, rows, _ = dependent_case(0, n_rows=2000)
    frame = pytest.importorskip("pandas").DataFrame(rows, columns=forest.schema.names)
    once = (frame[start : start + 500] for start in range(0, 2000, 500))
    fx = treeanova.decompose(forest, once, density="empirical", tensor_order=2)
    score, error = forest.score(rows), fx.certificate.higher.mean_error
    assert 0 < error < 0.1
    assert np.all(np.abs(fx.intercept - score.mean(axis=0)) <= 5 * error * score.std(axis=0))


@pytest.mark.parametrize("density", ["empirical", "auto"])
def test_a_mean_that_takes_too_long_is_estimated_and_the_certificate_says_how_well(density, monkeypatch):
    forest, rows, weights = dependent_case(3, n_rows=400)
    exact = treeanova.decompose(forest, rows, density=density, sample_weight=weights, tensor_order=2).intercept
    monkeypatch.setattr(costs, "MEAN_STEPS", 0.0)
    monkeypatch.setattr(costs, "MEAN_PRODUCTS", 0.0)
    fx = treeanova.decompose(forest, rows, density=density, sample_weight=weights, tensor_order=2)
    error = fx.certificate.higher.mean_error
    assert 0 < error < 0.1
    assert np.all(np.abs(fx.intercept - exact) <= 5 * error * forest.score(rows).std(axis=0))
    assert "standard error of the intercept" in str(fx.certificate)


@pytest.mark.usefixtures("_budget_of_tables")
def test_merged_bins_of_tables_do_not_change_the_mean():
    rng = np.random.default_rng(1)
    bounds = tuple(np.linspace(-3, 3, 90))
    forest = random_forest(rng, max_depth=7, max_trees=40, n_outputs=1, max_features=5, bounds=bounds)
    rows = rows_on_bounds(forest, rng, 200)
    fx = treeanova.decompose(forest, rows, density="empirical", budget=66_000)
    assert fx._function.source.trees.has_merged_bins
    score = forest.score(rows)[:, 0]
    assert abs(fx.intercept - score.mean()) <= 1e-12 * score.std()


@pytest.mark.parametrize(
    "sum_at_points", [measuring._sum_by_numpy, pytest.param(measuring._sum_compiled, marks=NEEDS_NUMBA)]
)
def test_sums_over_points_are_those_of_each_leaf_and_point(sum_at_points):
    rng = np.random.default_rng(0)
    n_points, widths = 1_500, (3, 1, 5)  # more points than a block of the compiled loop
    codes = np.stack([rng.integers(width, size=n_points) for width in widths], axis=1)
    weights, tables = rng.random(n_points), [rng.random((4, width)) for width in widths]
    expected = [
        math.fsum(
            weights[i] * math.prod(table[leaf, codes[i, j]] for j, table in enumerate(tables)) for i in range(n_points)
        )
        for leaf in range(4)
    ]
    assert np.allclose(sum_at_points(codes, weights, tables), expected, rtol=1e-12, atol=0)
