"""What is measured on the terms of a deep model: means, errors of tables, purity at rows.

**Mean of the score.** Under rows it is the mean of their scores. A smooth density is a weighted sum of products: given
a row, each feature moves independently, so a leaf has the mass Σ_rows w Π_j P(bin of j in its set | row).

**Errors of tables.** Dependence moves effects from high orders to tables on coarse bins, so tables can be pure and
still differ from those of an exact decomposition. Two numbers estimate by how much: the change of the tables if the
number of bins is halved; means of the sum of high orders over the cells of a table, at rows of the density, less the
noise of draws. Both are purified like the tables, on at most 4,096 cells per table, and their largest entries are
added. This is an estimate, not a bound: the tests compare it with exact decompositions.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.anova.cascade import cascade
from treeanova.anova.solvers.base import Options
from treeanova.anova.support import largest, safe_inverse, slice_impurity
from treeanova.core.arrays import BinIndices, Floats, Ints, Key
from treeanova.core.progress import Clock, OutOfTime
from treeanova.density.base import Blocks, Density, EmpiricalJoint, Joint, Mixture, Points, Product
from treeanova.density.counting import Counting, Request
from treeanova.density.smooth.kernel import FLOOR, KernelJoint
from treeanova.model.grid import Binning, binning_by, equal_mass
from treeanova.model.rows import Rows
from treeanova.terms import costs, kernels
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.coarse import coarse_binnings
from treeanova.terms.correction import Correction, cells_of_rows
from treeanova.terms.layout import Trees, some_of
from treeanova.terms.leaves import LeafSets
from treeanova.terms.terms import PureLeafTerms, TermSet


def mean_score(trees: Trees, joint: Joint) -> Floats | None:
    """Return the forest's mean score under a density, (n_outputs,); None without the rows, or if it takes too long."""
    if isinstance(joint, Mixture):
        means = [mean_score(trees, component) for _, component in joint.components()]
        shares = [share for share, _ in joint.components()]
        scores = [mean for mean in means if mean is not None]
        return None if len(scores) < len(means) else np.asarray(sum(s * m for s, m in zip(shares, scores, strict=True)))
    if isinstance(joint, EmpiricalJoint):
        return _mean_at_rows(trees, joint)
    masses = _leaf_masses(trees, joint, range(len(trees.binnings)))
    return None if masses is None else trees.leaf_sets.forest.intercept + masses @ trees.leaf_sets.values


def mean_of_tables(tables: TermSet, density: Density) -> Floats:
    """Return the mean of the sum of pure tables under the joint density: zero unless pairs are estimated separately."""
    # Each pair is pure under its own table of weights, so its mean is minus that under the difference to the joint's.
    mean = np.zeros(tables.n_outputs)
    for key, values in tables.effects.terms.items():
        difference = density.difference(key, tables.effects.binnings.get(key)) if len(key) == 2 else None
        if difference is not None:
            mean -= np.tensordot(difference, values, axes=len(key))
    return mean


def _mean_at_rows(trees: Trees, joint: EmpiricalJoint) -> Floats | None:
    """Return the mean score of all rows, in another pass over them if not all are in memory."""
    statistics = joint.statistics.on(trees.grid)
    if statistics.n_rows * trees.forest.n_trees > costs.MEAN_STEPS:
        return None
    if joint.has_exact_points:
        codes, weights = statistics.points()
        return np.asarray(weights @ trees.forest.score(Rows.in_bins(trees.grid, codes)))
    if statistics.source is None:
        return None
    counting = Counting(trees.grid, [Request((0,))], score=trees.forest.score, describes_features=False)
    counted = statistics.source.count(counting)
    return np.asarray(counted.scores[0].sum(axis=0) / counted.totals.weight)


def _leaf_masses(trees: Trees, joint: Joint, features: Sequence[int]) -> Floats | None:
    """Return the mass of each leaf's sets for some features under their joint density; None if that takes too long."""
    if isinstance(joint, Product):
        return _product_masses(trees, joint.masses, features)
    if isinstance(joint, Blocks):
        factors = [_block_masses(trees, table, [features[i] for i in places]) for places, table in joint.blocks]
        arrays = [factor for factor in factors if factor is not None]
        return None if len(arrays) < len(factors) else np.prod(arrays, axis=0)
    if isinstance(joint, KernelJoint):
        masses = _kernel_masses(trees, joint, features)
        independent = _product_masses(trees, [margin.masses for margin in joint.margins], features)
        return None if masses is None else (1 - FLOOR) * masses + FLOOR * independent
    return None


def _block_masses(trees: Trees, table: Floats, features: Sequence[int]) -> Floats | None:
    """Return the mass of each leaf's sets for features with one table of weights; None if that takes too long."""
    block = Blocks([(tuple(range(table.ndim)), table)])
    if not block.has_exact_points:
        return None
    points = block.points(0, np.random.default_rng(0))
    if not _are_quick(trees.leaf_sets, features, len(points.codes)):
        return None
    shares = {j: trees.leaf_sets.sets[j].merged_shares(trees.binnings[j]) for j in features}
    return _masses_at_points(trees.leaf_sets, points, shares)


def _product_masses(trees: Trees, masses: Sequence[Floats], features: Sequence[int]) -> Floats:
    """Return the mass of each leaf's sets for independent features with given masses of their merged bins."""
    product = np.ones(len(trees.leaf_sets.values))
    for j, bin_masses in zip(features, masses, strict=True):
        binning, sets = trees.binnings[j], trees.leaf_sets.sets[j]
        product[sets.leaves] *= sets.mass(bin_masses[binning.bins] * binning.shares)
    return product


def _kernel_masses(trees: Trees, joint: KernelJoint, features: Sequence[int]) -> Floats | None:
    """Return the mass of each leaf's sets under a mixture of kernels, one per row; None if that takes too long."""
    # A row counts by the group of its bin; the kernel of a group puts a share of its mass into the set of a leaf.
    bins, weights = joint.statistics.points()
    codes = np.zeros_like(bins)
    for column, (margin, kernel) in enumerate(zip(joint.margins, joint.kernels, strict=True)):
        if kernel is not None:
            codes[:, column] = margin.groups[bins[:, column]]
    distinct, places = np.unique(codes, axis=0, return_inverse=True)
    if not _are_quick(trees.leaf_sets, features, len(distinct)):
        return None
    shares = []
    for j, margin, kernel in zip(features, joint.margins, joint.kernels, strict=True):
        binning = trees.binnings[j]
        groups = binning_by(margin.groups[binning.bins], margin.masses[binning.bins] * binning.shares)
        group_masses = trees.leaf_sets.sets[j].merged_shares(groups) * margin.group_masses
        shares.append(group_masses.sum(axis=1, keepdims=True) if kernel is None else kernel.right(group_masses))
    masses = np.bincount(places.ravel(), weights).astype(np.float64)
    return _masses_at_points(trees.leaf_sets, Points(distinct, masses), dict(zip(features, shares, strict=True)))


def _n_factors(sets: LeafSets, features: Collection[int]) -> int:
    """Return the number of leaves with each of some features on their path, added up."""
    counts = (
        len(leaves) * len(set(key).intersection(features))
        for key, leaves in zip(sets.keys, sets.leaves_by_key, strict=True)
    )
    return sum(counts)


def _are_quick(sets: LeafSets, features: Sequence[int], n_points: int) -> bool:
    """Whether the masses of all leaves are summed over so many points; their shares take memory, so ask before."""
    return _n_factors(sets, features) * n_points <= costs.MEAN_PRODUCTS


def _masses_at_points(sets: LeafSets, points: Points, shares: Mapping[int, Floats]) -> Floats:
    """Return, per leaf, Σ over points of weight times the shares of all features on its path."""
    # `shares` has, per feature in the order of the points' columns, what share of a point with each code lies in each
    # leaf's set, (n_leaves_with_feature, n_codes). Leaves with the same features are summed together.
    column_of = {j: column for column, j in enumerate(shares)}
    features_of_keys = [[j for j in key if j in column_of] for key in sets.keys]
    masses = np.full(len(sets.values), math.fsum(points.weights))
    sum_at_points = (
        _sum_compiled if costs.is_compiled(factors=_n_factors(sets, shares) * len(points.codes)) else _sum_by_numpy
    )
    for leaves, features in zip(sets.leaves_by_key, features_of_keys, strict=True):
        if features:
            tables = [shares[j][sets.set_indices(j, leaves)] for j in features]
            masses[leaves] = sum_at_points(points.codes[:, [column_of[j] for j in features]], points.weights, tables)
    return masses


def _sum_compiled(codes: BinIndices, weights: Floats, tables: Sequence[Floats]) -> Floats:
    """Return, per leaf, the sum over weighted points of Π_j tables[j][leaf, codes[point, j]], by compiled code."""
    widths = [table.shape[1] for table in tables]
    below_each_other = np.concatenate([table.T for table in tables])
    return np.asarray(kernels.sum_at_points(codes, weights, np.cumsum([0, *widths]), below_each_other))


def _sum_by_numpy(codes: BinIndices, weights: Floats, tables: Sequence[Floats]) -> Floats:
    """Return, per leaf, the sum over weighted points of Π_j tables[j][leaf, codes[point, j]], some leaves at a time."""
    sums, leaves_at_once = np.empty(len(tables[0])), max(costs.MEAN_CELLS // max(len(codes), 1), 1)
    for start in range(0, len(sums), leaves_at_once):
        leaves, product = slice(start, start + leaves_at_once), weights
        for table, column in zip(tables, codes.T, strict=True):
            product = product * table[leaves, column]
        sums[leaves] = product.sum(axis=1)
    return sums


def cell_means(
    form: ClosedForm, keys: Sequence[Key], rows: Points, values: Floats, limit: int, *, are_drawn: bool
) -> tuple[tuple[Binning, ...], dict[Key, Floats]]:
    """Return merged bins of all features, at most `limit` each, and means of values at rows in the cells of keys."""
    # Values (n_rows, n_outputs) are centred first. Means are shrunk by their noise if rows are drawn, 0 in empty cells.
    axes = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    binnings = tuple(equal_mass(axis, masses, limit) for axis, masses in axes)
    means, weights = {}, rows.weights
    centred = values - weights @ values
    for key in keys[: max(int(costs.LEFTOVER_STEPS / max(values.size, 1)), 1)]:
        cells = cells_of_rows(binnings, key, rows, limit)
        flat_means = cells.shrunk_means(centred, weights, 0.0)[0] if are_drawn else cells.means(centred, weights)
        means[key] = flat_means.reshape(*cells.shape, -1)
    return binnings, means


class HighOrdersAtRows(NamedTuple):
    """Scores and sums of high orders at rows of the density, shape (n_rows, n_outputs)."""

    rows: Points
    score: Floats
    high: Floats
    are_drawn: bool

    @property
    def mean(self) -> Floats:
        return np.asarray(self.rows.weights @ self.high)

    @property
    def mean_error(self) -> float:
        """Standard error of the mean over the standard deviation of the score; the largest of all outputs."""
        weights, spread = self.rows.weights, self.score.std(axis=0)
        error = np.sqrt(weights @ (self.high - self.mean) ** 2 * np.square(weights).sum())
        return float(np.divide(error, spread, out=np.zeros_like(error), where=spread > 0).max())


def high_orders_at(trees: Trees, tables: TermSet, density: Density, rows: Points) -> HighOrdersAtRows:
    """Return the sum of high orders, which is the score minus the tables, at as many rows as can be scored soon."""
    scored = trees.scored_soon(rows)
    score = trees.forest.score(Rows.in_bins(trees.grid, scored.codes))
    high = score - tables.effects.score(Rows.in_bins(tables.effects.grid, trees.merged(scored.codes)))
    return HighOrdersAtRows(scored, score, high, scored is not rows or not density.joint.has_exact_points)


def table_error(terms: PureLeafTerms, rough: Correction | None, tables: TermSet, at_rows: HighOrdersAtRows) -> float:
    """Estimate the largest error of a table, relative to the largest score, as the module's docstring says."""
    fine, rows, high, are_drawn = terms.correction, at_rows.rows, at_rows.high, at_rows.are_drawn
    if fine.tables and rough is None:  # without a correction on half the bins
        return float("nan")
    moved = {} if rough is None else {key: values - rough.moved[key] for key, values in fine.moved.items()}
    order = max(map(len, tables.effects.terms), default=0)
    widest = [key for key in tables.effects.terms if len(key) == order]  # means over their cells include the others'
    keys = sorted(widest, key=terms.form.leaf_sets.n_leaves_with, reverse=True)[: costs.ERROR_TABLES]
    limit = int(costs.ERROR_CELLS ** (1 / max(order, 1)) + 1e-9)
    binnings, means = cell_means(terms.form, keys, rows, high, limit, are_drawn=are_drawn)
    moved_bins, means_bins = ([binning.bins for binning in some] for some in (fine.binnings, binnings))
    sizes = [_pure_sizes(*changes, terms.trees, tables) for changes in ((moved, moved_bins), (means, means_bins))]
    largest_parts = [float((size * safe_inverse(np.abs(at_rows.score).max(axis=0))).max()) for size in sizes]
    return (costs.DRAWN_FACTOR if are_drawn else 1.0) * sum(largest_parts)


def _pure_sizes(changes: Mapping[Key, Floats], bins: Sequence[Ints], trees: Trees, tables: TermSet) -> Floats:
    """Return, per output, the largest entry of changes of tables on coarse bins, once purified like the tables."""
    # `bins` has, per feature, the coarse bin of each bin of the forest.
    if not changes:
        return np.zeros(tables.n_outputs)
    firsts = trees.first_bins(tuple(range(len(bins))))
    bins_of_tables = [coarse_bins[first] for coarse_bins, first in zip(bins, firsts, strict=True)]
    merged, used_bins = list(map(binning_by, bins_of_tables)), list(map(np.unique, bins_of_tables))
    used_cells = {key: values[np.ix_(*(used_bins[j] for j in key))] for key, values in changes.items()}
    raw = {key: np.ascontiguousarray(np.moveaxis(values, -1, 0)) for key, values in used_cells.items()}

    def pooled_weights(key: Key) -> Floats:
        weights = tables.weights[key]
        for axis, j in enumerate(key):
            weights = merged[j].pool(weights, axis)
        return weights

    return np.max([largest(values) for values in cascade(raw, pooled_weights, Options()).terms.values()], axis=0)


def measured_purity(
    terms: PureLeafTerms, density: Density, rows: Points, shares: Mapping[Key, float], clock: Clock, *, n_jobs: int
) -> tuple[float, int]:
    """Return the largest slice mean relative to its term, and the number of terms measured; `shares` rank them."""
    if all(key in shares for key in terms.keys):
        sizes = np.array([shares[key] for key in terms.keys])
    else:
        # At rows: under dependence, sizes may be far from the closed form.
        n_rows = int(np.clip(costs.SIZE_STEPS / terms.trees.row_cost, *costs.SIZE_ROWS))
        values = terms.at(rows.codes[:: max(1, len(rows.codes) // n_rows)], terms.keys, n_jobs)
        sizes = np.sqrt(np.square(values).mean(axis=0)).max(axis=1)
    keys = [terms.keys[i] for i in _places_of_largest(sizes, [len(key) for key in terms.keys])]
    keys = _measured_in_time(keys, sizes, terms, clock)
    n_leaves = sum(terms.trees.leaf_sets.n_leaves_with(key) for key in keys)
    n_rows = int(np.clip(costs.MEASURED_STEPS / max(n_leaves, 1), *costs.MEASURED_ROWS))
    rng = np.random.default_rng(1)
    all_points = terms.trees.points(density, n_rows, rng)
    points = some_of(all_points, n_rows, rng)
    values = terms.at(points.codes, keys, n_jobs)
    binnings = coarse_binnings(terms.form)
    coarse = [b.coarser(costs.MEASURED_BINS)[points.codes[:, j]] for j, b in enumerate(binnings)]
    cells = [np.stack([coarse[j] for j in key], axis=1) for key in keys]
    are_drawn = points is not all_points or not density.joint.has_exact_points
    impurities = [slice_impurity(values[:, i], c, points.weights, are_drawn=are_drawn) for i, c in enumerate(cells)]
    return max(impurities), len(keys)


def _measured_in_time(keys: Sequence[Key], sizes: Floats, terms: PureLeafTerms, clock: Clock) -> list[Key]:
    """Return the largest of some terms that can be evaluated at rows in the time left; `sizes` are those of all."""
    size_of = dict(zip(terms.keys, sizes, strict=True))
    ranked = sorted(keys, key=lambda key: -size_of[key])
    steps = np.cumsum([terms.trees.leaf_sets.cost_at_row(key) * costs.MEASURED_ROWS[0] for key in ranked])
    most = min(costs.MAX_MEASURED_STEPS, clock.left * costs.MEASURED_STEPS_PER_SECOND)
    n_keys = int(np.count_nonzero(steps <= most))
    if clock.is_limited and not n_keys:
        raise OutOfTime
    return ranked[: max(1, n_keys)]


def _places_of_largest(sizes: Floats, orders: Sequence[int]) -> list[int]:
    """Return the positions, sorted, of the largest terms of all and of each order, by sizes and orders of terms."""
    ranked = [int(i) for i in np.argsort(-sizes, kind="stable")]
    places = ranked[: costs.MEASURED_TERMS]
    for order in sorted(set(orders)):
        places += [i for i in ranked if orders[i] == order][: costs.MEASURED_TERMS_OF_ORDER]
    return sorted(set(places))
