"""Streams: sizes and numbers of batches, columns that a query is asked for."""

import numpy as np
import polars as pl
import pyarrow as pa
import pytest

from treeanova.data import streams
from treeanova.data.features import Feature, Schema
from treeanova.data.sources import arrow_tables, batches_of
from treeanova.data.streams import Selection, Stream

SCHEMA = Schema((Feature("b"), Feature("a")), named=True)


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(streams, "ROWS_PER_BATCH", 4)


@pytest.mark.usefixtures("small_batches")
@pytest.mark.parametrize("library", [pl.DataFrame, pa.table, lambda columns: pl.DataFrame(columns).to_pandas()])
def test_long_frames_are_cut(library):
    frame = library({"a": range(11), "b": range(11)})
    batches = list(batches_of([frame, frame[:3]]))
    assert [batch.n_rows for batch in batches] == [4, 4, 3, 3]
    assert [batch.first_row for batch in batches] == [0, 4, 8, 11]
    assert {batch.number for batch in batches} == {0}
    assert [batch.source for batch in batches] == ["batch 1", "batch 2", "batch 3", "batch 4"]
    values = np.concatenate([np.asarray(batch.table["a"]) for batch in batches])
    assert values.tolist() == [*range(11), 0, 1, 2]


@pytest.mark.usefixtures("small_batches")
def test_short_batches_of_arrow_are_gathered():
    table = pa.table({"a": range(10)})
    reader = pa.RecordBatchReader.from_batches(table.schema, table.to_batches(max_chunksize=3))
    tables = list(arrow_tables(reader))
    assert [len(part) for part in tables] == [6, 4]
    assert pa.concat_tables(tables).equals(table)


def test_a_query_is_asked_for_the_columns_of_the_model_only():
    asked = []

    def read(columns):
        asked.append(columns)
        return [pl.DataFrame({"a": [1], "b": [2]})]

    query = Stream(read, ("a", "b", "c", "w")).reading(Selection(SCHEMA, "w"))
    with pytest.raises(ValueError, match="batch 1: `X` must have the columns that are named"):
        list(query)
    assert asked == [["b", "a", "w"]]


def test_names_in_a_relation_may_have_any_characters():
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: its relations are not tested")
    schema = Schema((Feature('a "b" c'),), named=True)
    relation = duckdb.connect().sql('SELECT 3 AS "a ""b"" c", 4 AS other')
    (batch,) = batches_of(relation).reading(Selection(schema))
    assert batch.encoded(schema).tolist() == [[3.0]]


def test_a_lazy_frame_of_an_old_polars_is_refused(monkeypatch):
    monkeypatch.delattr(pl.LazyFrame, "collect_batches")
    with pytest.raises(ImportError, match=r"needs polars 1\.34 or later; update it, or pass X\.collect"):
        batches_of(pl.LazyFrame({"a": [1]}))


@pytest.mark.parametrize("empty", [pl.LazyFrame({"a": []}), iter([]), [pl.DataFrame({"a": []})]])
def test_no_rows_have_no_head(empty):
    assert batches_of(empty).head() is None
