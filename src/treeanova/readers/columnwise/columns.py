"""Raw columns: numbers that transformers compute with, and categories that they encode."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Labels, Numeric


@dataclasses.dataclass(frozen=True, eq=False)
class DoubleNumber(Numeric):
    """A number whose transformers were asked in float64; they would round otherwise in columns of shorter floats."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """The numbers, NaN where missing."""
        if column.dtype.kind == "f" and column.dtype != np.float64:
            raise TypeError(
                f"column {name!r} must be float64, got {column.dtype}, in which the pipeline's transformers round "
                "otherwise; convert it with astype('float64')."
            )
        return super().encode(column, name)


@dataclasses.dataclass(frozen=True)
class EncodedLabels(Labels):
    """A category that transformers encode, where NaN and None may differ.

    `none` tells what None is: "missing", as NaN; "category", one of the labels; or "refused".
    """

    none: str = "missing"

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the labels, n_categories where unseen, NaN where missing."""
        encoded = super().encode(column, name)
        if column.dtype != object:
            return encoded
        if any(type(value).__name__ in {"NAType", "NaTType"} for value in column):
            raise TypeError(
                f"column {name!r} must have NaN or None where it is missing, got pandas' NA or NaT, which encoders "
                "read in different ways; convert it with astype(object) and where(column.notna(), np.nan)."
            )
        is_none = np.array([value is None for value in column], dtype=bool)
        if self.none == "refused" and is_none.any():
            raise ValueError(
                f"column {name!r} must not hold None, got it in {is_none.sum()} rows; the pipeline's encoder refuses "
                "it too, use NaN for missing values."
            )
        if self.none == "category":
            encoded[is_none] = self.names.index(None)
        return encoded
