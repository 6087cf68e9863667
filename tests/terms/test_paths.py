"""Leaves in the order of the trees: shared sets put back, every leaf has its sets; sums are those of all leaves."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.closed_forms import random_closed_form
from tests.support.forests import chains
from treeanova.core.compiled import has_numba
from treeanova.model.grid import unmerged
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.layout import leaves_of
from treeanova.terms.leaves import flatten
from treeanova.terms.paths import IN_TABLE, paths_in_tree_order
from treeanova.terms.terms import OrderTotals

SEEDS = st.integers(0, 10**6)


def paths_of_form(form):
    return paths_in_tree_order(form.leaf_sets.forest, flatten(form.leaf_sets, form.set_masses))


def sets_of_paths(paths):
    """Each leaf's sets, in the order of its path, with those that it shares with the leaf before it."""
    found, sets = {}, []
    for leaf, n_shared, start, end in zip(paths.leaves, paths.n_shared, paths.start, paths.start[1:], strict=False):
        sets = sets[:n_shared] + list(range(start, end))
        found[int(leaf)] = list(sets)
    return found


def bins_of(paths, at, size):
    low, high, missing_from = paths.bounds[at, 1:]
    if high == IN_TABLE:
        return np.flatnonzero(paths.table[low : low + size]).tolist()
    return [code for code in range(size) if low <= code < high or code >= missing_from]


@settings(deadline=None)
@given(SEEDS, st.integers(1, 8), st.sampled_from([1, 3, 4096]))
def test_leaves_have_their_sets_and_masses(seed, depth, leaves_of_a_task):
    form = random_closed_form(seed, max_depth=depth, max_features=3).form  # features come again on most paths
    sizes, sets = form.leaf_sets.grid.sizes, form.leaf_sets
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "LEAVES_OF_A_TASK", leaves_of_a_task)
        paths = paths_of_form(form)
    assert not paths.n_shared[::leaves_of_a_task].any()
    found = sets_of_paths(paths)
    assert sorted(found) == list(range(len(sets.values)))
    for leaf, places in found.items():
        assert sorted(paths.bounds[places, 0]) == list(sets.keys[sets.key_indices[leaf]])
        for at in places:
            j = paths.bounds[at, 0]
            index = sets.set_indices(j, np.array([leaf]))
            inside = sets.sets[j].contain(index, np.arange(sizes[j], dtype=np.int32))[0]
            assert bins_of(paths, at, sizes[j]) == np.flatnonzero(inside).tolist()
            assert paths.mass[at] == form.set_masses[j][index][0]


@settings(deadline=None)
@given(SEEDS, st.integers(1, 8))
def test_heights_are_the_most_sets_that_follow(seed, depth):
    paths = paths_of_form(random_closed_form(seed, max_depth=depth, max_features=4).form)
    expected = np.zeros(len(paths.height), dtype=int)
    for places in sets_of_paths(paths).values():
        for slot, at in enumerate(places):
            expected[at] = max(expected[at], len(places) - slot - 1)
    np.testing.assert_array_equal(paths.height, expected)


@settings(deadline=None)
@given(SEEDS)
def test_more_features_than_bits_of_a_number_give_the_same_paths(seed):
    form = random_closed_form(seed, max_depth=6, max_features=5).form
    whole = paths_of_form(form)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeanova.terms.paths._BITS", 2)
        for one, other in zip(whole, paths_of_form(form), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
@settings(deadline=None, max_examples=25)
@given(SEEDS, st.integers(0, 7), st.integers(1, 4), st.sampled_from([3, 4096]))
def test_sums_by_kernels_are_those_by_numpy(seed, depth, n_outputs, leaves_of_a_task):
    form, codes, scale = random_closed_form(seed, n_rows=30, max_depth=depth, max_features=6, n_outputs=n_outputs)
    totals, keys = OrderTotals(form), form.leaf_sets.subsets(range(8))
    orders = range(1, totals.top_order + 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(costs, "LEAVES_OF_A_TASK", leaves_of_a_task)
        sums = form._sums(keys)
        pairs = [(totals.at_rows_by_kernel(codes), totals.at_rows_by_numpy(codes))]
        pairs += [(sums.at_rows_by_kernel(codes, len(keys), 2), sums.at_rows_by_numpy(codes, len(keys), 1))]
        if orders:
            pairs += [(totals.shares_by_kernel(codes, orders), totals.shares_by_numpy(codes, orders))]
    for ours, numpys in pairs:
        np.testing.assert_allclose(ours, numpys, rtol=0, atol=1e-13 * scale)


def test_a_set_is_final_below_the_last_split_of_its_feature():
    """x0 is split at the root, then x1, then x0 again on one side: there the set of x1 comes first."""
    forest = chains([(0, 0.0), (1, 0.0), (0, 1.0)], n_features=2)
    sets = leaves_of(forest)
    masses = tuple(np.full(size, 1 / size) for size in sets.grid.sizes)
    paths = paths_of_form(ClosedForm(sets, masses, tuple(map(unmerged, sets.grid.sizes))))
    found = sets_of_paths(paths)
    features = {leaf: paths.bounds[places, 0].tolist() for leaf, places in found.items()}
    assert sorted(features.values()) == [[0], [0, 1], [1, 0], [1, 0]]
    assert sum(paths.n_shared) == 1  # the two last leaves share the set of x1


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_terms_have_the_same_digits_alone_and_among_many_in_any_number_of_threads():
    form, codes, _ = random_closed_form(5, n_rows=600, max_depth=7)
    keys = form.leaf_sets.subsets(range(1, 5))
    sums = form._sums(keys)
    every = sums.at_rows_by_kernel(codes, len(keys), 1)
    for n_rows in (1, 3, 77):
        for n_jobs in (1, 2, 3):
            np.testing.assert_array_equal(sums.at_rows_by_kernel(codes[:n_rows], len(keys), n_jobs), every[:n_rows])
