"""Changes of the mean score: every column of the table against means of predictions and of terms at the rows."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treeanova
from tests.support.library_models import DEEP_MODELS, LIBRARY_MODELS
from tests.support.simulated import boosted, dependent_rows, high_order_rows, interacting
from tests.support.training import fit

decompose = functools.partial(treeanova.decompose, n_jobs=1)
EVERY_LIBRARY = LIBRARY_MODELS | DEEP_MODELS
OLD, NEW = dependent_rows(), dependent_rows(seed=1) + np.array([0.3, 0.0, -0.2])


def outputs(values):
    return np.atleast_1d(values)


def sums_of(table, n_outputs):
    """Sums of the columns over terms, shape (3, n_outputs)."""
    columns = [np.asarray(table[name], dtype=float) for name in ("population", "model", "total")]
    return np.array([column.reshape(n_outputs, -1).sum(axis=1) for column in columns])


def assert_adds_up(change, old, new, X_old, X_new):
    """Sums are the differences of mean predictions, all to 1e-10."""
    old_mean, moved = old.decision_function(X_old).mean(axis=0), old.decision_function(X_new).mean(axis=0)
    new_mean = new.decision_function(X_new).mean(axis=0)
    expected = np.array([outputs(moved - old_mean), outputs(new_mean - moved), outputs(new_mean - old_mean)])
    found = np.array([outputs(value) for value in (change.population, change.model, change.total)])
    assert np.allclose(found, expected, rtol=0, atol=1e-10)
    assert np.allclose(sums_of(change.table, found.shape[1]), expected, rtol=0, atol=1e-10)
    assert np.allclose(outputs(change.old_mean), outputs(old_mean), rtol=0, atol=1e-10)
    assert np.allclose(outputs(change.new_mean), outputs(new_mean), rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", EVERY_LIBRARY)
def test_sums_are_differences_of_mean_predictions(name):
    entry = EVERY_LIBRARY[name]
    for library in entry.libraries:
        pytest.importorskip(library)
    fx, rows = entry.make()
    half = len(rows) // 2
    first, second = (rows.iloc[:half], rows.iloc[half:]) if hasattr(rows, "iloc") else (rows[:half], rows[half:])
    assert_adds_up(treeanova.change(fx, fx, X_old=first, X_new=second), fx, fx, first, second)


@pytest.mark.parametrize("density", ["auto", "empirical", "uniform", "independent"])
def test_two_models_and_two_sets_of_rows(model, other_model, density):
    old, new = decompose(model, OLD, density=density), decompose(other_model, NEW, density=density)
    change = treeanova.change(old, new)
    assert_adds_up(change, old, new, OLD, NEW)
    same = decompose(other_model, OLD, density=density)  # the new model under the old density
    rows = change.table.set_index("term")
    assert rows.index[0] == "intercept"
    assert rows.loc["intercept"].tolist() == pytest.approx([0.0, *[same.intercept - old.intercept] * 2], abs=1e-12)
    zero = np.zeros(len(NEW))
    for names in {*old.terms, *same.terms}:
        f_old, f_new = (old.term_values(X, names) if names in old.terms else zero for X in (OLD, NEW))
        g_new = same.term_values(NEW, names) if names in same.terms else zero
        expected = [f_new.mean() - f_old.mean(), g_new.mean() - f_new.mean()]
        found = rows.loc[" × ".join(names)]
        assert found.tolist() == pytest.approx([*expected, sum(expected)], abs=1e-12)
    sizes = change.table[["population", "model"]].abs().sum(axis=1).iloc[1:].round(10)
    assert sizes.is_monotonic_decreasing


def test_one_model_under_two_sets_of_rows_changes_by_its_population_alone(model):
    old = decompose(model, OLD)
    for new in (old.with_density("auto", NEW), decompose(model, NEW)):
        change = treeanova.change(old, new)
        assert_adds_up(change, old, new, OLD, NEW)
        assert np.abs(change.table["model"]).max() < 1e-14


def test_two_models_on_the_same_rows_change_by_the_intercept(model, other_model):
    old, new = (decompose(one, OLD, density="empirical") for one in (model, other_model))
    change = treeanova.change(old, new)
    assert_adds_up(change, old, new, OLD, OLD)
    assert np.abs(change.table["population"]).max() < 1e-14
    assert np.abs(change.table["model"].iloc[1:]).max() < 1e-13


@pytest.mark.thorough
@pytest.mark.parametrize("kind", ["whole", "truncated", "screened"])
def test_deep_models(deep, deep_fx, kind, monkeypatch):
    xgboost = pytest.importorskip("xgboost")
    rows, response = high_order_rows(600, seed=3)
    rows += 0.3
    model = fit(xgboost.XGBRegressor(n_estimators=12, max_depth=4, n_jobs=1), rows, response)
    if kind == "screened":
        monkeypatch.setattr("treeanova.terms.costs.LISTED_TERMS", 3)
        monkeypatch.setattr("treeanova.terms.costs.MAX_REPORTED", 3)
    old = deep_fx.truncate(2) if kind == "truncated" else deep_fx
    limits = {"truncated": {"max_order": 3}, "screened": {"tensor_order": 2}}.get(kind, {})
    new = decompose(model, rows, density="independent", **limits)
    change = treeanova.change(old, new)
    assert_adds_up(change, old, new, deep[1], rows)
    margins = [one.predict(X, output_margin=True).mean() for one, X in ((deep[0], deep[1]), (model, rows))]
    assert change.total == pytest.approx(margins[1] - margins[0], abs=1e-6)  # XGBoost adds up in float32
    labels = change.table["term"].tolist()
    assert ("remainder" in labels) == (kind == "truncated")
    assert ("other terms of order 4" in labels) == (kind == "screened")


def test_several_outputs_have_a_column(several):
    change = treeanova.change(several, several, X_new=NEW)
    assert_adds_up(change, several, several, OLD, NEW)
    assert list(change.table.columns) == ["term", "output", "population", "model", "total"]
    assert change.table["output"].unique().tolist() == list(several.outputs)
    assert repr(change).count(": mean class score ") == 3


def test_weights_of_rows_are_those_of_the_decompositions(model):
    weights = np.random.default_rng(0).random(len(OLD))
    old, new = decompose(model, OLD, sample_weight=weights), decompose(model, NEW)
    expected = new.decision_function(NEW).mean() - np.average(old.decision_function(OLD), weights=weights)
    assert treeanova.change(old, new).total == pytest.approx(expected, abs=1e-12)


def test_files_need_their_rows(model, other_model, tmp_path):
    old, new = decompose(model, OLD), decompose(other_model, NEW)
    old.save(tmp_path / "old.tav")
    new.save(tmp_path / "new.tav")
    old_saved, new_saved = treeanova.load(tmp_path / "old.tav"), treeanova.load(tmp_path / "new.tav")
    with pytest.raises(ValueError, match="`X_old` must be given where a file keeps bins of rows"):
        treeanova.change(old_saved, new)
    with pytest.raises(ValueError, match="`X_new` must be given where a file keeps bins of rows"):
        treeanova.change(old, new_saved)
    expected = treeanova.change(old, new).table
    found = treeanova.change(old_saved, new_saved, X_old=OLD, X_new=NEW).table
    assert found["term"].tolist() == expected["term"].tolist()
    assert np.allclose(found.iloc[:, 1:], expected.iloc[:, 1:], rtol=0, atol=1e-10)


def test_files_of_the_same_model_need_no_rows(model, tmp_path):
    old, new = decompose(model, OLD), decompose(model, NEW)
    old.save(tmp_path / "old.tav")
    new.save(tmp_path / "new.tav", rows=False)
    expected = treeanova.change(old, new).table
    found = treeanova.change(treeanova.load(tmp_path / "old.tav"), new).table
    assert np.allclose(found.iloc[:, 1:], expected.iloc[:, 1:], rtol=0, atol=1e-10)


def test_models_that_read_columns_differently_need_the_rows():
    xgboost = pytest.importorskip("xgboost")
    old = decompose(boosted(OLD, interacting(OLD)), OLD)
    model = fit(xgboost.XGBRegressor(n_estimators=5, max_depth=2, n_jobs=1), NEW, interacting(NEW))
    new = decompose(model, NEW)
    with pytest.raises(
        ValueError, match="`X_old` must be given where two models read columns in different ways, as 'x0'"
    ):
        treeanova.change(old, new)
    assert_adds_up(treeanova.change(old, new, X_old=OLD, X_new=NEW), old, new, OLD, NEW)


def test_selections_are_functions_too(fx):
    old = fx.select(order=1)
    change = treeanova.change(old, old, X_new=NEW)
    assert_adds_up(change, old, old, OLD, NEW)
    assert change.table["term"].tolist()[0] == "intercept"
    assert len(change.table) == 4


def test_inputs_that_do_not_fit_are_refused(fx, several, model):
    renamed = decompose(model, OLD, feature_names=["x0", "x1", "other"])
    with pytest.raises(
        ValueError, match=r"same features in the same order, got 'x2' in `old` only and 'other' in `new`"
    ):
        treeanova.change(fx, renamed)
    swapped = decompose(model, OLD, feature_names=["x1", "x0", "x2"])
    with pytest.raises(ValueError, match=r"got the orders x0, x1, x2 and x1, x0, x2; train .* in the same order"):
        treeanova.change(fx, swapped)
    with pytest.raises(ValueError, match="; train the models on the columns in one order"):
        fx - swapped
    with pytest.raises(ValueError, match=r"same outputs and link, got score \(identity\) and u, v, w \(softmax\)"):
        treeanova.change(fx, several)
    with pytest.raises(ValueError, match="`new` must be pure"):
        treeanova.change(fx, fx.raw)
    with pytest.raises(TypeError, match="`old` must be a Decomposition, got GradientBoostingRegressor"):
        treeanova.change(model, fx)
    with pytest.raises(ValueError, match="`X` must have 3 columns"):
        treeanova.change(fx, fx, X_new=NEW[:, :2])


def test_progress_tells_of_the_new_model(model, other_model):
    told = []
    old, new = decompose(model, OLD), decompose(other_model, NEW)
    treeanova.change(old, new, progress=lambda stage, done, total: told.append(stage))
    assert told[0] == "bins of the rows"
    assert any(stage.startswith("new model under the old density: ") for stage in told)


def test_rows_that_are_passed_may_have_weights(fx, other_model):
    old_weights, new_weights = (np.random.default_rng(seed).gamma(1, size=len(OLD)) for seed in (0, 1))
    new = decompose(other_model, NEW)
    table = {f"x{j}": NEW[:, j] for j in range(3)} | {"w": new_weights}
    pd = pytest.importorskip("pandas")
    for rows, weights in ((NEW, new_weights), (pd.DataFrame(table), "w")):
        found = treeanova.change(
            fx, new, X_old=OLD, X_new=rows, sample_weight_old=old_weights, sample_weight_new=weights
        )
        before = np.average(fx.decision_function(OLD), weights=old_weights)
        moved = np.average(fx.decision_function(NEW), weights=new_weights)
        assert found.population == pytest.approx(moved - before, abs=1e-10)
        assert found.total == pytest.approx(
            np.average(new.decision_function(NEW), weights=new_weights) - before, abs=1e-10
        )
    with pytest.raises(ValueError, match=r"`sample_weight_new` must come with the rows .* got 'w' and X_new=None"):
        treeanova.change(fx, new, sample_weight_new="w")
