"""Joint densities of all features: one definition gives tables of any order and weighted points.

A table of fewer features is the marginal of a table of more, by construction. `points` are bins and weights of rows
that represent the density: exact if few cells have mass, otherwise draws. `kernel_joint` moves rows by kernels.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from treeanova.anova.support import outer
from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density import costs
from treeanova.density.counting import Binnings, pool_masses, pool_table
from treeanova.density.statistics import Points, Statistics
from treeanova.model.grid import Grid

__all__ = ["Blocks", "Cells", "EmpiricalJoint", "Joint", "Mixture", "Points", "Product", "draw_bins"]

Refinement = Callable[[BinIndices, np.random.Generator], BinIndices]
"""Draws a fine bin within each of some coarse bins."""


class Joint(abc.ABC):
    @property
    def is_product(self) -> bool:
        return False

    @property
    def has_exact_points(self) -> bool:
        """Whether `points` are the whole density, not draws from it."""
        return False

    @abc.abstractmethod
    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Return weights over the bins of some features, of sum 1; over coarse bins if binnings are given."""

    @abc.abstractmethod
    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Return all cells with mass if they are few, otherwise about `n_rows` draws."""

    def points_on(self, grid: Grid, refine: Refinement, n_rows: int, rng: np.random.Generator) -> Points:
        """Return points on a grid with finer bins; `refine` draws one within each of the coarser bins."""
        del grid
        codes, weights = self.points(n_rows, rng)
        return Points(refine(codes, rng), weights)

    def components(self) -> Iterator[tuple[float, Joint]]:
        """Yield shares and densities whose weighted sum is this density."""
        yield 1.0, self


@dataclasses.dataclass(frozen=True, eq=False)
class EmpiricalJoint(Joint):
    statistics: Statistics

    @property
    def has_exact_points(self) -> bool:
        return self.statistics.is_complete

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        return self.statistics.counts(key, binnings)

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        del n_rows, rng
        return self.statistics.points()

    def points_on(self, grid: Grid, refine: Refinement, n_rows: int, rng: np.random.Generator) -> Points:
        del refine, n_rows, rng
        return self.statistics.on(grid).points()


@dataclasses.dataclass(frozen=True, eq=False)
class Product(Joint):
    masses: Sequence[Floats]
    is_product = True

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        return outer(pool_masses([self.masses[j] for j in key], binnings))

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        columns = [draw_bins(masses, n_rows, rng) for masses in self.masses]
        return Points(np.stack(columns, axis=1).astype(np.int32), np.full(n_rows, 1 / n_rows))


@dataclasses.dataclass(frozen=True, eq=False)
class Cells(Joint):
    """A table over the bins of all features, of sum 1."""

    weights: Floats

    @property
    def has_exact_points(self) -> bool:
        return int(np.count_nonzero(self.weights)) <= costs.MAX_CELLS

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        summed = tuple(axis for axis in range(self.weights.ndim) if axis not in key)
        return pool_table(self.weights.sum(axis=summed), binnings)

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        places = np.flatnonzero(self.weights)
        shares = self.weights.ravel()[places]
        if len(places) > costs.MAX_CELLS:
            places = places[draw_bins(shares, n_rows, rng)]
            shares = np.full(n_rows, 1 / n_rows)
        codes = np.stack(np.unravel_index(places, self.weights.shape), axis=1).astype(np.int32)
        return Points(codes, shares / shares.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks(Joint):
    """Independent blocks of features: positions of the features of each block, and the density of the block."""

    blocks: Sequence[tuple[Key, Joint]]

    @property
    def has_exact_points(self) -> bool:
        if not all(joint.has_exact_points for _, joint in self.blocks):
            return False
        sizes = [len(joint.points(0, np.random.default_rng(0)).weights) for _, joint in self.blocks]
        return math.prod(sizes) <= costs.MAX_CELLS

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        tables, order = [], []
        for features, joint in self.blocks:
            inner = tuple(i for i, j in enumerate(features) if j in key)
            if inner:
                coarse = None if binnings is None else [binnings[key.index(features[i])] for i in inner]
                tables.append(joint.table(inner, coarse))
                order += [features[i] for i in inner]
        return outer(tables).transpose([order.index(j) for j in key])

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        by_block = [(features, joint.points(n_rows, rng)) for features, joint in self.blocks]
        if self.has_exact_points:
            places = [grid.ravel() for grid in np.indices([len(points.weights) for _, points in by_block])]
            weights = outer([points.weights for _, points in by_block]).ravel()
        else:
            places = [draw_bins(points.weights, n_rows, rng) for _, points in by_block]
            weights = np.full(n_rows, 1 / n_rows)
        codes = np.empty((len(weights), sum(len(features) for features, _ in by_block)), dtype=np.int32)
        for (features, points), place in zip(by_block, places, strict=True):
            codes[:, list(features)] = points.codes[place]
        return Points(codes, weights)


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture(Joint):
    """Weighted sum of densities; shares add up to 1."""

    shares: Sequence[float]
    joints: Sequence[Joint]

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        return functools.reduce(np.add, (share * joint.table(key, binnings) for share, joint in self.components()))

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        return _concatenated([(share, joint.points(n_rows, rng)) for share, joint in self.components()])

    def points_on(self, grid: Grid, refine: Refinement, n_rows: int, rng: np.random.Generator) -> Points:
        return _concatenated(
            [(share, joint.points_on(grid, refine, n_rows, rng)) for share, joint in self.components()]
        )

    def components(self) -> Iterator[tuple[float, Joint]]:
        yield from ((share, joint) for share, joint in zip(self.shares, self.joints, strict=True) if share > 0)


def _concatenated(components: Sequence[tuple[float, Points]]) -> Points:
    codes = np.concatenate([points.codes for _, points in components])
    return Points(codes, np.concatenate([share * points.weights for share, points in components]))


def draw_bins(masses: Floats, n_rows: int, rng: np.random.Generator) -> BinIndices:
    """Draw bins in random order; counts differ from `n_rows` times the masses by less than 1."""
    ends = np.cumsum(masses)
    places = (np.arange(n_rows) + rng.random()) / n_rows * ends[-1]
    bins = np.searchsorted(ends, np.minimum(places, np.nextafter(ends[-1], 0)), side="right")
    return rng.permutation(np.minimum(bins, len(masses) - 1)).astype(np.int32)
