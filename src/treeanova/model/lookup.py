"""Bins of numbers by a table in place of a search: about ten times as fast, and exact.

A step function that never falls maps a number to one of many equal cells, and a table has for each cell the number of
bounds in the cells before it. Bounds of earlier cells are smaller than the number, those of later cells larger, since
the function never falls, however it rounds. So one comparison with the bound in the cell itself settles the bin. Cells
with several bounds are left to a binary search; the number of cells is chosen so that there are few.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Bools, Floats

FEWEST_VALUES = 4096  # fewer are searched for in the time that it takes to make the table
_CHUNK = 8192  # values whose intermediate results stay in the processor's cache
_CELLS_PER_BOUND = (4, 16, 64)
_MOST_CELLS = 1 << 16
_FEW = 0.02  # share of the bounds that may lie in cells with others
_MANY = 0.5

Positions = npt.NDArray[np.intp]


class Cells(abc.ABC):
    """A step function from numbers to cells 0 .. n_cells - 1 that never falls; NaN has any cell."""

    n_cells: int

    @abc.abstractmethod
    def of(self, values: Floats) -> Positions:
        """The cell of each value."""


@dataclasses.dataclass(frozen=True)
class EqualCells(Cells):
    """Cells of equal length, from `low` on."""

    low: float
    scale: float
    n_cells: int

    def of(self, values: Floats) -> Positions:
        """The cell of each value; the first and the last also have all that lies beyond."""
        with np.errstate(over="ignore"):
            places = values - self.low
            places *= self.scale
        np.fmax(places, 0, out=places)
        np.fmin(places, self.n_cells - 1, out=places)
        return places.astype(np.intp)


@dataclasses.dataclass(frozen=True)
class BitCells(Cells):
    """Cells of equal length in the order of floats, which are dense near zero: for values over several magnitudes."""

    shift: int
    low: int
    n_cells: int

    def of(self, values: Floats) -> Positions:
        """The cell of each value."""
        places = _rank(values) >> self.shift
        places -= self.low
        return np.clip(places, 0, self.n_cells - 1, out=places)


def _rank(values: Floats) -> npt.NDArray[np.int64]:
    """Whole numbers in the order of floats; the same for 0.0 and -0.0."""
    bits: npt.NDArray[np.int64] = (values + 0.0).view(np.int64)
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


@dataclasses.dataclass(frozen=True, eq=False)
class Lookup:
    """A table of the bins (-inf, bounds[0]], (bounds[0], bounds[1]], …, (bounds[-1], inf).

    Attributes
    ----------
    bounds
        Upper ends of the intervals, ascending.
    cells
        The step function.
    first
        Number of bounds in earlier cells, for each cell.
    bound
        The bound in each cell; infinity where there is none.
    has_several
        Whether a cell has several bounds.
    """

    bounds: Floats
    cells: Cells
    first: BinIndices
    bound: Floats
    has_several: Bools

    def index(self, column: Floats) -> BinIndices:
        """The number of bounds below each value, as numpy.searchsorted counts them; any bin for NaN."""
        codes = np.empty(len(column), dtype=np.int32)
        several = self.has_several if self.has_several.any() else None
        for start in range(0, len(column), _CHUNK):
            values, part = column[start : start + _CHUNK], codes[start : start + _CHUNK]
            cells = self.cells.of(values)
            self.first.take(cells, out=part, mode="clip")
            part += values > self.bound.take(cells, mode="clip")
            if several is not None:
                rows = np.flatnonzero(several.take(cells, mode="clip"))
                part[rows] = np.searchsorted(self.bounds, values[rows], side="left")
        return codes

    @property
    def share_searched(self) -> float:
        """Share of the bounds that lie in cells with several: about that of the values that are searched for."""
        return float(self.has_several[self.cells.of(self.bounds)].mean())


def lookup_of(bounds: Floats) -> Lookup | None:
    """A table for bounds; None where half of them or more would be searched for."""
    best = None
    for cells in _candidates(bounds):
        lookup = _table(bounds, cells)
        if best is None or lookup.share_searched < best.share_searched:
            best = lookup
        if best.share_searched <= _FEW:
            return best
    return best if best is not None and best.share_searched < _MANY else None


def _candidates(bounds: Floats) -> Iterator[Cells]:
    """Step functions, the cheaper first."""
    if len(bounds) < 2:
        return
    for factor in _CELLS_PER_BOUND:
        n_cells = min(factor * len(bounds), _MOST_CELLS)
        yield from _equal_cells(bounds, n_cells)
        yield from _bit_cells(bounds, n_cells)


def _equal_cells(bounds: Floats, n_cells: int) -> Iterator[EqualCells]:
    with np.errstate(all="ignore"):
        scale = (n_cells - 1) / (bounds[-1] - bounds[0])
    if np.isfinite(bounds[0]) and np.isfinite(scale) and scale > 0:
        yield EqualCells(float(bounds[0]), float(scale), n_cells)


def _bit_cells(bounds: Floats, n_cells: int) -> Iterator[BitCells]:
    low, high = (int(rank) for rank in _rank(bounds[[0, -1]]))
    shift = max((high - low) // n_cells, 1).bit_length()
    yield BitCells(shift, low >> shift, (high >> shift) - (low >> shift) + 1)


def _table(bounds: Floats, cells: Cells) -> Lookup:
    of_bounds = cells.of(bounds)
    counts = np.bincount(of_bounds, minlength=cells.n_cells)
    first = np.cumsum(counts) - counts
    bound = np.where(counts > 0, np.append(bounds, np.inf)[first], np.inf)
    return Lookup(bounds, cells, first.astype(np.int32), bound, counts > 1)
