"""Steps of random forests and additive models along a feature, in all cells."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.effects import random_effects
from tests.support.forests import random_forest
from treeanova.model.rows import Rows
from treeanova.terms.extremes import steps_of_tables, steps_of_trees
from treeanova.terms.layout import leaves_of


def changes_in_cells(score, sizes, feature, n_regular):
    """Change of a score between neighbouring regular bins of a feature, in all cells: the feature's axis first."""
    cells = np.array(list(itertools.product(*map(range, sizes))), dtype=np.int32)
    scores = np.moveaxis(score(cells).reshape(sizes), feature, 0)
    return np.diff(scores[:n_regular], axis=0)


def assert_steps(steps, changes, feature):
    """Step functions have the changes as their values in all cells."""
    steps = list(steps)
    assert len(steps) == len(changes)
    for function, expected in zip(steps, changes, strict=True):
        assert feature not in function.partners
        for cell in np.ndindex(expected.shape):
            full = [*cell[:feature], 0, *cell[feature:]]
            pairs = zip(function.partners, function.columns, strict=True)
            columns = tuple(int(of_bins[full[j]]) for j, of_bins in pairs)
            assert function.value(columns) == pytest.approx(expected[cell], abs=1e-12)


@pytest.mark.parametrize("seed", range(20))
def test_steps_of_trees_are_the_changes_of_their_score(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=3)
    sets = leaves_of(forest)
    grid = sets.grid
    ordered = [j for j, axis in enumerate(grid.axes) if axis.is_ordered]
    if not ordered or np.prod(grid.sizes) > 3000:
        pytest.skip("no feature with an order, or too many cells to try")
    for j in ordered[:2]:
        changes = changes_in_cells(
            lambda cells: forest.score(Rows.in_bins(grid, cells))[:, 0], grid.sizes, j, grid.axes[j].n_regular
        )
        assert_steps(steps_of_trees(forest, sets, j, 0), changes, j)


@pytest.mark.parametrize("seed", range(10))
def test_steps_of_tables_are_the_changes_of_their_sum(seed):
    effects = random_effects(np.random.default_rng(seed), n_outputs=2)
    for j, axis in enumerate(effects.grid.axes):
        changes = changes_in_cells(
            lambda cells: effects.score(Rows.in_bins(effects.grid, cells))[:, 1], effects.grid.sizes, j, axis.n_regular
        )
        assert_steps(steps_of_tables(effects, j, 1), changes, j)
