"""Grids: rows of one cell reach the same leaves."""

from __future__ import annotations

import numpy as np
from hypothesis import given

from tests.support.effects import grid_of_sizes
from tests.support.forests import (
    NUMBER_AND_LETTER,
    chains,
    number_and_letter_rows,
    random_forest,
    random_stumps,
)
from tests.support.strategies import SEEDS
from treeanova.data.features import Feature, Schema
from treeanova.model.grid import Grid, grid_of
from treeanova.model.rows import Rows


@given(SEEDS)
def test_rows_of_one_cell_reach_the_same_leaves(seed):
    rng = np.random.default_rng(seed)
    forest = random_stumps(rng, NUMBER_AND_LETTER, int(rng.integers(1, 7)))
    rows = number_and_letter_rows(rng)
    grid = grid_of(forest)
    codes, leaves = grid.index(rows), forest.leaf_ids(rows)
    assert codes.min() >= 0
    assert (codes < grid.sizes).all()
    reached = {}
    for cell, own in zip(map(tuple, codes), leaves, strict=True):
        np.testing.assert_array_equal(reached.setdefault(cell, own), own)


@given(SEEDS)
def test_encoded_rows_fall_into_the_bins_that_they_stand_for(seed):
    rng = np.random.default_rng(seed)
    grid = grid_of(random_forest(rng))
    codes = np.stack([rng.integers(size, size=30) for size in grid.sizes], axis=1).astype(np.int32)
    np.testing.assert_array_equal(grid.index(Rows(grid.encoded(codes))), codes)


def test_grids_have_the_same_bins_where_names_and_axes_agree():
    first, second, other = (grid_of_sizes(sizes) for sizes in ([2, 3], [2, 3], [2, 4]))
    assert first.has_bins_of(second)
    assert not first.has_bins_of(other)
    renamed = Grid(Schema((Feature("x0"), Feature("y"))), second.axes)
    assert not first.has_bins_of(renamed)
    assert not first.has_bins_of(grid_of_sizes([2]))


def test_bins_are_those_of_all_bounds_and_features_without_splits_have_one():
    grid = grid_of(chains([(0, 0.0), (1, 2.0)], [(0, 1.0)], n_features=3))
    assert [axis.thresholds.tolist() for axis in grid.axes] == [[0.0, 1.0], [2.0], []]
    assert grid.sizes == (3, 2, 1)
