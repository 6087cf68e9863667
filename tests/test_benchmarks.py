"""The page of the costs of deep models: its numbers are those that were kept; a tiny model is measured."""

from __future__ import annotations

import json
import pathlib
import re
import sys

import numpy as np
import pytest

pytest.importorskip("lightgbm")
pytest.importorskip("pandas")

from benchmarks import __main__ as command_line
from benchmarks import before_after, cost_page, inference, one_case, real_models

ROOT = pathlib.Path(__file__).resolve().parents[1]
LABELS = {"a": "Model A, rows A", "b": "Model B, rows B"}


def numbers(seconds, **others):
    return {"seconds": seconds, "peak_bytes": 1.5e9, **others}


def case_with(**variants):
    facts = {"model": "Model A", "data": "rows A", "n_rows": 20_640, "n_features": 8, "n_trees": 5, "quick": False}
    commits = dict.fromkeys(variants, "abc1234")
    return {**facts, "model_bytes": 2_500_000, "commits": commits, "variants": variants}


def rows_of(page, title):
    """Cells of the first table of a section, by the head of their column."""
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in section.partition("\n\n|")[2].partition("\n\n")[0].splitlines() if "|" in line]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_page_shows_before_and_after_side_by_side():
    before = {"decompose": numbers(120.0, n_terms=36), "importance": numbers(30.0), "report": numbers(50.0, bytes=9e6)}
    after = {
        "decompose": numbers(4.0, n_terms=1_255),
        "importance": numbers(1.0, shares={"1": 0.75, "2": 0.25}),
        "report": numbers(5.0, bytes=1.25e7),
    }
    slow = {"decompose": {"error": "not finished after 9 s"}, "importance": {"error": "not reached"}}
    case = case_with(before=before, after=after, **{"without Numba": slow})
    page = cost_page.text({"cases": {"a": case}, "machine": "2 cores", "peers": "\n## Peers\n"}, LABELS)
    (line,) = rows_of(page, "Decompose")
    assert line["model and rows"] == "Model A; rows A (20,640 × 8)"
    assert (line["terms before"], line["terms after"]) == ("36", "1,255")
    assert (line["seconds before"], line["seconds after"], line["ratio"]) == ("120", "4.00", "30×")
    assert (line["seconds without Numba"], line["peak GB after"]) == ("failed", "1.50")
    (line,) = rows_of(page, "Report")
    assert (line["in all before"], line["in all after"], line["page MB after"]) == ("200", "10.0", "12")
    assert re.search(r"\| order 1 +\| order 2 +\|", page)
    assert re.search(r"\| after +\| 75\.0% +\| 25\.0% +\|", page)
    assert "without Numba: not finished after 9 s" in page
    assert "- Model B, rows B" in page
    assert page.endswith("## Peers\n")


def test_without_an_earlier_version_the_page_has_no_columns_of_it():
    files = {"bytes": 3e6, "save_seconds": 0.5, "load_seconds": 0.25}
    page = cost_page.text(
        {"cases": {"a": case_with(after={"decompose": numbers(4.0, n_terms=3), "files": files})}}, LABELS
    )
    (line,) = rows_of(page, "Files")
    assert line == {
        "model and rows": "Model A; rows A (20,640 × 8)",
        "model's file MB": "2.5",
        "saved MB": "3",
        "save seconds": "0.50",
        "load seconds": "0.25",
    }
    assert "before" not in page
    assert "ratio" not in page


def test_shares_of_orders_are_means_over_outputs():
    table = {"term": ["a", "a × b", "remainder", "a"], "order": [1, 2, 3, 1], "output": [0, 0, 0, 1]}
    shares = one_case.shares_by_order(table | {"share": [0.5, 0.25, 0.25, 1.0]})
    assert shares == {"1": 0.75, "2": 0.125, "remainder": 0.125}


def test_rounds_give_the_smallest_numbers():
    first, second = {"explain": {"seconds": 2.0, "peak_bytes": 5}}, {"explain": {"seconds": 3.0, "peak_bytes": 4}}
    assert before_after.smallest([first, second]) == {"explain": {"seconds": 2.0, "peak_bytes": 4}}


@pytest.mark.thorough
def test_a_tiny_case_is_measured_kept_and_written(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(before_after, "FOLDER", tmp_path)
    monkeypatch.setattr(before_after, "has_numba", lambda: False)
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"cases": {"kept": "as it was"}}), encoding="utf-8")
    words = ["deep", "--quick", "--cases", "wide-lightgbm", "--results", str(results)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    page_before = (ROOT / "docs" / "deep.md").read_bytes()
    command_line.main()
    cases = json.loads(results.read_text(encoding="utf-8"))["cases"]
    tasks = cases["wide-lightgbm"]["variants"]["after"]
    assert cases["kept"] == "as it was"
    assert cases["wide-lightgbm"]["n_features"] == 8
    assert list(tasks) == ["decompose", "files"]
    assert tasks["decompose"]["peak_bytes"] > 5e7  # numpy and LightGBM alone take more
    assert tasks["decompose"]["reconstruction_error"] < 1e-12
    page = results.with_suffix(".md").read_text(encoding="utf-8")
    assert capfd.readouterr().out.strip() == page.strip()
    assert rows_of(page, "Decompose")[0]["terms"] == str(tasks["decompose"]["n_terms"])
    assert (ROOT / "docs" / "deep.md").read_bytes() == page_before


def test_a_tree_without_treeanova_is_refused(tmp_path):
    variant = before_after.Variant("before", tmp_path, {})
    with pytest.raises(SystemExit, match="`--before` must be a folder with src/treeanova"):
        before_after.measure(variant, tmp_path / "no model", ["decompose"], 60.0)


def test_a_case_without_its_data_is_left_out(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TREEANOVA_DATA", str(tmp_path))
    monkeypatch.setattr(before_after, "FOLDER", tmp_path / "models")
    results = tmp_path / "results.json"
    before_after.run(cases=["covtype-xgboost"], results=results, quick=True)
    assert "covtype-xgboost is left out: there is no file covtype.csv.gz" in capfd.readouterr().err
    assert json.loads(results.read_text(encoding="utf-8")) == {"cases": {}}


@pytest.mark.parametrize(
    ("words", "message"),
    [("deep --cases nothing", "`--cases` must be names of cases, got nothing"), ("purify --quick", None)],
)
def test_words_that_do_not_fit_are_refused(words, message, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words.split()])
    with pytest.raises(SystemExit, match=message or "2"):
        command_line.main()


def test_cases_have_tasks_that_can_be_measured():
    for case in real_models.CASES.values():
        assert case.tasks[0] == "decompose"
        assert all(hasattr(one_case.Tasks, task) for task in case.tasks)


class _Product:
    """A model whose prediction is a product of two features, plus the third."""

    def predict(self, rows):
        return rows[:, 0] * rows[:, 1] + rows[:, 2]


def test_the_h_statistic_is_one_for_a_product_and_zero_without_interaction():
    points = np.random.default_rng(0).normal(size=(30, 4))
    points -= points.mean(axis=0)  # the product then has no main effects
    found = inference.h_statistics(_Product(), points)
    assert found["a", "b"] == pytest.approx(1)
    assert found["a", "c"] == pytest.approx(0, abs=1e-20)


def test_true_effects_of_bands_are_pure():
    rng = np.random.default_rng(0)
    a, noise = rng.normal(size=(2, 200_000))
    b = 0.6 * a + 0.8 * noise
    share = 0.6 / 1.36
    pair = a * b - 0.6 - share * (a**2 - 1) - share * (b**2 - 1)
    for column in (a, b):
        means = [pair[part].mean() for part in np.array_split(np.argsort(column), 10)]
        assert means == pytest.approx([0] * 10, abs=0.03)
    points = inference.pair_points(0.6)
    expected = points.prod(axis=1) - 0.6 - share * (points**2 - 1).sum(axis=1)
    assert inference.true_effects(0.6)["a × b"] == pytest.approx(expected)


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore::treeanova.errors.AliasWarning")
def test_tables_of_inference_are_written_between_their_marks(tmp_path, capsys):
    page = tmp_path / "inference.md"
    marks = "".join(f"<!-- {part}: begin -->\nold\n<!-- {part}: end -->\n" for part in inference.PARTS)
    page.write_text(f"before\n{marks}after\n", encoding="utf-8")
    inference.run(sizes=inference.QUICK, page=page)
    text = page.read_text(encoding="utf-8")
    assert text.startswith("before\n")
    assert text.endswith("after\n")
    assert "old" not in text
    assert text.count("| squared error | ") == 3
    assert "| 0.6 | a × b | " in text
    assert all(f"| {name} | " in text for name in inference.OBJECTIVES)
    assert "A feature and its copy, 2 repeats" in text
    assert "squared error 0.0 200" in capsys.readouterr().out
    with pytest.raises(ValueError, match="the page must have the lines"):
        inference.written("nothing", "tests", "tables")
