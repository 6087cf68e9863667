"""Term sets: the terms of a decomposition, as tensors or at rows; and which part of the model they are."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.core.progress import blocks
from treeanova.density.joint import Points
from treeanova.density.kinds import Density
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid


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
        """Products that all terms take for a row."""

    @property
    @abc.abstractmethod
    def leaves_rest(self) -> bool:
        """Whether the terms of all orders together are not the whole model, because tensors have merged bins."""

    @abc.abstractmethod
    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Terms at rows given by their bins, shape (n_keys, n_rows, n_outputs)."""

    @abc.abstractmethod
    def can_evaluate(self, key: Key) -> bool:
        """Whether `at` knows a term, listed or not."""

    @abc.abstractmethod
    def keep(self, wanted: Callable[[Key], bool]) -> TermSet:
        """The same with fewer terms."""

    @abc.abstractmethod
    def with_weights(self, weights: Mapping[Key, Floats]) -> TermSet:
        """The same with weights of the cells of tables."""

    @abc.abstractmethod
    def equals(self, other: TermSet) -> bool:
        """Whether all terms are another's."""

    @abc.abstractmethod
    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Bins on `grid` and weights of rows that represent a density."""

    @property
    def rest_orders(self) -> tuple[int, ...]:
        """Orders of which some terms are not listed, but added up to one exact rest."""
        return ()

    def rests_at(self, codes: BinIndices, listed: Mapping[Key, Floats], n_jobs: int = 1) -> Floats:
        """Sums of the terms that are not listed at rows, shape (n_rest_orders, n_rows, n_outputs).

        `listed` are values of listed terms at these rows as far as they are known already.
        """
        del listed, n_jobs
        return np.zeros((0, len(codes), self.n_outputs))

    def rest_shares_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Shares of features in all terms that are not listed, at rows, shape (n_rows, n_features, n_outputs)."""
        del n_jobs
        return np.zeros((*codes.shape, self.n_outputs))

    @abc.abstractmethod
    def up_to(self, max_order: int) -> TermSet:
        """The same with all that is above an order left out."""

    @property
    def intercept(self) -> Floats:
        """The intercept, shape (n_outputs,)."""
        return self.tables.effects.intercept

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return self.tables.effects.n_outputs

    def has_table(self, key: Key) -> bool:
        """Whether a term is a tensor."""
        return key in self.tables.effects.terms

    @property
    def keys_at_rows(self) -> tuple[Key, ...]:
        """The terms without a table."""
        return tuple(key for key in self.keys if not self.has_table(key))

    def sum_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Intercept plus all terms at rows, shape (n_rows, n_outputs)."""
        total: Floats = self.intercept + self.at(codes, self.keys, n_jobs).sum(axis=0)
        return total


@dataclasses.dataclass(frozen=True, eq=False)
class Tensors(TermSet):
    """Terms that all have tables.

    Attributes
    ----------
    effects
        Intercept and tensors.
    weights
        Weights of the cells of each term, of sum 1, for those that are known.
    """

    effects: Effects
    weights: Mapping[Key, Floats] = dataclasses.field(default_factory=dict)

    @property
    def grid(self) -> Grid:
        """The grid of the tensors."""
        return self.effects.grid

    @property
    def keys(self) -> tuple[Key, ...]:
        """All terms."""
        return tuple(self.effects.terms)

    @property
    def tables(self) -> Tensors:
        """Itself."""
        return self

    @property
    def row_cost(self) -> float:
        """One look-up per term."""
        return float(len(self.effects.terms))

    @property
    def leaves_rest(self) -> bool:
        """False."""
        return False

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Terms at rows."""
        del n_jobs
        values = np.empty((len(keys), len(codes), self.n_outputs))
        columns = np.asfortranarray(codes)
        for i, key in enumerate(blocks("tables at rows", keys, len(keys))):
            values[i] = self.effects.at(key, columns)
        return values

    def sum_at(self, codes: BinIndices, n_jobs: int = 1) -> Floats:
        """Intercept plus all terms at rows, one term at a time."""
        del n_jobs
        return self.effects.score_codes(codes)

    def can_evaluate(self, key: Key) -> bool:
        """Whether the term is listed."""
        return key in self.effects.terms

    def keep(self, wanted: Callable[[Key], bool]) -> Tensors:
        """The same with fewer terms."""
        return Tensors(self.effects.keep(wanted), self.weights)

    def up_to(self, max_order: int) -> Tensors:
        """The terms up to an order."""
        return self.keep(lambda key: len(key) <= max_order)

    def with_weights(self, weights: Mapping[Key, Floats]) -> Tensors:
        """The same with weights of the cells."""
        return Tensors(self.effects, weights)

    def with_intercept(self, intercept: Floats) -> Tensors:
        """The same with another intercept."""
        return Tensors(dataclasses.replace(self.effects, intercept=intercept), self.weights)

    def equals(self, other: TermSet) -> bool:
        """Whether bins, intercept and tensors are another's."""
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
        """Rows, cells or draws of the density."""
        return density.points(n_rows, rng)


class Scope(abc.ABC):
    """How much of a model the terms hold: all, the orders up to a limit, or a selection."""

    @property
    def is_part(self) -> bool:
        """Whether the terms were selected, so that they add up to another function than the model."""
        return False

    @property
    def leaves_rest(self) -> bool:
        """Whether the rest of the model is an exact remainder."""
        return False

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before a selection; None where there was none."""
        return None

    @property
    def history(self) -> tuple[str, ...]:
        """What was done to the terms by hand, the first edit first."""
        return ()

    @abc.abstractmethod
    def __str__(self) -> str: ...


@dataclasses.dataclass(frozen=True)
class Complete(Scope):
    """All terms of the model."""

    def __str__(self) -> str:
        return "all terms"


@dataclasses.dataclass(frozen=True)
class Truncated(Scope):
    """All terms up to an order; the others form one exact remainder.

    Attributes
    ----------
    order
        Highest order of the terms.
    """

    order: int

    @property
    def leaves_rest(self) -> bool:
        """True."""
        return True

    def __str__(self) -> str:
        return f"terms up to order {self.order}, and a remainder"


@dataclasses.dataclass(frozen=True)
class Selected(Scope):
    """A selection of terms: their sum is another function than the model.

    Attributes
    ----------
    n_terms
        Number of terms of the model, a remainder included.
    """

    n_terms: int

    @property
    def is_part(self) -> bool:
        """True."""
        return True

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before the selection."""
        return self.n_terms

    def __str__(self) -> str:
        return f"a selection from {self.n_terms} terms"


@dataclasses.dataclass(frozen=True)
class Edited(Scope):
    """Terms that were edited, such as scaled: their sum is another function than the model.

    Attributes
    ----------
    n_terms
        Number of terms of the model, a remainder included.
    edits
        What was done, the first edit first.
    """

    n_terms: int
    edits: tuple[str, ...]

    @property
    def is_part(self) -> bool:
        """True: the terms do not add up to the model."""
        return True

    @property
    def n_terms_of_model(self) -> int | None:
        """Number of terms before the edits."""
        return self.n_terms

    @property
    def history(self) -> tuple[str, ...]:
        """What was done."""
        return self.edits

    def __str__(self) -> str:
        return f"edited terms ({', '.join(self.edits)})"
