"""Orders are solved from the highest down, and every projection reaches the term below it."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest

from treeanova.anova.cascade import descend, in_turn, keys_below, with_subsets


def one_by_one(solve):
    return in_turn(solve, is_large=lambda key: False)


def pass_all(key, received):
    """A term that passes all it received to each of the terms below."""
    return float(received), [received] * len(key)


def pass_ones(key, received):
    return None, [np.ones(())] * len(key)


@pytest.mark.parametrize("order", [1, 2, 3, 4, 5])
def test_projections_add_up_over_all_ways_down(order):
    top = tuple(range(order))
    received = {top: np.ones(())}
    results = dict(descend(with_subsets([top]), one_by_one(pass_all), received))
    assert results == {key: math.factorial(order - len(key)) for key in results}
    assert len(results) == 2**order - 1
    assert received == {(): math.factorial(order)}


def test_orders_go_down_and_keys_keep_their_turn_within_an_order():
    keys = [(2,), (0, 3), (0,), (1, 2), (0, 1, 2)]
    received = {}
    solved = [key for key, _ in descend(keys, one_by_one(pass_ones), received)]
    assert solved == [(0, 1, 2), (0, 3), (1, 2), (2,), (0,)]


def test_terms_that_are_not_solved_keep_what_they_received():
    start = np.array([1.0, 2.0])
    received = {(0, 2): start}
    projections = [np.array([10.0, 20.0]), np.array([3.0, 4.0]), np.array([5.0, 6.0])]
    seen = []

    def solve(key, what):
        seen.append(what)
        return None, projections

    list(descend([(0, 1, 2)], one_by_one(solve), received))
    assert seen == [None]
    np.testing.assert_array_equal(received[1, 2], [10.0, 20.0])
    np.testing.assert_array_equal(received[0, 2], [4.0, 6.0])
    np.testing.assert_array_equal(received[0, 1], [5.0, 6.0])
    np.testing.assert_array_equal(start, [1.0, 2.0])


def test_large_terms_are_solved_in_threads_and_small_ones_are_not():
    threads = {}

    def solve(key, received):
        threads[key] = threading.current_thread()
        return None, [np.ones(())] * len(key)

    list(descend([(0, 1), (2, 3), (0,), (1,)], in_turn(solve, n_jobs=2, is_large=lambda key: key == (2, 3)), {}))
    assert threading.main_thread() not in (threads[0, 1], threads[2, 3])
    assert threads[0,] is threads[1,] is threading.main_thread()


def test_threads_change_nothing():
    def solve(key, received):
        values = np.full(3, float(sum(key))) if received is None else received * 1.1
        return values, [values + i for i in range(len(key))]

    keys = with_subsets([(0, 1, 2, 3), (1, 2, 4)])
    one, several = {}, {}
    alone = dict(descend(keys, one_by_one(solve), one))
    together = dict(descend(keys, in_turn(solve, n_jobs=4, is_large=lambda key: True), several))
    assert alone.keys() == together.keys()
    for key, values in alone.items():
        np.testing.assert_array_equal(values, together[key])
    np.testing.assert_array_equal(one[()], several[()])


def test_projections_are_widened_for_terms_but_not_for_the_intercept():
    calls, received = [], {}

    def widen(above, below, projection):
        calls.append((above, below))
        return 10 * projection

    keys = with_subsets([(0, 1)])
    list(descend(keys, one_by_one(pass_ones), received, widen=widen))
    assert calls == [((0, 1), (1,)), ((0, 1), (0,))]
    assert received == {(): 2.0}


def test_a_descent_may_end_early():
    solved = []

    def solve(key, received):
        solved.append(key)
        return None, [np.ones(())] * len(key)

    steps = descend(with_subsets([(0, 1, 2)]), one_by_one(solve), {})
    next(steps)
    steps.close()
    assert solved == [(0, 1, 2)]


def test_keys_below_lack_one_feature_each():
    assert keys_below((3, 5, 8)) == [(5, 8), (3, 8), (3, 5)]
    assert keys_below((4,)) == [()]


def test_subsets_are_complete_and_in_order():
    assert with_subsets([(1,), (0, 1), (1, 2, 4)]) == [
        (1, 2, 4),
        *[(0, 1), (1, 2), (1, 4), (2, 4)],
        *[(0,), (1,), (2,), (4,)],
    ]
    assert with_subsets([]) == []
