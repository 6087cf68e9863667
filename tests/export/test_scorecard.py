"""Scorecards and factor tables: totals against the model's own scores, row by row."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from treeanova.model import Effects

TABLES = {"a": [-0.7, 0.1, 0.9], "g": [0.3, -0.4], ("a", "g"): [[0.5, -0.2], [0.0, 0.1], [-0.6, 0.8]]}
ROWS = [[value, label] for value in (0.0, 1.5, 3.0) for label in ("x", "=cmd()")]


def decomposed(link):
    effects = Effects.from_tables(
        TABLES, intercept=0.4, thresholds={"a": [1.0, 2.0]}, categories={"g": ["x", "=cmd()"]}, link=link
    )
    return treeanova.decompose(effects, density="uniform")


def totals(table, kind):
    """Results of each row, found in the table by the words of its cells."""
    columns = (table.columns[name] for name in ("term", "cell", kind))
    cells = {(term, cell): value for term, cell, value in zip(*columns, strict=True)}
    intervals = {0.0: "≤ 1", 1.5: "(1, 2]", 3.0: "> 2"}
    for value, label in ROWS:
        a = intervals[value]
        yield cells["a", a], cells["g", label], cells["a × g", f"a {a}, g {label}"]


def test_points_add_up_to_the_scaled_log_odds():
    fx = decomposed("logit")
    expected = 500 + 30 / np.log(2) * (fx.decision_function(ROWS) - np.log(4))
    exact = treeanova.export.scorecard(fx, points=500, odds=4, pdo=30, digits=None)
    np.testing.assert_allclose([exact.base + sum(row) for row in totals(exact, "points")], expected)
    assert exact.rounding == 0
    card = treeanova.export.scorecard(fx, points=500, odds=4, pdo=30)
    found = np.array([card.base + sum(row) for row in totals(card, "points")])
    assert np.abs(found - expected).max() <= card.rounding
    assert all(isinstance(value, int) for value in card.columns["points"])
    assert list(dict.fromkeys(card.columns["code"])) == ["T01", "T02", "T03"]


@pytest.mark.parametrize("base", ["mean", {"a": 1.5, "g": "x"}])
def test_relativities_multiply_to_the_mean(base):
    fx = decomposed("log")
    table = treeanova.export.relativities(fx, base=base)
    found = [table.base * np.prod(row) for row in totals(table, "relativity")]
    np.testing.assert_allclose(found, fx.predict(ROWS))
    if base != "mean":
        place = ROWS.index([base["a"], base["g"]])
        np.testing.assert_allclose(list(totals(table, "relativity"))[place], 1.0)


def test_files_hold_the_table_and_no_formulas(tmp_path):
    card = treeanova.export.scorecard(decomposed("logit"))
    card.save(tmp_path / "card.csv")
    text = (tmp_path / "card.csv").read_text(encoding="utf-8")
    assert "\nT02,g,'=cmd()," in text
    card.save(tmp_path / "card.html")
    assert "<td>a × g</td>" in (tmp_path / "card.html").read_text(encoding="utf-8")
    with pytest.raises(ValueError, match=r"`path` must end in .csv, .html or .xlsx"):
        card.save(tmp_path / "card.pdf")
    openpyxl = pytest.importorskip("openpyxl")
    card.save(tmp_path / "card.xlsx")
    sheet = openpyxl.load_workbook(tmp_path / "card.xlsx").active
    assert sheet.max_row == len(card.columns["term"]) + 2


def test_other_models_are_refused():
    with pytest.raises(ValueError, match="must have log-odds of two classes"):
        treeanova.export.scorecard(decomposed("log"))
    with pytest.raises(ValueError, match="must have a log link"):
        treeanova.export.relativities(decomposed("logit"))
    with pytest.raises(ValueError, match="`base` must have a value for every feature"):
        treeanova.export.relativities(decomposed("log"), base={"a": 1.0})
    with pytest.raises(ValueError, match="`odds` must be a positive number, got -1"):
        treeanova.export.scorecard(decomposed("logit"), odds=-1)
    with pytest.raises(ValueError, match="`pdo` must be a number other than 0, got 0"):
        treeanova.export.scorecard(decomposed("logit"), pdo=0)
    with pytest.raises(ValueError, match="`digits` must be a whole number from -15 on"):
        treeanova.export.scorecard(decomposed("logit"), digits=1.5)
    with pytest.raises(ValueError, match="`digits` must be at most 15, got 400"):
        treeanova.export.scorecard(decomposed("logit"), digits=400)
    with pytest.raises(ValueError, match=r"points must be below 1e\+15 in size, got .*; choose a smaller `pdo`"):
        treeanova.export.scorecard(decomposed("logit"), pdo=1e308)


def test_the_base_may_be_a_series_or_a_frame_of_one_row():
    pandas = pytest.importorskip("pandas")
    tables = {"a": [0.0, 1.0], "g": [0.0, 2.0]}
    effects = Effects.from_tables(tables, thresholds={"a": [0.5]}, categories={"g": ["x", "y"]}, link="log")
    fx = treeanova.decompose(effects, density="uniform")
    X = pandas.DataFrame({"a": [0.0, 1.0], "g": ["y", "x"]})
    expected = treeanova.export.relativities(fx, base={"a": 0.0, "g": "y"})
    assert expected.base == pytest.approx(np.exp(2.0))
    for base in (X.iloc[0], X.iloc[:1]):
        found = treeanova.export.relativities(fx, base=base)
        assert (found.base, found.columns) == (expected.base, expected.columns)
    for wrong in (X, 3.0, X.iloc[:0]):
        with pytest.raises(ValueError, match="`base` must be 'mean' or one row"):
            treeanova.export.relativities(fx, base=wrong)
