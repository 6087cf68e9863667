"""Yggdrasil Decision Forests (ydf): gradient boosted trees, random forests and CART as a Forest.

The facts that the reader relies on:

- Numbers are cast to float32; a condition is x >= t. Discretized numbers are compared with a boundary in the same way.
- A category is a text: booleans are "true" and "false", whole numbers their decimals, and other numbers are refused. A
  condition is a set of items of the column's dictionary, whose item 0 stands for all texts that are not in it.
- Missing are NaN, None and the empty text. Each condition holds its own answer for them; the fast engines, which
  replace missing values instead, are used only where that gives the same.
- Booleans are never missing.
- Boosted trees add up from the initial predictions. Of K classes, tree i belongs to class i mod K; two classes have one
  score, the log-odds of the second. The loss POISSON predicts the exponential of the sum.
- Random forests average the leaves. Where `winner_takes_all` is set, the default for classification, each tree votes
  for the most frequent class of its leaf, the first of several.
- Oblique conditions use several columns at once, and columns of sets of texts or of vectors have no single value: both
  are refused, as are uplift, survival and anomaly models.

A model's folder is read through ydf, which must be installed.
"""

from __future__ import annotations

import dataclasses
import importlib
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Feature, Labels, Numeric, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_below
from treeanova.readers.checks import check_inside, damage_reported
from treeanova.readers.outputs import output_names, without_first_of_two, word_for

_READ = {
    "IsMissingInCondition",
    "IsTrueCondition",
    "NumericalHigherThanCondition",
    "DiscretizedNumericalHigherThanCondition",
    "CategoricalIsInCondition",
}
_OBLIQUE = 'its trees split on weighted sums of columns (oblique); train it with split_axis="AXIS_ALIGNED"'


@dataclasses.dataclass(frozen=True)
class Column:
    """A column of the data specification: its position among the features, and what its splits are made of."""

    position: int
    n_categories: int = 0
    boundaries: tuple[float, ...] = ()


@dataclasses.dataclass(frozen=True)
class Split:
    """A node: a closed bound, or for each category whether it goes left, the last one for unseen categories."""

    feature: int
    missing_left: bool
    bound: float = np.nan
    left_categories: tuple[bool, ...] = ()


def split_of(condition: Any, columns: dict[int, Column]) -> Split:
    """The node of a condition; UnsupportedModelError for conditions on several columns, or on none."""
    kind = type(condition).__name__
    if kind not in _READ:
        reason = _OBLIQUE if "Oblique" in kind else f"its trees have conditions of the kind {kind}, which is not read"
        raise UnsupportedModelError(f"the ydf model cannot be read: {reason}.")
    if condition.attribute not in columns:
        raise ModelFileError(
            f"conditions of a ydf model must be on its input features, got column {condition.attribute}; file damaged?"
        )
    column = columns[condition.attribute]
    if kind == "IsMissingInCondition":
        return Split(column.position, False, np.inf, (True,) * (column.n_categories + 1) if column.n_categories else ())
    missing_left = not condition.missing
    if kind == "NumericalHigherThanCondition":
        return Split(column.position, missing_left, _below(condition.threshold))
    if kind == "DiscretizedNumericalHigherThanCondition":
        return Split(column.position, missing_left, _below(column.boundaries[condition.threshold_idx - 1]))
    if kind == "IsTrueCondition":
        return Split(column.position, missing_left, left_categories=(True, False, True))
    return Split(column.position, missing_left, left_categories=_outside(condition.mask, column.n_categories))


def _below(threshold: float) -> float:
    return float(bound_below(np.float32(threshold)))


def _outside(mask: Any, n_categories: int) -> tuple[bool, ...]:
    """Whether each category is not in a set of dictionary items; item 0, for unseen categories, comes last."""
    items = set(mask)
    return (*(item not in items for item in range(1, n_categories + 1)), 0 not in items)


_FORESTS, _BOOSTED = "RandomForestModel", "GradientBoostedTreesModel"
_LOSSES = "yggdrasil_decision_forests.model.gradient_boosted_trees.gradient_boosted_trees_pb2"
_LINKS = {
    "identity": "SQUARED_ERROR MEAN_AVERAGE_ERROR LAMBDA_MART_NDCG LAMBDA_MART_NDCG5 XE_NDCG_MART",
    "log": "POISSON",
    "logit": "BINOMIAL_LOG_LIKELIHOOD BINARY_FOCAL_LOSS",
    "softmax": "MULTINOMIAL_LOG_LIKELIHOOD",
}
_OBJECTIVES = {
    "squared": "SQUARED_ERROR",
    "absolute": "MEAN_AVERAGE_ERROR",
    "poisson": "POISSON",
    "log": "BINOMIAL_LOG_LIKELIHOOD",
    "multiclass": "MULTINOMIAL_LOG_LIKELIHOOD",
    "pairwise": "LAMBDA_MART_NDCG LAMBDA_MART_NDCG5 XE_NDCG_MART",
}
_TASKS = {"CLASSIFICATION", "REGRESSION", "RANKING"}
_BOOLEAN = Labels((False, True))


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a model's folder, which ydf loads."""
    path = pathlib.Path(path)
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
    """The Forest of a trained model; its score is the sum of leaves, before the logistic function or the softmax."""
    kind = next((cls.__name__ for cls in type(model).__mro__ if cls.__name__ in {_FORESTS, _BOOSTED}), None)
    if kind is None or model.task().name not in _TASKS:
        task = f" for the task {model.task().name}" if hasattr(model, "task") else ""
        raise UnsupportedModelError(
            f"`model` must be a ydf model of boosted trees, a random forest or CART for classification, regression or "
            f"ranking, got {type(model).__name__}{task}; its prediction is no sum over leaves."
        )
    features, columns = _features(model)
    nodes = _Nodes(columns)
    trees = [nodes.add(tree.root) for tree in model.iter_trees()]
    if not trees:
        raise UnsupportedModelError("`model` must have trees, got a ydf model without; train it on more rows.")
    owner = np.repeat(np.arange(len(trees)), np.diff([*trees, len(nodes.value)]))
    classes = tuple(model.label_classes()) if model.task().name == "CLASSIFICATION" else ()
    content = _forest_values(model, nodes.value, classes) if kind == _FORESTS else _boosted(model, nodes.value, owner)
    values, intercept, link, objective = content
    outputs = output_names(values.shape[1], classes)
    schema = Schema(features, outputs, link, named=True, classes=classes, single_integers=True, objective=objective)
    return assemble(schema, intercept, roots=trees, values=values, **nodes.arrays())


# Columns


def _features(model: Any) -> tuple[tuple[Feature, ...], dict[int, Column]]:
    """The input features, and what conditions need to know of their columns, by the number of the column."""
    features, columns = [], {}
    specification = model.data_spec().columns
    for position, given in enumerate(model.input_features()):
        spec, semantic = specification[given.column_idx], given.semantic.name
        n_categories, boundaries = 0, ()
        if semantic == "CATEGORICAL":
            names = _dictionary(spec)
            features.append(Feature(given.name, Labels(names, "text", empty_is_missing=True)))
            n_categories = len(names)
        elif semantic == "BOOLEAN":
            features.append(Feature(given.name, _BOOLEAN, accepts_missing=False, accepts_unseen=False))
            n_categories = 2
        elif semantic not in {"NUMERICAL", "DISCRETIZED_NUMERICAL"}:
            raise UnsupportedModelError(
                f"the ydf model cannot be read: column {given.name!r} must hold numbers, booleans or categories, got "
                f"{semantic}, which has no single value; make columns of single values of it."
            )
        else:
            features.append(Feature(given.name, Numeric(cast="float32")))
            boundaries = tuple(spec.discretized_numerical.boundaries)
        columns[given.column_idx] = Column(position, n_categories, boundaries)
    return tuple(features), columns


def _dictionary(spec: Any) -> tuple[str, ...]:
    """Texts of the categories of a column, from item 1 on."""
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


# Nodes


class _Nodes:
    """Nodes of all trees, appended one by one; a condition that is false leads to the left."""

    def __init__(self, columns: dict[int, Column]) -> None:
        self.columns = columns
        self.split: list[Split | None] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.leaf_label: list[int] = []
        self.value: list[Any] = []

    def add(self, root: Any) -> int:
        """Append a tree, and give the position of its root; leaves are numbered as ydf does."""
        start, n_leaves = len(self.split), 0
        waiting: list[tuple[Any, list[int] | None, int]] = [(root, None, 0)]
        while waiting:
            node, side, parent = waiting.pop()
            position = len(self.split)
            if side is not None:
                side[parent] = position
            self.split.append(None if node.is_leaf else split_of(node.condition, self.columns))
            self.left.append(-1)
            self.right.append(-1)
            self.value.append(node.value if node.is_leaf else None)
            self.leaf_label.append(n_leaves)
            n_leaves += node.is_leaf
            if not node.is_leaf:
                waiting += [(node.pos_child, self.right, position), (node.neg_child, self.left, position)]
        return start

    def arrays(self) -> dict[str, Any]:
        """Arguments of `assemble`."""
        sets = [split.left_categories if split else () for split in self.split]
        sizes = np.array([len(one) for one in sets], dtype=np.int64)
        return {
            "feature": [split.feature if split else -1 for split in self.split],
            "bound": [split.bound if split and not split.left_categories else 0.0 for split in self.split],
            "left": self.left,
            "right": self.right,
            "missing_left": [bool(split and split.missing_left) for split in self.split],
            "leaf_label": self.leaf_label,
            "category_start": np.where(sizes > 0, np.cumsum(sizes) - sizes, -1),
            "category_left": [entry for one in sets for entry in one],
        }


# Leaves


def _forest_values(model: Any, leaves: Sequence[Any], classes: tuple[str, ...]) -> tuple[Floats, Floats, str, str]:
    """The mean over trees of values, of class probabilities, or of votes."""
    if not classes:
        values = np.array([[0.0 if leaf is None else leaf.value] for leaf in leaves])
        return values / model.num_trees(), np.zeros(1), "identity", "squared"
    shares = np.array([[0.0] * len(classes) if leaf is None else leaf.probability for leaf in leaves])
    if model.winner_takes_all():
        shares = (shares.argmax(axis=1)[:, None] == np.arange(len(classes))).astype(np.float64)
    values = without_first_of_two(shares)
    return values / model.num_trees(), np.zeros(values.shape[1]), "probability", "brier"


def _boosted(model: Any, leaves: Sequence[Any], owner: Any) -> tuple[Floats, Floats, str, str]:
    """Values in the columns of their classes, the initial predictions, and the link and the name of the loss."""
    n_outputs = model.num_trees_per_iteration()
    values = np.zeros((len(leaves), n_outputs))
    plain = [0.0 if leaf is None else leaf.value for leaf in leaves]
    values[np.arange(len(leaves)), owner % n_outputs] = plain
    loss = importlib.import_module(_LOSSES).Loss.Name(model._model.loss())  # noqa: SLF001  no public form
    intercept = np.asarray(model.initial_predictions(), dtype=np.float64)
    return values, intercept, word_for(loss, _LINKS, "other"), word_for(loss, _OBJECTIVES, loss)


__all__ = ["read", "read_file"]
