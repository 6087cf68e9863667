"""Reads XGBoost models in memory and in files."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Floats
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers import versions
from treeanova.readers.checks import damage_reported, whole_number
from treeanova.readers.xgboost import ubjson
from treeanova.readers.xgboost.document import Document, learner_of, parse
from treeanova.readers.xgboost.forest import forest_of
from treeanova.readers.xgboost.margin import predicted_margin, stored_margin

_KIND = "an XGBoost model"


def read(model: Any) -> Forest:
    """The Forest of a fitted Booster or scikit-learn wrapper, with the trees that its `predict` uses.

    Raises UnsupportedModelError for models that are not fitted and for those that are not sums of trees.
    """
    booster = _booster(model)
    last = None if model is booster else getattr(model, "best_iteration", None)
    return versions.read_live(
        "xgboost", lambda: _read_live(model, booster, last), lambda _: functools.partial(_margin_of, booster, last)
    )


def _read_live(model: Any, booster: Any, last: int | None) -> Forest:
    raw, missing = _raw(booster), getattr(model, "missing", np.nan)
    with damage_reported(_KIND):
        document = ubjson.decode(raw)
        learner = learner_of(document)
        return forest_of(
            learner,
            document["version"],
            margin=predicted_margin(booster, learner, document["version"]),
            last=last,
            missing=np.nan if missing is None else float(missing),
            is_custom=callable(getattr(model, "objective", None)),
        )


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a file that ``save_model`` wrote as .json or .ubj; XGBoost itself is not needed.

    A file does not hold the wrappers' ``missing``: missing values are NaN here.
    """
    path = pathlib.Path(path)
    data = path.read_bytes()
    with damage_reported(_KIND, path):
        document = parse(data)
        version = tuple(map(whole_number, document["version"]))
        last = _best_iteration(document)
        return versions.read_stored(
            "xgboost",
            version,
            lambda: _read_document(document, last),
            lambda library, _: _load(library, data, version, last),
        )


def _load(library: Any, data: bytes, version: tuple[int, ...], last: int | None) -> versions.Predict | None:
    """XGBoost's prediction for a file, None if XGBoost is older than the file."""
    if versions.numbers(library.__version__) < version:
        return None
    return functools.partial(_margin_of, library.Booster(model_file=bytearray(data)), last)


def _best_iteration(document: Document) -> int | None:
    """The last iteration that a wrapper predicts with; None for a plain Booster, which uses all of them."""
    attributes = document["learner"].get("attributes", {})
    best = attributes.get("best_iteration") if "scikit_learn" in attributes else None
    return None if best is None else whole_number(best)


def _read_document(document: Document, last: int | None) -> Forest:
    learner = learner_of(document)
    return forest_of(
        learner,
        document["version"],
        margin=stored_margin(learner, document["version"]),
        last=last,
        missing=np.nan,
        is_custom=False,
    )


def _margin_of(booster: Any, last: int | None, rows: Floats) -> npt.ArrayLike:
    """XGBoost's raw prediction of encoded rows."""
    margin: npt.ArrayLike = booster.inplace_predict(
        rows, iteration_range=(0, 0 if last is None else last + 1), predict_type="margin", validate_features=False
    )
    return margin


def _booster(model: Any) -> Any:
    """The Booster of a wrapper, or the model itself."""
    if not hasattr(model, "get_booster"):
        if not hasattr(model, "save_raw"):
            raise UnsupportedModelError(f"an XGBoost model must be a Booster or a wrapper, got {type(model).__name__}.")
        return model
    try:
        return model.get_booster()
    except ValueError as error:  # scikit-learn's NotFittedError
        raise UnsupportedModelError(f"{type(model).__name__} must be fitted, got it unfitted; fit it first.") from error


def _raw(booster: Any) -> bytes:
    try:
        return bytes(booster.save_raw("ubj"))
    except ValueError as error:  # XGBoostError
        if "0 feature" not in str(error):
            raise
        raise UnsupportedModelError("Booster must be fitted, got one without features; fit it first.") from error
