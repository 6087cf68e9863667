"""Names for the kinds of arrays and keys that all rooms share, and a check of whole numbers."""

from __future__ import annotations

from numbers import Integral
from typing import Any

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
BinIndices = npt.NDArray[np.int32]
"""Bins of rows, shape (n_rows, n_features) or (n_rows,)."""
Arrays = dict[str, npt.NDArray[Any]]
"""Arrays by name, as in a file."""
Faces = list[Floats]
"""One array per axis of a tensor, each over all the other axes."""
Key = tuple[int, ...]
"""Sorted positions of the features of a term."""
Names = tuple[str, ...]
"""Names of the features of a term, in the order of the data."""
ROUNDING = 16 * float(np.finfo(np.float64).eps)
"""Rounding of a sum, relative to the sizes of what is added."""


def checked_whole(name: str, number: Any, least: int, remedy: str) -> int:
    """A whole number that was given as an argument; ValueError where it is none, or below the least."""
    if isinstance(number, bool) or not isinstance(number, Integral) or number < least:
        raise ValueError(f"`{name}` must be a whole number from {least} on, got {number!r}; {remedy}.")
    return int(number)


def checked_seed(number: Any) -> int:
    """The seed of random numbers that was given as `random_state`."""
    return checked_whole("random_state", number, 0, "0 is the default")
