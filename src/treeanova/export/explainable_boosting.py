"""Way back to other libraries: a pure decomposition of an EBM as an EBM."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.decomposition.decomposition import Decomposition
from treeanova.model.axes import Axis, CategoryAxis, IntervalAxis


def ebm(fx: Decomposition) -> Any:
    """An interpret EBM with the terms of a decomposition that came from one; its predictions are those of `fx`.

    The new model has the decomposition's bins, a term for each of its terms, and its weights, so that interpret's own
    plots show the pure effects. It is a model of one bag: what interpret keeps per bag of its training (error bars,
    `predict_with_uncertainty`) is not carried over. The source stays as it is.

    Parameters
    ----------
    fx
        A decomposition of an ExplainableBoosting model made by `decompose` in this session; also with terms dropped.
    """
    if not hasattr(fx.source, "term_scores_"):
        raise ValueError(
            "`fx` must come from decompose() of an EBM in this session, got another; decompose the EBM again."
        )
    if fx.has_remainder:
        raise ValueError(
            "`fx` must have no remainder to become an EBM, got one; leave out `max_order`, or use fx.select(order=…)."
        )
    model = copy.deepcopy(fx.source)
    keys = list(fx.effects.terms)
    total = sum(float(np.sum(weights)) for weights in model.bin_weights_[:1]) or 1.0
    model.bins_ = [_bins(axis, old) for axis, old in zip(fx.grid.axes, model.bins_, strict=True)]
    model.term_features_ = keys
    model.term_names_ = [" & ".join(str(model.feature_names_in_[j]) for j in key) for key in keys]
    model.term_scores_ = [_scores(fx, key) for key in keys]
    model.bin_weights_ = [total * _weights(fx, key) for key in keys]
    intercept = fx.effects.intercept
    model.intercept_ = float(intercept[0]) if isinstance(model.intercept_, float) else intercept.copy()
    model.bag_weights_ = np.ones(1)
    model.bagged_scores_ = [scores[None] for scores in model.term_scores_]
    model.bagged_intercept_ = np.array([intercept[0]]) if len(intercept) == 1 else intercept[None].copy()
    model.standard_deviations_ = [np.zeros_like(scores) for scores in model.term_scores_]
    return model


def _bins(axis: Axis, old: list[Any]) -> list[Any]:
    """One level of bins for terms of all orders: cuts, or categories with their places."""
    if isinstance(axis, CategoryAxis):
        return [{str(label): place for place, label in enumerate(axis.categories, start=1)}]
    if isinstance(axis, IntervalAxis) and old and not isinstance(old[0], dict):
        return [np.nextafter(axis.bounds, np.inf)]
    return list(old[:1])  # in no term


def _places(axis: Axis) -> Ints:
    """The axis' bin at each place of an EBM's tensor: missing, the values, then unseen (or unreadable: -1)."""
    if isinstance(axis, CategoryAxis):
        return np.array([axis.missing_bin, *range(len(axis.categories)), axis.unseen_bin])
    n_values = axis.n_regular if isinstance(axis, IntervalAxis) else axis.size
    return np.array([axis.missing_bin, *range(n_values), -1])


def _scores(fx: Decomposition, key: tuple[int, ...]) -> Floats:
    """A term as an EBM holds it; zero for text that is no number, which the decomposition does not know."""
    places = [_places(fx.grid.axes[j]) for j in key]
    scores = fx.effects.terms[key][np.ix_(*places)]
    for position, own in enumerate(places):
        scores[(slice(None),) * position + (own < 0,)] = 0.0
    return scores[..., 0] if fx.effects.n_outputs == 1 else scores


def _weights(fx: Decomposition, key: tuple[int, ...]) -> Floats:
    """The weights of a term as an EBM holds them; a bin that several places share counts at its own place only."""
    places = [_places(fx.grid.axes[j]) for j in key]
    weights = fx.weights[key][np.ix_(*places)]
    for position, own in enumerate(places):
        values = np.arange(len(own)) - 1
        repeated = (own < 0) | ((own != values) & np.isin(own, values[1:-1]))
        weights[(slice(None),) * position + (repeated,)] = 0.0
    return weights
