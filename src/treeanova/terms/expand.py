"""expand(sets): the trees as raw effects, each leaf in the term of the features on its path.

A leaf with value v and, per feature j of its path, a set of bins B_j adds v Π_j 1[bin of j in B_j] to the term of its
features. With the sets of all leaves of a term as rows of 0/1 matrices M_j, its tensor is a product of matrices;
intervals, missing bins and category sets are all alike.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from treeanova.anova.purification import method_for
from treeanova.core.arrays import Floats, Key
from treeanova.core.labels import label_of
from treeanova.errors import BudgetError
from treeanova.model.binning import Binning, unmerged
from treeanova.model.effects import Effects
from treeanova.model.grid import Grid
from treeanova.terms.leafsets import LeafSets

DEFAULT_BUDGET = 2 * 10**9
_BLOCK_CELLS = 1 << 22


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
    notes
        What becomes of terms that are no tensors.
    """

    cells: Mapping[Key, int]
    n_outputs: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    notes: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy has no pickle of its own.
        return Plan, (dict(self.cells), self.n_outputs, self.names, self.sizes, self.notes)

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
            f"{label_of(self.names[j] for j in key)} with {self.cells[key]:,} cells. Raise `budget`, train shallower "
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
        return "\n".join([*lines, *self.notes, f"{outputs}, {_size(self.n_bytes)} in all"])


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


def expand(
    sets: LeafSets, *, max_order: int | None = None, mergings: Sequence[Binning] | None = None, grid: Grid | None = None
) -> Effects:
    """Raw effects of a forest: one tensor per set of features that a leaf's path has, up to an order if given.

    With `mergings` of its bins, tensors are over the merged bins of `grid`.
    """
    onto = [unmerged(size) for size in sets.grid.sizes] if mergings is None else mergings
    intercept, terms = sets.intercept.copy(), {}
    for key, leaves in zip(sets.keys, sets.members, strict=True):
        if not key:
            intercept += sets.values[leaves].sum(axis=0)
        elif max_order is None or len(key) <= max_order:
            factors = [sets.sets[j].onto(onto[j], sets.positions(j, leaves)) for j in key]
            terms[key] = outer_sum(factors, sets.values[leaves])
    return Effects(sets.grid if grid is None else grid, intercept, terms)


def outer_sum(factors: Sequence[Floats], values: Floats) -> Floats:
    """Σ over leaves of values times the outer product of their factors, each (n_leaves, n_bins); outputs last.

    The factors are multiplied out in two halves, so that all the rest is a product of matrices.
    """
    sizes = [factor.shape[1] for factor in factors]
    middle = min(range(len(sizes)), key=lambda i: math.prod(sizes[:i]) + math.prod(sizes[i:]))
    n_left, n_right = math.prod(sizes[:middle]), math.prod(sizes[middle:])
    n_outputs = values.shape[1]
    result = np.zeros((n_outputs, n_left, n_right))
    block = max(1, _BLOCK_CELLS // max(n_left + n_right, 1))
    for start in range(0, len(values), block):
        part = slice(start, start + block)
        left, right = (_row_products(half, part, len(values)) for half in (factors[:middle], factors[middle:]))
        for output in range(n_outputs):
            result[output] += (left * values[part, output : output + 1]).T @ right
    return np.ascontiguousarray(np.moveaxis(result.reshape(n_outputs, *sizes), 0, -1))


def _row_products(factors: Sequence[Floats], part: slice, n_leaves: int) -> Floats:
    """Outer products of the rows of some factors, flattened; shape (n_leaves_in_part, product of sizes)."""
    outer = np.ones((len(range(n_leaves)[part]), 1))
    for factor in factors:
        outer = (outer[:, :, None] * factor[part][:, None, :]).reshape(len(outer), -1)
    return outer
