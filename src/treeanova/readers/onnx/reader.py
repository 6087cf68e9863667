"""Reads ONNX models in memory and in files."""

from __future__ import annotations

import pathlib
from typing import Any

from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers.checks import damage_reported
from treeanova.readers.onnx.forest import forest_of
from treeanova.readers.onnx.graph import tree_operator


def read(model: Any) -> Forest:
    """The Forest of an onnx.ModelProto."""
    if not hasattr(model, "graph"):
        raise UnsupportedModelError(f"an ONNX model must be a ModelProto, got {type(model).__name__}.")
    return _read(model.SerializeToString())


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of an .onnx file; onnx itself is not needed."""
    path = pathlib.Path(path)
    return _read(path.read_bytes(), path)


def _read(data: bytes, path: pathlib.Path | None = None) -> Forest:
    with damage_reported("an ONNX model", path):
        return forest_of(tree_operator(data))
