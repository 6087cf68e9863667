"""Spark ML: kept models, compared with what Spark predicted on, above and below every threshold."""

from __future__ import annotations

import json
import pathlib
import zipfile

import numpy as np
import pytest

import treeanova
from treeanova import UnsupportedModelError, read_model
from treeanova.errors import ModelFileError
from treeanova.model.links import class_probabilities, respond

pd = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")
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
