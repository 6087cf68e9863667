from __future__ import annotations

import re

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from matplotlib.collections import LineCollection

from tests.support.diamonds import diamonds_decomposition, labels_by_variance
from tests.support.drawings import tick_places
from treeanova import plot


def test_importance_draws_its_table(fx):
    found = fx.importance()
    ax = plot.importance(fx, k=100)
    (solid,) = ax.containers
    np.testing.assert_array_equal([bar.get_width() for bar in solid.patches], found["variance"])
    (lines,) = (collection for collection in ax.collections if isinstance(collection, LineCollection))
    ends = np.array([segment[:, 0] for segment in lines.get_segments()])
    np.testing.assert_allclose(ends, found[["variance", "share"]])
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


def test_plots_have_the_same_order_and_show_opposing_terms():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    fx, expected = diamonds_decomposition(), labels_by_variance()
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = plot.importance(fx, k=8)
    ax.figure.canvas.draw()
    assert [tick.get_text() for tick in ax.get_yticklabels()][:7] == expected[:7]
    row = expected.index("clarity")
    assert ax.containers[0].patches[row].get_width() > 0
    (dots,) = (line for line in ax.lines if line.get_marker() == "o")
    assert dots.get_xdata()[row] < 0
    words = [text.get_text() for text in ax.figure.legends[0].get_texts()]
    assert words == [
        "variance",
        "share (adds up to 100 %)",
        "below 0: cancels other terms",
    ]
    _, given = plt.subplots()
    assert plot.importance(fx, k=8, ax=given).get_legend() is not None
    titles = [panel.get_title("left") for panel in plot.grid(fx, k=6)]
    assert [re.fullmatch(r"\d+\. (.+?)   .*", title).group(1) for title in titles] == expected[:6]
    plt.close("all")


def label(ax):
    assert not any(line.startswith("%") for line in ax.get_xlabel().splitlines())
    return ax.get_xlabel().replace("\n", " ").replace("\u00a0", " ")


@pytest.mark.parametrize("k", [3, 100])
def test_the_axis_names_the_measure_and_what_bars_add_up_to(fx, k):
    total = round(100 * fx.importance()["variance"].sum())
    assert total != 100
    whole = "variance of the term, relative to that of the prediction"
    assert label(plot.importance(fx, k=k)) == f"{whole}; bars add up to {total} %"
    assert label(plot.importance(fx.with_density("uniform"), k=k)) == whole  # independent: they add up
    assert label(plot.importance(fx, by="feature")).startswith("variance of terms, shared equally by their features, ")


def test_the_denominator_of_a_selection_is_its_own_sum(fx):
    assert "relative to that of the sum of the terms that are left" in label(plot.importance(fx.select(order=1)))


def test_ticks_have_no_needless_digits(fx):
    ax = plot.importance(fx)
    ax.figure.canvas.draw()
    ticks = [tick.get_text() for tick in ax.get_xticklabels()]
    assert "0 %" in ticks
    assert not any(".0 %" in tick for tick in ticks)


@pytest.mark.parametrize("by", ["term", "feature"])
def test_a_remainder_is_not_counted_as_another_term_or_feature(fx, by):
    part = fx.truncate(1)
    names = part.importance(by)[by].tolist()
    last = list(tick_places(plot.importance(part, by=by, k=2), "y"))[-1]
    n_others = len(set(names[1:]) - {"remainder"})
    assert last == (f"{n_others} other {by}s and remainder" if "remainder" in names[1:] else f"{n_others} other {by}s")
    everything = list(tick_places(plot.importance(part, by=by, k=1), "y"))
    assert everything == [f"{len(names) - 1} other {by}s and remainder"]
