"""Deep ensembles: closed form, correction for dependence, tensors of low orders, values of high orders at rows."""

from __future__ import annotations

import dataclasses
import itertools
import os
import re

import numpy as np
import pytest
from hypothesis import given

import treeanova
from tests.study_data import read_table
from treeanova import BudgetError
from treeanova.core.labels import label_of
from treeanova.model.binning import equal_mass, unmerged
from treeanova.model.grid import grid_of
from treeanova.terms.closed_form import ClosedForm, raw_at_rows
from treeanova.terms.layout import choose_layout
from treeanova.terms.leafsets import leaf_sets
from treeanova.terms.scope import Selected
from treeanova.terms.tree_model import TreeModel
from treeanova.terms.trees import leaves_of
from treeanova.testing.forests import BOUNDS_NEAR_ZERO, random_forest, rows_on_bounds, scale_of
from treeanova.testing.strategies import SEEDS


def all_cells(grid):
    """Bins of every cell of a small grid, shape (n_cells, n_features)."""
    cells = itertools.product(*(range(size) for size in grid.sizes))
    return np.array(list(cells), dtype=np.int32).reshape(-1, len(grid.sizes))


def random_masses(rng, grid):
    """Masses of the bins, some of them zero."""
    masses = [rng.random(size) * (rng.random(size) < 0.8) + 1e-3 * (np.arange(size) == 0) for size in grid.sizes]
    return tuple(own / own.sum() for own in masses)


def averaged_terms(forest, grid, masses):
    """Every term under independent features by its definition: means over all cells, then alternating sums."""
    whole = forest.score_encoded(grid.encoded(all_cells(grid))).reshape(*grid.sizes, forest.n_outputs)
    n = len(grid.sizes)
    means = {}
    for order in range(n + 1):
        for key in itertools.combinations(range(n), order):
            mean = whole
            for j in reversed(range(n)):
                if j not in key:
                    mean = np.tensordot(masses[j], mean, axes=(0, j))
            means[key] = mean
    terms = {}
    for key in means:
        total = 0.0
        for order in range(len(key) + 1):
            for part in itertools.combinations(key, order):
                wide = np.expand_dims(means[part], tuple(i for i, j in enumerate(key) if j not in part))
                total = total + (-1) ** (len(key) - order) * wide
        terms[key] = total
    return terms


@given(SEEDS)
def test_rows_are_in_the_sets_of_the_leaves_that_they_reach(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, bounds=BOUNDS_NEAR_ZERO) if seed % 2 else random_forest(rng)
    sets = leaf_sets(forest, grid_of(forest))
    encoded = treeanova.data.columns.encode(rows_on_bounds(forest, rng), forest.schema)
    codes = sets.grid.index_encoded(encoded)
    inside = np.ones((forest.n_leaves, len(codes)), dtype=bool)
    for j, own in enumerate(sets.sets):
        inside[own.leaves] &= own.contain(np.arange(len(own.leaves)), codes[:, j])
    reached = np.zeros_like(inside)
    reached[forest.leaves(encoded), np.arange(len(codes))[:, None]] = True
    np.testing.assert_array_equal(inside, reached)


@given(SEEDS)
def test_sets_on_merged_bins_are_shares_by_mass(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_features=3)
    sets = leaf_sets(forest, grid_of(forest))
    masses = random_masses(rng, sets.grid)
    for j, own in enumerate(sets.sets):
        size = sets.grid.sizes[j]
        membership = own.contain(np.arange(len(own.leaves)), np.arange(size, dtype=np.int32)).astype(float)
        np.testing.assert_allclose(own.mass(masses[j]), membership @ masses[j], atol=1e-14)
        for merging in (unmerged(size), equal_mass(sets.grid.axes[j], masses[j], int(rng.integers(2, 6)))):
            expected = np.zeros((len(own.leaves), merging.size))
            for b in range(merging.size):
                inside = merging.bins == b
                weights = masses[j][inside] if masses[j][inside].sum() > 0 else np.ones(inside.sum())
                expected[:, b] = membership[:, inside] @ weights / weights.sum()
            np.testing.assert_allclose(own.onto(merging), expected, atol=1e-12)
            np.testing.assert_allclose(np.cumsum(own.steps(merging).toarray(), axis=1), expected, atol=1e-12)


@given(SEEDS)
def test_closed_form_is_the_definition_under_independence(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_features=3, max_trees=4)
    sets = leaves_of(forest)
    masses = random_masses(rng, sets.grid)
    form = ClosedForm(sets, masses, tuple(unmerged(size) for size in sets.grid.sizes))
    expected = averaged_terms(forest, sets.grid, masses)
    atol = 1e-12 * scale_of(forest)
    np.testing.assert_allclose(form.intercept, expected[()], atol=atol)
    keys = sets.subsets(range(1, 4))
    codes = all_cells(sets.grid)
    at_rows = form.at_rows(codes, keys, n_jobs=2)
    for i, key in enumerate(keys):
        np.testing.assert_allclose(form.tensor(key), expected[key], atol=atol)
        np.testing.assert_allclose(at_rows[:, i], expected[key][tuple(codes[:, j] for j in key)], atol=atol)
    for key in set(expected) - set(keys) - {()}:
        assert np.abs(expected[key]).max() <= atol


@given(SEEDS)
def test_terms_as_held_add_up_to_the_trees(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    sets = leaves_of(forest)
    rows = rows_on_bounds(forest, rng, 100)
    held = raw_at_rows(sets, sets.grid.index(rows), sets.keys, n_jobs=1)
    np.testing.assert_allclose(forest.intercept + held.sum(axis=1), forest.score(rows), atol=1e-12 * scale_of(forest))


def at_rows(fx):
    """Names of the terms without a table."""
    return tuple(names for names, term in fx.terms.items() if not term.has_table)


def in_tables(fx):
    """Names of the terms with a table."""
    return [names for names, term in fx.terms.items() if term.has_table]


def sum_of(explanation):
    return explanation.values.sum(axis=1) + explanation.intercept


@pytest.mark.parametrize("density", ["empirical", "laplace", "auto", "independent", "uniform"])
@pytest.mark.parametrize("seed", range(6))
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
@pytest.mark.parametrize("seed", range(6))
def test_deep_is_dense_where_features_are_independent(seed, density):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=4, max_trees=4, max_features=4)
    rows = rows_on_bounds(forest, rng, 150)
    dense = treeanova.decompose(forest, rows, density=density, tensor_order=9)
    deep = treeanova.decompose(forest, rows, density=density, tensor_order=2)
    assert not isinstance(dense.source, TreeModel)
    atol = 1e-9 * scale_of(forest)
    np.testing.assert_allclose(deep.intercept, dense.intercept, atol=atol)
    assert set(deep.terms) == set(dense.terms)
    for names in dense.terms:
        np.testing.assert_allclose(deep.term_values(rows, names), dense.term_values(rows, names), atol=atol)
    assert set(in_tables(deep)) == {names for names in dense.terms if len(names) <= 2}
    assert deep.certificate.higher is None or deep.certificate.higher.is_exact


def fitted(n_features=3, n_rows=3000, *, depth=3, n_trees=20, correlation=0.6, steps=4, seed=0):
    """A model on few bins per feature, and rows in every cell of them."""
    from sklearn.ensemble import GradientBoostingRegressor

    rng = np.random.default_rng(seed)
    common = rng.normal(size=(n_rows, 1))
    x = correlation**0.5 * common + (1 - correlation) ** 0.5 * rng.normal(size=(n_rows, n_features))
    x = np.clip(np.round(x * steps / 3), -steps / 2, steps / 2)
    x = np.vstack([x, list(itertools.product(np.unique(x), repeat=n_features))])
    y = x[:, 0] * x[:, 1] * x[:, 2] + x[:, 0] ** 2 + rng.normal(size=len(x)) * 0.1
    model = GradientBoostingRegressor(max_depth=depth, n_estimators=n_trees, random_state=0)
    return model.fit(x, y), x


def test_on_few_bins_the_correction_is_the_exact_purification():
    model, x = fitted()
    dense = treeanova.decompose(model, x, density="empirical", tensor_order=3)
    deep = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    assert at_rows(dense) == ()
    assert at_rows(deep) == (("x0", "x1", "x2"),)
    size = np.abs(dense.explain(x).values).max()
    raw = treeanova.decompose(model, x, density="independent", tensor_order=2)
    for names in dense.terms:
        gap = np.abs(deep.term_values(x, names) - dense.term_values(x, names)).max()
        assert gap < 2e-3 * size
    # Without the correction they would differ by far more.
    assert np.abs(raw.term_values(x, "x0") - dense.term_values(x, "x0")).max() > 0.05 * size
    certificate = deep.certificate.higher
    assert certificate.n_corrected == 1
    assert certificate.impurity < 1e-2
    assert "1 terms at rows; 1 corrected for dependence on coarse bins (5 at order 3)" in str(certificate)


def test_the_certificate_tells_what_is_left_of_the_means_of_slices(monkeypatch):
    monkeypatch.setattr(treeanova.terms.correction, "_TOLERANCE_OF_ALL_BINS", 0.2)
    model, x = fitted()
    names = ("x0", "x1", "x2")
    left = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    before = treeanova.decompose(model, x, density="independent", tensor_order=2).term_values(x, names)
    values = left.term_values(x, names)
    squares = []
    for others in itertools.combinations(range(3), 2):
        _, slices = np.unique(left.grid.index(x)[:, others], axis=0, return_inverse=True)
        means = np.bincount(slices.ravel(), values) / np.bincount(slices.ravel())
        squares.append(np.mean(means[slices.ravel()] ** 2))
    expected = np.sqrt(np.mean(squares) / np.mean(before**2))
    assert expected > 1e-3
    assert left.certificate.higher.impurity == pytest.approx(expected, rel=1e-9)


def test_high_orders_have_zero_means_where_bins_are_few():
    model, x = fitted(n_features=4, depth=4, steps=3, n_trees=40)
    fx = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    bins = fx.grid.index(x)
    for names in at_rows(fx):
        values = fx.term_values(x, names)
        positions = [int(name[1:]) for name in names]
        for left_out in positions:
            others = bins[:, [j for j in positions if j != left_out]]
            _, cell = np.unique(others, axis=0, return_inverse=True)
            means = np.bincount(cell.ravel(), values) / np.bincount(cell.ravel())
            assert np.abs(means).max() < 2e-2 * max(np.abs(values).max(), 1e-3)


def simulated(n_rows=1500, n_features=6, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.multivariate_normal(np.zeros(n_features), 0.5 + 0.5 * np.eye(n_features), size=n_rows)
    return x, np.sin(3 * x[:, 0]) + x[:, 0] * x[:, 1] + x[:, 2] * x[:, 3] * (x[:, 4] > 0)


@pytest.fixture(scope="module")
def boosted():
    xgb = pytest.importorskip("xgboost")
    x, y = simulated()
    return xgb.XGBRegressor(n_estimators=30, max_depth=6, n_jobs=1).fit(x, y), x


@pytest.fixture(scope="module")
def fx(boosted):
    return treeanova.decompose(*boosted, density="empirical")


def test_deep_is_chosen_by_the_plan(boosted, fx):
    model, x = boosted
    assert isinstance(fx.source, TreeModel)
    assert {len(names) for names in in_tables(fx)} == {1, 2}
    assert {len(names) for names in at_rows(fx)} == {3, 4, 5, 6}
    np.testing.assert_allclose(fx.decision_function(x), model.predict(x, output_margin=True), atol=1e-5)
    np.testing.assert_allclose(sum_of(fx.explain(x[:200])), fx.decision_function(x[:200]), atol=1e-12)
    assert not fx.has_remainder
    assert fx.certificate.tables_met
    assert not fx.certificate.met  # orders 3 to 6 are pure to some per cent only
    assert fx.certificate.reconstruction_error < 1e-13
    text = repr(fx)
    assert "of higher orders at rows" in text
    assert "remainder" not in text


def test_the_plan_tells_what_becomes_of_all_orders(boosted):
    model, _ = boosted
    assert "\norders 3 to 6: evaluated at rows\n1 output" in str(treeanova.plan(model))
    assert "\norders 3 to 6: in a remainder\n1 output" in str(treeanova.plan(model, max_order=2))
    merged = str(treeanova.plan(model, budget=1.5e6))
    assert "\nbins merged to at most 64 per ordered feature, the rest in a remainder\n" in merged
    assert float(merged.rpartition("output, ")[2].split()[0]) <= 1.5


def test_pairs_of_a_deep_model_are_pure_under_the_rows(boosted, fx):
    x = boosted[1]
    for names in [("x0", "x1"), ("x2", "x3")]:
        values = fx.term_values(x, names)
        for name in names:
            bins = fx.grid.index(x)[:, int(name[1:])]
            assert np.abs(np.bincount(bins, values)).max() < 1e-9 * len(x)


def test_max_order_leaves_an_exact_remainder(boosted, fx):
    model, x = boosted
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    assert at_rows(cut) == ()
    assert cut.has_remainder
    assert "a remainder" in repr(cut)
    rows = np.vstack([x[:50], 10 * x[:50], np.full((1, 6), np.nan)])
    explained = cut.explain(rows)
    np.testing.assert_allclose(explained.scores, fx.decision_function(rows), atol=1e-12)
    np.testing.assert_allclose(cut.remainder(rows), explained.remainder)
    higher = fx.explain(rows)
    is_high = np.array([len(term) > 2 for term in higher.terms])
    np.testing.assert_allclose(explained.remainder, higher.values[:, is_high].sum(axis=1), atol=1e-11)
    assert explained.to_frame()["remainder"].to_numpy() == pytest.approx(explained.remainder)
    with pytest.raises(ValueError, match="got a remainder that belongs to no feature"):
        explained.shap_values()
    assert cut.select(order=[1, 2]).explain(rows).shap_values().shape == (101, 6)
    assert treeanova.decompose(model, x, density="empirical", max_order=1).explain(rows).values.shape == (101, 6)
    assert (fx.remainder(rows) == 0).all()


def test_max_order_of_a_dense_model(boosted):
    model, x = fitted()
    whole = treeanova.decompose(model, x, density="empirical")
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    assert not isinstance(whole.source, TreeModel)
    assert not isinstance(cut.source, TreeModel)
    for names in cut.terms:
        np.testing.assert_array_equal(cut.terms[names].values, whole.terms[names].values)
    np.testing.assert_allclose(cut.remainder(x), whole.term_values(x, ("x0", "x1", "x2")), atol=1e-12)
    np.testing.assert_allclose(cut.decision_function(x), model.predict(x), atol=1e-12)
    again = cut.with_density("independent")
    assert again.has_remainder
    np.testing.assert_allclose(again.decision_function(x), model.predict(x), atol=1e-12)


def test_importance_adds_up_and_has_higher_orders_and_the_remainder(boosted, fx):
    model, x = boosted
    table = fx.importance()
    assert len(table) == len(fx.terms)
    assert table["share"].sum() == pytest.approx(1)
    values = fx.explain(x)
    by_name = dict(zip(table["term"], table["variance"], strict=True))
    for i, names in enumerate(values.terms[:40:5]):
        expected = values.values[:, i * 5].var() / values.scores.var()
        assert by_name[" × ".join(names)] == pytest.approx(expected, rel=1e-6)
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    shares = cut.importance()
    assert shares["share"].sum() == pytest.approx(1)
    row = shares[shares["term"] == "remainder"].iloc[0]
    assert row["order"] == 3
    assert row["variance"] == pytest.approx(cut.remainder(x).var() / cut.decision_function(x).var(), rel=1e-6)
    by_feature = cut.importance("feature")
    assert set(by_feature["feature"]) == {*(f"x{j}" for j in range(6)), "remainder"}
    assert by_feature["share"].sum() == pytest.approx(1)


def test_any_single_term_on_demand(boosted, fx):
    model, x = boosted
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    key = ("x2", "x3", "x4")
    np.testing.assert_allclose(cut.term_values(x, key), fx.term_values(x, ("x4", "x2", "x3")), atol=1e-12)
    assert cut.variance_share(key) == pytest.approx(fx.term_values(x, key).var() / fx.decision_function(x).var())
    assert fx.variance_share("x0") == pytest.approx(fx.term_values(x, "x0").var() / fx.decision_function(x).var())
    with pytest.raises(KeyError, match="no term"):
        fx.term_values(x, ("x0", "x9"))
    with pytest.raises(KeyError, match="no term"):
        fx.term_values(x, ("x0", "x1", "x1"))


def test_parts_of_a_deep_decomposition(boosted, fx):
    x = boosted[1]
    low = fx.select(order=[1, 2])
    assert at_rows(low) == ()
    np.testing.assert_allclose(low.decision_function(x), sum_of(fx.explain(x, max_order=2)), atol=1e-12)
    without = fx.drop("x0")
    assert not any("x0" in names for names in without.terms)
    moved = x.copy()
    moved[:, 0] = 7.0
    np.testing.assert_allclose(without.decision_function(x), without.decision_function(moved), atol=1e-12)
    uniform = low.with_density("uniform")
    np.testing.assert_allclose(uniform.decision_function(x), low.decision_function(x), atol=1e-12)
    assert uniform.scope == low.scope == Selected(len(fx.terms))
    with pytest.raises(ValueError, match=f"needs all terms of a deep ensemble, got {len(without.terms)} selected"):
        without.with_density("uniform")


def test_raw_of_a_deep_model_is_what_the_trees_hold(boosted, fx):
    x = boosted[1]
    raw = fx.raw.explain(x[:300])
    np.testing.assert_allclose(sum_of(raw), fx.decision_function(x[:300]), atol=1e-12)
    sets = fx.source.trees.leaf_sets
    assert set(raw.terms) == {tuple(f"x{j}" for j in key) for key in sets.keys if key}


def test_another_density(boosted, fx):
    x = boosted[1]
    other = fx.with_density("independent")
    expected = treeanova.decompose(*boosted, density="independent")
    for names in in_tables(expected):
        np.testing.assert_allclose(other.terms[names].values, expected.terms[names].values, atol=1e-12)
    np.testing.assert_allclose(
        other.term_values(x, ("x2", "x3", "x4")), expected.term_values(x, ("x2", "x3", "x4")), atol=1e-12
    )


@pytest.mark.parametrize("options", [{}, {"max_order": 2}, {"density": "independent"}, {"budget": 1.5e6}])
def test_saved_and_loaded(boosted, options, tmp_path):
    model, x = boosted
    before = treeanova.decompose(model, x, **{"density": "empirical", **options})
    before.save(tmp_path / "deep.tav")
    after = treeanova.load(tmp_path / "deep.tav")
    one, two = before.explain(x[:200]), after.explain(x[:200])
    assert one.terms == two.terms
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(before.decision_function(x), after.decision_function(x))
    assert after.importance().equals(before.importance())
    assert after.certificate.higher == before.certificate.higher
    assert repr(after) == repr(before)


def test_standard_errors_of_low_orders_are_the_spread_over_resampled_rows(boosted, fx):
    """High orders stay as they are in the first and move with the rows in the second: hence the factor."""
    x = boosted[1]
    errors = fx.standard_errors(20)
    assert set(errors) == set(in_tables(fx))
    assert all(np.isfinite(values).all() for values in errors.values())
    rng = np.random.default_rng(1)
    draws = [fx.with_density("empirical", x[rng.integers(len(x), size=len(x))]).terms for _ in range(20)]
    for j in range(6):
        weights = fx.terms[f"x{j}"].weights
        spread = np.std([terms[f"x{j}"].values for terms in draws], axis=0, ddof=1)
        expected = np.sqrt(np.average(spread**2, weights=weights))
        assert expected > 1e-3  # so that the next line says something
        assert expected / 2 < np.sqrt(np.average(errors[f"x{j}",] ** 2, weights=weights)) < 2 * expected


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


@pytest.mark.parametrize("tensor_order", [None, 2, 3, 9])
def test_the_plan_is_what_decompose_holds(tensor_order):
    """Terms and cells of the tensors that were made; a tree of depth 4 on few bins, so that all orders fit."""
    tree = pytest.importorskip("sklearn.tree")
    x = np.random.default_rng(0).integers(0, 3, size=(300, 4)).astype(float)
    model = tree.DecisionTreeRegressor(max_depth=4, random_state=0).fit(x, x.prod(axis=1))
    fx = treeanova.decompose(model, x, density="empirical", tensor_order=tensor_order)
    plan = treeanova.plan(model, tensor_order=tensor_order)
    assert dict(plan.cells) == {key: values[..., 0].size for key, values in fx.effects.terms.items()}
    assert ("evaluated at rows" in str(plan)) == bool(at_rows(fx))
    assert plan.max_order == {None: 4, 2: 2, 3: 3, 9: 4}[tensor_order]


def test_the_plan_refuses_what_decompose_refuses(boosted):
    with pytest.raises(BudgetError, match="Raise `budget`"):
        treeanova.plan(boosted[0], tensor_order=4)
    with pytest.raises(ValueError, match="`tensor_order` must be a whole number from 2 on, got 1"):
        treeanova.plan(boosted[0], tensor_order=1)


def test_tensors_of_an_order_asked_for_must_fit(boosted):
    model, x = boosted
    with pytest.raises(BudgetError, match="Raise `budget`"):
        treeanova.decompose(model, x, tensor_order=4)
    with pytest.raises(ValueError, match="`max_order` must be a whole number from 1 on, got 0"):
        treeanova.decompose(model, x, max_order=0)
    with pytest.raises(ValueError, match="`tensor_order` must be a whole number from 2 on, got 1"):
        treeanova.decompose(model, x, tensor_order=1)


@pytest.fixture(scope="module")
def folds():
    """Two deep models and a shallow one of the same columns."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(3)
    x = rng.normal(size=(600, 4))
    y = x[:, 0] * x[:, 1] + x[:, 2] ** 2 + x.prod(axis=1)
    depths = ((slice(0, 400), 5), (slice(200, 600), 5), (slice(0, 600), 1))
    models = [
        ensemble.GradientBoostingRegressor(n_estimators=15, max_depth=depth, random_state=0).fit(x[rows], y[rows])
        for rows, depth in depths
    ]
    return models, x


@pytest.mark.parametrize("which", [(0, 1), (0, 2), (2, 0)])
def test_sums_differences_and_means_of_deep_ensembles(folds, which):
    models, x = folds
    first, second = (treeanova.decompose(models[i], x, density="independent", tensor_order=2) for i in which)
    one, other = (models[i].predict(x) for i in which)
    rows = x[:50]
    for combined, score, factors in (
        (first + second, one + other, (1, 1)),
        (first - second, one - other, (1, -1)),
        (treeanova.mean([first, second]), (one + other) / 2, (0.5, 0.5)),
    ):
        np.testing.assert_allclose(combined.decision_function(x), score, atol=1e-12)
        np.testing.assert_allclose(sum_of(combined.explain(rows)), combined.decision_function(rows), atol=1e-12)
        # Under independent features with the same rows, terms are the weighted sums of terms.
        for names in [("x0",), ("x0", "x1"), ("x0", "x1", "x2", "x3")]:
            both = [(f, part) for f, part in zip(factors, (first, second), strict=True) if names in part.terms]
            expected = sum(f * part.term_values(rows, names) for f, part in both)
            np.testing.assert_allclose(combined.term_values(rows, names), expected, atol=1e-12)


def test_a_deep_ensemble_combined_with_what_holds_no_trees_is_refused(folds, tmp_path):
    models, x = folds
    deep, shallow = (treeanova.decompose(models[i], x, density="empirical", tensor_order=2) for i in (0, 2))
    assert at_rows(deep)
    assert not at_rows(shallow)
    shallow.save(tmp_path / "shallow.tav")
    with pytest.raises(
        ValueError,
        match=r"must all hold their trees to be combined .*, got a decomposition from a file",
    ):
        _ = deep + treeanova.load(tmp_path / "shallow.tav")
    with pytest.raises(ValueError, match="must have all terms to be combined, got a selection"):
        _ = deep.select(order=1) + deep
    tree = pytest.importorskip("sklearn.tree")
    wide = np.hstack([x, x])
    wider = treeanova.decompose(tree.DecisionTreeRegressor(max_depth=3).fit(wide, x[:, 0]), wide, tensor_order=2)
    with pytest.raises(ValueError, match="must have the same features, categories, outputs and link"):
        _ = deep + wider


def test_compare_deep_tells_distances_of_terms_at_the_rows(boosted, fx):
    """All terms, with a table or without: their values at all rows are the oracle."""
    x = boosted[1]
    parts = {"raw": fx.raw, "uniform": fx.with_density("uniform")}
    found = treeanova.compare({"pure": fx, **parts})
    assert "x0" in str(found)
    table = found.distance.set_index(["decomposition", "term"])
    values = {
        name: dict(zip(part.explain(x).terms, part.explain(x).values.T, strict=True)) for name, part in parts.items()
    }
    explained = fx.explain(x)
    assert len(explained.terms) > len(in_tables(fx))
    for name in parts:
        assert set(table.loc[name].index) == set(map(label_of, explained.terms))
        for names, pure in zip(explained.terms, explained.values.T, strict=True):
            gap = np.sqrt(np.mean((values[name].get(names, 0.0) - pure) ** 2))  # trees hold no such term
            row = table.loc[name, label_of(names)]
            assert row["distance"] == pytest.approx(gap, rel=1e-9, abs=1e-12)
            assert row["relative"] == pytest.approx(gap / fx.decision_function(x).std(), rel=1e-6, abs=1e-12)
    higher = [label_of(names) for names in at_rows(fx)]
    assert (table.loc["raw"].loc[higher, "relative"] > 0.01).any()
    ranks = found.ranks.set_index("term")
    assert sorted(ranks["pure"]) == list(range(1, len(explained.terms) + 1))


def test_compare_meets_terms_that_only_one_has_as_a_table():
    """The same model, its triples in tables and at rows, pure for independent features in both."""
    tree = pytest.importorskip("sklearn.tree")
    x = np.random.default_rng(0).integers(0, 3, size=(300, 3)).astype(float)
    model = tree.DecisionTreeRegressor(random_state=0).fit(x, x.prod(axis=1))
    dense = treeanova.decompose(model, x, density="independent", tensor_order=3)
    deep = treeanova.decompose(model, x, density="independent", tensor_order=2)
    for parts in (
        {"dense": dense, "deep": deep},
        {"deep": deep, "dense": dense},
        {"deep": deep, "part": dense.drop("x0")},
    ):
        table = treeanova.compare(parts).distance.set_index("term")
        own = dense.term_values(x, ("x0", "x1", "x2"))
        spread = np.sqrt(dense.moments.variance[-1, 0]) if "part" in parts else 0.0
        assert own.std() > 0.1
        assert table.loc["x0 × x1 × x2", "distance"] == pytest.approx(spread, rel=0.1, abs=1e-12)


def test_compare_of_loaded_deep_decompositions_leaves_open_what_needs_rows(fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    again = treeanova.load(tmp_path / "fx.tav")
    table = treeanova.compare({"a": again, "b": again}).distance.set_index("term")["distance"]
    higher = [label_of(names) for names in at_rows(fx)]
    assert table.loc[higher].isna().all()
    assert (table.drop(higher) == 0).all()
    with_rows = treeanova.compare({"a": again, "b": fx}).distance.set_index("term")["distance"]
    assert (with_rows < 1e-12).all()


def test_compare_of_two_deep_models_weighs_new_bins_alike(boosted):
    """Rows of the first model are within its bins anywhere; the terms of the second are compared on average."""
    xgb = pytest.importorskip("xgboost")
    model, x = boosted
    other = xgb.XGBRegressor(n_estimators=8, max_depth=4, n_jobs=1).fit(x, np.sin(3 * x[:, 0]) * x[:, 1] * x[:, 2])
    first, second = (treeanova.decompose(one, x, density="empirical") for one in (model, other))
    table = treeanova.compare({"a": first, "b": second}).distance.set_index("term")["distance"]
    for names in [("x0", "x1", "x2"), ("x2", "x3", "x4")]:
        held = second.term_values(x, names) if names in at_rows(second) else 0.0
        gap = np.sqrt(np.mean((held - first.term_values(x, names)) ** 2))
        assert gap > 0.01
        assert table[label_of(names)] == pytest.approx(gap, rel=0.05)


def test_sensitivity_tells_of_terms_without_a_table(boosted, fx):
    model, x = boosted
    found = treeanova.density_sensitivity(model, x, ["uniform", "empirical"])
    table = found.table.set_index("term")
    assert set(table.index) == set(map(label_of, fx.terms))
    uniform = fx.with_density("uniform")
    for names in [("x0",), *at_rows(fx)[:3], at_rows(fx)[-1]]:
        gap = np.sqrt(np.mean((uniform.term_values(x, names) - fx.term_values(x, names)) ** 2))
        expected = gap / fx.decision_function(x).std()
        assert table.loc[label_of(names), "distance"] == pytest.approx(expected, rel=1e-6, abs=1e-12)


def test_progress_is_told_and_may_stop_the_work(boosted, capfd):
    model, x = boosted
    told = []
    treeanova.decompose(model, x, density="empirical", progress=lambda *step: told.append(step))
    stages = ("high orders", "high orders, half the bins", "low orders", "purifying order 2", "purifying order 1")
    assert {stage for stage, _, _ in told} == set(stages)
    for stage in stages:
        steps = [(done, total) for name, done, total in told if name == stage]
        assert [done for done, _ in steps] == list(range(1, steps[0][1] + 1))

    def interrupt(stage, done, total):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        treeanova.decompose(model, x, density="empirical", progress=interrupt)
    treeanova.decompose(model, x, density="empirical", progress=True)
    out, err = capfd.readouterr()
    assert out == ""
    assert "high orders" in err
    assert re.search(r"\[#{30}\] ([\d,]+)/\1\n$", err)
    with pytest.raises(TypeError, match="`progress` must be True, False, None or a function, got 'bar'"):
        treeanova.decompose(model, x, progress="bar")


def test_layout_of_many_features_tells_pairs_apart_only():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, max_depth=3, n_outputs=1, max_features=3)
    sets = leaves_of(forest)
    # Leaves with so many features on their path that all their subsets are beyond reach.
    keys = tuple(tuple(range(30)) for _ in sets.keys)
    assert not treeanova.terms.layout._can_report_all(dataclasses.replace(sets, keys=keys), 2, 30)
    assert choose_layout(sets, budget=1e9).is_dense


# Models and data as people have them.


def check_real(model, data, *, raw, rows=slice(None, 300), **options):
    fx = treeanova.decompose(model, data, **options)
    assert isinstance(fx.source, TreeModel)
    some = data.iloc[rows]
    expected = raw(some)
    np.testing.assert_allclose(fx.decision_function(some), expected, atol=2e-5 * max(1, np.abs(expected).max()))
    explained = fx.explain(some, max_order=2)
    np.testing.assert_allclose(explained.scores, fx.decision_function(some), atol=1e-9)
    assert fx.importance()["share"].notna().all()
    return fx


def test_lightgbm_on_adult_with_categories_and_missing():
    lgb = pytest.importorskip("lightgbm")
    table = read_table("adult.csv.gz").sample(3000, random_state=0)
    y = table.pop("income").astype(str).str.contains(">50K")
    data = table.drop(columns="split")
    text = data.select_dtypes(exclude="number").columns
    data[text] = data[text].astype("category")
    assert data.isna().to_numpy().any()
    model = lgb.LGBMClassifier(n_estimators=40, num_leaves=31, verbose=-1, n_jobs=1).fit(data, y)
    fx = check_real(model, data, raw=lambda rows: model.predict(rows, raw_score=True), density="auto")
    whole = fx.explain(data.iloc[:50])
    np.testing.assert_allclose(whole.scores, fx.decision_function(data.iloc[:50]), atol=1e-9)


def test_a_forest_of_deep_trees_is_cut_at_pairs():
    from sklearn.ensemble import RandomForestRegressor

    table = read_table("california_housing.csv.gz").sample(1500, random_state=0)
    y = table.pop("MedHouseVal")
    model = RandomForestRegressor(n_estimators=200, random_state=0, n_jobs=1).fit(table, y)
    fx = check_real(model, table, raw=model.predict, density="empirical", budget=2e7)
    assert at_rows(fx) == ()
    assert fx.has_remainder
    shares = fx.importance().set_index("term")["variance"]
    assert 0 < shares["remainder"] < 0.5
    assert shares["MedInc"] > shares["HouseAge"]


def test_covertype_with_seven_classes():
    xgb = pytest.importorskip("xgboost")
    table = read_table("covtype.csv.gz", nrows=3000)
    y = table.pop(table.columns[-1])
    model = xgb.XGBClassifier(n_estimators=5, max_depth=6, n_jobs=1)
    model.fit(table, np.unique(y, return_inverse=True)[1])
    raw = lambda rows: model.predict(rows, output_margin=True)  # noqa: E731
    fx = check_real(model, table, raw=raw, density="empirical", max_order=2)
    assert fx.has_remainder
    assert set(fx.importance()["output"]) == set(map(str, fx.schema.outputs))


# Found by reading and by trying.


def test_raw_of_a_loaded_decomposition_is_raw(boosted, fx, tmp_path):
    fx.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav").with_density("empirical", boosted[1])
    assert loaded.raw.importance().equals(fx.raw.importance())
    fx.truncate(1).save(tmp_path / "cut.tav")
    cut = treeanova.load(tmp_path / "cut.tav")
    np.testing.assert_array_equal(sum_of(cut.raw.explain(boosted[1][:50])), sum_of(fx.raw.explain(boosted[1][:50])))


def test_cuts_of_parts_and_parts_of_cuts(boosted, fx):
    x = boosted[1]
    part = fx.select(order=[1, 2]).truncate(1)
    np.testing.assert_allclose(part.explain(x).scores, part.decision_function(x), atol=1e-12)
    assert set(part.terms) == {(f"x{j}",) for j in range(6)}
    again = fx.truncate(2).with_density("uniform")
    assert at_rows(again) == ()
    assert again.has_remainder
    assert not any("x0" in names for names in fx.raw.drop("x0").terms)
    assert fx != fx.select(order=[1, 2])
    assert fx.truncate(2).certificate.higher.n_terms == 0
    with pytest.raises(KeyError, match="no term"):
        fx.drop("x0").term_values(x, ("x0", "x1", "x2"))


@pytest.mark.parametrize("density", ["independent", "empirical"])
def test_sums_are_exact_under_weights_next_to_nothing(boosted, density):
    model, x = boosted
    weights = np.where((x < -0.2).any(axis=1), 1e-150, 1.0)
    fx = treeanova.decompose(model, x, density=density, sample_weight=weights)
    np.testing.assert_allclose(sum_of(fx.explain(x)), fx.decision_function(x), atol=1e-10)


def test_a_feature_called_remainder(boosted):
    model, x = boosted
    names = ["remainder", "b", "c", "d", "e", "f"]
    fx = treeanova.decompose(model, x, density="empirical", feature_names=names, max_order=1)
    table = fx.explain(x[:20]).to_frame()
    assert {"remainder", "(remainder)"} <= set(table.columns)
    np.testing.assert_allclose(table.sum(axis=1) + fx.intercept, fx.decision_function(x[:20]), atol=1e-12)
    assert set(fx.importance("feature")["feature"]) == {*names, "(remainder)"}


def test_an_ebm_with_a_remainder_does_not_go_back():
    glassbox = pytest.importorskip("interpret.glassbox")
    x, y = simulated(300, 5)
    ebm = glassbox.ExplainableBoostingRegressor(interactions=2, outer_bags=1, max_rounds=50, n_jobs=1).fit(x, y)
    fx = treeanova.decompose(ebm, x, density="empirical", max_order=1)
    np.testing.assert_allclose(fx.explain(x).scores, ebm.predict(x), atol=1e-9)
    with pytest.raises(ValueError, match="must have no remainder to become an EBM"):
        treeanova.export.ebm(fx)


def test_numbers_of_numpy_and_threads(boosted, tmp_path):
    model, x = boosted
    fx = treeanova.decompose(
        model, x, density="empirical", max_order=np.int64(2), tensor_order=np.int64(2), n_jobs=np.int64(1)
    )
    fx.save(tmp_path / "fx.tav")
    assert treeanova.decompose(model, x, density="empirical", n_jobs=-1).settings.n_jobs == os.cpu_count()
    with pytest.raises(ValueError, match="`n_jobs` must be a whole number from 1 on, or -1 for all cores, got -2"):
        treeanova.decompose(model, x, n_jobs=-2)


def test_forests_with_very_many_leaf_sets_are_corrected():
    from sklearn.ensemble import RandomForestRegressor

    x, y = simulated(800, 12)
    model = RandomForestRegressor(n_estimators=40, random_state=0, n_jobs=1).fit(x, y)
    fx = treeanova.decompose(model, x, density="empirical", budget=5e7)
    assert fx.certificate.higher.n_corrected >= 220  # all triples of the 12 features
    keys = fx.source.trees.leaf_sets
    assert keys.subsets([3]) == sorted({sub for key in keys.keys for sub in itertools.combinations(key, 3)})


def test_high_orders_of_strongly_dependent_features_are_as_small_as_exact_purification_has_them():
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(4), 0.9 + 0.1 * np.eye(4), size=4000)
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) * x[:, 3] + rng.normal(0, 0.5, 4000)
    model = xgb.XGBRegressor(n_estimators=50, max_depth=4, max_bin=12, n_jobs=1).fit(x, y)
    dense = treeanova.decompose(model, x, density="empirical", tensor_order=4).explain(x)
    deep = treeanova.decompose(model, x, density="empirical", tensor_order=2).explain(x)
    places = [deep.terms.index(names) for names in dense.terms]
    gaps = np.sqrt(((deep.values[:, places] - dense.values) ** 2).mean(axis=0)) / dense.scores.std()
    assert gaps.max() < 0.01  # with a quarter of the cells it would be 0.5
