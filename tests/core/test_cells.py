"""Counts of rows by cell against counting them one by one."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.core.arrays import count_cells


@pytest.mark.parametrize("sizes", [(4,), (3, 5), (2, 3, 4)])
@pytest.mark.parametrize("weighted", [False, True])
def test_every_row_counts_in_its_cell(sizes, weighted):
    rng = np.random.default_rng(len(sizes))
    columns = [rng.integers(0, size, 50, dtype=np.int32) for size in sizes]
    weights = rng.random(50) if weighted else None
    expected = np.zeros(sizes)
    for row in range(50):
        expected[tuple(column[row] for column in columns)] += weights[row] if weighted else 1
    counts = count_cells(iter(columns), sizes, weights, 50)
    assert counts.dtype == np.float64
    np.testing.assert_allclose(counts, expected, rtol=1e-14)


def test_no_axes_have_one_cell_and_no_rows_leave_cells_empty():
    assert count_cells([], (), np.array([0.5, 2.0]), 2) == 2.5
    assert count_cells([np.zeros(0, dtype=np.int64)], (3,), None, 0).tolist() == [0.0, 0.0, 0.0]
