"""Rows from queries, streams and iterables of frames.

Batches of a stream have no names; they are numbered, and their rows counted from the first one on. So the rows that are
drawn by their number are the same as those of the whole table in memory, whatever the size of the batches.
"""

from __future__ import annotations

import contextlib
import dataclasses
import importlib
import itertools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.core.files import is_same_file
from treeanova.data.batch import ALL_COLUMNS, ROWS_PER_BATCH, Batches, Piece, Selection, n_rows_of

Read = Callable[[Sequence[str] | None], Iterable[Any]]


@dataclasses.dataclass(frozen=True)
class Query(Batches):
    """Rows that can be asked for again: a query of a database, or frames in a list.

    Attributes
    ----------
    read
        Takes names of columns, or None for all, and returns tables.
    names
        Names of the columns, where they are known before reading.
    length
        Number of rows, where it is known.
    selection
        The columns to read.
    """

    read: Read
    names: Sequence[str] | None = None
    length: int | None = None
    selection: Selection = ALL_COLUMNS

    @property
    def is_rereadable(self) -> bool:
        """True."""
        return True

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known."""
        return self.length

    def reading(self, selection: Selection) -> Query:
        """The same rows with other columns."""
        return dataclasses.replace(self, selection=selection)

    def _first(self) -> Any:
        """The first table that has rows."""
        return next((table for table in self.read(None) if n_rows_of(table)), None)

    def _pieces(self, selection: Selection) -> Iterator[Piece]:
        columns = None if self.names is None else selection.read(self.names)
        return numbered(self.read(columns))

    @property
    def _selection_of_pieces(self) -> Selection:
        return self.selection if self.names is None else self.selection.after_reading


class OneShot(Batches):
    """Rows that can be read once: of an iterator, or of an Arrow stream."""

    def __init__(self, tables: Iterable[Any], selection: Selection = ALL_COLUMNS) -> None:
        self._tables: Iterator[Any] | None = iter(tables)
        self.selection = selection

    @property
    def is_rereadable(self) -> bool:
        """False."""
        return False

    def reading(self, selection: Selection) -> OneShot:
        """The same rows with other columns; this source is empty after it."""
        return OneShot(self._take(), selection)

    def _first(self) -> Any:
        """The first table that has rows, which stays in the source."""
        tables = self._take()
        seen: list[Any] = []
        for table in tables:
            seen.append(as_frame(table, f"batch {len(seen) + 1}"))
            if n_rows_of(seen[-1]):
                break
        self._tables = itertools.chain(seen, tables)
        return seen[-1] if seen and n_rows_of(seen[-1]) else None

    def _take(self) -> Iterator[Any]:
        if self._tables is None:
            raise ValueError(
                "`X` must be readable more than once here, got a stream that has been read; pass a list of frames, or "
                "the path of Parquet files."
            )
        tables, self._tables = self._tables, None
        return tables

    def _pieces(self, selection: Selection) -> Iterator[Piece]:  # noqa: ARG002  a stream has the columns that it has
        return numbered(self._take())


def numbered(tables: Iterable[Any], source: str = "batch {}", number: int = 0, first_row: int = 0) -> Iterator[Piece]:
    """Tables in pieces, with the number of each and that of its first row."""
    whole = (as_frame(table, source.format(i)) for i, table in enumerate(tables, start=1))
    for i, table in enumerate(itertools.chain.from_iterable(map(_cut, whole)), start=1):
        yield Piece(table, source.format(i), number, first_row)
        first_row += n_rows_of(table)


def is_frame(entry: Any) -> bool:
    """Whether something is a table or matrix in memory."""
    is_matrix = isinstance(entry, np.ndarray) and entry.ndim == 2
    return is_matrix or scipy.sparse.issparse(entry) or nw.dependencies.is_into_dataframe(entry) or _is_batch(entry)


def _is_batch(entry: Any) -> bool:
    """Whether something is a record batch of pyarrow."""
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(entry, pyarrow.RecordBatch)


def as_frame(entry: Any, source: str) -> Any:
    """A table or matrix in memory; TypeError for anything else."""
    if _is_batch(entry):
        return sys.modules["pyarrow"].Table.from_batches([entry])
    if not is_frame(entry):
        raise TypeError(
            f"{source}: `X` must be an iterable of data frames or matrices, got {type(entry).__qualname__}; put rows "
            "together to a frame first."
        )
    return entry


def _cut(table: Any) -> Iterator[Any]:
    """A table in pieces of at most twice the usual size."""
    n_rows = n_rows_of(table)
    if n_rows <= 2 * ROWS_PER_BATCH:
        yield table
        return
    for start in range(0, n_rows, ROWS_PER_BATCH):
        yield some_rows(table, start, min(start + ROWS_PER_BATCH, n_rows))


def some_rows(table: Any, start: int, stop: int) -> Any:
    """Rows of a table or matrix in memory."""
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    return table.slice(start, stop - start) if hasattr(table, "slice") else table[start:stop]


def frames_in_list(frames: Sequence[Any]) -> Query:
    """Frames in a list, which can be read again."""
    return Query(lambda _: frames, length=sum(map(n_rows_of, frames)))


def repeated_frames(frames: Iterable[Any]) -> Query:
    """Frames of an object that makes a new iterator each time."""
    return Query(lambda _: frames)


def lazy_frame(frame: Any) -> Query:
    """The rows of a polars LazyFrame, which is computed anew each time."""
    if not hasattr(frame, "collect_batches"):
        raise ImportError("reading a LazyFrame in batches needs polars 1.34 or later; update it, or pass X.collect().")

    def read(columns: Sequence[str] | None) -> Iterable[Any]:
        chosen = frame if columns is None else frame.select(columns)
        batches: Iterable[Any] = chosen.collect_batches(chunk_size=ROWS_PER_BATCH)
        return batches

    return _Lazy(
        read,
        frame.collect_schema().names(),
        preview=lambda: frame.head(ROWS_PER_BATCH).collect(),
        files=lambda: _scanned_files(frame),
    )


def _scanned_files(frame: Any) -> list[pathlib.Path]:
    """The files that a polars LazyFrame scans, as far as its plan shows them."""
    files: list[pathlib.Path] = []
    with contextlib.suppress(Exception):  # polars may change how it shows a plan, or not show it
        plan = frame._ldf.visit()  # noqa: SLF001  polars has no public way
        remaining = [plan.get_node()]
        while remaining:
            plan.set_node(remaining.pop())
            remaining += plan.get_inputs()
            with contextlib.suppress(NotImplementedError):  # functions of the user
                files += map(pathlib.Path, getattr(plan.view_current_node(), "paths", None) or ())
    return files


def duckdb_relation(relation: Any) -> Query:
    """The rows of a DuckDB relation, whose query runs anew each time."""

    def read(columns: Sequence[str] | None) -> Iterator[Any]:
        chosen = relation if columns is None else relation.project(", ".join(map(_quoted, columns)))
        reader = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_record_batch
        return arrow_tables(reader(ROWS_PER_BATCH))

    return _Lazy(
        read, list(relation.columns), preview=lambda: next(iter(arrow_tables(relation.limit(ROWS_PER_BATCH))), None)
    )


def _quoted(name: str) -> str:
    """A name of a column in SQL."""
    escaped = name.replace('"', '""')
    return f'"{escaped}"'


@dataclasses.dataclass(frozen=True)
class _Lazy(Query):
    """A query whose first rows are asked for by a query of their own, since it would run to its end."""

    preview: Callable[[], Any] = lambda: None
    files: Callable[[], Iterable[pathlib.Path]] = tuple

    def reads(self, file: pathlib.Path) -> bool:
        """Whether the query reads a file."""
        return any(is_same_file(file, source) for source in self.files())

    def _first(self) -> Any:
        """The first rows."""
        table = self.preview()
        return None if table is None or not n_rows_of(table) else table


def arrow_tables(stream: Any) -> Iterator[Any]:
    """Tables of pyarrow from anything that has an Arrow stream."""
    return gathered(importlib.import_module("pyarrow").RecordBatchReader.from_stream(stream))


def gathered(batches: Iterable[Any]) -> Iterator[Any]:
    """Record batches of pyarrow as tables of at least the usual size, the last one excepted."""
    pyarrow = importlib.import_module("pyarrow")
    several: list[Any] = []
    for batch in batches:
        several.append(batch)
        if sum(map(len, several)) >= ROWS_PER_BATCH:
            yield pyarrow.Table.from_batches(several)
            several = []
    if several:
        yield pyarrow.Table.from_batches(several)
