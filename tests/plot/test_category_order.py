from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("matplotlib")

from treeanova.plot.axes import category_order, numbers_in

WEIGHTS, VALUES = np.array([0.2, 0.5, 0.3]), np.array([1.0, -1.0, 3.0])


def ordered(labels, order, values=VALUES):
    return [labels[i] for i in category_order(labels, order, WEIGHTS, values)]


def test_numbers_come_in_their_order_and_names_by_value():
    assert ordered(["20-29", "< 20", "30+"], "auto") == ["< 20", "20-29", "30+"]
    assert ordered(["10", "≥ 10", "9"], "auto") == ["9", "10", "≥ 10"]
    assert ordered(["a", "b", "c"], "auto") == ["c", "a", "b"]
    assert ordered(["a", "b", "c"], "auto", values=None) == ["a", "b", "c"]


def test_other_orders_are_taken_on_request():
    assert ordered(["3", "1", "2"], "given") == ["3", "1", "2"]
    assert ordered(["3", "1", "2"], "weight") == ["1", "2", "3"]
    assert ordered(["3", "1", "2"], "value") == ["2", "3", "1"]
    assert ordered(["b", "a", "C"], "name") == ["a", "b", "C"]
    with pytest.raises(ValueError, match=r"`order` must be one of 'auto', 'given', 'name', .*, got 'size'"):
        ordered(["a", "b", "c"], "size")


def test_labels_are_numbers_only_where_all_begin_with_one():
    assert numbers_in(["$5", "(3, 4]", "-2.5 kg"]).tolist() == [5, 3, -2.5]
    assert numbers_in(["5", "many"]) is None
    assert numbers_in([]) is None
