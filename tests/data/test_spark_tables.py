"""Spark: the same answers as in memory, also when a task fails."""

import os
import shutil
import sys
import warnings

import numpy as np
import pytest

import treeanova
from tests.support.same_answers import assert_same_answers, boosted_model, mixed_rows
from treeanova.data.sources import batches_of

pytest.importorskip("sklearn")
pa = pytest.importorskip("pyarrow")
pyspark = pytest.importorskip("pyspark", reason="PySpark is not installed: tables of Spark are not tested")
if shutil.which("java") is None:
    pytest.skip("Java is not installed: tables of Spark are not tested", allow_module_level=True)

ROWS = mixed_rows()
FEATURES = ["a", "b", "c", "k"]
pytestmark = pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")


@pytest.fixture(scope="module")
def spark():
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        session = (
            SparkSession.builder.master("local[2, 3]")  # two cores, and three attempts for each task
            .config("spark.ui.enabled", "false")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.driver.memory", "1g")
            .config("spark.ui.showConsoleProgress", "false")
            .getOrCreate()
        )
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="module")
def table(spark):
    """Four partitions, one of which is empty."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        whole = spark.createDataFrame(pa.Table.from_pandas(ROWS))
    return whole.repartitionByRange(3, "key").union(whole.where("key < 0").coalesce(1))


def failing(batches):
    """The rows, after a worker of Python has died at the first attempt."""
    from pyspark import TaskContext

    task = TaskContext.get()
    if task.partitionId() == 1 and task.attemptNumber() == 0:
        os._exit(1)
    yield from batches


@pytest.fixture(scope="module", params=[False, True], ids=["shallow", "deep"])
def model(request):
    return boosted_model(ROWS, is_deep=request.param)


@pytest.mark.parametrize("weight", [None, "weight"])
def test_the_same_answers_as_in_memory_although_a_task_fails(model, table, weight):
    expected = treeanova.decompose(model, ROWS, sample_weight=weight)
    found = treeanova.decompose(model, table.mapInArrow(failing, table.schema), sample_weight=weight)
    assert_same_answers(found, expected, ROWS, has_weights=weight is not None)


def test_explanations_are_tables_of_spark_with_the_columns_that_are_no_features(table):
    model = boosted_model(ROWS)
    fx = treeanova.decompose(model, ROWS)
    explained = fx.explain(table)
    expected = fx.explain(ROWS).to_frame()
    assert explained.columns == [*expected, "intercept", "score", "key", "weight"]
    found = explained.toArrow().to_pandas().sort_values("key")
    np.testing.assert_allclose(found["score"], model.predict(ROWS[FEATURES]), atol=1e-12)
    np.testing.assert_allclose(found[list(expected)], expected, atol=1e-14)


def test_batches_are_the_rows(table):
    batches = batches_of(table)
    assert batches.n_rows == len(ROWS)
    assert batches.is_rereadable
    (batch,) = batches
    assert batch.table.to_pandas().sort_values("key", ignore_index=True).equals(ROWS)
    assert len(batches.head()) == len(ROWS)


def test_a_missing_column_is_refused(table):
    with pytest.raises(ValueError, match="`X` must have the model's columns, got none named 'b'"):
        treeanova.decompose(boosted_model(ROWS), table.drop("b"))
