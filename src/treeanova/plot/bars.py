"""importance(), waterfall(), validation(): terms as horizontal bars; the last bar sums those left out."""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D
from matplotlib.ticker import NullLocator, SymmetricalLogLocator

from treeanova import views
from treeanova.core.arrays import Floats, label_of
from treeanova.data.columns import as_rows, columns_of, encode, encode_rows
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.function import label_of_unlisted
from treeanova.decomposition.predictions import Predictions, backend_of_tables, function_of
from treeanova.decomposition.validation import Validation
from treeanova.model.effects import respond
from treeanova.plot import style
from treeanova.plot.axes import Ends
from treeanova.plot.choices import checked_count, checked_decomposition, checked_kind, output_position
from treeanova.plot.scales import name_effect
from treeanova.plot.style import documented, n_characters_along, shortened, signed, wrapped, wrapped_terms

CUT_WORDS = "; bars that leave the frame are cut"
BAR_HEIGHT = 0.3  # in inches
_LONGEST_HEAD = 4.0  # of sums, relative to the range of terms
_SMALLEST_FONT = 5.0
_NAMES_SHARE = 0.42  # of the width of a figure, for names of bars
_LONGEST_VALUE = 18  # characters of a feature's name or value in a waterfall
_LEVEL = 0.05  # of significance


class Bars(NamedTuple):
    """Names of terms, and columns of numbers with one per term; standard errors are in the column "error"."""

    names: list[str]
    columns: dict[str, Floats]


def bars_of(table: Any, columns: Sequence[str], output: str | None = None, by: str = "term") -> Bars:
    """Return columns of a table with a row per term as bars, for one output."""
    lists = columns_of(table)
    outputs = lists.get("output", [output] * len(lists[by]))
    rows = [i for i, name in enumerate(outputs) if name == output]
    numbers = {name: np.array([lists[name][i] for i in rows], dtype=np.float64) for name in columns}
    return Bars([str(lists[by][i]) for i in rows], numbers)


def with_rest(bars: Bars, k: int, by: str = "term", sums: Collection[str] = ()) -> Bars:
    """Return the first k - 1 bars and the sum of all others, if there are more than k; errors do not add up.

    `sums` are names of bars that are sums of terms or a remainder: they do not count as one.
    """
    names, columns = bars
    if len(names) <= k:
        return bars
    totals = {name: np.nan if name == "error" else column[k - 1 :].sum() for name, column in columns.items()}
    summed = {name: np.append(column[: k - 1], totals[name]) for name, column in columns.items()}
    return Bars([*names[: k - 1], _name_of_rest(names[k - 1 :], by, sums)], summed)


def _name_of_rest(names: Sequence[str], by: str, sums: Collection[str]) -> str:
    """Return "3 other terms and remainder" for bars that are added up; of several sums of terms, their number."""
    summed = [name for name in names if name in sums]
    n_terms = len(names) - len(summed)
    words = [f"{n_terms} other {by}{'s' * (n_terms != 1)}"] if n_terms else []
    return " and ".join(words + ([f"{len(summed)} sums of terms"] if len(summed) > 1 else summed))


def sums_of_terms(fx: Predictions) -> list[str]:
    """Return the labels, in tables, of sums of unlisted terms and of a remainder."""
    components = function_of(fx).components
    labels = components.labels(fx.schema.names)
    return labels[len(components.keys) :]


def frame_of(ends: Sequence[Ends], n_heads: int, ax: Any = None) -> Ends:
    """Return the ends of the x axis for bars with these ends, with room for numbers (more on narrow axes)."""
    # The first `n_heads` rows are sums and the intercept. If they are far longer than the terms, the frame cuts them
    # off, because the bars of terms would be too short to see.
    whole, terms = _range_with_zero(ends), _range_with_zero(ends[n_heads:])
    length, shortest = (high - low for low, high in (whole, terms))
    low, high = terms if 0 < shortest * _LONGEST_HEAD < length else whole
    span = (high - low) or 1.0
    inches = np.inf if ax is None else ax.get_window_extent().width / ax.figure.dpi
    room = float(np.clip(0.9 / inches, 0.18, 0.35)) * span
    return low - room, high + room


def _range_with_zero(ends: Sequence[Ends]) -> Ends:
    """Return the lowest and the highest end, and zero between them."""
    return min((*(end[0] for end in ends), 0.0)), max((*(end[1] for end in ends), 0.0))


def leaves_frame(ends: Ends, frame: Ends) -> bool:
    """Whether a bar reaches beyond the ends of the x axis."""
    return ends[0] < frame[0] or ends[1] > frame[1]


def write_numbers(ax: Any, ends: Sequence[Ends], numbers: Sequence[float], frame: Ends) -> None:
    """Set the frame; write each number at the outer end of its bar or the frame, on a patch where lines may cross."""
    ax.set_xlim(*frame)
    room = 0.018 * (frame[1] - frame[0])
    patch = {"facecolor": mpl.rcParams["axes.facecolor"], "linewidth": 0, "pad": 0.8, "alpha": 0.85}
    for i, (end, number) in enumerate(zip(ends, numbers, strict=True)):
        text, is_up = signed(number, ".3g"), number >= 0
        anchor = "left" if is_up else "right"
        x = end[1] + room if is_up else end[0] - room
        if leaves_frame(end, frame) and frame[0] <= number <= frame[1]:  # a sum of two long bars of opposite signs
            x = number + room if is_up else number - room
        elif leaves_frame(end, frame):
            text, anchor = (f"{text} ▸", "right") if is_up else (f"◂ {text}", "left")
            x = frame[1] if is_up else frame[0]
        ax.text(x, i, text, va="center", ha=anchor, fontsize="small", zorder=5, bbox=patch)


def list_names(ax: Any, names: Sequence[str]) -> None:
    """Write names of bars along the y axis, wrapped, and small enough to have room."""
    height = ax.get_window_extent().height / ax.figure.dpi * 72  # in points, of which an inch has 72
    size = style.font_size(mpl.rcParams["ytick.labelsize"])
    subplot = ax.get_subplotspec()
    width = 1e9 if subplot is None else 72 * ax.figure.get_size_inches()[0] / subplot.get_gridspec().ncols
    n_characters = int(np.clip(_NAMES_SHARE * width / (style.CHARACTER_WIDTH * size), 14, 44))
    labels = wrapped_terms(names, n_characters)
    has_two_lines = any("\n" in label for label in labels)
    size = max(_SMALLEST_FONT, min(size, (0.45 if has_two_lines else 0.85) * height / max(len(names), 1)))
    ax.set_yticks(range(len(names)), labels=labels, fontsize=size)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


@documented
def importance(
    fx: Decomposition, *, by: str = "term", k: int = 15, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw the variance of each term, the strongest first, and its share of the variance of the score.

    Parameters
    ----------
    {fx}
    by
        "term", or "feature": each term is then shared equally by its features.
    {k}
    {output}
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    The figure shows ``fx.importance()``, relative to the variance of the score. Bars are variances of terms; if terms
    are correlated, bars do not add up to 100 %, and the axis label states their sum. A dot then marks each `share`,
    which does; the line to it is the `covariance` with all other terms. Left of zero, it partly cancels others.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.importance(fx)
    >>> {label.get_text(): round(float(bar.get_width()), 3) for label, bar in zip(ax.get_yticklabels(), ax.patches)}
    {'x0': 0.333, 'x1': 0.333, 'x0 × x1': 0.333}
    """
    output = fx.outputs[output_position(checked_decomposition(fx), output)]
    numbers = bars_of(fx.importance(by), ("variance", "covariance"), output, by)
    bars = with_rest(numbers, checked_count(k), by, sums_of_terms(fx))
    variance, covariance = bars.columns.values()
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 1.5 + BAR_HEIGHT * max(len(bars.names), 3))
    handles = _draw_shares(ax, variance, covariance)
    if handles:
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        where = {"loc": "outside upper left", "ncols": 2} if is_new else above
        style.legend(ax.figure if is_new else ax, list(handles.values()), list(handles), **where)
    unit = "the term" if by == "term" else "terms, shared equally by their features"
    whole = views.variance_words(fx.schema, is_part=function_of(fx).scope.is_part, unit=unit)
    total = round(100 * float(variance.sum()))
    sum_words = "" if total in {0, 100} else f"; bars add up to {total}\u00a0%"
    name_effect(ax, f"{whole}{views.output_suffix(fx.schema, output)}{sum_words}", "x")
    list_names(ax, bars.names)
    ax.xaxis.set_major_formatter(style.percent_tick)
    style.tidy(ax)
    return ax


def _draw_shares(ax: Any, variance: Floats, covariance: Floats) -> dict[str, Any]:
    """Draw variances as bars and shares as dots; return legend entries (name to artist), none without covariances."""
    rows = np.arange(len(variance))
    style.zero_line(ax, "x")
    solid = ax.barh(rows, variance, 0.7, color=style.tone(views.MAIN), alpha=0.85, zorder=2)
    if not np.abs(covariance).max(initial=0.0) > 1e-12:
        return {}
    ink, edge = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    ax.hlines(rows, variance, variance + covariance, color=ink, linewidth=1.0, alpha=0.7, zorder=3)
    (dots,) = ax.plot(variance + covariance, rows, "o", color=ink, markeredgecolor=edge, markersize=5, zorder=4)
    handles = {"variance": solid, "share (adds up to 100 %)": dots}
    if views.negative_share_words(variance + covariance):
        handles["below 0: cancels other terms"] = Line2D([], [], linestyle="none")
    return handles


@documented
def waterfall(
    fx: Decomposition, row: Any, *, reference: Any = None, k: int = 10, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw the terms that add up to the score of one row, from the intercept on, the strongest first.

    With a reference, terms lead from the score of the reference to that of the row.

    Parameters
    ----------
    {fx}
    row
        One row with the model's columns: a table or matrix of one row, a sequence of values, or a mapping from names.
    reference
        A row to compare with, or several, whose mean score is then the start; see `Decomposition.explain`.
    {k}
    {output}
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    At (1, 1) each of the three terms adds 0.25 to the average of 0.25:

    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.waterfall(fx, [1, 1])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0 = 1', 'x1 = 1', 'x0 = 1 × x1 = 1']
    >>> [(float(bar.get_x()), float(bar.get_width())) for bar in ax.patches]
    [(0.25, 0.25), (0.5, 0.25), (0.75, 0.25)]
    """
    output_index = output_position(checked_decomposition(fx), output)
    data = as_rows(row, fx.schema, name="row", backend=backend_of_tables(fx))
    if data.shape[0] != 1:
        raise ValueError(f"`row` must be one row, got {data.shape[0]}; pass X.iloc[[i]] or X[i : i + 1].")
    explained = fx.explain(data, reference=reference)
    bars = _bars_of_row(explained, _feature_texts(fx, data, reference), output_index)
    bars = with_rest(bars, checked_count(k), sums=sums_of_terms(fx))
    ax = style.checked_axes(ax, 7.2, 1.6 + BAR_HEIGHT * max(len(bars.names), 3))
    start = float(np.atleast_1d(explained.intercept)[output_index])
    _draw_waterfall(ax, start, bars.columns["value"])
    list_names(ax, bars.names)
    _mark_ends(ax, fx, (start, start + float(bars.columns["value"].sum())), output_index, explained.baseline)
    style.tidy(ax)
    return ax


def _bars_of_row(explained: Explanation, texts: Mapping[str, str], output_index: int) -> Bars:
    """Return what each term adds to one row's score, strongest first; terms that add nothing are left out."""
    # `texts` are names and values of features, by name
    values = explained.values[0] if explained.values.ndim == 2 else explained.values[0][:, output_index]
    beyond_terms = explained.values_beyond_terms.values()  # each of shape (1,) or (1, n_outputs)
    values = np.append(values, [np.atleast_1d(at_rows[0])[output_index] for at_rows in beyond_terms])
    remainder = ["remainder"] if explained.remainder is not None else []
    names = [label_of(texts[name] for name in term) for term in explained.terms]
    names += [*map(label_of_unlisted, explained.others), *remainder]
    order = np.argsort(-np.abs(values), kind="stable")[: np.count_nonzero(values) or None]
    return Bars([names[i] for i in order], {"value": values[order]})


def _feature_texts(fx: Decomposition, data: Any, reference: Any) -> dict[str, str]:
    """Return a text per feature: "age = 61.23", or "age: 35 → 61.23" against a reference of one row."""
    features = fx.schema.features
    short = style.short_feature_names(fx.schema.names, _LONGEST_VALUE)
    before = None if reference is None else encode_rows(reference, fx.schema, name="reference")

    def texts(encoded: Floats) -> list[str]:
        pairs = zip(features, encoded, strict=True)
        return [shortened(views.value_text(feature, value, _number_text), _LONGEST_VALUE) for feature, value in pairs]

    values = texts(encode(data, fx.schema)[0])
    if before is not None and len(before) == 1:
        pairs = zip(fx.schema.names, texts(before[0]), values, strict=True)
        return {name: f"{short[name]}: {old} → {new}" for name, old, new in pairs}
    return {name: f"{short[name]} = {text}" for name, text in zip(fx.schema.names, values, strict=True)}


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def _draw_waterfall(ax: Any, start: float, values: Floats) -> None:
    """Draw each value as a bar that begins where the one above ends, the first at `start`, with its number."""
    sums = start + np.concatenate([[0.0], np.cumsum(values)])
    ax.barh(np.arange(len(values)), values, 0.7, left=sums[:-1], color=style.sign_colours(values), zorder=3)
    for i, end in enumerate(sums[1:-1]):
        line = {"color": mpl.rcParams["axes.edgecolor"], "linewidth": 0.7, "alpha": 0.5, "zorder": 2}
        ax.plot([end, end], [i - 0.35, i + 1.35], **line)
    low, high = float(sums.min()), float(sums.max())
    span = (high - low) or 1.0
    ends = [(min(pair), max(pair)) for pair in itertools.pairwise(sums)]
    write_numbers(ax, ends, values.tolist(), (low - 0.2 * span, high + 0.2 * span))


def _mark_ends(ax: Any, fx: Decomposition, ends: Ends, output_index: int, baseline: str) -> None:
    """Mark both ends, the baseline (its name) and the row's score, by dashed lines, and state both below."""
    start, end = ends
    top: dict[str, Any] = {"va": "bottom", "fontsize": "small", "transform": ax.get_xaxis_transform()}
    sides = ("right", "left") if start <= end else ("left", "right")
    for value, name, side in zip(ends, (baseline, "this row"), sides, strict=True):
        line = {"color": mpl.rcParams["axes.edgecolor"], "linewidth": 0.9, "alpha": 0.7, "zorder": 1}
        ax.axvline(value, linestyle=(0, (4, 3)), **line)
        ax.text(value, 1.005, name, ha=side, **top)
    scale = f"{views.scale_of(fx.schema)}{views.output_suffix(fx.schema, fx.outputs[output_index])}"
    words = f"{scale}: {baseline} {start:.4g}, this row {end:.4g}".replace(" -", " −")
    if fx.schema.link in views.RESPONSES and len(fx.outputs) == 1:  # the response follows from one score alone
        words += f" ({views.RESPONSES[fx.schema.link]} {float(respond(fx.schema, np.array([[end]]))[0, 0]):.3g})"
    ax.set_xlabel(wrapped(words, n_characters_along(ax, "x"), n_lines=3), loc="right")


@documented
def validation(validation: Validation, *, k: int = 20, output: str | None = None, ax: Any = None) -> Any:
    """Draw what held-out rows say about each term.

    A dot's position shows how much worse the loss is without the term, with two standard errors on either side; a term
    left of zero makes predictions worse. Filled dots (`p_holm` below 0.05) are terms that the outcome follows, given
    all others. A star marks terms tested together (`aliases`). The axis is linear near zero, else logarithmic.

    Parameters
    ----------
    validation
        Result of ``fx.validate(X, y)``.
    k
        Number of terms, those with the largest change first; the axis label says how many more there are.
    output
        Name of a target, if there are several; by default the first of the table.
    {ax}

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, treeanova.testing
    >>> fx, X = treeanova.testing.example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> validation = fx.validate(rows, rows[:, 0] + rng.normal(size=200))
    >>> ax = treeanova.plot.validation(validation)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1', 'x0 × x1']
    """
    checked_kind(validation, Validation, "validation", "fx.validate(X, y)")
    table = columns_of(validation.table)
    outputs = list(dict.fromkeys(table.get("output", [None])))
    output = outputs[0] if output is None else output
    if output not in outputs:
        choices = ", ".join(map(repr, outputs))
        raise ValueError(f"`output` must be one of {choices}, got {output!r}; leave it out for {outputs[0]!r}.")
    table["has_aliases"] = list(map(bool, table["aliases"]))
    bars = bars_of(table, ("loss_change", "error", "p_holm", "has_aliases"), output)
    n_shown = min(checked_count(k), len(bars.names))
    changes, errors, p_values, has_aliases = (column[:n_shown] for column in bars.columns.values())
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 1.5 + BAR_HEIGHT * max(n_shown, 3))
    handles = _draw_loss_changes(ax, changes, errors, p_values)
    more = f"; {len(bars.names) - n_shown} more terms" if len(bars.names) > n_shown else ""
    name_effect(ax, f"increase in {validation.loss} without the term{more}", "x")
    _set_scale_of_changes(ax, changes, errors)
    list_names(ax, [f"{name} *" if star else name for name, star in zip(bars.names, has_aliases, strict=False)])
    style.tidy(ax)
    where: dict[str, Any] = {"loc": "outside upper left", "ncols": 2} if is_new else {"loc": "best"}
    stars = "\n* together with terms that these rows cannot distinguish from it" if has_aliases.any() else ""
    where["title"] = f"Does the outcome follow the term, given all the others?{stars}"
    style.legend(ax.figure if is_new else ax, list(handles.values()), list(handles), **where)
    return ax


def _draw_loss_changes(ax: Any, changes: Floats, errors: Floats, p_values: Floats) -> dict[str, Any]:
    """Draw a dot with a whisker of two errors per term, by significance; return legend entries (name to artist)."""
    style.zero_line(ax, "x")
    y, colour, grey = np.arange(len(changes)), style.tone(views.MAIN), style.tone(views.RAW)
    back, is_untested = mpl.rcParams["axes.facecolor"], np.isnan(p_values)
    kinds = {  # which terms, marker, colour of its edge and its face
        f"significant (Holm, p < {_LEVEL})": (p_values < _LEVEL, "o", colour, colour),
        "not significant": (p_values >= _LEVEL, "o", grey, back),
        "not tested": (is_untested, "D", grey, back),
    }
    handles = {}
    for name, (is_of_kind, marker, edge, face) in kinds.items():
        if is_untested.any() if name == "not tested" else not is_untested.all():
            dots = {"markersize": 6, "markerfacecolor": face, "markeredgecolor": edge}
            whiskers = {"xerr": 2 * errors[is_of_kind], "linewidth": 1.4, "ecolor": edge, "zorder": 3}
            ax.errorbar(changes[is_of_kind], y[is_of_kind], fmt=marker, **dots, **whiskers)
            handles[name] = Line2D([], [], marker=marker, linestyle="none", **dots)
    return handles


def _set_scale_of_changes(ax: Any, changes: Floats, errors: Floats) -> None:
    """Make the axis linear around zero and logarithmic beyond the typical whisker, if numbers differ much."""
    low, high = float((changes - 2 * errors).min(initial=0.0)), float((changes + 2 * errors).max(initial=0.0))
    typical = float(np.median(errors[errors > 0])) * 4 if (errors > 0).any() else 1.0
    if max(-low, high) <= 20 * typical:
        return
    ax.set_xscale("symlog", linthresh=typical, linscale=0.8)
    ax.set_xlim(min(1.2 * low, -0.3 * typical), 1.4 * high)
    ax.xaxis.set_major_locator(SymmetricalLogLocator(base=10, linthresh=typical))
    ax.xaxis.set_major_formatter(lambda tick, _: f"{tick:g}".replace("-", "−"))
    ax.xaxis.set_minor_locator(NullLocator())
