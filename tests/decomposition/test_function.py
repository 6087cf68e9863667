"""Scores, responses, single terms and remainders at rows, against the libraries' own predictions."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import names_at_rows, purified
from tests.support.recorded import Recorded
from tests.support.simulated import (
    boosted,
    boosted_in_pairs,
    boosted_on_few_bins,
    dependent_rows,
    interacting,
    named_rows,
)
from tests.support.training import fit
from treeanova.data.features import Feature, Schema
from treeanova.density import Uniform
from treeanova.model.axes import IntervalAxis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.tree_model import TreeModel

ensemble = pytest.importorskip("sklearn.ensemble")
pd = pytest.importorskip("pandas")

DATA, HELD_OUT = dependent_rows(), dependent_rows(200, seed=1)
decompose = functools.partial(treeanova.decompose, density="empirical")


@pytest.mark.parametrize("density", ["empirical", "laplace", "independent", "shrinkage", "uniform"])
def test_scores_are_the_models_own(model, density):
    found = decompose(model, DATA, density=density, n_jobs=1)
    np.testing.assert_allclose(found.decision_function(HELD_OUT), model.predict(HELD_OUT), atol=1e-12)
    np.testing.assert_allclose(found.predict(HELD_OUT), model.predict(HELD_OUT), atol=1e-12)


def test_responses_are_the_librarys_own(classifier, several, mixed):
    np.testing.assert_allclose(several.decision_function(HELD_OUT), classifier.decision_function(HELD_OUT), atol=1e-12)
    np.testing.assert_array_equal(several.predict(HELD_OUT), classifier.predict(HELD_OUT))
    np.testing.assert_allclose(several.predict_response(HELD_OUT), classifier.predict_proba(HELD_OUT), atol=1e-12)
    np.testing.assert_allclose(several.predict_proba(HELD_OUT), classifier.predict_proba(HELD_OUT), atol=1e-12)
    model, table, found = mixed
    np.testing.assert_allclose(found.predict(table), model.predict(table), atol=1e-12)


def test_the_response_of_two_classes_is_the_probability_of_the_second():
    model = fit(
        ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0), DATA, interacting(DATA) > 0
    )
    found = decompose(model, DATA, n_jobs=1)
    assert isinstance(found.intercept, float)
    np.testing.assert_array_equal(found.predict(HELD_OUT), model.predict(HELD_OUT))
    np.testing.assert_allclose(found.predict_response(HELD_OUT), model.predict_proba(HELD_OUT)[:, 1], atol=1e-12)
    np.testing.assert_allclose(found.predict_proba(HELD_OUT), model.predict_proba(HELD_OUT), atol=1e-12)


def test_responses_under_a_log_link_and_of_probabilities():
    counts = np.random.default_rng(0).poisson(np.exp(DATA[:, 0] / 2))
    model = fit(
        ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=4, max_depth=2, random_state=0), DATA, counts
    )
    np.testing.assert_allclose(
        decompose(model, DATA, n_jobs=1).predict(HELD_OUT), model.predict(HELD_OUT), rtol=1e-12, atol=1e-12
    )
    forest = fit(ensemble.RandomForestClassifier(4, max_depth=2, random_state=0, n_jobs=1), DATA, interacting(DATA) > 0)
    found = decompose(forest, DATA, n_jobs=1)
    np.testing.assert_allclose(found.predict_proba(HELD_OUT), forest.predict_proba(HELD_OUT), atol=1e-12)


def test_probabilities_of_a_regression_are_refused(fx):
    with pytest.raises(
        ValueError, match=r"predict_proba\(\) must have a classifier, got a model with the link 'identity'"
    ):
        fx.predict_proba(DATA)


def test_a_response_without_a_known_link_is_refused():
    schema = Schema((Feature("a"),), link="other")
    grid = Grid(schema, (IntervalAxis("a", 0, np.array([0.0])),))
    effects = Effects(grid, np.array([1.0]), {(0,): np.array([[2.0], [4.0]])})
    found = purified(effects, Uniform().bind(grid, None))
    assert found.decision_function([[-1.0], [1.0]]).tolist() == [3.0, 5.0]
    with pytest.raises(ValueError, match=r"use decision_function\(\), which gives the score"):
        found.predict([[0.0]])


def test_rows_are_called_x_wherever_they_are_given():
    """By name as by position; the model itself is the oracle of the scores."""
    x, response = named_rows()
    model = boosted_in_pairs(x, response, n_trees=10)
    fx = decompose(model, x)
    some = x.iloc[:50]
    np.testing.assert_allclose(fx.decision_function(X=some), model.predict(some), atol=1e-12)
    np.testing.assert_allclose(fx.predict(X=some), model.predict(some), atol=1e-12)
    np.testing.assert_allclose(fx.explain(X=some).scores, model.predict(some), atol=1e-12)
    np.testing.assert_array_equal(fx.remainder(X=some), np.zeros(50))
    np.testing.assert_array_equal(fx.term_values(X=some, key="a"), fx.terms["a"](X=some[["a"]]))
    assert fx.with_density("empirical", X=some) == decompose(model, some)
    shares = fx.with_density("empirical", X=some).density
    expected = np.log(shares.table((0,))[fx.grid.axes[0].index(some["a"].to_numpy())]).mean()
    assert shares.log_likelihood(X=some, features=["a"]) == pytest.approx(expected)
    with pytest.raises(ValueError, match="must have a classifier"):
        fx.predict_proba(X=some)


def test_given_names_are_matched_by_name():
    x, response = named_rows()
    model = boosted(x.to_numpy(), response, n_trees=10)
    fx = decompose(model, x, feature_names=["a", "b", "c"])
    np.testing.assert_array_equal(fx.decision_function(x[["c", "a", "b"]]), fx.decision_function(x.to_numpy()))
    renamed = x.rename(columns={"a": "p", "b": "q", "c": "r"})
    np.testing.assert_array_equal(fx.decision_function(renamed), fx.decision_function(x))
    with pytest.raises(ValueError, match="all of the names 'a', 'b', 'c' or none, got a, q, c"):
        fx.decision_function(x.rename(columns={"b": "q"}))


# Remainders


def test_max_order_leaves_an_exact_remainder(deep, deep_fx):
    model, x = deep
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    assert names_at_rows(cut) == []
    assert cut.has_remainder
    assert "a remainder" in repr(cut)
    rows = np.vstack([x[:50], 10 * x[:50], np.full((1, 6), np.nan)])
    explained = cut.explain(rows)
    np.testing.assert_allclose(explained.scores, deep_fx.decision_function(rows), atol=1e-12)
    np.testing.assert_allclose(cut.remainder(rows), explained.remainder)
    higher = deep_fx.explain(rows)
    is_high = np.array([len(term) > 2 for term in higher.terms])
    np.testing.assert_allclose(explained.remainder, higher.values[:, is_high].sum(axis=1), atol=1e-11)
    assert explained.to_frame()["remainder"].to_numpy() == pytest.approx(explained.remainder)
    with pytest.raises(ValueError, match="got a remainder that belongs to no feature"):
        explained.shap_values()
    assert cut.select(order=[1, 2]).explain(rows).shap_values().shape == (101, 6)
    assert treeanova.decompose(model, x, density="empirical", max_order=1).explain(rows).values.shape == (101, 6)
    assert (deep_fx.remainder(rows) == 0).all()


def test_max_order_of_a_dense_model():
    model, x = boosted_on_few_bins()
    whole = treeanova.decompose(model, x, density="empirical")
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    assert not isinstance(whole._function.source, TreeModel)
    assert not isinstance(cut._function.source, TreeModel)
    for names in cut.terms:
        np.testing.assert_array_equal(cut.terms[names].values, whole.terms[names].values)
    np.testing.assert_allclose(cut.remainder(x), whole.term_values(x, ("x0", "x1", "x2")), atol=1e-12)
    np.testing.assert_allclose(cut.decision_function(x), model.predict(x), atol=1e-12)
    again = cut.with_density("independent")
    assert again.has_remainder
    np.testing.assert_allclose(again.decision_function(x), model.predict(x), atol=1e-12)


def test_any_single_term_on_demand(deep, deep_fx):
    model, x = deep
    cut = treeanova.decompose(model, x, density="empirical", max_order=2)
    key = ("x2", "x3", "x4")
    np.testing.assert_allclose(cut.term_values(x, key), deep_fx.term_values(x, ("x4", "x2", "x3")), atol=1e-12)
    assert cut.variance_share(key) == pytest.approx(
        deep_fx.term_values(x, key).var() / deep_fx.decision_function(x).var()
    )
    assert deep_fx.variance_share("x0") == pytest.approx(
        deep_fx.term_values(x, "x0").var() / deep_fx.decision_function(x).var()
    )
    with pytest.raises(KeyError, match="no term"):
        deep_fx.term_values(x, ("x0", "x9"))
    with pytest.raises(KeyError, match="may name a feature only once"):
        deep_fx.term_values(x, ("x0", "x1", "x1"))


# Labels, as scikit-learn's predict gives them


def labelled(labels):
    """A classifier of the rows by these labels."""
    codes = np.digitize(interacting(DATA), np.quantile(interacting(DATA), np.arange(1, len(labels)) / len(labels)))
    return fit(
        ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0), DATA, np.array(labels)[codes]
    )


@pytest.mark.parametrize(
    "labels",
    [("no", "yes"), (False, True), (3, 7), (-1.0, 2.0), ("u", "v", "w"), (10, 20, 30)],
    ids=["text", "booleans", "integers", "numbers", "three texts", "three integers"],
)
def test_labels_are_those_of_the_classifier(labels):
    classifier = labelled(labels)
    found = decompose(classifier, DATA, n_jobs=1)
    expected = classifier.predict(HELD_OUT)
    np.testing.assert_array_equal(found.predict(HELD_OUT), expected)
    assert found.predict(HELD_OUT).dtype.kind == expected.dtype.kind
    assert found.predict_proba(HELD_OUT).shape == (len(HELD_OUT), len(labels))
    response = classifier.predict_proba(HELD_OUT)
    response = response[:, 1] if len(labels) == 2 else response
    np.testing.assert_allclose(found.predict_response(HELD_OUT), response, atol=1e-12)


def test_labels_of_forests_are_the_most_probable_classes():
    classes = np.array(["low", "mid", "high"])[np.digitize(DATA[:, 0], [-0.5, 0.5])]
    forest = fit(ensemble.RandomForestClassifier(4, max_depth=2, random_state=0, n_jobs=1), DATA, classes)
    found = decompose(forest, DATA, n_jobs=1)
    assert found.schema.link == "probability"
    np.testing.assert_array_equal(found.predict(HELD_OUT), forest.predict(HELD_OUT))


def test_labels_survive_a_file_and_a_selection(tmp_path):
    classifier = labelled(("no", "yes"))
    found = decompose(classifier, DATA, n_jobs=1)
    found.save(tmp_path / "fx.tav")
    np.testing.assert_array_equal(treeanova.load(tmp_path / "fx.tav").predict(HELD_OUT), classifier.predict(HELD_OUT))
    part = found.select(order=1)
    expected = np.where(part.decision_function(HELD_OUT) > 0, "yes", "no")
    np.testing.assert_array_equal(part.predict(HELD_OUT), expected)


def test_classes_without_labels_are_numbered():
    """A model that keeps no labels: the second class where its log-odds are positive, or the largest of several."""
    for outputs, link in ((("score",), "logit"), (("u", "v", "w"), "softmax")):
        grid = Grid(Schema((Feature("a"),), outputs, link=link), (IntervalAxis("a", 0, np.array([0.0])),))
        values = np.array([[-1.0, 3.0, 0.0], [2.0, -3.0, 9.0]])[:, : len(outputs)]
        found = purified(Effects(grid, np.zeros(len(outputs)), {(0,): values}), Uniform().bind(grid, None))
        assert found.predict([[-1.0], [1.0]]).tolist() == ([0, 1] if len(outputs) == 1 else [1, 2])


def test_separate_yes_no_questions_have_an_answer_each():
    grid = Grid(Schema((Feature("a"),), ("u", "v"), link="logit"), (IntervalAxis("a", 0, np.array([0.0])),))
    effects = Effects(grid, np.zeros(2), {(0,): np.array([[-1.0, 3.0], [2.0, -3.0]])})
    found = purified(effects, Uniform().bind(grid, None))
    assert found.predict([[-1.0], [1.0]]).tolist() == [[0, 1], [1, 0]]
    np.testing.assert_allclose(found.predict_response([[-1.0]]), [[1 / (1 + np.e), 1 / (1 + np.exp(-3))]])


def test_features_outputs_and_link_are_told(fx, several):
    assert fx.feature_names_in_.tolist() == ["x0", "x1", "x2"]
    assert fx.feature_names_in_.dtype == object  # as scikit-learn's
    assert (fx.outputs, fx.schema.link) == (("score",), "identity")
    assert (several.outputs, several.schema.link) == (("u", "v", "w"), "softmax")


def test_terms_at_rows_can_be_called_with_their_columns(deep, deep_fx):
    """Of an array with the term's own columns, and of a table with all columns in any order."""
    x = deep[1][:40]
    table = pd.DataFrame(x, columns=[f"x{j}" for j in range(6)])
    for names in (("x2", "x3", "x4"), ("x0", "x1", "x2", "x3", "x4", "x5")):
        expected = deep_fx.term_values(x, names)
        term = deep_fx.terms[names]
        assert not term.has_table
        np.testing.assert_array_equal(term(x[:, [int(name[1:]) for name in names]]), expected)
        np.testing.assert_array_equal(term(table[list(names)]), expected)
        assert np.abs(expected).max() > 1e-4


def test_progress_of_explanations(deep, deep_fx, capsys):
    rows, told = deep[1][:50], Recorded()
    explained = deep_fx.explain(rows, progress=told)
    assert told.stages == ["tables at rows", "terms of high order at rows"]
    n_tables = len(deep_fx._function.effects.terms)
    assert told.calls[: n_tables + 1] == [("tables at rows", done, n_tables) for done in range(n_tables + 1)]
    assert (explained.values == deep_fx.explain(rows).values).all()
    assert capsys.readouterr() == ("", "")
