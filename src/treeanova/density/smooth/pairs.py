"""Pairs of features: shares of the rows in the cells of two margins, and estimates of the dependence between them.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r. A `Candidate` is an
estimate of r over groups of bins, together with what the same estimate gives for each row if that row is left out: a
row changes its own ratio by a known amount, so that leave-one-out likelihoods need no second fit.

Pairs whose margins have the same numbers of groups are estimated together, as a `PairStack`: most pairs are so small
that a call of numpy takes longer than its work.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.density.counting import pool_table
from treeanova.density.smooth.margins import Margin, MarginStack, StackedMargins
from treeanova.density.table import rake_to_marginals

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

    @property
    def product(self) -> Floats:
        """Product of the groups' masses."""
        return np.multiply.outer(self.first.group_masses, self.second.group_masses)

    @functools.cached_property
    def alone(self) -> PairStack:
        """A stack of this pair only."""
        place = np.zeros(1, dtype=np.int64)
        first, second = (StackedMargins(MarginStack((margin,)), place) for margin in (self.first, self.second))
        return PairStack(first, second, self.shares[None])


def pair_of(first: Margin, second: Margin, shares: Floats) -> Pair:
    """A pair from the shares of the rows in the cells of its bins."""
    return Pair(first, second, pool_table(shares, (first.binning, second.binning)))


@dataclasses.dataclass(frozen=True, eq=False)
class PairStack:
    """Pairs of the same shape; arrays have one axis for the pairs, and then one for the groups of each feature."""

    first: StackedMargins
    second: StackedMargins
    shares: Floats

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def n_rows(self) -> float:
        """Effective number of rows."""
        return self.first.n_rows

    @property
    def n_ordered(self) -> int:
        """Number of features with ordered bins."""
        return (self.first.n_ordered_groups > 0) + (self.second.n_ordered_groups > 0)

    @functools.cached_property
    def product(self) -> Floats:
        """Product of the groups' masses."""
        return outer_products(self.first.group_masses, self.second.group_masses)

    @functools.cached_property
    def coarse(self) -> PairStack:
        """The pairs in fewer groups."""
        first, second = self.first.coarse, self.second.coarse
        if first.has_unmerged_bins and second.has_unmerged_bins:
            return PairStack(first, second, self.shares)
        pooled = first.pooling @ self.shares @ second.pooling.swapaxes(1, 2)
        return PairStack(first, second, pooled)

    def take(self, places: Ints) -> PairStack:
        """Some of the pairs."""
        if len(places) == len(self):  # places are ascending, so that these are all
            return self
        return PairStack(self.first.take(places), self.second.take(places), self.shares[places])

    def logs(self, ratio: Floats) -> Floats:
        """Logarithm of a ratio in each cell."""
        logs: Floats = np.maximum(ratio, _TINY)
        return np.log(logs, out=logs)

    def mean(self, values: Floats) -> Floats:
        """Mean of values in cells over the rows, for each pair."""
        means: Floats = np.einsum("kij,kij->k", self.shares, values)
        return means

    def mean_log(self, ratio: Floats) -> Floats:
        """Mean logarithm of a ratio over the rows, for each pair."""
        return self.mean(self.logs(ratio))


def outer_products(first: Floats, second: Floats) -> Floats:
    """Products of all elements of two vectors, for each of many."""
    return first[..., :, None] * second[..., None, :]


class Candidate(NamedTuple):
    """An estimate of the ratio over groups, and the ratio that it gives to a row of each cell which is left out."""

    name: str
    ratio: Floats
    left_out: Floats


class Candidates(NamedTuple):
    """An estimate for each pair of a stack; names may differ."""

    names: Sequence[str]
    ratio: Floats
    left_out: Floats

    def one(self, place: int) -> Candidate:
        """The estimate of one pair."""
        return Candidate(self.names[place], self.ratio[place], self.left_out[place])

    def take(self, places: Ints) -> Candidates:
        """The estimates of some pairs."""
        if len(places) == len(self.names):  # places are ascending, so that these are all
            return self
        return Candidates([self.names[place] for place in places], self.ratio[places], self.left_out[places])


def make_candidates(names: Sequence[str], ratio: Floats, left_out: Floats, shrinkage: float = 0.0) -> Candidates:
    """Both ratios mixed with independence: by the shrinkage given, and at least 1 % for a row that is left out.

    Both are changed in place: tables of many categories are large.
    """
    share = max(shrinkage, _FLOOR)
    if shrinkage:
        ratio *= 1 - shrinkage
        ratio += shrinkage
    left_out *= 1 - share
    left_out += share
    return Candidates(names, ratio, left_out)


def log_likelihood(pair: Pair, estimate: Candidate) -> float:
    """Leave-one-out log-likelihood per row, relative to independence."""
    return float(pair.alone.mean_log(estimate.left_out[None])[0])


def full_table(first: Margin, second: Margin, ratio: Floats) -> Floats:
    """Weights over the bins: marginals times the ratio of their groups, with exact marginals."""
    table = ratio[np.ix_(first.groups, second.groups)] * np.multiply.outer(first.masses, second.masses)
    return rake_to_marginals(table, first.masses, second.masses)


def full_tables(pairs: PairStack, ratio: Floats) -> Floats:
    """The same for pairs whose groups are the bins themselves."""
    return rake_to_marginals(ratio * pairs.product, pairs.first.group_masses, pairs.second.group_masses)
