"""Faces by least squares on the cells that have mass: for large tensors of which few cells are observed.

A slice is the set of rows that agree, on a few bins per feature, in all features of the term except one. If rows are
drawn from the density, the mean over a slice of n rows of variance v has noise variance v / n, which is subtracted from
its square.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence

import numpy as np
import scipy.sparse

from treeanova.anova.support import block_dot, conjugate_gradients
from treeanova.core.arrays import Faces, Floats, Ints

_MAX_ITERATIONS = 300


@dataclasses.dataclass(frozen=True, eq=False)
class ObservedCells:
    """The cells of a tensor that have mass, and their slices: a least-squares problem for faces.

    Its matrix has one row per cell and one column per slice with mass, and in each row as many entries as the tensor
    has axes. A product with it takes microseconds, one with whole tensors (`solvers.iterative`) half a millisecond,
    which matters for hundreds of small problems. Rows and columns are scaled by the roots of masses. Unlike the
    solvers, it leaves faces of slices without mass at zero.
    """

    positions: Ints
    roots: Floats
    matrix: scipy.sparse.csr_array
    slices: Ints
    scales: Floats
    shapes: tuple[tuple[int, ...], ...]

    @classmethod
    def of(cls, weights: Floats) -> ObservedCells:
        order = weights.ndim
        positions = np.flatnonzero(weights)
        masses = weights.ravel()[positions]
        roots = np.sqrt(masses)
        shapes = tuple(weights.shape[:axis] + weights.shape[axis + 1 :] for axis in range(order))
        slices_of_cells = _slices_of_cells(positions, weights.shape)
        has_mass = np.zeros(sum(map(math.prod, shapes)), dtype=bool)
        has_mass[slices_of_cells] = True
        columns = (np.cumsum(has_mass, dtype=np.int32) - 1)[slices_of_cells].ravel()
        scales = 1 / np.sqrt(np.bincount(columns, np.repeat(masses, order)))
        entries = np.repeat(roots, order) * scales[columns]
        ends = np.arange(0, len(columns) + 1, order, dtype=np.int32)
        matrix = scipy.sparse.csr_array((entries, columns, ends), shape=(len(positions), len(scales)))
        return cls(positions, roots, matrix, np.flatnonzero(has_mass), scales, shapes)

    def faces(self, values: Floats, tolerance: float, max_iterations: int = _MAX_ITERATIONS) -> Faces:
        return faces_of_all([self], [values], [tolerance], max_iterations)[0]

    def split(self, solution: Floats) -> Faces:
        """Return faces from the scaled values of the slices with mass, shape (n_slices, n_outputs)."""
        flat = np.zeros((solution.shape[1], sum(map(math.prod, self.shapes))))
        flat[:, self.slices] = self.scales * solution.T
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        blocks = np.split(flat, ends, axis=1)
        return [block.reshape(-1, *shape) for block, shape in zip(blocks, self.shapes, strict=True)]

    def mean_squares(self, values: Floats) -> Floats:
        squares: Floats = np.square(self.scaled(values)).sum(axis=1)
        return squares

    def mean_squares_of_slices(self, values: Floats) -> Floats:
        """Return the mean square of slice means, under the weights and over the axes, for each output."""
        sums = self.matrix.T @ self.scaled(values).T
        squares: Floats = np.square(sums).sum(axis=0) / len(self.shapes)
        return squares

    def scaled(self, values: Floats) -> Floats:
        """Return values of the cells times the roots of their masses, shape (n_outputs, n_cells)."""
        scaled: Floats = self.roots * values.reshape(len(values), -1)[:, self.positions]
        return scaled


def faces_of_all(
    problems: Sequence[ObservedCells],
    values: Sequence[Floats],
    tolerances: Sequence[float],
    max_iterations: int = _MAX_ITERATIONS,
) -> list[Faces]:
    """Return faces that make the values of each problem pure wherever there is mass, by conjugate gradients.

    The residual of the normal equations of each output of each problem is reduced by the factor `tolerance`. Problems
    are solved together, because one step for all takes hardly longer than for a small one.
    """
    matrix = _block_diagonal([problem.matrix for problem in problems])
    transposed = matrix.T
    pairs = zip(problems, values, strict=True)
    right = transposed @ np.concatenate([problem.scaled(tensor).T for problem, tensor in pairs])
    lengths = np.array([problem.matrix.shape[1] for problem in problems])
    goals = block_dot(right, right, lengths) * np.array(tolerances)[:, None] ** 2
    solution, _ = conjugate_gradients(lambda v: transposed @ (matrix @ v), right, goals, max_iterations, lengths)
    blocks = np.split(solution, np.cumsum(lengths)[:-1])
    return [problem.split(block) for problem, block in zip(problems, blocks, strict=True)]


def _block_diagonal(matrices: Sequence[scipy.sparse.csr_array]) -> scipy.sparse.csr_array:
    """Return a block diagonal; `scipy.sparse.block_diag` is slower, because it goes through coordinates."""
    if len(matrices) == 1:
        return matrices[0]
    n_columns = np.cumsum([0, *(matrix.shape[1] for matrix in matrices)])
    n_entries = np.cumsum([0, *(matrix.nnz for matrix in matrices)])
    data = np.concatenate([matrix.data for matrix in matrices])
    columns = np.concatenate([matrix.indices + start for matrix, start in zip(matrices, n_columns[:-1], strict=True)])
    ends = [matrix.indptr[1:] + start for matrix, start in zip(matrices, n_entries[:-1], strict=True)]
    n_rows = sum(matrix.shape[0] for matrix in matrices)
    return scipy.sparse.csr_array((data, columns, np.concatenate([[0], *ends])), shape=(n_rows, int(n_columns[-1])))


def _slices_of_cells(positions: Ints, shape: tuple[int, ...]) -> Ints:
    slices = np.empty((len(positions), len(shape)), dtype=np.int64)
    start, stride = 0, math.prod(shape)
    for axis, size in enumerate(shape):
        outer, stride = stride, stride // size
        slices[:, axis] = start + positions // outer * stride + positions % stride
        start += math.prod(shape) // size
    return slices


def slice_impurity(values: Floats, cells: Ints, weights: Floats, *, are_drawn: bool) -> float:
    """Return the root mean square of slice means relative to that of the term, the largest over axes and outputs.

    `values` has shape (n_rows, n_outputs), `cells` the few bins of the rows in the features of the term; `weights` have
    sum 1. `are_drawn`: the rows are draws from the density, not all of its mass.
    """
    squares = weights @ values**2
    worst = np.zeros(values.shape[1])
    for axis in range(cells.shape[1]):
        slices = _numbered(np.delete(cells, axis, axis=1))
        worst = np.maximum(worst, _mean_square(values, slices, weights, are_drawn=are_drawn))
    return float(np.sqrt(np.divide(worst, squares, out=np.zeros_like(worst), where=squares > 0)).max(initial=0.0))


def _numbered(cells: Ints) -> Ints:
    flat = np.zeros(len(cells), dtype=np.int64)
    for column in cells.T:
        flat = flat * (int(column.max(initial=0)) + 1) + column
    return np.unique(flat, return_inverse=True)[1].ravel()


def _mean_square(values: Floats, slices: Ints, weights: Floats, *, are_drawn: bool) -> Floats:
    """Return the mean square of slice means per output, without the noise of draws."""
    masses = np.bincount(slices, weights)
    n_rows = masses**2 / np.bincount(slices, weights**2)  # effective number of rows of each slice
    mean_squares = np.zeros(values.shape[1])
    for output, column in enumerate(values.T):
        means = np.bincount(slices, weights * column) / masses
        variances = np.maximum(np.bincount(slices, weights * column**2) / masses - means**2, 0.0)
        noise = np.where(n_rows > 1, variances / np.maximum(n_rows - 1, 1e-9), means**2) if are_drawn else 0.0
        mean_squares[output] = max(float(masses @ (means**2 - noise)), 0.0)
    return mean_squares
