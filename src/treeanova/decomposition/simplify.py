"""Simplification: from all terms to the few that held-out rows need, as a path of smaller and smaller models.

1. Tables are divided into few cells (`steps.py`); held-out rows say how few.
2. Each term gets a strength, fitted to the outcome by ridge regression towards 1 (Newton's method on the model's loss).
   `strengths.py` has their prior deviation; the variance of the derivatives puts it on the scale of the loss.
3. Terms are removed one at a time. The terms that are left take over as much as they can of the score of step 2 (a
   projection in the norm of the loss's second derivative), and the term goes whose loss they replace best. Smaller
   models are thus fitted to a smooth score rather than to noise ("projection predictive" selection).

Steps 2 and 3 are repeated without each fold of the rows and judged on that fold. The smallest model whose loss is at
most one standard error above the smallest loss is chosen; the error is that of the difference, row by row.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.progress import Progress, one_step, quiet
from treeanova.data.columns import column_named, encode, frame, frame_of_rows, printable
from treeanova.data.features import Schema
from treeanova.data.files import records
from treeanova.decomposition.function import Function, labels_by_key
from treeanova.decomposition.held_out import Question, notes_on_scale, outcome_of, questions_of
from treeanova.decomposition.result import Result, aligned_rows
from treeanova.decomposition.steps import (
    Steps,
    Tables,
    averaged,
    best_steps,
    divided,
    monotone_values,
    steps_of,
    with_round_cuts,
)
from treeanova.decomposition.strengths import Problem, fit_path, folds_of, judge, with_derivatives
from treeanova.decomposition.validation import check_number, check_size, counting_weights, group_ids
from treeanova.density.base import Density
from treeanova.model.axes import Axis
from treeanova.model.rows import Rows
from treeanova.terms.source import Settings
from treeanova.terms.terms import TermSet
from treeanova.views import percent

_MOST_TERMS = 256  # whose strengths are fitted, the ones of largest variance; time grows with the cube
_PRICES = (0.0, *np.geomspace(1e-9, 1e-3, 19))  # of a cell, in shares of the score's variance
_CHANGED_ROWS = 10
_STEP_ERRORS = 0.5, 0.75  # standard errors that fewer cells of main effects, and of all tables, may cost
_PATH = ("n_terms", "n_steps", "n_cells", "loss", "difference", "error", "r2")
_TERMS = ("term", "strength", "n_cells", "share")


# Tables of few cells.


def choose_tables(options: Options, tables: Tables, problem: Problem, held: HeldRows, keys: Sequence[Key]) -> Tables:
    """Return tables of few cells that are not worse at the rows: first of main effects, then of interactions.

    A price of a cell divides all tables of an order at once; the highest price that costs at most `_STEP_ERRORS` is
    taken.
    """
    start = score = problem.intercept + problem.values.sum(axis=1)
    variance, steps = _variance(score, problem.weights), dict[Key, Steps]()
    for is_main, n_errors in zip((True, False), _STEP_ERRORS, strict=True):
        ways = {key: _ways_to_divide(options, tables, key) for key in keys if (len(key) == 1) is is_main}
        score_of_others = score - held.terms_at(tables, list(ways)).sum(axis=1)
        accepted = {key: best_steps(ways_of_key, 0.0) for key, ways_of_key in ways.items()}
        accepted_score = score_of_others + _sum_of_divided(held, tables, accepted)
        low, high = 0, len(_PRICES)
        while high - low > 1:  # a higher price raises the loss, except for noise
            middle = (low + high) // 2
            price = _PRICES[middle] * variance
            cheaper = {key: best_steps(ways_of_key, price) for key, ways_of_key in ways.items()}
            cheaper_score = score_of_others + _sum_of_divided(held, tables, cheaper)
            cost, error = _cost_of_change(problem, start, cheaper_score)
            if cost <= n_errors * error:
                low, accepted, accepted_score = middle, cheaper, cheaper_score
            else:
                high = middle
        steps, score = steps | accepted, accepted_score
    return divided(tables, steps)


def _sum_of_divided(held: HeldRows, tables: Tables, steps: Mapping[Key, Steps]) -> Floats:
    """Return the sum of divided terms at the rows, (n_rows, n_outputs)."""
    return held.terms_at(divided(tables, steps), list(steps)).sum(axis=1)


def _cost_of_change(problem: Problem, score: Floats, new_score: Floats) -> tuple[float, float]:
    """Return by how much a new score raises the loss, and the standard error.

    Of few rows the raise is mostly noise. It is therefore averaged with what the curvature of the loss says, which is
    the raise if the score is right.
    """
    held = problem.held_out(score)
    change = (new_score - score)[None]
    expected = float((change * with_derivatives(held).second_derivative_times(score, change)).sum()) / (
        2 * held.n_units
    )
    growth, error = held.loss_change(new_score)
    return (growth + expected) / 2, error


def _ways_to_divide(options: Options, tables: Tables, key: Key) -> list[Steps]:
    """Return ways to divide a term; one that must stay has several cells on each axis, if the limits allow it."""
    axes, values, weights = tables.effects.axes_of(key), tables.values[key], tables.weights[key]
    ways = steps_of(axes, values, weights, most=options.max_steps, least_share=options.min_bin)
    several = [way for way in ways if all(group.any() for group in way.groups)]
    return several if several and key in options.keep else ways


# The answer.


@dataclasses.dataclass(frozen=True)
class Options:
    """The arguments of `simplify`, checked, with terms as keys and their signs by key."""

    max_terms: int | None
    max_order: int
    keep: frozenset[Key]
    drop: frozenset[Key]
    max_steps: int | None
    min_bin: float
    round_cuts: bool
    monotone: Mapping[Key, int]
    cv: int
    random_state: int


def checked_share(name: str, share: Any) -> float:
    """Return an argument as a float; ValueError unless it is a share from 0 to below 1."""
    if isinstance(share, bool) or not isinstance(share, Real) or not 0 <= float(share) < 1:
        raise ValueError(f"`{name}` must be a share from 0 to below 1, got {share!r}; 0 is the default.")
    return float(share)


def checked_signs(monotone: Any, axes: Sequence[Axis]) -> dict[str, int]:
    """Return the sign of each feature that `monotone` maps to 1 or -1; all must have values with an order."""
    if monotone is not None and not isinstance(monotone, Mapping):
        kind = type(monotone).__name__
        raise TypeError(f"`monotone` must map features to 1 or -1, got {kind}; for example {{{axes[0].name!r}: 1}}.")
    signs, is_ordered = dict(monotone or {}), {axis.name: axis.is_ordered for axis in axes}
    for name, sign in signs.items():
        is_sign = isinstance(sign, Real) and not isinstance(sign, bool) and sign in {1, -1}
        if name not in is_ordered or not is_sign:
            raise ValueError(
                f"`monotone` must map features of the model to 1 or -1, got {name!r}: {sign!r}; for example "
                f"{{{axes[0].name!r}: 1}}."
            )
        if not is_ordered[name]:
            raise ValueError(
                f"`monotone` must name features that have values with an order, got {name!r} with categories; leave it "
                "out."
            )
    return signs


Make = Callable[[TermSet, Density, str], Any]
"""Makes a decomposition of terms, the density under which they are pure, and words for the history."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Simplification(Result):
    """Smaller and smaller models of a decomposition's terms; made by `Decomposition.simplify`.

    Attributes
    ----------
    path
        Table with a row per model, the smallest first. `n_terms`; `n_steps`, the steps of its main effects; `n_cells`,
        the numbers in all of its tables; `loss`, the mean loss on rows that it was not fitted to; `difference` to the
        smallest loss of the path and its standard `error`; `r2`, the share of the variance of the model's score that
        it has.
    terms
        Table of the terms of the model that was chosen: `term`, `strength`, `n_cells`, and `share`, the variance of the
        term over that of the model's score.
    n_terms
        Number of terms of the model that was chosen.
    loss
        Name of the loss.
    model_loss
        Mean loss of the whole model.
    n_rows
        Number of rows.
    lost_variance
        Variance of what was left out, over that of the model's score.
    largest_change
        The largest difference between the score that was chosen and the model's score.
    changed_rows
        Table of the rows with the largest differences: `row`, its position in X, the score of the `model`, the
        `simplified` score, and the `change`.
    notes
        What was not considered.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> y = rows[:, 0] + 0.1 * rng.normal(size=200)  # the outcome depends on x0 only
    >>> simple = fx.simplify(rows, y)
    >>> list(simple.chosen.terms)
    [('x0',)]
    """

    path: Any
    terms: Any
    n_terms: int
    loss: str
    model_loss: float
    n_rows: int
    lost_variance: float
    largest_change: float
    changed_rows: Any
    notes: tuple[str, ...]
    _models: Mapping[int, Callable[[], Any]]

    @functools.cached_property
    def chosen(self) -> Any:
        """The decomposition of the model that was chosen."""
        return self.at(self.n_terms)

    def at(self, n_terms: int) -> Any:
        """Return the decomposition with some number of terms.

        Parameters
        ----------
        n_terms
            A number of terms of the path.

        Returns
        -------
        Decomposition
            The intercept, and terms with their strengths.

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.integers(0, 2, size=(200, 2))
        >>> simple = fx.simplify(rows, rows[:, 0] + 0.1 * rng.normal(size=200))
        >>> len(simple.at(2))
        2
        """
        if n_terms not in self._models:
            sizes = ", ".join(map(str, self._models))
            raise ValueError(f"`n_terms` must be a number of terms of the path, one of {sizes}, got {n_terms!r}.")
        return self._models[n_terms]()

    def plot(self, **options: Any) -> Any:
        """Draw the loss against the number of terms.

        Parameters
        ----------
        **options
            As for `treeanova.plot.simplification`.

        Returns
        -------
        matplotlib.axes.Axes

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> rng = np.random.default_rng(0)
        >>> rows = rng.integers(0, 2, size=(200, 2))
        >>> axes = fx.simplify(rows, rows[:, 0] + 0.1 * rng.normal(size=200)).plot()
        """
        return importlib.import_module("treeanova.plot").simplification(self, **options)

    def _content_of_dict(self) -> dict[str, Any]:
        names = [field.name for field in dataclasses.fields(self) if not field.name.startswith("_")]
        tables = {name: records(getattr(self, name)) for name in ("path", "terms", "changed_rows")}
        return {name: getattr(self, name) for name in names} | tables

    def _text_of_top(self, top: int) -> str:
        path = records(self.path)
        chosen_at = next(i for i, row in enumerate(path) if row["n_terms"] == self.n_terms)
        row, largest_model = path[chosen_at], path[-1]
        best = min(path, key=lambda model: model["loss"])
        shown = sorted({*np.linspace(0, len(path) - 1, min(top, len(path))).astype(int).tolist(), chosen_at})
        lines = [_model_in_words(path[i], is_chosen=i == chosen_at) for i in shown]
        terms = [
            {"term": term["term"], "strength": f"{term['strength']:.2f}", "cells": f"{term['n_cells']:,}"}
            | {"variance": percent(term["share"])}
            for term in records(self.terms)
        ]
        notes = "".join(f"{printable(note)}\n" for note in self.notes)
        return (
            f"{self.n_terms} of {largest_model['n_terms']} terms, {row['n_steps']:,} steps of main effects, "
            f"{row['n_cells']:,} cells\n"
            f"{self.n_rows:,} rows, {self.loss}: {row['loss']:.6g} for these terms, {best['loss']:.6g} at best "
            f"({best['n_terms']} terms), {self.model_loss:.6g} for the whole model\n"
            f"Left out: {percent(self.lost_variance)} of the score's variance; no score of these rows changes by more "
            f"than {self.largest_change:.4g}\n{notes}\n{aligned_rows(lines, len(lines))}\n* chosen\n\n"
            f"{aligned_rows(terms, top)}"
        )


def _model_in_words(row: Mapping[str, Any], *, is_chosen: bool) -> dict[str, str]:
    """Return a row of the path with numbers as text and a star at the number of terms of the chosen model."""
    return {
        "terms": f"{row['n_terms']:,}{' *' if is_chosen else ''}",
        "steps": f"{row['n_steps']:,}",
        "cells": f"{row['n_cells']:,}",
        "loss": f"{row['loss']:.6g}",
        "above the best": f"{row['difference']:+.2g} ± {row['error']:.1g}",
        "R²": f"{round(row['r2'], 4) + 0.0:.4f}",
    }


class Members(NamedTuple):
    """Tables of the members of a bag, members first, and at each row the member that was not trained on it, or -1."""

    tables: Mapping[Key, Floats]
    of_row: Ints


class HeldRows(NamedTuple):
    """Rows with their outcome: those that count, and their positions in X."""

    rows: Rows
    positions: Ints
    question: Question
    outcome: Any
    weights: Floats
    group: npt.NDArray[Any] | None
    members: Members | None = None
    notes: tuple[str, ...] = ()

    def terms_at(self, tables: Tables, keys: Sequence[Key]) -> Floats:
        """Return terms at the rows; in a bag, those of the members that were not trained on the row."""
        codes = self.rows.bins(tables.effects.grid)
        if self.members is None:
            return tables.at(codes, keys)
        values = np.empty((len(codes), len(keys), len(tables.effects.intercept)))
        members = self.members.of_row
        in_no_fold = np.flatnonzero(members < 0)
        for i, key in enumerate(keys):
            bins = [binning.bins[codes[:, j]] for j, binning in zip(key, tables.effects.binnings_of(key), strict=True)]
            values[:, i] = self._tables_of_members(tables, key)[(members, *bins)]
            values[in_no_fold, i] = tables.values[key][tuple(bins_of_axis[in_no_fold] for bins_of_axis in bins)]
        return values

    def _tables_of_members(self, tables: Tables, key: Key) -> Floats:
        """Return a term of all members, members first, divided as the mean is."""
        values = self.members.tables[key] if self.members else tables.values[key][None]
        if key not in tables.steps:
            return values
        last = np.moveaxis(values, 0, -1)
        flat = averaged(last.reshape(*last.shape[:-2], -1), tables.weights[key], tables.steps[key].groups)
        return np.moveaxis(flat.reshape(last.shape), -1, 0)


def held_rows(schema: Schema, X: Any, y: Any, *, loss: Any, group: Any, sample_weight: Any) -> HeldRows:
    """Return the rows with weight and their outcomes; ValueError or TypeError if `simplify` cannot take the loss."""
    questions = questions_of(schema, loss)
    if len(questions) > 1:
        raise ValueError(
            f"simplify() must have one outcome, got {len(questions)} targets, each with its own loss; train and "
            "decompose a model per target."
        )
    [question] = questions
    if callable(loss):
        raise TypeError("`loss` must be a name for simplify(), which needs its derivatives, got a function.")
    encoded = encode(X, schema)
    n_rows, weights, is_counted = len(encoded), np.ones(len(encoded)), np.ones(len(encoded), dtype=bool)
    if sample_weight is not None:
        weights, is_counted = counting_weights(sample_weight, n_rows)
        encoded = np.asfortranarray(encoded[is_counted])
    outcome = outcome_of(schema, question, y, n_rows, is_counted)
    check_number("rows", "`X`", len(encoded))
    labels = column_named(X, group, schema) if isinstance(group, str) else group
    ids = None if group is None else group_ids(labels, is_counted)
    notes = tuple(notes_on_scale(schema, loss))
    return HeldRows(Rows(encoded), np.flatnonzero(is_counted), question, outcome, weights, ids, notes=notes)


def simplify(
    function: Function,
    density: Density,
    weights: Mapping[Key, Floats],
    held: HeldRows,
    options: Options,
    *,
    make: Make,
    settings: Settings,
    progress: Progress = quiet,
) -> Simplification:
    """Return the path of smaller models; `weights` are those of the tables' cells, `make` makes decompositions."""
    keys, notes = _candidates(function, options, held.rows.bins(function.effects.grid), held.weights)
    tables = _undivided_tables(function, weights, keys, options)
    with one_step(progress, "terms at rows"):
        problem, score = _problem_at_rows(function, tables, held, keys)
    with one_step(progress, "few steps"):
        tables = choose_tables(options, tables, problem, held, keys)
    keys = [key for key in keys if tables.varies(key) or key in options.keep]
    tables = divided(tables, {key: tables.steps[key] for key in keys})
    if function.grid.schema.link == "probability":
        notes.append("the score is a probability, not log-odds: sums of fewer terms may be below 0 or above 1")
    if options.round_cuts:
        before, (tables, density) = tables, with_round_cuts(tables, density, settings)
        notes.append(_words_of_cuts(before, tables, held.rows))
    stay = frozenset(i for i, key in enumerate(keys) if key in options.keep)
    intercept = tables.effects.intercept
    values = held.terms_at(tables, keys)
    problem = dataclasses.replace(problem, intercept=intercept, values=values, must_stay=stay)
    models = _models(problem, keys, options, progress)
    size = _smallest_model(models, options.max_terms)
    variance, change = _variance(score, held.weights), models[size].score - score
    labels = labels_by_key(keys, function.grid.schema.names)
    values_by_key = {key: problem.values[:, i] for i, key in enumerate(keys)}
    terms = _term_rows(tables, models[size], values_by_key, held.weights, labels)
    terms = [row | {"share": _share(row["variance"], variance)} for row in terms]
    notes += _notes_on_kept(tables, models[size], options.keep, labels)
    path = [_path_row(tables, model, score, held.weights) for model in models.values()]
    return Simplification(
        frame_of_rows(path, _PATH, settings.backend),
        frame_of_rows(terms, _TERMS, settings.backend),
        size,
        held.question.name,
        problem.held_out(score).mean_loss(score),
        problem.n_rows,
        _share(_variance(change, held.weights), variance),
        float(np.abs(change).max()),
        frame(_changed_rows(held.positions, score, models[size].score, function.grid.schema.outputs), settings.backend),
        (*held.notes, *notes),
        {n: functools.partial(_decomposition_of, model, tables, density, make) for n, model in models.items()},
    )


def _problem_at_rows(function: Function, tables: Tables, held: HeldRows, keys: Sequence[Key]) -> tuple[Problem, Floats]:
    """Return the terms at held-out rows with the outcome, and the score of the whole model there."""
    values, at_rows = held.terms_at(tables, keys), tables.at(held.rows.bins(function.effects.grid), keys)
    score = function.score(held.rows) + (values - at_rows).sum(axis=1)
    problem = Problem(held.question, held.outcome, held.weights, held.group, function.terms.intercept, values)
    check_size(problem.held_out(score))
    return problem, score


@dataclasses.dataclass(frozen=True, eq=False)
class Model:
    """A model of the path: its intercept, its strengths, its score at the rows, and how it was judged."""

    intercept: Floats
    strengths: Mapping[Key, float]
    score: Floats
    loss: float
    difference: float
    error: float
    is_good: bool


def _models(problem: Problem, keys: Sequence[Key], options: Options, progress: Progress) -> dict[int, Model]:
    """Return the models of the path by their number of terms, the smallest first."""
    sizes = problem.sizes
    is_allowed = np.array([options.max_terms is None or size <= options.max_terms for size in sizes])
    if not is_allowed.any():
        raise ValueError(
            f"`max_terms` must be at least the number of terms in `keep`, {sizes[0]}, got {options.max_terms}."
        )
    folds = folds_of(problem.n_rows, options.cv, problem.group, options.random_state)
    judgement = judge(problem, sizes, folds, is_allowed, progress)
    fit = fit_path(problem, sizes)
    scores, models = problem.scores(fit), {}
    for i in np.argsort(-judgement.loss, kind="stable"):  # of models with equally many terms, the best
        strengths = {
            key: float(strength)
            for place, (key, strength) in enumerate(zip(keys, fit.strengths[i], strict=True))
            if strength > 0 or place in problem.must_stay
        }
        intercept = problem.intercept + fit.constants[i]
        loss, difference, error = (float(numbers[i]) for numbers in judgement[:3])
        is_good = bool(judgement.is_good[i])
        models[len(strengths)] = Model(intercept, strengths, scores[i], loss, difference, error, is_good)
    return dict(sorted(models.items()))


def _smallest_model(models: Mapping[int, Model], max_terms: int | None) -> int:
    """Return the smallest size, at most `max_terms`, whose loss is at most one standard error above the smallest."""
    sizes = [size for size in models if max_terms is None or size <= max_terms]
    good = [size for size in sizes if models[size].is_good]
    return good[0] if good else min(sizes, key=lambda size: models[size].loss)


def _notes_on_kept(tables: Tables, model: Model, keep: Collection[Key], labels: Mapping[Key, str]) -> list[str]:
    """Say which terms stay because they must, although they are constant or have the strength 0."""
    idle = [labels[key] for key in sorted(keep) if not (tables.varies(key) and model.strengths[key] > 0)]
    return [f"kept, but zero everywhere: {', '.join(idle)}"] if idle else []


def _decomposition_of(model: Model, tables: Tables, density: Density, make: Make) -> Any:
    """Return the decomposition of a model of the path."""
    n_terms = len(model.strengths)
    edit = f"simplified to {n_terms} term{'s' * (n_terms != 1)}"
    return make(tables.term_set(model.intercept, model.strengths), density, edit)


def _path_row(tables: Tables, model: Model, score: Floats, weights: Floats) -> dict[str, Any]:
    """Return the numbers of a model for the table of the path; `score` is that of the whole model."""
    cells = {key: tables.steps[key].n_cells for key in model.strengths}
    lost = _share(_variance(model.score - score, weights), _variance(score, weights))
    return {
        "n_terms": len(cells),
        "n_steps": sum(n for key, n in cells.items() if len(key) == 1),
        "n_cells": sum(cells.values()),
        "loss": model.loss,
        "difference": model.difference,
        "error": model.error,
        "r2": 1 - lost,
    }


def _term_rows(
    tables: Tables, model: Model, values: Mapping[Key, Floats], weights: Floats, labels: Mapping[Key, str]
) -> list[dict[str, Any]]:
    """Return the numbers of the terms of a model, the largest variance first; `values` are those at rows, unscaled."""
    rows = [
        {"term": labels[key], "strength": strength, "n_cells": tables.steps[key].n_cells}
        | {"variance": _variance(strength * values[key], weights)}
        for key, strength in model.strengths.items()
    ]
    return sorted(rows, key=lambda row: -row["variance"])


def _share(amount: float, total: float) -> float:
    return amount / total if total > 0 else 0.0


def _changed_rows(positions: Ints, score: Floats, simple: Floats, outputs: Sequence[str]) -> dict[str, Any]:
    """Return the rows, and outputs if there are several, with the largest changes of the score."""
    change = simple - score
    order = np.argsort(-np.abs(change), axis=None, kind="stable")[:_CHANGED_ROWS]
    rows, columns = np.unravel_index(order, change.shape)
    named = {"output": [outputs[k] for k in columns]} if len(outputs) > 1 else {}
    numbers = {"model": score[rows, columns], "simplified": simple[rows, columns], "change": change[rows, columns]}
    return {"row": positions[rows], **named, **numbers}


def _candidates(
    function: Function, options: Options, codes: BinIndices, weights: Floats
) -> tuple[list[Key], list[str]]:
    """Return terms with tables that may stay, the ones of largest variance at the rows if there are many."""
    of_low_order = [key for key in function.terms.keys if len(key) <= options.max_order and key not in options.drop]
    keys = [key for key in of_low_order if function.terms.has_table(key)]
    lacking = sorted(options.keep.difference(keys))
    if lacking:
        label = labels_by_key(lacking, function.grid.schema.names)[lacking[0]]
        raise ValueError(
            f"`keep` must hold terms with a table, of order {options.max_order} or less, that are not in `drop`, got "
            f"{label!r}; leave it out, or change `max_order` or `drop`."
        )
    notes = []
    if len(keys) < len(of_low_order):
        notes.append(
            f"without a table, left out: {len(of_low_order) - len(keys):,} terms of order {options.max_order} or less"
        )
    if len(keys) > _MOST_TERMS:
        variances = {key: _variance(function.effects.at(key, codes), weights) for key in keys}
        ranked = sorted(keys, key=lambda key: (key not in options.keep, -variances[key]))[:_MOST_TERMS]
        share = sum(variances[key] for key in keys if key not in set(ranked)) / sum(variances.values())
        notes.append(
            f"considered: the {len(ranked):,} terms of largest variance of {len(keys):,}; the others have "
            f"{percent(share)} of the sum of variances"
        )
        keys = [key for key in keys if key in set(ranked)]
    return keys, notes


def _words_of_cuts(before: Tables, after: Tables, rows: Rows) -> str:
    """Say how many cuts were rounded, and how many rows are in another cell of some term for it."""
    n_cuts = sum(len(axis.thresholds) for axis in after.effects.grid.axes)
    old, new = (np.concatenate([axis.thresholds for axis in tables.effects.grid.axes]) for tables in (before, after))
    old_codes, new_codes = (rows.bins(tables.effects.grid) for tables in (before, after))
    moves = np.zeros(len(old_codes), dtype=bool)
    for key in after.steps:
        pairs = zip(
            key, before.steps[key].groups, after.steps[key].groups, before.effects.binnings_of(key), strict=True
        )
        for j, groups, new_groups, binning in pairs:
            moves |= groups[binning.bins[old_codes[:, j]]] != new_groups[new_codes[:, j]]
    n_moved = n_cuts - len(np.intersect1d(old, new))
    share = percent(float(moves.mean()))
    return f"cuts: {n_moved:,} of {n_cuts:,} rounded, which moves {share} of the rows to other cells"


def _variance(values: Floats, weights: Floats) -> float:
    """Return the weighted variance of values (n_rows, n_outputs), added up over outputs."""
    mean = np.average(values, axis=0, weights=weights)
    return float(np.average((values - mean) ** 2, axis=0, weights=weights).sum())


def _undivided_tables(
    function: Function, weights: Mapping[Key, Floats], keys: Sequence[Key], options: Options
) -> Tables:
    """Return the tables of terms before they are divided, monotone where `options` ask for it."""
    effects = function.effects
    values = {key: effects.terms[key] for key in keys}
    for key, sign in options.monotone.items():
        if key in values:
            values[key] = monotone_values(effects.axes_of(key)[0], values[key], weights[key], sign)
    return Tables(effects, weights, values, {})
