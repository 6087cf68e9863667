from __future__ import annotations

import numpy as np
import pytest

from treeanova.report.tables import millionths, six_digits, unit_of, whole_units


def test_the_largest_value_has_six_digits():
    assert unit_of(0.0) == 1.0
    assert unit_of(2.5) == pytest.approx(1e-5)
    assert unit_of(999.0) == pytest.approx(1e-3)
    assert whole_units(np.array([[2.5, -1e-5], [0.0, 1.0]]), 1e-5) == [[250_000, -1], [0, 100_000]]


def test_shares_that_are_not_zero_stay_so():
    assert millionths([0.0, 1e-9, 0.25]) == [0, 1, 250_000]


def test_six_digits():
    assert six_digits(1234.56789) == 1234.57
