"""Rows beyond memory: `batches_of` recognises data in batches; Parquet files, tables of Dask and Spark.

Each file is checked against its own schema: a column that is missing in one file is an error, not a column of missing
values. Files given by paths are also read by their own schemas, those of a dataset of pyarrow by its schema.

Workers get a function and the number of their partition, and return what they counted as named parts, which are bytes.
The engine merges the parts of one name, two at a time, in any order. In Spark, each partition returns one row per part.
Parts of 64 neighbouring partitions are merged first, so that no task holds the parts of all partitions.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fnmatch
import functools
import glob
import importlib
import itertools
import os
import pathlib
import re
import sys
import urllib.parse
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.core.arrays import memo
from treeanova.core.files import is_same_file
from treeanova.data import streams
from treeanova.data.columns import free_name, n_rows_of
from treeanova.data.features import Schema
from treeanova.data.streams import ALL_COLUMNS, ROWS_PER_BATCH, Batch, Batches, Selection, Stream

_SUFFIXES = (".parquet", ".pq", ".parq")
_NO_VALUE = "__HIVE_DEFAULT_PARTITION__"
_PARTS = "name string, part binary, place long"  # Spark's schema of named parts; a place is a partition or a group
__all__ = ["ROWS_PER_BATCH", "Batch", "Batches", "Distributed", "Selection", "batches_of"]
Work = Callable[[Iterable[Batch]], Mapping[str, bytes]]
"""Counts the batches of a partition; returns named parts."""
Merge = Callable[[bytes, bytes], bytes]
Map = Callable[[Any], Any]
"""Takes a table and returns float64 columns."""
_HEAD_ROWS = 10_000  # of the first rows that an engine is asked for
_MERGED_AT_ONCE = 64  # neighbouring partitions of Spark, so that no task holds the tables of all


def _pyarrow(module: str = "") -> Any:  # pyarrow, or its module such as ".fs"
    try:
        return importlib.import_module(f"pyarrow{module}")
    except ImportError as error:
        raise ImportError("reading Parquet files in batches needs pyarrow; pip install pyarrow.") from error


@contextlib.contextmanager
def _naming_file(name: str) -> Iterator[None]:
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
    """The rows of several files, one file after the other."""

    fragments: Sequence[Any]  # of a pyarrow dataset
    schema: Any = None  # of all files; None to read each by its own, with the partitions
    partitions: Sequence[Any] = ()  # pyarrow fields in the names of folders, as in year=2026
    locations: Sequence[str] = ()  # paths, folders and patterns that the files were found by
    selection: Selection = ALL_COLUMNS

    @functools.cached_property
    def n_rows(self) -> int | None:  # of all files; None if the footer of one does not state it
        counts = self._n_rows_by_file
        return None if None in counts else sum(count for count in counts if count is not None)

    @functools.cached_property
    def _n_rows_by_file(self) -> list[int | None]:
        """Number of rows of each file, if its footer states it."""
        counts: list[int | None] = []
        for number, fragment in enumerate(self.fragments):
            with _naming_file(self._file_name(number)):
                counts.append(int(fragment.count_rows()) if hasattr(fragment, "row_groups") else None)
        return counts

    def reads(self, file: pathlib.Path) -> bool:  # whether `file` is one of them, or would be once it is written
        systems = ((fragment, getattr(fragment, "filesystem", None)) for fragment in self.fragments)
        local = (fragment for fragment, system in systems if getattr(system, "type_name", "") == "local")
        is_fragment = any(is_same_file(file, pathlib.Path(fragment.path)) for fragment in local)
        return is_fragment or any(would_read(path, file) for path in self.locations)

    def in_memory(self) -> Any:
        """Return all rows as one table of pyarrow."""
        tables = [batch.table for batch in self]
        if not tables:
            raise ValueError("`X` must have at least one row, got 0 rows; pass other files.")
        return _pyarrow().concat_tables(tables, promote_options="permissive")

    def column(self, name: str) -> nw.Series[Any]:
        """Read one column of all files."""
        selection = Selection(Schema((), named=True), keep=(name,))
        tables = [batch.copied_columns for batch in self.reading(selection)]
        table = _pyarrow().concat_tables(tables, promote_options="permissive")
        return nw.from_native(table.column(name), series_only=True)

    def _file_name(self, number: int) -> str:  # for messages
        return str(getattr(self.fragments[number], "path", "") or f"part {number + 1}")

    def _first_table(self) -> Any:  # with rows and all columns; None without
        all_tables = (self._read_tables(number, self._schema_of(number)[1]) for number in range(len(self.fragments)))
        return next((table for tables in all_tables for table in tables if n_rows_of(table)), None)

    def _read_batches(self) -> Iterator[Batch]:  # file by file, with the columns that the selection needs
        first_row = 0
        for number, n_rows in enumerate(self._n_rows_by_file):
            if n_rows == 0:
                continue
            name = self._file_name(number)
            _, names = self._schema_of(number)
            with streams.naming(name):
                columns = self.selection.names_to_read(names)
            if self.n_rows is None:  # then rows are counted, and batches numbered, within each file
                first_row = 0
            for table in self._read_tables(number, columns):
                yield Batch(table, name, number if self.n_rows is None else 0, first_row)
                first_row += n_rows_of(table)

    def _schema_of(self, number: int) -> tuple[Any, list[str]]:
        """Return the schema by which a file is read, and the names of its columns that the file has."""
        fragment = self.fragments[number]
        with _naming_file(self._file_name(number)):
            physical = fragment.physical_schema
        schema = self.schema
        if schema is None:
            in_folders = {field.name for field in self.partitions}
            stored = [field for field in physical if field.name not in in_folders]
            schema = _pyarrow().schema([*stored, *self.partitions])
        keys = _pyarrow(".dataset").get_partition_keys(fragment.partition_expression)
        return schema, [name for name in schema.names if name in {*physical.names, *keys}]

    def _read_tables(self, number: int, columns: Sequence[str]) -> Iterator[Any]:
        """Yield tables of pyarrow with these columns of one file; errors name it."""
        schema, _ = self._schema_of(number)
        batches = self.fragments[number].to_batches(
            schema=schema, columns=list(columns), batch_size=streams.ROWS_PER_BATCH, batch_readahead=2
        )
        remaining = streams.tables_of_arrow_batches(batches)
        while True:
            with _naming_file(self._file_name(number)):
                table = next(remaining, None)
            if table is None:
                return
            yield table


def parquet_files(paths: str | os.PathLike[str] | Iterable[str | os.PathLike[str]]) -> Files:
    """Return the rows of Parquet files: a path, a folder, a pattern such as ``year/*.parquet``, or a list of these."""
    locations = [os.fspath(path) for path in ([paths] if isinstance(paths, (str, os.PathLike)) else paths)]
    files = [path for location in locations for path in _parquet_paths(location)]
    pyarrow, dataset = _pyarrow(), _pyarrow(".dataset")
    texts: dict[str, list[str]] = {}
    folders = (folder.partition("=") for path in files for folder in path.parts[:-1] if "=" in folder)
    for name, _, text in folders:  # columns in the names of folders, as in year=2026
        texts.setdefault(urllib.parse.unquote(name), []).append(urllib.parse.unquote(text))
    partitions = []
    for name, name_texts in texts.items():
        stated = (text for text in name_texts if text != _NO_VALUE)  # which stands for a missing value
        is_whole = all(text.removeprefix("-").isdecimal() and str(int(text)) == text for text in stated)
        partitions.append(pyarrow.field(name, pyarrow.int64() if is_whole else pyarrow.string()))
    partitioning = dataset.partitioning(pyarrow.schema(partitions), flavor="hive")
    filesystem, file_format = _pyarrow(".fs").LocalFileSystem(), dataset.ParquetFileFormat()
    expressions = (partitioning.parse(path.as_posix()) for path in files)  # the values that names of folders state
    pairs = zip(files, expressions, strict=True)
    fragments = [file_format.make_fragment(str(path), filesystem, expression) for path, expression in pairs]
    return Files(fragments, partitions=partitions, locations=locations)


def dataset_files(dataset: Any) -> Files:
    """Return the rows of a pyarrow Dataset, all read by its schema."""
    try:
        fragments = list(dataset.get_fragments())
    except ValueError as error:  # of a dataset with a filter, which hides its files
        raise ValueError(
            "`X` must be a Dataset without a filter, got one that was filtered; pass X.scanner().to_reader(), in which "
            "columns that a file does not have are missing values."
        ) from error
    return Files(fragments, dataset.schema)


def would_read(location: str, file: pathlib.Path) -> bool:
    """Whether a path, a folder or a pattern of Parquet files stands for `file`, or would once it is written."""
    source, target = pathlib.Path(os.path.realpath(location)), pathlib.Path(os.path.realpath(file))
    if source.is_dir():
        return source in target.parents and _is_data(target, source)
    if _is_pattern(location):
        is_matched = _is_matched(target.parts, source.parts)
        return is_matched or any(is_same_file(file, matched_file) for matched_file in _matched_files(location))
    return is_same_file(file, source)


def _is_pattern(path: str) -> bool:  # rather than a file that has such a character in its name
    return glob.has_magic(path) and not pathlib.Path(path).exists()


def _is_matched(segments: Sequence[str], pattern: Sequence[str]) -> bool:
    """Whether a pattern of file names, in segments, matches a path or one of its folders."""
    if not pattern:
        return True
    if pattern[0] == "**":
        return any(_is_matched(segments[i:], pattern[1:]) for i in range(len(segments) + 1))
    return bool(segments) and fnmatch.fnmatch(segments[0], pattern[0]) and _is_matched(segments[1:], pattern[1:])


def _parquet_paths(path: str) -> list[pathlib.Path]:
    """Return the Parquet files that a path, a folder or a pattern stands for; an error if there are none."""
    if pathlib.Path(path).is_dir():
        data_files = [file for file in pathlib.Path(path).rglob("*") if _is_data(file, pathlib.Path(path))]
        rule = "a folder with Parquet files"
    elif _is_pattern(path):
        data_files = _matched_files(path)
        rule = "a pattern that matches Parquet files"
    else:
        data_files = [pathlib.Path(path)]
        rule = "the path of a file, a folder or a pattern"
    if not data_files or not all(file.is_file() for file in data_files):
        raise FileNotFoundError(f"`X` must be {rule}, got {path!r}, where there is none; check the path.")
    other = next((file for file in data_files if file.suffix.lower() not in _SUFFIXES), None)
    if other is not None:
        raise ValueError(
            f"`X` must be the path of Parquet files ({', '.join(_SUFFIXES)}), got {str(other)!r}; read other files "
            "with a data frame library, or pass a pyarrow Dataset."
        )
    return sorted(set(data_files))


def _matched_files(pattern: str) -> list[pathlib.Path]:
    """Return files that a pattern matches, and data files in folders that it matches."""
    files: list[pathlib.Path] = []
    for path in map(pathlib.Path, glob.glob(pattern, recursive=True)):  # noqa: PTH207  patterns may begin at the root
        files += [file for file in path.rglob("*") if _is_data(file, path)] if path.is_dir() else [path]
    return files


def _is_data(file: pathlib.Path, folder: pathlib.Path) -> bool:
    """Whether a file in a folder is Parquet and holds rows: names that begin with . or _ do not."""
    segments = file.relative_to(folder).parts
    return file.suffix.lower() in _SUFFIXES and not any(segment.startswith((".", "_")) for segment in segments)


def batches_of_part(tables: Iterable[Any], number: int, selection: Selection) -> Iterator[Batch]:
    """Yield the tables of partition `number` as batches with the selected columns; rows are counted within it."""
    return streams.select(streams.cut_into_batches(tables, f"partition {number}", number), selection)


def merge_by_name(first: Mapping[str, bytes], second: Mapping[str, bytes], merge: Merge) -> dict[str, bytes]:
    """Return the parts that two workers counted, by name; two parts of one name are merged."""
    both = {name: merge(payload, second[name]) if name in second else payload for name, payload in first.items()}
    return both | {name: payload for name, payload in second.items() if name not in first}


@dataclasses.dataclass(frozen=True)
class DaskTable(Batches):
    """A Dask DataFrame, or a Dask array of two axes; iterating fetches one partition after the other."""

    table: Any
    selection: Selection = ALL_COLUMNS

    @property
    def reads_selection(self) -> bool:
        """Whether tables are read without the columns to leave out; an array has no names of columns."""
        return hasattr(self.table, "map_partitions") and hasattr(self.table, "columns")

    @functools.cached_property
    def n_rows(self) -> int:
        return len(self.table)

    @memo
    def _first_table(self) -> Any:
        if self.reads_selection:
            return self.table.head(_HEAD_ROWS, npartitions=-1)
        return self.table[:_HEAD_ROWS].compute()

    def partitions(self) -> list[Any]:
        """Return the partitions, not computed yet, with the columns to read; of an array, blocks of rows."""
        if not self.reads_selection:
            return list(self.table.rechunk({1: -1}).to_delayed().ravel())
        names = [str(name) for name in self.table.columns]
        columns = self.selection.names_to_read(names)
        if columns == names:
            return list(self.table.to_delayed())
        return list(self.table[[self.table.columns[names.index(name)] for name in columns]].to_delayed())

    def _read_batches(self) -> Iterator[Batch]:  # partition by partition, computed one at a time
        for number, partition in enumerate(self.partitions()):
            yield from streams.cut_into_batches([partition.compute()], f"partition {number}", number)

    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        """Merge what `work` returns for the batches of each partition, by name, in a tree of tasks."""
        delayed = importlib.import_module("dask").delayed
        shared = delayed((work, self.selection_of_tables), traverse=False)  # sent to each worker once
        of_part = delayed(_work_on_partition)
        results = [of_part(shared, partition, number) for number, partition in enumerate(self.partitions())]
        merge_two = delayed(functools.partial(merge_by_name, merge=merge))
        while len(results) > 1:
            pairs = itertools.zip_longest(results[::2], results[1::2])
            # Of an odd number, the last one waits for the next level.
            results = [first if second is None else merge_two(first, second) for first, second in pairs]
        return results[0].compute()

    def mapped(self, work: Map, names: Iterable[str]) -> Any:
        """Return a lazy Dask DataFrame of the named columns that `work` returns, with the rows' index."""
        pandas, dask = importlib.import_module("pandas"), importlib.import_module("dask")
        shared = dask.delayed(work, traverse=False)
        meta = pandas.DataFrame({name: np.empty(0) for name in names})
        if self.reads_selection:
            no_rows = self.table._meta[:0]  # noqa: SLF001  the documented name for the shape of a partition
            return self.table.map_partitions(_map_partition, shared, meta=meta.set_index(no_rows.index))
        delayed_map = dask.delayed(_map_partition)
        blocks = [delayed_map(block, shared) for block in self.partitions()]
        return importlib.import_module("dask.dataframe").from_delayed(blocks, meta=meta)


def _work_on_partition(shared: tuple[Work, Selection], table: Any, number: int) -> Mapping[str, bytes]:
    """Return the named parts that `work` counts in one Dask partition; runs in a worker."""
    work, selection = shared
    return work(batches_of_part([table], number, selection))


def _map_partition(table: Any, work: Map) -> Any:
    """Return the columns of `work` for one Dask partition as a pandas frame with its index."""
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame(work(table), index=getattr(table, "index", None))


@dataclasses.dataclass(frozen=True)
class SparkTable(Batches):
    """A Spark DataFrame; iterating fetches rows through the driver, workers read partitions."""

    table: Any
    selection: Selection = ALL_COLUMNS

    @functools.cached_property
    def n_rows(self) -> int:
        return int(self.table.count())

    @memo
    def _first_table(self) -> Any:
        return self.table.limit(_HEAD_ROWS).toArrow()

    def _selected_table(self) -> Any:  # the same rows with the columns to read, lazily
        escaped = (name.replace("`", "``") for name in self.selection.names_to_read(self.table.columns))
        return self.table.select(*(f"`{name}`" for name in escaped))

    def _read_batches(self) -> Iterator[Batch]:  # of rows that come through the driver
        pyarrow = importlib.import_module("pyarrow")
        rows = self._selected_table().toLocalIterator()
        schema = self._selected_table().limit(0).toArrow().schema
        # Lists of rows until one is empty.
        chunks = iter(lambda: [row.asDict() for row in itertools.islice(rows, ROWS_PER_BATCH)], [])
        return streams.cut_into_batches(pyarrow.Table.from_pylist(chunk, schema) for chunk in chunks)

    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        """Merge what `work` returns for each partition, by name: first of neighbouring partitions, then of all."""
        functions = importlib.import_module("pyspark.sql.functions")
        frame = self._selected_table().mapInArrow(_spark_worker(work, self.selection_of_tables), _PARTS)
        for place in (f"place div {_MERGED_AT_ONCE}", "0L"):
            frame = frame.withColumn("place", functions.expr(place))
            frame = frame.groupBy("name", "place").applyInArrow(_spark_merger(merge), _PARTS)
        return {row["name"]: bytes(row["part"]) for row in frame.toLocalIterator()}

    def mapped(self, work: Map, names: Iterable[str]) -> Any:
        """Return a lazy Spark DataFrame of the named columns that `work` returns, then those the model does not use."""
        types = importlib.import_module("pyspark.sql.types")
        fields = {name: types.StructField(name, types.DoubleType()) for name in names}
        used = set(self.selection.model_names(self.table.columns))
        unused = [field for field in self.table.schema.fields if field.name not in used]
        for field in unused:
            name = free_name(field.name, fields)
            fields[name] = types.StructField(name, field.dataType, field.nullable)
        mapping = _spark_mapper(work, list(fields), [field.name for field in unused])
        return self.table.mapInArrow(mapping, types.StructType(list(fields.values())))


Distributed = DaskTable | SparkTable
"""Rows in partitions that workers read."""

# Functions for workers. Spark counts the arguments of a function, so closures bind what they need.


def _spark_worker(work: Work, selection: Selection) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for Spark's `mapInArrow`: it counts a partition and yields a row for each named part."""

    def count(batches: Iterator[Any]) -> Iterator[Any]:  # takes a partition's batches of Arrow, yields rows of parts
        number = importlib.import_module("pyspark").TaskContext.get().partitionId()
        for name, payload in work(batches_of_part(streams.tables_of_arrow_batches(batches), number, selection)).items():
            yield _part_row(name, payload, number)

    return count


def _spark_merger(merge: Merge) -> Callable[[Any], Any]:
    """Return a function for Spark's `applyInArrow`: it merges a table of parts of one name to one row."""

    def merge_group(table: Any) -> Any:  # takes parts of one name, returns one row
        payloads = (scalar.as_py() for scalar in table["part"])
        row = _part_row(table["name"][0].as_py(), functools.reduce(merge, payloads), table["place"][0].as_py())
        return importlib.import_module("pyarrow").Table.from_batches([row])

    return merge_group


def _part_row(name: str, payload: bytes, partition: int) -> Any:
    """Return a named part as one row of Arrow with the columns `_PARTS`."""
    pyarrow = importlib.import_module("pyarrow")
    types = (pyarrow.string(), pyarrow.binary(), pyarrow.int64())
    columns = [pyarrow.array([value], kind) for value, kind in zip((name, payload, partition), types, strict=True)]
    return pyarrow.RecordBatch.from_arrays(columns, names=["name", "part", "place"])


def _spark_mapper(work: Map, names: Sequence[str], unused: Sequence[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    """Return a function for Spark's `mapInArrow`: it yields the columns of `work`, then `unused` ones unchanged."""

    def explain(batches: Iterator[Any]) -> Iterator[Any]:  # takes a partition's batches of Arrow, yields others
        pyarrow = importlib.import_module("pyarrow")
        for table in streams.tables_of_arrow_batches(batches):
            columns = [*map(pyarrow.array, work(table).values()), *(table[name] for name in unused)]
            yield from pyarrow.table(columns, names=names).to_batches()

    return explain


def lazy_frame(frame: Any) -> Stream:
    """Return the rows of a polars LazyFrame, computed anew each time."""
    if not hasattr(frame, "collect_batches"):
        raise ImportError("reading a LazyFrame in batches needs polars 1.34 or later; update it, or pass X.collect().")

    def read(columns: Sequence[str] | None) -> Iterable[Any]:  # computes these columns, None for all
        selected = frame if columns is None else frame.select(columns)
        return selected.collect_batches(chunk_size=streams.ROWS_PER_BATCH)

    names, files = frame.collect_schema().names(), lambda: _scanned_files(frame)
    return Stream(read, names, preview=lambda: frame.head(streams.ROWS_PER_BATCH).collect(), files=files)


def _scanned_files(frame: Any) -> list[pathlib.Path]:
    """Return the files that a polars LazyFrame scans, as far as its plan shows them."""
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


def duckdb_relation(relation: Any) -> Stream:
    """Return the rows of a DuckDB relation, whose query runs anew each time."""

    def read(columns: Sequence[str] | None) -> Iterator[Any]:  # runs the query for these columns, None for all
        escaped = (name.replace('"', '""') for name in columns or ())
        selected = relation if columns is None else relation.project(", ".join(f'"{name}"' for name in escaped))
        reader = selected.to_arrow_reader if hasattr(selected, "to_arrow_reader") else selected.fetch_record_batch
        return arrow_tables(reader(streams.ROWS_PER_BATCH))

    def preview() -> Any:
        return next(arrow_tables(relation.limit(streams.ROWS_PER_BATCH)), None)

    return Stream(read, list(relation.columns), preview=preview, files=lambda: _queried_files(relation))


def _queried_files(relation: Any) -> list[pathlib.Path]:
    """Return the files that the text of a DuckDB query names; those of its views and tables are not in the text."""
    quoted = re.findall(r"'((?:[^']|'')*)'|\"((?:[^\"]|\"\")*)\"", relation.sql_query())
    texts = (text.replace("''", "'") or name.replace('""', '"') for text, name in quoted)
    paths = (glob.glob(text, recursive=True) for text in texts)  # noqa: PTH207  any text, also of what is no path
    return [pathlib.Path(path) for path in itertools.chain.from_iterable(paths)]


def arrow_tables(stream: Any) -> Iterator[Any]:
    """Yield the tables of an object with ``__arrow_c_stream__``."""
    return streams.tables_of_arrow_batches(importlib.import_module("pyarrow").RecordBatchReader.from_stream(stream))


def batches_of(X: Any) -> Batches | None:
    """Return the rows of user data in batches; None for None, and for a table or matrix in memory."""
    # `X` may be a path, folder or pattern of Parquet files, or a list of them; a pyarrow Dataset, a DuckDB relation, a
    # polars LazyFrame, a DataFrame or array of Dask, a DataFrame of Spark, anything with ``__arrow_c_stream__``, or an
    # iterable of frames, which can be read again unless it is an iterator.
    if isinstance(X, Batches):
        return X
    if X is None or isinstance(X, (np.ndarray, Mapping, memoryview)) or scipy.sparse.issparse(X):
        return None
    if nw.dependencies.is_into_dataframe(X):
        return None
    is_list = isinstance(X, Sequence) and len(X) > 0
    if isinstance(X, (str, os.PathLike)) or (is_list and all(isinstance(entry, (str, os.PathLike)) for entry in X)):
        return parquet_files(X)
    if not isinstance(X, Sequence):
        return _batches_of_object(X)
    return streams.frames_in_list(X) if is_list and all(map(streams.is_frame_or_matrix, X)) else None


_LIBRARIES: tuple[tuple[str, str, Callable[[Any], Batches]], ...] = (
    ("dask.dataframe", "DataFrame", DaskTable),
    ("dask.array", "Array", DaskTable),
    ("pyspark.sql", "DataFrame", SparkTable),
    ("polars", "LazyFrame", lazy_frame),
    ("duckdb", "DuckDBPyRelation", duckdb_relation),
    ("pyarrow.dataset", "Dataset", dataset_files),
)


def _batches_of_object(X: Any) -> Batches | None:
    """Return the rows of an engine's table, of an Arrow stream or of an iterable of frames; None for others."""
    for module, name, read in _LIBRARIES:
        owner = getattr(sys.modules.get(module), name, None)
        if owner is not None and isinstance(X, owner):
            return read(X)
    if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__"):  # a column has both
        return streams.read_once(arrow_tables(X))
    if isinstance(X, Iterator):
        return streams.read_once(X)
    is_array = hasattr(X, "__array__") or hasattr(X, "__len__")
    return Stream(lambda _: X) if hasattr(X, "__iter__") and not is_array else None
