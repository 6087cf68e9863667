"""Other tools that explain trees, on the same models and rows: CPU seconds and wall-clock time.

``python -m benchmarks peers`` trains models of eight kinds, asks every installed tool for numbers of 150, 1,000 and
20,000 rows, each tool in processes of its own on one thread, all in turns, and writes docs/peers.md. Tools that are not
installed are named on the page. Numbers are kept in a file (``--results``) that later runs update, so that models can
be measured one by one (``--cases NAME ...``). ``--quick`` takes tiny models and only prints.
"""

from __future__ import annotations

import collections
import functools
import importlib.metadata
import json
import math
import os
import pathlib
import pickle
import platform
import subprocess
import sys
import tempfile
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from benchmarks import peer_tools, real_models
from benchmarks.cost import FOLDER
from benchmarks.timing import table_text
from studies.common import DataMissingError

_PAGE = pathlib.Path(__file__).parents[1] / "docs" / "peers.md"
_LIMIT = 10.0  # seconds of CPU for a call; `peer_tools` gives more to prepare
_SHORT = 10.0  # what compiling may add matters to shorter calls only
_WIDTH = 120
_VALUES = ("treeanova values", "library values", "shap values", "shap background", "woodelf values")
_PAIRS = ("treeanova terms", *(tool for tool in peer_tools.TOOLS if tool.endswith("pairs")))
_PACKAGES = {"woodelf": "woodelf_explainer"}


class Case(NamedTuple):
    """A model that is trained when it is measured."""

    label: str
    model: str
    rows: Callable[[], real_models.Data]
    fit: real_models.Fit
    n_trees: int = 100
    n_training_rows: int = 20_640


def _xgboost(depth: int, kind: str = "Regressor") -> real_models.Fit:
    return functools.partial(real_models.boosted_by_xgboost, depth=depth, kind=kind)


def _lightgbm(n_leaves: int, kind: str = "Regressor") -> real_models.Fit:
    return functools.partial(real_models.boosted_by_lightgbm, n_leaves=n_leaves, kind=kind)


def _california(depth: int) -> Case:
    model = f"XGBoost, 100 trees of depth {depth}; California"
    return Case(f"depth {depth}", model, real_models.california, _xgboost(depth))


CASES = {
    **{f"depth-{depth}": _california(depth) for depth in (2, 4, 6, 8)},
    "leaves-127": Case(
        "127 leaves", "LightGBM, 200 trees of 127 leaves; California", real_models.california, _lightgbm(127), 200
    ),
    "forest": Case(
        "forest", "random forest, default (100 full trees); California", real_models.california, real_models.forest
    ),
    "categories": Case(
        "categories",
        "LightGBM, 100 trees of 31 leaves; adult, with categories",
        real_models.adult,
        _lightgbm(31, "Classifier"),
    ),
    "classes": Case(
        "7 classes",
        "XGBoost, 7 × 40 trees of depth 5; cover types",
        real_models.cover_types,
        _xgboost(5, "Classifier"),
        40,
    ),
}


class Measured(NamedTuple):
    """What one tool takes for one model: seconds by call, or why there are none."""

    calls: Mapping[str, Mapping[str, Any]]
    error: str = ""
    is_absent: bool = False

    def total(self, size: int, clock: str = "cpu") -> float | None:
        """Seconds to prepare and to answer for so many rows."""
        numbers = [self.calls.get(name, {}).get(clock) for name in ("prepare", str(size))]
        return None if None in numbers else math.fsum(number or 0.0 for number in numbers)


# Measure


def measure(path: pathlib.Path, tools: Sequence[str], limit: float) -> dict[str, Measured]:
    """Tools of one package in a process of its own, and in another one after the system has ended it."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "benchmarks.peer_tools", str(path), f"{limit:g}", *tools]
    done = subprocess.run(  # noqa: S603
        command, env=environment, capture_output=True, text=True, check=False, cwd=_PAGE.parents[1]
    )
    lines = [json.loads(line) for line in done.stdout.splitlines() if line.startswith('{"tool')]
    found = {tool: _measured([line for line in lines if line["tool"] == tool]) for tool in tools}
    for tool, before in zip(tools[1:], tools, strict=False):  # prepared in the same way, so once
        if peer_tools.TOOLS[tool].prepare is peer_tools.TOOLS[before].prepare and "prepare" in found[before].calls:
            shared = {"prepare": found[before].calls["prepare"]}
            found[tool] = found[tool]._replace(calls={**shared, **found[tool].calls})
    if done.returncode:
        last = lines[-1]["tool"] if lines else tools[0]
        begun = lines[-1].get("begin", "") if lines else "loading"
        what = f"{int(begun):,} rows" if begun.isdigit() else begun
        seconds = limit * peer_tools.FACTOR_TO_PREPARE if begun == "prepare" else limit
        found[last] = found[last]._replace(error=f"{what}: not finished after {seconds:g} s of CPU, or out of memory")
        found |= measure(path, tools[tools.index(last) + 1 :], limit) if last != tools[-1] else {}
    return found


def _measured(lines: Sequence[Mapping[str, Any]]) -> Measured:
    """The numbers of the lines of one tool."""
    calls = {line["call"]: line for line in lines if "call" in line}
    failed = [line for line in lines if "error" in line]
    error = failed[0]["error"].strip().partition("\n")[0] if failed else ""
    return Measured(calls, error, bool(failed) and failed[0]["absent"])


def _faster(first: Measured, second: Measured) -> Measured:
    calls = dict(first.calls)
    for name, call in second.calls.items():
        if name not in calls or call["cpu"] < calls[name]["cpu"]:
            calls[name] = call
    return first._replace(calls=calls)


def measure_case(case: Case, folder: pathlib.Path, limit: float, *, quick: bool) -> dict[str, Measured]:
    """All packages in turns, treeanova before and after the others if it is quick: its first calls may compile."""
    path = folder / "model.pkl"
    rows, target = case.rows()
    rows.columns = [f"f{j}" for j in range(rows.shape[1])]  # as treehfd needs them
    some = np.random.default_rng(0).permutation(len(rows))[: 400 if quick else case.n_training_rows]
    model = case.fit(rows.iloc[some], np.asarray(target)[some], 5 if quick else case.n_trees)
    path.write_bytes(pickle.dumps((model, rows.iloc[some]), protocol=4))
    packages: dict[str, list[str]] = collections.defaultdict(list)
    for tool in peer_tools.TOOLS:
        packages[tool.partition(" ")[0]].append(tool)
    found: dict[str, Measured] = {}
    for tools in packages.values():
        found |= measure(path, tools, limit)
    if found["treeanova terms"].calls.get("prepare", {}).get("cpu", _LIMIT) < _SHORT:
        again = measure(path, packages["treeanova"], limit)
        found |= {tool: _faster(found[tool], numbers) for tool, numbers in again.items()}
    return found


# Page

_TITLE = "# Other tools for trees: what they give, and how long they take"
_GIVEN_HEAD = ("tool", "per row", "orders", "adds up to the score", "weighs inputs by", "also")
_GIVEN = (
    (
        "`fx.explain(X)` of treeanova",
        "pure terms",
        "all; beyond what is listed, one sum per order",
        "yes",
        "a density of the rows, dependence included",
        "tables, importance, certificate; then any number of rows",
    ),
    ("… `.shap_values()`", "a number per feature", "folded into features", "yes", "the same", "of the same terms"),
    (
        "`pred_contribs`, `pred_contrib` (XGBoost, LightGBM)",
        "SHAP values",
        "folded into features",
        "yes",
        "training rows per path of a tree",
        "no other package is needed",
    ),
    (
        "`pred_interactions` (XGBoost)",
        "SHAP interactions",
        "2, higher ones folded into pairs",
        "yes",
        "training rows per path of a tree",
        "",
    ),
    (
        "shap, `TreeExplainer`",
        "SHAP values; interactions",
        "1; 2, higher ones folded into them",
        "yes",
        "paths of a tree, or given rows (values only)",
        "XGBoost's and LightGBM's values come from these libraries",
    ),
    (
        "shapiq, `TreeExplainer`",
        "Shapley interactions",
        "up to the one asked for",
        "yes",
        "training rows per path of a tree",
        "other indices",
    ),
    (
        "woodelf",
        "SHAP values; interactions",
        "1; 2, higher ones folded into them",
        "yes",
        "paths of a tree, or given rows",
        "Banzhaf values",
    ),
    ("treehfd", "ANOVA terms", "1 and 2", "no: a residual is left", "the rows, tree by tree", "XGBoost only"),
)
_HOW = """How to read the tables: seconds of CPU, with wall-clock seconds in brackets, to prepare a tool and to answer
for 150, 1,000 or 20,000 rows. For treeanova, preparing is `decompose(model, X)` with the default options and all rows
that the model was trained on; it is done once, whatever is asked later. "answer only" is without it. The smallest
number of a line is bold. A number after ≈ was not measured: it is on the line through those of 150 and 1,000 rows.
n/a: the tool has no number for this model; the reasons stand at the end. A call may take 10 seconds of CPU, preparing
50."""
_VALUES_HEAD = "A number per feature"
_PAIRS_HEAD = "Interactions"
_PAIRS_NOTE = """treeanova gives the terms of all orders, or main effects and pairs with `max_order=2`; the others give
pairs only, in which higher orders are folded, or left out (treehfd)."""
_BEHIND = "Where treeanova is behind"
_INTERPRET = """interpret explains trees of other libraries through shap, so it is not measured here; its own models
(EBMs) are compared in [glass-box.md](glass-box.md) and [accuracy.md](accuracy.md)."""


def page(found: Mapping[str, Mapping[str, Measured]]) -> str:
    """The text of the page."""
    labels = {name: CASES[name].label for name in found}
    sections = [
        _head(found),
        _filled(_HOW),
        "The models:\n\n" + "\n".join(f"- {CASES[n].label}: {CASES[n].model}" for n in found),
    ]
    sections += [f"## {_VALUES_HEAD}", _table(found, labels, _VALUES)]
    sections += [f"## {_PAIRS_HEAD}", _filled(_PAIRS_NOTE), _table(found, labels, _PAIRS)]
    sections += [f"## {_BEHIND}", *_behind(found, labels)]
    sections += ["## What is not there", _filled(_INTERPRET), *_errors(found, labels)]
    missing = [f"- {case.model}" for name, case in CASES.items() if name not in found]
    if missing:
        sections.append("Models without numbers here:\n\n" + "\n".join(missing))
    return "\n\n".join(section.strip("\n") for section in sections) + "\n"


def _filled(text: str) -> str:
    return textwrap.fill(" ".join(text.split()), _WIDTH, break_on_hyphens=False)


def _head(found: Mapping[str, Mapping[str, Measured]]) -> str:
    absent = {
        tool.partition(" ")[0] for tools in found.values() for tool, numbers in tools.items() if numbers.is_absent
    }
    machine = f"Each tool ran on one thread of a machine with {os.cpu_count()} cores ({platform.system()})"
    versions = ", ".join(f"{name} {version}" for name, version in _versions())
    words = f"Written by `python -m benchmarks peers`. {machine}: {versions}."
    if absent:
        words += f" Not installed, so without numbers: {', '.join(sorted(absent))}."
    return f"{_TITLE}\n\n{_filled(words)}\n\n## What each gives\n\n{table_text(_GIVEN_HEAD, _GIVEN)}"


def _versions() -> Iterator[tuple[str, str]]:
    names = sorted({tool.split()[0] for tool in peer_tools.TOOLS} - {"library", "treeanova"})
    for name in (*names, "xgboost", "lightgbm", "scikit-learn", "numba"):
        for distribution in (_PACKAGES.get(name, name), f"{name}-cpu"):
            try:
                yield name, importlib.metadata.version(distribution)
                break
            except importlib.metadata.PackageNotFoundError:
                continue


def _table(found: Mapping[str, Mapping[str, Measured]], labels: Mapping[str, str], tools: Sequence[str]) -> str:
    lines = []
    for name, numbers in found.items():
        for size in peer_tools.SIZES:
            totals = {tool: numbers[tool].total(size) for tool in tools}
            if all(total is None for total in totals.values()):
                continue
            least = min(total for total in totals.values() if total is not None)
            cells = [_cell(numbers[tool], size, least) for tool in tools]
            cells.insert(1, _seconds(numbers[tools[0]].calls.get(str(size), {}).get("cpu")))
            lines.append([labels[name], f"{size:,}", *cells])
    return table_text(["model", "rows", tools[0], "… answer only", *tools[1:]], lines)


def _seconds(value: float | None) -> str:
    if value is None:
        return "n/a"
    return f"{value:.2g}" if value < 10 else f"{value:,.0f}"


def _cell(numbers: Measured, size: int, least: float) -> str:
    total, wall = numbers.total(size), numbers.total(size, "wall")
    if total is None:
        return "n/a"
    if wall is None:
        return f"≈ {_seconds(total)}"
    text = f"{_seconds(total)} ({_seconds(wall)})"
    return f"**{text}**" if total == least else text


def _behind(found: Mapping[str, Mapping[str, Measured]], labels: Mapping[str, str]) -> Iterator[str]:
    """A sentence for each kind of answer, and the cases in which another tool is faster."""
    for what, tools in ((_VALUES_HEAD, _VALUES), (_PAIRS_HEAD, _PAIRS)):
        lines = []
        for name, numbers in found.items():
            for size in peer_tools.SIZES:
                totals = {tool: numbers[tool].total(size) for tool in tools}
                finished = {tool: total for tool, total in totals.items() if total is not None}
                best = min(finished, key=lambda tool: finished[tool], default=tools[0])
                us = min((total for tool, total in finished.items() if tool.startswith("treeanova")), default=None)
                if us is not None and not best.startswith("treeanova"):
                    lines.append(f"- {labels[name]}, {size:,} rows: {best} is {us / finished[best]:.1f} times as fast")
        title = f"{what}: treeanova takes more CPU, decomposition included, than the fastest other tool here:"
        yield f"{title}\n\n" + "\n".join(lines) if lines else f"{what}: nowhere in this table."


def _errors(found: Mapping[str, Mapping[str, Measured]], labels: Mapping[str, str]) -> Iterator[str]:
    reasons = [
        f"- {labels[name]}, {tool}: {numbers.error}"
        for name, tools in found.items()
        for tool, numbers in tools.items()
        if numbers.error and not numbers.is_absent
    ]
    if reasons:
        yield "Tools that gave no numbers, or not of all rows:\n\n" + "\n".join(reasons)


def _kept(results: pathlib.Path) -> dict[str, dict[str, Measured]]:
    """The numbers of a file of results, in the order of the page."""
    cases = json.loads(results.read_text(encoding="utf-8")) if results.is_file() else {}
    return {name: {tool: Measured(*cases[name][tool]) for tool in peer_tools.TOOLS} for name in CASES if name in cases}


def run(
    *, full: bool, cases: Iterable[str] | None = None, results: pathlib.Path | None = None, quick: bool = False
) -> None:
    """Measure cases, keep their numbers, and write the page from all that are kept."""
    del full  # there is one size
    names = list(cases if cases is not None else CASES)
    unknown = [name for name in names if name not in CASES]
    if unknown:
        raise SystemExit(f"`--cases` must be names of cases, got {unknown[0]}; choose from {', '.join(CASES)}.")
    results = results or FOLDER / f"peers{'-quick' * quick}.json"
    for name in names:
        print(f"{name} ...", file=sys.stderr, flush=True)
        try:
            with tempfile.TemporaryDirectory() as folder:
                measured = measure_case(CASES[name], pathlib.Path(folder), _LIMIT, quick=quick)
        except (DataMissingError, ImportError) as error:
            print(f"{name} is left out: {error}.", file=sys.stderr, flush=True)
            continue
        results.parent.mkdir(parents=True, exist_ok=True)
        results.write_text(json.dumps({**_kept(results), name: measured}), encoding="utf-8")
    text = page(_kept(results))
    print(text)
    if not quick:
        _PAGE.write_text(text, encoding="utf-8")
