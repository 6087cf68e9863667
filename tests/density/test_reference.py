"""All probability on one row: the anchored decomposition by its definition, on several kinds of models."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import treeanova
from tests.support.anchored import anchored_term
from tests.support.simulated import boosted, deep_decomposition, deep_model, dependent_rows, interacting
from tests.support.training import fit
from treeanova.density import Reference

pd = pytest.importorskip("pandas")
ensemble = pytest.importorskip("sklearn.ensemble")

ROWS = dependent_rows()


@functools.cache
def shallow():
    """A regressor of three features, decomposed under the default density."""
    return treeanova.decompose(boosted(ROWS, interacting(ROWS)), ROWS, n_jobs=1)


@pytest.mark.parametrize("place", [0, 7, 100])
def test_terms_are_differences_to_the_row(place):
    fx = shallow()
    anchored = fx.with_density(Reference(ROWS[place]))
    np.testing.assert_allclose(anchored.intercept, fx.model.predict(ROWS[[place]])[0], rtol=0, atol=1e-12)
    for names in anchored.terms:
        features = [fx.schema.names.index(name) for name in names]
        expected = anchored_term(fx.model.predict, ROWS, ROWS[place], features)
        np.testing.assert_allclose(anchored.term_values(ROWS, names), expected, rtol=0, atol=1e-12)


def test_terms_of_a_deep_ensemble_are_differences_to_the_row():
    pytest.importorskip("xgboost")
    _, rows = deep_model()
    some = rows[:40]
    fx = deep_decomposition()
    anchored = fx.with_density(Reference(rows[50]))
    assert anchored.intercept == pytest.approx(fx.decision_function(rows[[50]])[0], abs=1e-12)
    assert max(map(len, anchored.terms)) > 3
    for names in list(anchored.terms)[::4]:
        expected = anchored_term(fx.decision_function, some, rows[50], [int(name[1:]) for name in names])
        np.testing.assert_allclose(anchored.term_values(some, names), expected, rtol=0, atol=1e-12)


def test_terms_of_all_outputs_are_zero_in_the_bins_of_the_row():
    classes = np.digitize(interacting(ROWS), [-0.5, 0.5])
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=3, random_state=0), ROWS, classes)
    anchored = treeanova.decompose(model, ROWS, density=Reference(ROWS[3]), n_jobs=1)
    np.testing.assert_allclose(anchored.intercept, model.decision_function(ROWS[[3]])[0], atol=1e-12)
    bins = dict(zip(anchored.schema.names, anchored.grid.index(ROWS[[3]])[0], strict=True))
    assert any(term.order == 3 for term in anchored.terms.values())
    for term in anchored.terms.values():
        for axis, name in enumerate(term.features):
            np.testing.assert_allclose(np.take(term.values, bins[name], axis=axis), 0.0, rtol=0, atol=1e-12)


def test_a_row_may_have_categories_and_missing_values():
    rng = np.random.default_rng(0)
    table = pd.DataFrame({"age": rng.normal(size=300), "kind": pd.Categorical(rng.choice(list("uvw"), 300))})
    table.loc[::4, "age"] = np.nan
    response = table.age.fillna(2) * (table.kind == "u") + (table.kind == "v")
    model = ensemble.HistGradientBoostingRegressor(max_iter=5, min_samples_leaf=5, categorical_features="from_dtype")
    fx = treeanova.decompose(fit(model, table, response), table, n_jobs=1)
    for row in (table.iloc[0], table.iloc[[0]], {"kind": table.kind[0], "age": np.nan}):
        anchored = fx.with_density(Reference(row))
        assert anchored.intercept == pytest.approx(model.predict(table.iloc[[0]])[0], abs=1e-12)
    mixed = table.assign(kind=pd.Categorical([table.kind[0]] * 300, categories=list("uvw")))
    expected = model.predict(mixed) - model.predict(table.iloc[[0]])[0]
    np.testing.assert_allclose(anchored.term_values(table, "age"), expected, rtol=0, atol=1e-12)


def test_terms_are_ranked_and_weighed_at_the_rows():
    anchored = shallow().with_density(Reference(ROWS[3]))
    table = anchored.importance()
    assert table["share"].sum() == pytest.approx(1.0)
    score = anchored.decision_function(ROWS)
    for name, variance in zip(table["term"], table["variance"], strict=True):
        values = anchored.term_values(ROWS, name.split(" × "))
        assert variance == pytest.approx(values.var() / score.var(), abs=1e-12)
    counts = shallow().with_density("empirical").terms["x0"].weights
    np.testing.assert_array_equal(anchored.terms["x0"].weights, counts)


def test_rows_are_not_needed():
    model = boosted(ROWS, interacting(ROWS))
    anchored = treeanova.decompose(model, density=Reference(ROWS[3]))
    assert anchored.intercept == pytest.approx(model.predict(ROWS[[3]])[0], abs=1e-12)
    assert anchored.importance()["variance"].max() > 0


def test_a_saved_decomposition_keeps_terms_and_baseline(tmp_path):
    anchored = shallow().with_density(Reference(ROWS[3]))
    anchored.save(tmp_path / "fx.tav")
    loaded = treeanova.load(tmp_path / "fx.tav")
    assert loaded == anchored
    assert loaded.density.baseline == anchored.density.baseline == "score of the reference"
    np.testing.assert_array_equal(loaded.terms["x0"].weights, anchored.terms["x0"].weights)


@pytest.mark.parametrize(
    ("row", "message"),
    [
        (ROWS[:2], "`row` of Reference must be one row, got 2"),
        (ROWS[:0], "`row` must have at least one row, got none"),
        (ROWS[0, :2], "`row` must have 3 columns.*got 2"),
        ({"x0": 1.0, "x2": 1.0}, "`row` must have all features of the model, got none named 'x1'"),
        ([1.0, np.nan, 0.0], "'x1' must have no missing values"),
        (None, "`row` must be one row .* got NoneType"),
    ],
)
def test_bad_rows_are_refused(row, message):
    model = ensemble.GradientBoostingRegressor(n_estimators=2, max_depth=2, random_state=0)
    with pytest.raises(ValueError, match=message):
        treeanova.decompose(fit(model, ROWS, interacting(ROWS)), ROWS, density=Reference(row), n_jobs=1)


@pytest.mark.usefixtures("_budget_of_tables")
def test_merged_bins_are_refused():
    pytest.importorskip("xgboost")
    model, rows = deep_model()
    fx = treeanova.decompose(model, rows, budget=3e5, density="empirical")
    assert fx.has_remainder
    with pytest.raises(ValueError, match="must have tables of all bins, got merged ones"):
        fx.with_density(Reference(rows[0]))
