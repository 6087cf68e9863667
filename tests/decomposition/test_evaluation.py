"""Models and terms at rows: sums are scores, a remainder comes last."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.effects import pair_on_few_bins, rows_of_effects
from treeanova.model.rows import Rows


@pytest.fixture(scope="module")
def own_axes():
    effects = pair_on_few_bins()
    rows = rows_of_effects(effects)
    return treeanova.decompose(effects, rows, density="empirical"), rows


def parts(fx):
    yield fx
    yield fx.truncate(1)
    yield fx.select(order=1)
    yield fx.raw


def check_sums(fx, rows):
    for part in parts(fx):
        evaluation = part._function
        codes = evaluation.grid.index(rows)
        values = evaluation.all_at(codes)
        assert values.shape[1] == len(part.terms) + part.has_remainder
        total = evaluation.terms.intercept + values.sum(axis=1)
        np.testing.assert_allclose(total[:, 0], part.decision_function(rows), atol=1e-10)
        np.testing.assert_allclose(evaluation.score(Rows.in_bins(evaluation.grid, codes)), total, atol=1e-10)
        if part.has_remainder:
            np.testing.assert_allclose(values[:, -1, 0], part.remainder(rows), atol=1e-10)


def test_terms_and_remainder_add_up_to_the_score(own_axes):
    check_sums(*own_axes)


def test_terms_of_deep_ensembles_add_up_to_the_score(deep, deep_fx):
    check_sums(deep_fx, deep[1][:30])


@pytest.mark.usefixtures("_budget_of_tables")
def test_merged_bins_leave_a_remainder_but_none_to_a_selection(deep):
    model, x = deep
    merged = treeanova.decompose(model, x, density="empirical", budget=1.5e6)
    assert merged._function.has_remainder
    assert max(merged.grid.sizes) < max(merged._function.grid.sizes)
    assert not merged.select(order=[1, 2])._function.has_remainder
    assert merged.raw._function.has_remainder
    check_sums(merged, x[:30])


def test_one_term_at_a_time_is_the_same(own_axes):
    fx, rows = own_axes
    codes = fx._function.grid.index(rows)
    for i, key in enumerate(fx._function.terms.keys):
        np.testing.assert_array_equal(fx._function.at(codes, [key])[:, 0], fx._function.all_at(codes)[:, i])
