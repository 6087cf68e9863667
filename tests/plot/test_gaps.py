"""plot.gap: bars and errors are the rows of the table, one effect over the rows of both groups."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.tables import mixed_table
from treeanova import plot


@pytest.fixture(scope="module")
def gap(fx):
    X = mixed_table()
    return fx.gap(X, np.where(X["age"] > 40, "old", "young"))


def test_bars_and_errors_are_the_rows_of_the_table(gap):
    ax = plot.gap(gap, k=100)
    assert [label.get_text() for label in ax.get_yticklabels()] == ["all together", *gap.table["term"]]
    assert np.allclose([bar.get_width() for bar in ax.patches], [gap.total, *gap.table["gap"]])
    segments = ax.collections[0].get_segments()
    lengths = np.array([segment[1, 0] - segment[0, 0] for segment in segments])
    assert np.allclose(lengths, 4 * np.array([gap.error, *gap.table["error"]]))
    assert ax.get_xlabel() == "difference in mean prediction: young minus old"


def test_the_last_of_few_bars_has_no_error(gap):
    ax = plot.gap(gap, k=2)
    assert len(ax.patches) == 3
    assert ax.patches[-1].get_width() == pytest.approx(gap.table["gap"].iloc[1:].sum())
    assert len(ax.collections[0].get_segments()) == 2


def test_an_effect_over_both_groups(gap):
    ax = plot.gap(gap, "age")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["effect", "old", "young"]
    areas = [patch.get_data().values for patch in ax.patches if hasattr(patch, "get_data") and patch.get_fill()]
    n = len(areas[0])
    assert areas[0][: n // 4].max() == 0
    assert areas[1][-n // 4 :].max() == 0
    assert len(plot.gap(gap, "colour").get_legend().get_texts()) == 3


def test_outputs_and_wrong_arguments(gap, fx, three):
    X = np.random.default_rng(5).normal(size=(50, 3))
    several = three.gap(X, X[:, 0] > 0)
    ax = plot.gap(several, output="top", k=50)
    rows = several.table[several.table["output"] == "top"]
    assert np.allclose([bar.get_width() for bar in ax.patches][1:], rows["gap"])
    with pytest.raises(TypeError, match="`gap` must be a Gap, got Decomposition"):
        plot.gap(fx)
    with pytest.raises(ValueError, match=r"`key` must name one feature, got 2 .*; the gap of an interaction is in"):
        plot.gap(gap, ("age", "colour"))
