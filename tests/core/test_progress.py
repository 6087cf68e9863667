"""Progress is reported as asked: by a bar, by a function, or not at all."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.support.recorded import Recorded
from treeanova.core.progress import Bar, blocks, counted, one_step, quiet, reporting, steps, within


def test_who_reports_progress(capsys):
    with reporting(True) as bar:
        assert isinstance(bar, Bar)
    for wanted in (False, None):
        with reporting(wanted) as progress:
            assert progress is quiet
    with reporting(print) as progress:
        assert progress is print
    quiet("purifying", 1, 1)
    assert capsys.readouterr() == ("", "")


@pytest.mark.parametrize("wanted", ["bar", 1, 0.5])
def test_anything_else_is_refused(wanted):
    message = f"`progress` must be True, False, None or a function, got {wanted!r}"
    with pytest.raises(TypeError, match=message), reporting(wanted):
        pass


def test_a_bar_starts_no_thread():
    before = threading.active_count()
    with reporting(True) as progress:
        progress("work", 0, 2)
        assert threading.active_count() == before


def test_stages_of_one_step_and_of_many():
    record = Recorded()
    with one_step(record, "reading"):
        assert record.calls == [("reading", 0, 1)]
    assert list(counted(record, "counting", "ab", 2)) == ["a", "b"]
    assert list(counted(record, "nothing", "", 0)) == []
    advance = steps(record, "in two places", 2)
    advance()
    advance()
    assert record.stages == ["reading", "counting", "nothing", "in two places"]
    assert record.calls[2:5] == [("counting", 0, 2), ("counting", 1, 2), ("counting", 2, 2)]


def test_a_step_is_done_when_the_next_is_asked_for():
    record = Recorded()
    seen = [(item, len(record.calls)) for item in counted(record, "counting", "ab", 2)]
    assert seen == [("a", 1), ("b", 2)]


def test_work_that_is_stopped_leaves_no_tasks_behind():
    """With one thread, tasks are begun in turn: those behind the one at which progress fails are not."""
    begun, may_go_on = [], threading.Event()

    def work(number):
        begun.append(number)
        assert number == 0 or may_go_on.wait(10)

    def fail(stage, done, total):
        if done == 1:
            raise InterruptedError(stage)

    with ThreadPoolExecutor(1) as pool:
        with pytest.raises(InterruptedError, match="work"):
            list(counted(fail, "work", pool.map(work, range(50)), 50))
        may_go_on.set()
    assert len(begun) <= 2


def test_parts_of_the_work_have_names():
    record = Recorded()
    with one_step(within(within(record, "density"), "uniform"), "rows"):
        pass
    assert record.stages == ["density: uniform: rows"]
    assert within(quiet, "density") is quiet


def test_blocks_report_to_the_nearest_context_of_their_thread():
    outer, inner = Recorded(), Recorded()
    list(blocks("before", "ab", 2))
    with reporting(outer):
        with reporting(inner):
            list(blocks("inside", "ab", 2))
        with reporting(None):
            list(blocks("unheard", "ab", 2))
        with ThreadPoolExecutor(1) as pool:
            pool.submit(lambda: list(blocks("elsewhere", "ab", 2))).result()
        assert list(blocks("outside", "ab", 2)) == ["a", "b"]
    list(blocks("after", "ab", 2))
    assert (outer.stages, inner.stages) == (["outside"], ["inside"])


@pytest.mark.parametrize(
    "calls",
    [
        [("a", 1, 2), ("a", 2, 2)],
        [("a", 0, 2), ("b", 0, 1), ("b", 1, 1)],
        [("a", 0, 2), ("a", 1, 2), ("a", 0, 2), ("a", 2, 2)],
        [("a", 0, 2), ("a", 3, 2)],
        [("a", 0, 2), ("a", 1, 3), ("a", 3, 3)],
        [("a", 0, 2), ("a", 1, 2)],
    ],
    ids=["begins late", "interrupted", "falls", "too many", "another total", "does not end"],
)
def test_broken_rules_are_seen(calls):
    record = Recorded()
    for call in calls:
        record(*call)
    with pytest.raises(AssertionError, match=r"reported|must end"):
        _ = record.stages
