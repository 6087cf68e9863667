"""Tree models: the steps from a deep ensemble to its terms.

Tensors of order 3 and more on all bins of an ensemble soon stop fitting, so terms of high order are not tables but
evaluated at rows. `TreeModel.purify` shows the steps, which are functions with their numbers; the sum of all terms is
the model throughout, for every input. Under independent features the closed form is the answer, without steps 2, 3 and
5. With a time limit, steps do less, and the certificate names what was skipped.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Sequence

import numpy as np

from treeanova.anova.certificate import HigherCertificate
from treeanova.core.arrays import Floats, Key
from treeanova.core.progress import Clock, OutOfTime, Progress, counted, one_step, quiet, reporting
from treeanova.core.threads import single_threaded, thread_map
from treeanova.density.base import Density, EmpiricalJoint, Points
from treeanova.density.counting import Request
from treeanova.density.statistics import Statistics
from treeanova.model.effects import Effects, without_rounding
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.terms import costs
from treeanova.terms.anchored import AnchoredTrees
from treeanova.terms.closed_form import ClosedForm, expand
from treeanova.terms.coarse import coarse_means
from treeanova.terms.correction import Correction, choose_bins, correct, find_leftover
from treeanova.terms.extremes import StepFunction, steps_of_trees
from treeanova.terms.layout import TermLayout, Trees, lay_out, seconds_of_tables
from treeanova.terms.leaves import LeafSets
from treeanova.terms.measuring import high_orders_at, mean_of_tables, mean_score, measured_purity, table_error
from treeanova.terms.screening import Screened, Sizes, largest_with_subsets, screen, screened_orders, sizes_without_rows
from treeanova.terms.source import AdditiveModel, PureTerms, Settings, Source, purify_tensors
from treeanova.terms.terms import PureLeafTerms, RawLeafTerms, TermSet


@dataclasses.dataclass(frozen=True, eq=False)
class TreeModel(Source):
    """A deep ensemble: tables of low orders, all other terms evaluated at rows."""

    tag = "trees"

    trees: Trees

    @property
    def grid(self) -> Grid:
        return self.trees.tensor_grid

    @property
    def max_order(self) -> int | None:  # highest order that `purify` reports; None for all
        return self.trees.layout.row_order if self.trees.layout.is_truncated else None

    @property
    def rounding(self) -> Floats:  # of the score, (n_outputs,)
        return self.trees.forest.rounding

    def up_to(self, max_order: int) -> TreeModel:  # a model whose `purify` reports no higher orders
        layout = self.trees.layout
        if max_order >= layout.row_order:
            return self
        return TreeModel(dataclasses.replace(self.trees, layout=dataclasses.replace(layout, row_order=max_order)))

    def score(self, rows: Rows, n_jobs: int = 1) -> Floats:
        del n_jobs
        return self.trees.forest.score(rows)

    def needed_tables(self) -> list[Request]:  # of rows: those by which a density purifies the tables
        orders = range(2, self.trees.layout.tensor_order + 1)
        singles: list[Key] = [(j,) for j in range(len(self.grid.axes))]
        return [*map(Request, singles), *map(Request, self.trees.leaf_sets.subsets(orders))]

    def raw(self) -> TermSet:
        high = [key for key in self.trees.leaf_sets.keys if len(key) > self.trees.layout.tensor_order]
        keys = tuple(sorted(high, key=lambda key: (len(key), key)))
        return TermSet(self.trees.raw_tensors(), {}, RawLeafTerms(self.trees, keys))

    def purify(self, density: Density, settings: Settings, progress: Progress, clock: Clock | None = None) -> PureTerms:
        density.check_trees(has_merged_bins=self.trees.has_merged_bins)
        clock, layout = Clock(settings.seconds) if clock is None else clock, self.trees.layout
        with single_threaded():
            work = _begin_work(self.trees, density, settings.n_jobs, progress, clock)
            high = _HighOrders(PureLeafTerms(self.trees, (), work.form, Correction()))
            if work.is_dependent:
                high = _correct(work, high, _terms_to_correct(work))
            if min(layout.row_order, layout.top_order) > layout.tensor_order:
                high = _list_terms(work, high)
            high.terms.form.forget_sums()
            low = _raw_tables(high.terms, settings.n_jobs, progress)
            if work.is_dependent and high.terms.passes_on_low_orders:
                high, low = _pass_on_low_orders(work, high, low)
        pure = purify_tensors(low, density, settings, progress)
        with single_threaded():
            return _certify(work, high, pure)

    def tables_to_purify(self, terms: TermSet) -> Effects:
        """Return low orders in closed form, with what the correction of high orders moves to them."""
        if not isinstance(terms.leaf_terms, PureLeafTerms):
            raise TypeError("`terms` must be the pure terms of this model.")
        # A file does not store what is moved; the pure tables have the same sum, and so the same pure terms.
        if terms.leaf_terms.correction.tables and not terms.leaf_terms.correction.moved:
            return terms.effects
        return _raw_tables(terms.leaf_terms, 1, quiet)

    @property
    def forest(self) -> Forest:
        return self.trees.forest

    def steps(self, feature: int, output: int) -> tuple[Grid, Iterator[StepFunction]]:
        """Return the changes of the score between neighbouring bins of a feature, and the grid of these bins."""
        trees = self.trees
        return trees.grid, steps_of_trees(trees.forest, trees.leaf_sets, feature, output)

    def anchored(self, references: Points) -> AnchoredTrees:
        return AnchoredTrees(self.trees, references)

    @classmethod
    def restored(cls, terms: TermSet, tables: Effects | None) -> TreeModel:
        del tables
        if terms.leaf_terms is None:
            raise ValueError("a tree model must have its trees")
        return cls(terms.leaf_terms.trees)


@dataclasses.dataclass(frozen=True, eq=False)
class _Work:
    """State shared by all steps: closed form, rows of the density, sizes of terms, time."""

    trees: Trees
    density: Density
    form: ClosedForm
    n_jobs: int
    progress: Progress
    clock: Clock  # of the whole work
    high_clock: Clock  # of what is done for terms of high order

    @property
    def has_high_orders(self) -> bool:
        return self.trees.layout.top_order > self.trees.layout.tensor_order

    @property
    def is_dependent(self) -> bool:
        return self.has_high_orders and not self.density.is_product

    @functools.cached_property
    def rows(self) -> Points:
        """Rows that represent the density, or the population at which its terms are ranked."""
        with one_step(self.progress, "rows of the density"):
            return self._draw_rows(self.density.population, self.high_clock)

    @functools.cached_property
    def rows_as_given(self) -> Points:
        """The rows before smoothing, which show dependence more clearly than draws."""
        if self.density.smooths_rows and self.density.statistics is not None:
            return self.density.statistics.on(self.trees.grid).points()
        return self._draw_rows(self.density)

    def _draw_rows(self, density: Density, clock: Clock | None = None) -> Points:
        """Return rows that represent a density; if they must be drawn, as many as there are data and time for."""
        n_rows = 0 if density.statistics is None else density.statistics.n_rows
        n_draws = float(np.clip(n_rows, *costs.CORRECTION_DRAWS))
        if clock is not None and clock.is_limited:
            per_draw = costs.SECONDS_PER_DRAW * max(len(self.trees.binnings), 1)
            n_draws = min(n_draws, max(costs.SHARE_TO_DRAW * clock.left / per_draw, costs.LEAST_DRAWS))
        return self.trees.points(density, int(n_draws), np.random.default_rng(0))

    @functools.cached_property
    def sizes(self) -> Sizes:
        """Sizes of high orders under the population, for the orders that can be screened in time."""
        population, form, layout = self.density.population, self.form, self.trees.layout
        if population is not self.density:
            form = dataclasses.replace(form, masses=self.trees.masses(population))
        seconds = costs.SHARE_TO_SCREEN * self.high_clock.left
        return sizes_without_rows(form, screened_orders(form, layout.tensor_order + 1, layout.top_order, seconds))


@dataclasses.dataclass(frozen=True, eq=False)
class _HighOrders:
    """What the steps have found of the terms of high order so far."""

    terms: PureLeafTerms
    rough: Correction | None = None  # the correction with half the bins; None if not tried
    refinement: float = 0.0  # how much half the bins would change what goes to tables
    screened: Screened = dataclasses.field(default_factory=Screened)
    skipped: tuple[str, ...] = ()  # for lack of time

    def without(self, *work: str) -> _HighOrders:  # the same, with a note that some work was skipped
        return dataclasses.replace(self, skipped=(*self.skipped, *work))


def _begin_work(trees: Trees, density: Density, n_jobs: int, progress: Progress, clock: Clock) -> _Work:
    """Step 1: return the state with the closed form, pure for independent features with the density's marginals."""
    high_clock = clock.part(costs.SHARE_OF_TIME, seconds_of_tables(trees.layout.plan))
    with one_step(progress, "marginals"):
        form = ClosedForm(trees.leaf_sets, trees.masses(density), trees.binnings)
    return _Work(trees, density, form, n_jobs, progress, clock, high_clock)


def _terms_to_correct(work: _Work) -> list[Key]:
    """Step 2: return the terms that hold nearly all of the size, with their subsets above the tables."""
    layout, n_outputs = work.trees.layout, work.trees.leaf_sets.values.shape[1]
    limit = costs.MAX_CORRECTED if layout.has_many_terms else costs.MAX_CORRECTED_OF_FEW
    lowest, limit = layout.tensor_order + 1, max(limit // n_outputs, 1)
    with one_step(work.progress, "choosing terms of high orders"):
        sizes, total = work.sizes.by_key, work.sizes.total
        return largest_with_subsets(sizes, lowest, limit, share=costs.CORRECTED_SHARE, total=total)


def _correct(work: _Work, high: _HighOrders, all_keys: Sequence[Key]) -> _HighOrders:
    """Step 3: make terms pure under the density on coarse cells, and try half the bins; less if time is short."""
    form, rows, clock, density = work.form, work.rows, work.high_clock, work.density
    uncorrected = dataclasses.replace(high, refinement=float("nan"))
    keys = _corrected_in_time(work, all_keys)
    if not keys:
        n_terms = f"{len(all_keys):,}" if all_keys else "all"
        is_skipped = bool(all_keys) or clock.is_limited
        return uncorrected.without(f"the correction of {n_terms} terms") if is_skipped else uncorrected
    bins = choose_bins(form, keys, rows, are_cells=density.statistics is None, are_drawn=density.smooths_rows)
    start, stopping = clock.left, clock.part(costs.SHARE_TO_CORRECT).stopping(work.progress)
    corrected = functools.partial(correct, rows=rows, unsampled=functools.partial(_unsampled, density, work.trees.grid))
    try:
        means = coarse_means(form, keys, bins, work.n_jobs, stopping)
        fine = corrected(means, keys, bins=bins, advance=functools.partial(stopping, "high orders"))
    except OutOfTime:
        return uncorrected.without(f"the correction of {len(all_keys):,} terms")
    high = dataclasses.replace(high, terms=dataclasses.replace(high.terms, correction=fine), refinement=float("nan"))
    if len(keys) < len(all_keys):
        high = high.without(f"the correction of {len(all_keys) - len(keys):,} terms")
    half = {order: max(max(b.coarser_size(n) for b in means.binnings) // 2, 1) for order, n in bins.items()}
    trial = clock.part(1.0, start / 2).stopping(work.progress)  # none if less than half of the time is left
    try:
        rough = corrected(means, keys, bins=half, advance=functools.partial(trial, "high orders, half the bins"))
    except OutOfTime:
        return high.without("a trial with half the bins")
    return dataclasses.replace(high, rough=rough, refinement=_change_of_moved(fine, rough, work))


def _corrected_in_time(work: _Work, keys: Sequence[Key]) -> list[Key]:
    """Return the terms, with their subsets, that can be corrected in half of the remaining time."""
    sets, clock = work.trees.leaf_sets, work.high_clock
    per_leaf = costs.SECONDS_PER_CORRECTED_LEAF * sets.values.shape[1]
    seconds = sum(costs.SECONDS_PER_CORRECTED_TERM + per_leaf * sets.n_leaves_with(key) for key in keys)
    if not clock.is_limited or seconds <= clock.left / 2:
        return list(keys)
    limit = int(len(keys) * clock.left / 2 / seconds)
    sizes = {key: work.sizes.by_key.get(key, 0.0) for key in keys}
    largest = largest_with_subsets(sizes, min(map(len, keys)), limit) if limit else []
    return largest if len(largest) <= limit else []


def _unsampled(density: Density, grid: Grid, requests: Sequence[Request]) -> dict[Key, Floats]:
    """Return, per requested table, shares of cells under all rows minus those of a sample; empty if all are sampled."""
    changes: dict[Key, Floats] = {}
    for share, joint in density.joint.components():
        if isinstance(joint, EmpiricalJoint) and not joint.has_exact_points:
            statistics = joint.statistics.on(grid)
            statistics.prepare_tables(requests)
            for key, binnings in requests:
                counts = statistics.counts(key, binnings, may_estimate=True)
                change = share * (counts - statistics.sampled_counts(key, binnings))
                changes[key] = changes[key] + change if key in changes else change
    return changes


def _change_of_moved(fine: Correction, rough: Correction, work: _Work) -> float:
    """Return the largest root mean square difference of what two corrections move, over the score's std. deviation."""
    rows, worst = work.rows, 0.0
    every_nth = rows.codes[:: max(1, len(rows.codes) // costs.SCALE_ROWS)]
    scale = float(work.trees.forest.score(Rows.in_bins(work.trees.grid, every_nth)).std(axis=0).max())
    for key, values in fine.moved.items():
        cells = tuple(fine.binnings[j].bins[rows.codes[:, j]] for j in key)
        worst = max(worst, float(np.sqrt(rows.weights @ (values - rough.moved[key])[cells] ** 2).max()))
    return worst / scale if scale > 0 else 0.0


def _list_terms(work: _Work, high: _HighOrders) -> _HighOrders:
    """Step 4: list the important terms, or all if the layout says so; the others of an order are summed."""
    layout, sets, clock = work.trees.layout, work.trees.leaf_sets, work.high_clock
    orders = range(layout.tensor_order + 1, layout.row_order + 1)
    if layout.lists_all:
        screened = Screened(tuple(sets.subsets(orders)))
    else:
        samples = (work.rows, work.rows_as_given) if work.density.smooths_rows else (work.rows,)
        shares = functools.partial(_shares_at_rows, high.terms, samples, work.n_jobs)
        search = functools.partial(
            screen,
            orders=orders,
            n_leaves_with=sets.cost_at_row,
            shares_at=shares,
            asked=layout.asked,
            n_terms=work.sizes.n_terms,
        )
        try:
            with reporting(clock.stopping(work.progress)):
                screened = search(work.sizes.by_key, seconds=clock.left / 2)
            was_searched = bool(work.sizes.by_key) or not clock.is_limited
        except OutOfTime:
            screened, was_searched = search({}), False
        high = high if was_searched else high.without("the search for terms that carry weight")
    terms = dataclasses.replace(high.terms, keys=screened.keys, screened_orders=screened.unlisted_orders)
    return dataclasses.replace(high, terms=terms, screened=screened)


def _shares_at_rows(
    terms: PureLeafTerms, samples: Sequence[Points], n_jobs: int, keys: Sequence[Key], n_rows: int
) -> Floats:
    """Return each term's mean square over the variance of the score, the largest of all samples and outputs."""
    shares = np.zeros(len(keys))
    rng = np.random.default_rng(0)
    for sample in samples:
        codes = rng.permutation(sample.codes)[: max(n_rows // len(samples), 1)]
        score = terms.trees.forest.score(Rows.in_bins(terms.trees.grid, codes)).var(axis=0)
        squares = np.square(terms.at(codes, keys, n_jobs)).mean(axis=0)
        of_sample = np.divide(squares, score, out=np.zeros_like(squares), where=score > 0).max(axis=1)
        shares = np.maximum(shares, of_sample)
    return shares


def _pass_on_low_orders(work: _Work, high: _HighOrders, low: Effects) -> tuple[_HighOrders, Effects]:
    """Step 5: move what one or two features predict of high orders to the tables; nothing if time is too short."""
    trees, rows = work.trees, work.trees.scored_soon(work.rows_as_given)
    per_table, per_value = costs.SECONDS_PER_LEFTOVER
    seconds = len(low.terms) * (per_table + per_value * len(rows.codes) * len(low.intercept))
    if work.clock.is_limited and seconds > costs.SHARE_FOR_LEFTOVER * work.clock.left:
        return high.without("what tables can tell of terms that are not listed"), low
    score = trees.forest.score(Rows.in_bins(trees.grid, rows.codes))
    sum_of_high = score - low.score(Rows.in_bins(low.grid, trees.merged(rows.codes)))
    leftover = find_leftover(work.form, tuple(filter(high.terms.can_pass_on, low.terms)), rows, sum_of_high)
    moved = dict(low.terms)
    moved |= {key: moved[key] + leftover.spread(key, trees.first_bins(key)) for key in moved if key in leftover.tables}
    terms = dataclasses.replace(high.terms, leftover=leftover)
    return dataclasses.replace(high, terms=terms), dataclasses.replace(low, terms=moved)


def _certify(work: _Work, high: _HighOrders, pure: PureTerms) -> PureTerms:
    """Step 7: move the mean of high orders to the intercept, and measure the terms."""
    terms, tables, density = high.terms, pure.terms, work.density
    if not work.has_high_orders:
        return PureTerms(dataclasses.replace(tables, leaf_terms=terms), pure.measured)
    certificate = _certificate_without_measures(work, high)
    if density.is_product:
        return PureTerms(dataclasses.replace(tables, leaf_terms=terms), pure.measured, certificate)
    at_rows = high_orders_at(work.trees, tables, density, work.rows)
    mean = mean_score(work.trees, density.joint)
    if mean is None:
        certificate = dataclasses.replace(certificate, mean_error=at_rows.mean_error)
    moved = at_rows.mean if mean is None else mean - tables.intercept - mean_of_tables(tables, density)
    terms = dataclasses.replace(terms, leftover=terms.leftover.with_mean(moved))
    effects = dataclasses.replace(tables.effects, intercept=tables.intercept + moved)
    tables = dataclasses.replace(tables, effects=effects)
    certificate = dataclasses.replace(certificate, table_error=float("nan"))
    try:
        with reporting(work.clock.stopping(work.progress)):
            work.clock.check()
            error = table_error(terms, high.rough, tables, at_rows)
            certificate = dataclasses.replace(certificate, table_error=error)
            if terms.keys:
                shares = high.screened.shares
                purity = measured_purity(terms, density, work.rows, shares, work.clock, n_jobs=work.n_jobs)
                certificate = dataclasses.replace(certificate, measured=purity[0], n_measured=purity[1])
    except OutOfTime:
        skipped = (*certificate.skipped, "accuracy and purity at rows")
        certificate = dataclasses.replace(certificate, skipped=skipped)
    return PureTerms(dataclasses.replace(tables, leaf_terms=terms), pure.measured, certificate)


def _certificate_without_measures(work: _Work, high: _HighOrders) -> HigherCertificate:
    """Return what the steps themselves state: numbers of terms, bins, what was skipped."""
    layout, correction = work.trees.layout, high.terms.correction
    sizes = {order: [b.coarser_size(limit) for b in correction.binnings] for order, limit in correction.bins.items()}
    bins = {order: max(n_bins) for order, n_bins in sizes.items()}
    return HigherCertificate(
        orders=(layout.tensor_order + 1, layout.top_order),
        n_terms=len(high.terms.keys),
        n_corrected=len(correction.tables),
        impurity=correction.impurity,
        bins=bins,
        refinement=high.refinement,
        is_exact=work.density.is_product,
        n_left_out=high.screened.n_left_out,
        largest_missed=high.screened.largest_missed,
        skipped=high.skipped,
    )


def _raw_tables(terms: PureLeafTerms, n_jobs: int, progress: Progress) -> Effects:
    """Step 6: return the tables before purification: the closed form, plus what high orders move to them."""
    trees = terms.trees
    keys = trees.leaf_sets.subsets(range(1, trees.layout.tensor_order + 1))

    def tensor(key: Key) -> Floats:
        bins = trees.first_bins(key)
        table = terms.form.tensor(key)
        table += terms.correction.spread(key, bins)
        table += terms.leftover.spread(key, bins)
        return table

    with thread_map(n_jobs) as run:
        tables = counted(progress, "low orders", run(tensor, keys), len(keys))
        tensors = dict(zip(keys, tables, strict=True))
    return Effects(trees.tensor_grid, terms.form.intercept + terms.leftover.spread((), []), tensors)


def source_of_forest(forest: Forest, sets: LeafSets, layout: TermLayout, statistics: Statistics | None) -> Source:
    """Return a sum of tensors if these hold the whole forest, otherwise trees with tensors of low orders only."""
    if layout.is_dense:
        return AdditiveModel(TermSet(without_rounding(expand(sets), forest.rounding)))
    return TreeModel(lay_out(forest, sets, layout, statistics))


SOURCES: dict[str, type[Source]] = {kind.tag: kind for kind in (AdditiveModel, TreeModel)}
