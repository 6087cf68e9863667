"""The command line as tests run it: in this process or another, without what the environment says of terminals."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from typing import Any

COMMAND = [sys.executable, "-m", "treeanova"]
# What colours, widens or lengthens output: a CI service, a user or pytest's own options may have set any of it.
TERMINAL_VARIABLES = (
    "CLICOLOR_FORCE", "COLUMNS", "FORCE_COLOR", "GITHUB_ACTIONS", "LINES", "NO_COLOR", "PYTHONDEVMODE",
    "PYTHONWARNINGS", "PY_COLORS", "TERMINAL_WIDTH", "TREEANOVA_TRACEBACK", "TTY_COMPATIBLE", "TTY_INTERACTIVE",
    "TYPER_USE_RICH",
)  # fmt: skip


def plain_environment() -> dict[str, str]:
    """Variables for another process: 100 columns, no colours, one thread."""
    kept = {name: value for name, value in os.environ.items() if name not in TERMINAL_VARIABLES}
    return {**kept, "COLUMNS": "100", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONSAFEPATH": "1"}


def printed(arguments: Iterable[object], capsys: Any) -> str:
    """Output of a command that succeeds; it may write nothing to standard error."""
    status, output, errors = _run([str(argument) for argument in arguments], capsys)
    if (status, errors) != (0, ""):
        raise AssertionError(f"the command must succeed, got status {status}: {errors}")
    return output


def refused(arguments: Iterable[object], capsys: Any, status: int = 2) -> str:
    """The one line that a command writes to standard error when it fails with a status."""
    found, output, errors = _run([str(argument) for argument in arguments], capsys)
    if (found, output) != (status, ""):
        raise AssertionError(f"the command must fail with status {status}, got {found}: {output}{errors}")
    if not errors.startswith("treeanova: ") or errors.count("\n") != 1:
        raise AssertionError(f"the command must explain itself in one line, got {errors!r}")
    return errors


def _run(arguments: Sequence[str], capsys: Any) -> tuple[int, str, str]:
    from treeanova.cli import run

    status = run(arguments)
    captured = capsys.readouterr()
    return status, captured.out, captured.err
