"""treelite checkpoints: leaves and predictions equal those of treelite.gtil, on and next to every threshold."""

from __future__ import annotations

import contextlib
import dataclasses

import numpy as np
import pytest
import scipy.sparse

import treeanova
from tests.support.edge_values import numeric_rows
from tests.support.training import fit
from treeanova import read_model
from treeanova.errors import ModelFileError, UnsupportedModelError
from treeanova.model.effects import respond
from treeanova.readers.treelite import forest_of, parse

treelite = pytest.importorskip("treelite")
from treelite import gtil  # noqa: E402
from treelite.model_builder import Metadata, ModelBuilder, PostProcessorFunc, TreeAnnotation  # noqa: E402

N_FEATURES = 3
CODES = [
    0.0,
    -0.0,
    -0.5,
    0.5,
    1.0,
    1.9,
    2.0,
    3.0,
    7.0,
    -1.0,
    2.0**24,
    2.0**24 + 2,
    2.0**32,
    np.inf,
    -np.inf,
    np.nan,
    100,
]


def built(
    rng,
    *,
    kind="float32",
    operators=("<", "<=", ">", ">="),
    categories=False,
    n_classes=(1,),
    placed=((0, 0),) * 4,
    shape=(1, 1),
    post="identity",
    average=False,
    depth=3,
    **parameters,
):
    """Full trees of random conditions; `placed` has a target and a class for each tree."""
    builder = ModelBuilder(
        threshold_type=kind,
        leaf_output_type=kind,
        metadata=Metadata(
            num_feature=N_FEATURES,
            task_type="kMultiClf" if max(n_classes) > 1 else "kRegressor",
            average_tree_output=average,
            num_target=len(n_classes),
            num_class=list(n_classes),
            leaf_vector_shape=shape,
        ),
        tree_annotation=TreeAnnotation(
            num_tree=len(placed), target_id=[t for t, _ in placed], class_id=[c for _, c in placed]
        ),
        postprocessor=PostProcessorFunc(name=post, **parameters),
        base_scores=rng.normal(size=len(n_classes) * max(n_classes)).tolist(),
    )
    for _ in placed:
        builder.start_tree()
        for node in range(2 ** (depth + 1) - 1):
            builder.start_node(node)
            if node >= 2**depth - 1:
                leaf = rng.normal(size=shape[0] * shape[1])
                builder.leaf(float(leaf[0]) if len(leaf) == 1 else leaf.tolist())
            else:
                add_test(builder, rng, node, operators, categories)
            builder.end_node()
        builder.end_tree()
    return builder.commit()


def add_test(builder, rng, node, operators, categories):
    feature, children = int(rng.integers(N_FEATURES)), {"left_child_key": 2 * node + 1, "right_child_key": 2 * node + 2}
    default_left = bool(rng.integers(2))
    if categories and feature == 2:
        builder.categorical_test(
            feature_id=feature,
            default_left=default_left,
            category_list=rng.choice([0, 1, 2, 3, 7], rng.integers(0, 4), replace=False).tolist(),
            category_list_right_child=bool(rng.integers(2)),
            **children,
        )
        return
    builder.numerical_test(
        feature_id=feature,
        threshold=float(rng.choice(np.arange(-4, 5) / 10)),
        default_left=default_left,
        opname=str(rng.choice(operators)),
        **children,
    )


def check(model):
    forest = read_model(model)
    rng = np.random.default_rng(1)
    rows = numeric_rows(forest, rng, 800)
    if forest.schema.features[2].is_category:
        rows[:, 2] = rng.choice(CODES, len(rows))
    with np.errstate(over="ignore"):
        single = rows.astype(model.input_type)
    np.testing.assert_array_equal(forest.leaf_ids(rows), gtil.predict_leaf(model, single))
    margin = gtil.predict(model, single, pred_margin=True).reshape(len(rows), -1)
    counts = model.get_header_accessor().get_field("num_class")
    exists = (np.arange(max(counts)) < counts[:, None]).ravel()
    score = forest.score(rows)
    np.testing.assert_allclose(score, margin[:, exists][:, -score.shape[1] :], rtol=1e-5, atol=1e-5)
    if forest.schema.link != "other":
        predicted = gtil.predict(model, single).reshape(len(rows), -1)[:, -score.shape[1] :]
        np.testing.assert_allclose(respond(forest.schema, score), predicted, rtol=1e-5, atol=1e-5)
    return forest


@pytest.mark.parametrize("kind", ["float32", "float64"])
@pytest.mark.parametrize("categories", [False, True])
def test_conditions(kind, categories):
    for seed in range(3):
        check(built(np.random.default_rng(seed), kind=kind, categories=categories))


CASES = [
    ("logit", {"post": "sigmoid", "sigmoid_alpha": 1.0}),
    ("other", {"post": "sigmoid", "sigmoid_alpha": 2.0}),
    ("log", {"post": "exponential"}),
    ("other", {"post": "hinge"}),
    ("identity", {"average": True}),
    ("softmax", {"post": "softmax", "n_classes": (3,), "placed": [(0, 0), (0, 1), (0, 2), (0, 1)]}),
    ("softmax", {"post": "softmax", "n_classes": (3,), "placed": [(0, -1)] * 3, "shape": (1, 3)}),
    ("logit", {"post": "multiclass_ova", "n_classes": (2,), "placed": [(0, 0), (0, 1)]}),
    ("other", {"post": "identity_multiclass", "n_classes": (3,), "placed": [(0, -1)] * 3, "shape": (1, 3)}),
    ("identity", {"n_classes": (1, 1), "placed": [(-1, 0)] * 2, "shape": (2, 1), "average": True}),
    ("identity", {"n_classes": (1, 1), "placed": [(0, 0), (1, 0), (1, 0)], "average": True}),
    ("other", {"post": "identity_multiclass", "n_classes": (2, 3), "placed": [(-1, -1)] * 2, "shape": (2, 3)}),
]


def test_means_over_no_trees_are_refused():
    options = {"post": "softmax", "n_classes": (3,), "placed": [(0, 0), (0, 2)]}
    check(built(np.random.default_rng(0), **options))
    model = built(np.random.default_rng(0), **options, average=True)
    assert np.isnan(gtil.predict(model, np.zeros((1, N_FEATURES), np.float32), pred_margin=True)).any()
    with pytest.raises(UnsupportedModelError, match="must have a tree for each class, got a class without"):
        read_model(model)


@pytest.mark.parametrize(("link", "options"), CASES)
def test_outputs_and_links(link, options):
    assert check(built(np.random.default_rng(0), **options)).schema.link == link


def test_forests_of_other_libraries():
    ensemble = pytest.importorskip("sklearn.ensemble")
    rng = np.random.default_rng(0)
    X = rng.normal(size=(200, N_FEATURES)).round(1)
    y = X[:, 0] * X[:, 1] + X[:, 2]
    options = {"n_estimators": 5, "max_depth": 4, "random_state": 0}
    regressor = fit(ensemble.RandomForestRegressor(**options), X, y)
    check(treelite.sklearn.import_model(regressor))
    classifier = fit(ensemble.RandomForestClassifier(**options), X, y > 0)
    forest = check(treelite.sklearn.import_model(classifier))
    assert (forest.schema.link, forest.n_outputs) == ("probability", 1)


def test_files_and_sparse_rows(tmp_path):
    model = built(np.random.default_rng(0))
    model.serialize(tmp_path / "model.tl")
    forest = read_model(tmp_path / "model.tl")
    rows = scipy.sparse.csr_matrix(np.array([[0.0, 0.3, 0.0], [0.1, 0.0, -0.2]]))
    np.testing.assert_allclose(forest.score(rows)[:, 0], gtil.predict(model, rows).ravel(), rtol=1e-6, atol=1e-6)


def test_a_decomposition_adds_up_and_is_saved(tmp_path):
    model = built(np.random.default_rng(0), categories=True)
    rng = np.random.default_rng(1)
    rows = np.column_stack([rng.normal(size=(200, 2)), rng.integers(0, 9, 200)]).astype(np.float32)
    fx = treeanova.decompose(model, rows)
    expected = gtil.predict(model, rows).ravel()
    np.testing.assert_allclose(fx.decision_function(rows), expected, rtol=1e-5, atol=1e-5)
    fx.save(tmp_path / "fx.tav")
    again = treeanova.load(tmp_path / "fx.tav")
    np.testing.assert_allclose(again.decision_function(rows), expected, rtol=1e-5, atol=1e-5)


def test_equalities_are_refused():
    with pytest.raises(UnsupportedModelError, match="must compare by <, <=, > or >=, got =="):
        read_model(built(np.random.default_rng(0), operators=["=="]))


@pytest.mark.parametrize("operator", [2, 5])  # < and >=
def test_splits_at_minus_infinity_are_refused_where_no_closed_bound_expresses_them(operator):
    checkpoint = parse(built(np.random.default_rng(0)).serialize_bytes())
    at_the_end = edited(checkpoint, "threshold", 0, -np.inf)
    for closed in (3, 4):  # <= and >
        forest_of(edited(at_the_end, "cmp", 0, closed))
    with pytest.raises(ModelFileError, match="must be above -inf, got -inf"):
        forest_of(edited(at_the_end, "cmp", 0, operator))


def test_damaged_files(tmp_path):
    data = built(np.random.default_rng(0), categories=True).serialize_bytes()
    path = tmp_path / "model.tl"
    rng = np.random.default_rng(0)
    path.write_bytes(data + b"x")
    with pytest.raises(ModelFileError, match="must end after its trees"):
        read_model(path)
    path.write_bytes((3).to_bytes(4, "little") + data[4:])
    with pytest.raises(UnsupportedModelError, match=r"must be of version 4, got 3\.\d+"):
        read_model(path)
    for _ in range(200):
        damaged = bytearray(data[: rng.integers(len(data))] if rng.random() < 0.3 else data)
        for position in rng.integers(0, max(len(damaged), 1), 3) if damaged else []:
            damaged[position] = rng.integers(256)
        path.write_bytes(damaged)
        with contextlib.suppress(ModelFileError, UnsupportedModelError):
            forest = read_model(path)
            forest.score(np.zeros((2, len(forest.schema.features))))


def edited(checkpoint, name, node, value):
    """The checkpoint with another value at a node of its first tree."""
    tree = dict(checkpoint.trees[0])
    tree[name] = tree[name].copy()
    tree[name][node] = value
    return dataclasses.replace(checkpoint, trees=[tree, *checkpoint.trees[1:]])


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("node_type", 0, "must have two children that exist, or none"),
        ("node_type", 3, "must be leaves or tests, got 3"),
        ("node_type", -1, "must be leaves or tests, got -1"),
        ("cleft", -1, "must have two children that exist, or none, got -1"),
        ("cright", 99, "must have two children that exist, or none, got 99"),
        ("default_left", 2, "default_left of a treelite model must be 0 or 1, got 2"),
        ("category_list_right_child", 128, "category_list_right_child of a treelite model must be 0 or 1, got 128"),
    ],
)
def test_nodes_are_of_known_kinds(name, value, message):
    checkpoint = parse(built(np.random.default_rng(0), categories=True).serialize_bytes())
    assert forest_of(checkpoint).n_trees == len(checkpoint.trees)
    with pytest.raises(ModelFileError, match=message):
        forest_of(edited(checkpoint, name, 0, value))


def test_leaves_have_no_children():
    checkpoint = parse(built(np.random.default_rng(0)).serialize_bytes())
    leaf = int(np.flatnonzero(checkpoint.trees[0]["cleft"] < 0)[0])
    with pytest.raises(ModelFileError, match="must have two children that exist, or none, got -1"):
        forest_of(edited(checkpoint, "node_type", leaf, 1))


def test_categories_that_no_float32_reaches_are_refused():
    checkpoint = parse(built(np.random.default_rng(0), categories=True).serialize_bytes())
    tree = next(k for k, one in enumerate(checkpoint.trees) if len(one["category_list"]))
    trees = [checkpoint.trees[tree], *checkpoint.trees]
    checkpoint = dataclasses.replace(
        checkpoint, trees=trees[:1], target_id=checkpoint.target_id[:1], class_id=checkpoint.class_id[:1]
    )
    with pytest.raises(ModelFileError, match=r"must be up to 2\^24, got 2298478595"):
        forest_of(edited(checkpoint, "category_list", slice(None), 2298478595))
