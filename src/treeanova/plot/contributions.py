"""Bars of contributions to a difference of mean scores: columns of a table by term, some of its rows added up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np

from treeanova.core.arrays import Floats
from treeanova.plot.ranges import Ends
from treeanova.plot.text import signed
from treeanova.views.standings import as_lists

CUT_WORDS = "; bars that leave the frame are cut"
_LONGEST_HEAD = 4.0  # of sums, relative to the range of terms


class Contributions(NamedTuple):
    """Terms with numbers each, one array per column of the table, the first rows of one output."""

    names: list[str]
    columns: tuple[Floats, ...]


def contributions_of(table: Any, columns: Sequence[str], outputs: Sequence[str], position: int) -> Contributions:
    """Rows of a table of terms that belong to one output."""
    lists = as_lists(table)
    rows = [i for i in range(len(lists["term"])) if len(outputs) == 1 or lists["output"][i] == outputs[position]]
    arrays = tuple(np.array([lists[name][i] for i in rows], dtype=np.float64) for name in columns)
    return Contributions([str(lists["term"][i]) for i in rows], arrays)


def with_rest(all_terms: Contributions, k: int) -> Contributions:
    """The first k - 1 rows and the sum of all others, where there are more than k."""
    names, columns = all_terms
    if len(names) <= k:
        return all_terms
    summed = tuple(np.append(column[: k - 1], column[k - 1 :].sum()) for column in columns)
    return Contributions([*names[: k - 1], f"{len(names) - k + 1} other terms"], summed)


def frame_of(ends: Sequence[Ends], n_heads: int) -> Ends:
    """Ends of the frame for bars whose ends are given, with room for numbers.

    The first `n_heads` rows are sums and the intercept: where they are far longer than all others, the frame ends
    before them, so that terms can be seen.
    """
    whole, terms = _hull(ends), _hull(ends[n_heads:])
    length, shortest = (high - low for low, high in (whole, terms))
    low, high = terms if 0 < shortest * _LONGEST_HEAD < length else whole
    span = (high - low) or 1.0
    return low - 0.18 * span, high + 0.18 * span


def _hull(ends: Sequence[Ends]) -> Ends:
    return min((*(end[0] for end in ends), 0.0)), max((*(end[1] for end in ends), 0.0))


def leaves(ends: Ends, frame: Ends) -> bool:
    """Whether a bar is longer than the frame."""
    return ends[0] < frame[0] or ends[1] > frame[1]


def write_numbers(ax: Any, ends: Sequence[Ends], numbers: Sequence[float], frame: Ends) -> None:
    """Write a number at the outer end of each row's bars, and set the frame."""
    ax.set_xlim(*frame)
    room = 0.018 * (frame[1] - frame[0])
    for i, (own, number) in enumerate(zip(ends, numbers, strict=True)):
        if leaves(own, frame):
            _write_at_edge(ax, i, number, frame)
            continue
        at, side = (own[1] + room, "left") if number >= 0 else (own[0] - room, "right")
        ax.text(at, i, signed(number, ".3g"), va="center", ha=side, fontsize="small", zorder=5)


def _write_at_edge(ax: Any, row: int, number: float, frame: Ends) -> None:
    """Write a number where its bar leaves the frame."""
    text = f"{signed(number, '.3g')} ▸" if number >= 0 else f"◂ {signed(number, '.3g')}"
    at, side = (frame[1], "right") if number >= 0 else (frame[0], "left")
    patch = {"facecolor": mpl.rcParams["axes.facecolor"], "linewidth": 0, "pad": 1.5, "alpha": 0.9}
    ax.text(at, row, text, va="center", ha=side, fontsize="small", zorder=5, bbox=patch)
