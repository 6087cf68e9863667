"""Trees with merged bins: masses, draws within merged bins, and what merging loses."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains
from tests.support.simulated import deep_decomposition, deep_model
from treeanova.density import Empirical
from treeanova.density.statistics import statistics_of
from treeanova.errors import BudgetError
from treeanova.terms.closed_form import expand
from treeanova.terms.layout import choose_layout, lay_out, leaves_of


@pytest.fixture(scope="module")
def boosted():
    pytest.importorskip("xgboost")
    return deep_model()


@pytest.fixture(scope="module")
def fx(boosted):
    return deep_decomposition()


@pytest.mark.usefixtures("_budget_of_tables")
def test_bins_are_merged_where_pairs_do_not_fit(boosted, fx):
    model, x = boosted
    merged = treeanova.decompose(model, x, density="empirical", budget=1.5e6)
    assert max(merged.grid.sizes) <= 64 < max(fx.grid.sizes)
    assert merged.has_remainder
    rows = np.vstack([x[:100], 10 * x[:100]])
    np.testing.assert_allclose(merged.explain(rows).scores, fx.decision_function(rows), atol=1e-12)
    lost = merged.remainder(x).var() / fx.decision_function(x).var()
    assert 0 < lost < 0.05
    # A tensor over merged bins is the mean of the one over all bins.
    for j in range(6):
        fine, coarse = fx.terms[f"x{j}"], merged.terms[f"x{j}"]
        assert np.corrcoef(fine(x[:, [j]]), coarse(x[:, [j]]))[0, 1] > 0.9
    with pytest.raises(BudgetError, match="over the budget of 10 kB"):
        treeanova.decompose(model, x, density="empirical", budget=1e4)


def merged_trees(seed=0, max_bins=16):
    """Trees whose tensors have merged bins, and rows of their density."""
    rng = np.random.default_rng(seed)
    splits = [[(j, float(u))] for j in range(2) for u in rng.normal(size=40)]
    pairs = [[(0, float(rng.normal())), (1, float(rng.normal()))] for _ in range(5)]
    forest = chains(*splits, *pairs, n_features=2)
    sets = leaves_of(forest)
    rows = rng.normal(size=(400, 2)) * [1, 2]
    layout = dataclasses.replace(choose_layout(sets, budget=1e9), max_bins=max_bins)
    return lay_out(forest, sets, layout, statistics_of(rows, sets.grid)), rows


def counted(trees, rows):
    """Rows in each bin of each feature."""
    pairs = zip(trees.grid.index(rows).T, trees.grid.sizes, strict=True)
    return [np.bincount(column, minlength=size) for column, size in pairs]


def test_merged_bins_hold_equal_masses_of_rows_and_lead_back():
    trees, rows = merged_trees()
    codes = trees.grid.index(rows)
    merged = trees.merged(codes)
    np.testing.assert_array_equal(merged, trees.tensor_grid.index(rows))
    for j, binning in enumerate(trees.binnings):
        assert binning.size <= 16 < trees.grid.sizes[j]
        counts = np.bincount(codes[:, j], minlength=trees.grid.sizes[j])
        assert np.bincount(merged[:, j]).max() <= len(rows) / 16 + counts.max()


def test_draws_within_merged_bins_follow_the_shares():
    trees, rows = merged_trees()
    counts = counted(trees, rows)
    coarse = np.repeat(trees.merged(trees.grid.index(rows)), 50, axis=0)
    drawn = trees.drawn_within(coarse, np.random.default_rng(0))
    np.testing.assert_array_equal(trees.merged(drawn), coarse)
    for j, expected in enumerate(counts):
        found = np.bincount(drawn[:, j], minlength=len(expected)) / len(drawn)
        np.testing.assert_allclose(found, expected / len(rows), atol=0.01)
        assert (found[expected == 0] == 0).all()


def test_masses_of_all_bins_are_those_of_the_rows():
    trees, rows = merged_trees()
    density = Empirical().bind(trees.tensor_grid, statistics_of(rows, trees.tensor_grid))
    for j, masses in enumerate(trees.masses(density)):
        counts = np.bincount(trees.grid.axes[j].index(rows[:, j]), minlength=trees.grid.sizes[j])
        np.testing.assert_allclose(masses, counts / len(rows), atol=1e-14)


def test_points_have_all_bins_of_the_forest():
    trees, rows = merged_trees()
    density = Empirical().bind(trees.tensor_grid, statistics_of(rows, trees.tensor_grid))
    codes, weights = trees.points(density, 1000, np.random.default_rng(0))
    expected, counts = np.unique(trees.grid.index(rows), axis=0, return_counts=True)
    found = {tuple(code): weight for code, weight in zip(codes.tolist(), weights, strict=True)}
    for cell, count in zip(expected.tolist(), counts, strict=True):
        total = sum(weight for code, weight in zip(codes.tolist(), weights, strict=True) if code == cell)
        assert total == pytest.approx(count / len(rows))
    assert len(found) == len(expected)


def test_raw_tensors_of_merged_bins_are_means_over_them():
    trees, rows = merged_trees()
    whole = expand(trees.leaf_sets)
    merged = trees.raw_tensors()
    masses = counted(trees, rows)
    for j, binning in enumerate(trees.binnings):
        values = merged.terms[j,][:, 0]
        for b in range(binning.size):
            inside = binning.bins == b
            weights = masses[j][inside] if masses[j][inside].any() else None
            assert values[b] == pytest.approx(np.average(whole.terms[j,][inside, 0], weights=weights))
