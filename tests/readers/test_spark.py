"""Spark ML: kept models, compared with what Spark predicted on, above and below every threshold."""

from __future__ import annotations

import json
import os
import pathlib
import shutil
import zipfile

import numpy as np
import pytest

import treeanova
from treeanova import read_model
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import class_probabilities, respond

pd = pytest.importorskip("pandas")
pa = pytest.importorskip("pyarrow")
pq = pytest.importorskip("pyarrow.parquet")
KEPT = sorted((pathlib.Path(__file__).parent / "models").glob("spark-*.zip"))
NAMES = ["boosted", "positions", "forest", "tree", "classes", "two"]


@pytest.fixture(scope="module", params=KEPT, ids=lambda path: path.stem)
def models(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp("spark")
    with zipfile.ZipFile(request.param) as archive:
        archive.extractall(folder)
    return folder


def rows_of(models, name):
    content = json.loads((models / "expected.json").read_text(encoding="utf-8"))[name]
    rows = content["rows"]
    table = pd.DataFrame(rows, columns=["a", "b", "c", "k"] if len(rows[0]) == 4 else None)
    return table, np.array(content["predicted"])


def predicted(forest, rows):
    score = forest.score(rows)
    if forest.schema.classes:
        return class_probabilities(forest.schema, score)
    return respond(forest.schema, score)[:, 0]


def test_two_layouts_are_kept():
    assert {path.stem.split(".")[0] for path in KEPT} >= {"spark-3", "spark-4"}


@pytest.mark.parametrize("name", NAMES)
def test_pipelines(models, name):
    rows, expected = rows_of(models, name)
    forest = read_model(models / name)
    assert forest.schema.names == ("a", "b", "c", "k")
    np.testing.assert_allclose(predicted(forest, rows), expected, rtol=1e-12, atol=1e-12)


def test_a_model_without_a_pipeline(models):
    rows, expected = rows_of(models, "bare")
    forest = read_model(models / "bare")
    assert (forest.schema.named, forest.schema.link) == (False, "probability")
    np.testing.assert_allclose(predicted(forest, rows.to_numpy()), expected, rtol=1e-12, atol=1e-12)


def test_classes_and_links(models):
    forest = read_model(models / "classes")
    assert forest.schema.classes == forest.schema.outputs == ("high", "low", "middle")
    assert read_model(models / "two").schema.link == "logit"
    assert read_model(models / "two").schema.classes == (0.0, 1.0)


def test_what_spark_refuses_is_refused(models):
    rows, _ = rows_of(models, "two")
    forest = read_model(models / "two")
    with pytest.raises(ValueError, match="column 'c' must hold categories of the model, got 'new'"):
        forest.score(rows.assign(c="new"))
    with pytest.raises(ValueError, match="column 'a' must have no missing values"):
        forest.score(rows.assign(a=np.nan))


def test_a_decomposition_adds_up(models):
    rows, expected = rows_of(models, "boosted")
    is_plain = np.isfinite(rows["a"]) & np.isfinite(rows["b"])
    fx = treeanova.decompose(models / "boosted", rows[is_plain])
    np.testing.assert_allclose(fx.decision_function(rows[is_plain]), expected[is_plain], rtol=1e-9, atol=1e-9)
    assert "c" in fx.feature_names_in_


def test_stages_that_change_columns_are_refused(models):
    with pytest.raises(UnsupportedModelError, match="got StandardScalerModel; decompose the last stage alone"):
        read_model(models / "scaled")
    last = max((models / "scaled" / "stages").iterdir())
    assert read_model(last).n_trees == 1


def test_other_models_are_refused(models):
    with pytest.raises(UnsupportedModelError, match=r"must be a Spark model of trees .* got VectorAssembler"):
        read_model(next((models / "boosted" / "stages").glob("*VectorAssembler*")))


def test_a_pipeline_without_stages(tmp_path):
    (tmp_path / "metadata").mkdir()
    text = '{"class": "org.apache.spark.ml.PipelineModel", "paramMap": {"stageUids": []}}'
    (tmp_path / "metadata" / "part-00000").write_text(text)
    with pytest.raises(ModelFileError, match="must be a folder of a Spark model, got one that cannot be parsed"):
        read_model(tmp_path)


def test_damaged_folders(tmp_path):
    (tmp_path / "metadata").mkdir()
    with pytest.raises(ModelFileError, match=r"with JSON in metadata/, got JSONDecodeError"):
        read_model(tmp_path)
    part = tmp_path / "metadata" / "part-00000"
    part.write_text('{"class": "org.apache.spark.ml.regression.DecisionTreeRegressionModel", "numFeatures": 1}')
    with pytest.raises(ModelFileError, match="must have Parquet files in data/"):
        read_model(tmp_path)
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "part-0.parquet").write_bytes(b"junk")
    with pytest.raises(ModelFileError, match="must hold whole Parquet files"):
        read_model(tmp_path)


# Hostile folders

LEAF = {"featureIndex": -1, "leftCategoriesOrThreshold": [], "numCategories": -1}
STUMP = [
    {
        "id": 0,
        "leftChild": 1,
        "rightChild": 2,
        "split": {**LEAF, "featureIndex": 0, "leftCategoriesOrThreshold": [0.5]},
    },
    {"id": 1, "leftChild": -1, "rightChild": -1, "split": LEAF},
    {"id": 2, "leftChild": -1, "rightChild": -1, "split": LEAF},
]


def folder_of(path, nodes=STUMP, **content):
    """A regression tree that predicts the numbers of its nodes."""
    top = {"class": "org.apache.spark.ml.regression.DecisionTreeRegressionModel", "numFeatures": 2, **content}
    for name in ("metadata", "data"):
        (path / name).mkdir(parents=True)
    (path / "metadata" / "part-00000").write_text(json.dumps(top))
    rows = [{**node, "prediction": float(node["id"]), "gain": 0.1, "impurityStats": [1.0, 2.0]} for node in nodes]
    pq.write_table(pa.Table.from_pylist(rows), path / "data" / "part-00000.parquet")
    return path


def changed(node, **entries):
    return [{**one, **entries} if one["id"] == node else one for one in STUMP]


def test_a_tree_by_hand(tmp_path):
    forest = read_model(folder_of(tmp_path / "model"))
    assert forest.score([[0.5, 0], [0.6, 0]]).ravel().tolist() == [1, 2]


CATEGORIES = {"featureIndex": 0, "leftCategoriesOrThreshold": [0.0], "numCategories": 3}


@pytest.mark.parametrize(
    ("nodes", "content", "message"),
    [
        (STUMP, {"numFeatures": 10**9}, "columns must have at most 1,000,000 entries, got 1,000,000,000"),
        (STUMP, {"numFeatures": 2.5}, "not a whole number: 2.5"),
        (
            changed(0, split={**CATEGORIES, "numCategories": 10**9}),
            {},
            "categories must have at most 1,048,576 entries",
        ),
        (changed(0, split={**CATEGORIES, "leftCategoriesOrThreshold": [3.0]}), {}, "must hold codes below 3"),
        (changed(0, split={**CATEGORIES, "leftCategoriesOrThreshold": [0.5]}), {}, "must hold codes below 3"),
        (changed(0, rightChild=-1), {}, "must have two children or none, got one"),
        (changed(0, leftChild=-2), {}, "must link nodes that exist"),
        (changed(1, id=7), {}, "must be numbered from 0 on"),
        (changed(0, leftChild=-1, rightChild=-1), {}, "must reach all of their nodes"),
        ([*STUMP, STUMP[2]], {}, "must be numbered from 0 on"),
    ],
)
def test_trees_that_spark_does_not_write(tmp_path, nodes, content, message):
    with pytest.raises(ValueError, match=message) as caught:
        read_model(folder_of(tmp_path / "model", nodes, **content))
    assert str(tmp_path / "model") in str(caught.value)


def test_one_node_a_million_times(tmp_path):
    path = folder_of(tmp_path / "model")
    table = pq.read_table(path / "data" / "part-00000.parquet")
    pq.write_table(table.take(np.full(1_000_000, 2)), path / "data" / "part-00000.parquet")
    with pytest.raises(ModelFileError, match=r"must hold a few bytes per node, got .* bytes for 1,000,000 rows"):
        read_model(path)


def pipeline_of(path, names):
    (path / "metadata").mkdir(parents=True)
    content = {"class": "org.apache.spark.ml.PipelineModel", "paramMap": {"stageUids": names}}
    (path / "metadata" / "part-00000").write_text(json.dumps(content))
    return path


@pytest.mark.parametrize("name", ["../../../outside", "a/b", "..", "", 3])
def test_stages_are_in_the_folder(tmp_path, name):
    folder_of(tmp_path / "outside")
    with pytest.raises(ModelFileError, match="stageUids must be names of folders"):
        read_model(pipeline_of(tmp_path / "model", [name]))


def test_links_and_pipes_are_not_followed(tmp_path):
    outside = folder_of(tmp_path / "outside")
    path = pipeline_of(tmp_path / "model", ["a"])
    (path / "stages").mkdir()
    (path / "stages" / "0_a").symlink_to(outside)
    with pytest.raises(ModelFileError, match=r"got a link or a special file \(stages/0_a\)"):
        read_model(path)
    (path / "stages" / "0_a").unlink()
    folder_of(path / "stages" / "0_a")
    assert read_model(path).n_trees == 1
    (path / "stages" / "0_a" / "metadata" / "part-00000").unlink()
    os.mkfifo(path / "stages" / "0_a" / "metadata" / "part-00000")
    with pytest.raises(ModelFileError, match="got a link or a special file"):
        read_model(path)


def test_stages_that_lead_to_themselves(tmp_path):
    path = pipeline_of(tmp_path / "model", ["a", "b"])
    (path / "stages").mkdir()
    for name in ("0_a", "1_b"):
        (path / "stages" / name).symlink_to(path)
    with pytest.raises(ModelFileError, match="got a link or a special file"):
        read_model(path)


def test_weights_of_a_forest_are_one_and_columns_have_names(models, tmp_path):
    path = tmp_path / "model"
    shutil.copytree(models / "forest", path)
    (table,) = path.glob("stages/*/treesMetadata/*.parquet")
    rows = pq.read_table(table)
    halved = rows.set_column(2, rows.schema.field(2), pa.array([1.0, 0.5, 1.0]))
    pq.write_table(halved, table)
    with pytest.raises(ModelFileError, match="trees of a Spark forest must have the weight 1"):
        read_model(path)
    pq.write_table(rows, table)
    (assembler,) = path.glob("stages/*VectorAssembler*/metadata/part-*")
    assembler.write_text(assembler.read_text().replace('["a",', "[7,"))
    with pytest.raises(ModelFileError, match="inputCols must be names of columns"):
        read_model(path)
