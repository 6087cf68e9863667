"""The command line, driven for real: answers equal the library's, errors are one line, nothing is half written."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import re
import select
import signal
import subprocess
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest

import treeanova

pytest.importorskip("typer")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")

from treeanova.cli import answers, commands, run, sources  # noqa: E402  needs typer

COMMAND = [sys.executable, "-m", "treeanova"]
SECONDS = 120  # to wait for another process before giving up
# What colours, widens or lengthens output: a CI service, a user or pytest's own options may have set any of it.
VARIABLES = (
    "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PYTHONDEVMODE",
    "PYTHONWARNINGS", "PY_COLORS", "TERMINAL_WIDTH", "TREEANOVA_TRACEBACK", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
    "TYPER_USE_RICH",
)  # fmt: skip


@pytest.fixture(autouse=True)
def plain_terminal(monkeypatch):
    """100 columns and no colours, whatever the environment says; typer has read some of it when it was imported."""
    from typer import rich_utils

    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr(rich_utils, "FORCE_TERMINAL", None)
    monkeypatch.setattr(rich_utils, "MAX_WIDTH", None)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    a = rng.normal(size=800)
    b = 0.7 * a + 0.7 * rng.normal(size=800)
    c = np.where(rng.random(800) < 0.1, np.nan, rng.normal(size=800))
    X = pd.DataFrame({"a": a, "b": b, "c": c, "city": pd.Categorical(rng.choice(["Rome", "Oslo", "NA"], 800))})
    y = X["a"] * X["b"] + X["c"].fillna(0.5) + (X["city"] == "Rome")
    return X, y, rng.uniform(0.5, 2, size=800)


@pytest.fixture(scope="module")
def folder(rows, tmp_path_factory):
    """A model, another one, their rows, and a saved decomposition."""
    X, y, weights = rows
    folder = tmp_path_factory.mktemp("cli")
    for name, n_trees in {"model.json": 30, "other.ubj": 10}.items():
        model = xgboost.XGBRegressor(n_estimators=n_trees, max_depth=2, enable_categorical=True, n_jobs=1).fit(X, y)
        model.save_model(folder / name)
    X.assign(y=y, w=weights).to_csv(folder / "rows.csv")
    treeanova.decompose(str(folder / "model.json"), X).save(folder / "fx.tav")
    return folder


@pytest.fixture(scope="module")
def fx(rows, folder):
    return treeanova.decompose(folder / "model.json", rows[0])


def told(arguments, capsys):
    """What a good run prints; nothing may go to standard error."""
    status = run([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert (status, printed.err) == (0, "")
    return printed.out


def refused(arguments, capsys, status=2):
    """The one line that a bad run prints."""
    found = run([str(argument) for argument in arguments])
    printed = capsys.readouterr()
    assert (found, printed.out) == (status, "")
    assert printed.err.startswith("treeanova: ")
    assert printed.err.count("\n") == 1
    return printed.err


def data(folder, *, w="w"):
    return ["--data", folder / "rows.csv", "--target", "y", *(["--target", w] if w else [])]


# ---------------------------------------------------------------------------------------------------------------------
# Answers


def test_explain_prints_the_strongest_terms_of_the_decomposition(folder, fx, capsys):
    text = told(["explain", folder / "model.json", *data(folder), "--top", "3"], capsys)
    table = fx.importance().set_index("term")
    lines = re.findall(r"^(\S.*?)" + 3 * r"  +(-?[\d.]+) %", text, flags=re.MULTILINE)
    assert [name for name, *_ in lines] == list(table.index[:3])
    for name, *numbers in lines:
        expected = 100 * table.loc[name, ["variance", "covariance", "share"]]
        assert [float(number) for number in numbers] == pytest.approx(expected.tolist(), abs=0.051)
    assert f"{len(table) - 3} more terms: share {100 * table['share'][3:].sum():.1f} %" in text
    assert "model.json: 4 features, density auto, 800 rows, prediction" in text


def test_explain_as_json_is_the_decomposition_and_files_are_whole(folder, fx, rows, tmp_path, capsys):
    pytest.importorskip("vl_convert")
    files = ["--out", tmp_path / "r.html", "--save", tmp_path / "fx.tav"]
    found = json.loads(told(["explain", folder / "model.json", *data(folder), *files, "--json"], capsys))
    table = fx.importance()
    assert [row["term"] for row in found["terms"]] == table["term"].tolist()
    assert [row["share"] for row in found["terms"]] == pytest.approx(table["share"].tolist())
    assert found["intercept"] == pytest.approx(fx.intercept)
    assert (found["n_rows"], found["density"], found["certificate"]["pure"]) == (800, "auto", True)
    assert {tuple(row["features"]) for row in found["terms"]} == set(fx.terms)
    assert found["files"] == {"decomposition": str(tmp_path / "fx.tav"), "report": str(tmp_path / "r.html")}
    saved = treeanova.load(tmp_path / "fx.tav")
    assert np.allclose(saved.decision_function(rows[0]), fx.decision_function(rows[0]), rtol=0, atol=1e-12)
    assert "model.json" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fx.tav", "r.html"]


def test_weights_and_orders_reach_the_decomposition(folder, rows, capsys):
    X, _, weights = rows
    arguments = ["explain", folder / "model.json", *data(folder, w=None), "--weight", "w", "--density", "empirical"]
    found = json.loads(told([*arguments, "--max-order", "1", "--json"], capsys))
    expected = treeanova.decompose(folder / "model.json", X, density="empirical", sample_weight=weights)
    assert found["intercept"] == pytest.approx(expected.intercept, abs=1e-9)
    mains = [row for row in found["terms"] if row["features"] is not None]
    assert {row["order"] for row in mains} == {1}
    assert len(mains) == 4
    assert len(found["terms"]) == 5  # and the rest of the model
    assert sum(row["share"] for row in found["terms"]) == pytest.approx(1)


def test_uniform_needs_no_rows(folder, capsys):
    found = json.loads(told(["explain", folder / "model.json", "--density", "uniform", "--json"], capsys))
    expected = treeanova.decompose(folder / "model.json", density="uniform")
    assert found["n_rows"] is None
    assert found["intercept"] == pytest.approx(expected.intercept)


def test_several_outputs_are_told_apart(tmp_path, capsys):
    datasets = pytest.importorskip("sklearn.datasets")
    X, y = datasets.load_iris(return_X_y=True, as_frame=True)
    model = xgboost.XGBClassifier(n_estimators=5, max_depth=2, n_jobs=1).fit(X, y)
    model.save_model(tmp_path / "iris.json")
    X.to_csv(tmp_path / "iris.csv", index=False)
    text = told(["explain", tmp_path / "iris.json", "--data", tmp_path / "iris.csv"], capsys)
    fx = treeanova.decompose(model, X)
    for output in fx.schema.outputs:
        assert f"\n{output}: " in text
    found = json.loads(told(["explain", tmp_path / "iris.json", "--data", tmp_path / "iris.csv", "--json"], capsys))
    assert found["intercept"] == pytest.approx(fx.intercept.tolist(), abs=1e-6)


def test_a_table_is_that_of_the_term(folder, fx, tmp_path, capsys):
    expected = fx.table(("a", "b"))
    cells = json.loads(told(["table", folder / "fx.tav", "--term", "b,a", "--json"], capsys))
    assert [cell["value"] for cell in cells] == pytest.approx(expected["value"].tolist())
    assert cells[0]["a_low"] is None  # minus infinity, which JSON lacks
    csv = told(["table", folder / "fx.tav", "--term", "a x b", "--csv", "-"], capsys)
    assert told(["table", folder / "fx.tav", "--term", "a × b", "--csv", "-"], capsys) == csv
    told(["table", folder / "fx.tav", "--term", "a, b", "--csv", tmp_path / "ab.csv"], capsys)
    assert (tmp_path / "ab.csv").read_text(encoding="utf-8") == csv
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "ab.csv"), expected, check_exact=False, rtol=1e-12)
    raw = json.loads(told(["table", folder / "model.json", *data(folder), "--term", "a,b", "--raw", "--json"], capsys))
    assert [cell["value"] for cell in raw] == pytest.approx(fx.raw.table(("a", "b"))["value"].tolist())


def test_a_table_for_people_has_all_labels_in_columns(folder, fx, capsys):
    lines = told(["table", folder / "fx.tav", "--term", "city"], capsys).splitlines()
    assert lines[0].split() == ["city", "value", "weight"]
    labels = fx.terms["city"].axes[0].labels
    assert [line[: len(label)] for line, label in zip(lines[1:], labels, strict=True)] == list(labels)
    values = [float(line.split()[-2]) for line in lines[1:]]
    assert values == pytest.approx(fx.terms["city"].values.tolist(), rel=1e-4)


def test_densities_of_one_model_are_compared(folder, fx, capsys):
    arguments = ["compare", folder / "model.json", *data(folder), "--density", "auto", "--density", "raw"]
    found = json.loads(told([*arguments, "--density", "uniform", "--json"], capsys))
    expected = treeanova.compare({"auto": fx, "raw": fx.raw, "uniform": fx.with_density("uniform")})
    assert found["names"] == ["auto", "raw", "uniform"]
    assert [row["relative"] for row in found["distance"]] == pytest.approx(expected.distance["relative"].tolist())
    text = told([*arguments, "--top", "2"], capsys)
    largest = expected.distance.query("decomposition == 'raw'").nlargest(2, "relative")
    lines = text.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("term"))
    for line, term, relative in zip(lines[start + 1 :], largest["term"], largest["relative"], strict=False):
        assert line.startswith(f"{term} ")
        assert f" {100 * relative:.1f} %" in line
    assert text.endswith(f"{len(fx.terms) - 2} more terms\n")


def test_models_are_compared_and_a_saved_one_equals_its_model(folder, capsys):
    files = [folder / name for name in ("model.json", "fx.tav", "other.ubj")]
    found = json.loads(told(["compare", *files, *data(folder), "--density", "empirical", "--json"], capsys))
    assert found["names"] == ["model.json", "fx.tav", "other.ubj"]
    gaps = pd.DataFrame(found["distance"]).groupby("decomposition")["relative"].max()
    assert gaps["fx.tav"] < 1e-9
    assert gaps["other.ubj"] > 1e-3


def test_bench_measures_a_library(capsys):
    pytest.importorskip("sklearn")
    found = json.loads(told(["bench", "sklearn", "--rows", "300", "--trees", "5", "--json"], capsys))
    assert [row["model"] for row in found] == ["sklearn HistGradientBoostingRegressor"]
    assert all(found[0][name] > 0 for name in ("predict", "decompose empirical", "decompose auto", "explain all rows"))
    text = told(["bench", "sklearn", "--rows", "300", "--trees", "5"], capsys)
    assert "300 rows, 8 dependent features, 5 trees" in text


def test_demo_writes_where_it_is_told(tmp_path, monkeypatch, capsys):
    from treeanova import demo

    def quick(folder, say):
        say(f"to {folder}")

    monkeypatch.setattr(demo, "demonstrate", quick)
    assert told(["demo", "--out", tmp_path / "d"], capsys) == f"to {tmp_path / 'd'}\n"


def test_the_report_is_opened_only_on_request(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("vl_convert")
    opened = []
    monkeypatch.setattr(commands.webbrowser, "open", opened.append)
    arguments = ["explain", folder / "fx.tav", *data(folder), "--out", tmp_path / "r.html"]
    told(arguments, capsys)
    assert opened == []
    told([*arguments, "--open"], capsys)
    assert opened == [(tmp_path / "r.html").as_uri()]


def test_help_names_every_command_and_option(capsys):
    for arguments in ([], ["--help"], ["-h"]):
        text = told(arguments, capsys)
        assert all(name in text for name in ("demo", "explain", "table", "compare", "bench", "--version"))
    text = told(["explain", "--help"], capsys)
    options = ("--data", "--density", "--target", "--out", "--save", "--max-order", "--open", "--json", "--trusted")
    assert all(option in text for option in options)
    assert told(["--version"], capsys) == f"treeanova {treeanova.__version__}\n"


def test_names_cannot_move_the_cursor():
    text = answers.aligned([{"term": "a\x1b[2Jb\n", "share": 1.5}, {"term": "x" * 100, "share": float("nan")}])
    assert "\x1b" not in text
    assert len(text.splitlines()) == 3
    assert max(map(len, text.splitlines())) < 80


@pytest.mark.parametrize("start", ["=", "+", "-", "@", "\t", "\r", "=\n"])
def test_no_text_in_csv_is_a_formula(start):
    """Labels and names of columns begin with a quote then; numbers, and text that is a number, stay as they are."""
    name = f"{start}cmd|' /C calc'!A0"
    rows = [{name: f"{start}SUM(A1)", "b": -1.5, "c": "-1", "d": "a=b"}, {name: "x", "b": float("-inf"), "c": "+2e3"}]
    found = list(csv.reader(io.StringIO(answers.as_csv(rows), newline="")))
    assert found == [[f"'{name}", "b", "c", "d"], [f"'{start}SUM(A1)", "-1.5", "-1", "a=b"], ["x", "-inf", "+2e3"]]


def test_the_table_of_a_category_that_is_a_formula_is_harmless(tmp_path, capsys):
    cities = pd.Categorical(np.tile(["=1+1", "@SUM(A1)", "Rome"], 50))
    X = pd.DataFrame({"-city": cities})
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2, enable_categorical=True, n_jobs=1)
    treeanova.decompose(model.fit(X, cities.codes), X).save(tmp_path / "fx.tav")
    for target in ("-", tmp_path / "city.csv"):
        text = told(["table", tmp_path / "fx.tav", "--term", "-city", "--csv", target], capsys)
    text = (tmp_path / "city.csv").read_text(encoding="utf-8")
    labels = [line.split(",")[0] for line in text.splitlines()]
    assert labels[:4] == ["'-city", "'=1+1", "'@SUM(A1)", "Rome"]


def test_numbers_that_json_lacks_become_null():
    value = {"a": [float("nan"), float("inf"), np.float64(1.5)], "b": np.array([1, 2]), "c": None, "d": "ü"}
    assert json.loads(answers.as_json(value)) == {"a": [None, None, 1.5], "b": [1, 2], "c": None, "d": "ü"}


# ---------------------------------------------------------------------------------------------------------------------
# Bad input

BAD = {
    "no model": (["explain", "none.json", "--data", "rows.csv"], "got 'none.json', which is none"),
    "no data": (["explain", "model.json", "--data", "none.csv"], "got 'none.csv', which is none"),
    "data not given": (["explain", "model.json"], "`--data` must be given for the density auto"),
    "data not given for a saved one": (["explain", "fx.tav", "--density", "kernel"], "`--data` must be given"),
    "columns": (["explain", "model.json", "--data", "wrong.csv"], "got none named 'b', 'c', 'city'; it has a, z"),
    "text": (["explain", "model.json", "--data", "text.csv"], "column 'a' must hold numbers"),
    "no rows": (["explain", "model.json", "--data", "short.csv"], "at least one row"),
    "target": (["explain", "model.json", "--data", "rows.csv", "--target", "price"], "none named 'price'"),
    "weight": (["explain", "model.json", "--data", "rows.csv", "--weight", "v"], "none named 'v'"),
    "density": (["explain", "model.json", "--data", "rows.csv", "--density", "smooth"], "uniform, .* got 'smooth'"),
    "damaged json": (["explain", "junk.json", "--data", "rows.csv"], "junk.json must"),
    "damaged ubj": (["explain", "junk.ubj", "--data", "rows.csv"], "junk.ubj must"),
    "damaged tav": (["explain", "junk.tav"], "junk.tav must be a whole file"),
    "unknown file": (["explain", "rows.csv", "--data", "rows.csv"], "a file that treeanova reads, got rows.csv"),
    "pickle": (["explain", "evil.pkl", "--data", "rows.csv"], "--trusted on the command line"),
    "damaged pickle": (["explain", "junk.pkl", "--data", "rows.csv", "--trusted"], "must be a whole pickle"),
    "folder": (["explain", "model.json", "--data", "rows.csv", "--out", "."], "got the folder"),
    "no folder": (["explain", "model.json", "--data", "rows.csv", "--save", "no/fx.tav"], "folder that exists"),
    "file as folder": (["demo", "--out", "rows.csv"], "must be a folder, got the file"),
    "budget": (["explain", "model.json", "--data", "rows.csv", "--budget", "1e-6"], "over the budget"),
    "term": (["table", "fx.tav", "--term", "a,d"], r"got 'a,d'; there are .*a,b"),
    "term of two lines": (["table", "fx.tav", "--term", "a\nb"], r"got 'a\\nb'; there are "),
    "no term": (["table", "fx.tav"], "Missing option '--term'"),
    "two forms": (["table", "fx.tav", "--term", "a", "--json", "--csv", "-"], "choose one"),
    "one part": (["compare", "model.json", "--data", "rows.csv", "--density", "auto"], "two models or two densities"),
    "other density": (["compare", "model.json", "--data", "rows.csv", "--density", "no"], "shrinkage, .*raw, got 'no'"),
    "nothing to open": (["explain", "model.json", "--data", "rows.csv", "--open"], "add --out"),
    "order": (["explain", "model.json", "--data", "rows.csv", "--max-order", "0"], "--max-order"),
    "order of a saved one": (["explain", "fx.tav", "--max-order", "1"], "must come with --data"),
    "weights alone": (["explain", "fx.tav", "--weight", "w"], "`--weight` must come with --data"),
    "target alone": (["compare", "fx.tav", "--target", "y"], "`--target` must come with --data"),
    "density of no rows": (["compare", "fx.tav", "--density", "auto", "--density", "laplace"], "`--data` must be"),
    "density of its own": (["explain", "own.tav", "--data", "rows.csv", "--target", "y"], "own.tav has one of its own"),
    "library": (["bench", "weka"], "one of xgboost, lightgbm, catboost, sklearn, got 'weka'"),
    "command": (["expand"], "No such command 'expand'"),
    "option": (["explain", "model.json", "--fast"], "No such option: --fast"),
}  # fmt: skip


class Evil:
    def __reduce__(self):
        return open, ("loaded.txt", "w")


@pytest.fixture
def bad_folder(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("model.json", "rows.csv", "fx.tav"):
        (tmp_path / name).symlink_to(folder / name)
    for name in ("junk.json", "junk.ubj", "junk.tav", "junk.pkl"):
        (tmp_path / name).write_text("{}")
    (tmp_path / "wrong.csv").write_text("a,z\n1,2\n")
    (tmp_path / "text.csv").write_text("a,b,c,city\nlow,2,3,Rome\n")
    (tmp_path / "short.csv").write_text("a,b,c,city\n")
    (tmp_path / "evil.pkl").write_bytes(pickle.dumps(Evil()))
    fx = treeanova.load(folder / "fx.tav")
    fx.with_density(lambda _, axes: np.ones([axis.size for axis in axes])).save(tmp_path / "own.tav")
    return tmp_path


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_status_2_one_line_and_no_file(case, bad_folder, capsys):
    arguments, message = BAD[case]
    before = sorted(bad_folder.iterdir())
    assert re.search(message, refused(arguments, capsys))
    assert sorted(bad_folder.iterdir()) == before


# Outputs that would replace what is read: two ways to name each input, and the inputs by other names.
WRITES = {
    "report on data": ["explain", "model.json", "--data", "rows.csv", "--out", "{}"],
    "archive on data": ["explain", "model.json", "--data", "rows.csv", "--save", "{}"],
    "table on data": ["table", "model.json", "--data", "rows.csv", "--term", "a", "--csv", "{}"],
    "report on model": ["explain", "rows.csv", "--out", "{}"],
    "archive on model": ["explain", "rows.csv", "--save", "{}"],
    "table on model": ["table", "rows.csv", "--term", "a", "--csv", "{}"],
}


def other_names(folder):
    """Paths of rows.csv: as it is, from a folder below, absolute, through both kinds of links."""
    (folder / "below").mkdir()
    (folder / "soft.csv").symlink_to("rows.csv")
    (folder / "softer.csv").symlink_to(folder / "soft.csv")
    os.link(folder / "rows.csv", folder / "hard.csv")
    (folder / "linked").symlink_to(".")
    return [
        "rows.csv", "./rows.csv", "below/../rows.csv", str(folder / "rows.csv"), "soft.csv", "softer.csv", "hard.csv",
        "linked/rows.csv",
    ]  # fmt: skip


@pytest.fixture
def own_folder(folder, tmp_path, monkeypatch):
    """Copies of a model and rows, in the working directory."""
    for name in ("model.json", "rows.csv", "fx.tav"):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
@pytest.mark.parametrize("case", WRITES)
def test_outputs_never_replace_inputs(case, own_folder, monkeypatch, capsys):
    monkeypatch.setattr(sources, "decomposed", None)  # no work is begun
    before = (own_folder / "rows.csv").read_bytes()
    option = "`MODEL`" if "model" in case else "`--data`"
    for name in other_names(own_folder):
        line = refused([part.format(name) for part in WRITES[case]], capsys)
        assert f"must be another file than {option}, got {Path(name)}, which would replace it; " in line
    assert (own_folder / "rows.csv").read_bytes() == before
    assert (own_folder / "soft.csv").is_symlink()


@pytest.mark.parametrize(
    ("out", "save"), [("f", "f"), ("f", "./f"), ("f", "below/../f"), ("f", "F"), ("old", "old"), ("old", "link")]
)
def test_two_outputs_are_two_files(out, save, own_folder, monkeypatch, capsys):
    monkeypatch.setattr(sources, "decomposed", None)
    (own_folder / "below").mkdir()
    (own_folder / "old").write_text("old")
    (own_folder / "link").symlink_to("old")
    line = refused(["explain", "fx.tav", "--out", out, "--save", save], capsys)
    assert f"`--out` and `--save` must be two files, got {out} for both; choose another name." in line
    assert (own_folder / "old").read_text() == "old"
    assert not (own_folder / "f").exists()


def test_a_file_that_only_differs_in_case_from_an_input_is_another_where_the_file_system_says_so(own_folder, capsys):
    is_same = (own_folder / "FX.TAV").exists()
    status = run(["explain", "fx.tav", "--save", "FX.TAV"])
    assert status == (2 if is_same else 0)
    assert treeanova.load("fx.tav") == treeanova.load("FX.TAV")


def test_files_that_are_no_input_are_replaced_as_before(own_folder, capsys):
    (own_folder / "old.csv").write_text("old")
    (own_folder / "link.csv").symlink_to("old.csv")
    told(["table", "fx.tav", "--term", "city", "--csv", "link.csv"], capsys)
    assert (own_folder / "link.csv").is_symlink()
    assert (own_folder / "old.csv").read_text().startswith("city,value,weight\n")
    told(["explain", "fx.tav", "--save", os.devnull], capsys)
    assert not os.path.isfile(os.devnull)  # noqa: PTH113  a device, and it stays one


OPENED = []
sys.addaudithook(lambda event, given: OPENED.append(str(given[0])) if event == "open" else None)  # cannot be removed


READS = {
    "explain a model": ["explain", "other.ubj", "--data", "rows.csv"],
    "table of a model": ["table", "other.ubj", "--data", "rows.csv", "--term", "a"],
    "compare densities": ["compare", "other.ubj", "--data", "rows.csv", "--density", "auto", "--density", "uniform"],
    "explain a saved one": ["explain", "fx.tav"],
    "compare a saved one": ["compare", "fx.tav"],
    "saved and other densities": ["compare", "fx.tav", "--density", "uniform", "--density", "auto"],
    "saved with rows": ["compare", "fx.tav", "--data", "rows.csv"],
    "both": ["compare", "fx.tav", "other.ubj", "--data", "rows.csv"],
}


@pytest.mark.parametrize("case", READS)
def test_models_are_read_once(case, folder, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    OPENED.clear()
    told(READS[case], capsys)
    opened = [name.rpartition("/")[2] for name in OPENED]
    for name in {"fx.tav", "other.ubj"} & set(READS[case]):
        assert opened.count(name) == 1


def test_a_saved_decomposition_is_compared_as_it_was_saved(folder, fx, capsys):
    found = json.loads(told(["compare", folder / "fx.tav", "--json"], capsys))
    assert found["names"] == ["auto", "uniform"]
    asked = json.loads(
        told(["compare", folder / "fx.tav", "--density", "uniform", "--density", "auto", "--json"], capsys)
    )
    assert asked["names"] == ["uniform", "auto"]
    expected = treeanova.compare({"uniform": fx.with_density("uniform"), "auto": fx}).distance
    distances = {row["term"]: row["distance"] for row in asked["distance"]}
    assert distances == pytest.approx(dict(zip(expected["term"], expected["distance"], strict=True)))


def test_distances_that_need_lost_rows_are_left_open(tmp_path, capsys):
    """A deep decomposition and its copy: tables are compared, terms at rows are listed without a distance."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(300, 3))
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1).fit(X, X.prod(axis=1))
    saved = treeanova.decompose(model, X, density="empirical", tensor_order=2)
    for name in ("a.tav", "b.tav"):
        saved.save(tmp_path / name)
    arguments = ["compare", tmp_path / "a.tav", tmp_path / "b.tav", "--density", "empirical"]
    found = json.loads(told([*arguments, "--json"], capsys))
    distances = {row["term"]: row["distance"] for row in found["distance"]}
    assert {term for term, distance in distances.items() if distance is None} == {"x0 × x1 × x2"}
    assert len(distances) == 7
    last = told(arguments, capsys).rstrip().splitlines()[-1]
    assert re.match(r"x0 × x1 × x2 +– +\d+ +\d+$", last)


@pytest.mark.parametrize("suffix", [".pkl", ".joblib"])
def test_a_trusted_pickle_is_the_model_in_it(suffix, rows, folder, tmp_path, capsys):
    joblib = pytest.importorskip("joblib")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = rows[0][["a", "b"]]
    model = ensemble.GradientBoostingRegressor(n_estimators=10, max_depth=2).fit(X, rows[1])
    path = tmp_path / f"model{suffix}"
    if suffix == ".pkl":
        path.write_bytes(pickle.dumps(model))
    else:
        joblib.dump(model, path)
    found = json.loads(told(["explain", path, "--data", folder / "rows.csv", "--trusted", "--json"], capsys))
    assert found["intercept"] == pytest.approx(treeanova.decompose(model, X).intercept)


def test_a_pickled_pipeline_that_changes_its_columns_is_refused(rows, folder, tmp_path, capsys):
    pytest.importorskip("sklearn")
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    model = make_pipeline(StandardScaler(), GradientBoostingRegressor(n_estimators=5)).fit(rows[0][["a", "b"]], rows[1])
    (tmp_path / "p.pkl").write_bytes(pickle.dumps(model))
    assert "Pipeline" in refused(["explain", tmp_path / "p.pkl", "--data", folder / "rows.csv", "--trusted"], capsys)


def test_faults_of_our_own_are_one_line_unless_asked_for(folder, monkeypatch, capsys):
    def broken(*_):
        raise RuntimeError("two\nlines")

    monkeypatch.setattr(sources, "decomposed", broken)
    line = refused(["explain", folder / "fx.tav"], capsys, status=1)
    assert "internal error, RuntimeError: two lines; TREEANOVA_TRACEBACK=1" in line
    monkeypatch.setenv("TREEANOVA_TRACEBACK", "1")
    assert run(["explain", str(folder / "fx.tav")]) == 1
    assert "Traceback (most recent call last)" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_warnings_are_one_line(folder, fx, monkeypatch, capsys):
    def warned(*_):
        warnings.warn("mind\nthis", UserWarning, stacklevel=1)
        return fx

    monkeypatch.setattr(sources, "decomposed", warned)
    assert run(["table", str(folder / "fx.tav"), "--term", "city"]) == 0
    assert capsys.readouterr().err == "treeanova: warning: mind this\n"


@pytest.mark.parametrize("arguments", [["explain", "--save", "new"], ["table", "--term", "a", "--csv", "new"]])
def test_a_stop_while_writing_leaves_the_old_file(arguments, folder, tmp_path, monkeypatch, capsys):
    import pathlib

    def stopped(*_):
        raise KeyboardInterrupt

    (tmp_path / "new").write_text("old")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(pathlib.Path, "replace", stopped)
    assert refused([arguments[0], folder / "fx.tav", *arguments[1:]], capsys, status=130) == "treeanova: stopped\n"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
    assert (tmp_path / "new").read_text() == "old"


# ---------------------------------------------------------------------------------------------------------------------
# Processes


def environment():
    kept = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    return {**kept, "COLUMNS": "100", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}


def test_a_pipe_gets_json_only_and_a_bad_run_status_2(folder):
    arguments = [*map(str, data(folder)), "--json"]
    good = subprocess.run(
        [*COMMAND, "explain", folder / "model.json", *arguments], capture_output=True, check=False, env=environment()
    )
    assert (good.returncode, good.stderr) == (0, b"")
    assert json.loads(good.stdout)["n_rows"] == 800
    bad = subprocess.run(
        [*COMMAND, "explain", folder / "none.json", *arguments], capture_output=True, check=False, env=environment()
    )
    assert (bad.returncode, bad.stdout, bad.stderr.count(b"\n")) == (2, b"", 1)


def test_a_closed_pipe_is_no_error(folder):
    command = [*COMMAND, "table", str(folder / "fx.tav"), "--term", "a,b", "--csv", "-"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment())
    process.stdout.close()
    with process.stderr as errors:
        assert errors.read() == b""
    assert process.wait(timeout=SECONDS) == 0


# Run before the command. The work never ends by itself, so that no machine is too fast or too busy to stop it.
WORKS_WITHOUT_END = """
from treeanova.cli import sources
once = sources.decompose
def endless(*given, **options):
    while True:
        once(*given, **options)
sources.decompose = endless
"""
# And writing waits before the file gets its name, with time enough to tidy up.
STOPS_WHEN_ALL_IS_WRITTEN_BUT_THE_NAME = """
import os, time
from treeanova.cli import terminal
terminal._SECONDS_TO_STOP += 60
os.fsync = lambda _: time.sleep(600)
"""


def next_shown(terminal):
    """What a terminal shows within a moment; None once nobody can write to it any more."""
    if not select.select([terminal], [], [], 0.05)[0]:
        return b""
    try:
        return os.read(terminal, 1024) or None
    except OSError:  # how Linux says it
        return None


def interrupted(folder, arguments, shows, *, leaves=lambda: True, before="pass"):
    """Status and output of a command on a terminal, stopped by Ctrl-C once it shows a text and a condition holds."""
    import pty

    code = f"{before}\nimport runpy, sys; sys.argv[0] = 'treeanova'; runpy.run_module('treeanova', run_name='__main__')"
    terminal, stderr = pty.openpty()
    command = [sys.executable, "-c", code, *map(str, arguments)]
    variables = {**environment(), "TERM": "xterm"}
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, stderr=stderr, env=variables) as process:
        os.close(stderr)
        shown = bytearray()

        def show_until(done, *, what):
            end = time.monotonic() + SECONDS
            while True:
                part = next_shown(terminal)
                shown.extend(part or b"")
                if done(part):
                    return
                if part is None or time.monotonic() > end:
                    how = "ended" if part is None else f"had {SECONDS} s and still ran"
                    pytest.fail(f"the command {how} before {what}; it showed:\n{shown.decode(errors='replace')}")

        try:
            show_until(lambda _: shows in shown and leaves(), what=f"it showed {shows!r} and left what it should")
            process.send_signal(signal.SIGINT)
            show_until(lambda part: part is None, what="it stopped")
            output, _ = process.communicate(timeout=SECONDS)
        finally:
            process.kill()
            os.close(terminal)
    return process.returncode, output


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and SIGINT are Unix")
def test_progress_on_a_terminal_and_ctrl_c_stops_the_work(tmp_path):
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(3000, 9)) + rng.normal(size=(3000, 1)), columns=list("abcdefghi"))
    model = xgboost.XGBRegressor(n_estimators=300, max_depth=6, n_jobs=1).fit(X, X.prod(axis=1))
    model.save_model(tmp_path / "slow.json")  # thousands of steps, each of them shown
    X.to_csv(tmp_path / "rows.csv", index=False)
    before = sorted(path.name for path in tmp_path.iterdir())
    arguments = ["explain", "slow.json", "--data", "rows.csv", "--save", "fx.tav", "--out", "report.html"]
    assert interrupted(tmp_path, arguments, b"orders", before=WORKS_WITHOUT_END) == (130, b"")
    assert sorted(path.name for path in tmp_path.iterdir()) == before


@pytest.mark.skipif(sys.platform == "win32", reason="pseudo-terminals and SIGINT are Unix")
@pytest.mark.parametrize(("option", "name"), [("--save", "fx.tav"), ("--out", "report.html")])
def test_ctrl_c_while_writing_leaves_the_old_file_alone(folder, tmp_path, option, name):
    if option == "--out":
        pytest.importorskip("vl_convert")
    (tmp_path / name).write_text("old")
    arguments = ["explain", folder / "model.json", *data(folder), option, name]
    found = interrupted(
        tmp_path,
        arguments,
        f"writing {name}".encode(),
        leaves=lambda: len(list(tmp_path.iterdir())) == 2,
        before=STOPS_WHEN_ALL_IS_WRITTEN_BUT_THE_NAME,
    )
    assert found == (130, b"")
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [(name, "old")]


def test_without_its_libraries_the_command_line_names_the_extra():
    code = "import sys, runpy; sys.modules['typer'] = None; runpy.run_module('treeanova', run_name='__main__')"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False, env=environment())
    assert found.returncode == 2
    assert found.stderr.count("\n") == 1
    assert "pip install 'treeanova[cli]'" in found.stderr
