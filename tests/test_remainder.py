"""What terms leave of a model: a part of every sum, told by every view; views of odd names, no terms and raw terms."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from treeanova.decomposition.evaluation import Evaluation
from treeanova.terms.correction import no_correction
from treeanova.views.summary import html_summary

pd = pytest.importorskip("pandas")
xgboost = pytest.importorskip("xgboost")
ROW = 7


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(1500, 3)) + 0.7 * rng.normal(size=(1500, 1))
    return pd.DataFrame(values, columns=["a", "b", "remainder"])


@pytest.fixture(scope="module")
def model(rows):
    target = rows["a"] * rows["b"] + rows["remainder"] + (rows["a"] * rows["b"] * rows["remainder"] > 0)
    return xgboost.XGBRegressor(n_estimators=30, max_depth=3, n_jobs=1).fit(rows, target)


@pytest.fixture(scope="module")
def mains(model, rows):
    return treeanova.decompose(model, rows, density="empirical", max_order=1)


def test_the_certificate_is_of_terms_and_remainder(model, rows, mains, monkeypatch):
    assert "sum of terms and remainder within" in repr(mains)
    assert "sum of terms and remainder within" in html_summary(mains)
    assert mains.certificate.reconstruction_error < 1e-12
    real = Evaluation.score
    monkeypatch.setattr(Evaluation, "score", lambda self, encoded: real(self, encoded) + 1.0)
    wrong = treeanova.decompose(model, rows, density="empirical", max_order=1)
    assert wrong.certificate.reconstruction_error > 0.1


def test_the_trees_of_a_deep_ensemble_as_they_are_do_not_pass_for_pure(model, rows):
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    assert deep.certificate.tables_met
    assert not deep.raw.certificate.met
    values, weights = deep.raw.terms["a", "b"].values, deep.raw.terms["a", "b"].weights
    sums = [(values * weights).sum(axis) / weights.sum(axis) for axis in (0, 1)]  # every bin has rows
    expected = max(np.abs(means).max() for means in sums) / np.abs(values).max()
    assert deep.raw.certificate.terms["a", "b"].impurity == pytest.approx(expected, rel=1e-9)


def test_equal_tensors_do_not_make_equal_decompositions(model, rows):
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    assert deep == treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    uncorrected = dataclasses.replace(deep.termset.leaf_terms, correction=no_correction())
    assert deep != dataclasses.replace(deep, termset=dataclasses.replace(deep.termset, leaf_terms=uncorrected))


def test_progress_is_told_of_tensors_too(model, rows):
    told = []
    treeanova.decompose(model, rows, density="empirical", progress=lambda *step: told.append(step))
    assert told == [
        ("purifying order 3", 1, 1),
        *(("purifying order 2", done, 3) for done in (1, 2, 3)),
        *(("purifying order 1", done, 3) for done in (1, 2, 3)),
    ]


@pytest.mark.parametrize("order", [0, True, 1.5])
def test_orders_that_are_none_are_refused(model, rows, order):
    with pytest.raises(ValueError, match=r"`max_order` must be a whole number from 1 on"):
        treeanova.plan(model, max_order=order)
    with pytest.raises(ValueError, match=r"`max_order` must be a whole number from 1 on"):
        treeanova.decompose(model, rows, max_order=order)


@pytest.mark.parametrize("max_order", [None, 2])
def test_pure_terms_of_independent_features_are_uncorrelated(model, rows, max_order):
    deep = treeanova.decompose(model, rows, density="independent", tensor_order=2, max_order=max_order)
    dense = treeanova.decompose(model, rows, density="independent", tensor_order=3)
    found, expected = (fx.importance().set_index("term") for fx in (deep, dense))
    assert (found["covariance"] == 0).all()
    for name in ("a", "a × b"):
        assert found["mean_abs"][name] == pytest.approx(expected["mean_abs"][name], rel=1e-9)
        assert found["variance"][name] == pytest.approx(expected["variance"][name], rel=0.1)


def test_a_term_without_a_table_is_named_so(model, rows):
    deep = treeanova.decompose(model, rows, density="empirical", tensor_order=2)
    term = deep.terms["a", "b", "remainder"]
    assert not term.has_table
    assert repr(term) == "Term(a × b × remainder: at rows)"
    for part in ("values", "axes", "weights"):
        with pytest.raises(ValueError, match=r"has no table, it is known at rows only; use fx\.term_values"):
            getattr(term, part)
    with pytest.raises(KeyError, match=r"did you mean terms\[.*remainder.*\] or terms\[.*b.*, .*remainder.*\]"):
        deep.terms["remaindr"]
    assert ("a", "b") in deep.terms
    assert ("b", "a") in deep.terms
    assert all(key not in deep.terms for key in ("remaindr", ("a", "a"), (), 1))


def test_deep_and_dense_ones_can_be_compared_for_equality(model, rows):
    deep, dense = (treeanova.decompose(model, rows, density="empirical", tensor_order=n) for n in (2, 3))
    assert deep != dense
    assert dense != deep
    assert deep.raw != dense.raw
    assert dense.raw != deep.raw


def test_centred_raw_terms_do_not_pass_for_uncorrelated():
    tree = pytest.importorskip("sklearn.tree").DecisionTreeRegressor
    forest = pytest.importorskip("sklearn.ensemble").RandomForestRegressor
    table = np.array([[i, j] for i in (0, 1) for j in (0, 1)] * 50, dtype=float)
    a, b = table.T
    model = forest(n_estimators=2).fit(table, a)
    model.estimators_ = [tree(max_depth=1).fit(table, 2 * a - 1), tree(max_depth=2).fit(table, 4 * a * b + 1e-4 * a)]
    found = treeanova.decompose(model, table, density="uniform").raw.truncate(1).importance()
    main, rest = (2 * a - 1) / 2, 4 * a * b / 2
    total = np.var(main + rest)  # the 1e-4 only has the second tree ask for x0 first
    share = (np.var(main) + np.cov(main, rest, bias=True)[0, 1]) / total
    shares = dict(zip(found["term"], found["share"], strict=True))
    assert shares["x0"] == pytest.approx(share, abs=0.03)  # at drawn rows; 0.25 without the covariance
    assert shares["x0"] + shares["remainder"] == pytest.approx(1.0)


def test_the_certificate_tells_the_share_of_the_remainder():
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(400, 3))
    ensemble = pytest.importorskip("sklearn.ensemble")
    model = ensemble.GradientBoostingRegressor(n_estimators=20, max_depth=2, random_state=0)
    model.fit(rows, rows[:, 0] * rows[:, 1])
    for mains in (treeanova.decompose(model, rows, max_order=1), treeanova.decompose(model, rows).truncate(1)):
        expected = mains.remainder(rows).var() / model.predict(rows).var()
        assert mains.certificate.remainder_share == pytest.approx(expected, rel=1e-9)
