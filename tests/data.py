"""Where the data of tests are: the folder that TREEANOVA_DATA names, else ../shared/data beside the project."""

from __future__ import annotations

import os
import pathlib

import pytest

_DEFAULT = pathlib.Path(__file__).resolve().parents[1] / ".." / "shared" / "data"


def data_folder():
    return pathlib.Path(os.environ.get("TREEANOVA_DATA", _DEFAULT))


def read_table(name, **options):
    """A table as pandas reads it; the test is skipped where the file is absent."""
    pd = pytest.importorskip("pandas")
    path = data_folder() / name
    if not path.is_file():
        pytest.skip(f"no {name} in {data_folder().resolve()}; set TREEANOVA_DATA to the folder that has it")
    return pd.read_csv(path, **options)
