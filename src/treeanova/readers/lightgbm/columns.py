"""How LightGBM reads columns of categories: by code, by label, or as the position of a label."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Encoder, IntegerCategory, Labels, Numeric


@dataclasses.dataclass(frozen=True)
class ListedCodes(Encoder):
    """A category given as a whole number among `codes`, which ascend; fractions are truncated, others are unseen."""

    codes: tuple[int, ...]

    @property
    def labels(self) -> tuple[int, ...]:
        """The codes."""
        return self.codes

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the codes, n_categories where unseen, NaN where missing."""
        values = Numeric().encode(column, name)
        known = np.array(self.codes, dtype=np.float64)
        position = np.searchsorted(known, np.trunc(values))
        is_known = np.append(known, np.nan)[position] == np.trunc(values)
        return np.where(np.isnan(values), np.nan, np.where(is_known, position, len(known)))


@dataclasses.dataclass(frozen=True)
class PandasCategory(Encoder):
    """A category of a pandas column, given by its label, or in arrays of numbers by its code, as in LightGBM."""

    names: tuple[Hashable, ...]

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The labels."""
        return self.names

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels, n_categories where unseen, NaN where missing."""
        if _holds_codes(column, self.names, name):
            return IntegerCategory(len(self.names)).encode(column, name)
        return Labels(self.names).encode(column, name)


@dataclasses.dataclass(frozen=True)
class OrderedCategory(Encoder):
    """A category that is split as a number, the position of its label; unseen labels are missing."""

    names: tuple[Hashable, ...]

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels as numbers."""
        if _holds_codes(column, self.names, name):
            return Numeric().encode(column, name)
        codes = Labels(self.names).encode(column, name)
        return np.where(codes == len(self.names), np.nan, codes)


def _holds_codes(column: npt.NDArray[Any], names: tuple[Hashable, ...], name: str) -> bool:
    """Whether a column is of plain numbers, which are codes; an error if they could also be labels."""
    if column.dtype.kind not in "biuf":
        return False
    if any(isinstance(label, (int, float)) for label in names) and names != tuple(range(len(names))):
        raise TypeError(
            f"column {name!r} must hold categories, got plain numbers ({column.dtype}), which could be codes or "
            "labels; pass it as a category column of a table, as in training."
        )
    return True
