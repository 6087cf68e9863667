from __future__ import annotations

import numpy as np
import pytest

from treeanova.data.features import Feature, Labels, Schema
from treeanova.views import (
    NEGATIVE_SHARE,
    OFFSET,
    effect_words,
    negative_share_words,
    response_of,
    scale_of,
    share_words,
    sum_words,
    value_text,
    variance_words,
)


@pytest.mark.parametrize(
    ("link", "words"), [("logit", "log-odds"), ("softmax", "class score"), ("identity", "prediction"), ("?", "score")]
)
def test_the_scale_follows_the_link(link, words):
    schema = Schema((), link=link)
    assert scale_of(schema) == words
    assert effect_words(schema) == f"change in {words} against the average"


@pytest.mark.parametrize(
    ("classes", "words"),
    [
        (("no", "yes"), "log-odds of yes"),
        ((0, 1), "log-odds of class 1"),
        ((False, True), "log-odds of class True"),
        (("0", "> 50"), "log-odds of class > 50"),
        (("a", "two\n lines"), "log-odds of two lines"),
        ((), "log-odds"),
    ],
)
def test_the_second_of_two_classes_is_named(classes, words):
    schema = Schema((), link="logit", classes=classes)
    assert scale_of(schema) == words
    assert response_of(schema) == words.replace("log-odds", "probability")


def test_no_class_is_named_where_the_score_is_not_of_one_class():
    assert scale_of(Schema((), link="logit", classes=("no", "yes"), predicts_share=True)) == "log-odds"
    assert scale_of(Schema((), outputs=("a", "b"), link="logit", classes=("a", "b"))) == "log-odds"
    assert scale_of(Schema((), link="probability", classes=("no", "yes"))) == "probability of yes"
    assert response_of(Schema((), link="probability", classes=("no", "yes"))) is None


def test_outputs_are_named_where_there_are_several():
    schema = Schema((), outputs=("low", "top"), link="softmax")
    assert effect_words(schema, "top") == "change in class score (top) against the average"
    assert effect_words(Schema(()), "score") == "change in prediction against the average"


def test_values_in_words():
    number, colour = Feature("age"), Feature("colour", Labels(("red", "blue")))
    assert value_text(number, 61.25, "{:.1f}".format) == "61.2"
    assert value_text(number, np.nan, str) == "missing"
    assert [value_text(colour, code, str) for code in (0.0, 1.0, 2.0, np.nan)] == ["red", "blue", "unseen", "missing"]


def test_negative_shares_are_explained_where_they_show():
    assert negative_share_words([0.5, -0.0004]) == ""
    assert "partly cancels terms" in negative_share_words([0.5, -0.3])


def test_terms_that_others_offset_are_explained():
    assert share_words([(0.95, 0.17), (0.2, 0.15)]) == OFFSET
    assert share_words([(0.95, -0.17)]) == NEGATIVE_SHARE
    assert share_words([(0.5, 0.45), (0.2, 0.6)]) == ""


@pytest.mark.parametrize(("shares", "is_shown"), [([0.5, -0.001], True), ([0.5, -1e-6], False), ([], False)])
def test_negative_shares_are_explained_where_they_are_shown(shares, is_shown):
    assert bool(negative_share_words(shares)) is is_shown


@pytest.mark.parametrize(
    ("variances", "total"),
    [([0.5, 0.5], None), ([0.5, 0.504], None), ([1.5, 0.53], "203"), ([0.4, 0.38], "78"), ([], None)],
)
def test_variances_that_do_not_add_up_say_so(variances, total):
    words = sum_words(variances)
    assert (words == "") == (total is None)
    assert total is None or words.startswith(f"Variances add up to {total}\u00a0%, ")


def test_a_variance_is_relative_to_the_score_or_to_what_is_left_of_it():
    schema = Schema((), link="logit", classes=("no", "yes"))
    assert variance_words(schema, is_part=False) == "variance of the term, relative to that of the log-odds of yes"
    assert variance_words(schema, is_part=True).endswith("that of the sum of the terms that are left")
