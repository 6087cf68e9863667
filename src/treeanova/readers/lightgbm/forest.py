"""From the text of a LightGBM model to a Forest."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Encoder, Feature, Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble
from treeanova.readers.checks import block_starts, check_size, check_values, decimal_number
from treeanova.readers.lightgbm.columns import ListedCodes
from treeanova.readers.lightgbm.features import encoders_of, feature_names
from treeanova.readers.lightgbm.splits import Members, Splits, read_members, read_splits
from treeanova.readers.lightgbm.text import ModelText
from treeanova.readers.outputs import objective_among, objective_text, plain_labels

_LINKS = {
    **dict.fromkeys(["regression", "regression_l1", "huber", "fair", "quantile", "mape"], "identity"),
    **dict.fromkeys(["lambdarank", "rank_xendcg"], "identity"),
    **dict.fromkeys(["poisson", "gamma", "tweedie"], "log"),
    **dict.fromkeys(["binary", "cross_entropy"], "logit"),
    "multiclass": "softmax",
    "multiclassova": "logit",
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
        raise ModelFileError(
            f"the model must have as many trees for each of {n_outputs} outputs, got {len(text.trees)}; file damaged?"
        )
    return n_outputs


def _tree_sizes(text: ModelText) -> tuple[Ints, Ints]:
    """Numbers of leaves and of category sets of each tree."""
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
    goes_left[start[members.split] + _positions(splits.feature[members.split], members.code, encoders)] = True
    return np.where(splits.is_category, start, -1), goes_left


def _positions(feature: Ints, code: Ints, encoders: list[Encoder]) -> Ints:
    """Positions of codes among the categories of their features."""
    codes = [e.codes if isinstance(e, ListedCodes) else range(len(e.labels or ())) for e in encoders]
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
        outputs=_outputs(n_outputs, classes),
        link=_link(text.header.get("objective", ""), n_outputs),
        named=named,
        underscores=True,
        single_integers=True,
        classes=() if classes is None else plain_labels(classes),
        predicts_share=classes is None and _name(text.header) == "cross_entropy",
        objective=_objective(text),
    )


def _outputs(n_outputs: int, classes: Any) -> tuple[str, ...]:
    if n_outputs == 1:
        return ("score",)
    is_known = classes is not None and len(classes) == n_outputs
    return tuple(str(name) for name in (classes if is_known else range(n_outputs)))


def _name(header: Mapping[str, str]) -> str:
    """Name of the objective, without its options."""
    return header.get("objective", "").partition(" ")[0]


def _objective(text: ModelText) -> str:
    """The objective in the words of `validate(loss=...)`; empty for one of the user's own."""
    stated = text.header.get("objective", "")
    name, *options = stated.split() or [""]
    if _is_scaled(options):
        return stated
    words, parameter = objective_among(name, _OBJECTIVES), ""
    if words in _PARAMETERS:
        parameter = text.tail_entry(f"[{_PARAMETERS[words]}: ", "").rstrip("]")
        words = objective_text(words, float(parameter)) if parameter else name
    return f"{words} of sqrt" if "sqrt" in options else words


def _is_scaled(options: Sequence[str]) -> bool:
    """Whether log-odds are a multiple of the score."""
    return any(option.startswith("sigmoid:") and decimal_number(option[8:]) != 1 for option in options)


def _link(objective: str, n_outputs: int) -> str:
    """The link of an objective as written in the text: its name, then options such as sigmoid:1 or sqrt."""
    name, *options = objective.split() or [""]
    link = _LINKS.get(name, "other")
    if not name:
        return "identity"  # a custom objective: predict returns the raw score
    if link != "other" and (n_outputs > 1) != (name in _MULTICLASS):
        raise ModelFileError(f"a model of objective {name} cannot have {n_outputs} outputs; file damaged?")
    return "other" if _is_scaled(options) or "sqrt" in options else link
