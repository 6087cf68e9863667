"""read_model(): the right reader for objects and files, and clear errors for all others."""

from __future__ import annotations

import json
import subprocess
import sys

import numpy as np
import pytest

import treeanova
from tests.support.training import fit, shifted, train
from treeanova import read_model
from treeanova.errors import ModelFileError, UnsupportedModelError

sklearn_tree = pytest.importorskip("sklearn.tree")
X = np.arange(20.0)[:, None]


def stump():
    return fit(sklearn_tree.DecisionTreeRegressor(max_depth=1), X, X[:, 0] > 9)


@pytest.mark.parametrize("model", [object(), 3, {"trees": []}, np.zeros(3), None])
def test_a_class_that_is_not_known_gets_the_list_of_those_that_are(model):
    with pytest.raises(UnsupportedModelError, match="it reads models of XGBoost, LightGBM, CatBoost, scikit-learn"):
        read_model(model)


def test_subclasses_are_read_as_their_parents():
    class Mine(sklearn_tree.DecisionTreeRegressor):
        pass

    model = fit(Mine(max_depth=1), X, X[:, 0] > 9)
    np.testing.assert_array_equal(read_model(model).score(X)[:, 0], model.predict(X))


def test_a_path_that_is_no_file(tmp_path):
    for path in (tmp_path / "absent.json", str(tmp_path / "absent.txt")):
        with pytest.raises(FileNotFoundError, match="path of a saved one, no such file: "):
            read_model(path)


def test_a_folder_that_is_no_model(tmp_path):
    with pytest.raises(
        UnsupportedModelError, match=r"`model` must be a file that treeanova reads, got the folder .*test_"
    ):
        read_model(tmp_path)


def test_a_suffix_that_is_not_known(tmp_path):
    path = tmp_path / "model.mojo"
    path.write_bytes(b"x")
    with pytest.raises(UnsupportedModelError, match=r"`model` must be a file that treeanova reads, got .*model\.mojo"):
        read_model(path)


@pytest.mark.parametrize("text", ["", "{", "[1, 2]", json.dumps({"a": 1}), "\x00" * 100])
def test_json_of_neither_library(tmp_path, text):
    path = tmp_path / "model.json"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"model\.json must"):
        read_model(path)


def test_reading_a_file_imports_no_model_library(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    model = fit(xgboost.XGBRegressor(n_estimators=3, max_depth=2), X, X[:, 0])
    model.save_model(tmp_path / "model.ubj")
    code = (
        "import sys, treeanova; treeanova.read_model(sys.argv[1]);"
        "print([m for m in ('xgboost', 'lightgbm', 'catboost', 'sklearn', 'interpret', 'pandas') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "model.ubj")], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


def test_what_was_read_before_comes_back_as_it_is():
    forest = read_model(stump())
    assert read_model(forest) is forest


@pytest.mark.parametrize("depth", [5_000, 500_000])
def test_json_that_is_nested_too_deep(tmp_path, depth):
    path = tmp_path / "model.json"
    path.write_text('{"learner":' + "[" * depth + "]" * depth + "}", encoding="utf-8")
    with pytest.raises(ModelFileError, match=r"model\.json must be .*; file damaged\?"):
        read_model(path)


def model_texts():
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    y = X[:, 0]
    booster = train(lightgbm, {"min_data_in_leaf": 1, "verbosity": -1}, lightgbm.Dataset(shifted(X), shifted(y)), 5)
    boosted = fit(xgboost.XGBRegressor(n_estimators=3), X, y)
    return [booster.model_to_string(), boosted.get_booster().save_raw("json").decode()]


def test_the_text_of_a_model_is_no_path():
    for text in model_texts():
        for call in (read_model, treeanova.decompose, treeanova.plan):
            with pytest.raises(UnsupportedModelError, match=r"got a text .*; write it to a file .* and pass the path"):
                call(text)


def test_a_name_that_is_too_long_for_a_path():
    with pytest.raises(FileNotFoundError, match="no such file: 'mmm"):
        read_model("m" * 100_000)


def test_a_file_whose_name_begins_like_json(tmp_path, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    monkeypatch.chdir(tmp_path)
    model = fit(xgboost.XGBRegressor(n_estimators=3), X, X[:, 0])
    model.save_model("{a}.json")
    np.testing.assert_allclose(read_model("{a}.json").score(X)[:, 0], model.predict(X), rtol=1e-5)


GARBAGE = {
    "model.json": b'{"learner": {}, "version": [3, 2, 0]}',
    "cat.json": b'{"trees": []}',
    "model.ubj": b"{L",
    "model.txt": b"tree\n",
    "model.cbm": b"CBM1",
    "model.onnx": b"\x3a\x05",
    "model.tl": b"\4\0\0\0",
    "model.pmml": b"<PMML>",
    "model.pkl": b"\x80",
    "model.joblib": b"\x80",
    "model.skops": b"PK",
    "model.xyz": b"x",
    "top.json": b"[1",
    "other.json": b"{}",
}


@pytest.mark.parametrize("name", GARBAGE)
def test_errors_name_the_file_as_it_was_given(tmp_path, monkeypatch, name):
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / name).write_bytes(GARBAGE[name])
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ModelFileError, UnsupportedModelError), match=f"folder/{name}"):
        read_model(f"folder/{name}", trusted=True)


@pytest.mark.parametrize("names", [["metadata"], ["data_spec.pb", "header.pb"]])
def test_errors_name_the_folder_as_it_was_given(tmp_path, monkeypatch, names):
    for name in names:
        (tmp_path / "outer" / "model" / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path)
    with pytest.raises((ModelFileError, UnsupportedModelError), match="outer/model"):
        read_model("outer/model")
