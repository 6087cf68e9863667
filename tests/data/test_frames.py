"""Data frames go out in the library that the data came in."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.data.columns import Table, backend_of, frame, free_name, table_text

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pa = pytest.importorskip("pyarrow")


@pytest.mark.parametrize(
    ("data", "backend"),
    [
        (pd.DataFrame({"a": [1]}), "pandas"),
        (pl.DataFrame({"a": [1]}), "polars"),
        (pa.table({"a": [1]}), "pyarrow"),
        (np.zeros((2, 2)), "pandas"),
        (None, "pandas"),
    ],
)
def test_the_library_of_data(data, backend):
    assert backend_of(data) == backend


@pytest.mark.parametrize(
    ("installed", "expected"),
    [({"pandas", "polars", "pyarrow"}, "pandas"), ({"polars", "pyarrow"}, "polars"), ({"pyarrow"}, "pyarrow")],
)
def test_other_data_have_the_first_library_that_is_installed(installed, expected, monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name if name in installed else None)
    assert backend_of(np.zeros((2, 2))) == expected
    kinds = {"pandas": pd.DataFrame, "polars": pl.DataFrame, "pyarrow": pa.Table}
    for backend in (None, expected, "modin.pandas"):  # the last as in a file from elsewhere
        assert isinstance(frame({"a": [1]}, backend), kinds[expected])


def test_a_frame_of_each_library_holds_the_columns():
    columns = {"a": np.array([1.5, 2.0]), "b": ["x", "y"]}
    assert frame(columns, "pandas").to_dict("list") == {"a": [1.5, 2.0], "b": ["x", "y"]}
    assert frame(columns, "polars").to_dict(as_series=False) == {"a": [1.5, 2.0], "b": ["x", "y"]}
    assert frame(columns, "pyarrow").to_pydict() == {"a": [1.5, 2.0], "b": ["x", "y"]}


COLUMNS = {"term": ["age", "a × b"], "share": np.array([0.25, -1 / 3]), "rank": [1, None]}
TEXT = "term       share  rank\nage         0.25     1\na × b  -0.333333     –"


def test_without_a_library_a_table_serves(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert backend_of(np.zeros((2, 2))) is None
    table = frame(COLUMNS, "pandas")
    assert isinstance(table, Table)
    assert (len(table), list(table), table.columns) == (2, list(COLUMNS), list(COLUMNS))
    assert table["share"].tolist() == COLUMNS["share"].tolist()
    assert table.to_dict() == {"term": ["age", "a × b"], "share": [0.25, -1 / 3], "rank": [1, None]}
    assert table.head(1).to_dict() == {"term": ["age"], "share": [0.25], "rank": [1]}
    assert str(table) == repr(table) == TEXT
    assert str(frame({"a": []}, None)) == "(no rows)"
    with pytest.raises(KeyError, match="must have the column, got 'terms'; choose from term, share, rank"):
        table["terms"]


@pytest.mark.parametrize("library", ["polars", "pyarrow"])
def test_text_is_the_same_in_every_library(library):
    assert table_text(frame(COLUMNS, library)) == TEXT
    assert table_text(frame({"n": np.arange(100)}, library)).splitlines()[-2:] == ["59", "… 40 more rows"]


def test_text_of_pandas_has_no_index():
    assert table_text(pd.DataFrame(COLUMNS, index=["p", "q"]).drop(columns="rank")) == (
        "term       share\nage         0.25\na × b  -0.333333"
    )


def test_a_name_that_is_taken_gets_brackets():
    assert free_name("intercept", {"age"}) == "intercept"
    assert free_name("intercept", {"intercept", "(intercept)"}) == "((intercept))"
