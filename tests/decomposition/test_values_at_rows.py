"""Explanations against reference rows: sums, Shapley values of shap, interactions by brute force, bad input."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from sklearn.ensemble import GradientBoostingRegressor

import treeanova
from tests.support.anchored import anchored_term
from tests.support.library_models import DEEP_MODELS, LIBRARY_MODELS
from tests.support.simulated import dependent_rows, high_order_rows
from tests.support.training import fit

DATA, HELD_OUT = dependent_rows(), dependent_rows(60, seed=1)


def sum_of_parts(explained):
    """All terms, listed or not, and the remainder."""
    rest = 0.0 if explained.remainder is None else explained.remainder
    return explained.values.sum(axis=1) + sum(explained.others.values()) + rest


@pytest.mark.parametrize("n_references", [1, 5])
def test_values_add_up_to_the_difference_of_scores(fx, n_references):
    references = DATA[:n_references]
    explained = fx.explain(HELD_OUT, reference=references)
    score = fx.model.predict
    assert explained.intercept == pytest.approx(score(references).mean(), abs=1e-12)
    np.testing.assert_allclose(sum_of_parts(explained), score(HELD_OUT) - score(references).mean(), atol=1e-12)
    for i, names in enumerate(explained.terms):
        features = [fx.schema.names.index(name) for name in names]
        expected = np.mean([anchored_term(score, HELD_OUT, r, features) for r in references], axis=0)
        np.testing.assert_allclose(explained.values[:, i], expected, rtol=0, atol=1e-12)


EVERY_LIBRARY = LIBRARY_MODELS | DEEP_MODELS


@pytest.mark.parametrize("name", EVERY_LIBRARY)
def test_values_add_up_and_are_anchored_terms_in_every_library(name):
    """Brute force: scores of rows whose other features come from the reference."""
    for library in EVERY_LIBRARY[name].libraries:
        pytest.importorskip(library)
    fx, rows = EVERY_LIBRARY[name].make()
    some, reference, score = chosen(rows, range(12)), chosen(rows, [50]), fx.decision_function
    explained = fx.explain(some, reference=reference)
    np.testing.assert_allclose(sum_of_parts(explained), score(some) - score(reference), rtol=0, atol=1e-10)
    np.testing.assert_allclose(score(some), own_score(fx.model, some).reshape(score(some).shape), rtol=1e-5, atol=1e-5)
    repeated = chosen(rows, [50] * 12)
    for i, names in list(enumerate(explained.terms))[::3]:
        features = [fx.schema.names.index(one) for one in names]
        subsets = [s for k in range(len(features) + 1) for s in itertools.combinations(features, k)]
        expected = sum((-1.0) ** (len(names) - len(s)) * score(replaced(repeated, some, s)) for s in subsets)
        np.testing.assert_allclose(explained.values[:, i], expected, rtol=0, atol=1e-10)


def own_score(model, rows):
    """What the library itself predicts, before a link."""
    scored = model.decision_function if hasattr(model, "decision_function") else model.predict
    return np.asarray(scored(rows), dtype=np.float64)


def chosen(rows, numbers):
    """Some rows, again from the first on."""
    if hasattr(rows, "iloc"):
        return rows.iloc[list(numbers)].reset_index(drop=True)
    return rows[list(numbers)]


def replaced(rows, others, features):
    """Rows with some features from others."""
    if hasattr(rows, "iloc"):
        names = [rows.columns[j] for j in features]
        return rows.assign(**{name: others[name] for name in names})
    mixed = rows.copy()
    mixed[:, list(features)] = others[:, list(features)]
    return mixed


def test_values_of_several_outputs_add_up(several, classifier):
    explained = several.explain(HELD_OUT, reference=DATA[0])
    expected = classifier.decision_function(HELD_OUT) - classifier.decision_function(DATA[:1])
    np.testing.assert_allclose(sum_of_parts(explained), expected, atol=1e-12)


def test_words_for_the_baseline(fx):
    assert fx.explain(HELD_OUT).baseline == "average"
    assert fx.explain(HELD_OUT, reference=DATA[0]).baseline == "score of the reference"
    several = fx.explain(HELD_OUT, reference=DATA[:20])
    assert several.baseline == "mean score of 20 references"
    assert "against the mean score of 20 references" in repr(several)


def test_deep_terms_that_are_not_listed_are_added_up_and_shared():
    xgboost = pytest.importorskip("xgboost")
    x, y = high_order_rows(800, n_features=10)
    model = fit(xgboost.XGBRegressor(n_estimators=40, max_depth=6, n_jobs=1), x, y + x[:, 5:].prod(axis=1))
    fx = treeanova.decompose(model, x, density="independent")
    some, references = x[:8], x[20:22]
    explained = fx.explain(some, reference=references)
    score = fx.decision_function
    assert explained.others
    np.testing.assert_allclose(sum_of_parts(explained), score(some) - score(references).mean(), atol=1e-12)
    np.testing.assert_allclose(explained.shap_values(), shapley(score, some, references), rtol=0, atol=1e-12)
    up_to_two = fx.explain(some, reference=references, max_order=2)
    assert {len(term) for term in up_to_two.terms} == {1, 2}
    np.testing.assert_allclose(sum_of_parts(up_to_two), score(some) - score(references).mean(), atol=1e-12)
    truncated = fx.truncate(1).explain(some, reference=references)
    assert {len(term) for term in truncated.terms} == {1}
    np.testing.assert_allclose(sum_of_parts(truncated), score(some) - score(references).mean(), atol=1e-12)


def test_terms_before_purification_are_those_of_the_function():
    """Terms of trees lack many subsets of their features; against a reference these change the score too."""
    x, y = high_order_rows(300, n_features=5)
    model = fit(GradientBoostingRegressor(n_estimators=10, max_depth=4, random_state=0), x, y)
    raw = treeanova.decompose(model, x, density="independent", tensor_order=2).raw
    some, references = x[:8], x[20:22]
    explained = raw.explain(some, reference=references)
    np.testing.assert_allclose(
        sum_of_parts(explained), model.predict(some) - model.predict(references).mean(), atol=1e-12
    )
    np.testing.assert_allclose(explained.shap_values(), shapley(model.predict, some, references), rtol=0, atol=1e-12)
    for i, names in enumerate(explained.terms):
        features = [raw.schema.names.index(name) for name in names]
        expected = np.mean([anchored_term(model.predict, some, r, features) for r in references], axis=0)
        np.testing.assert_allclose(explained.values[:, i], expected, rtol=0, atol=1e-12)
    up_to_one = raw.explain(some, reference=references, max_order=1)
    assert {len(term) for term in up_to_one.terms} == {1}
    np.testing.assert_allclose(sum_of_parts(up_to_one), sum_of_parts(explained), atol=1e-12)


@pytest.mark.usefixtures("_budget_of_tables")
def test_merged_bins_do_not_matter(deep):
    model, rows = deep
    merged = treeanova.decompose(model, rows, budget=3e5, density="empirical")
    assert merged.has_remainder
    explained = merged.explain(rows[:5], reference=rows[9])
    expected = merged.decision_function(rows[:5]) - merged.decision_function(rows[[9]])
    np.testing.assert_allclose(explained.values.sum(axis=1) + sum(explained.others.values()), expected, atol=1e-12)


def test_a_selection_is_explained_as_its_own_function(fx):
    pair = fx.select(order=2)
    explained = pair.explain(HELD_OUT, reference=DATA[0])
    expected = pair.decision_function(HELD_OUT) - pair.decision_function(DATA[:1])
    np.testing.assert_allclose(sum_of_parts(explained), expected, atol=1e-12)
    assert ("x0",) in explained.terms


def shapley(score, rows, references):
    """Interventional Shapley values by the sum over all coalitions."""
    n = rows.shape[1]
    worth = {
        s: mixed_score(score, rows, references, s) for k in range(n + 1) for s in itertools.combinations(range(n), k)
    }
    values = np.zeros(rows.shape)
    for s, value in worth.items():
        for j in set(range(n)) - set(s):
            share = math.factorial(len(s)) * math.factorial(n - len(s) - 1) / math.factorial(n)
            values[:, j] += share * (worth[tuple(sorted({*s, j}))] - value)
    return values


def mixed_score(score, rows, references, chosen):
    """Mean score of rows whose other features come from the references."""
    total = np.zeros(len(rows))
    for reference in references:
        mixed = np.repeat(reference[None], len(rows), axis=0)
        mixed[:, list(chosen)] = rows[:, list(chosen)]
        total += score(mixed) / len(references)
    return total


def test_pairs_of_shap_interactions_are_shared_terms(fx):
    """The Shapley interaction index of a pair is the sum of f_u / (|u| - 1) over the terms u that contain it."""
    score, references = fx.decision_function, DATA[:3]
    explained = fx.explain(HELD_OUT[:9], reference=references)
    for pair in itertools.combinations(range(3), 2):
        [other] = set(range(3)) - set(pair)
        expected = np.zeros(9)
        for rest in ((), (other,)):  # weights |S|! (n - |S| - 2)! / (n - 1)! are 1/2 for both
            signed = ((1, pair), (-1, pair[:1]), (-1, pair[1:]), (1, ()))
            for sign, chosen in signed:
                expected += 0.5 * sign * mixed_score(score, HELD_OUT[:9], references, sorted({*chosen, *rest}))
        names = {fx.schema.names[j] for j in pair}
        shared = [
            explained.values[:, i] / (len(term) - 1) for i, term in enumerate(explained.terms) if names <= set(term)
        ]
        np.testing.assert_allclose(np.sum(shared, axis=0), expected, rtol=0, atol=1e-12)


def test_shap_values_are_those_of_shap_with_a_background(fx):
    shap = pytest.importorskip("shap", reason="shap is not installed: brute force tests its definition")
    background = DATA[:25]
    explainer = shap.TreeExplainer(fx.model, background, feature_perturbation="interventional")
    found = fx.explain(HELD_OUT, reference=background).shap_values()
    np.testing.assert_allclose(found, explainer.shap_values(HELD_OUT), rtol=0, atol=1e-6)  # shap adds in float32


def test_all_cells_as_background_are_the_density_of_independent_features(fx):
    codes = np.array(list(itertools.product(*map(range, fx.grid.sizes))), dtype=np.int32)
    uniform = fx.with_density("uniform").explain(HELD_OUT)
    explained = fx.explain(HELD_OUT, reference=fx.grid.encoded(codes))
    assert explained.terms == uniform.terms
    np.testing.assert_allclose(explained.values, uniform.values, rtol=0, atol=1e-10)


@pytest.mark.parametrize(
    ("reference", "message"),
    [
        (DATA[:0], "`reference` must have at least one row, got none"),
        (DATA[:, :2], "`reference` must have 3 columns.*got 2"),
        ({"x0": 1.0}, "`reference` must have all features of the model, got none named 'x1', 'x2'"),
        ("x0", "`reference` must be one row"),
    ],
)
def test_bad_references_are_refused(fx, reference, message):
    with pytest.raises(ValueError, match=message):
        fx.explain(HELD_OUT, reference=reference)


@pytest.mark.parametrize("max_order", [-1, 1.5, True, "2"])
def test_an_order_that_is_no_whole_number_is_refused(fx, max_order):
    for options in ({}, {"reference": DATA[0]}):
        with pytest.raises(ValueError, match=f"`max_order` must be a whole number from 0 on, got {max_order!r}"):
            fx.explain(HELD_OUT, max_order=max_order, **options)
