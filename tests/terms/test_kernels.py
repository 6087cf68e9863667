"""Kernels, in plain Python and compiled: every leaf, term and order of tiny forests by hand."""

from __future__ import annotations

import dataclasses
import itertools
import math
import types

import numpy as np
import pytest

from tests.support.forests import random_forest, rows_on_bounds, scale_of
from treeanova.core.compiled import Kernel, has_numba
from treeanova.model.grid import unmerged
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.kernels import plan_of, sum_polynomials, sum_products, sum_shares
from treeanova.terms.layout import leaves_of
from treeanova.terms.leaves import AnySets, Intervals, flatten
from treeanova.terms.paths import paths_in_tree_order

NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
WAYS = ["plain", pytest.param("compiled", marks=NEEDS_NUMBA)]


def chosen(kernel, way):
    return plain(kernel) if way == "plain" else kernel


def plain(kernel):
    """The function of a kernel in plain Python, with those of the kernels that it calls."""
    scope = dict(kernel.function.__globals__)
    called = [name for name in kernel.function.__code__.co_names if isinstance(scope.get(name), Kernel)]
    return types.FunctionType(kernel.function.__code__, scope | {name: plain(scope[name]) for name in called})


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


def paths_and_values(form):
    """Leaves in the order of the trees, and their values."""
    paths = paths_in_tree_order(form.leaf_sets.forest, flatten(form.leaf_sets, form.set_masses))
    return paths, form.leaf_sets.values[paths.leaves]


def spans(n_leaves, size):
    """All tasks of so many leaves."""
    return [(start, min(start + size, n_leaves)) for start in range(0, n_leaves, size)]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(8))
def test_polynomials_are_the_sums_of_all_terms_of_an_order(seed, way, monkeypatch):
    form, codes, atol = tiny(seed)
    n_features, n_leaves = len(form.masses), len(form.leaf_sets.values)
    for size in (n_leaves, 3):
        monkeypatch.setattr("treeanova.terms.costs.LEAVES_OF_A_TASK", size)
        paths, values = paths_and_values(form)
        for some in spans(n_leaves, size):
            expected = np.zeros((n_features + 1, values.shape[1], len(codes)))
            for leaf, order in itertools.product(paths.leaves[slice(*some)], range(n_features + 1)):
                for key in itertools.combinations(range(n_features), order):
                    expected[order] += np.outer(form.leaf_sets.values[leaf], part_of_leaf(form, leaf, key, codes))
            found = chosen(sum_polynomials, way)(codes.T, some, n_features + 1, values, paths)
            np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("seed", range(8))
def test_shares_are_parts_of_the_terms_of_a_feature(seed, way, monkeypatch):
    form, codes, atol = tiny(seed)
    n_features, n_leaves = len(form.masses), len(form.leaf_sets.values)
    order_weights = np.random.default_rng(seed).normal(size=n_features) * (np.arange(n_features) >= seed % 3)
    monkeypatch.setattr("treeanova.terms.costs.LEAVES_OF_A_TASK", 5)
    paths, values = paths_and_values(form)
    for some in spans(n_leaves, 5):
        expected = np.zeros((n_features, values.shape[1], len(codes)))
        for leaf, order in itertools.product(paths.leaves[slice(*some)], range(1, n_features + 1)):
            for key in itertools.combinations(range(n_features), order):
                part = np.outer(form.leaf_sets.values[leaf], part_of_leaf(form, leaf, key, codes))
                expected[list(key)] += order_weights[order - 1] * part
        found = chosen(sum_shares, way)(codes.T, some, order_weights, values, paths)
        np.testing.assert_allclose(found, expected, rtol=0, atol=atol)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("n_bits", [1, 62])
@pytest.mark.parametrize("seed", range(8))
def test_products_are_the_terms(seed, n_bits, way, monkeypatch):
    monkeypatch.setattr("treeanova.terms.kernels._BITS", n_bits)  # features are in one number or in several
    form, codes, atol = tiny(seed)
    every = form.leaf_sets.subsets(range(5))
    paths, values = paths_and_values(form)
    for keys in (every, every[::-2], every[-1:], [(0,)]):
        plan = plan_of(keys, paths, len(form.masses), max(map(len, form.leaf_sets.keys)))
        orders = np.array([len(key) for key in keys], dtype=np.int64)
        found = chosen(sum_products, way)(codes.T, orders, values, paths, plan)
        for column, key in enumerate(keys):
            parts = [np.outer(v, part_of_leaf(form, i, key, codes)) for i, v in enumerate(form.leaf_sets.values)]
            np.testing.assert_allclose(found[column], sum(parts), rtol=0, atol=atol)


@pytest.mark.parametrize("way", WAYS)
def test_no_rows_no_leaves_and_no_terms(way):
    form, codes, _ = tiny(1)
    paths, values = paths_and_values(form)
    shape = (6, values.shape[1])
    assert chosen(sum_polynomials, way)(codes[:0].T, (0, len(values)), 6, values, paths).shape == (*shape, 0)
    nothing = chosen(sum_polynomials, way)(codes.T, (0, 0), 6, values, paths)
    np.testing.assert_array_equal(nothing, np.zeros((*shape, 20)))
    plan = plan_of([], paths, len(form.masses), max(map(len, form.leaf_sets.keys)))
    no_terms = chosen(sum_products, way)(codes.T, np.zeros(0, np.int64), values, paths, plan)
    assert no_terms.shape == (0, values.shape[1], 20)
