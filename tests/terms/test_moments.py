"""Moments of terms against sums over rows, over all cells, and over pairs of bins."""

from __future__ import annotations

import functools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.effects import grid_of_sizes, random_effects
from tests.support.forests import all_cells
from tests.support.strategies import SEEDS
from treeanova.density import Empirical, Independent, Laplace, Uniform
from treeanova.density.statistics import statistics_of
from treeanova.model.effects import Effects
from treeanova.model.grid import binning_by
from treeanova.terms.moments import Moments, covariance_changes, moments, moments_of_values


def weighted(values, weights):
    """Variance, covariance with the sum of all others, and mean absolute value of terms at weighted points."""
    n_terms, _, n_outputs = values.shape
    found = np.zeros((3, n_terms, n_outputs))
    for t in range(n_terms):
        for k in range(n_outputs):
            matrix = np.stack([values[t, :, k], values[:, :, k].sum(axis=0) - values[t, :, k]])
            covariance = np.cov(matrix, aweights=weights, ddof=0)
            found[:, t, k] = covariance[0, 0], covariance[0, 1], np.average(np.abs(values[t, :, k]), weights=weights)
    return found


@given(SEEDS, st.sampled_from([Empirical(), Independent(), Uniform(), Laplace(mix=0.3)]))
def test_moments_are_sums_over_rows_or_cells(seed, density):
    """Of raw terms on axes of their own, which have means and are correlated."""
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    rows = rng.uniform(-1, 5, size=(30, 1)) + rng.normal(size=(30, len(effects.grid.axes)))
    bound = density.bind(effects.grid, statistics_of(rows, effects.grid))
    weights = {key: bound.table(key, effects.binnings_of(key)) for key in effects.terms}
    found = moments(effects, weights, bound.joint, rng)
    cells = all_cells(effects.grid)
    masses = bound.table(tuple(range(len(effects.grid.axes)))).ravel()
    values = np.stack([effects.at(key, cells) for key in effects.terms])
    variance, covariance, mean_abs = weighted(values, masses)
    np.testing.assert_allclose(found.variance, variance, atol=1e-10)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-10)
    np.testing.assert_allclose(found.mean_abs, mean_abs, atol=1e-10)
    total = values.sum(axis=0)
    np.testing.assert_allclose(found.score_variance, masses @ (total - masses @ total) ** 2, atol=1e-10)


def test_moments_of_values_are_those_of_weighted_rows():
    rng = np.random.default_rng(0)
    values, weights = rng.normal(size=(4, 50, 2)) + 1, rng.random(50)
    found = moments_of_values(values.swapaxes(0, 1), weights / weights.sum())
    np.testing.assert_allclose(
        [found.variance, found.covariance, found.mean_abs], weighted(values, weights), atol=1e-12
    )


def test_without_a_joint_density_there_are_no_covariances():
    effects = random_effects(np.random.default_rng(0), sizes=(3, 4))
    weights = {key: np.full(values.shape[:-1], 1 / values[..., 0].size) for key, values in effects.terms.items()}
    found = moments(effects, weights, None, np.random.default_rng(0))
    assert (found.covariance == 0).all()
    for i, (key, values) in enumerate(effects.terms.items()):
        np.testing.assert_allclose(found.variance[i], values.var(axis=tuple(range(len(key)))))


def test_changes_of_covariances_go_to_the_first_terms():
    plain = Moments(np.ones((3, 1)), np.zeros((3, 1)), np.ones((3, 1)))
    changed = plain.with_covariances(np.array([[2.0], [3.0]]))
    assert changed.covariance.ravel().tolist() == [2.0, 3.0, 0.0]
    assert plain.covariance.ravel().tolist() == [0.0, 0.0, 0.0]


def test_variances_of_tables_replace_those_at_rows():
    terms = {(0,): np.array([[1.0], [-1.0]])}
    at_rows = Moments(np.array([[9.0], [5.0]]), np.array([[1.0], [1.0]]), np.array([[9.0], [5.0]]))
    weights = {(0,): np.array([0.25, 0.75])}
    found = at_rows.with_tables(terms, weights, uncorrelated=False)
    assert found.variance.ravel().tolist() == [0.75, 5.0]
    assert found.mean_abs.ravel().tolist() == [1.0, 5.0]
    assert found.covariance.ravel().tolist() == [1.0, 1.0]
    assert at_rows.with_tables(terms, weights, uncorrelated=True).covariance.ravel().tolist() == [0.0, 0.0]


def mean_over(bins, values, masses, size):
    """Weighted mean of values over the bins of a binning; of all values equally where there is no mass."""
    means = []
    for b in range(size):
        inside = bins == b
        means.append(np.average(values[inside], weights=masses[inside] if masses[inside].any() else None))
    return np.array(means)


def nested_and_crossed():
    """Binnings of 5 bins for a main effect and for its pair: finer, equal, coarser, and across each other."""
    whole, halves = binning_by(np.arange(5)), binning_by(np.array([0, 0, 1, 1, 1]))
    other = binning_by(np.array([0, 1, 1, 1, 2]))
    return {"finer": (whole, halves), "equal": (halves, halves), "coarser": (halves, whole), "crossed": (halves, other)}


@pytest.mark.parametrize("case", nested_and_crossed())
def test_changes_of_covariances_are_sums_over_the_cells_of_the_pair(case):
    """Main effects count by their means over the bins of the pair, whose axes need not be coarser."""
    rng = np.random.default_rng(0)
    main, pair = nested_and_crossed()[case]
    columns = binning_by(np.arange(3))
    grid = grid_of_sizes([5, 3])
    terms = {
        (0,): rng.normal(size=(main.size, 1)),
        (1,): rng.normal(size=(3, 1)),
        (0, 1): rng.normal(size=(pair.size, 3, 1)),
    }
    effects = Effects(grid, np.zeros(1), terms, {(0,): (main,), (0, 1): (pair, columns)})
    masses = np.array([0.1, 0.3, 0.2, 0.25, 0.15]), np.array([0.5, 0.3, 0.2])
    weights = {(0,): main.pool(masses[0]), (1,): masses[1], (0, 1): np.zeros((pair.size, 3))}
    difference = rng.normal(size=(pair.size, 3))
    found = covariance_changes(effects, weights, {(0, 1): difference}, lambda j: masses[j])
    first = terms[0,][main.bins, 0]
    first = mean_over(pair.bins, first - masses[0] @ first, masses[0], pair.size)
    second = terms[1,][:, 0] - masses[1] @ terms[1,][:, 0]
    interaction = terms[0, 1][..., 0]
    both = (difference * np.multiply.outer(first, second)).sum()
    with_first = (difference * first[:, None] * interaction).sum()
    with_second = (difference * second * interaction).sum()
    expected = [both + with_first, both + with_second, with_first + with_second]
    np.testing.assert_allclose(found[:, 0], expected, atol=1e-12)


def test_bins_without_mass_count_equally():
    grid = grid_of_sizes([2, 2])
    halves = binning_by(np.array([0, 0]))
    terms = {(0,): np.array([[1.0], [3.0]]), (1,): np.array([[1.0], [-1.0]]), (0, 1): np.zeros((1, 2, 1))}
    effects = Effects(grid, np.zeros(1), terms, {(0, 1): (halves, binning_by(np.arange(2)))})
    weights = {(0,): np.array([1.0, 0.0]), (1,): np.array([0.5, 0.5]), (0, 1): np.array([[0.5, 0.5]])}
    change = functools.partial(covariance_changes, effects, weights, {(0, 1): np.array([[1.0, 0.0]])})
    # Centred main of x0: 0 and 2; its mean over both bins is 0 by mass, 1 without mass.
    assert change(lambda j: np.array([1.0, 0.0]))[0, 0] == 0.0
    assert change(lambda j: np.zeros(2))[0, 0] == 1.0
