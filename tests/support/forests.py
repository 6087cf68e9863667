"""Random forests of all shapes, small ones written down node by node, and rows that lie on their thresholds."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from treeanova.core.arrays import BinIndices, Floats
from treeanova.data.features import Feature, IntegerCategory, Labels, Numeric, Schema
from treeanova.model.axes import Axis
from treeanova.model.forest import NEAR_ZERO, Forest, TreeBuilder, assemble
from treeanova.model.grid import Grid, grid_of

BOUNDS = (-2.5, -1.0, float(np.nextafter(-NEAR_ZERO, -np.inf)), NEAR_ZERO, 0.1, 1.0, 1e10, np.inf)
BOUNDS_NEAR_ZERO = (-NEAR_ZERO, -5e-324, 0.0, NEAR_ZERO, 1.0)
_LEAF = (-1, 0.0, -1, -1)


def random_forest(
    rng: np.random.Generator,
    *,
    max_depth: int = 4,
    max_trees: int = 8,
    n_outputs: int | None = None,
    max_features: int = 5,
    bounds: Sequence[float] = BOUNDS,
    features: Sequence[Feature] | None = None,
) -> Forest:
    """A forest of numbers and categories, given or random: missing values go either way, zeros may count as missing."""
    n_outputs = int(rng.integers(1, 4)) if n_outputs is None else n_outputs
    schema = _random_schema(rng, n_outputs, max_features)
    growth = _Growth(rng, schema if features is None else Schema(tuple(features), schema.outputs), bounds)
    n_trees = int(rng.integers(1, max_trees + 1))
    roots = [growth.grow(int(rng.integers(0, max_depth + 1))) for _ in range(n_trees)]
    return growth.trees.forest(growth.schema, rng.normal(size=n_outputs), roots)


def _random_schema(rng: np.random.Generator, n_outputs: int, max_features: int) -> Schema:
    features = []
    for j in range(int(rng.integers(1, max_features + 1))):
        accepts_missing, accepts_unseen = (bool(flag) for flag in rng.random(2) < 0.7)
        if rng.random() < 0.35:
            features.append(Feature(f"c{j}", IntegerCategory(int(rng.integers(1, 5))), accepts_missing, accepts_unseen))
        else:
            features.append(Feature(f"n{j}", accepts_missing=accepts_missing))
    return Schema(tuple(features), tuple(f"y{k}" for k in range(n_outputs)))


class _Growth:
    """Random trees as they grow."""

    def __init__(self, rng: np.random.Generator, schema: Schema, bounds: Sequence[float]) -> None:
        self.rng, self.schema, self.bounds = rng, schema, bounds
        self.trees = TreeBuilder()

    def grow(self, depth: int) -> int:
        """Position of a new subtree's root."""
        values = self.rng.normal(size=len(self.schema.outputs))
        if depth == 0 or self.rng.random() < 0.15:
            return self.trees.append(values=values)
        node = self.trees.append(**self._random_split())
        self.trees.link(node, self.grow(depth - 1), self.grow(depth - 1))
        return node

    def _random_split(self) -> dict[str, Any]:
        j = int(self.rng.integers(len(self.schema.features)))
        feature = self.schema.features[j]
        split: dict[str, Any] = {"feature": j, "missing_left": self.rng.random() < 0.5}
        if feature.is_category:
            return split | {"categories": self.rng.random(feature.n_categories + 1) < 0.5}
        return split | {"bound": self.rng.choice(self.bounds), "zero_missing": self.rng.random() < 0.3}


def rows_on_bounds(forest: Forest, rng: np.random.Generator, n_rows: int = 200) -> Floats:
    """Rows whose values lie on bounds and next to them, or are categories, unseen or missing where accepted."""
    columns = [
        rng.choice(_values_to_try(feature, forest.bound[forest.feature == j]), n_rows)
        for j, feature in enumerate(forest.schema.features)
    ]
    return np.column_stack(columns)


def _values_to_try(feature: Feature, bounds: Floats) -> Floats:
    missing = [np.nan] * feature.accepts_missing
    if feature.is_category:
        unseen = [-3.0, feature.n_categories, feature.n_categories + 7.0] if feature.accepts_unseen else []
        return np.array([*range(feature.n_categories), *unseen, *missing], dtype=float)
    special = [0.0, -0.0, NEAR_ZERO, -NEAR_ZERO, 5e-324, 1e300, -1e300, np.inf, -np.inf]
    every = np.unique(np.concatenate([bounds, special]))
    with np.errstate(over="ignore"):
        return np.concatenate([every, np.nextafter(every, np.inf), np.nextafter(every, -np.inf), missing])


def scale_of(forest: Forest) -> float:
    """Sum of all absolute leaf values and intercepts, to which tolerances are relative."""
    return float(np.abs(forest.values).sum() + np.abs(forest.intercept).sum())


def chains(*trees: Sequence[tuple[int, float]], n_features: int = 3, n_outputs: int = 1) -> Forest:
    """Trees of splits in a row, each a list of (feature, bound): the left child is a leaf, the right one goes on.

    Nodes are numbered from 0 in this order; the leaf at node i has the value i + 1 (one output).
    """
    roots: list[int] = []
    nodes: list[tuple[int, float, int, int]] = []  # feature, bound, left, right
    for splits in trees:
        roots.append(len(nodes))
        for j, threshold in splits:
            nodes += [(j, threshold, len(nodes) + 1, len(nodes) + 2), _LEAF]
        nodes.append(_LEAF)
    feature, bound, left, right = zip(*nodes, strict=True) if nodes else ((), (), (), ())
    n_nodes = len(nodes)
    features = tuple(Feature(f"x{j}", accepts_missing=False) for j in range(n_features))
    return assemble(
        Schema(features, tuple(f"y{k}" for k in range(n_outputs))),
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


def stumps(features: Sequence[Feature], splits: Sequence[tuple[Any, ...]]) -> Forest:
    """Trees of one split each: (feature, bound or set of codes, missing goes left[, zero counts as missing])."""
    trees, roots = TreeBuilder(), []
    for count, (j, rule, missing_left, *zero) in enumerate(splits):
        is_set = isinstance(rule, (set, frozenset))
        categories = [code in rule for code in range(features[j].n_categories + 1)] if is_set else ()
        rules = {"missing_left": missing_left, "zero_missing": bool(zero and zero[0]), "categories": categories}
        roots.append(trees.append(j, np.nan if is_set else rule, **rules))
        leaves = [trees.append(values=[3.0 * count + side], label=side) for side in (1, 2)]
        trees.link(roots[-1], *leaves)
    return trees.forest(Schema(tuple(features)), [0.0], roots)


# Axes of stumps, and rows of a number and a letter

LETTERS = ("a", "b", "c", "d")
NUMBER_AND_LETTER = (Feature("x", Numeric()), Feature("k", Labels(LETTERS)))
_SPECIAL = np.array([0.0, -0.0, NEAR_ZERO, -NEAR_ZERO, 1e-300, np.inf, -np.inf, np.nan, 0.5, 1.0, -1.0, 2.0])


def numeric_axis(*splits: tuple[Any, ...], **options: Any) -> Axis:
    """The axis of a number that stumps split: (bound, missing goes left[, zero counts as missing])."""
    return grid_of(stumps([Feature("x", Numeric(), **options)], [(0, *split) for split in splits])).axes[0]


def category_axis(*splits: tuple[Any, ...], labels: tuple[str, ...] = LETTERS, **options: Any) -> Axis:
    """The axis of a category that stumps split: (set of codes, missing goes left)."""
    return grid_of(stumps([Feature("k", Labels(labels), **options)], [(0, *split) for split in splits])).axes[0]


def random_stumps(rng: np.random.Generator, features: Sequence[Feature], n_splits: int) -> Forest:
    """Stumps of random bounds and sets, with infinities, zeros that count as missing and missing values either way."""
    splits: list[tuple[Any, ...]] = []
    for _ in range(n_splits):
        j = int(rng.integers(len(features)))
        missing_left = bool(rng.random() < 0.5)
        if features[j].is_category:
            chosen = np.flatnonzero(rng.random(features[j].n_categories + 1) < 0.5)
            splits.append((j, set(chosen.tolist()), missing_left))
        else:
            bound = float(rng.choice([*rng.normal(size=3).round(1), np.inf, 0.0, 1e-300]))
            splits.append((j, bound, missing_left, bool(rng.random() < 0.3)))
    return stumps(features, splits)


def number_and_letter_rows(rng: np.random.Generator, n_rows: int = 150) -> Any:
    """Raw values of a number and of a letter: zeros, infinities, an unseen letter and missing values among them."""
    numbers = np.where(rng.random(n_rows) < 0.5, rng.choice(_SPECIAL, n_rows), rng.normal(size=n_rows).round(1))
    rows = np.empty((n_rows, 2), dtype=object)
    rows[:, 0] = numbers
    rows[:, 1] = rng.choice(np.array([*LETTERS, "z", None], dtype=object), n_rows)
    return rows


# Whole grids


def all_cells(grid: Grid) -> BinIndices:
    """Bins of every cell of a small grid, shape (n_cells, n_features)."""
    cells = itertools.product(*(range(size) for size in grid.sizes))
    return np.array(list(cells), dtype=np.int32).reshape(-1, len(grid.sizes))


def random_masses(rng: np.random.Generator, grid: Grid) -> tuple[Floats, ...]:
    """Masses of the bins of each feature, of sum 1, some of them zero."""
    masses = [rng.random(size) * (rng.random(size) < 0.8) + 1e-3 * (np.arange(size) == 0) for size in grid.sizes]
    return tuple(column / column.sum() for column in masses)
