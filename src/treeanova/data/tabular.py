"""Tables from files: CSV, Parquet, Feather and JSON lines, with columns as a model needs them."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Collection
from typing import Any

import narwhals.stable.v1 as nw
import numpy.typing as npt

from treeanova.data.columns import blanks_around, raw_column
from treeanova.data.features import Schema
from treeanova.data.frames import columns_of
from treeanova.data.table_columns import fit_columns, some_names, text_columns, typed_columns, without_columns
from treeanova.data.table_files import LIBRARIES, is_csv, read_file

__all__ = ["LIBRARIES", "read_column", "read_table", "records"]


def read_table(
    path: str | os.PathLike[str],
    schema: Schema | None = None,
    *,
    drop: Collection[str] = (),
    may_lack: Collection[str] = (),
    library: str | None = None,
) -> Any:
    r"""A data frame with the columns of a file, read as a model with this schema needs them.

    Parameters
    ----------
    path
        A file named .csv, .tsv, .parquet, .feather or .jsonl; text may be compressed.
    schema
        Features of the model; without one, types are the library's guess.
    drop
        Columns to leave out, such as the target.
    may_lack
        Columns of `drop` that need not be there.
    library
        "polars", "pyarrow" or "pandas"; the first one installed if None.

    Returns
    -------
    data frame of `library`

    Examples
    --------
    >>> import pathlib, tempfile
    >>> path = pathlib.Path(tempfile.mkdtemp()) / "rows.csv"
    >>> _ = path.write_text("size,price\n1,10\n,20\n")
    >>> records(read_table(path, drop=["price"], library="polars"))
    [{'size': 1.0}, {'size': None}]
    """
    source = pathlib.Path(path)
    if not source.is_file():
        raise FileNotFoundError(f"`path` must be a file with a table, no such file: {str(source)!r}; check the path.")
    table, library = read_file(source, library, text_columns(schema))
    wanted = [name for name in drop if name in table.columns or name not in may_lack]
    table = without_columns(table, wanted, source.name)
    if schema is not None:
        return nw.to_native(fit_columns(table, schema, library, source.name, wanted))
    return nw.to_native(typed_columns(table, library) if is_csv(source) else table)


def read_column(path: str | os.PathLike[str], name: str, *, library: str | None = None) -> npt.NDArray[Any]:
    """One column of a file as an array, such as the weights of its rows.

    Parameters
    ----------
    path, library
        As for `read_table`.
    name
        Name of the column.

    Returns
    -------
    array of shape (n_rows,)
    """
    table = nw.from_native(read_table(path, library=library), eager_only=True)
    if name not in table.columns:
        remedy = blanks_around([name], table.columns) or "check its name"
        raise ValueError(
            f"{pathlib.Path(path).name} must have the column {name!r}, got {some_names(table.columns)}; {remedy}."
        )
    return raw_column(table[name])


def records(table: Any) -> list[dict[str, Any]]:
    """Rows of a data frame of any library, or of a dict of columns, as dicts of plain Python values.

    Parameters
    ----------
    table
        A data frame, or a dict of columns.

    Returns
    -------
    list of dict

    Examples
    --------
    >>> records({"size": [1, 2]})
    [{'size': 1}, {'size': 2}]
    """
    columns = columns_of(table)
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
