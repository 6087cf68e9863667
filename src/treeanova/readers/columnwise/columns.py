"""Raw columns of numbers that transformers compute with."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Numeric


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
