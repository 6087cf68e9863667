"""Screening: sizes from the leaves alone, and the terms that are listed."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

import treeanova
from tests.support.forests import random_forest
from tests.support.strategies import seeds
from tests.support.training import fit
from treeanova.core.compiled import has_numba
from treeanova.model.grid import unmerged
from treeanova.terms import costs, screening
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.layout import leaves_of
from treeanova.terms.screening import largest_with_subsets, screen, screened_orders, sizes_without_rows


def closed_form(seed, **options):
    rng = np.random.default_rng(seed)
    sets = leaves_of(random_forest(rng, **options))
    masses = tuple(rng.dirichlet(np.ones(size)) for size in sets.grid.sizes)
    return ClosedForm(sets, masses, tuple(map(unmerged, sets.grid.sizes)))


def variance_by_hand(form, key, leaf, key_of_leaf):
    """Variance of one leaf's part of a term, from the masses of its sets."""
    value = form.leaf_sets.values[leaf] ** 2
    for j in key_of_leaf:
        sets = form.leaf_sets.sets[j]
        place = list(sets.leaves).index(leaf)
        mass = float(sets.mass(form.masses[j])[place])
        value = value * (mass * (1 - mass) if j in key else mass**2)
    return value


NEEDS_NUMBA = pytest.mark.skipif(not has_numba(), reason="Numba is not installed")


@pytest.mark.parametrize("seed", seeds(20, quick=6))
@pytest.mark.parametrize("kept", ["by key", "by rank"])
@pytest.mark.parametrize("way", ["numpy", "plain", pytest.param("compiled", marks=NEEDS_NUMBA)])
def test_sizes_are_sums_of_the_variances_of_leaves(seed, way, kept, monkeypatch):
    monkeypatch.setattr(costs, "is_compiled", lambda **_: way != "numpy")
    if way == "plain":
        for kernel in ("sum_variances", "add_leaf", "add_variances_by_rank"):
            monkeypatch.setattr(screening, kernel, getattr(screening, kernel).function)
    if kept == "by rank":
        monkeypatch.setattr(costs, "MOST_SUBSETS", 0)
    form = closed_form(seed)
    expected = {}
    for key, leaves in zip(form.leaf_sets.keys, form.leaf_sets.leaves_by_key, strict=True):
        for order in (2, 3):
            for subset in itertools.combinations(key, order):
                for leaf in leaves:
                    expected[subset] = expected.get(subset, 0.0) + variance_by_hand(form, subset, leaf, key)
    found = sizes_without_rows(form, range(2, 4))
    largest = {key: float(np.max(values)) for key, values in expected.items()}
    if kept == "by rank":  # terms of leaves without mass have no size
        largest = {key: size for key, size in largest.items() if size > 0}
    assert found.by_key.keys() == largest.keys()
    for key, size in found.by_key.items():
        assert size == pytest.approx(largest[key], rel=1e-9, abs=1e-20)
    assert found.total == pytest.approx(sum(largest.values()), rel=1e-9)
    assert dict(found.n_terms) == {k: sum(len(key) == k for key in largest) for k in found.n_terms}


def test_of_too_many_terms_the_largest_are_listed_and_all_are_counted(monkeypatch):
    form = closed_form(5, max_depth=5, max_trees=8)
    every = sizes_without_rows(form, range(2, 4))
    monkeypatch.setattr(costs, "MOST_SUBSETS", 0)
    monkeypatch.setattr(costs, "MOST_LISTED", 2)
    few = sizes_without_rows(form, range(2, 4))
    assert few.total == pytest.approx(every.total)
    for order in (2, 3):
        sizes = {key: size for key, size in every.by_key.items() if len(key) == order}
        assert few.n_terms[order] == sum(size > 0 for size in sizes.values())
        largest = sorted(sizes, key=sizes.__getitem__, reverse=True)[:2]
        assert {key for key in few.by_key if len(key) == order} == set(largest)


def test_ranks_number_all_sets_of_as_many_features():
    """By the combinatorial number system: sets in the order of their last feature, then the one before it."""
    sets = sorted(itertools.combinations(range(7), 3), key=lambda key: key[::-1])
    ranks = screening._rank_addends(7, 3)
    assert [sum(int(ranks[j, i]) for i, j in enumerate(key)) for key in sets] == list(range(35))
    assert [tuple(key) for key in screening._sets_of_ranks(np.arange(35), 3, 7)] == sets


@pytest.mark.parametrize("seconds", [np.inf, 1.0])
def test_orders_whose_sums_do_not_fit_into_memory_are_not_screened(seconds, monkeypatch):
    forms = (closed_form(seed, max_depth=5, max_trees=8, max_features=9) for seed in range(50))
    form = next(form for form in forms if len(form.leaf_sets.used_features) >= 6)
    monkeypatch.setattr(costs, "MOST_SUBSETS", 0)
    n_pairs = math.comb(len(form.leaf_sets.used_features), 2) * form.leaf_sets.values.shape[1]
    monkeypatch.setattr(costs, "MOST_RANKED", n_pairs)
    assert screened_orders(form, 2, 5, seconds) == range(2, 3)
    monkeypatch.setattr(costs, "MOST_RANKED", 0)
    assert not screened_orders(form, 2, 5, seconds)
    assert sizes_without_rows(form, range(2, 2)).by_key == {}


def test_without_time_no_order_is_screened():
    form = closed_form(5, max_depth=5, max_trees=8)
    assert not screened_orders(form, 2, 5, 0.0)


def test_orders_are_screened_while_products_are_few(monkeypatch):
    form = closed_form(5, max_depth=5, max_trees=8)
    top = max(map(len, form.leaf_sets.keys))
    assert screened_orders(form, 2, top) == range(2, top + 1)
    monkeypatch.setattr("treeanova.terms.costs.SCREENED_PRODUCTS", 1.0)
    assert screened_orders(form, 2, top) == range(2, 3)


def test_the_largest_come_with_their_subsets():
    sizes = {(0, 1, 2): 1.0, (0, 1, 3): 5.0, (0, 1, 2, 3): 4.0, (4, 5, 6): 2.0}
    assert largest_with_subsets(sizes, 3, 1) == [(0, 1, 3)]
    assert largest_with_subsets(sizes, 3, 5) == [(0, 1, 2), (0, 1, 3), (0, 2, 3), (1, 2, 3), (0, 1, 2, 3)]


@pytest.mark.parametrize(("equal", "expected"), [(130, 129), (60, 100)])
def test_after_the_first_hundred_terms_a_share_of_the_sizes_is_enough(equal, expected):
    keys = list(itertools.combinations(range(12), 3))
    sizes = {key: 1.0 if i < equal else 1e-9 for i, key in enumerate(keys)}
    assert len(largest_with_subsets(sizes, 3, 1000, share=0.99)) == expected  # 129 of 130 are the first to hold 99 %
    assert largest_with_subsets(sizes, 3, 1000) == keys


def test_terms_with_a_share_are_listed_and_the_rest_is_told():
    sizes = {(0, 1, 2): 1.0, (0, 1, 3): 2.0, (0, 1, 2, 3): 0.5}
    shares = {(0, 1, 2): 0.01, (0, 1, 3): 1e-5, (0, 1, 2, 3): 1e-4}
    screened = screen(sizes, range(3, 6), lambda _: 10, lambda keys, _: np.array([shares[key] for key in keys]))
    assert screened.keys == ((0, 1, 2),)
    assert screened.unlisted_orders == (3, 4, 5)  # order 5 was not counted, so it may have terms
    assert screened.n_left_out == 3
    assert screened.largest_missed == pytest.approx(1e-4)


@pytest.fixture
def few_listed(monkeypatch):
    """A model whose terms would be too many to list."""
    monkeypatch.setattr(costs, "LISTED_TERMS", 3)


@pytest.mark.parametrize("density", ["independent", "empirical", pytest.param("auto", marks=pytest.mark.thorough)])
def test_others_of_an_order_are_added_up(few_listed, monkeypatch, density, tmp_path):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(600, 5))
    X[:, 1] += X[:, 0]
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.RandomForestRegressor(5, max_depth=7, random_state=0)
    fit(model, X, X[:, 0] * X[:, 1] * X[:, 2] + X[:, 3] + 0.1 * rng.normal(size=600))
    fx = treeanova.decompose(model, X, density=density, tensor_order=2)
    explained = fx.explain(X[:50])
    assert not fx.has_remainder
    assert explained.remainder is None
    assert set(explained.others) == set(fx._function.unlisted_orders) != set()
    np.testing.assert_allclose(explained.scores, model.predict(X[:50]), atol=1e-12)
    listed = [names for names, term in fx.terms.items() if not term.has_table]
    assert ("x0", "x1", "x2") in listed
    table = fx.importance()
    assert sum(table["share"]) == pytest.approx(1.0)
    assert "other terms of order 4" in list(table["term"])
    monkeypatch.undo()
    if density == "independent":  # no correction, so that terms are those of a decomposition that lists all
        whole = treeanova.decompose(model, X, density=density, tensor_order=2).explain(X[:50])
        for order, rest in explained.others.items():
            wanted = [i for i, term in enumerate(whole.terms) if len(term) == order and term not in listed]
            np.testing.assert_allclose(rest, whole.values[:, wanted].sum(axis=1), atol=1e-12)
    fx.save(tmp_path / "fx.tav")
    again = treeanova.load(tmp_path / "fx.tav")
    for label, values in again.explain(X[:50]).parts.items():
        np.testing.assert_allclose(values, explained.parts[label], atol=1e-13)
    mains = fx.truncate(2)
    assert mains.has_remainder
    np.testing.assert_allclose(
        mains.remainder(X[:50]), sum(explained.others.values()) + explained.values[:, 15:].sum(axis=1), atol=1e-12
    )


def test_a_certificate_with_unlisted_terms_is_not_met_under_dependence(few_listed):
    rng = np.random.default_rng(1)
    X = rng.normal(size=(500, 5))
    X[:, 1] += X[:, 0]
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = fit(ensemble.RandomForestRegressor(4, max_depth=6, random_state=0), X, X @ np.arange(5.0))
    certificate = treeanova.decompose(model, X, density="empirical", tensor_order=2).certificate
    assert certificate.higher.n_left_out > 0
    assert not certificate.is_pure
    assert "others added up by order" in str(certificate)


@pytest.fixture
def dependent():
    """Rows with dependent features, and a forest of them."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(500, 5))
    X[:, 1] += X[:, 0]
    ensemble = pytest.importorskip("sklearn.ensemble")
    return fit(ensemble.RandomForestRegressor(4, max_depth=6, random_state=0), X, X[:, 0] * X[:, 1] * X[:, 2]), X


def test_truncation_leaves_no_sums_of_unlisted_terms(few_listed, dependent):
    model, X = dependent
    fx = treeanova.decompose(model, X, density="empirical", tensor_order=2)
    assert not fx.certificate.is_pure
    for part in (fx.truncate(2), fx.select(order=[1, 2])):
        assert part.certificate.higher.n_left_out == 0
        assert part.certificate.tables_are_pure
        assert not part.certificate.is_pure  # tables have the error of the correction, whatever is shown
        assert part.certificate.error == fx.certificate.error > 1e-6
        assert ("in the remainder" in part.certificate.purity) == part.has_remainder
    assert fx.truncate(4).certificate.higher.n_left_out > 0


def test_orders_with_tables_that_are_left_out_are_in_the_remainder_too(dependent):
    model, X = dependent
    asked = treeanova.decompose(model, X, density="empirical", tensor_order=2, max_order=1)
    whole = treeanova.decompose(model, X, density="empirical", tensor_order=2)
    cut, highest = whole.truncate(1), max(term.order for term in whole.terms.values())
    for mains in (asked, cut):
        assert f"orders 2 to {highest} in the remainder" in mains.certificate.purity


def test_unlisted_terms_are_compared_with_their_values(few_listed, dependent, monkeypatch):
    """A term that one density lists and the other does not is still a term of both."""
    model, X = dependent
    one = treeanova.decompose(model, X, density="empirical", tensor_order=2)
    monkeypatch.setattr("treeanova.terms.costs.REPORTED_SHARE", 0.05)
    other = one.with_density("independent")
    names = next(names for names in one.terms if names not in other.terms)
    distance = treeanova.compare({"one": one, "other": other}).distance
    found = distance[distance["term"] == " × ".join(names)]["distance"].item()
    gap = one.term_values(X, names) - other.term_values(X, names)
    assert found == pytest.approx(np.sqrt(np.mean(gap**2)), rel=1e-9)
    assert found != pytest.approx(np.sqrt(np.mean(one.term_values(X, names) ** 2)), rel=1e-3)  # as against zero


def test_sensitivities_have_the_shares_of_the_same_term(few_listed, dependent):
    """Under another density other terms are listed, so that positions in the tables of importance differ."""
    model, X = dependent
    found = treeanova.density_sensitivity(model, X, ("independent", "empirical"), tensor_order=2)
    for name, fx in found.decompositions.items():
        shares = dict(zip(fx.importance()["term"], fx.importance()["share"], strict=True))
        for label, share in zip(found.table["term"], found.table[f"share {name}"], strict=True):
            assert share == pytest.approx(shares[label]) if label in shares else np.isnan(share)


def test_a_loaded_decomposition_is_purified_again_as_before(few_listed, dependent, tmp_path, monkeypatch):
    """What the layout says of the terms is in the file: which are asked for, and that they are many."""
    model, X = dependent
    monkeypatch.setattr("treeanova.terms.costs.MAX_CORRECTED", 4)
    asked = [("x0", "x1", "x3")]
    fx = treeanova.decompose(model, X, density="independent", tensor_order=2, terms=asked)
    fx.save(tmp_path / "fx.tav")
    again = treeanova.load(tmp_path / "fx.tav").with_density("empirical", X)
    expected = fx.with_density("empirical")
    assert list(again.terms) == list(expected.terms)
    assert asked[0] in again.terms
    assert (
        again._function.terms.leaf_terms.leftover.tables.keys()
        == expected._function.terms.leaf_terms.leftover.tables.keys()
    )
    for names, term in expected.terms.items():
        if term.has_table:
            np.testing.assert_allclose(again.terms[names].values, term.values, rtol=0, atol=1e-12)


def test_what_was_not_searched_is_not_called_small():
    screened = screen({}, range(3, 6), lambda _: 10, lambda keys, _: np.zeros(len(keys)))
    assert screened.unlisted_orders == (3, 4, 5)
    assert np.isnan(screened.largest_missed)
