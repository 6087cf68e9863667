"""Reads PMML documents."""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Feature, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, assemble
from treeanova.readers.checks import damage_reported, decimal_number
from treeanova.readers.pmml.document import Element, parse
from treeanova.readers.pmml.fields import read_fields, refusal
from treeanova.readers.pmml.predicates import predicate_of
from treeanova.readers.pmml.trees import TreeBuilder

_VOTES = {"majorityVote", "weightedMajorityVote"}
_METHODS = {"sum", "average", "weightedAverage", "weightedSum"} | _VOTES


def read(model: Any) -> Forest:
    """Models in memory of other classes are refused: PMML is a file format."""
    raise UnsupportedModelError(f"PMML must be given as the path of a file, got {type(model).__name__}; save it first.")


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a .pmml file."""
    path = pathlib.Path(path)
    with damage_reported("a PMML document", path):
        try:
            return _read(parse(path.read_bytes()))
        except RecursionError as error:
            raise refusal("its trees are too deep; train it with a lower depth") from error


class _Part(NamedTuple):
    """A TreeModel and its share in the score; whether it votes for a class."""

    model: Element
    factor: float
    is_vote: bool


def _read(document: Element) -> Forest:
    models = [child for child in document.children if child.name.endswith(("Model", "Network", "Scorecard"))]
    if document.name != "PMML" or len(models) != 1:
        raise refusal(f"it must have one model, got {len(models)}")
    model = models[0]
    fields = read_fields(document, model)
    function = model.get("functionName")
    if function not in {"regression", "classification"}:
        raise refusal(f"its functionName must be regression or classification, got {function!r:.40}")
    is_classifier = function == "classification"
    classes = _classes(document, model) if is_classifier else ()
    builder = TreeBuilder(fields, sum(1 for _ in document.below("Node")))
    parts, constant = _parts(model, is_classifier=is_classifier)
    roots = [builder.add(part.model, functools.partial(_values, part=part, classes=classes)) for part in parts]
    n_outputs = max(1, len(classes))
    arrays = builder.arrays(n_outputs)
    schema = Schema(tuple(_accepting(builder, j, feature) for j, feature in enumerate(fields.features)), named=True)
    if is_classifier:
        outputs = ("score",) if n_outputs == 2 else classes
        schema = dataclasses.replace(schema, outputs=outputs, link="probability", classes=classes, objective="brier")
        arrays["values"] = arrays["values"][:, -len(outputs) :]
    return assemble(schema, np.full(len(schema.outputs), constant), roots=roots, **arrays)


def _accepting(builder: TreeBuilder, j: int, feature: Feature) -> Feature:
    """The feature, without missing values and unseen categories for which there is no prediction."""
    return dataclasses.replace(
        feature,
        accepts_missing=feature.accepts_missing and j not in builder.without_missing,
        accepts_unseen=feature.accepts_unseen and j not in builder.without_unseen,
    )


# Models in models


def _parts(model: Element, *, is_classifier: bool) -> tuple[list[_Part], float]:
    """All TreeModels with their factors, and the constant that is added."""
    slope, constant = _rescaling(model)
    if model.name == "TreeModel":
        return [_Part(model, slope, False)], constant
    segmentation = model.first("Segmentation") if model.name == "MiningModel" else None
    if segmentation is None:
        raise refusal(f"models must be TreeModel or MiningModel with segments, got {model.name}")
    method = segmentation.get("multipleModelMethod")
    if method not in _METHODS or (is_classifier and method in {"sum", "weightedSum"}):
        raise refusal(f"segments must be added up or averaged, got multipleModelMethod={method!r}")
    segments = segmentation.all("Segment")
    parts = []
    for segment, factor in zip(segments, _factors(segments, method), strict=True):
        if predicate_of(segment).name != "True":
            raise refusal("segments must be for all rows, got a predicate")
        inner = [child for child in segment.children if child.name.endswith("Model")]
        if len(inner) != 1:
            raise refusal(f"segments must have one model each, got {len(inner)}")
        nested, shift = _parts(inner[0], is_classifier=is_classifier)
        if method in _VOTES and inner[0].name != "TreeModel":
            raise refusal("votes must be those of trees, got votes of ensembles")
        parts += [_Part(m, slope * factor * f, is_vote or method in _VOTES) for m, f, is_vote in nested]
        constant += slope * factor * shift
    return parts, constant


def _factors(segments: list[Element], method: str) -> Floats:
    weights = np.array([decimal_number(segment.get("weight", "1")) for segment in segments])
    if not method.startswith("weighted"):
        weights = np.ones(len(segments))
    return weights if method in {"sum", "weightedSum"} else weights / weights.sum()


def _rescaling(model: Element) -> tuple[float, float]:
    """Factor and constant that a model's Targets apply to its prediction."""
    targets = model.first("Targets")
    found = targets.all("Target") if targets else []
    for target in found:
        if {"min", "max", "castInteger"} & set(target.attributes):
            raise refusal("Targets must rescale only, got bounds or a cast to integers")
    if not found:
        return 1.0, 0.0
    return decimal_number(found[0].get("rescaleFactor", "1")), decimal_number(found[0].get("rescaleConstant", "0"))


# Classes and leaves


def _classes(document: Element, model: Element) -> tuple[str, ...]:
    """Labels of the target's classes: those that the field lists, else those that leaves name."""
    schema = model.first("MiningSchema")
    usages = {"predicted", "target"}
    targets = [field.get("name") for field in (schema.children if schema else ()) if field.get("usageType") in usages]
    listed = [
        value.get("value")
        for field in document.below("DataField")
        if field.get("name") in targets
        for value in field.all("Value")
    ]
    found = tuple(dict.fromkeys(listed or sorted(_named(model))))
    if len(found) < 2:
        raise refusal("a classifier must have two or more classes")
    return found


def _named(model: Element) -> Iterator[str]:
    for distribution in model.below("ScoreDistribution"):
        yield distribution.get("value")


def _values(node: Element, part: _Part, classes: tuple[str, ...]) -> Floats:
    """The score of a node, or the shares of classes in it."""
    if not classes:
        return np.array([part.factor * decimal_number(node.attributes["score"])])
    if part.is_vote:
        return part.factor * np.array([float(label == node.attributes["score"]) for label in classes])
    listed = node.all("ScoreDistribution")
    shares = {one.get("value"): _share(one) for one in listed}
    is_whole = len(shares) == len(listed) and all(share >= 0 for share in shares.values())
    if not shares or not set(shares) <= set(classes) or not is_whole:
        raise refusal("leaves of a classifier must have a ScoreDistribution of its classes")
    found = np.array([shares.get(label, 0.0) for label in classes])
    values: Floats = part.factor * found / found.sum()
    return values


def _share(distribution: Element) -> float:
    return decimal_number(distribution.get("probability") or distribution.attributes["recordCount"])
