"""Pages of benchmarks: their numbers are those that were measured; a tiny model is measured."""

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
from benchmarks import conformance, cost, inference, one_case, peer_tools, peers, real_models

ROOT = pathlib.Path(__file__).resolve().parents[1]
STEPS = {task: {"seconds": 2.0, "peak_bytes": 1.5e9} for task in cost.ALL_TASKS}


def case_with(**variants):
    facts = {"model": "Model A", "data": "rows A", "n_rows": 20_640, "n_features": 8, "n_trees": 5, "quick": False}
    return {**facts, "n_leaves": 1_234, "model_bytes": 2_500_000, "variants": variants}


def rows_of(page, title):
    """Cells of the first table of a section, by the head of their column."""
    section = page.partition(f"## {title}\n")[2].partition("\n## ")[0]
    lines = [line for line in f"\n{section}".partition("\n\n|")[2].partition("\n\n")[0].splitlines() if "|" in line]
    head, _, *rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return [dict(zip(head, row, strict=True)) for row in rows]


def test_the_page_has_a_line_per_model():
    files = {"bytes": 1.25e7, "save_seconds": 0.5, "load_seconds": 0.25}
    steps = {
        **STEPS,
        "plan": {"seconds": 0.1, "planned_seconds": 110.0, "planned_bytes": 1.2e9},
        "decompose": {"seconds": 120.0, "peak_bytes": 2.25e9},
        "explain_all": {"seconds": 4000.0, "peak_bytes": 1e9, "is_scaled": True},
        "files": files,
    }
    slow = {**steps, "report": {"error": "not finished after 9 s"}}
    case = case_with(**{"with Numba": steps, "without Numba": slow})
    page = cost.text({"cases": {"california-xgboost": case}, "machine": "2 cores"})
    (line,) = rows_of(page, "With Numba")
    assert (line["model"], line["rows"], line["leaves"]) == ("Model A", "rows A, 20,640 × 8", "1,234")
    assert line["plan says"] == "110"
    assert (line["decompose"], line["explain, 200 rows"], line["explain, all"]) == ("120", "2.00", "≈ 4,000")
    assert (line["save"], line["load"], line["file MB"]) == ("0.50", "0.25", "12")
    assert (line["plan says GB"], line["peak GB"]) == ("1.20", "2.25")
    (line,) = rows_of(page, "Without Numba")
    assert line["report"] == "see below"
    assert "- Model A; rows A, without Numba, report: not finished after 9 s" in page
    assert "on this machine: 2 cores" in page.replace("\n", " ")
    assert f"- {real_models.CASES['adult-catboost'].model}; adult, with categories" in page


def test_a_comparison_with_an_earlier_version_is_printed(capsys):
    before = {**STEPS, "decompose": {"seconds": 5.0, "peak_bytes": 1e9}, "report": {"error": "not reached"}}
    cost.compare("a", case_with(**{"before": before, "with Numba": STEPS}))
    printed = capsys.readouterr().out
    assert re.search(r"\| decompose +\| 5\.00 +\| 2\.00 +\| 2\.50 +\| 1\.00 → 1\.50 +\|", printed)
    assert re.search(r"\| report +\| not reached +\|", printed)


def test_rounds_give_the_smallest_numbers():
    first, second = {"explain": {"seconds": 2.0, "peak_bytes": 5}}, {"explain": {"seconds": 3.0, "peak_bytes": 4}}
    assert cost.smallest([first, second]) == {"explain": {"seconds": 2.0, "peak_bytes": 4}}


@pytest.mark.thorough
def test_a_tiny_case_is_measured_kept_and_written(tmp_path, monkeypatch, capfd):
    monkeypatch.setattr(cost, "FOLDER", tmp_path)
    monkeypatch.setattr(cost, "has_numba", lambda: False)
    results = tmp_path / "results.json"
    results.write_text(json.dumps({"cases": {"kept": "as it was"}}), encoding="utf-8")
    words = ["cost", "--quick", "--cases", "wide-lightgbm", "--results", str(results)]
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words])
    command_line.main()
    cases = json.loads(results.read_text(encoding="utf-8"))["cases"]
    tasks = cases["wide-lightgbm"]["variants"]["without Numba"]
    assert cases["kept"] == "as it was"
    assert cases["wide-lightgbm"]["n_features"] == 8
    assert list(tasks) == list(cost.ALL_TASKS)
    assert tasks["decompose"]["peak_bytes"] > 5e7  # numpy and LightGBM alone take more
    assert tasks["decompose"]["reconstruction_error"] < 1e-12
    page = results.with_suffix(".md").read_text(encoding="utf-8")
    assert capfd.readouterr().out.strip() == page.strip()
    assert "see below" not in page


def test_a_tree_without_treeanova_is_refused(tmp_path):
    variant = cost.Variant("before", tmp_path, {})
    with pytest.raises(SystemExit, match="`--before` must be a folder with src/treeanova"):
        cost.measure(variant, tmp_path / "no model", 60.0)


def test_a_case_without_its_data_is_left_out(tmp_path, monkeypatch, capfd):
    monkeypatch.setenv("TREEANOVA_DATA", str(tmp_path))
    monkeypatch.setattr(cost, "FOLDER", tmp_path / "models")
    results = tmp_path / "results.json"
    cost.run(cases=["covtype-xgboost"], results=results, quick=True)
    assert "covtype-xgboost is left out: there is no file covtype.csv.gz" in capfd.readouterr().err
    assert json.loads(results.read_text(encoding="utf-8")) == {"cases": {}}


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("cost --cases nothing", "`--cases` must be names of cases, got nothing"),
        ("peers --cases nothing", "`--cases` must be names of cases, got nothing"),
        ("purify --quick", None),
    ],
)
def test_words_that_do_not_fit_are_refused(words, message, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", *words.split()])
    with pytest.raises(SystemExit, match=message or "2"):
        command_line.main()


def test_tasks_can_be_measured():
    assert all(hasattr(one_case.Tasks, task) for task in cost.ALL_TASKS)


def call(cpu, wall=0.5):
    return {"cpu": cpu, "wall": wall, "scaled": wall is None}


def test_the_page_of_peers_shows_where_treeanova_is_behind():
    nothing = dict.fromkeys(peer_tools.TOOLS, peers.Measured({}, "ImportError: no such tool", is_absent=False))
    tools = {
        **nothing,
        "treeanova values": peers.Measured({"prepare": call(2.0), "150": call(0.5), "1000": call(1.0)}),
        "library values": peers.Measured({"prepare": call(0.0), "150": call(0.25), "1000": call(40.0, None)}),
        "shapiq pairs": peers.Measured({}, "ModuleNotFoundError: shapiq", is_absent=True),
    }
    page = peers.page({"depth-2": tools})
    few, many = rows_of(page, "A number per feature")
    assert (few["treeanova values"], few["… answer only"], few["library values"]) == ("2.5 (1)", "0.5", "**0.25 (1)**")
    assert (many["treeanova values"], many["library values"]) == ("**3 (1)**", "≈ 40")
    assert few["woodelf values"] == "n/a"
    behind = page.partition("## Where treeanova is behind")[2].partition("\n## ")[0]
    assert "depth 2, 150 rows: library values is 10.0 times as fast" in behind
    assert "1,000 rows" not in behind
    assert "Not installed, so without numbers: shapiq." in page.replace("\n", " ")
    assert "- depth 2, woodelf values: ImportError: no such tool" in page
    assert f"- {peers.CASES['forest'].model}" in page.partition("Models without numbers here:")[2]


def test_a_call_that_is_not_made_is_estimated_by_what_more_rows_add():
    assert peer_tools.extrapolated({150: 0.7, 1_000: 0.7}, 20_000) == pytest.approx(0.7)  # in proportion: 14
    assert peer_tools.extrapolated({150: 2.5, 1_000: 11.0}, 20_000) == pytest.approx(201)
    assert peer_tools.extrapolated({150: 0.8, 1_000: 0.7}, 20_000) == pytest.approx(0.7)


@pytest.mark.thorough
def test_peers_that_are_not_installed_are_no_error(monkeypatch, tmp_path):
    case = peers.CASES["depth-2"]._replace(rows=lambda: real_models.many_features(200, 6))
    tools = {name: peer_tools.TOOLS[name] for name in ("treeanova terms", "library values", "library pairs")}
    monkeypatch.setattr(peer_tools, "TOOLS", {**tools, "nothing values": tools["library values"]})
    found = peers.measure_case(case, tmp_path, 30.0, quick=True)
    assert found["treeanova terms"].total(150) > 0
    assert found["nothing values"].is_absent
    assert found["library pairs"].calls["150"]["wall"] > 0
    refused = peers.measure(tmp_path / "model.pkl", ["treehfd pairs"], 30.0)["treehfd pairs"]
    assert refused.calls or refused.is_absent


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


def own_modes():
    return [mode for mode in conformance.MODES if mode.tool == "treeanova"]


@pytest.mark.filterwarnings("ignore:The argument 'eval_set'")
@pytest.mark.parametrize("library", ["XGBoost", "LightGBM"])
def test_terms_add_up_in_hard_cases(library):
    pytest.importorskip(library.lower())
    for (own, words), make in conformance.SITUATIONS.items():
        if own == library:
            at = make()
            for mode in own_modes():
                assert conformance.gap_of_sums(mode.ask(at), at.score) < 1e-5, (words, mode.words)


def test_sums_are_compared_up_to_a_constant():
    score = np.array([0.0, 2.0])
    numbers = np.array([[1.0, 0.0], [3.0, 2.0]])  # sums less the score: 1 and 3
    assert conformance.gap_of_sums(numbers, score) == pytest.approx(1.0)
    assert conformance.gap_of_sums(numbers - [[1.0, 0.0], [2.0, 1.0]], score) == 0


def test_equal_models_have_equal_terms_which_are_those_of_least_squares():
    pytest.importorskip("xgboost")
    models = conformance.same_function()
    target, weights = np.array([0.0, 0.0, 0.0, 1.0]), np.array([6.0, 1.0, 1.0, 4.0])
    design = np.array([[1, 0, 0], [1, 0, 1], [1, 1, 0], [1, 1, 1]], dtype=float)
    root = np.sqrt(weights)
    fitted = np.linalg.lstsq(design * root[:, None], target * root, rcond=None)[0]
    main = fitted[1] * (design[:, 1] - np.average(design[:, 1], weights=weights))
    for at in models:
        np.testing.assert_allclose(at.score, target, atol=1e-6)
        answer = own_modes()[0].ask(at)
        np.testing.assert_allclose(2 * answer[:, 0, 1], target - design @ fitted, atol=1e-6)
        column = 1 if at is models[1] else 0  # the second model has its columns swapped
        np.testing.assert_allclose(answer[:, column, column], main, atol=1e-6)


def test_shares_of_main_effects_in_a_pair():
    pytest.importorskip("xgboost")
    at = conformance.same_function()[0]
    first, second = at.rows.to_numpy().T
    of_mains = conformance.share_of_main_effects(first + 3 * second, at, (0, 1))
    weights = np.array([1 / 6, -1.0, -1.0, 1 / 4])[(2 * first + second).astype(int)]  # sums to 0 in rows and columns
    assert of_mains == pytest.approx(1)
    assert conformance.share_of_main_effects(weights, at, (0, 1)) == pytest.approx(0, abs=1e-12)


def test_tables_and_equal_ebms():
    pytest.importorskip("interpret")
    for head, lines in (conformance.ebms_table(), conformance.tables_table()):
        own = [line[2:] for line in lines if line[0] == "treeanova"]
        assert all(len(line) == len(head) for line in lines)
        assert own
        assert set(own[0]) <= {"exact", "the same"}


def test_the_page_of_hard_cases_names_what_is_absent(monkeypatch):
    monkeypatch.setattr(conformance, "installed_modes", own_modes)
    page = conformance.page({"A title": ("Some words.", [(["tool", "answer"], [["treeanova", "exact"]])])})
    assert "Not installed: library, shap, shapiq, treehfd, woodelf." in page.replace("\n", " ")
    assert rows_of(page, "A title") == [{"tool": "treeanova", "answer": "exact"}]
