"""The commands reasons and monotonicity: against scores of the model, and against the model on all cells."""

from __future__ import annotations

import json

import numpy as np
import pytest

import treeanova
from tests.support.command_line import printed, refused

pytest.importorskip("typer")
pytest.importorskip("rich")
pytest.importorskip("pandas")
pytest.importorskip("xgboost")


def test_reasons_add_up_to_the_difference_of_two_scores(folder, data, rows, capsys):
    scores = treeanova.read_model(folder / "model.json").score(rows[0])[:, 0]
    asked = ["reasons", folder / "model.json", *data, "--row", "13", "--reference", "4"]
    found = json.loads(printed([*asked, "--json"], capsys))
    assert found["baseline"] == "score of the reference"
    assert found["intercept"] == pytest.approx([scores[4]], abs=1e-9)
    assert found["score"] == pytest.approx([scores[13]], abs=1e-9)
    values = [row["value"] for row in found["terms"]]
    assert sum(values) == pytest.approx(scores[13] - scores[4], abs=1e-9)
    assert np.abs(values).tolist() == sorted(np.abs(values), reverse=True)
    text = printed([*asked, "--top", "1"], capsys)
    assert f"score of the reference {scores[4]:.4g}" in text
    assert text.splitlines()[3].startswith(found["terms"][0]["term"])
    n_zero = values.count(0.0)
    assert (f"\n{len(values) - n_zero - 1} more terms " in text) == (len(values) - n_zero > 1)
    assert text.endswith(f"\n{n_zero} terms add nothing\n") == (n_zero > 0)
    numbers = [line for line in printed(asked, capsys).splitlines()[3:] if "." in line]
    assert len({line.rindex(".") for line in numbers}) == 1  # decimals are below each other


def test_rows_in_several_files_are_refused_by_name(folder, rows, capsys, tmp_path):
    pytest.importorskip("pyarrow")
    rows[0].to_parquet(tmp_path / "0.parquet")
    message = refused(["reasons", folder / "fx.tav", "--data", tmp_path, "--row", "1"], capsys)
    assert "`--data` must be one file for the rows to explain, got several" in message


def test_terms_that_add_nothing_are_counted_only(folder, data, capsys):
    asked = ["reasons", folder / "model.json", *data, "--row", "13", "--reference", "13"]
    n_terms = len(json.loads(printed([*asked, "--json"], capsys))["terms"])
    assert printed(asked, capsys).endswith(f"\n\n{n_terms} terms add nothing\n")


def test_without_a_reference_a_row_is_compared_with_the_average(folder, data, rows, fx, capsys):
    found = json.loads(printed(["reasons", folder / "fx.tav", *data, "--row", "0", "--json"], capsys))
    assert found["baseline"] == "average"
    assert found["intercept"] == pytest.approx([fx.intercept], abs=1e-6)
    assert sum(row["value"] for row in found["terms"]) + found["intercept"][0] == pytest.approx(found["score"][0])


def test_monotonicity_is_that_of_the_model_on_a_fine_grid(folder, data, rows, capsys):
    found = json.loads(printed(["monotonicity", folder / "model.json", *data, "--feature", "c", "--json"], capsys))
    model = treeanova.read_model(folder / "model.json")
    frame = rows[0].iloc[np.repeat(np.arange(100), 60)].assign(c=np.tile(np.linspace(-4, 4, 60), 100))
    steps = np.diff(model.score(frame)[:, 0].reshape(100, 60), axis=1)
    is_rising, is_falling = bool((steps >= -1e-9).all()), bool((steps <= 1e-9).all())
    assert not is_rising or not is_falling
    direction = found["features"][0]["direction"]
    assert direction == "neither" or (direction == "increasing" and is_rising)
    assert direction != "neither" or not is_falling
    assert json.loads(printed(["monotonicity", folder / "model.json", "--feature", "c", "--json"], capsys)) == found
    text = printed(["monotonicity", folder / "model.json", *data, "--feature", "c", "--feature", "a"], capsys)
    assert f"c: {'neither increasing nor decreasing' if direction == 'neither' else direction}" in text
    assert "a: neither increasing nor decreasing" in text


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["reasons", "--row", "800"],
            "`--row` must be the number of a row, from 0 on, got 800; the data have 800 rows",
        ),
        (["reasons", "--row", "0", "--reference", "999"], "`--reference` must be the number of a row"),
        (["monotonicity", "--feature", "city"], "city"),
        (["monotonicity", "--feature", "nobody"], "nobody"),
    ],
)
def test_rows_and_features_that_are_not_there_are_refused(folder, data, words, message, capsys):
    rows = data if words[0] == "reasons" else []
    assert message in refused([words[0], folder / "fx.tav", *rows, *words[1:]], capsys)


# The density is that of a population, whoever else is in the file.


@pytest.fixture
def one_person(rows, tmp_path):
    """A file with row 13 alone, without the target."""
    rows[0].iloc[[13]].to_csv(tmp_path / "person.csv", index=False)
    return tmp_path / "person.csv"


def assert_reasons_of_row_13(arguments, fx, rows, capsys):
    found = json.loads(printed([*arguments, "--json"], capsys))
    explained = fx.explain(rows[0].iloc[[13]])
    expected = {label: float(values[0]) for label, values in explained.parts.items() if label != "intercept"}
    assert {row["term"]: row["value"] for row in found["terms"]} == pytest.approx(expected, abs=1e-12)
    assert max(map(abs, expected.values())) > 0.1


def test_reasons_of_a_saved_decomposition_do_not_depend_on_who_else_is_in_the_file(
    folder, data, rows, one_person, capsys
):
    saved = treeanova.load(folder / "fx.tav")
    for asked in ([*data, "--row", "13"], ["--data", one_person, "--row", "0"]):
        assert_reasons_of_row_13(["reasons", folder / "fx.tav", *asked], saved, rows, capsys)
    asked = ["reasons", folder / "fx.tav", "--data", one_person, "--row", "0", "--density", "empirical"]
    assert_reasons_of_row_13(asked, saved.with_density("empirical"), rows, capsys)


def test_reasons_of_a_model_need_the_rows_of_a_population(folder, rows, fx, one_person, capsys):
    asked = ["reasons", folder / "model.json", "--data", one_person, "--row", "0"]
    message = refused(asked, capsys)
    assert "`--data` must have rows of a population to compare the row with" in message
    assert "add --density-from FILE" in message
    population = ["--density-from", folder / "rows.csv", "--target", "y", "--target", "w"]
    assert_reasons_of_row_13([*asked, *population], fx, rows, capsys)
    assert "score of the reference" in printed([*asked, "--reference", "0"], capsys)
