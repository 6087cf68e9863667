"""importance(): how much each term, or feature, contributes to the variance of the score."""

from __future__ import annotations

from typing import Any, NamedTuple

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D

from treeanova.core.arrays import Floats
from treeanova.decomposition.decomposition import Decomposition
from treeanova.plot import style
from treeanova.plot.choices import checked_count, checked_decomposition, output_position
from treeanova.plot.rows import BAR_HEIGHT, list_names
from treeanova.plot.scales import name_effect
from treeanova.views import look
from treeanova.views.standings import as_lists


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
    whole = look.variance_words(fx.schema, is_part=fx.scope.is_part)
    name_effect(ax, f"{whole}{of}{_sum_words(shares.variance)}", "x")
    list_names(ax, shares.names)
    ax.xaxis.set_major_formatter(lambda share, _: f"{100 * share:g} %".replace("-", "−"))
    style.tidy(ax)
    return ax


def _sum_words(variance: Floats) -> str:
    """What bars add up to, where that is not 100 %."""
    total = round(100 * float(variance.sum()))
    return "" if total in {0, 100} else f"; bars add up to {total} %"


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
    bars = ax.barh(rows, variance, 0.7, color=style.tone(look.MAIN), alpha=0.85, zorder=2)
    if not np.abs(covariance).max(initial=0.0) > 1e-12:
        return {}
    ink, edge = mpl.rcParams["text.color"], mpl.rcParams["axes.facecolor"]
    ax.hlines(rows, variance, variance + covariance, color=ink, linewidth=1.0, alpha=0.7, zorder=3)
    (dots,) = ax.plot(variance + covariance, rows, "o", color=ink, markeredgecolor=edge, markersize=5, zorder=4)
    handles = {"variance": bars, "share (adds up to 100 %)": dots}
    if look.negative_share_words(variance + covariance):
        handles["below 0: cancels other terms"] = Line2D([], [], linestyle="none")
    return handles
