"""The commands change and gap: their numbers against the library's own answers, and what they refuse."""

from __future__ import annotations

import json

import numpy as np
import pytest

import treeanova
from tests.support.command_line import printed, refused
from tests.support.pages import ParsedPage
from tests.support.training import fit

pytest.importorskip("typer")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")
pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def halves(folder, rows, tmp_path_factory):
    """Files of the first and the second half of the rows, and the options that name them."""
    X, y, weights = rows
    table = X.assign(y=y, w=weights, side=np.where(X["a"] > 0, "right", "left"), flag=(X["b"] > 0).astype(int))
    made = tmp_path_factory.mktemp("halves")
    table.iloc[:400].to_csv(made / "old.csv", index=False)
    table.iloc[400:].to_csv(made / "new.csv", index=False)
    extra = [word for name in ("y", "w", "side", "flag") for word in ("--target", name)]
    return made, table, extra


def data_of(halves):
    made, _, extra = halves
    return ["--data-old", made / "old.csv", "--data-new", made / "new.csv", *extra]


def test_change_of_two_models_is_that_of_the_library(folder, halves, capsys):
    _, table, _ = halves
    old, new = (
        treeanova.decompose(folder / name, part)
        for name, part in (("model.json", table.iloc[:400]), ("other.ubj", table.iloc[400:]))
    )
    expected = treeanova.change(old, new)
    models = [folder / "model.json", folder / "other.ubj"]
    found = json.loads(printed(["change", *models, *data_of(halves), "--json"], capsys))
    assert [row["term"] for row in found["table"]] == expected.table["term"].tolist()
    for name in ("population", "model", "total"):
        assert found[name] == pytest.approx(getattr(expected, name), abs=1e-12)
        assert [row[name] for row in found["table"]] == pytest.approx(expected.table[name].tolist(), abs=1e-12)
    assert found["models"] == list(map(str, models))
    assert (found["old"], found["new"], found["scale"]) == ("model.json", "other.ubj", "prediction")
    text = printed(["change", *models, *data_of(halves), "--top", 2], capsys)
    assert f"change {expected.total:+.4g}: population {expected.population:+.4g}" in text
    assert f"{len(expected.table) - 3} more terms" in text


@pytest.mark.parametrize("name", ["model.json", "fx.tav"])
def test_one_model_changes_by_its_population(folder, halves, name, capsys):
    _, table, _ = halves
    found = json.loads(printed(["change", folder / name, folder / name, *data_of(halves), "--json"], capsys))
    score = treeanova.load(folder / "fx.tav").decision_function(table)
    assert found["total"] == pytest.approx(score[400:].mean() - score[:400].mean(), abs=1e-10)
    assert found["model"] == 0
    assert not found["files"]
    assert found["models"] == [str(folder / name)] * 2


def test_a_change_is_written_to_a_page(folder, halves, capsys, tmp_path):
    path = tmp_path / "change.html"
    command = ["change", folder / "fx.tav", folder / "fx.tav", *data_of(halves), "--out", path]
    assert json.loads(printed([*command, "--json"], capsys))["files"] == {"page": str(path)}
    assert ParsedPage(path.read_text(encoding="utf-8")).scripts == []


def test_rows_of_models_that_read_columns_differently(folder, halves, capsys, tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    made, table, extra = halves
    numbers = table[["a", "b", "c"]]
    xgboost = pytest.importorskip("xgboost")
    fit(xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1), numbers, table["y"]).save_model(
        tmp_path / "x.json"
    )
    model = fit(lightgbm.LGBMRegressor(n_estimators=5, max_depth=2, n_jobs=1, verbose=-1), numbers, table["y"])
    model.booster_.save_model(tmp_path / "l.txt")
    rows = ["--data-old", made / "old.csv", "--data-new", made / "new.csv", *extra, "--target", "city"]
    found = json.loads(printed(["change", tmp_path / "x.json", tmp_path / "l.txt", *rows, "--json"], capsys))
    before = treeanova.read_model(tmp_path / "x.json").score(numbers.iloc[:400]).mean()
    assert found["total"] == pytest.approx(model.predict(numbers.iloc[400:]).mean() - before, abs=1e-10)
    weighted = ["change", tmp_path / "x.json", tmp_path / "l.txt", *rows, "--weight", "w", "--json"]
    score = treeanova.read_model(tmp_path / "x.json").score(numbers.iloc[:400])[:, 0]
    before, after = (
        np.average(values, weights=table["w"].iloc[half])
        for values, half in ((score, slice(400)), (model.predict(numbers.iloc[400:]), slice(400, None)))
    )
    assert json.loads(printed(weighted, capsys))["total"] == pytest.approx(after - before, abs=1e-10)


def test_change_needs_both_sets_of_rows(folder, halves, capsys):
    made, _, _ = halves
    message = refused(["change", folder / "model.json", folder / "model.json", "--data-old", made / "old.csv"], capsys)
    assert "--data-new" in message
    message = refused(["change", folder / "model.json", "none.json", *data_of(halves)], capsys)
    assert "no such file: 'none.json'" in message
    out = ["--out", made / "old.csv"]
    assert "would replace it" in refused(
        ["change", folder / "model.json", folder / "model.json", *data_of(halves), *out], capsys
    )


def gap_options(halves, *more):
    made, _, extra = halves
    return ["--data", made / "old.csv", *extra, *more]


def test_gap_is_that_of_the_library(folder, halves, capsys, tmp_path):
    _, table, _ = halves
    rows = table.iloc[:400]
    expected = treeanova.decompose(folder / "model.json", rows).gap(rows, "side")
    options = gap_options(halves, "--group", "side")
    found = json.loads(printed(["gap", folder / "model.json", *options, "--json"], capsys))
    assert (found["groups"], found["sizes"], found["routes"]) == (["left", "right"], list(expected.sizes), None)
    assert found["total"] == pytest.approx(expected.total, abs=1e-12)
    assert [row["gap"] for row in found["table"]] == pytest.approx(expected.table["gap"].tolist(), abs=1e-12)
    assert [row["error"] for row in found["table"]] == pytest.approx(expected.table["error"].tolist(), abs=1e-12)
    text = printed(["gap", folder / "model.json", *options, "--out", tmp_path / "gap.html"], capsys)
    assert f"gap {expected.total:+.4g}, standard error {expected.error:.2g}" in text
    assert "wrote" in text


SEVERAL_FILES = [
    (name, option, column, pattern)
    for name, option, column in (("gap", "--group", "side"), ("validate", "--target", "y"))
    for pattern in ("", "*.parquet")
]


@pytest.mark.parametrize("asked", SEVERAL_FILES)
def test_rows_in_several_files_give_the_answer_of_one(folder, halves, asked, capsys, tmp_path):
    _, table, _ = halves
    pytest.importorskip("pyarrow")
    name, option, column, pattern = asked
    command = [name, folder / "fx.tav", option, column, "--weight", "w", "--json"]
    (tmp_path / "rows").mkdir()
    for number in range(2):
        table.iloc[200 * number : 200 * (number + 1)].to_parquet(tmp_path / "rows" / f"{number}.parquet")
    table.iloc[:400].to_parquet(tmp_path / "one.parquet")
    found, expected = (
        json.loads(printed([*command, "--data", data], capsys))
        for data in (tmp_path / "rows" / pattern, tmp_path / "one.parquet")
    )
    key = "table" if name == "gap" else "terms"
    assert len(found[key]) == len(expected[key]) > 0
    for row, other in zip(found[key], expected[key], strict=True):
        assert row == pytest.approx(other, abs=1e-9)
    message = refused([name, folder / "fx.tav", "--data", tmp_path / "rows", option, "none"], capsys)
    assert "none named 'none'" in message


def test_gap_of_weighted_rows_is_that_of_the_library(folder, halves, capsys):
    _, table, _ = halves
    rows = table.iloc[:400]
    fx = treeanova.decompose(folder / "model.json", rows, sample_weight=rows["w"])
    expected = fx.gap(rows, "side", sample_weight=rows["w"])
    options = gap_options(halves, "--group", "side", "--weight", "w")
    found = json.loads(printed(["gap", folder / "model.json", *options, "--json"], capsys))
    assert found["is_weighted"]
    assert [found["total"], found["error"]] == pytest.approx([expected.total, expected.error], abs=1e-12)
    assert [row["gap"] for row in found["table"]] == pytest.approx(expected.table["gap"].tolist(), abs=1e-12)
    assert expected.total != pytest.approx(fx.gap(rows, "side").total)
    assert f"({expected.sizes[0]} weighted rows)" in printed(["gap", folder / "model.json", *options], capsys)
    rome = rows[rows["city"].isin(["Rome", "Oslo"])]
    expected = fx.gap(rome, rome["city"] == "Rome", sample_weight=rome["w"])
    options = gap_options(halves, "--group", "city", "--value", "Rome", "--against", "Oslo", "--weight", "w", "--json")
    found = json.loads(printed(["gap", folder / "model.json", *options], capsys))
    assert found["total"] == pytest.approx(expected.total, abs=1e-12)


def test_gap_of_one_value_with_all_others_or_with_one(folder, halves, capsys):
    _, table, _ = halves
    rows = table.iloc[:400]
    score = treeanova.read_model(folder / "model.json").score(rows)[:, 0]
    city = rows["city"].to_numpy(dtype=object)
    options = gap_options(halves, "--group", "city", "--value", "Rome", "--json")
    found = json.loads(printed(["gap", folder / "model.json", *options], capsys))
    assert found["total"] == pytest.approx(score[city == "Rome"].mean() - score[city != "Rome"].mean(), abs=1e-10)
    assert found["groups"] == ["city other than Rome", "Rome"]
    assert found["routes"][0]["route"] == "city by itself"
    found = json.loads(printed(["gap", folder / "model.json", *options, "--against", "Oslo"], capsys))
    assert found["total"] == pytest.approx(score[city == "Rome"].mean() - score[city == "Oslo"].mean(), abs=1e-10)
    assert found["sizes"] == [(city == "Oslo").sum(), (city == "Rome").sum()]
    text = printed(["gap", folder / "model.json", *options[:-1]], capsys)
    others = json.loads(printed(["gap", folder / "model.json", *options], capsys))["routes"][2]
    is_said = "Dropping the terms of city would not remove its influence" in text
    assert is_said == (abs(others["gap"]) > 2 * others["error"])


def test_groups_named_by_numbers(folder, halves, capsys):
    options = gap_options(halves, "--group", "flag", "--feature", "b", "--json")
    found = json.loads(printed(["gap", folder / "model.json", *options], capsys))
    assert found["groups"] == ["flag = 0", "flag = 1"]
    assert [row["route"] for row in found["routes"]] == ["b by itself", "interactions of b", "other features"]


@pytest.fixture(scope="module")
def coded(folder, rows, tmp_path_factory):
    """The rows with columns of codes, as CSV and as Parquet; and the model's score of each row."""
    pytest.importorskip("pyarrow")
    made, X = tmp_path_factory.mktemp("coded"), rows[0].iloc[:300]
    place = np.arange(len(X)) % 3
    codes = {
        "code": np.array(["01", "1", "NA"], dtype=object)[place],
        "holed": np.array(["1", "2", None], dtype=object)[place],
        "size": np.array(["9", "10"], dtype=object)[place % 2],
        "yes": np.array(["True", "False"], dtype=object)[place % 2],
        "day": np.array(["2021-01-01", "2021-02-01"], dtype=object)[place % 2],
    }
    table = X.assign(**codes)
    table.to_csv(made / "rows.csv", index=False)
    whole = pd.Series([1, 2, None], dtype="Int64").take(place).set_axis(X.index)
    typed = {
        "holed": whole + 2**60,
        "small": whole,
        "yes": table["yes"] == "True",
        "day": pd.to_datetime(table["day"]),
    }
    table.drop(columns="code").assign(**typed).to_parquet(made / "rows.parquet")
    (made / "several").mkdir()
    table.drop(columns="code").assign(**typed).to_parquet(made / "several" / "1.parquet")
    return made, place, treeanova.read_model(folder / "model.json").score(X)[:, 0]


@pytest.mark.parametrize(
    "asked",
    [
        ("rows.csv", "code", "1", None, ([1], [0, 2])),
        ("rows.csv", "code", "01", "NA", ([0], [2])),
        ("rows.csv", "code", "01", "1", ([0], [1])),
        ("rows.csv", "holed", "1", "2", ([0], [1])),
        ("rows.csv", "yes", "true", None, ([0, 2], [1])),
        ("rows.csv", "size", None, None, ([1], [0, 2])),  # 9 comes before 10
        ("rows.parquet", "small", "1", "2", ([0], [1])),
        ("rows.parquet", "holed", 2**60 + 1, 2**60 + 2, ([0], [1])),  # one number as a float
        ("rows.parquet", "yes", "true", None, ([0, 2], [1])),
        ("rows.parquet", "day", "2021-01-01", None, ([0, 2], [1])),
        ("several", "day", "2021-01-01", None, ([0, 2], [1])),
        ("several", "small", "1", "2.0", ([0], [1])),
    ],
)
def test_groups_are_what_the_file_says(folder, coded, capsys, asked):
    name, column, value, against, places = asked
    made, place, score = coded
    options = [*(() if value is None else ("--value", value)), *(() if against is None else ("--against", against))]
    rows = ["--data", made / name, "--group", column, *options]
    found = json.loads(printed(["gap", folder / "fx.tav", *rows, "--json"], capsys))
    second, first = (np.isin(place, some) for some in places)
    assert found["sizes"] == [first.sum(), second.sum()]
    assert found["total"] == pytest.approx(score[second].mean() - score[first].mean(), abs=1e-10)


@pytest.mark.parametrize("name", ["rows.csv", "rows.parquet", "several"])
@pytest.mark.parametrize("options", [(), ("--value", "1")])
def test_rows_without_a_group_are_refused(folder, coded, capsys, name, options):
    column = "holed" if name == "rows.csv" else "small"
    message = refused(["gap", folder / "fx.tav", "--data", coded[0] / name, "--group", column, *options], capsys)
    assert f"`--group` must be known for all rows, got 100 of 300 missing in {column}; leave these rows out" in message


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--group", "city"], "a column of two values, or come with --value, got 3 in city (NA, Oslo, Rome)"),
        (["--group", "city", "--against", "Oslo"], "or come with --value"),
        (["--group", "city", "--value", "Bonn"], "`--value` must be a value of city, got 'Bonn'"),
        (["--group", "sex"], "must have the column 'sex'"),
        (["--group", "side", "--feature", "sex"], "`feature` must be a feature of the model or a family, got 'sex'"),
    ],
)
def test_groups_that_are_not_two_are_refused(folder, halves, options, message, capsys):
    assert message in refused(["gap", folder / "model.json", *gap_options(halves, *options)], capsys)


def test_gap_needs_rows(folder, capsys):
    assert "`--data` must be given" in refused(["gap", folder / "fx.tav", "--group", "a"], capsys)


def test_a_group_is_compared_with_another_one(folder, halves, capsys):
    made, _, extra = halves
    gap = ["gap", folder / "fx.tav", "--data", made / "old.csv", *extra, "--group", "flag", "--value", "1"]
    assert "`--against` must be another value than --value, got '1'" in refused([*gap, "--against", "1"], capsys)
    assert "got '1' for both" in refused([*gap, "--against", "1.0"], capsys)
