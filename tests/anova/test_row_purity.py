"""Purity measured at rows against means taken slice by slice."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.anova.support import slice_impurity


def by_loops(values, cells, weights):
    """Root mean square of slice means relative to that of the term, the largest over axes and outputs."""
    ratios = []
    for output in values.T:
        for axis in range(cells.shape[1]):
            slices = [tuple(np.delete(row, axis)) for row in cells]
            total = 0.0
            for one in set(slices):
                inside = np.array([other == one for other in slices])
                mass = weights[inside].sum()
                total += mass * ((weights[inside] * output[inside]).sum() / mass) ** 2
            ratios.append(total / (weights * output**2).sum())
    return np.sqrt(max(ratios))


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_impurity_is_that_of_slice_means(n_features):
    rng = np.random.default_rng(n_features)
    cells, values = rng.integers(0, 4, (60, n_features)), rng.normal(size=(60, 2))
    weights = rng.random(60)
    weights /= weights.sum()
    expected = by_loops(values, cells, weights)
    assert slice_impurity(values, cells, weights, are_drawn=False) == pytest.approx(expected, rel=1e-12)


def test_a_pure_term_has_none_and_a_main_effect_is_all_impurity():
    cells = np.stack(np.meshgrid(range(4), range(4), indexing="ij"), axis=-1).reshape(-1, 2)
    weights = np.full(16, 1 / 16)
    centred = cells - 1.5
    pure, main = centred[:, :1] * centred[:, 1:], centred[:, :1]
    assert slice_impurity(pure, cells, weights, are_drawn=False) == pytest.approx(0.0, abs=1e-15)
    assert slice_impurity(main, cells, weights, are_drawn=False) == pytest.approx(1.0)


def test_noise_of_draws_is_subtracted():
    rng = np.random.default_rng(0)
    cells = rng.integers(0, 4, (4_000, 2))
    values = rng.normal(size=(4_000, 1))  # slice means are zero in expectation
    weights = np.full(4_000, 1 / 4_000)
    with_noise = slice_impurity(values, cells, weights, are_drawn=False)
    assert with_noise == pytest.approx(np.sqrt(4 / 4_000), rel=0.5)
    assert slice_impurity(values, cells, weights, are_drawn=True) < 0.7 * with_noise


def test_a_term_of_zeros_is_pure():
    cells = np.zeros((5, 2), dtype=np.int64)
    assert slice_impurity(np.zeros((5, 1)), cells, np.full(5, 0.2), are_drawn=True) == 0.0
