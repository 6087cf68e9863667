"""Sources: what a decomposition is made from, which can score rows and be purified under a density."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from treeanova.anova.certificate import HigherCertificate, TermCertificate
from treeanova.anova.solvers.base import Options
from treeanova.core.arrays import BinIndices, Floats, Key
from treeanova.core.progress import Clock, Progress
from treeanova.density.counting import Request
from treeanova.density.kinds import Density
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.terms import TermSet


@dataclasses.dataclass(frozen=True)
class Settings:
    """How to work and what to return.

    Attributes
    ----------
    options
        Method, tolerance and iterations of purification.
    n_jobs
        Number of threads.
    backend
        Name of the data frame library for tables.
    random_state
        Seed of draws, where a density needs any.
    seconds
        Time to stay within, about; None for as long as it takes.
    """

    options: Options = dataclasses.field(default_factory=Options)
    n_jobs: int = 1
    backend: str | None = None
    random_state: int = 0
    seconds: float | None = None


class PureTerms(NamedTuple):
    """Pure terms, what was measured on those that have tables, and on those that are evaluated at rows."""

    terms: TermSet
    measured: Mapping[Key, TermCertificate]
    higher: HigherCertificate | None = None


class Source(abc.ABC):
    """A model that can score rows and be purified under a density."""

    @property
    @abc.abstractmethod
    def grid(self) -> Grid:
        """The grid that densities are bound to."""

    @property
    @abc.abstractmethod
    def max_order(self) -> int | None:
        """Highest order of terms that `purify` reports; None for all."""

    @property
    def rounding(self) -> Floats:
        """The spread of the score, shape (n_outputs,), up to which it is what rounding left of larger numbers."""
        return np.zeros(len(self.grid.schema.outputs))

    def up_to(self, max_order: int) -> Source:
        """The same model with terms up to an order; what is above need not be found."""
        del max_order
        return self

    @abc.abstractmethod
    def score(self, encoded: Floats, n_jobs: int = 1) -> Floats:
        """Score of encoded rows, shape (n_rows, n_outputs)."""

    @abc.abstractmethod
    def wanted_tables(self) -> list[Request]:
        """Tables of rows that a density bound to `grid` needs to purify the model."""

    def row_score(self, encoded: Floats, codes: BinIndices) -> Floats:
        """Score of rows given by encoded values and by their bins on `grid`, shape (n_rows, n_outputs)."""
        del codes
        return self.score(encoded)

    @abc.abstractmethod
    def raw(self) -> TermSet:
        """The terms before purification."""

    @abc.abstractmethod
    def purify(self, density: Density, settings: Settings, progress: Progress, clock: Clock | None = None) -> PureTerms:
        """The pure terms under a density that is bound to `grid`; a clock may have begun before."""

    @abc.abstractmethod
    def tables_to_purify(self, terms: TermSet) -> Effects:
        """The tensors from which the tables of `terms` were purified, with what terms of higher order gave to them."""
