"""Rows beyond memory: time and memory from one to fifty million rows of Parquet, DuckDB beside it, and all engines.

Every measurement has a process of its own, with one thread unless it says otherwise.
"""

from __future__ import annotations

import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from typing import Any

from benchmarks.scale_tasks import write_model, write_rows
from benchmarks.timing import print_table, table_text

_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "large-data.md"
_MILLION = 1_000_000
_SIZES = (100_000, 200_000, 400_000)
_FULL_SIZES = (_MILLION, 5 * _MILLION, 20 * _MILLION, 50 * _MILLION)
_ROWS_PER_FILE = _MILLION
_ENGINES = ("memory", "frames", "iterator", "parquet", "dataset", "polars", "duckdb", "dask", "spark")
_NEEDS = {"duckdb": "duckdb", "dask": "distributed", "spark": "pyspark", "polars": "polars"}


def run(*, full: bool) -> None:
    """Write simulated rows, measure, and print the tables; with `full`, also into docs/large-data.md."""
    sizes = _FULL_SIZES if full else _SIZES
    for variable in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[variable] = "1"  # for training, too: threads that wait for a shared core take all its time
    with tempfile.TemporaryDirectory(prefix="treeanova-scale-") as name:
        folder = pathlib.Path(name)
        write_model(folder / "model.pickle")
        growth = _growth(folder, sizes)
        workers = _workers(folder, sizes[-1])
        engines = _engines(folder, 200_000 if full else 50_000)
        samples = _samples(folder, (200_000, _MILLION) if full else (70_000,), 200 if full else 10)
    tables = {"growth": growth, "workers": workers, "engines": engines, **samples}
    for header, rows in tables.values():
        print_table(header, rows)
        print()
    print(f"load of the machine at the end: {', '.join(f'{load:.1f}' for load in os.getloadavg())}")
    if full:
        _PAGE.write_text(with_tables(_PAGE.read_text(encoding="utf-8"), tables), encoding="utf-8")


Table = tuple[Sequence[str], list[list[str]]]


def _growth(folder: pathlib.Path, sizes: Sequence[int]) -> Table:
    """Time and memory of more and more rows, which are added to the same folder of files."""
    header = ["rows", "`decompose`, s", "ns per row", "peak memory, MB", "pair counts, s", "DuckDB, s", "ratio"]
    rows = []
    for size in sizes:
        write_rows(folder / "rows", size, min(_ROWS_PER_FILE, max(sizes[0] // 4, 1)))
        whole, counts = (_measured(task, folder, cores=1) for task in ("decompose", "count"))
        line = [f"{size:,}", f"{whole['cpu_seconds']:.1f}", f"{1e9 * whole['cpu_seconds'] / size:,.0f}"]
        line += [f"{whole['peak_bytes'] / 1e6:,.0f}", f"{counts['cpu_seconds']:.1f}", *_against_duckdb(folder, counts)]
        rows.append(line)
        print(" ".join(line), flush=True)
    return header, rows


def _against_duckdb(folder: pathlib.Path, counts: dict[str, Any]) -> tuple[str, str]:
    """Seconds of DuckDB for the same counts, and how many times as long that is."""
    if not importlib.util.find_spec("duckdb"):
        return "–", "–"
    sql = _measured("sql", folder, cores=1)
    if sql["digest"] != counts["digest"]:
        raise AssertionError("DuckDB and treeanova must count the same, got different counts.")
    return f"{sql['cpu_seconds']:.1f}", f"{sql['cpu_seconds'] / counts['cpu_seconds']:.1f}"


def _workers(folder: pathlib.Path, size: int) -> Table:
    """Time of one and of two processes of Dask."""
    header = ["processes of Dask", f"pair counts of {size:,} rows, s", "ratio"]
    if not importlib.util.find_spec("distributed"):
        return header, []
    seconds = [_measured(f"workers {n}", folder)["seconds"] for n in (1, 2)]
    return header, [[f"{n}", f"{s:.1f}", f"{seconds[0] / s:.2f}"] for n, s in zip((1, 2), seconds, strict=True)]


def _engines(folder: pathlib.Path, size: int) -> Table:
    """Differences to rows in memory of all ways to read the same rows, of a shallow and of a deep model."""
    small = folder / "few"
    write_model(small / "model.pickle")
    write_model(small / "deep.pickle", is_deep=True)
    write_rows(small / "rows", size, size // 4)
    header = [f"{size:,} rows from", "counts that differ", "largest difference of terms", "of a deep model", "s"]
    names = [name for name in _ENGINES if name not in _NEEDS or importlib.util.find_spec(_NEEDS[name])]
    found = {name: _measured(f"engine {name}", small) for name in names}
    return header, [
        [name, f"{entry['n_different']}", f"{entry['shallow']:.0e}", f"{entry['deep']:.0e}", f"{entry['seconds']:.1f}"]
        for name, entry in found.items()
    ]


def _samples(folder: pathlib.Path, sizes: Sequence[int], n_resamples: int) -> dict[str, Table]:
    """Standard errors from the rows that a file keeps; and a deep model under the same rows in two orders."""
    header = ["rows", "in the file", "terms", "smallest ratio", "median", "largest"]
    header_of_orders = ["rows in two orders", "largest difference of a term at a row", "largest of a term's mean"]
    errors, orders = [], []
    for size in sizes:
        some = folder / f"rows-{size}"
        write_model(some / "model.pickle")
        write_model(some / "deep.pickle", is_deep=True)
        write_rows(some / "rows", size, size)
        found = _measured(f"errors {n_resamples}", some)
        low, middle, high = (found["ratios"][i] for i in (0, found["n_terms"] // 2, -1))
        ratios = [f"{ratio:.2f}" for ratio in (low, middle, high)]
        errors.append([f"{size:,}", f"{found['n_kept']:,}", f"{found['n_terms']}", *ratios])
        gaps = _measured("orders", some)
        orders.append([f"{size:,}", f"{gaps['largest']:.0e}", f"{gaps['typical']:.0e}"])
    return {"errors": (header, errors), "orders": (header_of_orders, orders)}


def _measured(task: str, folder: pathlib.Path, *, cores: int | None = None) -> dict[str, Any]:
    """What a process of its own reports of a task."""
    code = f"from benchmarks.scale_tasks import report; report({task!r}, {str(folder)!r}, {cores!r})"
    done = subprocess.run(  # noqa: S603  this program
        [sys.executable, "-c", code], cwd=_ROOT, stdout=subprocess.PIPE, text=True, check=True, env=dict(os.environ)
    )
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def with_tables(page: str, tables: dict[str, Table]) -> str:
    """A page with tables between the marks that have their names."""
    for name, (header, rows) in tables.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, _, rest = page.partition(begin)
        page = f"{before}{begin}{table_text(header, rows)}{end}{rest.partition(end)[2]}"
    return page
