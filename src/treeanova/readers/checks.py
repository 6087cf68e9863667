"""Checks that several readers make: numbers and arrays of a file, limits on sizes, and errors that name the file."""

from __future__ import annotations

import contextlib
import json
import math
import os
import pathlib
import re
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError

# What Python and numpy raise for content that is not what a reader expects.
DAMAGE = (
    ArithmeticError, AttributeError, EOFError, LookupError, NotImplementedError, RecursionError, TypeError, ValueError,
    struct.error,
)  # fmt: skip
_WHOLE = re.compile(r"[+-]?[0-9]+")
_DECIMAL = re.compile(r"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?|[+-]?inf(inity)?|[+-]?nan", re.IGNORECASE)


@contextlib.contextmanager
def damage_reported(kind: str, path: pathlib.Path | None = None) -> Iterator[None]:
    """Turn what a damaged model makes Python raise into ModelFileError, and name the file in all errors.

    `kind` is what the file must be, for example "an XGBoost model"; `path` is None for a model in memory.
    """
    try:
        with np.errstate(all="ignore"):
            yield
    except (ModelFileError, UnsupportedModelError) as error:
        if path is None:
            raise
        raise type(error)(one_line(f"{path}: {error}")) from error
    except MemoryError as error:
        raise UnsupportedModelError(
            one_line(f"{path or '`model`'} must be {kind} that fits into memory, got one that does not.")
        ) from error
    except DAMAGE as error:
        cause = f"{type(error).__name__}: {error}"[:200]
        raise ModelFileError(
            one_line(f"{path or '`model`'} must be {kind}, got one that cannot be parsed ({cause}); file damaged?")
        ) from error


def one_line(text: str) -> str:
    r"""The text with escapes in place of line ends and other characters that do not print.

    >>> one_line("a\nb\x1b[0m")
    'a\\nb\\x1b[0m'
    """
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def whole_number(value: object) -> int:
    """A whole number that a file holds as such or as text; ValueError for what Python would convert nevertheless.

    >>> whole_number(" 12 "), whole_number(-3)
    (12, -3)
    """
    if isinstance(value, str) and _WHOLE.fullmatch(value.strip()):
        return int(value)
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        return int(value)
    raise ValueError(f"not a whole number: {value!r:.60}")


def decimal_number(value: object) -> float:
    """A number that a file holds as such or as text; ValueError for what Python would convert nevertheless.

    >>> decimal_number("1e3"), decimal_number("-inf"), decimal_number(2)
    (1000.0, -inf, 2.0)
    """
    if isinstance(value, str) and _DECIMAL.fullmatch(value.strip()):
        return float(value)
    if isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool):
        return float(value)
    raise ValueError(f"not a number: {value!r:.60}")


def parsed_json(data: str | bytes, *, allows_nan: bool = False) -> Any:
    """The content of a JSON text; ValueError also for names that occur twice, of which parsers take either.

    NaN and Infinity are not JSON, nor are numbers beyond the largest: XGBoost writes and reads them, CatBoost stops
    reading there.
    """
    number = None if allows_nan else _finite
    return json.loads(data, object_pairs_hook=_without_doubles, parse_constant=number, parse_float=number)


def _finite(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is not a number of JSON")
    return number


def _without_doubles(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) < len(pairs):
        raise ValueError(f"one of the names {', '.join(content)!r:.60} occurs twice")
    return content


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


def check_inside(folder: pathlib.Path) -> None:
    """Raise ModelFileError unless a folder holds files and folders only: links lead elsewhere, pipes never end."""
    for place, folders, files in os.walk(folder):
        for path in (pathlib.Path(place) / name for name in (*folders, *files)):
            if path.is_symlink() or not (path.is_file() or path.is_dir()):
                raise ModelFileError(
                    f"the folder must hold plain files, got a link or a special file ({path.relative_to(folder)}); "
                    "copy the files themselves into it."
                )


def block_starts(sizes: Ints) -> Ints:
    """Position of the first entry of each of consecutive blocks."""
    starts: Ints = np.cumsum(sizes) - sizes
    return starts
