"""Binnings: sums and means by loops, coarse axes that put every value where the binning says, coarsest refinements."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeanova.model.axes import CategoryAxis, IntervalAxis
from treeanova.model.grid import Binning, binning_by, common_refinement, equal_mass, equal_mass_groups, unmerged

MASSES = st.lists(st.floats(0, 1), min_size=1, max_size=12)


@st.composite
def binnings(draw, n_bins=None):
    """A binning of neighbours, with shares by random masses, some of them zero."""
    n = draw(st.integers(1, 10)) if n_bins is None else n_bins
    steps = draw(st.lists(st.integers(0, 1), min_size=n - 1, max_size=n - 1))
    masses = np.array(draw(st.lists(st.sampled_from([0.0, 0.5, 1.0, 3.0]), min_size=n, max_size=n)))
    return binning_by(np.concatenate([[0], np.cumsum(steps)]).astype(np.int64), masses)


def members(binning, coarse):
    """Fine bins of a coarse one."""
    return [fine for fine, bin_ in enumerate(binning.bins) if bin_ == coarse]


@given(binnings(), st.integers(0, 2), st.integers(0, 2**32 - 1))
def test_pool_adds_up_and_average_weighs_by_shares(binning, axis, seed):
    n, shape = len(binning.bins), [2, 3, 2]
    shape[axis] = n
    values = np.random.default_rng(seed).normal(size=shape)
    pooled, means = binning.pool(values, axis), binning.average(values, axis)
    for coarse in range(binning.size):
        fine = members(binning, coarse)
        expected = sum(values.take(b, axis=axis) for b in fine)
        np.testing.assert_allclose(pooled.take(coarse, axis=axis), expected, atol=1e-12)
        expected = sum(binning.shares[b] * values.take(b, axis=axis) for b in fine)
        np.testing.assert_allclose(means.take(coarse, axis=axis), expected, atol=1e-12)
    np.testing.assert_allclose(pooled.sum(axis=axis), values.sum(axis=axis), atol=1e-12)


@given(binnings(), st.integers(0, 2**32 - 1))
def test_spread_repeats_values_that_pool_and_average_take_back(binning, seed):
    rng = np.random.default_rng(seed)
    values, masses = rng.normal(size=(2, binning.size)), rng.random(len(binning.bins))
    spread = binning.spread(values, axis=1)
    for fine, coarse in enumerate(binning.bins):
        np.testing.assert_array_equal(spread[:, fine], values[:, coarse])
    np.testing.assert_allclose(binning.average(spread, axis=1), values, atol=1e-12)
    np.testing.assert_allclose(binning.pool(spread * masses, axis=1), values * binning.pool(masses), atol=1e-12)


@given(binnings())
def test_shares_add_up_to_one_in_every_coarse_bin(binning):
    assert binning.size == len(set(binning.bins.tolist()))
    for coarse in range(binning.size):
        assert sum(binning.shares[b] for b in members(binning, coarse)) == pytest.approx(1.0)


def test_shares_follow_masses_and_are_equal_without_mass():
    binning = binning_by(np.array([7, 7, 9, 9, 9]), np.array([1.0, 3.0, 0.0, 0.0, 0.0]))
    assert binning.bins.tolist() == [0, 0, 1, 1, 1]
    np.testing.assert_allclose(binning.shares, [0.25, 0.75, 1 / 3, 1 / 3, 1 / 3])
    np.testing.assert_allclose(binning_by(np.array([0, 0, 1])).shares, [0.5, 0.5, 1.0])


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(binnings(n_bins=n), binnings(n_bins=n))))
def test_within_leads_from_a_refinement_to_both(pair):
    both = common_refinement(pair)
    for binning in pair:
        inside = binning.within(both)
        assert len(inside) == both.size
        np.testing.assert_array_equal(inside[both.bins], binning.bins)


@given(st.integers(1, 8).flatmap(lambda n: st.lists(binnings(n_bins=n), min_size=1, max_size=4)))
def test_the_common_refinement_merges_exactly_the_bins_that_all_merge(options):
    """By the definition: two fine bins are merged where every binning merges them, and nowhere else."""
    both = common_refinement(options)
    for a, b in itertools.combinations(range(len(both.bins)), 2):
        assert (both.bins[a] == both.bins[b]) == all(option.bins[a] == option.bins[b] for option in options)
    assert both.size == len(set(zip(*(option.bins.tolist() for option in options), strict=True)))
    assert (np.diff(both.bins) >= 0).all()  # neighbours stay neighbours


def test_the_common_refinement_of_categories_need_not_be_neighbours():
    first, second = binning_by(np.array([0, 1, 0, 1])), binning_by(np.array([0, 1, 1, 1]))
    both = common_refinement([first, second])
    assert both.bins.tolist() == [0, 1, 2, 1]
    assert first.within(both).tolist() == [0, 1, 0]


@given(st.integers(1, 8).flatmap(lambda n: st.tuples(binnings(n_bins=n), binnings(n_bins=n))))
def test_a_binning_refines_another_that_merges_all_that_it_merges(pair):
    first, second = pair
    fine = zip(first.bins, second.bins, strict=True)
    one_each = len(set(fine)) == first.size  # each bin of the first meets one bin of the second
    assert first.refines(second) == one_each
    assert common_refinement(pair).refines(first)
    assert common_refinement(pair).refines(second)


def test_equality_is_of_bins():
    assert unmerged(3).equals(binning_by(np.array([5, 6, 8]), np.array([1.0, 2.0, 3.0])))
    assert not unmerged(3).equals(binning_by(np.array([0, 0, 1])))
    assert unmerged(3).is_identity
    assert not binning_by(np.array([0, 0, 1])).is_identity


@pytest.mark.parametrize(("n_bins", "max_bins", "expected"), [(5, 8, 5), (5, 4, 3), (16, 4, 4), (17, 4, 3), (3, 1, 1)])
def test_neighbours_are_merged_two_by_two(n_bins, max_bins, expected):
    coarser = unmerged(n_bins).coarser(max_bins)
    assert unmerged(n_bins).coarser_size(max_bins) == expected == len(np.unique(coarser)) <= max_bins
    group = 2 ** unmerged(n_bins).shift(max_bins)
    assert coarser.tolist() == [b // group for b in range(n_bins)]


# Axes


@given(
    st.lists(st.integers(-5, 5), min_size=1, max_size=8, unique=True),
    st.sampled_from(["refused", "apart", "shared"]),
    st.data(),
)
def test_the_coarse_axis_puts_values_into_the_coarse_bins(bounds, missing, data):
    bounds = np.sort(np.array(bounds, dtype=float))
    n_regular = len(bounds) + 1
    missing_bin = {"refused": -1, "apart": n_regular, "shared": data.draw(st.integers(0, n_regular - 1))}[missing]
    fine = IntervalAxis("x", missing_bin, bounds)
    steps = data.draw(st.lists(st.integers(0, 1), min_size=n_regular - 1, max_size=n_regular - 1))
    groups = np.concatenate([[0], np.cumsum(steps)])
    binning = binning_by(np.append(groups, [groups[-1] + 1] * fine.n_extra))
    coarse = binning.axis(fine)
    values = np.concatenate([bounds, bounds + 0.5, [-9.0, 9.0], [np.nan] * (missing_bin >= 0)])
    np.testing.assert_array_equal(coarse.index(values), binning.bins[fine.index(values)])
    assert coarse.size == binning.size
    assert set(coarse.thresholds) <= set(bounds)


def test_an_unmerged_axis_is_the_same_axis():
    axis = CategoryAxis("k", -1, ("u", "v"), -1)
    assert unmerged(2).axis(axis) is axis


def test_categories_are_never_merged_on_axes():
    with pytest.raises(ValueError, match="categories of 'k' must stay apart"):
        binning_by(np.array([0, 0])).axis(CategoryAxis("k", -1, ("u", "v"), -1))


@pytest.mark.parametrize("bins", [[0, 1, 0], [0, 2, 1]])
def test_only_neighbouring_intervals_are_merged(bins):
    axis = IntervalAxis("x", -1, np.array([0.0, 1.0]))
    with pytest.raises(ValueError, match="neighbouring intervals of 'x' must be merged in order, got bins"):
        axis.coarsened(np.array(bins))


# Equal masses


@given(MASSES, st.integers(1, 6))
def test_groups_of_equal_mass_are_neighbours_and_none_is_far_above_its_share(masses, n_groups):
    masses = np.array(masses)
    groups = equal_mass_groups(masses, n_groups)
    assert (np.diff(groups) >= 0).all()
    assert groups.min() >= 0
    assert groups.max() < n_groups
    # A group holds the bins whose middles lie in its share, so at most half a bin more at either end.
    for group in np.unique(groups):
        assert masses[groups == group].sum() <= masses.sum() / n_groups + masses.max() + 1e-9


def test_groups_of_equal_mass_by_hand():
    assert equal_mass_groups(np.array([1.0, 1.0, 1.0, 1.0]), 2).tolist() == [0, 0, 1, 1]
    assert equal_mass_groups(np.array([6.0, 1.0, 1.0]), 2).tolist() == [0, 1, 1]
    assert equal_mass_groups(np.zeros(4), 2).tolist() == [0, 0, 1, 1]


def test_bins_of_missing_values_stay_apart():
    axis = IntervalAxis("x", 4, np.array([0.0, 1.0, 2.0]))
    binning = equal_mass(axis, np.array([1.0, 1.0, 1.0, 1.0, 9.0]), 3)
    assert binning.bins.tolist() == [0, 0, 1, 1, 2]
    assert binning.axis(axis).labels == ("≤ 1", "> 1", "missing")


def test_rare_categories_become_one_bin():
    axis = CategoryAxis("k", -1, ("u", "v", "w", "z"), -1)
    binning = equal_mass(axis, np.array([1.0, 5.0, 2.0, 4.0]), 3)
    assert binning.bins[1] != binning.bins[3]
    assert binning.bins[0] == binning.bins[2] not in {binning.bins[1], binning.bins[3]}


def test_few_bins_are_left_as_they_are():
    axis = IntervalAxis("x", -1, np.array([0.0, 1.0]))
    assert equal_mass(axis, np.ones(3), 3).is_identity
    assert isinstance(equal_mass(axis, np.ones(3), 2), Binning)
    assert equal_mass(axis, np.ones(3), 2).size == 2
