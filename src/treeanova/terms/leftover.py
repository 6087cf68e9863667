"""Low orders that terms of high order still hold after their correction, found at rows.

Coarse bins leave something of main effects and pairs in the terms above them: within a coarse bin, dependent features
still vary together. What main effects and pairs can tell of the sum of all terms of high order at the rows is moved to
their tables: means over the cells of up to 64 bins of a feature and 32 x 32 of a pair, one after the other, each of the
sum that those before have left. A mean over few rows is noisy. So means are shrunk by the noise that the variance
within cells implies. Each table has the bins whose means over one half of the rows tell most of the other half; tables
that show no more than noise, or tell nothing of the other half, stay empty.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from treeanova.core.arrays import BinIndices, Bools, Floats, Ints, Key
from treeanova.density.joint import Points
from treeanova.model.binning import Binning, equal_mass
from treeanova.terms.closed_form import ClosedForm

_BINS = {1: (64, 16), 2: (32, 16, 8, 4)}
_STEPS = 2.0**27  # rows times terms times outputs
_MOST_TERMS = 6_000
_STANDARD_ERRORS = 6.0  # of what noise alone would show


@dataclasses.dataclass(frozen=True, eq=False)
class Leftover:
    """Main effects and pairs that are moved from the terms of high order to the tables.

    Attributes
    ----------
    binnings
        Bins of each feature, merged two by two for the terms that have fewer.
    tables
        What is moved to each term; outputs last.
    """

    binnings: tuple[Binning, ...]
    tables: Mapping[Key, Floats]

    def at_rows(self, codes: BinIndices) -> Floats | float:
        """The sum of all that is moved, at rows given by their bins, shape (n_rows, n_outputs)."""
        return sum((values for _, values in self.terms_at_rows(codes)), start=0.0)

    def terms_at_rows(self, codes: BinIndices) -> Iterator[tuple[Key, Floats]]:
        """What is moved to each term, at rows given by their bins, shape (n_rows, n_outputs)."""
        return ((key, self._at(key, [codes[:, j] for j in key])) for key in self.tables)

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
