"""Parts of workers are merged by name; batches of a partition count their rows within it."""

import numpy as np

from treeanova.data.sources import batches_of_part, merge_by_name
from treeanova.data.streams import ALL_COLUMNS


def test_parts_are_merged_by_name():
    first, second = {"a": b"1", "b": b"2"}, {"b": b"3", "c": b"4"}
    assert merge_by_name(first, second, lambda one, two: one + two) == {"a": b"1", "b": b"23", "c": b"4"}


def test_batches_of_a_partition_have_its_number():
    tables = [np.ones((2, 1)), np.ones((0, 1)), np.ones((3, 1))]
    batches = list(batches_of_part(tables, 7, ALL_COLUMNS))
    assert [(batch.source, batch.number, batch.first_row) for batch in batches] == [
        ("partition 7", 7, 0),
        ("partition 7", 7, 2),
    ]
