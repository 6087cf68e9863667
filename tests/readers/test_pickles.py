"""Pickles are loaded only if the caller trusts them."""

from __future__ import annotations

import pathlib
import pickle
import sys
import zipfile

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova import read_model
from treeanova.errors import ModelFileError, UnsupportedModelError

sklearn_tree = pytest.importorskip("sklearn.tree")
X = np.arange(20.0)[:, None]


def stump():
    return fit(sklearn_tree.DecisionTreeRegressor(max_depth=1), X, X[:, 0] > 9)


@pytest.mark.parametrize("suffix", [".pkl", ".pickle", ".joblib", ".PKL"])
def test_pickles_are_refused_unless_trusted(tmp_path, suffix):
    path = tmp_path / f"model{suffix}"
    path.write_bytes(pickle.dumps(stump()))
    with pytest.raises(UnsupportedModelError, match="loading one runs any code that it contains; pass trusted=True"):
        read_model(path)
    np.testing.assert_array_equal(read_model(path, trusted=True).score(X)[:, 0], stump().predict(X))


class Bomb:
    def __reduce__(self):
        return (open, ("exploded", "w"))


def test_a_refused_pickle_is_not_loaded(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps(Bomb()))
    with pytest.raises(UnsupportedModelError, match="is a pickle"):
        read_model(path)
    assert not (tmp_path / "exploded").exists()


def test_a_damaged_pickle_is_told(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(b"junk")
    with pytest.raises(
        ModelFileError, match=r"model\.pkl must be a whole pickle that this Python can load, got Unpick"
    ):
        read_model(path, trusted=True)


@pytest.mark.parametrize("kind", [str, pathlib.Path])
def test_a_pickle_of_a_path_is_not_followed(tmp_path, kind):
    (tmp_path / "model.pkl").write_bytes(pickle.dumps(stump()))
    (tmp_path / "path.pkl").write_bytes(pickle.dumps(kind(tmp_path / "model.pkl")))
    with pytest.raises(ModelFileError, match=r"path\.pkl must be the pickle of a model, got text"):
        read_model(tmp_path / "path.pkl", trusted=True)


def test_files_of_joblib(tmp_path):
    joblib = pytest.importorskip("joblib")
    joblib.dump(stump(), tmp_path / "model.joblib")
    forest = read_model(tmp_path / "model.joblib", trusted=True)
    np.testing.assert_array_equal(forest.score(X)[:, 0], stump().predict(X))


def test_a_name_that_is_too_long_for_a_path():
    with pytest.raises(FileNotFoundError, match="no such file: 'mmm"):
        read_model("m" * 100_000 + ".pkl")


def test_files_of_skops_ask_for_trust_as_skops_does(tmp_path):
    skops = pytest.importorskip("skops.io")
    path = tmp_path / "model.skops"
    skops.dump(stump(), path)
    if skops.get_untrusted_types(file=path):
        with pytest.raises(UnsupportedModelError, match=r"types that skops does not trust: .*; pass trusted=True"):
            read_model(path)
    forest = read_model(path, trusted=True)
    np.testing.assert_array_equal(forest.score(X)[:, 0], stump().predict(X))
    fx = treeanova.decompose(path, X, trusted=True)
    np.testing.assert_allclose(fx.decision_function(X), stump().predict(X), rtol=1e-12, atol=1e-12)


def test_a_file_of_skops_with_trusted_types_only_needs_no_trust(tmp_path):
    skops = pytest.importorskip("skops.io")
    skops.dump(sklearn_tree.DecisionTreeRegressor(max_depth=1), tmp_path / "model.skops")
    with pytest.raises(UnsupportedModelError, match="cannot be read before training"):
        read_model(tmp_path / "model.skops")


@pytest.mark.parametrize("trusted", [False, True])
def test_a_damaged_file_of_skops_is_told(tmp_path, trusted):
    pytest.importorskip("skops.io")
    (tmp_path / "model.skops").write_bytes(b"junk")
    with pytest.raises(ModelFileError, match=r"model\.skops must be a whole file of skops"):
        read_model(tmp_path / "model.skops", trusted=trusted)


def test_files_of_skops_need_skops(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "skops.io", None)
    (tmp_path / "model.skops").write_bytes(b"junk")
    with pytest.raises(UnsupportedModelError, match="got no skops; install it"):
        read_model(tmp_path / "model.skops")


def test_modules_that_are_not_installed_are_named(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(b"cno_such_module\nModel\n.")
    with pytest.raises(
        UnsupportedModelError, match=r"model\.pkl needs the module no_such_module, which this Python does"
    ):
        read_model(path, trusted=True)


def test_a_small_file_of_skops_that_unpacks_to_a_large_one(tmp_path):
    pytest.importorskip("skops")
    path = tmp_path / "model.skops"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("schema.json", "{}")
        for k in range(4):
            archive.writestr(f"{k}.npy", bytes(1 << 25))
    assert path.stat().st_size < 1 << 18
    with pytest.raises(
        UnsupportedModelError, match=r"model\.skops must unpack to at most 100 times its size, got 134,217,"
    ):
        read_model(path)


def test_errors_about_a_pickled_model_name_the_file(tmp_path):
    path = tmp_path / "model.pkl"
    path.write_bytes(pickle.dumps({"no": "model"}))
    with pytest.raises(UnsupportedModelError, match=r"model\.pkl: `model` must be one that treeanova reads, got dict"):
        read_model(path, trusted=True)
