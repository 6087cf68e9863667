from __future__ import annotations

import numpy as np
import pytest

from treeanova.data.features import Feature, Labels, Schema
from treeanova.views.look import effect_words, negative_share_words, scale_of, value_text


@pytest.mark.parametrize(
    ("link", "words"), [("logit", "log-odds"), ("softmax", "class score"), ("identity", "prediction"), ("?", "score")]
)
def test_the_scale_follows_the_link(link, words):
    schema = Schema((), link=link)
    assert scale_of(schema) == words
    assert effect_words(schema) == f"change in {words} against the average"


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
    assert "works against others" in negative_share_words([0.5, -0.3])


@pytest.mark.parametrize(("shares", "is_shown"), [([0.5, -0.001], True), ([0.5, -1e-6], False), ([], False)])
def test_negative_shares_are_explained_where_they_are_shown(shares, is_shown):
    assert bool(negative_share_words(shares)) is is_shown
