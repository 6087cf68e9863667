"""Spark: a DataFrame, of which Python workers count the partitions by `mapInArrow`; results are reduced by name.

Each partition becomes one row per table, with its bytes. Rows of one name are merged in two steps, first those
of 64 neighbouring partitions, so that no task holds the tables of all partitions at once.
"""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from treeanova.data.batch import ALL_COLUMNS, ROWS_PER_BATCH, Piece, Selection
from treeanova.data.distributed import Distributed, Merge, Table, Work, batches_of_part
from treeanova.data.frames import free_name
from treeanova.data.streams import gathered, numbered

_HEAD_ROWS = 10_000
_PARTS = "name string, part binary, place long"
_AT_ONCE = 64


@dataclasses.dataclass(frozen=True)
class SparkTable(Distributed):
    """A Spark DataFrame.

    Attributes
    ----------
    table
        The DataFrame.
    selection
        The columns to read.
    """

    table: Any
    selection: Selection = ALL_COLUMNS

    def reading(self, selection: Selection) -> SparkTable:
        """The same rows with other columns."""
        return dataclasses.replace(self, selection=selection)

    def _first(self) -> Any:
        """The first rows."""
        return self._head if len(self._head) else None

    @functools.cached_property
    def _head(self) -> Any:
        return self.table.limit(_HEAD_ROWS).toArrow()

    def _columns(self, selection: Selection) -> Any:
        return self.table.select(*map(_quoted, selection.read(self.table.columns)))

    def _pieces(self, selection: Selection) -> Iterator[Piece]:
        pyarrow = importlib.import_module("pyarrow")
        rows = self._columns(selection).toLocalIterator()
        schema = self._columns(selection).limit(0).toArrow().schema
        chunks = iter(lambda: [row.asDict() for row in itertools.islice(rows, ROWS_PER_BATCH)], [])
        return numbered(pyarrow.Table.from_pylist(chunk, schema) for chunk in chunks)

    @property
    def _selection_of_pieces(self) -> Selection:
        return self.selection.after_reading

    @functools.cached_property
    def n_rows(self) -> int:
        """Number of rows, which Spark counts."""
        return int(self.table.count())

    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        """What `work` returns for the batches of each partition, merged by name."""
        functions = importlib.import_module("pyspark.sql.functions")
        parts = self._columns(self.selection).mapInArrow(_counting(work, self._selection_of_pieces), _PARTS)
        for place in (f"place div {_AT_ONCE}", "0L"):
            parts = parts.withColumn("place", functions.expr(place))
            parts = parts.groupBy("name", "place").applyInArrow(_merging(merge), _PARTS)
        return {row["name"]: bytes(row["part"]) for row in parts.toLocalIterator()}

    def mapped(self, work: Table, names: Iterable[str]) -> Any:
        """A Spark DataFrame with these columns, then those of the rows that the model does not use, such as keys."""
        types = importlib.import_module("pyspark.sql.types")
        fields = {name: types.StructField(name, types.DoubleType()) for name in names}
        used = set(self.selection.columns(self.table.columns))
        kept = [field for field in self.table.schema.fields if field.name not in used]
        for field in kept:
            name = free_name(field.name, fields)
            fields[name] = types.StructField(name, field.dataType, field.nullable)
        mapping = _mapping(work, list(fields), [field.name for field in kept])
        return self.table.mapInArrow(mapping, types.StructType(list(fields.values())))


# Functions for workers. Spark counts the arguments of a function, so that what they need is bound by closures.


def _counting(work: Work, selection: Selection) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def count(batches: Iterator[Any]) -> Iterator[Any]:
        number = importlib.import_module("pyspark").TaskContext.get().partitionId()
        for name, part in work(batches_of_part(gathered(batches), number, selection)).items():
            yield _row(name, part, number)

    return count


def _merging(merge: Merge) -> Callable[[Any], Any]:
    def merge_group(table: Any) -> Any:
        parts = (part.as_py() for part in table["part"])
        row = _row(table["name"][0].as_py(), functools.reduce(merge, parts), table["place"][0].as_py())
        return importlib.import_module("pyarrow").Table.from_batches([row])

    return merge_group


def _row(name: str, part: bytes, place: int) -> Any:
    """One part as a record batch."""
    pyarrow = importlib.import_module("pyarrow")
    types = (pyarrow.string(), pyarrow.binary(), pyarrow.int64())
    columns = [pyarrow.array([value], kind) for value, kind in zip((name, part, place), types, strict=True)]
    return pyarrow.RecordBatch.from_arrays(columns, names=["name", "part", "place"])


def _mapping(work: Table, names: Sequence[str], kept: Sequence[str]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def explain(batches: Iterator[Any]) -> Iterator[Any]:
        pyarrow = importlib.import_module("pyarrow")
        for table in gathered(batches):
            columns = [*map(pyarrow.array, work(table).values()), *(table[name] for name in kept)]
            yield from pyarrow.table(columns, names=names).to_batches()

    return explain


def _quoted(name: str) -> str:
    escaped = name.replace("`", "``")
    return f"`{escaped}`"
