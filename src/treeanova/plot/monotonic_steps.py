"""monotonicity(): changes of the score from each bin of a feature to the next, whatever the other features are."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.patches import Patch

from treeanova.core.arrays import Floats
from treeanova.decomposition.monotonicity import Monotonicity
from treeanova.plot import style
from treeanova.plot.scales import name_effect
from treeanova.plot.text import bin_name, shortened
from treeanova.views import look

_MOST_LABELS = 7
_LABEL_LENGTH = 18
_MOST_CHARACTERS = 55  # of all labels side by side


def monotonicity(monotonicity: Monotonicity, *, ax: Any = None) -> Any:
    """Axes with the range of changes of the score from each bin of a feature to the next.

    A bar reaches from the smallest to the largest change over all cells of the other features. A feature is increasing
    where no bar is below zero, and decreasing where none is above. Pale bars are bounds where exact ranges are not
    known.

    Parameters
    ----------
    monotonicity
        Result of ``fx.monotonicity(feature)``.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.monotonicity(fx.monotonicity("x0"))
    >>> ax.get_title()
    'x0: increasing'
    >>> [(float(bar.get_y()), float(bar.get_height())) for bar in ax.patches]
    [(0.0, 1.0)]
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    if not isinstance(monotonicity, Monotonicity):
        kind = type(monotonicity).__name__
        raise TypeError(f"`monotonicity` must be a Monotonicity, got {kind}; make one with fx.monotonicity(feature).")
    steps = monotonicity.all_steps
    is_new = ax is None
    ax = style.checked_axes(ax, 6.4, 3.6)
    bounds = np.array([(step.smallest, step.largest) for step in steps]).reshape(-1, 2)
    found = np.array([(step.smallest_found, step.largest_found) for step in steps]).reshape(-1, 2)
    ax.use_sticky_edges = False  # room below the lowest bar
    style.zero_line(ax, "y")
    if not all(step.is_exact for step in steps):
        _draw_ranges(ax, bounds, monotonicity.tolerance, alpha=0.3)
    drawn = _draw_ranges(ax, found, monotonicity.tolerance, alpha=0.9)
    _name_steps(ax, monotonicity)
    style.tidy(ax)
    if len(drawn) > 1:
        where = {"loc": "outside upper right", "ncols": 2} if is_new else {"loc": "best"}
        style.legend(ax.figure if is_new else ax, list(drawn.values()), list(drawn), **where)
    return ax


def _draw_ranges(ax: Any, ranges: Floats, tolerance: float, *, alpha: float) -> dict[str, Any]:
    """Draw a bar for each step, in two colours where it reaches to both sides of zero; returns what was drawn."""
    ranges = np.where(np.abs(ranges) <= tolerance, 0.0, ranges)
    places = np.arange(len(ranges))
    drawn = {}
    sides = (("rises", look.POSITIVE, np.maximum(ranges, 0.0)), ("falls", look.NEGATIVE, np.minimum(ranges, 0.0)))
    for name, colour, ends in sides:
        some = ends.any(axis=1)
        if some.any():
            low, high = ends[some].T
            tint = style.tone(colour)
            ax.bar(places[some], high - low, 0.8, bottom=low, color=tint, edgecolor=tint, alpha=alpha, zorder=2)
            drawn[name] = Patch(color=tint)
    return drawn


def _name_steps(ax: Any, found: Monotonicity) -> None:
    """Title, names of the axes, and labels of some bins."""
    n_steps = len(found.all_steps)
    words = {"neither": "neither increasing nor decreasing"}
    ax.set_title(f"{shortened(found.feature, 40)}: {words.get(found.direction, found.direction)}")
    name_effect(ax, "change from the bin below" + (f" ({found.output})" if found.output else ""), "y")
    ax.set_xlabel(shortened(found.feature, 60))
    ax.set_xlim(-0.6, max(n_steps, 1) - 0.4)
    chosen = np.unique(np.linspace(0, n_steps - 1, min(n_steps, _MOST_LABELS)).astype(int)).tolist()
    labels = [bin_name(found.all_steps[k].above, _LABEL_LENGTH) for k in chosen]
    turned: dict[str, Any] = {"rotation": 25, "ha": "right"} if sum(map(len, labels)) > _MOST_CHARACTERS else {}
    ax.set_xticks(chosen, labels=labels, **turned)
    if not n_steps:
        ax.text(0.5, 0.5, "one bin: no changes", transform=ax.transAxes, ha="center", va="center")
