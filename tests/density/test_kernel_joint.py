"""The smooth joint density: tables of one probability, and draws from it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.densities import bind_columns, normals
from treeanova.density import Kernel
from treeanova.model.axes import CategoryAxis, IntervalAxis


@pytest.mark.parametrize("kind", ["auto", "kernel"])
@pytest.mark.parametrize("correlation", [0.0, 0.5, 0.9])
def test_tables_of_three_and_more_features_are_of_one_joint_density(kind, correlation):
    density = bind_columns(kind, normals(correlation, 800, order=4), (4, 3, 5, 3))
    four = density.table((0, 1, 2, 3))
    assert four.sum() == pytest.approx(1.0, abs=1e-12)
    for axis, key in enumerate([(1, 2, 3), (0, 2, 3), (0, 1, 3), (0, 1, 2)]):
        np.testing.assert_allclose(four.sum(axis=axis), density.table(key), atol=1e-12)
    for j in range(4):
        others = tuple(axis for axis in range(4) if axis != j)
        np.testing.assert_allclose(four.sum(axis=others), density.table((j,)), atol=1e-10)


@pytest.mark.parametrize("kind", ["auto", "kernel"])
def test_the_gap_is_the_distance_between_a_pair_and_the_joint_density(kind):
    density = bind_columns(kind, normals(0.7, 2000))
    triple = density.table((0, 1, 2))
    for i, j in itertools.combinations(range(3), 2):
        distance = np.abs(triple.sum(axis=3 - i - j) - density.table((i, j))).sum() / 2
        assert density.gap((i, j)) == pytest.approx(distance, abs=1e-12)
        assert 0 < distance < 0.08


def test_a_dependence_of_three_features_is_as_the_rows_have_it():
    """Two features follow a third; the joint density must give octants the shares that rows have."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=4000)
    columns = [x, x**2 + 0.5 * rng.normal(size=4000), np.sign(x) * rng.exponential(size=4000)]
    density = bind_columns("auto", columns, (8, 8, 8))
    halves = [np.add.reduceat(np.eye(8), [0, 4], axis=0)] * 3
    octants = np.einsum("abc,ia,jb,kc->ijk", density.table((0, 1, 2)), *halves)
    codes = density.grid.index(np.stack(columns, axis=1)) // 4
    rows = np.bincount(codes @ [4, 2, 1], minlength=8).reshape(2, 2, 2) / 4000
    np.testing.assert_allclose(octants, rows, atol=0.03)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_draws_have_the_marginals_and_the_dependence(correlation):
    columns = normals(correlation, 4000, order=2)
    density = bind_columns(Kernel(bandwidth=0.5), columns, (10, 10))
    codes = density.draw(200_000, random_state=1)
    for j in range(2):
        shares = np.bincount(codes[:, j], minlength=10) / 200_000
        np.testing.assert_allclose(shares, 0.1, atol=0.002)
    joint = np.bincount(codes[:, 0] * 10 + codes[:, 1], minlength=100).reshape(10, 10) / 200_000
    np.testing.assert_allclose(joint, density.table((0, 1)), atol=0.002)
    np.testing.assert_array_equal(codes, density.draw(200_000, random_state=1))
    assert (codes != density.draw(200_000, random_state=2)).any()


def test_draws_leave_bins_without_order_and_bins_without_rows_alone():
    rng = np.random.default_rng(0)
    x = rng.normal(size=2000)
    category = np.where(x > 0, "u", "v").astype(object)
    holed = np.where(rng.random(2000) < 0.3, np.nan, np.where(np.abs(x) < 0.5, 2.0, x))
    axes = [CategoryAxis("k", -1, ("u", "v", "w"), -1), IntervalAxis("a", 5, np.array([-1.0, -0.5, 0.5, 1.9]))]
    density = bind_columns(Kernel(bandwidth=0.1), [category, holed], axes=axes)
    codes = density.draw(50_000)
    assert np.bincount(codes[:, 1], minlength=6)[2] == 0  # |x| < 0.5 never occurs
    assert np.mean(codes[:, 1] == 5) == pytest.approx(np.isnan(holed).mean(), abs=0.01)
    assert np.mean(codes[:, 0] == 0) == pytest.approx((category == "u").mean(), abs=0.01)
    both = (codes[:, 0] == 0) & (codes[:, 1] == 0)  # u is x > 0; a narrow kernel seldom carries it below -1
    assert both.mean() < 0.02
