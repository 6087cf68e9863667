"""The command line: ``treeanova explain | table | compare | …``.

Answers go to standard output; progress goes to standard error if that is a terminal. Exit status: 0, also when the
reader of a pipe has gone; 2, with one line, for bad input; 130 on Ctrl-C; 1 for faults of treeanova itself.
TREEANOVA_TRACEBACK=1 shows where an error comes from.
"""

from __future__ import annotations

try:
    import rich
    import typer
except ImportError as _error:
    raise ImportError(f"the command line needs typer and rich ({_error}); pip install typer rich") from _error

from treeanova.cli.commands import main, run

del rich, typer

__all__ = ["main", "run"]
