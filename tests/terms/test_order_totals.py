"""Totals per order are the sums of all listed terms, and add up to the trees."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.closed_forms import random_closed_form
from tests.support.forests import random_forest
from treeanova.core.compiled import has_numba
from treeanova.model.grid import unmerged
from treeanova.model.rows import Rows
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.layout import leaves_of
from treeanova.terms.terms import OrderTotals


def form_of(seed):
    """A random forest for independent features with random masses, some of them zero, and random rows."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=5)
    sets = leaves_of(forest)
    masses = []
    for size in sets.grid.sizes:
        mass = rng.random(size) * (rng.random(size) < 0.8)
        mass[rng.integers(size)] += 0.1
        masses.append(mass / mass.sum())
    codes = np.stack([rng.integers(0, size, 40) for size in sets.grid.sizes], axis=1).astype(np.int32)
    return forest, ClosedForm(sets, tuple(masses), tuple(map(unmerged, sets.grid.sizes))), codes


@pytest.mark.parametrize("seed", range(30))
def test_totals_are_the_sums_of_enumerated_terms(seed):
    forest, form, codes = form_of(seed)
    totals = OrderTotals(form).at_rows(codes, n_jobs=2)
    scale = np.abs(forest.values).sum() + 1.0
    for order in range(1, totals.shape[1]):
        keys = form.leaf_sets.subsets([order])
        np.testing.assert_allclose(totals[:, order], form.at_rows(codes, keys).sum(axis=1), rtol=0, atol=1e-13 * scale)
    np.testing.assert_allclose(totals[:, 0], np.broadcast_to(form.intercept, totals[:, 0].shape), atol=1e-13 * scale)


@pytest.mark.parametrize("seed", range(30))
def test_totals_add_up_to_the_trees(seed):
    forest, form, codes = form_of(seed)
    totals = OrderTotals(form).at_rows(codes)
    expected = forest.score(Rows.in_bins(form.leaf_sets.grid, codes))
    np.testing.assert_allclose(totals.sum(axis=1), expected, atol=1e-13 * (np.abs(forest.values).sum() + 1.0))


def test_rows_and_leaves_come_in_blocks(monkeypatch):
    _, form, codes = form_of(3)
    whole = OrderTotals(form).at_rows(codes)
    monkeypatch.setattr("treeanova.terms.costs.TOTALS_ROWS", 7)
    monkeypatch.setattr("treeanova.terms.costs.TOTALS_CELLS", 20)
    np.testing.assert_allclose(OrderTotals(form).at_rows(codes, n_jobs=2), whole, atol=1e-12)


@pytest.mark.parametrize(("n_rows", "n_jobs"), [(0, 2), (1, 1), (1, 3), (600, 2)])
def test_any_number_of_rows_and_threads(n_rows, n_jobs):
    form, codes, scale = random_closed_form(3, n_rows=600)
    every = OrderTotals(form).at_rows(codes)
    some = OrderTotals(form).at_rows(codes[:n_rows], n_jobs)
    np.testing.assert_allclose(some, every[:n_rows], rtol=0, atol=1e-14 * scale)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", range(15))
def test_kernel_gives_the_numbers_of_numpy(seed, n_jobs):
    form, codes, scale = random_closed_form(seed, max_depth=7)
    totals = OrderTotals(form)
    for rows in (codes, codes[:1], codes[:0]):
        ours, numpys = totals.at_rows_by_kernel(rows, n_jobs), totals.at_rows_by_numpy(rows, n_jobs)
        np.testing.assert_allclose(ours, numpys, rtol=0, atol=1e-13 * scale)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_large_jobs_run_in_the_kernel(monkeypatch):
    form, codes, _ = random_closed_form(5)
    totals = OrderTotals(form)
    monkeypatch.setattr("treeanova.core.compiled._SECONDS_WORTH_LOADING", 0.0)
    monkeypatch.setattr(OrderTotals, "at_rows_by_numpy", None)
    np.testing.assert_array_equal(totals.at_rows(codes)[:, 1:], totals.at_rows_by_kernel(codes)[:, 1:])


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_rows_have_the_same_digits_alone_and_among_many_in_any_number_of_threads(monkeypatch):
    form, codes, _ = random_closed_form(5, n_rows=600)
    totals = OrderTotals(form)
    monkeypatch.setattr("treeanova.terms.costs.LEAVES_OF_A_TASK", 7)
    monkeypatch.setattr("treeanova.core.compiled._SECONDS_WORTH_LOADING", 0.0)
    every = totals.at_rows(codes)
    for n_jobs in (1, 2, 3):
        np.testing.assert_array_equal(totals.at_rows(codes[:3], n_jobs), every[:3])
