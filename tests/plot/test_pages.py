from __future__ import annotations

import itertools

import numpy as np
import pytest

plt = pytest.importorskip("matplotlib.pyplot")

import treeanova  # noqa: E402
from tests.support.drawings import heat_map, step_curves, tick_places  # noqa: E402
from tests.support.training import fit  # noqa: E402
from treeanova import plot  # noqa: E402
from treeanova.plot.effects import checked_columns  # noqa: E402
from treeanova.views import percent  # noqa: E402


def test_terms_without_a_table_are_listed(deep):
    table = deep.importance()
    ranks = {term: rank for rank, term in enumerate(table["term"], start=1)}
    triples = table[table["order"] == 3]
    first = triples["term"].iloc[0]
    assert first in tick_places(plot.importance(deep, k=100), "y")
    axes = plot.grid(deep, k=10)
    titles = [ax.get_title("left") for ax in axes]
    drawn = [term for term, order in zip(table["term"], table["order"], strict=True) if order < 3][:10]
    assert [title.split(".")[0] for title in titles] == [str(ranks[term]) for term in drawn]
    assert ranks[first] < ranks[drawn[-1]]  # so that the page has to say that it is left out
    share = percent(triples["variance"].iloc[0])
    foot = axes[0].figure.get_supxlabel()
    assert f"{ranks[first]}. {first} ({share})" in foot  # the rank that is skipped
    assert foot.startswith("Titles: rank and variance of the term, relative to that of the prediction.\nNot drawn, ")
    for draw in (plot.effect, plot.pair):
        with pytest.raises(ValueError, match=r"got 3 \(.*\); .*terms of more features have no plot"):
            draw(deep, tuple(first.split(" × ")))


def test_a_page_has_the_strongest_terms_in_order(fx):
    found = fx.importance()
    axes = plot.grid(fx, k=5)
    assert len(axes) == 5
    for rank, (ax, row) in enumerate(zip(axes, found.itertuples(), strict=False), start=1):
        assert ax.get_title("left") == f"{rank}. {row.term}   {percent(row.variance)}"
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


def many_categories():
    """Two features with many long categories and a number, main effects and pairs of all, as tables."""
    rng = np.random.default_rng(0)
    jobs = [f"{word}-{place}" for word in ("machine-operator", "handler", "farmer", "clerk") for place in "abcd"]
    states = ["married-civilian", "never-married", "divorced", "married-spouse-absent"]
    pd = pytest.importorskip("pandas")
    xgboost = pytest.importorskip("xgboost")
    rows = pd.DataFrame(
        {
            "customer_lifetime_segment_first_label": pd.Categorical(rng.choice(jobs, 400)),
            "customer_lifetime_segment_second_label": pd.Categorical(rng.choice(states, 400)),
            "hours": rng.normal(size=400),
        }
    )
    codes = [rows.iloc[:, i].cat.codes for i in (0, 1)]
    target = codes[0] % 3 * (codes[1] + 1) + rows["hours"] * (codes[1] + codes[0] % 2)
    model = xgboost.XGBRegressor(n_estimators=20, max_depth=2, n_jobs=1, enable_categorical=True, max_cat_to_onehot=1)
    return treeanova.decompose(fit(model, rows, target), rows, density="empirical", n_jobs=1)


def test_panels_have_room_and_their_words_do_not_collide():
    axes = plot.grid(many_categories(), k=6)
    figure = axes[0].figure
    figure.canvas.draw()
    column = figure.bbox.width / axes[0].get_gridspec().ncols
    assert min(ax.bbox.width for ax in axes) > 0.42 * column
    renderer = figure.canvas.get_renderer()
    for ax in axes:
        boxes = [tick.get_window_extent(renderer) for tick in ax.get_yticklabels() if tick.get_text()]
        inside = sorted(boxes, key=lambda box: box.y0)
        assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(inside))
        drawn = [ax.title, ax._left_title, ax.xaxis.label, ax.yaxis.label]
        for box in (text.get_window_extent(renderer) for text in drawn if text.get_text()):
            assert box.x0 >= -1
            assert box.x1 <= figure.bbox.width + 1


def test_titles_keep_what_names_differ_in():
    titles = [ax.get_title("left") for ax in plot.grid(many_categories(), k=6)]
    assert len(set(titles)) == len(titles)
    pair = next(title for title in titles if title.count("…") >= 3)
    assert "first" in pair
    assert "second" in pair


def test_pairs_go_up_and_across_as_on_the_page():
    """The first feature goes across; a category goes up where the other is a number."""
    fx = many_categories()
    first, second, hours = fx.schema.names
    axes = plot.grid(fx, keys=[(first, second), (second, hours)])
    assert ["first" in axes[0].get_xlabel(), "second" in axes[0].get_ylabel()] == [True, True]
    assert [axes[1].get_xlabel(), "second" in axes[1].get_ylabel()] == ["hours", True]
    axes = plot.grid(fx, keys=[(second, first), (hours, second)])
    assert ["second" in axes[0].get_xlabel(), "first" in axes[0].get_ylabel()] == [True, True]
    assert [axes[1].get_xlabel(), "second" in axes[1].get_ylabel()] == ["hours", True]
