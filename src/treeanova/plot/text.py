"""Text that fits: names shortened or wrapped, shares and numbers as people write them."""

from __future__ import annotations

import bisect
import itertools
import re
import textwrap
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import matplotlib as mpl
from matplotlib.ticker import ScalarFormatter

from treeanova.core.labels import label_of

_LONGEST_WORD = 12
CHARACTER_WIDTH = 0.52  # of the font size


def plain(text: object) -> str:
    """Text that matplotlib shows as it is, without formulas between dollars."""
    return str(text).replace("\\$", "$").replace("$", r"\$")


def shortened(text: object, n_characters: int = 28) -> str:
    """The text with its middle left out where it is too long."""
    words = " ".join(str(text).split())
    if len(words) <= n_characters:
        return plain(words)
    tail = (n_characters - 1) // 3
    return plain(f"{words[: n_characters - 1 - tail].rstrip()}…{words[-tail:].lstrip()}")


def bin_name(label: str, n_characters: int) -> str:
    """The label of a bin, with "or unseen or missing" at its end shortened before the rest."""
    for shared in (" or unseen or missing", " or unseen", " or missing"):
        if label.endswith(shared) and len(label) > n_characters:
            return f"{shortened(label.removesuffix(shared), n_characters - 9)} or other"
    return shortened(label, n_characters)


def bin_names(labels: Sequence[str], n_characters: int) -> list[str]:
    """Labels of bins, shortened, each different from the others."""
    return _distinct(labels, n_characters, bin_name)


def feature_names(names: Sequence[str], n_characters: int) -> dict[str, str]:
    """Names of features, shortened, each different from the others; by their whole names."""
    return dict(zip(names, _distinct(names, n_characters, shortened), strict=True))


def _distinct(labels: Sequence[str], n_characters: int, shorten: Callable[[str, int], str]) -> list[str]:
    """Labels, shortened; those that would begin alike are cut where they agree instead."""
    ordered = sorted(set(labels))
    return [_where_it_differs(label, ordered, n_characters) or shorten(label, n_characters) for label in labels]


def _where_it_differs(label: str, ordered: Sequence[str], n_characters: int) -> str:
    """A long label without what it shares with those that begin most like it; empty where its start tells it apart."""
    place = bisect.bisect_left(ordered, label)
    alike = [*ordered[max(place - 1, 0) : place], *ordered[place + 1 : place + 2]]
    start = max((_n_shared([label, other]) for other in alike), default=0)
    if len(label) <= n_characters or start < len(shortened(label, n_characters).partition("…")[0]):
        return ""
    start -= _n_of_word(label[:start][::-1])
    group = [other for other in ordered if other.startswith(label[:start])]
    end = min(_n_shared([other[::-1] for other in group]), min(map(len, group)) - start)
    own = label[start : len(label) - end + _n_of_word(label[len(label) - end :])]
    kept = min(start, max(0, n_characters - 2 - len(own)))
    return shortened(f"{label[:kept].rstrip()}…{own}{'…' if end else ''}", n_characters)


def _n_of_word(text: str) -> int:
    """Number of characters with which a text begins in the middle of a word, so that words are shown whole."""
    word = len(next(iter(re.findall(r"^[^\W_]*", text))))
    return word if word <= _LONGEST_WORD else 0


def _n_shared(texts: Sequence[str]) -> int:
    """Number of characters with which all texts begin."""
    return sum(1 for _ in itertools.takewhile(lambda letters: len(set(letters)) == 1, zip(*texts, strict=False)))


def wrapped(text: object, n_characters: int = 44, n_lines: int = 2) -> str:
    """The text on at most `n_lines` lines, broken after spaces and underscores, its middle left out where it is long."""
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
    return label_of(short[name] for name in names)


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
