"""Validation: which terms hold up on held-out rows.

Two questions, in this order. How much worse is the loss without the term? And does the outcome follow the term, given
all the others?
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Key
from treeanova.core.labels import labels_of
from treeanova.core.progress import Progress, counted, one_step
from treeanova.data.columns import encode
from treeanova.data.frames import frame, free_name, table_text
from treeanova.decomposition.evaluation import Evaluation, rest_label
from treeanova.decomposition.evidence import Evidence, evidence_of, slope_of
from treeanova.decomposition.held_out import HeldOut, Rows, held_out
from treeanova.decomposition.losses import AftLoss
from treeanova.decomposition.outcomes import outcome_of, questions_of
from treeanova.density.accumulator import NEGLIGIBLE_WEIGHT
from treeanova.density.row_sources import checked_weights

_FEWEST_UNITS = 30
_LEVEL = 0.05
_MOST_LABELS = 10
_COLUMNS = (
    "term",
    "output",
    "order",
    "loss_change",
    "error",
    "p_value",
    "p_holm",
    "slope",
    "share",
    "model_share",
    "aliases",
)


@dataclasses.dataclass(frozen=True, eq=False)
class Validation:
    """Answers of held-out rows about each term; made by `Decomposition.validate`.

    1. How much worse is the loss without the term? `loss_change` and `error`.
    2. Does the outcome follow the term, given all the others? `p_value` and `p_holm`.

    Attributes
    ----------
    table
        Table with a row per term, and per target where there are several, the one with the largest change of loss
        first. `loss_change` is the mean loss of the model without the term minus that of the model, and `error` its
        standard error. `p_value` tests the coefficient of the term in a regression of the outcome on all terms and on
        curves of all features, one-sided; `p_holm` is corrected for the number of rows of the table by Holm's method.
        `aliases` names other terms that these rows cannot distinguish from the term: they are tested together, as one
        sum. `slope` is the multiple of the term that would have the smallest loss: 1 for a calibrated term, 0 for
        noise, above 1 for one that is shrunk too much. `share` is the share of the variance of the outcome that the
        term explains, and `model_share` its share of the variance of the score at the same rows. NaN stands where a
        number is not defined.
    loss
        Name of the loss.
    model_loss
        Mean loss of the model; an array where there are several targets.
    constant_loss
        The same for the best constant.
    n_rows
        Number of held-out rows; those of weight zero do not count.
    dispensable
        Labels of interactions without which the loss grows by no more than two standard errors.
    significant
        Labels of terms with `p_holm` below 0.05, by themselves or together with their aliases.
    groups
        Labels of terms that are tested together: a term and its aliases.
    notes
        Sentences about what could not be computed.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> y = rows[:, 0] + rng.normal(size=200)  # the outcome depends on x0 only
    >>> validation = fx.validate(rows, y)
    >>> validation.significant
    ('x0',)
    >>> validation.dispensable
    ('x0 × x1',)
    """

    table: Any
    loss: str
    model_loss: float | Floats
    constant_loss: float | Floats
    n_rows: int
    dispensable: tuple[str, ...]
    significant: tuple[str, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    notes: tuple[str, ...] = ()

    def __str__(self) -> str:
        losses = zip(np.atleast_1d(self.model_loss), np.atleast_1d(self.constant_loss), strict=True)
        words = "; ".join(
            f"{model:.6g} for the model, {constant:.6g} for the best constant" for model, constant in losses
        )
        lines = [
            f"Validation on {self.n_rows:,} rows, {self.loss}: {words}",
            "1. How much worse is the loss without the term? loss_change, with its standard error",
            f"   interactions that can be left out (at most two standard errors worse): {_listed(self.dispensable)}",
            "2. Does the outcome follow the term, given all others? p_value; p_holm is corrected for all rows (Holm)",
            f"   significant (p_holm below {_LEVEL}): {_listed(self.significant)}",
            *[
                f"   tested together, since these rows cannot distinguish them: {' or '.join(group)}"
                for group in self.groups
            ],
            *[f"   {note}" for note in self.notes],
        ]
        return "\n".join([*lines, table_text(self.table)])


def _listed(labels: Sequence[str]) -> str:
    """The first of some labels, and how many more there are."""
    more = f" and {len(labels) - _MOST_LABELS} more" if len(labels) > _MOST_LABELS else ""
    return f"{', '.join(labels[:_MOST_LABELS])}{more}" or "none"


def validate(
    evaluation: Evaluation,
    X: Any,
    y: Any,
    sample_weight: npt.ArrayLike | None,
    *,
    loss: Any,
    group: npt.ArrayLike | None,
    backend: str | None,
    progress: Progress,
) -> Validation:
    """The loss with and without each term, rests and remainder included, at rows with their outcome."""
    schema = evaluation.grid.schema
    questions = questions_of(schema, loss)
    encoded = encode(X, schema)
    n_rows, weights, chosen = len(encoded), np.ones(len(encoded)), np.ones(len(encoded), dtype=bool)
    if sample_weight is not None:
        weights, chosen = _counting_weights(sample_weight, n_rows)
        encoded = np.asfortranarray(encoded[chosen])
    outcomes = [outcome_of(schema, question, y, n_rows, chosen) for question in questions]
    ids = None if group is None else _group_ids(group, chosen)
    _check_number("rows", "`X`", len(encoded))
    with one_step(progress, "terms at rows"):
        values = evaluation.all_at(evaluation.grid.index_encoded(encoded))
    score = evaluation.score(encoded)
    keys: list[Key | None] = [*evaluation.terms.keys, *[None] * (len(values) - len(evaluation.terms.keys))]
    found = _Found(*_labels_and_orders(evaluation), schema.names)
    pairs = list(zip(questions, outcomes, strict=True))
    for question, outcome in counted(progress, "losses", pairs, len(pairs)):
        held = held_out(question, score[:, question.outputs], outcome, weights, ids)
        _check_number(_UNITS.get(held.loss.outcome, "rows"), "`y`", held.n_units)
        chosen = values[..., question.outputs]
        evidence = evidence_of(held, chosen, keys, encoded, schema)
        output = schema.outputs[question.outputs[0]] if len(questions) > 1 else None
        found.add(held, _measured(held, chosen), evidence, output)
    return found.validation(questions[0].name, len(encoded), backend)


def _counting_weights(sample_weight: npt.ArrayLike, n_rows: int) -> tuple[Floats, Bools]:
    """Weights of mean 1 of the rows that count, and which rows these are: not those of weight zero, or nearly zero."""
    weights = checked_weights(sample_weight, n_rows)
    weights = weights / weights.max()  # sums of huge weights would overflow
    chosen = weights > NEGLIGIBLE_WEIGHT
    return weights[chosen] / weights[chosen].mean(), chosen


def _group_ids(group: npt.ArrayLike, chosen: Bools) -> npt.NDArray[Any]:
    """The groups of the chosen rows."""
    ids = np.asarray(group).ravel()
    if len(ids) != len(chosen):
        raise ValueError(
            f"`group` must have one entry per row of `X`, {len(chosen)}, got {len(ids)}; pass the group of each row, "
            "not the sizes of groups."
        )
    return ids[chosen]


_UNITS = {"times": "events", "grades": "groups with different grades"}


def _check_number(what: str, where: str, n_units: int) -> None:
    if n_units < _FEWEST_UNITS:
        raise ValueError(
            f"{where} must have at least {_FEWEST_UNITS} {what} for standard errors, got {n_units}; add held-out rows."
        )


def _labels_and_orders(evaluation: Evaluation) -> tuple[list[str], list[int]]:
    """Labels and orders of all parts of the score, as in the table of importance."""
    names = evaluation.grid.schema.names
    keys, rests = evaluation.terms.keys, evaluation.rest_orders
    labels = labels_of([[names[j] for j in key] for key in keys], names)
    orders = [*map(len, keys), *rests]
    orders += [max(orders, default=0) + 1] * evaluation.has_remainder
    for label in [*map(rest_label, rests), *["remainder"] * evaluation.has_remainder]:
        labels.append(free_name(label, labels))
    return labels, orders


# Measures of each term.


def _measured(held: HeldOut, values: Floats) -> list[dict[str, float]]:
    """Change of loss, its error, slope and shares of each term."""
    found = []
    for term, (share, model_share) in zip(values, _shares(held, values), strict=True):
        change, error = held.change(held.score - term)
        slope = slope_of(held, term)
        found.append(
            {"loss_change": change, "error": error, "slope": slope, "share": share, "model_share": model_share}
        )
    return found


def _shares(held: HeldOut, values: Floats) -> list[tuple[float, float]]:
    """Shares of each term in the variances of the outcome and of the score.

    Where the score is on another scale than the outcome, it is first brought to it by a linear regression. Censored
    times, grades within groups and outcomes of a function have no such variance.
    """
    weights = held.row_weights[:, None] / held.row_weights.sum()
    centred, score = (_centred(held.loss.invariant(numbers), weights) for numbers in (values, held.score))
    of_score = float((weights * score**2).sum())
    model_shares = (centred * weights * score).sum(axis=(1, 2)) / of_score if of_score > 0 else np.zeros(len(values))
    if not isinstance(held, Rows) or isinstance(held.loss, AftLoss):
        return [(np.nan, share) for share in model_shares.tolist()]
    outcome = _centred(held.outcome, weights)
    of_outcome = (weights * outcome**2).sum()
    factor = 1.0 if held.loss.is_on_scale or not of_score > 0 else (weights * score * outcome).sum() / of_score
    shares = factor * (centred * weights * outcome).sum(axis=(1, 2)) / of_outcome
    return list(zip(shares.tolist(), model_shares.tolist(), strict=True))


def _centred(values: Floats, weights: Floats) -> Floats:
    """Values minus their weighted means over the rows, the last axis but one."""
    means: Floats = np.tensordot(values, weights[:, 0], axes=(-2, 0))
    return values - np.expand_dims(means, -2)


def holm(p: Sequence[float] | Floats) -> Floats:
    """p-values corrected for their number by Holm's method.

    Parameters
    ----------
    p
        One p-value per hypothesis; NaN where there is none, which does not count.

    Returns
    -------
    numpy.ndarray
        The smallest level at which each hypothesis would be rejected with all errors of the first kind under control.

    Examples
    --------
    >>> holm([0.01, 0.04, 0.03]).tolist()
    [0.03, 0.06, 0.06]
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")[: int(np.isfinite(values).sum())]
    steps = np.maximum.accumulate(values[order] * np.arange(len(order), 0, -1))
    corrected = np.full_like(values, np.nan)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


# The table.


class _Found:
    """Rows of the table and losses, outcome after outcome."""

    def __init__(self, labels: Sequence[str], orders: Sequence[int], features: Sequence[str]) -> None:
        self._labels, self._orders, self._features = labels, orders, features
        self._rows: list[dict[str, Any]] = []
        self._losses: list[tuple[float, float]] = []
        self._groups: list[tuple[str, ...]] = []
        self._notes: dict[str, None] = {}

    def add(self, held: HeldOut, measures: Sequence[dict[str, float]], evidence: Evidence, output: str | None) -> None:
        """Add the terms of an outcome."""
        named = {} if output is None else {"output": output}
        for u, (label, order) in enumerate(zip(self._labels, self._orders, strict=True)):
            aliases = self._aliases(evidence, u)
            tested = {"p_value": float(evidence.p_values[u]), "aliases": ", ".join(aliases)}
            self._rows.append({"term": label, **named, "order": order, **measures[u], **tested})
            self._groups.append((label, *aliases))
        self._losses.append((held.mean_loss(held.score), held.constant_loss()))
        if evidence.reason:
            self._notes[f"no p-values: {evidence.reason}"] = None

    def _aliases(self, evidence: Evidence, u: int) -> list[str]:
        """Labels of the terms that are tested together with a term, and of features that only curves stand for."""
        terms = [self._labels[v] for v in evidence.terms[u]]
        curves = [self._features[j] for j in evidence.features[u] if self._features[j] not in terms]
        return [*terms, *curves]

    def _distinct_groups(self, ranked: Sequence[str]) -> tuple[tuple[str, ...], ...]:
        """Terms that are tested together, each group once; the term with the largest change of loss comes first."""
        place = {label: position for position, label in reversed(list(enumerate(ranked)))}
        groups = sorted(
            (tuple(sorted(group, key=lambda label: place.get(label, len(place)))) for group in self._groups),
            key=lambda group: place[group[0]] if group[0] in place else len(place),
        )
        return tuple(dict.fromkeys(group for group in groups if len(group) > 1))

    def validation(self, loss: str, n_rows: int, backend: str | None) -> Validation:
        """The validation of all outcomes."""
        corrected = holm([row["p_value"] for row in self._rows])
        rows = [row | {"p_holm": float(p)} for row, p in zip(self._rows, corrected, strict=True)]
        rows.sort(key=lambda row: -row["loss_change"])
        names = [name for name in _COLUMNS if name != "output" or len(self._losses) > 1]
        columns = {name: [row[name] for row in rows] for name in names}
        model, constant = (np.array(side) for side in zip(*self._losses, strict=True))
        idle = [row["term"] for row in rows if row["order"] > 1 and row["loss_change"] <= 2 * row["error"]]
        useful = {row["term"] for row in rows if row["loss_change"] > 2 * row["error"]}
        return Validation(
            frame(columns, backend),
            loss,
            float(model[0]) if len(model) == 1 else model,
            float(constant[0]) if len(constant) == 1 else constant,
            n_rows,
            tuple(dict.fromkeys(label for label in idle if label not in useful)),
            tuple(dict.fromkeys(row["term"] for row in rows if row["p_holm"] < _LEVEL)),
            self._distinct_groups([row["term"] for row in rows]),
            tuple(self._notes),
        )
