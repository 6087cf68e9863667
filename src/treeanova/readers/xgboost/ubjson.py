"""Universal Binary JSON, as XGBoost writes it, decoded with arrays of numbers as numpy views on the bytes.

A value is one byte for its type and then its bytes, big-endian. Objects and lists may give their length after ``#``,
arrays of one type their type after ``$`` (https://ubjson.org). Keys of objects are strings without the type byte.
Lengths are checked against the number of bytes left before anything is allocated.
"""

from __future__ import annotations

import struct
from typing import Any

import numpy as np

_NUMBERS: dict[int, np.dtype[Any]] = {
    ord("i"): np.dtype("i1"),
    ord("U"): np.dtype("u1"),
    ord("I"): np.dtype(">i2"),
    ord("l"): np.dtype(">i4"),
    ord("L"): np.dtype(">i8"),
    ord("d"): np.dtype(">f4"),
    ord("D"): np.dtype(">f8"),
}
_SCALARS = {
    kind: struct.Struct(f">{code}")
    for kind, code in {"i": "b", "U": "B", "I": "h", "l": "i", "L": "q", "d": "f", "D": "d"}.items()
}
_UNPACK = {ord(kind): packer for kind, packer in _SCALARS.items()}
_CONSTANTS = {ord("Z"): None, ord("T"): True, ord("F"): False}
_INTEGERS = frozenset(b"iUIlL")
_LONG = _SCALARS["L"]
_DEEPEST = 32

_OBJECT, _END_OBJECT, _LIST, _END_LIST, _STRING = b"{}[]S"
_TYPE, _COUNT, _LONG_KIND = b"$#L"


def decode(data: bytes) -> Any:
    """Return dicts, lists, strings, numbers, None, and 1-d arrays; else ValueError."""
    reader = _Reader(data)
    try:
        value = reader.value(reader.byte(), 0)
    except (IndexError, struct.error) as error:
        raise ValueError("the bytes end too early") from error
    if reader.at != len(data):
        raise ValueError(f"{len(data) - reader.at} bytes follow the end")
    return value


class _Reader:
    __slots__ = ("at", "data")

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def value(self, kind: int, depth: int) -> Any:
        if kind == _LIST:
            return self._list(depth + 1)
        if kind == _STRING:
            return self._string(self.byte())
        if kind == _OBJECT:
            return self._object(depth + 1)
        if kind in _UNPACK:
            return self._number(kind)
        if kind in _CONSTANTS:
            return _CONSTANTS[kind]
        raise ValueError(f"unknown type {kind:#x} at byte {self.at}")

    def _number(self, kind: int) -> Any:
        packer = _UNPACK[kind]
        self.at += packer.size
        return packer.unpack_from(self.data, self.at - packer.size)[0]

    def _length(self, kind: int) -> int:
        """Return a length of a type whose byte was read; at most the number of bytes that are left."""
        if kind == _LONG_KIND:  # what XGBoost writes
            length: int = _LONG.unpack_from(self.data, self.at)[0]
            self.at += 8
        elif kind in _INTEGERS:
            length = self._number(kind)
        else:
            raise ValueError(f"no length at byte {self.at}")
        if not 0 <= length <= len(self.data) - self.at:
            raise ValueError(f"a length of {length} at byte {self.at}")
        return length

    def _string(self, kind: int) -> str:
        length = self._length(kind)
        self.at += length
        return str(self.data[self.at - length : self.at], "utf-8")

    def _object(self, depth: int) -> dict[str, Any]:
        _check_depth(depth)
        count = self._count()
        result: dict[str, Any] = {}
        while len(result) != count:
            kind = self.byte()
            if kind == _END_OBJECT and count is None:
                break
            key = self._string(kind)
            if key in result:
                raise ValueError(f"{key!r} occurs twice")
            result[key] = self.value(self.byte(), depth)
        return result

    def _list(self, depth: int) -> Any:
        _check_depth(depth)
        if self.data[self.at] == _TYPE:
            return self._array()
        count = self._count()
        result: list[Any] = []
        while len(result) != count:
            kind = self.byte()
            if kind == _END_LIST and count is None:
                break
            result.append(self.value(kind, depth))
        return result

    def _count(self) -> int | None:
        if self.data[self.at] != _COUNT:
            return None
        self.at += 2
        return self._length(self.data[self.at - 1])

    def _array(self) -> Any:
        dtype = _NUMBERS.get(self.data[self.at + 1])
        self.at += 2
        count = self._count()
        if dtype is None or count is None:
            raise ValueError(f"no array of numbers at byte {self.at}")
        start = self.at
        self.at += count * dtype.itemsize
        return np.frombuffer(self.data, dtype, count, start)  # ValueError when the bytes are too few


def _check_depth(depth: int) -> None:
    if depth > _DEEPEST:
        raise ValueError(f"values are nested more than {_DEEPEST} deep")
