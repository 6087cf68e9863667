"""Regressors of a transformed target: the inverse transformation as part of the leaves or as a link."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.model.forest import Forest
from treeanova.readers.sklearn.estimators import is_sklearn
from treeanova.readers.wrappers.combine import affine


def transformed_back(model: Any, forest: Forest) -> Forest:
    """The forest of a TransformedTargetRegressor, given that of its regressor.

    If the inverse is affine, the score is the prediction; else it is the regressor's, with a link.
    """
    transformer, link = model.transformer_, forest.schema.link
    is_function = is_sklearn(type(transformer)) and type(transformer).__name__ == "FunctionTransformer"
    if is_function and transformer.inverse_func is None:
        return forest
    line = _inverse_line(transformer)
    if link == "identity" and line is not None:
        return affine(forest, *line)
    is_exponential = (
        link == "identity" and is_function and transformer.inverse_func is np.exp and not transformer.inv_kw_args
    )
    return forest.with_schema(dataclasses.replace(forest.schema, link="log" if is_exponential else "other"))


def _inverse_line(transformer: Any) -> tuple[npt.ArrayLike, npt.ArrayLike] | None:
    """Slope and shift of the inverse of a transformer of the target, None if it is not known to be affine."""
    if not is_sklearn(type(transformer)):
        return None
    name = type(transformer).__name__
    if name == "StandardScaler":
        return _or(transformer.scale_, 1.0), _or(transformer.mean_ if transformer.with_mean else None, 0.0)
    if name == "RobustScaler":
        return _or(transformer.scale_, 1.0), _or(transformer.center_, 0.0)
    if name == "MaxAbsScaler" and not getattr(transformer, "clip", False):
        return transformer.scale_, 0.0
    if name == "MinMaxScaler" and not transformer.clip:
        return 1 / transformer.scale_, -transformer.min_ / transformer.scale_
    return None


def _or(value: Any, default: float) -> Any:
    return default if value is None else value
