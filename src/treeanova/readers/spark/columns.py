"""Columns that enter a Spark pipeline, and the numbers that its trees see in their place."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Feature, Labels
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import check_size, whole_number
from treeanova.readers.spark.folder import Stage
from treeanova.readers.ydf.columns import TextItems

_MAX_COLUMNS = 1_000_000


@dataclasses.dataclass(frozen=True)
class Column:
    """A feature, and what trees see of it: itself if `seen` is None, else a number for each category.

    The last two entries of `seen` are for unseen and for missing categories; NaN where they have no prediction.
    """

    feature: Feature
    seen: Floats | None = None


def columns_of(stages: Sequence[Stage], model: Stage) -> tuple[tuple[Column, ...], bool]:
    """The columns that enter a pipeline, in the order of the model's features, and whether they have names."""
    n_features = whole_number(model.content.get("numFeatures", 0))
    check_size("columns", n_features, _MAX_COLUMNS)
    if not stages:
        return tuple(Column(Feature(f"x{j}")) for j in range(n_features)), False
    indexers = _indexers(stages)
    vector = model.parameter("featuresCol", "features")
    vector_indexer = _producer(stages, "VectorIndexerModel", vector)
    if vector_indexer is not None:
        vector = vector_indexer.parameter("inputCol")
    assembler = _producer(stages, "VectorAssembler", vector)
    if assembler is None:
        raise _refusal(f"its features must come from a VectorAssembler, got the column {vector!r} from elsewhere")
    names = _names(assembler, "inputCols")
    if len(names) != n_features:
        raise _refusal(
            f"its VectorAssembler must join {n_features} columns of single numbers, got {len(names)} columns"
        )
    keeps = _keeps_invalid(assembler)
    columns = [_indexed(indexers[name]) if name in indexers else _number(name, keeps=keeps) for name in names]
    raw = [column.feature.name for column in columns]
    doubled = sorted({name for name in raw if raw.count(name) > 1})
    if doubled:
        raise _refusal(f"each column must enter its trees once, got {doubled[0]!r} twice")
    if vector_indexer is not None:
        columns = _mapped(columns, vector_indexer)
    return tuple(columns), True


def check_stages(stages: Sequence[Stage]) -> None:
    """Raise UnsupportedModelError for stages that change columns in ways that are not known."""
    known = {"StringIndexerModel", "VectorAssembler", "VectorIndexerModel", "IndexToString"}
    for stage in stages:
        if stage.kind not in known:
            raise _refusal(
                f"its stages before the trees must be {', '.join(sorted(known))}, got {stage.kind}; decompose the last "
                "stage alone (in stages/ of its folder), on the columns that enter it"
            )


def _refusal(reason: str) -> UnsupportedModelError:
    return UnsupportedModelError(f"the Spark pipeline cannot be read: {reason}.")


def _names(stage: Stage, parameter: str) -> list[str]:
    """Names of columns, as a list also where there is one; none if the parameter is not set."""
    given = stage.parameter(parameter)
    names = [] if given is None else given if isinstance(given, list) else [given]
    if not all(isinstance(name, str) for name in names):
        raise ModelFileError(f"{parameter} must be names of columns, got {names!r:.60}; folder damaged?")
    return names


def _keeps_invalid(stage: Stage) -> bool:
    """Whether a stage keeps values that it does not know."""
    way = stage.parameter("handleInvalid", "error")
    if way not in {"error", "skip", "keep"}:
        raise ModelFileError(f"handleInvalid must be error, skip or keep, got {way!r:.60}; folder damaged?")
    return bool(way == "keep")


def _producer(stages: Sequence[Stage], kind: str, column: str) -> Stage | None:
    """The last stage of a kind that makes a column."""
    made = [stage for stage in stages if stage.kind == kind and stage.parameter("outputCol") == column]
    return made[-1] if made else None


@dataclasses.dataclass(frozen=True)
class _Indexer:
    """A StringIndexer of one column."""

    name: str
    labels: tuple[str, ...]
    keeps: bool


def _indexers(stages: Sequence[Stage]) -> dict[str, _Indexer]:
    """All StringIndexers, by the column that they make."""
    return {
        output: indexer for stage in stages if stage.kind == "StringIndexerModel" for output, indexer in _outputs(stage)
    }


def _outputs(stage: Stage) -> list[tuple[str, _Indexer]]:
    inputs, outputs = (_names(stage, f"{side}Cols") or _names(stage, f"{side}Col") for side in ("input", "output"))
    row: dict[str, Any] = stage.rows("data")[0]
    arrays = row["labelsArray"] if "labelsArray" in row else [row["labels"]]
    for labels in arrays:
        if not all(isinstance(label, str) for label in labels) or len(set(labels)) < len(labels):
            raise ModelFileError("labels of a StringIndexer must be different texts, got others; folder damaged?")
    keeps = _keeps_invalid(stage)
    indexers = [_Indexer(name, tuple(labels), keeps) for name, labels in zip(inputs, arrays, strict=True)]
    return list(zip(outputs, indexers, strict=True))


def labels_of(stages: Sequence[Stage], column: str) -> tuple[str, ...]:
    """Labels of the classes, if a StringIndexer has made the column of the target."""
    indexers = _indexers(stages)
    return indexers[column].labels if column in indexers else ()


def _number(name: str, *, keeps: bool) -> Column:
    return Column(Feature(name, accepts_missing=keeps))


def _indexed(indexer: _Indexer) -> Column:
    """A column of texts as their positions."""
    feature = Feature(
        indexer.name,
        TextItems(indexer.labels, empty_is_missing=False),
        accepts_missing=indexer.keeps,
        accepts_unseen=indexer.keeps,
    )
    n_labels = len(indexer.labels)
    other = float(n_labels) if indexer.keeps else np.nan
    return Column(feature, np.array([*range(n_labels), other, other], dtype=np.float64))


def _mapped(columns: Sequence[Column], indexer: Stage) -> list[Column]:
    """The columns after a VectorIndexer."""
    keeps = _keeps_invalid(indexer)
    listed = indexer.rows("data")[0]["categoryMaps"]
    maps = {key: dict(pairs) for key, pairs in listed}
    for (_, pairs), positions in zip(listed, maps.values(), strict=True):
        if len(positions) < len(pairs) or sorted(positions.values()) != list(range(len(pairs))):
            raise ModelFileError("a VectorIndexer must number values from 0 on, got others; folder damaged?")
    return [_through(column, maps[j], keeps=keeps) if j in maps else column for j, column in enumerate(columns)]


def _through(column: Column, positions: dict[float, int], *, keeps: bool) -> Column:
    """A column whose numbers a VectorIndexer replaces by positions; if it keeps others, these come after the last."""
    other = float(len(positions)) if keeps else np.nan
    if column.seen is not None:
        seen = [np.nan if np.isnan(value) else float(positions.get(float(value), other)) for value in column.seen]
        _check_known(column.feature, seen[:-2])
        is_predicted = not np.isnan(seen[-1])
        feature = dataclasses.replace(column.feature, accepts_missing=is_predicted, accepts_unseen=is_predicted)
        return Column(feature, np.array(seen))
    feature = dataclasses.replace(
        column.feature,
        encoder=Labels(tuple(positions)),
        accepts_missing=column.feature.accepts_missing and keeps,
        accepts_unseen=keeps,
    )
    return Column(feature, np.array([*positions.values(), other, other], dtype=np.float64))


def _check_known(feature: Feature, seen: Sequence[float]) -> None:
    """Raise UnsupportedModelError if a text has no prediction: the VectorIndexer has not met it."""
    if np.isnan(seen).any():
        raise _refusal(
            f"its VectorIndexer must know all texts of column {feature.name!r}, got one that it refuses; fit it with "
            'handleInvalid="keep"'
        )
