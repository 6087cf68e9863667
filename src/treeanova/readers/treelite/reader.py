"""Reads treelite models in memory and in checkpoints."""

from __future__ import annotations

import pathlib
from typing import Any

from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers.checks import damage_reported
from treeanova.readers.treelite.checkpoint import parse
from treeanova.readers.treelite.forest import forest_of


def read(model: Any) -> Forest:
    """The Forest of a treelite.Model."""
    if not hasattr(model, "serialize_bytes"):
        raise UnsupportedModelError(f"a treelite model must be a treelite.Model, got {type(model).__name__}.")
    return _read(model.serialize_bytes())


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a checkpoint; treelite itself is not needed."""
    path = pathlib.Path(path)
    return _read(path.read_bytes(), path)


def _read(data: bytes, path: pathlib.Path | None = None) -> Forest:
    with damage_reported("a treelite checkpoint", path):
        return forest_of(parse(data))
