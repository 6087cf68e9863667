"""Estimates of the dependence between two features, each with its leave-one-out ratios.

In scores or values z, a kernel estimate of the ratio is r = A C Bᵀ with the table C of row shares and the kernels A and
B of both margins, so that marginals stay exact. A Gaussian copula or another parametric family can be the start of a
kernel estimate, which then corrects it; so can a kernel estimate itself, which removes most of its bias. The rows are
counted once per pair; every bandwidth is then two products of matrices.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from treeanova.core.arrays import Bools, Floats
from treeanova.density.copulas import FAMILIES, ROTATIONS, TAU_RANGE, Family, kendall_tau
from treeanova.density.margins import KernelMatrix, Scale
from treeanova.density.pairs import Candidates, PairStack, make_candidates, outer_products
from treeanova.density.raking import rake_to_marginals

_SCALE_SUFFIX: dict[Scale, str] = {"ranks": "", "values": " of values"}
_SMALLEST_START = 0.05
_RAKING_TOLERANCE = 1e-6  # to compare candidates; the table of the one chosen is raked to its marginals exactly
_TAU_STEPS = (0.1, 0.05, 0.025)
_N_CORRELATIONS = 5
_SAME_CORRELATION = 0.01


def independent(pairs: PairStack) -> Candidates:
    """Independence."""
    ones = np.ones(pairs.shares.shape)
    return Candidates(["independent"] * len(pairs), ones, ones)


def empirical(pairs: PairStack, shrinkage: float) -> Candidates:
    """Shares of the rows mixed with independence."""
    inverse = np.divide(1.0, pairs.product, out=np.zeros_like(pairs.product), where=pairs.product > 0)
    ratio = pairs.shares * inverse
    name = f"shrinkage {shrinkage:g}" if shrinkage else "empirical"
    left_out = _without_row(ratio, inverse / _others(pairs), pairs)
    return make_candidates([name] * len(pairs), ratio, left_out, shrinkage)


def _others(pairs: PairStack) -> float:
    """Number of rows but one."""
    return max(pairs.n_rows - 1, 1.0)


def _without_row(ratio: Floats, own: Floats, pairs: PairStack) -> Floats:
    """A mean over rows without the row itself, whose weight over the number of the others is given."""
    mean = ratio * (pairs.n_rows / _others(pairs))
    mean -= own
    return np.maximum(mean, 0.0, out=mean)


def kernel(pairs: PairStack, bandwidth: float, shrinkage: float, scale: Scale = "ranks") -> Candidates:
    """Kernel estimate with a bandwidth in units of n^(-1/6), mixed with independence."""
    ratio, left_out = _smoothed(pairs, bandwidth, None, scale)
    name = f"kernel {bandwidth:g}{_SCALE_SUFFIX[scale]}" + (f", shrinkage {shrinkage:g}" if shrinkage else "")
    return make_candidates([name] * len(pairs), ratio, left_out, shrinkage)


def _kernels(pairs: PairStack, bandwidth: float, scale: Scale) -> tuple[KernelMatrix, KernelMatrix]:
    width = bandwidth * pairs.n_rows ** (-1 / 6)
    return pairs.first.kernels(width, scale), pairs.second.kernels(width, scale)


def _between(first: KernelMatrix, tables: Floats, second: KernelMatrix) -> Floats:
    """The products A C Bᵀ."""
    return second.right(first.left(tables))


def _self_weights(first: KernelMatrix, second: KernelMatrix, factor: float = 1.0) -> Floats:
    """Weight of a row of each cell in the estimate there, times a factor."""
    return outer_products(factor * first.diagonal, second.diagonal)


def _smoothed(
    pairs: PairStack, bandwidth: float, start: Floats | None, scale: Scale = "ranks"
) -> tuple[Floats, Floats]:
    """The start (None for independence) times the kernel estimate of the rest, and the same for rows left out."""
    a, b = _kernels(pairs, bandwidth, scale)
    ratio = _between(a, pairs.shares, b) if start is None else start * _between(a, pairs.shares / start, b)
    return ratio, _without_row(ratio, _self_weights(a, b, 1 / _others(pairs)), pairs)


def corrected(pairs: PairStack, start: Candidates, bandwidth: float) -> Candidates:
    """An estimate times the kernel estimate of the rest, with exact marginals."""
    ratio, left_out = _smoothed(pairs, bandwidth, np.maximum(start.ratio, _SMALLEST_START))
    ratio, factors = _normalised(pairs, ratio)
    left_out *= factors
    return make_candidates([f"{name} x kernel {bandwidth:g}" for name in start.names], ratio, left_out)


def sharpened(pairs: PairStack, bandwidth: float, scale: Scale = "ranks") -> Candidates:
    """A kernel estimate s times the kernel estimate of the rest, with exact marginals: less bias."""
    # Without row i, s(j) falls by K(j, i) / n; to first order the mean of K / s over others grows by that of K² / s².
    n = pairs.n_rows
    a, b = _kernels(pairs, bandwidth, scale)
    start = np.maximum(_between(a, pairs.shares, b), 1e-12)
    rest = pairs.shares / start
    mean = _between(a, rest, b)
    self_weight = _self_weights(a, b) / start
    growth = _between(a.squares(), rest / start, b.squares()) - self_weight * self_weight / n
    ratio, factors = _normalised(pairs, start * mean)
    start_without = np.maximum(n - self_weight, 0.0) * start
    left_out = start_without * np.maximum(n * mean - self_weight + growth, 0.0) / (n * max(n - 1, 1.0))
    name = f"kernel {bandwidth:g} twice{_SCALE_SUFFIX[scale]}"
    return make_candidates([name] * len(pairs), ratio, left_out * factors)


def gaussian(pairs: PairStack) -> Candidates:
    """Gaussian copula of the ordered bins, independence elsewhere."""
    correlations, differ = _correlations(pairs)
    best = _gaussian_ratio(pairs, correlations[:, 0])
    some = np.flatnonzero(differ)
    if len(some):
        few = pairs.take(some)
        likelihoods = few.mean_log(best[some])
        for r in correlations[some, 1:].T:
            ratio = _gaussian_ratio(few, r)
            attempts = few.mean_log(ratio)
            better = attempts > likelihoods
            best[some[better]], likelihoods[better] = ratio[better], attempts[better]
    return _parametric(pairs, ["gaussian"] * len(pairs), best, 1)


def _gaussian_ratio(pairs: PairStack, correlations: Floats) -> Floats:
    r = correlations[:, None]
    x, y = pairs.first.points, pairs.second.points
    scale = 2 * (1 - r * r)
    logs = outer_products(x, 2 * r / scale * y)
    logs -= (r * r / scale * (x * x) + np.log(1 - r * r) / 2)[:, :, None]
    logs -= (r * r / scale * (y * y))[:, None, :]
    return _cell_means(pairs, logs)


def _correlations(pairs: PairStack) -> tuple[Floats, Bools]:
    """Correlations to try: that of the mean scores of bins, and larger ones where bins are few and weaken it.

    E x y of these means is r Var x Var y to first order, and less where r is large. Also whether to try more than one.
    """
    x, y = pairs.first.mean_points, pairs.second.mean_points
    shares = pairs.shares[:, : x.shape[1], : y.shape[1]]
    spread = (shares.sum(axis=2) * x**2).sum(axis=1) * (shares.sum(axis=1) * y**2).sum(axis=1)
    moment, total = np.einsum("ki,kij,kj->k", x, shares, y, optimize=True), shares.sum(axis=(1, 2))
    varies = spread > 0
    safe = np.where(varies, spread, 1.0)
    ends = np.clip([moment / np.sqrt(safe), moment * total / safe], -0.995, 0.995)
    low, high = np.arctanh(np.where(varies, ends, 0.0))
    return np.tanh(np.linspace(low, high, _N_CORRELATIONS, axis=1)), np.abs(high - low) >= _SAME_CORRELATION


def family(pairs: PairStack) -> Candidates:
    """The likeliest of the parametric families, rotated by the sign of Kendall's τ; chosen on coarse groups."""
    coarse = pairs.coarse
    n_a, n_b = coarse.first.n_ordered_groups, coarse.second.n_ordered_groups
    tau = np.clip(kendall_tau(coarse.shares[:, :n_a, :n_b]), -TAU_RANGE[1], TAU_RANGE[1])
    likelihoods = np.stack([_family_likelihood(coarse, law, tau) for law in FAMILIES])
    chosen = likelihoods.argmax(axis=0)
    ratio = np.empty(pairs.shares.shape)
    names, n_parameters = [""] * len(pairs), np.empty(len(pairs))
    for number in np.unique(chosen):
        law, places = FAMILIES[number], np.flatnonzero(chosen == number)
        refined = _refined_tau(coarse.take(places), law, tau[places], likelihoods[number, places])
        ratio[places] = _family_ratio(pairs.take(places), law, refined)
        n_parameters[places] = law.n_parameters
        for place, of_pair in zip(places, refined, strict=True):
            names[place] = law.name + ROTATIONS.get((law.is_rotated, bool(of_pair >= 0)), "")
    return _parametric(pairs, names, ratio, n_parameters)


def _refined_tau(pairs: PairStack, law: Family, tau: Floats, likelihood: Floats) -> Floats:
    """The likeliest τ of a family among steps to both sides."""
    for step in _TAU_STEPS:
        for neighbour in (np.tanh(np.arctanh(tau) - step), np.tanh(np.arctanh(tau) + step)):
            attempt = np.where(neighbour * tau > 0, _family_likelihood(pairs, law, neighbour), -np.inf)
            tau, likelihood = np.where(attempt > likelihood, neighbour, tau), np.maximum(attempt, likelihood)
    return tau


def _family_ratio(pairs: PairStack, law: Family, tau: Floats) -> Floats:
    """The family's ratio; for τ < 0 that of |τ| with the second feature reversed."""
    u = pairs.first.copula_scores(law, is_reversed=bool(law.is_rotated))
    v, turned = (
        pairs.second.copula_scores(law, is_reversed=turn) for turn in (bool(law.is_rotated), not law.is_rotated)
    )
    v = np.where(tau[:, None] < 0, turned, v)
    bounded = np.clip(np.abs(tau), *TAU_RANGE)[:, None, None]
    return _cell_means(pairs, law.log_density_at(u[:, :, None], v[:, None, :], bounded))


def _family_likelihood(pairs: PairStack, law: Family, tau: Floats) -> Floats:
    return pairs.mean_log(_family_ratio(pairs, law, tau)) - law.n_parameters / pairs.n_rows


def _cell_means(pairs: PairStack, logs: Floats) -> Floats:
    """Mean of a copula's density over the points of each cell, from its logarithm; 1 where a bin has no order."""
    n_a, n_b = pairs.first.n_ordered_groups, pairs.second.n_ordered_groups
    densities = np.exp(logs, out=logs).reshape(len(logs), logs.shape[1] // n_a, n_a, logs.shape[2] // n_b, n_b)
    means: Floats = densities.mean(axis=(1, 3))
    if means.shape == pairs.shares.shape:
        return means
    ratio = np.ones(pairs.shares.shape)
    ratio[:, :n_a, :n_b] = means
    return ratio


def _parametric(pairs: PairStack, names: Sequence[str], ratio: Floats, n_parameters: Floats | int) -> Candidates:
    """Candidates with exact marginals; each parameter costs one unit of log-likelihood."""
    ratio, _ = _normalised(pairs, ratio)
    costs = np.exp(-np.broadcast_to(n_parameters, len(pairs)) / pairs.n_rows)
    return make_candidates(names, ratio, ratio * costs[:, None, None])


def _normalised(pairs: PairStack, ratio: Floats) -> tuple[Floats, Floats]:
    """A ratio raked to exact marginals, without which its likelihood has no meaning, and the factors applied."""
    masses = pairs.first.group_masses, pairs.second.group_masses
    table = rake_to_marginals(ratio * pairs.product, *masses, tolerance=_RAKING_TOLERANCE)
    exact = np.divide(table, pairs.product, out=np.ones_like(table), where=pairs.product > 0)
    return exact, np.divide(exact, ratio, out=np.ones_like(ratio), where=ratio > 1e-100)
