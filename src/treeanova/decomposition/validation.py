"""Validation: which terms hold up on held-out rows."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Key
from treeanova.core.labels import label_of
from treeanova.core.progress import Progress, counted, one_step
from treeanova.data.columns import encode
from treeanova.data.frames import frame, free_name, table_text
from treeanova.decomposition.evaluation import Evaluation, rest_label
from treeanova.decomposition.evidence import HeldOut, p_values, slope_of
from treeanova.decomposition.losses import groups_of_outputs, loss_of, outcome_of
from treeanova.density.row_sources import checked_weights

_FEWEST_ROWS = 30
_LEVEL = 0.05


@dataclasses.dataclass(frozen=True, eq=False)
class Validation:
    """What each term is worth on held-out rows; made by `Decomposition.validate`.

    Attributes
    ----------
    table
        Table with a row per term, and per target where there are several, the one with the largest change of loss
        first. `loss_change` is the mean loss of the model without the term minus that of the model, and `error` its
        standard error. `p_value` tests whether the outcome follows the term at all, one-sided; `p_holm` is corrected
        for the number of rows of the table by Holm's method. `slope` is the multiple of the term that would have the
        smallest loss: 1 for a calibrated term, 0 for noise, above 1 for one that is shrunk too much. `share` is the
        share of the variance of the outcome that the term explains, and `model_share` its share of the variance of the
        score at the same rows.
    loss
        Name of the loss.
    model_loss
        Mean loss of the model; an array where there are several targets.
    constant_loss
        The same for the best constant.
    n_rows
        Number of held-out rows.
    not_paying
        Labels of interactions without which the loss grows by no more than two standard errors.
    evident
        Labels of terms with `p_holm` below 0.05.

    Examples
    --------
    >>> import numpy as np
    >>> from treeanova.testing import example
    >>> fx, X = example()  # the logical "and" of x0 and x1
    >>> rng = np.random.default_rng(0)
    >>> rows = rng.integers(0, 2, size=(200, 2))
    >>> validation = fx.validate(rows, rows[:, 0] + rng.normal(size=200))  # the outcome depends on x0 only
    >>> validation.evident
    ('x0',)
    >>> validation.not_paying
    ('x0 × x1',)
    """

    table: Any
    loss: str
    model_loss: float | Floats
    constant_loss: float | Floats
    n_rows: int
    not_paying: tuple[str, ...]
    evident: tuple[str, ...]

    def __str__(self) -> str:
        losses = zip(np.atleast_1d(self.model_loss), np.atleast_1d(self.constant_loss), strict=True)
        words = "; ".join(
            f"{model:.6g} for the model, {constant:.6g} for the best constant" for model, constant in losses
        )
        idle = ", ".join(self.not_paying) or "none"
        return (
            f"Validation on {self.n_rows:,} rows, {self.loss}: {words}\n"
            f"interactions that do not pay (loss grows by at most two standard errors without them): {idle}\n"
            f"p_holm is corrected for all rows of the table (Holm)\n{table_text(self.table)}"
        )


def validate(
    evaluation: Evaluation,
    X: Any,
    y: Any,
    sample_weight: npt.ArrayLike | None,
    *,
    backend: str | None,
    progress: Progress,
) -> Validation:
    """The loss with and without each term, rests and remainder included, at rows with their outcome."""
    schema = evaluation.grid.schema
    loss, groups = loss_of(schema), groups_of_outputs(schema)
    encoded = encode(X, schema)
    outcome = outcome_of(schema, y, len(encoded))
    if len(encoded) < _FEWEST_ROWS:
        raise ValueError(
            f"`X` must have at least {_FEWEST_ROWS} rows for standard errors, got {len(encoded)}; add held-out rows."
        )
    weights = np.ones(len(encoded)) if sample_weight is None else checked_weights(sample_weight, len(encoded))
    weights = weights / weights.mean()
    with one_step(progress, "terms at rows"):
        values = evaluation.all_at(evaluation.grid.index_encoded(encoded))
    score = evaluation.score(encoded)
    keys: list[Key | None] = [*evaluation.terms.keys, *[None] * (len(values) - len(evaluation.terms.keys))]
    labels, orders = _labels_and_orders(evaluation)
    outputs = [schema.outputs[group[0]] if len(groups) > 1 else None for group in groups]
    rows: list[dict[str, Any]] = []
    losses: list[tuple[float, float]] = []
    for output, group in counted(progress, "losses", zip(outputs, groups, strict=True), len(groups)):
        held = HeldOut(loss, score[:, group], outcome[:, group], weights)
        found = _measured(held, values[..., group])
        tested = p_values(held, values[..., group], keys, encoded, schema)
        named = {} if output is None else {"output": output}
        rows += [
            {"term": label, **named, "order": order, **measures, "p_value": float(p)}
            for label, order, measures, p in zip(labels, orders, found, tested, strict=True)
        ]
        losses.append((held.mean(loss.at(held.score, held.outcome)), _constant_loss(held)))
    return _validation(rows, losses, loss.name, len(encoded), backend)


def _labels_and_orders(evaluation: Evaluation) -> tuple[list[str], list[int]]:
    """Labels and orders of all parts of the score, as in the table of importance."""
    names = evaluation.grid.schema.names
    keys, rests = evaluation.terms.keys, evaluation.rest_orders
    labels = [label_of(names[j] for j in key) for key in keys]
    orders = [*map(len, keys), *rests]
    orders += [max(orders, default=0) + 1] * evaluation.has_remainder
    for label in [*map(rest_label, rests), *["remainder"] * evaluation.has_remainder]:
        labels.append(free_name(label, labels))
    return labels, orders


def _measured(held: HeldOut, values: Floats) -> list[dict[str, float]]:
    """Change of loss, its error, slope and shares of each term."""
    with_all = held.loss.at(held.score, held.outcome)
    found = []
    for term in values:
        change = held.loss.at(held.score - term, held.outcome) - with_all
        found.append({"loss_change": held.mean(change), "error": held.error(change), "slope": slope_of(held, term)})
    for measures, shares in zip(found, _shares(held, values), strict=True):
        measures["share"], measures["model_share"] = shares
    return found


def _shares(held: HeldOut, values: Floats) -> list[tuple[float, float]]:
    """Shares of each term in the variances of the outcome and of the score.

    Where the score is on another scale than the outcome, it is first brought to it by a linear regression.
    """
    centred = _centred(held, held.loss.invariant(values))
    score, outcome = _centred(held, held.loss.invariant(held.score)), _centred(held, held.outcome)
    weights = held.weights[:, None] / held.weights.sum()
    of_outcome, of_score = (weights * outcome**2).sum(), (weights * score**2).sum()
    with_outcome, with_score = ((centred * weights * other).sum(axis=(1, 2)) for other in (outcome, score))
    factor = 1.0 if held.loss.is_on_scale or not of_score > 0 else (weights * score * outcome).sum() / of_score
    model_shares = with_score / of_score if of_score > 0 else np.zeros(len(values))
    return list(zip((factor * with_outcome / of_outcome).tolist(), model_shares.tolist(), strict=True))


def _centred(held: HeldOut, values: Floats) -> Floats:
    """Values minus their weighted means over the rows, the last axis but one."""
    means: Floats = np.tensordot(values, held.weights / held.weights.sum(), axes=(-2, 0))
    return values - np.expand_dims(means, -2)


def _constant_loss(held: HeldOut) -> float:
    """Mean loss of the best constant: that of the mean outcome."""
    mean = np.average(held.outcome, axis=0, weights=held.weights)
    score = np.broadcast_to(held.loss.score_of(mean), held.score.shape)
    return held.mean(held.loss.at(score, held.outcome))


def holm(p: Sequence[float] | Floats) -> Floats:
    """p-values corrected for their number by Holm's method.

    Parameters
    ----------
    p
        One p-value per hypothesis.

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
    order = np.argsort(values, kind="stable")
    steps = np.maximum.accumulate(values[order] * np.arange(len(values), 0, -1))
    corrected = np.empty_like(values)
    corrected[order] = np.minimum(steps, 1.0)
    return corrected


def _validation(
    rows: Sequence[dict[str, Any]], losses: Sequence[tuple[float, float]], loss: str, n_rows: int, backend: str | None
) -> Validation:
    corrected = holm([row["p_value"] for row in rows])
    complete = [row | {"p_holm": float(p)} for row, p in zip(rows, corrected, strict=True)]
    complete.sort(key=lambda row: -row["loss_change"])
    names = ("term", "output", "order", "loss_change", "error", "p_value", "p_holm", "slope", "share", "model_share")
    columns = {name: [row[name] for row in complete] for name in names if complete and name in complete[0]}
    model, constant = (np.array(side) for side in zip(*losses, strict=True))
    idle = [row["term"] for row in complete if row["order"] > 1 and row["loss_change"] <= 2 * row["error"]]
    paying = {row["term"] for row in complete if row["loss_change"] > 2 * row["error"]}
    return Validation(
        frame(columns, backend),
        loss,
        float(model[0]) if len(model) == 1 else model,
        float(constant[0]) if len(constant) == 1 else constant,
        n_rows,
        tuple(dict.fromkeys(label for label in idle if label not in paying)),
        tuple(dict.fromkeys(row["term"] for row in complete if row["p_holm"] < _LEVEL)),
    )
