"""Raw columns of categories: the values to try, and the encoder that tells them apart."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Labels, is_missing
from treeanova.readers.columnwise.evaluation import Answer, Transformation
from treeanova.readers.sklearn.columns import LabelsWithNone


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


def tokens(labels: Sequence[Hashable]) -> npt.NDArray[Any]:
    """The labels, one that is not among them, NaN and, for other labels than numbers, None."""
    if is_numeric(labels):
        numbers = [float(label) for label in labels]  # type: ignore[arg-type]
        return np.array([*numbers, max(numbers, default=0.0) + 1.0, np.nan])
    unseen = "no such category"
    while unseen in labels:
        unseen += "!"
    values = [*labels, unseen, np.nan, None]
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def plain_labels(labels: Sequence[Hashable]) -> list[Hashable]:
    """Labels without NaN."""
    return [label for label in labels if label is None or not is_missing(label)]


def category_map(labels: Sequence[Hashable], answer: Answer, outputs: Ints) -> CategoryMap:
    """The map of a raw column from the answers for its tokens."""
    n = len(labels)
    rows = list(range(n))
    names = list(labels)
    if None not in labels and not is_numeric(labels) and _differ(answer, n + 1, n + 2, outputs):
        rows.append(n + 2)
        names.append(None)
    encoder = LabelsWithNone(tuple(names)) if None in names else Labels(tuple(names))
    return CategoryMap(
        encoder, answer.values[[*rows, n]], answer.values[n + 1], not answer.refused[n], not answer.refused[n + 1]
    )


def _differ(answer: Answer, nan: int, none: int, outputs: Ints) -> bool:
    """Whether None is accepted, and is not the same as NaN."""
    if answer.refused[none]:
        return False
    pair = answer.values[[nan, none]][:, outputs]
    return bool(answer.refused[nan]) or not np.array_equal(pair[0], pair[1], equal_nan=True)


def category_maps(
    transformation: Transformation, labels: dict[int, list[Hashable]], outputs: dict[int, Ints]
) -> dict[int, CategoryMap]:
    """The maps of all raw columns of categories."""
    answers = transformation.answers({j: tokens(names) for j, names in labels.items()})
    return {j: category_map(labels[j], answers[j], outputs[j]) for j in labels}
