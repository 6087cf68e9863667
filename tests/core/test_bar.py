"""The bar's text at given times, on a terminal, in a notebook and in a file."""

from __future__ import annotations

import io
import os
import threading

import pytest

from treeanova.core import progress as bar_module
from treeanova.core.progress import Bar, columns_of, duration, line_of, rewrites_lines, seconds_left


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def screen(self):
        """Lines as a terminal shows them: a carriage return goes back to the beginning of the line."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells = []
            for part in line.split("\r"):
                cells[: len(part)] = part
            shown.append("".join(cells).rstrip())
        return shown


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


@pytest.fixture
def clock():
    return Clock()


def steps(bar, clock, stage, total, seconds):
    """A stage with steps of equal length."""
    bar(stage, 0, total)
    for done in range(1, total + 1):
        clock.now += seconds
        bar(stage, done, total)


def test_the_bar_shows_stage_share_counts_and_times(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    bar("purifying", 0, 1000)
    clock.now += 10
    bar("purifying", 250, 1000)
    ending = "250/1,000  10 s, about 30 s left"
    assert stream.screen == [f"{'purifying':<28} [{'#' * 3}{' ' * 12}] {ending}"]
    clock.now += 4
    bar.redraw()  # a step takes 0.04 s, so that one more may be done by now
    assert stream.screen[0].endswith("250/1,000  14 s, about 42 s left")


def test_nothing_is_shown_in_the_first_half_second_and_nothing_of_fast_stages_stays(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    steps(bar, clock, "fast", 4, 0.12)
    assert stream.getvalue() == ""
    steps(bar, clock, "slower", 4, 0.4)
    assert stream.screen[0].startswith("slower ")
    bar.close()
    assert stream.screen == [""]


def test_a_single_short_step_tells_nothing_of_the_others(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    bar("work", 0, 10)
    clock.now += 1
    bar("work", 1, 10)
    assert stream.screen[0].endswith("1/10  1 s")
    clock.now += 1
    bar("work", 2, 10)
    assert stream.screen[0].endswith("2/10  2 s, about 8 s left")


def test_a_slow_stage_leaves_its_line_where_wanted(clock):
    kept, cleared = Terminal(), Terminal()
    for stream, keeps_lines in ((kept, True), (cleared, False)):
        bar = Bar(stream, clock=clock, keeps_lines=keeps_lines)
        steps(bar, clock, "slow", 3, 1.0)
        steps(bar, clock, "fast", 3, 0.1)
        bar.close()
    assert kept.screen == [f"{'slow':<28} [{'#' * 30}] 3/3  3 s", ""]
    assert cleared.screen == [""]


def test_a_shorter_line_leaves_nothing_of_a_longer_one(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    bar("a stage with a long name", 0, 1)
    clock.now += 1
    bar.redraw()
    assert stream.screen == ["a stage with a long name  1 s"]
    bar("a stage with a long name", 1, 1)
    bar("short", 0, 1)
    clock.now += 1
    bar.redraw()
    assert stream.screen == ["short  1 s"]


def test_the_line_is_written_ten_times_a_second_at_most(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    steps(bar, clock, "many", 1000, 0.01)
    assert 50 <= stream.getvalue().count("\r") <= 100


def test_messages_get_an_empty_line_and_the_bar_comes_back(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    steps(bar, clock, "work", 3, 0.4)
    bar("work", 0, 3)
    clock.now += 1
    bar.redraw()
    bar.clear()
    stream.write("a warning\n")
    clock.now += 1
    bar.redraw()
    assert stream.screen[0] == "a warning"
    assert stream.screen[1].startswith("work ")


def test_a_closed_bar_is_silent(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    bar.close()
    steps(bar, clock, "work", 3, 3.0)
    bar.redraw()
    assert stream.getvalue() == ""


def test_a_log_tells_elapsed_time_and_stage_sparsely(clock):
    stream = io.StringIO()
    bar = Bar(stream, clock=clock)
    steps(bar, clock, "fast", 10, 0.19)
    steps(bar, clock, "slow", 10, 0.5)
    steps(bar, clock, "slow at its only step", 1, 30)
    bar.close(is_done=True)
    assert stream.getvalue().splitlines() == [
        "[2 s] slow: 1 of 10, 0 s so far",  # the time since the start has doubled
        "[4 s] slow: 4 of 10, 2 s so far, about 3 s left",
        "[7 s] slow: done in 5 s",
        "[37 s] slow at its only step: done in 30 s",
        "[37 s] done",
    ]


def test_a_log_goes_on_while_a_stage_takes_minutes(clock):
    stream = io.StringIO()
    bar = Bar(stream, clock=clock)
    bar("work", 0, 1)
    for _ in range(4 * 177):
        clock.now += 0.25
        bar.redraw()
    bar("work", 1, 1)
    times = [line.partition("]")[0] for line in stream.getvalue().splitlines()]
    assert times == ["[2 s", "[4 s", "[8 s", "[16 s", "[32 s", "[64 s", "[2 min", "[3 min"]
    assert stream.getvalue().endswith("[3 min] work: done in 3 min\n")


def test_a_log_of_many_short_stages_is_not_silent(clock):
    stream = io.StringIO()
    bar = Bar(stream, clock=clock)
    for i in range(120):
        steps(bar, clock, f"stage {i}", 2, 0.7)
    bar.close(is_done=True)
    lines = stream.getvalue().splitlines()
    assert 5 <= len(lines) <= 10
    assert lines[-1] == "[3 min] done"


@pytest.mark.parametrize("is_done", [True, False])
def test_a_log_of_short_work_or_a_failure_has_no_end(clock, is_done):
    stream = io.StringIO()
    bar = Bar(stream, clock=clock)
    steps(bar, clock, "fast", 2, 0.5 if is_done else 5.0)
    before = stream.getvalue()
    bar.close(is_done=is_done)
    assert stream.getvalue() == before


def test_the_time_goes_on_while_a_step_takes_long(monkeypatch):
    drawn = threading.Event()

    class Seen(Terminal):
        def write(self, text):
            drawn.set()
            return super().write(text)

    monkeypatch.setattr(bar_module, "_REDRAWING", 0.001)
    monkeypatch.setattr(bar_module, "_SILENCE", 0.0)
    stream, clock = Seen(), Clock()
    with Bar(stream, clock=clock) as bar:
        bar("work", 0, 1)
        drawn.clear()
        clock.now += 60
        assert drawn.wait(60)
    assert stream.screen == [""]


def test_a_stream_that_is_gone_does_not_stop_the_work(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    stream.close()
    steps(bar, clock, "work", 3, 3.0)
    bar.close()


def test_what_rewrites_lines():
    class Notebook(io.StringIO):
        __module__ = "ipykernel.iostream"

    assert rewrites_lines(Terminal())
    assert rewrites_lines(Notebook())
    assert not rewrites_lines(io.StringIO())
    assert not rewrites_lines(object())


def test_columns_leave_the_last_one_free(monkeypatch):
    class Numbered(Terminal):
        def fileno(self):
            return 7

    assert columns_of(Terminal()) == 79
    monkeypatch.setattr(os, "get_terminal_size", lambda number: os.terminal_size((40 if number == 7 else 200, 10)))
    assert columns_of(Numbered()) == 39
    monkeypatch.setattr(os, "get_terminal_size", lambda _: os.terminal_size((0, 0)))
    assert columns_of(Numbered()) == 79


@pytest.mark.parametrize("stage", ["rows", "density uniform: purifying order 2", "a\x1b[31m\nb"])
@pytest.mark.parametrize("total", [1, 12_000])
def test_a_line_fits_and_cannot_move_the_cursor(stage, total):
    for columns in range(1, 130):
        line = line_of(stage, 0 if total == 1 else 3_000, total, 10, None if total == 1 else 30, columns=columns)
        assert len(line) <= columns
        assert line.isprintable()
        if columns >= 79:
            assert line.startswith(stage.replace("\x1b", "?").replace("\n", "?"))
        if columns >= 47:
            assert line.endswith("10 s" if total == 1 else "3,000/12,000  10 s, about 30 s left")
        elif columns >= 30:
            assert line.endswith("10 s" if total == 1 else "  10 s, about 30 s left")


@pytest.mark.parametrize(
    ("done", "total", "until_last", "elapsed", "left"),
    [
        (0, 10, 0, 5, None),  # no step tells how long one takes
        (10, 10, 5, 5, None),
        (5, 10, 10, 10, 10),
        (5, 10, 10, 11, 9),  # half of the sixth step, which takes two seconds
        (5, 10, 10, 14, 14 * 4 / 6),  # the sixth takes longer than the others: it counts as done
        (9, 10, 9, 12, None),  # so does the last
        (3, 10, 0, 0, 0),
    ],
)
def test_seconds_left(done, total, until_last, elapsed, left):
    assert seconds_left(done, total, until_last, elapsed) == (left if left is None else pytest.approx(left))


def test_durations_in_words():
    assert [duration(seconds) for seconds in (0, 1.4, 89.4, 89.6, 150, 5369, 5400, 9000)] == [
        "0 s", "1 s", "89 s", "1 min", "2 min", "89 min", "1 h 30 min", "2 h 30 min"
    ]  # fmt: skip
