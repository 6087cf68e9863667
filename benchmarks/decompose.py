"""decompose() compared with the model's predict, with treehfd and with XGBoost's interaction values; then its scaling.

The first table is California housing, 1,000 trees of depth 2. treehfd's cost is one least-squares problem per tree, and
that of interaction values a walk per row, so that by default a part of each is timed and scaled; ``--full`` runs all.
The second table varies rows, trees and features of synthetic data one at a time. Peak memory is what Python and numpy
allocate beyond the model and the rows, in a run of its own, since tracing takes time.
"""

from __future__ import annotations

import importlib
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np

import treeanova
from benchmarks.timing import best_of, print_table
from studies.common import data_folder
from treeanova.core.arrays import Floats
from treeanova.decomposition.predictions import function_of

_TREES, _DEPTH = 1_000, 2
_PEER_TREES, _PEER_ROWS = 50, 500
_TRAINING_ROWS = 2_000
_COLUMNS_PER_TREE = 10


def california_housing() -> tuple[Floats, Floats]:
    """Rows and target, from the data folder or else through scikit-learn."""
    path = data_folder() / "california_housing.csv.gz"
    if path.is_file():
        table = np.loadtxt(path, delimiter=",", skiprows=1)
        return np.ascontiguousarray(table[:, :-1]), table[:, -1]
    try:
        loader = importlib.import_module("sklearn.datasets").fetch_california_housing
        rows, target = loader(return_X_y=True)
    except (ImportError, OSError) as error:
        raise SystemExit(
            f"California housing must be at {path}, or come through scikit-learn's loader, got neither ({error}); set "
            "TREEANOVA_DATA to a folder with the file."
        ) from error
    return rows, target


def _regressor(n_trees: int, **options: Any) -> Any:
    module = importlib.import_module("xgboost")
    return module.XGBRegressor(n_estimators=n_trees, max_depth=_DEPTH, **options)


class Peer(NamedTuple):
    """What another tool does, and how many times that is the whole work."""

    name: str
    work: Callable[[], object]
    factor: float
    part: str


def peers(model: Any, rows: Floats, target: Floats, *, full: bool) -> Iterator[Peer]:
    """Fit of treehfd and interaction values of XGBoost, whole or in part."""
    fitted = model if full else _regressor(_PEER_TREES).fit(rows, target)
    try:
        explainer = importlib.import_module("treehfd").XGBTreeHFD(fitted)
    except ImportError:
        print("treehfd is not installed and left out; `pip install --no-deps treehfd tqdm` adds it.\n")
    else:
        part = "all" if full else f"{_PEER_TREES} of {_TREES:,} trees"
        yield Peer("treehfd fit", lambda: explainer.fit(rows, verbose=False), 1 if full else _TREES / _PEER_TREES, part)
    some = rows if full else rows[:: len(rows) // _PEER_ROWS]
    matrix = importlib.import_module("xgboost").DMatrix(some)
    booster = model.get_booster()
    part = "all" if full else f"{len(some):,} of {len(rows):,} rows"
    yield Peer(
        "XGBoost pred_interactions",
        lambda: booster.predict(matrix, pred_interactions=True),
        len(rows) / len(some),
        part,
    )


def side_by_side(*, full: bool) -> list[list[str]]:
    """Rows of the first table."""
    rows, target = california_housing()
    model = _regressor(_TREES).fit(rows, target)
    predict, scores = best_of(lambda: model.predict(rows))
    whole, fx = best_of(lambda: treeanova.decompose(model, rows, density="empirical"))
    explain, explanation = best_of(lambda: fx.explain(rows))
    off = np.abs(explanation.intercept + explanation.values.sum(axis=1) - scores).max()
    print(f"{len(rows):,} rows, {len(fx.terms)} terms; sum of terms within {off:.0e} of predict (float32)\n")
    table = [
        _compared("model.predict", predict, whole, predict, "all"),
        _compared('treeanova.decompose(density="empirical")', whole, whole, predict, "all"),
        _compared("fx.explain, all rows", explain, whole, predict, "all"),
    ]
    for peer in peers(model, rows, target, full=full):
        seconds, _ = best_of(peer.work, most=3)
        table.append(_compared(peer.name, seconds * peer.factor, whole, predict, peer.part))
    return table


def _compared(name: str, seconds: float, whole: float, predict: float, part: str) -> list[str]:
    return [name, f"{seconds:.4g}", f"{seconds / predict:,.2f}x", f"{seconds / whole:,.2f}x", part]


class Size(NamedTuple):
    """A synthetic case."""

    n_rows: int = 20_000
    n_trees: int = 1_000
    n_features: int = 20


def sizes() -> Iterator[Size]:
    """Rows, then trees, then features, and last the largest model."""
    yield from (Size(n_rows=n) for n in (1_000, 10_000, 50_000, 200_000))
    yield from (Size(n_trees=n) for n in (100, 500, 1_000, 5_000))
    yield from (Size(n_features=n) for n in (5, 20, 100, 500))
    yield Size(n_trees=5_000, n_features=500)


def synthetic_model(size: Size, rows: Floats) -> Any:
    """A model of few rows of noise, in which each tree sees some columns only, so that all features come to be used."""
    some = rows[:_TRAINING_ROWS]
    target = np.random.default_rng(1).normal(size=len(some))
    share = min(1.0, _COLUMNS_PER_TREE / size.n_features)
    return _regressor(size.n_trees, learning_rate=0.05, colsample_bytree=share, n_jobs=1).fit(some, target)


def scaling_row(size: Size) -> list[str]:
    """Seconds and peak memory of one synthetic case."""
    rng = np.random.default_rng(0)
    rows = rng.normal(size=(max(size.n_rows, _TRAINING_ROWS), size.n_features))
    rows += rng.normal(size=(len(rows), 1))  # correlated, so that there is something to purify
    model = synthetic_model(size, rows)
    rows = rows[: size.n_rows]

    def work() -> treeanova.Decomposition:
        return treeanova.decompose(model, rows, density="empirical")

    seconds, fx = best_of(work, most=3)
    n_terms, n_cells = len(fx.terms), sum(values.size for values in function_of(fx).effects.terms.values())
    del fx
    peak = peak_bytes(work)
    shape = [f"{size.n_rows:,}", f"{size.n_trees:,}", f"{size.n_features:,}"]
    return [*shape, f"{n_terms:,}", f"{n_cells:,}", f"{seconds:.3f}", f"{peak / 1e6:,.0f}"]


def peak_bytes(work: Callable[[], object]) -> int:
    """Most bytes that a call holds at a time."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def run(*, full: bool) -> None:
    """Time and print both tables."""
    print(f"## California housing, XGBoost, {_TREES:,} trees of depth {_DEPTH}\n")
    print_table(["what", "seconds", "of predict", "of decompose", "timed"], side_by_side(full=full))
    print(f"\n## Scaling of decompose, depth {_DEPTH}\n")
    header = ["rows", "trees", "features", "terms", "cells", "seconds", "peak MB"]
    print_table(header, [scaling_row(size) for size in sizes()])
