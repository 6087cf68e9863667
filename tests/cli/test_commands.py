from __future__ import annotations

import json
import pickle
import re

import numpy as np
import pytest

import treeanova
from tests.support.command_line import printed, refused

pytest.importorskip("typer")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")

from tests.support.training import fit  # noqa: E402
from treeanova.cli import commands  # noqa: E402


def test_explain_as_json_is_the_decomposition(folder, fx, capsys, data):
    found = json.loads(printed(["explain", folder / "model.json", *data, "--json"], capsys))
    table = fx.importance()
    assert [row["term"] for row in found["terms"]] == table["term"].tolist()
    assert [row["share"] for row in found["terms"]] == pytest.approx(table["share"].tolist())
    assert found["intercept"] == pytest.approx(fx.intercept)
    assert (found["n_rows"], found["density"], found["certificate"]["pure"]) == (800, "auto", True)
    assert {tuple(row["features"]) for row in found["terms"]} == set(fx.terms)
    assert found["files"] == {}


def test_files_that_explain_writes_are_whole(folder, rows, tmp_path, capsys, data):
    pytest.importorskip("vl_convert")
    files = ["--out", tmp_path / "r.html", "--save", tmp_path / "fx.tav"]
    found = json.loads(printed(["explain", folder / "model.json", *data, *files, "--json"], capsys))
    assert found["files"] == {"decomposition": str(tmp_path / "fx.tav"), "report": str(tmp_path / "r.html")}
    saved = treeanova.load(tmp_path / "fx.tav")
    score = treeanova.read_model(folder / "model.json").score(rows[0])[:, 0]
    assert np.allclose(saved.decision_function(rows[0]), score, rtol=0, atol=1e-12)
    assert "model.json" in (tmp_path / "r.html").read_text(encoding="utf-8")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["fx.tav", "r.html"]


def test_a_table_is_that_of_the_term(folder, fx, tmp_path, capsys, data):
    expected = fx.table(("a", "b"))
    cells = json.loads(printed(["table", folder / "fx.tav", "--term", "b,a", "--json"], capsys))
    assert [cell["value"] for cell in cells] == pytest.approx(expected["value"].tolist())
    assert cells[0]["a_low"] is None  # minus infinity, which JSON lacks
    csv = printed(["table", folder / "fx.tav", "--term", "a x b", "--csv", "-"], capsys)
    assert printed(["table", folder / "fx.tav", "--term", "a × b", "--csv", "-"], capsys) == csv
    printed(["table", folder / "fx.tav", "--term", "a, b", "--csv", tmp_path / "ab.csv"], capsys)
    assert (tmp_path / "ab.csv").read_text(encoding="utf-8") == csv
    pd.testing.assert_frame_equal(pd.read_csv(tmp_path / "ab.csv"), expected, check_exact=False, rtol=1e-12)
    raw = json.loads(printed(["table", folder / "model.json", *data, "--term", "a,b", "--raw", "--json"], capsys))
    assert [cell["value"] for cell in raw] == pytest.approx(fx.raw.table(("a", "b"))["value"].tolist())


def test_a_table_for_people_has_all_labels_in_columns(folder, fx, capsys):
    caption, _, *lines = printed(["table", folder / "fx.tav", "--term", "city"], capsys).splitlines()
    assert caption == "city: value is the change in prediction against the average"
    assert lines[0].split() == ["city", "value", "weight"]
    labels = fx.terms["city"].axes[0].labels
    assert [line[: len(label)] for line, label in zip(lines[1:], labels, strict=True)] == list(labels)
    values = [float(line.split()[-2]) for line in lines[1:]]
    assert values == pytest.approx(fx.terms["city"].values.tolist(), rel=1e-4)


def test_the_report_is_opened_only_on_request(folder, tmp_path, monkeypatch, capsys):
    pytest.importorskip("vl_convert")
    opened = []
    monkeypatch.setattr(commands.webbrowser, "open", opened.append)
    arguments = ["explain", folder / "fx.tav", "--out", tmp_path / "r.html"]
    printed(arguments, capsys)
    assert opened == []
    printed([*arguments, "--open"], capsys)
    assert opened == [(tmp_path / "r.html").as_uri()]


def test_help_names_every_command_and_option(capsys):
    for arguments in ([], ["--help"], ["-h"]):
        text = printed(arguments, capsys)
        assert all(name in text for name in ("explain", "table", "compare", "--version"))
    text = printed(["explain", "--help"], capsys)
    options = ("--data", "--density", "--target", "--out", "--save", "--max-order", "--open", "--json", "--trusted")
    assert all(option in text for option in options)
    assert printed(["--version"], capsys) == f"treeanova {treeanova.__version__}\n"


def test_all_commands_share_the_options_of_a_request(capsys):
    names = [command.callback.__name__ for command in commands.app.registered_commands]
    assert len(names) == 10
    for name in names:
        text = printed([name, "--help"], capsys)
        assert all(option in text for option in ("--density-from", "--weight", "--max-order", "--budget", "--trusted"))
        assert "<bool>" not in text.partition("--help")[0]
        assert "--data" in text
    text = " ".join(printed(["explain", "--help"], capsys).split())
    assert all(suffix in text for suffix in (".ubj", ".txt", ".cbm", ".onnx", ".pmml", ".tl", ".tav"))


def test_few_cells_of_a_table_are_the_largest(folder, fx, capsys):
    cells = json.loads(printed(["table", folder / "fx.tav", "--term", "a", "--top", "2", "--json"], capsys))
    values = fx.terms["a"].values
    largest = sorted(np.argsort(-np.abs(values), kind="stable")[:2])
    assert [cell["value"] for cell in cells] == pytest.approx(values[largest].tolist())
    text = printed(["table", folder / "fx.tav", "--term", "a", "--top", "2"], capsys)
    assert text.endswith(f"{len(values) - 2} more cells, with smaller values\n")


def test_the_table_of_a_category_that_is_a_formula_is_harmless(tmp_path, capsys):
    cities = pd.Categorical(np.tile(["=1+1", "@SUM(A1)", "Rome"], 50))
    X = pd.DataFrame({"-city": cities})
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=2, enable_categorical=True, n_jobs=1)
    treeanova.decompose(fit(model, X, cities.codes), X).save(tmp_path / "fx.tav")
    for target in ("-", tmp_path / "city.csv"):
        text = printed(["table", tmp_path / "fx.tav", "--term", "-city", "--csv", target], capsys)
    text = (tmp_path / "city.csv").read_text(encoding="utf-8")
    labels = [line.split(",")[0].partition(" or ")[0] for line in text.splitlines()]  # unseen ones go with any
    assert labels[:4] == ["'-city", "'=1+1", "'@SUM(A1)", "Rome"]


BAD = {
    "no model": (["explain", "none.json", "--data", "rows.csv"], "no such file: 'none.json'"),
    "no data": (["explain", "model.json", "--data", "none.csv"], "no such file: 'none.csv'"),
    "a device": (["explain", "model.json", "--data", "/dev/null"], "must be (a file that can be|the path)"),
    "data not given": (["explain", "model.json"], "`--data` must be given for the density auto"),
    "no rows in a saved one": (["explain", "bare.tav", "--density", "kernel"], "`--density-from` must be given"),
    "idle rows": (["explain", "fx.tav", "--data", "rows.csv"], "`--data` must be left out .* --density-from"),
    "rows twice": (["explain", "model.json", "--data", "rows.csv", "--density-from", "rows.csv"], "left out with"),
    "idle rows of a table": (["table", "fx.tav", "--term", "a", "--data", "rows.csv"], "`--data` must be left out"),
    "idle rows of a proof": (["monotonicity", "fx.tav", "--feature", "a", "--data", "rows.csv"], "must be left out"),
    "no rows of the density": (["explain", "fx.tav", "--density-from", "no.csv"], "`--density-from` must be the path"),
    "columns": (["explain", "model.json", "--data", "wrong.csv"], "got none named 'b', 'c', 'city'; it has a, z"),
    "text": (["explain", "model.json", "--data", "text.csv"], "column 'a' must hold numbers"),
    "no rows": (["explain", "model.json", "--data", "short.csv"], "at least one row"),
    "target": (["explain", "model.json", "--data", "rows.csv", "--target", "price"], "none named 'price'"),
    "weight": (["explain", "model.json", "--data", "rows.csv", "--weight", "v"], "`--weight` must name a column"),
    "density": (["explain", "model.json", "--data", "rows.csv", "--density", "smooth"], "uniform, .* got 'smooth'"),
    "density misspelt": (["explain", "model.json", "--data", "rows.csv", "--density", "Atuo"], "did you mean auto?"),
    "term misspelt": (["table", "fx.tav", "--term", "CTY"], r"got 'CTY'; did you mean city\? there are "),
    "no held-out rows": (["validate", "fx.tav", "--target", "y"], "`--data` must be given"),
    "no outcome": (["validate", "fx.tav", "--data", "rows.csv"], "`--target` must be given"),
    "damaged json": (["explain", "junk.json", "--data", "rows.csv"], "junk.json must"),
    "damaged ubj": (["explain", "junk.ubj", "--data", "rows.csv"], "junk.ubj must"),
    "damaged tav": (["explain", "junk.tav"], "junk.tav must be a whole file"),
    "unknown file": (["explain", "rows.csv", "--data", "rows.csv"], "a file that treeanova reads, got rows.csv"),
    "pickle": (["explain", "evil.pkl", "--data", "rows.csv"], "--trusted on the command line"),
    "damaged pickle": (["explain", "junk.pkl", "--data", "rows.csv", "--trusted"], "must be a whole pickle"),
    "folder": (["explain", "model.json", "--data", "rows.csv", "--out", "."], "got the folder"),
    "no folder": (["explain", "model.json", "--data", "rows.csv", "--save", "no/fx.tav"], "folder that exists"),
    "budget": (["explain", "model.json", "--data", "rows.csv", "--budget", "1e-6"], "`budget` must be at least about"),
    "term": (["table", "fx.tav", "--term", "a,d"], r"got 'a,d'; there are .*a,b"),
    "term of two lines": (["table", "fx.tav", "--term", "a\nb"], r"got 'a\\nb'; there are "),
    "no term": (["table", "fx.tav"], "Missing option '--term'"),
    "two forms": (["table", "fx.tav", "--term", "a", "--json", "--csv", "-"], "choose one"),
    "one part": (["compare", "model.json", "--data", "rows.csv", "--density", "auto"], "two models or two densities"),
    "one file twice": (["compare", "fx.tav", "fx.tav"], "must be different files, got fx.tav more than once; name it"),
    "other density": (["compare", "model.json", "--data", "rows.csv", "--density", "no"], "shrinkage, .*raw, got 'no'"),
    "nothing to open": (["explain", "model.json", "--data", "rows.csv", "--open"], "add --out"),
    "order": (["explain", "model.json", "--data", "rows.csv", "--max-order", "0"], "--max-order"),
    "seconds of a saved one": (["explain", "fx.tav", "--seconds", "5"], "must come with the file of a model"),
    "order of a saved one": (["explain", "bare.tav", "--max-order", "1"], "must come with --density-from"),
    "weights alone": (["explain", "fx.tav", "--weight", "w"], "`--weight` must come with --data"),
    "target alone": (["compare", "fx.tav", "--target", "y"], "`--target` must come with --data"),
    "density of no rows": (["compare", "bare.tav", "--density", "uniform", "--density", "laplace"], "-from` must be"),
    "rows of no density": (["compare", "model.json", "--density", "uniform", "--density", "auto"], "`--data` must be"),
    "density of its own": (["explain", "own.tav", "--density-from", "rows.csv"], "own.tav has a density of its own, "),
    "command": (["expand"], "No such command 'expand'"),
    "option": (["explain", "model.json", "--fast"], "No such option: --fast"),
}  # fmt: skip


class Evil:
    def __reduce__(self):
        return open, ("loaded.txt", "w")


@pytest.fixture(scope="module")
def bad_folder(folder, tmp_path_factory):
    bad = tmp_path_factory.mktemp("bad")
    for name in ("model.json", "rows.csv", "fx.tav"):
        (bad / name).symlink_to(folder / name)
    for name in ("junk.json", "junk.ubj", "junk.tav", "junk.pkl"):
        (bad / name).write_text("{}")
    (bad / "wrong.csv").write_text("a,z\n1,2\n")
    (bad / "text.csv").write_text("a,b,c,city\nlow,2,3,Rome\n")
    (bad / "short.csv").write_text("a,b,c,city\n")
    (bad / "evil.pkl").write_bytes(pickle.dumps(Evil()))
    fx = treeanova.load(folder / "fx.tav")
    fx.save(bad / "bare.tav", rows=False)
    fx.with_density(lambda _, axes: np.ones([axis.size for axis in axes])).save(bad / "own.tav")
    return bad


@pytest.mark.parametrize("case", BAD)
def test_bad_input_gives_status_2_one_line_and_no_file(case, bad_folder, monkeypatch, capsys):
    arguments, message = BAD[case]
    monkeypatch.chdir(bad_folder)
    before = sorted(bad_folder.iterdir())
    assert re.search(message, refused(arguments, capsys))
    assert sorted(bad_folder.iterdir()) == before


def test_validate_is_that_of_the_decomposition(folder, fx, rows, tmp_path, capsys):
    X, y, weights = rows
    noisy = y + np.random.default_rng(0).normal(size=len(y))
    X.assign(y=noisy, w=weights).to_csv(tmp_path / "held.csv")
    asked = ["--data", tmp_path / "held.csv", "--target", "y"]
    found = json.loads(printed(["validate", folder / "fx.tav", *asked, "--json"], capsys))
    expected = fx.validate(X, noisy)
    assert [row["term"] for row in found["terms"]] == list(expected.table["term"])
    for name in ("loss_change", "p_holm"):
        assert [row[name] for row in found["terms"]] == pytest.approx(list(expected.table[name]), rel=1e-6)
    weighted = json.loads(printed(["validate", folder / "fx.tav", *asked, "--weight", "w", "--json"], capsys))
    expected = fx.validate(X, noisy, sample_weight=weights)
    assert weighted["model_loss"] == pytest.approx(expected.model_loss)
    X.assign(y=noisy, w=np.arange(len(y)) < 60).astype({"w": float}).to_csv(tmp_path / "held.csv")
    text = printed(["validate", folder / "fx.tav", *asked, "--weight", "w"], capsys)
    assert "60 rows, squared error" in text
    X.assign(y=noisy).to_csv(tmp_path / "held.csv")
    text = printed(
        ["validate", folder / "model.json", *asked, "--density-from", folder / "rows.csv", "--top", 2], capsys
    )
    assert "800 rows, squared error" in text
    assert f"{len(fx.terms) - 2} more terms" in text
    assert text.index("How much worse is the loss without the term?") < text.index("Does the outcome follow the term")


def test_validate_takes_a_loss_and_groups(folder, fx, rows, tmp_path, capsys):
    X, y = rows[0][:320], rows[1][:320]
    noisy = y + np.random.default_rng(0).normal(size=len(y))
    X.assign(y=noisy, query=np.arange(len(y)) // 8).to_csv(tmp_path / "held.csv")
    asked = ["validate", folder / "fx.tav", "--data", tmp_path / "held.csv", "--target", "y", "--json"]
    found = json.loads(printed([*asked, "--loss", "pinball:0.9"], capsys))
    assert found["model_loss"] == pytest.approx(fx.validate(X, noisy, loss="pinball:0.9").model_loss)
    found = json.loads(printed([*asked, "--loss", "pairwise", "--group", "query"], capsys))
    expected = fx.validate(X, noisy, loss="pairwise", group=np.arange(len(y)) // 8)
    assert found["model_loss"] == pytest.approx(expected.model_loss)
    pairs = np.arange(len(y)) // 2
    codes = np.where(
        pairs % 2, pairs // 2, np.char.add("0", (pairs // 2).astype(str)).astype(object)
    )  # 0, 00, 1, 01, …
    X.assign(y=noisy, query=codes).to_csv(tmp_path / "codes.csv")
    coded = [tmp_path / "codes.csv" if part == tmp_path / "held.csv" else part for part in asked]
    found = json.loads(printed([*coded, "--loss", "pairwise", "--group", "query"], capsys))
    expected = fx.validate(X, noisy, loss="pairwise", group=pairs)
    assert found["model_loss"] == pytest.approx(expected.model_loss)
    with pytest.raises(ValueError, match="`group` must be known for all rows, got 1 of 320 missing"):
        fx.validate(X, noisy, loss="pairwise", group=[None, *pairs[1:]])
    assert "`--loss` must be one of squared" in refused([*asked, "--loss", "mse"], capsys)
    assert "`--group` must name the group of each row" in refused([*asked, "--loss", "pairwise"], capsys)


def test_validate_takes_both_ends_of_survival_times(folder, fx, rows, tmp_path, capsys):
    X, y, _ = rows
    low = np.exp(y / y.std())
    X.assign(low=low, high=np.where(np.arange(len(y)) % 2, low, np.inf)).to_csv(tmp_path / "held.csv")
    asked = ["validate", folder / "fx.tav", "--data", tmp_path / "held.csv", "--target", "low", "--target", "high"]
    found = json.loads(printed([*asked, "--loss", "aft:normal:1", "--json"], capsys))
    both = np.column_stack([low, np.where(np.arange(len(y)) % 2, low, np.inf)])
    assert found["model_loss"] == pytest.approx(fx.validate(X, both, loss="aft:normal:1").model_loss, rel=1e-6)


def test_validate_refuses_what_it_cannot_read(folder, capsys, tmp_path):
    asked = ["validate", folder / "fx.tav", "--data", folder / "rows.csv", "--target"]
    assert "must have the column 'z'" in refused([*asked, "z"], capsys)
    missing = refused([*asked, "y", "--density-from", tmp_path / "no.csv"], capsys)
    assert "`--density-from` must be the path of a file" in missing


@pytest.fixture
def parquet(rows, tmp_path):
    """A folder of three Parquet files with the rows, their target and weights."""
    pytest.importorskip("pyarrow")
    X, y, weights = rows
    folder = tmp_path / "parquet"
    folder.mkdir()
    whole = X.assign(y=y, w=weights)
    for number, start in enumerate((0, 300, 301)):
        stop = (300, 301, 800)[number]
        whole[start:stop].to_parquet(folder / f"{number}.parquet")
    return folder


@pytest.mark.parametrize("pattern", ["", "*.parquet"])
@pytest.mark.parametrize("weight", [[], ["--weight", "w"]])
def test_folders_and_patterns_of_parquet_are_the_rows(folder, parquet, capsys, pattern, weight):
    one = ["--data", folder / "rows.csv", "--target", "y", *(weight or ["--target", "w"])]
    several = ["--data", parquet / pattern, "--target", "y", *weight]
    expected, found = (
        json.loads(printed(["explain", folder / "model.json", *data, "--json"], capsys)) for data in (one, several)
    )
    assert found["n_rows"] == expected["n_rows"] == 800
    for ours, theirs in zip(found["terms"], expected["terms"], strict=True):
        assert ours["term"] == theirs["term"]
        assert ours["share"] == pytest.approx(theirs["share"], abs=1e-10)


@pytest.mark.parametrize("source", ["rows.csv", "parquet"])
def test_terms_at_rows_are_written_to_a_file(folder, parquet, rows, capsys, source):
    data = ["--data", folder / source if source == "rows.csv" else parquet, "--target", "y", "--target", "w"]
    out = parquet.with_name("terms.parquet")
    found = json.loads(printed(["explain", folder / "model.json", *data, "--rows-out", out, "--json"], capsys))
    assert found["files"] == {"rows": str(out)}
    table = pd.read_parquet(out)
    score = treeanova.read_model(folder / "model.json").score(rows[0])[:, 0]
    np.testing.assert_allclose(table["score"], score, atol=1e-12)
    np.testing.assert_allclose(table.drop(columns="score").sum(axis=1), score, atol=1e-12)


def test_rows_of_a_saved_decomposition_need_no_other_data(folder, parquet, rows, fx, capsys):
    out = parquet.with_name("terms.parquet")
    printed(["explain", folder / "fx.tav", "--rows", parquet, "--rows-out", out], capsys)
    np.testing.assert_allclose(pd.read_parquet(out)["c"], fx.term_values(rows[0], "c"), atol=1e-12)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--rows", "{parquet}"], "`--rows` must come with --rows-out"),
        (["--rows-out", "x.parquet"], "`--rows-out` must come with rows"),
        (["--rows", "{parquet}/none*", "--rows-out", "x.parquet"], "must be a pattern that matches Parquet files"),
        (["--data", "{folder}/none", "--density", "auto"], "`--data` must be the path of a file, no such file"),
        (["--rows", "{parquet}", "--rows-out", "{parquet}/x.parquet"], "`--rows-out` must be outside the folder"),
    ],
)
def test_rows_that_do_not_fit_are_refused(folder, parquet, capsys, options, message):
    words = [option.format(parquet=parquet, folder=folder) for option in options]
    assert message in refused(["explain", folder / "fx.tav", *words], capsys)


def test_a_weight_may_be_a_feature(folder, rows, tmp_path, capsys):
    X, y, _ = rows
    X = X.assign(b=X["b"].abs() + 0.1)
    X.assign(y=y).to_csv(tmp_path / "rows.csv", index=False)
    options = ["--data", tmp_path / "rows.csv", "--target", "y", "--weight", "b", "--density", "empirical", "--json"]
    found = json.loads(printed(["explain", folder / "model.json", *options], capsys))
    scores = treeanova.read_model(folder / "model.json").score(X)[:, 0]
    assert found["intercept"] == pytest.approx(np.average(scores, weights=X["b"]), abs=1e-6)
    out = ["--rows-out", tmp_path / "terms.parquet"]
    printed(["explain", folder / "model.json", *options, *out], capsys)
    message = refused(["explain", folder / "model.json", *options[:4], "--weight", "nope"], capsys)
    assert "`--weight` must name a column, got 'nope': rows.csv must have the column 'nope'" in message
