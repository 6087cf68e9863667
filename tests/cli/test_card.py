"""The command that writes a model card: the page of the rows that were asked for, and options that fit."""

from __future__ import annotations

import json

import pytest

import treeanova
from tests.support.command_line import printed, refused

pytest.importorskip("matplotlib")
pytest.importorskip("sklearn")


def test_the_page_is_that_of_the_function(folder, rows, tmp_path, capsys):
    X, y, weights = rows
    out = tmp_path / "card.html"
    options = ["--data", folder / "rows.csv", "--target", "y", "--weight", "w", "--terms", 2]
    text = printed(["card", folder / "fx.tav", *options, "--out", out], capsys)
    fx = treeanova.load(folder / "fx.tav")
    assert text == f"fx.tav: {len(fx)} terms\n\nwrote {out}\n"
    expected = treeanova.write_card(
        fx, tmp_path / "same.html", X, y.to_numpy(), sample_weight=weights, max_terms=2, title="fx.tav"
    )
    assert out.read_text(encoding="utf-8") == expected.read_text(encoding="utf-8")


def test_a_model_file_and_baselines(folder, tmp_path, capsys):
    out = tmp_path / "card.html"
    options = ["--data", folder / "rows.csv", "--target", "y", "--weight", "w", "--terms", 1]
    answer = json.loads(
        printed(
            ["card", folder / "model.json", *options, "--baselines", folder / "rows.csv", "--out", out, "--json"],
            capsys,
        )
    )
    assert answer == {"model": "model.json", "files": {"card": str(out)}}
    page = out.read_text(encoding="utf-8")
    assert "linear regression" in page
    assert "to 800 rows for comparison" in page


def test_options_that_say_nothing_are_refused(folder, tmp_path, capsys):
    start = ["card", folder / "fx.tav", "--out", tmp_path / "card.html"]
    assert "`--data` must be left out" in refused([*start, "--data", folder / "rows.csv"], capsys)
    assert "`--baselines` must come with --target" in refused([*start, "--baselines", folder / "rows.csv"], capsys)
    assert "no such file" in refused([*start, "--baselines", tmp_path / "none.csv"], capsys)
    assert "must end in .html" in refused([*start[:-1], tmp_path / "card.pdf"], capsys)
