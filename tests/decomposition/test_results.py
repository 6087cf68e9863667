"""What all results share: plain data, text, keys by label; and the one policy for outputs."""

from __future__ import annotations

import json

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.decomposition.function import output_position
from treeanova.testing import example

tree = pytest.importorskip("sklearn.tree")


@pytest.fixture(scope="module")
def and_tree():
    return example()


def results(fx, X):
    rows = np.tile(X, (10, 1))
    y = rows[:, 0] + np.linspace(0, 1, len(rows))
    refits = tree.DecisionTreeRegressor()
    return [
        fx.gap(X, "x0"),
        treeanova.change(fx, fx, X_new=X[2:]),
        treeanova.compare({"pure": fx, "raw": fx.raw}),
        treeanova.density_sensitivity(fx.model, X, ["uniform", "empirical"]),
        fx.validate(rows, y),
        fx.monotonicity("x0"),
        fx.explain(X),
        fx.explain(X[:1]),
        treeanova.bag(lambda X, y: fit(refits, X, y), rows, y, 2),
        fx.certificate,
        treeanova.plan(fx.model),
    ]


def test_every_result_is_plain_data_and_text(and_tree):
    for result in results(*and_tree):
        content = result.to_dict()
        assert json.loads(json.dumps(content, allow_nan=False)) == content, type(result)
        assert str(result)
        assert "nan" not in str(result).lower()


def test_a_format_says_how_many_terms_are_printed(and_tree):
    fx, X = and_tree
    assert f"{fx.gap(X, X[:, 0] == 1):1}".count("\nx") == 1
    assert "2 more terms: " in f"{fx.gap(X, X[:, 0] == 1):1}"


def test_labels_that_tables_print_are_keys(and_tree):
    fx, X = and_tree
    label = "x0 × x1"
    assert label in list(fx.importance()["term"])
    assert label in fx.terms
    for term in (fx.terms[label], fx[label], fx["x0", "x1"], fx["x1", "x0"]):
        assert term.features == ("x0", "x1")
    assert fx.term_values(X, label).tolist() == fx.terms[label](X).tolist()
    assert fx.table(label).equals(fx.table(("x0", "x1")))
    assert list(fx.select(terms=[label]).terms) == [("x0", "x1")]
    assert list(fx.select(terms=[("x1",), label], order=1)) == [("x1",)]
    assert [edit.words for edit in fx.scale(label, 0.0).history] == ["x0 × x1 times 0"]
    with pytest.raises(TypeError, match=r"`terms` must be a list of terms, got 'x0'; pass \['x0'\]"):
        fx.select(terms="x0")


def test_a_feature_whose_name_looks_like_a_label_comes_first():
    effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0], "b": [0.0, 2.0], "a × b": [0.0, 3.0]})
    fx = treeanova.decompose(effects, density="uniform")
    assert fx["a × b"].features == ("a × b",)
    assert '"a × b"' in fx.terms


def test_key_errors_print_without_escaped_quotes(and_tree):
    with pytest.raises(KeyError) as raised:
        _ = and_tree[0].terms["x2"]
    assert str(raised.value).startswith("no term 'x2' among 3; ")


def test_terms_alone_are_shared_where_a_remainder_is_left(and_tree):
    fx, X = and_tree
    explained = fx.truncate(1).explain(X)
    with pytest.raises(ValueError, match="pass `leave_remainder=True` to share the terms alone"):
        explained.shap_values()
    values = explained.shap_values(leave_remainder=True)
    np.testing.assert_allclose(values.sum(axis=1) + explained.intercept + explained.remainder, explained.scores)


@pytest.mark.parametrize(("output", "place"), [("b", 1), (0, 0), (-1, 1), (np.int64(1), 1)])
def test_outputs_go_by_name_or_position(output, place):
    assert output_position(("a", "b"), output) == place
    assert output_position(("only",), None) == 0
    assert output_position(("a", "b"), None, default=0) == 0


@pytest.mark.parametrize("output", [None, "c", 2, -3, True])
def test_outputs_that_are_not_named_are_listed(output):
    with pytest.raises(ValueError, match="`output` must be one of 'a', 'b', or its position, got "):
        output_position(("a", "b"), output)


def test_no_threads_are_asked_for_by_none(and_tree):
    fx, X = and_tree
    assert treeanova.decompose(fx.model, X, n_jobs=None)._settings.n_jobs == 1
