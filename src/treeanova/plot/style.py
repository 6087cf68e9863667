"""What all plots share: axes to draw on, colours for any background, names that fit the room, the strip of data."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.ticker import MaxNLocator, ScalarFormatter

from treeanova.core.arrays import Floats
from treeanova.core.labels import label_of
from treeanova.plot.layout import Layout
from treeanova.views import look

DIVERGING = LinearSegmentedColormap.from_list("treeanova", list(look.DIVERGING))
STRIP = 0.13  # of the height
_STRIP_BARS = 48
_SMALLEST_FONT = 5.0


def new_axes(width: float, height: float) -> Any:
    """Axes of a new figure whose parts make room for each other."""
    _, ax = plt.subplots(figsize=(width, height), layout="constrained")
    return ax


def checked_axes(ax: Any, width: float, height: float) -> Any:
    """The axes given, or new ones."""
    if ax is None:
        return new_axes(width, height)
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be matplotlib Axes, got {type(ax).__name__}; pass one of fig.axes or leave it out.")
    return ax


def axes_row(ax: Any, n_axes: int, width: float, height: float) -> list[Any]:
    """As many axes as asked for: those given, or new ones in a row."""
    if ax is None:
        _, row = plt.subplots(1, n_axes, figsize=(width * n_axes, height), layout="constrained", squeeze=False)
        return list(row.flat)
    given = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(given) != n_axes:
        raise ValueError(f"`ax` must hold {n_axes} Axes, got {len(given)}; pass as many or leave it out.")
    return [checked_axes(one, width, height) for one in given]


# Colours.


def is_dark() -> bool:
    """Whether the style in use has a dark background."""
    return float(np.dot(to_rgb(mpl.rcParams["axes.facecolor"]), [0.2126, 0.7152, 0.0722])) < 0.35


def mix(colour: str, other: str, share: float) -> tuple[float, float, float]:
    """A colour with a share of another."""
    red, green, blue = (1 - share) * np.array(to_rgb(colour)) + share * np.array(to_rgb(other))
    return float(red), float(green), float(blue)


def tone(colour: str) -> Any:
    """The colour, lighter on a dark background."""
    return mix(colour, mpl.rcParams["text.color"], 0.35) if is_dark() else colour


def faint(colour: str) -> Any:
    """The colour for areas behind, darker on a dark background."""
    return mix(colour, mpl.rcParams["axes.facecolor"], 0.45) if is_dark() else colour


def series_colour(position: int, name: str = "") -> Any:
    """The colour of one of several series; the model before purification is grey."""
    return tone(look.RAW if name == "raw" else look.SERIES[position % len(look.SERIES)])


# Words.


def plain(text: object) -> str:
    """Text that matplotlib shows as it is: dollars start no formula."""
    return str(text).replace("\\$", "$").replace("$", r"\$")


def shortened(text: object, n_characters: int = 28) -> str:
    """The text with its middle left out where it is too long."""
    words = " ".join(str(text).split())
    if len(words) <= n_characters:
        return plain(words)
    tail = (n_characters - 1) // 3
    return plain(f"{words[: n_characters - 1 - tail].rstrip()}…{words[-tail:].lstrip()}")


def bin_name(label: str, n_characters: int) -> str:
    """The label of a bin, shortened before what it shares its bin with."""
    for shared in (" or unseen or missing", " or unseen", " or missing"):
        if label.endswith(shared) and len(label) > n_characters:
            return f"{shortened(label.removesuffix(shared), n_characters - 9)} or other"
    return shortened(label, n_characters)


def wrapped(text: object, n_characters: int = 44, n_lines: int = 2) -> str:
    """The text on several lines, its middle left out where these are not enough."""
    whole = " ".join(str(text).split())
    lines = textwrap.wrap(whole, n_characters, break_on_hyphens=False)
    if len(lines) > n_lines:
        lines = textwrap.wrap(_middle_out(whole, n_characters * n_lines - 4), n_characters, break_on_hyphens=False)
    return plain("\n".join(lines[:n_lines]))


def _middle_out(text: str, n_characters: int) -> str:
    tail = n_characters // 2
    return f"{text[: n_characters - tail - 1].rstrip()}…{text[-tail:].lstrip()}"


def term_name(names: Sequence[str], n_characters: int = 28) -> str:
    """Names of a term's features as one, each shortened."""
    return label_of(shortened(name, n_characters) for name in names)


def percent(share: float) -> str:
    """A share in words."""
    if 0 < abs(share) < 0.001:
        return "< 0.1 %"
    return f"{100 * share:.1f} %" if abs(share) < 0.0995 else f"{100 * share:.0f} %"


def room(ax: Any, text_axis: str) -> int:
    """About how many characters of a label fit along an axis that others leave about this long."""
    inches = ax.get_window_extent().width if text_axis == "x" else ax.get_window_extent().height
    return max(12, int(inches / ax.figure.dpi * 72 / (0.52 * font_size(mpl.rcParams["axes.labelsize"]))))


def font_size(size: float | str) -> float:
    """Points of a font size that may be a word."""
    from matplotlib.font_manager import FontProperties  # noqa: PLC0415  for this alone

    return float(FontProperties(size=size).get_size_in_points())


def name_feature(ax: Any, layout: Layout, which: str) -> None:
    """Write the feature along an axis, with the share of the data beyond its ends."""
    words = wrapped(layout.name, room(ax, which))
    if layout.beyond > 0 and layout.is_numeric:
        words += f"\n(at most {percent(layout.beyond)} of the data beyond)"
    getattr(ax, f"set_{which}label")(words)


def name_effect(ax: Any, words: str, which: str) -> None:
    """Write what values are along an axis."""
    getattr(ax, f"set_{which}label")(wrapped(words, room(ax, which)))


# Scales.


def set_scale(ax: Any, layout: Layout, which: str, masses: Floats | None = None) -> None:
    """Limits and ticks of a feature's axis; missing and unseen with their share of the data, where given."""
    pad = 0.0 if layout.is_numeric else 0.1
    getattr(ax, f"set_{which}lim")(layout.edges[0] - pad, layout.edges[-1] + pad)
    if layout.is_numeric:
        _numeric_ticks(ax, layout, which, masses)
    else:
        _category_ticks(ax, layout, which)


def _numeric_ticks(ax: Any, layout: Layout, which: str, masses: Floats | None) -> None:
    axis = getattr(ax, f"{which}axis")
    if not len(layout.extra):
        axis.set_major_locator(MaxNLocator(nbins="auto", steps=[1, 2, 2.5, 5, 10]))
        return
    inches = (ax.get_window_extent().width if which == "x" else 6 * ax.get_window_extent().height) / ax.figure.dpi
    last = layout.centres[layout.extra[0]] - 0.75 * (layout.edges[-1] - layout.low) / inches
    candidates = MaxNLocator(nbins=5, steps=[1, 2, 2.5, 5, 10]).tick_values(layout.low, layout.high)
    ticks = [tick for tick in candidates if layout.low <= tick <= min(last, layout.high)]
    shares = ["" if masses is None else f"\n{percent(masses[cell])}" for cell in layout.extra]
    words = [f"{name}{share}" for name, share in zip(layout.labels, shares, strict=True)]
    getattr(ax, f"set_{which}ticks")(
        [*ticks, *layout.centres[layout.extra]], labels=[*number_labels(ticks), *map(plain, words)]
    )


def number_labels(ticks: Sequence[float]) -> list[str]:
    """Numbers as matplotlib writes them on a scale, whole."""
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    formatter.create_dummy_axis()
    formatter.set_locs(list(ticks))
    return [str(formatter(tick)) for tick in ticks]


def _category_ticks(ax: Any, layout: Layout, which: str) -> None:
    shown = np.flatnonzero(layout.filled)
    size = font_size(mpl.rcParams[f"{which}tick.labelsize"])
    extent = ax.get_window_extent()
    points = (extent.height if which == "y" else extent.width) / ax.figure.dpi * 72
    size = max(_SMALLEST_FONT, min(size, 0.8 * points / max(len(shown), 1)))
    step = max(1, math.ceil(1.15 * size * len(shown) / points))
    shown = shown[::step]
    upright = which == "y" or sum(min(len(layout.labels[i]), 28) for i in shown) * 0.6 * size < points
    options: dict[str, Any] = {} if upright else {"rotation": 40, "ha": "right", "rotation_mode": "anchor"}
    getattr(ax, f"set_{which}ticks")(
        layout.centres[shown], labels=[bin_name(layout.labels[i], 28) for i in shown], fontsize=size, **options
    )
    ax.tick_params(axis=which, length=0)


def tidy(ax: Any) -> None:
    """Take away the frame's upper and right side."""
    ax.spines[["top", "right"]].set_visible(False)


def zero_line(ax: Any, which: str) -> None:
    """A thin line at zero."""
    draw = ax.axhline if which == "y" else ax.axvline
    draw(0, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8, alpha=0.5, zorder=1)


def legend(ax: Any, handles: Sequence[Any], names: Sequence[object], **options: Any) -> Any:
    """A legend without a frame; names with an underscore first are shown by older matplotlib too."""
    words = [shortened(name, 32) for name in names]
    words = [f" {word}" if word.startswith("_") else word for word in words]
    return ax.legend(list(handles), words, frameon=False, fontsize="small", **options)


# The data's distribution.


def interval_strip(ax: Any, layout: Layout, weights: Floats) -> None:
    """Draw how the weight is spread over a numeric axis along the foot of the plot."""
    points = np.linspace(layout.low, layout.high, _STRIP_BARS + 1)
    heights = layout.spread(weights, points)
    if not heights.max(initial=0.0) > 0:
        return
    look_of_data: dict[str, Any] = {"color": faint(look.DATA), "alpha": 0.6, "zorder": 0, "linewidth": 0}
    foot = ax.get_xaxis_transform()
    _name_data(ax, 0.008, 0.01)
    ax.stairs(STRIP * heights / heights.max(), points, fill=True, transform=foot, label="_data", **look_of_data)
    extra = layout.extra
    if len(extra):
        widths = np.diff(layout.edges)[extra]
        per_bar = layout.masses(weights)[extra] * (points[1] - points[0]) / widths
        tall = STRIP * np.minimum(per_bar / heights.max(), 1)
        ax.bar(layout.centres[extra], tall, 0.7 * widths, transform=foot, label="_data", **look_of_data)


def _name_data(ax: Any, x: float, y: float) -> None:
    """Say what the grey is, where there is room for it."""
    if ax.get_window_extent().width / ax.figure.dpi > 4:
        ink = mpl.rcParams["text.color"]
        ax.text(x, y, "data", transform=ax.transAxes, va="bottom", fontsize="x-small", color=ink, alpha=0.7, zorder=1)


def category_strip(ax: Any, layout: Layout, weights: Floats) -> None:
    """Draw the weight of each category along the left side of the plot."""
    masses = layout.masses(weights)
    if masses.max(initial=0.0) > 0:
        side = ax.get_yaxis_transform()
        _name_data(ax, 0.008, 1.0)
        options: dict[str, Any] = {"color": faint(look.DATA), "alpha": 0.6, "zorder": 0, "linewidth": 0}
        shown = layout.filled
        ax.barh(
            layout.centres[shown], STRIP * masses[shown] / masses.max(), 0.8, transform=side, label="_data", **options
        )


def make_room(ax: Any, which: str, low: float, high: float, *, strip: bool) -> None:
    """Limits of the axis of values: a margin, and room for the strip of data."""
    low, high = min(low, 0.0), max(high, 0.0)
    span = (high - low) or 1.0
    below = (STRIP + 0.03) / (1 - STRIP - 0.03) * 1.1 if strip else 0.05
    getattr(ax, f"set_{which}lim")(low - below * span, high + 0.06 * span)
