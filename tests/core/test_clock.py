"""Clocks: what is left of a limited time, by a clock that the test moves."""

from __future__ import annotations

import math

import pytest

from treeanova.core import clock as module
from treeanova.core.clock import Clock


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
