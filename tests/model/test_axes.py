"""Axes: every value in the bin that its rule says, and labels for people."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.forests import LETTERS, category_axis, numeric_axis, stumps
from treeanova.data.features import Feature, IntegerCategory
from treeanova.model.axes import CategoryAxis, IntervalAxis, of_feature
from treeanova.model.forest import NEAR_ZERO
from treeanova.model.grid import grid_of


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
    assert axis.labels == ("< -1e-35", "[-1e-35, 1e-35] or missing", "(1e-35, 1]", "> 1")


def test_zeros_and_missing_values_part_where_another_node_tells_them_apart():
    axis = numeric_axis((1.0, False, True), (-1.0, True))
    assert index(axis, 0, np.nan) == [2, 5]
    assert axis.labels[-1] == "missing"


def test_labels_have_as_many_digits_as_tell_bounds_apart():
    close = IntervalAxis("x", -1, np.array([1.0, 1.00001]))
    assert close.labels == ("≤ 1", "(1, 1.00001]", "> 1.00001")
    closest = IntervalAxis("x", -1, np.array([0.1, np.nextafter(0.1, 1)]))
    assert len(set(closest.labels)) == 3
    assert IntervalAxis("x", -1, np.array([1234567.0])).labels == ("≤ 1234567", "> 1234567")


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


# Both kinds


AXES = [
    IntervalAxis("x", -1, np.array([0.0, 1.0])),
    IntervalAxis("x", 3, np.array([0.0, 1.0])),
    IntervalAxis("x", 1, np.array([0.0, 1.0])),
    IntervalAxis("x", 0, np.empty(0)),
    CategoryAxis("k", -1, LETTERS, -1),
    CategoryAxis("k", 5, LETTERS, 4),
    CategoryAxis("k", 0, LETTERS, 2),
    CategoryAxis("k", 4, LETTERS, 4),
]


@pytest.mark.parametrize("axis", AXES)
def test_an_example_falls_into_each_bin(axis):
    assert axis.index(axis.examples()).tolist() == list(range(axis.size))
    assert axis.n_regular + axis.n_extra == axis.size == len(axis.labels)


def test_axes_have_the_bins_of_no_other():
    for i, first in enumerate(AXES):
        assert [first.has_bins_of(other) for other in AXES] == [i == j for j in range(len(AXES))]


def test_ends_of_bins():
    ends = AXES[1].interval_ends
    np.testing.assert_array_equal(ends, [[-np.inf, 0, 1, np.nan], [0, 1, np.inf, np.nan]])
    assert AXES[4].interval_ends is None


def test_a_renamed_axis_has_the_same_bins():
    other = of_feature(AXES[1], Feature("y"))
    assert other.name == "y"
    assert other.has_bins_of(AXES[1])
