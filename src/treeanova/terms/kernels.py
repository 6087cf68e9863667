"""Compiled kernels of the closed form: totals per order and terms at rows, as plain loops over leaves.

Rows come with shape (n_features, n_rows); few at a time, so that what is held for each fits into the cache.
"""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import BinIndices, Floats
from treeanova.core.compiled import Kernel
from treeanova.terms.flat_leaves import FlatLeaves, FlatParts

_NO_BIN = 2**31 - 1


@Kernel
def fill_centred(centred: Floats, bins: BinIndices, entry: int, flat: FlatLeaves) -> None:
    """Memberships of rows in the set of one entry, minus its mass."""
    mass, low, high = flat.mass[entry], flat.low[entry], flat.high[entry]
    n_intervals = flat.n_intervals[flat.feature[entry]]
    if n_intervals < 0:
        for row in range(len(bins)):
            centred[row] = np.float64(flat.table[low + bins[row]]) - mass
    else:
        missing_from = n_intervals if flat.missing[entry] else np.int64(_NO_BIN)
        for row in range(len(bins)):
            is_inside = ((bins[row] >= low) & (bins[row] < high)) | (bins[row] >= missing_from)
            centred[row] = np.float64(is_inside) - mass


@Kernel
def multiply(polynomial: Floats, degree: int, mass: float, centred: Floats) -> None:
    """Multiply polynomials of a degree, shape (n_coefficients, n_rows), by mass + t centred."""
    top, below = polynomial[degree + 1], polynomial[degree]
    for row in range(len(centred)):
        top[row] = centred[row] * below[row]
    for power in range(degree, 0, -1):
        current, below = polynomial[power], polynomial[power - 1]
        for row in range(len(centred)):
            current[row] = mass * current[row] + centred[row] * below[row]
    constant = polynomial[0]
    for row in range(len(centred)):
        constant[row] *= mass


@Kernel
def sum_polynomials(
    codes: BinIndices, leaves: tuple[int, int], n_orders: int, values: Floats, flat: FlatLeaves
) -> Floats:
    """Sums of values times Π_j (p_j + t (z_j - p_j)) over leaves from one to another, without the latter.

    Shape (n_orders, n_outputs, n_rows).
    """
    n_rows, n_outputs = codes.shape[1], values.shape[1]
    totals = np.zeros((n_orders, n_outputs, n_rows))
    polynomial = np.empty((n_orders, n_rows))
    centred = np.empty(n_rows)
    for leaf in range(leaves[0], leaves[1]):
        polynomial[0, :] = 1.0
        first = flat.start[leaf]
        degree = flat.start[leaf + 1] - first
        for position in range(degree):
            fill_centred(centred, codes[flat.feature[first + position]], first + position, flat)
            multiply(polynomial, position, flat.mass[first + position], centred)
        for power in range(degree + 1):
            for output in range(n_outputs):
                add_scaled(totals[power, output], values[leaf, output], polynomial[power])
    return totals


@Kernel
def add_scaled(total: Floats, factor: float, values: Floats) -> None:
    """Add a factor times values to a total."""
    for row in range(len(total)):
        total[row] += factor * values[row]


@Kernel
def sum_products(codes: BinIndices, n_columns: int, parts: FlatParts, flat: FlatLeaves) -> Floats:
    """Sums of coefficients times products of memberships over all parts, shape (n_columns, n_outputs, n_rows)."""
    n_features, n_rows = codes.shape
    n_outputs = parts.coefficients.shape[1]
    sums = np.zeros((n_columns, n_outputs, n_rows))
    factors = np.empty((n_features, n_rows))
    products = np.ones((n_features + 1, n_rows))
    for part in range(len(parts.part_leaves) - 1):
        first_key, last_key = parts.part_keys[part], parts.part_keys[part + 1]
        is_used = np.zeros(n_features, dtype=np.bool_)
        is_used[parts.key_features[parts.key_start[first_key] : parts.key_start[last_key]]] = True
        at = parts.part_coefficients[part]
        for place in range(parts.part_leaves[part], parts.part_leaves[part + 1]):
            leaf = parts.leaves[place]
            for entry in range(flat.start[leaf], flat.start[leaf + 1]):
                j = flat.feature[entry]
                if is_used[j]:
                    fill_centred(factors[j], codes[j], entry, flat)
            for key in range(first_key, last_key):
                start = parts.key_start[key]
                order = parts.key_start[key + 1] - start
                for length in range(parts.n_shared[key], order):
                    products[length + 1, :] = products[length] * factors[parts.key_features[start + length]]
                for output in range(n_outputs):
                    add_scaled(sums[parts.column[key], output], parts.coefficients[at, output], products[order])
                at += 1
    return sums
