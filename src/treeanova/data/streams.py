"""Batches of rows: the interface, and rows from queries, streams and iterables of frames.

Every batch knows where its rows come from, so that errors name the file and rows can be drawn by their number. A column
must hold the same kind of values in all batches: a category, text in one file and a number in another, becomes unseen.

Batches of a stream are numbered, and their rows counted from the first batch on. So the rows drawn by number are those
of the whole table in memory, whatever the size of the batches.
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
from typing import Any, NamedTuple, Self

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.core.arrays import Floats
from treeanova.core.files import is_same_file
from treeanova.data.columns import (
    as_table,
    blanks_around,
    column_positions,
    encode,
    in_plain_type,
    n_rows_of,
    raw_column,
)
from treeanova.data.features import Feature, Schema, is_missing

ROWS_PER_BATCH = 262_144  # smaller batches take longer for each row, larger ones more memory


class Batch(NamedTuple):
    """Some rows of a table; batches that were iterated have only the columns of the model."""

    table: Any
    source: str  # the origin for messages: a file, or "batch 3"
    number: int  # of the part of the data in which `first_row` counts; 0 if it counts all rows
    first_row: int
    weights: Floats | None = None
    copied_columns: Any = None  # a table of columns that are passed on

    @property
    def n_rows(self) -> int:
        return n_rows_of(self.table)

    def encoded(self, schema: Schema) -> Floats:  # errors name the batch's source
        with naming(self.source):
            return encode(self.table, schema)


@contextlib.contextmanager
def naming(source: str) -> Iterator[None]:
    """Make errors about data begin with the name of the source, unless they already do."""
    try:
        yield
    except (TypeError, ValueError) as error:
        if source in str(error):
            raise
        kind = TypeError if isinstance(error, TypeError) else ValueError  # others need more than a message
        raise kind(f"{source}: {error}") from error


@dataclasses.dataclass(frozen=True)
class Selection:
    """The columns to read: all of the model's, in its order, and the weights."""

    schema: Schema | None = None  # None for all columns
    weight: str | None = None
    drop: tuple[str, ...] = ()  # columns to leave out, such as the target
    keep: tuple[str, ...] = ()  # columns to pass on, such as an identifier of the rows

    def model_names(self, names: Sequence[str]) -> list[str]:
        """Return the names of the model's columns among `names`, in its order; all but `reserved` without a schema."""
        unknown = sorted(self.reserved - set(names))
        if unknown:
            raise ValueError(
                f"`X` must have the columns that are named, got none named {', '.join(map(repr, unknown))}; "
                f"{blanks_around(unknown, names) or 'check the names of weights, targets and columns to keep'}."
            )
        if self.schema is None:
            return [name for name in names if name not in self.reserved]
        candidates = [name for name in names if self.schema.named or name not in self.drop]
        return [candidates[j] for j in column_positions(candidates, self.schema, self.reserved)]

    def names_to_read(self, names: Sequence[str]) -> list[str]:
        """Return the names of a table's columns that must be read: the model's, those to keep and the weights."""
        return list(dict.fromkeys([*self.model_names(names), *self._weight_and_copied]))

    @property
    def reserved(self) -> set[str]:
        """Columns with another role (left out, copied, weights): not the model's, unless it stores their names."""
        return {*self.drop, *self._weight_and_copied}

    @property
    def _weight_and_copied(self) -> tuple[str, ...]:
        return self.keep if self.weight is None else (*self.keep, self.weight)


ALL_COLUMNS = Selection()


class Batches(abc.ABC):
    """The rows of a table in batches, always in the same order; subclasses are frozen dataclasses."""

    selection: Selection = ALL_COLUMNS
    is_rereadable: bool = True  # whether iterating again gives the same rows

    @property
    def n_rows(self) -> int | None:
        """The number of all rows, or None if only reading would tell."""
        return None

    @property
    def reads_selection(self) -> bool:
        """Whether tables are read without the columns to leave out."""
        return True

    def reads(self, file: pathlib.Path) -> bool:  # noqa: ARG002  sources without files read none
        """Whether rows come from a file, or would once it is written, as far as that is known."""
        return False

    def reading(self, selection: Selection) -> Self:
        """Return the same rows with other columns to read."""
        return dataclasses.replace(self, selection=selection)  # type: ignore[type-var]

    @abc.abstractmethod
    def _read_batches(self) -> Iterator[Batch]:
        """Yield batches with at least the selected columns, not much longer than `ROWS_PER_BATCH`."""

    @abc.abstractmethod
    def _first_table(self) -> Any:
        """Return the first table that has rows, with all its columns; None or an empty one without rows."""

    def head(self, schema: Schema | None = None) -> Any:
        """Return the first table that has rows, with all columns that may be the model's; None without rows."""
        table, reserved = self._first_table(), self.selection.reserved  # columns with another role are left out
        if table is None or not n_rows_of(table):
            return None
        if not reserved or not nw.dependencies.is_into_dataframe(table):
            return table
        frame = as_table(table)
        spellings = () if schema is None else schema.spellings
        reserved = reserved.difference(*(names for names in spellings if set(names) <= set(frame.columns)))
        return frame.select([name for name in frame.columns if name not in reserved]).to_native()

    def for_model(self, schema: Schema | None, weight: str | None = None) -> Self:
        """Return the same rows with the columns of a model, and weights from the column `weight`."""
        return self.reading(dataclasses.replace(self.selection, schema=schema, weight=weight))

    def __iter__(self) -> Iterator[Batch]:
        return select(self._read_batches(), self.selection_of_tables)

    @property
    def selection_of_tables(self) -> Selection:
        """The selection for tables as they were read: columns to leave out are gone if `reads_selection`."""
        return dataclasses.replace(self.selection, drop=()) if self.reads_selection else self.selection


def select(batches: Iterable[Batch], selection: Selection) -> Iterator[Batch]:
    """Yield batches that have rows, with the selected columns; check that each column keeps its kind of values."""
    kinds: dict[str, tuple[str, str]] = {}  # by feature name: the kind of values, and the batch where it was first seen
    for batch in batches:
        if batch.n_rows:
            with naming(batch.source):
                selected = _with_selected_columns(batch, selection)
            _check_kinds(selected, selection.schema, kinds)
            yield selected


def _with_selected_columns(batch: Batch, selection: Selection) -> Batch:
    """Return a batch whose table has the model's columns; weights and copied columns get fields of their own."""
    if not nw.dependencies.is_into_dataframe(batch.table):
        named = sorted(selection.reserved)
        if named:
            raise TypeError(
                f"`X` must have names of columns to find {', '.join(map(repr, named))}, got a matrix; pass data frames."
            )
        return batch
    frame = as_table(batch.table)
    names = selection.model_names(frame.columns)
    weights = None
    if selection.weight is not None:
        column = in_plain_type(frame[selection.weight])
        if not (column.dtype.is_numeric() or column.dtype == nw.Boolean):
            raise TypeError(f"the weights {selection.weight!r} must be numbers, got {column.dtype}; convert them.")
        weights = np.asarray(raw_column(column), dtype=np.float64)
    copied_columns = _columns_named(selection.keep, frame).to_native() if selection.keep else None
    return batch._replace(
        table=_columns_named(names, frame).to_native(), weights=weights, copied_columns=copied_columns
    )


def _columns_named(names: Iterable[Any], frame: nw.DataFrame[Any]) -> nw.DataFrame[Any]:
    """Return columns by position: names may be numbers or, in pandas, tuples."""
    return frame[:, [frame.columns.index(name) for name in names]]


def _check_kinds(batch: Batch, schema: Schema | None, kinds: dict[str, tuple[str, str]]) -> None:
    """Raise TypeError if a column changes its kind of values; add new kinds to `kinds` by name, with their source."""
    if schema is None or not nw.dependencies.is_into_dataframe(batch.table):
        return
    table = as_table(batch.table)
    for j, feature in enumerate(schema.features[: len(table.columns)]):
        column = table[:, j]
        kind = _kind_of(in_plain_type(column), feature)
        first_kind, source = kinds.get(feature.name, ("", ""))
        if kind == first_kind:
            continue
        values = raw_column(column)  # all missing: of any kind
        if np.isnan(values).all() if values.dtype.kind == "f" else all(map(is_missing, values)):
            continue
        if first_kind:
            raise TypeError(
                f"{batch.source}: column {column.name!r} must hold the same kind of values in all of `X`, got "
                f"{kind} ({column.dtype}), but {first_kind} in {source}; convert one of them."
            )
        kinds[feature.name] = kind, batch.source


def _kind_of(column: nw.Series[Any], feature: Feature) -> str:
    """Return what a column holds; numbers of all types are one kind, unless they are names of categories."""
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
    return "text" if dtype == nw.String else str(getattr(column.to_native(), "type", dtype))


@dataclasses.dataclass(frozen=True)
class Stream(Batches):
    """Rows that a function reads table by table: of a query, of frames in a list, or of an iterator."""

    read: Callable[[Sequence[str] | None], Iterable[Any]]  # takes names of columns, or None for all
    names: Sequence[str] | None = None
    n_rows: int | None = None
    preview: Callable[[], Any] | None = None  # the first rows, if `read` would compute all or can be called only once
    files: Callable[[], Iterable[pathlib.Path]] = tuple  # that rows come from, as far as they are known
    is_rereadable: bool = True
    selection: Selection = ALL_COLUMNS

    @property
    def reads_selection(self) -> bool:
        return self.names is not None

    def reads(self, file: pathlib.Path) -> bool:
        return any(is_same_file(file, source) for source in self.files())

    def _first_table(self) -> Any:  # with rows; None without
        if self.preview is not None:
            return self.preview()
        return next((as_frame(table, "batch 1") for table in self.read(None) if n_rows_of(table)), None)

    def _read_batches(self) -> Iterator[Batch]:
        return cut_into_batches(self.read(None if self.names is None else self.selection.names_to_read(self.names)))


def cut_into_batches(tables: Iterable[Any], source: str = "batch {}", partition: int = 0) -> Iterator[Batch]:
    """Yield tables as batches, long ones in pieces; `source` names each in errors, with {} for its number."""
    # `partition` is the number of the part of the data in which rows are counted; 0 if these are all.
    frames = (as_frame(table, source.format(i)) for i, table in enumerate(tables, start=1))
    first_row = 0
    for i, table in enumerate(itertools.chain.from_iterable(map(_pieces_of_table, frames)), start=1):
        yield Batch(table, source.format(i), partition, first_row)
        first_row += n_rows_of(table)


def is_frame_or_matrix(entry: Any) -> bool:  # an item of a user's list or iterator
    is_matrix = scipy.sparse.issparse(entry) or (isinstance(entry, np.ndarray) and entry.ndim == 2)
    return is_matrix or nw.dependencies.is_into_dataframe(entry) or _is_arrow_batch(entry)


def _is_arrow_batch(entry: Any) -> bool:  # without an import of pyarrow: if it is one, that is there
    pyarrow = sys.modules.get("pyarrow")
    return pyarrow is not None and isinstance(entry, pyarrow.RecordBatch)


def as_frame(entry: Any, source: str) -> Any:
    """Return an item of a user's iterable as a frame or matrix; TypeError, which names `source`, for others."""
    if _is_arrow_batch(entry):
        return sys.modules["pyarrow"].Table.from_batches([entry])
    if not is_frame_or_matrix(entry):
        raise TypeError(
            f"{source}: `X` must be an iterable of data frames or matrices, got {type(entry).__qualname__}; put rows "
            "together to a frame first."
        )
    return entry


def _pieces_of_table(table: Any) -> Iterator[Any]:
    """Yield a table, in pieces of `ROWS_PER_BATCH` rows if it has more than twice as many."""
    n_rows = n_rows_of(table)
    if n_rows <= 2 * ROWS_PER_BATCH:
        yield table
        return
    for start in range(0, n_rows, ROWS_PER_BATCH):
        yield some_rows(table, start, min(start + ROWS_PER_BATCH, n_rows))


def some_rows(table: Any, start: int, stop: int) -> Any:  # of any table or matrix, by position
    if hasattr(table, "iloc"):
        return table.iloc[start:stop]
    return table.slice(start, stop - start) if hasattr(table, "slice") else table[start:stop]


def frames_in_list(frames: Sequence[Any]) -> Stream:
    """Return a stream of data frames in a list."""
    return Stream(lambda _: frames, n_rows=sum(map(n_rows_of, frames)))


def read_once(tables: Iterable[Any]) -> Stream:
    """Return a stream that can be read once; its preview puts back the tables that it has taken."""
    remaining = [iter(tables)]  # empty once it has been read

    def read(_: Sequence[str] | None = None) -> Iterator[Any]:  # all columns, whatever is asked for
        if not remaining:
            raise ValueError(
                "`X` must be readable more than once here, got a stream that has been read; pass a list of frames, or "
                "the path of Parquet files."
            )
        return remaining.pop()

    def preview() -> Any:  # the first table that has rows
        tables, taken = read(), list[Any]()
        for table in tables:
            taken.append(as_frame(table, f"batch {len(taken) + 1}"))
            if n_rows_of(taken[-1]):
                break
        remaining.append(itertools.chain(taken, tables))
        return taken[-1] if taken else None

    return Stream(read, preview=preview, is_rereadable=False)


def tables_of_arrow_batches(batches: Iterable[Any]) -> Iterator[Any]:
    """Join record batches of pyarrow to tables of at least `ROWS_PER_BATCH` rows, except the last."""
    pyarrow = importlib.import_module("pyarrow")
    waiting: list[Any] = []
    for batch in batches:
        waiting.append(batch)
        if sum(map(len, waiting)) >= ROWS_PER_BATCH:
            yield pyarrow.Table.from_batches(waiting)
            waiting = []
    if waiting:
        yield pyarrow.Table.from_batches(waiting)
