"""Losses of held-out rows by the link of a model, and the outcome as numbers that they compare with scores."""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema, is_missing
from treeanova.model.links import is_classifier

_SHOWN_LABELS = 6
_TINY = 1e-16


class Loss(abc.ABC):
    """A loss of scores; with its own link it is convex, and its gradient is the mean minus the outcome.

    Scores and outcomes have the shape (n_rows, n_outputs); the loss of a row is summed over the outputs.
    """

    name: str

    @abc.abstractmethod
    def at(self, score: Floats, outcome: Floats) -> Floats:
        """The loss of each row."""

    @abc.abstractmethod
    def mean(self, score: Floats) -> Floats:
        """The mean outcome that the scores stand for."""

    @abc.abstractmethod
    def curved(self, score: Floats, direction: Floats) -> Floats:
        """The second derivative at the scores, applied to a direction of the shape of the scores."""

    @abc.abstractmethod
    def score_of(self, mean: Floats) -> Floats:
        """The score that stands for a mean outcome."""

    @property
    def is_on_scale(self) -> bool:
        """Whether scores are on the scale of the outcome."""
        return False

    def invariant(self, values: Floats) -> Floats:
        """Values of terms, outputs last, without what does not change the loss."""
        return values


class SquaredLoss(Loss):
    """The squared difference; half of its gradient is the mean minus the outcome."""

    def __init__(self, name: str = "squared error") -> None:
        self.name = name

    def at(self, score: Floats, outcome: Floats) -> Floats:
        """The squared difference."""
        loss: Floats = ((outcome - score) ** 2).sum(axis=1)
        return loss

    def mean(self, score: Floats) -> Floats:
        """The score itself."""
        return score

    def curved(self, score: Floats, direction: Floats) -> Floats:  # noqa: ARG002
        """The direction itself."""
        return direction

    def score_of(self, mean: Floats) -> Floats:
        """The mean itself."""
        return mean

    @property
    def is_on_scale(self) -> bool:
        """True."""
        return True


class LogLoss(Loss):
    """Minus the log-likelihood of yes and no, or of shares, given log-odds."""

    name = "log loss"

    def at(self, score: Floats, outcome: Floats) -> Floats:
        """Minus the log-likelihood."""
        loss: Floats = (np.logaddexp(0, score) - outcome * score).sum(axis=1)
        return loss

    def mean(self, score: Floats) -> Floats:
        """Probabilities."""
        probabilities: Floats = scipy.special.expit(score)
        return probabilities

    def curved(self, score: Floats, direction: Floats) -> Floats:
        """The direction times the variance of the outcome."""
        mean = self.mean(score)
        return mean * (1 - mean) * direction

    def score_of(self, mean: Floats) -> Floats:
        """Log-odds."""
        score: Floats = scipy.special.logit(np.clip(mean, _TINY, 1 - _TINY))
        return score


class MulticlassLogLoss(Loss):
    """Minus the log-likelihood of one of several classes; adding a number to all class scores changes nothing."""

    name = "multiclass log loss"

    def at(self, score: Floats, outcome: Floats) -> Floats:
        """Minus the log-likelihood."""
        loss: Floats = scipy.special.logsumexp(score, axis=1) - (outcome * score).sum(axis=1)
        return loss

    def mean(self, score: Floats) -> Floats:
        """Probabilities of the classes."""
        probabilities: Floats = scipy.special.softmax(score, axis=1)
        return probabilities

    def curved(self, score: Floats, direction: Floats) -> Floats:
        """The covariance matrix of the classes times the direction."""
        mean = self.mean(score)
        curved: Floats = mean * (direction - (mean * direction).sum(axis=-1, keepdims=True))
        return curved

    def score_of(self, mean: Floats) -> Floats:
        """Logarithms of probabilities."""
        return np.log(np.maximum(mean, _TINY))

    def invariant(self, values: Floats) -> Floats:
        """Values minus their mean over the classes."""
        centred: Floats = values - values.mean(axis=-1, keepdims=True)
        return centred


class PoissonLoss(Loss):
    """Minus the Poisson log-likelihood of counts given the log of their mean, without the part that has no score."""

    name = "Poisson loss"

    def at(self, score: Floats, outcome: Floats) -> Floats:
        """Minus the log-likelihood."""
        loss: Floats = (np.exp(score) - outcome * score).sum(axis=1)
        return loss

    def mean(self, score: Floats) -> Floats:
        """Means."""
        means: Floats = np.exp(score)
        return means

    def curved(self, score: Floats, direction: Floats) -> Floats:
        """The direction times the mean, which is the variance of counts."""
        return np.exp(score) * direction

    def score_of(self, mean: Floats) -> Floats:
        """The logarithm."""
        return np.log(np.maximum(mean, _TINY))


def loss_of(schema: Schema) -> Loss:
    """The loss that belongs to a model's link."""
    losses: dict[str, Loss] = {
        "identity": SquaredLoss(),
        "probability": SquaredLoss("Brier score"),
        "logit": LogLoss(),
        "softmax": MulticlassLogLoss(),
        "log": PoissonLoss(),
    }
    if schema.link not in losses:
        raise ValueError(
            f"validate() must know the loss of the model's link ({', '.join(losses)}), got the link {schema.link!r}; "
            "compute a loss of your own from fx.explain(X)."
        )
    return losses[schema.link]


def groups_of_outputs(schema: Schema) -> list[list[int]]:
    """Outputs that are judged together: the classes of one outcome; else each target by itself."""
    n_outputs = len(schema.outputs)
    is_one_outcome = is_classifier(schema) and (schema.link != "logit" or bool(schema.classes))
    return [list(range(n_outputs))] if is_one_outcome else [[k] for k in range(n_outputs)]


# The outcome.


def outcome_of(schema: Schema, y: Any, n_rows: int) -> Floats:
    """The outcome as numbers of shape (n_rows, n_outputs): targets, or 1 for the class of a row and 0 for others."""
    values = _as_array(y)
    if len(values) != n_rows:
        raise ValueError(f"`y` must have one entry per row of `X`, {n_rows}, got {len(values)}; pass the same rows.")
    n_outputs = len(schema.outputs)
    labelled = is_classifier(schema) and (n_outputs == 1 or schema.link != "logit" or bool(schema.classes))
    if labelled:
        return _indicators(_single_column(values), _labels(schema), n_outputs)
    outcome = _numbers(values.reshape(n_rows, -1))
    if outcome.shape[1] != n_outputs:
        raise ValueError(
            f"`y` must have {n_outputs} columns, one for each output of the model, got {outcome.shape[1]}."
        )
    _check_range(outcome, schema)
    return outcome


def _as_array(y: Any) -> npt.NDArray[Any]:
    values = y.to_numpy() if hasattr(y, "to_numpy") else np.asarray(y)
    if values.ndim not in (1, 2):
        raise ValueError(f"`y` must have one or two axes, got {values.ndim}; pass a column.")
    return np.asarray(values)


def _single_column(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(f"`y` must be one column of labels, got {values.shape[1]} columns; pass y of shape (n_rows,).")
    return values.ravel()


def _labels(schema: Schema) -> Sequence[Hashable]:
    return schema.classes or tuple(range(max(len(schema.outputs), 2)))


def _indicators(values: npt.NDArray[Any], labels: Sequence[Hashable], n_outputs: int) -> Floats:
    """1 for the class of each row; a single output is for the second class."""
    given = values.tolist()
    missing = sum(map(is_missing, given))
    if missing:
        raise ValueError(f"`y` must have no missing values, got {missing} in {len(given)} rows; leave these rows out.")
    places = {label: place for place, label in enumerate(labels)}
    unknown = sorted({str(value) for value in given if value not in places})
    if unknown:
        raise ValueError(
            f"`y` must hold the classes of the model, {_listed(map(repr, labels))}, got {_listed(unknown)}; use the "
            "labels that the model was trained with."
        )
    positions = np.array([places[value] for value in given])
    if len(np.unique(positions)) < 2:
        raise ValueError(
            f"`y` must hold at least two classes, got {given[0]!r} in all {len(given)} rows; add rows of other classes."
        )
    columns = np.arange(n_outputs) if n_outputs > 1 else np.ones(1)
    indicators: Floats = (positions[:, None] == columns).astype(np.float64)
    return indicators


def _listed(labels: Any) -> str:
    known = list(labels)
    return ", ".join(known[:_SHOWN_LABELS]) + (", …" if len(known) > _SHOWN_LABELS else "")


def _numbers(values: npt.NDArray[Any]) -> Floats:
    try:
        outcome = values.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`y` must hold numbers, got {values.ravel().tolist()[0]!r}; convert it as for training."
        ) from None
    bad = int((~np.isfinite(outcome)).sum())
    if bad:
        raise ValueError(f"`y` must be finite, got {bad} missing or infinite values; leave these rows out.")
    constant = np.ptp(outcome, axis=0) == 0
    if constant.any():
        raise ValueError(
            f"`y` must vary, got {outcome[0, constant.argmax()]:.6g} in all {len(outcome)} rows; pass other rows."
        )
    return outcome


def _check_range(outcome: Floats, schema: Schema) -> None:
    """Raise ValueError for outcomes that the link cannot have."""
    low, high = float(outcome.min()), float(outcome.max())
    if schema.link == "log" and low < 0:
        raise ValueError(f"`y` must not be negative for a model with the link 'log', got {low:.6g}; check the outcome.")
    if schema.link == "logit" and (low < 0 or high > 1):
        got = f"{low if low < 0 else high:.6g}"
        raise ValueError(
            f"`y` must be between 0 and 1 for a model with the link 'logit', got {got}; check the outcome."
        )
