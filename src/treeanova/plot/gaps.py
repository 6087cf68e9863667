"""gap(): what makes the mean scores of two groups differ, and one effect over the rows of both."""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib as mpl
import numpy as np

from treeanova.core.arrays import Floats
from treeanova.decomposition.gap import Gap
from treeanova.decomposition.parts import shares_of_cells
from treeanova.plot import style
from treeanova.plot.choices import (
    KeyLike,
    check_order,
    checked_count,
    checked_decomposition,
    data_ends_of,
    names_of,
    of_output,
    output_position,
    term_of,
)
from treeanova.plot.contributions import Contributions, contributions_of, frame_of, with_rest, write_numbers
from treeanova.plot.distributions import Distribution
from treeanova.plot.mains import MainOptions, Series, draw_mains
from treeanova.plot.rows import BAR_HEIGHT, list_names
from treeanova.plot.scales import name_effect
from treeanova.views import look


def gap(
    gap: Gap,
    key: KeyLike | None = None,
    *,
    k: int = 15,
    output: str | int | None = None,
    limits: tuple[float, float] | None = None,
    x_scale: str = "linear",
    order: str = "auto",
    max_bars: int | None = None,
    ax: Any = None,
) -> Any:
    """Axes with what makes the mean scores of two groups differ, or with one effect over the rows of both.

    Parameters
    ----------
    gap
        Result of ``fx.gap``.
    key
        Name of a feature, to draw its main effect with the rows of both groups below. By default bars of all terms.
    k
        Number of bars. Terms beyond the first ``k - 1`` are drawn together as the last bar, without its error.
    output
        Name or position of a class or target; by default the first.
    limits, x_scale, order, max_bars
        How a main effect is drawn, as in `effect`.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Thin lines reach two standard errors over rows to either side.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.gap(fx.gap(X, "x0"))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['all together', 'x0', 'x1', 'x0 × x1']
    >>> [float(bar.get_width()) for bar in ax.patches]
    [0.5, 0.5, 0.0, 0.0]
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not isinstance(gap, Gap):
        raise TypeError(f"`gap` must be a Gap, got {type(gap).__name__}; make one with fx.gap(X, group).")
    fx = checked_decomposition(gap.fx)
    position = output_position(fx, output)
    if key is None:
        return _draw_terms(gap, position, checked_count(k), ax)
    options = MainOptions(limits=limits, order=order, max_bars=max_bars, x_scale=x_scale)
    return _draw_effect(gap, key, position, options, ax)


def _draw_terms(gap: Gap, position: int, k: int, ax: Any) -> Any:
    fx = gap.fx
    terms = with_rest(contributions_of(gap.table, ("gap", "error"), fx.outputs, position), k)
    n_listed = len(gap.table) // len(fx.outputs)
    if n_listed > k:
        terms.columns[1][-1] = np.nan  # errors do not add up
    total, error = (float(np.atleast_1d(value)[position]) for value in (gap.total, gap.error))
    values, errors = (np.append(first, column) for first, column in zip((total, error), terms.columns, strict=True))
    shown = Contributions(["all together", *terms.names], (values, errors))
    ax = style.checked_axes(ax, 7.2, 1.4 + BAR_HEIGHT * max(len(shown.names), 4))
    _draw_bars(ax, values, errors)
    list_names(ax, shown.names)
    scale = f"{look.scale_of(fx.schema)}{look.of_output(fx.schema, fx.outputs[position])}"
    name_effect(ax, f"difference in mean {scale}: {gap.groups[1]} minus {gap.groups[0]}", "x")
    style.tidy(ax)
    return ax


def _draw_bars(ax: Any, values: Floats, errors: Floats) -> None:
    """Draw bars with two standard errors to either side; the first row is the sum of all others."""
    rows = np.arange(len(values))
    style.zero_line(ax, "x")
    colours = [style.tone(look.POSITIVE if value >= 0 else look.NEGATIVE) for value in values]
    ax.barh(rows, values, 0.66, color=colours, alpha=0.9, zorder=2)
    known = np.isfinite(errors)
    ink = mpl.rcParams["text.color"]
    ax.errorbar(values[known], rows[known], xerr=2 * errors[known], fmt="none", ecolor=ink, elinewidth=1.0, zorder=4)
    reach = np.where(known, 2 * errors, 0.0)
    low, high = np.minimum(values - reach, 0.0), np.maximum(values + reach, 0.0)
    ends = list(zip(low.tolist(), high.tolist(), strict=True))
    write_numbers(ax, ends, values.tolist(), frame_of(ends, n_heads=len(ends)))
    ax.axhline(0.5, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8, alpha=0.5)


def _draw_effect(gap: Gap, key: KeyLike, position: int, options: MainOptions, ax: Any) -> Any:
    """The main effect of one feature, over the rows of the two groups."""
    check_order(key, 1, "the gap of an interaction is in gap.table")
    fx, name = checked_decomposition(gap.fx), names_of(key)[0]
    term, j = term_of(fx, name), fx.schema.names.index(name)
    shares = [shares_of_cells(fx.evaluation, rows, (j,)) for rows in gap.rows]
    pooled = np.average(shares, axis=0, weights=[rows.totals.weight for rows in gap.rows])
    ends = [end for rows in gap.rows if (end := data_ends_of(rows, j)) is not None]
    series = Series(
        name="effect",
        axis=term.axes[0],
        values=of_output(fx, term.values, position),
        weights=pooled,
        colour=style.tone(look.MAIN),
        ends=(min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
    )
    spread = tuple(
        Distribution(group, term.axes[0], share, style.series_colour(1 + i))
        for i, (group, share) in enumerate(zip(gap.groups, shares, strict=True))
    )
    words = look.effect_words(fx.schema, fx.outputs[position])
    return draw_mains([series], words, dataclasses.replace(options, distributions=spread), ax)
