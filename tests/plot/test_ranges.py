from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.plot.axes import checked_limits, common_range, range_of


def interval(*thresholds):
    return IntervalAxis("x", -1, np.array(thresholds))


def test_a_range_reaches_to_the_ends_of_the_data():
    assert range_of(interval(0.5), np.full(2, 0.5), (0.0, 1.0)) == (0.0, 1.0)
    assert range_of(interval(), np.ones(1), (2.0, 5.0)) == (2.0, 5.0)


def test_a_range_has_a_margin_where_the_data_are_not_known():
    assert range_of(interval(0.0, 10.0), np.full(3, 1 / 3)) == pytest.approx((-0.4, 10.4))


def test_a_long_tail_without_data_is_cut():
    low, high = range_of(interval(0.0, 10.0, 1000.0), np.array([0.5, 0.4, 0.1, 0.0]), (-1.0, 11.0))
    assert (low, high) == pytest.approx((-1.0, 11.0 + 0.04 * 11))


def test_a_common_range_contains_that_of_each_axis_that_splits():
    weights = np.full(2, 0.5)
    never_splits = (interval(), np.ones(1), None)
    both = [(interval(1.0), weights, (0.5, 1.2)), (interval(3.0), weights, (2.9, 3.5)), never_splits]
    assert common_range(both) == (0.5, 3.5)
    assert common_range([never_splits]) == (0.0, 1.0)
    assert common_range([(CategoryAxis("c", -1, ("a", "b"), -1), weights, None)]) is None


@pytest.mark.parametrize("limits", [(3, 1), (1, 1), (0, np.inf), (0, 1, 2)])
def test_wrong_limits_are_named(limits):
    with pytest.raises(ValueError, match=r"`limits` must be two numbers, the lower first, got \("):
        checked_limits(limits)
