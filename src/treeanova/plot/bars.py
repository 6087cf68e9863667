"""importance() and waterfall(): what matters in the model, and what adds up to the score of one row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D

from treeanova.core.arrays import Floats
from treeanova.core.labels import label_of
from treeanova.data.columns import encode
from treeanova.data.frames import frame
from treeanova.decomposition.decomposition import Decomposition
from treeanova.model.axes import CategoryAxis
from treeanova.model.links import respond
from treeanova.plot import style
from treeanova.plot.choices import checked_decomposition, column, output_of
from treeanova.views import look

_BAR = 0.3


def checked_count(k: Any) -> int:
    """A number of bars or panels."""
    if isinstance(k, bool) or not isinstance(k, int | np.integer) or k < 1:
        raise ValueError(f"`k` must be a whole number from 1 on, got {k!r}; leave it out for the default.")
    return int(k)


# Importance.


def importance(
    fx: Decomposition, *, by: str = "term", k: int = 15, output: str | int | None = None, ax: Any = None
) -> Any:
    """Axes with what each term does to the score, the strongest first: ``fx.importance()`` as bars.

    Blue is a term's own variance (`variance`), by which terms are ordered. Hatched is what it adds or takes away by
    correlation with other terms (`covariance`), left of zero where it is negative. The dot marks their sum, the
    `share`; left of zero it marks a term that works against others. All are relative to the variance of the score.
    Terms beyond the first k are drawn together as the last bar.

    Parameters
    ----------
    fx
        The decomposition.
    by
        "term" or "feature".
    k
        Number of bars.
    output
        Name or position of a class or target; by default the first.
    ax
        Axes to draw on; by default those of a new figure.
    """
    position = output_of(checked_decomposition(fx), output)
    names, structural, correlative = importance_rows(fx, by, position)
    names, (structural, correlative) = _with_rest(names, np.array([structural, correlative]), checked_count(k), by)
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 1.5 + _BAR * max(len(names), 3))
    handles = _draw_shares(ax, structural, correlative)
    if handles:
        where = {"loc": "outside upper left", "ncols": 2} if is_new else {"loc": "best"}
        style.legend(ax.figure if is_new else ax, list(handles.values()), list(handles), **where)
    of = f" ({fx.schema.outputs[position]})" if len(fx.schema.outputs) > 1 else ""
    style.name_effect(ax, f"relative to the variance of the {look.scale_of(fx.schema)}{of}", "x")
    _list_names(ax, names)
    ax.xaxis.set_major_formatter(mpl.ticker.PercentFormatter(1.0))
    style.tidy(ax)
    return ax


def importance_rows(fx: Decomposition, by: str, position: int) -> tuple[list[str], Floats, Floats]:
    """Names, structural and correlative shares of one output, as the table has them."""
    table = fx.importance(by)
    names, structural, correlative = (column(table, name) for name in (by, "variance", "covariance"))
    rows = range(len(names))
    if len(fx.schema.outputs) > 1:
        outputs = column(table, "output")
        rows = [i for i in rows if outputs[i] == fx.schema.outputs[position]]  # type: ignore[assignment]
    return [names[i] for i in rows], np.array([structural[i] for i in rows]), np.array([correlative[i] for i in rows])


def _with_rest(names: list[str], parts: Floats, k: int, by: str) -> tuple[list[str], Floats]:
    """The first k - 1 rows and the sum of all others, where there are more than k."""
    if len(names) <= k:
        return names, parts
    rest = len(names) - k + 1
    kept = parts[:, : k - 1]
    return [*names[: k - 1], f"{rest} other {by}s"], np.column_stack([kept, parts[:, k - 1 :].sum(axis=1)])


def _draw_shares(ax: Any, structural: Floats, correlative: Floats) -> dict[str, Any]:
    """Draw bars and dots; gives what a legend has to explain, by its words: nothing where terms are uncorrelated."""
    rows, blue = np.arange(len(structural)), style.tone(look.MAIN)
    style.zero_line(ax, "x")
    solid = ax.barh(rows, structural, 0.7, color=blue, alpha=0.85, zorder=2)
    if not np.abs(correlative).max(initial=0.0) > 1e-12:
        return {}
    orange = style.tone(look.POSITIVE)
    hatched = ax.barh(
        rows,
        correlative,
        0.7,
        left=np.where(correlative < 0, 0.0, structural),
        facecolor=(*to_rgb(mpl.rcParams["axes.facecolor"]), 0.65),
        edgecolor=orange,
        hatch="////",
        linewidth=0.8,
        zorder=3,
    )
    ink = mpl.rcParams["text.color"]
    (dots,) = ax.plot(structural + correlative, rows, "o", color=ink, markersize=4, zorder=4)
    handles = {"own variance": solid, "covariance with other terms": hatched, "share (their sum)": dots}
    if look.negative_share_words(structural + correlative):
        handles["below 0: opposes other terms"] = Line2D([], [], linestyle="none")
    return handles


def _list_names(ax: Any, names: Sequence[str], colours: Sequence[Any] = ()) -> None:
    """Names of rows down the left side, the first on top."""
    height = ax.get_window_extent().height / ax.figure.dpi * 72
    labels = [style.wrapped(name) for name in names]
    is_tall = any("\n" in label for label in labels)
    room = (0.45 if is_tall else 0.85) * height / max(len(names), 1)
    size = max(5.0, min(style.font_size(mpl.rcParams["ytick.labelsize"]), room))
    ax.set_yticks(range(len(names)), labels=labels, fontsize=size)
    for label, colour in zip(ax.get_yticklabels(), colours, strict=False):
        label.set_color(colour)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


# One row.


def waterfall(fx: Decomposition, row: Any, *, k: int = 10, output: str | int | None = None, ax: Any = None) -> Any:
    """Axes with what adds up to the score of one row: from the intercept, term by term, the strongest first.

    Parameters
    ----------
    fx
        The decomposition.
    row
        One row with the model's columns: a table or matrix of one row, a sequence of values, or a mapping from names.
    k
        Number of bars; terms beyond are drawn together as the last.
    output
        Name or position of a class or target; by default the first.
    ax
        Axes to draw on; by default those of a new figure.
    """
    position = output_of(checked_decomposition(fx), output)
    data = _one_row(fx, row)
    names, values = _contributions(fx, data, position, checked_count(k))
    ax = style.checked_axes(ax, 7.2, 1.6 + _BAR * max(len(names), 3))
    start = float(np.atleast_1d(fx.intercept)[position])
    _draw_falls(ax, start, values)
    _list_names(ax, names)
    _name_ends(ax, fx, start, start + float(values.sum()), position)
    style.tidy(ax)
    return ax


def _one_row(fx: Decomposition, row: Any) -> Any:
    """The row as a table or matrix of one row."""
    if isinstance(row, Mapping):
        return frame({str(name): [value] for name, value in row.items()}, fx.backend or "pandas")
    if getattr(row, "ndim", None) == 1 and hasattr(row, "to_frame"):
        return row.to_frame().T.infer_objects() if hasattr(row, "index") else [row.to_list()]
    data = row if hasattr(row, "shape") and len(row.shape) == 2 else np.asarray(row, dtype=object)
    data = data.reshape(1, -1) if getattr(data, "ndim", 2) == 1 else data
    if data.shape[0] != 1:
        raise ValueError(f"`row` must be one row, got {data.shape[0]}; pass X.iloc[[i]] or X[i : i + 1].")
    return data


def _contributions(fx: Decomposition, data: Any, position: int, k: int) -> tuple[list[str], Floats]:
    """Terms with the row's values, strongest first, and what each adds to the score; the last is all the rest."""
    explained = fx.explain(data)
    values = np.array([np.atleast_2d(part.T).T[0, position] for part in explained.parts.values()])
    order = np.argsort(-np.abs(values), kind="stable")
    kept = order if len(order) <= k else order[: k - 1]
    shown = _values_in_words(fx, data)
    words = [label_of(f"{style.shortened(f, 18)} = {shown[f]}" for f in term) for term in explained.terms]
    names = [(*words, "remainder")[i] for i in kept]
    if len(kept) == len(order):
        return names, values[kept]
    return [*names, f"{len(order) - len(kept)} other terms"], np.append(values[kept], np.delete(values, kept).sum())


def _values_in_words(fx: Decomposition, data: Any) -> dict[str, str]:
    encoded = encode(data, fx.schema)[0]
    words = {}
    for value, axis in zip(encoded, fx.grid.axes, strict=True):
        if np.isnan(value):
            words[axis.name] = "missing"
        elif isinstance(axis, CategoryAxis):
            known = value < len(axis.categories)
            words[axis.name] = style.shortened(axis.categories[int(value)], 18) if known else "unseen"
        else:
            words[axis.name] = f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"
    return words


def _draw_falls(ax: Any, start: float, values: Floats) -> None:
    ends = start + np.cumsum(values)
    starts = np.concatenate([[start], ends[:-1]])
    colours = [style.tone(look.POSITIVE if value >= 0 else look.NEGATIVE) for value in values]
    ax.barh(np.arange(len(values)), values, 0.7, left=starts, color=colours, zorder=3)
    ink = mpl.rcParams["axes.edgecolor"]
    for i, end in enumerate(ends[:-1]):
        ax.plot([end, end], [i - 0.35, i + 1.35], color=ink, linewidth=0.7, alpha=0.5, zorder=2)
    low, high = min(start, ends.min(initial=start)), max(start, ends.max(initial=start))
    span = (high - low) or 1.0
    ax.set_xlim(low - 0.2 * span, high + 0.2 * span)
    patch = {"facecolor": mpl.rcParams["axes.facecolor"], "linewidth": 0, "pad": 0.6, "alpha": 0.8}
    for i, value in enumerate(values):
        side, place = (max, "left") if value >= 0 else (min, "right")
        spot = side(starts[i], ends[i]) + 0.01 * span * np.sign(value or 1)
        ax.text(
            spot, i, f"{value:+.3g}".replace("-", "−"), va="center", ha=place, fontsize="small", zorder=4, bbox=patch
        )


def _name_ends(ax: Any, fx: Decomposition, start: float, end: float, position: int) -> None:
    """Lines at the intercept and at the score, with their numbers."""
    ink = mpl.rcParams["axes.edgecolor"]
    for value in (start, end):
        ax.axvline(value, color=ink, linewidth=0.9, linestyle=(0, (4, 3)), alpha=0.7, zorder=1)
    of = f" ({fx.schema.outputs[position]})" if len(fx.schema.outputs) > 1 else ""
    words = f"{look.scale_of(fx.schema)}{of}: average {start:.4g}, this row {end:.4g}"
    words = style.wrapped(words.replace(" -", " −") + _response_words(fx, end), int(0.55 * style.room(ax, "x")))
    ax.set_xlabel(words)


def _response_words(fx: Decomposition, score: float) -> str:
    """The row's response, where it is another number than the score and follows from it alone."""
    if fx.schema.link not in look.RESPONSES or len(fx.schema.outputs) > 1:
        return ""
    return f" ({look.RESPONSES[fx.schema.link]} {float(respond(fx.schema, np.array([[score]]))[0, 0]):.3g})"
