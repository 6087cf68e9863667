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


def stack_of(margins, places):
    """Margins padded to the shape that they share."""
    [shape] = {shape_of(margin) for margin in margins}
    return Margins(margins, np.array(places), shape)


@pytest.mark.parametrize("scale", ["ranks", "values"])
@pytest.mark.parametrize("bandwidth", [0.05, 0.5, 3.0])
def test_kernels_of_a_stack_are_those_of_its_margins(scale, bandwidth):
    margins = margins_of_one_shape()
    stacked = stack_of(margins, range(4)).kernels([bandwidth] * 4, [scale] * 4)
    assert stacked.ordered.shape == (4, 48, 48)
    for place, margin in enumerate(margins):
        alone = margin.kernel(bandwidth, scale)
        np.testing.assert_allclose(stacked[place].ordered[:20, :20], alone.ordered, rtol=1e-11)
        np.testing.assert_array_equal(stacked[place].diagonals, alone.diagonals)


def test_each_margin_of_a_stack_has_its_own_kernel():
    margins = margins_of_one_shape()
    stacked, scales = stack_of(margins, [2, 0, 2, 2]), ["ranks", "values", "values", "ranks"]
    widths = [0.5, 0.5, 0.5, 2.0]
    for _ in range(2):  # the second time, kernels are remembered
        kernels = stacked.kernels(widths, scales)
        for number, place in enumerate([2, 0, 2, 2]):
            alone = margins[place].kernel(widths[number], scales[number])
            np.testing.assert_allclose(kernels[number].ordered[:20, :20], alone.ordered, rtol=1e-11)


def test_margins_of_pairs_are_taken_from_their_places():
    margins = margins_of_one_shape()
    stacked = stack_of(margins, [3, 0, 0])
    for place, margin in enumerate([margins[3], margins[0], margins[0]]):
        n_points = margin.points.size
        np.testing.assert_array_equal(np.delete(stacked.group_masses[place], np.arange(20, 48)), margin.group_masses)
        assert not stacked.group_masses[place, 20:48].any()
        np.testing.assert_array_equal(stacked.points[place, :n_points], margin.points.ravel())
        np.testing.assert_allclose(stacked.mean_points[place, :20], margin.points.mean(axis=1))
        means = stacked.point_shares[place] @ stacked.points[place]
        np.testing.assert_allclose(means[:20], margin.points.mean(axis=1))
        for law in FAMILIES:
            scores = margin.copula_scores(law.scores, is_reversed=True).ravel()
            found = stacked.copula_scores(law.scores, is_reversed=True)[place]
            np.testing.assert_array_equal(found[:n_points], scores)


def test_coarse_groups_are_pooled():
    masses = np.random.default_rng(1).dirichlet(np.full(100, 1e4), size=4)
    stacked = stack_of([Margin(m, 100, 300.0) for m in masses], range(4))
    coarse = stacked.coarse
    pooled = np.einsum("kij,kj->ki", stacked.pooling, stacked.group_masses)
    np.testing.assert_allclose(pooled, coarse.group_masses, rtol=1e-12)
    assert coarse.is_pooled
    assert not stacked.is_pooled


def test_margins_of_about_as_many_groups_share_a_shape():
    sizes = [(20, 0), (20, 1), (3, 0), (49, 0), (0, 9)]
    shapes = [shape_of(Margin(np.full(n + m, 1 / (n + m)), n, 50.0)) for n, m in sizes]
    assert len(set(shapes)) == len(sizes)
    for (n, m), shape in zip(sizes, shapes, strict=True):
        assert shape.n_ordered >= n
        assert shape.n_others >= m
    assert shapes[0] == shape_of(Margin(np.full(33, 1 / 33), 33, 50.0))
    assert shapes[-1].n_ordered == shapes[-1].n_points == 0
    assert len({shape_of(margin) for margin in margins_of_one_shape()}) == 1


def test_empty_groups_lie_between_ordered_ones_and_those_without_order():
    masses = np.random.default_rng(0).dirichlet(np.ones(24))
    margin = Margin(masses, 21, 100.0, np.arange(21.0))
    [padded] = stack_of([margin], [0]).group_masses
    np.testing.assert_array_equal(padded, np.concatenate([masses[:21], np.zeros(27), masses[21:], np.zeros(1)]))


def test_merged_bins_are_padded_by_their_groups():
    """Of 400 bins a few have rows, so that there are fewer groups than bins; values are those of the bins."""
    masses = np.zeros(400)
    masses[::20] = 1 / 20
    margin = Margin(masses, 400, 150.0, values=np.where(masses > 0, np.arange(400.0), np.nan))
    stacked, n = stack_of([margin], [0]), margin.n_ordered_groups
    assert stacked.is_pooled
    assert n < stacked.shape.n_ordered
    np.testing.assert_allclose(
        stacked.kernels([0.5], ["values"]).ordered[0, :n, :n], margin.kernel(0.5, "values").ordered, rtol=1e-11
    )
