"""From the content of a CatBoost model to a Forest."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.data.features import Feature, Numeric, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble
from treeanova.readers.catboost.columns import HashedCategory
from treeanova.readers.catboost.model import AnyFeature, Model, NumericFeature
from treeanova.readers.catboost.splits import read_splits
from treeanova.readers.catboost.unfolding import unfold
from treeanova.readers.checks import check_values
from treeanova.readers.outputs import objective_among, objective_text, plain_labels

# The response is what the scikit-learn classes predict. Several outputs with "logit": each is a log-odds by itself, and
# the probabilities need not add up to one.
_LINKS = {
    "logit": "Logloss CrossEntropy Focal MultiClassOneVsAll MultiLogloss MultiCrossEntropy",
    "softmax": "MultiClass",
    "log": "Poisson Tweedie",
    "identity": "RMSE MAE Quantile MultiQuantile GroupQuantile Expectile Lq Huber MAPE RMSPE LogCosh MultiRMSE Cox "
    "SurvivalAft LogLinQuantile "
    "MultiRMSEWithMissingValues YetiRank YetiRankPairwise PairLogit PairLogitPairwise QueryRMSE QuerySoftMax "
    "QueryCrossEntropy StochasticFilter StochasticRank LambdaMart",
}
_OBJECTIVES = {
    "squared": "RMSE MultiRMSE",
    "absolute": "MAE",
    "pinball": "Quantile MultiQuantile",
    "expectile": "Expectile",
    "huber": "Huber",
    "mape": "MAPE",
    "log_cosh": "LogCosh",
    "poisson": "Poisson",
    "tweedie": "Tweedie",
    "log": "Logloss CrossEntropy MultiClassOneVsAll MultiLogloss MultiCrossEntropy",
    "multiclass": "MultiClass",
    "cox": "Cox",
    "aft": "SurvivalAft",
    "pairwise": "PairLogit PairLogitPairwise YetiRank YetiRankPairwise LambdaMart StochasticRank",
}
_PARAMETERS = {"pinball": "alpha", "expectile": "alpha", "huber": "delta", "tweedie": "variance_power"}
_MAX_COLUMNS = 1 << 24
_ONE_CLASS_LOSSES = {"Logloss", "Focal", "MultiClass", "MultiClassOneVsAll"}


def forest_of(model: Model) -> Forest:
    """The Forest of a model, whichever file it comes from."""
    unsorted: list[AnyFeature] = [*model.numeric, *model.categorical]
    features = sorted(unsorted, key=lambda feature: feature.flat)
    position = {feature.flat: place for place, feature in enumerate(features)}
    nodes, inner = model.nodes, model.nodes.left >= 0
    used = np.unique(nodes.split[inner])
    splits, known = read_splits(model, position, used)
    is_valid = (used >= 0) & (used < len(splits.feature) - 1)
    check_values("the model's trees must use splits that exist", used, is_valid)
    schema = _schema(model, features, known)
    missing_left = {position[feature.flat]: not feature.missing_right for feature in model.numeric}
    n_bins = {position[feature.flat]: len(known[feature.index]) + 1 for feature in model.categorical}
    nodes, splits = unfold(nodes, splits, missing_left, n_bins)
    inner = nodes.left >= 0
    split, row = np.where(inner, nodes.split, -1), np.where(inner, 0, nodes.leaf)
    check_values("the model's leaves must have values", row, (row >= 0) & (row < len(model.values)))
    return assemble(
        schema,
        _intercept(model),
        roots=nodes.roots,
        feature=splits.feature[split],
        bound=splits.bound[split],
        left=nodes.left,
        right=nodes.right,
        missing_left=splits.missing_left[split],
        values=model.values[row] * model.scale,
        leaf_label=nodes.label,
        category_start=splits.category_start[split],
        category_left=splits.category_left,
    )


def _intercept(model: Model) -> Floats:
    n_outputs = model.values.shape[1]
    if len(model.bias) == n_outputs:
        return model.bias
    if len(model.bias) != 1 or model.bias[0]:
        raise ModelFileError(
            f"the model must have a bias per output, got {len(model.bias)} for {n_outputs}; file damaged?"
        )
    return np.zeros(n_outputs)


def _schema(model: Model, features: Sequence[AnyFeature], known: Mapping[int, Ints]) -> Schema:
    names, flats = [feature.name for feature in features], [feature.flat for feature in features]
    named = all(names) and len(set(names)) == len(names) and names != [str(flat) for flat in flats]
    if len(set(flats)) != len(flats) or not 0 <= min(flats, default=0) <= max(flats, default=0) < _MAX_COLUMNS:
        raise ModelFileError(
            f"the model's features must be numbered from 0, each once, got {str(flats)[:40]}; file damaged?"
        )
    if not named and flats != list(range(len(flats))):
        raise UnsupportedModelError(
            "the model has dropped unused features and has no names for the others, so that columns cannot be matched; "
            "read it before drop_unused_features()."
        )
    names = names if named else [f"x{flat}" for flat in flats]
    return Schema(
        features=tuple(_feature(name, feature, model, known) for name, feature in zip(names, features, strict=True)),
        outputs=_outputs(model),
        link=_link(str(model.loss.get("type"))),
        named=named,
        classes=_classes(model),
        objective=_objective(model.loss),
    )


def _feature(name: str, feature: AnyFeature, model: Model, known: Mapping[int, Ints]) -> Feature:
    if isinstance(feature, NumericFeature):
        return Feature(name, Numeric())
    hashes = tuple(known[feature.index].tolist())
    labels = tuple(model.category_names.get(number, str(number)) for number in hashes)
    return Feature(name, HashedCategory(hashes, labels), accepts_missing=False)


def _link(loss: str) -> str:
    return next((link for link, losses in _LINKS.items() if loss in losses.split()), "other")


def _objective(loss: Mapping[str, Any]) -> str:
    """The loss function in the words of `validate(loss=...)`; CatBoost's defaults where nothing is stored."""
    name = objective_among(str(loss.get("type", "")), _OBJECTIVES)
    parameters = dict(loss.get("params") or {})
    if name == "aft":
        distribution = str(parameters.get("dist", "Normal")).lower()
        return objective_text(name, distribution, float(parameters.get("scale", 1)))
    if name not in _PARAMETERS:
        return name
    stated = str(parameters.get(_PARAMETERS[name], "0.5" if name in {"pinball", "expectile"} else ""))
    return objective_text(name, *map(float, stated.split(","))) if stated else str(loss["type"])


def _classes(model: Model) -> tuple[Hashable, ...]:
    """Labels of the classes of a classifier whose classes exclude each other."""
    is_one_of = model.loss.get("type") in _ONE_CLASS_LOSSES
    n_classes = max(2, model.values.shape[1])
    return plain_labels(model.class_names) if is_one_of and len(model.class_names) == n_classes else ()


def _outputs(model: Model) -> tuple[str, ...]:
    """Names of classes, quantiles or targets."""
    n_outputs, loss = model.values.shape[1], model.loss.get("type")
    if n_outputs == 1:
        return ("score",)
    names: Sequence[object] = ()
    if loss == "RMSEWithUncertainty":
        names = ["mean", "log_std"]
    elif loss == "MultiQuantile":
        names = str(dict(model.loss.get("params") or {}).get("alpha")).split(",")
    elif len(model.class_names) == n_outputs:
        names = model.class_names
    return tuple(map(str, names)) if len(names) == n_outputs else tuple(f"y{output}" for output in range(n_outputs))
