"""Smooth estimates of how two features hang together, times their exact empirical marginals.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r. Ordered bins have
normal scores of their mid-ranks, and mean values; in one of these, z, a kernel estimate is r = A C Bᵀ with the table C
of row shares and, per axis, a symmetric matrix A(i, j) = d_i φ((z_i - z_j) / h) d_j with factors d such that
A m = 1. So marginals stay exact, and m(i) A(i, j) are the chances to move from bin j to bin i that keep m. φ is
Student's t with 5 degrees of freedom, whose tails keep neighbouring parts of the support tied. Bins without an order
(categories, missing values) keep to themselves. Scores suit heavy tails, values gaps: clusters that lie apart are
neighbours by rank. A Gaussian copula may be taken for a start, and the kernel estimates what it leaves.

The rows are counted once per pair; every bandwidth is then two products of matrices. Leaving one row out changes its
own ratio by a known amount, so all candidates are judged by their likelihood of rows left out, nothing fitted twice.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.special

from treeanova.features import Floats

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Scale = Literal["ranks", "values"]
_MOST_GROUPS = 128
_MOST_GROUPS_OF_THREE = 32
_POINTS = 96
_BALANCE_STEPS = 100
_LEAST_START = 0.05
_FLOOR = 0.01
_TAIL = 5.0
_SINKHORN_STEPS = 200
_SINKHORN_TOLERANCE = 1e-12
_PAIR_SWEEPS = 200
_PAIR_TOLERANCE = 1e-10


@dataclasses.dataclass(frozen=True, eq=False)
class Margin:
    """The bins of one feature: their masses, which of them are ordered, and n, the number of rows.

    Ordered bins come first; `values` are the means of their rows, NaN where there are none. Long axes are pooled into
    groups of neighbouring bins with about equal mass.
    """

    masses: Floats
    n_ordered: int
    n_rows: float
    values: Floats | None = None
    most_groups: int = _MOST_GROUPS

    @functools.cached_property
    def group(self) -> Ints:
        """Group of each bin."""
        ordered = self.masses[: self.n_ordered]
        extra = np.arange(len(self.masses) - self.n_ordered)
        if self.n_ordered <= self.most_groups or not ordered.sum():
            return np.arange(len(self.masses), dtype=np.int64)
        middle = (np.cumsum(ordered) - ordered / 2) / ordered.sum()
        wanted = np.minimum((middle * self.most_groups).astype(np.int64), self.most_groups - 1)
        groups = np.unique(wanted, return_inverse=True)[1]
        return np.concatenate([groups, groups.max() + 1 + extra])

    @functools.cached_property
    def group_masses(self) -> Floats:
        """Mass of each group."""
        return np.bincount(self.group, self.masses).astype(np.float64)

    @functools.cached_property
    def n_ordered_groups(self) -> int:
        """Number of ordered groups."""
        return int(self.group[self.n_ordered - 1]) + 1 if self.n_ordered else 0

    @functools.cached_property
    def scores(self) -> Floats:
        """Normal score of each ordered group's mid-rank among ordered rows."""
        return self._scores_at(1)[:, 0]

    @functools.cached_property
    def points(self) -> Floats:
        """Normal scores at equal steps within each ordered group, more where groups are few."""
        return self._scores_at(min(16, max(1, _POINTS // max(self.n_ordered_groups, 1))))

    def _scores_at(self, n_points: int) -> Floats:
        masses = self.group_masses[: self.n_ordered_groups, None]
        total = masses.sum()
        if not total:
            return np.zeros((len(masses), n_points))
        ranks = (np.cumsum(masses, axis=0) - masses + masses * (np.arange(n_points) + 0.5) / n_points) / total
        edge = 0.25 / max(self.n_rows * total, 1.0)
        z: Floats = scipy.special.ndtri(np.clip(ranks, edge, 1 - edge))
        return z

    @functools.cached_property
    def positions(self) -> Floats:
        """Mean value of each ordered group, in robust standard deviations; groups without values lie between others."""
        if self.values is None or not np.isfinite(self.values).any():
            return self.scores
        masses = np.where(np.isfinite(self.values), self.masses[: self.n_ordered], 0.0)
        group = self.group[: self.n_ordered]
        totals = np.bincount(group, masses)
        sums = np.bincount(group, masses * np.where(masses > 0, self.values, 0.0))
        known = np.flatnonzero(totals)
        if not len(known):
            return self.scores
        means = np.interp(np.arange(len(totals)), known, sums[known] / totals[known])
        ranks = (np.cumsum(totals) - totals / 2) / totals.sum()
        low, high = np.interp([0.25, 0.75], ranks, means)
        return means / ((high - low) / 1.349) if high > low else self.scores

    def kernel(self, bandwidth: float, scale: Scale = "ranks") -> Floats:
        """The matrix A of a bandwidth, over groups."""
        return self._kernels(bandwidth, scale)

    @functools.cached_property
    def _kernels(self) -> functools._lru_cache_wrapper[Floats]:
        return functools.lru_cache(maxsize=32)(self._kernel)

    def _kernel(self, bandwidth: float, scale: Scale) -> Floats:
        n = self.n_ordered_groups
        matrix = np.zeros((len(self.group_masses),) * 2)
        apart = np.arange(n, len(matrix))
        matrix[apart, apart] = _scaling(np.ones(len(apart)), self.group_masses[n:])
        if n:
            at = self.scores if scale == "ranks" else self.positions
            distance = (at[:, None] - at) / bandwidth
            bells = (1 + distance**2 / _TAIL) ** (-(_TAIL + 1) / 2)
            factors = _balance(bells, self.group_masses[:n])
            matrix[:n, :n] = bells * np.multiply.outer(factors, factors)
        return matrix


def _balance(bells: Floats, masses: Floats) -> Floats:
    """Factors d that bring the weighted mean of every row of d_i K(i, j) d_j to 1; each step halves the error."""
    factors = np.zeros(len(masses))
    if not masses.any():
        return factors
    factors += 1 / np.sqrt(masses.sum())
    for _ in range(_BALANCE_STEPS):
        means = factors * (bells @ (factors * masses))
        factors /= np.sqrt(means)
        if np.abs(means - 1).max() <= _SINKHORN_TOLERANCE:
            break
    return factors


class Candidate(NamedTuple):
    """An estimate of the ratio over groups, and the ratio of each cell to a row of it that was left out."""

    name: str
    ratio: Floats
    left_out: Floats


class Pair(NamedTuple):
    """Two margins and the shares of the rows in the cells of their groups."""

    first: Margin
    second: Margin
    shares: Floats

    @property
    def product(self) -> Floats:
        """Product of the groups' masses."""
        return np.multiply.outer(self.first.group_masses, self.second.group_masses)


def pair_of(first: Margin, second: Margin, shares: Floats) -> Pair:
    """A pair from the shares of rows in the cells of its bins."""
    return Pair(first, second, _pooled(shares, (first, second)))


def _pooled(table: Floats, margins: Sequence[Margin]) -> Floats:
    """A table over bins as one over groups."""
    for axis, margin in enumerate(margins):
        starts = np.searchsorted(margin.group, np.arange(len(margin.group_masses)))
        table = np.add.reduceat(table, starts, axis=axis)
    return table


def empirical(pair: Pair, shrinkage: float) -> Candidate:
    """Shares of the rows mixed with independence."""
    n = pair.first.n_rows
    inverse = np.divide(1.0, pair.product, out=np.zeros_like(pair.product), where=pair.product > 0)
    ratio = pair.shares * inverse
    left_out = np.maximum(ratio * n - inverse, 0.0) / max(n - 1, 1.0)
    name = f"shrinkage {shrinkage:g}" if shrinkage else "empirical"
    return _candidate(name, ratio, left_out, shrinkage)


def _candidate(name: str, ratio: Floats, left_out: Floats, shrinkage: float) -> Candidate:
    """Both ratios mixed with independence; a row left out is never judged by less than a little of it."""
    share = max(shrinkage, _FLOOR)
    return Candidate(name, (1 - shrinkage) * ratio + shrinkage, (1 - share) * left_out + share)


def kernel(pair: Pair, bandwidth: float, shrinkage: float, scale: Scale = "ranks") -> Candidate:
    """Kernel estimate with a bandwidth in units of n^(-1/6), mixed with independence."""
    ratio, left_out = _smoothed(pair, bandwidth, np.ones(pair.shares.shape), scale)
    name = f"kernel {bandwidth:g}{' of values' if scale == 'values' else ''}"
    return _candidate(name + (f", shrinkage {shrinkage:g}" if shrinkage else ""), ratio, left_out, shrinkage)


def _smoothed(pair: Pair, bandwidth: float, start: Floats, scale: Scale = "ranks") -> tuple[Floats, Floats]:
    """The start times the kernel estimate of what it leaves; also for rows left out."""
    n = pair.first.n_rows
    width = bandwidth * n ** (-1 / 6)
    a, b = pair.first.kernel(width, scale), pair.second.kernel(width, scale)
    ratio = start * (a @ (pair.shares / start) @ b.T)
    own = np.multiply.outer(np.diagonal(a), np.diagonal(b))
    return ratio, np.maximum(ratio * n - own, 0.0) / max(n - 1, 1.0)


def gaussian(pair: Pair) -> Candidate:
    """Gaussian copula of the ordered bins; independence elsewhere. Its one parameter costs one unit of likelihood."""
    candidates = [_gaussian(pair, r) for r in _correlations(pair)]
    return max(candidates, key=lambda candidate: log_likelihood(pair, candidate))


def _gaussian(pair: Pair, r: float) -> Candidate:
    """Mean of the copula's density over points of each cell, with exact marginals."""
    x, y = pair.first.points.reshape(-1, 1), pair.second.points.ravel()
    logs = -(r * r * (x * x + y * y) - 2 * r * x * y) / (2 * (1 - r * r)) - np.log(1 - r * r) / 2
    n_a, n_b = pair.first.n_ordered_groups, pair.second.n_ordered_groups
    ratio = np.ones(pair.shares.shape)
    ratio[:n_a, :n_b] = np.exp(logs).reshape(n_a, -1, n_b, pair.second.points.shape[1]).mean(axis=(1, 3))
    ratio, _ = _normalised(pair, ratio)
    return _candidate("gaussian", ratio, ratio * np.exp(-1 / pair.first.n_rows), 0.0)


def _correlations(pair: Pair) -> list[float]:
    """Correlations to try: of the mean scores of bins, and more where bins are few and take from it.

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


def corrected(pair: Pair, start: Candidate, bandwidth: float) -> Candidate:
    """An estimate times the kernel estimate of what it leaves, with exact marginals."""
    ratio, left_out = _smoothed(pair, bandwidth, np.maximum(start.ratio, _LEAST_START))
    ratio, factors = _normalised(pair, ratio)
    return _candidate(f"{start.name} x kernel {bandwidth:g}", ratio, left_out * factors, 0.0)


def _normalised(pair: Pair, ratio: Floats) -> tuple[Floats, Floats]:
    """A ratio brought to exact marginals, and by what it was multiplied; without that its likelihood means nothing."""
    table = to_margins(ratio * pair.product, pair.first.group_masses, pair.second.group_masses)
    exact = np.divide(table, pair.product, out=np.ones_like(table), where=pair.product > 0)
    return exact, np.divide(exact, ratio, out=np.ones_like(ratio), where=ratio > 1e-100)


def independent(pair: Pair) -> Candidate:
    """Independence."""
    ones = np.ones(pair.shares.shape)
    return Candidate("independent", ones, ones)


def log_likelihood(pair: Pair, candidate: Candidate) -> float:
    """Mean log ratio of the rows, each left out in turn: by how much the candidate beats independence."""
    cells = pair.shares > 0
    return float((pair.shares[cells] * np.log(np.maximum(candidate.left_out[cells], 1e-300))).sum())


def optimism(pair: Pair, candidate: Candidate) -> Floats:
    """Over bins, the ratio of a row left out over that of one left in."""
    judged = (1 - _FLOOR) * candidate.ratio + _FLOOR
    return (candidate.left_out / judged)[np.ix_(pair.first.group, pair.second.group)]


def full_table(pair: Pair, ratio: Floats) -> Floats:
    """Weights over the bins: marginals times the ratio of their groups, with exact marginals."""
    fine = ratio[np.ix_(pair.first.group, pair.second.group)]
    table = fine * np.multiply.outer(pair.first.masses, pair.second.masses)
    return to_margins(table, pair.first.masses, pair.second.masses)


def move(margin: Margin, codes: npt.NDArray[np.int32], width: float, rng: np.random.Generator) -> Ints:
    """Bins of rows moved by a kernel, which keeps the masses; bins without an order stay."""
    groups = margin.group[codes]
    matrix = margin.kernel(width)
    moved = np.empty(len(codes), dtype=np.int64)
    for group in np.unique(groups):
        own = groups == group
        cumulative = np.cumsum(margin.masses * matrix[margin.group, group])
        draws = rng.random(np.count_nonzero(own)) * cumulative[-1]
        moved[own] = np.searchsorted(cumulative, draws, side="right")
    return moved


def to_margins(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """The table with given marginals whose rows and columns are scaled versions of this one's (Sinkhorn); in place."""
    right = np.ones(len(columns))
    for _ in range(_SINKHORN_STEPS):
        left = _scaling(rows, table @ right)
        before, right = right, _scaling(columns, left @ table)
        if (np.abs(right - before) <= _SINKHORN_TOLERANCE * before).all():
            break
    table *= left[:, None]
    table *= right
    return _rounded(table, rows, columns)


def _rounded(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """What Sinkhorn's steps have left, put right: too full rows and columns scaled down, the others filled up."""
    table *= np.minimum(_scaling(rows, table.sum(axis=1)), 1.0)[:, None]
    table *= np.minimum(_scaling(columns, table.sum(axis=0)), 1.0)
    lacking = np.maximum(rows - table.sum(axis=1), 0.0), np.maximum(columns - table.sum(axis=0), 0.0)
    if lacking[0].any():
        table += np.multiply.outer(lacking[0], lacking[1] / lacking[0].sum())
    return table


def _scaling(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)


BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
CORRECTION_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
SCALES: tuple[Scale, ...] = ("ranks", "values")
_STRIDE = 3


def kernel_candidates(
    pair: Pair, bandwidths: Sequence[float] = BANDWIDTHS, scales: Sequence[Scale] = SCALES
) -> list[Candidate]:
    """Kernel estimates at several bandwidths; where an axis has no order, also shrunk towards independence.

    Without any ordered axis a kernel is the table of shares itself.
    """
    n_ordered = (pair.first.n_ordered > 0) + (pair.second.n_ordered > 0)
    if n_ordered == 0:
        return [empirical(pair, shrinkage) for shrinkage in SHRINKAGES]
    shrinkages = (0.0,) if n_ordered == 2 else (0.0, 0.05, 0.2, 0.5)
    found = []
    for scale in scales:
        for shrinkage in shrinkages:
            make = functools.partial(kernel, pair, shrinkage=shrinkage, scale=scale)
            found += _search(pair, bandwidths, make)
    return found


def _search(pair: Pair, bandwidths: Sequence[float], make: Callable[[float], Candidate]) -> list[Candidate]:
    """Candidates at every third bandwidth, and at those around the likeliest of them."""
    found = {i: make(bandwidths[i]) for i in range(len(bandwidths) > 1, len(bandwidths), _STRIDE)}
    best = max(found, key=lambda i: log_likelihood(pair, found[i]))
    around = set(range(max(best - _STRIDE + 1, 0), min(best + _STRIDE, len(bandwidths)))) - set(found)
    return [*found.values(), *(make(bandwidths[i]) for i in sorted(around))]


def all_candidates(pair: Pair) -> list[Candidate]:
    """Every estimate that `Auto` chooses from."""
    simple = [empirical(pair, 0.0), independent(pair)]
    if pair.first.n_ordered and pair.second.n_ordered:
        start = gaussian(pair)
        simple += [start, *_search(pair, CORRECTION_BANDWIDTHS, functools.partial(corrected, pair, start))]
    return simple + kernel_candidates(pair)


def from_pairs(bin_masses: Sequence[Floats], tables: Mapping[tuple[int, int], Floats]) -> Floats:
    """A table of three or more features from those of all pairs: ratios multiplied, then fitted to each in turn."""
    order = len(bin_masses)
    table = functools.reduce(np.multiply.outer, bin_masses)
    for (i, j), pair in tables.items():
        product = np.multiply.outer(bin_masses[i], bin_masses[j])
        table *= _over(_scaling(pair, product), i, j, order)
    return to_pairs(table, tables)


def to_pairs(table: Floats, tables: Mapping[tuple[int, int], Floats]) -> Floats:
    """The table with given tables of pairs that keeps what this one has beyond pairs; in place."""
    order = table.ndim
    for _ in range(_PAIR_SWEEPS):
        worst = 0.0
        for (i, j), pair in tables.items():
            others = tuple(axis for axis in range(order) if axis not in (i, j))
            factors = _scaling(pair, table.sum(axis=others))
            table *= _over(factors, i, j, order)
            worst = max(worst, float((pair * np.abs(factors - 1)).sum()))
        if worst <= _PAIR_TOLERANCE:
            break
    total: Floats = table / table.sum()
    return total


def of_three(
    margins: Sequence[Margin],
    shares: Floats,
    tables: Mapping[tuple[int, int], Floats],
    optimism: Mapping[tuple[int, int], Floats],
) -> Floats:
    """A table of three features with given tables of pairs: these alone, or with what a kernel finds beyond them.

    Rows left out decide. `optimism` has, over the bins of each pair, the ratio of a row left out over that of one in.
    """
    alone = from_pairs([margin.masses for margin in margins], tables)
    coarse = [dataclasses.replace(margin, most_groups=_MOST_GROUPS_OF_THREE) for margin in margins]
    first_bins = [np.searchsorted(margin.group, np.arange(len(margin.group_masses))) for margin in coarse]
    left_out = _pooled(alone, coarse)
    for (i, j), factors in optimism.items():
        left_out *= _over(factors[np.ix_(first_bins[i], first_bins[j])], i, j, 3)
    ratio = _beyond_pairs(coarse, _pooled(shares, coarse), left_out)
    if ratio is None:
        return alone
    start = ratio[np.ix_(*(margin.group for margin in coarse))]
    for axis, margin in enumerate(margins):
        start *= np.expand_dims(margin.masses, tuple(i for i in range(3) if i != axis))
    return to_pairs(start, tables)


def _beyond_pairs(margins: Sequence[Margin], shares: Floats, alone: Floats) -> Floats | None:
    """The ratio of the likeliest kernel estimate of groups; None where rows left out are likelier under pairs alone."""
    cells = np.nonzero(shares)
    n = margins[0].n_rows
    product = functools.reduce(np.multiply, [m.group_masses[c] for m, c in zip(margins, cells, strict=True)])
    best, chosen = _likelihood(shares[cells], alone[cells] / product), None
    for bandwidth, scale in itertools.product(BANDWIDTHS[1::2], SCALES):
        kernels = [margin.kernel(bandwidth * n ** (-1 / 6), scale) for margin in margins]
        ratio = np.einsum("abc,ia,jb,kc->ijk", shares, *kernels, optimize=True)
        own = functools.reduce(np.multiply, [np.diagonal(k)[c] for k, c in zip(kernels, cells, strict=True)])
        found = _likelihood(shares[cells], np.maximum(ratio[cells] * n - own, 0.0) / max(n - 1, 1.0))
        if found > best:
            best, chosen = found, ratio
    return chosen


def _likelihood(shares: Floats, ratios: Floats) -> float:
    return float(shares @ np.log((1 - _FLOOR) * ratios + _FLOOR))


def _over(pair: Floats, i: int, j: int, order: int) -> Floats:
    """A table of two axes as one that broadcasts over all."""
    return np.expand_dims(pair, tuple(axis for axis in range(order) if axis not in (i, j)))
