"""Reads treelite models in memory and in checkpoints."""

from __future__ import annotations

import pathlib
from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers.treelite.checkpoint import parse
from treeanova.readers.treelite.forest import forest_of


def read(model: Any) -> Forest:
    """The Forest of a treelite.Model."""
    if not hasattr(model, "serialize_bytes"):
        raise UnsupportedModelError(f"a treelite model must be a treelite.Model, got {type(model).__name__}.")
    return _read(model.serialize_bytes(), "the model")


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a checkpoint; treelite itself is not needed."""
    path = pathlib.Path(path)
    return _read(path.read_bytes(), path.name)


def _read(data: bytes, name: str) -> Forest:
    try:
        return forest_of(parse(data))
    except (ModelFileError, UnsupportedModelError):
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError) as error:
        kind = type(error).__name__
        raise ModelFileError(
            f"{name} must be a whole treelite checkpoint, got others ({kind}: {error}); file damaged?"
        ) from error
