"""Compiled kernels of the closed form: totals per order, their shares and terms at rows, as loops over leaves.

Rows come with shape (n_features, n_rows); few at a time, so that what is held for each fits into the cache.
"""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats
from treeanova.core.compiled import Kernel
from treeanova.terms.flat_leaves import FlatLeaves, FlatParts


@Kernel
def sum_polynomials(
    codes: BinIndices, leaves: tuple[int, int], n_orders: int, values: Floats, flat: FlatLeaves
) -> Floats:
    """Sums of values times Π_j (p_j + t (z_j - p_j)) over leaves from one to another, without the latter.

    Shape (n_orders, n_outputs, n_rows).
    """
    # Arrays are taken out of their tuple once: each access to a field counts references, which costs more than a row.
    # Loops are spelt out with two indices: a view of a row costs more than a few of its entries.
    starts, feature, low, high, missing_from, mass, has_table, table = flat
    n_rows, n_outputs = codes.shape[1], values.shape[1]
    totals = np.zeros((n_orders, n_outputs, n_rows))
    polynomial = np.empty((n_orders, n_rows))
    centred = np.empty(n_rows)
    for leaf in range(leaves[0], leaves[1]):
        for row in range(n_rows):
            polynomial[0, row] = 1.0
        degree = 0
        for entry in range(starts[leaf], starts[leaf + 1]):
            j, first, last, missing, p = feature[entry], low[entry], high[entry], missing_from[entry], mass[entry]
            if has_table[j]:
                for row in range(n_rows):
                    centred[row] = np.float64(table[first + codes[j, row]]) - p
            else:
                for row in range(n_rows):
                    is_inside = ((codes[j, row] >= first) & (codes[j, row] < last)) | (codes[j, row] >= missing)
                    centred[row] = np.float64(is_inside) - p
            for row in range(n_rows):
                polynomial[degree + 1, row] = centred[row] * polynomial[degree, row]
            for power in range(degree, 0, -1):
                for row in range(n_rows):
                    polynomial[power, row] = p * polynomial[power, row] + centred[row] * polynomial[power - 1, row]
            for row in range(n_rows):
                polynomial[0, row] *= p
            degree += 1
        for power in range(degree + 1):
            for output in range(n_outputs):
                value = values[leaf, output]
                if value != 0.0:
                    for row in range(n_rows):
                        totals[power, output, row] += value * polynomial[power, row]
    return totals


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
def multiply_into(result: Floats, polynomial: Floats, degree: int, mass: float, centred: Floats) -> None:
    """Products of polynomials of a degree, shape (n_coefficients, n_rows), with mass + t centred, in another array."""
    for row in range(len(centred)):
        result[0, row] = mass * polynomial[0, row]
        result[degree + 1, row] = centred[row] * polynomial[degree, row]
    for power in range(1, degree + 1):
        product, current, below = result[power], polynomial[power], polynomial[power - 1]
        for row in range(len(centred)):
            product[row] = mass * current[row] + centred[row] * below[row]


@Kernel
def pull_back(share: Floats, weights: Floats, polynomial: Floats, mass: float, centred: Floats) -> None:
    """Put (z - p) Σ_k weights_k polynomial_k into `share`, then weigh what mass + t centred multiplies."""
    share[:] = 0.0
    for power in range(len(polynomial)):
        own, coefficient = weights[power], polynomial[power]
        for row in range(len(share)):
            share[row] += own[row] * coefficient[row]
        if power + 1 < len(polynomial):
            above = weights[power + 1]
            for row in range(len(share)):
                own[row] = mass * own[row] + centred[row] * above[row]
    for row in range(len(share)):
        share[row] *= centred[row]


@Kernel
def sum_shares(
    codes: BinIndices, leaves: tuple[int, int], order_weights: Floats, values: Floats, flat: FlatLeaves
) -> Floats:
    """Sums of values times (z_j - p_j) Σ_k w_k q_k, q the coefficients of Π (p_i + t (z_i - p_i)) without feature j.

    Over leaves from one to another, without the latter; shape (n_features, n_outputs, n_rows). w_k is the weight of
    order k + 1, for all orders that leaves have.
    """
    starts, feature, low, high, missing_from, mass, has_table, table = flat
    (n_features, n_rows), n_outputs, n_orders = codes.shape, values.shape[1], len(order_weights)
    lowest = np.flatnonzero(order_weights)[0]
    sums = np.zeros((n_features, n_outputs, n_rows))
    products = np.ones((n_orders, n_orders, n_rows))
    weights, centred = np.empty((n_orders, n_rows)), np.empty((n_orders, n_rows))
    share = np.empty(n_rows)
    for leaf in range(leaves[0], leaves[1]):
        start, degree = starts[leaf], starts[leaf + 1] - starts[leaf]
        if degree <= lowest:
            continue
        for slot in range(degree):
            entry, j = start + slot, feature[start + slot]
            if has_table[j]:
                fill_from_table(centred[slot], codes[j], table, low[entry], mass[entry])
            else:
                ends = low[entry], high[entry], missing_from[entry]
                fill_from_interval(centred[slot], codes[j], ends, mass[entry])
            if slot + 1 < degree:
                multiply_into(products[slot + 1], products[slot], slot, mass[entry], centred[slot])
            weights[slot, :] = order_weights[slot]
        for slot in range(degree - 1, -1, -1):
            entry = start + slot
            pull_back(share, weights, products[slot, : slot + 1], mass[entry], centred[slot])
            for output in range(n_outputs):
                if values[leaf, output] != 0.0:
                    add_scaled(sums[feature[entry], output], values[leaf, output], share)
    return sums


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
        for place in range(key_starts[part_keys[part]], key_starts[part_keys[part + 1]]):
            is_used[key_features[place]] = True
        at = part_starts[part]
        for place in range(part_leaves[part], part_leaves[part + 1]):
            leaf = leaves[place]
            for entry in range(starts[leaf], starts[leaf + 1]):
                j = feature[entry]
                if is_used[j] and has_table[j]:
                    for row in range(n_rows):
                        factors[j, row] = np.float64(table[low[entry] + codes[j, row]]) - mass[entry]
                elif is_used[j]:
                    first, last, missing, p = low[entry], high[entry], missing_from[entry], mass[entry]
                    for row in range(n_rows):
                        code = codes[j, row]
                        is_inside = ((code >= first) & (code < last)) | (code >= missing)
                        factors[j, row] = np.float64(is_inside) - p
            for key in range(part_keys[part], part_keys[part + 1]):
                start, order = key_starts[key], key_starts[key + 1] - key_starts[key]
                for length in range(n_shared[key], order):
                    own = key_features[start + length]
                    for row in range(n_rows):
                        products[length + 1, row] = products[length, row] * factors[own, row]
                for output in range(n_outputs):
                    coefficient = coefficients[at, output]
                    if coefficient != 0.0:
                        for row in range(n_rows):
                            sums[column[key], output, row] += coefficient * products[order, row]
                at += 1
    return sums
