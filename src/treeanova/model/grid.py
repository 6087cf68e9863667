"""Grid: one axis per feature, whose bins are all that a model can distinguish."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints
from treeanova.data.columns import encode
from treeanova.data.features import Feature, Schema
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis
from treeanova.model.forest import NEAR_ZERO, Forest


@dataclasses.dataclass(frozen=True, eq=False)
class Grid:
    """The axes of all features, in the order of the schema.

    Attributes
    ----------
    schema
        Features, outputs and link of the model.
    axes
        An axis per feature.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> fx.grid.sizes
    (2, 2)
    >>> fx.grid.index(X).tolist()
    [[0, 0], [0, 1], [1, 0], [1, 1]]
    """

    schema: Schema
    axes: tuple[Axis, ...]

    @functools.cached_property
    def sizes(self) -> tuple[int, ...]:
        """Number of bins of each axis."""
        return tuple(axis.size for axis in self.axes)

    def index(self, X: Any) -> BinIndices:
        """Bins of all features at rows.

        Parameters
        ----------
        X
            Rows: numpy, pandas, polars, pyarrow or scipy.sparse.

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_features), column by column in memory.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.grid.index([[0.2, 0.9]]).tolist()
        [[0, 1]]
        """
        return self.index_encoded(encode(X, self.schema))

    def index_encoded(self, encoded: Floats) -> BinIndices:
        """Bins of all features at encoded rows.

        Parameters
        ----------
        encoded
            Float64 as `Forest.leaves` takes it, shape (n_rows, n_features).

        Returns
        -------
        numpy.ndarray
            Shape (n_rows, n_features), column by column in memory.

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.grid.index_encoded(np.array([[0.2, 0.9]])).tolist()
        [[0, 1]]
        """
        codes = np.empty(encoded.shape, dtype=np.int32, order="F")
        for j, axis in enumerate(self.axes):
            codes[:, j] = axis.index(encoded[:, j])
        return codes

    def encoded(self, codes: BinIndices) -> Floats:
        """Encoded rows that fall in given bins.

        Parameters
        ----------
        codes
            Bins, shape (n_rows, n_features).

        Returns
        -------
        numpy.ndarray
            Float64, shape (n_rows, n_features).

        Examples
        --------
        >>> import numpy as np
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.grid.encoded(np.array([[0, 1]])).round(6).tolist()
        [[0.5, inf]]
        """
        columns = [axis.examples()[codes[:, j]] for j, axis in enumerate(self.axes)]
        return np.stack(columns, axis=1) if columns else np.empty(codes.shape)

    def has_bins_of(self, other: Grid) -> bool:
        """Whether two grids have the same features with the same bins.

        Parameters
        ----------
        other
            Another grid.

        Returns
        -------
        bool
            True where names and bins of all features are equal.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.grid.has_bins_of(fx.raw.grid)
        True
        """
        pairs = zip(self.axes, other.axes, strict=False)
        return self.schema.names == other.schema.names and all(a.has_bins_of(b) for a, b in pairs)


def grid_of(forest: Forest) -> Grid:
    """The grid of all thresholds and category sets of a forest.

    Parameters
    ----------
    forest
        A forest as `read_model` returns it.

    Returns
    -------
    Grid
        Axes whose bins are all that the trees distinguish.

    Examples
    --------
    >>> import treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> tree = DecisionTreeRegressor().fit([[0.0], [1.0], [4.0]], [0, 1, 2])
    >>> treeanova.grid_of(treeanova.read_model(tree)).axes[0].labels
    ('≤ 0.5', '(0.5, 2.5]', '> 2.5 or missing')
    """
    order = np.argsort(forest.feature, kind="stable")
    starts = np.searchsorted(forest.feature[order], np.arange(len(forest.schema.features) + 1))
    nodes = [order[starts[j] : starts[j + 1]] for j in range(len(forest.schema.features))]
    axes = [
        _category_axis(feature, forest, own) if feature.is_category else _interval_axis(feature, forest, own)
        for feature, own in zip(forest.schema.features, nodes, strict=True)
    ]
    return Grid(forest.schema, tuple(axes))


def _interval_axis(feature: Feature, forest: Forest, nodes: Ints) -> IntervalAxis:
    bound, zero_missing, missing_left = forest.bound[nodes], forest.zero_missing[nodes], forest.missing_left[nodes]
    zero = [np.nextafter(-NEAR_ZERO, -np.inf), NEAR_ZERO] if zero_missing.any() else []
    bounds = np.unique(np.concatenate([bound, zero]))
    bounds = bounds[bounds < np.inf]
    if not feature.accepts_missing:
        return IntervalAxis(feature.name, -1, bounds, feature.encoder.date_unit)
    last_left = np.searchsorted(bounds, bound, side="left")  # bins up to this one go left
    first, last = 0, len(bounds)
    if zero:
        first = last = int(np.searchsorted(bounds, 0.0))
        last_left, missing_left = last_left[~zero_missing], missing_left[~zero_missing]
    shared = _shared_bin(last_left, missing_left, first, last)
    missing_bin = len(bounds) + 1 if shared is None else shared
    return IntervalAxis(feature.name, missing_bin, bounds, feature.encoder.date_unit)


def _shared_bin(last_left: Ints, missing_left: Bools, first: int, last: int) -> int | None:
    """A bin in first .. last that goes where missing values go at every node, if there is one."""
    first = int((last_left[~missing_left] + 1).max(initial=first))
    last = min(last, int(last_left[missing_left].min(initial=last)))
    return first if first <= last else None


def _category_axis(feature: Feature, forest: Forest, nodes: Ints) -> CategoryAxis:
    """Unseen and missing share the first category that goes their way at every node, or have bins of their own."""
    n_categories = feature.n_categories
    sets = forest.category_left[forest.category_start[nodes][:, None] + np.arange(n_categories + 1)]
    ways = [sets[:, code] for code in range(n_categories)]
    unseen_bin, missing_bin = -1, -1
    if feature.accepts_unseen:
        unseen_bin = _first_equal(ways, sets[:, n_categories])
        ways += [sets[:, n_categories]] * (unseen_bin == len(ways))
    if feature.accepts_missing:
        missing_bin = _first_equal(ways, forest.missing_left[nodes])
    return CategoryAxis(feature.name, missing_bin, feature.encoder.labels or (), unseen_bin)


def _first_equal(ways: Sequence[Bools], way: Bools) -> int:
    return next((position for position, other in enumerate(ways) if (other == way).all()), len(ways))
