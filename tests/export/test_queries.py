"""Queries read the tables and columns that they name, and their proof runs them as they are written."""

from __future__ import annotations

import dataclasses
import importlib
import sqlite3

import numpy as np
import pandas as pd
import pytest

import treeanova
from treeanova.model import Effects

X = pd.DataFrame({"age": [0.0, 0.5, 0.6, -3.0], "region": ["x", "y", "y", "x"]})


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


def altered(export, old, new):
    content = str(export).replace(old, new)
    assert content != str(export)
    return dataclasses.replace(export, content=content)


@pytest.mark.parametrize("keep", [(), ("id",), ("U V", "row")])
@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_the_proof_runs_the_query_itself(dialect, keep):
    database(dialect)
    query = treeanova.export.sql(decomposition("u", "v"), dialect=dialect, columns="terms", keep=keep)
    rows = X.set_axis(["u", "v"], axis=1)
    assert treeanova.export.verify(query, rows).largest_difference == 0
    assert treeanova.export.verify(altered(query, 'AS "v",\n', '+ 0.5 AS "v",\n'), rows).largest_difference > 0.1
    with pytest.raises(ValueError, match="`export` must return the columns"):
        treeanova.export.verify(altered(query, '"score"', '"points"'), rows)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_the_proof_reads_the_table_and_the_columns_that_are_kept(dialect):
    database(dialect)
    query = treeanova.export.sql(decomposition(), table="people", dialect=dialect, keep=["id", "other", "age"])
    with pytest.raises(Exception, match=r"no such table|does not exist"):
        treeanova.export.verify(altered(query, 'FROM "people"', 'FROM "persons"'))
    for name, other in (("id", "age"), ("other", "age"), ("age", "id")):
        place = ["id", "other", "age"].index(name)
        with pytest.raises(ValueError, match="`export` must keep the values of"):
            treeanova.export.verify(altered(query, f'"{name}" AS k{place}', f'"{other}" AS k{place}'))


@pytest.mark.parametrize(
    ("dialect", "table"),
    [
        ("sqlite", "select"),
        ("sqlite", 'say "x".y; --'),
        ("sqlite", ("main", "people")),
        ("sqlite", ("my db", "people")),
        ("sqlite", "codes"),
        ("duckdb", "codes"),
        ("duckdb", 'say "x".y; --'),
        ("duckdb", ("main", "people")),
        ("duckdb", ("my schema", "people")),
        ("duckdb", ("my db", "my schema", "people")),
        ("duckdb", ("memory", "main", "people")),
    ],
)
def test_names_of_tables_are_proven(dialect, table):
    database(dialect)
    query = treeanova.export.sql(decomposition(), table=table, dialect=dialect, keep=["id"])
    assert treeanova.export.verify(query, X).largest_difference == 0


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_a_users_table_stays_as_it_is(dialect):
    connection = database(dialect)
    connection.execute("CREATE TABLE people (id INTEGER, age REAL, region VARCHAR)")
    connection.execute("INSERT INTO people VALUES (7, 1, 'y')")
    query = treeanova.export.sql(decomposition(), table="people", dialect=dialect, keep=["id"])
    for broken in (False, True):
        if broken:
            with pytest.raises(Exception, match="nowhere"):
                treeanova.export.verify(altered(query, "FROM codes", "FROM nowhere"), X, connection=connection)
        else:
            assert treeanova.export.verify(query, X, connection=connection).largest_difference == 0
        assert connection.execute("SELECT * FROM people").fetchall() == [(7, 1, "y")]
    connection.execute("CREATE TEMPORARY TABLE people (mine INTEGER)")
    connection.execute("INSERT INTO people VALUES (1)")
    if dialect == "sqlite":
        with pytest.raises(ValueError, match="`connection` must be able to make a temporary table"):
            treeanova.export.verify(query, X, connection=connection)
    else:  # a cursor of DuckDB has temporary tables of its own
        assert treeanova.export.verify(query, X, connection=connection).largest_difference == 0
    assert connection.execute("SELECT * FROM people").fetchall() == [(1,)]
    qualified = treeanova.export.sql(decomposition(), table=("main", "people"), dialect=dialect)
    with pytest.raises(ValueError, match="must name a table without a schema"):
        treeanova.export.verify(qualified, connection=connection)


@pytest.mark.parametrize("collation", ["NOCASE", "RTRIM"])
def test_labels_are_compared_letter_by_letter(collation):
    """A collation of the column does not make "X" or "x " the label "x"."""
    connection = database("sqlite")
    connection.execute(f"CREATE TABLE rows (age REAL, region TEXT COLLATE {collation})")
    connection.executemany("INSERT INTO rows VALUES (0, ?)", [("x",), ("X",), ("y",), ("y ",)])
    query = treeanova.export.sql(decomposition(), dialect="sqlite")
    assert connection.execute(str(query)).fetchall() == [(0.0,), (None,), (2.0,), (None,)]


def test_duckdb_refuses_to_compare_labels_by_another_collation():
    connection, query = database("duckdb"), str(treeanova.export.sql(decomposition()))
    for kind, values in (("VARCHAR", ["x", "X"]), ("ENUM('x', 'y')", ["x", "y"])):
        connection.execute(f"CREATE OR REPLACE TABLE rows (age DOUBLE, region {kind})")
        connection.executemany("INSERT INTO rows VALUES (0, ?)", [(value,) for value in values])
        assert connection.execute(query).fetchall() == [(0.0,), (2.0 if "y" in values else None,)]
    connection.execute("CREATE OR REPLACE TABLE rows (age DOUBLE, region VARCHAR COLLATE NOCASE)")
    with pytest.raises(Exception, match="different collation"):
        connection.execute(query)


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_integers_are_compared_as_float64(dialect):
    connection = database(dialect)
    effects = Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [2.0**53]})
    query = treeanova.export.sql(treeanova.decompose(effects, density="uniform"), dialect=dialect)
    connection.execute("CREATE TABLE rows (a BIGINT)")
    connection.executemany("INSERT INTO rows VALUES (?)", [(2**53 + 1,), (2**53 + 2,)])
    assert connection.execute(str(query)).fetchall() == [(0.0,), (1.0,)]


def test_a_query_has_a_table():
    with pytest.raises(ValueError, match="`table` must name a table, got no names"):
        treeanova.export.sql(decomposition(), table=[])


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_columns_of_booleans_and_one_name_to_keep(dialect):
    database(dialect)
    fx = decomposition("is_new")
    query = treeanova.export.sql(fx, dialect=dialect, keep="id", booleans="is_new")
    assert query.options["keep"] == ("id",)
    rows = pd.DataFrame({"is_new": [True, False], "region": ["x", "y"]})
    assert treeanova.export.verify(query, rows).largest_difference == 0
    with pytest.raises(ValueError, match="`booleans` must name features of numbers"):
        treeanova.export.sql(fx, dialect=dialect, booleans="region")


@pytest.mark.parametrize("dialect", ["sqlite", "duckdb"])
def test_infinite_means_are_equal(dialect):
    database(dialect)
    effects = Effects.from_tables({"a": [-800.0, 0.0, 800.0]}, thresholds={"a": [1.0, 2.0]}, link="log")
    fx = treeanova.decompose(effects, density="uniform")
    with np.errstate(over="ignore"):
        query = treeanova.export.sql(fx, dialect=dialect, columns="response")
        assert treeanova.export.verify(query).largest_difference < 1e-12
        assert treeanova.export.verify(treeanova.export.python(fx)).largest_difference < 1e-12
        broken = altered(treeanova.export.python(fx), "else math.inf", "else 1e308")
        assert treeanova.export.verify(broken).largest_difference == np.inf
