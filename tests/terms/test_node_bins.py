"""Bins of leaves from the roots down, against every row's path node by node."""

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

from tests.support.training import fit
from treeanova import read_model
from treeanova.core.compiled import has_numba
from treeanova.model.grid import grid_of
from treeanova.terms import costs
from treeanova.terms.leaves import leaf_bins

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")


@pytest.mark.parametrize("block_cells", [1, 1 << 25])
@pytest.mark.parametrize("way", ["numpy", pytest.param("compiled", marks=NEEDS_NUMBA)])
def test_each_leaf_has_the_bins_between_the_bounds_on_its_path(monkeypatch, block_cells, way):
    monkeypatch.setattr(costs, "NODE_CELLS", block_cells)
    monkeypatch.setattr(costs, "is_compiled", lambda **_: way == "compiled")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 4))
    X[::7, 1] = np.nan
    forest = read_model(fit(RandomForestRegressor(n_estimators=3, random_state=0), X, X[:, 0] + X[:, 2] * X[:, 3]))
    grid = grid_of(forest)
    parents = {
        int(child): int(node)
        for node in np.flatnonzero(forest.feature >= 0)
        for child in (forest.left[node], forest.right[node])
    }
    for bins in leaf_bins(forest, grid):
        for place, j in enumerate(bins.features):
            axis = grid.axes[j]
            for leaf, end in enumerate(np.flatnonzero(forest.feature < 0)):
                low, high, used, missing, node = 0, axis.n_regular, False, True, int(end)
                while node in parents:
                    child, node = node, parents[node]
                    if forest.feature[node] == j:
                        is_left = forest.left[node] == child
                        cut = int(np.count_nonzero(axis.thresholds < forest.bound[node])) + 1
                        low, high = (low, min(high, cut)) if is_left else (max(low, cut), high)
                        used, missing = True, missing and bool(forest.missing_left[node]) == is_left
                assert (bins.low[place, leaf], bins.high[place, leaf], bins.used[place, leaf]) == (low, high, used)
                assert bins.missing[place, leaf] == missing or not axis.n_extra
