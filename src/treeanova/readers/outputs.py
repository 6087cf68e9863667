"""What a model predicts: labels of a classifier's classes, and the objective that training minimised."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping

import numpy as np
import numpy.typing as npt


def plain_labels(classes: npt.ArrayLike) -> tuple[Hashable, ...]:
    """Labels as plain Python values, which can be saved: text, numbers and booleans unchanged, all others as text.

    >>> plain_labels(np.array(["no", "yes"])), plain_labels(np.array([0, 1]))
    (('no', 'yes'), (0, 1))
    """
    labels = np.asarray(classes).tolist()
    return tuple(label if isinstance(label, (str, bool, int, float)) else str(label) for label in labels)


_OF_PROBABILITIES = {"logit": "log", "softmax": "multiclass", "probability": "brier"}


def objective_text(name: str, *parameters: float | str) -> str:
    """An objective in the words of `validate(loss=...)`.

    >>> objective_text("pinball", 0.9), objective_text("aft", "normal", 1.0)
    ('pinball:0.9', 'aft:normal:1')
    """
    return ":".join([name, *(one if isinstance(one, str) else f"{one:.9g}" for one in parameters)])


def objective_among(name: str, objectives: Mapping[str, str]) -> str:
    """The objective of a library's name, from names to our words for them; the library's own name if it has none.

    >>> objective_among("MAE", {"squared": "RMSE MultiRMSE", "absolute": "MAE"})
    'absolute'
    """
    return next((ours for ours, theirs in objectives.items() if name in theirs.split()), name)


def objective_of_probabilities(link: str) -> str:
    """The objective of a classifier whose file states the link only; empty for other links.

    >>> objective_of_probabilities("logit"), objective_of_probabilities("identity")
    ('log', '')
    """
    return _OF_PROBABILITIES.get(link, "")


def common_objective(objectives: Iterable[str]) -> str:
    """The objective that all members of a model have; empty where they differ.

    >>> common_objective(["squared", "squared"]), common_objective(["squared", "absolute"])
    ('squared', '')
    """
    different = set(objectives)
    return different.pop() if len(different) == 1 else ""
