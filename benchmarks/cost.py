"""How long models of many kinds take, and how much memory: seconds with Numba and without, and the page of them.

``python -m benchmarks cost`` trains the models of `benchmarks.real_models`, measures each in processes of its own, and
writes docs/cost.md. Numbers are kept in a file (``--results``) that later runs update, so that cases can be measured
one by one (``--cases NAME ...``; ``--cases`` alone only writes the page). ``--before PATH`` compares with an earlier
version instead, whose sources are in a folder, as ``git worktree add PATH COMMIT`` makes it: both in turns, printed and
not kept. ``--quick`` takes few rows and trees and writes the page next to the results. Trained models are kept in a
temporary folder (`FOLDER`); remove it to train them anew.
"""

from __future__ import annotations

import json
import os
import pathlib
import platform
import re
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.real_models import ALL_TASKS, CASES, Trained, trained
from benchmarks.timing import print_table, table_text
from studies.common import DataMissingError
from treeanova.core.compiled import has_numba

FOLDER = pathlib.Path(tempfile.gettempdir()) / "treeanova-benchmarks"
_ROOT = pathlib.Path(__file__).resolve().parents[1]
_PAGE = _ROOT / "docs" / "cost.md"
_SCRIPT = pathlib.Path(__file__).with_name("one_case.py")
_COMPARED = ("decompose", "importance", "explain", "explain_all", "report")
_WIDTH = 120
_LIMIT = 900.0  # seconds for a case
Numbers = dict[str, Any]


# Measure


class Variant(NamedTuple):
    """A version of treeanova, and variables of the environment that it is run with."""

    name: str
    tree: pathlib.Path
    environment: Mapping[str, str]


def variants(before: pathlib.Path | None) -> list[Variant]:
    """An earlier version and this one; or this one with Numba and without."""
    with_numba, without = Variant("with Numba", _ROOT, {}), Variant("without Numba", _ROOT, {"TREEANOVA_NO_NUMBA": "1"})
    if before is not None:
        return [Variant("before", before, {}), with_numba]
    return [with_numba, without] if has_numba() else [without]


def measure(variant: Variant, model: pathlib.Path, timeout: float) -> dict[str, Numbers]:
    """The numbers of each task, in a process of its own; an error for tasks that it did not come to."""
    source = (variant.tree / "src").resolve()
    environment = {**os.environ, "PYTHONPATH": str(source), **variant.environment}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # users have compiled sources
    subprocess.run([sys.executable, "-m", "compileall", "-q", str(source)], check=False)  # noqa: S603
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-P", str(_SCRIPT), str(model), folder, *ALL_TASKS]
        with (pathlib.Path(folder) / "lines").open("w+", encoding="utf-8") as lines:
            failure = _run(command, environment, lines, timeout)
            lines.seek(0)
            done = {numbers.pop("task"): numbers for numbers in map(json.loads, lines)}
    start = done.pop("start", None)
    if start is None or source not in pathlib.Path(start["file"]).resolve().parents:
        raise SystemExit(f"`--before` must be a folder with src/treeanova, got {variant.tree}: {start or failure}.")
    return {name: done.get(name, {"error": failure or "not reached"}) for name in ALL_TASKS}


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


def measure_case(
    name: str, model: Trained, before: pathlib.Path | None, *, rounds: int, timeout: float
) -> dict[str, Any]:
    """All numbers of a case, the variants in turns."""
    measured: dict[str, list[dict[str, Numbers]]] = {variant.name: [] for variant in variants(before)}
    for _ in range(rounds):
        for variant in variants(before):
            print(f"{name}, {variant.name} ...", file=sys.stderr, flush=True)
            measured[variant.name].append(measure(variant, model.path, timeout))
    numbers = {variant: smallest(found) for variant, found in measured.items()}
    return {"model": CASES[name].model, "data": CASES[name].data, **model.facts, "variants": numbers}


# The page

_INTRO = """# How long will mine take?

Written by `python -m benchmarks cost`.

## A rule

{rule}

## Measured

{method}
"""
_RULE = """`print(treeanova.plan(model, X))` estimates memory and time before any work, the seconds within a factor of
about two. To estimate them by hand, find the line of the tables below that is most like your model, and change its
seconds by these rules."""
_RULES = """
**Rows** hardly matter to `decompose`: 1,000 times as many take twice as long. `explain` takes time in proportion to
them.
**Trees**: ten times as many trees take three times as long if they have depth 2, and 2.4 times as long if they have
depth 6. Leaf-wise trees take time in proportion to their leaves.
**Depth**: twice the depth takes four times as long, until trees are so deep that they have few rows per leaf.
**Features**: what counts is the number of pairs of features that are split together in a tree.
**Outputs**: five classes take 2.5 times as long as one score with as many rounds, and twenty take 7 times as long.
**Memory**: add up 0.2 GB for the libraries, the model, the rows, and what `plan` says; `budget=` limits only the last
of these.
**Less time**: `seconds=20` limits `decompose` to about so long, `max_order=2` leaves out terms above pairs, and Numba
(`pip install numba`) helps where the two tables below differ.
"""
_METHOD = """All runs use default options. Times are seconds of one core, added up over all threads, on this machine:
{machine}. A process loads a trained model and its rows, and then takes the steps from left to right. The column
"explain, all" is `fx.explain` of all rows, 1,000 at a time; a number after ≈ is extrapolated from the rows of the first
20 seconds. The column "peak GB" is the largest memory of the whole process, with libraries, model and rows, through all
steps. Code that Numba compiles is kept on disk; its first use takes some seconds more."""
_HEAD = ("model", "rows", "leaves", "outputs")
_STEPS = {
    "decompose": "decompose",
    "importance": "importance",
    "explain": "explain, 200 rows",
    "explain_all": "explain, all",
    "report": "report",
}


def text(results: Mapping[str, Any]) -> str:
    """The page; cases come in the order of `CASES`, and those without numbers are named in the end."""
    cases = {name: results["cases"][name] for name in CASES if name in results["cases"]}
    rules = "\n".join("- " + _filled(rule).replace("\n", "\n  ") for rule in re.split(r"\n(?=\*\*)", _RULES.strip()))
    method = _filled(_METHOD.format(machine=results.get("machine", "not known")))
    sections = [_INTRO.format(rule=f"{_filled(_RULE)}\n\n{rules}", method=method).rstrip()]
    for variant in ("with Numba", "without Numba"):
        lines = [_line(name, case, variant) for name, case in cases.items() if variant in case["variants"]]
        if lines:
            sections.append(f"## {variant[0].upper()}{variant[1:]}\n\n{table_text(_columns(), lines)}".rstrip())
    sections += _notes(cases)
    missing = [f"- {case.model}; {case.data}" for name, case in CASES.items() if name not in cases]
    if missing:
        sections.append("These models have no numbers here yet:\n\n" + "\n".join(missing))
    return "\n\n".join(sections) + "\n"


def _filled(words: str) -> str:
    return textwrap.fill(" ".join(words.split()), _WIDTH, break_on_hyphens=False)


def _columns() -> list[str]:
    return [*_HEAD, "plan says", *_STEPS.values(), "save", "load", "file MB", "plan says GB", "peak GB"]


def _line(name: str, case: Mapping[str, Any], variant: str) -> list[str]:
    tasks = case["variants"][variant]
    quick = f", cut to {case['n_trees']} trees" if case["quick"] else ""
    rows = f"{case['data']}, {case['n_rows']:,} × {case['n_features']}"
    head = [f"{case['model']}{quick}", rows, f"{case['n_leaves']:,}", f"{CASES[name].n_outputs}"]
    steps = [_cell(tasks[task], "seconds", seconds) for task in _STEPS]
    file = [_cell(tasks["files"], key, form) for key, form in (("save_seconds", seconds), ("load_seconds", seconds))]
    peak = max(numbers.get("peak_bytes", 0) for numbers in tasks.values())
    planned = [_cell(tasks["plan"], "planned_seconds", seconds), _cell(tasks["plan"], "planned_bytes", _giga)]
    return [*head, planned[0], *steps, *file, _cell(tasks["files"], "bytes", _mega), planned[1], _giga(peak)]


def _cell(numbers: Numbers, name: str, form: Callable[[float], str]) -> str:
    value = numbers.get(name)
    if value is None:
        return "see below"
    return ("≈ " if numbers.get("is_scaled") and name == "seconds" else "") + form(value)


def seconds(value: float) -> str:
    """Seconds with two or three digits."""
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _giga(value: float) -> str:
    return f"{value / 1e9:.2f}"


def _mega(value: float) -> str:
    return f"{value / 1e6:.2g}" if value < 1e7 else f"{value / 1e6:,.0f}"


def _notes(cases: Mapping[str, Any]) -> list[str]:
    """Why a cell has no number."""
    notes = [
        f"- {case['model']}; {case['data']}, {variant}, {task}: {numbers['error']}"
        for case in cases.values()
        for variant, tasks in case["variants"].items()
        for task, numbers in tasks.items()
        if "error" in numbers
    ]
    return ["Steps without a number:\n\n" + "\n".join(notes)] if notes else []


# Runs


def compare(name: str, numbers: Mapping[str, Any]) -> None:
    """Print seconds and peaks before and after."""
    lines = []
    for task in _COMPARED:
        before, after = (numbers["variants"][variant][task] for variant in ("before", "with Numba"))
        if "error" in before or "error" in after:
            lines.append(
                [task, *(found.get("error", seconds(found.get("seconds", 0))) for found in (before, after)), "", ""]
            )
            continue
        ratio = before["seconds"] / after["seconds"]
        peaks = " → ".join(_giga(found["peak_bytes"]) for found in (before, after))
        lines.append([task, seconds(before["seconds"]), seconds(after["seconds"]), f"{ratio:.2f}", peaks])
    print(f"\n{name}\n")
    print_table(["step", "seconds before", "after", "ratio", "peak GB"], lines)


def _machine() -> str:
    return f"{os.cpu_count()} cores, {platform.system()}, Python {platform.python_version()}"


def _updated(results: pathlib.Path, update: Mapping[str, Any]) -> dict[str, Any]:
    """The contents of the file of results, after an update of it; cases are replaced one by one."""
    kept: dict[str, Any] = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {"cases": {}}
    kept |= {**update, "cases": {**kept["cases"], **update.get("cases", {})}}
    results.parent.mkdir(parents=True, exist_ok=True)
    results.write_text(json.dumps(kept, indent=1), encoding="utf-8")
    return kept


def run(
    *,
    full: bool = False,
    cases: Iterable[str] | None = None,
    before: pathlib.Path | None = None,
    results: pathlib.Path | None = None,
    rounds: int = 1,
    timeout: float = _LIMIT,
    quick: bool = False,
) -> None:
    """Measure cases, keep their numbers, and write the page from all that are kept; or print a comparison."""
    del full  # all cases are measured by default
    results = results or FOLDER / f"cost{'-quick' * quick}.json"
    names = list(cases if cases is not None else CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SystemExit(f"`--cases` must be names of cases, got {unknown[0]}; choose from {', '.join(CASES)}.")
    kept = _updated(results, {})
    for name in names:
        try:
            model = trained(name, FOLDER, quick=quick)
        except (DataMissingError, ImportError) as error:
            print(f"{name} is left out: {error}.", file=sys.stderr, flush=True)
            continue
        numbers = measure_case(name, model, before, rounds=rounds, timeout=timeout)
        if before is not None:
            compare(name, numbers)
        else:
            kept = _updated(results, {"machine": _machine(), "cases": {name: numbers}})
    if before is None:
        page = text(kept)
        (results.with_suffix(".md") if quick else _PAGE).write_text(page, encoding="utf-8")
        print(page)
