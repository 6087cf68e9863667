"""Tree models: exact sums for every input, and the terms of dense tensors where features are independent."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import names_at_rows, names_in_tables, sum_of
from tests.support.forests import chains, random_forest, rows_on_bounds, scale_of
from tests.support.simulated import deep_decomposition, deep_model, high_order_rows
from tests.support.strategies import seeds
from tests.support.training import fit
from treeanova.terms import costs, tree_model
from treeanova.terms.tree_model import TreeModel


@pytest.fixture(scope="module")
def boosted():
    pytest.importorskip("xgboost")
    return deep_model()


@pytest.fixture(scope="module")
def fx(boosted):
    return deep_decomposition()


@pytest.mark.parametrize("density", ["empirical", "laplace", "auto", "independent", "uniform"])
@pytest.mark.parametrize("seed", seeds(6, quick=2))
def test_sums_are_exact_for_every_input(seed, density):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=7, max_trees=12, max_features=6)
    rows = rows_on_bounds(forest, rng, 300)
    fx = treeanova.decompose(forest, rows[:60], density=density, tensor_order=2)
    explained = fx.explain(rows)  # most of these rows are in cells that the density has not seen
    expected = forest.score(rows) if forest.n_outputs > 1 else forest.score(rows)[:, 0]
    atol = 1e-11 * scale_of(forest)
    assert explained.remainder is None
    np.testing.assert_allclose(sum_of(explained), expected, atol=atol)
    np.testing.assert_allclose(fx.decision_function(rows), expected, atol=atol)
    cut = fx.explain(rows, max_order=1)
    assert {len(term) for term in cut.terms} <= {1}
    np.testing.assert_allclose(cut.scores, expected, atol=atol)


@pytest.mark.parametrize("density", ["independent", "uniform"])
@pytest.mark.parametrize("seed", seeds(6, quick=3))
def test_deep_is_dense_where_features_are_independent(seed, density):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=4, max_trees=4, max_features=4)
    rows = rows_on_bounds(forest, rng, 150)
    dense = treeanova.decompose(forest, rows, density=density, tensor_order=9)
    deep = treeanova.decompose(forest, rows, density=density, tensor_order=2)
    assert not isinstance(dense._function.source, TreeModel)
    atol = 1e-9 * scale_of(forest)
    np.testing.assert_allclose(deep.intercept, dense.intercept, atol=atol)
    assert set(deep.terms) == set(dense.terms)
    for names in dense.terms:
        np.testing.assert_allclose(deep.term_values(rows, names), dense.term_values(rows, names), atol=atol)
    assert set(names_in_tables(deep)) == {names for names in dense.terms if len(names) <= 2}
    assert deep.certificate.higher is None or deep.certificate.higher.is_exact


def test_deep_is_chosen_by_the_plan(boosted, fx):
    model, x = boosted
    assert isinstance(fx._function.source, TreeModel)
    assert {len(names) for names in names_in_tables(fx)} == {1, 2}
    assert {len(names) for names in names_at_rows(fx)} == {3, 4, 5, 6}
    np.testing.assert_allclose(fx.decision_function(x), model.predict(x, output_margin=True), atol=1e-5)
    np.testing.assert_allclose(sum_of(fx.explain(x[:200])), fx.decision_function(x[:200]), atol=1e-12)
    assert not fx.has_remainder
    assert fx.certificate.tables_are_pure
    assert not fx.certificate.is_pure  # orders 3 to 6 are pure to some per cent only
    assert fx.certificate.reconstruction_error < 1e-13
    text = repr(fx)
    assert "of higher orders at rows" in text
    assert "remainder" not in text


def test_pairs_of_a_deep_model_are_pure_under_the_rows(boosted, fx):
    x = boosted[1]
    for names in [("x0", "x1"), ("x2", "x3")]:
        values = fx.term_values(x, names)
        for name in names:
            bins = fx.grid.index(x)[:, int(name[1:])]
            assert np.abs(np.bincount(bins, values)).max() < 1e-9 * len(x)


@pytest.mark.parametrize("density", ["independent", "empirical"])
def test_sums_are_exact_under_weights_next_to_nothing(boosted, density):
    model, x = boosted
    weights = np.where((x < -0.2).any(axis=1), 1e-150, 1.0)
    fx = treeanova.decompose(model, x, density=density, sample_weight=weights)
    np.testing.assert_allclose(sum_of(fx.explain(x)), fx.decision_function(x), atol=1e-10)


def test_another_density(boosted, fx):
    x = boosted[1]
    other = fx.with_density("independent")
    expected = treeanova.decompose(*boosted, density="independent")
    for names in names_in_tables(expected):
        np.testing.assert_allclose(other.terms[names].values, expected.terms[names].values, atol=1e-12)
    np.testing.assert_allclose(
        other.term_values(x, ("x2", "x3", "x4")), expected.term_values(x, ("x2", "x3", "x4")), atol=1e-12
    )


# More terms than are listed


@pytest.fixture
def few_listed(monkeypatch):
    """Models whose terms would be too many to list."""
    monkeypatch.setattr(costs, "LISTED_TERMS", 1)


@pytest.mark.parametrize("density", ["empirical", "laplace", "auto"])
@pytest.mark.parametrize("seed", seeds(4, quick=2))
def test_sums_with_other_terms_are_exact_for_every_input(few_listed, seed, density):
    rng = np.random.default_rng([seed, 1])
    forest = random_forest(rng, max_depth=7, max_trees=12, max_features=6)
    rows = rows_on_bounds(forest, rng, 300)
    fx = treeanova.decompose(forest, rows[:60], density=density, tensor_order=2)
    explained = fx.explain(rows)
    expected = forest.score(rows) if forest.n_outputs > 1 else forest.score(rows)[:, 0]
    assert explained.remainder is None
    total = sum_of(explained) + sum(explained.others.values())
    np.testing.assert_allclose(total, expected, atol=1e-11 * scale_of(forest))


@pytest.mark.parametrize("density", ["empirical", pytest.param("auto", marks=pytest.mark.thorough)])
def test_sums_are_exact_after_low_orders_are_moved(few_listed, boosted, density, monkeypatch):
    """Rows on thresholds, far outside and with missing values."""
    monkeypatch.setattr(costs, "MAX_CORRECTED", 1)
    model, x = boosted
    fx = treeanova.decompose(model, x, density=density)
    assert {len(key) for key in fx._function.terms.leaf_terms.leftover.tables} == {0, 1, 2}
    forest = fx._function.source.trees.forest
    rows = rows_on_bounds(forest, np.random.default_rng(0), 300)
    assert np.isnan(rows).any()
    explained = fx.explain(rows)
    assert set(explained.others) == {3, 4, 5, 6}
    total = sum_of(explained) + sum(explained.others.values())
    np.testing.assert_allclose(total, forest.score(rows)[:, 0], atol=1e-11 * scale_of(forest))


@pytest.mark.parametrize("max_corrected", [300, 10])
def test_tables_are_the_same_whatever_order_is_listed(few_listed, boosted, max_corrected, monkeypatch):
    """Also where there are too many terms to correct them all."""
    monkeypatch.setattr(costs, "MAX_CORRECTED", max_corrected)
    model, x = boosted
    whole = treeanova.decompose(model, x, density="empirical")
    for max_order in (2, 3):
        part = treeanova.decompose(model, x, density="empirical", max_order=max_order)
        assert names_in_tables(whole) == names_in_tables(part)
        assert whole.intercept == part.intercept
        for names in names_in_tables(whole):
            np.testing.assert_array_equal(whole.terms[names].values, part.terms[names].values)


def told_by_cells(values, x, key, n_bins=8):
    """R² of the means of values over cells, bins of equal mass: means of one half of the rows, R² on the other."""
    bins = [np.searchsorted(np.quantile(x[:, j], np.arange(1, n_bins) / n_bins), x[:, j]) for j in key]
    cells = np.ravel_multi_index(bins, [n_bins] * len(key))
    fitted, tested = slice(None, len(x) // 2), slice(len(x) // 2, None)
    counts = np.bincount(cells[fitted], minlength=n_bins ** len(key))
    means = np.bincount(cells[fitted], values[fitted], n_bins ** len(key)) / np.maximum(counts, 1)
    return 1 - np.mean((values[tested] - means[cells[tested]]) ** 2) / values[tested].var()


def high_orders(fx, x):
    """The score minus intercept and tables."""
    return fx.decision_function(x) - fx.intercept - sum(fx.term_values(x, names) for names in names_in_tables(fx))


def test_high_orders_hold_no_low_ones_where_most_are_not_corrected(few_listed, boosted, monkeypatch):
    """At rows that neither the model nor the density has seen: cells tell next to nothing, and a fifth without it."""
    monkeypatch.setattr(costs, "MAX_CORRECTED", 1)
    rows, held_out = high_order_rows(3000, seed=1)[0], high_order_rows(3000, seed=2)[0]
    keys = [key for order in (1, 2) for key in itertools.combinations(range(6), order)]
    after = high_orders(treeanova.decompose(boosted[0], rows, density="empirical"), held_out)
    monkeypatch.setattr(tree_model, "_pass_on_low_orders", lambda _, high, low: (high, low))
    before = high_orders(treeanova.decompose(boosted[0], rows, density="empirical"), held_out)
    told_before, told_after = ([told_by_cells(values, held_out, key) for key in keys] for values in (before, after))
    assert max(told_before[:6]) > 0.08
    assert max(told_before[6:]) > 0.15
    assert max(told_after) < 0.05
    assert after.var() < before.var()


def test_independent_features_have_nothing_to_move(few_listed, boosted):
    fx = treeanova.decompose(*boosted, density="independent")
    assert fx._function.unlisted_orders
    assert fx._function.terms.leaf_terms.leftover.tables == {}


# A limit of time


def wide_forest(n_trees=40, n_features=7, n_outputs=2):
    """Trees that are chains of splits on all features in turn, and dependent rows."""
    rng = np.random.default_rng(0)
    trees = [[(int(j), float(rng.normal())) for j in rng.permutation(n_features)] for _ in range(n_trees)]
    X = rng.normal(size=(300, n_features)) + rng.normal(size=(300, 1))
    return chains(*trees, n_features=n_features, n_outputs=n_outputs), X


class TimeOverAt:
    """Progress with a time that is over as soon as a stage begins; the steps that were reported after that."""

    def __init__(self, stage, monkeypatch):
        self.stage, self.now, self.later = stage, 0.0, []
        monkeypatch.setattr("treeanova.core.progress.time.monotonic", lambda: self.now)

    def __call__(self, stage, done, total):
        if self.now:
            self.later.append((stage, done))
        if stage == self.stage:
            self.now = 1e9


CORRECTION = ("high orders on coarse cells", "high orders", "high orders, half the bins")
SKIPPED = {
    "choosing terms of high orders": "the correction of all terms",
    "high orders on coarse cells": "the correction of",
    "high orders": "the correction of",
    "high orders, half the bins": "a trial with half the bins",
    "terms of high order at rows": "the search for terms that carry weight",
    "low orders": "what tables can tell of terms that are not listed",
}


@pytest.mark.parametrize("stage", SKIPPED)
def test_when_time_is_over_every_phase_stops_and_the_sum_is_exact(stage, monkeypatch):
    forest, X = wide_forest()
    monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
    progress = TimeOverAt(stage, monkeypatch)
    fx = treeanova.decompose(forest, X, density="empirical", tensor_order=2, seconds=1e6, progress=progress, n_jobs=1)
    assert progress.now
    assert not [step for step in progress.later if step[0] in CORRECTION and step[1]]
    higher = fx.certificate.higher
    assert any(SKIPPED[stage] in skipped for skipped in higher.skipped)
    assert f"left out for lack of time: {higher.skipped[0]}" in str(higher)
    assert (higher.n_corrected == 0) == (stage in list(SKIPPED)[:3])
    rows = np.random.default_rng(1).normal(size=(50, X.shape[1]), scale=2.0)
    explained = fx.explain(rows)
    assert explained.remainder is None  # so that scores are sums of terms
    np.testing.assert_allclose(explained.scores, forest.score(rows), rtol=1e-12)
    assert not fx.certificate.is_pure


def test_with_time_for_all_nothing_is_left_out():
    forest, X = wide_forest()
    fx, unlimited = (treeanova.decompose(forest, X, density="empirical", seconds=seconds) for seconds in (1e6, None))
    assert fx.certificate.higher.skipped == ()
    assert fx == unlimited


def test_terms_are_corrected_as_far_as_time_allows(monkeypatch):
    forest, X = wide_forest()
    monkeypatch.setattr(costs, "SECONDS_PER_CORRECTED_TERM", 1e4)
    monkeypatch.setattr("treeanova.core.progress.time.monotonic", lambda: 0.0)
    fx = treeanova.decompose(forest, X, density="empirical", tensor_order=2, seconds=1e6)
    assert 0 < fx.certificate.higher.n_corrected < 99
    assert re.match(r"the correction of \d+ terms", fx.certificate.higher.skipped[0])
    rows = np.random.default_rng(1).normal(size=(50, X.shape[1]), scale=2.0)
    np.testing.assert_allclose(fx.explain(rows).scores, forest.score(rows), atol=1e-12)


@pytest.mark.parametrize("density", ["auto", "empirical", "independent"])
def test_without_time_for_tables_of_pairs_these_are_evaluated_at_rows(density, tmp_path, monkeypatch):
    forest, X = wide_forest(n_features=5)
    monkeypatch.setattr("treeanova.terms.costs.SECONDS_PER_TABLE", 1e6)
    fx = treeanova.decompose(forest, X, density=density, seconds=1e5)
    assert set(map(len, names_in_tables(fx))) == {1}
    assert ("x0", "x1") in fx.terms or 2 in fx.explain(X[:2]).others
    rows = np.random.default_rng(1).normal(size=(50, X.shape[1]), scale=2.0)
    expected = forest.score(rows)
    np.testing.assert_allclose(fx.explain(rows).scores, expected, atol=1e-12)
    fx.save(tmp_path / "fx.tav")
    np.testing.assert_allclose(treeanova.load(tmp_path / "fx.tav").explain(rows).scores, expected, atol=1e-12)
    dense = treeanova.decompose(forest, X, density=density)
    if density == "independent":
        key = ("x0", "x1")
        np.testing.assert_allclose(fx.term_values(rows, key), dense.term_values(rows, key), atol=1e-12)


def test_a_limit_of_time_merges_bins_of_tables_as_far_as_memory_allows():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(2000, 4))
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = fit(ensemble.RandomForestRegressor(20, max_depth=8, random_state=0), X, X[:, 0] * X[:, 1] + X[:, 2])
    quick = treeanova.decompose(model, X, seconds=1e-3)
    assert max(term.values.shape[0] for term in quick.terms.values() if term.has_table) <= 17
    np.testing.assert_allclose(quick.explain(X[:50]).scores, model.predict(X[:50]), atol=1e-12)
    for bad in (0, -1.0, True, "soon"):
        with pytest.raises(ValueError, match="`seconds` must be a number above 0, got"):
            treeanova.decompose(model, X, seconds=bad)
