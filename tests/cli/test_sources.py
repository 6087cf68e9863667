from __future__ import annotations

import builtins
import io
import json
import os
import pickle

import numpy as np
import pytest

import treeanova
from tests.support.command_line import printed, refused
from tests.support.training import fit
from treeanova import readers
from treeanova.cli import answers

pytest.importorskip("typer")
pytest.importorskip("rich")
pd = pytest.importorskip("pandas")


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
    decompose = answers.decompose

    def listening(*arguments, seconds, **options):
        asked.append(seconds)
        return decompose(*arguments, seconds=seconds, **options)

    monkeypatch.setattr(answers, "decompose", listening)
    printed(["explain", folder / "model.json", *data, "--seconds", "30"], capsys)
    assert asked == [30]


def test_uniform_needs_no_rows(folder, capsys):
    found = json.loads(printed(["explain", folder / "model.json", "--density", "uniform", "--json"], capsys))
    expected = treeanova.decompose(folder / "model.json", density="uniform")
    assert found["n_rows"] is None
    assert found["intercept"] == pytest.approx(expected.intercept)


# Which file gives the density.


@pytest.fixture(scope="module")
def some_rows(folder, rows, tmp_path_factory):
    """A file of the rows in which c is positive, with the target and weights, and these rows."""
    X, y, weights = rows
    table = X.assign(y=y, w=weights, side=np.where(X["b"] > 0, "right", "left"))[X["c"] > 0]
    path = tmp_path_factory.mktemp("some") / "some.csv"
    table.to_csv(path, index=False)
    extra = [word for name in ("y", "w", "side") for word in ("--target", name)]
    return path, table, extra


@pytest.fixture(scope="module")
def saved(folder):
    return treeanova.load(folder / "fx.tav")


@pytest.mark.parametrize("density", [None, "empirical"])
def test_other_rows_define_the_density_where_they_are_named(folder, saved, some_rows, density, capsys):
    path, table, extra = some_rows
    asked = ["--density-from", path, *extra, "--json", *([] if density is None else ["--density", density])]
    expected = saved.with_density(density or "auto", table).intercept
    for name in ("fx.tav", "model.json"):
        found = json.loads(printed(["explain", folder / name, *asked], capsys))
        assert found["intercept"] == pytest.approx(expected, abs=1e-9)
        assert found["n_rows"] == len(table)
    assert expected != pytest.approx(saved.intercept, abs=0.01)


def test_another_density_of_a_saved_decomposition_is_of_its_own_rows(folder, saved, capsys):
    found = json.loads(printed(["explain", folder / "fx.tav", "--density", "independent", "--json"], capsys))
    expected = saved.with_density("independent").importance()
    assert [row["variance"] for row in found["terms"]] == pytest.approx(expected["variance"].tolist())


def test_rows_to_explain_are_not_the_density(folder, saved, some_rows, capsys, tmp_path):
    pytest.importorskip("pyarrow")
    path, table, extra = some_rows
    asked = ["explain", folder / "fx.tav", "--data", path, *extra, "--rows-out", tmp_path / "terms.parquet", "--json"]
    assert json.loads(printed(asked, capsys))["intercept"] == saved.intercept
    written = pd.read_parquet(tmp_path / "terms.parquet")
    np.testing.assert_allclose(written["a × b"], saved.term_values(table, ("a", "b")), atol=1e-12)


def test_a_gap_is_told_by_the_terms_of_the_saved_decomposition(folder, saved, some_rows, capsys):
    path, table, extra = some_rows
    found = json.loads(printed(["gap", folder / "fx.tav", "--data", path, *extra, "--group", "side", "--json"], capsys))
    expected = saved.gap(table, "side").table
    assert [row["gap"] for row in found["table"]] == pytest.approx(expected["gap"].tolist(), abs=1e-12)


def test_a_change_is_told_by_the_terms_of_the_saved_decomposition(folder, saved, some_rows, capsys):
    path, table, _ = some_rows
    rows = ["--data-old", path, "--data-new", folder / "rows.csv", "--target", "y", "--target", "w"]
    found = json.loads(printed(["change", folder / "fx.tav", folder / "fx.tav", *rows, "--json"], capsys))
    everyone = pd.read_csv(folder / "rows.csv", keep_default_na=False, na_values={"c": [""]})
    expected = treeanova.change(saved, saved, X_old=table, X_new=everyone).table
    assert [row["population"] for row in found["table"]] == pytest.approx(expected["population"].tolist(), abs=1e-12)
    weighted = json.loads(
        printed(["change", folder / "fx.tav", folder / "fx.tav", *rows, "--weight", "w", "--json"], capsys)
    )
    scores = [saved.decision_function(one) for one in (table, everyone)]
    total = np.average(scores[1], weights=everyone["w"]) - np.average(scores[0], weights=table["w"])
    assert weighted["total"] == pytest.approx(total, abs=1e-9)


def test_saved_decompositions_are_compared_at_the_rows_given(folder, saved, some_rows, capsys):
    path, table, extra = some_rows
    asked = ["compare", folder / "fx.tav", "--data", path, *extra, "--json"]
    found = json.loads(printed(asked, capsys))
    assert found["names"] == ["auto", "uniform"]
    expected = treeanova.compare({"auto": saved, "uniform": saved.with_density("uniform")}, X=table).distance
    assert [row["distance"] for row in found["distance"]] == pytest.approx(expected["distance"].tolist(), abs=1e-12)
    with_model = json.loads(printed([*asked[:1], folder / "fx.tav", folder / "other.ubj", *asked[2:]], capsys))
    assert with_model["names"] == ["fx.tav", "other.ubj"]
    other = treeanova.decompose(folder / "other.ubj", table)
    expected = treeanova.compare({"one": saved, "two": other}, X=table).distance
    assert [row["distance"] for row in with_model["distance"]] == pytest.approx(expected["distance"].tolist(), abs=1e-9)


# Each model file is read once.


@pytest.fixture
def opened(monkeypatch):
    """Names of the files that are opened during a test."""
    names = []

    def listening(opens):
        def open_and_note(file, *arguments, **options):
            names.append(str(file).rpartition("/")[2])
            return opens(file, *arguments, **options)

        return open_and_note

    for module in (builtins, io, os):
        monkeypatch.setattr(module, "open", listening(module.open))
    return names


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
def test_models_are_read_once(case, folder, opened, monkeypatch, capsys):
    monkeypatch.chdir(folder)
    printed(READS[case], capsys)
    for name in {"fx.tav", "other.ubj"} & set(READS[case]):
        assert opened.count(name) == 1


@pytest.mark.parametrize("kind", ["model", "pipeline"])
def test_a_pickled_model_is_read_once(kind, rows, own_folder, opened, capsys):
    pytest.importorskip("sklearn")
    from sklearn.ensemble import GradientBoostingRegressor
    from sklearn.pipeline import make_pipeline

    model = GradientBoostingRegressor(n_estimators=5, max_depth=2)
    model = fit((model if kind == "model" else make_pipeline(model)), rows[0][["a", "b"]], rows[1])
    (own_folder / "model.pkl").write_bytes(pickle.dumps(model))
    opened.clear()
    read = []
    read_once = readers.read

    def counting(model, *, for_rows=False, **options):
        read.extend([type(model).__name__] * for_rows)  # steps of a pipeline are read without
        return read_once(model, for_rows=for_rows, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(readers, "read", counting)
        printed(["explain", "model.pkl", "--data", "rows.csv", "--trusted"], capsys)
    assert read == [type(model).__name__]
    assert opened.count("model.pkl") == 1


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
