"""Nodes of Spark's trees as a Forest."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Labels, Schema
from treeanova.errors import ModelFileError
from treeanova.model.forest import Forest, assemble
from treeanova.readers.checks import block_starts, check_size, whole_number
from treeanova.readers.spark.columns import Column

Row = dict[str, Any]
_MAX_CATEGORIES = 1 << 20
_MAX_ENTRIES = 1 << 26


def forest_of(trees: Sequence[Sequence[Row]], columns: Sequence[Column], values: Floats, schema_of: Schema) -> Forest:
    """The Forest of all trees; `values` has one row per node, in the order of the trees' nodes."""
    nodes = [node for tree in trees for node in tree]
    sizes = np.array([len(tree) for tree in trees], dtype=np.int64)
    roots = block_starts(sizes)
    offset = np.repeat(roots, sizes)
    position = _positions(trees)
    splits = [node["split"] for node in nodes]
    left, right = (_children(nodes, side, position, sizes) for side in ("leftChild", "rightChild"))
    is_inner = left >= 0
    if not np.array_equal(is_inner, right >= 0):
        raise ModelFileError("nodes of Spark's trees must have two children or none, got one; folder damaged?")
    feature = np.where(is_inner, [whole_number(split["featureIndex"]) for split in splits], 0).astype(np.int64)
    if (feature < 0).any() or (feature >= len(columns)).any():
        raise ModelFileError("Spark's trees must split on the model's features, got others; folder damaged?")
    columns = _with_codes(columns, feature, splits, is_inner)
    n_seen = np.array([0 if column.seen is None else len(column.seen) for column in columns], dtype=np.int64)
    check_size("category tables", int(n_seen[feature[is_inner]].sum()), _MAX_ENTRIES)
    tables = [
        _left_categories(columns[j], split) if inner and columns[j].seen is not None else np.zeros(0, bool)
        for j, split, inner in zip(feature, splits, is_inner, strict=True)
    ]
    lengths = np.array([max(len(table) - 1, 0) for table in tables], dtype=np.int64)
    is_number = np.array([inner and not len(table) for inner, table in zip(is_inner, tables, strict=True)])
    forest = assemble(
        _with_features(schema_of, columns),
        np.zeros(values.shape[1]),
        roots=roots,
        feature=feature,
        bound=[_threshold(split) if number else 0.0 for split, number in zip(splits, is_number, strict=True)],
        left=left,
        right=right,
        missing_left=[bool(len(table)) and bool(table[-1]) for table in tables],
        values=values,
        leaf_label=np.arange(len(offset)) - offset,
        category_start=np.where(lengths > 0, block_starts(lengths), -1),
        category_left=np.concatenate([*(table[:-1] for table in tables), np.zeros(0, bool)]),
    )
    if len(forest.feature) < len(nodes):
        raise ModelFileError("Spark's trees must reach all of their nodes, got some that none leads to; damaged?")
    return forest


def _with_features(schema: Schema, columns: Sequence[Column]) -> Schema:
    return dataclasses.replace(schema, features=tuple(column.feature for column in columns))


def _positions(trees: Sequence[Sequence[Row]]) -> dict[tuple[int, int], int]:
    """Positions among the nodes of all trees, by the number of the tree and of the node in it."""
    keys = [(k, whole_number(node["id"])) for k, tree in enumerate(trees) for node in tree]
    if keys != [(k, number) for k, tree in enumerate(trees) for number in range(len(tree))]:
        raise ModelFileError("nodes of Spark's trees must be numbered from 0 on, got other numbers; folder damaged?")
    return {key: position for position, key in enumerate(keys)}


def _children(nodes: Sequence[Row], side: str, position: dict[tuple[int, int], int], sizes: Ints) -> Ints:
    tree = np.repeat(np.arange(len(sizes)), sizes).tolist()
    numbers = [whole_number(node[side]) for node in nodes]
    try:
        found = [-1 if number == -1 else position[k, number] for k, number in zip(tree, numbers, strict=True)]
    except KeyError as error:
        raise ModelFileError("Spark's trees must link nodes that exist, got others; folder damaged?") from error
    return np.array(found, dtype=np.int64)


def _with_codes(columns: Sequence[Column], feature: Ints, splits: Sequence[Row], is_inner: Bools) -> list[Column]:
    """The columns, where those with category splits but without known categories hold codes from 0 on."""
    counts: dict[int, int] = {}
    for j, split, inner in zip(feature.tolist(), splits, is_inner, strict=True):
        if inner and whole_number(split["numCategories"]) >= 0:
            counts[j] = max(counts.get(j, 0), split["numCategories"])
    check_size("categories", sum(counts.values()), _MAX_CATEGORIES)
    return [
        _coded(column.feature, counts[j]) if j in counts and column.seen is None else column
        for j, column in enumerate(columns)
    ]


def _coded(feature: Feature, n_categories: int) -> Column:
    encoder = Labels(tuple(float(code) for code in range(n_categories)))
    coded = Feature(feature.name, encoder, accepts_missing=feature.accepts_missing)
    return Column(coded, np.array([*range(n_categories), np.nan, np.nan], dtype=np.float64))


def _threshold(split: Row) -> float:
    (threshold,) = split["leftCategoriesOrThreshold"]
    return float(threshold)


def _left_categories(column: Column, split: Row) -> Bools:
    """Whether each category goes left; the last two entries are for unseen and for missing ones."""
    assert column.seen is not None  # noqa: S101  asked before
    if split["numCategories"] < 0:
        return np.asarray(column.seen <= _threshold(split), dtype=bool)
    left, n_categories = np.unique(split["leftCategoriesOrThreshold"]), split["numCategories"]
    if not _is_code(left, n_categories).all():
        raise ModelFileError(f"Spark's category splits must hold codes below {n_categories}, got others; damaged?")
    others_left = len(left) > n_categories // 2
    return np.asarray(np.isin(column.seen, left) | (others_left & ~_is_code(column.seen, n_categories)), dtype=bool)


def _is_code(values: Floats, n_categories: int) -> Bools:
    """Whether numbers are codes of categories."""
    return np.asarray((values >= 0) & (values < n_categories) & (np.trunc(values) == values), dtype=bool)
