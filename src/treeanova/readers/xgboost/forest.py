"""From XGBoost's document to a Forest."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.data.features import Schema
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.forest import Forest, assemble, bound_below
from treeanova.readers.xgboost.document import Document, count_of, n_outputs_of, tree_model
from treeanova.readers.xgboost.features import features_of
from treeanova.readers.xgboost.margin import link_of, objective_of, objective_words
from treeanova.readers.xgboost.nodes import category_sets, leaf_values, read_nodes

_COUNTS_BYTES = (3, 4)  # since this version, names of categories from pandas are stored whole


def forest_of(
    learner: Document, version: Sequence[int], *, margin: Floats, last: int | None, missing: float, is_custom: bool
) -> Forest:
    """The Forest of a document with the iterations up to and including `last` (None: all)."""
    n_outputs = n_outputs_of(learner)
    _check_tree_count(tree_model(learner))
    trees = tree_model(learner)["trees"][: _n_trees(tree_model(learner), n_outputs, last)]
    nodes = read_nodes(trees)
    schema = Schema(
        features=features_of(learner, nodes, missing, counts_bytes=tuple(version) >= _COUNTS_BYTES),
        outputs=_outputs(learner, n_outputs),
        link="other" if is_custom else link_of(learner),
        named=bool(learner.get("feature_names")),
        absent=np.nan,
        predicts_share=objective_of(learner) == "reg:logistic",
        objective="" if is_custom else objective_words(learner),
    )
    category_start, category_left = category_sets(nodes, schema.features)
    return assemble(
        schema,
        _intercept(margin, n_outputs),
        roots=nodes.starts,
        feature=nodes.feature,
        bound=bound_below(nodes.condition),
        left=nodes.left,
        right=nodes.right,
        missing_left=nodes.default_left,
        values=leaf_values(learner, trees, nodes, n_outputs),
        leaf_label=nodes.label,
        category_start=category_start,
        category_left=category_left,
    )


def _intercept(margin: Floats, n_outputs: int) -> Floats:
    if len(margin) not in {1, n_outputs}:
        raise ModelFileError(
            f"base_score must have an entry for all or each of {n_outputs} outputs, got {len(margin)}; file damaged?"
        )
    if not np.isfinite(margin).all():
        raise UnsupportedModelError(
            f"an XGBoost model must have a finite base margin, got {margin.tolist()}; its base score is out of range."
        )
    return np.broadcast_to(margin, n_outputs).copy()


def _outputs(learner: Document, n_outputs: int) -> tuple[str, ...]:
    """Names of outputs: quantiles by their level, others by their number."""
    if n_outputs == 1:
        return ("score",)
    quantiles = str(learner["objective"].get("quantile_loss_param", {}).get("quantile_alpha", ""))
    levels = quantiles.strip("[]").split(",")
    if len(levels) != n_outputs:
        return tuple(str(number) for number in range(n_outputs))
    return tuple(f"{float(level):g}" for level in levels)


def _check_tree_count(model: Document) -> None:
    """Raise ModelFileError unless the trees and iterations that the document announces are there."""
    n_announced, n_trees = count_of(model["gbtree_model_param"], "num_trees"), len(model["trees"])
    if n_announced != n_trees:
        raise ModelFileError(f"the model must have {n_announced} trees as num_trees says, got {n_trees}; file damaged?")
    ends = np.asarray(model.get("iteration_indptr", [0, n_trees]))
    if ends.dtype.kind not in "iu" or ends[0] != 0 or ends[-1] != n_trees or (np.diff(ends) < 0).any():
        raise ModelFileError(f"iteration_indptr must ascend from 0 to {n_trees}, got {str(ends)[:40]}; file damaged?")


def _n_trees(model: Document, n_outputs: int, last: int | None) -> int:
    """Number of trees of the iterations up to and including `last`."""
    if last is None or last == -1:  # XGBoost takes an end of 0 for all
        return len(model["trees"])
    ends = model["iteration_indptr"] if "iteration_indptr" in model else _iteration_ends(model, n_outputs)
    if not 0 <= last < len(ends) - 1:
        raise UnsupportedModelError(
            f"an XGBoost model must have the iterations up to its best, got best_iteration {last} of {len(ends) - 1}."
        )
    return int(ends[last + 1])


def _iteration_ends(model: Document, n_outputs: int) -> range:
    """Where iterations end, for files without `iteration_indptr`; these have no vector leaves."""
    size = max(1, count_of(model["gbtree_model_param"], "num_parallel_tree")) * n_outputs
    return range(0, len(model["trees"]) + 1, size)
