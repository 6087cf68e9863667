"""Density: weights of the cells of any set of features, under which effects are pure; joint densities behind it.

One definition of a joint density gives tables of any order and weighted points. A table of fewer features is the
marginal of a table of more, by construction. `points` are bins and weights of rows that represent the density: exact if
few cells have mass, otherwise draws. `smooth.kernel` moves rows by kernels.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from treeanova.anova.support import outer
from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density import costs
from treeanova.density.counting import Binnings, pool_masses, pool_table
from treeanova.density.statistics import Points, Statistics
from treeanova.model.grid import Grid

__all__ = ["Blocks", "Density", "EmpiricalJoint", "Joint", "Mixture", "Points", "Product", "draw_bins"]

Refinement = Callable[[BinIndices, np.random.Generator], BinIndices]
"""Draws a fine bin within each of some coarse bins."""


class Joint(abc.ABC):
    """A probability over the cells of all features."""

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
    """The shares of the rows."""

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
    """Independent features, each with masses of its bins."""

    masses: Sequence[Floats]  # feature by feature
    is_product = True

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        return outer(pool_masses([self.masses[j] for j in key], binnings))

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        columns = [draw_bins(masses, n_rows, rng) for masses in self.masses]
        return Points(np.stack(columns, axis=1).astype(np.int32), np.full(n_rows, 1 / n_rows))


@dataclasses.dataclass(frozen=True, eq=False)
class Blocks(Joint):
    """Independent blocks of features: positions of the features of each block, and their table, of sum 1."""

    blocks: Sequence[tuple[Key, Floats]]

    @property
    def has_exact_points(self) -> bool:
        return math.prod(int(np.count_nonzero(table)) for _, table in self.blocks) <= costs.MAX_CELLS

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        tables, order = [], []  # marginals of the blocks, and the features of their axes
        for features, table in self.blocks:
            shared = [j for j in features if j in key]
            if shared:
                marginal = table.sum(axis=tuple(i for i, j in enumerate(features) if j not in key))
                tables.append(pool_table(marginal, binnings and [binnings[key.index(j)] for j in shared]))
                order += shared
        return outer(tables).transpose([order.index(j) for j in key])

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        cells = [np.flatnonzero(table) for _, table in self.blocks]  # those with mass, by block
        masses = [table.ravel()[places] for places, (_, table) in zip(cells, self.blocks, strict=True)]
        if self.has_exact_points:
            numbers = [grid.ravel() for grid in np.indices([len(places) for places in cells])]
            weights = outer(masses).ravel()
        else:
            numbers = [draw_bins(block_masses, n_rows, rng) for block_masses in masses]
            weights = np.ones(n_rows)
        codes = np.empty((len(weights), sum(len(features) for features, _ in self.blocks)), dtype=np.int32)
        for (features, table), places, number in zip(self.blocks, cells, numbers, strict=True):
            codes[:, list(features)] = np.stack(np.unravel_index(places[number], table.shape), axis=1)
        return Points(codes, weights / weights.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class Mixture(Joint):
    """Weighted sum of densities; shares add up to 1."""

    shares: Sequence[float]
    joints: Sequence[Joint]

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        return functools.reduce(np.add, (share * joint.table(key, binnings) for share, joint in self.components()))

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        return _points_of_mixture([(share, joint.points(n_rows, rng)) for share, joint in self.components()])

    def points_on(self, grid: Grid, refine: Refinement, n_rows: int, rng: np.random.Generator) -> Points:
        points = [(share, joint.points_on(grid, refine, n_rows, rng)) for share, joint in self.components()]
        return _points_of_mixture(points)

    def components(self) -> Iterator[tuple[float, Joint]]:  # those with a share above 0
        yield from ((share, joint) for share, joint in zip(self.shares, self.joints, strict=True) if share > 0)


def _points_of_mixture(components: Sequence[tuple[float, Points]]) -> Points:
    """Return the points of all densities, weighted by their shares."""
    codes = np.concatenate([points.codes for _, points in components])
    return Points(codes, np.concatenate([share * points.weights for share, points in components]))


def draw_bins(masses: Floats, n_rows: int, rng: np.random.Generator) -> BinIndices:
    """Draw the bins of `n_rows` rows, in random order; counts differ from `n_rows` times the masses by less than 1."""
    ends = np.cumsum(masses)
    places = (np.arange(n_rows) + rng.random()) / n_rows * ends[-1]  # systematic sampling: one step between rows
    bins = np.searchsorted(ends, np.minimum(places, np.nextafter(ends[-1], 0)), side="right")
    return rng.permutation(np.minimum(bins, len(masses) - 1)).astype(np.int32)


@dataclasses.dataclass(frozen=True, eq=False)
class Density(abc.ABC):
    """Give weights to the cells of any set of features.

    An object such as ``Laplace(mix=0.5)`` describes a density; `decompose` binds it to a grid and to statistics of
    rows. Each kind defines `joint`, a probability over the cells of all features; tables of any set of features
    (`table`), representative rows (`points`) and moments of terms follow from it. A set of features is given by their
    ascending positions; `binnings` has one binning per feature for coarse bins, or is None for the bins of the grid.

    Attributes
    ----------
    grid
        The bins; None until the density is bound.
    statistics
        Statistics of the rows that define the density; None without rows.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
    >>> fx.with_density(treeanova.density.Empirical(), X[[0, 1, 3, 3]]).density.table((0, 1)).tolist()
    [[0.25, 0.25], [0.0, 0.5]]
    """

    name: ClassVar[str]
    needs_data: ClassVar[bool] = True
    baseline: ClassVar[str] = "average"  # what the mean score under the density is, in words
    ranks_on_population: ClassVar[bool] = False  # whether terms are shown with the weights of `population`
    is_empirical: ClassVar[bool] = False  # whether rows themselves, not smoothed, are part of it
    smooths_rows: ClassVar[bool] = False  # whether it is a smoothed one of rows, for which these are a fair sample
    grid: Grid | None = dataclasses.field(default=None, kw_only=True, repr=False)
    statistics: Statistics | None = dataclasses.field(default=None, kw_only=True, repr=False)
    _was_product: bool | None = dataclasses.field(default=None, kw_only=True, repr=False)  # as a file without rows says

    @property
    def caveat(self) -> str:
        """A sentence about the rows that define the density; mostly empty."""
        return "" if self.statistics is None or not self.needs_data else self.statistics.caveat

    def bind(self, grid: Grid, statistics: Statistics | None) -> Self:
        """Return the density estimated on a grid; raise ValueError if the kind needs rows and has none."""
        if self.needs_data and statistics is None:
            raise ValueError(
                f"`X` must be given for the density {self.name!r}, got None; pass the rows that define it."
            )
        return dataclasses.replace(self, grid=grid, statistics=statistics, _was_product=None)

    @property
    @abc.abstractmethod
    def joint(self) -> Joint:
        """The probability over the cells of all features."""

    @property
    def with_fixed_tuning(self) -> Self:
        """A copy with data-dependent tuning frozen, for bootstrap resamples."""
        return self

    @property
    def is_product(self) -> bool:
        """Whether features are independent."""
        return self.joint.is_product if self._was_product is None else self._was_product

    @property
    def is_consistent(self) -> bool:
        """Whether tables that share a feature agree on its marginal."""
        return True

    @property
    def population(self) -> Density:
        """The density that ranks terms: itself, unless nothing varies under it."""
        return self

    @property
    def is_one_cell(self) -> bool:
        """Whether all rows are in one cell of a grid with several."""
        rows = self.statistics
        if rows is None or not rows.is_complete or (rows.bins != rows.bins[:1]).any():
            return False
        sizes = self._bound_grid.sizes
        return max(sizes, default=1) > 1 and all(np.count_nonzero(self.table((j,))) == 1 for j in range(len(sizes)))

    def check_trees(self, *, has_merged_bins: bool) -> None:
        """Raise ValueError if high-order terms need tables; `has_merged_bins`: tables have fewer bins than trees."""
        del has_merged_bins  # most densities can

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Return the weights of the cells of some features, of sum 1, with one axis per feature."""
        return self.joint.table(key, binnings)

    def prepare_tables(
        self, keys: Sequence[Key], binnings: Mapping[Key, Binnings] | None = None, n_jobs: int = 1
    ) -> None:
        """Compute together what several tables need, if that is faster than one by one."""
        del keys, binnings, n_jobs  # most densities count each table when it is asked for

    def points(self, n_rows: int, rng: np.random.Generator) -> Points:
        """Return all rows or cells of the density if they are few, otherwise `n_rows` draws."""
        return self.joint.points(n_rows, rng)

    def difference(self, key: Key, binnings: Binnings | None = None) -> Floats | None:  # noqa: ARG002
        """Return a pair's table minus that of the joint density; None if they are equal by definition."""
        return None

    def gap(self, key: Key, binnings: Binnings | None = None) -> float:
        """Return the share of the mass by which a pair's table differs from the joint density."""
        difference = self.difference(key, binnings)
        return 0.0 if difference is None else float(np.abs(difference).sum()) / 2

    def log_likelihood(self, X: Any, features: Sequence[str] | None = None) -> float:
        """Return the mean log weight of the cells of some rows, to compare densities on held-out rows.

        Parameters
        ----------
        X
            The rows.
        features
            Names of the features whose cells count; None for the mean over all pairs of features.

        Returns
        -------
        float
            Minus infinity if a row falls in a cell without weight.

        Examples
        --------
        >>> import math
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> round(math.exp(fx.with_density("empirical", X[[0, 3, 3, 3]]).density.log_likelihood(X[3:], ["x0"])), 6)
        0.75
        """
        grid = self._bound_grid
        codes = grid.index(X)
        pairs: list[Key] = list(itertools.combinations(range(len(grid.axes)), 2))
        names = grid.schema.names
        unknown = [name for name in features or () if name not in names]
        if unknown:
            raise ValueError(f"`features` must be the model's, got {unknown[0]!r}; choose from {', '.join(names)}.")
        keys = (pairs or [(0,)]) if features is None else [tuple(sorted(map(names.index, features)))]
        with np.errstate(divide="ignore"):
            means = [np.log(self.table(key)[tuple(codes[:, j] for j in key)]).mean() for key in keys]
        return float(np.mean(means))

    @property
    def _bound_grid(self) -> Grid:
        """The grid; ValueError for a density that is not bound."""
        if self.grid is None:
            raise ValueError(f"the density {self.name!r} must be bound to a grid first; decompose() does that.")
        return self.grid

    @property
    def _bound_statistics(self) -> Statistics:
        """The statistics of the rows; ValueError for a density that is not bound to rows."""
        if self.statistics is None:
            raise ValueError(f"the density {self.name!r} must be bound to rows first; decompose() does that.")
        return self.statistics
