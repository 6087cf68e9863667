"""Stacks of margins against each margin alone."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.density.smooth.margins import FAMILIES, Margin, Margins, shape_of


def margins_of_one_shape(n_ordered=20, n_margins=4):
    rng = np.random.default_rng(0)
    masses = rng.dirichlet(np.ones(n_ordered + 1), size=n_margins)
    masses[1, 3] = 0.0
    values = np.sort(rng.normal(size=(n_margins, n_ordered)), axis=1)
    return [Margin(m / m.sum(), n_ordered, 300.0, v) for m, v in zip(masses, values, strict=True)]


@pytest.mark.parametrize("scale", ["ranks", "values"])
@pytest.mark.parametrize("bandwidth", [0.05, 0.5, 3.0])
def test_kernels_of_a_stack_are_those_of_its_margins(scale, bandwidth):
    stacked = Margins(margins_of_one_shape(), np.arange(4)).kernels(bandwidth, scale)
    for place, margin in enumerate(margins_of_one_shape()):
        alone = margin.kernel(bandwidth, scale)
        np.testing.assert_allclose(stacked[place].ordered, alone.ordered, rtol=1e-12)
        np.testing.assert_array_equal(stacked[place].diagonals, alone.diagonals)


def test_kernels_that_are_known_are_not_computed_again():
    margins = margins_of_one_shape()
    known = margins[2].kernel(0.5)
    stacked = Margins(margins, np.arange(4)).kernels(0.5, "ranks")
    np.testing.assert_array_equal(stacked[2].ordered, known.ordered)
    assert margins[2].kernel(0.5) is known
    np.testing.assert_allclose(stacked[0].left(margins[0].masses[:, None]), 1.0, atol=1e-11)


def test_margins_of_pairs_are_taken_from_their_places():
    margins = margins_of_one_shape()
    stacked = Margins(margins, np.array([3, 0, 0]))
    for place, margin in enumerate([margins[3], margins[0], margins[0]]):
        np.testing.assert_array_equal(stacked.group_masses[place], margin.group_masses)
        np.testing.assert_array_equal(stacked.points[place].reshape(-1, 20).T, margin.points)
        np.testing.assert_allclose(stacked.mean_points[place], margin.points.mean(axis=1))
        kernel = stacked.take(np.array([place])).kernels(0.7, "ranks")[0]
        np.testing.assert_array_equal(kernel.ordered, margin.kernel(0.7).ordered)
        for law in FAMILIES:
            scores = margin.copula_scores(law.scores, is_reversed=True).T.ravel()
            np.testing.assert_array_equal(stacked.copula_scores(law.scores, is_reversed=True)[place], scores)


def test_coarse_groups_are_pooled():
    masses = np.random.default_rng(1).dirichlet(np.full(100, 1e4), size=4)
    stacked = Margins([Margin(m, 100, 300.0) for m in masses], np.arange(4))
    coarse = stacked.coarse
    pooled = np.einsum("kij,kj->ki", coarse.pooling, stacked.group_masses)
    np.testing.assert_allclose(pooled, coarse.group_masses, rtol=1e-12)
    assert not any(margin.binning.is_identity for margin in coarse.distinct)
    assert all(margin.binning.is_identity for margin in stacked.distinct)


def test_shapes_differ_by_numbers_of_groups_and_of_points():
    sizes = [(20, 0), (20, 1), (21, 0), (3, 0), (200, 0)]
    shapes = [shape_of(Margin(np.full(n + m, 1 / (n + m)), n, 50.0)) for n, m in sizes]
    assert len(set(shapes)) == len(sizes)
    assert len({shape_of(margin) for margin in margins_of_one_shape()}) == 1
