from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.plot.axes import GAP, draw_axis


def test_categories_with_unseen_and_missing():
    axis = CategoryAxis("c", 4, ("20-29", "< 20", "30+"), 3)
    weights = np.array([0.2, 0.1, 0.4, 0.0, 0.3])
    drawing = draw_axis(axis, weights)
    assert drawing.labels == ("< 20", "20-29", "30+", "", "missing")
    assert drawing.cells.tolist() == [1, 0, 2, GAP, 4]
    assert drawing.edges.tolist() == [0, 1, 2, 3, 3.5, 4.5]
    assert draw_axis(axis, weights, extras=True).labels[-2:] == ("unseen", "missing")


def test_rare_categories_share_a_cell_with_their_weighted_mean():
    axis = CategoryAxis("c", 4, ("20-29", "< 20", "30+"), 3)
    weights = np.array([0.2, 0.1, 0.4, 0.0, 0.3])
    values = np.array([1.0, 4.0, 2.0, 9.0, 5.0])
    drawing = draw_axis(axis, weights, max_bars=2)
    assert drawing.labels == ("30+", "2 others, mean", "", "missing")
    assert drawing.masses(weights).tolist() == pytest.approx([0.4, 0.3, 0, 0.3])
    np.testing.assert_allclose(drawing.values(values, weights), [2.0, (0.2 * 1 + 0.1 * 4) / 0.3, np.nan, 5.0])
    without_weight = np.array([0.0, 0.0, 0.4, 0.0, 0.6])
    assert drawing.values(values, without_weight)[1] == pytest.approx((1 + 4) / 2)


def test_an_axis_that_never_splits():
    drawing = draw_axis(IntervalAxis("x", -1, np.empty(0)), np.ones(1))
    assert drawing.cells.tolist() == [0]
    assert drawing.edges.tolist() == [0.0, 1.0]


def test_intervals_within_limits_and_missing_values_after_a_gap():
    axis = IntervalAxis("x", 4, np.array([1.0, 2.0, 3.0]))
    weights = np.array([0.1, 0.2, 0.3, 0.3, 0.1])
    drawing = draw_axis(axis, weights, limits=(1.5, 2.5))
    assert drawing.cells.tolist() == [1, 2, GAP, 4]
    assert drawing.edges[:3].tolist() == [1.5, 2.0, 2.5]
    assert drawing.labels == ("missing",)
    assert drawing.beyond == pytest.approx(0.1 + 0.2 + 0.3 + 0.3)  # no interval is drawn whole
    assert draw_axis(axis, weights, limits=(0.0, 4.0)).beyond == 0
    assert draw_axis(axis, weights, extras=False).cells.tolist() == [0, 1, 2, 3]


def test_the_weight_of_intervals_is_spread_evenly():
    axis = IntervalAxis("x", -1, np.array([1.0]))
    drawing = draw_axis(axis, np.array([0.6, 0.4]), limits=(0.0, 3.0))
    points = np.array([0.0, 0.5, 1.0, 2.0, 3.0])
    np.testing.assert_allclose(drawing.spread(np.array([0.6, 0.4]), points), [0.3, 0.3, 0.2, 0.2])
