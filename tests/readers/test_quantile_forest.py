"""Quantile forests that predict means, compared with their own prediction; quantiles are refused."""

from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.edge_values import numeric_rows
from tests.support.training import fit
from treeanova import read_model
from treeanova.errors import UnsupportedModelError

quantile_forest = pytest.importorskip("quantile_forest")
KINDS = ["RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"]


def data(n_targets=1):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, 3)).round(2)
    y = np.stack([X[:, 0] * X[:, 1] + X[:, 2], X[:, 0] - X[:, 1]], axis=1)
    return X, y[:, 0] if n_targets == 1 else y


def fitted(kind="RandomForestQuantileRegressor", n_targets=1, **options):
    options = {"n_estimators": 6, "min_samples_leaf": 5, "random_state": 0, "default_quantiles": "mean"} | options
    return fit(getattr(quantile_forest, kind)(**options), *data(n_targets))


def check(model, *, missing=True):
    forest = read_model(model)
    rows = numeric_rows(forest, np.random.default_rng(1), 500, infinite=False, base=data()[0])
    if not missing:
        rows = rows[~np.isnan(rows).any(axis=1)]
    expected = model.predict(rows).reshape(len(rows), -1)
    np.testing.assert_allclose(forest.score(rows), expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n_targets", [1, 2])
def test_the_mean_is_read(kind, n_targets):
    check(fitted(kind, n_targets))


def test_no_default_quantile_means_the_mean():
    check(fitted(default_quantiles=None))


def test_monotonic_constraints_clip_leaves():
    check(fitted(monotonic_cst=[0, 0, 1]), missing=False)  # scikit-learn 1.6 refuses missing values then


def test_the_decomposition_adds_up():
    model = fitted(max_depth=3)
    X, _ = data()
    fx = treeanova.decompose(model, X)
    np.testing.assert_allclose(fx.decision_function(X), model.predict(X), rtol=1e-9, atol=1e-9)


def test_quantiles_are_refused_and_the_remedy_works():
    model = fitted(default_quantiles=0.5)
    with pytest.raises(
        UnsupportedModelError, match=r'a quantile over its trees .*set_params\(default_quantiles="mean"'
    ):
        read_model(model)
    check(model.set_params(default_quantiles="mean"))


def test_pooled_means_are_refused():
    with pytest.raises(UnsupportedModelError, match=r"max_samples_leaf=None .* no sums over trees"):
        read_model(fitted(max_samples_leaf=None))


def test_it_must_be_fitted():
    with pytest.raises(UnsupportedModelError, match="before training; fit it first"):
        read_model(quantile_forest.RandomForestQuantileRegressor())
