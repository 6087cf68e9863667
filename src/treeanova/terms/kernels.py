"""Sums over leaves: compiled kernels of the closed form, the same by numpy, and corners of pairs of leaves.

Kernels take few rows at a time, which fit into the cache, and leaves in the order of the trees (`paths.py`): each level
of a path has a sum over the latest leaves, which gets the factor of a set when all leaves that share the set are in it.
Arrays are unpacked and indexed: fields, views of rows and calls cost as much as dozens of rows.

A set of bins begins and ends at few places, so the differences of a ⊗ b along both axes are nonzero at a few corners
only. These are added up; running sums give the table.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import scipy.sparse

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key
from treeanova.core.compiled import Kernel
from treeanova.core.progress import blocks
from treeanova.core.threads import thread_map
from treeanova.model.grid import Binning
from treeanova.terms import costs
from treeanova.terms.leaves import BinSets, Intervals, LeafSets, flatten
from treeanova.terms.paths import IN_TABLE, LeafPaths, paths_in_tree_order

_BLOCK = 64  # leaves at once, whose tables stay in the cache
_BITS = 62  # features in a number
Span = tuple[int, int]  # first and end; or two places
Factor = tuple[int, int, float]  # a set of a leaf: its number, its level on the path, its mass
SharePlaces = tuple[int, int, int, int, int, float]  # as `add_share` unpacks them


@Kernel
def fill_centred(centred: Floats, codes: BinIndices, bounds: BinIndices, table: Bools, place: Factor) -> None:
    """Fill a level, per row, with the membership 0 or 1 of its bin in a leaf's set, minus the set's mass."""
    at, level, mass = place
    j, first, last, missing = bounds[at, 0], bounds[at, 1], bounds[at, 2], bounds[at, 3]
    if last == IN_TABLE:
        for row in range(codes.shape[1]):
            centred[level, row] = np.float64(table[first + codes[j, row]]) - mass
    else:
        for row in range(codes.shape[1]):
            is_inside = ((codes[j, row] >= first) & (codes[j, row] < last)) | (codes[j, row] >= missing)
            centred[level, row] = np.float64(is_inside) - mass


@Kernel
def add_product(sums: Floats, slots: Span, polynomial: tuple[int, float], factor: Factor, centred: Floats) -> None:
    """Add a polynomial in t, per row, times (mass + t centred) to a total, but for t^0; clear the polynomial."""
    # Coefficients of the polynomial, from t^1 on, follow slots[0] in `sums` (n_slots, n_rows), those of the total
    # slots[1]. `polynomial` has its degree and its coefficient of t^0, which is the same for all rows.
    (child, total), (degree, constant), (_, level, mass) = slots, polynomial, factor
    for row in range(sums.shape[1]):
        sums[total + 1, row] += centred[level, row] * constant
    for power in range(1, degree + 1):
        for row in range(sums.shape[1]):
            coefficient = sums[child + power, row]
            sums[total + power, row] += mass * coefficient
            sums[total + power + 1, row] += centred[level, row] * coefficient
            sums[child + power, row] = 0.0


@Kernel
def sum_polynomials(codes: BinIndices, leaves: Span, n_orders: int, values: Floats, paths: LeafPaths) -> Floats:
    """Return sums of all terms of each order, for independent features: shape (n_orders, n_outputs, n_rows)."""
    # Order k is the coefficient of t^k in Σ values Π_j (p_j + t (z_j - p_j)), over leaves from leaves[0] to leaves[1];
    # z_j is 1 if a row's bin, in `codes` (n_features, n_rows), is in the leaf's set of feature j, else 0; p_j is the
    # mass of the set. Values are (n_leaves, n_outputs), in the order of the paths, and a task begins at leaves[0].
    # A level has the sum over the latest leaves that share so many sets, without the factors of these sets.
    _, n_shared, starts, bounds, mass, table, _ = paths
    n_rows, n_outputs = codes.shape[1], values.shape[1]
    sums = np.zeros((n_orders * n_outputs * n_orders, n_rows))  # by level, output, power
    constants, degrees = np.zeros((n_orders, n_outputs)), np.full((n_orders, n_outputs), -1)
    centred, entries = np.empty((n_orders, n_rows)), np.zeros(n_orders, np.int64)
    level = 0
    for leaf in range(leaves[0], leaves[1] + 1):
        n_common = n_shared[leaf] if leaf < leaves[1] else 0
        while level > n_common:
            factor = entries[level], level, mass[entries[level]]
            for output in range(n_outputs):
                degree, constant = degrees[level, output], constants[level, output]
                if degree >= 0:
                    slot = (level * n_outputs + output) * n_orders
                    add_product(sums, (slot, slot - n_outputs * n_orders), (degree, constant), factor, centred)
                    constants[level - 1, output] += factor[2] * constant
                    degrees[level - 1, output] = max(degrees[level - 1, output], degree + 1)
                    constants[level, output], degrees[level, output] = 0.0, -1
            level -= 1
        if leaf == leaves[1]:
            break
        for entry in range(starts[leaf], starts[leaf + 1]):
            level += 1
            entries[level] = entry
            fill_centred(centred, codes, bounds, table, (entry, level, mass[entry]))
        for output in range(n_outputs):
            if values[leaf, output] != 0.0:
                constants[level, output] += values[leaf, output]
                degrees[level, output] = max(degrees[level, output], 0)
    totals = np.empty((n_orders, n_outputs, n_rows))
    for output in range(n_outputs):
        for row in range(n_rows):
            totals[0, output, row] = constants[0, output]
        for power in range(1, n_orders):
            for row in range(n_rows):
                totals[power, output, row] = sums[output * n_orders + power, row]
    return totals


@Kernel
def pull_back(weights: Floats, slots: Span, n_powers: int, factor: Factor, centred: Floats) -> None:
    """Put weights of coefficients at slots[0], from those at slots[1], which absorb the factor mass + t centred."""
    # Under the new weights, a polynomial has the sum that its product with the factor has under the others.
    (below, above), (_, level, mass) = slots, factor
    for power in range(n_powers):
        for row in range(weights.shape[1]):
            weight = mass * weights[above + power, row] + centred[level, row] * weights[above + power + 1, row]
            weights[below + power, row] = weight


@Kernel
def add_share(shares: Floats, weights: Floats, sums: Floats, places: SharePlaces, centred: Floats) -> None:
    """Add a feature's share, centred Σ_k weights_k polynomial_k, to a row of `shares`."""
    # `places` are rows of shares, weights, sums and centred, and the polynomial's degree and coefficient of t^0.
    column, weight, slot, level, degree, constant = places
    if degree == 0:
        for row in range(sums.shape[1]):
            shares[column, row] += centred[level, row] * (constant * weights[weight, row])
    elif degree == 1:
        for row in range(sums.shape[1]):
            share = constant * weights[weight, row] + weights[weight + 1, row] * sums[slot + 1, row]
            shares[column, row] += centred[level, row] * share
    else:
        share = np.empty(sums.shape[1])
        for row in range(sums.shape[1]):
            share[row] = constant * weights[weight, row]
        for power in range(1, degree + 1):
            for row in range(sums.shape[1]):
                share[row] += weights[weight + power, row] * sums[slot + power, row]
        for row in range(sums.shape[1]):
            shares[column, row] += centred[level, row] * share[row]


@Kernel
def sum_shares(codes: BinIndices, leaves: Span, order_weights: Floats, values: Floats, paths: LeafPaths) -> Floats:
    """Return what each feature gets if terms are shared equally among features: (n_features, n_outputs, n_rows)."""
    # Feature j gets, of the leaves from leaves[0] to leaves[1], values times (z_j - p_j) Σ_k w_k q_k, with q the
    # coefficients of Π_{i ≠ j} (p_i + t (z_i - p_i)), w_k the weight of order k + 1, z whether a row's bin, in `codes`
    # (n_features, n_rows), is in a leaf's set, p the set's mass. The docstring of `terms.py` derives it. Sums over
    # leaves go up as in `sum_polynomials`; on the way down, weights absorb the factors above.
    _, n_shared, starts, bounds, mass, table, height = paths
    n_features, n_rows = codes.shape
    n_outputs, n_levels = values.shape[1], len(order_weights) + 1
    shares = np.zeros((n_features * n_outputs, n_rows))
    sums = np.zeros((n_levels * n_outputs * n_levels, n_rows))
    constants, degrees = np.zeros((n_levels, n_outputs)), np.full((n_levels, n_outputs), -1)
    centred, entries = np.empty((n_levels, n_rows)), np.zeros(n_levels, np.int64)
    weights = np.empty((n_levels * n_levels, n_rows))
    for power in range(len(order_weights)):
        for row in range(n_rows):
            weights[power, row] = order_weights[power]
    level = 0
    for leaf in range(leaves[0], leaves[1] + 1):
        n_common = n_shared[leaf] if leaf < leaves[1] else 0
        while level > n_common:
            j, factor = bounds[entries[level], 0], (entries[level], level, mass[entries[level]])
            for output in range(n_outputs):
                degree, constant = degrees[level, output], constants[level, output]
                if degree >= 0:
                    slot = (level * n_outputs + output) * n_levels
                    places = j * n_outputs + output, (level - 1) * n_levels, slot, level, degree, constant
                    add_share(shares, weights, sums, places, centred)
                    add_product(sums, (slot, slot - n_outputs * n_levels), (degree, constant), factor, centred)
                    constants[level - 1, output] += factor[2] * constant
                    degrees[level - 1, output] = max(degrees[level - 1, output], degree + 1)
                    constants[level, output], degrees[level, output] = 0.0, -1
            level -= 1
        if leaf == leaves[1]:
            break
        for entry in range(starts[leaf], starts[leaf + 1]):
            level += 1
            entries[level] = entry
            fill_centred(centred, codes, bounds, table, (entry, level, mass[entry]))
            pull_back(
                weights, (level * n_levels, (level - 1) * n_levels), height[entry], (entry, level, mass[entry]), centred
            )
        for output in range(n_outputs):
            if values[leaf, output] != 0.0:
                constants[level, output] += values[leaf, output]
                degrees[level, output] = max(degrees[level, output], 0)
    return shares.reshape((n_features, n_outputs, n_rows))


@Kernel
def sum_at_points(codes: BinIndices, weights: Floats, starts: Ints, tables: Floats) -> Floats:
    """Return, per leaf, the sum over weighted points of Π_j tables[starts[j] + codes[point, j], leaf]."""
    # `tables` has one column per leaf: the tables of all features one below the other, that of j from `starts[j]` on.
    (n_points, n_features), n_leaves = codes.shape, tables.shape[1]
    sums, product = np.zeros(n_leaves), np.empty(_BLOCK)
    for first in range(0, n_leaves, _BLOCK):
        n_block = min(_BLOCK, n_leaves - first)
        for point in range(n_points):
            for place in range(n_block):
                product[place] = weights[point]
            for j in range(n_features):
                row = starts[j] + codes[point, j]
                for place in range(n_block):
                    product[place] *= tables[row, first + place]
            for place in range(n_block):
                sums[first + place] += product[place]
    return sums


class Plan(NamedTuple):
    """Which sums over leaves make up some terms: of a term, the part whose features follow on the leaves' paths."""

    # Above the leaves that share some sets, each term asks for the sum of their products over its features among the
    # sets that follow. Terms with equal rests share one; for no features it is a constant.
    constant: Ints  # by set of `LeafPaths`: place of the sum that gets its factor times the constant, or -1
    start: Ints  # sums below set i are start[i] to start[i + 1]
    targets: Ints  # of each sum below a set: places of the sums above that get it times the factor, times the mass; -1
    offsets: Ints  # rows of sums begin, by level, at these numbers; on level 0 there is one per term, and one more
    is_needed: Bools  # whether the factor of a set is used


@Kernel
def features_below(paths: LeafPaths, bits: Ints, n_levels: int) -> Ints:
    """Return the features of all sets that follow a set, as bits: shape (n_sets, n_words)."""
    n_shared, starts, feature = paths.n_shared, paths.start, paths.bounds[:, 0]
    below, latest = np.zeros((len(feature), bits.shape[1]), np.int64), np.zeros((n_levels, bits.shape[1]), np.int64)
    for leaf in range(len(n_shared) - 1, -1, -1):
        level = n_shared[leaf] + starts[leaf + 1] - starts[leaf]
        for entry in range(starts[leaf + 1] - 1, starts[leaf] - 1, -1):
            for word in range(bits.shape[1]):
                below[entry, word] = latest[level, word]
                latest[level - 1, word] |= latest[level, word] | bits[feature[entry], word]
                latest[level, word] = 0
            level -= 1
        for word in range(bits.shape[1] if level == 0 else 0):
            latest[0, word] = 0
    return below


@Kernel
def find_or_add(sums: Ints, level: int, n_sums: int, features: Ints) -> int:
    """Return the place of a set of features, given as bits, in a list of sets; append it if the list lacks it."""
    # The list is `sums[level]`, (n_places, n_words), of which the first `n_sums` are taken.
    for place in range(n_sums):
        is_equal = True
        for word in range(len(features)):
            is_equal &= sums[level, place, word] == features[word]
        if is_equal:
            return place
    for word in range(len(features)):
        sums[level, n_sums, word] = features[word]
    return n_sums


@Kernel
def with_room(targets: Ints, n_targets: int) -> Ints:
    """Return pairs of targets with room for more, which are -1."""
    longer = np.full((n_targets, 2), -1)
    for place in range(len(targets)):
        for kind in range(2):
            longer[place, kind] = targets[place, kind]
    return longer


@Kernel
def plan_products(paths: LeafPaths, bits: Ints, keys: Ints, n_levels: int) -> Plan:
    """Return the plan of terms whose features are given as bits, (n_keys, n_words); `bits` has those of one feature."""
    # `sums` has, by level of a path, the features of the sums that the levels above ask for: `remaining` are those of a
    # sum above without the feature of this set.
    n_shared, starts, feature = paths.n_shared, paths.start, paths.bounds[:, 0]
    below, n_words = features_below(paths, bits, n_levels), bits.shape[1]
    constant, start = np.full(len(feature), -1), np.zeros(len(feature) + 1, np.int64)
    targets, is_needed = np.full((1024, 2), -1), np.zeros(len(feature), np.bool_)
    sums, n_sums = np.zeros((n_levels, len(keys) + 1, n_words), np.int64), np.zeros(n_levels, np.int64)
    most, remaining = np.zeros(n_levels + 1, np.int64), np.zeros(n_words, np.int64)
    n_sums[0], most[1] = len(keys), len(keys)
    for key in range(len(keys)):
        for word in range(n_words):
            sums[0, key, word] = keys[key, word]
    for leaf in range(len(n_shared)):
        for entry in range(starts[leaf], starts[leaf + 1]):
            level, first = n_shared[leaf] + entry - starts[leaf] + 1, start[entry]
            n_sums[level] = 0
            if first + n_sums[level - 1] > len(targets):
                targets = with_room(targets, 2 * len(targets) + n_sums[level - 1])
            for above in range(n_sums[level - 1]):
                has_factor, follows, is_empty = False, True, True
                for word in range(n_words):
                    remaining[word] = sums[level - 1, above, word] & ~bits[feature[entry], word]
                    has_factor |= remaining[word] != sums[level - 1, above, word]
                    follows &= remaining[word] & ~below[entry, word] == 0
                    is_empty &= remaining[word] == 0
                if follows and has_factor:
                    is_needed[entry] = True
                if follows and is_empty and has_factor:
                    constant[entry] = above
                elif follows and not is_empty:
                    place = find_or_add(sums, level, n_sums[level], remaining)
                    n_sums[level] = max(n_sums[level], place + 1)
                    targets[first + place, 0 if has_factor else 1] = above
            start[entry + 1], most[level + 1] = first + n_sums[level], max(most[level + 1], n_sums[level])
    for level in range(n_levels):
        most[level + 1] += most[level]
    return Plan(constant, start, targets[: start[-1]], most, is_needed)


@Kernel
def pass_up(sums: Floats, source: int, targets: Span, factor: Factor, centred: Floats) -> None:
    """Add a sum, per row, times centred to targets[0] and times the mass to targets[1], if they exist; clear it."""
    (factored, unfactored), (_, level, mass) = targets, factor
    for row in range(sums.shape[1] if factored >= 0 else 0):
        sums[factored, row] += centred[level, row] * sums[source, row]
    for row in range(sums.shape[1] if unfactored >= 0 else 0):
        sums[unfactored, row] += mass * sums[source, row]
    for row in range(sums.shape[1]):
        sums[source, row] = 0.0


@Kernel
def sum_products(codes: BinIndices, keys: Ints, values: Floats, paths: LeafPaths, plan: Plan) -> Floats:
    """Return terms at rows, shape (n_keys, n_outputs, n_rows); `keys` has 1 for terms of some features, 0 for ()."""
    # A term is Σ over leaves of value Π_{j in key} (z_j - p_j) Π_{other j} p_j; z_j is 1 if a row's bin, in `codes`
    # (n_features, n_rows), is in a leaf's set of feature j, else 0; p_j is the set's mass. Values are (n_leaves,
    # n_outputs) in the order of the paths. Sums over leaves go up as in `sum_polynomials`.
    _, n_shared, starts, bounds, mass, table, _ = paths
    constant_target, sums_start, targets, offsets, is_needed = plan
    n_rows, n_outputs, n_levels = codes.shape[1], values.shape[1], len(offsets)
    sums = np.zeros((offsets[-1] * n_outputs, n_rows))
    constants, is_live = np.zeros((n_levels, n_outputs)), np.zeros((n_levels, n_outputs), np.bool_)
    centred, entries = np.empty((n_levels, n_rows)), np.zeros(n_levels, np.int64)
    level = 0
    for leaf in range(len(n_shared) + 1):
        n_common = n_shared[leaf] if leaf < len(n_shared) else 0
        while level > n_common:
            entry, here, above = entries[level], offsets[level], offsets[level - 1]
            for output in range(n_outputs):
                if not is_live[level, output]:
                    continue
                constant = constants[level, output]
                if constant_target[entry] >= 0:
                    target = (above + constant_target[entry]) * n_outputs + output
                    for row in range(n_rows):
                        sums[target, row] += constant * centred[level, row]
                for number in range(sums_start[entry], sums_start[entry + 1]):
                    source = (here + number - sums_start[entry]) * n_outputs + output
                    factored, unfactored = targets[number, 0], targets[number, 1]
                    factored = (above + factored) * n_outputs + output if factored >= 0 else -1
                    unfactored = (above + unfactored) * n_outputs + output if unfactored >= 0 else -1
                    pass_up(sums, source, (factored, unfactored), (entry, level, mass[entry]), centred)
                constants[level - 1, output] += mass[entry] * constant
                constants[level, output], is_live[level, output], is_live[level - 1, output] = 0.0, False, True
            level -= 1
        if leaf == len(n_shared):
            break
        for entry in range(starts[leaf], starts[leaf + 1]):
            level += 1
            entries[level] = entry
            if is_needed[entry]:
                fill_centred(centred, codes, bounds, table, (entry, level, mass[entry]))
        for output in range(n_outputs):
            if values[leaf, output] != 0.0:
                constants[level, output] += values[leaf, output]
                is_live[level, output] = True
    for key in range(len(keys)):
        for output in range(n_outputs):
            for row in range(n_rows if keys[key] == 0 else 0):
                sums[key * n_outputs + output, row] = constants[0, output]
    return sums[: len(keys) * n_outputs].reshape((len(keys), n_outputs, n_rows))


_STAGE = "terms of high order at rows"


@dataclasses.dataclass(frozen=True, eq=False)
class LeafGroup:
    """Leaves of one set of features, with coefficients and result columns for some of its subsets."""

    leaves: Ints
    coefficients: Mapping[Key, Floats]  # shape (n_leaves, n_outputs)
    columns: Mapping[Key, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Sums:
    """Sums over leaves of coefficients times products of memberships, centred if masses of the sets are given."""

    leaf_sets: LeafSets
    groups: Sequence[LeafGroup]
    set_masses: Sequence[Floats] | None = None  # by feature, then by leaf with the feature on its path
    paths: Callable[[], LeafPaths] | None = None
    needs_kernel: bool = False  # whether the groups have no leaves

    def at_rows(self, codes: BinIndices, n_columns: int, n_jobs: int) -> Floats:
        """Return sums, shape (n_rows, n_columns, n_outputs), by the compiled kernel if that is quicker."""
        return (self.at_rows_by_kernel if self._is_compiled else self.at_rows_by_numpy)(codes, n_columns, n_jobs)

    @functools.cached_property
    def _is_compiled(self) -> bool:
        """Whether the compiled kernel is quicker than numpy, by the steps that each takes per row."""
        if self.needs_kernel:
            return True
        n_factors = sum(len(group.leaves) * len({j for key in group.columns for j in key}) for group in self.groups)
        n_products = sum(len(group.leaves) * len(group.columns) for group in self.groups)
        return costs.is_compiled_at_rows(factors=n_factors, products=n_products)

    def at_rows_by_kernel(self, codes: BinIndices, n_columns: int, n_jobs: int) -> Floats:
        """Return the sums by compiled code, blocks of rows in threads: shape (n_rows, n_columns, n_outputs)."""
        values = np.zeros((len(codes), n_columns, self.leaf_sets.values.shape[1]))
        block_size = max(1, min(costs.KERNEL_ROWS, -(-len(codes) // n_jobs)))
        columns, arrays = self._columns_and_arrays

        def fill(start: int) -> None:
            rows = slice(start, start + block_size)
            values[rows, columns] = sum_products(codes[rows].T, *arrays).transpose(2, 0, 1)

        starts = range(0, len(codes), block_size)
        with thread_map(n_jobs) as run:
            collections.deque(blocks(_STAGE, run(fill, starts), len(starts)), maxlen=0)
        return values

    @functools.cached_property
    def _columns_and_arrays(self) -> tuple[Ints, tuple[Ints, Floats, LeafPaths, Plan]]:
        """Columns of the terms, and what the kernel needs: orders of keys, leaves and the plan."""
        column_of = {key: column for group in self.groups for key, column in group.columns.items()}
        if self.paths is None:
            paths = paths_in_tree_order(self.leaf_sets.forest, flatten(self.leaf_sets, self.set_masses))
        else:
            paths = self.paths()
        keys = list(column_of)
        values = self.leaf_sets.values[paths.leaves]
        plan = plan_of(keys, paths, len(self.leaf_sets.sets), max(map(len, self.leaf_sets.keys)))
        columns = np.array(list(column_of.values()), dtype=np.int64)
        return columns, (np.array([len(key) for key in keys], dtype=np.int64), values, paths, plan)

    def at_rows_by_numpy(self, codes: BinIndices, n_columns: int, n_jobs: int) -> Floats:
        """Return the sums by numpy, blocks of rows in threads: shape (n_rows, n_columns, n_outputs)."""
        values = np.zeros((len(codes), n_columns, self.leaf_sets.values.shape[1]))
        row_slices = [slice(start, start + costs.SUM_ROWS) for start in range(0, len(codes), costs.SUM_ROWS)]

        def fill(rows: slice) -> None:
            for group in self.groups:
                block_size = max(16, costs.SUM_CELLS // max(len(group.leaves), 1))
                for first in range(rows.start, min(rows.stop, len(codes)), block_size):
                    block = slice(first, min(first + block_size, rows.stop))
                    for start in range(0, len(group.leaves), costs.SUM_LEAVES):
                        self._add_sums(values[block], codes[block], group, slice(start, start + costs.SUM_LEAVES))

        with thread_map(n_jobs) as run:
            collections.deque(blocks(_STAGE, run(fill, row_slices), len(row_slices)), maxlen=0)
        return values

    def _add_sums(self, values: Floats, codes: BinIndices, group: LeafGroup, chunk: slice) -> None:
        """Add sums over a chunk of a group's leaves to values (n_rows, n_columns, n_outputs)."""

        @functools.cache
        def factor(j: int) -> Floats:  # memberships, centred or not, of rows in the sets of leaves: (n_leaves, n_rows)
            indices = self.leaf_sets.set_indices(j, group.leaves[chunk])
            inside = self.leaf_sets.sets[j].contain(indices, codes[:, j])
            return inside.astype(np.float64) if self.set_masses is None else inside - self.set_masses[j][indices, None]

        products: list[tuple[Key, Floats]] = []  # of the first features of a key: the next key may begin alike
        for key in sorted(group.columns):
            while products and key[: len(products[-1][0])] != products[-1][0]:
                products.pop()
            for length in range(len(products), len(key)):
                next_factor = factor(key[length])
                products.append((key[: length + 1], products[-1][1] * next_factor if products else next_factor))
            coefficients = group.coefficients[key][chunk]
            sums = sum_at_rows(products[-1][1], coefficients) if products else coefficients.sum(axis=0)
            values[:, group.columns[key]] += sums


def sum_at_rows(products: Floats, coefficients: Floats) -> Floats:
    """Sum products (n_leaves, n_rows) times coefficients (n_leaves, n_outputs) over leaves: (n_rows, n_outputs)."""
    # For one output, digits do not depend on the number of rows: leaves are added one after the other, which BLAS does
    # only for some shapes. For several outputs that would be several times slower than a product of matrices.
    if coefficients.shape[1] > 1:
        return np.asarray(products.T @ coefficients)
    wide = np.repeat(products, 2, axis=1) if products.shape[1] == 1 else products  # a single row is added up in pairs
    sums: Floats = np.einsum("ln,l->n", np.ascontiguousarray(wide), coefficients[:, 0])
    return sums[: products.shape[1], None]


def plan_of(keys: Sequence[Key], paths: LeafPaths, n_features: int, top_order: int) -> Plan:
    """Return the plan of some terms over all leaves."""
    used = sorted({j for key in keys for j in key})
    bits = np.zeros((n_features, len(used) // _BITS + 1), dtype=np.int64)
    for place, j in enumerate(used):
        bits[j, place // _BITS] = 1 << place % _BITS
    features = [np.bitwise_or.reduce(bits[list(key)], axis=0) for key in keys]
    plan: Plan = plan_products(
        paths, bits, np.array(features, dtype=np.int64).reshape(-1, bits.shape[1]), top_order + 1
    )
    return plan


class Corners(NamedTuple):
    """Sets of leaves along one feature, by the few bins where memberships change (corners), and the sets' masses."""

    # Leaves with a common begin or end share a row of a table, whose entries are changes of membership at some bins.
    rows: BinIndices  # rows of the table that belong to each leaf, shape (n_leaves, n_rows_of_leaf)
    bins: BinIndices  # bins of the entries of a row, shape (n_rows, n_entries)
    values: Floats  # the changes of membership at these bins; 0 if a row has fewer
    masses: Floats  # masses of the sets, shape (n_leaves,)
    n_bins: int

    @classmethod
    def of_sets(cls, sets: BinSets, binning: Binning, masses: Floats) -> Corners | None:
        """Return the corners of sets on merged bins; None if a set has too many."""
        if isinstance(sets, Intervals):
            return cls.of_intervals(sets, binning, masses)
        return cls.of_differences(sets.share_differences(binning), masses)

    @classmethod
    def of_intervals(cls, sets: Intervals, binning: Binning, masses: Floats) -> Corners:
        """Return the corners of intervals on merged bins: rows of the table for begin, end and missing bins."""
        # A row has two entries: an interval may begin or end within a merged bin, and then changes the next one too.
        ends = sets.merged_ends(binning)
        merged_bin = np.floor(ends).astype(np.int32)
        fractions = np.stack([1 - (ends - merged_bin), ends - merged_bin], axis=1)
        rows = [sets.low, len(ends) + np.maximum(sets.low, sets.high)]
        bins = np.concatenate([np.stack([merged_bin, merged_bin + 1], axis=1)] * 2)
        values = np.concatenate([fractions, -fractions])
        if len(binning.bins) > sets.n_intervals and sets.missing.any():
            rows.append(len(values) + sets.missing)  # the first of two more rows is empty
            missing_bin, share = binning.bins[-1], binning.shares[-1]
            bins = np.concatenate([bins, [[0, 0], [missing_bin, missing_bin + 1]]])
            values = np.concatenate([values, [[0.0, 0.0], [share, -share]]])
        outside = bins >= binning.size
        bins[outside], values[outside] = 0, 0.0
        return cls(np.stack(rows, axis=1).astype(np.int32), bins.astype(np.int32), values, masses, binning.size)

    @classmethod
    def of_differences(cls, differences: scipy.sparse.csr_array, masses: Floats) -> Corners | None:
        """Return corners from differences of memberships, (n_leaves, n_bins); None if a set has too many."""
        counts = np.diff(differences.indptr)
        n_entries = int(counts.max(initial=0))
        if n_entries > costs.MAX_CORNERS:
            return None
        bins = np.zeros((len(counts), n_entries), dtype=np.int32)
        values = np.zeros((len(counts), n_entries))
        places = np.arange(n_entries) < counts[:, None]
        bins[places], values[places] = differences.indices, differences.data
        return cls(np.arange(len(counts), dtype=np.int32)[:, None], bins, values, masses, differences.shape[1])

    def take(self, leaves: Ints | slice) -> Corners:
        """Return the corners of some leaves."""
        return self._replace(rows=self.rows[leaves], masses=self.masses[leaves])

    @property
    def n_entries_per_leaf(self) -> int:
        """Number of changes of membership per leaf, those of all its rows of the table; fewer are padded with zeros."""
        return int(self.rows.shape[1] * self.bins.shape[1])

    def bins_and_values(self) -> tuple[BinIndices, Floats]:
        """Return the bins where each leaf's membership changes, and the changes: (n_leaves, n_entries_per_leaf)."""
        shape = len(self.rows), self.n_entries_per_leaf
        return self.bins[self.rows].reshape(shape), self.values[self.rows].reshape(shape)

    def weighted_sum(self, weights: Floats) -> Floats:
        """Return, per bin, the sum of weights (n_leaves,) of the leaves whose sets contain it."""
        row_weights = np.zeros(len(self.bins))
        for rows in self.rows.T:
            row_weights += np.bincount(rows, weights, len(row_weights))
        changes = np.bincount(self.bins.ravel(), (self.values * row_weights[:, None]).ravel(), self.n_bins)
        return np.cumsum(changes)


CornerSums = tuple[Floats, Floats, Floats]  # changes in the cells, rows and columns of a pair's table, outputs first


def centred_products(first: Corners, second: Corners, weights: Floats) -> Floats:
    """Return a pair's table, Σ over leaves of weights times (a - p) ⊗ (b - q): shape (n_outputs, n_bins, n_bins)."""
    # a and b are the memberships of bins of two features in a leaf's sets, p and q the masses of these sets. Weights
    # are (n_leaves, n_outputs). Running sums of changes give a ⊗ b; then a q and p b are subtracted, p q is added.
    n_corners = weights.size * first.n_entries_per_leaf * second.n_entries_per_leaf
    add = add_corners if costs.is_compiled(corners=n_corners) else add_corners_by_numpy
    sums: CornerSums = add(first, second, weights)
    totals, rows, columns = sums
    masses = first.masses * second.masses
    for output, total in enumerate(totals):
        np.cumsum(total, axis=0, out=total)
        np.cumsum(total, axis=1, out=total)
        total -= np.cumsum(rows[output])[:, None]
        total -= np.cumsum(columns[output])
        total += (weights[:, output] * masses).sum()
    return totals


def add_corners_by_numpy(first: Corners, second: Corners, weights: Floats) -> CornerSums:
    """Sum changes of membership, times weights (n_leaves, n_outputs), in the cells, rows and columns of a table."""
    # A change of one feature times one of the other goes to a cell, times the other set's mass to a row or column.
    n_outputs = weights.shape[1]
    total = np.zeros((n_outputs, first.n_bins * second.n_bins))
    rows, columns = np.zeros((n_outputs, first.n_bins)), np.zeros((n_outputs, second.n_bins))
    for start in range(0, len(weights), costs.CORNER_LEAVES):
        chunk = slice(start, start + costs.CORNER_LEAVES)
        row_bins, row_values = first.take(chunk).bins_and_values()
        column_bins, column_values = second.take(chunk).bins_and_values()
        row_masses, column_masses = first.masses[chunk], second.masses[chunk]
        cells = (row_bins[:, :, None].astype(np.int64) * second.n_bins + column_bins[:, None, :]).ravel()
        for output, leaf_weights in enumerate(weights[chunk].T):
            scaled = row_values * leaf_weights[:, None]
            corners = (scaled[:, :, None] * column_values[:, None, :]).ravel()
            total[output] += np.bincount(cells, corners, total.shape[1])
            rows[output] += np.bincount(row_bins.ravel(), (scaled * column_masses[:, None]).ravel(), first.n_bins)
            scaled_columns = (column_values * (leaf_weights * row_masses)[:, None]).ravel()
            columns[output] += np.bincount(column_bins.ravel(), scaled_columns, second.n_bins)
    return total.reshape(n_outputs, first.n_bins, second.n_bins), rows, columns


@Kernel
def gather(bins: BinIndices, values: Floats, rows: BinIndices, table: tuple[BinIndices, Floats]) -> int:
    """Fill `bins` and `values` with the nonzero entries of some rows of a table (bins, values); return their number."""
    n = 0
    for row in rows:
        for i in range(table[0].shape[1]):
            if table[1][row, i] != 0.0:
                bins[n], values[n] = table[0][row, i], table[1][row, i]
                n += 1
    return n


@Kernel
def add_corners(first: Corners, second: Corners, weights: Floats) -> CornerSums:
    """Sum changes of membership, times weights (n_leaves, n_outputs), in the cells, rows and columns of a table."""
    first_rows, first_bins, first_values, row_masses, n_rows = first
    second_rows, second_bins, second_values, column_masses, n_columns = second
    n_outputs = weights.shape[1]
    total = np.zeros((n_outputs, n_rows, n_columns))
    rows, columns = np.zeros((n_outputs, n_rows)), np.zeros((n_outputs, n_columns))
    n_first, n_second = first_rows.shape[1] * first_bins.shape[1], second_rows.shape[1] * second_bins.shape[1]
    row_bins, row_values = np.empty(n_first, np.int32), np.empty(n_first)
    column_bins, column_values = np.empty(n_second, np.int32), np.empty(n_second)
    for leaf in range(len(weights)):
        n_row_changes = gather(row_bins, row_values, first_rows[leaf], (first_bins, first_values))
        n_column_changes = gather(column_bins, column_values, second_rows[leaf], (second_bins, second_values))
        for output in range(n_outputs):
            weight = weights[leaf, output]
            if weight == 0.0:
                continue
            for i in range(n_row_changes):
                scaled = weight * row_values[i]
                rows[output, row_bins[i]] += scaled * column_masses[leaf]
                for j in range(n_column_changes):
                    total[output, row_bins[i], column_bins[j]] += scaled * column_values[j]
            for j in range(n_column_changes):
                columns[output, column_bins[j]] += weight * row_masses[leaf] * column_values[j]
    return total, rows, columns
