"""Sums on coarse cells, in plain Python and compiled: every leaf and every combination of bins one by one."""

import dataclasses
import itertools

import numpy as np
import pytest

import treeanova.terms.coarse
from tests.support.forests import random_forest, scale_of
from treeanova.core.compiled import Kernel, has_numba
from treeanova.model.grid import binning_by, unmerged
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse import coarse_axes, mean_on_cells
from treeanova.terms.layout import leaves_of

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")


@pytest.fixture(params=["plain", pytest.param("compiled", marks=NEEDS_NUMBA)])
def _way(request, monkeypatch):
    if request.param == "plain":
        for name, kernel in vars(treeanova.terms.coarse).copy().items():
            if isinstance(kernel, Kernel):
                monkeypatch.setattr(treeanova.terms.coarse, name, kernel.function)


def intervals_and_tables(seed):
    """A closed form of a random forest; of every second one zeros are not missing, so that numbers have intervals."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=4, max_trees=6, max_features=4)
    if seed % 2:
        forest = dataclasses.replace(forest, zero_missing=np.zeros_like(forest.zero_missing))
    sets = leaves_of(forest)
    masses = tuple(rng.dirichlet(np.ones(size)) for size in sets.grid.sizes)
    return ClosedForm(sets, masses, tuple(map(unmerged, sets.grid.sizes))), scale_of(forest)


def brute_force(form, features, binnings):
    """The mean given coarse bins: over all combinations of fine bins, each leaf's value where its sets have them."""
    sets = form.leaf_sets
    total = np.zeros((*(binning.size for binning in binnings), sets.values.shape[1]))
    for leaf in range(len(sets.values)):
        inside = [np.ones(size, dtype=bool) for size in sets.grid.sizes]
        for j, own in enumerate(sets.sets):
            for at in np.flatnonzero(own.leaves == leaf):
                inside[j] = own.contain(np.array([at]), np.arange(sets.grid.sizes[j], dtype=np.int32))[0]
        outside = [form.masses[j][inside[j]].sum() for j in range(len(inside)) if j not in features]
        for bins in itertools.product(*(np.flatnonzero(inside[j]) for j in features)):
            cell = tuple(int(binning.bins[b]) for binning, b in zip(binnings, bins, strict=True))
            share = np.prod([binning.shares[b] for binning, b in zip(binnings, bins, strict=True)])
            total[cell] += sets.values[leaf] * share * np.prod(outside)
    return total


@pytest.mark.usefixtures("_way")
@pytest.mark.parametrize("seed", range(16))
def test_means_on_cells_are_sums_over_all_bins(seed):
    form, scale = intervals_and_tables(seed)
    sizes = form.leaf_sets.grid.sizes
    rng = np.random.default_rng(seed)
    features = tuple(sorted(rng.permutation(len(sizes))[:3].tolist()))
    binnings = [binning_by(np.sort(rng.integers(0, 3, sizes[j])), form.masses[j]) for j in features]
    axes = coarse_axes(form.leaf_sets, features, binnings)
    found = mean_on_cells(np.arange(len(form.leaf_sets.values)), form.leaf_sets.values, form.flat(), axes)
    np.testing.assert_allclose(found, brute_force(form, features, binnings), rtol=0, atol=1e-13 * scale)
