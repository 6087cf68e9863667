"""How EBMs read columns: numbers, also spelled as text, and categories by their text."""

from __future__ import annotations

import dataclasses
import datetime as dt
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Encoder, Numeric, distinct, is_missing, positions_of

# Columns that hold nothing else are turned into text unchanged, including Python's bool (an int).
_AS_TEXT = (str, bytes, int, np.integer, np.datetime64, np.timedelta64)
_DATES = (dt.date, dt.time, dt.timedelta, np.datetime64, np.timedelta64)


@dataclasses.dataclass(frozen=True, eq=False)
class NumberOrText(Numeric):
    """A number, or text that spells one."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """The numbers, NaN where missing."""
        _check_kind(column, name)
        if column.dtype.kind != "O":
            return super().encode(column, name)
        known = np.array([not is_missing(value) for value in column], dtype=bool)
        values = column[known]
        if any(isinstance(value, (str, bytes)) for value in values):
            values = values.astype(str)  # as EBM does: True becomes a word, not a number
        result = np.full(len(column), np.nan)
        result[known] = super().encode(values, name)
        return result


@dataclasses.dataclass(frozen=True)
class TextCategory(Encoder):
    """A category, identified by its text."""

    names: tuple[str, ...]

    @property
    def labels(self) -> tuple[str, ...]:
        """The texts."""
        return self.names

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:
        """Positions of the texts, n_categories where unseen, NaN where missing."""
        _check_kind(column, name)
        positions = {text: float(code) for code, text in enumerate(self.names)}
        texts, inverse = _texts(column, name)
        codes = [np.nan if text is None else positions.get(text, float(len(self.names))) for text in texts]
        return np.array(codes, dtype=np.float64)[inverse]


@dataclasses.dataclass(frozen=True)
class IgnoredColumn(Encoder):
    """A column that no term uses; it may hold anything."""

    def encode(self, column: npt.NDArray[Any], name: str) -> Floats:  # noqa: ARG002
        """Zeros."""
        return np.zeros(len(column))


def _check_kind(column: npt.NDArray[Any], name: str) -> None:
    if column.dtype.kind not in "biufOSU":
        raise TypeError(f"column {name!r} must hold numbers or text, got {column.dtype}; convert it as in training.")


def _texts(column: npt.NDArray[Any], name: str) -> tuple[list[str | None], Ints]:
    """Distinct texts of a column (None for missing), and the position of each row's text among them."""
    if column.dtype.kind != "O":
        values, inverse = distinct(column)
        return [_text(value, name) for value in values], inverse
    # The type is part of the key: True == 1, but their texts may differ.
    values = column.tolist()
    keys, inverse = positions_of(list(zip(map(type, values), values, strict=True)))
    types = {kind for kind, value in keys if not is_missing(value)}
    only_bools = all(issubclass(kind, (bool, np.bool_)) for kind in types)
    words = not only_bools and all(issubclass(kind, _AS_TEXT) for kind in types)
    return [_text(value, name, words=words) for _, value in keys], inverse


def _text(value: Any, name: str, *, words: bool = False) -> str | None:
    """The text that EBM compares; if `words`, booleans are "True" and "False"."""
    if is_missing(value):
        return None
    if isinstance(value, (float, np.floating)):
        return repr(float(value) + 0.0).removesuffix(".0")
    if isinstance(value, (bool, np.bool_)):
        return str(bool(value)) if words else str(int(value))
    if isinstance(value, _DATES):
        raise TypeError(f"column {name!r} must hold numbers or text, got {value!r}; convert it as in training.")
    text = value.decode("ascii") if isinstance(value, bytes) else str(value)
    return text.rstrip("\0")  # as numpy's fixed-width text does
