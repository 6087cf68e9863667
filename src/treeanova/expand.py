"""expand(forest, grid): the trees as raw effects, each leaf in the term of the features on its path.

A leaf with value v and, per feature j of its path, a set of bins B_j adds v Π_j 1[bin of j in B_j] to the term of its
features. With the sets of all leaves of a term as rows of 0/1 matrices M_j, its tensor is a product of matrices;
intervals, missing bins and category sets are all alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType

import numpy as np

from treeanova.effects import Effects, Key
from treeanova.errors import BudgetError
from treeanova.features import Floats
from treeanova.forest import NEAR_ZERO, Bools, Forest, Ints
from treeanova.grid import CategoryAxis, Grid, IntervalAxis
from treeanova.purification import method_for

DEFAULT_BUDGET = 2 * 2**30
_BLOCK_CELLS = 1 << 22
Paths = list[tuple[Ints, Ints, Bools]]


@dataclasses.dataclass(frozen=True)
class Plan:
    """What an expansion will hold, known before any work; `print` it.

    Attributes
    ----------
    cells
        Cells of each term that the trees hold, and of all terms of fewer features that purification adds.
    n_outputs
        Number of outputs.
    names
        Names of the features.
    sizes
        Number of bins of each feature.
    """

    cells: Mapping[Key, int]
    n_outputs: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]

    def method(self, key: Key) -> str:
        """How a term will be solved, unless its weights turn out a product: "direct" then."""
        return method_for([self.sizes[j] for j in key]).method

    @property
    def n_cells(self) -> int:
        """Cells of all terms."""
        return sum(self.cells.values())

    @property
    def n_bytes(self) -> int:
        """Memory of all terms, raw and pure, with their weights."""
        return 8 * self.n_cells * (2 * self.n_outputs + 1)

    @property
    def max_order(self) -> int:
        """Highest order of a term."""
        return max((len(key) for key in self.cells), default=0)

    def check(self, budget: float) -> None:
        """Raise BudgetError when the plan needs more bytes than the budget."""
        if self.n_bytes <= budget:
            return
        key = max(self.cells, key=lambda key: self.cells[key])
        raise BudgetError(
            f"the terms need {_size(self.n_bytes)}, over the budget of {_size(budget)}; the largest is "
            f"{' x '.join(self.names[j] for j in key)} with {self.cells[key]:,} cells. Raise `budget`, train shallower "
            "trees, or bin the features more coarsely."
        )

    def __str__(self) -> str:
        orders = sorted({len(key) for key in self.cells})
        lines = []
        for order in orders:
            own = {key: cells for key, cells in self.cells.items() if len(key) == order}
            methods = ", ".join(sorted({self.method(key) for key in own}))
            lines.append(f"order {order}: {len(own):,} terms, {sum(own.values()):,} cells, {methods}")
        outputs = "1 output" if self.n_outputs == 1 else f"{self.n_outputs} outputs"
        return "\n".join([*lines, f"{outputs}, {_size(self.n_bytes)} in all"])


def _size(n_bytes: float) -> str:
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(int(math.log(max(n_bytes, 1), 1000)), len(units) - 1)
    return f"{n_bytes / 1000**power:.3g} {units[power]}"


def plan_of(keys: set[Key], grid: Grid, n_outputs: int) -> Plan:
    """The plan of terms and all their subsets."""
    closure = set(keys) - {()}
    frontier = closure
    while frontier:
        frontier = {key[:i] + key[i + 1 :] for key in frontier for i in range(len(key)) if len(key) > 1} - closure
        closure = closure | frontier
    sizes = grid.sizes
    cells = {key: math.prod(sizes[j] for j in key) for key in sorted(closure, key=lambda key: (len(key), key))}
    return Plan(MappingProxyType(cells), n_outputs, grid.schema.names, sizes)


def leaf_keys(forest: Forest, paths: Paths) -> tuple[list[Key], Ints]:
    """Distinct sets of features on paths to leaves, and the position of each leaf's set among them."""
    used = np.zeros((forest.n_leaves, len(forest.schema.features)), dtype=bool)
    for leaves, nodes, _ in paths:
        used[leaves, forest.feature[nodes]] = True
    packed, positions = np.unique(np.packbits(used, axis=1), axis=0, return_inverse=True)
    rows = np.unpackbits(packed, axis=1, count=used.shape[1]).astype(bool)
    return [tuple(np.flatnonzero(row).tolist()) for row in rows], positions.ravel()


def paths_of(forest: Forest) -> Paths:
    """Steps up from all leaves at a time: leaves with such an ancestor, the ancestor, whether they lie to its left."""
    inner = np.flatnonzero(forest.feature >= 0)
    parent = np.full(len(forest.feature), -1, dtype=np.int64)
    parent[forest.left[inner]] = inner
    parent[forest.right[inner]] = inner
    is_left = np.zeros(len(parent), dtype=bool)
    is_left[forest.left[inner]] = True
    steps: Paths = []
    node = np.flatnonzero(forest.feature < 0)
    leaves = np.arange(len(node))
    while True:
        has_parent = parent[node] >= 0
        if not has_parent.any():
            return steps
        leaves, node = leaves[has_parent], node[has_parent]
        steps.append((leaves, parent[node], is_left[node]))
        node = parent[node]


def goes_left(forest: Forest, grid: Grid, feature: int, nodes: Ints) -> Bools:
    """Whether each bin of a feature goes left at nodes that split on it, shape (n_nodes, n_bins)."""
    axis = grid.axes[feature]
    bins = np.arange(axis.size)
    if isinstance(axis, CategoryAxis):
        known = np.arange(len(axis.categories))
        sets = np.zeros((len(nodes), axis.size), dtype=bool)
        sets[:, known] = forest.category_left[forest.category_start[nodes][:, None] + known]
        if axis.unseen_bin >= 0:
            sets[:, axis.unseen_bin] = forest.category_left[forest.category_start[nodes] + len(known)]
    else:
        assert isinstance(axis, IntervalAxis)  # noqa: S101  the two kinds of axes
        sets = bins <= np.searchsorted(axis.bounds, forest.bound[nodes], side="left")[:, None]
        zero = forest.zero_missing[nodes]
        if zero.any():
            # Bounds of other nodes may lie between ±NEAR_ZERO and part it into several bins.
            first, last = np.searchsorted(axis.bounds, [-NEAR_ZERO, NEAR_ZERO], side="left")
            sets[zero, first : last + 1] = forest.missing_left[nodes][zero][:, None]
    if axis.missing_bin >= 0:
        sets[:, axis.missing_bin] = forest.missing_left[nodes]
    return sets


def memberships(forest: Forest, grid: Grid, paths: Paths, feature: int) -> tuple[Ints, Bools]:
    """Leaves that have a feature on their path, and the bins of it that reach each, shape (n_such_leaves, n_bins)."""
    reached = np.zeros(forest.n_leaves, dtype=bool)
    for leaves, nodes, _ in paths:
        reached[leaves[forest.feature[nodes] == feature]] = True
    with_feature = np.flatnonzero(reached)
    sets = np.ones((len(with_feature), grid.axes[feature].size), dtype=bool)
    for step_leaves, step_nodes, step_left in paths:
        own = forest.feature[step_nodes] == feature
        leaves, nodes, left = step_leaves[own], step_nodes[own], step_left[own]
        here = goes_left(forest, grid, feature, nodes)
        sets[np.searchsorted(with_feature, leaves)] &= here == left[:, None]
    return with_feature, sets


def expand(forest: Forest, grid: Grid, budget: float = DEFAULT_BUDGET) -> Effects:
    """Raw effects of a forest: one tensor per set of features that a leaf's path has."""
    paths = paths_of(forest)
    keys, positions = leaf_keys(forest, paths)
    plan_of(set(keys), grid, forest.n_outputs).check(budget)
    sets = [memberships(forest, grid, paths, j) for j in range(len(grid.axes))]
    order = np.argsort(positions, kind="stable")
    groups = np.split(order, np.cumsum(np.bincount(positions, minlength=len(keys)))[:-1])
    intercept, terms = forest.intercept.copy(), {}
    for key, leaves in zip(keys, groups, strict=True):
        values = forest.values[leaves]
        if not key:
            intercept += values.sum(axis=0)
            continue
        factors = [sets[j][1][np.searchsorted(sets[j][0], leaves)] for j in key]
        terms[key] = _tensor(factors, values)
    return Effects(grid, intercept, terms)


def _tensor(factors: list[Bools], values: Floats) -> Floats:
    """Σ over leaves of values times the outer product of their memberships; outputs last."""
    *leading, last = factors
    last_float = last.astype(np.float64)
    sizes = [factor.shape[1] for factor in leading]
    rows = math.prod(sizes)
    n_outputs = values.shape[1]
    result = np.zeros((n_outputs, rows, last.shape[1]))
    block = max(1, _BLOCK_CELLS // max(rows, 1))
    for start in range(0, len(values), block):
        part = slice(start, start + block)
        outer = np.ones((len(values[part]), 1))
        for factor in leading:
            outer = (outer[:, :, None] * factor[part][:, None, :]).reshape(len(outer), -1)
        for output in range(n_outputs):
            result[output] += (outer * values[part, output : output + 1]).T @ last_float[part]
    tensor = result.reshape(n_outputs, *sizes, last.shape[1])
    return np.ascontiguousarray(np.moveaxis(tensor, 0, -1))
