"""Steps: segmentations against all segmentations of small arrays; means, purity and groups of divided tables."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeanova
from treeanova.decomposition.steps import averaged, best_steps, monotone_values, steps_of
from treeanova.model import CategoryAxis, IntervalAxis


def interval_axis(n_bins, *, is_missing=False):
    return IntervalAxis("a", n_bins if is_missing else -1, np.arange(n_bins - 1.0))


def category_axis(n_bins):
    return CategoryAxis("c", -1, tuple("abcdefgh"[:n_bins]), -1)


def all_groups(n_bins, n_groups):
    """All ways to divide a row of bins into neighbouring groups."""
    for cuts in itertools.combinations(range(1, n_bins), n_groups - 1):
        yield np.searchsorted(cuts, np.arange(n_bins), side="right")


def lost_by_hand(values, weights, groups):
    lost = 0.0
    for cell in {tuple(bins) for bins in itertools.product(*groups)}:
        inside = np.ix_(*(np.flatnonzero(group == one) for group, one in zip(groups, cell, strict=True)))
        v, w = values[inside].ravel(), weights[inside].ravel()
        if w.sum() > 0:
            lost += (w * (v - np.average(v, weights=w)) ** 2).sum()
    return lost


numbers = st.integers(-20, 20).map(float)


@given(st.lists(st.tuples(numbers, st.integers(0, 5)), min_size=2, max_size=6).filter(lambda x: sum(w for _, w in x)))
@settings(max_examples=40)
def test_segmentations_are_the_best_of_all(cells):
    values, weights = np.array(cells).T
    weights = weights / weights.sum()
    ways = steps_of([interval_axis(len(cells))], values[:, None], weights, most=None, least_share=0.0)
    sizes = [way.n_cells for way in ways[:-1]]
    assert sizes[0] == 1
    for way in ways:
        assert way.lost == pytest.approx(lost_by_hand(values, weights, way.groups), abs=1e-9)
        best = min(lost_by_hand(values, weights, [groups]) for groups in all_groups(len(cells), way.n_cells))
        assert way.lost == pytest.approx(best, abs=1e-9)
    losses = [way.lost for way in ways]
    assert all(after <= before + 1e-9 for before, after in itertools.pairwise(losses))


@given(st.lists(st.tuples(numbers, st.integers(1, 5)), min_size=2, max_size=4))
@settings(max_examples=25)
def test_categories_are_merged_as_well_as_any_partition(cells):
    values, weights = np.array(cells).T
    weights = weights / weights.sum()
    ways = steps_of([category_axis(len(cells))], values[:, None], weights, most=None, least_share=0.0)
    for way in ways:
        partitions = itertools.product(range(way.n_cells), repeat=len(cells))
        best = min(lost_by_hand(values, weights, [np.array(groups)]) for groups in partitions)
        assert way.lost == pytest.approx(best, abs=1e-9)
        assert lost_by_hand(values, weights, way.groups) == pytest.approx(best, abs=1e-9)


def test_every_bin_keeps_its_value_if_all_are_groups():
    """Categories in an order that is not that of their values."""
    values, weights = np.array([3.0, -1.0, 2.0, 0.5])[:, None], np.full(4, 0.25)
    for way in steps_of([category_axis(4)], values, weights, most=4, least_share=0.0):
        if way.n_cells == 4:
            np.testing.assert_array_equal(averaged(values, weights, way.groups), values)


@pytest.mark.parametrize("least_share", [0.1, 0.3, 0.6])
def test_no_segment_has_less_than_the_least_share(least_share):
    rng = np.random.default_rng(1)
    values, weights = rng.normal(size=(9, 1)), rng.dirichlet(np.ones(9))
    for way in steps_of([interval_axis(9)], values, weights, most=None, least_share=least_share):
        shares = np.bincount(way.groups[0], weights)
        assert way.n_cells == 1 or shares.min() >= least_share
        enough = (
            lost_by_hand(values[:, 0], weights, [groups])
            for groups in all_groups(9, way.n_cells)
            if np.bincount(groups, weights).min() >= least_share or way.n_cells == 1
        )
        assert way.lost == pytest.approx(min(enough))


def test_missing_values_keep_their_bin_and_limits_hold():
    rng = np.random.default_rng(2)
    values, weights = rng.normal(size=(8, 1)), rng.dirichlet(np.ones(8))
    ways = steps_of([interval_axis(7, is_missing=True)], values, weights, most=3, least_share=0.0)
    assert [way.n_cells for way in ways] == [2, 3, 4]
    for way in ways:
        assert (way.groups[0][:7] != way.groups[0][7]).all()


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_divided_pairs_are_pure_and_lose_what_they_say(seed):
    rng = np.random.default_rng(seed)
    weights = rng.dirichlet(np.ones(20)).reshape(4, 5) * (rng.random((4, 5)) < 0.8)
    weights /= weights.sum()
    values = np.asarray(treeanova.purify(rng.normal(size=(4, 5)), weights).terms[0, 1])
    for way in steps_of([interval_axis(4), interval_axis(5)], values[..., None], weights, most=4, least_share=0.0):
        table = averaged(values[..., None], weights, way.groups)[..., 0]
        sums = table * weights
        for axis in range(2):  # the mean over one axis, in each group of the other
            means = [sums.take(np.flatnonzero(way.groups[1 - axis] == g), 1 - axis).sum() for g in range(5)]
            np.testing.assert_allclose(means, 0.0, atol=1e-10)
        assert way.lost == pytest.approx(lost_by_hand(values, weights, way.groups), abs=1e-10)
        assert (weights * (values - table) ** 2).sum() == pytest.approx(way.lost, abs=1e-10)


def test_categories_of_a_pair_stay_apart():
    values, weights = np.ones((3, 4, 1)), np.full((3, 4), 1 / 12)
    for way in steps_of([category_axis(3), interval_axis(4)], values, weights, most=2, least_share=0.0):
        assert way.groups[0].tolist() == [0, 1, 2]


def test_a_higher_price_buys_fewer_cells():
    rng = np.random.default_rng(3)
    values, weights = np.cumsum(rng.normal(size=(30, 1)), axis=0), np.full(30, 1 / 30)
    ways = steps_of([interval_axis(30)], values, weights, most=None, least_share=0.0)
    sizes = [best_steps(ways, price).n_cells for price in (0.0, 1e-4, 1e-2, 1.0, 1e3)]
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[0] == 30
    assert sizes[-1] == 1


@pytest.mark.parametrize("sign", [1, -1])
def test_monotone_values_are_the_nearest(sign):
    """Against the dual: the greatest mean over starts of the smallest mean over ends."""
    rng = np.random.default_rng(4)
    values, weights = rng.normal(size=(7, 1)), rng.dirichlet(np.ones(7))
    mean = [
        [np.average(values[a : b + 1, 0], weights=weights[a : b + 1]) if b >= a else 0 for b in range(7)]
        for a in range(7)
    ]
    if sign > 0:
        nearest = [max(min(mean[a][b] for b in range(i, 7)) for a in range(i + 1)) for i in range(7)]
    else:
        nearest = [min(max(mean[a][b] for b in range(i, 7)) for a in range(i + 1)) for i in range(7)]
    fit = monotone_values(interval_axis(7), values, weights, sign)
    np.testing.assert_allclose(fit[:, 0], nearest)
