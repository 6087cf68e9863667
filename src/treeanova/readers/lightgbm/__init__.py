"""LightGBM models (Booster, its scikit-learn wrappers, text files) as a Forest.

Everything is read from LightGBM's text format: ``Booster.model_to_string()`` holds the trees up to the best iteration,
as ``predict`` uses them, with the starting score and the learning rate in the leaf values, to the last digit. The
facts that the reader relies on:

* x with abs(x) <= float32(1e-35) counts as 0, then x goes left when x <= threshold, in float64.
* `decision_type` packs: bit 0 category split, bit 1 default left, bits 2-3 missing type. None: NaN is 0. Zero: NaN and
  0 go the default way. NaN: NaN goes the default way.
* At a category split the threshold is the number of a bit set; codes in it go left, everything else (NaN, negative,
  unseen) goes right; codes are truncated to integers, so that -0.5 is category 0.
* With ``average_output`` (random forest), `predict` gives the mean of the trees and raw_score=True their sum; the
  Forest gives the mean.
* Category columns of pandas come as their codes; ``pandas_categorical`` lists the categories of each such column, in
  column order without names. Ordered ones (and those left out of ``categorical_feature=``) are split as numbers.
* Spaces in feature names became underscores when the model was trained; the schema has the names of the model.
"""

from __future__ import annotations

import functools
import itertools
import pathlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, IntegerCategory, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest, assemble
from treeanova.readers import checks
from treeanova.readers.checks import (
    block_starts,
    check_size,
    check_values,
    damage_reported,
    damaged,
    decimal_number,
)
from treeanova.readers.lightgbm.features import (
    Members,
    ModelText,
    Splits,
    encoders_of,
    feature_names,
    parse,
    read_members,
    read_splits,
    version_of,
)
from treeanova.readers.outputs import objective_text, output_names, plain_labels, word_for

_LINKS = {
    "identity": "regression regression_l1 huber fair quantile mape lambdarank rank_xendcg",
    "log": "poisson gamma tweedie",
    "logit": "binary cross_entropy multiclassova",
    "softmax": "multiclass",
}
_OBJECTIVES = {
    "squared": "regression",
    "absolute": "regression_l1",
    "huber": "huber",
    "fair": "fair",
    "pinball": "quantile",
    "mape": "mape",
    "pairwise": "lambdarank rank_xendcg",
    "poisson": "poisson",
    "gamma": "gamma",
    "tweedie": "tweedie",
    "log": "binary cross_entropy multiclassova",
    "multiclass": "multiclass",
}
_PARAMETERS = {"huber": "alpha", "fair": "fair_c", "pinball": "alpha", "tweedie": "tweedie_variance_power"}
_MULTICLASS = {"multiclass", "multiclassova"}
_MAX_ENTRIES = 1 << 28
_MAX_OUTPUTS = 100_000


def forest_of(text: ModelText, classes: Any) -> Forest:
    """The forest of a model's text. Nodes: the inner nodes of all trees, then their leaves, both tree after tree."""
    _refuse_linear(text)
    names, n_outputs = feature_names(text), _n_outputs(text)
    n_leaves, n_sets = _tree_sizes(text)
    splits = read_splits(text, n_leaves - 1, n_sets, len(names))
    members = read_members(text, splits, n_sets)
    encoders = encoders_of(text, splits, members, len(names))
    category_start, category_left = _category_tables(splits, members, encoders)
    left, right = (_children(text, key, splits.tree, n_leaves) for key in ("left_child", "right_child"))
    n_splits = len(splits.tree)
    at_leaves = np.full(int(n_leaves.sum()), -1)
    label = np.arange(len(at_leaves)) - np.repeat(block_starts(n_leaves), n_leaves)
    return assemble(
        _schema(text, names, encoders, n_outputs, classes),
        np.zeros(n_outputs),
        roots=np.where(n_leaves > 1, block_starts(n_leaves - 1), n_splits + block_starts(n_leaves)),
        feature=np.concatenate([splits.feature, at_leaves]),
        bound=np.concatenate([splits.bound, at_leaves]),
        left=np.concatenate([left, at_leaves]),
        right=np.concatenate([right, at_leaves]),
        missing_left=np.concatenate([splits.missing_left, at_leaves > 0]),
        zero_missing=np.concatenate([splits.zero_missing, at_leaves > 0]),
        category_start=np.concatenate([category_start, at_leaves]),
        category_left=category_left,
        values=_values(text, n_leaves, n_outputs),
        leaf_label=np.concatenate([np.zeros(n_splits, dtype=np.int64), label]),
    )


def _refuse_linear(text: ModelText) -> None:
    if any(tree.get("is_linear", "0") != "0" for tree in text.trees):
        raise UnsupportedModelError(
            "`model` must have constant leaves, got linear_tree=True, whose leaves are linear functions; train it "
            "without."
        )


def _n_outputs(text: ModelText) -> int:
    n_outputs = text.count("num_tree_per_iteration")
    if n_outputs > _MAX_OUTPUTS or len(text.trees) % n_outputs:
        raise damaged(f"the model must have as many trees for each of {n_outputs} outputs, got {len(text.trees)}")
    return n_outputs


def _tree_sizes(text: ModelText) -> tuple[Ints, Ints]:
    one_each = np.ones(len(text.trees), dtype=np.int64)
    n_leaves, n_sets = text.integers("num_leaves", one_each), text.integers("num_cat", one_each)
    check_values("the model's trees must have leaves", n_leaves, n_leaves >= 1)
    check_values("the model's trees must have 0 or more category sets", n_sets, n_sets >= 0)
    return n_leaves, n_sets


def _children(text: ModelText, key: str, tree: Ints, n_leaves: Ints) -> Ints:
    """Positions of children; in the text, numbers of splits of the tree, or of leaves as -1 - number."""
    child = text.integers(key, n_leaves - 1)
    n_in_tree = n_leaves[tree]
    check_values("the model's trees must link nodes that exist", child, (child < n_in_tree - 1) & (child >= -n_in_tree))
    first_split, first_leaf = block_starts(n_leaves - 1)[tree], len(tree) + block_starts(n_leaves)[tree]
    return np.where(child >= 0, first_split + child, first_leaf - 1 - child)


def _values(text: ModelText, n_leaves: Ints, n_outputs: int) -> Floats:
    """Leaf values in the columns of their outputs, zero at inner nodes; tree i belongs to output i mod n_outputs."""
    leaf_value = text.decimals("leaf_value", n_leaves)
    if "average_output" in text.header:
        leaf_value /= max(1, len(text.trees) // n_outputs)
    n_splits = len(leaf_value) - len(n_leaves)
    check_size("leaf values", (n_splits + len(leaf_value)) * n_outputs, _MAX_ENTRIES)
    values = np.zeros((n_splits + len(leaf_value), n_outputs))
    output = np.repeat(np.arange(len(n_leaves)) % n_outputs, n_leaves)
    values[n_splits + np.arange(len(leaf_value)), output] = leaf_value
    return values


def _category_tables(splits: Splits, members: Members, encoders: list[Encoder]) -> tuple[Ints, Bools]:
    """Start of each category split's table, and all tables: whether each category, last an unseen one, goes left."""
    n_categories = np.array([len(encoder.labels or ()) for encoder in encoders], dtype=np.int64)
    sizes = np.where(splits.is_category, n_categories[splits.feature] + 1, 0)
    check_size("category tables", int(sizes.sum()), _MAX_ENTRIES)
    start = block_starts(sizes)
    goes_left = np.zeros(sizes.sum(), dtype=bool)
    split, code = members
    goes_left[start[split] + _positions(splits.feature[split], code, encoders)] = True
    return np.where(splits.is_category, start, -1), goes_left


def _positions(feature: Ints, code: Ints, encoders: list[Encoder]) -> Ints:
    codes = [e.code_values if isinstance(e, IntegerCategory) else range(len(e.labels or ())) for e in encoders]
    sizes = np.array([len(one) for one in codes], dtype=np.int64)
    known = np.fromiter(itertools.chain.from_iterable(codes), np.int64, int(sizes.sum()))
    known += np.repeat(np.arange(len(codes)) << 32, sizes)
    result: Ints = np.searchsorted(known, (feature << 32) + code) - block_starts(sizes)[feature]
    return result


def _schema(text: ModelText, names: list[str], encoders: list[Encoder], n_outputs: int, classes: Any) -> Schema:
    named = names != [f"Column_{j}" for j in range(len(names))]
    names = names if named else [f"x{j}" for j in range(len(names))]
    return Schema(
        features=tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True)),
        outputs=output_names(n_outputs, () if classes is None else classes, prefix=""),
        link=_link(text.header.get("objective", ""), n_outputs),
        named=named,
        underscores=True,
        single_integers=True,
        classes=() if classes is None else plain_labels(classes),
        predicts_share=classes is None and text.header.get("objective", "").split(" ")[0] == "cross_entropy",
        objective=_objective(text),
    )


def _objective(text: ModelText) -> str:
    """The objective in the words of `validate(loss=...)`; empty for one of the user's own."""
    stated = text.header.get("objective", "")
    name, *options = stated.split() or [""]
    if _is_scaled(options):
        return stated
    words, parameter = word_for(name, _OBJECTIVES, name), ""
    if words in _PARAMETERS:
        parameter = text.tail_entry(f"[{_PARAMETERS[words]}: ", "").rstrip("]")
        words = objective_text(words, float(parameter)) if parameter else name
    return f"{words} of sqrt" if "sqrt" in options else words


def _is_scaled(options: Sequence[str]) -> bool:
    return any(option.startswith("sigmoid:") and decimal_number(option[8:]) != 1 for option in options)


def _link(objective: str, n_outputs: int) -> str:
    """The link of an objective as written in the text: its name, then options such as sigmoid:1 or sqrt."""
    name, *options = objective.split() or [""]
    link = word_for(name, _LINKS, "other")
    if not name:
        return "identity"  # a custom objective: predict returns the raw score
    if link != "other" and (n_outputs > 1) != (name in _MULTICLASS):
        raise damaged(f"a model of objective {name} cannot have {n_outputs} outputs")
    return "other" if _is_scaled(options) or "sqrt" in options else link


def read(model: Any) -> Forest:
    booster = _booster(model)
    try:
        text = booster.model_to_string()
    except (TypeError, ValueError) as error:  # categories such as intervals, which LightGBM cannot write
        raise UnsupportedModelError(
            f"`model` must be one that LightGBM can save, got {type(error).__name__} ({error}); train on text "
            "categories."
        ) from error
    classes = getattr(model, "classes_", None)
    return checks.read_live(
        "lightgbm",
        lambda: forest_of(parse(text), classes),
        lambda forest: functools.partial(_score_of, booster, forest),
    )


def read_file(path: str | pathlib.Path) -> Forest:
    """The Forest of a model saved by ``Booster.save_model``; LightGBM itself is not needed."""
    path = pathlib.Path(path)
    with damage_reported("a LightGBM text model", path):
        text = path.read_bytes().decode().replace("\r\n", "\n")
        return checks.read_stored(
            "lightgbm text",
            version_of(text),
            lambda: forest_of(parse(text), None),
            lambda library, forest: _load(library, text, forest),
        )


def _load(library: Any, text: str, forest: Forest) -> checks.Predict | None:
    """LightGBM's prediction for a model's text, None if it writes an earlier format itself."""
    booster = library.Booster(model_str=text)
    if version_of(booster.model_to_string()) < version_of(text):
        return None
    return functools.partial(_score_of, booster, forest)


def _score_of(booster: Any, forest: Forest, rows: Floats) -> Floats:
    raw = rows.copy()
    for j, feature in enumerate(forest.schema.features):
        if isinstance(feature.encoder, IntegerCategory):
            known = np.isfinite(rows[:, j])
            codes = np.append(feature.encoder.code_values, max(feature.encoder.code_values, default=-1) + 1)
            raw[known, j] = codes[rows[known, j].astype(np.int64)]
    score = np.asarray(booster.predict(raw, raw_score=True), dtype=np.float64).reshape(len(rows), -1)
    is_mean = "\naverage_output\n" in booster.model_to_string(num_iteration=1)
    return score / max(1, forest.n_trees // forest.n_outputs) if is_mean else score


def _booster(model: Any) -> Any:
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


__all__ = ["read", "read_file"]
