"""Term sets of tensors: look-ups by loops, fewer terms, equality."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given

from tests.support.effects import grid_of_sizes, random_effects
from tests.support.forests import all_cells
from tests.support.strategies import SEEDS
from treeanova.density import Empirical
from treeanova.density.statistics import statistics_of
from treeanova.model.effects import Effects
from treeanova.model.grid import binning_by
from treeanova.terms.terms import TermSet


@given(SEEDS)
def test_terms_at_rows_are_looked_up(seed):
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    terms, cells = TermSet(effects), all_cells(effects.grid)
    keys = [terms.keys[i] for i in rng.permutation(len(terms.keys))]
    values = terms.at(cells, keys)
    for i, key in enumerate(keys):
        binnings = effects.binnings_of(key)
        for row, cell in enumerate(cells):
            bins = tuple(int(b.bins[cell[j]]) for j, b in zip(key, binnings, strict=True))
            np.testing.assert_array_equal(values[row, i], effects.terms[key][bins])
    np.testing.assert_allclose(terms.sum_at(cells), effects.intercept + values.sum(axis=1), atol=1e-12)


def test_what_all_tensors_have():
    effects = random_effects(np.random.default_rng(0), sizes=(2, 3), share_of_terms=1.0, n_outputs=2)
    terms = TermSet(effects)
    assert terms.keys == ((0,), (1,), (0, 1))
    assert terms.keys_at_rows == ()
    assert all(terms.has_table(key) and terms.can_evaluate(key) for key in terms.keys)
    assert not terms.can_evaluate((0, 2))
    assert not terms.leaves_rest
    assert terms.n_outputs == 2
    assert terms.row_cost == 3.0


def test_fewer_terms_and_other_weights():
    effects = random_effects(np.random.default_rng(0), sizes=(2, 3), share_of_terms=1.0)
    weights = {(0,): np.array([0.5, 0.5])}
    terms = TermSet(effects, weights)
    kept = terms.keep(lambda key: 0 in key)
    assert kept.keys == ((0,), (0, 1))
    assert kept.weights == weights


def changed(effects):
    """Effects that differ in one thing each from some of two features of 2 and 4 bins."""
    terms = {key: values.copy() for key, values in effects.terms.items()}
    yield Effects(effects.grid, effects.intercept + 1, terms, effects.binnings)
    yield Effects(effects.grid, effects.intercept, {**terms, (0,): terms[0,] + 1}, effects.binnings)
    yield Effects(effects.grid, effects.intercept, {(0,): terms[0,], (0, 1): terms[0, 1]}, effects.binnings)
    yield Effects(grid_of_sizes([2, 4], start=0.5), effects.intercept, terms, effects.binnings)
    other = (binning_by(np.arange(2)), binning_by(np.array([0, 1, 1, 1])))
    yield Effects(effects.grid, effects.intercept, terms, {(0, 1): other})


def test_equality_is_of_bins_axes_and_values():
    rng = np.random.default_rng(0)
    grid = grid_of_sizes([2, 4])
    terms = {(0,): rng.normal(size=(2, 1)), (1,): rng.normal(size=(4, 1)), (0, 1): rng.normal(size=(2, 2, 1))}
    halves = (binning_by(np.arange(2)), binning_by(np.array([0, 0, 1, 1])))
    effects = Effects(grid, np.zeros(1), terms, {(0, 1): halves})
    first = TermSet(effects)
    assert first.equals(TermSet(dataclasses.replace(effects)))
    assert first.equals(TermSet(effects, {(0,): np.ones(2) / 2}))  # weights are the density's
    others = [TermSet(other) for other in changed(effects)]
    assert len(others) == 5
    for other in others:
        assert not first.equals(other)
        assert not other.equals(first)


def test_points_are_those_of_the_density():
    grid = grid_of_sizes([2, 2])
    rows = np.array([[-1.0, -1], [-1, 1], [1, 1]])
    density = Empirical().bind(grid, statistics_of(rows, grid))
    codes, weights = TermSet(Effects(grid, np.zeros(1), {})).points(density, 10, np.random.default_rng(0))
    found = sorted(zip(codes.tolist(), weights.tolist(), strict=True))
    assert found == [([0, 0], pytest.approx(1 / 3)), ([0, 1], pytest.approx(1 / 3)), ([1, 1], pytest.approx(1 / 3))]
