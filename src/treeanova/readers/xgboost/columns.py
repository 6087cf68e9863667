"""How XGBoost reads columns: numbers in float32, categories by code or by label."""

from __future__ import annotations

import dataclasses
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.data.features import Encoder, distinct, is_missing

Singles = npt.NDArray[np.float32]


def singles(values: npt.ArrayLike) -> Singles:
    """Numbers as float32, infinite where they are too large."""
    with np.errstate(over="ignore"):
        return np.asarray(values).astype(np.float32)


def _single_column(column: npt.NDArray[Any], name: str) -> Singles:
    """The column as float32, as XGBoost reads it; a column of objects only if all of it is missing."""
    if column.dtype.kind in "biuf":
        return singles(column)
    if not all(is_missing(value) for value in column):
        # XGBoost would use the codes of a category column as numbers, whatever its labels; they are unknown here.
        raise TypeError(
            f"column {name!r} must hold numbers, because the model has no labels for it, got {column.dtype}; convert "
            "it (categories to the codes used in training)."
        )
    return np.full(len(column), np.nan, dtype=np.float32)


@dataclasses.dataclass(frozen=True, eq=False)
class Number(Encoder):
    """A number that XGBoost compares in float32; missing where it equals `missing` in float32."""

    missing: float = np.nan

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """The numbers, NaN where missing."""
        single = _single_column(column, name)
        # Integers are cast to float32 directly; large ones would be rounded twice if they were cast to float64 first.
        values = (column if column.dtype.kind == "f" else single).astype(np.float64)
        return np.where(single == np.float32(self.missing), np.nan, values)


@dataclasses.dataclass(frozen=True, eq=False)
class CodedCategory(Encoder):
    """A category given as a code 0 .. n_categories - 1, cast to float32 and truncated; all other codes are unseen."""

    n_categories: int
    missing: float = np.nan

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The codes."""
        return tuple(range(self.n_categories))

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Codes, n_categories where unseen, NaN where missing."""
        single = _single_column(column, name)
        known = (single >= 0) & (single < self.n_categories)
        codes = np.where(known, np.trunc(single), self.n_categories).astype(np.float64)
        return np.where(np.isnan(single) | (single == np.float32(self.missing)), np.nan, np.abs(codes))


@dataclasses.dataclass(frozen=True)
class Reading:
    """One way to read the stored names of categories; `lengths` are their numbers of characters where they are texts.

    A text shorter than its length is the beginning of a name that XGBoost has cut.
    """

    names: tuple[Hashable, ...]
    lengths: tuple[int, ...] = ()

    @property
    def cut(self) -> tuple[int, ...]:
        """Codes of the names that XGBoost has cut."""
        pairs = zip(self.names, self.lengths, strict=False)
        return tuple(code for code, (name, length) in enumerate(pairs) if len(str(name)) < length)

    def codes(self, labels: Sequence[Hashable]) -> list[int] | None:
        """The code of each label; None if a label has no code, or if two labels could be the same cut name."""
        cut = self.cut
        whole = {name: code for code, name in enumerate(self.names) if code not in set(cut)}
        codes = [whole[label] if label in whole else self._cut_code(label, cut) for label in labels]
        return None if -1 in codes or len(set(codes)) < len(codes) else codes

    def _cut_code(self, label: Hashable, cut: tuple[int, ...]) -> int:
        """The code of the only cut name that a label can be, else -1."""
        text = str(label)
        fits = [code for code in cut if len(text) == self.lengths[code] and text.startswith(str(self.names[code]))]
        return fits[0] if len(fits) == 1 else -1


@dataclasses.dataclass(frozen=True, eq=False)
class NamedCategory(Encoder):
    """A category given by its label in a table, by its code in a matrix of numbers.

    `stored` has, for each way to read the model's names, the names and their lengths. Unseen labels are an error:
    XGBoost refuses those that sort last and treats any other as the next known label.
    """

    stored: tuple[tuple[tuple[Hashable, ...], tuple[int, ...]], ...]
    missing: float = np.nan

    @property
    def readings(self) -> tuple[Reading, ...]:
        """The ways to read the names, the more likely first."""
        return tuple(Reading(names, lengths) for names, lengths in self.stored)

    @property
    def labels(self) -> tuple[Hashable, ...]:
        """The stored names, with … where XGBoost has cut them."""
        first = self.readings[0]
        cut = set(first.cut)
        return tuple(f"{name}… ({code})" if code in cut else name for code, name in enumerate(first.names))

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Codes of the labels, NaN where missing."""
        coded = CodedCategory(len(self.readings[0].names), self.missing)
        if column.dtype.kind in "biuf":
            return coded.encode(column, name)
        if self.missing >= 0 and self.missing.is_integer():
            raise ValueError(
                f"column {name!r} must hold codes, got labels: XGBoost compares missing={self.missing:g} with the "
                "codes of the table's column, which are unknown here; pass the codes used in training."
            )
        values, inverse = distinct(column)
        present = [value for value in values if not is_missing(value)]
        code_of = dict(zip(present, self._codes(present, name), strict=True))
        codes = np.array([code_of.get(value, np.nan) for value in values], dtype=np.float64)
        return coded.encode(codes[inverse], name)

    def _codes(self, labels: list[Hashable], name: str) -> list[int]:
        possible = [codes for reading in self.readings if (codes := reading.codes(labels)) is not None]
        if not possible or any(codes != possible[0] for codes in possible):
            known = {label for reading in self.readings for label in reading.names}
            unknown = [label for label in labels if label not in known] or labels
            raise ValueError(
                f"column {name!r} must hold categories of the model, got {unknown[0]!r}, which XGBoost refuses or "
                "treats as another one; where it has cut names (beyond ASCII), pass the codes used in training."
            )
        return possible[0]
