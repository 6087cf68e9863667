"""Trees in ONNX, compared with onnxruntime on, above and below every threshold."""

from __future__ import annotations

import contextlib

import numpy as np
import pytest

import treeanova
from tests.support.training import fit
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import class_probabilities, respond
from treeanova.readers import read_model
from treeanova.readers.onnx.graph import fields, floats, integers, signed_number

onnx = pytest.importorskip("onnx")
runtime = pytest.importorskip("onnxruntime")
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

MODES = ["BRANCH_LEQ", "BRANCH_LT", "BRANCH_GTE", "BRANCH_GT", "BRANCH_EQ", "BRANCH_NEQ"]
N_FEATURES = 3
THRESHOLDS = np.arange(-4, 5) / 10


def nodes(rng, *, n_trees=3, depth=3, modes=MODES[:1], tracks=False):
    """Full trees of random conditions: attributes of nodes, and (tree, node) of all leaves."""
    found = {
        name: [] for name in ("treeids", "nodeids", "featureids", "values", "modes", "truenodeids", "falsenodeids")
    }
    missing, leaves = [], []
    for tree in range(n_trees):
        for node in range(2 ** (depth + 1) - 1):
            is_leaf = node >= 2**depth - 1
            entry = [
                tree,
                node,
                0 if is_leaf else int(rng.integers(N_FEATURES)),
                0.0 if is_leaf else float(rng.choice(THRESHOLDS)),
                "LEAF" if is_leaf else str(rng.choice(modes)),
                0 if is_leaf else 2 * node + 1,
                0 if is_leaf else 2 * node + 2,
            ]
            for values, value in zip(found.values(), entry, strict=True):
                values.append(value)
            missing.append(int(tracks and not is_leaf and rng.integers(2)))
            if is_leaf:
                leaves.append((tree, node))
    attributes = {f"nodes_{name}": values for name, values in found.items()}
    return attributes | {"nodes_missing_value_tracks_true": missing}, leaves


def weights(rng, leaves, prefix, outputs, *, positive=False):
    entries = [(tree, node, output) for tree, node in leaves for output in outputs]
    drawn = rng.normal(size=len(entries))
    return {
        f"{prefix}_treeids": [tree for tree, _, _ in entries],
        f"{prefix}_nodeids": [node for _, node, _ in entries],
        f"{prefix}_ids": [output for _, _, output in entries],
        f"{prefix}_weights": (np.abs(drawn) if positive else drawn).tolist(),
    }


def graph_model(operators, n_outputs, *, opset=3, kind=TensorProto.FLOAT, out=TensorProto.FLOAT, scores="scores"):
    graph = helper.make_graph(
        operators,
        "trees",
        [helper.make_tensor_value_info("X", kind, [None, N_FEATURES])],
        [helper.make_tensor_value_info(scores, out, [None, n_outputs])],
    )
    versions = [helper.make_opsetid("", 17), helper.make_opsetid("ai.onnx.ml", opset)]
    return helper.make_model(graph, opset_imports=versions, ir_version=9)


def operator(kind, outputs=("scores",), **attributes):
    return helper.make_node(kind, ["X"], list(outputs), domain="ai.onnx.ml", **attributes)


def regressor(rng, n_targets=1, *, opset=3, modes=MODES[:1], tracks=False, **attributes):
    inner, leaves = nodes(rng, modes=modes, tracks=tracks)
    every = inner | weights(rng, leaves, "target", range(n_targets)) | {"n_targets": n_targets} | attributes
    return graph_model([operator("TreeEnsembleRegressor", **every)], n_targets, opset=opset)


def classifier(rng, labels, *, outputs=None, positive=False, **attributes):
    inner, leaves = nodes(rng)
    outputs = range(len(labels)) if outputs is None else outputs
    every = inner | weights(rng, leaves, "class", outputs, positive=positive) | {"classlabels_int64s": labels}
    node = operator("TreeEnsembleClassifier", ("label", "scores"), **every, **attributes)
    return graph_model([node], len(labels))


def rows(n_rows=2000, dtype=np.float32):
    """Rows on thresholds and next to them, missing, infinite and nearly zero."""
    on = THRESHOLDS.astype(np.float32).astype(dtype)
    near = [np.nextafter(on, dtype(np.inf)), np.nextafter(on, dtype(-np.inf))]
    special = np.array([np.nan, np.nan, np.nan, np.inf, -np.inf, 0.0, -0.0, 1e-45, 3.0], dtype=dtype)
    pool = np.concatenate([on, THRESHOLDS.astype(dtype), *near, special])
    return np.random.default_rng(1).choice(pool, (n_rows, N_FEATURES))


def run(model, X):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    return np.asarray(session.run(None, {"X": X})[-1]).reshape(len(X), -1)


def check(model, X=None):
    X = rows() if X is None else X
    forest = read_model(model)
    np.testing.assert_allclose(forest.score(X), run(model, X), rtol=2e-6, atol=2e-6)
    return forest


@pytest.mark.parametrize("tracks", [False, True])
@pytest.mark.parametrize("modes", [*([mode] for mode in MODES), MODES[:4], MODES], ids=str)
@pytest.mark.parametrize("aggregate", ["SUM", "AVERAGE"])
def test_conditions_agree_on_every_kind_of_row(modes, tracks, aggregate):
    rng = np.random.default_rng(0)
    for n_targets in (1, 3):
        base = [0.5, -1.0, 2.0][:n_targets]
        check(regressor(rng, n_targets, modes=modes, tracks=tracks, aggregate_function=aggregate, base_values=base))


def test_operators_of_the_first_version():
    check(regressor(np.random.default_rng(0), opset=1, modes=MODES, tracks=True))


def test_numbers_of_float64_are_rounded_as_their_input_is():
    model = regressor(np.random.default_rng(0), modes=MODES)
    X = rows(dtype=np.float64)
    X = np.concatenate([X, np.where(np.isinf(X), X, np.nextafter(X, np.inf))])
    np.testing.assert_allclose(read_model(model).score(X), run(model, X.astype(np.float32)), rtol=2e-6, atol=2e-6)


@pytest.mark.parametrize("as_tensor", [False, True])
def test_inputs_of_float64_are_compared_in_float64(as_tensor):
    rng = np.random.default_rng(0)
    inner, leaves = nodes(rng, modes=MODES, tracks=True)
    every = inner | weights(rng, leaves, "target", [0]) | {"n_targets": 1}
    if as_tensor:
        for name in ("nodes_values", "target_weights"):
            every[f"{name}_as_tensor"] = numpy_helper.from_array(np.array(every.pop(name)))
    check(graph_model([operator("TreeEnsembleRegressor", **every)], 1, kind=TensorProto.DOUBLE), rows(dtype=np.float64))


def test_chains_of_equalities_stay_small():
    """As converters write a set of categories: 40 equalities of one feature, one after the other."""
    n = 40
    inner = {
        "nodes_treeids": [0] * (2 * n + 1),
        "nodes_nodeids": list(range(2 * n + 1)),
        "nodes_featureids": [0] * (2 * n + 1),
        "nodes_values": [float(k * 7 % n) for k in range(n)] + [0.0] * (n + 1),
        "nodes_modes": ["BRANCH_EQ"] * n + ["LEAF"] * (n + 1),
        "nodes_truenodeids": [n + k for k in range(n)] + [0] * (n + 1),
        "nodes_falsenodeids": [*range(1, n), 2 * n] + [0] * (n + 1),
    }
    leaves = [(0, n + k) for k in range(n + 1)]
    every = inner | weights(np.random.default_rng(0), leaves, "target", [0]) | {"n_targets": 1}
    model = graph_model([operator("TreeEnsembleRegressor", **every)], 1)
    values = np.array([*np.arange(-1, n + 1, 0.5), np.nan, np.inf], dtype=np.float32)
    assert check(model, np.stack([values] * N_FEATURES, axis=1)).n_leaves == 2 * n + 1


def test_nodes_with_several_parents_are_copied():
    """x0 in {1, 3} as two equalities with one outcome, which splits on x1."""
    every = {
        "nodes_treeids": [0] * 6,
        "nodes_nodeids": list(range(6)),
        "nodes_featureids": [0, 0, 1, 0, 0, 0],
        "nodes_values": [1.0, 3.0, 0.2, 0.0, 0.0, 0.0],
        "nodes_modes": ["BRANCH_EQ", "BRANCH_EQ", "BRANCH_LEQ", "LEAF", "LEAF", "LEAF"],
        "nodes_truenodeids": [2, 2, 3, 0, 0, 0],
        "nodes_falsenodeids": [1, 5, 4, 0, 0, 0],
        "n_targets": 1,
    }
    leaves = weights(np.random.default_rng(0), [(0, 3), (0, 4), (0, 5)], "target", [0])
    model = graph_model([operator("TreeEnsembleRegressor", **every, **leaves)], 1)
    X = np.random.default_rng(0).choice([0, 1, 2, 3, 4, 0.2, np.nan], (300, N_FEATURES)).astype(np.float32)
    check(model, X)
    links = {"nodes_truenodeids": [4, 2, 3, 0, 0, 0], "nodes_falsenodeids": [1, 5, 1, 0, 0, 0]}
    loop = graph_model([operator("TreeEnsembleRegressor", **(every | links), **leaves)], 1)
    with pytest.raises(ModelFileError, match="got a loop"):
        read_model(loop)


@pytest.mark.parametrize("aggregate", ["MIN", "MAX"])
def test_other_aggregates_are_refused(aggregate):
    with pytest.raises(UnsupportedModelError, match=f"aggregate function {aggregate}"):
        read_model(regressor(np.random.default_rng(0), aggregate_function=aggregate))


@pytest.mark.parametrize(("transform", "link"), [("NONE", "identity"), ("LOGISTIC", "logit"), ("SOFTMAX", "softmax")])
def test_transforms_of_several_targets_are_links(transform, link):
    model = regressor(np.random.default_rng(0), 3, post_transform=transform)
    forest = read_model(model)
    assert forest.schema.link == link
    np.testing.assert_allclose(respond(forest.schema, forest.score(rows())), run(model, rows()), atol=2e-6)


@pytest.mark.parametrize("transform", ["LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT"])
def test_transforms_of_one_target_leave_the_response_undefined(transform):
    assert read_model(regressor(np.random.default_rng(0), post_transform=transform)).schema.link == "other"


# Classifiers


def check_labels(model):
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1
    session = runtime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
    fx = treeanova.decompose(model, rows(), density="empirical")
    np.testing.assert_array_equal(fx.predict(rows()), session.run(["label"], {"X": rows()})[0])


@pytest.mark.parametrize("transform", ["NONE", "LOGISTIC", "SOFTMAX_ZERO", "PROBIT"])
@pytest.mark.parametrize("base", [{}, {"base_values": [0.3, 0.6, -0.9]}])
def test_labels_of_scores_that_are_no_probabilities(transform, base):
    model = labelled(classifier(np.random.default_rng(0), [0, 10, 20], post_transform=transform, **base))
    assert read_model(model).schema.link == "argmax"
    check_labels(model)
    with pytest.raises(ValueError, match="got the link 'argmax'; use decision_function"):
        treeanova.decompose(model, rows(), density="empirical").predict_proba(rows())


def labelled(model):
    model.graph.output.insert(0, helper.make_tensor_value_info("label", TensorProto.INT64, None))
    return model


@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("base", [None, [0.3], [-0.7]])
def test_one_score_for_two_classes(positive, base):
    options = {} if base is None else {"base_values": base}
    make = {"outputs": [0], "positive": positive, **options}
    model = classifier(np.random.default_rng(0), [5, 7], post_transform="LOGISTIC", **make)
    forest = read_model(model)
    assert (forest.schema.link, forest.schema.classes, forest.schema.outputs) == ("logit", (5, 7), ("score",))
    np.testing.assert_allclose(class_probabilities(forest.schema, forest.score(rows())), run(model, rows()), atol=2e-6)
    plain = classifier(np.random.default_rng(0), [5, 7], **make)
    forest = read_model(plain)
    np.testing.assert_allclose(forest.score(rows())[:, 0], run(plain, rows())[:, 1], atol=2e-6)
    assert forest.schema.link == ("probability" if positive else "argmax")
    if not positive:
        check_labels(labelled(plain))


def test_opposite_scores_of_two_classes_are_log_odds():
    """As CatBoost writes them."""
    model = classifier(np.random.default_rng(0), [0, 1], post_transform="LOGISTIC")
    found = {attribute.name: attribute for attribute in model.graph.node[0].attribute}
    leaves = list(zip(found["class_treeids"].ints, found["class_nodeids"].ints, strict=True))
    scores = found["class_weights"].floats
    of_second = {leaf: w for leaf, k, w in zip(leaves, found["class_ids"].ints, scores, strict=True) if k == 1}
    for i, leaf in enumerate(leaves):
        scores[i] = of_second[leaf] if found["class_ids"].ints[i] == 1 else -of_second[leaf]
    forest = read_model(model)
    assert (forest.schema.link, forest.schema.classes, forest.schema.outputs) == ("logit", (0, 1), ("score",))
    np.testing.assert_allclose(class_probabilities(forest.schema, forest.score(rows())), run(model, rows()), atol=2e-6)
    check_labels(labelled(model))


@pytest.mark.parametrize("labels", [[0, 1], [0, 10, 20]])
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX"])
def test_a_score_for_each_class(labels, transform):
    model = classifier(np.random.default_rng(0), labels, post_transform=transform)
    forest = read_model(model)
    if transform == "NONE":
        # The weights do not add up to 1; onnxruntime's label of two classes is not that of the larger score.
        assert forest.schema.link == ("other" if len(labels) == 2 else "argmax")
        check(model)
    else:
        assert (forest.schema.link, forest.schema.classes) == ("softmax", tuple(labels))
        probabilities = class_probabilities(forest.schema, forest.score(rows()))
        np.testing.assert_allclose(probabilities, run(model, rows()), atol=2e-6)


def test_base_values_of_classes():
    model = classifier(np.random.default_rng(0), [0, 1, 2], base_values=[0.3, 0.6, 0.9])
    check(model)
    for labels, options in (([0, 1], {}), ([0, 1], {"outputs": [0]}), ([0, 1], {"outputs": [1]})):
        with pytest.raises(UnsupportedModelError, match="base value"):
            read_model(classifier(np.random.default_rng(0), labels, base_values=[0.3, 0.6], **options))


def stump(kind, entries, **attributes):
    """One split at 0, of the first feature; `entries` are nodes (1 or 2), outputs and weights."""
    prefix, outputs = ("target", ["scores"]) if kind == "TreeEnsembleRegressor" else ("class", ["label", "scores"])
    every = {f"nodes_{name}": [0] * 3 for name in ("treeids", "featureids")}
    every |= {"nodes_nodeids": [0, 1, 2], "nodes_modes": ["BRANCH_LEQ", "LEAF", "LEAF"], "nodes_values": [0.0] * 3}
    every |= {"nodes_truenodeids": [1, 0, 0], "nodes_falsenodeids": [2, 0, 0], f"{prefix}_treeids": [0] * len(entries)}
    columns = zip(("nodeids", "ids", "weights"), zip(*entries, strict=True), strict=True)
    every |= {f"{prefix}_{name}": list(values) for name, values in columns}
    return graph_model([operator(kind, outputs, **every, **attributes)], attributes.get("n_targets", 3))


@pytest.mark.parametrize(
    ("kind", "entries", "attributes", "is_refused"),
    [
        ("Regressor", [(1, 0, 1.0), (2, 1, 2.0)], {"n_targets": 2, "base_values": [10.0, 20.0]}, True),
        ("Regressor", [(1, 0, 1.0), (2, 0, 3.0), (2, 1, 2.0)], {"n_targets": 2, "base_values": [10.0, 0.0]}, False),
        ("Regressor", [(1, 0, 1.0), (2, 1, 2.0)], {"n_targets": 2}, False),
        ("Regressor", [(1, 0, 1.0)], {"n_targets": 1, "base_values": [10.0]}, False),
        ("Classifier", [(1, 0, -1.0), (2, 1, -2.0), (2, 2, -3.0)], {"classlabels_int64s": [0, 1, 2]}, True),
        ("Classifier", [(1, 0, 1.0), (2, 1, 2.0), (2, 2, 3.0)], {"classlabels_int64s": [0, 1, 2]}, False),
        ("Classifier", [(1, 0, 1.0), (2, 1, 1.0)], {"classlabels_int64s": [0, 1]}, True),
        ("Classifier", [(1, 0, 1.0)], {"classlabels_int64s": [0, 1], "base_values": [0.25]}, True),
        ("Classifier", [(1, 0, 1.0)], {"classlabels_int64s": [0, 1]}, False),
    ],
)
@pytest.mark.parametrize("transform", ["NONE", "SOFTMAX", "LOGISTIC"])
def test_outputs_that_some_leaves_give_no_weight(kind, entries, attributes, is_refused, transform):
    model = stump(f"TreeEnsemble{kind}", entries, post_transform=transform, **attributes)
    if is_refused:
        with pytest.raises(
            UnsupportedModelError, match=r"must give a weight to each target or class .* add weights of"
        ):
            read_model(model)
        return
    forest, X = read_model(model), np.float32([[-1, 0, 0], [1, 0, 0]])
    if forest.schema.link == "argmax":
        check_labels(labelled(model))
    elif kind == "Classifier" and forest.schema.link != "other":
        np.testing.assert_allclose(class_probabilities(forest.schema, forest.score(X)), run(model, X), atol=2e-6)
    elif forest.schema.link != "other":
        np.testing.assert_allclose(respond(forest.schema, forest.score(X)), run(model, X), atol=2e-6)


def test_probabilities_of_two_classes_are_one_output():
    inner, leaves = nodes(np.random.default_rng(0))
    both = weights(np.random.default_rng(0), leaves, "class", [0, 1])
    shares = np.random.default_rng(1).dirichlet([1, 1], len(leaves)) / 3
    both["class_weights"] = shares.ravel().tolist()
    every = inner | both | {"classlabels_strings": ["no", "yes"]}
    model = graph_model([operator("TreeEnsembleClassifier", ("label", "scores"), **every)], 2)
    forest = read_model(model)
    assert (forest.schema.outputs, forest.schema.classes) == (("score",), ("no", "yes"))
    np.testing.assert_allclose(class_probabilities(forest.schema, forest.score(rows())), run(model, rows()), atol=2e-6)


# The newer operator


def newer(rng, *, n_targets=2, modes=range(6), double=False, **attributes):
    """Full trees of depth 2 as TreeEnsemble, and a last tree that is one leaf."""
    dtype = np.float64 if double else np.float32
    n_trees, inner, leaves = 3, 3, 4
    n_nodes = n_trees * inner + 1
    first = np.arange(n_trees)[:, None]
    true = np.append((first * [inner, leaves, leaves] + [1, 0, 2]).ravel(), n_trees * leaves)
    false = np.append((first * [inner, leaves, leaves] + [2, 1, 3]).ravel(), n_trees * leaves)
    is_leaf = [0, 1, 1] * n_trees + [1]
    n_leaves = n_trees * leaves + 1
    every = {
        "n_targets": n_targets,
        "tree_roots": [inner * k for k in range(n_trees + 1)],
        "nodes_featureids": rng.integers(0, N_FEATURES, n_nodes).tolist(),
        "nodes_splits": numpy_helper.from_array(rng.choice(THRESHOLDS, n_nodes).astype(dtype)),
        "nodes_modes": numpy_helper.from_array(rng.choice(modes, n_nodes).astype(np.uint8)),
        "nodes_missing_value_tracks_true": rng.integers(0, 2, n_nodes).tolist(),
        "nodes_truenodeids": true.tolist(),
        "nodes_falsenodeids": false.tolist(),
        "nodes_trueleafs": is_leaf,
        "nodes_falseleafs": is_leaf,
        "leaf_targetids": rng.integers(0, n_targets, n_leaves).tolist(),
        "leaf_weights": numpy_helper.from_array(rng.normal(size=n_leaves).astype(dtype)),
    }
    kind = TensorProto.DOUBLE if double else TensorProto.FLOAT
    node = operator("TreeEnsemble", **(every | attributes))
    return graph_model([node], n_targets, opset=5, kind=kind, out=kind)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("aggregate", [0, 1])
def test_the_newer_operator(seed, aggregate):
    check(newer(np.random.default_rng(seed), aggregate_function=aggregate))


@pytest.mark.parametrize("seed", range(4))
def test_the_newer_operator_in_float64(seed):
    check(newer(np.random.default_rng(seed), double=True), rows(dtype=np.float64))


@pytest.mark.parametrize("seed", range(6))
def test_sets_of_the_newer_operator(seed):
    rng = np.random.default_rng(seed)
    sets = [np.append(rng.choice(np.arange(1, 31), rng.integers(1, 9), replace=False), np.nan) for _ in range(10)]
    members = numpy_helper.from_array(np.concatenate(sets).astype(np.float32))
    values = [*np.arange(-4, 42, 0.5), np.nextafter(3, 4), 70.0, -1e9, 1e20, np.nan, np.nan, np.inf, -np.inf]
    X = rng.choice(np.array(values, dtype=np.float32), (3000, N_FEATURES))
    check(newer(rng, modes=[6], membership_values=members), X)
    members = numpy_helper.from_array(np.concatenate(sets))
    check(newer(rng, modes=[6], membership_values=members, double=True), X.astype(np.float64))


@pytest.mark.parametrize(
    ("members", "error", "message"),
    [([1, 31, np.nan] * 10, UnsupportedModelError, "from 1 to 30"), ([1, np.nan], ModelFileError, "each of 10 nodes")],
)
def test_other_sets_are_refused(members, error, message):
    values = numpy_helper.from_array(np.array(members, dtype=np.float32))
    with pytest.raises(error, match=message):
        read_model(newer(np.random.default_rng(0), modes=[6], membership_values=values))


def test_the_newer_operator_refuses_extremes():
    for aggregate, name in ((2, "MIN"), (3, "MAX")):
        with pytest.raises(UnsupportedModelError, match=name):
            read_model(newer(np.random.default_rng(0), aggregate_function=aggregate))


# Graphs and files


def test_a_file_is_read_and_decomposed(tmp_path):
    model = regressor(np.random.default_rng(0))
    path = tmp_path / "model.onnx"
    path.write_bytes(model.SerializeToString())
    X = np.random.default_rng(0).uniform(-0.5, 0.5, (300, N_FEATURES)).astype(np.float32)
    fx = treeanova.decompose(path, X, feature_names=["a", "b", "c"])
    np.testing.assert_allclose(fx.decision_function(X), run(model, X)[:, 0], atol=2e-6)


def test_what_changes_columns_or_scores_is_refused():
    inner, leaves = nodes(np.random.default_rng(0))
    every = inner | weights(np.random.default_rng(0), leaves, "target", [0]) | {"n_targets": 1}
    trees = helper.make_node("TreeEnsembleRegressor", ["Z"], ["raw"], domain="ai.onnx.ml", **every)
    for before, after, message in (
        ("Identity", "Identity", None),
        ("Neg", "Identity", "must see its input itself, got Neg before"),
        ("Identity", "Exp", "must be those of its trees, got Exp after"),
    ):
        around = [helper.make_node(before, ["X"], ["Z"]), trees, helper.make_node(after, ["raw"], ["scores"])]
        model = graph_model(around, 1)
        if message is None:
            check(model)
        else:
            with pytest.raises(UnsupportedModelError, match=message):
                read_model(model)
    with pytest.raises(UnsupportedModelError, match=r"one tree operator .*, got 0 among Neg"):
        read_model(graph_model([helper.make_node("Neg", ["X"], ["scores"])], 1))


@pytest.mark.parametrize(("factor", "is_read"), [(1.0, True), (2.0, False)])
def test_scores_times_one(factor, is_read):
    inner, leaves = nodes(np.random.default_rng(0))
    every = inner | weights(np.random.default_rng(0), leaves, "target", [0]) | {"n_targets": 1}
    around = [operator("TreeEnsembleRegressor", ("raw",), **every), helper.make_node("Mul", ["raw", "c"], ["scores"])]
    model = graph_model(around, 1)
    model.graph.initializer.append(numpy_helper.from_array(np.array(factor, dtype=np.float32), "c"))
    if is_read:
        check(model)
    else:
        with pytest.raises(UnsupportedModelError, match="got Mul after"):
            read_model(model)


def test_inputs_of_other_types_are_refused():
    inner, leaves = nodes(np.random.default_rng(0))
    every = inner | weights(np.random.default_rng(0), leaves, "class", [0, 1, 2]) | {"classlabels_int64s": [0, 1, 2]}
    node = operator("TreeEnsembleClassifier", ("label", "scores"), **every)
    with pytest.raises(UnsupportedModelError, match="must be a tensor of float or double"):
        read_model(graph_model([node], 3, kind=TensorProto.INT64))


def test_damaged_files_are_reported(tmp_path):
    data = regressor(np.random.default_rng(0)).SerializeToString()
    path = tmp_path / "model.onnx"
    for cut in (0, 1, 30, len(data) // 2, len(data) - 1):
        path.write_bytes(data[:cut])
        with pytest.raises((ModelFileError, UnsupportedModelError)):
            read_model(path)
    rng = np.random.default_rng(0)
    for _ in range(600):
        broken = bytearray(data)
        broken[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(broken))
        with contextlib.suppress(ModelFileError, UnsupportedModelError):
            read_model(path)


def test_numbers_of_the_wire_format():
    assert integers([1, 2**64 - 3, bytes([5, 0x96, 0x01])]) == [1, -3, 5, 150]
    assert signed_number(2**63) == -(2**63)
    assert floats([np.float32([1.5, -2]).tobytes(), np.float32(3).tobytes()]) == [1.5, -2.0, 3.0]
    with pytest.raises(ModelFileError, match="known kinds"):
        fields(bytes([3]))


# Converters


def test_models_of_a_converter():
    convert = pytest.importorskip("skl2onnx")
    ensemble = pytest.importorskip("sklearn.ensemble")
    X = np.random.default_rng(0).normal(size=(200, N_FEATURES)).astype(np.float32)
    y = X[:, 0] * X[:, 1]
    model = fit(ensemble.GradientBoostingRegressor(n_estimators=4), X, y)
    np.testing.assert_allclose(
        read_model(convert.to_onnx(model, X[:1])).score(X)[:, 0], model.predict(X), rtol=1e-5, atol=1e-5
    )
    model = fit(ensemble.GradientBoostingClassifier(n_estimators=4), X, y > 0)
    score = read_model(convert.to_onnx(model, X[:1])).score(X)[:, 0]
    np.testing.assert_allclose(score, model.decision_function(X), rtol=1e-5, atol=1e-5)
    model = fit(ensemble.RandomForestClassifier(4, max_depth=3), X, np.digitize(y, [-0.3, 0.3]))
    converted = convert.to_onnx(model, X[:1])
    np.testing.assert_allclose(read_model(converted).score(X), model.predict_proba(X), rtol=1e-5, atol=1e-5)


# Hostile files


def identities(*pairs):
    return [helper.make_node("Identity", [source], [target]) for source, target in pairs]


def test_operators_in_a_circle_are_refused():
    model = regressor(np.random.default_rng(0))
    tree = model.graph.node[0]
    tree.input[0] = "a"
    model.graph.node.extend(identities(("b", "a"), ("c", "b"), ("a", "c")))
    with pytest.raises(ModelFileError, match="must follow each other, got a loop"):
        read_model(model)
    tree.input[0] = "d"
    model.graph.node.extend(identities(("X", "e"), ("e", "d")))
    assert read_model(model).n_trees == 3


def test_outputs_from_a_circle_beside_the_trees_are_refused():
    model = regressor(np.random.default_rng(0))
    model.graph.node.extend(identities(("b", "a"), ("a", "b")))
    model.graph.output[0].name = "a"
    with pytest.raises(ModelFileError, match="must follow each other, got a loop"):
        read_model(model)


def test_outputs_that_do_not_come_from_the_trees_are_refused():
    model = regressor(np.random.default_rng(0))
    model.graph.node.extend(identities(("X", "copy")))
    model.graph.output[0].name = "copy"
    with pytest.raises(ModelFileError, match="must come from its trees, got none that does"):
        read_model(model)
    model.graph.node.extend(identities(("scores", "same")))
    model.graph.output[0].name = "same"
    assert read_model(model).n_trees == 3


def test_targets_without_weights_are_refused():
    model = regressor(np.random.default_rng(0), n_targets=1)
    next(a for a in model.graph.node[0].attribute if a.name == "n_targets").i = 1_000_000
    with pytest.raises(ModelFileError, match="must have weights for each of 1000000 outputs, got 24"):
        read_model(model)


def test_shared_nodes_are_not_copied_without_end(monkeypatch):
    monkeypatch.setattr("treeanova.readers.onnx.graph._MAX_NODES", 20_000)  # two million take seconds
    n_levels = 40  # each node has the next one on both sides: 2^40 leaves
    node = {
        "nodes_treeids": [0] * (n_levels + 1),
        "nodes_nodeids": list(range(n_levels + 1)),
        "nodes_featureids": [0] * (n_levels + 1),
        "nodes_values": [float(k) for k in range(n_levels + 1)],
        "nodes_modes": ["BRANCH_LEQ"] * n_levels + ["LEAF"],
        "nodes_truenodeids": [*range(1, n_levels + 1), 0],
        "nodes_falsenodeids": [*range(1, n_levels + 1), 0],
    }
    leaf = {"target_treeids": [0], "target_nodeids": [n_levels], "target_ids": [0], "target_weights": [1.0]}
    with pytest.raises(UnsupportedModelError, match=r"must have at most 20,000 entries"):
        read_model(graph_model([operator("TreeEnsembleRegressor", n_targets=1, **node, **leaf)], 1))


def test_flags_and_modes_are_known_ones():
    model = regressor(np.random.default_rng(0), tracks=True)
    flags = next(a for a in model.graph.node[0].attribute if a.name == "nodes_missing_value_tracks_true")
    flags.ints[0] = 2
    with pytest.raises(ModelFileError, match="flags of ONNX trees must be 0 or 1, got 2"):
        read_model(model)
    model = newer(np.random.default_rng(0))
    modes = next(a for a in model.graph.node[0].attribute if a.name == "nodes_modes")
    modes.t.raw_data = bytes([7]) + modes.t.raw_data[1:]
    with pytest.raises(ModelFileError, match="must have known modes, got 7"):
        read_model(model)
    model = regressor(np.random.default_rng(0))
    model.graph.node[0].attribute.append(model.graph.node[0].attribute[0])
    with pytest.raises(ModelFileError, match="must have names of their own, got one twice"):
        read_model(model)


def test_attributes_and_weights_are_those_of_the_operator():
    model = regressor(np.random.default_rng(0))
    model.graph.node[0].attribute.append(helper.make_attribute("nodes_missing_values", [1]))
    with pytest.raises(ModelFileError, match="must have known attributes, got 'nodes_missing_values'"):
        read_model(model)
    model = regressor(np.random.default_rng(0))
    leaves = next(a for a in model.graph.node[0].attribute if a.name == "target_nodeids")
    leaves.ints[1] = leaves.ints[0]
    with pytest.raises(ModelFileError, match="must have a weight per output, got several"):
        read_model(model)
