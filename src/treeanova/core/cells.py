"""Cells of tensors: weights of rows added up by the cell that they fall in."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats, Ints


def number_cells(columns: Iterable[npt.NDArray[np.integer]], sizes: Sequence[int], n_rows: int) -> Ints:
    """Number of the cell that each row falls in, with the last axis running fastest.

    Parameters
    ----------
    columns
        Bins of the rows, one array per axis.
    sizes
        Number of bins of each axis.
    n_rows
        Number of rows.

    Returns
    -------
    array of shape (n_rows,)

    Examples
    --------
    >>> import numpy as np
    >>> number_cells([np.array([0, 1]), np.array([2, 1])], (2, 3), 2).tolist()
    [2, 4]
    """
    cells = np.zeros(n_rows, dtype=np.int64)
    for axis, (bins, size) in enumerate(zip(columns, sizes, strict=True)):
        if axis:
            cells *= size
            cells += bins
        else:
            cells[:] = bins
    return cells


def count_cells(
    columns: Iterable[npt.NDArray[np.integer]], sizes: Sequence[int], weights: Floats | None, n_rows: int
) -> Floats:
    """Sum of the weights of the rows in each cell, or the number of rows without weights.

    Parameters
    ----------
    columns
        Bins of the rows, one array per axis.
    sizes
        Number of bins of each axis.
    weights
        Weights of the rows; None counts each row once.
    n_rows
        Number of rows.

    Returns
    -------
    array of shape `sizes`

    Examples
    --------
    >>> import numpy as np
    >>> count_cells([np.array([0, 1, 1]), np.array([0, 1, 1])], (2, 2), None, 3).tolist()
    [[1.0, 0.0], [0.0, 2.0]]
    """
    cells = number_cells(columns, sizes, n_rows)
    totals = np.bincount(cells, weights=weights, minlength=math.prod(sizes))
    return totals.astype(np.float64).reshape(sizes)
