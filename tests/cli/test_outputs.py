from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

import treeanova
from tests.support.command_line import printed, refused

pytest.importorskip("typer")
pytest.importorskip("rich")

from treeanova.cli import answers, run

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


@pytest.mark.skipif(sys.platform == "win32", reason="links need rights on Windows")
@pytest.mark.parametrize("case", WRITES)
def test_outputs_never_replace_inputs(case, own_folder, monkeypatch, capsys):
    monkeypatch.setattr(answers, "decomposed", None)  # no work is begun
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
    monkeypatch.setattr(answers, "decomposed", None)
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
    printed(["table", "fx.tav", "--term", "city", "--csv", "link.csv"], capsys)
    assert (own_folder / "link.csv").is_symlink()
    assert (own_folder / "old.csv").read_text().startswith("city,value,weight\n")
    printed(["explain", "fx.tav", "--save", os.devnull], capsys)
    assert not os.path.isfile(os.devnull)  # noqa: PTH113  a device, and it stays one


@pytest.mark.parametrize("output", [("--out", "x.pdf", ".html"), ("--save", "x.json", ".tav")])
def test_a_suffix_of_another_format_is_refused_before_any_work(output, own_folder, monkeypatch, capsys):
    option, name, suffix = output
    monkeypatch.setattr(answers, "decomposed", None)
    line = refused(["explain", "model.json", "--data", "rows.csv", option, name], capsys)
    assert f"`{option}` must end in {suffix}" in line
    assert not (own_folder / name).exists()


@pytest.mark.parametrize("option", ["--data", "--rows"])
def test_files_that_a_pattern_matches_are_not_replaced(option, own_folder, monkeypatch, capsys):
    pd = pytest.importorskip("pandas")
    pytest.importorskip("pyarrow")
    monkeypatch.setattr(answers, "decomposed", None)  # no work is begun
    (own_folder / "parts").mkdir()
    for name in ("p1", "p2"):
        pd.read_csv("rows.csv").to_parquet(own_folder / "parts" / f"{name}.parquet")
    (own_folder / "link.parquet").symlink_to(own_folder / "parts" / "p1.parquet")
    before = (own_folder / "parts" / "p1.parquet").read_bytes()
    for name in ("parts/p1.parquet", "parts/new.parquet", "link.parquet"):
        line = refused(["explain", "model.json", option, "parts/*.parquet", "--rows-out", name], capsys)
        assert f"`--rows-out` must be another file than those of `{option}`, got {Path(name)}, which " in line
    assert (own_folder / "parts" / "p1.parquet").read_bytes() == before
    assert not (own_folder / "parts" / "new.parquet").exists()
