"""Trees of scikit-learn and the ensembles of them: forests, bagging, gradient boosting, AdaBoost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_up_to
from treeanova.readers.checks import block_starts
from treeanova.readers.sklearn.estimators import (
    accepts_missing,
    boosted_outputs,
    check_methods,
    class_outputs,
    is_sklearn,
    loss_link,
    loss_objective,
    numeric_schema,
)


def _check_trees(model: Any, trees: Sequence[Any]) -> None:
    """Raise UnsupportedModelError unless the members are trees like the ensemble, classifiers or regressors."""
    kind = "DecisionTreeClassifier" if hasattr(model, "classes_") else "DecisionTreeRegressor"
    for cls in {type(tree) for tree in trees}:
        if kind not in [base.__name__ for base in cls.__mro__ if is_sklearn(base)]:
            raise UnsupportedModelError(
                f"{type(model).__name__} cannot be read: its members must be of type {kind}, got {cls.__name__}."
            )
    check_methods(trees[0])


def _sizes(trees: Sequence[Any]) -> Ints:
    return np.array([tree.tree_.node_count for tree in trees], dtype=np.int64)


def _structure(trees: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
    """Nodes of all trees, one after the other, as arguments of `assemble`."""
    arrays = [tree.tree_ for tree in trees]
    sizes = _sizes(trees)
    roots = block_starts(sizes)
    offset = np.repeat(roots, sizes)
    left = np.concatenate([tree.children_left for tree in arrays])
    right = np.concatenate([tree.children_right for tree in arrays])
    return {
        "roots": roots,
        "feature": np.concatenate([tree.feature for tree in arrays]),
        "bound": bound_up_to(np.concatenate([tree.threshold for tree in arrays])),
        "left": np.where(left < 0, -1, left + offset),
        "right": np.where(right < 0, -1, right + offset),
        "missing_left": np.concatenate([tree.missing_go_to_left for tree in arrays]),
        "leaf_label": np.arange(len(offset)) - offset,
    }


def read_tree(model: Any) -> Forest:
    """A single tree."""
    return _average(model, [model], _structure([model]))


def read_forest(model: Any) -> Forest:
    """Random forests and extra trees."""
    return _average(model, model.estimators_, _structure(model.estimators_))


def read_bagging(model: Any) -> Forest:
    """Bagged trees, each trained on some of the columns."""
    trees = model.estimators_
    _check_trees(model, trees)
    structure = _structure(trees)
    columns = [
        np.asarray(tree_columns)[np.maximum(tree.tree_.feature, 0)]
        for tree, tree_columns in zip(trees, model.estimators_features_, strict=True)
    ]
    structure["feature"] = np.concatenate(columns)
    return _average(model, trees, structure)


def _average(model: Any, trees: Sequence[Any], structure: dict[str, npt.NDArray[Any]]) -> Forest:
    """The mean of the trees: of their values, or of their class probabilities."""
    if hasattr(model, "classes_"):
        outputs, link, objective = class_outputs(model), "probability", "brier"
        values = np.concatenate([_probabilities(tree, len(model.classes_)) for tree in trees])[:, -len(outputs) :]
    else:
        values = np.concatenate([tree.tree_.value[:, :, 0] for tree in trees])
        outputs, link, objective = _target_names(values.shape[1]), "identity", _leaf_objective(trees[0])
    schema = numeric_schema(model, outputs, link, accepts_missing=accepts_missing(trees[0]), objective=objective)
    return assemble(schema, np.zeros(len(outputs)), values=values / len(trees), **structure)


def _leaf_objective(tree: Any) -> str:
    """What leaf values minimise: medians the absolute error, means the squared error, whatever chooses the splits."""
    return "absolute" if tree.criterion == "absolute_error" else "squared"


def _target_names(n_targets: int) -> tuple[str, ...]:
    return ("score",) if n_targets == 1 else tuple(f"y{k}" for k in range(n_targets))


def _probabilities(tree: Any, n_classes: int) -> Floats:
    """Class probabilities at the nodes; a bagged tree may have seen only some of the classes."""
    seen: Floats = tree.tree_.value[:, 0, :]
    if seen.shape[1] == n_classes:
        return seen
    probabilities = np.zeros((len(seen), n_classes))
    probabilities[:, np.asarray(tree.classes_, dtype=np.int64)] = seen
    return probabilities


# Boosted trees


def read_boosting(model: Any) -> Forest:
    """Gradient boosting."""
    n_classes = model.estimators_.shape[1]
    trees = model.estimators_.ravel()
    values = np.concatenate([tree.tree_.value[:, 0, 0] for tree in trees])
    output = np.repeat(np.arange(len(trees)) % n_classes, _sizes(trees))
    schema = numeric_schema(
        model, boosted_outputs(model), loss_link(model), accepts_missing=False, objective=loss_objective(model)
    )
    return assemble(
        schema, _start(model), values=in_column(model.learning_rate * values, output, n_classes), **_structure(trees)
    )


def in_column(values: Floats, column: Ints, n_columns: int) -> Floats:
    """A matrix of zeros except for one value per row, in the given column."""
    matrix = np.zeros((len(values), n_columns))
    matrix[np.arange(len(values)), column] = values
    return matrix


def _start(model: Any) -> Floats:
    """Raw prediction that boosting starts from, which must be the same for all rows."""
    start = model.init_
    constant = isinstance(start, str) or (
        is_sklearn(type(start))
        and type(start).__name__ in {"DummyClassifier", "DummyRegressor"}
        and start.strategy != "stratified"  # draws at random
    )
    if not constant:
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be read: it starts from the predictions of {start!r}, not from a constant; "
            'fit it with init=None or init="zero".'
        )
    result: Floats = model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]  # noqa: SLF001
    return result


def read_adaboost(model: Any) -> Forest:
    """AdaBoost of classification trees."""
    trees = model.estimators_
    _check_trees(model, trees)
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModelError('AdaBoostClassifier can be read with algorithm="SAMME" only; fit it with that.')
    outputs = class_outputs(model)
    vote = np.concatenate([tree.tree_.value[:, 0, :].argmax(axis=1) for tree in trees])
    weights = model.estimator_weights_
    weight = np.repeat(weights[: len(trees)] / weights.sum(), _sizes(trees))
    # For two classes, predict_proba is the logistic function of this difference; for more, a softmax of f / (K - 1).
    link = "logit" if len(outputs) == 1 else "other"
    # The objective is empty: votes are divided by their sum, which does not minimise the exponential loss.
    schema = numeric_schema(model, outputs, link, accepts_missing=False, objective="")
    values = _votes(vote, len(model.classes_)) * weight[:, None]
    return assemble(schema, np.zeros(len(outputs)), values=values, **_structure(trees))


def _votes(vote: Ints, n_classes: int) -> Floats:
    """1 for the class voted for, and -1 shared by the others; for two classes, second minus first."""
    if n_classes == 2:
        return np.where(vote == 1, 2.0, -2.0)[:, None]
    return np.where(vote[:, None] == np.arange(n_classes), 1.0, -1.0 / (n_classes - 1))
