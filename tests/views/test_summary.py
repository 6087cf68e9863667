from __future__ import annotations

import dataclasses
import html
import math
import re

import numpy as np
import pytest

import treeanova
from tests.support.diamonds import diamonds_decomposition, labels_by_variance
from tests.support.forests import chains
from tests.support.models import boosted_product
from tests.support.pages import HOSTILE_NAMES, ParsedPage
from tests.support.remainders import main_effects_and_remainder, model_with_a_feature_called_remainder
from treeanova.decomposition.answers import caveats, headline, html_summary, ranking_of, sum_error_words, summary_text
from treeanova.decomposition.importance import Standing
from treeanova.errors import DensityWarning
from treeanova.report.payload import checks
from treeanova.views import NEGATIVE_SHARE, percent


def standing(label, variance, share=None):
    features = tuple(label.split(" × "))
    return Standing(features, label, len(features), variance, variance if share is None else share, 0.0)


def plain(text):
    return text.replace("\u00a0", " ")


def test_headline():
    pure = [standing("t0", 0.6), standing("t1", 0.25), standing("a × b", 0.15), standing("t2", 0.002)]
    raw = [standing("a × b", 0.26), standing("t0", 0.74)]
    assert plain(headline(pure, raw)) == (
        "3 of 4 terms have a variance of at least 1 % of the score's; the strongest is t0 (60 %), the strongest "
        "interaction a × b (15 %); purification lowered the share of pairs from 26 % to 15 %."
    )
    assert plain(headline([standing("t0", 1.0)])) == (
        "The only term has a variance of 100 % of the score's; there are no interactions."
    )
    assert plain(headline([standing("t0", 0.99), standing("t1", 0.001)])).startswith("One of 2 terms has a variance of")
    assert headline([]) == "The model is constant: no term has any variance."
    assert headline([], is_part=True) == "No term is listed."
    assert headline([standing("t0", 0.0)]) == "No term varies under this density."


def test_a_headline_has_one_measure_and_one_denominator():
    """Numbers in it are the variances of the terms they stand behind, whatever the shares and sums are."""
    opposed = [standing("a", 0.9, 1.2), standing("b", 0.6, -0.3), standing("a × b", 0.5, 0.1)]
    assert plain(headline(opposed)) == (
        "3 of 3 terms have a variance of at least 1 % of the score's; the strongest is a (90 %), the strongest "
        "interaction a × b (50 %)."
    )
    assert "at least 1 % of that of their sum; " in plain(headline(opposed, is_part=True))
    strong = [standing("a × b", 0.5), standing("a", 0.4)]
    assert plain(headline(strong)).endswith("; the strongest is a × b (50 %).")
    assert plain(headline([standing(f"t{i}", 0.005) for i in range(200)])).startswith(
        "None of 200 terms has a variance"
    )


def test_a_headline_of_terms_that_cancel_out_has_no_impossible_shares():
    opposed = [standing("a", 0.9, 1.2), standing("b", 0.6, -0.3), standing("a × b", 0.1)]
    raw = [standing("a", 9.0, 2.0), standing("a × b", 8.0, -1.0)]
    assert "purification" not in headline(opposed, raw)


@pytest.mark.parametrize("deep", ["a × b × c", "remainder"])
def test_the_raw_form_of_deep_models_is_no_headline(deep):
    other = Standing((), deep, 3, 0.1, 0.1, 0.0) if deep == "remainder" else standing(deep, 0.1)
    pure = [standing("a", 0.8), standing("a × b", 0.1), other]
    raw = [standing("a × b", 0.9), standing("a", 0.1)]
    assert "purification" not in headline(pure, raw)
    assert "purification" not in headline(raw, pure)
    assert "purification lowered" in headline(pure[:2], raw)


def test_variances_that_do_not_add_up_say_so(fx):
    ranking = ranking_of(fx).standings["score"]
    total = sum(term.variance for term in ranking)
    assert abs(total - 1) > 0.005
    assert f"Variances add up to {100 * total:.0f} %, because terms are correlated; shares add up to 100 %." in plain(
        html_summary(fx)
    )
    assert sum(term.share for term in ranking) == pytest.approx(1.0)
    independent = fx.with_density("uniform")
    assert "add up" not in html_summary(independent).partition("<table>")[2]


def test_interactions_in_the_remainder_are_not_called_absent():
    remainder = Standing((), "remainder", 2, 0.4, 0.3, 0.0)
    assert "interactions are in the remainder (40 %)" in plain(headline([standing("a", 0.6), remainder]))


@pytest.mark.parametrize(
    ("share", "words"), [(0.114, "11 %"), (0.004, "0.4 %"), (0.0004, "< 0.1 %"), (0.0, "0 %"), (-0.3, "−30 %")]
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
    assert {tag for tag, _ in parsed.tags} <= {
        "div",
        "p",
        "strong",
        "table",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "em",
        "small",
    }
    assert "&lt;script&gt;alert(1)&lt;/script&gt;" in text
    assert len(text) < 10_000
    ranking = ranking_of(fx).standings["score"]
    assert text.count("<tr>") == 1 + len(ranking)
    assert [term.variance for term in ranking] == sorted((term.variance for term in ranking), reverse=True)


def test_a_selection_does_not_claim_to_add_up(fx):
    assert sum_error_words(fx).startswith("sum of terms within ")
    assert sum_error_words(fx.select(order=1)) == ""


@pytest.mark.parametrize(("share", "words"), [(0.25, "25\u00a0%"), (0.0048, "0.5\u00a0%"), (1e-6, "< 0.1\u00a0%")])
def test_a_remainder_is_a_caveat(fx, share, words):
    """Never as 0 % where it is not zero."""
    certificate = dataclasses.replace(fx.certificate, remainder_share=share)
    last = caveats(dataclasses.replace(fx, certificate=certificate))[-1]
    assert last == f"the remainder has {words} of the score's variance"


@pytest.mark.parametrize(
    ("n_corrected", "table_error", "words"),
    [
        (0, 0.1, "accurate to about 10% of the largest score: orders 3 to 11 not corrected for dependence"),
        (4, 0.1, "orders 3 to 11 corrected for dependence on coarse bins (4 terms of order 3)"),
        (4, math.nan, "accuracy of tables of orders 1 and 2 not measured, for lack of time"),
    ],
)
def test_nothing_is_called_corrected_that_was_not_and_no_number_is_nan(fx, n_corrected, table_error, words):
    bins = {3: 16} if n_corrected else {}
    higher = treeanova.model.HigherCertificate(
        (3, 11), 0, n_corrected, 0.0, bins, math.nan, is_exact=False, table_error=table_error
    )
    certificate = dataclasses.replace(fx.certificate, higher=higher)
    known = dataclasses.replace(fx, certificate=certificate)
    assert words in "; ".join(caveats(known))
    for text in (*caveats(known), repr(known), html_summary(known), str(certificate), str(checks(known))):
        assert re.search(r"\bnan\b", text) is None
        assert "to 11 corrected" not in text or n_corrected


def test_features_that_determine_each_other_are_a_caveat(fx):
    names = fx.schema.names[:2]
    certificate = dataclasses.replace(fx.certificate, aliases=(names,))
    known = dataclasses.replace(fx, certificate=certificate)
    sentence = f"{names[0]} and {names[1]} determine each other in these data: the sum of their terms is unique"
    assert any(line.startswith(sentence) for line in caveats(known))
    assert html.escape(sentence) in html_summary(known)
    [entry] = [entry for entry in checks(known) if entry["title"] == "Not everything is unique"]
    assert entry["verdict"] == "mind"
    assert sentence in entry["text"]
    assert not [entry for entry in checks(fx) if entry["title"] == "Not everything is unique"]


def test_a_headline_does_not_deny_interactions_in_the_remainder():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    mains = main_effects_and_remainder()
    (remainder,) = (term for term in ranking_of(mains).standings["score"] if term.is_remainder)
    assert remainder.label == "(remainder)"
    assert 0.05 < remainder.variance < 0.9
    words = f"interactions are in the remainder ({100 * remainder.variance:.0f}\u00a0%)"
    assert words in headline(ranking_of(mains).standings["score"])


def test_a_headline_takes_a_feature_of_that_name_for_a_feature():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    model, rows = model_with_a_feature_called_remainder()
    pairs = treeanova.decompose(model, rows, density="empirical", max_order=2)
    assert "the strongest interaction a × b (" in headline(ranking_of(pairs).standings["score"])


def test_words_and_the_notebook_have_the_same_order():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    fx, expected = diamonds_decomposition(), labels_by_variance()
    text = html_summary(fx)
    shown = re.findall(r'<tr><td style="text-align:left">([^<]+)</td>', text)
    assert [html.unescape(label) for label in shown] == expected[:10]
    assert html.escape(NEGATIVE_SHARE) in text
    ranking = ranking_of(fx).standings["score"]
    assert [term.label for term in ranking] == expected
    interaction = next(label for label in expected if "×" in label)
    assert f"the strongest interaction {interaction} (" in headline(ranking)


def test_a_model_whose_rows_are_in_one_cell_is_not_called_constant():
    """The model has three leaves with values 2, 4 and 5; all terms are zero at the one row."""
    forest, row = chains([(0, 0.5), (1, 0.5)]), np.ones((1, 3))
    with pytest.warns(DensityWarning, match="are in one cell"):
        fx = treeanova.decompose(forest, row, density="empirical", n_jobs=1)
    words = "all rows of the density 'empirical' are in one cell of the model, so that every term is zero at these rows"
    for text in (str(fx), summary_text(fx, "m", 15), html.unescape(fx._repr_html_())):
        assert words in text
        assert "constant" not in text
    assert ", 1 row, " in summary_text(fx, "m", 15)
    assert repr(fx.explain(row)).startswith("Explanation of 1 row by")
    assert [entry["verdict"] for entry in checks(fx) if entry["title"] == "All rows are in one cell"] == ["mind"]
    assert "every term is zero" not in str(fx.raw)  # raw terms are not
