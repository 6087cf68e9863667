"""Tables from files: each library, format and kind of model gets the columns that the model was trained on."""

from __future__ import annotations

import bz2
import gzip
import json
import lzma
import shutil
import subprocess

import numpy as np
import pytest

from treeanova.data.columns import encode
from treeanova.data.features import Feature, IntegerCategory, Labels, Schema
from treeanova.data.tabular import LIBRARIES, read_column, read_table, records
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
    from importlib.util import find_spec

    return [name for name in LIBRARIES if find_spec(name)]


def lightgbm_model(trained, folder):
    lightgbm = pytest.importorskip("lightgbm")
    model = lightgbm.LGBMRegressor(n_estimators=20, max_depth=3, verbose=-1, min_child_samples=5, n_jobs=1)
    model.fit(*trained).booster_.save_model(folder / "model.txt")
    return read_model(folder / "model.txt").schema, trained[0]


def xgboost_model(trained, folder):
    xgboost = pytest.importorskip("xgboost")
    X, y = trained
    X = X.drop(columns="flag")
    xgboost.XGBRegressor(n_estimators=20, max_depth=3, enable_categorical=True, n_jobs=1).fit(X, y).save_model(
        folder / "model.json"
    )
    return read_model(folder / "model.json").schema, X


def sklearn_model(trained, folder):
    ensemble = pytest.importorskip("sklearn.ensemble")
    X, y = trained
    X = X.drop(columns="flag")
    model = ensemble.HistGradientBoostingRegressor(max_iter=10, max_depth=3, categorical_features="from_dtype").fit(
        X, y
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
    model = catboost.CatBoostRegressor(**options, cat_features=["code"], thread_count=1).fit(X, y)
    model.save_model(str(tmp_path / "model.cbm"))
    schema = read_model(tmp_path / "model.cbm").schema
    X.to_csv(tmp_path / "rows.csv", index=False)
    X.assign(code=X["code"].astype(float)).to_csv(tmp_path / "floats.csv", index=False)  # 1.0, as pandas likes to write
    for name in ("rows.csv", "floats.csv"):
        found = encode(read_table(tmp_path / name, schema, library=library), schema)
        assert np.array_equal(found, encode(X, schema))
        assert (found[:, 0] < 3).all()


@pytest.mark.parametrize("library", LIBRARIES)
def test_numbers_come_back_to_the_last_digit(library, tmp_path):
    pytest.importorskip(library)
    numbers = np.random.default_rng(1).normal(size=500) * 10.0 ** np.random.default_rng(2).integers(-20, 20, 500)
    (tmp_path / "x.csv").write_text("x\n" + "\n".join(map(repr, numbers.tolist())) + "\n")
    schema = Schema((Feature("x"),), named=True)
    assert np.array_equal(encode(read_table(tmp_path / "x.csv", schema, library=library), schema)[:, 0], numbers)


@pytest.mark.parametrize("library", LIBRARIES)
def test_words_for_missing_numbers_and_booleans_are_read(library, tmp_path):
    pytest.importorskip(library)
    (tmp_path / "x.csv").write_text("x,b\n1,True\nNA,False\n,\n nan,True\n-2.5,False\n")
    schema = Schema((Feature("x"), Feature("b")), named=True)
    found = encode(read_table(tmp_path / "x.csv", schema, library=library), schema)
    assert np.array_equal(found[:, 0], [1, np.nan, np.nan, np.nan, -2.5], equal_nan=True)
    assert np.array_equal(found[:, 1], [1, 0, np.nan, 1, 0], equal_nan=True)


@pytest.mark.parametrize("library", LIBRARIES)
def test_labels_that_look_like_something_else(library, tmp_path):
    pytest.importorskip(library)
    (tmp_path / "x.csv").write_text("a,b,c,d\nNA,1, left,2\nnone,0,right,0\n,1,left,\n")
    features = (
        Feature("a", Labels(("none", "NA"))),
        Feature("b", Labels((True, False))),  # 1 == True, so whole numbers are known
        Feature("c", Labels(("left", "right"))),
        Feature("d", IntegerCategory(3)),
    )
    schema = Schema(features, named=True)
    found = encode(read_table(tmp_path / "x.csv", schema, library=library), schema)
    expected = [[1, 0, 0, 2], [0, 1, 1, 0], [np.nan, 0, 0, np.nan]]
    assert np.array_equal(found, expected, equal_nan=True)


def packed_zst(text, path):
    tool = shutil.which("zstd")
    if tool is None:
        pytest.skip("no zstd")
    path.with_suffix("").write_bytes(text)
    subprocess.run([tool, "-q", str(path.with_suffix("")), "-o", str(path)], check=True)


PACKERS = {
    ".gz": lambda text, path: path.write_bytes(gzip.compress(text)),
    ".bz2": lambda text, path: path.write_bytes(bz2.compress(text)),
    ".xz": lambda text, path: path.write_bytes(lzma.compress(text)),
    ".zst": packed_zst,
}


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text_is_unpacked(suffix, tmp_path):
    if suffix == ".zst":
        pytest.importorskip("pyarrow")
    PACKERS[suffix](b"a;b\n1;2\n", tmp_path / f"x.csv{suffix}")
    assert records(read_table(tmp_path / f"x.csv{suffix}")) == [{"a": 1, "b": 2}]


def unnamed(n):
    return Schema(tuple(Feature(f"x{j}") for j in range(n)))


def test_an_index_saved_as_first_column_goes_unless_the_model_wants_it(tmp_path):
    (tmp_path / "x.csv").write_text(",a,b\n7,1,2\n8,3,4\n")
    assert encode(read_table(tmp_path / "x.csv", unnamed(2)), unnamed(2)).tolist() == [[1, 2], [3, 4]]
    assert encode(read_table(tmp_path / "x.csv", unnamed(3)), unnamed(3)).tolist() == [[7, 1, 2], [8, 3, 4]]
    named = Schema((Feature("Unnamed: 0"), Feature("b")), named=True)
    assert encode(read_table(tmp_path / "x.csv", named), named).tolist() == [[7, 2], [8, 4]]


def test_columns_with_blanks_match_names_with_underscores(tmp_path):
    (tmp_path / "x.csv").write_text("left side,b\n1,2\n")
    schema = Schema((Feature("b"), Feature("left_side")), named=True, underscores=True)
    assert encode(read_table(tmp_path / "x.csv", schema), schema).tolist() == [[2, 1]]


def test_one_column_is_read_as_numbers(tmp_path):
    (tmp_path / "x.csv").write_text("w,a\n0.5,x\n1,y\n")
    assert read_column(tmp_path / "x.csv", "w").tolist() == [0.5, 1.0]
    with pytest.raises(ValueError, match="must have the column 'v'"):
        read_column(tmp_path / "x.csv", "v")


BAD = {
    "names": ("x.csv", b"a,b\n1,2\n", "got none named 'x', 'y'; it has a, b"),
    "target": ("x.csv", b"x,y\n1,2\n", "got none named 'price' in x.csv; it has x, y"),
    "empty": ("x.csv", b"", "must start with a line of column names"),
    "headless": ("x.csv", b"1,2\n3,4\n", "got the numbers '1,2'"),
    "doubled": ("x.csv", b"x,x,y,price\n1,2,3,4\n", "each column once, got 'x' twice"),
    "format": ("x.xlsx", b"", "it reads .csv, .tsv, .parquet"),
    "damaged": ("x.parquet", b"junk", "must be a whole parquet file, got x.parquet"),
    "cut": ("x.csv.gz", gzip.compress(b"x,y\n1,2\n" * 99)[:-12], "must be a whole csv file"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_files_give_one_clear_line(case, tmp_path):
    name, content, message = BAD[case]
    (tmp_path / name).write_bytes(content)
    schema = Schema((Feature("x"), Feature("y")), named=True)
    drop = ["price"] if case in {"target", "doubled"} else []
    with pytest.raises(ValueError, match=message.replace("(", r"\(")) as caught:
        read_table(tmp_path / name, schema, drop=drop)
    assert "\n" not in str(caught.value)


def test_other_numbers_of_columns_than_a_model_without_names_has(tmp_path):
    (tmp_path / "x.csv").write_text("a,b,c\n1,2,3\n")
    with pytest.raises(
        ValueError, match=r"must have 2 columns, as the model knows no names, got 3: a, b, c; .*--target"
    ):
        read_table(tmp_path / "x.csv", unnamed(2))
    with pytest.raises(FileNotFoundError, match="which is none"):
        read_table(tmp_path / "none.csv")


def test_without_a_library_the_error_names_one(tmp_path, monkeypatch):
    import importlib.util

    (tmp_path / "x.csv").write_text("a\n1\n")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(ImportError, match="pip install polars"):
        read_table(tmp_path / "x.csv")


def test_records_of_every_kind_of_table():
    columns = {"a": np.array([1.5, 2.0]), "b": ["x", "y"]}
    expected = [{"a": 1.5, "b": "x"}, {"a": 2.0, "b": "y"}]
    assert records(columns) == expected
    assert records(pd.DataFrame(columns)) == expected
