"""Queries read the columns that they name, and nothing else: misspelt names are errors in every database."""

from __future__ import annotations

import importlib
import sqlite3

import pytest

import treeanova
from treeanova.model import Effects


def database(dialect):
    """An empty database in memory; skipped if its library is not installed."""
    return sqlite3.connect(":memory:") if dialect == "sqlite" else pytest.importorskip("duckdb").connect()


def decomposition(number="age", label="region", **options):
    tables = {number: [0.0, 1.0], label: [0.0, 2.0]}
    effects = Effects.from_tables(tables, thresholds={number: [0.5]}, categories={label: ["x", "y"]}, **options)
    return treeanova.decompose(effects, density="uniform")


@pytest.mark.parametrize("lacking", ["id", "age", "region"])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_a_column_that_the_table_lacks_is_an_error(dialect, lacking):
    query = str(treeanova.export.sql(decomposition(), table="people", dialect=dialect, keep=["id"]))
    found, wrong = database(dialect), database(dialect)
    types = {"id": "INTEGER", "age": "REAL", "region": "VARCHAR"}
    found.execute(f"CREATE TABLE people ({', '.join(f'{name} {kind}' for name, kind in types.items())})")
    found.execute("INSERT INTO people VALUES (7, 1, 'y')")
    assert found.execute(query).fetchall() == [(7, 3.0)]
    others = {f"{name}s" if name == lacking else name: kind for name, kind in types.items()}
    wrong.execute(f"CREATE TABLE people ({', '.join(f'{name} {kind}' for name, kind in others.items())})")
    wrong.execute("INSERT INTO people VALUES (7, 1, 'y')")
    errors = sqlite3.OperationalError if dialect == "sqlite" else importlib.import_module("duckdb").BinderException
    with pytest.raises(errors, match=lacking):
        wrong.execute(query)
