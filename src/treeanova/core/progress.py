"""Progress and time: a function that is told the stage and its steps, the bar that draws it, a clock for limits.

A stage begins with 0 steps done and ends with all of them, then the next begins. A stage of one step is one whose steps
cannot be counted.
"""

from __future__ import annotations

import contextlib
import contextvars
import dataclasses
import math
import os
import sys
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import Self, TextIO, TypeVar

_FULL = 30  # characters of a bar
_SHORTEST = 5
_STAGE_WIDTH = 28
_LEAST_NAME = 12  # characters of a stage's name, for which counts are left out
_USUAL_COLUMNS = 80
_SILENCE = 0.5  # seconds at the start of all work, and of a stage before the time that is left is estimated
_PAUSE = 0.1  # seconds between two drawings
_REDRAWING = 0.25  # seconds, so that the time goes on while a step takes long
_SLOW = 2.0  # seconds after which a stage is worth a line that stays


@dataclasses.dataclass
class _Stage:
    """A stage under way: when it began, and when its last step was done."""

    name: str
    total: int
    start: float
    done: int = 0
    last: float = 0.0
    is_told: bool = False

    @property
    def has_ended(self) -> bool:
        return self.done >= self.total

    def line(self, now: float, columns: int) -> str:
        """The line that shows this stage on a terminal."""
        return line_of(self.name, self.done, self.total, now - self.start, self._left(now), columns=columns)

    def words(self, now: float) -> str:
        """The line that shows this stage in a log, which has the time in front."""
        left = self._left(now)
        parts = [f"{self.done:,} of {self.total:,}"] * (self.total > 1) + [f"{duration(now - self.start)} so far"]
        parts += [] if left is None else [f"about {duration(max(left, 1.0))} left"]
        return f"{printable(self.name)}: {', '.join(parts)}"

    def _left(self, now: float) -> float | None:
        elapsed = now - self.start
        is_early = elapsed < (_SLOW if self.done == 1 else _SILENCE)  # the first step may load what the others use
        return None if is_early else seconds_left(self.done, self.total, self.last - self.start, elapsed)


class Bar:
    """Progress on standard error; as a context it goes on by itself while a step takes long, and clears up in the end.

    On a terminal, and in a notebook, it is one line that is written again and again, from half a second after the start
    on. A stage that took two seconds or more leaves its line where `keeps_lines`. Elsewhere, as in a log file, lines of
    plain text begin with the time since the start: one when a stage has taken two seconds, one when it ends, others
    when that time has doubled since the last line, and one in the end. There are no escape codes.
    """

    def __init__(
        self,
        stream: TextIO | None = None,
        *,
        keeps_lines: bool = True,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._stream = sys.stderr if stream is None else stream
        self._keeps_lines = keeps_lines
        self._clock = clock
        self._rewrites = rewrites_lines(self._stream)
        self._start: float | None = None
        self._stage: _Stage | None = None
        self._drawn = float("-inf")
        self._told = _SLOW / 2  # seconds from the start to the last line of a log
        self._n_shown = 0
        self._closed = threading.Event()
        self._lock = threading.RLock()  # a signal may come while it is held, and clears the line
        self._thread = threading.Thread(target=self._redraw_often, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self.close(is_done=kind is None)
        self._thread.join()

    def __call__(self, stage: str, done: int, total: int) -> None:
        """Take note of a step, and show it unless another was shown a moment ago."""
        with self._lock:
            now = self._clock()
            self._start = now if self._start is None else self._start
            known = self._stage
            if known is None or known.has_ended or (known.name, known.total) != (stage, total) or done < known.done:
                known = self._stage = _Stage(stage, total, now)
            if done > known.done:
                known.done, known.last = done, now
            if known.has_ended:
                self._end(known, now)
            else:
                self._draw(known, now)

    def redraw(self) -> None:
        """Show the same stage at a later time."""
        with self._lock:
            if self._stage is not None and not self._stage.has_ended:
                self._draw(self._stage, self._clock())

    def _redraw_often(self) -> None:
        while not self._closed.wait(_REDRAWING):
            self.redraw()

    def _draw(self, stage: _Stage, now: float) -> None:
        if not self._rewrites:
            self._tell(stage, now)
        elif self._start is not None and now - self._start >= _SILENCE and now - self._drawn >= _PAUSE:
            self._drawn = now
            self._show(stage.line(now, columns_of(self._stream)))

    def _tell(self, stage: _Stage, now: float) -> None:
        """Write a line of a log where a stage takes long, or where there was none for as long as before."""
        is_slow = now - stage.start >= _SLOW
        if (is_slow and not stage.is_told) or self._elapsed(now) >= 2 * self._told:
            stage.is_told = stage.is_told or is_slow
            self._log(stage.words(now), now)

    def _elapsed(self, now: float) -> float:
        """Seconds since the start of all work."""
        return 0.0 if self._start is None else now - self._start

    def _log(self, words: str, now: float) -> None:
        self._told = max(self._told, self._elapsed(now))
        self._write(f"[{duration(self._elapsed(now))}] {words}\n")

    def _end(self, stage: _Stage, now: float) -> None:
        if not self._rewrites:
            if stage.is_told or now - stage.start >= _SLOW:
                self._log(f"{printable(stage.name)}: done in {duration(now - stage.start)}", now)
        elif self._keeps_lines and now - stage.start >= _SLOW:
            self._show(stage.line(now, columns_of(self._stream)))
            self._write("\n")
            self._n_shown = 0

    def _show(self, line: str) -> None:
        """Write a line over the one before."""
        self._write(f"\r{line:<{self._n_shown}}")
        self._n_shown = len(line)

    def clear(self) -> None:
        """Leave an empty line to others, such as messages; the next step is shown again."""
        with self._lock:
            if self._n_shown:
                self._write(f"\r{'':<{self._n_shown}}\r")
                self._n_shown = 0

    def close(self, *, is_done: bool = False) -> None:
        """Leave an empty line, or the end of a log where all is done, and show nothing any more."""
        with self._lock:
            self.clear()
            if is_done and not self._rewrites and self._told > _SLOW / 2:
                self._log("done", self._clock())
            self._closed.set()

    def _write(self, text: str) -> None:
        """Write to the stream; one that is gone or lacks a character must not stop the work."""
        if not self._closed.is_set():
            with contextlib.suppress(OSError, ValueError):
                self._stream.write(text)
                self._stream.flush()


def rewrites_lines(stream: TextIO) -> bool:
    """Whether a stream shows a carriage return as one: a terminal, or the output of a notebook's cell."""
    try:
        is_terminal = stream.isatty()
    except (AttributeError, ValueError):  # a replacement without the method, a closed file
        is_terminal = False
    return is_terminal or type(stream).__module__.partition(".")[0] == "ipykernel"


def columns_of(stream: TextIO) -> int:
    """Characters that fit into a line of a terminal; the last column stays free, so that no line is wrapped."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (AttributeError, OSError, ValueError):
        columns = 0
    return (columns or _USUAL_COLUMNS) - 1


def seconds_left(done: int, total: int, until_last: float, elapsed: float) -> float | None:
    """Seconds until a stage ends, if its steps take equally long; None where nothing tells.

    The step under way counts by its share of the mean time of those before, so that the number falls between steps.

    Parameters
    ----------
    done, total
        Steps done and in all.
    until_last
        Seconds from the beginning of the stage to the end of the last step that is done.
    elapsed
        Seconds since the beginning of the stage.
    """
    if not 0 < done < total:
        return None
    per_step = until_last / done
    under_way = min((elapsed - until_last) / per_step, 1.0) if per_step > 0 else 1.0
    steps = done + under_way
    return elapsed * (total - steps) / steps if steps < total else None


def line_of(stage: str, done: int, total: int, elapsed: float, left: float | None, *, columns: int) -> str:
    """A stage, a bar, counts and times in one line; what does not fit is left out, the bar first.

    >>> line_of("low orders", 3, 12, 4.2, 12.6, columns=79)
    'low orders                   [#####                ] 3/12  4 s, about 13 s left'
    >>> line_of("low orders", 3, 12, 4.2, 12.6, columns=42)
    'low orders  3/12  4 s, about 13 s left'
    >>> line_of("low orders", 3, 12, 4.2, 12.6, columns=33)
    'low orders  4 s, about 13 s left'
    >>> line_of("leaf sets", 0, 1, 4.2, None, columns=79)
    'leaf sets  4 s'
    """
    stage = printable(stage)
    times = duration(elapsed) if left is None else f"{duration(elapsed)}, about {duration(max(left, 1.0))} left"
    if total <= 1:
        return _shortened(stage, times, columns)
    ending = f"{done:,}/{total:,}  {times}"
    room = columns - max(len(stage), _STAGE_WIDTH) - len(ending) - 4
    if room < _SHORTEST:
        return _shortened(stage, ending if len(ending) + _LEAST_NAME <= columns else times, columns)
    width = min(room, _FULL)
    filled = width * done // total
    return f"{stage:<{_STAGE_WIDTH}} [{'#' * filled}{' ' * (width - filled)}] {ending}"


def printable(text: str) -> str:
    """The text with a question mark for each character that could move the cursor."""
    return "".join(character if character.isprintable() else "?" for character in text)


def _shortened(stage: str, ending: str, columns: int) -> str:
    """A stage and what follows it, cut to a number of columns: the name of the stage first."""
    room = columns - len(ending) - 2
    name = stage if len(stage) <= room else f"{stage[: max(room - 3, 0)]}..."
    return f"{name}  {ending}"[:columns]


def duration(seconds: float) -> str:
    """A time in words.

    >>> [duration(seconds) for seconds in (0.4, 12.3, 89, 90, 3_700, 7_300)]
    ['0 s', '12 s', '89 s', '2 min', '62 min', '2 h 2 min']
    """
    if round(seconds) < 90:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60)
    return f"{minutes} min" if minutes < 90 else f"{minutes // 60} h {minutes % 60} min"


Progress = Callable[[str, int, int], None]

T = TypeVar("T")


def quiet(stage: str, done: int, total: int) -> None:
    """Report nothing."""


# Loops over blocks of rows are far below the functions that users call, and the size of the blocks decides the last
# digits of the results. So rows are not split above: the loops report to the listener of their thread.
_LISTENER: contextvars.ContextVar[Progress] = contextvars.ContextVar("listener", default=quiet)


@contextlib.contextmanager
def reporting(wanted: bool | Progress | None) -> Iterator[Progress]:
    """A context with the function that reports progress: a bar for True, `quiet` for False and None, else as given.

    `blocks` report to it too. In the end, however it comes, the bar is gone and its line empty.
    """
    if not callable(wanted) and not isinstance(wanted, (bool, type(None))):
        raise TypeError(f"`progress` must be True, False, None or a function, got {wanted!r}; leave it out for none.")
    with contextlib.ExitStack() as stack:
        progress = wanted if callable(wanted) else stack.enter_context(Bar()) if wanted else quiet
        token = _LISTENER.set(progress)
        stack.callback(_LISTENER.reset, token)
        yield progress


def listener() -> Progress:
    """The function that progress of this thread is reported to, for work that is started by many."""
    return _LISTENER.get()


def blocks(stage: str, results: Iterable[T], total: int) -> Iterator[T]:
    """The results of blocks of rows, each of them a step of a stage that the listener of this thread is told of."""
    return counted(_LISTENER.get(), stage, results, total)


@contextlib.contextmanager
def one_step(progress: Progress, stage: str) -> Iterator[None]:
    """A context that is a stage of its own."""
    progress(stage, 0, 1)
    yield
    progress(stage, 1, 1)


def counted(progress: Progress, stage: str, items: Iterable[T], total: int) -> Iterator[T]:
    """The items, each of them a step of a stage, which is done when the next is asked for."""
    try:
        progress(stage, 0, total)
        for done, item in enumerate(items, start=1):
            yield item
            progress(stage, done, total)
    finally:
        if isinstance(items, Generator):  # tasks that wait for a thread are not begun
            items.close()


class Steps:
    """Steps of one stage that are done in several places."""

    def __init__(self, progress: Progress, stage: str, total: int) -> None:
        self._progress, self._stage, self._total = progress, stage, total
        self._n_done = 0
        progress(stage, 0, total)

    def advance(self) -> None:
        """One more step is done."""
        self._n_done += 1
        self._progress(self._stage, self._n_done, self._total)


def within(progress: Progress, name: str) -> Progress:
    """Progress of a part of the work, whose stages are preceded by its name."""
    return quiet if progress is quiet else lambda stage, done, total: progress(f"{name}: {stage}", done, total)


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
