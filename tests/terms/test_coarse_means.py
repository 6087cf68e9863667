"""Terms on coarse cells: the sum over leaves of centred outer products, at full and at half the bins."""

import itertools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import treeanova.terms.coarse_means
from treeanova import read_model
from treeanova.model.binning import binning_by, unmerged
from treeanova.model.grid import grid_of
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse_means import coarse_means
from treeanova.terms.leafsets import leaf_sets


def _form(seed=0, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, n_features))
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4]
    forest = read_model(RandomForestRegressor(n_estimators=4, max_depth=6, random_state=0).fit(X, y))
    grid = grid_of(forest)
    masses = tuple(rng.dirichlet(np.ones(size)) for size in grid.sizes)
    masses[0][:3] = 0  # merged bins without mass
    masses = tuple(mass / mass.sum() for mass in masses)
    return ClosedForm(leaf_sets(forest, grid), masses, tuple(map(unmerged, grid.sizes)))


@pytest.mark.parametrize("shared_cells", [0, 1 << 14])
@pytest.mark.parametrize("halved", [False, True])
def test_terms_are_sums_over_leaves_of_centred_outer_products(monkeypatch, shared_cells, halved):
    monkeypatch.setattr(treeanova.terms.coarse_means, "_SHARED_CELLS", shared_cells)
    form = _form()
    keys = [key for order in (3, 4, 5) for key in itertools.combinations(range(5), order)]
    bins = {3: 8, 4: 4, 5: 4}
    means = coarse_means(form, keys, bins, n_jobs=2)
    for key in keys:
        limit = bins[len(key)] // 2 if halved else bins[len(key)]
        merged = [binning_by(means.binnings[j].coarser(limit), form.masses[j]) for j in key]
        expected = form.outer(key, merged, form.leaf_sets.leaves_with(key))
        np.testing.assert_allclose(means.term(key, limit), expected, rtol=0, atol=1e-13)
