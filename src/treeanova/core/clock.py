"""Clock: how much of a limited time is left."""

from __future__ import annotations

import math
import time


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
