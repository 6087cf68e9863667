from __future__ import annotations

import numpy as np
import pytest

from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.plot.axes import LINEAR, draw_axis
from treeanova.plot.scales import STRIP, Distribution, draw_category_distributions, draw_interval_distributions

plt = pytest.importorskip("matplotlib.pyplot")


def test_areas_share_one_scale():
    axis = IntervalAxis("a", 2, np.array([0.0]))
    _, ax = plt.subplots()
    both = [Distribution("u", axis, np.array([0.5, 0.25, 0.25]), "C0"), Distribution("v", axis, np.ones(3) / 3, "C1")]
    areas = draw_interval_distributions(ax, both, limits=(-1.0, 1.0), scale=LINEAR, extras=True)
    first, second = (area.get_data().values for area in areas)
    assert first.max() == pytest.approx(STRIP)
    assert first[0] / first[-1] == pytest.approx(2.0)
    assert second.max() / first.max() == pytest.approx((1 / 3) / 0.5)
    bars = [bar for container in ax.containers for bar in container]
    assert len(bars) == 2  # missing values, side by side
    assert bars[0].get_x() + bars[0].get_width() == pytest.approx(bars[1].get_x())


def test_bars_of_categories_are_side_by_side():
    axis = CategoryAxis("k", -1, ("x", "y"), -1)
    drawing = draw_axis(axis, np.array([0.5, 0.5]), order="given")
    _, ax = plt.subplots()
    both = [Distribution("u", axis, np.array([0.8, 0.2]), "C0"), Distribution("v", axis, np.array([0.4, 0.6]), "C1")]
    first, second = draw_category_distributions(ax, both, drawing)
    assert [bar.get_width() / STRIP for bar in first] == pytest.approx([1.0, 0.25])
    assert [bar.get_width() / STRIP for bar in second] == pytest.approx([0.5, 0.75])
    assert first[0].get_y() < second[0].get_y() < first[1].get_y()
