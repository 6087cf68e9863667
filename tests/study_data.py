"""Data of tests, from the folder that the studies read; a test whose file is absent is skipped."""

from __future__ import annotations

import pytest

from studies.common import data_folder


def data_path(name):
    """Where a file is; the test is skipped where it is absent."""
    path = data_folder() / name
    if not path.is_file():
        pytest.skip(f"no {name} in {data_folder()}; set TREEANOVA_DATA to the folder that has it")
    return path


def read_table(name, **options):
    """A table as pandas reads it; the test is skipped where the file is absent."""
    pd = pytest.importorskip("pandas")
    return pd.read_csv(data_path(name), **options)
