"""Accuracy of a model at held-out rows, beside other models: mean losses, a plain measure, errors of differences."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.special

from treeanova.core.arrays import Bools, Floats
from treeanova.data.columns import encode
from treeanova.data.features import Schema
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.held_out import HeldOut, LossRows, Question, held_out, outcome_of, questions_of
from treeanova.decomposition.losses import PinballLoss
from treeanova.decomposition.predictions import function_of
from treeanova.decomposition.validation import check_number, check_size, counting_weights, group_ids
from treeanova.model.effects import is_classifier, respond
from treeanova.model.rows import Rows
from treeanova.report.baselines import fitted_baselines
from treeanova.views import rows_words

_FLOOR = float(np.finfo(np.float64).eps)  # of probabilities, as in scikit-learn's log_loss
_ROUNDING = 1e-6  # of probabilities, and of scores that are the same
_TIE_DECIMALS = 12  # of log-odds and probabilities: further ones are rounding


class Difference(NamedTuple):
    """A number of another model minus that of this one, and its standard error."""

    value: float
    error: float


class Entry(NamedTuple):
    """One model and one outcome, whose name is empty if there is only one; this model has no differences."""

    model: str
    output: str
    loss: float
    measure: float
    loss_difference: Difference | None = None
    measure_difference: Difference | None = None


class Distance(NamedTuple):
    """How far scores are from those before edits (which are named): root mean square, largest size, R² to them."""

    before: str
    rms: float
    largest: float
    r_squared: float


@dataclasses.dataclass(frozen=True)
class Accuracy:
    """Models at the same rows, this one first; `measure` names the plain measure, and is empty if there is none."""

    loss: str
    measure: str
    n_rows: int
    entries: tuple[Entry, ...]
    distance: Distance | None
    notes: tuple[str, ...]


class _Judging(NamedTuple):
    """Rows that count, their weights, of mean 1, and queries, and questions with outcomes."""

    X: Any
    is_counted: Bools
    weights: Floats
    ids: Any
    questions: Sequence[Question]
    outcomes: Sequence[Any]

    def held(self, score: Floats) -> list[HeldOut]:
        """Return held-out rows with the scores of a model, for each question."""
        pairs = zip(self.questions, self.outcomes, strict=True)
        return [held_out(one, score[:, one.outputs], outcome, self.weights, self.ids) for one, outcome in pairs]


def accuracy_of(
    fx: Decomposition,
    X: Any,
    y: Any,
    *,
    beside: Mapping[str, Any],
    baselines: Sequence[Any] | None,
    loss: Any,
    group: Any,
    sample_weight: Any,
) -> Accuracy:
    """Judge a decomposition, itself before its edits, other models and baselines by the same loss."""
    encoded = encode(X, fx.schema)
    n_all, weights, is_counted = len(encoded), np.ones(len(encoded)), np.ones(len(encoded), dtype=bool)
    if sample_weight is not None:
        weights, is_counted = counting_weights(sample_weight, n_all)
    questions = questions_of(fx.schema, loss)
    outcomes = [outcome_of(fx.schema, question, y, n_all, is_counted) for question in questions]
    ids = None if group is None else group_ids(group, is_counted)
    judging = _Judging(X, is_counted, weights, ids, questions, outcomes)
    rows = Rows(np.asfortranarray(encoded[is_counted]))
    check_number("rows", "`X`", len(rows))
    score, (before, source) = function_of(fx).score(rows), before_edits(fx)
    named_scores, notes = _scores_beside(fx, beside, judging)
    if baselines is not None:
        responses, words = fitted_baselines(fx.schema, questions, baselines, rows.values)
        named_scores += [(name, _scores_of(name, response, fx, judging)[0]) for name, response in responses.items()]
        notes += words
    distance = None
    if source is not None:
        source_score = function_of(source).score(rows)
        named_scores = _with_source(named_scores, before, source_score)
        distance = Distance(before, *_gap_of_scores(score, source_score, weights))
    entries, measure = _entries(fx.schema, judging, score, named_scores)
    return Accuracy(questions[0].name, measure, len(rows), tuple(entries), distance, tuple(notes))


def before_edits(fx: Decomposition) -> tuple[str, Decomposition | None]:
    """Return the decomposition before its edits, or before the last ones that can be undone, with words for it."""
    n_edits = len(function_of(fx).scope.history)
    for n in range(n_edits, 0, -1):
        with contextlib.suppress(ValueError):  # another operation followed, or it was saved without its past
            last = "" if n == n_edits else "last " if n == 1 else f"last {n} "
            return f"before the {last}edit{'s' * (n > 1 or not last)}", fx.undo(n)
    return "", None


def _gap_of_scores(score: Floats, before: Floats, weights: Floats) -> tuple[float, float, float]:
    """Return root mean square and largest size of a difference, and R²."""
    gaps, spread = score - before, before - np.average(before, axis=0, weights=weights)
    squares = [float(weights @ (numbers**2).sum(axis=1)) / len(weights) for numbers in (gaps, spread)]
    r_squared = 1 - squares[0] / squares[1] if squares[1] > 0 else np.nan
    return float(np.sqrt(squares[0])), float(np.abs(gaps).max()), r_squared


def _entries(
    schema: Schema, judging: _Judging, score: Floats, named_scores: Sequence[tuple[str, Floats]]
) -> tuple[list[Entry], str]:
    """Return a row per outcome and model, and one of the best constant; and the name of the plain measure."""
    entries, name = [], ""
    held_others = [(other, judging.held(other_score)) for other, other_score in named_scores]
    for i, held in enumerate(judging.held(score)):
        check_size(held)
        output = schema.outputs[judging.questions[i].outputs[0]] if len(judging.questions) > 1 else ""
        name, measured = measure_of(schema, held)
        entries.append(Entry("this model", output, held.mean_loss(held.score), measured.value))
        for other, by_question in held_others:
            loss, other_measured = held.mean_loss(by_question[i].score), measure_of(schema, by_question[i])[1]
            change = Difference(*held.loss_change(by_question[i].score))
            entries.append(Entry(other, output, loss, other_measured.value, change, other_measured - measured))
        if np.isfinite(held.constant_loss()):
            entries.append(Entry("best constant here", output, held.constant_loss(), np.nan))
    return entries, name


def _with_source(
    named_scores: Sequence[tuple[str, Floats]], before: str, source_score: Floats
) -> list[tuple[str, Floats]]:
    """Return models with the decomposition before edits, first or under the name of a model that it equals."""
    size = np.abs(source_score).max()
    equal = next((name for name, score in named_scores if np.abs(score - source_score).max() <= _ROUNDING * size), None)
    if equal is None:
        return [(before, source_score), *named_scores]
    return [(f"{name} ({before})" if name == equal else name, score) for name, score in named_scores]


# Scores of other models


def _scores_beside(
    fx: Decomposition, beside: Mapping[str, Any], judging: _Judging
) -> tuple[list[tuple[str, Floats]], list[str]]:
    """Return the scores of models by name, and notes on probabilities of 0 and 1."""
    named_scores, notes = [], []
    for name, model in beside.items():
        score, n_certain = _scores_of(str(name), model, fx, judging)
        named_scores.append((str(name), score))
        if n_certain:
            rows = rows_words(n_certain)
            notes.append(f"{name}: probabilities of 0 or 1, at {rows}, count as {_FLOOR:.0e} away from these.")
    return named_scores, notes


def _scores_of(name: str, model: Any, fx: Decomposition, judging: _Judging) -> tuple[Floats, int]:
    """Return the scores of a model at the rows that count, and at how many rows it is certain of a class."""
    if isinstance(model, Decomposition) and model.schema.link == fx.schema.link:
        scores = np.asarray(model.decision_function(judging.X)).reshape(len(judging.is_counted), -1)
        return _in_order(name, model.schema.classes, scores, fx.schema)[judging.is_counted], 0
    responses = _responses(name, model, fx.schema, judging.X)
    if len(responses) == len(judging.is_counted):
        responses = responses[judging.is_counted]
    n_rows, n_outputs = len(judging.weights), len(fx.schema.outputs)
    if n_outputs == 1 and responses.shape[1] == 2 and is_classifier(fx.schema):
        responses = responses[:, 1:]
    if responses.shape != (n_rows, n_outputs):
        raise ValueError(
            f"`beside` must have a response of {n_outputs} outputs for each of the {len(judging.is_counted)} rows, got "
            f"{responses.shape} from {name!r}; pass probabilities for classes, and predictions for numbers."
        )
    if not np.isfinite(responses).all():
        raise ValueError(f"`beside` must have finite responses, got others from {name!r}; leave it out.")
    return _as_scores(name, responses, fx.schema)


def _responses(name: str, model: Any, schema: Schema, X: Any) -> Floats:
    """Return the responses of a fitted model, or those that were passed: (n_rows, n_columns)."""
    if isinstance(model, type | str):
        raise TypeError(f"`beside` must hold fitted models or responses, got {model!r} for {name!r}; fit it first.")
    if isinstance(model, Decomposition):
        responses = model.predict_proba(X) if is_classifier(schema) else model.predict_response(X)
        return _in_order(name, model.schema.classes, _two_axes(responses), schema)
    if is_classifier(schema) and hasattr(model, "predict_proba"):
        return _in_order(name, tuple(getattr(model, "classes_", ())), _two_axes(model.predict_proba(X)), schema)
    if is_classifier(schema) and hasattr(model, "classes_"):
        raise TypeError(
            f"`beside` must have probabilities, got {type(model).__name__} without predict_proba for {name!r}; wrap it "
            "in scikit-learn's CalibratedClassifierCV."
        )
    return _two_axes(model.predict(X) if hasattr(model, "predict") else model)


def _two_axes(responses: Any) -> Floats:
    numbers = np.asarray(responses, dtype=np.float64)
    return numbers.reshape(len(numbers), -1) if numbers.ndim else numbers.reshape(1, 1)


def _in_order(name: str, classes: Sequence[Any], columns: Floats, schema: Schema) -> Floats:
    """Return columns of classes in the order of this model's; ValueError if the classes differ."""
    if not classes or not schema.classes or len(classes) != columns.shape[1]:
        return columns
    labels = [label.item() if isinstance(label, np.generic) else label for label in classes]
    if set(labels) != set(schema.classes):
        raise ValueError(
            f"`beside` must have the classes of this model, {', '.join(map(repr, schema.classes))}, got "
            f"{', '.join(map(repr, labels))} from {name!r}; train it with the same labels."
        )
    return columns[:, [labels.index(label) for label in schema.classes]]


def _as_scores(name: str, responses: Floats, schema: Schema) -> tuple[Floats, int]:
    """Return scores whose responses these are, and at how many rows probabilities of 0 or 1 were moved inwards."""
    if schema.link in {"identity", "probability"}:
        return responses, 0
    if schema.link == "log" and (responses > 0).all():
        return np.log(responses), 0
    is_share = bool((responses >= -_ROUNDING).all() and (responses <= 1 + _ROUNDING).all())
    if schema.link not in {"logit", "softmax"} or not is_share:
        rule = {"log": "above zero", "logit": "from 0 to 1", "softmax": "from 0 to 1"}.get(schema.link)
        if rule is None:
            raise ValueError(
                f"`beside` must be left out for a model with the link {schema.link!r}, whose score does not follow "
                f"from a response, got {name!r}."
            )
        raise ValueError(
            f"`beside` must have responses {rule}, as this model's loss needs, got {responses.min():.4g} to "
            f"{responses.max():.4g} from {name!r}; pass other responses, or leave it out."
        )
    inner = np.clip(responses, _FLOOR, 1 - _FLOOR)
    n_certain = int((inner != responses).any(axis=1).sum())
    return np.asarray(scipy.special.logit(inner) if schema.link == "logit" else np.log(inner)), n_certain


# Plain measures


class Measured(NamedTuple):
    """A measure, and how much each row moves it (its influence, of mean zero); NaN and none if it is not defined."""

    value: float
    influence: Floats | None = None

    def __sub__(self, other: Measured) -> Difference | None:
        if self.influence is None or other.influence is None:
            return None
        n, change = len(self.influence), self.influence - other.influence
        return Difference(self.value - other.value, float(np.sqrt((change**2).sum() / (n * (n - 1)))))


def measure_of(schema: Schema, held: HeldOut) -> tuple[str, Measured]:
    """Return the plain measure that suits the outcome with its name, which is empty if there is none."""
    kind, score = held.loss.outcome, held.score
    if not isinstance(held, LossRows) or kind not in {"labels", "numbers"}:
        return "", Measured(np.nan)
    outcome, weights = held.outcome, held.row_weights
    if kind == "labels" and not schema.predicts_share:
        if score.shape[1] == 1:
            return "AUC", _auc(np.round(score[:, 0], _TIE_DECIMALS), outcome[:, 0], weights)
        return "accuracy", _mean(score.argmax(axis=1) == outcome.argmax(axis=1), weights)
    if isinstance(held.loss, PinballLoss) and held.loss.level != 0.5:
        return "outcomes below", _mean(outcome[:, 0] <= score[:, 0], weights)
    response = score if held.loss.is_on_scale or score.shape[1] > 1 else respond(schema, score)
    return "R²", _r_squared(response[:, 0], outcome[:, 0], weights)


def _mean(numbers: Any, weights: Floats) -> Measured:
    mean = float(np.average(numbers, weights=weights))
    return Measured(mean, weights * (numbers - mean))


def _r_squared(response: Floats, outcome: Floats, weights: Floats) -> Measured:
    errors, squares = (outcome - response) ** 2, (outcome - np.average(outcome, weights=weights)) ** 2
    error, variance = (float(np.average(numbers, weights=weights)) for numbers in (errors, squares))
    influence = -weights * ((errors - error) - error / variance * (squares - variance)) / variance
    return Measured(1 - error / variance, influence)


def _auc(score: Floats, outcome: Floats, weights: Floats) -> Measured:
    """Return the chance that a positive row has a higher score than a negative one, ties half; errors by DeLong."""
    is_positive = outcome > 0.5
    above = _share_below(score[is_positive], score[~is_positive], weights[~is_positive])
    below = 1 - _share_below(score[~is_positive], score[is_positive], weights[is_positive])
    auc = float(np.average(above, weights=weights[is_positive]))
    influence = np.empty(len(score))
    influence[is_positive], influence[~is_positive] = above - auc, below - auc
    shares = np.where(is_positive, weights[is_positive].sum(), weights[~is_positive].sum()) / len(score)
    return Measured(auc, weights * influence / shares)


def _share_below(values: Floats, sample: Floats, weights: Floats) -> Floats:
    """Return, for each value, the share of the weight of others below it; equal ones count half."""
    order = np.argsort(sample)
    total = np.concatenate([[0.0], np.cumsum(weights[order])])
    low, high = (total[np.searchsorted(sample[order], values, side=side)] for side in ("left", "right"))
    return np.asarray((low + high) / (2 * total[-1]))
