from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from tests.support.pages import ParsedPage
from tests.support.training import fit
from treeanova.report import write_report
from treeanova.report.payload import blind_spots, checks


def titles(fx):
    return {entry["title"]: entry["verdict"] for entry in checks(fx)}


def changed(fx, **fields):
    return dataclasses.replace(fx, certificate=dataclasses.replace(fx.certificate, **fields))


def test_a_selection_of_terms_says_that_it_is_one(fx):
    pytest.importorskip("vl_convert")
    data = ParsedPage(write_report(fx.drop("c"))).data
    assert data["n_terms_of_model"] == len(fx.terms)
    assert data["checks"]["auto"]["entries"][0]["title"] == "Some terms only"


def test_good_decompositions_are_called_so(fx):
    assert titles(fx)["The terms add up to the model"] == "good"
    assert titles(fx)["The terms are pure"] == "good"
    assert titles(fx)["Dependence is accounted for"] == "good"


def test_what_is_wrong_is_called_so(fx):
    assert titles(changed(fx, reconstruction_error=0.1))["The terms add up to the model"] == "bad"
    assert titles(changed(fx, tol=0.0))["Some terms are not pure"] == "bad"
    assert titles(changed(fx, remainder_share=0.5))["There is a remainder"] == "mind"
    assert titles(changed(fx, density_gap=0.2))["Pairs and the joint density"] == "mind"


def test_cells_without_rows_are_counted():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(300, 2))
    X = X[X.sum(axis=1) < 1]  # no rows where both are large
    model = fit(ensemble.GradientBoostingRegressor(max_depth=2, n_estimators=5, random_state=0), X, X[:, 0] * X[:, 1])
    fx = treeanova.decompose(model, X, density="empirical")
    (row,) = blind_spots(fx)["rows"]
    term = fx.terms["x0", "x1"]
    counts = np.zeros(term.weights.shape)
    np.add.at(counts, tuple(np.searchsorted(axis.thresholds, X[:, i]) for i, axis in enumerate(term.axes)), 1)
    assert row["term"] == "x0 × x1"
    assert row["empty"] == f"{100 * (counts == 0).mean():.0f}\u00a0%"
    assert row["parts"] == fx.certificate.terms["x0", "x1"].n_components
