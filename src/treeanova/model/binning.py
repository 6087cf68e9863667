"""Binning: the fine bins of an axis merged to fewer coarse ones.

The one home of merging: tensors of merged bins, terms with axes of their own, coarse cells of high orders, groups of
bins for smoothing, and bins of a report's tables are all binnings.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.model.axes import Axis


@dataclasses.dataclass(frozen=True, eq=False)
class Binning:
    """A coarse bin for each fine bin of an axis, and the share of the coarse bin that each fine bin holds.

    Attributes
    ----------
    bins
        Coarse bin of each fine bin.
    shares
        Share of each fine bin in the mass of its coarse bin; these add up to 1 in every coarse bin.
    size
        Number of coarse bins.

    Examples
    --------
    >>> import numpy as np
    >>> halves = binning_by(np.array([0, 0, 1]), masses=np.array([1.0, 3.0, 6.0]))
    >>> halves.shares.tolist()
    [0.25, 0.75, 1.0]
    >>> halves.pool(np.array([1.0, 3.0, 6.0])).tolist()
    [4.0, 6.0]
    """

    bins: Ints
    shares: Floats
    size: int

    @property
    def is_identity(self) -> bool:
        """Whether every bin stays on its own."""
        return self.size == len(self.bins)

    def shift(self, max_bins: int) -> int:
        """How often neighbours must be merged two by two to leave at most `max_bins`."""
        return max(0, math.ceil(math.log2(self.size / max_bins))) if self.size > max_bins else 0

    def coarser(self, max_bins: int) -> Ints:
        """Coarse bin containing each bin, with at most `max_bins`, neighbours merged two by two."""
        return self.bins >> self.shift(max_bins)

    def coarser_size(self, max_bins: int) -> int:
        """Number of bins after merging neighbours two by two to at most `max_bins`."""
        return ((self.size - 1) >> self.shift(max_bins)) + 1

    def pool(self, masses: Floats, axis: int = 0) -> Floats:
        """Sums of masses over the fine bins of each coarse bin, along one axis of an array."""
        if self.is_identity:
            return masses
        order = np.argsort(self.bins, kind="stable")
        starts = np.searchsorted(self.bins[order], np.arange(self.size))
        sums: Floats = np.add.reduceat(masses.take(order, axis=axis), starts, axis=axis)
        return sums

    def average(self, values: Floats, axis: int = 0) -> Floats:
        """Means of values over the fine bins of each coarse bin, weighted by shares, along one axis of an array."""
        if self.is_identity:
            return values
        shape = [-1 if i == axis else 1 for i in range(values.ndim)]
        return self.pool(values * self.shares.reshape(shape), axis)

    def spread(self, values: Floats, axis: int = 0) -> Floats:
        """Values of coarse bins, repeated for each of their fine bins."""
        return values if self.is_identity else values.take(self.bins, axis=axis)

    def axis(self, axis: Axis) -> Axis:
        """The coarse axis."""
        return axis if self.is_identity else axis.coarsened(self.bins)

    def one_of_each(self, numbers: Ints) -> Ints:
        """For each coarse bin the number of one of its fine bins, which all have the same."""
        taken = np.zeros(self.size, dtype=np.int64)
        taken[self.bins] = numbers
        return taken

    def within(self, finer: Binning) -> Ints:
        """Coarse bin that contains each bin of a finer binning of the same axis."""
        return finer.one_of_each(self.bins)

    def refines(self, other: Binning) -> bool:
        """Whether every bin lies within one bin of another binning of the same axis."""
        return np.array_equal(other.within(self)[self.bins], other.bins)

    def equals(self, other: Binning) -> bool:
        """Whether both merge the same bins."""
        return self.size == other.size and np.array_equal(self.bins, other.bins)


def unmerged(n_bins: int) -> Binning:
    """The binning that leaves every bin on its own."""
    return Binning(np.arange(n_bins), np.ones(n_bins), n_bins)


def binning_by(bins: Ints, masses: Floats | None = None) -> Binning:
    """Fine bins merged by given numbers of coarse ones; shares follow masses, equal where a coarse bin has none."""
    coarse = np.unique(bins, return_inverse=True)[1].ravel()
    counts = np.bincount(coarse)
    if masses is None:
        return Binning(coarse, 1 / counts[coarse], len(counts))
    totals = np.bincount(coarse, masses)
    shares = np.where(totals[coarse] > 0, masses / np.where(totals > 0, totals, 1.0)[coarse], 1 / counts[coarse])
    return Binning(coarse, shares, len(counts))


def equal_mass(axis: Axis, masses: Floats, max_bins: int) -> Binning:
    """At most `max_bins` bins of about equal mass.

    Bins of missing values stay apart. Of categories, the largest stay apart and all others become one bin.
    """
    if axis.size <= max_bins:
        return binning_by(np.arange(axis.size), masses)
    if not axis.is_ordered:
        rank = np.empty(axis.size, dtype=np.int64)
        rank[np.argsort(-masses, kind="stable")] = np.arange(axis.size)
        return binning_by(np.minimum(rank, max_bins - 1), masses)
    groups = equal_mass_groups(masses[: axis.n_regular], max_bins - axis.n_extra)
    return binning_by(np.concatenate([groups, np.full(axis.n_extra, max_bins)]), masses)


def equal_mass_groups(masses: Floats, n_groups: int) -> Ints:
    """Group of each of some ordered bins, neighbours of about equal mass in all; some groups may stay empty."""
    total = masses.sum()
    middles = (np.cumsum(masses) - masses / 2) / total if total > 0 else np.linspace(0, 1, len(masses))
    return np.minimum((middles * n_groups).astype(np.int64), n_groups - 1)


def common_refinements(options: Sequence[Sequence[Binning]]) -> tuple[Binning, ...]:
    """The common refinement of several lists of binnings, one binning per feature."""
    return tuple(common_refinement(column) for column in zip(*options, strict=True))


def common_refinement(binnings: Sequence[Binning]) -> Binning:
    """The coarsest binning that is finer than or equal to all of some binnings of one axis."""
    first, *others = binnings
    if first.is_identity or all(first.equals(other) for other in others):
        return first
    identity = next((other for other in others if other.is_identity), None)
    if identity is not None:
        return identity
    pairs = np.unique(np.stack([binning.bins for binning in binnings]), axis=1, return_inverse=True)[1].ravel()
    order = np.unique(pairs, return_index=True)[1]
    rank = np.empty(len(order), dtype=np.int64)
    rank[np.argsort(order)] = np.arange(len(order))
    return binning_by(rank[pairs])
