"""How CatBoost reads columns of categories: by the hash of their text."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Encoder, distinct, is_missing
from treeanova.readers.catboost.cityhash import category_hash


@dataclasses.dataclass(frozen=True)
class HashedCategory(Encoder):
    """A category given as text or as an integer, identified by its hash; `names` label the hashes where known."""

    hashes: tuple[int, ...]
    names: tuple[str, ...] = ()

    @property
    def labels(self) -> tuple[str, ...]:
        """Names, or the hashes as text: a model does not store the names of its categories."""
        return self.names or tuple(map(str, self.hashes))

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the hashes, n_categories where unseen, NaN for None and NaN."""
        values, inverse = distinct(column)
        positions = {number: float(code) for code, number in enumerate(self.hashes)}
        unseen = float(len(self.hashes))
        texts = (None if is_missing(value) else _as_text(value, name) for value in values)
        codes = [np.nan if text is None else positions.get(category_hash(text), unseen) for text in texts]
        return np.array(codes, dtype=np.float64)[inverse]

    @property
    def wants_labels(self) -> bool:
        """True: the model stores hashes, not names."""
        return True

    def labelled(self, column: npt.NDArray[Any], name: str) -> HashedCategory:
        """The same encoder with the names of the categories in a raw column."""
        known = dict(zip(self.hashes, self.labels, strict=True))
        for value in distinct(column)[0]:
            if not is_missing(value):
                text = _as_text(value, name)
                known[category_hash(text)] = text.decode(errors="replace")
        return HashedCategory(self.hashes, tuple(known[number] for number in self.hashes))


def _as_text(value: object, name: str) -> bytes:
    """A category as CatBoost spells it: booleans are "0" and "1"; floats are refused, also whole ones."""
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, bytes):
        return value
    if isinstance(value, (int, np.integer, np.bool_)):
        return str(int(value)).encode()
    raise TypeError(
        f"column {name!r} must hold categories as text or integers, got {value!r}, which CatBoost refuses too; "
        "convert the column to text as in training."
    )
