"""Certificates of decompositions: purity of terms, sum of terms, share of the remainder."""

from __future__ import annotations

import dataclasses
import warnings
from collections.abc import Callable, Mapping, Sequence

import numpy as np
from scipy.special import gammaln

from treeanova.anova.cascade import measure
from treeanova.anova.certificate import (
    Certificate,
    HigherCertificate,
    TermCertificate,
    impurity,
    sentence_of_aliases,
)
from treeanova.anova.purify import report_impurity
from treeanova.anova.solvers.base import Options, Solution
from treeanova.anova.support import largest
from treeanova.core.arrays import BinIndices, Floats, Key, Names
from treeanova.core.progress import Clock
from treeanova.decomposition.function import Function
from treeanova.density.base import Density
from treeanova.density.statistics import NoRowsError, Statistics
from treeanova.errors import AliasWarning
from treeanova.model.grid import Grid, binning_by
from treeanova.model.rows import Rows
from treeanova.terms.layout import some_of
from treeanova.terms.measuring import mean_of_tables
from treeanova.terms.moments import moments_of_values
from treeanova.terms.source import PureTerms
from treeanova.terms.terms import TermSet

_COMPARED_ROWS = 1000
_CHECKED_ROWS = 10, 60
_REMAINDER_ROWS = 40, 2_000
_ALIAS_ROWS = 1000
_WAYS = 1e6  # to divide the rows: what fewer allow may be chance
_STEPS = 2.0**29  # products of all terms at rows
_STEPS_PER_SECOND = 1e8
_ROUNDING = 1e-12  # of the largest table, below which a table is rounding

Score = Callable[[Rows], Floats]


def certify(
    function: Function, pure: PureTerms, density: Density, options: Options, oracle: Score | None, *, clock: Clock
) -> Certificate:
    """Return the certificate of pure terms; warn if a table is not pure to the tolerance."""
    # The sum of terms is compared with the scores of `oracle`, such as trees walked node by node, or of the source.
    steps = min(_STEPS, clock.left * _STEPS_PER_SECOND)
    names, statistics = function.grid.schema.names, density.statistics
    n_sampled = len(statistics.sample) if statistics is not None and statistics.is_estimated else None
    measured = {tuple(names[j] for j in key): pure.measured[key] for key in pure.terms.effects.terms}
    certificate = Certificate(
        measured,
        _reconstruction_error(function, statistics, oracle, steps),
        options.tol,
        higher=pure.higher,
        density_gap=_density_gap(pure, density),
        remainder_share=remainder_share(function, density, steps),
        marginal_gap=0.0 if density.is_consistent else _marginal_gap(pure.terms),
        sampled_rows=n_sampled,
        aliases=_aliases(function.grid, density),
        mean_gap=_mean_gap(function, pure, density),
    )
    if not certificate.tables_are_pure:
        report_impurity(certificate, strict=False)
    if certificate.aliases:
        sentences = ". ".join(sentence_of_aliases(group) for group in certificate.aliases)
        warnings.warn(f"{sentences}.", AliasWarning, stacklevel=2)
    return certificate


def _aliases(grid: Grid, density: Density) -> tuple[Names, ...]:
    """Return names of features, in groups, that determine each other in the rows; none if independent by definition."""
    # They do so by their values or, under densities that do not smooth rows, by the model's bins.
    statistics = density.statistics
    if statistics is None or not len(statistics.sample):
        return ()
    varied = [j for j, size in enumerate(grid.sizes) if size > 1]
    groups = [varied]
    for n_rows in (_ALIAS_ROWS, len(statistics.sample)):
        values, _ = statistics.rows(n_rows)
        tables: list[Floats | BinIndices] = [values]
        if not density.smooths_rows:
            tables.append(grid.index(Rows(values)))
        groups = [group for candidates in groups for group in _groups_determining_each_other(tables, candidates)]
    if not groups or density.is_product:  # whose kernels take time, so ask last
        return ()
    names = grid.schema.names
    return tuple(tuple(names[j] for j in group) for group in groups)


def _groups_determining_each_other(tables: Sequence[Floats | BinIndices], features: Sequence[int]) -> list[list[int]]:
    """Group features (positions) that divide the rows alike in one of the tables (n_rows, n_features)."""
    groups: list[list[int]] = []
    group_of_mark: dict[bytes, list[int]] = {}
    for j in features:
        marks = [mark for table in tables if (mark := _mark_of_division(table[:, j])) is not None]
        group = next((group_of_mark[mark] for mark in marks if mark in group_of_mark), None)
        if group is None:
            groups.append(group := [])
        group.append(j)
        group_of_mark |= dict.fromkeys(marks, group)
    return [group for group in groups if len(group) > 1]


def _mark_of_division(column: Floats | BinIndices) -> bytes | None:
    """Return bytes that say how a column divides the rows, equal for all columns that determine each other."""
    # If most values are distinct, any two columns determine each other; these count only if their order is the same or
    # reversed. None if columns would divide the rows alike by chance: very few rows, or nearly all values the same.
    _, first, ranks, counts = np.unique(column, return_index=True, return_inverse=True, return_counts=True)
    ranks, is_order = ranks.ravel(), 2 * len(counts) > len(column)
    n_alike = 2 if is_order else len(counts)  # classes that may be exchanged: both directions, or all values
    log_ways = gammaln(len(column) + 1) - gammaln(counts + 1).sum() - gammaln(n_alike + 1)
    if log_ways < np.log(_WAYS):
        return None
    if is_order:
        return b"order" + min(ranks.tobytes(), (len(counts) - 1 - ranks).tobytes())
    return first[ranks].tobytes()  # for each row, the first row of equal value


def _density_gap(pure: PureTerms, density: Density) -> float:
    """Return the largest gap between tables of pairs and the joint density, if terms of higher order use the latter."""
    effects = pure.terms.effects
    pairs = [key for key in effects.terms if len(key) == 2] if _uses_joint(pure) else []
    return max((density.gap(key, effects.binnings.get(key)) for key in pairs), default=0.0)


def _mean_gap(function: Function, pure: PureTerms, density: Density) -> float:
    """Return how much the mean score under the joint density differs from the intercept, in standard deviations."""
    statistics = density.statistics
    if statistics is None or not len(statistics.sample) or not _uses_joint(pure):
        return 0.0
    spread = function.score(Rows(statistics.rows(_COMPARED_ROWS)[0])).std(axis=0)
    gap = np.abs(mean_of_tables(pure.terms, density))
    return float(np.divide(gap, spread, out=np.zeros_like(gap), where=spread > 0).max())


def _uses_joint(pure: PureTerms) -> bool:
    """Whether some term is pure under the joint density rather than a table of one or two features."""
    return pure.higher is not None or max(map(len, pure.terms.effects.terms), default=0) > 2


def _marginal_gap(terms: TermSet) -> float:
    """Return the largest mass by which a feature's marginals differ between the weights of terms."""
    gaps = [0.0]
    for key, weights in terms.weights.items():
        for axis, (j, binning) in enumerate(zip(key, terms.effects.binnings_of(key), strict=True)):
            if (j,) in terms.weights:
                [main_binning] = terms.effects.binnings_of((j,))
                main = binning_by(binning.within(main_binning)).pool(terms.weights[j,])
                summed_axes = tuple(i for i in range(len(key)) if i != axis)
                gaps.append(float(np.abs(weights.sum(axis=summed_axes) - main).sum()) / 2)
    return max(gaps)


def _reconstruction_error(
    function: Function, statistics: Statistics | None, oracle: Score | None, steps: float
) -> float:
    """Return the largest difference between sum of terms and model at rows, relative to the largest score."""
    # `steps` limits the rows. It is absolute if the score is zero up to rounding, such as the difference of two equal
    # models. The scores of the source are compared too: remainders are computed from them.
    score = function.score if oracle is None else oracle
    if statistics is None or not len(statistics.sample):
        codes = np.stack([np.arange(_COMPARED_ROWS) % size for size in function.grid.sizes], axis=1).astype(np.int32)
        rows = Rows.in_bins(function.grid, codes)
    else:
        n_checked = _n_affordable_rows(function, _CHECKED_ROWS, steps)
        rows = Rows(statistics.rows(_COMPARED_ROWS if oracle is None else n_checked)[0])
    expected = score(rows)
    total = function.terms.intercept + function.all_at(rows.bins(function.grid)).sum(axis=1)
    both = np.stack([total, expected if oracle is None else function.score(rows)])
    difference, largest_score = np.abs(both - expected).max(), np.abs(expected).max()
    is_real = largest_score > function.source.rounding.max(initial=0.0)
    return float(difference / largest_score) if is_real else float(difference)


def _n_affordable_rows(function: Function, limits: tuple[int, int], steps: float) -> int:
    """Return at how many rows `steps` products can evaluate all terms, within limits (fewest, most)."""
    return int(np.clip(steps / max(function.terms.row_cost, 1.0), *limits))


def remainder_share(function: Function, density: Density, steps: float = _STEPS) -> float | None:
    """Return the remainder's variance over the score's under a density, the largest of all outputs."""
    statistics = density.statistics
    if statistics is None or not len(statistics.sample) or not function.has_remainder:
        return None
    rng, n_rows = np.random.default_rng(0), _n_affordable_rows(function, _REMAINDER_ROWS, steps)
    try:
        points = function.terms.points(density.population, n_rows, rng)
    except NoRowsError:  # a saved table has no weights of other features than those of its terms
        return None
    codes, weights = some_of(points, n_rows, rng)
    values = function.all_at(codes)
    both = np.stack([values[:, -1], values.sum(axis=1)], axis=1)
    remainder, score = moments_of_values(both, weights).variance
    return float(np.divide(remainder, score, out=np.zeros_like(score), where=score > 0).max())


def certify_raw(pure: Certificate, function: Function, density: Density, *, is_cut: bool) -> Certificate:
    """Return the certificate of a function's raw terms: slice means are measured, nothing was solved."""
    # `is_cut`: the pure terms have a remainder that the raw ones do not have.
    terms, names = function.terms, function.grid.schema.names
    measured: dict[Names, TermCertificate] = {}
    for key, values in terms.effects.terms.items():
        features = tuple(names[j] for j in key)
        measured[features] = _measured_raw(pure.terms.get(features), values, terms.weights[key])
    orders = [len(key) for key in terms.keys_at_rows]
    higher = None
    if orders:
        higher = HigherCertificate(
            (min(orders), max(orders)), len(orders), 0, 0.0, {}, 0.0, is_exact=False, is_raw=True
        )
    error = pure.reconstruction_error
    if is_cut and not function.scope.is_part:
        error = _reconstruction_error(function, density.statistics, None, _STEPS)
    return dataclasses.replace(
        pure,
        terms=measured,
        reconstruction_error=error,
        higher=higher,
        remainder_share=remainder_share(function, density),
        mean_gap=0.0,
    )


def _measured_raw(pure: TermCertificate | None, values: Floats, weights: Floats) -> TermCertificate:
    """Return the certificate of a raw table, outputs last, with what is known of its weights from the pure term."""
    outputs_first = np.ascontiguousarray(np.moveaxis(values, -1, 0))
    if pure is None:
        return measure(outputs_first, weights, largest(outputs_first), Solution([], "none", 0, 0.0))
    slice_mean = impurity(outputs_first, weights, largest(outputs_first))
    return dataclasses.replace(pure, impurity=slice_mean, method="none")


def sizes_of(tensors: Mapping[Key, Floats]) -> Floats:
    """Return the largest absolute value of all tables, outputs last, for each output; 0 without tables."""
    of_tables = [np.abs(values).reshape(-1, values.shape[-1]).max(axis=0) for values in tensors.values()]
    return np.max(of_tables, axis=0) if of_tables else np.zeros(1)


def measured_again(
    before: Certificate,
    names_of: Callable[[Key], Names],
    tensors: Mapping[Key, Floats],
    weights: Mapping[Key, Floats],
    sizes: Floats | None = None,
) -> Certificate:
    """Return the certificate of new tables and weights by key of terms that it had `before`, measured again.

    Slice means are relative to the term, or to the largest of all tables for a term that is nothing but rounding;
    `sizes` are the largest values, per output, of tables that the new ones were made of.
    """
    measured: dict[Names, TermCertificate] = {}
    sizes = sizes_of(tensors) if sizes is None else np.maximum(sizes, sizes_of(tensors))
    for key, values in tensors.items():
        if names_of(key) in before.terms:
            outputs_first = np.ascontiguousarray(np.moveaxis(values, -1, 0))
            largest_values = largest(outputs_first)
            slice_mean = impurity(
                outputs_first, weights[key], np.where(largest_values > _ROUNDING * sizes, largest_values, sizes)
            )
            measured[names_of(key)] = dataclasses.replace(before.terms[names_of(key)], impurity=slice_mean)
    return dataclasses.replace(before, terms=measured)
