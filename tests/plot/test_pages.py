from __future__ import annotations

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot")

from treeanova import plot  # noqa: E402
from treeanova.plot.pages import checked_columns  # noqa: E402
from treeanova.testing.drawings import heat_map, step_curves, tick_places  # noqa: E402


def test_terms_without_a_table_are_listed(deep):
    table = deep.importance()
    ranks = {term: rank for rank, term in enumerate(table["term"], start=1)}
    triples = table[table["order"] == 3]
    first = triples["term"].iloc[0]
    assert first in tick_places(plot.importance(deep, k=100), "y")
    axes = plot.grid(deep, k=10)
    titles = [ax.get_title() for ax in axes]
    drawn = [term for term, order in zip(table["term"], table["order"], strict=True) if order < 3][:10]
    assert [title.split(".")[0] for title in titles] == [str(ranks[term]) for term in drawn]
    assert ranks[first] < ranks[drawn[-1]]  # so that the page has to say that it is left out
    share = 100 * triples["variance"].iloc[0]
    assert f"{first} {share:.{1 if share < 9.95 else 0}f} %" in axes[0].figure.get_supxlabel()
    for draw in (plot.effect, plot.pair):
        with pytest.raises(ValueError, match=r"got 3 \(.*\); .*terms of more features have no plot"):
            draw(deep, tuple(first.split(" × ")))


def test_a_page_has_the_strongest_terms_in_order(fx):
    found = fx.importance()
    axes = plot.grid(fx, k=5)
    assert len(axes) == 5
    for rank, (ax, row) in enumerate(zip(axes, found.itertuples(), strict=False), start=1):
        own = 100 * row.variance
        digits = 1 if own < 9.95 else 0
        assert ax.get_title() == f"{rank}. {row.term}   {own:.{digits}f} %"
    assert axes[0].figure.get_supylabel() == "change in prediction against the average"
    assert len(axes[0].figure.axes) == 5 + sum(
        mesh_.colorbar is not None for ax in axes for mesh_ in ax.collections[:1]
    )


def test_few_places_of_a_page_are_left_empty(fx):
    assert plot.grid(fx, k=5)[0].get_gridspec().ncols == 3
    columns = [checked_columns(None, n_panels) for n_panels in range(1, 13)]
    assert columns == [1, 2, 3, 4, 3, 3, 4, 4, 3, 4, 4, 4]


def test_a_page_of_given_terms_on_one_scale(fx):
    axes = plot.grid(fx, keys=["age", ("size", "age"), "colour"], same_scale=True, n_columns=1)
    largest = max(np.abs(fx.terms[key].values).max() for key in ("age", ("size", "age"), "colour"))
    assert heat_map(axes[1]).norm.vmax == pytest.approx(largest)
    assert axes[0].get_ylim()[1] == pytest.approx(1.12 * largest)
    assert axes[2].get_xlim()[1] == pytest.approx(1.12 * largest)


def test_a_page_of_classes_has_one_legend(three):
    axes = plot.grid(three, keys=["a", "c", ("a", "c")])
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["low", "mid", "top"]
    assert all(ax.get_legend() is None for ax in axes)
    assert len(step_curves(axes[0])) == 3


def test_pages_take_as_many_axes_as_terms(fx):
    _, given = plt.subplots(2, 2)
    assert list(plot.grid(fx, k=4, ax=given)) == list(given.flat)
    with pytest.raises(ValueError, match="`ax` must hold 3 Axes, got 4"):
        plot.grid(fx, k=3, ax=given)
