"""CatBoost's .json files, decoded into a model's content."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.readers.catboost.model import (
    COUNTERS,
    MAX_DEPTH,
    CategoricalFeature,
    Counts,
    Ctr,
    Model,
    Nodes,
    NumericFeature,
    check_symmetric,
    loss_and_classes,
    symmetric_nodes,
    text_error,
    training_note,
)
from treeanova.readers.checks import decimal_number, whole_number

_TREATMENTS = ("AsIs", "AsFalse", "AsTrue")
_ELEMENTS = ("cat_feature_value", "float_feature", "cat_feature_exact_value")
_ONE_TARGET = ("MultiClass", "MultiClassOneVsAll", "MultiQuantile", "RMSEWithUncertainty")  # losses of several outputs


def from_json(top: Any) -> Model:
    """The content of a model from its parsed JSON."""
    features, info = top["features_info"], top["model_info"]
    if features.get("text_features") or features.get("embedding_features"):
        raise text_error()
    scale, bias = top.get("scale_and_bias") or (1.0, 0.0)
    bias = _numbers(bias if isinstance(bias, list) else [bias])
    symmetric = "oblivious_trees" in top
    nodes, values = _symmetric_trees(top["oblivious_trees"], len(bias)) if symmetric else _nested_trees(top["trees"])
    categorical = features.get("categorical_features") or ()
    ctrs = [_ctr(ctr, top.get("ctr_data") or {}) for ctr in features.get("ctrs") or ()]
    _check_tables(ctrs, training_note(info, "params"), values.shape[1])
    return Model(
        numeric=[_numeric(feature) for feature in features.get("float_features") or ()],
        categorical=[CategoricalFeature(*_identity(feature)) for feature in categorical],
        one_hot=[(whole_number(f["feature_index"]), _whole_numbers(f["values"])) for f in categorical if "values" in f],
        ctrs=ctrs,
        nodes=nodes,
        values=values,
        scale=decimal_number(scale),
        bias=bias,
        category_names={whole_number(c["hash"]): str(c["value"]) for c in features.get("cat_features_hash") or ()},
        **loss_and_classes(info),
    )


def _identity(feature: Mapping[str, Any]) -> tuple[int, str, int]:
    name = feature.get("feature_id") or feature.get("feature_name") or ""
    if not isinstance(name, str):
        raise ModelFileError(f"the model's features must have texts as names, got {name!r:.40}; file damaged?")
    return whole_number(feature["flat_feature_index"]), name, whole_number(feature["feature_index"])


def _numeric(feature: Mapping[str, Any]) -> NumericFeature:
    flat, name, index = _identity(feature)
    borders, treatment = _numbers(feature.get("borders") or ()), feature.get("nan_value_treatment", "AsIs")
    if not isinstance(feature["has_nans"], bool) or treatment not in _TREATMENTS:
        raise ModelFileError(f"missing values must be {', '.join(_TREATMENTS)}, got {treatment!r:.40}; file damaged?")
    missing_right = feature["has_nans"] and treatment == "AsTrue"
    return NumericFeature(flat, name, index, borders.astype(np.float32), missing_right)


def _ctr(ctr: Mapping[str, Any], tables: Mapping[str, Any]) -> Ctr:
    table = tables.get(ctr["identifier"])
    by_kind: dict[str, list[Mapping[str, Any]]] = {kind: [] for kind in _ELEMENTS}
    for element in ctr["elements"]:
        by_kind[element["combination_element"]].append(element)
    values, above, equal = by_kind.values()
    return Ctr(
        categories=[whole_number(e["cat_feature_index"]) for e in values],
        above=[(whole_number(e["float_feature_index"]), float(np.float32(decimal_number(e["border"])))) for e in above],
        equal=[(whole_number(e["cat_feature_index"]), whole_number(e["value"])) for e in equal],
        kind=str(ctr["ctr_type"]),
        target_border=whole_number(ctr["target_border_idx"]),
        prior=(decimal_number(ctr["prior_numerator"]), decimal_number(ctr["prior_denomerator"])),
        shift=decimal_number(ctr["shift"]),
        scale=decimal_number(ctr["scale"]),
        borders=_numbers(ctr["borders"] or ()).astype(np.float32),
        counts=None if table is None else _counts(table),
    )


def _check_tables(ctrs: Sequence[Ctr], params: Mapping[str, Any], n_outputs: int) -> None:
    """Raise UnsupportedModelError unless all CTRs of a kind count the classes of one target, divided in one way.

    CatBoost writes a single table for each kind and combination into .json, whichever target it is of.
    """
    if all(ctr.kind in COUNTERS for ctr in ctrs):
        return
    loss = (params.get("loss_function") or {}).get("type")
    if n_outputs == 1 or loss in _ONE_TARGET:
        notes = params.get("cat_feature_params") or {}
        groups = (
            notes.get("simple_ctrs"),
            notes.get("combinations_ctrs"),
            *(notes.get("per_feature_ctrs") or {}).values(),
        )
        if groups[0] and all(_divides_in_one_way(group or ()) for group in groups):
            return
    raise UnsupportedModelError(
        "`model` must have CTRs of one target that is divided in one way, got others, or no note of it, in a .json "
        "file, into which CatBoost writes one table for all of them; save the model as .cbm."
    )


def _divides_in_one_way(group: Sequence[Mapping[str, Any]]) -> bool:
    """Whether CTRs of the same kind have the same classes of the target."""
    divisions = {(ctr["ctr_type"], str(ctr.get("target_binarization"))) for ctr in group}
    return len(divisions) == len({kind for kind, _ in divisions})


def _counts(table: Mapping[str, Any]) -> Counts:
    """The counts; they come as one list of keys (as text), each followed by its row."""
    entries, stride = list(table["hash_map"] or ()), whole_number(table["hash_stride"])
    keys = np.array([whole_number(key) for key in entries[::stride]], dtype=np.uint64)
    columns = [_numbers(entries[column::stride]) for column in range(1, min(stride, len(entries)))]
    return Counts(keys, np.stack(columns, axis=1), decimal_number(table["counter_denominator"]))


def _whole_numbers(values: Sequence[Any]) -> Ints:
    """Whole numbers of a list: numpy would also take fractions, booleans and text."""
    if not {int}.issuperset(map(type, values)):
        raise ModelFileError(f"the model's lists must hold whole numbers, got {str(values)[:60]}; file damaged?")
    return np.array(values, dtype=np.int64)


def _numbers(values: Sequence[Any]) -> Floats:
    """Numbers of a list: numpy would also take booleans and text."""
    if not {int, float}.issuperset(map(type, values)):
        raise ModelFileError(f"the model's lists must hold numbers, got {str(values)[:60]}; file damaged?")
    return np.array(values, dtype=np.float64)


def _symmetric_trees(trees: Sequence[Mapping[str, Any]] | None, n_bias: int) -> tuple[Nodes, Floats]:
    if not isinstance(trees, list | None):
        raise ModelFileError(f"the model's trees must be a list, got {trees!r:.40}; file damaged?")
    trees = trees or ()
    splits_by_tree = [[split["split_index"] for split in tree.get("splits") or ()] for tree in trees]
    sizes = np.array([len(splits) for splits in splits_by_tree], dtype=np.int64)
    splits = _whole_numbers(list(itertools.chain.from_iterable(splits_by_tree)))
    leaves = [tree["leaf_values"] for tree in trees]
    values = _numbers(list(itertools.chain.from_iterable(leaves)))
    n_outputs = len(leaves[0]) >> min(len(splits_by_tree[0]), MAX_DEPTH) if leaves else n_bias
    check_symmetric(sizes, splits, len(values), n_outputs)
    for tree, (tree_leaves, tree_splits) in enumerate(zip(leaves, splits_by_tree, strict=True)):
        if len(tree_leaves) != n_outputs << len(tree_splits):
            raise ModelFileError(
                f"the model's symmetric trees must have a value per leaf, got {len(tree_leaves)} for tree {tree} of "
                f"{len(tree_splits)} splits; file damaged?"
            )
    return symmetric_nodes(sizes, splits), values.reshape(-1, n_outputs)


class _Walk:
    """Nodes of nested trees, numbered in the order in which a depth-first walk visits them, left before right."""

    def __init__(self) -> None:
        self.split: list[int] = []
        self.left: list[int] = []
        self.right: list[int] = []
        self.values: list[Any] = []

    def visit(self, tree: Mapping[str, Any]) -> None:
        """Append the nodes of one tree."""
        waiting: list[tuple[Mapping[str, Any], int]] = [(tree, -1)]
        while waiting:
            node, parent = waiting.pop()
            if parent >= 0:
                self.right[parent] = len(self.split)
            while "split" in node:
                waiting.append((node["right"], len(self.split)))
                self._append(node["split"]["split_index"], left=len(self.split) + 1)
                node = node["left"]
            self.values.append(node["value"])
            self._append(-1, left=-1)

    def _append(self, split: int, left: int) -> None:
        self.split.append(split)
        self.left.append(left)
        self.right.append(-1)


def _nested_trees(trees: Sequence[Mapping[str, Any]]) -> tuple[Nodes, Floats]:
    """Nodes and leaf values of trees that are not symmetric; leaves are numbered from left to right."""
    walk = _Walk()
    roots, n_leaves = [], [0]
    for tree in trees:
        roots.append(len(walk.split))
        walk.visit(tree)
        n_leaves.append(len(walk.values))
    rows = [value if isinstance(value, list) else [value] for value in walk.values]
    values = _numbers(list(itertools.chain.from_iterable(rows))).reshape(len(rows), -1)
    if any(len(row) != values.shape[1] for row in rows):
        raise ModelFileError("the model's leaves must have a value per output each, got others; file damaged?")
    split, left = _whole_numbers(walk.split), np.array(walk.left)
    leaf = np.cumsum(left < 0) - 1
    label = leaf - np.repeat(n_leaves[:-1], np.diff([*roots, len(split)]))
    return Nodes(np.array(roots), split, left, np.array(walk.right), leaf, label), values
