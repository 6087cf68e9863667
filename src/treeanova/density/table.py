"""Table: weights given by the user as arrays or by a callable."""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.density.base import Density
from treeanova.density.from_tables import check_agreement, joint_of_tables
from treeanova.density.joint import MAX_CELLS, Cells, Joint
from treeanova.density.pooling import Binnings, pool_table


@dataclasses.dataclass(frozen=True, eq=False)
class Table(Density):
    """Weights as given: an array over the bins of all features, a mapping from names to arrays, or a callable.

    The array of a set of features has one axis per feature: in the order of the names in a mapping, of the data
    otherwise. Every feature that the model uses must be in some table. A set of features without a table has the
    marginal of a table that contains it, or of the density of largest entropy that has all tables; features that no
    table connects are independent there. Tables that contradict each other are refused.

    Parameters
    ----------
    weights
        Non-negative weights of the cells; they need not have sum 1. A callable takes the names of some features and
        their axes, and returns an array.

    Examples
    --------
    >>> import numpy as np
    >>> import treeanova
    >>> from sklearn.tree import DecisionTreeRegressor
    >>> X = np.array([[0.0, 0], [0, 1], [1, 0], [1, 1]])
    >>> model = DecisionTreeRegressor().fit(X, X.prod(axis=1))
    >>> weights = {("x0", "x1"): np.array([[4, 1], [1, 2]])}
    >>> treeanova.decompose(model, density=treeanova.density.Table(weights)).density.table((0,)).tolist()
    [0.625, 0.375]
    """

    name: ClassVar[str] = "table"
    needs_data: ClassVar[bool] = False
    weights: Any = dataclasses.field(default_factory=dict)

    @functools.cached_property
    def joint(self) -> Joint:
        """The table of all features, or the joint density that has the given tables."""
        grid = self._bound_grid
        if not callable(self.weights):
            return joint_of_tables(self._tables, grid.sizes)
        n_cells = math.prod(grid.sizes)
        if n_cells > MAX_CELLS:
            raise ValueError(
                f"`density` must be a table or a density of this module here, got a callable over {n_cells:,} cells of "
                f"all features, more than {MAX_CELLS:,}; give tables instead."
            )
        return Cells(self._call(tuple(range(len(grid.axes)))))

    @property
    def is_product(self) -> bool:
        """False: features of a table are taken to be dependent."""
        return False

    def table(self, key: Key, binnings: Binnings | None = None) -> Floats:
        """Weights of the cells of some features, of sum 1.

        Parameters
        ----------
        key
            Positions of the features, ascending.
        binnings
            One binning per feature, for weights of its coarse bins; None for all bins of the grid.

        Returns
        -------
        numpy.ndarray
            One axis per feature.

        Examples
        --------
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> fx.with_density({("x0", "x1"): [[3, 1], [0, 0]]}).density.table((1,)).tolist()
        [0.75, 0.25]
        """
        if callable(self.weights):
            return pool_table(self._call_consistently(key), binnings)
        larger = [other for other in self._tables if set(key) <= set(other)]
        if not larger:
            self._check_given(key)
            return self.joint.table(key, binnings)
        smallest = min(larger, key=len)
        others = tuple(i for i, j in enumerate(smallest) if j not in key)
        return pool_table(self._tables[smallest].sum(axis=others), binnings)

    def _check_given(self, key: Key) -> None:
        """Raise ValueError where some of the features are in no table."""
        grid = self._bound_grid
        given = {j for other in self._tables for j in other}
        lacking = [grid.schema.names[j] for j in key if j not in given and grid.sizes[j] > 1]
        if lacking:
            raise ValueError(
                f"`density` must give weights for {', '.join(lacking)}, got tables of "
                f"{', '.join(grid.schema.names[j] for j in sorted(given)) or 'no features'}; add them to the table."
            )

    @functools.cached_property
    def _tables(self) -> dict[Key, Floats]:
        """Tables by positions of features, of sum 1, each with its axes in the order of the features."""
        names = self._bound_grid.schema.names
        given = self.weights if isinstance(self.weights, Mapping) else {names: self.weights}
        tables = dict(self._ordered(features, array) for features, array in given.items())
        check_agreement(tables, names)
        return tables

    def _ordered(self, features: Any, array: Any) -> tuple[Key, Floats]:
        """A given table with its axes in the order of the data, and the positions of its features."""
        names = self._bound_grid.schema.names
        given = (features,) if isinstance(features, str) else tuple(features)
        unknown = [name for name in given if name not in names]
        if unknown:
            raise ValueError(f"`density` must be of the model's features, got {unknown[0]!r}; see fx.schema.names.")
        table = np.asarray(array, dtype=np.float64)
        if table.ndim != len(given):
            raise ValueError(
                f"`density` must give {', '.join(given)} an array with {len(given)} axes, got {table.ndim}."
            )
        order = sorted(range(len(given)), key=lambda i: names.index(given[i]))
        key = tuple(names.index(given[i]) for i in order)
        return key, self._checked(key, table.transpose(order))

    def _call(self, key: Key) -> Floats:
        grid = self._bound_grid
        names = tuple(grid.schema.names[j] for j in key)
        array = self.weights(names, tuple(grid.axes[j] for j in key))
        return self._checked(key, np.asarray(array, dtype=np.float64))

    def _call_consistently(self, key: Key) -> Floats:
        """What the callable returns for some features; its marginals must be what it returns for each of them."""
        if key not in self._called:
            table = self._call(key)
            if len(key) > 1:
                singles: dict[Key, Floats] = {(j,): self._call_consistently((j,)) for j in key}
                check_agreement({key: table, **singles}, self._bound_grid.schema.names)
            self._called[key] = table
        return self._called[key]

    @functools.cached_property
    def _called(self) -> dict[Key, Floats]:
        return {}

    def _checked(self, key: Key, array: Floats) -> Floats:
        """Weights of sum 1, or an error."""
        names = ", ".join(self._bound_grid.schema.names[j] for j in key)
        expected = tuple(self._bound_grid.sizes[j] for j in key)
        wrong = _fault(array, expected)
        if wrong is not None:
            raise ValueError(
                f"`density` must give {names} non-negative weights of shape {expected}, not all zero, got {wrong}; "
                "give one weight per cell of the grid."
            )
        scaled = array / array.max()  # sums of huge weights would overflow
        table: Floats = scaled / scaled.sum()
        return table


def _fault(array: Floats, shape: tuple[int, ...]) -> str | None:
    """What is wrong with weights of cells, if anything."""
    if array.shape != shape:
        return f"shape {array.shape}"
    is_bad = ~np.isfinite(array) | (array < 0)
    if is_bad.any():
        return f"a weight of {array[is_bad][0]:g}"
    return None if array.any() else "zeros only"
