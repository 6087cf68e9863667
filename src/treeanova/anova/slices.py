"""Slices of a tensor: their masses, sums and means, and faces, which are taken out of them.

Taking faces out of values, one per axis, leaves ``values - sum(spread(face, axis))``.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Faces, Floats


def marginal(weights: Floats, axes: Sequence[int]) -> Floats:
    """Weights of a subset of the axes, in the order of the axes; the same array for all axes."""
    others = tuple(set(range(weights.ndim)) - set(axes))
    return weights.sum(axis=others) if others else weights


def marginals(weights: Floats) -> list[Floats]:
    """One vector of bin weights per axis."""
    return [marginal(weights, [axis]) for axis in range(weights.ndim)]


def outer(vectors: Sequence[Floats]) -> Floats:
    """Product of vectors, one axis each."""
    return functools.reduce(np.multiply.outer, vectors)


def spread(face: Floats, axis: int) -> Floats:
    """A face as a tensor that broadcasts along its axis."""
    return np.expand_dims(face, axis + 1)


def slice_sums(values: Floats, weights: Floats, axis: int) -> Floats:
    """Weighted sums of all slices along an axis, as a face."""
    order, outputs = weights.ndim, weights.ndim  # einsum labels: axes 0 .. order - 1, then the outputs
    kept = [outputs, *(i for i in range(order) if i != axis)]
    sums: Floats = np.einsum(values, [outputs, *range(order)], weights, list(range(order)), kept)  # type: ignore[arg-type]
    return sums


def safe_inverse(masses: Floats) -> Floats:
    """1 / mass, and 0 where the mass is 0."""
    return np.divide(1.0, masses, out=np.zeros_like(masses), where=masses > 0)


def slice_means(values: Floats, weights: Floats, axis: int) -> Floats:
    """Weighted means of all slices along an axis, as a face; 0 for slices without mass."""
    return slice_sums(values, weights, axis) * safe_inverse(weights.sum(axis))


def axis_means(values: Floats, masses: Floats, axis: int) -> Floats:
    """Means along an axis with the same weight vector for every slice, as under a product of marginals."""
    before, after = values.shape[: axis + 1], values.shape[axis + 2 :]
    slices = values.reshape(-1, len(masses), int(np.prod(after, dtype=np.int64)))
    means = slices[:, :, 0] @ masses if slices.shape[2] == 1 else masses @ slices
    result: Floats = means.reshape(before + after) / masses.sum()
    return result


def settled_means(values: Floats, weights: Floats, axis: int) -> Floats:
    """Means of all slices along an axis; those without mass are weighted by the marginal of the axis."""
    masses = weights.sum(axis)
    means = slice_sums(values, weights, axis) * safe_inverse(masses)
    if masses.all():
        return means
    return np.where(masses > 0, means, axis_means(values, marginal(weights, [axis]), axis))


def move_means(values: Floats, weights: Floats, axis: int, faces: Faces) -> Floats:
    """Move the means of all slices along an axis from values to its face, in place; returns the means."""
    means = slice_means(values, weights, axis)
    faces[axis] += means
    values -= spread(means, axis)
    return means


def take_out(values: Floats, faces: Sequence[Floats]) -> None:
    """Subtract faces from values, in place."""
    for axis, face in enumerate(faces):
        values -= spread(face, axis)


def zero_faces(values: Floats) -> Faces:
    """One face of zeros per axis."""
    return [np.zeros(values.shape[: i + 1] + values.shape[i + 2 :]) for i in range(values.ndim - 1)]


def add_faces(faces: Faces, more: Sequence[Floats]) -> None:
    """Add to faces, in place."""
    for face, addend in zip(faces, more, strict=True):
        face += addend


def slice_indicators(shape: Sequence[int]) -> Floats:
    """Whether each cell lies in each slice along each axis, shape (n_slices, n_cells)."""
    places = np.arange(math.prod(shape)).reshape(shape)
    slices = [np.moveaxis(places, axis, -1).reshape(-1, size) for axis, size in enumerate(shape)]
    table = np.zeros((sum(map(len, slices)), places.size))
    first = 0
    for cells in slices:
        table[first + np.arange(len(cells))[:, None], cells] = 1.0
        first += len(cells)
    return table


def sweep_product(values: Floats, bin_masses: Sequence[Floats]) -> Faces:
    """Faces that make values pure under a product of marginals; values are made pure in place.

    Under a product one sweep is exact: the means along different axes commute.
    """
    faces = []
    for axis, masses in enumerate(bin_masses):
        faces.append(axis_means(values, masses, axis))
        values -= spread(faces[-1], axis)
    return faces


def largest(values: Floats) -> Floats:
    """Largest absolute value of each output."""
    flat = values.reshape(len(values), -1)
    result: Floats = np.maximum(flat.max(axis=1), -flat.min(axis=1))
    return result
