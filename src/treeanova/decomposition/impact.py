"""What edits did: how far each moved the scores under the density, and at rows the loss, groups and their gap.

Edits of `monotone` and `merge` state something about the score, which later edits can make untrue: these say so.
"""

from __future__ import annotations

import dataclasses
import html
import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.columns import encode, frame_of_rows, printable
from treeanova.data.files import records
from treeanova.decomposition.edited_tables import as_one_table, difference
from treeanova.decomposition.function import Function, output_position
from treeanova.decomposition.gap import groups_of_rows
from treeanova.decomposition.held_out import Question, held_out, mean_and_error, outcome_of, questions_of
from treeanova.decomposition.predictions import Predictions, backend_of_tables, function_of
from treeanova.decomposition.result import Result, aligned_rows
from treeanova.decomposition.validation import check_number, check_size, counting_weights, group_ids
from treeanova.density.base import Density
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects
from treeanova.model.grid import first_unresolved
from treeanova.model.rows import Rows
from treeanova.terms.extremes import steps_of_tables
from treeanova.terms.layout import some_of
from treeanova.terms.terms import Edit
from treeanova.views import percent, rows_words

_ROUNDING = 1e-12  # of the largest score: smaller changes are none
_MOST_ROWS = 20_000
_FEWEST_ROWS = 100
_STEPS = 2.0**29  # products of terms at rows
ALL_EDITS = "all edits"


class History(tuple[Edit, ...]):
    """The edits of a decomposition, oldest first: a tuple that prints as a numbered list.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> print(fx.scale("x0", 0.5).drop("x1").history)
    1. x0 times 0.5: scores move by 0.125 (root mean square), at most 0.125, in 100 % of the mass
    2. x1 dropped: scores move by 0.354 (root mean square), at most 0.5, in 50 % of the mass
    """

    __slots__ = ()

    def __str__(self) -> str:
        return "\n".join(printable(f"{i}. {edit}") for i, edit in enumerate(self, 1)) or "no edits"

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f"<ol>{''.join(f'<li>{html.escape(str(edit))}</li>' for edit in self)}</ol>"


# What earlier edits state about the score.


def broken_statements(history: Sequence[Edit], effects: Effects) -> tuple[str, ...]:
    """Return the words of edits whose statement, true so far, is not true of the sum of these tables."""
    true_so_far: dict[str, Edit] = {}
    for edit in history:
        true_so_far = {words: earlier for words, earlier in true_so_far.items() if words not in edit.breaks}
        if edit.action in _IS_TRUE and "feature" in edit.arguments:
            true_so_far[edit.words] = edit
    return tuple(words for words, edit in true_so_far.items() if not _is_true(edit, effects))


def _is_true(edit: Edit, effects: Effects) -> bool:
    """Whether what an edit states is true of the sum of these tables, for all outputs that it is about."""
    names, outputs = effects.schema.names, effects.schema.outputs
    feature, output = names.index(edit.arguments["feature"]), edit.arguments.get("output")
    positions = range(len(outputs)) if output is None else [output_position(outputs, output)]
    return all(_IS_TRUE[edit.action](edit.arguments, effects, feature, k) for k in positions)


def _is_monotone(arguments: Mapping[str, Any], effects: Effects, feature: int, output: int) -> bool:
    """Whether no step of the sum along the feature goes in the wrong direction."""
    is_rise = arguments["direction"] == "increasing"
    steps = (step if is_rise else -step for step in steps_of_tables(effects, feature, output))
    return all(step.lowest().bound >= -step.tolerance for step in steps)


def _is_merged(arguments: Mapping[str, Any], effects: Effects, feature: int, output: int) -> bool:
    """Whether the sum is the same in all merged bins of the feature."""
    bins = _merged_bins(effects.grid.axes[feature], arguments)
    return all(step.is_zero for step in steps_of_tables(effects, feature, output, bins))


def _merged_bins(axis: Axis, arguments: Mapping[str, Any]) -> Sequence[int]:
    """Return the merged categories, or the intervals that overlap the merged ones: cuts may have moved since."""
    if not axis.is_ordered:
        return [axis.labels.index(label) for label in arguments["bins"]]
    low, high = arguments["between"]
    first = 0 if low is None else int(np.searchsorted(axis.thresholds, low, side="right"))
    last = axis.n_regular - 1 if high is None else int(np.searchsorted(axis.thresholds, high, side="left"))
    return range(first, last + 1)


# By action: whether the statement of an edit, given by its arguments, is true of a feature and an output.
_IS_TRUE = {"monotone": _is_monotone, "merge": _is_merged}


# How far an edit moves the scores, under the density.


class Movement(NamedTuple):
    """Changes of scores, (n_rows or n_cells, n_outputs), their weights, and the number of rows if they are drawn."""

    change: Floats
    weights: Floats
    largest_score: float
    n_rows: int | None = None

    def of(self, edit: Edit) -> Edit:
        """Return the edit with root mean square, largest size and share of the change."""
        is_moved = self.weights > 0
        change, weights = self.change[is_moved], self.weights[is_moved] / self.weights.sum()
        sizes = np.abs(change)
        moves = (sizes > _ROUNDING * self.largest_score).any(axis=1)
        rms, largest = _plain(np.sqrt(weights @ change**2)), _plain(sizes.max(axis=0, initial=0.0))
        share = min(float(weights[moves].sum()), 1.0)
        return dataclasses.replace(edit, rms=rms, largest=largest, share=share, n_rows=self.n_rows)


def _plain(numbers: Floats) -> float | tuple[float, ...]:
    """Return a number per output: the number itself if there is only one output."""
    return float(numbers[0]) if len(numbers) == 1 else tuple(numbers.tolist())


def measured(edit: Edit, before: Predictions, after: Predictions) -> Edit:
    """Return an edit with the change that it made to the scores; as it is if the density has neither table nor rows."""
    if edit.rms is not None:
        return edit
    old, new, density = function_of(before), function_of(after), before.density.population
    for measure in (_movement_of_table, _movement_at_rows):
        try:
            movement = measure(old, new, density)
        except ValueError:  # weights or rows that a file does not have
            continue
        if movement is not None:
            return movement.of(edit)
    return edit


def _movement_of_table(old: Function, new: Function, density: Density) -> Movement | None:
    """Return the change in all cells if it is a single table; None if it is not."""
    is_sum_of_tables = not old.has_remainder and not old.unlisted_orders
    has_same_rest = old.terms.leaf_terms is new.terms.leaf_terms and old.effects.grid.has_bins_of(new.effects.grid)
    if not is_sum_of_tables or not has_same_rest:
        return None
    change = as_one_table(difference(new.effects, old.effects))
    if change is None:
        return None
    key, binnings, table = change
    weights = density.table(key, binnings).ravel() if key else np.ones(1)
    sizes = (
        float(np.abs(effects).max(initial=0.0)) for effects in (old.effects.intercept, *old.effects.terms.values())
    )
    return Movement(table.reshape(len(weights), -1), weights, sum(sizes))


def _movement_at_rows(old: Function, new: Function, density: Density) -> Movement:
    """Return the change at rows of the density: all of them if they are few, or draws."""
    cost = max(old.terms.row_cost, new.terms.row_cost, 1.0)
    n_rows, rng = int(np.clip(_STEPS / cost, _FEWEST_ROWS, _MOST_ROWS)), np.random.default_rng(0)
    if density.statistics is not None and first_unresolved(old.grid, new.grid) is not None:  # other cuts
        values, weights = density.statistics.rows(n_rows)
        rows, is_exact = Rows(values), False
    else:
        points = old.terms.points(density, n_rows, rng)
        is_exact = density.joint.has_exact_points and len(points.weights) <= n_rows
        codes, weights = some_of(points, n_rows, rng)
        rows = Rows.in_bins(old.grid, codes)
    score = old.score(rows)
    return Movement(new.score(rows) - score, weights, float(np.abs(score).max()), None if is_exact else len(weights))


# What edits did at given rows.


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Impact(Result):
    """What each edit of a decomposition did at rows; made by `Decomposition.impact`.

    Tables have a row per edit, in their order, and one for all edits together; also per output if there are several.

    Attributes
    ----------
    table
        `edit`; root mean square `rms` and largest size `largest` of the change of the score, its `mean`, and the share
        of rows that are `changed`.
    groups
        The same by `group`, with the number of rows of each, `n_rows`; None without groups.
    losses
        Mean loss `before` and `after` the edit, the `change`, and the standard `error` of the change; None without
        `y`. Classes are judged together, targets one by one.
    gaps
        Difference of the mean scores of two groups, the second minus the first, `before` and `after`, the `change`, and
        the standard `error` of the change, NaN if it has one value in each group; None unless there are two groups.
    loss
        Name of the loss; empty without `y`.
    group_names
        Names of the groups.
    n_rows
        Number of rows; those of weight zero do not count.
    n_outputs
        Number of outputs.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> print(fx.scale("x0", 0.5).impact(X, group="x0"))
    1 edit at 4 rows
    <BLANKLINE>
    edit            rms  largest  mean  rows changed
    x0 times 0.5  0.125    0.125     0         100 %
    <BLANKLINE>
    By group
    <BLANKLINE>
    edit          group   rows    rms  largest    mean  rows changed
    x0 times 0.5  x0 = 0     2  0.125    0.125  +0.125         100 %
    x0 times 0.5  x0 = 1     2  0.125    0.125  -0.125         100 %
    <BLANKLINE>
    Gap of the mean scores, x0 = 1 minus x0 = 0
    <BLANKLINE>
    edit          before  after  change  error
    x0 times 0.5     0.5   0.25   -0.25      –
    """

    table: Any
    groups: Any
    losses: Any
    gaps: Any
    loss: str
    group_names: tuple[str, ...]
    n_rows: int
    n_outputs: int = 1

    def _content_of_dict(self) -> dict[str, Any]:
        names = ("table", "groups", "losses", "gaps")
        tables = {name: None if (table := getattr(self, name)) is None else records(table) for name in names}
        return {"n_rows": self.n_rows, "loss": self.loss, "group_names": self.group_names, **tables}

    def _text_of_top(self, top: int) -> str:
        del top  # every edit counts
        blocks = []
        for title, rows in tables_in_words(self).items():
            blocks += [printable(title), aligned_rows(rows, len(rows))]
        return "\n\n".join(blocks)


def tables_in_words(impact: Impact) -> dict[str, list[dict[str, str]]]:
    """Return the tables by title, with numbers as text."""
    n_edits = sum(row["edit"] != ALL_EDITS for row in records(impact.table)) // impact.n_outputs
    tables = {f"{rows_words(n_edits, 'edit')} at {rows_words(impact.n_rows)}": impact.table, "By group": impact.groups}
    tables[f"{impact.loss}, before and after"] = impact.losses
    tables[f"Gap of the mean scores, {' minus '.join(impact.group_names[1::-1])}"] = impact.gaps
    return {title: _rows_in_words(records(table)) for title, table in tables.items() if table is not None}


def _rows_in_words(rows: Sequence[Mapping[str, Any]]) -> list[dict[str, str]]:
    """Return rows with numbers as text; zero for numbers that are rounding beside the largest of the table."""
    sizes = [abs(value) for row in rows for value in row.values() if isinstance(value, float) and math.isfinite(value)]
    noise = _ROUNDING * max(sizes, default=0.0)
    return [{_HEADS.get(name, name): _cell(name, value, noise) for name, value in row.items()} for row in rows]


_HEADS = {"changed": "rows changed", "n_rows": "rows"}


def _cell(name: str, value: Any, noise: float) -> str:
    """Return a value of a table as text; zero for a number that is rounding."""
    if isinstance(value, str):
        return value
    if isinstance(value, int):
        return f"{value:,}"
    if value is None or math.isnan(value):
        return "–"
    if name == "changed":
        return percent(value).replace("\u00a0", " ")
    signed = {"change": "+.4g", "mean": "+.4g", "error": ".2g"}
    return f"{value:{signed.get(name, '.4g')}}" if abs(value) > noise else "0"


class _ScoredRows(NamedTuple):
    """Scores of rows in all states, before and after each edit: (n_states, n_rows, n_outputs). Weights have mean 1."""

    scores: Floats
    weights: Floats
    outputs: Sequence[str]

    def changes(self) -> list[Floats]:
        """Return the change by each edit, and that by all of them if there are several."""
        return [self.scores[after] - self.scores[before] for before, after in self.pairs]

    @property
    def pairs(self) -> list[tuple[int, int]]:
        """Positions of the states before and after each edit, then of the first and last if there are several edits."""
        n_edits = len(self.scores) - 1
        return [*((i, i + 1) for i in range(n_edits)), *([(0, n_edits)] if n_edits > 1 else [])]


def impact_of(
    states: Sequence[Predictions],
    words: Sequence[str],
    X: Any,
    y: Any,
    *,
    loss: Any,
    group: Any,
    query: Any,
    sample_weight: Any,
) -> Impact:
    """Return what each edit, given in words, did between two states of a decomposition."""
    last = states[-1]
    encoded = encode(X, last.schema)
    n_all, weights, is_counted = len(encoded), np.ones(len(encoded)), np.ones(len(encoded), dtype=bool)
    if not n_all:
        raise ValueError("`X` must have rows, got none; pass some.")
    if sample_weight is not None:
        weights, is_counted = counting_weights(sample_weight, n_all)
    rows = Rows(np.asfortranarray(encoded[is_counted]))
    scores = np.stack([function_of(state).score(rows) for state in states])
    scored = _ScoredRows(scores, weights, last.outputs)
    backend, labels = backend_of_tables(last), [*words, *([ALL_EDITS] if len(words) > 1 else [])]
    names, places = ([], np.zeros(0, dtype=np.int64)) if group is None else groups_of_rows(X, group, last.schema, n_all)
    places = places[is_counted] if names else places
    losses, name = None, ""
    if y is not None:
        ids = None if query is None else group_ids(query, is_counted)
        questions = questions_of(last.schema, loss)
        outcomes = [outcome_of(last.schema, question, y, n_all, is_counted) for question in questions]
        losses, name = _losses(scored, labels, questions, outcomes, ids), questions[0].name
    groups = _by_group(scored, labels, names, places) if names else None
    gaps = _gaps(scored, labels, places) if len(names) == 2 else None
    tables = {"table": _moves(scored, labels), "groups": groups, "losses": losses, "gaps": gaps}
    frames = {
        key: None if rows is None else frame_of_rows(rows, list(rows[0]), backend) for key, rows in tables.items()
    }
    return Impact(**frames, loss=name, group_names=tuple(names), n_rows=len(weights), n_outputs=len(last.outputs))


def _moves(rows: _ScoredRows, labels: Sequence[str]) -> list[dict[str, Any]]:
    """Return a row for each edit and output, with measures of the change of the score."""
    tolerance = _ROUNDING * np.abs(rows.scores).max(axis=(0, 1))
    return [
        {"edit": label} | _named(rows, k) | _measures(change[:, k], rows.weights, tolerance[k])
        for label, change in zip(labels, rows.changes(), strict=True)
        for k in range(len(rows.outputs))
    ]


def _named(rows: _ScoredRows, output: int) -> dict[str, str]:
    """Return a mapping with the name of an output; empty if there is only one."""
    return {"output": rows.outputs[output]} if len(rows.outputs) > 1 else {}


def _measures(change: Floats, weights: Floats, tolerance: float) -> dict[str, float]:
    """Return how much one output of the score changed at the rows."""
    sizes = np.abs(change)
    return {
        "rms": float(np.sqrt(np.average(change**2, weights=weights))),
        "largest": float(sizes.max()),
        "mean": float(np.average(change, weights=weights)),
        "changed": float(np.average(sizes > tolerance, weights=weights)),
    }


def _by_group(rows: _ScoredRows, labels: Sequence[str], names: Sequence[str], places: Ints) -> list[dict[str, Any]]:
    """Return the rows of `_moves` for each group; `places` are the groups of rows as positions in `names`."""
    inside = [places == i for i in range(len(names))]
    empty = [name for name, is_in in zip(names, inside, strict=True) if not is_in.any()]
    if empty:
        raise ValueError(f"`sample_weight` must be positive for rows of all groups, got zeros only in {empty[0]}.")
    rows_of_groups = [_ScoredRows(rows.scores[:, is_in], rows.weights[is_in], rows.outputs) for is_in in inside]
    moves = [_moves(group_rows, labels) for group_rows in rows_of_groups]
    sizes = [int(is_in.sum()) for is_in in inside]
    return [
        {"edit": row["edit"], "group": name, "n_rows": size} | {key: row[key] for key in row if key != "edit"}
        for entries in zip(*moves, strict=True)
        for name, size, row in zip(names, sizes, entries, strict=True)
    ]


def _gaps(rows: _ScoredRows, labels: Sequence[str], places: Ints) -> list[dict[str, Any]]:
    """Return gaps before and after each edit; the error is that of a difference of two means over rows."""
    sides = [places == 0, places == 1]

    def gap(values: Floats) -> tuple[float, float]:
        means = [_mean_and_error(values[side], rows.weights[side]) for side in sides]
        return means[1][0] - means[0][0], math.hypot(means[0][1], means[1][1])

    table = []
    for label, (before, after) in zip(labels, rows.pairs, strict=True):
        for k in range(len(rows.outputs)):
            old, new = rows.scores[before, :, k], rows.scores[after, :, k]
            change, error = gap(new - old)
            error = error if error > _ROUNDING * float(np.abs(new - old).max()) else math.nan
            row = {"edit": label} | _named(rows, k) | {"before": gap(old)[0], "after": gap(new)[0]}
            table.append(row | {"change": change, "error": error})
    return table


def _mean_and_error(values: Floats, weights: Floats) -> tuple[float, float]:
    """Return the weighted mean and its standard error, NaN for a single value."""
    mean, error = mean_and_error(values, weights / weights.mean())
    return mean, error if len(values) > 1 else math.nan


def _losses(
    rows: _ScoredRows, labels: Sequence[str], questions: Sequence[Question], outcomes: Sequence[Any], ids: Any
) -> list[dict[str, Any]]:
    """Return mean losses before and after each edit; `ids` are queries of ranked rows."""
    check_number("rows", "`X`", len(rows.weights))
    table = []
    for question, outcome in zip(questions, outcomes, strict=True):
        if question.loss.outcome == "grades" and ids is None:
            raise ValueError("`query` must name the query of each row to judge a ranking, got none; pass it.")
        scores = rows.scores[:, :, question.outputs]
        held = [held_out(question, score, outcome, rows.weights, ids) for score in scores]
        check_size(held[0])
        named = {"output": rows.outputs[question.outputs[0]]} if len(questions) > 1 else {}
        means = [held_by_state.mean_loss(held_by_state.score) for held_by_state in held]
        for label, (before, after) in zip(labels, rows.pairs, strict=True):
            change, error = held[before].loss_change(held[after].score)
            losses = {"before": means[before], "after": means[after], "change": change, "error": error}
            table.append({"edit": label} | named | losses)
    return table
