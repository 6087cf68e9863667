"""The wire format of protocol buffers, as far as ONNX files need it."""

from __future__ import annotations

import struct
from collections.abc import Iterator

from treeanova.errors import ModelFileError

Value = int | bytes
Message = dict[int, list[Value]]


def fields(data: bytes) -> Message:
    """Values of a message by the numbers of their fields: whole numbers, or bytes.

    >>> fields(bytes([8, 150, 1, 18, 2, 72, 105]))
    {1: [150], 2: [b'Hi']}
    """
    message: Message = {}
    for number, value in _entries(data):
        message.setdefault(number, []).append(value)
    return message


def _entries(data: bytes) -> Iterator[tuple[int, Value]]:
    position, end = 0, len(data)
    while position < end:
        key, position = _varint(data, position)
        kind = key & 7
        if kind == 0:
            value, position = _varint(data, position)
            yield key >> 3, value
            continue
        if kind == 2:
            size, position = _varint(data, position)
        elif kind in {1, 5}:
            size = 8 if kind == 1 else 4
        else:
            raise ModelFileError(f"an ONNX file must hold fields of known kinds, got kind {kind}; file damaged?")
        if position + size > end:
            raise ModelFileError("an ONNX file must hold whole fields, got one that ends early; file damaged?")
        yield key >> 3, data[position : position + size]
        position += size


def _varint(data: bytes, position: int) -> tuple[int, int]:
    """A whole number of up to 64 bits, and the position after it."""
    result = 0
    for shift in range(0, 70, 7):
        if position >= len(data):
            raise ModelFileError("an ONNX file must hold whole numbers, got one that ends early; file damaged?")
        byte = data[position]
        position += 1
        result |= (byte & 0x7F) << shift
        if byte < 0x80:
            return result & 0xFFFFFFFFFFFFFFFF, position
    raise ModelFileError("an ONNX file must hold numbers of 64 bits, got a longer one; file damaged?")


def single(message: Message, number: int) -> Value:
    """The value of a field that occurs once."""
    if len(message[number]) > 1:
        raise ModelFileError(f"an ONNX file must hold field {number} once, got it more often; file damaged?")
    return message[number][0]


def signed(value: Value) -> int:
    """A whole number with its sign."""
    if isinstance(value, bytes):
        raise ModelFileError("an ONNX file must hold a whole number here, got bytes; file damaged?")
    return value - (1 << 64) if value >= 1 << 63 else value


def raw(value: Value) -> bytes:
    """Bytes: of text, of a message inside, or of a number with a fixed size."""
    if isinstance(value, int):
        raise ModelFileError("an ONNX file must hold bytes here, got a number; file damaged?")
    return value


def text(value: Value) -> str:
    """Text."""
    try:
        return raw(value).decode()
    except UnicodeDecodeError as error:
        raise ModelFileError("an ONNX file must hold UTF-8 texts, got other bytes; file damaged?") from error


def integers(values: list[Value]) -> list[int]:
    """Whole numbers of a repeated field, one by one or packed together."""
    result: list[int] = []
    for value in values:
        if isinstance(value, int):
            result.append(signed(value))
            continue
        position = 0
        while position < len(value):
            number, position = _varint(value, position)
            result.append(signed(number))
    return result


def floats(values: list[Value], code: str = "f") -> list[float]:
    """Numbers of a repeated field of float32 (code "f") or float64 ("d"), one by one or packed together."""
    data = b"".join(raw(value) for value in values)
    size = struct.calcsize(code)
    if len(data) % size:
        raise ModelFileError("an ONNX file must hold whole numbers of floats, got a part of one; file damaged?")
    return list(struct.unpack(f"<{len(data) // size}{code}", data))
