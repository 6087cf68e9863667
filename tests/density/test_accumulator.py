"""Accumulators of batches against plain loops over all rows."""

from __future__ import annotations

import functools
import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.densities import MIXED_GRID, MIXED_KEYS, mixed_cell, mixed_rows
from treeanova.data.columns import encode
from treeanova.data.streams import Batch
from treeanova.density.counting import Accumulator, Counting, Request, merge_payloads, payloads_of_batches
from treeanova.model.grid import binning_by
from treeanova.model.rows import Rows

COARSE = binning_by(np.array([0, 0, 1, 2]))
REQUESTS = [*map(Request, MIXED_KEYS), Request((0,), [COARSE])]


def in_batches(rows, cuts, weights=None):
    """Consecutive pieces of rows, some of them empty."""
    ends = [0, *sorted(cuts), len(rows)]
    pieces = [slice(start, end) for start, end in itertools.pairwise(ends)]
    return [
        Batch(rows[p], f"batch {i}", 0, p.start, None if weights is None else weights[p]) for i, p in enumerate(pieces)
    ]


def counted(batches, counting):
    return Accumulator.from_payloads(counting, payloads_of_batches(batches, counting))


def counted_by_hand(rows, request, weights):
    found = np.zeros([MIXED_GRID.sizes[j] if request.binnings is None else COARSE.size for j in request.key])
    for row, weight in zip(rows, weights, strict=True):
        cell = mixed_cell(row)
        bins = [cell[j] if request.binnings is None else COARSE.bins[cell[j]] for j in request.key]
        found[tuple(bins)] += weight
    return found


@given(st.integers(0, 2**16), st.integers(1, 60), st.lists(st.integers(0, 60), max_size=5), st.booleans(), st.randoms())
def test_batches_of_any_size_and_order_give_the_counts_of_all_rows(seed, n_rows, cuts, weighted, random):
    rows = mixed_rows(seed, n_rows)
    weights = np.random.default_rng(seed).exponential(size=n_rows) + 0.01 if weighted else None
    counting = Counting(MIXED_GRID, REQUESTS, n_sampled=20, has_weights=weighted)
    batches = in_batches(rows, [cut % (n_rows + 1) for cut in cuts], weights)
    whole = counted(in_batches(rows, [], weights), counting)
    random.shuffle(batches)
    middle = len(batches) // 2
    by_key = [payloads_of_batches(some, counting) for some in (batches[:middle], batches[middle:])]
    names = by_key[0].keys() | by_key[1].keys()
    merged = {name: [parts[name] for parts in by_key if name in parts] for name in names}
    merge = functools.partial(merge_payloads, n_sampled=20)
    reduced = {name: merge(*some) if len(some) == 2 else some[0] for name, some in merged.items()}
    for found in (counted(batches, counting), Accumulator.from_payloads(counting, reduced)):
        for number, request in enumerate(REQUESTS):
            expected = counted_by_hand(rows, request, np.ones(n_rows) if weights is None else weights)
            if weighted:
                np.testing.assert_allclose(found.tables[number], expected, rtol=1e-12)
            else:
                np.testing.assert_array_equal(found.tables[number], expected)
                assert found.tables[number].dtype == np.int64
        assert found.totals.n_rows == n_rows
        np.testing.assert_array_equal(found.sample().values, whole.sample().values)
        assert found.features[0].low == whole.features[0].low
        np.testing.assert_allclose(found.features[0].means(None), whole.features[0].means(None), rtol=1e-12)


def test_scores_are_added_up_in_each_cell():
    rows = mixed_rows(n_rows=50)
    encoded = encode(rows, MIXED_GRID.schema)
    weights = np.arange(1.0, 51)

    def score(batch):
        codes = batch.bins(MIXED_GRID)
        return np.stack([codes[:, 0] + 0.5, 2.0 * codes[:, 1]], axis=1)

    counting = Counting(MIXED_GRID, [Request((0, 1))], has_weights=True, score=score)
    found = counted(in_batches(rows, [7, 30], weights), counting).scores[0]
    expected = np.zeros((*MIXED_GRID.sizes[:2], 2))
    for weight, codes in zip(weights, MIXED_GRID.index(Rows(encoded)), strict=True):
        expected[codes[0], codes[1]] += weight * np.array([codes[0] + 0.5, 2.0 * codes[1]])
    np.testing.assert_allclose(found, expected, rtol=1e-12)


def test_rows_of_no_weight_are_left_out():
    rows, weights = mixed_rows(n_rows=30), np.tile([0.0, 1.0, 1e-14], 10)
    counting = Counting(MIXED_GRID, [Request((0,))], n_sampled=100, has_weights=True)
    found = counted(in_batches(rows, [5], weights), counting)
    assert found.totals.n_rows == 20
    assert found.totals.needs_cut
    cut = counted(in_batches(rows, [5], weights), Counting(MIXED_GRID, (), 100, has_weights=True, least_weight=1e-12))
    assert (cut.totals.n_rows, cut.totals.needs_cut) == (10, False)
    assert cut.sample().rows.tolist() == list(range(1, 30, 3))


@pytest.mark.parametrize("bad", [-1.0, np.nan, np.inf])
def test_bad_weights_name_the_batch_and_the_row(bad):
    weights = np.ones(30)
    weights[12] = bad
    counting = Counting(MIXED_GRID, [Request((0,))], has_weights=True)
    with pytest.raises(
        ValueError, match=rf"batch 1: `sample_weight` must be finite and not negative, got {bad:g} at row 12"
    ):
        counted(in_batches(mixed_rows(n_rows=30), [10], weights), counting)
