"""compare(): one term of several decompositions."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.plot import style
from treeanova.plot.choices import (
    KeyLike,
    check_order,
    data_ends,
    find_term,
    named_decompositions,
    names_of,
    of_output,
    output_position,
    term_of,
)
from treeanova.plot.heatmaps import colour_limit, draw_colorbar, draw_plane, plane_of
from treeanova.plot.mains import MainOptions, Series, draw_mains
from treeanova.plot.pairs import PairOptions, axis_choices, name_across
from treeanova.plot.text import shortened
from treeanova.views import look


class _Side(NamedTuple):
    """One decomposition of a comparison: the term whose bins are drawn, and its values."""

    name: str
    fx: Decomposition
    term: Term
    values: Floats
    has_term: bool


def compare(
    decompositions: Mapping[str, Decomposition] | Sequence[Decomposition],
    key: KeyLike,
    *,
    output: str | int | None = None,
    limits: tuple[float, float] | None = None,
    x_scale: str = "linear",
    extras: bool | None = None,
    order: str = "auto",
    max_bars: int | None = None,
    data: bool = True,
    ax: Any = None,
) -> Any:
    """One term of several decompositions: a main effect in one frame, or heat maps of a pair side by side.

    Parameters
    ----------
    decompositions
        Decompositions by name, ``{"raw": fx.raw, "pure": fx}``, or a list of them, which are then named by their
        densities. One that lacks the term is drawn at zero.
    key
        Name of one feature, or names of two; of two, the one named first goes across.
    output
        Name or position of a class or target; by default the first.
    limits
        Ends of the numeric axis of a main effect, as in `effect`.
    x_scale
        How numbers are spread along the axis of a main effect, as in `effect`; "quantile" is that of the data of the
        first decomposition. For a pair, along the axis that goes across.
    extras
        Whether missing and unseen values are shown, as in `effect`.
    order
        Order of categories of a main effect, as in `effect`; "value" sorts by the last decomposition.
    max_bars
        Number of bars of a main effect, as in `effect`.
    data
        Whether to show how the data of the first decomposition are spread, for a main effect.
    ax
        Axes to draw on (for a pair, one for each decomposition); by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes or array of Axes
        One for a main effect; an array with one for each decomposition for a pair.

    Raises
    ------
    ValueError
        If no decomposition has the term.

    Examples
    --------
    Before purification the whole model is one interaction, without main effects:

    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> axes = treeanova.plot.compare({"raw": fx.raw, "pure": fx}, ("x0", "x1"))
    >>> for ax in axes:
    ...     print(ax.get_title(), ax.collections[0].get_array().tolist())
    raw [[0.0, 0.0], [0.0, 1.0]]
    pure [[0.25, -0.25], [-0.25, 0.25]]
    >>> import matplotlib.pyplot as plt
    >>> plt.close(axes[0].figure)
    """
    parts = named_decompositions(decompositions)
    first = next(iter(parts.values()))
    position = output_position(first, output)
    words = look.effect_words(first.schema, first.outputs[position])
    if len(names_of(key)) == 1:
        options = MainOptions(limits, extras, order, max_bars, data, x_scale)
        return draw_mains(_main_series(_sides(parts, key, position)), words, options, ax)
    check_order(key, 2, "a comparison has room for one or two")
    return _compare_pairs(
        _sides(parts, key, position), key, PairOptions(extras=extras, words=words, x_scale=x_scale), ax
    )


def _sides(parts: Mapping[str, Decomposition], key: KeyLike, position: int) -> list[_Side]:
    """The term in each decomposition; zero, on the bins of another, where one lacks it."""
    terms = {name: find_term(fx, key) for name, fx in parts.items()}
    known = next((term for term in terms.values() if term is not None), None)
    if known is None:
        known = term_of(next(iter(parts.values())), key)  # raises, with a list of the terms that there are
    sides = []
    for name, fx in parts.items():
        term = terms[name]
        values = of_output(fx, np.zeros_like(known.values) if term is None else term.values, position)
        sides.append(_Side(name, fx, term or known, values, term is not None))
    return sides


def _main_series(sides: Sequence[_Side]) -> list[Series]:
    coloured = [side.name for side in sides if side.name != "raw"]
    return [
        Series(
            name=side.name if side.has_term else f"{side.name}: no such term",
            axis=side.term.axes[0],
            values=side.values,
            weights=side.term.weights,
            colour=style.series_colour(coloured.index(side.name) if side.name in coloured else 0, side.name),
            ends=data_ends(side.fx, side.term.features[0]),
        )
        for side in sides
    ]


def _compare_pairs(sides: Sequence[_Side], key: KeyLike, options: PairOptions, ax: Any) -> Any:
    """Heat maps side by side on one scale of colours."""
    across = name_across(key, sides[0].term)
    choices = axis_choices(options, [(side.fx, side.term) for side in sides], across)
    planes = [plane_of(side.term, side.values, across, choices, options.extras) for side in sides]
    limit = colour_limit(planes)
    planes = [dataclasses.replace(plane, limit=limit) for plane in planes]
    row = style.axes_row(ax, len(planes), 4.4, 4.2)
    for side, plane, panel in zip(sides, planes, row, strict=True):
        mesh = draw_plane(plane, panel)
        panel.set_title(shortened(side.name, 36))
    for panel in row[1:]:
        panel.set_ylabel("")
    draw_colorbar(mesh, planes, options.words, row)
    return np.array(row, dtype=object)
