"""scikit-learn (1.5 and later): trees, forests, bagged trees, AdaBoost and both kinds of gradient boosting as a Forest.

What is relied on:

- Trees, and all ensembles of them, cast inputs to float32 and go left when x <= threshold, a float64; NaN goes where
  `missing_go_to_left` says. Gradient boosting and AdaBoost refuse NaN; whether others do, the estimator is asked.
- `tree_.value` holds means for regression and fractions of classes for classification.
- Gradient boosting adds the start `init_` and learning_rate times each tree of `estimators_`, which early stopping cut.
- AdaBoost adds up a weighted vote of each tree for one class, over the sum of all weights.
- HistGradientBoosting compares float64 numbers, and its leaf values hold the learning rate. Its trees know the columns
  with categories first. A category becomes its position among the sorted labels; one never seen acts as NaN. None, what
  polars has for missing values, is a label like others when it was among the training data.

The scores are what the estimators themselves sum up: `predict` of regressors (before an inverse log link),
`decision_function` of boosted classifiers, `predict_proba` of other classifiers (the second class's, if there are two).
scikit-learn refuses infinite inputs for trees of float32; the Forest scores them as very large numbers.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, Labels, Numeric, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest, assemble, bound_up_to
from treeanova.model.grid import Grid
from treeanova.readers import versions

_BITS = 256  # a category set of HistGradientBoosting is a bitset of eight 32-bit words
_LINKS = {"IdentityLink": "identity", "LogLink": "log", "LogitLink": "logit", "MultinomialLogit": "softmax"}
_REFUSED = {
    "AdaBoostRegressor": "its prediction is a weighted median of trees, not a sum; AdaBoostClassifier can be read",
    "IsolationForest": "its score is a power of the mean path length, not a sum over leaves",
    "RandomTreesEmbedding": "it predicts nothing, it only encodes leaves",
    "BaseSearchCV": "it is a search over models; pass its `best_estimator_`",
}


def read(model: Any) -> Forest | Effects:
    """The fitted estimator as a Forest whose score is the estimator's own raw prediction.

    A Pipeline is read by its last step, which may come from another library, with the feature names that the steps
    before give. The result describes transformed columns: score it on ``pipeline[:-1].transform(X)``, not on X.
    """
    names = [cls.__name__ for cls in type(model).__mro__ if _is_sklearn(cls)]
    kind = next((name for name in names if name in _READERS or name in _REFUSED), None)
    if kind == "Pipeline":
        return _read_pipeline(model)
    if kind is None or kind in _REFUSED:
        reason = _REFUSED.get(kind or "", "it is not one of " + ", ".join(sorted(_READERS)))
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: {reason}.")
    _check_methods(model)
    reader, evidence = _READERS[kind]
    if not hasattr(model, evidence):
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read before training; fit it first.")
    return versions.read_live(
        "sklearn",
        lambda: reader(model),
        lambda result: functools.partial(versions.estimator_score, model, result),
    )


def _is_sklearn(item: Any) -> bool:
    return str(item.__module__).partition(".")[0] == "sklearn"


def _check_methods(model: Any) -> None:
    """Refuses a subclass that predicts in its own way."""
    for name in ("predict", "predict_proba", "decision_function"):
        method = getattr(type(model), name, None)
        if method is not None and not _is_sklearn(method):
            raise UnsupportedModelError(
                f"{type(model).__name__} cannot be read: it has its own `{name}` in place of scikit-learn's."
            )


# Pipelines


def _read_pipeline(pipeline: Any) -> Forest | Effects:
    """The last step, its features named by the steps before."""
    from treeanova.readers import read_model  # noqa: PLC0415  it loads this module

    last = pipeline.steps[-1][1]
    if last is None or isinstance(last, str):
        raise UnsupportedModelError(f"the Pipeline must end in a model, got {last!r}; append a fitted one.")
    result = read_model(last)
    names = _names_before_last(pipeline)
    schema = result.schema if isinstance(result, Forest) else result.grid.schema
    if names is None or len(names) != len(schema.features):
        return result
    features = tuple(dataclasses.replace(f, name=name) for f, name in zip(schema.features, names, strict=True))
    named = schema.named or hasattr(pipeline, "feature_names_in_")
    return _with_schema(result, dataclasses.replace(schema, features=features, named=named))


def _names_before_last(pipeline: Any) -> list[str] | None:
    """Names of the columns that enter the last step, None where the steps do not tell."""
    if len(pipeline.steps) == 1:
        return None
    try:
        return [str(name) for name in pipeline[:-1].get_feature_names_out()]
    except (AttributeError, TypeError, ValueError):
        return None


def _with_schema(result: Forest | Effects, schema: Schema) -> Forest | Effects:
    if isinstance(result, Forest):
        return dataclasses.replace(result, schema=schema)
    axes = tuple(dataclasses.replace(a, name=name) for a, name in zip(result.grid.axes, schema.names, strict=True))
    return dataclasses.replace(result, grid=Grid(schema, axes))


# What goes in and comes out


def _names(model: Any) -> tuple[list[str], bool]:
    """Names of the features, and whether they are the model's own."""
    own = getattr(model, "feature_names_in_", None)
    if own is None:
        return [f"x{j}" for j in range(model.n_features_in_)], False
    return [str(name) for name in own], True


def _numeric_schema(model: Any, outputs: tuple[str, ...], link: str, *, accepts_missing: bool) -> Schema:
    names, named = _names(model)
    features = tuple(Feature(name, Numeric(), accepts_missing=accepts_missing) for name in names)
    return Schema(features, outputs, link, named)


def _class_outputs(model: Any) -> tuple[str, ...]:
    """One output per class, a single one for two classes."""
    if isinstance(model.classes_, list):
        raise UnsupportedModelError(
            f"{type(model).__name__} cannot be read: it predicts several targets; fit one classifier for each."
        )
    if len(model.classes_) == 1:
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: it knows one class only.")
    return ("score",) if len(model.classes_) == 2 else tuple(str(label) for label in model.classes_.tolist())


def _boosted_outputs(model: Any) -> tuple[str, ...]:
    return _class_outputs(model) if hasattr(model, "classes_") else ("score",)


def _loss_link(model: Any) -> str:
    """Link of a boosted model's loss; "other" for the exponential loss, whose link is half the log-odds."""
    return _LINKS.get(type(model._loss.link).__name__, "other")  # noqa: SLF001  predict uses it


def _accepts_missing(tree: Any) -> bool:
    return bool(tree._support_missing_values(np.empty((0, 0))))  # noqa: SLF001  predict asks the same


# Trees


def _check_trees(model: Any, trees: Sequence[Any]) -> None:
    """Refuses members that are no trees of the ensemble's own kind: their predictions are combined in other ways."""
    kind = "DecisionTreeClassifier" if hasattr(model, "classes_") else "DecisionTreeRegressor"
    for cls in {type(tree) for tree in trees}:
        if kind not in [base.__name__ for base in cls.__mro__ if _is_sklearn(base)]:
            raise UnsupportedModelError(
                f"{type(model).__name__} cannot be read: its members must be of type {kind}, got {cls.__name__}."
            )
    _check_methods(trees[0])


def _sizes(trees: Sequence[Any]) -> Ints:
    return np.array([tree.tree_.node_count for tree in trees], dtype=np.int64)


def _structure(trees: Sequence[Any]) -> dict[str, npt.NDArray[Any]]:
    """Nodes of all trees, one after the other, as `assemble` takes them."""
    arrays = [tree.tree_ for tree in trees]
    sizes = _sizes(trees)
    roots = np.cumsum(sizes) - sizes
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


def _read_tree(model: Any) -> Forest:
    return _average(model, [model], _structure([model]))


def _read_forest(model: Any) -> Forest:
    return _average(model, model.estimators_, _structure(model.estimators_))


def _read_bagging(model: Any) -> Forest:
    """Bagged trees, each of which knows the columns that it got."""
    trees = model.estimators_
    _check_trees(model, trees)
    structure = _structure(trees)
    columns = [
        np.asarray(own)[np.maximum(tree.tree_.feature, 0)]
        for tree, own in zip(trees, model.estimators_features_, strict=True)
    ]
    structure["feature"] = np.concatenate(columns)
    return _average(model, trees, structure)


def _average(model: Any, trees: Sequence[Any], structure: dict[str, npt.NDArray[Any]]) -> Forest:
    """The mean of the trees: of their values, or of their class probabilities."""
    if hasattr(model, "classes_"):
        outputs, link = _class_outputs(model), "probability"
        values = np.concatenate([_probabilities(tree, len(model.classes_)) for tree in trees])[:, -len(outputs) :]
    else:
        values = np.concatenate([tree.tree_.value[:, :, 0] for tree in trees])
        outputs, link = _target_names(values.shape[1]), "identity"
    schema = _numeric_schema(model, outputs, link, accepts_missing=_accepts_missing(trees[0]))
    return assemble(schema, np.zeros(len(outputs)), values=values / len(trees), **structure)


def _target_names(n_targets: int) -> tuple[str, ...]:
    return ("score",) if n_targets == 1 else tuple(f"y{k}" for k in range(n_targets))


def _probabilities(tree: Any, n_classes: int) -> Floats:
    """Class probabilities at the nodes; a bagged tree may have met some of the classes only."""
    own: Floats = tree.tree_.value[:, 0, :]
    if own.shape[1] == n_classes:
        return own
    every = np.zeros((len(own), n_classes))
    every[:, np.asarray(tree.classes_, dtype=np.int64)] = own
    return every


# Boosted trees


def _read_boosting(model: Any) -> Forest:
    n_classes = model.estimators_.shape[1]
    trees = model.estimators_.ravel()
    values = np.concatenate([tree.tree_.value[:, 0, 0] for tree in trees])
    output = np.repeat(np.arange(len(trees)) % n_classes, _sizes(trees))
    schema = _numeric_schema(model, _boosted_outputs(model), _loss_link(model), accepts_missing=False)
    return assemble(
        schema, _start(model), values=_in_column(model.learning_rate * values, output, n_classes), **_structure(trees)
    )


def _in_column(values: Floats, column: Ints, n_columns: int) -> Floats:
    """Each value in its own column of a matrix of zeros."""
    matrix = np.zeros((len(values), n_columns))
    matrix[np.arange(len(values)), column] = values
    return matrix


def _start(model: Any) -> Floats:
    """Raw prediction that boosting starts from, when it is the same for all rows."""
    start = model.init_
    constant = isinstance(start, str) or (
        _is_sklearn(type(start))
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


def _read_adaboost(model: Any) -> Forest:
    trees = model.estimators_
    _check_trees(model, trees)
    if getattr(model, "algorithm", "SAMME") == "SAMME.R":
        raise UnsupportedModelError('AdaBoostClassifier can be read with algorithm="SAMME" only; fit it with that.')
    outputs = _class_outputs(model)
    vote = np.concatenate([tree.tree_.value[:, 0, :].argmax(axis=1) for tree in trees])
    weights = model.estimator_weights_
    weight = np.repeat(weights[: len(trees)] / weights.sum(), _sizes(trees))
    # For two classes, predict_proba is the logistic function of this difference; for more, a softmax of f / (K - 1).
    link = "logit" if len(outputs) == 1 else "other"
    schema = _numeric_schema(model, outputs, link, accepts_missing=False)
    values = _votes(vote, len(model.classes_)) * weight[:, None]
    return assemble(schema, np.zeros(len(outputs)), values=values, **_structure(trees))


def _votes(vote: Ints, n_classes: int) -> Floats:
    """1 for the class voted for, and -1 shared by the others; for two classes, second minus first."""
    if n_classes == 2:
        return np.where(vote == 1, 2.0, -2.0)[:, None]
    return np.where(vote[:, None] == np.arange(n_classes), 1.0, -1.0 / (n_classes - 1))


# HistGradientBoosting


@dataclasses.dataclass(frozen=True)
class LabelsWithNone(Labels):
    """Labels among which None is one like the others; only NaN is missing."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels, n_categories where unseen, NaN for NaN."""
        encoded = super().encode(column, name)
        if column.dtype == object:
            encoded[[value is None for value in column]] = self.names.index(None)
        return encoded


def _read_hist(model: Any) -> Forest:
    predictors = [tree for stage in model._predictors for tree in stage]  # noqa: SLF001  no public form
    n_outputs = model.n_trees_per_iteration_
    nodes = np.concatenate([tree.nodes for tree in predictors])
    sizes = np.array([len(tree.nodes) for tree in predictors], dtype=np.int64)
    tree_of = np.repeat(np.arange(len(sizes)), sizes)
    roots = np.cumsum(sizes) - sizes
    offset = roots[tree_of]
    is_leaf = nodes["is_leaf"].astype(bool)
    schema = _hist_schema(model)
    feature = _hist_columns(model)[np.where(is_leaf, 0, nodes["feature_idx"])]
    missing_left = nodes["missing_go_to_left"].astype(bool)
    start, category_left = _category_sets(
        np.flatnonzero(~is_leaf & (nodes["is_categorical"] != 0)),
        np.array([f.n_categories for f in schema.features])[feature],
        _bitsets(predictors, nodes, tree_of),
        missing_left,
    )
    return assemble(
        schema,
        np.ravel(model._baseline_prediction),  # noqa: SLF001  no public form
        roots=roots,
        feature=feature,
        bound=nodes["num_threshold"],
        left=np.where(is_leaf, -1, nodes["left"] + offset),
        right=np.where(is_leaf, -1, nodes["right"] + offset),
        missing_left=missing_left,
        values=_in_column(nodes["value"], tree_of % n_outputs, n_outputs),
        leaf_label=np.arange(len(nodes)) - offset,
        category_start=start,
        category_left=category_left,
    )


def _hist_columns(model: Any) -> Ints:
    """Column of the user's data at each position that the trees know."""
    if model._preprocessor is None:  # noqa: SLF001  predict uses it
        return np.arange(model.n_features_in_)
    return np.concatenate([np.flatnonzero(model.is_categorical_), np.flatnonzero(~model.is_categorical_)])


def _hist_schema(model: Any) -> Schema:
    names, named = _names(model)
    encoders: list[Encoder] = [Numeric()] * len(names)
    if model._preprocessor is not None:  # noqa: SLF001  predict uses it
        categories = model._preprocessor.named_transformers_["encoder"].categories_  # noqa: SLF001
        for j, labels in zip(np.flatnonzero(model.is_categorical_), categories, strict=True):
            encoders[j] = _labels(labels)
    features = tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True))
    return Schema(features, _boosted_outputs(model), _loss_link(model), named)


def _labels(categories: npt.NDArray[Any]) -> Labels:
    """Encoder for the categories of an OrdinalEncoder, which puts NaN last where it met it."""
    labels: list[Hashable] = categories.tolist()
    if labels and isinstance(labels[-1], float) and np.isnan(labels[-1]):
        del labels[-1]
    return LabelsWithNone(tuple(labels)) if None in labels else Labels(tuple(labels))


def _bitsets(predictors: Sequence[Any], nodes: npt.NDArray[Any], tree_of: Ints) -> Callable[[Ints], Bools]:
    """A function from nodes with category sets to their bits, one column per category."""
    sets = [np.asarray(tree.raw_left_cat_bitsets, dtype="<u4") for tree in predictors]
    n_sets = np.array([len(own) for own in sets], dtype=np.int64)
    first = np.cumsum(n_sets) - n_sets
    bits = np.unpackbits(np.concatenate(sets).view(np.uint8), axis=1, bitorder="little").astype(bool)
    return lambda which: bits[first[tree_of[which]] + nodes["bitset_idx"][which]]


def _category_sets(
    which: Ints, n_categories: Ints, bits_of: Callable[[Ints], Bools], missing_left: Bools
) -> tuple[Ints, Bools]:
    """Starts of the nodes' category sets and the sets; the entry for unseen categories goes where missing values go."""
    lengths = n_categories[which] + 1
    ends = np.cumsum(lengths)
    start = np.full(len(n_categories), -1, dtype=np.int64)
    start[which] = ends - lengths
    inside = np.arange(_BITS) < lengths[:, None]
    category_left = bits_of(which)[inside]
    category_left[ends - 1] = missing_left[which]
    return start, category_left


_READERS: dict[str, tuple[Callable[[Any], Forest | Effects], str]] = {
    "DecisionTreeRegressor": (_read_tree, "tree_"),
    "DecisionTreeClassifier": (_read_tree, "tree_"),
    "RandomForestRegressor": (_read_forest, "estimators_"),
    "RandomForestClassifier": (_read_forest, "estimators_"),
    "ExtraTreesRegressor": (_read_forest, "estimators_"),
    "ExtraTreesClassifier": (_read_forest, "estimators_"),
    "BaggingRegressor": (_read_bagging, "estimators_"),
    "BaggingClassifier": (_read_bagging, "estimators_"),
    "GradientBoostingRegressor": (_read_boosting, "estimators_"),
    "GradientBoostingClassifier": (_read_boosting, "estimators_"),
    "AdaBoostClassifier": (_read_adaboost, "estimators_"),
    "HistGradientBoostingRegressor": (_read_hist, "_predictors"),
    "HistGradientBoostingClassifier": (_read_hist, "_predictors"),
    "Pipeline": (_read_pipeline, "steps"),
}
