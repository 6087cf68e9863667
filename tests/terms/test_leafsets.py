"""Sets of bins of leaves, against walks through the trees and against shares by mass."""

from __future__ import annotations

import itertools

import numpy as np
from hypothesis import given

from tests.support.forests import BOUNDS_NEAR_ZERO, chains, random_forest, random_masses, rows_on_bounds
from tests.support.strategies import SEEDS
from treeanova.data.columns import encode
from treeanova.model.grid import equal_mass, grid_of, unmerged
from treeanova.model.rows import Rows
from treeanova.terms.layout import leaves_of
from treeanova.terms.leaves import LeafSets


@given(SEEDS)
def test_rows_are_in_the_sets_of_the_leaves_that_they_reach(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, bounds=BOUNDS_NEAR_ZERO) if seed % 2 else random_forest(rng)
    sets = LeafSets(forest, grid_of(forest))
    encoded = encode(rows_on_bounds(forest, rng), forest.schema)
    codes = sets.grid.index(Rows(encoded))
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
    sets = LeafSets(forest, grid_of(forest))
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
            np.testing.assert_allclose(own.merged_shares(merging), expected, atol=1e-12)
            np.testing.assert_allclose(
                np.cumsum(own.share_differences(merging).toarray(), axis=1), expected, atol=1e-12
            )


def test_numbers_of_subsets_are_compared_with_a_limit():
    sets = leaves_of(chains([(j, 0.0) for j in range(5)], [(j, 0.0) for j in range(3, 7)], n_features=7))
    for order in range(1, 7):
        n_subsets = len(sets.subsets([order]))
        assert n_subsets == len({s for key in sets.keys for s in itertools.combinations(key, order)})
        assert not sets.has_more_subsets(order, n_subsets)
        if n_subsets:
            assert sets.has_more_subsets(order, n_subsets - 1)
