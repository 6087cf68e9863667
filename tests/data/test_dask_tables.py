"""Dask: the same answers as in memory, on any scheduler, also when a worker is killed."""

import importlib
import os
import pathlib

import numpy as np
import pytest

import treeanova
from tests.support.same_answers import assert_same_answers, boosted_model, mixed_rows
from tests.support.training import fit
from treeanova.data.sources import DaskTable, batches_of, merge_by_name
from treeanova.data.streams import Selection

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")
dask = pytest.importorskip("dask", reason="Dask is not installed: its tables are not tested")
dd = pytest.importorskip("dask.dataframe", reason="Dask is not installed: its tables are not tested")
da = importlib.import_module("dask.array")

ROWS = mixed_rows()
FEATURES = ["a", "b", "c", "k"]
BOUNDS = [0, 900, 900, 901, 2500, 3000]


def part(number, folder=None):
    """A partition of the rows; one of them kills its worker the first time."""
    if folder is not None and number == 3:
        marker = pathlib.Path(folder) / "killed"
        if not marker.exists():
            marker.touch()
            os._exit(1)
    return ROWS[BOUNDS[number] : BOUNDS[number + 1]]


def frame(**options):
    """A Dask DataFrame of five partitions, one of them empty."""
    return dd.from_map(part, range(5), meta=ROWS[:0], **options)


@pytest.fixture(scope="module", params=[False, True], ids=["shallow", "deep"])
def model(request):
    return boosted_model(ROWS, is_deep=request.param)


@pytest.fixture(scope="module")
def cluster():
    distributed = pytest.importorskip("distributed", reason="distributed is not installed: no cluster of processes")
    with (
        dask.config.set({"distributed.worker.daemon": False, "dataframe.convert-string": False}),
        distributed.LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.mark.parametrize("weight", [None, "weight"])
@pytest.mark.parametrize("scheduler", ["synchronous", "threads"])
def test_the_same_answers_as_in_memory(model, weight, scheduler):
    expected = treeanova.decompose(model, ROWS, sample_weight=weight)
    with dask.config.set(scheduler=scheduler):
        found = treeanova.decompose(model, frame(), sample_weight=weight)
    assert_same_answers(found, expected, ROWS, has_weights=weight is not None)


def test_the_same_answers_from_a_cluster_that_loses_a_worker(model, cluster, tmp_path):
    found = treeanova.decompose(model, frame(folder=str(tmp_path)))
    assert (tmp_path / "killed").exists()
    assert_same_answers(found, treeanova.decompose(model, ROWS), ROWS)
    explained = found.explain(frame()).compute()
    np.testing.assert_allclose(explained["score"], model.predict(ROWS[FEATURES]), atol=1e-12)


def test_arrays_of_dask_are_tables_without_names():
    tree = importlib.import_module("sklearn.ensemble")
    rows = ROWS[FEATURES].fillna(0).to_numpy()
    model = fit(tree.GradientBoostingRegressor(n_estimators=5, max_depth=2, random_state=0), rows, rows.prod(axis=1))
    array = da.from_array(rows, chunks=(700, 3))
    found = treeanova.decompose(model, array)
    assert_same_answers(found, treeanova.decompose(model, rows), rows)
    explained = found.explain(array).compute()
    np.testing.assert_allclose(explained["score"], model.predict(rows), atol=1e-12)


def test_explanations_are_lazy_and_have_the_index_of_the_rows(model):
    fx = treeanova.decompose(model, ROWS)
    indexed = ROWS.set_index("key")
    explained = fx.explain(dd.from_pandas(indexed, npartitions=3))
    assert isinstance(explained, dd.DataFrame)
    expected = fx.explain(ROWS)
    assert list(explained.columns) == [*expected.to_frame(), "intercept", "score"]
    found = explained.compute()
    assert found.index.equals(indexed.index)
    np.testing.assert_allclose(found["score"], model.predict(ROWS[FEATURES]), atol=1e-12)
    np.testing.assert_allclose(found[list(expected.to_frame())], expected.to_frame(), atol=1e-14)


def test_only_the_columns_of_the_model_are_read():
    schema = treeanova.read_model(boosted_model(ROWS)).schema
    table = batches_of(frame()).reading(Selection(schema, "weight"))
    assert isinstance(table, DaskTable)
    kept = [list(lazy.compute().columns) for lazy in table.partitions()]
    assert kept == [[*FEATURES, "weight"]] * 5


def test_batches_of_partitions_are_the_rows():
    table = batches_of(frame())
    assert table.n_rows == len(ROWS)
    assert table.is_rereadable
    assert [(batch.number, batch.first_row, batch.n_rows) for batch in table] == [
        (0, 0, 900),
        (2, 0, 1),
        (3, 0, 1599),
        (4, 0, 500),
    ]
    pd.testing.assert_frame_equal(pd.concat([batch.table for batch in table]), ROWS, check_dtype=False)
    pd.testing.assert_frame_equal(table.head(), ROWS, check_dtype=False)


def test_values_that_a_model_refuses_name_the_partition():
    schema = treeanova.read_model(boosted_model(ROWS)).schema
    table = batches_of(dd.from_map(part, range(5), meta=ROWS[:0])[["a", "b"]]).reading(Selection(schema))
    with pytest.raises(ValueError, match="`X` must have the model's columns, got none named 'c', 'k'"):
        table.reduced(lambda batches: {}, lambda one, two: one)


def test_no_rows_are_refused():
    model = boosted_model(ROWS)
    empty = dd.from_pandas(ROWS[:0], npartitions=1)
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        treeanova.decompose(model, empty)


def test_results_are_merged_by_name_in_any_order():
    table = batches_of(frame())
    found = table.reduced(
        lambda batches: {f"rows {batch.number % 2}": str(batch.n_rows).encode() for batch in batches},
        lambda one, two: str(int(one) + int(two)).encode(),
    )
    assert found == {"rows 0": b"1401", "rows 1": b"1599"}
    assert merge_by_name({"a": b"1"}, {"b": b"2"}, lambda one, two: b"") == {"a": b"1", "b": b"2"}
