"""Deep models on real tables with an earlier version of treeanova and with this one: time, memory and files.

``python -m benchmarks deep --full --before PATH`` measures every case of `benchmarks.real_models`, each version in
processes of its own and with the same model, and then compares with other tools (``--cases peers``). PATH is a folder
with the sources of the earlier version, as ``git worktree add PATH COMMIT`` makes it; without it only this version is
measured. Numbers are kept in a file (``--results``) that later runs update, and docs/deep.md is written from it, so
that cases can be measured one by one (``--cases NAME ...``; ``--cases`` alone only writes the page). ``--quick`` takes
few rows and trees, leaves out the comparison with other tools and writes the page next to the results. Trained models
are kept in a temporary folder (`FOLDER`); remove it to train them anew.
"""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import platform
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks import cost_page, deep
from benchmarks.real_models import CASES, Case, Trained, trained
from studies.common import DataMissingError
from treeanova.core.compiled import has_numba

PEERS = "peers"
NAMES = (*CASES, PEERS)
FOLDER = pathlib.Path(tempfile.gettempdir()) / "treeanova-benchmarks"
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "deep.md"
_SCRIPT = pathlib.Path(__file__).with_name("one_case.py")
_NO_NUMBA = {"TREEANOVA_NO_NUMBA": "1"}
Numbers = dict[str, Any]


class Variant(NamedTuple):
    """A version of treeanova, and variables of the environment that it is run with."""

    name: str
    tree: pathlib.Path
    environment: Mapping[str, str]


def variants(case: Case, before: pathlib.Path | None) -> list[Variant]:
    """The earlier version, this one, and this one without Numba where that is of interest."""
    chosen = [] if before is None else [Variant("before", before, {})]
    chosen.append(Variant("after", _ROOT, {}))
    if case.without_numba and has_numba():
        chosen.append(Variant("without Numba", _ROOT, _NO_NUMBA))
    return chosen


def measure(variant: Variant, model: pathlib.Path, tasks: Sequence[str], timeout: float) -> dict[str, Numbers]:
    """The numbers of each task, in a process of its own; an error for tasks that it did not come to."""
    source = (variant.tree / "src").resolve()
    environment = {**os.environ, "PYTHONPATH": str(source), **variant.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled sources
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=False)  # noqa: S603
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", str(_SCRIPT), str(model), folder, *tasks]
        with (pathlib.Path(folder) / "lines").open("w+", encoding="utf-8") as lines:
            failure = _run(command, environment, lines, timeout)
            lines.seek(0)
            done = {numbers.pop("task"): numbers for numbers in map(json.loads, lines)}
    start = done.pop("start", None)
    if start is None or source not in pathlib.Path(start["file"]).resolve().parents:
        raise SystemExit(f"`--before` must be a folder with src/treeanova, got {variant.tree}: {start or failure}.")
    return {name: done.get(name, {"error": failure or "not reached"}) for name in tasks}


def _run(command: Sequence[str], environment: Mapping[str, str], output: Any, timeout: float) -> str:
    """Why a process did not end well, or nothing."""
    try:
        subprocess.run(command, env=environment, stdout=output, timeout=timeout, check=True)  # noqa: S603
    except subprocess.TimeoutExpired:
        return f"not finished after {timeout:,.0f} s"
    except subprocess.CalledProcessError as error:
        return f"ended with status {error.returncode}"
    return ""


def smallest(rounds: Sequence[dict[str, Numbers]]) -> dict[str, Numbers]:
    """The smallest of each number over rounds; all else is that of the last."""
    result = {task: dict(numbers) for task, numbers in rounds[-1].items()}
    for task, numbers in result.items():
        for name, value in numbers.items():
            if isinstance(value, float | int):
                numbers[name] = min(other[task].get(name, value) for other in rounds)
    return result


def _commit(tree: pathlib.Path) -> str:
    command = ["git", "-C", str(tree), "describe", "--always", "--dirty", "--exclude=*"]
    with contextlib.suppress(OSError):
        return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()  # noqa: S603
    return ""


def measure_case(
    name: str, model: Trained, before: pathlib.Path | None, *, rounds: int, timeout: float
) -> dict[str, Any]:
    """All numbers of a case, the versions in turns."""
    case = CASES[name]
    chosen = variants(case, before)
    measured: dict[str, list[dict[str, Numbers]]] = {variant.name: [] for variant in chosen}
    for _ in range(rounds):
        for variant in chosen:
            print(f"{name}, {variant.name} ...", file=sys.stderr, flush=True)
            measured[variant.name].append(measure(variant, model.path, case.tasks, timeout))
    commits = {variant.name: _commit(variant.tree) for variant in chosen}
    numbers = {variant: smallest(found) for variant, found in measured.items()}
    return {"model": case.model, "data": case.data, **model.facts, "commits": commits, "variants": numbers}


def _machine() -> str:
    numba = "with Numba" if has_numba() else "without Numba"
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}, {numba}"


def _updated(results: pathlib.Path, update: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of the file of results, after an update of it; cases are replaced one by one."""
    kept: dict[str, Any] = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {"cases": {}}
    kept |= {**update, "cases": {**kept["cases"], **update.get("cases", {})}}
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return kept


def run(
    *,
    cases: Iterable[str] | None = None,
    before: pathlib.Path | None = None,
    results: pathlib.Path | None = None,
    rounds: int = 1,
    timeout: float = 3600.0,
    quick: bool = False,
) -> None:
    """Measure cases, keep their numbers, and write the page from all that are kept."""
    results = results or FOLDER / f"deep{'-quick' * quick}.json"
    chosen = list(cases if cases is not None else CASES if quick else NAMES)
    unknown = [name for name in chosen if name not in NAMES]
    if unknown:
        raise SystemExit(f"`--cases` must be names of cases, got {unknown[0]}; choose from {', '.join(NAMES)}.")
    kept = _updated(results, {})
    for name in chosen:
        if name == PEERS:
            kept = _updated(results, {PEERS: deep.tables(full=not quick)})
            continue
        try:
            model = trained(name, FOLDER, quick=quick)
        except (DataMissingError, ImportError) as error:
            print(f"{name} is left out: {error}.", file=sys.stderr, flush=True)
            continue
        numbers = measure_case(name, model, before, rounds=rounds, timeout=timeout)
        kept = _updated(results, {"machine": _machine(), "cases": {name: numbers}})
    text = cost_page.text(kept, {name: f"{case.model}, {case.data}" for name, case in CASES.items()})
    (results.with_suffix(".md") if quick else _PAGE).write_text(text, encoding="utf-8")
    print(text)
