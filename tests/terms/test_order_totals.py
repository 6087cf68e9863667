"""Totals per order are the sums of all listed terms, and add up to the trees."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.model.binning import unmerged
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.order_totals import OrderTotals
from treeanova.terms.trees import leaves_of
from treeanova.testing.forests import random_forest


def form_of(seed):
    """A random forest for independent features with random masses, some of them zero, and random rows."""
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=5)
    sets = leaves_of(forest)
    masses = []
    for size in sets.grid.sizes:
        mass = rng.random(size) * (rng.random(size) < 0.8)
        mass[rng.integers(size)] += 0.1
        masses.append(mass / mass.sum())
    codes = np.stack([rng.integers(0, size, 40) for size in sets.grid.sizes], axis=1).astype(np.int32)
    return forest, ClosedForm(sets, tuple(masses), tuple(map(unmerged, sets.grid.sizes))), codes


@pytest.mark.parametrize("seed", range(30))
def test_totals_are_the_sums_of_enumerated_terms(seed):
    forest, form, codes = form_of(seed)
    totals = OrderTotals(form).at_rows(codes, n_jobs=2)
    scale = np.abs(forest.values).sum() + 1.0
    for order in range(1, len(totals)):
        keys = form.leaf_sets.subsets([order])
        np.testing.assert_allclose(totals[order], form.at_rows(codes, keys).sum(axis=1), rtol=0, atol=1e-13 * scale)
    np.testing.assert_allclose(totals[0], np.broadcast_to(form.intercept, totals[0].shape), atol=1e-13 * scale)


@pytest.mark.parametrize("seed", range(30))
def test_totals_add_up_to_the_trees(seed):
    forest, form, codes = form_of(seed)
    totals = OrderTotals(form).at_rows(codes)
    expected = forest.score_encoded(form.leaf_sets.grid.encoded(codes))
    np.testing.assert_allclose(totals.sum(axis=0), expected, atol=1e-13 * (np.abs(forest.values).sum() + 1.0))


def test_rows_and_leaves_come_in_blocks(monkeypatch):
    _, form, codes = form_of(3)
    whole = OrderTotals(form).at_rows(codes)
    monkeypatch.setattr("treeanova.terms.order_totals._BLOCK_ROWS", 7)
    monkeypatch.setattr("treeanova.terms.order_totals._BLOCK_CELLS", 20)
    np.testing.assert_allclose(OrderTotals(form).at_rows(codes, n_jobs=2), whole, atol=1e-12)
