"""validation(): what the loss on held-out rows is without each term."""

from __future__ import annotations

import math
from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.lines import Line2D

from treeanova.core.arrays import Bools, Floats
from treeanova.decomposition.validation import Validation
from treeanova.plot import style
from treeanova.plot.choices import checked_count
from treeanova.plot.rows import BAR_HEIGHT, list_names
from treeanova.plot.scales import name_effect
from treeanova.views import look
from treeanova.views.standings import as_lists

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
    places, colour, grey = np.arange(len(changes)), style.tone(look.MAIN), style.tone(look.RAW)
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
