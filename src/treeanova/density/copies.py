"""Copies of rows: rows that repeat although the distributions of their features do not make them repeat.

Bootstrap resamples, oversampled classes and joins repeat whole rows. A copy is no new evidence: it agrees with the row
that it was copied from, whatever the density. Rows of discrete features repeat too, and there each row is evidence of
its own. Where rows are copies, most rows that agree in one half of the features agree in the other half too, also rows
in sparse regions; where features are discrete, the other half mostly differs. So equal rows are copies if that is so,
beyond chance, for every way of halving the features that is tried. The numbers of this module were set by
`python -m benchmarks copies`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import Bools, Floats, Ints
from treeanova.density.sample import Hashes, column_sums_of_hashes

_FEWEST_COPIES = 0.005  # of all rows: fewer change no choice
_LARGEST_SHARE = 0.2  # of all repeated rows: a row with more of them is a value, such as zero in all features
_MOST_REPEATS = 10  # on average: a table whose rows repeat more often is discrete
_LEAST_AGREEMENT = 0.25  # of pairs of rows that agree in half of the features, beyond chance
_LEAST_SPARSE_AGREEMENT = 0.5  # the same in sparse regions, where few rows agree by chance
_SPARSE = 0.1  # of all sets of rows that agree in half of the features: those of fewest rows
_FEWEST_SPARSE = 10
_LEAST_SHARE = 0.5  # of copies among pairs of equal rows: with fewer, chance outweighs copies, which do no harm


class Distinct(NamedTuple):
    """Rows without their copies.

    Attributes
    ----------
    places
        Position of one row of each set of copies; a row without copies is a set of its own.
    shares
        Weight of each set, of sum 1.
    excess
        Sum of the products of the shares of two rows over all pairs of copies, each pair twice. The effective number of
        rows is 1 / (Σ share² + excess); a random sample of the rows has the same excess, but for chance.
    """

    places: Ints
    shares: Floats
    excess: float


def all_rows(values: Floats, shares: Floats) -> Distinct:
    """All rows, given by encoded values and shares of the weight."""
    return Distinct(np.arange(len(values)), shares, 0.0)


def without_copies(values: Floats, shares: Floats) -> Distinct:
    """Rows without copies; all of them where equal rows are no copies, or hardly any.

    Of each set of copies, one row stays. What is a copy does not depend on the order of the rows or on their weights.
    """
    if min(values.shape) < 2:
        return all_rows(values, shares)
    whole, *halves = column_sums_of_hashes(values, _halves(values.shape[1]))
    numbers, sizes = _groups(whole)
    are_repeats = ~_are_values(sizes)[numbers]
    if not _are_copies([hashes[are_repeats] for hashes in (whole, *halves)]):
        return all_rows(values, shares)
    alone = len(sizes) + np.arange(len(numbers))
    _, places, sets = np.unique(np.where(are_repeats, numbers, alone), return_index=True, return_inverse=True)
    masses = np.bincount(sets, shares).astype(np.float64)
    return Distinct(places, masses, float(np.square(masses).sum() - np.square(shares).sum()))


def _halves(n_features: int) -> Bools:
    """Which features are summed up: all, then halves such that any two features are in different halves once."""
    bits = np.arange((n_features - 1).bit_length())[:, None]
    return np.vstack([np.ones((1, n_features), dtype=bool), (np.arange(n_features) >> bits) & 1 == 0])


def _groups(hashes: Hashes) -> tuple[Ints, Ints]:
    """Number of the group of equal rows that each row is in, and the size of each group."""
    _, numbers, sizes = np.unique(hashes, return_inverse=True, return_counts=True)
    return numbers, sizes


def _are_values(sizes: Ints) -> Bools:
    """Whether groups of equal rows are values: the largest, as long as each is a large part of the rows that repeat."""
    order = np.argsort(-sizes, kind="stable")
    repeated = np.where(sizes[order] > 1, sizes[order], 0)
    rest = np.cumsum(repeated[::-1])[::-1]
    are_values = np.empty(len(sizes), dtype=bool)
    are_values[order] = np.logical_and.accumulate(repeated > _LARGEST_SHARE * rest)
    return are_values


def _are_copies(hashes: Sequence[Hashes]) -> bool:
    """Whether equal rows are copies, from hashes of all features and of one half of them, for each way of halving."""
    whole, *halves = hashes
    numbers, sizes = _groups(whole)
    n_rows, n_distinct = len(numbers), len(sizes)
    if n_rows - n_distinct <= _FEWEST_COPIES * n_rows or n_rows > _MOST_REPEATS * n_distinct:
        return False
    return all(_agree_like_copies(numbers, sizes, (_groups(half), _groups(whole - half))) for half in halves)


def _agree_like_copies(numbers: Ints, sizes: Ints, halves: Sequence[tuple[Ints, Ints]]) -> bool:
    """Whether rows that agree in one half of the features agree in the other, and mostly as copies do."""
    (rows, n_alike), (_, n_others) = sorted(halves, key=lambda groups: float(_n_pairs(groups[1]).sum()))
    sets = np.empty(len(sizes), dtype=np.int64)  # rows that agree in a half, for each group of equal rows
    sets[numbers] = rows
    if _share_of_copies(sets, sizes) < _LEAST_SHARE:
        return False
    n_pairs, n_equal = _n_pairs(n_alike), np.bincount(sets, _n_pairs(sizes), minlength=len(n_alike))
    n_different = len(numbers) * (len(numbers) - 1) / 2 - n_pairs.sum()
    by_chance = float((_n_pairs(n_others).sum() - n_equal.sum()) / max(n_different, 1.0))
    if _beyond(float(n_equal.sum() / n_pairs.sum()), by_chance) >= _LEAST_AGREEMENT:
        return True
    are_sparse = (n_alike > 1) & (n_alike <= np.quantile(n_alike[n_alike > 1], _SPARSE, method="higher"))
    shares = n_equal[are_sparse] / n_pairs[are_sparse]
    return len(shares) >= _FEWEST_SPARSE and _beyond(float(shares.mean()), by_chance) >= _LEAST_SPARSE_AGREEMENT


def _share_of_copies(sets: Ints, sizes: Ints) -> float:
    """Share of copies among pairs of equal rows, if all rows have as many copies as rows that are alone in a set."""
    are_alone = np.bincount(sets)[sets] == 1
    n_copies = 2 * _n_pairs(sizes[are_alone]).sum() / max(sizes[are_alone].sum(), 1)
    return float(n_copies * sizes.sum() / (2 * _n_pairs(sizes).sum()))


def _n_pairs(sizes: Ints) -> Floats:
    """Number of pairs of rows in each group."""
    counts = sizes.astype(np.float64)
    return counts * (counts - 1) / 2


def _beyond(share: float, by_chance: float) -> float:
    """A share of agreements beyond chance, 1 for agreement of all (Cohen's kappa)."""
    return (share - by_chance) / (1 - by_chance) if by_chance < 1 else 0.0
