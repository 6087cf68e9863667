"""Progress reporting: a function that is called with the stage, the steps done and the number of steps."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable

Progress = Callable[[str, int, int], None]

_WIDTH = 30  # characters
_PAUSE = 0.1  # seconds


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


class Bar:
    """A progress bar on the standard error, drawn at most ten times a second."""

    def __init__(self) -> None:
        self._last = 0.0

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Draw the bar, and end the line at the last step of a stage."""
        now = time.monotonic()
        if done < total and now - self._last < _PAUSE:
            return
        self._last = now
        filled = _WIDTH * done // max(total, 1)
        end = "\n" if done == total else ""
        sys.stderr.write(f"\r{stage:<28} [{'#' * filled}{' ' * (_WIDTH - filled)}] {done:,}/{total:,}{end}")
        sys.stderr.flush()


def progress_of(wanted: bool | Progress | None) -> Progress:
    """The function that reports progress: a bar for True, `quiet` for False and None; a function is returned as is."""
    if callable(wanted):
        return wanted
    if not isinstance(wanted, (bool, type(None))):
        raise TypeError(f"`progress` must be True, False, None or a function, got {wanted!r}; leave it out for none.")
    return Bar() if wanted else quiet
