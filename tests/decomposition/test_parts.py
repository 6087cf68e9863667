"""Parts of scores: their values at rows and their means add up to the model, for one model and for two together."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.simulated import deep_model, dependent_rows, high_order_rows
from treeanova.decomposition import importance as parts_module
from treeanova.decomposition.importance import Parts, largest_first, mean_parts, parts_at, parts_of
from treeanova.density.row_sources import statistics_of


@pytest.fixture(scope="module")
def screened():
    """A deep model of which few terms are listed, and all others are added up by order."""
    pytest.importorskip("xgboost")
    model, rows = deep_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeanova.terms.layout._LISTED_TERMS", 3)
        return treeanova.decompose(model, rows, density="independent", n_jobs=1)


def assert_adds_up(fx, rows, parts):
    codes = fx.evaluation.grid.index(rows)
    values = parts_at(fx.evaluation, codes, parts)
    score = fx.decision_function(rows).reshape(len(rows), -1)
    assert values.shape == (len(rows), len(parts), score.shape[1])
    assert np.allclose(values.sum(axis=1) + fx.termset.intercept, score, rtol=0, atol=1e-10)
    means = mean_parts(fx.evaluation, statistics_of(rows, fx.grid), parts)
    assert np.allclose(means, values.mean(axis=0), rtol=0, atol=1e-11)


def test_parts_of_tables_are_those_of_an_explanation(several):
    rows = dependent_rows(seed=1)
    parts = parts_of(several.evaluation)
    explained = several.explain(rows)
    values = parts_at(several.evaluation, several.evaluation.grid.index(rows), parts)
    assert np.array_equal(values, explained.values)
    assert parts.labels(several.schema.names) == list(explained.parts)
    assert_adds_up(several, rows, parts)


@pytest.mark.parametrize("order", [2, 3, 6])
def test_parts_of_a_deep_model_add_up(deep_fx, order):
    fx = deep_fx.truncate(order)
    parts = parts_of(fx.evaluation)
    assert parts.has_remainder == (order < 6)
    assert_adds_up(fx, high_order_rows(200, seed=5)[0], parts)


def test_terms_that_another_model_lists_leave_the_sums_of_their_order(screened, deep_fx):
    assert screened.evaluation.rest_orders == (3, 4, 5, 6)
    rows = high_order_rows(150, seed=5)[0]
    together = parts_of(screened.evaluation, deep_fx.evaluation)
    assert set(together.keys) == set(deep_fx.termset.keys)
    assert_adds_up(screened, rows, together)
    values = parts_at(screened.evaluation, screened.evaluation.grid.index(rows), together)
    # All terms are listed by the other model, so that nothing is left of the sums.
    assert np.abs(values[:, len(together.keys) :]).max() < 1e-10
    place, key = next((i, key) for i, key in enumerate(together.keys) if key not in screened.termset.keys)
    expected = screened.term_values(rows, [f"x{j}" for j in key])
    assert np.abs(expected).max() > 1e-6
    assert np.allclose(values[:, place, 0], expected, rtol=0, atol=1e-12)
    assert_adds_up(screened, rows, parts_of(screened.evaluation))


def test_blocks_of_rows_do_not_change_means(screened, monkeypatch):
    rows = high_order_rows(150, seed=5)[0]
    parts, statistics = parts_of(screened.evaluation), statistics_of(rows, screened.grid)
    whole = mean_parts(screened.evaluation, statistics, parts)
    monkeypatch.setattr(parts_module, "_NUMBERS_AT_ONCE", 700)
    assert len(list(parts.blocks(150, 1))) > 5
    assert np.allclose(mean_parts(screened.evaluation, statistics, parts), whole, rtol=0, atol=1e-13)


def test_weights_of_rows_count(fx):
    rows, weights = dependent_rows(seed=1), np.random.default_rng(0).random(300)
    means = mean_parts(fx.evaluation, statistics_of(rows, fx.grid, weights), parts_of(fx.evaluation))
    expected = np.average(fx.explain(rows).values, axis=0, weights=weights)
    assert np.allclose(means[:, 0], expected, rtol=0, atol=1e-13)


def test_labels_of_rests_differ_from_those_of_terms():
    parts = Parts(((0,), (0, 1)), (3,), has_remainder=True)
    assert parts.labels(["remainder", "b"]) == ["remainder", "remainder × b", "other terms of order 3", "(remainder)"]


def test_largest_first_ignores_rounding():
    assert largest_first(np.array([1.0, 3.0, 1.0 + 1e-15, 0.0])) == [1, 0, 2, 3]
    assert largest_first(np.zeros(2)) == [0, 1]
