"""Samples of rows by hashes of where they come from."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tests.support.densities import MIXED_GRID, mixed_rows
from treeanova.density.costs import MAX_SAMPLE_ROWS
from treeanova.density.counting import hash_limit, hashes_of, join_samples, sample_of, sample_size
from treeanova.density.statistics import statistics_of


def lot(source, first, n_rows, *, weighted=False):
    numbers = np.arange(first, first + n_rows)
    values = np.asfortranarray(np.stack([numbers + 1000.0 * source, -numbers], axis=1))
    return sample_of(values, numbers + 1.0 if weighted else None, source, numbers)


@given(st.lists(st.integers(0, 30), min_size=1, max_size=6), st.integers(1, 40), st.booleans(), st.randoms())
def test_the_sample_of_lots_in_any_order_is_that_of_all_rows(lengths, size, weighted, random):
    """The oracle sorts all rows by hash."""
    starts = np.cumsum([0, *lengths])
    lots = [lot(source % 2, int(starts[source]), n, weighted=weighted) for source, n in enumerate(lengths)]
    random.shuffle(lots)
    found = join_samples([join_samples([one], size) for one in lots], size)
    everyone = [(h, s, r) for one in lots for h, s, r in zip(one.hashes, one.sources, one.rows, strict=True)]
    expected = sorted((s, r) for _, s, r in sorted(everyone)[:size])
    assert list(zip(found.sources, found.rows, strict=True)) == expected
    np.testing.assert_array_equal(found.values[:, 0], [r + 1000.0 * s for s, r in expected])
    if weighted and expected:
        np.testing.assert_array_equal(found.weights, [r + 1.0 for _, r in expected])


def test_every_row_is_as_likely_as_every_other():
    """Shares of equal stretches of rows in a sample of a tenth, within five standard errors."""
    numbers = np.arange(100_000)
    for source in (0, 1, 7):
        chosen = np.argsort(hashes_of(source, numbers))[:10_000]
        counts = np.bincount(chosen // 10_000, minlength=10)
        assert np.abs(counts - 1000).max() < 5 * np.sqrt(1000 * 0.9 * 0.9)
    assert len(np.unique(np.concatenate([hashes_of(source, numbers) for source in range(3)]))) == 300_000


def test_samples_of_many_features_are_smaller():
    assert sample_size(8) == MAX_SAMPLE_ROWS
    assert sample_size(0) == MAX_SAMPLE_ROWS
    assert sample_size(1000) * 1000 * 8 <= 1 << 28


def test_sources_after_others_keep_their_hashes():
    first, second = (statistics_of(mixed_rows(seed, n), MIXED_GRID) for seed, n in ((0, 5), (1, 3)))
    for merged, lots in ((first + second, (first, second)), (second + first, (second, first))):
        sizes = [len(one.sample) for one in lots]
        assert merged.sample.sources.tolist() == np.repeat([0, 1], sizes).tolist()
        assert merged.sample.rows.tolist() == [row for size in sizes for row in range(size)]
        np.testing.assert_array_equal(merged.sample.hashes, np.concatenate([one.sample.hashes for one in lots]))
        np.testing.assert_array_equal(merged.sample.values, np.concatenate([one.sample.values for one in lots]))
    again = (first + second) + first
    assert again.sample.sources.tolist() == np.repeat([0, 1, 2], [5, 3, 5]).tolist()


def test_a_limit_of_hashes_keeps_the_sample():
    hashes = hashes_of(0, np.arange(100_000))
    for size in (1, 50, 3000, 99_000):
        below = hashes <= hash_limit(size, len(hashes))
        assert below.sum() >= size
        assert below.sum() <= size + 12 * size**0.5 + 12
    assert hash_limit(10, 10) == hash_limit(10, 0) == 2**64 - 1
