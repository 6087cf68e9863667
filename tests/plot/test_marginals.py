from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.patches import StepPatch

from tests.support.drawings import heat_map
from tests.support.models import terms_on_own_axes
from treeanova import plot


def curve(inset):
    """Values and edges of the main effect that an inset shows."""
    values, edges, _ = next(patch for patch in inset.patches if isinstance(patch, StepPatch)).get_data()
    return values, edges


def test_main_effects_along_the_sides_of_a_pair(fx):
    ax = plot.pair(fx, ("size", "age"), marginals=True)
    top, side = ax.child_axes
    for inset, name in ((top, "size"), (side, "age")):
        drawn, _ = curve(inset)
        weights, values = fx.terms[name].weights, fx.terms[name].values
        shown = [b for b in range(len(values)) if b < fx.terms[name].axes[0].n_regular or weights[b] > 0]
        np.testing.assert_array_equal(drawn[~np.isnan(drawn)], values[shown])
    assert top.get_xlim() == ax.get_xlim()
    assert side.get_ylim() == ax.get_ylim()


def test_main_effects_have_axes_of_their_own():
    fx, _ = terms_on_own_axes()
    ax = plot.pair(fx, ("x", "y"), marginals=True)
    corners = heat_map(ax).get_coordinates()
    assert corners[0, 1:-1, 0].tolist() == [2.0]
    assert corners[1:-1, 0, 1].tolist() == [3.0]
    for inset, name, thresholds in zip(ax.child_axes, ("x", "y"), ([1.0, 2.0], [1.0, 2.0, 3.0]), strict=True):
        values, edges = curve(inset)
        assert edges[1:-1].tolist() == thresholds
        np.testing.assert_array_equal(values, fx.terms[name].values)


def test_a_feature_without_a_main_effect_is_drawn_at_zero(fx):
    top, _ = plot.pair(fx.select(order=2), ("size", "age"), marginals=True).child_axes
    values, _ = curve(top)
    assert set(values[~np.isnan(values)]) == {0.0}
