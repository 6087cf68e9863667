"""Readers of the package: the library of a model by its class, of a JSON file by its content."""

from __future__ import annotations

import json

import pytest

from treeanova.readers import LIBRARIES, json_keys


def recognising(model):
    return [reader.library for reader in LIBRARIES if reader.recognises(model)]


def trained():
    """Models of every library; wrappers are also estimators of scikit-learn."""
    yield "sklearn", pytest.importorskip("sklearn.tree").DecisionTreeRegressor()
    yield "xgboost", pytest.importorskip("xgboost").XGBRegressor()
    yield "lightgbm", pytest.importorskip("lightgbm").LGBMRegressor()
    yield "catboost", pytest.importorskip("catboost").CatBoostRegressor()
    yield "interpret", pytest.importorskip("interpret.glassbox").ExplainableBoostingRegressor()


def test_one_reader_recognises_a_model_and_models_derived_from_it():
    for library, model in trained():
        assert recognising(model) == [library]
        derived = type("Mine", (type(model),), {})
        assert recognising(derived.__new__(derived)) == [library]


@pytest.mark.parametrize(
    ("name", "content", "libraries"),
    [
        ("m.ubj", "", ["xgboost"]),
        ("m.TXT", "", ["lightgbm"]),
        ("m.cbm", "", ["catboost"]),
        ("m.json", '{"learner": 1}', ["xgboost"]),
        ("m.json", '{"oblivious_trees": 1}', ["catboost"]),
        ("m.json", '{"trees": 1, "a": 2}', ["catboost"]),
        ("m.json", '["learner"]', []),
        ("m.onnx", "", ["onnx"]),
        ("m.tl", "", ["treelite"]),
        ("m.pmml", "", ["pmml"]),
        ("m.mojo", "", []),
    ],
)
def test_files_are_recognised_by_suffix_and_names(name, content, libraries, tmp_path):
    path = tmp_path / name
    path.write_text(content)
    assert recognising(path) == libraries


def test_a_file_that_has_changed_is_read_again(tmp_path):
    path = tmp_path / "m.json"
    for keys in ({"a": 1}, {"a": 1, "b": 2}):
        path.write_text(json.dumps(keys))
        assert json_keys(path) == set(keys)
