"""Tables of very many rows, of which a sample is known: the same as those of all rows in memory."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.densities import MIXED_GRID, MIXED_KEYS, mixed_rows
from treeanova.density import costs
from treeanova.density.counting import Request
from treeanova.density.statistics import statistics_of
from treeanova.model.grid import binning_by

BINNINGS = [binning_by(np.array([0, 0, 1, 2])), binning_by(np.array([0, 1])), binning_by(np.array([0, 1, 0]))]


@pytest.fixture
def both(monkeypatch):
    """Statistics of all rows, and of the same with a sample of 30."""
    rows = mixed_rows(n_rows=120)
    whole = statistics_of(rows, MIXED_GRID)
    monkeypatch.setattr(costs, "MAX_SAMPLE_ROWS", 30)
    return whole, statistics_of([rows[:50], rows[50:]], MIXED_GRID, None, [Request(key) for key in MIXED_KEYS])


def test_coarse_and_transposed_tables_follow_from_those_counted(both):
    whole, sampled = both
    for key in (*MIXED_KEYS, (2, 0), (1, 2, 0)):
        coarse = [BINNINGS[j] for j in key]
        np.testing.assert_array_equal(sampled.counts(key), whole.counts(key))
        np.testing.assert_array_equal(sampled.counts(key, coarse), whole.counts(key, coarse))


def test_tables_on_coarse_bins_give_coarser_ones_and_no_finer_ones(both):
    whole, _ = both
    table = whole.counted_tables([Request((0, 1), BINNINGS[:2])])[0, 1]
    coarser = [binning_by(np.array([0, 0, 0, 1])), BINNINGS[1]]
    sizes = MIXED_GRID.sizes[:2]
    np.testing.assert_array_equal(table.onto(coarser, sizes) / 120, whole.counts((0, 1), coarser))
    assert table.onto(None, sizes) is None


def test_passes_over_the_rows_are_made_once(both):
    whole, sampled = both
    passes = []
    count = sampled.source.count
    object.__setattr__(sampled.source, "count", lambda counting: passes.append(counting) or count(counting))
    finer = [binning_by(np.arange(4)), binning_by(np.array([0, 1]))]
    sampled.prepare_tables([Request((0, 1), BINNINGS[:2]), Request((0, 1), finer)])
    assert not passes  # they follow from the table of the pair
    bare = sampled.on(whole.grid)
    object.__setattr__(bare, "tables", {})
    bare.prepare_tables([Request((0, 1)), Request((0, 2))])
    np.testing.assert_array_equal(bare.counts((0, 1)), whole.counts((0, 1)))
    np.testing.assert_array_equal(bare.counts((0, 2)), whole.counts((0, 2)))
    assert len(passes) == 1


def test_scores_are_added_up_in_a_pass(both):
    whole, sampled = both
    assert sampled.score_sums((0, 1)) is None
    sampled.add_scores(lambda rows: rows.bins(sampled.grid)[:, :1] + 10.0 * rows.bins(sampled.grid)[:, 1:2])
    codes = whole.points().codes
    expected = np.zeros((*MIXED_GRID.sizes[:2], 1))
    np.add.at(expected, (codes[:, 0], codes[:, 1], 0), (codes[:, 0] + 10.0 * codes[:, 1]) / 120)
    np.testing.assert_allclose(sampled.score_sums((0, 1)), expected, rtol=1e-12)
    assert sampled.score_sums((0, 1), BINNINGS[:2]) is None
