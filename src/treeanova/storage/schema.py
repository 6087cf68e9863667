"""Schemas, features and encoders as plain data: files name types by stable tags, so that modules can move."""

from __future__ import annotations

import dataclasses
import importlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from treeanova.data.dates import UNITS
from treeanova.data.features import Schema, same
from treeanova.storage.plain import make

# Tags in files, and the class of each: a class may move or be renamed, its tag stays.
_CLASSES = {
    "schema": "data.features:Schema",
    "feature": "data.features:Feature",
    "number": "data.features:Numeric",
    "integer-category": "data.features:IntegerCategory",
    "labels": "data.features:Labels",
    "date-number": "data.dates:DateNumber",
    "double-number": "readers.columnwise.columns:DoubleNumber",
    "encoded-labels": "readers.columnwise.columns:EncodedLabels",
    "labels-or-none": "readers.sklearn.columns:LabelsWithNone",
    "ebm-number": "readers.ebm.columns:NumberOrText",
    "ebm-text": "readers.ebm.columns:TextCategory",
    "ebm-unread": "readers.ebm.columns:IgnoredColumn",
    "lightgbm-codes": "readers.lightgbm.columns:ListedCodes",
    "lightgbm-category": "readers.lightgbm.columns:PandasCategory",
    "lightgbm-ordered-category": "readers.lightgbm.columns:OrderedCategory",
    "catboost-hash": "readers.catboost.columns:HashedCategory",
    "treelite-codes": "readers.treelite.columns:UnsignedCodes",
    "ydf-text": "readers.ydf.columns:TextItems",
    "xgboost-number": "readers.xgboost.columns:Number",
    "xgboost-codes": "readers.xgboost.columns:CodedCategory",
    "xgboost-category": "readers.xgboost.columns:NamedCategory",
}
# Files of schema 1 name Python classes instead.
_CLASSES_OF_SCHEMA_1 = {
    "treeanova.features:Schema": "schema",
    "treeanova.features:Feature": "feature",
    "treeanova.features:Numeric": "number",
    "treeanova.features:Codes": "integer-category",
    "treeanova.features:Labels": "labels",
    "treeanova.readers.sklearn:LabelsWithNone": "labels-or-none",
    "treeanova.readers.ebm:_Numbers": "ebm-number",
    "treeanova.readers.ebm:_Texts": "ebm-text",
    "treeanova.readers.ebm:_Unread": "ebm-unread",
    "treeanova.readers.lightgbm:_GivenCodes": "lightgbm-codes",
    "treeanova.readers.lightgbm:_PandasCategory": "lightgbm-category",
    "treeanova.readers.lightgbm:_OrderedCategory": "lightgbm-ordered-category",
    "treeanova.readers.catboost:Hashed": "catboost-hash",
    "treeanova.readers.xgboost_columns:Number": "xgboost-number",
    "treeanova.readers.xgboost_columns:CodedCategory": "xgboost-codes",
    "treeanova.readers.xgboost_columns:NamedCategory": "xgboost-category",
}
_LINKS = ("identity", "logit", "softmax", "log", "probability", "other")
_MOST_CODES = 1 << 22  # without names, so that a small file cannot fill the memory with labels
_TAGS = {home: tag for tag, home in _CLASSES.items()}


def describe(value: Any) -> Any:
    """Plain data of a schema, a feature, an encoder or a field of these, for a file; `restore` reverses this."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {f.name: describe(getattr(value, f.name)) for f in dataclasses.fields(value) if f.init}
        return {"type": _tag_of(type(value)), "fields": fields}
    if isinstance(value, (tuple, list)):
        return {"tuple": [describe(item) for item in value]}
    if value is same:
        return {"same": None}
    plain = value.item() if isinstance(value, np.generic) else value
    if plain is None or isinstance(plain, (bool, int, float, str)):
        return plain
    raise TypeError(
        f"categories must be text, numbers or booleans to be saved, got {value!r}; rename them before training."
    )


def _tag_of(kind: type) -> str:
    home = f"{kind.__module__.removeprefix('treeanova.')}:{kind.__qualname__}"
    if home not in _TAGS:
        raise TypeError(f"only treeanova's own features can be saved, got {kind.__name__}; save the model instead.")
    return _TAGS[home]


def restore(plain: Any) -> Any:
    """The object that `describe` turned into plain data; only classes listed above are created."""
    if not isinstance(plain, dict):
        return plain
    if "tuple" in plain:
        return tuple(restore(item) for item in _listed(plain["tuple"]))
    if "same" in plain:
        return same
    return make(_class_of(plain), {key: restore(value) for key, value in plain["fields"].items()})


def check_schema(schema: Schema) -> None:
    """Raise ValueError for a schema that cannot be saved, or that a file cannot have."""
    if schema.link not in _LINKS or not schema.outputs:
        raise ValueError(f"a schema must have outputs and a known link to be saved, got {schema.link!r}.")
    if schema.trained_names and len(schema.trained_names) != len(schema.features):
        raise ValueError("a schema must have as many names as features to be saved.")
    for feature in schema.features:
        unit, n_codes = feature.encoder.date_unit, getattr(feature.encoder, "n_categories", 0)
        if unit and unit not in UNITS:
            raise ValueError(f"feature {feature.name!r} must have a known unit of dates, got {unit!r}.")
        if not 0 <= n_codes <= _MOST_CODES:
            raise ValueError(
                f"feature {feature.name!r} must have at most {_MOST_CODES:,} categories to be saved, got {n_codes:,}."
            )


def _listed(plain: Any) -> list[Any]:
    if not isinstance(plain, list):
        raise TypeError("the items of a saved schema must be listed")
    return plain


def _class_of(plain: Mapping[str, Any]) -> type:
    tag = plain["type"] if "type" in plain else _CLASSES_OF_SCHEMA_1.get(str(plain["class"]))
    if tag not in _CLASSES:
        raise ValueError(f"a saved schema must hold treeanova's own types, got {plain.get('class', tag)!r}.")
    module, _, name = _CLASSES[tag].partition(":")
    kind: type = getattr(importlib.import_module(f"treeanova.{module}"), name)
    return kind
