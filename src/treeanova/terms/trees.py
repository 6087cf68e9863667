"""Trees: a forest with the bins of its leaves and of its tensors."""

from __future__ import annotations

import dataclasses
import functools

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.density.base import Points
from treeanova.density.kinds import Density
from treeanova.density.statistics import Statistics
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.grid import Binning, Grid, equal_mass, grid_of, unmerged
from treeanova.terms import costs
from treeanova.terms.closed_form import expand, row_cost
from treeanova.terms.layout import TermLayout
from treeanova.terms.leaves import LeafSets


@dataclasses.dataclass(frozen=True, eq=False)
class Trees:
    forest: Forest  # the trees, for exact scores
    leaf_sets: LeafSets  # their leaves on the grid of all their bins
    layout: TermLayout  # which terms are tensors, which are evaluated at rows, which form the remainder
    binnings: tuple[Binning, ...]  # how bins are merged for tensors, feature by feature
    tensor_grid: Grid  # the grid of the merged bins

    @property
    def grid(self) -> Grid:
        return self.leaf_sets.grid

    @property
    def has_merged_bins(self) -> bool:
        return self.layout.max_bins is not None

    @functools.cached_property
    def row_cost(self) -> float:
        """Products per row for all terms, at least one."""
        return max(row_cost(self.leaf_sets), 1.0)

    @property
    def raw_keys_at_rows(self) -> tuple[Key, ...]:
        """Sets of features of leaves with more features than tensors have, sorted."""
        high = (key for key in self.leaf_sets.keys if len(key) > self.layout.tensor_order)
        return tuple(sorted(high, key=lambda key: (len(key), key)))

    def raw_tensors(self) -> Effects:
        """Return the leaves with few features as tensors."""
        max_order = self.layout.tensor_order
        return expand(self.leaf_sets, max_order=max_order, binnings=self.binnings, grid=self.tensor_grid)

    def merged(self, codes: BinIndices) -> BinIndices:
        """Return bins of the tensors for bins on `grid`."""
        if not self.has_merged_bins:
            return codes
        columns = [binning.bins[codes[:, j]] for j, binning in enumerate(self.binnings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def drawn_within(self, codes: BinIndices, rng: np.random.Generator) -> BinIndices:
        """Return bins on `grid` for bins of the tensors, drawn by their shares."""
        if not self.has_merged_bins:
            return codes
        columns = [_draw_within(binning, codes[:, j], rng) for j, binning in enumerate(self.binnings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        return density.joint.points_on(self.grid, self.drawn_within, n_rows, rng)

    def scored_soon(self, points: Points) -> Points:
        n_rows = int(costs.SCORED_STEPS / max(self.forest.n_trees, 1))
        if len(points.codes) <= n_rows:
            return points
        shares = points.weights / points.weights.sum()
        drawn_rows = np.random.default_rng(0).choice(len(points.codes), size=n_rows, p=shares)
        return Points(points.codes[drawn_rows], np.full(n_rows, 1 / n_rows))

    def first_bins(self, key: Key) -> list[Ints]:
        """Return one bin on `grid` of each bin of the tensors, per feature."""
        return [self._first_bins[j] for j in key]

    @functools.cached_property
    def _first_bins(self) -> list[Ints]:
        return [np.unique(binning.bins, return_index=True)[1] for binning in self.binnings]

    def masses(self, density: Density) -> tuple[Floats, ...]:
        """Return masses of all bins, per feature; those within a merged bin by their shares."""
        tables = (density.table((j,)) for j in range(len(self.binnings)))
        pairs = zip(tables, self.binnings, strict=True)
        return tuple(table[binning.bins] * binning.shares for table, binning in pairs)


def _draw_within(binning: Binning, codes: Ints | BinIndices, rng: np.random.Generator) -> Ints:
    order = np.argsort(binning.bins, kind="stable")
    ends = np.cumsum(binning.shares[order])
    ends *= binning.size / ends[-1]
    position = np.minimum(codes + rng.random(len(codes)), np.nextafter(binning.size, 0))
    drawn: Ints = order[np.minimum(np.searchsorted(ends, position, side="right"), len(order) - 1)]
    first_bin = np.searchsorted(binning.bins[order], codes)  # where rounding leads to a neighbour
    return np.where(binning.bins[drawn] == codes, drawn, first_bin).astype(np.int64)


def leaves_of(forest: Forest) -> LeafSets:
    return LeafSets(forest, grid_of(forest))


def lay_out(forest: Forest, sets: LeafSets, layout: TermLayout, statistics: Statistics | None) -> Trees:
    """Merge bins if the layout asks for it: to equal masses of the rows, if any."""
    grid = sets.grid
    if layout.max_bins is None:
        return Trees(forest, sets, layout, tuple(unmerged(size) for size in grid.sizes), grid)
    binnings = []
    for j, axis in enumerate(grid.axes):
        masses = np.full(axis.size, 1 / axis.size) if statistics is None else statistics.counts((j,))
        binnings.append(equal_mass(axis, masses, layout.max_bins) if axis.is_ordered else unmerged(axis.size))
    axes = tuple(binning.axis(axis) for binning, axis in zip(binnings, grid.axes, strict=True))
    return Trees(forest, sets, layout, tuple(binnings), Grid(grid.schema, axes))
