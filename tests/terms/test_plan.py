"""Plans: terms, cells and bytes that are known before any work, and the budget."""

from __future__ import annotations

import itertools
import math
import pickle
import re
import tracemalloc

import numpy as np
import pytest
from hypothesis import given

import treeanova
from tests.support.decompositions import names_at_rows
from tests.support.effects import grid_of_sizes
from tests.support.forests import chains, random_forest
from tests.support.simulated import deep_model
from tests.support.strategies import SEEDS
from tests.support.training import fit
from treeanova.errors import BudgetError
from treeanova.model.effects import Effects
from treeanova.model.grid import binning_by, grid_of
from treeanova.terms.closed_form import expand
from treeanova.terms.layout import DEFAULT_BUDGET, plan_of, plan_of_effects
from treeanova.terms.leaves import LeafSets


def walked_feature_sets(forest):
    """Sets of features on the way to each leaf, by walks from the roots."""
    found = set()

    def walk(node, used):
        j = int(forest.feature[node])
        if j < 0:
            found.add(tuple(sorted(used)))
            return
        walk(forest.left[node], used | {j})
        walk(forest.right[node], used | {j})

    for root in forest.roots:
        walk(root, frozenset())
    return found


@given(SEEDS)
def test_plan_counts_every_term_that_comes_out(seed):
    forest = random_forest(np.random.default_rng(seed))
    grid = grid_of(forest)
    sets = LeafSets(forest, grid)
    keys, positions = sets.keys, sets.key_indices
    walked = walked_feature_sets(forest)
    assert set(keys) == walked
    assert len(positions) == forest.n_leaves
    subsets = {sub for key in walked for order in range(1, len(key) + 1) for sub in itertools.combinations(key, order)}
    plan = plan_of(set(keys), grid, forest.n_outputs)
    assert dict(plan.cells) == {key: math.prod(len(grid.axes[j]) for j in key) for key in subsets}
    assert plan.max_order == max(map(len, walked))
    effects = expand(sets)
    assert set(effects.terms) == walked - {()}
    assert all(values.size == plan.cells[key] * forest.n_outputs for key, values in effects.terms.items())


def test_plan_by_hand():
    # Axes of 3, 2 and 2 bins. Terms x0, x0 x1, x0 x1 x2 in the trees; purification adds x1, x2, x0 x2, x1 x2.
    forest = chains([(0, 0.0), (1, 0.0), (2, 0.0)], [(0, 1.0)], n_outputs=2)
    plan = plan_of(set(LeafSets(forest, grid_of(forest)).keys), grid_of(forest), 2)
    assert plan.cells == {(0,): 3, (1,): 2, (2,): 2, (0, 1): 6, (0, 2): 6, (1, 2): 4, (0, 1, 2): 12}
    assert (plan.n_cells, plan.max_order) == (35, 3)
    # Raw and pure values of two outputs and one weight, 8 bytes each.
    assert plan.n_bytes == 35 * 5 * 8
    assert str(plan) == (
        "order 1: 3 terms, 7 cells, direct\norder 2: 3 terms, 16 cells, direct\norder 3: 1 terms, 12 cells, direct\n"
        "2 outputs, 1.4 kB in all"
    )


def test_budget_is_checked_before_any_work():
    forest = chains([(0, 0.0), (1, 0.0), (2, 0.0)], [(0, 1.0)], n_outputs=2)
    grid = grid_of(forest)
    plan = plan_of(set(LeafSets(forest, grid).keys), grid, 2)
    plan.check(1400)
    message = (
        r"need 1\.4 kB, over the budget of 1\.4 kB; the largest is x0 × x1 × x2 with 12 cells\. "
        "Raise `budget`, train shallower trees, or bin the features more coarsely"
    )
    with pytest.raises(BudgetError, match=message):
        plan.check(1399)


def test_budget_is_a_memory_error_and_stops_what_would_not_fit():
    rng = np.random.default_rng(0)
    trees = [[(int(j), float(rng.normal())) for j in rng.permutation(6)] for _ in range(3000)]
    forest = chains(*trees, n_features=6)
    with pytest.raises(MemoryError, match=r"TB, over the budget of 2 GB; the largest is x0 × x1 × x2 × x3 × x4 × x5"):
        plan_of(set(LeafSets(forest, grid_of(forest)).keys), grid_of(forest), 1).check(DEFAULT_BUDGET)


@pytest.fixture(scope="module")
def boosted():
    pytest.importorskip("xgboost")
    return deep_model()


def test_the_plan_tells_what_becomes_of_all_orders(boosted):
    model, _ = boosted
    assert "\norders 3 to 6: evaluated at rows\n1 output" in str(treeanova.plan(model))
    assert "\norders 3 to 6: in a remainder\n1 output" in str(treeanova.plan(model, max_order=2))
    whole = treeanova.plan(model)
    assert whole.n_bytes == whole.table_bytes + whole.work_bytes
    merged = treeanova.plan(model, budget=whole.n_bytes - 1)
    assert re.search(r"\nbins merged to at most \d+ per ordered feature, the rest in a remainder\n", str(merged))
    assert merged.n_bytes < whole.n_bytes
    assert re.search(r"\n1 output, [\d.]+ MB in all, [\d.]+ MB of it besides tables\nabout 2 s$", str(merged))
    assert (
        1.5 < merged.seconds < whole.seconds == whole.to_dict()["seconds"] == pickle.loads(pickle.dumps(whole)).seconds
    )
    assert treeanova.plan(model, budget=whole.n_bytes, max_order=2).seconds <= whole.seconds


def forest_of_chains(n_trees, n_features, depth, n_outputs=1):
    """Trees of splits in a row at random bounds, and dependent rows."""
    rng = np.random.default_rng(0)
    trees = [[(int(j), float(rng.normal())) for j in rng.permutation(n_features)[:depth]] for _ in range(n_trees)]
    X = rng.normal(size=(400, n_features)) + rng.normal(size=(400, 1))
    return chains(*trees, n_features=n_features, n_outputs=n_outputs), X


def traced_peak(function):
    """What a function returns or raises, and the most memory of arrays and objects that it held at a time."""
    tracemalloc.start()
    try:
        result = function()
    except BudgetError as error:
        result = error
    finally:
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    return result, peak


@pytest.mark.thorough
@pytest.mark.parametrize("density", ["empirical", "auto"])
@pytest.mark.parametrize(("n_outputs", "budget"), [(1, 2e9), (4, 2e9), (4, 4e7)])
def test_the_plan_is_the_memory_that_the_work_takes(n_outputs, budget, density):
    """Where tables dominate; small ones take less where the density has nothing to estimate."""
    forest, X = forest_of_chains(200, 12, 5, n_outputs)
    treeanova.decompose(*forest_of_chains(3, 4, 4), density=density)  # what is imported and kept for all calls
    plan = treeanova.plan(forest, X, budget=budget)
    fx, peak = traced_peak(lambda: treeanova.decompose(forest, X, density=density, budget=budget))
    assert plan.n_bytes <= budget
    assert (plan.n_bytes / 2 if plan.table_bytes > plan.work_bytes else 0) < peak < 2 * plan.n_bytes
    assert peak < 1.5 * budget
    np.testing.assert_allclose(fx.explain(X[:20]).scores, forest.score(X[:20]).squeeze(), rtol=1e-12)


def test_what_does_not_fit_is_refused_before_memory_is_taken(monkeypatch):
    """15 terms of two features with 16 bins, of 4 outputs: 15 · 256 + 6 · 16 cells of 72 bytes, and the leaves."""
    forest, X = forest_of_chains(2000, 6, 6, 4)
    least = 72 * (15 * 256 + 6 * 16)
    error, peak = traced_peak(lambda: treeanova.decompose(forest, X, budget=least))
    assert re.match(r"`budget` must be at least about [\d.]+ MB for a model of 14,000 leaves on 6 features", str(error))
    assert peak < 30 * len(forest.feature) * forest.n_outputs
    monkeypatch.setattr("treeanova.terms.costs.BYTES_PER_ENTRY", 0)
    monkeypatch.setattr("treeanova.terms.costs.BYTES_PER_LEAF", 0)
    error, _ = traced_peak(lambda: treeanova.decompose(forest, X, budget=least))
    assert re.search(r"over the budget of 283 kB, [\d.]+ MB of it besides tables; the largest is", str(error))


def test_too_little_time_for_the_leaves_is_refused_before_they_are_looked_at(monkeypatch):
    forest, X = forest_of_chains(20, 6, 6)
    monkeypatch.setattr("treeanova.terms.costs.SECONDS_PER_ENTRY", 1.0)  # 1 + 2 + 3 + 4 + 5 + 6 + 6 in a tree
    monkeypatch.setattr("treeanova.terms.leaves.leaf_bins", None)
    monkeypatch.setattr("treeanova.core.progress.Clock.left", 299.5)  # the message has the seconds that were given
    with pytest.raises(
        BudgetError, match=r"`seconds` must be at least about 540 for a model of 140 leaves .* got 300;"
    ):
        treeanova.decompose(forest, X, seconds=300)


@pytest.mark.parametrize("tensor_order", [None, 2, 3, 9])
def test_the_plan_is_what_decompose_holds(tensor_order):
    """Terms and cells of the tensors that were made; a tree of depth 4 on few bins, so that all orders fit."""
    tree = pytest.importorskip("sklearn.tree")
    x = np.random.default_rng(0).integers(0, 3, size=(300, 4)).astype(float)
    model = fit(tree.DecisionTreeRegressor(max_depth=4, random_state=0), x, x.prod(axis=1))
    fx = treeanova.decompose(model, x, density="empirical", tensor_order=tensor_order)
    plan = treeanova.plan(model, tensor_order=tensor_order)
    assert dict(plan.cells) == {key: values[..., 0].size for key, values in fx._function.effects.terms.items()}
    assert ("evaluated at rows" in str(plan)) == bool(names_at_rows(fx))
    assert plan.max_order == {None: 4, 2: 2, 3: 3, 9: 4}[tensor_order]


def test_the_plan_refuses_what_decompose_refuses(boosted):
    with pytest.raises(BudgetError, match="Raise `budget`"):
        treeanova.plan(boosted[0], tensor_order=4)
    with pytest.raises(ValueError, match="`tensor_order` must be a whole number from 2 on, got 1"):
        treeanova.plan(boosted[0], tensor_order=1)


def test_plans_of_additive_models_count_the_axes_that_terms_will_have():
    """A pair on 2 × 3 merged bins, a main effect on merged bins of its own: theirs and those of subsets."""
    grid = grid_of_sizes([4, 5])
    halves, thirds = binning_by(np.array([0, 0, 1, 1])), binning_by(np.array([0, 1, 1, 2, 2]))
    other = binning_by(np.array([0, 0, 0, 1]))
    terms = {(0,): np.zeros((2, 1)), (0, 1): np.zeros((2, 3, 1))}
    plan = plan_of_effects(Effects(grid, np.zeros(1), terms, {(0,): (other,), (0, 1): (halves, thirds)}))
    # x0 separates {0, 1}, {2}, {3}: three bins; x1 has those of the pair.
    assert dict(plan.cells) == {(0,): 3, (1,): 3, (0, 1): 6}
    full = Effects(grid, np.zeros(1), {(0, 1): np.zeros((4, 5, 1))})
    assert dict(plan_of_effects(full).cells) == {(0,): 4, (1,): 5, (0, 1): 20}


def test_plans_can_be_pickled():
    plan = plan_of({(0, 1)}, grid_of_sizes([2, 3]), 1)
    assert pickle.loads(pickle.dumps(plan)) == plan


def test_many_categories_take_the_memory_that_the_plan_says():
    lightgbm, pandas = pytest.importorskip("lightgbm"), pytest.importorskip("pandas")
    rng, n_categories = np.random.default_rng(0), 4_000
    codes = rng.integers(0, n_categories, 12_000)
    number = rng.normal(size=len(codes)) + codes % 7
    rows = pandas.DataFrame({"post code": pandas.Categorical(codes, categories=range(n_categories)), "a": number})
    options = {"min_child_samples": 5, "min_data_per_group": 5, "cat_smooth": 1, "verbose": -1, "n_jobs": 1}
    model = fit(lightgbm.LGBMRegressor(n_estimators=30, num_leaves=4, **options), rows, (codes % 7) * number)
    plan = treeanova.plan(model)
    tracemalloc.start()
    try:
        treeanova.decompose(model, rows, n_jobs=1).importance()
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    fixed = 10e6  # what any decomposition of so many rows takes
    assert peak < 1.5 * (plan.n_bytes + plan.n_working_bytes) + fixed  # a matrix of all categories would take 128 MB
    assert plan.n_working_bytes < 60e6
