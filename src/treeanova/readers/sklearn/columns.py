"""How scikit-learn reads columns of categories that contain None."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Labels


@dataclasses.dataclass(frozen=True)
class LabelsWithNone(Labels):
    """Labels that include None; only NaN is missing."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels, n_categories where unseen, NaN for NaN."""
        encoded = super().encode(column, name)
        if column.dtype == object:
            encoded[[value is None for value in column]] = self.names.index(None)
        return encoded
