"""Sources of forests: tensors where these hold all, trees otherwise; scores are those of the forest."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given

from tests.support.forests import chains, random_forest, rows_on_bounds, scale_of
from tests.support.strategies import SEEDS
from treeanova.core.progress import quiet
from treeanova.data.columns import encode
from treeanova.density import Uniform
from treeanova.model.rows import Rows
from treeanova.terms.layout import choose_layout, leaves_of
from treeanova.terms.source import AdditiveModel, Settings
from treeanova.terms.tree_model import TreeModel, source_of_forest


@pytest.mark.parametrize(("tensor_order", "kind"), [(2, TreeModel), (3, AdditiveModel), (None, AdditiveModel)])
def test_trees_are_kept_where_tensors_do_not_hold_all_orders(tensor_order, kind):
    sets = leaves_of(forest := chains([(0, 0.0), (1, 0.0), (2, 0.0)]))
    layout = choose_layout(sets, budget=1e9, tensor_order=tensor_order)
    source = source_of_forest(forest, sets, layout, None)
    assert type(source) is kind
    assert source.max_order is None


@given(SEEDS)
def test_sources_score_as_the_forest_and_purify_to_the_same_sum(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=3, max_trees=4)
    sets = leaves_of(forest)
    encoded = encode(rows_on_bounds(forest, rng, 40), forest.schema)
    expected, atol = forest.score(Rows(encoded)), 1e-11 * scale_of(forest)
    for tensor_order in (2, 9):
        layout = choose_layout(sets, budget=1e9, tensor_order=tensor_order)
        source = source_of_forest(forest, sets, layout, None)
        np.testing.assert_allclose(source.score(Rows(encoded)), expected, atol=atol)
        raw, codes = source.raw(), sets.grid.index(Rows(encoded))
        np.testing.assert_allclose(raw.sum_at(codes), expected, atol=atol)
        pure = source.purify(Uniform().bind(source.grid, None), Settings(), quiet).terms
        np.testing.assert_allclose(pure.sum_at(codes), expected, atol=atol)
