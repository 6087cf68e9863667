"""Sources: models that score rows and can be purified under a density; additive models, the sums of tables.

To add a source, derive a class from `Source` and list it in `SOURCES` (`terms/tree_model.py`) by its tag in files.
"""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Iterator, Mapping
from typing import ClassVar, NamedTuple

import numpy as np

from treeanova.anova.cascade import cascade, with_subsets
from treeanova.anova.certificate import HigherCertificate, TermCertificate
from treeanova.anova.solvers.base import Options
from treeanova.core.arrays import Floats, Key
from treeanova.core.progress import Clock, Progress, quiet
from treeanova.core.threads import single_threaded
from treeanova.density.base import Density, Points
from treeanova.density.counting import Request
from treeanova.model.effects import Effects, refined_axes
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.terms.anchored import Anchored, AnchoredTerms
from treeanova.terms.extremes import StepFunction, steps_of_tables
from treeanova.terms.terms import TermSet


@dataclasses.dataclass(frozen=True)
class Settings:
    options: Options = dataclasses.field(default_factory=Options)  # method, tolerance and iterations of purification
    n_jobs: int = 1  # number of threads
    backend: str | None = None  # name of the data frame library for tables
    random_state: int = 0  # seed of draws, if a density needs any
    seconds: float | None = None  # time to stay within, about; None for as long as it takes


class PureTerms(NamedTuple):
    terms: TermSet
    measured: Mapping[Key, TermCertificate]  # purity and error of each table
    higher: HigherCertificate | None = None  # the same of the terms without tables


class Source(abc.ABC):
    """A model before purification."""

    tag: ClassVar[str]  # names the class in saved files

    @property
    @abc.abstractmethod
    def grid(self) -> Grid:
        """The grid that densities are bound to."""

    @property
    @abc.abstractmethod
    def max_order(self) -> int | None:
        """Highest order that `purify` reports; None for all."""

    @property
    def rounding(self) -> Floats:
        """Standard deviation, shape (n_outputs,), below which variation of the score is rounding."""
        return np.zeros(len(self.grid.schema.outputs))

    def up_to(self, max_order: int) -> Source:
        """Return a source whose `purify` need not report higher orders; this one, if that saves nothing."""
        del max_order
        return self

    @abc.abstractmethod
    def score(self, rows: Rows, n_jobs: int = 1) -> Floats:
        """Return scores, shape (n_rows, n_outputs)."""

    @abc.abstractmethod
    def needed_tables(self) -> list[Request]:
        """Return the tables of rows that a density bound to `grid` needs to purify the model."""

    @abc.abstractmethod
    def raw(self) -> TermSet:
        """Return the terms before purification."""

    @abc.abstractmethod
    def purify(self, density: Density, settings: Settings, progress: Progress, clock: Clock | None = None) -> PureTerms:
        """Return the pure terms under a density bound to `grid`; a clock, perhaps running, limits the time."""

    @abc.abstractmethod
    def tables_to_purify(self, terms: TermSet) -> Effects:
        """Return the tables before purification, with what was moved to them from the higher orders of `terms`."""

    @property
    def forest(self) -> Forest | None:
        return None

    @property
    def is_sum_of_terms(self) -> bool:
        """Whether the score is the sum of `raw()` terms; bins on `grid` then suffice to score a row."""
        return False

    @abc.abstractmethod
    def steps(self, feature: int, output: int) -> tuple[Grid, Iterator[StepFunction]]:
        """Return the changes of the score between neighbouring bins of a feature, and the grid of these bins."""

    def anchored(self, references: Points) -> Anchored:
        """Return the changes that features make against reference rows, alone and together."""
        return AnchoredTerms(self.raw(), references)

    def tables_to_save(self, terms: TermSet) -> Effects | None:
        """Return the tables, besides `terms`, that a file needs to restore the source."""
        del terms
        return None

    @classmethod
    @abc.abstractmethod
    def restored(cls, terms: TermSet, tables: Effects | None) -> Source:
        """Return the source from the terms and tables of a file."""


@dataclasses.dataclass(frozen=True, eq=False)
class AdditiveModel(Source):
    """An EBM, a forest as tensors, or a selection of terms."""

    tag = "additive"

    terms: TermSet

    @property
    def grid(self) -> Grid:
        return self.terms.effects.grid

    @property
    def max_order(self) -> int | None:
        return None  # all orders are reported

    def score(self, rows: Rows, n_jobs: int = 1) -> Floats:
        return self.terms.sum_at(rows.bins(self.terms.grid), n_jobs)

    def needed_tables(self) -> list[Request]:  # of rows: those by which a density purifies the terms
        effects = self.terms.effects
        axes = refined_axes(effects)
        singles: list[Key] = [(j,) for j in range(len(effects.grid.axes))]
        tables = [Request(key, axes.get(key)) for key in with_subsets(effects.terms) if len(key) > 1]
        return [*map(Request, singles), *tables]

    def raw(self) -> TermSet:
        return self.terms

    def purify(self, density: Density, settings: Settings, progress: Progress, clock: Clock | None = None) -> PureTerms:
        del clock
        if self.terms.keys_at_rows:
            raise ValueError(
                f"with_density() needs all terms of a deep ensemble, got {len(self.terms.keys)} selected or edited "
                "terms of which some have no table; call it before select(), drop() or scale()."
            )
        return purify_tensors(self.terms.effects, density, settings, progress)

    def tables_to_purify(self, terms: TermSet) -> Effects:
        del terms
        return self.terms.effects

    @property
    def is_sum_of_terms(self) -> bool:
        return True

    def steps(self, feature: int, output: int) -> tuple[Grid, Iterator[StepFunction]]:
        if any(feature in key for key in self.terms.keys_at_rows):
            raise ValueError(
                "monotonicity() must have all terms of a deep ensemble, or tables of those with the feature, got "
                "selected or edited terms of which some have no table; call it before select(), drop() or scale()."
            )
        return self.grid, steps_of_tables(self.terms.effects, feature, output)

    def tables_to_save(self, terms: TermSet) -> Effects | None:  # what a file needs besides the pure terms
        return None if self.terms is terms else self.terms.effects

    @classmethod
    def restored(cls, terms: TermSet, tables: Effects | None) -> AdditiveModel:
        return cls(terms if tables is None else dataclasses.replace(terms, effects=tables, weights={}))


def purify_tensors(effects: Effects, density: Density, settings: Settings, progress: Progress = quiet) -> PureTerms:
    """Return the pure terms of an additive model under a density, with what was measured on them."""
    if not effects.terms:
        return PureTerms(TermSet(effects), {})
    axes = refined_axes(effects)
    weights: dict[Key, Floats] = {}

    def remembered_weights(key: Key) -> Floats:
        weights[key] = density.table(key, axes[key]) if axes else density.table(key)
        return weights[key]

    density.prepare_tables(with_subsets(effects.terms), axes or None, settings.n_jobs)
    tensors = {key: effects.on_binnings(key, axes[key]) for key in effects.terms} if axes else effects.terms
    raw = {key: np.ascontiguousarray(np.moveaxis(values, -1, 0)) for key, values in tensors.items()}

    def onto_finer_axes(above: Key, below: Key, projection: Floats) -> Floats:
        """Bring what a term loses, outputs first, onto the finer axes of the term below."""
        coarse = dict(zip(above, axes[above], strict=True))
        for position, (j, fine) in enumerate(zip(below, axes[below], strict=True), start=1):
            if not coarse[j].equals(fine):
                projection = projection.take(coarse[j].within(fine), axis=position)
        return projection

    with single_threaded():
        result = cascade(
            raw,
            remembered_weights,
            settings.options,
            settings.n_jobs,
            progress,
            widen=onto_finer_axes if axes else None,
        )
    terms = {key: np.ascontiguousarray(np.moveaxis(result.terms.pop(key), 0, -1)) for key in list(result.terms)}
    pure = Effects(effects.grid, effects.intercept + result.intercept, terms, axes)
    return PureTerms(TermSet(pure, weights), {key: result.measured[key] for key in pure.terms})
