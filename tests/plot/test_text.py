from __future__ import annotations

import pytest

pytest.importorskip("matplotlib")

from treeanova import plot
from treeanova.plot import style as text

LONG_PLOTS = {
    "effect": lambda fx, data: plot.effect(fx, data.columns[0]),
    "pair": lambda fx, data: plot.pair(fx, tuple(data.columns[:2]), marginals=True),
    "lines": lambda fx, data: plot.pair(fx, (data.columns[0], "_kind")),
    "heatmap": lambda fx, data: plot.pair(fx, (data.columns[0], "_kind"), kind="heatmap"),
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


def test_long_text_loses_its_middle():
    assert text.shortened("short") == "short"
    assert text.shortened("abcdefghijklmnop", 10) == "abcdef…nop"
    assert max(map(len, text.wrapped("word " * 50, 20, 2).split("\n"))) <= 20
    assert len(text.wrapped("word " * 50, 20, 2).split("\n")) == 2


def test_the_label_of_a_bin_is_shortened_before_its_name():
    assert text.short_bin_name("red or unseen or missing", 30) == "red or unseen or missing"
    assert text.short_bin_name("red or unseen or missing", 20) == "red or other"


def test_numbers_have_a_sign_and_a_true_minus():
    assert [text.signed(value, ".2g") for value in (1.5, -1.5, 0.0)] == ["+1.5", "−1.5", "0"]


def test_dollars_are_no_formula():
    assert text.plain("$x$") == text.plain(text.plain("$x$")) == r"\$x\$"


def test_names_that_differ_in_the_middle_stay_distinct():
    labels = [f"a very long category name number {i}, with a comma" for i in range(90)]
    short = text.short_bin_names(labels, 28)
    assert len(set(short)) == 90
    assert max(map(len, short)) <= 28
    assert all(str(i) in name for i, name in enumerate(short))
    assert text.short_bin_names(["one", "two"], 28) == ["one", "two"]
    assert text.short_bin_names(["same" * 20, "same" * 20], 28) == [text.short_bin_name("same" * 20, 28)] * 2


def test_features_keep_what_they_differ_in():
    names = [f"customer_lifetime_value_{kind}_last_12_months_eur" for kind in ("net", "gross", "returns")]
    short = text.short_feature_names([*names, "age"], 24)
    assert short["age"] == "age"
    assert [short[name] for name in names] == [
        "customer_lifetime_v…net…", "customer_lifetime…gross…", "customer_lifeti…returns…"
    ]  # fmt: skip
    assert text.term_name(names[:2], short) == "customer_lifetime_v…net… × customer_lifetime…gross…"


def test_names_are_broken_between_their_words():
    assert text.wrapped("customer_lifetime_value_net", 18) == "customer_lifetime_\nvalue_net"
    assert text.wrapped("age × customer_value", 18) == "age × customer_\nvalue"
    assert text.wrapped("x" * 30, 18) == "x" * 18 + "\n" + "x" * 12
    assert text.wrapped("a _b", 18) == "a _b"


def test_long_labels_of_terms_keep_their_sign():
    long = [f"customer_lifetime_value_of_the_last_{i:02d}_months_in_eur" for i in range(3)]
    names = [f"{long[0]} × {long[1]}", f"{long[0]} × {long[2]}", long[1], "a × b", "2 other terms"]
    labels = text.wrapped_terms(names, 30)
    assert all(("×" in label) == ("×" in name) for label, name in zip(labels, names, strict=True))
    assert all(len(line) <= 30 for label in labels for line in label.splitlines())
    assert len(set(labels)) == len(names)
    assert "01" in labels[0]
    assert "02" in labels[1]
    assert labels[3:] == ["a × b", "2 other terms"]
