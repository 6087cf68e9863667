"""Layout: which terms of a forest are tensors, which are evaluated at rows, and which form the remainder."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import Literal

from treeanova.core.arrays import Key
from treeanova.core.labels import label_of
from treeanova.errors import BudgetError
from treeanova.model.grid import Grid
from treeanova.terms.closed_form import row_cost, totals_cost
from treeanova.terms.leafsets import LeafSets
from treeanova.terms.plan import Plan, plan_of

_LISTED_TERMS = 300  # above the tables, for all outputs: more are screened
_TENSOR_CELLS = 1_000_000  # of orders above 2, for all outputs: beyond, purification takes many seconds
_TENSOR_TERMS = 1_000
_LISTED_COST = 2.0**18  # products per row
_MOST_TERMS = 200_000  # that a user may ask for
_MAX_TOTALS_COST = 2.0**28
_MERGED_BINS = (2048, 1024, 512, 256, 128, 64, 32, 16)
FEWEST_MERGED = _MERGED_BINS[-1]


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
    asked
        Terms without a table that are listed whether they carry weight or not.
    has_many_terms
        Whether there are more terms than are all listed by default, whatever was asked for.
    """

    tensor_order: int
    row_order: int
    top_order: int
    max_bins: int | None
    plan: Plan
    lists_all: bool = True
    asked: tuple[Key, ...] = ()
    has_many_terms: bool = False

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
    terms: Sequence[Key] | Literal["auto", "all"] = "auto",
    wanted_bytes: float = math.inf,
) -> TermLayout:
    """Tensors of all orders where they fit, of as many as do otherwise; BudgetError where not even pairs do.

    Orders above 2 are tensors only while there are at most 1,000 of them, with a million cells for all outputs. All
    terms of higher orders are listed while there are at most 300 of them for all outputs and a row takes at most 2^18
    products, else those that carry weight and those that are asked for; all others of an order are then added up. Where
    even these sums would take more than 2^28 products per row, orders without tables form one remainder. Bins are
    merged until tables are within `wanted_bytes` too, as far as that goes.
    """
    top = max(map(len, sets.keys), default=0)
    highest, plan = _tensors_that_fit(sets, top, budget, tensor_order)
    max_bins = _bins_that_fit(plan, sets.grid, budget, min(budget, wanted_bytes))
    held = plan if max_bins is None else _shrunk(plan, sets.grid, max_bins)
    if terms == "all":
        _check_number(sets, range(highest + 1, (top if max_order is None else min(max_order, top)) + 1))
    has_many_terms = not _can_list_all(sets, highest, top)
    lists_all = max_order is not None or terms == "all" or not has_many_terms
    if max_order is not None:
        reported = max(min(max_order, top), 1 if top else 0)
    elif lists_all or totals_cost(sets) <= _MAX_TOTALS_COST:
        reported = top
    else:
        reported, lists_all = highest, True
    wanted = () if isinstance(terms, str) else tuple(key for key in terms if len(key) > highest)
    _check_orders(wanted, sets.grid, reported)
    asked = () if lists_all else wanted
    layout = TermLayout(highest, reported, top, max_bins, held, lists_all, asked, has_many_terms)
    return dataclasses.replace(layout, plan=dataclasses.replace(layout.plan, notes=tuple(_notes(layout))))


def _check_number(sets: LeafSets, orders: range) -> None:
    n_terms = sum(map(sets.n_subsets, orders)) * int(sets.values.shape[1])
    if n_terms > _MOST_TERMS:
        raise BudgetError(
            f"`terms` must not be 'all' for up to {n_terms:,} terms (at most {_MOST_TERMS:,} can be listed); leave it "
            "out for those that carry weight, or give `max_order`."
        )


def _check_orders(wanted: Sequence[Key], grid: Grid, reported: int) -> None:
    """Refuse terms that would be in the remainder."""
    for key in wanted:
        if len(key) > reported:
            label = label_of(grid.schema.names[j] for j in key)
            raise ValueError(
                f"`terms` must have at most {reported} features each, since higher orders are in the remainder, got "
                f"{label}; raise `max_order`, or use `term_values` of the decomposition."
            )


def _tensors_that_fit(sets: LeafSets, top: int, budget: float, tensor_order: int | None) -> tuple[int, Plan]:
    """Highest order of tensors, and the plan with it; an order that was asked for must fit."""
    order = min(top, 2 if tensor_order is None else max(tensor_order, 1))
    plan = plan_of(set(sets.subsets([order])) | _small(sets, order), sets.grid, sets.values.shape[1])
    if tensor_order is not None:
        plan.check(budget)
        return order, plan
    while order < top and not sets.has_more_subsets(order + 1, _TENSOR_TERMS):
        larger = plan_of(set(sets.subsets([order + 1])) | _small(sets, order + 1), sets.grid, plan.n_outputs)
        cells = [n_cells for key, n_cells in larger.cells.items() if len(key) > 2]
        is_slow = sum(cells) * larger.n_outputs > _TENSOR_CELLS or len(cells) > _TENSOR_TERMS
        if is_slow or larger.n_bytes > budget:
            break
        order, plan = order + 1, larger
    return order, plan


def _small(sets: LeafSets, order: int) -> set[Key]:
    return {key for key in sets.keys if len(key) < order}


def _bins_that_fit(plan: Plan, grid: Grid, budget: float, wanted: float) -> int | None:
    """Limit of bins per ordered feature that keeps tensors within what is wanted; None where all bins fit."""
    if plan.n_bytes <= wanted:
        return None
    for max_bins in _MERGED_BINS:
        if _shrunk(plan, grid, max_bins).n_bytes <= wanted:
            return max_bins
    _shrunk(plan, grid, _MERGED_BINS[-1]).check(budget)
    return _MERGED_BINS[-1]


def _shrunk(plan: Plan, grid: Grid, max_bins: int) -> Plan:
    """The plan with at most `max_bins` bins of each ordered feature."""
    pairs = zip(plan.sizes, grid.axes, strict=True)
    sizes = tuple(min(size, max_bins) if axis.is_ordered else size for size, axis in pairs)
    cells = {key: math.prod(sizes[j] for j in key) for key in plan.cells}
    return dataclasses.replace(plan, cells=cells, sizes=sizes)


def _can_list_all(sets: LeafSets, order: int, top: int) -> bool:
    """Whether all terms above an order are few enough, and quick enough to evaluate, to be listed."""
    limit = _LISTED_TERMS // int(sets.values.shape[1])
    orders = range(order + 1, top + 1)
    if row_cost(sets) > _LISTED_COST or any(sets.has_more_subsets(k, limit) for k in orders):
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
