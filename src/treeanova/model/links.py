"""Links: from the score to the response, probabilities and labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import scipy.special

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema


def respond(schema: Schema, score: Floats) -> Floats:
    """The response for scores of shape (n_rows, n_outputs): means, or probabilities."""
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
        f"the response of a model must follow from its score by a known link, got the link {schema.link!r}; use "
        "decision_function(), which gives the score."
    )


def class_probabilities(schema: Schema, score: Floats) -> Floats:
    """Probabilities of all classes, shape (n_rows, n_classes); a single output is for the second class."""
    if not is_classifier(schema) and schema.link != "other":
        raise ValueError(
            f"predict_proba() must have a classifier, got a model with the link {schema.link!r}; use predict()."
        )
    response = respond(schema, score)
    return np.hstack([1 - response, response]) if response.shape[1] == 1 else response


def is_classifier(schema: Schema) -> bool:
    """Whether the response is the probability of a class."""
    return not schema.predicts_share and schema.link in {"logit", "softmax", "probability"}


def class_labels(schema: Schema, score: Floats) -> npt.NDArray[Any]:
    """The most probable class of each row; if outputs are separate yes-no questions, 0 or 1 for each.

    Classes are numbered from 0 if the model stores no labels.
    """
    if schema.link == "logit" and score.shape[1] > 1 and not schema.classes:
        return (score > 0).astype(np.int64)
    positions = class_probabilities(schema, score).argmax(axis=1)
    labels = np.array(schema.classes) if schema.classes else np.arange(max(score.shape[1], 2))
    chosen: npt.NDArray[Any] = labels[positions]
    return chosen
