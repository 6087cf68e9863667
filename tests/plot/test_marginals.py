from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.patches import StepPatch

from treeanova import plot


def test_main_effects_beside_a_pair(fx):
    ax = plot.pair(fx, ("size", "age"), marginals=True)
    top, side = ax.child_axes
    for room, name in ((top, "size"), (side, "age")):
        drawn = next(patch for patch in room.patches if isinstance(patch, StepPatch)).get_data().values
        weights, values = fx.terms[name].weights, fx.terms[name].values
        shown = [b for b in range(len(values)) if b < fx.terms[name].axes[0].n_regular or weights[b] > 0]
        np.testing.assert_array_equal(drawn[~np.isnan(drawn)], values[shown])
    assert top.get_xlim() == ax.get_xlim()
    assert side.get_ylim() == ax.get_ylim()
