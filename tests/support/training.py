"""All training in tests, so that one setting changes every model: `TREEANOVA_TEST_SHIFT=1 make test`.

Which trees a library grows depends on its version and on the processor, so that a test must pass whatever they are.
With a shift other than 0, models are trained with other seeds, and one row in twenty is replaced by a copy of another
row. This changes trees of all libraries, yet every value is one that the test has chosen. With shift 0 nothing changes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np

SHIFT = int(os.environ.get("TREEANOVA_TEST_SHIFT", "0"))

_SEEDS = ("random_state", "random_seed", "seed", "bagging_seed", "feature_fraction_seed", "data_random_seed")
# These have a fixed seed where none is given; scikit-learn takes numpy's, which conftest.py sets.
_LIBRARIES_WITH_A_FIXED_SEED = ("catboost", "lightgbm", "xgboost")
# Of fewer rows, each one may matter to the test.
_FEWEST_ROWS = 40


def fit(estimator: Any, X: Any, y: Any = None, **options: Any) -> Any:
    """Train an estimator, or a learner of ydf, on shifted rows with a shifted seed; returns what its method returns."""
    if _library(estimator) == "ydf":
        if SHIFT:
            estimator.hyperparameters["random_seed"] = shifted_seed(estimator.hyperparameters["random_seed"])
        return estimator.train(shifted(X), **options)
    for member in _members(estimator):
        _prepare(member)
    return estimator.fit(shifted(X), **options) if y is None else estimator.fit(shifted(X), shifted(y), **options)


def train(library: Any, parameters: Mapping[str, Any], data: Any, *rounds: int, **options: Any) -> Any:
    """Call `train` of xgboost or lightgbm with a shifted seed; `data` are made of rows that the caller has shifted."""
    return library.train(seeded(parameters), data, *rounds, **options)


def seeded(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Parameters of xgboost or lightgbm with shifted seeds."""
    seeds = {name: value for name, value in parameters.items() if name in _SEEDS} or {"seed": 0}
    return {**parameters, **({name: shifted_seed(seed) for name, seed in seeds.items()} if SHIFT else {})}


def shifted_seed(seed: int) -> int:
    """Another seed for each shift."""
    return seed + SHIFT


def shifted(rows: Any) -> Any:
    """Rows, or the targets of rows, with some replaced by others: by the same ones in all tables of equal length."""
    if not SHIFT or _library(rows) == "catboost":  # a Pool is made of shifted rows
        return rows
    if isinstance(rows, dict):
        return {name: shifted(column) for name, column in rows.items()}
    chosen = _chosen_rows(rows.shape[0] if hasattr(rows, "shape") else len(rows))
    if hasattr(rows, "iloc"):
        return rows.iloc[chosen].set_axis(rows.index, axis=0)
    if _library(rows) == "pyarrow":
        return rows.take(chosen)
    return [rows[i] for i in chosen] if isinstance(rows, list | tuple) else rows[chosen]


def _chosen_rows(n_rows: int) -> Any:
    rng = np.random.default_rng([SHIFT, n_rows])
    chosen = np.arange(n_rows)
    n_replaced = n_rows // 20 if n_rows >= _FEWEST_ROWS else 0
    chosen[rng.choice(n_rows, n_replaced, replace=False)] = rng.integers(0, n_rows, n_replaced)
    return chosen


def _library(instance: Any) -> str:
    return type(instance).__module__.partition(".")[0]


def _members(estimator: Any) -> Iterator[Any]:
    """The estimator and all estimators inside it."""
    yield estimator
    if hasattr(estimator, "get_params"):
        inner = estimator.get_params(deep=True).values()
        yield from (value for value in inner if hasattr(value, "get_params") and not isinstance(value, type))


def _prepare(member: Any) -> None:
    """Shift the seed of one estimator; CatBoost writes no files."""
    if not hasattr(member, "set_params") or (_library(member) == "catboost" and member.is_fitted()):
        return
    parameters = member.get_params(deep=False)
    if _library(member) == "catboost" and not {"allow_writing_files", "train_dir"} & set(parameters):
        member.set_params(allow_writing_files=False)
    seeds = {name: value for name, value in parameters.items() if name in _SEEDS and isinstance(value, int)}
    if not seeds and _library(member) in _LIBRARIES_WITH_A_FIXED_SEED:
        seeds = {"random_state": 0}
    if SHIFT and not vars(member).get("_is_shifted"):  # else it is fitted again
        member.set_params(**{name: shifted_seed(seed) for name, seed in seeds.items()})
        vars(member)["_is_shifted"] = True
