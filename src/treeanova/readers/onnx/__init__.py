"""ONNX: TreeEnsembleRegressor and TreeEnsembleClassifier (ai.onnx.ml 1 to 5) and TreeEnsemble (5) as a Forest.

Facts, as onnxruntime 1.31 computes them (1.23 differs for some classifiers):

- The graph must be one tree operator that sees the input itself; Identity may be before it, and Identity, ZipMap, Cast
  to floats and multiplication by 1 after it. What changes columns or scores is refused.
- Inputs of float32 are compared with float32 thresholds, those of float64 with float64 thresholds. A node's condition
  is one of x <= t, x < t, x > t, x >= t, x == t and x != t. It is false for NaN, except x != t, which is true; with
  `missing_value_tracks_true`, NaN counts as true. A node with x == t becomes two nodes of the Forest.
- A node that asks for a set (BRANCH_MEMBER) is a chain of equalities. It is read for whole numbers from 1 to 30: for
  others, onnxruntime cuts off fractions of its input, so 1.5 is in the set of 1 and 35.
- A node may have several parents, as in chains of equalities for a set of categories; it is copied for each.
- Scores are base values and the sum of the leaves' weights, or their mean over trees; MIN and MAX are refused.
- A classifier of two classes whose weights are all for the first gives one score s of the second, after which the
  probabilities are (1 - s, s) if no weight is negative, and the logistic function of (-s, s) for LOGISTIC.
- A target or class to which no leaf of a row gives a weight has no score there: its base value is dropped, and the
  label is another class. Models where that may happen and matters are refused.
- Labels here are those of the largest probability or score. Those of onnxruntime contradict its own probabilities for
  two classes with weights for both (the second if its score is positive), and for LOGISTIC if no weight is negative.
- A regressor of one target has no post_transform in onnxruntime, but other runtimes may apply it: link "other".

The score is the sum before `post_transform`, which is the link. No part of `onnx` is needed: files are read here.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.data.features import Feature, Schema
from treeanova.errors import UnsupportedModelError
from treeanova.model.forest import Forest
from treeanova.readers.checks import check_size, check_values, damage_reported, damaged
from treeanova.readers.onnx.graph import MODES, Conditions, forest_of_conditions, tree_operator, with_chains
from treeanova.readers.outputs import are_shares, output_names, probability_objective, without_first_of_two

_Number = TypeVar("_Number", bound=np.generic)
_MAX_VALUES, _MAX_COLUMNS = 200_000_000, 1_000_000
_TRANSFORMS = ("NONE", "SOFTMAX", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT")
_ATTRIBUTES = {
    *(f"nodes_{name}" for name in ("featureids", "falsenodeids", "hitrates", "missing_value_tracks_true", "modes")),
    *(f"nodes_{name}" for name in ("nodeids", "treeids", "truenodeids", "values")),
    *(f"nodes_{name}" for name in ("falseleafs", "trueleafs", "splits")),
    *(f"{prefix}_{name}" for prefix in ("class", "target") for name in ("ids", "nodeids", "treeids", "weights")),
    *("base_values", "classlabels_int64s", "classlabels_strings", "n_targets", "aggregate_function", "post_transform"),
    *("leaf_targetids", "leaf_weights", "membership_values", "tree_roots"),
}
_AGGREGATES = ("AVERAGE", "SUM", "MIN", "MAX")


@dataclasses.dataclass(frozen=True)
class Ensemble:
    """The attributes of a tree operator; weight i is for `weight_output[i]` at the leaf `weight_node[i]`."""

    conditions: Conditions
    roots: Ints
    trees: Ints  # of each node; empty for the newer operator
    weight_node: Ints
    weight_output: Ints
    weights: Floats
    base: Floats
    n_outputs: int
    aggregate: str
    transform: str


def forest_of(kind: str, attributes: dict[str, Any], *, is_double: bool, n_columns: int | None) -> Forest:
    """Read the attributes of a tree operator of this kind, by name; `is_double` if it compares in float64."""
    # `n_columns` is None if the graph does not state it: then trees tell the last column that they use.
    unknown = [name for name in attributes if name.removesuffix("_as_tensor") not in _ATTRIBUTES]
    if unknown:
        raise damaged(f"ONNX trees must have known attributes, got {unknown[0]!r:.60}")
    if kind == "TreeEnsemble":
        ensemble = _read_newer(attributes, is_double=is_double)
    else:
        ensemble = _read_older(attributes, is_double=is_double, is_classifier=kind == "TreeEnsembleClassifier")
    if ensemble.aggregate not in {"SUM", "AVERAGE"}:
        raise UnsupportedModelError(
            f"an ONNX model must add up its trees, got the aggregate function {ensemble.aggregate}; only SUM and "
            "AVERAGE are sums over leaves."
        )
    inner = ensemble.conditions.feature[ensemble.conditions.mode >= 0]
    n_columns = n_columns or int(inner.max(initial=-1)) + 1
    check_size("columns", n_columns, _MAX_COLUMNS)
    schema = Schema(tuple(Feature(f"x{j}") for j in range(n_columns)))
    values = _node_values(ensemble)
    if kind != "TreeEnsemble":
        _check_weights_of_outputs(ensemble, values, is_classifier=kind == "TreeEnsembleClassifier")
    if kind == "TreeEnsembleClassifier":
        return _classifier_of(dataclasses.replace(schema, classes=_class_labels(attributes)), ensemble, values)
    # onnxruntime applies neither LOGISTIC nor SOFTMAX to a single target, which other runtimes may.
    links_of_several = {"NONE": "identity", "LOGISTIC": "logit", "SOFTMAX": "softmax"}
    links = {"NONE": "identity"} if ensemble.n_outputs == 1 else links_of_several
    link = links.get(ensemble.transform, "other")
    outputs = output_names(ensemble.n_outputs)
    schema = dataclasses.replace(schema, outputs=outputs, link=link, predicts_share=link != "identity")
    return _scaled_forest(schema, ensemble, values, ensemble.base)


def _scaled_forest(schema: Schema, ensemble: Ensemble, values: Floats, base: Floats) -> Forest:
    """Return the forest, the mean of trees if they are averaged; `values` has a row for each node."""
    schema = dataclasses.replace(schema, objective=probability_objective(schema.link))
    scale = 1 / len(ensemble.roots) if ensemble.aggregate == "AVERAGE" else 1.0
    return forest_of_conditions(schema, base, ensemble.conditions, ensemble.roots, values * scale)


def _node_values(ensemble: Ensemble) -> Floats:
    """Return the weights as a matrix, shape (nodes, outputs); ModelFileError for outputs that do not exist."""
    n_nodes = len(ensemble.conditions.mode)
    if ensemble.n_outputs > max(2, len(ensemble.weights)):
        raise damaged(
            f"an ONNX model must have weights for each of {ensemble.n_outputs} outputs, got {len(ensemble.weights)}"
        )
    check_size("leaf values", n_nodes * ensemble.n_outputs, _MAX_VALUES)
    output = ensemble.weight_output
    if output.min(initial=0) < 0 or output.max(initial=0) >= ensemble.n_outputs:
        raise damaged("weights of ONNX trees must be for outputs that exist, got others")
    places = ensemble.weight_node * ensemble.n_outputs + output
    if len(np.unique(places)) < len(places):
        raise damaged("leaves of ONNX trees must have a weight per output, got several")
    values = np.zeros((n_nodes, ensemble.n_outputs))
    np.add.at(values, (ensemble.weight_node, output), ensemble.weights)
    return values


def _check_weights_of_outputs(ensemble: Ensemble, values: Floats, *, is_classifier: bool) -> None:
    """Raise UnsupportedModelError if leaves lack weights of an output and onnxruntime would then not return a sum."""
    is_leaf, (_, tree_number) = ensemble.conditions.mode < 0, np.unique(ensemble.trees, return_inverse=True)
    n_weights = np.zeros((tree_number.max() + 1, ensemble.n_outputs), dtype=np.int64)
    np.add.at(n_weights, (tree_number[ensemble.weight_node], ensemble.weight_output), 1)
    # Outputs that have a weight at every leaf in no tree; `matters` says where onnxruntime treats these differently.
    lacks_score = ~(n_weights == np.bincount(tree_number[is_leaf])[:, None]).any(axis=0)
    if len(ensemble.base) == 1 and ensemble.n_outputs <= 2:
        matters = is_classifier & (ensemble.base != 0)
        lacks_score = lacks_score[:1]
    elif not is_classifier:
        matters = ensemble.base != 0
    elif ensemble.n_outputs == 2:
        matters = np.ones(2, dtype=bool)
    else:
        leaf_values = values[is_leaf]
        is_above_none = (leaf_values >= 0).all() and (leaf_values.max(axis=1) > 0).all()
        matters = np.full(ensemble.n_outputs, not (is_above_none or ensemble.base.any()))
    if (lacks_score & matters).any():
        raise UnsupportedModelError(
            "leaves of an ONNX model must give a weight to each target or class in at least one tree, got output "
            f"{np.flatnonzero(lacks_score & matters)[0]} without a weight at some leaves, where onnxruntime drops base "
            "values and does not choose this class; add weights of 0."
        )


def _class_labels(attributes: dict[str, Any]) -> tuple[Hashable, ...]:  # texts or integers; none if it has none
    texts = [label.decode(errors="replace") for label in attributes.get("classlabels_strings") or ()]
    return tuple(texts or attributes.get("classlabels_int64s") or ())


def _classifier_of(schema: Schema, ensemble: Ensemble, values: Floats) -> Forest:
    """Return the forest of a classifier; link and outputs are such that it has onnxruntime's probabilities."""
    # `values` has a row for each node and a column for each class; `schema` lacks outputs and link.
    if ensemble.n_outputs < 2:
        raise UnsupportedModelError("an ONNX classifier must have two or more classes, got fewer; train it on more.")
    if ensemble.n_outputs == 2 and not ensemble.weight_output.any():  # one score, of the second class
        is_share = bool((ensemble.weights >= 0).all()) and ensemble.transform == "NONE"
        # The label is the second if the score is positive; if no weight is negative, if the score is above 0.5.
        undefined = "argmax" if (ensemble.weights < 0).any() else "other"
        link = "logit" if ensemble.transform == "LOGISTIC" else "probability" if is_share else undefined
        return _scaled_forest(dataclasses.replace(schema, link=link), ensemble, values[:, :1], ensemble.base)
    if ensemble.n_outputs == 2 and ensemble.base.any():
        raise UnsupportedModelError(
            "an ONNX classifier of two classes must have weights for the first only to have base values, got weights "
            "for both, which onnxruntime adds in another way; convert the model again."
        )
    if ensemble.n_outputs == 2 and ensemble.transform == "LOGISTIC" and (values[:, 0] == -values[:, 1]).all():
        schema = dataclasses.replace(schema, link="logit")  # as CatBoost writes the score of the second class
        return _scaled_forest(schema, ensemble, values[:, 1:], without_first_of_two(ensemble.base))
    base, share = ensemble.base, 1.0 if ensemble.aggregate == "AVERAGE" else 1 / len(ensemble.roots)
    has_shares = (values >= 0).all() and are_shares(values[ensemble.conditions.mode < 0], share, base)
    undefined = "argmax" if ensemble.n_outputs > 2 else "other"
    links = {"NONE": "probability" if has_shares else undefined, "SOFTMAX": "softmax"}
    link = links.get(ensemble.transform, undefined)
    if link == "probability":
        values, base = without_first_of_two(values), without_first_of_two(base)
    outputs = output_names(values.shape[1], schema.classes)
    return _scaled_forest(dataclasses.replace(schema, outputs=outputs, link=link), ensemble, values, base)


def _read_older(attributes: dict[str, Any], *, is_double: bool, is_classifier: bool) -> Ensemble:
    """Read TreeEnsembleRegressor and TreeEnsembleClassifier: nodes are named by their tree and a number in it."""
    prefix = "class" if is_classifier else "target"
    trees = _integers(attributes, "nodes_treeids")
    n_nodes = len(trees)
    numbers = _integers(attributes, "nodes_nodeids", n_nodes)
    position = {key: k for k, key in enumerate(zip(trees.tolist(), numbers.tolist(), strict=True))}
    if len(position) < n_nodes or not n_nodes:
        raise damaged("nodes of ONNX trees must have numbers of their own, got some twice")
    mode = _checked_size(_mode_numbers([text.decode(errors="replace") for text in attributes["nodes_modes"]]), n_nodes)
    conditions = Conditions(
        feature=_integers(attributes, "nodes_featureids", n_nodes),
        threshold=_floats(attributes, "nodes_values", n_nodes, is_double=is_double),
        mode=mode,
        true=_node_positions(position, trees, _integers(attributes, "nodes_truenodeids", n_nodes), mode >= 0),
        false=_node_positions(position, trees, _integers(attributes, "nodes_falsenodeids", n_nodes), mode >= 0),
        tracks=_nan_counts_as_true(attributes, n_nodes),
        is_double=is_double,
    )
    owners = _integers(attributes, f"{prefix}_treeids")
    leaves = _integers(attributes, f"{prefix}_nodeids", len(owners))
    weight_node = _node_positions(position, owners, leaves, np.ones(len(owners), bool))
    if (mode[weight_node] >= 0).any():
        raise damaged("weights of ONNX trees must be at leaves, got one at another node")
    n_outputs = len(_class_labels(attributes)) if is_classifier else _n_targets(attributes)
    outputs = _integers(attributes, f"{prefix}_ids", len(owners))
    n_scores = 1 if is_classifier and n_outputs == 2 and not outputs.any() else n_outputs
    base = _floats(attributes, "base_values", None, is_double=is_double)
    if len(base) not in {0, n_scores}:
        raise UnsupportedModelError(
            f"an ONNX model must have a base value for each of its {n_scores} scores or none, got {len(base)}; "
            "convert the model again."
        )
    return Ensemble(
        conditions=conditions,
        roots=_roots_of(conditions, trees),
        trees=trees,
        weight_node=weight_node,
        weight_output=outputs,
        weights=_floats(attributes, f"{prefix}_weights", len(owners), is_double=is_double),
        base=base if len(base) else np.zeros(n_scores),
        n_outputs=n_outputs,
        aggregate=attributes.get("aggregate_function", b"SUM").decode(errors="replace"),
        transform=attributes.get("post_transform", b"NONE").decode(errors="replace"),
    )


def _read_newer(attributes: dict[str, Any], *, is_double: bool) -> Ensemble:
    """Read TreeEnsemble: inner nodes and leaves are in separate lists; each branch gets a leaf here."""
    mode = np.asarray(attributes["nodes_modes"], dtype=np.int64)
    check_values("nodes of ONNX trees must have known modes", mode, (mode >= 0) & (mode < len(MODES)))
    n_nodes = len(mode)
    weights = _as_floats(attributes["leaf_weights"], is_double=is_double)
    targets = _integers(attributes, "leaf_targetids", len(weights))
    children, leaf_of = [], []
    n_all = n_nodes  # inner nodes, and the leaves appended so far
    for side in ("true", "false"):
        child = _integers(attributes, f"nodes_{side}nodeids", n_nodes)
        is_leaf = _checked_flags(_integers(attributes, f"nodes_{side}leafs", n_nodes))
        if is_leaf.any() and not (child[is_leaf].min() >= 0 and child[is_leaf].max() < len(weights)):
            raise damaged("nodes of ONNX trees must have leaves that exist, got others")
        leaf_of.append(child[is_leaf])
        child[is_leaf] = n_all + np.arange(is_leaf.sum())
        n_all += int(is_leaf.sum())
        children.append(child)
    leaves = np.concatenate(leaf_of)
    at_leaves = np.full(len(leaves), -1)
    thresholds = _as_floats(attributes["nodes_splits"], is_double=is_double)
    conditions = Conditions(
        feature=np.concatenate([_integers(attributes, "nodes_featureids", n_nodes), at_leaves]),
        threshold=np.concatenate([_checked_size(thresholds, n_nodes), np.zeros(len(leaves))]),
        mode=np.concatenate([mode, at_leaves]),
        true=np.concatenate([children[0], at_leaves]),
        false=np.concatenate([children[1], at_leaves]),
        tracks=np.concatenate([_nan_counts_as_true(attributes, n_nodes), np.zeros(len(leaves), bool)]),
        is_double=is_double,
    )
    members = _as_floats(attributes.get("membership_values", ()), is_double=is_double)
    pieces = np.split(members, np.flatnonzero(np.isnan(members)) + 1)  # a set ends in NaN, the last perhaps without
    sets = [piece[~np.isnan(piece)] for piece in pieces if len(piece)]
    n_outputs = _n_targets(attributes)
    return Ensemble(
        conditions=with_chains(conditions, sets),
        roots=_integers(attributes, "tree_roots"),
        trees=np.empty(0, dtype=np.int64),
        weight_node=n_nodes + np.arange(len(leaves)),
        weight_output=targets[leaves],
        weights=weights[leaves],
        base=np.zeros(n_outputs),
        n_outputs=n_outputs,
        aggregate=dict(enumerate(_AGGREGATES))[int(attributes.get("aggregate_function", 1))],
        transform=dict(enumerate(_TRANSFORMS))[int(attributes.get("post_transform") or 0)],
    )


def _mode_numbers(names: Sequence[str]) -> Ints:
    """Return positions in MODES of comparisons by name, -1 for leaves."""
    numbers = {name: k for k, name in enumerate(MODES)} | {"LEAF": -1}
    unknown = next((name for name in names if name not in numbers), None)
    if unknown is not None:
        raise damaged(f"nodes of ONNX trees must have known modes, got {unknown!r}")
    return np.array([numbers[name] for name in names], dtype=np.int64)


def _n_targets(attributes: dict[str, Any]) -> int:  # of a regressor, checked; 1 by default
    n_targets = int(attributes.get("n_targets") or 1)
    check_size("outputs", n_targets, _MAX_COLUMNS)
    if n_targets < 1:
        raise damaged(f"an ONNX model must have targets, got {n_targets}")
    return n_targets


def _integers(attributes: dict[str, Any], name: str, size: int | None = None) -> Ints:
    """Return an attribute of whole numbers, of this size if given; ModelFileError without it."""
    if name not in attributes:
        raise damaged(f"ONNX trees must have the attribute {name}, got none")
    return _checked_size(np.array(attributes[name], dtype=np.int64), size)


def _floats(attributes: dict[str, Any], name: str, size: int | None, *, is_double: bool) -> Floats:
    """Return an attribute, or the tensor of the same name, which may be of float64; empty without both."""
    values = attributes.get(name) or attributes.get(f"{name}_as_tensor")
    return _checked_size(_as_floats(() if values is None else values, is_double=is_double), size)


def _as_floats(values: npt.ArrayLike, *, is_double: bool) -> Floats:
    """Return numbers as float64; refuse those of float64 if the input is float32, which would round them."""
    array = np.asarray(values)
    if array.dtype == np.dtype("<f8") and isinstance(values, np.ndarray) and not is_double:
        raise UnsupportedModelError(
            "an ONNX model with an input of float must have numbers of float, got double; convert the model again."
        )
    return array.astype(np.float64)


def _checked_size(array: npt.NDArray[_Number], size: int | None) -> npt.NDArray[_Number]:  # None: any size
    if size is not None and len(array) != size:
        raise damaged(f"attributes of ONNX trees must have {size} entries, got {len(array)}")
    return array


def _nan_counts_as_true(attributes: dict[str, Any], n_nodes: int) -> Bools:  # at each node; by default at none
    tracks = attributes.get("nodes_missing_value_tracks_true")
    if tracks is None or not len(tracks):
        return np.zeros(n_nodes, dtype=bool)
    return _checked_flags(_checked_size(np.array(tracks), n_nodes))


def _checked_flags(numbers: npt.NDArray[Any]) -> Bools:  # ModelFileError unless they are 0 or 1
    check_values("flags of ONNX trees must be 0 or 1", numbers, (numbers == 0) | (numbers == 1))
    return np.asarray(numbers == 1)


def _node_positions(position: dict[tuple[int, int], int], trees: Ints, numbers: Ints, is_linked: Bools) -> Ints:
    """Return positions of nodes from their tree and number in it; -1 where `is_linked` is false."""
    result = np.full(len(trees), -1, dtype=np.int64)
    keys = zip(trees[is_linked].tolist(), numbers[is_linked].tolist(), strict=True)
    try:
        result[is_linked] = [position[key] for key in keys]
    except KeyError as error:
        raise damaged(f"ONNX trees must link nodes that exist, got {error.args[0]}") from error
    return result


def _roots_of(conditions: Conditions, trees: Ints) -> Ints:
    """Return the node of each tree that is not a child."""
    is_child = np.zeros(len(trees), dtype=bool)
    inner = conditions.mode >= 0
    is_child[conditions.true[inner]] = is_child[conditions.false[inner]] = True
    roots = np.flatnonzero(~is_child)
    if len(np.unique(trees[roots])) != len(roots) or len(roots) != len(np.unique(trees)):
        raise damaged("ONNX trees must have one root each, got none or several")
    return roots


def read(model: Any) -> Forest:  # a ModelProto
    if not hasattr(model, "graph"):
        raise UnsupportedModelError(f"an ONNX model must be a ModelProto, got {type(model).__name__}.")
    return _read(model.SerializeToString())


def read_file(path: pathlib.Path) -> Forest:
    return _read(path.read_bytes(), path)


def _read(data: bytes, path: pathlib.Path | None = None) -> Forest:  # from a serialized ModelProto
    with damage_reported("an ONNX model", path):
        operator, is_double, n_columns = tree_operator(data)
        return forest_of(operator.kind, operator.attributes, is_double=is_double, n_columns=n_columns)
