"""Checks of decompositions by plain sums over cells, written without the code that they check."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Floats, Key, Names
from treeanova.decomposition.decomposition import Decomposition, decomposed
from treeanova.decomposition.explanation import Explanation
from treeanova.decomposition.predictions import Term
from treeanova.density.base import Density
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.source import AdditiveModel, Settings
from treeanova.terms.terms import TermSet

# Parts of decompositions


def purified(effects: Effects, density: Density) -> Decomposition:
    """The decomposition of an additive model under a density that is bound to its grid."""
    return decomposed(AdditiveModel(TermSet(effects)), density, Settings())


def names_in_tables(fx: Decomposition) -> list[Names]:
    """Names of the terms that have a table."""
    return [names for names, term in fx.terms.items() if term.has_table]


def names_at_rows(fx: Decomposition) -> list[Names]:
    """Names of the terms that are evaluated at rows."""
    return [names for names, term in fx.terms.items() if not term.has_table]


def sum_of(explanation: Explanation) -> Floats:
    """Intercept plus all terms at rows, without the remainder."""
    total: Floats = explanation.values.sum(axis=1) + explanation.intercept
    return total


def as_matrix(values: Floats) -> Floats:
    """Values at rows with an axis of outputs, also where there is one output only."""
    return values if values.ndim == 2 else values[:, None]


def outputs_last(term: Term) -> Floats:
    """Values of a term with a last axis of outputs, also where there is one output only."""
    return term.values if term.values.ndim > term.weights.ndim else term.values[..., None]


# Whole grids


def cell_scores(predict: Callable[[Floats], Floats], grid: Grid) -> Floats:
    """The prediction of a model in every cell of a grid of intervals, at one row inside each."""
    points = np.array(list(itertools.product(*(_inside(axis) for axis in grid.axes))))
    return predict(points).reshape(grid.sizes)


def _inside(axis: Axis) -> list[float]:
    """A value in each bin of an axis of intervals, NaN for a bin of missing values."""
    bounds = axis.thresholds.tolist()
    return [*bounds, bounds[-1] + 1 if bounds else 0.0, *[np.nan] * axis.n_extra]


def cell_shares(rows: Floats, grid: Grid) -> Floats:
    """Shares of rows in the cells of all features, by histogram."""
    edges = [np.concatenate([[-1e9], axis.thresholds, [1e9]]) for axis in grid.axes]
    # np.histogramdd closes intervals on the left; mirrored, they are closed on the right as ours.
    mirrored = np.histogramdd(-rows, [-ends[::-1] for ends in edges])[0]
    shares: Floats = mirrored[tuple([slice(None, None, -1)] * rows.shape[1])] / len(rows)
    return shares


def bins_within(fine: Axis, coarse: Axis) -> BinIndices:
    """The bin of a coarser axis that holds each bin of a fine one, found by a value in each."""
    return coarse.index(fine.examples())


# Checks


def assert_close(found: Floats, expected: Floats, tolerance: float) -> None:
    """Raise AssertionError unless equal, up to a tolerance relative to the largest expected value, at least 1."""
    np.testing.assert_equal(found.shape, expected.shape)
    np.testing.assert_allclose(found, expected, rtol=0, atol=tolerance * max(1.0, np.abs(expected).max()))


def assert_terms(
    fx: Decomposition, expected: Mapping[Key, Any], names: Sequence[str], *, tolerance: float = 1e-9
) -> None:
    """Raise AssertionError unless terms are those expected, by positions of features; those not there are zero."""
    np.testing.assert_allclose(fx.intercept, float(expected[()]), rtol=0, atol=tolerance)
    for key, values in expected.items():
        features = tuple(names[j] for j in key)
        found = fx.terms[features].values if features in fx.terms else 0.0
        if key:
            np.testing.assert_allclose(np.broadcast_to(found, values.shape), values, rtol=0, atol=tolerance)


def largest_slice_mean(term: Term) -> float:
    """Largest absolute weighted mean of the slices of a term that have mass."""
    return max(float(np.abs(means).max(initial=0.0)) for means in _slice_means(term))


def _slice_means(term: Term) -> list[Floats]:
    """Weighted means of the slices that have mass, axis by axis, shape (n_slices, n_outputs)."""
    weighted = term.weights[..., None] * outputs_last(term)
    masses = [term.weights.sum(axis=axis) for axis in range(term.order)]
    return [
        weighted.sum(axis=axis)[mass > 0].reshape(-1, weighted.shape[-1]) / mass[mass > 0][:, None]
        for axis, mass in enumerate(masses)
    ]


def assert_pure(fx: Decomposition) -> None:
    """Raise AssertionError unless every slice of every table has mean zero, relative to the largest raw value."""
    scale = np.zeros(len(fx.outputs))
    for names in names_in_tables(fx.raw):
        values = np.abs(outputs_last(fx.raw.terms[names]))
        scale = np.maximum(scale, values.max(axis=tuple(range(len(names)))))
    for names in names_in_tables(fx):
        for means in _slice_means(fx.terms[names]):
            limit = np.broadcast_to(1e-10 * scale + 1e-300, means.shape)
            np.testing.assert_array_less(np.abs(means), limit, err_msg=str(names))


def assert_marginals(fx: Decomposition) -> None:
    """Raise AssertionError unless weights have sum 1, and those of more features have those of fewer as marginals."""
    for names in names_in_tables(fx):
        term = fx.terms[names]
        np.testing.assert_allclose(term.weights.sum(), 1.0, rtol=1e-12)
        np.testing.assert_array_less(-1e-300, term.weights)
        for axis in range(term.order if term.order > 1 else 0):
            below = fx.terms[names[:axis] + names[axis + 1 :]]
            axes = term.axes[:axis] + term.axes[axis + 1 :]
            np.testing.assert_allclose(term.weights.sum(axis=axis), pooled_weights(below, axes), rtol=0, atol=1e-14)


def pooled_weights(term: Term, axes: Sequence[Axis]) -> Floats:
    """Weights of a term, summed over the bins of coarser axes."""
    places = [bins_within(fine, coarse) for fine, coarse in zip(term.axes, axes, strict=True)]
    sums = np.zeros([axis.size for axis in axes])
    np.add.at(sums, np.ix_(*places), term.weights)
    return sums
