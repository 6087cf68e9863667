"""Rows: their encoded values, and their bins on any grid, each computed once."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, memo
from treeanova.data.columns import encode
from treeanova.data.features import Schema

if TYPE_CHECKING:
    from treeanova.model.grid import Grid


@dataclasses.dataclass(frozen=True, eq=False)
class Rows:
    """Rows of a model's features, given by encoded values, by bins on a grid, or by both.

    Attributes
    ----------
    encoded
        Float64 in the form that the bounds of a model compare, shape (n_rows, n_features); None if bins are given.
    known_bins
        Known bins on some grids, shape (n_rows, n_features).

    Examples
    --------
    >>> import numpy as np, treeanova
    >>> effects = treeanova.model.Effects.from_tables({"a": [0.0, 1.0]}, thresholds={"a": [0.5]})
    >>> Rows(np.array([[0.2], [0.9]])).bins(effects.grid).tolist()
    [[0], [1]]
    >>> effects.score(Rows.in_bins(effects.grid, np.array([[1]]))).tolist()
    [[1.0]]
    """

    encoded: Floats | None = None
    known_bins: Mapping[Grid, BinIndices] = dataclasses.field(default_factory=dict)

    @classmethod
    def of(cls, X: Any, schema: Schema) -> Rows:  # user data, encoded; `Rows` as they are
        return X if isinstance(X, Rows) else cls(encode(X, schema))

    @classmethod
    def in_bins(cls, grid: Grid, codes: BinIndices) -> Rows:  # rows known by their bins only
        return cls(known_bins={grid: codes})

    def __len__(self) -> int:
        return len(self.values if self.encoded is not None else next(iter(self.known_bins.values())))

    @functools.cached_property
    def values(self) -> Floats:
        """Encoded values, shape (n_rows, n_features); for rows given by bins, values that fall in these."""
        if self.encoded is not None:
            return self.encoded
        [(grid, codes)] = self.known_bins.items()
        return grid.encoded(codes)

    def bins(self, grid: Grid) -> BinIndices:
        """Return the bins on a grid, shape (n_rows, n_features), column by column in memory."""
        return self.known_bins[grid] if grid in self.known_bins else self._computed_bins(grid)

    @memo
    def _computed_bins(self, grid: Grid) -> BinIndices:  # from encoded values, remembered per grid
        codes = np.empty(self.values.shape, dtype=np.int32, order="F")
        for j, axis in enumerate(grid.axes):
            codes[:, j] = axis.index(self.values[:, j])
        return codes
