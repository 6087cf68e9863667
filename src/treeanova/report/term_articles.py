"""Terms as small articles of a page: a main effect as a curve with a table of its steps, a pair as a heat map."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova import views
from treeanova.core.arrays import Floats, Ints, Names, label_of
from treeanova.core.progress import Progress, counted
from treeanova.decomposition.answers import ranking_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import Term
from treeanova.decomposition.steps import averaged, best_steps, steps_of
from treeanova.export.scorecard import FactorTable
from treeanova.model.axes import Axis
from treeanova.plot.effects import draw_small
from treeanova.report.static import Markup, decimals_of, element, picture, signed, table_element

_MOST_STEPS = 12  # rows of the table of a main effect
_MOST_OUTPUTS = 4  # columns of such a table
_MOST_DECIMALS = 6
_MOST_NAMES = 6  # of terms that are not drawn
_LONGEST_CELL = 120  # characters
_SIZES = {1: (2.9, 1.75), 2: (4.6, 2.0)}  # of pictures by the order of the term, in inches
_LOOKS = {
    "font.size": 7.0,
    "axes.linewidth": 0.6,
    "xtick.major.size": 2.0,
    "ytick.major.size": 2.0,
    "xtick.major.width": 0.6,
    "ytick.major.width": 0.6,
    "savefig.dpi": 250,
}


class _Strength(NamedTuple):
    """The largest variance of a term, relative to that of the score, and the output that has it."""

    variance: float
    output_index: int


class _Drawn(NamedTuple):
    """A term to draw: its rank, strength, and the points or factors of its cells, if there are any."""

    rank: int
    term: Term
    strength: _Strength
    points: Floats | None


class TermArticles:
    """The strongest main effects and pairs of a model of tables, and words on all other terms."""

    def __init__(self, fx: Decomposition, points: FactorTable | None, max_terms: int) -> None:
        self.fx = fx
        self.strengths: dict[Names, _Strength] = _strengths(fx)
        self.points_name = "" if points is None else "points" if points.kind == "points" else "factor"
        cells = _points_by_term(fx, points)
        ranked = enumerate(self.strengths.items(), start=1)
        drawn = [_Drawn(rank, fx.terms[names], strength, cells.get(names)) for rank, (names, strength) in ranked]
        self.drawn: list[_Drawn] = [one for one in drawn if one.term.order <= 2][:max_terms]
        sizes = [float(np.abs(one.term.values).max()) for one in self.drawn if one.term.order == 1]
        self.decimals: int = min(decimals_of(sizes), _MOST_DECIMALS)

    def markup(self, progress: Progress) -> list[Markup]:
        """Return a legend of several outputs, all articles, and words on the terms that are not drawn."""
        articles = [self._article(one) for one in counted(progress, "pictures", self.drawn, len(self.drawn))]
        return [*self._legend(), element("div", *articles, class_="terms"), *self._others()]

    def _legend(self) -> list[Markup]:
        outputs, n_colours = self.fx.outputs, len(views.SERIES)
        if len(outputs) == 1:
            return []
        names = [
            element("span", element("i", class_=f"series-{i % n_colours}"), name) for i, name in enumerate(outputs)
        ]
        return [element("p", *names, class_="outputs")]

    def _article(self, one: _Drawn) -> Markup:
        order, label, (variance, output_index) = one.term.order, label_of(one.term.features), one.strength
        shown = picture(
            lambda ax: draw_small(self.fx, one.term.features, output_index, _MOST_STEPS, ax),
            f"{'main effect' if order == 1 else 'interaction'} of {label}",
            _SIZES[order],
            looks=_LOOKS,
            follows_page=order == 1,
        )
        outputs = self.fx.outputs
        of_output = f" of {outputs[output_index]}" if len(outputs) > 1 else ""
        share = element("small", f"{views.percent(variance)} of variance{of_output}")
        heading = element("h3", element("span", f"{one.rank}. {label}"), share)
        if order == 2:
            return element("article", heading, shown, class_="term map")
        both = element("div", shown, self._table(one), class_="several" if len(outputs) > 1 else None)
        return element("article", heading, both, class_="term")

    def _table(self, one: _Drawn) -> Markup:
        """Return the steps of a main effect with their values, and with points or factors."""
        term, outputs = one.term, self.fx.outputs
        axis = term.axes[0]
        if len(outputs) > _MOST_OUTPUTS:
            return element(
                "p", f"{axis.size} steps of {len(outputs)} outputs: fx.table({axis.name!r}).", class_="caption"
            )
        steps = _steps_of(term)
        columns = [[signed(number, self.decimals) for number in column] for column in steps.values.T]
        head = ["step", *(["value"] if len(outputs) == 1 else outputs)]
        if one.points is not None and not steps.n_merged:
            head.append(self.points_name)
            columns.append([_points_text(one.points[bins[0]], self.points_name) for bins in steps.bins])
        table = table_element(head, list(zip(steps.labels, *columns, strict=True)), "steps")
        if not steps.n_merged:
            return table
        return element("div", table, element("p", f"Weighted means of {steps.n_merged} values.", class_="caption"))

    def _others(self) -> list[Markup]:
        drawn = {one.term.features for one in self.drawn}
        not_drawn = {names: strength.variance for names, strength in self.strengths.items() if names not in drawn}
        if not not_drawn:
            return []
        shares = [f"{label_of(names)} ({views.percent(variance)})" for names, variance in not_drawn.items()]
        text = (
            f"Not drawn: {len(not_drawn):,} of {len(self.strengths):,} terms, each with at most "
            f"{views.percent(max(not_drawn.values()))} of the variance. The strongest of them: "
            f"{', '.join(shares[:_MOST_NAMES])}."
        )
        return [element("p", text, class_="caption")]


def _strengths(fx: Decomposition) -> dict[Names, _Strength]:
    """Return the strength of each term, the strongest first."""
    best: dict[Names, _Strength] = {}
    for output_index, standings in enumerate(ranking_of(fx).standings.values()):
        for term in standings:
            best[term.features] = max(
                best.get(term.features, _Strength(-1.0, 0)),
                _Strength(term.variance, output_index),
                key=lambda one: one[0],
            )
    return dict(sorted(best.items(), key=lambda item: -item[1].variance))


def _points_by_term(fx: Decomposition, points: FactorTable | None) -> dict[Names, Floats]:
    """Return the points or factors of the cells of each term, flat, from their table."""
    if points is None or not fx.terms:
        return {}
    ends = np.cumsum([term.weights.size for term in fx.terms.values()])
    cells = np.split(np.asarray(points.columns[points.kind], dtype=np.float64), ends[:-1])
    return dict(zip(fx.terms, cells, strict=True))


def _points_text(number: float, name: str) -> str:
    return f"{number:.4g}" if name == "factor" else f"{number:+,.6g}".replace("-", "−") if number else "0"


# Rows of the table of a main effect


class _Steps(NamedTuple):
    """Bins, values (outputs last) and label of each row; `n_merged` different values were averaged, or 0."""

    bins: Sequence[Ints]
    values: Floats
    labels: Sequence[str]
    n_merged: int


def _steps_of(term: Term) -> _Steps:
    """Return rows of equal values; if these are too many, the steps with means that are nearest to the term."""
    axis = term.axes[0]
    values = term.values.reshape(axis.size, -1)
    groups = _equal_steps(axis, values)
    n_merged = int(groups[: axis.n_regular].max()) + 1
    if n_merged > _MOST_STEPS:
        ways = steps_of(term.axes, values, term.weights, most=_MOST_STEPS, least_share=0.0)
        (groups,) = best_steps(ways, price=0.0).groups
        values = averaged(values, term.weights, [groups])
    rows = [np.flatnonzero(groups == group) for group in range(int(groups.max()) + 1)]
    if axis.is_ordered:
        labels = list(axis.coarsened(groups).labels)
    else:
        rows.sort(key=lambda bins: (bins[0] >= axis.n_regular, -values[bins[0], 0]))  # as bars are drawn
        labels = [_joined([axis.labels[i] for i in bins]) for bins in rows]
    first = [int(bins[0]) for bins in rows]
    return _Steps(rows, values[first], labels, n_merged if n_merged > _MOST_STEPS else 0)


def _equal_steps(axis: Axis, values: Floats) -> Ints:
    """Return groups of bins of equal values: neighbouring intervals, or any categories; extra bins stay apart."""
    n_regular = axis.n_regular
    if axis.is_ordered:
        changes = (np.diff(values[:n_regular], axis=0) != 0).any(axis=1)
        groups = np.append(0, np.cumsum(changes))
    else:
        groups = np.unique(values[:n_regular], axis=0, return_inverse=True)[1].ravel()
    return np.concatenate([groups, groups.max() + 1 + np.arange(axis.n_extra)])


def _joined(labels: Sequence[str]) -> str:
    """Join labels by commas, as many as there is room for, with the number of the others."""
    ends = np.cumsum([len(label) + 2 for label in labels])
    n_named = max(int((ends <= _LONGEST_CELL).sum()), 1)
    named, n_more = ", ".join(labels[:n_named]), len(labels) - n_named
    return f"{named} and {n_more} more" if n_more else named
