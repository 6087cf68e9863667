"""The page of docs/deep.md, written from the numbers that `benchmarks.before_after` keeps."""

from __future__ import annotations

import contextlib
import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from benchmarks.timing import print_table

_INTRO = """# Deep ensembles: cost and accuracy

Written by `python -m benchmarks deep --full`.

## What was measured

{method}

{units}
"""
_METHOD = """Large models on public tables and on a simulated one, decomposed with the default options of treeanova. A
process loads a trained model and its rows, decomposes the model, and then takes the steps of the other tables with this
decomposition, in their order. Every model and version has a process of its own."""
_VERSIONS = """ "After" is this version (commit {after}), "before" an earlier one ({before}). Both get the same file of
model and rows. A ratio is the time before divided by the time after."""
_UNITS = """Seconds are wall-clock time, without the time to load libraries, model and rows. Memory is the peak of the
whole process during a step, libraries, model and rows included, in GB of 10⁹ bytes. A dash means: not measured.
Code that Numba compiles is kept on disk; its first use takes some seconds more. Machine: {machine}."""
_WIDTH = 120
_QUESTIONS = {
    "decompose": ("Decompose", "`treeanova.decompose(model, X)`. Terms: those that are listed."),
    "importance": ("Importance", "`fx.importance()`: the variance that each term carries."),
    "explain": ("Explain", "`fx.explain(X[:200])`: all terms at 200 rows."),
    "report": (
        "Report",
        "`treeanova.write_report(fx, path)`, importances known. In all: decomposition, importances and page.",
    ),
}
_SHARES = (
    "Shares of the variance of the score by order; means over the outputs where there are several. Terms that are only "
    "added up count in their order."
)
_FILES = "`fx.save(path)`, `treeanova.load(path)`, and the file that the model's own library writes (forests: pickle)."
_STEPS_TO_PAGE = ("decompose", "importance", "report")
NOT_MEASURED = "–"


class Line(NamedTuple):
    """The numbers of one case."""

    label: str
    case: Mapping[str, Any]

    def number(self, variant: str, task: str, name: str) -> float | None:
        """A number, or None where it was not measured."""
        found = self.case["variants"].get(variant, {}).get(task, {}).get(name)
        return None if found is None else float(found)

    def error(self, variant: str, task: str) -> str | None:
        """Why there are no numbers of a task."""
        found = self.case["variants"].get(variant, {}).get(task, {}).get("error")
        return None if found is None else str(found)


class Column(NamedTuple):
    """A column of a table: its head and its cells."""

    head: str
    cells: list[str]


def text(results: Mapping[str, Any], labels: Mapping[str, str]) -> str:
    """The page; cases come in the order of `labels`, and those without numbers are named in the end."""
    lines = [Line(_label(case), case) for case in (results["cases"].get(name) for name in labels) if case]
    missing = [label for name, label in labels.items() if name not in results["cases"]]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        print(_intro(results, lines), end="")
        for task in _QUESTIONS:
            _print_question(task, [line for line in lines if task in line.case["variants"]["after"]])
        _print_files([line for line in lines if "files" in line.case["variants"]["after"]])
        if missing:
            print("\nModels without numbers:\n\n" + "\n".join(f"- {label}" for label in missing))
        print(results.get("peers", ""), end="")
    return printed.getvalue()


def _label(case: Mapping[str, Any]) -> str:
    quick = f", cut to {case['n_trees']} trees" if case["quick"] else ""
    return f"{case['model']}{quick}; {case['data']} ({case['n_rows']:,} × {case['n_features']})"


def _intro(results: Mapping[str, Any], lines: Sequence[Line]) -> str:
    commits = {
        variant: ", ".join(sorted({line.case["commits"][variant] for line in lines if variant in line.case["commits"]}))
        for variant in ("before", "after")
    }
    method = _METHOD + (_VERSIONS.format(**commits) if commits["before"] else "")
    units = _UNITS.format(machine=results.get("machine", "not known"))
    return _INTRO.format(method=textwrap.fill(method, _WIDTH), units=textwrap.fill(units, _WIDTH))


# Cells


def seconds(value: float) -> str:
    """Seconds with three digits, fewer below a second."""
    return f"{value:.2f}" if value < 10 else f"{value:,.1f}" if value < 100 else f"{value:,.0f}"


def _giga(value: float) -> str:
    return f"{value / 1e9:.2f}"


def _mega(value: float) -> str:
    return f"{value / 1e6:.2g}" if value < 1e7 else f"{value / 1e6:,.0f}"


def _ratio(before: float | None, after: float | None) -> str:
    if before is None or not after:
        return NOT_MEASURED
    ratio = before / after
    return f"{ratio:.1f}×" if ratio < 10 else f"{ratio:,.0f}×"


def _pair(lines: Sequence[Line], head: str, task: str, name: str, form: Any) -> Iterator[Column]:
    """A number before and after, the former only where some case has it."""
    for variant in ("before", "after"):
        cells = [_cell(line, variant, task, name, form) for line in lines]
        if variant == "after" or any(variant in line.case["variants"] for line in lines):
            yield Column(f"{head} {variant}" if _has_before(lines) else head, cells)


def _cell(line: Line, variant: str, task: str, name: str, form: Any) -> str:
    number = line.number(variant, task, name)
    if number is not None:
        return str(form(number))
    return NOT_MEASURED if line.error(variant, task) is None else "failed"


def _has_before(lines: Sequence[Line]) -> bool:
    return any("before" in line.case["variants"] for line in lines)


# Tables


def _print_question(task: str, lines: Sequence[Line]) -> None:
    if not lines:
        return
    title, explained = _QUESTIONS[task]
    print(f"\n## {title}\n\n{explained}\n")
    _print_columns(_columns(task, lines))
    _print_errors(task, lines)
    if task == "importance":
        _print_shares(lines)


def _columns(task: str, lines: Sequence[Line]) -> Iterator[Column]:
    yield Column("model and rows", [line.label for line in lines])
    if task == "decompose":
        yield from _pair(lines, "terms", task, "n_terms", "{:,.0f}".format)
    yield from _pair(lines, "seconds", task, "seconds", seconds)
    if _has_before(lines):
        found = [[line.number(variant, task, "seconds") for variant in ("before", "after")] for line in lines]
        yield Column("ratio", [_ratio(*numbers) for numbers in found])
    if any("without Numba" in line.case["variants"] for line in lines):
        yield Column(
            "seconds without Numba", [_cell(line, "without Numba", task, "seconds", seconds) for line in lines]
        )
    yield from _pair(lines, "peak GB", task, "peak_bytes", _giga)
    if task == "report":
        yield from _in_all(lines)
        yield from _pair(lines, "page MB", task, "bytes", _mega)


def _in_all(lines: Sequence[Line]) -> Iterator[Column]:
    """Seconds from a model to its page."""
    for variant in ("before", "after") if _has_before(lines) else ("after",):
        steps = [[line.number(variant, task, "seconds") for task in _STEPS_TO_PAGE] for line in lines]
        totals = [NOT_MEASURED if None in found else seconds(sum(filter(None, found))) for found in steps]
        yield Column(f"in all {variant}" if _has_before(lines) else "in all", totals)


def _print_columns(columns: Iterator[Column]) -> None:
    listed = list(columns)
    print_table([column.head for column in listed], list(zip(*(column.cells for column in listed), strict=True)))


def _print_errors(task: str, lines: Sequence[Line]) -> None:
    found = [(line, variant, line.error(variant, task)) for line in lines for variant in line.case["variants"]]
    errors = [f"- {line.label}, {variant}: {error}" for line, variant, error in found if error is not None]
    if errors:
        print("\nFailed:\n\n" + "\n".join(errors))


def _print_shares(lines: Sequence[Line]) -> None:
    shares = {
        (line.label, variant): line.case["variants"].get(variant, {}).get("importance", {}).get("shares")
        for line in lines
        for variant in ("before", "after")
    }
    shares = {place: found for place, found in shares.items() if found}
    orders = sorted({order for found in shares.values() for order in found}, key=lambda order: (len(order), order))
    if orders:
        print(f"\n{_SHARES}\n")
        head = [order if order == "remainder" else f"order {order}" for order in orders]
        rows = [[*place, *(_share(found.get(order)) for order in orders)] for place, found in shares.items()]
        print_table(["model and rows", "version", *head], rows)


def _share(value: float | None) -> str:
    return "" if value is None else f"{value:.1%}".replace("-0.0%", "0.0%")


def _print_files(lines: Sequence[Line]) -> None:
    if not lines:
        return
    print(f"\n## Files\n\n{_FILES}\n")
    columns = [
        Column("model and rows", [line.label for line in lines]),
        Column("model's file MB", [_mega(line.case["model_bytes"]) for line in lines]),
        *_pair(lines, "saved MB", "files", "bytes", _mega),
        *_pair(lines, "save seconds", "files", "save_seconds", seconds),
        *_pair(lines, "load seconds", "files", "load_seconds", seconds),
    ]
    _print_columns(iter(columns))
    _print_errors("files", lines)
