from __future__ import annotations

import json
import pickle
import sys

import pytest

import treeanova
from treeanova import readers
from treeanova.cli import sources
from treeanova.testing.command_line import printed, refused
from treeanova.testing.training import fit

pytest.importorskip("typer")
pytest.importorskip("rich")


def test_weights_and_orders_reach_the_decomposition(folder, rows, capsys, data):
    X, _, weights = rows
    arguments = ["explain", folder / "model.json", *data[:-2], "--weight", "w", "--density", "empirical"]
    found = json.loads(printed([*arguments, "--max-order", "1", "--json"], capsys))
    expected = treeanova.decompose(folder / "model.json", X, density="empirical", sample_weight=weights)
    assert found["intercept"] == pytest.approx(expected.intercept, abs=1e-9)
    mains = [row for row in found["terms"] if row["features"] is not None]
    assert {row["order"] for row in mains} == {1}
    assert len(mains) == 4
    assert len(found["terms"]) == 5  # and the rest of the model
    assert sum(row["share"] for row in found["terms"]) == pytest.approx(1)


def test_seconds_reach_the_decomposition(folder, capsys, data, monkeypatch):
    asked = []
    decompose = sources.decompose

    def listening(*arguments, seconds, **options):
        asked.append(seconds)
        return decompose(*arguments, seconds=seconds, **options)

    monkeypatch.setattr(sources, "decompose", listening)
    printed(["explain", folder / "model.json", *data, "--seconds", "30"], capsys)
    assert asked == [30]


def test_uniform_needs_no_rows(folder, capsys):
    found = json.loads(printed(["explain", folder / "model.json", "--density", "uniform", "--json"], capsys))
    expected = treeanova.decompose(folder / "model.json", density="uniform")
    assert found["n_rows"] is None
    assert found["intercept"] == pytest.approx(expected.intercept)


# Each model file is read once.

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
    printed(READS[case], capsys)
    opened = [name.rpartition("/")[2] for name in OPENED]
    for name in {"fx.tav", "other.ubj"} & set(READS[case]):
        assert opened.count(name) == 1


@pytest.mark.parametrize("kind", ["model", "pipeline"])
def test_a_pickled_model_is_read_once(kind, rows, own_folder, monkeypatch, capsys):
    pytest.importorskip("sklearn")
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    model = GradientBoostingRegressor(n_estimators=5, max_depth=2)
    model = fit((model if kind == "model" else make_pipeline(model)), rows[0][["a", "b"]], rows[1])
    (own_folder / "model.pkl").write_bytes(pickle.dumps(model))
    read, OPENED[:] = [], []
    find_reader = readers.find_reader
    monkeypatch.setattr(readers, "find_reader", lambda model: read.append(type(model).__name__) or find_reader(model))
    printed(["explain", "model.pkl", "--data", "rows.csv", "--trusted"], capsys)
    assert read == [type(model).__name__]
    assert [name for name in OPENED if name.endswith("model.pkl")] == ["model.pkl"]


@pytest.mark.parametrize("suffix", [".pkl", ".joblib"])
def test_a_trusted_pickle_is_the_model_in_it(suffix, rows, folder, tmp_path, capsys):
    joblib = pytest.importorskip("joblib")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = rows[0][["a", "b"]]
    model = fit(ensemble.GradientBoostingRegressor(n_estimators=10, max_depth=2), X, rows[1])
    path = tmp_path / f"model{suffix}"
    if suffix == ".pkl":
        path.write_bytes(pickle.dumps(model))
    else:
        joblib.dump(model, path)
    found = json.loads(printed(["explain", path, "--data", folder / "rows.csv", "--trusted", "--json"], capsys))
    assert found["intercept"] == pytest.approx(treeanova.decompose(model, X).intercept)


def test_a_pickled_pipeline_that_mixes_its_columns_is_refused(rows, folder, tmp_path, capsys):
    pytest.importorskip("sklearn")
    from sklearn.decomposition import PCA
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    model = fit(make_pipeline(PCA(), GradientBoostingRegressor(n_estimators=5)), rows[0][["a", "b"]], rows[1])
    (tmp_path / "p.pkl").write_bytes(pickle.dumps(model))
    assert "Pipeline" in refused(["explain", tmp_path / "p.pkl", "--data", folder / "rows.csv", "--trusted"], capsys)
