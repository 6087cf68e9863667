"""Every script of the gallery runs by itself, tells what one learns, and writes what it says."""

from __future__ import annotations

import ast
import runpy
from pathlib import Path

import pytest

FOLDER = Path(__file__).resolve().parents[1] / "examples"
# What each script must print, and the files it must write.
EXPECTED = {
    "auditing": (["without the group's terms"], ["auditing.png"]),
    "california": (["Latitude × Longitude"], ["california.png"]),
    "categories_and_missing": (["unseen or missing", "the model itself"], ["categories.png"]),
    "four_forms": (["mass-moving: orders 1 and 2 pure to"], ["four_forms.png"]),
    "from_a_file": (
        ["Decomposition of ", "density: auto; scale: log-odds (logit link)", "The same on the command line:"],
        ["wine.json", "wine.csv", "wine.png", "wine.tav"],
    ),
    "groups": (
        ["Male minus Female", "sex by itself", "the gap without the terms of sex"],
        ["groups.png", "groups_race.html", "groups_sex.html"],
    ),
    "multiclass": (["setosa", "bins and classes"], ["multiclass.png"]),
    "own_density": (["elsewhere"], ["own_density.png"]),
    "quick_start": (["sum of the terms against the model"], ["quick_start.html", "quick_start.png"]),
    "what_changed": (
        ["other rows, same model", "intercept"],
        ["what_changed.html", "what_changed.png", "what_changed_hr.png"],
    ),
    "what_is_real": (
        ["The outcome follows (significant): ", "Interactions that can be left out: "],
        ["what_is_real.png"],
    ),
}


def scripts():
    return {path.stem: path for path in FOLDER.glob("*.py") if path.stem not in {"__init__", "demo"}}


def go_offline(monkeypatch):
    """Let no script download anything."""
    datasets = pytest.importorskip("sklearn.datasets")

    def refuse(**_):
        raise OSError("no network")

    monkeypatch.setattr(datasets, "fetch_california_housing", refuse)


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """A folder with a simulated table of California."""
    pytest.importorskip("pandas")
    from tests.support.datasets import california_housing

    folder = tmp_path_factory.mktemp("tables")
    california_housing().to_csv(folder / "california_housing.csv.gz", index=False)
    return folder


def run(name, folder, tables, monkeypatch, capsys):
    go_offline(monkeypatch)
    matplotlib = pytest.importorskip("matplotlib")
    if name == "from_a_file":
        pytest.importorskip("xgboost")
    if name == "quick_start":
        pytest.importorskip("vl_convert")
    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    monkeypatch.setenv("TREEANOVA_DATA", str(tables))
    monkeypatch.chdir(folder)
    monkeypatch.setenv("TREEANOVA_OUT", str(folder))
    try:
        runpy.run_path(str(scripts()[name]), run_name="__main__")
    finally:
        plt.close("all")
    return capsys.readouterr().out


QUICK = {"from_a_file", "multiclass", "quick_start"}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.thorough) for name in sorted(EXPECTED)]
)
def test_a_script_runs_and_writes_what_it_says(name, tmp_path, tables, monkeypatch, capsys):
    texts, files = EXPECTED[name]
    printed = run(name, tmp_path, tables, monkeypatch, capsys)
    for text in texts:
        assert text in printed
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(files)
    for path in tmp_path.glob("*.png"):
        assert path.read_bytes().startswith(b"\x89PNG")
        assert path.stat().st_size > 10_000


def test_four_forms_are_one_function(tmp_path, tables, monkeypatch, capsys):
    printed = run("four_forms", tmp_path, tables, monkeypatch, capsys)
    assert printed.count("pure: +0.00 and [0.0, 0.0] and [0.0, 0.0] and [[-0.25, 0.25], [0.25, -0.25]]") == 4


def test_numbers_of_rows_with_missing_and_unseen_values_equal_the_model(tmp_path, tables, monkeypatch, capsys):
    printed = run("categories_and_missing", tmp_path, tables, monkeypatch, capsys)
    model, terms = (line.partition(":")[2].strip() for line in printed.splitlines()[-2:])
    assert model == terms


def test_all_scripts_are_run_here_and_are_short_and_say_what_one_learns():
    assert sorted(scripts()) == sorted(EXPECTED)
    for path in scripts().values():
        text = path.read_text(encoding="utf-8")
        assert len(text.splitlines()) <= 60
        assert "You learn:" in (ast.get_docstring(ast.parse(text)) or "")


def test_california_says_where_data_could_come_from(tmp_path, monkeypatch):
    pytest.importorskip("matplotlib").use("Agg")
    go_offline(monkeypatch)
    monkeypatch.setenv("TREEANOVA_DATA", str(tmp_path))
    with pytest.raises(SystemExit, match=r"TREEANOVA_DATA .* \(no network\)"):
        runpy.run_path(str(scripts()["california"]), run_name="__main__")
