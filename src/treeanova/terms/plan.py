"""Plan: the terms, cells and bytes of a decomposition, known before any work."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from treeanova.anova.descent import with_subsets
from treeanova.anova.solvers.registry import method_for
from treeanova.core.arrays import Key
from treeanova.core.labels import label_of
from treeanova.errors import BudgetError
from treeanova.model.effects import Effects, refined_axes
from treeanova.model.grid import Grid

DEFAULT_BUDGET = 2 * 10**9
_WORKING_TABLES = 12  # of the size of the largest term, that an estimate of its density holds at a time
_WORTH_A_WORD = 10**8


@dataclasses.dataclass(frozen=True)
class Plan:
    """The tables of a decomposition and their memory, known before any work; `print` it.

    Attributes
    ----------
    cells
        Number of cells of each term of the model, and of all terms of fewer features, by positions of features.
    n_outputs
        Number of outputs.
    names
        Names of the features.
    sizes
        Number of bins of each feature.
    work_bytes
        Memory that the leaves of the trees, sums over them and tables on coarse bins take besides the tables.
    notes
        What happens to terms without a table.

    Examples
    --------
    >>> import treeanova
    >>> from treeanova.testing import example
    >>> fx, X = example()
    >>> plan = treeanova.plan(fx.model)
    >>> plan.n_cells, plan.max_order, plan.n_bytes
    (8, 2, 192)
    """

    cells: Mapping[Key, int]
    n_outputs: int
    names: tuple[str, ...]
    sizes: tuple[int, ...]
    notes: tuple[str, ...] = ()
    work_bytes: int = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy has no pickle of its own.
        return Plan, (dict(self.cells), self.n_outputs, self.names, self.sizes, self.notes, self.work_bytes)

    def method(self, key: Key) -> str:
        """The solver of a term; "direct" is used instead where the weights are a product of marginals.

        Parameters
        ----------
        key
            Positions of the term's features.

        Returns
        -------
        str
            "direct" or "cg".

        Examples
        --------
        >>> import treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> plan = treeanova.plan(fx.model)
        >>> plan.method((0, 1))
        'direct'
        """
        return method_for([self.sizes[j] for j in key]).method

    @property
    def n_cells(self) -> int:
        """Cells of all terms."""
        return sum(self.cells.values())

    @property
    def table_bytes(self) -> int:
        """Memory of all tables, raw and pure, with their weights."""
        return 8 * self.n_cells * (2 * self.n_outputs + 1)

    @property
    def n_working_bytes(self) -> int:
        """Memory in addition while the largest term is worked on, as measured for "auto"; other densities take less."""
        return 8 * _WORKING_TABLES * max(self.cells.values(), default=0)

    @property
    def n_bytes(self) -> int:
        """Memory that the whole work takes besides the model and its rows, about."""
        return self.table_bytes + self.work_bytes

    @property
    def max_order(self) -> int:
        """Highest order of a term."""
        return max((len(key) for key in self.cells), default=0)

    def check(self, budget: float) -> None:
        """Raise BudgetError where the work needs more memory than the budget.

        Parameters
        ----------
        budget
            Number of bytes.

        Examples
        --------
        >>> import treeanova
        >>> from treeanova.testing import example
        >>> fx, X = example()
        >>> plan = treeanova.plan(fx.model)
        >>> plan.check(budget=1e6)
        """
        if self.n_bytes <= budget:
            return
        key = max(self.cells, key=lambda key: self.cells[key])
        leaves = f", {size_text(self.work_bytes)} of it besides tables" if self.work_bytes else ""
        raise BudgetError(
            f"the terms need {size_text(self.n_bytes)}, over the budget of {size_text(budget)}{leaves}; the largest is "
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
        others = f", {size_text(self.work_bytes)} of it besides tables" if self.work_bytes else ""
        lines += [*self.notes, f"{outputs}, {size_text(self.n_bytes)} in all{others}"]
        if self.n_working_bytes > _WORTH_A_WORD:
            lines[-1] += f", and up to {size_text(self.n_working_bytes)} while tables are made"
        return "\n".join(lines)


def size_text(n_bytes: float) -> str:
    """A number of bytes, with its unit."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(int(math.log(max(n_bytes, 1), 1000)), len(units) - 1)
    return f"{n_bytes / 1000**power:.3g} {units[power]}"


def plan_of(keys: set[Key], grid: Grid, n_outputs: int) -> Plan:
    """The plan of terms and all their subsets."""
    sizes = grid.sizes
    ordered = sorted(with_subsets(keys), key=lambda key: (len(key), key))
    cells = {key: math.prod(sizes[j] for j in key) for key in ordered}
    return Plan(MappingProxyType(cells), n_outputs, grid.schema.names, sizes)


def plan_of_effects(effects: Effects) -> Plan:
    """The plan of an additive model, whose terms may have coarser axes of their own."""
    plan = plan_of(set(effects.terms), effects.grid, effects.n_outputs)
    axes = refined_axes(effects)
    cells = {key: math.prod(b.size for b in axes[key]) if key in axes else n for key, n in plan.cells.items()}
    return dataclasses.replace(plan, cells=MappingProxyType(cells))
