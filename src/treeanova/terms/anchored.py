"""Anchored terms: changes that features make against reference rows, alone and together.

For one reference r, the term of features u at a row x is

    Σ_{s ⊆ u} (-1)^{|u| - |s|} F(x in s, r elsewhere),

which is zero if x and r agree in a feature of u; all terms add up to F(x) - F(r). For several references, terms are
weighted means.

For trees, let z be the **pattern** of a row in a leaf: the features whose set of bins has the row's bin; r that of a
reference. A leaf with value v and features F adds v Π_{j in F, not in u} r_j Π_{j in u} (z_j - r_j) to the term of u:
±v if r is all of F without what u and z share, else 0. So references enter by the weights of their patterns in each
leaf, and a term asks for the weight of a single pattern. The sum of all terms of order k is the coefficient of t^k in
v t^b (1 - t)^c, if z and r have all of F together; b features are in z only, c in r only.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

import numpy as np

from treeanova.anova.cascade import with_subsets
from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.progress import blocks
from treeanova.density.base import Points
from treeanova.model.grid import unmerged
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.layout import Trees
from treeanova.terms.leaves import LeafSets
from treeanova.terms.terms import OrderTotals, TermSet, each_in_one_piece


def distinct_points(codes: BinIndices) -> Points:
    """Return distinct rows, each weighted by the share of rows equal to it."""
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    return Points(np.asfortranarray(distinct), counts / counts.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class _LeafPatterns:
    """Distinct patterns of the rows and of the references in some leaves, ascending by leaf, then by pattern.

    A pattern has a bit per feature on the path to the leaf, in the order of the features.
    """

    sets: LeafSets
    leaves: slice
    bits: Ints  # of each feature in each leaf, (n_features, n_leaves); -1 if it is not on the path
    n_bits: int  # of the longest path
    full: Ints  # the pattern with all features, by leaf
    reference_codes: Ints  # leaf and pattern in one number
    reference_weights: Floats
    row_codes: Ints
    places: Ints  # of the pattern of each row in each leaf among `row_codes`, (n_leaves, n_rows)

    @classmethod
    def of(cls, sets: LeafSets, leaves: slice, rows: BinIndices, references: Points) -> _LeafPatterns:
        """Return the patterns of rows and references in some leaves."""
        n_features = sets.n_features_of_leaves[leaves]
        n_bits = int(n_features.max(initial=0))
        bits = _bits(sets, leaves)
        codes, places = np.unique(_patterns(sets, leaves, bits, n_bits, rows), return_inverse=True)
        of_references = _patterns(sets, leaves, bits, n_bits, references.codes)
        reference_codes, numbers = np.unique(of_references, return_inverse=True)
        weights = np.broadcast_to(references.weights, of_references.shape).ravel()
        pooled = np.bincount(numbers.ravel(), weights, len(reference_codes)).astype(np.float64)
        full = (np.int64(1) << n_features) - 1
        places = places.reshape(len(full), len(rows))
        return cls(sets, leaves, bits, n_bits, full, reference_codes, pooled, codes, places)

    def split(self, codes: Ints) -> tuple[Ints, Ints]:
        """Return leaves, counted from the first, and patterns, from numbers of both."""
        return codes >> self.n_bits, codes & ((1 << self.n_bits) - 1)

    def weights_of(self, codes: Ints) -> Floats:
        """Return the weight of the references with each of some patterns, given with their leaves."""
        places = np.minimum(np.searchsorted(self.reference_codes, codes), len(self.reference_codes) - 1)
        return np.where(self.reference_codes[places] == codes, self.reference_weights[places], 0.0)

    def sums(self, values: Floats, leaves: Ints) -> Floats:
        """Sum values of the patterns of rows over some leaves, times the leaves' values: (n_rows, ..., n_outputs)."""
        of_leaves = self.sets.values[self.leaves][leaves]
        total = np.zeros((self.places.shape[1], *values.shape[1:], of_leaves.shape[1]))
        for at_row, places in zip(total, self.places[leaves].T, strict=True):
            at_row[:] = values[places].T @ of_leaves
        return total

    def at_key(self, key: Key) -> Floats:
        """Return the sum over the leaves of a term at the rows, (n_rows, n_outputs)."""
        bits = self.bits[list(key)]
        leaves = np.flatnonzero((bits >= 0).all(axis=0))
        key_pattern = np.zeros(len(self.full), dtype=np.int64)  # the features of the key, by leaf
        key_pattern[leaves] = np.left_shift(1, bits[:, leaves]).sum(axis=0)
        of_rows, patterns = self.split(self.row_codes)
        asked = np.flatnonzero(key_pattern[of_rows])
        leaves_asked = of_rows[asked]
        outside = key_pattern[leaves_asked] & ~patterns[asked]  # in the key, not in the row's pattern
        reference_pattern = (self.full[leaves_asked] & ~key_pattern[leaves_asked]) | outside
        values = np.zeros(len(of_rows))
        signs = 1.0 - 2.0 * (_n_bits(outside, self.n_bits) % 2)
        values[asked] = signs * self.weights_of((leaves_asked << self.n_bits) | reference_pattern)
        return self.sums(values, leaves)

    def matches(self) -> Iterator[tuple[Ints, Ints, Floats, Ints, Ints]]:
        """Yield pairs of patterns, of a row and of references, that have all features of their leaf together.

        Each item has, for many pairs, the place of the row's pattern, the features in it only, the weight of the
        references, and the numbers b and c of features in the row's and in the references' pattern only.
        """
        of_rows, patterns = self.split(self.row_codes)
        of_references, reference_patterns = self.split(self.reference_codes)
        starts = np.searchsorted(of_references, np.arange(len(self.full) + 1))
        n_references = np.diff(starts)[of_rows]  # patterns of references in the leaf of each row's pattern
        ends = np.cumsum(n_references)
        first = 0
        while first < len(of_rows):
            done = ends[first - 1] if first else 0
            last = max(first + 1, int(np.searchsorted(ends, done + costs.PATTERN_PAIRS, side="right")))
            counts = n_references[first:last]
            of_row = np.repeat(np.arange(first, last), counts)  # of each pair, the place of the row's pattern
            within = np.arange(len(of_row)) - np.repeat(ends[first:last] - counts - done, counts)
            of_reference = starts[of_rows[of_row]] + within
            is_match = (patterns[of_row] | reference_patterns[of_reference]) == self.full[of_rows[of_row]]
            of_row, of_reference = of_row[is_match], of_reference[is_match]
            full = self.full[of_rows[of_row]]
            only_row, only_reference = full & ~reference_patterns[of_reference], full & ~patterns[of_row]
            b, c = _n_bits(only_row, self.n_bits), _n_bits(only_reference, self.n_bits)
            yield of_row, only_row, self.reference_weights[of_reference], b, c
            first = last

    def totals(self, orders: Sequence[int]) -> Floats:
        """Return sums of all terms of some orders at the rows, (n_rows, n_orders, n_outputs)."""
        by_order = _signed_binomials(max(self.n_bits, *orders, 0))[:, :, list(orders)]
        values = np.zeros((len(self.row_codes), len(orders)))
        for places, _, weights, b, c in self.matches():
            for i, of_order in enumerate(np.moveaxis(by_order, -1, 0)):
                values[:, i] += np.bincount(places, weights * of_order[b, c], len(values))
        return self.sums(values, np.arange(len(self.full)))

    def shares(self, order_weights: Floats) -> Floats:
        """Share terms equally among their features: (n_rows, n_features, n_outputs); weights are by order, from 0."""
        of_changed, of_others = _share_weights(self.n_bits, order_weights)
        values = np.zeros((self.n_bits, len(self.row_codes)))  # by bit and pattern of rows
        for places, only_row, weights, b, c in self.matches():
            full = self.full[self.split(self.row_codes)[0][places]]
            only_reference = full & ~self.split(self.row_codes)[1][places]
            for bit, of_bit in enumerate(values):
                by_pair = np.where(only_row >> bit & 1, of_changed[b, c], 0.0)
                by_pair += np.where(only_reference >> bit & 1, of_others[b, c], 0.0)
                of_bit += np.bincount(places, weights * by_pair, len(of_bit))
        shares = np.zeros((self.places.shape[1], len(self.sets.sets), self.sets.values.shape[1]))
        for j, bits in enumerate(self.bits):
            leaves = np.flatnonzero(bits >= 0)
            of_leaves = self.sets.values[self.leaves][leaves]
            for at_row, places in zip(shares[:, j], self.places[leaves].T, strict=True):
                at_row += values[bits[leaves], places] @ of_leaves
        return shares


def _bits(sets: LeafSets, leaves: slice) -> Ints:
    """Return the bit of each feature in the patterns of some leaves: (n_features, n_leaves); -1 if it is not there."""
    is_there = np.zeros((len(sets.sets), leaves.stop - leaves.start), dtype=bool)
    for on_path, bin_sets in zip(is_there, sets.sets, strict=True):
        first, end = np.searchsorted(bin_sets.leaves, [leaves.start, leaves.stop])
        on_path[bin_sets.leaves[first:end] - leaves.start] = True
    return np.where(is_there, np.cumsum(is_there, axis=0) - 1, -1)


def _patterns(sets: LeafSets, leaves: slice, bits: Ints, n_bits: int, codes: BinIndices) -> Ints:
    """Return leaves, counted from the first, and the patterns of rows in them as one number: (n_leaves, n_rows)."""
    patterns = np.zeros((leaves.stop - leaves.start, len(codes)), dtype=np.int64)
    patterns += (np.arange(len(patterns)) << n_bits)[:, None]
    for j, bin_sets in enumerate(sets.sets):
        first, end = np.searchsorted(bin_sets.leaves, [leaves.start, leaves.stop])
        if end > first:
            places = bin_sets.leaves[first:end] - leaves.start
            contains = bin_sets.contain(np.arange(first, end), codes[:, j]).astype(np.int64)
            contains <<= bits[j, places, None]
            patterns[places] += contains
    return patterns


def _n_bits(patterns: Ints, n_bits: int) -> Ints:
    """Count the features in each pattern, of at most `n_bits` bits."""
    counts = np.zeros(patterns.shape, dtype=np.int64)
    for bit in range(n_bits):
        counts += patterns >> bit & 1
    return counts


@functools.cache
def _signed_binomials(n: int) -> Floats:
    """Return coefficients of t^k in t^b (1 - t)^c, for b + c <= n: shape (n + 1, n + 1, n + 1)."""
    table = np.zeros((n + 1, n + 1, n + 1))
    for b, c in itertools.product(range(n + 1), repeat=2):
        for m in range(min(c, n - b) + 1):
            table[b, c, b + m] = (-1) ** m * math.comb(c, m)
    return table


def _share_weights(n: int, order_weights: Floats) -> tuple[Floats, Floats]:
    """Return, by b and c, what each feature in the row's pattern only gets, and each in the reference's only."""
    weights = np.zeros(n + 1)
    weights[: min(len(order_weights), n + 1)] = order_weights[: n + 1]
    of_changed, of_others = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1))
    for b, c in itertools.product(range(n + 1), repeat=2):
        if b + c <= n:
            of_changed[b, c] = math.fsum((-1) ** m * math.comb(c, m) * weights[b + m] for m in range(c + 1))
            terms = ((-1) ** m * math.comb(c - 1, m - 1) * weights[b + m] for m in range(1, c + 1))
            of_others[b, c] = math.fsum(terms)
    return of_changed, of_others


@dataclasses.dataclass(frozen=True, eq=False)
class AnchoredTrees:
    """Changes that features of a forest make, alone and together, against reference rows."""

    trees: Trees
    references: Points

    def components(self, keys: Iterable[Key], orders: Collection[int]) -> tuple[list[Key], tuple[int, ...]]:
        """Return the terms to list, some of them given, and the orders whose other terms are added up: all terms."""
        # Terms before purification are those of trees, which lack many of their own subsets.
        sets, tensor_order = self.trees.leaf_sets, self.trees.layout.tensor_order
        listed = sorted({*keys, *sets.subsets(range(1, tensor_order + 1))}, key=lambda key: (len(key), key))
        counts = Counter(map(len, listed))
        high = range(tensor_order + 1, max(map(len, sets.keys), default=0) + 1)
        lacking = {order for order in high if order not in orders and sets.has_more_subsets(order, counts[order])}
        return listed, tuple(sorted(lacking.union(orders)))

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Return terms at rows, shape (n_rows, n_keys, n_outputs)."""
        if self._is_one_by_one:
            return self._mean_over_references(lambda form: form.at_rows(codes, keys, n_jobs))

        def of_block(patterns: _LeafPatterns) -> Floats:
            values = each_in_one_piece(len(patterns.places.T), len(keys), patterns.sets.values.shape[1])
            for i, key in enumerate(keys):
                values[:, i] = patterns.at_key(key)
            return values

        return self._sum_over_leaves(codes, of_block, (len(keys),))

    def totals_at(self, codes: BinIndices, orders: Sequence[int], n_jobs: int = 1) -> Floats:
        """Return sums of all terms of some orders at rows, shape (n_rows, n_orders, n_outputs)."""
        if self._is_one_by_one:
            return self._mean_over_references(lambda form: OrderTotals(form).at_rows(codes, n_jobs)[:, list(orders)])
        return self._sum_over_leaves(codes, lambda patterns: patterns.totals(orders), (len(orders),))

    def shares_at(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Share each term of some orders equally among its features: shape (n_rows, n_features, n_outputs)."""
        if self._is_one_by_one:
            return self._mean_over_references(lambda form: OrderTotals(form).shares_at_rows(codes, orders, n_jobs))
        weights = np.array([1 / k if k in orders else 0.0 for k in range(max(orders, default=0) + 1)])
        return self._sum_over_leaves(codes, lambda patterns: patterns.shares(weights), (codes.shape[1],))

    @property
    def _is_one_by_one(self) -> bool:
        """Whether references are taken in turn: few of them, or paths with more features than patterns have bits."""
        longest = max(map(len, self.trees.leaf_sets.keys), default=0)
        return len(self.references.weights) < costs.POOLED_REFERENCES or longest > costs.PATTERN_BITS

    def _mean_over_references(self, evaluate: Callable[[ClosedForm], Floats]) -> Floats:
        """Return the weighted mean of a quantity; each reference has a closed form with all mass on its bins."""
        total: Floats = np.zeros(())
        sizes = self.trees.grid.sizes
        binnings = tuple(map(unmerged, sizes))
        pairs = zip(self.references.weights, self.references.codes, strict=True)
        for weight, row in blocks("references", pairs, len(self.references.weights)):
            masses = tuple((np.arange(size) == bin_).astype(np.float64) for size, bin_ in zip(sizes, row, strict=True))
            total = total + weight * evaluate(ClosedForm(self.trees.leaf_sets, masses, binnings))
        return total

    def _sum_over_leaves(
        self, codes: BinIndices, compute: Callable[[_LeafPatterns], Floats], shape: tuple[int, ...]
    ) -> Floats:
        """Return sums over blocks of leaves, for some rows at a time: (n_rows, *shape, n_outputs)."""
        sets = self.trees.leaf_sets
        total = np.zeros((len(codes), *shape, sets.values.shape[1]))
        n_points = max(len(self.references.weights), costs.PATTERN_ROWS)
        n_leaves, step = len(sets.values), max(1, costs.PATTERN_CELLS // n_points)
        starts = range(0, n_leaves, step)
        for start in blocks("references", starts, len(starts)):
            leaves = slice(start, min(start + step, n_leaves))
            for first in range(0, len(codes), costs.PATTERN_ROWS):
                rows = slice(first, first + costs.PATTERN_ROWS)
                total[rows] += compute(_LeafPatterns.of(sets, leaves, codes[rows], self.references))
        return total


@dataclasses.dataclass(frozen=True, eq=False)
class AnchoredTerms:
    """Changes that features of a sum of terms make against reference rows: signed sums over subsets of features."""

    terms: TermSet
    references: Points

    def components(self, keys: Iterable[Key], orders: Collection[int]) -> tuple[list[Key], tuple[int, ...]]:
        """Return all terms, to be listed; those given are among them."""
        del keys, orders
        return list(self.keys), ()

    @property
    def keys(self) -> tuple[Key, ...]:
        """The terms by order: the keys of all terms and their subsets."""
        return tuple(sorted(with_subsets(self.terms.keys), key=lambda key: (len(key), key)))

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Return terms at rows, shape (n_rows, n_keys, n_outputs)."""
        place = {key: i for i, key in enumerate(keys)}
        values = each_in_one_piece(len(codes), len(keys), self.terms.n_outputs)
        pairs = zip(self.references.weights, self.references.codes, strict=True)
        for weight, row in blocks("references", pairs, len(self.references.weights)):
            for key in self.terms.keys:
                subsets = [subset for subset in _subsets(key) if subset in place]
                if subsets:
                    mixed = self._at_mixed_rows(codes, row, key, max(map(len, subsets)), n_jobs)
                    for subset in subsets:
                        values[:, place[subset]] += weight * _joint_change(mixed, subset)
        return values

    def _at_mixed_rows(
        self, codes: BinIndices, reference: BinIndices, key: Key, max_order: int, n_jobs: int
    ) -> dict[Key, Floats]:
        """Return, per subset of a term's key, the term with these features from `codes`, others from the reference."""
        by_subset = {}
        for subset in _subsets(key):
            if len(subset) <= max_order:
                mixed = np.repeat(reference[None], len(codes), axis=0)
                mixed[:, list(subset)] = codes[:, list(subset)]
                by_subset[subset] = self.terms.at(mixed, [key], n_jobs)[:, 0]
        return by_subset

    def totals_at(self, codes: BinIndices, orders: Sequence[int], n_jobs: int = 1) -> Floats:
        """Return sums of all terms of some orders at rows, shape (n_rows, n_orders, n_outputs)."""
        totals = np.zeros((len(codes), len(orders), self.terms.n_outputs))
        for i, order in enumerate(orders):
            keys = [key for key in self.keys if len(key) == order]
            totals[:, i] = self.at(codes, keys, n_jobs).sum(axis=1)
        return totals

    def shares_at(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Share each term of some orders equally among its features: shape (n_rows, n_features, n_outputs)."""
        shares = np.zeros((*codes.shape, self.terms.n_outputs))
        keys = [key for key in self.keys if len(key) in orders]
        values = self.at(codes, keys, n_jobs)
        for i, key in enumerate(keys):
            shares[:, list(key)] += values[:, [i]] / len(key)
        return shares


def _subsets(key: Key) -> Iterator[Key]:  # of all orders, from () to the key itself
    return itertools.chain.from_iterable(itertools.combinations(key, n) for n in range(len(key) + 1))


def _joint_change(by_subset: dict[Key, Floats], key: Key) -> Floats:
    """Return what the features of a key change together, from values at rows where only a subset of them changed."""
    # The sum over all subsets, with a sign that alternates by order (inclusion and exclusion).
    signed = [(-1) ** (len(key) - len(subset)) * by_subset[subset] for subset in _subsets(key)]
    return np.asarray(np.sum(signed, axis=0))


Anchored = AnchoredTrees | AnchoredTerms
