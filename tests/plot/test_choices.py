from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from tests.support.tables import mixed_table
from treeanova import change, plot
from treeanova.core.arrays import label_of


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda fx: plot.effect(fx, "heat"),
            "`key` must be a term of the decomposition that has a table, got 'heat'; there are size, age",
        ),
        (lambda fx: plot.effect(fx, ("size", "age")), r"`key` must name one feature, got 2 \(size × age\); use pair"),
        (lambda fx: plot.pair(fx, "age"), r"`key` must name two features, got 1 \(age\); use effect"),
        (
            lambda fx: plot.pair(fx, ("age", "heat")),
            "`key` must be a term of the decomposition that has a table, got 'age × heat'",
        ),
        (lambda fx: plot.compare([fx], ("age", "size", "x")), "`key` must name two features, got 3"),
        (
            lambda fx: plot.compare([fx], "heat"),
            "`key` must be a term of the decomposition that has a table, got 'heat'",
        ),
        (lambda fx: plot.compare([], "age"), r"`decompositions` must hold at least one decomposition, got \[\]"),
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
        (
            lambda fx: plot.grid(fx.select(order=3)),
            "`fx` must have tables of main effects or pairs to be drawn, got 0 terms without",
        ),
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
        with pytest.raises(ValueError, match="`output` must be one of 'low', 'mid', 'top', or its position, got"):
            draw(three, output=output)


def drawn(axes):
    """Numbers that each panel draws, as a map or as lines."""
    panels = np.atleast_1d(np.asarray(axes, dtype=object)).ravel()
    return [
        [np.ma.filled(mesh.get_array(), 0).ravel().tolist() for mesh in ax.collections if mesh.get_array() is not None]
        + [np.asarray(line.get_xydata()).tolist() for line in ax.lines]
        for ax in panels
    ]


@pytest.mark.parametrize(
    "draw",
    [
        plot.pair,
        lambda fx, key: plot.compare({"pure": fx, "raw": fx.raw}, key),
        lambda fx, key: plot.grid(fx, keys=[key]),
        lambda fx, key: plot.change(change(fx, fx), key),
    ],
    ids=["pair", "compare", "grid", "change"],
)
def test_labels_of_terms_are_keys(fx, draw):
    names = fx.terms["size", "age"].features
    labelled, named = (drawn(draw(fx, key)) for key in (label_of(names), names))
    assert labelled == named
    assert any(panel for panel in named)


def test_the_gap_of_an_interaction_has_no_picture_under_its_label_either(fx):
    X = mixed_table()
    gap = fx.gap(X, X["colour"] == "red")
    with pytest.raises(ValueError, match="`key` must name one feature, got 2"):
        plot.gap(gap, label_of(fx.terms["size", "age"].features))
