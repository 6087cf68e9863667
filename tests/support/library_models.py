"""Decompositions of one small model per library and kind of output, each with rows that the model was not fitted to."""

from __future__ import annotations

import functools
import importlib
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tests.support.training import fit
from treeanova.core.arrays import Floats


class LibraryModel(NamedTuple):
    """A maker of a decomposition and of rows to explain, and the libraries that it needs."""

    make: Callable[[], tuple[Any, Any]]
    libraries: tuple[str, ...]


def number_rows(n_rows: int = 200, seed: int = 0) -> Floats:
    """Rows of three normal features, of which the first two are dependent."""
    data = np.random.default_rng(seed).normal(size=(n_rows, 3))
    data[:, 1] += data[:, 0]
    return data


def _table(seed: int = 0, n_rows: int = 200) -> tuple[Any, Any]:
    """A pandas table of a number with missing values, a category and a count, and a response."""
    rng = np.random.default_rng(seed)
    data = importlib.import_module("pandas").DataFrame(
        {"a": rng.normal(size=n_rows), "k": rng.choice(["u", "v", "wä"], n_rows), "n": rng.integers(0, 4, n_rows)}
    )
    data.loc[::7, "a"] = np.nan
    return data, data.a.fillna(0.5) * (data.k == "u") + (data.k == "v") * data.n


def _as_category(data: Any) -> Any:
    return data.astype({"k": "category"})


def _decompose(model: Any, rows: Any) -> Any:
    return importlib.import_module("treeanova").decompose(model, rows, density="empirical", n_jobs=1)


def _regression() -> tuple[Any, Any]:
    ensemble = importlib.import_module("sklearn.ensemble")
    data = number_rows()
    model = ensemble.GradientBoostingRegressor(n_estimators=6, max_depth=2, random_state=0)
    return _decompose(fit(model, data, data[:, 0] * data[:, 1]), data), number_rows(seed=1)


def _multiclass() -> tuple[Any, Any]:
    ensemble = importlib.import_module("sklearn.ensemble")
    data = number_rows()
    classes = np.digitize(data[:, 0] + data[:, 2], [-0.5, 0.5])
    model = ensemble.GradientBoostingClassifier(n_estimators=2, max_depth=2, random_state=0)
    return _decompose(fit(model, data, classes), data), number_rows(seed=1)


def _two_targets() -> tuple[Any, Any]:
    ensemble = importlib.import_module("sklearn.ensemble")
    data = number_rows()
    model = ensemble.RandomForestRegressor(3, max_depth=2, random_state=0, n_jobs=1)
    return _decompose(fit(model, data, data[:, :2] ** 2), data), number_rows(seed=1)


def _order_three() -> tuple[Any, Any]:
    data = number_rows()
    model = importlib.import_module("sklearn.tree").DecisionTreeRegressor(max_depth=3, random_state=0)
    return _decompose(fit(model, data, data.prod(axis=1)), data), number_rows(seed=1)


def _catboost_categories() -> tuple[Any, Any]:
    data, response = _table()
    model = importlib.import_module("catboost").CatBoostRegressor(
        iterations=6, depth=2, verbose=0, thread_count=1, allow_writing_files=False, one_hot_max_size=10
    )
    return _decompose(fit(model, data, response, cat_features=["k"]), data), _table(seed=1)[0]


def _lightgbm_categories() -> tuple[Any, Any]:
    lightgbm = importlib.import_module("lightgbm")
    data, response = _table()
    model = lightgbm.LGBMRegressor(n_estimators=6, num_leaves=4, max_depth=2, n_jobs=1, verbose=-1, min_child_samples=5)
    return _decompose(fit(model, _as_category(data), response), _as_category(data)), _as_category(_table(seed=1)[0])


def _xgboost_categories() -> tuple[Any, Any]:
    xgboost = importlib.import_module("xgboost")
    data, response = _table()
    data = _as_category(data.replace("wä", "w"))
    model = xgboost.XGBRegressor(n_estimators=6, max_depth=2, n_jobs=1, enable_categorical=True)
    return _decompose(fit(model, data, response), data), _as_category(_table(seed=1)[0].replace("wä", "w"))


def _hist_categories() -> tuple[Any, Any]:
    ensemble = importlib.import_module("sklearn.ensemble")
    data, response = _table()
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=6, max_depth=2, categorical_features="from_dtype", min_samples_leaf=5, random_state=0
    )
    return _decompose(fit(model, _as_category(data), response), _as_category(data)), _as_category(_table(seed=1)[0])


def _ebm_categories() -> tuple[Any, Any]:
    glassbox = importlib.import_module("interpret.glassbox")
    data, response = _table()
    model = glassbox.ExplainableBoostingRegressor(n_jobs=1, outer_bags=1, max_rounds=5, interactions=1)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Missing values detected")
        fit(model, data, response)
    return _decompose(model, data), _table(seed=1)[0]


LIBRARY_MODELS = {
    "regression": LibraryModel(_regression, ("sklearn",)),
    "multiclass": LibraryModel(_multiclass, ("sklearn",)),
    "two targets": LibraryModel(_two_targets, ("sklearn",)),
    "order three": LibraryModel(_order_three, ("sklearn",)),
    "catboost categories": LibraryModel(_catboost_categories, ("catboost", "pandas")),
    "lightgbm categories": LibraryModel(_lightgbm_categories, ("lightgbm", "pandas")),
    "xgboost categories": LibraryModel(_xgboost_categories, ("xgboost", "pandas")),
    "hist categories": LibraryModel(_hist_categories, ("sklearn", "pandas")),
    "ebm categories": LibraryModel(_ebm_categories, ("interpret", "pandas")),
}


def _deep(train: Callable[[Floats, Floats], Any]) -> tuple[Any, Any]:
    """A model of five features and higher orders, with tables for main effects and pairs only."""
    rows, more = (np.random.default_rng(seed).normal(size=(300, 5)) for seed in (0, 1))
    for data in (rows, more):
        data[:, 1:] += 0.6 * data[:, :-1]
    target = rows[:, 0] * rows[:, 1] * (rows[:, 2] > 0) + np.sin(rows[:, 3]) * rows[:, 4]
    decompose = importlib.import_module("treeanova").decompose
    return decompose(train(rows, target), rows, density="empirical", tensor_order=2, n_jobs=1), more


def _deep_forest(rows: Floats, target: Floats) -> Any:
    make = importlib.import_module("sklearn.ensemble").RandomForestRegressor
    return fit(make(4, random_state=0, n_jobs=1), rows, target)


def _deep_lightgbm(rows: Floats, target: Floats) -> Any:
    make = importlib.import_module("lightgbm").LGBMRegressor
    return fit(make(n_estimators=8, num_leaves=15, min_child_samples=5, n_jobs=1, verbose=-1), rows, target)


def _deep_xgboost(rows: Floats, target: Floats) -> Any:
    return fit(importlib.import_module("xgboost").XGBRegressor(n_estimators=8, max_depth=5, n_jobs=1), rows, target)


def _deep_catboost(rows: Floats, target: Floats) -> Any:
    make = importlib.import_module("catboost").CatBoostRegressor
    return fit(make(iterations=8, depth=5, verbose=0, thread_count=1, allow_writing_files=False), rows, target)


DEEP_MODELS = {
    f"deep {library}": LibraryModel(functools.partial(_deep, train), (library,))
    for library, train in {
        "sklearn": _deep_forest,
        "lightgbm": _deep_lightgbm,
        "xgboost": _deep_xgboost,
        "catboost": _deep_catboost,
    }.items()
}
