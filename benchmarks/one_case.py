"""CPU seconds, peak memory and sizes of files for one model: a script that prints a line of JSON for each task.

``python -P benchmarks/one_case.py MODEL.pkl FOLDER plan decompose importance explain explain_all report files``, with
PYTHONPATH set to the sources of the version that is measured. It uses only what all versions have. Tasks share one
process: importance, explanations, report and files are those of the decomposition that `decompose` made. Peak memory is
that of the whole process during a task, with libraries, model and rows.
"""

from __future__ import annotations

import contextlib
import json
import pathlib
import pickle
import resource
import sys
import time
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

import treeanova

_EXPLAINED_ROWS, _ROWS_AT_ONCE = 200, 1_000
_SECONDS_FOR_ALL = 20.0  # after them, the seconds for all rows are in proportion to those that were explained
_PEAK = "VmHWM:"
Result = TypeVar("Result")


def _forget_peak() -> None:
    """Let the peak of memory begin anew, where the system can."""
    with contextlib.suppress(OSError):
        pathlib.Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _peak_bytes() -> int:
    with contextlib.suppress(OSError):
        for line in pathlib.Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(_PEAK):
                return 1024 * int(line.split()[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def _measured(function: Callable[[], Result]) -> tuple[dict[str, float], Result]:
    _forget_peak()
    start = time.process_time()
    result = function()
    return {"seconds": time.process_time() - start, "peak_bytes": _peak_bytes()}, result


class Tasks:
    """What can be measured of a model and its rows."""

    def __init__(self, model: Any, rows: Any, folder: pathlib.Path) -> None:
        self.model, self.rows, self.folder = model, rows, folder
        self.fx: Any = None

    def plan(self) -> dict[str, Any]:
        """What is said before any work."""
        numbers, plan = _measured(lambda: treeanova.plan(self.model, self.rows))
        return numbers | {"planned_seconds": getattr(plan, "seconds", None), "planned_bytes": plan.n_bytes}

    def decompose(self) -> dict[str, Any]:
        """The decomposition with default options."""
        numbers, self.fx = _measured(lambda: treeanova.decompose(self.model, self.rows))
        error = float(self.fx.certificate.reconstruction_error)
        return numbers | {"n_terms": len(self.fx.terms), "reconstruction_error": error}

    def importance(self) -> dict[str, Any]:
        """The table of all terms."""
        return _measured(self.fx.importance)[0]

    def explain(self) -> dict[str, Any]:
        """All terms at some rows."""
        return _measured(lambda: self.fx.explain(self.rows.iloc[:_EXPLAINED_ROWS]))[0]

    def explain_all(self) -> dict[str, Any]:
        """All terms at all rows, some at a time, none of which are kept."""
        n_rows = [0]

        def explain() -> None:
            end = time.process_time() + _SECONDS_FOR_ALL
            while n_rows[0] < len(self.rows) and time.process_time() < end:
                self.fx.explain(self.rows.iloc[n_rows[0] : n_rows[0] + _ROWS_AT_ONCE])
                n_rows[0] = min(n_rows[0] + _ROWS_AT_ONCE, len(self.rows))

        numbers = _measured(explain)[0]
        share = n_rows[0] / len(self.rows)
        return numbers | {"seconds": numbers["seconds"] / share, "is_scaled": share < 1}

    def report(self) -> dict[str, Any]:
        """The page."""
        page = self.folder / "page.html"
        numbers, _ = _measured(lambda: treeanova.write_report(self.fx, page))
        return numbers | {"bytes": page.stat().st_size}

    def files(self) -> dict[str, Any]:
        """Save, and load again."""
        file = self.folder / "decomposition.tav"
        saved, _ = _measured(lambda: self.fx.save(file))
        loaded, _ = _measured(lambda: treeanova.load(file))
        return {"save_seconds": saved["seconds"], "load_seconds": loaded["seconds"], "bytes": file.stat().st_size}


def main(path: str, folder: str, *names: str) -> None:
    """Print the numbers of all tasks, each when it is done; an error ends that task only."""
    warnings.simplefilter("ignore")
    print(json.dumps({"task": "start", "file": treeanova.__file__}), flush=True)
    _ = treeanova.decompose, treeanova.write_report  # some versions load their own modules when names are first used
    model, rows = pickle.loads(pathlib.Path(path).read_bytes())  # noqa: S301  our own file
    tasks = Tasks(model, rows, pathlib.Path(folder))
    for name in names:
        try:
            numbers = getattr(tasks, name)()
        except Exception as error:  # noqa: BLE001  whatever it is, it is a result
            numbers = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps({"task": name, **numbers}), flush=True)
        if tasks.fx is None and name == "decompose":
            return


if __name__ == "__main__":
    main(*sys.argv[1:])
