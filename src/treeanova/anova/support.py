"""Properties of weights: product or not, connected components of the support, maximal correlation of the axes."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from treeanova.anova.slices import marginals, outer, slice_indicators
from treeanova.core.arrays import Floats, Ints

Matrix = Any  # a dense array or a scipy.sparse array: both have @ and .T
PRODUCT_TOLERANCE = 2e-14
_SPARSE_SHARE = 0.1
_DENSE_EIGEN_SIZE = 32
_STEPS_TO_ALL = 6
_NO_EIGENVALUE = 1e-12


def is_product(weights: Floats) -> bool:
    """Whether weights (of sum 1) are the product of their marginals, to rounding."""
    if weights.ndim == 1:
        return True
    product = outer(marginals(weights))
    gap = weights - product
    np.abs(gap, out=gap)
    product *= PRODUCT_TOLERANCE
    return bool((gap <= product).all())


def bin_components(weights: Floats) -> tuple[int, list[Ints]]:
    """Connected components of the bins, two bins being connected when a cell with mass lies in both.

    Returns their number and one label per bin and axis. Every bin must have mass.
    """
    sizes = weights.shape
    if weights.all() or (weights.ndim == 2 and _is_known_connected(weights)):
        return 1, [np.zeros(size, dtype=np.int64) for size in sizes]
    cells = np.nonzero(weights)
    starts = np.cumsum([0, *sizes])
    first = np.concatenate([cells[0]] * (len(sizes) - 1))
    other = np.concatenate([cells[i] + starts[i] for i in range(1, len(sizes))])
    edges = scipy.sparse.coo_array((np.ones(len(first), dtype=np.int8), (first, other)), shape=(starts[-1],) * 2)
    n_components, labels = connected_components(edges, directed=False)
    return int(n_components), np.split(labels.astype(np.int64), starts[1:-1])


def _is_known_connected(weights: Floats) -> bool:
    """Whether a few steps from the fullest column of a pair reach all bins; False may also mean "unknown"."""
    support = weights != 0
    rows = support[:, int(support.sum(axis=0).argmax())]
    for _ in range(_STEPS_TO_ALL):
        columns = support[rows].any(axis=0)
        reached = support[:, columns].any(axis=1)
        if columns.all() and reached.all():
            return True
        if (reached == rows).all():
            return False
        rows = reached
    return False


def normalise(weights: Floats) -> tuple[Matrix, Floats, Floats]:
    """N = D_r^(-1/2) W D_c^(-1/2) of a pair, sparse where W is, with the roots of row and column masses."""
    row_root, column_root = (np.sqrt(masses) for masses in marginals(weights))
    if np.count_nonzero(weights) < _SPARSE_SHARE * weights.size:
        cells = np.nonzero(weights)
        entries = weights[cells] / (row_root[cells[0]] * column_root[cells[1]])
        return scipy.sparse.csr_array((entries, cells), shape=weights.shape), row_root, column_root
    matrix = weights / row_root[:, None]
    matrix /= column_root
    return matrix, row_root, column_root


def maximal_correlation(weights: Floats) -> float:
    """Largest correlation that functions of the two features can have within a component of the support.

    It is the largest singular value of N apart from the value 1 that each component has from its constant. Mass moving
    shrinks the error by its square per double sweep; an impurity m leaves an error of about m / (1 - correlation²).
    """
    if weights.shape[0] < weights.shape[1]:
        weights = weights.T
    matrix, _, root = normalise(weights)
    n_components, (_, labels) = bin_components(weights)
    if len(root) <= n_components:
        return 0.0
    component_mass = np.bincount(labels, root**2)

    if len(root) <= _DENSE_EIGEN_SIZE:
        square_matrix = matrix.T @ matrix
        dense = square_matrix.toarray() if scipy.sparse.issparse(square_matrix) else square_matrix
        dense -= np.where(labels[:, None] == labels, np.outer(root, root) / component_mass[labels], 0.0)
        return _as_correlation(scipy.linalg.eigvalsh(dense)[-1])

    def without_constants(vector: Floats) -> Floats:
        """The vector without its component along the constants."""
        share = np.bincount(labels, root * vector) / component_mass
        return vector - root * share[labels]

    def square(vector: Floats) -> Floats:
        """The square of the correlation operator, applied to a vector."""
        return without_constants(matrix.T @ (matrix @ without_constants(vector.ravel())))

    return _as_correlation(_largest_eigenvalue(square, len(root)))


def _as_correlation(eigenvalue: float) -> float:
    return float(np.sqrt(np.clip(eigenvalue, 0.0, 1.0)))


def _largest_eigenvalue(apply: Callable[[Floats], Floats], size: int) -> float:
    """Largest eigenvalue of a symmetric operator: by Lanczos, or dense when that does not converge."""
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    with contextlib.suppress(ArpackNoConvergence):
        return float(eigsh(operator, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])
    dense = np.column_stack([apply(unit) for unit in np.eye(size)])
    return float(scipy.linalg.eigvalsh(dense, subset_by_index=(size - 1, size - 1))[0])


def face_correlation(weights: Floats) -> float:
    """The same for small tensors of any order: how nearly a sum of functions of fewer axes can cancel.

    1 minus the smallest eigenvalue above zero of the Gram matrix of all slices, each scaled to norm 1 under the
    weights; sums that are zero everywhere have eigenvalue zero.
    """
    table = slice_indicators(weights.shape) * np.sqrt(weights).ravel()
    norms = np.linalg.norm(table, axis=1)[:, None]
    table = np.divide(table, norms, out=table, where=norms > 0)
    eigenvalues = scipy.linalg.eigvalsh(table @ table.T)
    return float(1.0 - min(eigenvalues[eigenvalues > _NO_EIGENVALUE].min(initial=1.0), 1.0))
