"""Where XGBoost's sum of trees starts: the base margin, from the stored base score or from XGBoost itself."""

from __future__ import annotations

import ctypes
import json
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.errors import UnsupportedModelError
from treeanova.readers.outputs import objective_among, objective_text
from treeanova.readers.xgboost.columns import Singles
from treeanova.readers.xgboost.document import Document, count_of, tree_model

_LOGISTIC = {"binary:logistic", "reg:logistic"}
_LOG = {"count:poisson", "reg:gamma", "reg:tweedie", "survival:aft", "survival:cox"}
_SOFTMAX = {"multi:softprob", "multi:softmax"}
_IDENTITY = {
    "binary:logitraw",
    "rank:map",
    "rank:ndcg",
    "rank:pairwise",
    "reg:absoluteerror",
    "reg:linear",
    "reg:pseudohubererror",
    "reg:quantileerror",
    "reg:squarederror",
    "reg:squaredlogerror",
}
_OBJECTIVES = {
    "squared": "reg:squarederror reg:linear",
    "log": "binary:logistic reg:logistic binary:logitraw",
    "multiclass": "multi:softprob multi:softmax",
    "poisson": "count:poisson",
    "gamma": "reg:gamma",
    "tweedie": "reg:tweedie",
    "absolute": "reg:absoluteerror",
    "pseudo_huber": "reg:pseudohubererror",
    "pinball": "reg:quantileerror",
    "cox": "survival:cox",
    "aft": "survival:aft",
    "pairwise": "rank:pairwise rank:ndcg rank:map",
}
# The margin is a plain sum; `predict` turns it into 0 or 1, which is no link.
_OTHER = {"binary:hinge"}


def link_of(learner: Document) -> str:
    """The link of the model's objective."""
    name = objective_of(learner)
    links = {"logit": _LOGISTIC, "softmax": _SOFTMAX, "log": _LOG, "identity": _IDENTITY}
    return next((link for link, names in links.items() if name in names), "other")


def objective_of(learner: Document) -> str:
    """Name of the model's objective."""
    return str(learner["objective"]["name"])


def objective_words(learner: Document) -> str:
    """The model's objective in the words of `validate(loss=...)`."""
    stated = learner["objective"]
    name = objective_among(objective_of(learner), _OBJECTIVES)
    if name == "pinball":
        return objective_text(name, *json.loads(stated["quantile_loss_param"]["quantile_alpha"]))
    if name == "tweedie":
        return objective_text(name, float(stated["tweedie_regression_param"]["tweedie_variance_power"]))
    if name == "pseudo_huber":
        return objective_text(name, float(stated["pseudo_huber_param"]["huber_slope"]))
    if name == "aft":
        parameters = stated["aft_loss_param"]
        return objective_text(
            name, parameters["aft_loss_distribution"], float(parameters["aft_loss_distribution_scale"])
        )
    return name


def stored_margin(learner: Document, version: Any) -> Floats:
    """The base margin from the stored base score, in float32 as XGBoost computes it."""
    name = objective_of(learner)
    if name not in _LOGISTIC | _LOG | _SOFTMAX | _IDENTITY | _OTHER:
        raise UnsupportedModelError(
            f"an XGBoost file must have a known objective, got {name!r}, whose base score could mean anything; pass "
            "the loaded model."
        )
    if name == "binary:logitraw" and tuple(version) < (3, 2):
        raise UnsupportedModelError(
            "an XGBoost file with objective 'binary:logitraw' must be of version 3.2 or later, got "
            f"{'.'.join(map(str, version))}, whose base score may mean something else; pass the loaded model."
        )
    score = json.loads(learner["learner_model_param"]["base_score"])
    base = np.asarray(score, dtype=np.float64).astype(np.float32).reshape(-1)
    with np.errstate(all="ignore"):
        margin = _logit(base) if name in _LOGISTIC else _log(base) if name in _LOG else base
    return margin.astype(np.float64)


def predicted_margin(booster: Any, learner: Document, version: Any) -> Floats:
    """The base margin as XGBoost gives it: what the model without its trees predicts."""
    model = {**tree_model(learner), "trees": [], "tree_info": [], "iteration_indptr": [0]}
    model.pop("weight_drop", None)
    model["gbtree_model_param"] = {**model["gbtree_model_param"], "num_trees": "0"}
    model["cats"] = {"enc": [], "feature_segments": [], "sorted_idx": []}
    bare = {
        **learner,
        "attributes": {},
        "feature_names": [],
        "feature_types": [],
        "gradient_booster": {"name": "gbtree", "model": model},
        # otherwise XGBoost estimates the base score again
        "learner_model_param": {**learner["learner_model_param"], "boost_from_average": "0"},
    }
    text = json.dumps({"learner": bare, "version": version}, default=lambda array: array.tolist())
    treeless = type(booster)(model_file=bytearray(text, "utf-8"))
    row = np.zeros((1, count_of(learner["learner_model_param"], "num_feature")), dtype=np.float32)
    return np.asarray(treeless.inplace_predict(row, predict_type="margin"), dtype=np.float64).reshape(-1)


def _log(values: Singles) -> Singles:
    """float32 logarithms by the C library's logf, which XGBoost calls; logarithms rounded once differ in 1 of 100."""
    try:
        logf = ctypes.CDLL(None).logf
    except (AttributeError, OSError, TypeError):  # the library cannot be loaded: at most one unit in the last place
        return np.log(values.astype(np.float64)).astype(np.float32)
    logf.argtypes, logf.restype = [ctypes.c_float], ctypes.c_float
    return np.array([logf(value) for value in values], dtype=np.float32)


def _logit(base: Singles) -> Singles:
    one, least = np.float32(1), np.float32(1e-6)
    return -_log(one / np.clip(base, least, one - least) - one)
