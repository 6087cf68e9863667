"""Reads fitted estimators of scikit-learn."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers import versions
from treeanova.readers.sklearn.estimators import check_methods, is_sklearn
from treeanova.readers.sklearn.histogram import read_histogram_boosting
from treeanova.readers.sklearn.trees import read_adaboost, read_bagging, read_boosting, read_forest, read_tree

_REFUSED = {
    "AdaBoostRegressor": "its prediction is a weighted median of trees, not a sum; AdaBoostClassifier can be read",
    "IsolationForest": "its score is a power of the mean path length, not a sum over leaves",
    "RandomTreesEmbedding": "it predicts nothing, it only encodes leaves",
}
# How each class is read, and an attribute that it has after training.
_READERS: dict[str, tuple[Callable[[Any], Forest], str]] = {
    "DecisionTreeRegressor": (read_tree, "tree_"),
    "DecisionTreeClassifier": (read_tree, "tree_"),
    "RandomForestRegressor": (read_forest, "estimators_"),
    "RandomForestClassifier": (read_forest, "estimators_"),
    "ExtraTreesRegressor": (read_forest, "estimators_"),
    "ExtraTreesClassifier": (read_forest, "estimators_"),
    "BaggingRegressor": (read_bagging, "estimators_"),
    "BaggingClassifier": (read_bagging, "estimators_"),
    "GradientBoostingRegressor": (read_boosting, "estimators_"),
    "GradientBoostingClassifier": (read_boosting, "estimators_"),
    "AdaBoostClassifier": (read_adaboost, "estimators_"),
    "HistGradientBoostingRegressor": (read_histogram_boosting, "_predictors"),
    "HistGradientBoostingClassifier": (read_histogram_boosting, "_predictors"),
}


def read(model: Any) -> Forest:
    """The Forest of a fitted estimator; its score is the estimator's raw prediction."""
    names = [cls.__name__ for cls in type(model).__mro__ if is_sklearn(cls)]
    kind = next((name for name in names if name in _READERS or name in _REFUSED), None)
    if kind is None or kind in _REFUSED:
        reason = _REFUSED.get(kind or "", "it is not one of " + ", ".join(sorted(_READERS)))
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: {reason}.")
    check_methods(model)
    read_kind, evidence = _READERS[kind]
    if not hasattr(model, evidence):
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read before training; fit it first.")
    return versions.read_live(
        "sklearn",
        lambda: read_kind(model),
        lambda forest: functools.partial(versions.estimator_score, model, forest),
    )
