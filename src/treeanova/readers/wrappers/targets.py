"""Regressors of a transformed target: the inverse transformation as part of the leaves or as a link."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.model.forest import Forest
from treeanova.readers.outputs import objective_text
from treeanova.readers.sklearn.estimators import is_sklearn
from treeanova.readers.wrappers.combine import affine

_FUNCTIONS = {"log": np.log, "log1p": np.log1p, "sqrt": np.sqrt}


def transformed_back(model: Any, forest: Forest) -> Forest:
    """The forest of a TransformedTargetRegressor, given that of its regressor.

    If the inverse is affine, the score is the prediction; else it is the regressor's, with a link.
    """
    transformer, link = model.transformer_, forest.schema.link
    is_function = is_sklearn(type(transformer)) and type(transformer).__name__ == "FunctionTransformer"
    line = _inverse_line(transformer)
    if link == "identity" and line is not None:
        objective = _rescaled(forest.schema.objective, line[0])
        return affine(forest.with_schema(dataclasses.replace(forest.schema, objective=objective)), *line)
    objective = _of_transformed(forest.schema.objective, transformer) if is_function else ""
    schema = dataclasses.replace(forest.schema, objective=objective)
    if is_function and transformer.inverse_func is None:
        return forest.with_schema(schema)
    is_exponential = (
        link == "identity" and is_function and transformer.inverse_func is np.exp and not transformer.inv_kw_args
    )
    return forest.with_schema(dataclasses.replace(schema, link="log" if is_exponential else "other"))


def _of_transformed(objective: str, transformer: Any) -> str:
    """The objective as one of the target before its transformation; empty where that has no name of ours."""
    if transformer.func is None:
        return objective
    name = next((name for name, function in _FUNCTIONS.items() if transformer.func is function), None)
    is_plain = name is not None and not transformer.kw_args and objective and " of " not in objective
    return f"{objective} of {name}" if is_plain else ""


def _rescaled(objective: str, slope: npt.ArrayLike) -> str:
    """The objective of a target that was divided by `slope`, as one of the target itself; empty if it has no name."""
    slopes = np.unique(np.asarray(slope, dtype=np.float64))
    name, *parameters = objective.split(":")
    if name in {"squared", "absolute"} or (name in {"pinball", "expectile"} and slopes[0] > 0):
        return objective
    if name in {"huber", "pseudo_huber", "fair"} and len(slopes) == 1:
        return objective_text(name, float(parameters[0]) * abs(float(slopes[0])))
    return ""


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
