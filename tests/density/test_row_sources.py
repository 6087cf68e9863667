"""Rows in batches, in memory and as statistics: the same answers, and errors that name the source."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.densities import MIXED_GRID, MIXED_KEYS, mixed_rows
from treeanova.density import costs
from treeanova.density.counting import Request
from treeanova.density.statistics import statistics_of

pd = pytest.importorskip("pandas")
WANTED = list(map(Request, MIXED_KEYS))


def frames(rows, weights=None):
    table = pd.DataFrame(rows, columns=list(MIXED_GRID.schema.names))
    if weights is not None:
        table["weight"] = weights
    return [table[:7], table[7:7], table[7:150], table[150:]]


@pytest.fixture
def few(monkeypatch):
    """Samples of 50 rows."""
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", 50)


@pytest.mark.parametrize("weighted", [False, True])
def test_rows_in_batches_are_the_rows_in_memory(weighted):
    rows = mixed_rows(n_rows=200)
    weights = np.random.default_rng(0).exponential(size=200) if weighted else None
    memory = statistics_of(rows, MIXED_GRID, weights, WANTED)
    batches = statistics_of(frames(rows, weights), MIXED_GRID, "weight" if weighted else None, WANTED)
    table = pd.concat(frames(rows, weights))
    by_name = statistics_of(table, MIXED_GRID, "weight" if weighted else None, WANTED)
    for key in MIXED_KEYS:
        np.testing.assert_allclose(batches.counts(key), memory.counts(key), rtol=1e-12)
        np.testing.assert_array_equal(by_name.counts(key), memory.counts(key))
    assert batches.is_complete
    assert batches.effective_rows == pytest.approx(memory.effective_rows, rel=1e-12)
    np.testing.assert_array_equal(batches.points().codes, memory.points().codes)
    np.testing.assert_allclose(batches.points().weights, memory.points().weights, rtol=1e-12)


@pytest.mark.usefixtures("few")
def test_the_sample_is_the_same_in_memory_and_in_batches():
    rows = mixed_rows(n_rows=200)
    memory, batches = statistics_of(rows, MIXED_GRID), statistics_of(frames(rows), MIXED_GRID, None, WANTED)
    once = statistics_of(iter(frames(rows)), MIXED_GRID, None, WANTED)
    for other in (batches, once):
        assert (len(other.sample), other.n_rows, other.is_complete) == (50, 200, False)
        np.testing.assert_array_equal(other.points().codes, memory.points().codes)
        for key in MIXED_KEYS:
            np.testing.assert_array_equal(other.counts(key), memory.counts(key))
        for j in range(3):
            np.testing.assert_allclose(other.bin_means(j), memory.bin_means(j), rtol=1e-12)
            assert other.value_range(j) == memory.value_range(j)


@pytest.mark.usefixtures("few")
def test_what_was_not_counted_takes_another_pass_or_is_refused():
    rows = mixed_rows(n_rows=200)
    memory = statistics_of(rows, MIXED_GRID)
    again = statistics_of(frames(rows), MIXED_GRID, None, [Request((0,))])
    np.testing.assert_array_equal(again.counts((1, 2)), memory.counts((1, 2)))
    assert not again.is_estimated
    once = statistics_of(iter(frames(rows)), MIXED_GRID, None, [Request((0,))])
    with pytest.raises(ValueError, match="rows must be read again to count"):
        once.counts((1, 2))
    np.testing.assert_array_equal(once.counts((1, 2), may_estimate=True), once.sampled_counts((1, 2)))
    assert once.is_estimated


def test_negligible_weights_are_left_out_in_a_second_pass_or_refused():
    rows, weights = mixed_rows(n_rows=200), np.tile([1.0, 1e-13], 100)
    memory = statistics_of(rows, MIXED_GRID, weights)
    batches = statistics_of(frames(rows, weights), MIXED_GRID, "weight", WANTED)
    assert (memory.n_rows, batches.n_rows) == (100, 100)
    np.testing.assert_array_equal(batches.counts((0, 1)), memory.counts((0, 1)))
    with pytest.raises(ValueError, match="must not have weights below 1e-12 of the largest where rows are read once"):
        statistics_of(iter(frames(rows, weights)), MIXED_GRID, "weight", WANTED)


def test_missing_rows_and_wrong_weights_are_refused():
    rows = mixed_rows(n_rows=200)
    with pytest.raises(ValueError, match="`X` must have at least one row, got 0 rows"):
        statistics_of(frames(rows)[1:2], MIXED_GRID)
    with pytest.raises(ValueError, match="`X` must have at least one row, got rows of weight zero only"):
        statistics_of(frames(rows, np.zeros(200)), MIXED_GRID, "weight")
    with pytest.raises(ValueError, match="must have a positive, finite sum of squares, got weights up to 1e\\+300"):
        statistics_of(frames(rows, np.full(200, 1e300)), MIXED_GRID, "weight")
    with pytest.raises(ValueError, match="must have a positive, finite sum of squares, got weights up to 1e-300"):
        statistics_of(frames(rows, np.full(200, 1e-300)), MIXED_GRID, "weight")
    with pytest.raises(TypeError, match=r"must be the name of a column where rows are read in batches, got weights of"):
        statistics_of(frames(rows), MIXED_GRID, np.ones(200))
    with pytest.raises(ValueError, match="`X` must have a column 'w', got the columns"):
        statistics_of(frames(rows)[0], MIXED_GRID, "w")


def test_statistics_are_taken_as_they_are():
    known = statistics_of(mixed_rows(), MIXED_GRID)
    assert statistics_of(known, MIXED_GRID, None, WANTED).counts((0,)).tolist() == known.counts((0,)).tolist()
    with pytest.raises(ValueError, match="and statistics, whose rows are counted already"):
        statistics_of(known, MIXED_GRID, np.ones(40))
