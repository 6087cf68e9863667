"""Smooth estimates of how two features hang together, times their exact empirical marginals.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r, brought back to the
exact marginals by Sinkhorn's steps. Ordered bins have normal scores z (of their mid-ranks); a kernel estimate of the
ratio is r = A C Bᵀ with the table C of row shares and, per axis, a matrix A(i, i') ∝ φ((z_i - z_i') / h) scaled so that
A m = 1; φ is Student's t with 5 degrees of freedom, whose tails keep neighbouring parts of the support tied. Bins
without an order (categories, missing values) keep to themselves.

The rows are counted once per pair; every bandwidth is then two products of matrices. Leaving one row out changes its
own ratio by a known amount, so all candidates are judged by their likelihood of rows left out, nothing fitted twice.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import scipy.special

from treeanova.features import Floats

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
_MOST_GROUPS = 128
_FLOOR = 0.01
_TAIL = 5.0
_SINKHORN_STEPS = 200
_SINKHORN_TOLERANCE = 1e-12
_PAIR_SWEEPS = 50


@dataclasses.dataclass(frozen=True, eq=False)
class Margin:
    """The bins of one feature: their masses, which of them are ordered, and n, the number of rows.

    Ordered bins come first. Long axes are pooled into groups of neighbouring bins with about equal mass.
    """

    masses: Floats
    n_ordered: int
    n_rows: float

    @functools.cached_property
    def group(self) -> Ints:
        """Group of each bin."""
        ordered = self.masses[: self.n_ordered]
        extra = np.arange(len(self.masses) - self.n_ordered)
        if self.n_ordered <= _MOST_GROUPS or not ordered.sum():
            return np.arange(len(self.masses), dtype=np.int64)
        middle = (np.cumsum(ordered) - ordered / 2) / ordered.sum()
        wanted = np.minimum((middle * _MOST_GROUPS).astype(np.int64), _MOST_GROUPS - 1)
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
        masses = self.group_masses[: self.n_ordered_groups]
        total = masses.sum()
        if not total:
            return np.zeros(len(masses))
        ranks = (np.cumsum(masses) - masses / 2) / total
        edge = 0.25 / max(self.n_rows * total, 1.0)
        z: Floats = scipy.special.ndtri(np.clip(ranks, edge, 1 - edge))
        return z

    def kernel(self, bandwidth: float) -> Floats:
        """The matrix A of a bandwidth, over groups."""
        return self._kernels(bandwidth)

    @functools.cached_property
    def _kernels(self) -> functools._lru_cache_wrapper[Floats]:
        return functools.lru_cache(maxsize=16)(self._kernel)

    def _kernel(self, bandwidth: float) -> Floats:
        n = self.n_ordered_groups
        matrix = np.zeros((len(self.group_masses),) * 2)
        apart = np.arange(n, len(matrix))
        matrix[apart, apart] = np.divide(
            1.0, self.group_masses[n:], out=np.zeros(len(apart)), where=self.group_masses[n:] > 0
        )
        if n:
            distance = (self.scores[:, None] - self.scores) / bandwidth
            bells = (1 + distance**2 / _TAIL) ** (-(_TAIL + 1) / 2)
            sums = bells @ self.group_masses[:n]
            matrix[:n, :n] = bells / np.maximum(sums, 1e-300)[:, None]
        return matrix


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
    rows = np.add.reduceat(shares, np.searchsorted(first.group, np.arange(len(first.group_masses))), axis=0)
    columns = np.searchsorted(second.group, np.arange(len(second.group_masses)))
    return Pair(first, second, np.add.reduceat(rows, columns, axis=1))


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


def kernel(pair: Pair, bandwidth: float, shrinkage: float) -> Candidate:
    """Kernel estimate with a bandwidth in units of n^(-1/6), mixed with independence."""
    n = pair.first.n_rows
    width = bandwidth * n ** (-1 / 6)
    a, b = pair.first.kernel(width), pair.second.kernel(width)
    ratio = a @ pair.shares @ b.T
    left_out = np.maximum(ratio * n - np.multiply.outer(np.diagonal(a), np.diagonal(b)), 0.0) / max(n - 1, 1.0)
    name = f"kernel {bandwidth:g}" + (f", shrinkage {shrinkage:g}" if shrinkage else "")
    return _candidate(name, ratio, left_out, shrinkage)


def gaussian(pair: Pair) -> Candidate:
    """Gaussian copula of the ordered bins; independence elsewhere. Its one parameter costs one unit of likelihood."""
    n_a, n_b = pair.first.n_ordered_groups, pair.second.n_ordered_groups
    x, y = pair.first.scores[:, None], pair.second.scores
    shares = pair.shares[:n_a, :n_b]
    moments = [(shares * part).sum() for part in (x * y, x * x, y * y)]
    scale = np.sqrt(moments[1] * moments[2])
    r = float(np.clip(moments[0] / scale if scale > 0 else 0.0, -0.995, 0.995))
    ratio = np.ones(pair.shares.shape)
    ratio[:n_a, :n_b] = np.exp(-(r * r * (x * x + y * y) - 2 * r * x * y) / (2 * (1 - r * r))) / np.sqrt(1 - r * r)
    return _candidate("gaussian", ratio, ratio * np.exp(-1 / pair.first.n_rows), 0.0)


def independent(pair: Pair) -> Candidate:
    """Independence."""
    ones = np.ones(pair.shares.shape)
    return Candidate("independent", ones, ones)


def log_likelihood(pair: Pair, candidate: Candidate) -> float:
    """Mean log ratio of the rows, each left out in turn: by how much the candidate beats independence."""
    cells = pair.shares > 0
    return float((pair.shares[cells] * np.log(np.maximum(candidate.left_out[cells], 1e-300))).sum())


def full_table(pair: Pair, ratio: Floats) -> Floats:
    """Weights over the bins: marginals times the ratio of their groups, with exact marginals."""
    fine = ratio[np.ix_(pair.first.group, pair.second.group)]
    table = fine * np.multiply.outer(pair.first.masses, pair.second.masses)
    return to_margins(table, pair.first.masses, pair.second.masses)


def move(margin: Margin, codes: npt.NDArray[np.int32], width: float, rng: np.random.Generator) -> Ints:
    """Bins of rows moved by a kernel in their normal scores; unordered bins stay."""
    ordered = codes < margin.n_ordered
    masses = margin.masses[: margin.n_ordered]
    cumulative = np.cumsum(masses) / max(masses.sum(), 1e-300)
    low = np.concatenate([[0.0], cumulative[:-1]])[codes[ordered]]
    ranks = low + rng.random(ordered.sum()) * (cumulative[codes[ordered]] - low)
    z = scipy.special.ndtri(np.clip(ranks, 1e-9, 1 - 1e-9)) + width * rng.standard_t(_TAIL, size=ordered.sum())
    moved = codes.astype(np.int64)
    moved[ordered] = np.searchsorted(cumulative, scipy.special.ndtr(z / np.sqrt(1 + width**2 * _TAIL / (_TAIL - 2))))
    moved[ordered] = np.minimum(moved[ordered], margin.n_ordered - 1)
    return moved


def to_margins(table: Floats, rows: Floats, columns: Floats) -> Floats:
    """The table with given marginals whose rows and columns are scaled versions of this one's (Sinkhorn); in place."""
    for _ in range(_SINKHORN_STEPS):
        table *= _scaling(rows, table.sum(axis=1))[:, None]
        factors = _scaling(columns, table.sum(axis=0))
        table *= factors
        if np.abs(factors[columns > 0] - 1).max(initial=0.0) <= _SINKHORN_TOLERANCE:
            break
    return table


def _scaling(wanted: Floats, found: Floats) -> Floats:
    return np.divide(wanted, found, out=np.zeros_like(found), where=found > 0)


BANDWIDTHS = (0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.7, 1.0, 1.4, 2.0)
SHRINKAGES = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5)


def kernel_candidates(pair: Pair, bandwidths: Sequence[float] = BANDWIDTHS) -> list[Candidate]:
    """Kernel estimates at several bandwidths; where an axis has no order, also shrunk towards independence.

    Without any ordered axis a kernel is the table of shares itself.
    """
    n_ordered = (pair.first.n_ordered > 0) + (pair.second.n_ordered > 0)
    if n_ordered == 0:
        return [empirical(pair, shrinkage) for shrinkage in SHRINKAGES]
    shrinkages = (0.0,) if n_ordered == 2 else (0.0, 0.05, 0.2, 0.5)
    return [kernel(pair, bandwidth, shrinkage) for bandwidth in bandwidths for shrinkage in shrinkages]


def all_candidates(pair: Pair) -> list[Candidate]:
    """Every estimate that `Auto` chooses from."""
    simple = [empirical(pair, 0.0), independent(pair)]
    if pair.first.n_ordered and pair.second.n_ordered:
        simple.append(gaussian(pair))
    return simple + kernel_candidates(pair)


def from_pairs(bin_masses: Sequence[Floats], tables: Mapping[tuple[int, int], Floats]) -> Floats:
    """A table of three or more features from those of all pairs: ratios multiplied, then fitted to each in turn."""
    order = len(bin_masses)
    table = functools.reduce(np.multiply.outer, bin_masses)
    for (i, j), pair in tables.items():
        product = np.multiply.outer(bin_masses[i], bin_masses[j])
        table *= _over(_scaling(pair, product), i, j, order)
    for _ in range(_PAIR_SWEEPS):
        worst = 0.0
        for (i, j), pair in tables.items():
            others = tuple(axis for axis in range(order) if axis not in (i, j))
            factors = _scaling(pair, table.sum(axis=others))
            table *= _over(factors, i, j, order)
            worst = max(worst, float((pair * np.abs(factors - 1)).sum()))
        if worst <= _SINKHORN_TOLERANCE:
            break
    total: Floats = table / table.sum()
    return total


def _over(pair: Floats, i: int, j: int, order: int) -> Floats:
    """A table of two axes as one that broadcasts over all."""
    return np.expand_dims(pair, tuple(axis for axis in range(order) if axis not in (i, j)))
