"""Deep models on real and simulated tables, trained once and kept in a folder with their rows."""

from __future__ import annotations

import functools
import importlib
import json
import pathlib
import pickle
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks.decompose import california_housing
from studies.common import DataMissingError, data_folder

_CALIFORNIA = ["MedInc", "HouseAge", "AveRooms", "AveBedrms", "Population", "AveOccup", "Latitude", "Longitude"]
_QUICK_ROWS, _QUICK_FEATURES, _QUICK_TREES = 400, 8, 5
Data = tuple[Any, Any]
Fit = Callable[[Any, Any, int], Any]
ALL_TASKS = ("plan", "decompose", "importance", "explain", "explain_all", "report", "files")


class Case(NamedTuple):
    """A model to be trained on data."""

    model: str
    data: str
    fit: Fit
    n_trees: int
    rows: Callable[[], Data]
    n_outputs: int = 1
    n_training_rows: int | None = None


class Trained(NamedTuple):
    """Where a model and its rows are kept, and what is known of them."""

    path: pathlib.Path
    facts: dict[str, Any]


# Data


def _file(name: str) -> Any:
    path = data_folder() / name
    if not path.is_file():
        raise DataMissingError(f"there is no file {name} in the data folder; set TREEANOVA_DATA to a folder with it")
    return importlib.import_module("pandas").read_csv(path)


def california() -> Data:
    """California housing, 8 numeric features."""
    try:
        rows, target = california_housing()
    except SystemExit as error:
        raise DataMissingError(str(error)) from error
    return importlib.import_module("pandas").DataFrame(rows, columns=_CALIFORNIA), target


def adult() -> Data:
    """The census income table, text as categories."""
    pandas = importlib.import_module("pandas")
    table = _file("adult.csv.gz").drop(columns="split", errors="ignore")
    target = pandas.factorize(table.pop("income" if "income" in table else table.columns[-1]))[0]
    texts = [name for name in table.columns if not pandas.api.types.is_numeric_dtype(table[name])]
    return table.astype(dict.fromkeys(texts, "category")), target


def adult_as_text() -> Data:
    """The same with categories as text, as CatBoost takes them; missing ones are a category."""
    table, target = adult()
    categories = table.select_dtypes("category").columns
    return table.assign(**{name: table[name].astype(object).fillna("missing") for name in categories}), target


def adult_as_numbers() -> Data:
    """The same with a number for each category, in alphabetical order."""
    table, target = adult()
    categories = table.select_dtypes("category").columns
    return table.assign(**{name: table[name].cat.codes.astype(float) for name in categories}), target


def cover_types() -> Data:
    """Forest cover types: 581,012 rows, 54 features, 7 classes."""
    table = _file("covtype.csv.gz")
    target = table.pop("Cover_Type")
    return table, (target - target.min()).to_numpy()


def some_cover_types() -> Data:
    """10,000 rows of these."""
    rows, target = cover_types()
    some = np.random.default_rng(0).permutation(len(rows))[:10_000]
    return rows.iloc[some], target[some]


def many_features(n_rows: int = 20_000, n_features: int = 500) -> Data:
    """Independent normal features, of which 20 matter."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(n_rows, n_features))
    target = rows[:, 0] * rows[:, 1] + np.sin(rows[:, 2]) + rows[:, 3] * rows[:, 4] * rows[:, 5]
    target += 0.2 * rows[:, :20].sum(axis=1) + 0.5 * rng.normal(size=n_rows)
    return importlib.import_module("pandas").DataFrame(rows, columns=[f"f{j}" for j in range(n_features)]), target


# Models


def boosted_by_lightgbm(rows: Any, target: Any, n_trees: int, *, n_leaves: int = 31, kind: str = "Regressor") -> Any:
    make = getattr(importlib.import_module("lightgbm"), f"LGBM{kind}")
    return make(n_estimators=n_trees, num_leaves=n_leaves, verbose=-1, random_state=0, n_jobs=2).fit(rows, target)


def boosted_by_xgboost(rows: Any, target: Any, n_trees: int, *, depth: int = 6, kind: str = "Regressor") -> Any:
    make = getattr(importlib.import_module("xgboost"), f"XGB{kind}")
    return make(n_estimators=n_trees, max_depth=depth, random_state=0, n_jobs=2).fit(rows, target)


def _catboost(rows: Any, target: Any, n_trees: int) -> Any:
    make = importlib.import_module("catboost").CatBoostRegressor
    return make(iterations=n_trees, verbose=0, allow_writing_files=False, random_seed=0).fit(rows, target)


def _catboost_with_categories(rows: Any, target: Any, n_trees: int) -> Any:
    make = importlib.import_module("catboost").CatBoostClassifier
    texts = [name for name in rows.columns if rows[name].dtype == object]
    options = {"iterations": n_trees, "verbose": 0, "allow_writing_files": False, "random_seed": 0}
    return make(cat_features=texts, **options).fit(rows, target)


def forest(rows: Any, target: Any, n_trees: int, *, kind: str = "Regressor") -> Any:
    make = getattr(importlib.import_module("sklearn.ensemble"), f"RandomForest{kind}")
    return make(n_estimators=n_trees, random_state=0, n_jobs=2).fit(rows, target)


_CLASSIFIER = functools.partial(boosted_by_lightgbm, kind="Classifier")
_FOREST_CLASSIFIER = functools.partial(forest, kind="Classifier")
_COVER = functools.partial(boosted_by_xgboost, depth=5, kind="Classifier")
_DEPTH_2 = functools.partial(boosted_by_xgboost, depth=2)
_FOREST = "random forest, default (100 full trees)"
CASES = {
    "california-depth-2": Case("XGBoost, 100 trees of depth 2", "California", _DEPTH_2, 100, california),
    "california-xgboost": Case("XGBoost, 100 trees of depth 6", "California", boosted_by_xgboost, 100, california),
    "adult-lightgbm": Case("LightGBM, 100 trees of 31 leaves", "adult, with categories", _CLASSIFIER, 100, adult),
    "covtype-xgboost": Case(
        "XGBoost, 7 × 40 trees of depth 5", "cover types", _COVER, 40, cover_types, 7, n_training_rows=80_000
    ),
    "california-catboost": Case(
        "CatBoost, default (1,000 trees of depth 6)", "California", _catboost, 1_000, california
    ),
    "adult-catboost": Case(
        "CatBoost, default (1,000 trees of depth 6)",
        "adult, with categories",
        _catboost_with_categories,
        1_000,
        adult_as_text,
    ),
    "california-lightgbm": Case(
        "LightGBM, 2,000 trees of 31 leaves", "California", boosted_by_lightgbm, 2_000, california
    ),
    "adult-lightgbm-127": Case(
        "LightGBM, 500 trees of 127 leaves",
        "adult, with categories",
        functools.partial(_CLASSIFIER, n_leaves=127),
        500,
        adult,
    ),
    "wide-lightgbm": Case(
        "LightGBM, 500 trees of 31 leaves", "simulated, 500 features", boosted_by_lightgbm, 500, many_features
    ),
    "california-forest": Case(_FOREST, "California", forest, 100, california),
    "adult-forest": Case(_FOREST, "adult, categories as numbers", _FOREST_CLASSIFIER, 100, adult_as_numbers),
    "covtype-forest": Case(_FOREST, "10,000 cover types", _FOREST_CLASSIFIER, 100, some_cover_types, 7),
}


def trained(name: str, folder: pathlib.Path, *, quick: bool) -> Trained:
    """The model of a case and its rows, trained unless the folder has them; DataMissingError without data."""
    path = folder / f"{name}{'-quick' * quick}.pkl"
    facts = path.with_suffix(".json")
    if not facts.is_file():
        folder.mkdir(parents=True, exist_ok=True)
        facts.write_text(json.dumps(_train(CASES[name], path, quick=quick)), encoding="utf-8")
    return Trained(path, json.loads(facts.read_text(encoding="utf-8")))


def _train(case: Case, path: pathlib.Path, *, quick: bool) -> dict[str, Any]:
    n_trees = _QUICK_TREES if quick else case.n_trees
    simulated = quick and case.rows is many_features
    rows, target = many_features(_QUICK_ROWS, _QUICK_FEATURES) if simulated else case.rows()
    some = np.random.default_rng(0).permutation(len(rows))[: _QUICK_ROWS if quick else case.n_training_rows]
    if quick:
        rows, target, some = rows.iloc[some], np.asarray(target)[some], np.arange(len(some))
    fitted = case.fit(rows.iloc[some], np.asarray(target)[some], n_trees)
    path.write_bytes(pickle.dumps((fitted, rows), protocol=4))
    n_leaves = getattr(treeanova.read_model(fitted), "n_leaves", 0)
    shape = {"n_rows": len(rows), "n_features": rows.shape[1], "n_trees": n_trees, "n_leaves": n_leaves}
    return shape | {"quick": quick, "model_bytes": _model_bytes(fitted, path)}


def _model_bytes(model: Any, path: pathlib.Path) -> int:
    """Size of the file that the model's own library writes; scikit-learn's models are pickled."""
    file = path.with_suffix(".ubj" if type(model).__module__.startswith("xgboost") else ".model")
    if hasattr(model, "booster_"):
        model.booster_.save_model(str(file))
    elif hasattr(model, "save_model"):
        model.save_model(str(file))
    else:
        file.write_bytes(pickle.dumps(model, protocol=4))
    size = file.stat().st_size
    file.unlink()
    return size
