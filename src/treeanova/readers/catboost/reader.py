"""Reads CatBoost models in memory and in files."""

from __future__ import annotations

import functools
import pathlib
import re
import sys
import tempfile
from typing import Any

from treeanova.core.arrays import Floats
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers import versions
from treeanova.readers.catboost.cbm import from_cbm
from treeanova.readers.catboost.forest import forest_of
from treeanova.readers.catboost.json_model import from_json
from treeanova.readers.checks import damage_reported, parsed_json

_KIND = "a CatBoost model"


def read(model: Any) -> Forest:
    """The Forest of a fitted CatBoostRegressor, CatBoostClassifier, CatBoostRanker or CatBoost."""
    if not model.is_fitted():
        raise UnsupportedModelError(f"`model` must be fitted, got an unfitted {type(model).__name__}; fit it first.")
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.cbm"
        model.save_model(str(path), format="cbm")
        data = path.read_bytes()
    with damage_reported(_KIND):
        return versions.read_live(
            "catboost",
            lambda: _read_bytes(data, is_json=False),
            lambda forest: functools.partial(_score_of, sys.modules["catboost"], model, forest),
        )


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a model saved as .cbm or as .json; CatBoost itself is not needed."""
    path = pathlib.Path(path)
    data = path.read_bytes()
    version = _version(data)
    with damage_reported(_KIND, path):
        return versions.read_stored(
            "catboost",
            version,
            lambda: _read_bytes(data, is_json=_is_json(path.name)),
            lambda library, forest: _load(library, path, version, forest),
        )


def _version(data: bytes) -> tuple[int, ...]:
    """The release that wrote a file, from its notes; empty if they name none."""
    match = re.search(rb"Branch: tags/v([0-9.]{1,20})", data)
    return versions.numbers(match[1].decode().rstrip(".")) if match else ()


def _load(library: Any, path: pathlib.Path, version: tuple[int, ...], forest: Forest) -> versions.Predict | None:
    """CatBoost's prediction for a file, None if CatBoost is older than the file."""
    if versions.numbers(library.__version__) < version:
        return None
    model = library.CatBoost()
    model.load_model(str(path), format="json" if _is_json(path.name) else "cbm")
    return functools.partial(_score_of, library, model, forest)


def _score_of(library: Any, model: Any, forest: Forest, rows: Floats) -> Any:
    """CatBoost's score of encoded rows; its models store no names of categories, so that all of them are unseen."""
    schema = forest.schema
    pool = library.Pool(
        versions.raw_rows(schema, rows),
        cat_features=[j for j, feature in enumerate(schema.features) if feature.is_category],
        feature_names=list(schema.names) if schema.named else None,
    )
    return library.CatBoost.predict(model, pool, prediction_type="RawFormulaVal")


def _is_json(name: str) -> bool:
    return name.lower().endswith(".json")


def _read_bytes(data: bytes, *, is_json: bool) -> Forest:
    return forest_of(from_json(parsed_json(data)) if is_json else from_cbm(data))
