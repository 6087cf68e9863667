"""What weights leave undetermined is fixed by the limit ε → 0⁺ of w_ε = (1-ε) w + ε Π_j ((1-ε) w_j + ε uniform_j).

The limit minimises in turn: first under w; among the minimisers, under the product π of marginals; last, in the bins
never seen. With L the functions of fewer axes, and F the element of L that is taken out of T:

1. Components of the support, which no cell with mass connects, and slices without mass. Taking the π-pure part of T
   first makes T orthogonal to L under π, so the second step asks for the F of least π-norm among those that agree on
   the support. For pairs that is one constant per component, in closed form; above, conjugate gradients on the support.
2. Bins never seen. In a cell where the bins of the axes S are unseen, faces of i in S are already known; the others
   follow from one sweep under the product of the marginals of the axes outside S.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Sequence

import numpy as np

from treeanova.anova.iterations import conjugate_gradients, polish
from treeanova.anova.slices import axis_means, largest, marginals, outer, settled_means, spread, sweep_product, take_out
from treeanova.anova.support import bin_components
from treeanova.core.arrays import Faces, Floats, Ints

_TIE_TOLERANCE = 1e-14
_TIE_ITERATIONS = 20_000


def tie_support(scores: Floats, faces: Faces, weights: Floats) -> None:
    """Change faces, in place, to those of the convention; on the support their sum does not change.

    The faces are those to take out of the scores; every bin must have mass.
    """
    if weights.all():
        return
    if weights.ndim == 2:
        _tie_components(scores, faces, weights)
    else:
        _tie_faces(scores, faces, weights)


def _tie_components(scores: Floats, faces: Faces, weights: Floats) -> None:
    """Shift the faces of a pair by one constant per component.

    With R = T - a - b, minimising sum r_i c_j (R_ij - s_k(i) + s_k(j))² over the shifts s, of weighted mean zero,
    gives s_k = (Σ_{i in k} r_i Σ_j c_j R_ij - Σ_{j in k} c_j Σ_i r_i R_ij) / (2 p_k), p_k the mass of component k.
    """
    n_components, (row_labels, column_labels) = bin_components(weights)
    if n_components == 1:
        return
    rest = scores.copy()
    take_out(rest, faces)
    rows, columns = marginals(weights)
    mass = np.bincount(row_labels, rows)
    row_sums, column_sums = rows * axis_means(rest, columns, 1), columns * axis_means(rest, rows, 0)
    for output in range(len(scores)):
        excess = np.bincount(row_labels, row_sums[output]) - np.bincount(column_labels, column_sums[output])
        shift = excess / (2 * mass)
        faces[1][output] += shift[row_labels]
        faces[0][output] -= shift[column_labels]


def _tie_faces(scores: Floats, faces: Faces, weights: Floats) -> None:
    """Replace faces by those of least π-norm with the same sum on the support."""
    bin_masses = marginals(weights)
    support = np.flatnonzero(weights)
    pure_under_product = scores.copy()
    tied = sweep_product(pure_under_product, bin_masses)
    rest = pure_under_product - scores  # what the faces take out, less what the product takes out
    for axis, face in enumerate(faces):
        rest += spread(face, axis)
    for output, scale in enumerate(largest(scores)):
        potential = _potential(rest[output].ravel()[support], support, bin_masses, scale)
        for face, more in zip(tied, sweep_product(potential, bin_masses), strict=True):
            face[output] += more[0]
    pure = scores.copy()
    take_out(pure, tied)
    for output, scale in enumerate(largest(scores)):
        one = slice(output, output + 1)
        polish(pure[one], [face[one] for face in tied], functools.partial(settled_means, weights=weights), scale)
    for face, settled in zip(faces, tied, strict=True):
        face[...] = settled


def _potential(target: Floats, support: Ints, bin_masses: Sequence[Floats], scale: float) -> Floats:
    """A function φ of the support, as a tensor: P φ is the element of L of least π-norm that meets the target there.

    P is the projection on L under π. Elements of least norm are P φ, since they are orthogonal to all of L that
    vanishes on the support; so φ solves P φ = target there, symmetric in φ √π, with eigenvalues in [0, 1].
    """
    root = np.sqrt(outer(bin_masses).ravel()[support])
    tensor = np.zeros((1, *(len(masses) for masses in bin_masses)))
    flat = tensor.reshape(-1)

    def fill(vector: Floats) -> None:
        flat[:] = 0.0
        flat[support] = vector / root

    def apply(vector: Floats) -> Floats:
        fill(vector)
        sweep_product(tensor, bin_masses)  # leaves the pure part, (1 - P) φ
        return vector - flat[support] * root

    solution, _, _ = conjugate_gradients(apply, target * root, _TIE_TOLERANCE * scale, _TIE_ITERATIONS)
    fill(solution)
    return tensor


def extend_to_unseen(scores: Floats, faces: Faces, bin_masses: Sequence[Floats]) -> None:
    """Fill faces, in place, at slices in unseen bins; elsewhere they must be right already."""
    order = len(bin_masses)
    seen = [np.flatnonzero(masses) for masses in bin_masses]
    unseen = [np.flatnonzero(masses == 0) for masses in bin_masses]
    for n_unseen in range(1, order):
        for group in itertools.combinations(range(order), n_unseen):
            bins = [unseen[axis] if axis in group else seen[axis] for axis in range(order)]
            if all(len(indices) for indices in bins):
                _fill_block(scores, faces, bin_masses, bins, group)


def _fill_block(
    scores: Floats,
    faces: Faces,
    bin_masses: Sequence[Floats],
    bins: Sequence[Ints],
    group: tuple[int, ...],
) -> None:
    """Faces of the axes outside the group, over the cells whose bins in the group are unseen."""
    outputs = np.arange(len(scores))
    face_cells = [np.ix_(outputs, *(bins[j] for j in range(len(bins)) if j != axis)) for axis in range(len(bins))]
    rest = scores[np.ix_(outputs, *bins)]
    for axis in group:
        rest -= spread(faces[axis][face_cells[axis]], axis)
    for axis in range(len(bins)):
        if axis not in group:
            means = axis_means(rest, bin_masses[axis][bins[axis]], axis)
            faces[axis][face_cells[axis]] = means
            rest -= spread(means, axis)
