"""Sources: models that score rows and can be purified under a density; additive models, the sums of tables.

To add a source, derive a class from `Source` and list it in `SOURCES` (`terms/tree_model.py`) by its tag in files.

**Anchored terms** are the changes that features make against reference rows, alone and together. For one
reference r, the term of features u at a row x is

    Σ_{s ⊆ u} (-1)^{|u| - |s|} F(x in s, r elsewhere),

which is zero if x and r agree in a feature of u; all terms add up to F(x) - F(r). For trees this is the closed form for
independent features with all mass on r, at any depth. For several references, terms are weighted means.
"""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import ClassVar, NamedTuple

import numpy as np

from treeanova.anova.cascade import cascade, with_subsets
from treeanova.anova.certificate import HigherCertificate, TermCertificate
from treeanova.anova.solvers.base import Options
from treeanova.core.arrays import BinIndices, Floats, Key, single_threaded
from treeanova.core.progress import Clock, Progress, blocks, quiet
from treeanova.density.base import Density, Points
from treeanova.density.counting import Request
from treeanova.model.effects import Effects, refined_axes
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid, unmerged
from treeanova.model.rows import Rows
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.extremes import StepFunction, steps_of_tables
from treeanova.terms.layout import Trees
from treeanova.terms.terms import OrderTotals, TermSet, each_in_one_piece


def distinct_points(codes: BinIndices) -> Points:
    """Return distinct rows, each weighted by the share of rows equal to it."""
    distinct, counts = np.unique(codes, axis=0, return_counts=True)
    return Points(np.asfortranarray(distinct), counts / counts.sum())


@dataclasses.dataclass(frozen=True, eq=False)
class AnchoredTrees:
    """Changes that features of a forest make, alone and together, against reference rows."""

    trees: Trees
    references: Points

    keys: ClassVar[None] = None  # terms are not listed one by one

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

    def at(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Return terms at rows, shape (n_rows, n_keys, n_outputs)."""
        return self._mean_over_references(lambda form: form.at_rows(codes, keys, n_jobs))

    def totals_at(self, codes: BinIndices, orders: Sequence[int], n_jobs: int = 1) -> Floats:
        """Return sums of all terms of some orders at rows, shape (n_rows, n_orders, n_outputs)."""
        return self._mean_over_references(lambda form: OrderTotals(form).at_rows(codes, n_jobs)[:, list(orders)])

    def shares_at(self, codes: BinIndices, orders: Collection[int], n_jobs: int = 1) -> Floats:
        """Share each term of some orders equally among its features: shape (n_rows, n_features, n_outputs)."""
        return self._mean_over_references(lambda form: OrderTotals(form).shares_at_rows(codes, orders, n_jobs))


@dataclasses.dataclass(frozen=True, eq=False)
class AnchoredTerms:
    """Changes that features of a sum of terms make against reference rows: signed sums over subsets of features."""

    terms: TermSet
    references: Points

    @property
    def keys(self) -> tuple[Key, ...]:
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
