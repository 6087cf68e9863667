"""pair(): one interaction of two features as a heat map, or as a line per category."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.plot import style
from treeanova.plot.choices import (
    KeyLike,
    check_order,
    checked_decomposition,
    data_ends,
    of_output,
    output_position,
    term_of,
)
from treeanova.plot.heatmaps import colour_limit, draw_colorbar, draw_plane, figure_size, plane_of
from treeanova.plot.lines import draw_lines
from treeanova.plot.marginals import draw_marginals
from treeanova.plot.ranges import Ends, checked_limits, common_range
from treeanova.views import look

KINDS = ("auto", "heatmap", "lines")


@dataclasses.dataclass(frozen=True)
class PairOptions:
    """How a pair is drawn; see `pair`. Values are named along their scale unless `words` is empty."""

    kind: str = "auto"
    marginals: bool = False
    limit: float | None = None
    xlimits: Ends | None = None
    ylimits: Ends | None = None
    extras: bool | None = None
    colorbar: bool = True
    words: str = ""


def pair(
    fx: Decomposition,
    key: KeyLike,
    *,
    output: str | int | None = None,
    kind: str = "auto",
    marginals: bool = False,
    limit: float | None = None,
    xlimits: tuple[float, float] | None = None,
    ylimits: tuple[float, float] | None = None,
    extras: bool | None = None,
    colorbar: bool = True,
    ax: Any = None,
) -> Any:
    """Axes with one interaction: a heat map on the term's own bins, or lines where one feature is a category.

    White is zero. Cells with next to no data are hatched grey, and lines are dotted there.

    Parameters
    ----------
    fx
        The decomposition.
    key
        Names of two features; the one named first goes across.
    output
        Name or position of a class or target; by default the first.
    kind
        "heatmap"; "lines", one per category over a numeric feature; or "auto", which draws lines for a category and a
        numeric feature, else a heat map.
    marginals
        Whether to draw the main effects along the sides of a heat map.
    limit
        Value of the strongest colour. By default the largest value where there are data, or less where a few cells
        reach far beyond all others: the colour bar then has pointed ends.
    xlimits, ylimits
        Ends of the axes of numeric features, as `limits` of `effect`. Lines use `xlimits` only.
    extras
        Whether missing and unseen values are shown, apart from the others; by default where the data have some.
    colorbar
        Whether to draw the colour bar.
    ax
        Axes to draw on; by default those of a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Raises
    ------
    ValueError
        If the decomposition has no table of the two features.

    Notes
    -----
    A cell has next to no data where its weight is less than a hundredth of what it would be if the features were
    independent. Where cells with data lie scattered among such cells, the latter are filled with pale colours.

    Examples
    --------
    The interaction is 0.25 where the features are equal and -0.25 where they differ:

    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> ax = treeanova.plot.pair(fx, ("x0", "x1"))
    >>> ax.collections[0].get_array().tolist()
    [[0.25, -0.25], [-0.25, 0.25]]
    >>> ax.get_xlabel(), ax.get_ylabel()
    ('x0', 'x1')
    >>> import matplotlib.pyplot as plt
    >>> plt.close(ax.figure)
    """
    position = output_position(checked_decomposition(fx), output)
    words = look.effect_words(fx.schema, fx.outputs[position])
    options = PairOptions(kind, marginals, limit, xlimits, ylimits, extras, colorbar, words)
    return draw_pair(fx, key, position, options, ax)


def draw_pair(fx: Decomposition, key: KeyLike, position: int, options: PairOptions, ax: Any) -> Any:
    """Axes with one interaction of one output."""
    check_order(key, 2, "use effect() for one feature; terms of more features have no plot, see fx.importance()")
    term = term_of(fx, key)
    if is_drawn_as_lines(term, options.kind):
        number = next(name for name, axis in zip(term.features, term.axes, strict=True) if axis.is_ordered)
        options = with_limits(options, [(fx, term)], number)
        values = of_output(fx, term.values, position)
        return draw_lines(term, values, ax, limits=options.xlimits, extras=options.extras, words=options.words)
    return _draw_heatmap(fx, key, position, options, ax)


def _draw_heatmap(fx: Decomposition, key: KeyLike, position: int, options: PairOptions, ax: Any) -> Any:
    term = term_of(fx, key)
    across = name_across(key, term)
    options = with_limits(options, [(fx, term)], across)
    values = of_output(fx, term.values, position)
    plane = plane_of(term, values, across, (options.xlimits, options.ylimits), options.extras)
    plane = dataclasses.replace(plane, limit=_checked_limit(options.limit) or colour_limit([plane]))
    ax = style.checked_axes(ax, *figure_size(plane, marginals=options.marginals))
    mesh = draw_plane(plane, ax)
    if options.marginals:
        draw_marginals(fx, plane, position, ax)
    if options.colorbar:
        draw_colorbar(mesh, [plane], options.words, [ax], pad=0.04 if options.marginals else 0.02)
    return ax


def _checked_limit(limit: float | None) -> float | None:
    if limit is not None and not (np.isfinite(limit) and limit > 0):
        raise ValueError(f"`limit` must be a number above zero, got {limit!r}; leave it out for the largest value.")
    return limit


def is_drawn_as_lines(term: Term, kind: str) -> bool:
    """Whether a pair is drawn as lines: one feature is a category, one is numeric, and no heat map was asked for."""
    is_mixed = len({axis.is_ordered for axis in term.axes}) == 2
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(map(repr, KINDS))}, got {kind!r}; leave it out for 'auto'.")
    if kind == "lines" and not is_mixed:
        raise ValueError("`kind` must be 'heatmap' for two features of one kind, got 'lines'; leave it out.")
    return is_mixed and kind != "heatmap"


def name_across(key: KeyLike, term: Term) -> str:
    """The feature that goes across: the first one named, where the names have an order."""
    return str(next(iter(key))) if isinstance(key, list | tuple) else term.features[0]


def with_limits(options: PairOptions, parts: Sequence[tuple[Decomposition, Term]], across: str) -> PairOptions:
    """The options with ends of numeric axes that contain the ranges of all terms, where none are given."""
    for i, name in enumerate(parts[0][1].features):
        field = "xlimits" if name == across else "ylimits"
        given = getattr(options, field)
        axes = [(term.axes[i], term.weights.sum(axis=1 - i), data_ends(fx, name)) for fx, term in parts]
        ends = common_range(axes) if given is None else checked_limits(given)
        options = dataclasses.replace(options, **{field: ends})  # type: ignore[arg-type]
    return options
