"""validation(): dots and whiskers are the numbers of the table."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

pytest.importorskip("matplotlib")

import treeanova
from tests.support.simulated import boosted, dependent_rows, interacting
from treeanova import plot


@pytest.fixture(scope="module")
def validation():
    pytest.importorskip("sklearn")
    rows = dependent_rows()
    fx = treeanova.decompose(boosted(rows, interacting(rows), 20), rows, density="empirical")
    more = dependent_rows(200, seed=1)
    return fx.validate(more, interacting(more) + np.random.default_rng(0).normal(size=200))


def drawn(ax):
    """Place, position and half-length of each whisker, by row."""
    found = {}
    for container in ax.containers:
        dots, _, (whiskers,) = container
        for x, y, line in zip(*dots.get_data(), whiskers.get_segments(), strict=True):
            found[int(y)] = (float(x), (line[1][0] - line[0][0]) / 2)
    return found


def test_dots_are_changes_of_loss_with_two_standard_errors(validation):
    ax = plot.validation(validation)
    table = validation.table
    assert [label.get_text() for label in ax.get_yticklabels()] == list(table["term"])
    found = drawn(ax)
    assert [found[i][0] for i in range(len(table))] == pytest.approx(list(table["loss_change"]))
    assert [found[i][1] for i in range(len(table))] == pytest.approx(list(2 * table["error"]))
    p = table["p_holm"]
    counts = [(p < 0.05).sum(), (p >= 0.05).sum(), *([p.isna().sum()] if p.isna().any() else [])]
    assert [len(container[0].get_xdata()) for container in ax.containers] == counts
    assert "increase in squared error" in ax.get_xlabel().replace("\n", " ")


def test_terms_that_are_not_drawn_are_counted(validation):
    ax = plot.validation(validation, k=2)
    assert len(drawn(ax)) == 2
    assert f"{len(validation.table) - 2} more terms" in ax.get_xlabel().replace("\n", " ")


def test_changes_of_many_sizes_are_all_legible(validation):
    table = validation.table.assign(loss_change=[1000.0, 1.0, 0.02, 0.01, 0.0, -0.02], error=0.01)
    ax = plot.validation(dataclasses.replace(validation, table=table))
    assert ax.get_xscale() == "symlog"
    ax.figure.canvas.draw()
    ticks = {tick: label.get_text() for tick, label in zip(ax.get_xticks(), ax.get_xticklabels(), strict=True)}
    assert {0.0: "0", 1000.0: "1000"}.items() <= ticks.items()
    assert all(float(text.replace("−", "-")) == pytest.approx(tick) for tick, text in ticks.items())
    assert len(ticks) >= 4
    low, high = ax.get_xlim()
    assert low < -0.04
    assert high > 1000


def test_one_of_several_targets_is_drawn(validation):
    first, second = (validation.table.assign(output=name) for name in ("p", "q"))
    both = first.assign(loss_change=first["loss_change"] + 1)
    table = type(first)({name: [*both[name], *second[name]] for name in first})
    several = dataclasses.replace(validation, table=table)
    assert drawn(plot.validation(several))[0][0] == pytest.approx(both["loss_change"].iloc[0])
    assert drawn(plot.validation(several, output="q"))[0][0] == pytest.approx(second["loss_change"].iloc[0])
    with pytest.raises(ValueError, match="`output` must be one of 'p', 'q', got 'r'"):
        plot.validation(several, output="r")


def test_anything_else_is_refused():
    with pytest.raises(TypeError, match="`validation` must be a Validation, got int"):
        plot.validation(1)


@pytest.mark.parametrize("scale", [1.0, 1000.0])
def test_the_label_of_the_axis_is_whole(validation, scale):
    table = validation.table.assign(loss_change=lambda table: scale * table["loss_change"])
    figure = plot.validation(dataclasses.replace(validation, table=table), k=3).figure
    figure.canvas.draw()
    label = figure.axes[0].xaxis.label.get_window_extent()
    assert label.x0 >= 0
    assert label.x1 <= figure.bbox.width + 1


def test_terms_that_are_tested_together_have_a_star(validation):
    names = ["x0", *[""] * (len(validation.table) - 1)]
    ax = plot.validation(dataclasses.replace(validation, table=validation.table.assign(aliases=names)))
    stars = [label.get_text() for label in ax.get_yticklabels() if label.get_text().endswith(" *")]
    assert stars == [f"{validation.table['term'][0]} *"]
    assert "cannot distinguish" in ax.figure.legends[0].get_title().get_text()


def test_terms_without_p_values_are_not_called_insignificant(validation):
    ax = plot.validation(dataclasses.replace(validation, table=validation.table.assign(p_holm=np.nan)))
    assert [text.get_text() for text in ax.figure.legends[0].get_texts()] == ["not tested"]
