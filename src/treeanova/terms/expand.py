"""expand(sets): the trees as raw effects, each leaf in the term of the features on its path.

A leaf with value v and, per feature j of its path, a set of bins B_j adds v Π_j 1[bin of j in B_j] to the term of its
features. With the sets of all leaves of a term as rows of 0/1 matrices M_j, its tensor is a product of matrices;
intervals, missing bins and category sets are all alike.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.model.binning import Binning, unmerged
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.leafsets import LeafSets

_BLOCK_CELLS = 1 << 22


def expand(
    sets: LeafSets, *, max_order: int | None = None, binnings: Sequence[Binning] | None = None, grid: Grid | None = None
) -> Effects:
    """Raw effects of a forest: one tensor per set of features that a leaf's path has, up to an order if given.

    With `binnings` of its bins, tensors are over the merged bins of `grid`.
    """
    onto = [unmerged(size) for size in sets.grid.sizes] if binnings is None else binnings
    intercept, terms = sets.intercept.copy(), {}
    for key, leaves in zip(sets.keys, sets.members, strict=True):
        if not key:
            intercept += sets.values[leaves].sum(axis=0)
        elif max_order is None or len(key) <= max_order:
            factors = [sets.sets[j].onto(onto[j], sets.positions(j, leaves)) for j in key]
            terms[key] = outer_sum(factors, sets.values[leaves])
    return Effects(sets.grid if grid is None else grid, intercept, terms)


def outer_sum(factors: Sequence[Floats], values: Floats) -> Floats:
    """Σ over leaves of values times the outer product of their factors, each (n_leaves, n_bins); outputs last.

    The factors are multiplied out in two halves, so that all the rest is a product of matrices.
    """
    sizes = [factor.shape[1] for factor in factors]
    middle = min(range(len(sizes)), key=lambda i: math.prod(sizes[:i]) + math.prod(sizes[i:]))
    n_left, n_right = math.prod(sizes[:middle]), math.prod(sizes[middle:])
    n_outputs = values.shape[1]
    result = np.zeros((n_outputs, n_left, n_right))
    block = max(1, _BLOCK_CELLS // max(n_left + n_right, 1))
    for start in range(0, len(values), block):
        part = slice(start, start + block)
        left, right = (_row_products(half, part, len(values)) for half in (factors[:middle], factors[middle:]))
        for output in range(n_outputs):
            result[output] += (left * values[part, output : output + 1]).T @ right
    return np.ascontiguousarray(np.moveaxis(result.reshape(n_outputs, *sizes), 0, -1))


def _row_products(factors: Sequence[Floats], part: slice, n_leaves: int) -> Floats:
    """Outer products of the rows of some factors, flattened; shape (n_leaves_in_part, product of sizes)."""
    outer = np.ones((len(range(n_leaves)[part]), 1))
    for factor in factors:
        outer = (outer[:, :, None] * factor[part][:, None, :]).reshape(len(outer), -1)
    return outer
