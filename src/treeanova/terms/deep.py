"""Deep ensembles: tensors for low orders, exact values at rows for all others.

Tensors of order 3 and more on all bins of an ensemble soon stop fitting. So terms are first found in closed form for
independent features (`closed_form`), at full resolution and for any depth; terms of high order are then corrected for
dependence on coarse cells (`correction`), and those of low order purified on all bins like any others. High orders are
never tensors: they are evaluated at the rows that one asks for. Additivity is exact throughout, for every input.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from treeanova.anova.certificate import HigherCertificate
from treeanova.anova.row_purity import slice_impurity
from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.progress import Progress
from treeanova.density.joint import Points
from treeanova.density.kinds import Density
from treeanova.density.sample import Sample
from treeanova.model.axes import Axis, IntervalAxis
from treeanova.model.binning import Binning, equal_mass, unmerged
from treeanova.model.effects import Effects
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid, grid_of
from treeanova.terms.closed_form import ClosedForm, raw_at_rows, row_cost
from treeanova.terms.correction import (
    Correction,
    choose_bins,
    coarse_mergings,
    correct,
    no_correction,
    worth_correcting,
)
from treeanova.terms.expand import Plan, expand, plan_of
from treeanova.terms.leafsets import LeafSets, leaf_sets

_TENSOR_CELLS = 1_000_000  # of orders above 2, for all outputs: beyond, purification takes many seconds
_TENSOR_TERMS = 1_000
_MOST_SETS = 20_000
_MOST_ROW_COST = 2.0**24
_MERGED_BINS = (2048, 1024, 512, 256, 128, 64, 32, 16)
_DRAWS = 20_000, 100_000
_MEASURED_TERMS = 12
_MEASURED_TERMS_OF_ORDER = 6
_MEASURED_ROWS = 2_000, 20_000
_MEASURED_STEPS = 2.0**25
_MEASURED_BINS = 4
_SIZE_ROWS = 20, 200
_SIZE_STEPS = 2.0**29
_SCALE_ROWS = 2000


@dataclasses.dataclass(frozen=True)
class Layout:
    """How a forest is decomposed.

    Attributes
    ----------
    tensor_order
        Highest order that is held as tensors.
    row_order
        Highest order whose terms are told apart, by values at rows where it is above `tensor_order`.
    top_order
        Highest order that the forest has; orders above `row_order` are one remainder.
    most_bins
        Most bins per feature of tensors; None where all bins are kept.
    plan
        Cells and bytes of the tensors.
    """

    tensor_order: int
    row_order: int
    top_order: int
    most_bins: int | None
    plan: Plan

    @property
    def is_dense(self) -> bool:
        """Whether tensors hold the whole forest."""
        return self.tensor_order >= self.top_order and self.most_bins is None


def layout_of(
    sets: LeafSets, *, budget: float, max_order: int | None = None, tensor_order: int | None = None
) -> Layout:
    """Tensors of all orders where they fit, of as many as do otherwise; BudgetError where not even pairs do.

    Orders above 2 are tensors only while these are at most 1,000, with a million cells for all outputs. All orders are
    reported individually while there are at most 20,000 such terms of all outputs and a row takes at most 2^24
    products, else those of tensors only.
    """
    top = max(map(len, sets.keys), default=0)
    n_outputs = sets.values.shape[1]
    highest = min(top, 2 if tensor_order is None else max(tensor_order, 1))
    plan = plan_of(set(sets.subsets([highest])) | _small(sets, highest), sets.grid, n_outputs)
    if tensor_order is not None:
        plan.check(budget)
    else:
        highest, plan = _grown(sets, plan, highest, top, budget)
    most_bins = None
    if plan.n_bytes > budget:
        most_bins = next((m for m in _MERGED_BINS if _shrunk(plan, sets.grid, m).n_bytes <= budget), None)
        if most_bins is None:
            _shrunk(plan, sets.grid, _MERGED_BINS[-1]).check(budget)
    if max_order is not None:
        told = max(min(max_order, top), 1 if top else 0)
    else:
        told = top if _can_tell_apart(sets, highest, top) else highest
    if most_bins is not None:
        plan = _shrunk(plan, sets.grid, most_bins)
    layout = Layout(highest, told, top, most_bins, plan)
    return dataclasses.replace(layout, plan=dataclasses.replace(plan, notes=tuple(_notes(layout))))


def _notes(layout: Layout) -> Iterator[str]:
    """What the plan of tensors does not say."""
    if layout.most_bins is not None:
        yield f"bins merged to at most {layout.most_bins:,} per ordered feature, the rest in a remainder"
    at_rows = range(layout.tensor_order + 1, layout.row_order + 1)
    if at_rows:
        yield f"{_orders(at_rows)}: evaluated at rows"
    rest = range(max(layout.row_order, 0) + 1, layout.top_order + 1)
    if rest:
        yield f"{_orders(rest)}: in a remainder"


def _orders(orders: range) -> str:
    return f"order {orders[0]}" if len(orders) == 1 else f"orders {orders[0]} to {orders[-1]}"


def _small(sets: LeafSets, order: int) -> set[Key]:
    return {key for key in sets.keys if len(key) < order}


def _grown(sets: LeafSets, plan: Plan, order: int, top: int, budget: float) -> tuple[int, Plan]:
    """The highest order whose tensors fit, and the plan with it."""
    while order < top:
        more = plan_of(set(sets.subsets([order + 1])) | _small(sets, order + 1), sets.grid, plan.n_outputs)
        cells = [n_cells for key, n_cells in more.cells.items() if len(key) > 2]
        is_slow = sum(cells) * more.n_outputs > _TENSOR_CELLS or len(cells) > _TENSOR_TERMS
        if is_slow or more.n_bytes > budget:
            break
        order, plan = order + 1, more
    return order, plan


def _shrunk(plan: Plan, grid: Grid, most: int) -> Plan:
    """The plan with at most so many bins of each ordered feature."""
    sizes = tuple(
        min(size, most) if isinstance(axis, IntervalAxis) else size
        for size, axis in zip(plan.sizes, grid.axes, strict=True)
    )
    cells = {key: math.prod(sizes[j] for j in key) for key in plan.cells}
    return dataclasses.replace(plan, cells=cells, sizes=sizes)


def _can_tell_apart(sets: LeafSets, order: int, top: int) -> bool:
    most = _MOST_SETS // int(sets.values.shape[1])
    orders = range(order + 1, top + 1)
    if row_cost(sets) > _MOST_ROW_COST:
        return False
    return sum(map(sets.n_subsets, orders)) <= most or len(sets.subsets(orders)) <= most


@dataclasses.dataclass(frozen=True, eq=False)
class Deep:
    """A forest whose terms of high order are evaluated at rows.

    Attributes
    ----------
    forest
        The trees, for exact scores.
    leaf_sets
        Their leaves on the grid of all their bins.
    layout
        What is a tensor, what is told apart, what is remainder.
    mergings
        How bins are merged for tensors, feature by feature.
    tensor_grid
        The grid of the merged bins.
    keys
        Terms told apart at rows, by positions of features.
    form
        Closed form for independent features; None for the forest as its trees hold it.
    correction
        What dependence adds to these terms.
    refinement
        Root mean square change of what goes to tensors when the coarse bins are halved, relative to the standard
        deviation of the score; None where nothing goes.
    is_exact
        Whether features are independent, so that no correction is needed.
    purity, n_measured
        Largest slice mean of the largest terms at rows, relative to the term, and how many terms were measured.
    """

    forest: Forest
    leaf_sets: LeafSets
    layout: Layout
    mergings: tuple[Binning, ...]
    tensor_grid: Grid
    keys: tuple[Key, ...]
    form: ClosedForm | None = None
    correction: Correction = dataclasses.field(default_factory=no_correction)
    refinement: float | None = None
    is_exact: bool = False
    purity: float | None = None
    n_measured: int = 0

    @property
    def grid(self) -> Grid:
        """The grid of all bins of the forest."""
        return self.leaf_sets.grid

    @property
    def has_remainder(self) -> bool:
        """Whether tensors and terms told apart leave a remainder."""
        cut = self.form is not None and self.layout.row_order < self.layout.top_order
        return cut or self.layout.most_bins is not None

    @functools.cached_property
    def row_cost(self) -> float:
        """Products that all terms take for a row, at least one."""
        return max(row_cost(self.leaf_sets), 1.0)

    def has_terms_of(self, other: Deep) -> bool:
        """Whether leaves and terms are another's."""
        ours, theirs = self.correction.tables, other.correction.tables
        return (
            self.keys == other.keys
            and np.array_equal(self.leaf_sets.values, other.leaf_sets.values)
            and ours.keys() == theirs.keys()
            and all(np.array_equal(ours[key], theirs[key]) for key in ours)
        )

    def as_held(self) -> Deep:
        """The forest as its trees hold it: each leaf in the term of its features."""
        keys = _held(self.leaf_sets, self.layout)
        return Deep(self.forest, self.leaf_sets, self.layout, self.mergings, self.tensor_grid, keys)

    def holds(self, key: Key) -> bool:
        """Whether a leaf has all features of a key on its path; without `form`, whether these are all that it has."""
        if self.form is None:
            return key in self.keys
        return len(key) > self.layout.tensor_order and bool(len(self.leaf_sets.leaves_with(key)))

    def summary(self) -> HigherCertificate | None:
        """What was measured on terms of high order."""
        layout, correction = self.layout, self.correction
        if layout.top_order <= layout.tensor_order:
            return None
        mergings = correction.mergings
        bins = {order: max(m.coarser_size(most) for m in mergings) for order, most in correction.bins.items()}
        return HigherCertificate(
            orders=(layout.tensor_order + 1, layout.top_order),
            n_terms=len(self.keys),
            n_corrected=len(correction.tables),
            impurity=correction.impurity,
            bins=bins,
            refinement=self.refinement or 0.0,
            is_exact=self.is_exact,
            measured=self.purity,
            n_measured=self.n_measured,
        )

    def score(self, encoded: Floats) -> Floats:
        """Score of encoded rows by the trees themselves, shape (n_rows, n_outputs)."""
        return self.forest.score_encoded(encoded)

    def at_rows(self, codes: BinIndices, keys: Sequence[Key], n_jobs: int = 1) -> Floats:
        """Terms of high order at rows given by their bins on `grid`, shape (n_rows, n_keys, n_outputs)."""
        if self.form is None:
            return raw_at_rows(self.leaf_sets, codes, keys, n_jobs)
        values = self.form.at_rows(codes, keys, n_jobs)
        for position, key in enumerate(keys):
            values[:, position] += self.correction.at_rows(codes, key)
        return values

    def merged(self, codes: BinIndices) -> BinIndices:
        """Bins of the tensors for bins on `grid`."""
        if self.layout.most_bins is None:
            return codes
        columns = [merging.bins[codes[:, j]] for j, merging in enumerate(self.mergings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def lifted(self, codes: BinIndices, rng: np.random.Generator) -> BinIndices:
        """Bins on `grid` for bins of the tensors, drawn by their shares where bins are merged."""
        if self.layout.most_bins is None:
            return codes
        columns = [_lift(merging, codes[:, j], rng) for j, merging in enumerate(self.mergings)]
        return np.stack(columns, axis=1).astype(np.int32)

    def points(self, density: Density, n_rows: int, rng: np.random.Generator) -> Points:
        """Bins on `grid` and weights of rows that stand for a density bound to the grid of the tensors."""
        return density.joint.points_on(self.grid, self.lifted, n_rows, rng)


def _lift(merging: Binning, codes: Ints | BinIndices, rng: np.random.Generator) -> Ints:
    """A bin within each merged bin, drawn by shares."""
    order = np.argsort(merging.bins, kind="stable")
    ends = np.cumsum(merging.shares[order])
    ends *= merging.size / ends[-1]
    position = np.minimum(codes + rng.random(len(codes)), np.nextafter(merging.size, 0))
    found: Ints = order[np.minimum(np.searchsorted(ends, position, side="right"), len(order) - 1)]
    return np.where(merging.bins[found] == codes, found, np.searchsorted(merging.bins[order], codes)).astype(np.int64)


def prepare(forest: Forest, sets: LeafSets, layout: Layout, sample: Sample | None) -> Deep:
    """The forest as its trees hold it, with bins merged where the layout says so."""
    grid = sets.grid
    if layout.most_bins is None:
        mergings = tuple(unmerged(size) for size in grid.sizes)
        tensor_grid = grid
    else:
        masses = [
            np.full(size, 1 / size) if sample is None else sample.counts((j,)) for j, size in enumerate(grid.sizes)
        ]
        mergings = tuple(
            equal_mass(axis, own, layout.most_bins) if isinstance(axis, IntervalAxis) else unmerged(axis.size)
            for axis, own in zip(grid.axes, masses, strict=True)
        )
        axes = tuple(_merged_axis(axis, merging) for axis, merging in zip(grid.axes, mergings, strict=True))
        tensor_grid = Grid(grid.schema, axes)
    return Deep(forest, sets, layout, mergings, tensor_grid, _held(sets, layout))


def _held(sets: LeafSets, layout: Layout) -> tuple[Key, ...]:
    """Terms above tensors that the trees hold, in order."""
    return tuple(sorted((k for k in sets.keys if len(k) > layout.tensor_order), key=lambda key: (len(key), key)))


def _merged_axis(axis: Axis, merging: Binning) -> Axis:
    if not isinstance(axis, IntervalAxis):
        return axis
    ends = np.flatnonzero(np.diff(merging.bins[: axis.n_regular]))
    missing_bin = axis.missing_bin if axis.missing_bin < 0 else int(merging.bins[axis.missing_bin])
    return IntervalAxis(axis.name, missing_bin, axis.bounds[ends])


def raw_tensors(deep: Deep) -> Effects:
    """The leaves with few features as tensors: what the trees hold of low orders."""
    return expand(deep.leaf_sets, max_order=deep.layout.tensor_order, mergings=deep.mergings, grid=deep.tensor_grid)


def deepen(raw: Deep, density: Density, *, n_jobs: int, progress: Progress) -> tuple[Deep, Effects]:
    """Terms of high order under a density, and tensors of low orders that are yet to be purified under it."""
    form = ClosedForm(raw.leaf_sets, _masses(raw, density), raw.mergings)
    layout = raw.layout
    higher = raw.leaf_sets.subsets(range(layout.tensor_order + 1, layout.row_order + 1))
    deep = dataclasses.replace(raw, form=form, keys=tuple(higher), is_exact=density.is_product)
    if not density.is_product and layout.top_order > layout.tensor_order:
        deep = _corrected(deep, form, density, n_jobs=n_jobs, progress=progress)
    return deep, _tensors(deep, form, progress)


def _masses(raw: Deep, density: Density) -> tuple[Floats, ...]:
    """Masses of all bins: those of merged bins by shares."""
    tables = (density.table((j,)) for j in range(len(raw.mergings)))
    return tuple(table[merging.bins] * merging.shares for table, merging in zip(tables, raw.mergings, strict=True))


def _sizes_at_rows(deep: Deep, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
    """Root mean square of terms at some rows: under dependence it may be far from that for independent features."""
    n_rows = int(np.clip(_SIZE_STEPS / deep.row_cost, *_SIZE_ROWS))
    values = deep.at_rows(codes[:: max(1, len(codes) // n_rows)], keys, n_jobs)
    sizes: Floats = np.sqrt(np.square(values).mean(axis=0)).max(axis=1)
    return sizes


def _correctable(deep: Deep, form: ClosedForm, codes: BinIndices, n_jobs: int) -> list[Key]:
    """Terms of high order to correct for dependence, whether told apart or not: as many as take a reasonable time."""
    found: dict[int, list[Key]] = {}
    total = 0
    for order in range(deep.layout.tensor_order + 1, deep.layout.top_order + 1):
        if deep.leaf_sets.n_subsets(order) > 50 * _MOST_SETS:
            break
        found[order] = deep.leaf_sets.subsets([order])
        total += len(found[order])
        if total > _MOST_SETS:
            break
    return list(worth_correcting(form, found, lambda keys: _sizes_at_rows(deep, codes, keys, n_jobs)))


def _corrected(deep: Deep, form: ClosedForm, density: Density, *, n_jobs: int, progress: Progress) -> Deep:
    rng = np.random.default_rng(0)
    n_rows = 0 if density.sample is None else density.sample.n_rows
    rows = deep.points(density, int(np.clip(n_rows, *_DRAWS)), rng)
    keys = _correctable(deep, form, rows.codes, n_jobs)
    bins = choose_bins(form, keys, rows, are_cells=density.sample is None)
    coarse = coarse_mergings(form)
    half = {order: max(max(m.coarser_size(most) for m in coarse) // 2, 1) for order, most in bins.items()}
    fine, rough = (
        correct(form, keys, rows, most, n_jobs=n_jobs, advance=functools.partial(progress, stage))
        for stage, most in (("high orders", bins), ("high orders, half the bins", half))
    )
    score = deep.score(deep.grid.encoded(rows.codes[:: max(1, len(rows.codes) // _SCALE_ROWS)]))
    refinement = _change(fine, rough, rows, float(score.std(axis=0).max()))
    return _measured(dataclasses.replace(deep, correction=fine, refinement=refinement), density, n_jobs)


def _measured(deep: Deep, density: Density, n_jobs: int) -> Deep:
    """The same with the purity of the largest terms at rows, fresh ones where the density is drawn from."""
    if not deep.keys:
        return deep
    rng = np.random.default_rng(1)
    codes, weights = deep.points(density, _MEASURED_ROWS[1], rng)
    sizes = _sizes_at_rows(deep, codes, deep.keys, n_jobs)
    keys = [deep.keys[i] for i in _largest(sizes, [len(key) for key in deep.keys])]
    n_leaves = sum(deep.leaf_sets.n_leaves_with(key) for key in keys)
    n_rows = int(np.clip(_MEASURED_STEPS / max(n_leaves, 1), *_MEASURED_ROWS))
    is_part = len(codes) > n_rows
    if is_part:
        codes = codes[rng.choice(len(codes), size=n_rows, p=weights / weights.sum())]
        weights = np.full(n_rows, 1 / n_rows)
    values = deep.at_rows(codes, keys, n_jobs)
    coarse = [merging.coarser(_MEASURED_BINS)[codes[:, j]] for j, merging in enumerate(deep.correction.mergings)]
    cells = [np.stack([coarse[j] for j in key], axis=1) for key in keys]
    are_drawn = is_part or not density.joint.has_exact_points
    found = [slice_impurity(values[:, i], own, weights, are_drawn=are_drawn) for i, own in enumerate(cells)]
    return dataclasses.replace(deep, purity=max(found), n_measured=len(keys))


def _largest(sizes: Floats, orders: Sequence[int]) -> list[int]:
    """Positions of the largest terms: of all, and of each order."""
    ranked = [int(i) for i in np.argsort(-sizes, kind="stable")]
    found = ranked[:_MEASURED_TERMS]
    for order in sorted(set(orders)):
        found += [i for i in ranked if orders[i] == order][:_MEASURED_TERMS_OF_ORDER]
    return sorted(set(found))


def _change(fine: Correction, rough: Correction, rows: Points, scale: float) -> float:
    """Largest root mean square difference of what two corrections move to one term, over rows, relative to a scale."""
    worst = 0.0
    for key, values in fine.moved.items():
        cells = tuple(fine.mergings[j].bins[rows.codes[:, j]] for j in key)
        worst = max(worst, float(np.sqrt(rows.weights @ (values - rough.moved[key])[cells] ** 2).max()))
    return worst / scale if scale > 0 else 0.0


def _tensors(deep: Deep, form: ClosedForm, progress: Progress) -> Effects:
    """Low orders in closed form, with what the correction of high orders moves to them."""
    keys = deep.leaf_sets.subsets(range(1, deep.layout.tensor_order + 1))
    terms = {}
    bins = [np.unique(merging.bins, return_index=True)[1] for merging in deep.mergings]
    for done, key in enumerate(keys, start=1):
        terms[key] = form.tensor(key) + deep.correction.spread(key, [bins[j] for j in key])
        progress("low orders", done, len(keys))
    return Effects(deep.tensor_grid, form.intercept, terms)


def selected(deep: Deep, wanted: Callable[[Key], bool]) -> Deep:
    """The same forest with some of its terms of high order only."""
    return dataclasses.replace(deep, keys=tuple(key for key in deep.keys if wanted(key)))


def forest_sets(forest: Forest) -> LeafSets:
    """The leaf sets of a forest on the grid of all its bins."""
    return leaf_sets(forest, grid_of(forest))
