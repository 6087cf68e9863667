"""Axes: the bins of one feature, either intervals or categories, with bins for missing and unseen values.

All that differs between the two kinds is a method of `Axis`; code outside this room never asks which kind it has.

`Lookup` replaces binary search. A monotone step function maps a number to one of many cells, and a table holds the
number of bounds in the cells before each cell. Because the function is monotone, however it rounds, those bounds are
smaller than the number and bounds of later cells are larger, so one comparison with the bound in the cell itself
settles the bin. Cells with several bounds use a binary search; the number of cells is chosen so that they are few.
"""

from __future__ import annotations

import abc
import dataclasses
import decimal
import functools
import itertools
import math
from collections.abc import Callable, Hashable, Iterator
from typing import ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.data.dates import date_texts
from treeanova.data.features import Feature

FEWEST_VALUES = 4096  # fewer are searched for in the time that it takes to make the table
_CHUNK = 8192  # values whose intermediate results stay in the processor's cache
_CELLS_PER_BOUND = (4, 16, 64)  # that are tried
_MOST_CELLS = 1 << 16
_FEW = 0.02  # share of the bounds that may lie in cells with others
_MANY = 0.5  # the share from which on a binary search for all is faster
_SINGLE_DIGITS, _SINGLE_ROUNDING = 6, 2.0**-23  # of float32 numbers that are short decimals; of their neighbours
_LARGEST_SINGLE = 2.0**21  # beyond, that rounding could reach another integer
_DOUBLE_ROUNDING = 2.0**-50

Positions = npt.NDArray[np.intp]
Cells = Callable[[Floats], Positions]


def _rank(values: Floats) -> npt.NDArray[np.int64]:
    """Return integers in the order of floats, consecutive for neighbouring floats; the same for 0.0 and -0.0."""
    bits: npt.NDArray[np.int64] = (values + 0.0).view(np.int64)  # of negative floats, all but the sign are flipped
    return bits ^ ((bits >> 63) & np.iinfo(np.int64).max)


def equal_cells(values: Floats, low: float, scale: float, n_cells: int) -> Positions:
    """Return the cell of each value, of n_cells of equal length 1 / scale from `low` on; the ends take all others."""
    with np.errstate(over="ignore"):
        places = values - low
        places *= scale
    np.fmax(places, 0, out=places)
    np.fmin(places, n_cells - 1, out=places)
    return places.astype(np.intp)


def bit_cells(values: Floats, shift: int, low: int, n_cells: int) -> Positions:
    """Return the cell of each value; cells have 2^shift floats each, so they are dense near zero."""
    places = _rank(values) >> shift
    places -= low
    return np.clip(places, 0, n_cells - 1, out=places)


@dataclasses.dataclass(frozen=True, eq=False)
class Lookup:
    """A table of the bins (-inf, bounds[0]], (bounds[0], bounds[1]], …, (bounds[-1], inf)."""

    bounds: Floats
    cells: Cells  # a step function from numbers to 0 .. n_cells - 1 that never falls; NaN has any cell
    first: BinIndices  # number of bounds before each cell
    bound: Floats  # the first bound in each cell, infinity without any
    has_several: Bools  # whether each cell has several bounds

    def index(self, column: Floats) -> BinIndices:
        """Return the bin of each value, the number of bounds below it, like numpy.searchsorted; any bin for NaN."""
        codes = np.empty(len(column), dtype=np.int32)
        several = self.has_several if self.has_several.any() else None
        # The bin is the number of bounds before a value's cell, plus 1 if the value is above the bound in the cell.
        for start in range(0, len(column), _CHUNK):
            values, chunk = column[start : start + _CHUNK], codes[start : start + _CHUNK]
            cells = self.cells(values)
            self.first.take(cells, out=chunk, mode="clip")
            chunk += values > self.bound.take(cells, mode="clip")
            if several is not None:
                rows = np.flatnonzero(several.take(cells, mode="clip"))
                chunk[rows] = np.searchsorted(self.bounds, values[rows], side="left")
        return codes

    @property
    def share_searched(self) -> float:
        """Share of the bounds in cells with several: about that of the values that need a search."""
        return float(self.has_several[self.cells(self.bounds)].mean())


def lookup_of(bounds: Floats) -> Lookup | None:
    """Return a lookup in which few cells have several bounds; None if there is none and a binary search is faster."""
    best = None
    for cells, n_cells in _ways_to_divide(bounds):
        lookup = _lookup_with(bounds, cells, n_cells)
        if best is None or lookup.share_searched < best.share_searched:
            best = lookup
        if best.share_searched <= _FEW:
            return best
    return best if best is not None and best.share_searched < _MANY else None


def _ways_to_divide(bounds: Floats) -> Iterator[tuple[Cells, int]]:
    """Yield step functions from numbers to cells, and the number of cells: few or many, of equal length or by bits."""
    if len(bounds) < 2:
        return
    low, high = (int(rank) for rank in _rank(bounds[[0, -1]]))
    for factor in _CELLS_PER_BOUND:
        n_cells = min(factor * len(bounds), _MOST_CELLS)
        with np.errstate(all="ignore"):
            scale = (n_cells - 1) / (bounds[-1] - bounds[0])
        if np.isfinite(bounds[0]) and np.isfinite(scale) and scale > 0:
            yield functools.partial(equal_cells, low=float(bounds[0]), scale=float(scale), n_cells=n_cells), n_cells
        shift = max((high - low) // n_cells, 1).bit_length()
        n_bit_cells = (high >> shift) - (low >> shift) + 1
        yield functools.partial(bit_cells, shift=shift, low=low >> shift, n_cells=n_bit_cells), n_bit_cells


def _lookup_with(bounds: Floats, cells: Cells, n_cells: int) -> Lookup:  # by a step function from numbers to cells
    counts = np.bincount(cells(bounds), minlength=n_cells)
    first = np.cumsum(counts) - counts
    bound = np.where(counts > 0, np.append(bounds, np.inf)[first], np.inf)
    return Lookup(bounds, cells, first.astype(np.int32), bound, counts > 1)


@dataclasses.dataclass(frozen=True, eq=False)
class Axis(abc.ABC):
    """The bins of one feature.

    Regular bins come first; missing and unseen values have bins after them, or share a regular bin if the model treats
    them alike.

    Attributes
    ----------
    name
        Name of the feature.
    missing_bin
        Bin of missing values; -1 if the model refuses them.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> axis = fx.terms["x0"].axes[0]
    >>> axis.name, axis.size, axis.thresholds.round(6).tolist()
    ('x0', 2, [0.5])
    """

    is_ordered: ClassVar[bool]  # whether the regular bins are intervals of numbers
    name: str
    missing_bin: int

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of bins."""

    @property
    @abc.abstractmethod
    def n_regular(self) -> int:
        """Number of regular bins: intervals or categories."""

    @property
    @abc.abstractmethod
    def labels(self) -> tuple[str, ...]:
        """A label for each bin, to show to people."""

    @property
    def thresholds(self) -> Floats:
        """Upper ends of all intervals but the last; empty for categories."""
        return np.empty(0)

    @property
    def date_unit(self) -> str:
        """The unit of time that the numbers of intervals count, if they are dates; else empty."""
        return ""

    @property
    def unseen(self) -> int:
        """Bin of values never seen in training; -1 if there is none."""
        return -1

    @abc.abstractmethod
    def index(self, column: Floats) -> BinIndices:
        """Return the bin of each value of an encoded column."""

    @abc.abstractmethod
    def examples(self) -> Floats:
        """Return an encoded value that falls in each bin."""

    @abc.abstractmethod
    def coarsened(self, bins: Ints) -> Axis:
        """Return the axis with neighbouring bins merged; `bins` has the new bin of each bin."""

    @abc.abstractmethod
    def has_bins_of(self, other: Axis) -> bool:
        """Whether both axes have the same bins."""

    @property
    def n_extra(self) -> int:
        """Number of bins that hold only missing or unseen values; they come last."""
        return self.size - self.n_regular

    @property
    def edges(self) -> Floats:
        """Ends of the intervals, from -inf to inf."""
        return np.concatenate([[-np.inf], self.thresholds, [np.inf]])

    @property
    def interval_ends(self) -> Floats | None:
        """Lower and upper end of each bin, shape (2, n_bins), NaN for missing values; None for categories."""
        if not self.is_ordered:
            return None
        ends = np.full((2, self.size), np.nan)
        ends[:, : self.n_regular] = self.edges[:-1], self.edges[1:]
        return ends

    def __len__(self) -> int:
        return self.size


@dataclasses.dataclass(frozen=True, eq=False)
class IntervalAxis(Axis):
    """Bins (-inf, bounds[0]], (bounds[0], bounds[1]], …, (bounds[-1], inf), and possibly one for missing values.

    Attributes
    ----------
    bounds
        Upper ends of all intervals except the last, ascending; an interval contains its upper end.
    date_unit
        The unit of time that the numbers count, if they are dates; else empty.

    Examples
    --------
    >>> import numpy as np
    >>> axis = IntervalAxis("age", missing_bin=2, bounds=np.array([40.0]))
    >>> axis.labels
    ('≤ 40', '> 40', 'missing')
    >>> axis.index(np.array([40.0, 41.0, np.nan])).tolist()
    [0, 1, 2]
    """

    is_ordered: ClassVar[bool] = True
    bounds: Floats
    date_unit: str = ""

    @property
    def n_regular(self) -> int:
        return len(self.bounds) + 1

    @property
    def size(self) -> int:
        return max(self.n_regular, self.missing_bin + 1)

    @property
    def thresholds(self) -> Floats:
        return self.bounds

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        # ≤ 1, (1, 2], > 2; if the bounds are the last floats before these numbers, < 1, [1, 2), ≥ 2.
        dates = date_texts(self.bounds, self.date_unit) if self.date_unit else None
        ends = short_ends(self.bounds) if dates is None else [End(text, excluded=False) for text in dates]
        inner = [f"{low.as_lower}, {high.as_upper}" for low, high in itertools.pairwise(ends)]
        signs = [("<", "≥") if end.excluded else ("≤", ">") for end in ends]  # of values below and above each end
        names = [f"{signs[0][0]} {ends[0].text}", *inner, f"{signs[-1][1]} {ends[-1].text}"] if ends else ["all"]
        return _with_extra(names, self.missing_bin, "missing")

    def index(self, column: Floats) -> BinIndices:  # the bin of each value; a lookup table pays for many values only
        table = self._lookup if len(column) >= FEWEST_VALUES else None
        codes = np.searchsorted(self.bounds, column).astype(np.int32) if table is None else table.index(column)
        missing = np.isnan(column)
        if missing.any():
            codes[missing] = self.missing_bin
        return codes

    @functools.cached_property
    def _lookup(self) -> Lookup | None:  # None if a binary search is faster
        return lookup_of(self.bounds)

    def examples(self) -> Floats:
        return np.concatenate([self.bounds, [np.inf], np.full(self.n_extra, np.nan)])

    def coarsened(self, bins: Ints) -> IntervalAxis:  # `bins` has the merged bin of each bin
        if not np.isin(np.diff(bins[: self.n_regular]), [0, 1]).all():
            raise ValueError(f"neighbouring intervals of {self.name!r} must be merged in order, got bins {bins}.")
        ends = np.flatnonzero(np.diff(bins[: self.n_regular]))  # of the merged intervals
        missing_bin = self.missing_bin if self.missing_bin < 0 else int(bins[self.missing_bin])
        return IntervalAxis(self.name, missing_bin, self.bounds[ends], self.date_unit)

    def has_bins_of(self, other: Axis) -> bool:  # the same intervals, and missing values in the same bin
        is_same_kind = other.is_ordered and self.missing_bin == other.missing_bin
        return is_same_kind and np.array_equal(self.bounds, other.thresholds)


@dataclasses.dataclass(frozen=True, eq=False)
class CategoryAxis(Axis):
    """A bin per category, and possibly one for unseen and one for missing values.

    Attributes
    ----------
    categories
        The categories, in the order of their bins.
    unseen_bin
        Bin of categories never seen in training; -1 if the model refuses them.

    Examples
    --------
    >>> axis = CategoryAxis("size", missing_bin=1, categories=("S", "L"), unseen_bin=2)
    >>> axis.labels
    ('S', 'L or missing', 'unseen')
    """

    is_ordered: ClassVar[bool] = False
    categories: tuple[Hashable, ...]
    unseen_bin: int

    @property
    def n_regular(self) -> int:
        return len(self.categories)

    @property
    def size(self) -> int:
        return max(len(self.categories), self.unseen_bin + 1, self.missing_bin + 1)

    @property
    def unseen(self) -> int:
        return self.unseen_bin

    @functools.cached_property
    def labels(self) -> tuple[str, ...]:
        names = _with_extra([str(category) for category in self.categories], self.unseen_bin, "unseen")
        return _with_extra(list(names), self.missing_bin, "missing")

    def index(self, column: Floats) -> BinIndices:  # the bin of each code; NaN is missing
        missing = np.isnan(column)
        codes = np.where(missing, 0, column).astype(np.int32)
        codes[codes == len(self.categories)] = self.unseen_bin  # all unseen values have the code after the last
        codes[missing] = self.missing_bin
        return codes

    def examples(self) -> Floats:  # a code that falls in each bin
        n_categories = len(self.categories)
        values = np.arange(self.size, dtype=np.float64)  # the codes of categories are their bins
        if self.missing_bin >= n_categories:
            values[self.missing_bin] = np.nan
        if self.unseen_bin >= n_categories:
            values[self.unseen_bin] = n_categories  # the code of unseen values
        return values

    def coarsened(self, bins: Ints) -> CategoryAxis:  # itself: categories are never merged
        if len(np.unique(bins)) < self.size:
            raise ValueError(f"categories of {self.name!r} must stay apart, got bins that merge them.")
        return self

    def has_bins_of(self, other: Axis) -> bool:
        return self.labels == other.labels


def of_feature(axis: Axis, feature: Feature) -> Axis:  # the axis with the feature's name and unit of dates
    named = dataclasses.replace(axis, name=feature.name)
    if isinstance(named, IntervalAxis):
        return dataclasses.replace(named, date_unit=feature.encoder.date_unit)
    return named


def _with_extra(names: list[str], bin_: int, word: str) -> tuple[str, ...]:
    """Return labels of bins with a word, such as "missing", at the bin of such values: its own, a shared one, or -1."""
    if bin_ >= len(names):
        names = [*names, word]
    elif bin_ >= 0:
        names = [*names[:bin_], f"{names[bin_]} or {word}", *names[bin_ + 1 :]]
    return tuple(names)


class End(NamedTuple):
    """An upper end of an interval as text; `excluded` if it lies just above the bound, so that values are below it."""

    text: str
    excluded: bool

    @property
    def as_lower(self) -> str:
        return f"{'[' if self.excluded else '('}{self.text}"

    @property
    def as_upper(self) -> str:
        return f"{self.text}{')' if self.excluded else ']'}"


def short_ends(bounds: Floats, least_digits: int = 4) -> list[End]:
    """Return bounds as texts with as few digits as keep them in order; numbers that are short are never rounded."""
    for digits in range(least_digits, 18):
        ends = [_short_end(float(bound), digits) for bound in bounds]
        if all(low < high for low, high in itertools.pairwise((float(end.text), not end.excluded) for end in ends)):
            return ends
    return [End(repr(float(bound)), excluded=False) for bound in bounds]


def _short_end(bound: float, digits: int) -> End:
    """Return a bound as text: the short number that it is, or "20" for the last float below 20; others rounded down."""
    # Rounded to 2010, a bound of 2009.5 would put the year 2010 into the wrong interval.
    may_be_single = abs(bound) < _LARGEST_SINGLE
    for n_digits in range(1, 14):
        number = float(f"{bound:.{n_digits}g}")
        rounding = _SINGLE_ROUNDING if may_be_single and n_digits <= _SINGLE_DIGITS else _DOUBLE_ROUNDING
        if abs(number - bound) <= rounding * abs(bound):
            return End(f"{number:.{max(n_digits, digits)}g}", excluded=number > bound)
    if not math.isfinite(bound) or 2 * bound == round(2 * bound):  # between large integers
        return End(f"{bound:.17g}", excluded=False)
    below = decimal.Context(prec=digits, rounding=decimal.ROUND_FLOOR).create_decimal_from_float(bound)
    return End(f"{float(below):.{digits}g}", excluded=False)  # on the same side of all numbers of so few digits
