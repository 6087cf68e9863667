"""Memos: one computation per instance and arguments, on frozen instances too, and nothing in copies."""

from __future__ import annotations

import copy
import dataclasses
import pickle

import pytest

from treeanova.core.arrays import memo, memo_of


@dataclasses.dataclass(frozen=True)
class Plain:
    factor: int
    calls: list = dataclasses.field(default_factory=list, compare=False)

    @memo
    def times(self, number):
        self.calls.append(number)
        return [self.factor * number]


@dataclasses.dataclass(frozen=True, slots=True)
class Slotted:
    factor: int
    calls: list = dataclasses.field(default_factory=list, compare=False)
    _memo: object = dataclasses.field(default=None, init=False, repr=False, compare=False)

    @memo
    def times(self, number):
        self.calls.append(number)
        return [self.factor * number]


@pytest.mark.parametrize("kind", [Plain, Slotted])
def test_one_computation_per_instance_and_arguments(kind):
    two, three = kind(2), kind(3)
    assert two.times(5) is two.times(5)
    assert (two.times(5), two.times(7), three.times(5)) == ([10], [14], [15])
    assert (two.calls, three.calls) == ([5, 7], [5])
    assert two == kind(2)


@pytest.mark.parametrize("kind", [Plain, Slotted])
@pytest.mark.parametrize(
    "duplicate", [copy.copy, copy.deepcopy, lambda thing: pickle.loads(pickle.dumps(thing)), dataclasses.replace]
)
def test_copies_remember_nothing(kind, duplicate):
    original = kind(2)
    original.times(5)
    other = duplicate(original)
    object.__setattr__(other, "factor", 4)
    assert (other.times(5), original.times(5)) == ([20], [10])


def test_results_that_a_method_stores_itself():
    plain = Plain(2)
    memo_of(plain, "squares").update({1: 1, 2: 4})
    assert memo_of(plain, "squares")[2] == 4
    assert memo_of(plain, "cubes") == {}


def test_an_error_is_not_remembered():
    class Fails:
        def __init__(self):
            self.n_calls = 0

        @memo
        def result(self):
            self.n_calls += 1
            raise ValueError("no result")

    fails = Fails()
    for _ in range(2):
        with pytest.raises(ValueError, match="no result"):
            fails.result()
    assert fails.n_calls == 2
