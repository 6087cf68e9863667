"""The terminal: answers, progress, errors in one line, exit status."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import threading
import traceback
import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import typer

from treeanova.core.progress import Bar, Progress, quiet, rewrites_lines

_SECONDS_TO_STOP = 1.5
# The base of typer's own errors, wherever a version of typer has it.
_UsageError: type[Exception] = next(kind for kind in typer.BadParameter.__mro__ if kind.__name__ == "ClickException")
_BAD_INPUT = (ValueError, TypeError, KeyError, OSError, MemoryError, ImportError, _UsageError)
STOPPED = 130
_OPTIONS = {"`y`": "`--target`", "`sample_weight`": "`--weight`", "`group`": "`--group`", "`loss`": "`--loss`"}
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")

Row = Mapping[str, Any]
_SHOWN: list[Bar] = []  # the bar of the command that runs


def say(text: str) -> None:
    """Print an answer in place of the progress bar."""
    _clear_line()
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@contextlib.contextmanager
def progress() -> Iterator[Progress]:
    """Show a progress bar while a command runs; none if the output is not a terminal."""
    if not rewrites_lines(sys.stderr):
        yield quiet
        return
    with Bar(keeps_lines=False) as bar:
        _SHOWN.append(bar)
        try:
            yield bar
        finally:
            _SHOWN.remove(bar)


def _clear_line() -> None:
    """Remove the progress bar, to make room for an answer or a message."""
    for bar in _SHOWN:
        bar.clear()


def line_of(error: BaseException) -> str:
    """Return the message of an error as one line, with options in place of arguments; its kind if it has none."""
    if hasattr(error, "format_message"):
        text = str(error.format_message())
    elif isinstance(error, OSError) and error.strerror:
        text = f"{error.strerror}: {error.filename}" if error.filename else error.strerror
    else:
        text = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    for argument, option in _OPTIONS.items():
        text = text.replace(argument, option)
    return _one_line(text) or type(error).__name__


def _one_line(text: str) -> str:
    """Return one line without characters that control a terminal: names come from files."""
    from treeanova.data.columns import printable  # noqa: PLC0415  slow to load

    return printable(" ".join(text.split()))


def _complain(text: str) -> None:
    """Print a message to standard error, and the traceback if an environment variable asks for it."""
    if os.environ.get("TREEANOVA_TRACEBACK") == "1" and sys.exc_info()[0] is not None:
        traceback.print_exc()
    _clear_line()
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"treeanova: {text}\n")


def _warn(message: Warning | str, *_: Any, **__: Any) -> None:
    """Print a warning in one line, in place of `warnings.showwarning`."""
    _clear_line()
    with contextlib.suppress(BrokenPipeError):
        sys.stderr.write(f"treeanova: warning: {_one_line(str(message))}\n")


def run_app(app: typer.Typer, arguments: Sequence[str]) -> int:
    """Run a command; return 0, 2 for bad input, 1 for a fault of ours, or 130 if it was stopped."""
    try:
        with warnings.catch_warnings():
            warnings.showwarning = _warn
            result = app(args=list(arguments), prog_name="treeanova", standalone_mode=False)
    except (BrokenPipeError, SystemExit):  # the second is typer's answer to the first, and to nothing else
        sys.stdout = open(os.devnull, "w", encoding="utf-8")  # noqa: PTH123, SIM115  for the flush at exit
        return 0
    except (KeyboardInterrupt, typer.Abort):
        result = STOPPED
    except _BAD_INPUT as error:
        _complain(line_of(error))
        return 2
    except Exception as error:  # noqa: BLE001  a fault of ours
        _complain(f"internal error, {type(error).__name__}: {line_of(error)}; TREEANOVA_TRACEBACK=1 shows where")
        return 1
    if result == STOPPED:
        _complain("stopped")
    return result if isinstance(result, int) else 0


def _stop(*_: object) -> None:
    """Stop soon: by an exception, which removes half-written files, or by force if threads do not end."""
    for bar in _SHOWN:
        bar.close()
    timer = threading.Timer(_SECONDS_TO_STOP, os._exit, (STOPPED,))
    timer.daemon = True
    timer.start()
    raise KeyboardInterrupt


def prepare_process() -> None:
    """Make Ctrl-C stop soon; closed streams and characters that a terminal lacks raise no errors."""
    signal.signal(signal.SIGINT, _stop)
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # closed by the caller, as by >&-
            setattr(sys, name, open(os.devnull, "w", encoding="utf-8"))  # noqa: PTH123, SIM115
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def aligned(rows: Sequence[Row]) -> str:
    """Format records, all with the same names, as text columns."""
    from treeanova.data.columns import aligned as aligned_columns  # noqa: PLC0415  slow to load

    return aligned_columns({name: [row[name] for row in rows] for name in (rows[0] if rows else {})})


def as_csv(rows: Sequence[Row]) -> str:
    """Return records, all with the same names, as CSV with a head."""
    lines = [list(rows[0]), *(row.values() for row in rows)] if rows else [[]]
    return "".join(f"{','.join(map(_csv_cell, line))}\n" for line in lines)


def _csv_cell(value: Any) -> str:
    """Return a cell of CSV; text that a spreadsheet would run as a formula gets a single quote in front."""
    from treeanova.data.columns import is_number  # noqa: PLC0415  slow to load

    if value is None or value != value:  # noqa: PLR0124
        return ""
    text = str(value)
    if isinstance(value, str) and text.startswith(_FORMULA_STARTS) and not is_number(text):
        text = f"'{text}"
    if not any(character in text for character in '",\r\n'):  # csv.writer leaves a carriage return without quotes
        return text
    return '"' + text.replace('"', '""') + '"'


def as_json(value: Any) -> str:
    from treeanova.decomposition.result import plain  # noqa: PLC0415  slow to load

    return json.dumps(plain(value), indent=2, allow_nan=False, ensure_ascii=False)
