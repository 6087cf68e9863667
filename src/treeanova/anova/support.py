"""What solvers need of weights: the support, its slices, the convention for what it leaves open, iterations.

If weights leave something undetermined, the convention is the limit, for ε towards 0, of weights mixed with a share ε
of the product of their marginals. The limit minimises in turn: first under w; among the minimisers, under the product π
of marginals; last, in the bins never seen. With L the functions of fewer axes, and F in L what is taken out of T:

1. Disconnected components of the support, and slices without mass. Taking the π-pure part of T first makes T orthogonal
   to L under π, so the second step asks for the F of least π-norm among those that agree on the support. For pairs that
   is one constant per component, in closed form; above, conjugate gradients on the support.
2. Bins never seen. In a cell where the bins of the axes S are unseen, projections along S are already known; the others
   follow from one sweep under the product of the marginals of the axes outside S.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import scipy.linalg
import scipy.sparse
from scipy.sparse.csgraph import connected_components
from scipy.sparse.linalg import ArpackNoConvergence, LinearOperator, eigsh

from treeanova.core.arrays import Floats, Ints, Projections


def marginal(weights: Floats, axes: Sequence[int]) -> Floats:
    """Return the weights of cells summed over all but some axes; the same array for all axes."""
    summed = tuple(set(range(weights.ndim)) - set(axes))
    return weights.sum(axis=summed) if summed else weights


def marginals(weights: Floats) -> list[Floats]:  # masses of the bins, axis by axis
    return [marginal(weights, [axis]) for axis in range(weights.ndim)]


def outer(vectors: Sequence[Floats]) -> Floats:  # the product of one vector per axis, over all cells
    return functools.reduce(np.multiply.outer, vectors)


def spread(projection: Floats, axis: int) -> Floats:
    """Return a projection with the axis that it lacks, of length 1, to broadcast over values with outputs first."""
    return np.expand_dims(projection, axis + 1)


def slice_sums(values: Floats, weights: Floats, axis: int) -> Floats:
    """Return weighted sums of all slices along an axis, as a projection; values have outputs first."""
    order, outputs = weights.ndim, weights.ndim  # einsum takes numbers as labels: axes 0 .. order - 1, then the outputs
    remaining = [outputs, *(i for i in range(order) if i != axis)]
    return np.einsum(values, [outputs, *range(order)], weights, list(range(order)), remaining)  # type: ignore[arg-type]


def safe_inverse(masses: Floats) -> Floats:
    """Return 1 / mass, and 0 for a mass of 0."""
    return np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)


def slice_means(values: Floats, weights: Floats, axis: int) -> Floats:
    """Return weighted means of all slices along an axis, as a projection; 0 for slices without mass."""
    return slice_sums(values, weights, axis) * safe_inverse(weights.sum(axis))


def axis_means(values: Floats, masses: Floats, axis: int) -> Floats:
    """Return means along an axis with the same weight vector for every slice, as under a product of marginals."""
    before, after = values.shape[: axis + 1], values.shape[axis + 2 :]  # the first axis of values are the outputs
    slices = values.reshape(-1, len(masses), int(np.prod(after, dtype=np.int64)))
    means = slices[:, :, 0] @ masses if slices.shape[2] == 1 else masses @ slices
    return np.asarray(means.reshape(before + after) / masses.sum())


def means_of_all_slices(values: Floats, weights: Floats, axis: int) -> Floats:
    """Return means of all slices along an axis; those without mass are weighted by the marginal of the axis."""
    masses = weights.sum(axis)
    means = slice_sums(values, weights, axis) * safe_inverse(masses)
    if masses.all():
        return means
    return np.where(masses > 0, means, axis_means(values, marginal(weights, [axis]), axis))


def move_means(values: Floats, weights: Floats, axis: int, projections: Projections) -> Floats:
    """Move the slice means along an axis from values to its projection, in place; return the means."""
    means = slice_means(values, weights, axis)
    projections[axis] += means
    values -= spread(means, axis)
    return means


def take_out(values: Floats, projections: Sequence[Floats]) -> None:
    """Subtract projections, one per axis, from values in place."""
    for axis, projection in enumerate(projections):
        values -= spread(projection, axis)


def zero_projections(values: Floats) -> Projections:  # one per axis, of its shape for values with outputs first
    return [np.zeros(values.shape[: i + 1] + values.shape[i + 2 :]) for i in range(values.ndim - 1)]


def add_projections(projections: Projections, more: Sequence[Floats]) -> None:  # in place
    for projection, addend in zip(projections, more, strict=True):
        projection += addend


def slice_indicators(shape: Sequence[int]) -> Floats:
    """Return 1.0 if a cell lies in a slice along an axis, else 0.0: shape (n_slices of all axes, n_cells)."""
    places = np.arange(math.prod(shape)).reshape(shape)
    slices = [np.moveaxis(places, axis, -1).reshape(-1, size) for axis, size in enumerate(shape)]  # cells of each
    table = np.zeros((sum(map(len, slices)), places.size))
    first = 0
    for cells in slices:
        table[first + np.arange(len(cells))[:, None], cells] = 1.0
        first += len(cells)
    return table


def sweep_product(values: Floats, bin_masses: Sequence[Floats]) -> Projections:
    """Make values pure in place for independent axes with masses of bins; return what was taken out, axis by axis."""
    projections = []  # one sweep is exact, because means along different axes commute
    for axis, masses in enumerate(bin_masses):
        projections.append(axis_means(values, masses, axis))
        values -= spread(projections[-1], axis)
    return projections


def largest(values: Floats) -> Floats:
    """Return the largest absolute value of each output."""
    flat = values.reshape(len(values), -1)
    return np.asarray(np.maximum(flat.max(axis=1), -flat.min(axis=1)) + 0.0)  # never -0.0


Matrix = Any  # a dense array or a scipy.sparse array: both have @ and .T
PRODUCT_TOLERANCE = 2e-14  # relative, of weights
_SPARSE_SHARE = 0.1  # of cells with mass, below which matrices are sparse
_DENSE_EIGEN_SIZE = 32
_STEPS_TO_ALL = 6  # from one bin to all others that it is connected with
_NO_EIGENVALUE = 1e-12  # smaller ones are zero, apart from rounding


def is_product(weights: Floats) -> bool:
    """Whether weights of sum 1 are the product of their marginals, to rounding."""
    if weights.ndim == 1:
        return True
    product = outer(marginals(weights))
    gap = weights - product
    np.abs(gap, out=gap)
    product *= PRODUCT_TOLERANCE
    return bool((gap <= product).all())


def bin_components(weights: Floats) -> tuple[int, list[Ints]]:
    """Return the number of components of the support, and the component of each bin, by axis; all bins have mass."""
    sizes = weights.shape  # bins are nodes of a graph, and each cell with mass connects its bins
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
    """Return weights of a pair over √(row mass × column mass), sparse if few have mass, and the roots of the masses."""
    row_root, column_root = (np.sqrt(masses) for masses in marginals(weights))
    if np.count_nonzero(weights) < _SPARSE_SHARE * weights.size:
        cells = np.nonzero(weights)
        entries = weights[cells] / (row_root[cells[0]] * column_root[cells[1]])
        return scipy.sparse.csr_array((entries, cells), shape=weights.shape), row_root, column_root
    matrix = weights / row_root[:, None]
    matrix /= column_root
    return matrix, row_root, column_root


def maximal_correlation(weights: Floats) -> float:
    """Return the largest correlation of functions of the two features within a component of the support."""
    # It is the largest singular value of N apart from the 1 that each component has from its constant. Mass moving
    # shrinks the error by its square per double sweep; an impurity m leaves an error of about m / (1 - correlation²).
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
        return float(np.sqrt(np.clip(scipy.linalg.eigvalsh(dense)[-1], 0.0, 1.0)))

    def without_constants(vector: Floats) -> Floats:  # takes out functions that are constant on each component
        share = np.bincount(labels, root * vector) / component_mass
        return vector - root * share[labels]

    def squared(vector: Floats) -> Floats:  # NᵀN times a vector, without the constants, whose singular value is 1
        return without_constants(matrix.T @ (matrix @ without_constants(vector.ravel())))

    return float(np.sqrt(np.clip(_largest_eigenvalue(squared, len(root)), 0.0, 1.0)))


def _largest_eigenvalue(apply: Callable[[Floats], Floats], size: int) -> float:
    """Return the largest eigenvalue of a symmetric operator, by Lanczos, or by a dense solver if that fails."""
    operator = LinearOperator((size, size), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(size)
    with contextlib.suppress(ArpackNoConvergence):
        return float(eigsh(operator, k=1, which="LA", v0=start, tol=1e-6, return_eigenvectors=False)[0])
    dense = np.column_stack([apply(unit) for unit in np.eye(size)])
    return float(scipy.linalg.eigvalsh(dense, subset_by_index=(size - 1, size - 1))[0])


def projection_correlation(weights: Floats) -> float:
    """Return how nearly functions of fewer axes can cancel, 0 to 1, for small tensors; a maximal correlation."""
    # 1 minus the smallest eigenvalue above zero of the Gram matrix of all slices, each scaled to norm 1 under the
    # weights; sums that are zero everywhere have eigenvalue zero.
    table = slice_indicators(weights.shape) * np.sqrt(weights).ravel()
    norms = np.linalg.norm(table, axis=1)[:, None]
    table = np.divide(table, norms, out=table, where=norms > 0)
    eigenvalues = scipy.linalg.eigvalsh(table @ table.T)
    return float(1.0 - min(eigenvalues[eigenvalues > _NO_EIGENVALUE].min(initial=1.0), 1.0))


MeansAlong = Callable[..., Floats]
"""Means of all slices of values along the axis given as `axis`."""

PURE_ENOUGH = 1e-13  # slice means relative to the largest score
_POLISHING_SWEEPS = 50
_SLOW = 0.7  # a sweep that leaves more than this share of the slice means is the last one


def conjugate_gradients(
    apply: Callable[[Floats], Floats], rhs: Floats, goal: Any, max_iterations: int, lengths: Ints | None = None
) -> tuple[Floats, list[tuple[Any, Any]]]:
    """Solve a singular consistent system until the squared residual is at most `goal`; also return (α, β) per step."""
    # `apply` multiplies by the matrix. With `lengths`, these are independent systems one after the other, with a column
    # per output; each system and output has its own goal. `scipy.sparse.linalg.cg` does not return what
    # `smallest_ritz_value` needs. Without BLAS, whose threads cost more than they save on such short vectors.
    dot: Callable[..., Any] = functools.partial(np.einsum, "i,i->")
    if lengths is not None:
        dot = functools.partial(block_dot, lengths=lengths)
    solution, residual, direction = np.zeros_like(rhs), rhs.copy(), rhs.copy()
    square: Any = dot(residual, residual)
    goes_on = np.greater(square, goal)
    steps: list[tuple[Any, Any]] = []
    while goes_on.any() and len(steps) < max_iterations:
        image = apply(direction)
        curvature = dot(direction, image)
        goes_on &= np.greater(curvature, 0.0)
        if not goes_on.any():
            break
        alpha = np.divide(square, curvature, out=np.zeros_like(square), where=goes_on)
        solution += _per_unknown(alpha, lengths) * direction
        residual -= _per_unknown(alpha, lengths) * image
        before, square = square, dot(residual, residual)
        beta = np.divide(square, before, out=np.zeros_like(square), where=goes_on)
        direction *= _per_unknown(beta, lengths)
        direction += residual
        steps.append((alpha, beta))
        goes_on &= np.greater(square, goal)
    return solution, steps


def _per_unknown(numbers: Any, lengths: Ints | None) -> Any:
    """Repeat the number of each system for all of its unknowns."""
    return numbers if lengths is None else np.repeat(numbers, lengths, axis=0)


def block_dot(first: Floats, second: Floats, lengths: Ints) -> Floats:
    """Return the dot products of two vectors within consecutive blocks of given lengths."""
    return np.asarray(np.add.reduceat(first * second, np.cumsum([0, *lengths[:-1]])))


def smallest_ritz_value(steps: Sequence[tuple[Any, Any]]) -> float:
    """Return the smallest eigenvalue that conjugate gradients have met, from their steps (the Lanczos process)."""
    if not steps:
        return 1.0
    alpha, beta = np.array(steps).T
    diagonal = 1.0 / alpha
    diagonal[1:] += beta[:-1] / alpha[:-1]
    beside = np.sqrt(beta[:-1]) / alpha[:-1]
    value = scipy.linalg.eigvalsh_tridiagonal(diagonal, beside, select="i", select_range=(0, 0))
    return float(np.clip(value[0], 0.0, 1.0))


def sweep(values: Floats, projections: Projections, means_along: MeansAlong) -> float:
    """Move all slice means (of `means_along`) from values to the projections, in place; return the largest moved."""
    moved = 0.0
    for axis, projection in enumerate(projections):
        means = means_along(values, axis=axis)
        projection += means
        values -= spread(means, axis)
        moved = max(moved, float(largest(means).max()))
    return moved


def polish(values: Floats, projections: Projections, means_along: MeansAlong, scale: float) -> None:
    """Move slice means to the projections, in place, until they are at rounding level or shrink no further."""
    before = np.inf
    for _ in range(_POLISHING_SWEEPS):
        moved = sweep(values, projections, means_along)
        if moved <= PURE_ENOUGH * scale or moved > _SLOW * before:
            return
        before = moved


_TIE_TOLERANCE = 1e-14
_TIE_ITERATIONS = 20_000


def tie_support(scores: Floats, projections: Projections, weights: Floats) -> None:
    """Make projections of a raw tensor, `scores`, those of the convention for cells without mass, in place."""
    # All bins have mass. The module's docstring has the convention; sums in cells with mass stay.
    if weights.all():
        return
    if weights.ndim == 2:
        _tie_components(scores, projections, weights)
    else:
        _tie_projections(scores, projections, weights)


def _tie_components(scores: Floats, projections: Projections, weights: Floats) -> None:
    """Shift the projections of a pair, in place, by one constant per component, as the convention demands."""
    # With R = T - a - b, minimising sum r_i c_j (R_ij - s_k(i) + s_k(j))² over the shifts s, of weighted mean zero,
    # gives s_k = (Σ_{i in k} r_i Σ_j c_j R_ij - Σ_{j in k} c_j Σ_i r_i R_ij) / (2 p_k), p_k the mass of component k.
    n_components, (row_labels, column_labels) = bin_components(weights)
    if n_components == 1:
        return
    residual = scores.copy()
    take_out(residual, projections)
    rows, columns = marginals(weights)
    mass = np.bincount(row_labels, rows)
    row_sums, column_sums = rows * axis_means(residual, columns, 1), columns * axis_means(residual, rows, 0)
    for output in range(len(scores)):
        excess = np.bincount(row_labels, row_sums[output]) - np.bincount(column_labels, column_sums[output])
        shift = excess / (2 * mass)
        projections[1][output] += shift[row_labels]
        projections[0][output] -= shift[column_labels]


def _tie_projections(scores: Floats, projections: Projections, weights: Floats) -> None:
    """Replace projections, in place, by those of least norm under the product of marginals: the convention."""
    bin_masses = marginals(weights)
    support = np.flatnonzero(weights)
    pure_under_product = scores.copy()
    tied = sweep_product(pure_under_product, bin_masses)
    residual = pure_under_product - scores  # what the projections take out, less what the product takes out
    for axis, projection in enumerate(projections):
        residual += spread(projection, axis)
    for output, scale in enumerate(largest(scores)):
        preimage = _preimage_of_least_norm(residual[output].ravel()[support], support, bin_masses, scale)
        for projection, more in zip(tied, sweep_product(preimage, bin_masses), strict=True):
            projection[output] += more[0]
    pure = scores.copy()
    take_out(pure, tied)
    means_along = functools.partial(means_of_all_slices, weights=weights)
    for i, scale in enumerate(largest(scores)):
        this_output = slice(i, i + 1)  # a view, which is polished in place
        polish(pure[this_output], [projection[this_output] for projection in tied], means_along, scale)
    for projection, tied_projection in zip(projections, tied, strict=True):
        projection[...] = tied_projection


def _preimage_of_least_norm(target: Floats, support: Ints, bin_masses: Sequence[Floats], scale: float) -> Floats:
    """Return φ, a tensor that is zero off the support, such that P φ meets a target there and has least norm."""
    # L are the sums of functions of fewer axes, π is the product of the bins' masses, P the projection on L under π.
    # Elements of L of least π-norm are P φ, since they are orthogonal to all of L that vanishes on the support; so φ
    # solves P φ = target there, symmetric in φ √π, with eigenvalues in [0, 1].
    root = np.sqrt(outer(bin_masses).ravel()[support])
    tensor = np.zeros((1, *(len(masses) for masses in bin_masses)))
    flat = tensor.reshape(-1)

    def fill(vector: Floats) -> None:  # sets `tensor` to φ, given φ √π on the support
        flat[:] = 0.0
        flat[support] = vector / root

    def apply(vector: Floats) -> Floats:  # the matrix, P in the basis φ √π
        fill(vector)
        sweep_product(tensor, bin_masses)  # leaves the pure part, (1 - P) φ
        return vector - flat[support] * root

    solution, _ = conjugate_gradients(apply, target * root, (_TIE_TOLERANCE * scale) ** 2, _TIE_ITERATIONS)
    fill(solution)
    return tensor


def extend_to_unseen(scores: Floats, projections: Projections, bin_masses: Sequence[Floats]) -> None:
    """Fill projections, in place, at slices in bins without mass, by the convention; others are right already."""
    outputs, axes = np.arange(len(scores)), range(len(bin_masses))
    seen = [np.flatnonzero(masses) for masses in bin_masses]
    unseen = [np.flatnonzero(masses == 0) for masses in bin_masses]
    for group in itertools.chain.from_iterable(itertools.combinations(axes, n) for n in axes[1:]):
        # In cells whose bins along the axes of a group are unseen, the projections along these axes are known; those
        # along the other axes are filled.
        bins = [unseen[axis] if axis in group else seen[axis] for axis in axes]
        if not all(len(indices) for indices in bins):
            continue
        cells = [np.ix_(outputs, *bins[:axis], *bins[axis + 1 :]) for axis in axes]
        residual = scores[np.ix_(outputs, *bins)]
        for axis in group:
            residual -= spread(projections[axis][cells[axis]], axis)
        for axis in sorted(set(axes).difference(group)):
            means = axis_means(residual, bin_masses[axis][bins[axis]], axis)
            projections[axis][cells[axis]] = means
            residual -= spread(means, axis)


_OBSERVED_ITERATIONS = 300


@dataclasses.dataclass(frozen=True, eq=False)
class ObservedCells:
    """The cells of a tensor that have mass, and their slices: a least-squares problem for projections.

    Products with its sparse matrix take microseconds, those with whole tensors (`solvers.iterative`) half a
    millisecond. Unlike the solvers, it leaves projections of slices without mass at zero.
    """

    positions: Ints  # of the cells with mass
    roots: Floats  # of their masses
    matrix: scipy.sparse.csr_array  # (n_cells, n_slices), an entry if the slice has the cell; scaled by roots of masses
    slices: Ints  # positions of the slices with mass among those of all axes
    scales: Floats  # inverse roots of the masses of these slices
    shapes: tuple[tuple[int, ...], ...]  # of the projections

    @classmethod
    def of(cls, weights: Floats) -> ObservedCells:
        """Return the cells that have weight; slices are numbered axis by axis, in the order of their projections."""
        order = weights.ndim
        positions = np.flatnonzero(weights)
        masses = weights.ravel()[positions]
        roots = np.sqrt(masses)
        shapes = tuple(weights.shape[:axis] + weights.shape[axis + 1 :] for axis in range(order))
        slices_of_cells = np.empty((len(positions), order), dtype=np.int64)  # numbers of a cell's slices, one per axis
        start, stride = 0, weights.size  # the number of the axis's first slice; the step from bin to bin in memory
        for axis, size in enumerate(weights.shape):
            outer_stride, stride = stride, stride // size
            # A slice's number is the position of its cells without the bin of this axis.
            slices_of_cells[:, axis] = start + positions // outer_stride * stride + positions % stride
            start += weights.size // size
        has_mass = np.zeros(sum(map(math.prod, shapes)), dtype=bool)  # of each slice
        has_mass[slices_of_cells] = True
        columns = (np.cumsum(has_mass, dtype=np.int32) - 1)[slices_of_cells].ravel()
        scales = 1 / np.sqrt(np.bincount(columns, np.repeat(masses, order)))
        entries = np.repeat(roots, order) * scales[columns]
        ends = np.arange(0, len(columns) + 1, order, dtype=np.int32)  # each row of the matrix has one entry per axis
        matrix = scipy.sparse.csr_array((entries, columns, ends), shape=(len(positions), len(scales)))
        return cls(positions, roots, matrix, np.flatnonzero(has_mass), scales, shapes)

    def split(self, solution: Floats) -> Projections:
        """Return projections from the scaled values of the slices with mass, shape (n_slices, n_outputs)."""
        flat = np.zeros((solution.shape[1], sum(map(math.prod, self.shapes))))
        flat[:, self.slices] = self.scales * solution.T
        ends = np.cumsum([math.prod(shape) for shape in self.shapes])[:-1]
        blocks = np.split(flat, ends, axis=1)
        return [block.reshape(-1, *shape) for block, shape in zip(blocks, self.shapes, strict=True)]

    def mean_squares(self, values: Floats) -> Floats:  # of each output, under the weights
        return np.asarray(np.square(self.scaled(values)).sum(axis=1))

    def mean_squares_of_slices(self, values: Floats) -> Floats:
        """Return the mean square of slice means, under the weights and over the axes, for each output."""
        sums = self.matrix.T @ self.scaled(values).T
        return np.asarray(np.square(sums).sum(axis=0) / len(self.shapes))

    def scaled(self, values: Floats) -> Floats:
        """Return values of the cells times the roots of their masses, shape (n_outputs, n_cells)."""
        return np.asarray(self.roots * values.reshape(len(values), -1)[:, self.positions])


def projections_of_all(
    problems: Sequence[ObservedCells],
    values: Sequence[Floats],
    tolerances: Sequence[float],
    max_iterations: int = _OBSERVED_ITERATIONS,
) -> list[Projections]:
    """Return projections that make the values of each problem pure wherever there is mass, by conjugate gradients."""
    # The residual of the normal equations of each output of each problem is reduced by the factor `tolerance`. Problems
    # are solved together, because one step for all takes hardly longer than for a small one.
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


def slice_impurity(values: Floats, cells: Ints, weights: Floats, *, are_drawn: bool) -> float:
    """Return the root mean square of a term's slice means over that of the term, the largest over axes and outputs."""
    # `values` are those of the term at rows, (n_rows, n_outputs), `cells` the few bins of the rows in its features,
    # (n_rows, n_features); `weights` have sum 1. `are_drawn`: the rows are draws from the density, not all of its mass.
    squares = weights @ values**2
    worst = np.zeros(values.shape[1])
    for axis in range(cells.shape[1]):
        slice_numbers = np.zeros(len(cells), dtype=np.int64)  # of each row, from its bins along the other axes
        for bins in np.delete(cells, axis, axis=1).T:
            slice_numbers = slice_numbers * (int(bins.max(initial=0)) + 1) + bins
        slices = np.unique(slice_numbers, return_inverse=True)[1].ravel()  # without gaps
        worst = np.maximum(worst, _mean_square(values, slices, weights, are_drawn=are_drawn))
    return float(np.sqrt(np.divide(worst, squares, out=np.zeros_like(worst), where=squares > 0)).max(initial=0.0))


def _mean_square(values: Floats, slices: Ints, weights: Floats, *, are_drawn: bool) -> Floats:
    """Return the mean square of slice means per output, without the noise of draws; `slices` has that of each row."""
    masses = np.bincount(slices, weights)
    n_rows = masses**2 / np.bincount(slices, weights**2)  # effective number of rows of each slice
    mean_squares = np.zeros(values.shape[1])
    for output, column in enumerate(values.T):
        means = np.bincount(slices, weights * column) / masses
        variances = np.maximum(np.bincount(slices, weights * column**2) / masses - means**2, 0.0)
        noise = np.where(n_rows > 1, variances / np.maximum(n_rows - 1, 1e-9), means**2) if are_drawn else 0.0
        mean_squares[output] = max(float(masses @ (means**2 - noise)), 0.0)
    return mean_squares
