"""plot.change: bars are the rows of the table, curves those of the two models, over the rows of both."""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest

import treeanova
from tests.support.tables import mixed_response, mixed_table
from tests.support.training import fit
from treeanova import plot
from treeanova.plot.scales import STRIP

xgboost = pytest.importorskip("xgboost")


@pytest.fixture(scope="module")
def change(fx):
    """Another model of the same table, at rows of high age."""
    X = mixed_table()
    options = {"enable_categorical": True, "max_cat_to_onehot": 1, "max_depth": 2, "n_jobs": 1}
    X_new = X[(X["age"] > 40) | X["age"].isna()]
    model = fit(xgboost.XGBRegressor(n_estimators=20, **options), X_new, 2 * mixed_response(X_new))
    return treeanova.change(fx, treeanova.decompose(model, X_new, density="empirical", n_jobs=1))


def names_on(ax):
    return [label.get_text() for label in ax.get_yticklabels()]


def test_bars_are_the_rows_of_the_table(change):
    ax = plot.change(change, k=100)
    rows = change.table
    assert names_on(ax) == ["all together", *rows["term"]]
    population, model = ([bar.get_width() for bar in ax.containers[i]] for i in (0, 1))
    frame = ax.get_xlim()
    inside = (rows[["population", "model", "total"]].abs().max(axis=1) < max(frame)).to_numpy()
    assert inside[1:].all()
    assert np.allclose(np.array(population[1:])[inside], rows["population"][inside])
    assert np.allclose(np.array(model[1:])[inside], rows["model"][inside])
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["population", "model", "their sum"]
    assert "what moved the mean prediction from" in ax.get_xlabel()


def test_the_frame_cuts_long_bars_at_their_true_length_and_shows_a_sum_inside(change):
    table = change.table.copy()
    table.loc[0, "model"] += 1000.0
    far = dataclasses.replace(change, table=table, model=change.model + 1000.0, population=-change.model - 999.9)
    ax = plot.change(far)
    assert "bars that leave the frame are cut" in ax.get_xlabel().replace("\n", " ")
    population, model = (ax.containers[i][0].get_width() for i in (0, 1))
    assert population == pytest.approx(far.population)
    assert model == pytest.approx(far.model)
    dots = ax.lines[-1] if ax.lines[-1].get_marker() == "o" else ax.lines[-2]
    assert dots.get_xdata()[0] == pytest.approx(0.1)
    assert ax.texts[0].get_text() == "+0.1"


def test_few_bars_hold_all(change):
    ax = plot.change(change, k=3)
    names = names_on(ax)
    assert len(names) == 5
    assert names[-1] == f"{len(change.table) - 3} other terms"
    last = ax.containers[0][-1].get_width()
    assert last == pytest.approx(change.table["population"].iloc[3:].sum())


def test_an_effect_of_numbers_over_both_sets_of_rows(change):
    ax = plot.change(change, "age")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["old", "new", "old rows", "new rows"]
    curves = [patch for patch in ax.patches if hasattr(patch, "get_data") and patch.get_data().baseline is None]
    for curve, fx in zip(curves, (change.old, change.new), strict=True):
        drawn = curve.get_data().values
        values = fx.terms["age"].values
        assert set(drawn[np.isfinite(drawn)].round(9)) <= set(values.round(9))
        assert np.isclose(values, np.nanmax(drawn)).any()
    areas = [patch for patch in ax.patches if hasattr(patch, "get_data") and patch.get_fill()]
    assert max(area.get_data().values.max() for area in areas) == pytest.approx(STRIP)
    young = areas[1].get_data()
    bounds = change.old.terms["age"].axes[0].thresholds
    is_low = young.edges[1:] <= bounds[bounds <= 40].max()  # the bin of 40 may begin lower
    assert is_low.any()
    assert young.values[is_low].max() == 0  # the new rows have no low ages


def test_an_effect_of_categories_and_a_pair(change):
    ax = plot.change(change, "colour")
    assert [text.get_text() for text in ax.get_legend().get_texts()] == ["old", "new", "old rows", "new rows"]
    pair = next(names for names in change.old.terms if len(names) == 2)
    axes = plot.change(change, pair)
    assert [panel.get_title() for panel in axes] == ["old", "new"]


def test_an_effect_that_only_one_model_has(fx):
    X = mixed_table()
    model = xgboost.XGBRegressor(n_estimators=3, max_depth=1, n_jobs=1, enable_categorical=True)
    new = treeanova.decompose(fit(model, X, X["age"].fillna(0)), X, density="empirical", n_jobs=1)
    missing = next(names for names in fx.terms if len(names) == 1 and names not in new.terms)[0]
    ax = plot.change(treeanova.change(fx, new), missing)
    assert len(ax.get_legend().get_texts()) == 4


def test_wrong_arguments_are_told(change, fx):
    with pytest.raises(TypeError, match="`change` must be a Change, got Decomposition"):
        plot.change(fx)
    with pytest.raises(ValueError, match="`key` must be a term of the decomposition that has a table, got 'nothing'"):
        plot.change(change, "nothing")
    with pytest.raises(ValueError, match="`k` must be a whole number"):
        plot.change(change, k=0)
    with pytest.raises(ValueError, match="`output` must be one of 'score'"):
        plot.change(change, output="other")


def test_several_outputs(three):
    X = np.random.default_rng(5).normal(size=(50, 3)) + 1
    change = treeanova.change(three, three, X_new=X)
    ax = plot.change(change, output="mid", k=50)
    rows = change.table[change.table["output"] == "mid"]
    assert "class score (mid)" in ax.get_xlabel()
    assert ax.containers[0][1].get_width() == rows["population"].iloc[0]
    assert names_on(ax)[1:] == rows["term"].tolist()
