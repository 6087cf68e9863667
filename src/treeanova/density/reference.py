"""Reference: all probability on one row, which gives the anchored decomposition."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar, Self

import numpy as np

from treeanova.data.given_rows import encode_rows
from treeanova.density.base import Density
from treeanova.density.joint import Joint, Product
from treeanova.density.kinds import Empirical, Uniform
from treeanova.density.statistics import Statistics
from treeanova.model.grid import Grid


@dataclasses.dataclass(frozen=True, eq=False)
class Reference(Density):
    """All probability on one row: effects against that row (reference coding, anchored decomposition, cut-HDMR).

    The intercept is the score of the row. A main effect is what changes where this feature alone leaves the row's bin,
    all others staying as they are in the row; an interaction is what its features change together beyond that. A term
    is zero wherever one of its features is in the row's bin. The density is a product of point masses, so that terms of
    any depth and order are exact.

    Nothing varies under one row. Variances and covariances of terms (`importance`), and which terms of a deep ensemble
    are listed, are those at the rows of X; of all bins equally where there are no rows.

    Parameters
    ----------
    row
        The row: a sequence of values in the order of the features, a mapping from names to values, a pandas Series, or
        a table or matrix of one row. For several rows see `Decomposition.explain` and its `reference`.

    Examples
    --------
    The logical "and" of x0 and x1, seen from (1, 1): each alone takes 1 away, both together no more than that.

    >>> from treeanova.density import Reference
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> anchored = fx.with_density(Reference([1, 1]))
    >>> anchored.intercept, anchored.terms["x0"].values.tolist(), anchored.terms["x0", "x1"].values.tolist()
    (1.0, [-1.0, 0.0], [[1.0, 0.0], [0.0, 0.0]])
    """

    name: ClassVar[str] = "reference"
    needs_data: ClassVar[bool] = False
    baseline: ClassVar[str] = "score of the reference"
    row: Any = dataclasses.field(default=None, repr=False)

    def bind(self, grid: Grid, statistics: Statistics | None) -> Self:
        """The density on a grid.

        Parameters
        ----------
        grid
            The bins.
        statistics
            Statistics of rows, at which terms are ranked; may be None.

        Returns
        -------
        Reference
            A density that has tables.

        Raises
        ------
        ValueError
            Where `row` is not one row with the model's features.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> Reference([1, 0]).bind(fx.grid, None).table((0, 1)).tolist()
        [[0.0, 0.0], [1.0, 0.0]]
        """
        rows = encode_rows(self.row, grid.schema, name="row")
        if len(rows) != 1:
            raise ValueError(
                f"`row` of Reference must be one row, got {len(rows)}; fx.explain(X, reference=rows) takes several."
            )
        return super().bind(grid, statistics)

    @functools.cached_property
    def joint(self) -> Joint:
        """Independent features, each in one bin."""
        grid = self._bound_grid
        bins = grid.index_encoded(encode_rows(self.row, grid.schema, name="row"))[0]
        return Product([(np.arange(size) == b).astype(np.float64) for size, b in zip(grid.sizes, bins, strict=True)])

    @functools.cached_property
    def population(self) -> Density:
        """The rows; all bins equally where there are none."""
        kind = Uniform if self.statistics is None else Empirical
        return kind(grid=self._bound_grid, statistics=self.statistics)

    def check_trees(self, *, has_merged_bins: bool) -> None:
        """Raise ValueError where tables have merged bins, which would not hold the row apart from its neighbours.

        Parameters
        ----------
        has_merged_bins
            Whether tables have fewer bins than the trees.

        Examples
        --------
        >>> Reference([1, 0]).check_trees(has_merged_bins=False)
        """
        if has_merged_bins:
            raise ValueError(
                "a Reference must have tables of all bins, got merged ones; decompose with a larger `budget`, or use "
                "fx.explain(X, reference=row), which needs no tables."
            )
