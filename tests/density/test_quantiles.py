"""Quantiles that stand for the values of a feature."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.density.costs import N_QUANTILES
from treeanova.density.counting import Quantiles


def test_quantiles_and_histogram_are_those_of_the_values():
    values = np.random.default_rng(0).normal(size=20_000)
    column = np.concatenate([values, np.full(5_000, np.nan)])
    spread = Quantiles.of(column, None)
    np.testing.assert_allclose(spread.at([0.05, 0.5, 0.95]), np.quantile(values, [0.05, 0.5, 0.95]), atol=0.01)
    exact = np.histogram(column, 10, (-2, 2))[0] / len(column)
    np.testing.assert_allclose(spread.histogram(-2, 2, 10), exact, atol=2 / N_QUANTILES)


def test_weights_move_the_histogram_but_not_the_quantiles():
    column = np.repeat([0.0, 1.0], 500)
    spread = Quantiles.of(column, np.repeat([3.0, 1.0], 500))
    assert spread.at([0.25, 0.75]).tolist() == [0.0, 1.0]
    np.testing.assert_allclose(spread.histogram(-0.5, 1.5, 2), [0.75, 0.25], atol=0.02)


def test_few_values_have_fewer_quantiles():
    assert len(Quantiles.of(np.arange(100.0), None).plain) == 12


def test_no_finite_values_have_no_quantiles():
    none = Quantiles.of(np.array([np.nan, np.inf]), None)
    assert none.at([0.5]) is None
    assert none.histogram(0, 1, 3).tolist() == [0, 0, 0]
    some = Quantiles.of(np.arange(98.0), None).merged(none)
    assert some.histogram(0, 97, 1).sum() == pytest.approx(0.98)
    assert none.merged(none).at([0.5]) is None


def test_spreads_of_two_lots_are_merged():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=30_000), 3 + rng.normal(size=10_000)
    merged = Quantiles.of(first, None).merged(Quantiles.of(second, None))
    both = np.concatenate([first, second])
    shares = [0.1, 0.5, 0.9]
    np.testing.assert_allclose(merged.at(shares), np.quantile(both, shares), atol=0.03)
    np.testing.assert_allclose(merged.histogram(-3, 6, 5), np.histogram(both, 5, (-3, 6))[0] / 40_000, atol=0.01)
