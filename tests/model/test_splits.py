"""Bins that go left at a node, against the rule of the node applied to rows in them."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import given

from tests.support.forests import BOUNDS, BOUNDS_NEAR_ZERO, random_forest, rows_on_bounds
from tests.support.strategies import SEEDS
from treeanova.data.columns import encode
from treeanova.model.forest import NEAR_ZERO, goes_left
from treeanova.model.grid import grid_of
from treeanova.model.rows import Rows


def rule(forest, node, value):
    """Whether an encoded value goes left at a node, by the words of `Forest`."""
    if math.isnan(value) or (forest.zero_missing[node] and abs(value) <= NEAR_ZERO):
        return bool(forest.missing_left[node])
    if forest.category_start[node] >= 0:
        return bool(forest.category_left[forest.category_start[node] + int(value)])
    return value <= forest.bound[node]


@given(SEEDS)
def test_a_bin_goes_where_all_its_values_go(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, bounds=BOUNDS_NEAR_ZERO if seed % 2 else BOUNDS)
    grid = grid_of(forest)
    encoded = encode(rows_on_bounds(forest, rng, 60), forest.schema)
    codes = grid.index(Rows(encoded))
    for j, axis in enumerate(grid.axes):
        nodes = np.flatnonzero(forest.feature == j)
        left = goes_left(forest, axis, nodes)
        assert left.shape == (len(nodes), axis.size)
        for position, node in enumerate(nodes):
            expected = [rule(forest, node, value) for value in encoded[:, j]]
            assert left[position, codes[:, j]].tolist() == expected
