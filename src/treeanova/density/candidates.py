"""Estimates of the dependence between two features, each with its leave-one-out ratios.

In scores or values z, a kernel estimate of the ratio is r = A C Bᵀ with the table C of row shares and the kernels A and
B of both margins, so that marginals stay exact. A Gaussian copula or another parametric family can be the start of a
kernel estimate, which then corrects it; so can a kernel estimate itself, which removes most of its bias. The rows are
counted once per pair; every bandwidth is then two products of matrices.
"""

from __future__ import annotations

import numpy as np

from treeanova.core.arrays import Floats
from treeanova.density.copulas import FAMILIES, ROTATIONS, TAU_RANGE, Family, kendall_tau
from treeanova.density.margins import Scale
from treeanova.density.pairs import Candidate, Pair, make_candidate
from treeanova.density.raking import rake_to_marginals

_SCALE_SUFFIX: dict[Scale, str] = {"ranks": "", "values": " of values"}
_SMALLEST_START = 0.05
_RAKING_TOLERANCE = 1e-6  # to compare candidates; the table of the one chosen is raked to its marginals exactly
_TAU_STEPS = (0.1, 0.05, 0.025)


def independent(pair: Pair) -> Candidate:
    """Independence."""
    ones = np.ones(pair.shares.shape)
    return Candidate("independent", ones, ones)


def empirical(pair: Pair, shrinkage: float) -> Candidate:
    """Shares of the rows mixed with independence."""
    n = pair.n_rows
    inverse = np.divide(1.0, pair.product, out=np.zeros_like(pair.product), where=pair.product > 0)
    ratio = pair.shares * inverse
    name = f"shrinkage {shrinkage:g}" if shrinkage else "empirical"
    return make_candidate(name, ratio, _without_row(ratio, inverse, n), shrinkage)


def _without_row(ratio: Floats, self_weight: Floats, n_rows: float) -> Floats:
    """A mean over rows without the row itself."""
    others: Floats = np.maximum(ratio * n_rows - self_weight, 0.0) / max(n_rows - 1, 1.0)
    return others


def kernel(pair: Pair, bandwidth: float, shrinkage: float, scale: Scale = "ranks") -> Candidate:
    """Kernel estimate with a bandwidth in units of n^(-1/6), mixed with independence."""
    ratio, left_out = _smoothed(pair, bandwidth, None, scale)
    name = f"kernel {bandwidth:g}{_SCALE_SUFFIX[scale]}"
    return make_candidate(name + (f", shrinkage {shrinkage:g}" if shrinkage else ""), ratio, left_out, shrinkage)


def _kernels(pair: Pair, bandwidth: float, scale: Scale) -> tuple[Floats, Floats]:
    width = bandwidth * pair.n_rows ** (-1 / 6)
    return pair.first.kernel(width, scale), pair.second.kernel(width, scale)


def _smoothed(pair: Pair, bandwidth: float, start: Floats | None, scale: Scale = "ranks") -> tuple[Floats, Floats]:
    """The start (None for independence) times the kernel estimate of the rest, and the same for rows left out."""
    a, b = _kernels(pair, bandwidth, scale)
    ratio = a @ pair.shares @ b.T if start is None else start * (a @ (pair.shares / start) @ b.T)
    self_weight = np.multiply.outer(np.diagonal(a), np.diagonal(b))
    return ratio, _without_row(ratio, self_weight, pair.n_rows)


def corrected(pair: Pair, start: Candidate, bandwidth: float) -> Candidate:
    """An estimate times the kernel estimate of the rest, with exact marginals."""
    ratio, left_out = _smoothed(pair, bandwidth, np.maximum(start.ratio, _SMALLEST_START))
    ratio, factors = _normalised(pair, ratio)
    return make_candidate(f"{start.name} x kernel {bandwidth:g}", ratio, left_out * factors)


def sharpened(pair: Pair, bandwidth: float, scale: Scale = "ranks") -> Candidate:
    """A kernel estimate s times the kernel estimate of the rest, with exact marginals: less bias."""
    # Without row i, s(j) falls by K(j, i) / n; to first order the mean of K / s over others grows by that of K² / s².
    n = pair.n_rows
    a, b = _kernels(pair, bandwidth, scale)
    start = np.maximum(a @ pair.shares @ b.T, 1e-12)
    rest = pair.shares / start
    mean = a @ rest @ b.T
    self_weight = np.multiply.outer(np.diagonal(a), np.diagonal(b)) / start
    growth = (a * a) @ (rest / start) @ (b * b).T - self_weight * self_weight / n
    ratio, factors = _normalised(pair, start * mean)
    start_without = np.maximum(n - self_weight, 0.0) * start
    left_out = start_without * np.maximum(n * mean - self_weight + growth, 0.0) / (n * max(n - 1, 1.0))
    return make_candidate(f"kernel {bandwidth:g} twice{_SCALE_SUFFIX[scale]}", ratio, left_out * factors)


def gaussian(pair: Pair) -> Candidate:
    """Gaussian copula of the ordered bins, independence elsewhere."""
    x, y = pair.first.points.reshape(-1, 1), pair.second.points.ravel()
    squares, products = x * x + y * y, 2 * x * y
    ratios = []
    for r in _correlations(pair):
        logs = (r * products - r * r * squares) / (2 * (1 - r * r)) - np.log(1 - r * r) / 2
        ratios.append(_cell_means(pair, logs))
    best = max(ratios, key=pair.mean_log) if len(ratios) > 1 else ratios[0]
    return _parametric(pair, "gaussian", best, 1)


def _correlations(pair: Pair) -> list[float]:
    """Correlations to try: that of the mean scores of bins, and larger ones where bins are few and weaken it.

    E x y of these means is r Var x Var y to first order, and less where r is large.
    """
    x, y = pair.first.points.mean(axis=1), pair.second.points.mean(axis=1)
    shares = pair.shares[: len(x), : len(y)]
    spread = (shares.sum(axis=1) @ x**2) * (shares.sum(axis=0) @ y**2)
    if not spread > 0:
        return [0.0]
    moment, total = float(x @ shares @ y), float(shares.sum())
    low, high = np.arctanh(np.clip([moment / np.sqrt(spread), moment * total / spread], -0.995, 0.995))
    n_tries = 1 if abs(high - low) < 0.01 else 5
    return [float(r) for r in np.tanh(np.linspace(low, high, n_tries))]


def family(pair: Pair) -> Candidate:
    """The likeliest of the parametric families, rotated by the sign of Kendall's τ; chosen on coarse groups."""
    n_a, n_b = pair.coarse.first.n_ordered_groups, pair.coarse.second.n_ordered_groups
    tau = float(np.clip(kendall_tau(pair.coarse.shares[:n_a, :n_b]), -TAU_RANGE[1], TAU_RANGE[1]))
    likelihoods = [_family_likelihood(pair.coarse, law, tau) for law in FAMILIES]
    best = int(np.argmax(likelihoods))
    law = FAMILIES[best]
    tau = _refined_tau(pair.coarse, law, tau, likelihoods[best])
    name = law.name + ROTATIONS.get((law.is_rotated, tau >= 0), "")
    return _parametric(pair, name, _family_ratio(pair, law, tau), law.n_parameters)


def _refined_tau(pair: Pair, law: Family, tau: float, likelihood: float) -> float:
    """The likeliest τ of a family among steps to both sides."""
    for step in _TAU_STEPS:
        for neighbour in (np.tanh(np.arctanh(tau) - step), np.tanh(np.arctanh(tau) + step)):
            attempt = _family_likelihood(pair, law, neighbour) if neighbour * tau > 0 else -np.inf
            if attempt > likelihood:
                tau, likelihood = float(neighbour), attempt
    return tau


def _family_ratio(pair: Pair, law: Family, tau: float) -> Floats:
    """The family's ratio; for τ < 0 that of |τ| with the second feature reversed."""
    u, v = pair.first.ranks[:, None], pair.second.ranks
    u, v = 1 - u if law.is_rotated else u, 1 - v if bool(law.is_rotated) != (tau < 0) else v
    return _cell_means(pair, law.log_density(u, v, min(max(abs(tau), TAU_RANGE[0]), TAU_RANGE[1])))


def _family_likelihood(pair: Pair, law: Family, tau: float) -> float:
    return pair.mean_log(_family_ratio(pair, law, tau)) - law.n_parameters / pair.n_rows


def _cell_means(pair: Pair, logs: Floats) -> Floats:
    """Mean of a copula's density over the points of each cell, from its logarithm; 1 where a bin has no order."""
    n_a, n_b = pair.first.n_ordered_groups, pair.second.n_ordered_groups
    ratio = np.ones(pair.shares.shape)
    ratio[:n_a, :n_b] = np.exp(logs).reshape(n_a, -1, n_b, pair.second.points.shape[1]).mean(axis=(1, 3))
    return ratio


def _parametric(pair: Pair, name: str, ratio: Floats, n_parameters: int) -> Candidate:
    """A candidate with exact marginals; each parameter costs one unit of log-likelihood."""
    ratio, _ = _normalised(pair, ratio)
    return make_candidate(name, ratio, ratio * np.exp(-n_parameters / pair.n_rows))


def _normalised(pair: Pair, ratio: Floats) -> tuple[Floats, Floats]:
    """A ratio raked to exact marginals, without which its likelihood has no meaning, and the factors applied."""
    masses = pair.first.group_masses, pair.second.group_masses
    table = rake_to_marginals(ratio * pair.product, *masses, tolerance=_RAKING_TOLERANCE)
    exact = np.divide(table, pair.product, out=np.ones_like(table), where=pair.product > 0)
    return exact, np.divide(exact, ratio, out=np.ones_like(ratio), where=ratio > 1e-100)
