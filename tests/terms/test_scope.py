"""Scopes: which terms a decomposition has, and what becomes of the scope from step to step."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from tests.support.simulated import boosted_on_few_bins, deep_decomposition, deep_model
from treeanova.terms.terms import Scope


@pytest.mark.parametrize(
    ("scope", "is_part", "order", "n_terms", "words"),
    [
        (Scope(), False, None, None, "all terms"),
        (Scope(order=2), False, 2, None, "terms up to order 2, and a remainder"),
        (Scope(n_terms=6), True, None, 6, "a selection from 6 terms"),
        (Scope(order=1, n_terms=6), True, 1, 6, "a selection from 6 terms up to order 1, and a remainder"),
        (Scope(1, 6, ("a times 2",)), True, 1, 6, "edited terms (a times 2) up to order 1, and a remainder"),
    ],
)
def test_what_a_scope_says(scope, is_part, order, n_terms, words):
    assert (scope.is_part, scope.order, scope.n_terms) == (is_part, order, n_terms)
    assert str(scope) == words


def test_the_model_itself_has_no_edits():
    with pytest.raises(ValueError, match="with edits must have a number of terms"):
        Scope(edits=("a times 2",))


def test_scopes_are_equal_by_value():
    assert Scope() == Scope()
    assert Scope(order=1) == Scope(order=1) != Scope(order=2)
    assert Scope(n_terms=3) != Scope(order=3)


@pytest.fixture(scope="module")
def dense():
    """Tables of orders 1 to 3: seven terms."""
    model, x = boosted_on_few_bins(n_rows=300)
    return treeanova.decompose(model, x, density="empirical", n_jobs=1), x


def transitions(fx, again):
    """Steps from a decomposition of three orders, with the scope and the orders that must come out."""
    n_terms = len(fx.terms)
    return [
        (fx, Scope(), {1, 2, 3}),
        (fx.truncate(3), Scope(), {1, 2, 3}),
        (fx.truncate(9), Scope(), {1, 2, 3}),
        (fx.truncate(2), Scope(order=2), {1, 2}),
        (fx.truncate(2).truncate(1), Scope(order=1), {1}),
        (fx.truncate(1).truncate(2), Scope(order=1), {1}),
        (fx.select(order=[1, 3]), Scope(n_terms=n_terms), {1, 3}),
        (fx.select(order=[1, 3]).select(order=1), Scope(n_terms=n_terms), {1}),
        (fx.select(order=[1, 2]).truncate(1), Scope(order=1, n_terms=n_terms), {1}),
        (fx.select(order=[1, 2]).truncate(1).select(order=1), Scope(n_terms=n_terms), {1}),
        (again(fx.select(order=[1, 2]).truncate(1)), Scope(order=1, n_terms=n_terms), {1}),
        (fx.truncate(2).select(order=1), Scope(n_terms=n_terms - 1 + 1), {1}),  # the remainder counts as a term
        (again(fx), Scope(), {1, 2, 3}),
        (again(fx.truncate(2)), Scope(order=2), {1, 2}),
        (again(fx.select(order=[1, 2])), Scope(n_terms=n_terms), {1, 2}),
    ]


def without_edits(fx):
    return dataclasses.replace(fx._function.scope, edits=())


def check(fx, again, x):
    model = fx.decision_function(x)
    for part, scope, orders in transitions(fx, again):
        assert without_edits(part) == scope
        assert bool(part.history) == scope.is_part
        assert {len(names) for names in part.terms} == orders
        assert part.has_remainder == (scope.order is not None)
        explained = part.explain(x)
        np.testing.assert_allclose(explained.scores, part.decision_function(x), atol=1e-10)
        if not scope.is_part:
            np.testing.assert_allclose(explained.scores, model, atol=1e-10)
        assert ("a remainder" in repr(part)) == part.has_remainder
        assert (f"(of {scope.n_terms})" in repr(part)) == scope.is_part


def test_scopes_of_tables(dense):
    fx, x = dense
    check(fx, lambda part: part.with_density("uniform"), x)
    for part in (fx.truncate(2), fx.select(order=1)):
        assert part.raw._function.scope == (part._function.scope if part._function.scope.is_part else Scope())


def test_scopes_are_saved(dense, tmp_path):
    fx, x = dense

    def there_and_back(part):
        part.save(tmp_path / "fx.tav")
        return treeanova.load(tmp_path / "fx.tav")

    check(fx, there_and_back, x)


def test_scopes_of_sums(dense):
    fx, _ = dense
    assert (fx + fx)._function.scope == Scope()
    assert (fx + fx.truncate(2))._function.scope == Scope(order=2)
    assert (fx.truncate(1) + fx.truncate(2))._function.scope == Scope(order=1)
    assert without_edits(treeanova.mean([fx.select(order=1), fx])) == Scope(n_terms=len(fx.terms))
    both = treeanova.mean([fx.select(order=1), fx.truncate(2)])
    assert without_edits(both) == Scope(order=2, n_terms=len(fx.terms))
    assert [edit.action for edit in both.history] == ["select"]


def test_scopes_of_deep_ensembles():
    pytest.importorskip("xgboost")
    fx, x = deep_decomposition(), deep_model()[1][:50]
    assert fx._function.scope == Scope()
    assert fx.truncate(2)._function.scope == Scope(order=2)
    assert fx.truncate(2).with_density("uniform")._function.scope == Scope(order=2)
    low = fx.select(order=[1, 2])
    assert low._function.scope == low.with_density("uniform")._function.scope
    assert without_edits(low) == Scope(n_terms=len(fx.terms))
    np.testing.assert_allclose(fx.truncate(3).explain(x).scores, fx.decision_function(x), atol=1e-10)
    assert fx.raw.truncate(1)._function.scope == Scope(order=1)
    np.testing.assert_allclose(fx.raw.truncate(1).explain(x).scores, fx.decision_function(x), atol=1e-10)
