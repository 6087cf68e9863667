"""Terms of random forests and additive models against references, by their definition."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tests.support.anchored import anchored_term
from tests.support.effects import random_effects
from tests.support.forests import random_forest
from treeanova.model.rows import Rows
from treeanova.terms import costs
from treeanova.terms.anchored import AnchoredTerms, AnchoredTrees, distinct_points
from treeanova.terms.layout import choose_layout, lay_out, leaves_of
from treeanova.terms.source import AdditiveModel
from treeanova.terms.terms import TermSet
from treeanova.terms.tree_model import TreeModel


def random_rows(rng, sizes, n_rows):
    """Random bins."""
    return np.stack([rng.integers(0, size, n_rows) for size in sizes], axis=1).astype(np.int32)


def all_keys(n_features):
    """All sets of features, at least one."""
    orders = range(1, n_features + 1)
    return [key for order in orders for key in itertools.combinations(range(n_features), order)]


def assert_anchored(found, score, codes, references, keys):
    """Values at rows, totals and shares are those of the definition, the mean over references."""
    expected = np.array([np.mean([anchored_term(score, codes, r, key) for r in references], axis=0) for key in keys])
    scale = 1 + np.abs(score(codes)).max()
    np.testing.assert_allclose(found.at(codes, keys, 1), expected.swapaxes(0, 1), rtol=0, atol=1e-12 * scale)
    orders = sorted({len(key) for key in keys})
    totals = [sum(v for key, v in zip(keys, expected, strict=True) if len(key) == order) for order in orders]
    np.testing.assert_allclose(found.totals_at(codes, orders, 1), np.stack(totals, axis=1), rtol=0, atol=1e-12 * scale)
    shares = np.zeros((*codes.shape, expected.shape[-1]))
    for key, values in zip(keys, expected, strict=True):
        shares[:, list(key)] += (values / len(key))[:, None]
    np.testing.assert_allclose(found.shares_at(codes, orders, 1), shares, rtol=0, atol=1e-12 * scale)


@pytest.mark.parametrize(
    "limits",
    [
        {"POOLED_REFERENCES": 1},
        {"POOLED_REFERENCES": 1, "PATTERN_CELLS": 8, "PATTERN_ROWS": 4, "PATTERN_PAIRS": 3},
        {"POOLED_REFERENCES": 1, "PATTERN_BITS": 0},
    ],
)
@pytest.mark.parametrize("seed", range(12))
def test_trees_against_references(seed, limits, monkeypatch):
    """At once, in small blocks, and reference by reference, as where paths are very long."""
    for name, value in limits.items():
        monkeypatch.setattr(costs, name, value)
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=4)
    sets = leaves_of(forest)
    source = TreeModel(lay_out(forest, sets, choose_layout(sets, budget=1e9, tensor_order=2), None))
    codes, references = random_rows(rng, sets.grid.sizes, 6), random_rows(rng, sets.grid.sizes, 1 + seed % 3)
    found = source.anchored(distinct_points(references))
    assert isinstance(found, AnchoredTrees)
    keys = sets.subsets(range(1, max(map(len, sets.keys), default=0) + 1))
    if keys:
        assert_anchored(found, lambda mixed: forest.score(Rows.in_bins(sets.grid, mixed)), codes, references, keys)


@pytest.mark.parametrize("seed", range(12))
def test_tables_against_references(seed):
    rng = np.random.default_rng(seed)
    effects = random_effects(rng)
    sizes = effects.grid.sizes
    codes, references = random_rows(rng, sizes, 6), random_rows(rng, sizes, 1 + seed % 3)
    found = AdditiveModel(TermSet(effects)).anchored(distinct_points(references))
    assert isinstance(found, AnchoredTerms)
    assert set(effects.terms) <= set(found.keys) <= set(all_keys(len(sizes)))
    assert_anchored(
        found, lambda mixed: effects.score(Rows.in_bins(effects.grid, mixed)), codes, references, found.keys
    )


def test_many_references_are_the_mean_over_single_ones():
    rng = np.random.default_rng(1)
    forest = random_forest(rng, max_depth=5)
    sets = leaves_of(forest)
    source = TreeModel(lay_out(forest, sets, choose_layout(sets, budget=1e9, tensor_order=2), None))
    codes, references = random_rows(rng, sets.grid.sizes, 20), random_rows(rng, sets.grid.sizes, 60)
    keys = sets.subsets(range(1, max(map(len, sets.keys)) + 1))
    orders = sorted({len(key) for key in keys})[::-1]
    together = source.anchored(distinct_points(references))
    alone = [source.anchored(distinct_points(reference[None])) for reference in references]
    scale = 1 + np.abs(forest.score(Rows.in_bins(sets.grid, codes))).max()
    for method, asked in (("at", keys), ("totals_at", orders), ("shares_at", orders[:2])):
        expected = np.mean([getattr(anchored, method)(codes, asked) for anchored in alone], axis=0)
        np.testing.assert_allclose(getattr(together, method)(codes, asked), expected, rtol=0, atol=1e-12 * scale)
