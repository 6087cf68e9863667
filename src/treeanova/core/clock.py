"""Clock: how much of a limited time is left, and work that stops when none is."""

from __future__ import annotations

import math
import time

from treeanova.core.progress import Progress


class OutOfTime(Exception):  # noqa: N818
    """A limited time is over; who started the work goes on without it."""


class Clock:
    """A limit of seconds, counted from now; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds that are left; infinite without a limit, 0 when they are over."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def is_limited(self) -> bool:
        """Whether there is a limit."""
        return self._end < math.inf

    def part(self, share: float, reserved: float = 0.0) -> Clock:
        """A clock for a part of the work: a share of the seconds that are left after some that are reserved."""
        return Clock(max(share * (self.left - reserved), 0.0) if self.is_limited else None)

    def check(self) -> None:
        """Raise OutOfTime when the time is over."""
        if self.left <= 0.0:
            raise OutOfTime

    def stopping(self, progress: Progress) -> Progress:
        """Progress that raises OutOfTime at the first step after the time is over."""

        def report(stage: str, done: int, total: int) -> None:
            """One step."""
            self.check()
            progress(stage, done, total)

        return report if self.is_limited else progress
