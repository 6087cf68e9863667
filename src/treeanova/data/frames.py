"""Tables out: columns become a data frame of the library that the user's data came in, and text."""

from __future__ import annotations

import importlib.util
import math
import unicodedata
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import numpy.typing as npt

from treeanova.data.columns import as_table

_LIBRARIES = ("pandas", "polars", "pyarrow")
_LONGEST_CELL = 60
_LONGEST_TABLE = 60


class Table:
    """A table of results where no data frame library is installed: columns by name, printed as text.

    Parameters
    ----------
    columns
        Names of the columns to their entries, as many in each.

    Examples
    --------
    >>> table = Table({"term": ["a", "b"], "share": [0.75, 0.25]})
    >>> table["term"].tolist(), len(table), table.columns
    (['a', 'b'], 2, ['term', 'share'])
    >>> print(table.head(1))
    term  share
    a      0.75
    """

    def __init__(self, columns: Mapping[str, Sequence[Any] | Any]) -> None:
        self._columns = {name: _array(column) for name, column in columns.items()}

    @property
    def columns(self) -> list[str]:
        """Names of the columns."""
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
        """The first rows."""
        return Table({name: column[:n] for name, column in self._columns.items()})

    def to_dict(self) -> dict[str, list[Any]]:
        """Names of the columns to lists of plain values."""
        return {name: column.tolist() for name, column in self._columns.items()}

    def __repr__(self) -> str:
        return table_text(self)


def _array(column: Sequence[Any] | Any) -> npt.NDArray[Any]:
    """Numbers as numbers, all else as objects."""
    values = np.asarray(column)
    return values if values.dtype.kind in "biufM" else np.array([*column, None], dtype=object)[:-1]


def installed_library() -> str | None:
    """The data frame library of results whose rows came in none: pandas, else polars, else pyarrow, else None."""
    return next((name for name in _LIBRARIES if _is_installed(name)), None)


def _is_installed(library: str) -> bool:
    return importlib.util.find_spec(library.partition(".")[0]) is not None


def backend_of(data: Any) -> str | None:
    """Name of the library of a data frame; for all other data the one of results (`installed_library`)."""
    if nw.dependencies.is_into_dataframe(data):
        return str(nw.get_native_namespace(as_table(data)).__name__)
    return installed_library()


def free_name(name: str, taken: Collection[str]) -> str:
    """The name, put in brackets until it differs from those taken."""
    while name in taken:
        name = f"({name})"
    return name


def frame(columns: Mapping[str, Sequence[Any] | Any], backend: str | None) -> Any:
    """A data frame of the named library, of another where it is not installed, or a `Table` where none is."""
    library = backend if backend is not None and _is_installed(backend) else installed_library()
    if library is None:
        return Table(columns)
    return nw.to_native(nw.from_dict(dict(columns), backend=library))  # type: ignore[arg-type]


def columns_of(table: Any) -> dict[str, list[Any]]:
    """Names of the columns of a table of any library, of a `Table` or of a dict, to lists of plain values."""
    if isinstance(table, Table):
        return table.to_dict()
    if isinstance(table, Mapping):
        return {name: np.asarray(column).tolist() for name, column in table.items()}
    columns: dict[str, Any] = nw.from_native(table, eager_only=True).to_dict(as_series=False)
    return {name: list(column) for name, column in columns.items()}


# Text


def table_text(table: Any) -> str:
    """A table of any library as text, the same for all of them; of a long one the first rows."""
    columns = columns_of(table)
    n_rows = len(next(iter(columns.values()), ()))
    text = aligned({name: column[:_LONGEST_TABLE] for name, column in columns.items()})
    return text if n_rows <= _LONGEST_TABLE else f"{text}\n… {n_rows - _LONGEST_TABLE:,} more rows"


def aligned(columns: Mapping[str, Sequence[Any]]) -> str:
    """Columns of text side by side, numbers to the right."""
    if not any(map(len, columns.values())):
        return "(no rows)"
    padded = []
    for name, column in columns.items():
        cells = [_cell(name), *map(_cell, column)]
        width = max(map(len, cells))
        to_right = all(map(is_number, cells[1:]))
        padded.append([cell.rjust(width) if to_right else cell.ljust(width) for cell in cells])
    return "\n".join("  ".join(line).rstrip() for line in zip(*padded, strict=True))


def _cell(value: Any) -> str:
    """A value as text, a dash where there is none; long names are cut in the middle."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return "–"
    if isinstance(value, float):
        return f"{value:.6g}"
    text = printable(str(value))
    return text if len(text) <= _LONGEST_CELL else f"{text[:34]}…{text[-25:]}"


def printable(text: str) -> str:
    """Text that cannot move the cursor."""
    return "".join("�" if unicodedata.category(character)[0] == "C" else character for character in text)


def is_number(text: str) -> bool:
    """Whether a cell's text is a number, a share in percent, empty or a dash."""
    try:
        float(text.removesuffix(" %"))
    except ValueError:
        return text in {"", "–"}
    return True
