"""How ydf and Spark read columns of categories: as texts."""

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
    """A category given as text, as a boolean or as a whole number; the empty text may be missing."""

    names: tuple[str, ...]
    empty_is_missing: bool = True

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts."""
        return self.names

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the texts, n_categories where unseen, NaN where missing."""
        values, inverse = distinct(column)
        position = {text: float(code) for code, text in enumerate(self.names)}
        texts = [None if is_missing(value) else _text(value, name) for value in values]
        is_absent = [text is None or (self.empty_is_missing and not text) for text in texts]
        unseen = float(len(self.names))
        codes = [np.nan if a else position.get(t or "", unseen) for t, a in zip(texts, is_absent, strict=True)]
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
        f"column {name!r} must hold texts, booleans or whole numbers, got {value!r}, whose text is not certain; "
        "convert it as for training."
    )
