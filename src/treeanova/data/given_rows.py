"""Rows that a user gives by hand: one as a sequence, a mapping or a Series, or several as a table."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.columns import blanks_around, encode
from treeanova.data.features import Schema
from treeanova.data.frames import Table, frame


def as_rows(rows: Any, schema: Schema, *, name: str, backend: str | None = None) -> Any:
    """Rows as a table or matrix, at least one; errors speak of the argument `name`."""
    if isinstance(rows, Mapping):
        return _of_mapping(rows, schema, name, backend)
    data = _two_axes(rows, name)
    if not data.shape[0]:
        raise ValueError(f"`{name}` must have at least one row, got none; pass rows with all features of the model.")
    return data


def _two_axes(rows: Any, name: str) -> Any:
    """A table or matrix as it is; a Series or a sequence as one row."""
    if getattr(rows, "ndim", None) == 1 and hasattr(rows, "to_frame"):
        rows = rows.to_frame().T.infer_objects() if hasattr(rows, "index") else rows.to_list()
    if len(getattr(rows, "shape", ())) == 2:
        return rows
    matrix = np.asarray(rows)
    if matrix.dtype.kind not in "biuf":  # numpy would turn numbers into text in rows that hold both
        matrix = np.asarray(rows, dtype=object)
    if rows is None or matrix.ndim not in {1, 2}:
        raise ValueError(
            f"`{name}` must be one row (a sequence, a mapping from names, a Series) or a table, got "
            f"{type(rows).__name__}; pass X.iloc[[i]] or X[i]."
        )
    return matrix[None] if matrix.ndim == 1 and len(matrix) else matrix


def _of_mapping(row: Mapping[Any, Any], schema: Schema, name: str, backend: str | None) -> Any:
    """One row given by names."""
    named = {str(key): value for key, value in row.items()}
    spelling = next((names for names in schema.spellings if set(names) <= set(named)), None)
    if spelling is None:
        missing = [key for key in schema.names if key not in named]
        remedy = blanks_around(missing, named) or "add them"
        raise ValueError(
            f"`{name}` must have all features of the model, got none named {', '.join(map(repr, missing))}; {remedy}."
        )
    table = frame({key: [named[key]] for key in spelling}, backend)
    return [[named[key] for key in spelling]] if isinstance(table, Table) else table


def encode_rows(rows: Any, schema: Schema, *, name: str) -> Floats:
    """Encoded matrix of rows that a user gave by hand; errors speak of the argument `name`."""
    data = as_rows(rows, schema, name=name)
    try:
        return encode(data, schema)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`X`", f"`{name}`")) from error
