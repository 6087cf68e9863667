"""Joint densities: tables are marginals of one probability, and points represent it."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.densities import MIXED_GRID, MIXED_KEYS, MIXED_SIZES, marginal, mixed_rows, mixed_shares
from treeanova.density import costs
from treeanova.density.base import Blocks, EmpiricalJoint, Mixture, Product, draw_bins
from treeanova.density.statistics import statistics_of

MASSES = [np.array([0.1, 0.2, 0.3, 0.4]), np.array([0.25, 0.75]), np.array([0.5, 0.0, 0.5])]
TABLE = np.random.default_rng(0).dirichlet(np.ones(24)).reshape(MIXED_SIZES)


def blocks():
    """The second feature alone; the others by a table whose axes are in another order."""
    pair = TABLE.sum(axis=1)
    return Blocks([((1,), MASSES[1]), ((2, 0), pair.T)]), np.einsum("ac,b->abc", pair, MASSES[1])


def cases():
    statistics = statistics_of(mixed_rows(), MIXED_GRID)
    product = np.einsum("a,b,c->abc", *MASSES)
    mixture = Mixture((0.3, 0.7, 0.0), (Product(MASSES), Blocks([((0, 1, 2), TABLE)]), EmpiricalJoint(statistics)))
    return {
        "rows": (EmpiricalJoint(statistics), mixed_shares(mixed_rows())),
        "product": (Product(MASSES), product),
        "cells": (Blocks([((0, 1, 2), TABLE)]), TABLE),
        "blocks": blocks(),
        "mixture": (mixture, 0.3 * product + 0.7 * TABLE),
    }


@pytest.mark.parametrize("name", cases())
def test_tables_are_marginals_of_one_probability(name):
    joint, expected = cases()[name]
    for key in MIXED_KEYS:
        np.testing.assert_allclose(joint.table(key), marginal(expected, key), rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("name", cases())
def test_components_add_up(name):
    joint, expected = cases()[name]
    total = sum(share * component.table((0, 1, 2)) for share, component in joint.components())
    np.testing.assert_allclose(total, expected, rtol=1e-12, atol=1e-15)
    assert len(list(joint.components())) == (2 if name == "mixture" else 1)


@pytest.mark.parametrize("name", cases())
def test_points_have_the_tables(name):
    joint, expected = cases()[name]
    codes, weights = joint.points(40_000, np.random.default_rng(0))
    assert weights.sum() == pytest.approx(1.0)
    shares = np.zeros(MIXED_SIZES)
    np.add.at(shares, tuple(codes.T), weights)
    np.testing.assert_allclose(shares, expected, rtol=0, atol=1e-12 if joint.has_exact_points else 0.01)
    assert joint.has_exact_points == (name in {"rows", "cells", "blocks"})
    assert joint.is_product == (name == "product")


def test_points_of_a_single_block_are_all_its_cells():
    joint = Blocks([((1, 2, 0), TABLE.transpose(1, 2, 0))])
    assert joint.has_exact_points
    codes, weights = joint.points(5, np.random.default_rng(0))
    shares = np.zeros(MIXED_SIZES)
    np.add.at(shares, tuple(codes.T), weights)
    np.testing.assert_allclose(shares, TABLE)


def test_points_of_very_many_cells_are_draws(monkeypatch):
    monkeypatch.setattr(costs, "MAX_CELLS", 10)
    for joint, expected in ((Blocks([((0, 1, 2), TABLE)]), TABLE), blocks()):
        assert not joint.has_exact_points
        codes, weights = joint.points(30_000, np.random.default_rng(0))
        assert len(codes) == 30_000
        shares = np.zeros(MIXED_SIZES)
        np.add.at(shares, tuple(codes.T), weights)
        np.testing.assert_allclose(shares, expected, atol=0.01)


def test_points_on_a_finer_grid_are_rows_in_their_bins_or_drawn_within():
    statistics = statistics_of(mixed_rows(), MIXED_GRID)

    def refine(codes, rng):
        return codes * 10 + rng.integers(0, 10, codes.shape)

    rng = np.random.default_rng(0)
    exact = EmpiricalJoint(statistics).points_on(MIXED_GRID, refine, 5, rng)
    np.testing.assert_array_equal(exact.codes, statistics.points().codes)
    drawn = Product(MASSES).points_on(MIXED_GRID, refine, 50, rng)
    assert (drawn.codes // 10 <= [3, 1, 2]).all()
    assert drawn.codes.max() > 3
    mixed = Mixture((0.5, 0.5), (EmpiricalJoint(statistics), Product(MASSES))).points_on(MIXED_GRID, refine, 50, rng)
    assert len(mixed.codes) == 90
    assert mixed.weights[:40].sum() == pytest.approx(0.5)


@pytest.mark.parametrize("n_rows", [1, 7, 100])
@pytest.mark.parametrize("seed", range(3))
def test_draws_of_bins_are_as_near_to_their_masses_as_whole_numbers_can_be(n_rows, seed):
    rng = np.random.default_rng(seed)
    masses = rng.dirichlet(np.full(6, 0.5)) * 3
    masses[2] = 0.0
    counts = np.bincount(draw_bins(masses, n_rows, rng), minlength=6)
    assert counts.sum() == n_rows
    assert np.abs(counts - n_rows * masses / masses.sum()).max() < 1
    assert counts[2] == 0
