"""Conditions of ydf's trees as nodes of a Forest: rows for which the condition is false go left."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import bound_below

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
