"""A table of rows under the name that a query reads, in a database of its own or as a temporary table of a user's."""

from __future__ import annotations

import contextlib
import importlib
import sqlite3
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Any, Self

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.export.artifact import Export
from treeanova.export.sql import DIALECTS, Dialect
from treeanova.model.step_form import Cuts, LabelCodes, StepAxis

_NUMBER = "treeanova_row"  # the column that numbers the rows
_IN_ORDER = ("duckdb", "sqlite", "postgresql")  # databases that return the rows of a scratch table in their order
_OWN_SCHEMAS = {"sqlite": ("main", "temp"), "duckdb": ("main",)}


class ScratchTable:
    """The table that a query names, filled with plain rows as long as the context lasts.

    In a user's database it is a temporary table, which hides a table of the same name; that one is neither read nor
    dropped.
    """

    def __init__(self, export: Export, rows: Sequence[Mapping[str, Any]], connection: Any) -> None:
        self._export, self._rows = export, rows
        self._key: str = export.options["dialect"]
        self._dialect: Dialect = DIALECTS[self._key]
        self._parts: tuple[str, ...] = export.options["table"]
        self._booleans: tuple[str, ...] = export.options["booleans"]
        self._is_temporary = connection is not None
        self._check()
        self._cursor = (_connection(self._key) if connection is None else connection).cursor()
        self._source = ".".join(map(self._dialect.name_of, self._parts))
        self._columns = self._columns_by_name()

    def __enter__(self) -> Self:
        if self._is_temporary:
            self._create_temporary()
        else:
            self._create_schemas()
            self._cursor.execute(f"CREATE TABLE {self._source} ({self._definitions()})")
        try:
            self._fill()
        except BaseException:
            self._drop()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._drop()

    def results(self) -> Floats:
        """Run the query, and return its results without the columns that it keeps, in the order of the rows."""
        keep: tuple[str, ...] = self._export.options["keep"]
        self._cursor.execute(str(self._export))
        names = [str(column[0]) for column in self._cursor.description]
        if names != [*keep, *self._export.columns]:
            raise ValueError(
                f"`export` must return the columns {[*keep, *self._export.columns]!r}, got {names!r}; export it again."
            )
        records = self._cursor.fetchall()
        if len(records) != len(self._rows):
            raise ValueError(f"`export` must return {len(self._rows)} rows, got {len(records)}; export it again.")
        numbered = next((i for i, name in enumerate(keep) if self._columns[self._spelled(name)][1] is None), None)
        if numbered is not None:
            records = sorted(records, key=lambda record: record[numbered])
        self._check_kept(keep, records)
        return np.array([record[len(keep) :] for record in records], dtype=np.float64).reshape(len(records), -1)

    def _check(self) -> None:
        """Raise ValueError where the table cannot be made, or rows not be found again."""
        if self._is_temporary and len(self._parts) > 1:
            raise ValueError(
                f"`export` must name a table without a schema with a `connection`, got {'.'.join(self._parts)!r}"
                "; a temporary table has no schema. Verify the same export with the last part as its `table`."
            )
        axes = {axis.name for axis in self._export.form.axes}
        if self._key not in _IN_ORDER and not set(self._export.options["keep"]) - axes:
            raise ValueError(
                f"`export` must keep a column by which rows of {self._dialect.name} are found again, got none; export "
                "it with an identifier, as in keep=['id']."
            )

    def _spelled(self, name: str) -> str:
        return name.lower() if self._dialect.ignores_case else name

    def _columns_by_name(self) -> dict[str, tuple[str, StepAxis | None]]:
        """Return names and columns of the form, and of kept columns that it does not have: these number the rows."""
        columns: dict[str, tuple[str, StepAxis | None]] = {
            self._spelled(axis.name): (axis.name, axis) for axis in self._export.form.axes
        }
        for name in (*self._export.options["keep"], _NUMBER):
            columns.setdefault(self._spelled(name), (name, None))
        return columns

    def _definitions(self) -> str:
        return ", ".join(f"{self._dialect.name_of(name)} {self._type(axis)}" for name, axis in self._columns.values())

    def _type(self, axis: StepAxis | None) -> str:
        if axis is None:
            return self._dialect.integer
        if axis.name in self._booleans:
            return "BOOLEAN"
        return self._dialect.double if isinstance(axis.reading, Cuts) else _label_type(axis, self._dialect.double)

    def _create_schemas(self) -> None:
        """Make the schemas, and the database, that the table's name has."""
        quote, outer = self._dialect.name_of, self._parts[:-1]
        if self._key == "sqlite" and len(outer) == 1:
            if outer[0].lower() not in ("main", "temp"):
                self._cursor.execute(f"ATTACH ':memory:' AS {quote(outer[0])}")
        elif self._key == "duckdb" and len(outer) in (1, 2):
            if len(outer) == 2 and outer[0].lower() not in ("memory", "temp"):
                self._cursor.execute(f"ATTACH ':memory:' AS {quote(outer[0])}")
            self._cursor.execute(f"CREATE SCHEMA IF NOT EXISTS {'.'.join(map(quote, outer))}")
        elif outer:
            raise ValueError(
                f"`table` must have at most {'two' if self._key == 'sqlite' else 'three'} parts for "
                f"{self._dialect.name}, got {len(self._parts)}."
            )

    def _create_temporary(self) -> None:
        try:
            self._cursor.execute(f"CREATE TEMPORARY TABLE {self._source} ({self._definitions()})")
        except Exception as error:
            raise ValueError(
                f"`connection` must be able to make a temporary table {self._source}, got {str(error).strip()!r}; "
                "verify the query over another connection."
            ) from error

    def _fill(self) -> None:
        """Insert the rows, into the temporary table alone, and check that its name means this table."""
        into = f"{self._dialect.temporary}{self._source}" if self._is_temporary else self._source
        columns = self._columns.values()
        mark = "%s" if self._key == "postgresql" else "?"
        records = [
            [number if axis is None else self._stored(axis, row) for _, axis in columns]
            for number, row in enumerate(self._rows)
        ]
        if records:
            marks = ", ".join([mark] * len(columns))
            self._cursor.executemany(f"INSERT INTO {into} VALUES ({marks})", records)  # noqa: S608  names are quoted
        try:
            self._cursor.execute(f"SELECT {self._dialect.name_of(_NUMBER)} FROM {self._source}")  # noqa: S608
            n_found = len(self._cursor.fetchall())
        except Exception:  # noqa: BLE001  each driver has errors of its own
            n_found = -1
        if n_found != len(records):
            raise ValueError(
                f"`connection` must read a temporary table before others of its name, got another {self._source}; "
                "verify the query over a connection with the usual search path."
            )

    def _stored(self, axis: StepAxis, row: Mapping[str, Any]) -> Any:
        value = row[axis.name]
        return bool(value) if value is not None and axis.name in self._booleans else value

    def _drop(self) -> None:
        """Drop the temporary table; after an error, such as one that ends a transaction, this may be impossible."""
        if self._is_temporary:
            with contextlib.suppress(Exception):
                self._cursor.execute(f"DROP TABLE {self._dialect.temporary}{self._source}")

    def _check_kept(self, keep: Sequence[str], records: Sequence[Sequence[Any]]) -> None:
        """Raise ValueError if a kept column does not hold what the table holds."""
        for i, column in enumerate(keep):
            axis = self._columns[self._spelled(column)][1]
            expected = [number if axis is None else self._stored(axis, row) for number, row in enumerate(self._rows)]
            if [record[i] for record in records] != expected:
                raise ValueError(f"`export` must keep the values of {column!r}, got others; export it again.")


def _connection(dialect: str) -> Any:
    if dialect == "sqlite":
        return sqlite3.connect(":memory:")
    if dialect == "duckdb":
        return importlib.import_module("duckdb").connect()
    raise ValueError(
        f"`connection` must be an open connection for a query in the dialect {dialect!r}, got none; open one with the "
        "database's own driver."
    )


def _label_type(axis: StepAxis, double: str) -> str:
    codes = axis.reading.codes if isinstance(axis.reading, LabelCodes) else ()
    labels = [label for label, _ in codes if label is not None]
    if all(isinstance(label, bool) for label in labels):
        return "BOOLEAN"
    return "TEXT" if any(isinstance(label, str) for label in labels) else double
