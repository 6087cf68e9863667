"""quantile-forest: quantile regression forests whose prediction is a mean, as a Forest.

The facts that the reader relies on:

- Trees are those of scikit-learn. Each leaf keeps training rows: one, drawn at random, by default (max_samples_leaf=1).
- A quantile is that of the rows in all leaves that a row reaches, pooled: it is no sum over trees, and is refused. What
  `predict` gives without arguments is set by `default_quantiles`, 0.5 by default.
- With default_quantiles="mean" and one row in each leaf, `predict` gives the mean over trees of these rows' targets,
  clipped to the leaf's bounds where there are monotonic constraints. That is a sum over leaves, and is read.
- With more rows in each leaf the mean is that of all rows pooled: its denominator depends on the leaves of all trees,
  so that it is no sum, and is refused.

The leaf values are not those of `tree_.value`, which the quantile forest does not use.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers import checks
from treeanova.readers.sklearn import read_forest

_CLASSES = {"RandomForestQuantileRegressor", "ExtraTreesQuantileRegressor"}


def read(model: Any) -> Forest:
    """The Forest of a quantile forest that predicts means; its score is what `predict` gives without arguments."""
    _check(model)
    return checks.read_live(
        "quantile_forest",
        lambda: _forest(model),
        lambda forest: functools.partial(checks.estimator_score, model, forest),
    )


def _check(model: Any) -> None:
    """Raise UnsupportedModelError unless the prediction is a mean of one value per tree."""
    name = type(model).__name__
    if name not in _CLASSES:
        raise UnsupportedModelError(f"{name} cannot be read: it is not one of {', '.join(sorted(_CLASSES))}.")
    if not hasattr(model, "forest_"):
        raise UnsupportedModelError(f"{name} cannot be read before training; fit it first.")
    if model.max_samples_leaf != 1:
        raise UnsupportedModelError(
            f"{name} cannot be read: with max_samples_leaf={model.max_samples_leaf!r} its mean and its quantiles are "
            "those of the training rows of many leaves pooled, which are no sums over trees; fit it with "
            'max_samples_leaf=1 and default_quantiles="mean", or fit a RandomForestRegressor.'
        )
    if model.default_quantiles not in (None, "mean", ["mean"]):
        raise UnsupportedModelError(
            f"{name} cannot be read: it predicts a quantile over its trees (default_quantiles="
            f"{model.default_quantiles!r}), which is no sum; its mean can be read, after "
            'model.set_params(default_quantiles="mean").'
        )


def _forest(model: Any) -> Forest:
    forest = read_forest(model)
    nodes = np.flatnonzero(forest.leaf >= 0)
    tree = np.searchsorted(forest.roots, nodes, side="right") - 1
    return dataclasses.replace(forest, values=_targets(model, tree, forest.leaf_label) / model.n_estimators)


def _targets(model: Any, tree: Ints, leaf: Ints) -> Floats:
    """Target of the training row that each leaf keeps, one column per target."""
    row = np.asarray(model.forest_.y_train_leaves)[tree, leaf, :, 0].astype(np.int64) - 1  # numbered from 1
    if (row < 0).any():
        raise UnsupportedModelError(f"{type(model).__name__} cannot be read: a leaf keeps no training row.")
    targets: Floats = np.take_along_axis(np.asarray(model.forest_.y_train, dtype=np.float64).T, row, axis=0)
    if model.monotonic_cst is None:
        return targets
    bounds = np.asarray(model.forest_.y_bound_leaves)[tree, leaf]
    return np.clip(targets, bounds[:, :1], bounds[:, 1:])


__all__ = ["read"]
