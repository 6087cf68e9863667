"""Compiled walk of rows through trees."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.core.compiled import Kernel


class Nodes(NamedTuple):
    """Nodes of all trees, as in `Forest`."""

    roots: Ints
    feature: Ints
    bound: Floats
    left: Ints
    right: Ints
    missing_left: Bools
    zero_missing: Bools
    category_start: Ints
    category_left: Bools
    leaf: Ints


@Kernel
def leaves_reached(encoded: Floats, nodes: Nodes, near_zero: float) -> Ints:
    """Positions among all leaves of the leaf that each row reaches in each tree, shape (n_rows, n_trees)."""
    roots, feature, bound, left, right, missing_left, zero_missing, category_start, category_left, leaf = nodes
    reached = np.empty((len(encoded), len(roots)), dtype=np.int64)
    for tree in range(len(roots)):
        for row in range(len(encoded)):
            node = roots[tree]
            while feature[node] >= 0:
                value = encoded[row, feature[node]]
                if np.isnan(value) or (zero_missing[node] and abs(value) <= near_zero):
                    goes_left = missing_left[node]
                elif category_start[node] >= 0:
                    goes_left = category_left[category_start[node] + np.int64(value)]
                else:
                    goes_left = value <= bound[node]
                node = left[node] if goes_left else right[node]
            reached[row, tree] = leaf[node]
    return reached
