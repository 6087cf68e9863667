"""Held-out rows with their outcome: the loss, its mean, its change with an error, its derivatives.

Rows of most losses are independent. Rows of Cox's partial likelihood share risk sets, and ranked rows are compared
within groups: their standard errors add up the contributions of rows, or of groups.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.sparse
import scipy.special

from treeanova.core.arrays import Floats, Ints, check_unmasked
from treeanova.data.features import Schema, is_missing
from treeanova.decomposition.losses import (
    LOSS_NAMES,
    LogLoss,
    Loss,
    MulticlassLogLoss,
    PinballLoss,
    UserLoss,
    check_link,
    named_losses,
)
from treeanova.views import first_texts

# functions of `y` that models are trained on, each with a bound that `y` must be above
_TRANSFORMATIONS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "log": (np.log, 0.0),
    "log1p": (np.log1p, -1.0),
    "sqrt": (lambda y: np.sign(y) * np.sqrt(np.abs(y)), -np.inf),
}


class Question(NamedTuple):
    """Outputs with a common outcome, their loss, and the function of `y` that they predict."""

    outputs: list[int]
    loss: Loss
    transformation: str

    @property
    def name(self) -> str:
        """The loss in words, such as "squared error of log(y)"."""
        return f"{self.loss.name} of {self.transformation}(y)" if self.transformation else self.loss.name


def questions_of(schema: Schema, loss: Any) -> list[Question]:
    """Return outputs with the loss that judges them, `loss` or the model's objective: classes together, targets not."""
    n_outputs = len(schema.outputs)
    if callable(loss):
        return [Question(list(range(n_outputs)), UserLoss(loss), "")]
    if loss is not None and not isinstance(loss, str):
        kind = type(loss).__name__
        raise TypeError(f"`loss` must be a name or a function of scores and outcomes, got {kind}; or leave it out.")
    text, _, transformation = (schema.objective if loss is None else loss).partition(" of ")
    losses = named_losses(text, n_outputs)
    if losses is None or (transformation and transformation not in _TRANSFORMATIONS):
        raise _error_of_unknown_loss(schema, loss)
    if loss is not None and loss != schema.objective:
        check_link(loss, schema.link)
    if isinstance(losses[0], MulticlassLogLoss) and n_outputs < 2:
        raise ValueError("`loss` must be a loss of one score, got 'multiclass' for one output; 'log' takes log-odds.")
    is_exclusive = isinstance(losses[0], MulticlassLogLoss) or losses[0].name == "Brier score"
    if losses[0].outcome == "labels" and n_outputs > 1 and (is_exclusive or schema.classes):
        return [Question(list(range(n_outputs)), losses[0], transformation)]
    return [Question([k], loss_of_output, transformation) for k, loss_of_output in enumerate(losses)]


def notes_on_scale(schema: Schema, loss: Any) -> list[str]:
    """Say that a named loss takes scores of another scale than the model's stated objective, whose link is identity."""
    if not isinstance(loss, str) or schema.link != "identity" or " of " in f"{loss}{schema.objective}":
        return []
    requested, stated = (named_losses(text, len(schema.outputs)) for text in (loss, schema.objective))
    if requested is None or stated is None or requested[0].is_on_scale or not stated[0].is_on_scale:
        return []
    if requested[0].outcome in {"grades", "times"}:  # ranks, which have no scale
        return []
    scale = f"the model states {stated[0].name}, so its scores seem to be on the scale of the outcome"
    return [f"{scale}; {requested[0].name} takes them for log-odds or logarithms"]


def _error_of_unknown_loss(schema: Schema, loss: Any) -> ValueError:
    """Return the error, to be raised, for a loss or, without one, an objective that is not known."""
    names = ", ".join(LOSS_NAMES)
    if loss is not None:
        return ValueError(f"`loss` must be one of {names}, or a function of scores and outcomes, got {loss!r}.")
    stated = f"the objective {schema.objective!r}" if schema.objective else "a model that does not state its objective"
    return ValueError(
        f"TreeANOVA must know the loss that the model was trained to minimise, got {stated}; pass `loss`, one of "
        f"{names}, or a function of scores and outcomes that returns the loss of each row."
    )


def outcome_of(schema: Schema, question: Question, y: Any, n_rows: int, is_counted: Any = slice(None)) -> Any:
    """Return a question's outcome at rows that count, from `y` with `n_rows` entries: mostly (n_rows, n_outputs).

    Intervals have two columns, lower and upper ends of times. A user's function gets `y` as an array.
    """
    values = np.asarray(y)
    if values.ndim not in (1, 2):
        raise ValueError(f"`y` must have one or two axes, got {values.ndim}; pass a column.")
    if len(values) != n_rows:
        raise ValueError(f"`y` must have one entry per row of `X`, {n_rows}, got {len(values)}; pass the same rows.")
    check_unmasked("y", y[is_counted] if isinstance(y, np.ma.MaskedArray) else y)
    values = values[is_counted]
    kind = question.loss.outcome
    if kind == "anything":
        return values
    has_labels = not schema.predicts_share and (bool(schema.classes) or len(question.outputs) > 1)
    if kind == "labels" and has_labels:  # rather than 0, 1 or shares in a column per output
        return _indicators(values, schema)
    if kind == "intervals":
        return _intervals(values)
    outcome = _columns_of_outputs(schema, question, _checked_numbers(values.reshape(len(values), -1)))
    if question.transformation:
        outcome = _transformed(outcome, question.transformation)
    question.loss.check(outcome)
    return outcome


def _columns_of_outputs(schema: Schema, question: Question, outcome: Floats) -> Floats:
    """Return the columns of the question's outputs; several quantiles share one column."""
    n_outputs = len(schema.outputs)
    if outcome.shape[1] == 1 and n_outputs > 1 and question.loss.name.startswith("pinball"):
        return outcome
    if outcome.shape[1] != n_outputs:
        raise ValueError(
            f"`y` must have {n_outputs} column{'s' * (n_outputs > 1)}, one for each output of the model, got "
            f"{outcome.shape[1]}; pass the same targets as for training."
        )
    return outcome[:, question.outputs]


def _indicators(values: npt.NDArray[Any], schema: Schema) -> Floats:
    """Return 1 for a row's class and 0 for others, shape (n_rows, n_outputs); one output is for the second class."""
    if values.ndim == 2 and values.shape[1] != 1:
        raise ValueError(f"`y` must be one column of labels, got {values.shape[1]} columns; pass y of shape (n_rows,).")
    n_outputs, outcomes = len(schema.outputs), values.ravel().tolist()
    labels: Sequence[Hashable] = schema.classes or tuple(range(max(n_outputs, 2)))
    missing = sum(map(is_missing, outcomes))
    if missing:
        raise ValueError(
            f"`y` must have no missing values, got {missing} in {len(outcomes)} rows; leave these rows out."
        )
    positions = {label: position for position, label in enumerate(labels)}
    unknown = sorted({repr(value) for value in outcomes if value not in positions})
    if unknown:
        raise ValueError(
            f"`y` must hold the classes of the model, {first_texts(map(repr, labels))}, got {first_texts(unknown)}; "
            "use the labels that the model was trained with."
        )
    classes = np.array([positions[value] for value in outcomes])
    if len(np.unique(classes)) < 2:
        raise ValueError(
            f"`y` must hold at least two classes, got {outcomes[0]!r} in all {len(outcomes)} rows; add rows of other "
            "classes."
        )
    columns = np.arange(n_outputs) if n_outputs > 1 else np.ones(1)
    return np.asarray(classes[:, None] == columns, dtype=np.float64)


def _as_floats(values: npt.NDArray[Any]) -> Floats:
    """Convert an outcome; raise TypeError if it does not hold numbers."""
    if values.dtype.kind in "cmM":
        raise TypeError(f"`y` must hold real numbers, got {values.dtype}; convert it as for training.")
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`y` must hold numbers, got {values.ravel().tolist()[0]!r}; convert it as for training."
        ) from None


def _checked_numbers(values: npt.NDArray[Any]) -> Floats:
    """Return an outcome (n_rows, n_columns) as floats; raise ValueError if it is not finite or a column is constant."""
    outcome = _as_floats(values)
    n_bad = int((~np.isfinite(outcome)).sum())
    if n_bad:
        raise ValueError(f"`y` must be finite, got {n_bad} missing or infinite values; leave these rows out.")
    constant = np.ptp(outcome, axis=0) == 0
    if constant.any():
        raise ValueError(
            f"`y` must vary, got {outcome[0, constant.argmax()]:.6g} in all {len(outcome)} rows; pass other rows."
        )
    return outcome


def _transformed(outcome: Floats, name: str) -> Floats:
    """Apply a transformation, given by name; raise ValueError if it is not defined for an outcome."""
    function, bound = _TRANSFORMATIONS[name]
    low = float(outcome.min())
    if not low > bound:
        raise ValueError(
            f"`y` must be above {bound:g} for a model that was trained on {name}(y), got {low:.6g}; pass it as to fit."
        )
    return function(outcome)


def _intervals(values: npt.NDArray[Any]) -> Floats:
    """Return lower and upper ends of survival times, (n_rows, 2); a single column holds exact times."""
    columns = _as_floats(values.reshape(len(values), -1))
    if columns.shape[1] > 2:
        raise ValueError(f"`y` must have two columns, lower and upper ends of times, got {columns.shape[1]}.")
    low, high = columns[:, 0], columns[:, -1].copy()
    high[high == -1] = np.inf  # as CatBoost has it
    is_bad = ~((low >= 0) & (high >= low) & (high > 0) & np.isfinite(low))
    if is_bad.any():
        row = int(is_bad.argmax())
        raise ValueError(
            f"`y` must have a lower end of each time, 0 or above, and an upper end not below it, got {low[row]:g} and "
            f"{high[row]:g}; an upper end that is not known is infinite."
        )
    return np.stack([low, high], axis=1)


_HIGHEST_LEVERAGE = 0.9
_MOST_PAIRS = 30_000_000


class HeldOut(abc.ABC):
    """Held-out rows of one outcome: scores are (n_rows, n_outputs), weights of rows have mean 1.

    `n_units` counts independent observations: rows, events or groups. `has_constant`: adding a constant to all scores
    changes the loss. Derivatives are those of the sum of all losses.
    """

    loss: Loss
    score: Floats
    row_weights: Floats
    n_units: int
    has_constant: bool = True

    def __init__(self, loss: Loss, score: Floats, weights: Floats, n_units: int) -> None:
        self.loss, self.score, self.row_weights, self.n_units = loss, score, weights, n_units

    @property
    def is_differentiable(self) -> bool:
        """Whether the loss has derivatives: all but a user's function."""
        return self.loss.outcome != "anything"

    @property
    def can_be_certain(self) -> bool:
        """Whether the loss is flat at scores that make a class certain: such rows say nothing about coefficients."""
        return isinstance(self.loss, LogLoss | MulticlassLogLoss)

    def n_informative(self, score: Floats) -> float:
        """Return the number of units that say as much as the most uncertain one."""
        if not self.can_be_certain:
            return self.n_units
        class_scores = np.concatenate([np.zeros_like(score), score], axis=1) if score.shape[1] == 1 else score
        probabilities = scipy.special.softmax(class_scores, axis=1)
        spread = (probabilities * (1 - probabilities)).sum(axis=1) / (1 - 1 / probabilities.shape[1])
        return float(self.row_weights @ spread)

    @abc.abstractmethod
    def mean_loss(self, score: Floats) -> float:
        """Return the weighted mean loss of all units."""

    @abc.abstractmethod
    def loss_change(self, other_score: Floats) -> tuple[float, float]:
        """Return the mean loss of another score minus that of the model, and its standard error."""

    @abc.abstractmethod
    def constant_loss(self) -> float:
        """Return the mean loss of the best constant score; NaN if unknown."""

    @abc.abstractmethod
    def gradient(self, score: Floats) -> Floats:
        """Return the derivative with respect to the scores, in their shape."""

    @abc.abstractmethod
    def second_derivative_times(self, score: Floats, columns: Floats) -> Floats:
        """Apply the second derivative to columns of shape (n_columns, n_rows, n_outputs)."""

    @abc.abstractmethod
    def derivative_by_unit(self, score: Floats, direction: Floats, shrinkage: Any) -> Floats:
        """Return each unit's part of the derivative along a direction, shaped like scores, with shrinkage undone."""

    def shrinkage(self, score: Floats, columns: Floats, curved: Floats, inverse: Floats) -> Any:
        """Return 1 minus the leverage of each row: how much a regression on columns shrinks its residual.

        `curved` are the columns, (n_columns, n_rows, n_outputs), times the second derivative of the loss; `inverse` is
        that of the normal equations.
        """
        hat = np.einsum("cnk,cnk->n", np.tensordot(inverse, columns, axes=1), curved)
        n_free = max(score.shape[1] - 1, 1)
        return 1 - np.minimum(hat / n_free, _HIGHEST_LEVERAGE)


def held_out(
    question: Question, score: Floats, outcome: Any, weights: Floats, group: npt.NDArray[Any] | None
) -> HeldOut:
    """Return rows with the loss of a question: independent rows, those of Cox's likelihood, or ranked within groups."""
    loss = question.loss
    if loss.outcome == "times":
        return CoxRows(loss, score, outcome[:, 0], weights)
    if loss.outcome != "grades":
        return LossRows(loss, score, outcome, weights)
    if group is None:
        raise ValueError(
            "`group` must name the group of each row (its query) to judge a ranking, got none; rows are compared "
            "within groups."
        )
    n_missing = sum(map(is_missing, group.tolist()))
    if n_missing:
        raise ValueError(
            f"`group` must be known for all rows, got {n_missing} of {len(group)} missing; leave them out."
        )
    group_index = np.unique(group.astype(str) if group.dtype == object else group, return_inverse=True)[1]
    return RankedRows(loss, score, outcome[:, 0], weights, group_index)


def mean_and_error(numbers: Floats, weights: Floats) -> tuple[float, float]:
    """Return the weighted mean of independent numbers, and its standard error; weights have mean 1."""
    n, mean = len(numbers), float(np.average(numbers, weights=weights))
    deviations = weights * (numbers - mean)
    return mean, float(np.sqrt((deviations**2).sum() / (n * max(n - 1, 1))))


class LossRows(HeldOut):
    """Independent rows, whose losses are added up."""

    def __init__(self, loss: Loss, score: Floats, outcome: Any, weights: Floats) -> None:
        super().__init__(loss, score, weights, len(score))
        self.outcome: Any = outcome

    @property
    def is_kinked(self) -> bool:
        """Whether the loss, that of a quantile, has a kink instead of a second derivative."""
        return isinstance(self.loss, PinballLoss)

    def smooth(self) -> LossRows:
        """Return the rows with a loss that has two derivatives."""
        return LossRows(self.loss.smooth(self.score, self.outcome), self.score, self.outcome, self.row_weights)

    def mean_loss(self, score: Floats) -> float:
        return float(np.average(self.loss.per_row(score, self.outcome), weights=self.row_weights))

    def loss_change(self, other_score: Floats) -> tuple[float, float]:
        losses, other_losses = (self.loss.per_row(score, self.outcome) for score in (self.score, other_score))
        return mean_and_error(other_losses - losses, self.row_weights)

    def constant_loss(self) -> float:
        """Return the mean loss of the best constant; NaN for a function of the user."""
        if not self.is_differentiable:
            return np.nan
        constant = self.loss.best_constant(self.outcome, self.row_weights)
        return self.mean_loss(np.broadcast_to(constant, self.score.shape))

    def gradient(self, score: Floats) -> Floats:
        return self.row_weights[:, None] * self.loss.gradient(score, self.outcome)

    def second_derivative_times(self, score: Floats, columns: Floats) -> Floats:
        return self.row_weights[:, None] * self.loss.second_derivative_times(score, self.outcome, columns)

    def shrinkage(self, score: Floats, columns: Floats, curved: Floats, inverse: Floats) -> Floats:
        shrinkage: Floats = super().shrinkage(score, columns, curved, inverse)
        return np.sqrt(shrinkage) if self.is_kinked else shrinkage

    def derivative_by_unit(self, score: Floats, direction: Floats, shrinkage: Any) -> Floats:
        return np.asarray((self.gradient(score) * direction).sum(axis=1) / shrinkage)


class CoxRows(HeldOut):
    """Cox's partial likelihood: times, negative if censored; Breslow ties, like XGBoost.

    The loss is the mean over events of log(sum of exp(score) over all at risk) - score. Private arrays are in the order
    of times; `_first` and `_last` are the positions of the first and the last row with the time of each row.
    """

    has_constant = False

    def __init__(self, loss: Loss, score: Floats, times: Floats, weights: Floats) -> None:
        super().__init__(loss, score, weights, int((times > 0).sum()))
        self._order = np.argsort(np.abs(times), kind="stable")
        sorted_times = np.abs(times)[self._order]
        self._weights = weights[self._order]
        self._events = self._weights * (times[self._order] > 0)  # weights of rows with an event, 0 of censored rows
        self._first = np.searchsorted(sorted_times, sorted_times, side="left")
        self._last = np.searchsorted(sorted_times, sorted_times, side="right") - 1

    def _log_risk(self, sorted_score: Floats) -> Floats:
        """Return log Σ exp(score) over those at risk at each row's time; all in the order of times."""
        logs = sorted_score + np.log(np.maximum(self._weights, np.finfo(np.float64).tiny))
        return np.logaddexp.accumulate(logs[::-1])[::-1][self._first]

    def _in_order_of_times(self, score: Floats) -> Floats:
        """Return scores (n_rows, 1) sorted by time, shape (n_rows,)."""
        return np.asarray(score[self._order, 0])

    def mean_loss(self, score: Floats) -> float:
        sorted_score = self._in_order_of_times(score)
        return float(self._events @ (self._log_risk(sorted_score) - sorted_score) / self._events.sum())

    def constant_loss(self) -> float:
        return self.mean_loss(np.zeros_like(self.score))

    def loss_change(self, other_score: Floats) -> tuple[float, float]:
        mean = self.mean_loss(other_score) - self.mean_loss(self.score)
        influence, n = self._influence(other_score) - self._influence(self.score), len(self.score)
        return mean, float(np.sqrt((influence**2).sum() * n / (n - 1)))

    def _influence(self, score: Floats) -> Floats:
        """Return each row's contribution to the mean loss, as an event and at risk, minus the mean."""
        sorted_score = self._in_order_of_times(score)
        at_events = self._events * (self._log_risk(sorted_score) - sorted_score - self.mean_loss(score))
        return np.asarray((at_events + self._expected(sorted_score)) / self._events.sum())

    def _expected(self, sorted_score: Floats) -> Floats:
        """Return each row's expected number of events: its hazard, added up over the events while it is at risk."""
        return self._weights * self._over_risk(sorted_score, np.ones(len(sorted_score)))

    def _over_risk(self, sorted_score: Floats, values: Floats) -> Floats:
        """Sum values at the events while a row is at risk, times the row's hazard."""
        highest = sorted_score.max()
        at_events = self._events * np.exp(highest - self._log_risk(sorted_score)) * values
        return np.asarray(np.cumsum(at_events, axis=-1)[..., self._last] * np.exp(sorted_score - highest))

    def _mean_at_risk(self, sorted_score: Floats, values: Floats) -> Floats:
        """Return means of values over those at risk at each row's time, weighted by their hazards."""
        highest = sorted_score.max()
        hazards = self._weights * np.exp(sorted_score - highest)
        sums = np.cumsum((hazards * values)[..., ::-1], axis=-1)[..., ::-1][..., self._first]
        return np.asarray(sums * np.exp(highest - self._log_risk(sorted_score)))

    def _in_order_of_rows(self, sorted_values: Floats) -> Floats:
        """Undo the order of times along the last axis, and add an axis of one output."""
        values = np.empty_like(sorted_values)
        values[..., self._order] = sorted_values
        return values[..., None]

    def gradient(self, score: Floats) -> Floats:
        return self._in_order_of_rows(self._expected(self._in_order_of_times(score)) - self._events)

    def second_derivative_times(self, score: Floats, columns: Floats) -> Floats:
        sorted_score, values = self._in_order_of_times(score), columns[:, self._order, 0]
        means = self._mean_at_risk(sorted_score, values)
        spread = self._expected(sorted_score) * values - self._weights * self._over_risk(sorted_score, means)
        return self._in_order_of_rows(spread)

    def shrinkage(self, score: Floats, columns: Floats, curved: Floats, inverse: Floats) -> Floats:
        return np.asarray(np.sqrt(super().shrinkage(score, columns, curved, inverse)))

    def derivative_by_unit(self, score: Floats, direction: Floats, shrinkage: Any) -> Floats:
        """Return each row's contribution to the derivative along a direction, at risk and as an event, by time."""
        sorted_score, values = self._in_order_of_times(score), direction[self._order, 0]
        means = self._mean_at_risk(sorted_score, values)
        at_risk = self._expected(sorted_score) * values - self._weights * self._over_risk(sorted_score, means)
        return np.asarray((at_risk - self._events * (values - means)) / shrinkage[self._order])


class RankedRows(HeldOut):
    """Pairwise logistic loss of rows with different grades within groups.

    The loss is the mean over groups of the mean over their pairs, whose rows are `_better` and `_worse`.
    """

    has_constant = False

    def __init__(self, loss: Loss, score: Floats, grades: Floats, weights: Floats, group_index: Ints) -> None:
        self._better, self._worse = _pairs(grades, group_index)
        groups, self._group_of_pair = np.unique(group_index[self._better], return_inverse=True)  # those with pairs
        super().__init__(loss, score, weights, len(groups))
        group_weights = weights[np.unique(group_index, return_index=True)[1]]
        if not np.array_equal(group_weights[group_index], weights):
            raise ValueError("`sample_weight` must be the same for all rows of a group, got others; weigh groups.")
        self._weights = group_weights[groups] / group_weights[groups].mean()
        self._weight_of_pair = (self._weights / np.bincount(self._group_of_pair))[self._group_of_pair]
        self._rows_by_group = [np.flatnonzero(group_index == group) for group in groups]

    def _losses_of_groups(self, score: Floats) -> Floats:
        """Return the mean loss of the pairs of each group, shape (n_groups,)."""
        losses = np.logaddexp(0, score[self._worse, 0] - score[self._better, 0])
        return np.bincount(self._group_of_pair, losses) / np.bincount(self._group_of_pair)

    def mean_loss(self, score: Floats) -> float:
        return float(np.average(self._losses_of_groups(score), weights=self._weights))

    def loss_change(self, other_score: Floats) -> tuple[float, float]:
        return mean_and_error(self._losses_of_groups(other_score) - self._losses_of_groups(self.score), self._weights)

    def constant_loss(self) -> float:
        return float(np.log(2))  # of pairs of equal scores

    def gradient(self, score: Floats) -> Floats:
        slopes = self._weight_of_pair * scipy.special.expit(score[self._worse, 0] - score[self._better, 0])
        as_worse, as_better = (np.bincount(rows, slopes, len(score)) for rows in (self._worse, self._better))
        return np.asarray((as_worse - as_better)[:, None], dtype=np.float64)

    def _laplacian(self, score: Floats) -> Any:
        """Return the second derivative of the loss, (n_rows, n_rows): the Laplacian of a graph with pairs as edges."""
        gap = score[self._better, 0] - score[self._worse, 0]
        curvatures = self._weight_of_pair * scipy.special.expit(gap) * scipy.special.expit(-gap)
        upper = scipy.sparse.coo_array((curvatures, (self._better, self._worse)), shape=(len(score),) * 2).tocsr()
        edges = upper + upper.T
        return (scipy.sparse.diags_array(edges.sum(axis=1)) - edges).tocsr()

    def second_derivative_times(self, score: Floats, columns: Floats) -> Floats:
        return np.asarray((self._laplacian(score) @ columns[..., 0].T).T)[..., None]

    def shrinkage(self, score: Floats, columns: Floats, curved: Floats, inverse: Floats) -> list[Floats]:  # noqa: ARG002
        """Return a matrix per group, which undoes the shrinkage of its residuals by a regression."""
        laplacian, flat = self._laplacian(score), columns[..., 0]
        matrices = []
        for rows in self._rows_by_group:
            columns_of_group = flat[:, rows]
            hat = laplacian[rows][:, rows] @ (columns_of_group.T @ inverse @ columns_of_group)
            matrices.append(np.linalg.pinv(np.eye(len(rows)) - hat))
        return matrices

    def derivative_by_unit(self, score: Floats, direction: Floats, shrinkage: Any) -> Floats:
        """Return the derivative of each group's loss along a direction; `shrinkage` has a matrix per group."""
        slopes, along = self.gradient(score)[:, 0], direction[:, 0]
        pairs = zip(self._rows_by_group, shrinkage, strict=True)
        return np.array([along[rows] @ matrix @ slopes[rows] for rows, matrix in pairs])


def _pairs(grades: Floats, group_index: Ints) -> tuple[Ints, Ints]:
    """Return positions of the better and the worse row of all pairs of different grades within groups."""
    order = np.argsort(group_index, kind="stable")
    rows_by_group = np.split(order, np.flatnonzero(np.diff(group_index[order])) + 1)
    if sum(len(rows) ** 2 for rows in rows_by_group) > 2 * _MOST_PAIRS:
        raise ValueError(
            f"`group` must have at most {_MOST_PAIRS:,} pairs of rows in all groups, got more; pass fewer rows, or "
            "smaller groups."
        )
    better, worse = [], []
    for rows in rows_by_group:
        first, second = np.nonzero(grades[rows][:, None] > grades[rows])
        better.append(rows[first])
        worse.append(rows[second])
    return np.concatenate(better), np.concatenate(worse)
