"""Moments of terms: variance, covariance with all other terms, mean absolute value."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from treeanova.core.arrays import Floats, Key
from treeanova.density.base import EmpiricalJoint, Joint, Product
from treeanova.model.effects import Effects
from treeanova.model.grid import Binning, common_refinements
from treeanova.terms import costs


@dataclasses.dataclass(frozen=True, eq=False)
class Moments:
    """Moments of terms, (n_terms, n_outputs); variances plus covariances add up to the variance of the score."""

    variance: Floats
    covariance: Floats
    mean_abs: Floats

    @property
    def score_variance(self) -> Floats:
        return np.asarray((self.variance + self.covariance).sum(axis=0))

    def beyond(self, rounding: Floats) -> Moments:
        """Return moments with zeros for outputs whose score varies no more than rounding (a standard deviation)."""
        is_real = self.score_variance > rounding**2
        return Moments(*(np.where(is_real, array, 0.0) for array in (self.variance, self.covariance, self.mean_abs)))

    def with_covariances(self, changes: Floats) -> Moments:
        """Return moments with changes, (n_changed, n_outputs), added to the covariances of the first terms."""
        covariance = self.covariance.copy()
        covariance[: len(changes)] += changes
        return dataclasses.replace(self, covariance=covariance)

    def with_tables(self, terms: Mapping[Key, Floats], weights: Mapping[Key, Floats], *, uncorrelated: bool) -> Moments:
        """Return moments with exact variances of the first terms, from their tables, and optionally no covariances."""
        variance, mean_abs = self.variance.copy(), self.mean_abs.copy()
        if terms:
            variance[: len(terms)], mean_abs[: len(terms)] = _moments_of_tables(terms, weights)
        return Moments(variance, np.zeros_like(variance) if uncorrelated else self.covariance, mean_abs)


def moments(
    effects: Effects,
    weights: Mapping[Key, Floats],
    joint: Joint | None,
    rng: np.random.Generator,
    *,
    is_whole: bool = False,
) -> Moments:
    """Return moments of an additive model's terms, at least one, under weights of their cells and a joint density."""
    # Variances and mean absolute values are exact. Covariances are those of the joint density: exact for rows, cells,
    # independent features and their mixtures, otherwise over draws. For very many rows, they are exact if the effects
    # are the whole model (`is_whole`) and its scores were added up, otherwise those of a sample. Without `joint`, they
    # are zero.
    variance, mean_abs = _moments_of_tables(effects.terms, weights)
    if joint is None:
        return Moments(variance, np.zeros_like(variance), mean_abs)
    raw_moments = [(share, _raw_moments(effects, inner, rng, is_whole=is_whole)) for share, inner in joint.components()]
    means, squares, products = (np.sum([share * raw[i] for share, raw in raw_moments], axis=0) for i in range(3))
    # Of a term f and the sum S of all: cov(f, S - f) = E[f S] - E[f] E[S] - (E[f²] - E[f]²).
    return Moments(variance, products - means * means.sum(axis=0) - (squares - means**2), mean_abs)


def _moments_of_tables(terms: Mapping[Key, Floats], weights: Mapping[Key, Floats]) -> tuple[Floats, Floats]:
    """Return variances and mean absolute values of terms under weights of their cells, each (n_terms, n_outputs)."""
    centred = [values - _mean(values, weights[key]) for key, values in terms.items()]
    variance = np.array([_mean(values**2, weights[key]) for values, key in zip(centred, terms, strict=True)])
    return variance, np.array([_mean(np.abs(values), weights[key]) for key, values in terms.items()])


def covariance_changes(
    effects: Effects,
    weights: Mapping[Key, Floats],
    differences: Mapping[Key, Floats],
    bin_masses: Callable[[int], Floats],
    sums: Sequence[int] | None = None,
) -> Floats:
    """Return what to add to the joint density's covariances for terms of two features in all, (n_terms, n_outputs)."""
    # `differences` are, on the pair's axes, the pair's table minus that of the joint density; `bin_masses` gives the
    # masses of all bins of a feature. Both tables have the same marginals, so means of main effects are the same. With
    # `sums`, a number per term, only covariances of terms with equal numbers count.
    place = {key: i for i, key in enumerate(effects.terms)}
    changes = np.zeros((len(place), effects.n_outputs))
    for pair, difference in differences.items():
        centred = _centred_mains(effects, weights, pair, bin_masses)
        other_terms = {key: values for key, values in centred.items() if key != (pair[0],)}
        if pair in effects.terms:
            other_terms[pair] = effects.terms[pair]
        for one, main in centred.items():
            for other, values in other_terms.items():
                is_counted = sums is None or sums[place[one]] == sums[place[other]]
                if is_counted and one != other and (other == pair or one == (pair[0],)):
                    change = np.einsum("ij,ijk->k", difference, main * values)  # a sum over cells, per output
                    changes[place[one]] += change
                    changes[place[other]] += change
    return changes


def _centred_mains(
    effects: Effects, weights: Mapping[Key, Floats], pair: Key, bin_masses: Callable[[int], Floats]
) -> dict[Key, Floats]:
    """Return a pair's main effects, centred, averaged over the bins of its axes, shaped to multiply its table."""
    centred: dict[Key, Floats] = {}
    for axis, (j, binning) in enumerate(zip(pair, effects.binnings_of(pair), strict=True)):
        key = (j,)
        if key in effects.terms:
            values = effects.terms[key] - _mean(effects.terms[key], weights[key])
            main_binning = effects.binnings_of(key)[0]
            if not main_binning.equals(binning):
                masses = bin_masses(j)  # unweighted in merged bins without mass
                shares = np.where(binning.spread(binning.pool(masses)) > 0, masses, 1.0)
                averages = binning.pool(shares[:, None] * main_binning.spread(values))
                values = averages / binning.pool(shares)[:, None]
            centred[key] = np.expand_dims(values, 1 - axis)
    return centred


RawMoments = tuple[Floats, Floats, Floats]  # means of terms, of their squares, of their products with the sum of all


def _raw_moments(effects: Effects, component: Joint, rng: np.random.Generator, *, is_whole: bool) -> RawMoments:
    """Return raw moments of terms under one component of a density: in closed form if it has one, else over rows."""
    if isinstance(component, Product):
        return _raw_moments_of_product(effects, component)
    if isinstance(component, EmpiricalJoint) and is_whole and not component.has_exact_points:
        sums = {key: component.statistics.score_sums(key, effects.binnings.get(key)) for key in effects.terms}
        score_sums = {key: of_cells for key, of_cells in sums.items() if of_cells is not None}
        if len(score_sums) == len(sums):
            return _raw_moments_of_sums(effects, component, score_sums)
    codes, weights = component.points(costs.MOMENT_DRAWS, rng)
    means, squares, products = np.zeros((3, len(effects.terms), effects.n_outputs))
    for start in range(0, len(codes), costs.MOMENT_ROWS):
        block, weight = codes[start : start + costs.MOMENT_ROWS], weights[start : start + costs.MOMENT_ROWS, None]
        weighted_total = np.zeros((len(block), effects.n_outputs))
        for key in effects.terms:  # one at a time: all terms at many rows would take gigabytes
            weighted_total += effects.at(key, block)
        weighted_total *= weight
        for position, key in enumerate(effects.terms):
            values = effects.at(key, block)
            weighted = values * weight
            means[position] += weighted.sum(axis=0)
            squares[position] += np.einsum("nk,nk->k", weighted, values)
            products[position] += np.einsum("nk,nk->k", weighted_total, values)
    return means, squares, products


def _raw_moments_of_sums(effects: Effects, component: EmpiricalJoint, score_sums: Mapping[Key, Floats]) -> RawMoments:
    """Return raw moments from sums of the score in the cells of each term: E[term × score] is a sum over cells."""
    means, squares, products = np.zeros((3, len(effects.terms), effects.n_outputs))
    for position, (key, values) in enumerate(effects.terms.items()):
        weights = component.table(key, effects.binnings.get(key))
        means[position], squares[position] = _mean(values, weights), _mean(values**2, weights)
        sums_of_terms = score_sums[key] - weights[..., None] * effects.intercept
        products[position] = (values * sums_of_terms).sum(axis=tuple(range(len(key))))
    return means, squares, products


PurePart = tuple[Floats, tuple[Binning, ...]]  # values of a part of a term, outputs last, and its merged bins


def _on_finer_bins(pure: PurePart, binnings: Sequence[Binning]) -> Floats:
    """Return the values of a part of a term on the finer bins of `binnings`, one per axis."""
    values, coarse_binnings = pure
    for axis, (coarse, fine) in enumerate(zip(coarse_binnings, binnings, strict=True)):
        if coarse.size != fine.size:
            values = values.take(coarse.within(fine), axis=axis)
    return values


def _raw_moments_of_product(effects: Effects, component: Product) -> RawMoments:
    """Return raw moments for independent features: only parts with the same features have products of mean not zero."""
    pure = [_pure_parts(effects, key, component) for key in effects.terms]  # by term, then by subset of its features
    subsets = dict.fromkeys(subset for by_subset in pure for subset in by_subset)
    binnings = {subset: [by_subset[subset][1] for by_subset in pure if subset in by_subset] for subset in subsets}
    axes = {subset: common_refinements(options) for subset, options in binnings.items()}
    tables = {subset: component.table(subset, axes[subset]) if subset else np.ones(()) for subset in subsets}
    spread = [
        {subset: _on_finer_bins(table_and_binnings, axes[subset]) for subset, table_and_binnings in by_subset.items()}
        for by_subset in pure
    ]
    total = {subset: sum(by_subset[subset] for by_subset in spread if subset in by_subset) for subset in subsets}
    means = np.array([by_subset[()] for by_subset in spread])
    squares = np.array([sum(_mean(v**2, tables[s]) for s, v in by_subset.items()) for by_subset in spread])
    products = np.array([sum(_mean(v * total[s], tables[s]) for s, v in by_subset.items()) for by_subset in spread])
    return means, squares, products


def _pure_parts(effects: Effects, key: Key, component: Product) -> dict[Key, PurePart]:
    """Return a term as a sum of pure parts, by subset of its features, for independent features."""
    binnings = dict(zip(key, effects.binnings_of(key), strict=True))
    by_subset: dict[Key, Floats] = {(): effects.terms[key]}
    for j in key:  # each array becomes its mean over j and the difference to it; earlier features are means or axes
        masses = binnings[j].pool(component.masses[j])
        for subset, array in list(by_subset.items()):
            mean = np.tensordot(masses, array, axes=(0, len(subset)))
            by_subset[subset] = mean
            by_subset[*subset, j] = array - np.expand_dims(mean, len(subset))
    return {subset: (values, tuple(binnings[j] for j in subset)) for subset, values in by_subset.items()}


def moments_of_values(values: Floats, weights: Floats) -> Moments:
    """Return moments of terms given by values (n_rows, n_terms, n_outputs) at weighted rows."""
    means = np.einsum("ntk,n->tk", values, weights)  # n is a row, t a term, k an output
    centred_sum = values.sum(axis=1) - means.sum(axis=0)
    variance, with_all, mean_abs = np.empty((3, *means.shape))
    terms_at_once = max(costs.MOMENT_CELLS // max(len(values) * means.shape[1], 1), 1)
    for start in range(0, len(means), terms_at_once):
        block = slice(start, start + terms_at_once)
        centred = values[:, block] - means[block]
        variance[block] = np.einsum("ntk,ntk,n->tk", centred, centred, weights)
        with_all[block] = np.einsum("ntk,nk,n->tk", centred, centred_sum, weights)
        mean_abs[block] = np.einsum("ntk,n->tk", np.abs(values[:, block]), weights)
    return Moments(variance, with_all - variance, mean_abs)


def _mean(values: Floats, weights: Floats) -> Floats:
    """Return the mean over cells of values (*cells, n_outputs) with weights of the cells."""
    return np.asarray(np.tensordot(weights, values, axes=weights.ndim))
