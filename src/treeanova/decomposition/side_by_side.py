"""One main effect of two models side by side, with the rows of both, for pictures of a change."""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.decomposition.change import Change
from treeanova.decomposition.decomposition import Decomposition
from treeanova.density.statistics import Statistics
from treeanova.model.axes import Axis
from treeanova.model.binning import binning_by
from treeanova.model.grid import Grid
from treeanova.model.union import union


class EffectSide(NamedTuple):
    """A main effect of one model, and how its rows are spread.

    Attributes
    ----------
    axis
        The bins: of numbers the model's own, of categories those of both models.
    values
        Values over the bins, with a last axis of outputs; zero where the model has no such term.
    rows_axis
        Bins for the rows: those of both models.
    shares
        Share of the rows in each of `rows_axis`.
    """

    axis: Axis
    values: Floats
    rows_axis: Axis
    shares: Floats


def effect_sides(change: Change, name: str) -> tuple[EffectSide, EffectSide]:
    """The main effect of a feature before and after; ValueError where the models have different categories."""
    j = change.old.schema.names.index(name)
    models = (change.old, change.new)
    grids = [_grid_of_axis(fx, j) for fx in models]
    common, maps = union(grids)
    rows = (change.old_rows, change.new_rows)
    sides = []
    for fx, grid, (old_bins,), statistics in zip(models, grids, maps, rows, strict=True):
        values = _values(fx, j, grid.axes[0].size)
        axis = grid.axes[0] if grid.axes[0].is_ordered else common.axes[0]
        shares = _shares(fx, j, common.axes[0], old_bins, statistics)
        sides.append(EffectSide(axis, values if axis.is_ordered else values[old_bins], common.axes[0], shares))
    return sides[0], sides[1]


def _grid_of_axis(fx: Decomposition, j: int) -> Grid:
    """A grid of one feature with the bins of its main effect, or of the model where it has none."""
    axis = fx.effects.axes_of((j,))[0] if (j,) in fx.effects.terms else fx.grid.axes[j]
    return Grid(dataclasses.replace(fx.schema, features=(fx.schema.features[j],)), (axis,))


def _values(fx: Decomposition, j: int, n_bins: int) -> Floats:
    """Values of a main effect, outputs last; zeros where there is none."""
    return fx.effects.terms[j,] if (j,) in fx.effects.terms else np.zeros((n_bins, fx.effects.n_outputs))


def _shares(fx: Decomposition, j: int, axis: Axis, old_bins: Ints, statistics: Statistics) -> Floats:
    """Share of the rows in each bin of the axis of both models.

    Where the models number their categories differently, those of bins that only the other model distinguishes stay
    with the first of them.
    """
    labels = fx.schema.features[j].encoder.labels
    if axis.is_ordered or labels == getattr(axis, "categories", None):
        axes = (*fx.grid.axes[:j], axis, *fx.grid.axes[j + 1 :])
        return statistics.on(Grid(fx.schema, axes)).counts((j,))
    own = statistics.on(fx.grid).counts((j,))
    is_first = np.zeros(len(old_bins))
    is_first[np.unique(old_bins, return_index=True)[1]] = 1.0
    coarse = binning_by(_bins_of_effect(fx, j)).pool(own)
    shares: Floats = coarse[old_bins] * is_first
    return shares


def _bins_of_effect(fx: Decomposition, j: int) -> Ints:
    """The bin of the main effect's own axis for each bin of the grid."""
    return fx.effects.binnings_of((j,))[0].bins if (j,) in fx.effects.terms else np.arange(fx.grid.axes[j].size)
