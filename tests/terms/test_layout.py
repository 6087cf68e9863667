"""Layouts: which orders are tables, which are evaluated at rows, which are left to the remainder."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains, random_forest
from tests.support.simulated import deep_decomposition, deep_model
from treeanova.errors import BudgetError
from treeanova.terms import costs, layout
from treeanova.terms.layout import choose_layout, leaves_of
from treeanova.terms.leaves import LeafSets


@pytest.fixture(scope="module")
def boosted():
    pytest.importorskip("xgboost")
    return deep_model()


@pytest.fixture(scope="module")
def fx(boosted):
    return deep_decomposition()


def test_tensors_of_an_order_asked_for_must_fit(boosted):
    model, x = boosted
    with pytest.raises(BudgetError, match="Raise `budget`"):
        treeanova.decompose(model, x, tensor_order=4)
    with pytest.raises(ValueError, match="`max_order` must be a whole number from 1 on, got 0"):
        treeanova.decompose(model, x, max_order=0)
    with pytest.raises(ValueError, match="`tensor_order` must be a whole number from 2 on, got 1"):
        treeanova.decompose(model, x, tensor_order=1)


def test_layout_of_many_features_reports_pairs_only():
    rng = np.random.default_rng(0)
    forest = random_forest(rng, max_depth=3, n_outputs=1, max_features=3)
    sets = leaves_of(forest)
    # Leaves with so many features on their path that all their subsets are beyond reach.
    deep = LeafSets(sets.forest, sets.grid)
    vars(deep)["_keys_and_sets"] = (tuple(tuple(range(30)) for _ in sets.keys), sets.key_indices, sets.sets)
    assert not layout._can_list_all(deep, 2, 30)
    assert choose_layout(sets, budget=1e9).is_dense


def square(n_features, n_bounds, n_outputs=1):
    """Trees of all pairs of features, each split at all of some bounds."""
    pairs = itertools.combinations(range(n_features), 2)
    trees = [[(i, float(u)), (j, float(u))] for i, j in pairs for u in range(n_bounds)]
    return leaves_of(chains(*trees, n_features=n_features, n_outputs=n_outputs))


def test_bins_are_merged_to_the_largest_number_that_fits():
    """3 pairs and 3 mains of 40 bins: 3 · 1600 + 120 cells, raw, pure and weights of 8 bytes each."""
    sets = square(3, 39)
    whole = 24 * (3 * 1600 + 3 * 40)
    assert choose_layout(sets, budget=whole).max_bins is None
    less = choose_layout(sets, budget=whole - 1)
    assert less.max_bins == 32
    assert not less.is_dense
    assert less.plan.n_bytes == 24 * (3 * 32**2 + 3 * 32)
    assert less.plan.notes == ("bins merged to at most 32 per ordered feature, the rest in a remainder",)
    assert choose_layout(sets, budget=24 * (3 * 16**2 + 3 * 16)).max_bins == 16
    with pytest.raises(BudgetError, match="over the budget of"):
        choose_layout(sets, budget=24 * (3 * 16**2 + 3 * 16) - 1)


@pytest.mark.parametrize(("n_rows", "max_bins"), [(1, 16), (4, 32), (5, 32), (16, 64), (1e6, None), (np.inf, None)])
def test_large_tables_have_no_more_bins_than_rows_justify(n_rows, max_bins, monkeypatch):
    """The power of two next to 16 times the root of the number of rows; 80 bins are all that there are."""
    sets = square(3, 79)
    assert choose_layout(sets, budget=1e9, n_rows=n_rows).max_bins is None  # small tables
    monkeypatch.setattr(costs, "SMALL_TABLES", 0)
    assert choose_layout(sets, budget=1e9, n_rows=n_rows).max_bins == max_bins


def test_tables_of_pairs_are_left_out_where_time_is_short():
    sets = square(3, 39)
    assert choose_layout(sets, budget=1e9, seconds=100.0).tensor_order == 2
    short = choose_layout(sets, budget=1e9, seconds=1e-3)
    assert (short.tensor_order, short.row_order, short.is_dense) == (1, 2, False)
    assert choose_layout(sets, budget=1e9, seconds=1e-3, tensor_order=2).tensor_order == 2  # asked for


@pytest.mark.parametrize(
    ("max_order", "row_order", "is_truncated"),
    [(None, 3, False), (1, 1, True), (2, 2, True), (3, 3, False), (9, 3, False)],
)
def test_orders_above_the_limit_are_left_to_the_remainder(max_order, row_order, is_truncated):
    sets = leaves_of(chains([(0, 0.0), (1, 0.0), (2, 0.0)]))
    found = choose_layout(sets, budget=1e9, max_order=max_order, tensor_order=2)
    assert (found.tensor_order, found.row_order, found.top_order) == (2, row_order, 3)
    assert found.is_truncated is is_truncated


def test_a_forest_without_splits_has_an_empty_layout():
    found = choose_layout(leaves_of(chains([])), budget=1e9)
    assert (found.tensor_order, found.row_order, found.top_order) == (0, 0, 0)
    assert found.is_dense
    assert found.plan.n_cells == 0


def test_what_is_too_many_to_list_is_added_up_or_a_remainder(monkeypatch):
    """Twelve features on a path: 4,017 terms above order 2, and totals that take 12² / 2 products per leaf."""
    sets = leaves_of(chains([(j, 0.0) for j in range(12)], n_features=12))
    screened = choose_layout(sets, budget=1e9, tensor_order=2)
    assert (screened.lists_all, screened.row_order, screened.is_truncated) == (False, 12, False)
    assert choose_layout(sets, budget=1e9, tensor_order=2, terms="all").lists_all
    assert choose_layout(sets, budget=1e9, tensor_order=2, terms=[(1, 2, 3), (0, 1)]).asked == ((1, 2, 3),)
    with pytest.raises(ValueError, match=r"`terms` must have at most 2 features each, .*, got x1 × x2 × x3; raise"):
        choose_layout(sets, budget=1e9, max_order=2, tensor_order=2, terms=[(1, 2, 3)])
    with monkeypatch.context() as patched:
        patched.setattr(costs, "LISTED_TERMS", 5000)
        assert choose_layout(sets, budget=1e9, tensor_order=2).lists_all
        patched.setattr(costs, "LISTED_COST", 100.0)
        assert not choose_layout(sets, budget=1e9, tensor_order=2).lists_all
        patched.setattr(costs, "MOST_TERMS", 4000)
        with pytest.raises(BudgetError, match=r"`terms` must not be 'all' for up to 4,017 terms"):
            choose_layout(sets, budget=1e9, tensor_order=2, terms="all")
    monkeypatch.setattr(costs, "MAX_TOTALS_COST", 72.0)
    truncated = choose_layout(sets, budget=1e9, tensor_order=2)
    assert (truncated.lists_all, truncated.row_order, truncated.is_truncated) == (True, 2, True)
