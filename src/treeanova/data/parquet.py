"""Rows from Parquet files and from datasets of pyarrow, file by file.

Each file is read on its own, by its own schema: a column that is missing in one file is an error, not a column of
missing values.
"""

from __future__ import annotations

import abc
import contextlib
import dataclasses
import fnmatch
import functools
import glob
import importlib
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from treeanova.core.files import is_same_file
from treeanova.data.streams import ALL_COLUMNS, ROWS_PER_BATCH, Batches, Piece, Selection, n_rows_of, naming

_SUFFIXES = (".parquet", ".pq", ".parq")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _pyarrow(module: str = "") -> Any:
    """A module of pyarrow."""
    try:
        return importlib.import_module(f"pyarrow{module}")
    except ImportError as error:
        raise ImportError("reading Parquet files in batches needs pyarrow; pip install treeanova[parquet].") from error


@contextlib.contextmanager
def _whole(name: str) -> Iterator[None]:
    """A context in which errors of pyarrow become one that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{name} must be a whole file of rows, got an error of pyarrow: {reason}") from error


def _each(name: str, batches: Iterable[Any]) -> Iterator[Any]:
    """The batches of a file; errors of pyarrow name it."""
    remaining = iter(batches)
    while True:
        with _whole(name):
            batch = next(remaining, None)
        if batch is None:
            return
        yield batch


class Part(abc.ABC):
    """One file; `path` is None where it is not a file of this machine."""

    path: pathlib.Path | None

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Name of the file, for messages."""

    @property
    @abc.abstractmethod
    def n_rows(self) -> int | None:
        """Number of rows, where it is known before reading."""

    @property
    @abc.abstractmethod
    def columns(self) -> Sequence[str]:
        """Names of the columns."""

    @abc.abstractmethod
    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        """Tables of pyarrow with some columns."""


@dataclasses.dataclass(frozen=True)
class ParquetFile(Part):
    """A Parquet file; `constants` are columns whose value is in the names of its folders, as in ``year=2026``."""

    path: pathlib.Path
    constants: Mapping[str, Any] = dataclasses.field(default_factory=dict)

    @property
    def name(self) -> str:
        """The path as it was given."""
        return str(self.path)

    @functools.cached_property
    def _footer(self) -> tuple[int, list[str]]:
        """Number of rows and names of the columns."""
        with self._opened() as file:
            return file.metadata.num_rows, [*file.schema_arrow.names, *self.constants]

    def _opened(self) -> Any:
        with _whole(self.name):
            return _pyarrow(".parquet").ParquetFile(self.path)

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return self._footer[0]

    @property
    def columns(self) -> Sequence[str]:
        """Names of the columns."""
        return self._footer[1]

    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        """Tables of pyarrow with some columns."""
        stored = [name for name in columns if name not in self.constants]
        with self._opened() as file:
            for batch in _each(self.name, file.iter_batches(batch_size=ROWS_PER_BATCH, columns=stored)):
                yield self._with_constants(_pyarrow().Table.from_batches([batch]), columns)

    def _with_constants(self, table: Any, columns: Sequence[str]) -> Any:
        for name in columns:
            if name in self.constants:
                table = table.append_column(name, _pyarrow().repeat(self.constants[name], len(table)))
        return table.select(columns)


@dataclasses.dataclass(frozen=True)
class Fragment(Part):
    """A file of a dataset, read by the schema of the dataset."""

    fragment: Any
    schema: Any
    number: int

    @property
    def name(self) -> str:
        """Its path, or its number where it has none."""
        return str(getattr(self.fragment, "path", "") or f"part {self.number + 1}")

    @property
    def path(self) -> pathlib.Path | None:  # type: ignore[override]
        """Its path in the file system of this machine."""
        is_local = getattr(getattr(self.fragment, "filesystem", None), "type_name", "") == "local"
        return pathlib.Path(self.fragment.path) if is_local else None

    @functools.cached_property
    def n_rows(self) -> int | None:
        """Number of rows, where it is in the file's footer."""
        with _whole(self.name):
            return int(self.fragment.count_rows()) if self._is_parquet else None

    @property
    def _is_parquet(self) -> bool:
        return hasattr(self.fragment, "row_groups")

    @functools.cached_property
    def columns(self) -> Sequence[str]:
        """Names of the dataset's columns that the file has."""
        keys = _pyarrow(".dataset").get_partition_keys(self.fragment.partition_expression)
        stored = {*self.fragment.physical_schema.names, *keys}
        return [name for name in self.schema.names if name in stored]

    def tables(self, columns: Sequence[str]) -> Iterator[Any]:
        """Tables of pyarrow with some columns."""
        batches = self.fragment.to_batches(
            schema=self.schema, columns=list(columns), batch_size=ROWS_PER_BATCH, batch_readahead=2
        )
        for batch in _each(self.name, batches):
            yield _pyarrow().Table.from_batches([batch])


@dataclasses.dataclass(frozen=True)
class Files(Batches):
    """The rows of several files, one file after the other; `given` are the paths, folders and patterns of these."""

    parts: Sequence[Part]
    selection: Selection = ALL_COLUMNS
    given: Sequence[str] = ()

    @property
    def is_rereadable(self) -> bool:
        """True."""
        return True

    @functools.cached_property
    def n_rows(self) -> int | None:
        """Number of rows, where all files tell it without being read."""
        lengths = [part.n_rows for part in self.parts]
        known = [length for length in lengths if length is not None]
        return sum(known) if len(known) == len(lengths) else None

    def reads(self, file: pathlib.Path) -> bool:
        """Whether a file is one of these, or would be once it is written."""
        is_part = any(part.path is not None and is_same_file(file, part.path) for part in self.parts)
        return is_part or any(would_read(path, file) for path in self.given)

    def reading(self, selection: Selection) -> Files:
        """The same rows with other columns."""
        return dataclasses.replace(self, selection=selection)

    def _first(self) -> Any:
        """The first table that has rows, with all its columns."""
        tables = (table for part in self.parts for table in part.tables(part.columns))
        return next((table for table in tables if n_rows_of(table)), None)

    def _pieces(self, selection: Selection) -> Iterator[Piece]:
        first_row = 0
        for number, part in enumerate(self.parts):
            if self.n_rows is None:
                yield from self._of_part(part, selection, number, 0)
            else:
                yield from self._of_part(part, selection, 0, first_row)
                first_row += part.n_rows or 0

    @property
    def _selection_of_pieces(self) -> Selection:
        return self.selection.after_reading

    def _of_part(self, part: Part, selection: Selection, number: int, first_row: int) -> Iterator[Piece]:
        if part.n_rows == 0:
            return
        with naming(part.name):
            columns = selection.read(part.columns)
        for table in part.tables(columns):
            yield Piece(table, part.name, number, first_row)
            first_row += n_rows_of(table)


def parquet_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Files:
    """The rows of Parquet files: a path, a folder, a pattern such as ``year/*.parquet``, or a list of these."""
    given = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    found = [path for each in given for path in _files_of(each)]
    keys = [_folder_keys(path) for path in found]
    names = list(dict.fromkeys(name for entry in keys for name in entry))
    is_whole = {name: all(_is_whole(entry.get(name)) for entry in keys) for name in names}
    return Files(
        [
            ParquetFile(path, {name: _constant(text, is_whole=is_whole[name]) for name, text in entry.items()})
            for path, entry in zip(found, keys, strict=True)
        ],
        given=given,
    )


def would_read(given: str, file: pathlib.Path) -> bool:
    """Whether a path, a folder or a pattern stands for a file, or would once that is written."""
    source, target = pathlib.Path(os.path.realpath(given)), pathlib.Path(os.path.realpath(file))
    if source.is_dir():
        return source in target.parents and _is_data(target, source)
    if _is_pattern(given):
        return _is_matched(target.parts, source.parts) or any(
            is_same_file(file, found) for match in _matches(given) for found in _matched(pathlib.Path(match))
        )
    return is_same_file(file, source)


def _is_pattern(path: str) -> bool:
    return glob.has_magic(path) and not pathlib.Path(path).exists()


def _is_matched(parts: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a pattern matches a path or a folder that it is in."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_is_matched(parts[i:], pattern[1:]) for i in range(len(parts) + 1))
    return bool(parts) and fnmatch.fnmatch(parts[0], pattern[0]) and _is_matched(parts[1:], pattern[1:])


def _files_of(path: str) -> list[pathlib.Path]:
    """The files that a path, a folder or a pattern stands for, sorted."""
    if pathlib.Path(path).is_dir():
        found = [file for file in pathlib.Path(path).rglob("*") if _is_data(file, pathlib.Path(path))]
        rule = "a folder with Parquet files"
    elif _is_pattern(path):
        found = [file for match in _matches(path) for file in _matched(pathlib.Path(match))]
        rule = "a pattern that matches Parquet files"
    else:
        found = [pathlib.Path(path)]
        rule = "the path of a file, a folder or a pattern"
    if not found or not all(file.is_file() for file in found):
        raise FileNotFoundError(f"`X` must be {rule}, got {path!r}, where there is none; check the path.")
    _check_suffixes(found)
    return sorted(set(found))


def _matches(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207  patterns may begin at the root


def _matched(path: pathlib.Path) -> list[pathlib.Path]:
    """A file that a pattern matches, or the files of a folder that it matches."""
    return [file for file in path.rglob("*") if _is_data(file, path)] if path.is_dir() else [path]


def _is_data(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a file in a folder holds rows: names with . or _ at their beginning are those of other files."""
    parts = file.relative_to(folder).parts
    return file.suffix.lower() in _SUFFIXES and not any(part.startswith((".", "_")) for part in parts)


def _check_suffixes(files: Iterable[pathlib.Path]) -> None:
    other = next((file for file in files if file.suffix.lower() not in _SUFFIXES), None)
    if other is not None:
        raise ValueError(
            f"`X` must be the path of Parquet files ({', '.join(_SUFFIXES)}), got {str(other)!r}; read other files "
            "with a data frame library, or pass a pyarrow Dataset."
        )


def _folder_keys(path: pathlib.Path) -> dict[str, str]:
    """Columns in the names of folders, as in ``year=2026``."""
    pairs = (part.partition("=") for part in path.parts[:-1] if "=" in part)
    return {urllib.parse.unquote(name): urllib.parse.unquote(text) for name, _, text in pairs}


def _is_whole(text: str | None) -> bool:
    return text is None or text == _NO_VALUE or (text.removeprefix("-").isdecimal() and str(int(text)) == text)


def _constant(text: str, *, is_whole: bool) -> Any:
    """The value of a column in the name of a folder."""
    pyarrow = _pyarrow()
    kind = pyarrow.int64() if is_whole else pyarrow.string()
    return pyarrow.scalar(None if text == _NO_VALUE else int(text) if is_whole else text, kind)


def dataset_files(dataset: Any) -> Batches:
    """The rows of a dataset of pyarrow, file by file."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:  # of a dataset with a filter, which hides its files
        raise ValueError(
            "`X` must be a Dataset without a filter, got one that was filtered; pass X.scanner().to_reader(), in which "
            "columns that a file does not have are missing values."
        ) from error
    return Files([Fragment(fragment, dataset.schema, number) for number, fragment in enumerate(fragments)])
