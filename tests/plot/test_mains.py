from __future__ import annotations

import numpy as np
import pytest

import treeanova

pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")

from tests.support.drawings import bar_widths, data_strip, step_curves, tick_places  # noqa: E402
from tests.support.tables import COLOURS, GRADES, mixed_table  # noqa: E402
from tests.support.training import fit  # noqa: E402
from treeanova import plot  # noqa: E402

X = mixed_table()


def test_steps_are_at_the_bounds_of_the_table(fx):
    ax = plot.effect(fx, "age")
    values, edges, _ = step_curves(ax)[0].get_data()
    found = pd.DataFrame(fx.table("age"))
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
    heights, edges, _ = data_strip(ax).get_data()
    low, high = edges[0], edges[-1]
    found = pd.DataFrame(fx.table("age")).dropna()
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
    lowest = np.nanmin(step_curves(ax)[0].get_data().values)
    bottom = (lowest - low_value) / np.diff(ax.get_ylim())[0]
    assert bottom > heights.max()  # curves do not touch the strip
    assert not [p for p in plot.effect(fx, "age", data=False).patches if p.get_label() == "_data"]


def test_missing_values_stand_apart_with_their_share(fx):
    ax = plot.effect(fx, "size")
    values, edges, _ = step_curves(ax)[0].get_data()
    found = pd.DataFrame(fx.table("size")).set_index("size")
    (word,) = (label for label in tick_places(ax, "x") if label.startswith("missing"))
    assert word == f"missing\n{100 * X['size'].isna().mean():.0f}\u00a0%"
    place = tick_places(ax, "x")[word]
    cell = int(np.searchsorted(edges, place)) - 1
    assert values[cell] == found.loc["missing", "value"]
    assert np.isnan(values[cell - 1])  # a gap lies before it
    assert [line.get_xydata()[0].tolist() for line in ax.lines if line.get_marker() == "o"] == [[place, values[cell]]]
    numbers = [place_ for label, place_ in tick_places(ax, "x").items() if label != word]
    assert max(numbers) < edges[cell - 1]


def first_words(labels):
    """Names of bars: a category whose bin also holds unseen and missing ones may be written "red or other"."""
    return [label.partition(" ")[0] for label in labels]


def test_extras_are_shown_on_request_or_left_out(fx):
    assert not any(label.startswith("missing") for label in tick_places(plot.effect(fx, "size", extras=False), "x"))
    assert "unseen" not in tick_places(plot.effect(fx, "colour"), "y")
    shown = plot.effect(fx, "colour", extras=True)
    labels = first_words(fx.terms["colour"].axes[0].labels)
    assert set(first_words(bar_widths(shown))) == set(labels)
    assert first_words(bar_widths(shown))[len(COLOURS) :] == labels[len(COLOURS) :]  # apart, at the end


def test_long_tails_without_data_are_cut_and_the_axis_says_so(tailed):
    data, fx = tailed
    assert fx.terms["a"].axes[0].thresholds[-1] > 20
    ax = plot.effect(fx, "a")
    low, high = ax.get_xlim()
    assert high < 20
    name, note = ax.get_xlabel().split("\n")
    share = float(note.removeprefix("(at most ").split("\u00a0%")[0]) / 100
    assert name == "a"
    found = pd.DataFrame(fx.table("a")).dropna()
    cut = (found["a_low"] < low) & np.isfinite(found["a_low"]) | (found["a_high"] > high) & np.isfinite(found["a_high"])
    outer = (found["a_low"] >= high) | (found["a_high"] <= low)
    assert share == pytest.approx(
        found["weight"][cut | outer].sum(), rel=0.05, abs=0.00501
    )  # whole percents, or two digits
    assert share >= ((data["a"] > high) | (data["a"] < low)).mean()
    whole = plot.effect(fx, "a", limits=(-5, 100))
    assert whole.get_xlim() == (-5, 100)
    assert whole.get_xlabel() == "a"
    np.testing.assert_array_equal(
        step_curves(whole)[0].get_data().values, fx.terms["a"].values[: fx.terms["a"].axes[0].n_regular]
    )


def test_limits_cut_bins(fx):
    bounds = fx.terms["age"].axes[0].thresholds
    low, high = float(bounds[3] + bounds[4]) / 2, float(bounds[-3])
    values, edges, _ = step_curves(plot.effect(fx, "age", limits=(low, high)))[0].get_data()
    np.testing.assert_array_equal(edges, [low, *bounds[4:-3], high])
    np.testing.assert_array_equal(values, fx.terms["age"].values[4 : 4 + len(values)])


def test_categories_are_bars_sorted_by_value_or_number(fx):
    found = pd.DataFrame(fx.table("colour")).set_index("colour")["value"]
    drawn = bar_widths(plot.effect(fx, "colour"))
    expected = found.filter(regex="|".join(COLOURS)).sort_values(ascending=False)
    assert first_words(drawn) == first_words(expected.index)
    assert list(drawn.values()) == list(expected)
    assert first_words(bar_widths(plot.effect(fx, "grade"))) == GRADES
    assert first_words(bar_widths(plot.effect(fx, "colour", order="given"))) == COLOURS
    by_weight = first_words(bar_widths(plot.effect(fx, "colour", order="weight")))
    assert by_weight == list(X["colour"].value_counts().index)
    assert plot.effect(fx, "colour").yaxis_inverted()  # the first is on top


def test_rare_categories_share_a_bar(fx):
    found = pd.DataFrame(fx.table("colour")).set_index("colour")
    rare = found.filter(regex="blue|grey", axis=0)
    drawn = bar_widths(plot.effect(fx, "colour", max_bars=3))
    assert len(drawn) == 3
    assert drawn["2 others, mean"] == pytest.approx((rare["value"] * rare["weight"]).sum() / rare["weight"].sum())


def test_the_strip_of_categories_has_their_weights(fx):
    ax = plot.effect(fx, "colour")
    (container,) = (c for c in ax.containers if c.get_label() == "_data")
    widths = np.array([bar.get_width() for bar in container.patches])
    names = [label.partition(" ")[0] for label in bar_widths(ax)]
    shares = X["colour"].value_counts(normalize=True)[names].to_numpy()
    np.testing.assert_allclose(widths / widths.sum(), shares)


def test_categories_without_weight_are_hatched(model):
    seen = X[X["colour"] != "grey"]
    ax = plot.effect(treeanova.decompose(model, seen, density="empirical", n_jobs=1), "colour")
    hatched = {bar.get_width() for bar in ax.containers[0].patches if bar.get_hatch()}
    assert hatched == {width for name, width in bar_widths(ax).items() if name.startswith("grey")}


def test_errors_are_a_band_of_two_standard_errors(fx):
    errors = fx.standard_errors(3)
    values, _, _ = step_curves(plot.effect(fx, "age", errors=errors))[0].get_data()
    upper, _, lower = step_curves(plot.effect(fx, "age", errors=errors), filled=True)[0].get_data()
    deviation = errors["age",][: len(values)]
    assert deviation.max() > 0
    np.testing.assert_allclose(upper - values, 2 * deviation)
    np.testing.assert_allclose(values - lower, 2 * deviation)
    whiskers = plot.effect(fx, "colour", errors=errors).containers
    assert any(hasattr(container, "has_xerr") and container.has_xerr for container in whiskers)
    with pytest.raises(TypeError, match=r"`errors` must be what fx.standard_errors\(\) returned, or a Bag, got float"):
        plot.effect(fx, "age", errors=0.1)
    with pytest.raises(ValueError, match=r"`errors` must have an array of shape \(\d+,\) for 'age', got shape \(2,\)"):
        plot.effect(fx, "age", errors={("age",): np.zeros(2)})


def test_all_classes_are_in_one_frame_unless_one_is_named(three):
    ax = plot.effect(three, "c")
    term = three.terms["c"]
    for curve, expected in zip(step_curves(ax), term.values.T, strict=True):
        np.testing.assert_array_equal(curve.get_data().values, expected[: term.axes[0].n_regular])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["low", "mid", "top"]
    for output in ("mid", 1, -2):
        one = plot.effect(three, "c", output=output)
        np.testing.assert_array_equal(step_curves(one)[0].get_data().values, term.values[: term.axes[0].n_regular, 1])
        assert "(mid)" in one.get_ylabel()
        assert one.get_legend() is None


@pytest.fixture(scope="module")
def two():
    """A classifier of two classes with a category, its rows and its decomposition."""
    lightgbm = pytest.importorskip("lightgbm")
    rows = X[["age", "colour"]]
    answers = np.where((rows["age"] > 50) | (rows["colour"] == "red"), "yes", "no")
    model = lightgbm.LGBMClassifier(n_estimators=8, max_depth=2, min_child_samples=5, verbose=-1, n_jobs=1)
    return fit(model, rows, answers), rows, treeanova.decompose(model, rows, density="empirical", n_jobs=1)


def test_an_effect_on_the_probability_scale(two):
    model, rows, fx = two
    ax = plot.effect(fx, "age", scale="probability")
    base = 1 / (1 + np.exp(-model.predict(rows, raw_score=True).mean()))
    expected = 1 / (1 + np.exp(-np.log(base / (1 - base)) - fx.terms["age"].values)) - base
    values, _, _ = step_curves(ax)[0].get_data()
    np.testing.assert_allclose(values, expected[: len(values)], rtol=1e-6, atol=1e-9)
    words = ax.get_ylabel().replace("\n", " ")
    assert words == (
        f"change in probability of yes from {base:.3g}, all other terms at their average (does not add up)"
    )
    assert plot.effect(fx, "age").get_ylabel().replace("\n", " ") == "change in log-odds of yes against the average"
    raw = plot.effect(fx.raw, "age", scale="response").get_ylabel().replace("\n", " ")
    assert "all other terms at zero (does not add up)" in raw


def test_bands_on_the_probability_scale_stay_between_zero_and_one(two):
    _, _, fx = two
    base = 1 / (1 + np.exp(-fx.intercept))
    errors = {names: np.full(term.values.shape, 5.0) for names, term in fx.terms.items()}
    ax = plot.effect(fx, "age", scale="probability", errors=errors)
    band = next(patch for patch in ax.patches if patch.get_label() != "_data" and patch.get_fill())
    values, _, low = band.get_data()
    assert (values <= 1 - base + 1e-12).all()
    assert (low >= -base - 1e-12).all()
    assert (values - low > 0.5).all()
    plot.effect(fx, "colour", scale="probability", errors=errors)


def test_bands_of_several_probabilities_are_refused(three):
    errors = {names: np.zeros_like(term.values) for names, term in three.terms.items()}
    with pytest.raises(ValueError, match="`errors` must come with scale='score' for probabilities of several classes"):
        plot.effect(three, "a", scale="probability", errors=errors)


def test_a_pair_on_the_probability_scale(two):
    _, _, fx = two
    ax = plot.pair(fx, ("age", "colour"), scale="probability", kind="heatmap", order="name", marginals=True)
    expected = np.asarray(fx.table(("age", "colour"), scale="probability")["value"])
    drawn = ax.collections[0].get_array().compressed()
    assert np.isin(drawn, expected).all()
    labels = [label.get_text() for label in ax.get_yticklabels()]
    assert labels[: len(COLOURS)] == sorted(labels[: len(COLOURS)])


def test_many_categories_share_the_last_bar_unless_asked_for():
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    rows = pd.DataFrame({"kind": pd.Categorical([f"k{i}" for i in rng.integers(0, 90, 3000)])})
    model = lightgbm.LGBMRegressor(n_estimators=5, min_child_samples=1, verbose=-1, n_jobs=1)
    fit(model, rows, rows["kind"].cat.codes)
    fx = treeanova.decompose(model, rows, density="empirical", n_jobs=1)
    names = list(bar_widths(plot.effect(fx, "kind")))
    assert "31 others, mean" in names
    assert not any("others" in name for name in bar_widths(plot.effect(fx, "kind", max_bars=1000)))
