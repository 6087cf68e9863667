from __future__ import annotations

import numpy as np
import pytest

import treeanova

pytest.importorskip("matplotlib")
pytest.importorskip("pandas")

from matplotlib.collections import QuadMesh

from tests.support.drawings import heat_map, tick_places
from tests.support.tables import COLOURS, GRADES
from treeanova import plot


def test_a_pair_is_drawn_on_its_bins_and_cells_without_mass_are_left_out(three):
    ax = plot.pair(three, ("c", "a"), output="top")
    term, drawn = three.terms["a", "c"], heat_map(ax)
    values = drawn.get_array()
    np.testing.assert_array_equal(values.data, term.values[..., 2])  # a upwards, c across
    np.testing.assert_array_equal(np.ma.getmaskarray(values), term.weights == 0)
    assert 0 < np.ma.getmaskarray(values).mean() < 1
    corners = drawn.get_coordinates()
    np.testing.assert_array_equal(corners[0, 1:-1, 0], term.axes[1].thresholds)
    np.testing.assert_array_equal(corners[1:-1, 0, 1], term.axes[0].thresholds)
    assert (ax.get_xlabel(), ax.get_ylabel()) == ("c", "a")
    assert any(patch.get_hatch() for patch in ax.patches)


def test_pale_colours_lie_between_scattered_cells_with_data(fx):
    drawn = [part for part in plot.pair(fx, ("size", "age")).collections if isinstance(part, QuadMesh)]
    clear, pale = sorted(drawn, key=lambda part: part.get_zorder(), reverse=True)
    hidden, seen = (np.ma.getmaskarray(part.get_array()) for part in (pale, clear))
    term = fx.terms["size", "age"]
    n_up, n_across = term.axes[1].n_regular, term.axes[0].n_regular
    np.testing.assert_array_equal(hidden[:n_up, :n_across], (term.weights > 0).T[:n_up, :n_across])
    np.testing.assert_array_equal(seen[:n_up, :n_across], ~hidden[:n_up, :n_across])
    assert pale.get_alpha() < 0.5
    smooth = plot.pair(fx.with_density("independent"), ("size", "age"))
    assert len([part for part in smooth.collections if isinstance(part, QuadMesh)]) == 1


def test_colours_are_white_at_zero_and_the_range_is_written(three):
    ax = plot.pair(three, ("a", "c"))
    drawn = heat_map(ax)
    assert drawn.norm.vmin == -drawn.norm.vmax
    assert drawn.cmap(drawn.norm(0.0))[:3] == pytest.approx((1, 1, 1), abs=0.01)
    words = list(tick_places(drawn.colorbar.ax, "y"))
    ends = [signs + f"{drawn.norm.vmax / part:.3g}" for part, signs in ((1, "−"), (2, "−"), (2, "+"), (1, "+"))]
    assert words == [*ends[:2], "0", *ends[2:]]
    assert "(low)" in drawn.colorbar.ax.get_ylabel()
    assert drawn.norm.vmax <= np.abs(drawn.get_array()).max()
    assert (drawn.colorbar.extend == "both") == (np.abs(drawn.get_array()).max() > drawn.norm.vmax)
    fixed = plot.pair(three, ("a", "c"), limit=0.01, colorbar=False)
    assert heat_map(fixed).norm.vmax == 0.01
    assert heat_map(fixed).colorbar is None


def test_missing_values_of_a_pair_stand_apart(fx):
    ax = plot.pair(fx, ("size", "age"))
    values, term = heat_map(ax).get_array(), fx.terms["size", "age"]
    gap = np.ma.getmaskarray(values).all(axis=0)
    assert gap[-2]  # the column before the last is empty
    assert "missing" in tick_places(ax, "x")
    seen = term.weights[-1] > 0
    np.testing.assert_array_equal(values[: len(seen), -1][seen], term.values[-1][seen])


def test_two_categories_are_a_heat_map_with_numbers(fx):
    ax = plot.pair(fx, ("colour", "grade"))
    term = fx.terms["colour", "grade"]
    values = term.values[: len(COLOURS), : len(GRADES)].T
    np.testing.assert_array_equal(heat_map(ax).get_array().data, values)
    written = {
        (round(text.get_position()[0], 3), round(text.get_position()[1], 3)): float(text.get_text().replace("−", "-"))
        for text in ax.texts
    }
    for (i, j), value in np.ndenumerate(values):
        assert written[j + 0.5, i + 0.5] == pytest.approx(value, abs=0.05 * np.abs(values).max())
    assert [label.partition(" ")[0] for label in tick_places(ax, "x")] == COLOURS
    assert [label.partition(" ")[0] for label in tick_places(ax, "y")] == GRADES


def test_a_pair_of_zeros_says_so(three):
    nothing = treeanova.mean([three, three]) - three
    assert any(text.get_text() == "zero everywhere" for text in plot.pair(nothing, ("a", "c")).texts)
