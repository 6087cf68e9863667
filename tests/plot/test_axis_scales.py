from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tests.support.drawings import step_curves
from treeanova import plot
from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.plot.axes import scale_and_ends


def entry(thresholds, weights, ends=None):
    return IntervalAxis("x", -1, np.array(thresholds, dtype=float)), np.array(weights, dtype=float), ends


@pytest.mark.parametrize("kind", ["linear", "log", "quantile"])
@pytest.mark.parametrize("thresholds", [[1.0, 10.0, 1000.0], [-5.0, 0.0, 5.0], [1e-35, 50.0, 9000.0]])
def test_scales_ascend_and_can_be_reversed(kind, thresholds):
    scale, (low, high) = scale_and_ends(kind, [entry(thresholds, [0.4, 0.3, 0.2, 0.1])], None, "x_scale")
    numbers = np.linspace(low, high, 50)
    places = scale.forward(numbers)
    assert (np.diff(places) > 0).all()
    np.testing.assert_allclose(scale.inverse(places), numbers, rtol=1e-9, atol=1e-9)


def test_logarithms_are_equal_steps():
    scale, (low, high) = scale_and_ends("log", [entry([1, 10, 100], [0.25] * 4)], None, "x_scale")
    steps = np.diff(scale.forward(np.array([1.0, 10.0, 100.0])))
    assert steps[0] == pytest.approx(steps[1])
    assert 0 < low < 1
    assert high > 100


def test_logarithms_with_zeros_are_linear_near_zero():
    scale, (low, _) = scale_and_ends("log", [entry([1e-35, 50, 9000], [0.9, 0.05, 0.03, 0.02], (0, 9500))], None, "x")
    small = np.diff(scale.forward(np.array([-2.0, -1.0, 0.0, 1.0, 2.0])))
    np.testing.assert_allclose(small, small[0], rtol=0.05)
    assert scale.forward(5000.0) - scale.forward(500.0) == pytest.approx(np.log(10), rel=0.1)
    assert low <= 0


def test_widths_by_quantile_are_shares_of_the_data(tailed):
    data, fx = tailed
    ax = plot.effect(fx, "a", x_scale="quantile")
    _, edges, _ = step_curves(ax)[0].get_data()
    counts = np.histogram(data["a"], [-np.inf, *fx.terms["a"].axes[0].thresholds, np.inf])[0]
    places = ax.transData.transform(np.column_stack([edges, np.zeros(len(edges))]))[:, 0]
    widths = np.diff(places) / (places[-1] - places[0])
    np.testing.assert_allclose(widths, 0.95 * counts / len(data) + 0.05 / len(counts), atol=1e-6)
    assert edges[-1] > fx.terms["a"].axes[0].thresholds[-1]  # the tail is there


@pytest.mark.parametrize("kind", ["log", "quantile"])
def test_steps_stay_at_the_thresholds(tailed, kind):
    fx = tailed[1]
    ax = plot.effect(fx, "a", x_scale=kind)
    values, edges, _ = step_curves(ax)[0].get_data()
    np.testing.assert_array_equal(edges[1:-1], fx.terms["a"].axes[0].thresholds)
    np.testing.assert_array_equal(values, fx.terms["a"].values)
    assert "data" in ax.get_xlabel() if kind == "quantile" else "(log scale)" in ax.get_xlabel()


def test_heat_maps_have_scales_too(tailed):
    fx = tailed[1]
    ax = plot.pair(fx, ("a", "b"), x_scale="quantile", y_scale="log", marginals=True)
    thresholds = fx.terms["a", "b"].axes[0].thresholds
    drawn = ax.collections[0].get_coordinates()[0, :, 0]
    np.testing.assert_array_equal(drawn[1:-1], thresholds)
    ax.figure.canvas.draw()
    top = ax.child_axes[0]
    assert top.get_xlim() == ax.get_xlim()
    x = np.column_stack([drawn, np.zeros(len(drawn))])
    np.testing.assert_allclose(top.transData.transform(x)[:, 0], ax.transData.transform(x)[:, 0])


def test_wrong_scales_are_refused():
    category = CategoryAxis("kind", -1, ("a", "b"), -1), np.full(2, 0.5), None
    day = IntervalAxis("day", -1, np.array([15_000.0]), "D"), np.full(2, 0.5), None
    with pytest.raises(ValueError, match="`x_scale` must be one of 'linear', 'log', 'quantile', got 'sqrt'"):
        scale_and_ends("sqrt", [category], None, "x_scale")
    with pytest.raises(ValueError, match="`y_scale` must be 'linear' for the categories of 'kind', got 'log'"):
        scale_and_ends("log", [category], None, "y_scale")
    with pytest.raises(ValueError, match="`x_scale` must be 'linear' or 'quantile' for the dates of 'day'"):
        scale_and_ends("log", [day], None, "x_scale")


def test_bars_have_no_scale_of_numbers(fx):
    with pytest.raises(ValueError, match="`x_scale` must be 'linear' for the categories of 'colour', got 'quantile'"):
        plot.effect(fx, "colour", x_scale="quantile")
