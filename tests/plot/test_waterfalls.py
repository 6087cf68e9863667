from __future__ import annotations

import numpy as np
import pytest

import treeanova
from tests.support.remainders import main_effects_and_remainder, model_with_a_feature_called_remainder

pytest.importorskip("matplotlib")
pd = pytest.importorskip("pandas")
ensemble = pytest.importorskip("sklearn.ensemble")

from tests.support.drawings import tick_places  # noqa: E402
from tests.support.tables import COLOURS, mixed_table  # noqa: E402
from tests.support.training import fit  # noqa: E402
from treeanova import plot  # noqa: E402

X = mixed_table()


def test_a_waterfall_leads_from_the_intercept_to_the_prediction(model, fx):
    row = X.iloc[[5]]
    ax = plot.waterfall(fx, row, k=100)
    values = fx.explain(row).values[0]
    widths = np.array([bar.get_width() for bar in ax.containers[0].patches])
    starts = np.array([bar.get_x() for bar in ax.containers[0].patches])
    np.testing.assert_allclose(widths, sorted(values, key=lambda value: -abs(value)), atol=1e-12)
    assert starts[0] == fx.intercept
    np.testing.assert_allclose(starts[1:], (starts + widths)[:-1])
    predicted = float(model.predict(row)[0])
    assert starts[-1] + widths[-1] == pytest.approx(predicted, abs=1e-5)
    assert f"this row {predicted:.4g}".replace(" -", " −") in ax.get_xlabel().replace("\n", " ")


def test_a_waterfall_of_few_bars_still_adds_up(fx):
    ax = plot.waterfall(fx, X.iloc[[5]], k=3)
    widths = [bar.get_width() for bar in ax.containers[0].patches]
    assert len(widths) == 3
    assert sum(widths) + fx.intercept == pytest.approx(fx.decision_function(X.iloc[[5]])[0])
    assert list(tick_places(ax, "y"))[-1] == f"{len(fx.terms) - 2} other terms"


def test_a_waterfall_names_the_values_of_the_row(fx):
    row = X.iloc[[5]].assign(size=np.nan, age=61.234, colour=pd.Categorical(["blue"], categories=COLOURS))
    names = list(tick_places(plot.waterfall(fx, row, k=100), "y"))
    assert "size = missing" in names
    assert "age = 61.23" in names
    assert "colour = blue" in names
    assert "size = missing × age = 61.23" in names


def test_a_row_may_be_anything_that_holds_one(fx, three):
    def widths(row, fx=fx):
        return [bar.get_width() for bar in plot.waterfall(fx, row).containers[0].patches]

    expected = widths(X.iloc[[5]])
    assert widths(X.iloc[5]) == expected
    assert widths(X.iloc[5].to_dict()) == expected
    numbers = [0.3, -0.2, 1.0]
    expected = widths(np.array([numbers]), three)
    for row in (numbers, np.array(numbers), [numbers], pd.DataFrame([numbers], columns=["a", "b", "c"])):
        assert widths(row, three) == expected
    with pytest.raises(ValueError, match=r"`row` must be one row, got 2; pass X.iloc\[\[i\]\]"):
        plot.waterfall(fx, X.iloc[:2])


def test_a_waterfall_of_one_class(three):
    row = np.array([[0.3, -0.2, 1.0]])
    ax = plot.waterfall(three, row, output="top", k=100)
    total = sum(bar.get_width() for bar in ax.containers[0].patches) + three.intercept[2]
    assert total == pytest.approx(three.decision_function(row)[0, 2])


def test_a_waterfall_tells_the_probability():
    rng = np.random.default_rng(0)
    data = rng.normal(size=(100, 2))
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=5, max_depth=2), data, data[:, 0] > 0)
    words = (
        plot.waterfall(treeanova.decompose(model, data, density="empirical", n_jobs=1), data[:1])
        .get_xlabel()
        .replace("\n", " ")
    )
    assert f"(probability {model.predict_proba(data[:1])[0, 1]:.3g})" in words
    assert words.startswith("log-odds of class True: average")


def test_a_waterfall_ends_at_the_model():
    pytest.importorskip("xgboost")
    pytest.importorskip("pandas")
    model, rows = model_with_a_feature_called_remainder()
    mains = main_effects_and_remainder()
    ax = treeanova.plot.waterfall(mains, rows.iloc[[7]])
    assert "remainder" in [label.get_text() for label in ax.get_yticklabels()]
    steps = sum(bar.get_width() for bar in ax.patches)
    assert mains.intercept + steps == pytest.approx(float(model.predict(rows.iloc[[7]])[0]), abs=1e-5)
