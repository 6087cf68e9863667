"""Pairs of features: shares of the rows in the cells of two margins, and estimates of their dependence.

The table of a pair is w(i, j) = m_a(i) m_b(j) r(i, j) with empirical marginals m and a ratio r. `Candidates` are
estimates of r over groups of bins, and of what they give each row if it is left out: a row changes its own ratio by a
known amount, so leave-one-out likelihoods need no second fit.

Pairs whose margins have the same numbers of groups are estimated together as a `PairStack`, because for most pairs a
numpy call takes longer than its work.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Floats, Ints
from treeanova.density.smooth.margins import Margin, Margins
from treeanova.density.table import rake_to_marginals

_FLOOR = 0.01
_TINY = 1e-300


@dataclasses.dataclass(frozen=True, eq=False)
class PairStack:
    """Pairs of the same shape; arrays have one axis for the pairs, and then one for the groups of each feature.

    `shares` are those of the rows in the cells; `places` number the pairs in the whole stack they were taken from.
    """

    first: Margins
    second: Margins
    shares: Floats
    places: Ints

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def n_rows(self) -> float:
        return self.first.n_rows

    @property
    def n_ordered(self) -> int:
        """Number of features with ordered bins."""
        return (self.first.n_ordered_groups > 0) + (self.second.n_ordered_groups > 0)

    @functools.cached_property
    def product(self) -> Floats:
        return outer_products(self.first.group_masses, self.second.group_masses)

    @functools.cached_property
    def coarse(self) -> PairStack:
        first, second = self.first.coarse, self.second.coarse
        if first.has_unmerged_bins and second.has_unmerged_bins:
            return PairStack(first, second, self.shares, self.places)
        pooled = first.pooling @ self.shares @ second.pooling.swapaxes(1, 2)
        return PairStack(first, second, pooled, self.places)

    def take(self, numbers: Ints) -> PairStack:
        if len(numbers) == len(self):  # numbers are ascending, so that these are all
            return self
        return PairStack(
            self.first.take(numbers), self.second.take(numbers), self.shares[numbers], self.places[numbers]
        )

    def mean(self, values: Floats) -> Floats:
        """Average values of cells over the rows, for each pair."""
        means: Floats = np.einsum("kij,kij->k", self.shares, values)
        return means


def logs_of(ratio: Floats) -> Floats:
    """Return logarithms, finite even for a ratio of zero."""
    logs: Floats = np.maximum(ratio, _TINY)
    return np.log(logs, out=logs)


def outer_products(first: Floats, second: Floats) -> Floats:
    return first[..., :, None] * second[..., None, :]


class Candidates(NamedTuple):
    """An estimate for each of some pairs.

    `left_out` is the ratio that the estimate gives a left-out row of each cell; `likelihoods` are leave-one-out
    log-likelihoods per row, relative to independence; `places` number the pairs in their whole stack.
    """

    names: list[str]
    ratio: Floats
    left_out: Floats
    likelihoods: Floats
    places: Ints

    def take(self, numbers: Ints) -> Candidates:
        if len(numbers) == len(self.names):  # numbers are ascending, so that these are all
            return self
        names, likelihoods = [self.names[i] for i in numbers], self.likelihoods[numbers]
        return Candidates(names, self.ratio[numbers], self.left_out[numbers], likelihoods, self.places[numbers])


def make_candidates(
    pairs: PairStack, names: str | Sequence[str], ratio: Floats, left_out: Floats, shrinkage: float = 0.0
) -> Candidates:
    """Mix both ratios, in place, with independence: by `shrinkage`, and by at least 1 % for a left-out row."""
    share = max(shrinkage, _FLOOR)
    if shrinkage:
        ratio *= 1 - shrinkage
        ratio += shrinkage
    left_out *= 1 - share
    left_out += share
    return judged(pairs, names, ratio, left_out)


def judged(pairs: PairStack, names: str | Sequence[str], ratio: Floats, left_out: Floats) -> Candidates:
    each = [names] * len(pairs) if isinstance(names, str) else list(names)
    return Candidates(each, ratio, left_out, pairs.mean(logs_of(left_out)), pairs.places)


def full_table(first: Margin, second: Margin, ratio: Floats) -> Floats:
    """Return weights over the bins: marginals times the ratio of their groups, raked to exact marginals."""
    table = ratio[np.ix_(first.groups, second.groups)] * np.multiply.outer(first.masses, second.masses)
    return rake_to_marginals(table, first.masses, second.masses)


def full_tables(pairs: PairStack, ratio: Floats) -> Floats:
    """The same for pairs whose groups are the bins themselves."""
    return rake_to_marginals(ratio * pairs.product, pairs.first.group_masses, pairs.second.group_masses)
