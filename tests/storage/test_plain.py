"""Plain values from files: what has another type, shape or range than it must have is refused."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova.storage.codec import checked_finite, checked_integers, checked_key, checked_masses, whole_in_range


@pytest.mark.parametrize("value", [True, 1.0, "1", None, -1, 11, 10**30])
def test_numbers_that_are_not_whole_or_out_of_range_are_refused(value):
    assert whole_in_range(10, 0, 10) == 10
    with pytest.raises(ValueError, match="must be whole and from 0 to 10"):
        whole_in_range(value, 0, 10)


@pytest.mark.parametrize("plain", [[], [1, 0], [0, 0], [0, 3], [-1], [0.0]])
def test_features_of_a_term_ascend(plain):
    assert checked_key([0, 2], 3) == (0, 2)
    with pytest.raises(ValueError, match=r"must ascend|must be whole"):
        checked_key(plain, 3)


@pytest.mark.parametrize(
    "array", [np.array([1.0, np.nan]), np.array([np.inf, 0.0]), np.ones(2, np.float32), np.ones(3)]
)
def test_arrays_are_finite_and_of_their_shape(array):
    assert checked_finite(np.ones(2), (2,)).tolist() == [1, 1]
    with pytest.raises(ValueError, match="must hold finite numbers"):
        checked_finite(array, (2,))


@pytest.mark.parametrize("array", [np.array([1.0, -1e-9]), np.zeros(2)])
def test_masses_are_positive(array):
    assert checked_masses(np.array([0.0, 2.0])).tolist() == [0, 2]
    with pytest.raises(ValueError, match="must not be negative, and have a positive sum"):
        checked_masses(array)


def test_positions_are_integers():
    assert checked_integers(np.arange(3, dtype=np.int32)).dtype == np.int64
    with pytest.raises(ValueError, match="must be integers"):
        checked_integers(np.ones(3))
