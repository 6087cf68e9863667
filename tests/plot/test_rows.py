"""Names of bars: the first on top, in a font that fits."""

from __future__ import annotations

import itertools

import pytest

pytest.importorskip("matplotlib")

from matplotlib import pyplot as plt

from tests.support.drawings import tick_places
from treeanova.plot.bars import list_names


def axes(height):
    return plt.subplots(figsize=(4, height))[1]


def test_names_come_from_top_to_bottom():
    ax = axes(3)
    list_names(ax, ["first", "second", "third"])
    assert tick_places(ax, "y") == {"first": 0.0, "second": 1.0, "third": 2.0}
    bottom, top = ax.get_ylim()
    assert bottom > 2.0
    assert top < 0.0


@pytest.mark.parametrize("n_names", [3, 30])
def test_names_do_not_overlap(n_names):
    ax = axes(4)
    list_names(ax, [f"name {i}" for i in range(n_names)])
    ax.figure.canvas.draw()
    boxes = [label.get_window_extent() for label in ax.get_yticklabels()]
    assert all(upper.y0 >= lower.y1 - 1 for upper, lower in itertools.pairwise(boxes))


def test_fonts_are_never_too_small_to_read():
    ax = axes(1)
    list_names(ax, [f"name {i}" for i in range(200)])
    assert {label.get_fontsize() for label in ax.get_yticklabels()} == {5.0}
