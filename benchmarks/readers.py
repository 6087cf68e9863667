"""Reading models of all libraries, and scoring rows with the result, compared with the library's own prediction.

Models are trained on few rows of noise, which gives full trees soon, and all that is timed has one thread. The limits
are 0.3 s for 1,000 trees of depth 6 and 0.6 s for 5,000 of depth 2.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.timing import best_of, print_table
from treeanova.core.arrays import Floats
from treeanova.model.forest import Forest
from treeanova.readers import read_model

Maker = Callable[[int, int], Any]
_TRAINING_ROWS, _SCORED_ROWS, _FEATURES = 1_000, 20_000, 10
_SIZES = ((1_000, 6, 0.3), (5_000, 2, 0.6))  # trees, depth, limit in seconds
_SCORED_TREES, _SCORED_DEPTH = 100, 6
_REPEATS = 10


def _xgboost(n_trees: int, depth: int) -> Any:
    module = importlib.import_module("xgboost")
    return module.XGBRegressor(n_estimators=n_trees, max_depth=depth, learning_rate=0.05, n_jobs=1)


def _lightgbm(n_trees: int, depth: int) -> Any:
    module = importlib.import_module("lightgbm")
    return module.LGBMRegressor(
        n_estimators=n_trees, max_depth=depth, num_leaves=1 << depth, min_child_samples=5, n_jobs=1, verbose=-1
    )


def _catboost(n_trees: int, depth: int) -> Any:
    module = importlib.import_module("catboost")
    return module.CatBoostRegressor(
        iterations=n_trees, depth=depth, learning_rate=0.05, thread_count=1, verbose=0, allow_writing_files=False
    )


def _forest(n_trees: int, depth: int) -> Any:
    module = importlib.import_module("sklearn.ensemble")
    return module.RandomForestRegressor(n_trees, max_depth=depth, max_features=0.3, n_jobs=1, random_state=0)


def _gradient_boosting(n_trees: int, depth: int) -> Any:
    module = importlib.import_module("sklearn.ensemble")
    return module.GradientBoostingRegressor(n_estimators=n_trees, max_depth=depth, max_features=0.3, random_state=0)


def _hist_gradient_boosting(n_trees: int, depth: int) -> Any:
    module = importlib.import_module("sklearn.ensemble")
    n_trained = n_trees // _REPEATS
    return module.HistGradientBoostingRegressor(
        max_iter=n_trained, max_depth=depth, max_leaf_nodes=None, min_samples_leaf=5, early_stopping=False
    )


_MAKERS: dict[str, Maker] = {
    "xgboost": _xgboost,
    "lightgbm": _lightgbm,
    "catboost": _catboost,
    "sklearn forest": _forest,
    "sklearn gradient boosting": _gradient_boosting,
    "sklearn hist gradient boosting": _hist_gradient_boosting,
}


def _trained(model: Any, rows: Floats, target: Floats) -> Any:
    """The model fitted; of hist gradient boosting, slow on few rows, a tenth of the trees, which are then repeated."""
    model.fit(rows[: len(target)], target)
    if type(model).__name__ == "HistGradientBoostingRegressor":
        model._predictors *= _REPEATS  # noqa: SLF001  there is no other way to repeat trees
    return model


def _read(model: Any) -> Forest:
    forest = read_model(model)
    assert isinstance(forest, Forest)  # noqa: S101  none of these models is an EBM
    return forest


def reading_row(name: str, model: Any, n_trees: int, depth: int, limit: float) -> list[str]:
    """Seconds to read a model, and the limit."""
    seconds, forest = best_of(lambda: _read(model))
    verdict = "yes" if seconds <= limit else "no"
    return [name, f"{n_trees:,} x {depth}", f"{forest.n_leaves:,}", f"{seconds:.3f}", f"{limit}", verdict]


def scoring_row(name: str, model: Any, rows: Floats) -> list[str]:
    """Seconds to score rows, those of the library's prediction, and the largest difference of both."""
    forest = _read(model)
    ours, scores = best_of(lambda: forest.score(rows)[:, 0])
    theirs, predictions = best_of(lambda: model.predict(rows))
    difference = float(np.abs(scores - predictions).max() / np.abs(predictions).max())
    return [name, f"{ours:.3f}", f"{theirs:.4f}", f"{ours / theirs:,.1f}x", f"{difference:.0e}"]


def run(*, full: bool) -> None:
    """Train, time and print both tables; `full` changes nothing."""
    del full
    threads = importlib.import_module("threadpoolctl")  # comes with scikit-learn; hist gradient boosting has no n_jobs
    with threads.threadpool_limits(1):
        reading, scoring = _tables()
    print("## Reading models\n")
    print_table(["model", "trees x depth", "leaves", "seconds", "limit", "within"], reading)
    print(f"\n## Scoring {_SCORED_ROWS:,} rows with {_SCORED_TREES} trees of depth {_SCORED_DEPTH}\n")
    print_table(["model", "Forest.score s", "library's predict s", "ratio", "largest difference"], scoring)


def _tables() -> tuple[list[list[str]], list[list[str]]]:
    """Rows of both tables."""
    rng = np.random.default_rng(0)
    rows, target = rng.normal(size=(_SCORED_ROWS, _FEATURES)), rng.normal(size=_TRAINING_ROWS)
    reading, scoring = [], []
    for name, maker in _MAKERS.items():
        for n_trees, depth, limit in _SIZES:
            model = _trained(maker(n_trees, depth), rows, target)
            reading.append(reading_row(name, model, n_trees, depth, limit))
        model = _trained(maker(_SCORED_TREES, _SCORED_DEPTH), rows, target)
        scoring.append(scoring_row(name, model, rows))
    return reading, scoring
