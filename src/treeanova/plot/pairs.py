"""pair(): one interaction of two features as a heat map, or as a line per category."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.plot import style
from treeanova.plot.axis_drawing import AxisChoice
from treeanova.plot.axis_scales import scale_and_ends
from treeanova.plot.choices import (
    Errors,
    KeyLike,
    check_order,
    checked_decomposition,
    data_ends,
    of_output,
    output_position,
    term_of,
    uncertain_cells,
    value_words,
)
from treeanova.plot.heatmaps import colour_limit, draw_colorbar, draw_plane, figure_size, plane_of
from treeanova.plot.lines import draw_lines
from treeanova.plot.marginals import draw_marginals
from treeanova.plot.ranges import Ends

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
    scale: str = "score"
    x_scale: str = "linear"
    y_scale: str = "linear"
    order: str = "auto"
    errors: Errors | None = None


def pair(
    fx: Decomposition,
    key: KeyLike,
    *,
    output: str | int | None = None,
    scale: str = "score",
    errors: Errors | None = None,
    kind: str = "auto",
    marginals: bool = False,
    limit: float | None = None,
    xlimits: tuple[float, float] | None = None,
    ylimits: tuple[float, float] | None = None,
    x_scale: str = "linear",
    y_scale: str = "linear",
    extras: bool | None = None,
    order: str = "auto",
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
    scale
        "score", "response" or "probability", as in `effect`: on the last two, what the interaction alone changes, the
        main effects of its features being zero like all other terms.
    errors
        A `Bag`, its ``standard_errors()``, or those of ``fx.standard_errors()``, which are due to the density alone.
        Cells within two standard errors of zero, whose sign is uncertain, are then pale, and lines are thin there.
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
    x_scale, y_scale
        How numbers are spread along the axes: "linear", "log" or "quantile", as in `effect`. Lines use `x_scale` only.
    extras
        Whether missing and unseen values are shown, apart from the others; by default where the data have some.
    order
        Order of categories: "auto" (by number where labels begin with one, else as given), "given", "name" or "weight".
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
    words = value_words(fx, position, scale)
    words += "" if errors is None else "; pale: within two standard errors of zero"
    looks = {"scale": scale, "x_scale": x_scale, "y_scale": y_scale, "order": order, "errors": errors}
    options = PairOptions(kind, marginals, limit, xlimits, ylimits, extras, colorbar, words, **looks)  # type: ignore[arg-type]
    return draw_pair(fx, key, position, options, ax)


def draw_pair(fx: Decomposition, key: KeyLike, position: int, options: PairOptions, ax: Any) -> Any:
    """Axes with one interaction of one output."""
    check_order(key, 2, "use effect() for one feature; terms of more features have no plot, see fx.importance()")
    term = term_of(fx, key, options.scale)
    if is_drawn_as_lines(term, options.kind):
        number = next(name for name, axis in zip(term.features, term.axes, strict=True) if axis.is_ordered)
        choice, _ = axis_choices(options, [(fx, term)], number)
        values = of_output(fx, term.values, position)
        unsure = _uncertain(fx, key, position, options)
        return draw_lines(term, values, ax, choice=choice, extras=options.extras, words=options.words, unsure=unsure)
    return _draw_heatmap(fx, key, position, options, ax)


def _draw_heatmap(fx: Decomposition, key: KeyLike, position: int, options: PairOptions, ax: Any) -> Any:
    term = term_of(fx, key, options.scale)
    across = name_across(key, term)
    values = of_output(fx, term.values, position)
    unsure = _uncertain(fx, key, position, options)
    plane = plane_of(term, values, across, axis_choices(options, [(fx, term)], across), options.extras, unsure=unsure)
    plane = dataclasses.replace(plane, limit=_checked_limit(options.limit) or colour_limit([plane]))
    ax = style.checked_axes(ax, *figure_size(plane, marginals=options.marginals))
    mesh = draw_plane(plane, ax)
    if options.marginals:
        draw_marginals(fx, plane, position, options.scale, ax)
    if options.colorbar:
        draw_colorbar(mesh, [plane], options.words, [ax], pad=0.04 if options.marginals else 0.02)
    return ax


def _uncertain(fx: Decomposition, key: KeyLike, position: int, options: PairOptions) -> Bools | None:
    """Cells whose sign is uncertain, in one output; None where no errors are given."""
    unsure = uncertain_cells(options.errors, term_of(fx, key))
    return None if unsure is None else unsure if len(fx.outputs) == 1 else unsure[..., position]


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


def axis_choices(
    options: PairOptions, parts: Sequence[tuple[Decomposition, Term]], across: str
) -> tuple[AxisChoice, AxisChoice]:
    """How the x and y axis are drawn: with ends that contain the ranges of all terms, where none are given."""
    given = {"x": (options.xlimits, options.x_scale), "y": (options.ylimits, options.y_scale)}
    choices = {}
    for i, name in enumerate(parts[0][1].features):
        which = "x" if name == across else "y"
        limits, kind = given[which]
        entries = [(term.axes[i], term.weights.sum(axis=1 - i), data_ends(fx, name)) for fx, term in parts]
        scale, ends = scale_and_ends(kind, entries, limits, f"{which}_scale")
        choices[which] = AxisChoice(ends, scale, options.order)
    return choices["x"], choices["y"]
