"""Columns of all types that Arrow has: the right numbers in every way in, or a refusal that names the column."""

from __future__ import annotations

import datetime as dt
import decimal

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor

import treeanova
from tests.support.training import fit
from treeanova.data.columns import encode
from treeanova.data.features import Feature, Numeric, Schema

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
parquet = pytest.importorskip("pyarrow.parquet")
compute = pytest.importorskip("pyarrow.compute")

WHOLE = np.random.default_rng(1).integers(0, 9, 60)
OTHER = np.random.default_rng(2).normal(size=60)
MODEL = fit(
    HistGradientBoostingRegressor(max_iter=4, min_samples_leaf=3), np.column_stack([OTHER, WHOLE]), OTHER + WHOLE
)
SCHEMA = Schema((Feature("a"), Feature("b")), named=True)
NUMBERS = {
    "float16": pa.array(WHOLE.astype("float16")),
    "uint64": pa.array(WHOLE, pa.uint64()),
    "decimal128": pa.array(map(decimal.Decimal, WHOLE.tolist()), pa.decimal128(10, 2)),
    "decimal256": pa.array(map(decimal.Decimal, WHOLE.tolist()), pa.decimal256(40, 2)),
    "runs": compute.run_end_encode(pa.array(WHOLE)),
    "dictionary": pa.array(WHOLE.astype(float)).dictionary_encode(),
    "large text": pa.array(map(str, WHOLE.tolist()), pa.large_string()),
}
MISSING = {
    str(kind): pa.nulls(60, kind)
    for kind in (
        *(pa.null(), pa.bool_(), pa.string(), pa.large_binary(), pa.decimal256(40, 2), pa.list_(pa.int8())),
        *(pa.date32(), pa.date64(), pa.timestamp("us"), pa.timestamp("ns", "UTC"), pa.time32("s"), pa.duration("s")),
    )
}
REFUSED = {
    "binary": pa.array([b"1"] * 60),
    "large binary": pa.array([b"1"] * 60, pa.large_binary()),
    "time": pa.array([dt.time(1)] * 60),
    "duration": pa.array([dt.timedelta(1)] * 60),
    "interval": pa.array([pa.MonthDayNano([0, 1, 0])] * 60),
    "date64": pa.array([dt.date(2020, 1, 1)] * 60, pa.date64()),
    "list": pa.array([[1.0, 2.0]] * 60),
    "struct": pa.array([{"q": 1.0}] * 60),
    "map": pa.array([[("q", 1)]] * 60, pa.map_(pa.string(), pa.int64())),
}


def table_of(column):
    return pa.table({"a": OTHER, "b": column})


def ways_in(table, folder):
    """The same rows as a table of Arrow and of pandas, as a file, and as files where other types come first or last."""
    yield table
    yield table.to_pandas(types_mapper=pd.ArrowDtype)
    if pa.types.is_run_end_encoded(table["b"].type) or pa.types.is_interval(table["b"].type):
        return  # that Parquet has not
    parquet.write_table(table, folder / "x.parquet")
    yield folder / "x.parquet"
    for name in ("0", "9"):
        (folder / name).mkdir()
        parquet.write_table(table, folder / name / f"{name}.parquet")
        parquet.write_table(table_of(WHOLE.astype(float)), folder / name / "5.parquet")
        yield folder / name


def decomposed(rows):
    return treeanova.decompose(MODEL, rows, feature_names=["a", "b"], density="independent")


@pytest.mark.parametrize("name", [*NUMBERS, *MISSING])
def test_numbers_and_missing_values_of_any_type_are_scored_as_the_model_scores_them(name, tmp_path):
    numbers = WHOLE if name in NUMBERS else np.full(60, np.nan)
    table, score = table_of(NUMBERS.get(name, MISSING.get(name))), MODEL.predict(np.column_stack([OTHER, numbers]))
    for rows in ways_in(table, tmp_path):
        if name == "large text" and getattr(rows, "name", "") in {"0", "9"}:
            continue  # text in one file and numbers in another are refused
        assert decomposed(rows).decision_function(table) == pytest.approx(score, abs=1e-12)


@pytest.mark.parametrize("name", REFUSED)
def test_values_that_are_no_numbers_are_refused_by_the_name_of_their_column(name, tmp_path):
    for rows in ways_in(table_of(REFUSED[name]), tmp_path):
        with pytest.raises(TypeError, match="column 'b' must hold"):
            decomposed(rows)


@pytest.mark.parametrize("cast", ["float64", "float32"])
@pytest.mark.parametrize("kind", ["arrow", "arrow 256", "pandas", "polars"])
def test_decimals_become_the_nearest_float(kind, cast):
    values = [None, *(decimal.Decimal(k).scaleb(-1) for k in range(1, 1000))]
    arrow = pa.table({"b": pa.array(values, pa.decimal256(40, 1) if kind == "arrow 256" else pa.decimal128(9, 1))})
    rows = {"pandas": lambda: arrow.to_pandas(types_mapper=pd.ArrowDtype), "polars": lambda: pl.from_arrow(arrow)}
    schema = Schema((Feature("b", Numeric(cast=cast)),), named=True)
    expected = np.array([np.nan, *map(float, values[1:])])
    assert np.array_equal(encode(rows.get(kind, lambda: arrow)(), schema)[:, 0], expected, equal_nan=True)


@pytest.mark.parametrize("kind", [pa.int64(), pa.uint64()])
def test_whole_numbers_beyond_floats_are_rounded_next_to_missing_ones_too(kind):
    values = [2**53 + 1, 2**60 + 1, None]
    expected = [float(2**53 + 1), float(2**60 + 1), np.nan]
    arrow = pa.table({"b": pa.array(values, kind)})
    for rows in (arrow, arrow.to_pandas(types_mapper=pd.ArrowDtype), pl.from_arrow(arrow)):
        found = encode(rows, Schema((Feature("b"),), named=True))[:, 0]
        assert np.array_equal(found, expected, equal_nan=True)


def test_lists_in_objects_are_refused_by_the_name_of_their_column():
    for value in ([1.0, 2.0], np.array([1.0, 2.0])):
        with pytest.raises(TypeError, match="column 'b' must hold numbers"):
            encode(pd.DataFrame({"a": [1.0, 1.0], "b": pd.Series([value, None])}), SCHEMA)


def test_weights_may_be_of_any_type_of_number():
    weights = pa.array(map(decimal.Decimal, (WHOLE + 1).tolist()), pa.decimal256(40, 2))
    plain = table_of(WHOLE).append_column("w", pa.array(WHOLE + 1.0))
    found = decomposed_with_weights(table_of(WHOLE).append_column("w", weights))
    assert found == pytest.approx(decomposed_with_weights(plain), abs=1e-15)


def decomposed_with_weights(rows):
    fx = treeanova.decompose(MODEL, [rows], feature_names=["a", "b"], density="independent", sample_weight="w")
    return fx.intercept
