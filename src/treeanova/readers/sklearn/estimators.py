"""What estimators of scikit-learn have in common: names of features, outputs, links, and who defines their methods."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np

from treeanova.data.features import Feature, Numeric, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.readers.outputs import objective_text, plain_labels

_LINKS = {"IdentityLink": "identity", "LogLink": "log", "LogitLink": "logit", "MultinomialLogit": "softmax"}

_OBJECTIVES = {"squared_error": "squared", "absolute_error": "absolute"}


def is_sklearn(item: Any) -> bool:
    """Whether a class or a method is defined in scikit-learn."""
    return str(item.__module__).partition(".")[0] == "sklearn"


def check_methods(model: Any) -> None:
    """Raise UnsupportedModelError for a subclass that overrides how it predicts."""
    for name in ("predict", "predict_proba", "decision_function"):
        method = getattr(type(model), name, None)
        if method is not None and not is_sklearn(method):
            raise UnsupportedModelError(
                f"{type(model).__name__} cannot be read: it overrides `{name}`; add a reader with register_reader()."
            )


def feature_names(model: Any) -> tuple[list[str], bool]:
    """Names of the features, and whether the model stores them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(model.n_features_in_)], False
    return [str(name) for name in names], True


def numeric_schema(model: Any, outputs: tuple[str, ...], link: str, *, accepts_missing: bool, objective: str) -> Schema:
    """The schema of a model all of whose features are numbers."""
    names, named = feature_names(model)
    features = tuple(Feature(name, Numeric(), accepts_missing=accepts_missing) for name in names)
    return Schema(features, outputs, link, named, classes=class_labels(model), objective=objective)


def class_outputs(model: Any) -> tuple[str, ...]:
    """One output per class, a single one for two classes."""
    if isinstance(model.classes_, list):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be read: it predicts several targets; fit one classifier for each."
        )
    if len(model.classes_) == 1:
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: it was trained on one class only.")
    return ("score",) if len(model.classes_) == 2 else tuple(str(label) for label in model.classes_.tolist())


def class_labels(model: Any) -> tuple[Hashable, ...]:
    """Labels of a classifier's classes; none for a regressor."""
    return plain_labels(getattr(model, "classes_", ()))


def boosted_outputs(model: Any) -> tuple[str, ...]:
    """One output for regressors and two classes, else one per class."""
    return class_outputs(model) if hasattr(model, "classes_") else ("score",)


def loss_link(model: Any) -> str:
    """Link of a boosted model's loss; "other" for the exponential loss, whose link is half the log-odds."""
    return _LINKS.get(type(model._loss.link).__name__, "other")  # noqa: SLF001  predict uses it


def loss_objective(model: Any) -> str:
    """The loss of a boosted model in the words of `validate(loss=...)`."""
    loss = model.loss if isinstance(model.loss, str) else type(model.loss).__name__
    if loss == "log_loss":
        return "log" if len(model.classes_) == 2 else "multiclass"
    if loss == "quantile":
        return objective_text("pinball", model.quantile if hasattr(model, "quantile") else model.alpha)
    if loss == "huber":
        return objective_text("huber", model._loss.closs.delta)  # noqa: SLF001  that of the last tree
    return _OBJECTIVES.get(loss, loss)


def accepts_missing(tree: Any) -> bool:
    """Whether a tree predicts for missing values."""
    return bool(tree._support_missing_values(np.empty((0, 0))))  # noqa: SLF001  predict asks the same
