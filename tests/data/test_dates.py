from __future__ import annotations

import datetime as dt

import numpy as np
import pytest

import treeanova
from tests.support.forests import chains
from tests.support.training import fit
from treeanova.data.dates import (
    DateNumber,
    date_text,
    date_texts,
    days_since_1970,
    numbers_on_days,
    units_of_dates,
    with_dates,
)
from treeanova.data.features import Feature, Labels, Numeric, Schema

pd = pytest.importorskip("pandas")
tree = pytest.importorskip("sklearn.tree")
UNITS = ("ns", "us", "ms", "s", "D", "ordinal")
RNG = np.random.default_rng(0)
DAYS = pd.Timestamp("2011-01-01") + pd.to_timedelta(RNG.integers(0, 730, 300), unit="D")
X = pd.DataFrame({"day": DAYS, "x": RNG.normal(size=300)})


def as_numbers(frame, unit):
    """The table as a user would train on it."""
    days = frame["day"]
    if unit == "ordinal":
        return frame.assign(day=days.map(dt.datetime.toordinal))
    return frame.assign(day=days.to_numpy().astype(f"datetime64[{unit}]").astype(np.int64))


def fitted(unit):
    numbers = as_numbers(X, unit)
    model = tree.DecisionTreeRegressor(max_depth=3, random_state=0)
    return fit(model, numbers, np.sin(DAYS.day_of_year / 58.0) + X["x"] * (DAYS > "2011-10-10")), numbers


@pytest.mark.parametrize("unit", UNITS)
def test_dates_are_read_as_the_numbers_of_training(unit):
    model, numbers = fitted(unit)
    found = treeanova.decompose(model, X, density="empirical", n_jobs=1)
    told = treeanova.decompose(model, numbers, density="empirical", dates={"day": unit}, n_jobs=1)
    for fx in (found, told):
        np.testing.assert_allclose(fx.decision_function(X), model.predict(numbers), rtol=1e-9, atol=1e-12)
        np.testing.assert_array_equal(fx.decision_function(numbers), fx.decision_function(X))
    assert found.terms["day"].axes[0].labels == told.terms["day"].axes[0].labels


@pytest.mark.parametrize("unit", UNITS)
def test_bins_hold_the_dates_that_their_labels_say(unit):
    table = treeanova.decompose(fitted(unit)[0], X, density="empirical", n_jobs=1).table("day")
    low = pd.Timestamp.min
    for label, weight in zip(table["day"], table["weight"], strict=True):
        if label == "missing":
            assert weight == 0
            continue
        high = pd.Timestamp.max if label.startswith(">") else pd.Timestamp(label.strip("≤ (]").rpartition(", ")[2])
        assert weight == pytest.approx(X["day"].between(low, high, inclusive="right").mean())
        low = high


def test_a_cut_within_a_day_has_its_time():
    hours = np.array(["2023-01-22T10", "2023-01-22T18", "2023-01-24T18"], dtype="datetime64[ns]")
    rows = pd.DataFrame({"day": np.repeat(hours, 20)})
    model = fit(tree.DecisionTreeRegressor(), rows.astype("int64"), np.repeat([0.0, 1.0, 3.0], 20))
    cuts = treeanova.decompose(model, rows).terms["day"].axes[0].labels
    seconds = fit(tree.DecisionTreeRegressor(), rows.astype("int64") // 10**9, np.repeat([0.0, 1.0, 3.0], 20))
    assert all(":" in label for label in cuts[:2])
    labels = treeanova.decompose(seconds, rows, dates={"day": "s"}).terms["day"].axes[0].labels[:2]
    ends = [pd.Timestamp(label.removesuffix(" or missing").strip("≤> (]").rpartition(", ")[2]) for label in labels]
    assert ends[0] < hours[1]
    assert ends[0] >= hours[0]
    assert ends[1] >= hours[1]


def test_libraries_and_zones():
    pl, pa = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    model, numbers = fitted("us")
    elsewhere = X.assign(day=X["day"].dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo"))
    days = pl.DataFrame({"day": X["day"].dt.date.tolist(), "x": X["x"].to_numpy()})
    assert days["day"].dtype == pl.Date
    for table in (pl.from_pandas(X), pa.Table.from_pandas(X), elsewhere, days):
        fx = treeanova.decompose(model, table, density="empirical", n_jobs=1)
        np.testing.assert_allclose(fx.decision_function(table), model.predict(numbers), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("zone", ["America/New_York", "Etc/GMT+5", "America/Port-au-Prince"])
def test_zones_of_pandas_with_any_name(zone):
    model, numbers = fitted("us")
    table = X.assign(day=X["day"].dt.tz_localize("UTC").dt.tz_convert(zone))
    fx = treeanova.decompose(model, table, density="empirical", n_jobs=1)
    np.testing.assert_allclose(fx.decision_function(table), model.predict(numbers), rtol=1e-9, atol=1e-12)


def test_missing_dates_are_missing_numbers():
    encoder = DateNumber("D", Numeric())
    for column in (
        np.array(["1970-01-03", "NaT"], dtype="datetime64[D]"),
        np.array([dt.date(1970, 1, 3), None], dtype=object),
        np.array([pd.Timestamp("1970-01-03"), pd.NaT], dtype=object),
        np.array([2.0, np.nan]),
    ):
        np.testing.assert_array_equal(encoder.encode(column, "day"), [2.0, np.nan])


def test_nanoseconds_of_single_dates_are_kept():
    column = np.array([pd.Timestamp("1970-01-01 00:00:00.000000001")], dtype=object)
    assert DateNumber("ns", Numeric()).encode(column, "t").tolist() == [1.0]


def test_fractions_of_the_unit_are_refused():
    noon = np.array(["2011-01-01T12"], dtype="datetime64[h]")
    assert DateNumber("s", Numeric()).encode(noon, "t").tolist() == [
        dt.datetime(2011, 1, 1, 12, tzinfo=dt.UTC).timestamp()
    ]
    with pytest.raises(ValueError, match="column 't' must hold dates that are whole numbers of the unit 'D', got 2011"):
        DateNumber("D", Numeric()).encode(noon, "t")


def test_a_unit_that_cannot_be_known_is_asked_for():
    model = fit(tree.DecisionTreeRegressor(max_depth=1), [[2011.0], [2012.0]], [0, 1])
    years = pd.DataFrame({"day": pd.to_datetime(["2011-01-01", "2012-01-01"])})
    with pytest.raises(
        TypeError, match=r"got dates, and no unit of time fits the model's thresholds; .*dates=\{'x0': 'ns'\}"
    ):
        treeanova.decompose(model, years, n_jobs=1)


@pytest.mark.parametrize("unit", ["ns", "us", "ms", "s", "D", "ordinal"])
def test_the_dates_of_a_month_show_the_unit_of_a_model_of_years(unit):
    schema, thresholds = Schema((Feature("day"),)), np.array(["2021-03-01", "2024-09-01"], dtype="datetime64[D]")
    numbers = DateNumber(unit, Numeric()).encode(thresholds, "day")
    month = np.arange("2021-01-01", "2021-02-01", dtype="datetime64[D]")
    assert units_of_dates(schema, [month], lambda _: numbers) == {"day": unit}
    with pytest.raises(TypeError, match="no unit of time fits"):  # days since 2000, which are no unit
        units_of_dates(schema, [month], lambda _: (thresholds - np.datetime64("2000-01-01")).astype(float))


def test_files_and_batches_of_months_have_dates(tmp_path):
    pa = pytest.importorskip("pyarrow")
    days = pd.DataFrame({"day": pd.date_range("2021-01-01", periods=400)})
    numbers = days.assign(day=days["day"].astype("datetime64[s]").astype("int64"))
    model = fit(tree.DecisionTreeRegressor(max_leaf_nodes=2), numbers, np.arange(400) >= 300)
    for i in range(4):
        days.iloc[100 * i : 100 * (i + 1)].to_parquet(tmp_path / f"{i}.parquet")
    expected = treeanova.decompose(model, days, n_jobs=1).terms["day",]
    for rows in (tmp_path, pa.Table.from_pandas(days).to_batches(100)):
        found = treeanova.decompose(model, rows, n_jobs=1).terms["day",]
        assert found.axes[0].labels == expected.axes[0].labels
        assert found.weights.tolist() == expected.weights.tolist()


def test_wrong_dates_are_refused():
    schema = Schema((Feature("day"), Feature("kind", Labels(("a",)))))
    with pytest.raises(ValueError, match="got no feature 'days'"):
        with_dates(schema, {"days": "ns"})
    with pytest.raises(ValueError, match=r"`dates` must map features to one of 'ns', .*, got the unit 'week'"):
        with_dates(schema, {"day": "week"})
    with pytest.raises(ValueError, match="`dates` must name numeric features, got 'kind'"):
        with_dates(schema, {"kind": "ns"})


def test_columns_of_dates_that_are_not_known_as_such_have_a_remedy():
    with pytest.raises(TypeError, match=r"must hold numbers, got datetime.date.*, or name it in `dates` of decompose"):
        Numeric().encode(np.array([dt.date(2011, 1, 1)], dtype=object), "day")


def test_texts_are_as_short_as_they_can_be():
    start = dt.datetime(2011, 7, 3, tzinfo=dt.UTC).timestamp()
    assert date_texts([start, start + 86_400], "s") == ["2011-07-03", "2011-07-04"]
    assert date_texts([start, start + 90], "s") == ["2011-07-03", "2011-07-03 00:01:30"]
    assert date_texts([start + 14 * 3600 + 0.5], "s") == ["2011-07-03 14:00"]  # the same whole seconds are below
    assert date_texts([(start + 14 * 3600) * 1e9], "ns") == ["2011-07-03 14:00"]
    assert date_texts([15_158.5], "D") == ["2011-07-03"]  # the same whole days are below
    assert date_texts([start * 1e3 + 1], "ms") == ["2011-07-03 00:00:00.001"]
    assert date_texts([1e300], "s") is None
    assert date_text(start, "s") == "2011-07-03"
    assert date_text(start + 3600, "s") == "2011-07-03 01:00"


@pytest.mark.parametrize("unit", UNITS)
def test_days_and_numbers(unit):
    day = dt.date(2011, 7, 3)
    since = (day - dt.date(1970, 1, 1)).days
    number = as_numbers(pd.DataFrame({"day": [pd.Timestamp(day)]}), unit)["day"][0]
    assert days_since_1970(float(number), unit) == pytest.approx(since)
    assert numbers_on_days(since, unit) == pytest.approx(float(number))


def test_saved_dates_come_back(tmp_path):
    fx = treeanova.decompose(fitted("us")[0], X, density="empirical", n_jobs=1)
    fx.save(tmp_path / "fx.tav")
    again = treeanova.load(tmp_path / "fx.tav")
    np.testing.assert_array_equal(again.decision_function(X), fx.decision_function(X))
    assert again.terms["day"].axes[0].labels == fx.terms["day"].axes[0].labels


def test_columns_of_date_objects_are_found_as_dates():
    days = np.arange(15_000, 15_200)
    forest = chains([(0, 15_050.0), (0, 15_120.0)], n_features=1)
    dates = pd.Series([dt.date(1970, 1, 1) + dt.timedelta(int(day)) for day in days], dtype=object)
    table = pd.DataFrame({"day": dates})
    fx = treeanova.decompose(forest, table)
    assert fx.schema.features[0].encoder.date_unit == "D"
    np.testing.assert_allclose(fx.decision_function(table), forest.score(days[:, None].astype(float))[:, 0], rtol=1e-12)
