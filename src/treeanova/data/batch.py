"""Rows in pieces: a source of batches, of which only the columns that a model needs are read.

Every batch knows where its rows come from, so that errors name the file and rows can be drawn by their number. A column
must hold the same kind of values in all batches: a category that is a text in one file and a number in another would
become an unseen one without notice.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import pathlib
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

import narwhals.stable.v1 as nw
import numpy as np

from treeanova.core.arrays import Floats
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
