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


def write_numbers(ax: Any, ends: Sequence[Ends], numbers: Sequence[float], n_heads: int) -> bool:
    """Write a number at the outer end of each row's bars; whether bars of the first rows were cut for the others' sake.

    `ends` are the left and right ends of what is drawn in each row. The first `n_heads` rows are sums and the intercept:
    where they are far longer than all others, the frame ends before them, so that terms can be seen.
    """
    low, high = _frame(ends, n_heads)
    span = high - low
    ax.set_xlim(low - 0.18 * span, high + 0.18 * span)
    inside = ax.get_xlim()
    for i, ((left, right), number) in enumerate(zip(ends, numbers, strict=True)):
        is_cut = left < inside[0] or right > inside[1]
        if is_cut:
            _write_at_edge(ax, i, number, inside)
            continue
        at, side = (right + 0.025 * span, "left") if number >= 0 else (left - 0.025 * span, "right")
        ax.text(at, i, signed(number, ".3g"), va="center", ha=side, fontsize="small", zorder=5)
    return any(left < inside[0] or right > inside[1] for left, right in ends)


def _frame(ends: Sequence[Ends], n_heads: int) -> Ends:
    """Ends of the frame: those of all rows, or those of the terms where the first rows are far longer."""
    whole, terms = _hull(ends), _hull(ends[n_heads:])
    length, shortest = (high - low for low, high in (whole, terms))
    low, high = terms if 0 < shortest * _LONGEST_HEAD < length else whole
    return (low, high) if high > low else (-0.5, 0.5)


def _hull(ends: Sequence[Ends]) -> Ends:
    return min((*(end[0] for end in ends), 0.0)), max((*(end[1] for end in ends), 0.0))


def _write_at_edge(ax: Any, row: int, number: float, inside: Ends) -> None:
    """Write a number where its bar leaves the frame."""
    text = f"{signed(number, '.3g')} ▸" if number >= 0 else f"◂ {signed(number, '.3g')}"
    at, side = (inside[1], "right") if number >= 0 else (inside[0], "left")
    patch = {"facecolor": mpl.rcParams["axes.facecolor"], "linewidth": 0, "pad": 1.5, "alpha": 0.9}
    ax.text(at, row, text, va="center", ha=side, fontsize="small", zorder=5, bbox=patch)
