from __future__ import annotations

import numpy as np
import pytest

import treeanova

pytest.importorskip("typer")
ensemble = pytest.importorskip("sklearn.ensemble")

from tests.support.training import fit  # noqa: E402
from treeanova.cli.answers import term_named  # noqa: E402


def decomposed(names, **options):
    rows = np.random.default_rng(0).normal(size=(300, 3))
    model = ensemble.GradientBoostingRegressor(max_depth=3, n_estimators=20, random_state=0)
    fit(model, rows, rows[:, 0] * rows[:, 1] + rows[:, 1] * rows[:, 2] + rows[:, 0] * rows[:, 2])
    return treeanova.decompose(model, rows, feature_names=names, density="independent", **options)


@pytest.fixture(scope="module")
def fx():
    """Two of the features have names of letters that also stand for a product."""
    return decomposed(["carat", "x", "y"])


@pytest.mark.parametrize("typed", ["x × y", "x x y", "y,x", "y × x", " x , y "])
def test_a_label_as_printed_or_as_typed(fx, typed):
    assert term_named(typed, fx) == ("x", "y")


@pytest.mark.parametrize("typed", ["carat", "x"])
def test_a_single_feature(fx, typed):
    assert term_named(typed, fx) == (typed,)


def test_names_may_hold_commas_in_quotes():
    fx = decomposed(["size, cm", "b", "c"])
    assert term_named('"size, cm",b', fx) == ("size, cm", "b")
    assert term_named("size, cm", fx) == ("size, cm",)


def test_unknown_terms_are_answered_with_near_ones(fx):
    with pytest.raises(
        ValueError,
        match=r"`--term` must be a term that has a table, got 'carats'; did you mean carat.*there are carat.*7 in",
    ):
        term_named("carats", fx)


def test_a_term_without_a_table_is_named_as_such():
    fx = decomposed(["a", "b", "c"], tensor_order=2)
    assert not fx.terms["a", "b", "c"].has_table
    with pytest.raises(ValueError, match=r"got 'a,b,c', which is known at rows only; in Python, fx.term_values"):
        term_named("a,b,c", fx)


def test_a_text_that_names_two_terms_is_refused():
    fx = decomposed(["a", "b", "a × b"])
    with pytest.raises(ValueError, match=r'must name one term, got .a × b.; write "a × b" or "a","b"\.'):
        term_named("a × b", fx)
    assert term_named('"a × b"', fx) == ("a × b",)
    assert term_named('"a","b"', fx) == term_named("b,a", fx) == ("a", "b")
    assert term_named('a × "a × b"', fx) == ("a", "a × b")
