from __future__ import annotations

import itertools

import numpy as np
import pytest

from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.report.tables import page_axis


def test_large_tables_are_merged_by_weighted_means():
    rng = np.random.default_rng(0)
    axis = IntervalAxis("x", 200, np.arange(199.0))
    masses = rng.dirichlet(np.ones(201))
    made = page_axis(axis, 0, masses, 16)
    binning = made.binning
    assert not binning.is_identity
    assert binning.size <= 17
    assert made.plain["missing"] == binning.size - 1
    assert (binning.bins[:-1] != binning.bins[-1]).all()  # missing values stay alone
    values = rng.normal(size=201)
    means, sums = binning.average(values), binning.pool(masses)
    edges = [-np.inf, *made.plain["bounds"], np.inf]
    assert len(edges) == binning.size
    for g, (low, high) in enumerate(itertools.pairwise(edges)):
        inside = np.flatnonzero((np.arange(200) <= high) & (np.arange(200) > low))
        assert means[g] == pytest.approx(np.average(values[inside], weights=masses[inside]))
        assert sums[g] == pytest.approx(masses[inside].sum())
    np.testing.assert_allclose(binning.average(np.ones(201)), 1)


def test_intervals_without_rows_get_some_room():
    masses = np.zeros(100)
    masses[0] = 1.0
    made = page_axis(IntervalAxis("x", -1, np.arange(99.0)), 0, masses, 10)
    assert made.binning.size >= 4  # all rows are in the first interval, the other ones are not merged to one
    even = page_axis(IntervalAxis("x", -1, np.arange(99.0)), 0, np.zeros(100), 10)
    assert np.bincount(even.binning.bins).tolist() == [10] * 10
    assert even.binning.shares.tolist() == pytest.approx([0.1] * 100)


def test_rare_categories_become_one():
    axis = CategoryAxis("x", 7, tuple("abcdef"), 6)
    made = page_axis(axis, 0, np.array([0.1, 0.3, 0.01, 0.02, 0.4, 0.03, 0.04, 0.1]), 4)
    assert made.plain["labels"] == ["a", "b", "e", "3 other categories", "unseen", "missing"]
    assert made.plain["extra"] == 2
    assert made.binning.bins.tolist() == [0, 1, 3, 3, 2, 3, 4, 5]


def test_an_axis_with_few_bins_stays_as_it_is():
    made = page_axis(IntervalAxis("x", 0, np.array([1.0, 2.0])), 3, np.full(3, 1 / 3), 16)
    assert made.binning.is_identity
    assert made.plain == {"feature": 3, "kind": "interval", "bounds": [1.0, 2.0], "missing": 0, "bins": 3}


def test_dates_are_days_with_their_texts():
    days = np.array(["2011-03-01", "2012-02-29"], dtype="datetime64[D]").astype(np.float64)
    made = page_axis(IntervalAxis("x", -1, 86_400e6 * days, "us"), 0, np.full(3, 1 / 3), 10)
    assert made.plain["bounds"] == days.tolist()
    assert made.plain["texts"] == ["2011-03-01", "2012-02-29"]
