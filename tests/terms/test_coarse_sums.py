"""Sums on coarse cells, in plain Python and compiled: every leaf and every combination of bins one by one."""

import itertools

import numpy as np
import pytest

import treeanova.terms.coarse_sums
from treeanova.core.compiled import Kernel, has_numba
from treeanova.model.binning import binning_by
from treeanova.terms.coarse_sums import coarse_axes, mean_on_cells
from treeanova.testing.closed_forms import random_closed_form

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")


@pytest.fixture(params=["plain", pytest.param("compiled", marks=NEEDS_NUMBA)])
def _way(request, monkeypatch):
    if request.param == "plain":
        for name, kernel in vars(treeanova.terms.coarse_sums).copy().items():
            if isinstance(kernel, Kernel):
                monkeypatch.setattr(treeanova.terms.coarse_sums, name, kernel.function)


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
@pytest.mark.parametrize("seed", range(12))
def test_means_on_cells_are_sums_over_all_bins(seed):
    form, _, scale = random_closed_form(seed, n_rows=1, max_depth=3, max_trees=4, max_features=4)
    sizes = form.leaf_sets.grid.sizes
    rng = np.random.default_rng(seed)
    features = tuple(range(max(0, len(sizes) - 3), len(sizes)))
    binnings = [binning_by(np.sort(rng.integers(0, 3, sizes[j])), form.masses[j]) for j in features]
    axes = coarse_axes(form.leaf_sets, features, binnings)
    found = mean_on_cells(np.arange(len(form.leaf_sets.values)), form.leaf_sets.values, form.flat(), axes)
    np.testing.assert_allclose(found, brute_force(form, features, binnings), rtol=0, atol=1e-13 * scale)
