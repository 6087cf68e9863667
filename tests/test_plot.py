"""Plots against the tables that they draw: every test reads what is on the axes."""

from __future__ import annotations

import dataclasses
import importlib
import itertools
import sys

import numpy as np
import pytest

import treeanova
from treeanova.decomposition.decomposition import Decomposition
from treeanova.model.axes import CategoryAxis, IntervalAxis

mpl = pytest.importorskip("matplotlib")
mpl.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")
ensemble = pytest.importorskip("sklearn.ensemble")

from matplotlib.collections import QuadMesh  # noqa: E402  after the check that it is there
from matplotlib.colors import to_rgb  # noqa: E402
from matplotlib.patches import StepPatch  # noqa: E402
from matplotlib.text import Text  # noqa: E402

from treeanova import plot  # noqa: E402
from treeanova.plot.layout import GAP, OTHERS, layout_of  # noqa: E402
from treeanova.plot.pages import checked_columns  # noqa: E402

COLOURS = ["red", "green", "blue", "grey"]
GRADES = ["1", "2", "10"]
LONG = "the_median_income_of_all_households_in_the_block_group_$_and_year"


def table(n_rows=400, seed=0):
    rng = np.random.default_rng(seed)
    X = pd.DataFrame({"size": rng.normal(size=n_rows), "age": rng.normal(50, 10, size=n_rows)})
    X["colour"] = pd.Categorical(rng.choice(COLOURS, n_rows, p=[0.5, 0.3, 0.15, 0.05]), categories=COLOURS)
    X["grade"] = pd.Categorical(rng.choice(GRADES, n_rows), categories=GRADES)
    X.loc[rng.random(n_rows) < 0.2, "size"] = np.nan
    return X


def response(X):
    size, age = X["size"].fillna(2).to_numpy(), (X["age"].to_numpy() - 50) / 10
    warm, top = (X["colour"] == "red").to_numpy(), (X["grade"] == "10").to_numpy()
    return size * age + 2 * warm * age + 1.5 * (warm & top) + size * top + X["colour"].cat.codes.to_numpy() * 0.7


X = table()


@pytest.fixture(scope="module")
def model():
    options = {"n_estimators": 40, "max_depth": 2, "enable_categorical": True, "max_cat_to_onehot": 1, "n_jobs": 1}
    return xgboost.XGBRegressor(learning_rate=0.3, **options).fit(X, response(X))


@pytest.fixture(scope="module")
def fx(model):
    return treeanova.decompose(model, X, density="empirical", n_jobs=1)


@pytest.fixture(scope="module")
def three():
    rng = np.random.default_rng(1)
    data = pd.DataFrame(rng.normal(size=(200, 3)), columns=["a", "b", "c"])
    classes = np.array(["low", "mid", "top"])[np.digitize(data["a"] * data["b"] + data["c"], [-0.5, 0.5])]
    model = ensemble.GradientBoostingClassifier(n_estimators=6, max_depth=2, random_state=0).fit(data, classes)
    return treeanova.decompose(model, data, density="empirical", n_jobs=1)


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


def steps(ax, *, filled=False):
    """Step curves drawn, without the strip of data."""
    found = [patch for patch in ax.patches if isinstance(patch, StepPatch)]
    return [patch for patch in found if patch.get_fill() == filled and not patch.get_label().startswith("_")]


def strip(ax):
    return next(patch for patch in ax.patches if isinstance(patch, StepPatch) and patch.get_label() == "_data")


def bars(ax):
    """Widths of bars by the label of their tick, without the strip of data."""
    names = {
        round(tick, 6): label.get_text() for tick, label in zip(ax.get_yticks(), ax.get_yticklabels(), strict=True)
    }
    container = next(c for c in ax.containers if c.get_label() != "_data" and hasattr(c, "patches"))
    return {names[round(bar.get_y() + bar.get_height() / 2, 6)]: bar.get_width() for bar in container.patches}


def mesh(ax):
    return next(part for part in ax.collections if isinstance(part, QuadMesh))


def rows_of(fx, key):
    return pd.DataFrame(fx.table(key))


def ticks(ax, which):
    places, labels = getattr(ax, f"get_{which}ticks")(), getattr(ax, f"get_{which}ticklabels")()
    return {label.get_text(): float(place) for place, label in zip(places, labels, strict=True)}


# Main effects.


def test_steps_are_at_the_bounds_of_the_table(fx):
    ax = plot.effect(fx, "age")
    values, edges, _ = steps(ax)[0].get_data()
    found = rows_of(fx, "age")
    found = found[found["age_low"].notna()]
    np.testing.assert_array_equal(values, found["value"])
    np.testing.assert_array_equal(edges[1:-1], found["age_low"][1:])
    assert np.isfinite(edges).all()
    assert edges[0] < edges[1]
    assert edges[-2] < edges[-1]
    assert ax.get_xlabel() == "age"
    assert ax.get_ylabel().replace("\n", " ") == "change in prediction against the average"


def test_the_strip_spreads_the_weights_of_bins_evenly(fx):
    ax = plot.effect(fx, "age", data=True)
    heights, edges, _ = strip(ax).get_data()
    low, high = edges[0], edges[-1]
    found = rows_of(fx, "age").dropna()
    expected = np.zeros(len(heights))
    for start, end, weight in zip(
        found["age_low"].clip(low), found["age_high"].clip(None, high), found["weight"], strict=True
    ):
        overlap = np.minimum(edges[1:], end) - np.maximum(edges[:-1], start)
        expected += weight * np.maximum(overlap, 0) / (end - start)
    assert expected.sum() == pytest.approx(1)
    np.testing.assert_allclose(heights / heights.max(), expected / expected.max(), atol=1e-12)
    assert heights.max() < 0.2
    low_value, _ = ax.get_ylim()
    lowest = np.nanmin(steps(ax)[0].get_data().values)
    bottom = (lowest - low_value) / np.diff(ax.get_ylim())[0]
    assert bottom > heights.max()  # curves do not touch the strip
    assert not [p for p in plot.effect(fx, "age", data=False).patches if p.get_label() == "_data"]


def test_missing_values_stand_apart_with_their_share(fx):
    ax = plot.effect(fx, "size")
    values, edges, _ = steps(ax)[0].get_data()
    found = rows_of(fx, "size").set_index("size")
    (word,) = (label for label in ticks(ax, "x") if label.startswith("missing"))
    assert word == f"missing\n{100 * X['size'].isna().mean():.0f} %"
    place = ticks(ax, "x")[word]
    cell = int(np.searchsorted(edges, place)) - 1
    assert values[cell] == found.loc["missing", "value"]
    assert np.isnan(values[cell - 1])  # a gap lies before it
    assert [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"] == [[place, values[cell]]]
    numbers = [place_ for label, place_ in ticks(ax, "x").items() if label != word]
    assert max(numbers) < edges[cell - 1]


def test_extras_are_shown_on_request_or_left_out(fx):
    assert not any(label.startswith("missing") for label in ticks(plot.effect(fx, "size", extras=False), "x"))
    assert "unseen" not in ticks(plot.effect(fx, "colour"), "y")
    shown = plot.effect(fx, "colour", extras=True)
    labels = fx.terms["colour"].axes[0].labels
    assert set(bars(shown)) == set(labels)
    assert list(bars(shown))[len(COLOURS) :] == list(labels[len(COLOURS) :])  # apart, at the end


@pytest.fixture(scope="module")
def tailed():
    rng = np.random.default_rng(3)
    data = pd.DataFrame({"a": np.append(rng.normal(size=996), [50.0, 60.0, 70.0, 80.0]), "b": rng.normal(size=1000)})
    target = np.tanh(data["a"]) + (data["a"] > 65) * 3 + data["b"] * (data["a"] > 0)
    fitted = xgboost.XGBRegressor(n_estimators=30, max_depth=2, n_jobs=1, tree_method="exact").fit(data, target)
    return data, treeanova.decompose(fitted, data, density="empirical", n_jobs=1)


def test_long_tails_without_data_are_cut_and_the_axis_says_so(tailed):
    data, fx = tailed
    assert fx.terms["a"].axes[0].bounds[-1] > 20
    ax = plot.effect(fx, "a")
    low, high = ax.get_xlim()
    assert high < 20
    name, note = ax.get_xlabel().split("\n")
    share = float(note.removeprefix("(at most ").split(" %")[0]) / 100
    assert name == "a"
    found = rows_of(fx, "a").dropna()
    cut = (found["a_low"] < low) & np.isfinite(found["a_low"]) | (found["a_high"] > high) & np.isfinite(found["a_high"])
    outer = (found["a_low"] >= high) | (found["a_high"] <= low)
    assert share == pytest.approx(found["weight"][cut | outer].sum(), abs=1e-3)
    assert share >= ((data["a"] > high) | (data["a"] < low)).mean()
    whole = plot.effect(fx, "a", limits=(-5, 100))
    assert whole.get_xlim() == (-5, 100)
    assert whole.get_xlabel() == "a"
    np.testing.assert_array_equal(
        steps(whole)[0].get_data().values, fx.terms["a"].values[: fx.terms["a"].axes[0].n_regular]
    )


def test_limits_cut_bins(fx):
    bounds = fx.terms["age"].axes[0].bounds
    low, high = float(bounds[3] + bounds[4]) / 2, float(bounds[-3])
    values, edges, _ = steps(plot.effect(fx, "age", limits=(low, high)))[0].get_data()
    np.testing.assert_array_equal(edges, [low, *bounds[4:-3], high])
    np.testing.assert_array_equal(values, fx.terms["age"].values[4 : 4 + len(values)])


def test_categories_are_bars_sorted_by_value_or_number(fx):
    found = rows_of(fx, "colour").set_index("colour")["value"]
    drawn = bars(plot.effect(fx, "colour"))
    expected = found.filter(regex="|".join(COLOURS)).sort_values(ascending=False)
    assert drawn == expected.to_dict()
    assert list(drawn) == list(expected.index)
    assert [label.partition(" ")[0] for label in bars(plot.effect(fx, "grade"))] == GRADES
    assert [label.partition(" ")[0] for label in bars(plot.effect(fx, "colour", order="given"))] == COLOURS
    by_weight = [label.partition(" ")[0] for label in bars(plot.effect(fx, "colour", order="weight"))]
    assert by_weight == list(X["colour"].value_counts().index)
    assert plot.effect(fx, "colour").yaxis_inverted()  # the first is on top


def test_rare_categories_share_a_bar(fx):
    found = rows_of(fx, "colour").set_index("colour")
    rare = found.filter(regex="blue|grey", axis=0)
    drawn = bars(plot.effect(fx, "colour", max_bars=3))
    assert len(drawn) == 3
    assert drawn["2 others, mean"] == pytest.approx((rare["value"] * rare["weight"]).sum() / rare["weight"].sum())


def test_the_strip_of_categories_has_their_weights(fx):
    ax = plot.effect(fx, "colour")
    (container,) = (c for c in ax.containers if c.get_label() == "_data")
    widths = np.array([bar.get_width() for bar in container.patches])
    names = [label.partition(" ")[0] for label in bars(ax)]
    shares = X["colour"].value_counts(normalize=True)[names].to_numpy()
    np.testing.assert_allclose(widths / widths.sum(), shares)


def test_categories_without_weight_are_hatched(model):
    seen = X[X["colour"] != "grey"]
    ax = plot.effect(treeanova.decompose(model, seen, density="empirical", n_jobs=1), "colour")
    hatched = {bar.get_width() for bar in ax.containers[0].patches if bar.get_hatch()}
    assert hatched == {width for name, width in bars(ax).items() if name.startswith("grey")}


def test_errors_are_a_band_of_two_standard_errors(fx):
    errors = fx.standard_errors(3)
    values, _, _ = steps(plot.effect(fx, "age", errors=errors))[0].get_data()
    upper, _, lower = steps(plot.effect(fx, "age", errors=errors), filled=True)[0].get_data()
    deviation = errors["age",][: len(values)]
    assert deviation.max() > 0
    np.testing.assert_allclose(upper - values, 2 * deviation)
    np.testing.assert_allclose(values - lower, 2 * deviation)
    whiskers = plot.effect(fx, "colour", errors=errors).containers
    assert any(hasattr(container, "has_xerr") and container.has_xerr for container in whiskers)
    with pytest.raises(TypeError, match=r"`errors` must be what fx.standard_errors\(\) returned, got float"):
        plot.effect(fx, "age", errors=0.1)
    with pytest.raises(ValueError, match="`errors` must have the term 'age' on the same bins"):
        plot.effect(fx, "age", errors={("age",): np.zeros(2)})


def test_all_classes_are_in_one_frame_unless_one_is_named(three):
    ax = plot.effect(three, "c")
    term = three.terms["c"]
    for curve, expected in zip(steps(ax), term.values.T, strict=True):
        np.testing.assert_array_equal(curve.get_data().values, expected[: term.axes[0].n_regular])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["low", "mid", "top"]
    for output in ("mid", 1, -2):
        one = plot.effect(three, "c", output=output)
        np.testing.assert_array_equal(steps(one)[0].get_data().values, term.values[: term.axes[0].n_regular, 1])
        assert "(mid)" in one.get_ylabel()
        assert one.get_legend() is None


# Pairs.


def test_a_pair_is_drawn_on_its_bins_and_cells_without_mass_are_left_out(three):
    ax = plot.pair(three, ("c", "a"), output="top")
    term, drawn = three.terms["a", "c"], mesh(ax)
    values = drawn.get_array()
    np.testing.assert_array_equal(values.data, term.values[..., 2])  # a upwards, c across
    np.testing.assert_array_equal(np.ma.getmaskarray(values), term.weights == 0)
    assert 0 < np.ma.getmaskarray(values).mean() < 1
    corners = drawn.get_coordinates()
    np.testing.assert_array_equal(corners[0, 1:-1, 0], term.axes[1].bounds)
    np.testing.assert_array_equal(corners[1:-1, 0, 1], term.axes[0].bounds)
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
    drawn = mesh(ax)
    assert drawn.norm.vmin == -drawn.norm.vmax
    assert drawn.cmap(drawn.norm(0.0))[:3] == pytest.approx((1, 1, 1), abs=0.01)
    words = list(ticks(drawn.colorbar.ax, "y"))
    assert words == [f"−{drawn.norm.vmax:.3g}", "0", f"+{drawn.norm.vmax:.3g}"]
    assert "(low)" in drawn.colorbar.ax.get_ylabel()
    assert drawn.norm.vmax <= np.abs(drawn.get_array()).max()
    assert (drawn.colorbar.extend == "both") == (np.abs(drawn.get_array()).max() > drawn.norm.vmax)
    fixed = plot.pair(three, ("a", "c"), limit=0.01, colorbar=False)
    assert mesh(fixed).norm.vmax == 0.01
    assert mesh(fixed).colorbar is None


def test_missing_values_of_a_pair_stand_apart(fx):
    ax = plot.pair(fx, ("size", "age"))
    values, term = mesh(ax).get_array(), fx.terms["size", "age"]
    gap = np.ma.getmaskarray(values).all(axis=0)
    assert gap[-2]  # the column before the last is empty
    assert "missing" in ticks(ax, "x")
    seen = term.weights[-1] > 0
    np.testing.assert_array_equal(values[: len(seen), -1][seen], term.values[-1][seen])


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


def test_a_category_and_a_number_are_lines(fx):
    ax = plot.pair(fx, ("colour", "age"))
    term = fx.terms["age", "colour"]
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert [name.partition(" ")[0] for name in names] == COLOURS
    n = len(COLOURS)
    assert (term.weights.T[:n].sum(axis=1) > 0).all()
    for curve, column, weights in zip(steps(ax), term.values.T[:n], term.weights.T[:n], strict=True):
        values = curve.get_data().values
        np.testing.assert_array_equal(values[weights > 0], column[weights > 0])
        assert np.isnan(values[weights == 0]).all()
    assert ax.get_legend().get_title().get_text() == "colour"
    heat = plot.pair(fx, ("age", "colour"), kind="heatmap")
    assert mesh(heat).get_array().shape == (len(COLOURS), term.axes[0].n_regular)
    assert [label.partition(" ")[0] for label in ticks(heat, "y")] == COLOURS


def test_two_categories_are_a_heat_map_with_numbers(fx):
    ax = plot.pair(fx, ("colour", "grade"))
    term = fx.terms["colour", "grade"]
    values = term.values[: len(COLOURS), : len(GRADES)].T
    np.testing.assert_array_equal(mesh(ax).get_array().data, values)
    written = {
        (round(text.get_position()[0], 3), round(text.get_position()[1], 3)): float(text.get_text().replace("−", "-"))
        for text in ax.texts
    }
    for (i, j), value in np.ndenumerate(values):
        assert written[j + 0.5, i + 0.5] == pytest.approx(value, abs=0.05 * np.abs(values).max())
    assert [label.partition(" ")[0] for label in ticks(ax, "x")] == COLOURS
    assert [label.partition(" ")[0] for label in ticks(ax, "y")] == GRADES


def test_a_pair_of_zeros_says_so(three):
    nothing = treeanova.mean([three, three]) - three
    assert any(text.get_text() == "zero everywhere" for text in plot.pair(nothing, ("a", "c")).texts)


# Importance.


def test_importance_draws_its_table(fx):
    found = fx.importance()
    ax = plot.importance(fx, k=100)
    solid, hatched = ax.containers
    np.testing.assert_array_equal([bar.get_width() for bar in solid.patches], found["variance"])
    np.testing.assert_allclose([bar.get_width() for bar in hatched.patches], found["covariance"], atol=1e-15)
    starts = found["variance"].where(found["covariance"] >= 0, 0.0)
    np.testing.assert_array_equal([bar.get_x() for bar in hatched.patches], starts)
    (dots,) = (line for line in ax.lines if line.get_marker() == "o")
    np.testing.assert_allclose(dots.get_xdata(), found["share"])
    assert list(ticks(ax, "y")) == list(found["term"])
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # the first is on top


def test_what_importance_has_no_bar_for_is_in_the_last(fx):
    found = fx.importance()
    ax = plot.importance(fx, k=3)
    assert list(ticks(ax, "y"))[-1] == f"{len(found) - 2} other terms"
    widths = [bar.get_width() for bar in ax.containers[0].patches]
    assert widths[-1] == pytest.approx(found["variance"][2:].sum())
    assert sum(widths) == pytest.approx(found["variance"].sum())


def test_importance_by_feature_and_output(fx, three):
    assert list(ticks(plot.importance(fx, by="feature"), "y")) == list(fx.importance("feature")["feature"])
    found = three.importance()
    ax = plot.importance(three, output="top", k=100)
    widths = [bar.get_width() for bar in ax.containers[0].patches]
    np.testing.assert_array_equal(widths, found["variance"][found["output"] == "top"])
    assert "(top)" in ax.get_xlabel()


class Deep(Decomposition):
    """A decomposition whose table of importance has terms without a tensor."""

    def importance(self, by="term"):
        found = super().importance(by)
        if by == "term":
            found.loc[1.5] = ["size × age × colour", 3, 0.2, 0.0, 0.2, 0.1]
            found = found.sort_index().reset_index(drop=True)
        return found


@pytest.fixture
def deep(fx):
    return Deep(**{field.name: getattr(fx, field.name) for field in dataclasses.fields(fx)})


def test_terms_without_a_table_are_listed(deep):
    assert "size × age × colour" in ticks(plot.importance(deep), "y")
    axes = plot.grid(deep, k=4)
    titles = [ax.get_title() for ax in axes]
    assert [title.split(".")[0] for title in titles] == ["1", "2", "4", "5"]
    assert "size × age × colour 20 %" in axes[0].figure.get_supxlabel()
    for draw in (plot.effect, plot.pair):
        with pytest.raises(ValueError, match=r"got 3 \(size × age × colour\); .*terms of more have no plot"):
            draw(deep, ("size", "age", "colour"))


# One row.


def test_a_waterfall_leads_from_the_intercept_to_the_prediction(model, fx):
    row = X.iloc[[5]]
    ax = plot.waterfall(fx, row, k=100)
    values = fx.explain(row).values[0]
    widths = np.array([bar.get_width() for bar in ax.containers[0].patches])
    starts = np.array([bar.get_x() for bar in ax.containers[0].patches])
    np.testing.assert_allclose(widths, sorted(values, key=lambda value: -abs(value)), atol=1e-12)
    assert starts[0] == fx.intercept
    np.testing.assert_allclose(starts[1:], (starts + widths)[:-1])
    predicted = float(model.predict(row)[0])
    assert starts[-1] + widths[-1] == pytest.approx(predicted, abs=1e-5)
    assert f"this row {predicted:.4g}".replace(" -", " −") in ax.get_xlabel().replace("\n", " ")


def test_a_waterfall_of_few_bars_still_adds_up(fx):
    ax = plot.waterfall(fx, X.iloc[[5]], k=3)
    widths = [bar.get_width() for bar in ax.containers[0].patches]
    assert len(widths) == 3
    assert sum(widths) + fx.intercept == pytest.approx(fx.decision_function(X.iloc[[5]])[0])
    assert list(ticks(ax, "y"))[-1] == f"{len(fx.terms) - 2} other terms"


def test_a_waterfall_names_the_values_of_the_row(fx):
    row = X.iloc[[5]].assign(size=np.nan, age=61.234, colour=pd.Categorical(["blue"], categories=COLOURS))
    names = list(ticks(plot.waterfall(fx, row, k=100), "y"))
    assert "size = missing" in names
    assert "age = 61.23" in names
    assert "colour = blue" in names
    assert "size = missing × age = 61.23" in names


def test_a_row_may_be_anything_that_holds_one(fx, three):
    def widths(row, fx=fx):
        return [bar.get_width() for bar in plot.waterfall(fx, row).containers[0].patches]

    expected = widths(X.iloc[[5]])
    assert widths(X.iloc[5]) == expected
    assert widths(X.iloc[5].to_dict()) == expected
    numbers = [0.3, -0.2, 1.0]
    expected = widths(np.array([numbers]), three)
    for row in (numbers, np.array(numbers), [numbers], pd.DataFrame([numbers], columns=["a", "b", "c"])):
        assert widths(row, three) == expected
    with pytest.raises(ValueError, match=r"`row` must be one row, got 2; pass X.iloc\[\[i\]\]"):
        plot.waterfall(fx, X.iloc[:2])


def test_a_waterfall_of_one_class(three):
    row = np.array([[0.3, -0.2, 1.0]])
    ax = plot.waterfall(three, row, output="top", k=100)
    total = sum(bar.get_width() for bar in ax.containers[0].patches) + three.intercept[2]
    assert total == pytest.approx(three.decision_function(row)[0, 2])


def test_a_waterfall_tells_the_probability():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(100, 2))
    model = ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=2).fit(data, data[:, 0] > 0)
    words = (
        plot.waterfall(treeanova.decompose(model, data, density="empirical", n_jobs=1), data[:1])
        .get_xlabel()
        .replace("\n", " ")
    )
    assert f"(probability {model.predict_proba(data[:1])[0, 1]:.3g})" in words
    assert words.startswith("log-odds: average")


# Several decompositions, and pages.


def test_compare_draws_each_main_effect(fx):
    ax = plot.compare({"raw": fx.raw, "pure": fx}, "age")
    raw, pure = (patch.get_data().values for patch in steps(ax))
    n_intervals = fx.terms["age"].axes[0].n_regular
    np.testing.assert_array_equal(pure, fx.terms["age"].values[:n_intervals])
    expected = fx.raw.terms["age"].values[:n_intervals] if ("age",) in fx.raw.terms else np.zeros(n_intervals)
    np.testing.assert_array_equal(raw, expected)
    assert [text.get_text().partition(":")[0] for text in ax.get_legend().get_texts()] == ["raw", "pure"]


def test_compare_draws_categories_side_by_side_and_lacking_terms_at_zero(fx):
    ax = plot.compare([fx.drop("colour"), fx.with_density("uniform"), fx], "colour")
    names = [text.get_text() for text in ax.get_legend().get_texts()]
    assert names[0].endswith(": no such term")
    assert names[1:] == ["uniform", "empirical (2)"]
    groups = [c for c in ax.containers if c.get_label() != "_data"]
    first = next(i for i, name in enumerate(ticks(ax, "y")) if name.startswith("red"))
    red = COLOURS.index("red")
    heights = [group.patches[first].get_width() for group in groups]
    uniform = fx.with_density("uniform").terms["colour"].values
    assert heights == pytest.approx([0, uniform[red], fx.terms["colour"].values[red]])
    tops = [group.patches[first].get_y() for group in groups]
    assert tops == sorted(tops)


def test_compare_of_models_with_other_bins(fx, tailed, three):
    other = xgboost.XGBRegressor(n_estimators=10, max_depth=2, enable_categorical=True, n_jobs=1)
    other = treeanova.decompose(other.fit(X, -response(X)), X, density="empirical", n_jobs=1)
    ax = plot.compare({"a": fx, "b": other}, "age")
    for patch, one in zip(steps(ax), (fx, other), strict=True):
        values, edges, _ = patch.get_data()
        np.testing.assert_array_equal(edges[1:-1], one.terms["age"].axes[0].bounds)
        np.testing.assert_array_equal(values, one.terms["age"].values[: len(values)])
    with pytest.raises(ValueError, match="`decompositions` must have the same outputs and link"):
        plot.compare([fx, three], "a")


def test_compare_of_pairs_has_one_scale(fx):
    axes = plot.compare({"raw": fx.raw, "pure": fx}, ("size", "age"))
    assert axes.shape == (2,)
    assert [ax.get_title() for ax in axes] == ["raw", "pure"]
    first, second = map(mesh, axes)
    assert first.norm.vmax == second.norm.vmax == -first.norm.vmin
    term = fx.raw.terms["size", "age"]
    n_up, n_across = term.axes[1].n_regular, term.axes[0].n_regular
    np.testing.assert_array_equal(first.get_array().data[:n_up, :n_across], term.values.T[:n_up, :n_across])
    assert axes[0].get_xlim() == axes[1].get_xlim()
    _, given = plt.subplots(1, 2)
    assert list(plot.compare([fx.raw, fx], ("size", "age"), ax=given)) == list(given)
    assert [ax.get_title() for ax in given] == ["raw", "empirical"]


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
    assert mesh(axes[1]).norm.vmax == pytest.approx(largest)
    assert axes[0].get_ylim()[1] == pytest.approx(1.12 * largest)
    assert axes[2].get_xlim()[1] == pytest.approx(1.12 * largest)


def test_a_page_of_classes_has_one_legend(three):
    axes = plot.grid(three, keys=["a", "c", ("a", "c")])
    (legend,) = axes[0].figure.legends
    assert [text.get_text() for text in legend.get_texts()] == ["low", "mid", "top"]
    assert all(ax.get_legend() is None for ax in axes)
    assert len(steps(axes[0])) == 3


# Axes in, axes out; any style; any name.

EACH = {
    "effect": lambda fx, **options: plot.effect(fx, "size", **options),
    "bars": lambda fx, **options: plot.effect(fx, "colour", **options),
    "pair": lambda fx, **options: plot.pair(fx, ("size", "age"), **options),
    "lines": lambda fx, **options: plot.pair(fx, ("age", "colour"), **options),
    "importance": plot.importance,
    "waterfall": lambda fx, **options: plot.waterfall(fx, X.iloc[[3]], **options),
    "compare": lambda fx, **options: plot.compare([fx.raw, fx], "age", **options),
}


@pytest.mark.parametrize("name", EACH)
def test_axes_in_axes_out(fx, name):
    figure, (left, right) = plt.subplots(1, 2)
    assert EACH[name](fx, ax=right) is right
    assert plt.get_fignums() == [figure.number]
    assert not left.has_data()
    with pytest.raises(TypeError, match="`ax` must be matplotlib Axes, got str"):
        EACH[name](fx, ax="right")


def test_pages_take_as_many_axes_as_terms(fx):
    _, given = plt.subplots(2, 2)
    assert list(plot.grid(fx, k=4, ax=given)) == list(given.flat)
    with pytest.raises(ValueError, match="`ax` must hold 3 Axes, got 4"):
        plot.grid(fx, k=3, ax=given)


def luminance(colour):
    """Relative luminance as the rules for accessible pages define it."""
    parts = [c / 12.92 if c <= 0.03928 else ((c + 0.055) / 1.055) ** 2.4 for c in to_rgb(colour)]
    return float(np.dot(parts, [0.2126, 0.7152, 0.0722]))


@pytest.mark.parametrize("style", ["default", "dark_background"])
def test_curves_and_words_stand_out_from_the_background(fx, three, style):
    with plt.style.context(style):
        back = luminance(mpl.rcParams["axes.facecolor"])
        drawn = [patch.get_edgecolor() for patch in steps(plot.effect(fx, "age")) + steps(plot.effect(three, "c"))]
        drawn += [bar.get_facecolor() for bar in plot.effect(fx, "colour").containers[0].patches]
        drawn += [bar.get_facecolor() for bar in plot.waterfall(fx, X.iloc[[3]]).containers[0].patches]
        drawn += [text.get_color() for name in EACH for text in words_of(EACH[name](fx))]
        for colour in drawn:
            light, dark = sorted([luminance(colour), back], reverse=True)
            assert (light + 0.05) / (dark + 0.05) > 3


def words_of(ax):
    return [text for text in ax.findobj(Text) if text.get_text() and text.get_visible()]


@pytest.fixture(scope="module")
def long_names():
    rng = np.random.default_rng(0)
    data = pd.DataFrame({LONG: rng.normal(size=300), f"{LONG} too": rng.normal(size=300)})
    labels = [f"category $ number {i} of a list that is long" for i in range(60)]
    data["_kind"] = pd.Categorical(rng.choice(labels, 300), categories=labels)
    target = data[LONG] * data[f"{LONG} too"] + data["_kind"].cat.codes.to_numpy() / 10
    options = {"n_estimators": 30, "max_depth": 2, "enable_categorical": True, "max_cat_to_onehot": 1, "n_jobs": 1}
    fitted = xgboost.XGBRegressor(**options).fit(data, target + (data["_kind"].cat.codes % 7) * data[LONG])
    return data, treeanova.decompose(fitted, data, density="empirical", n_jobs=1)


LONG_PLOTS = {
    "effect": lambda fx, data: plot.effect(fx, LONG),
    "pair": lambda fx, data: plot.pair(fx, (LONG, f"{LONG} too"), marginals=True),
    "lines": lambda fx, data: plot.pair(fx, (LONG, "_kind")),
    "heatmap": lambda fx, data: plot.pair(fx, (LONG, "_kind"), kind="heatmap"),
    "bars": lambda fx, data: plot.effect(fx, "_kind"),
    "importance": lambda fx, data: plot.importance(fx),
    "waterfall": lambda fx, data: plot.waterfall(fx, data.iloc[[0]]),
    "grid": lambda fx, data: plot.grid(fx, k=5)[0],
}


@pytest.mark.parametrize("name", LONG_PLOTS)
def test_long_names_stay_on_the_page_and_dollars_are_no_formula(long_names, name):
    data, fx = long_names
    figure = LONG_PLOTS[name](fx, data).figure
    figure.canvas.draw()
    drawn = figure.get_tightbbox()
    width, height = figure.get_size_inches()
    assert min(drawn.x0, drawn.y0) > -0.05
    assert drawn.x1 < width + 0.05
    assert drawn.y1 < height + 0.05
    panels = [ax for ax in figure.axes if ax.get_label() != "<colorbar>"]
    room = figure.bbox.width / panels[0].get_gridspec().ncols
    assert [ax.bbox.width / room for ax in panels if ax.bbox.width <= 0.3 * room] == []


def test_sixty_categories_do_not_overlap(long_names):
    ax = plot.effect(long_names[1], "_kind")
    ax.figure.canvas.draw()
    boxes = sorted((label.get_window_extent() for label in ax.get_yticklabels()), key=lambda box: box.y0)
    assert len(boxes) >= 60
    assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))
    assert all(label.get_fontsize() >= 5 for label in ax.get_yticklabels())


def test_names_with_an_underscore_are_in_the_legend(fx):
    ax = plot.compare({"_mine": fx, "$x$": fx.raw}, "age")
    assert [text.get_text().strip() for text in ax.get_legend().get_texts()] == ["_mine", r"\$x\$"]


# What is refused.


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda fx: plot.effect(fx, "heat"),
            "`key` must be a term of the decomposition, got 'heat'; there are size, age",
        ),
        (lambda fx: plot.effect(fx, ("size", "age")), r"`key` must name one feature, got 2 \(size × age\); use pair"),
        (lambda fx: plot.pair(fx, "age"), r"`key` must name two features, got 1 \(age\); use effect"),
        (lambda fx: plot.pair(fx, ("age", "heat")), "`key` must be a term of the decomposition, got 'age × heat'"),
        (lambda fx: plot.compare([fx], ("age", "size", "x")), "`key` must name two features, got 3"),
        (lambda fx: plot.compare([fx], "heat"), "`key` must be a term of the decomposition, got 'heat'"),
        (lambda fx: plot.compare([], "age"), "`decompositions` must hold at least one, got none"),
        (
            lambda fx: plot.effect(fx, "age", limits=(3, 1)),
            r"`limits` must be two numbers, the lower first, got \(3, 1\)",
        ),
        (lambda fx: plot.effect(fx, "colour", order="size"), "`order` must be one of 'auto', .*got 'size'"),
        (lambda fx: plot.pair(fx, ("size", "age"), kind="map"), "`kind` must be one of 'auto', .*got 'map'"),
        (
            lambda fx: plot.pair(fx, ("size", "age"), kind="lines"),
            "`kind` must be 'heatmap' for two features of one kind",
        ),
        (lambda fx: plot.pair(fx, ("size", "age"), limit=-1), "`limit` must be a number above zero, got -1"),
        (lambda fx: plot.importance(fx, k=0), "`k` must be a whole number from 1 on, got 0"),
        (lambda fx: plot.importance(fx, by="row"), "`by` must be 'term' or 'feature'"),
        (lambda fx: plot.grid(fx, keys="age"), "`keys` must be a list of terms, got 'age'"),
        (lambda fx: plot.grid(fx, n_columns=0), "`n_columns` must be at least 1, got 0"),
        (lambda fx: plot.grid(fx.select(order=3)), "`fx` must have main effects or pairs to be drawn, got none"),
    ],
)
def test_wrong_arguments_are_named(fx, call, message):
    with pytest.raises(ValueError, match=message):
        call(fx)


def test_wrong_types_are_named(model, fx):
    with pytest.raises(TypeError, match="`fx` must be a Decomposition, got XGBRegressor; make one with"):
        plot.effect(model, "age")
    with pytest.raises(TypeError, match="`decompositions` must be a mapping or a list, got Decomposition"):
        plot.compare(fx, "age")


@pytest.mark.parametrize("output", ["high", 3, True])
def test_wrong_outputs_list_the_choices(three, output):
    for draw in (
        plot.importance,
        lambda fx, **kw: plot.effect(fx, "a", **kw),
        lambda fx, **kw: plot.pair(fx, ("a", "c"), **kw),
    ):
        with pytest.raises(ValueError, match="`output` must be one of 'low', 'mid', 'top' or a position below 3"):
            draw(three, output=output)


def test_without_matplotlib_the_remedy_is_named(monkeypatch):
    for name in [name for name in sys.modules if name.startswith("treeanova.plot")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'treeanova\[plot\]'"):
        importlib.import_module("treeanova.plot")


# Where bins are drawn.


def test_layout_of_categories_with_unseen_and_missing():
    axis = CategoryAxis("c", 4, ("20-29", "< 20", "30+"), 3)
    weights = np.array([0.2, 0.1, 0.4, 0.0, 0.3])
    layout = layout_of(axis, weights)
    assert layout.labels == ("< 20", "20-29", "30+", "", "missing")
    assert layout.cells.tolist() == [1, 0, 2, GAP, 4]
    assert layout_of(axis, weights, extras=True).labels[-2:] == ("unseen", "missing")
    few = layout_of(axis, weights, max_bars=2)
    assert few.cells.tolist() == [2, OTHERS, GAP, 4]
    assert few.masses(weights).tolist() == pytest.approx([0.4, 0.3, 0, 0.3])
    assert few.values(np.array([1.0, 4.0, 2.0, 9.0, 5.0]), weights)[1] == pytest.approx((0.2 * 1 + 0.1 * 4) / 0.3)


def test_layout_of_an_axis_that_never_splits():
    layout = layout_of(IntervalAxis("x", -1, np.empty(0)), np.ones(1))
    assert layout.cells.tolist() == [0]
    assert layout.edges.tolist() == [0.0, 1.0]
    assert layout_of(IntervalAxis("x", -1, np.array([0.5])), np.full(2, 0.5), ends=(0, 1)).edges.tolist() == [0, 0.5, 1]
