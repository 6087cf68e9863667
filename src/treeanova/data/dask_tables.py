"""Dask: data frames and arrays, one task for each partition, and a tree of tasks that merge two results."""

from __future__ import annotations

import dataclasses
import functools
import importlib
import itertools
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np

from treeanova.data.batch import ALL_COLUMNS, Piece, Selection, n_rows_of
from treeanova.data.distributed import Distributed, Merge, Table, Work, batches_of_part, merged
from treeanova.data.streams import numbered

_HEAD_ROWS = 10_000


@dataclasses.dataclass(frozen=True)
class DaskTable(Distributed):
    """A Dask DataFrame, or a Dask array of two axes.

    Attributes
    ----------
    table
        The table of Dask.
    selection
        The columns to read.
    """

    table: Any
    selection: Selection = ALL_COLUMNS

    def reading(self, selection: Selection) -> DaskTable:
        """The same rows with other columns."""
        return dataclasses.replace(self, selection=selection)

    @property
    def _is_frame(self) -> bool:
        return hasattr(self.table, "map_partitions") and hasattr(self.table, "columns")

    @functools.cached_property
    def n_rows(self) -> int:
        """Number of rows, which Dask counts."""
        return len(self.table)

    def _first(self) -> Any:
        """The first rows."""
        return self._head if n_rows_of(self._head) else None

    @functools.cached_property
    def _head(self) -> Any:
        first = self.table
        return first.head(_HEAD_ROWS, npartitions=-1) if self._is_frame else first[:_HEAD_ROWS].compute()

    def _partitions(self, selection: Selection) -> list[Any]:
        """A lazy table for each partition."""
        if not self._is_frame:
            return list(self.table.rechunk({1: -1}).to_delayed().ravel())
        names = [str(name) for name in self.table.columns]
        wanted = selection.read(names)
        if wanted == names:
            return list(self.table.to_delayed())
        return list(self.table[[self.table.columns[names.index(name)] for name in wanted]].to_delayed())

    def _pieces(self, selection: Selection) -> Iterator[Piece]:
        for number, partition in enumerate(self._partitions(selection)):
            yield from numbered([partition.compute()], f"partition {number}", number)

    @property
    def _selection_of_pieces(self) -> Selection:
        return self.selection.after_reading if self._is_frame else self.selection

    def reduced(self, work: Work, merge: Merge) -> dict[str, bytes]:
        """What `work` returns for the batches of each partition, merged by name in a tree of tasks."""
        delayed = importlib.import_module("dask").delayed
        shared = delayed(_PartWork(work, self._selection_of_pieces), traverse=False)
        of_part = delayed(_counted_part)
        results = [of_part(shared, part, number) for number, part in enumerate(self._partitions(self.selection))]
        merge_two = delayed(functools.partial(merged, merge=merge))
        while len(results) > 1:
            pairs = itertools.zip_longest(results[::2], results[1::2])
            results = [one if two is None else merge_two(one, two) for one, two in pairs]
        found: dict[str, bytes] = results[0].compute()
        return found

    def mapped(self, work: Table, names: Iterable[str]) -> Any:
        """A Dask DataFrame with the index of the rows."""
        pandas = importlib.import_module("pandas")
        frames = importlib.import_module("dask.dataframe")
        shared = importlib.import_module("dask").delayed(work, traverse=False)
        meta = pandas.DataFrame({name: np.empty(0) for name in names})
        if self._is_frame:
            return self.table.map_partitions(_mapped_part, shared, meta=meta.set_index(_no_rows(self.table).index))
        part = importlib.import_module("dask").delayed(_mapped_part)
        parts = [part(block, shared) for block in self._partitions(ALL_COLUMNS)]
        return frames.from_delayed(parts, meta=meta)


def _no_rows(table: Any) -> Any:
    """An empty table with the index of a Dask DataFrame."""
    return table._meta[:0]  # noqa: SLF001  the documented name for the shape of a partition


@dataclasses.dataclass(frozen=True)
class _PartWork:
    """What to do with a partition."""

    work: Work
    selection: Selection


def _counted_part(shared: _PartWork, table: Any, number: int) -> Mapping[str, bytes]:
    return shared.work(batches_of_part([table], number, shared.selection))


def _mapped_part(table: Any, work: Table) -> Any:
    """The columns of a partition as a pandas table with its index."""
    pandas = importlib.import_module("pandas")
    return pandas.DataFrame(work(table), index=getattr(table, "index", None))
