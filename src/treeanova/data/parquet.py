"""Rows from Parquet files and from datasets of pyarrow, file by file.

Each file is checked against its own schema: a column that is missing in one file is an error, not a column of missing
values. Files given by paths are also read by their own schemas, those of a dataset by its schema.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import glob
import importlib
import os
import pathlib
import urllib.parse
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import narwhals.stable.v1 as nw

from treeanova.core.files import is_same_file
from treeanova.data import streams
from treeanova.data.columns import n_rows_of, raw_column
from treeanova.data.features import Schema
from treeanova.data.streams import ALL_COLUMNS, Batch, Batches, Selection, gathered, naming

_SUFFIXES = (".parquet", ".pq", ".parq")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def _pyarrow(module: str = "") -> Any:
    try:
        return importlib.import_module(f"pyarrow{module}")
    except ImportError as error:
        raise ImportError("reading Parquet files in batches needs pyarrow; pip install treeanova[parquet].") from error


@contextlib.contextmanager
def _whole(name: str) -> Iterator[None]:
    """Turn errors of pyarrow into one that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ValueError(f"{name} must be a whole file of rows, got an error of pyarrow: {reason}") from error


@dataclasses.dataclass(frozen=True)
class Files(Batches):
    """The rows of several files, one file after the other.

    `fragments` are those of a pyarrow dataset. All files are read by `schema`; if None, each by its own, with the
    `partitions`: pyarrow fields in the names of folders, as in ``year=2026``. `given` are the paths, folders and
    patterns that the files were found by.
    """

    fragments: Sequence[Any]
    schema: Any = None
    partitions: Sequence[Any] = ()
    given: Sequence[str] = ()
    selection: Selection = ALL_COLUMNS

    @functools.cached_property
    def n_rows(self) -> int | None:
        counts = self._counts
        return sum(count for count in counts if count is not None) if None not in counts else None

    @functools.cached_property
    def _counts(self) -> list[int | None]:
        """Number of rows of each file, if its footer states it."""
        counts: list[int | None] = []
        for number, fragment in enumerate(self.fragments):
            with _whole(self._name(number)):
                counts.append(int(fragment.count_rows()) if hasattr(fragment, "row_groups") else None)
        return counts

    def reads(self, file: pathlib.Path) -> bool:
        local = (fragment for fragment in self.fragments if _is_local(fragment))
        is_one = any(is_same_file(file, pathlib.Path(fragment.path)) for fragment in local)
        return is_one or any(would_read(path, file) for path in self.given)

    def in_memory(self) -> Any:
        tables = [batch.table for batch in self]
        if not tables:
            raise ValueError("`X` must have at least one row, got 0 rows; pass other files.")
        return _pyarrow().concat_tables(tables, promote_options="permissive")

    def column(self, name: str) -> Any:
        selection = Selection(Schema((), named=True), keep=(name,))
        tables = [batch.kept for batch in self.reading(selection)]
        return raw_column(nw.from_native(_pyarrow().concat_tables(tables, promote_options="permissive"))[name])

    def _name(self, number: int) -> str:
        return str(getattr(self.fragments[number], "path", "") or f"part {number + 1}")

    def _first(self) -> Any:
        all_tables = (self._read(i, self._schema_of(i)[1]) for i in range(len(self.fragments)))
        return next((table for tables in all_tables for table in tables if n_rows_of(table)), None)

    def _tables(self) -> Iterator[Batch]:
        first_row = 0
        for number, n_rows in enumerate(self._counts):
            if n_rows == 0:
                continue
            name = self._name(number)
            _, names = self._schema_of(number)
            with naming(name):
                columns = self.selection.read(names)
            if self.n_rows is None:
                first_row = 0
            for table in self._read(number, columns):
                yield Batch(table, name, number if self.n_rows is None else 0, first_row)
                first_row += n_rows_of(table)

    def _schema_of(self, number: int) -> tuple[Any, list[str]]:
        """Return the schema by which a file is read, and the names of its columns that the file has."""
        fragment = self.fragments[number]
        with _whole(self._name(number)):
            physical = fragment.physical_schema
        schema = self.schema
        if schema is None:
            in_folders = {field.name for field in self.partitions}
            stored = [field for field in physical if field.name not in in_folders]
            schema = _pyarrow().schema([*stored, *self.partitions])
        keys = _pyarrow(".dataset").get_partition_keys(fragment.partition_expression)
        return schema, [name for name in schema.names if name in {*physical.names, *keys}]

    def _read(self, number: int, columns: Sequence[str]) -> Iterator[Any]:
        schema, _ = self._schema_of(number)
        batches = self.fragments[number].to_batches(
            schema=schema, columns=list(columns), batch_size=streams.ROWS_PER_BATCH, batch_readahead=2
        )
        remaining = gathered(batches)
        while True:
            with _whole(self._name(number)):
                table = next(remaining, None)
            if table is None:
                return
            yield table


def _is_local(fragment: Any) -> bool:
    return getattr(getattr(fragment, "filesystem", None), "type_name", "") == "local"


def parquet_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Files:
    """Return the rows of Parquet files: a path, a folder, a pattern such as ``year/*.parquet``, or a list of these."""
    locations = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    files = [path for each in locations for path in _files_of(each)]
    pyarrow, dataset = _pyarrow(), _pyarrow(".dataset")
    texts: dict[str, list[str]] = {}
    for name, text in (pair for path in files for pair in _folder_keys(path)):
        texts.setdefault(name, []).append(text)
    kinds = {name: pyarrow.int64() if all(map(_is_whole, texts[name])) else pyarrow.string() for name in texts}
    partitions = [pyarrow.field(name, kind) for name, kind in kinds.items()]
    partitioning = dataset.partitioning(pyarrow.schema(partitions), flavor="hive")
    filesystem, file_format = _pyarrow(".fs").LocalFileSystem(), dataset.ParquetFileFormat()
    fragments = [
        file_format.make_fragment(str(path), filesystem, partitioning.parse(path.as_posix())) for path in files
    ]
    return Files(fragments, partitions=partitions, given=locations)


def _folder_keys(path: pathlib.Path) -> list[tuple[str, str]]:
    """Return columns in the names of folders, as in ``year=2026``."""
    pairs = (folder.partition("=") for folder in path.parts[:-1] if "=" in folder)
    return [(urllib.parse.unquote(name), urllib.parse.unquote(text)) for name, _, text in pairs]


def _is_whole(text: str) -> bool:
    return text == _NO_VALUE or (text.removeprefix("-").isdecimal() and str(int(text)) == text)


def dataset_files(dataset: Any) -> Files:
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:  # of a dataset with a filter, which hides its files
        raise ValueError(
            "`X` must be a Dataset without a filter, got one that was filtered; pass X.scanner().to_reader(), in which "
            "columns that a file does not have are missing values."
        ) from error
    return Files(fragments, dataset.schema)


def would_read(given: str, file: pathlib.Path) -> bool:
    """Whether a path, a folder or a pattern stands for a file, or would once that is written."""
    source, target = pathlib.Path(os.path.realpath(given)), pathlib.Path(os.path.realpath(file))
    if source.is_dir():
        return source in target.parents and _is_data(target, source)
    if _is_pattern(given):
        return _is_matched(target.parts, source.parts) or any(
            is_same_file(file, matched_file)
            for match in _matches(given)
            for matched_file in _matched(pathlib.Path(match))
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
    if pathlib.Path(path).is_dir():
        data_files = [file for file in pathlib.Path(path).rglob("*") if _is_data(file, pathlib.Path(path))]
        rule = "a folder with Parquet files"
    elif _is_pattern(path):
        data_files = [file for match in _matches(path) for file in _matched(pathlib.Path(match))]
        rule = "a pattern that matches Parquet files"
    else:
        data_files = [pathlib.Path(path)]
        rule = "the path of a file, a folder or a pattern"
    if not data_files or not all(file.is_file() for file in data_files):
        raise FileNotFoundError(f"`X` must be {rule}, got {path!r}, where there is none; check the path.")
    _check_suffixes(data_files)
    return sorted(set(data_files))


def _matches(pattern: str) -> list[str]:
    return glob.glob(pattern, recursive=True)  # noqa: PTH207  patterns may begin at the root


def _matched(path: pathlib.Path) -> list[pathlib.Path]:
    return [file for file in path.rglob("*") if _is_data(file, path)] if path.is_dir() else [path]


def _is_data(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a file holds rows: names that begin with . or _ do not."""
    segments = file.relative_to(folder).parts
    return file.suffix.lower() in _SUFFIXES and not any(segment.startswith((".", "_")) for segment in segments)


def _check_suffixes(files: Iterable[pathlib.Path]) -> None:
    other = next((file for file in files if file.suffix.lower() not in _SUFFIXES), None)
    if other is not None:
        raise ValueError(
            f"`X` must be the path of Parquet files ({', '.join(_SUFFIXES)}), got {str(other)!r}; read other files "
            "with a data frame library, or pass a pyarrow Dataset."
        )
