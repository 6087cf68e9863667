"""Forests in files: scores, terms and corrections come back to the last bit, arrays that do not fit are refused."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from tests.support.archives import assert_same_bits, saved_and_loaded
from tests.support.library_models import number_rows
from tests.support.training import fit
from treeanova.storage.codec import describe, restore
from treeanova.storage.saved import leaf_tables, leaf_terms_of
from treeanova.terms.terms import PureLeafTerms, RawLeafTerms

tree = pytest.importorskip("sklearn.tree")

ROWS = number_rows(300)
NEW_ROWS = number_rows(100, seed=1)


@pytest.fixture(scope="module")
def model():
    """A tree of two targets and three features, deep enough for an interaction of all."""
    targets = np.stack([ROWS.prod(axis=1), ROWS[:, 0] * ROWS[:, 2]], axis=1)
    return fit(tree.DecisionTreeRegressor(max_depth=5, min_samples_leaf=5, random_state=0), ROWS, targets)


def decomposed(model, **options):
    return treeanova.decompose(model, ROWS, **{"density": "empirical", "tensor_order": 2, "n_jobs": 1, **options})


@pytest.fixture(scope="module")
def fx(model):
    """Tables up to order 2; the term of order 3 is evaluated at rows."""
    return decomposed(model)


def pack(terms):
    """Header and arrays of terms at rows."""
    arrays = {}
    return describe(leaf_tables(terms), arrays, "trees"), arrays


def unpack(header, arrays, grid):
    return leaf_terms_of(restore(header, arrays), grid)


@pytest.fixture
def packed(fx):
    """Header and arrays of the terms at rows, and the grid of the tables."""
    return (*pack(fx._function.terms.leaf_terms), fx.grid)


def test_the_forest_in_a_file_scores_rows_as_the_model_does(model, packed):
    trees = unpack(*packed).trees
    np.testing.assert_allclose(trees.forest.score(NEW_ROWS), model.predict(NEW_ROWS), rtol=0, atol=1e-12)


def test_leaves_need_no_bound(model, tmp_path):
    """Some readers, such as CatBoost's, leave NaN there."""
    forest = treeanova.read_model(model)
    unbound = dataclasses.replace(forest, bound=np.where(forest.feature < 0, np.nan, forest.bound))
    assert np.isnan(unbound.bound).any()
    fx = decomposed(unbound)
    expected = model.predict(NEW_ROWS)
    found = saved_and_loaded(fx, tmp_path).decision_function(NEW_ROWS)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12)


def test_what_is_unpacked_packs_to_the_same(packed):
    header, arrays, grid = packed
    again, arrays_again = pack(unpack(header, arrays, grid))
    assert again == header
    assert arrays_again.keys() == arrays.keys()
    for name, array in arrays.items():
        assert_same_bits(np.asarray(array), np.asarray(arrays_again[name]))


@pytest.mark.parametrize("density", ["empirical", "independent"])
@pytest.mark.parametrize("part", ["pure", "raw"])
def test_terms_at_rows_come_back(part, density, model, tmp_path):
    """With a correction for dependence, without one, and before purification."""
    fx = decomposed(model, density=density)
    made = fx if part == "pure" else fx.raw
    again = saved_and_loaded(made, tmp_path)
    kind = PureLeafTerms if part == "pure" else RawLeafTerms
    assert isinstance(again._function.terms.leaf_terms, kind)
    assert again == made
    assert_same_bits(again.explain(NEW_ROWS).values, made.explain(NEW_ROWS).values)
    scores = again.explain(NEW_ROWS).values.sum(axis=1) + again.intercept
    np.testing.assert_allclose(scores, model.predict(NEW_ROWS), rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("name", "change", "message"),
    [
        ("trees/purity/masses/0", lambda array: array[:-1], "arrays must hold finite numbers, of shape"),
        ("trees/merging/1/bins", lambda array: array[:-1], "merged bins must fit the bins of the forest"),
        ("trees/merging/1/bins", lambda array: array.astype(int) - 1, "merged bins must fit the bins of the forest"),
        ("trees/merging/1/shares", lambda array: array[:-1], "arrays must hold finite numbers, of shape"),
        ("trees/purity/coarse/2/shares", lambda array: array[:-1], "arrays must hold finite numbers, of shape"),
        ("trees/purity/tables/0-1-2", lambda array: array[:-1], "tables must fit the coarse bins"),
    ],
)
def test_arrays_that_do_not_fit_the_forest_are_refused(name, change, message, packed):
    header, arrays, grid = packed
    with pytest.raises(ValueError, match=message):
        unpack(header, {**arrays, name: change(arrays[name])}, grid)
