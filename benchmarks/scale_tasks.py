"""What `benchmarks.scale` measures, each task in a process of its own."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import itertools
import json
import os
import pathlib
import pickle
import resource
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

import treeanova
from treeanova.core.arrays import Floats, Key
from treeanova.decomposition.predictions import function_of
from treeanova.density.counting import Request
from treeanova.density.statistics import statistics_of
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid
from treeanova.readers import read_for_rows
from treeanova.terms.layout import leaves_of

N_FEATURES = 8
NAMES = [f"x{j}" for j in range(N_FEATURES)]
PAIRS: list[Key] = list(itertools.combinations(range(N_FEATURES), 2))


# Rows and models.


def simulated(n_rows: int, seed: int) -> Floats:
    """Dependent features: half of each is common to all."""
    rng = np.random.default_rng(seed)
    rows = rng.normal(size=(n_rows, N_FEATURES))
    rows += rng.normal(size=(n_rows, 1))
    rows[:, 1] = np.exp(rows[:, 1])
    rows[:, 2] = rows[:, 2].round(1)
    return rows


def write_rows(folder: pathlib.Path, n_rows: int, rows_per_file: int) -> None:
    """Add Parquet files to a folder until they have so many rows."""
    pyarrow, parquet = importlib.import_module("pyarrow"), importlib.import_module("pyarrow.parquet")
    folder.mkdir(parents=True, exist_ok=True)
    known = sorted(folder.iterdir())
    done = sum(parquet.read_metadata(path).num_rows for path in known)
    for number in itertools.count(len(known)):
        if done >= n_rows:
            return
        rows = simulated(min(rows_per_file, n_rows - done), seed=number)
        table = pyarrow.table(list(rows.T.copy()), names=NAMES)
        parquet.write_table(table, folder / f"{number:04d}.parquet", use_dictionary=False)
        done += len(rows)


def write_model(path: pathlib.Path, *, is_deep: bool = False) -> None:
    """Train and save a model of all pairs, or of higher orders."""
    ensemble = importlib.import_module("sklearn.ensemble")
    pandas = importlib.import_module("pandas")
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = simulated(50_000, seed=2**20)
    target = sum(np.tanh(rows[:, i]) * np.tanh(rows[:, j]) for i, j in PAIRS)
    model = ensemble.HistGradientBoostingRegressor(
        max_iter=30 if is_deep else 300, max_depth=4 if is_deep else 2, max_bins=64, random_state=0
    )
    path.write_bytes(pickle.dumps(model.fit(pandas.DataFrame(rows, columns=NAMES), target)))


def model_in(folder: pathlib.Path, name: str = "model.pickle") -> Any:
    """The model that was trained before."""
    return pickle.loads((folder / name).read_bytes())  # noqa: S301  written by this program


# Tasks.


def decompose(folder: pathlib.Path) -> dict[str, Any]:
    """The decomposition of the model under the density of all rows."""
    fx = treeanova.decompose(model_in(folder), folder / "rows", n_jobs=1)
    return {"intercept": fx.intercept}


def grid_of(folder: pathlib.Path) -> Grid:
    """The bins of the model."""
    forest = read_for_rows(model_in(folder))
    if not isinstance(forest, Forest):
        raise TypeError(f"the model must be a forest, got {type(forest).__name__}.")
    return leaves_of(forest).grid


def count(folder: pathlib.Path) -> dict[str, Any]:
    """Counts of all pairs, with all else that one pass gives."""
    grid = grid_of(folder)
    statistics = statistics_of(folder / "rows", grid, required=[Request(key) for key in PAIRS])
    return {"digest": digest(statistics.tables[key].sums for key in PAIRS)}


def digest(tables: Iterator[Any]) -> str:
    """A digest of counts."""
    whole = hashlib.sha256()
    for table in tables:
        whole.update(np.ascontiguousarray(table, dtype=np.int64).tobytes())
    return whole.hexdigest()


def sql(folder: pathlib.Path) -> dict[str, Any]:
    """The same counts by DuckDB: bins by nested CASE, a table of bins in memory, and a GROUP BY for each pair."""
    grid = grid_of(folder)
    connection = importlib.import_module("duckdb").connect(config={"threads": 1})
    searches = [bin_in_sql(name, axis.thresholds) for name, axis in zip(NAMES, grid.axes, strict=True)]
    bins = ", ".join(f"{search} AS b{j}" for j, search in enumerate(searches))
    connection.execute(f"CREATE TABLE bins AS SELECT {bins} FROM read_parquet('{folder}/rows/*.parquet')")  # noqa: S608
    tables = []
    for i, j in PAIRS:
        query = f"SELECT b{i}, b{j}, count(*) FROM bins GROUP BY b{i}, b{j}"  # noqa: S608
        found = connection.execute(query).fetchnumpy()
        first, second, counts = (np.asarray(column) for column in found.values())
        table = np.zeros((grid.sizes[i], grid.sizes[j]), dtype=np.int64)
        table[first, second] = counts
        tables.append(table)
    return {"digest": digest(iter(tables))}


def bin_in_sql(name: str, thresholds: Floats, first: int = 0) -> str:
    """The bin of a column by a binary search in SQL."""
    if not len(thresholds):
        return f"{first}::USMALLINT"
    middle = len(thresholds) // 2
    left = bin_in_sql(name, thresholds[:middle], first)
    right = bin_in_sql(name, thresholds[middle + 1 :], first + middle + 1)
    return f"CASE WHEN {name} <= {float(thresholds[middle])!r}::DOUBLE THEN {left} ELSE {right} END"


def on_workers(folder: pathlib.Path, n_workers: int) -> dict[str, Any]:
    """The same counts by processes of Dask; their start is not counted."""
    distributed, frames = importlib.import_module("distributed"), importlib.import_module("dask.dataframe")
    grid = grid_of(folder)
    options = {"n_workers": n_workers, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with distributed.LocalCluster(**options) as cluster, distributed.Client(cluster) as client:
        client.run(importlib.import_module, "treeanova._decompose")
        start = time.perf_counter()
        rows = frames.read_parquet(folder / "rows")
        statistics = statistics_of(rows, grid, required=[Request(key) for key in PAIRS])
        seconds = time.perf_counter() - start
    return {"seconds": seconds, "digest": digest(statistics.tables[key].sums for key in PAIRS)}


# Engines.


def engine(folder: pathlib.Path, name: str) -> dict[str, Any]:
    """Differences of decompositions to those of the rows in memory."""
    parquet = importlib.import_module("pyarrow.parquet")
    rows = parquet.read_table(folder / "rows").to_pandas()
    found: dict[str, Any] = {"seconds": 0.0, "n_different": 0}
    with contextlib.ExitStack() as stack:
        source = source_of(name, folder / "rows", rows, stack)
        for kind, file in (("shallow", "model.pickle"), ("deep", "deep.pickle")):
            model = model_in(folder, file)
            expected = treeanova.decompose(model, rows)
            start = time.perf_counter()
            fx = treeanova.decompose(model, source())
            found["seconds"] += time.perf_counter() - start
            found[kind], n_different = differences(fx, expected, rows[:2000])
            found["n_different"] += n_different
    return found


def differences(fx: Any, expected: Any, rows: Any) -> tuple[float, int]:
    """Largest difference of terms at rows, and number of cells with other counts."""
    values = np.abs(fx.explain(rows).values - expected.explain(rows).values).max()
    keys = function_of(expected).terms.effects.terms
    cells = (fx.statistics.counts(key) != expected.statistics.counts(key) for key in keys)
    return float(values), int(sum(different.sum() for different in cells))


def _polars(folder: pathlib.Path) -> Any:
    return importlib.import_module("polars").scan_parquet(folder / "*.parquet")


def _duckdb(folder: pathlib.Path) -> Any:
    return importlib.import_module("duckdb").connect().read_parquet(f"{folder}/*.parquet")


def _dask(folder: pathlib.Path, stack: contextlib.ExitStack) -> Any:
    distributed = importlib.import_module("distributed")
    cluster = distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
    stack.enter_context(cluster)
    stack.enter_context(distributed.Client(cluster))
    return importlib.import_module("dask.dataframe").read_parquet(folder)


def _spark(folder: pathlib.Path, stack: contextlib.ExitStack) -> Any:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    builder = importlib.import_module("pyspark.sql").SparkSession.builder.master("local[2]")
    for option, value in (("spark.ui.enabled", "false"), ("spark.sql.shuffle.partitions", "4")):
        builder = builder.config(option, value)
    session = builder.getOrCreate()
    stack.callback(session.stop)
    return session.read.parquet(str(folder))


def source_of(name: str, folder: pathlib.Path, rows: Any, stack: contextlib.ExitStack) -> Callable[[], Any]:
    """A function that returns the rows as a library has them; `stack` closes what it needs."""
    if name in {"dask", "spark"}:
        table = {"dask": _dask, "spark": _spark}[name](folder, stack)
        return lambda: table
    frames = [rows[start : start + 30_001] for start in range(0, len(rows), 30_001)]
    makers: dict[str, Callable[[], Any]] = {
        "memory": lambda: rows,
        "frames": lambda: frames,
        "iterator": lambda: iter(frames),
        "parquet": lambda: folder,
        "dataset": lambda: importlib.import_module("pyarrow.dataset").dataset(folder),
        "polars": lambda: _polars(folder),
        "duckdb": lambda: _duckdb(folder),
    }
    return makers[name]


# Samples.


def errors(folder: pathlib.Path, n_resamples: int) -> dict[str, Any]:
    """Standard errors of each term from a file, which keeps a sample, over those of a bootstrap of all rows."""
    rows = importlib.import_module("pyarrow.parquet").read_table(folder / "rows").to_pandas()
    fx: Any = treeanova.decompose(model_in(folder), rows, density="empirical")
    fx.save(folder / "fx.tav")
    again: Any = treeanova.load(folder / "fx.tav")
    whole, sampled = (one.standard_errors(n_resamples, random_state=seed) for seed, one in enumerate((fx, again)))
    weights = {names: fx.terms[names].weights for names in whole}
    squares = [
        {names: np.average(found[names] ** 2, weights=weights[names]) for names in whole} for found in (sampled, whole)
    ]
    ratios = [float(np.sqrt(squares[0][names] / squares[1][names])) for names in whole]
    return {"n_kept": len(again.statistics.sample), "n_terms": len(ratios), "ratios": sorted(ratios)}


def orders(folder: pathlib.Path) -> dict[str, Any]:
    """Differences of a deep model's terms between two orders of the rows, relative to the deviation of the score."""
    rows = importlib.import_module("pyarrow.parquet").read_table(folder / "rows").to_pandas()
    model = model_in(folder, "deep.pickle")
    first, second = (treeanova.decompose(model, one) for one in (rows, rows.sample(frac=1.0, random_state=0)))
    ours, theirs = (fx.explain(rows[:2000]) for fx in (first, second))
    gaps = (ours.values - theirs.values) / ours.scores.std()
    return {"largest": float(np.abs(gaps).max()), "typical": float(np.sqrt((gaps**2).mean(axis=0)).max())}


# A process.


def report(task: str, folder: str, cores: int | None) -> None:
    """Do a task and print its time, peak memory and results as JSON."""
    if cores is not None:  # a fixed core would be shared with what runs there, while others are free
        importlib.import_module("pyarrow").set_cpu_count(cores)
    name, _, argument = task.partition(" ")
    path = pathlib.Path(folder)
    tasks: dict[str, Callable[[], dict[str, Any]]] = {
        "decompose": lambda: decompose(path),
        "count": lambda: count(path),
        "sql": lambda: sql(path),
        "workers": lambda: on_workers(path, int(argument)),
        "engine": lambda: engine(path, argument),
        "errors": lambda: errors(path, int(argument)),
        "orders": lambda: orders(path),
    }
    if name != "engine":
        grid_of(path)  # loads libraries
    start, cpu = time.perf_counter(), time.process_time()
    found = tasks[name]()
    seconds = {"seconds": time.perf_counter() - start, "cpu_seconds": time.process_time() - cpu}
    print(json.dumps({**seconds, "peak_bytes": peak_bytes(), **found}))


def peak_bytes() -> int:
    """Largest memory of this process so far, as the kernel counts it."""
    status = pathlib.Path("/proc/self/status")
    if status.exists():
        lines = [line for line in status.read_text(encoding="utf-8").splitlines() if line.startswith("VmHWM")]
        return int(lines[0].split()[1]) * 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
