"""Compiled kernels of the closed form: totals per order and terms at rows, as plain loops over leaves.

Rows come with shape (n_features, n_rows); few at a time, so that what is held for each fits into the cache.
"""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats
from treeanova.core.compiled import Kernel
from treeanova.terms.flat_leaves import FlatLeaves, FlatParts


@Kernel
def fill_from_interval(centred: Floats, bins: BinIndices, ends: tuple[int, int, int], mass: float) -> None:
    """Memberships of rows in low <= bin < high, or bin >= the first one of missing values, minus the mass."""
    low, high, missing_from = ends
    for row in range(len(bins)):
        is_inside = ((bins[row] >= low) & (bins[row] < high)) | (bins[row] >= missing_from)
        centred[row] = np.float64(is_inside) - mass


@Kernel
def fill_from_table(centred: Floats, bins: BinIndices, table: Bools, start: int, mass: float) -> None:
    """Memberships of rows in the set that begins somewhere in a table, minus the mass."""
    for row in range(len(bins)):
        centred[row] = np.float64(table[start + bins[row]]) - mass


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
    # Arrays are taken out of their tuple once: each access to a field counts references, which costs more than a row.
    starts, feature, low, high, missing_from, mass, has_table, table = flat
    n_rows, n_outputs = codes.shape[1], values.shape[1]
    totals = np.zeros((n_orders, n_outputs, n_rows))
    polynomial = np.empty((n_orders, n_rows))
    centred = np.empty(n_rows)
    for leaf in range(leaves[0], leaves[1]):
        polynomial[0, :] = 1.0
        degree = 0
        for entry in range(starts[leaf], starts[leaf + 1]):
            j = feature[entry]
            if has_table[j]:
                fill_from_table(centred, codes[j], table, low[entry], mass[entry])
            else:
                fill_from_interval(centred, codes[j], (low[entry], high[entry], missing_from[entry]), mass[entry])
            multiply(polynomial, degree, mass[entry], centred)
            degree += 1
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
    starts, feature, low, high, missing_from, mass, has_table, table = flat
    part_leaves, leaves, part_keys, column, n_shared, key_starts, key_features, part_starts, coefficients = parts
    n_features, n_rows = codes.shape
    n_outputs = coefficients.shape[1]
    sums = np.zeros((n_columns, n_outputs, n_rows))
    factors = np.empty((n_features, n_rows))
    products = np.ones((n_features + 1, n_rows))
    for part in range(len(part_leaves) - 1):
        is_used = np.zeros(n_features, dtype=np.bool_)
        is_used[key_features[key_starts[part_keys[part]] : key_starts[part_keys[part + 1]]]] = True
        at = part_starts[part]
        for place in range(part_leaves[part], part_leaves[part + 1]):
            leaf = leaves[place]
            for entry in range(starts[leaf], starts[leaf + 1]):
                j = feature[entry]
                if is_used[j] and has_table[j]:
                    fill_from_table(factors[j], codes[j], table, low[entry], mass[entry])
                elif is_used[j]:
                    ends = low[entry], high[entry], missing_from[entry]
                    fill_from_interval(factors[j], codes[j], ends, mass[entry])
            for key in range(part_keys[part], part_keys[part + 1]):
                start, order = key_starts[key], key_starts[key + 1] - key_starts[key]
                for length in range(n_shared[key], order):
                    products[length + 1, :] = products[length] * factors[key_features[start + length]]
                for output in range(n_outputs):
                    add_scaled(sums[column[key], output], coefficients[at, output], products[order])
                at += 1
    return sums
