from __future__ import annotations

import numpy as np
import pytest

from tests.support.models import boosted_product
from treeanova.data.columns import columns_of
from treeanova.decomposition.answers import ranking_of, shares_by_order
from treeanova.decomposition.importance import Ranking, Standing

VARIANCE = np.array([[0.3, 0.1], [0.5, 0.2], [0.2, 0.9]])
COVARIANCE = np.array([[0.0, 0.1], [-0.1, 0.0], [0.1, 0.0]])


def ranked(outputs=("low", "top")):
    features = [("b",), ("a", "b"), ()]
    n = len(outputs)
    measures = VARIANCE[:, :n], COVARIANCE[:, :n], 2 * VARIANCE[:, :n]
    return Ranking("term", ["b", "a × b", "remainder"], features, [1, 2, 3], outputs, *measures)


def test_terms_go_by_their_features_and_the_remainder_has_none():
    ranking = ranked(("score",)).standings_of("score")
    assert [term.features for term in ranking] == [("a", "b"), ("b",), ()]
    assert [term.is_remainder for term in ranking] == [False, False, True]
    assert ranking[0] == Standing(("a", "b"), "a × b", 2, 0.5, 0.4, 1.0)


def test_every_output_has_a_ranking_and_the_table_has_its_order():
    ranking = ranked()
    assert {name: [term.label for term in terms] for name, terms in ranking.standings.items()} == {
        "low": ["a × b", "b", "remainder"],
        "top": ["remainder", "a × b", "b"],
    }
    table = columns_of(ranking.table(None))
    assert list(table) == ["term", "output", "order", "variance", "covariance", "share", "mean_abs"]
    assert table["term"] == ["a × b", "b", "remainder", "remainder", "a × b", "b"]
    assert table["output"] == ["low"] * 3 + ["top"] * 3
    assert table["share"] == pytest.approx([0.4, 0.3, 0.3, 0.9, 0.2, 0.2])


def test_features_with_a_sign_in_their_names_are_not_interactions():
    ranking = Ranking("term", ["a × b", '"a × b"'], [("a", "b"), ("a × b",)], [2, 1], ("score",), *np.ones((3, 2, 1)))
    assert [term.key for term in ranking.standings_of("score")] == [("a", "b"), ("a × b",)]


def test_standings_are_the_table_of_importance():
    pytest.importorskip("sklearn")
    fx, _ = boosted_product(n_rows=500)
    table = columns_of(fx.importance())
    (ranking,) = ranking_of(fx).standings.values()
    assert [term.label for term in ranking] == table["term"]
    assert [term.variance for term in ranking] == table["variance"]
    assert {term.features for term in ranking} == set(fx.terms)


def test_shares_by_order():
    ranking = [
        Standing(("t",), "t", order, 0.0, share, 0.0) for order, share in [(1, 0.6), (1, 0.25), (2, 0.15), (5, 0.1)]
    ]
    assert shares_by_order(ranking) == pytest.approx((0.85, 0.15, 0.1))


@pytest.mark.parametrize("order", [2, 3])
def test_a_remainder_is_no_share_of_main_effects_or_pairs(order):
    """It has all orders above those of the terms, so that after max_order=1 it is not the share of the pairs."""
    pairs = Standing((), "other terms of order 2", 2, 0.0, 0.1, 0.0)
    ranking = [Standing(("a",), "a", 1, 0.0, 0.4, 0.0), pairs, Standing((), "(remainder)", order, 0.0, 0.5, 0.0)]
    assert shares_by_order(ranking) == pytest.approx((0.4, 0.1, 0.5))
