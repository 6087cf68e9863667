"""Purity of terms without a table: means of their slices, measured at rows that represent the density.

A slice is the set of rows that agree, on a few bins per feature, in all features of the term except one. Where rows are
drawn from the density, the mean over a slice is noisy, with variance v / n for n rows of variance v, which is
subtracted from its square.
"""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import Floats, Ints


def slice_impurity(values: Floats, cells: Ints, weights: Floats, *, are_drawn: bool) -> float:
    """Root mean square of slice means relative to that of the term, the largest over axes and outputs.

    Parameters
    ----------
    values
        The term at rows, shape (n_rows, n_outputs).
    cells
        Bins of the rows in the features of the term, few per feature, shape (n_rows, n_features).
    weights
        Weights of the rows, of sum 1.
    are_drawn
        Whether the rows are draws from the density, rather than all of its mass.
    """
    squares = weights @ values**2
    worst = np.zeros(values.shape[1])
    for axis in range(cells.shape[1]):
        slices = _numbered(np.delete(cells, axis, axis=1))
        worst = np.maximum(worst, _mean_square(values, slices, weights, are_drawn=are_drawn))
    return float(np.sqrt(np.divide(worst, squares, out=np.zeros_like(worst), where=squares > 0)).max(initial=0.0))


def _numbered(cells: Ints) -> Ints:
    """A number for each distinct combination of bins."""
    flat = np.zeros(len(cells), dtype=np.int64)
    for column in cells.T:
        flat = flat * (int(column.max(initial=0)) + 1) + column
    return np.unique(flat, return_inverse=True)[1].ravel()


def _mean_square(values: Floats, slices: Ints, weights: Floats, *, are_drawn: bool) -> Floats:
    """Mean square of the means of slices, without the part due to noise of draws, per output."""
    masses = np.bincount(slices, weights)
    n_rows = masses**2 / np.bincount(slices, weights**2)  # effective number of rows of each slice
    mean_squares = np.zeros(values.shape[1])
    for output, column in enumerate(values.T):
        means = np.bincount(slices, weights * column) / masses
        variances = np.maximum(np.bincount(slices, weights * column**2) / masses - means**2, 0.0)
        noise = np.where(n_rows > 1, variances / np.maximum(n_rows - 1, 1e-9), means**2) if are_drawn else 0.0
        mean_squares[output] = max(float(masses @ (means**2 - noise)), 0.0)
    return mean_squares
