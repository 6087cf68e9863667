"""Reads ONNX models in memory and in files."""

from __future__ import annotations

import pathlib
from typing import Any

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers.onnx.forest import forest_of
from treeanova.readers.onnx.graph import tree_operator


def read(model: Any) -> Forest:
    """The Forest of an onnx.ModelProto."""
    if not hasattr(model, "graph"):
        raise UnsupportedModelError(f"an ONNX model must be a ModelProto, got {type(model).__name__}.")
    return _read(model.SerializeToString(), "the model")


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of an .onnx file; onnx itself is not needed."""
    path = pathlib.Path(path)
    return _read(path.read_bytes(), path.name)


def _read(data: bytes, name: str) -> Forest:
    try:
        return forest_of(tree_operator(data))
    except (KeyError, IndexError, TypeError, AttributeError, OverflowError) as error:
        kind = type(error).__name__
        raise ModelFileError(
            f"{name} must be a whole ONNX model, got others ({kind}: {error}); file damaged?"
        ) from error
