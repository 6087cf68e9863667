"""Former names of `treeanova.density.statistics`."""

from __future__ import annotations

from typing import Any, cast

import numpy.typing as npt

from treeanova.density.statistics import RowsInMemory, statistics_of
from treeanova.model.grid import Grid

Sample = RowsInMemory


def sample_of(X: Any, grid: Grid, sample_weight: npt.ArrayLike | None = None) -> Sample:
    """Former name of `statistics_of`."""
    return cast("Sample", statistics_of(X, grid, sample_weight))
