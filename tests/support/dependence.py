"""Oracles of the dependence between two features: loops over rows, and laws of copulas; they need scipy."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize
import scipy.stats

from treeanova.core.arrays import Floats, Ints
from treeanova.density.counting import pool_table
from treeanova.density.smooth.choice import Candidates, PairStack
from treeanova.density.smooth.margins import Margin, Margins, Shape

FLOOR = 0.01  # least share of independence in the ratio of a row that is left out
QUANTILES = np.arange(1, 40) / 40


@dataclasses.dataclass(frozen=True)
class Pair:
    """One pair: its margins, the shares of the rows in the cells of their groups, and a stack of it alone."""

    first: Margin
    second: Margin
    shares: Floats

    @property
    def product(self) -> Floats:
        """Product of the groups' masses."""
        return np.multiply.outer(self.first.group_masses, self.second.group_masses)

    @property
    def alone(self) -> PairStack:
        """A stack of this pair only, without padding."""
        first, second = (Margins([margin], np.array([0]), _unpadded(margin)) for margin in (self.first, self.second))
        return PairStack(first, second, self.shares[None], np.array([0]))


def _unpadded(margin: Margin) -> Shape:
    n_ordered = margin.n_ordered_groups
    return Shape(n_ordered, len(margin.group_masses) - n_ordered, margin.points.size)


def pair_of(first: Margin, second: Margin, shares: Floats) -> Pair:
    """The pair of two margins, from the shares of the rows in the cells of its bins."""
    return Pair(first, second, pool_table(shares, (first.binning, second.binning)))


class Candidate(NamedTuple):
    """The estimate of a single pair."""

    name: str
    ratio: Floats
    left_out: Floats
    likelihood: float


# Rows


def related_codes(n_rows: int = 60, sizes: Sequence[int] = (7, 5), seed: int = 0) -> list[Ints]:
    """Bins of rows in two dependent features."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n_rows)
    columns = [x, 0.7 * x + 0.7 * rng.normal(size=n_rows)]
    return [
        np.digitize(column, np.quantile(column, np.arange(1, size) / size) + 0.1)
        for column, size in zip(columns, sizes, strict=True)
    ]


def pair_of_codes(
    first: Ints,
    second: Ints,
    sizes: tuple[int, int],
    ordered: tuple[int, int] | None = None,
    *,
    values: tuple[Floats | None, Floats | None] = (None, None),
) -> Pair:
    """The pair of two features from the bins of its rows; all bins are ordered unless numbers of them are given."""
    n_first, n_second = ordered or sizes
    shares = np.zeros(sizes)
    np.add.at(shares, (first, second), 1 / len(first))
    return pair_of(
        Margin(shares.sum(axis=1), n_first, len(first), values[0]),
        Margin(shares.sum(axis=0), n_second, len(first), values[1]),
        shares,
    )


def pair_of_cells(cells: Floats, n_rows: float = 1e5) -> Pair:
    """The pair of two ordered features from the shares of its cells."""
    first, second = (Margin(cells.sum(axis=1 - i), cells.shape[i], n_rows) for i in range(2))
    return pair_of(first, second, cells)


def of_one_pair(make: Callable[..., Candidates], pair: Pair, *options: Any) -> Candidate:
    """The estimate of a single pair by a function of stacks."""
    return _only(make(pair.alone, *options))


def listed(candidates: Iterable[Candidates]) -> list[Candidate]:
    """The candidates of a stack of one pair, in the order in which they were tried."""
    return [candidate for some in candidates for candidate in _each(some)]


def _only(candidates: Candidates) -> Candidate:
    [candidate] = _each(candidates)
    return candidate


def _each(candidates: Candidates) -> list[Candidate]:
    return [Candidate(*fields) for fields in zip(*candidates[:3], candidates.likelihoods.tolist(), strict=True)]


# Kernels


def normal_scores(codes: Ints, n_ordered: int, n_bins: int) -> Floats:
    """Normal score of the mid-rank of each ordered bin among the rows in ordered bins."""
    ordered = codes[codes < n_ordered]
    ranks = np.array([((ordered < b).sum() + (ordered == b).sum() / 2) / max(len(ordered), 1) for b in range(n_bins)])
    edge = 0.25 / max(len(ordered), 1)
    scores: Floats = scipy.stats.norm.ppf(np.clip(ranks, edge, 1 - edge))
    return scores


def influence(codes: Ints, n_ordered: int, n_bins: int, width: float, at: Floats | None = None) -> Floats:
    """Symmetric kernel of bins b and c with mean 1 over all rows in every bin b; unordered bins see themselves only."""
    at = normal_scores(codes, n_ordered, n_bins) if at is None else at
    table = np.zeros((n_bins, n_bins))
    for b, c in itertools.product(range(n_bins), repeat=2):
        if b < n_ordered and c < n_ordered:
            table[b, c] = scipy.stats.t.pdf((at[b] - at[c]) / width, df=5)
        elif b == c:
            table[b, c] = 1.0

    def excess(logs: Floats) -> list[Any]:
        """How far the sums of rows are from 1."""
        factors = np.exp(logs)
        return [np.mean([factors[b] * table[b, code] * factors[code] for code in codes]) - 1 for b in range(n_bins)]

    factors = np.exp(scipy.optimize.root(excess, np.zeros(n_bins), tol=1e-13).x)
    return table * np.outer(factors, factors)


def kernel_ratio(first: Ints, second: Ints, of_first: Floats, of_second: Floats, rows: Iterable[int]) -> Floats:
    """Mean over some rows of the product of their kernels, at every cell."""
    ratio: Floats = np.mean([np.outer(of_first[:, first[i]], of_second[:, second[i]]) for i in rows], axis=0)
    return ratio


# Laws


def normal_cells(correlation: float, first: Any, second: Any) -> Floats:
    """Probabilities of the cells of two normals, their bins given by cumulative shares."""
    edges = [scipy.stats.norm.ppf(np.concatenate([[1e-12], shares, [1 - 1e-12]])) for shares in (first, second)]
    grid = np.stack(np.meshgrid(*edges, indexing="ij"), axis=-1)
    below = scipy.stats.multivariate_normal([0, 0], [[1, correlation], [correlation, 1]]).cdf(grid)
    cells = np.diff(np.diff(below, axis=0), axis=1)
    shares: Floats = cells / cells.sum()
    return shares


def clayton(u: Floats, v: Floats, theta: float) -> Floats:
    """Distribution function of Clayton's copula."""
    below: Floats = (u**-theta + v**-theta - 1) ** (-1 / theta)
    return below


def gumbel(u: Floats, v: Floats, theta: float) -> Floats:
    """Distribution function of Gumbel's copula."""
    below: Floats = np.exp(-(((-np.log(u)) ** theta + (-np.log(v)) ** theta) ** (1 / theta)))
    return below


def frank(u: Floats, v: Floats, theta: float) -> Floats:
    """Distribution function of Frank's copula."""
    below: Floats = -np.log1p(np.expm1(-theta * u) * np.expm1(-theta * v) / np.expm1(-theta)) / theta
    return below


LAWS: dict[str, Callable[[Floats, Floats, float], Floats]] = {"clayton": clayton, "gumbel": gumbel, "frank": frank}


def copula_cells(law: Callable[[Floats, Floats, float], Floats], theta: float, first: Any, second: Any) -> Floats:
    """Probabilities of cells from a distribution function; its limits at the edges are 0 and the other rank."""
    below = np.zeros((len(first) + 2, len(second) + 2))
    below[1:-1, 1:-1] = law(np.asarray(first)[:, None], np.asarray(second), theta)
    below[1:-1, -1], below[-1, 1:-1], below[-1, -1] = first, second, 1.0
    cells: Floats = np.diff(np.diff(below, axis=0), axis=1)
    return cells
