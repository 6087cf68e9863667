"""What the pages say is read and refused: every reader has an entry, and every refusal listed is raised."""

from __future__ import annotations

import importlib
import importlib.util
import pathlib
import sys
import zipfile

import numpy as np
import pytest

import treeanova
from tests.support.training import fit, shifted, train
from treeanova.errors import UnsupportedModelError
from treeanova.readers import LIBRARIES, readable_models

ROOT = pathlib.Path(__file__).parents[2]
KEPT = pathlib.Path(__file__).parent / "models"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(60, 2)).round(1)
Y = X[:, 0] * X[:, 1]


def tool():
    spec = importlib.util.spec_from_file_location("write_catalogue", ROOT / "tools" / "write_catalogue.py")
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


catalogue = tool()


@pytest.mark.parametrize("name", catalogue.PAGES)
def test_pages_say_what_the_catalogue_says(name):
    text = (ROOT / name).read_text(encoding="utf-8")
    assert "<!-- catalogue: " in text
    assert catalogue.written(text) == text, "run: python tools/write_catalogue.py"


def test_every_reader_has_an_entry():
    assert sorted(entry.name for entry in catalogue.READ) == sorted(
        ["wrappers of scikit-learn", *(reader.title for reader in LIBRARIES)]
    )
    for module in ("wrappers", *(reader.module for reader in LIBRARIES)):
        assert callable(importlib.import_module(f"treeanova.readers.{module}").read)


def test_every_kind_of_file_is_named():
    named = {kind for entry in catalogue.READ for kind in entry.files}
    assert named == {".json", ".ubj", ".txt", ".cbm", ".onnx", ".tl", ".treelite", ".pmml", "folder"}
    assert all(suffix in readable_models() for suffix in named)


def test_every_refusal_is_of_a_library_that_is_read():
    assert {refusal.library for refusal in catalogue.REFUSED} <= {entry.name for entry in catalogue.READ}


# Models that are refused


def gblinear(tmp_path):
    xgboost = pytest.importorskip("xgboost")
    return train(xgboost, {"booster": "gblinear"}, xgboost.DMatrix(shifted(X), shifted(Y)), 2)


def linear_tree(tmp_path):
    lightgbm = pytest.importorskip("lightgbm")
    return train(lightgbm, {"linear_tree": True, "verbose": -1}, lightgbm.Dataset(shifted(X), shifted(Y)), 2)


def catboost_text(tmp_path):
    catboost, pd = pytest.importorskip("catboost"), pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 0], "t": np.where(X[:, 1] > 0, "good day", "bad night")})
    options = {"iterations": 3, "verbose": False, "allow_writing_files": False, "random_seed": 0}
    return fit(
        catboost.CatBoostClassifier(**options), catboost.Pool(shifted(table), shifted(Y > 0), text_features=["t"])
    )


def sklearn_model(name, **options):
    ensemble = pytest.importorskip("sklearn.ensemble")
    return fit(getattr(ensemble, name)(**options), X, Y > 0 if "Classifier" in name else Y)


def hard_votes(tmp_path):
    tree = pytest.importorskip("sklearn.tree").DecisionTreeClassifier(max_depth=2)
    return sklearn_model("VotingClassifier", estimators=[("a", tree), ("b", tree)])


def boosted_votes(tmp_path):
    boosted = pytest.importorskip("sklearn.ensemble").GradientBoostingClassifier(n_estimators=2)
    return sklearn_model("VotingClassifier", estimators=[("a", boosted), ("b", boosted)], voting="soft")


def mixing_pipeline(tmp_path):
    decomposition, pipeline = pytest.importorskip("sklearn.decomposition"), pytest.importorskip("sklearn.pipeline")
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor(max_depth=2)
    return fit(pipeline.make_pipeline(decomposition.PCA(), tree), X, Y)


def quantiles(tmp_path):
    module = pytest.importorskip("quantile_forest")
    return fit(module.RandomForestQuantileRegressor(n_estimators=2), X, Y)


def onnx_minimum(tmp_path):
    helper = pytest.importorskip("onnx.helper")
    onnx = pytest.importorskip("onnx")
    leaf = {name: [0] for name in ("treeids", "nodeids", "featureids", "truenodeids", "falsenodeids")}
    attributes = {f"nodes_{name}": value for name, value in leaf.items()} | {
        "nodes_values": [0.0],
        "nodes_modes": ["LEAF"],
        "target_treeids": [0],
        "target_nodeids": [0],
        "target_ids": [0],
        "target_weights": [1.0],
    }
    kind = {"domain": "ai.onnx.ml", "n_targets": 1, "aggregate_function": "MIN"}
    node = helper.make_node("TreeEnsembleRegressor", ["X"], ["Y"], **kind, **attributes)
    values = [
        helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [None, n]) for name, n in (("X", 2), ("Y", 1))
    ]
    graph = helper.make_graph([node], "trees", values[:1], values[1:])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("ai.onnx.ml", 3)])


def oblique(tmp_path):
    ydf, pd = pytest.importorskip("ydf"), pytest.importorskip("pandas")
    table = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": X[:, 0] + X[:, 1]})
    options = {"num_trees": 3, "split_axis": "SPARSE_OBLIQUE", "task": ydf.Task.REGRESSION}
    return fit(ydf.RandomForestLearner(label="y", **options), table, verbose=0)


def old_treelite(tmp_path):
    path = tmp_path / "model.tl"
    path.write_bytes(bytes([3, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0]))
    return path


def scaled_spark(tmp_path):
    pytest.importorskip("pyarrow")
    with zipfile.ZipFile(max(KEPT.glob("spark-*.zip"))) as archive:
        archive.extractall(tmp_path, [name for name in archive.namelist() if name.startswith("scaled/")])
    return tmp_path / "scaled"


def chained_pmml(tmp_path):
    with zipfile.ZipFile(KEPT / "pmml.zip") as archive:
        text = archive.read("sum.pmml").decode()
    path = tmp_path / "model.pmml"
    path.write_text(text.replace('multipleModelMethod="sum"', 'multipleModelMethod="modelChain"'), encoding="utf-8")
    return path


def pmml_with_dtd(tmp_path):
    path = tmp_path / "model.pmml"
    path.write_text('<!DOCTYPE PMML [<!ENTITY a "x">]><PMML>&a;</PMML>', encoding="utf-8")
    return path


# What is refused, how it is made, and what the error says.
REFUSED = {
    "`gblinear`": (gblinear, "gblinear"),
    "`linear_tree`": (linear_tree, "linear_tree"),
    "text and embedding features": (catboost_text, "text or embedding features"),
    "`AdaBoostRegressor`": (lambda _: sklearn_model("AdaBoostRegressor", n_estimators=2), "weighted median"),
    "`IsolationForest`": (lambda _: sklearn_model("IsolationForest", n_estimators=2), "mean path length"),
    "hard votes": (hard_votes, "counts votes for labels"),
    "votes and bags of boosted classifiers": (boosted_votes, "their mean is no sum over leaves"),
    "Pipelines that mix columns (PCA)": (mixing_pipeline, "PCA"),
    "quantiles": (quantiles, "a quantile over its trees"),
    "minima and maxima of trees": (onnx_minimum, "aggregate function MIN"),
    "oblique conditions": (oblique, "oblique"),
    "checkpoints of version 3": (old_treelite, "must be of version 4, got 3"),
    "other stages in a PipelineModel": (scaled_spark, "got StandardScalerModel"),
    "`modelChain` and other ensembles": (chained_pmml, "got multipleModelMethod='modelChain'"),
    "documents with a DTD": (pmml_with_dtd, "document type declaration"),
}


@pytest.mark.filterwarnings("ignore:.*`booster=gblinear` is deprecated")
@pytest.mark.parametrize("what", [refusal.what for refusal in catalogue.REFUSED])
def test_every_refusal_is_raised(what, tmp_path):
    make, message = REFUSED[what]
    model = make(tmp_path)
    with pytest.raises(UnsupportedModelError, match=message):
        treeanova.plan(model)


def test_no_refusal_is_tested_that_is_not_listed():
    assert set(REFUSED) == {refusal.what for refusal in catalogue.REFUSED}
