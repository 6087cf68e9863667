"""How treelite reads columns of categories: as whole numbers without sign."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Encoder, Numeric
from treeanova.readers.xgboost.columns import Number


@dataclasses.dataclass(frozen=True)
class UnsignedCodes(Encoder):
    """A category given as a number among `codes`, which ascend; fractions are cut off, all others are unseen.

    Numbers are cast to float32 unless `is_double`, beyond which whole numbers are not exact and match nothing.
    """

    codes: tuple[int, ...]
    is_double: bool

    @property
    def labels(self) -> tuple[int, ...]:
        """The codes."""
        return self.codes

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the codes, n_categories where unseen, NaN where missing."""
        values = Numeric().encode(column, name) if self.is_double else _rounded(column, name)
        known = np.array(self.codes, dtype=np.float64)
        whole = np.trunc(np.where(np.isnan(values), 0, values))
        position = np.searchsorted(known, whole)
        is_known = (np.append(known, np.nan)[position] == whole) & (values >= 0)
        is_known &= values <= (2.0**32 - 1 if self.is_double else 2.0**24)
        return np.where(np.isnan(values), np.nan, np.where(is_known, position, len(known)))


def _rounded(column: npt.NDArray[Any], name: str) -> Floats:
    """Numbers cast to float32."""
    with np.errstate(over="ignore"):
        return Number().encode(column, name).astype(np.float32).astype(np.float64)
