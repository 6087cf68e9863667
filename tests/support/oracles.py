"""Functional ANOVA of a tensor by brute force: weighted least squares, and the definition in exact arithmetic."""

from __future__ import annotations

import decimal
import itertools
from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats

if TYPE_CHECKING:
    from treeanova import Purified

Axes = tuple[int, ...]


def mixed_weights(weights: npt.ArrayLike, epsilon: float) -> Floats:
    """w_ε = (1-ε) w + ε Π_j ((1-ε) w_j + ε uniform_j), whose limit ε → 0⁺ is the convention."""
    table = np.asarray(weights, dtype=float)
    table = table / table.sum()
    product = np.ones(())
    for axis, size in enumerate(table.shape):
        others = tuple(a for a in range(table.ndim) if a != axis)
        product = np.multiply.outer(product, (1 - epsilon) * table.sum(axis=others) + epsilon / size)
    mixed: Floats = (1 - epsilon) * table + epsilon * product
    return mixed


def brute_force(scores: npt.ArrayLike, weights: npt.ArrayLike, epsilon: float = 0.0) -> dict[Axes, Floats]:
    """Pure terms, the intercept under (), by weighted least squares over all functions of fewer axes.

    Scores have no axis of outputs. With epsilon = 1e-5 the weights are mixed as in the convention, for an answer whose
    error is of that order; smaller values lose digits.
    """
    table = mixed_weights(weights, epsilon)
    everything = tuple(range(table.ndim))
    pending: dict[Axes, Floats] = {everything: np.array(scores, dtype=float)}
    terms: dict[Axes, Floats] = {}
    for order in range(table.ndim, 0, -1):
        for axes in itertools.combinations(everything, order):
            values = pending.pop(axes)
            masses = table.sum(axis=tuple(set(everything) - set(axes)))
            faces = _least_squares_faces(values, masses)
            for position, face in enumerate(faces):
                values = values - np.expand_dims(face, position)
                below = axes[:position] + axes[position + 1 :]
                pending[below] = pending.get(below, np.zeros(face.shape)) + face
            terms[axes] = values
    return {(): pending[()], **terms}


def _least_squares_faces(values: Floats, masses: Floats) -> list[Floats]:
    """Functions of all axes but one whose sum is nearest to the values."""
    cells = np.indices(values.shape).reshape(values.ndim, -1)
    shapes = [values.shape[:axis] + values.shape[axis + 1 :] for axis in range(values.ndim)]
    blocks = []
    for axis, shape in enumerate(shapes):
        kept = np.delete(cells, axis, axis=0)
        column = np.ravel_multi_index(tuple(kept), shape) if shape else np.zeros(values.size, dtype=int)
        blocks.append(np.eye(int(np.prod(shape)))[column])
    roots = np.sqrt(masses.ravel())
    design = np.hstack(blocks) * roots[:, None]
    lengths = np.linalg.norm(design, axis=0)
    lengths[lengths == 0] = 1.0
    solution = np.linalg.lstsq(design / lengths, values.ravel() * roots, rcond=1e-13)[0] / lengths
    parts = np.split(solution, np.cumsum([block.shape[1] for block in blocks])[:-1])
    return [part.reshape(shape) for part, shape in zip(parts, shapes, strict=True)]


def exact_terms(scores: npt.ArrayLike, weights: npt.ArrayLike, digits: int = 40) -> dict[Axes, Floats]:
    """Pure terms by the definition, in rational arithmetic, with ε = 10**-digits: no rounding, for small tensors.

    All terms are unknowns of one linear system: they add up to the scores, and every slice of each has mean zero
    under its marginal of w_ε.
    """
    table = np.vectorize(Fraction, otypes=[object])(np.asarray(weights, dtype=float))
    table = _mixed(table / table.sum(), Fraction(1, 10**digits))
    values = np.asarray(scores, dtype=float)
    everything = range(values.ndim)
    subsets = [u for order in range(values.ndim + 1) for u in itertools.combinations(everything, order)]
    offsets, size = {}, 0
    for u in subsets:
        offsets[u] = size
        size += int(np.prod([values.shape[a] for a in u]))
    rows = _sum_rows(values, subsets, offsets) + _purity_rows(table, subsets, offsets)
    solution = _solve_rational(rows, size)
    return {u: _block(solution, offsets[u], [values.shape[a] for a in u]) for u in subsets}


def exact_pair(scores: npt.ArrayLike, weights: npt.ArrayLike) -> Floats:
    """The pure interaction of a pair in rational arithmetic, for positive weights; faster than the definition.

    With the columns eliminated, the rows' potentials x solve Σ_k c_ik (x_i - x_k) = Σ_kj w_ij w_kj / w_j (T_ij - T_kj).
    """
    table = np.vectorize(Fraction, otypes=[object])(np.asarray(weights, dtype=float))
    values = np.vectorize(Fraction, otypes=[object])(np.asarray(scores, dtype=float))
    shares = table / table.sum(axis=0)
    conductances = shares @ table.T
    flows = (shares * values) @ table.T
    right = (flows - flows.T).sum(axis=1)
    system = np.diag(conductances.sum(axis=1)) - conductances
    rows = [({k: v for k, v in enumerate(line[1:]) if v}, r) for line, r in zip(system[1:], right[1:], strict=True)]
    potentials = np.array([Fraction(0), *_solve_rational(rows, len(rows))], dtype=object)
    rest = values - potentials[:, None]
    pure: Floats = (rest - (shares * rest).sum(axis=0)).astype(float)
    return pure


def exact_interaction(scores: npt.ArrayLike, weights: npt.ArrayLike, digits: int = 40) -> Floats:
    """The pure term of all axes by the definition, with ε = 10**-digits; faster than all terms.

    Under weights w a term R is pure when w R is orthogonal to all functions of fewer axes, that is when w R = C y with
    the contrasts C of all axes; and T - R is such a function when Cᵀ R = Cᵀ T. So (Cᵀ diag(1/w) C) y = Cᵀ T, which is
    positive definite: decimals with far more digits than the weights span leave no rounding in a float.
    """
    values = np.asarray(scores, dtype=float)
    with decimal.localcontext(decimal.Context(prec=_DIGITS + 4 * digits)):
        table = np.vectorize(Decimal, otypes=[object])(np.asarray(weights, dtype=float))
        inverse = 1 / _mixed(table / table.sum(), Decimal(10) ** -digits).ravel()
        corners = itertools.product(*(range(1, n) for n in values.shape))
        contrasts = np.array([_contrast(corner, values.shape) for corner in corners])
        system = (contrasts * inverse) @ contrasts.T
        right = contrasts @ np.array([Decimal(float(score)) for score in values.ravel()])
        for k in range(len(right)):
            for i in range(k + 1, len(right)):
                factor = system[i, k] / system[k, k]
                system[i, k:] -= factor * system[k, k:]
                right[i] -= factor * right[k]
        for k in reversed(range(len(right))):
            right[k] = (right[k] - system[k, k + 1 :] @ right[k + 1 :]) / system[k, k]
        pure: Floats = (inverse * (right @ contrasts)).astype(float).reshape(values.shape)
    return pure


def relative_gap(pure: Purified, expected: Mapping[Axes, Floats], scores: npt.ArrayLike) -> float:
    """Largest difference of pure terms and intercept to expected ones, the latter under (), relative to the scores."""
    gaps = [np.abs(values - expected[axes]).max() for axes, values in pure.terms.items()]
    gaps.append(np.abs(pure.intercept - expected[()]).max())
    return float(max(gaps) / np.abs(scores).max())


def _contrast(corner: tuple[int, ...], shape: tuple[int, ...]) -> list[int]:
    """Signs of all cells: those between the first one and a corner sum to zero for functions of fewer axes."""
    signs = np.zeros(shape, dtype=int)
    for chosen in itertools.product((0, 1), repeat=len(shape)):
        cell = tuple(bin_ if taken else 0 for bin_, taken in zip(corner, chosen, strict=True))
        signs[cell] = (-1) ** (len(shape) - sum(chosen))
    return [int(sign) for sign in signs.ravel()]


_DIGITS = 200
Row = tuple[dict[int, Fraction], Fraction]


def _mixed(table: npt.NDArray[np.object_], epsilon: Fraction | Decimal) -> npt.NDArray[np.object_]:
    product: npt.NDArray[np.object_] = np.array(1, dtype=object)
    for axis, size in enumerate(table.shape):
        others = tuple(a for a in range(table.ndim) if a != axis)
        bins = table.sum(axis=others) if others else table
        product = np.multiply.outer(product, bins * (1 - epsilon) + epsilon / size)
    mixed: npt.NDArray[np.object_] = table * (1 - epsilon) + product * epsilon
    return mixed


def _position(cell: tuple[int, ...], u: Axes, shape: tuple[int, ...]) -> int:
    index = 0
    for axis in u:
        index = index * shape[axis] + cell[axis]
    return index


def _sum_rows(values: Floats, subsets: list[Axes], offsets: Mapping[Axes, int]) -> list[Row]:
    """Every cell: all terms add up to its score."""
    return [
        ({offsets[u] + _position(cell, u, values.shape): Fraction(1) for u in subsets}, Fraction(float(values[cell])))
        for cell in np.ndindex(values.shape)
    ]


def _purity_rows(table: npt.NDArray[np.object_], subsets: list[Axes], offsets: Mapping[Axes, int]) -> list[Row]:
    """Every slice of every term: weighted sum zero."""
    rows: list[Row] = []
    for u in subsets[1:]:
        rest = tuple(a for a in range(table.ndim) if a not in u)
        masses = table.sum(axis=rest) if rest else table
        for position in range(len(u)):
            sizes = [range(1) if p == position else range(masses.shape[p]) for p in range(len(u))]
            for corner in itertools.product(*sizes):
                entries = {}
                for bin_ in range(masses.shape[position]):
                    cell = (*corner[:position], bin_, *corner[position + 1 :])
                    entries[offsets[u] + int(np.ravel_multi_index(cell, masses.shape))] = Fraction(masses[cell])
                rows.append((entries, Fraction(0)))
    return rows


def _solve_rational(rows: list[Row], size: int) -> list[Fraction]:
    """Gauss-Jordan elimination of a consistent system of full column rank."""
    reduced: dict[int, Row] = {}
    for entries, right in rows:
        work, value = dict(entries), right
        for pivot in [column for column in work if column in reduced]:
            factor = work.get(pivot, Fraction(0))
            value -= factor * reduced[pivot][1]
            _subtract(work, factor, reduced[pivot][0])
        if not work:
            continue
        pivot, lead = next(iter(work.items()))
        work, value = {column: entry / lead for column, entry in work.items()}, value / lead
        for column, (other, other_value) in list(reduced.items()):
            factor = other.get(pivot, Fraction(0))
            if factor:
                _subtract(other, factor, work)
                reduced[column] = (other, other_value - factor * value)
        reduced[pivot] = (work, value)
    return [reduced[column][1] for column in range(size)]


def _subtract(work: dict[int, Fraction], factor: Fraction, other: Mapping[int, Fraction]) -> None:
    for column, entry in other.items():
        rest = work.get(column, Fraction(0)) - factor * entry
        if rest:
            work[column] = rest
        else:
            work.pop(column, None)


def _block(solution: list[Fraction], offset: int, shape: list[int]) -> Floats:
    flat = [float(value) for value in solution[offset : offset + int(np.prod(shape))]]
    return np.array(flat).reshape(shape)
