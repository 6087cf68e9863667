"""Stability of terms: known rank correlations and distances, and halves of rows that keep the test rows."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("pandas")
pytest.importorskip("sklearn")

from benchmarks import stability
from benchmarks.glass_box_data import split

A, B, C = frozenset("a"), frozenset("b"), frozenset("ab")


def test_equal_refits_have_no_distance():
    terms = {A: np.array([1.0, -1.0]), B: np.array([2.0, -2.0]), C: np.array([0.5, -0.5])}
    assert stability.stability_of([terms, dict(terms), dict(terms)]) == pytest.approx((1, 0, 0))


def test_a_term_that_a_refit_lacks_is_zero():
    one = {A: np.array([3.0, -3.0, 0.0, 0.0]), B: np.array([0.0, 0.0, 4.0, -4.0])}
    other = {A: np.array([3.0, -3.0, 0.0, 0.0]), C: np.array([0.0, 0.0, 1.0, -1.0])}
    variance = ((9 + 9 + 16 + 16) / 4 + (9 + 9 + 1 + 1) / 4) / 2
    terms, score = (16 + 16 + 1 + 1) / 4, (9 + 9) / 4  # mean squares of the differences
    found = stability.stability_of([one, other])
    assert found.distance == pytest.approx(np.sqrt(terms / variance))
    assert found.score_distance == pytest.approx(np.sqrt(score / variance))
    assert found.rank_correlation == pytest.approx(-0.5)  # ranks 2, 3, 1 against 3, 1, 2


def test_halves_are_different_rows_of_training():
    data = split("diabetes", 0)
    halves = [stability.half(data, number, 50) for number in range(2)]
    assert [len(some.y) for some in halves] == [154, 154]
    assert not halves[0].X.equals(halves[1].X)
    known = {tuple(row) for row in data.X.to_numpy()}
    for some in halves:
        assert {tuple(row) for row in some.X.to_numpy()} <= known
        np.testing.assert_array_equal(some.y_test, data.y_test[:50])
