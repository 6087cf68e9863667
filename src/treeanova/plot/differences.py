"""change(), gap(), compare(), monotonicity(): how decompositions, groups and steps of a feature differ."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.patches import Patch

from treeanova import views
from treeanova.core.arrays import Floats
from treeanova.decomposition.change import Change, effect_sides
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.gap import Gap
from treeanova.decomposition.monotonicity import Monotonicity
from treeanova.decomposition.predictions import Term, function_of
from treeanova.model.grid import binning_by
from treeanova.plot import bars, choices, pairs, style
from treeanova.plot.choices import KeyLike
from treeanova.plot.effects import MainOptions, Series, draw_mains
from treeanova.plot.scales import Distribution, name_effect
from treeanova.plot.style import documented, short_bin_name, shortened

ALL = "all together"
_MOST_LABELS = 7
_LABEL_LENGTH = 18
_MOST_CHARACTERS = 55  # of all labels side by side


@documented
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
    """Draw what makes the mean scores of two groups differ, or one effect over the rows of both.

    Parameters
    ----------
    gap
        Result of ``fx.gap``.
    key
        Name of a feature, to draw its main effect with the rows of both groups below. By default bars of all terms.
    {k}
    {output}
    limits, x_scale, order, max_bars
        How a main effect is drawn, as in `effect`.
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    Thin lines are two standard errors to either side; a last bar of several terms has none.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.gap(fx.gap(X, "x0"))
    >>> {label.get_text(): float(bar.get_width()) for label, bar in zip(ax.get_yticklabels(), ax.patches)}
    {'all together': 0.5, 'x0': 0.5, 'x1': 0.0, 'x0 × x1': 0.0}
    """
    choices.checked_kind(gap, Gap, "gap", "fx.gap(X, group)")
    output_index = choices.output_position(choices.checked_decomposition(gap.fx), output)
    if key is None:
        return _draw_gap_terms(gap, output_index, choices.checked_count(k), ax)
    options = MainOptions(limits=limits, order=order, max_bars=max_bars, x_scale=x_scale)
    return _draw_gap_effect(gap, key, output_index, options, ax)


def gap_bars(gap: Gap, output_index: int) -> bars.Bars:
    """Return the total gap and that of each term, with errors."""
    terms = bars.bars_of(gap.table, ("gap", "error"), gap.fx.outputs[output_index])
    return _with_total(terms, (gap.total, gap.error), output_index)


def change_bars(change: Change, output_index: int) -> bars.Bars:
    """Return the total change and that of each term, by population and by model."""
    terms = bars.bars_of(change.table, ("population", "model"), change.old.outputs[output_index])
    return _with_total(terms, (change.population, change.model), output_index)


def _with_total(terms: bars.Bars, totals: Sequence[float | Floats], output_index: int) -> bars.Bars:
    """Put a bar of totals first, one per column of `terms`."""
    sums = [np.atleast_1d(total)[output_index] for total in totals]
    columns = {name: np.append(total, terms.columns[name]) for name, total in zip(terms.columns, sums, strict=True)}
    return bars.Bars([ALL, *terms.names], columns)


def _draw_gap_terms(gap: Gap, output_index: int, k: int, ax: Any) -> Any:
    """Draw the gap of all terms together, then of the k largest, as bars with whiskers of two errors; return axes."""
    fx = gap.fx
    terms = bars.with_rest(gap_bars(gap, output_index), k + 1, sums=bars.sums_of_terms(fx))  # besides the sum of all
    values, errors = terms.columns["gap"], terms.columns["error"]
    ax = style.checked_axes(ax, 7.2, 1.4 + bars.BAR_HEIGHT * max(len(terms.names), 4))
    rows, has_error = np.arange(len(values)), np.isfinite(errors)
    style.zero_line(ax, "x")
    ax.barh(rows, values, 0.66, color=style.sign_colours(values), alpha=0.9, zorder=2)
    ink = mpl.rcParams["text.color"]
    ax.errorbar(
        values[has_error], rows[has_error], xerr=2 * errors[has_error], fmt="none", ecolor=ink, elinewidth=1.0, zorder=4
    )
    reach = np.where(has_error, 2 * errors, 0.0)
    low, high = np.minimum(values - reach, 0.0), np.maximum(values + reach, 0.0)
    ends = list(zip(low.tolist(), high.tolist(), strict=True))
    bars.write_numbers(ax, ends, values.tolist(), bars.frame_of(ends, len(ends), ax))
    scale = f"{views.scale_of(fx.schema)}{views.output_suffix(fx.schema, fx.outputs[output_index])}"
    _label_bars(ax, terms.names, f"difference in mean {scale}: {gap.groups[1]} minus {gap.groups[0]}")
    return ax


def _label_bars(ax: Any, names: Sequence[str], words: str) -> None:
    """Name bars, say in words what their lengths mean, and divide the first, a total, from the others."""
    ax.axhline(0.5, color=mpl.rcParams["axes.edgecolor"], linewidth=0.8, alpha=0.5)
    bars.list_names(ax, names)
    name_effect(ax, words, "x")
    style.tidy(ax)


def _draw_gap_effect(gap: Gap, key: KeyLike, output_index: int, options: MainOptions, ax: Any) -> Any:
    """Draw a main effect over the distributions of both groups; return axes."""
    fx = choices.checked_decomposition(gap.fx)
    key = choices.without_label(fx, key)
    choices.check_order(key, 1, "the gap of an interaction is in gap.table")
    name = choices.names_of(key)[0]
    term, j = choices.term_of(fx, name), fx.schema.names.index(name)
    shares = [function_of(fx).table_weights_at(rows, (j,)) for rows in gap.rows]
    ends = [end for rows in gap.rows if (end := choices.data_ends_of(rows, j)) is not None]
    series = Series(
        name="effect",
        axis=term.axes[0],
        values=choices.at_output(fx, term.values, output_index),
        weights=np.average(shares, axis=0, weights=[rows.totals.weight for rows in gap.rows]),
        colour=style.tone(views.MAIN),
        ends=(min(low for low, _ in ends), max(high for _, high in ends)) if ends else None,
    )
    distributions = tuple(
        Distribution(group, term.axes[0], share, style.series_colour(1 + i))
        for i, (group, share) in enumerate(zip(gap.groups, shares, strict=True))
    )
    words = views.effect_words(fx.schema, fx.outputs[output_index])
    return draw_mains([series], words, dataclasses.replace(options, distributions=distributions), ax)


class _Side(NamedTuple):
    """A term of one decomposition; without such a term, another's with values of zero."""

    name: str
    fx: Decomposition
    term: Term
    values: Floats
    has_term: bool


@documented
def compare(
    decompositions: Mapping[str, Decomposition] | Sequence[Decomposition],
    key: KeyLike,
    *,
    output: str | int | None = None,
    x_scale: str = "linear",
    limits: tuple[float, float] | None = None,
    extras: bool | None = None,
    order: str = "auto",
    max_bars: int | None = None,
    data: bool = True,
    ax: Any = None,
) -> Any:
    """Draw one term of several decompositions: a main effect in one frame, or heat maps of a pair side by side.

    Parameters
    ----------
    decompositions
        Decompositions by name, ``{"raw": fx.raw, "pure": fx}``, or a list of them, which are then named by their
        densities. One that lacks the term is drawn at zero.
    key
        Name of one feature, or names of two; the one named first goes across. If no decomposition has it, ValueError.
    {output}
    x_scale, limits, extras, order, max_bars
        How a main effect is drawn, as in `effect`; "quantile" uses the data of the first decomposition, the order
        "value" sorts by the last. A pair takes `x_scale` for the axis that goes across.
    data
        Whether to show how the data of the first decomposition are spread, for a main effect.
    ax
        Axes to draw on (for a pair, one for each decomposition); by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of Axes
        One for a main effect; an array with one for each decomposition for a pair.

    Examples
    --------
    Before purification the whole model is one interaction, without main effects:

    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> axes = treeanova.plot.compare({"raw": fx.raw, "pure": fx}, ("x0", "x1"))
    >>> for ax in axes:
    ...     print(ax.get_title(), ax.collections[0].get_array().tolist())
    raw [[0.0, 0.0], [0.0, 1.0]]
    pure [[0.25, -0.25], [-0.25, 0.25]]
    """
    by_name = choices.named_decompositions(decompositions)
    first = next(iter(by_name.values()))
    output_index = choices.output_position(first, output)
    words = views.effect_words(first.schema, first.outputs[output_index])
    if any(fx.certificate.is_raw for fx in by_name.values()):
        words = words.removesuffix(" against the average")  # raw terms have other averages
    key = choices.without_label(first, key)
    if len(choices.names_of(key)) == 1:
        options = MainOptions(limits, extras, order, max_bars, data, x_scale)
        return draw_mains(_main_series(_sides(by_name, key, output_index)), words, options, ax)
    choices.check_order(key, 2, "a comparison has room for one or two")
    pair_options = pairs.PairOptions(extras=extras, words=words, x_scale=x_scale)
    return _compare_pairs(_sides(by_name, key, output_index), key, pair_options, ax)


def _sides(decompositions: Mapping[str, Decomposition], key: KeyLike, output_index: int) -> list[_Side]:
    """Return one term of each decomposition, for one output; zero, on the bins of another, if one lacks it."""
    terms = {name: choices.find_term(fx, key) for name, fx in decompositions.items()}
    template = next((term for term in terms.values() if term is not None), None)
    if template is None:
        template = choices.term_of(next(iter(decompositions.values())), key)  # raises, with a list of terms
    sides = []
    for name, fx in decompositions.items():
        term = terms[name]
        values = choices.at_output(fx, np.zeros_like(template.values) if term is None else term.values, output_index)
        sides.append(_Side(name, fx, term or template, values, term is not None))
    return sides


def _main_series(sides: Sequence[_Side]) -> list[Series]:
    """Return main effects to draw, each in its own colour; raw ones are grey."""
    coloured = [side.name for side in sides if side.name != "raw"]
    return [
        Series(
            name=side.name if side.has_term else f"{side.name}: no such term",
            axis=side.term.axes[0],
            values=side.values,
            weights=side.term.weights,
            colour=style.series_colour(coloured.index(side.name) if side.name in coloured else 0, side.name),
            ends=choices.data_ends(side.fx, side.term.features[0]),
        )
        for side in sides
    ]


def _compare_pairs(sides: Sequence[_Side], key: KeyLike, options: pairs.PairOptions, ax: Any) -> Any:
    """Draw a pair of each decomposition as a heat map, with common axes and colours; return their axes, an array."""
    across = pairs.name_across(key, sides[0].term)
    axis_choices = pairs.axis_choices(options, [(side.fx, side.term) for side in sides], across)
    planes = [pairs.plane_of(side.term, side.values, across, axis_choices, options.extras) for side in sides]
    limit = pairs.colour_limit(planes)
    planes = [dataclasses.replace(plane, limit=limit) for plane in planes]
    row = style.axes_row(ax, len(planes), 4.4, 4.2)
    for side, plane, panel in zip(sides, planes, row, strict=True):
        mesh = pairs.draw_plane(plane, panel)
        panel.set_title(shortened(side.name, 36))
    for panel in row[1:]:
        panel.set_ylabel("")
    pairs.draw_colorbar(mesh, planes, options.words, row)
    return np.array(row, dtype=object)


@documented
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
    """Draw what moved the mean score, term by term, or one effect before and after.

    Parameters
    ----------
    change
        Result of `treeanova.change`.
    key
        Name of a feature, to draw its main effect in both models, with the old and the new rows below; or names of two,
        for heat maps of both. By default bars of all terms.
    {k}
    {output}
    limits, x_scale, order, max_bars
        How a main effect is drawn, as in `effect`.
    {ax}

    Returns
    -------
    matplotlib.axes.Axes or array of Axes
        An array for the heat maps of two features.

    Notes
    -----
    Blue is what the new rows change in the mean of the old model (`population`), orange what the new model changes at
    the new rows (`model`); dot and number are their sum. Both models have the density of the old rows.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1, on four rows
    >>> ax = treeanova.plot.change(treeanova.change(fx, fx, X_new=X[2:]))
    >>> {label.get_text(): float(bar.get_width()) for label, bar in zip(ax.get_yticklabels(), ax.containers[0])}
    {'all together': 0.25, 'intercept': 0.0, 'x0': 0.25, 'x1': 0.0, 'x0 × x1': 0.0}
    """
    choices.checked_kind(change, Change, "change", "treeanova.change(old, new)")
    output_index = choices.output_position(change.old, output)
    if key is None:
        return _draw_change_terms(change, output_index, choices.checked_count(k), ax)
    key = choices.without_label(change.old, key)
    if len(choices.names_of(key)) > 1:
        return compare({"old": change.old, "new": change.new}, key, output=output, x_scale=x_scale, ax=ax)
    options = MainOptions(limits=limits, order=order, max_bars=max_bars, x_scale=x_scale)
    return _draw_change_effect(change, key, output_index, options, ax)


def _draw_change_terms(change: Change, output_index: int, k: int, ax: Any) -> Any:
    """Draw what population and model contribute to the change, in all and by the k strongest terms; return axes."""
    fx = change.old
    sums = bars.sums_of_terms(fx)
    terms = bars.with_rest(change_bars(change, output_index), k + 2, sums=sums)  # besides total and intercept
    ax = style.checked_axes(ax, 7.2, 1.6 + bars.BAR_HEIGHT * max(len(terms.names), 4))
    handles, is_cut = _draw_stacks(ax, *terms.columns.values())
    before, after = (float(np.atleast_1d(mean)[output_index]) for mean in (change.old_mean, change.new_mean))
    scale = f"{views.scale_of(fx.schema)}{views.output_suffix(fx.schema, fx.outputs[output_index])}"
    ends = f"from {before:.4g} to {after:.4g}".replace("-", "−")
    _label_bars(ax, terms.names, f"what moved the mean {scale} {ends}{bars.CUT_WORDS if is_cut else ''}")
    style.legend(ax, list(handles.values()), list(handles), loc="lower right", bbox_to_anchor=(1.0, 1.0), ncols=3)
    return ax


def _draw_stacks(ax: Any, population: Floats, model: Floats) -> tuple[dict[str, Any], bool]:
    """Draw both contributions to each row; return legend entries (name to artist), and whether the frame cuts bars."""
    # Positive ones are on the right of zero and negative ones on the left; those of one sign are end to end.
    total = population + model
    corners = np.stack([np.zeros_like(total), population, model, np.where(population * model > 0, total, 0.0)])
    ends = list(zip(corners.min(axis=0).tolist(), corners.max(axis=0).tolist(), strict=True))
    frame = bars.frame_of(ends, 2, ax)
    bars.write_numbers(ax, ends, total.tolist(), frame)
    rows, start = np.arange(len(total)), np.where(np.sign(population) == np.sign(model), population, 0.0)
    style.zero_line(ax, "x")
    ink, edge = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    handles = {
        "population": ax.barh(rows, population, 0.66, color=style.series_colour(0), alpha=0.9, zorder=3),
        "model": ax.barh(rows, model, 0.66, left=start, color=style.series_colour(1), alpha=0.9, zorder=3),
    }
    dots = np.flatnonzero((frame[0] <= total) & (total <= frame[1]))
    (sums,) = ax.plot(total[dots], dots, "o", color=ink, markeredgecolor=edge, markersize=6, zorder=4)
    return handles | {"their sum": sums}, any(bars.leaves_frame(end, frame) for end in ends)


def _draw_change_effect(change: Change, key: KeyLike, output_index: int, options: MainOptions, ax: Any) -> Any:
    """Draw a main effect of the old and of the new model, over the distributions of their rows; return axes."""
    name = choices.names_of(key)[0]
    if all(choices.find_term(fx, name) is None for fx in (change.old, change.new)):
        choices.term_of(change.old, name)  # raises, with a list of the terms that there are
    j, schema = change.old.schema.names.index(name), change.old.schema
    series, distributions = [], []
    for i, (label, side) in enumerate(zip(("old", "new"), effect_sides(change, name), strict=True)):
        colour, rows = style.series_colour(i), (change.old_rows, change.new_rows)[i]
        weights = side.shares
        if side.rows_axis is not side.axis:  # which has fewer bins
            weights = binning_by(side.axis.index(side.rows_axis.examples()).astype(np.int64)).pool(weights)
        values = side.values[..., output_index]
        series.append(Series(label, side.axis, values, weights, colour, ends=choices.data_ends_of(rows, j)))
        distributions.append(Distribution(f"{label} rows", side.rows_axis, side.shares, colour))
    words = views.effect_words(schema, schema.outputs[output_index])
    return draw_mains(series, words, dataclasses.replace(options, distributions=tuple(distributions)), ax)


@documented
def monotonicity(monotonicity: Monotonicity, *, ax: Any = None) -> Any:
    """Draw the range of changes of the score from each bin of a feature to the next.

    A bar reaches from the smallest to the largest change over all cells of the other features. A feature is increasing
    if no bar is below zero, and decreasing if none is above. Pale bars are bounds where exact ranges are not known.

    Parameters
    ----------
    monotonicity
        Result of ``fx.monotonicity(feature)``.
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.monotonicity(fx.monotonicity("x0"))
    >>> [(float(bar.get_y()), float(bar.get_height())) for bar in ax.patches]
    [(0.0, 1.0)]
    """
    choices.checked_kind(monotonicity, Monotonicity, "monotonicity", "fx.monotonicity(feature)")
    steps = monotonicity.all_steps
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 3.6)
    bounds = np.array([(step.smallest, step.largest) for step in steps]).reshape(-1, 2)
    exact = np.array([(step.smallest_found, step.largest_found) for step in steps]).reshape(-1, 2)
    ax.use_sticky_edges = False  # room below the lowest bar
    style.zero_line(ax, "y")
    has_bounds = not all(step.is_exact for step in steps)
    if has_bounds:
        _draw_ranges(ax, bounds, monotonicity.tolerance, alpha=0.3)
    handles = _draw_ranges(ax, exact, monotonicity.tolerance, alpha=0.9)
    if has_bounds:
        handles["pale: bounds, not exact"] = Patch(color=mpl.rcParams["text.color"], alpha=0.3)
    _name_steps(ax, monotonicity)
    style.tidy(ax)
    if len(handles) > 1:
        where = {"loc": "outside upper right", "ncols": 3} if is_new else {"loc": "best"}
        style.legend(ax.figure if is_new else ax, list(handles.values()), list(handles), **where)
    return ax


def _draw_ranges(ax: Any, ranges: Floats, tolerance: float, *, alpha: float) -> dict[str, Any]:
    """Draw ranges of steps, (n_steps, 2), as bars in two colours if they cross zero; return legend entries."""
    ranges = np.where(np.abs(ranges) <= tolerance, 0.0, ranges)
    steps = np.arange(len(ranges))
    handles = {}
    sides = (("rises", views.POSITIVE, np.maximum(ranges, 0.0)), ("falls", views.NEGATIVE, np.minimum(ranges, 0.0)))
    for name, colour, ends in sides:
        is_drawn = ends.any(axis=1)
        if is_drawn.any():
            low, high = ends[is_drawn].T
            tint = style.tone(colour)
            ax.bar(steps[is_drawn], high - low, 0.8, bottom=low, color=tint, edgecolor=tint, alpha=alpha, zorder=2)
            handles[name] = Patch(color=tint)
    return handles


def _name_steps(ax: Any, monotonicity: Monotonicity) -> None:
    """Write the answer as a title, what is drawn along both axes, and labels of a few bins."""
    steps = monotonicity.all_steps
    words = {"neither": "neither increasing nor decreasing"}.get(monotonicity.direction, monotonicity.direction)
    ax.set_title(f"{shortened(monotonicity.feature, 40)}: {words}")
    name_effect(ax, "change from the bin below" + (f" ({monotonicity.output})" if monotonicity.output else ""), "y")
    ax.set_xlabel(shortened(monotonicity.feature, 60))
    ax.set_xlim(-0.6, max(len(steps), 1) - 0.4)
    labelled = np.unique(np.linspace(0, len(steps) - 1, min(len(steps), _MOST_LABELS)).astype(int)).tolist()
    labels = [short_bin_name(steps[i].above, _LABEL_LENGTH) for i in labelled]
    turned: dict[str, Any] = {"rotation": 25, "ha": "right"} if sum(map(len, labels)) > _MOST_CHARACTERS else {}
    ax.set_xticks(labelled, labels=labels, **turned)
    if not steps:
        ax.text(0.5, 0.5, "one bin: no changes", transform=ax.transAxes, ha="center", va="center")
