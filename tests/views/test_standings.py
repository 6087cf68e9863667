from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests.support.models import boosted_product
from treeanova.views import Standing, as_lists, shares_by_order, standings

MEASURES = {"variance": [0.5, 0.3, 0.2], "share": [0.4, 0.3, 0.3], "mean_abs": [1.0, 2.0, 3.0]}


def ranked(labels, orders, terms, *, outputs=("score",), **columns):
    """What `standings` makes of a table of importance."""
    table = {"term": labels, "order": orders, **MEASURES, **columns}
    names = tuple(dict.fromkeys(name for features in terms for name in features))
    schema = SimpleNamespace(outputs=outputs, names=names)
    fx = SimpleNamespace(importance=lambda: table, terms=terms, schema=schema)
    return standings(fx)


def test_terms_go_by_their_features_and_the_remainder_has_none():
    terms = {("b",): None, ("a", "b"): None}
    (ranking,) = ranked(["a × b", "b", "remainder"], [2, 1, 3], terms).values()
    assert [term.features for term in ranking] == [("a", "b"), ("b",), ()]
    assert [term.is_remainder for term in ranking] == [False, False, True]
    assert ranking[0] == Standing(("a", "b"), "a × b", 2, 0.5, 0.4, 1.0)


def test_a_feature_with_a_sign_in_its_name_is_not_an_interaction():
    terms = {("a × b",): None, ("a", "b"): None, ("b",): None}
    (ranking,) = ranked(["a × b", '"a × b"', "b"], [2, 1, 1], terms).values()
    assert [term.features for term in ranking] == [("a", "b"), ("a × b",), ("b",)]


def test_the_order_of_rows_does_not_matter_where_names_hold_signs():
    terms = {("a × b", "c"): None, ("a", "b × c"): None, ("a",): None}
    (ranking,) = ranked(["a × b × c", "a", '"a × b" × c'], [2, 1, 2], terms).values()
    assert [term.features for term in ranking] == [("a", "b × c"), ("a",), ("a × b", "c")]


def test_every_output_has_a_ranking():
    terms = {("a",): None, ("b",): None}
    found = ranked(["b", "a", "a"], [1, 1, 1], terms, outputs=("low", "top"), output=["low", "low", "top"])
    assert {name: [term.features for term in ranking] for name, ranking in found.items()} == {
        "low": [("b",), ("a",)],
        "top": [("a",)],
    }


def test_standings_are_the_table_of_importance():
    pytest.importorskip("sklearn")
    fx, _ = boosted_product(n_rows=500)
    table = as_lists(fx.importance())
    (ranking,) = standings(fx).values()
    assert [term.label for term in ranking] == table["term"]
    assert [term.variance for term in ranking] == table["variance"]
    assert {term.features for term in ranking} == set(fx.terms)


def test_shares_by_order():
    ranking = [Standing((), "t", order, 0.0, share, 0.0) for order, share in [(1, 0.6), (1, 0.25), (2, 0.15), (5, 0.1)]]
    assert shares_by_order(ranking) == pytest.approx((0.85, 0.15, 0.1))
