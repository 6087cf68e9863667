"""Terms read the same wherever people meet them."""

from __future__ import annotations

import re

import numpy as np
import pytest

import treeanova
from treeanova.cli.term_names import term_named
from treeanova.core.labels import label_of, split_label
from treeanova.testing.training import fit
from treeanova.views.summary import html_summary

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


def test_an_unknown_term_is_named_by_its_label(fx):
    with pytest.raises(KeyError, match=r"no term .*x × z.* among 7"):
        fx.terms["x", "z"]
