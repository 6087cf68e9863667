"""The compiled walk reaches the leaves that numpy reaches."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.forests import BOUNDS_NEAR_ZERO, random_forest, rows_on_bounds
from treeanova.core.compiled import has_numba
from treeanova.data.columns import encode
from treeanova.model.forest import NEAR_ZERO, NODE_ARRAYS, leaves_reached

ways = [
    pytest.param(leaves_reached.function, id="plain"),
    pytest.param(
        leaves_reached, id="compiled", marks=pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
    ),
]


def forest_and_rows(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=6, **({"bounds": BOUNDS_NEAR_ZERO} if seed % 2 else {}))
    return forest, rows_on_bounds(forest, rng)


@pytest.mark.parametrize("walk", ways)
@pytest.mark.parametrize("seed", range(20))
def test_leaves_are_those_of_numpy(seed, walk):
    forest, rows = forest_and_rows(seed)
    encoded = encode(rows, forest.schema)
    nodes = tuple(getattr(forest, name) for name in NODE_ARRAYS)
    for some in (encoded, np.asfortranarray(encoded), encoded[:0]):
        np.testing.assert_array_equal(walk(some, nodes, NEAR_ZERO), forest.leaves(some))


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
@pytest.mark.parametrize("seed", range(5))
def test_large_jobs_run_in_the_kernel(seed, monkeypatch):
    forest, rows = forest_and_rows(seed)
    scores, ids = forest.score(rows), forest.leaf_ids(rows)
    monkeypatch.setattr("treeanova.core.compiled._SECONDS_WORTH_LOADING", 0.0)
    monkeypatch.setattr(type(forest), "leaves", None)
    np.testing.assert_array_equal(forest.score(rows), scores)
    np.testing.assert_array_equal(forest.leaf_ids(rows), ids)
