"""Queries run in a real PostgreSQL server; skipped where Debian's server or psycopg is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support import postgres
from tests.support.training import fit
from treeanova.model import Effects

psycopg = pytest.importorskip("psycopg")
pytestmark = pytest.mark.skipif(postgres.programs() is None, reason="no PostgreSQL server is installed")
TEXTS = ["it's", 'say "no"', "back\\slash", "two\nlines", "naïve × 🎈", "'); DROP TABLE rows; --", "%s", "select", ""]


@pytest.fixture(scope="module")
def connection():
    with postgres.server() as arguments, psycopg.connect(**arguments) as connection:
        yield connection


def decomposition(link):
    """Numbers with a step at extreme and at close cuts, hostile names and labels, a pair."""
    rng = np.random.default_rng(0)
    cuts = [-1.7e308, -1e-310, 0.0, 0.1, np.nextafter(0.1, 1), 1e22, 1.7e308]
    shapes = {"a'b %": (8,), 'g "x"': (len(TEXTS),), ("a'b %", 'g "x"'): (8, len(TEXTS))}
    tables = {key: rng.normal(size=shape) for key, shape in shapes.items()}
    effects = Effects.from_tables(tables, thresholds={"a'b %": cuts}, categories={'g "x"': TEXTS}, link=link)
    return treeanova.decompose(effects, density="uniform")


@pytest.mark.parametrize("columns", ["score", "response", "terms"])
@pytest.mark.parametrize("link", ["identity", "logit", "log"])
def test_queries_are_exact(connection, link, columns):
    query = treeanova.export.sql(decomposition(link), dialect="postgresql", columns=columns)
    proof = treeanova.export.verify(query, connection=connection)
    assert proof.largest_difference < 1e-12
    assert proof.kind == "sql in PostgreSQL"


def test_refused_values_have_no_score(connection):
    effects = Effects.from_tables(
        {"a": [0.0, 1.0], "g": [0.0, 2.0]}, thresholds={"a": [0.5]}, categories={"g": ["x", "y"]}
    )
    fx = treeanova.decompose(effects, density="uniform")
    cursor = connection.cursor()
    cursor.execute("CREATE TEMPORARY TABLE people (id INTEGER, a REAL, g TEXT)")
    people = [(1, 1.0, "y"), (2, None, "y"), (3, 1.0, "z"), (4, float("nan"), "y"), (5, 0.0, "x")]
    cursor.executemany("INSERT INTO people VALUES (%s, %s, %s)", people)
    cursor.execute(str(treeanova.export.sql(fx, table="people", dialect="postgresql", keep=["id"])))
    assert cursor.fetchall() == [(1, 3.0), (2, None), (3, None), (4, None), (5, 0.0)]


@pytest.mark.parametrize("n_classes", [2, 3])
def test_a_trained_model_scores_tables_of_other_types(connection, n_classes):
    pandas = pytest.importorskip("pandas")
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = pandas.DataFrame({"n": rng.integers(0, 9, 300), "x": rng.normal(size=300).astype(np.float32)})
    X.loc[::7, "x"] = np.nan
    y = np.digitize(X["n"] * X["x"].fillna(1), [0, 2][: n_classes - 1])
    model = fit(ensemble.HistGradientBoostingClassifier(max_iter=10, max_depth=2), X, y)
    fx = treeanova.decompose(model, X)
    cursor = connection.cursor()
    cursor.execute(f"CREATE TEMPORARY TABLE items{n_classes} (id INTEGER, n SMALLINT, x REAL)")
    records = [(i, int(n), None if np.isnan(x) else float(x)) for i, (n, x) in enumerate(X.itertuples(index=False))]
    cursor.executemany(f"INSERT INTO items{n_classes} VALUES (%s, %s, %s)", records)
    query = treeanova.export.sql(fx, table=f"items{n_classes}", dialect="postgresql", columns="response", keep=["id"])
    cursor.execute(str(query))
    found = np.array([results for _, *results in sorted(cursor.fetchall())])
    expected = model.predict_proba(X)
    np.testing.assert_allclose(found, expected[:, -found.shape[1] :], atol=1e-12)
    assert {type(result) for result in found.ravel().tolist()} == {float}


@pytest.mark.parametrize("name", ["region", "count", "text", "people"])
def test_a_column_that_the_table_lacks_is_an_error(connection, name):
    tables = {"a": [0.0, 1.0], name: [0.0, 2.0]}
    effects = Effects.from_tables(tables, thresholds={"a": [0.5]}, categories={name: ["x", "y"]})
    query = treeanova.export.sql(
        treeanova.decompose(effects, density="uniform"), table="people_without", dialect="postgresql"
    )
    cursor = connection.cursor()
    with connection.transaction(force_rollback=True):
        cursor.execute("CREATE TEMPORARY TABLE people_without (a REAL)")
        with pytest.raises(psycopg.errors.UndefinedColumn, match=name):
            cursor.execute(str(query))


def test_the_proof_leaves_a_users_table_alone(connection):
    fx = decomposition("identity")
    query = treeanova.export.sql(fx, table="mine", dialect="postgresql", keep=["id"])
    with connection.transaction(force_rollback=True):
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE mine (id INTEGER)")
        cursor.execute("INSERT INTO mine VALUES (7)")
        assert treeanova.export.verify(query, connection=connection).largest_difference < 1e-12
        assert cursor.execute("SELECT * FROM mine").fetchall() == [(7,)]
    with connection.transaction(force_rollback=True):
        cursor = connection.cursor()
        cursor.execute("CREATE TABLE mine (id INTEGER)")
        cursor.execute("SET LOCAL search_path TO public, pg_temp")
        with pytest.raises(ValueError, match="`connection` must read a temporary table before others"):
            treeanova.export.verify(query, connection=connection)


def test_columns_of_booleans_and_infinite_means(connection):
    effects = Effects.from_tables({"a": [0.0, 800.0], "b": [0.0, 1.0]}, thresholds={"a": [0.5], "b": [0.5]}, link="log")
    fx = treeanova.decompose(effects, density="uniform")
    query = treeanova.export.sql(fx, dialect="postgresql", columns="response", booleans=["a"])
    with np.errstate(over="ignore"):
        assert treeanova.export.verify(query, np.array([[1.0, 0.0]]), connection=connection).largest_difference < 1e-12
