"""pair(): which kind of drawing, which feature goes across, and the bins of the term itself."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tests.support.drawings import heat_map
from tests.support.models import terms_on_own_axes
from treeanova import plot
from treeanova.plot.pairs import is_drawn_as_lines, name_across


def test_a_category_and_a_number_are_lines_unless_a_heat_map_is_asked_for(fx):
    mixed, numbers = fx.terms["age", "colour"], fx.terms["size", "age"]
    assert [is_drawn_as_lines(mixed, kind) for kind in ("auto", "lines", "heatmap")] == [True, True, False]
    assert not is_drawn_as_lines(numbers, "auto")
    with pytest.raises(ValueError, match="`kind` must be 'heatmap' for two features of one kind, got 'lines'"):
        is_drawn_as_lines(numbers, "lines")
    with pytest.raises(ValueError, match="`kind` must be one of 'auto', 'heatmap', 'lines', got 'bars'"):
        is_drawn_as_lines(mixed, "bars")


def test_the_feature_named_first_goes_across(fx):
    term = fx.terms["size", "age"]
    assert name_across(("age", "size"), term) == "age"
    assert name_across(["size", "age"], term) == "size"
    assert name_across({"age", "size"}, term) == "size"  # a set has no order: that of the data
    assert plot.pair(fx, ("age", "size")).get_xlabel() == "age"


@pytest.mark.parametrize("limit", [0.0, -1.0, np.nan, np.inf])
def test_limits_that_are_no_positive_numbers_are_refused(fx, limit):
    with pytest.raises(ValueError, match="`limit` must be a number above zero, got"):
        plot.pair(fx, ("size", "age"), limit=limit)


def test_a_pair_on_axes_of_its_own_is_drawn_on_them():
    fx, _ = terms_on_own_axes()
    term = fx.terms["x", "y"]
    assert term.values.shape == (2, 2)
    drawn = heat_map(plot.pair(fx, ("x", "y")))
    np.testing.assert_array_equal(drawn.get_array().data, term.values.T)  # y upwards
    corners = drawn.get_coordinates()
    assert corners[0, 1:-1, 0].tolist() == [2.0]
    assert corners[1:-1, 0, 1].tolist() == [3.0]


def test_the_colour_bar_stays_beside_the_heat_map_after_a_tight_layout():
    plt = pytest.importorskip("matplotlib.pyplot")
    figure, axes = plt.subplots(1, 2, figsize=(9, 3))
    plot.pair(terms_on_own_axes()[0], ("x", "y"), ax=axes[1])
    figure.tight_layout()
    bar = next(ax for ax in figure.axes if ax not in axes)
    assert bar.get_position().x0 >= axes[1].get_position().x1
    plt.close(figure)


def unsure_cells(ax):
    """Cells that a veil covers, as a mask."""
    veil = next(part for part in ax.collections if part.get_label() == "_unsure")
    return ~np.ma.getmaskarray(veil.get_array())


def test_cells_within_two_standard_errors_of_zero_are_veiled(fx):
    term = fx.terms["size", "age"]
    errors = {term.features: np.full(term.values.shape, np.abs(term.values).max() / 4)}
    ax = plot.pair(fx, term.features, errors=errors, extras=False)
    drawn = heat_map(ax).get_array()
    expected = (np.abs(drawn.data) <= 2 * np.abs(term.values).max() / 4) & ~np.ma.getmaskarray(drawn)
    np.testing.assert_array_equal(unsure_cells(ax), expected)
    assert expected.any()
    assert not expected.all()
    assert "two standard errors of zero" in ax.figure.axes[-1].get_ylabel().replace("\n", " ")


def test_lines_are_thin_where_the_sign_is_uncertain(fx):
    term = fx.terms["age", "colour"]
    half = np.abs(term.values).max() / 2
    ax = plot.pair(fx, term.features, errors={term.features: np.full(term.values.shape, half / 2)})
    widths = {patch.get_linewidth() for patch in ax.patches if patch.get_label() == "_unsure"}
    assert widths == {0.8}
    thick = [patch for patch in ax.patches if patch.get_linewidth() == 1.8]
    for patch in thick:
        values = patch.get_data().values
        assert (np.abs(values[np.isfinite(values)]) > half).all()
    plain = plot.pair(fx, term.features)
    assert not [patch for patch in plain.patches if patch.get_label() == "_unsure"]


def test_errors_of_another_shape_are_refused(fx):
    with pytest.raises(ValueError, match="`errors` must have an array of shape"):
        plot.pair(fx, ("size", "age"), errors={("size", "age"): np.zeros(3)})
    with pytest.raises(TypeError, match=r"`errors` must be what fx.standard_errors\(\) returned, or a Bag, got int"):
        plot.pair(fx, ("size", "age"), errors=1)


def test_the_label_of_the_colour_bar_is_whole(long_names):
    """Labels of categories take height from the bar, along which its label is written."""
    data, fx = long_names
    figure = plot.pair(fx, ("_kind", data.columns[0]), kind="heatmap").figure
    figure.canvas.draw()
    (label,) = (ax.yaxis.label for ax in figure.axes if ax.get_label() == "<colorbar>")
    box = label.get_window_extent()
    assert label.get_text().replace("\n", " ") == "change in prediction against the average"
    assert box.y0 >= 0
    assert box.y1 <= figure.bbox.height
