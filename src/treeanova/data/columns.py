"""Tables in and out: tables or matrices become encoded float64 columns; results become data frames."""

from __future__ import annotations

import dataclasses
import importlib
import importlib.util
import math
import os
import pathlib
import unicodedata
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt
import scipy.sparse

from treeanova.core.arrays import Floats
from treeanova.data.dates import date_column, units_of_dates, with_dates
from treeanova.data.features import Feature, Schema

_LIBRARIES = ("pandas", "polars", "pyarrow")
_LONGEST_CELL = 60  # characters
_LONGEST_TABLE = 60  # rows that are printed


def encode(X: Any, schema: Schema) -> Floats:
    """Encode user data as float64, (n_rows, n_features), for the model: numbers, positions of categories, NaN."""
    # Tables (of any library that narwhals supports) are matched by name, in any order and ignoring other columns, if
    # they have the names of the model or of the user. Without such names, they are matched by name if their columns are
    # exactly x0, x1, ..., and by position otherwise. Arrays and sparse matrices are matched by position.
    columns, n_rows = _raw_columns(X, schema)
    matrix = np.empty((n_rows, len(schema.features)), order="F")
    for j, (feature, column) in enumerate(zip(schema.features, columns, strict=True)):
        matrix[:, j] = encoded = feature.encoder.encode(column, feature.name)
        feature.check_accepted(encoded, column.__getitem__)
    return matrix


def column_named(X: Any, name: str, schema: Schema) -> npt.NDArray[Any]:
    """Return the raw column that the argument `group` names: any column of a table, or a feature of a matrix."""
    if not scipy.sparse.issparse(X) and not isinstance(X, np.ndarray) and nw.dependencies.is_into_dataframe(X):
        table = as_table(X)
        names = [str(column) for column in table.columns]
        if name in names:
            return raw_column(table[:, names.index(name)])
    if name not in schema.names:
        raise ValueError(
            f"`group` must be a column of X, two labels or a boolean for each row, got {name!r}, which X does not "
            "have; check the name."
        )
    return _raw_columns(X, schema)[0][schema.names.index(name)]


def with_labels(schema: Schema, X: Any) -> Schema:
    """Return the schema with names of categories taken from X, for features whose model stores none."""
    if not any(feature.encoder.wants_labels for feature in schema.features):
        return schema
    columns, _ = _raw_columns(X, schema)
    features = (
        dataclasses.replace(feature, encoder=feature.encoder.labelled(column, feature.name))
        for feature, column in zip(schema.features, columns, strict=True)
    )
    return dataclasses.replace(schema, features=tuple(features))


def without_column(X: Any, name: str, schema: Schema | None = None) -> tuple[Any, npt.NDArray[Any]]:
    """Split a column, such as the target, off a table; with a schema, return only the model's columns beside it."""
    table = as_table(X) if nw.dependencies.is_into_dataframe(X) else None
    if table is None or name not in table.columns:
        got = "an array" if table is None else f"the columns {', '.join(map(repr, table.columns))}"
        remedy = blanks_around([name], () if table is None else table.columns) or "check the name"
        raise ValueError(f"`X` must have a column {name!r}, got {got}; {remedy}.")
    other_columns = table.drop(name) if schema is None else table[:, column_positions(table.columns, schema, {name})]
    return other_columns.to_native(), raw_column(table[name])


def with_found_dates(schema: Schema, X: Any, thresholds: Callable[[int], Floats]) -> Schema:
    """Mark numeric features as dates if X has dates in their columns; `thresholds(j)` are those of feature j."""
    if not nw.dependencies.is_into_dataframe(X):
        return schema
    table = as_table(X)
    if not any(dtype in (nw.Datetime, nw.Date, nw.Object, nw.Unknown) for dtype in table.schema.values()):
        return schema
    columns = [date_column(table[:, j]) for j in column_positions(table.columns, schema)]
    return with_dates(schema, units_of_dates(schema, columns, thresholds))


def _raw_columns(data: Any, schema: Schema) -> tuple[Sequence[npt.NDArray[Any]], int]:
    """Return one column per feature, in the model's order and before encoding, and the number of rows."""
    if scipy.sparse.issparse(data):
        return _sparse_columns(data, schema), data.shape[0]
    if isinstance(data, np.ndarray) or not nw.dependencies.is_into_dataframe(data):
        array = _as_matrix(data, schema)
        return [feature.encoder.of_array(array[:, j]) for j, feature in enumerate(schema.features)], len(array)
    table = as_table(data)
    positions = column_positions(table.columns, schema)
    columns = [_raw_feature_column(table[:, j], feature) for feature, j in zip(schema.features, positions, strict=True)]
    return columns, len(table)


def _raw_feature_column(series: nw.Series[Any], feature: Feature) -> npt.NDArray[Any]:
    """Return a table's column as the feature's encoder takes it: dates, numbers, or objects with the right nulls."""
    dates = date_column(series) if feature.encoder.date_unit else None
    if dates is not None:
        return dates
    encoder, library = feature.encoder, series.implementation
    may_hold_none = encoder.tells_none and series.dtype == nw.Boolean and not library.is_pandas_like()
    column = object_column(series.to_list()) if may_hold_none else encoder.of_table(raw_column(series), feature.name)
    return encoder.with_nulls(column) if library.is_pyarrow() else column


def as_table(data: Any) -> nw.DataFrame[Any]:
    """Wrap a table with narwhals; raise ValueError for a repeated column."""
    names = [str(name) for name in getattr(data, "column_names", data.columns)]
    doubled = sorted({name for name in names if names.count(name) > 1})
    if doubled:
        raise ValueError(f"`X` must have each column once, got {', '.join(map(repr, doubled))} twice; rename one.")
    return nw.from_native(data, eager_only=True)


def rows_at(X: Any, row_index: npt.NDArray[np.int64]) -> Any:  # rows of a table or matrix by number, of the same type
    if scipy.sparse.issparse(X):
        return X.tocsr()[row_index]
    return nw.to_native(as_table(X)[row_index]) if nw.dependencies.is_into_dataframe(X) else np.asarray(X)[row_index]


def n_rows_of(X: Any) -> int:
    return int(X.shape[0]) if hasattr(X, "shape") else len(X)


def _check_width(n_columns: int, schema: Schema) -> None:  # ValueError unless as many as the model has features
    if n_columns != len(schema.features):
        raise ValueError(
            f"`X` must have {len(schema.features)} columns, as the model was trained on, got {n_columns}; "
            "pass the same columns in the same order."
        )


def _not_in_memory_error(data: Any) -> TypeError:  # for a path, a stream or a lazy frame
    kind = f"a {type(data).__name__} of batches" if isinstance(data, (list, tuple)) else type(data).__name__
    return TypeError(
        f"`X` must be rows in memory, a table or a matrix, got {kind}; make a data frame of it first, or write the "
        "terms of a large table to a file with explain_to(path, X)."
    )


def check_nameless(data: Any, name: str = "X") -> None:
    """Raise TypeError for data with names of columns that is not a data frame: numpy would forget the names."""
    struct_fields = getattr(getattr(data, "dtype", None), "fields", None)
    row = data[0] if isinstance(data, (list, tuple)) and len(data) else None
    row_has_names = nw.dependencies.is_into_series(row) or isinstance(row, Mapping) or hasattr(row, "_fields")
    if row_has_names or struct_fields or hasattr(data, "columns") or hasattr(data, "column_names"):
        kind = type(row if row_has_names else data)
        got = f"{kind.__module__.partition('.')[0]}.{kind.__qualname__}{' for a row' if row_has_names else ''}"
        raise TypeError(
            f"`{name}` must be a data frame, or have no names of columns, got {got}; make a data frame of it, as by "
            "pandas.DataFrame(rows), pyarrow.Table.from_batches([batch]), series.struct.unnest() or frame.to_native()."
        )


def _as_matrix(data: Any, schema: Schema) -> npt.NDArray[Any]:
    """Return rows as a matrix with the model's columns; integers become float32 where the library reads them so."""
    if np.ma.getmask(data).any() if isinstance(data, np.ma.MaskedArray) else False:
        raise ValueError(
            f"`X` must have no masked values, got {np.ma.getmaskarray(data).sum()} of {data.size}, whose mask the "
            "libraries ignore; make them missing, as by X.astype(float).filled(numpy.nan)."
        )
    is_lazy = nw.dependencies.is_polars_lazyframe(data) or nw.dependencies.is_duckdb_relation(data)
    first = data[0] if isinstance(data, (list, tuple)) and len(data) else None
    is_file = isinstance(first, os.PathLike) or (isinstance(first, str) and pathlib.Path(first).exists())
    is_in_batches = is_file or len(getattr(first, "shape", ())) == 2
    if is_lazy or is_in_batches or isinstance(data, (str, os.PathLike, Mapping)):
        raise _not_in_memory_error(data)
    check_nameless(data)
    try:
        array = np.asarray(data)
    except ValueError as error:
        raise ValueError(
            f"`X` must have rows of equal length, got others; pass a table or a matrix ({error})."
        ) from error
    if array.ndim == 0 and array.dtype == object:  # a reader, an iterator, …
        raise _not_in_memory_error(data)
    if array.shape == (0,):
        raise ValueError("`X` must have at least one row, got an empty list; pass rows.")
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
    """Return the columns of a sparse matrix, dense; absent entries are `schema.absent`, as the library reads them."""
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


def column_positions(columns: Sequence[Any], schema: Schema, reserved: Collection[str] = ()) -> list[int]:
    """Return each feature's position in `columns`; `reserved` ones (weights, target) are features only by name."""
    names = [str(name) for name in columns]
    if schema.named:
        return _positions_by_name(names, schema)
    return _positions_without_names(_as_model_spells(names, schema), schema, set(reserved))


def _as_model_spells(names: list[str], schema: Schema) -> list[str]:
    """Put underscores for spaces, as the model's names have them, except in names that the model knows as they are."""
    if not schema.underscores:
        return names
    spelt_names = {name for spelling in schema.spellings for name in spelling}
    return [name if name in spelt_names else name.replace(" ", "_") for name in names]


def _positions_by_name(columns: list[str], schema: Schema) -> list[int]:
    """Return positions of the columns with the model's names or, if some are absent, with the user's."""
    names = _as_model_spells(columns, schema)
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
    """Return the remedy for columns that are missing only because of blanks around their names; else empty.

    >>> blanks_around(["b"], ["a", " b"])
    "the column ' b' has blanks around its name, rename it"
    """
    padded_names = [name for name in columns if name.strip() != name and name.strip() in missing]
    shown = ", ".join(map(repr, padded_names[:5])) + (", …" if len(padded_names) > 5 else "")
    if len(padded_names) > 1:
        return f"the columns {shown} have blanks around their names, rename them"
    return f"the column {shown} has blanks around its name, rename it" if padded_names else ""


def _positions_without_names(names: list[str], schema: Schema, reserved: set[str]) -> list[int]:
    """Return positions for a model that stores no names: columns with the displayed names, else all not reserved."""
    features = set(schema.names)
    if has_features(set(names) - (reserved - features), schema):
        return [names.index(name) for name in schema.names]
    unreserved = [name for name in names if name not in reserved]
    if features.intersection(unreserved):
        if schema.given:
            raise ValueError(
                f"`X` must have all of the names {', '.join(map(repr, schema.names))} or none, got {', '.join(names)}; "
                "rename its columns."
            )
        check_reserved(unreserved, schema, reserved)
    _check_width(len(unreserved), schema)
    return [names.index(name) for name in unreserved]


def check_reserved(names: Collection[str], schema: Schema, reserved: Collection[str]) -> None:
    """Raise ValueError if some columns have features' names and so does a reserved one: matching is ambiguous."""
    both = sorted({*reserved}.intersection(schema.names))
    if both and set(names).intersection(schema.names):
        raise ValueError(
            f"`X` must have no columns but features and those named beside them, where {both[0]!r} is the name "
            f"of both, got {', '.join(names)}; leave the others out, or give the model `feature_names`."
        )


def has_features(names: Collection[str], schema: Schema) -> bool:
    """Whether columns have the displayed names of a model that stores none: the user's, or x0, x1, ..."""
    # With made-up names there may be no other column, because x1, x2, x3 may be features of a table x0, x1, x2, x3.
    return set(schema.names) <= set(names) if schema.given else set(schema.names) == set(names)


def raw_column(series: nw.Series[Any]) -> npt.NDArray[Any]:
    """Return a column as numpy: numbers and booleans unchanged with NaN if missing, others as objects with None."""
    series = in_plain_type(series)
    if series.dtype.is_numeric() or series.dtype == nw.Boolean:
        return _numbers(series)
    if type(getattr(series.to_native(), "dtype", None)).__name__ == "SparseDtype":  # of pandas
        dense = series.to_numpy()
        if dense.dtype.kind in "biuf":
            return dense
    return object_column(series.to_list())


def object_column(values: Sequence[Any]) -> npt.NDArray[Any]:
    """Return a 1-d array of dtype object; numpy alone would convert values or add axes."""
    column = np.empty(len(values), dtype=object)
    column[:] = values
    return column


def _numbers(series: nw.Series[Any]) -> npt.NDArray[Any]:
    """Return a column of numbers or booleans as numpy; float64 with NaN if some are null."""
    if series.dtype == nw.Decimal:  # text is read as the nearest float; pyarrow's own cast may miss it
        return series.cast(nw.String).cast(nw.Float64).to_numpy()
    is_missing = series.is_null().to_numpy()
    if series.dtype.is_float():
        is_single = series.dtype == nw.Float32 and not is_missing.any()
        return series.to_numpy() if is_single else series.cast(nw.Float64).to_numpy()
    if not is_missing.any():
        return series.to_numpy()
    numbers = series.fill_null(False if series.dtype == nw.Boolean else 0).to_numpy().astype(np.float64)
    numbers[is_missing] = np.nan  # pyarrow refuses to cast whole numbers that a float cannot hold
    return numbers


def in_plain_type(series: nw.Series[Any]) -> nw.Series[Any]:
    """Decode an Arrow column whose type narwhals does not know: run-end encoded, extension type or decimal."""
    native = series.to_native()
    is_arrow = hasattr(native, "type") or type(native.dtype).__name__ == "ArrowDtype"
    if series.dtype != nw.Unknown or not is_arrow:
        return series
    pyarrow = importlib.import_module("pyarrow")
    array = native if hasattr(native, "type") else pyarrow.chunked_array([pyarrow.array(native)])
    if pyarrow.types.is_run_end_encoded(array.type):
        array = importlib.import_module("pyarrow.compute").run_end_decode(array)
    if isinstance(array.type, pyarrow.BaseExtensionType):
        array = array.cast(array.type.storage_type)
    if pyarrow.types.is_decimal(array.type):
        array = array.cast(pyarrow.string()).cast(pyarrow.float64())
    return nw.from_native(array, series_only=True)


class Table:
    """A table of results if no data frame library is installed: columns by name, printed as text.

    >>> table = Table({"term": ["a", "b"], "share": [0.75, 0.25]})
    >>> table["term"].tolist(), len(table), table.columns
    (['a', 'b'], 2, ['term', 'share'])
    >>> print(table.head(1))
    term  share
    a      0.75
    """

    def __init__(self, columns: Mapping[str, Sequence[Any] | Any]) -> None:
        self._columns: dict[str, npt.NDArray[Any]] = {}
        for name, column in columns.items():
            values = np.asarray(column)
            is_plain = values.dtype.kind in "biufM"
            self._columns[name] = values if is_plain else object_column(list(column))

    @property
    def columns(self) -> list[str]:
        return list(self._columns)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        if name not in self._columns:
            raise KeyError(f"the table must have the column, got {name!r}; choose from {', '.join(self._columns)}.")
        return self._columns[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._columns)

    def __len__(self) -> int:
        return len(next(iter(self._columns.values()), ()))

    def head(self, n: int = 5) -> Table:
        return Table({name: column[:n] for name, column in self._columns.items()})

    def to_dict(self) -> dict[str, list[Any]]:
        return {name: column.tolist() for name, column in self._columns.items()}

    def __repr__(self) -> str:
        return table_text(self)


def installed_library() -> str | None:
    """Return the library for result tables if X is not a data frame: pandas, else polars, pyarrow or None."""
    return next((name for name in _LIBRARIES if _is_installed(name)), None)


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library.partition(".")[0]) is not None


def backend_of(data: Any) -> str | None:
    """Return the name of the data frame library of user data, else of the one installed for results."""
    if nw.dependencies.is_into_dataframe(data):
        return str(nw.get_native_namespace(as_table(data)).__name__)
    return installed_library()


def free_name(name: str, taken: Collection[str]) -> str:
    """Put brackets around a column's name until it is not in `taken`."""
    while name in taken:
        name = f"({name})"
    return name


def frame(columns: Mapping[str, Sequence[Any] | Any], backend: str | None) -> Any:
    """Return columns as a data frame of `backend`, else of an installed library, and without any as a `Table`."""
    library = backend if backend is not None and _is_installed(backend) else installed_library()
    if library is None:
        return Table(columns)
    return nw.to_native(nw.from_dict(dict(columns), backend=library))  # type: ignore[arg-type]


def frame_of_rows(rows: Sequence[Mapping[str, Any]], names: Sequence[str], backend: str | None) -> Any:
    """Return rows, each a mapping from names to values, as a data frame of `backend`, as `frame` does."""
    return frame({name: [row[name] for row in rows] for name in names}, backend)


def columns_of(table: Any) -> dict[str, list[Any]]:
    """Return the columns of any table, by name, as lists of plain values."""
    if isinstance(table, Table):
        return table.to_dict()
    if isinstance(table, Mapping):
        return {name: np.asarray(column).tolist() for name, column in table.items()}
    columns: dict[str, Any] = nw.from_native(table, eager_only=True).to_dict(as_series=False)
    return {name: list(column) for name, column in columns.items()}


def table_text(table: Any) -> str:
    """Return any table as text, the same for all libraries; only the first rows of a long one."""
    columns = columns_of(table)
    n_rows = len(next(iter(columns.values()), ()))
    text = aligned({name: column[:_LONGEST_TABLE] for name, column in columns.items()})
    return text if n_rows <= _LONGEST_TABLE else f"{text}\n… {n_rows - _LONGEST_TABLE:,} more rows"


def aligned(columns: Mapping[str, Sequence[Any]]) -> str:
    """Return columns as text, one line per row; columns of numbers are aligned to the right."""
    if not any(map(len, columns.values())):
        return "(no rows)"
    padded_columns = []
    for name, column in columns.items():
        cells = [_cell(name), *map(_cell, column)]
        width = max(map(len, cells))
        to_right = all(map(is_number, cells[1:]))
        padded_columns.append([cell.rjust(width) if to_right else cell.ljust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded_columns, strict=True))


def _cell(value: Any) -> str:
    """Return a value as text, a dash for None and NaN; long texts are cut in the middle."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = printable(str(value))
    return text if len(text) <= _LONGEST_CELL else f"{text[:34]}…{text[-25:]}"


def printable(text: str) -> str:
    """Replace control characters, which could move the cursor of a terminal."""
    return "".join("�" if unicodedata.category(character)[0] == "C" else character for character in text)


def is_number(text: str) -> bool:
    """Whether a cell's text is a number, a percentage, empty or a dash."""
    try:
        float(text.removesuffix("%").rstrip().removeprefix("< ").replace("−", "-"))
    except ValueError:
        return text in {"", "–"}
    return True


def as_rows(rows: Any, schema: Schema, *, name: str, backend: str | None = None) -> Any:
    """Return one row (mapping, Series, sequence) or several as a table or matrix; errors name the argument `name`."""
    if isinstance(rows, Mapping):
        named = {str(key): value for key, value in rows.items()}
        spelling = next((names for names in schema.spellings if set(names) <= set(named)), None)
        if spelling is None:
            missing = [key for key in schema.names if key not in named]
            raise ValueError(
                f"`{name}` must have all features of the model, got none named {', '.join(map(repr, missing))}; "
                f"{blanks_around(missing, named) or 'add them'}."
            )
        table = frame({key: [named[key]] for key in spelling}, backend)
        # Without a data frame library, a list of one row, in the order of the model.
        return [[named[key] for key in spelling]] if isinstance(table, Table) else table
    data = _two_axes(rows, name)
    if not data.shape[0]:
        raise ValueError(f"`{name}` must have at least one row, got none; pass rows with all features of the model.")
    return data


def _two_axes(rows: Any, name: str) -> Any:
    """Return a table or matrix unchanged, a Series or a sequence as a matrix of one row; `name` is for errors."""
    if getattr(rows, "ndim", None) == 1 and hasattr(rows, "to_frame"):
        rows = rows.to_frame().T.infer_objects() if hasattr(rows, "index") else rows.to_list()
    if len(getattr(rows, "shape", ())) == 2:
        return rows
    check_nameless(rows, name)
    matrix = np.asarray(rows)
    if matrix.dtype.kind not in "biuf":  # numpy would turn numbers into text in rows that hold both
        matrix = np.asarray(rows, dtype=object)
    if rows is None or matrix.ndim not in {1, 2}:
        raise ValueError(
            f"`{name}` must be one row (a sequence, a mapping from names, a Series) or a table, got "
            f"{type(rows).__name__}; pass X.iloc[[i]] or X[i]."
        )
    return matrix[None] if matrix.ndim == 1 and len(matrix) else matrix


def encode_rows(rows: Any, schema: Schema, *, name: str) -> Floats:
    """Encode rows that a user gave by hand; errors name the argument `name`."""
    data = as_rows(rows, schema, name=name)
    try:
        return encode(data, schema)
    except (TypeError, ValueError) as error:
        raise type(error)(str(error).replace("`X`", f"`{name}`")) from error
