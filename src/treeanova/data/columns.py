"""User data in: any table or matrix becomes the encoded float64 matrix of a model's features."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse

from treeanova.core.arrays import Floats
from treeanova.data.dates import date_column, found_dates, with_dates
from treeanova.data.features import Feature, Schema


def encode(X: Any, schema: Schema) -> Floats:
    """Encoded matrix of shape (n_rows, n_features), column by column in memory.

    Tables (pandas, polars, pyarrow and others that narwhals supports) are matched by name, in any order and with other
    columns ignored, if they have the names of the model or of the user. If there are neither, they are matched by name
    where their columns are exactly x0, x1, ..., and by position otherwise. Arrays and sparse matrices are matched by
    position.
    """
    columns, n_rows = _raw_columns(X, schema)
    matrix = np.empty((n_rows, len(schema.features)), order="F")
    for j, (feature, column) in enumerate(zip(schema.features, columns, strict=True)):
        matrix[:, j] = _encode_column(feature, column)
    return matrix


def column_named(X: Any, name: str, schema: Schema) -> npt.NDArray[Any]:
    """One column of user data, a feature of the model or not: a column of a table, or a feature of a matrix by name."""
    if not scipy.sparse.issparse(X) and not isinstance(X, np.ndarray) and _is_table(X):
        table = as_table(X)
        names = [str(known) for known in table.columns]
        if name in names:
            return raw_column(table[:, names.index(name)])
    if name not in schema.names:
        raise ValueError(
            f"`group` must be a column of X, two labels or a boolean for each row, got {name!r}, which X does not "
            "have; check the name."
        )
    return _raw_columns(X, schema)[0][schema.names.index(name)]


def with_labels(schema: Schema, X: Any) -> Schema:
    """The schema with names of categories from data, for features whose model stores none."""
    if not any(feature.encoder.wants_labels for feature in schema.features):
        return schema
    columns, _ = _raw_columns(X, schema)
    features = (
        dataclasses.replace(feature, encoder=feature.encoder.labelled(column, feature.name))
        for feature, column in zip(schema.features, columns, strict=True)
    )
    return dataclasses.replace(schema, features=tuple(features))


def without_column(X: Any, name: str, schema: Schema | None = None) -> tuple[Any, npt.NDArray[Any]]:
    """A table without the column that has a name, and that column; ValueError where there is none.

    With a schema, the table has the model's columns, of which the column may be one.
    """
    table = as_table(X) if nw.dependencies.is_into_dataframe(X) else None
    if table is None or name not in table.columns:
        got = "an array" if table is None else f"the columns {', '.join(map(repr, table.columns))}"
        remedy = blanks_around([name], () if table is None else table.columns) or "check the name"
        raise ValueError(f"`X` must have a column {name!r}, got {got}; {remedy}.")
    rest = table.drop(name) if schema is None else table[:, column_positions(table.columns, schema, {name})]
    return rest.to_native(), raw_column(table[name])


def with_found_dates(schema: Schema, X: Any, thresholds: Callable[[int], Floats]) -> Schema:
    """The schema with numeric features as dates where their columns in a table hold dates; see `found_dates`."""
    if not nw.dependencies.is_into_dataframe(X):
        return schema
    table = as_table(X)
    if not any(dtype in (nw.Datetime, nw.Date, nw.Object) for dtype in table.schema.values()):
        return schema
    columns = [date_column(table[:, j]) for j in column_positions(table.columns, schema)]
    return with_dates(schema, found_dates(schema, columns, thresholds))


def _raw_columns(data: Any, schema: Schema) -> tuple[Sequence[npt.NDArray[Any]], int]:
    """Raw columns in the order of the schema, and the number of rows."""
    if scipy.sparse.issparse(data):
        return _sparse_columns(data, schema), data.shape[0]
    if isinstance(data, np.ndarray) or not _is_table(data):
        array = _as_matrix(data, schema)
        return [array[:, j] for j in range(array.shape[1])], len(array)
    return _table_columns(as_table(data), schema)


def _encode_column(feature: Feature, column: npt.NDArray[Any]) -> Floats:
    encoded = feature.encoder.encode(column, feature.name)
    is_missing = np.isnan(encoded)
    if not feature.accepts_missing and is_missing.any():
        raise ValueError(
            f"column {feature.name!r} must have no missing values, got {is_missing.sum()} in {len(encoded)} rows; "
            "the model's library refuses them too."
        )
    is_unseen = encoded == feature.n_categories
    if feature.is_category and not feature.accepts_unseen and is_unseen.any():
        raise ValueError(
            f"column {feature.name!r} must hold categories of the model, got {column[is_unseen][0]!r}; the model's "
            "library refuses it too."
        )
    return encoded


def as_table(data: Any) -> nw.DataFrame[Any]:
    """A table as narwhals sees it; ValueError where a column comes twice."""
    names = [str(name) for name in getattr(data, "column_names", data.columns)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"`X` must have each column once, got {', '.join(map(repr, doubled))} twice; rename one.")
    return nw.from_native(data, eager_only=True)


def rows_at(X: Any, places: npt.NDArray[np.int64]) -> Any:
    """The rows of a table or matrix at some places, which may be repeated, in the library of X."""
    if scipy.sparse.issparse(X):
        return X.tocsr()[places]
    return nw.to_native(as_table(X)[places]) if _is_table(X) else np.asarray(X)[places]


def n_rows_of(X: Any) -> int:
    """Number of rows of a table or matrix."""
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _is_table(data: Any) -> bool:
    return nw.dependencies.is_into_dataframe(data)


def _check_width(width: int, schema: Schema) -> None:
    if width != len(schema.features):
        raise ValueError(
            f"`X` must have {len(schema.features)} columns, as the model was trained on, got {width}; "
            "pass the same columns in the same order."
        )


def _as_matrix(data: Any, schema: Schema) -> npt.NDArray[Any]:
    if isinstance(data, np.ma.MaskedArray):
        data = np.ma.filled(data.astype(np.float64 if data.dtype.kind in "biuf" else object), np.nan)
    array = np.asarray(data)
    if array.dtype.kind in "SU" and not hasattr(data, "dtype"):
        array = np.asarray(data, dtype=object)  # numpy would turn numbers into text in rows that hold both
    if array.ndim != 2:
        raise ValueError(
            f"`X` must have two axes, rows and columns, got {array.ndim}; reshape one row to (1, -1), as X.iloc[[i]]."
        )
    _check_width(array.shape[1], schema)
    if array.dtype.kind not in "iub" or schema.single_integers is False:
        return array
    single = array.astype(np.float32)
    if schema.single_integers is None and (single.astype(np.float64) != array).any():
        raise ValueError(
            "`X` must have integers that float32 can hold, because parts of the model read matrices of integers in "
            "different ways, got larger ones; convert `X` to floats."
        )
    return single


def _sparse_columns(data: Any, schema: Schema) -> list[Floats]:
    """Columns of a sparse matrix, with absent entries as the library reads them."""
    _check_width(data.shape[1], schema)
    if schema.absent is None:
        raise ValueError(
            "`X` must be dense, because parts of the model read absent entries in different ways, got a sparse matrix; "
            "pass X.toarray()."
        )
    matrix = data.tocsc()
    columns = []
    for j in range(matrix.shape[1]):
        column = np.full(matrix.shape[0], schema.absent)
        entries = slice(matrix.indptr[j], matrix.indptr[j + 1])
        column[matrix.indices[entries]] = matrix.data[entries]
        columns.append(column)
    return columns


def _table_columns(table: nw.DataFrame[Any], schema: Schema) -> tuple[list[npt.NDArray[Any]], int]:
    """Raw columns of a table in the model's order."""
    positions = column_positions(table.columns, schema)
    pairs = zip(schema.features, positions, strict=True)
    return [_column_of(feature, table[:, j]) for feature, j in pairs], len(table)


def _column_of(feature: Feature, series: nw.Series[Any]) -> npt.NDArray[Any]:
    """A raw column; of dates, where the feature is one."""
    dates = date_column(series) if feature.encoder.date_unit else None
    return raw_column(series) if dates is None else dates


def column_positions(columns: Sequence[Any], schema: Schema, beside: Collection[str] = ()) -> list[int]:
    """Positions of a table's columns in the model's order.

    Those in `beside` have another purpose; they are features too where columns are matched by name.
    """
    names = [str(name) for name in columns]
    if schema.named:
        return _by_name(names, schema)
    return _without_names(_as_spelt(names, schema), schema, set(beside))


def _as_spelt(names: list[str], schema: Schema) -> list[str]:
    """Names of columns as the model spells them: with underscores for spaces, if it does."""
    if not schema.underscores:
        return names
    known = {name for spelling in schema.spellings for name in spelling}
    return [name if name in known else name.replace(" ", "_") for name in names]


def _by_name(columns: list[str], schema: Schema) -> list[int]:
    """Positions of the columns with the model's names or, if not all are there, with the user's names for them."""
    names = _as_spelt(columns, schema)
    for spelling in schema.spellings:
        if set(spelling) <= set(names):
            return [names.index(name) for name in spelling]
    if schema.trained_names:
        raise ValueError(
            f"`X` must have all of the model's columns {', '.join(map(repr, schema.trained_names))} or all of "
            f"`feature_names` {', '.join(map(repr, schema.names))}, got {', '.join(map(repr, columns))}; rename its "
            "columns."
        )
    missing = [name for name in schema.names if name not in names]
    remedy = blanks_around(missing, columns) or "add them"
    raise ValueError(f"`X` must have the model's columns, got none named {', '.join(map(repr, missing))}; {remedy}.")


def blanks_around(missing: Collection[str], columns: Iterable[str]) -> str:
    """The remedy for columns that are missing only because of blanks around their names; empty where none are.

    >>> blanks_around(["b"], ["a", " b"])
    "the column ' b' has blanks around its name, rename it"
    """
    found = [name for name in columns if name.strip() != name and name.strip() in missing]
    shown = ", ".join(map(repr, found[:5])) + (", …" if len(found) > 5 else "")
    if len(found) > 1:
        return f"the columns {shown} have blanks around their names, rename them"
    return f"the column {shown} has blanks around its name, rename it" if found else ""


def _without_names(names: list[str], schema: Schema, beside: set[str]) -> list[int]:
    """Positions of the columns for a model without names: those with the names that are shown for it, or all others."""
    features = set(schema.names)
    if has_features(set(names) - (beside - features), schema):
        return [names.index(name) for name in schema.names]
    left = [name for name in names if name not in beside]
    if features.intersection(left):
        if schema.given:
            raise ValueError(
                f"`X` must have all of the names {', '.join(map(repr, schema.names))} or none, got {', '.join(names)}; "
                "rename its columns."
            )
        check_beside(left, schema, beside)
    _check_width(len(left), schema)
    return [names.index(name) for name in left]


def check_beside(names: Collection[str], schema: Schema, beside: Collection[str]) -> None:
    """Raise ValueError for columns by position beside one with another purpose that has the name of a feature."""
    both = sorted({*beside}.intersection(schema.names))
    if both and set(names).intersection(schema.names):
        raise ValueError(
            f"`X` must have no columns but features and those named beside them, where {both[0]!r} is the name "
            f"of both, got {', '.join(names)}; leave the others out, or give the model `feature_names`."
        )


def has_features(names: Collection[str], schema: Schema) -> bool:
    """Whether columns are matched by the names that are shown for a model without names: the user's, or x0, x1, ...

    Beside names that were made up there may be no other column, since x1, x2, x3 may well be features of a table x0,
    x1, x2, x3.
    """
    return set(schema.names) <= set(names) if schema.given else set(schema.names) == set(names)


def raw_column(series: nw.Series[Any]) -> npt.NDArray[Any]:
    """A column as numpy: numbers and booleans unchanged with NaN where missing, all others as objects with None."""
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        if series.dtype not in {nw.Float32, nw.Float64} and series.null_count() == 0:
            return series.to_numpy()
        is_single = series.dtype == nw.Float32 and series.null_count() == 0
        return series.to_numpy() if is_single else series.cast(nw.Float64).to_numpy()
    column = np.empty(len(series), dtype=object)
    column[:] = series.to_list()
    return column
