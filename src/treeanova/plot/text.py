"""Text that fits: names shortened or wrapped, shares and numbers as people write them."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import ScalarFormatter

from treeanova.core import labels

CHARACTER_WIDTH = 0.52  # of the font size


def plain(text: object) -> str:
    """Text that matplotlib shows as it is, without formulas between dollars."""
    return str(text).replace("\\$", "$").replace("$", r"\$")


def shortened(text: object, n_characters: int = 28) -> str:
    """The text with its middle left out where it is too long."""
    return plain(labels.shortened(text, n_characters))


def bin_name(label: object, n_characters: int) -> str:
    """The label of a bin, with "or unseen or missing" at its end shortened before the rest."""
    text = str(label)
    for shared in (" or unseen or missing", " or unseen", " or missing"):
        if text.endswith(shared) and len(text) > n_characters:
            return f"{labels.shortened(text.removesuffix(shared), n_characters - 9)} or other"
    return labels.shortened(text, n_characters)


def bin_names(names: Sequence[str], n_characters: int) -> list[str]:
    """Labels of bins, shortened, each different from the others."""
    return [plain(name) for name in labels.distinct(names, n_characters, bin_name)]


def feature_names(names: Sequence[str], n_characters: int) -> dict[str, str]:
    """Names of features, shortened, each different from the others; by their whole names."""
    return {name: plain(short) for name, short in zip(names, labels.distinct(names, n_characters), strict=True)}


def wrapped(text: object, n_characters: int = 44, n_lines: int = 2) -> str:
    """The text on at most `n_lines` lines, broken after spaces and underscores; without its middle where it is long."""
    whole = " ".join(str(text).split())
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
    return labels.label_of(short[name] for name in names)


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
