"""Trees as raw effects: compared with walks through the trees, on rows that sit on and around every bound."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from treeanova.data.features import Feature, IntegerCategory, Schema
from treeanova.errors import BudgetError
from treeanova.model.forest import NEAR_ZERO, assemble
from treeanova.model.grid import grid_of
from treeanova.terms.expand import DEFAULT_BUDGET, plan_of
from treeanova.terms.expand import expand as expand_sets
from treeanova.terms.leafsets import leaf_sets

SEEDS = st.integers(0, 2**32 - 1)
BOUNDS = (-2.5, -1.0, np.nextafter(-NEAR_ZERO, -np.inf), NEAR_ZERO, 0.1, 1.0, 1e10, np.inf)
BOUNDS_NEAR_ZERO = (-NEAR_ZERO, -5e-324, 0.0, NEAR_ZERO, 1.0)


def random_schema(rng, n_outputs, max_features):
    features = []
    for j in range(rng.integers(1, max_features + 1)):
        accepts_missing, accepts_unseen = (bool(flag) for flag in rng.random(2) < 0.7)
        if rng.random() < 0.35:
            features.append(Feature(f"c{j}", IntegerCategory(int(rng.integers(1, 5))), accepts_missing, accepts_unseen))
        else:
            features.append(Feature(f"n{j}", accepts_missing=accepts_missing))
    return Schema(tuple(features), tuple(f"y{k}" for k in range(n_outputs)))


class Nodes:
    """Nodes of trees as they grow, in the form that `assemble` takes."""

    def __init__(self, rng, schema, bounds):
        self.rng, self.schema, self.bounds, self.rows, self.category_left = rng, schema, bounds, [], []

    def grow(self, depth):
        """Position of a new subtree's root."""
        node = len(self.rows)
        leaf = {"feature": -1, "bound": 0.0, "left": -1, "right": -1, "start": -1, "missing": False, "zero": False}
        self.rows.append(leaf | {"values": self.rng.normal(size=len(self.schema.outputs))})
        if depth == 0 or self.rng.random() < 0.15:
            return node
        j = int(self.rng.integers(len(self.schema.features)))
        feature = self.schema.features[j]
        split = {"feature": j, "missing": self.rng.random() < 0.5}
        if feature.is_category:
            split["start"] = len(self.category_left)
            self.category_left += (self.rng.random(feature.n_categories + 1) < 0.5).tolist()
        else:
            split |= {"bound": self.rng.choice(self.bounds), "zero": self.rng.random() < 0.3}
        self.rows[node] |= split
        self.rows[node] |= {"left": self.grow(depth - 1), "right": self.grow(depth - 1)}
        return node

    def column(self, name):
        return [row[name] for row in self.rows]


def random_forest(rng, *, max_depth=4, max_trees=8, n_outputs=None, max_features=5, bounds=BOUNDS):
    """A forest of any shape: numbers and categories, missing either way, zeros as missing, several outputs."""
    n_outputs = int(rng.integers(1, 4)) if n_outputs is None else n_outputs
    nodes = Nodes(rng, random_schema(rng, n_outputs, max_features), bounds)
    roots = [nodes.grow(int(rng.integers(0, max_depth + 1))) for _ in range(rng.integers(1, max_trees + 1))]
    return assemble(
        nodes.schema,
        rng.normal(size=n_outputs),
        roots=roots,
        feature=nodes.column("feature"),
        bound=nodes.column("bound"),
        left=nodes.column("left"),
        right=nodes.column("right"),
        missing_left=nodes.column("missing"),
        zero_missing=nodes.column("zero"),
        category_start=nodes.column("start"),
        category_left=nodes.category_left,
        values=np.array(nodes.column("values")),
        leaf_label=np.arange(len(nodes.rows)),
    )


def values_to_try(feature, bounds):
    """Raw values of a feature that sit on and around its bounds, or are its categories, and others it accepts."""
    missing = [np.nan] * feature.accepts_missing
    if feature.is_category:
        unseen = [-3.0, feature.n_categories, feature.n_categories + 7.0] if feature.accepts_unseen else []
        return np.array([*range(feature.n_categories), *unseen, *missing], dtype=float)
    special = [0.0, -0.0, NEAR_ZERO, -NEAR_ZERO, 5e-324, 1e300, -1e300, np.inf, -np.inf]
    every = np.unique(np.concatenate([bounds, special]))
    with np.errstate(over="ignore"):
        return np.concatenate([every, np.nextafter(every, np.inf), np.nextafter(every, -np.inf), missing])


def adversarial_rows(forest, rng, n_rows=200):
    columns = [
        rng.choice(values_to_try(feature, forest.bound[forest.feature == j]), n_rows)
        for j, feature in enumerate(forest.schema.features)
    ]
    return np.column_stack(columns)


def scale_of(forest):
    return np.abs(forest.values).sum() + np.abs(forest.intercept).sum()


def expand(forest, grid):
    return expand_sets(leaf_sets(forest, grid))


@given(SEEDS)
def test_raw_effects_score_as_the_trees_do(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    rows = adversarial_rows(forest, rng)
    effects = expand(forest, grid_of(forest))
    np.testing.assert_allclose(effects.score(rows), forest.score(rows), rtol=0, atol=1e-12 * scale_of(forest))


@given(SEEDS)
def test_zeros_that_count_as_missing_may_lie_in_several_bins(seed):
    rng = np.random.default_rng(seed)
    forest = random_forest(rng, bounds=BOUNDS_NEAR_ZERO)
    rows = adversarial_rows(forest, rng)
    effects = expand(forest, grid_of(forest))
    np.testing.assert_allclose(effects.score(rows), forest.score(rows), rtol=0, atol=1e-12 * scale_of(forest))


def walked_feature_sets(forest):
    """Sets of features on the way to each leaf, by walks from the roots."""
    found = set()

    def walk(node, used):
        j = int(forest.feature[node])
        if j < 0:
            found.add(tuple(sorted(used)))
            return
        walk(forest.left[node], used | {j})
        walk(forest.right[node], used | {j})

    for root in forest.roots:
        walk(root, frozenset())
    return found


@given(SEEDS)
def test_plan_counts_every_term_that_comes_out(seed):
    forest = random_forest(np.random.default_rng(seed))
    grid = grid_of(forest)
    sets = leaf_sets(forest, grid)
    keys, positions = sets.keys, sets.group
    walked = walked_feature_sets(forest)
    assert set(keys) == walked
    assert len(positions) == forest.n_leaves
    subsets = {sub for key in walked for order in range(1, len(key) + 1) for sub in itertools.combinations(key, order)}
    plan = plan_of(set(keys), grid, forest.n_outputs)
    assert dict(plan.cells) == {key: math.prod(len(grid.axes[j]) for j in key) for key in subsets}
    assert plan.max_order == max(map(len, walked))
    effects = expand(forest, grid)
    assert set(effects.terms) == walked - {()}
    assert all(values.size == plan.cells[key] * forest.n_outputs for key, values in effects.terms.items())


def stumps(*trees, n_features=3, n_outputs=1):
    """Trees of one to three splits in a row: each a list of (feature, bound), the last of which ends in two leaves."""
    feature, bound, left, right, roots = [], [], [], [], []
    for splits in trees:
        roots.append(len(feature))
        for j, u in splits:
            node = len(feature)
            feature += [j, -1]
            bound += [u, 0.0]
            left += [node + 1, -1]
            right += [node + 2, -1]
        feature.append(-1)
        bound.append(0.0)
        left.append(-1)
        right.append(-1)
    n_nodes = len(feature)
    schema = Schema(
        tuple(Feature(f"x{j}", accepts_missing=False) for j in range(n_features)),
        tuple(f"y{k}" for k in range(n_outputs)),
    )
    return assemble(
        schema,
        np.zeros(n_outputs),
        roots=roots,
        feature=feature,
        bound=bound,
        left=left,
        right=right,
        missing_left=np.zeros(n_nodes, bool),
        values=np.arange(1.0, n_nodes * n_outputs + 1).reshape(n_nodes, n_outputs),
        leaf_label=np.arange(n_nodes),
    )


def test_one_split_by_hand():
    # Node 0 splits at 0.5 into node 1 (value 2) and node 2 (value 3).
    effects = expand(forest := stumps([(0, 0.5)], n_features=1), grid_of(forest))
    assert effects.intercept.tolist() == [0.0]
    assert effects.terms[0,].tolist() == [[2.0], [3.0]]


def test_two_features_by_hand():
    # x0 <= 0.5: 2; else x1 <= 1.5: 4; else 5. The first leaf's path has x0 only.
    effects = expand(forest := stumps([(0, 0.5), (1, 1.5)], n_features=2), grid_of(forest))
    assert {key: values[..., 0].tolist() for key, values in effects.terms.items()} == {
        (0,): [2.0, 0.0],
        (0, 1): [[0.0, 0.0], [4.0, 5.0]],
    }


def test_plan_by_hand():
    # Axes of 3, 2 and 2 bins. Terms x0, x0 x1, x0 x1 x2 in the trees; purification adds x1, x2, x0 x2, x1 x2.
    forest = stumps([(0, 0.0), (1, 0.0), (2, 0.0)], [(0, 1.0)], n_outputs=2)
    plan = plan_of(set(leaf_sets(forest, grid_of(forest)).keys), grid_of(forest), 2)
    assert plan.cells == {(0,): 3, (1,): 2, (2,): 2, (0, 1): 6, (0, 2): 6, (1, 2): 4, (0, 1, 2): 12}
    assert (plan.n_cells, plan.max_order) == (35, 3)
    # Raw and pure values of two outputs and one weight, 8 bytes each.
    assert plan.n_bytes == 35 * 5 * 8
    assert str(plan) == (
        "order 1: 3 terms, 7 cells, direct\norder 2: 3 terms, 16 cells, direct\norder 3: 1 terms, 12 cells, direct\n"
        "2 outputs, 1.4 kB in all"
    )


def test_budget_is_checked_before_any_work():
    forest = stumps([(0, 0.0), (1, 0.0), (2, 0.0)], [(0, 1.0)], n_outputs=2)
    grid = grid_of(forest)
    plan = plan_of(set(leaf_sets(forest, grid).keys), grid, 2)
    plan.check(1400)
    message = (
        r"need 1\.4 kB, over the budget of 1\.4 kB; the largest is x0 × x1 × x2 with 12 cells\. "
        "Raise `budget`, train shallower trees, or bin the features more coarsely"
    )
    with pytest.raises(BudgetError, match=message):
        plan.check(1399)


def test_budget_is_a_memory_error_and_stops_what_would_not_fit():
    rng = np.random.default_rng(0)
    trees = [[(int(j), float(rng.normal())) for j in rng.permutation(6)] for _ in range(3000)]
    forest = stumps(*trees, n_features=6)
    with pytest.raises(MemoryError, match=r"TB, over the budget of 2 GB; the largest is x0 × x1 × x2 × x3 × x4 × x5"):
        plan_of(set(leaf_sets(forest, grid_of(forest)).keys), grid_of(forest), 1).check(DEFAULT_BUDGET)


def test_only_leaves():
    forest = stumps([], [], n_features=2, n_outputs=2)
    effects = expand(forest, grid_of(forest))
    assert dict(effects.terms) == {}
    assert effects.intercept.tolist() == [1.0 + 3.0, 2.0 + 4.0]
    assert effects.score(np.zeros((3, 2))).tolist() == [[4.0, 6.0]] * 3
    assert plan_of({()}, effects.grid, 2).n_cells == 0


def test_features_without_splits_have_one_bin_and_no_term():
    forest = stumps([(2, 0.5)], n_features=4)
    grid = grid_of(forest)
    effects = expand(forest, grid)
    assert grid.sizes == (1, 1, 2, 1)
    assert list(effects.terms) == [(2,)]
    rows = np.array([[np.inf, -1e300, 0.5, 0.0], [0, 0, np.nextafter(0.5, 1), 0]])
    assert effects.score(rows).tolist() == [[2.0], [3.0]]


def test_a_split_that_no_row_can_pass():
    # The second split asks for x0 <= 0 where x0 > 1: its left leaf is empty.
    forest = stumps([(0, 1.0), (0, 0.0)], n_features=1)
    effects = expand(forest, grid_of(forest))
    rows = np.array([[-1.0], [0.5], [1.5]])
    assert effects.terms[0,][:, 0].tolist() == [2.0, 2.0, 5.0]
    np.testing.assert_array_equal(effects.score(rows), forest.score(rows))


@given(SEEDS)
def test_blocks_of_leaves_do_not_matter(seed):
    from treeanova.terms import expand as module

    rng = np.random.default_rng(seed)
    forest = random_forest(rng)
    grid = grid_of(forest)
    whole = expand(forest, grid)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_BLOCK_CELLS", 20)
        parts = expand(forest, grid)
    for key, values in whole.terms.items():
        np.testing.assert_allclose(parts.terms[key], values, rtol=0, atol=1e-12 * scale_of(forest))
