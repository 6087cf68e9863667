"""Joint densities of all features: one definition, from which tables of any order and weighted points both follow.

A table of fewer features is the marginal of a table of more, by construction. `points` are bins of rows that stand for
the density: exact where it sits on few cells, else draws. Kinds: the rows themselves (`Rows`), independent features
(`Product`), a whole table (`Cells`), independent blocks of features (`Blocks`) and weighted sums of others (`Mixture`);
rows moved by kernels are in `kernel_joint`.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from treeanova.anova.slices import outer
from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density.pooling import Binnings, pool_masses, pool_table
from treeanova.density.statistics import Points, Statistics
from treeanova.model.grid import Grid

__all__ = [
    "MOST_CELLS",
    "Blocks",
    "Cells",
    "Joint",
    "Mixture",
    "Points",
    "Product",
    "Rows",
    "check_agreement",
    "drawn_bins",
    "joint_of_tables",
    "raked",
]

MOST_CELLS = 1 << 20
_RAKING_SWEEPS = 2_000
_RAKED = 1e-13


Lift = Callable[[BinIndices, np.random.Generator], BinIndices]  # draws finer bins for coarser ones


class Joint(abc.ABC):
    """A probability over the cells of all features."""

    is_product = False
    has_exact_points = False  # whether points are the whole density, not draws from it

    @abc.abstractmethod
    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Weights over the bins of the features at some positions, of sum 1; over coarse bins with binnings of them."""

    @abc.abstractmethod
    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Cells with their weights where they are few, else about `n_rows` draws."""

    def points_on(self, grid: Grid, lift: Lift, n_rows: int, rng: np.random.Generator) -> Points:
        """Points on a grid with finer bins; `lift` draws a bin within each of the coarser ones."""
        del grid
        codes, weights = self.points(n_rows, rng)
        return Points(lift(codes, rng), weights)

    def parts(self) -> Iterator[tuple[float, Joint]]:
        """The density as a weighted sum of simpler ones."""
        yield 1.0, self


@dataclasses.dataclass(frozen=True, eq=False)
class Rows(Joint):
    """The rows themselves, with their weights."""

    statistics: Statistics
    has_exact_points = True

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Shares of the rows."""
        return self.statistics.counts(key, binnings)

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """All rows."""
        del n_rows, rng
        return self.statistics.points()

    def points_on(self, grid: Grid, lift: Lift, n_rows: int, rng: np.random.Generator) -> Points:
        """All rows, in their bins on that grid."""
        del lift, n_rows, rng
        return self.statistics.on(grid).points()


@dataclasses.dataclass(frozen=True, eq=False)
class Product(Joint):
    """Independent features with given masses of their bins."""

    masses: Sequence[Floats]
    is_product = True

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Product of the masses."""
        return outer(pool_masses([self.masses[j] for j in key], binnings))

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Draws."""
        columns = [drawn_bins(masses, n_rows, rng) for masses in self.masses]
        return Points(np.stack(columns, axis=1).astype(np.int32), np.full(n_rows, 1 / n_rows))


@dataclasses.dataclass(frozen=True, eq=False)
class Cells(Joint):
    """A table over the bins of all features, of sum 1."""

    weights: Floats

    @property
    def has_exact_points(self) -> bool:  # type: ignore[override]
        """Whether cells with mass are few enough to be taken all."""
        return int(np.count_nonzero(self.weights)) <= MOST_CELLS

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Its marginal."""
        others = tuple(axis for axis in range(self.weights.ndim) if axis not in key)
        return pool_table(self.weights.sum(axis=others), binnings)

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """All cells with mass, or draws where there are very many."""
        places = np.flatnonzero(self.weights)
        shares = self.weights.ravel()[places]
        if len(places) > MOST_CELLS:
            places = places[drawn_bins(shares, n_rows, rng)]
            shares = np.full(n_rows, 1 / n_rows)
        codes = np.stack(np.unravel_index(places, self.weights.shape), axis=1).astype(np.int32)
        return Points(codes, shares / shares.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks(Joint):
    """Independent blocks of features, each with a density of its own: positions of features and that density."""

    blocks: Sequence[tuple[Key, Joint]]

    @property
    def has_exact_points(self) -> bool:  # type: ignore[override]
        """Whether there is one block, whose points are exact."""
        return len(self.blocks) == 1 and self.blocks[0][1].has_exact_points

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Product of the blocks' tables, with the axes in the order of the key."""
        tables, order = [], []
        for features, joint in self.blocks:
            inner = tuple(i for i, j in enumerate(features) if j in key)
            if inner:
                coarse = None if binnings is None else [binnings[key.index(features[i])] for i in inner]
                tables.append(joint.table(inner, coarse))
                order += [features[i] for i in inner]
        return outer(tables).transpose([order.index(j) for j in key])

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Draws, each block on its own; all cells of a single block."""
        found = [(features, joint.points(n_rows, rng)) for features, joint in self.blocks]
        n_features = sum(len(features) for features, _ in found)
        if len(found) == 1:
            codes, weights = found[0][1]
            return Points(codes[:, np.argsort(found[0][0])], weights)
        codes = np.empty((n_rows, n_features), dtype=np.int32)
        for features, points in found:
            codes[:, list(features)] = points.codes[drawn_bins(points.weights, n_rows, rng)]
        return Points(codes, np.full(n_rows, 1 / n_rows))


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture(Joint):
    """Weighted sum of densities; shares add up to 1."""

    shares: Sequence[float]
    joints: Sequence[Joint]

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Weighted sum of the tables."""
        return functools.reduce(np.add, (share * joint.table(key, binnings) for share, joint in self._with_mass()))

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Points of all parts."""
        return _together([(share, joint.points(n_rows, rng)) for share, joint in self._with_mass()])

    def points_on(self, grid: Grid, lift: Lift, n_rows: int, rng: np.random.Generator) -> Points:
        """Points of all parts."""
        return _together([(share, joint.points_on(grid, lift, n_rows, rng)) for share, joint in self._with_mass()])

    def parts(self) -> Iterator[tuple[float, Joint]]:
        """Its parts."""
        yield from self._with_mass()

    def _with_mass(self) -> list[tuple[float, Joint]]:
        return [(share, joint) for share, joint in zip(self.shares, self.joints, strict=True) if share > 0]


def _together(parts: Sequence[tuple[float, Points]]) -> Points:
    codes = np.concatenate([points.codes for _, points in parts])
    return Points(codes, np.concatenate([share * points.weights for share, points in parts]))


def drawn_bins(masses: Floats, n_rows: int, rng: np.random.Generator) -> BinIndices:
    """Draws of bins with given masses, in random order, with shares as near to the masses as whole numbers can be."""
    ends = np.cumsum(masses)
    places = (np.arange(n_rows) + rng.random()) / n_rows * ends[-1]
    bins = np.searchsorted(ends, np.minimum(places, np.nextafter(ends[-1], 0)), side="right")
    return rng.permutation(np.minimum(bins, len(masses) - 1)).astype(np.int32)


def joint_of_tables(tables: Mapping[Key, Floats], sizes: Sequence[int]) -> Joint:
    """The density of independent blocks that has given tables, which agree on what they share.

    Tables that share features are joined by raking, which gives the table of largest entropy among all that have them.
    """
    blocks = [(features, _block(features, tables, sizes)) for features in _connected(tables, len(sizes))]
    return Blocks(blocks)


def _connected(tables: Mapping[Key, Floats], n_features: int) -> list[Key]:
    """Features that tables join, directly or through others; features without a table stay alone."""
    groups = [{j} for j in range(n_features)]
    for key in tables:
        joined = [group for group in groups if group & set(key)]
        groups = [group for group in groups if group not in joined] + [set().union(*joined)]
    return [tuple(sorted(group)) for group in groups]


def _block(features: Key, tables: Mapping[Key, Floats], sizes: Sequence[int]) -> Joint:
    own = {key: table for key, table in tables.items() if set(key) <= set(features)}
    whole = next((table for key, table in own.items() if len(key) == len(features)), None)
    if whole is not None:
        return Cells(whole)
    shape = tuple(sizes[j] for j in features)
    if not own and math.prod(shape) == 1:
        return Cells(np.ones(shape))
    if not own or math.prod(shape) > MOST_CELLS:
        raise ValueError(
            f"`density` must give one table of the features at {features} for this, got tables of some of them; add "
            "their joint table."
        )
    return Cells(raked(np.full(shape, 1 / math.prod(shape)), {_inside(key, features): t for key, t in own.items()}))


def _inside(key: Key, features: Key) -> Key:
    return tuple(features.index(j) for j in key)


def raked(table: Floats, marginals: Mapping[Key, Floats]) -> Floats:
    """The table brought to given marginals by scaling (iterative proportional fitting), of sum 1.

    ValueError where that does not converge: they contradict each other, or leave too few cells.
    """
    gap = np.inf
    for _ in range(_RAKING_SWEEPS):
        gap = 0.0
        for key, wanted in marginals.items():
            others = tuple(axis for axis in range(table.ndim) if axis not in key)
            found = table.sum(axis=others)
            gap = max(gap, float(np.abs(found - wanted).sum()))
            factors = np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)
            table = table * np.expand_dims(factors, others)
        if gap <= _RAKED:
            break
    if gap > 1e-9:
        raise ValueError(
            f"`density` must give tables that raking can join, got a gap of {gap:.1e} after {_RAKING_SWEEPS:,} sweeps, "
            "as between tables with many empty cells or that contradict each other; give their joint table instead."
        )
    return table


def check_agreement(tables: Mapping[Key, Floats], names: Sequence[str], tolerance: float = 1e-9) -> None:
    """Raise where two tables have different marginals of the features that they share."""
    for (one, first), (other, second) in itertools.combinations(tables.items(), 2):
        shared = tuple(j for j in one if j in other)
        if not shared:
            continue
        gap = float(np.abs(_marginal(first, one, shared) - _marginal(second, other, shared)).sum()) / 2
        if gap > tolerance:
            raise ValueError(
                f"`density` must give the same marginal of {', '.join(names[j] for j in shared)} in all tables, got "
                f"tables of {' × '.join(names[j] for j in one)} and {' × '.join(names[j] for j in other)} that differ "
                f"by {gap:.2g} of the mass; derive them from one joint table."
            )


def _marginal(table: Floats, key: Key, kept: Key) -> Floats:
    summed: Floats = table.sum(axis=tuple(i for i, j in enumerate(key) if j not in kept))
    return summed.transpose(np.argsort(np.argsort([j for j in key if j in kept])))
