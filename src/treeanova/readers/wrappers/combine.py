"""Forests of several members as one: columns and schemas brought together, weighted sums, and outputs side by side."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Encoder, Feature, Numeric, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, weighted_sum
from treeanova.model.union import same_or_none
from treeanova.readers.columnwise.columns import DoubleNumber
from treeanova.readers.outputs import common_objective, objective_of_probabilities, plain_labels
from treeanova.readers.xgboost.columns import Number


class Member(NamedTuple):
    """A forest inside a wrapper, and the columns of the wrapper's data that it sees; None for all."""

    forest: Forest
    columns: Ints | None = None


def summed(wrapper: Any, members: Sequence[Member], factors: Sequence[float] | Floats) -> Forest:
    """The weighted sum of members, with the outputs and the link of the first."""
    forests = _aligned(wrapper, members)
    objective = common_objective(forest.schema.objective for forest in forests)
    first = dataclasses.replace(forests[0].schema, objective=objective)
    for forest in forests[1:]:
        if len(forest.schema.outputs) != len(first.outputs):
            raise refusal(wrapper, "its members have different numbers of outputs")
    return weighted_sum([forest.with_schema(first) for forest in forests], [float(factor) for factor in factors])


def side_by_side(wrapper: Any, members: Sequence[Member], outputs: Sequence[str], link: str) -> Forest:
    """One output for each member, which has one itself."""
    forests = _aligned(wrapper, members)
    if any(forest.n_outputs != 1 for forest in forests):
        raise refusal(
            wrapper, "each of its members must have one output (a number, or two classes); read them one by one"
        )
    objective = common_objective(forest.schema.objective for forest in forests)
    schema = dataclasses.replace(forests[0].schema, outputs=tuple(outputs), link=link, classes=(), objective=objective)
    wide = [_in_output(forest, k, schema) for k, forest in enumerate(forests)]
    return weighted_sum(wide, [1.0] * len(wide))


def affine(forest: Forest, slope: npt.ArrayLike, shift: npt.ArrayLike) -> Forest:
    """The forest whose score is slope × score + shift, for each output."""
    slopes, shifts = np.asarray(slope, dtype=np.float64), np.asarray(shift, dtype=np.float64)
    return dataclasses.replace(forest, intercept=forest.intercept * slopes + shifts, values=forest.values * slopes)


def with_classes(wrapper: Any, forest: Forest, link: str) -> Forest:
    """The forest with the classes of the wrapper: one output for two of them, else one for each."""
    classes = plain_labels(wrapper.classes_)
    if forest.n_outputs != (1 if len(classes) == 2 else len(classes)):
        raise refusal(wrapper, f"its members must know all of its {len(classes)} classes")
    outputs = ("score",) if len(classes) == 2 else tuple(str(label) for label in classes)
    objective = objective_of_probabilities(link)
    return forest.with_schema(
        dataclasses.replace(forest.schema, outputs=outputs, link=link, classes=classes, objective=objective)
    )


def refusal(wrapper: Any, reason: str) -> UnsupportedModelError:
    """The error that says why a wrapper is not read."""
    return UnsupportedModelError(f"{type(wrapper).__name__} cannot be read: {reason}.")


def _in_output(forest: Forest, k: int, schema: Schema) -> Forest:
    """The forest with its only output as the k-th of several; the others are zero."""
    intercept, values = np.zeros(len(schema.outputs)), np.zeros((forest.n_leaves, len(schema.outputs)))
    intercept[k], values[:, k] = forest.intercept[0], forest.values[:, 0]
    return dataclasses.replace(forest, schema=schema, intercept=intercept, values=values)


# Columns


def _aligned(wrapper: Any, members: Sequence[Member]) -> list[Forest]:
    """The members' forests on the wrapper's columns, all with its features."""
    forests = [member.forest for member in members]
    columns = [np.arange(len(f.schema.features)) if c is None else np.asarray(c) for f, c in members]
    n_features = getattr(wrapper, "n_features_in_", None) or int(max(seen.max(initial=-1) for seen in columns)) + 1
    for forest, seen in zip(forests, columns, strict=True):
        if len(forest.schema.features) != len(seen) or seen.max(initial=-1) >= n_features:
            raise refusal(wrapper, f"its members must see its {n_features} columns")
    features = [
        _common(
            wrapper, j, [f.schema.features[k] for f, seen in zip(forests, columns, strict=True) for k in _at(seen, j)]
        )
        for j in range(n_features)
    ]
    names, named = _names(wrapper, members, n_features)
    common = {
        "features": tuple(dataclasses.replace(f, name=name) for f, name in zip(features, names, strict=True)),
        "named": named,
        "absent": same_or_none([f.schema.absent for f in forests]),
        "single_integers": same_or_none([f.schema.single_integers for f in forests]),
        "underscores": False,
    }
    return [
        dataclasses.replace(
            forest,
            schema=dataclasses.replace(forest.schema, **common),
            feature=np.where(forest.feature < 0, -1, seen[np.maximum(forest.feature, 0)]),
        )
        for forest, seen in zip(forests, columns, strict=True)
    ]


def _at(seen: Ints, j: int) -> list[int]:
    """Positions of a column among those that a member sees: bags may draw one twice."""
    positions: list[int] = np.flatnonzero(seen == j).tolist()
    return positions


def _common(wrapper: Any, j: int, features: Sequence[Feature]) -> Feature:
    """One way to read a column for all members that see it."""
    if not features:
        return Feature(f"x{j}")
    encoders = [feature.encoder for feature in features]
    if any(encoder != encoders[0] for encoder in encoders):
        if not all(_is_plain_number(encoder) for encoder in encoders):
            raise refusal(
                wrapper, f"its members read column {features[0].name!r} in different ways (categories, missing values)"
            )
        encoders = [DoubleNumber() if DoubleNumber() in encoders else Numeric()]
    return Feature(
        features[0].name,
        encoders[0],
        accepts_missing=all(feature.accepts_missing for feature in features),
        accepts_unseen=all(feature.accepts_unseen for feature in features),
    )


def _is_plain_number(encoder: Encoder) -> bool:
    """Whether a column is read as numbers of which only NaN is missing."""
    return type(encoder) in {Numeric, Number, DoubleNumber} and bool(np.isnan(getattr(encoder, "missing", np.nan)))


def _names(wrapper: Any, members: Sequence[Member], n_features: int) -> tuple[list[str], bool]:
    """Names of the wrapper's columns: its own, else those of a member that sees all of them, else numbers."""
    names = getattr(wrapper, "feature_names_in_", None)
    if names is not None:
        return [str(name) for name in names], True
    whole = [member.forest.schema for member in members if member.columns is None and member.forest.schema.named]
    if whole:
        return list(whole[0].names), True
    return [f"x{j}" for j in range(n_features)], False
