"""Axes and grids: every value in the bin that its rule says, labels for people, unions that lose nothing."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeanova.data.features import Feature, IntegerCategory, Labels, Numeric, Schema
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.forest import NEAR_ZERO
from treeanova.model.grid import Grid, grid_of
from treeanova.model.union import union
from treeanova.testing.forests import stumps

LETTERS = ("a", "b", "c", "d")
SPECIAL = np.array([0.0, -0.0, NEAR_ZERO, -NEAR_ZERO, 1e-300, np.inf, -np.inf, np.nan, 0.5, 1.0, -1.0, 2.0])


def numeric_axis(*splits, **options):
    return grid_of(stumps([Feature("x", Numeric(), **options)], [(0, *split) for split in splits])).axes[0]


def category_axis(*splits, labels=LETTERS, **options):
    return grid_of(stumps([Feature("k", Labels(labels), **options)], [(0, *split) for split in splits])).axes[0]


def index(axis, *values):
    return axis.index(np.array(values, dtype=float)).tolist()


# Intervals


@given(
    st.lists(st.floats(-3, 3), max_size=6, unique=True),
    st.lists(st.one_of(st.floats(-4, 4), st.just(np.inf), st.just(-np.inf)), min_size=1),
    st.booleans(),
)
def test_each_number_lies_in_the_half_open_interval_of_its_bin(bounds, values, takes_bound):
    axis = IntervalAxis("x", -1, np.sort(np.array(bounds, dtype=float)))
    values = values + bounds * takes_bound
    assert axis.edges[[0, -1]].tolist() == [-np.inf, np.inf]
    for value, bin_ in zip(values, axis.index(np.array(values)), strict=True):
        below = sum(bound < value for bound in bounds)
        assert bin_ == below
        assert axis.edges[bin_] < value <= axis.edges[bin_ + 1] or value == -np.inf


def test_missing_values_have_their_own_bin_where_no_interval_goes_their_way():
    # Right of 0 and left of -1 at once: no number is.
    axis = numeric_axis((0.0, False), (0.5, True), (-1.0, True))
    assert axis.missing_bin == 4
    assert (axis.size, len(axis), axis.n_regular) == (5, 5, 4)
    assert index(axis, -2, -1, 0, 0.1, 0.5, 9, np.nan) == [0, 0, 1, 2, 2, 3, 4]
    assert axis.labels == ("≤ -1", "(-1, 0]", "(0, 0.5]", "> 0.5", "missing")
    assert axis.edges.tolist() == [-np.inf, -1, 0, 0.5, np.inf]


def test_missing_values_share_the_interval_that_goes_their_way_at_every_node():
    axis = numeric_axis((0.0, False), (0.5, True))
    assert axis.size == 3
    assert index(axis, -1, 0.25, 1, np.nan) == [0, 1, 2, 1]
    assert axis.labels == ("≤ 0", "(0, 0.5] or missing", "> 0.5")


def test_an_axis_of_a_feature_that_refuses_missing_values_has_no_bin_for_them():
    axis = numeric_axis((0.0, True), accepts_missing=False)
    assert (axis.missing_bin, axis.size, axis.labels) == (-1, 2, ("≤ 0", "> 0"))


def test_an_axis_without_splits_is_one_bin():
    features = [Feature("x"), Feature("y")]
    axis = grid_of(stumps(features, [(1, 0.0, True)])).axes[0]
    assert (axis.size, axis.labels, axis.edges.tolist()) == (1, ("all or missing",), [-np.inf, np.inf])
    assert index(axis, -9, np.nan, np.inf) == [0, 0, 0]
    assert IntervalAxis("x", -1, np.empty(0)).labels == ("all",)


def test_a_split_at_infinity_adds_no_bin_but_keeps_missing_values_apart():
    axis = numeric_axis((np.inf, False))
    assert (axis.size, axis.missing_bin, axis.labels) == (2, 1, ("all", "missing"))
    assert index(axis, np.inf, np.nan) == [0, 1]


def test_zeros_that_count_as_missing_have_a_bin_with_the_missing_values():
    axis = numeric_axis((1.0, False, True))
    assert index(axis, -1, -1e-34, -1e-36, 0, NEAR_ZERO, 1e-34, 2, np.nan) == [0, 0, 1, 1, 1, 2, 3, 1]
    assert axis.labels == ("≤ -1e-35", "(-1e-35, 1e-35] or missing", "(1e-35, 1]", "> 1")


def test_zeros_and_missing_values_part_where_another_node_tells_them_apart():
    axis = numeric_axis((1.0, False, True), (-1.0, True))
    assert index(axis, 0, np.nan) == [2, 5]
    assert axis.labels[-1] == "missing"


def test_labels_have_as_many_digits_as_tell_bounds_apart():
    close = IntervalAxis("x", -1, np.array([1.0, 1.00001]))
    assert close.labels == ("≤ 1", "(1, 1.00001]", "> 1.00001")
    closest = IntervalAxis("x", -1, np.array([0.1, np.nextafter(0.1, 1)]))
    assert len(set(closest.labels)) == 3
    assert IntervalAxis("x", -1, np.array([1234567.0])).labels == ("≤ 1.235e+06", "> 1.235e+06")


# Categories


def test_unseen_and_missing_share_the_first_category_that_goes_their_way():
    # IntegerCategory of a set: 0 .. 3 are the letters, 4 is unseen.
    axis = category_axis(({0, 1, 4}, False), ({1, 4}, True))
    assert (axis.unseen_bin, axis.missing_bin, axis.size) == (1, 4, 5)
    assert axis.labels == ("a", "b or unseen", "c", "d", "missing")
    assert index(axis, 0, 1, 2, 3, 4, np.nan) == [0, 1, 2, 3, 1, 4]


def test_unseen_and_missing_have_their_own_bins_where_nothing_goes_their_way():
    axis = category_axis(({0, 1, 2, 3}, False), ({0, 1, 2, 3}, True), ({0}, False))
    assert (axis.unseen_bin, axis.missing_bin, axis.size) == (4, 5, 6)
    assert axis.labels == (*LETTERS, "unseen", "missing")
    assert index(axis, 3, 4, np.nan) == [3, 4, 5]


def test_unseen_and_missing_may_share_one_bin_of_their_own():
    axis = category_axis(({0, 1, 2, 3}, False))
    assert axis.labels == (*LETTERS, "unseen or missing")
    assert index(axis, 4, np.nan) == [4, 4]


def test_categories_that_refuse_unseen_and_missing_have_no_bins_for_them():
    axis = category_axis(({0}, False), accepts_missing=False, accepts_unseen=False)
    assert (axis.unseen_bin, axis.missing_bin, axis.labels) == (-1, -1, LETTERS)


def test_labels_of_codes_are_their_names():
    named = grid_of(stumps([Feature("k", IntegerCategory(2, ("no", "yes")))], [(0, {0, 2}, True)])).axes[0]
    assert named.labels == ("no or unseen or missing", "yes")
    plain = grid_of(stumps([Feature("k", IntegerCategory(2))], [(0, {0, 2}, False)])).axes[0]
    assert plain.labels == ("0 or unseen", "1 or missing")


# Grids


def random_splits(rng, features, n_splits):
    splits = []
    for _ in range(n_splits):
        j = int(rng.integers(len(features)))
        if features[j].is_category:
            rule = set(np.flatnonzero(rng.random(features[j].n_categories + 1) < 0.5).tolist())
            splits.append((j, rule, bool(rng.random() < 0.5)))
        else:
            rule = float(rng.choice([*rng.normal(size=3).round(1), np.inf, 0.0, 1e-300]))
            splits.append((j, rule, bool(rng.random() < 0.5), bool(rng.random() < 0.3)))
    return splits


def random_rows(rng, n_rows=150):
    """Raw values of a number and of a category, with all that is special."""
    numbers = np.where(rng.random(n_rows) < 0.5, rng.choice(SPECIAL, n_rows), rng.normal(size=n_rows).round(1))
    rows = np.empty((n_rows, 2), dtype=object)
    rows[:, 0] = numbers
    rows[:, 1] = rng.choice(np.array([*LETTERS, "z", None], dtype=object), n_rows)
    return rows


@given(st.integers(0, 2**32 - 1))
def test_rows_of_one_cell_reach_the_same_leaves(seed):
    rng = np.random.default_rng(seed)
    features = [Feature("x", Numeric()), Feature("k", Labels(LETTERS))]
    forest = stumps(features, random_splits(rng, features, int(rng.integers(1, 7))))
    rows = random_rows(rng)
    grid = grid_of(forest)
    codes, leaves = grid.index(rows), forest.leaf_ids(rows)
    assert codes.min() >= 0
    assert (codes < grid.sizes).all()
    reached = {}
    for cell, own in zip(map(tuple, codes), leaves, strict=True):
        np.testing.assert_array_equal(reached.setdefault(cell, own), own)


@given(st.integers(0, 2**32 - 1))
def test_bins_of_a_union_lead_back_to_the_bins_of_each_grid(seed):
    rng = np.random.default_rng(seed)
    grids = []
    for _ in range(int(rng.integers(1, 4))):
        known = tuple(rng.permutation(LETTERS)[: rng.integers(1, 5)].tolist()) if grids else LETTERS
        features = [Feature("x", Numeric()), Feature("k", Labels(known))]
        grids.append(grid_of(stumps(features, random_splits(rng, features, int(rng.integers(1, 6))))))
    order = rng.permutation(len(grids))
    grids = [grids[i] for i in order]
    merged, maps = union(grids)
    rows = random_rows(rng)
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
    with pytest.raises(ValueError, match="'x' must"):
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
