"""compare() and grid(): one term of several decompositions, and the strongest terms of one on a page."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.lines import Line2D

from treeanova.core.arrays import Floats
from treeanova.core.labels import label_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.model.axes import IntervalAxis
from treeanova.plot import style
from treeanova.plot.bars import checked_count, importance_rows
from treeanova.plot.choices import (
    Key,
    check_order,
    checked_decomposition,
    ends_of,
    find_term,
    named_decompositions,
    names_of,
    output_of,
    term_of,
    values_of,
)
from treeanova.plot.mains import MainOptions, Series, draw_mains, main_series
from treeanova.plot.pairs import (
    PairOptions,
    draw_colorbar,
    draw_pair,
    draw_plane,
    name_across,
    plane_of,
    strongest,
    with_limits,
)
from treeanova.views import look

_PANEL = (4.0, 3.0)
_PANEL_BARS = 12
_PANEL_LINES = 4


# Several decompositions.


def compare(
    decompositions: Mapping[str, Decomposition] | Sequence[Decomposition],
    key: Key,
    *,
    output: str | int | None = None,
    limits: tuple[float, float] | None = None,
    extras: bool | None = None,
    order: str = "auto",
    max_bars: int | None = None,
    data: bool = True,
    ax: Any = None,
) -> Any:
    """One term of several decompositions: a main effect in one frame (Axes), a pair side by side (array of Axes).

    Parameters
    ----------
    decompositions
        By name, ``{"raw": fx.raw, "pure": fx}``, or a list, whose members go by their densities. One that lacks the
        term is drawn at zero.
    key
        Name of one feature, or names of two.
    output
        Name or position of a class or target; by default the first.
    limits, extras, order, max_bars, data
        As in `effect`, for a main effect; the data are those of the first decomposition, and categories are sorted by
        the last.
    ax
        Axes to draw on (for a pair, as many as there are decompositions); by default those of a new figure.
    """
    parts = named_decompositions(decompositions)
    first = next(iter(parts.values()))
    position = output_of(first, output)
    words = look.effect_words(first.schema, first.schema.outputs[position])
    if len(names_of(key)) == 1:
        options = MainOptions(limits, extras, order, max_bars, data)
        return draw_mains(_main_series(parts, key, position), words, options, ax)
    check_order(key, 2, "a comparison has room for one or two")
    return _compare_pairs(parts, key, position, PairOptions(extras=extras, words=words), ax)


def _terms_of(parts: Mapping[str, Decomposition], key: Key) -> dict[str, Term]:
    """The term in each decomposition; zero, on the bins of another, where one lacks it."""
    found = {name: find_term(part, key) for name, part in parts.items()}
    known = next((term for term in found.values() if term is not None), None)
    if known is None:
        known = term_of(next(iter(parts.values())), key)  # raises, with a list of what there is
    absent = dataclasses.replace(known, values=np.zeros_like(known.values))
    return {name: absent if term is None else term for name, term in found.items()}


def _main_series(parts: Mapping[str, Decomposition], key: Key, position: int) -> list[Series]:
    terms = _terms_of(parts, key)
    coloured = [name for name in parts if name != "raw"]
    return [
        Series(
            name=name if find_term(parts[name], key) is not None else f"{name}: no such term",
            axis=term.axes[0],
            values=values_of(parts[name], term.values, position),
            weights=term.weights,
            colour=style.series_colour(coloured.index(name) if name in coloured else 0, name),
            ends=ends_of(parts[name], term.features[0]),
        )
        for name, term in terms.items()
    ]


def _compare_pairs(parts: Mapping[str, Decomposition], key: Key, position: int, options: PairOptions, ax: Any) -> Any:
    """Heat maps side by side on one scale of colours."""
    terms = _terms_of(parts, key)
    across = name_across(key, next(iter(terms.values())))
    options = with_limits(options, [(parts[name], term) for name, term in terms.items()], across)
    planes = [
        plane_of(term, values_of(parts[name], term.values, position), across, options) for name, term in terms.items()
    ]
    limit = strongest(planes)
    planes = [dataclasses.replace(plane, limit=limit) for plane in planes]
    row = style.axes_row(ax, len(planes), 4.4, 4.2)
    for name, plane, one in zip(parts, planes, row, strict=True):
        mesh = draw_plane(plane, one)
        one.set_title(style.shortened(name, 36))
    for one in row[1:]:
        one.set_ylabel("")
    draw_colorbar(mesh, planes, options.words, row)
    return np.array(row, dtype=object)


# A page.


def grid(
    fx: Decomposition,
    *,
    k: int = 12,
    keys: Sequence[Key] | None = None,
    output: str | int | None = None,
    errors: Mapping[Any, Floats] | None = None,
    same_scale: bool = False,
    n_columns: int | None = None,
    ax: Any = None,
) -> Any:
    """Array of Axes, one per term: the strongest main effects and pairs of a decomposition on a page.

    Each panel has its own range unless `same_scale`; its title tells the term's rank and own variance, relative
    to that of the score. Terms
    that have no plot (more than two features) keep their rank and are named at the foot of a new figure.

    Parameters
    ----------
    fx
        The decomposition.
    k
        Number of terms, the strongest first.
    keys
        Terms to draw instead.
    output
        Name or position of a class or target; by default all of them in main effects, and the first in pairs and ranks.
    errors
        What ``fx.standard_errors()`` returned, for bands around main effects.
    same_scale
        Whether all panels have one range of values.
    n_columns
        Panels in a row; by default at most four.
    ax
        Axes to draw on, as many as terms; by default those of a new figure.
    """
    position = output_of(checked_decomposition(fx), output)
    ranked = _ranked(fx, position)
    if keys is None:
        chosen, missing = _chosen(fx, ranked, checked_count(k))
    else:
        chosen, missing = _given(fx, keys), []
    words = "" if ax is None else look.effect_words(fx.schema, None if output is None else fx.schema.outputs[position])
    page = _Page(output, position, errors, _largest(fx, chosen, output) if same_scale else None, words)
    panels = _panels(ax, len(chosen), n_columns)
    for names, panel in zip(chosen, panels, strict=True):
        _draw_panel(fx, names, panel, page)
        panel.set_title(_title(names, ranked), fontsize="medium")
    if ax is None:
        _name_once(fx, panels, page)
    if missing and ax is None:
        panels[0].figure.supxlabel(_left_out(missing), fontsize="small")
    return np.array(panels, dtype=object)


@dataclasses.dataclass(frozen=True, eq=False)
class _Page:
    """What the panels of a page share; without words, values are named once for all."""

    output: str | int | None
    position: int
    errors: Mapping[Any, Floats] | None
    limit: float | None
    words: str


def _given(fx: Decomposition, keys: Sequence[Key]) -> list[tuple[str, ...]]:
    """The terms asked for."""
    if isinstance(keys, str) or not keys:
        raise ValueError(f"`keys` must be a list of terms, got {keys!r}; pass ['a', ('a', 'b')] or leave it out.")
    for key in keys:
        if len(names_of(key)) > 2:
            check_order(key, 2, "terms of more have no plot, see fx.importance()")
    return [term_of(fx, key).features for key in keys]


def _ranked(fx: Decomposition, position: int) -> dict[str, tuple[int, float]]:
    """Rank and own variance of every term, by its name in the table of importance."""
    names, variances, _ = importance_rows(fx, "term", position)
    return {name: (i + 1, float(variances[i])) for i, name in enumerate(names)}


def _chosen(
    fx: Decomposition, ranked: Mapping[str, tuple[int, float]], k: int
) -> tuple[list[tuple[str, ...]], list[tuple[str, float]]]:
    """The k strongest terms that can be drawn, and those at least as strong that cannot."""
    drawable = {label_of(names): names for names in fx.terms if len(names) <= 2}
    chosen = [drawable[name] for name in ranked if name in drawable][:k]
    if not chosen:
        raise ValueError("`fx` must have main effects or pairs to be drawn, got none; see fx.importance().")
    last = max(ranked[label_of(names)][0] for names in chosen)
    missing = [(name, variance) for name, (rank, variance) in ranked.items() if name not in drawable and rank < last]
    return chosen, missing


def _panels(ax: Any, n_panels: int, n_columns: int | None) -> list[Any]:
    if ax is not None:
        return style.axes_row(ax, n_panels, *_PANEL)
    wide = checked_columns(n_columns, n_panels)
    high = math.ceil(n_panels / wide)
    size = (_PANEL[0] * wide, _PANEL[1] * high)
    _, panels = plt.subplots(high, wide, figsize=size, layout="constrained", squeeze=False)
    for unused in panels.flat[n_panels:]:
        unused.remove()
    panels[0, 0].figure.get_layout_engine().set(w_pad=0.08, h_pad=0.08)
    return list(panels.flat[:n_panels])


def checked_columns(n_columns: int | None, n_panels: int) -> int:
    """Panels in a row."""
    if n_columns is None:
        return min(n_panels, min((4, 3), key=lambda wide: -n_panels % wide))  # the fewest left empty
    if n_columns < 1:
        raise ValueError(f"`n_columns` must be at least 1, got {n_columns!r}; leave it out for the default.")
    return min(n_columns, n_panels)


def _largest(fx: Decomposition, chosen: Sequence[tuple[str, ...]], output: str | int | None) -> float:
    """The largest value of some terms, of all outputs where none is given."""
    tables = [fx.terms[names].values for names in chosen]
    if output is not None:
        tables = [values_of(fx, table, output_of(fx, output)) for table in tables]
    return max(float(np.abs(table).max()) for table in tables) or 1.0


def _draw_panel(fx: Decomposition, names: tuple[str, ...], panel: Any, page: _Page) -> None:
    if len(names) == 2:
        kind = "auto" if _has_few_categories(fx.terms[names]) else "heatmap"
        words = page.words and look.effect_words(fx.schema, fx.schema.outputs[page.position])
        if [isinstance(axis, IntervalAxis) for axis in fx.terms[names].axes] == [False, True]:
            names = names[::-1]  # numbers across, categories where their names have room
        draw_pair(fx, names, page.position, PairOptions(kind=kind, limit=page.limit, words=words), panel)
        return
    options = MainOptions(max_bars=_PANEL_BARS, legend=bool(page.words))
    draw_mains(main_series(fx, names, page.output, page.errors), page.words, options, panel)
    if page.limit is not None:
        which = "x" if panel.yaxis_inverted() else "y"
        style.make_room(panel, which, -page.limit, page.limit, strip=True)


def _has_few_categories(term: Term) -> bool:
    return min((axis.size for axis in term.axes if not isinstance(axis, IntervalAxis)), default=0) <= _PANEL_LINES


def _name_once(fx: Decomposition, panels: Sequence[Any], page: _Page) -> None:
    """Write along a new figure what its panels share: what values are, and the colours of outputs."""
    figure = panels[0].figure
    single = len(fx.schema.outputs) == 1 or page.output is not None
    figure.supylabel(
        look.effect_words(fx.schema, fx.schema.outputs[page.position] if single else None), fontsize="medium"
    )
    if not single:
        lines = [Line2D([], [], color=style.series_colour(i), linewidth=2) for i in range(len(fx.schema.outputs))]
        first = style.shortened(fx.schema.outputs[0], 24)
        style.legend(
            figure, lines, fx.schema.outputs, loc="outside upper right", ncols=6, title=f"pairs and ranks: {first}"
        )


def _title(names: Sequence[str], ranked: Mapping[str, tuple[int, float]]) -> str:
    rank, variance = ranked.get(label_of(names), (0, 0.0))
    return f"{rank}. {style.term_name(names, 30 // len(names))}   {style.percent(variance)}"


def _left_out(missing: Sequence[tuple[str, float]]) -> str:
    """Terms without a plot in words."""
    shown = ", ".join(f"{style.shortened(name, 60)} {style.percent(variance)}" for name, variance in missing[:4])
    more = f" and {len(missing) - 4} more" if len(missing) > 4 else ""
    return f"Not drawn, of more than two features: {shown}{more}"
