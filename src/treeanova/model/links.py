"""From the score to the response: what a link names."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema


def respond(schema: Schema, score: Floats) -> Floats:
    """The response of scores of shape (n_rows, n_outputs): means, or probabilities."""
    if schema.link in {"identity", "probability"}:
        return score
    if schema.link == "log":
        return np.exp(score)
    if schema.link == "logit":
        response: Floats = scipy.special.expit(score)
        return response
    if schema.link == "softmax":
        probabilities: Floats = scipy.special.softmax(score, axis=1)
        return probabilities
    raise ValueError(
        "the response of this model must follow from its score by a link that treeanova knows, got none; "
        "use decision_function(), which gives the score."
    )


def class_probabilities(schema: Schema, score: Floats) -> Floats:
    """Probabilities of all classes, shape (n_rows, n_classes); a single output is that of the second class."""
    if schema.link not in {"logit", "softmax", "probability"}:
        raise ValueError(
            f"predict_proba() must have a classifier, got a model with the link {schema.link!r}; use predict()."
        )
    response = respond(schema, score)
    return np.hstack([1 - response, response]) if response.shape[1] == 1 else response


def is_classifier(schema: Schema) -> bool:
    """Whether the response is a probability."""
    return schema.link in {"logit", "softmax", "probability"}


def class_labels(schema: Schema, score: Floats) -> npt.NDArray[Any]:
    """The most probable class of each row; 0 and 1 for each output where outputs are separate yes-no questions.

    Classes are numbered from 0 where the model keeps no labels.
    """
    if schema.link == "logit" and score.shape[1] > 1 and not schema.classes:
        return (score > 0).astype(np.int64)
    positions = class_probabilities(schema, score).argmax(axis=1)
    labels = np.array(schema.classes) if schema.classes else np.arange(max(score.shape[1], 2))
    chosen: npt.NDArray[Any] = labels[positions]
    return chosen
