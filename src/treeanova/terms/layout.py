"""Layout: which terms of a forest are tensors, which are evaluated at rows, and which form the remainder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator

from treeanova.core.arrays import Key
from treeanova.model.grid import Grid
from treeanova.terms.closed_form import row_cost, totals_cost
from treeanova.terms.leafsets import LeafSets
from treeanova.terms.plan import Plan, plan_of

MAX_ROW_TERMS = 20_000
_TENSOR_CELLS = 1_000_000  # of orders above 2, for all outputs: beyond, purification takes many seconds
_TENSOR_TERMS = 1_000
_MAX_ROW_COST = 2.0**24
_MAX_TOTALS_COST = 2.0**25
_MERGED_BINS = (2048, 1024, 512, 256, 128, 64, 32, 16)


@dataclasses.dataclass(frozen=True)
class TermLayout:
    """How a forest is decomposed.

    Attributes
    ----------
    tensor_order
        Highest order that is held as tensors.
    row_order
        Highest order whose terms are reported individually, by values at rows where it is above `tensor_order`.
    top_order
        Highest order that the forest has; orders above `row_order` form one remainder.
    max_bins
        Limit of the bins per feature of tensors; None where all bins are kept.
    plan
        Cells and bytes of the tensors.
    lists_all
        Whether all terms of the reported orders are listed, else those that carry weight.
    """

    tensor_order: int
    row_order: int
    top_order: int
    max_bins: int | None
    plan: Plan
    lists_all: bool = True

    @property
    def is_dense(self) -> bool:
        """Whether tensors hold the whole forest."""
        return self.tensor_order >= self.top_order and self.max_bins is None

    @property
    def is_truncated(self) -> bool:
        """Whether some orders are left to the remainder."""
        return self.row_order < self.top_order


def choose_layout(
    sets: LeafSets,
    *,
    budget: float,
    max_order: int | None = None,
    tensor_order: int | None = None,
) -> TermLayout:
    """Tensors of all orders where they fit, of as many as do otherwise; BudgetError where not even pairs do.

    Orders above 2 are tensors only while there are at most 1,000 of them, with a million cells for all outputs. All
    terms of higher orders are listed while there are at most 20,000 of them for all outputs and a row takes at most
    2^24 products, else those that carry weight; all others of an order are then added up. Where even these sums would
    take more than 2^25 products per row, as for forests of a million leaves, orders without tables form one remainder.
    """
    top = max(map(len, sets.keys), default=0)
    highest, plan = _tensors_that_fit(sets, top, budget, tensor_order)
    max_bins = _bins_that_fit(plan, sets.grid, budget)
    held = plan if max_bins is None else _shrunk(plan, sets.grid, max_bins)
    lists_all = max_order is not None or _can_report_all(sets, highest, top)
    if max_order is not None:
        reported = max(min(max_order, top), 1 if top else 0)
    elif lists_all or totals_cost(sets) <= _MAX_TOTALS_COST:
        reported = top
    else:
        reported, lists_all = highest, True
    layout = TermLayout(highest, reported, top, max_bins, held, lists_all)
    return dataclasses.replace(layout, plan=dataclasses.replace(layout.plan, notes=tuple(_notes(layout))))


def _tensors_that_fit(sets: LeafSets, top: int, budget: float, tensor_order: int | None) -> tuple[int, Plan]:
    """Highest order of tensors, and the plan with it; an order that was asked for must fit."""
    order = min(top, 2 if tensor_order is None else max(tensor_order, 1))
    plan = plan_of(set(sets.subsets([order])) | _small(sets, order), sets.grid, sets.values.shape[1])
    if tensor_order is not None:
        plan.check(budget)
        return order, plan
    while order < top:
        larger = plan_of(set(sets.subsets([order + 1])) | _small(sets, order + 1), sets.grid, plan.n_outputs)
        cells = [n_cells for key, n_cells in larger.cells.items() if len(key) > 2]
        is_slow = sum(cells) * larger.n_outputs > _TENSOR_CELLS or len(cells) > _TENSOR_TERMS
        if is_slow or larger.n_bytes > budget:
            break
        order, plan = order + 1, larger
    return order, plan


def _small(sets: LeafSets, order: int) -> set[Key]:
    return {key for key in sets.keys if len(key) < order}


def _bins_that_fit(plan: Plan, grid: Grid, budget: float) -> int | None:
    """Limit of bins per ordered feature that keeps tensors within the budget; None where all bins fit."""
    if plan.n_bytes <= budget:
        return None
    for max_bins in _MERGED_BINS:
        if _shrunk(plan, grid, max_bins).n_bytes <= budget:
            return max_bins
    _shrunk(plan, grid, _MERGED_BINS[-1]).check(budget)
    return _MERGED_BINS[-1]


def _shrunk(plan: Plan, grid: Grid, max_bins: int) -> Plan:
    """The plan with at most `max_bins` bins of each ordered feature."""
    pairs = zip(plan.sizes, grid.axes, strict=True)
    sizes = tuple(min(size, max_bins) if axis.is_ordered else size for size, axis in pairs)
    cells = {key: math.prod(sizes[j] for j in key) for key in plan.cells}
    return dataclasses.replace(plan, cells=cells, sizes=sizes)


def _can_report_all(sets: LeafSets, order: int, top: int) -> bool:
    """Whether all terms above an order are few enough, and quick enough, to be evaluated at rows."""
    limit = MAX_ROW_TERMS // int(sets.values.shape[1])
    orders = range(order + 1, top + 1)
    if row_cost(sets) > _MAX_ROW_COST:
        return False
    return sum(map(sets.n_subsets, orders)) <= limit or len(sets.subsets(orders)) <= limit


def _notes(layout: TermLayout) -> Iterator[str]:
    """What the plan of tensors does not say."""
    if layout.max_bins is not None:
        yield f"bins merged to at most {layout.max_bins:,} per ordered feature, the rest in a remainder"
    at_rows = range(layout.tensor_order + 1, layout.row_order + 1)
    if at_rows:
        which = "" if layout.lists_all else "those terms that carry weight, the others added up, "
        yield f"{_orders(at_rows)}: {which}evaluated at rows"
    rest = range(max(layout.row_order, 0) + 1, layout.top_order + 1)
    if rest:
        yield f"{_orders(rest)}: in a remainder"


def _orders(orders: range) -> str:
    return f"order {orders[0]}" if len(orders) == 1 else f"orders {orders[0]} to {orders[-1]}"
