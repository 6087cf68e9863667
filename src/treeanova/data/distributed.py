"""Rows on the workers of an engine: what is asked of Dask and Spark, which do all the scheduling, retries and shuffles.

Workers get a function and the number of their part of the rows, and return named parts as bytes. The engine merges the
parts of one name, two at a time, in any order.
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from treeanova.data.batch import Batch, Batches, Selection, chosen
from treeanova.data.streams import numbered

Work = Callable[[Iterable[Batch]], Mapping[str, bytes]]
Merge = Callable[[bytes, bytes], bytes]
Table = Callable[[Any], Any]


class Distributed(Batches):
    """Rows in partitions that workers read; iterating brings them here, one partition after the other."""

    @property
    def is_rereadable(self) -> bool:
        """True: engines compute their tables anew each time."""
        return True

    @abc.abstractmethod
    def reading(self, selection: Selection) -> Distributed:
        """The same rows with other columns."""

    @abc.abstractmethod
    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        """What `work` returns for the batches of each partition, merged by name."""

    @abc.abstractmethod
    def mapped(self, work: Table, names: Iterable[str]) -> Any:
        """A lazy table of the engine: `work` takes a table and returns float64 columns with these names."""


def batches_of_part(tables: Iterable[Any], number: int, selection: Selection) -> Iterator[Batch]:
    """The batches of one partition, as workers read them; rows are counted within it."""
    return chosen(numbered(tables, f"partition {number}", number), selection)


def merged(first: Mapping[str, bytes], second: Mapping[str, bytes], merge: Merge) -> dict[str, bytes]:
    """Parts of two workers, merged by name."""
    both = {name: merge(part, second[name]) if name in second else part for name, part in first.items()}
    return both | {name: part for name, part in second.items() if name not in first}
