from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest

pytest.importorskip("typer")
pytest.importorskip("rich")

from treeanova.cli import terminal as formats


def test_names_cannot_move_the_cursor():
    text = formats.aligned([{"term": "a\x1b[2Jb\n", "share": 1.5}, {"term": "x" * 100, "share": float("nan")}])
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3
    assert max(map(len, text.splitlines())) < 80


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "=\n"])
def test_no_text_in_csv_is_a_formula(start):
    """Labels and names of columns begin with a quote then; numbers, and text that is a number, stay as they are."""
    name = f"{start}cmd|' /C calc'!A0"
    rows = [{name: f"{start}SUM(A1)", "b": -1.5, "c": "-1", "d": "a=b"}, {name: "x", "b": float("-inf"), "c": "+2e3"}]
    found = list(csv.reader(io.StringIO(formats.as_csv(rows), newline="")))
    assert found == [[f"'{name}", "b", "c", "d"], [f"'{start}SUM(A1)", "-1.5", "-1", "a=b"], ["x", "-inf", "+2e3"]]


def test_numbers_that_json_lacks_become_null():
    value = {"a": [float("nan"), float("inf"), np.float64(1.5)], "b": np.array([1, 2]), "c": None, "d": "ü"}
    assert json.loads(formats.as_json(value)) == {"a": [None, None, 1.5], "b": [1, 2], "c": None, "d": "ü"}
