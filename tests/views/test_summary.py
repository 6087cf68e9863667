from __future__ import annotations

import dataclasses

import pytest

from treeanova.testing.models import boosted_product
from treeanova.testing.pages import HOSTILE_NAMES, ParsedPage
from treeanova.views.standings import Standing, standings
from treeanova.views.summary import adding_up, caveats, headline, html_summary, percent


def standing(label, variance, share=None):
    features = tuple(label.split(" × "))
    return Standing(features, label, len(features), variance, variance if share is None else share, 0.0)


def plain(text):
    return text.replace("\u00a0", " ")


def test_headline():
    pure = [standing("t0", 0.6), standing("t1", 0.25), standing("a × b", 0.15)]
    raw = [standing("a × b", 0.26), standing("t0", 0.74)]
    assert plain(headline(pure, raw)) == (
        "2 of 3 terms carry 85 % of the variance of all terms; the strongest interaction is a × b (15 %); "
        "purification moved 11 % from pairs to main effects."
    )
    assert plain(headline([standing("t0", 1.0)])) == (
        "The only term carries 100 % of the variance of all terms; there are no interactions."
    )
    assert headline([]) == "The model is constant: no term carries any variance."


def test_a_headline_of_terms_that_cancel_out_has_no_impossible_shares():
    opposed = [standing("a", 0.9, 1.2), standing("b", 0.6, -0.3), standing("a × b", 0.1)]
    raw = [standing("a", 9.0, 2.0), standing("a × b", 8.0, -1.0)]
    assert plain(headline(opposed, raw)) == (
        "2 of 3 terms carry 94 % of the variance of all terms; the strongest interaction is a × b (10 %)."
    )


def test_interactions_in_the_remainder_are_not_called_absent():
    remainder = Standing((), "remainder", 2, 0.4, 0.4, 0.0)
    assert "interactions are in the remainder (40 %)" in plain(headline([standing("a", 0.6), remainder]))


@pytest.mark.parametrize(
    ("share", "words"), [(0.114, "11 %"), (0.004, "0.4 %"), (0.0004, "below 0.1 %"), (0.0, "0 %"), (-0.3, "−30 %")]
)
def test_shares_in_words(share, words):
    assert plain(percent(share)) == words


@pytest.fixture(scope="module")
def fx():
    pytest.importorskip("sklearn")
    return boosted_product(HOSTILE_NAMES[:3])[0]


def test_html_summary_is_small_escaped_and_without_script(fx):
    text = html_summary(fx)
    parsed = ParsedPage(text)
    assert {tag for tag, _ in parsed.tags} <= {"div", "p", "strong", "table", "thead", "tbody", "tr", "th", "td", "em"}
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert len(text) < 10_000
    ranking = standings(fx)["score"]
    assert text.count("<tr>") == 1 + len(ranking)
    assert [term.variance for term in ranking] == sorted((term.variance for term in ranking), reverse=True)


def test_a_selection_does_not_claim_to_add_up(fx):
    assert adding_up(fx).startswith("sum of terms within ")
    assert adding_up(fx.select(order=1)) == ""


def test_a_remainder_is_a_caveat(fx):
    certificate = dataclasses.replace(fx.certificate, remainder_share=0.25)
    assert (
        caveats(dataclasses.replace(fx, certificate=certificate))[-1] == "the remainder has 25% of the score's variance"
    )
