"""Corrections of high orders for dependence, against exact purification and means over slices of rows."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from tests.support.decompositions import names_at_rows
from tests.support.simulated import boosted_on_few_bins, high_order_rows
from tests.support.training import fit
from treeanova.terms import costs


def test_on_few_bins_the_correction_is_the_exact_purification():
    model, x = boosted_on_few_bins()
    dense = treeanova.decompose(model, x, density="empirical", tensor_order=3)
    deep = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    assert names_at_rows(dense) == []
    assert names_at_rows(deep) == [("x0", "x1", "x2")]
    size = np.abs(dense.explain(x).values).max()
    raw = treeanova.decompose(model, x, density="independent", tensor_order=2)
    for names in dense.terms:
        gap = np.abs(deep.term_values(x, names) - dense.term_values(x, names)).max()
        assert gap < 2e-3 * size
    # Without the correction they would differ by far more.
    assert np.abs(raw.term_values(x, "x0") - dense.term_values(x, "x0")).max() > 0.05 * size
    certificate = deep.certificate.higher
    assert certificate.n_corrected == 1
    assert certificate.impurity < 1e-2
    assert "1 terms at rows; 1 corrected for dependence on coarse bins (5 at order 3)" in str(certificate)


def test_the_certificate_tells_what_is_left_of_the_means_of_slices(monkeypatch):
    monkeypatch.setattr(costs, "TOLERANCE_OF_ALL_BINS", 0.2)
    model, x = boosted_on_few_bins()
    names = ("x0", "x1", "x2")
    left = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    before = treeanova.decompose(model, x, density="independent", tensor_order=2).term_values(x, names)
    values = (
        left.term_values(x, names) + left._function.terms.leaf_terms.leftover.tables[()]
    )  # before the mean is moved
    squares = []
    for others in itertools.combinations(range(3), 2):
        _, slices = np.unique(left.grid.index(x)[:, others], axis=0, return_inverse=True)
        means = np.bincount(slices.ravel(), values) / np.bincount(slices.ravel())
        squares.append(np.mean(means[slices.ravel()] ** 2))
    expected = np.sqrt(np.mean(squares) / np.mean(before**2))
    assert expected > 1e-3
    assert left.certificate.higher.impurity == pytest.approx(expected, rel=1e-9)


def test_high_orders_have_zero_means_where_bins_are_few():
    model, x = boosted_on_few_bins(n_features=4, depth=4, steps=3, n_trees=40)
    fx = treeanova.decompose(model, x, density="empirical", tensor_order=2)
    bins = fx.grid.index(x)
    for names in names_at_rows(fx):
        values = fx.term_values(x, names)
        positions = [int(name[1:]) for name in names]
        for left_out in positions:
            others = bins[:, [j for j in positions if j != left_out]]
            _, cell = np.unique(others, axis=0, return_inverse=True)
            means = np.bincount(cell.ravel(), values) / np.bincount(cell.ravel())
            assert np.abs(means).max() < 2e-2 * max(np.abs(values).max(), 1e-3)


@pytest.mark.thorough
@pytest.mark.usefixtures("_budget_of_tables")
def test_forests_with_very_many_leaf_sets_are_corrected():
    ensemble = pytest.importorskip("sklearn.ensemble")
    x, y = high_order_rows(800, 12)
    model = fit(ensemble.RandomForestRegressor(n_estimators=40, random_state=0, n_jobs=1), x, y)
    fx = treeanova.decompose(model, x, density="empirical", budget=5e7, max_order=2)
    assert fx.certificate.higher.n_corrected >= 220  # all triples of the 12 features
    keys = fx._function.source.trees.leaf_sets
    assert keys.subsets([3]) == sorted({sub for key in keys.keys for sub in itertools.combinations(key, 3)})


def test_high_orders_of_strongly_dependent_features_are_as_small_as_exact_purification_has_them():
    xgb = pytest.importorskip("xgboost")
    rng = np.random.default_rng(0)
    x = rng.multivariate_normal(np.zeros(4), 0.9 + 0.1 * np.eye(4), size=4000, method="cholesky")
    y = x[:, 0] * x[:, 1] + np.sin(3 * x[:, 2]) * x[:, 3] + rng.normal(0, 0.5, 4000)
    model = fit(xgb.XGBRegressor(n_estimators=50, max_depth=4, max_bin=12, n_jobs=1), x, y)
    dense = treeanova.decompose(model, x, density="empirical", tensor_order=4).explain(x)
    deep = treeanova.decompose(model, x, density="empirical", tensor_order=2).explain(x)
    places = [deep.terms.index(names) for names in dense.terms]
    gaps = np.sqrt(((deep.values[:, places] - dense.values) ** 2).mean(axis=0)) / dense.scores.std()
    assert gaps.max() < 0.01  # with a quarter of the cells it would be 0.5
