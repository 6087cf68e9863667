"""simplification(): the loss of smaller and smaller models against their number of terms."""

from __future__ import annotations

from typing import Any

import matplotlib as mpl
import numpy as np
from matplotlib.ticker import MaxNLocator

from treeanova import views
from treeanova.core.arrays import Floats
from treeanova.data.columns import columns_of
from treeanova.decomposition.simplify import Simplification
from treeanova.plot import style
from treeanova.plot.choices import checked_kind
from treeanova.plot.style import documented

_FEW = 0.3  # share of the chosen number of terms from which on all points are in the frame
_LONG = 40  # terms from which on small numbers get more room


@documented
def simplification(simplification: Simplification, *, ax: Any = None) -> Any:
    """Draw the loss of the models of a simplification against their number of terms.

    The band reaches from the smallest loss to one standard error above it, where the error is that of the difference to
    the smallest loss: it varies with the number of terms. The ring is the model that was chosen, the first one in the
    band unless `max_terms` is smaller. Models that are far worse may be above the frame.

    Parameters
    ----------
    simplification
        Result of ``fx.simplify(X, y)``.
    {ax}

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
    >>> simple = fx.simplify(rows, rows[:, 0] + 0.1 * rng.normal(size=200))
    >>> ax = treeanova.plot.simplification(simple)
    >>> ax.get_xlabel()
    'number of terms'
    """
    checked_kind(simplification, Simplification, "simplification", "fx.simplify(X, y)")
    path = {name: np.array(column) for name, column in columns_of(simplification.path).items()}
    sizes, losses = path["n_terms"].astype(float), path["loss"]
    ax = style.checked_axes(ax, 6.4, 4.0)
    if sizes.max() > _LONG:
        ax.set_xscale("function", functions=(lambda sizes: np.sqrt(np.maximum(sizes, 0.0)), np.square))
    best, colour = losses - path["difference"], style.tone(views.MAIN)
    band = ax.fill_between(sizes, best, best + path["error"], color=colour, alpha=0.22, linewidth=0, zorder=1)
    [line] = ax.plot(sizes, losses, marker="o", markersize=3.5, linewidth=1.4, color=colour, zorder=3)
    whole = ax.axhline(simplification.model_loss, color=style.tone(views.RAW), linestyle="--", linewidth=1.2, zorder=2)
    position = int(np.flatnonzero(path["n_terms"] == simplification.n_terms)[0])
    [ring] = ax.plot(
        sizes[position],
        losses[position],
        linestyle="none",
        marker="o",
        markersize=10,
        markeredgewidth=1.8,
        markerfacecolor="none",
        markeredgecolor=mpl.rcParams["text.color"],
        zorder=4,
    )
    _set_limits(ax, sizes, losses, np.append(best + path["error"], simplification.model_loss), simplification.n_terms)
    ax.set_xlabel("number of terms")
    ax.set_ylabel(style.wrapped(f"{simplification.loss} on held-out rows"))
    style.tidy(ax)
    names = {
        f"chosen: {simplification.n_terms} terms": ring,
        "simplified models": line,
        "one standard error": band,
        "the whole model": whole,
    }
    style.legend(ax, list(names.values()), list(names), loc="upper right")
    return ax


def _set_limits(ax: Any, sizes: Floats, losses: Floats, marks: Floats, n_terms: int) -> None:
    """Show all models from a share of the chosen number of terms on, and the other numbers near them."""
    shown = losses[sizes >= min(_FEW * n_terms, n_terms - 1)]
    low, high = min(shown.min(), marks[-1]), max(shown.max(), marks[-1])
    room = 0.06 * (high - low) or 1.0
    ax.set_ylim(low - room, high + 2 * room)
    ax.xaxis.set_major_locator(MaxNLocator(8, integer=True))
