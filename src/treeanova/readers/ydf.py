"""Yggdrasil Decision Forests (ydf): gradient boosted trees, random forests and CART as a Forest.

Facts:

- Numbers are cast to float32; a condition is x >= t. Discretized numbers are compared with a boundary in the same way.
- A category is a text: booleans are "true" and "false", whole numbers their decimals, and other numbers are refused. A
  condition is a set of items of the column's dictionary, whose item 0 stands for all texts that are not in it.
- Missing are NaN, None and the empty text. Each condition holds its own answer for them; the fast engines, which
  replace missing values instead, are used only if that gives the same.
- Booleans are never missing.
- Boosted trees add up from the initial predictions. Of K classes, tree i belongs to class i mod K; two classes have one
  score, the log-odds of the second. The loss POISSON predicts the exponential of the sum.
- Random forests average the leaves. With `winner_takes_all`, the default for classification, each tree votes for the
  most frequent class of its leaf, the first of several.
- Oblique conditions use several columns at once, and columns of sets of texts or of vectors have no single value: both
  are refused, as are uplift, survival and anomaly models.

A model's folder is read through ydf, which must be installed.
"""

from __future__ import annotations

import functools
import importlib
import pathlib
from collections.abc import Callable
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Feature, Labels, Numeric, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, TreeBuilder, bound_below
from treeanova.readers.checks import check_inside, damage_reported, damaged
from treeanova.readers.outputs import class_outputs, link_and_objective, output_names, without_first_of_two

_CONDITIONS = {
    "IsMissingInCondition", "IsTrueCondition", "NumericalHigherThanCondition",
    "DiscretizedNumericalHigherThanCondition", "CategoricalIsInCondition",
}  # fmt: skip
_OBLIQUE = 'its trees split on weighted sums of columns (oblique); train it with split_axis="AXIS_ALIGNED"'
# A column's position among the features, its number of categories (0 for numbers), and the ends of discretized numbers.
Column = tuple[int, int, tuple[float, ...]]
_FORESTS, _BOOSTED = "RandomForestModel", "GradientBoostedTreesModel"
_LOSSES = "yggdrasil_decision_forests.model.gradient_boosted_trees.gradient_boosted_trees_pb2"
_WORDS = {
    "identity squared": "SQUARED_ERROR", "identity absolute": "MEAN_AVERAGE_ERROR",
    "identity pairwise": "LAMBDA_MART_NDCG LAMBDA_MART_NDCG5 XE_NDCG_MART", "log poisson": "POISSON",
    "logit log": "BINOMIAL_LOG_LIKELIHOOD", "logit": "BINARY_FOCAL_LOSS",
    "softmax multiclass": "MULTINOMIAL_LOG_LIKELIHOOD",
}  # fmt: skip
# What leaves add to the outputs, from a leaf's value and the output of its tree; the intercept, link and objective.
_Scores = tuple[Callable[..., Floats], Floats, str, str]


def _split_of(condition: Any, columns: dict[int, Column]) -> dict[str, Any]:
    """Return a condition as arguments of `TreeBuilder.append`; refuse those on several columns."""
    kind = type(condition).__name__
    if kind not in _CONDITIONS:
        reason = _OBLIQUE if "Oblique" in kind else f"its trees have conditions of the kind {kind}, which is not read"
        raise UnsupportedModelError(f"the ydf model cannot be read: {reason}.")
    if condition.attribute not in columns:
        raise damaged(f"conditions of a ydf model must be on its input features, got column {condition.attribute}")
    position, n_categories, boundaries = columns[condition.attribute]
    split: dict[str, Any] = {"feature": position, "missing_left": not condition.missing}  # left if it is false
    if kind == "IsMissingInCondition":
        split["missing_left"] = False  # missing values go right, all others left
        return split | ({"categories": [True] * (n_categories + 1)} if n_categories else {"bound": np.inf})
    if kind.endswith("NumericalHigherThanCondition"):
        is_discretized = kind.startswith("Discretized")
        threshold = boundaries[condition.threshold_idx - 1] if is_discretized else condition.threshold
        return split | {"bound": float(bound_below(np.float32(threshold)))}
    if kind == "IsTrueCondition":
        return split | {"categories": [True, False, True]}  # False and unseen values go left
    items = set(condition.mask)  # of the dictionary; item 0, for unseen categories, comes last here
    return split | {"categories": [item not in items for item in (*range(1, n_categories + 1), 0)]}


def read_file(path: pathlib.Path) -> Forest:
    """Read a model's folder, which ydf loads."""
    try:
        ydf = importlib.import_module("ydf")
    except ImportError as error:
        raise UnsupportedModelError(
            f"`model` is a folder of ydf ({path}), which ydf must load, got no ydf; install it."
        ) from error
    with damage_reported("a folder of a ydf model", path):
        check_inside(path)
        try:
            model = ydf.load_model(str(path))
        except Exception as error:  # ydf has errors of its own
            raise ModelFileError(
                f"it must be a whole folder of ydf, got {type(error).__name__}: {str(error)[:200]}; folder damaged?"
            ) from error
        return read(model)


def read(model: Any) -> Forest:
    """Read a model in memory through the Python objects of its trees."""
    kind = next((cls.__name__ for cls in type(model).__mro__ if cls.__name__ in {_FORESTS, _BOOSTED}), None)
    if kind is None or model.task().name not in {"CLASSIFICATION", "REGRESSION", "RANKING"}:
        task = f" for the task {model.task().name}" if hasattr(model, "task") else ""
        raise UnsupportedModelError(
            f"`model` must be a ydf model of boosted trees, a random forest or CART for classification, regression or "
            f"ranking, got {type(model).__name__}{task}; its prediction is no sum over leaves."
        )
    features, columns = _features(model)
    trees = list(model.iter_trees())
    if not trees:
        raise UnsupportedModelError("`model` must have trees, got a ydf model without; train it on more rows.")
    classes = tuple(model.label_classes()) if model.task().name == "CLASSIFICATION" else ()
    scores = _forest_scores(model, classes) if kind == _FORESTS else _boosted_scores(model)
    leaf_values, intercept, link, objective = scores
    builder = TreeBuilder()
    roots = [
        _add_tree(builder, tree.root, columns, functools.partial(leaf_values, output=k % len(intercept)))
        for k, tree in enumerate(trees)
    ]
    outputs = output_names(len(intercept), classes)
    schema = Schema(features, outputs, link, named=True, classes=classes, single_integers=True, objective=objective)
    return builder.forest(schema, intercept, roots)


def _features(model: Any) -> tuple[tuple[Feature, ...], dict[int, Column]]:
    """Return the features, and by ydf's number of a column what conditions on it need."""
    features: list[Feature] = []
    columns: dict[int, Column] = {}
    specification = model.data_spec().columns
    for position, source in enumerate(model.input_features()):
        spec, semantic = specification[source.column_idx], source.semantic.name
        n_categories, boundaries = 0, ()
        if semantic == "CATEGORICAL":
            names = _texts_of_items(spec)
            features.append(Feature(source.name, Labels(names, "text", missing=("",))))
            n_categories = len(names)
        elif semantic == "BOOLEAN":
            features.append(Feature(source.name, Labels((False, True)), accepts_missing=False, accepts_unseen=False))
            n_categories = 2
        elif semantic not in {"NUMERICAL", "DISCRETIZED_NUMERICAL"}:
            raise UnsupportedModelError(
                f"the ydf model cannot be read: column {source.name!r} must hold numbers, booleans or categories, got "
                f"{semantic}, which has no single value; make columns of single values of it."
            )
        else:
            features.append(Feature(source.name, Numeric(cast="float32")))
            boundaries = tuple(spec.discretized_numerical.boundaries)
        columns[source.column_idx] = position, n_categories, boundaries
    return tuple(features), columns


def _texts_of_items(spec: Any) -> tuple[str, ...]:
    """Return the texts of a column's dictionary, without item 0, which stands for all others."""
    if spec.categorical.is_already_integerized:
        raise UnsupportedModelError(
            f"the ydf model cannot be read: column {spec.name!r} holds positions in a dictionary that the model does "
            "not have; train it on texts."
        )
    texts = {item.index: key for key, item in spec.categorical.items.items()}
    n_items = spec.categorical.number_of_unique_values
    if set(texts) != set(range(n_items)):
        raise ModelFileError(f"column {spec.name!r} must have a text for each of {n_items} items, got others.")
    return tuple(texts[index] for index in range(1, n_items))


def _add_tree(trees: TreeBuilder, root: Any, columns: dict[int, Column], leaf_values: Callable[[Any], Floats]) -> int:
    """Append a tree and return its root; leaves are numbered as ydf does. A condition that is false leads left."""
    start, n_leaves = len(trees), 0
    # Nodes with the children's list (left or right) and the parent to which they are linked; None for the root.
    waiting: list[tuple[Any, list[int] | None, int]] = [(root, None, 0)]
    while waiting:
        node, children, parent = waiting.pop()
        if children is not None:
            children[parent] = len(trees)
        if node.is_leaf:
            trees.append(values=leaf_values(node.value), label=n_leaves)
            n_leaves += 1
        else:
            position = trees.append(**_split_of(node.condition, columns))
            waiting += [(node.pos_child, trees.right, position), (node.neg_child, trees.left, position)]
    return start


def _forest_scores(model: Any, classes: tuple[str, ...]) -> _Scores:
    """Return for a random forest a function for the values of a leaf, the intercept, the link and the objective."""
    n_trees, winner_takes_all = model.num_trees(), bool(classes) and model.winner_takes_all()

    def leaf_values(leaf: Any, *, output: int) -> Floats:  # noqa: ARG001 - each leaf has values for all outputs
        values = np.array(leaf.probability if classes else [leaf.value], dtype=np.float64)
        if winner_takes_all:
            values = (np.arange(len(classes)) == values.argmax()).astype(np.float64)
        return np.asarray((without_first_of_two(values) if classes else values) / n_trees)

    n_outputs = len(class_outputs(classes)) if classes else 1
    link, objective = ("probability", "brier") if classes else ("identity", "squared")
    return leaf_values, np.zeros(n_outputs), link, objective


def _boosted_scores(model: Any) -> _Scores:
    """Return for boosted trees a function for the values of a leaf, the intercept, the link and the objective."""
    n_outputs = model.num_trees_per_iteration()
    loss = importlib.import_module(_LOSSES).Loss.Name(model._model.loss())  # noqa: SLF001  no public form
    intercept = np.asarray(model.initial_predictions(), dtype=np.float64)
    columns = np.eye(n_outputs)
    return lambda leaf, output: columns[output] * leaf.value, intercept, *link_and_objective(loss, _WORDS)
