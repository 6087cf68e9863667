"""Anchored terms at rows: the change that features make against reference rows, alone and together.

For one reference r, the term of features u at a row x is

    Σ_{s ⊆ u} (-1)^{|u| - |s|} F(x in s, r elsewhere),

which is zero if x and r agree in a feature of u; all terms add up to F(x) - F(r). For trees this is the closed form for
independent features with all mass on r, at any depth. For several references, terms are weighted means.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Collection, Iterator, Sequence

import numpy as np

from treeanova.anova.cascade import with_subsets
from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.core.progress import blocks
from treeanova.density.statistics import Points
from treeanova.model.grid import unmerged
from treeanova.terms.at_rows import OrderTotals, TotalShares
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.terms import TermSet, each_in_one_piece
from treeanova.terms.trees import Trees

_STAGE = "references"


class Anchored(abc.ABC):
    @property
    @abc.abstractmethod
    def keys(self) -> tuple[Key, ...] | None:
        """The model's terms; None if they are not listed one by one."""

    @abc.abstractmethod
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Terms at rows, shape (n_rows, n_keys, n_outputs)."""

    @abc.abstractmethod
    def totals_at(self, codes: BinIndices, orders: Sequence[int], n_jobs: int = 1) -> Floats:
        """Sums of all terms of some orders at rows, shape (n_rows, n_orders, n_outputs)."""

    @abc.abstractmethod
    def shares_at(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Terms of some orders, each shared equally by its features: shape (n_rows, n_features, n_outputs)."""


def distinct_points(codes: BinIndices) -> Points:
    """Return distinct rows; all given rows weigh the same."""
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    return Points(np.asfortranarray(distinct), counts / counts.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class AnchoredTrees(Anchored):
    trees: Trees
    references: Points

    @property
    def keys(self) -> None:
        return

    def _forms(self) -> Iterator[tuple[float, ClosedForm]]:
        sizes = self.trees.grid.sizes
        binnings = tuple(map(unmerged, sizes))
        pairs = zip(self.references.weights, self.references.codes, strict=True)
        for weight, row in blocks(_STAGE, pairs, len(self.references.weights)):
            masses = tuple((np.arange(size) == b).astype(np.float64) for size, b in zip(sizes, row, strict=True))
            yield float(weight), ClosedForm(self.trees.leaf_sets, masses, binnings)

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        values = np.zeros((len(codes), len(keys), self.trees.leaf_sets.values.shape[1]))
        for weight, form in self._forms():
            values += weight * form.at_rows(codes, keys, n_jobs)
        return values

    def totals_at(self, codes: BinIndices, orders: Sequence[int], n_jobs: int = 1) -> Floats:
        totals = np.zeros((len(codes), len(orders), self.trees.leaf_sets.values.shape[1]))
        for weight, form in self._forms():
            totals += weight * OrderTotals(form).at_rows(codes, n_jobs)[:, list(orders)]
        return totals

    def shares_at(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        shares = np.zeros((*codes.shape, self.trees.leaf_sets.values.shape[1]))
        for weight, form in self._forms():
            shares += weight * TotalShares(OrderTotals(form), orders).at_rows(codes, n_jobs)
        return shares


@dataclasses.dataclass(frozen=True, eq=False)
class AnchoredTerms(Anchored):
    """A sum of terms, each evaluated by the sum over subsets of its features."""

    terms: TermSet
    references: Points

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(sorted(with_subsets(self.terms.keys), key=lambda key: (len(key), key)))

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        place = {key: i for i, key in enumerate(keys)}
        values = each_in_one_piece(len(codes), len(keys), self.terms.n_outputs)
        pairs = zip(self.references.weights, self.references.codes, strict=True)
        for weight, row in blocks(_STAGE, pairs, len(self.references.weights)):
            for key in self.terms.keys:
                subsets = [subset for subset in _subsets(key) if subset in place]
                if subsets:
                    corners = self._corners(codes, row, key, max(map(len, subsets)), n_jobs)
                    for subset in subsets:
                        values[:, place[subset]] += weight * _difference(corners, subset)
        return values

    def _corners(self, codes: BinIndices, row: BinIndices, key: Key, max_order: int, n_jobs: int) -> dict[Key, Floats]:
        """Return a term at rows with some of its features from `codes` and all others from the reference."""
        corners = {}
        for subset in _subsets(key):
            if len(subset) <= max_order:
                mixed = np.repeat(row[None], len(codes), axis=0)
                mixed[:, list(subset)] = codes[:, list(subset)]
                corners[subset] = self.terms.at(mixed, [key], n_jobs)[:, 0]
        return corners

    def totals_at(self, codes: BinIndices, orders: Sequence[int], n_jobs: int = 1) -> Floats:
        totals = np.zeros((len(codes), len(orders), self.terms.n_outputs))
        for i, order in enumerate(orders):
            keys = [key for key in self.keys if len(key) == order]
            totals[:, i] = self.at(codes, keys, n_jobs).sum(axis=1)
        return totals

    def shares_at(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        shares = np.zeros((*codes.shape, self.terms.n_outputs))
        keys = [key for key in self.keys if len(key) in orders]
        values = self.at(codes, keys, n_jobs)
        for i, key in enumerate(keys):
            shares[:, list(key)] += values[:, [i]] / len(key)
        return shares


def _subsets(key: Key) -> Iterator[Key]:
    return itertools.chain.from_iterable(itertools.combinations(key, n) for n in range(len(key) + 1))


def _difference(corners: dict[Key, Floats], key: Key) -> Floats:
    signed = [(-1) ** (len(key) - len(subset)) * corners[subset] for subset in _subsets(key)]
    total: Floats = np.sum(signed, axis=0)
    return total
