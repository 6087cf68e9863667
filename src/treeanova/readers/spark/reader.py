"""Reads Spark's models from their folders, and models in memory through a temporary folder."""

from __future__ import annotations

import dataclasses
import pathlib
import tempfile
from collections.abc import Hashable
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers.checks import check_size, damage_reported, decimal_number, whole_number
from treeanova.readers.spark.columns import check_stages, columns_of, labels_of
from treeanova.readers.spark.folder import Stage, open_folder
from treeanova.readers.spark.forest import Row, forest_of

_TREES = {"DecisionTreeRegressionModel", "DecisionTreeClassificationModel"}
_FORESTS = {"RandomForestRegressionModel", "RandomForestClassificationModel"}
_BOOSTED = {"GBTRegressionModel", "GBTClassificationModel"}
_MAX_CLASSES = 100_000


def read(model: Any) -> Forest:
    """The Forest of a fitted model or PipelineModel in memory."""
    model = getattr(model, "bestModel", model)  # CrossValidatorModel, TrainValidationSplitModel
    if not hasattr(model, "write") or not type(model).__name__.endswith("Model"):
        raise UnsupportedModelError(f"`model` must be a fitted Spark model, got {type(model).__name__}; fit it first.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model"
        model.write().save(path.as_uri())
        if not path.is_dir():
            raise UnsupportedModelError(
                "`model` must be saved to a folder of this machine, got none from a Spark that runs elsewhere; save it "
                "with model.write().save() and pass the path of a local copy."
            )
        return read_file(path)


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a saved model or PipelineModel; Spark is not needed."""
    path = pathlib.Path(path)
    with damage_reported("a folder of a Spark model", path):
        return _read(open_folder(path))


def _read(saved: Stage) -> Forest:
    *before, model = [stage for stage in saved.stages() if stage.kind != "IndexToString"]
    if model.kind not in _TREES | _FORESTS | _BOOSTED:
        raise UnsupportedModelError(
            f"`model` must be a Spark model of trees ({', '.join(sorted(_TREES | _FORESTS | _BOOSTED))}), alone or at "
            f"the end of a PipelineModel, got {model.kind}."
        )
    check_stages(before)
    columns, named = columns_of(before, model)
    trees, weights = _trees(model)
    schema = dataclasses.replace(_schema(model, before), named=named)
    values = _values(model, trees, weights)
    kept = values[:, -len(schema.outputs) :]  # of two probabilities, that of the second class
    return forest_of(trees, columns, kept, schema)


def _trees(model: Stage) -> tuple[list[list[Row]], Floats]:
    """Nodes of each tree by their numbers, and the weights of the trees."""
    rows = model.rows("data")
    if model.kind in _TREES:
        return [sorted(rows, key=lambda node: node["id"])], np.ones(1)
    listed = [row.values() for row in model.rows("treesMetadata")]
    weights = {whole_number(tree): decimal_number(weight) for tree, _, weight in listed}
    if model.kind in _FORESTS and set(weights.values()) != {1.0}:
        raise ModelFileError("trees of a Spark forest must have the weight 1, got others; folder damaged?")
    nodes: dict[int, list[Row]] = {tree: [] for tree in sorted(weights)}
    for row in rows:
        nodes[whole_number(row["treeID"])].append(row["nodeData"])
    n_trees = whole_number(model.content.get("numTrees", len(listed)))
    if not len(nodes) == len(listed) == n_trees or not all(nodes.values()):
        raise ModelFileError(f"{model.path.name} must hold all of its trees, got {len(nodes)}; folder damaged?")
    return [sorted(tree, key=lambda node: node["id"]) for tree in nodes.values()], np.array(
        [weights[tree] for tree in nodes]
    )


def _values(model: Stage, trees: list[list[Row]], weights: Floats) -> Floats:
    """Leaf values, which include the weights of trees."""
    nodes = [node for tree in trees for node in tree]
    weight = np.repeat(weights, [len(tree) for tree in trees])[:, None]
    if model.kind == "GBTClassificationModel":
        weight = 2 * weight  # the log-odds are twice the sum
    if model.kind in _FORESTS:
        weight = weight / len(trees)
    if model.kind in _BOOSTED or model.kind.endswith("RegressionModel"):
        predictions: Floats = weight * np.array([[decimal_number(node["prediction"])] for node in nodes])
        return predictions
    counts = np.array([node["impurityStats"] for node in nodes], dtype=np.float64)
    n_classes = _n_classes(model)
    if counts.shape != (len(nodes), n_classes) or not (counts >= 0).all():
        raise ModelFileError(f"nodes of Spark's trees must have counts of {n_classes} classes, got others.")
    shares: Floats = counts / np.maximum(counts.sum(axis=1, keepdims=True), np.finfo(np.float64).tiny)
    values: Floats = weight * shares
    return values


def _n_classes(model: Stage) -> int:
    n_classes = whole_number(model.content.get("numClasses", 2))
    check_size("classes", n_classes, _MAX_CLASSES)
    if n_classes < 2:
        raise UnsupportedModelError("a Spark classifier must have two or more classes, got one; train it on more.")
    return n_classes


def _schema(model: Stage, before: list[Stage]) -> Schema:
    """Outputs, link and classes; the features are added later."""
    if model.kind.endswith("RegressionModel"):
        loss = str(model.parameter("lossType", "squared")) if model.kind in _BOOSTED else "squared"
        return Schema((), objective=loss)
    n_classes = _n_classes(model)
    labels = labels_of(before, model.parameter("labelCol", "label"))
    classes: tuple[Hashable, ...] = labels if len(labels) == n_classes else tuple(float(k) for k in range(n_classes))
    outputs = ("score",) if n_classes == 2 else tuple(str(label) for label in classes)
    link, objective = ("logit", "log") if model.kind in _BOOSTED else ("probability", "brier")
    return Schema((), outputs, link, classes=classes, objective=objective)
