from __future__ import annotations

import json

import pytest

import treeanova
from tests.support.command_line import printed, refused

pytest.importorskip("typer")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")


def test_models_are_compared_and_a_saved_one_equals_its_model(folder, capsys, data):
    files = [folder / name for name in ("model.json", "fx.tav", "other.ubj")]
    found = json.loads(printed(["compare", *files, *data, "--density", "empirical", "--json"], capsys))
    assert found["names"] == ["model.json", "fx.tav", "other.ubj"]
    gaps = pd.DataFrame(found["distance"]).groupby("decomposition")["relative"].max()
    assert gaps["fx.tav"] < 1e-9
    assert gaps["other.ubj"] > 1e-3


def test_a_saved_decomposition_is_compared_as_it_was_saved(folder, fx, capsys):
    found = json.loads(printed(["compare", folder / "fx.tav", "--json"], capsys))
    assert found["names"] == ["auto", "uniform"]
    asked = json.loads(
        printed(["compare", folder / "fx.tav", "--density", "uniform", "--density", "auto", "--json"], capsys)
    )
    assert asked["names"] == ["uniform", "auto"]
    expected = treeanova.compare({"uniform": fx.with_density("uniform"), "auto": fx}).distance
    distances = {row["term"]: row["distance"] for row in asked["distance"]}
    assert distances == pytest.approx(dict(zip(expected["term"], expected["distance"], strict=True)))


def test_several_files_have_no_density_without_rows(folder, capsys):
    for files in (["model.json", "other.ubj"], ["fx.tav", "other.ubj"]):
        compare = ["compare", *(folder / name for name in files)]
        assert "`--data` must be given for the density auto, got no rows" in refused(compare, capsys)
        assert json.loads(printed([*compare, "--density", "uniform", "--json"], capsys))["names"] == files
