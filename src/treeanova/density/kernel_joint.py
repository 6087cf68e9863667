"""A smooth joint density of all features: draw a row, then move each feature independently by its kernel.

w(x) = Σ_rows (1/n) Π_j K_j(x_j | bin of the row in j), with one kernel per feature that keeps the feature's masses. It
is a mixture over rows of products: tables of all orders agree by construction, and rows can be drawn from it. A kernel
is a matrix A over at most 32 groups of bins (`margins`): Student's t in ranks or values for ordered bins, shrinkage
towards the masses for others. A feature without a kernel is independent of all others. A millionth of the product of
marginals is mixed in, so that rounding cannot decide whether a cell of bins with rows has mass.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from treeanova.anova.slices import outer
from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.blas import single_threaded
from treeanova.density.joint import Joint, draw_bins
from treeanova.density.kernel_search import KernelSearch, moved_by
from treeanova.density.margins import KernelMatrix, Margin
from treeanova.density.pooling import Binnings, merging, pool_masses
from treeanova.density.statistics import Points, Statistics

FLOOR = 1e-6
GROUPS = 32


@dataclasses.dataclass(frozen=True, eq=False)
class KernelJoint(Joint):
    """Rows moved by kernels, matrices over groups of bins; None for a feature that is independent of all others."""

    statistics: Statistics
    margins: Sequence[Margin]
    kernels: Sequence[KernelMatrix | None]

    @property
    def is_product(self) -> bool:
        """Whether every feature is independent of all others."""
        return sum(kernel is not None for kernel in self.kernels) < 2

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Masses times the smoothed ratio, with the floor."""
        binnings = merging(binnings)
        masses = [self.margins[j].masses for j in key]
        has_kernel = [self.kernels[j] is not None for j in key]
        if sum(has_kernel) < 2:
            return outer(pool_masses(masses, binnings))
        ratio = self._ratio(tuple(itertools.compress(key, has_kernel)))
        ratio *= 1 - FLOOR
        ratio += FLOOR
        ratio = np.expand_dims(ratio, tuple(i for i, moves in enumerate(has_kernel) if not moves))
        groups = [self.margins[j].groups * moves for j, moves in zip(key, has_kernel, strict=True)]
        if binnings is None:
            return outer(masses) * ratio[np.ix_(*groups)]
        for mass, group, binning, n_groups in zip(masses, groups, binnings, ratio.shape, strict=True):
            by_group = scipy.sparse.csr_array((mass, (binning.bins, group)), shape=(binning.size, n_groups))
            pooled = by_group @ ratio.reshape(n_groups, -1)
            ratio = np.moveaxis(pooled.reshape(binning.size, *ratio.shape[1:]), 0, -1)
        return ratio

    def _ratio(self, key: Key) -> Floats:
        """Ratio of the smooth density to the product of masses, over groups."""
        ratio = self.statistics.counts(key, [self.margins[j].binning for j in key])
        for kernel in (self.kernels[j] for j in key):  # each step moves the first axis to the end
            if kernel is not None:
                ratio = moved_by(kernel, ratio)
        return ratio

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Draws: rows, each feature moved by its kernel."""
        bins, weights = self.statistics.points()
        rows = draw_bins(weights, n_rows, rng)
        codes = np.empty((n_rows, len(self.kernels)), dtype=np.int32)
        for j, (margin, kernel) in enumerate(zip(self.margins, self.kernels, strict=True)):
            codes[:, j] = _move(margin, kernel, bins[rows, j], rng)
        return Points(codes, np.full(n_rows, 1 / n_rows))


def _move(margin: Margin, kernel: KernelMatrix | None, codes: BinIndices, rng: np.random.Generator) -> BinIndices:
    """Bins of rows moved by a kernel over groups: to a group, then to a bin of the group by mass."""
    if kernel is None:
        return draw_bins(margin.masses, len(codes), rng)
    groups = _move_groups(margin, kernel, margin.groups[codes], rng)
    ends = np.cumsum(margin.masses)
    high = np.cumsum(margin.group_masses)[groups]
    places = high - margin.group_masses[groups] * rng.random(len(codes))
    bins = np.minimum(np.searchsorted(ends, places, side="left"), len(ends) - 1)
    first = np.searchsorted(margin.groups, groups, side="left")
    last = np.searchsorted(margin.groups, groups, side="right") - 1
    return np.clip(bins, first, last).astype(np.int32)


def _move_groups(margin: Margin, kernel: KernelMatrix, groups: Ints, rng: np.random.Generator) -> Ints:
    moved = np.empty_like(groups)
    for group in np.unique(groups):
        rows = np.flatnonzero(groups == group)
        moved[rows] = draw_bins(margin.group_masses * kernel.column(int(group)), len(rows), rng)
    return moved


def kernel_joint(statistics: Statistics, margins: Sequence[Margin], bandwidth: float | None = None) -> Joint:
    """The smooth joint density of rows; kernels of ordered features by a bandwidth in units of n^(-1/6), or chosen."""
    coarse = [margin.with_groups(GROUPS) for margin in margins]
    if bandwidth is None:
        with single_threaded():
            return KernelJoint(statistics, coarse, KernelSearch(statistics, coarse).kernels())
    width = bandwidth * statistics.effective_rows ** (-1 / 6)
    return KernelJoint(statistics, coarse, [margin.kernel(width) for margin in coarse])
