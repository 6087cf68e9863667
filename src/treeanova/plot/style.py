"""What all plots share: axes to draw on, colours for light and dark backgrounds, legends, frames."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb

from treeanova.plot.text import shortened
from treeanova.views import look

DIVERGING = LinearSegmentedColormap.from_list("treeanova", list(look.DIVERGING))
_LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green and blue


# Axes.


def checked_axes(ax: Any, width: float, height: float) -> Any:
    """The axes given, or those of a new figure."""
    if ax is None:
        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be matplotlib Axes, got {type(ax).__name__}; pass one of fig.axes or leave it out.")
    return ax


def axes_row(ax: Any, n_axes: int, width: float, height: float) -> list[Any]:
    """The axes given, checked to be `n_axes`, or new ones in a row."""
    if ax is None:
        _, row = plt.subplots(1, n_axes, figsize=(width * n_axes, height), layout="constrained", squeeze=False)
        return list(row.flat)
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != n_axes:
        raise ValueError(f"`ax` must hold {n_axes} Axes, got {len(given)}; pass {n_axes} or leave it out.")
    return [checked_axes(one, width, height) for one in given]


# Colours.


def is_dark() -> bool:
    """Whether the style in use has a dark background."""
    return float(np.dot(to_rgb(mpl.rcParams["axes.facecolor"]), _LUMINANCE)) < 0.35


def mix(colour: str, other: str, share: float) -> tuple[float, float, float]:
    """A colour with a share of another."""
    red, green, blue = (1 - share) * np.array(to_rgb(colour)) + share * np.array(to_rgb(other))
    return float(red), float(green), float(blue)


def tone(colour: str) -> Any:
    """The colour, lighter on a dark background."""
    return mix(colour, mpl.rcParams["text.color"], 0.35) if is_dark() else colour


def faint(colour: str) -> Any:
    """The colour for areas in the background, darker on a dark background."""
    return mix(colour, mpl.rcParams["axes.facecolor"], 0.45) if is_dark() else colour


def series_colour(position: int, name: str = "") -> Any:
    """The colour of one of several series; the one named "raw" is grey."""
    return tone(look.RAW if name == "raw" else look.SERIES[position % len(look.SERIES)])


# Lines and legends.


def tidy(ax: Any) -> None:
    """Hide the upper and right side of the frame."""
    ax.spines[["top", "right"]].set_visible(False)


def zero_line(ax: Any, which: str) -> None:
    """Draw a thin line at zero of the x or y axis."""
    draw = ax.axhline if which == "y" else ax.axvline
    draw(0, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8, alpha=0.5, zorder=1)


def legend(target: Any, handles: Sequence[Any], names: Sequence[object], **options: Any) -> Any:
    """A legend of axes or a figure, without a frame."""
    words = [shortened(name, 32) for name in names]
    words = [f" {word}" if word.startswith("_") else word for word in words]  # older matplotlib hides such names
    return target.legend(list(handles), words, frameon=False, fontsize="small", **options)
