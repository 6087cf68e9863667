"""Trees as raw effects, compared with walks through the trees, at rows on and around every bound."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.support.forests import BOUNDS_NEAR_ZERO, chains, random_forest, rows_on_bounds, scale_of
from tests.support.strategies import SEEDS
from treeanova.model.grid import grid_of
from treeanova.terms import costs
from treeanova.terms.closed_form import expand as expand_sets
from treeanova.terms.layout import plan_of
from treeanova.terms.leaves import LeafSets


def expand(forest, grid):
    return expand_sets(LeafSets(forest, grid))


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
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    grid = grid_of(forest)
    whole = expand(forest, grid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "OUTER_CELLS", 20)
        parts = expand(forest, grid)
    for key, values in whole.terms.items():
        np.testing.assert_allclose(parts.terms[key], values, rtol=0, atol=1e-12 * scale_of(forest))
