"""Export to InterpretML: a pure decomposition of an EBM as an EBM."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints, Key
from treeanova.data.features import Feature
from treeanova.decomposition.answers import table_weights_of
from treeanova.decomposition.decomposition import Decomposition
from treeanova.decomposition.predictions import function_of
from treeanova.model.axes import Axis
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, common_refinement
from treeanova.readers import final_step

Levels = dict[int, Binning]  # bins of a feature by order of its terms


def ebm(fx: Decomposition) -> Any:
    """Return an EBM of InterpretML with the terms of a decomposition of one; it predicts what `fx` predicts.

    The new model has the decomposition's bins (one level for each order), terms and weights, so interpret's plots show
    the pure effects. It has one bag: what interpret keeps per bag (error bars, `predict_with_uncertainty`) is lost. The
    source is not changed.

    Parameters
    ----------
    fx
        A decomposition of an ExplainableBoosting model, made by `decompose` in this session; terms may be dropped.

    Returns
    -------
    ExplainableBoostingRegressor or ExplainableBoostingClassifier
        A model of the class that was decomposed.

    Raises
    ------
    ValueError
        If `fx` is not a decomposition of an EBM, or has a remainder.

    Examples
    --------
    The main effects of the new model have mean zero under the data:

    >>> import numpy as np, treeanova
    >>> from interpret.glassbox import ExplainableBoostingRegressor
    >>> X = np.random.default_rng(0).normal(size=(200, 2))
    >>> y = X[:, 0] + X[:, 0] * X[:, 1]
    >>> source = ExplainableBoostingRegressor(max_rounds=50, outer_bags=1, n_jobs=1).fit(X, y)
    >>> pure = treeanova.export.ebm(treeanova.decompose(source, X, density="empirical"))
    >>> bool(np.allclose(pure.predict(X), source.predict(X)))
    True
    >>> bool(np.allclose(pure.eval_terms(X)[:, :2].mean(axis=0), 0))
    True
    """
    model = copy.deepcopy(_source_ebm(fx))
    effects, features = function_of(fx).effects, fx.schema.features
    levels = [_levels_of_feature(effects, j) for j in range(len(features))]
    total = sum(float(np.sum(weights)) for weights in model.bin_weights_[:1]) or 1.0
    model.bins_ = [
        _bins_to_store(feature, axis, levels_of_feature, old)
        for feature, axis, levels_of_feature, old in zip(features, fx.grid.axes, levels, model.bins_, strict=True)
    ]
    binnings = {key: tuple(levels[j][len(key)] for j in key) for key in effects.terms}
    model.term_features_ = list(binnings)
    model.term_names_ = [" & ".join(str(model.feature_names_in_[j]) for j in key) for key in binnings]
    model.term_scores_ = [_scores_to_store(effects, key, binnings[key]) for key in binnings]
    model.bin_weights_ = [total * _weights_to_store(fx, key, binnings[key]) for key in binnings]
    _set_one_bag(model, effects.intercept)
    return model


def _source_ebm(fx: Decomposition) -> Any:
    """Return the EBM that was decomposed; raise ValueError if it is gone or terms are missing."""
    model = final_step(fx.model)
    if not hasattr(model, "term_scores_"):
        kind = "a decomposition without its model" if model is None else f"one of {type(model).__name__}"
        raise ValueError(
            f"`fx` must come from decompose() of an EBM in this session, got {kind}; decompose the EBM again."
        )
    if fx.has_remainder:
        raise ValueError(
            f"`fx` must have no remainder to become an EBM, got {len(fx.terms)} terms and a remainder; leave out "
            "`max_order`, or use fx.select(order=…)."
        )
    return model


def _set_one_bag(model: Any, intercept: Floats) -> None:
    """Set the attributes of an EBM about its bags as if it had one, with the intercept and no deviations."""
    model.intercept_ = float(intercept[0]) if isinstance(model.intercept_, float) else intercept.copy()
    model.bag_weights_ = np.ones(1)
    model.bagged_scores_ = [scores[None] for scores in model.term_scores_]
    model.bagged_intercept_ = np.array([intercept[0]]) if len(intercept) == 1 else intercept[None].copy()
    model.standard_deviations_ = [np.zeros_like(scores) for scores in model.term_scores_]


def _levels_of_feature(effects: Effects, j: int) -> Levels:
    """Return for each order from 1 on the bins of a feature that all terms of this order share."""
    # An order without terms gets the bins of the next higher one, which interpret does not use.
    by_order: dict[int, list[Binning]] = {}
    for key in effects.terms:
        if j in key:
            by_order.setdefault(len(key), []).append(effects.binnings_of(key)[key.index(j)])
    levels: Levels = {}
    for order in range(max(by_order, default=0), 0, -1):
        levels[order] = common_refinement(by_order[order]) if order in by_order else levels[order + 1]
    return dict(sorted(levels.items()))


def _bins_to_store(feature: Feature, axis: Axis, levels: Levels, old_bins: list[Any]) -> list[Any]:
    """Return what `bins_` of an EBM has for a feature: cuts for each level, or one dict of categories."""
    if not levels:
        return list(old_bins)
    labels = feature.encoder.labels
    if labels is not None:
        return [{str(label): position for position, label in enumerate(labels, start=1)}]
    return [np.nextafter(binning.axis(axis).thresholds, np.inf) for binning in levels.values()]


def _stored_bins(axis: Axis) -> Ints:
    """Return the axis' bin at each position of an EBM's tensor: missing, the values, then unseen (unreadable: -1)."""
    return np.array([axis.missing_bin, *range(axis.n_regular), axis.unseen])


def _counts_once(axis: Axis) -> Bools:
    """Whether weights count at each position of an EBM's tensor (missing, values, unseen): once for each bin."""
    missing, unseen = axis.missing_bin >= axis.n_regular, axis.unseen >= axis.n_regular
    return np.array([missing, *[True] * axis.n_regular, unseen and axis.unseen != axis.missing_bin])


def _axes_of_term(effects: Effects, key: Key, binnings: tuple[Binning, ...]) -> list[Axis]:
    """Return the axes of a key's features with merged bins."""
    return [binning.axis(effects.grid.axes[j]) for j, binning in zip(key, binnings, strict=True)]


def _scores_to_store(effects: Effects, key: Key, binnings: tuple[Binning, ...]) -> Floats:
    """Return a term as an EBM stores it; zero for text that is not a number, which the decomposition refuses."""
    bins_by_axis = [_stored_bins(axis) for axis in _axes_of_term(effects, key, binnings)]
    scores = effects.on_binnings(key, binnings)[np.ix_(*bins_by_axis)]
    for axis, bins in enumerate(bins_by_axis):
        scores[(slice(None),) * axis + (bins < 0,)] = 0.0
    return scores[..., 0] if effects.n_outputs == 1 else scores


def _weights_to_store(fx: Decomposition, key: Key, binnings: tuple[Binning, ...]) -> Floats:
    """Return the density's weights of a term's cells as an EBM stores them."""
    is_same = all(map(Binning.equals, function_of(fx).effects.binnings_of(key), binnings))
    table = table_weights_of(fx)[key] if is_same else fx.density.table(key, binnings)
    axes = _axes_of_term(function_of(fx).effects, key, binnings)
    counted = np.ix_(*(_counts_once(axis) for axis in axes))
    weights = np.zeros([len(_stored_bins(axis)) for axis in axes])
    weights[counted] = table[np.ix_(*(_stored_bins(axis)[_counts_once(axis)] for axis in axes))]
    return weights
