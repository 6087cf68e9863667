"""What all plots share: axes to draw on, colours for light and dark backgrounds, legends, text."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.ticker import ScalarFormatter

from treeanova import views
from treeanova.core import arrays

CHARACTER_WIDTH = 0.52  # of the font size


def plain(text: object) -> str:
    """Text that matplotlib shows as it is, without formulas between dollars."""
    return str(text).replace("\\$", "$").replace("$", r"\$")


def shortened(text: object, n_characters: int = 28) -> str:
    """The text with its middle left out where it is too long."""
    return plain(arrays.shortened(text, n_characters))


def bin_name(label: object, n_characters: int) -> str:
    """The label of a bin, with "or unseen or missing" at its end shortened before the rest."""
    text = str(label)
    for shared in (" or unseen or missing", " or unseen", " or missing"):
        if text.endswith(shared) and len(text) > n_characters:
            return f"{arrays.shortened(text.removesuffix(shared), n_characters - 9)} or other"
    return arrays.shortened(text, n_characters)


def bin_names(names: Sequence[str], n_characters: int) -> list[str]:
    """Labels of bins, shortened, each different from the others."""
    return [plain(name) for name in arrays.distinct(names, n_characters, bin_name)]


def feature_names(names: Sequence[str], n_characters: int) -> dict[str, str]:
    """Names of features, shortened, each different from the others; by their whole names."""
    return {name: plain(short) for name, short in zip(names, arrays.distinct(names, n_characters), strict=True)}


def wrapped(text: object, n_characters: int = 44, n_lines: int = 2) -> str:
    """The text on at most `n_lines` lines, broken after spaces and underscores; without its middle where it is long."""
    whole = re.sub(r"[^\S\u00a0]+", " ", str(text)).strip()  # a space that does not break stays
    lines = _lines(whole, n_characters)
    if len(lines) > n_lines:
        lines = textwrap.wrap(_middle_out(whole, n_characters * n_lines - 4), n_characters, break_on_hyphens=False)
    return plain("\n".join(lines[:n_lines]))


def _lines(text: str, n_characters: int) -> list[str]:
    lines = [""]
    for piece in re.findall(r"[^ _]*_*[ ]?", text):
        parts = [piece[i : i + n_characters] for i in range(0, len(piece), n_characters)]
        for part in parts:
            if len((lines[-1] + part).rstrip()) > n_characters:
                lines.append("")
            lines[-1] += part
    return [line.strip() for line in lines]


def _middle_out(text: str, n_characters: int) -> str:
    tail = n_characters // 2
    return f"{text[: n_characters - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def term_name(names: Sequence[str], short: Mapping[str, str]) -> str:
    """The label of a term, with the names of its features shortened as `feature_names` has them."""
    return arrays.label_of(short[name] for name in names)


def percent(share: float) -> str:
    """A share in words: "12 %", "0.4 %", "< 0.1 %"."""
    if 0 < abs(share) < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"


def signed(value: float, form: str) -> str:
    """A number with its sign, with a true minus; zero has no sign."""
    return f"{value:+{form}}".replace("-", "−") if value else "0"


def font_size(size: float | str) -> float:
    """Points of a font size that may be a word."""
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415  slow to load, needed here only

    return float(FontProperties(size=size).get_size_in_points())


def n_characters_along(ax: Any, which: str) -> int:
    """About how many characters of an axis label fit along the x or y axis."""
    extent = ax.get_window_extent()
    points = (extent.width if which == "x" else extent.height) / ax.figure.dpi * 72
    return max(12, int(points / (CHARACTER_WIDTH * font_size(mpl.rcParams["axes.labelsize"]))))


def number_labels(ticks: Sequence[float]) -> list[str]:
    """Labels of ticks as matplotlib writes them, without offset or powers of ten."""
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    formatter.create_dummy_axis()
    formatter.set_locs(list(ticks))
    return [str(formatter(tick)) for tick in ticks]


DIVERGING = LinearSegmentedColormap.from_list("treeanova", list(views.DIVERGING))
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
    return tone(views.RAW if name == "raw" else views.SERIES[position % len(views.SERIES)])


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
