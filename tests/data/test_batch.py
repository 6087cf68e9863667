"""Batches: the columns that a model needs, the same kind of values in all of them, errors that name the source."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeanova.data.columns import encode
from treeanova.data.features import Feature, Labels, Schema
from treeanova.data.sources import batches_of
from treeanova.data.streams import Selection

AGE_SIZE = Schema((Feature("age"), Feature("size", Labels(("S", "L")))), named=True)


def read(frames, schema=AGE_SIZE, **options):
    return list(batches_of(frames).reading(Selection(schema, **options)))


def encoded(frames, schema=AGE_SIZE):
    return np.concatenate([batch.encoded(schema) for batch in read(frames, schema)])


@given(st.lists(st.integers(0, 4), min_size=1, max_size=6), st.randoms(use_true_random=False))
def test_batches_of_any_size_are_the_table(lengths, random):
    n_rows = sum(lengths)
    table = pd.DataFrame(
        {
            "other": range(n_rows),
            "size": [random.choice(["S", "L", None, "XL"]) for _ in range(n_rows)],
            "age": [random.choice([1.5, float("nan"), float("inf"), -0.0]) for _ in range(n_rows)],
        }
    ).astype({"size": object})
    ends = np.cumsum(lengths)
    frames = [table.iloc[end - length : end] for end, length in zip(ends, lengths, strict=True)]
    batches = read(frames)
    assert [batch.first_row for batch in batches] == [
        end - length for end, length in zip(ends, lengths, strict=True) if length
    ]
    assert sum(batch.n_rows for batch in batches) == n_rows
    if n_rows:
        np.testing.assert_array_equal(encoded(frames), encode(table, AGE_SIZE))


def test_only_the_columns_of_the_model_are_there_and_the_weights_apart():
    frame = pd.DataFrame({"y": [0.0, 1.0], "age": [1.0, 2.0], "w": [3, 4], "size": ["S", "L"]})
    (batch,) = read([frame], weight="w", drop=("y",))
    assert list(batch.table.columns) == ["age", "size"]
    assert batch.weights.tolist() == [3.0, 4.0]
    (batch,) = read([frame], Schema((Feature("x0"), Feature("x1"))), weight="w", drop=("size",))
    assert list(batch.table.columns) == ["y", "age"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"weight": "v"}, "batch 1: `X` must have the columns that are named, got none named 'v'"),
        ({"drop": ("z", "y")}, "got none named 'z'"),
        ({"keep": ("z",)}, "got none named 'z'"),
        ({"weight": "size"}, "batch 1: the weights 'size' must be numbers, got String"),
    ],
)
def test_unknown_columns_of_weights_and_targets_are_refused(options, message):
    frame = pl.DataFrame({"y": [0.0], "age": [1.0], "size": ["S"]})
    with pytest.raises((TypeError, ValueError), match=message):
        read([frame], **options)


def test_columns_to_keep_are_passed_on_and_not_those_of_a_model_without_names():
    frame = pd.DataFrame({"id": ["a", "b"], "age": [1.0, 2.0], "size": ["S", "L"]})
    (batch,) = read([frame], keep=("id", "age"))
    assert batch.copied_columns.equals(frame[["id", "age"]])
    assert list(batch.table.columns) == ["age", "size"]
    (batch,) = read([frame], Schema((Feature("x0"), Feature("x1", Labels(("S", "L"))))), keep=("id",))
    assert list(batch.table.columns) == ["age", "size"]


def test_weights_of_matrices_have_no_name():
    with pytest.raises(TypeError, match="batch 1: `X` must have names of columns to find 'w', got a matrix"):
        read([np.ones((1, 2))], weight="w")


def test_a_missing_column_names_the_batch():
    frames = [pl.DataFrame({"age": [1.0], "size": ["S"]})] * 2 + [pl.DataFrame({"age": [1.0]})]
    with pytest.raises(ValueError, match="batch 3: `X` must have the model's columns, got none named 'size'"):
        read(frames)


def test_values_that_a_model_refuses_name_the_batch():
    schema = Schema((Feature("age", accepts_missing=False),), named=True)
    frames = [pl.DataFrame({"age": [1.0]}), pl.DataFrame({"age": [2.0, None]})]
    with pytest.raises(ValueError, match="batch 2: column 'age' must have no missing values, got 1 in 2 rows"):
        encoded(frames, schema)


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (["S"], [1], r"batch 2: column 'size' .* got whole numbers \(Int64\), but text in batch 1"),
        ([1], [1.0], r"got fractions \(Float64\), but whole numbers in batch 1"),
        ([True], [1], "got whole numbers .* but booleans"),
        (pa.array([1]).dictionary_encode(), ["S"], "got text .* but categories that are numbers"),
    ],
)
def test_names_of_categories_of_two_kinds_are_refused(first, second, message):
    frames = [pa.table({"age": [1.0], "size": column}) for column in (first, second)]
    with pytest.raises(TypeError, match=message):
        read(frames)


def test_numbers_and_texts_in_a_numeric_column_are_refused():
    frames = [pl.DataFrame({"age": [age], "size": ["S"]}) for age in (1, 2.5, "3")]
    with pytest.raises(TypeError, match=r"batch 3: column 'age' .* got text \(String\), but numbers in batch 1"):
        read(frames)


def test_numbers_of_several_types_are_one_kind_in_a_numeric_column():
    columns = [np.array([2, 3], dtype=dtype) for dtype in (np.int8, np.uint32, np.float32, np.float64)]
    frames = [pl.DataFrame({"age": column, "size": ["S", "L"]}) for column in columns]
    assert encoded(frames)[:, 0].tolist() == [2.0, 3.0] * 4


@pytest.mark.parametrize("missing", [pa.nulls(2), pa.nulls(2, pa.int32()), pa.array([np.nan, np.nan]), ["S", "L"]])
def test_a_column_that_is_missing_altogether_has_any_type(missing):
    labels = pa.array(["S", "L"]).dictionary_encode()
    frames = [pa.table({"age": [1.0, 2.0], "size": column}) for column in (missing, labels, missing)]
    is_missing = missing != ["S", "L"]
    codes = [np.nan] * 2 if is_missing else [0.0, 1.0]
    np.testing.assert_array_equal(encoded(frames)[:, 1], [*codes, 0.0, 1.0, *codes])
