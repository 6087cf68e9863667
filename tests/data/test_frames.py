"""Data frames go out in the library that the data came in."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.data.frames import backend_of, frame, free_name

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


def test_arrays_without_pandas_have_no_library(monkeypatch):
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert backend_of(np.zeros((2, 2))) is None


def test_a_frame_of_each_library_holds_the_columns():
    columns = {"a": np.array([1.5, 2.0]), "b": ["x", "y"]}
    assert frame(columns, None) == columns
    assert frame(columns, "pandas").to_dict("list") == {"a": [1.5, 2.0], "b": ["x", "y"]}
    assert frame(columns, "polars").to_dict(as_series=False) == {"a": [1.5, 2.0], "b": ["x", "y"]}
    assert frame(columns, "pyarrow").to_pydict() == {"a": [1.5, 2.0], "b": ["x", "y"]}


def test_a_name_that_is_taken_gets_brackets():
    assert free_name("intercept", {"age"}) == "intercept"
    assert free_name("intercept", {"intercept", "(intercept)"}) == "((intercept))"
