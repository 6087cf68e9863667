"""Clocks: what is left of a limited time, by a clock that the test moves."""

from __future__ import annotations

import math

import pytest

from treeanova.core import progress as module
from treeanova.core.progress import Clock, OutOfTime


def test_without_a_limit_time_never_ends():
    assert Clock(None).left == math.inf
    assert not Clock(None).is_limited


def test_what_is_left_falls_to_zero(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    clock = Clock(5.0)
    assert clock.is_limited
    assert clock.left == pytest.approx(5.0)
    now[0] = 103.0
    assert clock.left == pytest.approx(2.0)
    now[0] = 200.0
    assert clock.left == 0.0


def test_a_part_of_the_time_ends_before_the_whole(monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    clock = Clock(10.0)
    assert clock.part(0.5).left == pytest.approx(5.0)
    assert clock.part(0.5, reserved=4.0).left == pytest.approx(3.0)
    assert clock.part(0.5, reserved=40.0).left == 0.0
    assert not Clock(None).part(0.5, reserved=1.0).is_limited


def test_progress_stops_work_when_the_time_is_over(monkeypatch):
    now, steps = [0.0], []
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    progress = Clock(5.0).stopping(lambda *step: steps.append(step))
    progress("work", 0, 2)
    now[0] = 5.0
    with pytest.raises(OutOfTime):
        progress("work", 1, 2)
    assert steps == [("work", 0, 2)]


def test_progress_without_a_limit_is_as_it_was():
    assert Clock(None).stopping(print) is print
