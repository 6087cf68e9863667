"""Names of bars down the left side of a plot, the first on top."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl

from treeanova.plot.text import font_size, wrapped

BAR_HEIGHT = 0.3  # in inches
_SMALLEST_FONT = 5.0


def list_names(ax: Any, names: Sequence[str]) -> None:
    """Write a name beside each bar, in a font that fits."""
    points = ax.get_window_extent().height / ax.figure.dpi * 72
    labels = [wrapped(name) for name in names]
    has_two_lines = any("\n" in label for label in labels)
    largest = (0.45 if has_two_lines else 0.85) * points / max(len(names), 1)
    size = max(_SMALLEST_FONT, min(font_size(mpl.rcParams["ytick.labelsize"]), largest))
    ax.set_yticks(range(len(names)), labels=labels, fontsize=size)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
