"""Progress: a function that is called with the stage, the steps done and the number of steps.

A stage begins with 0 steps done and ends with all of them, then the next begins. A stage of one step is one whose steps
cannot be counted.
"""

from __future__ import annotations

import contextlib
import contextvars
from collections.abc import Callable, Generator, Iterable, Iterator
from typing import TypeVar

from treeanova.core.bar import Bar

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
