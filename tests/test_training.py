"""Training in tests: as it is with shift 0, and other trees with another shift."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support import training
from tests.support.training import fit, seeded, shifted, train

ROWS = np.random.default_rng(0).normal(size=(300, 3))
TARGET = ROWS[:, 0] * ROWS[:, 1] + ROWS[:, 2]


def estimators():
    """Of each library one, without a seed where the library has one of its own."""
    ensemble = pytest.importorskip("sklearn.ensemble")
    pipeline = pytest.importorskip("sklearn.pipeline")
    catboost, lightgbm, xgboost = (pytest.importorskip(name) for name in ("catboost", "lightgbm", "xgboost"))
    return [
        ensemble.RandomForestRegressor(2, random_state=0),
        pipeline.make_pipeline("passthrough", ensemble.HistGradientBoostingRegressor(max_iter=3, random_state=0)),
        catboost.CatBoostRegressor(iterations=3, depth=3, verbose=0),
        lightgbm.LGBMRegressor(n_estimators=3, verbose=-1, n_jobs=1),
        xgboost.XGBRegressor(n_estimators=3, max_depth=3, n_jobs=1),
    ]


@pytest.mark.parametrize("place", range(5), ids=["forest", "pipeline", "catboost", "lightgbm", "xgboost"])
def test_another_shift_gives_other_trees_and_none_the_same_ones(place, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    plain = estimators()[place].set_params(**({"allow_writing_files": False} if place == 2 else {}))
    plain = plain.fit(ROWS, TARGET).predict(ROWS)
    predictions = []
    for shift in (0, 1, 2):
        monkeypatch.setattr(training, "SHIFT", shift)
        predictions.append(fit(estimators()[place], ROWS, TARGET).predict(ROWS))
    np.testing.assert_array_equal(predictions[0], plain)
    assert not np.array_equal(predictions[1], plain)
    assert not np.array_equal(predictions[2], predictions[1])
    assert not list(tmp_path.iterdir())  # CatBoost would leave a folder


def test_native_training(monkeypatch):
    xgboost = pytest.importorskip("xgboost")

    def predictions():
        matrix = xgboost.DMatrix(shifted(ROWS), shifted(TARGET))
        return train(xgboost, {"max_depth": 3, "subsample": 0.5}, matrix, 3).predict(xgboost.DMatrix(ROWS))

    monkeypatch.setattr(training, "SHIFT", 0)
    plain = xgboost.train({"max_depth": 3, "subsample": 0.5}, xgboost.DMatrix(ROWS, TARGET), 3)
    np.testing.assert_array_equal(predictions(), plain.predict(xgboost.DMatrix(ROWS)))
    monkeypatch.setattr(training, "SHIFT", 3)
    assert not np.array_equal(predictions(), plain.predict(xgboost.DMatrix(ROWS)))
    assert seeded({"seed": 4, "eta": 1}) == {"seed": 7, "eta": 1}
    assert seeded({"eta": 1}) == {"seed": 3, "eta": 1}


def test_rows_and_targets_are_replaced_together(monkeypatch):
    pandas, polars, pyarrow = (pytest.importorskip(name) for name in ("pandas", "polars", "pyarrow"))
    monkeypatch.setattr(training, "SHIFT", 1)
    numbers = np.arange(100)
    chosen = shifted(numbers)
    assert 0 < np.count_nonzero(chosen != numbers) <= 5
    table = pandas.DataFrame({"a": numbers}, index=numbers + 7)
    assert shifted(table).index.equals(table.index)
    assert shifted(table)["a"].tolist() == chosen.tolist()
    assert shifted(polars.DataFrame({"a": numbers}))["a"].to_list() == chosen.tolist()
    assert shifted(pyarrow.table({"a": numbers}))["a"].to_pylist() == chosen.tolist()
    assert shifted(numbers.tolist()) == chosen.tolist()
    assert shifted({"a": numbers})["a"].tolist() == chosen.tolist()
    assert shifted([1, 2, 3]) == [1, 2, 3]  # of few rows each one may matter
