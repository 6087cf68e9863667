"""Pages that answer one question, to send on: what moved the mean score, what makes two groups differ."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Sequence

import numpy as np

from treeanova import views
from treeanova.core.arrays import Floats
from treeanova.decomposition.change import INTERCEPT, Change, effect_sides
from treeanova.decomposition.function import Function
from treeanova.decomposition.gap import WITHOUT_ERROR, Gap, error_text
from treeanova.decomposition.importance import shares_of_cells
from treeanova.density.statistics import Statistics
from treeanova.report.static import (
    Curve,
    Markup,
    Row,
    RowsOf,
    contributions,
    decimals_of,
    effect_picture,
    element,
    extent_of_stack,
    extent_with_error,
    numbers,
    rows_of_output,
    section,
    signed,
    stacked,
    static_page,
    with_error,
)
from treeanova.views import features_by_label

_PICTURES = 6
_ALL = "all together"


def _at(value: float | Floats, position: int) -> float:
    """The value of one output."""
    return float(np.atleast_1d(value)[position])


def _level(mean: float) -> str:
    return f"{mean:,.4g}".replace("-", "−")


def _scale(fx: Function, position: int) -> str:
    return f"{views.scale_of(fx.schema)}{views.of_output(fx.schema, fx.outputs[position])}"


def _largest(rows: Sequence[Row], column: str, decimals: int) -> str:
    """The terms with the largest contributions in words."""
    strongest = sorted(rows, key=lambda row: -abs(row[column]))[:3]
    shown = [f"{row['term']} ({signed(row[column], decimals)})" for row in strongest if row[column]]
    return f"The largest contributions: {', '.join(shown)}." if shown else ""


def _legend(*entries: tuple[str, str]) -> Markup:
    marks = (element("span", element("i", class_=kind), name) for kind, name in entries)
    return element("p", *marks, class_="legend")


def _mains(rows: Sequence[Row], fx: Function) -> list[str]:
    """Features whose main effects contribute most and have a table."""
    names = features_by_label(fx.terms, fx.schema)
    found = [names[row["term"]][0] for row in rows if len(names.get(row["term"], ())) == 1]
    return [name for name in found if fx.terms[name].has_table][:_PICTURES]


def _curve(fx: Function, name: str, position: int, kind: str, label: str) -> Curve:
    term = fx.terms[name]
    values = term.values if len(fx.outputs) == 1 else term.values[..., position]
    return Curve(kind, label, term.axes[0], values)


def _rows(fx: Function, statistics: Statistics, name: str, kind: str, label: str) -> RowsOf:
    j = fx.schema.names.index(name)
    shares = shares_of_cells(fx.evaluation, statistics.on(fx.grid), (j,))
    return RowsOf(kind, label, statistics, fx.terms[name].axes[0], shares)


def _pictures(made: Sequence[tuple[str, Markup]]) -> Markup:
    return element("div", *(element("article", element("h3", name), one) for name, one in made), class_="pictures")


# What moved the mean score.


def change_page(change: Change, title: str | None) -> str:
    """The page of a change."""
    fx = change.old
    sections = [part for k in range(len(fx.outputs)) for part in _sections_of_change(change, k)]
    rows = f"{change.old_rows.n_rows:,} old rows, {change.new_rows.n_rows:,} new rows"
    facts = f"{rows} · terms of both models under the density {fx.density.name} of the old rows"
    name = title or f"What moved the mean {views.scale_of(fx.schema)}"
    return static_page(name, facts, _sentence_of_change(change), [*sections, _how_to_read_a_change()])


def _sentence_of_change(change: Change) -> str:
    old, new, total, population, model = (
        _at(value, 0) for value in (change.old_mean, change.new_mean, change.total, change.population, change.model)
    )
    decimals = decimals_of([total, population, model])
    way = "rose" if total > 0 else "fell"
    rows = rows_of_output(change.table, change.old.outputs, 0)
    moved = f"{way} from {_level(old)} to {_level(new)}, by {signed(total, decimals)}"
    return (
        f"The mean {_scale(change.old, 0)} {moved if total else f'is {_level(new)} as before'}: "
        f"{signed(population, decimals)} as the rows changed, {signed(model, decimals)} as the model changed. "
        f"{_largest(rows, 'total', decimals)}"
    )


def _sections_of_change(change: Change, position: int) -> list[Markup]:
    fx = change.old
    rows = rows_of_output(change.table, fx.outputs, position)
    sums: Row = {name: _at(getattr(change, name), position) for name in ("population", "model", "total")}
    decimals = decimals_of(list(sums.values()))
    first = numbers(
        ("Mean before", _level(_at(change.old_mean, position)), "old model, old rows"),
        ("Mean after", _level(_at(change.new_mean, position)), "new model, new rows"),
        ("Change", signed(sums["total"], decimals), _scale(fx, position)),
        ("Population", signed(sums["population"], decimals), "other rows, old model"),
        ("Model", signed(sums["model"], decimals), "other model, new rows"),
    )
    of = views.of_output(fx.schema, fx.outputs[position])
    bars = contributions(
        [{"term": _ALL, **sums}, *rows],
        {"population": "population", "model": "model", "total": "sum"},
        extent_of_stack,
        stacked,
        n_heads=2,
    )
    table = section(f"What moved the average{of}", _legend(("first", "population"), ("second", "model")), bars)
    pictures = _effects_of_change(change, rows, position)
    return [first, table, *([] if pictures is None else [pictures])]


def _effects_of_change(change: Change, rows: Sequence[Row], position: int) -> Markup | None:
    """Main effects of both models over both sets of rows: those that contribute most."""
    made = []
    for name in _mains(rows, change.old):
        with contextlib.suppress(ValueError):  # categories of two models that cannot be put side by side
            made.append((name, _effect_of_change(change, name, position)))
    words = views.effect_words(change.old.schema, change.old.outputs[position])
    legend = _legend(("first", "old model and rows"), ("second", "new model and rows"))
    return section(f"Effects before and after: {words}", legend, _pictures(made)) if made else None


def _effect_of_change(change: Change, name: str, position: int) -> Markup:
    """One main effect of both models, or of the one that there is, over both sets of rows."""
    curves, spread = [], []
    for i, side in enumerate(effect_sides(change, name)):
        kind, label = (("first", "old"), ("second", "new"))[i]
        curves.append(Curve(kind, label, side.axis, side.values[..., position]))
        shares = RowsOf(kind, f"{label} rows", (change.old_rows, change.new_rows)[i], side.rows_axis, side.shares)
        spread.append(shares)
    shown = curves[:1] if change.new is change.old else curves
    return effect_picture(shown, spread, _feature(change.old, name))


def _feature(fx: Function, name: str) -> int:
    return fx.schema.names.index(name)


def _how_to_read_a_change() -> Markup:
    return section(
        "How to read",
        element(
            "div",
            element(
                "p",
                "Population: how much the mean of the old model changes when the new rows replace the old ones; for "
                "each term, its mean over the new rows minus its mean over the old rows. Model: how much the new "
                "model differs from the old one at the new rows. The rows of the table add up to the change exactly.",
            ),
            element(
                "p",
                f"The terms of both models are pure under the density of the old rows, so that they can be compared. "
                f"The {INTERCEPT} is the model's level: its mean under that density. Where the rows are the same, it "
                "holds nearly all of the change of the mean; the curves show how the effects changed.",
            ),
            element(
                "p",
                "A term's contribution says through which inputs the model's mean moved. It does not say what caused "
                "these inputs to change.",
            ),
            class_="columns",
        ),
    )


# What makes two groups differ.


def gap_page(gap: Gap, title: str | None) -> str:
    """The page of a gap."""
    first, second = gap.groups
    sections = [part for k in range(len(gap.fx.outputs)) for part in _sections_of_gap(gap, k)]
    facts = f"{first}: {gap.counts[0]} · {second}: {gap.counts[1]} · {views.scale_of(gap.fx.schema)}"
    name = title or f"Why the mean {views.scale_of(gap.fx.schema)} differs: {second} and {first}"
    return static_page(name, facts, _sentence_of_gap(gap), [*sections, _what_a_gap_says(gap)])


def _sentence_of_gap(gap: Gap) -> str:
    first, second = gap.groups
    total, error = _at(gap.total, 0), error_text(_at(gap.error, 0), 2)
    decimals = decimals_of([total])
    way = "higher" if total >= 0 else "lower"
    rows = rows_of_output(gap.table, gap.fx.outputs, 0)
    return (
        f"The mean {_scale(gap.fx, 0)} is {abs(total):,.{decimals}f} {way} (standard error {error}) for {second} "
        f"than for {first}. {_largest(rows, 'gap', decimals)}"
    )


def _sections_of_gap(gap: Gap, position: int) -> list[Markup]:
    fx = gap.fx
    rows = rows_of_output(gap.table, fx.outputs, position)
    total, error = _at(gap.total, position), _at(gap.error, position)
    decimals = decimals_of([total])
    first = numbers(
        (f"Mean of {gap.groups[0]}", _level(_at(gap.means[0], position)), gap.counts[0]),
        (f"Mean of {gap.groups[1]}", _level(_at(gap.means[1], position)), gap.counts[1]),
        ("Gap", signed(total, decimals), f"standard error {error_text(error, 2)}, {_scale(fx, position)}"),
    )
    of = views.of_output(fx.schema, fx.outputs[position])
    bars = contributions(
        [{"term": _ALL, "gap": total, "error": error}, *rows],
        {"gap": "gap", "error": "standard error"},
        extent_with_error,
        with_error,
        n_heads=1,
    )
    note = "Thin lines reach two standard errors to either side."
    if min(gap.sizes) > 1 and any(math.isnan(row["error"]) for row in rows):
        note += f" Standard error –: {WITHOUT_ERROR}."
    parts = [first, *_routes(gap, position, of)]
    parts.append(section(f"Term by term{of}", bars, element("p", note, class_="caption")))
    pictures = _effects_of_gap(gap, rows, position)
    return [*parts, *([] if pictures is None else [pictures])]


def _routes(gap: Gap, position: int, of: str) -> list[Markup]:
    """The table of routes, where there is one."""
    if gap.routes is None:
        return []
    rows: list[Row] = [{"term": row["route"], **row} for row in rows_of_output(gap.routes, gap.fx.outputs, position)]
    columns = {"gap": "gap", "error": "standard error"}
    whole: Row = {"term": _ALL, "gap": _at(gap.total, position), "error": _at(gap.error, position)}
    bars = contributions([whole, *rows], columns, extent_with_error, with_error, n_heads=1, by="route")
    words = (
        f"The part that flows through {gap.feature} by itself, through its interactions with other features, and "
        "through all other features."
    )
    return [section(f"Through {gap.feature} or through others{of}", element("p", words, class_="caption"), bars)]


def _effects_of_gap(gap: Gap, rows: Sequence[Row], position: int) -> Markup | None:
    """Main effects over the rows of both groups: those that contribute most."""
    fx = gap.fx
    made = []
    for name in _mains(rows, fx):
        curve = _curve(fx, name, position, "main", "effect")
        spread = [
            _rows(fx, statistics, name, kind, group)
            for statistics, kind, group in zip(gap.rows, ("second", "third"), gap.groups, strict=True)
        ]
        made.append((name, effect_picture([curve], spread, _feature(fx, name))))
    legend = _legend(("second", f"rows of {gap.groups[0]}"), ("third", f"rows of {gap.groups[1]}"))
    words = views.effect_words(fx.schema, fx.outputs[position])
    return section(f"Effects over both groups: {words}", legend, _pictures(made)) if made else None


def _what_a_gap_says(gap: Gap) -> Markup:
    feature = gap.feature or "a feature"
    texts = (
        (
            "The difference of the mean scores is the sum of the differences of the terms' means, exactly. A term "
            "contributes where the groups differ in its features and the model uses them."
        ),
        (
            f"Dropping the terms of {feature} from the model would not remove its influence: features that differ "
            "between the groups carry part of it, and a model that is trained again without it can learn it from them. "
            "That part is in the rows of these features."
        ),
        (
            "The table describes the model. It does not say whether a difference is justified, nor what causes it. "
            "Standard errors are those over rows; model and density are taken as given."
        ),
    )
    return section(
        "What this says, and what it does not",
        element("div", *(element("p", text) for text in texts), class_="columns"),
    )
