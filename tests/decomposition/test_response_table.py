"""Decompositions of the response: sums, purity, known values, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import assert_pure
from tests.support.simulated import dependent_rows, interacting
from tests.support.training import fit

ensemble = pytest.importorskip("sklearn.ensemble")
ROWS, HELD_OUT = dependent_rows(), dependent_rows(50, seed=1)


def classifier(n_classes=2):
    """A small classifier of three features."""
    classes = np.digitize(interacting(ROWS), [0.0] if n_classes == 2 else [-0.5, 0.5])
    return fit(ensemble.GradientBoostingClassifier(n_estimators=3, max_depth=2, random_state=0), ROWS, classes)


@pytest.mark.parametrize("n_classes", [2, 3])
def test_terms_add_up_to_probabilities(n_classes):
    model = classifier(n_classes)
    fx = treeanova.decompose(model, ROWS, density="empirical", n_jobs=1)
    response = fx.on_response_scale()
    expected = model.predict_proba(HELD_OUT)
    found = response.explain(HELD_OUT).scores
    np.testing.assert_allclose(found, expected[:, 1] if n_classes == 2 else expected, rtol=0, atol=1e-12)
    np.testing.assert_allclose(response.predict_proba(HELD_OUT), expected, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(response.predict(HELD_OUT), model.predict(HELD_OUT))
    np.testing.assert_allclose(response.intercept, model.predict_proba(ROWS)[:, -len(fx.outputs) :].mean(axis=0))
    assert_pure(response)


def test_a_product_of_means_is_a_sum_of_logarithms():
    """exp(a + b) of fair coins a, b = ±log 3: the mean is (5/3)², the main effect ±(4/3)(5/3), the pair ±(4/3)²."""
    tables = {"a": [-np.log(3), np.log(3)], "b": [-np.log(3), np.log(3)]}
    fx = treeanova.decompose(treeanova.model.Effects.from_tables(tables, link="log"), density="uniform")
    assert ("a", "b") not in fx.terms
    response = fx.on_response_scale()
    assert response.schema.link == "identity"
    np.testing.assert_allclose(response.intercept, 25 / 9)
    np.testing.assert_allclose(response.terms["a"].values, [-20 / 9, 20 / 9])
    np.testing.assert_allclose(response.terms["a", "b"].values, [[16 / 9, -16 / 9], [-16 / 9, 16 / 9]])


def test_deep_trees_with_few_bins_are_decomposed_too():
    xgboost = pytest.importorskip("xgboost")
    rows = np.round(ROWS)
    options = {"max_depth": 4, "n_jobs": 1, "random_state": 0}
    model = fit(xgboost.XGBClassifier(n_estimators=5, **options), rows, interacting(rows) > 0)
    fx = treeanova.decompose(model, rows, tensor_order=2, density="empirical")
    response = fx.on_response_scale()
    cells = np.array(list(itertools.product(*(np.unique(column) for column in rows.T))))
    np.testing.assert_allclose(response.decision_function(cells), model.predict_proba(cells)[:, 1], atol=1e-6)


def test_edited_terms_keep_their_history():
    fx = treeanova.decompose(classifier(), ROWS, density="empirical", n_jobs=1).scale("x0", 0.5)
    response = fx.on_response_scale()
    assert response.history == fx.history
    assert response.certificate.edits == ("x0 times 0.5",)
    np.testing.assert_allclose(response.decision_function(HELD_OUT), fx.predict_response(HELD_OUT), atol=1e-12)


def test_too_many_cells_are_refused_with_their_number(monkeypatch):
    fx = treeanova.decompose(classifier(), ROWS, density="empirical", n_jobs=1)
    n_cells = int(np.prod(fx.grid.sizes))
    monkeypatch.setattr("treeanova.decomposition.function._MAX_CELLS", n_cells - 1)
    with pytest.raises(
        treeanova.errors.BudgetError, match=rf"all 3 features has {n_cells:,} cells and 8 terms, more than"
    ):
        fx.on_response_scale()
    assert fx.drop("x0").on_response_scale().terms


def test_the_response_itself_is_refused(fx):
    with pytest.raises(ValueError, match="must have a score that differs from the response, got the link 'identity'"):
        fx.on_response_scale()


def test_terms_of_the_response_of_a_selection_are_not_counted_among_the_terms_of_the_model():
    fx = treeanova.decompose(classifier(2), ROWS, density="independent", n_jobs=1)
    response = fx.select(order=1).on_response_scale()
    words = f"Decomposition of {len(response)} terms, of a selection from the model's {len(fx)}:"
    assert repr(response).startswith(words)
    assert f"Decomposition of {len(fx.select(order=1))} terms (of {len(fx)}):" in repr(fx.select(order=1))
