"""Decompositions of one model by several ways to read the rows: what must agree, and how closely."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np

from tests.support.training import fit

_NAMES = ["a", "b", "c", "k"]


def mixed_rows(n_rows: int = 3000, seed: int = 0) -> Any:
    """A pandas table of dependent numbers with missing values, a category, a key and weights."""
    pandas = importlib.import_module("pandas")
    rng = np.random.default_rng(seed)
    a, b, c = rng.normal(size=(3, n_rows))
    table = pandas.DataFrame({"key": np.arange(n_rows), "a": a, "b": a + b, "c": c, "k": rng.integers(0, 5, n_rows)})
    table["k"] = table["k"].astype(float)
    table.loc[::7, "b"] = np.nan
    table["weight"] = rng.uniform(0.1, 2.0, n_rows)
    return table


def boosted_model(rows: Any, *, is_deep: bool = False) -> Any:
    """A model of the columns a, b, c and k, with interactions of two features, or of up to four."""
    ensemble = importlib.import_module("sklearn.ensemble")
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=20, max_depth=4 if is_deep else 2, max_leaf_nodes=12, random_state=0
    )
    b = rows["b"].fillna(0.3)
    target = rows["a"] * b + (rows["k"] == 2) * rows["c"] + rows["a"] * rows["c"] * b
    with importlib.import_module("threadpoolctl").threadpool_limits(1):  # threads would wait for shared cores
        return fit(model, rows[_NAMES], target)


def assert_same_answers(found: Any, expected: Any, rows: Any, *, has_weights: bool = False) -> None:
    """Raise AssertionError unless two decompositions of one model have the same counts and the same terms at rows.

    Counts must be the same numbers, and terms agree to 1e-12; with weights both agree to 1e-10.
    """
    tolerance = 1e-10 if has_weights else 1e-12
    statistics, known = found.statistics, expected.statistics
    np.testing.assert_equal(statistics.n_rows, known.n_rows)
    for key in expected._function.terms.effects.terms:
        ours, theirs = statistics.counts(key), known.counts(key)
        if has_weights:
            np.testing.assert_allclose(ours, theirs, rtol=tolerance, atol=0)
        else:
            np.testing.assert_array_equal(ours, theirs)
    ours, theirs = found.explain(rows), expected.explain(rows)
    np.testing.assert_equal(ours.terms, theirs.terms)
    np.testing.assert_allclose(found.intercept, expected.intercept, atol=tolerance)
    np.testing.assert_allclose(ours.values, theirs.values, atol=tolerance)
    np.testing.assert_allclose(ours.scores, theirs.scores, atol=tolerance)
