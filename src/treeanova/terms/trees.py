"""Trees: a forest with the bins of its leaves and of its tensors, and the mean of its score.

Under rows it is the mean of their scores. A smooth density is a weighted sum of products: given a row, each feature is
moved by itself, so a leaf has the mass Σ_rows w Π_j P(bin of j in its set | row). Weighted sums and independent blocks
of densities follow from their parts.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.density.counting import Counting, Request
from treeanova.density.joint import Blocks, Cells, EmpiricalJoint, Joint, Mixture, Points, Product
from treeanova.density.kinds import Density
from treeanova.density.smooth.kernel import FLOOR, KernelJoint
from treeanova.density.statistics import Statistics
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.grid import Binning, Grid, binning_by, equal_mass, grid_of, unmerged
from treeanova.model.rows import Rows
from treeanova.terms import costs
from treeanova.terms.closed_form import expand, row_cost
from treeanova.terms.layout import TermLayout
from treeanova.terms.leaves import LeafSets
from treeanova.terms.terms import Tensors


@dataclasses.dataclass(frozen=True, eq=False)
class Trees:
    """A forest, laid out as tensors of low orders and terms of high orders that are evaluated at rows."""

    forest: Forest  # the trees, for exact scores
    leaf_sets: LeafSets  # their leaves on the grid of all their bins
    layout: TermLayout  # which terms are tensors, which are evaluated at rows, which form the remainder
    binnings: tuple[Binning, ...]  # how bins are merged for tensors, feature by feature
    tensor_grid: Grid  # the grid of the merged bins

    @property
    def grid(self) -> Grid:
        """The grid of all bins of the forest."""
        return self.leaf_sets.grid

    @property
    def has_merged_bins(self) -> bool:
        """Whether tensors have fewer bins than the forest."""
        return self.layout.max_bins is not None

    @functools.cached_property
    def row_cost(self) -> float:
        """Products that all terms take for a row, at least one."""
        return max(row_cost(self.leaf_sets), 1.0)

    @property
    def raw_keys_at_rows(self) -> tuple[Key, ...]:
        """Sets of features of leaves with more features than tensors have, in order."""
        high = (key for key in self.leaf_sets.keys if len(key) > self.layout.tensor_order)
        return tuple(sorted(high, key=lambda key: (len(key), key)))

    def raw_tensors(self) -> Effects:
        """The leaves with few features as tensors."""
        max_order = self.layout.tensor_order
        return expand(self.leaf_sets, max_order=max_order, binnings=self.binnings, grid=self.tensor_grid)

    def merged(self, codes: BinIndices) -> BinIndices:
        """Bins of the tensors for bins on `grid`."""
        if not self.has_merged_bins:
            return codes
        columns = [binning.bins[codes[:, j]] for j, binning in enumerate(self.binnings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def drawn_within(self, codes: BinIndices, rng: np.random.Generator) -> BinIndices:
        """Bins on `grid` for bins of the tensors, drawn by their shares where bins are merged."""
        if not self.has_merged_bins:
            return codes
        columns = [_draw_within(binning, codes[:, j], rng) for j, binning in enumerate(self.binnings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Bins on `grid` and weights of rows that represent a density bound to the grid of the tensors."""
        return density.joint.points_on(self.grid, self.drawn_within, n_rows, rng)

    def first_bins(self, key: Key) -> list[Ints]:
        """One bin on `grid` of each bin of the tensors, for some features."""
        return [self._first_bins[j] for j in key]

    @functools.cached_property
    def _first_bins(self) -> list[Ints]:
        return [np.unique(binning.bins, return_index=True)[1] for binning in self.binnings]

    def masses(self, density: Density) -> tuple[Floats, ...]:
        """Masses of all bins, feature by feature; those within a merged bin by their shares."""
        tables = (density.table((j,)) for j in range(len(self.binnings)))
        pairs = zip(tables, self.binnings, strict=True)
        return tuple(table[binning.bins] * binning.shares for table, binning in pairs)


def _draw_within(binning: Binning, codes: Ints | BinIndices, rng: np.random.Generator) -> Ints:
    """A bin within each merged bin, drawn by shares."""
    order = np.argsort(binning.bins, kind="stable")
    ends = np.cumsum(binning.shares[order])
    ends *= binning.size / ends[-1]
    position = np.minimum(codes + rng.random(len(codes)), np.nextafter(binning.size, 0))
    drawn: Ints = order[np.minimum(np.searchsorted(ends, position, side="right"), len(order) - 1)]
    first_bin = np.searchsorted(binning.bins[order], codes)  # where rounding leads to a neighbour
    return np.where(binning.bins[drawn] == codes, drawn, first_bin).astype(np.int64)


def leaves_of(forest: Forest) -> LeafSets:
    """The leaf sets of a forest on the grid of all its bins."""
    return LeafSets(forest, grid_of(forest))


def lay_out(forest: Forest, sets: LeafSets, layout: TermLayout, statistics: Statistics | None) -> Trees:
    """The forest with bins merged where the layout asks for it: equal masses of the rows where there are any."""
    grid = sets.grid
    if layout.max_bins is None:
        return Trees(forest, sets, layout, tuple(unmerged(size) for size in grid.sizes), grid)
    binnings = []
    for j, axis in enumerate(grid.axes):
        masses = np.full(axis.size, 1 / axis.size) if statistics is None else statistics.counts((j,))
        binnings.append(equal_mass(axis, masses, layout.max_bins) if axis.is_ordered else unmerged(axis.size))
    axes = tuple(binning.axis(axis) for binning, axis in zip(binnings, grid.axes, strict=True))
    return Trees(forest, sets, layout, tuple(binnings), Grid(grid.schema, axes))


def mean_score(trees: Trees, joint: Joint) -> Floats | None:
    """Mean of the score under a density on the grid of the tensors, shape (n_outputs,).

    None where it would take too long, or where rows could be read once only.
    """
    if isinstance(joint, Mixture):
        means = [mean_score(trees, part) for _, part in joint.components()]
        shares = [share for share, _ in joint.components()]
        known = [mean for mean in means if mean is not None]
        return None if len(known) < len(means) else np.asarray(sum(s * m for s, m in zip(shares, known, strict=True)))
    if isinstance(joint, EmpiricalJoint):
        return _mean_at_rows(trees, joint)
    masses = _leaf_masses(trees, joint, range(len(trees.binnings)))
    return None if masses is None else trees.leaf_sets.intercept + masses @ trees.leaf_sets.values


def mean_of_tables(tables: Tensors, density: Density) -> Floats:
    """Mean of the sum of pure tables under the joint density, shape (n_outputs,).

    It is zero unless a density estimates pairs apart from the joint density: each table's mean is zero under its own.
    """
    mean = np.zeros(tables.n_outputs)
    for key, values in tables.effects.terms.items():
        difference = density.difference(key, tables.effects.binnings.get(key)) if len(key) == 2 else None
        if difference is not None:
            mean -= np.tensordot(difference, values, axes=len(key))
    return mean


def _mean_at_rows(trees: Trees, joint: EmpiricalJoint) -> Floats | None:
    """Mean of the scores of all rows, in another pass over them where they are not all held."""
    statistics = joint.statistics.on(trees.grid)
    if statistics.n_rows * trees.forest.n_trees > costs.MEAN_STEPS:
        return None
    if joint.has_exact_points:
        codes, weights = statistics.points()
        mean: Floats = weights @ trees.forest.score(Rows.in_bins(trees.grid, codes))
        return mean
    if statistics.source is None:
        return None
    counting = Counting(trees.grid, [Request((0,))], score=trees.forest.score, describes_features=False)
    counted = statistics.source.count(counting)
    total: Floats = counted.scores[0].sum(axis=0) / counted.totals.weight
    return total


def _leaf_masses(trees: Trees, joint: Joint, features: Sequence[int]) -> Floats | None:
    """Masses of all leaves under a density of some features of the model; None where they take too long."""
    if isinstance(joint, Product):
        return _product_masses(trees, joint.masses, features)
    if isinstance(joint, Blocks):
        parts = [_leaf_masses(trees, inner, [features[i] for i in own]) for own, inner in joint.blocks]
        known = [part for part in parts if part is not None]
        return None if len(known) < len(parts) else np.prod(known, axis=0)
    if isinstance(joint, Cells) and joint.has_exact_points:
        codes, weights = joint.points(0, np.random.default_rng(0))
        shares = [trees.leaf_sets.sets[j].onto(trees.binnings[j]) for j in features]
        return _Moved(trees, features, codes, weights, shares).masses()
    if isinstance(joint, KernelJoint):
        moved = _moved_rows(trees, joint, features).masses()
        masses = _product_masses(trees, [margin.masses for margin in joint.margins], features)
        return None if moved is None else (1 - FLOOR) * moved + FLOOR * masses
    return None


def _product_masses(trees: Trees, masses: Sequence[Floats], features: Sequence[int]) -> Floats:
    """Masses of all leaves under independent features."""
    product = np.ones(len(trees.leaf_sets.values))
    for j, own in zip(features, masses, strict=True):
        binning, sets = trees.binnings[j], trees.leaf_sets.sets[j]
        product[sets.leaves] *= sets.mass(own[binning.bins] * binning.shares)
    return product


def _moved_rows(trees: Trees, joint: KernelJoint, features: Sequence[int]) -> _Moved:
    """Rows as groups of bins, with the mass that each group's kernel puts into the set of a leaf."""
    bins, weights = joint.statistics.points()
    codes, shares = np.zeros_like(bins), []
    for column, (j, margin, kernel) in enumerate(zip(features, joint.margins, joint.kernels, strict=True)):
        groups = _on_trees(trees.binnings[j], margin.groups, margin.masses)
        of_groups = trees.leaf_sets.sets[j].onto(groups) * margin.group_masses
        if kernel is None:
            shares.append(of_groups.sum(axis=1, keepdims=True))
        else:
            shares.append(kernel.right(of_groups))
            codes[:, column] = margin.groups[bins[:, column]]
    distinct, places = np.unique(codes, axis=0, return_inverse=True)
    masses = np.bincount(places.ravel(), weights).astype(np.float64)
    return _Moved(trees, features, distinct, masses, shares)


def _on_trees(merging: Binning, groups: Ints, masses: Floats) -> Binning:
    """Groups of the bins of tensors as a binning of all bins of the trees."""
    return binning_by(groups[merging.bins], masses[merging.bins] * merging.shares)


@dataclasses.dataclass(frozen=True, eq=False)
class _Moved:
    """Weighted points, and for each feature the share of each leaf's set at every number of the point's column."""

    trees: Trees
    features: Sequence[int]
    codes: BinIndices
    weights: Floats
    shares: Sequence[Floats]

    def masses(self) -> Floats | None:
        """Σ over points of their weight times the shares of all features on a leaf's path; None for too many."""
        sets = self.trees.leaf_sets
        column_of = {j: column for column, j in enumerate(self.features)}
        n_products = sum(
            len(own) * sum(j in column_of for j in key) for key, own in zip(sets.keys, sets.members, strict=True)
        )
        if n_products * len(self.codes) > costs.MEAN_PRODUCTS:
            return None
        masses = np.full(len(sets.values), math.fsum(self.weights))
        size = max(costs.MEAN_CELLS // max(len(self.codes), 1), 1)
        for key, members in zip(sets.keys, sets.members, strict=True):
            own = [j for j in key if j in column_of]
            for start in range(0, len(members) if own else 0, size):
                leaves = members[start : start + size]
                product = np.broadcast_to(self.weights, (len(leaves), len(self.weights)))
                for j in own:
                    shares = self.shares[column_of[j]][sets.positions(j, leaves)]
                    product = product * shares[:, self.codes[:, column_of[j]]]
                masses[leaves] = product.sum(axis=1)
        return masses
