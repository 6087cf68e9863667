"""Additive models: a source whose sum of tables is the model itself, purified table by table."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping

import numpy as np

from treeanova.anova.cascade import cascade, with_subsets
from treeanova.anova.certificate import TermCertificate
from treeanova.core.arrays import BinIndices, Floats, Key, single_threaded
from treeanova.core.progress import Clock, Progress, quiet
from treeanova.density.counting import Request
from treeanova.density.kinds import Density
from treeanova.model.effects import Effects, refined_axes
from treeanova.model.grid import Binning, Grid
from treeanova.terms.source import PureTerms, Settings, Source
from treeanova.terms.terms import Tensors, TermSet


@dataclasses.dataclass(frozen=True, eq=False)
class AdditiveModel(Source):
    """A model that is the sum of its terms: an EBM, a forest as tensors, or a selection of terms."""

    terms: TermSet

    @property
    def grid(self) -> Grid:
        """The grid of the tensors."""
        return self.terms.tables.grid

    @property
    def max_order(self) -> int | None:
        """None: all orders are reported."""
        return None

    def score(self, encoded: Floats, n_jobs: int = 1) -> Floats:
        """Sum of the terms."""
        return self.terms.sum_at(self.terms.grid.index_encoded(encoded), n_jobs)

    def row_score(self, encoded: Floats, codes: BinIndices) -> Floats:
        """Sum of the terms at bins."""
        del encoded
        return self.terms.sum_at(codes)

    def wanted_tables(self) -> list[Request]:
        """Tables of all terms, of subsets of their features and of single features."""
        effects = self.terms.tables.effects
        axes = refined_axes(effects)
        singles: list[Key] = [(j,) for j in range(len(effects.grid.axes))]
        tables = [Request(key, axes.get(key)) for key in with_subsets(effects.terms) if len(key) > 1]
        return [*map(Request, singles), *tables]

    def raw(self) -> TermSet:
        """The terms as they are."""
        return self.terms

    def purify(self, density: Density, settings: Settings, progress: Progress, clock: Clock | None = None) -> PureTerms:
        """The pure terms, all of them tensors."""
        del clock
        if self.terms.keys_at_rows:
            raise ValueError(
                f"with_density() needs all terms of a deep ensemble, got {len(self.terms.keys)} selected terms of "
                "which some have no table; call it before select() or drop()."
            )
        return purify_tensors(self.terms.tables.effects, density, settings, progress)

    def tables_to_purify(self, terms: TermSet) -> Effects:
        """The tensors as they are."""
        del terms
        return self.terms.tables.effects


def purify_tensors(effects: Effects, density: Density, settings: Settings, progress: Progress = quiet) -> PureTerms:
    """Pure tensors under a density, with the weights of their cells, and what was measured on each."""
    if not effects.terms:
        return PureTerms(Tensors(effects), {})
    axes = refined_axes(effects)
    weights: dict[Key, Floats] = {}

    def table(key: Key) -> Floats:
        """Weights of a term's cells, kept for the result."""
        weights[key] = density.table(key, axes[key]) if axes else density.table(key)
        return weights[key]

    density.prepare(with_subsets(effects.terms), axes or None, settings.n_jobs)
    tensors = {key: effects.on_binnings(key, axes[key]) for key in effects.terms} if axes else effects.terms
    raw = {key: np.ascontiguousarray(np.moveaxis(values, -1, 0)) for key, values in tensors.items()}
    widen = _Widening(axes) if axes else None
    with single_threaded():
        result = cascade(raw, table, settings.options, settings.n_jobs, progress, widen=widen)
    terms = {key: np.ascontiguousarray(np.moveaxis(result.terms.pop(key), 0, -1)) for key in list(result.terms)}
    pure = Effects(effects.grid, effects.intercept + result.intercept, terms, axes)
    measured: dict[Key, TermCertificate] = {key: result.measured[key] for key in pure.terms}
    return PureTerms(Tensors(pure, weights), measured)


@dataclasses.dataclass(frozen=True)
class _Widening:
    """Brings what is taken out of a term onto the finer axes of the term below."""

    axes: Mapping[Key, tuple[Binning, ...]]

    def __call__(self, above: Key, below: Key, face: Floats) -> Floats:
        """A face of the term above, outputs first, on the axes of the term below."""
        if not below:
            return face
        coarse = dict(zip(above, self.axes[above], strict=True))
        for position, (j, fine) in enumerate(zip(below, self.axes[below], strict=True), start=1):
            if not coarse[j].equals(fine):
                face = face.take(coarse[j].within(fine), axis=position)
        return face
