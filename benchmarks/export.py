"""A million rows scored by exports beside the library's own predict and orbital; writes docs/deploy-benchmark.md.

Every way has one thread, because threads that wait use CPU time too. Errors are the largest differences from the
library's prediction, divided by the largest prediction. Orbital is measured where it is installed and reads the model.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import pathlib
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import treeanova
from benchmarks.timing import table_text

_PAGE = pathlib.Path("docs/deploy-benchmark.md")
_N_ROWS, _N_TRAINING, _N_FEATURES = 1_000_000, 4_000, 8
_BATCH = 50_000  # rows of a call of onnxruntime, whose intermediate results are in memory
_WRONG = 1e-6  # an error that is not rounding
_NAMES = [f"x{j}" for j in range(_N_FEATURES)]
_HEADER = ("model", "way", "export, CPU s", "size, KB", "1 M rows, CPU s", "largest error")
_PACKAGES = ("scikit-learn", "lightgbm", "duckdb", "onnxruntime", "orbital")

Line = tuple[str, ...]


def run(*, full: bool = False) -> None:
    """Measure all models and ways, print each line, and write the page; `full` adds 500 trees in orbital."""
    X, y = _rows(_N_TRAINING, seed=0)
    rows, _ = _rows(_N_ROWS, seed=1)
    lines = []
    command = f"python -m benchmarks export{' --full' if full else ''}"
    for name, model, predict in _models(X, y):
        for line in _measured(name, model, predict, X, rows, with_orbital=full or "500" not in name):
            print(" | ".join(line), flush=True)
            lines.append(line)
        _PAGE.write_text(_page(lines, command), encoding="utf-8")


def _rows(n_rows: int, seed: int) -> tuple[Any, Any]:
    """Correlated features, and a target of three interactions and steps."""
    generator = np.random.default_rng(seed)
    X = generator.normal(size=(n_rows, _N_FEATURES))
    X[:, 1] += X[:, 0]
    y = X[:, 0] * X[:, 1] + np.sin(X[:, 2]) * X[:, 3] + np.abs(X[:, 4]) + (X[:, 5] > 0) * X[:, 6]
    return X, y + generator.normal(size=n_rows)


def _models(X: Any, y: Any) -> Iterator[tuple[str, Any, Callable[[Any], Any]]]:
    """Yield names, fitted models, and their own predictions."""
    ensemble, lightgbm = importlib.import_module("sklearn.ensemble"), importlib.import_module("lightgbm")
    for n_trees in (100, 500):
        model = ensemble.GradientBoostingRegressor(n_estimators=n_trees, max_depth=2, random_state=0).fit(X, y)
        yield f"scikit-learn, {n_trees} trees of depth 2", model, model.predict
    boosted = lightgbm.LGBMRegressor(n_estimators=500, max_depth=2, verbose=-1, random_state=0, n_jobs=1).fit(X, y)
    yield "LightGBM, 500 trees of depth 2", boosted, boosted.predict


def _measured(
    name: str, model: Any, predict: Callable[[Any], Any], X: Any, rows: Any, *, with_orbital: bool
) -> Iterator[Line]:
    cpu, expected = _timed(lambda: predict(rows))
    yield name, "its own predict", "", "", f"{cpu:.2f}", ""
    cpu, fx = _timed(lambda: treeanova.decompose(model, X, feature_names=_NAMES, density="independent"))
    cpu_rows, score = _timed(lambda: fx.decision_function(rows))
    yield name, "decomposition", f"{cpu:.2f}", "", f"{cpu_rows:.2f}", _error(score, expected)
    database = _database(rows)
    for columns in ("score", "terms"):
        cpu, query = _timed(lambda columns=columns: treeanova.export.sql(fx, columns=columns))  # type: ignore[misc]
        cpu_rows, score = _timed(lambda query=query: database.execute(str(query)).fetchnumpy()["score"])  # type: ignore[misc]
        yield name, f"SQL in DuckDB, {columns}", *_numbers(cpu, bytes(query), cpu_rows, score, expected)
    for columns in ("score", "terms"):
        cpu, graph = _timed(lambda columns=columns: treeanova.export.onnx(fx, columns=columns))  # type: ignore[misc]
        cpu_rows, score = _timed(lambda graph=graph: _run_onnx(bytes(graph), rows))  # type: ignore[misc]
        yield name, f"ONNX in onnxruntime, {columns}", *_numbers(cpu, bytes(graph), cpu_rows, score, expected)
    if with_orbital and name.startswith("scikit-learn"):
        yield name, "orbital's SQL in DuckDB, score", *_orbital(model, database, expected)


def _timed(function: Callable[[], Any]) -> tuple[float, Any]:
    start = time.process_time()
    result = function()
    return time.process_time() - start, result


def _numbers(cpu: float, content: bytes, cpu_rows: float, score: Any, expected: Any) -> tuple[str, ...]:
    return f"{cpu:.2f}", f"{len(content) / 1e3:.1f}", f"{cpu_rows:.2f}", _error(score, expected)


def _error(score: Any, expected: Any) -> str:
    errors = np.abs(np.ravel(score) - expected) / np.abs(expected).max()
    n_wrong = int((errors > _WRONG).sum())
    wrong = f" ({n_wrong} of {errors.size:,} rows above {_WRONG:g})" if n_wrong else ""
    return f"{errors.max():.1e}{wrong}"


def _database(rows: Any) -> Any:
    """Return a database in memory with a table of the rows."""
    connection = importlib.import_module("duckdb").connect(config={"threads": 1})
    frame = importlib.import_module("pandas").DataFrame(rows, columns=_NAMES)
    connection.register("frame", frame)
    connection.execute("CREATE TABLE rows AS SELECT * FROM frame")
    return connection


def _run_onnx(content: bytes, rows: Any) -> Any:
    """Run all outputs in batches and return the scores."""
    runtime = importlib.import_module("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(content, options, providers=["CPUExecutionProvider"])
    scores = []
    for start in range(0, len(rows), _BATCH):
        batch = rows[start : start + _BATCH]
        inputs = {name: np.ascontiguousarray(batch[:, [j]]) for j, name in enumerate(_NAMES)}
        scores.append(session.run(None, inputs)[0])
    return np.concatenate(scores)


def _orbital(model: Any, database: Any, expected: Any) -> tuple[str, ...]:
    """Measure orbital's query; says so where orbital is absent."""
    try:
        orbital, types = importlib.import_module("orbital"), importlib.import_module("orbital.types")
    except ImportError:
        return ("not installed", "", "", "")
    pipeline = importlib.import_module("sklearn.pipeline").Pipeline([("model", model)])
    features = {name: types.DoubleColumnType() for name in _NAMES}

    def export() -> str:
        return orbital.export_sql("rows", orbital.parse_pipeline(pipeline, features=features), dialect="duckdb")

    cpu, query = _timed(export)
    cpu_rows, result = _timed(lambda: database.execute(query).fetchnumpy())
    [score] = [values for name, values in result.items() if name not in _NAMES]
    return _numbers(cpu, query.encode(), cpu_rows, np.asarray(score, dtype=np.float64), expected)


def _page(lines: list[Line], command: str) -> str:
    versions = ", ".join(f"{name} {_version(name)}" for name in _PACKAGES)
    return (
        "# Exports: a million rows\n\n"
        f"Written by `{command}`; {versions}. Times are CPU seconds of one thread. Models are trained on "
        f"{_N_TRAINING:,} rows of {_N_FEATURES} numbers. Errors are the largest differences from the library's own "
        'prediction, divided by the largest prediction. "terms" returns a column for each pure term besides the score. '
        f"onnxruntime gets batches of {_BATCH:,} rows. Orbital writes SQL of scikit-learn's models, not of "
        "LightGBM's.\n\n" + table_text(_HEADER, lines)
    )


def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return "(not installed)"


if __name__ == "__main__":
    run()
