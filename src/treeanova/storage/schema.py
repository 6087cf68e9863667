"""Schemas, features and encoders as plain data: files name types by stable tags, so that modules can move."""

from __future__ import annotations

import collections.abc
import dataclasses
import functools
import importlib
import types
import typing
from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Key
from treeanova.data.features import UNITS, Schema, is_writable

_LARGEST = 2**62
_SCALARS = (bool, int, float, str)


def make(kind: Any, fields: Mapping[str, Any]) -> Any:
    """An instance of a dataclass or named tuple; TypeError where a field does not have its annotated type."""
    hints = _hints(kind)
    for name, value in fields.items():
        if name not in hints or not _fits(value, hints[name]):
            raise TypeError(f"{kind.__name__}.{name} must be {hints.get(name, 'a known field')}, got {value!r:.100}")
    return kind(**fields)


def check_fields(kind: Any, fields: Mapping[str, Any]) -> None:
    """Raise TypeError where values do not have the types of a dataclass's fields of these names."""
    hints = _hints(kind)
    wrong = [name for name, value in fields.items() if not _fits(value, hints[name])]
    if wrong:
        raise TypeError(f"{kind.__name__}.{wrong[0]} must be {hints[wrong[0]]}, got {fields[wrong[0]]!r:.100}")


@functools.cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


def _fits(value: Any, hint: Any) -> bool:  # noqa: PLR0911  a line per kind of type
    """Whether a value from a file has an annotated type; booleans are no numbers here."""
    origin, inner = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return any(_fits(value, one) for one in inner)
    if origin is tuple:
        each = [inner[0]] * len(value) if inner[-1] is ... and isinstance(value, tuple) else inner
        return isinstance(value, tuple) and len(value) == len(each) and all(map(_fits, value, each))
    if origin is collections.abc.Mapping:
        return isinstance(value, dict) and all(_fits(k, inner[0]) and _fits(v, inner[1]) for k, v in value.items())
    if hint is Any or hint is Hashable:
        return value is None or isinstance(value, tuple) or _is_scalar(value)
    if hint is float:
        return type(value) is float or (type(value) is int and abs(value) < _LARGEST)
    if hint in _SCALARS:
        return type(value) is hint and _is_scalar(value)
    return isinstance(value, hint)


def _is_scalar(value: Any) -> bool:
    """Whether a value is a boolean, a text that can be written, or a number that NumPy can hold."""
    if type(value) is int:
        return abs(value) < _LARGEST
    return type(value) in _SCALARS and (type(value) is not str or is_writable(value))


def whole(value: Any, low: int = 0, high: int = _LARGEST) -> int:
    """A whole number from a file; ValueError where it is another thing or out of range."""
    if type(value) is not int or not low <= value <= high:
        raise ValueError(f"a number in a file must be whole and from {low} to {high}, got {value!r:.100}")
    return value


def key_of(plain: Any, n_features: int) -> Key:
    """Positions of the features of a term, ascending; ValueError where they are not."""
    key = tuple(whole(j, 0, n_features - 1) for j in plain)
    if not key or list(key) != sorted(set(key)):
        raise ValueError(f"the features of a term must ascend, got {key}")
    return key


def check_measures(measured: Any, but: Sequence[str] = ()) -> None:
    """Raise ValueError where a number of a dataclass is negative; NaN is one that was not measured."""
    for field in dataclasses.fields(measured):
        value = getattr(measured, field.name)
        if field.name not in but and isinstance(value, int | float) and value < 0:
            raise ValueError(f"{field.name} must not be negative, got {value}")


def finite(array: Any, shape: tuple[int, ...] | None = None) -> Any:
    """The array itself; ValueError where it does not hold finite floats, or has another shape than a given one."""
    if array.dtype != np.float64 or (shape is not None and array.shape != shape) or not np.isfinite(array).all():
        raise ValueError(f"arrays must hold finite numbers, of shape {shape or array.shape}")
    return array


def masses(array: Any, shape: tuple[int, ...] | None = None) -> Any:
    """The array itself; ValueError where it does not hold finite masses, some of them positive."""
    if finite(array, shape).size and ((array < 0).any() or not 0 < array.sum() < np.inf):
        raise ValueError("masses must not be negative, and have a positive sum")
    return array


def integers(array: Any) -> Any:
    """The array as int64; ValueError where it holds other things than integers."""
    if array.dtype.kind not in "iu" or (array.size and int(array.max()) >= _LARGEST):
        raise ValueError(f"positions and counts must be integers, got {array.dtype}")
    return array.astype(np.int64)


# Tags in files, and the class of each: a class may move or be renamed, its tag stays.
_CLASSES = {
    "schema": "data.features:Schema",
    "feature": "data.features:Feature",
    "number": "data.features:Numeric",
    "integer-category": "data.features:IntegerCategory",
    "labels": "data.features:Labels",
    "date-number": "data.features:DateNumber",
    "ignored-column": "data.features:IgnoredColumn",
    "catboost-hash": "readers.catboost:HashedCategory",
    "xgboost-category": "readers.xgboost.nodes:NamedCategory",
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
