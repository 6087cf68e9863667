"""grid(): the strongest terms of a decomposition on a page."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from treeanova.core.arrays import Names
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.plot import scales, style
from treeanova.plot.choices import (
    Errors,
    KeyLike,
    check_order,
    checked_count,
    checked_decomposition,
    names_of,
    of_output,
    output_position,
    tables_of,
    term_of,
)
from treeanova.plot.mains import MainOptions, draw_mains, main_series
from treeanova.plot.pairs import PairOptions, draw_pair
from treeanova.plot.text import percent, shortened, term_name
from treeanova.views import look
from treeanova.views.standings import Standing, standings

_PANEL = (4.0, 3.0)  # in inches
_PANEL_BARS = 12
_PANEL_LINES = 4
_LISTED_TERMS = 4


@dataclasses.dataclass(frozen=True, eq=False)
class _Page:
    """What the panels of a page share; without words, values are named once for all panels."""

    output: str | int | None
    position: int
    errors: Errors | None
    limit: float | None
    words: str


def grid(
    fx: Decomposition,
    *,
    k: int = 12,
    keys: Sequence[KeyLike] | None = None,
    output: str | int | None = None,
    errors: Errors | None = None,
    same_scale: bool = False,
    n_columns: int | None = None,
    ax: Any = None,
) -> Any:
    """Array of Axes, one per term: the strongest main effects and pairs of a decomposition on a page.

    The title of a panel has the term's rank and its own variance, relative to that of the score. Terms of more than two
    features have no plot; they keep their rank and are named at the foot of a new figure.

    Parameters
    ----------
    fx
        The decomposition.
    k
        Number of terms, the strongest first.
    keys
        Terms to draw instead of the strongest.
    output
        Name or position of a class or target; by default all of them in main effects, and the first in pairs and ranks.
    errors
        A `Bag`, or standard errors, as for `effect` and `pair`: bands around main effects, pale cells in pairs.
    same_scale
        Whether all panels have one range of values; by default each has its own.
    n_columns
        Panels in a row; by default three or four.
    ax
        Axes to draw on, one for each term; by default those of a new figure.

    Returns
    -------
    array of matplotlib.axes.Axes

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> panels = treeanova.plot.grid(fx, k=2)
    >>> [panel.get_title() for panel in panels]
    ['1. x0   33 %', '2. x1   33 %']
    >>> import matplotlib.pyplot as plt
    >>> plt.close(panels[0].figure)
    """
    position = output_position(checked_decomposition(fx), output)
    ranking = standings(fx)[fx.outputs[position]]
    chosen, left_out = _strongest(fx, ranking, checked_count(k)) if keys is None else (_given(fx, keys), [])
    words = (
        ""
        if ax is None
        else look.effect_words(fx.schema, None if output is None else fx.outputs[position], fx.baseline)
    )
    limit = _largest_value(fx, chosen, output) if same_scale else None
    page = _Page(output, position, errors, limit, words)
    panels = _panels(ax, len(chosen), n_columns)
    titles = {term.features: (rank, term.variance) for rank, term in enumerate(ranking, start=1)}
    for names, panel in zip(chosen, panels, strict=True):
        _draw_panel(fx, names, panel, page)
        panel.set_title(_title(names, *titles.get(names, (0, 0.0))), fontsize="medium")
    if ax is None:
        _name_once(fx, panels, page)
    if left_out and ax is None:
        panels[0].figure.supxlabel(_left_out_words(left_out), fontsize="small")
    return np.array(panels, dtype=object)


# Terms.


def _given(fx: Decomposition, keys: Sequence[KeyLike]) -> list[Names]:
    """The terms asked for."""
    if isinstance(keys, str) or not keys:
        raise ValueError(f"`keys` must be a list of terms, got {keys!r}; pass ['a', ('a', 'b')] or leave it out.")
    for key in keys:
        if len(names_of(key)) > 2:
            check_order(key, 2, "terms of more features have no plot, see fx.importance()")
    return [term_of(fx, key).features for key in keys]


def _strongest(fx: Decomposition, ranking: Sequence[Standing], k: int) -> tuple[list[Names], list[Standing]]:
    """The k strongest terms that have a plot, and stronger ones that have none."""
    drawable = {names for names in tables_of(fx) if len(names) <= 2}
    chosen = [term.features for term in ranking if term.features in drawable][:k]
    if not chosen:
        raise ValueError(
            f"`fx` must have tables of main effects or pairs to be drawn, got {len(ranking)} terms without; see "
            "fx.importance()."
        )
    last = next(i for i, term in enumerate(ranking) if term.features == chosen[-1])
    return chosen, [term for term in ranking[:last] if term.features not in drawable]


def _left_out_words(terms: Sequence[Standing]) -> str:
    """Terms without a plot in words."""
    shown = ", ".join(f"{shortened(term.label, 60)} {percent(term.variance)}" for term in terms[:_LISTED_TERMS])
    more = f" and {len(terms) - _LISTED_TERMS} more" if len(terms) > _LISTED_TERMS else ""
    return f"Not drawn, of more than two features: {shown}{more}"


def _title(names: Names, rank: int, variance: float) -> str:
    return f"{rank}. {term_name(names, 30 // len(names))}   {percent(variance)}"


def _largest_value(fx: Decomposition, chosen: Sequence[Names], output: str | int | None) -> float:
    """The largest absolute value of some terms, over all outputs where none is given."""
    tables = [fx.terms[names].values for names in chosen]
    if output is not None:
        tables = [of_output(fx, table, output_position(fx, output)) for table in tables]
    return max(float(np.abs(table).max()) for table in tables) or 1.0


# Panels.


def _panels(ax: Any, n_panels: int, n_columns: int | None) -> list[Any]:
    """The axes given, or those of a new figure."""
    if ax is not None:
        return style.axes_row(ax, n_panels, *_PANEL)
    width = checked_columns(n_columns, n_panels)
    height = math.ceil(n_panels / width)
    size = (_PANEL[0] * width, _PANEL[1] * height)
    _, panels = plt.subplots(height, width, figsize=size, layout="constrained", squeeze=False)
    for unused in panels.flat[n_panels:]:
        unused.remove()
    panels[0, 0].figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return list(panels.flat[:n_panels])


def checked_columns(n_columns: int | None, n_panels: int) -> int:
    """Panels in a row; by default four or three, whichever leaves fewer places empty."""
    if n_columns is None:
        return min(n_panels, min((4, 3), key=lambda width: -n_panels % width))
    if n_columns < 1:
        raise ValueError(f"`n_columns` must be at least 1, got {n_columns!r}; leave it out for the default.")
    return min(n_columns, n_panels)


def _draw_panel(fx: Decomposition, names: Names, panel: Any, page: _Page) -> None:
    if len(names) == 2:
        _draw_pair_panel(fx, names, panel, page)
        return
    options = MainOptions(max_bars=_PANEL_BARS, legend=bool(page.words))
    draw_mains(main_series(fx, names, page.output, page.errors), page.words, options, panel)
    if page.limit is not None:
        which = "x" if panel.yaxis_inverted() else "y"
        scales.set_value_limits(panel, which, -page.limit, page.limit, strip=True)


def _draw_pair_panel(fx: Decomposition, names: Names, panel: Any, page: _Page) -> None:
    term = fx.terms[names]
    kind = "auto" if _has_few_categories(term) else "heatmap"
    words = page.words and look.effect_words(fx.schema, fx.outputs[page.position], fx.baseline)
    if [axis.is_ordered for axis in term.axes] == [False, True]:
        names = names[::-1]  # numbers across, categories up where their names have room
    draw_pair(
        fx, names, page.position, PairOptions(kind=kind, limit=page.limit, words=words, errors=page.errors), panel
    )


def _has_few_categories(term: Term) -> bool:
    return min((axis.size for axis in term.axes if not axis.is_ordered), default=0) <= _PANEL_LINES


def _name_once(fx: Decomposition, panels: Sequence[Any], page: _Page) -> None:
    """Write along a new figure what its panels share: what values mean, and the colours of outputs."""
    figure, outputs = panels[0].figure, fx.outputs
    is_single = len(outputs) == 1 or page.output is not None
    figure.supylabel(
        look.effect_words(fx.schema, outputs[page.position] if is_single else None, fx.baseline), fontsize="medium"
    )
    if not is_single:
        lines = [Line2D([], [], color=style.series_colour(i), linewidth=2) for i in range(len(outputs))]
        title = f"pairs and ranks: {shortened(outputs[0], 24)}"
        style.legend(figure, lines, outputs, loc="outside upper right", ncols=6, title=title)
