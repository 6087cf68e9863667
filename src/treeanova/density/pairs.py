"""Pairs of features: shares of the rows in the cells of two margins, and estimates of the dependence between them.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r. A `Candidate` is an
estimate of r over groups of bins, together with what the same estimate gives for each row if that row is left out: a
row changes its own ratio by a known amount, so that leave-one-out likelihoods need no second fit.
"""

from __future__ import annotations

import dataclasses
import functools
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.density.margins import Margin
from treeanova.density.pooling import pool_table
from treeanova.density.raking import rake_to_marginals

_FLOOR = 0.01
_TINY = 1e-300


@dataclasses.dataclass(frozen=True, eq=False)
class Pair:
    """Two margins and the shares of the rows in the cells of their groups."""

    first: Margin
    second: Margin
    shares: Floats

    @property
    def n_rows(self) -> float:
        """Effective number of rows."""
        return self.first.n_rows

    @property
    def n_ordered(self) -> int:
        """Number of features with ordered bins."""
        return (self.first.n_ordered > 0) + (self.second.n_ordered > 0)

    @functools.cached_property
    def product(self) -> Floats:
        """Product of the groups' masses."""
        return np.multiply.outer(self.first.group_masses, self.second.group_masses)

    @functools.cached_property
    def cells_with_rows(self) -> Ints:
        """Flat positions of the cells that have rows."""
        return np.flatnonzero(self.shares)

    @functools.cached_property
    def shares_there(self) -> Floats:
        """Shares of the rows in these cells."""
        return np.take(self.shares, self.cells_with_rows)

    @functools.cached_property
    def coarse(self) -> Pair:
        """The pair in fewer groups."""
        return pair_of(self.first.coarse, self.second.coarse, self.shares)

    def logs(self, ratio: Floats) -> Floats:
        """Logarithm of a ratio in each cell that has rows."""
        return np.log(np.maximum(np.take(ratio, self.cells_with_rows), _TINY))

    def mean_log(self, ratio: Floats) -> float:
        """Mean logarithm of a ratio over the rows."""
        return float(self.shares_there @ self.logs(ratio))


def pair_of(first: Margin, second: Margin, shares: Floats) -> Pair:
    """A pair from the shares of the rows in the cells of its bins."""
    return Pair(first, second, pool_table(shares, (first.binning, second.binning)))


class Candidate(NamedTuple):
    """An estimate of the ratio over groups, and the ratio that it gives to a row of each cell which is left out."""

    name: str
    ratio: Floats
    left_out: Floats


def make_candidate(name: str, ratio: Floats, left_out: Floats, shrinkage: float = 0.0) -> Candidate:
    """Both ratios mixed with independence: by the shrinkage given, and at least 1 % for a row that is left out."""
    share = max(shrinkage, _FLOOR)
    mixed = (1 - shrinkage) * ratio + shrinkage if shrinkage else ratio
    return Candidate(name, mixed, (1 - share) * left_out + share)


def log_likelihood(pair: Pair, estimate: Candidate) -> float:
    """Leave-one-out log-likelihood per row, relative to independence."""
    return pair.mean_log(estimate.left_out)


def full_table(pair: Pair, ratio: Floats) -> Floats:
    """Weights over the bins: marginals times the ratio of their groups, with exact marginals."""
    fine = ratio[np.ix_(pair.first.groups, pair.second.groups)]
    table = fine * np.multiply.outer(pair.first.masses, pair.second.masses)
    return rake_to_marginals(table, pair.first.masses, pair.second.masses)
