"""The functional ANOVA of a forest under independent features, in closed form; leaves as tables.

A leaf with value v, features F and sets of bins of mass p_j adds to every set u of its features

    v Π_{j in F, not in u} p_j Π_{j in u} (1[bin of j in its set] - p_j),

and these sums over leaves are pure under the product of the marginals. The tensor of a pair is the double running sum
of a sparse product, because the set of a leaf begins and ends at few bins. At rows, keys with a common beginning share
its product. Before purification, a leaf adds v Π_j 1[bin of j in its set] to the term of all its features: with the
sets as rows of 0/1 matrices M_j, the tensor is a product of matrices, for intervals, missing bins and categories alike.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key, memo
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, Grid, unmerged
from treeanova.terms import costs
from treeanova.terms.kernels import Corners, LeafGroup, Sums, centred_products
from treeanova.terms.leaves import FlatLeaves, LeafSets, flatten
from treeanova.terms.paths import LeafPaths, paths_in_tree_order


def expand(
    sets: LeafSets, *, max_order: int | None = None, binnings: Sequence[Binning] | None = None, grid: Grid | None = None
) -> Effects:
    """Return a forest as raw effects: one tensor per key of leaves; with `binnings`, over the merged bins of `grid`."""
    new_bins = [unmerged(size) for size in sets.grid.sizes] if binnings is None else binnings
    intercept, terms = sets.forest.intercept.copy(), {}
    for key, leaves in zip(sets.keys, sets.leaves_by_key, strict=True):
        if not key:
            intercept += sets.values[leaves].sum(axis=0)
        elif max_order is None or len(key) <= max_order:
            factors = [sets.sets[j].merged_shares(new_bins[j], sets.set_indices(j, leaves)) for j in key]
            terms[key] = outer_sum(factors, sets.values[leaves])
    return Effects(sets.grid if grid is None else grid, intercept, terms)


def outer_sum(factors: Sequence[Floats], values: Floats) -> Floats:
    """Return a tensor, outputs last: Σ over leaves of values times the outer product of all features' factors."""
    # Values are (n_leaves, n_outputs), each feature's factors (n_leaves, n_bins). The features are divided into a left
    # and a right half, multiplied out leaf by leaf; the sum over leaves is then a product of two matrices.
    sizes = [factor.shape[1] for factor in factors]
    middle = min(range(len(sizes)), key=lambda i: math.prod(sizes[:i]) + math.prod(sizes[i:]))
    n_left, n_right = math.prod(sizes[:middle]), math.prod(sizes[middle:])
    n_outputs = values.shape[1]
    result = np.zeros((n_outputs, n_left, n_right))
    block = max(1, costs.OUTER_CELLS // max(n_left + n_right, 1))
    for start in range(0, len(values), block):
        chunk = slice(start, start + block)
        left, right = (_row_products(half, chunk, len(values)) for half in (factors[:middle], factors[middle:]))
        for output in range(n_outputs):
            result[output] += (left * values[chunk, output : output + 1]).T @ right
    return np.ascontiguousarray(np.moveaxis(result.reshape(n_outputs, *sizes), 0, -1))


def _row_products(factors: Sequence[Floats], chunk: slice, n_leaves: int) -> Floats:
    """Return, per leaf of a chunk, the outer product of all factors (n_leaves, n_bins): shape (n_chunk, n_cells)."""
    outer = np.ones((len(range(n_leaves)[chunk]), 1))
    for factor in factors:
        outer = (outer[:, :, None] * factor[chunk][:, None, :]).reshape(len(outer), -1)
    return outer


@dataclasses.dataclass(frozen=True, eq=False)
class ClosedForm:
    """All terms of a forest under independent features with given masses of bins: pure sums over leaves."""

    leaf_sets: LeafSets
    masses: tuple[Floats, ...]  # masses of the bins, feature by feature
    binnings: tuple[Binning, ...]  # how bins are merged for tensors, feature by feature

    @functools.cached_property
    def set_masses(self) -> tuple[Floats, ...]:
        """Masses p of the sets, per feature, for the leaves that have it on their path."""
        pairs = zip(self.leaf_sets.sets, self.masses, strict=True)
        exact = (sets.mass(masses) for sets, masses in pairs)
        # Sums are exact for any masses. Those below rounding are set to zero because products of many would underflow.
        return tuple(np.where(mass > costs.NO_MASS, mass, 0.0) for mass in exact)

    @memo
    def flat(self) -> FlatLeaves:  # the leaves' sets and masses, for compiled code
        return flatten(self.leaf_sets, self.set_masses)

    @memo
    def paths(self) -> LeafPaths:  # the same in the order of the trees
        return paths_in_tree_order(self.leaf_sets.forest, self.flat())

    @functools.cached_property
    def _mass_products(self) -> tuple[Floats, Ints]:
        """Product of the nonzero masses of each leaf, and its number of zero masses."""
        n_leaves = len(self.leaf_sets.values)
        product, n_zeros = np.ones(n_leaves), np.zeros(n_leaves, dtype=np.int64)
        for sets, masses in zip(self.leaf_sets.sets, self.set_masses, strict=True):
            product[sets.leaves] *= np.where(masses > 0, masses, 1.0)
            n_zeros[sets.leaves] += masses <= 0
        return product, n_zeros

    def coefficients(self, key: Key, leaves: Ints) -> Floats:
        """Return leaves' values times the masses of their sets for features not in a key: (n_leaves, n_outputs)."""
        # All leaves have the features of the key on their paths: the product of all masses is divided by theirs.
        product, n_zeros = self._mass_products[0][leaves], self._mass_products[1][leaves]
        for j in key:
            masses = self.set_masses[j][self.leaf_sets.set_indices(j, leaves)]
            product = product / np.where(masses > 0, masses, 1.0)
            n_zeros = n_zeros - (masses <= 0)
        return self.leaf_sets.values[leaves] * np.where(n_zeros == 0, product, 0.0)[:, None]

    def _coefficients_of_subsets(self, features: Key, leaves: Ints, keys: Sequence[Key]) -> dict[Key, Floats]:
        """Return `coefficients` of several keys at once, for leaves that all have the same features on their paths."""
        if not features:
            return {(): self.coefficients((), leaves)}
        masses = np.stack([self.set_masses[j][self.leaf_sets.set_indices(j, leaves)] for j in features])
        is_zero = masses <= 0
        inverses = 1 / np.where(is_zero, 1.0, masses)
        product, n_zeros = self._mass_products[0][leaves], self._mass_products[1][leaves]
        values = self.leaf_sets.values[leaves] * product[:, None]
        coefficients = {}
        for key in keys:
            places = [features.index(j) for j in key]
            factors = inverses[places].prod(axis=0)
            if n_zeros.any():
                factors[is_zero[places].sum(axis=0) < n_zeros] = 0.0
            coefficients[key] = values * factors[:, None]
        return coefficients

    def coefficients_without(self, features: Key, leaves: Ints) -> Floats:
        """Return leaves' values times the masses of their sets for all other features: (n_leaves, n_outputs)."""
        product, n_zeros = self._mass_products[0][leaves], self._mass_products[1][leaves]
        for j in features:
            having = np.flatnonzero(self.leaf_sets.has_feature(j, leaves))
            masses = self.set_masses[j][self.leaf_sets.set_indices(j, leaves[having])]
            product[having] /= np.where(masses > 0, masses, 1.0)
            n_zeros[having] -= masses <= 0
        return self.leaf_sets.values[leaves] * np.where(n_zeros == 0, product, 0.0)[:, None]

    @property
    def intercept(self) -> Floats:
        all_leaves = np.arange(len(self.leaf_sets.values))
        return np.asarray(self.leaf_sets.forest.intercept + self.coefficients((), all_leaves).sum(axis=0))

    def size(self, key: Key, leaves: Ints) -> float:
        """Return a bound on a term's standard deviation: the sum of its leaves' standard deviations."""
        spread = np.abs(self.coefficients(key, leaves)).max(axis=1)
        for j in key:
            masses = self.set_masses[j][self.leaf_sets.set_indices(j, leaves)]
            spread *= np.sqrt(np.clip(masses * (1 - masses), 0, None))
        return float(spread.sum())

    def tensor(self, key: Key) -> Floats:
        """Return a term over its (merged) bins; outputs last, but each output contiguous in memory."""
        # By outer products, dense memberships, corners (bins where memberships change) or sparse differences.
        if len(key) > 2:
            return self.outer(key, [self.binnings[j] for j in key], self._leaves_with(key))
        leaves, coefficients = self._leaves_and_coefficients(key)
        set_indices = [self.leaf_sets.set_indices(j, leaves) for j in key]
        if self._is_small(key, len(leaves)):
            first, *second = (self._dense_sets(j)[at] for j, at in zip(key, set_indices, strict=True))
            if not second:
                return np.asarray(first.T @ coefficients)
            return np.moveaxis(np.stack([(first * c[:, None]).T @ second[0] for c in coefficients.T]), 0, -1)
        pairs = zip(set_indices, (self._corners[j] for j in key), strict=True)
        corners = [of_feature.take(at) for at, of_feature in pairs if of_feature is not None]
        if len(corners) == len(key) == 2:
            return np.moveaxis(centred_products(corners[0], corners[1], coefficients), 0, -1)
        if len(corners) == len(key):
            [main] = corners
            sums = [main.weighted_sum(column) - column @ main.masses for column in coefficients.T]
        else:  # some feature has sets with too many corners
            masses = [self.set_masses[j][at] for j, at in zip(key, set_indices, strict=True)]
            differences = [self._share_differences(j)[at] for j, at in zip(key, set_indices, strict=True)]
            sums = [_sum_from_differences(differences, masses, column) for column in coefficients.T]
        return np.moveaxis(np.stack(sums), 0, -1)

    def _leaves_with(self, key: Key) -> Ints:
        """Return the leaves that have all features of a key on their paths."""
        if not key:
            return np.arange(len(self.leaf_sets.values))
        having = [self.leaf_sets.sets[j].leaves for j in key]
        leaves = min(having, key=len)
        for j, leaves_of_feature in zip(key, having, strict=True):
            if leaves_of_feature is not leaves:
                leaves = leaves[self.leaf_sets.has_feature(j, leaves)]
        return leaves

    def _is_small(self, key: Key, n_leaves: int) -> bool:
        """Whether a main effect or pair is computed faster with dense matrices of memberships than with sparse ones."""
        sizes = [self.binnings[j].size for j in key]
        n_entries = (len(self.leaf_sets.sets[j].leaves) * size for j, size in zip(key, sizes, strict=True))
        most_steps = costs.SMALL_PRODUCT if len(key) == 2 else costs.SMALL_SUM
        is_small = n_leaves * math.prod(sizes) <= most_steps and max(n_entries) <= costs.SMALL_MATRIX
        return is_small and self._fits_as_dense

    @functools.cached_property
    def _fits_as_dense(self) -> bool:  # whether dense matrices of all features' memberships fit into memory
        pairs = zip(self.leaf_sets.sets, self.binnings, strict=True)
        return sum(len(sets.leaves) * binning.size for sets, binning in pairs) <= costs.SMALL_MATRICES

    @memo
    def _dense_sets(self, feature: int) -> Floats:  # centred memberships, (n_leaves_with_feature, n_merged_bins)
        return self.centred(feature, self.binnings[feature], self.leaf_sets.sets[feature].leaves)

    @memo
    def _share_differences(self, feature: int) -> Any:
        return self.leaf_sets.sets[feature].share_differences(self.binnings[feature])

    @functools.cached_property
    def _corners(self) -> tuple[Corners | None, ...]:
        arguments = zip(self.leaf_sets.sets, self.binnings, self.set_masses, strict=True)
        return tuple(itertools.starmap(Corners.of_sets, arguments))

    def outer(self, key: Key, binnings: Sequence[Binning], leaves: Ints) -> Floats:
        """Return the part of some leaves in a term, as a tensor over the merged bins of `binnings`; outputs last."""
        total = np.zeros((*(binning.size for binning in binnings), self.leaf_sets.values.shape[1]))
        for start in range(0, len(leaves), costs.OUTER_LEAVES):
            block = leaves[start : start + costs.OUTER_LEAVES]
            factors = [self.centred(j, binning, block) for j, binning in zip(key, binnings, strict=True)]
            total += outer_sum(factors, self.coefficients(key, block))
        return total

    def centred(self, feature: int, binning: Binning, leaves: Ints) -> Floats:
        """Return memberships of merged bins in leaves' sets, minus the sets' masses: (n_leaves, n_merged_bins)."""
        indices = self.leaf_sets.set_indices(feature, leaves)
        return self.leaf_sets.sets[feature].merged_shares(binning, indices) - self.set_masses[feature][indices, None]

    def at_rows(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Return terms at rows, shape (n_rows, n_keys, n_outputs); what the latest keys need is remembered."""
        batches = list(self._batches(keys))
        if len(batches) > 1:  # one after another, and none is kept
            values = np.empty((len(codes), len(keys), self.leaf_sets.values.shape[1]))
            for batch in batches:
                values[:, batch] = self._sums(keys[batch]).at_rows(codes, len(keys[batch]), n_jobs)
            return values
        if tuple(keys) not in self._sums_by_keys:
            if len(self._sums_by_keys) == costs.REMEMBERED_SUMS:
                del self._sums_by_keys[next(iter(self._sums_by_keys))]
            self._sums_by_keys[tuple(keys)] = self._sums(keys)
        return self._sums_by_keys[tuple(keys)].at_rows(codes, len(keys), n_jobs)

    def _batches(self, keys: Sequence[Key]) -> Iterator[slice]:
        """Yield slices of keys whose coefficients fit into memory together."""
        start, n_coefficients, n_outputs = 0, 0, int(self.leaf_sets.values.shape[1])
        for place, key in enumerate(keys):
            n_of_key = self.leaf_sets.n_leaves_with(key) * n_outputs
            if place > start and n_coefficients + n_of_key > costs.MOST_COEFFICIENTS:
                yield slice(start, place)
                start, n_coefficients = place, 0
            n_coefficients += n_of_key
        yield slice(start, len(keys))

    def _sums(self, keys: Sequence[Key]) -> Sums:
        """Return what evaluates the terms of these keys at rows; compiled code needs no coefficients."""
        n_leaves = [self.leaf_sets.n_leaves_with(key) for key in keys]
        n_factors = sum(n * len(key) for n, key in zip(n_leaves, keys, strict=True))
        if costs.is_compiled_at_rows(factors=n_factors, products=sum(n_leaves)):
            columns = {key: position for position, key in enumerate(keys)}
            groups = [LeafGroup(np.empty(0, dtype=np.int64), {}, columns)]
            return Sums(self.leaf_sets, groups, self.set_masses, self.paths, needs_kernel=True)
        return Sums(self.leaf_sets, self._leaf_groups(keys), self.set_masses, self.paths)

    def forget_sums(self) -> None:  # frees their memory
        self._sums_by_keys.clear()

    @functools.cached_property
    def _sums_by_keys(self) -> dict[tuple[Key, ...], Sums]:
        """Sums for the latest keys, oldest first, filled by `at_rows`: rows are often explained one by one."""
        return {}

    def _leaf_groups(self, keys: Sequence[Key]) -> list[LeafGroup]:
        """Return leaves and coefficients of keys: a group per key, or per key of leaves if that takes fewer calls."""
        leaves_per_group = len(self.leaf_sets.values) / max(len(self.leaf_sets.keys), 1)
        n_calls = self.leaf_sets.n_groups_with(keys) * min(1.0, costs.SMALL_GROUP / max(leaves_per_group, 1.0))
        if len(keys) < costs.FEW_KEYS or n_calls > costs.MANY_GROUPS * len(keys):
            pairs = enumerate(map(self._leaves_and_coefficients, keys))
            return [LeafGroup(leaves, {keys[i]: coefficients}, {keys[i]: i}) for i, (leaves, coefficients) in pairs]
        columns = {key: position for position, key in enumerate(keys)}
        groups = []
        for features, leaves in zip(self.leaf_sets.keys, self.leaf_sets.leaves_by_key, strict=True):
            if len(columns) < 2 ** len(features):
                subsets = [key for key in columns if set(key) <= set(features)]
            else:
                sizes = range(len(features) + 1)
                all_subsets = itertools.chain.from_iterable(itertools.combinations(features, n) for n in sizes)
                subsets = [key for key in all_subsets if key in columns]
            if subsets:
                coefficients = self._coefficients_of_subsets(features, leaves, subsets)
                groups.append(LeafGroup(leaves, coefficients, {key: columns[key] for key in subsets}))
        return groups

    def _leaves_and_coefficients(self, key: Key) -> tuple[Ints, Floats]:
        """Return the leaves of a term and their coefficients; neighbours with equal sets become one leaf."""
        leaves = self._leaves_with(key)
        return self.leaf_sets.pool_equal_sets(key, leaves, self.coefficients(key, leaves))


def _sum_from_differences(differences: Sequence[Any], masses: Sequence[Floats], coefficients: Floats) -> Floats:
    """Return the table of a main effect, Σ over leaves of c (A - p), or of a pair, Σ c (A - p)ᵀ (B - q); one output."""
    # A, B are memberships of bins in the leaves' sets, given by sparse differences along the bins, (n_leaves, n_bins):
    # running sums of these are memberships. p, q are the masses of the sets, c the coefficients, (n_leaves,).
    if len(differences) == 1:
        return np.asarray(np.cumsum(differences[0].T @ coefficients) - coefficients @ masses[0])
    scaled = differences[0].multiply(coefficients[:, None]).tocsr()
    both: Floats = (scaled.T @ differences[1]).toarray()
    np.cumsum(both, axis=0, out=both)
    np.cumsum(both, axis=1, out=both)
    both -= np.cumsum(scaled.T @ masses[1])[:, None]
    both -= np.cumsum(differences[1].T @ (coefficients * masses[0]))
    both += (coefficients * masses[0] * masses[1]).sum()
    return both


def raw_at_rows(leaf_sets: LeafSets, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
    """Return raw terms at rows, each leaf in the term of all its features: shape (n_rows, n_keys, n_outputs)."""
    columns = {key: position for position, key in enumerate(keys)}
    pairs = [pair for pair in zip(leaf_sets.keys, leaf_sets.leaves_by_key, strict=True) if pair[0] in columns]
    groups = [LeafGroup(leaves, {key: leaf_sets.values[leaves]}, {key: columns[key]}) for key, leaves in pairs]
    return Sums(leaf_sets, groups).at_rows(codes, len(keys), n_jobs)


def totals_cost(leaf_sets: LeafSets) -> float:
    """Return products per row for the totals of all orders: Σ over leaves of (features on its path)² / 2."""
    pairs = zip(leaf_sets.keys, leaf_sets.n_leaves_by_key.tolist(), strict=True)
    return math.fsum(n_leaves * len(key) ** 2 / 2 for key, n_leaves in pairs)


def row_cost(leaf_sets: LeafSets) -> float:
    """Return products per row for all terms of all orders: Σ over leaves of 2^(features on its path)."""
    pairs = zip(leaf_sets.keys, leaf_sets.n_leaves_by_key.tolist(), strict=True)
    return math.fsum(n_leaves * 2.0 ** len(key) for key, n_leaves in pairs)
