"""Outputs of models: names, which of two probabilities is kept, links and objectives in one set of words."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints

_Number = TypeVar("_Number", bound=np.generic)
_OF_PROBABILITIES = {"logit": "log", "softmax": "multiclass", "probability": "brier"}


def output_names(n_outputs: int, names: Sequence[object] = (), prefix: str = "y") -> tuple[str, ...]:
    """Return "score" for one output; else the names, if there is one for each output, or numbers after a prefix."""
    if n_outputs == 1:
        return ("score",)
    return tuple(map(str, names)) if len(names) == n_outputs else tuple(f"{prefix}{k}" for k in range(n_outputs))


def class_outputs(classes: Sequence[object]) -> tuple[str, ...]:
    """Name the outputs of a classifier: two classes have one, for the second."""
    return output_names(1 if len(classes) == 2 else len(classes), classes)


def without_first_of_two(scores: Floats) -> Floats:
    """Return scores, outputs last, of the second class only if there are two; else unchanged."""
    return scores[..., 1:] if scores.shape[-1] == 2 else scores


def in_column(values: npt.NDArray[_Number], column: Ints, n_columns: int) -> npt.NDArray[_Number]:
    """Return a matrix, (len(values), n_columns), with value i in column `column[i]` and zeros elsewhere."""
    matrix = np.zeros((len(values), n_columns), dtype=values.dtype)
    matrix[np.arange(len(values)), column] = values
    return matrix


def are_shares(leaf_values: Floats, total: float, intercept: Floats) -> bool:
    """Whether scores are probabilities: each leaf's values of all classes sum to `total`, and there is no intercept."""
    return bool(not intercept.any() and np.allclose(leaf_values.sum(axis=1), total, rtol=1e-4, atol=0))


def plain_labels(classes: npt.ArrayLike) -> tuple[Hashable, ...]:
    """Return labels as values that can be saved: text, numbers and booleans unchanged, all others as text."""
    labels = np.asarray(classes).tolist()
    return tuple(label if isinstance(label, (str, bool, int, float)) else str(label) for label in labels)


def link_and_objective(name: str, losses: Mapping[str, str]) -> tuple[str, str]:
    """Return link and objective, in our words, of the loss that a library calls `name`; else "other" and the name."""
    # `losses` maps a link, or "link objective", to the library's names, separated by spaces.
    our_words = next((words for words, names in losses.items() if name in names.split()), "other")
    link, _, objective = our_words.partition(" ")
    return link, objective or name


def objective_text(name: str, *parameters: float | str) -> str:
    """Write an objective and its parameters as in `validate(loss="pinball:0.9")`."""
    return ":".join([name, *(value if isinstance(value, str) else f"{value:.9g}" for value in parameters)])


def probability_objective(link: str) -> str:
    """Return the objective of a classifier whose file states the link only; empty for other links."""
    return _OF_PROBABILITIES.get(link, "")


def common_objective(objectives: Iterable[str]) -> str:
    """Return the objective that all models have; empty if they differ."""
    different = set(objectives)
    return different.pop() if len(different) == 1 else ""
