"""bench: seconds to decompose a model, and for its own predict, on simulated data."""

from __future__ import annotations

import importlib
import importlib.util
import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from treeanova._decompose import decompose
from treeanova.core.arrays import Floats
from treeanova.core.progress import Progress, counted, one_step


class Trainer(NamedTuple):
    """Module and class of a library's model, its parameter for the number of trees, and parameters for depth 2."""

    module: str
    kind: str
    trees: str
    parameters: dict[str, Any]


TRAINERS = {
    "xgboost": Trainer("xgboost", "XGBRegressor", "n_estimators", {"max_depth": 2}),
    "lightgbm": Trainer("lightgbm", "LGBMRegressor", "n_estimators", {"max_depth": 2, "num_leaves": 4, "verbose": -1}),
    "catboost": Trainer(
        "catboost", "CatBoostRegressor", "iterations", {"depth": 2, "verbose": 0, "allow_writing_files": False}
    ),
    "sklearn": Trainer("sklearn.ensemble", "HistGradientBoostingRegressor", "max_iter", {"max_depth": 2}),
}


def measure(library: str | None, n_rows: int, n_trees: int, progress: Progress) -> list[dict[str, Any]]:
    """Seconds per model: of one library, or of all that are installed."""
    if library is not None and library not in TRAINERS:
        raise ValueError(f"`LIBRARY` must be one of {', '.join(TRAINERS)}, got {library!r}; leave it out for all.")
    installed = [name for name in TRAINERS if importlib.util.find_spec(name)]
    wanted = installed if library is None else [library]
    if not wanted or wanted[0] not in installed:
        needed = library or "a library of tree ensembles"
        raise ImportError(f"bench needs {needed}, which is not installed; pip install {library or 'xgboost-cpu'}")
    data = _simulated(n_rows)
    return [_measured(name, *data, n_trees, progress) for name in wanted]


def _simulated(n_rows: int) -> tuple[Floats, Floats]:
    """Eight dependent features, and a target with interactions."""
    rng = np.random.default_rng(0)
    X = 0.7 * rng.normal(size=(n_rows, 1)) + 0.7 * rng.normal(size=(n_rows, 8))
    return X, X[:, 0] * X[:, 1] + np.sin(2 * X[:, 2]) + X[:, 3] * (X[:, 4] > 0) + 0.3 * rng.normal(size=n_rows)


def _measured(library: str, X: Floats, y: Floats, n_trees: int, progress: Progress) -> dict[str, Any]:
    trainer = TRAINERS[library]
    with one_step(progress, f"training {library}"):
        kind = getattr(importlib.import_module(trainer.module), trainer.kind)
        model = kind(**trainer.parameters, **{trainer.trees: n_trees}).fit(X, y)
    with one_step(progress, f"decomposing {library}"):
        fx = decompose(model, X, density="empirical")
    tasks: dict[str, Callable[[], object]] = {
        "predict": lambda: model.predict(X),
        "decompose empirical": lambda: decompose(model, X, density="empirical"),
        "decompose auto": lambda: decompose(model, X, density="auto"),
        "explain all rows": lambda: fx.explain(X),
    }
    seconds = {name: _seconds(task, f"{library}: {name}", progress) for name, task in tasks.items()}
    return {"model": f"{library} {trainer.kind}"} | seconds


def _seconds(task: Callable[[], object], stage: str, progress: Progress, repeats: int = 3) -> float:
    """Time of the shortest of a few runs."""
    seconds = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # LightGBM warns of arrays without names
        for _ in counted(progress, stage, range(repeats), repeats):
            start = time.perf_counter()
            task()
            seconds.append(time.perf_counter() - start)
    return float(f"{min(seconds):.3g}")
