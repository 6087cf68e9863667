"""Raw columns of categories: the values to try, and the encoder that tells them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Container, Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Labels, is_missing
from treeanova.readers.columnwise.columns import EncodedLabels
from treeanova.readers.columnwise.evaluation import Answer, Transformation


@dataclasses.dataclass(frozen=True)
class CategoryMap:
    """What the model compares for each category, for unseen ones (the last row of `known`) and for missing values.

    Attributes
    ----------
    encoder
        Of the raw column.
    known
        Encoded values of all of the model's columns, one row per category and one for unseen ones.
    missing
        Encoded values for NaN.
    accepts_unseen, accepts_missing
        Whether the transformers accept such values.
    """

    encoder: Labels
    known: Floats
    missing: Floats
    accepts_unseen: bool
    accepts_missing: bool


def is_numeric(labels: Sequence[Hashable]) -> bool:
    """Whether all labels are numbers."""
    return all(isinstance(label, (int, float)) for label in labels)


def tokens(labels: Sequence[Hashable], *, as_objects: bool) -> npt.NDArray[Any]:
    """The labels, one that is not among them, NaN and, in a column of objects, None."""
    values = [*labels, _unseen(labels), np.nan]
    return objects([*values, None]) if as_objects else np.array(values, dtype=np.float64)


def objects(values: Sequence[Any]) -> npt.NDArray[Any]:
    """A column of objects."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _unseen(labels: Sequence[Hashable]) -> Hashable:
    """A value of the same type that is not among the labels."""
    if is_numeric(labels):
        return max(labels, default=0) + 1  # type: ignore[type-var, operator]
    unseen = "no such category"
    while unseen in labels:
        unseen += "!"
    return unseen


def plain_labels(labels: Sequence[Hashable]) -> list[Hashable]:
    """Labels without NaN."""
    return [label for label in labels if label is None or not is_missing(label)]


def category_map(labels: Sequence[Hashable], answer: Answer, outputs: Ints) -> CategoryMap:
    """The map of a raw column from the answers for its tokens."""
    n = len(labels)
    rows = list(range(n))
    names = list(labels)
    none = "category" if None in labels else "missing" if len(answer.refused) == n + 2 else _none(answer, outputs)
    if none == "category" and None not in labels:
        rows.append(n + 2)
        names.append(None)
    encoder = EncodedLabels(tuple(names), none=none)
    return CategoryMap(
        encoder, answer.values[[*rows, n]], answer.values[n + 1], not answer.refused[n], not answer.refused[n + 1]
    )


def _none(answer: Answer, outputs: Ints) -> str:
    """What None, the last value tried, is compared with NaN, the one before it."""
    nan_is_refused, none_is_refused = answer.refused[-2:]
    if none_is_refused:
        return "missing" if nan_is_refused else "refused"
    nan, none = answer.values[-2:, outputs]
    return "missing" if not nan_is_refused and np.array_equal(nan, none, equal_nan=True) else "category"


def category_maps(
    transformation: Transformation,
    labels: Mapping[int, Sequence[Hashable]],
    as_objects: Container[int],
    outputs: Mapping[int, Ints],
) -> dict[int, CategoryMap]:
    """The maps of all raw columns of categories, some of which are columns of objects."""
    answers = transformation.answers({j: tokens(names, as_objects=j in as_objects) for j, names in labels.items()})
    return {j: category_map(labels[j], answers[j], outputs[j]) for j in labels}
