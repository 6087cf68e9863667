"""Leaf terms: terms of high order as sums over leaves, evaluated at rows; totals per order and their shares.

A leaf with value v, sets of bins of mass p_j, and memberships z_j of a row has the function v Π_j z_j. For independent
features the coefficient of t^k in

    v Π_j (p_j + t (z_j - p_j))

is the sum of all its terms of order k. This costs d² per leaf and row for d features; the terms number 2^d.

Feature j gets from all terms of order k + 1 of a leaf

    v (z_j - p_j) q_k / (k + 1),

where q_k is the coefficient of t^k in Π_{i≠j} (p_i + t (z_i - p_i)). Dividing the full product by the factor of j is
not stable, so the product without j is that of the features before j times that of those after it. Products before j
are polynomials, kept for every j. Those after j are applied in reverse as weights of coefficients: Σ_k w_k q_k of a
product with the factor p + t (z - p) equals the sum of the product without it under the weights p w_k + (z - p)
w_{k+1}. All features of a leaf together take about 3 d² products.
"""

from __future__ import annotations

import abc
import dataclasses
import functools
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Self

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.compiled import is_worthwhile_at_rows
from treeanova.core.progress import blocks
from treeanova.density.base import Points
from treeanova.density.kinds import Density
from treeanova.model.grid import Grid
from treeanova.terms import costs
from treeanova.terms.closed_form import ClosedForm, raw_at_rows, totals_cost
from treeanova.terms.correction import Allotment, Correction, Leftover, nothing_left
from treeanova.terms.kernels import sum_at_rows, sum_polynomials, sum_shares
from treeanova.terms.terms import Tensors, TermSet, each_in_one_piece
from treeanova.terms.trees import Trees

_STAGE = "totals of orders at rows"

Span = tuple[int, int]


@dataclasses.dataclass(frozen=True, eq=False)
class Block:
    """Leaves with equally many features; `runs` has per slot (feature, slice of the leaves, positions in its sets)."""

    leaves: Ints
    runs: list[list[tuple[int, slice, Ints]]]


def spans(n_parts: int, size: int) -> list[Span]:
    return list(itertools.pairwise([*range(0, n_parts, size), n_parts]))


@dataclasses.dataclass(frozen=True, eq=False)
class OrderTotals:
    form: ClosedForm

    @property
    def top_order(self) -> int:
        return max(map(len, self.form.leaf_sets.keys), default=0)

    @functools.cached_property
    def blocks(self) -> list[Block]:
        return list(self._make_blocks())

    def _make_blocks(self) -> Iterator[Block]:
        sets = self.form.leaf_sets
        size = max(1, costs.TOTALS_CELLS // costs.TOTALS_ROWS)
        order = sorted(range(len(sets.keys)), key=lambda i: (len(sets.keys[i]), sets.keys[i]))
        for n_features, numbers in itertools.groupby(order, key=lambda i: len(sets.keys[i])):
            groups = list(numbers)
            leaves = np.concatenate([sets.members[i] for i in groups])
            keys = np.array([sets.keys[i] for i in groups], dtype=np.int64).reshape(len(groups), n_features)
            paths = np.repeat(keys, [len(sets.members[i]) for i in groups], axis=0)
            for start in range(0, len(leaves), size):
                chunk = slice(start, start + size)
                yield Block(leaves[chunk], [self._runs(column, leaves[chunk]) for column in paths[chunk].T])

    def _runs(self, features: Ints, leaves: Ints) -> list[tuple[int, slice, Ints]]:
        ends = np.flatnonzero(np.diff(features)) + 1
        bounds = [0, *ends.tolist(), len(features)]
        runs = []
        for start, stop in itertools.pairwise(bounds):
            j = int(features[start])
            runs.append((j, slice(start, stop), self.form.leaf_sets.positions(j, leaves[start:stop])))
        return runs

    def at_rows(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Totals at rows given by their bins, shape (n_rows, n_orders + 1, n_outputs); order 0 is the mean."""
        per_row = totals_cost(self.form.leaf_sets) * costs.SECONDS_PER_TOTAL
        per_row += sum(map(len, self.form.leaf_sets.keys)) * costs.SECONDS_PER_RUN / costs.TOTALS_ROWS
        totals = (self.at_rows_by_kernel if is_worthwhile_at_rows(per_row) else self.at_rows_by_numpy)(codes, n_jobs)
        totals[:, 0] += self.form.leaf_sets.intercept
        return totals

    def at_rows_by_kernel(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return totals without the intercept, shape as `at_rows`."""
        values, n_orders = self.form.leaf_sets.values, self.top_order + 1
        totals = each_in_one_piece(len(codes), n_orders, values.shape[1])
        row_slices = [slice(start, start + costs.KERNEL_ROWS) for start in range(0, len(codes), costs.KERNEL_ROWS)]
        flat = self.form.flat()

        def fill(task: tuple[slice, Span]) -> tuple[slice, Floats]:
            rows, leaves = task
            return rows, sum_polynomials(codes[rows].T, leaves, n_orders, values, flat)

        tasks = list(itertools.product(row_slices, spans(len(values), costs.LEAVES_OF_A_TASK)))
        with ThreadPoolExecutor(n_jobs) as pool:
            for rows, total in blocks(_STAGE, pool.map(fill, tasks), len(tasks)):
                totals[rows] += total.transpose(2, 0, 1)
        return totals

    def at_rows_by_numpy(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        values = self.form.leaf_sets.values
        totals = each_in_one_piece(len(codes), self.top_order + 1, values.shape[1])
        row_slices = [slice(start, start + costs.TOTALS_ROWS) for start in range(0, len(codes), costs.TOTALS_ROWS)]

        def fill(task: tuple[slice, Span]) -> tuple[slice, Floats]:
            rows, numbers = task
            total = each_in_one_piece(len(range(len(codes))[rows]), self.top_order + 1, values.shape[1])
            for block in self.blocks[slice(*numbers)]:
                self._add(total, np.asfortranarray(codes[rows]), block)
            return rows, total

        tasks = list(itertools.product(row_slices, spans(len(self.blocks), costs.BLOCKS_OF_A_TASK)))
        with ThreadPoolExecutor(n_jobs) as pool:
            for rows, total in blocks(_STAGE, pool.map(fill, tasks), len(tasks)):
                totals[rows] += total
        return totals

    def _add(self, totals: Floats, codes: BinIndices, block: Block) -> None:
        polynomials = self._polynomials(codes, block)
        n_leaves, n_rows = polynomials.shape[1:]
        values = self.form.leaf_sets.values[block.leaves]
        sums = sum_at_rows(polynomials.transpose(1, 0, 2).reshape(n_leaves, -1), values)
        totals[:, : len(polynomials)] += sums.reshape(len(polynomials), n_rows, -1).swapaxes(0, 1)

    def _polynomials(self, codes: BinIndices, block: Block) -> Floats:
        """Coefficients of Π_j (p_j + t (z_j - p_j)), shape (n_features + 1, n_leaves, n_rows)."""
        shape = len(block.leaves), len(codes)
        product = np.zeros((len(block.runs) + 1, *shape))
        product[0] = 1.0
        for degree, (masses, centred) in enumerate(self.factors(codes, block), start=1):
            higher = centred * product[:degree]
            product[:degree] *= masses
            product[1 : degree + 1] += higher
        return product

    def factors(self, codes: BinIndices, block: Block) -> Iterator[tuple[Floats, Floats]]:
        """Yield, per slot of the paths, masses p (n_leaves, 1) and z - p (n_leaves, n_rows)."""
        for runs in block.runs:
            masses, centred = np.empty((len(block.leaves), 1)), np.empty((len(block.leaves), len(codes)))
            for j, leaves, places in runs:
                masses[leaves, 0] = self.form.set_masses[j][places]
                np.subtract(
                    self.form.leaf_sets.sets[j].contain(places, codes[:, j]), masses[leaves], out=centred[leaves]
                )
            yield masses, centred


@dataclasses.dataclass(frozen=True, eq=False)
class TotalShares:
    totals: OrderTotals  # totals of all orders
    orders: Collection[int]  # the orders whose terms are shared

    @property
    def _form(self) -> ClosedForm:
        return self.totals.form

    @property
    def _weights(self) -> Floats:
        """The share that a feature gets of a term, for orders from 1 up."""
        orders = range(1, self.totals.top_order + 1)
        return np.array([1 / order if order in self.orders else 0.0 for order in orders])

    def at_rows(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        if not self._weights.any():
            return np.zeros((*codes.shape, self._form.leaf_sets.values.shape[1]))
        by_kernel = is_worthwhile_at_rows(totals_cost(self._form.leaf_sets) * costs.SECONDS_PER_SHARE)
        return (self.at_rows_by_kernel if by_kernel else self.at_rows_by_numpy)(codes, n_jobs)

    def at_rows_by_kernel(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        values, flat, weights = self._form.leaf_sets.values, self._form.flat(), self._weights

        def shares(part: BinIndices, leaves: Span) -> Floats:
            by_feature: Floats = sum_shares(part.T, leaves, weights, values, flat)
            return by_feature.transpose(2, 0, 1)

        return self._in_threads(shares, codes, spans(len(values), costs.LEAVES_OF_A_TASK), n_jobs)

    def at_rows_by_numpy(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        weights, n_outputs = self._weights, self._form.leaf_sets.values.shape[1]
        lowest = np.flatnonzero(weights)[0]
        blocks = [block for block in self.totals.blocks if len(block.runs) > lowest]

        def shares(part: BinIndices, span: Span) -> Floats:
            total = np.zeros((*part.shape, n_outputs))
            for block in blocks[slice(*span)]:
                self._add(total, np.asfortranarray(part), block, weights)
            return total

        return self._in_threads(shares, codes, spans(len(blocks), costs.BLOCKS_OF_A_TASK), n_jobs)

    def _in_threads(
        self, shares: Callable[[BinIndices, Span], Floats], codes: BinIndices, leaves: Sequence[Span], n_jobs: int
    ) -> Floats:
        """Sum shares over spans of leaves (or of their blocks), each span a task for a thread."""
        total = np.zeros((*codes.shape, self._form.leaf_sets.values.shape[1]))
        rows = [slice(start, start + costs.SHARES_ROWS) for start in range(0, len(codes), costs.SHARES_ROWS)]
        tasks = list(itertools.product(rows, leaves))
        with ThreadPoolExecutor(n_jobs) as pool:
            results = pool.map(lambda task: shares(codes[task[0]], task[1]), tasks)
            for (task_rows, _), result in zip(tasks, results, strict=True):
                total[task_rows] += result
        return total

    def _add(self, total: Floats, codes: BinIndices, block: Block, order_weights: Floats) -> None:
        factors = list(self.totals.factors(codes, block))
        products = [np.ones((1, len(block.leaves), len(codes)))]
        for masses, centred in factors[:-1]:
            products.append(np.concatenate([masses * products[-1], np.zeros((1, *centred.shape))]))
            products[-1][1:] += centred * products[-2]
        weights = np.broadcast_to(order_weights[: len(factors), None, None], (len(factors), *products[0].shape[1:]))
        values = self._form.leaf_sets.values[block.leaves]
        for runs, (masses, centred), product in zip(block.runs[::-1], factors[::-1], products[::-1], strict=True):
            share = centred * np.einsum("kln,kln->ln", weights, product)
            for j, leaves, _ in runs:
                total[:, j] += share[leaves].T @ values[leaves]
            weights = masses * weights[:-1] + centred * weights[1:]


@dataclasses.dataclass(frozen=True, eq=False)
class LeafTerms(abc.ABC):
    trees: Trees
    keys: tuple[Key, ...]

    @abc.abstractmethod
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        """Terms at rows given by all bins of the forest, shape (n_rows, n_keys, n_outputs)."""

    @abc.abstractmethod
    def can_evaluate(self, key: Key) -> bool:
        """Whether `at` can evaluate a term, listed or not."""

    @abc.abstractmethod
    def equals(self, other: LeafTerms) -> bool:
        """Whether leaves and terms equal another's."""

    def keep(self, wanted: Callable[[Key], bool]) -> Self:
        """Return the wanted terms, without the sums of unlisted ones."""
        return dataclasses.replace(self, keys=tuple(key for key in self.keys if wanted(key)))

    @property
    def rest_orders(self) -> tuple[int, ...]:
        return ()

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int) -> Floats:
        del listed, n_jobs
        return np.zeros((len(codes), 0, self.trees.leaf_sets.values.shape[1]))

    def rest_shares_at(self, codes: BinIndices, n_jobs: int) -> Floats:
        del n_jobs
        return np.zeros((*codes.shape, self.trees.leaf_sets.values.shape[1]))

    @functools.cached_property
    def row_cost(self) -> float:
        """Products per row: those of the listed terms, or of all terms if fewer."""
        sets = self.trees.leaf_sets
        listed = sum(len(key) * float(sets.n_leaves_with(key)) for key in self.keys)
        cost_of_totals = totals_cost(sets) if self.rest_orders else 0.0
        return max(min(listed, self.trees.row_cost) + cost_of_totals, 1.0)

    def up_to(self, max_order: int) -> Self:
        return self.keep(lambda key: len(key) <= max_order)

    def _has_leaves_of(self, other: LeafTerms) -> bool:
        return self.keys == other.keys and np.array_equal(self.trees.leaf_sets.values, other.trees.leaf_sets.values)


@dataclasses.dataclass(frozen=True, eq=False)
class RawLeafTerms(LeafTerms):
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        return raw_at_rows(self.trees.leaf_sets, codes, keys, n_jobs)

    def can_evaluate(self, key: Key) -> bool:
        return key in self.keys

    def equals(self, other: LeafTerms) -> bool:
        return isinstance(other, RawLeafTerms) and self._has_leaves_of(other)


@dataclasses.dataclass(frozen=True, eq=False)
class PureLeafTerms(LeafTerms):
    """The closed form for independent features, plus a correction for dependence on coarse cells."""

    form: ClosedForm
    correction: Correction
    screened_orders: tuple[int, ...] = ()
    leftover: Leftover = dataclasses.field(default_factory=nothing_left)

    def keep(self, wanted: Callable[[Key], bool]) -> Self:
        selected_keys = tuple(key for key in self.keys if wanted(key))
        return dataclasses.replace(self, keys=selected_keys, screened_orders=())

    @property
    def rest_orders(self) -> tuple[int, ...]:
        return self.screened_orders

    def up_to(self, max_order: int) -> Self:
        selected_keys = tuple(key for key in self.keys if len(key) <= max_order)
        orders = tuple(order for order in self.screened_orders if order <= max_order)
        return dataclasses.replace(self, keys=selected_keys, screened_orders=orders)

    @property
    def gives_low_orders(self) -> bool:
        """Whether unlisted terms pass low orders on to tables; if all terms are listed by default, none do."""
        return self.trees.layout.has_many_terms and (bool(self.screened_orders) or self.trees.layout.is_truncated)

    @functools.cached_property
    def _totals(self) -> OrderTotals:
        return OrderTotals(self.form)

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int) -> Floats:
        orders = self.screened_orders
        unlisted_sums = self._totals.at_rows(codes, n_jobs)[:, list(orders)]
        for key, values in self._changes_of_totals(codes, listed, n_jobs):
            unlisted_sums[:, orders.index(len(key))] += values
        if self._allotment.order in orders:
            unlisted_sums[:, orders.index(self._allotment.order)] -= self.leftover.at_rows(codes)
        return unlisted_sums

    def rest_shares_at(self, codes: BinIndices, n_jobs: int) -> Floats:
        if not self.screened_orders:
            return super().rest_shares_at(codes, n_jobs)
        shares = TotalShares(self._totals, self.screened_orders).at_rows(codes, n_jobs)
        for key, values in self._changes_of_totals(codes, {}, n_jobs):
            shares[:, list(key)] += (values / len(key))[:, None]
        if self._allotment.order in self.screened_orders:
            for key, values in self.leftover.terms_at_rows(codes):
                shares -= self._allotment.feature_shares(key)[:, None] * np.expand_dims(values, -2)
        return shares

    def _changes_of_totals(
        self, codes: BinIndices, known: Mapping[Key, Floats], n_jobs: int
    ) -> Iterator[tuple[Key, Floats]]:
        """Yield all corrections, and the listed terms negated: totals plus these are the sums of unlisted terms."""
        for key in self.correction.tables:
            if len(key) in self.screened_orders:
                yield key, np.asarray(self.correction.at_rows(codes, key))
        listed = [key for key in self.keys if len(key) in self.screened_orders]
        unknown = [key for key in listed if key not in known]
        yield from ((key, -known[key]) for key in listed if key in known)
        values = self.at(codes, unknown, n_jobs)
        yield from ((key, -values[:, i]) for i, key in enumerate(unknown))

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        values = self.form.at_rows(codes, keys, n_jobs)
        moved: dict[Key, Floats] = {}
        for position, key in enumerate(keys):
            values[:, position] += self.correction.at_rows(codes, key)
            for below, share in self._allotment.given_up(key, self.leftover.tables):
                if below not in moved:
                    moved[below] = self.leftover.at(below, codes)
                values[:, position] -= share * moved[below]
        return values

    def can_give_up(self, key: Key) -> bool:
        return self._allotment.can_take(key)

    @functools.cached_property
    def _allotment(self) -> Allotment:
        return Allotment(self.form.leaf_sets, self.trees.layout.tensor_order + 1)

    def can_evaluate(self, key: Key) -> bool:
        is_high = len(key) > self.trees.layout.tensor_order
        return is_high and bool(len(self.trees.leaf_sets.leaves_with(key)))

    def equals(self, other: LeafTerms) -> bool:
        if not isinstance(other, PureLeafTerms):
            return False
        pairs = (
            (self.correction.tables, other.correction.tables),
            (self.leftover.tables, other.leftover.tables),
        )
        return (
            self._has_leaves_of(other)
            and self.screened_orders == other.screened_orders
            and all(ours.keys() == theirs.keys() for ours, theirs in pairs)
            and all(np.array_equal(ours[key], theirs[key]) for ours, theirs in pairs for key in ours)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Joined(TermSet):
    tensors: Tensors
    high: LeafTerms

    @property
    def leaf_terms(self) -> LeafTerms:
        return self.high

    @property
    def grid(self) -> Grid:
        return self.leaf_terms.trees.grid

    @property
    def keys(self) -> tuple[Key, ...]:
        return (*self.tensors.keys, *self.leaf_terms.keys)

    @property
    def tables(self) -> Tensors:
        return self.tensors

    @property
    def row_cost(self) -> float:
        return self.leaf_terms.row_cost

    @property
    def leaves_rest(self) -> bool:
        return self.leaf_terms.trees.has_merged_bins

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        values = each_in_one_piece(len(codes), len(keys), self.n_outputs)
        low = [i for i, key in enumerate(keys) if self.has_table(key)]
        high = [i for i, key in enumerate(keys) if not self.has_table(key)]
        if low:
            values[:, low] = self.tensors.at(self.leaf_terms.trees.merged(codes), [keys[i] for i in low])
        if high:
            values[:, high] = self.leaf_terms.at(codes, [keys[i] for i in high], n_jobs)
        return values

    def can_evaluate(self, key: Key) -> bool:
        return self.has_table(key) or self.leaf_terms.can_evaluate(key)

    def keep(self, wanted: Callable[[Key], bool]) -> Joined:
        return Joined(self.tensors.keep(wanted), self.leaf_terms.keep(wanted))

    @property
    def rest_orders(self) -> tuple[int, ...]:
        return self.leaf_terms.rest_orders

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int = 1) -> Floats:
        return self.leaf_terms.rests_at(codes, listed, n_jobs)

    def rest_shares_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        return self.leaf_terms.rest_shares_at(codes, n_jobs)

    def up_to(self, max_order: int) -> Joined:
        return Joined(self.tensors.up_to(max_order), self.leaf_terms.up_to(max_order))

    def with_tables(self, tables: Tensors) -> Joined:
        return Joined(tables, self.high)

    def equals(self, other: TermSet) -> bool:
        is_joined = isinstance(other, Joined) and self.leaf_terms.equals(other.leaf_terms)
        return is_joined and self.tensors.equals(other.tables)

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        return self.leaf_terms.trees.points(density, n_rows, rng)
