"""Batches of rows: the interface, and rows from queries, streams and iterables of frames.

Every batch knows where its rows come from, so that errors name the file and rows can be drawn by their number. A column
must hold the same kind of values in all batches: a category that is a text in one file and a number in another would
become an unseen one without notice.

Batches of a stream have no names; they are numbered, and their rows counted from the first one on. So the rows that are
drawn by their number are the same as those of the whole table in memory, whatever the size of the batches.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import importlib
import itertools
import pathlib
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.core.arrays import Floats
from treeanova.core.files import is_same_file
from treeanova.data.columns import as_table, blanks_around, column_positions, encode, raw_column
from treeanova.data.features import Feature, Schema, is_missing

ROWS_PER_BATCH = 262_144  # smaller batches take longer for each row, larger ones more memory


class Batch(NamedTuple):
    """Some rows of a table.

    Attributes
    ----------
    table
        A table or matrix in memory, with the columns of the model only.
    source
        Where the rows are from, for messages: the name of a file, or "batch 3".
    number
        Number of the part of the data that `first_row` counts in; 0 where it counts in all rows.
    first_row
        Number of the first row.
    weights
        Weights of the rows; None where all weigh the same.
    kept
        A table of columns that are passed on; None where there are none.
    """

    table: Any
    source: str
    number: int
    first_row: int
    weights: Floats | None = None
    kept: Any = None

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return n_rows_of(self.table)

    def encoded(self, schema: Schema) -> Floats:
        """The rows as `encode` returns them; errors name the source."""
        with naming(self.source):
            return encode(self.table, schema)


@contextlib.contextmanager
def naming(source: str) -> Iterator[None]:
    """A context whose errors about data begin with the name of the source, unless they have it already."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if source in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError  # others need more than a message
        raise kind(f"{source}: {error}") from error


def n_rows_of(table: Any) -> int:
    """Number of rows of a table or matrix in memory."""
    return int(table.shape[0] if hasattr(table, "shape") else len(table))


@dataclasses.dataclass(frozen=True)
class Selection:
    """The columns to read: all of the model's, in its order, and the weights.

    Attributes
    ----------
    schema
        Features of the model; None for all columns.
    weight
        Name of the column with the weights of the rows.
    drop
        Columns to leave out, such as the target.
    keep
        Columns to pass on, such as an identifier of the rows.
    """

    schema: Schema | None = None
    weight: str | None = None
    drop: tuple[str, ...] = ()
    keep: tuple[str, ...] = ()

    def columns(self, names: Sequence[str]) -> list[str]:
        """Names of the model's columns among those of a table."""
        others = self.others
        unknown = sorted(others - set(names))
        if unknown:
            raise ValueError(
                f"`X` must have the columns that are named, got none named {', '.join(map(repr, unknown))}; "
                f"{blanks_around(unknown, names) or 'check the names of weights, targets and columns to keep'}."
            )
        if self.schema is None:
            return [name for name in names if name not in others]
        left = [name for name in names if self.schema.named or name not in self.drop]
        return [left[j] for j in column_positions(left, self.schema, others)]

    def read(self, names: Sequence[str]) -> list[str]:
        """Names of all columns to read among those of a table."""
        return list(dict.fromkeys([*self.columns(names), *self._extra]))

    @property
    def after_reading(self) -> Selection:
        """The same for tables that were read without the columns to leave out."""
        return dataclasses.replace(self, drop=())

    @property
    def others(self) -> set[str]:
        """Names of columns that are not the model's, unless it has them by name."""
        return {*self.drop, *self._extra}

    @property
    def _extra(self) -> tuple[str, ...]:
        """Columns to read that need not be the model's."""
        return self.keep if self.weight is None else (*self.keep, self.weight)


ALL_COLUMNS = Selection()


class Piece(NamedTuple):
    """Rows as a source has them, with at least the columns that are asked for."""

    table: Any
    source: str
    number: int
    first_row: int


class Batches(abc.ABC):
    """The rows of a table in pieces, in an order that is the same each time.

    Each source of rows is a class derived from it that defines `_pieces`.
    """

    selection: Selection = ALL_COLUMNS

    @property
    @abc.abstractmethod
    def is_rereadable(self) -> bool:
        """Whether iterating again gives the same rows."""

    @property
    def n_rows(self) -> int | None:
        """Number of rows, where it is known before they are read."""
        return None

    def reads(self, file: pathlib.Path) -> bool:  # noqa: ARG002  sources without files read none
        """Whether rows come from a file, or would come from it once it is written, as far as that is known."""
        return False

    @abc.abstractmethod
    def reading(self, selection: Selection) -> Batches:
        """The same rows with other columns; of a source that can be read once, in place of it."""

    @abc.abstractmethod
    def _pieces(self, selection: Selection) -> Iterator[Piece]:
        """Tables that are not much longer than `ROWS_PER_BATCH`, from the first row on."""

    @abc.abstractmethod
    def _first(self) -> Any:
        """The first table that has rows, with all its columns; None where there is no row."""

    def head(self, schema: Schema | None = None) -> Any:
        """The first table that has rows, with all columns that may be the model's; None where there is no row."""
        table = self._first()
        extra = self.selection.others
        if not extra or not nw.dependencies.is_into_dataframe(table):
            return table
        frame = as_table(table)
        spellings = () if schema is None else schema.spellings
        extra = extra.difference(*(names for names in spellings if set(names) <= set(frame.columns)))
        return frame.select([name for name in frame.columns if name not in extra]).to_native()

    def for_model(self, schema: Schema | None, weight: str | None = None) -> Batches:
        """The same rows with the columns of a model, and of weights."""
        return self.reading(dataclasses.replace(self.selection, schema=schema, weight=weight))

    def __iter__(self) -> Iterator[Batch]:
        return chosen(self._pieces(self.selection), self._selection_of_pieces)

    @property
    def _selection_of_pieces(self) -> Selection:
        """What to choose from the pieces: they may have been read without the columns to leave out."""
        return self.selection


def chosen(pieces: Iterable[Piece], selection: Selection) -> Iterator[Batch]:
    """Pieces that have rows, with the columns that are wanted, which hold the same kind of values in all of them."""
    kinds = _Kinds(selection.schema)
    for piece in pieces:
        if n_rows_of(piece.table):
            with naming(piece.source):
                batch = _selected(piece, selection)
            kinds.check(batch)
            yield batch


def _selected(piece: Piece, selection: Selection) -> Batch:
    """A piece with the columns of the model only, and its weights."""
    table, source, number, first_row = piece
    if not nw.dependencies.is_into_dataframe(table):
        named = [*selection.drop, *selection.keep, *([] if selection.weight is None else [selection.weight])]
        if named:
            raise TypeError(
                f"`X` must have names of columns to find {', '.join(map(repr, named))}, got a matrix; pass data frames."
            )
        return Batch(table, source, number, first_row)
    frame = as_table(table)
    names = selection.columns(frame.columns)
    weights = None if selection.weight is None else _weights(frame[selection.weight])
    kept = frame.select([nw.col(name) for name in selection.keep]).to_native() if selection.keep else None
    columns = [nw.col(name) for name in names]  # names may be numbers
    return Batch(frame.select(columns).to_native(), source, number, first_row, weights, kept)


def _weights(column: nw.Series[Any]) -> Floats:
    if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
        raise TypeError(f"the weights {column.name!r} must be numbers, got {column.dtype}; convert them.")
    return np.asarray(raw_column(column), dtype=np.float64)


class _Kinds:
    """The kind of values that each column had so far, and the source where it was seen first."""

    def __init__(self, schema: Schema | None) -> None:
        self._features = {} if schema is None else {f.name: f for f in schema.features}
        self._names = () if schema is None else schema.names
        self._seen: dict[str, tuple[str, str]] = {}

    def check(self, batch: Batch) -> None:
        """Raise TypeError if a column has another kind of values than before, unless all of them are missing."""
        if not nw.dependencies.is_into_dataframe(batch.table) or not self._names:
            return
        table = as_table(batch.table)
        for j, name in enumerate(self._names[: len(table.columns)]):
            column = table[:, j]
            kind = _kind_of(column, self._features[name])
            seen, source = self._seen.get(name, (kind, batch.source))
            if name in self._seen and kind == seen:
                continue
            if _is_all_missing(column):
                continue
            if kind != seen:
                raise TypeError(
                    f"{batch.source}: column {column.name!r} must hold the same kind of values in all of `X`, got "
                    f"{kind} ({column.dtype}), but {seen} in {source}; convert one of them."
                )
            self._seen[name] = kind, batch.source


def _kind_of(column: nw.Series[Any], feature: Feature) -> str:
    """What a column holds; numbers of any type are one kind for a numeric feature, not as names of categories."""
    dtype = column.dtype
    if dtype in {nw.Categorical, nw.Enum}:
        is_number = column.cat.get_categories().dtype.is_numeric()
        return "categories that are numbers" if is_number else "text"
    if dtype.is_numeric() or dtype == nw.Boolean:
        if not feature.is_category:
            return "numbers"
        return "booleans" if dtype == nw.Boolean else "whole numbers" if dtype.is_integer() else "fractions"
    if dtype in {nw.Datetime, nw.Date}:
        return "dates"
    return "text" if dtype == nw.String else str(dtype)


def _is_all_missing(column: nw.Series[Any]) -> bool:
    values = raw_column(column)
    if values.dtype.kind == "f":
        return bool(np.isnan(values).all())
    return values.dtype.kind not in "biu" and all(map(is_missing, values))


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
