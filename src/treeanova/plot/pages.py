"""grid(): the strongest terms of a decomposition on a page."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from treeanova import views
from treeanova.core.arrays import Names
from treeanova.decomposition.answers import ranking_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.importance import Standing
from treeanova.decomposition.predictions import function_of
from treeanova.plot import choices, scales, style
from treeanova.plot.choices import Errors, KeyLike
from treeanova.plot.effects import MainOptions, draw_mains, main_series
from treeanova.plot.pairs import PairOptions, draw_pair
from treeanova.plot.style import documented, feature_names, shortened, term_name

_PANEL = (4.2, 3.1)  # in inches
_PANEL_BARS = 12
_TITLE = 23  # characters of a term's name
_AXIS_NAME = 22
_LISTED_TERMS = 4
# Fonts of new figures, which leave most of a panel to its picture.
_SMALL = {"xtick.labelsize": "small", "ytick.labelsize": "small", "axes.labelsize": "small"}


_Ranked = tuple[int, Standing]


@dataclasses.dataclass(frozen=True, eq=False)
class _Page:
    """What the panels of a page share; without words, values are named once for all panels, and axes in short."""

    output: str | int | None
    position: int
    errors: Errors | None
    limit: float | None
    words: str
    short: Mapping[str, str]


@documented
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
    """Draw the strongest main effects and pairs of a decomposition on a page, one panel per term.

    The title of a panel has the term's rank and its variance, relative to that of the score. Terms of more than two
    features have no plot; the foot of a new figure names them with their ranks.

    Parameters
    ----------
    {fx}
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
    >>> [panel.get_title("left").split() for panel in panels]
    [['1.', 'x0', '33', '%'], ['2.', 'x1', '33', '%']]
    """
    position = choices.output_position(choices.checked_decomposition(fx), output)
    ranking = ranking_of(fx).of(fx.outputs[position])
    terms, left_out = (
        _strongest(fx, ranking, choices.checked_count(k)) if keys is None else (_checked_keys(fx, keys), [])
    )
    name = None if output is None else fx.outputs[position]
    words = "" if ax is None else views.effect_words(fx.schema, name, fx.density.baseline)
    limit = _largest_value(fx, terms, output) if same_scale else None
    page = _Page(output, position, errors, limit, words, feature_names(fx.schema.names, _AXIS_NAME))
    panels = _panels(ax, len(terms), n_columns)
    titles = _titles(fx, ranking)
    with mpl.rc_context(_SMALL if ax is None else {}):
        for names, panel in zip(terms, panels, strict=True):
            _draw_panel(fx, names, panel, page)
            panel.set_title(titles[names], fontsize="small", fontweight="bold", loc="left")
    if ax is None:
        _name_once(fx, panels, page)
        panels[0].figure.supxlabel(_foot(fx, left_out), fontsize="small")
    return np.array(panels, dtype=object)


# Terms.


def _checked_keys(fx: Decomposition, keys: Sequence[KeyLike]) -> list[Names]:
    if isinstance(keys, str) or not keys:
        raise ValueError(f"`keys` must be a list of terms, got {keys!r}; pass ['a', ('a', 'b')] or leave it out.")
    for key in keys:
        if len(choices.names_of(key)) > 2:
            choices.check_order(key, 2, "terms of more features have no plot, see fx.importance()")
    return [choices.term_of(fx, key).features for key in keys]


def _strongest(fx: Decomposition, ranking: Sequence[Standing], k: int) -> tuple[list[Names], list[_Ranked]]:
    drawable = {names for names in choices.tables_of(fx) if len(names) <= 2}
    terms = [term.features for term in ranking if term.features in drawable][:k]
    if not terms:
        raise ValueError(
            f"`fx` must have tables of main effects or pairs to be drawn, got {len(ranking)} terms without; see "
            "fx.importance()."
        )
    last = next(i for i, term in enumerate(ranking) if term.features == terms[-1])
    return terms, [one for one in enumerate(ranking[:last], start=1) if one[1].features not in drawable]


def _foot(fx: Decomposition, left_out: Sequence[_Ranked]) -> str:
    words = f"Titles: rank and {views.variance_words(fx.schema, is_part=function_of(fx).scope.is_part)}."
    if not left_out:
        return words
    shown = [
        f"{rank}. {shortened(term.label, 60)} ({views.percent(term.variance)})"
        for rank, term in left_out[:_LISTED_TERMS]
    ]
    more = f" and {len(left_out) - _LISTED_TERMS} more" if len(left_out) > _LISTED_TERMS else ""
    return f"{words}\nNot drawn, because terms of more than two features have no plot: {', '.join(shown)}{more}."


def _titles(fx: Decomposition, ranking: Sequence[Standing]) -> dict[Names, str]:
    short = functools.cache(lambda room: feature_names(fx.schema.names, room))
    return {
        term.features: (
            f"{rank}. {term_name(term.features, short(_room(term.features)))}   {views.percent(term.variance)}"
        )
        for rank, term in enumerate(ranking, start=1)
        if term.features and term.order <= 2
    }


def _room(names: Names) -> int:
    """Return the characters for each name in a title: a short name leaves its room to the other."""
    return _TITLE if len(names) == 1 else max(_TITLE // 2, _TITLE - min(map(len, names)))


def _largest_value(fx: Decomposition, terms: Sequence[Names], output: str | int | None) -> float:
    tables = [fx.terms[names].values for names in terms]
    if output is not None:
        tables = [choices.of_output(fx, table, choices.output_position(fx, output)) for table in tables]
    return max(float(np.abs(table).max()) for table in tables) or 1.0


# Panels.


def _panels(ax: Any, n_panels: int, n_columns: int | None) -> list[Any]:
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
    if not page.words:
        _rename(panel, "y" if panel.yaxis_inverted() else "x", "")  # the title names the feature


def _rename(panel: Any, which: str, name: str) -> None:
    _, *notes = getattr(panel, f"get_{which}label")().split("\n(", 1)
    lines = [name, *(f"({note}" for note in notes)]
    getattr(panel, f"set_{which}label")("\n".join(filter(None, lines)))


def _draw_pair_panel(fx: Decomposition, names: Names, panel: Any, page: _Page) -> None:
    term = fx.terms[names]
    words = page.words and views.effect_words(fx.schema, fx.outputs[page.position], fx.density.baseline)
    if [axis.is_ordered for axis in term.axes] == [False, True]:
        names = names[::-1]  # numbers across, categories up where their names have room
    options = PairOptions(kind="heatmap", limit=page.limit, words=words, errors=page.errors)
    draw_pair(fx, names, page.position, options, panel)
    if not page.words:
        for which, name in zip("xy", names, strict=True):
            _rename(panel, which, page.short[name])


def _name_once(fx: Decomposition, panels: Sequence[Any], page: _Page) -> None:
    figure, outputs = panels[0].figure, fx.outputs
    is_single = len(outputs) == 1 or page.output is not None
    figure.supylabel(
        views.effect_words(fx.schema, outputs[page.position] if is_single else None, fx.density.baseline),
        fontsize="medium",
    )
    if not is_single:
        lines = [Line2D([], [], color=style.series_colour(i), linewidth=2) for i in range(len(outputs))]
        title = f"pairs and ranks: {shortened(outputs[0], 24)}"
        style.legend(figure, lines, outputs, loc="outside upper right", ncols=6, title=title)
