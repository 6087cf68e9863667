"""Checks that several readers make: rules for the arrays of a file, and limits on sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError


def check_values(rule: str, values: npt.NDArray[Any], is_valid: Bools) -> None:
    """Raise ModelFileError with a rule and the first value that breaks it."""
    if not is_valid.all():
        raise ModelFileError(f"{rule}, got {values[~is_valid][0]}; file damaged?")


def check_size(what: str, size: int, max_size: int) -> None:
    """Raise UnsupportedModelError for what is too large, before it is allocated."""
    if size > max_size:
        raise UnsupportedModelError(
            f"the model's {what} must have at most {max_size:,} entries, got {size:,}; train a smaller model."
        )


def block_starts(sizes: Ints) -> Ints:
    """Position of the first entry of each of consecutive blocks."""
    starts: Ints = np.cumsum(sizes) - sizes
    return starts
