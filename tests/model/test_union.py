"""Unions of grids: nothing that a grid distinguishes is lost."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from tests.support.forests import LETTERS, category_axis, number_and_letter_rows, numeric_axis, random_stumps
from tests.support.strategies import SEEDS
from treeanova.data.dates import DateNumber
from treeanova.data.features import Feature, Labels, Numeric, Schema
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.grid import Grid, grid_of, union


@given(SEEDS)
def test_bins_of_a_union_lead_back_to_the_bins_of_each_grid(seed):
    rng = np.random.default_rng(seed)
    grids = []
    for _ in range(int(rng.integers(1, 4))):
        known = tuple(rng.permutation(LETTERS)[: rng.integers(1, 5)].tolist()) if grids else LETTERS
        features = [Feature("x", Numeric()), Feature("k", Labels(known))]
        grids.append(grid_of(random_stumps(rng, features, int(rng.integers(1, 6)))))
    order = rng.permutation(len(grids))
    grids = [grids[i] for i in order]
    merged, maps = union(grids)
    rows = number_and_letter_rows(rng)
    codes = merged.index(rows)
    for grid, old_bins in zip(grids, maps, strict=True):
        own = grid.index(rows)
        for j, old in enumerate(old_bins):
            assert len(old) == merged.sizes[j]
            np.testing.assert_array_equal(old[codes[:, j]], own[:, j])


def test_a_union_has_no_more_bins_than_its_grids_tell_apart():
    first, second = numeric_axis((0.0, False), (1.0, True)), numeric_axis((0.5, True), (0.0, False))
    schema = Schema((Feature("x"),))
    merged, maps = union([Grid(schema, (first,)), Grid(schema, (second,))])
    assert merged.axes[0].labels == ("≤ 0", "(0, 0.5] or missing", "(0.5, 1]", "> 1")
    assert [old[0].tolist() for old in maps] == [[0, 1, 1, 2], [0, 1, 2, 2]]


def test_missing_values_that_share_bins_apart_get_their_own_in_a_union():
    left, right = numeric_axis((0.0, True)), numeric_axis((0.0, False))
    schema = Schema((Feature("x"),))
    merged, maps = union([Grid(schema, (left,)), Grid(schema, (right,))])
    assert merged.axes[0].labels == ("≤ 0", "> 0", "missing")
    assert [old[0].tolist() for old in maps] == [[0, 1, 0], [0, 1, 1]]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_union_with_a_grid_that_refuses_missing_values_refuses_them_too(order):
    grids = [
        Grid(Schema((Feature("x", accepts_missing=accepts),)), (numeric_axis((0.0, True), accepts_missing=accepts),))
        for accepts in (True, False)
    ]
    merged, _ = union([grids[i] for i in order])
    with pytest.raises(ValueError, match="'x' must have no missing values"):
        merged.index(np.array([[np.nan]]))


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_union_with_a_grid_that_refuses_unseen_categories_refuses_them_too(order):
    options = [{"accepts_unseen": accepts} for accepts in (True, False)]
    grids = [
        Grid(Schema((Feature("k", Labels(LETTERS), **own),)), (category_axis(({0, 4}, True), **own),))
        for own in options
    ]
    merged, _ = union([grids[i] for i in order])
    with pytest.raises(ValueError, match="'k' must hold categories of the model, got 'z'"):
        merged.index(np.array([["z"]], dtype=object))


def test_a_union_of_features_that_read_columns_in_other_ways_is_refused():
    """-999 is missing for the first and a number for the second: no encoder serves both."""
    grids = [
        Grid(Schema((Feature("x", encoder),)), (IntervalAxis("x", 0, np.array([0.0])),))
        for encoder in (Numeric(-999.0), Numeric())
    ]
    with pytest.raises(ValueError, match=r"'x' must have the same missing value and labels .*-999.0.* and .*nan"):
        union(grids)


def test_a_union_of_days_and_seconds_is_refused():
    grids = [
        Grid(Schema((Feature("x", DateNumber(unit, Numeric())),)), (IntervalAxis("x", 0, np.array([0.0]), unit),))
        for unit in ("D", "s")
    ]
    with pytest.raises(ValueError, match="'x' must count dates in one unit to be combined, got D and s; train"):
        union(grids)


def test_unions_of_other_features_or_categories_are_refused():
    number = Grid(Schema((Feature("x"),)), (IntervalAxis("x", 0, np.array([0.0])),))
    renamed = Grid(Schema((Feature("y"),)), (IntervalAxis("y", 0, np.array([0.0])),))
    letters = Grid(Schema((Feature("x", Labels(("a", "b"))),)), (CategoryAxis("x", 0, ("a", "b"), 0),))
    others = Grid(Schema((Feature("x", Labels(("a", "c"))),)), (CategoryAxis("x", 0, ("a", "c"), 0),))
    with pytest.raises(ValueError, match="same features in the same order"):
        union([number, renamed])
    for first, second in itertools.permutations([number, letters, others], 2):
        with pytest.raises(ValueError, match="'x' must have the same kind and categories"):
            union([first, second])


def test_a_category_that_one_model_does_not_know_and_refuses_cannot_be_combined():
    wide = Grid(Schema((Feature("k", Labels(("a", "b"))),)), (CategoryAxis("k", 0, ("a", "b"), 0),))
    narrow = Grid(Schema((Feature("k", Labels(("a",)), accepts_unseen=False),)), (CategoryAxis("k", 0, ("a",), -1),))
    with pytest.raises(ValueError, match="'k' must have the same categories"):
        union([wide, narrow])
