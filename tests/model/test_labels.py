"""Labels of intervals against the bins that values are in: a reader of a table goes by its labels."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeanova.model.axes import IntervalAxis

SHORT = st.integers(-30, 30) | st.integers(-300, 300).map(lambda k: k / 10) | st.integers(1900, 2100)
BOUNDS = st.one_of(
    SHORT.map(float),
    SHORT.map(lambda x: np.nextafter(float(x), -np.inf)),  # x < 20
    SHORT.map(lambda x: float(np.nextafter(np.float32(x), np.float32(-np.inf)))),
    st.integers(-3000, 3000).map(lambda k: k + 0.5),
    st.floats(-100, 100),
)


def contains(label, value):
    if label == "all":
        return True
    one = re.fullmatch(r"([≤<≥>]) (\S+)", label)
    if one:
        end = float(one[2])
        return {"≤": value <= end, "<": value < end, "≥": value >= end, ">": value > end}[one[1]]
    two = re.fullmatch(r"([(\[])(\S+), (\S+)([)\]])", label)
    low, high = float(two[2]), float(two[3])
    return (value >= low if two[1] == "[" else value > low) and (value <= high if two[4] == "]" else value < high)


@given(st.sets(BOUNDS, max_size=6), st.lists(SHORT, min_size=1))
def test_a_short_number_is_in_the_bin_that_the_labels_say(bounds, values):
    axis = IntervalAxis("x", -1, np.array(sorted(bounds)))
    assert len(set(axis.labels)) == axis.size
    codes = axis.index(np.array(values, dtype=np.float64))
    for value, code in zip(values, codes, strict=True):
        assert [contains(label, value) for label in axis.labels] == [i == code for i in range(axis.size)]


@pytest.mark.parametrize(
    ("bounds", "labels"),
    [
        ([2008.5, 2009.5], ("≤ 2008.5", "(2008.5, 2009.5]", "> 2009.5")),
        ([np.nextafter(19.0, 0), np.nextafter(20.0, 0)], ("< 19", "[19, 20)", "≥ 20")),
        ([float(np.nextafter(np.float32(1), np.float32(0)))], ("< 1", "≥ 1")),
        ([1_000_000_000_001.5], ("≤ 1000000000001.5", "> 1000000000001.5")),
        ([1 / 3, 2 / 3], ("≤ 0.3333", "(0.3333, 0.6666]", "> 0.6666")),
    ],
)
def test_labels_of_bounds(bounds, labels):
    assert IntervalAxis("x", -1, np.array(bounds)).labels == labels
