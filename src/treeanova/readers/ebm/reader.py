"""Reads fitted EBMs."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints, Key
from treeanova.data.features import Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.binning import Binning
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.readers import versions
from treeanova.readers.ebm.bins import BinnedFeature, bin_feature, bins_of, n_places
from treeanova.readers.outputs import objective_of_probabilities, objective_text, plain_labels

_LINKS = {"identity": "identity", "log": "log", "logit": "logit", "mlogit": "softmax", "vlogit": "logit"}
# Our words, and the default of the parameter where there is one.
_OBJECTIVES: dict[str, tuple[str, float | None]] = {
    "rmse": ("squared", None),
    "poisson_deviance": ("poisson", None),
    "gamma_deviance": ("gamma", None),
    "tweedie_deviance": ("tweedie", 1.5),
    "pseudo_huber": ("pseudo_huber", 1.0),
}
_NEEDED = ("bins_", "feature_names_in_", "feature_types_in_", "intercept_", "link_", "term_features_", "term_scores_")
_MAX_CELLS = 1 << 28


def read(model: Any) -> Effects:
    """The Effects of a fitted EBM; the sum of the terms is the model's score for every row.

    Covers ExplainableBoostingRegressor and -Classifier and their differentially private variants, also merged or
    edited. Text that does not spell a number in a continuous feature raises TypeError when rows are scored.
    """
    _check_model(model)
    return versions.read_live(
        "interpret",
        lambda: _effects(model),
        lambda effects: functools.partial(versions.estimator_score, model, effects),
    )


def _effects(model: Any) -> Effects:
    intercept = np.array(model.intercept_, dtype=np.float64, ndmin=1)
    tensors = [_tensor(model, k, len(intercept)) for k in range(len(model.term_features_))]
    for values in (intercept, *tensors):
        if not np.isfinite(values).all():
            raise UnsupportedModelError(
                f"the EBM's scores must be finite, got {values[~np.isfinite(values)][0]} (only one class?); train it "
                "on two classes or more."
            )
    names, named = _names(model)
    features = [bin_feature(model, j, name, tensors) for j, name in enumerate(names)]
    grid = Grid(_schema(model, features, len(intercept), named=named), tuple(feature.axis for feature in features))
    terms, binnings = _terms(model.term_features_, tensors, features)
    return Effects(grid, intercept, terms, binnings)


def _check_model(model: Any) -> None:
    name = type(model).__qualname__
    if not any(cls.__name__ == "EBMModel" for cls in type(model).__mro__):
        raise UnsupportedModelError(
            f"`model` must be one of InterpretML's ExplainableBoosting models, got {name}; only they are read."
        )
    if not getattr(model, "has_fitted_", False):
        raise UnsupportedModelError(f"`model` must be fitted, got an unfitted {name}; fit it first.")
    absent = [attribute for attribute in _NEEDED if not hasattr(model, attribute)]
    if absent:
        raise UnsupportedModelError(
            f"`model` must have the attributes of interpret 0.7, got a {name} without {', '.join(absent)}; train it "
            "again."
        )


def _schema(model: Any, features: Sequence[BinnedFeature], n_outputs: int, *, named: bool) -> Schema:
    classes = plain_labels(getattr(model, "classes_", ()))
    outputs = ("score",) if n_outputs == 1 else tuple(str(label) for label in model.classes_)
    link = _LINKS.get(model.link_, "other")
    stated = getattr(model, "objective", None)  # models that merge_ebms made have none
    objective = objective_of_probabilities(link) if stated is None else _objective(str(stated), link)
    return Schema(
        tuple(feature.feature for feature in features),
        outputs,
        link,
        named=named,
        classes=classes,
        objective=objective,
    )


def _objective(stated: str, link: str) -> str:
    """The objective in the words of `validate(loss=...)`; it is stated as a name, or as "name:parameter=value"."""
    name, _, parameter = stated.partition(":")
    if name == "log_loss":
        return "multiclass" if link == "softmax" else "log"
    words, default = _OBJECTIVES.get(name, (stated, None))
    if default is None:
        return words
    return objective_text(words, float(parameter.partition("=")[2] or default))


def _names(model: Any) -> tuple[Sequence[str], bool]:
    """Names of the features, and whether they come from the data: for data without names, EBM makes them up."""
    names = [str(name) for name in model.feature_names_in_]
    if names == [f"feature_{j:04}" for j in range(len(names))]:
        return [f"x{j}" for j in range(len(names))], False
    return names, True


def _tensor(model: Any, k: int, n_outputs: int) -> Floats:
    """Scores of the k-th term, an axis per feature as the term lists them, then one of outputs."""
    features = model.term_features_[k]
    sizes = [n_places(bins_of(model, j, len(features))) for j in features]
    shape = tuple(sizes) if n_outputs == 1 else (*sizes, n_outputs)
    scores = np.asarray(model.term_scores_[k], dtype=np.float64)
    if len(set(features)) < len(features) or scores.shape != shape:
        raise UnsupportedModelError(
            f"term_scores_[{k}] must have shape {shape}, one axis per feature, got {scores.shape}; undo the edit."
        )
    return scores.reshape(*sizes, n_outputs)


def _terms(
    term_features: Sequence[Key], tensors: Sequence[Floats], features: Sequence[BinnedFeature]
) -> tuple[dict[Key, Floats], dict[Key, tuple[Binning, ...]]]:
    """All terms on the bins of their orders, and these bins; terms of the same features are added up."""
    indexes = [[features[j].coarse_index(k, len(key)) for j in key] for k, key in enumerate(term_features)]
    _check_cells(indexes, tensors)
    terms: dict[Key, Floats] = {}
    for listed, tensor, index in zip(term_features, tensors, indexes, strict=True):
        order = np.argsort(listed)
        values = _at(tensor, index).transpose([*order, len(order)])
        key = tuple(int(listed[position]) for position in order)
        terms[key] = terms[key] + values if key in terms else np.ascontiguousarray(values)
    return terms, {key: tuple(features[j].binnings[len(key)] for j in key) for key in terms}


def _at(tensor: Floats, indexes: Sequence[Ints]) -> Floats:
    """The tensor at an index per axis; one axis after the other is five times as fast as np.ix_."""
    for axis, index in enumerate(indexes):
        tensor = tensor.take(index, axis=axis)
    return tensor


def _check_cells(indexes: Sequence[Sequence[Ints]], tensors: Sequence[Floats]) -> None:
    """Raise UnsupportedModelError for terms that would not fit into memory."""
    n_cells = sum(math.prod(map(len, index)) * tensor.shape[-1] for index, tensor in zip(indexes, tensors, strict=True))
    if n_cells > _MAX_CELLS:
        raise UnsupportedModelError(
            f"the EBM's terms must have at most {_MAX_CELLS:,} cells, got {n_cells:,}; train it with smaller max_bins "
            "or max_interaction_bins, or with fewer interactions."
        )
