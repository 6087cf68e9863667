"""Term sets: the terms of a decomposition, as tensors or as sums over leaves at rows; totals per order, their shares.

A leaf with value v, sets of bins of mass p_j, and memberships z_j of a row has the function v Π_j z_j. For independent
features the coefficient of t^k in

    v Π_j (p_j + t (z_j - p_j))

is the sum of all its terms of order k. This costs d² per leaf and row for d features; the terms number 2^d.

Feature j gets from all terms of order k + 1 of a leaf

    v (z_j - p_j) q_k / (k + 1),

where q_k is the coefficient of t^k in Π_{i≠j} (p_i + t (z_i - p_i)). Dividing the full product by the factor of j is
not stable, so the product without j is that of the features before j times that of those after it. One of the two is a
polynomial, the other is applied as weights of its coefficients: Σ_k w_k q_k of a product with the factor p + t (z - p)
equals the sum of the product without it under the weights p w_k + (z - p) w_{k+1}. By numpy, all features of a leaf
together take about 3 d² products. Kernels share factors among leaves (`paths.py`): weights absorb the factors of sets
on the way down a tree, polynomials are added up on the way back, and few leaves have more than three factors of their
own.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any, Self

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.progress import blocks
from treeanova.core.threads import thread_map
from treeanova.density.base import Density, Points
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm, raw_at_rows, totals_cost
from treeanova.terms.correction import Allotment, Correction, Leftover
from treeanova.terms.kernels import Span, sum_at_rows, sum_polynomials, sum_shares
from treeanova.terms.layout import Trees
from treeanova.views import percent

Run = tuple[int, slice, Ints]  # a feature, some of the leaves of a block, and their positions in its sets
Block = tuple[Ints, list[list[Run]]]  # leaves with equally many features, and the runs of each slot of their paths


def each_in_one_piece(n_rows: int, n_terms: int, n_outputs: int) -> Floats:
    """Return zeros (n_rows, n_terms, n_outputs), each term contiguous: scattered terms are added up far slower."""
    return np.zeros((n_terms, n_rows, n_outputs)).swapaxes(0, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class OrderTotals:
    """Sums of all terms of each order of a forest at rows, for independent features, and features' shares of them."""

    form: ClosedForm

    @property
    def top_order(self) -> int:
        return max(map(len, self.form.leaf_sets.keys), default=0)

    def at_rows(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return sums of the terms of each order at rows: (n_rows, top_order + 1, n_outputs); order 0 is the mean."""
        sets = self.form.leaf_sets
        n_runs = sum(map(len, sets.keys)) / costs.TOTALS_ROWS
        is_compiled = costs.is_compiled_at_rows(totals=totals_cost(sets), runs=n_runs)
        totals = (self.at_rows_by_kernel if is_compiled else self.at_rows_by_numpy)(codes, n_jobs)
        totals[:, 0] += sets.forest.intercept
        return totals

    def at_rows_by_kernel(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return sums of the terms of each order, by compiled code: (n_rows, n_orders, n_outputs), no intercept."""
        values, paths, n_orders = self._values_in_tree_order, self.form.paths(), self.top_order + 1

        def totals_of(codes_of_rows: BinIndices, leaves: Span) -> Floats:  # (n_rows, n_orders, n_outputs)
            totals: Floats = sum_polynomials(codes_of_rows.T, leaves, n_orders, values, paths)
            return totals.transpose(2, 0, 1)

        totals = each_in_one_piece(len(codes), n_orders, values.shape[1])
        tasks = _tasks(len(codes), costs.KERNEL_ROWS, len(values), costs.LEAVES_OF_A_TASK)
        return _sum_in_threads(totals_of, tasks, codes, totals, n_jobs)

    def at_rows_by_numpy(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return sums of the terms of each order, by numpy: (n_rows, n_orders, n_outputs), no intercept."""
        n_orders, n_outputs = self.top_order + 1, self.form.leaf_sets.values.shape[1]

        def totals_of(codes_of_rows: BinIndices, block_numbers: Span) -> Floats:
            totals = each_in_one_piece(len(codes_of_rows), n_orders, n_outputs)
            for block in self._leaf_blocks[slice(*block_numbers)]:
                self._add_totals(totals, np.asfortranarray(codes_of_rows), block)
            return totals

        totals = each_in_one_piece(len(codes), n_orders, n_outputs)
        tasks = _tasks(len(codes), costs.TOTALS_ROWS, len(self._leaf_blocks), costs.BLOCKS_OF_A_TASK)
        return _sum_in_threads(totals_of, tasks, codes, totals, n_jobs)

    def shares_at_rows(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Share all terms of some orders equally among their features: shape (n_rows, n_features, n_outputs)."""
        if not self._order_weights(orders).any():
            return np.zeros((*codes.shape, self.form.leaf_sets.values.shape[1]))
        is_compiled = costs.is_compiled_at_rows(shares=totals_cost(self.form.leaf_sets))
        return (self.shares_by_kernel if is_compiled else self.shares_by_numpy)(codes, orders, n_jobs)

    def shares_by_kernel(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Return features' shares of the terms of some orders, by compiled code: (n_rows, n_features, n_outputs)."""
        values, paths, weights = self._values_in_tree_order, self.form.paths(), self._order_weights(orders)

        def shares_of(codes_of_rows: BinIndices, leaves: Span) -> Floats:  # (n_rows, n_features, n_outputs)
            shares: Floats = sum_shares(codes_of_rows.T, leaves, weights, values, paths)
            return shares.transpose(2, 0, 1)

        tasks = _tasks(len(codes), costs.KERNEL_ROWS, len(values), costs.LEAVES_OF_A_TASK)
        return _sum_in_threads(shares_of, tasks, codes, np.zeros((*codes.shape, values.shape[1])), n_jobs)

    def shares_by_numpy(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Return features' shares of the terms of some orders, by numpy: (n_rows, n_features, n_outputs)."""
        weights, n_outputs = self._order_weights(orders), self.form.leaf_sets.values.shape[1]
        blocks_with_orders = [block for block in self._leaf_blocks if len(block[1]) > np.flatnonzero(weights)[0]]

        def shares_of(codes_of_rows: BinIndices, block_numbers: Span) -> Floats:
            shares = np.zeros((*codes_of_rows.shape, n_outputs))
            for block in blocks_with_orders[slice(*block_numbers)]:
                self._add_shares(shares, np.asfortranarray(codes_of_rows), block, weights)
            return shares

        tasks = _tasks(len(codes), costs.SHARES_ROWS, len(blocks_with_orders), costs.BLOCKS_OF_A_TASK)
        return _sum_in_threads(shares_of, tasks, codes, np.zeros((*codes.shape, n_outputs)), n_jobs)

    @functools.cached_property
    def _values_in_tree_order(self) -> Floats:
        return self.form.leaf_sets.values[self.form.paths().leaves]

    def _order_weights(self, orders: Collection[int]) -> Floats:
        """Return the share that each feature gets of a term, per order from 1 up; 0 for orders that do not count."""
        return np.array([1 / order if order in orders else 0.0 for order in range(1, self.top_order + 1)])

    @functools.cached_property
    def _leaf_blocks(self) -> list[Block]:
        """Leaves in blocks that fit into the cache; those of a block have equally many features on their paths."""
        sets, leaf_blocks = self.form.leaf_sets, []
        size = max(1, costs.TOTALS_CELLS // costs.TOTALS_ROWS)
        order = sorted(range(len(sets.keys)), key=lambda i: (len(sets.keys[i]), sets.keys[i]))
        for n_features, key_numbers in itertools.groupby(order, key=lambda i: len(sets.keys[i])):
            numbers = list(key_numbers)
            leaves = np.concatenate([sets.leaves_by_key[i] for i in numbers])
            keys = np.array([sets.keys[i] for i in numbers], dtype=np.int64).reshape(len(numbers), n_features)
            paths = np.repeat(keys, [len(sets.leaves_by_key[i]) for i in numbers], axis=0)
            for start in range(0, len(leaves), size):
                chunk = slice(start, start + size)
                leaf_blocks.append((leaves[chunk], [self._runs(column, leaves[chunk]) for column in paths[chunk].T]))
        return leaf_blocks

    def _runs(self, features: Ints, leaves: Ints) -> list[Run]:
        """Return the runs of neighbouring leaves with the same feature in one slot of their paths (`features`)."""
        bounds = [0, *(np.flatnonzero(np.diff(features)) + 1).tolist(), len(features)]
        runs = [(int(features[start]), slice(start, stop)) for start, stop in itertools.pairwise(bounds)]
        return [(j, run, self.form.leaf_sets.set_indices(j, leaves[run])) for j, run in runs]

    def _add_totals(self, totals: Floats, codes: BinIndices, block: Block) -> None:
        """Add the sums of a block of leaves' terms of each order to `totals`, (n_rows, n_orders, n_outputs)."""
        # Per order k, that is the coefficient of t^k in Π_j (p_j + t (z_j - p_j)) times the leaves' values.
        leaves, slots = block
        product = np.zeros((len(slots) + 1, len(leaves), len(codes)))
        product[0] = 1.0
        for degree, (masses, centred) in enumerate(self._factors(codes, block), start=1):
            higher = centred * product[:degree]
            product[:degree] *= masses
            product[1 : degree + 1] += higher
        sums = sum_at_rows(product.transpose(1, 0, 2).reshape(len(leaves), -1), self.form.leaf_sets.values[leaves])
        totals[:, : len(product)] += sums.reshape(len(product), len(codes), -1).swapaxes(0, 1)

    def _add_shares(self, total: Floats, codes: BinIndices, block: Block, order_weights: Floats) -> None:
        """Add what features get of the terms of a block of leaves to `total`, (n_rows, n_features, n_outputs)."""
        leaves, slots = block  # the module's docstring derives it; arrays are (n_powers, n_leaves, n_rows)
        factors = list(self._factors(codes, block))
        products = [np.ones((1, len(leaves), len(codes)))]
        for masses, centred in factors[:-1]:
            products.append(np.concatenate([masses * products[-1], np.zeros((1, *centred.shape))]))
            products[-1][1:] += centred * products[-2]
        weights = np.broadcast_to(order_weights[: len(factors), None, None], (len(factors), *products[0].shape[1:]))
        values = self.form.leaf_sets.values[leaves]
        for runs, (masses, centred), product in zip(slots[::-1], factors[::-1], products[::-1], strict=True):
            share = centred * np.einsum("kln,kln->ln", weights, product)
            for j, run, _ in runs:
                total[:, j] += share[run].T @ values[run]
            weights = masses * weights[:-1] + centred * weights[1:]

    def _factors(self, codes: BinIndices, block: Block) -> Iterator[tuple[Floats, Floats]]:
        """Yield, per slot of the leaves' paths, the sets' masses p (n_leaves, 1) and z - p (n_leaves, n_rows)."""
        leaves, slots = block  # z is the membership, 0 or 1, of a row in the set
        for runs in slots:
            masses, centred = np.empty((len(leaves), 1)), np.empty((len(leaves), len(codes)))
            for j, run, places in runs:
                masses[run, 0] = self.form.set_masses[j][places]
                np.subtract(self.form.leaf_sets.sets[j].contain(places, codes[:, j]), masses[run], out=centred[run])
            yield masses, centred


def _tasks(n_rows: int, rows_at_once: int, n_leaves: int, leaves_at_once: int) -> list[tuple[slice, Span]]:
    """Return all pairs of a block of rows and a span of leaves (or of blocks of leaves): tasks for threads."""
    rows = [slice(start, start + rows_at_once) for start in range(0, n_rows, rows_at_once)]
    spans = itertools.pairwise([*range(0, n_leaves, leaves_at_once), n_leaves])
    return list(itertools.product(rows, spans))


def _sum_in_threads(
    compute: Callable[[BinIndices, Span], Floats],
    tasks: Sequence[tuple[slice, Span]],
    codes: BinIndices,
    total: Floats,
    n_jobs: int,
) -> Floats:
    """Add the results of all tasks to the rows of a total; the order is fixed, so that digits are too."""
    with thread_map(n_jobs) as run:
        results = run(lambda task: compute(codes[task[0]], task[1]), tasks)
        results = blocks("totals of orders at rows", results, len(tasks))
        for (rows, _), result in zip(tasks, results, strict=True):
            total[rows] += result
    return total


@dataclasses.dataclass(frozen=True, eq=False)
class LeafTerms(abc.ABC):
    """Terms without tables, evaluated at rows as sums over leaves."""

    trees: Trees
    keys: tuple[Key, ...]  # of the listed terms

    @abc.abstractmethod
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        """Return terms at rows given by all bins of the forest, shape (n_rows, n_keys, n_outputs)."""

    @abc.abstractmethod
    def can_evaluate(self, key: Key) -> bool:
        """Whether `at` can evaluate a term, listed or not."""

    def equals(self, other: LeafTerms) -> bool:
        have_same_keys = type(self) is type(other) and self.keys == other.keys
        return have_same_keys and np.array_equal(self.trees.leaf_sets.values, other.trees.leaf_sets.values)

    def keep(self, is_kept: Callable[[Key], bool]) -> Self:
        """Return the listed terms that a function of keys accepts, without the sums of unlisted terms."""
        return dataclasses.replace(self, keys=tuple(key for key in self.keys if is_kept(key)))

    @property
    def unlisted_orders(self) -> tuple[int, ...]:
        """Orders with terms that are not listed, but added up."""
        return ()

    @functools.cached_property
    def row_cost(self) -> float:
        """Products per row: those of the listed terms, or of all terms if fewer."""
        sets = self.trees.leaf_sets
        cost_of_listed = sum(len(key) * float(sets.n_leaves_with(key)) for key in self.keys)
        cost_of_totals = totals_cost(sets) if self.unlisted_orders else 0.0
        return max(min(cost_of_listed, self.trees.row_cost) + cost_of_totals, 1.0)

    def up_to(self, max_order: int) -> Self:  # the listed terms up to an order
        return self.keep(lambda key: len(key) <= max_order)


@dataclasses.dataclass(frozen=True, eq=False)
class RawLeafTerms(LeafTerms):
    """Terms before purification: each leaf is in the term of all its features."""

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        return raw_at_rows(self.trees.leaf_sets, codes, keys, n_jobs)

    def can_evaluate(self, key: Key) -> bool:
        return key in self.keys


@dataclasses.dataclass(frozen=True, eq=False)
class PureLeafTerms(LeafTerms):
    """The closed form for independent features, plus a correction for dependence on coarse cells."""

    form: ClosedForm
    correction: Correction
    screened_orders: tuple[int, ...] = ()  # orders with terms that are not listed
    leftover: Leftover = dataclasses.field(default_factory=Leftover)  # what unlisted terms pass on to tables

    def keep(self, is_kept: Callable[[Key], bool]) -> Self:
        return dataclasses.replace(super().keep(is_kept), screened_orders=())

    @property
    def unlisted_orders(self) -> tuple[int, ...]:
        return self.screened_orders

    def up_to(self, max_order: int) -> Self:  # the terms up to an order, with their sums of unlisted ones
        orders = tuple(order for order in self.screened_orders if order <= max_order)
        return dataclasses.replace(super().up_to(max_order), screened_orders=orders)

    @property
    def passes_on_low_orders(self) -> bool:
        """Whether unlisted terms pass low orders on to tables; if all terms are listed by default, none do."""
        return self.trees.layout.has_many_terms and (bool(self.screened_orders) or self.trees.layout.is_truncated)

    @functools.cached_property
    def _totals(self) -> OrderTotals:
        return OrderTotals(self.form)

    def unlisted_sums_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int) -> Floats:
        """Return sums of unlisted terms at rows, one per unlisted order: (n_rows, n_orders, n_outputs)."""
        orders = self.screened_orders  # `listed` has values (n_rows, n_outputs) of listed terms that are known already
        unlisted_sums = self._totals.at_rows(codes, n_jobs)[:, list(orders)]
        for key, values in self._changes_of_totals(codes, listed, n_jobs):
            unlisted_sums[:, orders.index(len(key))] += values
        if self._allotment.order in orders:
            unlisted_sums[:, orders.index(self._allotment.order)] -= self.leftover.at_rows(codes)
        return unlisted_sums

    def unlisted_shares_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int) -> Floats:
        """Return what each feature gets of all unlisted terms, shape (n_rows, n_features, n_outputs)."""
        shares = self._totals.shares_at_rows(codes, self.screened_orders, n_jobs)
        for key, values in self._changes_of_totals(codes, listed, n_jobs):
            shares[:, list(key)] += (values / len(key))[:, None]
        if self._allotment.order in self.screened_orders:
            for key in self.leftover.tables:
                moved = np.expand_dims(self.leftover.at(key, codes), -2)
                shares -= self._allotment.feature_shares(key)[:, None] * moved
        return shares

    def _changes_of_totals(
        self, codes: BinIndices, computed: Mapping[Key, Floats], n_jobs: int
    ) -> Iterator[tuple[Key, Floats]]:
        """Yield, at rows, all corrections, and the listed terms negated: with totals, the sums of unlisted terms."""
        for key in self.correction.tables:
            if len(key) in self.screened_orders:
                yield key, np.asarray(self.correction.at_rows(codes, key))
        listed = [key for key in self.keys if len(key) in self.screened_orders]
        to_compute = [key for key in listed if key not in computed]
        yield from ((key, -computed[key]) for key in listed if key in computed)
        values = self.at(codes, to_compute, n_jobs)
        yield from ((key, -values[:, i]) for i, key in enumerate(to_compute))

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:  # (n_rows, n_keys, n_outputs)
        values = self.form.at_rows(codes, keys, n_jobs)
        moved: dict[Key, Floats] = {}
        for position, key in enumerate(keys):
            values[:, position] += self.correction.at_rows(codes, key)
            for below, share in self._allotment.shares_of_tables(key, self.leftover.tables):
                if below not in moved:
                    moved[below] = self.leftover.at(below, codes)
                values[:, position] -= share * moved[below]
        return values

    def can_pass_on(self, key: Key) -> bool:
        """Whether some term of the lowest order without tables contains a key, and so can give a part to its table."""
        return self._allotment.n_pairs(key) > 0

    @functools.cached_property
    def _allotment(self) -> Allotment:
        return Allotment(self.form.leaf_sets, self.trees.layout.tensor_order + 1)

    def can_evaluate(self, key: Key) -> bool:  # whether `at` can evaluate a term, listed or not
        is_high = len(key) > self.trees.layout.tensor_order
        return is_high and bool(len(self.trees.leaf_sets.leaves_with(key)))

    def equals(self, other: LeafTerms) -> bool:
        """Whether other terms have the same trees, corrections and leftovers."""
        if not isinstance(other, PureLeafTerms):
            return False
        pairs = ((self.correction.tables, other.correction.tables), (self.leftover.tables, other.leftover.tables))
        return (
            super().equals(other)
            and self.screened_orders == other.screened_orders
            and all(ours.keys() == theirs.keys() for ours, theirs in pairs)
            and all(np.array_equal(ours[key], theirs[key]) for ours, theirs in pairs for key in ours)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class TermSet:
    """An intercept and terms, as tables or sums over leaves; all can be evaluated at rows given by bins on `grid`."""

    effects: Effects  # intercept and tables
    weights: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)  # of the cells of some tables, of sum 1
    leaf_terms: LeafTerms | None = None  # the terms without tables

    @property
    def grid(self) -> Grid:
        return self.effects.grid if self.leaf_terms is None else self.leaf_terms.trees.grid

    @property
    def keys(self) -> tuple[Key, ...]:
        """All terms by positions of their features: those with tables first."""
        return (*self.effects.terms, *self.keys_at_rows)

    @property
    def keys_at_rows(self) -> tuple[Key, ...]:
        return () if self.leaf_terms is None else self.leaf_terms.keys

    @property
    def intercept(self) -> Floats:
        return self.effects.intercept

    @property
    def n_outputs(self) -> int:
        return self.effects.n_outputs

    @property
    def row_cost(self) -> float:
        """Products per row for all terms."""
        return float(len(self.effects.terms)) if self.leaf_terms is None else self.leaf_terms.row_cost

    @property
    def leaves_rest(self) -> bool:
        """Whether merged bins leave a part of the model outside the terms."""
        return self.leaf_terms is not None and self.leaf_terms.trees.has_merged_bins

    def has_table(self, key: Key) -> bool:
        return key in self.effects.terms

    def can_evaluate(self, key: Key) -> bool:
        """Whether `at` can evaluate a term, listed or not."""
        return self.has_table(key) or (self.leaf_terms is not None and self.leaf_terms.can_evaluate(key))

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Return terms at rows given by their bins, shape (n_rows, n_keys, n_outputs)."""
        values = each_in_one_piece(len(codes), len(keys), self.n_outputs)
        tables = [i for i, key in enumerate(keys) if self.leaf_terms is None or self.has_table(key)]
        without_table = sorted(set(range(len(keys))).difference(tables))
        merged = codes if self.leaf_terms is None or not tables else self.leaf_terms.trees.merged(codes)
        columns = np.asfortranarray(merged)
        for i in blocks("tables at rows", tables, len(tables)) if tables else ():
            values[:, i] = self.effects.at(keys[i], columns)
        if self.leaf_terms is not None and without_table:
            values[:, without_table] = self.leaf_terms.at(codes, [keys[i] for i in without_table], n_jobs)
        return values

    def sum_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return intercept plus all listed terms at rows, shape (n_rows, n_outputs)."""
        if self.leaf_terms is None:
            return self.effects.score(Rows.in_bins(self.grid, codes))
        return np.asarray(self.intercept + self.at(codes, self.keys, n_jobs).sum(axis=1))

    @property
    def unlisted_orders(self) -> tuple[int, ...]:
        return () if self.leaf_terms is None else self.leaf_terms.unlisted_orders

    def unlisted_sums_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int = 1) -> Floats:
        """Return sums of unlisted terms at rows, one per unlisted order; `listed` has values that are known already."""
        if isinstance(self.leaf_terms, PureLeafTerms) and self.unlisted_orders:
            return self.leaf_terms.unlisted_sums_at(codes, listed, n_jobs)
        return np.zeros((len(codes), 0, self.n_outputs))

    def unlisted_shares_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int = 1) -> Floats:
        """Return what features get of all unlisted terms, (n_rows, n_features, n_outputs), given known listed terms."""
        if isinstance(self.leaf_terms, PureLeafTerms) and self.unlisted_orders:
            return self.leaf_terms.unlisted_shares_at(codes, listed, n_jobs)
        return np.zeros((*codes.shape, self.n_outputs))

    def keep(self, is_kept: Callable[[Key], bool]) -> TermSet:  # the intercept and some of the listed terms
        leaf_terms = None if self.leaf_terms is None else self.leaf_terms.keep(is_kept)
        return TermSet(self.effects.keep(is_kept), self.weights, leaf_terms)

    def up_to(self, max_order: int) -> TermSet:
        leaf_terms = None if self.leaf_terms is None else self.leaf_terms.up_to(max_order)
        return TermSet(self.effects.keep(lambda key: len(key) <= max_order), self.weights, leaf_terms)

    def equals(self, other: TermSet) -> bool:
        """Whether other terms have the same bins, tables and trees, digit by digit."""
        ours, theirs = self.effects, other.effects
        if self.leaf_terms is None or other.leaf_terms is None:
            has_same_leaves = self.leaf_terms is other.leaf_terms
        else:
            has_same_leaves = self.leaf_terms.equals(other.leaf_terms)
        return (
            has_same_leaves
            and ours.grid.has_bins_of(theirs.grid)
            and ours.terms.keys() == theirs.terms.keys()
            and np.array_equal(ours.intercept, theirs.intercept)
            and all(np.array_equal(ours.terms[key], theirs.terms[key]) for key in ours.terms)
            and all(
                a.equals(b)
                for key in ours.terms
                for a, b in zip(ours.binnings_of(key), theirs.binnings_of(key), strict=True)
            )
        )

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Return bins on `grid` and weights of rows, at most `n_rows` if drawn, that represent a density."""
        if self.leaf_terms is None:
            return density.points(n_rows, rng)
        return self.leaf_terms.trees.points(density, n_rows, rng)


@dataclasses.dataclass(frozen=True)
class Edit:
    """One change of a decomposition by hand, and how far it moved the scores; an entry of `Decomposition.history`.

    Attributes
    ----------
    words
        What was done, such as "age made increasing".
    action
        Name of the method that did it.
    terms
        Labels of the terms that were edited.
    arguments
        Arguments of the method, as numbers and text.
    note
        A note of the user.
    moved
        Labels of other terms that changed because the sum was purified again; "intercept" may be among them.
    breaks
        Words of earlier edits, of `monotone` and `merge`, whose statement about the score this edit made untrue.
    rms, largest
        Root mean square and largest size of the change of the score under the density; tuples if there are several
        outputs, None if not measured.
    share
        Share of the density's mass where the score changes.
    n_rows
        Number of rows of the density at which these three were estimated; None if they are exact: those of a table.

    Examples
    --------
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> edit = fx.scale("x0", 0.5, note="as agreed").history[0]
    >>> print(edit)
    x0 times 0.5 (as agreed): scores move by 0.125 (root mean square), at most 0.125, in 100 % of the mass
    """

    words: str
    action: str = ""
    terms: tuple[str, ...] = ()
    arguments: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    note: str = ""
    moved: tuple[str, ...] = ()
    breaks: tuple[str, ...] = ()
    # what follows from all of this, once it is measured
    rms: float | tuple[float, ...] | None = dataclasses.field(default=None, compare=False)
    largest: float | tuple[float, ...] | None = dataclasses.field(default=None, compare=False)
    share: float | None = dataclasses.field(default=None, compare=False)
    n_rows: int | None = dataclasses.field(default=None, compare=False)

    def __post_init__(self) -> None:
        numbers = [number for numbers in (self.rms, self.largest, self.share, self.n_rows) for number in _each(numbers)]
        if any(not number >= 0 for number in numbers):
            raise ValueError(f"measures of an edit must not be negative, got {numbers}")

    @property
    def is_selection(self) -> bool:
        """Whether terms were left out, and no term was changed."""
        return self.action in {"drop", "select"}

    def __str__(self) -> str:
        note = f" ({self.note})" if self.note else ""
        repurified = f"; purified again, which moved {', '.join(self.moved)}" if self.moved else ""
        untrue = f"; no longer true: {'; '.join(self.breaks)}" if self.breaks else ""
        return f"{self.words}{note}{self._movement_text()}{repurified}{untrue}"

    def _movement_text(self) -> str:
        """Return how far the scores moved, in words; empty if it was not measured."""
        if self.rms is None or self.largest is None or self.share is None:
            return ""
        rms, largest = (
            " / ".join(f"{number:.3g}" for number in _each(numbers)) for numbers in (self.rms, self.largest)
        )
        rows = "" if self.n_rows is None else f", by {self.n_rows:,} rows of the density"
        share = percent(self.share).replace("\u00a0", " ")
        where = f"in {share} of the mass{rows}"
        return f": scores move by {rms} (root mean square), at most {largest}, {where}"


def _each(numbers: Any) -> tuple[float, ...]:
    """Return the number of each output, given as a tuple or as a single number."""
    return () if numbers is None else numbers if isinstance(numbers, tuple) else (numbers,)


@dataclasses.dataclass(frozen=True)
class Scope:
    """How much of a model the terms hold; by default all of it."""

    # highest order of the terms if all others form one exact remainder
    order: int | None = None
    # number of the model's terms, including a remainder, if the terms are a selection or edited, not the same function
    n_terms: int | None = None
    edits: tuple[Edit | str, ...] = ()  # what was done to the terms by hand, the first edit first; words in old files

    def __post_init__(self) -> None:
        edits = tuple(edit if isinstance(edit, Edit) else Edit(edit) for edit in self.edits)
        object.__setattr__(self, "edits", edits)
        if self.edits and not self.is_part:
            raise ValueError(f"a scope with edits must have a number of terms, got {self!r}")

    @property
    def is_part(self) -> bool:
        """Whether the terms, with any remainder, add up to another function than the model."""
        return self.n_terms is not None

    @property
    def history(self) -> tuple[Edit, ...]:
        return tuple(edit for edit in self.edits if isinstance(edit, Edit))

    @property
    def words(self) -> tuple[str, ...]:
        """The edits in words; none if terms were left out only."""
        is_selection = all(edit.is_selection for edit in self.history)
        return () if is_selection else tuple(edit.words for edit in self.history)

    def __str__(self) -> str:
        words = "terms" if self.order is not None else "all terms"
        if self.is_part:
            words = f"a selection from {self.n_terms} terms"
        if self.words:
            words = f"edited terms ({', '.join(self.words)})"
        return words if self.order is None else f"{words} up to order {self.order}, and a remainder"
