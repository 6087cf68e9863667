"""importance(), waterfall(), validation(): terms as horizontal bars."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D

from treeanova import views
from treeanova.core.arrays import Bools, Floats, label_of
from treeanova.data.columns import as_rows, encode, encode_rows
from treeanova.data.features import Feature
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.term import rest_label
from treeanova.decomposition.validation import Validation
from treeanova.model.effects import respond
from treeanova.plot import style
from treeanova.plot.axes import Ends
from treeanova.plot.choices import backend_of_tables, checked_count, checked_decomposition, output_position
from treeanova.plot.scales import name_effect
from treeanova.plot.style import feature_names, font_size, n_characters_along, shortened, signed, wrapped
from treeanova.views import as_lists

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


BAR_HEIGHT = 0.3  # in inches
_SMALLEST_FONT = 5.0


def list_names(ax: Any, names: Sequence[str]) -> None:
    """Write a name beside each bar, in a font that fits."""
    points = ax.get_window_extent().height / ax.figure.dpi * 72
    labels = [wrapped(name) for name in names]
    has_two_lines = any("\n" in label for label in labels)
    largest = (0.45 if has_two_lines else 0.85) * points / max(len(names), 1)
    size = max(_SMALLEST_FONT, min(font_size(mpl.rcParams["ytick.labelsize"]), largest))
    ax.set_yticks(range(len(names)), labels=labels, fontsize=size)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


class _Shares(NamedTuple):
    """Terms or features of one output with their shares of the variance, the strongest first."""

    names: list[str]
    variance: Floats
    covariance: Floats


def importance(
    fx: Decomposition, *, by: str = "term", k: int = 15, output: str | int | None = None, ax: Any = None
) -> Any:
    """Draw the variance of each term, the strongest first, and its share of the variance of the score.

    Parameters
    ----------
    fx
        The decomposition.
    by
        "term", or "feature": each term is then shared equally by its features.
    k
        Number of bars. Terms beyond the first ``k - 1`` are drawn together as the last bar.
    output
        Name or position of a class or target; by default the first.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Notes
    -----
    The figure shows ``fx.importance()``, relative to the variance of the score. Bars are the variances of terms
    (`variance`), which set the order. Where terms are correlated, bars do not add up to 100 %, and the axis label says
    what they add up to. A dot then marks the `share` of each term, which adds up to 100 %: a thin line leads to it, as
    long as the `covariance` of the term with all others. A dot left of zero marks a term that partly cancels others.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.importance(fx)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1', 'x0 × x1']
    >>> [round(float(bar.get_width()), 3) for bar in ax.patches]
    [0.333, 0.333, 0.333]
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    position = output_position(checked_decomposition(fx), output)
    shares = _with_rest(_shares(fx, by, position), checked_count(k), by)
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 1.5 + BAR_HEIGHT * max(len(shares.names), 3))
    handles = _draw_shares(ax, shares.variance, shares.covariance)
    if handles:
        above: dict[str, Any] = {"loc": "lower left", "bbox_to_anchor": (0.0, 1.0)}
        where = {"loc": "outside upper left", "ncols": 2} if is_new else above
        style.legend(ax.figure if is_new else ax, list(handles.values()), list(handles), **where)
    of = f" ({fx.outputs[position]})" if len(fx.outputs) > 1 else ""
    whole = views.variance_words(fx.schema, is_part=fx.scope.is_part)
    name_effect(ax, f"{whole}{of}{_sum_words(shares.variance)}", "x")
    list_names(ax, shares.names)
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %".replace("-", "−"))
    style.tidy(ax)
    return ax


def _sum_words(variance: Floats) -> str:
    """What bars add up to, where that is not 100 %."""
    total = round(100 * float(variance.sum()))
    return "" if total in {0, 100} else f"; bars add up to {total}\u00a0%"


def _shares(fx: Decomposition, by: str, position: int) -> _Shares:
    """Rows of the table of importance that belong to one output."""
    table = as_lists(fx.importance(by))
    outputs = fx.outputs
    rows = list(range(len(table[by])))
    if len(outputs) > 1:
        rows = [i for i in rows if table["output"][i] == outputs[position]]
    variance, covariance = (np.array([table[name][i] for i in rows]) for name in ("variance", "covariance"))
    return _Shares([table[by][i] for i in rows], variance, covariance)


def _with_rest(shares: _Shares, k: int, by: str) -> _Shares:
    """The first k - 1 rows and the sum of all others, where there are more than k."""
    names, variance, covariance = shares
    if len(names) <= k:
        return shares
    rest = f"{len(names) - k + 1} other {by}s"
    summed = (np.append(part[: k - 1], part[k - 1 :].sum()) for part in (variance, covariance))
    return _Shares([*names[: k - 1], rest], *summed)


def _draw_shares(ax: Any, variance: Floats, covariance: Floats) -> dict[str, Any]:
    """Draw bars and dots; returns what a legend has to explain, by its words: nothing where terms are uncorrelated."""
    rows = np.arange(len(variance))
    style.zero_line(ax, "x")
    bars = ax.barh(rows, variance, 0.7, color=style.tone(views.MAIN), alpha=0.85, zorder=2)
    if not np.abs(covariance).max(initial=0.0) > 1e-12:
        return {}
    ink, edge = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    ax.hlines(rows, variance, variance + covariance, color=ink, linewidth=1.0, alpha=0.7, zorder=3)
    (dots,) = ax.plot(variance + covariance, rows, "o", color=ink, markeredgecolor=edge, markersize=5, zorder=4)
    handles = {"variance": bars, "share (adds up to 100 %)": dots}
    if views.negative_share_words(variance + covariance):
        handles["below 0: cancels other terms"] = Line2D([], [], linestyle="none")
    return handles


_LONGEST_NAME = 18


def waterfall(
    fx: Decomposition,
    row: Any,
    *,
    reference: Any = None,
    k: int = 10,
    output: str | int | None = None,
    ax: Any = None,
) -> Any:
    """Axes with the terms that add up to the score of one row, from the intercept on, the strongest first.

    With a reference, terms lead from the score of the reference to that of the row.

    Parameters
    ----------
    fx
        The decomposition.
    row
        One row with the model's columns: a table or matrix of one row, a sequence of values, or a mapping from names.
    reference
        A row to compare with, or several, whose mean score is then the start; see `Decomposition.explain`.
    k
        Number of bars. Terms beyond the first ``k - 1`` are drawn together as the last bar.
    output
        Name or position of a class or target; by default the first.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    At (1, 1) each of the three terms adds 0.25 to the average of 0.25:

    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.waterfall(fx, [1, 1])
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0 = 1', 'x1 = 1', 'x0 = 1 × x1 = 1']
    >>> [(float(bar.get_x()), float(bar.get_width())) for bar in ax.patches]
    [(0.25, 0.25), (0.5, 0.25), (0.75, 0.25)]
    >>> ax.get_xlabel()
    'prediction: average 0.25, this row 1'
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    position = output_position(checked_decomposition(fx), output)
    data = _one_row(fx, row)
    explained = fx.explain(data, reference=reference)
    texts = _feature_texts(fx, data, reference)
    names, values = _contributions(explained, texts, position, checked_count(k))
    ax = style.checked_axes(ax, 7.2, 1.6 + BAR_HEIGHT * max(len(names), 3))
    start = float(np.atleast_1d(explained.intercept)[position])
    _draw_bars(ax, start, values)
    list_names(ax, names)
    _mark_ends(ax, fx, (start, start + float(values.sum())), position, explained.baseline)
    style.tidy(ax)
    return ax


def _one_row(fx: Decomposition, row: Any) -> Any:
    """The row as a table or matrix of one row."""
    data = as_rows(row, fx.schema, name="row", backend=backend_of_tables(fx))
    if data.shape[0] != 1:
        raise ValueError(f"`row` must be one row, got {data.shape[0]}; pass X.iloc[[i]] or X[i : i + 1].")
    return data


def _contributions(explained: Explanation, texts: Mapping[str, str], position: int, k: int) -> tuple[list[str], Floats]:
    """Terms with the row's values, strongest first, and what each adds to the score; the last is the sum of others."""
    values = _values_of_row(explained, position)
    order = np.argsort(-np.abs(values), kind="stable")
    if np.count_nonzero(values):
        order = order[: np.count_nonzero(values)]  # against a reference, terms of features that agree are zero
    kept = order if len(order) <= k else order[: k - 1]
    words = [label_of(texts[name] for name in term) for term in explained.terms]
    rests = [*map(rest_label, explained.others), *["remainder"] * (explained.remainder is not None)]
    names = [(*words, *rests)[i] for i in kept]
    if len(kept) == len(order):
        return names, values[kept]
    others = order[len(kept) :]
    return [*names, f"{len(others)} other terms"], np.append(values[kept], values[others].sum())


def _values_of_row(explained: Explanation, position: int) -> Floats:
    """Values of all terms at the one row, then what is not a listed term."""
    values = explained.values[0]
    terms: Floats = values[:, position] if values.ndim == 2 else values
    return np.append(terms, [np.atleast_1d(values[0])[position] for values in explained.rests.values()])


def _feature_texts(fx: Decomposition, data: Any, reference: Any) -> dict[str, str]:
    """Per feature a text like "age = 61.23", or "age: 35 → 61.23" against a reference of one row."""
    features, encoded = fx.schema.features, encode(data, fx.schema)[0]
    texts = dict(zip(features, map(_value_text, features, encoded), strict=True))
    short = feature_names(fx.schema.names, _LONGEST_NAME)
    names = {feature: short[feature.name] for feature in features}
    others = None if reference is None else encode_rows(reference, fx.schema, name="reference")
    if others is None or len(others) != 1:
        return {feature.name: f"{names[feature]} = {text}" for feature, text in texts.items()}
    before = dict(zip(features, map(_value_text, features, others[0]), strict=True))
    return {feature.name: f"{names[feature]}: {before[feature]} → {text}" for feature, text in texts.items()}


def _value_text(feature: Feature, value: float) -> str:
    return shortened(views.value_text(feature, value, _number_text), _LONGEST_NAME)


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def _draw_bars(ax: Any, start: float, values: Floats) -> None:
    """Draw a bar from each sum to the next, and lines that connect them."""
    ends = start + np.cumsum(values)
    starts = np.concatenate([[start], ends[:-1]])
    colours = [style.tone(views.POSITIVE if value >= 0 else views.NEGATIVE) for value in values]
    ax.barh(np.arange(len(values)), values, 0.7, left=starts, color=colours, zorder=3)
    ink = mpl.rcParams["axes.edgecolor"]
    for i, end in enumerate(ends[:-1]):
        ax.plot([end, end], [i - 0.35, i + 1.35], color=ink, linewidth=0.7, alpha=0.5, zorder=2)
    low, high = min(start, ends.min(initial=start)), max(start, ends.max(initial=start))
    span = (high - low) or 1.0
    ax.set_xlim(low - 0.2 * span, high + 0.2 * span)
    _write_values(ax, starts, ends, values, 0.01 * span)


def _write_values(ax: Any, starts: Floats, ends: Floats, values: Floats, distance: float) -> None:
    """Write the value at the end of each bar."""
    patch = {"facecolor": mpl.rcParams["axes.facecolor"], "linewidth": 0, "pad": 0.6, "alpha": 0.8}
    for i, value in enumerate(values):
        outer, side = (max, "left") if value >= 0 else (min, "right")
        x = outer(starts[i], ends[i]) + distance * np.sign(value or 1)
        ax.text(x, i, signed(value, ".3g"), va="center", ha=side, fontsize="small", zorder=4, bbox=patch)


def _mark_ends(ax: Any, fx: Decomposition, ends: tuple[float, float], position: int, baseline: str) -> None:
    """Draw lines at the intercept and at the score, and write their numbers below."""
    start, end = ends
    ink = mpl.rcParams["axes.edgecolor"]
    top: dict[str, Any] = {"va": "bottom", "fontsize": "small", "transform": ax.get_xaxis_transform()}
    sides = ("right", "left") if start <= end else ("left", "right")
    for value, name, side in zip(ends, (baseline, "this row"), sides, strict=True):
        ax.axvline(value, color=ink, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7, zorder=1)
        ax.text(value, 1.005, name, ha=side, **top)
    of = f" ({fx.outputs[position]})" if len(fx.outputs) > 1 else ""
    words = f"{views.scale_of(fx.schema)}{of}: {baseline} {start:.4g}, this row {end:.4g}"
    words = words.replace(" -", " −") + _response_words(fx, end)
    ax.set_xlabel(wrapped(words, n_characters_along(ax, "x"), n_lines=3), loc="right")


def _response_words(fx: Decomposition, score: float) -> str:
    """The row's response, where it differs from the score and follows from one score alone."""
    if fx.link not in views.RESPONSES or len(fx.outputs) > 1:
        return ""
    return f" ({views.RESPONSES[fx.link]} {float(respond(fx.schema, np.array([[score]]))[0, 0]):.3g})"


_LEVEL = 0.05


def validation(validation: Validation, *, k: int = 20, output: str | None = None, ax: Any = None) -> Any:
    """Draw what held-out rows answer about each term, and return the axes.

    The position of a dot answers the first question: how much worse is the loss without the term? Whiskers are two
    standard errors on either side; a term left of zero makes predictions worse. Its colour answers the second: does the
    outcome follow the term, given all the others? Filled dots are terms with `p_holm` below 0.05, rings are the others.
    A star marks terms that are tested together with others (`aliases`). Around zero the axis is linear, further out it
    is logarithmic.

    Parameters
    ----------
    validation
        Result of ``fx.validate(X, y)``.
    k
        Number of terms, those with the largest change first; the axis label says how many more there are.
    output
        Name of a target, where there are several; by default the first of the table.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> validation = fx.validate(rows, rows[:, 0] + rng.normal(size=200))
    >>> ax = treeanova.plot.validation(validation)
    >>> [label.get_text() for label in ax.get_yticklabels()]
    ['x0', 'x1', 'x0 × x1']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not isinstance(validation, Validation):
        kind = type(validation).__name__
        raise TypeError(f"`validation` must be a Validation, got {kind}; make one with fx.validate(X, y).")
    table = _of_output(as_lists(validation.table), output)
    n_shown = min(checked_count(k), len(table["term"]))
    changes, errors, p = (np.array(table[name][:n_shown]) for name in ("loss_change", "error", "p_holm"))
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 1.5 + BAR_HEIGHT * max(n_shown, 3))
    handles = _draw_changes(ax, changes, errors, p < _LEVEL, is_tested=not np.isnan(p).all())
    n_more = len(table["term"]) - n_shown
    more = f"; {n_more} more terms" if n_more else ""
    names = [f"{name} *" if aliases else name for name, aliases in zip(table["term"], table["aliases"], strict=True)]
    name_effect(ax, f"increase in {validation.loss} without the term{more}", "x")
    _set_scale(ax, changes, errors)
    list_names(ax, names[:n_shown])
    style.tidy(ax)
    where: dict[str, Any] = {"loc": "outside upper left", "ncols": 2} if is_new else {"loc": "best"}
    stars = (
        "\n* together with terms that these rows cannot distinguish from it" if any(table["aliases"][:n_shown]) else ""
    )
    where["title"] = f"Does the outcome follow the term, given all the others?{stars}"
    style.legend(ax.figure if is_new else ax, list(handles.values()), list(handles), **where)
    return ax


def _of_output(table: dict[str, list[Any]], output: str | None) -> dict[str, list[Any]]:
    """Rows of one target."""
    if "output" not in table:
        return table
    outputs = list(dict.fromkeys(table["output"]))
    chosen = outputs[0] if output is None else output
    if chosen not in outputs:
        choices = ", ".join(map(repr, outputs))
        raise ValueError(f"`output` must be one of {choices}, got {output!r}; leave it out for {outputs[0]!r}.")
    rows = [i for i, one in enumerate(table["output"]) if one == chosen]
    return {name: [column[i] for i in rows] for name, column in table.items()}


def _draw_changes(ax: Any, changes: Floats, errors: Floats, significant: Bools, *, is_tested: bool) -> dict[str, Any]:
    """Draw dots and whiskers; returns what a legend has to explain."""
    style.zero_line(ax, "x")
    places, colour, grey = np.arange(len(changes)), style.tone(views.MAIN), style.tone(views.RAW)
    back = mpl.rcParams["axes.facecolor"]
    for chosen, tint, fill in ((significant, colour, colour), (~significant, grey, back)):
        lengths = 2 * errors[chosen]
        dots = {"markersize": 6, "markerfacecolor": fill, "markeredgecolor": tint, "ecolor": tint, "zorder": 3}
        ax.errorbar(changes[chosen], places[chosen], xerr=lengths, fmt="o", linewidth=1.4, **dots)
    marks: dict[str, Any] = {"marker": "o", "linestyle": "none", "markersize": 6}
    rings = Line2D([], [], markerfacecolor=back, markeredgecolor=grey, **marks)
    if not is_tested:
        return {"not tested": rings}
    return {"significant (Holm, p < 0.05)": Line2D([], [], color=colour, **marks), "not significant": rings}


def _set_scale(ax: Any, changes: Floats, errors: Floats) -> None:
    """Linear around zero, as far as the typical whisker, and logarithmic beyond; few ticks."""
    low, high = float((changes - 2 * errors).min(initial=0.0)), float((changes + 2 * errors).max(initial=0.0))
    typical = float(np.median(errors[errors > 0])) * 4 if (errors > 0).any() else 1.0
    if max(-low, high) <= 20 * typical:
        return
    ax.set_xscale("symlog", linthresh=typical, linscale=0.8)
    sizes = [10.0 ** math.floor(math.log10(high) - i) for i in range(12)]
    below = [-size for size in sizes if low <= -size < -typical]
    ticks = [0.0, *(size for size in sizes if size >= typical / 2), *below]
    ax.set_xlim(min(1.2 * low, -0.3 * typical), 1.4 * high)
    ax.set_xticks(sorted(ticks), labels=[f"{tick:g}".replace("-", "−") for tick in sorted(ticks)])
    ax.set_xticks([], minor=True)
