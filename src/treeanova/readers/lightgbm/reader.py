"""Reads LightGBM models in memory and in text files."""

from __future__ import annotations

import functools
import pathlib
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers import versions
from treeanova.readers.checks import damage_reported
from treeanova.readers.lightgbm.columns import ListedCodes
from treeanova.readers.lightgbm.forest import forest_of
from treeanova.readers.lightgbm.text import parse, version_of


def read(model: Any) -> Forest:
    """The Forest of a fitted Booster, LGBMRegressor, LGBMClassifier or LGBMRanker."""
    booster = _booster(model)
    try:
        text = booster.model_to_string()
    except (TypeError, ValueError) as error:  # categories such as intervals, which LightGBM cannot write
        raise UnsupportedModelError(
            f"`model` must be one that LightGBM can save, got {type(error).__name__} ({error}); train on text "
            "categories."
        ) from error
    classes = getattr(model, "classes_", None)
    return versions.read_live(
        "lightgbm",
        lambda: forest_of(parse(text), classes),
        lambda forest: functools.partial(_score_of, booster, forest),
    )


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a model saved by ``Booster.save_model``; LightGBM itself is not needed."""
    path = pathlib.Path(path)
    with damage_reported("a LightGBM text model", path):
        text = path.read_bytes().decode().replace("\r\n", "\n")
        return versions.read_stored(
            "lightgbm text",
            version_of(text),
            lambda: forest_of(parse(text), None),
            lambda library, forest: _load(library, text, forest),
        )


def _load(library: Any, text: str, forest: Forest) -> versions.Predict | None:
    """LightGBM's prediction for a model's text, None if it writes an earlier format itself."""
    booster = library.Booster(model_str=text)
    if version_of(booster.model_to_string()) < version_of(text):
        return None
    return functools.partial(_score_of, booster, forest)


def _score_of(booster: Any, forest: Forest, rows: Floats) -> Floats:
    """LightGBM's score of encoded rows: the mean of the trees of a random forest, else their sum."""
    raw = rows.copy()
    for j, feature in enumerate(forest.schema.features):
        if isinstance(feature.encoder, ListedCodes):
            known = np.isfinite(rows[:, j])
            codes = np.append(feature.encoder.codes, max(feature.encoder.codes, default=-1) + 1)
            raw[known, j] = codes[rows[known, j].astype(np.int64)]
    score = np.asarray(booster.predict(raw, raw_score=True), dtype=np.float64).reshape(len(rows), -1)
    is_mean = "\naverage_output\n" in booster.model_to_string(num_iteration=1)
    return score / max(1, forest.n_trees // forest.n_outputs) if is_mean else score


def _booster(model: Any) -> Any:
    """The Booster inside a model."""
    if isinstance(getattr(model, "boosters", None), list):
        raise UnsupportedModelError(
            f"`model` must be one model, got a CVBooster of {len(model.boosters)}; pass one of its `boosters`."
        )
    if hasattr(model, "model_to_string"):
        return model
    if not hasattr(model, "fit"):
        raise UnsupportedModelError(f"`model` must be a LightGBM Booster or estimator, got {type(model).__qualname__}.")
    if model.get_params().get("pred_early_stop"):
        raise UnsupportedModelError(
            "`model` must use all its trees, got pred_early_stop=True, which skips trees row by row; "
            "pass `model.booster_` for the sum of all trees."
        )
    booster = getattr(model, "booster_", None)
    if booster is None:
        raise UnsupportedModelError(f"`model` must be fitted, got a new {type(model).__qualname__}; fit it first.")
    return booster
