from __future__ import annotations

import itertools

import pytest

pytest.importorskip("matplotlib")

from treeanova import plot


def test_sixty_categories_do_not_overlap(long_names):
    ax = plot.effect(long_names[1], "_kind")
    ax.figure.canvas.draw()
    boxes = sorted((label.get_window_extent() for label in ax.get_yticklabels()), key=lambda box: box.y0)
    assert len(boxes) >= 60
    assert all(low.y1 <= high.y0 + 1 for low, high in itertools.pairwise(boxes))
    assert all(label.get_fontsize() >= 5 for label in ax.get_yticklabels())
