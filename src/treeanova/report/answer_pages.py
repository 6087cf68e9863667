"""Shareable pages that answer one question: what moved the mean score, or what makes two groups differ."""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova import plot, views
from treeanova.core.arrays import Floats
from treeanova.decomposition.change import INTERCEPT, Change
from treeanova.decomposition.gap import WITHOUT_ERROR, Gap, error_text, others_carry
from treeanova.decomposition.predictions import Predictions
from treeanova.plot.bars import BAR_HEIGHT, Bars, bars_of
from treeanova.plot.differences import ALL, change_bars, gap_bars
from treeanova.report.static import (
    Markup,
    contributions,
    decimals_of,
    element,
    numbers,
    picture,
    section,
    signed,
    static_page,
)

_PICTURES = 6
_MOST_BARS = 12
_EFFECT_SIZE = (4.6, 3.1)
_WIDTHS = {"wide": 8.5, "narrow": 4.2}  # of bars, in inches, on screens and on phones


def _value_of_output(value: float | Floats, output_index: int) -> float:
    return float(np.atleast_1d(value)[output_index])


def _mean_text(mean: float) -> str:
    return f"{mean:,.4g}".replace("-", "−")


def _scale_words(fx: Predictions, output_index: int) -> str:
    """Return the scale of the score, with the output's name if there are several."""
    return f"{views.scale_of(fx.schema)}{views.output_suffix(fx.schema, fx.outputs[output_index])}"


def _largest_terms(bars: Bars, values: Floats, decimals: int) -> str:
    """Name the three bars, after the first, a total, with the largest values."""
    strongest = [i + 1 for i in np.argsort(-np.abs(values[1:]), kind="stable")[:3] if values[i + 1]]
    listed = [f"{bars.names[i]} ({signed(float(values[i]), decimals)})" for i in strongest]
    return f"The largest contributions: {', '.join(listed)}." if listed else ""


def _bar_pictures(draw: Any, label: str, n_rows: int) -> Markup:
    """Draw bars, by `draw(ax=...)`, twice: wide for screens, narrow for phones."""
    height = 1.3 + BAR_HEIGHT * max(n_rows, 4)
    pictures = (picture(draw, label, (width, height), f"picture {kind}") for kind, width in _WIDTHS.items())
    return Markup("".join(pictures))


def _effect_pictures(title: str, draw: Any, bars: Bars, fx: Predictions) -> list[Markup]:
    """Return a section with pictures, by `draw(name, ax=...)`, of main effects among the bars; none without any."""
    features = fx.terms.labels
    names = [features[label][0] for label in bars.names if len(features.get(label, ())) == 1]
    articles = []
    for name in [name for name in names if fx.terms[name].has_table][:_PICTURES]:
        with contextlib.suppress(ValueError):  # categories of two models that cannot be put side by side
            effect = functools.partial(draw, name, max_bars=_MOST_BARS)
            shown = picture(effect, f"main effect of {name}", _EFFECT_SIZE)
            articles.append(element("article", element("h3", name), shown))
    return [section(title, element("div", *articles, class_="pictures"))] if articles else []


def _paragraphs(*texts: str) -> Markup:
    return element("div", *(element("p", text) for text in texts), class_="columns")


def change_page(change: Change, title: str | None) -> str:
    """Return an HTML page about a change of the mean score."""
    fx = change.old
    sections = [one for k in range(len(fx.outputs)) for one in _sections_of_change(change, k)]
    old = views.rows_words(change.old_rows.n_rows, "old row")
    new = views.rows_words(change.new_rows.n_rows, "new row")
    facts = f"{old}, {new} · terms of both models under the density {fx.density.name} of the old rows"
    name = title or f"What moved the mean {views.scale_of(fx.schema)}"
    return static_page(name, facts, _sentence_of_change(change), [*sections, _how_to_read_a_change()])


def _sentence_of_change(change: Change) -> str:
    """Say by how much the mean score of the first output moved, and why."""
    old, new, total, population, model = (
        _value_of_output(value, 0)
        for value in (change.old_mean, change.new_mean, change.total, change.population, change.model)
    )
    decimals = decimals_of([total, population, model])
    bars = change_bars(change, 0)
    moved = (
        f"{'rose' if total > 0 else 'fell'} from {_mean_text(old)} to {_mean_text(new)}, by {signed(total, decimals)}"
    )
    return (
        f"The mean {_scale_words(change.old, 0)} {moved if total else f'is {_mean_text(new)} as before'}: "
        f"{signed(population, decimals)} because the rows changed, {signed(model, decimals)} because the model "
        f"changed. {_largest_terms(bars, bars.columns['population'] + bars.columns['model'], decimals)}"
    )


def _sections_of_change(change: Change, output_index: int) -> list[Markup]:
    """Return sections about one output: numbers, bars and table of terms, effects before and after."""
    fx = change.old
    bars = change_bars(change, output_index)
    bars.columns["total"] = bars.columns["population"] + bars.columns["model"]
    sums = [_value_of_output(value, output_index) for value in (change.total, change.population, change.model)]
    total, population, model = (signed(value, decimals_of(sums)) for value in sums)
    first = numbers(
        ("Mean before", _mean_text(_value_of_output(change.old_mean, output_index)), "old model, old rows"),
        ("Mean after", _mean_text(_value_of_output(change.new_mean, output_index)), "new model, new rows"),
        ("Change", total, _scale_words(fx, output_index)),
        ("Population", population, "new rows, old model"),
        ("Model", model, "new rows, new model instead of the old one"),
    )
    draw = functools.partial(plot.change, change, output=output_index)
    of_output = views.output_suffix(fx.schema, fx.outputs[output_index])
    name = f"What moved the average{of_output}"
    shown = _bar_pictures(draw, name, min(len(bars.names), 17))
    table = contributions(bars, {"population": "population", "model": "model", "total": "sum"}, n_heads=2)
    effects = _effect_pictures(f"Effects before and after{of_output}", draw, bars, fx)
    return [first, section(name, shown, table), *effects]


def _how_to_read_a_change() -> Markup:
    """Return the section that says what the columns of a change mean."""
    return section(
        "How to read",
        _paragraphs(
            "Population: how much the mean of the old model changes when the new rows replace the old ones; for "
            "each term, its mean over the new rows minus its mean over the old rows. Model: how much the new "
            "model differs from the old one at the new rows. The rows of the table add up to the change exactly.",
            "The terms of both models are pure under the density of the old rows; otherwise they could not be "
            f"compared. The {INTERCEPT} is the model's level: its mean under that density. If the rows are the same, "
            "it holds nearly all of the change of the mean; the curves show how the effects changed.",
            "A term's contribution says through which inputs the model's mean moved. It does not say what caused "
            "these inputs to change.",
        ),
    )


def gap_page(gap: Gap, title: str | None) -> str:
    """Return an HTML page about the gap between two groups of rows."""
    first, second = gap.groups
    sections = [one for k in range(len(gap.fx.outputs)) for one in _sections_of_gap(gap, k)]
    facts = f"{first}: {gap.counts[0]} · {second}: {gap.counts[1]} · {views.scale_of(gap.fx.schema)}"
    name = title or f"Why the mean {views.scale_of(gap.fx.schema)} differs: {second} and {first}"
    return static_page(name, facts, _sentence_of_gap(gap), [*sections, _what_a_gap_says(gap)])


def _sentence_of_gap(gap: Gap) -> str:
    """Return the gap and its largest terms in a sentence, for the first output."""
    first, second = gap.groups
    total, error = _value_of_output(gap.total, 0), error_text(_value_of_output(gap.error, 0), 2)
    decimals = decimals_of([total])
    bars = gap_bars(gap, 0)
    return (
        f"The mean {_scale_words(gap.fx, 0)} is {abs(total):,.{decimals}f} {'higher' if total >= 0 else 'lower'} "
        f"(standard error {error}) for {second} than for {first}. "
        f"{_largest_terms(bars, bars.columns['gap'], decimals)}"
    )


def _sections_of_gap(gap: Gap, output_index: int) -> list[Markup]:
    """Return sections about one output: numbers, routes, bars and table of terms, effects over both groups."""
    fx, bars = gap.fx, gap_bars(gap, output_index)
    total, error = _value_of_output(gap.total, output_index), error_text(_value_of_output(gap.error, output_index), 2)
    first = numbers(
        (f"Mean of {gap.groups[0]}", _mean_text(_value_of_output(gap.means[0], output_index)), gap.counts[0]),
        (f"Mean of {gap.groups[1]}", _mean_text(_value_of_output(gap.means[1], output_index)), gap.counts[1]),
        ("Gap", signed(total, decimals_of([total])), f"standard error {error}, {_scale_words(fx, output_index)}"),
    )
    of_output = views.output_suffix(fx.schema, fx.outputs[output_index])
    draw = functools.partial(plot.gap, gap, output=output_index)
    shown = _bar_pictures(draw, f"Term by term{of_output}", min(len(bars.names), 16))
    note = "Thin lines reach two standard errors to either side."
    if min(gap.sizes) > 1 and any(map(math.isnan, bars.columns["error"])):
        note += f" Standard error –: {WITHOUT_ERROR}."
    table = contributions(bars, {"gap": "gap", "error": "standard error"}, n_heads=1)
    terms = section(f"Term by term{of_output}", shown, element("p", note, class_="caption"), table)
    effects = _effect_pictures(f"Effects over both groups{of_output}", draw, bars, fx)
    return [first, *_sections_of_routes(gap, output_index, of_output), terms, *effects]


def _sections_of_routes(gap: Gap, output_index: int, of_output: str) -> Sequence[Markup]:
    """Return a section with the gap through a feature and through others; none if no feature was named."""
    if gap.routes is None:
        return []
    routes = bars_of(gap.routes, ("gap", "error"), gap.fx.outputs[output_index], by="route")
    totals = {"gap": _value_of_output(gap.total, output_index), "error": _value_of_output(gap.error, output_index)}
    columns = {name: np.append(totals[name], column) for name, column in routes.columns.items()}
    words = (
        f"The part that flows through {gap.feature} alone, through its interactions with other features, and through "
        "all other features."
    )
    bars = Bars([ALL, *routes.names], columns)
    table = contributions(bars, {"gap": "gap", "error": "standard error"}, n_heads=1, by="route")
    return [
        section(f"Through {gap.feature} or through others{of_output}", element("p", words, class_="caption"), table)
    ]


def _what_a_gap_says(gap: Gap) -> Markup:
    """Return the section that says what may be concluded from a gap."""
    feature = gap.feature or "a feature"
    dropping = (
        f"Dropping the terms of {feature} from the model would not remove its influence: features that differ "
        "between the groups carry part of it, and a model that is trained again without it can learn it from them. "
        "That part is in the rows of these features."
    )
    return section(
        "What this says, and what it does not",
        _paragraphs(
            "The difference of the mean scores is the sum of the differences of the terms' means, exactly. A term "
            "contributes if the groups differ in its features and the model uses them.",
            *([dropping] if gap.feature is None or others_carry(gap) else []),
            "The table describes the model. It does not say whether a difference is justified, nor what causes it. "
            "Standard errors are over rows; they take the model and the density as given.",
        ),
    )
