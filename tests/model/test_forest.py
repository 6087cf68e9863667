"""Forests: scores against a walk in plain Python, bounds against float32 itself, and checks of what is assembled."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from treeanova.data.features import IntegerCategory
from treeanova.errors import ModelFileError
from treeanova.model import Feature, Schema
from treeanova.model.forest import NEAR_ZERO, assemble, bound_below, bound_up_to, weighted_sum
from treeanova.model.rows import Rows

NAN = float("nan")
SINGLES = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)


def as_single(x: float) -> np.float32:
    with np.errstate(over="ignore"):
        return np.float32(x)


def near(bound: float, threshold: float) -> list[float]:
    """Numbers around a bound and a threshold, where a wrong bound would show."""
    some = [bound, threshold, 0.0, -0.0, 1e300, -1e300, math.inf, -math.inf]
    return [y for x in some for y in (x, math.nextafter(x, math.inf), math.nextafter(x, -math.inf))]


@given(SINGLES, st.lists(DOUBLES, max_size=20))
def test_bound_below_is_exact(threshold, others):
    assume(threshold > -math.inf)  # nothing is below it
    bound = float(bound_below(np.float32(threshold)))
    for x in [*near(bound, threshold), *others]:
        assert (x <= bound) == (as_single(x) < np.float32(threshold)), x


@given(st.one_of(SINGLES, DOUBLES), st.lists(DOUBLES, max_size=20))
def test_bound_up_to_is_exact(threshold, others):
    bound = float(bound_up_to(threshold))
    for x in [*near(bound, threshold), *others]:
        assert (x <= bound) == (float(as_single(x)) <= threshold), x


# Forests

N_CATEGORIES = 3
SCHEMA = Schema((Feature("a"), Feature("b"), Feature("c", IntegerCategory(N_CATEGORIES))), ("low", "high"))


def random_tree(rng, depth, nodes):
    """Append a tree to a list of nodes, children after parents; its root's position."""
    here = len(nodes)
    nodes.append(None)
    if depth == 0 or rng.random() < 0.2:
        nodes[here] = {"value": rng.normal(size=2)}
        return here
    node = {"feature": int(rng.integers(0, 3)), "missing_left": bool(rng.random() < 0.5), "zero_missing": False}
    if node["feature"] == 2:
        node["left_codes"] = set(np.flatnonzero(rng.random(N_CATEGORIES + 1) < 0.5).tolist())
    else:
        node["bound"] = float(np.round(rng.normal(), 1))
        node["zero_missing"] = bool(rng.random() < 0.3)
    node["left"] = random_tree(rng, depth - 1, nodes)
    node["right"] = random_tree(rng, depth - 1, nodes)
    nodes[here] = node
    return here


def random_nodes(seed):
    rng = np.random.default_rng(seed)
    nodes: list = []
    roots = [random_tree(rng, 4, nodes) for _ in range(3)]
    return nodes, roots, rng.normal(size=2)


def forest_of(nodes, roots, intercept, schema=SCHEMA):
    starts, sets = [], []
    for node in nodes:
        starts.append(len(sets) if "left_codes" in node else -1)
        if "left_codes" in node:
            sets += [code in node["left_codes"] for code in range(N_CATEGORIES + 1)]
    return assemble(
        schema,
        intercept,
        roots=roots,
        feature=[node.get("feature", -1) for node in nodes],
        bound=[node.get("bound", NAN) for node in nodes],
        left=[node.get("left", -1) for node in nodes],
        right=[node.get("right", -1) for node in nodes],
        missing_left=[node.get("missing_left", False) for node in nodes],
        zero_missing=[node.get("zero_missing", False) for node in nodes],
        values=[node.get("value", np.zeros(2)) for node in nodes],
        leaf_label=range(len(nodes)),
        category_start=starts,
        category_left=sets,
    )


def goes_left(node, x):
    if math.isnan(x) or (node["zero_missing"] and abs(x) <= NEAR_ZERO):
        return node["missing_left"]
    return int(x) in node["left_codes"] if "left_codes" in node else x <= node["bound"]


def leaf_of(nodes, root, row):
    here = root
    while "value" not in nodes[here]:
        node = nodes[here]
        here = node["left"] if goes_left(node, row[node["feature"]]) else node["right"]
    return here


def encoded_rows(seed, n_rows=200):
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(size=(n_rows, 3)), 1)
    rows[rng.random(rows.shape) < 0.1] = 0.0
    rows[:, 2] = rng.integers(0, N_CATEGORIES + 1, n_rows)
    rows[rng.random(rows.shape) < 0.2] = np.nan
    return rows


@pytest.mark.parametrize("seed", range(10))
def test_scores_and_leaves_are_those_of_a_walk_through_the_nodes(seed):
    nodes, roots, intercept = random_nodes(seed)
    forest, rows = forest_of(nodes, roots, intercept), encoded_rows(seed)
    leaves = [[leaf_of(nodes, root, row) for root in roots] for row in rows]
    expected = [intercept + sum(nodes[leaf]["value"] for leaf in reached) for reached in leaves]
    np.testing.assert_allclose(forest.score(Rows(rows)), expected, rtol=1e-13, atol=1e-13)
    np.testing.assert_array_equal(forest.leaf_label[forest.leaves(rows)], leaves)
    assert forest.n_trees == 3
    assert forest.n_outputs == 2
    assert forest.n_leaves == sum("value" in node for node in nodes)


def test_user_data_are_encoded():
    nodes, roots, intercept = random_nodes(0)
    forest, rows = forest_of(nodes, roots, intercept), encoded_rows(0)
    np.testing.assert_array_equal(forest.score(rows), forest.score(Rows(rows)))
    np.testing.assert_array_equal(forest.leaf_ids(rows), forest.leaf_label[forest.leaves(rows)])


def test_many_rows_are_scored_in_chunks(monkeypatch):
    nodes, roots, intercept = random_nodes(1)
    forest, rows = forest_of(nodes, roots, intercept), encoded_rows(1, 100)
    whole = forest.score(Rows(rows))
    monkeypatch.setattr("treeanova.model.forest._CHUNK", 21)
    np.testing.assert_array_equal(forest.score(Rows(rows)), whole)


def test_nodes_that_no_root_reaches_are_dropped():
    nodes, roots, intercept = random_nodes(2)
    rows = encoded_rows(2)
    first = forest_of(nodes, roots[:1], intercept)
    assert len(first.feature) == roots[1]
    np.testing.assert_array_equal(first.leaf_label[first.leaves(rows)][:, 0], [leaf_of(nodes, 0, row) for row in rows])


def test_arrays_cannot_be_changed():
    forest = forest_of(*random_nodes(3))
    with pytest.raises(ValueError, match="read-only"):
        forest.values[0] = 1.0


def test_another_schema():
    forest = forest_of(*random_nodes(3))
    names = ("x", "y", "z")
    features = tuple(dataclasses.replace(f, name=name) for f, name in zip(SCHEMA.features, names, strict=True))
    renamed = forest.with_schema(dataclasses.replace(SCHEMA, features=features))
    assert renamed.schema.names == names
    np.testing.assert_array_equal(renamed.score(encoded_rows(3)), forest.score(encoded_rows(3)))


STUMP = {
    "intercept": 0.0,
    "roots": [0],
    "feature": [0, -1, -1],
    "bound": [1.0, 0.0, 0.0],
    "left": [1, -1, -1],
    "right": [2, -1, -1],
    "missing_left": [False] * 3,
    "values": [[0.0], [1.0], [2.0]],
    "leaf_label": [0, 1, 2],
}


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"feature": [1, -1, -1]}, "must split on 1 features, got 1"),
        ({"feature": [-1, -1, -1]}, "must split on 1 features, got -1"),
        ({"left": [3, -1, -1]}, "must link nodes that exist, got nodes 2 to 3 of 3"),
        ({"roots": [-1]}, "must link nodes that exist, got nodes -1 to -1 of 3"),
        ({"left": [0, -1, -1]}, "must reach each node once, got a loop"),
        ({"right": [1, -1, -1]}, "must reach each node once, got a loop"),
        ({"roots": [0, 1]}, "must reach each node once, got a loop"),
        ({"bound": [NAN, 0.0, 0.0]}, "thresholds must be numbers, got NaN"),
        ({"values": [[0.0], [1.0], [math.inf]]}, "leaf values must be finite, got inf"),
        ({"intercept": NAN}, "intercept must be finite, got nan"),
    ],
)
def test_broken_trees_are_refused(changes, message):
    assemble(Schema((Feature("a"),)), **STUMP)
    with pytest.raises(ModelFileError, match=message):
        assemble(Schema((Feature("a"),)), **{**STUMP, **changes})


def test_values_of_inner_nodes_do_not_matter():
    forest = assemble(Schema((Feature("a"),)), **{**STUMP, "values": [[NAN], [1.0], [2.0]]})
    np.testing.assert_array_equal(forest.score([[1.0], [1.1], [NAN]]), [[1.0], [2.0], [2.0]])


def test_leaves_with_the_same_label_in_a_tree_are_one_of_the_library():
    split = {"feature": [0, -1, 0, -1, -1], "bound": [1.0, 0, 2.0, 0, 0], "left": [1, -1, 3, -1, -1]}
    tree = {**split, "right": [2, -1, 4, -1, -1], "missing_left": [False] * 5, "leaf_label": [0, 7, 0, 8, 7]}
    forest = assemble(Schema((Feature("a"),)), intercept=[0.0], roots=[0], values=np.ones((5, 1)), **tree)
    assert (forest.n_leaves, forest.n_library_leaves) == (3, 2)
    twice = weighted_sum([forest, forest], [1.0, 1.0])
    assert (twice.n_leaves, twice.n_library_leaves) == (6, 4)


# Sums


def test_a_weighted_sum_scores_the_sum_of_scores():
    forests = [forest_of(*random_nodes(seed)) for seed in range(3)]
    total, rows = weighted_sum(forests, [2.0, -1.0, 0.5]), encoded_rows(9)
    expected = sum(f * forest.score(Rows(rows)) for f, forest in zip([2.0, -1.0, 0.5], forests, strict=True))
    np.testing.assert_allclose(total.score(Rows(rows)), expected, rtol=1e-12, atol=1e-12)
    assert total.n_trees == 9


def test_classes_need_not_be_known_to_all():
    nodes = random_nodes(0)
    known = dataclasses.replace(SCHEMA, classes=("no", "yes"))
    total = weighted_sum([forest_of(*nodes, schema=known), forest_of(*nodes)], [0.5, 0.5])
    rows = encoded_rows(0)
    np.testing.assert_allclose(total.score(Rows(rows)), forest_of(*nodes).score(Rows(rows)), rtol=1e-12, atol=1e-14)
    assert total.schema.classes == ("no", "yes")


@pytest.mark.parametrize(
    ("changes", "field"),
    [({"link": "log"}, "link"), ({"outputs": ("low", "top")}, "outputs"), ({"absent": 1.0}, "absent")],
)
def test_forests_of_other_schemas_are_not_summed(changes, field):
    nodes, schema = random_nodes(0), dataclasses.replace(SCHEMA, absent=NAN)
    other = forest_of(*nodes, schema=dataclasses.replace(schema, **changes))
    with pytest.raises(ValueError, match=f"to be combined, got different {field}; train them on the same columns"):
        weighted_sum([forest_of(*nodes, schema=schema), other], [1.0, 1.0])
