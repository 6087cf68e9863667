"""Progress and time: progress functions, the bar, and a clock for time limits.

A progress function takes a stage, the steps done and their total. Each stage goes from 0 to its total before the next
begins. A stage whose steps cannot be counted has one step.
"""

from __future__ import annotations

import contextlib
import contextvars
import itertools
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Self, TextIO, TypeVar

from tqdm import tqdm

_SLOW = 2.0  # seconds after which a stage is worth a line that stays
_COUNTED = "{desc:<28} |{bar:20}| {n_fmt}/{total_fmt} [{elapsed}<{remaining}]"
_NOT_COUNTED = "{desc} [{elapsed}]"
Progress = Callable[[str, int, int], None]
T = TypeVar("T")


class _Line(tqdm):  # type: ignore[misc]  # tqdm has no types
    """One stage on a terminal, without tqdm's thread, and with a lock of threads: tqdm's own may start a process."""

    monitor_interval = 0
    _lock = threading.RLock()


class Bar:
    """Progress on standard error, cleared at the end of its context.

    On a terminal or in a notebook it is one line that is rewritten (tqdm); with `keeps_lines`, stages of two seconds or
    more leave theirs. Elsewhere, such as in a log file, it writes plain lines that begin with the time since the start:
    when a stage of two seconds ends, when that time has doubled since the last line, and at the end.
    """

    def __init__(
        self, stream: TextIO | None = None, *, keeps_lines: bool = True, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._keeps_lines = keeps_lines
        self._clock = clock
        self._is_log = not rewrites_lines(self._stream)
        self._start = self._stage_start = clock()
        self._logged = _SLOW / 2  # seconds from the start to the last line of a log
        self._stage = ("", 0, 0)
        self._line: _Line | None = None
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_done=kind is None)

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Show that `done` of `total` steps of a stage are done, as a progress function does."""
        with _Line.get_lock():
            if self._is_closed:
                return
            last_stage, last_done, last_total = self._stage
            if (last_stage, last_total) != (stage, total) or done < last_done or last_done >= last_total:
                self._begin_stage(stage, total)
            self._stage = (stage, done, total)
            if self._line is not None:
                self._line.update(done - self._line.n)
            elif done < total and self._clock() - self._start >= 2 * self._logged:
                counts = f"{done:,} of {total:,}, " if total > 1 else ""
                self._log(f"{printable(stage)}: {counts}{duration(self._clock() - self._stage_start)} so far")
            if done >= total:
                self._end_stage()

    def _begin_stage(self, stage: str, total: int) -> None:  # starts its clock, and its line on a terminal
        if self._line is not None:  # a stage that did not come to its end
            self._end_stage()
        self._stage_start = self._clock()
        if not self._is_log:
            encoding = getattr(self._stream, "encoding", None) or "utf-8"
            text = printable(stage).encode(encoding, "replace").decode(encoding)
            form = _COUNTED if total > 1 else _NOT_COUNTED
            size = {"ncols": _width(self._stream), "nrows": 20}
            self._line = _Line(total=total, desc=text, file=self._stream, bar_format=form, leave=False, **size)

    def _end_stage(self) -> None:  # clears its line or lets it stay, or writes that it is done to a log
        seconds = self._clock() - self._stage_start
        if self._line is not None:
            self._line.leave = self._keeps_lines and seconds >= _SLOW and not self._is_closed
            self._line.close()
            self._line = None
        elif self._is_log and seconds >= _SLOW and self._stage[1] >= self._stage[2] > 0:
            self._log(f"{printable(self._stage[0])}: done in {duration(seconds)}")

    def _log(self, words: str) -> None:
        """Write a line of a log; a closed stream or a missing character must not stop the work."""
        self._logged = max(self._logged, self._clock() - self._start)
        with contextlib.suppress(OSError, ValueError):
            self._stream.write(f"[{duration(self._clock() - self._start)}] {words}\n")
            self._stream.flush()

    def clear(self) -> None:
        """Clear the line, for example for a message; the next step shows it again."""
        if self._line is not None:
            self._line.clear()

    def close(self, *, is_done: bool = False) -> None:  # clears the line; `is_done` if the work ended without an error
        if self._is_log and is_done and self._logged > _SLOW / 2:
            self._log("done")
        self._is_closed = True
        if self._line is not None:
            self._end_stage()


def rewrites_lines(stream: TextIO) -> bool:
    """Whether the stream is a terminal or the output of a notebook cell."""
    is_terminal = False
    with contextlib.suppress(AttributeError, ValueError):  # a replacement without the method, a closed file
        is_terminal = stream.isatty()
    return is_terminal or type(stream).__module__.partition(".")[0] == "ipykernel"


def _width(stream: TextIO) -> int:
    """Return the columns that a line may take; 79 if the terminal does not say (tqdm would show nothing)."""
    columns = 0
    with contextlib.suppress(AttributeError, OSError, ValueError):
        columns = os.get_terminal_size(stream.fileno()).columns
    return columns - 1 if columns > 1 else 79


def printable(text: str) -> str:
    """Replace each character that could move the cursor by a question mark."""
    return "".join(character if character.isprintable() else "?" for character in text)


def duration(seconds: float) -> str:
    """Return a time in words, such as "12 s", "62 min" or "2 h 2 min"."""
    if round(seconds) < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


# Loops over blocks of rows are far below the functions that users call, and the block size decides the last digits
# of results. So callers do not split rows; the loops report to the listener of their thread.
_LISTENER: contextvars.ContextVar[Progress] = contextvars.ContextVar("listener", default=quiet)


@contextlib.contextmanager
def reporting(progress: bool | Progress | None) -> Iterator[Progress]:
    """Yield the progress function, to which `blocks` report too: a bar for True, `quiet` for False and None."""
    if not callable(progress) and not isinstance(progress, (bool, type(None))):
        raise TypeError(f"`progress` must be True, False, None or a function, got {progress!r}; leave it out for none.")
    with contextlib.ExitStack() as stack:
        if not callable(progress):
            progress = stack.enter_context(Bar()) if progress else quiet
        token = _LISTENER.set(progress)
        stack.callback(_LISTENER.reset, token)
        yield progress


def listener() -> Progress:  # the progress function that `reporting` has set for this thread
    return _LISTENER.get()


def blocks(stage: str, results: Iterable[T], total: int) -> Iterator[T]:
    """Yield results of blocks of rows and report each as a step to this thread's listener."""
    return counted(_LISTENER.get(), stage, results, total)


@contextlib.contextmanager
def one_step(progress: Progress, stage: str) -> Iterator[None]:  # reports the work inside as a stage of one step
    progress(stage, 0, 1)
    yield
    progress(stage, 1, 1)


def counted(progress: Progress, stage: str, items: Iterable[T], total: int) -> Iterator[T]:
    """Yield items and report each as a step of a stage, done when the next item is asked for."""
    try:
        progress(stage, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            progress(stage, done, total)
    finally:
        if isinstance(items, Generator):  # tasks that wait for a thread are not begun
            items.close()


def steps(progress: Progress, stage: str, total: int) -> Callable[[], None]:
    """Begin a stage and return a function that reports one more step each time it is called."""
    numbers = itertools.count(1)
    progress(stage, 0, total)
    return lambda: progress(stage, next(numbers), total)


def within(progress: Progress, name: str) -> Progress:  # the same with a name before each stage
    return quiet if progress is quiet else lambda stage, done, total: progress(f"{name}: {stage}", done, total)


class OutOfTime(Exception):  # noqa: N818
    """The time limit has passed; the caller continues without this work."""


class Clock:
    """A time limit that starts now; None for no limit."""

    def __init__(self, seconds: float | None) -> None:
        self._end = math.inf if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float:
        """Seconds left: infinite without a limit, never below 0."""
        return max(self._end - time.monotonic(), 0.0)

    @property
    def is_limited(self) -> bool:
        return self._end < math.inf

    def part(self, share: float, reserved: float = 0.0) -> Clock:  # a share of the time left after what is reserved
        return Clock(max(share * (self.left - reserved), 0.0) if self.is_limited else None)

    def check(self) -> None:  # raises OutOfTime after the limit
        if self.left <= 0.0:
            raise OutOfTime

    def stopping(self, progress: Progress) -> Progress:
        """Return progress that raises OutOfTime at the first step after the limit."""

        def report(stage: str, done: int, total: int) -> None:
            self.check()
            progress(stage, done, total)

        return report if self.is_limited else progress
