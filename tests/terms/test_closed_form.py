"""Terms for independent features, against their definition as means over all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given

from tests.support.forests import all_cells, random_forest, random_masses, rows_on_bounds, scale_of
from tests.support.strategies import SEEDS
from treeanova.model.grid import unmerged
from treeanova.model.rows import Rows
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm, raw_at_rows
from treeanova.terms.layout import leaves_of


def averaged_terms(forest, grid, masses):
    """Every term under independent features by its definition: means over all cells, then alternating sums."""
    whole = forest.score(Rows.in_bins(grid, all_cells(grid))).reshape(*grid.sizes, forest.n_outputs)
    n = len(grid.sizes)
    means = {}
    for order in range(n + 1):
        for key in itertools.combinations(range(n), order):
            mean = whole
            for j in reversed(range(n)):
                if j not in key:
                    mean = np.tensordot(masses[j], mean, axes=(0, j))
            means[key] = mean
    terms = {}
    for key in means:
        total = 0.0
        for order in range(len(key) + 1):
            for part in itertools.combinations(key, order):
                wide = np.expand_dims(means[part], tuple(i for i, j in enumerate(key) if j not in part))
                total = total + (-1) ** (len(key) - order) * wide
        terms[key] = total
    return terms


@pytest.mark.parametrize("limits", [{}, {"SMALL_PRODUCT": 0}, {"SMALL_MATRICES": 0, "MOST_COEFFICIENTS": 1}])
@given(SEEDS)
def test_closed_form_is_the_definition_under_independence(limits, seed):
    with pytest.MonkeyPatch.context() as patch:
        for name, limit in limits.items():
            patch.setattr(costs, name, limit)
        check_against_definition(seed)


def check_against_definition(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_features=3, max_trees=4)
    sets = leaves_of(forest)
    masses = random_masses(rng, sets.grid)
    form = ClosedForm(sets, masses, tuple(unmerged(size) for size in sets.grid.sizes))
    expected = averaged_terms(forest, sets.grid, masses)
    atol = 1e-12 * scale_of(forest)
    np.testing.assert_allclose(form.intercept, expected[()], atol=atol)
    keys = sets.subsets(range(1, 4))
    codes = all_cells(sets.grid)
    at_rows = form.at_rows(codes, keys, n_jobs=2)
    for i, key in enumerate(keys):
        np.testing.assert_allclose(form.tensor(key), expected[key], atol=atol)
        np.testing.assert_allclose(at_rows[:, i], expected[key][tuple(codes[:, j] for j in key)], atol=atol)
    for key in set(expected) - set(keys) - {()}:
        assert np.abs(expected[key]).max() <= atol


@given(SEEDS)
def test_raw_terms_add_up_to_the_trees(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    sets = leaves_of(forest)
    rows = rows_on_bounds(forest, rng, 100)
    raw = raw_at_rows(sets, sets.grid.index(rows), sets.keys, n_jobs=1)
    np.testing.assert_allclose(forest.intercept + raw.sum(axis=1), forest.score(rows), atol=1e-12 * scale_of(forest))
