from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.data.features import Schema
from treeanova.decomposition.predictions import is_response, response_changes

ensemble = pytest.importorskip("sklearn.ensemble")
pytest.importorskip("pandas")
ROWS = np.random.default_rng(0).normal(size=(300, 1))
NAMES = np.array(["no", "yes"])


def one_feature(model, target):
    """A model of one feature, whose main effect is all of it, its decomposition, and the first row of each bin."""
    fx = treeanova.decompose(fit(model, ROWS, target), ROWS, density="empirical", feature_names=["x"], n_jobs=1)
    bins = fx.terms["x"].axes[0].index(ROWS[:, 0])
    found, first = np.unique(bins, return_index=True)
    assert len(found) == fx.terms["x"].axes[0].size
    return model, fx, ROWS[first]


def test_changes_of_a_probability_are_those_of_predict_proba():
    model = ensemble.GradientBoostingClassifier(n_estimators=8, max_depth=2, random_state=0)
    model, fx, rows = one_feature(model, NAMES[(ROWS[:, 0] > 0.3).astype(int)])
    base = 1 / (1 + np.exp(-model.decision_function(ROWS).mean()))
    expected = model.predict_proba(rows)[:, 1] - base
    for scale in ("probability", "response"):
        np.testing.assert_allclose(fx.table("x", scale=scale)["value"], expected, rtol=1e-9, atol=1e-12)
    np.testing.assert_array_equal(fx.table("x", scale="score")["value"], fx.terms["x"].values)


def test_changes_of_several_probabilities_depend_on_all_scores():
    model = ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=2, random_state=0)
    model, fx, rows = one_feature(model, np.digitize(ROWS[:, 0], [-0.5, 0.5]))
    odds = np.exp(model.decision_function(ROWS).mean(axis=0))
    expected = model.predict_proba(rows) - odds / odds.sum()
    table = fx.table("x", scale="response")
    found = np.column_stack([table[f"value_{output}"] for output in fx.outputs])
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


def test_changes_of_a_mean_with_the_link_log():
    model = ensemble.HistGradientBoostingRegressor(loss="poisson", max_iter=5, max_leaf_nodes=4)
    model, fx, rows = one_feature(model, np.exp(ROWS[:, 0]).round())
    base = np.exp(np.log(model.predict(ROWS)).mean())
    np.testing.assert_allclose(fx.table("x", scale="response")["value"], model.predict(rows) - base, rtol=1e-9)
    with pytest.raises(ValueError, match="`scale` must be 'score' or 'response' for a model of a mean"):
        fx.table("x", scale="probability")


@pytest.mark.parametrize(
    ("link", "message"),
    [
        ("identity", "`scale` must be 'score' if the score is already the response, got 'response'"),
        ("probability", "if the score is already the response"),
        ("other", "`scale` must be 'score' for link 'other', got 'response'"),
    ],
)
def test_scales_without_meaning_are_refused(link, message):
    with pytest.raises(ValueError, match=message):
        is_response(Schema((), link=link), "response")


def test_unknown_scales_are_refused():
    with pytest.raises(ValueError, match="`scale` must be one of 'score', 'response', 'probability', got 'odds'"):
        is_response(Schema((), link="logit"), "odds")


def test_no_change_where_the_term_is_zero():
    zero = np.zeros((2, 3))
    np.testing.assert_array_equal(response_changes(Schema((), link="logit"), 0.7, zero), zero)
