from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from treeanova import plot
from treeanova.testing.drawings import tick_places


def test_importance_draws_its_table(fx):
    found = fx.importance()
    ax = plot.importance(fx, k=100)
    solid, hatched = ax.containers
    np.testing.assert_array_equal([bar.get_width() for bar in solid.patches], found["variance"])
    np.testing.assert_allclose([bar.get_width() for bar in hatched.patches], found["covariance"], atol=1e-15)
    starts = found["variance"].where(found["covariance"] >= 0, 0.0)
    np.testing.assert_array_equal([bar.get_x() for bar in hatched.patches], starts)
    (dots,) = (line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(dots.get_xdata(), found["share"])
    assert list(tick_places(ax, "y")) == list(found["term"])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first is on top


def test_what_importance_has_no_bar_for_is_in_the_last(fx):
    found = fx.importance()
    ax = plot.importance(fx, k=3)
    assert list(tick_places(ax, "y"))[-1] == f"{len(found) - 2} other terms"
    widths = [bar.get_width() for bar in ax.containers[0].patches]
    assert widths[-1] == pytest.approx(found["variance"][2:].sum())
    assert sum(widths) == pytest.approx(found["variance"].sum())


def test_importance_by_feature_and_output(fx, three):
    assert list(tick_places(plot.importance(fx, by="feature"), "y")) == list(fx.importance("feature")["feature"])
    found = three.importance()
    ax = plot.importance(three, output="top", k=100)
    widths = [bar.get_width() for bar in ax.containers[0].patches]
    np.testing.assert_array_equal(widths, found["variance"][found["output"] == "top"])
    assert "(top)" in ax.get_xlabel()
