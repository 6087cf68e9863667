"""Parts of scores: their values at rows and their means add up to the model, for one model and for two together."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.simulated import deep_model, dependent_rows, high_order_rows
from treeanova.decomposition.function import Components, components_at, components_of, mean_components
from treeanova.decomposition.importance import largest_first
from treeanova.density.statistics import statistics_of


@pytest.fixture(scope="module")
def screened():
    """A deep model of which few terms are listed, and all others are added up by order."""
    pytest.importorskip("xgboost")
    model, rows = deep_model()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
        return treeanova.decompose(model, rows, density="independent", n_jobs=1)


def assert_adds_up(fx, rows, components):
    codes = fx._function.grid.index(rows)
    values = components_at(fx._function, codes, components)
    score = fx.decision_function(rows).reshape(len(rows), -1)
    assert values.shape == (len(rows), len(components), score.shape[1])
    assert np.allclose(values.sum(axis=1) + fx._function.terms.intercept, score, rtol=0, atol=1e-10)
    means = mean_components(fx._function, statistics_of(rows, fx.grid), components)
    assert np.allclose(means, values.mean(axis=0), rtol=0, atol=1e-11)


def test_components_of_tables_are_those_of_an_explanation(several):
    rows = dependent_rows(seed=1)
    components = components_of(several._function)
    explained = several.explain(rows)
    values = components_at(several._function, several._function.grid.index(rows), components)
    assert np.array_equal(values, explained.values)
    assert components.labels(several.schema.names) == list(explained.parts)
    assert_adds_up(several, rows, components)


@pytest.mark.parametrize("order", [2, 3, 6])
def test_components_of_a_deep_model_add_up(deep_fx, order):
    fx = deep_fx.truncate(order)
    components = components_of(fx._function)
    assert components.has_remainder == (order < 6)
    assert_adds_up(fx, high_order_rows(200, seed=5)[0], components)


def test_terms_that_another_model_lists_leave_the_sums_of_their_order(screened, deep_fx):
    assert screened._function.unlisted_orders == (3, 4, 5, 6)
    rows = high_order_rows(150, seed=5)[0]
    together = components_of(screened._function, deep_fx._function)
    assert set(together.keys) == set(deep_fx._function.terms.keys)
    assert_adds_up(screened, rows, together)
    values = components_at(screened._function, screened._function.grid.index(rows), together)
    # All terms are listed by the other model, so that nothing is left of the sums.
    assert np.abs(values[:, len(together.keys) :]).max() < 1e-10
    place, key = next((i, key) for i, key in enumerate(together.keys) if key not in screened._function.terms.keys)
    expected = screened.term_values(rows, [f"x{j}" for j in key])
    assert np.abs(expected).max() > 1e-6
    assert np.allclose(values[:, place, 0], expected, rtol=0, atol=1e-12)
    assert_adds_up(screened, rows, components_of(screened._function))


def test_blocks_of_rows_do_not_change_means(screened, monkeypatch):
    rows = high_order_rows(150, seed=5)[0]
    components, statistics = components_of(screened._function), statistics_of(rows, screened.grid)
    whole = mean_components(screened._function, statistics, components)
    monkeypatch.setattr("treeanova.decomposition.function._NUMBERS_AT_ONCE", 700)
    assert len(list(components.blocks(150, 1))) > 5
    assert np.allclose(mean_components(screened._function, statistics, components), whole, rtol=0, atol=1e-13)


def test_weights_of_rows_count(fx):
    rows, weights = dependent_rows(seed=1), np.random.default_rng(0).random(300)
    means = mean_components(fx._function, statistics_of(rows, fx.grid, weights), components_of(fx._function))
    expected = np.average(fx.explain(rows).values, axis=0, weights=weights)
    assert np.allclose(means[:, 0], expected, rtol=0, atol=1e-13)


def test_labels_of_rests_differ_from_those_of_terms():
    components = Components(((0,), (0, 1)), (3,), has_remainder=True)
    assert components.labels(["remainder", "b"]) == [
        "remainder",
        "remainder × b",
        "other terms of order 3",
        "(remainder)",
    ]


def test_largest_first_ignores_rounding():
    assert largest_first(np.array([1.0, 3.0, 1.0 + 1e-15, 0.0])) == [1, 0, 2, 3]
    assert largest_first(np.zeros(2)) == [0, 1]
