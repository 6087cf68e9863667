"""The command that writes models for other systems: files that run there, options that fit, proofs."""

from __future__ import annotations

import json
import re
import sqlite3

import numpy as np
import pytest

import treeanova
from tests.support.command_line import printed, refused


@pytest.fixture
def scores(rows, fx):
    X, _, _ = rows
    return X[:20], fx.decision_function(X[:20])


def test_queries_run_in_the_database_they_were_written_for(folder, data, scores, tmp_path, capsys):
    out = tmp_path / "score.sql"
    options = ["--to", "sql", "--dialect", "sqlite", "--table", "main.people", "--keep", "id", "--columns", "terms"]
    text = printed(["export", folder / "fx.tav", *options, "--out", out], capsys)
    assert text == f"fx.tav as sql\n\nwrote {out}\n"
    database = sqlite3.connect(":memory:")
    database.execute("CREATE TABLE people (id INTEGER, a REAL, b REAL, c REAL, city TEXT)")
    X, expected = scores
    for i, row in enumerate(X.astype(object).where(X.notna(), None).itertuples(index=False)):
        database.execute("INSERT INTO people VALUES (?, ?, ?, ?, ?)", (i, *row))
    found = database.execute(out.read_text(encoding="utf-8")).fetchall()
    np.testing.assert_allclose([line[-1] for line in sorted(found)], expected, atol=1e-12)


@pytest.mark.parametrize("to", ["python", "sql", "onnx", "ebm"])
def test_proofs_are_printed(to, folder, data, tmp_path, capsys):
    suffix = {"python": ".py", "sql": ".sql", "onnx": ".onnx", "ebm": ".pkl"}[to]
    for name in {"onnx": ["onnx", "onnxruntime"], "ebm": ["interpret"]}.get(to, []):
        pytest.importorskip(name)
    out = tmp_path / f"model{suffix}"
    options = ["--to", to, *(["--dialect", "sqlite"] if to == "sql" else []), "--out", out, "--verify", *data]
    assert ": largest difference " in printed(["export", folder / "fx.tav", *options], capsys)
    answer = json.loads(printed(["export", folder / "fx.tav", *options, "--json"], capsys))
    assert answer["proof"]["largest_difference"] < 1e-10
    assert answer["proof"]["n_rows"] == 800
    assert answer["files"] == {to: str(out)}
    assert out.stat().st_size > 100


def test_a_model_file_is_decomposed_first(folder, data, tmp_path, capsys):
    printed(["export", folder / "model.json", *data, "--to", "python", "--out", tmp_path / "model.py"], capsys)
    module = {}
    exec((tmp_path / "model.py").read_text(encoding="utf-8"), module)
    fx = treeanova.load(folder / "fx.tav")
    row = {"a": 0.3, "b": None, "c": -1.0, "city": "Oslo"}
    pd = pytest.importorskip("pandas")
    expected = fx.decision_function(pd.DataFrame([row]).astype({"b": float, "city": "category"}))
    assert module["score"](row) == pytest.approx(expected[0], abs=1e-12)


def test_scorecards_and_relativities(tmp_path, capsys):
    for link in ("logit", "log"):
        effects = treeanova.model.Effects.from_tables({"a": [-1.0, 1.0]}, thresholds={"a": [0.5]}, link=link)
        treeanova.decompose(effects, density="uniform").save(tmp_path / f"{link}.tav")
    card = tmp_path / "card.csv"
    options = ["--pdo", "40", "--points", "500", "--odds", "1", "--digits", "1"]
    printed(["export", tmp_path / "logit.tav", "--to", "scorecard", *options, "--out", card], capsys)
    assert ",500.0" in card.read_text(encoding="utf-8")
    assert ",57.7" in card.read_text(encoding="utf-8")
    page = tmp_path / "factors.html"
    printed(["export", tmp_path / "log.tav", "--to", "relativities", "--out", page], capsys)
    assert "2.71828" in page.read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--to", "sqll", "--out", "x.sql"], "`--to` must be one of sql, .* got 'sqll'; did you mean sql?"),
        (["--to", "python", "--out", "x.py", "--dialect", "duckdb"], "`--dialect` must be left out with --to python"),
        (["--to", "python", "--out", "x.sql"], "`--out` must end in .py"),
        (["--to", "sql", "--out", "x.sql", "--dialect", "oracle"], "`dialect` must be one of 'duckdb'"),
        (["--to", "sql", "--out", "x.sql", "--dialect", "spark", "--verify"], "in Python, export.verify"),
        (["--to", "scorecard", "--out", "x.csv"], "must have log-odds of two classes"),
        (["--to", "relativities", "--out", "x.csv", "--verify"], "`--verify` must come with a format that runs"),
        (["--to", "python", "--out", "x.py", "--data", "rows.csv"], "`--data` must be left out for a saved decomp"),
        (["--to", "sql", "--out", "rows.csv"], "`--out` must end in .sql"),
    ],
)
def test_what_does_not_fit_is_refused(options, message, own_folder, capsys):
    line = refused(["export", "fx.tav", *options], capsys)
    assert re.search(message, line), line
    assert not (own_folder / "x.sql").exists()
