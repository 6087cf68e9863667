from __future__ import annotations

import numpy as np
import pytest

import treeanova
from treeanova.data.dates import DateNumber
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.density.statistics import statistics_of
from treeanova.model.axes import IntervalAxis
from treeanova.model.grid import Grid
from treeanova.report.tables import plain_dates, plain_features, window


def statistics(axis, column):
    return statistics_of(column[:, None], Grid(Schema((Feature("x"),)), (axis,)))


def test_window_shows_the_rows_and_the_thresholds():
    axis = IntervalAxis("x", -1, np.array([1.0, 2.0]))
    assert window(axis, 0, None)["low"] == pytest.approx(0.97)
    near = window(axis, 0, statistics(axis, np.linspace(0, 10, 1000)))
    assert near["low"] < 0.1
    assert near["high"] > 9.9
    assert not near["cut"]
    assert window(IntervalAxis("x", -1, np.empty(0)), 0, None) == {"low": -0.03, "high": 1.03, "cut": False}


def test_window_leaves_out_thresholds_far_beyond_the_rows():
    wide = IntervalAxis("x", -1, np.array([1.0, 1000.0]))
    far = window(wide, 0, statistics(wide, np.append(np.linspace(0, 10, 1000), 5000.0)))
    assert far["cut"]
    assert 9 < far["high"] < 12
    low, high = far["whole"]  # for axes that are not linear
    assert low < 1
    assert 1000 < high < 1100


@pytest.mark.parametrize("start", [2.0**53, 2e9, -(2.0**53)])
def test_window_of_a_narrow_range_far_from_zero(start):
    """Six digits of 2,000,000,013 would leave no range at all."""
    numbers = start + 2.0 * np.arange(51)
    axis = IntervalAxis("k", -1, numbers[:-1] + 1)
    counted = statistics(axis, numbers)
    ends = window(axis, 0, counted)
    assert ends["low"] == pytest.approx(start, abs=0.5, rel=0)
    assert ends["high"] == pytest.approx(start + 100, abs=0.5, rel=0)
    assert counted.histogram(0, ends["low"], ends["high"], 48).sum() == pytest.approx(1.0)


def test_dates_are_days():
    axis = IntervalAxis("x", -1, 1e9 + 86_400 * np.arange(5.0), "s")
    feature = Feature("x", DateNumber("s", Numeric()))
    grid = Grid(Schema((feature,)), (axis,))
    seconds = 1e9 + 86_400 * np.linspace(0, 4, 50)
    ends = plain_dates(window(axis, 0, statistics_of(seconds[:, None], grid)), "s")
    assert ends["date"]
    assert np.datetime64(int(ends["low"]), "D") == np.datetime64("2001-09-09")  # 1e9 seconds after 1970
    assert ends["high"] - ends["low"] == pytest.approx(4, abs=0.3)


def test_histograms_have_the_shares_of_the_rows(fx):
    values = fx.density.statistics.sample.values
    for j, feature in enumerate(plain_features(fx)):
        counts, _ = np.histogram(values[:, j], bins=48, range=(feature["low"], feature["high"]))
        np.testing.assert_allclose(np.array(feature["histogram"]) / 1e6, counts / len(values), atol=1e-6)


def test_short_names_in_the_list_keep_what_differs():
    names = [f"customer_lifetime_value_{kind}_last_12_months_eur" for kind in ("net", "gross")]
    tables = {name: [0.0, 1.0] for name in (*names, "age")}
    fx = treeanova.decompose(treeanova.model.Effects.from_tables(tables), None, density="uniform")
    net, gross, age = plain_features(fx)
    assert "short" not in age
    assert ["net" in text for text in net["short"]] == [True, True]
    assert ["gross" in text for text in gross["short"]] == [True, True]
    assert [len(text) for text in net["short"]] <= [25, 10]
