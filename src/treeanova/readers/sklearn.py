"""scikit-learn (1.5 and later) and quantile-forest: trees, forests, bags, AdaBoost and gradient boosting as a Forest.

Facts:

- Trees, and all ensembles of them, cast inputs to float32 and go left when x <= threshold, a float64; NaN goes by
  `missing_go_to_left`. Gradient boosting and AdaBoost refuse NaN; other estimators say whether they do.
- `tree_.value` holds means for regression and fractions of classes for classification.
- Gradient boosting adds the start `init_` and learning_rate times each tree of `estimators_`, which early stopping cut.
- AdaBoost adds up a weighted vote of each tree for one class, over the sum of all weights.
- HistGradientBoosting compares float64 numbers, and its leaf values include the learning rate. Its trees number the
  columns with categories first. A category becomes its position among the sorted labels; an unseen one acts as NaN.
  None, which polars uses for missing values, is a label like others if it was in the training data.

The score is the sum that the estimators compute: `predict` of regressors (before an inverse log link),
`decision_function` of boosted classifiers, `predict_proba` of other classifiers (of the second class, if there are
two). scikit-learn refuses infinite inputs for trees of float32; the Forest scores them as very large numbers.

Quantile forests (the package quantile-forest) are read if their prediction is a mean:

- Each leaf keeps training rows: one, drawn at random, by default (max_samples_leaf=1). `tree_.value` is not used.
- `predict` without arguments follows `default_quantiles`, 0.5 by default. A quantile pools the rows of all leaves that
  a row reaches, so it is not a sum over trees and is refused.
- With default_quantiles="mean" and one row per leaf, `predict` gives the mean over trees of these rows' targets,
  clipped to the leaf's bounds under monotonic constraints. That is a sum over leaves, and is read.
- With more rows per leaf, the mean pools all rows: its denominator depends on all trees, so it is refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Labels, Numeric, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_up_to
from treeanova.readers import checks
from treeanova.readers.checks import block_starts, stacked_trees
from treeanova.readers.outputs import (
    class_outputs,
    in_column,
    objective_text,
    output_names,
    plain_labels,
    without_first_of_two,
)

_LINKS = {
    "IdentityLink": "identity", "LogLink": "log", "LogitLink": "logit", "MultinomialLogit": "softmax",
    "HalfLogitLink": "argmax",  # of the exponential loss: half the log-odds
}  # fmt: skip
_OBJECTIVES = {"squared_error": "squared", "absolute_error": "absolute"}
_KINDS = ("Regressor", "Classifier")
_BITS = 256  # a category set of HistGradientBoosting is a bitset of eight 32-bit words
_QUANTILE_FORESTS = {"RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"}


def is_sklearn(item: Any) -> bool:
    """Whether a class or method is defined in scikit-learn itself."""
    return str(item.__module__).partition(".")[0] == "sklearn"


def check_methods(model: Any) -> None:
    """Raise UnsupportedModelError if a class of the user overrides how scikit-learn predicts."""
    for name in ("predict", "predict_proba", "decision_function"):
        method = getattr(type(model), name, None)
        if method is not None and not is_sklearn(method):
            raise UnsupportedModelError(
                f"{type(model).__name__} cannot be read: it overrides `{name}`; add a reader with register_reader()."
            )


def feature_names(model: Any) -> tuple[list[str], bool]:
    """Return names of the columns, x0, x1, … if the model has none, and whether it has them."""
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        return [f"x{j}" for j in range(model.n_features_in_)], False
    return [str(name) for name in names], True


def numeric_schema(model: Any, outputs: tuple[str, ...], link: str, *, accepts_missing: bool, objective: str) -> Schema:
    """Return the schema of an estimator whose features are all numbers."""
    names, named = feature_names(model)
    features = tuple(Feature(name, Numeric(), accepts_missing=accepts_missing) for name in names)
    classes = plain_labels(getattr(model, "classes_", ()))
    return Schema(features, outputs, link, named, classes=classes, objective=objective)


def _checked_class_outputs(model: Any) -> tuple[str, ...]:
    """Return names of a classifier's outputs; UnsupportedModelError for several targets or one class."""
    if isinstance(model.classes_, list):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be read: it predicts several targets; fit one classifier for each."
        )
    if len(model.classes_) == 1:
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: it was trained on one class only.")
    return class_outputs(model.classes_.tolist())


def _boosted_schema(model: Any, *, accepts_missing: bool) -> Schema:
    """Return the schema of GradientBoosting* or HistGradientBoosting*, with all features as numbers."""
    outputs = _checked_class_outputs(model) if hasattr(model, "classes_") else ("score",)
    link = _LINKS.get(type(model._loss.link).__name__, "other")  # noqa: SLF001  predict uses it
    return numeric_schema(model, outputs, link, accepts_missing=accepts_missing, objective=loss_objective(model))


def loss_objective(model: Any) -> str:
    """Return what boosting minimised, in the words of `validate(loss=...)`."""
    loss = model.loss if isinstance(model.loss, str) else type(model.loss).__name__
    if loss == "log_loss":
        return "log" if len(model.classes_) == 2 else "multiclass"
    if loss == "quantile":
        return objective_text("pinball", model.quantile if hasattr(model, "quantile") else model.alpha)
    if loss == "huber":
        return objective_text("huber", model._loss.closs.delta)  # noqa: SLF001  that of the last tree
    return _OBJECTIVES.get(loss, loss)


def _check_trees(model: Any, trees: Sequence[Any]) -> None:
    """Raise UnsupportedModelError unless all members of an ensemble are scikit-learn's own decision trees."""
    kind = "DecisionTreeClassifier" if hasattr(model, "classes_") else "DecisionTreeRegressor"
    for cls in {type(tree) for tree in trees}:
        if kind not in [base.__name__ for base in cls.__mro__ if is_sklearn(base)]:
            raise UnsupportedModelError(
                f"{type(model).__name__} cannot be read: its members must be of type {kind}, got {cls.__name__}."
            )
    check_methods(trees[0])


def _node_counts(trees: Sequence[Any]) -> Ints:
    return np.array([tree.tree_.node_count for tree in trees], dtype=np.int64)


def _splits_of(trees: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
    """Return arguments of `assemble` for trees one after the other, all but their values."""
    arrays = [tree.tree_ for tree in trees]
    left, right = (np.concatenate([getattr(tree, f"children_{side}") for tree in arrays]) for side in ("left", "right"))
    return {
        "feature": np.concatenate([tree.feature for tree in arrays]),
        "bound": bound_up_to(np.concatenate([tree.threshold for tree in arrays])),
        "missing_left": np.concatenate([tree.missing_go_to_left for tree in arrays]),
        **stacked_trees(_node_counts(trees), left, right),
    }


def read_forest(model: Any) -> Forest:
    """Read one tree, or a forest as the mean of its trees."""
    trees = getattr(model, "estimators_", [model])
    return _mean_of_trees(model, trees, _splits_of(trees))


def read_bagging(model: Any) -> Forest:
    """Read Bagging*; a tree numbers only the columns that it sees, which estimators_features_ lists."""
    trees = model.estimators_
    _check_trees(model, trees)
    splits = _splits_of(trees)
    columns = [
        np.asarray(tree_columns)[np.maximum(tree.tree_.feature, 0)]
        for tree, tree_columns in zip(trees, model.estimators_features_, strict=True)
    ]
    splits["feature"] = np.concatenate(columns)
    return _mean_of_trees(model, trees, splits)


def _mean_of_trees(model: Any, trees: Sequence[Any], splits: dict[str, npt.NDArray[Any]]) -> Forest:
    """Return the mean of trees as a forest; `splits` are arguments of `assemble`, all but the values."""
    if hasattr(model, "classes_"):
        outputs, link, objective = _checked_class_outputs(model), "probability", "brier"
        values = without_first_of_two(np.concatenate([_probabilities(tree, len(model.classes_)) for tree in trees]))
    else:
        values = np.concatenate([tree.tree_.value[:, :, 0] for tree in trees])
        outputs, link = output_names(values.shape[1]), "identity"
        # Leaves that are medians minimise the absolute error, means the squared error, whatever chooses the splits.
        objective = "absolute" if trees[0].criterion == "absolute_error" else "squared"
    accepts_missing = bool(trees[0]._support_missing_values(np.empty((0, 0))))  # noqa: SLF001  predict asks the same
    schema = numeric_schema(model, outputs, link, accepts_missing=accepts_missing, objective=objective)
    return assemble(schema, np.zeros(len(outputs)), values=values / len(trees), **splits)


def _probabilities(tree: Any, n_classes: int) -> Floats:
    """Return class probabilities at the nodes; a bagged tree may have seen only some of the classes."""
    seen: Floats = tree.tree_.value[:, 0, :]
    if seen.shape[1] == n_classes:
        return seen
    probabilities = np.zeros((len(seen), n_classes))
    probabilities[:, np.asarray(tree.classes_, dtype=np.int64)] = seen
    return probabilities


def read_boosting(model: Any) -> Forest:
    """Read GradientBoosting*, whose `estimators_` has a tree for each stage and class."""
    n_classes = model.estimators_.shape[1]
    trees = model.estimators_.ravel()
    values = np.concatenate([tree.tree_.value[:, 0, 0] for tree in trees])
    output = np.repeat(np.arange(len(trees)) % n_classes, _node_counts(trees))
    values = in_column(model.learning_rate * values, output, n_classes)
    schema = _boosted_schema(model, accepts_missing=False)
    return assemble(schema, _starting_score(model), values=values, **_splits_of(trees))


def _starting_score(model: Any) -> Floats:
    """Return the raw prediction that boosting starts from, which must be the same for all rows."""
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
    return model._raw_predict_init(np.zeros((1, model.n_features_in_), np.float32))[0]  # noqa: SLF001


def read_adaboost(model: Any) -> Forest:
    """Read an AdaBoostClassifier as a weighted sum of votes."""
    trees = model.estimators_
    _check_trees(model, trees)
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModelError('AdaBoostClassifier can be read with algorithm="SAMME" only; fit it with that.')
    outputs = _checked_class_outputs(model)
    voted_class = np.concatenate([tree.tree_.value[:, 0, :].argmax(axis=1) for tree in trees])
    weights = model.estimator_weights_
    tree_weight = np.repeat(weights[: len(trees)] / weights.sum(), _node_counts(trees))
    # For two classes, predict_proba is the logistic function of this difference; for more, a softmax of f / (K - 1).
    link = "logit" if len(outputs) == 1 else "argmax"
    # The objective is empty: votes are divided by their sum, which does not minimise the exponential loss.
    schema = numeric_schema(model, outputs, link, accepts_missing=False, objective="")
    # A vote is 1 for its class, and -1 shared by the others; of two classes, the second minus the first.
    n_classes = len(model.classes_)
    votes = np.where(voted_class[:, None] == np.arange(n_classes), 1.0, -1.0 / (n_classes - 1))
    if n_classes == 2:
        votes = np.where(voted_class == 1, 2.0, -2.0)[:, None]
    return assemble(schema, np.zeros(len(outputs)), values=votes * tree_weight[:, None], **_splits_of(trees))


def read_histogram_boosting(model: Any) -> Forest:
    """Read HistGradientBoosting*, whose trees are arrays of structs, `nodes`."""
    predictors = [tree for stage in model._predictors for tree in stage]  # noqa: SLF001  no public form
    n_outputs = model.n_trees_per_iteration_
    nodes = np.concatenate([tree.nodes for tree in predictors])
    sizes = np.array([len(tree.nodes) for tree in predictors], dtype=np.int64)
    tree_of = np.repeat(np.arange(len(sizes)), sizes)
    is_leaf = nodes["is_leaf"].astype(bool)
    schema = _histogram_schema(model)
    is_category = np.zeros(len(schema.features), bool) if model._preprocessor is None else model.is_categorical_  # noqa: SLF001
    columns = np.argsort(~is_category, kind="stable")  # of the user's data, by their numbers in trees
    column = np.where(is_leaf, 0, nodes["feature_idx"])
    if column.min(initial=0) < 0 or column.max(initial=0) >= len(columns):
        wrong = column[(column < 0) | (column >= len(columns))][0]
        raise ValueError(f"a tree of `model` splits on column {wrong} of {len(columns)}: the model is damaged.")
    feature = columns[column]
    missing_left = nodes["missing_go_to_left"].astype(bool)
    n_categories = np.array([f.n_categories for f in schema.features])[feature]
    lengths = np.where(~is_leaf & (nodes["is_categorical"] != 0), n_categories + 1, 0)
    start, category_left = _category_sets(predictors, nodes, tree_of, lengths, missing_left)
    return assemble(
        schema,
        np.ravel(model._baseline_prediction),  # noqa: SLF001  no public form
        feature=feature,
        bound=nodes["num_threshold"],
        missing_left=missing_left,
        values=in_column(nodes["value"], tree_of % n_outputs, n_outputs),
        category_start=start,
        category_left=category_left,
        **stacked_trees(sizes, np.where(is_leaf, -1, nodes["left"].astype(np.int64)), nodes["right"].astype(np.int64)),
    )


def _histogram_schema(model: Any) -> Schema:
    """Return the schema of HistGradientBoosting*, with the labels of its category columns."""
    schema = _boosted_schema(model, accepts_missing=True)
    features = list(schema.features)
    if model._preprocessor is not None:  # noqa: SLF001  predict uses it
        categories = model._preprocessor.named_transformers_["encoder"].categories_  # noqa: SLF001
        for j, column_categories in zip(np.flatnonzero(model.is_categorical_), categories, strict=True):
            labels: list[Hashable] = column_categories.tolist()
            if labels and isinstance(labels[-1], float) and np.isnan(labels[-1]):  # last, if it was seen
                del labels[-1]
            encoder = Labels(tuple(labels), none="category" if None in labels else "missing")
            features[j] = dataclasses.replace(features[j], encoder=encoder)
    return dataclasses.replace(schema, features=tuple(features))


def _category_sets(
    predictors: Sequence[Any], nodes: npt.NDArray[Any], tree_of: Ints, set_sizes: Ints, missing_left: Bools
) -> tuple[Ints, Bools]:
    """Return arguments `category_start` and `category_left` of `assemble`; `set_sizes` are 0 at other nodes."""
    # A tree has a bitset per split on categories, of those that go left; `set_sizes` says how many bits a node uses.
    # The last entry of a set is for unseen categories, which go where missing values go.
    sets = [np.asarray(tree.raw_left_cat_bitsets, dtype="<u4") for tree in predictors]
    first_set = block_starts(np.array([len(tree_sets) for tree_sets in sets], dtype=np.int64))
    bits = np.unpackbits(np.concatenate(sets).view(np.uint8), axis=1, bitorder="little").astype(bool)
    split_nodes = np.flatnonzero(set_sizes)
    is_inside = np.arange(_BITS) < set_sizes[split_nodes, None]
    category_left = bits[first_set[tree_of[split_nodes]] + nodes["bitset_idx"][split_nodes]][is_inside]
    category_left[np.cumsum(set_sizes[split_nodes]) - 1] = missing_left[split_nodes]
    return np.where(set_sizes > 0, block_starts(set_sizes), -1), category_left


def _check_quantile_forest(model: Any) -> None:  # UnsupportedModelError unless its prediction is a mean of trees
    name = type(model).__name__
    if name not in _QUANTILE_FORESTS:
        raise UnsupportedModelError(f"{name} cannot be read: it is not one of {', '.join(sorted(_QUANTILE_FORESTS))}.")
    if not hasattr(model, "forest_"):
        raise UnsupportedModelError(f"{name} cannot be read before training; fit it first.")
    if model.max_samples_leaf != 1:
        raise UnsupportedModelError(
            f"{name} cannot be read: with max_samples_leaf={model.max_samples_leaf!r} its mean and its quantiles are "
            "those of the training rows of many leaves pooled, which are no sums over trees; fit it with "
            'max_samples_leaf=1 and default_quantiles="mean", or fit a RandomForestRegressor.'
        )
    if model.default_quantiles not in (None, "mean", ["mean"]):
        raise UnsupportedModelError(
            f"{name} cannot be read: it predicts a quantile over its trees (default_quantiles="
            f"{model.default_quantiles!r}), which is no sum; its mean can be read, after "
            'model.set_params(default_quantiles="mean").'
        )


def _read_quantile_forest(model: Any) -> Forest:
    """Read a quantile forest as the mean of trees whose leaves have the target of their one training row."""
    forest, stored = read_forest(model), model.forest_
    nodes, leaf = np.flatnonzero(forest.leaf >= 0), forest.leaf_label
    tree = np.searchsorted(forest.roots, nodes, side="right") - 1
    row_number = np.asarray(stored.y_train_leaves)[tree, leaf, :, 0].astype(np.int64) - 1  # numbered from 1
    if (row_number < 0).any():
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: a leaf keeps no training row.")
    targets: Floats = np.take_along_axis(np.asarray(stored.y_train, dtype=np.float64).T, row_number, axis=0)
    if model.monotonic_cst is not None:
        bounds = np.asarray(stored.y_bound_leaves)[tree, leaf]
        targets = np.clip(targets, bounds[:, :1], bounds[:, 1:])
    return dataclasses.replace(forest, values=targets / model.n_estimators)


_REFUSED = {
    "AdaBoostRegressor": "its prediction is a weighted median of trees, not a sum; AdaBoostClassifier can be read",
    "IsolationForest": "its score is a power of the mean path length, not a sum over leaves",
    "RandomTreesEmbedding": "it predicts nothing, it only encodes leaves",
}
# How each class is read, and an attribute that it has after training.
_READERS: dict[str, tuple[Callable[[Any], Forest], str]] = {
    **{f"DecisionTree{kind}": (read_forest, "tree_") for kind in _KINDS},
    **{f"RandomForest{kind}": (read_forest, "estimators_") for kind in _KINDS},
    **{f"ExtraTrees{kind}": (read_forest, "estimators_") for kind in _KINDS},
    **{f"Bagging{kind}": (read_bagging, "estimators_") for kind in _KINDS},
    **{f"GradientBoosting{kind}": (read_boosting, "estimators_") for kind in _KINDS},
    "AdaBoostClassifier": (read_adaboost, "estimators_"),
    **{f"HistGradientBoosting{kind}": (read_histogram_boosting, "_predictors") for kind in _KINDS},
}


def read(model: Any) -> Forest:
    """Read an estimator of scikit-learn, or of quantile-forest, by the first of its classes that has a reader."""
    if any(cls.__module__.partition(".")[0] == "quantile_forest" for cls in type(model).__mro__):
        _check_quantile_forest(model)
        return checks.read_estimator("quantile_forest", model, _read_quantile_forest)
    names = [cls.__name__ for cls in type(model).__mro__ if is_sklearn(cls)]
    kind = next((name for name in names if name in _READERS or name in _REFUSED), None)
    if kind is None and hasattr(model, "decomposition_"):
        raise UnsupportedModelError(f"{type(model).__name__} has a decomposition already; take its `decomposition_`.")
    if kind is None or kind in _REFUSED:
        reason = _REFUSED.get(kind or "", "it is not one of " + ", ".join(sorted(_READERS)))
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: {reason}.")
    check_methods(model)
    read_kind, fitted_attribute = _READERS[kind]
    if not hasattr(model, fitted_attribute):
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read before training; fit it first.")
    return checks.read_estimator("sklearn", model, read_kind)
