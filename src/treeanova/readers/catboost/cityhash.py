"""CityHash64 version 1.0, by whose low half CatBoost identifies categories; written for Python's integers.

The algorithm is Pike's and Alakuijala's (Google, 2011).
"""

from __future__ import annotations

_MASK = (1 << 64) - 1
_K0, _K1, _K2, _K3 = 0xC3A5C85C97CB3127, 0xB492B66FBE98F273, 0x9AE16A3B2F90404F, 0xC949D7C7509E6557
_PAIR = 0x9DDFEA08EB382D69


def category_hash(text: bytes) -> int:
    """The 32-bit number by which CatBoost identifies a category: the low half of CityHash64."""
    size = len(text)
    words = [int.from_bytes(text[i : i + 8], "little") for i in range(0, size - 7, 8)]
    if size <= 16:
        return _hash_to_16(text) & 0xFFFFFFFF
    tail = [int.from_bytes(text[i : i + 8], "little") for i in range(max(size - 64, size % 8), size, 8)]
    if size <= 32:
        return _hash_to_32(words, tail, size) & 0xFFFFFFFF
    if size <= 64:
        return _hash_to_64(words, tail, size) & 0xFFFFFFFF
    return _hash_long(words, tail, size) & 0xFFFFFFFF


def _turn(value: int, shift: int) -> int:
    value &= _MASK
    return (value >> shift | value << (64 - shift)) & _MASK


def _fold(value: int) -> int:
    value &= _MASK
    return value ^ value >> 47


def _mix(low: int, high: int) -> int:
    first = _fold(((low ^ high) & _MASK) * _PAIR)
    return _fold(((high & _MASK) ^ first) * _PAIR) * _PAIR & _MASK


def _hash_to_16(text: bytes) -> int:
    size = len(text)
    if size > 8:
        first, last = int.from_bytes(text[:8], "little"), int.from_bytes(text[-8:], "little")
        return _mix(first, _turn(last + size, size)) ^ last
    if size >= 4:
        return _mix(size + (int.from_bytes(text[:4], "little") << 3), int.from_bytes(text[-4:], "little"))
    if size:
        return _fold((text[0] + (text[size >> 1] << 8)) * _K2 ^ (size + (text[-1] << 2)) * _K3) * _K2 & _MASK
    return _K2


def _hash_to_32(words: list[int], tail: list[int], size: int) -> int:
    a, b, c, d = words[0] * _K1, words[1], tail[-1] * _K2, tail[-2] * _K0
    return _mix(_turn(a - b, 43) + _turn(c, 30) + d, a + _turn(b ^ _K3, 20) - c + size)


def _half(start: int, second: int, third: int, last: int) -> tuple[int, int]:
    """Two numbers from 32 bytes, given as words of which the first has been mixed already."""
    end = start + second + third
    return end + last, _turn(start + last, 52) + _turn(end, 31) + _turn(start, 37) + _turn(start + second, 7)


def _hash_to_64(words: list[int], tail: list[int], size: int) -> int:
    front, front_mix = _half(words[0] + (size + tail[-2]) * _K0, words[1], words[2], words[3])
    back, back_mix = _half(words[2] + tail[-4], tail[-3], tail[-2], tail[-1])
    rest = _fold((front + back_mix) * _K2 + (back + front_mix) * _K0)
    return _fold(rest * _K0 + front_mix) * _K2 & _MASK


def _quarter(words: list[int], a: int, b: int) -> tuple[int, int]:
    """Two numbers from 32 bytes, given as four words, and two seeds."""
    start = a + words[0]
    end = start + words[1] + words[2]
    return (end + words[3]) & _MASK, (_turn(b + start + words[3], 21) + _turn(end, 44) + start) & _MASK


def _hash_long(words: list[int], tail: list[int], size: int) -> int:
    y, z = tail[-2] ^ _K1, tail[-7] ^ _K0
    v, w = _quarter(tail[-8:-4], size, y), _quarter(tail[-4:], size * _K1, _K0)
    z += _fold(v[1]) * _K1
    x = _turn(z + words[0], 39) * _K1
    y = _turn(y, 33) * _K1
    for i in range(0, (size - 1) // 64 * 8, 8):
        x = (_turn(x + y + v[0] + words[i + 2], 37) * _K1 & _MASK) ^ w[1]
        y = (_turn(y + v[1] + words[i + 6], 42) * _K1 & _MASK) ^ v[0]
        z = _turn((z & _MASK) ^ w[0], 33)
        v = _quarter(words[i : i + 4], v[1] * _K1, x + w[0])
        w = _quarter(words[i + 4 : i + 8], z + w[1], y)
        z, x = x, z
    return _mix(_mix(v[0], w[0]) + _fold(y) * _K1 + z, _mix(v[1], w[1]) + x)
