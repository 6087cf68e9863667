"""change(): what moved the mean score, and how one effect changed."""

from __future__ import annotations

import dataclasses
from typing import Any

import matplotlib as mpl
import numpy as np

from treeanova.core.arrays import Floats
from treeanova.decomposition.change import Change
from treeanova.decomposition.side_by_side import EffectSide, effect_sides
from treeanova.model.binning import binning_by
from treeanova.plot import style
from treeanova.plot.choices import (
    KeyLike,
    checked_count,
    data_ends_of,
    find_term,
    names_of,
    output_position,
    term_of,
)
from treeanova.plot.comparisons import compare
from treeanova.plot.contributions import (
    CUT_WORDS,
    Contributions,
    contributions_of,
    frame_of,
    leaves,
    with_rest,
    write_numbers,
)
from treeanova.plot.distributions import Distribution
from treeanova.plot.mains import MainOptions, Series, draw_mains
from treeanova.plot.ranges import Ends
from treeanova.plot.rows import BAR_HEIGHT, list_names
from treeanova.plot.scales import name_effect
from treeanova.views import look

_ALL = "all together"


def change(
    change: Change,
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
    """Axes with what moved the mean score, term by term, or with one effect before and after.

    Parameters
    ----------
    change
        Result of `treeanova.change`.
    key
        Name of a feature, to draw its main effect in both models, with the old and the new rows below; or names of two,
        for heat maps of both. By default bars of all terms.
    k
        Number of bars of terms. Terms beyond the first ``k - 1`` are drawn together as the last bar.
    output
        Name or position of a class or target; by default the first.
    limits, x_scale, order, max_bars
        How a main effect is drawn, as in `effect`.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of Axes
        An array for the heat maps of two features.

    Notes
    -----
    Blue is what the new rows change in the mean of the old model (`population`), orange what the new model changes at
    the new rows (`model`); the dot and the number are their sum. Both models are shown under the density of the old
    rows.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1, on four rows
    >>> ax = treeanova.plot.change(treeanova.change(fx, fx, X_new=X[2:]))
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['all together', 'intercept', 'x0', 'x1', 'x0 × x1']
    >>> [float(bar.get_width()) for bar in ax.containers[0]]
    [0.25, 0.0, 0.25, 0.0, 0.0]
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not isinstance(change, Change):
        kind = type(change).__name__
        raise TypeError(f"`change` must be a Change, got {kind}; make one with treeanova.change(old, new).")
    position = output_position(change.old, output)
    if key is None:
        return _draw_terms(change, position, checked_count(k), ax)
    if len(names_of(key)) > 1:
        return compare({"old": change.old, "new": change.new}, key, output=output, x_scale=x_scale, ax=ax)
    options = MainOptions(limits=limits, order=order, max_bars=max_bars, x_scale=x_scale)
    return _draw_effect(change, key, position, options, ax)


# Bars.


def _draw_terms(change: Change, position: int, k: int, ax: Any) -> Any:
    fx = change.old
    terms = contributions_of(change.table, ("population", "model"), fx.outputs, position)
    shown = _with_total(with_rest(terms, k + 1), change, position)  # the intercept is no term
    ax = style.checked_axes(ax, 7.2, 1.6 + BAR_HEIGHT * max(len(shown.names), 4))
    handles, is_cut = _draw_stacks(ax, *shown.columns)
    ax.axhline(0.5, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8, alpha=0.5)
    list_names(ax, shown.names)
    before, after = (float(np.atleast_1d(mean)[position]) for mean in (change.old_mean, change.new_mean))
    scale = f"{look.scale_of(fx.schema)}{look.of_output(fx.schema, fx.outputs[position])}"
    ends = f"from {before:.4g} to {after:.4g}".replace("-", "−")
    name_effect(ax, f"what moved the mean {scale} {ends}{CUT_WORDS if is_cut else ''}", "x")
    style.legend(ax, list(handles.values()), list(handles), loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    style.tidy(ax)
    return ax


def _with_total(terms: Contributions, change: Change, position: int) -> Contributions:
    """The same with the sums of all terms first."""
    sums = (np.atleast_1d(value)[position] for value in (change.population, change.model))
    columns = tuple(np.append(total, column) for total, column in zip(sums, terms.columns, strict=True))
    return Contributions([_ALL, *terms.names], columns)


def _draw_stacks(ax: Any, population: Floats, model: Floats) -> tuple[dict[str, Any], bool]:
    """Draw both parts of each row on one line, positive ones to the right and negative ones to the left of zero.

    Returns what a legend explains, and whether some bars leave the frame.
    """
    total = population + model
    ends = [_ends(*row) for row in zip(population.tolist(), model.tolist(), strict=True)]
    frame = frame_of(ends, n_heads=2)
    is_cut = np.array([leaves(end, frame) for end in ends])
    write_numbers(ax, ends, total.tolist(), frame)
    shrunk = np.array([min([1.0, *(side / own for side, own in zip(frame, end, strict=True) if own)]) for end in ends])
    bars = _draw_pieces(ax, population * shrunk, model * shrunk)  # in proportion where they are cut
    ink, edge = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    dots = np.flatnonzero(~is_cut)
    (sums,) = ax.plot(total[dots], dots, "o", color=ink, markeredgecolor=edge, markersize=6, zorder=4)
    return bars | {"their sum": sums}, bool(is_cut.any())


def _draw_pieces(ax: Any, population: Floats, model: Floats) -> dict[str, Any]:
    rows = np.arange(len(population))
    style.zero_line(ax, "x")
    start = np.where(np.sign(population) == np.sign(model), population, 0.0)
    return {
        "population": ax.barh(rows, population, 0.66, color=style.series_colour(0), alpha=0.9, zorder=3),
        "model": ax.barh(rows, model, 0.66, left=start, color=style.series_colour(1), alpha=0.9, zorder=3),
    }


def _ends(population: float, model: float) -> Ends:
    """Left and right end of the bars of a row."""
    corners = [0.0, population, model, *([population + model] if population * model > 0 else [])]
    return min(corners), max(corners)


# One effect.


def _draw_effect(change: Change, key: KeyLike, position: int, options: MainOptions, ax: Any) -> Any:
    """The main effect of one feature before and after, over the old and the new rows."""
    name = names_of(key)[0]
    if all(find_term(fx, name) is None for fx in (change.old, change.new)):
        term_of(change.old, name)  # raises, with a list of the terms that there are
    j, schema = change.old.schema.names.index(name), change.old.schema
    series, spread = [], []
    for i, (label, side) in enumerate(zip(("old", "new"), effect_sides(change, name), strict=True)):
        colour, rows = style.series_colour(i), (change.old_rows, change.new_rows)[i]
        values = side.values[..., position]
        weights = side.shares if side.rows_axis is side.axis else _pooled(side)
        series.append(Series(label, side.axis, values, weights, colour, ends=data_ends_of(rows, j)))
        spread.append(Distribution(f"{label} rows", side.rows_axis, side.shares, colour))
    words = look.effect_words(schema, schema.outputs[position])
    return draw_mains(series, words, dataclasses.replace(options, distributions=tuple(spread)), ax)


def _pooled(side: EffectSide) -> Floats:
    """Share of the rows in each bin of a model's own axis of numbers."""
    return binning_by(side.axis.index(side.rows_axis.examples()).astype(np.int64)).pool(side.shares)
