"""The same model in several forms, pure under each density and raw, with the tables of a term on common axes.

All that the report reads of a decomposition's density and grid, other than windows and histograms, is read here.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key, Names
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.term import Term
from treeanova.model.axes import Axis
from treeanova.model.binning import Binning, binning_by, common_refinement, unmerged

RAW = "raw"


@dataclasses.dataclass(frozen=True, eq=False)
class CommonTable:
    """A term in all forms that have its table, on axes that are at least as fine as those of each form.

    Attributes
    ----------
    positions
        Positions of the features.
    axes
        The common axes.
    binnings
        One per feature, from the bins of the grid to those of the common axes.
    rows
        Share of the rows in each cell; weight under the main density where rows are not known.
    values
        Values by form, with a last axis of outputs.
    weights
        Weights of the cells by form.
    errors
        Standard errors of the values of the main form, with a last axis of outputs; None where they are not known.
    """

    positions: Key
    axes: tuple[Axis, ...]
    binnings: tuple[Binning, ...]
    rows: Floats
    values: dict[str, Floats]
    weights: dict[str, Floats]
    errors: Floats | None = None


@dataclasses.dataclass(frozen=True, eq=False)
class Forms:
    """The same model in several forms.

    Attributes
    ----------
    by_name
        Decompositions by the name of the form: those of the densities, the main one first, then ``raw``.
    errors
        Standard errors of tables of the main form, by names, with a last axis of outputs.
    """

    by_name: Mapping[str, Decomposition]
    errors: Mapping[Names, Floats] = dataclasses.field(default_factory=dict)

    @property
    def main(self) -> Decomposition:
        """The decomposition that the page is about."""
        return next(iter(self.by_name.values()))

    @functools.cached_property
    def tables(self) -> dict[str, dict[Names, Term]]:
        """Terms that have a table, by form and names."""
        return {name: tables_of(fx) for name, fx in self.by_name.items()}

    def terms(self, names: Names) -> dict[str, Term]:
        """A term in the forms that have its table."""
        return {form: terms[names] for form, terms in self.tables.items() if names in terms}

    @functools.cached_property
    def _binnings(self) -> dict[Names, dict[str, tuple[Binning, ...]]]:
        """From the bins of the grid to those of each term and form."""
        binnings: dict[Names, dict[str, tuple[Binning, ...]]] = {}
        for form, terms in self.tables.items():
            for names, term in terms.items():
                binnings.setdefault(names, {})[form] = binnings_of(self.main, term)
        return binnings

    def _common(self, names: Names) -> tuple[Binning, ...]:
        """From the bins of the grid to those of the common axes of a term."""
        return tuple(common_refinement(column) for column in zip(*self._binnings[names].values(), strict=True))

    def sizes(self, names: Names) -> tuple[int, ...]:
        """Number of bins of each common axis of a term."""
        return tuple(binning.size for binning in self._common(names))

    def table(self, names: Names) -> CommonTable:
        """A term in all forms that have its table, on common axes."""
        main, terms = self.main, self.terms(names)
        positions, binnings = positions_of(main, names), self._common(names)
        axes = tuple(binning.axis(main.grid.axes[j]) for binning, j in zip(binnings, positions, strict=True))
        places = {form: _bins_within(own, binnings) for form, own in self._binnings[names].items()}
        weights = {form: _shared(term.weights, places[form]) for form, term in terms.items()}
        return CommonTable(
            positions,
            axes,
            binnings,
            self._rows(positions, binnings, weights),
            {form: _taken(outputs_last(term), places[form]) for form, term in terms.items()},
            weights,
            _taken(self.errors[names], places[next(iter(self.by_name))]) if names in self.errors else None,
        )

    def _rows(self, positions: Key, binnings: tuple[Binning, ...], weights: Mapping[str, Floats]) -> Floats:
        """Share of the rows in each cell; weight under the main density where rows are not known."""
        density = self.main.density
        if density.statistics is not None:
            return density.statistics.counts(positions, binnings)
        known = weights.get(next(iter(self.by_name)))
        return density.table(positions, binnings) if known is None else known

    def masses(self, feature: int, binning: Binning) -> Floats:
        """Share of the rows in each bin of a feature; weight under the main density where rows are not known."""
        density = self.main.density
        counts = density.table if density.statistics is None else density.statistics.counts
        return counts((feature,), (binning,))


def tables_of(fx: Decomposition) -> dict[Names, Term]:
    """The terms that have a table."""
    return {names: term for names, term in fx.terms.items() if term.has_table}


def outputs_last(term: Term) -> Floats:
    """Values of a term with a last axis of outputs, also where there is one."""
    values: Floats = term.values.reshape(*term.weights.shape, -1)
    return values


def positions_of(fx: Decomposition, names: Names) -> Key:
    """Positions of features."""
    return tuple(fx.schema.names.index(name) for name in names)


def binnings_of(fx: Decomposition, term: Term) -> tuple[Binning, ...]:
    """From the bins of the grid to those of a term, one per feature."""
    positions = positions_of(fx, term.features)
    return tuple(_binning(fx.grid.axes[j], axis) for j, axis in zip(positions, term.axes, strict=True))


def _binning(fine: Axis, coarse: Axis) -> Binning:
    """From the bins of an axis to those of a coarser one."""
    if fine is coarse or fine.has_bins_of(coarse):
        return unmerged(fine.size)
    return binning_by(coarse.index(fine.examples()).astype(np.int64))


def _bins_within(coarse: Sequence[Binning], fine: Sequence[Binning]) -> list[Ints | None]:
    """Coarse bin that contains each fine bin, per feature; None where they are the same."""
    pairs = zip(coarse, fine, strict=True)
    return [None if outer.equals(inner) else outer.within(inner) for outer, inner in pairs]


def _taken(values: Floats, places: Sequence[Ints | None]) -> Floats:
    """A tensor at places along its first axes."""
    for axis, place in enumerate(places):
        values = values if place is None else values.take(place, axis=axis)
    return values


def _shared(weights: Floats, places: Sequence[Ints | None]) -> Floats:
    """Weights on finer axes: that of a cell is shared equally by the finer cells in it."""
    finer = _taken(weights, places)
    for axis, place in enumerate(places):
        if place is not None:
            n_parts = np.bincount(place)[place]
            finer = finer / n_parts.reshape([-1 if i == axis else 1 for i in range(finer.ndim)])
    return finer
