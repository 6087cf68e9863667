"""Rows given by hand: sequences, mappings, Series and tables, and errors that name the argument."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.data.columns import as_rows, encode_rows
from treeanova.data.features import Feature, Labels, Schema

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

SCHEMA = Schema((Feature("age", accepts_missing=False), Feature("kind", Labels(("u", "v")))), named=True)
TABLE = pd.DataFrame({"kind": ["v", "u"], "age": [3.0, 4.0]})


@pytest.mark.parametrize(
    "row",
    [
        [3.0, "v"],
        (3, "v"),
        np.array([3.0, "v"], dtype=object),
        {"kind": "v", "age": 3},
        {"kind": "v", "age": 3, "other": 1},
        TABLE.iloc[0],
        TABLE.iloc[[0]],
        pl.DataFrame({"kind": ["v"], "age": [3.0]}),
    ],
    ids=["list", "tuple", "array", "mapping", "larger mapping", "series", "pandas", "polars"],
)
def test_one_row_in_any_form_is_encoded(row):
    np.testing.assert_array_equal(encode_rows(row, SCHEMA, name="row"), [[3.0, 1.0]])


def test_numbers_stay_numbers():
    assert as_rows([1.0, 2.0], SCHEMA, name="row").dtype == np.float64
    assert as_rows(np.array([1, 2], dtype=np.int32), SCHEMA, name="row").dtype == np.int32


def test_several_rows_are_encoded():
    np.testing.assert_array_equal(encode_rows(TABLE, SCHEMA, name="row"), [[3.0, 1.0], [4.0, 0.0]])
    np.testing.assert_array_equal(encode_rows([[3.0, "v"], [4.0, "u"]], SCHEMA, name="row"), [[3.0, 1.0], [4.0, 0.0]])


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        ([], "`rows` must have at least one row, got none"),
        (TABLE[:0], "`rows` must have at least one row, got none"),
        (None, "`rows` must be one row .*, got NoneType"),
        (3.0, "`rows` must be one row .*, got float"),
        ([3.0], "`rows` must have 2 columns, as the model was trained on, got 1"),
        ({"age": 3.0}, "`rows` must have all features of the model, got none named 'kind'"),
        ({"age": 3.0, "kind ": "v"}, "none named 'kind'; the column 'kind ' has blanks around its name, rename it"),
        (TABLE[["age"]], "`rows` must have the model's columns, got none named 'kind'"),
        ([None, "v"], "'age' must have no missing values"),
    ],
)
def test_errors_name_the_argument(rows, message):
    with pytest.raises(ValueError, match=message):
        encode_rows(rows, SCHEMA, name="rows")
