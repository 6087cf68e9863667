"""Certificates: purity, correlation and sums, measured again by hand."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import treeanova
from treeanova.decomposition.evaluation import Evaluation
from treeanova.testing.training import fit

NAMES = ("x0", "x1", "x2")
PAIRS = list(itertools.combinations(NAMES, 2))


def test_the_certificate_has_all_terms_by_name(fx):
    assert set(fx.certificate.terms) == set(fx.terms)
    assert fx.certificate.met
    assert fx.certificate.impurity <= 1e-10
    assert fx.certificate.reconstruction_error <= 1e-12
    printed = str(fx.certificate)
    assert "orders 1 and 2 pure to" in printed
    assert all(" × ".join(names) in printed for names in fx.terms)
    for names, term in fx.terms.items():
        assert fx.certificate.terms[names].empty_share == pytest.approx((term.weights == 0).mean())


def test_the_maximal_correlation_is_the_second_singular_value(fx):
    for names in PAIRS:
        weights = fx.terms[names].weights
        rows, cols = weights.sum(axis=1), weights.sum(axis=0)
        kept = weights[np.ix_(rows > 0, cols > 0)] / np.sqrt(np.outer(rows[rows > 0], cols[cols > 0]))
        second = np.linalg.svd(kept, compute_uv=False)[1]
        assert fx.certificate.terms[names].max_correlation == pytest.approx(second, abs=1e-6)


def test_the_certificate_is_of_terms_and_remainder(triple, monkeypatch):
    model, rows = triple
    mains = treeanova.decompose(model, rows, density="empirical", max_order=1)
    assert "sum of terms and remainder within" in repr(mains)
    assert mains.certificate.reconstruction_error < 1e-12
    real = Evaluation.score
    monkeypatch.setattr(Evaluation, "score", lambda self, encoded: real(self, encoded) + 1.0)
    wrong = treeanova.decompose(model, rows, density="empirical", max_order=1)
    assert wrong.certificate.reconstruction_error > 0.1


def test_the_trees_of_a_deep_ensemble_as_they_are_do_not_pass_for_pure(triple):
    model, rows = triple
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    assert deep.certificate.tables_met
    assert not deep.raw.certificate.met
    values, weights = deep.raw.terms["a", "b"].values, deep.raw.terms["a", "b"].weights
    sums = [(values * weights).sum(axis) / weights.sum(axis) for axis in (0, 1)]  # every bin has rows
    expected = max(np.abs(means).max() for means in sums) / np.abs(values).max()
    assert deep.raw.certificate.terms["a", "b"].impurity == pytest.approx(expected, rel=1e-9)


def test_the_certificate_tells_the_share_of_the_remainder():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0)
    fit(model, rows, rows[:, 0] * rows[:, 1])
    for mains in (treeanova.decompose(model, rows, max_order=1), treeanova.decompose(model, rows).truncate(1)):
        expected = mains.remainder(rows).var() / model.predict(rows).var()
        assert mains.certificate.remainder_share == pytest.approx(expected, rel=1e-9)
