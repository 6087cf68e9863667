"""Terms read the same wherever people meet them."""

from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treeanova
from tests.support.models import boosted_product
from tests.support.training import fit
from treeanova.cli.answers import term_named
from treeanova.core.arrays import label_of, labels_of, split_label
from treeanova.data.columns import columns_of
from treeanova.decomposition.answers import html_summary

ensemble = pytest.importorskip("sklearn.ensemble")
NAMES = ["carat", "x", "y"]


@pytest.fixture(scope="module")
def fx():
    """Three features, two of which have the names of letters that also stand for a product."""
    rows = np.random.default_rng(0).normal(size=(300, 3))
    model = ensemble.GradientBoostingRegressor(max_depth=3, n_estimators=20, random_state=0)
    fit(model, rows, rows[:, 0] * rows[:, 1] + rows[:, 1] * rows[:, 2] + rows[:, 0] * rows[:, 2])
    return treeanova.decompose(model, rows, feature_names=NAMES, density="independent")


def test_every_text_has_the_same_labels(fx):
    expected = {"carat", "x", "y", "carat × x", "carat × y", "x × y", "carat × x × y"}
    comparison = treeanova.compare({"pure": fx, "raw": fx.raw})
    assert set(fx.importance()["term"]) == expected
    assert set(comparison.distance["term"]) == set(comparison.ranks["term"]) == expected
    assert set(fx.explain(np.zeros((1, 3))).parts) == expected
    for text in (str(fx.certificate), html_summary(fx), repr(fx.terms["x", "y"]), repr(fx.terms)):
        assert "x × y" in text
        assert not re.search(r"\w x \w", text)


@pytest.mark.parametrize("typed", ["x × y", "x x y", "y,x", "y × x"])
def test_the_command_line_takes_a_label_as_printed_or_as_typed(fx, typed):
    assert term_named(typed, fx) == ("x", "y")


def test_a_label_splits_where_it_was_joined():
    assert split_label(label_of(["a x b", "c"])) == ("a x b", "c")
    assert split_label("a x b") == ("a", "b")
    assert split_label("alone") == ("alone",)


WORDS = st.lists(st.sampled_from(["a", "b", '"', '"a', 'b"']), min_size=1, max_size=3).map(label_of)


@settings(max_examples=300, deadline=None)
@given(names=st.lists(WORDS, min_size=1, max_size=6, unique=True))
def test_no_two_terms_have_the_same_label(names):
    terms = [term for order in (1, 2, 3) for term in itertools.combinations(names, order)]
    assert len(set(labels_of(terms, names))) == len(terms)


@pytest.mark.parametrize("names", [("a", "b"), ("a × b", "c"), ("a × b", "a"), ("a × b", "b"), ('"a"', "a")])
def test_names_are_in_quotes_only_where_labels_would_be_equal(names):
    terms = [(name,) for name in names] + [names]
    assert labels_of(terms, names) == [*names, label_of(names)]


def test_tables_tell_a_feature_from_the_interaction_that_reads_like_it():
    """Values of each row are those of the term itself, found by its features."""
    fx, rows = boosted_product(["a", "b", "a × b"], density="independent", n_rows=300)
    labels = {("a", "b"): "a × b", ("a × b",): '"a × b"'}
    columns = columns_of(fx.explain(rows).to_frame())
    variance = columns_of(fx.importance())
    for names, label in labels.items():
        np.testing.assert_allclose(columns[label], fx.term_values(rows, names), atol=1e-12)
        term = fx.terms[names]
        expected = np.sum(term.weights * term.values**2)
        found = variance["variance"][variance["term"].index(label)]
        total = np.sum([np.sum(one.weights * one.values**2) for one in fx.terms.values()])
        assert found == pytest.approx(expected / total, rel=1e-6)
    validation = fx.validate(rows, rows[:, 0])
    tables = [treeanova.compare({"one": fx, "two": fx}).ranks, fx.gap(rows, rows[:, 0] > 0).table, validation.table]
    for table in [*tables, treeanova.change(fx, fx, X_new=rows[:99]).table]:
        assert set(labels.values()) <= set(columns_of(table)["term"])


def test_a_feature_called_intercept_is_not_the_intercept():
    fx, rows = boosted_product(["intercept", "b", "c"], density="independent", n_rows=300)
    table = columns_of(treeanova.change(fx, fx, X_new=rows[:99]).table)
    assert table["term"][0] == "(intercept)"
    values = fx.term_values(rows, "intercept")
    moved = values[:99].mean() - values.mean()
    assert table["population"][table["term"].index("intercept")] == pytest.approx(moved, abs=1e-12)


def test_an_unknown_term_is_named_by_its_label(fx):
    with pytest.raises(KeyError, match=r"no term .*x × z.* among 7"):
        fx.terms["x", "z"]


def test_a_label_that_is_also_a_feature_is_refused_and_names_are_not():
    """The values of rows tell the feature from the pair."""
    fx, rows = boosted_product(["a", "b", "a × b"], density="independent", n_rows=300)
    for ask in (
        lambda key: fx.terms[key],
        lambda key: fx[key],
        lambda key: fx.term_values(rows, key),
        lambda key: fx.select(terms=[key]),
        lambda key: fx.scale(key, 2.0),
        fx.table,
    ):
        with pytest.raises(
            KeyError, match=r"must name one term, got 'a × b'.* pass names, \('a × b',\) or \('a', 'b'\)"
        ):
            ask("a × b")
        for key in (("a × b",), ("a", "b"), '"a × b"'):
            ask(key)
    assert fx.terms[("a × b",)].features == fx.terms['"a × b"'].features == ("a × b",)
    assert fx.terms["b", "a"].features == ("a", "b")
    assert fx.select(order=1)["a × b"].features == ("a × b",)  # there is no pair that has this label
