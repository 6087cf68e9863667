"""Shares of features in totals per order: those of all enumerated terms, and Shapley values for all orders."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from tests.support.closed_forms import random_closed_form
from tests.support.forests import random_forest, scale_of
from treeanova.core.compiled import has_numba
from treeanova.model.grid import unmerged
from treeanova.model.rows import Rows
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.layout import leaves_of
from treeanova.terms.terms import OrderTotals


def form_of(seed, **options):
    """A random forest for independent features, some bins without mass and some with all of it, and random rows."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=6, **options)
    sets = leaves_of(forest)
    masses = []
    for size in sets.grid.sizes:
        mass = rng.random(size) * (rng.random(size) < rng.choice([0.1, 0.5, 0.9]))
        mass[rng.integers(size)] += 0.1
        masses.append(mass / mass.sum())
    codes = np.stack([rng.integers(0, size, 40) for size in sets.grid.sizes], axis=1).astype(np.int32)
    return forest, ClosedForm(sets, tuple(masses), tuple(map(unmerged, sets.grid.sizes))), codes


def enumerated(form, codes, orders):
    """Shares of features in all terms of some orders, term by term."""
    shares = np.zeros((*codes.shape, form.leaf_sets.values.shape[1]))
    keys = form.leaf_sets.subsets(orders)
    values = form.at_rows(codes, keys)
    for position, key in enumerate(keys):
        shares[:, list(key)] += values[:, position, None] / len(key)
    return shares


@pytest.mark.parametrize("seed", range(40))
def test_shares_are_those_of_enumerated_terms(seed):
    forest, form, codes = form_of(seed)
    totals = OrderTotals(form)
    every = range(1, totals.top_order + 1)
    for orders in ((), every, every[2:], every[::2], every[-1:]):
        shares = totals.shares_at_rows(codes, orders, n_jobs=2)
        np.testing.assert_allclose(shares, enumerated(form, codes, orders), rtol=0, atol=1e-13 * scale_of(forest))


@pytest.mark.parametrize("seed", range(20))
def test_shares_add_up_to_totals(seed):
    forest, form, codes = form_of(seed)
    totals = OrderTotals(form)
    orders = list(range(1, totals.top_order + 1))[1:]
    shares = totals.shares_at_rows(codes, orders)
    expected = totals.at_rows(codes)[:, orders].sum(axis=1)
    np.testing.assert_allclose(shares.sum(axis=1), expected, rtol=0, atol=1e-13 * scale_of(forest))


def shapley_values(scores, masses, cell):
    """Shapley's formula for one cell of a tensor of scores, whose unknown features are independent."""
    n_features = len(cell)

    def worth(known):
        result = scores
        for j in reversed(range(n_features)):
            result = np.take(result, cell[j], axis=j) if j in known else np.tensordot(masses[j], result, (0, j))
        return result

    values = np.zeros((n_features, *scores.shape[n_features:]))
    for j in range(n_features):
        for size in range(n_features):
            weight = math.factorial(size) * math.factorial(n_features - size - 1) / math.factorial(n_features)
            for known in itertools.combinations([i for i in range(n_features) if i != j], size):
                values[j] += weight * (worth({*known, j}) - worth({*known}))
    return values


@pytest.mark.parametrize("seed", range(12))
def test_shares_of_all_orders_are_shapley_values(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=5, max_trees=4, max_features=4, bounds=(-1.0, 0.1, 1.0))
    grid = leaves_of(forest).grid
    masses = tuple(rng.dirichlet(np.ones(size)) for size in grid.sizes)
    form = ClosedForm(leaves_of(forest), masses, tuple(map(unmerged, grid.sizes)))
    cells = np.indices(grid.sizes).reshape(len(grid.sizes), -1).T.astype(np.int32)
    scores = forest.score(Rows.in_bins(grid, cells)).reshape(*grid.sizes, -1)
    some = cells[rng.choice(len(cells), min(6, len(cells)), replace=False)]
    totals = OrderTotals(form)
    shares = totals.shares_at_rows(some, range(1, totals.top_order + 1))
    for row, cell in enumerate(some):
        np.testing.assert_allclose(shares[row], shapley_values(scores, masses, cell), atol=1e-13 * scale_of(forest))


def test_rows_and_leaves_come_in_blocks(monkeypatch):
    _, form, codes = form_of(3)
    orders = range(2, OrderTotals(form).top_order + 1)
    whole = OrderTotals(form).shares_at_rows(codes, orders)
    monkeypatch.setattr("treeanova.terms.costs.SHARES_ROWS", 7)
    monkeypatch.setattr("treeanova.terms.costs.TOTALS_CELLS", 20)
    for n_jobs in (1, 2, 9):
        some = OrderTotals(form).shares_at_rows(codes, orders, n_jobs)
        np.testing.assert_allclose(some, whole, atol=1e-12)


@pytest.mark.parametrize(("n_rows", "n_jobs"), [(0, 2), (1, 1), (1, 3), (300, 2)])
def test_any_number_of_rows_and_threads(n_rows, n_jobs):
    form, codes, scale = random_closed_form(3, n_rows=300)
    totals = OrderTotals(form)
    every = totals.shares_at_rows(codes, (2, 3))
    np.testing.assert_allclose(
        totals.shares_at_rows(codes[:n_rows], (2, 3), n_jobs), every[:n_rows], rtol=0, atol=1e-14 * scale
    )


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
@pytest.mark.parametrize("n_jobs", [1, 2])
@pytest.mark.parametrize("seed", range(15))
def test_kernel_gives_the_numbers_of_numpy(seed, n_jobs):
    form, codes, scale = random_closed_form(seed, max_depth=7)
    totals = OrderTotals(form)
    every = range(1, totals.top_order + 1)
    for orders in filter(len, (every, every[2:], every[-1:])):
        for rows in (codes, codes[:1], codes[:0]):
            ours, numpys = totals.shares_by_kernel(rows, orders, n_jobs), totals.shares_by_numpy(rows, orders, n_jobs)
            np.testing.assert_allclose(ours, numpys, rtol=0, atol=1e-13 * scale)


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_large_jobs_run_in_the_kernel(monkeypatch):
    form, codes, _ = random_closed_form(5)
    totals = OrderTotals(form)
    monkeypatch.setattr("treeanova.core.compiled._SECONDS_WORTH_LOADING", 0.0)
    monkeypatch.setattr(OrderTotals, "shares_by_numpy", None)
    np.testing.assert_array_equal(totals.shares_at_rows(codes, (1, 2)), totals.shares_by_kernel(codes, (1, 2)))


@pytest.mark.skipif(not has_numba(), reason="Numba is not installed")
def test_rows_have_the_same_digits_alone_and_among_many_in_any_number_of_threads(monkeypatch):
    form, codes, _ = random_closed_form(5, n_rows=600)
    totals = OrderTotals(form)
    monkeypatch.setattr("treeanova.terms.costs.LEAVES_OF_A_TASK", 7)
    monkeypatch.setattr("treeanova.core.compiled._SECONDS_WORTH_LOADING", 0.0)
    every = totals.shares_at_rows(codes, (1, 2))
    for n_jobs in (1, 2, 3):
        np.testing.assert_array_equal(totals.shares_at_rows(codes[:3], (1, 2), n_jobs), every[:3])
