"""Terms of high order at rows: raw ones against walks through the trees, joined with tables of low orders."""

from __future__ import annotations

import dataclasses
import itertools

import numpy as np
import pytest
from hypothesis import assume, given

import treeanova
from tests.support.decompositions import names_at_rows
from tests.support.forests import random_forest, rows_on_bounds, scale_of
from tests.support.simulated import deep_decomposition, deep_model
from tests.support.strategies import SEEDS
from tests.support.training import fit
from treeanova.model.rows import Rows
from treeanova.terms.correction import Allotment, Correction
from treeanova.terms.terms import PureLeafTerms, RawLeafTerms
from treeanova.terms.tree_model import TreeModel


@pytest.fixture(scope="module")
def boosted():
    pytest.importorskip("xgboost")
    return deep_model()


@pytest.fixture(scope="module")
def fx(boosted):
    return deep_decomposition()


def leaves_reached(forest, encoded):
    """For each row, the leaves that it reaches with the features on the way, by walks from the roots."""
    for row in encoded:
        reached = []
        for root in forest.roots:
            node, used = int(root), set()
            while forest.feature[node] >= 0:
                used.add(int(forest.feature[node]))
                goes_left = forest.goes_left(np.array([node]), row[[forest.feature[node]]])[0]
                node = int(forest.left[node] if goes_left else forest.right[node])
            reached.append((tuple(sorted(used)), forest.values[forest.leaf[node]]))
        yield reached


@given(SEEDS)
def test_raw_terms_are_sums_of_the_leaves_that_rows_reach(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, max_depth=5, max_trees=4)
    rows = rows_on_bounds(forest, rng, 30)
    fx = treeanova.decompose(forest, rows, density="independent", tensor_order=2, n_jobs=1)
    assume(isinstance(fx._function.source, TreeModel))  # some leaf has more than two features
    raw = fx.raw._function.terms
    assert isinstance(raw.leaf_terms, RawLeafTerms)
    encoded = treeanova.data.columns.encode(rows, forest.schema)
    values = raw.at(raw.grid.index(Rows(encoded)), raw.keys)
    expected = np.zeros_like(values)
    for row, reached in enumerate(leaves_reached(forest, encoded)):
        for features, value in reached:
            if features in raw.keys:
                expected[row, list(raw.keys).index(features)] += value
    np.testing.assert_allclose(values, expected, atol=1e-12 * scale_of(forest))


def test_keys_of_leaf_terms(fx):
    raw, pure = fx.raw._function.terms.leaf_terms, fx._function.terms.leaf_terms
    held = fx._function.source.trees.leaf_sets.keys
    assert set(raw.keys) == {key for key in held if len(key) > 2}
    closure = {sub for key in held for order in range(3, 7) for sub in itertools.combinations(key, order)}
    assert set(pure.keys) == closure
    assert all(pure.can_evaluate(key) for key in closure)
    assert not pure.can_evaluate((0, 1))  # a table
    assert not any(raw.can_evaluate(key) for key in closure - set(held))
    assert fx._function.terms.can_evaluate((0, 1))
    assert not fx._function.terms.has_table((0, 1, 2))


def test_tables_come_first_and_rows_have_all_bins(boosted, fx):
    terms, x = fx._function.terms, boosted[1][:40]
    assert terms.keys == (*terms.effects.terms, *terms.leaf_terms.keys)
    assert terms.keys_at_rows == terms.leaf_terms.keys
    codes = terms.grid.index(x)
    mixed = [terms.keys[i] for i in np.random.default_rng(0).permutation(len(terms.keys))[:20]]
    values = terms.at(codes, mixed)
    for i, key in enumerate(mixed):
        np.testing.assert_array_equal(values[:, i, 0], fx.term_values(x, [f"x{j}" for j in key]))


def test_fewer_terms_have_the_same_values(boosted, fx):
    codes = fx._function.terms.grid.index(boosted[1][:20])
    kept = fx._function.terms.keep(lambda key: 0 not in key)
    assert kept.keys == tuple(key for key in fx._function.terms.keys if 0 not in key)
    np.testing.assert_array_equal(kept.at(codes, kept.keys), fx._function.terms.at(codes, kept.keys))


def test_threads_change_nothing(boosted, fx):
    codes = fx._function.terms.grid.index(boosted[1][:200])
    one, two = (fx._function.terms.at(codes, fx._function.terms.keys, n_jobs) for n_jobs in (1, 2))
    assert one.tobytes() == two.tobytes()


def test_equality_is_of_leaves_terms_and_corrections(fx):
    terms = fx._function.terms
    leaf_terms = terms.leaf_terms
    assert isinstance(leaf_terms, PureLeafTerms)
    assert terms.equals(dataclasses.replace(terms))
    others = [
        terms.keep(lambda key: len(key) < 5),
        dataclasses.replace(terms, leaf_terms=dataclasses.replace(leaf_terms, correction=Correction())),
        fx.raw._function.terms,
        dataclasses.replace(terms, leaf_terms=None),
    ]
    for other in others:
        assert not terms.equals(other)
        assert not other.equals(terms)
    assert fx.raw._function.terms.equals(fx._function.source.raw())


def test_a_term_at_rows_can_be_called_with_its_own_columns(boosted, fx):
    x = boosted[1][:60]
    for names in names_at_rows(fx)[::5]:
        columns = [int(name[1:]) for name in names]
        np.testing.assert_array_equal(fx.terms[names](x[:, columns]), fx.term_values(x, names))


# Shares of features in terms that are not listed


@pytest.fixture(scope="module")
def screened():
    """A forest of dependent features, most of whose terms above order 2 are not listed, by density; and rows."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(2)
    x = rng.normal(size=(800, 6))
    x[:, 1] += x[:, 0]
    x[:, 4] = np.round(x[:, 4]) + (x[:, 1] > 1)
    targets = np.column_stack([x[:, 0] * x[:, 1] * x[:, 2] + x[:, 3], x[:, 0] ** 2 + x[:, 4] * x[:, 5]])
    model = fit(ensemble.RandomForestRegressor(6, max_depth=7, random_state=0), x, targets)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
        patch.setattr("treeanova.terms.costs.MAX_REPORTED", 3)
        patch.setattr("treeanova.terms.costs.MAX_CORRECTED", 6)
        names = ("independent", "empirical", "auto")
        found = {name: treeanova.decompose(model, x, density=name, tensor_order=2) for name in names}
    return found, np.vstack([x[:60], 10 * x[:5], np.zeros((1, 6))])


def shares_of_enumerated_terms(leaf_terms, codes):
    """Each unlisted term shared among its features."""
    unlisted = [key for key in leaf_terms.trees.leaf_sets.subsets(range(3, 7)) if key not in leaf_terms.keys]
    shares = np.zeros((*codes.shape, 2))
    for key, values in zip(unlisted, np.moveaxis(leaf_terms.at(codes, unlisted, 1), 1, 0), strict=True):
        shares[:, list(key)] += values[:, None] / len(key)
    return shares


@pytest.mark.parametrize("density", ["independent", "empirical", "auto"])
def test_single_terms_of_an_order_add_up_to_what_explain_says_of_it(screened, density):
    fx, rows = screened[0][density], screened[1]
    explained = fx.explain(rows)
    names = fx.schema.names
    keys = fx._function.terms.leaf_terms.trees.leaf_sets.subsets(range(3, 7))
    for order, rest in explained.others.items():
        of_order = [tuple(names[j] for j in key) for key in keys if len(key) == order]
        total = sum(fx.term_values(rows, key) for key in of_order)
        listed = sum(fx.term_values(rows, key) for key in of_order if key in fx.terms)
        np.testing.assert_allclose(total, listed + rest, rtol=0, atol=1e-12)


def test_a_term_is_the_same_however_it_is_asked_for(screened):
    fx, rows = screened[0]["empirical"], screened[1][:20]
    names = fx.schema.names
    key = next(
        key for key in fx._function.terms.leaf_terms.trees.leaf_sets.subsets([3]) if key not in fx._function.terms.keys
    )
    unlisted = tuple(names[j] for j in key)
    values = fx.term_values(rows, unlisted)
    np.testing.assert_array_equal(fx.truncate(2).term_values(rows, unlisted), values)
    parts = fx.truncate(3).explain(rows)
    np.testing.assert_allclose(parts.others[3], fx.explain(rows).others[3], rtol=0, atol=1e-13)


def test_what_is_moved_is_taken_from_terms_in_proportion_to_their_leaves(screened):
    """Leaves of each term, and pairs of a leaf and a term, counted one by one."""
    sets = screened[0]["empirical"]._function.terms.leaf_terms.trees.leaf_sets
    leaves = [key for key, members in zip(sets.keys, sets.leaves_by_key, strict=True) for _ in members]
    allotment = Allotment(sets, 3)
    for key in [(), (0,), (1, 4)]:
        terms = [term for leaf in leaves for term in itertools.combinations(leaf, 3) if set(key) <= set(term)]
        for term in set(terms):
            [share] = [share for own, share in allotment.shares_of_tables(term, [key]) if own == key]
            assert share == pytest.approx(terms.count(term) / len(terms), rel=1e-12)
        by_feature = np.array([sum(j in term for term in terms) for j in range(6)]) / (3 * len(terms))
        np.testing.assert_allclose(allotment.feature_shares(key), by_feature, rtol=1e-12)
    assert allotment.shares_of_tables((0, 1), [()]) == []


@pytest.mark.parametrize("density", ["independent", "empirical", "auto"])
def test_features_share_terms_that_are_not_listed(screened, density):
    terms = screened[0][density]._function.terms
    codes = terms.grid.index(screened[1])
    assert terms.unlisted_orders
    assert terms.leaf_terms.keys
    shares = terms.unlisted_shares_at(codes, {}, 2)
    np.testing.assert_allclose(shares, shares_of_enumerated_terms(terms.leaf_terms, codes), rtol=0, atol=1e-12)
    np.testing.assert_allclose(shares.sum(axis=1), terms.unlisted_sums_at(codes, {}).sum(axis=1), rtol=0, atol=1e-12)


def test_the_shares_above_have_all_kinds_of_parts(screened):
    """Under dependence unlisted terms have corrections, and leave something to tables of two features."""
    leaf_terms = screened[0]["empirical"]._function.terms.leaf_terms
    assert leaf_terms.correction.tables.keys() - set(leaf_terms.keys)
    assert 2 in {len(key) for key in leaf_terms.leftover.tables}


def test_without_unlisted_terms_there_is_nothing_to_share(screened):
    whole, rows = screened[0]["empirical"], screened[1][:3]
    selected = whole.select(order=[1, 2])
    for terms in (
        whole.raw._function.terms,
        dataclasses.replace(whole._function.terms, leaf_terms=None),
        whole._function.terms.up_to(2),
        selected._function.terms,
    ):
        np.testing.assert_array_equal(terms.unlisted_shares_at(terms.grid.index(rows), {}), np.zeros((3, 6, 2)))
    evaluation = selected._function
    np.testing.assert_array_equal(evaluation.unlisted_shares_at(evaluation.grid.index(rows), {}), np.zeros((3, 6, 2)))
