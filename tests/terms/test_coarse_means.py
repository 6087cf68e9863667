"""Terms on coarse cells: the sum over leaves of centred outer products, at full and at half the bins."""

import itertools

import numpy as np
import pytest
from sklearn.ensemble import RandomForestRegressor

import treeanova.terms.coarse
from tests.support.training import fit
from treeanova import read_model
from treeanova.core.compiled import has_numba
from treeanova.model.grid import binning_by, grid_of, unmerged
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse import coarse_means
from treeanova.terms.leaves import LeafSets


def _form(seed=0, n_features=5):
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(200, n_features))
    y = X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] * X[:, 4]
    forest = read_model(fit(RandomForestRegressor(n_estimators=4, max_depth=6, random_state=0), X, y))
    grid = grid_of(forest)
    masses = tuple(rng.dirichlet(np.ones(size)) for size in grid.sizes)
    masses[0][:3] = 0  # merged bins without mass
    masses = tuple(mass / mass.sum() for mass in masses)
    return ClosedForm(LeafSets(forest, grid), masses, tuple(map(unmerged, grid.sizes)))


NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")


@pytest.mark.parametrize("max_cells", [0, 1 << 14])
@pytest.mark.parametrize("halved", [False, True])
@pytest.mark.parametrize("way", ["numpy", pytest.param("compiled", marks=NEEDS_NUMBA)])
def test_terms_are_sums_over_leaves_of_centred_outer_products(monkeypatch, max_cells, halved, way):
    monkeypatch.setattr(costs, "SHARED_CELLS", max_cells)
    monkeypatch.setattr(costs, "COMPILED_CELLS", max_cells)
    monkeypatch.setattr(costs, "is_compiled", lambda **_: way == "compiled")
    form = _form()
    keys = [key for order in (3, 4, 5) for key in itertools.combinations(range(5), order)]
    bins = {3: 8, 4: 4, 5: 4}
    means = coarse_means(form, keys, bins, n_jobs=2)
    for key in keys:
        limit = bins[len(key)] // 2 if halved else bins[len(key)]
        merged = [binning_by(means.binnings[j].coarser(limit), form.masses[j]) for j in key]
        expected = form.outer(key, merged, form.leaf_sets.leaves_with(key))
        np.testing.assert_allclose(means.term(key, limit), expected, rtol=0, atol=1e-13)


def test_tables_of_a_limited_size_cover_all_keys():
    keys = [*itertools.combinations(range(9), 3), (0, 1, 2, 3)]
    sizes = dict.fromkeys(range(9), 3)
    tables = treeanova.terms.coarse._covering_tables(keys, sizes)
    assert all(any(set(key) <= set(features) for features, _ in tables) for key in keys)
    assert all(4 ** len(features) <= 1 << 16 for features, _ in tables)
    assert {lowest for _, lowest in tables} == {3}
    assert len(tables) < 10
