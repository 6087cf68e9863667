from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from treeanova.model.axes import IntervalAxis
from treeanova.plot.axes import draw_axis, scale_and_ends
from treeanova.plot.scales import short_number, spread_ticks


def ticks_of(kind, thresholds, weights, room):
    axis, weights = IntervalAxis("x", -1, np.array(thresholds, dtype=float)), np.array(weights, dtype=float)
    scale, limits = scale_and_ends(kind, [(axis, weights, None)], None, "x_scale")
    drawing = draw_axis(axis, weights, limits=limits, scale=scale)
    places = scale.forward(drawing.edges)
    ticks = spread_ticks(drawing, places[-1], room * (places[-1] - places[0]))
    assert (np.diff(scale.forward(np.array(ticks))) >= room * (places[-1] - places[0])).all()
    return ticks


def test_logarithmic_axes_have_powers_of_ten():
    assert ticks_of("log", [1, 10, 100, 1000], [0.2] * 5, 0.2) == [1, 10, 100, 1000]


def test_axes_by_quantile_have_one_round_number_per_interval():
    ticks = ticks_of("quantile", [20, 39.5, 40.5, 60], [0.2, 0.2, 0.4, 0.1, 0.1], 0.1)
    assert 40 in ticks
    assert [tick for tick in ticks if 39.5 < tick <= 40.5] == [40]
    assert all(tick == round(tick) for tick in ticks)


@pytest.mark.parametrize(
    ("number", "text"),
    [(0.0, "0"), (0.05, "0.05"), (200.0, "200"), (50_000.0, "50000"), (2e6, "2e6"), (-1e-5, "−1e−5"), (-3.5, "−3.5")],
)
def test_numbers_are_short(number, text):
    assert short_number(number) == text
