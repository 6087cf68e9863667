"""Numbers as the page holds them: few digits, whole units, whole millionths."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.dates import days_of

_DIGITS = 6


def unit_of(largest: float) -> float:
    """The unit of all values on the page: the largest has six digits."""
    return 10.0 ** (math.floor(math.log10(largest)) + 1 - _DIGITS) if largest > 0 else 1.0


def whole_units(values: Floats, unit: float) -> list[list[int]]:
    """Values as whole units, one list per output (outputs first)."""
    return [[int(v) for v in row] for row in np.rint(values / unit).reshape(len(values), -1)]


def millionths(shares: Floats | Sequence[float]) -> list[int]:
    """Shares as whole millionths, at least one for a share that is not zero."""
    parts = np.rint(np.asarray(shares, dtype=np.float64).ravel() * 1e6)
    parts[(parts == 0) & (np.ravel(shares) > 0)] = 1
    return [int(part) for part in parts]


def distinct_numbers(numbers: Floats) -> list[float]:
    """Numbers with as few digits as keep them distinct, at least six."""
    for digits in range(_DIGITS, 17):
        short = [float(f"{number:.{digits}g}") for number in numbers]
        if len(set(short)) == len(set(numbers.tolist())):
            return short
    return [float(number) for number in numbers]


def plain_days(numbers: Floats, unit: str) -> list[float]:
    """Dates, given as numbers of a unit, as days since 1970 to a millionth."""
    return [round(float(day), 6) for day in days_of(numbers, unit)]


def six_digits(number: float) -> float:
    """A number of six digits."""
    return float(f"{number:.{_DIGITS}g}")
