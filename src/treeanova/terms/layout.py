"""Layout: which terms of a forest are tensors or evaluated at rows, the plan of their memory, and trees laid out so.

Memory is planned for tables and for the leaves of the trees (`work_bytes`). Bins of tables are merged if they would not
fit; bins of large tables to as many as the rows justify, about 16 times the root of their number: 512 for 1,000 rows,
2,048 for 10,000. If time is too short for tables of pairs, these are evaluated at rows.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Literal

import numpy as np

from treeanova.anova.cascade import with_subsets
from treeanova.anova.solvers import method_for
from treeanova.core.arrays import BinIndices, Floats, Ints, Key, label_of
from treeanova.density.base import Density, Points
from treeanova.density.statistics import Statistics
from treeanova.errors import BudgetError
from treeanova.model.effects import Effects, refined_axes
from treeanova.model.forest import Forest
from treeanova.model.grid import Binning, Grid, equal_mass, grid_of, unmerged
from treeanova.terms import costs
from treeanova.terms.closed_form import expand, row_cost, totals_cost
from treeanova.terms.leaves import LeafSets

DEFAULT_BUDGET = 2 * 10**9


@dataclasses.dataclass(frozen=True)
class Plan:
    """The tables of a decomposition and their memory, known before any work; `print` it.

    Attributes
    ----------
    cells
        Number of cells of each term of the model and of all its subsets, by positions of features.
    n_outputs, names, sizes
        Number of outputs, names of the features, and number of bins of each.
    work_bytes
        Memory of the leaves of the trees, sums over them and tables on coarse bins, besides the tables.
    work_seconds
        Seconds to count rows and for terms without a table, besides the tables.
    notes
        What happens to terms without a table.

    Examples
    --------
    >>> import treeanova.testing
    >>> fx, X = treeanova.testing.example()
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
    work_seconds: float = 0.0

    def __reduce__(self) -> tuple[Any, ...]:
        # A mapping proxy has no pickle of its own.
        fields = self.n_outputs, self.names, self.sizes, self.notes, self.work_bytes, self.work_seconds
        return Plan, (dict(self.cells), *fields)

    def method(self, key: Key) -> str:
        """Return the solver of a term; if the weights are a product of marginals, "direct" is used instead.

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
        >>> import treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> treeanova.plan(fx.model).method((0, 1))
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
        """Additional memory while the largest term is computed, measured for "auto"; other densities take less."""
        return 8 * costs.WORKING_TABLES * max(self.cells.values(), default=0)

    @property
    def n_bytes(self) -> int:
        """Approximate memory of the whole work, not counting the model and its rows."""
        return self.table_bytes + self.work_bytes

    @property
    def seconds(self) -> float:
        """About how long `decompose` takes by default on one core with Numba, within a factor of two or so."""
        n_tables = sum(len(key) > 1 for key in self.cells)
        of_tables = costs.PLANNED_SECONDS_PER_TABLE * n_tables + self.table_bytes / costs.TABLE_BYTES_PER_SECOND
        return costs.PLANNED_SECONDS_IN_ALL + of_tables + self.work_seconds

    @property
    def max_order(self) -> int:
        """Highest order of a term."""
        return max((len(key) for key in self.cells), default=0)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data that JSON can hold.

        Returns
        -------
        dict

        Examples
        --------
        >>> import treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> treeanova.plan(fx.model).to_dict()["n_cells"]
        8
        """
        terms = [{"features": [self.names[j] for j in key], "n_cells": n} for key, n in self.cells.items()]
        counts: dict[str, float] = {"n_outputs": self.n_outputs, "n_cells": self.n_cells, "n_bytes": int(self.n_bytes)}
        counts |= {"seconds": self.seconds}
        return {"terms": terms, **counts, "notes": list(self.notes)}

    def check(self, budget: float) -> None:
        """Raise BudgetError if the work needs more memory than the budget.

        Parameters
        ----------
        budget
            Number of bytes.

        Examples
        --------
        >>> import treeanova.testing
        >>> fx, X = treeanova.testing.example()
        >>> treeanova.plan(fx.model).check(budget=1e6)
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
            sizes = {key: cells for key, cells in self.cells.items() if len(key) == order}
            methods = ", ".join(sorted({self.method(key) for key in sizes}))
            lines.append(f"order {order}: {len(sizes):,} terms, {sum(sizes.values()):,} cells, {methods}")
        outputs = "1 output" if self.n_outputs == 1 else f"{self.n_outputs} outputs"
        work_note = f", {size_text(self.work_bytes)} of it besides tables" if self.work_bytes else ""
        lines += [*self.notes, f"{outputs}, {size_text(self.n_bytes)} in all{work_note}"]
        if self.n_working_bytes > costs.WORTH_A_WORD:
            lines[-1] += f", and up to {size_text(self.n_working_bytes)} while tables are made"
        if self.seconds >= 1:
            lines.append(f"about {self.seconds:,.0f} s")
        return "\n".join(lines)


def size_text(n_bytes: float) -> str:
    """Return a number of bytes in words, such as 1.5 MB."""
    units = ("bytes", "kB", "MB", "GB", "TB")
    power = min(int(math.log(max(n_bytes, 1), 1000)), len(units) - 1)
    return f"{n_bytes / 1000**power:.3g} {units[power]}"


def plan_of(keys: set[Key], grid: Grid, n_outputs: int) -> Plan:  # of tables for these keys and all their subsets
    sizes = grid.sizes
    ordered = sorted(with_subsets(keys), key=lambda key: (len(key), key))
    cells = {key: math.prod(sizes[j] for j in key) for key in ordered}
    return Plan(MappingProxyType(cells), n_outputs, grid.schema.names, sizes)


def plan_of_effects(effects: Effects) -> Plan:
    """Return the plan of an additive model, whose terms may have their own coarser axes."""
    plan = plan_of(set(effects.terms), effects.grid, effects.n_outputs)
    axes = refined_axes(effects)
    cells = {key: math.prod(b.size for b in axes[key]) if key in axes else n for key, n in plan.cells.items()}
    return dataclasses.replace(plan, cells=MappingProxyType(cells))


FEWEST_MERGED = costs.MERGED_BINS[-1]


@dataclasses.dataclass(frozen=True)
class TermLayout:
    tensor_order: int  # highest order that is held as tensors
    # highest order whose terms are reported individually; above `tensor_order`, by values at rows
    row_order: int
    top_order: int  # highest order that the forest has; orders above `row_order` form one remainder
    max_bins: int | None  # limit of the bins per feature of tensors; None if all bins are kept
    plan: Plan  # cells and bytes of the tensors
    lists_all: bool = True  # whether all terms of the reported orders are listed, else those that carry weight
    asked: tuple[Key, ...] = ()  # terms without a table that are listed whether they carry weight or not
    has_many_terms: bool = False  # whether there are more terms than are all listed by default, whatever was asked for

    @property
    def is_dense(self) -> bool:
        """Whether all terms have tables, on the forest's own bins."""
        return self.tensor_order >= self.top_order and self.max_bins is None

    @property
    def is_truncated(self) -> bool:
        """Whether terms above `row_order` are not listed."""
        return self.row_order < self.top_order


def choose_layout(
    sets: LeafSets,
    *,
    budget: float,
    max_order: int | None = None,
    tensor_order: int | None = None,
    terms: Sequence[Key] | Literal["auto", "all"] = "auto",
    seconds: float = math.inf,
    n_rows: float = math.inf,
) -> TermLayout:
    """Return which terms of a forest are tensors (as many orders as fit), and which others are listed at rows."""
    # Orders above 2 are tensors while there are at most 1,000 of them, with a million cells for all outputs. All terms
    # of higher orders are listed while there are at most 300 of them for all outputs and a row takes at most 2^18
    # products; beyond that, important and requested terms are listed, and the others of an order are summed. If these
    # sums would take more than 2^28 products per row, orders without tables form one remainder. Bins are merged until
    # tables take half of `seconds` and large tables have no more bins than `n_rows` justify.
    top = max(map(len, sets.keys), default=0)
    highest, plan = _tensors_that_fit(sets, top, budget, tensor_order)
    fewest_bins = _with_merged_bins(plan, sets.grid, costs.MERGED_BINS[-1])
    if tensor_order is None and highest > 1 and not _is_in_time(fewest_bins, seconds):
        highest, plan = 1, _plan_up_to(sets, 1, top)
    max_bins = _bins_that_fit(plan, sets.grid, budget, seconds, n_rows)
    plan = plan if max_bins is None else _with_merged_bins(plan, sets.grid, max_bins)
    if terms == "all":
        _check_number_of_terms(sets, range(highest + 1, (top if max_order is None else min(max_order, top)) + 1))
    has_many_terms = not _can_list_all(sets, highest, top)
    lists_all = max_order is not None or terms == "all" or not has_many_terms
    if max_order is not None:
        reported = max(min(max_order, top), 1 if top else 0)
    elif lists_all or totals_cost(sets) <= costs.MAX_TOTALS_COST:
        reported = top
    else:
        reported, lists_all = highest, True
    requested = () if isinstance(terms, str) else tuple(key for key in terms if len(key) > highest)
    too_high = next((key for key in requested if len(key) > reported), None)
    if too_high is not None:
        raise ValueError(
            f"`terms` must have at most {reported} features each, since higher orders are in the remainder, got "
            f"{label_of(sets.grid.schema.names[j] for j in too_high)}; raise `max_order`, or use `term_values` of the "
            "decomposition."
        )
    asked = () if lists_all else requested
    layout = TermLayout(highest, reported, top, max_bins, plan, lists_all, asked, has_many_terms)
    seconds_besides = _seconds_besides_tables(sets, layout, n_rows)
    plan = dataclasses.replace(plan, notes=tuple(_notes(layout)), work_seconds=seconds_besides)
    return dataclasses.replace(layout, plan=plan)


def _check_number_of_terms(sets: LeafSets, orders: range) -> None:
    """Raise BudgetError if a forest has too many terms of some orders to list them all."""
    n_terms = sum(map(sets.n_subsets, orders)) * int(sets.values.shape[1])
    if n_terms > costs.MOST_TERMS:
        raise BudgetError(
            f"`terms` must not be 'all' for up to {n_terms:,} terms (at most {costs.MOST_TERMS:,} can be listed); "
            "leave it out for those that carry weight, or give `max_order`."
        )


def _tensors_that_fit(sets: LeafSets, top: int, budget: float, tensor_order: int | None) -> tuple[int, Plan]:
    """Return the highest order whose tensors fit, and their plan; raise BudgetError if `tensor_order` does not fit."""
    order = min(top, 2 if tensor_order is None else max(tensor_order, 1))
    plan = _plan_up_to(sets, order, top)
    if tensor_order is not None:
        plan.check(budget)
        return order, plan
    while order < top and not sets.has_more_subsets(order + 1, costs.TENSOR_TERMS):
        larger = _plan_up_to(sets, order + 1, top)
        cells = [n_cells for key, n_cells in larger.cells.items() if len(key) > 2]
        is_slow = sum(cells) * larger.n_outputs > costs.TENSOR_CELLS or len(cells) > costs.TENSOR_TERMS
        if is_slow or larger.n_bytes > budget:
            break
        order, plan = order + 1, larger
    return order, plan


def _plan_up_to(sets: LeafSets, order: int, top: int) -> Plan:
    """Return the plan of tensors up to an order, with the memory of sums over leaves for orders from there to `top`."""
    keys = set(sets.subsets([order])) | {key for key in sets.keys if len(key) < order}
    plan = plan_of(keys, sets.grid, sets.values.shape[1])
    if order >= top:
        return plan
    n_terms = min(sum(sets.n_subsets(k) for k in range(order + 1, top + 1)), costs.PLANNED_CORRECTED)
    density = min(costs.BYTES_OF_DENSITY, costs.DENSITY_TABLES * 8 * plan.n_cells)
    n_bytes = _bytes_of_leaves(sets) + costs.BYTES_PER_CORRECTED * n_terms + density
    return dataclasses.replace(plan, work_bytes=n_bytes)


def _bytes_of_leaves(sets: LeafSets) -> int:
    """Return the approximate memory of leaf sets, and of sums over leaves for terms verified at rows."""
    n_leaves, n_outputs = len(sets.values), int(sets.values.shape[1])
    n_entries = int(sets.n_features_of_leaves.sum())
    per_feature = n_entries * costs.PLANNED_VERIFIED * n_outputs // max(len(sets.used_features), 1)
    n_coefficients = min(per_feature, costs.MOST_COEFFICIENTS)
    leaves = costs.BYTES_PER_ENTRY * n_entries + costs.BYTES_PER_LEAF * n_leaves
    keys = (costs.BYTES_PER_KEY + len(sets.grid.axes)) * len(sets.keys)
    return leaves + keys + costs.BYTES_PER_COEFFICIENT * n_coefficients


def check_leaves(forest: Forest, budget: float, seconds: float | None = None, left: float = math.inf) -> None:
    """Raise BudgetError if the leaves alone exceed memory or time; `left` is what remains of the caller's `seconds`."""
    nodes, depth, n_entries = forest.roots, 0, 0  # entries: at most the features on the paths to all leaves
    while len(nodes):
        is_leaf = forest.feature[nodes] < 0
        n_entries += int(is_leaf.sum()) * min(depth, len(forest.schema.features))
        inner = nodes[~is_leaf]
        nodes, depth = np.concatenate([forest.left[inner], forest.right[inner]]), depth + 1
    n_bytes = costs.BYTES_PER_ENTRY / 2 * n_entries + costs.BYTES_PER_LEAF * forest.n_leaves
    size = f"{forest.n_leaves:,} leaves on {len(forest.schema.features):,} features"
    if n_bytes > budget:
        raise BudgetError(
            f"`budget` must be at least about {size_text(n_bytes)} for a model of {size}, got {size_text(budget)}; "
            "raise it, or train fewer or shallower trees."
        )
    n_node_features = len(forest.feature) * len(forest.schema.features)
    least = costs.SECONDS_PER_NODE * n_node_features + costs.SECONDS_PER_ENTRY * n_entries
    if least > costs.TOLERATED_TIME * max(left, costs.LEAST_SECONDS):
        raise BudgetError(
            f"`seconds` must be at least about {least:.0f} for a model of {size}, got {seconds:g}; raise it, or train "
            "fewer or shallower trees."
        )


def _seconds_besides_tables(sets: LeafSets, layout: TermLayout, n_rows: float) -> float:
    """Return about how long it takes to count rows and to correct, find and measure terms of high order."""
    n_tables = sum(len(key) > 1 for key in layout.plan.cells)
    counting = costs.SECONDS_PER_COUNT * n_tables * n_rows if math.isfinite(n_rows) else 0.0
    if layout.top_order <= layout.tensor_order:
        return counting
    n_entries = int(sets.n_features_of_leaves.sum())
    return counting + costs.SECONDS_OF_HIGH_ORDERS + costs.SECONDS_PER_HIGH_ENTRY * n_entries


def seconds_of_tables(plan: Plan) -> float:
    """Return about how long the purification of all tables takes."""
    n_tables = sum(len(key) > 1 for key in plan.cells)
    return n_tables * costs.SECONDS_PER_TABLE + plan.table_bytes / costs.TABLE_BYTES_PER_SECOND


def _is_in_time(plan: Plan, seconds: float) -> bool:  # whether tables take no more than their share of the time
    return seconds_of_tables(plan) <= costs.SHARE_FOR_TABLES * seconds


def _bins_that_fit(plan: Plan, grid: Grid, budget: float, seconds: float, n_rows: float) -> int | None:
    """Return the limit of bins per ordered feature that meets memory, time and rows; None if all bins fit."""
    most_bins = math.inf
    if math.isfinite(n_rows):  # the power of two nearest to 16 times the root of the number of rows
        power = round(math.log2(costs.BINS_PER_ROOT_OF_ROWS * math.sqrt(max(n_rows, 1))))
        most_bins = max(2.0**power, costs.MERGED_BINS[-1])

    def fits(smaller: Plan, n_bins: float) -> bool:
        is_justified = n_bins <= most_bins or smaller.table_bytes <= costs.SMALL_TABLES
        return smaller.n_bytes <= budget and is_justified and _is_in_time(smaller, seconds)

    if fits(plan, max((plan.sizes[j] for key in plan.cells for j in key if grid.axes[j].is_ordered), default=0)):
        return None
    for max_bins in costs.MERGED_BINS:
        if fits(_with_merged_bins(plan, grid, max_bins), max_bins):
            return max_bins
    _with_merged_bins(plan, grid, costs.MERGED_BINS[-1]).check(budget)
    return costs.MERGED_BINS[-1]


def _with_merged_bins(plan: Plan, grid: Grid, max_bins: int) -> Plan:
    """Return a plan with at most `max_bins` bins per ordered feature."""
    pairs = zip(plan.sizes, grid.axes, strict=True)
    sizes = tuple(min(size, max_bins) if axis.is_ordered else size for size, axis in pairs)
    cells = {key: math.prod(sizes[j] for j in key) for key in plan.cells}
    return dataclasses.replace(plan, cells=cells, sizes=sizes)


def _can_list_all(sets: LeafSets, tensor_order: int, top: int) -> bool:
    """Whether the terms above the tables, up to the highest order, are few and cheap enough to be listed one by one."""
    limit = costs.LISTED_TERMS // int(sets.values.shape[1])
    orders = range(tensor_order + 1, top + 1)
    if row_cost(sets) > costs.LISTED_COST or any(sets.has_more_subsets(k, limit) for k in orders):
        return False
    return sum(map(sets.n_subsets, orders)) <= limit or len(sets.subsets(orders)) <= limit


def _notes(layout: TermLayout) -> Iterator[str]:
    """Yield sentences of a plan on merged bins and on terms without tables."""
    if layout.max_bins is not None:
        yield f"bins merged to at most {layout.max_bins:,} per ordered feature, the rest in a remainder"
    at_rows = range(layout.tensor_order + 1, layout.row_order + 1)
    if at_rows:
        which_terms = "" if layout.lists_all else "those terms that carry weight, the others added up, "
        yield f"{_text_of_orders(at_rows)}: {which_terms}evaluated at rows"
    remainder_orders = range(max(layout.row_order, 0) + 1, layout.top_order + 1)
    if remainder_orders:
        yield f"{_text_of_orders(remainder_orders)}: in a remainder"


def _text_of_orders(orders: range) -> str:
    return f"order {orders[0]}" if len(orders) == 1 else f"orders {orders[0]} to {orders[-1]}"


@dataclasses.dataclass(frozen=True, eq=False)
class Trees:
    """A forest with its leaves, and the layout of its terms as tensors and at rows."""

    forest: Forest  # the trees, for exact scores
    leaf_sets: LeafSets  # their leaves on the grid of all their bins
    layout: TermLayout  # which terms are tensors, which are evaluated at rows, which form the remainder
    binnings: tuple[Binning, ...]  # how bins are merged for tensors, feature by feature
    tensor_grid: Grid  # the grid of the merged bins

    @property
    def grid(self) -> Grid:
        return self.leaf_sets.grid

    @property
    def has_merged_bins(self) -> bool:
        return self.layout.max_bins is not None

    @functools.cached_property
    def row_cost(self) -> float:
        """Products per row for all terms, at least one."""
        return max(row_cost(self.leaf_sets), 1.0)

    def raw_tensors(self) -> Effects:
        """Return the terms before purification up to the order of tensors: the leaves with few features."""
        max_order = self.layout.tensor_order
        return expand(self.leaf_sets, max_order=max_order, binnings=self.binnings, grid=self.tensor_grid)

    def merged(self, codes: BinIndices) -> BinIndices:
        """Return codes on `tensor_grid`, whose bins are merged, for codes on `grid`."""
        if not self.has_merged_bins:
            return codes
        columns = [binning.bins[codes[:, j]] for j, binning in enumerate(self.binnings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def drawn_within(self, codes: BinIndices, rng: np.random.Generator) -> BinIndices:
        """Return codes on `grid` for codes on `tensor_grid`: bins are drawn within each merged bin by their shares."""
        if not self.has_merged_bins:
            return codes
        columns = [_draw_within(binning, codes[:, j], rng) for j, binning in enumerate(self.binnings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Return bins on `grid` and weights of rows that represent a density; `n_rows` of them if they are drawn."""
        return density.joint.points_on(self.grid, self.drawn_within, n_rows, rng)

    def scored_soon(self, points: Points) -> Points:
        """Return a sample of weighted rows, as many as the forest can score in a moment."""
        n_rows = int(costs.SCORED_STEPS / max(self.forest.n_trees, 1))
        return some_of(points, n_rows, np.random.default_rng(0))

    def first_bins(self, key: Key) -> list[Ints]:
        """Return, per feature of a key, the first bin on `grid` of each merged bin of the tensors."""
        return [self._first_bins[j] for j in key]

    @functools.cached_property
    def _first_bins(self) -> list[Ints]:
        """The first bin on `grid` of each merged bin, by feature."""
        return [np.unique(binning.bins, return_index=True)[1] for binning in self.binnings]

    def masses(self, density: Density) -> tuple[Floats, ...]:
        """Return masses of all bins on `grid`, per feature; the mass of a merged bin is divided by shares."""
        tables = (density.table((j,)) for j in range(len(self.binnings)))
        pairs = zip(tables, self.binnings, strict=True)
        return tuple(table[binning.bins] * binning.shares for table, binning in pairs)


def _draw_within(binning: Binning, codes: Ints | BinIndices, rng: np.random.Generator) -> Ints:
    """Return a fine bin for each row, drawn within its merged bin (in `codes`) by the fine bins' shares."""
    order = np.argsort(binning.bins, kind="stable")
    ends = np.cumsum(binning.shares[order])  # fine bins divide the unit that each merged bin has on this scale
    ends *= binning.size / ends[-1]
    position = np.minimum(codes + rng.random(len(codes)), np.nextafter(binning.size, 0))
    drawn: Ints = order[np.minimum(np.searchsorted(ends, position, side="right"), len(order) - 1)]
    first_bin = np.searchsorted(binning.bins[order], codes)  # where rounding leads to a neighbour
    return np.where(binning.bins[drawn] == codes, drawn, first_bin).astype(np.int64)


def some_of(points: Points, n_rows: int, rng: np.random.Generator) -> Points:
    """Return `n_rows` rows of equal weight, drawn by their weights; the points themselves if they are not more."""
    if len(points.codes) <= n_rows:
        return points
    drawn_rows = rng.choice(len(points.codes), size=n_rows, p=points.weights / points.weights.sum())
    return Points(points.codes[drawn_rows], np.full(n_rows, 1 / n_rows))


def leaves_of(forest: Forest) -> LeafSets:  # on the grid of all bins that the forest needs
    return LeafSets(forest, grid_of(forest))


def lay_out(forest: Forest, sets: LeafSets, layout: TermLayout, statistics: Statistics | None) -> Trees:
    """Return trees whose tensors have merged bins if the layout says so: of equal mass under the rows, if any."""
    grid = sets.grid
    if layout.max_bins is None:
        return Trees(forest, sets, layout, tuple(unmerged(size) for size in grid.sizes), grid)
    binnings = []
    for j, axis in enumerate(grid.axes):
        masses = np.full(axis.size, 1 / axis.size) if statistics is None else statistics.counts((j,))
        binnings.append(equal_mass(axis, masses, layout.max_bins) if axis.is_ordered else unmerged(axis.size))
    axes = tuple(binning.axis(axis) for binning, axis in zip(binnings, grid.axes, strict=True))
    return Trees(forest, sets, layout, tuple(binnings), Grid(grid.schema, axes))
