"""Importance against sums over every cell of the grid, under densities that have a table of all features."""

from __future__ import annotations

import functools
import itertools
import math

import numpy as np
import pytest

from tests.gauntlet.checks import check_all, check_importance
from tests.gauntlet.combinations import combinations
from tests.gauntlet.data import BUNDLED, Data, synthetic
from tests.gauntlet.models import LIBRARIES, of_depth
from treeanova import decompose

NAMED = ["empirical", "laplace", "shrinkage", "independent", "uniform"]
MOST_CELLS = 200_000


def three_features():
    """A table of three dependent features, few values each."""
    rng = np.random.default_rng(4)
    X = np.round(rng.multivariate_normal(np.zeros(3), 0.4 + 0.6 * np.eye(3), size=300) * 2) / 2
    return Data(X, X[:, 0] * X[:, 1] + np.abs(X[:, 2]) * X[:, 0])


TABLES = {
    "iris": BUNDLED["iris"],
    "linnerud": BUNDLED["linnerud"],
    "three": three_features,
    "binary": functools.partial(synthetic, "binary"),
    "constant": functools.partial(synthetic, "constant"),
    "gaps": functools.partial(synthetic, "gaps"),
    "10-rows": functools.partial(synthetic, "10-rows"),
    "one-feature": functools.partial(synthetic, "one-feature"),
}
KINDS = {"tree": {}, "forest": {"n_estimators": 3}, "xgboost": {"n_estimators": 4}, "lightgbm": {"n_estimators": 4}}
SHORT = [
    ("iris", "tree", "empirical"), ("iris", "xgboost", "laplace"), ("three", "lightgbm", "shrinkage"),
    ("three", "xgboost", "table"), ("binary", "forest", "independent"), ("gaps", "tree", "uniform"),
    ("10-rows", "tree", "empirical"), ("constant", "tree", "table with gaps"),
]  # fmt: skip


@functools.cache
def data(table):
    return TABLES[table]()


def table_of(sizes, *, share):
    """Random weights over all cells, with mass in a share of them, and in every bin."""
    rng = np.random.default_rng(5)
    weights = rng.random(sizes) ** 3 * (rng.random(sizes) < share)
    for axis in range(len(sizes)):
        lacking = weights.sum(axis=tuple(i for i in range(len(sizes)) if i != axis)) == 0
        weights[tuple(lacking if i == axis else 0 for i in range(len(sizes)))] = 0.1
    return weights


@pytest.mark.parametrize(
    ("table", "kind", "density"),
    combinations(itertools.product(TABLES, KINDS, [*NAMED, "table", "table with gaps"]), SHORT, stride=5),
)
def test_importance_over_all_cells(table, kind, density, tmp_path):
    rows, library = data(table), LIBRARIES[kind]
    model = library.model_of(rows, **of_depth(kind, 3) | KINDS[kind])
    if density.startswith("table"):
        sizes = decompose(model, density="uniform").grid.sizes
        density = table_of(sizes, share=0.3 if "gaps" in density else 1.0)
    fx = decompose(model, rows.X, density=density, n_jobs=1)
    assert math.prod(fx.grid.sizes) <= MOST_CELLS, fx.grid.sizes
    check_all(fx, model, library, rows.X, tmp_path)
    check_importance(fx)


@pytest.mark.parametrize(
    ("kind", "density"),
    combinations(
        itertools.product(["forest", "xgboost", "lightgbm"], [*NAMED, "kernel"]), [("xgboost", "independent")]
    ),
)
def test_deep_model(kind, density, tmp_path):
    """Orders above tables under every density: pure in closed form where features are independent."""
    rows, library = synthetic("correlated"), LIBRARIES[kind]
    model = library.model_of(rows, **of_depth(kind, 8))
    fx = decompose(model, rows.X, density=density, tensor_order=2, n_jobs=1)
    assert any(not term.has_table for term in fx.terms.values())
    assert fx.certificate.higher.is_exact == (density in {"independent", "uniform"})
    check_all(fx, model, library, rows.X, tmp_path)


@pytest.mark.parametrize(
    ("table", "kind"), combinations(itertools.product(TABLES, ["xgboost", "catboost"]), [("three", "catboost")])
)
def test_kernel_density(table, kind, tmp_path):
    rows, library = data(table), LIBRARIES[kind]
    model = library.model_of(rows, **of_depth(kind, 3))
    fx = decompose(model, rows.X, density="kernel", n_jobs=1)
    check_all(fx, model, library, rows.X, tmp_path)
