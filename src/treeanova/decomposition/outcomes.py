"""The outcome of held-out rows: which loss judges the scores, and `y` as the numbers that it compares with them."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema, is_missing
from treeanova.decomposition.losses import FunctionLoss, Loss, MulticlassLogLoss, RowLoss, loss_names, named_losses

_SHOWN_LABELS = 6
_TRANSFORMATIONS: dict[str, tuple[Callable[[Floats], Floats], float]] = {
    "log": (np.log, 0.0),
    "log1p": (np.log1p, -1.0),
    "sqrt": (lambda y: np.sign(y) * np.sqrt(np.abs(y)), -np.inf),
}


class Question(NamedTuple):
    """What is judged: outputs that have one outcome together, their loss, and the function of `y` that they predict."""

    outputs: list[int]
    loss: Loss
    transformation: str

    @property
    def name(self) -> str:
        """The loss in words."""
        return f"{self.loss.name} of {self.transformation}(y)" if self.transformation else self.loss.name


def questions_of(schema: Schema, loss: Any) -> list[Question]:
    """What is judged by a loss of the user, or by the model's objective: the classes together, targets one by one."""
    n_outputs = len(schema.outputs)
    if callable(loss):
        return [Question(list(range(n_outputs)), FunctionLoss(loss), "")]
    text, transformation = _stated(schema, loss)
    losses = named_losses(text, n_outputs)
    if losses is None:
        raise _unknown(schema, loss)
    if losses[0].outcome == "labels" and n_outputs > 1 and (_excludes(losses[0]) or schema.classes):
        return [Question(list(range(n_outputs)), losses[0], transformation)]
    return [Question([k], one, transformation) for k, one in enumerate(losses)]


def _stated(schema: Schema, loss: Any) -> tuple[str, str]:
    """The name of a loss, and that of the function of `y` that scores are compared with."""
    if loss is not None and not isinstance(loss, str):
        kind = type(loss).__name__
        raise TypeError(f"`loss` must be a name or a function of scores and outcomes, got {kind}; or leave it out.")
    text, _, transformation = (schema.objective if loss is None else loss).partition(" of ")
    if transformation and transformation not in _TRANSFORMATIONS:
        raise _unknown(schema, loss)
    return text, transformation


def _unknown(schema: Schema, loss: Any) -> ValueError:
    names = ", ".join(loss_names())
    if loss is not None:
        return ValueError(f"`loss` must be one of {names}, or a function of scores and outcomes, got {loss!r}.")
    stated = f"the objective {schema.objective!r}" if schema.objective else "a model that does not state its objective"
    return ValueError(
        f"validate() must know the loss that the model was trained to minimise, got {stated}; pass `loss`, one of "
        f"{names}, or a function of scores and outcomes that returns the loss of each row."
    )


def _excludes(loss: Loss) -> bool:
    """Whether a loss is of classes that exclude each other."""
    return isinstance(loss, MulticlassLogLoss) or loss.name == "Brier score"


# The outcome as numbers.


def outcome_of(schema: Schema, question: Question, y: Any, n_rows: int, chosen: Any = slice(None)) -> Any:
    """The outcome of a question at the chosen rows of `X`; a function of the user sees `y` as an array."""
    values = _as_array(y)
    if len(values) != n_rows:
        raise ValueError(f"`y` must have one entry per row of `X`, {n_rows}, got {len(values)}; pass the same rows.")
    values = values[chosen]
    kind = question.loss.outcome
    if kind == "anything":
        return values
    if kind == "labels" and _has_labels(schema, question):
        return _indicators(_single_column(values), _labels(schema), len(schema.outputs))
    if kind == "intervals":
        return _intervals(values)
    outcome = _columns(schema, question, _numbers(values.reshape(len(values), -1)))
    if question.transformation:
        outcome = _transformed(outcome, question.transformation)
    _check(outcome, question.loss)
    return outcome


def _has_labels(schema: Schema, question: Question) -> bool:
    """Whether `y` holds labels of classes; else it holds 0, 1 or shares, a column per output."""
    return not schema.predicts_share and (bool(schema.classes) or len(question.outputs) > 1)


def _columns(schema: Schema, question: Question, outcome: Floats) -> Floats:
    """The columns of the question's outputs; several quantiles are of one column."""
    n_outputs = len(schema.outputs)
    if outcome.shape[1] == 1 and n_outputs > 1 and question.loss.name.startswith("pinball"):
        return outcome
    if outcome.shape[1] != n_outputs:
        raise ValueError(
            f"`y` must have {n_outputs} columns, one for each output of the model, got {outcome.shape[1]}."
        )
    return outcome[:, question.outputs]


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


def _as_numbers(values: npt.NDArray[Any]) -> Floats:
    try:
        return values.astype(np.float64)
    except (TypeError, ValueError):
        raise TypeError(
            f"`y` must hold numbers, got {values.ravel().tolist()[0]!r}; convert it as for training."
        ) from None


def _numbers(values: npt.NDArray[Any]) -> Floats:
    outcome = _as_numbers(values)
    bad = int((~np.isfinite(outcome)).sum())
    if bad:
        raise ValueError(f"`y` must be finite, got {bad} missing or infinite values; leave these rows out.")
    constant = np.ptp(outcome, axis=0) == 0
    if constant.any():
        raise ValueError(
            f"`y` must vary, got {outcome[0, constant.argmax()]:.6g} in all {len(outcome)} rows; pass other rows."
        )
    return outcome


def _transformed(outcome: Floats, name: str) -> Floats:
    function, above = _TRANSFORMATIONS[name]
    low = float(outcome.min())
    if not low > above:
        raise ValueError(
            f"`y` must be above {above:g} for a model that was trained on {name}(y), got {low:.6g}; pass it as to fit."
        )
    return function(outcome)


def _check(outcome: Floats, loss: Loss) -> None:
    if loss.outcome == "times" and not (outcome > 0).any():
        raise ValueError(
            "`y` must have events, times above zero, got censored times only; a time is negative if censored."
        )
    if loss.outcome == "times" and (outcome == 0).any():
        raise ValueError("`y` must have times above zero, or below if they are censored, got 0; leave these rows out.")
    if isinstance(loss, RowLoss):
        loss.check(outcome)


def _intervals(values: npt.NDArray[Any]) -> Floats:
    """Lower and upper ends of survival times; one column holds times that are known."""
    columns = _as_numbers(values.reshape(len(values), -1))
    if columns.shape[1] > 2:
        raise ValueError(f"`y` must have two columns, lower and upper ends of times, got {columns.shape[1]}.")
    low, high = columns[:, 0], columns[:, -1].copy()
    high[high == -1] = np.inf  # as CatBoost has it
    bad = ~((low >= 0) & (high >= low) & (high > 0) & np.isfinite(low))
    if bad.any():
        row = int(bad.argmax())
        raise ValueError(
            f"`y` must have a lower end of each time, 0 or above, and an upper end not below it, got {low[row]:g} and "
            f"{high[row]:g}; an upper end that is not known is infinite."
        )
    return np.stack([low, high], axis=1)
