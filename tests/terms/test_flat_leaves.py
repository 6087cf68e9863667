"""Flat leaves: rows are in the same leaves by plain arrays as by sets of bins, and masses are sums over bins."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.closed_forms import random_closed_form
from tests.support.forests import stumps
from treeanova.data.features import Feature, IntegerCategory
from treeanova.terms.layout import leaves_of
from treeanova.terms.leaves import AnySets, Intervals, flatten


def contains(flat, entry, code):
    """Whether the set of an entry has a bin, as the attributes say."""
    if flat.has_table[flat.feature[entry]]:
        return bool(flat.table[flat.low[entry] + code])
    return bool(flat.low[entry] <= code < flat.high[entry] or code >= flat.missing_from[entry])


def sets_of_leaves(leaf_sets):
    """Every leaf's features and the bins of each that reach it, from the sets themselves."""
    found = [{} for _ in leaf_sets.values]
    for j, (sets, size) in enumerate(zip(leaf_sets.sets, leaf_sets.grid.sizes, strict=True)):
        inside = sets.contain(np.arange(len(sets.leaves)), np.arange(size, dtype=np.int32))
        for leaf, bins in zip(sets.leaves, inside, strict=True):
            found[leaf][j] = np.flatnonzero(bins).tolist()
    return found


def sets_by_flat_arrays(flat, sizes):
    """The same from the plain arrays."""
    found = []
    for start, end in zip(flat.start[:-1], flat.start[1:], strict=True):
        features = flat.feature[start:end].tolist()
        assert features == sorted(set(features))
        bins = {
            flat.feature[i]: [c for c in range(sizes[flat.feature[i]]) if contains(flat, i, c)]
            for i in range(start, end)
        }
        found.append(bins)
    return found


@pytest.mark.parametrize("seed", range(15))
def test_leaves_have_the_bins_of_their_sets(seed):
    form = random_closed_form(seed).form
    sets = form.leaf_sets
    assert sets_by_flat_arrays(flatten(sets, None), sets.grid.sizes) == sets_of_leaves(sets)


def test_random_forests_have_sets_of_both_kinds():
    """The cases above: intervals with and without missing values, and sets bin by bin."""
    kinds = [sets for seed in range(15) for sets in random_closed_form(seed).form.leaf_sets.sets]
    intervals = [sets for sets in kinds if isinstance(sets, Intervals)]
    assert any(isinstance(sets, AnySets) and len(sets.leaves) for sets in kinds)
    assert any(sets.missing.any() for sets in intervals)
    assert any(len(sets.missing) and not sets.missing.all() for sets in intervals)


@pytest.mark.parametrize("seed", range(15))
def test_masses_are_sums_over_the_bins_of_a_leaf(seed):
    form = random_closed_form(seed).form
    flat = flatten(form.leaf_sets, form.set_masses)
    leaves = np.repeat(np.arange(len(form.leaf_sets.values)), np.diff(flat.start))
    expected = sets_of_leaves(form.leaf_sets)
    for leaf, j, mass in zip(leaves, flat.feature, flat.mass, strict=True):
        assert mass == pytest.approx(form.masses[j][expected[leaf][j]].sum(), abs=1e-14)


def test_a_number_with_missing_values_and_two_categories_by_hand():
    features = [Feature("x"), Feature("k", IntegerCategory(3)), Feature("l", IntegerCategory(2))]
    forest = stumps(features, [(0, 0.5, True), (1, {0, 2}, False), (2, {1}, True), (1, {1}, True)])
    sets = leaves_of(forest)
    flat = flatten(sets, None)
    index = sets.grid.index(np.array([[0.0, 0, 0], [1.0, 1, 1], [np.nan, 2, 0], [0.5, np.nan, np.nan]]))
    reached = [[contains(flat, leaf, code) for code in index[:, flat.feature[leaf]]] for leaf in range(8)]
    lefts = [
        [True, False, True, True],
        [True, False, True, False],
        [False, True, False, True],
        [False, True, False, True],
    ]
    assert reached == [side for left in lefts for side in (left, [not inside for inside in left])]
    assert flat.start.tolist() == list(range(9))
    assert flat.mass.tolist() == [0.0] * 8
    assert flat.has_table.tolist() == [False, True, True]
