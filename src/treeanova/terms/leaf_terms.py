"""Leaf terms: terms of high order as sums over leaves, evaluated at rows instead of held as tensors."""

from __future__ import annotations

import abc
import dataclasses
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Self

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.density.joint import Points
from treeanova.density.kinds import Density
from treeanova.model.grid import Grid
from treeanova.terms.closed_form import ClosedForm, raw_at_rows, totals_cost
from treeanova.terms.correction import Correction
from treeanova.terms.leftover import Allotment, Leftover, nothing_left
from treeanova.terms.order_totals import OrderTotals
from treeanova.terms.termset import Tensors, TermSet
from treeanova.terms.total_shares import TotalShares
from treeanova.terms.trees import Trees


@dataclasses.dataclass(frozen=True, eq=False)
class LeafTerms(abc.ABC):
    """Terms of high order of a forest, by positions of their features."""

    trees: Trees
    keys: tuple[Key, ...]

    @abc.abstractmethod
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        """Terms at rows given by all bins of the forest, shape (n_rows, n_keys, n_outputs)."""

    @abc.abstractmethod
    def can_evaluate(self, key: Key) -> bool:
        """Whether `at` knows a term, listed or not."""

    @abc.abstractmethod
    def equals(self, other: LeafTerms) -> bool:
        """Whether leaves and terms are another's."""

    def keep(self, wanted: Callable[[Key], bool]) -> Self:
        """The same with fewer terms, and without rests."""
        return dataclasses.replace(self, keys=tuple(key for key in self.keys if wanted(key)))

    @property
    def rest_orders(self) -> tuple[int, ...]:
        """Orders of which some terms are not listed, but added up to one rest."""
        return ()

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int) -> Floats:
        """Sums of the terms that are not listed, shape (n_rest_orders, n_rows, n_outputs)."""
        del listed, n_jobs
        return np.zeros((0, len(codes), self.trees.leaf_sets.values.shape[1]))

    def rest_shares_at(self, codes: BinIndices, n_jobs: int) -> Floats:
        """Shares of features in all terms that are not listed, shape (n_rows, n_features, n_outputs)."""
        del n_jobs
        return np.zeros((*codes.shape, self.trees.leaf_sets.values.shape[1]))

    @functools.cached_property
    def row_cost(self) -> float:
        """Products that all terms take for a row: those of the listed ones, or of all if these are fewer."""
        sets = self.trees.leaf_sets
        listed = sum(len(key) * float(sets.n_leaves_with(key)) for key in self.keys)
        rests = totals_cost(sets) if self.rest_orders else 0.0
        return max(min(listed, self.trees.row_cost) + rests, 1.0)

    def up_to(self, max_order: int) -> Self:
        """The same with all that is above an order left out."""
        return self.keep(lambda key: len(key) <= max_order)

    def _has_leaves_of(self, other: LeafTerms) -> bool:
        return self.keys == other.keys and np.array_equal(self.trees.leaf_sets.values, other.trees.leaf_sets.values)


@dataclasses.dataclass(frozen=True, eq=False)
class RawLeafTerms(LeafTerms):
    """Terms before purification: each leaf belongs to the term of the features on its path."""

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        """Sums of the leaves that the rows reach."""
        return raw_at_rows(self.trees.leaf_sets, codes, keys, n_jobs)

    def can_evaluate(self, key: Key) -> bool:
        """Whether some leaf has exactly these features."""
        return key in self.keys

    def equals(self, other: LeafTerms) -> bool:
        """Whether leaves and terms are another's."""
        return isinstance(other, RawLeafTerms) and self._has_leaves_of(other)


@dataclasses.dataclass(frozen=True, eq=False)
class PureLeafTerms(LeafTerms):
    """Pure terms: the closed form for independent features, plus a correction for dependence on coarse cells."""

    form: ClosedForm
    correction: Correction
    screened_orders: tuple[int, ...] = ()
    leftover: Leftover = dataclasses.field(default_factory=nothing_left)

    def keep(self, wanted: Callable[[Key], bool]) -> Self:
        """The same with fewer terms, and without rests."""
        kept = tuple(key for key in self.keys if wanted(key))
        return dataclasses.replace(self, keys=kept, screened_orders=())

    @property
    def rest_orders(self) -> tuple[int, ...]:
        """Orders of which screening left out terms."""
        return self.screened_orders

    def up_to(self, max_order: int) -> Self:
        """The same with all that is above an order left out."""
        kept = tuple(key for key in self.keys if len(key) <= max_order)
        orders = tuple(order for order in self.screened_orders if order <= max_order)
        return dataclasses.replace(self, keys=kept, screened_orders=orders)

    @property
    def gives_low_orders(self) -> bool:
        """Whether terms that are not listed, added up by order or in the remainder, give up what is of low order.

        Where all terms are listed by default, none does: tables are then the same whatever is listed.
        """
        return self.trees.layout.has_many_terms and (bool(self.screened_orders) or self.trees.layout.is_truncated)

    @functools.cached_property
    def _totals(self) -> OrderTotals:
        return OrderTotals(self.form)

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int) -> Floats:
        """Totals of the orders with all corrections, less what is moved to low orders, minus the terms listed."""
        orders = self.screened_orders
        rests = self._totals.at_rows(codes, n_jobs)[list(orders)]
        for key, values in self._changes_of_totals(codes, listed, n_jobs):
            rests[orders.index(len(key))] += values
        if self._allotment.order in orders:
            rests[orders.index(self._allotment.order)] -= self.leftover.at_rows(codes)
        return rests

    def rest_shares_at(self, codes: BinIndices, n_jobs: int) -> Floats:
        """Shares of features in all that `rests_at` adds up: every term is shared equally among its own features."""
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
        """What makes rests of totals at rows: all corrections, and the listed terms with a minus.

        `known` are values of listed terms at these rows.
        """
        for key in self.correction.tables:
            if len(key) in self.screened_orders:
                yield key, np.asarray(self.correction.at_rows(codes, key))
        listed = [key for key in self.keys if len(key) in self.screened_orders]
        unknown = [key for key in listed if key not in known]
        yield from ((key, -known[key]) for key in listed if key in known)
        yield from zip(unknown, -np.moveaxis(self.at(codes, unknown, n_jobs), 1, 0), strict=True)

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
        """Closed form and correction at rows, less what is moved to low orders."""
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
        """Whether terms of high order contain the features of a key, so that something can be moved to it."""
        return self._allotment.can_take(key)

    @functools.cached_property
    def _allotment(self) -> Allotment:
        return Allotment(self.form.leaf_sets, self.trees.layout.tensor_order + 1)

    def can_evaluate(self, key: Key) -> bool:
        """Whether some leaf has all these features on its path, and they are more than tensors have."""
        is_high = len(key) > self.trees.layout.tensor_order
        return is_high and bool(len(self.trees.leaf_sets.leaves_with(key)))

    def equals(self, other: LeafTerms) -> bool:
        """Whether leaves, terms and correction are another's."""
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
    """Terms of low order as tensors, terms of high order at rows."""

    tensors: Tensors
    leaf_terms: LeafTerms

    @property
    def grid(self) -> Grid:
        """The grid of all bins of the forest; tensors may have merged ones."""
        return self.leaf_terms.trees.grid

    @property
    def keys(self) -> tuple[Key, ...]:
        """Tensors, then terms at rows."""
        return (*self.tensors.keys, *self.leaf_terms.keys)

    @property
    def tables(self) -> Tensors:
        """The tensors."""
        return self.tensors

    @property
    def row_cost(self) -> float:
        """Products that the listed terms and the rests take for a row."""
        return self.leaf_terms.row_cost

    @property
    def leaves_rest(self) -> bool:
        """Whether tensors have merged bins."""
        return self.leaf_terms.trees.has_merged_bins

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Terms at rows."""
        values = np.empty((len(keys), len(codes), self.n_outputs))
        low = [i for i, key in enumerate(keys) if self.has_table(key)]
        high = [i for i, key in enumerate(keys) if not self.has_table(key)]
        if low:
            values[low] = self.tensors.at(self.leaf_terms.trees.merged(codes), [keys[i] for i in low])
        if high:
            values[high] = np.moveaxis(self.leaf_terms.at(codes, [keys[i] for i in high], n_jobs), 1, 0)
        return values

    def can_evaluate(self, key: Key) -> bool:
        """Whether the term is a tensor, or some leaf has its features."""
        return self.has_table(key) or self.leaf_terms.can_evaluate(key)

    def keep(self, wanted: Callable[[Key], bool]) -> Joined:
        """The same with fewer terms."""
        return Joined(self.tensors.keep(wanted), self.leaf_terms.keep(wanted))

    @property
    def rest_orders(self) -> tuple[int, ...]:
        """Orders of which some terms are not listed."""
        return self.leaf_terms.rest_orders

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int = 1) -> Floats:
        """Sums of the terms that are not listed."""
        return self.leaf_terms.rests_at(codes, listed, n_jobs)

    def rest_shares_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Shares of features in all terms that are not listed."""
        return self.leaf_terms.rest_shares_at(codes, n_jobs)

    def up_to(self, max_order: int) -> Joined:
        """The same with all that is above an order left out."""
        return Joined(self.tensors.up_to(max_order), self.leaf_terms.up_to(max_order))

    def with_weights(self, weights: Mapping[Key, Floats]) -> Joined:
        """The same with weights of the cells of tensors."""
        return Joined(self.tensors.with_weights(weights), self.leaf_terms)

    def equals(self, other: TermSet) -> bool:
        """Whether tensors and terms at rows are another's."""
        is_joined = isinstance(other, Joined) and self.leaf_terms.equals(other.leaf_terms)
        return is_joined and self.tensors.equals(other.tables)

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Rows, cells or draws of the density, on all bins of the forest."""
        return self.leaf_terms.trees.points(density, n_rows, rng)
