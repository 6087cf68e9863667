"""The bar's text on a terminal, in a notebook and in a file."""

from __future__ import annotations

import io

import pytest

from treeanova.core.progress import Bar, duration, rewrites_lines


class Terminal(io.StringIO):
    def isatty(self):
        return True

    @property
    def screen(self):
        """Lines as a terminal shows them: a carriage return goes back to the beginning of the line."""
        shown = []
        for line in self.getvalue().split("\n"):
            cells = []
            for text in line.split("\r"):
                cells[: len(text)] = text
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


def test_the_bar_shows_stage_and_counts(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    bar("purifying", 0, 1000)
    bar._line.mininterval = 0
    bar("purifying", 250, 1000)
    assert stream.screen[0].startswith("purifying ")
    assert "250/1000 [00:00<00:00]" in stream.screen[0]
    bar("another stage", 0, 1)
    assert stream.screen == ["another stage [00:00]"]
    bar.close()
    assert stream.screen == [""]


@pytest.mark.parametrize("keeps_lines", [True, False])
def test_a_slow_stage_leaves_its_line_where_wanted(clock, keeps_lines):
    stream = Terminal()
    with Bar(stream, clock=clock, keeps_lines=keeps_lines) as bar:
        steps(bar, clock, "slow", 3, 1.0)
        steps(bar, clock, "fast", 3, 0.1)
    assert len(stream.screen) == 1 + keeps_lines
    assert "slow" in stream.screen[0] or not keeps_lines
    assert stream.screen[-1] == ""


def test_an_interrupted_stage_leaves_no_line(clock):
    stream = Terminal()

    def work():
        with Bar(stream, clock=clock) as bar:
            bar("slow", 0, 3)
            clock.now += 10
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()
    assert stream.screen == [""]


def test_many_steps_are_written_rarely(clock):
    stream = Terminal()
    steps(Bar(stream, clock=clock), clock, "many", 10_000, 0.0)
    assert stream.getvalue().count("\r") < 1000


def test_messages_get_an_empty_line_and_the_bar_comes_back(clock):
    stream = Terminal()
    bar = Bar(stream, clock=clock)
    bar("work", 0, 3)
    bar.clear()
    stream.write("a warning\n")
    bar("more", 0, 3)
    assert stream.screen[0] == "a warning"
    assert stream.screen[1].startswith("more ")


def test_a_closed_bar_is_silent(clock):
    for stream in (Terminal(), io.StringIO()):
        bar = Bar(stream, clock=clock)
        bar.close()
        steps(bar, clock, "work", 3, 3.0)
        assert stream.getvalue() == ""


def test_a_log_tells_elapsed_time_and_stage_sparsely(clock):
    stream = io.StringIO()
    bar = Bar(stream, clock=clock)
    steps(bar, clock, "fast", 10, 0.19)
    steps(bar, clock, "slow", 10, 0.5)
    steps(bar, clock, "slow at its only step", 1, 30)
    bar.close(is_done=True)
    assert stream.getvalue().splitlines() == [
        "[2 s] slow: 1 of 10, 0 s so far",
        "[5 s] slow: 6 of 10, 3 s so far",  # the time since the start has doubled
        "[7 s] slow: done in 5 s",
        "[37 s] slow at its only step: done in 30 s",
        "[37 s] done",
    ]


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


@pytest.mark.parametrize("kind", [Terminal, io.StringIO])
def test_a_stream_that_is_gone_does_not_stop_the_work(clock, kind):
    stream = kind()
    bar = Bar(stream, clock=clock)
    bar("work", 0, 3)
    stream.close()
    steps(bar, clock, "work", 3, 3.0)
    bar.close(is_done=True)


def test_a_name_cannot_move_the_cursor_or_lack_a_character(clock):
    bytes_written = io.BytesIO()
    stream = io.TextIOWrapper(bytes_written, encoding="ascii", newline="")
    stream.isatty = lambda: True
    bar = Bar(stream, clock=clock)
    bar("a\x1b[31m\nb × c", 0, 1)
    stream.flush()
    assert bytes_written.getvalue() == b"\ra?[31m?b ? c [00:00]"


def test_what_rewrites_lines():
    class Notebook(io.StringIO):
        __module__ = "ipykernel.iostream"

    assert rewrites_lines(Terminal())
    assert rewrites_lines(Notebook())
    assert not rewrites_lines(io.StringIO())
    assert not rewrites_lines(object())


def test_durations_in_words():
    assert [duration(seconds) for seconds in (0, 1.4, 89.4, 89.6, 150, 5369, 5400, 9000)] == [
        "0 s", "1 s", "89 s", "1 min", "2 min", "89 min", "1 h 30 min", "2 h 30 min"
    ]  # fmt: skip
