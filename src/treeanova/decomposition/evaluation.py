"""Evaluation: score, terms and remainder of a model at rows."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.model.grid import Grid
from treeanova.terms.scope import Scope
from treeanova.terms.source import Source
from treeanova.terms.termset import TermSet


@dataclasses.dataclass(frozen=True, eq=False)
class Evaluation:
    """A model and its terms at rows, given by their encoded values or by their bins on `grid`."""

    source: Source
    terms: TermSet
    scope: Scope
    n_jobs: int = 1

    @property
    def grid(self) -> Grid:
        """The grid of all bins of the model."""
        return self.terms.grid

    @property
    def has_remainder(self) -> bool:
        """Whether the model is more than the sum of its terms."""
        return self.scope.leaves_rest or (not self.scope.is_part and self.terms.leaves_rest)

    def score(self, encoded: Floats) -> Floats:
        """Score of encoded rows, shape (n_rows, n_outputs)."""
        return self.source.score(encoded, self.n_jobs)

    def at(self, codes: BinIndices, keys: Sequence[Key]) -> Floats:
        """Terms at rows given by their bins, shape (n_terms, n_rows, n_outputs)."""
        return self.terms.at(codes, keys, self.n_jobs)

    @property
    def rest_orders(self) -> tuple[int, ...]:
        """Orders of which some terms are not listed, but added up."""
        return () if self.scope.is_part else self.terms.rest_orders

    @property
    def n_parts(self) -> int:
        """Number of parts that add up to the score: terms, rests of orders, and a remainder where there is one."""
        return len(self.terms.keys) + len(self.rest_orders) + self.has_remainder

    def knows(self, key: Key) -> bool:
        """Whether a term belongs to the decomposition: it is listed, or part of the rest of its order."""
        return key in self._listed or (len(key) in self.rest_orders and self.terms.can_evaluate(key))

    @functools.cached_property
    def _listed(self) -> frozenset[Key]:
        return frozenset(self.terms.keys)

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats]) -> Floats:
        """Sums of the terms of each order that are not listed, shape (n_rest_orders, n_rows, n_outputs).

        `listed` are values of listed terms at these rows as far as they are known already.
        """
        if not self.rest_orders:
            return np.zeros((0, len(codes), self.terms.n_outputs))
        return self.terms.rests_at(codes, listed, self.n_jobs)

    def rest_shares_at(self, codes: BinIndices) -> Floats:
        """Each term that is not listed, shared equally among its features: shape (n_rows, n_features, n_outputs)."""
        if not self.rest_orders:
            return np.zeros((*codes.shape, self.terms.n_outputs))
        return self.terms.rest_shares_at(codes, self.n_jobs)

    def all_at(self, codes: BinIndices) -> Floats:
        """All terms at rows given by their bins, then rests of orders, and last the remainder where there is one."""
        terms = self.at(codes, self.terms.keys)
        values = np.concatenate([terms, self.rests_at(codes, dict(zip(self.terms.keys, terms, strict=True)))])
        if not self.has_remainder:
            return values
        rest = self.score(self.grid.encoded(codes)) - self.terms.intercept - values.sum(axis=0)
        return np.concatenate([values, rest[None]])


def rest_label(order: int) -> str:
    """Name of the sum of those terms of an order that are not listed."""
    return f"other terms of order {order}"
