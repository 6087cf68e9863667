"""Parquet files: folders, patterns, columns in names of folders; errors name the file."""

import os

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.dataset
import pyarrow.parquet as pq
import pytest

from treeanova.data import streams
from treeanova.data.features import Feature, Labels, Schema
from treeanova.data.sources import batches_of
from treeanova.data.streams import Selection

SCHEMA = Schema((Feature("a"), Feature("size", Labels(("S", "L")))), named=True)


def write(path, a, size=None, **more):
    path.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(pa.table({"a": a, "size": size if size is not None else ["S"] * len(a), **more}), path)


@pytest.fixture
def folder(tmp_path):
    for number, name in enumerate(["1.parquet", "2.parquet", "3.parquet"]):
        write(tmp_path / name, [float(number)] * 2, ["S", "L"])
    return tmp_path


def rows_of(X, schema=SCHEMA):
    return np.concatenate([batch.encoded(schema) for batch in batches_of(X).reading(Selection(schema))])


def as_dataset(folder):
    return pa.dataset.dataset(folder, format="parquet", schema=pq.read_schema(folder / "1.parquet"))


@pytest.fixture(params=[str, as_dataset])
def source(request):
    return request.param


def test_rows_are_counted_over_all_files(folder, source):
    batches = batches_of(source(folder))
    assert batches.n_rows == 6
    assert [(batch.source, batch.number, batch.first_row) for batch in batches] == [
        (str(folder / f"{number + 1}.parquet"), 0, 2 * number) for number in range(3)
    ]


def test_large_files_come_in_batches(folder, source, monkeypatch):
    monkeypatch.setattr(streams, "ROWS_PER_BATCH", 4)
    write(folder / "2.parquet", np.arange(10.0))
    batches = list(batches_of(source(folder)))
    assert [batch.n_rows for batch in batches] == [2, 4, 4, 2, 2]
    assert [batch.first_row for batch in batches] == [0, 2, 6, 10, 12]


def test_a_corrupt_file_is_named(folder, source):
    content = (folder / "3.parquet").read_bytes()
    (folder / "3.parquet").write_bytes(content[:-10])
    with pytest.raises(ValueError, match=r"3\.parquet must be a whole file of rows, got an error of pyarrow"):
        rows_of(source(folder))


def test_a_file_that_is_damaged_inside_is_named(folder, source):
    content = bytearray((folder / "2.parquet").read_bytes())
    content[4:60] = b"\xff" * 56
    (folder / "2.parquet").write_bytes(content)
    with pytest.raises(ValueError, match=r"2\.parquet must be a whole file"):
        rows_of(source(folder))


def test_a_missing_column_in_the_third_file_is_named(folder, source):
    pq.write_table(pa.table({"a": [1.0]}), folder / "3.parquet")
    with pytest.raises(ValueError, match=r"3\.parquet: `X` must have the model's columns, got none named 'size'"):
        rows_of(source(folder))


def test_other_types_in_a_file_are_named(folder):
    write(folder / "3.parquet", [1.0], [1])
    with pytest.raises(TypeError, match=r"3\.parquet: column 'size' .* got whole numbers .* but text in .*1\.parquet"):
        rows_of(folder)


def test_empty_files_and_files_of_missing_values_count_for_what_they_are(folder, source):
    pq.write_table(pa.table({"other": pa.array([], pa.int8())}), folder / "2.parquet")
    write(folder / "3.parquet", [None, np.nan], pa.nulls(2))
    expected = [[0, 0], [0, 1], [np.nan, np.nan], [np.nan, np.nan]]
    np.testing.assert_array_equal(rows_of(source(folder)), expected)


def test_columns_in_names_of_folders(tmp_path):
    for year, region in (("2024", "north%20east"), ("2025", "7"), ("__HIVE_DEFAULT_PARTITION__", "south")):
        write(tmp_path / f"year={year}" / f"region={region}" / "part.parquet", [1.0, 2.0])
    schema = Schema(
        (Feature("a"), Feature("year"), Feature("region", Labels(("7", "north east", "south")))), named=True
    )
    expected = [[1, 2024, 1], [2, 2024, 1], [1, 2025, 0], [2, 2025, 0], [1, np.nan, 2], [2, np.nan, 2]]
    np.testing.assert_array_equal(rows_of(tmp_path, schema), expected)
    whole = pa.dataset.dataset(tmp_path, format="parquet", partitioning="hive")
    np.testing.assert_array_equal(rows_of(whole, schema), expected)


def test_columns_to_leave_out_are_not_read(folder, source):
    schema = Schema((Feature("x0"),))
    batches = batches_of(source(folder)).reading(Selection(schema, drop=("size",)))
    assert [batch.encoded(schema).ravel().tolist() for batch in batches] == [[0, 0], [1, 1], [2, 2]]
    assert batches.head().column_names == ["a"]
    with pytest.raises(ValueError, match=r"1\.parquet: `X` must have the columns that are named, got none named 'y'"):
        list(batches_of(source(folder)).reading(Selection(schema, drop=("size", "y"))))


def test_a_folder_is_searched_for_parquet_files_only(folder):
    (folder / "_SUCCESS").touch()
    (folder / "notes.txt").touch()
    write(folder / "_temporary" / "1.parquet", [9.0])
    write(folder / "more" / ".2.parquet.crc.parquet", [9.0])
    write(folder / "more" / "4.pq", [4.0])
    assert rows_of(folder)[:, 0].tolist() == [0, 0, 1, 1, 2, 2, 4]
    assert rows_of(str(folder / "[12].parquet"))[:, 0].tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("none.parquet", "`X` must be the path of a file, a folder or a pattern, got '.*none.parquet'"),
        ("none*", r"`X` must be a pattern that matches Parquet files, got '.*none\*'"),
        ("empty", "`X` must be a folder with Parquet files, got '.*empty', where there is none"),
    ],
)
def test_paths_without_files_are_refused(tmp_path, path, message):
    (tmp_path / "empty").mkdir()
    with pytest.raises(FileNotFoundError, match=message):
        batches_of(tmp_path / path)


def test_other_files_are_refused(tmp_path):
    (tmp_path / "rows.csv").write_text("a\n1\n")
    with pytest.raises(ValueError, match=r"`X` must be the path of Parquet files .* got '.*rows\.csv'"):
        batches_of(os.fspath(tmp_path / "rows.csv"))


def test_a_dataset_of_other_files_numbers_rows_by_file(tmp_path):
    for name in ("1.csv", "2.csv"):
        (tmp_path / name).write_text("a,size\n1,S\n2,L\n")
    batches = batches_of(pa.dataset.dataset(tmp_path, format="csv"))
    assert batches.n_rows is None
    assert [(batch.number, batch.first_row) for batch in batches] == [(0, 0), (1, 0)]


def test_a_dataset_with_a_filter_is_refused_with_a_remedy(folder):
    filtered = as_dataset(folder).filter(pa.dataset.field("a") > 0)
    with pytest.raises(ValueError, match="`X` must be a Dataset without a filter"):
        batches_of(filtered)
    assert rows_of(filtered.scanner().to_reader())[:, 0].tolist() == [1, 1, 2, 2]
