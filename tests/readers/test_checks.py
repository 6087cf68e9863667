"""Checks that readers share: errors name the file, numbers are plain ones, sizes are limited, folders hold files."""

from __future__ import annotations

import os
import pathlib

import numpy as np
import pytest

from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import (
    block_starts,
    check_inside,
    check_size,
    check_values,
    damage_reported,
    decimal_number,
    parsed_json,
    whole_number,
)


def test_the_first_value_that_breaks_a_rule_is_shown():
    values = np.array([1, 5, 9])
    check_values("nodes must be small", values, values < 10)
    with pytest.raises(ModelFileError, match="nodes must be small, got 5; file damaged"):
        check_values("nodes must be small", values, values < 5)


def test_sizes_up_to_the_limit_pass():
    check_size("table", 10, 10)
    with pytest.raises(UnsupportedModelError, match="the model's table must have at most 1,000 entries, got 1,001"):
        check_size("table", 1001, 1000)


def test_blocks_follow_each_other():
    assert block_starts(np.array([3, 0, 2])).tolist() == [0, 3, 3]
    assert block_starts(np.array([], dtype=np.int64)).tolist() == []


@pytest.mark.parametrize("error", [KeyError("trees"), ZeroDivisionError("by zero"), RecursionError("too deep")])
def test_what_python_raises_becomes_an_error_about_the_file(error):
    with pytest.raises(ModelFileError, match=r"^a/b\.json must be a model, got one that cannot be parsed \(.*Error: "):  # noqa: SIM117
        with damage_reported("a model", pathlib.Path("a/b.json")):
            raise error


@pytest.mark.parametrize("kind", [ModelFileError, UnsupportedModelError])
def test_errors_of_readers_name_the_file_in_one_line(kind):
    with pytest.raises(kind, match=r"^a/b\.json: trees \\n\\x1b\[0m must grow$"):  # noqa: SIM117
        with damage_reported("a model", pathlib.Path("a/b.json")):
            raise kind("trees \n\x1b[0m must grow")


def test_what_does_not_fit_into_memory_is_refused():
    with pytest.raises(UnsupportedModelError, match=r"^a\.json must be a model that fits into memory"):  # noqa: SIM117
        with damage_reported("a model", pathlib.Path("a.json")):
            raise MemoryError


@pytest.mark.parametrize("value", ["1_000", "٣", "1.0", "", " ", "0x10", 1.5, 2.0, True, None, [1]])
def test_only_whole_numbers_are_whole_numbers(value):
    with pytest.raises(ValueError, match="not a whole number"):
        whole_number(value)


@pytest.mark.parametrize("value", ["1_000", "٣", "", ".", "e5", "1e", "infinit", "0x1p3", True, None, "true", [1]])
def test_only_numbers_are_numbers(value):
    with pytest.raises(ValueError, match="not a number"):
        decimal_number(value)


@pytest.mark.parametrize("text", ["1", "-1.5e-3", " .5 ", "5.", "+2E4", "inf", "-Infinity", "1e400"])
def test_numbers_are_those_of_python(text):
    assert decimal_number(text) == float(text)


def test_names_that_occur_twice_are_refused():
    assert parsed_json('{"a": {"b": 1}, "c": {"b": 2}}') == {"a": {"b": 1}, "c": {"b": 2}}
    with pytest.raises(ValueError, match="occurs twice"):
        parsed_json('{"a": {"b": 1, "c": 2, "b": 1}}')


def test_folders_with_links_and_pipes_are_refused(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "file").write_text("x")
    check_inside(tmp_path)
    (tmp_path / "inner" / "link").symlink_to("/etc")
    with pytest.raises(ModelFileError, match=r"must hold plain files, got a link or a special file \(inner/link\)"):
        check_inside(tmp_path)
    (tmp_path / "inner" / "link").unlink()
    os.mkfifo(tmp_path / "inner" / "pipe")
    with pytest.raises(ModelFileError, match=r"a special file \(inner/pipe\)"):
        check_inside(tmp_path)


@pytest.mark.parametrize("number", ["NaN", "-Infinity", "1e400", "-1e999"])
def test_numbers_beyond_json_are_refused(number):
    with pytest.raises(ValueError, match=f"{number} is not a number of JSON"):
        parsed_json(f'{{"a": [1.5, {number}]}}')
    assert parsed_json('{"a": [1.5, 2, -0.0]}') == {"a": [1.5, 2, 0.0]}
    assert str(parsed_json(f"[{number}]", allows_nan=True)[0]) == str(float(number))
