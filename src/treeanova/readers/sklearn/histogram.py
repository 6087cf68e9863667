"""HistGradientBoosting of scikit-learn, whose trees know categories."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Ints
from treeanova.data.features import Encoder, Feature, Labels, Numeric, Schema
from treeanova.model.forest import Forest, assemble
from treeanova.readers.checks import block_starts
from treeanova.readers.sklearn.columns import LabelsWithNone
from treeanova.readers.sklearn.estimators import boosted_outputs, class_labels, feature_names, loss_link, loss_objective
from treeanova.readers.sklearn.trees import in_column

_BITS = 256  # a category set of HistGradientBoosting is a bitset of eight 32-bit words


def read_histogram_boosting(model: Any) -> Forest:
    """HistGradientBoosting, classifiers and regressors."""
    predictors = [tree for stage in model._predictors for tree in stage]  # noqa: SLF001  no public form
    n_outputs = model.n_trees_per_iteration_
    nodes = np.concatenate([tree.nodes for tree in predictors])
    sizes = np.array([len(tree.nodes) for tree in predictors], dtype=np.int64)
    tree_of = np.repeat(np.arange(len(sizes)), sizes)
    roots = block_starts(sizes)
    offset = roots[tree_of]
    is_leaf = nodes["is_leaf"].astype(bool)
    schema = _hist_schema(model)
    feature = _hist_columns(model)[_checked_columns(np.where(is_leaf, 0, nodes["feature_idx"]), len(schema.features))]
    missing_left = nodes["missing_go_to_left"].astype(bool)
    start, category_left = _category_sets(
        np.flatnonzero(~is_leaf & (nodes["is_categorical"] != 0)),
        np.array([f.n_categories for f in schema.features])[feature],
        _bitsets(predictors, nodes, tree_of),
        missing_left,
    )
    return assemble(
        schema,
        np.ravel(model._baseline_prediction),  # noqa: SLF001  no public form
        roots=roots,
        feature=feature,
        bound=nodes["num_threshold"],
        left=np.where(is_leaf, -1, nodes["left"] + offset),
        right=np.where(is_leaf, -1, nodes["right"] + offset),
        missing_left=missing_left,
        values=in_column(nodes["value"], tree_of % n_outputs, n_outputs),
        leaf_label=np.arange(len(nodes)) - offset,
        category_start=start,
        category_left=category_left,
    )


def _checked_columns(columns: Ints, n_columns: int) -> Ints:
    """The same numbers of columns; a negative one would count from the end."""
    if columns.min(initial=0) < 0 or columns.max(initial=0) >= n_columns:
        wrong = columns[(columns < 0) | (columns >= n_columns)][0]
        raise ValueError(f"a tree of `model` splits on column {wrong} of {n_columns}: the model is damaged.")
    return columns


def _hist_columns(model: Any) -> Ints:
    """Column of the user's data for each column number in the trees."""
    if model._preprocessor is None:  # noqa: SLF001  predict uses it
        return np.arange(model.n_features_in_)
    return np.concatenate([np.flatnonzero(model.is_categorical_), np.flatnonzero(~model.is_categorical_)])


def _hist_schema(model: Any) -> Schema:
    names, named = feature_names(model)
    encoders: list[Encoder] = [Numeric()] * len(names)
    if model._preprocessor is not None:  # noqa: SLF001  predict uses it
        categories = model._preprocessor.named_transformers_["encoder"].categories_  # noqa: SLF001
        for j, labels in zip(np.flatnonzero(model.is_categorical_), categories, strict=True):
            encoders[j] = _labels(labels)
    features = tuple(Feature(name, encoder) for name, encoder in zip(names, encoders, strict=True))
    return Schema(
        features,
        boosted_outputs(model),
        loss_link(model),
        named,
        classes=class_labels(model),
        objective=loss_objective(model),
    )


def _labels(categories: npt.NDArray[Any]) -> Labels:
    """Encoder for the categories of an OrdinalEncoder, in which NaN comes last if it was seen."""
    labels: list[Hashable] = categories.tolist()
    if labels and isinstance(labels[-1], float) and np.isnan(labels[-1]):
        del labels[-1]
    return LabelsWithNone(tuple(labels)) if None in labels else Labels(tuple(labels))


def _bitsets(predictors: Sequence[Any], nodes: npt.NDArray[Any], tree_of: Ints) -> Callable[[Ints], Bools]:
    """A function from nodes with category sets to their bits, one column per category."""
    sets = [np.asarray(tree.raw_left_cat_bitsets, dtype="<u4") for tree in predictors]
    first = block_starts(np.array([len(tree_sets) for tree_sets in sets], dtype=np.int64))
    bits = np.unpackbits(np.concatenate(sets).view(np.uint8), axis=1, bitorder="little").astype(bool)
    return lambda which: bits[first[tree_of[which]] + nodes["bitset_idx"][which]]


def _category_sets(
    which: Ints, n_categories: Ints, bits_of: Callable[[Ints], Bools], missing_left: Bools
) -> tuple[Ints, Bools]:
    """Starts of the nodes' category sets and the sets; the entry for unseen categories goes where missing values go."""
    lengths = n_categories[which] + 1
    ends = np.cumsum(lengths)
    start = np.full(len(n_categories), -1, dtype=np.int64)
    start[which] = ends - lengths
    inside = np.arange(_BITS) < lengths[:, None]
    category_left = bits_of(which)[inside]
    category_left[ends - 1] = missing_left[which]
    return start, category_left
