"""Trees as raw effects: compared with walks through the trees, on rows that sit on and around every bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given

from treeanova.errors import BudgetError
from treeanova.model.grid import grid_of
from treeanova.terms.expand import expand as expand_sets
from treeanova.terms.leafsets import leaf_sets
from treeanova.terms.plan import DEFAULT_BUDGET, plan_of
from treeanova.testing.forests import BOUNDS_NEAR_ZERO, chains, random_forest, rows_on_bounds, scale_of
from treeanova.testing.strategies import SEEDS


def expand(forest, grid):
    return expand_sets(leaf_sets(forest, grid))


@given(SEEDS)
def test_raw_effects_score_as_the_trees_do(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    rows = rows_on_bounds(forest, rng)
    effects = expand(forest, grid_of(forest))
    np.testing.assert_allclose(effects.score(rows), forest.score(rows), rtol=0, atol=1e-12 * scale_of(forest))


@given(SEEDS)
def test_zeros_that_count_as_missing_may_lie_in_several_bins(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, bounds=BOUNDS_NEAR_ZERO)
    rows = rows_on_bounds(forest, rng)
    effects = expand(forest, grid_of(forest))
    np.testing.assert_allclose(effects.score(rows), forest.score(rows), rtol=0, atol=1e-12 * scale_of(forest))


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
    sets = leaf_sets(forest, grid)
    keys, positions = sets.keys, sets.group
    walked = walked_feature_sets(forest)
    assert set(keys) == walked
    assert len(positions) == forest.n_leaves
    subsets = {sub for key in walked for order in range(1, len(key) + 1) for sub in itertools.combinations(key, order)}
    plan = plan_of(set(keys), grid, forest.n_outputs)
    assert dict(plan.cells) == {key: math.prod(len(grid.axes[j]) for j in key) for key in subsets}
    assert plan.max_order == max(map(len, walked))
    effects = expand(forest, grid)
    assert set(effects.terms) == walked - {()}
    assert all(values.size == plan.cells[key] * forest.n_outputs for key, values in effects.terms.items())


def test_one_split_by_hand():
    # Node 0 splits at 0.5 into node 1 (value 2) and node 2 (value 3).
    effects = expand(forest := chains([(0, 0.5)], n_features=1), grid_of(forest))
    assert effects.intercept.tolist() == [0.0]
    assert effects.terms[0,].tolist() == [[2.0], [3.0]]


def test_two_features_by_hand():
    # x0 <= 0.5: 2; else x1 <= 1.5: 4; else 5. The first leaf's path has x0 only.
    effects = expand(forest := chains([(0, 0.5), (1, 1.5)], n_features=2), grid_of(forest))
    assert {key: values[..., 0].tolist() for key, values in effects.terms.items()} == {
        (0,): [2.0, 0.0],
        (0, 1): [[0.0, 0.0], [4.0, 5.0]],
    }


def test_plan_by_hand():
    # Axes of 3, 2 and 2 bins. Terms x0, x0 x1, x0 x1 x2 in the trees; purification adds x1, x2, x0 x2, x1 x2.
    forest = chains([(0, 0.0), (1, 0.0), (2, 0.0)], [(0, 1.0)], n_outputs=2)
    plan = plan_of(set(leaf_sets(forest, grid_of(forest)).keys), grid_of(forest), 2)
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
    plan = plan_of(set(leaf_sets(forest, grid).keys), grid, 2)
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
        plan_of(set(leaf_sets(forest, grid_of(forest)).keys), grid_of(forest), 1).check(DEFAULT_BUDGET)


def test_only_leaves():
    forest = chains([], [], n_features=2, n_outputs=2)
    effects = expand(forest, grid_of(forest))
    assert dict(effects.terms) == {}
    assert effects.intercept.tolist() == [1.0 + 3.0, 2.0 + 4.0]
    assert effects.score(np.zeros((3, 2))).tolist() == [[4.0, 6.0]] * 3
    assert plan_of({()}, effects.grid, 2).n_cells == 0


def test_features_without_splits_have_one_bin_and_no_term():
    forest = chains([(2, 0.5)], n_features=4)
    grid = grid_of(forest)
    effects = expand(forest, grid)
    assert grid.sizes == (1, 1, 2, 1)
    assert list(effects.terms) == [(2,)]
    rows = np.array([[np.inf, -1e300, 0.5, 0.0], [0, 0, np.nextafter(0.5, 1), 0]])
    assert effects.score(rows).tolist() == [[2.0], [3.0]]


def test_a_split_that_no_row_can_pass():
    # The second split asks for x0 <= 0 where x0 > 1: its left leaf is empty.
    forest = chains([(0, 1.0), (0, 0.0)], n_features=1)
    effects = expand(forest, grid_of(forest))
    rows = np.array([[-1.0], [0.5], [1.5]])
    assert effects.terms[0,][:, 0].tolist() == [2.0, 2.0, 5.0]
    np.testing.assert_array_equal(effects.score(rows), forest.score(rows))


@given(SEEDS)
def test_blocks_of_leaves_do_not_matter(seed):
    from treeanova.terms import expand as module

    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    grid = grid_of(forest)
    whole = expand(forest, grid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_CELLS", 20)
        parts = expand(forest, grid)
    for key, values in whole.terms.items():
        np.testing.assert_allclose(parts.terms[key], values, rtol=0, atol=1e-12 * scale_of(forest))
