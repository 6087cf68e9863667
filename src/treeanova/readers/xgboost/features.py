"""The features of an XGBoost model: names, kinds, and the stored names of their categories."""

from __future__ import annotations

import contextlib
import itertools

import numpy as np

from treeanova.data.features import Encoder, Feature
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.checks import check_values
from treeanova.readers.xgboost.columns import CodedCategory, NamedCategory, Number, Reading, singles
from treeanova.readers.xgboost.document import Document, count_of, tree_model
from treeanova.readers.xgboost.nodes import Nodes

_MAX_FEATURES = 1 << 20
_MAX_CATEGORIES = 1 << 20


def features_of(learner: Document, nodes: Nodes, missing: float, *, counts_bytes: bool) -> tuple[Feature, ...]:
    """The features; `counts_bytes` tells whether the names of categories were stored whole."""
    n_features = count_of(learner["learner_model_param"], "num_feature")
    if not 0 < n_features <= _MAX_FEATURES:
        raise UnsupportedModelError(f"an XGBoost model must have 1 to {_MAX_FEATURES} features, got {n_features}.")
    names = _per_feature(learner, "feature_names", n_features) or [f"x{j}" for j in range(n_features)]
    n_codes = _n_codes(nodes, _per_feature(learner, "feature_types", n_features), n_features)
    stored = tree_model(learner).get("cats", {}).get("enc", [])
    if len(stored) not in {0, n_features}:
        raise ModelFileError(f"cats must have {n_features} entries, one per feature, got {len(stored)}; file damaged?")
    single = float(singles(missing))
    readings = [_readings(category_names)[:: -1 if counts_bytes else 1] for category_names in stored]
    encoders = [_encoder(n, ways, single) for n, ways in zip(n_codes, readings or [()] * n_features, strict=True)]
    return tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True))


def _per_feature(learner: Document, key: str, n_features: int) -> list[str]:
    texts = learner.get(key, [])
    if len(texts) not in {0, n_features} or not all(isinstance(text, str) for text in texts):
        raise ModelFileError(f"{key} must be {n_features} texts, got {str(texts)[:40]}; file damaged?")
    return list(texts)


def _n_codes(nodes: Nodes, types: list[str], n_features: int) -> list[int]:
    """For each feature one more than the largest code in its lists; -1 for a numeric one."""
    _check_splits(nodes, n_features)
    inner, is_category = nodes.is_inner, nodes.is_category
    result = np.array([0 if kind == "c" else -1 for kind in types] or [-1] * n_features)
    result[nodes.feature[inner & is_category]] = 0
    by_number = nodes.feature[inner & ~is_category]
    if (result[by_number] >= 0).any():
        raise UnsupportedModelError(
            "an XGBoost model must split a feature either by number or by category, got both for feature "
            f"{by_number[result[by_number] >= 0][0]}; train it in one go."
        )
    owner = np.repeat(nodes.listed, nodes.listed_sizes)
    codes, owner = nodes.categories[inner[owner]], owner[inner[owner]]
    np.maximum.at(result, nodes.feature[owner], codes + 1)
    return [int(count) for count in result]


def _check_splits(nodes: Nodes, n_features: int) -> None:
    """Features, thresholds and categories are in range."""
    feature = nodes.feature[nodes.is_inner]
    check_values(f"split_indices must be below {n_features}", feature, (feature >= 0) & (feature < n_features))
    threshold = nodes.condition[nodes.is_inner & ~nodes.is_category]
    # Nothing is below -inf, which a closed bound cannot express.
    check_values("thresholds must be numbers above -inf", threshold, ~np.isneginf(threshold))
    check_values("categories must not be negative", nodes.categories, nodes.categories >= 0)
    if (nodes.categories >= _MAX_CATEGORIES).any():
        raise UnsupportedModelError(
            f"an XGBoost model must have codes of categories below {_MAX_CATEGORIES}, got {nodes.categories.max()}; "
            "number the categories from 0 on."
        )


def _encoder(n_codes: int, readings: tuple[Reading, ...], missing: float) -> Encoder:
    if readings:
        n_names = len(readings[0].names)
        if n_codes > n_names:
            raise ModelFileError(
                f"categories must be below {n_names}, which have names, got {n_codes - 1}; file damaged?"
            )
        return NamedCategory(tuple((reading.names, reading.lengths) for reading in readings), missing)
    return Number(missing) if n_codes < 0 else CodedCategory(n_codes, missing)


def _readings(stored: Document) -> tuple[Reading, ...]:
    """The possible readings of the stored names of a feature's categories; none for a numeric feature."""
    values = np.asarray(stored["values"])
    if len(values) and values.dtype.kind not in "iu":
        raise ModelFileError(f"categories must be named by text or by integers, got {values.dtype}; file damaged?")
    if "offsets" not in stored:
        return (Reading(tuple(values.tolist())),)
    offsets = np.asarray(stored["offsets"], dtype=np.int64)
    if len(offsets) < 2:
        return ()
    if offsets[0] != 0 or (np.diff(offsets) < 0).any() or offsets[-1] != len(values):
        raise ModelFileError(
            f"offsets of category names must ascend from 0 to {len(values)}, got {str(offsets)[:40]}; file damaged?"
        )
    return _text_readings(values.astype(np.int8).tobytes(), offsets.tolist())


def _text_readings(data: bytes, offsets: list[int]) -> tuple[Reading, ...]:
    """Names of categories from UTF-8 bytes.

    From polars and arrow, offsets count bytes. From pandas, XGBoost before 3.4 counts characters and cuts the bytes to
    that number, so that beyond ASCII the last names are known by their length and at most a beginning. Both may be
    possible, also in later files: names stay as they are when a later XGBoost saves a model again.
    """
    pieces = list(itertools.pairwise(offsets))
    windows = [data[a:b] for a, b in pieces]
    if len(set(windows)) < len(windows):
        raise UnsupportedModelError(
            "an XGBoost model must have different names for its categories, got equal ones: XGBoost cuts names beyond "
            "ASCII and confuses them when it predicts for a table; rename the categories and train it again."
        )
    text = data.decode("utf-8", errors="ignore")
    readings = [Reading(tuple(text[a:b] for a, b in pieces), tuple(b - a for a, b in pieces))]
    with contextlib.suppress(UnicodeDecodeError):
        names = tuple(window.decode("utf-8") for window in windows)
        readings.append(Reading(names, tuple(len(name) for name in names)))
    return tuple(dict.fromkeys(readings))
