"""Progress is reported as asked: by a bar, by a function, or not at all."""

from __future__ import annotations

import time

import pytest

from treeanova.core.progress import Bar, progress_of, quiet


def test_the_bar_shows_stage_share_and_counts(capsys):
    Bar()("purifying", 500, 1000)
    assert capsys.readouterr().err == f"\r{'purifying':<28} [{'#' * 15}{' ' * 15}] 500/1,000"


def test_the_last_step_ends_the_line(capsys):
    Bar()("purifying", 3, 3)
    assert capsys.readouterr().err.endswith(f"[{'#' * 30}] 3/3\n")


def test_nothing_to_do_is_an_empty_bar(capsys):
    Bar()("purifying", 0, 0)
    assert capsys.readouterr().err.endswith(f"[{' ' * 30}] 0/0\n")


def test_the_bar_is_drawn_ten_times_a_second_at_most_but_always_at_the_end(capsys, monkeypatch):
    clock = iter([1.0, 1.05, 1.11, 1.12])
    monkeypatch.setattr(time, "monotonic", lambda: next(clock))
    bar = Bar()
    for done in range(1, 5):
        bar("purifying", done, 4)
    drawn = capsys.readouterr().err.split("\r")[1:]
    assert [line.split()[-1] for line in drawn] == ["1/4", "3/4", "4/4"]


def test_what_reports_progress(capsys):
    assert isinstance(progress_of(True), Bar)
    assert progress_of(False) is progress_of(None) is quiet
    assert progress_of(print) is print
    quiet("purifying", 1, 1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("wanted", ["bar", 1, 0.5])
def test_anything_else_is_refused(wanted):
    with pytest.raises(TypeError, match=f"`progress` must be True, False, None or a function, got {wanted!r}"):
        progress_of(wanted)
