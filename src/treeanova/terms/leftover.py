"""Low orders that terms of high order still hold after their correction, found at rows.

Coarse bins leave something of main effects and pairs in the terms above them: within a coarse bin, dependent features
still vary together. What main effects and pairs can tell of the sum of all terms of high order at the rows is moved to
their tables: means over the cells of up to 64 bins of a feature and 32 x 32 of a pair, one after the other, each of the
sum that those before have left. A mean over few rows is noisy. So means are shrunk by the noise that the variance
within cells implies. Each table has the bins whose means over one half of the rows tell most of the other half; tables
that show no more than noise, or tell nothing of the other half, stay empty.

The mean of the sum, order 0, goes to the intercept. What is moved is taken from single terms by fixed shares
(`Allotment`), so that the terms of an order add up to its total whichever of them are listed.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key
from treeanova.density.joint import Points
from treeanova.model.binning import Binning, equal_mass
from treeanova.terms.closed_form import ClosedForm
from treeanova.terms.leafsets import LeafSets

_BINS = {1: (64, 16), 2: (32, 16, 8, 4)}
_HIGHEST_ORDER = max(_BINS)
_STEPS = 2.0**27  # rows times terms times outputs
_MOST_TERMS = 6_000
_STANDARD_ERRORS = 6.0  # of what noise alone would show


@dataclasses.dataclass(frozen=True, eq=False)
class Leftover:
    """Mean, main effects and pairs that are moved from the terms of high order to intercept and tables.

    Attributes
    ----------
    binnings
        Bins of each feature, merged two by two for the terms that have fewer.
    tables
        What is moved to each term; outputs last. The key () has what is moved to the intercept.
    """

    binnings: tuple[Binning, ...]
    tables: Mapping[Key, Floats]

    def with_mean(self, mean: Floats) -> Leftover:
        """The same with a mean moved to the intercept."""
        return Leftover(self.binnings, {**self.tables, (): mean})

    def at_rows(self, codes: BinIndices) -> Floats | float:
        """The sum of all that is moved, at rows given by their bins, shape (n_rows, n_outputs)."""
        return sum((values for _, values in self.terms_at_rows(codes)), start=0.0)

    def terms_at_rows(self, codes: BinIndices) -> Iterator[tuple[Key, Floats]]:
        """What is moved to each term, at rows given by their bins, shape (n_rows, n_outputs)."""
        return ((key, self.at(key, codes)) for key in self.tables)

    def at(self, key: Key, codes: BinIndices) -> Floats:
        """What is moved to one term, at rows; one number per output for the intercept."""
        return self._at(key, [codes[:, j] for j in key])

    def spread(self, key: Key, bins: Sequence[Ints]) -> Floats | float:
        """What goes to a term, over given representatives of its bins."""
        return self._at(key, np.ix_(*bins)) if key in self.tables else 0.0

    def _at(self, key: Key, bins: Sequence[Ints | BinIndices]) -> Floats:
        table = self.tables[key]
        sizes = table.shape[: len(key)]
        cells = (self.binnings[j].coarser(size)[own] for j, size, own in zip(key, sizes, bins, strict=True))
        values: Floats = table[tuple(cells)]
        return values


def nothing_left() -> Leftover:
    """Nothing to move."""
    return Leftover((), {})


@dataclasses.dataclass(frozen=True, eq=False)
class Allotment:
    """From which terms of high order something moved is taken: those of one order that contain its features.

    Each of these gives up a share in proportion to the number of leaves that have it, whether it is listed or not.
    """

    leaf_sets: LeafSets
    order: int

    def can_take(self, key: Key) -> bool:
        """Whether some term of the order contains the features of a key."""
        return self._n_pairs(key) > 0

    def given_up(self, term: Key, keys: Collection[Key]) -> list[tuple[Key, float]]:
        """Those of some keys that a term contains, and the share of what is moved to each that it gives up."""
        if len(term) != self.order:
            return []
        orders = range(min(self.order, _HIGHEST_ORDER) + 1)
        below = [key for order in orders for key in itertools.combinations(term, order) if key in keys]
        if below and term not in self._n_leaves:
            self._n_leaves[term] = self.leaf_sets.n_leaves_with(term)
        return [(key, self._n_leaves[term] / self._n_pairs(key)) for key in below]

    def feature_shares(self, key: Key) -> Floats:
        """Shares of all features where each term's share is divided equally among its features; their sum is 1."""
        counts = self._by_feature(key)
        shares: Floats = counts / counts.sum()
        return shares

    def _n_pairs(self, key: Key) -> float:
        """Number of pairs of a leaf and a term of the order on its path that contains a key."""
        return float(self._by_feature(key).sum()) / self.order

    def _by_feature(self, key: Key) -> Floats:
        if key not in self._counts:
            self._counts[key] = self.leaf_sets.n_subsets_with(key, self.order)
        return self._counts[key]

    @functools.cached_property
    def _counts(self) -> dict[Key, Floats]:
        return {}

    @functools.cached_property
    def _n_leaves(self) -> dict[Key, int]:
        return {}


def find_leftover(form: ClosedForm, keys: Sequence[Key], rows: Points, values: Floats) -> Leftover:
    """What main effects and pairs tell of values at rows, shape (n_rows, n_outputs)."""
    axes = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    binnings = tuple(equal_mass(axis, masses, _BINS[1][0]) for axis, masses in axes)
    left = values - rows.weights @ values
    is_first = np.random.default_rng(0).random(len(left)) < 0.5
    tables: dict[Key, Floats] = {}
    for key in _affordable(form, keys, values.size):
        options = [_cells(binnings, key, rows, limit) for limit in _BINS[len(key)]]
        found = [option.shrunk_means(left, rows.weights) for option in options]
        gains = [
            option.gain(left, rows.weights, is_first) if one.told > 0 else 0.0
            for option, one in zip(options, found, strict=True)
        ]
        best = int(np.argmax(gains))
        if gains[best] > 0:
            tables[key] = found[best].means.reshape(*options[best].shape, -1)
            left -= found[best].means[options[best].numbers]
    return Leftover(binnings, tables)


def _affordable(form: ClosedForm, keys: Sequence[Key], n_values: int) -> list[Key]:
    """Main effects and those pairs that most leaves have, as many as take a reasonable time."""
    mains: list[Key] = [key for key in keys if len(key) == 1]
    pairs = sorted((key for key in keys if len(key) == 2), key=form.leaf_sets.n_leaves_with, reverse=True)
    n_terms = min(int(_STEPS / max(n_values, 1)), _MOST_TERMS)
    return mains + pairs[: max(n_terms - len(mains), 1)]


class _Means(NamedTuple):
    """Means over cells, shape (n_cells, n_outputs), and the variance that they are expected to tell."""

    means: Floats
    told: float


@dataclasses.dataclass(frozen=True, eq=False)
class _Cells:
    """Cells of rows with their masses and effective numbers of rows."""

    shape: tuple[int, ...]
    numbers: Ints
    masses: Floats
    n_rows: Floats

    def means(self, values: Floats, weights: Floats) -> Floats:
        """Means over cells, shape (n_cells, n_outputs); zero in cells without rows."""
        sums = np.stack([np.bincount(self.numbers, weights * column, len(self.masses)) for column in values.T], axis=1)
        return np.divide(sums, self.masses[:, None], out=np.zeros_like(sums), where=self.masses[:, None] > 0)

    def shrunk_means(self, values: Floats, weights: Floats, threshold: float = _STANDARD_ERRORS) -> _Means:
        """Means over cells less their noise; zero where they show no more than noise would, by a threshold."""
        used = self.n_rows > 0
        n_used, n_all = int(used.sum()), float(1 / np.square(weights).sum())
        result, told = np.zeros((len(self.masses), values.shape[1])), 0.0
        if n_used < 2 or n_all <= n_used:
            return _Means(result, told)
        for output, column in enumerate(values.T):
            means = np.bincount(self.numbers, weights * column, len(used))[used] / self.masses[used]
            between = float(self.masses[used] @ means**2)
            within = max(float(weights @ column**2) - between, 0.0) * n_all / (n_all - n_used)
            noise = within / self.n_rows[used]
            from_noise = float(self.masses[used] @ noise)
            signal = between - from_noise
            if signal > threshold * from_noise * np.sqrt(2 / n_used):
                kept = signal / (signal + noise)
                result[used, output] = kept * means
                told += signal * float(self.masses[used] @ kept)
        return _Means(result, told)

    def gain(self, values: Floats, weights: Floats, is_first: Bools) -> float:
        """By how much means over one half of the rows, less their noise, lower the mean square of the other half."""
        gain = 0.0
        for half in (is_first, ~is_first):
            cells = _cells_of(self.shape, self.numbers[half], weights[half])
            guess = cells.shrunk_means(values[half], weights[half], threshold=0.0).means[self.numbers[~half]]
            others = values[~half]
            gain += float((weights[~half] @ (others**2 - (others - guess) ** 2)).sum())
        return gain


def _cells(binnings: Sequence[Binning], key: Key, rows: Points, limit: int) -> _Cells:
    """The cells of a term with at most `limit` bins per feature."""
    shape = tuple(binnings[j].coarser_size(limit) for j in key)
    numbers = np.ravel_multi_index([binnings[j].coarser(limit)[rows.codes[:, j]] for j in key], shape)
    return _cells_of(shape, numbers, rows.weights)


def _cells_of(shape: tuple[int, ...], numbers: Ints, weights: Floats) -> _Cells:
    n_cells = int(np.prod(shape))
    masses = np.bincount(numbers, weights, n_cells).astype(np.float64)
    squares = np.bincount(numbers, weights**2, n_cells).astype(np.float64)
    n_rows = np.divide(masses**2, squares, out=np.zeros(n_cells), where=squares > 0)
    return _Cells(shape, numbers, masses, n_rows)


def cell_means(
    form: ClosedForm, keys: Sequence[Key], rows: Points, values: Floats, limit: int, *, are_drawn: bool
) -> tuple[tuple[Binning, ...], dict[Key, Floats]]:
    """Means of values at rows over the cells of some terms, with at most `limit` bins per feature; less noise of draws.

    Cells without rows have zero.
    """
    axes = zip(form.leaf_sets.grid.axes, form.masses, strict=True)
    binnings = tuple(equal_mass(axis, masses, limit) for axis, masses in axes)
    centred = values - rows.weights @ values
    means = {}
    for key in keys[: max(int(_STEPS / max(values.size, 1)), 1)]:
        cells = _cells(binnings, key, rows, limit)
        found = (
            cells.shrunk_means(centred, rows.weights, 0.0).means if are_drawn else cells.means(centred, rows.weights)
        )
        means[key] = found.reshape(*cells.shape, -1)
    return binnings, means
