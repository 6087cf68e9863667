"""Kernels, in plain Python and compiled: every leaf, term and order of tiny forests by hand."""

from __future__ import annotations

import dataclasses
import itertools
import math

import numpy as np
import pytest

from tests.support.forests import random_forest, rows_on_bounds, scale_of
from treeanova.core.compiled import has_numba
from treeanova.model.grid import unmerged
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.kernels import flatten_groups, sum_polynomials, sum_products
from treeanova.terms.layout import leaves_of
from treeanova.terms.leaves import AnySets, Intervals, flatten

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
WAYS = ["plain", pytest.param("compiled", marks=NEEDS_NUMBA)]


def chosen(kernel, way):
    return kernel.function if way == "plain" else kernel


def tiny(seed):
    """The closed form of a tiny forest whose zeros are not missing, so that numbers have intervals; bins of rows."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=4, max_trees=6, max_features=4)
    forest = dataclasses.replace(forest, zero_missing=np.zeros_like(forest.zero_missing))
    sets = leaves_of(forest)
    masses = tuple(rng.dirichlet(np.ones(size)) for size in sets.grid.sizes)
    form = ClosedForm(sets, masses, tuple(unmerged(size) for size in sets.grid.sizes))
    return form, sets.grid.index(rows_on_bounds(forest, rng, 20)), 1e-13 * scale_of(forest)


def test_tiny_forests_have_sets_of_both_kinds_and_rows_with_missing_values():
    found = [
        (sets, codes[:, j]) for form, codes, _ in map(tiny, range(8)) for j, sets in enumerate(form.leaf_sets.sets)
    ]
    assert any(isinstance(sets, AnySets) for sets, _ in found)
    intervals = [(sets, codes) for sets, codes in found if isinstance(sets, Intervals)]
    assert any(sets.missing.any() and (codes >= sets.n_intervals).any() for sets, codes in intervals)


def factors(form, leaf, codes):
    """Memberships of rows in the sets of a leaf, and masses of the sets, feature by feature of its path."""
    found = {}
    for j, sets in enumerate(form.leaf_sets.sets):
        for at in np.flatnonzero(sets.leaves == leaf):
            every_bin = np.arange(form.leaf_sets.grid.sizes[j], dtype=np.int32)
            bins = np.flatnonzero(sets.contain(np.array([at]), every_bin)[0])
            found[j] = np.isin(codes[:, j], bins).astype(float), form.masses[j][bins].sum()
    return found


def part_of_leaf(form, leaf, key, codes):
    """What a leaf of value 1 adds to a term at rows: Π over the key of z - p times Π over other features of p."""
    parts = factors(form, leaf, codes)
    if not set(key) <= set(parts):
        return np.zeros(len(codes))
    others = math.prod(p for j, (_, p) in parts.items() if j not in key)
    return others * np.prod([parts[j][0] - parts[j][1] for j in key], axis=0) * np.ones(len(codes))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(8))
def test_polynomials_are_the_sums_of_all_terms_of_an_order(seed, way):
    form, codes, atol = tiny(seed)
    n_features, n_leaves = len(form.masses), len(form.leaf_sets.values)
    for some in [(0, n_leaves), (n_leaves // 3, n_leaves - 1)]:
        expected = np.zeros((n_features + 1, form.leaf_sets.values.shape[1], len(codes)))
        for leaf, order in itertools.product(range(*some), range(n_features + 1)):
            for key in itertools.combinations(range(n_features), order):
                expected[order] += np.outer(form.leaf_sets.values[leaf], part_of_leaf(form, leaf, key, codes))
        flat = flatten(form.leaf_sets, form.set_masses)
        found = chosen(sum_polynomials, way)(codes.T, some, n_features + 1, form.leaf_sets.values, flat)
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(8))
def test_products_are_the_terms(seed, way, monkeypatch):
    monkeypatch.setattr("treeanova.terms.costs.FEW_KEYS", seed % 2 * 99)  # leaves by their features, or by keys
    form, codes, atol = tiny(seed)
    sets = form.leaf_sets
    keys = sets.subsets(range(5))[:: -1 if seed % 3 else 1]
    flat, parts = flatten(sets, form.set_masses), flatten_groups(form._leaf_groups(keys), sets.values.shape[1])
    found = chosen(sum_products, way)(codes.T, len(keys), parts, flat)
    for column, key in enumerate(keys):
        parts_of_leaves = [np.outer(v, part_of_leaf(form, i, key, codes)) for i, v in enumerate(sets.values)]
        np.testing.assert_allclose(found[column], sum(parts_of_leaves), rtol=0, atol=atol)


@pytest.mark.parametrize("way", WAYS)
def test_no_rows_and_no_leaves(way):
    form, codes, _ = tiny(1)
    values, flat = form.leaf_sets.values, flatten(form.leaf_sets, form.set_masses)
    shape = (6, values.shape[1])
    assert chosen(sum_polynomials, way)(codes[:0].T, (0, len(values)), 6, values, flat).shape == (*shape, 0)
    np.testing.assert_array_equal(
        chosen(sum_polynomials, way)(codes.T, (1, 1), 6, values, flat), np.zeros((*shape, 20))
    )
    nothing = chosen(sum_products, way)(codes.T, 2, flatten_groups([], values.shape[1]), flat)
    np.testing.assert_array_equal(nothing, np.zeros((2, values.shape[1], 20)))
