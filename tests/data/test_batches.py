"""What comes in batches, and what is a table in memory."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet
import pytest
import scipy.sparse

import treeanova
from tests.support.same_answers import assert_same_answers, boosted_model, mixed_rows
from treeanova.data.features import Feature, Schema
from treeanova.data.sources import batches_of
from treeanova.data.streams import Selection

SCHEMA = Schema((Feature("a"), Feature("b")), named=True)
ROWS = np.array([[1.0, 2.0], [3.0, np.nan], [5.0, 6.0], [7.0, 8.0], [9.0, 0.0]])


def frame():
    return pd.DataFrame(ROWS, columns=["a", "b"]).assign(c=0)


@pytest.mark.parametrize(
    "data",
    [
        None,
        ROWS,
        ROWS.tolist(),
        [],
        scipy.sparse.csr_matrix(ROWS),
        frame(),
        pl.from_pandas(frame()),
        pa.Table.from_pandas(frame()),
        {"a": [1]},
        3.0,
    ],
)
def test_tables_in_memory_are_no_batches(data):
    assert batches_of(data) is None


class Again:
    """An object that makes a new iterator each time."""

    def __iter__(self):
        return iter([frame()[:2], frame()[2:]])


def written(folder):
    (folder / "more").mkdir()
    for rows, name in ((frame()[:2], "1.parquet"), (frame()[2:2], "2.parquet"), (frame()[2:], "more/3.parquet")):
        rows.to_parquet(folder / name)
    return folder


def relation(folder):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: its relations are not tested")
    return duckdb.connect().sql(f"SELECT * FROM read_parquet('{folder}/**/*.parquet') ORDER BY a")


SOURCES = {
    "folder": written,
    "text": lambda folder: str(written(folder)),
    "pattern": lambda folder: written(folder) / "**" / "*.parquet",
    "list of paths": lambda folder: [written(folder) / "1.parquet", folder / "more"],
    "dataset": lambda folder: pa.dataset.dataset(written(folder), format="parquet"),
    "lazy frame": lambda folder: pl.scan_parquet(written(folder) / "**" / "*.parquet"),
    "relation": lambda folder: relation(written(folder)),
    "list of frames": lambda _: [frame()[:3], frame()[3:]],
    "list of matrices": lambda _: [ROWS[:3], scipy.sparse.csr_matrix(np.nan_to_num(ROWS[3:]))],
    "object": lambda _: Again(),
}
ONE_SHOT = {
    "generator": lambda _: (frame()[i : i + 1] for i in range(5)),
    "record batches": lambda _: iter(pa.Table.from_pandas(frame()).to_batches(max_chunksize=2)),
    "stream": lambda _: pa.RecordBatchReader.from_batches(
        pa.Table.from_pandas(frame()).schema, pa.Table.from_pandas(frame()).to_batches(max_chunksize=2)
    ),
}


def rows_of(batches):
    return np.concatenate([batch.encoded(SCHEMA) for batch in batches])


@pytest.mark.parametrize("make", SOURCES.values(), ids=list(SOURCES))
def test_every_source_gives_the_rows_in_order_again_and_again(make, tmp_path):
    batches = batches_of(make(tmp_path)).reading(Selection(SCHEMA))
    assert batches.is_rereadable
    for _ in range(2):
        np.testing.assert_array_equal(rows_of(batches), ROWS)
    assert batches.n_rows in {None, 5}
    assert batches_of(batches) is batches


@pytest.mark.parametrize("make", ONE_SHOT.values(), ids=list(ONE_SHOT))
def test_a_stream_gives_its_rows_once(make, tmp_path):
    batches = batches_of(make(tmp_path))
    assert len(batches.head()) > 0
    batches = batches.reading(Selection(SCHEMA))
    assert not batches.is_rereadable
    np.testing.assert_array_equal(rows_of(batches), ROWS)
    with pytest.raises(ValueError, match="`X` must be readable more than once here, got a stream that has been read"):
        rows_of(batches)


@pytest.mark.parametrize("make", [*SOURCES.values(), *ONE_SHOT.values()], ids=[*SOURCES, *ONE_SHOT])
def test_the_head_is_the_first_table_with_all_columns(make, tmp_path):
    head = batches_of(make(tmp_path)).head()
    first = head if isinstance(head, np.ndarray) else np.column_stack([head["a"], head["b"]])
    np.testing.assert_array_equal(first, ROWS[: len(first)])
    assert len(first) > 0


def test_what_is_no_frame_is_refused():
    with pytest.raises(TypeError, match="batch 2: `X` must be an iterable of data frames or matrices, got float"):
        rows_of(batches_of(iter([ROWS, 1.0])))


MIXED = mixed_rows(2000)


def mixed_files(folder):
    for number, start in enumerate(range(0, 2000, 700)):
        MIXED[start : start + 700].to_parquet(folder / f"{number}.parquet")
    return folder


def mixed_relation(folder):
    duckdb = pytest.importorskip("duckdb", reason="DuckDB is not installed: its relations are not tested")
    return duckdb.connect().read_parquet(f"{mixed_files(folder)}/*.parquet")


READ = {
    "files": mixed_files,
    "dataset": lambda folder: pa.dataset.dataset(mixed_files(folder)),
    "lazy frame": lambda folder: pl.scan_parquet(mixed_files(folder) / "*.parquet"),
    "relation": mixed_relation,
    "frames": lambda _: [MIXED[:1], MIXED[1:1500], MIXED[1500:1500], MIXED[1500:]],
    "frames in another order": lambda _: [MIXED[1500:], MIXED[:1500]],
    "iterator": lambda _: (MIXED[start : start + 333] for start in range(0, 2000, 333)),
    "stream": lambda _: pa.Table.from_pandas(MIXED).to_reader(max_chunksize=100),
}


@pytest.fixture(scope="module", params=[False, True], ids=["shallow", "deep"])
def model(request):
    pytest.importorskip("sklearn")
    return boosted_model(MIXED, is_deep=request.param)


@pytest.fixture(scope="module")
def expected(model):
    return {weight: treeanova.decompose(model, MIXED, sample_weight=weight) for weight in (None, "weight")}


@pytest.mark.parametrize(
    ("read", "weight"),
    [
        pytest.param(
            READ[name], weight, marks=[] if i % 2 == bool(weight) else pytest.mark.thorough, id=f"{name}-{weight}"
        )
        for i, name in enumerate(READ)
        for weight in (None, "weight")
    ],
)
def test_every_source_gives_the_same_answers(model, expected, read, weight, tmp_path):
    found = treeanova.decompose(model, read(tmp_path), sample_weight=weight)
    assert_same_answers(found, expected[weight], MIXED, has_weights=weight is not None)
