"""waterfall(): the terms that add up to the score of one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import matplotlib as mpl
import numpy as np

from treeanova.core.arrays import Floats
from treeanova.core.labels import label_of
from treeanova.data.columns import encode
from treeanova.data.features import Feature
from treeanova.data.given_rows import as_rows, encode_rows
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.evaluation import rest_label
from treeanova.decomposition.explanation import Explanation
from treeanova.model.links import respond
from treeanova.plot import style
from treeanova.plot.choices import backend_of_tables, checked_count, checked_decomposition, output_position
from treeanova.plot.rows import BAR_HEIGHT, list_names
from treeanova.plot.text import feature_names, n_characters_along, shortened, signed, wrapped
from treeanova.views import look

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
    return shortened(look.value_text(feature, value, _number_text), _LONGEST_NAME)


def _number_text(value: float) -> str:
    return f"{value:,.0f}" if 1e4 <= abs(value) < 1e15 else f"{value:.4g}"


def _draw_bars(ax: Any, start: float, values: Floats) -> None:
    """Draw a bar from each sum to the next, and lines that connect them."""
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
    words = f"{look.scale_of(fx.schema)}{of}: {baseline} {start:.4g}, this row {end:.4g}"
    words = words.replace(" -", " −") + _response_words(fx, end)
    ax.set_xlabel(wrapped(words, n_characters_along(ax, "x"), n_lines=3), loc="right")


def _response_words(fx: Decomposition, score: float) -> str:
    """The row's response, where it differs from the score and follows from one score alone."""
    if fx.link not in look.RESPONSES or len(fx.outputs) > 1:
        return ""
    return f" ({look.RESPONSES[fx.link]} {float(respond(fx.schema, np.array([[score]]))[0, 0]):.3g})"
