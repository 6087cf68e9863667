"""What all plots share: axes to draw on, colours for light and dark backgrounds, legends, text, documentation."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap, to_rgb
from matplotlib.font_manager import FontProperties
from matplotlib.ticker import ScalarFormatter

from treeanova import views
from treeanova.core import arrays

CHARACTER_WIDTH = 0.52  # of the font size
DIVERGING: LinearSegmentedColormap = LinearSegmentedColormap.from_list("treeanova", list(views.DIVERGING))
_LUMINANCE = (0.2126, 0.7152, 0.0722)  # of red, green and blue

_ARGUMENTS = {
    "fx": "The decomposition.",
    "k": "Number of bars. Terms beyond the first ``k - 1`` are drawn together as the last bar.",
    "output": "Name or position of a class or target; by default the first.",
    "limits": "Ends of the numeric axis. By default the axis reaches a little beyond the outermost thresholds. Long "
    "tails with next to no data are cut; the axis label then says how much of the data may lie beyond.",
    "x_scale": 'How numbers are spread along the axis: "linear"; "log", which for numbers of both signs or with zeros '
    'is linear around zero; or "quantile", which makes every interval as wide as its share of the data. The last two '
    "show long tails without cutting them.",
    "extras": "Whether missing and unseen values are shown, separately from the others; by default if the data have "
    "some.",
    "order": 'Order of categories: "auto" (by number if all labels begin with one, else by value), "given", "name", '
    '"value" or "weight" (those with most data first).',
    "max_bars": "Number of bars for categories, 60 by default; those with the least data share the last, which says "
    "how many they are.",
    "ax": "Axes to draw on; by default those of a new figure.",
}
_Function = TypeVar("_Function", bound=Callable[..., Any])


def documented(function: _Function) -> _Function:
    """Replace a line ``{ax}`` of a docstring by the shared entry of `ax`."""

    def entry(match: re.Match[str]) -> str:
        words = textwrap.fill(_ARGUMENTS[match[2]], 110, initial_indent="    ", subsequent_indent="    ")
        return textwrap.indent(f"{match[2]}\n{words}", match[1])

    function.__doc__ = re.sub(r"^( *)\{(\w+)\}$", entry, function.__doc__ or "", flags=re.MULTILINE)
    return function


def plain(text: object) -> str:
    """Escape dollars, which matplotlib reads as formulas."""
    return str(text).replace("\\$", "$").replace("$", r"\$")


def shortened(text: object, n_characters: int = 28) -> str:
    """Shorten a text for matplotlib, with dollars escaped."""
    return plain(arrays.shortened(text, n_characters))


def short_bin_name(label: object, n_characters: int) -> str:
    """Shorten the label of a bin: first "or unseen or missing" at its end, then its name."""
    text = str(label)
    for shared in (" or unseen or missing", " or unseen", " or missing"):
        if text.endswith(shared) and len(text) > n_characters:
            return f"{arrays.shortened(text.removesuffix(shared), n_characters - 9)} or other"
    return arrays.shortened(text, n_characters)


def short_bin_names(names: Sequence[str], n_characters: int) -> list[str]:
    """Shorten labels of bins, so that different ones stay different where possible."""
    return [plain(name) for name in arrays.distinct(names, n_characters, short_bin_name)]


def short_feature_names(names: Sequence[str], n_characters: int) -> dict[str, str]:
    """Return short names, different for different features, by full name."""
    return {name: plain(short) for name, short in zip(names, arrays.distinct(names, n_characters), strict=True)}


def wrapped(text: object, n_characters: int = 44, n_lines: int = 2) -> str:
    """Break a text after spaces and underscores into at most `n_lines` lines; cut out its middle if it is too long."""
    whole = re.sub(r"[^\S\u00a0]+", " ", str(text)).strip()  # a space that does not break stays
    lines = _broken_lines(whole, n_characters)
    if len(lines) > n_lines:
        room = n_characters * n_lines - 4
        short = f"{whole[: room - room // 2 - 1].rstrip()}…{whole[-(room // 2) :].lstrip()}"
        lines = textwrap.wrap(short, n_characters, break_on_hyphens=False)
    return plain("\n".join(lines[:n_lines]))


def wrapped_terms(names: Sequence[str], n_characters: int) -> list[str]:
    """Break labels of terms into two lines; where one is too long, each feature loses its middle, and "×" stays."""
    features = list(dict.fromkeys(feature for name in names for feature in name.split(arrays.SEPARATOR)))
    labels = []
    for name in names:
        in_term = name.split(arrays.SEPARATOR)
        label = name
        if len(in_term) > 1 and len(_broken_lines(name, n_characters)) > 2:
            room = max(2 * n_characters // len(in_term) - len(arrays.SEPARATOR) - 1, 5)
            short = dict(zip(features, arrays.distinct(features, room), strict=True))
            label = arrays.label_of(short[feature] for feature in in_term)
        labels.append(wrapped(label, n_characters))
    return labels


def _broken_lines(text: str, n_characters: int) -> list[str]:
    """Break a text into lines after spaces and underscores, and within longer words."""
    lines = [""]
    for word in re.findall(r"[^ _]*_*[ ]?", text):
        for piece in (word[i : i + n_characters] for i in range(0, len(word), n_characters)):
            if len((lines[-1] + piece).rstrip()) > n_characters:
                lines.append("")
            lines[-1] += piece
    return [line.strip() for line in lines]


def term_name(names: Sequence[str], short_names: Mapping[str, str]) -> str:
    """Return the label of a term, such as "a × b", with short names of its features."""
    return arrays.label_of(short_names[name] for name in names)


def percent_tick(share: float, _: object = None) -> str:
    """Label a tick in per cent, as a formatter of matplotlib, which also passes a position."""
    return f"{round(100 * share, 9):g} %".replace("-", "−")


def signed(value: float, form: str) -> str:
    """Write a number in a format, such as ".3g", with its sign and a true minus; zero has no sign."""
    return f"{value:+{form}}".replace("-", "−") if value else "0"


def font_size(size: float | str) -> float:
    return float(FontProperties(size=size).get_size_in_points())


def n_characters_along(ax: Any, x_or_y: str) -> int:
    """Return about how many characters of a label have room along an axis."""
    extent = ax.get_window_extent()
    points = (extent.width if x_or_y == "x" else extent.height) / ax.figure.dpi * 72
    return max(12, int(points / (CHARACTER_WIDTH * font_size(mpl.rcParams["axes.labelsize"]))))


def number_labels(ticks: Sequence[float]) -> list[str]:
    """Return labels of ticks as matplotlib writes them, without a common factor."""
    formatter = ScalarFormatter(useOffset=False)
    formatter.set_scientific(False)
    formatter.create_dummy_axis()
    formatter.set_locs(list(ticks))
    return [str(formatter(tick)) for tick in ticks]


def checked_axes(ax: Any, width: float, height: float) -> Any:
    """Return the user's axes, or without any those of a new figure with a size in inches."""
    if ax is None:
        return plt.subplots(figsize=(width, height), layout="constrained")[1]
    if not isinstance(ax, Axes):
        raise TypeError(f"`ax` must be matplotlib Axes, got {type(ax).__name__}; pass one of fig.axes or leave it out.")
    return ax


def axes_row(ax: Any, n_axes: int, width: float, height: float) -> list[Any]:
    """Return the user's axes, or new ones side by side, each with a size in inches."""
    if ax is None:
        _, row = plt.subplots(1, n_axes, figsize=(width * n_axes, height), layout="constrained", squeeze=False)
        return list(row.flat)
    panels = list(np.ravel(np.asarray(ax, dtype=object)))
    if len(panels) != n_axes:
        raise ValueError(f"`ax` must hold {n_axes} Axes, got {len(panels)}; pass {n_axes} or leave it out.")
    return [checked_axes(panel, width, height) for panel in panels]


def is_dark() -> bool:
    return float(np.dot(to_rgb(mpl.rcParams["axes.facecolor"]), _LUMINANCE)) < 0.35


def mix(colour: str, other: str, share: float) -> tuple[float, float, float]:
    """Return red, green and blue of a mixture with a share of the other colour."""
    red, green, blue = (1 - share) * np.array(to_rgb(colour)) + share * np.array(to_rgb(other))
    return float(red), float(green), float(blue)


def tone(colour: str) -> Any:
    """Return a colour for lines and text, closer to that of text on a dark background."""
    return mix(colour, mpl.rcParams["text.color"], 0.35) if is_dark() else colour


def faint(colour: str) -> Any:
    """Return the colour for areas in the background, darker on a dark background."""
    return mix(colour, mpl.rcParams["axes.facecolor"], 0.45) if is_dark() else colour


def series_colour(position: int, name: str = "") -> Any:
    """Return the colour of the line at a position among several; that of "raw" is grey."""
    return tone(views.RAW if name == "raw" else views.SERIES[position % len(views.SERIES)])


def sign_colours(values: Sequence[float] | np.ndarray[Any, Any]) -> list[Any]:
    return [tone(views.POSITIVE if value >= 0 else views.NEGATIVE) for value in values]


def tidy(ax: Any) -> None:
    ax.spines[["top", "right"]].set_visible(False)


def zero_line(ax: Any, x_or_y: str) -> None:
    """Draw a thin line where the values along an axis ("x" or "y") are zero."""
    draw = ax.axhline if x_or_y == "y" else ax.axvline
    draw(0, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8, alpha=0.5, zorder=1)


def legend(target: Any, handles: Sequence[Any], names: Sequence[object], **options: Any) -> Any:
    """Add a legend of artists (handles) and their names to axes or a figure, and return it."""
    words = [shortened(name, 32) for name in names]
    words = [f" {word}" if word.startswith("_") else word for word in words]  # older matplotlib hides such names
    return target.legend(list(handles), words, frameon=False, fontsize="small", **options)
