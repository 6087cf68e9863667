"""Tree models: tensors for low orders, exact values at rows for all others; the source of a forest.

Tensors of order 3 and more on all bins of an ensemble soon stop fitting. So terms are first computed in closed form for
independent features (`closed_form`), at full resolution and for any depth; terms of high order are then corrected for
dependence on coarse cells (`correction`), and those of low order are purified on all bins like any others. High orders
are never tensors: they are evaluated at the rows that one asks for. Additivity is exact throughout, for every input.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from treeanova.anova.certificate import HigherCertificate
from treeanova.anova.observed import slice_impurity
from treeanova.core.arrays import BinIndices, Floats, Key, single_threaded
from treeanova.core.progress import Clock, OutOfTime, Progress, counted, one_step, quiet, reporting
from treeanova.density.counting import Request
from treeanova.density.joint import EmpiricalJoint, Points
from treeanova.density.kinds import Density
from treeanova.density.statistics import Statistics
from treeanova.model.effects import Effects, without_rounding
from treeanova.model.forest import Forest
from treeanova.model.grid import Grid
from treeanova.model.rows import Rows
from treeanova.terms import costs
from treeanova.terms.anchored import AnchoredTrees
from treeanova.terms.at_rows import Joined, PureLeafTerms, RawLeafTerms
from treeanova.terms.closed_form import ClosedForm, expand
from treeanova.terms.coarse import coarse_binnings, coarse_means
from treeanova.terms.correction import Correction, TableErrors, choose_bins, correct, find_leftover, no_correction
from treeanova.terms.extremes import StepFunction, steps_of_trees
from treeanova.terms.layout import TermLayout, seconds_of_tables
from treeanova.terms.leaves import LeafSets
from treeanova.terms.screening import Screened, Sizes, largest_with_subsets, screen, screened_orders, sizes_without_rows
from treeanova.terms.source import AdditiveModel, PureTerms, Settings, Source, purify_tensors
from treeanova.terms.terms import Tensors, TermSet
from treeanova.terms.trees import Trees, lay_out, mean_of_tables, mean_score

_NOT_SEARCHED = "the search for terms that carry weight"


@dataclasses.dataclass(frozen=True, eq=False)
class TreeModel(Source):
    """A forest whose terms of high order are evaluated at rows."""

    tag = "trees"

    trees: Trees

    @property
    def grid(self) -> Grid:
        return self.trees.tensor_grid

    @property
    def max_order(self) -> int | None:
        return self.trees.layout.row_order if self.trees.layout.is_truncated else None

    @property
    def rounding(self) -> Floats:
        return self.trees.forest.rounding

    def up_to(self, max_order: int) -> TreeModel:
        layout = self.trees.layout
        if max_order >= layout.row_order:
            return self
        return TreeModel(dataclasses.replace(self.trees, layout=dataclasses.replace(layout, row_order=max_order)))

    def score(self, rows: Rows, n_jobs: int = 1) -> Floats:
        del n_jobs
        return self.trees.forest.score(rows)

    def wanted_tables(self) -> list[Request]:
        orders = range(2, self.trees.layout.tensor_order + 1)
        singles: list[Key] = [(j,) for j in range(len(self.grid.axes))]
        return [*map(Request, singles), *map(Request, self.trees.leaf_sets.subsets(orders))]

    def raw(self) -> TermSet:
        return Joined(Tensors(self.trees.raw_tensors()), RawLeafTerms(self.trees, self.trees.raw_keys_at_rows))

    def purify(self, density: Density, settings: Settings, progress: Progress, clock: Clock | None = None) -> PureTerms:
        density.check_trees(has_merged_bins=self.trees.has_merged_bins)
        clock = Clock(settings.seconds) if clock is None else clock
        with single_threaded():
            high = _purify_leaf_terms(self.trees, density, settings, progress, clock)
            leaf_terms = high.terms
            leaf_terms.form.forget_sums()
            low = _low_orders(leaf_terms, settings.n_jobs, progress)
            if not density.is_product and leaf_terms.gives_low_orders:
                rows = _scored_in_time(self.trees, _rows_for_leftover(self.trees, density))
                if _can_find_leftover(low, rows, clock):
                    leaf_terms, low = _without_low_orders(leaf_terms, low, rows)
                else:
                    high = high.without("what tables can tell of terms that are not listed")
        pure = purify_tensors(low, density, settings, progress)
        if high.rows is None:
            return PureTerms(Joined(pure.terms.tables, leaf_terms), pure.measured, high.certificate)
        high = dataclasses.replace(high, terms=leaf_terms)
        with single_threaded():
            return _measured(high, pure, density, clock, n_jobs=settings.n_jobs, progress=progress)

    def tables_to_purify(self, terms: TermSet) -> Effects:
        """Low orders in closed form, with what the correction of high orders moves to them.

        A file does not keep what is moved; the pure tables have the same sum, and so the same pure terms.
        """
        if not isinstance(terms.leaf_terms, PureLeafTerms):
            raise TypeError("`terms` must be the pure terms of this model.")
        if terms.leaf_terms.correction.tables and not terms.leaf_terms.correction.moved:
            return terms.tables.effects
        return _low_orders(terms.leaf_terms, 1, quiet)

    @property
    def forest(self) -> Forest:
        return self.trees.forest

    def steps(self, feature: int, output: int) -> tuple[Grid, Iterator[StepFunction]]:
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
class _HighOrders:
    """Terms of high order, and what it takes to measure them."""

    terms: PureLeafTerms  # the terms
    certificate: HigherCertificate | None = None  # what is known so far; None without such terms
    rows: Points | None = None  # rows of the density; None where there is nothing to measure
    rough: Correction | None = None  # the correction with half the bins; None where it was not tried
    # shares of the variance of terms that were verified at rows
    shares: Mapping[Key, float] = dataclasses.field(default_factory=dict)

    def without(self, work: str) -> _HighOrders:
        """The same with a word on work that was skipped for lack of time."""
        if self.certificate is None:
            return self
        skipped = (*self.certificate.skipped, work)
        return dataclasses.replace(self, certificate=dataclasses.replace(self.certificate, skipped=skipped))


def _purify_leaf_terms(
    trees: Trees, density: Density, settings: Settings, progress: Progress, whole: Clock
) -> _HighOrders:
    """Terms of high order under a density, and what is known of them so far."""
    layout = trees.layout
    clock = whole.part(costs.SHARE_OF_TIME, seconds_of_tables(layout.plan))
    with one_step(progress, "marginals"):
        form = ClosedForm(trees.leaf_sets, trees.masses(density), trees.binnings)
    terms = PureLeafTerms(trees, (), form, no_correction())
    if layout.top_order <= layout.tensor_order:
        return _HighOrders(terms)
    reports_none = layout.row_order <= layout.tensor_order
    if reports_none and density.is_product:
        return _HighOrders(terms, _certificate(terms, is_exact=True))
    population = density.population
    with one_step(progress, "rows of the density"):
        ranking = form if population is density else dataclasses.replace(form, masses=trees.masses(population))
        sizes = _LazySizes(ranking, layout, clock)
        rows = _rows_for_correction(trees, population, clock)
    corrected = _Corrected(terms)
    if not density.is_product:
        corrected = _corrected(terms, density, rows, sizes, clock, n_jobs=settings.n_jobs, progress=progress)
    terms, screened, skipped = corrected.terms, None, list(corrected.skipped)
    if not reports_none:  # otherwise what the correction moves to low orders is all that is needed
        samples = (rows, _rows_for_leftover(trees, density)) if density.smooths_rows else (rows,)
        terms, screened, more = _listed(terms, samples, sizes, clock, n_jobs=settings.n_jobs, progress=progress)
        skipped += more
    higher = dataclasses.replace(
        _certificate(terms, is_exact=density.is_product),
        refinement=corrected.refinement,
        n_left_out=screened.n_left_out if screened else 0,
        largest_missed=screened.largest_missed if screened else 0.0,
        skipped=tuple(skipped),
    )
    if density.is_product:
        return _HighOrders(terms, higher)
    return _HighOrders(terms, higher, rows, corrected.rough, screened.shares if screened else {})


def _measured(
    high: _HighOrders, pure: PureTerms, density: Density, clock: Clock, *, n_jobs: int, progress: Progress
) -> PureTerms:
    """All terms with the mean of high orders in the intercept, and what is measured on them."""
    if high.certificate is None or high.rows is None:
        raise TypeError("`high` must have rows to measure its terms at.")
    terms, higher, tables, rows = high.terms, high.certificate, pure.terms.tables, high.rows
    trees = terms.trees
    at_rows = _at_rows(trees, tables, density, rows)
    mean = mean_score(trees, density.joint)
    if mean is None:
        higher = dataclasses.replace(higher, mean_error=at_rows.mean_error)
    moved = at_rows.mean if mean is None else mean - tables.intercept - mean_of_tables(tables, density)
    terms = dataclasses.replace(terms, leftover=terms.leftover.with_mean(moved))
    tables = tables.with_intercept(tables.intercept + moved)
    high, higher = dataclasses.replace(high, terms=terms), dataclasses.replace(higher, table_error=float("nan"))
    try:
        with reporting(clock.stopping(progress)):
            clock.check()
            higher = dataclasses.replace(higher, table_error=_table_error(high, tables, at_rows))
            if terms.keys:
                measured, n_measured = _measured_purity(terms, density, rows, high.shares, clock, n_jobs=n_jobs)
                higher = dataclasses.replace(higher, measured=measured, n_measured=n_measured)
    except OutOfTime:
        higher = dataclasses.replace(higher, skipped=(*higher.skipped, "accuracy and purity at rows"))
    return PureTerms(Joined(tables, terms), pure.measured, higher)


class _AtRows(NamedTuple):
    """Scores and sums of all terms of high order at rows of the density, shape (n_rows, n_outputs)."""

    rows: Points
    score: Floats
    high: Floats
    are_drawn: bool

    @property
    def mean(self) -> Floats:
        """Mean of the terms of high order."""
        mean: Floats = self.rows.weights @ self.high
        return mean

    @property
    def mean_error(self) -> float:
        """Standard error of the mean, relative to the standard deviation of the score; the largest of all outputs."""
        weights, spread = self.rows.weights, self.score.std(axis=0)
        error = np.sqrt(weights @ (self.high - self.mean) ** 2 * np.square(weights).sum())
        return float(np.divide(error, spread, out=np.zeros_like(error), where=spread > 0).max())


def _at_rows(trees: Trees, tables: Tensors, density: Density, rows: Points) -> _AtRows:
    scored = _scored_in_time(trees, rows)
    score = trees.forest.score(Rows.in_bins(trees.grid, scored.codes))
    high = score - tables.effects.score(Rows.in_bins(tables.effects.grid, trees.merged(scored.codes)))
    return _AtRows(scored, score, high, scored is not rows or not density.joint.has_exact_points)


def _table_error(high: _HighOrders, tables: Tensors, at_rows: _AtRows) -> float:
    """Estimate of the largest error of a table from the correction; NaN where half the bins were not tried."""
    correction, factor = high.terms.correction, costs.DRAWN_FACTOR if at_rows.are_drawn else 1.0
    if correction.tables and high.rough is None:
        return float("nan")
    errors = TableErrors(high.terms.trees, tables, np.abs(at_rows.score).max(axis=0))
    of_bins = 0.0 if high.rough is None else errors.of_bins(correction, high.rough)
    left = errors.at_rows(high.terms.form, at_rows.rows, at_rows.high, are_drawn=at_rows.are_drawn)
    return factor * (of_bins + left)


@dataclasses.dataclass(frozen=True, eq=False)
class _LazySizes:
    """Sizes of terms of high order, estimated from the leaves when they are asked for."""

    form: ClosedForm
    layout: TermLayout
    clock: Clock

    @functools.cached_property
    def found(self) -> Sizes:
        """Estimates for all orders that can be screened in a reasonable time."""
        seconds = costs.SHARE_TO_SCREEN * self.clock.left
        return sizes_without_rows(
            self.form, screened_orders(self.form, self.layout.tensor_order + 1, self.layout.top_order, seconds)
        )


def _rows_for_correction(trees: Trees, density: Density, clock: Clock | None = None) -> Points:
    n_rows = 0 if density.statistics is None else density.statistics.n_rows
    n_draws = float(np.clip(n_rows, *costs.CORRECTION_DRAWS))
    if clock is not None and clock.is_limited:
        in_time = costs.SHARE_TO_DRAW * clock.left / (costs.SECONDS_PER_DRAW * max(len(trees.binnings), 1))
        n_draws = min(n_draws, max(in_time, costs.LEAST_DRAWS))
    return trees.points(density, int(n_draws), np.random.default_rng(0))


def _rows_for_leftover(trees: Trees, density: Density) -> Points:
    """Rows themselves where the density smooths them: draws from it would show less of what goes together."""
    if density.smooths_rows and density.statistics is not None:
        return density.statistics.on(trees.grid).points()
    return _rows_for_correction(trees, density)


def _scored_in_time(trees: Trees, rows: Points) -> Points:
    """As many of the rows as the trees score in a reasonable time."""
    n_rows = int(costs.SCORED_STEPS / max(trees.forest.n_trees, 1))
    if len(rows.codes) <= n_rows:
        return rows
    chosen = np.random.default_rng(0).choice(len(rows.codes), size=n_rows, p=rows.weights / rows.weights.sum())
    return Points(rows.codes[chosen], np.full(n_rows, 1 / n_rows))


def _listed(
    terms: PureLeafTerms, samples: Sequence[Points], sizes: _LazySizes, clock: Clock, *, n_jobs: int, progress: Progress
) -> tuple[PureLeafTerms, Screened, list[str]]:
    """All terms where the layout lists them, else those that carry weight, with all others of an order added up.

    Last, what was skipped for lack of time.
    """
    layout, sets = terms.trees.layout, terms.trees.leaf_sets
    orders = range(layout.tensor_order + 1, layout.row_order + 1)
    skipped: list[str] = []
    if layout.lists_all:
        screened = Screened(tuple(sets.subsets(orders)), (), 0, 0.0)
    else:
        shares = functools.partial(_shares_at_rows, terms, samples, n_jobs)
        work = functools.partial(_leaves_and_outputs, sets)
        asked, n_terms = layout.asked, sizes.found.n_terms
        try:
            with reporting(clock.stopping(progress)):
                seconds = clock.left / 2
                screened = screen(
                    sizes.found.by_key, orders, work, shares, asked=asked, seconds=seconds, n_terms=n_terms
                )
        except OutOfTime:
            screened = screen({}, orders, work, shares, asked=asked, n_terms=n_terms)
            skipped = [_NOT_SEARCHED]
        if clock.is_limited and not sizes.found.by_key:
            skipped = [_NOT_SEARCHED]
    return dataclasses.replace(terms, keys=screened.keys, screened_orders=screened.rest_orders), screened, skipped


def _leaves_and_outputs(sets: LeafSets, key: Key) -> int:
    """Leaves of a term, more where leaves have several outputs: what its values at a row take."""
    return int(sets.n_leaves_with(key) * (3 + sets.outputs_per_leaf) / 4)


def _shares_at_rows(
    terms: PureLeafTerms, samples: Sequence[Points], n_jobs: int, keys: Sequence[Key], n_rows: int
) -> Floats:
    """Mean square of terms at rows over the variance of the score there, the largest of all samples and outputs."""
    shares = np.zeros(len(keys))
    rng = np.random.default_rng(0)
    for sample in samples:
        codes = rng.permutation(sample.codes)[: max(n_rows // len(samples), 1)]
        score = terms.trees.forest.score(Rows.in_bins(terms.trees.grid, codes)).var(axis=0)
        squares = np.square(terms.at(codes, keys, n_jobs)).mean(axis=0)
        of_sample = np.divide(squares, score, out=np.zeros_like(squares), where=score > 0).max(axis=1)
        shares = np.maximum(shares, of_sample)
    return shares


def _certificate(terms: PureLeafTerms, *, is_exact: bool) -> HigherCertificate:
    layout, correction = terms.trees.layout, terms.correction
    bins = {
        order: max(binning.coarser_size(max_bins) for binning in correction.binnings)
        for order, max_bins in correction.bins.items()
    }
    return HigherCertificate(
        orders=(layout.tensor_order + 1, layout.top_order),
        n_terms=len(terms.keys),
        n_corrected=len(correction.tables),
        impurity=correction.impurity,
        bins=bins,
        refinement=0.0,
        is_exact=is_exact,
    )


def _sizes_at_rows(terms: PureLeafTerms, codes: BinIndices, keys: Sequence[Key], n_jobs: int) -> Floats:
    """Root mean square of terms at some rows: under dependence it may be far from that for independent features."""
    n_rows = int(np.clip(costs.SIZE_STEPS / terms.trees.row_cost, *costs.SIZE_ROWS))
    values = terms.at(codes[:: max(1, len(codes) // n_rows)], keys, n_jobs)
    sizes: Floats = np.sqrt(np.square(values).mean(axis=0)).max(axis=1)
    return sizes


def _correctable(terms: PureLeafTerms, sizes: _LazySizes) -> list[Key]:
    """Terms of high order to correct for dependence: those that hold nearly all of the size, in a reasonable time."""
    layout = terms.trees.layout
    limit = costs.MAX_CORRECTED if layout.has_many_terms else costs.MAX_CORRECTED_OF_FEW
    n_outputs = terms.trees.leaf_sets.values.shape[1]
    lowest, limit = layout.tensor_order + 1, max(limit // n_outputs, 1)
    return largest_with_subsets(sizes.found.by_key, lowest, limit, share=costs.CORRECTED_SHARE, total=sizes.found.total)


class _Corrected(NamedTuple):
    """Corrected terms, how much half the bins would change what goes to tensors, that correction, what was skipped."""

    terms: PureLeafTerms
    refinement: float = 0.0
    rough: Correction | None = None
    skipped: Sequence[str] = ()


def _corrected(
    terms: PureLeafTerms,
    density: Density,
    rows: Points,
    sizes: _LazySizes,
    clock: Clock,
    *,
    n_jobs: int,
    progress: Progress,
) -> _Corrected:
    """The terms with their correction, and that with half the bins.

    With a limit of time, fewer terms are corrected, none where even these take too long, and half the bins are tried
    only if half of the time is left.
    """
    form, trees = terms.form, terms.trees
    with one_step(progress, "choosing terms of high orders"):
        every = _correctable(terms, sizes)
        keys = _in_time(form, every, sizes, clock)
        are_cells, are_drawn = density.statistics is None, density.smooths_rows
        bins = choose_bins(form, keys, rows, are_cells=are_cells, are_drawn=are_drawn)
    skipped = [f"the correction of {len(every) - len(keys):,} terms"] if len(keys) < len(every) else []
    if clock.is_limited and not every:
        skipped = ["the correction of all terms"]
    if not keys:
        return _Corrected(terms, float("nan"), None, skipped)
    start, stopping = clock.left, clock.part(costs.SHARE_TO_CORRECT).stopping(progress)
    unsampled = _Unsampled(density, trees.grid)
    try:
        means = coarse_means(form, keys, bins, n_jobs, stopping)
        stage = functools.partial(stopping, "high orders")
        fine = correct(means, keys, rows, bins, advance=stage, unsampled=unsampled)
    except OutOfTime:
        return _Corrected(terms, float("nan"), None, [f"the correction of {len(every):,} terms"])
    terms = dataclasses.replace(terms, correction=fine)
    half = {order: max(max(b.coarser_size(n) for b in means.binnings) // 2, 1) for order, n in bins.items()}
    trial = clock.part(1.0, start / 2)  # none where less than half of the time is left
    try:
        stage = functools.partial(trial.stopping(progress), "high orders, half the bins")
        rough = correct(means, keys, rows, half, advance=stage, unsampled=unsampled)
    except OutOfTime:
        return _Corrected(terms, float("nan"), None, [*skipped, "a trial with half the bins"])
    score = trees.forest.score(Rows.in_bins(trees.grid, rows.codes[:: max(1, len(rows.codes) // costs.SCALE_ROWS)]))
    return _Corrected(terms, _change(fine, rough, rows, float(score.std(axis=0).max())), rough, skipped)


@dataclasses.dataclass(frozen=True, eq=False)
class _Unsampled:
    """What all rows of a density add to the shares of a sample of them; nothing where all rows are known."""

    density: Density
    grid: Grid

    def __call__(self, requests: Sequence[Request]) -> dict[Key, Floats]:
        """For each table all rows minus the sample, in one pass over the rows."""
        changes: dict[Key, Floats] = {}
        for share, statistics in self._sampled:
            statistics.prepare(requests)
            for key, binnings in requests:
                counts = statistics.counts(key, binnings, may_estimate=True)
                change = share * (counts - statistics.sampled_counts(key, binnings))
                changes[key] = changes[key] + change if key in changes else change
        return changes

    @functools.cached_property
    def _sampled(self) -> list[tuple[float, Statistics]]:
        parts = (
            (share, joint) for share, joint in self.density.joint.components() if isinstance(joint, EmpiricalJoint)
        )
        return [(share, joint.statistics.on(self.grid)) for share, joint in parts if not joint.has_exact_points]


def _in_time(form: ClosedForm, keys: Sequence[Key], sizes: _LazySizes, clock: Clock) -> list[Key]:
    """Those of some terms, with their subsets, that can be corrected in half of the time that is left."""
    per_leaf = costs.SECONDS_PER_CORRECTED_LEAF * form.leaf_sets.values.shape[1]
    seconds = sum(costs.SECONDS_PER_CORRECTED_TERM + per_leaf * form.leaf_sets.n_leaves_with(key) for key in keys)
    if not clock.is_limited or seconds <= clock.left / 2:
        return list(keys)
    limit = int(len(keys) * clock.left / 2 / seconds)
    lowest = min(map(len, keys))
    known = {key: sizes.found.by_key.get(key, 0.0) for key in keys}
    chosen = largest_with_subsets(known, lowest, limit) if limit else []
    return chosen if len(chosen) <= limit else []


def _change(fine: Correction, rough: Correction, rows: Points, scale: float) -> float:
    """Largest root mean square difference of what two corrections move to one term, over rows, relative to a scale."""
    worst = 0.0
    for key, values in fine.moved.items():
        cells = tuple(fine.binnings[j].bins[rows.codes[:, j]] for j in key)
        worst = max(worst, float(np.sqrt(rows.weights @ (values - rough.moved[key])[cells] ** 2).max()))
    return worst / scale if scale > 0 else 0.0


def _measured_purity(
    terms: PureLeafTerms, density: Density, rows: Points, shares: Mapping[Key, float], clock: Clock, *, n_jobs: int
) -> tuple[float, int]:
    """Largest slice mean of the largest terms at rows, relative to the term, and the number of terms measured.

    The slices are of fresh rows where the density is drawn from; `rows` and `shares`, those of terms that were verified
    at rows, tell which terms are the largest.
    """
    if all(key in shares for key in terms.keys):
        sizes = np.array([shares[key] for key in terms.keys])
    else:
        sizes = _sizes_at_rows(terms, rows.codes, terms.keys, n_jobs)
    keys = [terms.keys[i] for i in _largest(sizes, [len(key) for key in terms.keys])]
    keys = _affordable(keys, sizes, terms, clock)
    points, is_part = _some_points(terms, density, keys)
    values = terms.at(points.codes, keys, n_jobs)
    binnings = coarse_binnings(terms.form)
    coarse = [b.coarser(costs.MEASURED_BINS)[points.codes[:, j]] for j, b in enumerate(binnings)]
    cells = [np.stack([coarse[j] for j in key], axis=1) for key in keys]
    are_drawn = is_part or not density.joint.has_exact_points
    impurities = [slice_impurity(values[:, i], c, points.weights, are_drawn=are_drawn) for i, c in enumerate(cells)]
    return max(impurities), len(keys)


def _affordable(keys: Sequence[Key], sizes: Floats, terms: PureLeafTerms, clock: Clock) -> list[Key]:
    """The largest of some terms that can be measured in a reasonable time, at least one."""
    size_of = dict(zip(terms.keys, sizes, strict=True))
    ranked = sorted(keys, key=lambda key: -size_of[key])
    steps = np.cumsum([_leaves_and_outputs(terms.trees.leaf_sets, key) * costs.MEASURED_ROWS[0] for key in ranked])
    most = min(costs.MAX_MEASURED_STEPS, clock.left * costs.MEASURED_STEPS_PER_SECOND)
    n_keys = int(np.count_nonzero(steps <= most))
    if clock.is_limited and not n_keys:
        raise OutOfTime
    return ranked[: max(1, n_keys)]


def _some_points(terms: PureLeafTerms, density: Density, keys: Sequence[Key]) -> tuple[Points, bool]:
    """As many points as some terms can be evaluated at in a reasonable time, and whether these are not all."""
    n_leaves = sum(terms.trees.leaf_sets.n_leaves_with(key) for key in keys)
    n_rows = int(np.clip(costs.MEASURED_STEPS / max(n_leaves, 1), *costs.MEASURED_ROWS))
    rng = np.random.default_rng(1)
    codes, weights = points = terms.trees.points(density, n_rows, rng)
    if len(codes) <= n_rows:
        return points, False
    chosen = rng.choice(len(codes), size=n_rows, p=weights / weights.sum())
    return Points(codes[chosen], np.full(n_rows, 1 / n_rows)), True


def _largest(sizes: Floats, orders: Sequence[int]) -> list[int]:
    """Positions of the largest terms: of all, and of each order."""
    ranked = [int(i) for i in np.argsort(-sizes, kind="stable")]
    chosen = ranked[: costs.MEASURED_TERMS]
    for order in sorted(set(orders)):
        chosen += [i for i in ranked if orders[i] == order][: costs.MEASURED_TERMS_OF_ORDER]
    return sorted(set(chosen))


def _low_orders(terms: PureLeafTerms, n_jobs: int, progress: Progress) -> Effects:
    """Low orders in closed form, with what is moved to them from high orders."""
    trees = terms.trees
    keys = trees.leaf_sets.subsets(range(1, trees.layout.tensor_order + 1))

    def tensor(key: Key) -> Floats:
        bins = trees.first_bins(key)
        table = terms.form.tensor(key)
        table += terms.correction.spread(key, bins)
        table += terms.leftover.spread(key, bins)
        return table

    with ThreadPoolExecutor(n_jobs) as pool:
        made = counted(progress, "low orders", pool.map(tensor, keys), len(keys))
        tensors = dict(zip(keys, made, strict=True))
    return Effects(trees.tensor_grid, terms.form.intercept + terms.leftover.spread((), []), tensors)


def _can_find_leftover(low: Effects, rows: Points, clock: Clock) -> bool:
    """Whether tables can be compared with terms that are not listed in a share of the time that is left."""
    per_table, per_value = costs.SECONDS_PER_LEFTOVER
    seconds = len(low.terms) * (per_table + per_value * len(rows.codes) * len(low.intercept))
    return not clock.is_limited or seconds <= costs.SHARE_FOR_LEFTOVER * clock.left


def _without_low_orders(terms: PureLeafTerms, low: Effects, rows: Points) -> tuple[PureLeafTerms, Effects]:
    """The terms and the tables with what the former still hold of the latter's orders moved."""
    trees = terms.trees
    score = trees.forest.score(Rows.in_bins(trees.grid, rows.codes))
    high = score - low.score(Rows.in_bins(low.grid, trees.merged(rows.codes)))
    leftover = find_leftover(terms.form, tuple(filter(terms.can_give_up, low.terms)), rows, high)
    moved = {
        key: table + leftover.spread(key, trees.first_bins(key)) if key in leftover.tables else table
        for key, table in low.terms.items()
    }
    return dataclasses.replace(terms, leftover=leftover), dataclasses.replace(low, terms=moved)


def source_of_forest(forest: Forest, sets: LeafSets, layout: TermLayout, statistics: Statistics | None) -> Source:
    """A sum of tensors where these hold the whole forest, else trees with tensors of low orders only."""
    if layout.is_dense:
        return AdditiveModel(Tensors(without_rounding(expand(sets), forest.rounding)))
    return TreeModel(lay_out(forest, sets, layout, statistics))


SOURCES: dict[str, type[Source]] = {kind.tag: kind for kind in (AdditiveModel, TreeModel)}
