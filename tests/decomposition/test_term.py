"""Terms by the names of their features, at rows, and in tables."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest

import treeanova
from tests.support.simulated import dependent_rows

NAMES = ("x0", "x1", "x2")
PAIRS = list(itertools.combinations(NAMES, 2))
HELD_OUT = dependent_rows(200, seed=1)


def test_terms_are_found_by_names_in_any_order(fx):
    assert fx.terms["x1", "x0"].features == ("x0", "x1")
    assert fx.terms["x0"].features == fx.terms["x0",].features == fx.terms[["x0"]].features == ("x0",)
    np.testing.assert_array_equal(fx.terms["x1", "x0"].values, fx.terms["x0", "x1"].values)
    assert fx.terms["x1", "x0"].order == 2
    assert "x0" in fx.terms
    assert ("x2", "x0") in fx.terms
    assert ("x0", "x0") not in fx.terms


@pytest.mark.parametrize("key", ["x9", ("x0", "x9"), ("x0", "x1", "x2")])
def test_a_term_that_is_not_there_is_a_key_error(fx, key):
    assert key not in fx.terms
    with pytest.raises(KeyError, match=r"no term .* among 6; an interaction is"):
        fx.terms[key]


@pytest.mark.parametrize("key", [0, None, (), (0, 1)])
def test_a_key_that_is_no_name_is_a_key_error(fx, key):
    assert key not in fx.terms
    message = re.escape(f"a key must be a name, a label or names of features, got {key!r}; a main effect is")
    for ask in (fx.terms.__getitem__, lambda key: fx.term_values(HELD_OUT, key), fx.variance_share):
        with pytest.raises(KeyError, match=message):
            ask(key)


def test_a_key_names_a_feature_only_once(fx):
    for ask in (fx.terms.__getitem__, lambda key: fx.term_values(HELD_OUT, key)):
        with pytest.raises(KeyError, match=r"a term may name a feature only once, got .*; leave out one .x0"):
            ask(("x0", "x1", "x0"))


def test_terms_come_by_order_then_by_position_with_keys_for_dicts(fx):
    assert list(fx.terms) == [("x0",), ("x1",), ("x2",), *PAIRS]
    assert len(fx.terms) == 6
    assert {key: term.order for key, term in fx.terms.items()}["x0", "x2"] == 2
    assert repr(fx.terms) == "<6 terms: x0, x1, x2, x0 × x1, x0 × x2, x1 × x2>"
    low, high = fx.terms["x0"].values.min(), fx.terms["x0"].values.max()
    assert repr(fx.terms["x0"]) == f"Term(x0: {fx.grid.sizes[0]} bins, values {low:.4g} to {high:.4g})"


def test_a_term_at_rows(fx):
    for names in fx.terms:
        key = [NAMES.index(name) for name in names]
        own = HELD_OUT[:, key]
        bins = [np.sum(own[:, [i]] > axis.bounds, axis=1) for i, axis in enumerate(fx.terms[names].axes)]
        expected = [fx.terms[names].values[cell] for cell in zip(*bins, strict=True)]
        np.testing.assert_array_equal(fx.terms[names](own), expected)
        np.testing.assert_array_equal(fx.term_values(HELD_OUT, names), expected)
        np.testing.assert_array_equal(fx.term_values(HELD_OUT, names[::-1]), expected)


def test_a_term_finds_its_columns_in_a_table(mixed):
    _, table, found = mixed
    for names in found.terms:
        np.testing.assert_array_equal(found.terms[names](table[table.columns[::-1]]), found.term_values(table, names))


def test_terms_of_several_outputs_end_in_the_outputs(several):
    assert several.intercept.shape == (3,)
    for names, term in several.terms.items():
        assert term.values.shape == (*term.weights.shape, 3)
        assert several.term_values(HELD_OUT, names).shape == (200, 3)
        assert term(HELD_OUT[:, [NAMES.index(name) for name in names]]).shape == (200, 3)


def test_a_term_without_a_table_is_named_so(triple):
    model, rows = triple
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    term = deep.terms["a", "b", "remainder"]
    assert not term.has_table
    assert repr(term) == "Term(a × b × remainder: at rows)"
    for part in ("values", "axes", "weights"):
        with pytest.raises(ValueError, match=r"has no table, it is known at rows only; use fx\.term_values"):
            getattr(term, part)
    with pytest.raises(KeyError, match=r"did you mean terms\[.*remainder.*\] or terms\[.*b.*, .*remainder.*\]"):
        deep.terms["remaindr"]
    assert ("a", "b") in deep.terms
    assert ("b", "a") in deep.terms
    assert all(key not in deep.terms for key in ("remaindr", ("a", "a"), (), 1))
