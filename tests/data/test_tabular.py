"""Tables from files: each library, format and kind of model gets the columns that the model was trained on."""

from __future__ import annotations

import importlib.util
import json

import numpy as np
import pytest

from tests.support.training import fit
from treeanova.data.columns import encode
from treeanova.data.features import Feature, Schema
from treeanova.data.files import LIBRARIES, read_column, read_table, records
from treeanova.readers import read_model

pd = pytest.importorskip("pandas")
FORMATS = ("rows.csv", "index.csv", "rows.tsv", "rows.csv.gz", "rows.parquet", "rows.feather", "rows.jsonl")


@pytest.fixture(scope="module")
def trained():
    """Rows with all traps: gaps, a category called NA, whole numbers and booleans as categories, missing categories."""
    rng = np.random.default_rng(0)
    n = 300
    X = pd.DataFrame(
        {
            "number": rng.normal(size=n),
            "with gap": np.where(rng.random(n) < 0.2, np.nan, rng.integers(0, 9, n)),
            "word": pd.Categorical(rng.choice(["a", "b,c", "NA"], n)),
            "whole": pd.Categorical(rng.choice([10, 20, 30], n)),
            "flag": pd.Categorical(rng.choice([True, False], n)),
        }
    )
    X.loc[5, "word"] = None
    X.loc[7, "whole"] = None
    y = (
        X["number"]
        + X["with gap"].fillna(3)
        + (X["word"] == "a")
        + 2 * (X["whole"].astype(float) == 20)
        + X["flag"].astype(float)
    )
    return X, y


@pytest.fixture(scope="module")
def folder(trained, tmp_path_factory):
    X, y = trained
    folder = tmp_path_factory.mktemp("rows")
    table = X.assign(target=y)
    table.to_csv(folder / "index.csv")
    table.to_csv(folder / "rows.csv", index=False)
    table.to_csv(folder / "rows.tsv", index=False, sep="\t")
    table.to_csv(folder / "rows.csv.gz", index=False)
    if "pyarrow" in installed():
        table.to_parquet(folder / "rows.parquet")
        table.to_feather(folder / "rows.feather")
    plain = table.astype(object).where(table.notna(), None).to_dict("records")
    (folder / "rows.jsonl").write_text("\n".join(json.dumps(row, default=lambda v: v.item()) for row in plain))
    return folder


def installed():
    return [name for name in LIBRARIES if importlib.util.find_spec(name)]


def lightgbm_model(trained, folder):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=20, max_depth=3, verbose=-1, min_child_samples=5, n_jobs=1)
    fit(model, *trained).booster_.save_model(folder / "model.txt")
    return read_model(folder / "model.txt").schema, trained[0]


def xgboost_model(trained, folder):
    xgboost = pytest.importorskip("xgboost")
    X, y = trained
    X = X.drop(columns="flag")
    fit(xgboost.XGBRegressor(n_estimators=20, max_depth=3, enable_categorical=True, n_jobs=1), X, y).save_model(
        folder / "model.json"
    )
    return read_model(folder / "model.json").schema, X


def sklearn_model(trained, folder):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = trained
    X = X.drop(columns="flag")
    model = fit(
        ensemble.HistGradientBoostingRegressor(max_iter=10, max_depth=3, categorical_features="from_dtype"), X, y
    )
    return read_model(model).schema, X


MODELS = {"lightgbm": lightgbm_model, "xgboost": xgboost_model, "sklearn": sklearn_model}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("model", MODELS)
def test_every_format_reaches_the_model_as_it_was_trained(model, library, trained, folder):
    if library not in installed():
        pytest.skip(f"no {library}")
    schema, X = MODELS[model](trained, folder)
    expected = encode(X, schema)
    for name in FORMATS:
        if not (folder / name).exists() or (name, library) == ("rows.feather", "polars"):
            continue  # polars refuses feather files of pandas' categories with gaps
        found = encode(read_table(folder / name, schema, drop=["target"], library=library), schema)
        assert np.array_equal(found, expected, equal_nan=True), name


@pytest.mark.parametrize("library", LIBRARIES)
def test_catboost_reads_categories_as_text(library, tmp_path):
    catboost = pytest.importorskip("catboost")
    pytest.importorskip(library)
    rng = np.random.default_rng(0)
    X = pd.DataFrame({"code": rng.choice(["1", "2", "10"], 200), "x": rng.normal(size=200)})
    y = (X["code"] == "10") * 2.0 + X["x"]
    options = {"iterations": 10, "depth": 2, "verbose": 0, "allow_writing_files": False, "one_hot_max_size": 10}
    model = fit(catboost.CatBoostRegressor(**options, cat_features=["code"], thread_count=1), X, y)
    model.save_model(str(tmp_path / "model.cbm"))
    schema = read_model(tmp_path / "model.cbm").schema
    X.to_csv(tmp_path / "rows.csv", index=False)
    X.assign(code=X["code"].astype(float)).to_csv(tmp_path / "floats.csv", index=False)  # 1.0, as pandas likes to write
    for name in ("rows.csv", "floats.csv"):
        found = encode(read_table(tmp_path / name, schema, library=library), schema)
        assert np.array_equal(found, encode(X, schema))
        assert (found[:, 0] < 3).all()


def test_one_column_is_read_as_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("w,a\n0.5,x\n1,y\n")
    assert read_column(tmp_path / "x.csv", "w").tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match=r"x\.csv must have the column 'v', got w, a"):
        read_column(tmp_path / "x.csv", "v")


def test_a_path_without_a_file_is_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"`path` must be a file with a table, no such file: '.*none\.csv'"):
        read_table(tmp_path / "none.csv")


def test_records_of_every_kind_of_table():
    columns = {"a": np.array([1.5, 2.0]), "b": ["x", "y"]}
    expected = [{"a": 1.5, "b": "x"}, {"a": 2.0, "b": "y"}]
    assert records(columns) == expected
    assert records(pd.DataFrame(columns)) == expected


@pytest.mark.parametrize("library", LIBRARIES)
def test_blanks_around_the_names_of_a_header_are_named(library, tmp_path):
    pytest.importorskip(library)
    path = tmp_path / "rows.csv"
    path.write_text("a, b, y\n1, 2, 3\n", encoding="utf-8")
    schema = Schema((Feature("a"), Feature("b")), named=True)
    message = "the column ' {}' has blanks around its name, rename it"
    with pytest.raises(ValueError, match="rows.csv must have the model's columns, .* 'b'; " + message.format("b")):
        read_table(path, schema, library=library)
    with pytest.raises(ValueError, match="must have the columns to leave out, .* 'y'; " + message.format("y")):
        read_table(path, drop=["y"], library=library)
    with pytest.raises(ValueError, match="must have the column 'y', .*; " + message.format("y")):
        read_column(path, "y", library=library)
