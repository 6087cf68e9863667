"""How ydf reads columns of categories: as texts."""

from __future__ import annotations

import dataclasses
import numbers
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Encoder, distinct, is_missing


@dataclasses.dataclass(frozen=True)
class TextItems(Encoder):
    """A category given as text, as a boolean or as a whole number; the empty text is missing."""

    names: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts."""
        return self.names

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the texts, n_categories where unseen, NaN where missing."""
        values, inverse = distinct(column)
        position = {text: float(code) for code, text in enumerate(self.names)}
        texts = ["" if is_missing(value) else _text(value, name) for value in values]
        codes = [position.get(text, float(len(self.names))) if text else np.nan for text in texts]
        return np.array(codes, dtype=np.float64)[inverse]


def _text(value: Any, name: str) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if isinstance(value, (bool, np.bool_)):
        return "true" if value else "false"
    if isinstance(value, numbers.Integral):
        return str(int(value))
    raise TypeError(
        f"column {name!r} must hold texts, booleans or whole numbers, got {value!r}, which ydf refuses too; convert it "
        "as for training."
    )
