from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from tests.support.drawings import heat_map, step_curves, tick_places
from tests.support.tables import COLOURS
from treeanova import plot


def test_a_category_and_a_number_are_lines(fx):
    ax = plot.pair(fx, ("colour", "age"))
    term = fx.terms["age", "colour"]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [name.partition(" ")[0] for name in names] == COLOURS
    n = len(COLOURS)
    assert (term.weights.T[:n].sum(axis=1) > 0).all()
    for curve, column, weights in zip(step_curves(ax), term.values.T[:n], term.weights.T[:n], strict=True):
        values = curve.get_data().values
        np.testing.assert_array_equal(values[weights > 0], column[weights > 0])
        assert np.isnan(values[weights == 0]).all()
    assert ax.get_legend().get_title().get_text() == "colour"
    heat = plot.pair(fx, ("age", "colour"), kind="heatmap")
    assert heat_map(heat).get_array().shape == (len(COLOURS), term.axes[0].n_regular)
    assert [label.partition(" ")[0] for label in tick_places(heat, "y")] == COLOURS
