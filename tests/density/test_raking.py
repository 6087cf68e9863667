"""Raking against plain steps of iterative proportional fitting."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import treeanova
from tests.support.forests import chains
from treeanova.density.table import rake_to_marginals


def test_raked_tables_keep_their_odds_ratios():
    rng = np.random.default_rng(0)
    table, rows, columns = rng.random((6, 4)), rng.dirichlet(np.ones(6)), rng.dirichlet(np.ones(4))
    columns[2], rows[5] = 0.0, 0.0
    columns, rows = columns / columns.sum(), rows / rows.sum()
    start = table.copy()
    found = rake_to_marginals(table, rows, columns)
    np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-12)
    kept = np.ix_([0, 1, 2, 3, 4], [0, 1, 3])
    odds = np.log(found[kept] / start[kept])  # scaled rows and columns: an additive difference of logarithms
    np.testing.assert_allclose(odds, odds[:, :1] + odds[:1] - odds[0, 0], atol=1e-10)


@pytest.mark.parametrize("correlation", [0.0, 0.6, 0.95, -0.96])
def test_raking_equals_plain_steps_also_under_strong_dependence(correlation):
    rng = np.random.default_rng(0)
    x = np.linspace(-2.4, 2.4, 60)
    table = np.exp(-(x[:, None] ** 2 + x**2 - 2 * correlation * np.outer(x, x)) / (2 * (1 - correlation**2)))
    rows, columns = rng.dirichlet(np.full(60, 20.0)), rng.dirichlet(np.full(60, 20.0))
    expected = table.copy()
    for _ in range(5000):  # Sinkhorn's steps as they are
        expected *= (rows / expected.sum(axis=1))[:, None]
        expected *= columns / expected.sum(axis=0)
    np.testing.assert_allclose(expected.sum(axis=1), rows, rtol=1e-9)
    found = rake_to_marginals(table.copy(), rows, columns)
    np.testing.assert_allclose(found, expected, rtol=1e-7, atol=1e-12 * expected.max())


@given(st.integers(0, 2**31))
@settings(max_examples=200)
def test_marginals_are_exact_also_where_zeros_make_raking_impossible(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 7, size=2)
    table = rng.random(shape) ** rng.choice([1, 8, 60, 300]) * (rng.random(shape) < rng.choice([0.3, 0.7, 1.0]))
    rows, columns = (rng.random(n) * (rng.random(n) < 0.8) + 1e-300 * (np.arange(n) == 0) for n in shape)
    rows, columns = rows / rows.sum(), columns / columns.sum()
    found = rake_to_marginals(table, rows, columns)
    assert (found >= 0).all()
    np.testing.assert_allclose(found.sum(axis=1), rows, atol=1e-12)
    np.testing.assert_allclose(found.sum(axis=0), columns, atol=1e-12)


@given(st.integers(0, 2**31))
@settings(max_examples=100)
def test_raking_to_unequal_masses_equals_plain_steps(seed):
    rng = np.random.default_rng(seed)
    shape = rng.integers(2, 30, size=2)
    rows, columns = (np.maximum(rng.dirichlet(np.full(n, 0.5)), 1e-6) for n in shape)
    rows, columns = rows / rows.sum(), columns / columns.sum()
    gap = (np.cumsum(rows) - rows / 2)[:, None] - (np.cumsum(columns) - columns / 2)
    table = np.outer(rows, columns) / (1 + (gap / rng.uniform(0.1, 1.0)) ** 2) ** 3
    expected = table.copy()
    for _ in range(400):
        expected *= (rows / expected.sum(axis=1))[:, None]
        expected *= columns / expected.sum(axis=0)
    assume(np.abs(expected.sum(axis=1) - rows).sum() < 1e-12)  # plain steps have converged
    assert np.abs(rake_to_marginals(table, rows, columns) - expected).sum() < 1e-6


def test_tables_that_raking_cannot_join_are_refused_with_a_remedy():
    """Two features that equal a third one, and yet differ from each other."""
    model, same, other = chains([(0, 0.0), (1, 0.0), (2, 0.0)]), np.eye(2) / 2, (1 - np.eye(2)) / 2
    pairs = {("x0", "x1"): same, ("x1", "x2"): same, ("x0", "x2"): other}
    with pytest.raises(ValueError, match=r"that raking can join, got a gap of .*; give their joint table instead"):
        treeanova.decompose(model, density=pairs)
