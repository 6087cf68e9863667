"""Checks that readers share: the value that breaks a rule is shown, and sizes are limited."""

from __future__ import annotations

import numpy as np
import pytest

from treeanova import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import block_starts, check_size, check_values


def test_the_first_value_that_breaks_a_rule_is_shown():
    values = np.array([1, 5, 9])
    check_values("nodes must be small", values, values < 10)
    with pytest.raises(ModelFileError, match="nodes must be small, got 5; file damaged"):
        check_values("nodes must be small", values, values < 5)


def test_sizes_up_to_the_limit_pass():
    check_size("table", 10, 10)
    with pytest.raises(UnsupportedModelError, match="the model's table must have at most 1,000 entries, got 1,001"):
        check_size("table", 1001, 1000)


def test_blocks_follow_each_other():
    assert block_starts(np.array([3, 0, 2])).tolist() == [0, 3, 3]
    assert block_starts(np.array([], dtype=np.int64)).tolist() == []
