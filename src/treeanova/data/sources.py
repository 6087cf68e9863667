"""Rows beyond memory: `batches_of` recognises data in batches; tables of Dask and Spark.

Workers get a function and the number of their part of the rows, and return named parts as bytes. The engine merges the
parts of one name, two at a time, in any order. In Spark, each partition returns one row per part. Parts of 64
neighbouring partitions are merged first, so that no task holds the parts of all partitions.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import narwhals.stable.v1 as nw
import numpy as np
import scipy.sparse

from treeanova.data.columns import free_name
from treeanova.data.parquet import dataset_files, parquet_files
from treeanova.data.streams import (
    ALL_COLUMNS,
    ROWS_PER_BATCH,
    Batch,
    Batches,
    Selection,
    Stream,
    arrow_tables,
    duckdb_relation,
    frames_in_list,
    gathered,
    is_frame,
    lazy_frame,
    numbered,
    read_once,
    select,
)

__all__ = ["ROWS_PER_BATCH", "Batch", "Batches", "Distributed", "Selection", "batches_of"]

Work = Callable[[Iterable[Batch]], Mapping[str, bytes]]
"""Returns named parts for the batches of a partition."""
Merge = Callable[[bytes, bytes], bytes]
Map = Callable[[Any], Any]
"""Takes a table and returns float64 columns."""
_HEAD_ROWS = 10_000  # of the first rows that an engine is asked for
_MERGED_AT_ONCE = 64  # neighbouring partitions of Spark, so that no task holds the tables of all


def batches_of_part(tables: Iterable[Any], number: int, selection: Selection) -> Iterator[Batch]:
    """Yield the batches of one partition, as workers read them; rows are counted within it."""
    return select(numbered(tables, f"partition {number}", number), selection)


def merged(first: Mapping[str, bytes], second: Mapping[str, bytes], merge: Merge) -> dict[str, bytes]:
    both = {name: merge(payload, second[name]) if name in second else payload for name, payload in first.items()}
    return both | {name: payload for name, payload in second.items() if name not in first}


@dataclasses.dataclass(frozen=True)
class DaskTable(Batches):
    """A Dask DataFrame, or a Dask array of two axes; iterating fetches one partition after the other."""

    table: Any
    selection: Selection = ALL_COLUMNS

    @property
    def reads_selection(self) -> bool:
        """An array has no names."""
        return hasattr(self.table, "map_partitions") and hasattr(self.table, "columns")

    @functools.cached_property
    def n_rows(self) -> int:
        return len(self.table)

    @functools.cached_property
    def _head(self) -> Any:
        if self.reads_selection:
            return self.table.head(_HEAD_ROWS, npartitions=-1)
        return self.table[:_HEAD_ROWS].compute()

    def _first(self) -> Any:
        return self._head

    def partitions(self) -> list[Any]:
        if not self.reads_selection:
            return list(self.table.rechunk({1: -1}).to_delayed().ravel())
        names = [str(name) for name in self.table.columns]
        columns = self.selection.read(names)
        if columns == names:
            return list(self.table.to_delayed())
        return list(self.table[[self.table.columns[names.index(name)] for name in columns]].to_delayed())

    def _tables(self) -> Iterator[Batch]:
        for number, partition in enumerate(self.partitions()):
            yield from numbered([partition.compute()], f"partition {number}", number)

    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        """Merge what `work` returns for the batches of each partition, by name, in a tree of tasks."""
        delayed = importlib.import_module("dask").delayed
        shared = delayed((work, self.selection_of_tables), traverse=False)
        of_part = delayed(_counted_part)
        results = [of_part(shared, partition, number) for number, partition in enumerate(self.partitions())]
        merge_two = delayed(functools.partial(merged, merge=merge))
        while len(results) > 1:
            pairs = itertools.zip_longest(results[::2], results[1::2])
            results = [one if two is None else merge_two(one, two) for one, two in pairs]
        by_name: dict[str, bytes] = results[0].compute()
        return by_name

    def mapped(self, work: Map, names: Iterable[str]) -> Any:
        """Return a lazy Dask DataFrame of the named columns that `work` returns, with the rows' index."""
        pandas, dask = importlib.import_module("pandas"), importlib.import_module("dask")
        shared = dask.delayed(work, traverse=False)
        meta = pandas.DataFrame({name: np.empty(0) for name in names})
        if self.reads_selection:
            no_rows = self.table._meta[:0]  # noqa: SLF001  the documented name for the shape of a partition
            return self.table.map_partitions(_mapped_part, shared, meta=meta.set_index(no_rows.index))
        delayed_map = dask.delayed(_mapped_part)
        blocks = [delayed_map(block, shared) for block in self.partitions()]
        return importlib.import_module("dask.dataframe").from_delayed(blocks, meta=meta)


def _counted_part(shared: tuple[Work, Selection], table: Any, number: int) -> Mapping[str, bytes]:
    work, selection = shared
    return work(batches_of_part([table], number, selection))


def _mapped_part(table: Any, work: Map) -> Any:
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame(work(table), index=getattr(table, "index", None))


_PARTS = "name string, part binary, place long"
_AT_ONCE = 64


@dataclasses.dataclass(frozen=True)
class SparkTable(Batches):
    table: Any
    selection: Selection = ALL_COLUMNS

    @functools.cached_property
    def n_rows(self) -> int:
        return int(self.table.count())

    @functools.cached_property
    def _head(self) -> Any:
        return self.table.limit(_HEAD_ROWS).toArrow()

    def _first(self) -> Any:
        return self._head

    def _columns(self) -> Any:
        escaped = (name.replace("`", "``") for name in self.selection.read(self.table.columns))
        return self.table.select(*(f"`{name}`" for name in escaped))

    def _tables(self) -> Iterator[Batch]:
        pyarrow = importlib.import_module("pyarrow")
        rows = self._columns().toLocalIterator()
        schema = self._columns().limit(0).toArrow().schema
        chunks = iter(lambda: [row.asDict() for row in itertools.islice(rows, ROWS_PER_BATCH)], [])
        return numbered(pyarrow.Table.from_pylist(chunk, schema) for chunk in chunks)

    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        functions = importlib.import_module("pyspark.sql.functions")
        frame = self._columns().mapInArrow(_counting(work, self.selection_of_tables), _PARTS)
        for place in (f"place div {_MERGED_AT_ONCE}", "0L"):
            frame = frame.withColumn("place", functions.expr(place))
            frame = frame.groupBy("name", "place").applyInArrow(_merging(merge), _PARTS)
        return {row["name"]: bytes(row["part"]) for row in frame.toLocalIterator()}

    def mapped(self, work: Map, names: Iterable[str]) -> Any:
        """Return a lazy Spark DataFrame of the named columns that `work` returns, then those the model does not use."""
        types = importlib.import_module("pyspark.sql.types")
        fields = {name: types.StructField(name, types.DoubleType()) for name in names}
        used = set(self.selection.columns(self.table.columns))
        unused = [field for field in self.table.schema.fields if field.name not in used]
        for field in unused:
            name = free_name(field.name, fields)
            fields[name] = types.StructField(name, field.dataType, field.nullable)
        mapping = _mapping(work, list(fields), [field.name for field in unused])
        return self.table.mapInArrow(mapping, types.StructType(list(fields.values())))


Distributed = DaskTable | SparkTable
"""Rows in partitions that workers read."""
_PARTS = "name string, part binary, place long"

# Functions for workers. Spark counts the arguments of a function, so closures bind what they need.


def _counting(work: Work, selection: Selection) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def count(batches: Iterator[Any]) -> Iterator[Any]:
        number = importlib.import_module("pyspark").TaskContext.get().partitionId()
        for name, payload in work(batches_of_part(gathered(batches), number, selection)).items():
            yield _row(name, payload, number)

    return count


def _merging(merge: Merge) -> Callable[[Any], Any]:
    def merge_group(table: Any) -> Any:
        payloads = (scalar.as_py() for scalar in table["part"])
        row = _row(table["name"][0].as_py(), functools.reduce(merge, payloads), table["place"][0].as_py())
        return importlib.import_module("pyarrow").Table.from_batches([row])

    return merge_group


def _row(name: str, part: bytes, place: int) -> Any:
    pyarrow = importlib.import_module("pyarrow")
    types = (pyarrow.string(), pyarrow.binary(), pyarrow.int64())
    columns = [pyarrow.array([value], kind) for value, kind in zip((name, part, place), types, strict=True)]
    return pyarrow.RecordBatch.from_arrays(columns, names=["name", "part", "place"])


def _mapping(work: Map, names: Sequence[str], unused: Sequence[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def explain(batches: Iterator[Any]) -> Iterator[Any]:
        pyarrow = importlib.import_module("pyarrow")
        for table in gathered(batches):
            columns = [*map(pyarrow.array, work(table).values()), *(table[name] for name in unused)]
            yield from pyarrow.table(columns, names=names).to_batches()

    return explain


def batches_of(X: Any) -> Batches | None:
    """Return the rows of user data in batches; None for None, and for a table or matrix in memory.

    `X` may be a path, folder or pattern of Parquet files, or a list of them; a pyarrow Dataset, a DuckDB relation, a
    polars LazyFrame, a DataFrame or array of Dask, a DataFrame of Spark, anything with ``__arrow_c_stream__``, or an
    iterable of frames. A list of frames, and an object that makes a new iterator each time, can be read again; an
    iterator cannot.
    """
    if isinstance(X, Batches):
        return X
    if X is None or _is_in_memory(X):
        return None
    if isinstance(X, (str, os.PathLike)):
        return parquet_files(X)
    if isinstance(X, Sequence):
        return _of_list(X)
    return _of_library(X) or _of_iterable(X)


def _is_in_memory(X: Any) -> bool:
    return isinstance(X, (np.ndarray, Mapping)) or scipy.sparse.issparse(X) or nw.dependencies.is_into_dataframe(X)


def _of_list(X: Sequence[Any]) -> Batches | None:
    """Return paths or frames in a list; None for a list of rows."""
    if X and all(isinstance(entry, (str, os.PathLike)) for entry in X):
        return parquet_files(X)
    return frames_in_list(X) if X and all(map(is_frame, X)) else None


_LIBRARIES: tuple[tuple[str, str, Callable[[Any], Batches]], ...] = (
    ("dask.dataframe", "DataFrame", DaskTable),
    ("dask.array", "Array", DaskTable),
    ("pyspark.sql", "DataFrame", SparkTable),
    ("polars", "LazyFrame", lazy_frame),
    ("duckdb", "DuckDBPyRelation", duckdb_relation),
    ("pyarrow.dataset", "Dataset", dataset_files),
)


def _of_library(X: Any) -> Batches | None:
    for module, name, read in _LIBRARIES:
        owner = getattr(sys.modules.get(module), name, None)
        if owner is not None and isinstance(X, owner):
            return read(X)
    is_table = hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__")  # a column has both
    return read_once(arrow_tables(X)) if is_table else None


def _of_iterable(X: Any) -> Batches | None:
    if isinstance(X, Iterator):
        return read_once(X)
    is_array = hasattr(X, "__array__") or hasattr(X, "__len__")
    return Stream(lambda _: X) if hasattr(X, "__iter__") and not is_array else None
