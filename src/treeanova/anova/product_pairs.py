"""Many pairs at once under weights that are products of marginals: pairs of the same shape are made pure together.

Models with hundreds of features have tens of thousands of small pairs, most of them of independent features. For each
of these a call of numpy takes longer than its work.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import NamedTuple

import numpy as np

from treeanova.anova.certificate import TermCertificate
from treeanova.anova.slices import safe_inverse
from treeanova.anova.solvers.base import EPSILON
from treeanova.anova.support import PRODUCT_TOLERANCE
from treeanova.core.arrays import Bools, Faces, Floats, Key

_MAX_CELLS = 1 << 12  # of a pair: for larger ones the work takes longer than the calls
_STACK_CELLS = 1 << 17


class PurePair(NamedTuple):
    """A pair made pure, what was measured on it, and the faces that were taken out."""

    values: Floats
    certificate: TermCertificate
    faces: Faces


def purify_product_pairs(
    terms: Mapping[Key, Floats], table: Callable[[Key], Floats], scales: Floats, least_weight: float
) -> dict[Key, PurePair]:
    """The small pairs among some terms, outputs first, whose weights are products of marginals, made pure.

    `table` gives weights of sum 1, `scales` are the largest scores of the outputs. Pairs with weights above zero that
    are less than `least_weight` times the largest are left out.
    """
    pure: dict[Key, PurePair] = {}
    for keys in _stacks(terms):
        values, weights = np.stack([terms[key] for key in keys]), np.stack([table(key) for key in keys])
        places = np.flatnonzero(_are_products(weights, least_weight))
        found = _purify_stack(values[places], weights[places], scales)
        pure.update(zip((keys[place] for place in places), found, strict=True))
    return pure


def _stacks(terms: Mapping[Key, Floats]) -> Iterator[list[Key]]:
    """Small pairs by shape, as many at a time as fit into the cache."""
    by_shape: dict[tuple[int, ...], list[Key]] = {}
    for key, values in terms.items():
        if len(key) == 2 and values[0].size <= _MAX_CELLS:
            by_shape.setdefault(values.shape, []).append(key)
    for shape, keys in by_shape.items():
        n_pairs = max(1, _STACK_CELLS // math.prod(shape))
        for start in range(0, len(keys), n_pairs):
            yield keys[start : start + n_pairs]


def _are_products(weights: Floats, least_weight: float) -> Bools:
    """Whether weights, shape (n_pairs, n_rows, n_columns), are products of marginals that rounding has not reached."""
    rows, columns = weights.sum(axis=2), weights.sum(axis=1)
    product = rows[:, :, None] * columns[:, None, :]
    is_near = (np.abs(weights - product) <= PRODUCT_TOLERANCE * product).all(axis=(1, 2))
    n_seen = np.count_nonzero(rows, axis=1) * np.count_nonzero(columns, axis=1)
    is_whole = np.count_nonzero(weights, axis=(1, 2)) == n_seen
    least = least_weight * weights.max(axis=(1, 2), keepdims=True)
    result: Bools = is_near & is_whole & ~((weights > 0) & (weights < least)).any(axis=(1, 2))
    return result


def _purify_stack(values: Floats, weights: Floats, scales: Floats) -> Iterable[PurePair]:
    """Pairs made pure by one sweep of means, shape (n_pairs, n_outputs, n_rows, n_columns)."""
    rows, columns = weights.sum(axis=2), weights.sum(axis=1)
    over_rows = _means_over_rows(values, rows)
    values = values - over_rows[:, :, None, :]
    over_columns = _means_over_columns(values, columns)
    values -= over_columns[:, :, :, None]
    impurities = _impurities(values, weights, scales)
    empty_shares = 1.0 - np.count_nonzero(weights, axis=(1, 2)) / math.prod(weights.shape[1:])
    least_error = sum(weights.shape[1:]) * EPSILON
    for place, (share, empty_share) in enumerate(zip(impurities.tolist(), empty_shares.tolist(), strict=True)):
        certificate = TermCertificate(share, 0.0, 1, empty_share, "direct", 1, max(share, least_error))
        yield PurePair(values[place], certificate, [over_rows[place], over_columns[place]])


def _means_over_rows(values: Floats, masses: Floats) -> Floats:
    """Means along the first axis of each pair, with the same weights for every column."""
    means: Floats = np.matmul(masses[:, None, None, :], values)[:, :, 0] / masses.sum(axis=1)[:, None, None]
    return means


def _means_over_columns(values: Floats, masses: Floats) -> Floats:
    """Means along the second axis of each pair, with the same weights for every row."""
    means: Floats = np.matmul(values, masses[:, None, :, None])[..., 0] / masses.sum(axis=1)[:, None, None]
    return means


def _impurities(values: Floats, weights: Floats, scales: Floats) -> Floats:
    """Largest slice mean of each pair relative to the scale of its output; slices without mass are weighted alike."""
    rows, columns = weights.sum(axis=2), weights.sum(axis=1)
    weighted = values * weights[:, None]
    along_rows = np.where(
        columns[:, None] > 0, weighted.sum(axis=2) * safe_inverse(columns)[:, None], _means_over_rows(values, rows)
    )
    along_columns = np.where(
        rows[:, None] > 0, weighted.sum(axis=3) * safe_inverse(rows)[:, None], _means_over_columns(values, columns)
    )
    worst = np.maximum(np.abs(along_rows).max(axis=2), np.abs(along_columns).max(axis=2))
    impurities: Floats = (worst * safe_inverse(scales)).max(axis=1) + 0.0  # never -0.0
    return impurities
