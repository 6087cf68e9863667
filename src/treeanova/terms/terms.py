"""Term sets: the terms of a decomposition, as tensors or at rows; and which part of the model they are."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.core.progress import blocks
from treeanova.density.base import Points
from treeanova.density.kinds import Density
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows

if TYPE_CHECKING:
    from treeanova.terms.at_rows import LeafTerms


def each_in_one_piece(n_rows: int, n_terms: int, n_outputs: int) -> Floats:
    """Return zeros with each term contiguous: adding up scattered terms takes several times longer."""
    return np.zeros((n_terms, n_rows, n_outputs)).swapaxes(0, 1)


class TermSet(abc.ABC):
    """An intercept and terms; some have tables, all can be evaluated at rows given by their bins on `grid`."""

    @property
    @abc.abstractmethod
    def grid(self) -> Grid:
        """The bins by which rows are given."""

    @property
    @abc.abstractmethod
    def keys(self) -> tuple[Key, ...]:
        """All terms by positions of their features: those with tables first."""

    @property
    @abc.abstractmethod
    def tables(self) -> Tensors:
        """The terms that have tables, and the intercept."""

    @property
    @abc.abstractmethod
    def row_cost(self) -> float:
        """Products per row for all terms."""

    @property
    @abc.abstractmethod
    def leaves_rest(self) -> bool:
        """Whether merged bins leave a part of the model outside the terms."""

    @abc.abstractmethod
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Return terms at rows given by their bins, shape (n_rows, n_keys, n_outputs)."""

    @abc.abstractmethod
    def can_evaluate(self, key: Key) -> bool:
        """Whether `at` can evaluate a term, listed or not."""

    @abc.abstractmethod
    def keep(self, wanted: Callable[[Key], bool]) -> TermSet:
        """Return the wanted terms."""

    def with_weights(self, weights: Mapping[Key, Floats]) -> TermSet:
        return self.with_tables(Tensors(self.tables.effects, weights))

    @abc.abstractmethod
    def equals(self, other: TermSet) -> bool:
        """Whether all terms equal another's."""

    @abc.abstractmethod
    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Return bins on `grid` and weights of rows that represent a density."""

    @property
    def leaf_terms(self) -> LeafTerms | None:
        """The terms without tables, as sums over leaves; None if all have tables."""
        return None

    @abc.abstractmethod
    def with_tables(self, tables: Tensors) -> TermSet:
        """Return the same with other tables."""

    @property
    def rest_orders(self) -> tuple[int, ...]:
        return ()

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int = 1) -> Floats:
        """Return sums of unlisted terms, (n_rows, n_rest_orders, n_outputs); `listed` has values known already."""
        del listed, n_jobs
        return np.zeros((len(codes), 0, self.n_outputs))

    def rest_shares_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return shares of features in all unlisted terms, shape (n_rows, n_features, n_outputs)."""
        del n_jobs
        return np.zeros((*codes.shape, self.n_outputs))

    @abc.abstractmethod
    def up_to(self, max_order: int) -> TermSet:
        """Return the terms up to an order."""

    @property
    def intercept(self) -> Floats:
        return self.tables.effects.intercept

    @property
    def n_outputs(self) -> int:
        return self.tables.effects.n_outputs

    def has_table(self, key: Key) -> bool:
        return key in self.tables.effects.terms

    @property
    def keys_at_rows(self) -> tuple[Key, ...]:
        return tuple(key for key in self.keys if not self.has_table(key))

    def sum_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Return intercept plus all terms, shape (n_rows, n_outputs)."""
        total: Floats = self.intercept + self.at(codes, self.keys, n_jobs).sum(axis=1)
        return total


@dataclasses.dataclass(frozen=True, eq=False)
class Tensors(TermSet):
    effects: Effects  # intercept and tensors
    # of the cells of known terms, of sum 1
    weights: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        return self.effects.grid

    @property
    def keys(self) -> tuple[Key, ...]:
        return tuple(self.effects.terms)

    @property
    def tables(self) -> Tensors:
        return self

    @property
    def row_cost(self) -> float:
        return float(len(self.effects.terms))

    @property
    def leaves_rest(self) -> bool:
        return False

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        del n_jobs
        values = each_in_one_piece(len(codes), len(keys), self.n_outputs)
        columns = np.asfortranarray(codes)
        for i, key in enumerate(blocks("tables at rows", keys, len(keys))):
            values[:, i] = self.effects.at(key, columns)
        return values

    def sum_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        del n_jobs
        return self.effects.score(Rows.in_bins(self.effects.grid, codes))

    def can_evaluate(self, key: Key) -> bool:
        return key in self.effects.terms

    def keep(self, wanted: Callable[[Key], bool]) -> Tensors:
        return Tensors(self.effects.keep(wanted), self.weights)

    def up_to(self, max_order: int) -> Tensors:
        return self.keep(lambda key: len(key) <= max_order)

    def with_tables(self, tables: Tensors) -> Tensors:
        return tables

    def with_intercept(self, intercept: Floats) -> Tensors:
        return Tensors(dataclasses.replace(self.effects, intercept=intercept), self.weights)

    def equals(self, other: TermSet) -> bool:
        if not isinstance(other, Tensors) or not self.grid.has_bins_of(other.grid):
            return False
        ours, theirs = self.effects, other.effects
        return (
            ours.terms.keys() == theirs.terms.keys()
            and np.array_equal(ours.intercept, theirs.intercept)
            and all(np.array_equal(ours.terms[key], theirs.terms[key]) for key in ours.terms)
            and all(
                a.equals(b)
                for key in ours.terms
                for a, b in zip(ours.binnings_of(key), theirs.binnings_of(key), strict=True)
            )
        )

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        return density.points(n_rows, rng)


@dataclasses.dataclass(frozen=True)
class Scope:
    """How much of a model the terms hold; by default all of it."""

    # highest order of the terms if all others form one exact remainder
    order: int | None = None
    # number of the model's terms, including a remainder, if the terms are a selection or edited, not the same function
    n_terms: int | None = None
    edits: tuple[str, ...] = ()  # what was done to the terms by hand, the first edit first

    def __post_init__(self) -> None:
        if self.edits and not self.is_part:
            raise ValueError(f"a scope with edits must have a number of terms, got {self!r}")

    @property
    def is_part(self) -> bool:
        """Whether the terms, with any remainder, add up to another function than the model."""
        return self.n_terms is not None

    def __str__(self) -> str:
        words = "terms" if self.order is not None else "all terms"
        if self.is_part:
            words = f"a selection from {self.n_terms} terms"
        if self.edits:
            words = f"edited terms ({', '.join(self.edits)})"
        return words if self.order is None else f"{words} up to order {self.order}, and a remainder"
