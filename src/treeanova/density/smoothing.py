"""Smooth estimates of the dependence between two features, times their exact empirical marginals.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r. Ordered bins have
normal scores of their mid-ranks, and mean values; in one of these, z, a kernel estimate is r = A C Bᵀ with the table C
of row shares and, per axis, a symmetric matrix A(i, j) = d_i φ((z_i - z_j) / h) d_j with factors d such that
A m = 1. So marginals stay exact, and m(i) A(i, j) are the chances to move from bin j to bin i that keep m. φ is
Student's t with 5 degrees of freedom, whose tails keep neighbouring parts of the support tied. Bins without an order
(categories, missing values) keep to themselves. Scores suit heavy tails, values gaps: clusters that lie apart are
neighbours by rank. A Gaussian copula, or one of a few other families, may be taken for a start, and the kernel
estimates what it leaves; so may a kernel estimate itself, which takes out most of its bias.

The rows are counted once per pair; every bandwidth is then two products of matrices. Leaving one row out changes its
own ratio by a known amount, so all candidates are judged by their likelihood of rows left out, nothing fitted twice.
Independence and the Gaussian copula stay unless another estimate is likelier by more than its standard error.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Literal, NamedTuple

import numpy as np
import scipy.special

from treeanova.core.arrays import Floats, Ints
from treeanova.density.copulas import DEGREES, FAMILIES, TAUS, Family, kendall
from treeanova.model.binning import Binning, binning_by

Scale = Literal["ranks", "values"]
_OF: dict[Scale, str] = {"ranks": "", "values": " of values"}
_MOST_GROUPS = 128
_POINTS = 96
_COARSE = 48
_BALANCE_STEPS = 100
_LEAST_START = 0.05
_FLOOR = 0.01
_TAIL = 5.0
_FARTHEST = 1e6
_EDGE = 1e-7
_SINKHORN_STEPS = 200
_MOST_SHRINKING = 0.98
_LARGEST_SCALE = 1e100
_SINKHORN_TOLERANCE = 1e-12
_NEAR_ENOUGH = 1e-6  # to judge a candidate; the table of the one chosen is brought to its marginals exactly


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
    n_points: int = _POINTS

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
    def binning(self) -> Binning:
        """The groups as a binning."""
        return binning_by(self.group, self.masses)

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
        return self._scores_at(min(16, max(1, self.n_points // max(self.n_ordered_groups, 1))))

    @functools.cached_property
    def ranks(self) -> Floats:
        """Ranks of these points among ordered rows, one after the other."""
        ranks: Floats = np.clip(scipy.special.ndtr(self.points.ravel()), _EDGE, 1 - _EDGE)
        return ranks

    @functools.cached_property
    def coarse(self) -> Margin:
        """The groups pooled further, with fewer points."""
        return Margin(self.group_masses, self.n_ordered_groups, self.n_rows, most_groups=_COARSE, n_points=_COARSE)

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
        values = self.values / (np.nanmax(np.abs(self.values)) or 1.0)  # differences of huge ones would overflow
        masses = np.where(np.isfinite(values), self.masses[: self.n_ordered], 0.0)
        group = self.group[: self.n_ordered]
        totals = np.bincount(group, masses)
        sums = np.bincount(group, masses * np.where(masses > 0, values, 0.0))
        known = np.flatnonzero(totals)
        if not len(known):
            return self.scores
        means = np.interp(np.arange(len(totals)), known, sums[known] / totals[known])
        ranks = (np.cumsum(totals) - totals / 2) / totals.sum()
        low, high = np.interp([0.25, 0.75], ranks, means)
        if not high > low:
            return self.scores
        far = _FARTHEST * (high - low)
        return np.clip(means, low - far, high + far) / ((high - low) / 1.349)

    def kernel(self, bandwidth: float, scale: Scale = "ranks") -> Floats:
        """The matrix A of a bandwidth, over groups."""
        if (bandwidth, scale) not in self._kernels:
            self._kernels[bandwidth, scale] = self._kernel(bandwidth, scale)
        return self._kernels[bandwidth, scale]

    @functools.cached_property
    def _kernels(self) -> dict[tuple[float, Scale], Floats]:
        return {}

    @functools.cached_property
    def _squares(self) -> dict[Scale, Floats]:
        """Squared distances between ordered groups, over Student's degrees of freedom."""
        places: dict[Scale, Floats] = {"ranks": self.scores, "values": self.positions}
        return {scale: (at[:, None] - at) ** 2 / _TAIL for scale, at in places.items()}

    def _kernel(self, bandwidth: float, scale: Scale) -> Floats:
        n = self.n_ordered_groups
        base = self._squares[scale] / bandwidth**2
        base += 1
        bells = 1 / (base * base * base)  # the power (_TAIL + 1) / 2
        factors = _balance(bells, self.group_masses[:n])
        bells *= factors[:, None]
        bells *= factors
        apart = _scaling(np.ones(len(self.group_masses) - n), self.group_masses[n:])
        matrix = np.diag(np.concatenate([np.zeros(n), apart])) if len(apart) else bells
        matrix[:n, :n] = bells
        return matrix


def _balance(bells: Floats, masses: Floats) -> Floats:
    """Factors d that bring the weighted mean of every row of d_i K(i, j) d_j to 1; a step takes 2/3 of the error."""
    factors = np.zeros(len(masses))
    if not masses.any():
        return factors
    factors += 1 / np.sqrt(masses.sum())
    for _ in range(_BALANCE_STEPS):
        means = factors * (bells @ (factors * masses))
        factors /= np.cbrt(means * means)
        if np.abs(means - 1).max() <= _SINKHORN_TOLERANCE:
            break
    return factors


class Candidate(NamedTuple):
    """An estimate of the ratio over groups, and the ratio of each cell to a row of it that was left out."""

    name: str
    ratio: Floats
    left_out: Floats


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """Two margins and the shares of the rows in the cells of their groups."""

    first: Margin
    second: Margin
    shares: Floats

    @functools.cached_property
    def product(self) -> Floats:
        """Product of the groups' masses."""
        return np.multiply.outer(self.first.group_masses, self.second.group_masses)

    @functools.cached_property
    def cells_with_rows(self) -> Ints:
        """Flat positions of the cells that rows are in."""
        return np.flatnonzero(self.shares)

    @functools.cached_property
    def shares_there(self) -> Floats:
        """Shares of the rows in these."""
        return np.take(self.shares, self.cells_with_rows)


def pair_of(first: Margin, second: Margin, shares: Floats) -> Pair:
    """A pair from the shares of rows in the cells of its bins."""
    return Pair(first, second, pooled(shares, (first, second)))


def pooled(table: Floats, margins: Sequence[Margin]) -> Floats:
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
    mixed = (1 - shrinkage) * ratio + shrinkage if shrinkage else ratio
    return Candidate(name, mixed, (1 - share) * left_out + share)


def kernel(pair: Pair, bandwidth: float, shrinkage: float, scale: Scale = "ranks") -> Candidate:
    """Kernel estimate with a bandwidth in units of n^(-1/6), mixed with independence."""
    ratio, left_out = _smoothed(pair, bandwidth, None, scale)
    name = f"kernel {bandwidth:g}{_OF[scale]}"
    return _candidate(name + (f", shrinkage {shrinkage:g}" if shrinkage else ""), ratio, left_out, shrinkage)


def _smoothed(pair: Pair, bandwidth: float, start: Floats | None, scale: Scale = "ranks") -> tuple[Floats, Floats]:
    """The start (None for independence) times the kernel estimate of what it leaves; also for rows left out."""
    n = pair.first.n_rows
    width = bandwidth * n ** (-1 / 6)
    a, b = pair.first.kernel(width, scale), pair.second.kernel(width, scale)
    ratio = a @ pair.shares @ b.T if start is None else start * (a @ (pair.shares / start) @ b.T)
    own = np.multiply.outer(np.diagonal(a), np.diagonal(b))
    return ratio, np.maximum(ratio * n - own, 0.0) / max(n - 1, 1.0)


def gaussian(pair: Pair) -> Candidate:
    """Gaussian copula of the ordered bins; independence elsewhere. Its one parameter costs one unit of likelihood."""
    x, y = pair.first.points.reshape(-1, 1), pair.second.points.ravel()
    squares, products = x * x + y * y, 2 * x * y
    ratios = []
    for r in _correlations(pair):
        logs = (r * products - r * r * squares) / (2 * (1 - r * r)) - np.log(1 - r * r) / 2
        ratios.append(_cell_means(pair, logs))
    best = max(ratios, key=lambda ratio: _log_likelihood_of(pair, ratio)) if len(ratios) > 1 else ratios[0]
    return _parametric(pair, "gaussian", best, 1)


def _cell_means(pair: Pair, logs: Floats) -> Floats:
    """Mean of a copula's density over the points of each cell, from its logarithm; 1 where a bin has no order."""
    n_a, n_b = pair.first.n_ordered_groups, pair.second.n_ordered_groups
    ratio = np.ones(pair.shares.shape)
    ratio[:n_a, :n_b] = np.exp(logs).reshape(n_a, -1, n_b, pair.second.points.shape[1]).mean(axis=(1, 3))
    return ratio


def _parametric(pair: Pair, name: str, ratio: Floats, n_parameters: int) -> Candidate:
    """A candidate with exact marginals whose parameters cost one unit of likelihood each."""
    ratio, _ = _normalised(pair, ratio)
    return _candidate(name, ratio, ratio * np.exp(-n_parameters / pair.first.n_rows), 0.0)


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


def family(pair: Pair) -> Candidate:
    """The likeliest of the families, turned as the sign of Kendall's τ tells; found on coarse groups."""
    coarse = pair_of(pair.first.coarse, pair.second.coarse, pair.shares)
    n_a, n_b = coarse.first.n_ordered_groups, coarse.second.n_ordered_groups
    tau = float(np.clip(kendall(coarse.shares[:n_a, :n_b]), -TAUS[1], TAUS[1]))
    likelihoods = [_family_likelihood(coarse, one, tau) for one in FAMILIES]
    best = int(np.argmax(likelihoods))
    one, likelihood = FAMILIES[best], likelihoods[best]
    for step in (0.1, 0.05, 0.025):
        for other in (np.tanh(np.arctanh(tau) - step), np.tanh(np.arctanh(tau) + step)):
            found = _family_likelihood(coarse, one, other) if other * tau > 0 else -np.inf
            if found > likelihood:
                tau, likelihood = float(other), found
    name = one.name + DEGREES.get((one.turned, tau >= 0), "")
    return _parametric(pair, name, _family_ratio(pair, one, tau), one.n_parameters)


def _family_ratio(pair: Pair, one: Family, tau: float) -> Floats:
    """The family's ratio; for τ < 0 that of |τ| with the second feature turned round."""
    u, v = pair.first.ranks[:, None], pair.second.ranks
    u, v = 1 - u if one.turned else u, 1 - v if bool(one.turned) != (tau < 0) else v
    return _cell_means(pair, one.log_density(u, v, min(max(abs(tau), TAUS[0]), TAUS[1])))


def _family_likelihood(pair: Pair, one: Family, tau: float) -> float:
    return _log_likelihood_of(pair, _family_ratio(pair, one, tau)) - one.n_parameters / pair.first.n_rows


def corrected(pair: Pair, start: Candidate, bandwidth: float) -> Candidate:
    """An estimate times the kernel estimate of what it leaves, with exact marginals."""
    ratio, left_out = _smoothed(pair, bandwidth, np.maximum(start.ratio, _LEAST_START))
    ratio, factors = _normalised(pair, ratio)
    return _candidate(f"{start.name} x kernel {bandwidth:g}", ratio, left_out * factors, 0.0)


def sharpened(pair: Pair, bandwidth: float, scale: Scale = "ranks") -> Candidate:
    """A kernel estimate s times the kernel estimate of what it leaves, with exact marginals: less bias."""
    # Without row i, s(j) falls by K(j, i) / n; to first order the mean of K / s over others grows by that of K² / s².
    n = pair.first.n_rows
    width = bandwidth * n ** (-1 / 6)
    a, b = pair.first.kernel(width, scale), pair.second.kernel(width, scale)
    start = np.maximum(a @ pair.shares @ b.T, 1e-12)
    left = pair.shares / start
    mean = a @ left @ b.T
    own = np.multiply.outer(np.diagonal(a), np.diagonal(b)) / start
    grown = (a * a) @ (left / start) @ (b * b).T - own * own / n
    ratio, factors = _normalised(pair, start * mean)
    others = np.maximum(n - own, 0.0) * start * np.maximum(n * mean - own + grown, 0.0) / (n * max(n - 1, 1.0))
    return _candidate(f"kernel {bandwidth:g} twice{_OF[scale]}", ratio, others * factors, 0.0)


def _normalised(pair: Pair, ratio: Floats) -> tuple[Floats, Floats]:
    """A ratio brought to exact marginals, and by what it was multiplied; without that its likelihood means nothing."""
    masses = pair.first.group_masses, pair.second.group_masses
    table = to_margins(ratio * pair.product, *masses, tolerance=_NEAR_ENOUGH)
    exact = np.divide(table, pair.product, out=np.ones_like(table), where=pair.product > 0)
    return exact, np.divide(exact, ratio, out=np.ones_like(ratio), where=ratio > 1e-100)


def independent(pair: Pair) -> Candidate:
    """Independence."""
    ones = np.ones(pair.shares.shape)
    return Candidate("independent", ones, ones)


def log_ratios(pair: Pair, candidate: Candidate) -> Floats:
    """Log ratio of a row left out, in each cell that rows are in."""
    return _logs_there(pair, candidate.left_out)


def log_likelihood(pair: Pair, candidate: Candidate) -> float:
    """Mean log ratio of the rows, each left out in turn: by how much the candidate beats independence."""
    return _log_likelihood_of(pair, candidate.left_out)


def _log_likelihood_of(pair: Pair, ratio: Floats) -> float:
    return float(pair.shares_there @ _logs_there(pair, ratio))


def _logs_there(pair: Pair, ratio: Floats) -> Floats:
    return np.log(np.maximum(np.take(ratio, pair.cells_with_rows), 1e-300))


def full_table(pair: Pair, ratio: Floats) -> Floats:
    """Weights over the bins: marginals times the ratio of their groups, with exact marginals."""
    fine = ratio[np.ix_(pair.first.group, pair.second.group)]
    table = fine * np.multiply.outer(pair.first.masses, pair.second.masses)
    return to_margins(table, pair.first.masses, pair.second.masses)


def to_margins(table: Floats, rows: Floats, columns: Floats, *, tolerance: float = _SINKHORN_TOLERANCE) -> Floats:
    """The table with given marginals whose rows and columns are scaled versions of this one's (Sinkhorn); in place.

    Steps end when no scale changes by more than the tolerance; what they leave is put right, so marginals are exact.
    Every second step goes on along the last change as far as its shrinking promises (Aitken), which saves most of them.
    """
    before = right = np.ones(len(columns))
    for step in range(_SINKHORN_STEPS):
        left = _bounded(rows, table @ right)
        after = _bounded(columns, left @ table)
        if (np.abs(after - right) <= tolerance * right).all():
            right = after
            break
        goes_further = step % 2 and step < _SINKHORN_STEPS - 1
        before, right = right, _further(before, right, after, columns) if goes_further else after
    table *= left[:, None]
    table *= right
    return _rounded(table, rows, columns)


def _further(first: Floats, second: Floats, third: Floats, masses: Floats) -> Floats:
    """The third scales moved on to where changes that shrink as their last one did would lead."""
    logs = np.log(np.maximum([first, second, third], _LARGEST_SCALE**-3))
    earlier, change = logs[1] - logs[0], logs[2] - logs[1]
    ratio = float((masses * earlier) @ change) / max(float((masses * earlier) @ earlier), 1e-300)
    if not 0.0 < ratio < _MOST_SHRINKING:
        return third
    moved: Floats = third * np.exp(np.clip(ratio / (1 - ratio) * change, -1.0, 1.0))
    return np.minimum(moved, _LARGEST_SCALE)


def _rounded(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """What Sinkhorn's steps have left, put right: too full rows and columns scaled down, the others filled up."""
    table *= np.minimum(_bounded(rows, table.sum(axis=1)), 1.0)[:, None]
    table *= np.minimum(_bounded(columns, table.sum(axis=0)), 1.0)
    lacking = np.maximum(rows - table.sum(axis=1), 0.0), np.maximum(columns - table.sum(axis=0), 0.0)
    if lacking[0].any():
        table += np.multiply.outer(lacking[0], _bounded(lacking[1], lacking[0].sum()))
    return table


def _bounded(wanted: Floats, found: Floats) -> Floats:
    """Scales, of which some would run off to infinity where no table with these zeros has such marginals."""
    return np.minimum(wanted / np.maximum(found, _LARGEST_SCALE**-2), _LARGEST_SCALE)


def _scaling(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)


BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
_WIDER = (*BANDWIDTHS[2:], 3.0, 4.0)  # than each of these by two steps, for sharpened estimates
CORRECTION_BANDWIDTHS = (0.5, 0.7, 1.0, 1.4, 2.0, 3.0)
SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)
SCALES: tuple[Scale, ...] = ("ranks", "values")
_STRIDE = 3


def kernel_candidates(
    pair: Pair, bandwidths: Sequence[float] = BANDWIDTHS, scales: Sequence[Scale] = SCALES
) -> list[Candidate]:
    """Kernel estimates at several bandwidths; where an axis has no order, also shrunk towards independence.

    Without any ordered axis a kernel is the table of shares itself. With the bandwidths of this module, an estimate
    sharpened at one above the likeliest is added.
    """
    n_ordered = (pair.first.n_ordered > 0) + (pair.second.n_ordered > 0)
    if n_ordered == 0:
        return [empirical(pair, shrinkage) for shrinkage in SHRINKAGES]
    shrinkages = (0.0,) if n_ordered == 2 else (0.0, 0.05, 0.2, 0.5)
    makes: Makes = {
        (scale, shrinkage): functools.partial(kernel, pair, shrinkage=shrinkage, scale=scale)
        for scale, shrinkage in itertools.product(scales, shrinkages)
    }
    found, (bandwidth, (scale, _)) = _search(pair, bandwidths, makes)
    if tuple(bandwidths) != BANDWIDTHS:
        return found
    return [*found, sharpened(pair, _WIDER[bandwidths.index(bandwidth)], scale)]


Kind = tuple[Scale, float]  # and shrinkage
Makes = Mapping[Kind, Callable[[float], Candidate]]


def _search(pair: Pair, bandwidths: Sequence[float], makes: Makes) -> tuple[list[Candidate], tuple[float, Kind]]:
    """Candidates of each kind at every third bandwidth and, of the likeliest kind, around its best; which is best."""
    tried = range(len(bandwidths) > 1, len(bandwidths), _STRIDE)
    found = {(i, kind): make(bandwidths[i]) for kind, make in makes.items() for i in tried}
    likelihoods = {key: log_likelihood(pair, candidate) for key, candidate in found.items()}
    middle, kind = max(likelihoods, key=lambda key: likelihoods[key])
    for i in set(range(max(middle - _STRIDE + 1, 0), min(middle + _STRIDE, len(bandwidths)))) - set(tried):
        found[i, kind] = makes[kind](bandwidths[i])
        likelihoods[i, kind] = log_likelihood(pair, found[i, kind])
    best, kind = max(likelihoods, key=lambda key: likelihoods[key])
    return list(found.values()), (bandwidths[best], kind)


def all_candidates(pair: Pair, *, families: bool = True) -> list[Candidate]:
    """Every estimate that `Auto` chooses from."""
    found = [empirical(pair, 0.0), independent(pair)]
    if pair.first.n_ordered and pair.second.n_ordered:
        starts = [gaussian(pair), family(pair)] if families else [gaussian(pair)]
        start = max(starts, key=lambda candidate: log_likelihood(pair, candidate))
        makes: Makes = {("ranks", 0.0): functools.partial(corrected, pair, start)}
        found += [*starts, *_search(pair, CORRECTION_BANDWIDTHS, makes)[0]]
    return found + kernel_candidates(pair)
